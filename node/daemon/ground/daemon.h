#ifndef NODE_DAEMON_GROUND_DAEMON_H
#define NODE_DAEMON_GROUND_DAEMON_H
/* shoald: the node core with real sockets, disks and processes around it. One protocol thread runs the core, the control
 * sockets and the local socket; what may take long is done by jobs in four threads of their own (disk of records, files and
 * processes, chunks, and what has time), by the bulk thread and by the signing thread.
 *
 * The rooms, from the roof to the ground. Calls and includes go down this list only; what comes from below (a bulk answer, a
 * record that is on the disk) the loop carries up.
 *
 *   main.c, start.c, loop.c  options; start and stop; the loop, effects, what comes from the control sockets and from bulk
 *   local/                   the Unix socket: one door to the table of requests
 *   api/                     the table of requests and their handlers: table.h, client.h
 *   workers/                 the workers of this node: workers.h
 *   disk/                    records, copies, garbage, rot: disk.h
 *   peers/                   where other nodes are, and what they hold: peers.h
 *   render/                  documents out of the core's state (pure)
 *   wire/                    requests and metric points, decoded (pure)
 *   ground/                  this struct, the queue of events, jobs, lines, clocks
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "gossip/beacon.h"
#include "gossip/control.h"
#include "gossip/keys.h"
#include "node/bulk/bulk.h"
#include "node/core/core.h"
#include "node/core/limits.h"
#include "node/core/view/view.h"
#include "node/daemon/ground/clock.h"
#include "node/daemon/ground/events.h"
#include "node/daemon/ground/jobs.h"
#include "node/daemon/ground/lines.h"
#include "node/daemon/ground/meta.h"
#include "node/keep/keep.h"
#include "node/signer.h"
#include "node/slots/slots.h"
#include "store/chunks_lmdb.h"
#include "store/state_lmdb.h"

#define DAEMON_PEER_HINTS_MAX 16
#define DAEMON_CLIENTS_MAX 128
#define DAEMON_DISK_RESERVE_BYTES (16u << 20) /* less free than this is a full disk */
#define DAEMON_CORE_BYTES (256u << 20)        /* cap of the core's memory; touched as it is used */
#define DAEMON_LOG_CAP_BYTES (64u << 20)      /* of one worker's log */

struct daemon_options {
    const char *dir;
    const char *listen; /* HOST:PORT */
    const char *bulk_listen; /* NULL: same host, any port */
    const char *advertise; /* HOST that others reach this node by; NULL: found out */
    const char *slots;
    const char *name; /* NULL: what init or join stored */
    const char *nvml_path; /* NULL: where the loader finds it */
    char peer_hints[DAEMON_PEER_HINTS_MAX][CONTROL_ADDRESS_BYTES];
    uint32_t peer_hint_count;
    uint16_t beacon_port; /* 0: no beacon */
    uint64_t bandwidth_bytes_s; /* of bulk data; 0: no cap */
    bool quiet;
};

/* One struct for each room that keeps something: the ground names them and does not look inside. */
struct daemon_api;     /* api/client.h */
struct daemon_workers; /* workers/workers.h */
struct daemon_disk;    /* disk/disk.h */
struct daemon_peers;   /* peers/peers.h */

struct client;
struct daemon_worker;

struct daemon {
    struct daemon_options options;
    char dir[KEEP_PATH_BYTES];
    char program_dir[KEEP_PATH_BYTES];
    char keep_program[KEEP_PATH_BYTES + 16];
    char name[FACT_NAME_BYTES], mesh_name[FACT_NAME_BYTES];
    char host[FACT_ADDRESS_BYTES]; /* advertised */
    int lock_fd;
    struct keys keys;
    mesh_id mesh;
    uint64_t boot;
    uint64_t started_ms;
    void *context;
    struct zap *zap;
    struct control *control;
    struct beacon *beacon;
    struct signer *signer;
    struct bulk *bulk;
    struct state *state;
    struct chunks *chunks;
    struct jobs *persist_jobs, *file_jobs, *blob_jobs, *idle_jobs;
    struct slot_info slots[SLOTS_MAX];
    size_t slot_count;
    void *core_memory;
    struct node_core *core;
    struct node_effects effects;
    struct daemon_events events;
    bool closed; /* the loop has ended: nothing enters the core any more */

    /* Made and freed by start.c. */
    struct daemon_api *api;
    struct daemon_workers *workers;
    struct daemon_disk *disk;
    struct daemon_peers *peers;
    int listen_fd; /* of the local socket; -1: none */

    uint64_t request_id; /* the last one: of bulk requests, of requests to the core, of clients */
    struct daemon_line *lines;
    uint64_t line_seq;
    uint64_t second_ms; /* next once-a-second work */
    bool stopping;
    bool rekeys, rekey_failed; /* another node: it begins anew when it has stopped */
    node_id was;                 /* the node that it was before it had a key of its own; none: it always had */
    char was_address[FACT_ADDRESS_BYTES];
};

#endif

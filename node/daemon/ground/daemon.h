#ifndef NODE_DAEMON_GROUND_DAEMON_H
#define NODE_DAEMON_GROUND_DAEMON_H
/* shoald: the node core with real sockets, disks and processes around it. One protocol thread runs the core, the
 * control sockets and the local socket. Work that may take long is done in jobs by four threads (the disk of records;
 * files and processes; chunks; work without hurry), by the bulk thread and by the signing thread.
 *
 * The rooms, from the roof to the ground. Calls and includes go down this list only; the loop carries up the news from
 * below (a bulk answer, a record that is on the disk).
 *
 *   main.c, start.c, loop.c  options; start and stop; the loop, effects, input from the control sockets and from bulk
 *   local/                   the Unix socket: one door to the table of requests
 *   relay/                   requests of other nodes' users: another door
 *   api/                     the table of requests and their handlers: table.h, client.h
 *   workers/                 the workers of this node: workers.h
 *   outputs/                 the files that workers leave: outputs.h
 *   disk/                    records, copies, garbage, rot: disk.h
 *   peers/                   the addresses of the peers, and the blobs and series that each may hold: peers.h
 *   render/                  documents out of the core's state (pure)
 *   wire/                    requests and metric points, decoded (pure)
 *   ground/                  struct daemon, the queue of events, jobs, lines, clocks */

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/ports.h"
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
#include "node/daemon/ground/journal.h"
#include "node/daemon/ground/lines.h"
#include "node/daemon/ground/meta.h"
#include "node/keep/keep.h"
#include "node/signer.h"
#include "node/slots/slots.h"
#include "store/chunks_lmdb.h"
#include "store/state_lmdb.h"

#define DAEMON_PEER_HINTS_MAX 16
#define DAEMON_HTTP_HOSTS_MAX 8
#define DAEMON_CLIENTS_MAX 4096 /* of all doors; fewer where descriptors are few (local_clients_max) */
#define DAEMON_PORTS "7413-7612" /* the default range, behind the ports of the control socket and the beacon */
#define DAEMON_DISK_RESERVE_BYTES (16u << 20) /* with less free space the disk counts as full */
#define DAEMON_CORE_BYTES (256u << 20)        /* most memory of the core; pages are touched only as they are used */
#define DAEMON_TAIL_BYTES_MAX (64u * 1024)    /* of the last lines of a failed worker, beside its log */
#define DAEMON_LOG_CAP_BYTES (64u << 20)      /* most bytes of one worker's log */

/* The options of shoald, already checked. Texts are borrowed until daemon_serve returns; `peer_hints` are numeric
 * HOST:PORT. */
struct daemon_options {
    const char *dir;
    const char *listen; /* control socket, HOST:PORT */
    struct ports ports; /* for the bulk socket, the data links of workers and MASTER_PORT */
    const char *bulk_listen; /* bulk socket, HOST:PORT; NULL: the host of `listen`, a port of `ports` */
    char advertise[FACT_ANNOUNCED_MAX][CONTROL_HOST_BYTES]; /* the hosts that peers get, without a port, best first */
    uint32_t advertise_count; /* 0: the hosts of the interfaces, or of `listen` */
    const char *http_hosts[DAEMON_HTTP_HOSTS_MAX]; /* further names that browsers may use for this machine */
    uint32_t http_host_count;
    const char *http; /* where the HTTP door listens, HOST:PORT; "off" or NULL: nowhere */
    bool http_plain; /* plain HTTP for other machines, too */
    const char *slots;
    const char *name; /* node name; NULL: the name stored by init or join */
    const char *nvml_path; /* path of libnvidia-ml; NULL: the loader searches */
    char peer_hints[DAEMON_PEER_HINTS_MAX][CONTROL_ADDRESS_BYTES];
    uint32_t peer_hint_count;
    uint16_t beacon_port; /* UDP; 0: no beacon */
    uint64_t bandwidth_bytes_s; /* cap for sent bulk data; 0: no cap */
    const char *const *worker_env; /* --worker-env: rules of workers/inherited.h */
    size_t worker_env_count;
    char labels[FACT_NODE_LABELS_MAX][FACT_NODE_LABEL_BYTES]; /* --label */
    uint32_t label_count;
    bool is_polite; /* workers, and what runs beside them, have the lowest priority */
    bool no_exec; /* nobody runs commands or reaches ports beside the workers here */
    bool quiet;
};

/* One struct for each room with state: the ground names the structs and does not look inside. */
struct daemon_api;     /* api/client.h */
struct daemon_workers; /* workers/workers.h */
struct daemon_outputs; /* outputs/outputs.h */
struct daemon_disk;    /* disk/disk.h */
struct daemon_peers;   /* peers/peers.h */
struct daemon_http;    /* local/http.c */
struct relay;          /* relay/relay.c */

struct client;
struct daemon_worker;

/* The daemon. Made and freed by start.c; only the protocol thread uses it, except the fields that a job is given. */
struct daemon {
    struct daemon_options options;
    char dir[KEEP_PATH_BYTES];
    char program_dir[KEEP_PATH_BYTES];
    char keep_program[KEEP_PATH_BYTES + 16];
    char name[FACT_NAME_BYTES], mesh_name[FACT_NAME_BYTES];
    char host[FACT_ADDRESS_BYTES]; /* the host of the first address that we announce */
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
    int bulk_port_fd; /* the lock of the bulk socket's port (base/ports.h); 0: the port is not of `ports` */
    struct state *state;
    struct chunks *chunks;
    struct jobs *persist_jobs, *file_jobs, *blob_jobs, *idle_jobs;
    struct slot_info slots[SLOTS_MAX];
    size_t slot_count;
    void *core_memory;
    struct node_core *core;
    struct node_effects effects;
    struct daemon_events events;
    bool closed; /* the loop has ended: events are dropped from now on */

    /* The structs of the rooms, made and freed by start.c. */
    struct daemon_api *api;
    struct daemon_workers *workers;
    struct daemon_outputs *outputs;
    struct daemon_disk *disk;
    struct daemon_peers *peers;
    int listen_fd; /* the local socket, listening; -1: closed */
    struct daemon_http *http; /* NULL: no HTTP door */
    struct relay *relay;
    char http_certificate[KEEP_PATH_BYTES + 32];  /* a file with its certificate; "": it has none */
    char http_address[CONTROL_ADDRESS_BYTES + 8]; /* of the door, http://HOST:PORT; "": it does not listen */

    uint64_t request_id; /* the last number given to a bulk request, to a request to the core or to a client */
    struct daemon_line *lines;
    uint64_t line_count; /* lines that the ring has had */
    uint64_t line_seq;   /* the number of the last line */
    struct journal journal; /* the lines on disk */
    uint64_t second_ms; /* when the once-a-second work is due next */
    bool stopping;
    /* The node gets a new key (peers/rekey.c). `rekeys`: the key is in place; when the loop has ended, start.c starts
     * the daemon again under the new key. `rekey_failed`: the last try failed. */
    bool rekeys, rekey_failed;
    node_id was;                 /* our node id before the last rekey; none: the key is the first one */
    char was_address[FACT_ADDRESS_BYTES];
};

#endif

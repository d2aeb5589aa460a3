#ifndef NODE_DAEMON_GROUND_DAEMON_H
#define NODE_DAEMON_GROUND_DAEMON_H
/* shoald: the node core with real sockets, disks and processes around it. One protocol thread runs the core, the control
 * sockets and the local socket; what may take long is done by jobs in three threads of their own (disk of records, files and
 * processes, chunks), by the bulk thread and by the signing thread.
 *
 *   run.c          start and stop
 *   daemon.c       the loop, effects, what comes from the control sockets and from bulk
 *   hints.c        where absent members may be
 *   tell_bulk.c    where bulk finds the others
 *   persist.c      records and fences on their way to the disk, in the order of tickets
 *   runs.c         the workers of this node: directories, shoal-keep; runs_log.c: what they print; runs_adopt.c: across restarts
 *   likely.c       whom to ask for code and checkpoints
 *   environment.c  what their programs find in the environment
 *   series.c       where metric points and logs live, and what workers report; latest.c: what of that is told at once
 *   local.c        the local socket: connections, requests, replies
 *   local_change.c requests that change something; local_submit.c: the one that brings an experiment
 *   local_worker.c requests of the workers
 *   query.c        requests that read: documents; query_series.c, query_checkpoint.c: what may have to be fetched
 *   verify.c       ... and the one that lets the holders of checkpoints look at their copies
 *   collect.c      what of the store nobody wants any more
 *   scrub.c        reads every chunk again, and mends; repair_queue.c: what could not be mended
 *   busy.c         whether programs outside Shoal use the GPUs
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
#include "node/daemon/disk/repair_queue.h"
#include "node/daemon/ground/clock.h"
#include "node/daemon/ground/events.h"
#include "node/daemon/ground/jobs.h"
#include "node/daemon/ground/lines.h"
#include "node/daemon/ground/meta.h"
#include "node/daemon/workers/latest.h"
#include "node/keep/keep.h"
#include "node/signer.h"
#include "node/slots/slots.h"
#include "store/chunks_lmdb.h"
#include "store/state_lmdb.h"

#define DAEMON_PEER_HINTS_MAX 16
#define DAEMON_HINTED_MAX 32
#define DAEMON_HEARD_MAX 64
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

struct client;

/* What is told of a worker that is no more. */
struct worker_last {
    bool is_taken;
    uint64_t read_id; /* of the read that comes after all that it said; 0: not asked yet */
    int32_t code;
    bool killed, is_unstarted; /* is_unstarted: shoal-keep could not start it, which is this machine's failure */
    char tail[FACT_TAIL_BYTES + 1];
};

enum worker_state { WORKER_NONE, WORKER_FETCHING, WORKER_UNPACKING, WORKER_READY, WORKER_SPAWNING, WORKER_RUNNING };

/* One slot's worker as the shell sees it. */
struct daemon_worker {
    enum worker_state state;
    struct node_effect prepare; /* the effect that made it; its worker part describes the attempt */
    char directory[KEEP_PATH_BYTES];
    struct keep_link link;
    bool has_link;
    bool kill_wanted; /* and shoal-keep has not taken it yet */
    bool stopping_wanted; /* the same of the word that it is asked to leave */
    uint32_t kill_grace_ms;
    uint64_t kill_at_ms; /* 0: no */
    uint64_t term_at_ms; /* it is to stop, but has not connected to this daemon; 0: no */
    uint64_t connects_until_ms; /* until then it may do so, though it has run for long */
    uint32_t stop_grace_ms;
    uint64_t renew_ms;
    uint32_t fetch_tries;
    uint32_t asked_rounds; /* in vain, for its code */
    uint64_t fetch_id;
    bool fetching_checkpoint;
    bool started_seen;
    uint32_t saves; /* checkpoints that it has handed over and that are being stored */
    lease_token token;
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t size;
    uint64_t seed;
    char stop_reason[32];
    uint32_t leaving; /* the generation whose group it was asked to leave, and has not yet; 0: none */
    bool leaves_at_once;
    struct client *client;
    uint64_t group_request; /* id of an open worker_group, 0: none */
    uint32_t data_port;
    uint64_t series_seq; /* next metric point */
    uint64_t log_offset; /* read so far */
    bool log_busy;
    bool ended;
    struct keep_status status;
    struct worker_last last;
    struct latest latest;
};

struct daemon_persist_item;
struct daemon_ended;
struct daemon_push;
struct change_waiting;
struct query_series;
struct query_blob;
struct query_verify_run;
struct daemon_gpu_busy;
struct daemon_confirm;
struct daemon_mend;

#define DAEMON_LOST_MAX 16

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

    struct daemon_persist_item *persist_first, *persist_last; /* in the order of tickets */
    bool persist_busy;
    uint64_t disk_check_ms;
    bool disk_full;
    struct daemon_gpu_busy *gpu_busy;

    struct daemon_worker workers[SLOTS_MAX];
    uint64_t awake_ms; /* when the loop was last seen to go on */
    struct daemon_ended *ended; /* workers that are no more, but for their directories */
    uint64_t request_id; /* of bulk requests and of requests to the core */
    struct daemon_push *pushes;

    int listen_fd;
    struct client *clients;
    uint32_t client_count;
    struct change_waiting *waiting; /* requests that the core has not answered yet */
    struct query_series *series;
    struct query_blob *blob_requests;
    struct query_verify_run *verifies;
    struct daemon_confirm *confirms; /* copies that their holders are reading for the core */
    bool is_collecting;
    struct {
        bool is_busy, is_mending; /* a job is under way */
        bool has_begun;           /* a pass */
        hash256 at;               /* what was read last */
        uint64_t next_ms;
        uint64_t mend_ms;         /* when to look for blobs that lack something; 0: nothing is known to */
        hash256 lost[DAEMON_LOST_MAX]; /* the last chunks that were dropped here as damaged */
        uint32_t lost_count;
        uint64_t checked_bytes, passes, damaged, restored;
        struct repair_queue queue;
    } scrub;
    struct daemon_mend *mends; /* blobs that are being fetched again */
    uint64_t watch_ms;

    struct daemon_line *lines;
    uint64_t line_seq;
    uint64_t second_ms; /* next once-a-second work */
    uint32_t hint_turn, peer_hint_turn;
    uint32_t hint_from; /* the peer that is the next to be tried where --peer says, by its place */
    node_id hinted[DAEMON_HINTED_MAX]; /* absent members that are tried where their record does not say */
    uint32_t hinted_count;
    struct daemon_heard {
        node_id node;
        char address[BEACON_ADDRESS_BYTES];
    } heard[DAEMON_HEARD_MAX]; /* what beacons said of absent members and has not been tried yet, the oldest first */
    uint32_t heard_count;
    struct daemon_bulk_known {
        node_id node;
        char where[FACT_ADDRESS_BYTES + 8];
    } bulk_known[NODE_MEMBERS_MAX]; /* what bulk was told, by the place of the core's peer; places move, so it may be another's */
    bool stopping;
    bool rekeys, rekey_failed; /* another node: it begins anew when it has stopped */
    node_id was;                 /* the node that it was before it had a key of its own; none: it always had */
    char was_address[FACT_ADDRESS_BYTES];
};

/* hints.c */
void daemon_peer_hints_remembered(struct daemon *daemon);
void daemon_peer_hints_tick(struct daemon *daemon);
void daemon_peer_hints_beacon(struct daemon *daemon);

/* persist.c */
int daemon_persist_load(struct daemon *daemon, char error[256]);
void daemon_persist_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_persist_signed(struct daemon *daemon, uint64_t ticket, const uint8_t *envelope, uint32_t count);
void daemon_persist_flush(struct daemon *daemon);
void daemon_persist_close(struct daemon *daemon); /* when no job runs any more; drops what waits: nobody was told of it */

/* runs.c */
void daemon_workers_effect(struct daemon *daemon, const struct node_effect *effect);

/* Its program, which is connected, hears that it shall save and leave, and has its grace from now on. */
void daemon_workers_tell_stop(struct daemon *daemon, struct daemon_worker *worker);
/* After START: what adopted workers reported last, and the ends of those that ended while no daemon was here, are on their way. */
void daemon_workers_deliver_ended(struct daemon *daemon);
void daemon_workers_tick(struct daemon *daemon, uint64_t now_ms);
void daemon_workers_awake(struct daemon *daemon, uint64_t now_ms); /* first in each turn of the loop */
void daemon_workers_poll(struct daemon *daemon, uint32_t slot);
void daemon_workers_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void daemon_workers_settled(struct daemon *daemon, uint64_t request); /* a read of a series has been answered */
void daemon_workers_remove_later(struct daemon *daemon, const char *directory);
void daemon_workers_persisted(struct daemon *daemon); /* more is on the disk: directories of ends that are there may go */
void daemon_workers_close(struct daemon *daemon);

/* likely.c */
#define DAEMON_HOLDERS_MAX 16
/* Whom to ask for the code of an experiment or the text of its configuration, the likeliest first; returns their number. Who has
 * asked all of them in vain asks the next ones with `round` one higher. */
uint32_t daemon_holders_code(const struct daemon *daemon, experiment_id id, uint32_t round, node_id out[DAEMON_HOLDERS_MAX]);

/* Whether anybody is left for that round. */
bool daemon_holders_any(const struct daemon *daemon, uint32_t round);

/* Whom to ask for a checkpoint of an attempt's trial. */
uint32_t daemon_holders_checkpoint(const struct daemon *daemon, const attempt_id *attempt, hash256 blob,
                                  node_id out[DAEMON_HOLDERS_MAX]);

/* Living nodes in the order in which they should hold a trial's series, self included. */
uint32_t daemon_holders_series(const struct daemon *daemon, const attempt_id *attempt, node_id *out, uint32_t capacity);

/* runs_log.c */
/* Reads on what the worker of this slot prints. */
void daemon_workers_log(struct daemon *daemon, uint32_t slot);

/* Of one that has ended: whether all of it is read. If not, daemon_workers_poll is called again. */
bool daemon_workers_log_ends(struct daemon *daemon, uint32_t slot);

/* runs_adopt.c */
/* What shoal-keep keeps of it for the next daemon; its length. */
size_t daemon_workers_identity(const struct daemon_worker *worker, uint8_t out[KEEP_IDENTITY_BYTES_MAX]);
int daemon_workers_adopt(struct daemon *daemon);

/* series.c */
/* Where the series of an attempt live: "m" metric points, "l" logs with the rank. Returns the prefix' length. */
size_t daemon_series_prefix(char kind, const attempt_id *attempt, uint32_t number, uint8_t out[SERIES_PREFIX_BYTES_MAX]);

/* One entry, here and on the node that should hold a copy. ERR_FULL: bulk has enough to write now; others of bulk_series_append. */
int daemon_series_append(struct daemon *daemon, const attempt_id *attempt, char kind, uint32_t rank, uint64_t seq,
                         const uint8_t *bytes, size_t count);

/* The latest metrics of a worker (map group -> map name -> number), as many as fit; returns their length, 0: none. */
uint32_t daemon_series_metrics(const struct daemon *daemon, const struct daemon_worker *worker, uint8_t out[FACT_METRICS_BYTES_MAX]);

/* Of a worker that is adopted: takes over what it reported to the last daemon. The core hears of it after START. */
void daemon_series_adopt(struct daemon *daemon, struct daemon_worker *worker);

/* What a worker says of itself: how far it is; a map of names to numbers, which also becomes a metric point. */
void daemon_series_progress(struct daemon *daemon, struct daemon_worker *worker, uint64_t step);
void daemon_series_report(struct daemon *daemon, struct daemon_worker *worker, const char *group, uint64_t step,
                          struct pack_reader metrics);

/* local.c */
int local_open(struct daemon *daemon, char error[256]);
void local_close(struct daemon *daemon);
uint32_t local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity);
void local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count);
void local_tick(struct daemon *daemon, uint64_t now_ms);
bool local_drain(struct daemon *daemon, struct client *client); /* false: something of it has to wait */

/* local_change.c */
void change_reply_effect(struct daemon *daemon, const struct node_effect *effect);

/* local_worker.c */
void api_worker_group_effect(struct daemon *daemon, const struct node_effect *effect);
void api_worker_durable_effect(struct daemon *daemon, const struct node_effect *effect);
void api_worker_leave_effect(struct daemon *daemon, const struct node_effect *effect);
void api_worker_stop_notice(struct daemon *daemon, struct daemon_worker *worker, const char *reason);
void api_worker_forget(struct daemon *daemon, struct daemon_worker *worker);

/* tell_bulk.c */
/* Bulk learns where peers are from their node records. */
void daemon_bulk_peers(struct daemon *daemon);

/* Nothing goes there and nothing comes from there. */
void daemon_bulk_peers_gone(struct daemon *daemon, node_id node);

/* pushes.c */
void daemon_pushes_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_pushes_answered(struct daemon *daemon, uint64_t request, int code, const char *text);
void daemon_pushes_close(struct daemon *daemon); /* forgets those that are under way */

/* query_checkpoint.c, query_series.c, query.c */
void query_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void query_series_answered(struct daemon *daemon, struct bulk_event *event);
void query_close(struct daemon *daemon); /* when no job runs any more and all clients are gone */

/* become.c */
void daemon_new_key_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_rekey_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_load_was(struct daemon *daemon);
void daemon_begin_anew(struct daemon *daemon); /* as for a first start, but for options and lines */

/* busy.c */
void daemon_gpu_busy_tick(struct daemon *daemon, uint64_t now_ms);
void daemon_gpu_busy_close(struct daemon *daemon); /* when no job runs any more */

/* verify.c */
void query_verify_answered(struct daemon *daemon, uint64_t request, int code);

/* collect.c */
void daemon_confirm_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_collect_effect(struct daemon *daemon, const struct node_effect *effect);
void daemon_collect_verified(struct daemon *daemon, uint64_t request, int code);
void daemon_collect_close(struct daemon *daemon);

/* scrub.c */
void daemon_scrub_tick(struct daemon *daemon, uint64_t now_ms);
void daemon_scrub_corrupt(struct daemon *daemon, hash256 hash); /* it was dropped here */
void daemon_scrub_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void daemon_scrub_close(struct daemon *daemon);

#endif

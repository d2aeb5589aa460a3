#ifndef NODE_DAEMON_WORKERS_WORKERS_H
#define NODE_DAEMON_WORKERS_WORKERS_H
/* The workers of this node, one a slot: their directories, their processes under shoal-keep, what they print and report. What
 * they ask comes in through api/worker.h. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/workers/latest.h"
#include "node/daemon/workers/state.h"

/* What is told of a worker that is no more. */
struct worker_last {
    bool is_taken;
    uint64_t read_id; /* of the read that comes after all that it said; 0: not asked yet */
    int32_t code;
    bool killed, is_unstarted; /* is_unstarted: shoal-keep could not start it, which is this machine's failure */
    char tail[FACT_TAIL_BYTES + 1];
};

/* One slot's worker as the shell sees it. All zero without one. */
struct daemon_worker {
    enum worker_state state;    /* changed by worker_move alone */
    struct node_effect prepare; /* the effect that made it; its worker part describes the attempt */
    char directory[KEEP_PATH_BYTES];
    struct keep_link link;
    bool has_link;
    bool kill_wanted;     /* shoal-keep has not taken the order to kill it yet */
    bool stopping_wanted; /* shoal-keep has not taken yet that it is asked to leave */
    uint32_t kill_grace_ms;
    uint64_t kill_at_ms;        /* 0: no */
    uint64_t term_at_ms;        /* it is to stop, but has not connected to this daemon; 0: no */
    uint64_t connects_until_ms; /* until then it may do so, though it has run for long */
    uint32_t stop_grace_ms;
    uint64_t renew_ms;
    uint32_t fetch_tries;
    uint32_t asked_rounds; /* rounds of nodes asked in vain for its code */
    uint64_t fetch_id;
    bool fetching_checkpoint;
    bool started_seen;
    uint32_t saves; /* checkpoints that it has handed over and that are being stored */
    lease_token token;
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t size;
    uint64_t seed;
    char stop_reason[32];
    uint32_t leaving; /* the generation that the worker was asked to leave, and has not left yet; 0: none */
    bool leaves_at_once;
    struct client *client;  /* its connection, or NULL; set and cleared by api/worker.c alone */
    uint64_t group_request; /* id of an open worker_group, 0: none */
    uint32_t data_port;
    uint64_t series_seq; /* next metric point */
    uint64_t log_offset; /* read so far */
    bool log_busy;
    bool ended; /* shoal-keep has said so, or is gone itself; status says how */
    struct keep_status status;
    struct worker_last last;
    struct latest latest;
};

struct daemon_ended;
struct daemon_gpu_busy;

struct daemon_workers {
    struct daemon_worker slots[SLOTS_MAX];
    uint64_t awake_ms;          /* when the loop was last seen to go on */
    struct daemon_ended *ended; /* workers that are no more, but for their directories */
    struct daemon_gpu_busy *gpu_busy;
};

/* ---- workers.c --------------------------------------------------------------------------------------------------- */

/* The one way to another state: a move that the table in state.c does not have is a programming error, and checked. */
void worker_move(struct daemon_worker *worker, enum worker_state to);

/* Performs NODE_EFFECT_PREPARE, NODE_EFFECT_SPAWN and NODE_EFFECT_KILL. */
void daemon_workers_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_STOP_WORKER as far as it can be done without a connection. True: the worker has one, and the caller tells
 * it (after daemon_workers_stopping). */
bool daemon_workers_stop(struct daemon *daemon, const struct node_effect *effect);

/* The program of this worker is being told to save and leave: shoal-keep hears of it first, and the grace begins. */
void daemon_workers_stopping(struct daemon_worker *worker);

/* After START: what adopted workers reported last, and the ends of those that ended while no daemon was here, are on their way. */
void daemon_workers_deliver_ended(struct daemon *daemon);

/* Once a second: leases are renewed, orders given again that shoal-keep did not take. */
void daemon_workers_tick(struct daemon *daemon, uint64_t now_ms);

/* First in each turn of the loop: after a suspend the deadlines of this room move by the gap. */
void daemon_workers_awake(struct daemon *daemon, uint64_t now_ms);

/* Takes what shoal-keep has said of this slot's worker. */
void daemon_workers_poll(struct daemon *daemon, uint32_t slot);

/* True: the worker has ended and everything of it is gone, but its end is not taken yet. The caller takes what still waits in its
 * connection, then calls daemon_workers_take_last. */
bool daemon_workers_is_ending(const struct daemon *daemon, uint32_t slot);

/* Takes the rest of what the worker printed and how it ended. False: more is to be read, call again later. Once true, the end is
 * told to the core as soon as what the worker said is on the disk. */
bool daemon_workers_take_last(struct daemon *daemon, uint32_t slot);

/* An answer of bulk (BULK_FETCHED; BULK_SERIES); that to a request of another part of the daemon is ignored. */
void daemon_workers_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void daemon_workers_settled(struct daemon *daemon, uint64_t request);

/* A job removes the directory. */
void daemon_workers_remove_later(struct daemon *daemon, const char *directory);

/* Removes the directory of each worker of which the disk has the end as a record. Called in each turn of the loop. */
void daemon_workers_persisted(struct daemon *daemon);

/* Forgets the directories that are still there: the next daemon finds them. */
void daemon_workers_close(struct daemon *daemon);

/* ---- log.c ------------------------------------------------------------------------------------------------------- */

/* Reads on what the worker of this slot prints. */
void daemon_workers_log(struct daemon *daemon, uint32_t slot);

/* Of a worker that has ended: true if all that it printed is read. If not, it is to be called again. */
bool daemon_workers_log_ends(struct daemon *daemon, uint32_t slot);

/* ---- adopt.c ----------------------------------------------------------------------------------------------------- */

/* What shoal-keep keeps of the worker for the next daemon; returns its length. */
size_t daemon_workers_identity(const struct daemon_worker *worker, uint8_t out[KEEP_IDENTITY_BYTES_MAX]);

/* At the start: finds the workers of earlier daemons. 0 or the error of keep_scan. */
int daemon_workers_adopt(struct daemon *daemon);

/* ---- gpu_busy.c -------------------------------------------------------------------------------------------------- */

/* Once a second: every few seconds a job looks for other programs on the GPUs of free slots. */
void daemon_gpu_busy_tick(struct daemon *daemon, uint64_t now_ms);
void daemon_gpu_busy_close(struct daemon *daemon); /* when no job runs any more */

/* ---- series.c ---------------------------------------------------------------------------------------------------- */

/* Where the series of an attempt's worker live: `kind` is 'm' for metric points, 'l' for logs. Returns the prefix' length. */
size_t daemon_series_prefix(char kind, const attempt_id *attempt, uint32_t number, uint8_t out[SERIES_PREFIX_BYTES_MAX]);

/* One entry, here and on the node that should hold a copy. ERR_FULL: bulk has enough to write now; others of bulk_series_append. */
int daemon_series_append(struct daemon *daemon, const attempt_id *attempt, char kind, uint32_t rank, uint64_t seq,
                         const uint8_t *bytes, size_t count);

/* The latest metrics of a worker (map group -> map name -> number), as many as fit; returns their length, 0: none. */
uint32_t daemon_series_metrics(const struct daemon *daemon, const struct daemon_worker *worker,
                               uint8_t out[FACT_METRICS_BYTES_MAX]);

/* Takes over what an adopted worker reported to the last daemon. The core hears of it after START. */
void daemon_series_adopt(struct daemon *daemon, struct daemon_worker *worker);

/* What a worker says of itself: how far it is; a map of names to numbers, which also becomes a metric point. */
void daemon_series_progress(struct daemon *daemon, struct daemon_worker *worker, uint64_t step);
void daemon_series_report(struct daemon *daemon, struct daemon_worker *worker, const char *group, uint64_t step,
                          struct pack_reader metrics);

#endif

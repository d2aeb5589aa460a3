#ifndef NODE_DAEMON_WORKERS_WORKERS_H
#define NODE_DAEMON_WORKERS_WORKERS_H
/* The workers of this node, one a slot: their directories, their processes under shoal-keep, their output and reports.
 * A worker's requests come in through api/worker.h. All functions are for the protocol thread. */

#include <sys/types.h>

#include "node/daemon/ground/daemon.h"
#include "node/daemon/ground/tally.h"
#include "node/daemon/wire/metric_line.h"
#include "node/daemon/wire/texts.h"
#include "node/daemon/wire/points.h"
#include "node/daemon/workers/latest.h"
#include "node/daemon/workers/profile.h"
#include "node/daemon/workers/stall.h"
#include "node/daemon/workers/state.h"
#include "node/daemon/workers/warm_command.h"
#include "node/slots/nvml.h"
#include "node/slots/usage.h"
#include "node/trace/box.h"

/* The end of a worker whose process is gone, until the core has the end. */
struct worker_last {
    bool is_taken;
    uint64_t read_id; /* number of a bulk read queued behind all of the worker's metrics; 0: not asked yet */
    /* Exit status; negative: the number of a signal. */
    int32_t code;
    enum fact_cause cause;
    uint64_t failure, error_ms; /* as in struct fact_worker */
    bool killed, is_unstarted; /* is_unstarted: shoal-keep could not start the program: this machine's failure */
    char tail[FACT_TAIL_BYTES + 1];
};

struct spawn_job;
struct event_files;

/* One slot's worker as the shell sees it. All zero without a worker. */
struct daemon_worker {
    enum worker_state state;    /* only worker_move changes it */
    struct node_effect prepare; /* the effect that made the worker; its worker part describes the attempt */
    char directory[KEEP_PATH_BYTES];
    struct keep_link link;
    bool has_link;
    struct spawn_job *spawn; /* WORKER_SPAWNING: how to start it cold, if the warm process that has it does not; else NULL */
    uint64_t warm_id;              /* of that process (warm.h); 0: none */
    bool warm_again;               /* that process ended for the sake of another worker: this one takes a new one */
    char warm_why[WARM_WHY_BYTES]; /* why it has not; the end of a sentence */
    bool kill_wanted;     /* an order to kill that shoal-keep has not taken yet */
    bool stopping_wanted; /* a notice of the coming stop that shoal-keep has not taken yet */
    bool kill_hung;       /* the order is to write the worker's stacks first */
    uint32_t kill_grace_ms;
    uint64_t kill_at_ms;        /* when a worker that was told to stop is killed; 0: never */
    uint64_t term_at_ms;        /* when a worker to stop that has not connected to this daemon gets SIGTERM; 0: never */
    uint64_t connects_until_ms; /* an adopted worker may connect until then before a stop means SIGTERM */
    uint32_t stop_grace_ms;
    uint64_t renew_ms;
    uint32_t fetch_tries;
    uint32_t asked_rounds; /* rounds of nodes asked in vain for the part that is fetched */
    uint64_t fetch_id;
    enum { WORKER_CODE, WORKER_CONFIG, WORKER_CHECKPOINT, WORKER_OUTPUT } fetching; /* the part that is fetched, in this order */
    uint32_t port;          /* for MASTER_PORT, if the ranks meet at this worker */
    int port_fd;            /* the lock of `port` (base/ports.h) until shoal-keep has it; 0: none */
    uint64_t port_until_ms; /* when a worker that waits for a free port is given up; 0: it has one */
    pid_t packages_pid;     /* of the process that makes the packages ready (packages.h); 0: none */
    bool lacks_packages;    /* it has failed: the worker ends at once, with its lines as the log */
    uint32_t part, parts_until; /* of a checkpoint of several parts: the part that is fetched, and behind the last one */
    uint32_t fetched_outputs; /* of `beginnings` */
    uint32_t beginning_count; /* the files with which the attempt begins */
    struct fact_beginning beginnings[FACT_OUTPUTS_MAX];
    bool started_seen;
    int32_t keep_pid; /* of shoal-keep, while it is connected; 0: unknown */
    struct worker_stall stall;
    struct worker_stall_state stall_told; /* as the core has it */
    uint32_t saves; /* checkpoints handed over by the worker that are not stored yet */
    lease_token token;
    uint8_t group_key[MESSAGE_KEY_BYTES];
    uint32_t size;
    uint64_t seed;
    uint64_t draw; /* as in struct core_worker */
    char stop_reason[32];
    uint32_t leaving; /* the generation that the worker is asked to leave, and is still in; 0: none */
    bool leaves_at_once;
    struct client *client;  /* the worker's connection, or NULL; only api/worker.c sets and clears it */
    uint64_t group_request; /* id of an unanswered worker_group; 0: none */
    uint32_t data_port;
    uint64_t series_seq; /* number of the next metric point */
    uint64_t session;    /* of the program that opened the connection (wire/points.h); 0: not known */
    bool knows_texts;              /* `texts_seq` and `params` are as on the disk */
    uint64_t texts_seq;            /* number of the next entry of its texts */
    struct texts_params params;     /* that the program has written by MLflow */
    struct points_source reported; /* the last report that came through a connection, stored or on its way to the disk */
    uint64_t log_offset; /* bytes of the log that are read */
    bool log_busy;
    bool ended; /* shoal-keep has reported the end (`status`), or is gone itself */
    bool is_lost;              /* ended: shoal-keep is gone itself, and the worker's processes may live on without it */
    bool has_shells;           /* commands beside the worker, with its token, may live on (api/shells.c) */
    uint64_t orphans_ms;       /* is_lost, has_shells: when to look for such processes again */
    struct keep_status status;
    struct worker_last last;
    struct latest latest;
    struct profile profile;
    struct log_match *log_match;  /* log_match.h; NULL: nothing is looked for, or the log's job has it */
    uint64_t log_match_version;   /* of the webhooks that it knows; 0: none yet */
    struct metric_lines metric_lines;
    uint64_t metric_step;                    /* of the last metric line; a line without a step has the same */
    uint64_t metric_second_ms;               /* since then */
    uint32_t metric_count, metric_dropped;   /* lines taken, and lines beyond METRIC_LINES_SECOND */
    struct event_files *events; /* event_files.h; NULL: they are not read, or nothing was looked for yet */
    bool is_malformed_told;                  /* a line told of the first malformed metric line */
};

struct daemon_ended;
struct daemon_gpu_busy;
struct daemon_warm;
struct daemon_look;
struct daemon_platform;
struct daemon_programs;
struct daemon_searcher;

/* A slot's GPU, as the last look found it (gpu_busy.c). */
struct daemon_gpu {
    bool is_known; /* the driver has answered */
    struct slots_nvml_use use;
    uint64_t errors; /* critical ones (XID) since the daemon began */
};

/* The last look at the machine (owner_look.c). */
struct daemon_owner_look {
    uint64_t next_ms;
    uint64_t busy, all; /* of machine_processors; `all` 0: none yet */
    uint32_t processors; /* 0: not counted yet */
    bool has_activity;
    uint64_t activity;
};

/* The state of the room, as daemon->workers. */
struct daemon_workers {
    struct daemon_worker slots[SLOTS_MAX];
    uint64_t awake_ms;          /* when the loop last began a turn */
    uint16_t port_next;         /* where the search for a worker's port begins */
    uint8_t *port_uses;         /* of the last look at the ports (base/ports.h); NULL: none yet */
    uint64_t port_uses_ms;      /* when that was */
    bool port_look_busy;        /* another one is under way */
    struct daemon_ended *ended; /* ended workers whose directories still exist */
    struct daemon_gpu_busy *gpu_busy;
    struct daemon_look *look;
    struct daemon_owner_look owner_look;
    struct slots_usage usage;
    struct daemon_gpu gpus[SLOTS_MAX];
    struct tally tally; /* ground/tally.h */
    struct trace_box traces;
    struct daemon_platform *platform; /* platform.h */
    struct daemon_programs *programs;
    struct daemon_warm *warm; /* warm.h; NULL: none was wanted yet */
    struct daemon_searcher *searchers; /* searcher.h: a list */
};

/* ---- workers.c --------------------------------------------------------------------------------------------------- */

/* Changes the state: the only place that does. A move that is not in the table of state.c is a programming error and
 * ends the daemon. */
void worker_move(struct daemon_worker *worker, enum worker_state to);

/* Closes the lock of the worker's port and makes the slot one without a worker (WORKER_NONE, all zero). */
void worker_clear(struct daemon_worker *worker);

/* Whether the slot's worker is of this attempt, and in this state. */
bool worker_is(const struct daemon_worker *worker, enum worker_state state, const attempt_id *attempt);

/* Performs NODE_EFFECT_PREPARE, NODE_EFFECT_SPAWN and NODE_EFFECT_KILL. */
void daemon_workers_effect(struct daemon *daemon, const struct node_effect *effect);

/* After START: tells the core the last progress of adopted workers, and takes the ends of workers that ended while no
 * daemon was running. */
void daemon_workers_deliver_ended(struct daemon *daemon);

/* Once a second: renews leases, and repeats orders that shoal-keep has not taken. */
void daemon_workers_tick(struct daemon *daemon, uint64_t now_ms);

/* First in each turn of the loop: after a suspend, moves the deadlines of this room and of outputs/ by the gap. */
void daemon_workers_awake(struct daemon *daemon, uint64_t now_ms);

/* Removes the directory and all in it, as far as the system allows. For jobs: it may take long. */
void worker_directory_remove(const char *directory);

/* Removes the directory in a job. Ignored once the daemon is closed: the next daemon finds the directory. */
void daemon_workers_remove_later(struct daemon *daemon, const char *directory);

/* Writes the path of the file that the processes of this slot's worker hold locked. `size`: KEEP_PATH_BYTES + 32. */
void daemon_workers_lock_path(const struct daemon *daemon, uint32_t slot, char *out, size_t size);

/* Frees the list of ended workers, whose directories the next daemon finds, and the ports of workers that did not start. */
void daemon_workers_close(struct daemon *daemon);

/* ---- log.c ------------------------------------------------------------------------------------------------------- */

/* Reads the next piece of the output of this slot's worker in a job, unless a job reads already. */
void daemon_workers_log(struct daemon *daemon, uint32_t slot);

/* Reads the rest of an ended worker's output, a few pieces a call. False: more is left, call again. */
bool daemon_workers_log_ends(struct daemon *daemon, uint32_t slot);

/* ---- adopt.c ----------------------------------------------------------------------------------------------------- */

/* Writes the worker's identity, which shoal-keep stores for the next daemon; returns its length. */
size_t daemon_workers_identity(const struct daemon_worker *worker, uint8_t out[KEEP_IDENTITY_BYTES_MAX]);

/* At the start: finds and adopts the workers of earlier daemons. 0 or the error of keep_scan. */
int daemon_workers_adopt(struct daemon *daemon);

/* ---- gpu_busy.c -------------------------------------------------------------------------------------------------- */

/* Once a second: every few seconds, a job looks for programs outside Shoal on the GPUs of free slots. */
void daemon_gpu_busy_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees the state of the jobs. Call after the last job. */
void daemon_gpu_busy_close(struct daemon *daemon);

/* ---- owner_look.c ------------------------------------------------------------------------------------------------ */

/* Once a second: tells the core now and then what the machine shows, if its owner has a policy. */
void daemon_owner_look_tick(struct daemon *daemon, uint64_t now_ms);

/* ---- look.c ------------------------------------------------------------------------------------------------------ */

/* Once a second: every few seconds, a job looks at the processes of the workers. The core learns which workers hang, and each profile
 * what its worker uses. */
void daemon_look_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees the state of the job. Call after the last job. */
void daemon_look_close(struct daemon *daemon);

/* ---- count.c ----------------------------------------------------------------------------------------------------- */

/* The slot's worker was begun by this daemon. */
void daemon_count_begun(struct daemon *daemon, uint32_t slot);

/* The slot's worker has ended, and all that it left is taken. */
void daemon_count_ended(struct daemon *daemon, uint32_t slot);

/* The worker has said how far it is. */
void daemon_count_step(struct daemon *daemon, const struct daemon_worker *worker, uint64_t step);

/* Once a second: adds up for how long slots were held, and forgets trials that are over. */
void daemon_count_tick(struct daemon *daemon, uint64_t now_ms);

/* ---- programs.c -------------------------------------------------------------------------------------------------- */

/* Once a second: now and then, a process of its own looks which programs this machine has; the core tells the mesh. */
void daemon_programs_tick(struct daemon *daemon, uint64_t now_ms);

/* Ends the process and frees the state. */
void daemon_programs_close(struct daemon *daemon);

/* ---- series.c ---------------------------------------------------------------------------------------------------- */

/* Writes the prefix of the series of an attempt's worker, and returns its length. `kind` is 'm' for metric points, 'l'
 * for logs, 's' for the worker's profile, 'n' for texts (wire/texts.h). */
size_t daemon_series_prefix(char kind, const attempt_id *attempt, uint32_t number, uint8_t out[SERIES_PREFIX_BYTES_MAX]);

/* Appends one entry, here and on the node that should hold a copy. `bytes` are copied. `id`: as of bulk_series_append.
 * ERR_FULL: bulk has enough to write now; other errors of bulk_series_append. */
int daemon_series_append(struct daemon *daemon, uint64_t id, const attempt_id *attempt, char kind, uint32_t rank,
                         uint64_t seq, const uint8_t *bytes, size_t count);

/* Writes the latest metrics of a worker (map group -> map name -> number), as many as fit; returns their length, 0:
 * none. */
uint32_t daemon_series_metrics(const struct daemon *daemon, const struct daemon_worker *worker,
                               uint8_t out[FACT_METRICS_BYTES_MAX]);

/* Takes over the reports that an adopted worker made to the last daemon. The core gets them after START. */
void daemon_series_adopt(struct daemon *daemon, struct daemon_worker *worker);

/* Takes the next piece of the output of a worker: lines that are metrics are reported (wire/metric_line.h), if the configuration
 * says so and the worker is the first of its attempt. */
void daemon_series_output(struct daemon *daemon, struct daemon_worker *worker, const uint8_t *bytes, size_t count);

/* Handles a worker's report of its step. */
void daemon_series_progress(struct daemon *daemon, struct daemon_worker *worker, uint64_t step);

/* Handles a worker's report of metrics: a map of names to numbers becomes a metric point of the series, and the latest
 * values; those of a further run (texts_is_further) only the point. `id`: as of bulk_series_append, 0 for no event.
 * `request`: of worker->session, 0 for no source. `wall_ms`: when the program measured, 0: now. ERR_MALFORMED, errors of
 * daemon_series_append: nothing is appended, a line says so, and there is no event. */
int daemon_series_report(struct daemon *daemon, struct daemon_worker *worker, uint64_t id, uint64_t request,
                         const char *group, uint64_t step, uint64_t wall_ms, struct pack_reader metrics);

/* Appends texts of the worker's program (wire/texts.h) to the trial's. ERR_MALFORMED; ERR_EXISTS, ERR_FULL, ERR_MEMORY of
 * texts_params_take; errors of daemon_series_append. After an error nothing is appended. */
int daemon_series_texts(struct daemon *daemon, struct daemon_worker *worker, uint64_t id, const uint8_t *bytes, size_t count,
                       struct texts_clash *clash);

/* Takes what the slot's worker has used since the last look, or what a worker tells of its steps: into the series of its profile
 * (profile.h), where it does not count for the searcher and is no column of trials. While bulk has enough to write, points wait. */
void daemon_series_sample(struct daemon *daemon, struct daemon_worker *worker, uint32_t slot, const struct profile_sample *sample);
void daemon_series_split(struct daemon *daemon, struct daemon_worker *worker, uint64_t step, const struct profile_split *split);

/* As daemon_series_report without an event, for metrics of that time (ms since 1970; 0: now) from an event file. */
int daemon_series_report_at(struct daemon *daemon, struct daemon_worker *worker, struct points_source source,
                            uint64_t wall_ms, const char *group, uint64_t step, struct pack_reader metrics);

#endif

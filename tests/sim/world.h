#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H
/* The simulated world: shoald's own node cores, three to nine of them in one thread, with a simulated clock, network,
 * disks, processes and users. Everything follows from the seed. One ordered queue of events, earliest first, ties by
 * sequence; one core at a time takes one event, and its effects become later events.
 *
 *     plan.h      what a seed holds: machines, experiments, faults
 *     network.h   links between machines           disk.h      what is on whose disk
 *     workers.h   processes, groups                users.h     submit, cancel, pause, resume, delete; the oracle
 *     groups.h    groups of workers that change
 *     faults.h    the storm and the heal           checkers.h  the invariants of DESIGN 13
 *     owners.h    withhold and drain, and back    twins.h     a copied disk
 *     blobs.h     code and checkpoints on disks    copies.h    what disks lose: garbage, rot
 *     trace.h     what a run leaves to compare     versions.h  daemons of another protocol version
 *     searchers.h programs that decide in searches own_program.h  ... and what they say
 *
 * Times are virtual milliseconds from 0. Each machine's own clock has an offset. */

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/random.h"
#include "node/core/core.h"
#include "node/core/ground/state.h"
#include "tests/sim/blobs.h"
#include "tests/sim/disk.h"
#include "tests/sim/groups.h"
#include "tests/sim/network.h"
#include "tests/sim/owners.h"
#include "tests/sim/plan.h"
#include "tests/sim/searchers.h"
#include "tests/sim/twins.h"
#include "tests/sim/versions.h"
#include "tests/sim/workers.h"

#define SIM_TEXT_BYTES 512
#define SIM_UNKNOWN_KIND 60000
#define SIM_SCRATCH_BYTES ((size_t)16 << 20)
#define SIM_RING_LINES 200
#define SIM_LINE_BYTES 200

enum sim_event_kind {
    SIM_MESSAGE,    /* payload: struct network_packet, for `node` */
    SIM_DISK,       /* node: a commit is done */
    SIM_BOOT,       /* node: its daemon starts */
    SIM_HOST_UP,    /* node: the machine is on again, its daemon not yet */
    SIM_LINK,       /* payload: struct network_probe */
    SIM_PREPARED,   /* payload: struct workers_prepare */
    SIM_LISTENS,    /* node, slot, serial: a process */
    SIM_STOPPED,    /* ... has saved and leaves */
    SIM_DIES,       /* ... is dead at last */
    SIM_EXITS,      /* ... ends by itself; arg: the status */
    SIM_CRASHES,    /* ... fails by itself, during the storm only */
    SIM_ORPHANED,   /* ... its keep has heard no daemon for the lease's time */
    SIM_EXITED,     /* payload: struct workers_exit, tells the daemon */
    SIM_STALLS,     /* node, slot, serial: its owner has seen it do nothing for stall_timeout; arg: enum fact_stall */
    SIM_STEP,       /* serial: a group makes a step */
    SIM_GROUP_STEP, /* serial: an elastic group forms, or makes a step */
    SIM_LEAVES,     /* node, slot, serial: a process leaves its group; payload: which */
    SIM_CHECKPOINT, /* payload: struct workers_save */
    SIM_PUSHED,     /* payload: struct blobs_push */
    SIM_USER,       /* arg: experiment; slot: enum node_request_kind */
    SIM_USER_WAITS, /* serial: the request that got no reply in time */
    SIM_OWNER,      /* somebody withholds, drains, or takes that back */
    SIM_FAULT,      /* arg: enum plan_fault */
    SIM_STRUCK_DOWN, /* node, serial: its life; arg: 1 with its machine */
    SIM_DISK_ROOM,  /* node: its disk has room again */
    SIM_KEY,      /* node, serial: its life; the key that it asked for */
    SIM_BECOMES,  /* ... it becomes another node */
    SIM_JOINS,    /* node: an evicted machine comes back with a new key; serial: how often it has tried */
    SIM_HEAL,
    SIM_SECOND, /* the checks of every virtual second */
    SIM_COLLECTS, /* payload: struct copies_collection; the daemon's thread with time comes to it */
    SIM_SCRUB,    /* payload: struct copies_rotten; what has rotted there is read again */
    SIM_MEND,     /* ... what lacks is fetched again */
    SIM_UPDATED,  /* node, serial: how often it was; it gets another program, arg: which */
    SIM_WRITES,   /* ... its program writes a record of a kind of its own */
    SIM_SEARCHER, /* payload: a word of the program of a search; node, serial: its process, arg: experiment */
    SIM_LOOKS,    /* somebody looks whether the program of a search was given up; arg: experiment */
    SIM_EVENT_KINDS
};

struct sim_event {
    uint64_t at_ms, order;
    void *payload;
    uint32_t payload_bytes;
    uint32_t serial;
    uint8_t kind, node, slot, arg;
};

enum sim_stream { STREAM_PLAN, STREAM_NETWORK, STREAM_DISK, STREAM_WORKERS, STREAM_USERS, STREAM_FAULTS, STREAM_NODES,
                  STREAM_CHECKS, STREAM_OWNERS, STREAM_PLAN_TOO, STREAM_CLOCKS, STREAM_SLOWNESS, STREAM_GROUPS,
                  STREAM_COPIES, STREAM_COUNT };

/* Till then what computes there takes this many times as long for a step. */
struct sim_slow_slot {
    uint64_t until_ms;
    uint32_t factor;
};

struct sim_node {
    node_id id;
    uint8_t public_key[PUBLIC_KEY_BYTES];
    uint64_t clock_offset_ms;
    int64_t drift_ppm;    /* of its clock against ours */
    int64_t wall_shift_s; /* how wrong its calendar is */
    uint64_t slow_until_ms;
    uint32_t slow_ms; /* ... till then everything takes it this much longer, in the mean */
    bool dies_at_commit;
    bool leaves;
    bool is_twin; /* its key is, or was, in use twice */
    node_id was;  /* before it became another node */
    uint32_t keys_made; /* afresh, though one was there */
    uint8_t first_key[PUBLIC_KEY_BYTES]; /* with which it is on the roster */
    struct twins_link links[TWINS_LINKS_MAX];
    uint32_t link_count;
    char address[TWINS_ADDRESS_BYTES]; /* of the machine */
    bool is_evicted; /* somebody has said so: whoever knows it acts on that */
    struct node_core *core; /* NULL while its daemon is down */
    void *memory;
    bool host_up;
    bool is_gone;    /* for ever */
    bool refuses;    /* gone, but the machine is on and refuses connections */
    uint64_t paused_until_ms; /* in the future: the daemon stands still */
    bool is_suspended;        /* and with it the whole machine */
    uint64_t down_since_ms;
    uint64_t calm_from_ms; /* no fault of moments that concerns it lasts longer */
    struct version_range speaks; /* versions of the protocol */
    uint64_t speaks_since_ms;    /* 0: always */
    uint32_t updates;
    uint32_t life; /* counts boots; events of an earlier life are void */
    uint64_t boot;
    uint64_t tick_ms;
    bool peer[PLAN_NODES_MAX];  /* it keeps a connection there */
    bool admit[PLAN_NODES_MAX]; /* it lets them in */
    struct disk disk, backup;
    struct worker_process processes[PLAN_SLOTS_MAX];
    struct worker_report reports[PLAN_SLOTS_MAX];
    uint64_t bad_until_ms; /* programs that are started before fail */
    struct sim_slow_slot slow_slots[PLAN_SLOTS_MAX];
    hash256 prepared[PLAN_SLOTS_MAX]; /* the checkpoint in the directory that was prepared last */
};

struct sim_memory; /* what seeds of one process share, so that nothing is allocated between them */
struct checkers;
struct users;

/* A durable output, as its node was told. */
#define SIM_LEFT_MAX 1024
struct sim_left {
    attempt_id attempt;
    hash256 blob;
    uint64_t sequence;
    uint32_t holders; /* machines that the record names, bits */
    uint32_t known[PLAN_NODES_MAX]; /* in which life each node had the record; 0: in none */
};

struct sim {
    uint64_t seed;
    struct plan plan;
    uint32_t machines; /* plan.node_count, and the one of the copy behind them */
    uint64_t twins_disturbed_ms;
    char former[TWINS_FORMER_MAX][TWINS_ADDRESS_BYTES]; /* addresses that machines had */
    uint32_t former_count, move_count;
    uint64_t now_ms, order;
    struct random random[STREAM_COUNT];
    struct sim_memory *memory;
    struct arena arena; /* payloads, disks */
    mesh_id mesh;
    struct sim_event *heap;
    uint32_t heap_count;
    struct sim_node nodes[PLAN_NODES_MAX];
    struct network network;
    struct workers workers;
    struct sim_blobs blobs;
    uint64_t output_serial; /* outputs so far */
    uint32_t left_count;
    uint64_t left_seen_ms[PLAN_NODES_MAX]; /* when what each node knows of them was looked at */
    struct sim_left left[SIM_LEFT_MAX];
    struct groups groups;
    struct versions versions;
    struct searchers searchers;
    struct owners owners;
    struct users *users;
    struct checkers *checkers;
    void *scratch; /* SIM_SCRATCH_BYTES for one check */
    uint64_t skipped;
    uint32_t strikes; /* so far */
    struct random strike_random; /* of the strike under way */
    bool healed;
    uint64_t healed_ms;
    uint64_t unstable_until_ms; /* no fault is under way from then on */
    uint64_t shaken_until_ms;   /* ... but those of every message */
    uint64_t events, steps, digest;
    struct node_effects effects;

    bool failed;
    int invariant;
    char failure[SIM_TEXT_BYTES];

    bool tracing;  /* lines go to the ring; with `verbose` also to stdout */
    bool verbose;
    int tracing_node;
    uint32_t ring_count;
    char (*ring)[SIM_LINE_BYTES];
};

/* One for the process: about 9 x 8 MiB for cores, 256 MiB for payloads, touched as needed. */
struct sim_memory *sim_memory_new(void);
void sim_memory_destroy(struct sim_memory **memory);

struct sim_result {
    bool failed;
    int invariant;
    char failure[SIM_TEXT_BYTES];
    uint64_t events, steps, digest;
    uint64_t classes;  /* bits of enum plan_fault: what the seed had */
    uint32_t strikes;
};

struct sim_run {
    uint64_t seed;
    uint64_t minutes; /* 10 */
    uint32_t plan_version; /* 0: PLAN_DEFAULT. A new version of how seeds are read keeps the meaning of older ones. */
    uint64_t without;      /* bits of enum plan_fault: classes to leave out */
    uint64_t skipped;      /* strikes of faults to leave out: bit i is the i-th of the run */
    bool tracing, verbose;
    uint64_t *premises; /* added to: how often each checker had something to check (checkers.h); may be NULL */
};

/* Runs one seed. With `tracing`, the last lines of the trace are printed to stdout when it fails. */
void sim_run(struct sim_memory *memory, const struct sim_run *run, struct sim_result *out);

/* Writes the last lines of the latest run's trace, if it had one. Calls nothing that a signal's handler may not call. */
void sim_write_events(const struct sim_memory *memory, int file);

/* ---- for the parts ---- */

struct sim_event *sim_push(struct sim *sim, uint64_t at_ms, enum sim_event_kind kind, int node);
void *sim_payload(struct sim *sim, struct sim_event *event, uint32_t bytes); /* zeroed, freed after dispatch */
void sim_again(struct sim *sim, struct sim_event *event, uint64_t at_ms); /* from its dispatch: later, once more */

/* Ends all pauses and slow commits now: what was put off comes at once. */
void sim_hurry(struct sim *sim);

/* One step of a node's core; its effects are performed. Not from within effects. */
void sim_step(struct sim *sim, int node, struct node_event *event);

/* The node writes a record of its own, which its program does not know of; *version: as which. False: it cannot. */
bool sim_put(struct sim *sim, int node, uint16_t kind, const struct fact_key *key, const uint8_t *body, uint32_t count,
             struct record_version *version);

/* What the node's clock shows at this moment of ours; and when it will show `core_ms`. */
uint64_t sim_clock(const struct sim *sim, int node, uint64_t at_ms);
uint64_t sim_clock_reaches(const struct sim *sim, int node, uint64_t core_ms);

/* The roster as it is before the story begins, on the disk of this node, or of all (-1). */
void sim_preload(struct sim *sim, int only);

void sim_boot(struct sim *sim, int node);
void sim_crash(struct sim *sim, int node, bool host);
bool sim_runs(const struct sim *sim, int node);      /* daemon up and not paused */
bool sim_daemon_up(const struct sim *sim, int node); /* perhaps paused */
bool sim_paused(const struct sim *sim, int node);
int sim_find_node(const struct sim *sim, node_id id); /* -1: none; of two with one key the one that was there first */
void *sim_core_memory(struct sim *sim, int node);

/* The first failure counts. `invariant` is its number in DESIGN 13. */
void sim_fail(struct sim *sim, int invariant, const char *format, ...) __attribute__((format(printf, 3, 4)));

void sim_trace(struct sim *sim, int node, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define SIM_TRACE(sim, node, ...)                     \
    do {                                              \
        if ((sim)->tracing) {                         \
            sim_trace((sim), (node), __VA_ARGS__);    \
        }                                             \
    } while (0)

/* Draws. */
uint64_t sim_between(struct random *random, uint64_t low, uint64_t high);     /* inclusive */
uint64_t sim_log_between(struct random *random, uint64_t low, uint64_t high); /* log-uniform, low > 0 */
uint64_t sim_wait(struct random *random, uint64_t mean);                      /* exponential, capped at 10 means */
bool sim_chance(struct random *random, uint32_t permille);

#endif

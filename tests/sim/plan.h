#ifndef TESTS_SIM_PLAN_H
#define TESTS_SIM_PLAN_H
/* What a seed holds: which classes of faults, at what rates. Rates are drawn over orders of magnitude. Swarm testing
 * (Groce and others, ISSTA 2012) puts each class in with probability one half.
 *
 * Version 7 does that in 76 seeds of 100, version 8 in 66. Another 19 have exactly one class, each of them equally likely,
 * five have none, and in version 8 ten have few. A class is then in 0.385 or 0.345 of all seeds. Where many classes strike at
 * once, each strikes more rarely.
 *
 * Up to version 6 a seed of one class often got others from those of later versions: of all seeds 0.31 have one of the
 * first 16 classes, 0.13 one of version 2, 0.26 and 0.24 the two of version 3, 0.28 one of version 5. Who withholds and drains there
 * is no class: owners are in one of seven seeds with faults. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/random.h"
#include "tests/sim/brackets.h"
#include "tests/sim/own_program.h"

#define PLAN_NODES_MAX 9
#define PLAN_SLOTS_MAX 3
#define PLAN_EXPERIMENTS_MAX 3
#define PLAN_TRIALS_MAX BRACKETS_TRIALS_MAX
#define PLAN_CONFIG_BYTES_MAX 1024
#define PLAN_RUNGS_MAX BRACKETS_RUNGS_MAX
#define PLAN_LINK_MOST 2 /* times the seed's loss and delay has the worst of the links */

enum plan_fault {
    /* Of every message, all storm long. */
    FAULT_LOSS,
    FAULT_DELAY,
    FAULT_DUPLICATE,
    FAULT_REORDER,
    /* At moments. */
    FAULT_PARTITION,
    FAULT_ONE_WAY,
    FAULT_CRASH_DAEMON,
    FAULT_CRASH_HOST,
    FAULT_PAUSE,
    FAULT_SUSPEND,
    FAULT_DISK_FULL,
    FAULT_LOSE_KEEP, /* a daemon is killed, and one of its workers is not found again */
    /* Of what happens anyway. */
    FAULT_DISK_SLOW,
    FAULT_WORKER_CRASH,
    FAULT_ZOMBIE,
    FAULT_ENTRYPOINT, /* one experiment's program fails at once; from version 7 on there is another */
    FAULT_VERSION_2,  /* from here on: in plans of version 2 */
    FAULT_ALONE = FAULT_VERSION_2, /* one node is cut off from all */
    FAULT_TRIANGLE,   /* two that reach all others do not reach each other */
    FAULT_CLOG,       /* a link keeps everything back for a while */
    FAULT_SLOW_NODE,
    FAULT_WALL_CLOCK, /* its calendar jumps */
    FAULT_OLD_DISK,   /* a node comes back with what its disk held some time ago */
    FAULT_NO_DISK,    /* ... with nothing but its key and the roster */
    FAULT_CRASH_COMMIT, /* it dies between two commits of what belongs together */
    FAULT_LEAVE,
    FAULT_HUNG_WORKER,
    /* Not of moments. */
    FAULT_DRIFT,
    FAULT_CAPACITY, /* of every link */
    FAULT_POISON,   /* a trial kills the machine that runs it */
    FAULT_VERSION_3, /* from here on: in plans of version 3 */
    FAULT_EVICT = FAULT_VERSION_3, /* somebody shuts a node out for ever, of those that are lost at the heal anyway */
    FAULT_CLONE, /* a machine comes up with a copy of a node's disk */
    FAULT_VERSION_5, /* from here on: in plans of version 5 */
    FAULT_GROUP_CUT = FAULT_VERSION_5, /* a partition goes through a group of workers */
    FAULT_GROUP_STRUCK, /* a worker of a group dies, and with it another, its coordinator or its owner, while the group changes */
    FAULT_VERSION_7, /* from here on: in plans of version 7 */
    FAULT_OWNERS = FAULT_VERSION_7, /* somebody withholds slots, drains a node, or takes that back */
    FAULT_SLOW_SLOT, /* what computes there takes longer for each step */
    FAULT_ROT, /* a copy of a blob cannot be read any more, and nobody notices before it is read */
    FAULT_OTHER_VERSION, /* a daemon is restarted as a program that speaks another protocol version */
    FAULT_VERSION_8, /* from here on: in plans of version 8 */
    FAULT_BAD_MACHINE = FAULT_VERSION_8, /* what is started there fails soon, whatever it is */
    FAULT_VERSION_9, /* from here on: in plans of version 9 */
    FAULT_MOVE = FAULT_VERSION_9, /* a machine gets another address; its old one belongs to nobody, a stranger or another machine */
    FAULT_PAIR, /* two nodes have no link all storm long */
    FAULT_VERSION_12, /* from here on: in plans of version 12 */
    FAULT_ENDLESS_HANG = FAULT_VERSION_12, /* a rank of a group stands still for ever, and the others wait for it */
    FAULT_QUIET_END, /* a rank ends with status 0, and the others wait for it for ever */
    FAULT_COUNT
};

bool plan_fault_is_timed(enum plan_fault fault);

const char *plan_fault_name(enum plan_fault fault);

/* Of the searcher custom (version 19): how its program is written, and what becomes of it during the storm. */
struct plan_program {
    bool is_there; /* false: another searcher */
    struct own_style style;
    uint32_t every;          /* steps between two reports */
    uint32_t slow_ms;        /* the most that an answer takes */
    uint32_t crash_permille; /* ... of its events, */
    uint32_t hang_permille;  /* ... after which it says nothing more, */
    uint32_t fails_permille; /* ... of its starts */
};

struct plan_experiment {
    bool keeps_all; /* the files of all ranks, united (version 11) */
    experiment_id id;
    hash256 code;
    uint8_t config[PLAN_CONFIG_BYTES_MAX];
    uint32_t config_bytes;
    bool saves_parts; /* each rank saves a part of the checkpoint */
    uint32_t trials, slots, min_slots, max_slots, steps, step_ms, save_every, max_restarts, replicas;
    uint32_t exit_barrier_s, stall_timeout_s; /* from version 12 on */
    bool is_elastic; /* its workers go from one group to the next */
    bool hears_late; /* ... and compute long steps: that their group is broken they hear after the one under way */
    bool fails_at_once;
    bool fails_fast;     /* a rank whose peer's process died ends with status 1, as programs on gloo do */
    bool pauses_minority;
    uint64_t submit_ms, cancel_ms, pause_ms, resume_ms, delete_ms; /* 0: never */
    uint64_t stop_ms[PLAN_TRIALS_MAX]; /* of single trials, from version 13 on; 0: never */
    uint64_t retry_ms[PLAN_TRIALS_MAX]; /* from when on people look whether the trial is over and can be retried, from version 14 on; 0: never */
    uint32_t retries[PLAN_TRIALS_MAX];  /* how often they do so with success */
    /* A search that stops trials early (version 15; several brackets from version 16 on). */
    uint32_t rungs; /* the most of a bracket; 0: no such search */
    struct brackets brackets;
    double divisor;
    bool smaller_is_better;
    bool promotes;   /* trials are paused, and promoted later */
    bool is_crowded; /* fewer trials may be under way than there are */
    uint64_t extend_ms; /* when people ask for further trials (version 15); 0: never */
    uint32_t trials_then; /* how many there are with these, at most PLAN_TRIALS_MAX; without any `trials` */
    bool is_drawn;   /* trials are drawn from what others have reached: of one rung */
    uint32_t startup; /* ... once so many are over */
    uint32_t population; /* of pbt: the trials of a generation (version 17); 0: another searcher */
    uint32_t replaced;   /* ... of which so many give way */
    struct plan_program program;
};

struct sim_run;

struct plan {
    uint32_t version;
    bool uses_streams; /* links keep order and lose nothing while they hold, as sockets on TCP do */
    uint32_t drift_ppm, link_bytes_per_ms;
    uint32_t node_count;
    uint32_t slots[PLAN_NODES_MAX];
    int liar; /* a node that says of all that it asks owners for that it comes first (version 21); -1: none */
    bool is_partial_roster; /* members know the founder and themselves; the rest must spread */
    bool uses_codec;
    uint32_t fault_count; /* classes in */
    bool has[FAULT_COUNT];
    uint64_t mean_ms[FAULT_COUNT]; /* timed ones: between two */
    /* Of each link from version 7 on: between a quarter and the double of these two (network_init). */
    uint32_t loss_permille;
    uint32_t delay_ms; /* of every message, in the mean, on top */
    uint32_t duplicate_permille, reorder_permille;
    uint32_t disk_ms;       /* of one commit, in the mean */
    uint32_t zombie_permille;
    uint64_t worker_crash_ms; /* mean life of a worker */
    bool blurs_time; /* messages may come so late that a living node seems dead */
    uint64_t heal_ms, end_ms;
    uint32_t core;         /* nodes that live after the heal, bits */
    uint32_t core_refuses; /* of the others: machines that refuse connections; the rest are silent */
    bool needs_patience;   /* too many silent ones: what ran there is waited for */
    bool is_choosy;        /* trials wait for the nodes where they have not failed yet */
    uint32_t idle_permille; /* what a disk has to be left alone for before it is cleaned, of what the core says */
    uint32_t experiment_count;
    struct plan_experiment experiments[PLAN_EXPERIMENTS_MAX];
};

#define PLAN_VERSION 22 /* the newest; 10 is as 9, 20 is as 19 */
#define PLAN_DEFAULT 17 /* where no version is asked for */

#define PLAN_IDLE_MIN_S 300 /* nothing in this world is on its way for longer before a record names it */

/* `random`: all streams of the simulator. */
void plan_draw(struct plan *plan, struct random *random, const struct sim_run *run);

/* Of the core this node is none any more, and its machine refuses connections: the rest must finish what fits it. */
void plan_leave_out(struct plan *plan, int node);

/* What ran on a node that is lost is waited for, though its machine refuses connections. */
void plan_be_patient(struct plan *plan);

/* Work is left at the end, perhaps since trials waited for other nodes than those where they had failed. False: that time is
 * over, too. */
bool plan_be_choosy(struct plan *plan);

/* People retry single trials. */
bool plan_has_retries(const struct plan *plan);

/* The core has slots for a trial of this experiment. */
bool plan_fits(const struct plan *plan, const struct plan_experiment *experiment);

/* Nothing happens to anybody: no class is in, and all live on after the heal. */
bool plan_is_quiet(const struct plan *plan);

/* Which faults may have made two coordinators run one trial, though nothing was lost. */
bool plan_isolates(const struct plan *plan);

/* Which may keep the word of a worker's end from the coordinator, while other words arrive. */
bool plan_hides_ends(const struct plan *plan);

#endif

#ifndef TESTS_SIM_CHECKERS_INSIDE_H
#define TESTS_SIM_CHECKERS_INSIDE_H
/* What the checkers remember, shared by their files: checkers.c (records, messages, processes as they come), _fold.c
 * (6), _watch.c (what is looked at once a virtual second: 9, 10, 13, 14, 15). */

#include "node/core/state.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define TOKENS_MAX 512   /* the latest of each node */
#define ATTEMPTS_MAX 128 /* of one trial */

/* Since when something has been so, on the simulator's clock; 0: it is not. */
struct checkers_watch {
    uint64_t unwanted_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* a process runs though its node knows that it should not */
    uint64_t reserved_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint64_t orphaned_ms[PLAN_NODES_MAX][PLAN_SLOTS_MAX]; /* reserved for a gang that is no more */
    attempt_id reserved[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint32_t serial[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint64_t minority_ms[PLAN_NODES_MAX];
    bool knew_alive[PLAN_NODES_MAX][PLAN_NODES_MAX];
    node_id incumbent[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* as the node saw it after its last step */
    uint64_t incumbent_ms[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* since when */
    uint64_t asked_ms[PLAN_NODES_MAX][PLAN_NODES_MAX]; /* when it last asked who hears the other */
    uint32_t sent[PLAN_NODES_MAX]; /* messages in this second */
    bool cancelled[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* known, in this life */
};

struct token {
    lease_token token;
    uint32_t slot;
    attempt_id attempt;
    bool is_revoked;
};

struct trial {
    uint32_t attempt_count, failure_count;
    attempt_id attempts[ATTEMPTS_MAX];
    bool has_run[ATTEMPTS_MAX]; /* a worker was started */
    attempt_id failed_last;
    uint32_t failed_on; /* bits: nodes where a process of it failed by itself */
};

struct checkers {
    uint64_t premises[PREMISE_COUNT];
    uint32_t token_count[PLAN_NODES_MAX]; /* ever; position modulo TOKENS_MAX */
    struct token tokens[PLAN_NODES_MAX][TOKENS_MAX];
    struct election_claim answered[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX];
    struct election_claim leased[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* in this life */
    attempt_id slot_attempt[PLAN_NODES_MAX][PLAN_SLOTS_MAX];
    uint32_t results[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX]; /* bits: trials known as completed, in this life */
    struct trial trials[PLAN_EXPERIMENTS_MAX][PLAN_TRIALS_MAX];
    uint32_t claims[PLAN_EXPERIMENTS_MAX];
    uint32_t ran[PLAN_NODES_MAX]; /* bits: experiments of which it ever started a worker */
    bool was_live[PLAN_EXPERIMENTS_MAX]; /* at the heal */
    uint64_t last_own_ms;
    uint64_t other_disk_ms; /* when some node came back on another disk */
    uint64_t apart_ms; /* after the heal: when two of the core did not see each other yet */
    const uint8_t *sent_bytes; /* walked already */
    uint64_t sent_step;
    struct checkers_watch watch;
};

static inline void checkers_met(struct sim *sim, enum checkers_premise premise)
{
    sim->checkers->premises[premise]++;
}

static inline int checkers_experiment(const struct sim *sim, experiment_id id)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        if (experiment_id_equal(sim->plan.experiments[i].id, id)) {
            return (int)i;
        }
    }
    return -1;
}

static inline bool checkers_in_core(const struct sim *sim, int node)
{
    return (sim->plan.core >> node & 1) != 0;
}

/* 6: the node's records in another order, some twice, give what it believes. */
void checkers_fold(struct sim *sim, int node);

/* The node believes to be on a side with less than half of the roster. */
bool checkers_in_minority(const struct sim *sim, int node);

/* Once a virtual second. */
void checkers_watch(struct sim *sim);

#endif

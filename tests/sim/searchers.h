#ifndef TESTS_SIM_SEARCHERS_H
#define TESTS_SIM_SEARCHERS_H
/* The processes of programs that decide in searches (version 19 of plans), each beside the daemon of the node that
 * coordinates: they are started, told of events and ended by effects of the core. They die with their daemon, and during the
 * storm they crash, are slow, stand still, or cannot start at all. What they answer is tests/sim/own_program.h's. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"
#include "tests/sim/own_program.h"
#include "tests/sim/plan.h"

#define SEARCHERS_FETCH_MS 10000 /* after which code that nobody reachable holds is given up */

struct sim;
struct sim_event;

struct searchers_process {
    bool is_alive;
    uint32_t serial;
    uint64_t life;  /* as the core numbers it */
    uint64_t told;  /* events so far */
    bool was_asked; /* it owes an answer */
    struct own_program program;
};

struct searchers {
    uint32_t serial;
    struct searchers_process processes[PLAN_NODES_MAX][PLAN_EXPERIMENTS_MAX];
};

/* NODE_EFFECT_SEARCHER_... */
void searchers_effect(struct sim *sim, int node, const struct node_effect *effect);

/* SIM_SEARCHER: a word of a process. */
void searchers_event(struct sim *sim, struct sim_event *event);

/* The node's daemon is down, and with it all its programs. */
void searchers_daemon_down(struct sim *sim, int node);

#endif

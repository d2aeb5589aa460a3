#ifndef TESTS_SIM_TWINS_H
#define TESTS_SIM_TWINS_H
/* A machine beside those of the plan, which comes to life with a copy of a node's disk (FAULT_CLONE): two daemons with one
 * key; and an evicted machine that comes back with a new key (FAULT_EVICT): one
 * address, two ids. In such seeds connections go to addresses, and prove the id that is there. The machine is lost for ever at the heal, and what
 * it says and holds counts for nothing then; but what it runs is held to the rules of slots and tokens as anybody's. */

#include "node/core/core.h"
#include "tests/sim/plan.h"

#define TWINS_ADDRESS_BYTES 24
#define TWINS_FORMER_MAX 32
#define TWINS_LINKS_MAX (2 * PLAN_NODES_MAX + 2)

struct sim;
struct sim_event;

/* What a node knows of one id: where it is told that it is, and whether it lets it in. */
struct twins_link {
    node_id id;
    char address[TWINS_ADDRESS_BYTES]; /* "": nowhere */
    bool is_admitted;
};

void twins_init(struct sim *sim);

/* The machine of the copy, or -1 in seeds without one. */
int twins_machine(const struct sim *sim);

/* A machine gets another address (FAULT_MOVE). */
void twins_move(struct sim *sim, int node, struct random *random);

/* Who answers at an address that no machine has: 0: nobody, 1: a machine that refuses, 2: another program. */
uint32_t twins_stranger_at(const char *address);

/* Where the node's words for that id go; -1: it has no connection. */
int twins_route(const struct sim *sim, int node, node_id id);
int twins_machine_at(const struct sim *sim, node_id id, const char *address); /* at an address of the node; -1: none is there */
bool twins_admits(const struct sim *sim, int node, int from, node_id id);
void twins_peer(struct sim *sim, int node, const struct node_effect *effect);
void twins_admit(struct sim *sim, int node, const struct node_effect *effect);

void twins_new_key(struct sim *sim, int node, bool afresh);
void twins_key(struct sim *sim, struct sim_event *event);    /* SIM_KEY */
void twins_become(struct sim *sim, int node);
void twins_became(struct sim *sim, struct sim_event *event); /* SIM_BECOMES */

/* An evicted machine with an empty disk asks to be let in with a new key; and is. */
void twins_join(struct sim *sim, struct sim_event *event); /* SIM_JOINS */
void twins_welcome(struct sim *sim, const struct node_effect *effect);

/* A copy of this node's disk, as it is now, begins to run; perhaps the node restarts meanwhile, or not. */
void twins_strike(struct sim *sim, int node);
void twins_heal(struct sim *sim);

/* Once a virtual second: of the two one soon becomes another node, and one never. */
void twins_watch(struct sim *sim);

#endif

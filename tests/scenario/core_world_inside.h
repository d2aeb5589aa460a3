#ifndef TESTS_SCENARIO_CORE_WORLD_INSIDE_H
#define TESTS_SCENARIO_CORE_WORLD_INSIDE_H
/* What the files of the world share: core_world.c has the log, what is on its way and the life of the nodes, and hands their
 * effects to core_world_disk.c, _network.c and _workers.c. */

#include "tests/scenario/core_world.h"

/* A line of the log: of this node, with ':', '>' or '<' behind its name. */
void world_say(struct world *world, uint32_t node, char mark, const char *text);

/* Lets an event happen to a node at its time, if it is still in this life of its own by then; copies what the event borrows.
 * `boot` 0: in any life. */
void world_post(struct world *world, uint64_t at_ms, uint32_t node, uint64_t boot, const struct node_event *event);

/* ---- the disk: core_world_disk.c ---- */

void world_persist(struct world *world, uint32_t number, const struct node_effect *effect);
void world_forget(struct world_node *node, const struct node_effect *effect);
void world_collect(struct world *world, uint32_t number, const struct node_effect *effect);

/* ---- the network: core_world_network.c ---- */

bool world_is_asleep(const struct world *world, uint32_t number);

/* They do not hear each other. */
bool world_is_apart(const struct world *world, uint32_t a, uint32_t b);

void world_connect_peer(struct world *world, uint32_t number, const struct node_effect *effect);
void world_send_message(struct world *world, uint32_t number, const struct node_effect *effect);
void world_answer_link(struct world *world, uint32_t number, const struct node_effect *effect);
void world_push_blob(struct world *world, uint32_t number, const struct node_effect *effect);
void world_confirm_blob(struct world *world, uint32_t number, const struct node_effect *effect);

/* ---- worker programs: core_world_workers.c ---- */

/* An elastic worker says truly that it waits for a group. */
void world_waits(struct world *world, uint32_t number, uint32_t slot);

/* NODE_EFFECT_LEAVE_GROUP. */
void world_told_to_leave(struct world *world, uint32_t number, const struct node_effect *effect);

/* The other effects on a worker. */
void world_worker_effect(struct world *world, uint32_t number, const struct node_effect *effect);

/* core_world_searcher.c: effects on the program of a search. */
void world_searcher_effect(struct world *world, uint32_t number, const struct node_effect *effect);

/* The time of the worker's next report has come. */
void world_worker_works(struct world *world, uint32_t number, uint32_t slot);

#endif

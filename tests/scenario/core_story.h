#ifndef TESTS_SCENARIO_CORE_STORY_H
#define TESTS_SCENARIO_CORE_STORY_H
/* What stories have in common: how they begin, what they ask of a world and do to it, and what they assert about its log. */

#include "tests/scenario/core_world.h"

/* Submits trials of one slot to this node; programs run for ever from now on. */
void story_submit(struct world *world, uint32_t node, uint32_t trials, uint32_t max_restarts);

/* Everything starts, and `config` is submitted to node 0 with programs that run for ever. After so long all of its trials for
 * which there is room have begun. Returns the coordinator. */
uint32_t story_begin_with(struct world *world, const struct config *config, uint64_t ms);

/* The same of trials of one slot, after 10 s. */
uint32_t story_begin(struct world *world, uint32_t trials, uint32_t max_restarts);

/* What this node knows of that one, or NULL. */
const struct view_member *member_at(const struct world *world, uint32_t node, uint32_t about);

/* How many workers run on this node. */
uint32_t running(const struct world *world, uint32_t node);

/* A node's disk as it is now, for restart_with, which frees it. */
struct saved_disk {
    struct made *records;
    uint32_t record_count;
    uint64_t boots;
};
struct saved_disk save_disk(const struct world *world, uint32_t node);

/* The node is down; it begins anew with that disk, and without fences. `adopt`: its workers live on. */
void restart_with(struct world *world, uint32_t node, struct saved_disk *saved, bool adopt);

/* The nodes from this one on lose touch with those before it. */
void cut(struct world *world, uint32_t first_of_other_side);

/* Takes back every cut. A host that is_cut stays silent. */
void heal(struct world *world);

/* To stderr, for whoever reads why a story failed. */
void print_end(const struct world *world);

/* The log holds `line`, or will within max_ms. */
void assert_line(struct world *world, uint64_t max_ms, const char *line);

/* These parts follow each other in the log, other lines between them. Returns where the last one is. */
size_t assert_order(const struct world *world, const char *const *parts, size_t count);

#endif

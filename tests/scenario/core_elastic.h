#ifndef TESTS_SCENARIO_CORE_ELASTIC_H
#define TESTS_SCENARIO_CORE_ELASTIC_H
/* For stories of groups that change: what a lost worker, a new slot or a cut costs an attempt whose program is elastic
 * (DESIGN 9). */

#include <stdint.h>

#include "tests/scenario/core_story.h"

struct config elastic(uint32_t trials, uint32_t slots, uint32_t min_slots, uint32_t max_slots);

/* Started, and its programs never end by themselves. The caller frees it with world_free. */
struct world *elastic_world(uint32_t nodes, uint32_t slots_each);

/* The first trial of `config` has its slots_per_trial, in generation 1; `world` has just been started. */
struct world *begins_with(struct world *world, const struct config *config);

/* The group of one trial that wants so many slots, in generation 1; `world` has just been started. */
struct world *begins(struct world *world, uint32_t slots, uint32_t min_slots, uint32_t max_slots);

/* One slot on each of `nodes` nodes, all in generation 1 and a few steps on. The caller frees the world. */
struct world *group_of(uint32_t nodes, uint32_t min_slots);

/* ---- what is there ---- */

/* The newest attempt that this node knows of the trial, or NULL. */
const struct view_attempt *attempt_of(const struct world *world, uint32_t node, uint32_t trial);

/* How many workers are in a group of this generation; 0: in any. */
uint32_t in_generation(const struct world *world, uint32_t generation);

/* That of the node's first slot. */
struct world_worker *worker_on(struct world *world, uint32_t node);

/* The node of this rank of the first trial. */
uint32_t node_of_rank(const struct world *world, uint32_t rank);

/* A node that does not coordinate; the `skip`-th of them. */
uint32_t follower(const struct world *world, uint32_t skip);

/* Runs until so many are in a group of this generation, all of one size. */
void assert_group(struct world *world, uint64_t max_ms, uint32_t generation, uint32_t size);

/* The same of any generation above `before`, which a successor numbers with a gap. Which it is. */
uint32_t assert_group_after(struct world *world, uint64_t max_ms, uint32_t before, uint32_t size);

/* The group makes steps. */
void assert_trains(struct world *world);

/* Nobody was started but those who began and `joined` more, and the attempt lives. */
void assert_one_attempt(const struct world *world, uint32_t began, uint32_t joined);

/* ---- what is done to it ---- */

void withhold(struct world *world, uint32_t node, uint64_t slots); /* bits; 0: all */
void return_slots(struct world *world, uint32_t node);
void drain_at_once(struct world *world, uint32_t node);

#endif

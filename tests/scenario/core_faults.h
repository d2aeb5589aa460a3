#ifndef TESTS_SCENARIO_CORE_FAULTS_H
#define TESTS_SCENARIO_CORE_FAULTS_H
/* For stories of nodes that die, come back, lose their disk, their network or their authority. Include cmocka.h first. */

#include <stdint.h>

#include "tests/scenario/core_story.h"

/* `trials` trials of one slot that run for ever, each on a node of its own. Returns the coordinator. */
uint32_t begin(struct world *world, uint32_t trials, uint32_t max_restarts);

/* Node `from`, as coordinator of the experiment under this term, asks the owner for a slot. */
void reserve_slot(struct world *world, uint32_t owner, uint32_t from, uint64_t term, uint8_t experiment, uint32_t slot);

/* The same of slot 0, always for one experiment. */
void reserve(struct world *world, uint32_t owner, uint32_t from, uint64_t term);

#endif

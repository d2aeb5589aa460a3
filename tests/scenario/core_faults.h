#ifndef TESTS_SCENARIO_CORE_FAULTS_H
#define TESTS_SCENARIO_CORE_FAULTS_H
/* For stories of owners of slots, whom somebody asks for one. */

#include "tests/scenario/core_story.h"

/* Node `from`, as coordinator of the experiment under this term, asks the owner for a slot. */
void reserve_slot(struct world *world, uint32_t owner, uint32_t from, uint64_t term, uint8_t experiment, uint32_t slot);

/* The same of slot 0, always for one experiment. */
void reserve(struct world *world, uint32_t owner, uint32_t from, uint64_t term);

/* Every node knows an experiment of this priority, which is paused and so asks for nothing by itself. */
void know_paused(struct world *world, uint8_t experiment, uint32_t priority);

#endif

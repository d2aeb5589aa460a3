#ifndef TESTS_SIM_PREMISES_H
#define TESTS_SIM_PREMISES_H
/* Whether a run of many seeds has shown anything: what the checkers wait for has to occur, and in a long run often. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/sim/checkers.h"

#define PREMISES_OFTEN_SEEDS 100000 /* from so many on each has to occur so often: */
#define PREMISES_OFTEN 1000

/* Prints how often each occurred in that many seeds of that version of plans, and which of them too rarely; false if any did. */
bool premises_suffice(const uint64_t counts[PREMISE_COUNT], uint64_t seeds, uint32_t plan_version, FILE *out);

#endif

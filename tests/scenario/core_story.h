#ifndef TESTS_SCENARIO_CORE_STORY_H
#define TESTS_SCENARIO_CORE_STORY_H
/* What stories assert about the log of a world. */

#include "tests/scenario/core_world.h"

/* To stderr, for whoever reads why a story failed. */
void print_end(const struct world *world);

/* The log holds `line`, or will within max_ms. */
void assert_line(struct world *world, uint64_t max_ms, const char *line);

/* These parts follow each other in the log, other lines between them. Returns where the last one is. */
size_t assert_order(const struct world *world, const char *const *parts, size_t count);

#endif

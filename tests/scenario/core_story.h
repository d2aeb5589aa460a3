#ifndef TESTS_SCENARIO_CORE_STORY_H
#define TESTS_SCENARIO_CORE_STORY_H
/* What stories assert about the log of a world. Include cmocka.h first. */

#include <stdio.h>

#include "tests/scenario/core_world.h"

static inline void print_end(const struct world *world)
{
    size_t skip = world->log_bytes > 6000 ? world->log_bytes - 6000 : 0;
    fprintf(stderr, "... %s\n", world->log + skip);
}

/* The log holds `line`, or will within max_ms. */
static inline void assert_line(struct world *world, uint64_t max_ms, const char *line)
{
    if (!world_run_until(world, max_ms, 0, line)) {
        print_end(world);
        fail_msg("never said: %s", line);
    }
}

/* These parts follow each other in the log, other lines between them. Returns where the last one is. */
static inline size_t assert_order(const struct world *world, const char *const *parts, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = world_find(world, at, parts[i]);
        if (found == SIZE_MAX) {
            print_end(world);
            fail_msg("\"%s\" does not follow", parts[i]);
        }
        at = found;
    }
    return at;
}

#endif

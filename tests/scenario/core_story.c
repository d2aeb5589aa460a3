#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/scenario/core_story.h"

void print_end(const struct world *world)
{
    size_t skip = world->log_bytes > 6000 ? world->log_bytes - 6000 : 0;
    fprintf(stderr, "... %s\n", world->log + skip);
}

void assert_line(struct world *world, uint64_t max_ms, const char *line)
{
    if (!world_run_until(world, max_ms, 0, line)) {
        print_end(world);
        fail_msg("never said: %s", line);
    }
}

size_t assert_order(const struct world *world, const char *const *parts, size_t count)
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

#ifndef TESTS_SCENARIO_CORE_MEMORY_H
#define TESTS_SCENARIO_CORE_MEMORY_H
/* For stories of memory that runs out. */

#include "tests/scenario/core_story.h"

#define SMALL_BYTES (2u << 20)

/* The first attempt of a trial, as a coordinator had it that is not in the story. */
attempt_id attempt_of(uint32_t experiment, uint32_t trial);

/* A checkpoint of which nothing matters but its name. */
hash256 checkpoint(void);

/* A user at this node asks for that, of any experiment. */
void request(struct world *world, uint32_t node, enum node_request_kind kind, uint32_t experiment);

/* Memory that somebody else has taken: what a core may take; with the reserve; and all of it is given back. */
struct taken {
    struct taken *next;
    size_t bytes;
};
struct taken *take_all(struct arena *arena);
struct taken *take_to_the_last(struct arena *arena);
void give_all(struct arena *arena, struct taken *all);

/* Before node 0 starts: there is less memory than when its records were written, and no other node that could offer again
 * what is not loaded. */
void store_more_than_is_loaded(struct world *world);

#endif

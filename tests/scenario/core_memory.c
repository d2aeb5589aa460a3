#include "tests/scenario/core_memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

attempt_id attempt_of(uint32_t experiment, uint32_t trial)
{
    return make_attempt_id(experiment, trial, 1, 1, make_person(4).id);
}

hash256 checkpoint(void)
{
    return (hash256){{7}};
}

void request(struct world *world, uint32_t node, enum node_request_kind kind, uint32_t experiment)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 3;
    event.u.request.experiment = make_experiment_id(experiment);
    world_step(world, node, &event);
}

/* In blocks of all the sizes that records and rows have, in turns. */
struct taken *take_all(struct arena *arena)
{
    struct taken *all = NULL;
    for (bool has_taken = true; has_taken;) {
        has_taken = false;
        for (size_t bytes = 1024; bytes >= 32; bytes /= 2) {
            struct taken *block = arena_take(arena, bytes);
            if (block != NULL) {
                *block = (struct taken){all, bytes};
                all = block;
                has_taken = true;
            }
        }
    }
    return all;
}

void give_all(struct arena *arena, struct taken *all)
{
    for (struct taken *block = all, *next; block != NULL; block = next) {
        next = block->next;
        arena_give(arena, block, block->bytes);
    }
}

struct taken *take_to_the_last(struct arena *arena)
{
    bool takes_reserve = arena->takes_reserve;
    arena->takes_reserve = true;
    struct taken *all = take_all(arena);
    arena->takes_reserve = takes_reserve;
    return all;
}

void store_more_than_is_loaded(struct world *world)
{
    enum { TRIALS = 2000 };
    struct config config;
    make_config(&config, TRIALS, 5);
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    static const uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_experiment experiment = {.config = packed, .config_bytes = make_packed_config(&config, packed)};
    struct fact_verdict verdict = {.reason = FACT_COMPLETED, .metrics = metrics};
    struct made made;
    make_record(&made, make_person(4).id, 99, 1, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(1)), &experiment);
    world_store(world, 0, &made);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        attempt_id attempt = attempt_of(1, trial);
        verdict.metrics_bytes = trial < TRIALS / 2 ? FACT_METRICS_BYTES_MAX : 0; /* the gaps between the large ones fill, too */
        make_record(&made, attempt.coordinator, 99, 2 + trial, FACT_VERDICT, fact_key_verdict(&attempt), &verdict);
        world_store(world, 0, &made);
    }
    world->core_bytes = SMALL_BYTES;
}

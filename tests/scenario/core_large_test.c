/* More to do at once than the effects of one step have room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/scenario/core_story.h"

#define TRIALS 40
#define RANKS FACT_MEMBERS_MAX

/* Somebody who is away has begun an attempt of each trial whose ranks are on two nodes in turns: a renewal for each rank. */
static void deliver_attempts(struct world *world)
{
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        attempt_id id = make_attempt_id(0, trial, 1, 1, world->nodes[1].person.id);
        struct fact_attempt fact = {.member_count = RANKS};
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            fact.members[rank] = (struct fact_assignment){world->nodes[1 + rank % 2].person.id, rank / 2};
        }
        struct made made;
        make_record(&made, world->nodes[1].person.id, 1ull << 40, trial + 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
        world_deliver(world, 1, 0, &made);
    }
}

static void leases_that_one_step_cannot_renew_are_renewed_by_the_next_ones(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world->nodes[1].is_cut = world->nodes[2].is_cut = true;
    world_run(world, 60000);
    struct config config;
    make_config(&config, TRIALS, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = RANKS;
    world_submit(world, 0, &config);
    assert_line(world, 20000, "a: coordinates exp");
    deliver_attempts(world);
    uint32_t renewals[TRIALS] = {0};
    for (uint64_t ms = 0; ms < 2 * CORE_RENEW_MS + 5000; ms += 100) {
        struct node_event tick = {.kind = NODE_EVENT_TICK};
        world->now_ms += 100;
        world_step(world, 0, &tick);
        const struct node_effects *effects = &world->nodes[0].effects;
        for (uint32_t i = 0; i < effects->count; i++) {
            const struct message *message = &effects->items[i].u.send.message;
            if (effects->items[i].kind == NODE_EFFECT_SEND && message->kind == MESSAGE_RENEW) {
                renewals[message->u.lease.attempt.trial]++;
            }
        }
    }
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        assert_in_range(renewals[trial], 2 * RANKS, 3 * RANKS);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_that_one_step_cannot_renew_are_renewed_by_the_next_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

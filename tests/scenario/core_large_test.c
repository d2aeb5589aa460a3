/* More to do at once than the effects of one step have room for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/gangs.h"
#include "tests/scenario/core_story.h"

#define TRIALS 40
#define RANKS FACT_MEMBERS_PLAIN

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

/* As if the node were in a step that has said so much already. */
static struct node_core *in_a_full_step(struct world *world, uint32_t node, uint32_t room)
{
    struct world_node *full = &world->nodes[node];
    full->effects.count = NODE_EFFECTS_MAX - room;
    full->effects.used_bytes = 0;
    full->core->out = &full->effects;
    return full->core;
}

static void who_leaves_with_more_than_one_step_can_hand_over_goes_on_in_the_next(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 1, 0);
    struct node_core *core = in_a_full_step(world, coordinator, 0);
    core->leaving = true;
    core_coordinator_leave(core);
    core->out = NULL;
    size_t before = world->log_bytes;
    assert_int_equal(world_coordinator(world), coordinator);
    assert_true(world_run_until(world, 1000, before, "> persist claim"));
    assert_true(world_run_until(world, 20000, before, "coordinates exp"));
    assert_int_equal(world_coordinator(world), 1 - coordinator);
    world_free(world);
}

static void who_leaves_says_nothing_of_what_is_over(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 2, 5);
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 30000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    size_t before = world->log_bytes;
    world_request(world, (uint32_t)coordinator, NODE_REQUEST_LEAVE);
    assert_true(world_run_until(world, 10000, before, "> reply"));
    assert_true(world_find(world, before, "persist claim") == SIZE_MAX);
    world_free(world);
}

static void groups_that_a_full_step_drops_are_judged_later(void **state)
{
    (void)state;
    struct world *world = world_new(5, 4);
    world_start_all(world);
    world->disk_ms = 300;
    story_submit(world, 0, 20, 5);
    assert_line(world, 10000, "> persist attempt");
    world_run(world, 200);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    struct core_coordination *row = core_find_coordination(world->nodes[coordinator].core, make_experiment_id(0));
    uint32_t recorded = 0;
    for (const struct core_gang *gang = row->gangs; gang != NULL; gang = gang->next) {
        recorded += gang->state != CORE_GANG_RESERVING;
    }
    assert_true(recorded >= 4);
    struct node_core *core = in_a_full_step(world, (uint32_t)coordinator, 3);
    gangs_drop(core, row);
    core->out = NULL;
    assert_null(row->gangs);
    world->disk_ms = 0;
    world_run(world, 60000);
    uint32_t count = 0;
    for (uint32_t i = 0; i < 5; i++) {
        count += running(world, i);
    }
    assert_int_equal(count, 20);
    world_free(world);
}

static struct config large_config(uint32_t slots, uint32_t max_slots)
{
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = slots;
    config.max_slots = max_slots;
    return config;
}

/* The records of a kind that a node holds, none of them larger than a record may be. */
static uint32_t records_of(const struct world *world, uint32_t node, enum fact_kind kind)
{
    const struct records *records = &world->nodes[node].core->records;
    uint32_t count = 0;
    for (uint32_t bucket = 0; bucket < RECORDS_BUCKETS; bucket++) {
        for (const struct records_entry *entry = records->buckets[bucket]; entry != NULL; entry = entry->next_in_bucket) {
            assert_true(entry->record.body_bytes <= RECORD_BODY_BYTES_MAX);
            count += entry->record.kind == kind;
        }
    }
    return count;
}

static uint32_t running_everywhere(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        count += world->nodes[i].is_up ? running(world, i) : 0;
    }
    return count;
}

static void a_group_of_256_begins_and_begins_again_when_a_node_dies(void **state)
{
    (void)state;
    struct world *world = world_new(5, 64);
    struct config config = large_config(256, 256);
    (void)story_begin_with(world, &config, 8000);
    assert_int_equal(running_everywhere(world), 256);
    assert_int_equal(records_of(world, 0, FACT_EXPERIMENT_LARGE), 1);
    assert_int_equal(records_of(world, 0, FACT_ATTEMPT_LARGE), 1);
    assert_int_equal(records_of(world, 0, FACT_ATTEMPT), 0);
    uint32_t dead = world->node_count;
    while (dead-- > 0 && running(world, dead) == 0) {
    }
    size_t before = world->log_bytes;
    world_crash(world, dead);
    assert_true(world_run_until(world, 60000, before, "exp trial 0 attempt 2 from step 0 on"));
    world_run(world, 3000);
    assert_int_equal(running_everywhere(world), 256); /* on the other four */
    assert_int_equal(records_of(world, dead == 0 ? 1 : 0, FACT_ATTEMPT_LARGE), 2);
    world_free(world);
}

static void an_older_node_gets_no_worker_of_a_large_experiment(void **state)
{
    (void)state;
    struct world *world = world_new(4, 64);
    world->nodes[2].is_older = true;
    struct config config = large_config(130, 130);
    (void)story_begin_with(world, &config, 8000);
    assert_int_equal(running(world, 2), 0);
    assert_int_equal(running_everywhere(world), 130);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(leases_that_one_step_cannot_renew_are_renewed_by_the_next_ones),
        cmocka_unit_test(who_leaves_with_more_than_one_step_can_hand_over_goes_on_in_the_next),
        cmocka_unit_test(who_leaves_says_nothing_of_what_is_over),
        cmocka_unit_test(groups_that_a_full_step_drops_are_judged_later),
        cmocka_unit_test(a_group_of_256_begins_and_begins_again_when_a_node_dies),
        cmocka_unit_test(an_older_node_gets_no_worker_of_a_large_experiment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which of several experiments gets a slot that has become free: its owner ranks those that ask by its own records. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/owner/owner.h"
#include "tests/scenario/core_faults.h"
#include "tests/scenario/core_story.h"

#define NUMBERS 12 /* experiments that are tried until one has another coordinator */

static int leader_of(const struct world *world, uint32_t number)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        const struct core_coordination *row = core_find_coordination(world->nodes[i].core, make_experiment_id(number));
        if (row != NULL && row->election.state == ELECTION_LEADING) {
            return (int)i;
        }
    }
    return -1;
}

static void withhold(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_WITHHOLD;
    event.u.request.client = 9;
    event.u.request.slots = 1;
    world_step(world, node, &event);
}

/* Three nodes with a slot each, of which one is left: that of the coordinator of experiment 0, a trial of which runs there while others
 * wait. Records take 100 ms. Returns the node. */
static uint32_t begin(struct world *world)
{
    world->records_ms = 100;
    uint32_t owner = story_begin(world, 20, 5);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != owner) {
            withhold(world, i);
        }
    }
    world_run(world, 20000);
    assert_int_equal(running(world, 0) + running(world, 1) + running(world, 2), 1);
    assert_int_equal(running(world, owner), 1);
    return owner;
}

/* The same, with an experiment of this priority beside it that another node coordinates; its number in `*number`. */
static struct world *begin_beside(uint32_t priority, uint32_t *owner, uint32_t *number)
{
    for (*number = 1; *number < NUMBERS; (*number)++) {
        struct world *world = world_new(3, 1);
        struct config config;
        *owner = begin(world);
        make_config(&config, 3, 5);
        config.priority = priority;
        world_submit_as(world, (*owner + 1) % 3, *number, &config);
        world_run(world, 5000);
        if (leader_of(world, *number) >= 0 && leader_of(world, *number) != (int)*owner) {
            return world;
        }
        world_free(world);
    }
    fail_msg("one node coordinates all experiments");
    return NULL;
}

/* The worker on the node completes; how long until the next one begins there, at most 5 s. */
static uint64_t next_after_ms(struct world *world, uint32_t node)
{
    uint32_t before = world->nodes[node].spawn_count;
    uint64_t began_ms = world->now_ms;
    world_end_worker(world, node, 0, 0);
    while (world->nodes[node].spawn_count == before && world->now_ms < began_ms + 5000) {
        world_run(world, 10);
    }
    assert_int_equal(world->nodes[node].spawn_count, before + 1);
    return world->now_ms - began_ms;
}

static void assert_runs(const struct world *world, uint32_t node, uint32_t number)
{
    assert_int_equal(running(world, node), 1);
    assert_memory_equal(&world->nodes[node].workers[0].attempt.experiment, make_experiment_id(number).bytes, sizeof(experiment_id));
}

/* S3. The coordinator beside the slot hears first that the slot is free, and asks within the same step. */
static void the_neighbour_of_a_slot_does_not_win_against_a_better_trial(void **state)
{
    (void)state;
    uint32_t owner, number;
    struct world *world = begin_beside(10, &owner, &number);
    for (int i = 0; i < 3; i++) {
        (void)next_after_ms(world, owner);
        assert_runs(world, owner, number);
    }
    (void)next_after_ms(world, owner); /* no trial of it is left */
    assert_runs(world, owner, 0);
    world_free(world);
}

static void the_neighbour_of_a_slot_wins_at_once_if_its_trial_is_the_best(void **state)
{
    (void)state;
    uint32_t owner, number;
    struct world *world = begin_beside(90, &owner, &number);
    for (int i = 0; i < 3; i++) {
        assert_true(next_after_ms(world, owner) < CORE_ASK_MS);
        assert_runs(world, owner, 0);
    }
    world_free(world);
}

/* S2. One coordinator has heard that its experiment has become less important than the other, and the other one has not. Neither
 * waits for the other: both ask. */
static void a_slot_goes_to_a_trial_whatever_coordinators_think_of_the_order(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 3; late++) {
        uint32_t owner, number;
        struct world *world = begin_beside(50, &owner, &number);
        world->late_from = 1u << (owner + late) % 3;
        world->late_ms = 20000;
        world_annotate(world, (owner + late) % 3, FACT_PRIORITY, true, "", "60");
        world_run(world, 1000);
        assert_true(next_after_ms(world, owner) < 2000);
        world_free(world);
    }
}

/* An experiment that comes first and does not ask: its trial waits for a secret. The slot waits for it once, and not again soon. */
static void a_slot_waits_for_one_that_does_not_ask_but_once(void **state)
{
    (void)state;
    static const uint8_t lacks[] = {0x91, 0xa1, 'K'};
    struct world *world = world_new(3, 1);
    struct config config;
    uint32_t owner = begin(world);
    make_config(&config, 1, 5);
    config.priority = 1;
    config.secrets = lacks;
    config.secrets_bytes = sizeof lacks;
    world_submit_as(world, owner, 1, &config);
    world_run(world, 5000);
    assert_true(leader_of(world, 1) >= 0);
    uint64_t waited_ms = next_after_ms(world, owner);
    assert_true(waited_ms >= CORE_ASK_MS && waited_ms < CORE_ASK_MS + 300);
    assert_true(next_after_ms(world, owner) < CORE_ASK_MS);
    assert_runs(world, owner, 0);
    world_run(world, CORE_ASK_PASSED_MS);
    assert_true(next_after_ms(world, owner) >= CORE_ASK_MS);
    world_free(world);
}

static void ask(struct world *world, uint32_t owner, uint32_t from, uint8_t experiment, uint32_t priority)
{
    struct message message = {.kind = MESSAGE_RESERVE, .boot = world->nodes[from].boots};
    message.u.lease.attempt = make_attempt_id(experiment, 0, 1, 5, world->nodes[from].person.id);
    message.u.lease.claim = (struct election_claim){5, world->nodes[from].person.id};
    message.u.lease.priority = priority;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, owner, &event);
}

static void assert_reserved(const struct world *world, uint32_t owner, uint32_t number)
{
    const struct lease_slot *slot = &world->nodes[owner].core->owner->lease.slots[0];
    assert_int_equal(slot->state, LEASE_RESERVED);
    assert_memory_equal(&slot->attempt.experiment, make_experiment_id(number).bytes, sizeof(experiment_id));
}

/* S1 and S11. The numbers in messages are of two snapshots, or forged, and count for nothing. */
static void numbers_in_a_message_are_not_believed(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    know_paused(world, 7, 10);
    know_paused(world, 8, 42);
    ask(world, 0, 1, 8, 1);
    assert_reserved(world, 0, 8);
    ask(world, 0, 2, 7, 1);
    assert_reserved(world, 0, 7); /* first by the records of the owner */
    ask(world, 0, 1, 8, 0);
    assert_reserved(world, 0, 7);
    ask(world, 0, 1, 9, 0); /* an experiment of which the owner knows nothing */
    assert_reserved(world, 0, 7);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_neighbour_of_a_slot_does_not_win_against_a_better_trial),
        cmocka_unit_test(the_neighbour_of_a_slot_wins_at_once_if_its_trial_is_the_best),
        cmocka_unit_test(a_slot_goes_to_a_trial_whatever_coordinators_think_of_the_order),
        cmocka_unit_test(a_slot_waits_for_one_that_does_not_ask_but_once),
        cmocka_unit_test(numbers_in_a_message_are_not_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

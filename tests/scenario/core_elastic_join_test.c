/* Groups that somebody joins, and joiners that never arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/ground/state.h"
#include "tests/scenario/core_elastic.h"

static struct world *world_without_a_third(uint32_t *third)
{
    struct world *world = elastic_world(3, 1);
    *third = 2;
    world_die(world, *third);
    world_run(world, 15000);
    return world;
}

/* Two nodes with a slot each train, a third one is not there yet. */
static struct world *group_of_two_before_a_third(uint32_t *third)
{
    struct world *world = world_without_a_third(third);
    begins(world, 2, 1, 3);
    world_run(world, 2500);
    world->nodes[*third].is_cut = false;
    return world;
}

/* The third has come, and its worker does not listen; nor does any that begins from here on. */
static struct world *group_of_two_and_a_mute_third(uint32_t *third)
{
    struct world *world = group_of_two_before_a_third(third);
    world->is_mute = true;
    world_restart(world, *third, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    return world;
}

static void a_group_grows_when_a_node_comes(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world_restart(world, third, false);
    assert_group(world, 60000, 2, 3);
    assert_int_equal(world_count(world, " of 3 from step "), 3);
    assert_int_equal(world_count(world, "states 110"), 3);
    assert_int_equal(world_count(world, "> leave generation 1\n"), 2); /* at the end of a step, nobody in the midst of one */
    assert_trains(world);
    assert_one_attempt(world, 2, 1);
    world_run(world, 30000);
    assert_int_equal(in_generation(world, 2), 3); /* and there it stays */
    world_free(world);
}

/* Each term has numbers of its own for the generations, and so they are large after some dozens of coordinators. */
static void a_group_that_many_terms_have_led_grows_like_any_other(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    struct fact_claim claim = {.term = 70};
    struct made made;
    make_record(&made, world->nodes[third].person.id, world->nodes[third].core->options.boot, 1u << 20, FACT_CLAIM,
                fact_key_experiment(make_experiment_id(0)), &claim);
    for (uint32_t i = 0; i < third; i++) {
        world_deliver(world, third, i, &made);
    }
    assert_line(world, 60000, "coordinates exp with term 71");
    world_end_worker(world, follower(world, 0), 0, -9);
    uint32_t generation = assert_group_after(world, 40000, 1, 2); /* another takes its place */
    assert_true(generation > UINT16_MAX);
    world_restart(world, third, false);
    (void)assert_group_after(world, 60000, generation, 3);
    assert_trains(world);
    assert_one_attempt(world, 2, 2);
    world_free(world);
}

static void a_group_does_not_grow_while_a_trial_waits_for_slots(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = world_without_a_third(&third);
    struct config config = elastic(2, 2, 2, 3);
    begins_with(world, &config);
    world->nodes[third].is_cut = false;
    world_restart(world, third, false);
    world_run(world, 60000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_one_attempt(world, 2, 0);
    world_free(world);
}

/* It is older than the trial that waits, and was given as many slots as that one asks for. */
static void a_lost_worker_is_replaced_before_a_trial_that_waits_begins(void **state)
{
    (void)state;
    struct config config = elastic(2, 2, 1, 2);
    struct world *world = begins_with(elastic_world(3, 1), &config);
    world_run(world, 2500);
    uint32_t victim = follower(world, 0);
    victim = running(world, victim) > 0 ? victim : follower(world, 1);
    world_end_worker(world, victim, 0, -9);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 2);
    assert_int_equal(in_generation(world, 1), 0);
    assert_int_equal(world_count(world, "> spawn trial 1"), 0);
    assert_one_attempt(world, 2, 1);
    assert_trains(world);
    world_free(world);
}

static void a_joiner_that_never_listens_is_dropped_and_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_and_a_mute_third(&third);
    world->is_mute = false;
    world_run(world, CORE_JOIN_LISTEN_MS - 5000);
    assert_int_equal(running(world, third), 1);
    assert_int_equal(in_generation(world, 1), 2);
    assert_line(world, 20000, "> kill trial 0 attempt 1");
    assert_int_equal(in_generation(world, 1), 2);
    assert_group(world, 60000, 2, 3); /* the next one does better */
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

/* Seed 915447 of plan 4. */
static void a_joiner_that_comes_late_has_its_own_time_to_listen(void **state)
{
    (void)state;
    struct world *world = elastic_world(4, 1);
    world_die(world, 2);
    world_die(world, 3);
    world_run(world, 15000);
    begins(world, 2, 1, 4);
    world->is_mute = true;
    world->nodes[2].is_cut = world->nodes[3].is_cut = false;
    world_restart(world, 2, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    world->is_mute = false;
    world->prepare_ms = 15000;
    world_run(world, CORE_JOIN_LISTEN_MS - 10000);
    world_restart(world, 3, false);
    assert_line(world, 30000, "> spawn trial 0 attempt 1 rank 3");
    assert_int_equal(world_count(world, "> kill "), 0);
    assert_group(world, 90000, 2, 3); /* the first is dropped, and the second comes in */
    assert_true(worker_on(world, 3)->runs);
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

static void a_joiner_whose_node_dies_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_and_a_mute_third(&third);
    world_die(world, third);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(attempt_of(world, 0, 0)->joiner_count, 0);
    assert_one_attempt(world, 2, 1);
    assert_trains(world);
    world_free(world);
}

static void joiners_that_fail_at_once_cost_the_group_nothing_and_come_ever_more_seldom(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->nodes[third].fails_programs = true;
    world_restart(world, third, false);
    world_run(world, 600000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_in_range(world_spawns(world), 2 + 5, 2 + 16);
    assert_trains(world);
    world_free(world);
}

/* A slot beside a member's, on the same node, is leased for the same attempt. */
static struct world *member_beside_a_free_slot(uint32_t *node)
{
    struct world *world = elastic_world(2, 2);
    withhold(world, 0, 2); /* nobody can join yet */
    withhold(world, 1, 3);
    world_run(world, 1000);
    begins(world, 1, 1, 2);
    world_run(world, 2500);
    *node = 0;
    assert_int_equal(running(world, 0), 1);
    return world;
}

/* Its slot is of use to others, who may wait for each other in the same way. */
static void a_joiner_waits_no_longer_than_others_are_on_their_way(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 2);
    withhold(world, 2, 2);
    world_run(world, 1000);
    begins(world, 5, 5, 6);
    world_run(world, 3500);
    world_die(world, world_coordinator(world) == 0 ? 1 : 0);
    assert_line(world, 15000, "> leave generation 1 at once");
    return_slots(world, 2);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 5");
    world_run(world, CORE_REGROUP_MS - 10000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_line(world, 20000, "persist verdict lost");
    world_run(world, 5000);
    assert_int_equal(running(world, 2), 0);
    world_free(world);
}

static void a_joiner_that_is_dropped_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    world->is_mute = true;
    return_slots(world, node);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 1");
    world->is_mute = false;
    world_run(world, CORE_JOIN_LISTEN_MS + 5000);
    assert_true(world->nodes[node].workers[0].runs);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_group(world, 60000, 2, 2);
    assert_trains(world);
    world_free(world);
}

static void a_joiner_that_cannot_be_prepared_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    world->nodes[0].lacks_code = world->nodes[1].lacks_code = true;
    return_slots(world, node);
    world_run(world, 20000);
    assert_true(world_count(world, "> prepare ") >= 2);
    assert_one_attempt(world, 1, 0);
    assert_int_equal(in_generation(world, 1), 1);
    assert_trains(world);
    world_free(world);
}

static void a_slot_that_is_refused_to_a_joiner_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    struct node_event event = {.kind = NODE_EVENT_DISK};
    event.u.disk.full = true; /* no grants */
    world_step(world, node, &event);
    return_slots(world, node);
    world_run(world, 20000);
    assert_int_equal(world_count(world, "> send reserve") + world_spawns(world), 1);
    assert_one_attempt(world, 1, 0);
    assert_int_equal(in_generation(world, 1), 1);
    assert_trains(world);
    world_free(world);
}

static void a_slot_taken_back_from_a_joiner_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_and_a_mute_third(&third);
    withhold(world, third, 0);
    world_run(world, 2000);
    assert_int_equal(running(world, third), 0);
    world_run(world, 90000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 3);
    assert_trains(world);
    world_free(world);
}

/* Seeds 600623 and 602723: who was to join holds its slot, and nothing else can be begun there. */
static void a_joiner_does_not_wait_for_ever_for_a_group_beyond_a_cut(void **state)
{
    (void)state;
    struct world *world = elastic_world(2, 1);
    struct config config = elastic(1, 1, 1, 2);
    world->is_mute = true;
    world->prepare_ms = 4000;
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 0");
    uint32_t first = running(world, 0) > 0 ? 0 : 1;
    world_listens(world, first, 0, 0, false, 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 1");
    world_listens(world, 1 - first, 0, 0, false, 0);
    cut(world, 1);
    world->is_mute = false;
    world_run(world, CORE_PATIENCE_MS - 30000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_run(world, 90000);
    assert_int_equal(world_count(world, "persist verdict lost"), 1);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 1);
    assert_int_equal(running(world, first), 1);
    world_free(world);
}

/* Its coordinator's word comes straight to its owner, and the record that names it by way of others. */
static void a_group_grows_where_records_come_later_than_messages(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->records_ms = 600;
    world_restart(world, third, false);
    assert_group(world, 60000, 2, 3);
    assert_trains(world);
    assert_one_attempt(world, 2, 1);
    world_free(world);
}

/* Disks are slow, and the record of its slot comes later than the word that it has the lease. */
static void a_joiner_that_was_confirmed_late_has_its_time_from_then_on(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->records_ms = 600;
    world_restart(world, third, false);
    world_run(world, 1000);
    world->disk_ms = CORE_JOIN_LEASE_MS / 2 + 100; /* that of the coordinator, then that of the owner */
    assert_line(world, 60000, "c> persist slot 0 leased");
    world->disk_ms = 0;
    assert_group(world, 30000, 2, 3);
    assert_one_attempt(world, 2, 1);
    world_free(world);
}

/* A minute is not enough for its code to come and its program to begin: the next one has two. */
static void a_joiner_that_takes_long_to_begin_comes_in_at_last(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_and_a_mute_third(&third);
    world_run(world, CORE_JOIN_LISTEN_MS + 20000);
    assert_int_equal(world_count(world, "> kill trial 0 attempt 1"), 1);
    while (running(world, third) == 0) {
        world_run(world, 1000);
    }
    uint64_t begun_ms = worker_on(world, third)->spawned_ms;
    world_run(world, begun_ms + CORE_JOIN_LISTEN_MS + 20000 - world->now_ms);
    assert_int_equal(world_count(world, "> kill trial 0 attempt 1"), 1);
    world_listens(world, third, 0, 0, false, 0);
    assert_group(world, 20000, 2, 3);
    assert_trains(world);
    world_free(world);
}

/* While the record of a group is on its way to the disk a member ends, and the next group is named, with somebody who has come
 * meanwhile. */
static void a_key_is_sent_when_the_record_of_its_own_generation_is_on_disk(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_and_a_mute_third(&third);
    uint32_t coordinator = (uint32_t)world_coordinator(world), other = 1 - coordinator;
    const char *name = world->nodes[coordinator].person.name;
    char persist[64], sent[64];
    world_run(world, 5000);
    world->nodes[coordinator].disk_ms = 4000;
    size_t before = world->log_bytes;
    world_leave_group(world, other, 0);
    assert_true(world_run_until(world, 5000, before, ": generation 2 of 2"));
    world_run(world, 2000);
    world_listens(world, third, 0, 0, false, 0);
    world_end_worker(world, other, 0, -9);
    assert_true(world_run_until(world, 1500, before, ": generation 3 of 2"));
    snprintf(persist, sizeof persist, "%s> persist generation #", name);
    size_t put = world_find(world, world_find(world, before, ": generation 3 of 2"), persist);
    assert_true(put != SIZE_MAX);
    unsigned long long ticket = strtoull(world->log + put + strlen(persist), NULL, 10);
    assert_group(world, 20000, 3, 2);
    snprintf(persist, sizeof persist, "%s< persisted %llu\n", name, ticket);
    snprintf(sent, sizeof sent, "%s> send group %s", name, world->nodes[third].person.name);
    assert_true(world_find(world, put, persist) < world_find(world, put, sent));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_group_grows_when_a_node_comes),
        cmocka_unit_test(a_group_that_many_terms_have_led_grows_like_any_other),
        cmocka_unit_test(a_group_does_not_grow_while_a_trial_waits_for_slots),
        cmocka_unit_test(a_lost_worker_is_replaced_before_a_trial_that_waits_begins),
        cmocka_unit_test(a_joiner_that_never_listens_is_dropped_and_costs_the_group_nothing),
        cmocka_unit_test(a_joiner_that_comes_late_has_its_own_time_to_listen),
        cmocka_unit_test(a_joiner_whose_node_dies_costs_the_group_nothing),
        cmocka_unit_test(joiners_that_fail_at_once_cost_the_group_nothing_and_come_ever_more_seldom),
        cmocka_unit_test(a_joiner_waits_no_longer_than_others_are_on_their_way),
        cmocka_unit_test(a_joiner_that_is_dropped_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_joiner_that_cannot_be_prepared_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_slot_that_is_refused_to_a_joiner_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_slot_taken_back_from_a_joiner_costs_the_group_nothing),
        cmocka_unit_test(a_joiner_does_not_wait_for_ever_for_a_group_beyond_a_cut),
        cmocka_unit_test(a_group_grows_where_records_come_later_than_messages),
        cmocka_unit_test(a_joiner_that_was_confirmed_late_has_its_time_from_then_on),
        cmocka_unit_test(a_joiner_that_takes_long_to_begin_comes_in_at_last),
        cmocka_unit_test(a_key_is_sent_when_the_record_of_its_own_generation_is_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

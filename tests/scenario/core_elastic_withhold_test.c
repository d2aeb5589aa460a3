/* Groups whose slots are wanted back, and what users ask for while a generation is on its way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/coordinator/coordination.h"
#include "tests/scenario/core_elastic.h"

/* ---- what owners want back ------------------------------------------------------------------------------------------------ */

static void assert_gone(struct world *world, uint64_t max_ms, uint32_t node)
{
    uint64_t until_ms = world->now_ms + max_ms;
    while (running(world, node) > 0 && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    assert_int_equal(running(world, node), 0);
}

static void a_slot_taken_back_from_a_member_costs_the_others_no_step(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> leave generation 1\n"), 3); /* after one and the same step */
    assert_int_equal(world_count(world, "> leave generation 1 at once"), 0);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_trains(world);
    return_slots(world, node);
    assert_group(world, 20000, 3, 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 4);
    assert_trains(world);
    world_free(world);
}

static void the_coordinators_own_slot_is_given_back_like_any_other(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = (uint32_t)world_coordinator(world);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void a_member_of_a_node_that_is_drained_at_once_is_replaced_elsewhere(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(4, 1), 3, 2, 3);
    world_run(world, 2500);
    uint32_t node = follower(world, 0);
    for (uint32_t skip = 1; running(world, node) == 0; skip++) {
        node = follower(world, skip);
    }
    drain_at_once(world, node);
    assert_gone(world, 5000, node);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_trains(world);
    world_free(world);
}

static void a_group_that_cannot_do_without_a_slot_taken_back_saves_and_stops_as_a_whole(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(3, 1), 3, 2, 3);
    world_run(world, 2500);
    withhold(world, follower(world, 0), 0);
    withhold(world, follower(world, 1), 0);
    assert_line(world, 5000, "persist verdict stopped");
    assert_int_equal(world_count(world, "> stop "), 3);
    assert_int_equal(in_generation(world, 0), 0);
    return_slots(world, follower(world, 0));
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    world_free(world);
}

/* One of two is a side of its own only as the lowest rank: so both go on once more, the one that shall go last. (In the simulator
 * what a coordinator that hears late had counted without naming it had gone on elsewhere.) */
static void the_lowest_rank_of_two_gives_its_slot_back_once_it_is_the_last(void **state)
{
    (void)state;
    struct world *world = group_of(2, 1);
    uint32_t node = node_of_rank(world, 0);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 3, 1);
    assert_int_equal(world_count(world, "generation 2 of 2 "), 1);
    assert_int_equal(world_count(world, "generation 3 of 1 "), 1);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void the_highest_rank_of_two_gives_its_slot_back_at_once(void **state)
{
    (void)state;
    struct world *world = group_of(2, 1);
    uint32_t node = node_of_rank(world, 1);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void a_group_gives_back_more_than_half_of_its_slots_generation_by_generation(void **state)
{
    (void)state;
    struct world *world = group_of(5, 1);
    for (uint32_t rank = 0; rank < 4; rank++) {
        withhold(world, node_of_rank(world, rank), 0);
    }
    uint32_t last = node_of_rank(world, 4);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != last) {
            assert_gone(world, 10000, i);
        }
    }
    assert_int_equal(in_generation(world, 0), 1);
    assert_int_equal(running(world, last), 1);
    assert_int_equal(world_count(world, "generation 2 of 3 "), 1);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void one_of_three_goes_on_when_another_dies_and_the_lowest_rank_gives_its_slot_back(void **state)
{
    (void)state;
    struct world *world = group_of(3, 1);
    world_run(world, 10000);
    uint32_t wanted = node_of_rank(world, 0), dead = node_of_rank(world, 2);
    world_die(world, dead);
    withhold(world, wanted, 0);
    world_run(world, 60000);
    assert_int_equal(running(world, wanted), 0);
    assert_int_equal(in_generation(world, 0), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* Its owner takes it, in the time that a program has to stop; then the other is all that is left. */
static void the_lowest_rank_of_two_that_does_not_leave_is_ended_by_its_owner_first(void **state)
{
    (void)state;
    struct world *world = group_of(2, 1);
    world_run(world, 10000);
    uint32_t node = node_of_rank(world, 0);
    world->nodes[node].computes = true;
    withhold(world, node, 0);
    world_run(world, 50000);
    assert_int_equal(running(world, node), 1);
    assert_gone(world, 20000, node); /* preemption_timeout */
    assert_group(world, 5000, 2, 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* A third is ready when two of at most two leave their group, and takes the place of the one that goes. */
static void who_goes_on_once_more_sends_no_joiner_away(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(3, 1), 2, 1, 2);
    world_run(world, 10000);
    uint32_t node = node_of_rank(world, 0);
    for (int i = 0; i < 3; i++) {
        world->nodes[i].computes = true;
    }
    withhold(world, node, 0);
    world_run(world, 8000);
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].computes = false;
        if (worker_on(world, i)->runs && worker_on(world, i)->group_size > 0) {
            world_leave_group(world, i, 0);
        }
    }
    assert_gone(world, 10000, node);
    assert_group(world, 5000, 3, 2);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* Rank 0 and its node see the program's stop, and the others would hear of it in their next collective: the program of a
 * slot that is wanted back is ended without a word when its group has not let it go in time. */
static void a_slot_is_taken_from_a_group_that_does_not_let_it_go_in_time(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    world->nodes[node].computes = true;
    withhold(world, node, 0);
    world_run(world, 20000);
    assert_int_equal(running(world, node), 1);
    assert_gone(world, 45000, node); /* preemption_timeout */
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void a_node_that_leaves_costs_its_group_a_step(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    world_request(world, node, NODE_REQUEST_LEAVE);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* ---- users and owners, while a generation is on its way ------------------------------------------------------------------- */

/* Somebody was lost, and the others have left their group. */
static struct world *between_generations(void)
{
    struct world *world = group_of(4, 2);
    world_end_worker(world, follower(world, 0), 0, -9);
    assert_line(world, 5000, "> leave generation 1 at once");
    return world;
}

static uint32_t running_all(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        count += running(world, i);
    }
    return count;
}

static void a_pause_between_generations_stops_all_and_a_resume_begins_again(void **state)
{
    (void)state;
    struct world *world = between_generations();
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 30000);
    assert_int_equal(running_all(world), 0);
    assert_int_equal(world_count(world, "persist verdict"), 1);
    assert_int_equal(world_count(world, "persist verdict stopped"), 1);
    world_request(world, 0, NODE_REQUEST_RESUME);
    world_run(world, 10000);
    assert_int_equal(running_all(world), 4);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 4);
    assert_trains(world);
    world_free(world);
}

static void a_cancel_between_generations_ends_all(void **state)
{
    (void)state;
    struct world *world = between_generations();
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    assert_int_equal(running_all(world), 0);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_CANCELLED);
    assert_int_equal(world_count(world, "persist verdict stopped"), 1);
    assert_int_equal(in_generation(world, 0), 0);
    world_free(world);
}

static void a_deletion_between_generations_ends_all_and_leaves_nothing_behind(void **state)
{
    (void)state;
    struct world *world = between_generations();
    int coordinator = world_coordinator(world);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 60000);
    assert_int_equal(running_all(world), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_null(world_experiment(world, i));
        assert_null(core_find_coordination(world->nodes[i].core, make_experiment_id(0)));
    }
    assert_true(coordinator >= 0);
    world_free(world);
}

static void a_slot_taken_back_between_generations_costs_the_others_nothing(void **state)
{
    (void)state;
    struct world *world = between_generations();
    uint32_t node = follower(world, 1);
    withhold(world, node, 0);
    world_run(world, 60000);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 5); /* the first who was lost is replaced */
    assert_trains(world);
    world_free(world);
}

static void a_drain_between_generations_empties_the_node_and_the_others_go_on(void **state)
{
    (void)state;
    struct world *world = between_generations();
    uint32_t node = follower(world, 1);
    drain_at_once(world, node);
    world_run(world, 60000);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(in_generation(world, 0), 3);
    assert_trains(world);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_taken_back_from_a_member_costs_the_others_no_step),
        cmocka_unit_test(the_coordinators_own_slot_is_given_back_like_any_other),
        cmocka_unit_test(a_member_of_a_node_that_is_drained_at_once_is_replaced_elsewhere),
        cmocka_unit_test(a_group_that_cannot_do_without_a_slot_taken_back_saves_and_stops_as_a_whole),
        cmocka_unit_test(the_lowest_rank_of_two_gives_its_slot_back_once_it_is_the_last),
        cmocka_unit_test(the_highest_rank_of_two_gives_its_slot_back_at_once),
        cmocka_unit_test(a_group_gives_back_more_than_half_of_its_slots_generation_by_generation),
        cmocka_unit_test(one_of_three_goes_on_when_another_dies_and_the_lowest_rank_gives_its_slot_back),
        cmocka_unit_test(the_lowest_rank_of_two_that_does_not_leave_is_ended_by_its_owner_first),
        cmocka_unit_test(who_goes_on_once_more_sends_no_joiner_away),
        cmocka_unit_test(a_slot_is_taken_from_a_group_that_does_not_let_it_go_in_time),
        cmocka_unit_test(a_node_that_leaves_costs_its_group_a_step),
        cmocka_unit_test(a_pause_between_generations_stops_all_and_a_resume_begins_again),
        cmocka_unit_test(a_cancel_between_generations_ends_all),
        cmocka_unit_test(a_deletion_between_generations_ends_all_and_leaves_nothing_behind),
        cmocka_unit_test(a_slot_taken_back_between_generations_costs_the_others_nothing),
        cmocka_unit_test(a_drain_between_generations_empties_the_node_and_the_others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

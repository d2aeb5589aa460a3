/* Stories of ranks that end with an error since another rank of their group has left as it was asked to, and of those that end
 * with one by themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/limits.h"
#include "tests/scenario/core_elastic.h"

/* A trial of three ranks on as many nodes. */
static struct world *three_ranks_with(bool is_elastic, uint32_t max_restarts)
{
    struct config config = elastic(1, 3, is_elastic ? 2 : 3, 3);
    config.max_restarts = max_restarts;
    struct world *world = world_new(4, 1);
    world->is_elastic = is_elastic;
    (void)story_begin_with(world, &config, 10000);
    return world;
}

static struct world *three_ranks(bool is_elastic)
{
    return three_ranks_with(is_elastic, 0);
}

static uint32_t node_of(const struct world *world, uint32_t rank)
{
    uint32_t node = 0;
    while (node < world->node_count && (!world->nodes[node].workers[0].runs || world->nodes[node].workers[0].rank != rank)) {
        node++;
    }
    assert_true(node < world->node_count);
    return node;
}

/* A collective of its fails. */
static void fails(struct world *world, uint32_t node)
{
    world_end_worker(world, node, 0, 1);
}

/* The program of this node has been told to stop, and takes its time to save. */
static void saves_slowly(struct world *world, uint32_t node)
{
    world->nodes[node].workers[0].runs = false; /* it does not end when it is asked */
}

static void has_saved(struct world *world, uint32_t node)
{
    assert_true(world_count(world, "> stop trial 0 attempt 1") > 0);
    world->nodes[node].workers[0].runs = true;
    world_end_worker(world, node, 0, 0);
}

static void assert_no_restart_was_counted(struct world *world)
{
    assert_line(world, 20000, "trial 0 attempt 1: stopped, ");
    assert_int_equal(world_count(world, "persist verdict failed"), 0);
    assert_int_equal(view_trial_failures(world_experiment(world, 0)->trials[0]), 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 2 rank 2");
}

/* Rank 0 was asked by its owner, and leaves; the word of that takes a few seconds to come to the others, whose collectives fail. */
static void who_fails_of_anothers_stop_costs_no_restart(void **state)
{
    (void)state;
    for (int is_elastic = 0; is_elastic < 2; is_elastic++) {
        struct world *world = three_ranks(is_elastic);
        uint32_t asked = node_of(world, 0), other = node_of(world, 1);
        world->nodes[asked].computes = true; /* an elastic one does not wait for another group */
        fails(world, other);
        world_run(world, 4000);
        assert_int_equal(world_count(world, "persist verdict"), 0);
        world_request(world, asked, NODE_REQUEST_PAUSE);
        world_run(world, 2000);
        world_request(world, asked, NODE_REQUEST_RESUME);
        assert_no_restart_was_counted(world);
        world_free(world);
    }
}

/* That its slot is wanted back has come, and it has not left yet. */
static void a_stop_that_takes_its_time_costs_no_restart(void **state)
{
    (void)state;
    struct world *world = three_ranks(false);
    uint32_t asked = node_of(world, 0), other = node_of(world, 1);
    saves_slowly(world, asked);
    fails(world, other);
    withhold(world, asked, 1);
    world_run(world, 30000); /* of 60 s */
    assert_int_equal(world_count(world, "persist verdict"), 0);
    return_slots(world, asked);
    has_saved(world, asked);
    assert_no_restart_was_counted(world);
    world_free(world);
}

/* Nobody was asked to stop. The others do not end by themselves. */
static void a_failure_of_one_rank_costs_a_restart(void **state)
{
    (void)state;
    for (int is_elastic = 0; is_elastic < 2; is_elastic++) {
        struct world *world = three_ranks(is_elastic);
        fails(world, node_of(world, 1));
        assert_line(world, CORE_FAILURE_SETTLE_MS + 3000, "trial 0 attempt 1: failed, a worker failed");
        assert_int_equal(view_trial_failures(world_experiment(world, 0)->trials[0]), 1);
        world_run(world, 30000);
        assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 0);
        world_free(world);
    }
}

/* Then there is nothing to wait for. */
static void a_group_that_fails_as_a_whole_is_judged_at_once(void **state)
{
    (void)state;
    struct world *world = three_ranks(false);
    uint32_t nodes[] = {node_of(world, 0), node_of(world, 1), node_of(world, 2)};
    for (uint32_t i = 0; i < 3; i++) {
        fails(world, nodes[i]);
    }
    assert_line(world, 1000, "trial 0 attempt 1: failed, a worker failed");
    world_free(world);
}

/* The group has gone on without it. */
static void who_failed_long_ago_makes_nothing_of_a_stop_a_failure(void **state)
{
    (void)state;
    struct world *world = three_ranks_with(true, 1);
    fails(world, node_of(world, 2));
    world_run(world, 60000);
    uint32_t asked = node_of(world, 0), other = node_of(world, 1);
    world->nodes[asked].computes = true;
    fails(world, other);
    world_run(world, 4000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_request(world, asked, NODE_REQUEST_PAUSE);
    world_run(world, 2000);
    world_request(world, asked, NODE_REQUEST_RESUME);
    assert_line(world, 20000, "trial 0 attempt 1: stopped, ");
    assert_int_equal(world_count(world, "persist verdict failed"), 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 2 rank 2");
    world_free(world);
}

/* Who has the state stops while it waits for its next group, and the pause is over before who shall join it hears of it. Seed
 * 625234565. */
static void a_pause_that_is_taken_back_loses_no_attempt(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    withhold(world, 0, 0);
    withhold(world, 2, 0);
    world_run(world, 1000);
    begins(world, 1, 1, 2);
    world_run(world, 2500);
    assert_int_equal(world_coordinator(world), 0);
    world->loses_keys = true;
    return_slots(world, 2);
    assert_line(world, 60000, "a: trial 0 attempt 1: generation 2 of 2 members (before: 1), from step ");
    world_run(world, 300); /* both have heard that */
    world_sleep(world, 2, 1500);
    world_request(world, 1, NODE_REQUEST_PAUSE);
    assert_line(world, 1000, "b> stop trial 0 attempt 1 rank 0");
    world_request(world, 1, NODE_REQUEST_RESUME);
    assert_line(world, 30000, "trial 0 attempt 1: stopped, every worker that had its state has stopped");
    assert_int_equal(world_count(world, "persist verdict lost"), 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 2 rank 0");
    world_free(world);
}

/* However long its group had been broken by then: who is left of it saves as any other, and is not judged before. */
static void a_pause_leaves_a_broken_group_time_to_save(void **state)
{
    (void)state;
    struct config config = elastic(1, 2, 2, 3);
    config.preemption_timeout_s = 5;
    struct world *world = elastic_world(3, 1);
    withhold(world, 0, 0);
    world_run(world, 1000);
    begins_with(world, &config);
    assert_int_equal(world_coordinator(world), 0);
    world_run(world, 3500);
    world_die(world, 2);
    world_run(world, 25000); /* of 30 s; to stop takes 17 s at most */
    assert_int_equal(world_count(world, "persist verdict"), 0);
    saves_slowly(world, 1);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 4000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "b> kill "), 0);
    has_saved(world, 1);
    assert_line(world, 5000, "trial 0 attempt 1: ");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_fails_of_anothers_stop_costs_no_restart),
        cmocka_unit_test(a_stop_that_takes_its_time_costs_no_restart),
        cmocka_unit_test(a_failure_of_one_rank_costs_a_restart),
        cmocka_unit_test(a_group_that_fails_as_a_whole_is_judged_at_once),
        cmocka_unit_test(who_failed_long_ago_makes_nothing_of_a_stop_a_failure),
        cmocka_unit_test(a_pause_that_is_taken_back_loses_no_attempt),
        cmocka_unit_test(a_pause_leaves_a_broken_group_time_to_save),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories of ranks that hang, of ranks that others have left behind, and of programs that fail in the same way again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/owner/owner.h"
#include "tests/scenario/core_elastic.h"

/* A trial of one rank on each of the nodes, whose program runs until it is ended. */
static struct world *begin(uint32_t nodes, struct config *config)
{
    struct world *world = world_new(nodes, 1);
    config->slots_per_trial = config->min_slots = config->max_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_run(world, 1000);
    world_submit(world, 0, config);
    world_run(world, 5000);
    assert_int_equal(world_spawns(world), 2);
    return world;
}

static void stall_as(struct world *world, uint32_t node, enum fact_stall stall, bool is_overdue, bool is_past_barrier)
{
    struct node_event event = {.kind = NODE_EVENT_WORKER_STALL};
    event.u.worker.slot = 0;
    event.u.worker.attempt = worker_on(world, node)->attempt;
    event.u.worker.stall = stall;
    event.u.worker.stall_s = 1;
    event.u.worker.is_overdue = is_overdue;
    event.u.worker.is_past_barrier = is_past_barrier;
    world_step(world, node, &event);
    world_run(world, 5000); /* a progress record each 2 s at most */
}

static void stall(struct world *world, uint32_t node, enum fact_stall stall, bool is_overdue)
{
    stall_as(world, node, stall, is_overdue, false);
}

static void a_rank_left_behind_ends_its_attempt_after_the_exit_barrier(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.exit_barrier_s = 60;
    struct world *world = begin(2, &config);
    uint32_t first = node_of_rank(world, 0);
    world_end_worker(world, first, 0, 0);
    world_run(world, 40000);
    stall_as(world, node_of_rank(world, 1), FACT_SILENT, false, true); /* as it was before rank 0 ended */
    world_run(world, 10000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "exp trial 0: rank 0 ended with status 0, 1 other of its attempt runs on"), 1);
    assert_line(world, 10000, "failed, rank 1 has not ended within 60 s (exit_barrier) after rank 0 ended with status 0");
    assert_line(world, 10000, "> kill trial 0 attempt 1 rank 1 slot 0 with stacks");
    world_run(world, 5000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    assert_int_equal(view_trial_failures(world_experiment(world, 1)->trials[0]), 1);
    assert_int_equal(world_spawns(world), 2);
    world_free(world);
}

/* It exports a model, say. */
static void a_rank_left_behind_may_work_on(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.exit_barrier_s = 60;
    struct world *world = begin(2, &config);
    world_end_worker(world, node_of_rank(world, 1), 0, 0);
    world_run(world, 3600000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    stall_as(world, node_of_rank(world, 0), FACT_SILENT, false, true);
    assert_line(world, 1000, "failed, rank 0 has not ended within 60 s (exit_barrier) after rank 1 ended with status 0");
    world_free(world);
}

static void without_an_exit_barrier_a_rank_left_behind_runs_on(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.exit_barrier_s = 0;
    struct world *world = begin(2, &config);
    world_end_worker(world, node_of_rank(world, 0), 0, 0);
    world_run(world, 3600000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_end_worker(world, node_of_rank(world, 1), 0, 0);
    assert_line(world, 10000, "completed, every rank is done");
    world_free(world);
}

/* What the rest does beyond a cut is not known there: only the side that sees the whole rest decides. */
static void beyond_a_cut_only_the_side_of_the_rest_ends_the_attempt(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.exit_barrier_s = 60;
    struct world *world = begin(4, &config);
    uint32_t first = node_of_rank(world, 0), second = node_of_rank(world, 1);
    world_end_worker(world, first, 0, 0);
    stall_as(world, second, FACT_IDLE, false, true);
    world_run(world, 25000);
    for (uint32_t i = 0; i < 4; i++) {
        world->nodes[i].side = i == second;
    }
    world_run(world, 120000);
    char line[] = "a: exp trial 0 attempt 1: failed, rank 1 has not ended";
    line[0] = (char)('a' + second);
    assert_int_equal(world_count(world, "failed, rank 1 has not ended"), 1);
    assert_int_equal(world_count(world, line), 1);
    heal(world);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_FAILED);
    }
    world_free(world);
}

static void a_successor_counts_the_exit_barrier_anew(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.exit_barrier_s = 60;
    struct world *world = begin(4, &config);
    world_end_worker(world, node_of_rank(world, 0), 0, 0);
    stall_as(world, node_of_rank(world, 1), FACT_IDLE, false, true);
    world_run(world, 45000);
    int leader = world_coordinator(world);
    assert_true(leader >= 0);
    bool has_rank = (uint32_t)leader == node_of_rank(world, 0) || (uint32_t)leader == node_of_rank(world, 1);
    if (has_rank) {
        world_free(world);
        return; /* the death of a member's node ends the attempt anyway */
    }
    world_crash(world, (uint32_t)leader);
    world_run(world, 40000);
    assert_int_equal(world_count(world, "exit_barrier"), 0);
    assert_line(world, 60000, "failed, rank 1 has not ended within 60 s (exit_barrier)");
    world_free(world);
}

static void a_rank_that_does_nothing_ends_its_attempt_if_no_other_gets_on(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.stall_timeout_s = 600;
    struct world *world = begin(2, &config);
    uint32_t first = node_of_rank(world, 0), second = node_of_rank(world, 1);
    stall(world, second, FACT_IDLE, true);
    assert_int_equal(world_count(world, "persist verdict"), 0); /* rank 0 works */
    stall(world, first, FACT_SILENT, false);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    stall(world, first, FACT_ACTIVE, false);
    stall(world, first, FACT_SILENT, true);
    assert_line(world, 1000, "failed, rank 1 has written nothing and used no processor time for 600 s (stall_timeout)");
    assert_line(world, 1000, "slot 0 with stacks");
    world_free(world);
}

static void ranks_that_use_processor_time_run_on_without_output(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    config.stall_timeout_s = 600;
    struct world *world = begin(2, &config);
    stall(world, 0, FACT_SILENT, true);
    stall(world, 1, FACT_SILENT, true);
    world_run(world, 3600000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    const struct view_attempt *attempt = attempt_of(world, 1, 0);
    assert_int_equal(view_attempt_worker(attempt, 0)->stall, FACT_SILENT); /* and every node can tell */
    stall(world, 1, FACT_SUSPENDED, true);
    assert_line(world, 1000, "has been stopped (SIGSTOP) for 600 s (stall_timeout)");
    world_free(world);
}

static void a_stall_ends_nothing_unless_that_is_asked_for(void **state)
{
    (void)state;
    struct config config;
    make_config(&config, 1, 0);
    struct world *world = begin(2, &config);
    stall(world, 0, FACT_IDLE, true); /* no owner says so without the option */
    stall(world, 1, FACT_SUSPENDED, true);
    world_run(world, 60000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

/* ---- retry ---------------------------------------------------------------------------------------------------------------- */

static uint32_t attempts_until_it_fails(uint32_t nodes, enum config_retry retry, uint64_t failure)
{
    struct config config;
    make_config(&config, 1, 5);
    config.retry = retry;
    struct world *world = world_new(nodes, 1);
    world->program = WORLD_FAILS_AT_ONCE;
    world->failure = failure;
    world_start_all(world);
    world_run(world, 5000);
    world_submit(world, 0, &config);
    world_run(world, 30 * 60000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    uint32_t spawns = world_spawns(world);
    world_free(world);
    return spawns;
}

static void a_program_that_fails_in_the_same_way_is_tried_on_two_nodes(void **state)
{
    (void)state;
    assert_int_equal(attempts_until_it_fails(3, CONFIG_RETRY_NODE, 7), 2);
    assert_int_equal(attempts_until_it_fails(1, CONFIG_RETRY_NODE, 7), VIEW_SAME_FAILURES);
    assert_int_equal(attempts_until_it_fails(1, CONFIG_RETRY_NODE, 0), 6); /* how it failed cannot be compared */
    assert_int_equal(attempts_until_it_fails(1, CONFIG_RETRY_ANY, 7), 6);
    assert_int_equal(attempts_until_it_fails(3, CONFIG_RETRY_NEVER, 7), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_left_behind_ends_its_attempt_after_the_exit_barrier),
        cmocka_unit_test(a_rank_left_behind_may_work_on),
        cmocka_unit_test(without_an_exit_barrier_a_rank_left_behind_runs_on),
        cmocka_unit_test(beyond_a_cut_only_the_side_of_the_rest_ends_the_attempt),
        cmocka_unit_test(a_successor_counts_the_exit_barrier_anew),
        cmocka_unit_test(a_rank_that_does_nothing_ends_its_attempt_if_no_other_gets_on),
        cmocka_unit_test(ranks_that_use_processor_time_run_on_without_output),
        cmocka_unit_test(a_stall_ends_nothing_unless_that_is_asked_for),
        cmocka_unit_test(a_program_that_fails_in_the_same_way_is_tried_on_two_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

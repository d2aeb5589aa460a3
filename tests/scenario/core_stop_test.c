/* Stories of single trials that users stop: what runs saves and leaves, what waits never begins, and nothing comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/limits.h"
#include "node/core/owner/slots.h"
#include "tests/scenario/core_story.h"

#define GRACE_MS 60000 /* preemption_timeout, unless a configuration says otherwise */

static enum view_trial_state state_at(const struct world *world, uint32_t node, uint32_t trial)
{
    return view_trial_state(world_experiment(world, node), trial);
}

static uint32_t node_of(const struct world *world, uint32_t trial)
{
    const struct view_attempt *attempt = view_trial_highest(view_find_trial(world_experiment(world, 0), trial));
    uint32_t node = 0;
    while (!node_id_equal(world->nodes[node].person.id, attempt->members[0].node)) {
        node++;
    }
    return node;
}

static void a_stopped_trial_saves_and_leaves_and_the_others_go_on(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    story_submit(world, 0, 4, 5);
    world_run(world, 20000);
    assert_int_equal(world_spawns(world), 3);
    world_stop(world, 2, 1);
    assert_line(world, 5000, "> stop trial 1 attempt 1");
    assert_line(world, 5000, "trial 1 attempt 1: stopped, the trial is stopped");
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_int_equal(world_count(world, "> kill "), 0);
    assert_line(world, 20000, "> spawn trial 3 attempt 1"); /* in its slot */
    world_run(world, 120000);
    assert_int_equal(world_spawns(world), 4);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(state_at(world, i, 1), VIEW_TRIAL_STOPPED);
        assert_int_equal(state_at(world, i, 0), VIEW_TRIAL_RUNNING);
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_RUNNING);
    }
    assert_true(view_find_trial(world_experiment(world, 0), 1)->manifests->is_kept);
    world_free(world);
}

static void a_stopped_trial_that_waits_never_begins(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    story_submit(world, 0, 3, 5);
    world_run(world, 20000);
    world_stop(world, 1, 2);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(state_at(world, 0, 2), VIEW_TRIAL_STOPPED);
    world_stop(world, 0, 0);
    world_stop(world, 1, 1);
    world_run(world, 120000);
    assert_int_equal(world_spawns(world), 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
        assert_false(view_experiment_live(world_experiment(world, i)));
        assert_true(core_owner_idle(world->nodes[i].core));
    }
    world_free(world);
}

static void a_stop_is_refused_where_it_would_end_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_stop(world, 0, 0);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    story_submit(world, 0, 2, 5);
    world->program = WORLD_RUNS_2S;
    world_run(world, 30000);
    assert_int_equal(state_at(world, 0, 1), VIEW_TRIAL_COMPLETED);
    world_stop(world, 0, 2);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    assert_string_equal(world->reply.text, "There is no trial 2: the trials of exp are 0 to 1.");
    world_stop(world, 1, 1);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "Trial 1 is completed already, so there is nothing to stop.");
    world_free(world);
}

static struct world *begin_limited(uint32_t nodes, uint32_t trials, uint32_t max_runtime_s)
{
    struct world *world = world_new(nodes, 1);
    struct config config;
    make_config(&config, trials, 5);
    config.max_runtime_s = max_runtime_s;
    story_begin_with(world, &config, 20000);
    return world;
}

static void a_trial_that_has_run_for_its_time_is_stopped_and_keeps_its_checkpoint(void **state)
{
    (void)state;
    struct world *world = begin_limited(2, 2, 60);
    world_request(world, 0, NODE_REQUEST_PAUSE); /* that time does not count */
    world_run(world, 300000);
    world_request(world, 0, NODE_REQUEST_RESUME);
    world_run(world, 25000);
    assert_int_equal(state_at(world, 1, 0), VIEW_TRIAL_RUNNING); /* for some 45 s now */
    assert_line(world, 25000, "trial 0 attempt 2: stopped, the trial has run for its max_runtime");
    world_run(world, 10000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(state_at(world, i, 0), VIEW_TRIAL_STOPPED);
        assert_true(view_trial_stop(view_find_trial(world_experiment(world, i), 0)).overran);
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
    }
    assert_true(view_find_trial(world_experiment(world, 0), 0)->manifests->is_kept);
    world_retry(world, 1, 0);
    world_run(world, 50000);
    assert_int_equal(state_at(world, 0, 0), VIEW_TRIAL_RUNNING); /* it has all of its time again */
    assert_line(world, 30000, "trial 0 attempt 3: stopped, the trial has run for its max_runtime");
    world_free(world);
}

/* The node that has counted dies, and the time is in its records. */
static void the_time_of_an_attempt_counts_whose_node_died(void **state)
{
    (void)state;
    struct world *world = begin_limited(4, 1, 300);
    world_run(world, 200000);
    uint32_t lost = node_of(world, 0), other = lost == 3 ? 2 : 3;
    world_die(world, lost);
    world_run(world, 60000);
    const struct view_attempt *second = view_trial_highest(view_find_trial(world_experiment(world, other), 0));
    assert_true(second->id.number > 1 && view_attempt_verdict(second) == NULL);
    world_run(world, 80000); /* for some 130 s, and not for 300 */
    assert_int_equal(state_at(world, other, 0), VIEW_TRIAL_STOPPED);
    world_free(world);
}

/* The answer may have been lost, so the request can be repeated. */
static void a_stop_can_be_repeated(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    for (uint32_t i = 0; i < 3; i++) {
        world->reply.code = -1;
        world_stop(world, i % 2, 0);
        world_run(world, 6000);
        assert_int_equal(world->reply.code, 0);
        assert_int_equal(world->reply.stored_on, 2);
    }
    assert_int_equal(world_count(world, "> stop trial 0 "), 1);
    assert_int_equal(state_at(world, 1, 0), VIEW_TRIAL_STOPPED);
    assert_int_equal(state_at(world, 1, 1), VIEW_TRIAL_RUNNING);
    world_free(world);
}

/* Two nodes stop the trial at once, and the coordinator is gone before it has done anything about that. */
static void a_stop_outlives_the_coordinator(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    uint32_t coordinator = story_begin(world, 3, 5), trial = 0;
    while (node_of(world, trial) == coordinator) {
        trial++;
    }
    uint32_t asked = 0;
    for (uint32_t i = 0; i < 4 && asked < 2; i++) {
        if (i != coordinator) {
            world_stop(world, i, trial);
            asked++;
        }
    }
    world_die(world, coordinator);
    world_run(world, 120000);
    uint32_t viewer = coordinator == 0 ? 1 : 0;
    assert_int_equal(state_at(world, viewer, trial), VIEW_TRIAL_STOPPED);
    char again[64];
    snprintf(again, sizeof again, "> spawn trial %u attempt ", trial);
    assert_int_equal(world_count(world, again), 1);
    snprintf(again, sizeof again, "> stop trial %u attempt 1", trial);
    assert_int_equal(world_count(world, again), 1);
    world_free(world);
}

/* The trial runs beyond the cut. This side gives the attempt up after the grace, and begins the trial no more; the other side
 * learns of the stop after the heal. */
static void a_stop_reaches_what_runs_beyond_a_cut_after_the_heal(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 4, 5);
    uint32_t trial = 0;
    while (node_of(world, trial) != 2) {
        trial++;
    }
    cut(world, 2);
    world_run(world, 20000);
    world_stop(world, 0, trial);
    world_run(world, GRACE_MS);
    assert_int_equal(state_at(world, 0, trial), VIEW_TRIAL_RUNNING);
    world_run(world, CORE_UNLEASED_MS + 5000);
    assert_int_equal(state_at(world, 0, trial), VIEW_TRIAL_STOPPED);
    assert_int_equal(state_at(world, 2, trial), VIEW_TRIAL_RUNNING);
    heal(world);
    world_run(world, 60000);
    char line[64];
    snprintf(line, sizeof line, "> spawn trial %u attempt ", trial);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(state_at(world, i, trial), VIEW_TRIAL_STOPPED);
    }
    assert_int_equal(running(world, 2), 0);
    assert_int_equal(world_count(world, line), 1);
    world_free(world);
}

/* The program was done before the stop came to its node. */
static void a_completion_before_the_stop_is_known_counts(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 4, 5);
    uint32_t trial = 0;
    while (node_of(world, trial) != 2) {
        trial++;
    }
    cut(world, 2);
    world_run(world, 20000);
    world_stop(world, 0, trial);
    world_run(world, GRACE_MS + CORE_UNLEASED_MS + 5000);
    assert_int_equal(state_at(world, 0, trial), VIEW_TRIAL_STOPPED);
    world_end_worker(world, 2, 0, 0);
    world_run(world, 5000);
    heal(world);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(state_at(world, i, trial), VIEW_TRIAL_COMPLETED);
    }
    world_free(world);
}

/* The shell ends a worker after its grace; a node that does not even do that is overruled. */
static void a_worker_that_ignores_its_stop_is_ended_after_the_grace(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->ignores_stops = true;
    (void)story_begin(world, 1, 5);
    world_stop(world, 0, 0);
    assert_line(world, 5000, "> stop trial 0 attempt 1");
    world_run(world, GRACE_MS);
    assert_int_equal(world_count(world, "> kill trial 0 "), 0);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_RUNNING);
    assert_line(world, CORE_UNLEASED_MS + 5000, "> kill trial 0 attempt 1");
    world_run(world, 60000);
    assert_int_equal(state_at(world, 0, 0), VIEW_TRIAL_STOPPED);
    assert_int_equal(world_spawns(world), 1);
    world_free(world);
}

static void a_stop_is_still_known_after_a_restart(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    (void)story_begin(world, 2, 5);
    world_stop(world, 0, 1);
    world_run(world, 6000);
    world_crash(world, 0);
    world_restart(world, 0, true);
    world_run(world, 60000);
    assert_int_equal(state_at(world, 0, 1), VIEW_TRIAL_STOPPED);
    assert_int_equal(state_at(world, 0, 0), VIEW_TRIAL_RUNNING);
    assert_int_equal(world_spawns(world), 1);
    world_free(world);
}

static void a_trial_of_a_paused_experiment_can_be_stopped(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 20000);
    world_stop(world, 1, 0);
    world_run(world, 6000);
    assert_int_equal(state_at(world, 0, 0), VIEW_TRIAL_STOPPED);
    world_request(world, 0, NODE_REQUEST_RESUME);
    assert_line(world, 30000, "> spawn trial 1 attempt 2");
    world_run(world, 60000);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 1);
    world_free(world);
}

/* Such a node would begin the trial again, were it to coordinate. */
static void a_stop_is_refused_while_a_node_lives_that_cannot_obey_it(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].is_older = true;
    (void)story_begin(world, 3, 5);
    world_stop(world, 0, 0);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that cannot stop a single trial; update that node first.");
    world_die(world, 1);
    world_run(world, 20000);
    world_stop(world, 0, 0);
    world_run(world, 6000);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_trial_saves_and_leaves_and_the_others_go_on),
        cmocka_unit_test(a_stopped_trial_that_waits_never_begins),
        cmocka_unit_test(a_stop_is_refused_where_it_would_end_nothing),
        cmocka_unit_test(a_stop_can_be_repeated),
        cmocka_unit_test(a_trial_that_has_run_for_its_time_is_stopped_and_keeps_its_checkpoint),
        cmocka_unit_test(the_time_of_an_attempt_counts_whose_node_died),
        cmocka_unit_test(a_stop_outlives_the_coordinator),
        cmocka_unit_test(a_stop_reaches_what_runs_beyond_a_cut_after_the_heal),
        cmocka_unit_test(a_completion_before_the_stop_is_known_counts),
        cmocka_unit_test(a_worker_that_ignores_its_stop_is_ended_after_the_grace),
        cmocka_unit_test(a_stop_is_still_known_after_a_restart),
        cmocka_unit_test(a_trial_of_a_paused_experiment_can_be_stopped),
        cmocka_unit_test(a_stop_is_refused_while_a_node_lives_that_cannot_obey_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

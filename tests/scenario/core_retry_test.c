/* Stories of single trials that users retry: what is over runs again, from its newest checkpoint, with a clean count of failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/limits.h"
#include "tests/scenario/core_story.h"

#define ENDED_MS (CORE_FAILURE_SETTLE_MS + 4000) /* a failure is judged, and known everywhere */

static enum view_trial_state state_at(const struct world *world, uint32_t node, uint32_t trial)
{
    return view_trial_state(world_experiment(world, node), trial);
}

static const struct view_trial *trial_at(const struct world *world, uint32_t node, uint32_t trial)
{
    return view_find_trial(world_experiment(world, node), trial);
}

/* The node that runs the only worker between the nodes `first` and `end`, which is excluded. */
static uint32_t runner(const struct world *world, uint32_t first, uint32_t end)
{
    uint32_t found = UINT32_MAX;
    for (uint32_t i = first; i < end; i++) {
        if (running(world, i) > 0) {
            assert_int_equal(found, UINT32_MAX);
            found = i;
        }
    }
    assert_int_not_equal(found, UINT32_MAX);
    return found;
}

/* The program of the only trial fails, wherever it runs among these nodes. */
static void fail_once(struct world *world, uint32_t first, uint32_t end)
{
    world_end_worker(world, runner(world, first, end), 0, 1);
    world_run(world, ENDED_MS);
}

static void retry(struct world *world, uint32_t node, uint32_t trial)
{
    world->reply.code = -1;
    world_retry(world, node, trial);
    world_run(world, CORE_ACK_MS + 1000);
    assert_int_equal(world->reply.code, 0);
}

static void a_failed_trial_runs_again_from_its_newest_checkpoint(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 0);
    world_request(world, 0, NODE_REQUEST_PAUSE); /* it saves */
    world_run(world, 10000);
    world_request(world, 0, NODE_REQUEST_RESUME);
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    fail_once(world, 0, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_FAILED);
        assert_false(view_experiment_live(world_experiment(world, i)));
    }
    world_run(world, 600000); /* long after */
    retry(world, 2, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_false(world->reply.already);
    assert_line(world, 20000, "> spawn trial 0 attempt 3");
    const struct view_attempt *third = view_trial_highest(trial_at(world, 1, 0));
    assert_int_equal(third->id.number, 3);
    assert_true(third->start_step > 0);
    assert_int_equal(third->start_step, trial_at(world, 1, 0)->manifests->step);
    assert_int_equal(third->retried, 1);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_RUNNING);
    fail_once(world, 0, 3); /* max_restarts is 0 for the retry as well */
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    retry(world, 0, 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 4");
    world_end_worker(world, runner(world, 0, 3), 0, 0);
    world_run(world, ENDED_MS);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_COMPLETED);
    world_free(world);
}

static void a_stopped_trial_runs_again_while_the_others_go_on(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 2, 5);
    world_stop(world, 0, 1);
    world_run(world, 20000);
    assert_int_equal(state_at(world, 2, 1), VIEW_TRIAL_STOPPED);
    retry(world, 2, 1);
    assert_line(world, 20000, "> spawn trial 1 attempt 2");
    assert_true(view_trial_highest(trial_at(world, 0, 1))->start_step > 0);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 1);
    world_stop(world, 1, 1); /* and can be stopped again */
    world_run(world, 20000);
    assert_int_equal(state_at(world, 0, 1), VIEW_TRIAL_STOPPED);
    assert_int_equal(world_count(world, "> spawn trial 1 "), 2);
    world_free(world);
}

static void a_stopped_trial_that_never_began_begins_after_a_retry(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    (void)story_begin(world, 2, 5);
    world_stop(world, 0, 1);
    world_stop(world, 0, 0);
    world_run(world, 20000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    retry(world, 0, 1);
    assert_line(world, 20000, "> spawn trial 1 attempt 1");
    world_free(world);
}

static void assert_refused(struct world *world, uint32_t node, uint32_t trial, int32_t code, const char *text)
{
    world->reply.code = -1;
    world_retry(world, node, trial);
    assert_int_equal(world->reply.code, code);
    assert_string_equal(world->reply.text, text);
}

static void a_retry_is_refused_where_nothing_can_run_again(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    assert_refused(world, 0, 0, ERR_NOT_FOUND, "There is no such experiment; `shoal ls` lists them.");
    story_submit(world, 0, 3, 5);
    world_run(world, 20000);
    assert_refused(world, 0, 3, ERR_NOT_FOUND, "There is no trial 3: the trials of exp are 0 to 2.");
    assert_refused(world, 0, 0, ERR_REFUSED,
                   "Trial 0 is running, so there is nothing to retry; a failed or stopped trial can be retried.");
    assert_refused(world, 0, 2, ERR_REFUSED,
                   "Trial 2 is queued, so there is nothing to retry; a failed or stopped trial can be retried.");
    world->ignores_stops = true;
    world_stop(world, 0, 0);
    world_run(world, 2000);
    assert_refused(world, 1, 0, ERR_REFUSED, "Trial 0 is stopping; retry it once it is stopped.");
    world_end_worker(world, 0, 0, 0);
    world_end_worker(world, 1, 0, 0);
    world_run(world, ENDED_MS);
    assert_refused(world, 1, 1, ERR_REFUSED, "Trial 1 is completed, so there is nothing to retry.");
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    assert_refused(world, 1, 2, ERR_REFUSED, "The experiment of trial 2 is cancelled, so none of its trials runs again; submit it again.");
    world_free(world);
}

static void a_retry_can_be_repeated(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 0);
    fail_once(world, 0, 2);
    for (uint32_t i = 0; i < 3; i++) {
        retry(world, i % 2, 0);
        assert_int_equal(world->reply.stored_on, 2);
        assert_int_equal(world->reply.already, i > 0);
    }
    assert_int_equal(world_count(world, "exp trial 0 is retried"), 1);
    assert_int_equal(view_trial_retried(trial_at(world, 1, 0)), 1);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 2);
    world_free(world);
}

static void a_retry_is_refused_while_a_node_lives_that_cannot_obey_it(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].is_older = true;
    (void)story_begin(world, 1, 0);
    fail_once(world, 0, 3);
    assert_refused(world, 0, 0, ERR_REFUSED, "b runs a version of Shoal that cannot retry a single trial; update that node first.");
    world_free(world);
}

static void a_retry_waits_for_the_resume_of_its_experiment(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 20000);
    world_stop(world, 1, 0);
    world_run(world, 6000);
    retry(world, 1, 0);
    world_run(world, 30000);
    assert_int_equal(world_spawns(world), 2);
    world_request(world, 0, NODE_REQUEST_RESUME);
    assert_line(world, 30000, "> spawn trial 0 attempt 2");
    world_free(world);
}

/* The coordinator is gone for long, and the experiment was over: the nodes that are left elect another one. */
static void a_retry_needs_no_coordinator_from_before(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    uint32_t coordinator = story_begin(world, 1, 0);
    fail_once(world, 0, 4);
    world_die(world, coordinator);
    world_run(world, 120000);
    uint32_t asked = coordinator == 0 ? 1 : 0;
    retry(world, asked, 0);
    assert_line(world, 60000, "> spawn trial 0 attempt 2");
    assert_int_equal(state_at(world, asked, 0), VIEW_TRIAL_RUNNING);
    world_free(world);
}

/* The coordinator dies right after the answer. */
static void a_retry_outlives_the_coordinator(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    uint32_t coordinator = story_begin(world, 1, 0);
    fail_once(world, 0, 4);
    uint32_t asked = coordinator == 0 ? 1 : 0;
    world_retry(world, asked, 0);
    world_run(world, 50);
    world_die(world, coordinator);
    world_run(world, 120000);
    assert_int_equal(state_at(world, asked, 0), VIEW_TRIAL_RUNNING);
    assert_int_equal(view_trial_highest(trial_at(world, asked, 0))->retried, 1);
    world_free(world);
}

/* Both sides of a cut give the trial up, each by attempts of its own, and only one side knows of the retry. */
static void failures_beyond_a_cut_do_not_undo_a_retry(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 0);
    uint32_t first = runner(world, 0, 4) < 2 ? 0 : 2, other = 2 - first;
    cut(world, 2);
    world_run(world, 20000);
    fail_once(world, first, first + 2);
    assert_int_equal(state_at(world, first, 0), VIEW_TRIAL_FAILED);
    world->nodes[other].fails_programs = world->nodes[other + 1].fails_programs = true;
    world_run(world, CORE_PATIENCE_MS + 60000); /* the other side begins it, too, and gives it up */
    assert_int_equal(state_at(world, other, 0), VIEW_TRIAL_FAILED);
    retry(world, first, 0);
    assert_int_equal(state_at(world, first, 0), VIEW_TRIAL_RUNNING);
    world->nodes[other].fails_programs = world->nodes[other + 1].fails_programs = false;
    heal(world);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(state_at(world, i, 0), VIEW_TRIAL_RUNNING);
        assert_int_equal(view_trial_failures(trial_at(world, i, 0)), 0);
    }
    world_end_worker(world, runner(world, 0, 4), 0, 0);
    world_run(world, ENDED_MS);
    assert_int_equal(view_experiment_state(world_experiment(world, other)), VIEW_COMPLETED);
    world_free(world);
}

/* The worker runs on beyond a cut, while this side has stopped the trial, given the attempt up, and retried the trial. */
static void a_completion_beyond_a_cut_ends_the_retry(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 0);
    uint32_t there = runner(world, 0, 4) < 2 ? 0 : 2, here = 2 - there;
    cut(world, 2);
    world_run(world, 20000);
    world_stop(world, here, 0);
    world_run(world, 60000 + CORE_UNLEASED_MS + 5000);
    assert_int_equal(state_at(world, here, 0), VIEW_TRIAL_STOPPED);
    retry(world, here, 0);
    world_run(world, 20000);
    (void)runner(world, here, here + 2);
    world_end_worker(world, runner(world, there, there + 2), 0, 0);
    world_run(world, ENDED_MS);
    assert_int_equal(state_at(world, there, 0), VIEW_TRIAL_COMPLETED);
    heal(world);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(state_at(world, i, 0), VIEW_TRIAL_COMPLETED);
        assert_int_equal(view_trial_completed(trial_at(world, i, 0))->id.number, 1);
        assert_int_equal(running(world, i), 0);
    }
    world_free(world);
}

/* One side retries a stopped trial, the other one stops it once more. */
static void a_stop_beside_a_retry_wins_at_the_heal(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 0);
    world_stop(world, 0, 0);
    world_run(world, 20000);
    cut(world, 2);
    world_run(world, 20000);
    world_stop(world, 0, 0);
    world_run(world, 6000);
    retry(world, 2, 0);
    world_run(world, 20000);
    (void)runner(world, 2, 4);
    heal(world);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(state_at(world, i, 0), VIEW_TRIAL_STOPPED);
        assert_int_equal(running(world, i), 0);
    }
    retry(world, 3, 0);
    world_run(world, 20000);
    assert_int_equal(state_at(world, 1, 0), VIEW_TRIAL_RUNNING);
    world_free(world);
}

static void both_sides_of_a_cut_can_retry_a_trial(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)story_begin(world, 1, 0);
    fail_once(world, 0, 4);
    cut(world, 2);
    world_run(world, 20000);
    retry(world, 0, 0);
    retry(world, 2, 0);
    world_run(world, 20000);
    (void)runner(world, 0, 2);
    (void)runner(world, 2, 4);
    heal(world);
    world_run(world, 60000);
    world_end_worker(world, runner(world, 0, 4), 0, 0); /* one of the two has been ended */
    world_run(world, ENDED_MS);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* Of an attempt that this node may not know: the coordinator that decided so knew of more. */
static void a_retry_takes_back_the_stop_of_a_search(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    struct fact_search_stop fact = {.number = 9, .writer = world->nodes[1].person.id};
    struct made made;
    make_record(&made, world->nodes[1].person.id, world->nodes[1].core->options.boot, 1000, FACT_SEARCH_STOP,
                fact_key_trial(make_experiment_id(0), 0), &fact);
    world_deliver(world, 1, 0, &made);
    world_run(world, 80000);
    assert_int_equal(state_at(world, 0, 0), VIEW_TRIAL_STOPPED);
    retry(world, 0, 0);
    assert_int_equal(view_trial_stop(trial_at(world, 1, 0)).since, 9);
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    world_free(world);
}

/* The disk is of some lives before. Its record of the retry has a lower boot than the one that the other node has of it, a stop. */
static void a_retry_on_an_old_disk_is_not_taken_back(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 3, 5);
    world_stop(world, 1, 2);
    world_run(world, 6000);
    struct saved_disk saved = save_disk(world, 0);
    for (uint32_t i = 0; i < 3; i++) {
        world_crash(world, 0);
        world_run(world, 1000);
        world_restart(world, 0, true);
        world_run(world, 5000);
    }
    retry(world, 0, 2);
    world_stop(world, 0, 2);
    world_run(world, 6000);
    assert_int_equal(state_at(world, 1, 2), VIEW_TRIAL_STOPPED);
    world_crash(world, 0);
    world->nodes[1].is_cut = true;
    restart_with(world, 0, &saved, true);
    world_run(world, 2000);
    world_retry(world, 0, 2); /* the node knows of the first stop only */
    world_run(world, CORE_ACK_MS + 1000);
    assert_int_equal(world->reply.code, 0);
    world->nodes[1].is_cut = false;
    world_run(world, 60000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_false(view_trial_stopped(trial_at(world, i, 2)));
        assert_true(view_trial_retried(trial_at(world, i, 2)) > 0);
    }
    world_free(world);
}

static void a_retry_is_refused_while_no_copy_of_a_checkpoint_can_be_reached(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = 1;
    (void)story_begin_with(world, &config, 10000);
    uint32_t holder = runner(world, 0, 3), asked = holder == 0 ? 1 : 0;
    world_stop(world, asked, 0);
    world_run(world, 20000);
    world_die(world, holder);
    world_run(world, 60000);
    char text[NODE_REPLY_BYTES];
    snprintf(text, sizeof text, "The checkpoints of trial 0 cannot be reached now: a copy was on %c; retry the trial once that node is back.",
             'a' + (int)holder);
    assert_refused(world, asked, 0, ERR_REFUSED, text);
    world->nodes[holder].is_cut = false;
    world_restart(world, holder, false);
    world_run(world, 60000);
    retry(world, asked, 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    world_free(world);
}

static void a_retry_is_refused_once_the_checkpoints_are_deleted(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.save_trial_latest = config.save_trial_best = config.save_experiment_best = 0;
    (void)story_begin_with(world, &config, 10000);
    world_stop(world, 0, 0);
    world_run(world, 20000);
    assert_non_null(trial_at(world, 0, 0)->manifests);
    world_run(world, 4 * CORE_RETENTION_MS + 60000);
    assert_refused(world, 1, 0, ERR_REFUSED,
                   "The checkpoints of trial 0 have been deleted, as the options save_... of its experiment ask; submit the experiment again.");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_trial_runs_again_from_its_newest_checkpoint),
        cmocka_unit_test(a_stopped_trial_runs_again_while_the_others_go_on),
        cmocka_unit_test(a_stopped_trial_that_never_began_begins_after_a_retry),
        cmocka_unit_test(a_retry_is_refused_where_nothing_can_run_again),
        cmocka_unit_test(a_retry_can_be_repeated),
        cmocka_unit_test(a_retry_is_refused_while_a_node_lives_that_cannot_obey_it),
        cmocka_unit_test(a_retry_waits_for_the_resume_of_its_experiment),
        cmocka_unit_test(a_retry_needs_no_coordinator_from_before),
        cmocka_unit_test(a_retry_outlives_the_coordinator),
        cmocka_unit_test(failures_beyond_a_cut_do_not_undo_a_retry),
        cmocka_unit_test(a_completion_beyond_a_cut_ends_the_retry),
        cmocka_unit_test(a_stop_beside_a_retry_wins_at_the_heal),
        cmocka_unit_test(both_sides_of_a_cut_can_retry_a_trial),
        cmocka_unit_test(a_retry_takes_back_the_stop_of_a_search),
        cmocka_unit_test(a_retry_on_an_old_disk_is_not_taken_back),
        cmocka_unit_test(a_retry_is_refused_while_no_copy_of_a_checkpoint_can_be_reached),
        cmocka_unit_test(a_retry_is_refused_once_the_checkpoints_are_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The fold over attempts, verdicts and what users ask for: what becomes of trials and experiments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/ground/state.h"
#include "tests/unit/view_fixture.h"

#define NAN_DOUBLE (0.0 / 0.0)

static void the_lowest_reason_of_concurrent_verdicts_counts(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 5, 1);
    attempt_id id = assign(mesh, 0, 1);
    const enum fact_reason order[] = {FACT_LOST, FACT_STOPPED, FACT_FAILED, FACT_COMPLETED};
    for (uint32_t i = 0; i < 4; i++) {
        judge(mesh, i, &id, order[i], 0.5);
        const struct view_verdict *verdict = view_attempt_verdict(experiment->trials[0]->attempts);
        assert_int_equal(verdict->reason, order[i]);
        assert_true(node_id_equal(verdict->writer, mesh->people[i].id));
    }
    judge(mesh, 4, &id, FACT_LOST, 0.5);
    assert_int_equal(view_attempt_verdict(experiment->trials[0]->attempts)->reason, FACT_COMPLETED);
}

static void trials_restart_until_their_failures_are_used_up(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    attempt_id first = assign(mesh, 0, 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING);
    judge(mesh, 1, &first, FACT_LOST, 0); /* not the program's fault */
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0);
    attempt_id second = assign(mesh, 0, 2);
    judge(mesh, 1, &second, FACT_FAILED, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    attempt_id third = assign(mesh, 0, 3);
    judge(mesh, 1, &third, FACT_FAILED, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    assert_int_equal(view_experiment_state(experiment), VIEW_FAILED);
    assert_false(view_experiment_live(experiment));
    attempt_id late = assign(mesh, 0, 4); /* from the other side of a partition */
    judge(mesh, 1, &late, FACT_COMPLETED, 0.5);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

/* A failure on this person's node, of an attempt that began at this step. */
static void fail_on(struct mesh *mesh, uint32_t trial, uint32_t number, uint32_t node, uint64_t start_step)
{
    attempt_id id = make_attempt_id(0, trial, number, 1, mesh->people[1].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[node].id, 0}}, .start_step = start_step};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    judge(mesh, 1, &id, FACT_FAILED, 0.5);
}

static void failures_on_three_nodes_without_progress_quarantine_a_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 3, 100, 1);
    for (uint32_t number = 1; number <= 3; number++) {
        fail_on(mesh, 0, number, number, 7);
        fail_on(mesh, 1, number, number, 10 * number); /* this one gets on */
        fail_on(mesh, 2, number, 2, 0);                /* this one has not been anywhere else */
        assert_int_equal(view_trial_state(experiment, 0), number < 3 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
    }
    assert_int_equal(view_trial_state(experiment, 1), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_trial_state(experiment, 2), VIEW_TRIAL_QUEUED);
    node_id nodes[VIEW_QUARANTINE_NODES];
    uint32_t count;
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_ANY, nodes, &count), VIEW_QUARANTINE_FAILURES);
    assert_int_equal(count, 3);
    assert_true(node_id_equal(nodes[2], mesh->people[3].id));
}

/* A quick failure of the one worker of an attempt, which runs on this person's node. */
static void fail_quickly(struct mesh *mesh, uint32_t number, uint32_t node, uint64_t failure, bool is_hung)
{
    attempt_id id = make_attempt_id(0, 0, number, 1, mesh->people[1].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[node].id, 0}}};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    struct fact_worker worker = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .exit_code = 127, .started_s = 1, .failure = failure};
    say(mesh, node, FACT_WORKER, fact_key_worker(&id, 0), &worker);
    struct fact_verdict verdict = {.reason = FACT_FAILED, .is_hung = is_hung};
    say(mesh, 1, FACT_VERDICT, fact_key_verdict(&id), &verdict);
}

static void equal_quick_failures_three_times_on_one_node_fail_a_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 100, 1);
    node_id nodes[VIEW_QUARANTINE_NODES];
    uint32_t count;
    fail_quickly(mesh, 1, 2, 7, false);
    fail_quickly(mesh, 2, 3, 8, false); /* in another way */
    fail_quickly(mesh, 3, 2, 7, false);
    fail_quickly(mesh, 4, 3, 0, false); /* nobody knows how */
    fail_quickly(mesh, 5, 3, 7, true);  /* the worker's failure did not end this one */
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_NODE, nodes, &count), VIEW_NO_QUARANTINE);
    assert_int_equal(count, 0);
    fail_quickly(mesh, 6, 2, 7, false);
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_NODE, nodes, &count), VIEW_QUARANTINE_SAME);
    assert_int_equal(count, 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_ANY, nodes, &count), VIEW_NO_QUARANTINE);
}

static void equal_quick_failures_on_two_nodes_fail_a_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 100, 1);
    node_id nodes[VIEW_QUARANTINE_NODES];
    uint32_t count;
    fail_quickly(mesh, 1, 2, 7, false);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    fail_quickly(mesh, 2, 3, 7, false);
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_NODE, nodes, &count), VIEW_QUARANTINE_SAME);
    assert_int_equal(count, 2);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    attempt_id late = make_attempt_id(0, 0, 3, 1, mesh->people[1].id); /* a success of an older coordinator's further try wins */
    judge(mesh, 1, &late, FACT_COMPLETED, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
}

static void lose_host(struct mesh *mesh, uint32_t trial, uint32_t number, uint32_t suspects)
{
    attempt_id id = assign(mesh, trial, number);
    judge(mesh, 1, &id, FACT_LOST, 0.5);
    struct fact_death death = {.node = mesh->people[2].id, .boot = 5, .lived_ms = 1000, .suspects = suspects};
    say(mesh, 1, FACT_DEATH, fact_key_verdict(&id), &death);
}

static void the_second_death_of_a_host_convicts_the_only_suspect_and_the_third_anybody(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 0, 1);
    for (uint32_t number = 1; number <= 3; number++) {
        lose_host(mesh, 0, number, 0);
        lose_host(mesh, 1, number, 1);
        assert_int_equal(view_trial_state(experiment, 0), number < 2 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
        assert_int_equal(view_trial_state(experiment, 1), number < 3 ? VIEW_TRIAL_QUEUED : VIEW_TRIAL_FAILED);
    }
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0); /* restarts have nothing to do with it */

    /* The host of the first attempt tells, in the boot that was called dead, how its worker ended. */
    attempt_id id = make_attempt_id(0, 0, 1, 1, mesh->people[1].id);
    struct fact_worker fact = {.state = FACT_WORKER_ENDED, .reason = FACT_LOST};
    struct made made;
    make_record(&made, mesh->people[2].id, 5, ++mesh->seq, FACT_WORKER, fact_key_worker(&id, 0), &fact);
    load(mesh, &made);
    assert_null(view_attempt_death(view_find_attempt(&mesh->core->view, &id)));
}

/* Seed 732832 of plan 4. One coordinator gives the attempt up when a member of its group fails, another lets the group go on
 * without it. */
static void a_failure_that_one_judges_and_another_lets_pass_counts_once(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    attempt_id id = make_attempt_id(0, 0, 1, 1, mesh->people[1].id);
    struct fact_attempt both = {.member_count = 2, .members = {{mesh->people[2].id, 0}, {mesh->people[3].id, 0}}};
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &both);
    struct fact_worker failed = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .generation = 1, .is_elastic = true};
    say(mesh, 2, FACT_WORKER, fact_key_worker(&id, 0), &failed);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0); /* while it lives, its group may yet go on */
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 1);
    judge(mesh, 1, &id, FACT_FAILED, 0);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
    struct fact_generation rest = {
        .generation = 2, .term = 2, .member_count = 1, .members = {{mesh->people[3].id, 0, 1, false}}};
    say(mesh, 4, FACT_GENERATION, fact_key_verdict(&id), &rest);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 1), &failed); /* before the verdict has come there */
    assert_int_equal(view_trial_failures(experiment->trials[0]), 2);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
}

static void who_fails_before_it_has_joined_a_group_is_no_failure_of_the_trial(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    attempt_id id = assign(mesh, 0, 1);
    struct fact_worker failed = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .is_elastic = true};
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 1), &failed);
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 0);
    failed.generation = 2;
    say(mesh, 3, FACT_WORKER, fact_key_worker(&id, 2), &failed);
    assert_int_equal(view_attempt_failures(experiment->trials[0]->attempts), 1);
    judge(mesh, 1, &id, FACT_LOST, 0);
    assert_int_equal(view_trial_failures(experiment->trials[0]), 1);
}

static void control(struct mesh *mesh, uint32_t writer, uint64_t lamport, bool paused, bool cancelled)
{
    struct fact_control fact = {lamport, paused, cancelled, false};
    say(mesh, writer, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
}

static void pause_and_resume_are_one_register(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 5, 1);
    assert_int_equal(view_experiment_state(experiment), VIEW_QUEUED);
    control(mesh, 1, 1, true, false);
    assert_int_equal(view_experiment_state(experiment), VIEW_PAUSED);
    control(mesh, 2, 2, false, false);
    assert_false(view_experiment_paused(experiment));
    control(mesh, 3, 2, true, false); /* concurrent: the pause wins, whatever the ids */
    assert_true(view_experiment_paused(experiment));
    control(mesh, 0, 2, false, false);
    assert_true(view_experiment_paused(experiment));
    control(mesh, 0, 3, false, false);
    assert_false(view_experiment_paused(experiment));
    control(mesh, 4, 0, true, false); /* never paused nor resumed: a cancel record of an older time */
    assert_false(view_experiment_paused(experiment));
}

static void cancel(struct mesh *mesh, uint32_t writer)
{
    struct fact_control fact = {.cancelled = true};
    say(mesh, writer, FACT_CONTROL, fact_key_cancel(make_experiment_id(0)), &fact);
}

static void cancel_absorbs_and_completion_outlives_it(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 5, 1);
    attempt_id first = assign(mesh, 0, 1), second = assign(mesh, 1, 1);
    judge(mesh, 1, &first, FACT_COMPLETED, 0.5);
    control(mesh, 1, 1, true, false);
    cancel(mesh, 1);
    control(mesh, 1, 2, true, false); /* on an old disk it no longer knew */
    control(mesh, 2, 3, false, false);
    assert_int_equal(view_experiment_state(experiment), VIEW_CANCELLED);
    assert_true(view_experiment_live(experiment)); /* one attempt still wants its verdict */
    judge(mesh, 1, &second, FACT_STOPPED, 0);
    assert_false(view_experiment_live(experiment));
    judge(mesh, 2, &second, FACT_COMPLETED, 0.5);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

static void stop_says(struct mesh *mesh, uint32_t writer, uint32_t trial, struct fact_stop fact)
{
    say(mesh, writer, FACT_STOP, fact_key_trial(make_experiment_id(0), trial), &fact);
}

static void a_stopped_trial_is_over_once_its_attempt_has_ended(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 3, 5, 1);
    attempt_id first = assign(mesh, 0, 1);
    stop_says(mesh, 3, 0, (struct fact_stop){1, true, 1, false});
    stop_says(mesh, 3, 1, (struct fact_stop){1, true, 0, false});
    assert_true(view_trial_stopped(view_find_trial(experiment, 0)));
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING); /* the worker saves */
    assert_int_equal(view_trial_state(experiment, 1), VIEW_TRIAL_STOPPED); /* it never began */
    assert_int_equal(view_trial_state(experiment, 2), VIEW_TRIAL_QUEUED);
    judge(mesh, 1, &first, FACT_STOPPED, 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_STOPPED);
    assert_int_equal(view_experiment_state(experiment), VIEW_RUNNING);
    attempt_id last = assign(mesh, 2, 1);
    judge(mesh, 1, &last, FACT_COMPLETED, 0.5);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
    assert_false(view_experiment_live(experiment));
}

static void an_experiment_of_stopped_trials_alone_is_completed(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 5, 1);
    stop_says(mesh, 3, 0, (struct fact_stop){1, true, 0, false});
    assert_int_equal(view_experiment_state(experiment), VIEW_QUEUED);
    stop_says(mesh, 2, 1, (struct fact_stop){1, true, 0, false});
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

static void a_completion_outlives_a_stop_and_a_stop_a_failure(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 0, 1);
    attempt_id first = assign(mesh, 0, 1);
    stop_says(mesh, 3, 0, (struct fact_stop){1, true, 0, false});
    judge(mesh, 1, &first, FACT_FAILED, 0); /* beyond a cut, where no node knew of the stop */
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_STOPPED);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
    judge(mesh, 2, &first, FACT_COMPLETED, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
}

static void of_the_values_of_a_stop_register_the_highest_clock_counts(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 5, 1);
    stop_says(mesh, 1, 0, (struct fact_stop){1, true, 0, false});
    const struct view_trial *trial = view_find_trial(experiment, 0);
    stop_says(mesh, 2, 0, (struct fact_stop){2, false, 0, false});
    assert_false(view_trial_stopped(trial));
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    stop_says(mesh, 3, 0, (struct fact_stop){2, true, 4, false}); /* concurrent: the stop wins, whatever the ids */
    assert_true(view_trial_stopped(trial));
    stop_says(mesh, 0, 0, (struct fact_stop){2, false, 7, false});
    assert_true(view_trial_stopped(trial));
    assert_int_equal(view_trial_stop(trial).since, 7);
    stop_says(mesh, 4, 0, (struct fact_stop){5 + LAMPORT_JUMP_MAX, false, 0, false}); /* a jump: not counted */
    assert_true(view_trial_stopped(trial));
    assert_int_equal(mesh->core->view.jump_count, 1);
    say(mesh, 0, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    assert_int_equal(mesh->core->view.jump_count, 0);
}

/* An attempt of trial 0 whose coordinator, one of the people, knew of the retry with this clock. */
static attempt_id assign_knowing(struct mesh *mesh, uint32_t coordinator, uint32_t number, uint64_t retried)
{
    attempt_id id = make_attempt_id(0, 0, number, 1, mesh->people[coordinator].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{mesh->people[2].id, 0}}, .retried = retried};
    say(mesh, coordinator, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    return id;
}

static void failures_before_a_retry_count_no_more(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    for (uint32_t number = 1; number <= 2; number++) {
        attempt_id id = assign(mesh, 0, number);
        judge(mesh, 1, &id, FACT_FAILED, 0);
    }
    assert_int_equal(view_experiment_state(experiment), VIEW_FAILED);
    stop_says(mesh, 3, 0, (struct fact_stop){1, false, 2, false});
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0);
    assert_int_equal(view_trial_retried(experiment->trials[0]), 1);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_experiment_state(experiment), VIEW_RUNNING);
    assert_true(view_experiment_live(experiment));
    for (uint32_t number = 3; number <= 4; number++) {
        attempt_id id = assign_knowing(mesh, 1, number, 1);
        assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING);
        judge(mesh, 1, &id, FACT_FAILED, 0);
        assert_int_equal(view_trial_failures(experiment->trials[0]), number - 2);
    }
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    stop_says(mesh, 2, 0, (struct fact_stop){2, false, 4, false}); /* once more */
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
}

static void a_quarantine_ends_with_a_retry(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 100, 1);
    for (uint32_t number = 1; number <= 3; number++) {
        fail_on(mesh, 0, number, number, 7);
    }
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    stop_says(mesh, 3, 0, (struct fact_stop){1, false, 3, false});
    assert_int_equal(view_trial_quarantine(experiment->trials[0], CONFIG_RETRY_ANY, NULL, NULL), VIEW_NO_QUARANTINE);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
}

/* The other side of a cut goes on with the trial, fails as often as it may, and hears of the retry after the heal only. */
static void failures_without_knowledge_of_a_retry_do_not_undo_it(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 0, 1);
    attempt_id first = assign(mesh, 0, 1);
    judge(mesh, 1, &first, FACT_FAILED, 0);
    stop_says(mesh, 3, 0, (struct fact_stop){1, false, 1, false});
    attempt_id again = assign_knowing(mesh, 1, 2, 1);
    for (uint32_t number = 2; number <= 5; number++) {
        attempt_id id = assign_knowing(mesh, 4, number, 0);
        judge(mesh, 4, &id, FACT_FAILED, 0);
    }
    assert_int_equal(view_trial_failures(experiment->trials[0]), 0);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED); /* the highest attempt, 5, is over */
    assert_int_equal(view_trial_next_number(experiment->trials[0]), 6);
    judge(mesh, 1, &again, FACT_COMPLETED, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
}

static void a_completion_outlives_a_retry(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 0, 1);
    attempt_id first = assign(mesh, 0, 1);
    judge(mesh, 1, &first, FACT_FAILED, 0);
    stop_says(mesh, 3, 0, (struct fact_stop){1, false, 1, false});
    attempt_id second = assign_knowing(mesh, 1, 2, 1);
    judge(mesh, 4, &first, FACT_COMPLETED, 0.5); /* beyond a cut */
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
    assert_int_equal(view_trial_completed(experiment->trials[0])->id.number, 1);
    judge(mesh, 1, &second, FACT_FAILED, 0);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
}

static void cancel_and_stop_win_over_a_retry_beside_them(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 0, 1);
    stop_says(mesh, 3, 0, (struct fact_stop){4, false, 0, false});
    stop_says(mesh, 2, 0, (struct fact_stop){4, true, 0, false});
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_STOPPED);
    assert_int_equal(view_trial_retried(experiment->trials[0]), 0);
    stop_says(mesh, 3, 0, (struct fact_stop){5, false, 0, false});
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED);
    assert_int_equal(view_trial_retried(experiment->trials[0]), 5);
    cancel(mesh, 1);
    assert_int_equal(view_experiment_state(experiment), VIEW_CANCELLED);
    assert_false(view_experiment_live(experiment));
}

static void the_best_trial_is_the_first_of_the_best(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 4, 5, 1);
    uint32_t trial = 9;
    double value = 0;
    assert_false(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    const double accuracies[] = {0.25, 0.75, 0.75, 0.5};
    for (uint32_t i = 0; i < 4; i++) {
        attempt_id id = assign(mesh, 3 - i, 1);
        judge(mesh, 1, &id, FACT_COMPLETED, accuracies[3 - i]);
    }
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 1);
    assert_true(value > 0.74 && value < 0.76);
}

static void a_stopped_trial_can_be_the_best(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 3, 5, 1);
    attempt_id first = assign(mesh, 0, 1), second = assign(mesh, 1, 1);
    judge(mesh, 1, &first, FACT_COMPLETED, 0.5);
    judge(mesh, 1, &second, FACT_STOPPED, 0.75);
    uint32_t trial = 9;
    double value = 0;
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 0); /* the other one goes on later */
    stop_says(mesh, 3, 1, (struct fact_stop){1, true, 1, false});
    stop_says(mesh, 3, 2, (struct fact_stop){1, true, 0, false}); /* without a metric */
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 1);
}

static void a_diverged_trial_is_not_the_best(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 2, 5, 1);
    attempt_id first = assign(mesh, 0, 1), second = assign(mesh, 1, 1);
    judge(mesh, 1, &first, FACT_COMPLETED, NAN_DOUBLE);
    judge(mesh, 1, &second, FACT_COMPLETED, 0.5);
    uint32_t trial = 9;
    double value = 0;
    assert_true(view_experiment_best(&mesh->core->view, experiment, &trial, &value));
    assert_int_equal(trial, 1);
}

/* One record about a trial that no configuration speaks of. */
static void judge_far(struct mesh *mesh, uint32_t experiment, uint32_t trial)
{
    attempt_id id = make_attempt_id(experiment, trial, 1, 1, mesh->people[1].id);
    judge(mesh, 1, &id, FACT_COMPLETED, 0.5);
}

static void a_made_up_trial_costs_no_more_than_its_record(void **state)
{
    struct mesh *mesh = *state;
    size_t before = mesh->core->arena.used_bytes;
    for (uint32_t i = 0; i < 100; i++) {
        judge_far(mesh, 1 + i, SEARCH_TRIALS_MAX - 1 - i);
    }
    assert_in_range(mesh->core->arena.used_bytes - before, 100, 100 * 3000);
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    judge_far(mesh, 0, SEARCH_TRIALS_MAX - 1);
    judge_far(mesh, 0, 1000);
    assert_in_range(experiment->trial_slots, 0, 8);
    assert_int_equal(view_find_trial(experiment, 1000)->index, 1000);
    assert_int_equal(view_find_trial(experiment, SEARCH_TRIALS_MAX - 1)->index, SEARCH_TRIALS_MAX - 1);
    assert_null(view_find_trial(experiment, 1001));
    assert_int_equal(view_experiment_state(experiment), VIEW_QUEUED);
}

static void trials_that_come_before_their_experiment_are_among_its_trials(void **state)
{
    struct mesh *mesh = *state;
    for (uint32_t i = 0; i < 400; i++) {
        judge_far(mesh, 0, i * 7 % 400); /* in no order */
    }
    judge_far(mesh, 0, 500);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_int_equal(experiment->stray_count, 400 - 64 + 1);
    (void)submit(mesh, 0, 400, 1, 1);
    for (uint32_t i = 0; i < 400; i++) {
        assert_int_equal(experiment->trials[i]->index, i);
        assert_int_equal(view_trial_state(experiment, i), VIEW_TRIAL_COMPLETED);
    }
    assert_int_equal(experiment->stray_count, 1);
    assert_int_equal(view_find_trial(experiment, 500)->index, 500);
    assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);

    /* All of them go with it. */
    say(mesh, 0, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    assert_null(view_find_experiment(&mesh->core->view, make_experiment_id(0)));
}

/* Its writer is of a later version, say. The fold is that of the newest records, whichever came before. */
static void a_verdict_that_cannot_be_read_is_none(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 0, 1);
    attempt_id id = assign(mesh, 0, 1);
    judge(mesh, 1, &id, FACT_REASONS, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING);
    judge(mesh, 1, &id, FACT_FAILED, 0.5);
    judge(mesh, 2, &id, FACT_LOST, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_FAILED);
    judge(mesh, 1, &id, FACT_REASONS, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_QUEUED); /* the other one stands */
    judge(mesh, 2, &id, FACT_REASONS, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_RUNNING);
    assert_null(experiment->trials[0]->attempts->verdicts);
    judge(mesh, 1, &id, FACT_COMPLETED, 0.5);
    assert_int_equal(view_trial_state(experiment, 0), VIEW_TRIAL_COMPLETED);
}

/* The experiment of one writer and one attempt of it, each by a record that every version reads and by a large one, in either
 * order: the former counts, and a large one alone counts, too. */
static void of_two_kinds_of_one_record_the_plain_one_counts(void **state)
{
    struct mesh *mesh = *state;
    uint8_t packed[2][CONFIG_PACKED_BYTES_MAX];
    struct config config, lean;
    make_config(&config, 3, 5);
    config_make_lean(&config, &lean);
    struct fact_experiment plain = {.config = packed[0], .config_bytes = make_packed_config(&config, packed[0])};
    struct fact_experiment large = {.config = packed[1], .config_bytes = make_packed_config(&lean, packed[1]),
                                    .config_text = {{1}}, .trial_count = 3};
    for (uint32_t i = 0; i < 2; i++) {
        struct fact_key key = fact_key_experiment(make_experiment_id(i));
        attempt_id id = make_attempt_id(i, 0, 1, 1, mesh->people[1].id);
        struct fact_attempt one = {.member_count = 1, .members = {{mesh->people[2].id, 0}}}, two = one;
        two.member_count = 2;
        two.members[1] = (struct fact_assignment){mesh->people[2].id, 1};
        for (uint32_t turn = 0; turn < 2; turn++) {
            bool is_large = (i + turn) % 2 == 0;
            say(mesh, 0, is_large ? FACT_EXPERIMENT_LARGE : FACT_EXPERIMENT, key, is_large ? &large : &plain);
            say(mesh, 1, is_large ? FACT_ATTEMPT_LARGE : FACT_ATTEMPT, fact_key_attempt(&id), is_large ? &two : &one);
            const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(i));
            bool is_alone = turn == 0 && is_large;
            assert_true(experiment->known && experiment->is_large == is_alone && experiment->trial_count == 3);
            assert_int_equal(view_find_attempt(&mesh->core->view, &id)->member_count, is_alone ? 2 : 1);
        }
    }
    struct fact_experiment wrong = large; /* the number of trials contradicts the configuration */
    wrong.trial_count = 4;
    say(mesh, 0, FACT_EXPERIMENT_LARGE, fact_key_experiment(make_experiment_id(2)), &wrong);
    const struct view_experiment *refused = view_find_experiment(&mesh->core->view, make_experiment_id(2));
    assert_true(refused == NULL || !refused->known);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_two_kinds_of_one_record_the_plain_one_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(the_lowest_reason_of_concurrent_verdicts_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_restart_until_their_failures_are_used_up, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_on_three_nodes_without_progress_quarantine_a_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_quick_failures_on_two_nodes_fail_a_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(equal_quick_failures_three_times_on_one_node_fail_a_trial, setup, teardown),
        cmocka_unit_test_setup_teardown(the_second_death_of_a_host_convicts_the_only_suspect_and_the_third_anybody, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failure_that_one_judges_and_another_lets_pass_counts_once, setup, teardown),
        cmocka_unit_test_setup_teardown(who_fails_before_it_has_joined_a_group_is_no_failure_of_the_trial, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(pause_and_resume_are_one_register, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_absorbs_and_completion_outlives_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_trial_is_over_once_its_attempt_has_ended, setup, teardown),
        cmocka_unit_test_setup_teardown(an_experiment_of_stopped_trials_alone_is_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(a_completion_outlives_a_stop_and_a_stop_a_failure, setup, teardown),
        cmocka_unit_test_setup_teardown(of_the_values_of_a_stop_register_the_highest_clock_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_before_a_retry_count_no_more, setup, teardown),
        cmocka_unit_test_setup_teardown(a_quarantine_ends_with_a_retry, setup, teardown),
        cmocka_unit_test_setup_teardown(failures_without_knowledge_of_a_retry_do_not_undo_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_completion_outlives_a_retry, setup, teardown),
        cmocka_unit_test_setup_teardown(cancel_and_stop_win_over_a_retry_beside_them, setup, teardown),
        cmocka_unit_test_setup_teardown(the_best_trial_is_the_first_of_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(a_stopped_trial_can_be_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(a_diverged_trial_is_not_the_best, setup, teardown),
        cmocka_unit_test_setup_teardown(a_made_up_trial_costs_no_more_than_its_record, setup, teardown),
        cmocka_unit_test_setup_teardown(trials_that_come_before_their_experiment_are_among_its_trials, setup, teardown),
        cmocka_unit_test_setup_teardown(a_verdict_that_cannot_be_read_is_none, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

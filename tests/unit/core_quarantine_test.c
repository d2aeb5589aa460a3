/* When this node quarantines itself, and when the death of a host is charged to a trial (DESIGN 7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/core_ground.h"

#define COORDINATOR 1

/* An experiment with eight trials. */
static void submit(struct ground *ground, uint32_t experiment)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, 8, 5);
    struct fact_experiment fact = {.submitted_s = 1, .config = packed, .config_bytes = make_packed_config(&config, packed)};
    ground_take(ground, COORDINATOR, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(experiment)), &fact);
}

/* An attempt with one worker, in slot 0 of `host`. */
static attempt_id assign(struct ground *ground, uint32_t experiment, uint32_t trial, uint32_t number, uint32_t host)
{
    attempt_id id = make_attempt_id(experiment, trial, number, 1, ground->people[COORDINATOR].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{ground->people[host].id, 0}}};
    ground_take(ground, COORDINATOR, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    return id;
}

static void report(struct ground *ground, uint32_t host, const attempt_id *id, const struct fact_worker *fact)
{
    ground_take(ground, host, FACT_WORKER, fact_key_worker(id, 0), fact);
}

static void run(struct ground *ground, uint32_t host, const attempt_id *id)
{
    report(ground, host, id, &(struct fact_worker){.state = FACT_WORKER_RUNNING, .started_s = 1});
}

static void end(struct ground *ground, uint32_t host, const attempt_id *id, enum fact_reason reason)
{
    struct fact_worker fact = {.state = FACT_WORKER_ENDED, .reason = reason, .exit_code = 1, .started_s = 1};
    report(ground, host, id, &fact);
}

/* A worker that its host could not start. */
static void leave_unstarted(struct ground *ground, uint32_t host, const attempt_id *id)
{
    report(ground, host, id, &(struct fact_worker){.state = FACT_WORKER_ENDED, .reason = FACT_LOST, .exit_code = 1});
}

static void judge(struct ground *ground, const attempt_id *id, enum fact_reason reason)
{
    struct fact_verdict fact = {.reason = reason, .metrics = (const uint8_t *)"\x80", .metrics_bytes = 1};
    ground_take(ground, COORDINATOR, FACT_VERDICT, fact_key_verdict(id), &fact);
}

/* A trial fails on this node so long after its start. */
static void fail_here(struct ground *ground, uint32_t experiment, uint32_t trial, uint64_t lived_ms)
{
    attempt_id id = assign(ground, experiment, trial, 1, 0);
    core_quarantine_exited(&ground->core, &id, ground->core.now_ms - lived_ms, FACT_FAILED);
}

static void succeed_here(struct ground *ground, uint32_t experiment, uint32_t trial)
{
    attempt_id id = assign(ground, experiment, trial, 1, 0);
    core_quarantine_exited(&ground->core, &id, ground->core.now_ms - 1000, FACT_COMPLETED);
}

static bool is_quarantined(struct ground *ground)
{
    core_quarantine_housekeep(&ground->core);
    bool is_active = ground->quarantine.own.is_active;
    const struct view_member *self = view_find_member(&ground->core.view, ground->people[0].id);
    assert_int_equal(self->quarantine.is_active, is_active); /* as published */
    return is_active;
}

/* ---- this node ----------------------------------------------------------------------------------------------------------------- */

/* Another trial of the experiment ends well on another node. */
static void work_elsewhere(struct ground *ground, uint32_t experiment)
{
    attempt_id id = assign(ground, experiment, 6, 1, 2);
    end(ground, 2, &id, FACT_COMPLETED);
}

static void fail_three_experiments(struct ground *ground)
{
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        submit(ground, experiment);
        fail_here(ground, experiment, 0, 1000);
        work_elsewhere(ground, experiment);
    }
}

/* A worker on `host` fails within seconds; `failure` as in struct fact_worker. */
static void fail_in_a_way(struct ground *ground, uint32_t experiment, uint32_t trial, uint32_t host, uint64_t failure)
{
    attempt_id id = assign(ground, experiment, trial, 1, host);
    struct fact_worker fact = {.state = FACT_WORKER_ENDED, .reason = FACT_FAILED, .exit_code = 127, .started_s = 1, .failure = failure};
    report(ground, host, &id, &fact);
    if (host == 0) {
        core_quarantine_exited(&ground->core, &id, ground->core.now_ms - 1000, FACT_FAILED);
    }
}

/* Typing errors of several users: each is tried on this node alone. */
static void experiments_that_work_nowhere_do_not_quarantine_the_node(void **state)
{
    struct ground *ground = *state;
    for (uint32_t experiment = 0; experiment < 5; experiment++) {
        submit(ground, experiment);
        fail_in_a_way(ground, experiment, 0, 0, 127 + experiment);
    }
    assert_int_equal(ground->quarantine.young_failure_count, 5);
    assert_false(is_quarantined(ground));
}

/* Some of the experiment's trials have values that the program refuses, whichever node tries them. */
static void trials_that_fail_in_the_same_way_elsewhere_do_not_count(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    work_elsewhere(ground, 0);
    fail_in_a_way(ground, 0, 5, 3, 77);
    for (uint32_t trial = 0; trial < 4; trial++) {
        fail_in_a_way(ground, 0, trial, 0, 77);
    }
    assert_false(is_quarantined(ground));
}

/* This node lacks a module, say: the trials fail here in one way, and elsewhere, if at all, in another. */
static void trials_that_fail_in_another_way_elsewhere_count(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    work_elsewhere(ground, 0);
    fail_in_a_way(ground, 0, 5, 3, 78);
    for (uint32_t trial = 0; trial < 3; trial++) {
        assert_false(is_quarantined(ground));
        fail_in_a_way(ground, 0, trial, 0, 77);
    }
    assert_true(is_quarantined(ground));
}

/* The attempts of two coordinators, on two sides of a cut, count as those of one. */
static void a_trial_that_another_coordinator_saw_fail_elsewhere_does_not_count(void **state)
{
    struct ground *ground = *state;
    fail_three_experiments(ground);
    attempt_id id = make_attempt_id(2, 0, 1, 2, ground->people[3].id);
    struct fact_attempt fact = {.member_count = 1, .members = {{ground->people[3].id, 0}}};
    ground_take(ground, 3, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    end(ground, 3, &id, FACT_FAILED);
    assert_false(is_quarantined(ground));
}

static void three_trials_that_fail_early_on_this_node_alone_quarantine_the_node(void **state)
{
    struct ground *ground = *state;
    fail_three_experiments(ground);
    assert_true(is_quarantined(ground));
    assert_int_equal(ground->quarantine.own.minutes, 1);
    assert_string_equal(ground->quarantine.own.why, "3 trials failed on it within 60 s of their start, and on no other node");
}

static void two_trials_that_fail_early_do_not(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    submit(ground, 1);
    work_elsewhere(ground, 0);
    work_elsewhere(ground, 1);
    fail_here(ground, 0, 0, 1000);
    fail_here(ground, 1, 0, 1000);
    assert_false(is_quarantined(ground));
}

static void a_trial_that_fails_three_times_counts_once(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    work_elsewhere(ground, 0);
    for (uint32_t number = 1; number <= 3; number++) {
        attempt_id id = assign(ground, 0, 0, number, 0);
        core_quarantine_exited(&ground->core, &id, ground->core.now_ms - 1000, FACT_FAILED);
    }
    assert_int_equal(ground->quarantine.young_failure_count, 1);
    assert_false(is_quarantined(ground));
}

static void a_failure_after_a_minute_does_not_count(void **state)
{
    struct ground *ground = *state;
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        submit(ground, experiment);
        fail_here(ground, experiment, 0, CORE_EARLY_END_MS);
    }
    assert_int_equal(ground->quarantine.young_failure_count, 0);
}

static void a_worker_of_an_earlier_boot_does_not_count(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id id = assign(ground, 0, 0, 1, 0);
    core_quarantine_exited(&ground->core, &id, 0, FACT_FAILED);
    assert_int_equal(ground->quarantine.young_failure_count, 0);
}

static void a_worker_that_was_stopped_does_not_count(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id id = assign(ground, 0, 0, 1, 0);
    core_quarantine_exited(&ground->core, &id, ground->core.now_ms - 1000, FACT_STOPPED);
    assert_int_equal(ground->quarantine.young_failure_count, 0);
}

static void a_group_that_another_node_is_in_does_not_count(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id id = make_attempt_id(0, 0, 1, 1, ground->people[COORDINATOR].id);
    struct fact_attempt fact = {.member_count = 2, .members = {{ground->people[0].id, 0}, {ground->people[2].id, 0}}};
    ground_take(ground, COORDINATOR, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    core_quarantine_exited(&ground->core, &id, ground->core.now_ms - 1000, FACT_FAILED);
    assert_int_equal(ground->quarantine.young_failure_count, 0);
}

static void trials_of_one_experiment_that_works_elsewhere_count_each(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    for (uint32_t trial = 0; trial < 3; trial++) {
        fail_here(ground, 0, trial, 1000);
    }
    attempt_id id = assign(ground, 0, 5, 1, 2);
    end(ground, 2, &id, FACT_COMPLETED);
    assert_true(is_quarantined(ground));
}

static void a_trial_that_runs_elsewhere_for_a_minute_works_there(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id id = assign(ground, 0, 5, 1, 2);
    run(ground, 2, &id);
    ground_wait(ground, CORE_EARLY_END_MS - 1);
    for (uint32_t trial = 0; trial < 3; trial++) {
        fail_here(ground, 0, trial, 1000);
    }
    assert_false(is_quarantined(ground));
    ground_wait(ground, 1);
    assert_true(is_quarantined(ground));
}

static void a_trial_that_failed_on_another_node_too_is_not_this_nodes_fault(void **state)
{
    struct ground *ground = *state;
    fail_three_experiments(ground);
    attempt_id id = assign(ground, 2, 0, 2, 3);
    end(ground, 3, &id, FACT_FAILED);
    assert_false(is_quarantined(ground));
}

static void a_quarantine_ends_with_its_time(void **state)
{
    struct ground *ground = *state;
    fail_three_experiments(ground);
    assert_true(is_quarantined(ground));
    ground_wait(ground, 60000 - 1);
    assert_true(is_quarantined(ground));
    ground_wait(ground, 1);
    assert_false(is_quarantined(ground));
}

static void each_quarantine_is_twice_as_long_as_the_last_up_to_an_hour(void **state)
{
    struct ground *ground = *state;
    const uint32_t minutes[] = {1, 2, 4, 8, 16, 32, 60, 60};
    for (uint32_t i = 0; i < sizeof minutes / sizeof minutes[0]; i++) {
        for (uint32_t experiment = 0; experiment < 3; experiment++) {
            submit(ground, 3 * i + experiment);
            fail_here(ground, 3 * i + experiment, 0, 1000);
            work_elsewhere(ground, 3 * i + experiment);
        }
        assert_true(is_quarantined(ground));
        assert_int_equal(ground->quarantine.own.minutes, minutes[i]);
        ground_wait(ground, minutes[i] * 60000ull);
        assert_false(is_quarantined(ground));
    }
}

static void a_trial_that_ends_well_clears_failures_and_level(void **state)
{
    struct ground *ground = *state;
    fail_three_experiments(ground);
    assert_true(is_quarantined(ground));
    submit(ground, 3);
    fail_here(ground, 3, 0, 1000);
    succeed_here(ground, 0, 1);
    assert_false(is_quarantined(ground));
    assert_int_equal(ground->quarantine.own.level, 0);
    assert_int_equal(ground->quarantine.young_failure_count, 0);
}

static void the_oldest_failure_gives_way_when_the_list_is_full(void **state)
{
    struct ground *ground = *state;
    for (uint32_t experiment = 0; experiment <= CORE_YOUNG_FAILURES_MAX; experiment++) {
        submit(ground, experiment);
        fail_here(ground, experiment, 0, 1000);
    }
    assert_int_equal(ground->quarantine.young_failure_count, CORE_YOUNG_FAILURES_MAX);
    assert_true(experiment_id_equal(ground->quarantine.young_failures[0].attempt.experiment, make_experiment_id(1)));
}

static void a_quarantine_of_an_earlier_boot_begins_anew_at_the_start(void **state)
{
    struct ground *ground = *state;
    struct fact_quarantine fact = {.is_active = true, .level = 3, .minutes = 4, .why = "so"};
    ground_take(ground, 0, FACT_QUARANTINE, fact_key_empty(), &fact);
    core_quarantine_start(&ground->core);
    assert_true(is_quarantined(ground));
    assert_int_equal(ground->quarantine.until_ms, ground->core.now_ms + 4 * 60000);
}

/* ---- what this node cannot start ------------------------------------------------------------------------------------------------- */

/* Trials that this node cannot start, one of each of three experiments. */
static void cannot_start_three(struct ground *ground)
{
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        submit(ground, experiment);
        attempt_id id = assign(ground, experiment, 0, 1, 0);
        core_quarantine_unstarted(&ground->core, &id, true);
    }
}

static void start_elsewhere(struct ground *ground, uint32_t trial)
{
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        attempt_id id = assign(ground, experiment, trial, 1, 2);
        run(ground, 2, &id);
    }
}

static void what_no_node_can_start_is_not_this_nodes_fault(void **state)
{
    struct ground *ground = *state;
    cannot_start_three(ground);
    assert_false(is_quarantined(ground));
}

static void what_a_living_node_has_started_is_this_nodes_fault(void **state)
{
    struct ground *ground = *state;
    cannot_start_three(ground);
    start_elsewhere(ground, 1);
    assert_true(is_quarantined(ground));
    assert_string_equal(ground->quarantine.own.why,
                        "3 trials could not be started or failed on it within 60 s of their start, and on no other node");
}

static void what_another_node_could_not_start_either_is_not_this_nodes_fault(void **state)
{
    struct ground *ground = *state;
    cannot_start_three(ground);
    start_elsewhere(ground, 1);
    attempt_id id = assign(ground, 0, 0, 2, 3);
    leave_unstarted(ground, 3, &id);
    assert_false(is_quarantined(ground));
}

static void a_trial_that_lacks_its_checkpoint_counts_only_once_it_has_started_elsewhere(void **state)
{
    struct ground *ground = *state;
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        submit(ground, experiment);
        attempt_id id = make_attempt_id(experiment, 0, 1, 1, ground->people[COORDINATOR].id);
        struct fact_attempt fact = {.member_count = 1, .members = {{ground->people[0].id, 0}}, .start_step = 100};
        ground_take(ground, COORDINATOR, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
        core_quarantine_unstarted(&ground->core, &id, true);
    }
    start_elsewhere(ground, 1); /* other trials: so the code is there, but not this checkpoint */
    assert_false(is_quarantined(ground));
    for (uint32_t experiment = 0; experiment < 3; experiment++) {
        attempt_id id = assign(ground, experiment, 0, 2, 2);
        run(ground, 2, &id);
    }
    assert_true(is_quarantined(ground));
}

/* How often a trial could not be started, by whom. */
static void unstarted_attempts_are_counted_since_the_trial_last_ran(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    const struct view_experiment *experiment = view_find_experiment(&ground->core.view, make_experiment_id(0));
    const node_id *second = &ground->people[2].id, *third = &ground->people[3].id;
    for (uint32_t number = 1; number <= 3; number++) {
        uint32_t host = number == 3 ? 3 : 2;
        attempt_id id = assign(ground, 0, 0, number, host);
        leave_unstarted(ground, host, &id);
        judge(ground, &id, FACT_LOST);
    }
    const struct view_trial *trial = view_find_trial(experiment, 0);
    assert_int_equal(core_quarantine_unstarted_count(trial, NULL), 3);
    assert_int_equal(core_quarantine_unstarted_count(trial, second), 2);
    assert_int_equal(core_quarantine_unstarted_count(trial, third), 1);
    attempt_id ran = assign(ground, 0, 0, 4, 2);
    end(ground, 2, &ran, FACT_FAILED);
    judge(ground, &ran, FACT_FAILED);
    assert_int_equal(core_quarantine_unstarted_count(trial, NULL), 0);
    assert_int_equal(core_quarantine_unstarted_count(trial, second), 0);
}

/* ---- hosts that die --------------------------------------------------------------------------------------------------------------- */

/* The host is heard for the last time now, and is found dead 5 s later, all of them in one moment. */
static void fall_silent(struct ground *ground, const uint32_t *hosts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        swim_heard(&ground->members.swim, ground->core.now_ms, ground->people[hosts[i]].id);
    }
    ground_wait(ground, 5000);
    for (uint32_t i = 0; i < count; i++) {
        struct core_peer *peer = core_find_peer(&ground->core, ground->people[hosts[i]].id);
        peer->state = SWIM_DEAD;
        peer->died_ms = ground->core.now_ms;
        peer->fell_silent = true;
        core_quarantine_died(&ground->core, peer->id);
    }
}

/* What a coordinator does with the attempt once its verdict is there. */
static void settle(struct ground *ground, const attempt_id *id)
{
    struct view_experiment *experiment = view_find_experiment(&ground->core.view, id->experiment);
    struct view_trial *trial = view_find_trial(experiment, id->trial);
    core_quarantine_judge(&ground->core, experiment, trial, view_find_attempt(&ground->core.view, id));
}

static const struct view_trial *trial_of(struct ground *ground, const attempt_id *id)
{
    return view_find_trial(view_find_experiment(&ground->core.view, id->experiment), id->trial);
}

/* A trial that has run on `host` for so long. */
static attempt_id run_for(struct ground *ground, uint32_t experiment, uint32_t host, uint64_t ms)
{
    submit(ground, experiment);
    attempt_id id = assign(ground, experiment, 0, 1, host);
    run(ground, host, &id);
    ground_wait(ground, ms);
    return id;
}

static void a_host_that_falls_silent_alone_soon_after_the_start_is_charged_to_the_trial(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    const struct view_trial *trial = trial_of(ground, &id);
    assert_true(core_quarantine_is_suspect(trial));
    assert_true(core_quarantine_avoids(trial, ground->people[2].id));
    assert_false(core_quarantine_avoids(trial, ground->people[3].id));
    assert_int_equal(view_attempt_death(trial->attempts)->fact.lived_ms, 10000);
}

static void nothing_is_charged_before_the_deaths_of_a_power_cut_are_all_found(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS - 1);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
    assert_true(core_quarantine_waits(&ground->core, trial_of(ground, &id)));
    ground_wait(ground, 1);
    settle(ground, &id);
    assert_false(core_quarantine_waits(&ground->core, trial_of(ground, &id)));
}

static void two_hosts_that_fall_silent_together_are_charged_to_no_trial(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2, 3}, 2);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_second_host_counts_as_alone_if_the_trial_had_run_there_too(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id earlier = assign(ground, 0, 0, 1, 3);
    end(ground, 3, &earlier, FACT_STOPPED);
    judge(ground, &earlier, FACT_STOPPED);
    attempt_id id = assign(ground, 0, 0, 2, 2);
    run(ground, 2, &id);
    fall_silent(ground, (uint32_t[]){2, 3}, 2);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_true(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_host_that_refuses_connections_has_lost_its_daemon_and_not_its_life(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    core_find_peer(&ground->core, ground->people[2].id)->fell_silent = false;
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
    assert_false(core_quarantine_waits(&ground->core, trial_of(ground, &id)));
}

static void a_host_that_dies_a_minute_after_the_start_is_not_charged(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, CORE_EARLY_END_MS);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_start_that_this_node_did_not_see_is_not_charged(void **state)
{
    struct ground *ground = *state;
    core_find_peer(&ground->core, ground->people[2].id)->synced = false;
    core_find_peer(&ground->core, ground->people[2].id)->up_since_ms = ground->core.now_ms;
    attempt_id id = run_for(ground, 0, 2, 1000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_worker_that_reports_again_has_not_died(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    run(ground, 2, &id);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_trial_that_was_not_lost_is_charged_with_no_death(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_FAILED);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_death_tells_how_many_other_suspects_had_just_begun_there(void **state)
{
    struct ground *ground = *state;
    attempt_id first = run_for(ground, 0, 3, 10000);
    fall_silent(ground, (uint32_t[]){3}, 1);
    judge(ground, &first, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &first); /* now a suspect */
    attempt_id again = assign(ground, 0, 0, 2, 2);
    run(ground, 2, &again);
    attempt_id beside = run_for(ground, 1, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &beside, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    settle(ground, &beside);
    assert_int_equal(view_attempt_death(trial_of(ground, &beside)->attempts)->fact.suspects, 1);
}

static void a_death_for_which_there_is_no_memory_is_judged_again(void **state)
{
    struct ground *ground = *state;
    attempt_id id = run_for(ground, 0, 2, 10000);
    fall_silent(ground, (uint32_t[]){2}, 1);
    judge(ground, &id, FACT_LOST);
    ground_wait(ground, CORE_DEATH_SETTLE_MS);
    ground_fill_memory(ground);
    settle(ground, &id);
    assert_false(core_quarantine_is_suspect(trial_of(ground, &id)));
    ground_free_memory(ground);
    settle(ground, &id);
    assert_true(core_quarantine_is_suspect(trial_of(ground, &id)));
}

static void a_trial_avoids_the_node_where_it_failed(void **state)
{
    struct ground *ground = *state;
    submit(ground, 0);
    attempt_id id = assign(ground, 0, 0, 1, 2);
    end(ground, 2, &id, FACT_FAILED);
    const struct view_trial *trial = trial_of(ground, &id);
    assert_false(core_quarantine_avoids(trial, ground->people[2].id)); /* no verdict yet */
    judge(ground, &id, FACT_FAILED);
    assert_true(core_quarantine_avoids(trial, ground->people[2].id));
    assert_false(core_quarantine_avoids(trial, ground->people[3].id));
}

static void a_trial_that_failed_on_three_nodes_is_quarantined_with_their_names(void **state)
{
    struct ground *ground = *state;
    char text[256];
    submit(ground, 0);
    for (uint32_t number = 1; number <= 3; number++) {
        attempt_id id = assign(ground, 0, 0, number, number + 1);
        end(ground, number + 1, &id, FACT_FAILED);
        assert_false(core_quarantine_reason(&ground->core, trial_of(ground, &id), CONFIG_RETRY_ANY, text, sizeof text));
        judge(ground, &id, FACT_FAILED);
    }
    attempt_id id = make_attempt_id(0, 0, 1, 1, ground->people[COORDINATOR].id);
    assert_true(core_quarantine_reason(&ground->core, trial_of(ground, &id), CONFIG_RETRY_ANY, text, sizeof text));
    assert_string_equal(text, "quarantined: it failed on c, d and e");
}

/* ---- two records of one version ---------------------------------------------------------------------------------------------------- */

static void a_node_that_writes_two_records_of_one_version_gets_no_work_for_an_hour(void **state)
{
    struct ground *ground = *state;
    node_id node = ground->people[2].id;
    assert_false(core_quarantine_is_false(&ground->core, node));
    core_quarantine_equivocated(&ground->core, node);
    ground_wait(ground, CORE_EQUIVOCATION_MS - 1);
    assert_true(core_quarantine_is_false(&ground->core, node));
    ground_wait(ground, 1);
    assert_false(core_quarantine_is_false(&ground->core, node));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, ground_setup, ground_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(three_trials_that_fail_early_on_this_node_alone_quarantine_the_node),
        TEST(experiments_that_work_nowhere_do_not_quarantine_the_node),
        TEST(trials_that_fail_in_the_same_way_elsewhere_do_not_count),
        TEST(trials_that_fail_in_another_way_elsewhere_count),
        TEST(a_trial_that_another_coordinator_saw_fail_elsewhere_does_not_count),
        TEST(two_trials_that_fail_early_do_not),
        TEST(a_trial_that_fails_three_times_counts_once),
        TEST(a_failure_after_a_minute_does_not_count),
        TEST(a_worker_of_an_earlier_boot_does_not_count),
        TEST(a_worker_that_was_stopped_does_not_count),
        TEST(a_group_that_another_node_is_in_does_not_count),
        TEST(trials_of_one_experiment_that_works_elsewhere_count_each),
        TEST(a_trial_that_runs_elsewhere_for_a_minute_works_there),
        TEST(a_trial_that_failed_on_another_node_too_is_not_this_nodes_fault),
        TEST(a_quarantine_ends_with_its_time),
        TEST(each_quarantine_is_twice_as_long_as_the_last_up_to_an_hour),
        TEST(a_trial_that_ends_well_clears_failures_and_level),
        TEST(the_oldest_failure_gives_way_when_the_list_is_full),
        TEST(a_quarantine_of_an_earlier_boot_begins_anew_at_the_start),
        TEST(what_no_node_can_start_is_not_this_nodes_fault),
        TEST(what_a_living_node_has_started_is_this_nodes_fault),
        TEST(what_another_node_could_not_start_either_is_not_this_nodes_fault),
        TEST(a_trial_that_lacks_its_checkpoint_counts_only_once_it_has_started_elsewhere),
        TEST(unstarted_attempts_are_counted_since_the_trial_last_ran),
        TEST(a_host_that_falls_silent_alone_soon_after_the_start_is_charged_to_the_trial),
        TEST(nothing_is_charged_before_the_deaths_of_a_power_cut_are_all_found),
        TEST(two_hosts_that_fall_silent_together_are_charged_to_no_trial),
        TEST(a_second_host_counts_as_alone_if_the_trial_had_run_there_too),
        TEST(a_host_that_refuses_connections_has_lost_its_daemon_and_not_its_life),
        TEST(a_host_that_dies_a_minute_after_the_start_is_not_charged),
        TEST(a_start_that_this_node_did_not_see_is_not_charged),
        TEST(a_worker_that_reports_again_has_not_died),
        TEST(a_trial_that_was_not_lost_is_charged_with_no_death),
        TEST(a_death_tells_how_many_other_suspects_had_just_begun_there),
        TEST(a_death_for_which_there_is_no_memory_is_judged_again),
        TEST(a_trial_avoids_the_node_where_it_failed),
        TEST(a_trial_that_failed_on_three_nodes_is_quarantined_with_their_names),
        TEST(a_node_that_writes_two_records_of_one_version_gets_no_work_for_an_hour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What the daemon counts for /metrics: histograms, checkpoints that wait, and trials that are told of for a minute. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/daemon/ground/tally.h"

static struct tally tally;

static attempt_id attempt(uint32_t trial, uint32_t number)
{
    return (attempt_id){.experiment = {{7}}, .trial = trial, .number = number};
}

static int begin(void **state)
{
    (void)state;
    tally_init(&tally);
    return 0;
}

static void a_value_is_in_the_first_bucket_that_takes_it(void **state)
{
    (void)state;
    struct tally_histogram *histogram = &tally.checkpoint_s;
    tally_observe(histogram, 0);
    tally_observe(histogram, histogram->bounds[0]);
    tally_observe(histogram, histogram->bounds[0] * 1.01);
    tally_observe(histogram, 1e9);
    assert_int_equal(histogram->in[0], 2);
    assert_int_equal(histogram->in[1], 1);
    assert_int_equal(histogram->in[histogram->count], 1);
    assert_true(histogram->sum > 1e9);
}

static void a_durable_checkpoint_ends_the_wait_of_those_before_it(void **state)
{
    (void)state;
    attempt_id first = attempt(0, 1), second = attempt(0, 2);
    tally_saved(&tally, 3, &first, 10, 1000, 100000);
    tally_saved(&tally, 3, &first, 20, 1000, 101000);
    tally_saved(&tally, 3, &first, 30, 1000, 102000);
    assert_int_equal(tally_waiting_ms(&tally, 104000), 4000);
    tally_durable(&tally, 3, &first, 20, 104000);
    assert_int_equal(tally_waiting_ms(&tally, 104000), 2000);
    assert_true(tally.durable == 1 && tally.checkpoint_s.sum == 3);
    tally_durable(&tally, 3, &second, 30, 105000); /* another attempt's */
    assert_int_equal(tally_waiting_ms(&tally, 105000), 3000);
    tally_saved(&tally, 3, &second, 40, 1000, 106000);
    assert_int_equal(tally_waiting_ms(&tally, 106500), 500);
    tally_forget_saves(&tally, 3, &second);
    assert_int_equal(tally_waiting_ms(&tally, 106500), 500);
    tally_forget_saves(&tally, 3, NULL);
    assert_int_equal(tally_waiting_ms(&tally, 106500), 0);
    assert_true(tally.checkpoint_bytes.in[0] == 4 && tally.checkpoint_bytes.sum == 4000);
}

static void the_oldest_of_very_many_saves_waits_on(void **state)
{
    (void)state;
    attempt_id id = attempt(0, 1);
    for (uint64_t step = 1; step <= 3 * TALLY_SAVES_MAX; step++) {
        tally_saved(&tally, 0, &id, step, 1, 1000 * step);
    }
    assert_int_equal(tally_waiting_ms(&tally, 100000), 99000);
    tally_durable(&tally, 0, &id, 3 * TALLY_SAVES_MAX, 100000);
    assert_int_equal(tally_waiting_ms(&tally, 100000), 0);
}

static void steps_count_that_were_made_here_and_what_a_restart_repeats_counts_again(void **state)
{
    (void)state;
    attempt_id first = attempt(4, 1), second = attempt(4, 2);
    tally_trial_runs(&tally, 0, &first, 100, 1000); /* what an earlier daemon or node has made */
    tally_trial_runs(&tally, 0, &first, 150, 6000);
    tally_trial_runs(&tally, 0, &first, 150, 7000);
    assert_int_equal(tally.trial_count, 1);
    assert_int_equal(tally.trials[0].steps, 50);
    assert_true(tally.trials[0].step_s == 0.1);
    tally_trial_begins(&tally, 0, &second, 110);
    tally_trial_runs(&tally, 0, &second, 120, 8000);
    tally_trial_runs(&tally, 0, &second, 160, 9000);
    assert_int_equal(tally.trials[0].steps, 100);
    tally_trial_runs(&tally, 0, &second, 140, 10000); /* a group that went back */
    tally_trial_runs(&tally, 0, &second, 141, 11000);
    assert_int_equal(tally.trials[0].steps, 101);
}

static void a_trial_is_told_of_for_a_minute_after_its_end(void **state)
{
    (void)state;
    attempt_id ended = attempt(0, 1), runs = attempt(1, 1);
    tally_trial_runs(&tally, 0, &ended, 5, 1000);
    tally_trial_runs(&tally, 0, &runs, 5, 1000);
    tally_trial_lives(&tally, &runs, 40000); /* it makes no step */
    tally_forget_trials(&tally, 60999);
    assert_int_equal(tally.trial_count, 2);
    tally_forget_trials(&tally, 61000);
    assert_int_equal(tally.trial_count, 1);
    assert_int_equal(tally.trials[0].trial, 1);
    tally_shift(&tally, 3600000);
    tally_forget_trials(&tally, 3600000 + 61000);
    assert_int_equal(tally.trial_count, 1);
}

static void trials_without_a_row_are_counted_as_such(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= TALLY_TRIALS_MAX; i++) {
        attempt_id id = attempt(i, 1);
        tally_trial_runs(&tally, 0, &id, 1, 1000);
    }
    assert_int_equal(tally.trial_count, TALLY_TRIALS_MAX);
    assert_int_equal(tally.trials_dropped, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_value_is_in_the_first_bucket_that_takes_it, begin),
        cmocka_unit_test_setup(a_durable_checkpoint_ends_the_wait_of_those_before_it, begin),
        cmocka_unit_test_setup(the_oldest_of_very_many_saves_waits_on, begin),
        cmocka_unit_test_setup(steps_count_that_were_made_here_and_what_a_restart_repeats_counts_again, begin),
        cmocka_unit_test_setup(a_trial_is_told_of_for_a_minute_after_its_end, begin),
        cmocka_unit_test_setup(trials_without_a_row_are_counted_as_such, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

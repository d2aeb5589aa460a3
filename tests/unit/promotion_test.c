/* Successive halving with promotion: known answers, and a comparison with a rule written another way. What is expected of single
 * reports is what Determined AI's searcher before 0.38 answers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/search/promotion.h"

#define TRIALS_MAX 64
#define STEPS_MAX 1024

struct fixture {
    struct search_brackets brackets;
    struct search_climber climbers[TRIALS_MAX];
    struct search_step steps[STEPS_MAX];
    struct search_ladder ladder;
};

/* One bracket. */
static void begin(struct fixture *f, uint32_t trials, uint32_t rungs, double divisor)
{
    memset(f, 0, sizeof *f);
    f->brackets = (struct search_brackets){.count = 1, .list = {{rungs, trials, trials}}};
    f->ladder = (struct search_ladder){.divisor = divisor,
                                       .smaller_is_better = true,
                                       .brackets = &f->brackets,
                                       .climbers = f->climbers,
                                       .climber_count = trials,
                                       .steps = f->steps};
    search_ladder_clear(&f->ladder);
}

static bool take(struct fixture *f, enum search_word word, uint32_t trial, uint32_t rung, double metric)
{
    return search_ladder_take(&f->ladder, &(struct search_step){word, trial, rung, metric});
}

/* The trial reports at its next rung; then one trial may be promoted. Returns its number, or -1: none. */
static int report(struct fixture *f, uint32_t trial, double metric, enum search_word wanted)
{
    struct search_step step;
    enum search_word word = search_ladder_judge(&f->ladder, trial, metric);
    assert_int_equal(word, wanted);
    assert_true(take(f, word, trial, f->climbers[trial].entries, metric));
    if (!search_ladder_promotes(&f->ladder, &step)) {
        return -1;
    }
    assert_true(search_ladder_take(&f->ladder, &step));
    assert_false(search_ladder_promotes(&f->ladder, &(struct search_step){0})); /* at most one after each report */
    return (int)step.trial;
}

/* Ends what is to be closed now. Returns the trials as bits. */
static uint64_t close_all(struct fixture *f)
{
    struct search_step steps[TRIALS_MAX];
    uint32_t count = 0;
    uint64_t closed = 0;
    for (uint32_t from = 0; count < TRIALS_MAX && search_ladder_closes(&f->ladder, from, &steps[count]); count++) {
        from = steps[count].trial + 1;
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_true(search_ladder_take(&f->ladder, &steps[i]));
        closed |= UINT64_C(1) << steps[i].trial;
    }
    return closed;
}

static void six_reports_promote_as_known(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 9, 3, 3);
    assert_int_equal(report(&f, 0, 0.5, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 1, 0.4, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 2, 0.6, SEARCH_PAUSES), 1); /* the third report promotes the second trial */
    assert_int_equal(report(&f, 3, 0.3, SEARCH_GOES_ON), -1);
    assert_int_equal(report(&f, 4, 0.55, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 5, 0.7, SEARCH_PAUSES), -1); /* two of six go on, and both have */
    assert_int_equal(report(&f, 6, 0.45, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 7, 0.9, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 8, 0.8, SEARCH_PAUSES), 6); /* three of nine */
    assert_int_equal(report(&f, 1, 0.2, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 3, 0.1, SEARCH_PAUSES), -1);
    assert_int_equal(close_all(&f), 1 << 0 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8); /* nobody can report at rung 0 any more */
    assert_int_equal(report(&f, 6, 0.3, SEARCH_PAUSES), 3);
    assert_int_equal(close_all(&f), 1 << 1 | 1 << 6); /* nor at rung 1 */
    assert_int_equal(report(&f, 3, 0.05, SEARCH_TOPS_OUT), -1);
    assert_int_equal(close_all(&f), 0);
    for (uint32_t t = 0; t < 9; t++) {
        assert_int_equal(f.climbers[t].place, SEARCH_DONE);
    }
}

static void of_equal_metrics_the_older_one_is_promoted(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 8, 2, 2);
    assert_int_equal(report(&f, 5, 0.5, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 2, 0.5, SEARCH_PAUSES), 5);
    assert_int_equal(report(&f, 1, 0.5, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 0, 0.5, SEARCH_PAUSES), 2);
    assert_int_equal(report(&f, 3, -0.0, SEARCH_GOES_ON), -1);
    assert_int_equal(report(&f, 4, 0.0, SEARCH_GOES_ON), -1); /* three of six, and two with 0.5 had gone on before: none is taken back */
}

static void not_a_number_stops_and_infinities_compare(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 8, 2, 2);
    assert_int_equal(report(&f, 0, NAN, SEARCH_STOPS), -1);
    assert_int_equal(report(&f, 1, INFINITY, SEARCH_GOES_ON), -1); /* one of two, and better than NaN */
    assert_int_equal(report(&f, 2, -INFINITY, SEARCH_GOES_ON), -1);
    assert_int_equal(report(&f, 3, INFINITY, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 1, NAN, SEARCH_STOPS), -1); /* at the top, too */
    assert_false(take(&f, SEARCH_GOES_ON, 0, 1, 0.1));
}

static void a_step_that_does_not_follow_is_passed_over(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 4, 3, 2);
    assert_true(take(&f, SEARCH_PAUSES, 0, 0, 0.5));
    assert_false(take(&f, SEARCH_GOES_ON, 0, 0, 0.5)); /* another log's word about the same rung */
    assert_false(take(&f, SEARCH_PROMOTES, 0, 1, 0.5));
    assert_false(take(&f, SEARCH_PROMOTES, 1, 0, 0.5)); /* it has not reported */
    assert_false(take(&f, SEARCH_PAUSES, 0, 2, 0.5));   /* a rung is left out */
    assert_false(take(&f, SEARCH_PAUSES, 4, 0, 0.5));   /* no such trial */
    assert_true(take(&f, SEARCH_PROMOTES, 0, 0, 0.5));
    assert_false(take(&f, SEARCH_PROMOTES, 0, 0, 0.5));
    assert_false(take(&f, SEARCH_CLOSES, 0, 0, 0.5)); /* promoted already */
    assert_true(take(&f, SEARCH_PAUSES, 0, 1, 0.4));
    assert_false(take(&f, SEARCH_CLOSES, 0, 0, 0.5));
    assert_true(take(&f, SEARCH_PAUSES, 1, 0, 0.6));
    assert_true(take(&f, SEARCH_PAUSES, 1, 1, 0.3)); /* beyond a cut it was promoted */
    assert_true(take(&f, SEARCH_CLOSES, 0, 1, 0.4));
    assert_false(take(&f, SEARCH_GOES_ON, 0, 2, 0.4)); /* done */
    assert_false(take(&f, SEARCH_ENDS, 0, 2, NAN));
    assert_false(take(&f, SEARCH_GOES_ON, 1, 3, 0.4)); /* no such rung */
    assert_true(take(&f, SEARCH_GOES_ON, 1, 2, 0.4));  /* whatever a log says, the top rung is the last */
    assert_int_equal(f.climbers[1].place, SEARCH_DONE);
}

static void a_trial_that_ends_counts_as_the_worst_of_its_next_rung(void **state)
{
    (void)state;
    struct fixture f;
    struct search_step ends, step;
    begin(&f, 4, 2, 2);
    assert_int_equal(report(&f, 0, 0.5, SEARCH_PAUSES), -1);
    assert_int_equal(close_all(&f), 0);
    assert_true(search_ladder_ends(&f.ladder, 1, &ends));
    assert_int_equal(ends.rung, 0);
    assert_true(search_ladder_take(&f.ladder, &ends));
    assert_false(search_ladder_take(&f.ladder, &ends));
    assert_true(search_ladder_promotes(&f.ladder, &step)); /* one of two */
    assert_int_equal(step.trial, 0);
    assert_true(search_ladder_take(&f.ladder, &step));
    assert_int_equal(report(&f, 1, 0.6, SEARCH_PAUSES), -1); /* retried: its report takes the place of its end, and one of two has gone on */
    assert_int_equal(report(&f, 2, 0.7, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 3, 0.65, SEARCH_PAUSES), 1);
    assert_true(search_ladder_ends(&f.ladder, 2, &ends)); /* a user stops a paused trial */
    assert_int_equal(ends.rung, 0);
    assert_true(search_ladder_take(&f.ladder, &ends));
    assert_false(search_ladder_promotes(&f.ladder, &step)); /* it is an entry of rung 0 already, and counts once */
    assert_int_equal(close_all(&f), 1 << 3);
    assert_int_equal(report(&f, 2, 0.7, SEARCH_TOPS_OUT), -1); /* retried, it goes on */
}

static void brackets_are_not_compared(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, 4, 2, 2);
    f.brackets = (struct search_brackets){.count = 2, .list = {{2, 2, 2}, {2, 2, 2}}};
    f.climbers[1].bracket = f.climbers[3].bracket = 1;
    assert_int_equal(report(&f, 0, 0.5, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 1, 0.1, SEARCH_PAUSES), -1);
    assert_int_equal(report(&f, 2, 0.9, SEARCH_PAUSES), 0);
    assert_int_equal(close_all(&f), 1 << 2); /* the other bracket still waits for a report */
    assert_int_equal(report(&f, 3, 0.9, SEARCH_PAUSES), 1);
    assert_int_equal(close_all(&f), 1 << 3);
}

/* How many of the rung's entries go on by the paper: of a sorted list the first trunc(n / divisor). A report that has gone on is
 * never taken back, so at least these have. */
static void expect_best_gone_on(const struct fixture *f, uint32_t rung)
{
    const struct search_ladder *ladder = &f->ladder;
    struct search_step sorted[TRIALS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ladder->step_count; i++) {
        if (ladder->steps[i].rung == rung && ladder->steps[i].word <= SEARCH_PAUSES) {
            uint32_t at = count++;
            for (; at > 0 && sorted[at - 1].metric > ladder->steps[i].metric; at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = ladder->steps[i];
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct search_climber *climber = &ladder->climbers[sorted[i].trial];
        bool is_paused = climber->place == SEARCH_PAUSED && climber->entries == rung + 1;
        bool is_best = i < (uint32_t)(count / ladder->divisor);
        assert_false(is_best && is_paused);
    }
}

static void any_order_of_reports_promotes_the_best_and_ends(void **state)
{
    (void)state;
    static struct fixture f;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct random random;
        random_init(&random, seed);
        uint32_t trials = 1 + (uint32_t)random_below(&random, TRIALS_MAX), rungs = 1 + (uint32_t)random_below(&random, 4);
        begin(&f, trials, rungs, 1.5 + (double)random_below(&random, 6) / 2);
        for (;;) {
            uint32_t open[TRIALS_MAX], count = 0;
            for (uint32_t t = 0; t < trials; t++) {
                if (f.climbers[t].place == SEARCH_CLIMBS) {
                    open[count++] = t;
                }
            }
            if (count == 0 && close_all(&f) == 0) {
                break;
            }
            if (count > 0) {
                uint32_t t = open[random_below(&random, count)];
                double metric = (double)random_below(&random, 16);
                (void)report(&f, t, metric, search_ladder_judge(&f.ladder, t, metric));
                (void)(random_below(&random, 2) == 0 ? close_all(&f) : 0);
                for (uint32_t rung = 0; rung + 1 < rungs; rung++) {
                    expect_best_gone_on(&f, rung);
                }
            }
        }
        for (uint32_t t = 0; t < trials; t++) {
            assert_int_equal(f.climbers[t].place, SEARCH_DONE); /* the search ends, whatever was reported */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(six_reports_promote_as_known),
        cmocka_unit_test(of_equal_metrics_the_older_one_is_promoted),
        cmocka_unit_test(not_a_number_stops_and_infinities_compare),
        cmocka_unit_test(a_step_that_does_not_follow_is_passed_over),
        cmocka_unit_test(a_trial_that_ends_counts_as_the_worst_of_its_next_rung),
        cmocka_unit_test(brackets_are_not_compared),
        cmocka_unit_test(any_order_of_reports_promotes_the_best_and_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

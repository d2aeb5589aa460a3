/* Successive halving: brackets, rungs and decisions. Unless a comment says otherwise, what is expected is what Determined AI 0.38's
 * own tests expect of it, and what its formulae give. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/search/asha.h"

static struct search_halving adaptive(enum search_mode mode, double divisor, uint64_t max_time, uint32_t concurrent, uint32_t trials)
{
    return (struct search_halving){.kind = SEARCH_ADAPTIVE_ASHA,
                                   .rungs = 5,
                                   .divisor = divisor,
                                   .max_time = max_time,
                                   .max_trials = trials,
                                   .max_concurrent_trials = concurrent,
                                   .mode = mode};
}

static struct search_halving asha(uint32_t rungs, double divisor, uint64_t max_time, uint32_t concurrent, uint32_t trials)
{
    struct search_halving halving = adaptive(SEARCH_STANDARD, divisor, max_time, concurrent, trials);
    halving.kind = SEARCH_ASHA;
    halving.rungs = rungs;
    return halving;
}

/* A search whose brackets are given: `rungs` ends in a 0. */
static struct search_halving bracketed(const uint32_t *rungs, double divisor, uint32_t trials)
{
    struct search_halving halving = adaptive(SEARCH_STANDARD, divisor, 1000000, 16, trials);
    while (rungs[halving.bracket_count] != 0) {
        halving.bracket_rungs[halving.bracket_count] = (uint8_t)rungs[halving.bracket_count];
        halving.bracket_count++;
    }
    return halving;
}

static struct search_brackets brackets_of(const struct search_halving *halving)
{
    struct search_brackets brackets;
    assert_true(search_halving_is_good(halving));
    search_brackets_make(halving, &brackets);
    return brackets;
}

/* `wanted` is a list of (rungs, trials, concurrent), and ends in a 0. */
static void expect_brackets(const struct search_halving *halving, const uint32_t (*wanted)[3])
{
    struct search_brackets brackets = brackets_of(halving);
    uint32_t count = 0;
    for (; wanted[count][0] != 0; count++) {
        assert_true(count < brackets.count);
        assert_int_equal(brackets.list[count].rungs, wanted[count][0]);
        assert_int_equal(brackets.list[count].trials, wanted[count][1]);
        assert_int_equal(brackets.list[count].concurrent, wanted[count][2]);
    }
    assert_int_equal(brackets.count, count);
}

/* ---- rungs ---- */

static void rungs_are_parts_of_the_longest_training(void **state)
{
    (void)state;
    static const struct {
        uint32_t rungs;
        uint64_t max_time;
        double divisor;
        uint64_t targets[6];
    } rows[] = {
        {3, 9, 3, {1, 3, 9}},
        {4, 10, 2, {1, 2, 5, 10}},
        {1, 9, 3, {9}},
        {3, 900, 3, {100, 300, 900}},
        {3, 3, 4, {1, 1, 3}}, /* equal rungs */
        {5, 1000, 4, {3, 15, 62, 250, 1000}},
        {4, 100, 2.5, {6, 16, 40, 100}},
        {2, SEARCH_TIME_MAX, 2, {SEARCH_TIME_MAX / 2, SEARCH_TIME_MAX}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = asha(rows[i].rungs, rows[i].divisor, rows[i].max_time, 16, 100);
        for (uint32_t rung = 0; rung < rows[i].rungs; rung++) {
            assert_true(search_rung_target(&halving, rows[i].rungs, rung) == rows[i].targets[rung]);
        }
    }
}

/* ---- decisions ---- */

/* What has been reported at one rung of one bracket. */
struct rung {
    double metrics[512];
    uint32_t count;
};

static uint32_t better_than(const struct rung *rung, double metric, bool smaller_is_better)
{
    uint32_t better = 0;
    for (uint32_t i = 0; i < rung->count; i++) {
        better += search_is_better(rung->metrics[i], metric, smaller_is_better);
    }
    return better;
}

static bool report(struct rung *rung, double divisor, double metric, bool smaller_is_better)
{
    uint32_t better = better_than(rung, metric, smaller_is_better);
    rung->metrics[rung->count++] = metric;
    return search_goes_on(divisor, metric, better, rung->count);
}

static void a_metric_stands_before_those_that_are_not_better(void **state)
{
    (void)state;
    struct rung a = {{0, 1.5, 2.1}, 3}, b = {{0, 1.5, 2}, 3}, c = {{-3, -2, -1}, 3}, d = {{0}, 0};
    assert_int_equal(better_than(&a, 1.2, true), 1);
    assert_int_equal(better_than(&b, 3.0, true), 3);
    assert_int_equal(better_than(&c, -3.4, true), 0);
    assert_int_equal(better_than(&d, 1.2, true), 0);
    assert_int_equal(better_than(&a, 1.2, false), 2);
}

static void the_best_part_goes_on(void **state)
{
    (void)state;
    struct rung first = {{0}, 0}, second = {{0}, 0}, third = {{0}, 0};
    assert_true(report(&first, 3, 0.5, true));
    assert_true(report(&first, 3, 0.4, true));
    assert_true(report(&second, 3, 0.5, true));
    assert_false(report(&second, 3, 0.6, true));
    static const double metrics[] = {0.5, 0.6, 0.4, 0.45, 0.7, 0.42, 0.41};
    static const bool goes_on[] = {true, false, true, false, false, true, true}; /* of 6 and 7 entries the best 2 */
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(report(&third, 3, metrics[i], true), goes_on[i]);
    }
}

static void a_larger_metric_may_be_better(void **state)
{
    (void)state;
    struct rung rung = {{0}, 0};
    assert_true(report(&rung, 4, 0.5, false));
    assert_false(report(&rung, 4, 0.4, false));
    assert_true(report(&rung, 4, 0.6, false));
}

static void a_metric_that_equals_an_older_one_wins(void **state)
{
    (void)state;
    struct rung rung = {{0}, 0};
    assert_true(report(&rung, 4, 0.5, true));
    assert_true(report(&rung, 4, 0.5, true));
    struct rung zero = {{0}, 0};
    assert_true(report(&zero, 4, 0.0, true));
    assert_true(report(&zero, 4, -0.0, true));
    assert_true(report(&zero, 4, 0.0, true));
}

/* In Determined one NaN at the beginning of a rung stops all trials after it. */
static void a_metric_that_is_no_number_stops_its_trial_alone(void **state)
{
    (void)state;
    for (int smaller = 0; smaller <= 1; smaller++) {
        struct rung rung = {{0}, 0};
        assert_false(report(&rung, 4, (double)NAN, smaller != 0));
        assert_true(report(&rung, 4, smaller != 0 ? 0.5 : 0.6, smaller != 0));
        assert_false(report(&rung, 4, (double)NAN, smaller != 0));
        assert_false(report(&rung, 4, smaller != 0 ? 0.6 : 0.5, smaller != 0));
        assert_false(report(&rung, 4, (double)(smaller != 0 ? INFINITY : -INFINITY), smaller != 0));
        assert_true(report(&rung, 4, (double)(smaller != 0 ? -INFINITY : INFINITY), smaller != 0));
    }
}

static void the_decision_follows_from_the_place_in_a_sorted_list(void **state)
{
    (void)state;
    static const double divisors[] = {1.5, 2, 3, 4, 2.718281828};
    struct random random;
    random_init_stream(&random, 4, 0);
    for (size_t d = 0; d < 5; d++) {
        struct rung rung = {{0}, 0};
        double sorted[512];
        for (uint32_t n = 1; n <= 400; n++) {
            double metric = (double)random_below(&random, 60);
            uint32_t place = 0;
            while (place < n - 1 && sorted[place] < metric) {
                place++;
            }
            memmove(&sorted[place + 1], &sorted[place], (n - 1 - place) * sizeof sorted[0]);
            sorted[place] = metric;
            uint32_t part = (uint32_t)((double)n / divisors[d]);
            assert_int_equal(report(&rung, divisors[d], metric, true), place < (part > 1 ? part : 1));
        }
    }
}

/* ---- brackets ---- */

static void brackets_follow_from_the_mode(void **state)
{
    (void)state;
    static const struct {
        uint32_t trials;
        uint64_t max_time;
        enum search_mode mode;
        uint32_t wanted[6][3];
    } rows[] = {
        {16, 900, SEARCH_AGGRESSIVE, {{3, 16, 16}}},
        {16, 900, SEARCH_STANDARD, {{3, 12, 8}, {2, 4, 4}}},
        {16, 900, SEARCH_CONSERVATIVE, {{3, 12, 6}, {2, 3, 3}, {1, 1, 1}}},
        {64, 1000, SEARCH_AGGRESSIVE, {{4, 64, 16}}},
        {64, 1000, SEARCH_STANDARD, {{4, 45, 6}, {3, 14, 5}, {2, 5, 5}}},
        {64, 1000, SEARCH_CONSERVATIVE, {{4, 43, 4}, {3, 14, 4}, {2, 5, 4}, {1, 2, 2}}},
        {256, 1000, SEARCH_AGGRESSIVE, {{5, 256, 16}}},
        {256, 1000, SEARCH_STANDARD, {{5, 182, 6}, {4, 56, 5}, {3, 18, 5}}},
        {256, 1000, SEARCH_CONSERVATIVE, {{5, 175, 4}, {4, 54, 3}, {3, 18, 3}, {2, 6, 3}, {1, 3, 3}}},
        {1000, 1000, SEARCH_AGGRESSIVE, {{5, 1000, 16}}},
        {1000, 1000, SEARCH_STANDARD, {{5, 707, 6}, {4, 220, 5}, {3, 73, 5}}},
        {1000, 1000, SEARCH_CONSERVATIVE, {{5, 680, 4}, {4, 211, 3}, {3, 70, 3}, {2, 26, 3}, {1, 13, 3}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = adaptive(rows[i].mode, 4, rows[i].max_time, 16, rows[i].trials);
        expect_brackets(&halving, rows[i].wanted);
    }
    static const uint32_t nine[][3] = {{2, 7, 1}, {1, 3, 1}, {0}}, ten[][3] = {{3, 7, 2}, {2, 2, 2}, {1, 1, 1}, {0}};
    struct search_halving standard = adaptive(SEARCH_STANDARD, 4, 100, 2, 10);
    struct search_halving conservative = adaptive(SEARCH_CONSERVATIVE, 3, 1000, 5, 10);
    expect_brackets(&standard, nine);
    expect_brackets(&conservative, ten);
}

static void trials_are_shared_among_brackets_by_their_rungs(void **state)
{
    (void)state;
    static const struct {
        uint32_t trials;
        double divisor;
        uint32_t rungs[4], wanted[4];
    } rows[] = {
        {20, 3, {3, 2, 1}, {12, 5, 3}},
        {50, 3, {4, 3}, {35, 15}},
        {50, 4, {3, 2}, {37, 13}},
        {100, 4, {4, 3, 2}, {70, 22, 8}},
        {100, 4, {2, 4, 3}, {70, 22, 8}}, /* in any order */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = bracketed(rows[i].rungs, rows[i].divisor, rows[i].trials);
        struct search_brackets brackets = brackets_of(&halving);
        for (uint32_t b = 0; b < brackets.count; b++) {
            assert_int_equal(brackets.list[b].trials, rows[i].wanted[b]);
        }
        assert_int_equal(brackets.count, halving.bracket_count);
    }
}

static void concurrency_is_shared_among_brackets(void **state)
{
    (void)state;
    static const struct {
        uint32_t concurrent;
        double divisor;
        uint32_t count, trials[3], wanted[3]; /* before none gets more than its trials */
    } rows[] = {
        {0, 3, 3, {9, 3, 1}, {3, 3, 3}},
        {11, 3, 3, {9, 3, 1}, {4, 4, 3}},
        {0, 4, 2, {40, 10}, {10, 10}},
        {2, 4, 3, {40, 10, 5}, {1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = adaptive(SEARCH_STANDARD, rows[i].divisor, 100, rows[i].concurrent, 100);
        struct search_brackets brackets = {.count = rows[i].count};
        for (uint32_t b = 0; b < rows[i].count; b++) {
            brackets.list[b] = (struct search_bracket){.rungs = rows[i].count - b, .trials = rows[i].trials[b]};
        }
        search_brackets_share(&halving, &brackets);
        for (uint32_t b = 0; b < rows[i].count; b++) {
            uint32_t wanted = rows[i].wanted[b] < rows[i].trials[b] ? rows[i].wanted[b] : rows[i].trials[b];
            assert_int_equal(brackets.list[b].concurrent, wanted);
        }
    }
}

static void asha_has_one_bracket(void **state)
{
    (void)state;
    static const struct {
        uint32_t rungs;
        double divisor;
        uint32_t concurrent, trials, wanted;
    } rows[] = {
        {3, 3, 3, 10, 3}, {3, 4, 16, 10, 10}, {3, 4, 0, 100, 16}, {3, 4, 0, 10, 10}, {1, 4, 0, 10, 1}, {32, 1000000, 0, 7, 7}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = asha(rows[i].rungs, rows[i].divisor, 900, rows[i].concurrent, rows[i].trials);
        halving.bracket_count = 1; /* of adaptive_asha alone */
        halving.bracket_rungs[0] = 9;
        const uint32_t wanted[][3] = {{rows[i].rungs, rows[i].trials, rows[i].wanted}, {0}};
        expect_brackets(&halving, wanted);
    }
}

/* Determined takes logarithms, and has a rung less in the first three. */
static void rungs_are_counted_by_whole_powers(void **state)
{
    (void)state;
    static const struct {
        uint64_t max_time;
        uint32_t max_trials;
        double divisor;
        uint32_t rungs;
    } rows[] = {
        {1000000, 243, 3, 6}, {1000, 100000, 10, 4}, {1000000, 100000, 10, 6}, {1000000, 242, 3, 5}, {243, 1000, 3, 6},
        {242, 1000, 3, 5},    {1, 1000, 2, 1},       {1000, 1, 2, 1},          {2, 1000, 2, 2},      {1000, 100000, 1.0001, 20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = adaptive(SEARCH_AGGRESSIVE, rows[i].divisor, rows[i].max_time, 16, rows[i].max_trials);
        halving.rungs = 20;
        struct search_brackets brackets = brackets_of(&halving);
        assert_int_equal(brackets.count, 1);
        assert_int_equal(brackets.list[0].rungs, rows[i].rungs);
    }
}

/* Determined makes more trials than max_trials then. */
static void a_trial_for_each_bracket_makes_no_more_than_all_trials(void **state)
{
    (void)state;
    static const uint32_t one_each[] = {8, 7, 6, 5, 4, 0}, low[] = {3, 1, 1, 1, 0};
    static const uint32_t three[][3] = {{8, 1, 1}, {7, 1, 1}, {6, 1, 1}, {0}};
    static const uint32_t five[][3] = {{3, 2, 2}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0}};
    struct search_halving few = bracketed(one_each, 4, 3), less = bracketed(low, 4, 5);
    expect_brackets(&few, three);
    expect_brackets(&less, five);
}

static void every_configuration_has_brackets_that_hold_all_trials(void **state)
{
    (void)state;
    struct random random;
    random_init_stream(&random, 9, 0);
    for (unsigned i = 0; i < 3000; i++) {
        struct search_halving halving = adaptive((enum search_mode)random_below(&random, 3), 1.0001 + 6 * random_double(&random),
                                                 1 + random_below(&random, 2000), (uint32_t)random_below(&random, 40),
                                                 1 + (uint32_t)random_below(&random, 300));
        halving.rungs = 1 + (uint32_t)random_below(&random, SEARCH_RUNGS_MAX);
        halving.kind = i % 5 == 0 ? SEARCH_ASHA : SEARCH_ADAPTIVE_ASHA;
        halving.bracket_count = i % 3 == 0 ? (uint32_t)random_below(&random, SEARCH_BRACKETS_MAX + 1) : 0;
        for (uint32_t b = 0; b < halving.bracket_count; b++) {
            halving.bracket_rungs[b] = (uint8_t)(1 + random_below(&random, SEARCH_RUNGS_MAX));
        }
        struct search_brackets brackets = brackets_of(&halving);
        uint32_t all = 0, reach[SEARCH_RUNGS_MAX];
        assert_in_range(brackets.count, 1, SEARCH_BRACKETS_MAX);
        for (uint32_t b = 0; b < brackets.count; b++) {
            const struct search_bracket *bracket = &brackets.list[b];
            all += bracket->trials;
            assert_in_range(bracket->rungs, 1, b > 0 ? brackets.list[b - 1].rungs : SEARCH_RUNGS_MAX);
            assert_in_range(bracket->concurrent, 1, bracket->trials);
            uint64_t units = search_bracket_preview(&halving, bracket, reach), before = 1;
            assert_true(units <= bracket->trials * halving.max_time);
            for (uint32_t rung = 0; rung < bracket->rungs; rung++) {
                uint64_t target = search_rung_target(&halving, bracket->rungs, rung);
                assert_true(target >= before);
                before = target;
            }
            assert_true(before == halving.max_time);
        }
        assert_int_equal(all, halving.max_trials);
    }
}

static void numbers_out_of_bounds_are_no_search(void **state)
{
    (void)state;
    struct search_halving good = adaptive(SEARCH_CONSERVATIVE, 4, 100, 0, 10), bad;
    good.bracket_count = SEARCH_BRACKETS_MAX;
    memset(good.bracket_rungs, SEARCH_RUNGS_MAX, sizeof good.bracket_rungs);
    assert_true(search_halving_is_good(&good));
#define BAD(change)                              \
    do {                                         \
        bad = good;                              \
        bad.change;                              \
        assert_false(search_halving_is_good(&bad)); \
    } while (0)
    BAD(kind = SEARCH_RANDOM);
    BAD(rungs = 0);
    BAD(rungs = SEARCH_RUNGS_MAX + 1);
    BAD(divisor = 1);
    BAD(divisor = SEARCH_DIVISOR_MAX + 1);
    BAD(divisor = (double)NAN);
    BAD(max_time = 0);
    BAD(max_time = SEARCH_TIME_MAX + 1);
    BAD(max_trials = 0);
    BAD(max_trials = SEARCH_TRIALS_MAX + 1);
    BAD(mode = (enum search_mode)(SEARCH_CONSERVATIVE + 1));
    BAD(bracket_count = SEARCH_BRACKETS_MAX + 1);
    BAD(bracket_rungs[SEARCH_BRACKETS_MAX - 1] = 0);
    BAD(bracket_rungs[0] = SEARCH_RUNGS_MAX + 1);
}

/* ---- trials ---- */

/* The bracket that is due after `given`: the one with the greatest votes / (2 * seats + 1), of equal ones the first. */
static uint32_t due(const struct search_brackets *brackets, const uint32_t *given)
{
    uint32_t best = 0;
    for (uint32_t b = 1; b < brackets->count; b++) {
        uint64_t mine = (uint64_t)brackets->list[b].trials * (2 * given[best] + 1);
        uint64_t others = (uint64_t)brackets->list[best].trials * (2 * given[b] + 1);
        best = mine > others ? b : best;
    }
    return best;
}

static void brackets_take_turns_by_their_shares(void **state)
{
    (void)state;
    static const struct {
        enum search_mode mode;
        uint32_t trials;
    } rows[] = {{SEARCH_STANDARD, 64},      {SEARCH_CONSERVATIVE, 64}, {SEARCH_CONSERVATIVE, 16}, {SEARCH_STANDARD, 1000},
                {SEARCH_CONSERVATIVE, 700}, {SEARCH_AGGRESSIVE, 20},   {SEARCH_STANDARD, 1},      {SEARCH_STANDARD, 10}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct search_halving halving = adaptive(rows[i].mode, 4, 1000, 16, rows[i].trials);
        struct search_brackets brackets = brackets_of(&halving);
        uint32_t given[SEARCH_BRACKETS_MAX] = {0};
        struct search_turns turns = {{0}};
        for (uint32_t k = 0; k < rows[i].trials; k++) {
            uint32_t bracket = search_trial_bracket(&brackets, k);
            assert_int_equal(bracket, due(&brackets, given));
            assert_int_equal(search_next_bracket(&brackets, &turns), bracket);
            given[bracket]++;
        }
        for (uint32_t b = 0; b < brackets.count; b++) {
            assert_int_equal(given[b], brackets.list[b].trials);
        }
        for (uint32_t k = 0; k < 2 * rows[i].trials; k++) { /* of a search that is extended: the turns begin anew */
            uint32_t bracket = search_trial_bracket(&brackets, k);
            assert_int_equal(search_next_bracket(&brackets, &turns), bracket);
            assert_int_equal(search_trial_bracket(&brackets, rows[i].trials + k), bracket);
        }
    }
    /* Each of the three brackets has begun with the seventh of 64 trials. */
    static const uint32_t first[] = {0, 0, 1, 0, 0, 0, 2, 1};
    struct search_halving halving = adaptive(SEARCH_STANDARD, 4, 1000, 16, 64);
    struct search_brackets brackets = brackets_of(&halving);
    for (uint32_t k = 0; k < 8; k++) {
        assert_int_equal(search_trial_bracket(&brackets, k), first[k]);
    }
}

static void an_extended_search_keeps_its_brackets(void **state)
{
    (void)state;
    struct search_halving halving = adaptive(SEARCH_STANDARD, 4, 1000, 16, 10);
    const struct search_brackets before = brackets_of(&halving);
    for (uint32_t trials = 10; trials < 45; trials++) {
        struct search_brackets brackets = before;
        uint32_t counted[SEARCH_BRACKETS_MAX] = {0}, concurrent = 0;
        search_brackets_extend(&halving, trials, &brackets);
        for (uint32_t t = 0; t < trials; t++) {
            assert_int_equal(search_trial_bracket(&brackets, t), search_trial_bracket(&before, t % 10));
            counted[search_trial_bracket(&brackets, t)]++;
        }
        assert_int_equal(brackets.count, before.count);
        for (uint32_t b = 0; b < brackets.count; b++) {
            assert_int_equal(brackets.list[b].rungs, before.list[b].rungs);
            assert_int_equal(brackets.list[b].trials, before.list[b].trials);
            assert_int_equal(brackets.list[b].trials + brackets.list[b].added, counted[b]);
            concurrent += brackets.list[b].concurrent;
        }
        assert_in_range(concurrent, before.count, trials < 16 ? trials : 16);
    }
    /* With one bracket an extended search is one that had so many trials from the beginning. */
    struct search_halving few = {.kind = SEARCH_ASHA, .rungs = 3, .divisor = 2, .max_time = 100, .max_trials = 2}, many = few;
    many.max_trials = 9;
    struct search_brackets extended = brackets_of(&few), whole = brackets_of(&many);
    assert_int_equal(extended.list[0].concurrent, 2);
    search_brackets_extend(&few, 9, &extended);
    assert_int_equal(extended.list[0].trials + extended.list[0].added, whole.list[0].trials);
    assert_int_equal(extended.list[0].concurrent, whole.list[0].concurrent);
}

/* Runs the trials of a search one after the other, each with a report every `each` units whose metric is `step` more than the last
 * one of all. Counts the trials of each bracket by the length at which they end. */
static void run(const struct search_halving *halving, uint64_t each, double step, uint32_t ended[4][1001])
{
    static struct rung rungs[4][8];
    struct search_brackets brackets = brackets_of(halving);
    double metric = 0;
    memset(rungs, 0, sizeof rungs);
    for (uint32_t trial = 0; trial < halving->max_trials; trial++) {
        uint32_t b = search_trial_bracket(&brackets, trial), count = brackets.list[b].rungs, rung = 0;
        bool goes_on = true;
        uint64_t time = 0;
        for (; goes_on; time += each, metric += step) {
            while (goes_on && rung < count && search_rung_target(halving, count, rung) <= time) {
                goes_on = report(&rungs[b][rung], halving->divisor, metric, true) && rung < count - 1;
                rung++;
            }
        }
        ended[b][time - each]++;
    }
}

static void trials_one_after_the_other_end_where_the_first_was_better(void **state)
{
    (void)state;
    static uint32_t ended[4][1001];
    struct search_halving halving = asha(3, 3, 900, 3, 10);
    memset(ended, 0, sizeof ended);
    run(&halving, 100, 1, ended);
    assert_int_equal(ended[0][900], 1);
    assert_int_equal(ended[0][100], 9);
    memset(ended, 0, sizeof ended);
    run(&halving, 100, -1, ended); /* each is better than all before it */
    assert_int_equal(ended[0][900], 10);
    memset(ended, 0, sizeof ended);
    halving = adaptive(SEARCH_STANDARD, 3, 90, 3, 9);
    run(&halving, 10, 1, ended);
    assert_int_equal(ended[0][10], 5);
    assert_int_equal(ended[0][90], 1);
    assert_int_equal(ended[1][30], 2);
    assert_int_equal(ended[1][90], 1);
}

static void a_report_beyond_several_rungs_counts_at_each(void **state)
{
    (void)state;
    static uint32_t ended[4][1001];
    struct search_halving halving = asha(3, 3, 900, 3, 10);
    memset(ended, 0, sizeof ended);
    run(&halving, 450, 1, ended); /* at 450 units two rungs are behind */
    assert_int_equal(ended[0][900], 1);
    assert_int_equal(ended[0][450], 9);
}

/* ---- preview ---- */

static void a_preview_counts_the_trials_that_reach_each_rung(void **state)
{
    (void)state;
    struct search_halving halving = adaptive(SEARCH_STANDARD, 3, 900, 16, 10);
    halving.rungs = 10;
    struct search_brackets brackets = brackets_of(&halving);
    uint32_t reach[SEARCH_RUNGS_MAX], ended[901] = {0};
    uint64_t units = 0;
    for (uint32_t b = 0; b < brackets.count; b++) {
        units += search_bracket_preview(&halving, &brackets.list[b], reach);
        for (uint32_t rung = 0; rung < brackets.list[b].rungs; rung++) {
            bool is_top = rung + 1 == brackets.list[b].rungs;
            ended[search_rung_target(&halving, brackets.list[b].rungs, rung)] += reach[rung] - (is_top ? 0 : reach[rung + 1]);
        }
    }
    assert_int_equal(ended[100], 5);
    assert_int_equal(ended[300], 3);
    assert_int_equal(ended[900], 2);
    assert_true(units == 5 * 100 + 3 * 300 + 2 * 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rungs_are_parts_of_the_longest_training),
        cmocka_unit_test(a_metric_stands_before_those_that_are_not_better),
        cmocka_unit_test(the_best_part_goes_on),
        cmocka_unit_test(a_larger_metric_may_be_better),
        cmocka_unit_test(a_metric_that_equals_an_older_one_wins),
        cmocka_unit_test(a_metric_that_is_no_number_stops_its_trial_alone),
        cmocka_unit_test(the_decision_follows_from_the_place_in_a_sorted_list),
        cmocka_unit_test(brackets_follow_from_the_mode),
        cmocka_unit_test(trials_are_shared_among_brackets_by_their_rungs),
        cmocka_unit_test(concurrency_is_shared_among_brackets),
        cmocka_unit_test(asha_has_one_bracket),
        cmocka_unit_test(rungs_are_counted_by_whole_powers),
        cmocka_unit_test(a_trial_for_each_bracket_makes_no_more_than_all_trials),
        cmocka_unit_test(every_configuration_has_brackets_that_hold_all_trials),
        cmocka_unit_test(numbers_out_of_bounds_are_no_search),
        cmocka_unit_test(brackets_take_turns_by_their_shares),
        cmocka_unit_test(an_extended_search_keeps_its_brackets),
        cmocka_unit_test(trials_one_after_the_other_end_where_the_first_was_better),
        cmocka_unit_test(a_report_beyond_several_rungs_counts_at_each),
        cmocka_unit_test(a_preview_counts_the_trials_that_reach_each_rung),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

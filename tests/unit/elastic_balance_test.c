/* Parts that follow speeds, in groups of real processes: what the slow have, and that nothing is lost or used twice by it. Time
 * is the test's own: it goes on by what a worker says that its samples cost, so that a busy machine changes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>

#include "base/err.h"
#include "tests/unit/elastic_fixture.h"
#include "train/group/group.h"
#include "train/plan/balance.h"

#define VALUES 300
#define STEPS 150
#define ALL UINT32_MAX
#define WAIT_NS 5000000000

static uint64_t clock_ns; /* of this process */
static uint32_t cost[FAKE_RANKS_MAX]; /* of a sample, in 10 ms, by worker; set before workers are forked */

uint64_t __wrap_client_link_now_ns(void);
int __real_group_barrier(struct group *group);
int __wrap_group_barrier(struct group *group);
int __real_group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count);
int __wrap_group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count);

uint64_t __wrap_client_link_now_ns(void)
{
    return clock_ns;
}

/* All wait in collectives, and longer than they compute. */
int __wrap_group_barrier(struct group *group)
{
    clock_ns += WAIT_NS;
    return __real_group_barrier(group);
}

int __wrap_group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count)
{
    clock_ns += WAIT_NS;
    return __real_group_all_reduce(group, type, values, count);
}

static void compute(struct elastic_worker *w, uint64_t step)
{
    static float bucket[100];
    if (step == UINT64_MAX) {
        shoal_use_thread(w->shoal, false); /* the test's clock belongs to one thread */
        return;
    }
    clock_ns += step == 0 ? w->number * WAIT_NS : 0; /* what is done once says nothing of a step */
    clock_ns += (uint64_t)w->part * cost[w->number] * 3000000;
    (void)shoal_barrier(w->shoal);
    (void)shoal_all_reduce_begin(w->shoal, bucket, 100, SHOAL_F32);
    clock_ns += (uint64_t)w->part * cost[w->number] * 7000000;
    (void)shoal_all_reduce_wait(w->shoal);
}

static void set_costs(uint32_t a, uint32_t b, uint32_t c)
{
    const uint32_t costs[] = {a, b, c};
    memcpy(cost, costs, sizeof costs);
    for (uint32_t number = 3; number < FAKE_RANKS_MAX; number++) {
        cost[number] = c;
    }
}

/* Parts of a step that all of the three have applied; false if one of them has not. */
static bool parts_are(const struct elastic_run *run, uint64_t step, uint32_t a, uint32_t b, uint32_t c)
{
    const struct elastic_word *words = run->words;
    return words[0].parts[step] == a && words[1].parts[step] == b && words[2].parts[step] == c;
}

/* Three from the first step to the last, in one group. */
static void train(struct elastic_run *run, const struct elastic_plan *plan)
{
    elastic_begin(run, plan, 3);
    elastic_fork(run, 0, 3);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(run, number);
        assert_int_equal(run->words[number].broken, 0);
    }
}

static void test_parts_follow_speeds_in_the_steps_that_are_agreed_on(void **state)
{
    (void)state;
    static const uint32_t hosts[] = {1, 0, 2};
    set_costs(1, 2, 4);
    for (size_t h = 0; h < 3; h++) {
        const struct elastic_plan plan = {.steps = STEPS, .values = VALUES, .balances = ALL, .hosts = hosts[h], .at_step = compute};
        struct elastic_run run;
        train(&run, &plan);
        for (uint64_t step = 1; step <= BALANCE_FIRST; step++) {
            assert_true(parts_are(&run, step, 4, 4, 4));
        }
        for (uint64_t step = BALANCE_FIRST + 1; step <= STEPS; step++) {
            assert_true(parts_are(&run, step, 8, 3, 1));
        }
        elastic_end(&run);
    }
}

static void test_parts_are_equal_unless_all_are_told_otherwise(void **state)
{
    (void)state;
    static const uint32_t told[] = {0, ALL & ~2u};
    set_costs(1, 2, 4);
    for (size_t i = 0; i < 2; i++) {
        const struct elastic_plan plan = {.steps = STEPS, .values = VALUES, .balances = told[i], .hosts = 1, .at_step = compute};
        struct elastic_run run;
        train(&run, &plan);
        for (uint64_t step = 1; step <= STEPS; step++) {
            assert_true(parts_are(&run, step, 4, 4, 4));
        }
        elastic_end(&run);
    }
}

static void wait_for_flag(const struct elastic_word *word)
{
    while (atomic_load(&word->flag) == 0) {
        elastic_sleep_ms(1);
    }
}

/* Begins a group of `size`; its worker `watched` has applied 40 steps when this returns. */
static void train_40(struct elastic_run *run, const struct elastic_plan *plan, uint32_t size, uint32_t watched)
{
    elastic_begin(run, plan, size);
    elastic_fork(run, 0, size);
    elastic_wait(&run->words[watched].applied, 40);
}

/* The moment at which a worker is killed, or waits to be, is its own. */
static void compute_until_killed(struct elastic_worker *w, uint64_t step)
{
    compute(w, step);
    if (step == 40 && w->number == 0 && w->word->flag == 0) {
        atomic_store(&w->word->flag, 1);
        for (;;) {
            elastic_sleep_ms(1000);
        }
    }
}

static void test_who_goes_on_in_another_group_brings_its_speed(void **state)
{
    (void)state;
    const struct elastic_plan plan = {.steps = STEPS, .values = VALUES, .balances = ALL, .hosts = 1, .at_step = compute_until_killed};
    struct elastic_run run;
    set_costs(1, 2, 4);
    train_40(&run, &plan, 3, 1);
    wait_for_flag(&run.words[0]);
    elastic_signal(&run, 0, SIGKILL);
    elastic_assert_done(&run, 1);
    elastic_assert_done(&run, 2);
    assert_true(parts_are(&run, 40, 8, 3, 1));
    for (uint64_t step = 41; step <= STEPS; step++) { /* from the first one on: rank 0 is worker 1 now */
        assert_int_equal(run.words[1].parts[step], 8);
        assert_int_equal(run.words[2].parts[step], 4);
    }
    elastic_end(&run);
}

static void hold_at_40(struct elastic_worker *w, uint64_t step)
{
    compute(w, step);
    if (step == 40) {
        wait_for_flag(w->word);
    }
}

static void test_who_joins_counts_as_the_median_until_it_is_known(void **state)
{
    (void)state;
    const struct elastic_plan plan = {.steps = STEPS, .values = VALUES, .balances = ALL, .hosts = 1, .at_step = hold_at_40};
    struct elastic_run run;
    set_costs(1, 1, 5);
    train_40(&run, &plan, 2, 0);
    atomic_store(&run.words[2].flag, 1);
    elastic_fork(&run, 2, 3);
    elastic_wait_group_count(&run, 3); /* it waits to be let in */
    atomic_store(&run.words[0].flag, 1);
    atomic_store(&run.words[1].flag, 1);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
    }
    uint64_t joined = 1;
    while (joined <= STEPS && run.words[2].parts[joined] == 0) {
        joined++;
    }
    assert_true(joined < STEPS - 2 * BALANCE_EVERY);
    assert_true(parts_are(&run, joined, 4, 4, 4));
    assert_true(parts_are(&run, joined + BALANCE_FIRST, 5, 5, 2) || parts_are(&run, joined + BALANCE_FIRST, 6, 5, 1));
    for (uint64_t step = 1; step <= STEPS; step++) {
        uint32_t all = run.words[0].parts[step] + run.words[1].parts[step] + run.words[2].parts[step];
        assert_int_equal(all, ELASTIC_BATCH);
    }
    elastic_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_follow_speeds_in_the_steps_that_are_agreed_on),
        cmocka_unit_test(test_parts_are_equal_unless_all_are_told_otherwise),
        cmocka_unit_test(test_who_goes_on_in_another_group_brings_its_speed),
        cmocka_unit_test(test_who_joins_counts_as_the_median_until_it_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

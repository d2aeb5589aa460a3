/* Numbers that are not finite: every rank hears whose they were, in which collective of which step. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/err.h"
#include "tests/unit/elastic_fixture.h"
#include "train/plan/finite.h"

#define VALUES 5000

static float bad_value;    /* these are set before the workers are forked */
static uint32_t bad_ranks; /* bits */
static bool earlier_bucket;

static void bring_it(struct elastic_worker *w, uint64_t step)
{
    float bucket[3] = {1, 2, 3};
    if (step == UINT64_MAX) {
        return;
    }
    if (earlier_bucket) {
        (void)shoal_all_reduce_f32(w->shoal, bucket, 3);
    }
    if (step == 6 && (bad_ranks >> w->number & 1) != 0) {
        w->gradients[2000 + w->number] = bad_value;
    }
}

static void assert_all_say(uint32_t size, const char *sentence)
{
    struct elastic_plan plan = {.steps = 20, .values = VALUES, .checks_finite = true, .at_step = bring_it};
    for (plan.hosts = 0; plan.hosts < 3; plan.hosts++) {
        struct elastic_run run;
        elastic_begin(&run, &plan, size);
        elastic_fork(&run, 0, size);
        for (uint32_t number = 0; number < size; number++) {
            assert_string_equal(elastic_assert_failed(&run, number, ERR_NOT_FINITE), sentence);
            assert_int_equal(atomic_load(&run.words[number].applied), 6);
        }
        elastic_end(&run);
    }
}

static void test_every_rank_hears_whose_they_were(void **state)
{
    (void)state;
    bad_value = NAN;
    bad_ranks = 1u << 2;
    assert_all_say(3, "step 7, collective 1: rank 2 brought NaN as value 2002 of 5000");
    bad_ranks = 1u << 0;
    assert_all_say(1, "step 7, collective 1: rank 0 brought NaN as value 2000 of 5000");
    bad_value = -INFINITY;
    bad_ranks = 1u << 1;
    earlier_bucket = true;
    assert_all_say(2, "step 7, collective 2: rank 1 brought -infinity as value 2001 of 5000");
    bad_value = INFINITY;
    bad_ranks = 1u << 1 | 1u << 3;
    assert_all_say(4, "step 7, collective 2: rank 1 brought infinity as value 2001 of 5000 (and so did 1 other rank)");
    bad_ranks = 7u << 1;
    assert_all_say(5, "step 7, collective 2: rank 1 brought infinity as value 2001 of 5000 (and so did 2 other ranks)");
    earlier_bucket = false;
}

static void bring_large_ones(struct elastic_worker *w, uint64_t step)
{
    w->gradients[77] = step == 6 ? 3e38f : w->gradients[77];
}

static void test_a_sum_that_overflows_is_nobodys(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 20, .values = VALUES, .checks_finite = true, .at_step = bring_large_ones};
    struct elastic_run run;
    elastic_begin(&run, &plan, 2);
    elastic_fork(&run, 0, 2);
    for (uint32_t number = 0; number < 2; number++) {
        assert_string_equal(elastic_assert_failed(&run, number, ERR_NOT_FINITE),
                            "step 7, collective 1: the sum of value 77 of 5000 is not finite, though each of the 2 ranks brought a "
                            "finite one");
    }
    elastic_end(&run);
}

/* Programs with a loss scale expect infinities. Unless they ask for it nobody looks, and the sum is what it is. */
static void test_nobody_looks_unless_asked(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 20, .values = VALUES, .at_step = bring_it};
    struct elastic_run run;
    bad_value = INFINITY;
    bad_ranks = 1u << 1;
    elastic_begin(&run, &plan, 2);
    elastic_fork(&run, 0, 2);
    for (uint32_t number = 0; number < 2; number++) {
        elastic_wait(&run.words[number].applied, 20);
        assert_true(run.words[number].hashes[6] == elastic_expected(&plan, 6));
        assert_true(run.words[number].hashes[7] != elastic_expected(&plan, 7));
    }
    elastic_end(&run);
}

/* A step is left out by all ranks alike, and training goes on in the same group. */
static void leave_it_out(struct elastic_worker *w, uint64_t step)
{
    if (step == UINT64_MAX || step % 5 != 3) {
        return;
    }
    float *values = calloc(100, sizeof *values);
    if (values == NULL) {
        _exit(84);
    }
    values[50] = w->number == 1 ? NAN : 1;
    int error = shoal_all_reduce_f32(w->shoal, values, 100);
    atomic_fetch_add(&w->word->flag, error == ERR_NOT_FINITE);
    free(values);
}

static void test_the_group_stays_whole(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 20, .values = VALUES, .checks_finite = true, .at_step = leave_it_out};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
        assert_int_equal(atomic_load(&run.words[number].flag), 4);
        assert_int_equal(atomic_load(&run.words[number].broken), 0);
    }
    elastic_end(&run);
}

static void test_the_first_one_is_found_wherever_it_is(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    static float values[5000];
    for (size_t i = 0; i < 5000; i++) {
        values[i] = i % 3 == 0 ? 3.4e38f : i % 3 == 1 ? -1e-45f : 0;
    }
    assert_int_equal(finite_first_bad(ELEMENT_F32, values, 5000), 5000);
    assert_int_equal(finite_first_bad(ELEMENT_F32, values, 0), 0);
    for (size_t i = 0; i < 5000; i++) {
        float kept = values[i];
        values[i] = bad[i % 3];
        assert_int_equal(finite_first_bad(ELEMENT_F32, values, 5000), i);
        assert_int_equal(finite_first_bad(ELEMENT_F32, values, i), i); /* it does not look further */
        values[i] = kept;
    }
}

static void test_halves_and_bfloat16_are_looked_at_too(void **state)
{
    (void)state;
    static const struct {
        enum element_type type;
        uint16_t bits;
        const char *word;
    } cases[] = {{ELEMENT_F16, 0x7c00, "infinity"},  {ELEMENT_F16, 0xfc00, "-infinity"},  {ELEMENT_F16, 0x7e00, "NaN"},
                 {ELEMENT_F16, 0x7bff, NULL},        {ELEMENT_BF16, 0x7f80, "infinity"},  {ELEMENT_BF16, 0xff80, "-infinity"},
                 {ELEMENT_BF16, 0x7fc1, "NaN"},      {ELEMENT_BF16, 0x7f7f, NULL},        {ELEMENT_BF16, 0x7c00, NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint16_t values[1500] = {0};
        values[1200] = cases[i].bits;
        assert_int_equal(finite_first_bad(cases[i].type, values, 1500), cases[i].word != NULL ? 1200 : 1500);
        if (cases[i].word != NULL) {
            assert_string_equal(finite_word(cases[i].type, finite_bits(cases[i].type, values, 1200)), cases[i].word);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_rank_hears_whose_they_were),
        cmocka_unit_test(test_a_sum_that_overflows_is_nobodys),
        cmocka_unit_test(test_nobody_looks_unless_asked),
        cmocka_unit_test(test_the_group_stays_whole),
        cmocka_unit_test(test_the_first_one_is_found_wherever_it_is),
        cmocka_unit_test(test_halves_and_bfloat16_are_looked_at_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

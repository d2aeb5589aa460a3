/* Ranks that do not do the same: all of them end, with one sentence that names two ranks and what each of them did. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/unit/elastic_fixture.h"

#define ODD 1
#define VALUES 3000

static size_t odd_count; /* what the odd one reduces; set before the workers are forked */

static void reduce_another_count(struct elastic_worker *w, uint64_t step)
{
    w->count = w->number == ODD && step == 5 ? odd_count : w->count;
}

/* The same sentence, with these words in it. Which ranks it names depends on who had called already what broke the group: a slow
 * one may not have. */
static void assert_all_say(struct elastic_run *run, uint32_t size, const char *where, const char *one, const char *other)
{
    char first[SHOAL_ERROR_BYTES] = "";
    for (uint32_t number = 0; number < size; number++) {
        const char *sentence = elastic_assert_failed(run, number, ERR_MALFORMED);
        if (strstr(sentence, where) == NULL || strstr(sentence, one) == NULL || strstr(sentence, other) == NULL) {
            print_error("%s\n", sentence);
        }
        assert_non_null(strstr(sentence, where));
        assert_non_null(strstr(sentence, one));
        assert_non_null(strstr(sentence, other));
        if (number == 0) {
            (void)snprintf(first, sizeof first, "%s", sentence);
        }
        assert_string_equal(sentence, first);
    }
}

static void test_unequal_counts_are_an_error_on_every_rank_that_names_both(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 20, .values = VALUES, .at_step = reduce_another_count};
    static const size_t counts[] = {0, 1, VALUES - 1, VALUES + 1, 2 * VALUES};
    static const uint32_t sizes[] = {2, 3, 5, 8};
    for (size_t i = 0; i < 5 * 4; i++) {
        struct elastic_run run;
        char odd[64];
        odd_count = counts[i % 5];
        (void)snprintf(odd, sizeof odd, "all-reduce of %zu f32", odd_count);
        elastic_begin(&run, &plan, sizes[i / 5]);
        elastic_fork(&run, 0, sizes[i / 5]);
        assert_all_say(&run, sizes[i / 5], "in step 6, collective 1, rank ", "all-reduce of 3000 f32", odd);
        elastic_end(&run);
    }
}

static void call_one_more(struct elastic_worker *w, uint64_t step)
{
    if (w->number == ODD && step == 7) {
        (void)shoal_barrier(w->shoal);
    }
}

static void call_another(struct elastic_worker *w, uint64_t step)
{
    if (w->number == ODD && step == 7) {
        (void)shoal_broadcast(w->shoal, w->gradients, w->count * sizeof(float), 0);
    }
}

static void one_more_of_the_same(struct elastic_worker *w, uint64_t step)
{
    if (w->number == ODD && step == 7) {
        (void)shoal_all_reduce_f32(w->shoal, w->gradients, w->count);
    }
}

static void test_other_collectives_are_an_error_on_every_rank(void **state)
{
    (void)state;
    static const struct {
        struct elastic_plan plan;
        const char *where, *one, *other;
    } cases[] = {
        {{.steps = 20, .values = VALUES, .at_step = call_one_more}, "in step 8, collective 1, ", "all-reduce of 3000 f32", "barrier"},
        {{.steps = 20, .values = VALUES, .at_step = call_another}, "in step 8, collective 1, ", "all-reduce of 3000 f32",
         "broadcast of 12000 bytes"},
        {{.steps = 20, .values = VALUES, .at_step = one_more_of_the_same}, "in step 8, collective 2, ", "shoal_step_commit",
         "all-reduce of 3000 f32"},
    };
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t size = 2; size <= 4; size++) {
            struct elastic_run run;
            elastic_begin(&run, &cases[i].plan, size);
            elastic_fork(&run, 0, size);
            assert_all_say(&run, size, cases[i].where, cases[i].one, cases[i].other);
            elastic_end(&run);
        }
    }
}

/* ---- registered state ---- */

static void register_another_size(struct elastic_worker *w, uint64_t step)
{
    w->registered -= step == UINT64_MAX && w->number == ODD ? 8 : 0;
}

static void register_one_more(struct elastic_worker *w, uint64_t step)
{
    if (step == UINT64_MAX && w->number == ODD) {
        (void)shoal_register(w->shoal, w->gradients, 4);
        w->registered--; /* as many bytes in all */
    }
}

static void test_unequal_state_is_an_error_on_every_rank_that_names_both(void **state)
{
    (void)state;
    static const struct elastic_plan size_plan = {.steps = 20, .values = VALUES, .at_step = register_another_size};
    static const struct elastic_plan parts_plan = {.steps = 20, .values = VALUES, .at_step = register_one_more};
    for (uint32_t size = 2; size <= 4; size++) {
        struct elastic_run run;
        elastic_begin(&run, &size_plan, size);
        elastic_fork(&run, 0, size);
        assert_all_say(&run, size, "rank 0 has registered 12000 bytes of state in 1 parts, ", "rank 1 ", "11968 bytes in 1: all ranks");
        elastic_end(&run);
        elastic_begin(&run, &parts_plan, size);
        elastic_fork(&run, 0, size);
        assert_all_say(&run, size, "rank 0 has registered 12000 bytes of state in 1 parts, ", "rank 1 ", "12000 bytes in 2: all ranks");
        elastic_end(&run);
    }
}

static void join_with_another_size(struct elastic_worker *w, uint64_t step)
{
    w->registered -= step == UINT64_MAX && w->number == 2 ? 8 : 0;
    elastic_sleep_ms(1);
}

/* One that comes with another state is wrong; those who train are not. */
static void test_who_joins_with_unequal_state_ends_alone(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 400, .values = VALUES, .at_step = join_with_another_size};
    struct elastic_run run;
    elastic_begin(&run, &plan, 2);
    elastic_fork(&run, 0, 2);
    elastic_wait(&run.words[0].applied, 10);
    elastic_fork(&run, 2, 3);
    const char *sentence = elastic_assert_failed(&run, 2, ERR_MALFORMED);
    assert_non_null(strstr(sentence, "rank 0 has registered 12000 bytes of state in 1 parts, rank 2 11968 bytes in 1"));
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 1);
    elastic_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unequal_counts_are_an_error_on_every_rank_that_names_both),
        cmocka_unit_test(test_other_collectives_are_an_error_on_every_rank),
        cmocka_unit_test(test_unequal_state_is_an_error_on_every_rank_that_names_both),
        cmocka_unit_test(test_who_joins_with_unequal_state_ends_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

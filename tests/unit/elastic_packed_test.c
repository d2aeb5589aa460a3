/* A state that the program packs itself (shoal_on_state): packed by one worker, only when another needs it; a step that was
 * broken after a part of it had been applied; and one that a worker cannot finish. */
#include "tests/unit/elastic_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>

#include "base/err.h"

#define SPOIL_STEP 7

static void pace(struct elastic_worker *w, uint64_t step)
{
    (void)w;
    if (step != UINT64_MAX) {
        elastic_sleep_ms(1);
    }
}

static const struct elastic_plan paced = {.steps = 200, .values = 500, .is_packed = true, .at_step = pace};

static void test_one_worker_packs_and_only_for_one_that_needs_it(void **state)
{
    (void)state;
    struct elastic_run run;
    elastic_begin(&run, &paced, 3);
    elastic_fork(&run, 0, 3);
    elastic_wait(&run.words[0].applied, 5);
    assert_int_equal(run.words[0].packs, 1);
    assert_int_equal(run.words[1].unpacks, 1);
    elastic_signal(&run, 2, SIGKILL);
    elastic_wait(&run.words[0].generation, 2);
    elastic_wait(&run.words[0].applied, run.words[0].applied + 5);
    assert_int_equal(run.words[0].packs, 1);
    elastic_fork(&run, 3, 4);
    for (uint32_t number = 0; number < 4; number++) {
        if (number != 2) {
            elastic_assert_done(&run, number);
        }
    }
    assert_int_equal(run.words[0].packs, 2);
    assert_int_equal(run.words[1].packs, 0);
    assert_int_equal(run.words[1].unpacks, 1);
    assert_int_equal(run.words[3].unpacks, 1);
    elastic_end(&run);
}

static uint32_t spoilers; /* bit per worker */

static void spoil(struct elastic_worker *w, uint64_t step)
{
    if (step == SPOIL_STEP && (spoilers >> w->number & 1) != 0 && atomic_exchange(&w->word->flag, 1) == 0) {
        w->state[0] += 1000.0f;
        shoal_forget_state(w->shoal);
    }
}

static const struct elastic_plan spoiled = {.steps = 20, .values = 500, .is_packed = true, .at_step = spoil};

static void test_a_forgotten_state_comes_from_another_worker(void **state)
{
    (void)state;
    struct elastic_run run;
    spoilers = 1; /* rank 0, from which the state came in the beginning */
    elastic_begin(&run, &spoiled, 3);
    elastic_fork(&run, 0, 3);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
    }
    assert_int_equal(run.words[0].unpacks, 1);
    elastic_end(&run);
}

static void test_a_state_that_all_have_forgotten_is_no_beginning(void **state)
{
    (void)state;
    struct elastic_run run;
    spoilers = 3;
    elastic_begin(&run, &spoiled, 2);
    elastic_fork(&run, 0, 2);
    const char *why = elastic_assert_failed(&run, 0, ERR_CORRUPT);
    assert_non_null(strstr(why, "no worker has a whole state"));
    (void)elastic_wait_end(&run, 1);
    elastic_end(&run);
}

/* Worker `number` refuses in the beginning: it ends with `error`, and the others go on without it. */
static void refuse(uint32_t number, int error, const char *sentence)
{
    struct elastic_run run;
    elastic_begin(&run, &paced, 3);
    run.words[number].refuses = error;
    elastic_fork(&run, 0, 3);
    assert_non_null(strstr(elastic_assert_failed(&run, number, error), sentence));
    for (uint32_t other = 0; other < 3; other++) {
        if (other != number) {
            elastic_assert_done(&run, other);
        }
    }
    elastic_end(&run);
}

static void test_a_worker_that_cannot_pack_or_take_the_state_ends_alone(void **state)
{
    (void)state;
    refuse(0, ERR_FULL, "did not pack its state");
    refuse(1, ERR_VERSION, "did not take the state of step 0");
}

static void register_too(struct elastic_worker *w, uint64_t step)
{
    static int8_t byte;
    if (step == UINT64_MAX && w->number == 0) {
        assert_int_equal(shoal_on_state(w->shoal, NULL, NULL, w), 0);
    } else if (step == 0) {
        assert_int_equal(shoal_register(w->shoal, &byte, 1), ERR_USAGE);
        assert_int_equal(shoal_on_state(w->shoal, NULL, NULL, w), ERR_USAGE);
    }
}

static const struct elastic_plan both = {.steps = 3, .values = 5, .is_packed = true, .at_step = register_too};

static void test_a_state_is_packed_or_registered(void **state)
{
    (void)state;
    struct elastic_run run;
    elastic_begin(&run, &both, 2);
    elastic_fork(&run, 0, 2);
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 1);
    elastic_end(&run);
}

static float beside[500]; /* of a worker that sums beside its computation */
static bool forgets;

/* Worker 1 begins a sum, in which its thread waits for the others, and cannot finish the step. */
static void give_up(struct elastic_worker *w, uint64_t step)
{
    struct elastic_word *first = w->word - w->number;
    if (step == UINT64_MAX) {
        shoal_use_thread(w->shoal, true);
    } else if (step == SPOIL_STEP && w->number == 1 && atomic_load(&w->word->flag) == 0) {
        assert_int_equal(shoal_all_reduce_begin(w->shoal, beside, 500, SHOAL_F32), 0);
        elastic_sleep_ms(20); /* so that the thread is in the sum */
        (forgets ? shoal_forget_state : shoal_leave)(w->shoal);
        atomic_store(&w->word->flag, 1);
    }
    while (step == SPOIL_STEP && atomic_load(&first[1].flag) == 0) {
        elastic_sleep_ms(1);
    }
}

static const struct elastic_plan gives_up = {.steps = 20, .values = 500, .is_packed = true, .at_step = give_up};

static void test_a_worker_that_cannot_finish_a_step_costs_its_group_the_step(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct elastic_run run;
        forgets = i == 1;
        elastic_begin(&run, &gives_up, 3);
        elastic_fork(&run, 0, 3);
        for (uint32_t number = 0; number < 3; number++) {
            elastic_assert_done(&run, number);
            assert_int_equal(run.words[number].broken, 1);
        }
        assert_int_equal(run.words[1].unpacks, forgets ? 2 : 1);
        elastic_end(&run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_worker_packs_and_only_for_one_that_needs_it),
        cmocka_unit_test(test_a_forgotten_state_comes_from_another_worker),
        cmocka_unit_test(test_a_state_that_all_have_forgotten_is_no_beginning),
        cmocka_unit_test(test_a_worker_that_cannot_finish_a_step_costs_its_group_the_step),
        cmocka_unit_test(test_a_worker_that_cannot_pack_or_take_the_state_ends_alone),
        cmocka_unit_test(test_a_state_is_packed_or_registered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

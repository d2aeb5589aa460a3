/* The same bits on all ranks after every step that counts, through all changes of a group, also where sums are rounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/elastic_fixture.h"

#define VALUES 4000

static void pace(struct elastic_worker *w, uint64_t step)
{
    (void)w;
    (void)step;
    elastic_sleep_ms(1);
}

/* Of those who live to the end; who was not there in a step, or has got the state after it from another, has no hash of it.
 * Returns how many steps more than one of them has a hash of. */
static uint64_t assert_equal_bits(const struct elastic_run *run, const bool *ended)
{
    uint64_t compared = 0;
    for (uint64_t step = 1; step <= run->plan->steps; step++) {
        uint64_t hash = 0, known = 0;
        for (uint32_t number = 0; number < FAKE_RANKS_MAX; number++) {
            uint64_t own = ended[number] ? run->words[number].hashes[step] : 0;
            assert_true(own == 0 || hash == 0 || own == hash);
            hash = own != 0 ? own : hash;
            known += own != 0;
        }
        compared += known > 1;
    }
    return compared;
}

/* All who live made all steps and have the same bits. Nothing is saved here: false if whoever had the state was killed while the
 * others were getting it, so that nobody has it whole, and all who are left say so. */
static bool assert_ended(struct elastic_run *run, bool *ended)
{
    static const char lost[] = "there is no checkpoint, and the worker handing the state over was lost on the way";
    uint64_t hash = 0;
    uint32_t left = 0;
    for (uint32_t number = 0; number < FAKE_RANKS_MAX; number++) {
        if (run->pids[number] == 0) {
            continue;
        }
        elastic_wait_end(run, number);
        if (strcmp(run->words[number].error, lost) == 0) {
            left++;
            continue;
        }
        assert_string_equal(run->words[number].error, "");
        assert_true(hash == 0 || run->words[number].hash == hash);
        hash = run->words[number].hash;
        ended[number] = true;
    }
    assert_true(hash != 0 || left > 0); /* a worker that has nothing yet may begin anew when they are gone */
    return left == 0;
}

static void test_after_one_of_three_is_lost_and_one_joins_all_have_the_same_bits(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 400, .values = VALUES, .is_rough = true, .at_step = pace};
    for (uint32_t lost = 0; lost < 3; lost++) {
        struct elastic_run run;
        bool ended[FAKE_RANKS_MAX] = {false};
        elastic_begin(&run, &plan, 3);
        elastic_fork(&run, 0, 3);
        elastic_wait(&run.words[1].applied, 20);
        elastic_signal(&run, lost, SIGKILL);
        uint32_t other = lost == 0 ? 1 : 0;
        elastic_wait(&run.words[other].generation, 2);
        elastic_wait(&run.words[other].applied, 60);
        elastic_fork(&run, 3, 4);
        elastic_wait(&run.words[3].applied, 100);
        assert_true(assert_ended(&run, ended));
        assert_true(assert_equal_bits(&run, ended) > 300);
        assert_int_equal(run.words[3].size, 3);
        elastic_end(&run);
    }
}

/* In any order, at any time, also several at once and before the last change is through. */
static void test_through_many_changes_all_have_the_same_bits(void **state)
{
    (void)state;
    static const struct elastic_plan exact = {.steps = 600, .values = VALUES, .at_step = pace};
    static const struct elastic_plan rough = {.steps = 600, .values = VALUES, .is_rough = true, .at_step = pace};
    uint32_t whole = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct elastic_run run;
        struct random random;
        bool ended[FAKE_RANKS_MAX] = {false};
        uint32_t alive = 3;
        random_init(&random, seed);
        struct elastic_plan plan = seed % 2 == 0 ? exact : rough;
        plan.hosts = (uint32_t)seed % 3;
        elastic_begin(&run, &plan, 3);
        elastic_fork(&run, 0, 3);
        elastic_wait(&run.words[0].applied, 5);
        for (uint32_t event = 0; event < 20; event++) {
            uint32_t number = (uint32_t)random_below(&random, FAKE_RANKS_MAX);
            if (run.pids[number] == 0) {
                memset(&run.words[number], 0, sizeof run.words[number]);
                elastic_fork(&run, number, number + 1);
                alive++;
            } else if (alive > 1) {
                elastic_signal(&run, number, SIGKILL);
                alive--;
            }
            elastic_sleep_ms((int)random_below(&random, 12));
        }
        whole += assert_ended(&run, ended);
        (void)assert_equal_bits(&run, ended);
        for (uint32_t number = 0; number < FAKE_RANKS_MAX && seed % 2 == 0; number++) {
            assert_true(!ended[number] || run.words[number].hash == elastic_expected(&exact, exact.steps));
        }
        elastic_end(&run);
    }
    assert_true(whole >= 3); /* it is rare that the last one is killed just then */
}

/* ---- bits that differ ---- */

static void flip_a_bit(struct elastic_worker *w, uint64_t step)
{
    if (step == 100 && w->number == 1) {
        uint8_t *bytes = (uint8_t *)w->state;
        bytes[4 * 1234 + 2] ^= 1; /* not the last one, which the next sums may round away */
    }
}

static void test_a_rank_whose_bits_differ_is_named_and_the_others_go_on(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 300, .values = VALUES, .at_step = flip_a_bit};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    assert_string_equal(elastic_assert_failed(&run, 1, ERR_CORRUPT),
                        "after step 256 the state of rank 1 is not that of the other ranks");
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 2);
    elastic_end(&run);
    elastic_begin(&run, &plan, 2); /* of two nobody knows which */
    elastic_fork(&run, 0, 2);
    assert_string_equal(elastic_assert_failed(&run, 0, ERR_CORRUPT), "after step 256 the state of rank 0 is not that of any other rank");
    assert_string_equal(elastic_assert_failed(&run, 1, ERR_CORRUPT), "after step 256 the state of rank 1 is not that of any other rank");
    elastic_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_after_one_of_three_is_lost_and_one_joins_all_have_the_same_bits),
        cmocka_unit_test(test_through_many_changes_all_have_the_same_bits),
        cmocka_unit_test(test_a_rank_whose_bits_differ_is_named_and_the_others_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

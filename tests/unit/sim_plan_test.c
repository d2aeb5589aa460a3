/* What the simulator's seeds hold: how often each class of faults is in, how many strikes a storm has, and what a class
 * that is left out changes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/world.h"

#define SEEDS 4000
#define MINUTES 10
#define NEWEST PLAN_VERSION
#define FEW 10 /* classes: of as many, or fewer, no seed is that mixes them all, but for one in hundreds */

static void draw(struct plan *plan, uint64_t seed, uint32_t version, uint64_t without)
{
    struct random streams[STREAM_COUNT];
    for (uint64_t i = 0; i < STREAM_COUNT; i++) {
        random_init_stream(&streams[i], seed, i);
    }
    struct sim_run run = {.seed = seed, .minutes = MINUTES, .plan_version = version, .without = without};
    plan_draw(plan, streams, &run);
}

static void a_class_is_in_half_of_the_seeds_that_mix_them(void **state)
{
    (void)state;
    static struct plan plan;
    uint32_t without = 0, alone[FAULT_COUNT] = {0}, mixed[FAULT_COUNT] = {0}, of_one = 0, of_few = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(&plan, seed, NEWEST, 0);
        without += plan.fault_count == 0;
        of_one += plan.fault_count == 1;
        of_few += plan.fault_count > 1 && plan.fault_count <= FEW;
        for (int fault = 0; fault < FAULT_COUNT; fault++) {
            alone[fault] += plan.has[fault] && plan.fault_count == 1;
            mixed[fault] += plan.has[fault] && plan.fault_count > FEW;
        }
    }
    uint32_t mixing = SEEDS - without - of_one - of_few;
    assert_in_range(without, SEEDS * 4 / 100, SEEDS * 6 / 100);
    assert_in_range(of_one, SEEDS * 17 / 100, SEEDS * 22 / 100);
    assert_in_range(of_few, SEEDS * 7 / 100, SEEDS * 11 / 100);
    for (int fault = 0; fault < FAULT_COUNT; fault++) {
        assert_in_range(mixed[fault], mixing * 46 / 100, mixing * 54 / 100);
        assert_in_range(alone[fault], of_one / FAULT_COUNT / 3, of_one / FAULT_COUNT * 3);
    }
}

/* Of half of the seeds that have any at all, between these two; and never so many that nothing can ever run. */
static void the_strikes_of_a_storm_stay_within_bounds(void **state)
{
    (void)state;
    static struct plan plan;
    uint64_t sum = 0, usual = 0, counted = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(&plan, seed, NEWEST, 0);
        uint64_t strikes = 0;
        for (int fault = 0; fault < FAULT_COUNT; fault++) {
            bool strikes_at_moments = plan.has[fault] && plan_fault_is_timed((enum plan_fault)fault);
            strikes += strikes_at_moments ? plan.heal_ms / plan.mean_ms[fault] : 0;
        }
        assert_true(strikes < 500);
        sum += strikes;
        usual += strikes >= 15 && strikes <= 120;
        counted += strikes > 0;
    }
    assert_in_range(sum / SEEDS, 40, 90);
    assert_true(usual > counted / 2);
}

static void owners_are_a_class_from_version_7_on(void **state)
{
    (void)state;
    static struct plan plan;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        for (uint32_t version = 1; version < 7; version++) {
            draw(&plan, seed, version, 0);
            for (int fault = FAULT_VERSION_7; fault < FAULT_COUNT; fault++) {
                assert_false(plan.has[fault]);
            }
        }
        draw(&plan, seed, NEWEST, ~(UINT64_C(1) << FAULT_OWNERS));
        assert_int_equal(plan.fault_count, plan.has[FAULT_OWNERS]);
    }
}

static void a_machine_is_bad_from_version_8_on(void **state)
{
    (void)state;
    static struct plan plan;
    uint32_t newest = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        for (uint32_t version = 1; version < 8; version++) {
            draw(&plan, seed, version, 0);
            assert_false(plan.has[FAULT_BAD_MACHINE]);
        }
        draw(&plan, seed, NEWEST, 0);
        newest += plan.has[FAULT_BAD_MACHINE];
    }
    assert_true(newest > 0);
}

static void a_class_that_is_left_out_leaves_the_others_as_they_are(void **state)
{
    (void)state;
    static struct plan whole, less;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        int fault = (int)(seed % FAULT_COUNT);
        draw(&whole, seed, NEWEST, 0);
        draw(&less, seed, NEWEST, UINT64_C(1) << fault);
        assert_false(less.has[fault]);
        assert_int_equal(less.fault_count + whole.has[fault], whole.fault_count);
        assert_int_equal(less.node_count, whole.node_count);
        assert_int_equal(less.core, whole.core);
        assert_memory_equal(less.mean_ms, whole.mean_ms, sizeof less.mean_ms);
        for (uint32_t i = 0; i < whole.experiment_count; i++) {
            bool fails = whole.experiments[i].fails_at_once && fault != FAULT_ENTRYPOINT;
            assert_int_equal(less.experiments[i].fails_at_once, fails);
            assert_int_equal(less.experiments[i].submit_ms, whole.experiments[i].submit_ms);
        }
    }
}

static void a_slow_disk_that_is_left_out_is_not_slow(void **state)
{
    (void)state;
    static struct plan plan;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        draw(&plan, seed, NEWEST, UINT64_C(1) << FAULT_DISK_SLOW);
        assert_in_range(plan.disk_ms, 1, 20);
    }
}

/* A program that fails at once is never the only one, or nothing would run in that seed. */
static void a_program_that_fails_at_once_has_others_beside_it(void **state)
{
    (void)state;
    static struct plan plan;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        draw(&plan, seed, NEWEST, 0);
        uint32_t failing = 0;
        for (uint32_t i = 0; i < plan.experiment_count; i++) {
            failing += plan.experiments[i].fails_at_once;
        }
        assert_int_equal(failing, plan.has[FAULT_ENTRYPOINT]);
        assert_true(failing < plan.experiment_count);
    }
}

static void a_copied_disk_has_a_machine_to_run_on(void **state)
{
    (void)state;
    static struct plan plan;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        draw(&plan, seed, NEWEST, 0);
        assert_true(!plan.has[FAULT_CLONE] || plan.slots[plan.node_count] > 0);
        assert_true(!plan.has[FAULT_CLONE] || plan.node_count < PLAN_NODES_MAX);
    }
}

static void searches_have_several_brackets_from_version_16_on(void **state)
{
    (void)state;
    static struct plan plan;
    uint32_t several = 0, of_one_place = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        for (uint32_t version = 14; version <= NEWEST; version++) {
            draw(&plan, seed, version, 0);
            for (uint32_t i = 0; i < plan.experiment_count; i++) {
                const struct plan_experiment *experiment = &plan.experiments[i];
                const struct brackets *brackets = &experiment->brackets;
                uint32_t trials = 0;
                for (uint32_t b = 0; b < brackets->count; b++) {
                    assert_in_range(brackets->rungs[b], 1, b > 0 ? brackets->rungs[b - 1] : PLAN_RUNGS_MAX);
                    assert_in_range(brackets->places[b], 1, brackets->trials[b]);
                    trials += brackets->trials[b];
                    of_one_place += brackets->places[b] == 1;
                }
                assert_int_equal(trials, experiment->rungs > 0 ? experiment->trials : 0);
                assert_true(brackets->count <= 1 || version > 15);
                several += brackets->count > 1;
            }
        }
    }
    assert_true(several > SEEDS / 100 && of_one_place > SEEDS / 40);
}

/* After the heal there is time for all trials one after the other, where fewer may train than there are slots. */
static void few_trials_at_a_time_have_their_time(void **state)
{
    (void)state;
    static struct plan plan;
    uint32_t seen = 0;
    for (uint64_t seed = 1; seed <= SEEDS / 10; seed++) {
        draw(&plan, seed, NEWEST, 0);
        for (uint32_t i = 0; i < plan.experiment_count; i++) {
            const struct plan_experiment *experiment = &plan.experiments[i];
            if (experiment->is_crowded && plan_fits(&plan, experiment)) {
                assert_true(plan.end_ms - plan.heal_ms >= (uint64_t)experiment->trials * experiment->steps * experiment->step_ms);
                seen++;
            }
        }
    }
    assert_true(seen > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_class_is_in_half_of_the_seeds_that_mix_them),
        cmocka_unit_test(the_strikes_of_a_storm_stay_within_bounds),
        cmocka_unit_test(owners_are_a_class_from_version_7_on),
        cmocka_unit_test(a_machine_is_bad_from_version_8_on),
        cmocka_unit_test(a_class_that_is_left_out_leaves_the_others_as_they_are),
        cmocka_unit_test(a_slow_disk_that_is_left_out_is_not_slow),
        cmocka_unit_test(a_program_that_fails_at_once_has_others_beside_it),
        cmocka_unit_test(a_copied_disk_has_a_machine_to_run_on),
        cmocka_unit_test(searches_have_several_brackets_from_version_16_on),
        cmocka_unit_test(few_trials_at_a_time_have_their_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

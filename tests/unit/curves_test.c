/* The few points of a trial's metric that a daemon keeps, and the speed that it has seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/daemon/render/curves.h"

static bool is_near(double value, double wanted)
{
    return fabs(value - wanted) < 1e-9;
}

static void many_values_leave_few_points_and_the_newest(void **state)
{
    (void)state;
    struct curve curve = {.count = 0};
    for (uint64_t step = 1; step <= 10000; step++) {
        curve_add(&curve, step, step == 4321 ? -1.0 : (double)step, true);
    }
    assert_true(curve.count > CURVE_POINTS_MAX / 2 && curve.count <= CURVE_POINTS_MAX);
    assert_int_equal(curve.points[curve.count - 1].step, 10000);
    for (uint32_t i = 1; i < curve.count; i++) {
        assert_true(curve.points[i].step > curve.points[i - 1].step);
        assert_true(curve.points[i].step - curve.points[i - 1].step <= 1024);
    }
    assert_true(curve.has_best && is_near(curve.best.value, -1) && curve.best.step == 4321); /* whatever points are left */
}

static void values_that_are_no_numbers_leave_no_points(void **state)
{
    (void)state;
    struct curve curve = {.count = 0};
    curve_add(&curve, 1, (double)NAN, true);
    curve_add(&curve, 2, (double)INFINITY, false);
    assert_false(curve.has_best);
    assert_int_equal(curve.count, 0);
}

static void a_later_attempt_takes_back_what_it_makes_anew(void **state)
{
    (void)state;
    struct curve curve = {.count = 0};
    for (uint64_t step = 1; step <= 10; step++) {
        curve_add(&curve, step, step == 9 ? 100.0 : (double)step, false);
    }
    assert_true(is_near(curve.best.value, 100));
    curve_take_back(&curve, 6, false);
    assert_int_equal(curve.count, 6);
    assert_true(is_near(curve.best.value, 6) && curve.best.step == 6);
    curve_take_back(&curve, 0, false);
    assert_false(curve.has_best);
    curve_add(&curve, 3, 2.5, false);
    assert_true(curve.count == 1 && curve.has_best);
}

static void the_rate_is_of_the_last_steps(void **state)
{
    (void)state;
    struct curve curve = {.runs = true};
    assert_true(is_near(curve_rate(&curve), 0));
    curve_note_step(&curve, 1000, 0); /* reads its data until 30,000 */
    curve_note_step(&curve, 30000, 0);
    curve_note_step(&curve, 31000, 10);
    assert_true(is_near(curve_rate(&curve), 0));
    curve_note_step(&curve, 33000, 30);
    assert_true(is_near(curve_rate(&curve), 10));
    for (uint64_t i = 1; i <= 20; i++) {
        curve_note_step(&curve, 33000 + 2000 * i, 30 + 100 * i);
    }
    assert_true(is_near(curve_rate(&curve), 50));
    curve_note_step(&curve, 33000 + 40000 + 10000, 2030); /* a slow step */
    assert_true(is_near(curve_rate(&curve), 50));
    curve_note_step(&curve, 33000 + 40000 + 86000, 2030); /* stands still */
    assert_true(is_near(curve_rate(&curve), 7));
    curve.runs = false;
    assert_true(is_near(curve_rate(&curve), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_values_leave_few_points_and_the_newest),
        cmocka_unit_test(values_that_are_no_numbers_leave_no_points),
        cmocka_unit_test(a_later_attempt_takes_back_what_it_makes_anew),
        cmocka_unit_test(the_rate_is_of_the_last_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Sobol sequences: the published points, and the balance that makes them worth having. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/search/sobol.h"

static void the_first_points_are_those_of_joe_and_kuo(void **state)
{
    (void)state;
    static const double points[][5] = {
        {0, 0, 0, 0, 0},
        {.5, .5, .5, .5, .5},
        {.75, .25, .25, .25, .75},
        {.25, .75, .75, .75, .25},
        {.375, .375, .625, .875, .375},
        {.875, .875, .125, .375, .875},
        {.625, .125, .875, .625, .625},
        {.125, .625, .375, .125, .125},
        {.1875, .3125, .9375, .4375, .5625},
    };
    for (uint32_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        for (uint32_t d = 0; d < 5; d++) {
            assert_true(sobol_point(d, i) * 0x1p-32 == points[i][d]);
        }
    }
}

/* The numbers come from scipy.stats.qmc.Sobol(64, scramble=False, bits=32) of SciPy 1.17.1: the 65,536 coordinates, point by point,
 * folded by random_mix, and the last four of point 1023. */
static void the_points_of_64_dimensions_are_scipys(void **state)
{
    (void)state;
    static const uint32_t last[] = {440401920, 843055104, 3393191936, 171966464};
    uint64_t fold = 0;
    for (uint32_t i = 0; i < 1024; i++) {
        for (uint32_t d = 0; d < SOBOL_DIMENSIONS_MAX; d++) {
            fold = random_mix(fold ^ sobol_point(d, i));
        }
    }
    for (uint32_t d = 0; d < 4; d++) {
        assert_int_equal(sobol_point(60 + d, 1023), last[d]);
    }
    assert_true(fold == UINT64_C(0xae1a06c55965ebef));
}

/* In each dimension every 2^k points in a row, from a multiple of 2^k on, have one point in each of 2^k equal parts. */
static void each_dimension_is_balanced_at_powers_of_two(void **state)
{
    (void)state;
    for (uint32_t d = 0; d < SOBOL_DIMENSIONS_MAX; d++) {
        for (uint32_t k = 1; k <= 9; k++) {
            for (uint32_t from = 0; from < 1024; from += 1u << k) {
                uint8_t seen[512] = {0};
                for (uint32_t i = 0; i < 1u << k; i++) {
                    assert_int_equal(seen[sobol_shifted_point(7, d, from + i) >> (32 - k)]++, 0);
                }
            }
        }
    }
}

static void the_shift_is_one_for_a_dimension_and_a_seed(void **state)
{
    (void)state;
    uint32_t shift = sobol_shifted_point(3, 5, 0);
    for (uint32_t i = 0; i < 100; i++) {
        assert_int_equal(sobol_shifted_point(3, 5, i) ^ sobol_point(5, i), shift);
    }
    assert_int_not_equal(sobol_shifted_point(3, 6, 0), shift);
    assert_int_not_equal(sobol_shifted_point(4, 5, 0), shift);
    /* Recorded: another machine, compiler or version must give this very number. */
    assert_int_equal(shift, 487414513u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_points_are_those_of_joe_and_kuo),
        cmocka_unit_test(the_points_of_64_dimensions_are_scipys),
        cmocka_unit_test(each_dimension_is_balanced_at_powers_of_two),
        cmocka_unit_test(the_shift_is_one_for_a_dimension_and_a_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

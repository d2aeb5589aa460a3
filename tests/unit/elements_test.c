/* Sums of arrays, element by element. */
#include "train/elements.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"

static void test_floats_are_added(void **state)
{
    (void)state;
    float to[37], from[37];
    for (int i = 0; i < 37; i++) {
        to[i] = (float)i * 0.1f;
        from[i] = 1.0f / (float)(i + 1);
    }
    elements_add(PLAN_F32, to, from, 37);
    for (int i = 0; i < 37; i++) {
        assert_true(to[i] == (float)i * 0.1f + 1.0f / (float)(i + 1));
    }
}

/* Every half-precision number that is no NaN survives the addition of nothing; NaNs stay NaNs. */
static void test_every_half_is_read_and_written_as_it_is(void **state)
{
    (void)state;
    for (enum plan_type type = PLAN_F16; type <= PLAN_BF16; type++) {
        uint16_t infinity = type == PLAN_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
            uint16_t to = (uint16_t)bits, nothing = 0x8000; /* -0, which changes not even +0 */
            elements_add(type, &to, &nothing, 1);
            if ((bits & 0x7fff) > infinity) {
                assert_true((to & 0x7fff) > infinity);
            } else {
                assert_int_equal(to, bits);
            }
        }
    }
}

/* The sum of two is the half next to the exact sum, the even one of two. Halves in order of value: the exact sum lies
 * between the middles to the neighbours. */
static double value_of(enum plan_type type, int bits)
{
    int mantissa_bits = type == PLAN_F16 ? 10 : 7, bias = type == PLAN_F16 ? 15 : 127;
    int exponent = bits >> mantissa_bits, mantissa = bits & ((1 << mantissa_bits) - 1);
    double value = exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
    for (; scale > 0; scale--) {
        value *= 2;
    }
    for (; scale < 0; scale++) {
        value /= 2;
    }
    return value;
}

static void test_sums_of_halves_are_rounded_to_the_nearest_even(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 1);
    for (enum plan_type type = PLAN_F16; type <= PLAN_BF16; type++) {
        int infinity = type == PLAN_F16 ? 0x7c00 : 0x7f80;
        for (int i = 0; i < 200000; i++) {
            /* Of the same size, more or less: the sums of bf16 far apart are not exact as floats. */
            int a = (int)random_below(&random, (uint64_t)infinity);
            int span = 0x1000, low = a > span ? a - span : 0, high = a + span < infinity ? a + span : infinity;
            int b = type == PLAN_F16 ? (int)random_below(&random, (uint64_t)infinity)
                                     : low + (int)random_below(&random, (uint64_t)(high - low));
            b = type == PLAN_BF16 && (b >> 7) + 8 < (a >> 7) ? a : type == PLAN_BF16 && (a >> 7) + 8 < (b >> 7) ? a : b;
            uint16_t to = (uint16_t)a, from = (uint16_t)b;
            elements_add(type, &to, &from, 1);
            double exact = value_of(type, a) + value_of(type, b);
            assert_true(to <= infinity);
            double above = (value_of(type, to) + value_of(type, to + 1)) / 2;
            double below = to == 0 ? -1 : (value_of(type, to - 1) + value_of(type, to)) / 2;
            bool even = (to & 1) == 0;
            assert_true(to == infinity || exact < above || (even && exact == above));
            assert_true(exact > below || (even && exact == below));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_are_added),
        cmocka_unit_test(test_every_half_is_read_and_written_as_it_is),
        cmocka_unit_test(test_sums_of_halves_are_rounded_to_the_nearest_even),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

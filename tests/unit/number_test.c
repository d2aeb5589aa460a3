/* base/number against libc's exp, log, pow, strtod and printf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <math.h>

#include "base/err.h"
#include "base/number.h"
#include "base/random.h"

/* The header promises 1e-13; libm's own error is below 1e-15. */
static void assert_near(double ours, double theirs)
{
    if (!(fabs(ours - theirs) <= 1e-13 * fabs(theirs))) {
        fail_msg("%.17g is not near %.17g", ours, theirs);
    }
}

/* Any bit pattern that is a finite number. */
static double random_bits(struct random *random)
{
    double value;
    do {
        uint64_t bits = random_u64(random);
        memcpy(&value, &bits, sizeof value);
    } while (!isfinite(value));
    return value;
}

static void exp_is_near_libm(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 1);
    for (int i = 0; i < 200000; i++) {
        double x = (random_double(&random) - 0.5) * (i % 2 != 0 ? 2 : 1416);
        assert_near(number_exp(x), exp(x));
    }
    assert_true(number_exp(0) == 1);
    assert_true(isinf(number_exp(709.79)) && isinf(number_exp(1e300)) && isinf(number_exp(INFINITY)));
    assert_true(number_exp(-745.2) == 0 && number_exp(-1e300) == 0 && number_exp(-INFINITY) == 0);
    assert_true(number_exp(709.78) < INFINITY && number_exp(-745) > 0); /* the smallest subnormal */
    assert_true(isnan(number_exp(NAN)));
}

static void log_is_near_libm(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 2);
    for (int i = 0; i < 200000; i++) {
        double x = fabs(random_bits(&random));
        if (i % 2 != 0) {
            x = 1 + (random_double(&random) - 0.5) * (i % 4 == 1 ? 1 : 1e-6); /* near 1, where digits could be lost */
        }
        if (x > 0) {
            assert_near(number_log(x), log(x));
        }
    }
    assert_true(number_log(1) == 0);
    assert_true(number_log(0) == -INFINITY && isinf(number_log(INFINITY)));
    assert_true(isnan(number_log(-1)) && isnan(number_log(NAN)));
    assert_near(number_log(4.9406564584124654e-324), log(4.9406564584124654e-324));
}

static void pow_is_near_libm_up_to_the_ends(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 3);
    unsigned seen = 0;
    for (int i = 0; i < 300000; i++) {
        double base = i % 3 == 0 ? 10 : i % 3 == 1 ? fabs(random_bits(&random)) : 1 + random_double(&random) * 1e-3;
        double x = (random_double(&random) - 0.5) * (i % 3 == 0 ? 600 : i % 3 == 1 ? 4 : 2e5);
        double expected = pow(base, x);
        if (base > 0 && expected > 1e-300 && expected < INFINITY) {
            assert_near(number_pow(base, x), expected);
            seen++;
        }
    }
    assert_true(seen > 200000);
    assert_true(number_pow(2, 0) == 1 && number_pow(1, 1e300) == 1);
    assert_true(isinf(number_pow(10, 400)) && number_pow(10, -400) == 0 && isinf(number_pow(0.1, -1e300)));
    assert_true(isnan(number_pow(-2, 2)) && isnan(number_pow(0, 1)) && isnan(number_pow(2, NAN)));
}

static void results_are_the_same_bits_everywhere(void **state)
{
    (void)state;
    /* Recorded once: a compiler that fuses or reorders operations would change them. */
    static const struct {
        double x, exp, log;
    } known[] = {
        {0.1, 0x1.1aec7b35a00d4p+0, -0x1.26bb1bbb55515p+1},
        {2.0, 0x1.d8e64b8d4ddaep+2, 0x1.62e42fefa39efp-1},
        {123.456, 0x1.1428e1cbc0143p+178, 0x1.343774f3e2362p+2},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (number_exp(known[i].x) != known[i].exp || number_log(known[i].x) != known[i].log) {
            fail_msg("exp(%g) is %a, log is %a", known[i].x, number_exp(known[i].x), number_log(known[i].x));
        }
    }
}

static void round9_is_the_double_nearest_to_the_decimal(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 4);
    for (int i = 0; i < 60000; i++) {
        double x = i % 2 != 0 ? random_bits(&random) : (random_double(&random) - 0.5) * 20;
        char text[64];
        (void)snprintf(text, sizeof text, "%.8e", x); /* exact ties are too rare to be met here */
        double expected = strtod(text, NULL);
        double rounded = number_round9(x);
        if (memcmp(&expected, &rounded, sizeof rounded) != 0) {
            fail_msg("%a became %a, not %a (%s)", x, rounded, expected, text);
        }
        assert_true(number_round9(rounded) == rounded);
    }
}

static void round9_takes_ties_away_from_zero_and_carries(void **state)
{
    (void)state;
    assert_true(number_round9(1000000000.5) == 1000000000.0);
    assert_true(number_round9(123456788.5) == 123456789.0); /* printf would give ...788 */
    assert_true(number_round9(-123456788.5) == -123456789.0);
    assert_true(number_round9(0.5) == 0.5 && number_round9(1.0) == 1.0);
    assert_true(number_round9(9999999995.0) == 1e10 && number_round9(999999999.5) == 1e9);
    assert_true(number_round9(9999999994.0) == 9999999990.0);
    assert_true(number_round9(0.1 + 0.2) == 0.3);
    assert_true(number_round9(1e308) == 1e308 && number_round9(2.2250738585072014e-308) == 2.22507386e-308);
    assert_true(number_round9(1.797693131e308) == 1.79769313e308);
    assert_true(isnan(number_round9(NAN)) && isinf(number_round9(INFINITY)));
    assert_true(signbit(number_round9(-0.0)) != 0);
    assert_true(number_round9(4.9406564584124654e-324) == 4.9406564584124654e-324);
    /* Powers of ten and of two, where an estimate of the exponent may be one off. */
    for (int power = -307; power <= 308; power++) {
        char text[32];
        (void)snprintf(text, sizeof text, "1e%d", power);
        assert_true(number_round9(strtod(text, NULL)) == strtod(text, NULL));
    }
    for (int power = -1022; power <= 1023; power++) {
        char text[32];
        /* One step above, so that printf takes ties upwards too. */
        (void)snprintf(text, sizeof text, "%.8e", nextafter(ldexp(1, power), INFINITY));
        assert_true(number_round9(ldexp(1, power)) == strtod(text, NULL));
    }
}

static void format_writes_what_parse_reads(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {
        {0, "0"}, {-0.0, "-0"}, {1, "1"}, {-1.5, "-1.5"}, {0.1, "0.1"}, {0.001, "0.001"}, {0.0001, "0.0001"}, {0.00001, "1e-5"},
        {1.25e-7, "1.25e-7"}, {100, "100"}, {123456789, "123456789"}, {1e14, "100000000000000"}, {1e15, "1e15"}, {1e22, "1e22"},
        {0.123456789, "0.123456789"}, {123.456, "123.456"}, {1.5e300, "1.5e300"},
        {1.0 / 3, "0.3333333333333333"}, {1.7976931348623157e308, "1.7976931348623157e308"},
        {NAN, "null"}, {INFINITY, "null"}, {-INFINITY, "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[32];
        size_t length = number_format(text, cases[i].value);
        assert_int_equal(length, strlen(text));
        assert_string_equal(text, cases[i].text);
    }
    struct random random;
    random_init(&random, 5);
    for (int i = 0; i < 40000; i++) {
        double x = random_bits(&random);
        for (int round = 0; round < 2; round++) {
            char text[32];
            size_t length = number_format(text, x);
            double back = 0;
            assert_int_equal(number_parse(text, length, &back), 0);
            assert_memory_equal(&back, &x, sizeof x);
            assert_true(strtod(text, NULL) == x);
            x = number_round9(x);
        }
    }
}

static void parse_is_correctly_rounded(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "0", "1", "+1", "-1", ".5", "5.", "1e3", "1E+3", "1e-3", "00012", "0.000", "1e-400", "-1e-400", "0e99999999999999999999",
        "9007199254740993",                          /* a tie, to even */
        "9007199254740993.00000000000000000000001",  /* just above it */
        "2.2250738585072011e-308",                   /* famous: once hung some parsers */
        "2.4703282292062327208e-324", "2.4703282292062327209e-324", /* half of the smallest subnormal: below and above */
        "4.9406564584124654e-324", "1.7976931348623157e308", "1.7976931348623158e308",
        "179769313486231570000000000e282",
        "0.1000000000000000055511151231257827021181583404541015625",
        "123456789012345678901234567890", "1e22", "1e23", "8.5e-46",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double ours = 7;
        assert_int_equal(number_parse(texts[i], strlen(texts[i]), &ours), 0);
        double theirs = strtod(texts[i], NULL);
        if (memcmp(&ours, &theirs, sizeof ours) != 0) {
            fail_msg("%s: %a, not %a", texts[i], ours, theirs);
        }
    }
    struct random random;
    random_init(&random, 6);
    for (int i = 0; i < 30000; i++) {
        char text[128];
        int digits = 1 + (int)random_below(&random, 40);
        int used = 0;
        for (int j = 0; j < digits; j++) {
            text[used++] = (char)('0' + random_below(&random, 10));
        }
        used += snprintf(text + used, 16, "e%d", (int)random_below(&random, 680) - 360);
        double theirs = strtod(text, NULL), ours = 7;
        int error = number_parse(text, (size_t)used, &ours);
        assert_int_equal(error, isinf(theirs) ? ERR_MALFORMED : 0);
        if (error == 0 && memcmp(&ours, &theirs, sizeof ours) != 0) {
            fail_msg("%s: %a, not %a", text, ours, theirs);
        }
    }
    /* More digits than any midpoint has: a tie, with and without something far behind it. */
    static char longest[3000];
    memset(longest, '0', sizeof longest);
    memcpy(longest, "9007199254740993.", 17);
    double value;
    assert_int_equal(number_parse(longest, sizeof longest, &value), 0);
    assert_true(value == 9007199254740992.0);
    longest[sizeof longest - 1] = '1';
    assert_int_equal(number_parse(longest, sizeof longest, &value), 0);
    assert_true(value == 9007199254740994.0);
    memset(longest, '9', 310);
    assert_int_equal(number_parse(longest, 310, &value), ERR_MALFORMED);
}

static void parse_refuses_what_is_no_number(void **state)
{
    (void)state;
    static const char *const texts[] = {"",     "-",   ".",    "e5",  "1e",   "1e+",  "1.2.3", "0x10", "1_000", " 1",
                                        "1 ",   "nan", "inf",  "--1", "1e5.", "1,5",  "1e400", "-1e309", "1e99999999999999999999"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        double value = 7;
        assert_int_equal(number_parse(texts[i], strlen(texts[i]), &value), ERR_MALFORMED);
        assert_true(value == 7);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exp_is_near_libm),
        cmocka_unit_test(log_is_near_libm),
        cmocka_unit_test(pow_is_near_libm_up_to_the_ends),
        cmocka_unit_test(results_are_the_same_bits_everywhere),
        cmocka_unit_test(round9_is_the_double_nearest_to_the_decimal),
        cmocka_unit_test(round9_takes_ties_away_from_zero_and_carries),
        cmocka_unit_test(format_writes_what_parse_reads),
        cmocka_unit_test(parse_is_correctly_rounded),
        cmocka_unit_test(parse_refuses_what_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

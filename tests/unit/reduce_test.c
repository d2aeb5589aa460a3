/* Every variant that this processor runs against a plain reference, bit by bit. The reference rounds by looking for the
 * nearest of all numbers of the type, so it has nothing in common with the code under test. */
#include "train/plan/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/group/reduce_cpu.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

#define ARRAYS_MAX 8
#define ELEMENTS_MAX 4096
#define GUARD 64 /* elements around each array that nobody may touch */
#define GUARD_BYTE 0xa5

static const enum element_type types[] = {ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16};

/* ---- reference ---- */

static double magnitude_value(enum element_type type, uint32_t magnitude)
{
    int exponent_bits = type == ELEMENT_F16 ? 5 : 8, mantissa_bits = 15 - exponent_bits;
    int exponent = (int)(magnitude >> mantissa_bits), mantissa = (int)(magnitude & ((1u << mantissa_bits) - 1));
    int bias = (1 << (exponent_bits - 1)) - 1;
    double value = exponent == 0 ? (double)mantissa : (double)(mantissa + (1 << mantissa_bits));
    int scale = (exponent == 0 ? 1 : exponent) - bias - mantissa_bits;
    for (; scale > 0; scale--) {
        value *= 2;
    }
    for (; scale < 0; scale++) {
        value /= 2;
    }
    return value;
}

static uint32_t infinity_of(enum element_type type)
{
    return type == ELEMENT_F16 ? 0x7c00 : 0x7f80;
}

static uint16_t reference_narrow(enum element_type type, float value)
{
    uint32_t infinity = infinity_of(type), bits;
    memcpy(&bits, &value, 4);
    if (value != value) {
        return type == ELEMENT_F16 ? 0x7e00 : 0x7fc0;
    }
    double want = value < 0 ? -(double)value : (double)value;
    uint32_t low = 0, high = infinity; /* what infinity would be worth were it a number: the next one after the largest */
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (magnitude_value(type, middle) <= want) {
            low = middle;
        } else {
            high = middle;
        }
    }
    double below = want - magnitude_value(type, low), above = magnitude_value(type, high) - want;
    uint32_t nearest = below < above || (!(above < below) && low % 2 == 0) ? low : high;
    return (uint16_t)(nearest | (bits >> 16 & 0x8000));
}

static float reference_widen(enum element_type type, const void *array, size_t index)
{
    if (type == ELEMENT_F32) {
        return ((const float *)array)[index];
    }
    uint16_t bits = ((const uint16_t *)array)[index];
    uint32_t magnitude = bits & 0x7fff;
    float value;
    if (magnitude >= infinity_of(type)) {
        uint32_t special = magnitude == infinity_of(type) ? 0x7f800000 : 0x7fc00000;
        memcpy(&value, &special, 4);
    } else {
        value = (float)magnitude_value(type, magnitude);
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

static void reference_sum(enum element_type type, const void *const *sources, uint32_t source_count, void *out,
                          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        volatile float sum = reference_widen(type, sources[0], i); /* each addition as written */
        for (uint32_t s = 1; s < source_count; s++) {
            sum += reference_widen(type, sources[s], i);
        }
        if (type == ELEMENT_F32) {
            static const uint32_t nan = 0x7fc00000;
            float value = sum;
            memcpy((uint8_t *)out + 4 * i, value != value ? (const void *)&nan : (const void *)&value, 4);
        } else {
            ((uint16_t *)out)[i] = reference_narrow(type, sum);
        }
    }
}

/* ---- arrays ---- */

struct array {
    uint8_t *whole;
    void *elements; /* GUARD elements and `offset` more after `whole` */
    size_t bytes;
};

static struct array array_new(enum element_type type, size_t count, size_t offset)
{
    size_t each = element_type_bytes(type);
    struct array a = {.bytes = (count + offset + 2 * GUARD) * each};
    a.whole = malloc(a.bytes);
    assert_non_null(a.whole);
    memset(a.whole, GUARD_BYTE, a.bytes);
    a.elements = a.whole + (GUARD + offset) * each;
    return a;
}

static void array_check_guards(const struct array *a, size_t used_bytes)
{
    const uint8_t *begin = a->elements, *end = begin + used_bytes;
    for (const uint8_t *p = a->whole; p < a->whole + a->bytes; p++) {
        if (p == begin) {
            p = end;
        }
        assert_int_equal(*p, GUARD_BYTE);
    }
}

/* A third of them ordinary numbers, a third any bits at all, a third what is special: denormals, infinities, NaN, the
 * largest and smallest, and numbers half way between two of the narrow types. */
static void array_fill(enum element_type type, void *elements, size_t count, struct random *random)
{
    static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff,
                                       0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x33000000,
                                       0x33000001, 0x33800000, 0x387fc000, 0x38800000, 0x477fe000, 0x477ff000, 0x477fefff,
                                       0x3f801000, 0x3f803000, 0x3f808000, 0x3f818000, 0x7f7f8000, 0x7f7f7fff, 0x38000000};
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)random_u64(random);
        uint64_t choice = random_below(random, 3);
        if (choice == 0) {
            float value = (float)(random_double(random) - 0.5) * 10.0f;
            memcpy(&bits, &value, 4);
        } else if (choice == 1) {
            bits = special[random_below(random, sizeof special / sizeof special[0])];
        }
        if (type == ELEMENT_F32) {
            ((uint32_t *)elements)[i] = bits;
        } else {
            uint16_t narrow = (uint16_t)bits;
            float value;
            memcpy(&value, &bits, 4);
            ((uint16_t *)elements)[i] = choice == 2 ? narrow : reference_narrow(type, value);
        }
    }
}

/* One sum in every variant; into arrays of its own, or over the sources. */
static void compare(enum element_type type, uint32_t arrays, size_t count, size_t offset, bool in_place, uint64_t seed)
{
    size_t each = element_type_bytes(type);
    struct random random;
    random_init(&random, seed);
    struct array sources[ARRAYS_MAX], kept[ARRAYS_MAX];
    const void *from[ARRAYS_MAX];
    for (uint32_t a = 0; a < arrays; a++) {
        sources[a] = array_new(type, count, (offset + a) % 40);
        kept[a] = array_new(type, count, 0);
        array_fill(type, kept[a].elements, count, &random);
        from[a] = sources[a].elements;
    }
    uint8_t *expected = malloc(count * each + 1);
    assert_non_null(expected);
    for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
        if (!reduce_cpu_runs(variant)) {
            continue;
        }
        struct array out[ARRAYS_MAX];
        void *to[ARRAYS_MAX];
        for (uint32_t a = 0; a < arrays; a++) {
            memcpy(sources[a].elements, kept[a].elements, count * each);
            out[a] = array_new(type, count, (offset + 3 * a) % 40);
            to[a] = in_place ? sources[a].elements : out[a].elements;
        }
        reference_sum(type, from, arrays, expected, count);
        reduce_sum(variant, type, from, arrays, to, arrays, count);
        for (uint32_t a = 0; a < arrays; a++) {
            assert_memory_equal(to[a], expected, count * each);
            if (!in_place) {
                assert_memory_equal(sources[a].elements, kept[a].elements, count * each);
                array_check_guards(&out[a], count * each);
            }
            array_check_guards(&sources[a], count * each);
            free(out[a].whole);
        }
    }
    for (uint32_t a = 0; a < arrays; a++) {
        free(sources[a].whole);
        free(kept[a].whole);
    }
    free(expected);
}

static void test_sums_equal_the_reference_in_every_variant(void **state)
{
    (void)state;
    static const size_t counts[] = {0, 1, 2, 7, 8, 15, 16, 17, 31, 63, 64, 65, 127, 130, 1000, ELEMENTS_MAX};
    for (size_t t = 0; t < 3; t++) {
        for (uint32_t arrays = 1; arrays <= ARRAYS_MAX; arrays++) {
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                compare(types[t], arrays, counts[c], c % 33, false, 1000 * t + 100 * arrays + c);
                compare(types[t], arrays, counts[c], c % 33, true, 5000 + 1000 * t + 100 * arrays + c);
            }
        }
    }
}

static void test_sums_begin_at_any_element(void **state)
{
    (void)state;
    for (size_t t = 0; t < 3; t++) {
        for (size_t offset = 0; offset < 40; offset++) {
            compare(types[t], 3, 200 + offset, offset, offset % 2 == 0, 77 + offset);
        }
    }
}

static void test_every_narrow_number_survives(void **state)
{
    (void)state;
    static uint16_t all[65536], out[65536];
    for (uint32_t i = 0; i < 65536; i++) {
        all[i] = (uint16_t)i;
    }
    for (size_t t = 1; t < 3; t++) {
        for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
            if (!reduce_cpu_runs(variant)) {
                continue;
            }
            const void *from[] = {all};
            void *to[] = {out};
            reduce_sum(variant, types[t], from, 1, to, 1, 65536);
            for (uint32_t i = 0; i < 65536; i++) {
                bool nan = (i & 0x7fff) > infinity_of(types[t]);
                assert_int_equal(out[i], nan ? (types[t] == ELEMENT_F16 ? 0x7e00 : 0x7fc0) : i);
            }
        }
    }
}

/* 1 and four times 2^-11: rounded after each addition the sum would stay 1. */
static void test_narrow_sums_are_rounded_once(void **state)
{
    (void)state;
    uint16_t one = 0x3c00, small = 0x1000 /* 2^-11 */, out;
    const void *from[] = {&one, &small, &small, &small, &small};
    void *to[] = {&out};
    for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
        if (reduce_cpu_runs(variant)) {
            reduce_sum(variant, ELEMENT_F16, from, 5, to, 1, 1);
            assert_int_equal(out, 0x3c02);
        }
    }
}

/* Of two numbers the float sum, rounded once more, is the number next to the exact sum, the even one of two; for bf16 where
 * they are not so far apart that their sum is no float. */
static void test_sums_of_two_narrow_numbers_are_next_to_the_exact_sum(void **state)
{
    (void)state;
    static uint16_t a[ELEMENTS_MAX], b[ELEMENTS_MAX], out[ELEMENTS_MAX];
    const void *from[] = {a, b};
    void *to[] = {out};
    struct random random;
    random_init(&random, 1);
    for (size_t t = 1; t < 3; t++) {
        uint32_t infinity = infinity_of(types[t]), span = types[t] == ELEMENT_F16 ? infinity : 8 << 7;
        for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
            if (!reduce_cpu_runs(variant)) {
                continue;
            }
            for (int round = 0; round < 20; round++) {
                for (size_t i = 0; i < ELEMENTS_MAX; i++) {
                    a[i] = (uint16_t)random_below(&random, infinity);
                    uint32_t low = a[i] > span ? a[i] - span : 0, high = a[i] + span < infinity ? a[i] + span : infinity;
                    b[i] = (uint16_t)(low + random_below(&random, high - low));
                }
                reduce_sum(variant, types[t], from, 2, to, 1, ELEMENTS_MAX);
                for (size_t i = 0; i < ELEMENTS_MAX; i++) {
                    double exact = magnitude_value(types[t], a[i]) + magnitude_value(types[t], b[i]);
                    double value = magnitude_value(types[t], out[i]);
                    double above = (value + magnitude_value(types[t], out[i] + 1u)) / 2;
                    double below = out[i] == 0 ? -1 : (magnitude_value(types[t], out[i] - 1u) + value) / 2;
                    bool even = out[i] % 2 == 0;
                    assert_true(out[i] <= infinity);
                    assert_true(out[i] == infinity || exact < above || (even && exact == above));
                    assert_true(exact > below || (even && exact == below));
                }
            }
        }
    }
}

static void test_the_callers_rounding_and_denormal_modes_do_not_matter(void **state)
{
    (void)state;
#ifdef __x86_64__
    static uint32_t x[256], y[256], expected[256], out[256];
    struct random random;
    random_init(&random, 9);
    for (size_t t = 0; t < 3; t++) {
        array_fill(types[t], x, 256, &random);
        array_fill(types[t], y, 256, &random);
        const void *from[] = {x, y};
        void *to[] = {expected};
        reduce_sum(REDUCE_PORTABLE, types[t], from, 2, to, 1, 255);
        to[0] = out;
        for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
            if (!reduce_cpu_runs(variant)) {
                continue;
            }
            uint32_t before = _mm_getcsr(), strange = before | 0x8040 /* flush, take for zero */ | 0x6000 /* truncate */;
            _mm_setcsr(strange);
            reduce_sum(variant, types[t], from, 2, to, 1, 255);
            uint32_t after = _mm_getcsr();
            _mm_setcsr(before);
            assert_int_equal(after, strange);
            assert_memory_equal(out, expected, 255 * element_type_bytes(types[t]));
        }
    }
#else
    skip();
#endif
}

static void test_copies_are_exact_with_and_without_streaming(void **state)
{
    (void)state;
    static uint8_t from[3000], to[3000];
    for (size_t i = 0; i < sizeof from; i++) {
        from[i] = (uint8_t)(i * 7 + i / 251);
    }
    for (enum reduce_variant variant = REDUCE_PORTABLE; variant < REDUCE_VARIANTS; variant++) {
        for (size_t bytes = 0; bytes < 2600 && reduce_cpu_runs(variant); bytes += 1 + bytes / 7) {
            for (size_t offset = 0; offset < 130; offset += 1 + offset / 5) {
                memset(to, GUARD_BYTE, sizeof to);
                reduce_copy(variant, to + 100 + offset, from + bytes % 64, bytes, offset % 4 != 3);
                assert_memory_equal(to + 100 + offset, from + bytes % 64, bytes);
                assert_int_equal(to[99 + offset], GUARD_BYTE);
                assert_int_equal(to[100 + offset + bytes], GUARD_BYTE);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_equal_the_reference_in_every_variant),
        cmocka_unit_test(test_sums_begin_at_any_element),
        cmocka_unit_test(test_every_narrow_number_survives),
        cmocka_unit_test(test_narrow_sums_are_rounded_once),
        cmocka_unit_test(test_sums_of_two_narrow_numbers_are_next_to_the_exact_sum),
        cmocka_unit_test(test_the_callers_rounding_and_denormal_modes_do_not_matter),
        cmocka_unit_test(test_copies_are_exact_with_and_without_streaming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

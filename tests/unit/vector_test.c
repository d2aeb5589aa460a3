/* Loops over arrays: against plain ones, and in every variant that this processor runs to the same bits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/trainer/models/vector.h"

#define COUNT_MAX 200
#define ROWS 7

static struct random stream;

/* Numbers of both signs, exact zeros, and a NaN. */
static void fill(float *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = random_below(&stream, 8) == 0 ? 0.0f : (float)(random_double(&stream) * 4 - 2);
    }
    out[random_below(&stream, count)] = nanf("");
}

static void assert_same_bits(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof *a);
}

/* Calls `check` with every variant, lengths about whole vectors, and memory that begins at any element. */
static void each(void (*check)(enum reduce_variant variant, size_t columns, size_t offset))
{
    random_init_stream(&stream, 7, 0);
    for (unsigned v = 0; v < REDUCE_VARIANTS; v++) {
        for (size_t columns = 1; columns <= COUNT_MAX / 2 && reduce_cpu_runs(v); columns++) {
            check(v, columns, columns % 17);
        }
    }
}

static void check_scaling(enum reduce_variant variant, size_t count, size_t offset)
{
    uint8_t in[COUNT_MAX];
    float out[COUNT_MAX], expected[COUNT_MAX];
    for (size_t i = 0; i < count; i++) {
        in[offset + i] = (uint8_t)random_below(&stream, 256);
        expected[i] = (float)in[offset + i] * 0.011f + -0.81f;
    }
    vector_scale_bytes(variant, out + offset, in + offset, count, 0.011f, -0.81f);
    assert_same_bits(out + offset, expected, count);
}

static void check_biases(enum reduce_variant variant, size_t columns, size_t offset)
{
    float matrix[ROWS * COUNT_MAX], relu[ROWS * COUNT_MAX], biases[COUNT_MAX], expected[2][ROWS * COUNT_MAX];
    fill(matrix, ROWS * columns + offset);
    memcpy(relu, matrix, sizeof relu);
    fill(biases, columns + offset);
    for (size_t i = 0; i < ROWS * columns; i++) {
        expected[0][i] = matrix[offset + i] + biases[offset + i % columns];
        expected[1][i] = expected[0][i] > 0 ? expected[0][i] : 0;
    }
    vector_add_bias(variant, matrix + offset, biases + offset, ROWS, columns);
    vector_add_bias_relu(variant, relu + offset, biases + offset, ROWS, columns);
    assert_same_bits(matrix + offset, expected[0], ROWS * columns);
    assert_same_bits(relu + offset, expected[1], ROWS * columns);
}

static void check_way_back(enum reduce_variant variant, size_t columns, size_t offset)
{
    float matrix[ROWS * COUNT_MAX], outputs[ROWS * COUNT_MAX], sums[COUNT_MAX];
    float masked[ROWS * COUNT_MAX], expected[2][COUNT_MAX] = {{0}};
    fill(matrix, ROWS * columns + offset);
    fill(outputs, ROWS * columns + offset);
    for (size_t i = 0; i < ROWS * columns; i++) {
        masked[i] = outputs[offset + i] > 0 ? matrix[offset + i] : 0;
        expected[0][i % columns] += matrix[offset + i];
        expected[1][i % columns] += masked[i];
    }
    vector_sum_rows(variant, sums + offset, matrix + offset, ROWS, columns);
    assert_same_bits(sums + offset, expected[0], columns);
    vector_relu_back(variant, sums + offset, matrix + offset, outputs + offset, ROWS, columns);
    assert_same_bits(sums + offset, expected[1], columns);
    assert_same_bits(matrix + offset, masked, ROWS * columns);
}

static void check_sgd(enum reduce_variant variant, size_t count, size_t offset)
{
    float parameters[COUNT_MAX], velocities[COUNT_MAX], gradients[COUNT_MAX], expected[2][COUNT_MAX];
    fill(parameters, count + offset);
    fill(velocities, count + offset);
    fill(gradients, count + offset);
    for (size_t i = 0; i < count; i++) {
        float momentum = 0.9f * velocities[offset + i], gradient = gradients[offset + i] * 0.125f;
        expected[0][i] = momentum + gradient;
        float change = 0.03f * expected[0][i];
        expected[1][i] = parameters[offset + i] - change;
    }
    vector_sgd(variant, parameters + offset, velocities + offset, gradients + offset, count, 0.125f, 0.9f, 0.03f);
    assert_same_bits(velocities + offset, expected[0], count);
    assert_same_bits(parameters + offset, expected[1], count);
}

static void test_bytes_become_scaled_floats(void **state)
{
    (void)state;
    each(check_scaling);
}

static void test_biases_go_to_every_row(void **state)
{
    (void)state;
    each(check_biases);
}

static void test_the_way_back_sums_what_it_lets_through(void **state)
{
    (void)state;
    each(check_way_back);
}

static void test_sgd_rounds_after_every_operation(void **state)
{
    (void)state;
    each(check_sgd);
}

static void test_memory_begins_with_a_cache_line(void **state)
{
    (void)state;
    assert_int_equal(vector_lines(0), 0);
    assert_int_equal(vector_lines(1), 16);
    assert_int_equal(vector_lines(16), 16);
    assert_int_equal(vector_lines(17), 32);
    float *memory = vector_new(17);
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 64, 0);
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_become_scaled_floats),
        cmocka_unit_test(test_biases_go_to_every_row),
        cmocka_unit_test(test_the_way_back_sums_what_it_lets_through),
        cmocka_unit_test(test_sgd_rounds_after_every_operation),
        cmocka_unit_test(test_memory_begins_with_a_cache_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "train/trainer/models/vector.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define LINE_BYTES 64

size_t vector_lines(size_t count)
{
    size_t per_line = LINE_BYTES / sizeof(float);
    return (count + per_line - 1) / per_line * per_line;
}

float *vector_new(size_t count)
{
    return aligned_alloc(LINE_BYTES, vector_lines(count) * sizeof(float));
}

/* Each loop is written once; the compiler uses the instructions of each variant. All variants have the same bits, because the
 * compiler must not contract (-ffp-contract=off) and no sum goes across the lanes of a vector. */
#define BODY static inline __attribute__((always_inline)) void

BODY scale_bytes_body(float *restrict out, const uint8_t *restrict in, size_t count, float factor, float shift)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = (float)in[i] * factor + shift;
    }
}

BODY add_bias_body(float *restrict matrix, const float *restrict biases, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++, matrix += columns) {
        for (size_t i = 0; i < columns; i++) {
            matrix[i] += biases[i];
        }
    }
}

BODY add_bias_relu_body(float *restrict matrix, const float *restrict biases, size_t rows, size_t columns)
{
    for (size_t row = 0; row < rows; row++, matrix += columns) {
        for (size_t i = 0; i < columns; i++) {
            float value = matrix[i] + biases[i];
            matrix[i] = value > 0.0f ? value : 0.0f;
        }
    }
}

BODY sum_rows_body(float *restrict sums, const float *restrict matrix, size_t rows, size_t columns)
{
    memset(sums, 0, columns * sizeof *sums);
    for (size_t row = 0; row < rows; row++, matrix += columns) {
        for (size_t i = 0; i < columns; i++) {
            sums[i] += matrix[i];
        }
    }
}

BODY relu_back_body(float *restrict sums, float *restrict matrix, const float *restrict outputs, size_t rows, size_t columns)
{
    memset(sums, 0, columns * sizeof *sums);
    for (size_t row = 0; row < rows; row++, matrix += columns, outputs += columns) {
        for (size_t i = 0; i < columns; i++) {
            float value = outputs[i] > 0.0f ? matrix[i] : 0.0f;
            matrix[i] = value;
            sums[i] += value;
        }
    }
}

BODY sgd_body(float *restrict parameters, float *restrict velocities, const float *restrict gradients, size_t count,
              float scale, float momentum, float rate)
{
    for (size_t i = 0; i < count; i++) {
        float velocity = momentum * velocities[i] + gradients[i] * scale;
        velocities[i] = velocity;
        parameters[i] -= rate * velocity;
    }
}

#ifdef __x86_64__
#define AVX2 __attribute__((target("avx2"), noinline))
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl"), noinline))
#else
#define AVX2
#define AVX512
#endif

/* Defines vector_NAME: PARAMETERS and ARGUMENTS are those of NAME_body in parentheses; NAMED is PARAMETERS preceded by a
 * variant. */
#define VARIANTS(name, named, parameters, arguments)                                                                    \
    static void name##_portable parameters                                                                             \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    AVX2 static void name##_avx2 parameters                                                                            \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    AVX512 static void name##_avx512 parameters                                                                        \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    void vector_##name named                                                                                           \
    {                                                                                                                  \
        CHECK(variant < REDUCE_VARIANTS);                                                                              \
        if (variant == REDUCE_AVX512) {                                                                                \
            name##_avx512 arguments;                                                                                   \
        } else if (variant == REDUCE_AVX2) {                                                                           \
            name##_avx2 arguments;                                                                                     \
        } else {                                                                                                       \
            name##_portable arguments;                                                                                 \
        }                                                                                                              \
    }

#define LIST(...) (enum reduce_variant variant, __VA_ARGS__), (__VA_ARGS__)
#define DEFINE(...) VARIANTS(__VA_ARGS__)

DEFINE(scale_bytes, LIST(float *out, const uint8_t *in, size_t count, float factor, float shift),
       (out, in, count, factor, shift))
DEFINE(add_bias, LIST(float *matrix, const float *biases, size_t rows, size_t columns), (matrix, biases, rows, columns))
DEFINE(add_bias_relu, LIST(float *matrix, const float *biases, size_t rows, size_t columns), (matrix, biases, rows, columns))
DEFINE(sum_rows, LIST(float *sums, const float *matrix, size_t rows, size_t columns), (sums, matrix, rows, columns))
DEFINE(relu_back, LIST(float *sums, float *matrix, const float *outputs, size_t rows, size_t columns),
       (sums, matrix, outputs, rows, columns))
DEFINE(sgd,
       LIST(float *parameters, float *velocities, const float *gradients, size_t count, float scale, float momentum,
            float rate),
       (parameters, velocities, gradients, count, scale, momentum, rate))

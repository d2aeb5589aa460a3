#ifndef TRAIN_TRAINER_MODELS_VECTOR_H
#define TRAIN_TRAINER_MODELS_VECTOR_H
/* Operations on arrays beside products of matrices, for models and optimisers: loops that pass over memory once, in vectors as
 * wide as the variant's. The variants have the same bits. Arrays do not overlap; the variant must run on this processor
 * (train/group/reduce_cpu.h). */

#include <stddef.h>
#include <stdint.h>

#include "train/group/reduce_cpu.h"

/* vector_lines: `count` rounded up to whole cache lines of floats. vector_new: memory for that many floats, aligned to a line,
 * freed with free(); NULL: no memory. */
size_t vector_lines(size_t count);
float *vector_new(size_t count);

/* out[i] = in[i] * factor + shift, for i < count. */
void vector_scale_bytes(enum reduce_variant variant, float *out, const uint8_t *in, size_t count, float factor, float shift);

/* Adds biases[columns] to each row of matrix [rows][columns]. The second also replaces results not above 0 by 0. */
void vector_add_bias(enum reduce_variant variant, float *matrix, const float *biases, size_t rows, size_t columns);
void vector_add_bias_relu(enum reduce_variant variant, float *matrix, const float *biases, size_t rows, size_t columns);

/* sums[columns] becomes the sum of the rows of matrix [rows][columns], added in their order. The second first replaces elements
 * of `matrix` by 0 where `outputs` is not above 0: the backward pass of ReLU. */
void vector_sum_rows(enum reduce_variant variant, float *sums, const float *matrix, size_t rows, size_t columns);
void vector_relu_back(enum reduce_variant variant, float *sums, float *matrix, const float *outputs, size_t rows,
                      size_t columns);

/* SGD with momentum: v = momentum * v + gradient * scale; parameter -= rate * v. */
void vector_sgd(enum reduce_variant variant, float *parameters, float *velocities, const float *gradients, size_t count,
                float scale, float momentum, float rate);

#endif

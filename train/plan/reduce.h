#ifndef TRAIN_PLAN_REDUCE_H
#define TRAIN_PLAN_REDUCE_H
/* Sums of arrays, element by element: the arithmetic of collectives. A core.
 *
 * Element i of the sum is ((source[0][i] + source[1][i]) + source[2][i]) ..., in float32 for every type, rounded to the type
 * once at the end, to nearest, ties to even. Every NaN becomes the same quiet NaN with a positive sign and no payload. So the
 * bits depend on the sources only, neither on the variant nor on the caller's rounding mode or treatment of denormals; both are
 * set aside during the call.
 *
 * The variants differ in speed only. train/group/reduce_cpu.h tells which variants this processor can run; running another is
 * undefined. If the compiler does not target x86-64, every variant is the portable one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/plan/element.h"

#define REDUCE_SOURCES_MAX 64

/* Instruction sets that the sums are written for. */
enum reduce_variant { REDUCE_PORTABLE, REDUCE_AVX2, REDUCE_AVX512 };
#define REDUCE_VARIANTS 3

/* Stores the sum of `source_count` (1 ... REDUCE_SOURCES_MAX) arrays of `count` elements to `destination_count` arrays. The
 * type must have sums (ELEMENT_ADDS). Each pointer is aligned to its element. A destination may be one of the sources or lie
 * apart from all of them; no other overlap is allowed. */
void reduce_sum(enum reduce_variant variant, enum element_type type, const void *const *sources, uint32_t source_count,
                void *const *destinations, uint32_t destination_count, size_t count);

/* Copies bytes between ranges that do not overlap. `streaming`: past the caches, for ranges larger than the caches and not read
 * soon. */
void reduce_copy(enum reduce_variant variant, void *to, const void *from, size_t bytes, bool streaming);

#endif

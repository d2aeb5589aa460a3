#ifndef TRAIN_PLAN_REDUCE_H
#define TRAIN_PLAN_REDUCE_H
/* Sums of arrays, element by element: the arithmetic of collectives. A core.
 *
 * Element i of the sum is ((source[0][i] + source[1][i]) + source[2][i]) ..., in float32 whatever the type, rounded to the
 * type once at the end, to the nearest, ties to even. A NaN comes out as the one quiet NaN with a positive sign and no
 * payload. So the bits depend on nothing but the sources: not on the variant, and not on the caller's rounding mode or
 * its treatment of denormals, which are set aside for the call.
 *
 * The variants differ in speed only. Which of them this processor can run is asked by train/group/reduce_cpu.h; to run another
 * one is undefined. Where the compiler does not target x86-64 all are the portable one. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/plan/element.h"

#define REDUCE_SOURCES_MAX 64

enum reduce_variant { REDUCE_PORTABLE, REDUCE_AVX2, REDUCE_AVX512 };
#define REDUCE_VARIANTS 3

/* Stores the sum of `count` elements of `source_count` (1 ... REDUCE_SOURCES_MAX) arrays to `destination_count` arrays. The
 * type is one that adds. Each pointer is aligned to its element. A destination may be a source, or lie apart from all of them; they must not
 * overlap in any other way. */
void reduce_sum(enum reduce_variant variant, enum element_type type, const void *const *sources, uint32_t source_count,
                void *const *destinations, uint32_t destination_count, size_t count);

/* Copies bytes that do not overlap. `streaming`: past the caches, for what is larger than they are and not read soon. */
void reduce_copy(enum reduce_variant variant, void *to, const void *from, size_t bytes, bool streaming);

#endif

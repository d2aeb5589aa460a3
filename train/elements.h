#ifndef TRAIN_ELEMENTS_H
#define TRAIN_ELEMENTS_H
/* Sums of arrays, element by element. */

#include <stddef.h>

#include "train/plan.h"

/* to[i] += from[i] for `count` elements of a type that is no PLAN_BYTES. f16 (IEEE 754 binary16) and bf16 are added as
 * floats and rounded to nearest, ties to even. Both arrays are aligned to their elements. */
void elements_add(enum plan_type type, void *to, const void *from, size_t count);

#endif

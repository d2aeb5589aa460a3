#ifndef TRAIN_PLAN_FINITE_H
#define TRAIN_PLAN_FINITE_H
/* Whether numbers are finite. One pass over the memory, at about its speed. */

#include <stddef.h>
#include <stdint.h>

#include "train/plan/element.h"

/* The index of the first of values[count] that is infinite or no number; `count` if all are finite. The type is one that adds. */
size_t finite_first_bad(enum element_type type, const void *values, size_t count);

/* The bits of values[index]. */
uint64_t finite_bits(enum element_type type, const void *values, size_t index);

/* "NaN", "infinity" or "-infinity", of the bits of such a value. */
const char *finite_word(enum element_type type, uint64_t bits);

#endif

#ifndef TRAIN_PLAN_FINITE_H
#define TRAIN_PLAN_FINITE_H
/* Finds values that are not finite, in a single pass at about the speed of memory. A core. */

#include <stddef.h>
#include <stdint.h>

#include "train/plan/element.h"

/* The index of the first infinity or NaN in values[count]; `count` if all values are finite. The type must have sums
 * (ELEMENT_ADDS). */
size_t finite_first_bad(enum element_type type, const void *values, size_t count);

/* The bits of values[index], zero-extended from the type's width. */
uint64_t finite_bits(enum element_type type, const void *values, size_t index);

/* "NaN", "infinity" or "-infinity" for the bits of a value that is not finite; a static string. */
const char *finite_word(enum element_type type, uint64_t bits);

#endif

#ifndef TRAIN_FINITE_H
#define TRAIN_FINITE_H
/* Whether numbers are finite. One pass over the memory, at about its speed. */

#include <stddef.h>

/* The index of the first of values[count] that is infinite or no number; `count` if all are finite. */
size_t finite_f32(const float *values, size_t count);

#endif

#ifndef TESTS_UNIT_HOLD_H
#define TESTS_UNIT_HOLD_H
/* For tests of libshoal whose ranks are processes, in which cmocka has no say. */

#include <stdio.h>
#include <unistd.h>

#include "train/shoal/shoal.h"

/* In the process of a rank, whose handle is named `shoal`: the line that did not hold, on standard error and as its end. */
#define HOLD(condition)                                                                                                 \
    do {                                                                                                                \
        if (!(condition)) {                                                                                             \
            (void)fprintf(stderr, "%s:%d: rank %u: %s: %s\n", __FILE__, __LINE__, shoal_rank(shoal), #condition,        \
                          shoal_error(shoal));                                                                          \
            _exit(1);                                                                                                   \
        }                                                                                                               \
    } while (0)

#endif

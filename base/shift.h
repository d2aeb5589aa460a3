#ifndef BASE_SHIFT_H
#define BASE_SHIFT_H

#include <stdint.h>

/* A suspend of gap_ms is over: moves an absolute time by it. 0 means never, and stays. */
static inline void time_shift(uint64_t *when_ms, uint64_t gap_ms)
{
    if (*when_ms != 0) {
        *when_ms += gap_ms;
    }
}

#endif

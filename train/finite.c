#include "train/finite.h"

#include <stdint.h>
#include <string.h>

#define BLOCK 1024 /* looked at without a branch, so that it is done in vectors */

static uint32_t is_bad(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) == 0x7f800000u;
}

size_t finite_f32(const float *values, size_t count)
{
    for (size_t start = 0; start < count; start += BLOCK) {
        size_t end = count - start < BLOCK ? count : start + BLOCK;
        uint32_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad |= is_bad(values[i]);
        }
        for (size_t i = start; bad != 0 && i < end; i++) {
            if (is_bad(values[i]) != 0) {
                return i;
            }
        }
    }
    return count;
}

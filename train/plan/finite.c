#include "train/plan/finite.h"

#include <stdbool.h>
#include <string.h>

#define BLOCK 1024 /* values per block: checked without a branch, so that the compiler can use vectors */

/* A value is not finite if all bits of the exponent are set. */
#define F32_EXPONENT 0x7f800000u
#define F16_EXPONENT 0x7c00u
#define BF16_EXPONENT 0x7f80u

static bool is_bad_32(const char *values, size_t i)
{
    uint32_t bits;
    memcpy(&bits, values + i * sizeof bits, sizeof bits);
    return (bits & F32_EXPONENT) == F32_EXPONENT;
}

static bool is_bad_16(const char *values, size_t i, uint16_t exponent)
{
    uint16_t bits;
    memcpy(&bits, values + i * sizeof bits, sizeof bits);
    return (bits & exponent) == exponent;
}

static size_t first_bad_32(const char *values, size_t count)
{
    for (size_t start = 0; start < count; start += BLOCK) {
        size_t end = count - start < BLOCK ? count : start + BLOCK;
        uint32_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad |= is_bad_32(values, i);
        }
        for (size_t i = start; bad != 0 && i < end; i++) {
            if (is_bad_32(values, i)) {
                return i;
            }
        }
    }
    return count;
}

static size_t first_bad_16(const char *values, size_t count, uint16_t exponent)
{
    for (size_t start = 0; start < count; start += BLOCK) {
        size_t end = count - start < BLOCK ? count : start + BLOCK;
        uint16_t bad = 0;
        for (size_t i = start; i < end; i++) {
            bad = (uint16_t)(bad | is_bad_16(values, i, exponent));
        }
        for (size_t i = start; bad != 0 && i < end; i++) {
            if (is_bad_16(values, i, exponent)) {
                return i;
            }
        }
    }
    return count;
}

size_t finite_first_bad(enum element_type type, const void *values, size_t count)
{
    return type == ELEMENT_F32 ? first_bad_32(values, count)
                               : first_bad_16(values, count, type == ELEMENT_F16 ? F16_EXPONENT : BF16_EXPONENT);
}

uint64_t finite_bits(enum element_type type, const void *values, size_t index)
{
    uint32_t wide;
    uint16_t narrow;
    if (type == ELEMENT_F32) {
        memcpy(&wide, (const char *)values + index * sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)values + index * sizeof narrow, sizeof narrow);
    return narrow;
}

const char *finite_word(enum element_type type, uint64_t bits)
{
    uint64_t exponent = type == ELEMENT_F32 ? F32_EXPONENT : type == ELEMENT_F16 ? F16_EXPONENT : BF16_EXPONENT;
    uint64_t sign = type == ELEMENT_F32 ? 0x80000000u : 0x8000u;
    return (bits & ~exponent & (sign - 1)) != 0 ? "NaN" : (bits & sign) != 0 ? "-infinity" : "infinity";
}

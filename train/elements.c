#include "train/elements.h"

#include <stdint.h>
#include <string.h>

#include "base/check.h"

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_bf16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

static uint16_t to_bf16(float value)
{
    uint32_t bits = bits_of_float(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)(bits >> 16 | 0x40u); /* rounding could make a NaN an infinity */
    }
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static float from_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) {
        return float_of_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    }
    /* Placed as a float's exponent and mantissa it is 2^-112 of its value, subnormal numbers included. */
    return float_of_bits(sign | bits_of_float(float_of_bits(rest << 13) * 0x1p112f));
}

static uint16_t to_f16(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) {
        return (uint16_t)(sign | 0x7e00u);
    }
    if (rest >= 0x477ff000u) { /* 65520, half way from the largest to what would come next */
        return (uint16_t)(sign | 0x7c00u);
    }
    if (rest < 0x38800000u) { /* below 2^-14: adding 1/2 leaves the multiples of 2^-24 in the last bits, rounded */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(rest) + 0.5f) - 0x3f000000u));
    }
    return (uint16_t)(sign | ((rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13));
}

void elements_add(enum plan_type type, void *to, const void *from, size_t count)
{
    CHECK(type == PLAN_F32 || type == PLAN_F16 || type == PLAN_BF16);
    if (type == PLAN_F32) {
        float *restrict sum = to;
        const float *restrict more = from;
        for (size_t i = 0; i < count; i++) {
            sum[i] += more[i];
        }
    } else if (type == PLAN_F16) {
        uint16_t *restrict sum = to;
        const uint16_t *restrict more = from;
        for (size_t i = 0; i < count; i++) {
            sum[i] = to_f16(from_f16(sum[i]) + from_f16(more[i]));
        }
    } else {
        uint16_t *restrict sum = to;
        const uint16_t *restrict more = from;
        for (size_t i = 0; i < count; i++) {
            sum[i] = to_bf16(from_bf16(sum[i]) + from_bf16(more[i]));
        }
    }
}

#include "train/plan/reduce.h"

#include <string.h>

#include "base/check.h"

#define NAN_BITS 0x7fc00000u
#define HALF_NAN 0x7e00u
#define BLOCK 64 /* elements that the portable variant sums at a time */

/* ---- conversions; exact towards float32 ---- */

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
    return value != value ? NAN_BITS : bits;
}

static float float_of_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 0) {
        float magnitude = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -magnitude : magnitude;
    }
    return float_of_bits(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

static uint16_t half_of_float(float value)
{
    uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return HALF_NAN;
    }
    if (magnitude >= 0x477ff000) { /* 65520, halfway from the largest half to the next power of two, and above */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) { /* below 2^-14: floats near 0.5 are as far apart as halves are here */
        return (uint16_t)(sign | (bits_of_float(float_of_bits(magnitude) + 0.5f) - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - (112u << 23)) >> 13);
}

static uint16_t bfloat_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- portable ---- */

static float load(enum element_type type, const void *array, size_t index)
{
    if (type == ELEMENT_F32) {
        return ((const float *)array)[index];
    }
    uint16_t bits = ((const uint16_t *)array)[index];
    return type == ELEMENT_F16 ? float_of_half(bits) : float_of_bits((uint32_t)bits << 16);
}

static void store(enum element_type type, void *array, size_t index, float value)
{
    if (type == ELEMENT_F32) {
        ((float *)array)[index] = float_of_bits(bits_of_float(value));
    } else {
        ((uint16_t *)array)[index] = type == ELEMENT_F16 ? half_of_float(value) : bfloat_of_float(value);
    }
}

/* Sums elements [begin, end). This and the kernels below are not inlined, so that the arithmetic stays between the two changes
 * of the control word. */
__attribute__((noinline)) static void sum_portable(enum element_type type, const void *const *sources,
                                                   uint32_t source_count, void *const *destinations,
                                                   uint32_t destination_count, size_t begin, size_t end)
{
    float sums[BLOCK];
    for (size_t at = begin; at < end; at += BLOCK) {
        size_t count = end - at < BLOCK ? end - at : BLOCK;
        for (size_t i = 0; i < count; i++) {
            sums[i] = load(type, sources[0], at + i);
        }
        for (uint32_t s = 1; s < source_count; s++) {
            for (size_t i = 0; i < count; i++) {
                sums[i] += load(type, sources[s], at + i);
            }
        }
        for (uint32_t d = 0; d < destination_count; d++) {
            for (size_t i = 0; i < count; i++) {
                store(type, destinations[d], at + i, sums[i]);
            }
        }
    }
}

#ifdef __x86_64__
#include <immintrin.h>

/* ---- vectors: one kernel, written once for each variant and type ----
 *
 * Four vectors of sums stay in registers while the sources are read in turn, then go to all destinations. The stores are
 * ordinary stores: in an all-reduce in place the lines have just been read, and stores past the caches were slower at every
 * size tried (1 to 128 MiB: 1.2 to 3.5 times).
 *
 * SUM_KERNEL defines name(): it sums whole vectors from element 0 on and returns the number of elements done. */

#define SUM_KERNEL(name, features, vector, lanes, element, load_lanes, store_lanes, add, settle)                         \
    __attribute__((target(features), noinline)) static size_t name(const void *const *sources, uint32_t source_count,   \
                                                                   void *const *destinations,                           \
                                                                   uint32_t destination_count, size_t count)            \
    {                                                                                                                   \
        size_t at = 0;                                                                                                  \
        for (; at + 4 * (lanes) <= count; at += 4 * (lanes)) {                                                          \
            const element *from = (const element *)sources[0] + at;                                                     \
            vector a = load_lanes(from), b = load_lanes(from + (lanes));                                                \
            vector c = load_lanes(from + 2 * (lanes)), d = load_lanes(from + 3 * (lanes));                              \
            for (uint32_t s = 1; s < source_count; s++) {                                                               \
                from = (const element *)sources[s] + at;                                                                \
                a = add(a, load_lanes(from));                                                                           \
                b = add(b, load_lanes(from + (lanes)));                                                                 \
                c = add(c, load_lanes(from + 2 * (lanes)));                                                             \
                d = add(d, load_lanes(from + 3 * (lanes)));                                                             \
            }                                                                                                           \
            a = settle(a), b = settle(b), c = settle(c), d = settle(d);                                                 \
            for (uint32_t k = 0; k < destination_count; k++) {                                                          \
                element *to = (element *)destinations[k] + at;                                                          \
                store_lanes(to, a);                                                                                     \
                store_lanes(to + (lanes), b);                                                                           \
                store_lanes(to + 2 * (lanes), c);                                                                       \
                store_lanes(to + 3 * (lanes), d);                                                                       \
            }                                                                                                           \
        }                                                                                                               \
        for (; at + (lanes) <= count; at += (lanes)) {                                                                  \
            vector a = load_lanes((const element *)sources[0] + at);                                                    \
            for (uint32_t s = 1; s < source_count; s++) {                                                               \
                a = add(a, load_lanes((const element *)sources[s] + at));                                               \
            }                                                                                                           \
            a = settle(a);                                                                                              \
            for (uint32_t k = 0; k < destination_count; k++) {                                                          \
                store_lanes((element *)destinations[k] + at, a);                                                        \
            }                                                                                                           \
        }                                                                                                               \
        return at;                                                                                                      \
    }

#define AVX2 "avx2,f16c"
#define AVX512 "avx512f,avx512bw,avx512vl"
#define AVX2_INLINE __attribute__((target(AVX2), always_inline)) static inline
#define AVX512_INLINE __attribute__((target(AVX512), always_inline)) static inline

/* Every NaN becomes the same NaN. */
AVX2_INLINE __m256 settle_256(__m256 v)
{
    __m256 unordered = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
    return _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(NAN_BITS)), unordered);
}

AVX512_INLINE __m512 settle_512(__m512 v)
{
    __mmask16 unordered = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    return _mm512_mask_mov_ps(v, unordered, _mm512_castsi512_ps(_mm512_set1_epi32(NAN_BITS)));
}

AVX2_INLINE __m256 load_half_256(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

AVX2_INLINE void store_half_256(uint16_t *to, __m256 v)
{
    _mm_storeu_si128((__m128i *)(void *)to, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

AVX512_INLINE __m512 load_half_512(const uint16_t *from)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)from));
}

AVX512_INLINE void store_half_512(uint16_t *to, __m512 v)
{
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

/* In integers: the instruction of AVX512_BF16 treats denormals as zero. */
AVX2_INLINE __m256 load_bfloat_256(const uint16_t *from)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

AVX2_INLINE void store_bfloat_256(uint16_t *to, __m256 v)
{
    __m256i bits = _mm256_castps_si256(v);
    __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd), 16);
    __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(rounded), _mm256_extracti128_si256(rounded, 1));
    _mm_storeu_si128((__m128i *)(void *)to, narrow);
}

AVX512_INLINE __m512 load_bfloat_512(const uint16_t *from)
{
    __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}

AVX512_INLINE void store_bfloat_512(uint16_t *to, __m512 v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd), 16);
    _mm256_storeu_si256((__m256i *)(void *)to, _mm512_cvtepi32_epi16(rounded));
}

SUM_KERNEL(sum_f32_avx2, AVX2, __m256, 8, float, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, settle_256)
SUM_KERNEL(sum_f16_avx2, AVX2, __m256, 8, uint16_t, load_half_256, store_half_256, _mm256_add_ps, settle_256)
SUM_KERNEL(sum_bf16_avx2, AVX2, __m256, 8, uint16_t, load_bfloat_256, store_bfloat_256, _mm256_add_ps, settle_256)
SUM_KERNEL(sum_f32_avx512, AVX512, __m512, 16, float, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, settle_512)
SUM_KERNEL(sum_f16_avx512, AVX512, __m512, 16, uint16_t, load_half_512, store_half_512, _mm512_add_ps, settle_512)
SUM_KERNEL(sum_bf16_avx512, AVX512, __m512, 16, uint16_t, load_bfloat_512, store_bfloat_512, _mm512_add_ps, settle_512)

static size_t sum_vectors(enum reduce_variant variant, enum element_type type, const void *const *sources,
                          uint32_t source_count, void *const *destinations, uint32_t destination_count, size_t count)
{
    typedef size_t kernel(const void *const *, uint32_t, void *const *, uint32_t, size_t);
    static kernel *const kernels[REDUCE_VARIANTS][4] = {
        [REDUCE_AVX2] = {[ELEMENT_F32] = sum_f32_avx2, [ELEMENT_F16] = sum_f16_avx2, [ELEMENT_BF16] = sum_bf16_avx2},
        [REDUCE_AVX512] = {[ELEMENT_F32] = sum_f32_avx512, [ELEMENT_F16] = sum_f16_avx512, [ELEMENT_BF16] = sum_bf16_avx512},
    };
    kernel *sum = kernels[variant][type];
    return sum == NULL ? 0 : sum(sources, source_count, destinations, destination_count, count);
}

/* All exceptions masked, round to nearest, denormals kept. */
#define CONTROL_DEFAULT 0x1f80u

static uint32_t control_set(uint32_t control)
{
    uint32_t before = _mm_getcsr();
    _mm_setcsr(control);
    return before;
}

/* Copies whole cache lines; `to` is aligned to a line. */
__attribute__((target(AVX2), noinline)) static void stream_avx2(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(from + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(from + at + 32));
        _mm256_stream_si256((__m256i *)(void *)(to + at), a);
        _mm256_stream_si256((__m256i *)(void *)(to + at + 32), b);
    }
    _mm_sfence();
}

__attribute__((target(AVX512), noinline)) static void stream_avx512(uint8_t *to, const uint8_t *from, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        _mm512_stream_si512((__m512i *)(void *)(to + at), _mm512_loadu_si512(from + at));
    }
    _mm_sfence();
}

void reduce_copy(enum reduce_variant variant, void *to, const void *from, size_t bytes, bool streaming)
{
    size_t head = -(uintptr_t)to & 63;
    if (!streaming || variant == REDUCE_PORTABLE || bytes < head + 64) {
        if (bytes > 0) {
            memcpy(to, from, bytes);
        }
        return;
    }
    uint8_t *out = (uint8_t *)to + head;
    const uint8_t *in = (const uint8_t *)from + head;
    size_t lines = (bytes - head) & ~(size_t)63;
    memcpy(to, from, head);
    memcpy(out + lines, in + lines, bytes - head - lines);
    if (variant == REDUCE_AVX512) {
        stream_avx512(out, in, lines);
    } else {
        stream_avx2(out, in, lines);
    }
}

#else

static size_t sum_vectors(enum reduce_variant variant, enum element_type type, const void *const *sources,
                          uint32_t source_count, void *const *destinations, uint32_t destination_count, size_t count)
{
    (void)variant, (void)type, (void)sources, (void)source_count, (void)destinations, (void)destination_count, (void)count;
    return 0;
}

#define CONTROL_DEFAULT 0

static uint32_t control_set(uint32_t control)
{
    return control;
}

void reduce_copy(enum reduce_variant variant, void *to, const void *from, size_t bytes, bool streaming)
{
    (void)variant, (void)streaming;
    if (bytes > 0) {
        memcpy(to, from, bytes);
    }
}

#endif

void reduce_sum(enum reduce_variant variant, enum element_type type, const void *const *sources, uint32_t source_count,
                void *const *destinations, uint32_t destination_count, size_t count)
{
    CHECK(variant < REDUCE_VARIANTS);
    CHECK(ELEMENT_ADDS(type));
    CHECK(source_count >= 1 && source_count <= REDUCE_SOURCES_MAX);
    uint32_t control = control_set(CONTROL_DEFAULT);
    size_t done = sum_vectors(variant, type, sources, source_count, destinations, destination_count, count);
    sum_portable(type, sources, source_count, destinations, destination_count, done, count);
    (void)control_set(control);
}

#include "train/group/reduce_cpu.h"

#ifdef __x86_64__
#include <cpuid.h>

/* clang's __builtin_cpu_supports does not know F16C. */
static bool has_f16c(void)
{
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool reduce_cpu_runs(enum reduce_variant variant)
{
#ifdef __x86_64__
    if (variant == REDUCE_AVX512) {
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    }
    if (variant == REDUCE_AVX2) {
        return __builtin_cpu_supports("avx2") && has_f16c();
    }
#endif
    return variant == REDUCE_PORTABLE;
}

enum reduce_variant reduce_cpu_best(void)
{
    if (reduce_cpu_runs(REDUCE_AVX512)) {
        return REDUCE_AVX512;
    }
    return reduce_cpu_runs(REDUCE_AVX2) ? REDUCE_AVX2 : REDUCE_PORTABLE;
}

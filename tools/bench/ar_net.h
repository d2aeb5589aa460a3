#ifndef TOOLS_BENCH_AR_NET_H
#define TOOLS_BENCH_AR_NET_H
/* What the all-reduce drivers over TCP (ar_*_tcp) have in common: sizes, blocks, the line of JSON. For C and C++.
 *
 * A size is measured in `blocks` blocks of about 0.15 s of calls back to back; a block's time is that of its slowest rank.
 * Rank 0 prints the median and the extremes over the blocks, in microseconds per call. A first block, which does not count,
 * warms up and says how many calls make a block. */

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AR_SIZES_MAX 32
#define AR_BLOCKS_MAX 64

static inline double ar_now_s(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void ar_die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    exit(1);
}

/* "4096,64K,1M": whole numbers of bytes, in powers of 1024. Returns how many. */
static inline int ar_sizes(const char *text, size_t sizes[AR_SIZES_MAX])
{
    int count = 0;
    while (*text != 0 && count < AR_SIZES_MAX) {
        char *end;
        size_t size = strtoull(text, &end, 10);
        if (end == text) {
            ar_die("sizes are like 4K,64K,1M");
        }
        unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        sizes[count++] = size << shift;
        end += shift != 0;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static inline int ar_calls(double call_s)
{
    double calls = 0.15 / call_s;
    return calls < 2 ? 2 : calls > 2000 ? 2000 : (int)calls;
}

/* The values that each rank brings, and whether they are the sum over the ranks. */
static inline void ar_fill(float *values, size_t count, int rank)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % 1000 + (size_t)rank);
    }
}

static inline int ar_wrong(const float *values, size_t count, int ranks)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] != (float)(i % 1000) * (float)ranks + (float)(ranks * (ranks - 1) / 2)) {
            return 1;
        }
    }
    return 0;
}

static inline int ar_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void ar_print(const char *name, int ranks, size_t bytes, double *block_s, int blocks)
{
    qsort(block_s, (size_t)blocks, sizeof *block_s, ar_order);
    double median = blocks % 2 != 0 ? block_s[blocks / 2] : (block_s[blocks / 2 - 1] + block_s[blocks / 2]) / 2;
    (void)printf("{\"name\": \"%s\", \"ranks\": %d, \"bytes\": %zu, \"us\": %.2f, \"min_us\": %.2f, \"max_us\": %.2f}\n", name,
                 ranks, bytes, median * 1e6, block_s[0] * 1e6, block_s[blocks - 1] * 1e6);
    (void)fflush(stdout);
}

#endif

#ifndef BENCH_COLLECTIVES_BENCH_H
#define BENCH_COLLECTIVES_BENCH_H
/* What the drivers of tools/bench/allreduce and allreduce_net have in common. For C and C++.
 *
 * A driver times an all-reduce of float32 sums on all ranks of a group, for each size in turn: a block is some calls back to
 * back, its time that of the slowest rank divided by the calls. The first block warms up, says how many calls fill
 * BENCH_BLOCK_S, and is checked. Rank 0 prints "BYTES MICROSECONDS" for each block that counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BENCH_BLOCK_S 0.05
#define BENCH_SIZES_MAX 32
#define BENCH_RANKS_MAX 64

struct bench {
    uint32_t rank, size;
    void *context;
    /* Sums `in` of all ranks into `out`, which may be the same. */
    void (*all_reduce)(void *context, float *in, float *out, size_t count);
    /* The largest of all ranks' numbers; no rank has it before all have called. */
    double (*worst)(void *context, double own);
};

/* One size: `count` floats, shown as `bytes`. */
void bench_measure(const struct bench *bench, float *in, float *out, size_t count, size_t bytes, int blocks);

/* "4K,64K,1M" to bytes; returns how many. Ends the process when the text is something else. */
size_t bench_sizes(const char *text, size_t sizes[BENCH_SIZES_MAX]);

/* Aligned to cache lines, for free(). */
float *bench_floats(size_t count);

/* Binds this process to processor rank % processors: two spinning ranks on one processor, while another is idle, would
 * cost each other a scheduler's tick. */
void bench_pin(uint32_t rank);

/* The same, where each of so many ranks can have a processor of its own; else nothing, and false. */
bool bench_pin_apart(uint32_t rank, uint32_t ranks_here);

/* Where ranks that are started each for itself find each other: files in a common directory. find waits for the rank. */
void bench_publish(const char *directory, uint32_t rank, const char *host, uint16_t port);
void bench_find(const char *directory, uint32_t rank, char host[64], uint16_t *port);

#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void bench_die(const char *what);

#ifdef __cplusplus
}
#endif

#endif

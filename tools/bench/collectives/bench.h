#ifndef BENCH_COLLECTIVES_BENCH_H
#define BENCH_COLLECTIVES_BENCH_H
/* What the drivers of tools/bench/allreduce and allreduce_net have in common. For C and C++.
 *
 * A driver times an all-reduce of float32 sums on all ranks of a group, for each size in turn: a block is some calls back to
 * back; the block's time is the slowest rank's, divided by the calls. The first block warms up, gives the number of calls that
 * fill BENCH_BLOCK_S, and is checked. Rank 0 prints "BYTES MICROSECONDS" for each later block. */

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
    /* Sums `in` of all ranks into `out`; both may be the same array. */
    void (*all_reduce)(void *context, float *in, float *out, size_t count);
    /* Returns the largest of all ranks' numbers, once all ranks have called. */
    double (*worst)(void *context, double own);
};

/* Measures and prints one size: `blocks` blocks of all-reduces of `count` floats, printed as `bytes`. */
void bench_measure(const struct bench *bench, float *in, float *out, size_t count, size_t bytes, int blocks);

/* Reads "4K,64K,1M" as bytes; returns the number of sizes. Ends the process at any other text. */
size_t bench_sizes(const char *text, size_t sizes[BENCH_SIZES_MAX]);

/* Allocates an array aligned to cache lines; the caller frees it with free(). Ends the process if memory is short. */
float *bench_floats(size_t count);

/* Binds this process to processor rank % processors: two spinning ranks on one processor, while another is idle, would
 * cost each other a scheduler's tick. */
void bench_pin(uint32_t rank);

/* Binds the rank as bench_pin does if there is a processor for each of `ranks_here` ranks; else does nothing, and returns
 * false. */
bool bench_pin_apart(uint32_t rank, uint32_t ranks_here);

/* Publishes the rank's address as a file in a directory that separately started ranks share. */
void bench_publish(const char *directory, uint32_t rank, const char *host, uint16_t port);

/* Waits until `rank` has published its address in `directory`, and reads it. */
void bench_find(const char *directory, uint32_t rank, char host[64], uint16_t *port);

/* Writes `what` as a line to standard error and ends the process with status 1. */
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

#ifndef BENCH_COLLECTIVES_BENCH_H
#define BENCH_COLLECTIVES_BENCH_H
/* What the drivers of tools/bench/allreduce have in common. A driver times an all-reduce of float32 sums on all ranks
 * of a group, for each size in turn: a block is some calls back to back, its time that of the slowest rank divided by
 * the calls. The first block warms up, says how many calls fill BENCH_BLOCK_S, and is checked. Rank 0 prints "BYTES
 * MICROSECONDS" for each block that counts. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_BLOCK_S 0.05
#define BENCH_SIZES_MAX 32

double bench_seconds(void); /* of a clock that only goes forward */

/* "4K,64K,1M" to bytes; returns how many. Ends the process when the text is something else. */
size_t bench_sizes(const char *text, size_t sizes[BENCH_SIZES_MAX]);

/* Binds this process to processor rank % processors: two spinning ranks on one processor, while another is idle, would
 * cost each other a scheduler's tick. */
void bench_pin(uint32_t rank);

/* How many calls fill a block, when one takes so long: 1 ... 4000. */
uint32_t bench_calls(double seconds_of_one);

/* What a rank brings, and whether the sum over `size` ranks is right. Small whole numbers: exact in any order. */
void bench_fill(float *values, size_t count, uint32_t rank);
bool bench_sum_holds(const float *values, size_t count, uint32_t size);

_Noreturn void bench_die(const char *what);

#endif

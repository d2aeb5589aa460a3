/* A floor under all-reduce within one host: the work of the memory alone. The inputs and outputs of all ranks lie in shared
 * memory from the start. Barrier; each rank sums one slice of all inputs and stores the sums to all outputs; barrier. No
 * group, no errors, no waiting but a spin (or sched_yield, with more ranks than processors). Outputs lie apart from the
 * inputs, as in most interfaces, or replace the inputs, which moves half as much memory.
 *
 * usage: bench_floor_shm RANKS SIZES BLOCKS apart|place (tools/bench/allreduce runs it) */

#include <immintrin.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/collectives/bench.h"

#define PIECE 4096                      /* floats, summed in the first cache */
#define STREAM_BYTES (8u * 1024 * 1024) /* arrays so large are stored past the caches */

struct common {
    _Alignas(64) _Atomic uint32_t arrived;
    _Alignas(64) _Atomic uint32_t turn;
    _Alignas(64) double seconds[BENCH_RANKS_MAX];
    float *in[BENCH_RANKS_MAX], *out[BENCH_RANKS_MAX];
};

static struct common *common;
static uint32_t size, rank;
static bool crowded;

static void *shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        bench_die("no memory");
    }
    return memory;
}

static void barrier(void)
{
    uint32_t turn = atomic_load(&common->turn);
    if (atomic_fetch_add(&common->arrived, 1) == size - 1) {
        atomic_store(&common->arrived, 0);
        atomic_store(&common->turn, turn + 1);
        return;
    }
    while (atomic_load(&common->turn) == turn) {
        if (crowded) {
            (void)sched_yield();
        } else {
            _mm_pause();
        }
    }
}

__attribute__((target("avx512f"))) static void stream_512(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i += 16) {
        _mm512_stream_ps(to + i, _mm512_load_ps(from + i));
    }
}

__attribute__((target("avx2"))) static void stream_256(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i += 8) {
        _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
    }
}

__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3"))) static void
add(float *sum, const float *x, const float *y, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        sum[i] = x[i] + y[i];
    }
}

static void reduce(size_t begin, size_t end, bool streaming)
{
    static _Alignas(64) float sum[PIECE];
    bool wide = __builtin_cpu_supports("avx512f"), vectors = __builtin_cpu_supports("avx2");
    for (size_t at = begin; at < end; at += PIECE) {
        size_t count = end - at < PIECE ? end - at : PIECE;
        add(sum, common->in[0] + at, common->in[1] + at, count);
        for (uint32_t r = 2; r < size; r++) {
            add(sum, sum, common->in[r] + at, count);
        }
        for (uint32_t r = 0; r < size; r++) {
            float *to = common->out[r] + at;
            if (!streaming || !vectors || count % 16 != 0) {
                memcpy(to, sum, count * sizeof *sum);
            } else if (wide) {
                stream_512(to, sum, count);
            } else {
                stream_256(to, sum, count);
            }
        }
    }
    _mm_sfence();
}

static void all_reduce(void *context, float *in, float *out, size_t count)
{
    (void)context;
    size_t slice = (count / size + 15) / 16 * 16, begin = slice * rank, end = begin + slice;
    begin = begin < count ? begin : count;
    end = end < count && rank != size - 1 ? end : count;
    barrier();
    reduce(begin, end, count * sizeof(float) >= STREAM_BYTES && in != out);
    barrier();
}

static double worst_of(void *context, double own)
{
    (void)context;
    double worst = 0;
    common->seconds[rank] = own;
    barrier();
    for (uint32_t r = 0; r < size; r++) {
        worst = common->seconds[r] > worst ? common->seconds[r] : worst;
    }
    barrier();
    return worst;
}

int main(int count, char **words)
{
    if (count != 5 || (size = (uint32_t)atoi(words[1])) < 2 || size > BENCH_RANKS_MAX) {
        bench_die("usage: bench_floor_shm RANKS SIZES BLOCKS apart|place");
    }
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[2], sizes), largest = 0;
    for (size_t s = 0; s < kinds; s++) {
        largest = sizes[s] > largest ? sizes[s] : largest;
    }
    crowded = size > (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    common = shared(sizeof *common);
    for (uint32_t r = 0; r < size; r++) {
        common->in[r] = shared(largest);
        common->out[r] = strcmp(words[4], "place") == 0 ? common->in[r] : shared(largest);
    }
    for (uint32_t r = 1; r < size && rank == 0; r++) {
        rank = fork() == 0 ? r : 0;
    }
    bench_pin(rank);
    const struct bench bench = {.rank = rank, .size = size, .all_reduce = all_reduce, .worst = worst_of};
    for (size_t s = 0; s < kinds; s++) {
        bench_measure(&bench, common->in[rank], common->out[rank], sizes[s] / sizeof(float), sizes[s], atoi(words[3]));
    }
    if (rank == 0) {
        (void)fflush(stdout);
        while (wait(NULL) > 0) {
        }
    }
    return 0;
}

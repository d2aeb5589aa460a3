#include "tools/bench/collectives/bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

double bench_seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

size_t bench_sizes(const char *text, size_t sizes[BENCH_SIZES_MAX])
{
    size_t count = 0;
    while (*text != 0) {
        char *end;
        size_t value = strtoul(text, &end, 10);
        value <<= *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
        end += *end == 'K' || *end == 'M';
        if (end == text || count == BENCH_SIZES_MAX || value < sizeof(float) || (*end != ',' && *end != 0)) {
            bench_die("sizes are written 4K,64K,1M");
        }
        sizes[count++] = value;
        text = end + (*end == ',');
    }
    return count;
}

void bench_pin(uint32_t rank)
{
    cpu_set_t all, one;
    if (sched_getaffinity(0, sizeof all, &all) != 0) {
        return;
    }
    int left = (int)rank % CPU_COUNT(&all);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(i, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
        }
    }
}

uint32_t bench_calls(double seconds_of_one)
{
    double calls = BENCH_BLOCK_S / seconds_of_one;
    return calls < 1 ? 1 : calls > 4000 ? 4000 : (uint32_t)calls;
}

void bench_fill(float *values, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % 1000 + rank);
    }
}

bool bench_sum_holds(const float *values, size_t count, uint32_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] != (float)(i % 1000 * size + size * (size - 1) / 2)) {
            return false;
        }
    }
    return true;
}

_Noreturn void bench_die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    _exit(1);
}

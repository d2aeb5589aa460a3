#include "tools/bench/collectives/bench.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Noreturn void bench_die(const char *what)
{
    (void)fprintf(stderr, "%s\n", what);
    _exit(1);
}

/* ---- measuring ---- */

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The number of calls that fill a block when one call takes so many seconds. */
static uint32_t calls_of(double seconds_of_one)
{
    double calls = BENCH_BLOCK_S / seconds_of_one;
    return calls < 1 ? 1 : calls > 4000 ? 4000 : (uint32_t)calls;
}

/* Small whole numbers: exact in any order. */
static void fill(float *values, size_t count, uint32_t rank)
{
    for (size_t i = 0; i < count; i++) {
        values[i] = (float)(i % 1000 + rank);
    }
}

static bool sum_holds(const float *values, size_t count, uint32_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (values[i] != (float)(i % 1000 * size + size * (size - 1) / 2)) {
            return false;
        }
    }
    return true;
}

static double block(const struct bench *bench, float *in, float *out, size_t count, uint32_t calls)
{
    (void)bench->worst(bench->context, 0);
    double start = seconds();
    for (uint32_t i = 0; i < calls; i++) {
        bench->all_reduce(bench->context, in, out, count);
    }
    return bench->worst(bench->context, (seconds() - start) / calls);
}

void bench_measure(const struct bench *bench, float *in, float *out, size_t count, size_t bytes, int blocks)
{
    fill(in, count, bench->rank);
    (void)block(bench, in, out, count, 1);
    if (!sum_holds(out, count, bench->size)) {
        bench_die("the sum is wrong");
    }
    memset(in, 0, count * sizeof *in); /* keeps sums in place from growing with each call */
    uint32_t calls = calls_of(block(bench, in, out, count, 2));
    for (int b = 0; b < blocks; b++) {
        double worst = block(bench, in, out, count, calls);
        if (bench->rank == 0) {
            (void)printf("%zu %.3f\n", bytes, worst * 1e6);
        }
    }
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

float *bench_floats(size_t count)
{
    float *floats = aligned_alloc(64, (count * sizeof *floats + 127) / 64 * 64);
    if (floats == NULL) {
        bench_die("no memory is left");
    }
    return floats;
}

/* ---- processors ---- */

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

bool bench_pin_apart(uint32_t rank, uint32_t ranks_here)
{
    cpu_set_t all;
    if (sched_getaffinity(0, sizeof all, &all) != 0 || ranks_here > (uint32_t)CPU_COUNT(&all)) {
        return false;
    }
    bench_pin(rank);
    return true;
}

/* ---- finding each other ---- */

void bench_publish(const char *directory, uint32_t rank, const char *host, uint16_t port)
{
    char path[512], whole[512];
    (void)snprintf(path, sizeof path, "%s/part.%u", directory, rank);
    (void)snprintf(whole, sizeof whole, "%s/rank.%u", directory, rank);
    FILE *file = fopen(path, "w");
    if (file == NULL || fprintf(file, "%s %u\n", host, port) < 0 || fclose(file) != 0 || rename(path, whole) != 0) {
        bench_die("cannot write to the common directory");
    }
}

void bench_find(const char *directory, uint32_t rank, char host[64], uint16_t *port)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s/rank.%u", directory, rank);
    for (int tries = 0; tries < 3000; tries++) {
        FILE *file = fopen(path, "r");
        unsigned number = 0;
        int found = file != NULL ? fscanf(file, "%63s %u", host, &number) : 0;
        if (file != NULL) {
            (void)fclose(file);
        }
        if (found == 2) {
            *port = (uint16_t)number;
            return;
        }
        struct timespec pause = {.tv_nsec = 10000000};
        (void)nanosleep(&pause, NULL);
    }
    bench_die("a rank did not come");
}

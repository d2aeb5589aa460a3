/* All-reduce of train/shm_group.h: with memory of the group, or with memory of the process.
 *
 * usage: bench_shm RANKS SIZES BLOCKS group|process (tools/bench/allreduce runs it) */

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/bench/collectives/bench.h"
#include "train/shm_group.h"

static double *seconds; /* by rank, shared */
static struct shm_group_member members[SHM_GROUP_RANKS_MAX];

static void must(struct shm_group *group, int error)
{
    if (error != 0) {
        bench_die(shm_group_error(group));
    }
}

static double block(struct shm_group *group, uint32_t rank, uint32_t size, float *values, size_t count, uint32_t calls)
{
    must(group, shm_group_barrier(group));
    double start = bench_seconds();
    for (uint32_t i = 0; i < calls; i++) {
        must(group, shm_group_all_reduce(group, ELEMENT_F32, values, count));
    }
    seconds[rank] = (bench_seconds() - start) / calls;
    must(group, shm_group_barrier(group));
    double worst = 0;
    for (uint32_t r = 0; r < size; r++) {
        worst = seconds[r] > worst ? seconds[r] : worst;
    }
    must(group, shm_group_barrier(group));
    return worst;
}

static void measure(struct shm_group *group, const struct shm_group_options *options, size_t bytes, int blocks,
                    bool own)
{
    size_t count = bytes / sizeof(float);
    void *memory = own ? malloc(bytes) : NULL;
    if (own ? memory == NULL : shm_group_alloc(group, bytes, &memory) != 0) {
        bench_die("no memory");
    }
    float *values = memory;
    bench_fill(values, count, options->rank);
    must(group, shm_group_all_reduce(group, ELEMENT_F32, values, count));
    if (!bench_sum_holds(values, count, options->size)) {
        bench_die("the sum is wrong");
    }
    memset(values, 0, bytes); /* so that sums do not grow from call to call */
    uint32_t calls = bench_calls(block(group, options->rank, options->size, values, count, 2));
    for (int b = 0; b < blocks; b++) {
        double worst = block(group, options->rank, options->size, values, count, calls);
        if (options->rank == 0) {
            (void)printf("%zu %.3f\n", bytes, worst * 1e6);
        }
    }
    if (own) {
        free(memory);
    } else {
        shm_group_free(group, memory);
    }
}

int main(int count, char **words)
{
    uint32_t size = count == 5 ? (uint32_t)atoi(words[1]) : 0;
    if (size < 1 || size > SHM_GROUP_RANKS_MAX || sodium_init() < 0) {
        bench_die("usage: bench_shm RANKS SIZES BLOCKS group|process");
    }
    struct shm_group_options options = {.size = size,
                                        .generation = 1,
                                        .group = "bench",
                                        .members = members,
                                        .open_timeout_ms = 10000,
                                        .stall_timeout_ms = 60000};
    randombytes_buf(options.key, sizeof options.key);
    for (uint32_t r = 0; r < size; r++) {
        (void)snprintf(members[r].name, sizeof members[r].name, "bench-%d-%u", getpid(), r);
    }
    seconds =
        mmap(NULL, SHM_GROUP_RANKS_MAX * sizeof *seconds, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (seconds == MAP_FAILED) {
        bench_die("no memory");
    }
    for (uint32_t r = 1; r < size && options.rank == 0; r++) {
        options.rank = fork() == 0 ? r : 0;
    }
    bench_pin(options.rank);
    int listen_fd = -1;
    struct shm_group *group;
    char error[SHM_GROUP_ERROR_BYTES];
    if (shm_group_listen(members[options.rank].name, &listen_fd) != 0 ||
        shm_group_open(&group, listen_fd, &options, error) != 0) {
        bench_die("the group could not be opened");
    }
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[2], sizes);
    for (size_t s = 0; s < kinds; s++) {
        measure(group, &options, sizes[s], atoi(words[3]), strcmp(words[4], "process") == 0);
    }
    shm_group_close(&group);
    if (options.rank == 0) {
        (void)fflush(stdout);
        while (wait(NULL) > 0) {
        }
    }
    return 0;
}

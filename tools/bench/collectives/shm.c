/* All-reduce of train/group/shm/group.h: with memory of the group, or with memory of the process.
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
#include "train/group/shm/group.h"

static double *seconds; /* by rank, shared */
static struct shm_group_member members[SHM_GROUP_RANKS_MAX];
static struct shm_group *group;
static struct bench bench;

static void must(int error)
{
    if (error != 0) {
        bench_die(shm_group_error(group));
    }
}

static void all_reduce(void *context, float *in, float *out, size_t count)
{
    (void)context, (void)out;
    must(shm_group_all_reduce(group, ELEMENT_F32, in, count));
}

static double worst_of(void *context, double own)
{
    (void)context;
    double worst = 0;
    seconds[bench.rank] = own;
    must(shm_group_barrier(group));
    for (uint32_t r = 0; r < bench.size; r++) {
        worst = seconds[r] > worst ? seconds[r] : worst;
    }
    must(shm_group_barrier(group));
    return worst;
}

static void measure(size_t bytes, int blocks, bool own)
{
    size_t count = bytes / sizeof(float);
    void *memory = own ? bench_floats(count) : NULL;
    if (!own) {
        must(shm_group_alloc(group, bytes, &memory));
    }
    bench_measure(&bench, memory, memory, count, bytes, blocks);
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
    bench = (struct bench){.rank = options.rank, .size = size, .all_reduce = all_reduce, .worst = worst_of};
    int listen_fd = -1;
    char error[SHM_GROUP_ERROR_BYTES];
    if (shm_group_listen(members[options.rank].name, &listen_fd) != 0 ||
        shm_group_open(&group, listen_fd, &options, error) != 0) {
        bench_die("the group could not be opened");
    }
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[2], sizes);
    for (size_t s = 0; s < kinds; s++) {
        measure(sizes[s], atoi(words[3]), strcmp(words[4], "process") == 0);
    }
    shm_group_close(&group);
    if (options.rank == 0) {
        (void)fflush(stdout);
        while (wait(NULL) > 0) {
        }
    }
    return 0;
}

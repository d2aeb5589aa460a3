/* All-reduce of train/group/tcp/group.h.
 *
 * usage: bench_tcp RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS RANKS_HERE [ALGORITHM] (tools/bench/allreduce_net runs it)
 * ADDRESS is this rank's address, numeric; RANKS_HERE the number of ranks that share the processors. Built twice: bench_tcp
 * encrypted, as libshoal is, and bench_tcp_plain unencrypted, for measuring only. */

#include <stdlib.h>

#include "base/bytes.h"
#include "tools/bench/collectives/bench.h"
#include "train/group/tcp/group.h"

static struct tcp_group *group;
static struct bench bench;
static enum plan_algorithm algorithm; /* 0: the cheapest */

static void must(int error)
{
    if (error != 0) {
        bench_die(tcp_group_error(group));
    }
}

static void all_reduce(void *context, float *in, float *out, size_t count)
{
    (void)context, (void)out;
    must(tcp_group_run(group, PLAN_ALL_REDUCE, algorithm, ELEMENT_F32, in, count, 0));
}

static double worst_of(void *context, double own)
{
    (void)context;
    double all[PLAN_RANKS_MAX] = {0}, worst = 0;
    all[bench.rank] = own;
    must(tcp_group_all_gather(group, ELEMENT_BYTES, all, sizeof all[0] * bench.size));
    for (uint32_t i = 0; i < bench.size; i++) {
        worst = all[i] > worst ? all[i] : worst;
    }
    return worst;
}

int main(int count, char **words)
{
    if (count < 8) {
        bench_die("usage: bench_tcp RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS RANKS_HERE [ALGORITHM]");
    }
    bench = (struct bench){.rank = (uint32_t)atoi(words[1]),
                           .size = (uint32_t)atoi(words[2]),
                           .all_reduce = all_reduce,
                           .worst = worst_of};
    if (bench.size < 1 || bench.size > PLAN_RANKS_MAX || bench.rank >= bench.size) {
        bench_die("a group has 1 to 64 ranks");
    }
    algorithm = count > 8 ? plan_algorithm_named(words[8]) : 0;
    struct tcp_member members[PLAN_RANKS_MAX];
    struct tcp_options options = {
        .rank = bench.rank,
        .size = bench.size,
        .group = "bench",
        .members = members,
        .open_timeout_ms = 30000,
        .stall_timeout_ms = 60000,
        .spin_us = bench_pin_apart(bench.rank, (uint32_t)atoi(words[7])) ? 50 : 0,
    };
    int listen_fd;
    uint16_t port;
    if (tcp_group_listen(words[4], &listen_fd, &port) != 0) {
        bench_die("cannot listen on the address");
    }
    bench_publish(words[3], bench.rank, words[4], port);
    for (uint32_t i = 0; i < bench.size; i++) {
        char host[64];
        bench_find(words[3], i, host, &members[i].port);
        bytes_copy_text(members[i].host, sizeof members[i].host, host);
    }
    char error[TCP_ERROR_BYTES];
    if (tcp_group_open(&group, listen_fd, &options, error) != 0) {
        bench_die(error);
    }
    size_t sizes[BENCH_SIZES_MAX], kinds = bench_sizes(words[5], sizes);
    for (size_t s = 0; s < kinds; s++) {
        size_t floats = sizes[s] / sizeof(float);
        float *values = bench_floats(floats);
        bench_measure(&bench, values, values, floats, sizes[s], atoi(words[6]));
        free(values);
    }
    must(tcp_group_barrier(group));
    tcp_group_close(&group);
    return 0;
}

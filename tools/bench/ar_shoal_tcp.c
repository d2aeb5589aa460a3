/* All-reduce of float32 over Shoal's TCP transport.
 *
 * usage: ar_shoal_tcp NAME RANK RANKS DIRECTORY ADDRESS SIZES BLOCKS RANKS_HERE [ALGORITHM]
 * ADDRESS is this rank's own, numeric; RANKS_HERE how many ranks share its cores. Built twice: ar_shoal_tcp as libshoal is,
 * encrypted, and ar_shoal_tcp_plain without, which is for measuring only. */

#include "base/bytes.h"
#include "tools/bench/ar_net.h"
#include "tools/bench/ar_place.h"
#include "train/tcp_group.h"

static struct tcp_group *group;

static void check(int error)
{
    if (error != 0) {
        ar_die(tcp_group_error(group));
    }
}

static double worst_of(double own_s, int rank, int ranks)
{
    float all[PLAN_RANKS_MAX] = {0};
    all[rank] = (float)own_s;
    check(tcp_group_all_gather(group, ELEMENT_F32, all, (uint64_t)ranks));
    double worst = 0;
    for (int i = 0; i < ranks; i++) {
        worst = all[i] > worst ? all[i] : worst;
    }
    return worst;
}

static void measure(const char *name, enum plan_algorithm algorithm, int rank, int ranks, size_t bytes, int blocks)
{
    size_t count = bytes / sizeof(float);
    float *values = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (values == NULL) {
        ar_die("no memory is left");
    }
    ar_fill(values, count, rank);
    check(tcp_group_run(group, PLAN_ALL_REDUCE, algorithm, ELEMENT_F32, values, count, 0));
    if (ar_wrong(values, count, ranks)) {
        ar_die("wrong sum");
    }
    double block_s[AR_BLOCKS_MAX];
    int calls = 2;
    for (int block = -1; block < blocks; block++) {
        memset(values, 0, bytes);
        check(tcp_group_barrier(group));
        double begin_s = ar_now_s();
        for (int i = 0; i < calls; i++) {
            check(tcp_group_run(group, PLAN_ALL_REDUCE, algorithm, ELEMENT_F32, values, count, 0));
        }
        double worst_s = worst_of((ar_now_s() - begin_s) / calls, rank, ranks);
        if (block < 0) {
            calls = ar_calls(worst_s);
        } else {
            block_s[block] = worst_s;
        }
    }
    if (rank == 0) {
        ar_print(name, ranks, bytes, block_s, blocks);
    }
    free(values);
}

int main(int argc, char **argv)
{
    if (argc < 9) {
        return 2;
    }
    int rank = atoi(argv[2]), ranks = atoi(argv[3]), blocks = atoi(argv[7]);
    if (ranks < 1 || ranks > PLAN_RANKS_MAX || rank < 0 || rank >= ranks || blocks < 1 || blocks > AR_BLOCKS_MAX) {
        return 2;
    }
    struct tcp_member members[PLAN_RANKS_MAX];
    struct tcp_options options = {
        .rank = (uint32_t)rank,
        .size = (uint32_t)ranks,
        .group = "bench",
        .members = members,
        .open_timeout_ms = 30000,
        .stall_timeout_ms = 60000,
        .spin_us = ar_own_core(rank, atoi(argv[8])) ? 50 : 0,
    };
    int listen_fd;
    uint16_t port;
    if (tcp_group_listen(argv[5], &listen_fd, &port) != 0) {
        ar_die("cannot listen on the address");
    }
    ar_publish(argv[4], rank, argv[5], port);
    for (int i = 0; i < ranks; i++) {
        char host[64];
        ar_find(argv[4], i, host, &members[i].port);
        bytes_copy_text(members[i].host, sizeof members[i].host, host);
    }
    char error[TCP_ERROR_BYTES];
    if (tcp_group_open(&group, listen_fd, &options, error) != 0) {
        ar_die(error);
    }
    size_t sizes[AR_SIZES_MAX];
    int count = ar_sizes(argv[6], sizes);
    for (int i = 0; i < count; i++) {
        measure(argv[1], argc > 9 ? plan_algorithm_named(argv[9]) : 0, rank, ranks, sizes[i], blocks);
    }
    check(tcp_group_barrier(group));
    tcp_group_close(&group);
    return 0;
}

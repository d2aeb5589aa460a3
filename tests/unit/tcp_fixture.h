#ifndef TESTS_UNIT_TCP_FIXTURE_H
#define TESTS_UNIT_TCP_FIXTURE_H
/* Groups over real sockets of this machine: one thread per rank. cmocka's assertions belong to the main thread, so the
 * threads collect results and the main thread judges them. */

#include "train/group/tcp/group.h"

#define RANKS_MAX 17

struct rank {
    struct tcp_options options;
    int listen_fd;
    int (*body)(struct rank *rank, struct tcp_group *group);
    uint64_t count;
    float *values;
    int open_result, result;
    char open_error[TCP_ERROR_BYTES], error[TCP_ERROR_BYTES];
    uint32_t refused;
    uint64_t took_ms;
};

struct group {
    uint32_t size;
    struct tcp_member members[RANKS_MAX];
    struct rank ranks[RANKS_MAX];
};

uint64_t clock_ms(void);

/* Everybody listens on 127.0.0.1; timeouts are 20 s. */
void group_init(struct group *g, uint32_t size);

/* Opens a rank's group, calls its body and closes it. */
void rank_run(struct rank *rank);

/* All ranks at once, until the last is done. */
void group_run(struct group *g);

/* The caller frees it. Room for one more than `count`. */
float *filled(uint64_t count, uint64_t seed);

#endif

#include "tests/unit/tcp_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/random.h"

uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void group_init(struct group *g, uint32_t size)
{
    memset(g, 0, sizeof *g);
    g->size = size;
    for (uint32_t i = 0; i < size; i++) {
        struct rank *r = &g->ranks[i];
        strcpy(g->members[i].host, "127.0.0.1");
        assert_int_equal(tcp_group_listen("127.0.0.1", &r->listen_fd, &g->members[i].port), 0);
        r->options = (struct tcp_options){
            .rank = i,
            .size = size,
            .generation = 3,
            .key = {1, 2, 3},
            .group = "0011223344556677/4/1",
            .members = g->members,
            .open_timeout_ms = 20000,
            .stall_timeout_ms = 20000,
        };
    }
}

void rank_run(struct rank *r)
{
    struct tcp_group *group = NULL;
    r->open_result = tcp_group_open(&group, r->listen_fd, &r->options, r->open_error);
    if (r->open_result == 0) {
        uint64_t start_ms = clock_ms();
        r->refused = tcp_group_refused(group);
        r->result = r->body(r, group);
        r->took_ms = clock_ms() - start_ms;
        memcpy(r->error, tcp_group_error(group), sizeof r->error);
        tcp_group_close(&group);
    }
}

static void *rank_thread(void *argument)
{
    rank_run(argument);
    return NULL;
}

void group_run(struct group *g)
{
    pthread_t threads[RANKS_MAX];
    for (uint32_t i = 0; i < g->size; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, rank_thread, &g->ranks[i]), 0);
    }
    for (uint32_t i = 0; i < g->size; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

float *filled(uint64_t count, uint64_t seed)
{
    float *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    struct random random;
    random_init(&random, seed);
    for (uint64_t i = 0; i < count; i++) {
        values[i] = (float)(random_double(&random) - 0.5) * 10.0f;
    }
    return values;
}

/* Groups over real sockets of this machine: one thread per rank. cmocka's assertions belong to the main thread, so the
 * threads collect results and the main thread judges them. */
#include "train/tcp_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/random.h"

#define RANKS_MAX 17
#define PIECE_BYTES 65536

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

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void group_init(struct group *g, uint32_t size)
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

static void *rank_thread(void *argument)
{
    struct rank *r = argument;
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
    return NULL;
}

static void group_run(struct group *g)
{
    pthread_t threads[RANKS_MAX];
    for (uint32_t i = 0; i < g->size; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, rank_thread, &g->ranks[i]), 0);
    }
    for (uint32_t i = 0; i < g->size; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static float *filled(uint64_t count, uint64_t seed)
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

static int body_all_reduce(struct rank *rank, struct tcp_group *group)
{
    return tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count);
}

static void test_sums_have_the_same_bits_on_every_rank(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 5};
    static const uint64_t counts[] = {0, 1, 7, 1000, 300001};
    for (size_t s = 0; s < 4; s++) {
        for (size_t c = 0; c < 5; c++) {
            struct group g;
            group_init(&g, sizes[s]);
            double *expected = calloc(counts[c] + 1, sizeof *expected);
            assert_non_null(expected);
            for (uint32_t i = 0; i < g.size; i++) {
                g.ranks[i].body = body_all_reduce;
                g.ranks[i].count = counts[c];
                g.ranks[i].values = filled(counts[c], 100 + i);
                for (uint64_t k = 0; k < counts[c]; k++) {
                    expected[k] += (double)g.ranks[i].values[k];
                }
            }
            group_run(&g);
            for (uint32_t i = 0; i < g.size; i++) {
                assert_string_equal(g.ranks[i].open_error, "");
                assert_string_equal(g.ranks[i].error, "");
                assert_int_equal(g.ranks[i].result, 0);
                assert_memory_equal(g.ranks[i].values, g.ranks[0].values, counts[c] * sizeof(float));
            }
            for (uint64_t k = 0; k < counts[c]; k++) {
                double off = (double)g.ranks[0].values[k] - expected[k];
                assert_true(off < 1e-5 && off > -1e-5); /* 5 values below 5: 4 roundings of at most 2^-20 */
            }
            for (uint32_t i = 0; i < g.size; i++) {
                free(g.ranks[i].values);
            }
            free(expected);
        }
    }
}

static int body_mixed(struct rank *rank, struct tcp_group *group)
{
    /* Many collectives of changing kind and size in one group, so that counters and buffers carry over. */
    for (uint32_t round = 0; round < 40; round++) {
        uint64_t count = (round * 7919) % 60000;
        float *values = filled(count, round);
        int error = tcp_group_all_reduce(group, PLAN_F32, values, count);
        float *again = filled(count, round);
        for (uint64_t i = 0; i < count && error == 0; i++) {
            float sum = again[i];
            for (uint32_t k = 1; k < rank->options.size; k++) {
                sum += again[i]; /* equal values: any order of ranks gives this */
            }
            error = sum == values[i] ? 0 : ERR_CORRUPT;
        }
        uint8_t *bytes = calloc(1, 200001);
        if (bytes == NULL) {
            error = ERR_MEMORY;
        }
        uint32_t root = round % rank->options.size;
        if (error == 0) {
            memset(bytes, rank->options.rank == root ? (int)round + 1 : 0, 200001);
            error = tcp_group_broadcast(group, bytes, round * 5000 + (round & 1), root);
        }
        for (size_t i = 0; i < round * 5000 + (round & 1) && error == 0; i++) {
            error = bytes[i] == round + 1 ? 0 : ERR_CORRUPT;
        }
        free(bytes);
        free(values);
        free(again);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static void test_many_collectives_in_one_group(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 3; size++) {
        struct group g;
        group_init(&g, size);
        for (uint32_t i = 0; i < size; i++) {
            g.ranks[i].body = body_mixed;
        }
        group_run(&g);
        for (uint32_t i = 0; i < size; i++) {
            assert_string_equal(g.ranks[i].error, "");
            assert_int_equal(g.ranks[i].result, 0);
        }
    }
}

static int body_vanish(struct rank *rank, struct tcp_group *group)
{
    if (rank->options.rank == 1) {
        return 0; /* closes the group and is gone */
    }
    return tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count);
}

static void test_a_peer_that_vanishes_ends_the_others_at_once(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 5);
    for (uint32_t i = 0; i < 5; i++) {
        g.ranks[i].body = body_vanish;
        g.ranks[i].count = 1000000;
        g.ranks[i].values = calloc(1000000, sizeof(float));
        assert_non_null(g.ranks[i].values);
    }
    group_run(&g);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != 1) {
            assert_int_equal(g.ranks[i].result, ERR_CLOSED);
            assert_true(g.ranks[i].took_ms < 10000); /* not the stall timeout of 20 s */
            assert_non_null(strstr(g.ranks[i].error, "lost rank"));
        }
        free(g.ranks[i].values);
    }
}

static pthread_barrier_t stopped_done;

static int body_stopped(struct rank *rank, struct tcp_group *group)
{
    int error = 0;
    if (rank->options.rank != 1) {
        error = tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count);
    }
    (void)pthread_barrier_wait(&stopped_done); /* rank 1 keeps its sockets open, and says nothing, until all are done */
    return error;
}

static void test_a_peer_that_stops_is_a_timeout(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 2);
    assert_int_equal(pthread_barrier_init(&stopped_done, NULL, 2), 0);
    for (uint32_t i = 0; i < 2; i++) {
        g.ranks[i].body = body_stopped;
        g.ranks[i].count = 100;
        g.ranks[i].values = calloc(100, sizeof(float));
        g.ranks[i].options.stall_timeout_ms = 300;
    }
    group_run(&g);
    assert_int_equal(g.ranks[0].result, ERR_TIMEOUT);
    assert_non_null(strstr(g.ranks[0].error, "stalled"));
    for (uint32_t i = 0; i < 2; i++) {
        free(g.ranks[i].values);
    }
    (void)pthread_barrier_destroy(&stopped_done);
}

static int body_unequal(struct rank *rank, struct tcp_group *group)
{
    int error = tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count);
    return error == tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count) ? error : ERR_USAGE; /* it stays broken */
}

static void test_unequal_lengths_are_an_error_on_every_rank(void **state)
{
    (void)state;
    static const uint64_t wrong[] = {0, 999, 1001, 500000};
    for (size_t w = 0; w < 4; w++) {
        struct group g;
        group_init(&g, 3);
        for (uint32_t i = 0; i < 3; i++) {
            g.ranks[i].body = body_unequal;
            g.ranks[i].count = i == 2 ? wrong[w] : 1000;
            g.ranks[i].values = calloc(g.ranks[i].count + 1, sizeof(float));
            assert_non_null(g.ranks[i].values);
        }
        group_run(&g);
        bool named = false;
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(g.ranks[i].result == ERR_MALFORMED || g.ranks[i].result == ERR_CLOSED);
            assert_true(g.ranks[i].took_ms < 10000);
            named = named || strstr(g.ranks[i].error, "same lengths") != NULL;
            free(g.ranks[i].values);
        }
        assert_true(named);
    }
}

static void test_another_key_or_member_list_never_connects(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        struct group g;
        group_init(&g, 2);
        for (uint32_t i = 0; i < 2; i++) {
            g.ranks[i].body = body_all_reduce;
            g.ranks[i].options.open_timeout_ms = 1000;
        }
        if (what == 0) {
            g.ranks[1].options.key[31] ^= 1;
        } else if (what == 1) {
            g.ranks[1].options.generation++;
        } else {
            g.ranks[1].options.group = "0011223344556677/4/2";
        }
        group_run(&g);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(g.ranks[i].open_result, ERR_TIMEOUT);
            assert_non_null(strstr(g.ranks[i].open_error, "could not"));
        }
    }
}

/* Strangers: some say nothing, some send noise, some send the beginning of a hello, some far too much. */
static void *stranger_thread(void *argument)
{
    uint16_t port = *(uint16_t *)argument;
    struct random random;
    random_init(&random, port);
    int fds[120];
    for (size_t i = 0; i < 120; i++) {
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)!connect(fds[i], (struct sockaddr *)&address, sizeof address);
        uint8_t noise[4096];
        for (size_t k = 0; k < sizeof noise; k++) {
            noise[k] = (uint8_t)random_u64(&random);
        }
        memcpy(noise, "SHOALTG1", 8);
        (void)!send(fds[i], noise, (i % 4) * (i % 4) * 400, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    struct timespec pause = {.tv_nsec = 300000000}; /* the silent ones stay while the group forms */
    (void)nanosleep(&pause, NULL);
    for (size_t i = 0; i < 120; i++) {
        (void)close(fds[i]);
    }
    return NULL;
}

static void test_strangers_do_not_keep_the_real_peer_out(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 2);
    for (uint32_t i = 0; i < 2; i++) {
        g.ranks[i].body = body_all_reduce;
        g.ranks[i].count = 10;
        g.ranks[i].values = calloc(10, sizeof(float));
    }
    pthread_t stranger;
    assert_int_equal(pthread_create(&stranger, NULL, stranger_thread, &g.members[0].port), 0);
    struct timespec pause = {.tv_nsec = 50000000}; /* strangers first in the queue; correct without it too */
    (void)nanosleep(&pause, NULL);
    group_run(&g);
    assert_int_equal(pthread_join(stranger, NULL), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_string_equal(g.ranks[i].open_error, "");
        assert_int_equal(g.ranks[i].result, 0);
        free(g.ranks[i].values);
    }
    assert_true(g.ranks[0].refused > 0);
}

/* A relay between rank 0 and rank 1 that may damage what passes: the man in the middle. */
struct relay {
    int listen_fd;
    uint16_t to_port;
    size_t damage_at; /* byte of the stream from rank 0 to flip, 0 = none */
    char planted[17]; /* looked for in the stream */
    bool seen;
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

struct pipe_ends {
    int from, to;
};

static void *back_thread(void *argument)
{
    struct pipe_ends *ends = argument;
    uint8_t bytes[4096];
    ssize_t n;
    while ((n = recv(ends->from, bytes, sizeof bytes, 0)) > 0 && send(ends->to, bytes, (size_t)n, MSG_NOSIGNAL) == n) {
    }
    (void)shutdown(ends->to, SHUT_RDWR);
    return NULL;
}

static void *relay_thread(void *argument)
{
    struct relay *relay = argument;
    struct sockaddr_in address;
    socklen_t address_bytes = sizeof address;
    int from = accept(relay->listen_fd, (struct sockaddr *)&address, &address_bytes), to = connect_to(relay->to_port);
    struct pipe_ends back = {to, from};
    pthread_t thread;
    if (from < 0 || to < 0 || pthread_create(&thread, NULL, back_thread, &back) != 0) {
        return NULL;
    }
    size_t passed = 0;
    uint8_t bytes[65536 + 16];
    size_t kept = 0; /* the last bytes of the part before, so that a match over the seam is seen */
    ssize_t n;
    while ((n = recv(from, bytes + kept, 65536, 0)) > 0) {
        size_t count = (size_t)n;
        if (memmem(bytes, kept + count, relay->planted, 16) != NULL) {
            relay->seen = true;
        }
        if (relay->damage_at > passed && relay->damage_at <= passed + count) {
            bytes[kept + relay->damage_at - passed - 1] ^= 0x10;
        }
        passed += count;
        if (send(to, bytes + kept, count, MSG_NOSIGNAL) != n) {
            break;
        }
        size_t all = kept + count;
        kept = all < 15 ? all : 15;
        memmove(bytes, bytes + all - kept, kept);
    }
    (void)shutdown(to, SHUT_RDWR);
    (void)shutdown(from, SHUT_RDWR);
    (void)pthread_join(thread, NULL);
    (void)close(from);
    (void)close(to);
    return NULL;
}

/* A rank whose own part went well hears of the other's failure in its next collective at the latest. */
static int body_all_reduce_and_barrier(struct rank *rank, struct tcp_group *group)
{
    int error = tcp_group_all_reduce(group, PLAN_F32, rank->values, rank->count);
    return error != 0 ? error : tcp_group_barrier(group);
}

/* Runs two ranks of which 0 reaches 1 through the relay. The member list has the relay's port for rank 1. */
static void run_relayed(struct group *g, struct relay *relay)
{
    group_init(g, 2);
    relay->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t address_bytes = sizeof address;
    assert_int_equal(bind(relay->listen_fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(relay->listen_fd, 4), 0);
    assert_int_equal(getsockname(relay->listen_fd, (struct sockaddr *)&address, &address_bytes), 0);
    relay->to_port = g->members[1].port;
    g->members[1].port = ntohs(address.sin_port);
    for (uint32_t i = 0; i < 2; i++) {
        g->ranks[i].body = body_all_reduce_and_barrier;
        g->ranks[i].count = 50000;
        g->ranks[i].values = calloc(50000, sizeof(float));
        assert_non_null(g->ranks[i].values);
        for (size_t k = 0; k < 50000 * sizeof(float) / 16; k++) {
            memcpy((uint8_t *)g->ranks[i].values + 16 * k, relay->planted, 16);
        }
    }
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, relay_thread, relay), 0);
    group_run(g);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(relay->listen_fd);
    for (uint32_t i = 0; i < 2; i++) {
        free(g->ranks[i].values);
    }
}

static void test_what_passes_is_not_readable(void **state)
{
    (void)state;
    struct group g;
    struct relay relay = {.planted = "GRADIENT-PLANTED"};
    run_relayed(&g, &relay);
    assert_int_equal(g.ranks[0].result, 0);
    assert_int_equal(g.ranks[1].result, 0);
    assert_false(relay.seen);
}

static void test_a_flipped_bit_is_noticed_wherever_it_is(void **state)
{
    (void)state;
    size_t after_handshake = 120 + 32; /* hello and confirm; the stream from rank 0 then is records */
    const size_t places[] = {after_handshake + 1,  after_handshake + 12, after_handshake + 40,
                             after_handshake + 31, after_handshake + TCP_HEADER_BYTES + 500,
                             after_handshake + TCP_HEADER_BYTES + PIECE_BYTES + 3};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        struct group g;
        struct relay relay = {.planted = "GRADIENT-PLANTED", .damage_at = places[i]};
        run_relayed(&g, &relay);
        assert_true(g.ranks[1].result == ERR_AUTH || g.ranks[1].result == ERR_MALFORMED);
        assert_true(g.ranks[0].result != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_have_the_same_bits_on_every_rank),
        cmocka_unit_test(test_many_collectives_in_one_group),
        cmocka_unit_test(test_a_peer_that_vanishes_ends_the_others_at_once),
        cmocka_unit_test(test_a_peer_that_stops_is_a_timeout),
        cmocka_unit_test(test_unequal_lengths_are_an_error_on_every_rank),
        cmocka_unit_test(test_another_key_or_member_list_never_connects),
        cmocka_unit_test(test_strangers_do_not_keep_the_real_peer_out),
        cmocka_unit_test(test_what_passes_is_not_readable),
        cmocka_unit_test(test_a_flipped_bit_is_noticed_wherever_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

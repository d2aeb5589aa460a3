/* Collectives over TCP: their results, and that nobody else can join, read or change them. What happens when ranks fail is in
 * tcp_faults_test.c. */
#include "tests/unit/tcp_fixture.h"

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

#define PIECE_BYTES 65536

static int body_all_reduce(struct rank *rank, struct tcp_group *group)
{
    return tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
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

/* Small whole numbers: every type holds their sums exactly, in any order. */
static float number_of(uint32_t rank, uint64_t i)
{
    return (float)((i + 3 * rank) % 7);
}

static uint16_t half_of(enum element_type type, float number)
{
    static const uint16_t f16[] = {0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600};
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return type == ELEMENT_BF16 ? (uint16_t)(bits >> 16) : f16[(int)number];
}

static float float_of(enum element_type type, const uint8_t *element)
{
    uint16_t half;
    uint32_t bits;
    memcpy(&half, element, sizeof half);
    uint32_t f16 = half == 0 ? 0 : (uint32_t)((half >> 10) + 112) << 23 | (half & 0x3ffu) << 13;
    bits = type == ELEMENT_BF16 ? (uint32_t)half << 16 : f16;
    if (type == ELEMENT_F32) {
        memcpy(&bits, element, sizeof bits);
    }
    float number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

static void put(enum element_type type, uint8_t *element, float number)
{
    uint16_t half = type == ELEMENT_F32 ? 0 : half_of(type, number);
    memcpy(element, type == ELEMENT_F32 ? (const void *)&number : (const void *)&half, element_type_bytes(type));
}

/* Whether element i of a rank is what the collective promises. */
static bool is_right(enum plan_kind kind, enum element_type type, uint32_t rank, uint32_t size, uint64_t count, uint64_t i,
                     const uint8_t *element)
{
    float sum = 0;
    bool adds = kind == PLAN_ALL_REDUCE || kind == PLAN_REDUCE_SCATTER;
    for (uint32_t k = 0; k < size && adds; k++) {
        sum += number_of(k, i);
    }
    for (uint32_t k = 0; k < size && kind == PLAN_ALL_GATHER; k++) {
        bool of_rank = i >= plan_slice_start(count, size, k) && i < plan_slice_start(count, size, k + 1);
        sum += of_rank ? number_of(k, i) : 0;
    }
    if (kind == PLAN_BROADCAST) {
        sum = number_of(size - 1, i);
    }
    bool mine = i >= plan_slice_start(count, size, rank) && i < plan_slice_start(count, size, rank + 1);
    return (kind == PLAN_REDUCE_SCATTER && !mine) || float_of(type, element) == sum;
}

/* Every plan there is, of several lengths and types, and at the end the group is left at once. */
static int body_every_plan(struct rank *rank, struct tcp_group *group)
{
    static const uint64_t counts[] = {0, 1, 100, 40001};
    uint32_t size = rank->options.size;
    for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_BARRIER; kind++) {
        for (enum plan_algorithm algorithm = PLAN_RING; algorithm < PLAN_ALGORITHMS; algorithm++) {
            for (size_t c = 0; plan_exists(kind, algorithm) && c < 4 * 3; c++) {
                enum element_type type = ELEMENT_F32 + (enum element_type)(c / 4);
                uint64_t count = kind == PLAN_BARRIER ? 0 : counts[c % 4];
                size_t bytes = element_type_bytes(type);
                uint8_t *values = malloc(count * bytes + 1);
                for (uint64_t i = 0; i < count && values != NULL; i++) {
                    put(type, values + i * bytes, number_of(rank->options.rank, i));
                }
                int error = values == NULL
                                ? ERR_MEMORY
                                : tcp_group_run(group, kind, algorithm, type, values, count, size - 1);
                for (uint64_t i = 0; i < count && error == 0; i++) {
                    bool right = is_right(kind, type, rank->options.rank, size, count, i, values + i * bytes);
                    error = right ? 0 : ERR_CORRUPT;
                }
                free(values);
                if (error != 0) {
                    return error;
                }
            }
        }
    }
    return 0;
}

static void test_every_plan_gives_what_it_promises(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 7, 11};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        struct group g;
        group_init(&g, sizes[s]);
        for (uint32_t i = 0; i < g.size; i++) {
            g.ranks[i].body = body_every_plan;
        }
        group_run(&g);
        for (uint32_t i = 0; i < g.size; i++) {
            assert_string_equal(g.ranks[i].open_error, "");
            assert_string_equal(g.ranks[i].error, "");
            assert_int_equal(g.ranks[i].result, 0);
        }
    }
}

static int body_wrong_usage(struct rank *rank, struct tcp_group *group)
{
    uint8_t bytes[4] = {0};
    bool refused = tcp_group_all_reduce(group, ELEMENT_BYTES, bytes, 4) == ERR_USAGE &&
                   tcp_group_broadcast(group, bytes, 4, rank->options.size) == ERR_USAGE &&
                   tcp_group_run(group, PLAN_ALL_REDUCE, PLAN_TREE, ELEMENT_F32, bytes, 1, 0) == ERR_USAGE;
    return refused ? tcp_group_barrier(group) : ERR_CORRUPT; /* and nothing is broken by it */
}

static void test_what_makes_no_sense_is_refused_and_breaks_nothing(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 2);
    g.ranks[0].body = g.ranks[1].body = body_wrong_usage;
    group_run(&g);
    assert_int_equal(g.ranks[0].result, 0);
    assert_int_equal(g.ranks[1].result, 0);
}

static int body_mixed(struct rank *rank, struct tcp_group *group)
{
    /* Many collectives of changing kind and size in one group, so that counters and buffers carry over. */
    for (uint32_t round = 0; round < 40; round++) {
        uint64_t count = (round * 7919) % 60000;
        float *values = filled(count, round);
        int error = tcp_group_all_reduce(group, ELEMENT_F32, values, count);
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
            char port[16]; /* rank 0 connects to rank 1, so both name rank 1's port */
            (void)snprintf(port, sizeof port, "port %u/tcp", (unsigned)g.members[1].port);
            assert_non_null(strstr(g.ranks[i].open_error, port));
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
    int error = tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
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

static void test_a_port_of_the_range_is_kept_as_long_as_its_lock(void **state)
{
    (void)state;
    const struct ports pair = {7841, 7842};
    int listen[3], lock[3];
    uint16_t port[3];
    assert_int_equal(tcp_group_listen_in("127.0.0.1", pair, 7842, &listen[0], &port[0], &lock[0]), 0);
    assert_int_equal(port[0], 7842);
    (void)close(listen[0]); /* links that were made through it may live on */
    assert_int_equal(tcp_group_listen_in("127.0.0.1", pair, 7842, &listen[1], &port[1], &lock[1]), 0);
    assert_int_equal(port[1], 7841);
    assert_int_equal(tcp_group_listen_in("127.0.0.1", pair, 0, &listen[2], &port[2], &lock[2]), ERR_FULL);
    assert_int_equal(tcp_group_listen_at("127.0.0.1", 7842, &listen[0]), 0);
    assert_int_equal(tcp_group_listen_at("127.0.0.1", 7842, &listen[2]), ERR_EXISTS);
    (void)close(lock[0]); /* whose port is still in use: another worker passes it over */
    assert_int_equal(tcp_group_listen_in("127.0.0.1", pair, 0, &listen[2], &port[2], &lock[2]), ERR_FULL);
    (void)close(listen[0]);
    assert_int_equal(tcp_group_listen_in("127.0.0.1", pair, 0, &listen[2], &port[2], &lock[2]), 0);
    assert_int_equal(port[2], 7842);
    for (int i = 1; i < 3; i++) {
        (void)close(listen[i]);
        (void)close(lock[i]);
    }
    assert_int_equal(tcp_group_listen_in("nowhere", pair, 0, &listen[0], &port[0], &lock[0]), ERR_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_have_the_same_bits_on_every_rank),
        cmocka_unit_test(test_every_plan_gives_what_it_promises),
        cmocka_unit_test(test_what_makes_no_sense_is_refused_and_breaks_nothing),
        cmocka_unit_test(test_many_collectives_in_one_group),
        cmocka_unit_test(test_another_key_or_member_list_never_connects),
        cmocka_unit_test(test_strangers_do_not_keep_the_real_peer_out),
        cmocka_unit_test(test_what_passes_is_not_readable),
        cmocka_unit_test(test_a_flipped_bit_is_noticed_wherever_it_is),
        cmocka_unit_test(test_a_port_of_the_range_is_kept_as_long_as_its_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

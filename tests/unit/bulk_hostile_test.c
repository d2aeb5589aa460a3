/* Strangers and members that send nonsense, too much, or break off. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include <cmocka.h>

#include "node/bulk/wire.h"
#include "store/hash.h"
#include "tests/unit/bulk_fixture.h"

/* ---- nonsense ---- */

static void garbage_on_the_port_is_survived(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0], *b = &world->sides[1];
    side_open(a, 0, NULL);
    side_open(b, 0, NULL);
    befriend(a, b);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(bulk_port(a->bulk)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const uint8_t greeting[] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E'};
    static const uint8_t giant[] = {0x06, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}; /* a command of 2^63 bytes */
    int fds[24];
    for (int i = 0; i < 24; i++) {
        uint8_t bytes[512] = {0};
        uint8_t *noise = blob_bytes(100 + (uint64_t)i, sizeof bytes);
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_true(fds[i] >= 0 && connect(fds[i], (struct sockaddr *)&at, sizeof at) == 0);
        if (i % 3 == 0) {
            (void)send(fds[i], noise, sizeof bytes, MSG_NOSIGNAL);
        } else if (i % 3 == 1) { /* a greeting, then a frame that is too large */
            memcpy(bytes, greeting, sizeof greeting);
            memcpy(bytes + 64, giant, sizeof giant);
            (void)send(fds[i], bytes, sizeof bytes, MSG_NOSIGNAL);
        } else {
            (void)send(fds[i], greeting, 1 + (size_t)i % sizeof greeting, MSG_NOSIGNAL);
        }
        free(noise);
    }
    hash256 manifest = blob_put(a, 14, 3 * MIB);
    assert_int_equal(bulk_fetch(b->bulk, 1, manifest, &a->keys.id, 1), 0);
    wait_ok(world, b, BULK_FETCHED, 1);
    struct bulk_statistics statistics;
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    do {
        world_turn(world);
        bulk_statistics(a->bulk, &statistics);
        assert_true(now_ms() < end_ms);
    } while (statistics.failed < 8);
    for (int i = 0; i < 24; i++) {
        (void)close(fds[i]);
    }
}

static bool ask_raw(struct world *world, void *socket, const void *bytes, size_t count, uint8_t *answer, size_t *answer_bytes,
                    uint64_t patience_ms)
{
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; zmq_send(socket, bytes, count, ZMQ_DONTWAIT) < 0;) {
        assert_true(now_ms() < end_ms);
        world_turn(world);
    }
    for (uint64_t end_ms = now_ms() + patience_ms; now_ms() < end_ms; world_turn(world)) {
        int got = zmq_recv(socket, answer, *answer_bytes, ZMQ_DONTWAIT);
        if (got >= 0) {
            *answer_bytes = (size_t)got;
            return true;
        }
    }
    return false;
}

static void members_may_talk_nonsense(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    struct keys member;
    rogue_admit(a, &member);
    int one = 1;
    void *socket = rogue_open(a, &member);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_IMMEDIATE, &one, sizeof one), 0);
    rogue_connect(socket, a);
    uint8_t answer[256];
    size_t count = sizeof answer;
    static const uint8_t later[] = {0x94, 9, 1, 77, 0}; /* version 9 */
    struct bulk_message message;
    assert_true(ask_raw(world, socket, later, sizeof later, answer, &count, PATIENCE_MS));
    assert_int_equal(bulk_wire_decode(answer, count, NULL, 0, &message), 0);
    assert_int_equal(message.kind, BULK_STATUS);
    assert_int_equal(message.tag, 77);
    assert_int_equal(message.status, BULK_UNKNOWN);
    for (int i = 0; i < 50; i++) {
        uint8_t *noise = blob_bytes(200 + (uint64_t)i, 64);
        noise[0] = 0xc1; /* never MessagePack */
        assert_true(zmq_send(socket, noise, 64, 0) == 64);
        free(noise);
    }
    assert_true(zmq_send(socket, "a", 1, ZMQ_SNDMORE) == 1 && zmq_send(socket, "b", 1, ZMQ_SNDMORE) == 1 &&
                zmq_send(socket, "c", 1, ZMQ_SNDMORE) == 1 && zmq_send(socket, "d", 1, 0) == 1);
    /* A chunk under a wrong name is not believed. */
    struct bulk_message put = {.kind = BULK_PUT, .tag = 5, .hash = {{1}}, .body = (const uint8_t *)"data", .body_bytes = 4};
    uint8_t head[128];
    size_t head_bytes;
    assert_int_equal(bulk_wire_encode(&put, head, sizeof head, &head_bytes), 0);
    assert_true(zmq_send(socket, head, head_bytes, ZMQ_SNDMORE) >= 0);
    count = sizeof answer;
    assert_true(ask_raw(world, socket, put.body, put.body_bytes, answer, &count, PATIENCE_MS));
    assert_int_equal(bulk_wire_decode(answer, count, NULL, 0, &message), 0);
    assert_int_equal(message.status, BULK_DAMAGED);
    assert_false(chunks_has(a->chunks, put.hash));
    /* Nor a manifest of what is not here. */
    struct blob_chunk chunk = {.hash = {{7}}, .bytes = 100};
    struct blob_manifest manifest = {.chunk_count = 1, .total_bytes = 100, .chunks = &chunk};
    uint8_t encoded[BLOB_ENCODED_BYTES(1)];
    assert_int_equal(blob_encode(&manifest, encoded, sizeof encoded, &put.body_bytes), 0);
    put.body = encoded;
    put.hash = hash_bytes(encoded, put.body_bytes);
    assert_int_equal(bulk_wire_encode(&put, head, sizeof head, &head_bytes), 0);
    assert_true(zmq_send(socket, head, head_bytes, ZMQ_SNDMORE) >= 0);
    count = sizeof answer;
    assert_true(ask_raw(world, socket, put.body, put.body_bytes, answer, &count, PATIENCE_MS));
    assert_int_equal(bulk_wire_decode(answer, count, NULL, 0, &message), 0);
    assert_int_equal(message.status, BULK_MISSING);
    assert_false(chunks_has(a->chunks, put.hash));
    struct bulk_statistics statistics;
    bulk_statistics(a->bulk, &statistics);
    assert_int_equal(statistics.malformed, 51);
    assert_int_equal(zmq_close(socket), 0);
}

/* libzmq reads on from a connection whose routing id another has, and hands nothing over. */
static void a_member_that_pours_in_what_never_comes_out_is_cut_off(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    struct keys member;
    rogue_admit(a, &member);
    void *sockets[2];
    uint8_t answer[256], head[128];
    size_t count;
    struct bulk_message get = {.kind = BULK_GET, .tag = 1, .hash = {{1}}};
    assert_int_equal(bulk_wire_encode(&get, head, sizeof head, &count), 0);
    for (int i = 0; i < 2; i++) {
        int one = 1;
        sockets[i] = rogue_open(a, &member);
        assert_true(zmq_setsockopt(sockets[i], ZMQ_IMMEDIATE, &one, sizeof one) == 0 &&
                    zmq_setsockopt(sockets[i], ZMQ_ROUTING_ID, "same", 4) == 0);
        rogue_connect(sockets[i], a);
        size_t answer_bytes = sizeof answer;
        assert_int_equal(ask_raw(world, sockets[i], head, count, answer, &answer_bytes, i == 0 ? PATIENCE_MS : 300), i == 0);
    }
    uint8_t *bytes = blob_bytes(300, MIB);
    struct bulk_statistics statistics = {0};
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    while (statistics.cut == 0) {
        assert_true(now_ms() < end_ms);
        for (int i = 0; i < 8; i++) {
            (void)zmq_send(sockets[1], bytes, MIB, ZMQ_DONTWAIT);
        }
        world_turn(world);
        bulk_statistics(a->bulk, &statistics);
    }
    free(bytes);
    size_t answer_bytes = sizeof answer; /* the other one goes on */
    assert_true(ask_raw(world, sockets[0], head, count, answer, &answer_bytes, PATIENCE_MS));
    assert_int_equal(zmq_close(sockets[0]), 0);
    assert_int_equal(zmq_close(sockets[1]), 0);
}

/* Of one member 24 MiB of questions wait at most. It is told to ask again, and loses none. */
static void who_asks_too_much_at_once_is_told_to_ask_again(void **state)
{
    struct world *world = *state;
    struct side *a = &world->sides[0];
    side_open(a, 0, NULL);
    struct keys member;
    rogue_admit(a, &member);
    int many = 0;
    void *socket = rogue_open(a, &member);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_SNDHWM, &many, sizeof many), 0);
    /* They are all on their way before the connection is there. */
    uint8_t *bytes = blob_bytes(301, MIB);
    rogue_connect(socket, a);
    for (uint32_t i = 0; i < 60; i++) {
        uint8_t head[128];
        size_t count;
        bytes[0] = (uint8_t)i; /* another chunk, which takes its time to be stored */
        struct bulk_message put = {.kind = BULK_PUT, .tag = i, .hash = hash_bytes(bytes, MIB), .body = bytes, .body_bytes = MIB};
        assert_int_equal(bulk_wire_encode(&put, head, sizeof head, &count), 0);
        assert_true(zmq_send(socket, head, count, ZMQ_SNDMORE) >= 0 && zmq_send(socket, bytes, MIB, 0) == MIB);
    }
    uint32_t stored = 0, busy = 0;
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; stored + busy < 60;) {
        assert_true(now_ms() < end_ms);
        uint8_t answer[256];
        struct bulk_message message;
        int got = zmq_recv(socket, answer, sizeof answer, ZMQ_DONTWAIT);
        if (got < 0) {
            world_turn(world);
            continue;
        }
        assert_int_equal(bulk_wire_decode(answer, (size_t)got, NULL, 0, &message), 0);
        stored += message.status == BULK_STORED;
        busy += message.status == BULK_BUSY;
    }
    free(bytes);
    struct bulk_statistics statistics;
    bulk_statistics(a->bulk, &statistics);
    assert_int_equal(statistics.deferred, busy);
    assert_true(stored > 0);
    assert_int_equal(zmq_close(socket), 0);
}

/* ---- broken connections ---- */

/* A node in a process of its own, so that it can be stopped while bytes pile up at its sockets. */
struct victim {
    pid_t pid;
    int fd;
    struct keys keys;
    uint16_t port;
};

struct order {
    char kind; /* 'f': fetch from `keys` at `port`; else only say that you live */
    struct keys keys;
    uint16_t port;
};

static void victim_run(int fd, const struct keys *rogue)
{
    struct world *world = calloc(1, sizeof *world);
    struct side *side = &world->sides[0];
    struct victim told = {0};
    side_open(side, 0, NULL);
    (void)zap_admit_member(side->zap, rogue->curve_public, rogue->id);
    told.keys = side->keys;
    told.port = bulk_port(side->bulk);
    bool is_told = write(fd, &told, sizeof told) == sizeof told;
    for (uint64_t id = 1; is_told; id++) {
        struct order order;
        ssize_t got = recv(fd, &order, sizeof order, MSG_DONTWAIT);
        if (got == 0) {
            break;
        }
        if (got == sizeof order && order.kind == 'f') {
            (void)bulk_peer(side->bulk, order.keys.id, order.keys.sign_public, "127.0.0.1", order.port);
            (void)bulk_fetch(side->bulk, id, (hash256){{(uint8_t)id, 9}}, &order.keys.id, 1);
        }
        is_told = got < 0 || write(fd, "", 1) == 1;
        side->seen_count = 0;
        world_turn(world);
    }
    _exit(world_remove((void **)&world) != 0);
}

static void victim_open(struct victim *victim, const struct keys *rogue)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t pid = fork(); /* before there is any thread of libzmq here */
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)close(fds[0]);
        victim_run(fds[1], rogue);
    }
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], victim, sizeof *victim), sizeof *victim);
    victim->pid = pid;
    victim->fd = fds[0];
}

static void victim_order(struct victim *victim, char kind, const struct keys *keys, uint16_t port)
{
    struct order order = {.kind = kind, .port = port};
    char alive;
    if (keys != NULL) {
        order.keys = *keys;
    }
    assert_int_equal(send(victim->fd, &order, sizeof order, MSG_NOSIGNAL), sizeof order);
    assert_int_equal(read(victim->fd, &alive, 1), 1);
}

static void victim_close(struct victim *victim)
{
    int status = -1;
    (void)close(victim->fd);
    assert_int_equal(waitpid(victim->pid, &status, 0), victim->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void victim_stop(struct victim *victim)
{
    int status = 0;
    assert_int_equal(kill(victim->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(victim->pid, &status, WUNTRACED), victim->pid);
}

/* This process's TCP connections will end with a reset. */
static void reset_at_close(void)
{
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in peer;
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET) {
            struct linger linger = {.l_onoff = 1};
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        }
    }
}

static void pings_each_ms(void *socket)
{
    int one_ms = 1, minute_ms = 60000, zero = 0;
    assert_true(zmq_setsockopt(socket, ZMQ_HEARTBEAT_IVL, &one_ms, sizeof one_ms) == 0 &&
                zmq_setsockopt(socket, ZMQ_HEARTBEAT_TIMEOUT, &minute_ms, sizeof minute_ms) == 0 &&
                zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero) == 0);
}

#define BURST 300

/* To a stopped victim, over a connection that is reset before it goes on. */
static void burst(struct victim *victim, void *socket, const void *routing_id, int routing_bytes, const struct bulk_message *message)
{
    uint8_t head[256];
    size_t count;
    assert_int_equal(bulk_wire_encode(message, head, sizeof head, &count), 0);
    for (int i = 0; i < BURST; i++) {
        assert_true(routing_bytes == 0 || zmq_send(socket, routing_id, (size_t)routing_bytes, ZMQ_SNDMORE) == routing_bytes);
        assert_int_equal(zmq_send(socket, head, count, 0), (int)count);
        if (i % 20 == 0) {
            assert_int_equal(zmq_poll(NULL, 0, 3), 0); /* time for a ping */
        }
    }
    assert_int_equal(zmq_poll(NULL, 0, 20), 0); /* time to send it; the test holds without, too */
    reset_at_close();
    assert_int_equal(zmq_close(socket), 0);
    assert_int_equal(zmq_poll(NULL, 0, 20), 0);
    assert_int_equal(kill(victim->pid, SIGCONT), 0);
    for (int i = 0; i < 20; i++) {
        victim_order(victim, 'a', NULL, 0); /* it lives */
    }
}

/* libzmq 4.3 ends the process if it has read a ping behind a full queue and the connection breaks ("Assertion failed:
 * !_io_error"); docs/dependencies.md. No queue of ours is ever full for it. */
static void a_burst_of_questions_with_pings_and_a_broken_connection_end_nothing(void **state)
{
    (void)state;
    struct keys rogue;
    struct victim victim;
    keys_create(&rogue);
    victim_open(&victim, &rogue);
    void *context = zmq_ctx_new();
    char endpoint[64];
    (void)snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%u", victim.port);
    for (int round = 0; round < 10; round++) {
        void *socket = zmq_socket(context, ZMQ_DEALER);
        pings_each_ms(socket);
        assert_true(zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, rogue.curve_public, 32) == 0 &&
                    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, rogue.curve_secret, 32) == 0 &&
                    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, victim.keys.curve_public, 32) == 0 &&
                    zmq_connect(socket, endpoint) == 0);
        struct bulk_message get = {.kind = BULK_GET, .tag = 1, .hash = {{1}}};
        uint8_t bytes[256];
        size_t count;
        assert_int_equal(bulk_wire_encode(&get, bytes, sizeof bytes, &count), 0);
        assert_int_equal(zmq_send(socket, bytes, count, 0), (int)count);
        assert_true(zmq_recv(socket, bytes, sizeof bytes, 0) > 0); /* connected */
        victim_stop(&victim);
        burst(&victim, socket, NULL, 0, &get);
    }
    assert_int_equal(zmq_ctx_term(context), 0);
    victim_close(&victim);
}

static void a_burst_of_answers_with_pings_and_a_broken_connection_end_nothing(void **state)
{
    (void)state;
    struct keys rogue;
    struct victim victim;
    keys_create(&rogue);
    victim_open(&victim, &rogue);
    void *context = zmq_ctx_new();
    for (int round = 0; round < 10; round++) {
        void *router = zmq_socket(context, ZMQ_ROUTER);
        int one = 1;
        char endpoint[64];
        size_t bytes = sizeof endpoint;
        pings_each_ms(router);
        assert_true(zmq_setsockopt(router, ZMQ_CURVE_SERVER, &one, sizeof one) == 0 &&
                    zmq_setsockopt(router, ZMQ_CURVE_SECRETKEY, rogue.curve_secret, 32) == 0 &&
                    zmq_bind(router, "tcp://127.0.0.1:*") == 0 &&
                    zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, endpoint, &bytes) == 0);
        victim_order(&victim, 'f', &rogue, (uint16_t)strtoul(strrchr(endpoint, ':') + 1, NULL, 10));
        uint8_t routing_id[32], head[256];
        int routing_bytes = zmq_recv(router, routing_id, sizeof routing_id, 0);
        assert_true(routing_bytes > 0 && zmq_recv(router, head, sizeof head, 0) > 0);
        victim_stop(&victim);
        struct bulk_message status = {.kind = BULK_STATUS, .tag = 0xffffff, .status = BULK_WAIT};
        burst(&victim, router, routing_id, routing_bytes, &status);
    }
    assert_int_equal(zmq_ctx_term(context), 0);
    victim_close(&victim);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        TEST(garbage_on_the_port_is_survived),
        TEST(members_may_talk_nonsense),
        TEST(a_member_that_pours_in_what_never_comes_out_is_cut_off),
        TEST(who_asks_too_much_at_once_is_told_to_ask_again),
        cmocka_unit_test(a_burst_of_questions_with_pings_and_a_broken_connection_end_nothing),
        cmocka_unit_test(a_burst_of_answers_with_pings_and_a_broken_connection_end_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

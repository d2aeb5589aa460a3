/* Strangers, and members that send nonsense or too much. */
#include <arpa/inet.h>
#include <errno.h>
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
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/message.h"
#include "tests/unit/control_fixture.h"

static int stranger_connect(const struct side *side)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons(control_port(side->control))};
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static long resident_kib(void)
{
    long pages = 0, unused = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &unused, &pages), 2);
    (void)fclose(file);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void say(int fd, const void *bytes, size_t count)
{
    (void)!send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The greeting of ZMTP 3.1 with CURVE, as a client. */
static void say_greeting(int fd, const char *mechanism)
{
    uint8_t greeting[64] = {0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 1};
    memcpy(greeting + 12, mechanism, strlen(mechanism));
    say(fd, greeting, sizeof greeting);
}

/* Has the other side closed it? What it sent before is thrown away. */
static bool ended(int fd)
{
    uint8_t drain[512];
    ssize_t got;
    do {
        got = recv(fd, drain, sizeof drain, MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static void strangers_harm_nobody(void **state)
{
    (void)state;
    enum { STRANGERS = 200 };
    struct side a, b;
    side_open(&a);
    side_open(&b);
    befriend(&a, &b);
    assert_true(deliver(&a, &b, "before", PATIENCE_MS));
    long before_kib = resident_kib();
    struct random random;
    random_init(&random, 11);
    int fds[STRANGERS];
    static uint8_t noise[20000];
    static const uint8_t giant[] = {0x06, 0, 0, 0, 0x40, 0, 0, 0, 0}; /* a command frame of 1 GiB */
    for (int i = 0; i < STRANGERS; i++) {
        fds[i] = stranger_connect(&b);
        for (size_t n = 0; n < sizeof noise; n++) {
            noise[n] = (uint8_t)random_u64(&random);
        }
        switch (i % 6) {
        case 0: /* says nothing */
            break;
        case 1:
            say(fds[i], noise, sizeof noise);
            break;
        case 2: /* half a greeting */
            say(fds[i], "\xff\0\0\0\0\0\0\0\1\x7f\3", 11);
            break;
        case 3: /* no encryption */
            say_greeting(fds[i], "NULL");
            say(fds[i], "\4\x19\5READY\xbSocket-Type\0\0\0\6DEALER", 27);
            break;
        case 4: /* CURVE, then a giant */
            say_greeting(fds[i], "CURVE");
            say(fds[i], giant, sizeof giant);
            say(fds[i], noise, sizeof noise);
            break;
        default: /* CURVE, then noise of the right length */
            say_greeting(fds[i], "CURVE");
            say(fds[i], "\4\xc8\5HELLO\1\0", 10);
            say(fds[i], noise, 194);
            break;
        }
    }
    assert_true(deliver(&a, &b, "meanwhile", PATIENCE_MS));
    /* All of them are thrown out: each sees its connection end within the handshake's time. */
    int open = STRANGERS;
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; open > 0 && now_ms() < end_ms;) {
        side_turn(&b, 20);
        open = 0;
        for (int i = 0; i < STRANGERS; i++) {
            if (fds[i] >= 0 && ended(fds[i])) {
                (void)close(fds[i]);
                fds[i] = -1;
            }
            open += fds[i] >= 0;
        }
    }
    assert_int_equal(open, 0);
    assert_true(deliver(&a, &b, "after", PATIENCE_MS));
    assert_true(resident_kib() - before_kib < 64 * 1024);
    struct control_statistics counts;
    control_statistics(b.control, &counts);
    assert_true(counts.failed > 0);
    assert_int_equal(counts.malformed, 0);
    side_close(&a);
    side_close(&b);
}

static void admitted_connect(void *socket, const struct side *from, const struct side *to)
{
    char endpoint[CONTROL_ADDRESS_BYTES + 8];
    int zero = 0;
    (void)snprintf(endpoint, sizeof endpoint, "tcp://%s", to->address);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, to->keys.curve_public, 32), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, from->keys.curve_public, 32), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, from->keys.curve_secret, 32), 0);
    assert_int_equal(zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero), 0);
    assert_int_equal(zmq_connect(socket, endpoint), 0);
}

static void *admitted_dealer(struct side *from, const struct side *to)
{
    void *socket = zmq_socket(from->context, ZMQ_DEALER);
    admitted_connect(socket, from, to);
    return socket;
}

static void a_member_that_misbehaves_is_bounded(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    befriend(&a, &b);
    void *rogue = admitted_dealer(&a, &b);
    static uint8_t huge[4 << 20];
    assert_int_equal(zmq_send(rogue, "1", 1, ZMQ_SNDMORE), 1); /* too many frames */
    assert_int_equal(zmq_send(rogue, "2", 1, 0), 1);
    assert_int_equal(zmq_send(rogue, huge, MESSAGE_BYTES_MAX + 1, 0), MESSAGE_BYTES_MAX + 1); /* a little too large */
    assert_int_equal(zmq_send(rogue, huge, sizeof huge, 0), sizeof huge);                     /* far too large */
    struct control_statistics counts = {0};
    for (uint64_t end_ms = now_ms() + PATIENCE_MS;
         (counts.malformed == 0 || counts.oversized == 0) && now_ms() < end_ms;) {
        side_turn(&b, 20);
        struct control_incoming in;
        assert_int_equal(control_receive(b.control, &in), ERR_AGAIN);
        control_statistics(b.control, &counts);
    }
    assert_int_equal(counts.malformed, 1);
    assert_int_equal(counts.oversized, 1);
    assert_int_equal(zmq_close(rogue), 0);
    assert_true(deliver(&a, &b, "still here", PATIENCE_MS));
    side_close(&a);
    side_close(&b);
}

/* The other process of the next test: 'r' reads all that waits and answers how much that was, else it only turns. */
static void reader_run(struct side *side, int fd)
{
    for (;;) {
        char command = 0;
        side_turn(side, 1);
        if (recv(fd, &command, 1, MSG_DONTWAIT) == 0) {
            _exit(0);
        }
        if (command == 'r') {
            struct control_incoming in;
            uint32_t count = 0;
            while (control_receive(side->control, &in) == 0) {
                count++;
            }
            if (write(fd, &count, sizeof count) != sizeof count) {
                _exit(1);
            }
        }
    }
}

static bool reader_reads(int fd, uint32_t *count)
{
    return write(fd, "r", 1) == 1 && read(fd, count, sizeof *count) == sizeof *count;
}

/* This process's connections there will end with a reset. */
static void reset_at_close(const struct side *to)
{
    uint16_t port = (uint16_t)strtoul(strrchr(to->address, ':') + 1, NULL, 10);
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in peer = {0};
        socklen_t bytes = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 && peer.sin_family == AF_INET &&
            ntohs(peer.sin_port) == port) {
            struct linger linger = {.l_onoff = 1};
            assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger), 0);
        }
    }
}

/* libzmq 4.3 ends the process if it has read a ping behind a full queue and the connection breaks ("Assertion failed:
 * !_io_error"): seen when a node that was cut off came back. The inbox takes all, so that no queue is ever full. */
static void a_burst_with_pings_and_a_broken_connection_end_nothing(void **state)
{
    (void)state;
    int fds[2];
    struct {
        struct keys keys;
        char address[CONTROL_ADDRESS_BYTES];
    } told;
    struct keys rogue_keys;
    keys_create(&rogue_keys);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    pid_t child = fork(); /* before there is any thread of libzmq here */
    assert_true(child >= 0);
    if (child == 0) {
        struct side reader;
        (void)close(fds[0]);
        side_open(&reader);
        (void)control_admit(reader.control, rogue_keys.sign_public, false, false);
        told.keys = reader.keys;
        memcpy(told.address, reader.address, sizeof told.address);
        if (write(fds[1], &told, sizeof told) == sizeof told) {
            reader_run(&reader, fds[1]);
        }
        _exit(1);
    }
    (void)close(fds[1]);
    assert_int_equal(read(fds[0], &told, sizeof told), sizeof told);
    struct side to = {.keys = told.keys}, from = {.keys = rogue_keys, .context = zmq_ctx_new()};
    memcpy(to.address, told.address, sizeof to.address);
    uint32_t count = 0;
    for (int round = 0; round < 10; round++) {
        void *rogue = zmq_socket(from.context, ZMQ_DEALER);
        int one_ms = 1, minute_ms = 60000;
        assert_int_equal(zmq_setsockopt(rogue, ZMQ_HEARTBEAT_IVL, &one_ms, sizeof one_ms), 0);
        assert_int_equal(zmq_setsockopt(rogue, ZMQ_HEARTBEAT_TIMEOUT, &minute_ms, sizeof minute_ms), 0);
        admitted_connect(rogue, &from, &to);
        assert_int_equal(zmq_send(rogue, "first", 5, 0), 5);
        uint64_t end_ms = now_ms() + PATIENCE_MS;
        for (count = 0; count == 0 && now_ms() < end_ms;) {
            assert_true(reader_reads(fds[0], &count));
        }
        assert_int_equal(count, 1);
        int status = 0;
        assert_int_equal(kill(child, SIGSTOP), 0); /* so that it finds many messages and pings at once */
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        for (int i = 0; i < 200; i++) {
            assert_int_equal(zmq_send(rogue, "burst", 5, 0), 5);
            if (i % 20 == 0) {
                assert_int_equal(zmq_poll(NULL, 0, 3), 0); /* time for a ping */
            }
        }
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(zmq_poll(NULL, 0, 20), 0); /* time to read it; the test holds without, too */
        reset_at_close(&to);
        assert_int_equal(zmq_close(rogue), 0);
        assert_int_equal(zmq_poll(NULL, 0, 20), 0);
        assert_true(reader_reads(fds[0], &count)); /* it lives */
        assert_true(count <= 200);
    }
    assert_int_equal(zmq_ctx_term(from.context), 0);
    (void)close(fds[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* More of one sender than may wait is dropped, and does not touch what others send. */
static void what_one_sender_may_have_waiting_is_bounded(void **state)
{
    (void)state;
    struct side a, b, c;
    side_open(&a);
    side_open(&b);
    side_open(&c);
    befriend(&a, &b);
    introduce(&c, &b);
    introduce(&b, &c);
    assert_true(deliver(&a, &b, "first", PATIENCE_MS));
    assert_true(deliver(&c, &b, "first", PATIENCE_MS));
    static uint8_t large[MESSAGE_BYTES_MAX];
    struct control_statistics counts = {0};
    uint32_t got = 0;
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; counts.overrun == 0 && now_ms() < end_ms;) {
        for (int i = 0; i < 100; i++) {
            (void)control_send(a.control, b.keys.id, large, sizeof large);
        }
        (void)control_send(c.control, b.keys.id, (const uint8_t *)"small", 5);
        side_turn(&a, 0);
        side_turn(&c, 0);
        side_turn(&b, 1);
        struct control_incoming in;
        got += control_receive(b.control, &in) == 0; /* it falls behind */
        control_statistics(b.control, &counts);
    }
    assert_true(counts.overrun > 0);
    assert_true(got > 0);
    struct control_incoming in;
    uint32_t larges = 0;
    while (control_receive(b.control, &in) == 0) {
        larges += in.count == sizeof large;
    }
    assert_in_range(larges, 1, 2 * CONTROL_QUEUE); /* what waited, and what came while we looked */
    assert_true(deliver(&c, &b, "other", PATIENCE_MS));
    side_close(&a);
    side_close(&b);
    side_close(&c);
}

/* Keys that `to` admits, with a connection each; all of a crowd share one context. */
struct crowd {
    void *context;
    uint32_t count;
    void *sockets[128];
};

static void crowd_open(struct crowd *crowd, uint32_t count, struct side *to)
{
    int queue = 20000;
    crowd->context = zmq_ctx_new();
    crowd->count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct side from = {.context = crowd->context};
        keys_create(&from.keys);
        assert_int_equal(control_admit(to->control, from.keys.sign_public, false, false), 0);
        crowd->sockets[i] = zmq_socket(from.context, ZMQ_DEALER);
        assert_int_equal(zmq_setsockopt(crowd->sockets[i], ZMQ_SNDHWM, &queue, sizeof queue), 0);
        admitted_connect(crowd->sockets[i], &from, to);
        assert_int_equal(zmq_send(crowd->sockets[i], "first", 5, 0), 5);
    }
    uint32_t got = 0;
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; got < count && now_ms() < end_ms;) {
        side_turn(to, 20);
        struct control_incoming in;
        while (control_receive(to->control, &in) == 0) {
            got++;
        }
    }
    assert_int_equal(got, count);
}

/* Each says `count` times what is in `bytes`, and goes. When this returns, libzmq has received it all, and nothing of it
 * was taken yet. */
static void crowd_say_and_close(struct crowd *crowd, const struct side *to, uint32_t count, const uint8_t *bytes,
                                size_t byte_count)
{
    int patience_ms = PATIENCE_MS, fd;
    uint32_t others = side_connections(to, &fd) - crowd->count;
    for (uint32_t i = 0; i < crowd->count; i++) {
        for (uint32_t n = 0; n < count; n++) {
            assert_int_equal(zmq_send(crowd->sockets[i], bytes, byte_count, 0), byte_count);
        }
        assert_int_equal(zmq_setsockopt(crowd->sockets[i], ZMQ_LINGER, &patience_ms, sizeof patience_ms), 0);
        assert_int_equal(zmq_close(crowd->sockets[i]), 0);
    }
    assert_int_equal(zmq_ctx_term(crowd->context), 0);
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; side_connections(to, &fd) > others && now_ms() < end_ms;) {
        assert_int_equal(zmq_poll(NULL, 0, 5), 0); /* libzmq reads to the end of a connection, then closes it */
    }
    assert_int_equal(side_connections(to, &fd), others);
}

/* However much has come during a stall, one call takes a bounded part of it, and wants to be called for the rest. */
static void after_a_stall_each_call_takes_a_bounded_number(void **state)
{
    (void)state;
    struct side b;
    side_open(&b);
    static struct crowd rogue;
    crowd_open(&rogue, 1, &b);
    assert_int_equal(control_next_ms(b.control), UINT64_MAX);
    crowd_say_and_close(&rogue, &b, 2 * CONTROL_TAKE_MAX + 100, (const uint8_t *)"burst", 5);
    static const uint32_t expected[] = {CONTROL_TAKE_MAX, CONTROL_TAKE_MAX, 100};
    uint64_t overrun = 0;
    for (size_t call = 0; call < 3; call++) {
        control_process(b.control);
        assert_int_equal(control_next_ms(b.control), 0);
        uint32_t got = 0;
        struct control_incoming in;
        while (control_receive(b.control, &in) == 0) {
            got++;
        }
        struct control_statistics counts;
        control_statistics(b.control, &counts);
        assert_int_equal(got + counts.overrun - overrun, expected[call]);
        overrun = counts.overrun;
        assert_int_equal(control_next_ms(b.control), call < 2 ? 0 : UINT64_MAX);
    }
    side_close(&b);
}

/* Rogues fill what they may have waiting. Then many others say one thing each, and all of them are heard: whatever place
 * in the inbox a key gets, no other key's messages take it. */
static void others_are_heard_behind(uint32_t rogues, uint32_t count, size_t bytes)
{
    static uint8_t large[MESSAGE_BYTES_MAX];
    static struct crowd crowd, honest;
    struct side b;
    side_open(&b);
    crowd_open(&honest, 128, &b);
    crowd_open(&crowd, rogues, &b);
    crowd_say_and_close(&crowd, &b, count, large, bytes);
    for (uint32_t taken = 0; taken < rogues * count; taken += CONTROL_TAKE_MAX) {
        control_process(b.control);
    }
    struct control_statistics counts;
    control_statistics(b.control, &counts);
    uint64_t overrun = counts.overrun;
    assert_true(overrun >= rogues);
    crowd_say_and_close(&honest, &b, 1, (const uint8_t *)"honest", 6);
    control_process(b.control);
    control_statistics(b.control, &counts);
    assert_int_equal(counts.overrun, overrun);
    uint32_t heard = 0;
    struct control_incoming in;
    while (control_receive(b.control, &in) == 0) {
        heard += in.count == 6;
    }
    assert_int_equal(heard, 128);
    side_close(&b);
}

static void those_who_send_too_many_messages_starve_nobody(void **state)
{
    (void)state;
    others_are_heard_behind(20, 1100, 1);
}

/* Together they fill the part of the inbox that all share. */
static void those_who_send_too_many_bytes_starve_nobody(void **state)
{
    (void)state;
    others_are_heard_behind(20, 70, MESSAGE_BYTES_MAX);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_harm_nobody),
        cmocka_unit_test(a_member_that_misbehaves_is_bounded),
        cmocka_unit_test(a_burst_with_pings_and_a_broken_connection_end_nothing),
        cmocka_unit_test(what_one_sender_may_have_waiting_is_bounded),
        cmocka_unit_test(after_a_stall_each_call_takes_a_bounded_number),
        cmocka_unit_test(those_who_send_too_many_messages_starve_nobody),
        cmocka_unit_test(those_who_send_too_many_bytes_starve_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

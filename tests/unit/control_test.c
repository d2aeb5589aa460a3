/* Two control sockets and strangers over loopback. Every wait is for a condition, with a deadline that only a failure
 * meets. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
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

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/control.h"
#include "gossip/control_join.h"
#include "gossip/message.h"
#include "gossip/token.h"

#define PATIENCE_MS 15000

/* One daemon's share: a context, its door and its sockets. */
struct side {
    void *context;
    struct zap *zap;
    struct control *control;
    struct keys keys;
    char address[CONTROL_ADDRESS_BYTES];
};

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void side_open_at(struct side *side, const char *listen)
{
    char error[256] = "";
    memset(side, 0, sizeof *side);
    keys_create(&side->keys);
    side->context = zmq_ctx_new();
    assert_non_null(side->context);
    assert_int_equal(zap_open(side->context, &side->zap, error), 0);
    struct control_options options = {
        .context = side->context, .zap = side->zap, .keys = &side->keys, .listen = listen};
    if (control_open(&options, &side->control, error) != 0) {
        fail_msg("%s", error);
    }
    assert_true(control_port(side->control) > 0);
    (void)snprintf(side->address, sizeof side->address, "%s:%u", listen[0] == '[' ? "[::1]" : "127.0.0.1",
                   control_port(side->control));
}

static void side_open(struct side *side)
{
    side_open_at(side, "127.0.0.1:0");
}

static void side_close(struct side *side)
{
    control_close(&side->control);
    zap_close(&side->zap);
    assert_int_equal(zmq_ctx_term(side->context), 0);
}

static void side_turn(struct side *side, long wait_ms)
{
    zmq_pollitem_t items[CONTROL_POLL_MAX];
    size_t count = control_poll_items(side->control, items);
    assert_true(zmq_poll(items, (int)count, wait_ms) >= 0);
    control_process(side->control);
}

static void introduce(struct side *a, struct side *b)
{
    assert_int_equal(control_admit(a->control, b->keys.sign_public, false, false), 0);
    assert_int_equal(control_peer(a->control, b->keys.id, b->keys.sign_public, b->address), 0);
}

/* Sends `text` from a to b again and again, while both turn, until b has it; false at the deadline. */
static bool deliver(struct side *a, struct side *b, const char *text, uint64_t patience_ms)
{
    uint64_t end_ms = now_ms() + patience_ms, next_send_ms = 0;
    while (now_ms() < end_ms) {
        if (now_ms() >= next_send_ms) {
            (void)control_send(a->control, b->keys.id, (const uint8_t *)text, strlen(text));
            next_send_ms = now_ms() + 50;
        }
        side_turn(a, 1);
        side_turn(b, 5);
        struct control_incoming in;
        while (control_receive(b->control, &in) == 0) {
            if (in.from.kind == ZAP_MEMBER && node_id_equal(in.from.node, a->keys.id) && in.count == strlen(text) &&
                memcmp(in.bytes, text, in.count) == 0) {
                assert_int_equal(in.client, 0);
                return true;
            }
        }
    }
    return false;
}

static void two_members_talk(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    introduce(&a, &b);
    introduce(&b, &a);
    assert_true(deliver(&a, &b, "hello", PATIENCE_MS));
    assert_true(deliver(&b, &a, "hello yourself", PATIENCE_MS));
    /* Order is kept and the largest message passes. */
    static uint8_t large[MESSAGE_BYTES_MAX];
    for (uint8_t i = 0; i < 20; i++) {
        large[0] = i;
        assert_int_equal(control_send(a.control, b.keys.id, large, i == 7 ? sizeof large : 10), 0);
    }
    assert_int_equal(control_send(a.control, b.keys.id, large, sizeof large + 1), ERR_USAGE);
    uint8_t expected = 0;
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; expected < 20 && now_ms() < end_ms;) {
        side_turn(&b, 50);
        struct control_incoming in;
        while (control_receive(b.control, &in) == 0) {
            if (in.count == 10 || in.count == sizeof large) {
                assert_int_equal(in.bytes[0], expected);
                assert_string_equal(in.host, "127.0.0.1");
                expected++;
            }
        }
    }
    assert_int_equal(expected, 20);
    struct control_statistics counts;
    control_statistics(a.control, &counts);
    assert_true(counts.sent >= 21 && counts.sent_bytes >= sizeof large);
    side_close(&a);
    side_close(&b);
}

static void they_talk_over_ipv6_too(void **state)
{
    (void)state;
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool usable = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    if (fd >= 0) {
        (void)close(fd);
    }
    if (!usable) {
        skip();
    }
    struct side a, b;
    side_open_at(&a, "[::1]:0");
    side_open_at(&b, "[::1]:0");
    introduce(&a, &b);
    introduce(&b, &a);
    assert_true(deliver(&a, &b, "hello", PATIENCE_MS));
    side_close(&a);
    side_close(&b);
}

static void a_member_admitted_late_gets_in(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    introduce(&a, &b); /* b has not heard of a yet */
    struct control_statistics counts = {0};
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; counts.refused < 2 && now_ms() < end_ms;) {
        (void)control_send(a.control, b.keys.id, (const uint8_t *)"x", 1);
        side_turn(&a, 1);
        side_turn(&b, 20);
        control_statistics(b.control, &counts);
    }
    assert_true(counts.refused >= 2); /* refused, and it tries again by itself */
    assert_int_equal(counts.received, 0);
    assert_int_equal(control_admit(b.control, a.keys.sign_public, false, false), 0);
    assert_true(deliver(&a, &b, "now", PATIENCE_MS));
    side_close(&a);
    side_close(&b);
}

static void an_evicted_key_is_cut_off_and_stays_out(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    introduce(&a, &b);
    introduce(&b, &a);
    assert_true(deliver(&a, &b, "before", PATIENCE_MS));
    assert_int_equal(control_admit(b.control, a.keys.sign_public, false, true), 0);
    assert_int_equal(control_admit(b.control, a.keys.sign_public, false, true), ERR_NOT_FOUND);
    struct control_statistics counts;
    control_statistics(b.control, &counts);
    assert_int_equal(counts.cut, 1);
    uint64_t refused = counts.refused;
    assert_false(deliver(&a, &b, "after", 1500));
    control_statistics(b.control, &counts);
    assert_true(counts.refused > refused);
    side_close(&a);
    side_close(&b);
}

/* How many connections this side's port has, and the descriptor of one of them. */
static uint32_t side_connections(const struct side *side, int *out_fd)
{
    uint32_t count = 0;
    for (int fd = 3; fd < 1024; fd++) {
        struct sockaddr_in local = {0}, peer;
        socklen_t bytes = sizeof local, peer_bytes = sizeof peer;
        if (getsockname(fd, (struct sockaddr *)&local, &bytes) == 0 && local.sin_family == AF_INET &&
            ntohs(local.sin_port) == control_port(side->control) &&
            getpeername(fd, (struct sockaddr *)&peer, &peer_bytes) == 0) {
            *out_fd = fd;
            count++;
        }
    }
    return count;
}

/* A TCP connection of this process that is none of libzmq's; ends[1] gets the number `fd`. */
static void unrelated_connection(int ends[2], int fd)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(ends[0], (struct sockaddr *)&at, sizeof at), 0);
    ends[1] = accept(listener, NULL, NULL);
    assert_true(ends[1] >= 0);
    (void)close(listener);
    if (ends[1] != fd && ends[0] != fd) {
        assert_int_equal(dup2(ends[1], fd), fd);
        (void)close(ends[1]);
        ends[1] = fd;
    }
}

/* What an evicted key said before waits, in the inbox or still in libzmq, while its connection is closed and the
 * descriptor's number is given to something else. */
static void what_an_evicted_key_left_waiting_shuts_nothing_else(void **state)
{
    (void)state;
    for (int in_libzmq = 0; in_libzmq < 2; in_libzmq++) {
        struct side a, b;
        side_open(&a);
        side_open(&b);
        introduce(&a, &b);
        introduce(&b, &a);
        assert_true(deliver(&a, &b, "before", PATIENCE_MS));
        struct control_incoming in;
        while (control_receive(b.control, &in) == 0) {
        }
        int fd = -1;
        assert_int_equal(side_connections(&b, &fd), 1);
        for (int i = 0; i < 20; i++) {
            assert_int_equal(control_send(a.control, b.keys.id, (const uint8_t *)"late", 4), 0);
        }
        zmq_pollitem_t items[CONTROL_POLL_MAX];
        assert_true(control_poll_items(b.control, items) > 0);
        assert_int_equal(zmq_poll(items, 1, PATIENCE_MS), 1);
        if (in_libzmq == 0) {
            control_process(b.control);
            assert_int_equal(control_receive(b.control, &in), 0);
        }
        assert_int_equal(control_admit(b.control, a.keys.sign_public, false, true), 0);
        control_peer_remove(b.control, a.keys.id);
        control_peer_remove(a.control, b.keys.id);
        uint64_t end_ms = now_ms() + PATIENCE_MS;
        while (fcntl(fd, F_GETFD) >= 0 && now_ms() < end_ms) {
            assert_int_equal(zmq_poll(NULL, 0, 5), 0);
        }
        assert_true(fcntl(fd, F_GETFD) < 0);
        int ends[2];
        unrelated_connection(ends, fd);
        assert_true(ends[0] == fd || ends[1] == fd);
        side_turn(&b, 0);
        while (control_receive(b.control, &in) == 0) {
            fail_msg("a message of an evicted key came in");
        }
        struct control_statistics counts;
        control_statistics(b.control, &counts);
        assert_int_equal(counts.cut, 1); /* by the eviction itself */
        char byte = 0;
        assert_int_equal(send(ends[0], "x", 1, MSG_NOSIGNAL), 1);
        assert_int_equal(recv(ends[1], &byte, 1, 0), 1);
        assert_int_equal(send(ends[1], "y", 1, MSG_NOSIGNAL), 1);
        assert_int_equal(recv(ends[0], &byte, 1, 0), 1);
        (void)close(ends[0]);
        (void)close(ends[1]);
        side_close(&a);
        side_close(&b);
    }
}

static void a_peer_that_moved_is_followed(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    introduce(&b, &a);
    int fd = socket(AF_INET, SOCK_STREAM, 0); /* a port on which nobody listens */
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    char nowhere[CONTROL_ADDRESS_BYTES];
    (void)snprintf(nowhere, sizeof nowhere, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(control_peer(a.control, b.keys.id, b.keys.sign_public, nowhere), 0);
    assert_int_equal(control_send(a.control, b.keys.id, (const uint8_t *)"x", 1), ERR_AGAIN);
    assert_int_equal(control_peer(a.control, b.keys.id, b.keys.sign_public, b.address), 0);
    assert_true(deliver(&a, &b, "found", PATIENCE_MS));
    control_peer_remove(a.control, b.keys.id);
    assert_int_equal(control_send(a.control, b.keys.id, (const uint8_t *)"x", 1), ERR_NOT_FOUND);
    (void)close(fd);
    side_close(&a);
    side_close(&b);
}

static void many_peers_come_and_go(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    struct keys other;
    keys_create(&other);
    node_id nodes[40];
    for (uint8_t i = 0; i < 40; i++) {
        nodes[i] = (node_id){{i, 1}};
        assert_int_equal(control_peer(a.control, nodes[i], other.sign_public, "127.0.0.1:1"), 0);
    }
    for (uint8_t i = 0; i < 40; i += 2) {
        control_peer_remove(a.control, nodes[i]);
    }
    for (uint8_t i = 0; i < 40; i++) {
        assert_int_equal(control_send(a.control, nodes[i], (const uint8_t *)"x", 1),
                         i % 2 == 0 ? ERR_NOT_FOUND : ERR_AGAIN);
    }
    side_close(&a);
}

static void bad_addresses_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",       ":",     "127.0.0.1", "127.0.0.1:",   "127.0.0.1:0",  "127.0.0.1:65536",        ":80",
        "::1:80", "[::1]", "[]:1",      "localhost:80", "127.0.0.1:8x", "127.0.0.1:000000000080", "*:80"};
    struct side a;
    side_open(&a);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(control_address_check(bad[i]), ERR_USAGE);
        assert_int_equal(control_peer(a.control, a.keys.id, a.keys.sign_public, bad[i]), ERR_USAGE);
        assert_int_equal(control_check_link(a.control, a.keys.id, bad[i]), ERR_USAGE);
    }
    assert_int_equal(control_address_check("[::1]:7410"), 0);
    char out[CONTROL_ADDRESS_BYTES], error[256];
    assert_int_equal(control_address_resolve("127.0.0.1:7410", out, error), 0);
    assert_string_equal(out, "127.0.0.1:7410");
    assert_int_equal(control_address_resolve("[::1]:7410", out, error), 0);
    assert_string_equal(out, "[::1]:7410");
    assert_int_equal(control_address_resolve("7410", out, error), ERR_USAGE);
    struct control *second = NULL;
    struct control_options options = {.context = a.context, .zap = a.zap, .keys = &a.keys, .listen = a.address};
    assert_int_equal(control_open(&options, &second, error), ERR_EXISTS);
    assert_non_null(strstr(error, "another program"));
    options.listen = "somewhere:1";
    assert_int_equal(control_open(&options, &second, error), ERR_USAGE);
    assert_null(second);
    side_close(&a);
}

/* ---- strangers --------------------------------------------------------------------------------------------------- */

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
    introduce(&a, &b);
    introduce(&b, &a);
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
    introduce(&a, &b);
    introduce(&b, &a);
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
    introduce(&a, &b);
    introduce(&b, &a);
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
/* A program that is no shoal listens where the peer should be, and answers rubbish; later the peer is back. */
static void a_link_recovers_from_another_program_on_the_port(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one), 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &bytes), 0);
    struct keys other;
    keys_create(&other);
    char address[CONTROL_ADDRESS_BYTES];
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(control_peer(a.control, other.id, other.sign_public, address), 0);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    say(fd, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n                              ", 78);
    (void)close(fd);
    (void)close(listener);
    side_open_at(&b, address);
    assert_int_equal(control_admit(b.control, a.keys.sign_public, false, false), 0);
    /* The same peer as `a` sees it, with the key that it has: */
    b.keys = other;
    control_close(&b.control);
    char error[256];
    struct control_options options = {.context = b.context, .zap = b.zap, .keys = &b.keys, .listen = address};
    uint64_t end_ms = now_ms() + PATIENCE_MS;
    while (control_open(&options, &b.control, error) == ERR_EXISTS && now_ms() < end_ms) {
        side_turn(&a, 20); /* libzmq closes in the background */
    }
    assert_non_null(b.control);
    assert_true(deliver(&a, &b, "back", PATIENCE_MS));
    side_close(&a);
    side_close(&b);
}

/* ---- joining ----------------------------------------------------------------------------------------------------- */

struct joiner {
    void *context;
    struct token token;
    struct keys keys;
    uint8_t buffer[MESSAGE_BYTES_MAX];
    struct join_answer answer;
    int result;
    bool done;
    pthread_mutex_t mutex;
    char error[256];
};

static void *joiner_run(void *context)
{
    struct joiner *joiner = context;
    int result = control_join(joiner->context, &joiner->token, &joiner->keys, "ws-2", 3000, joiner->buffer,
                              sizeof joiner->buffer, &joiner->answer, joiner->error);
    (void)pthread_mutex_lock(&joiner->mutex);
    joiner->result = result;
    joiner->done = true;
    (void)pthread_mutex_unlock(&joiner->mutex);
    return NULL;
}

static bool joiner_done(struct joiner *joiner)
{
    (void)pthread_mutex_lock(&joiner->mutex);
    bool done = joiner->done;
    (void)pthread_mutex_unlock(&joiner->mutex);
    return done;
}

/* Serves a's door while somebody joins with `joiner->token`, answering with `answer`; returns the number of requests.
 */
static int serve_join(struct side *a, struct joiner *joiner, const struct join_answer *answer)
{
    pthread_t thread;
    int requests = 0;
    static uint8_t bytes[MESSAGE_BYTES_MAX];
    uint8_t invite_key[32];
    token_invite_key(&joiner->token, invite_key);
    joiner->context = zmq_ctx_new();
    (void)pthread_mutex_init(&joiner->mutex, NULL);
    assert_int_equal(pthread_create(&thread, NULL, joiner_run, joiner), 0);
    while (!joiner_done(joiner)) {
        side_turn(a, 20);
        struct control_incoming in;
        while (control_receive(a->control, &in) == 0) {
            struct join_request request;
            assert_int_equal(in.from.kind, ZAP_INVITE);
            assert_true(node_id_is_none(in.from.node));
            assert_memory_equal(in.from.invite_key, invite_key, 32);
            assert_int_equal(join_request_decode(in.bytes, in.count, joiner->token.mesh, invite_key, &request), 0);
            assert_memory_equal(request.sign_public, joiner->keys.sign_public, 32);
            requests++;
            size_t count = join_answer_encode(answer, bytes, sizeof bytes);
            assert_int_equal(control_reply(a->control, in.client, bytes, count), 0);
            assert_int_equal(control_reply(a->control, in.client + 1, bytes, count), ERR_NOT_FOUND);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_mutex_destroy(&joiner->mutex);
    assert_int_equal(zmq_ctx_term(joiner->context), 0);
    return requests;
}

static struct joiner *joiner_new(const struct side *a)
{
    struct joiner *joiner = calloc(1, sizeof *joiner);
    assert_non_null(joiner);
    keys_create(&joiner->keys);
    uint8_t invite_key[32];
    token_create(joiner->token.secret, invite_key);
    joiner->token.mesh = (mesh_id){{4}};
    joiner->token.member_count = 1;
    memcpy(joiner->token.members[0].sign_public, a->keys.sign_public, 32);
    joiner->token.members[0].address_count = 1;
    (void)bytes_copy_text(joiner->token.members[0].addresses[0], TOKEN_ADDRESS_BYTES, a->address);
    return joiner;
}

static void one_joins_with_an_invite(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    struct joiner *joiner = joiner_new(&a);
    uint8_t invite_key[32];
    token_invite_key(&joiner->token, invite_key);
    assert_int_equal(control_admit(a.control, invite_key, true, false), 0);
    struct join_answer welcome = {.records = (const uint8_t *)"records", .record_bytes = 7};
    assert_int_equal(serve_join(&a, joiner, &welcome), 1);
    assert_int_equal(joiner->result, 0);
    assert_int_equal(joiner->answer.record_bytes, 7);
    assert_memory_equal(joiner->answer.records, "records", 7);

    joiner->done = false;
    struct join_answer refusal = {.code = ERR_REFUSED, .text = "The invite has expired."};
    assert_int_equal(serve_join(&a, joiner, &refusal), 1);
    assert_int_equal(joiner->result, ERR_REFUSED);
    assert_non_null(strstr(joiner->error, "The invite has expired."));

    joiner->done = false;
    assert_int_equal(control_admit(a.control, invite_key, true, true), 0); /* revoked */
    assert_int_equal(serve_join(&a, joiner, &welcome), 0);
    assert_int_equal(joiner->result, ERR_TIMEOUT);
    assert_non_null(strstr(joiner->error, "No member let us in"));
    free(joiner);
    side_close(&a);
}

static void invites_do_not_open_the_bulk_door(void **state)
{
    (void)state;
    struct side a;
    side_open(&a);
    uint8_t secret[32], invite_key[32];
    token_create(secret, invite_key);
    assert_int_equal(control_admit(a.control, invite_key, true, false), 0);
    assert_int_equal(control_admit(a.control, a.keys.sign_public, false, false), 0);
    void *asker = zmq_socket(a.context, ZMQ_REQ);
    int zero = 0;
    assert_int_equal(zmq_setsockopt(asker, ZMQ_LINGER, &zero, sizeof zero), 0);
    assert_int_equal(zmq_connect(asker, "inproc://zeromq.zap.01"), 0);
    static const struct {
        const char *version, *domain, *mechanism;
        int key; /* 0: the invite's, 1: the member's, 2: another, 3: too short */
        const char *status;
    } rows[] = {
        {"1.0", ZAP_DOMAIN_CONTROL, "CURVE", 0, "200"}, {"1.0", ZAP_DOMAIN_CONTROL, "CURVE", 1, "200"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 0, "300"},    {"1.0", ZAP_DOMAIN_BULK, "CURVE", 1, "200"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 2, "300"},    {"1.0", "", "CURVE", 1, "300"},
        {"2.0", ZAP_DOMAIN_BULK, "CURVE", 1, "300"},    {"1.0", ZAP_DOMAIN_BULK, "NULL", 1, "300"},
        {"1.0", ZAP_DOMAIN_BULK, "CURVE", 3, "300"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const uint8_t *key = rows[i].key == 0 ? invite_key : rows[i].key == 2 ? secret : a.keys.curve_public;
        (void)zmq_send(asker, rows[i].version, 3, ZMQ_SNDMORE);
        (void)zmq_send(asker, "77", 2, ZMQ_SNDMORE);
        (void)zmq_send(asker, rows[i].domain, strlen(rows[i].domain), ZMQ_SNDMORE);
        (void)zmq_send(asker, "127.0.0.1", 9, ZMQ_SNDMORE);
        (void)zmq_send(asker, "", 0, ZMQ_SNDMORE);
        (void)zmq_send(asker, rows[i].mechanism, strlen(rows[i].mechanism), ZMQ_SNDMORE);
        (void)zmq_send(asker, key, rows[i].key == 3 ? 31 : 32, 0);
        side_turn(&a, 1000);
        char frames[6][256];
        int sizes[6];
        for (int f = 0; f < 6; f++) {
            sizes[f] = zmq_recv(asker, frames[f], sizeof frames[f], 0);
            assert_in_range(sizes[f], 0, 255);
        }
        assert_int_equal(sizes[2], 3);
        assert_memory_equal(frames[1], "77", 2);
        assert_memory_equal(frames[2], rows[i].status, 3);
    }
    assert_int_equal(zmq_send(asker, "1.0", 3, 0), 3); /* six frames are missing */
    side_turn(&a, 1000);
    char frame[256];
    assert_int_equal(zmq_recv(asker, frame, sizeof frame, 0), 3);
    assert_int_equal(zmq_close(asker), 0);
    side_close(&a);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

static enum control_link check(struct side *side, const char *address)
{
    node_id asked = {{42}}, node;
    enum control_link link;
    assert_int_equal(control_check_link(side->control, asked, address), 0);
    uint64_t begin_ms = now_ms();
    while (control_check_next(side->control, &node, &link) != 0) {
        assert_true(now_ms() - begin_ms < PATIENCE_MS);
        uint64_t next = control_next_ms(side->control), now = now_ms();
        side_turn(side, next <= now ? 0 : (long)(next - now));
    }
    assert_true(node_id_equal(node, asked));
    assert_int_equal(control_next_ms(side->control), UINT64_MAX);
    return link;
}

static void a_link_is_open_refused_or_silent(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    assert_int_equal(check(&a, b.address), CONTROL_LINK_OPEN);
    char address[CONTROL_ADDRESS_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(check(&a, address), CONTROL_LINK_REFUSED);
    /* A listener whose queue is full drops what comes: silence, as behind a pulled cable. */
    assert_int_equal(listen(fd, 0), 0);
    int fillers[4];
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof at);
    }
    uint64_t begin_ms = now_ms();
    assert_int_equal(check(&a, address), CONTROL_LINK_SILENT);
    assert_true(now_ms() - begin_ms >= CONTROL_CHECK_MS - 10);
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        assert_int_equal(control_check_link(a.control, a.keys.id, address), 0);
    }
    assert_int_equal(control_check_link(a.control, a.keys.id, address), ERR_FULL);
    for (int i = 0; i < 4; i++) {
        (void)close(fillers[i]);
    }
    (void)close(fd);
    side_close(&a);
    side_close(&b);
}

int main(void)
{
    if (keys_start() != 0) {
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_members_talk),
        cmocka_unit_test(they_talk_over_ipv6_too),
        cmocka_unit_test(a_member_admitted_late_gets_in),
        cmocka_unit_test(an_evicted_key_is_cut_off_and_stays_out),
        cmocka_unit_test(what_an_evicted_key_left_waiting_shuts_nothing_else),
        cmocka_unit_test(a_peer_that_moved_is_followed),
        cmocka_unit_test(many_peers_come_and_go),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(strangers_harm_nobody),
        cmocka_unit_test(a_member_that_misbehaves_is_bounded),
        cmocka_unit_test(a_burst_with_pings_and_a_broken_connection_end_nothing),
        cmocka_unit_test(what_one_sender_may_have_waiting_is_bounded),
        cmocka_unit_test(after_a_stall_each_call_takes_a_bounded_number),
        cmocka_unit_test(those_who_send_too_many_messages_starve_nobody),
        cmocka_unit_test(those_who_send_too_many_bytes_starve_nobody),
        cmocka_unit_test(a_link_recovers_from_another_program_on_the_port),
        cmocka_unit_test(one_joins_with_an_invite),
        cmocka_unit_test(invites_do_not_open_the_bulk_door),
        cmocka_unit_test(a_link_is_open_refused_or_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

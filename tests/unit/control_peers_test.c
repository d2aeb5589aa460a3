/* Members and the links between them. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/control_socket.h"
#include "gossip/message.h"
#include "tests/unit/control_fixture.h"

static void two_members_talk(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    befriend(&a, &b);
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
    befriend(&a, &b);
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
    befriend(&a, &b);
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
        befriend(&a, &b);
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

static void keepalives_of_a_thousand_peers_cost_what_those_of_64_do(void **state)
{
    (void)state;
    assert_int_equal(control_keepalive_s(0), CONTROL_KEEPALIVE_S);
    assert_int_equal(control_keepalive_s(64), CONTROL_KEEPALIVE_S);
    for (uint32_t peers = 1; peers <= CONTROL_PEERS_MAX; peers++) {
        assert_in_range(peers, 1, 64 * (uint32_t)control_keepalive_s(peers) / CONTROL_KEEPALIVE_S);
    }
    assert_in_range(control_keepalive_s(CONTROL_PEERS_MAX), CONTROL_KEEPALIVE_S, 600);
}

/* Whether a socket of this process sends keepalives every so many seconds. */
static bool some_socket_keeps_alive_every(int keepalive_s)
{
    for (int fd = 0; fd < 1024; fd++) {
        int seconds = 0;
        socklen_t bytes = sizeof seconds;
        if (getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, &bytes) == 0 && seconds == keepalive_s) {
            return true;
        }
    }
    return false;
}

static void a_connection_keeps_alive_at_the_pace_of_the_mesh_that_is_expected(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    control_expect(a.control, 999);
    befriend(&a, &b);
    assert_true(deliver(&a, &b, "hello", PATIENCE_MS));
    assert_true(some_socket_keeps_alive_every(control_keepalive_s(999)));
    assert_false(some_socket_keeps_alive_every(control_keepalive_s(998))); /* no other has it by chance */
    side_close(&a);
    side_close(&b);
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
        assert_int_equal(control_check_link(a.control, a.keys.id, a.keys.sign_public, bad[i]), ERR_USAGE);
    }
    assert_int_equal(control_address_check("[::1]:7410"), 0);
    char out[CONTROL_ADDRESS_BYTES], error[256];
    assert_int_equal(control_address_resolve("127.0.0.1:7410", out, error), 0);
    assert_string_equal(out, "127.0.0.1:7410");
    assert_int_equal(control_address_resolve("[::1]:7410", out, error), 0);
    assert_string_equal(out, "[::1]:7410");
    assert_int_equal(control_address_resolve("7410", out, error), ERR_USAGE);
    assert_int_equal(control_address_resolve("*:7410", out, error), ERR_USAGE); /* glibc would take it for this machine */
    assert_non_null(strstr(error, "\"*:7410\" is not HOST:PORT"));
    const char *const any[] = {"0.0.0.0:1", "0:1", "[::]:1", "[::ffff:0.0.0.0]:1"};
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        assert_int_equal(control_address_resolve(any[i], out, error), ERR_USAGE);
        assert_non_null(strstr(error, "every address of a machine"));
    }
    assert_int_equal(control_address_resolve("[::ffff:10.0.0.5]:1", out, error), 0);
    assert_int_equal(control_address_resolve("no such host:7410", out, error), ERR_NOT_FOUND);
    assert_non_null(strstr(error, "The host \"no such host\" was not found: "));
    struct control *second = NULL;
    struct control_options options = {.context = a.context, .zap = a.zap, .keys = &a.keys, .listen = a.address};
    assert_int_equal(control_open(&options, &second, error), ERR_EXISTS);
    assert_non_null(strstr(error, "another program"));
    options.listen = "somewhere:1";
    assert_int_equal(control_open(&options, &second, error), ERR_USAGE);
    assert_null(second);
    side_close(&a);
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
    static const char nonsense[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n                              ";
    (void)!send(fd, nonsense, sizeof nonsense, MSG_NOSIGNAL);
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

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* `other` answers meanwhile; its key is the one asked for. */
static enum control_link check(struct side *side, struct side *other, const char *address)
{
    node_id asked = {{42}};
    struct control_checked checked;
    assert_int_equal(control_check_link(side->control, asked, other->keys.sign_public, address), 0);
    uint64_t begin_ms = now_ms();
    while (control_check_next(side->control, &checked) != 0) {
        assert_true(now_ms() - begin_ms < PATIENCE_MS);
        side_turn(side, 1);
        side_turn(other, 1);
    }
    assert_true(node_id_equal(checked.node, asked));
    assert_string_equal(checked.address, address);
    assert_int_equal(control_next_ms(side->control), UINT64_MAX);
    return checked.link;
}

static void a_check_tells_whose_key_answers(void **state)
{
    (void)state;
    struct side a, b, c;
    side_open(&a);
    side_open(&b);
    side_open(&c);
    assert_int_equal(check(&a, &b, b.address), CONTROL_LINK_OPEN); /* b does not know a */
    assert_int_equal(control_admit(b.control, a.keys.sign_public, false, false), 0);
    assert_int_equal(control_admit(c.control, a.keys.sign_public, false, false), 0);
    assert_int_equal(check(&a, &b, b.address), CONTROL_LINK_REACHED);
    assert_int_equal(control_check_link(a.control, b.keys.id, b.keys.sign_public, c.address), 0); /* a stranger at b's address */
    struct control_checked checked;
    while (control_check_next(a.control, &checked) != 0) {
        side_turn(&a, 1);
        side_turn(&c, 1);
    }
    assert_int_equal(checked.link, CONTROL_LINK_OPEN);
    for (int i = 0; i < 2000; i++) { /* sockets that leak would run out */
        assert_int_equal(check(&a, &b, b.address), CONTROL_LINK_REACHED);
    }
    side_close(&a);
    side_close(&b);
    side_close(&c);
}

static void a_link_is_open_refused_or_silent(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    assert_int_equal(check(&a, &b, b.address), CONTROL_LINK_OPEN);
    char address[CONTROL_ADDRESS_BYTES];
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    assert_int_equal(check(&a, &b, address), CONTROL_LINK_REFUSED);
    /* A listener whose queue is full drops what comes: silence, as behind a pulled cable. */
    assert_int_equal(listen(fd, 0), 0);
    int fillers[4];
    for (int i = 0; i < 4; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof at);
    }
    uint64_t begin_ms = now_ms();
    assert_int_equal(check(&a, &b, address), CONTROL_LINK_SILENT);
    assert_true(now_ms() - begin_ms >= CONTROL_CHECK_MS - 10);
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        assert_int_equal(control_check_link(a.control, a.keys.id, b.keys.sign_public, address), 0);
    }
    assert_int_equal(control_check_link(a.control, a.keys.id, b.keys.sign_public, address), ERR_FULL);
    for (int i = 0; i < 4; i++) {
        (void)close(fillers[i]);
    }
    (void)close(fd);
    side_close(&a);
    side_close(&b);
}

/* What `from` says arrives, from who is admitted as this. */
static bool arrives_as(struct side *from, struct side *to, enum zap_kind kind)
{
    for (uint64_t end_ms = now_ms() + PATIENCE_MS; now_ms() < end_ms;) {
        (void)control_send(from->control, to->keys.id, (const uint8_t *)"hello", 5);
        side_turn(to, 20);
        struct control_incoming in;
        while (control_receive(to->control, &in) == 0) {
            if (in.from.kind == kind) {
                return true;
            }
        }
    }
    return false;
}

/* Anybody can write an invite for any key, and revoke it: that does not make a member less of one. */
static void an_invite_for_a_members_key_shuts_no_member_out(void **state)
{
    (void)state;
    struct side a, b;
    side_open(&a);
    side_open(&b);
    introduce(&b, &a);
    assert_int_equal(control_admit(a.control, b.keys.curve_public, true, false), 0);
    assert_true(arrives_as(&b, &a, ZAP_INVITE));
    assert_int_equal(control_admit(a.control, b.keys.sign_public, false, false), 0);
    assert_true(arrives_as(&b, &a, ZAP_MEMBER));
    assert_int_equal(control_admit(a.control, b.keys.curve_public, true, true), 0); /* revoked */
    assert_int_equal(control_admit(a.control, b.keys.curve_public, true, true), ERR_NOT_FOUND);
    assert_true(deliver(&b, &a, "still here", PATIENCE_MS));
    assert_int_equal(control_admit(a.control, b.keys.curve_public, true, false), 0);
    assert_true(deliver(&b, &a, "and still", PATIENCE_MS));
    assert_int_equal(control_admit(a.control, b.keys.sign_public, false, true), 0); /* evicted, as a member */
    assert_true(arrives_as(&b, &a, ZAP_INVITE));
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
        cmocka_unit_test(keepalives_of_a_thousand_peers_cost_what_those_of_64_do),
        cmocka_unit_test(a_connection_keeps_alive_at_the_pace_of_the_mesh_that_is_expected),
        cmocka_unit_test(bad_addresses_are_refused),
        cmocka_unit_test(a_link_recovers_from_another_program_on_the_port),
        cmocka_unit_test(a_link_is_open_refused_or_silent),
        cmocka_unit_test(a_check_tells_whose_key_answers),
        cmocka_unit_test(an_invite_for_a_members_key_shuts_no_member_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

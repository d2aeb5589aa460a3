#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "gossip/beacon.h"

static const mesh_id mesh = {{1, 2}}, other_mesh = {{1, 3}};
static const node_id first = {{7}}, second = {{8}};

/* A UDP port that was free a moment ago. */
static uint16_t free_port(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    (void)close(fd);
    return ntohs(at.sin_port);
}

static void a_datagram_comes_back_and_others_are_told_apart(void **state)
{
    (void)state;
    uint8_t bytes[BEACON_BYTES + 1] = {0};
    node_id node;
    uint16_t port;
    beacon_encode(mesh, first, 7410, bytes);
    assert_int_equal(beacon_decode(bytes, BEACON_BYTES, mesh, &node, &port), 0);
    assert_true(node_id_equal(node, first));
    assert_int_equal(port, 7410);
    assert_int_equal(beacon_decode(bytes, BEACON_BYTES, other_mesh, &node, &port), ERR_NOT_FOUND);
    for (size_t count = 0; count <= BEACON_BYTES + 1; count++) {
        if (count != BEACON_BYTES) {
            assert_int_equal(beacon_decode(bytes, count, mesh, &node, &port), ERR_MALFORMED);
        }
    }
    bytes[4]++;
    assert_int_equal(beacon_decode(bytes, BEACON_BYTES, mesh, &node, &port), ERR_VERSION);
    bytes[0]++;
    assert_int_equal(beacon_decode(bytes, BEACON_BYTES, mesh, &node, &port), ERR_MALFORMED);
}

static void two_daemons_of_one_machine_hear_each_other(void **state)
{
    (void)state;
    struct beacon *a, *b;
    char error[256];
    uint16_t port = free_port();
    assert_int_equal(beacon_open(port, mesh, first, 1111, &a, error), 0);
    assert_int_equal(beacon_open(port, mesh, second, 2222, &b, error), 0);
    beacon_tick(a, 1000);
    struct pollfd item = {.fd = beacon_fd(b), .events = POLLIN};
    assert_int_equal(poll(&item, 1, 10000), 1);
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
    assert_int_equal(beacon_receive(b, &node, address), 0);
    assert_true(node_id_equal(node, first));
    assert_non_null(strstr(address, ":1111"));
    /* Its own are not news to a, other meshes' and strangers' bytes to nobody. */
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int stranger = socket(AF_INET, SOCK_DGRAM, 0);
    uint8_t bytes[BEACON_BYTES];
    beacon_encode(other_mesh, first, 1, bytes);
    (void)sendto(stranger, bytes, sizeof bytes, 0, (struct sockaddr *)&to, sizeof to);
    (void)sendto(stranger, "SHLB and more of it that is far too long to be a beacon", 55, 0, (struct sockaddr *)&to,
                 sizeof to);
    (void)sendto(stranger, "", 0, 0, (struct sockaddr *)&to, sizeof to);
    while (beacon_receive(b, &node, address) == 0) {
        assert_true(node_id_equal(node, first)); /* the same beacon over another interface */
    }
    assert_int_equal(beacon_receive(a, &node, address), ERR_AGAIN);
    (void)close(stranger);
    beacon_close(&a);
    beacon_close(&b);
    assert_null(a);
}

static void it_speaks_often_at_first_and_rarely_later(void **state)
{
    (void)state;
    struct beacon *a;
    char error[256];
    assert_int_equal(beacon_open(free_port(), mesh, first, 1111, &a, error), 0);
    assert_int_equal(beacon_next_ms(a), 0);
    uint64_t now = 5000, ticks = 0;
    for (; now < 5000 + BEACON_FAST_FOR_MS; now = beacon_next_ms(a), ticks++) {
        beacon_tick(a, now);
        beacon_tick(a, now); /* not due again */
        assert_int_equal(beacon_next_ms(a), now + BEACON_FAST_MS);
    }
    assert_int_equal(ticks, BEACON_FAST_FOR_MS / BEACON_FAST_MS);
    beacon_tick(a, now);
    assert_int_equal(beacon_next_ms(a), now + BEACON_SLOW_MS);
    beacon_close(&a);
}

static void a_port_in_use_is_a_soft_failure(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &bytes), 0);
    struct beacon *a = NULL;
    char error[256];
    assert_int_equal(beacon_open(ntohs(at.sin_port), mesh, first, 1111, &a, error), ERR_IO);
    assert_null(a);
    assert_non_null(strstr(error, "will not be found"));
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_datagram_comes_back_and_others_are_told_apart),
        cmocka_unit_test(two_daemons_of_one_machine_hear_each_other),
        cmocka_unit_test(it_speaks_often_at_first_and_rarely_later),
        cmocka_unit_test(a_port_in_use_is_a_soft_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

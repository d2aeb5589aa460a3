#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/ports.h"
#include "tests/unit/forked.h"

/* A range that no other test and no daemon uses. */
static const struct ports range = {7801, 7808};
#define COUNT 8u

static void a_range_is_two_ports_in_order(void **state)
{
    (void)state;
    struct ports out = {1, 2};
    assert_int_equal(ports_read("7413-7612", &out), 0);
    assert_int_equal(out.low, 7413);
    assert_int_equal(out.high, 7612);
    assert_int_equal(ports_read("1-65535", &out), 0);
    assert_int_equal(ports_read("80-80", &out), 0);
    static const char *const bad[] = {"",        "7413",     "7413-",     "-7612",      "7612-7413", "0-10",        "1-65536",
                                      "1-99999", "7413-76x", "7413 -7612", "7413--7612", "+1-2",      "1-2-3",       "07-08",
                                      "a-b",     "7413:7612", " 1-2",      "1-2 ",       "1-4294967298"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(ports_read(bad[i], &out), ERR_USAGE);
    }
    assert_int_equal(out.low, 80);
    char text[PORTS_TEXT_BYTES];
    ports_write((struct ports){65534, 65535}, text);
    assert_string_equal(text, "65534-65535");
}

static void ranges_overlap_if_a_port_is_in_both(void **state)
{
    (void)state;
    assert_true(ports_overlap((struct ports){10, 20}, (struct ports){20, 30}));
    assert_true(ports_overlap((struct ports){10, 20}, (struct ports){1, 100}));
    assert_false(ports_overlap((struct ports){10, 20}, (struct ports){21, 30}));
    struct ports ephemeral;
    assert_int_equal(ports_ephemeral(&ephemeral), 0);
    assert_true(ephemeral.low < ephemeral.high);
}

static void all_ports_are_given_once_and_come_back(void **state)
{
    (void)state;
    int locks[COUNT], one;
    uint16_t port;
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(ports_lock(range, 7806, &port, &locks[i]), 0);
        assert_int_equal(port, 7801 + (5 + i) % COUNT); /* from 7806 on, then from the start */
        assert_true((fcntl(locks[i], F_GETFD) & FD_CLOEXEC) != 0);
    }
    assert_int_equal(ports_lock(range, 7801, &port, &one), ERR_FULL);
    assert_int_equal(ports_take(range, 7801, &port, &one), ERR_FULL);
    (void)close(locks[3]);
    assert_int_equal(ports_take(range, 0, &port, &locks[3]), 0);
    assert_int_equal(port, 7801);
    for (uint32_t i = 0; i < COUNT; i++) {
        (void)close(locks[i]);
    }
    assert_int_equal(ports_lock(range, 9999, &port, &one), 0);
    assert_int_equal(port, 7801);
    (void)close(one);
}

/* Where this process may, it moves to a network of its own, so that another run of the test on this machine takes no port. */
static int enter_own_network(void **state)
{
    (void)state;
    struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    if (unshare(CLONE_NEWNET) == 0) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &request), 0);
        (void)close(fd);
    }
    return 0;
}

static int listen_at(int family, uint16_t port)
{
    struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = in6addr_loopback};
    struct sockaddr_in narrow = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct sockaddr *address = family == AF_INET6 ? (const struct sockaddr *)&wide : (const struct sockaddr *)&narrow;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 &&
        (bind(fd, address, family == AF_INET6 ? sizeof wide : sizeof narrow) != 0 || listen(fd, 8) != 0)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void a_port_of_a_stranger_is_passed_over_and_not_disturbed(void **state)
{
    (void)state;
    int narrow = listen_at(AF_INET, 7801), wide = listen_at(AF_INET6, 7802), lock;
    assert_true(narrow >= 0);
    uint16_t port;
    assert_int_equal(ports_take(range, 7801, &port, &lock), 0);
    assert_int_equal(port, wide >= 0 ? 7803 : 7802);
    assert_true(ports_has_stranger(7801));
    assert_false(ports_has_stranger(7804));
    int listener = listen_at(AF_INET, port);
    assert_true(listener >= 0);
    assert_false(ports_has_stranger(port)); /* with the lock it is a program of ours */
    (void)close(listener);
    (void)close(lock);
    (void)close(narrow);
    (void)close(wide);
    assert_int_equal(ports_take(range, 7801, &port, &lock), 0);
    assert_int_equal(port, 7801);
    int program = listen_at(AF_INET, 7801); /* what was taken can be bound by the program that gets it */
    assert_true(program >= 0);
    (void)close(program);
    (void)close(lock);
}

/* Leaves a closed connection in TIME_WAIT at the port: this side closes first. */
static void close_a_connection_at(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 8), 0);
    assert_int_equal(connect(client, (const struct sockaddr *)&address, sizeof address), 0);
    int server = accept(listener, NULL, NULL);
    assert_true(server >= 0);
    (void)close(server);
    char byte;
    assert_int_equal(recv(client, &byte, 1, 0), 0);
    (void)close(client);
    (void)close(listener);
}

static void a_port_is_taken_by_an_earlier_look(void **state)
{
    (void)state;
    uint8_t uses[COUNT];
    uint16_t port;
    int lock, others[2], stranger = listen_at(AF_INET, 7801);
    assert_true(stranger >= 0);
    ports_look(range, uses);
    (void)close(stranger);
    assert_int_equal(ports_take_seen(range, 7801, uses, &port, &lock), 0);
    assert_int_equal(port, 7802); /* the look tells, not the present state; what is locked since is passed over all the same */
    assert_int_equal(ports_take_seen(range, 7801, uses, &port, &others[0]), 0);
    assert_int_equal(port, 7803);
    assert_int_equal(ports_take_seen(range, 7801, NULL, &port, &others[1]), 0);
    assert_int_equal(port, 7801);
    (void)close(lock);
    (void)close(others[0]);
    (void)close(others[1]);
}

static void a_port_with_closed_connections_comes_last(void **state)
{
    (void)state;
    const struct ports pair = {7811, 7812};
    close_a_connection_at(7811);
    int first, second;
    uint16_t port;
    assert_int_equal(ports_take(pair, 7811, &port, &first), 0);
    assert_int_equal(port, 7812);
    assert_int_equal(ports_take(pair, 7811, &port, &second), 0);
    assert_int_equal(port, 7811);
    (void)close(first);
    (void)close(second);
}

/* Takes and frees ports until `rounds` are over. While it has a port it binds it without SO_REUSEADDR and listens, so a port
 * that is given twice is an error of bind. */
static void taker(uint32_t seed, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        uint16_t port;
        int lock;
        int code = ports_take(range, (uint16_t)(range.low + (seed + (uint32_t)i * 5) % COUNT), &port, &lock);
        if (code == ERR_FULL) {
            (void)sched_yield();
            continue;
        }
        int fd = code == 0 ? listen_at(AF_INET, port) : -1;
        if (fd < 0) {
            forked_end(1);
        }
        (void)sched_yield();
        (void)close(fd);
        (void)close(lock);
    }
    forked_end(0);
}

static void no_two_processes_have_one_port(void **state)
{
    (void)state;
    pid_t pids[12];
    for (uint32_t i = 0; i < 12; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            taker(i, 100);
        }
        assert_true(pids[i] > 0);
    }
    for (uint32_t i = 0; i < 12; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
}

/* A child that has a copy of the lock, perhaps as another user, and waits for its end. */
static pid_t fork_heir(bool is_another_user)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (is_another_user && setuid(65534) != 0) {
            forked_end(1);
        }
        uint16_t port;
        int lock;
        int code = is_another_user ? ports_lock(range, 7804, &port, &lock) : 0;
        if (code != 0) {
            forked_end(1);
        }
        (void)raise(SIGSTOP);
        forked_end(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));
    return pid;
}

static void end_heir(pid_t pid)
{
    int status;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void the_last_process_that_has_the_lock_frees_the_port(void **state)
{
    (void)state;
    uint16_t port;
    int lock;
    assert_int_equal(ports_lock(range, 7804, &port, &lock), 0);
    pid_t heir = fork_heir(false);
    (void)close(lock); /* handed over without a gap */
    assert_int_equal(ports_lock((struct ports){7804, 7804}, 0, &port, &lock), ERR_FULL);
    end_heir(heir);
    assert_int_equal(ports_lock((struct ports){7804, 7804}, 0, &port, &lock), 0);
    (void)close(lock);
}

static void ports_of_another_user_are_taken_too(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip(); /* only root can become another user */
    }
    uint16_t port;
    int lock;
    pid_t heir = fork_heir(true);
    assert_int_equal(ports_lock((struct ports){7804, 7804}, 0, &port, &lock), ERR_FULL);
    end_heir(heir);
    assert_int_equal(ports_lock((struct ports){7804, 7804}, 0, &port, &lock), 0);
    (void)close(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_range_is_two_ports_in_order),
        cmocka_unit_test(ranges_overlap_if_a_port_is_in_both),
        cmocka_unit_test(all_ports_are_given_once_and_come_back),
        cmocka_unit_test(a_port_of_a_stranger_is_passed_over_and_not_disturbed),
        cmocka_unit_test(a_port_is_taken_by_an_earlier_look),
        cmocka_unit_test(a_port_with_closed_connections_comes_last),
        cmocka_unit_test(no_two_processes_have_one_port),
        cmocka_unit_test(the_last_process_that_has_the_lock_frees_the_port),
        cmocka_unit_test(ports_of_another_user_are_taken_too),
    };
    return cmocka_run_group_tests(tests, enter_own_network, NULL);
}

/* Bad days of a group, as the programs see them that are in it: each costs the step that the group was in, and at most the
 * worker that it happened to. */
#include "tests/unit/elastic_fixture.h"

#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"

#define VICTIM 1

static void fill_noise(uint8_t *out, size_t count, uint64_t seed)
{
    struct random random;
    random_init(&random, seed);
    for (size_t i = 0; i < count; i++) {
        out[i] = (uint8_t)random_u64(&random);
    }
}

/* ---- garbage from a member ---- */

static void noise_between_records(struct elastic_worker *w, uint64_t step)
{
    if (w->number != VICTIM || step % 8 != 5 || atomic_load(&w->word->flag) > step) {
        return;
    }
    atomic_store(&w->word->flag, (uint32_t)step + 1); /* not again when the step is done over */
    int fds[32];
    size_t count = elastic_tcp_sockets(fds, 32);
    uint8_t noise[3000];
    fill_noise(noise, sizeof noise, step);
    for (size_t i = 0; i < count; i++) {
        (void)!send(fds[i], noise, sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* While the records of the next all-reduce are on their way: in one, or between two. From another process, which has the same
 * connections. */
static void noise_in_records(struct elastic_worker *w, uint64_t step)
{
    if (w->number != VICTIM || step % 4 != 1 || atomic_load(&w->word->flag) > step) {
        return;
    }
    atomic_store(&w->word->flag, (uint32_t)step + 1);
    pid_t noisy = fork();
    if (noisy != 0) {
        return;
    }
    int fds[32];
    uint8_t noise[48];
    size_t count = elastic_tcp_sockets(fds, 32);
    fill_noise(noise, sizeof noise, step);
    elastic_sleep_ms((int)(step * 7 % 4));
    for (size_t i = 0; i < count; i++) {
        struct pollfd item = {.fd = fds[i], .events = POLLOUT}; /* until there is room, or it is closed */
        (void)poll(&item, 1, 10000);
        (void)!send(fds[i], noise, 1 + step * 7 % sizeof noise, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    _exit(0);
}

static void run_all(const struct elastic_plan *plan, uint32_t size)
{
    struct elastic_run run;
    elastic_begin(&run, plan, size);
    elastic_fork(&run, 0, size);
    for (uint32_t number = 0; number < size; number++) {
        elastic_assert_done(&run, number);
    }
    for (uint32_t number = 0; number < size; number++) {
        assert_true(atomic_load(&run.words[number].broken) > 0); /* it was noticed */
    }
    elastic_end(&run);
}

static void test_garbage_between_records_costs_the_step(void **state)
{
    (void)state;
    static const struct elastic_plan small = {.steps = 40, .values = 500, .at_step = noise_between_records};
    static const struct elastic_plan large = {.steps = 16, .values = 100000, .at_step = noise_between_records};
    for (uint32_t size = 2; size <= 5; size++) {
        run_all(&small, size);
    }
    run_all(&large, 3);
}

static void test_garbage_in_records_costs_the_step(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 24, .values = 400000, .at_step = noise_in_records};
    run_all(&plan, 2);
    run_all(&plan, 3);
}

/* ---- strangers ---- */

/* Connects to the port where a worker waits for its group, and says `bytes`. */
static int stranger(struct elastic_run *run, uint32_t number, const void *bytes, size_t count)
{
    uint16_t port = fake_daemon_port(&run->daemon, number);
    assert_true(port != 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    (void)!send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT);
    return fd;
}

static size_t strangers(struct elastic_run *run, uint32_t size, int *fds)
{
    uint8_t noise[4000];
    size_t count = 0;
    fill_noise(noise, sizeof noise, size);
    for (uint32_t number = 0; number < size; number++) {
        fds[count++] = stranger(run, number, noise, sizeof noise);
        fds[count++] = stranger(run, number, noise, 1);
        fds[count++] = stranger(run, number, "", 0);
        fds[count++] = stranger(run, number, "SHOALTG1", 8);
        memcpy(noise, "SHOALTG1\0\0\0\0\0\0\0", 16); /* a hello from rank 0 whose MAC is noise */
        noise[15] = (uint8_t)number;
        fds[count++] = stranger(run, number, noise, 120);
        int gone = stranger(run, number, noise, 50);
        (void)close(gone);
    }
    return count;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)close(fds[i]);
    }
}

static void pace(struct elastic_worker *w, uint64_t step)
{
    (void)w;
    (void)step;
    elastic_sleep_ms(1);
}

static void test_strangers_at_the_door_disturb_nobody(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 300, .values = 2000, .at_step = pace};
    struct elastic_run run;
    int fds[64];
    elastic_begin(&run, &plan, 3);
    run.daemon.hold_groups = true;
    elastic_fork(&run, 0, 3);
    elastic_wait_group_count(&run, 3);
    size_t count = strangers(&run, 3, fds);
    fake_daemon_let_form(&run.daemon);
    elastic_wait(&run.words[0].applied, 10);
    assert_int_equal(atomic_load(&run.words[0].broken), 0);
    close_all(fds, count);
    count = strangers(&run, 3, fds); /* who comes while they train waits at the door of the next group */
    elastic_signal(&run, 2, SIGKILL);
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 1);
    assert_int_equal(atomic_load(&run.words[0].generation), 2);
    close_all(fds, count);
    elastic_end(&run);
}

/* ---- while a group forms ---- */

static uint64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* One worker waits for links that will not come, another reads in one go that there is a group and that it is over. Neither
 * waits until forming it is given up, 20 s. */
static void test_a_worker_lost_while_its_group_forms_is_not_waited_for(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 20, .values = 500};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    run.daemon.hold_groups = true;
    elastic_fork(&run, 0, 3);
    elastic_wait_group_count(&run, 3);
    elastic_signal(&run, 0, SIGSTOP);
    elastic_signal(&run, 2, SIGSTOP);
    fake_daemon_let_form(&run.daemon);
    elastic_sleep_ms(50); /* likely it waits for links by now; the outcome is the same if not */
    uint64_t lost_ms = now_ms();
    elastic_signal(&run, 2, SIGKILL);
    elastic_wait_group_count(&run, 4);
    elastic_signal(&run, 0, SIGCONT);
    elastic_assert_done(&run, 0);
    elastic_assert_done(&run, 1);
    assert_true(now_ms() - lost_ms < 10000);
    assert_int_equal(run.words[0].size, 2);
    elastic_end(&run);
}

/* ---- silence ---- */

static void test_a_worker_that_stops_reading_is_left_behind(void **state)
{
    (void)state;
    static const struct elastic_plan small = {.steps = 200, .values = 500, .timeout_ms = 700, .at_step = pace};
    static const struct elastic_plan large = {.steps = 60, .values = 600000, .timeout_ms = 1500, .at_step = pace};
    for (uint32_t i = 0; i < 4; i++) {
        struct elastic_run run;
        uint32_t size = 2 + i % 2;
        elastic_begin(&run, i < 2 ? &small : &large, size);
        elastic_fork(&run, 0, size);
        elastic_wait(&run.words[VICTIM].applied, 10);
        elastic_signal(&run, VICTIM, SIGSTOP);
        elastic_wait_group_count(&run, 2 * size - 1); /* all others have given it up */
        fake_daemon_expel(&run.daemon, VICTIM, false);
        for (uint32_t number = 0; number < size; number++) {
            if (number != VICTIM) {
                elastic_assert_done(&run, number);
            }
        }
        elastic_end(&run);
    }
}

static void test_a_worker_that_slept_through_a_generation_comes_back_behind_the_others(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 800, .values = 500, .timeout_ms = 700, .at_step = pace};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    elastic_wait(&run.words[VICTIM].applied, 10);
    elastic_signal(&run, VICTIM, SIGSTOP);
    elastic_wait_group_count(&run, 5);
    fake_daemon_expel(&run.daemon, VICTIM, false);
    elastic_wait(&run.words[0].generation, 2);
    uint64_t slept_at = atomic_load(&run.words[VICTIM].applied);
    elastic_wait(&run.words[0].applied, slept_at + 20);
    elastic_signal(&run, VICTIM, SIGCONT);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
        assert_int_equal(run.words[number].size, 3);
    }
    assert_int_equal(run.words[VICTIM].hashes[slept_at + 10], 0); /* it did not make these: it got the state */
    elastic_end(&run);
}

/* The worker is gone, and its connections are not: nobody is told by TCP, as when a host loses its power. */
static void die_without_a_word(struct elastic_worker *w, uint64_t step)
{
    elastic_sleep_ms(1);
    if (w->number == VICTIM && step == 20) {
        pid_t holder = fork();
        if (holder == 0) {
            (void)alarm(120);
            for (;;) {
                (void)pause();
            }
        }
        atomic_store(&w->word->flag, (uint32_t)holder);
        (void)raise(SIGKILL);
    }
}

static void test_a_worker_that_is_gone_without_a_word_costs_the_step(void **state)
{
    (void)state;
    static const struct elastic_plan told = {.steps = 60, .values = 500, .at_step = die_without_a_word};
    static const struct elastic_plan untold = {.steps = 60, .values = 500, .timeout_ms = 700, .at_step = die_without_a_word};
    for (uint32_t i = 0; i < 2; i++) {
        struct elastic_run run;
        elastic_begin(&run, i == 0 ? &told : &untold, 3);
        elastic_fork(&run, 0, 3);
        assert_int_equal(waitpid(run.pids[VICTIM], NULL, 0), run.pids[VICTIM]);
        run.pids[VICTIM] = 0;
        if (i == 0) {
            fake_daemon_expel(&run.daemon, VICTIM, true); /* long before their patience of a minute ends */
        } else {
            elastic_wait_group_count(&run, 5);
            fake_daemon_expel(&run.daemon, VICTIM, false);
        }
        elastic_assert_done(&run, 0);
        elastic_assert_done(&run, 2);
        assert_int_equal(run.words[0].size, 2);
        assert_int_equal(kill((pid_t)atomic_load(&run.words[VICTIM].flag), SIGKILL), 0);
        elastic_end(&run);
    }
}

/* ---- slowness ---- */

static void ten_times_as_slow(struct elastic_worker *w, uint64_t step)
{
    (void)step;
    elastic_sleep_ms(w->number == VICTIM ? 30 : 3);
}

static void test_a_slow_worker_is_waited_for(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 40, .values = 5000, .timeout_ms = 20000, .at_step = ten_times_as_slow};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
        assert_int_equal(atomic_load(&run.words[number].broken), 0);
    }
    elastic_end(&run);
}

/* Also in the middle of a collective: of each ten milliseconds it gets one. */
static void test_a_worker_that_gets_a_tenth_of_the_time_is_waited_for(void **state)
{
    (void)state;
    static const struct elastic_plan plan = {.steps = 12, .values = 300000, .timeout_ms = 20000};
    struct elastic_run run;
    elastic_begin(&run, &plan, 3);
    elastic_fork(&run, 0, 3);
    elastic_wait(&run.words[VICTIM].applied, 1);
    for (uint32_t i = 0; i < 40; i++) {
        elastic_signal(&run, VICTIM, SIGSTOP);
        elastic_sleep_ms(9);
        elastic_signal(&run, VICTIM, SIGCONT);
        elastic_sleep_ms(1);
    }
    for (uint32_t number = 0; number < 3; number++) {
        elastic_assert_done(&run, number);
        assert_int_equal(atomic_load(&run.words[number].broken), 0);
    }
    elastic_end(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_between_records_costs_the_step),
        cmocka_unit_test(test_garbage_in_records_costs_the_step),
        cmocka_unit_test(test_strangers_at_the_door_disturb_nobody),
        cmocka_unit_test(test_a_worker_lost_while_its_group_forms_is_not_waited_for),
        cmocka_unit_test(test_a_worker_that_stops_reading_is_left_behind),
        cmocka_unit_test(test_a_worker_that_slept_through_a_generation_comes_back_behind_the_others),
        cmocka_unit_test(test_a_worker_that_is_gone_without_a_word_costs_the_step),
        cmocka_unit_test(test_a_slow_worker_is_waited_for),
        cmocka_unit_test(test_a_worker_that_gets_a_tenth_of_the_time_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

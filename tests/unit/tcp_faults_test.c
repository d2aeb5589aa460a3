/* What becomes of a group over TCP when a rank fails: every other rank's collective ends, soon, with a sentence that names a
 * rank. */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/forked.h"
#include "tests/unit/tcp_fixture.h"
#include "train/group/tcp/inside.h"
#include "train/plan/reduce.h"

#define SOON_MS 10000 /* not the stall timeout of 20 s */

static void pause_ms(int ms)
{
    struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
}

static int body_all_reduce(struct rank *rank, struct tcp_group *group)
{
    return tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
}

static void give_values(struct group *g, uint64_t count)
{
    for (uint32_t i = 0; i < g->size; i++) {
        g->ranks[i].count = count;
        g->ranks[i].values = calloc(count + 1, sizeof(float));
        assert_non_null(g->ranks[i].values);
    }
}

static void free_values(struct group *g)
{
    for (uint32_t i = 0; i < g->size; i++) {
        free(g->ranks[i].values);
    }
}

static int body_vanish(struct rank *rank, struct tcp_group *group)
{
    /* Rank 1 closes the group and is gone. */
    return rank->options.rank == 1 ? 0 : tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
}

static void test_a_peer_that_vanishes_ends_the_others_at_once(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 5, 11};
    static const uint64_t counts[] = {0, 10, 5000, 1000000};
    for (size_t s = 0; s < 3; s++) {
        for (size_t c = 0; c < 4; c++) {
            struct group g;
            group_init(&g, sizes[s]);
            give_values(&g, counts[c]);
            for (uint32_t i = 0; i < g.size; i++) {
                g.ranks[i].body = body_vanish;
            }
            group_run(&g);
            for (uint32_t i = 0; i < g.size; i++) {
                if (i != 1) {
                    assert_int_equal(g.ranks[i].result, ERR_CLOSED);
                    assert_true(g.ranks[i].took_ms < SOON_MS);
                    assert_non_null(strstr(g.ranks[i].error, "lost rank"));
                }
            }
            free_values(&g);
        }
    }
}

static int body_leave_when_done(struct rank *rank, struct tcp_group *group)
{
    return tcp_group_broadcast(group, rank->values, rank->count * sizeof(float), 2);
}

/* The root of a broadcast is through with it long before the last rank, and may leave. */
static void test_a_rank_that_leaves_after_its_part_disturbs_nobody(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1, 1000, 1000000};
    for (size_t c = 0; c < 3; c++) {
        struct group g;
        group_init(&g, 8);
        give_values(&g, counts[c]);
        for (uint32_t i = 0; i < g.size; i++) {
            g.ranks[i].body = body_leave_when_done;
        }
        g.ranks[2].values[counts[c] - 1] = 5;
        group_run(&g);
        for (uint32_t i = 0; i < g.size; i++) {
            assert_string_equal(g.ranks[i].error, "");
            assert_int_equal(g.ranks[i].result, 0);
            assert_true(g.ranks[i].values[counts[c] - 1] == 5);
        }
        free_values(&g);
    }
}

static pthread_barrier_t stopped_done;

static int body_stopped(struct rank *rank, struct tcp_group *group)
{
    int error = 0;
    if (rank->options.rank != 1) {
        error = tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
    }
    (void)pthread_barrier_wait(&stopped_done); /* rank 1 keeps its sockets open, and reads nothing, until all are done */
    return error;
}

static void test_a_peer_that_stops_reading_is_a_timeout(void **state)
{
    (void)state;
    static const uint64_t counts[] = {100, 8 << 20}; /* the second fills every buffer between them */
    for (size_t c = 0; c < 2; c++) {
        struct group g;
        group_init(&g, 2);
        give_values(&g, counts[c]);
        assert_int_equal(pthread_barrier_init(&stopped_done, NULL, 2), 0);
        for (uint32_t i = 0; i < 2; i++) {
            g.ranks[i].body = body_stopped;
            g.ranks[i].options.stall_timeout_ms = 300;
        }
        group_run(&g);
        assert_int_equal(g.ranks[0].result, ERR_TIMEOUT);
        assert_non_null(strstr(g.ranks[0].error, "stalled on rank 0: nothing moved for 300 ms (waiting for rank 1)"));
        free_values(&g);
        (void)pthread_barrier_destroy(&stopped_done);
    }
}

static void add_slowly(enum element_type type, void *to, const void *from, size_t count)
{
    pause_ms(50);
    const void *sources[] = {to, from};
    reduce_sum(REDUCE_PORTABLE, type, sources, 2, &to, 1, count);
}

/* It takes longer than the stall timeout as a whole, but something moves all the time. */
static void test_a_slow_peer_is_waited_for(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 3);
    give_values(&g, 2 << 20);
    for (uint32_t i = 0; i < 3; i++) {
        g.ranks[i].body = body_all_reduce;
        g.ranks[i].options.stall_timeout_ms = 1500;
        g.ranks[i].values[0] = 1;
    }
    g.ranks[1].options.add = add_slowly;
    group_run(&g);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(g.ranks[i].error, "");
        assert_int_equal(g.ranks[i].result, 0);
        assert_true(g.ranks[i].values[0] == 3);
        assert_true(g.ranks[i].took_ms > 1500);
    }
    free_values(&g);
}

static int body_unequal(struct rank *rank, struct tcp_group *group)
{
    int error = tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
    return error == tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count) ? error : ERR_USAGE; /* it stays broken */
}

/* Also where the lengths lead the ranks to different algorithms, so that they do not wait for each other in pairs. */
static void test_unequal_lengths_are_an_error_on_every_rank(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 4, 7, 11};
    static const uint64_t wrong[] = {0, 999, 1001, 500000};
    for (size_t t = 0; t < 5 * 4; t++) {
        struct group g;
        group_init(&g, sizes[t / 4]);
        for (uint32_t i = 0; i < g.size; i++) {
            g.ranks[i].body = body_unequal;
            g.ranks[i].count = i == t % g.size ? wrong[t % 4] : 1000;
            g.ranks[i].values = calloc(g.ranks[i].count + 1, sizeof(float));
            assert_non_null(g.ranks[i].values);
        }
        group_run(&g);
        bool named = false;
        for (uint32_t i = 0; i < g.size; i++) {
            assert_true(g.ranks[i].result == ERR_MALFORMED || g.ranks[i].result == ERR_CLOSED);
            assert_true(g.ranks[i].took_ms < SOON_MS);
            named = named || (strstr(g.ranks[i].error, "same lengths") != NULL && strstr(g.ranks[i].error, "rank ") != NULL);
        }
        assert_true(named);
        free_values(&g);
    }
}

static int body_another_call(struct rank *rank, struct tcp_group *group)
{
    return rank->options.rank == 2 ? tcp_group_broadcast(group, rank->values, rank->count * sizeof(float), 1)
                                   : tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
}

static void test_different_collectives_are_an_error(void **state)
{
    (void)state;
    for (uint32_t size = 3; size <= 5; size++) {
        struct group g;
        group_init(&g, size);
        give_values(&g, 1000);
        for (uint32_t i = 0; i < size; i++) {
            g.ranks[i].body = body_another_call;
        }
        group_run(&g);
        for (uint32_t i = 0; i < size; i++) {
            assert_true(g.ranks[i].result == ERR_MALFORMED || g.ranks[i].result == ERR_CLOSED);
            assert_true(g.ranks[i].took_ms < SOON_MS);
        }
        free_values(&g);
    }
}

/* Rank 1 knows the key, but sends noise; the others must say so, and nothing worse. */
static int body_garbage(struct rank *rank, struct tcp_group *group)
{
    if (rank->options.rank != 1) {
        return tcp_group_all_reduce(group, ELEMENT_F32, rank->values, rank->count);
    }
    struct random random;
    random_init(&random, rank->count);
    uint8_t noise[5000];
    for (size_t i = 0; i < sizeof noise; i++) {
        noise[i] = (uint8_t)random_u64(&random);
    }
    for (uint32_t peer = 0; peer < rank->options.size; peer++) {
        if (group->links[peer].fd >= 0) {
            (void)!send(group->links[peer].fd, noise, sizeof noise, MSG_NOSIGNAL);
        }
    }
    for (uint32_t peer = 0; peer < rank->options.size; peer++) { /* till they have closed: a reset would overtake the noise */
        uint8_t heard[4096];
        struct pollfd item = {.fd = group->links[peer].fd, .events = POLLIN};
        while (item.fd >= 0 && (poll(&item, 1, -1) < 0 || recv(item.fd, heard, sizeof heard, MSG_DONTWAIT) > 0)) {
        }
    }
    return 0;
}

static void test_garbage_after_the_handshake_names_its_rank(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 4; size++) {
        for (uint64_t count = 10; count < 1000000; count *= 20) {
            struct group g;
            group_init(&g, size);
            give_values(&g, count);
            for (uint32_t i = 0; i < size; i++) {
                g.ranks[i].body = body_garbage;
            }
            group_run(&g);
            bool named = false;
            for (uint32_t i = 0; i < size; i++) {
                if (i != 1) {
                    assert_true(g.ranks[i].result == ERR_MALFORMED || g.ranks[i].result == ERR_CLOSED);
                    assert_true(g.ranks[i].took_ms < SOON_MS);
                    named = named || strcmp(g.ranks[i].error, "rank 1 sent bytes that are no record") == 0;
                }
            }
            assert_true(named);
            free_values(&g);
        }
    }
}

/* ---- the word that a group is over ---- */

static struct revoke word;
static atomic_int waiting;

static int body_wait_for_the_word(struct rank *rank, struct tcp_group *group)
{
    if (rank->options.rank == 1) {
        while (atomic_load(&waiting) == 0) {
            pause_ms(1);
        }
        pause_ms(50); /* likely in its wait; the outcome is the same if not */
        revoke_set(&word);
        (void)pthread_barrier_wait(&stopped_done);
        return 0;
    }
    atomic_fetch_add(&waiting, 1);
    int error = tcp_group_barrier(group);
    int again = tcp_group_barrier(group);
    (void)pthread_barrier_wait(&stopped_done);
    return error == again ? error : ERR_USAGE;
}

static void test_the_word_that_a_group_is_over_ends_every_wait(void **state)
{
    (void)state;
    static const int spins_us[] = {0, 100000000};
    for (size_t s = 0; s < 2; s++) {
        struct group g;
        group_init(&g, 3);
        atomic_store(&waiting, 0);
        assert_int_equal(revoke_open(&word), 0);
        assert_int_equal(pthread_barrier_init(&stopped_done, NULL, 3), 0);
        for (uint32_t i = 0; i < 3; i++) {
            g.ranks[i].body = body_wait_for_the_word;
            g.ranks[i].options.revoke = &word;
            g.ranks[i].options.spin_us = spins_us[s];
        }
        group_run(&g);
        for (uint32_t i = 0; i < 3; i += 2) {
            assert_int_equal(g.ranks[i].result, ERR_CLOSED);
            assert_true(g.ranks[i].took_ms < SOON_MS);
            assert_true(strstr(g.ranks[i].error, "was told that its group is over") != NULL ||
                        strstr(g.ranks[i].error, "lost rank") != NULL);
        }
        revoke_close(&word);
        (void)pthread_barrier_destroy(&stopped_done);
    }
}

static void say_it(int signal_number)
{
    (void)signal_number;
    revoke_set(&word);
}

static void test_the_word_ends_the_opening_too_and_may_come_from_a_signal(void **state)
{
    (void)state;
    struct group g;
    group_init(&g, 2);
    assert_int_equal(revoke_open(&word), 0);
    struct sigaction action = {.sa_handler = say_it}, before;
    assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
    g.ranks[0].options.revoke = &word;
    uint64_t start_ms = clock_ms();
    (void)alarm(1);
    rank_run(&g.ranks[0]); /* rank 1 never comes */
    assert_int_equal(g.ranks[0].open_result, ERR_CLOSED);
    assert_string_equal(g.ranks[0].open_error, "rank 0 was told that its group is over while it formed");
    assert_true(clock_ms() - start_ms < SOON_MS);
    (void)sigaction(SIGALRM, &before, NULL);
    (void)close(g.ranks[1].listen_fd);
    revoke_close(&word);
}

/* ---- ranks as processes ---- */

struct shared {
    atomic_int rounds; /* of rank 0 */
    atomic_int ended;  /* ranks */
    struct {
        int result;
        uint64_t took_ms;
        char error[TCP_ERROR_BYTES];
    } ranks[RANKS_MAX];
};

static int body_for_ever(struct rank *rank, struct tcp_group *group)
{
    struct shared *shared = (struct shared *)(void *)rank->values;
    float *values = calloc(rank->count, sizeof *values);
    int error = values == NULL ? ERR_MEMORY : 0;
    while (error == 0) {
        error = tcp_group_all_reduce(group, ELEMENT_F32, values, rank->count);
        if (rank->options.rank == 0) {
            atomic_fetch_add(&shared->rounds, 1);
        }
    }
    free(values);
    return error;
}

/* Forks `size` ranks that reduce without end, sends `signal_number` to rank 1 when they are at it, and gives what the others
 * came to. Rank 1 is killed at the end. */
static void strike(uint32_t size, uint64_t count, int signal_number, int stall_timeout_ms, struct shared *out)
{
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(shared != MAP_FAILED);
    struct group g;
    group_init(&g, size);
    pid_t pids[RANKS_MAX];
    for (uint32_t i = 0; i < size; i++) {
        struct rank *r = &g.ranks[i];
        r->body = body_for_ever;
        r->count = count;
        r->values = (float *)(void *)shared;
        r->options.stall_timeout_ms = stall_timeout_ms;
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            rank_run(r);
            shared->ranks[i].result = r->open_result != 0 ? r->open_result : r->result;
            shared->ranks[i].took_ms = clock_ms();
            memcpy(shared->ranks[i].error, r->error, sizeof r->error);
            atomic_fetch_add(&shared->ended, 1);
            forked_end(0);
        }
    }
    for (uint32_t i = 0; i < size; i++) {
        (void)close(g.ranks[i].listen_fd);
    }
    while (atomic_load(&shared->rounds) < 3) {
        assert_int_equal(atomic_load(&shared->ended), 0);
        pause_ms(1);
    }
    uint64_t struck_ms = clock_ms();
    assert_int_equal(kill(pids[1], signal_number), 0);
    for (uint32_t i = 0; i < size; i++) {
        if (i != 1) {
            int status;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_int_equal(status, 0);
            shared->ranks[i].took_ms -= struck_ms;
        }
    }
    (void)kill(pids[1], SIGKILL);
    assert_int_equal(waitpid(pids[1], NULL, 0), pids[1]);
    memcpy(out, shared, sizeof *out);
    (void)munmap(shared, sizeof *shared);
}

static void test_a_rank_that_is_killed_in_the_middle_ends_the_others(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1000, 1 << 20};
    for (uint32_t size = 2; size <= 5; size++) {
        for (size_t c = 0; c < 2; c++) {
            struct shared s;
            strike(size, counts[c], SIGKILL, 20000, &s);
            bool named = false;
            for (uint32_t i = 0; i < size; i++) {
                if (i != 1) {
                    assert_int_equal(s.ranks[i].result, ERR_CLOSED);
                    assert_true(s.ranks[i].took_ms < SOON_MS);
                    named = named || strstr(s.ranks[i].error, "lost rank 1") != NULL;
                }
            }
            assert_true(named);
        }
    }
}

/* As if its host were gone: nothing moves, and nothing is closed. */
static void test_a_rank_that_falls_silent_is_a_timeout(void **state)
{
    (void)state;
    static const uint64_t counts[] = {1000, 1 << 20};
    for (size_t c = 0; c < 2; c++) {
        struct shared s;
        strike(4, counts[c], SIGSTOP, 3000, &s);
        bool named = false;
        for (uint32_t i = 0; i < 4; i++) {
            if (i != 1) {
                assert_true(s.ranks[i].result == ERR_TIMEOUT || s.ranks[i].result == ERR_CLOSED);
                assert_true(s.ranks[i].took_ms < SOON_MS);
                named = named || strstr(s.ranks[i].error, "a collective stalled on rank") != NULL;
            }
        }
        assert_true(named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rank_that_is_killed_in_the_middle_ends_the_others),
        cmocka_unit_test(test_a_rank_that_falls_silent_is_a_timeout),
        cmocka_unit_test(test_a_peer_that_vanishes_ends_the_others_at_once),
        cmocka_unit_test(test_a_rank_that_leaves_after_its_part_disturbs_nobody),
        cmocka_unit_test(test_a_peer_that_stops_reading_is_a_timeout),
        cmocka_unit_test(test_a_slow_peer_is_waited_for),
        cmocka_unit_test(test_unequal_lengths_are_an_error_on_every_rank),
        cmocka_unit_test(test_different_collectives_are_an_error),
        cmocka_unit_test(test_garbage_after_the_handshake_names_its_rank),
        cmocka_unit_test(test_the_word_that_a_group_is_over_ends_every_wait),
        cmocka_unit_test(test_the_word_ends_the_opening_too_and_may_come_from_a_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

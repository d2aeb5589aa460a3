/* Groups of real processes, as if they were on several hosts: a letter for each rank says on which, and those of one letter
 * share memory. Sums and their bits, what happens when one is killed, stops or is told that the group is over, and what is
 * left of sharing where it cannot be. */
#include "train/group/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <sodium.h>
#include <sys/resource.h>

#include "base/err.h"
#include "tests/unit/ranks.h"

#define LARGE 1300007 /* floats: more than a chunk, and no round number */

static void assert_all_well_on(const struct world *w, uint32_t hosts)
{
    assert_all_well(w);
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(w->ranks[i].hosts, hosts);
    }
}

/* ---- sums ---- */

static const enum element_type types[] = {ELEMENT_F32, ELEMENT_F16, ELEMENT_BF16};
static const uint64_t counts[] = {0, 1, 7, 1000, 70001, LARGE};

static void put(enum element_type type, void *values, uint64_t i, float number)
{
    static const uint16_t halves[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800}; /* 0 ... 8 */
    uint32_t bits;
    memcpy(&bits, &number, 4);
    if (type == ELEMENT_F32) {
        ((float *)values)[i] = number;
    } else {
        ((uint16_t *)values)[i] = type == ELEMENT_BF16 ? (uint16_t)(bits >> 16) : halves[(int)number];
    }
}

/* Elements 0 to 2, again and again. */
static void repeat(uint8_t *values, size_t each, uint64_t count)
{
    for (uint64_t done = 3; done < count; done *= 2) {
        memcpy(values + done * each, values, (count - done < done ? count - done : done) * each);
    }
}

/* Rank r brings r % 2 and, of every third element, 1 more: whole numbers that all types have. */
static int check_sums(struct world *w, struct group *group, uint32_t rank, enum element_type type, uint64_t count)
{
    size_t each = element_type_bytes(type);
    uint8_t *values = malloc(count * each + 1), *expected = malloc(count * each + 1);
    if (values == NULL || expected == NULL) {
        return ERR_MEMORY;
    }
    for (uint64_t i = 0; i < 3 && i < count; i++) {
        put(type, values, i, (float)(rank % 2) + (i == 0 && rank == 0 ? 1 : 0));
        put(type, expected, i, (float)(w->size / 2) + (i == 0 ? 1 : 0));
    }
    repeat(values, each, count);
    repeat(expected, each, count);
    int error = group_all_reduce(group, type, values, count);
    if (error == 0 && memcmp(values, expected, count * each) != 0) {
        error = ERR_CORRUPT;
    }
    free(values);
    free(expected);
    return error;
}

static int check_others(struct world *w, struct group *group, uint32_t rank)
{
    uint8_t bytes[64 * RANKS_MAX] = {0};
    for (uint32_t root = 0; root < w->size; root++) {
        memset(bytes, rank == root ? (int)(root + 1) : 99, sizeof bytes);
        int error = group_broadcast(group, bytes, sizeof bytes, root);
        if (error != 0 || bytes[0] != root + 1 || bytes[sizeof bytes - 1] != root + 1) {
            return error != 0 ? error : ERR_CORRUPT;
        }
    }
    memset(bytes, 0, sizeof bytes);
    memset(bytes + (size_t)64 * rank, (int)rank + 1, 64);
    int error = group_all_gather(group, ELEMENT_BYTES, bytes, 64 * (uint64_t)w->size);
    for (uint32_t i = 0; i < w->size && error == 0; i++) {
        error = bytes[64 * i] == i + 1 && bytes[64 * i + 63] == i + 1 ? 0 : ERR_CORRUPT;
    }
    return error != 0 ? error : group_barrier(group);
}

static int body_everything(struct world *w, struct group *group, uint32_t rank)
{
    int error = 0;
    for (size_t t = 0; t < 3 && error == 0; t++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0] && error == 0; c++) {
            error = check_sums(w, group, rank, types[t], counts[c]);
        }
        error = error != 0 ? error : check_others(w, group, rank);
    }
    float value = 1;
    bool refused = group_all_reduce(group, ELEMENT_BYTES, &value, 4) == ERR_USAGE &&
                   group_all_reduce(group, ELEMENT_F32, (uint8_t *)&value + 1, 0) == ERR_USAGE &&
                   group_broadcast(group, &value, 4, w->size) == ERR_USAGE;
    error = error == 0 && !refused ? ERR_CORRUPT : error;
    return error != 0 ? error : group_barrier(group); /* it is as good as before */
}

static void test_sums_are_right_wherever_the_ranks_are(void **state)
{
    (void)state;
    static const struct {
        const char *ranks;
        uint32_t hosts;
    } layouts[] = {{"a", 1},   {"aa", 1},   {"--", 1},    {"aaaa", 1},   {"ab", 2},      {"abc", 3},
                   {"aab", 2}, {"aabb", 2}, {"abab", 2},  {"abbb", 2},   {"abcabca", 3}, {"aabbccdd", 4}};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct world *w = world_of_hosts(layouts[i].ranks, body_everything);
        world_fork(w);
        world_wait(w);
        assert_all_well_on(w, layouts[i].hosts);
        world_end(&w);
    }
}

/* ---- bits ---- */

static float fraction(uint32_t rank, uint64_t i)
{
    return (float)((rank * 2654435761u + (uint32_t)i * 40503u) % 1000003) * 1.1e-5f;
}

static int body_hash(struct world *w, struct group *group, uint32_t rank)
{
    crypto_generichash_state hash;
    (void)crypto_generichash_init(&hash, NULL, 0, sizeof w->ranks[rank].hash);
    int error = 0;
    for (size_t c = 0; c < sizeof counts / sizeof counts[0] && error == 0; c++) {
        float *values = malloc((counts[c] + 1) * sizeof *values);
        if (values == NULL) {
            return ERR_MEMORY;
        }
        for (uint64_t i = 0; i < counts[c]; i++) {
            values[i] = fraction(rank, i);
        }
        error = group_all_reduce(group, ELEMENT_F32, values, counts[c]);
        (void)crypto_generichash_update(&hash, (const uint8_t *)values, counts[c] * sizeof *values);
        free(values);
    }
    (void)crypto_generichash_final(&hash, w->ranks[rank].hash, sizeof w->ranks[rank].hash);
    return error;
}

static void test_all_ranks_and_two_runs_have_the_same_bits(void **state)
{
    (void)state;
    static const char *const layouts[] = {"aaa", "aabb", "abcacba"};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        struct world *runs[2];
        for (int run = 0; run < 2; run++) {
            runs[run] = world_of_hosts(layouts[i], body_hash);
            world_fork(runs[run]);
            world_wait(runs[run]);
            assert_all_well(runs[run]);
            for (uint32_t rank = 0; rank < runs[run]->size; rank++) {
                assert_memory_equal(runs[run]->ranks[rank].hash, runs[0]->ranks[0].hash, sizeof runs[0]->ranks[0].hash);
            }
        }
        world_end(&runs[0]);
        world_end(&runs[1]);
    }
}

/* Within a host in rank order, then host by host. */
static int body_order(struct world *w, struct group *group, uint32_t rank)
{
    bool together = strcmp(w->hosts[0], w->hosts[1]) == 0;
    for (uint64_t i = 0; i < 500; i++) {
        volatile float value[4], low, high;
        for (uint32_t r = 0; r < 4; r++) {
            value[r] = fraction(r, i);
        }
        low = together ? value[0] + value[1] : value[0] + value[2];
        high = together ? value[2] + value[3] : value[1] + value[3];
        float sum = fraction(rank, i), expected = low + high;
        int error = group_all_reduce(group, ELEMENT_F32, &sum, 1);
        if (error != 0 || memcmp(&sum, &expected, sizeof sum) != 0) {
            return error != 0 ? error : ERR_CORRUPT;
        }
    }
    return 0;
}

static void test_the_order_of_a_sum_is_that_of_the_places(void **state)
{
    (void)state;
    static const char *const layouts[] = {"aabb", "abab"};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = world_of_hosts(layouts[i], body_order);
        world_fork(w);
        world_wait(w);
        assert_all_well_on(w, 2);
        world_end(&w);
    }
}

/* ---- ends ---- */

static int body_until_error(struct world *w, struct group *group, uint32_t rank)
{
    float *values = calloc(w->count, sizeof *values);
    int error = values == NULL ? ERR_MEMORY : 0;
    while (error == 0) {
        error = group_all_reduce(group, ELEMENT_F32, values, w->count);
        atomic_fetch_add(&w->ranks[rank].progress, 1);
    }
    bool stays = error == group_all_reduce(group, ELEMENT_F32, values, w->count) && error == group_barrier(group);
    free(values);
    return stays ? error : ERR_CORRUPT;
}

static void wait_for_progress(const struct world *w, int least)
{
    for (uint32_t i = 0; i < w->size; i++) {
        while (atomic_load(&w->ranks[i].progress) < least) {
            assert_false(atomic_load(&w->ranks[i].ended));
            sleep_ms(1);
        }
    }
}

/* A member, a leader, one alone on its host; amid small sums and large ones. */
static void test_a_killed_rank_ends_everybodys_wait(void **state)
{
    (void)state;
    static const struct {
        const char *layout;
        uint32_t victim;
    } cases[] = {{"aaa", 0}, {"aaa", 2}, {"aabb", 0}, {"aabb", 1}, {"aabb", 2}, {"aabb", 3}, {"aabc", 2}};
    for (size_t c = 0; c < 2 * (sizeof cases / sizeof cases[0]); c++) {
        uint32_t victim = cases[c / 2].victim;
        struct world *w = world_of_hosts(cases[c / 2].layout, body_until_error);
        w->count = c % 2 == 0 ? 5 : LARGE;
        world_fork(w);
        wait_for_progress(w, 3);
        sleep_ms((long)c % 5);
        assert_int_equal(kill(w->processes[victim], SIGKILL), 0);
        world_wait(w);
        bool named = false;
        for (uint32_t i = 0; i < w->size; i++) {
            if (i != victim) {
                assert_int_equal(w->ranks[i].result, ERR_CLOSED);
                assert_true(w->ranks[i].took_ms < SOON_MS);
                named = named || strstr(w->ranks[i].error, "lost rank") != NULL;
            }
        }
        assert_true(named);
        world_end(&w);
    }
}

static void test_all_ranks_killed_leave_nothing_to_those_who_come_after(void **state)
{
    (void)state;
    struct world *w = world_of_hosts("aabb", body_until_error);
    w->count = LARGE;
    world_fork(w);
    wait_for_progress(w, 2);
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(kill(w->processes[i], SIGKILL), 0);
    }
    world_wait(w);
    world_end(&w);
    w = world_of_hosts("aabb", body_order);
    world_fork(w);
    world_wait(w);
    assert_all_well_on(w, 2);
    world_end(&w);
}

/* Nobody learns anything from a stopped process but that it does not come. */
static void test_a_stopped_rank_is_not_waited_for_without_end(void **state)
{
    (void)state;
    for (uint32_t victim = 0; victim < 4; victim += 3) {
        struct world *w = world_of_hosts("aabb", body_until_error);
        w->count = 1000;
        world_set_timeouts(w, LONG_MS, 3000);
        world_fork(w);
        wait_for_progress(w, 3);
        assert_int_equal(kill(w->processes[victim], SIGSTOP), 0);
        for (uint32_t i = 0; i < w->size; i++) {
            if (i != victim) {
                world_wait_for(w, i);
                assert_true(w->ranks[i].result == ERR_TIMEOUT || w->ranks[i].result == ERR_CLOSED);
                assert_true(w->ranks[i].took_ms < SOON_MS);
            }
        }
        assert_int_equal(kill(w->processes[victim], SIGKILL), 0);
        world_wait_for(w, victim);
        world_end(&w);
    }
}

static int body_waits_for_rank_3(struct world *w, struct group *group, uint32_t rank)
{
    float values[100] = {0};
    int error = group_all_reduce(group, ELEMENT_F32, values, 100);
    atomic_fetch_add(&w->ranks[rank].progress, 1);
    while (rank == 3 && atomic_load(&w->go) == 0) {
        sleep_ms(1); /* it computes, and the others wait for it */
    }
    while (error == 0) {
        error = group_all_reduce(group, ELEMENT_F32, values, 100);
    }
    return error;
}

static void say_word(void *context)
{
    struct revoke *word = context;
    word->watch_fd = -1;
    revoke_set(word);
}

/* The word reaches a rank that waits in memory, or a leader that waits for another host. Another host may have the sum that
 * rank 3 completes, and no further one. */
static void test_the_word_that_the_group_is_over_ends_it_for_all(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        struct world *w = world_of_hosts("aabb", body_waits_for_rank_3);
        struct revoke word;
        int pipe_fds[2]; /* in the place of the daemon's connection */
        assert_int_equal(pipe(pipe_fds), 0);
        assert_int_equal(revoke_open(&word), 0);
        word.watch_fd = pipe_fds[0];
        word.watch = say_word;
        word.context = &word;
        w->links[odd].revoke = &word;
        world_fork(w);
        wait_for_progress(w, 1);
        assert_int_equal(write(pipe_fds[1], "x", 1), 1);
        world_wait_for(w, odd);
        assert_int_equal(w->ranks[odd].result, ERR_CLOSED);
        assert_non_null(strstr(w->ranks[odd].error, "told that its group is over"));
        atomic_store(&w->go, 1);
        for (uint32_t i = 0; i < w->size; i++) {
            if (i != odd) {
                world_wait_for(w, i);
                assert_int_equal(w->ranks[i].result, ERR_CLOSED);
                assert_true(w->ranks[i].took_ms < SOON_MS);
            }
        }
        revoke_close(&word);
        (void)close(pipe_fds[0]);
        (void)close(pipe_fds[1]);
        world_end(&w);
    }
}

/* ---- where memory cannot be shared ---- */

static void before_no_shared_memory(struct world *w, uint32_t rank)
{
    if (rank == w->odd) {
        struct rlimit none = {0, 0};
        (void)signal(SIGXFSZ, SIG_IGN);
        (void)setrlimit(RLIMIT_FSIZE, &none);
    }
}

static void test_a_rank_that_has_no_shared_memory_is_reached_by_tcp(void **state)
{
    (void)state;
    struct world *w = world_of_hosts("aabbb", body_everything);
    w->before = before_no_shared_memory;
    w->odd = 3;
    world_fork(w);
    world_wait(w);
    assert_all_well_on(w, 3); /* 0 with 1, 2 with 4, 3 alone */
    world_end(&w);
}

static void before_another_network(struct world *w, uint32_t rank)
{
    if (rank == w->odd && unshare(CLONE_NEWNET) != 0) {
        atomic_store(&w->go, 1);
    }
}

/* Its links were made outside: it listens there, and as the highest rank connects to nobody. By the kernel's word it is on
 * another host; or it is said to be on the same, and is not met there. */
static void test_a_rank_in_another_network_namespace_is_reached_by_tcp(void **state)
{
    (void)state;
    static const char *const layouts[] = {"---", "aaa"};
    static const uint32_t hosts[] = {2, 3};
    for (size_t i = 0; i < 2; i++) {
        struct world *w = world_of_hosts(layouts[i], body_everything);
        w->before = before_another_network;
        w->odd = 2;
        world_set_timeouts(w, 6000, LONG_MS); /* half of it to find out */
        world_fork(w);
        world_wait(w);
        bool may = atomic_load(&w->go) == 0;
        if (may) {
            assert_all_well_on(w, hosts[i]);
        }
        world_end(&w);
        if (!may) {
            skip(); /* needs a privilege */
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_right_wherever_the_ranks_are),
        cmocka_unit_test(test_all_ranks_and_two_runs_have_the_same_bits),
        cmocka_unit_test(test_the_order_of_a_sum_is_that_of_the_places),
        cmocka_unit_test(test_a_killed_rank_ends_everybodys_wait),
        cmocka_unit_test(test_all_ranks_killed_leave_nothing_to_those_who_come_after),
        cmocka_unit_test(test_a_stopped_rank_is_not_waited_for_without_end),
        cmocka_unit_test(test_the_word_that_the_group_is_over_ends_it_for_all),
        cmocka_unit_test(test_a_rank_that_has_no_shared_memory_is_reached_by_tcp),
        cmocka_unit_test(test_a_rank_in_another_network_namespace_is_reached_by_tcp),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}

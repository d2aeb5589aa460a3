/* Both engines, memory and TCP, and the two together, with all ranks as threads of one process in which shared memory has one
 * address for all: ThreadSanitizer sees each access of each rank, and whether the group's own atomics and links order them.
 * Without it these are sums like others. Processes are in group_test.c; what they do to each other no tool sees. */
#include "train/group/group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sodium.h>
#include <sys/mman.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/one_mapping.h"
#include "tests/unit/ranks.h"
#include "train/plan/plan.h"

#define LARGE 1200007 /* floats: more than a chunk, and than what copies go round the caches for */
#define PLACED_BYTES (1172u * 4096) /* whole pages */
#define ROUNDS 4
#define RESTLESS_ROUNDS 600

_Static_assert(PLACED_BYTES >= LARGE * sizeof(float), "the longest array fits");

/* Small whole numbers, whose sums are exact in any order. */
static float number_of(uint32_t rank, uint64_t i, uint64_t round)
{
    return (float)((i + 3 * rank + round) % 7);
}

static float sum_of(uint32_t size, uint64_t i, uint64_t round)
{
    float sum = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        sum += number_of(rank, i, round);
    }
    return sum;
}

static int call(struct group *group, enum plan_kind kind, float *values, uint64_t count, uint32_t root)
{
    switch (kind) {
    case PLAN_ALL_REDUCE:
        return group_all_reduce(group, ELEMENT_F32, values, count);
    case PLAN_REDUCE_SCATTER:
        return group_reduce_scatter(group, ELEMENT_F32, values, count);
    case PLAN_ALL_GATHER:
        return group_all_gather(group, ELEMENT_F32, values, count);
    case PLAN_BROADCAST:
        return group_broadcast(group, values, count * sizeof *values, root);
    default:
        return group_barrier(group);
    }
}

/* What element i is on each rank whose business it is. */
static float expected(enum plan_kind kind, uint32_t size, uint64_t count, uint64_t i, uint64_t round)
{
    if (kind == PLAN_BROADCAST) {
        return number_of((uint32_t)(round % size), i, round);
    }
    if (kind != PLAN_ALL_GATHER) {
        return sum_of(size, i, round);
    }
    uint32_t slice = 0;
    while (i >= plan_slice_start(count, size, slice + 1)) {
        slice++;
    }
    return number_of(slice, i, round);
}

/* Written without any care before the collective, and read after it. */
static int check(const struct world *w, struct group *group, uint32_t rank, enum plan_kind kind, float *values, uint64_t count,
                 uint64_t round)
{
    for (uint64_t i = 0; i < count; i++) {
        values[i] = number_of(rank, i, round);
    }
    int error = call(group, kind, values, count, (uint32_t)(round % w->size));
    uint64_t begin = 0, end = kind == PLAN_BARRIER ? 0 : count;
    if (kind == PLAN_REDUCE_SCATTER) {
        begin = plan_slice_start(count, w->size, rank);
        end = plan_slice_start(count, w->size, rank + 1);
    }
    for (uint64_t i = begin; i < end && error == 0; i++) {
        error = values[i] == expected(kind, w->size, count, i, round) ? 0 : ERR_CORRUPT;
    }
    return error;
}

static int body_every_kind(struct world *w, struct group *group, uint32_t rank)
{
    static const uint64_t counts[] = {0, 1, 100, 3000, 70001, LARGE};
    float *own = malloc(PLACED_BYTES), *placed = mmap(NULL, PLACED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int error = own == NULL || placed == MAP_FAILED ? ERR_MEMORY : 0;
    for (uint64_t round = 0; round < ROUNDS && error == 0; round++) {
        /* All in their own memory, all in the group's, and some here and some there; placed anew each time. */
        bool uses_group = round == 1 || (round > 1 && (rank + round) % 2 == 0);
        error = group_place(group, placed, PLACED_BYTES);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            for (enum plan_kind kind = PLAN_ALL_REDUCE; kind <= PLAN_BARRIER && error == 0; kind++) {
                error = check(w, group, rank, kind, uses_group ? placed : own, counts[c], round);
            }
        }
        group_displace(group, placed);
    }
    free(own);
    if (placed != MAP_FAILED) {
        (void)munmap(placed, PLACED_BYTES);
    }
    return error;
}

/* One after the other without a pause, and uneven work between them: who is late, spins or sleeps changes all the time. */
static int body_restless(struct world *w, struct group *group, uint32_t rank)
{
    enum { MOST = 20000 };
    struct random random;
    random_init_stream(&random, 11, rank);
    float *own = malloc(MOST * sizeof *own);
    int error = own == NULL ? ERR_MEMORY : 0;
    for (uint64_t round = 0; round < RESTLESS_ROUNDS && error == 0; round++) {
        if (random_below(&random, 40) == 0) {
            sleep_ms((long)random_below(&random, 4));
        }
        enum plan_kind kind = round % 5 == 4 ? PLAN_BROADCAST : PLAN_ALL_REDUCE;
        error = check(w, group, rank, kind, own, round % 29 == 0 ? MOST : round % 50, round);
    }
    free(own);
    return error;
}

static void run_all(const char *layout, uint32_t hosts, group_body *body)
{
    struct world *w = world_of_hosts(layout, body);
    world_threads(w);
    assert_all_well(w);
    for (uint32_t i = 0; i < w->size; i++) {
        assert_int_equal(w->ranks[i].hosts, hosts);
    }
    assert_int_equal(one_mapping_left(), 0);
    world_end(&w);
}

static void test_collectives_in_memory_order_all_that_they_touch(void **state)
{
    (void)state;
    size_t before = one_mapping_shared();
    run_all("aa", 1, body_every_kind);
    run_all("aaa", 1, body_every_kind);
    run_all("aaaa", 1, body_restless);
    assert_true(one_mapping_shared() > before); /* else the tool has seen nothing */
}

static void test_collectives_over_tcp_order_all_that_they_touch(void **state)
{
    (void)state;
    run_all("ab", 2, body_every_kind);
    run_all("abc", 3, body_every_kind);
    run_all("abcd", 4, body_restless);
}

static void test_collectives_through_leaders_order_all_that_they_touch(void **state)
{
    (void)state;
    run_all("aab", 2, body_every_kind);
    run_all("aabb", 2, body_every_kind);
    run_all("abab", 2, body_restless);
}

static int body_until_error(struct world *w, struct group *group, uint32_t rank)
{
    int error = 0;
    for (uint64_t round = 0; error == 0; round++) {
        float values[500];
        if (rank == w->odd && round == w->count) {
            return 0; /* and leaves */
        }
        error = check(w, group, rank, PLAN_ALL_REDUCE, values, round % 500, round);
        atomic_fetch_add(&w->ranks[rank].progress, error == 0);
    }
    return error;
}

static void test_a_rank_that_leaves_ends_the_others_and_touches_nothing_of_theirs(void **state)
{
    (void)state;
    static const char *const layouts[] = {"aaa", "abc", "aabb"};
    for (size_t l = 0; l < 3; l++) {
        for (uint32_t odd = 0; odd < 3; odd++) {
            struct world *w = world_of_hosts(layouts[l], body_until_error);
            w->odd = odd;
            w->count = 20 + odd;
            world_threads(w);
            for (uint32_t i = 0; i < w->size; i++) {
                assert_int_equal(w->ranks[i].open_result, 0);
                assert_int_equal(w->ranks[i].result, i == odd ? 0 : ERR_CLOSED);
                assert_true(w->ranks[i].took_ms < SOON_MS);
            }
            assert_int_equal(one_mapping_left(), 0);
            world_end(&w);
        }
    }
}

/* From a thread that is none of the ranks, amid their collectives. */
static void test_the_word_that_the_group_is_over_may_come_from_any_thread(void **state)
{
    (void)state;
    static const char *const layouts[] = {"aaa", "abc", "aabb"};
    for (size_t l = 0; l < 3; l++) {
        struct world *w = world_of_hosts(layouts[l], body_until_error);
        struct revoke word;
        assert_int_equal(revoke_open(&word), 0);
        w->odd = UINT32_MAX;
        w->links[1].revoke = &word;
        for (uint32_t i = 0; i < w->size; i++) {
            world_thread(w, i);
        }
        while (atomic_load(&w->ranks[1].progress) < 20) {
            assert_false(atomic_load(&w->ranks[1].ended));
            sleep_ms(1);
        }
        revoke_set(&word);
        for (uint32_t i = 0; i < w->size; i++) {
            world_join(w, i);
            assert_int_equal(w->ranks[i].result, ERR_CLOSED);
            assert_true(w->ranks[i].took_ms < SOON_MS);
        }
        assert_non_null(strstr(w->ranks[1].error, "told that its group is over"));
        revoke_close(&word);
        assert_int_equal(one_mapping_left(), 0);
        world_end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_collectives_in_memory_order_all_that_they_touch),
        cmocka_unit_test(test_collectives_over_tcp_order_all_that_they_touch),
        cmocka_unit_test(test_collectives_through_leaders_order_all_that_they_touch),
        cmocka_unit_test(test_a_rank_that_leaves_ends_the_others_and_touches_nothing_of_theirs),
        cmocka_unit_test(test_the_word_that_the_group_is_over_may_come_from_any_thread),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}

/* Clocks that jump: what one writer that means harm can do, and cannot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "gossip/lamport.h"

#define WRITERS 5
#define J LAMPORT_JUMP_MAX

static struct lamport_top top_of(const uint64_t *clocks, uint32_t count, uint32_t but)
{
    struct lamport_top top = {0};
    for (uint32_t i = 0; i < count; i++) {
        lamport_see(&top, i == but ? 0 : clocks[i]);
    }
    return top;
}

static void the_highest_counts_if_another_bears_it_out(void **state)
{
    (void)state;
    static const struct {
        uint64_t clocks[3];
        bool counts[3], jumps;
        uint64_t highest;
    } rows[] = {
        {{0, 0, 0}, {false, false, false}, false, 0},
        {{1, 0, 0}, {true, false, false}, false, 1},
        {{J, 0, 0}, {true, false, false}, false, J},
        {{J + 1, 0, 0}, {false, false, false}, true, 0},
        {{UINT64_MAX, 3, 2}, {false, true, true}, true, 3},
        {{3, J + 3, 0}, {true, true, false}, false, J + 3},
        {{3, J + 4, 0}, {true, false, false}, true, 3},
        {{50ull * J, 50ull * J + 1, 7}, {true, true, true}, false, 50ull * J + 1},
        {{UINT64_MAX, UINT64_MAX, 1}, {true, true, true}, false, UINT64_MAX}, /* two who conspire */
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct lamport_top top = top_of(rows[r].clocks, 3, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(lamport_counts(&top, rows[r].clocks[i]), rows[r].counts[i]);
        }
        assert_int_equal(lamport_jumps(&top), rows[r].jumps);
        assert_int_equal(lamport_highest(&top), rows[r].highest);
    }
}

static void one_writer_alone_can_write_for_ever(void **state)
{
    (void)state;
    struct lamport_top nobody = {0}, other = {5, 0};
    assert_int_equal(lamport_next(&nobody, 0), 1);
    assert_int_equal(lamport_next(&nobody, 7), 8);
    assert_int_equal(lamport_next(&nobody, J), J); /* its newest record is the only one: the clock need not rise */
    assert_int_equal(lamport_next(&other, J + 5), J + 5);
    assert_int_equal(lamport_next(&other, 0), 6);
}

/* Clocks where the rule has its edges: around 0, J, and the ends of the range. */
static uint64_t some_clock(struct random *random, uint64_t near)
{
    static const uint64_t edges[] = {0, 1, J - 1, J, J + 1, J + 2, 2 * J, 2 * J + 1, 1ull << 62, UINT64_MAX - J, UINT64_MAX - 1,
                                     UINT64_MAX};
    uint64_t base = random_u64(random) % 3 == 0 ? near : 0;
    return base + edges[random_u64(random) % (sizeof edges / sizeof edges[0])];
}

/* The others are honest but for one, and that one has any clock. */
static void whatever_one_of_the_others_holds_the_next_word_is_the_highest_that_counts(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 7);
    for (uint32_t round = 0; round < 200000; round++) {
        uint64_t clocks[WRITERS] = {0}, honest = 0;
        uint32_t count = 2 + (uint32_t)(random_u64(&random) % (WRITERS - 1)), hostile = count - 1;
        for (uint32_t i = 1; i < hostile; i++) {
            clocks[i] = random_u64(&random) % (3 * (uint64_t)J);
            honest = clocks[i] > honest ? clocks[i] : honest;
        }
        clocks[0] = random_u64(&random) % 4 == 0 ? random_u64(&random) % (3 * (uint64_t)J) : 0;
        clocks[hostile] = some_clock(&random, honest);
        uint64_t own = clocks[0];
        struct lamport_top others = top_of(clocks, count, 0);
        clocks[0] = lamport_next(&others, own);
        struct lamport_top all = top_of(clocks, count, WRITERS);
        assert_true(lamport_counts(&all, clocks[0]));
        assert_int_equal(lamport_highest(&all), clocks[0]);
        for (uint32_t i = 1; i < count; i++) {
            assert_true(clocks[i] < clocks[0] || !lamport_counts(&all, clocks[i]));
        }
        /* It is led by the nose only a jump at a time. */
        assert_true(clocks[0] <= (own > honest ? own : honest) + 2 * (uint64_t)J + 2);
    }
}

/* A war: one jumps as it likes, the others answer in turn. Each answer stands, and the clocks stay far from their end. */
static void one_who_jumps_again_and_again_gets_nowhere(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 8);
    uint64_t clocks[WRITERS] = {0};
    for (uint32_t round = 0; round < 20000; round++) {
        struct lamport_top all = top_of(clocks, WRITERS, WRITERS);
        clocks[WRITERS - 1] = random_u64(&random) % 2 == 0 ? all.first + J : some_clock(&random, lamport_highest(&all));
        uint32_t who = (uint32_t)(random_u64(&random) % (WRITERS - 1));
        struct lamport_top others = top_of(clocks, WRITERS, who);
        clocks[who] = lamport_next(&others, clocks[who]);
        all = top_of(clocks, WRITERS, WRITERS);
        assert_int_equal(lamport_highest(&all), clocks[who]);
        assert_true(clocks[who] < (uint64_t)(round + 1) * (2 * (uint64_t)J + 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_highest_counts_if_another_bears_it_out),
        cmocka_unit_test(one_writer_alone_can_write_for_ever),
        cmocka_unit_test(whatever_one_of_the_others_holds_the_next_word_is_the_highest_that_counts),
        cmocka_unit_test(one_who_jumps_again_and_again_gets_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Parts that follow the ranks' speeds: where they come to rest, and what they do not follow. */
#include "train/plan/balance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "train/plan/ledger.h"

/* A group that measures: what a step costs on its own, and what an item does. */
struct group {
    struct balance balance;
    struct random random;
    uint32_t total, noise_percent;
    uint64_t step_ns, item_ns[PLAN_RANKS_MAX];
};

static void begin(struct group *g, uint32_t size, uint32_t total)
{
    *g = (struct group){.total = total};
    balance_init(&g->balance, size, NULL);
    random_init(&g->random, 1);
    for (uint32_t rank = 0; rank < size; rank++) {
        g->item_ns[rank] = 100000;
    }
}

static uint32_t part(const struct group *g, uint32_t rank)
{
    uint32_t first, count;
    balance_share(&g->balance, g->total, rank, &first, &count);
    return count;
}

static uint64_t time_of(const struct group *g, uint32_t rank)
{
    return g->step_ns + g->item_ns[rank] * part(g, rank);
}

/* Steps, and then an agreement. */
static void agree(struct group *g, uint32_t times)
{
    for (; times > 0; times--) {
        struct balance_measure measures[PLAN_RANKS_MAX];
        for (uint32_t rank = 0; rank < g->balance.size; rank++) {
            uint64_t percent = 100 - g->noise_percent + random_below(&g->random, 2 * g->noise_percent + 1);
            measures[rank] = (struct balance_measure){100 * part(g, rank), time_of(g, rank) * percent};
        }
        balance_agree(&g->balance, measures);
    }
}

static void assert_tiles(const struct balance *b, uint32_t total)
{
    uint32_t place = 0;
    for (uint32_t rank = 0; rank < b->size; rank++) {
        uint32_t first, count;
        balance_share(b, total, rank, &first, &count);
        assert_int_equal(first, place);
        assert_true(count > 0 || total < b->size);
        place += count;
    }
    assert_int_equal(place, total);
}

static void test_parts_are_equal_until_something_is_known(void **state)
{
    (void)state;
    struct balance b;
    struct balance_measure nothing[PLAN_RANKS_MAX] = {{0, 0}};
    for (uint32_t size = 1; size <= PLAN_RANKS_MAX; size += size < 64 ? 1 : 32) {
        balance_init(&b, size, NULL);
        balance_agree(&b, nothing);
        for (uint32_t total = 0; total < 200; total += 7) {
            for (uint32_t rank = 0; rank < size; rank++) {
                uint32_t first, count, equal_first, equal_count;
                balance_share(&b, total, rank, &first, &count);
                ledger_share(total, rank, size, &equal_first, &equal_count);
                assert_int_equal(first, equal_first);
                assert_int_equal(count, equal_count);
            }
        }
    }
}

static void test_parts_follow_the_speeds_at_the_first_agreement(void **state)
{
    (void)state;
    struct group g;
    begin(&g, 3, 700);
    g.item_ns[0] = 400000;
    g.item_ns[1] = 200000;
    agree(&g, 1);
    assert_int_equal(part(&g, 0), 100);
    assert_int_equal(part(&g, 1), 200);
    assert_int_equal(part(&g, 2), 400);
    agree(&g, 20);
    assert_int_equal(part(&g, 0), 100);
    g.total = 8; /* few items are cut so that the longest part is short: 1, 2 and 5 would take 4, 4 and 5 times 100 us */
    assert_tiles(&g.balance, g.total);
    assert_true(part(&g, 0) == 1 && part(&g, 1) == 2 && part(&g, 2) == 5);
}

static void test_parts_come_to_rest_where_the_times_are_equal(void **state)
{
    (void)state;
    struct group g;
    begin(&g, 4, 4000);
    g.step_ns = 20000000; /* as long as 200 items of the fast ones */
    g.item_ns[2] = 300000;
    g.noise_percent = 5;
    agree(&g, 24);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_in_range(time_of(&g, rank), time_of(&g, 0) * 85 / 100, time_of(&g, 0) * 115 / 100);
    }
}

static void test_noise_does_not_move_equal_ranks(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 16; size *= 2) {
        struct group g;
        begin(&g, size, 64 * size);
        g.noise_percent = 10;
        for (uint32_t i = 0; i < 2000; i++) {
            agree(&g, 1);
            for (uint32_t rank = 0; rank < size; rank++) {
                assert_in_range(part(&g, rank), 60, 68);
            }
        }
    }
}

static void test_a_rank_that_becomes_slow_or_fast_again_is_followed(void **state)
{
    (void)state;
    struct group g;
    begin(&g, 2, 1100);
    agree(&g, 50);
    assert_int_equal(part(&g, 0), 550);
    g.item_ns[0] *= 10;
    agree(&g, 1);
    assert_in_range(part(&g, 0), 360, 370); /* one moment costs it a third, and not its part */
    agree(&g, 3);
    assert_in_range(part(&g, 0), 90, 110);
    g.item_ns[0] /= 10;
    agree(&g, 4);
    assert_in_range(part(&g, 0), 530, 570);
}

static void test_what_took_no_time_is_not_judged(void **state)
{
    (void)state;
    struct balance b;
    const struct balance_measure little[] = {{100, BALANCE_NS / 10}, {100, BALANCE_NS / 20}};
    uint32_t first, count;
    balance_init(&b, 2, NULL);
    for (uint32_t i = 0; i < 9; i++) {
        balance_agree(&b, little);
        balance_share(&b, 300, 0, &first, &count);
        assert_int_equal(count, 150);
    }
    balance_agree(&b, little);
    balance_share(&b, 300, 0, &first, &count);
    assert_int_equal(count, 100);
}

static void test_speeds_that_are_brought_count_from_the_beginning(void **state)
{
    (void)state;
    struct balance b;
    const uint64_t speeds[] = {1000000, 0, 3000000, 1000000};
    balance_init(&b, 4, speeds);
    uint32_t first, count;
    balance_share(&b, 600, 2, &first, &count);
    assert_int_equal(first, 200);
    assert_int_equal(count, 300);
    balance_share(&b, 600, 1, &first, &count); /* who is new is like those in the middle */
    assert_int_equal(count, 100);
    const uint64_t alike[] = {1000000, 1030000, 990000, 1010000};
    balance_init(&b, 4, alike);
    balance_share(&b, 600, 2, &first, &count);
    assert_int_equal(count, 150);
    const uint64_t nothing[4] = {0};
    balance_init(&b, 4, nothing);
    balance_share(&b, 600, 2, &first, &count);
    assert_int_equal(count, 150);
}

static void test_absurd_measures_break_nothing_and_are_forgotten(void **state)
{
    (void)state;
    struct group g;
    begin(&g, 3, 1 << 20);
    struct balance_measure lies[] = {{8000, 800000000}, {UINT64_MAX, 1}, {8000, 800000000}};
    balance_agree(&g.balance, lies);
    assert_tiles(&g.balance, g.total);
    assert_in_range(part(&g, 0), g.total / (2 * BALANCE_RATIO_MAX), g.total / BALANCE_RATIO_MAX);
    agree(&g, 8);
    assert_in_range(part(&g, 0), g.total * 9 / 30, g.total * 11 / 30);
    lies[1] = (struct balance_measure){1, UINT64_MAX};
    balance_agree(&g.balance, lies);
    assert_in_range(part(&g, 1), g.total / 6, g.total / 4); /* half of what it had, of less */
}

static uint64_t any_number(struct random *random)
{
    uint64_t bits = random_below(random, 65);
    return bits == 0 ? 0 : random_u64(random) >> (64 - bits);
}

static void test_whatever_is_said_all_items_are_shared_and_everybody_has_one(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, 5);
    for (uint32_t i = 0; i < 800; i++) {
        struct balance b, other;
        uint64_t speeds[PLAN_RANKS_MAX];
        uint32_t size = 1 + (uint32_t)random_below(&random, i % 100 == 0 ? PLAN_RANKS_MAX : 64);
        for (uint32_t rank = 0; rank < size; rank++) {
            speeds[rank] = any_number(&random);
        }
        balance_init(&b, size, i % 3 == 0 ? speeds : NULL);
        other = b;
        for (uint32_t agreement = 0; agreement < 12; agreement++) {
            struct balance_measure measures[PLAN_RANKS_MAX];
            for (uint32_t rank = 0; rank < size; rank++) {
                measures[rank] = (struct balance_measure){any_number(&random), any_number(&random)};
            }
            balance_agree(&b, measures);
            balance_agree(&other, measures);
            uint32_t total = (uint32_t)any_number(&random);
            assert_tiles(&b, total);
            assert_tiles(&b, size);
            assert_tiles(&b, UINT32_MAX);
            uint32_t rank = (uint32_t)random_below(&random, size), first, count, other_first, other_count;
            balance_share(&b, total, rank, &first, &count);
            balance_share(&other, total, rank, &other_first, &other_count);
            assert_true(first == other_first && count == other_count);
        }
    }
}

static void test_agreements_are_early_and_then_regular(void **state)
{
    (void)state;
    uint32_t due = 0;
    for (uint64_t steps = 0; steps <= 320; steps++) {
        due += balance_is_due(steps);
    }
    assert_int_equal(due, 13);
    assert_true(balance_is_due(4) && balance_is_due(8) && balance_is_due(16) && balance_is_due(32) && balance_is_due(64));
    assert_false(balance_is_due(0) || balance_is_due(1) || balance_is_due(2) || balance_is_due(12) || balance_is_due(48));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_are_equal_until_something_is_known),
        cmocka_unit_test(test_parts_follow_the_speeds_at_the_first_agreement),
        cmocka_unit_test(test_parts_come_to_rest_where_the_times_are_equal),
        cmocka_unit_test(test_noise_does_not_move_equal_ranks),
        cmocka_unit_test(test_a_rank_that_becomes_slow_or_fast_again_is_followed),
        cmocka_unit_test(test_what_took_no_time_is_not_judged),
        cmocka_unit_test(test_speeds_that_are_brought_count_from_the_beginning),
        cmocka_unit_test(test_absurd_measures_break_nothing_and_are_forgotten),
        cmocka_unit_test(test_whatever_is_said_all_items_are_shared_and_everybody_has_one),
        cmocka_unit_test(test_agreements_are_early_and_then_regular),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

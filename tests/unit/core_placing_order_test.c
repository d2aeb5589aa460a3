/* In which order the two sides of a partition claim trials. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/coordinator/order.h"

#define NODES 7
#define TRIALS 60

static struct order_sides sides;

static node_id id_of(uint32_t number)
{
    node_id id = {{(uint8_t)(1 + number / 200), (uint8_t)(number % 200)}};
    return id;
}

static experiment_id experiment(void)
{
    experiment_id id = {{7}};
    return id;
}

/* The roster as a node on the side of those whose bits are set sees it. */
static void see(uint32_t ours, uint32_t has_left)
{
    order_init(&sides);
    for (uint32_t i = 0; i < NODES; i++) {
        order_add(&sides, id_of(i), ours >> i & 1, has_left >> i & 1);
    }
}

/* All trials in the order in which this side claims them. */
static void order_all(uint32_t out[TRIALS])
{
    struct order_claim claims[TRIALS];
    for (uint32_t i = 0; i < TRIALS; i++) {
        struct order_claim next = {order_rank(&sides, experiment(), i), i};
        uint32_t at = i;
        for (; at > 0 && order_is_before(next, claims[at - 1]); at--) {
            claims[at] = claims[at - 1];
        }
        claims[at] = next;
    }
    for (uint32_t i = 0; i < TRIALS; i++) {
        out[i] = claims[i].index;
    }
}

static void a_whole_mesh_claims_by_index(void **state)
{
    (void)state;
    uint32_t order[TRIALS];
    see(0x7f, 0);
    assert_false(sides.is_cut);
    order_all(order);
    for (uint32_t i = 0; i < TRIALS; i++) {
        assert_int_equal(order[i], i);
    }
}

static void two_sides_of_a_cut_claim_in_opposite_orders(void **state)
{
    (void)state;
    uint32_t here[TRIALS], there[TRIALS];
    for (uint32_t ours = 1; ours < 0x7f; ours++) {
        see(ours, 0);
        assert_true(sides.is_cut);
        order_all(here);
        see(~ours & 0x7f, 0);
        order_all(there);
        for (uint32_t i = 0; i < TRIALS; i++) {
            assert_int_equal(here[i], there[TRIALS - 1 - i]);
        }
    }
}

static void every_trial_belongs_to_one_side(void **state)
{
    (void)state;
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        see(0x0f, 0);
        int32_t here = order_rank(&sides, experiment(), trial);
        see(0x70, 0);
        int32_t there = order_rank(&sides, experiment(), trial);
        assert_true(here != 0);
        assert_int_equal(here, -there);
    }
}

static void a_node_that_has_left_is_on_neither_side(void **state)
{
    (void)state;
    see(0x3f, 0x40);
    assert_false(sides.is_cut);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        assert_int_equal(order_rank(&sides, experiment(), trial), 0);
    }
}

static void the_digest_tells_one_cut_from_another(void **state)
{
    (void)state;
    see(0x0f, 0);
    uint64_t first = sides.digest;
    see(0x0f, 0);
    assert_true(sides.digest == first);
    see(0x1f, 0);
    assert_true(sides.digest != first);
    see(0x0f, 0x40);
    assert_true(sides.digest != first);
}

static void a_node_beyond_the_largest_roster_is_only_seen_to_be_away(void **state)
{
    (void)state;
    order_init(&sides);
    for (uint32_t i = 0; i < NODE_MEMBERS_MAX; i++) {
        order_add(&sides, id_of(i), true, false);
    }
    order_add(&sides, id_of(NODE_MEMBERS_MAX), false, false);
    assert_int_equal(sides.count, NODE_MEMBERS_MAX);
    assert_true(sides.is_cut);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_whole_mesh_claims_by_index),
        cmocka_unit_test(two_sides_of_a_cut_claim_in_opposite_orders),
        cmocka_unit_test(every_trial_belongs_to_one_side),
        cmocka_unit_test(a_node_that_has_left_is_on_neither_side),
        cmocka_unit_test(the_digest_tells_one_cut_from_another),
        cmocka_unit_test(a_node_beyond_the_largest_roster_is_only_seen_to_be_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Whose trial gets the next slot: the order of the queue, and what follows where each freed slot goes to the first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/core/queue/order.h"

#define USERS_MAX 12

static struct queue_entry entry(const char *user, uint8_t experiment)
{
    struct queue_entry out = {.share = 1, .priority = 50, .age = 1000, .experiment = {{experiment}}};
    (void)snprintf(out.user, sizeof out.user, "%s", user);
    return out;
}

static void assert_before(const struct queue_entry *a, const struct queue_entry *b)
{
    assert_true(queue_compare(a, b) < 0 && queue_compare(b, a) > 0);
}

static void one_users_experiments_follow_priority_then_age_then_id(void **state)
{
    (void)state;
    struct queue_entry a = entry("", 2), b = entry("", 1);
    assert_before(&b, &a);
    assert_true(queue_is_same_user(&a, &b));
    a.age = 999;
    assert_before(&a, &b);
    b.priority = 49;
    assert_before(&b, &a);
    b.usage = a.usage; /* of one user they are equal */
    assert_int_equal(queue_compare(&a, &a), 0);
}

static void priority_and_age_order_nothing_between_users(void **state)
{
    (void)state;
    struct queue_entry flood = entry("ada", 1), other = entry("bob", 2);
    assert_false(queue_is_same_user(&flood, &other));
    flood.priority = 1;
    flood.age = 0;
    flood.running = 1;
    assert_before(&other, &flood);
    other.running = 1;
    flood.usage = 11;
    other.usage = 10;
    assert_before(&other, &flood);
    other.running = 2; /* slots that run now count before what was used */
    assert_before(&flood, &other);
}

static void shares_divide_slots_and_usage_without_rounding(void **state)
{
    (void)state;
    struct queue_entry a = entry("ada", 1), b = entry("bob", 2);
    a.share = 3;
    a.running = 2;
    b.running = 1;
    assert_before(&a, &b); /* 2/3 against 1 */
    a.running = 3;
    a.usage = 3 * (UINT64_MAX / 4 / 3) + 2;
    b.usage = UINT64_MAX / 4 / 3;
    assert_before(&b, &a);
    a.usage = 3 * b.usage; /* equal: the name decides */
    assert_before(&a, &b);
    a.share = b.share = 0; /* counts as 1 */
    a.running = b.running = 0;
    a.usage = b.usage = 0;
    assert_before(&a, &b);
}

/* Gives `slots` slots one by one to the first user that wants one more. */
static void fill(uint32_t slots, uint32_t users, const uint32_t *shares, const uint32_t *wanted, uint32_t *out)
{
    struct queue_entry entries[USERS_MAX];
    for (uint32_t i = 0; i < users; i++) {
        char name[2] = {(char)('a' + i), 0};
        entries[i] = entry(name, (uint8_t)(1 + i));
        entries[i].share = shares[i];
    }
    for (; slots > 0; slots--) {
        struct queue_entry *first = NULL;
        for (uint32_t i = 0; i < users; i++) {
            bool wants = entries[i].running < wanted[i];
            first = wants && (first == NULL || queue_compare(&entries[i], first) < 0) ? &entries[i] : first;
        }
        if (first != NULL) {
            first->running++;
        }
    }
    for (uint32_t i = 0; i < users; i++) {
        out[i] = entries[i].running;
    }
}

/* The answers of max-min fairness with weights; those of two users are Determined's own tests of its fair share. */
static void slots_given_one_by_one_are_max_min(void **state)
{
    (void)state;
    static const struct {
        uint32_t slots, users, shares[4], wanted[4], got[4];
    } rows[] = {{8, 2, {10, 30}, {3, 7}, {2, 6}},
                {4, 2, {1, 1}, {1, 4}, {1, 3}},
                {4, 2, {1, 1}, {4, 4}, {2, 2}},
                {7, 4, {1, 1, 1, 1}, {3, 2, 4, 1}, {2, 2, 2, 1}},
                {7, 3, {4, 2, 1}, {9, 9, 9}, {4, 2, 1}}, /* 4/7, 2/7, 1/7 of the mesh, as HTCondor's 5, 10, 20 */
                {40, 2, {1, 1}, {120, 4}, {36, 4}}};     /* a flood does not push another below its share */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t got[4];
        fill(rows[i].slots, rows[i].users, rows[i].shares, rows[i].wanted, got);
        assert_memory_equal(got, rows[i].got, rows[i].users * sizeof got[0]);
    }
}

/* One who has had the mesh for ever waits h * log2(N + 1) behind N newcomers if usage alone decides: 24, 48, 62 and 86 h for 1, 3,
 * 5 and 11 of them, h = 24 h. Slots that run count first, so here the turn comes with the first slot that is free. */
static void usage_alone_would_keep_a_heavy_user_out_for_days(void **state)
{
    (void)state;
    static const uint32_t newcomers[] = {1, 3, 5, 11}, hours[] = {24, 48, 62, 86};
    const double slots = 40, half_life = 24, ever = slots * half_life / log(2);
    for (size_t i = 0; i < 4; i++) {
        struct queue_entry old = entry("old", 1), young = entry("young", 2);
        uint32_t turn = 0;
        for (uint32_t quarter = 1; turn == 0 && quarter < 1000; quarter++) {
            double kept = pow(0.5, quarter / 4.0 / half_life);
            old.usage = (uint64_t)(3600 * ever * kept);
            young.usage = (uint64_t)(3600 * ever * (1 - kept) / newcomers[i]);
            turn = queue_compare(&old, &young) < 0 ? quarter : 0;
        }
        assert_in_range(turn, 4 * hours[i] - 4, 4 * hours[i] + 4);
        old.usage = UINT64_MAX / 2;
        young.usage = 0;
        young.running = 1;
        assert_before(&old, &young);
    }
}

/* HTCondor's known answer: half of the usage is left after a day, a quarter after two; scaling all of them changes no order. */
static void decay_that_all_share_changes_no_order(void **state)
{
    (void)state;
    struct queue_entry a = entry("ada", 1), b = entry("bob", 2);
    for (uint64_t scale = 1; scale < UINT64_C(1) << 40; scale *= 2) {
        a.usage = 10 * scale;
        b.usage = 5 * scale;
        assert_before(&b, &a);
        b.share = 2; /* twice the share, half of the usage: 10 against 2.5 */
        assert_before(&b, &a);
        a.share = 4;
        assert_int_equal(queue_compare(&a, &b) < 0, 1); /* 2.5 against 2.5: the name */
        a.share = b.share = 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_users_experiments_follow_priority_then_age_then_id),
        cmocka_unit_test(priority_and_age_order_nothing_between_users),
        cmocka_unit_test(shares_divide_slots_and_usage_without_rounding),
        cmocka_unit_test(slots_given_one_by_one_are_max_min),
        cmocka_unit_test(usage_alone_would_keep_a_heavy_user_out_for_days),
        cmocka_unit_test(decay_that_all_share_changes_no_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

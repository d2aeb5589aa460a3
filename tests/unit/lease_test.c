/* Leases: each move and each refusal, then random calls against the invariants of DESIGN 13. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "gossip/lease.h"

static attempt_id attempt(uint8_t experiment, uint32_t trial, uint32_t number)
{
    return (attempt_id){
        .experiment = {{experiment}}, .trial = trial, .number = number, .term = 1, .coordinator = {{1}}};
}

static lease_token token(uint8_t number)
{
    return (lease_token){{number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xaa}};
}

struct fixture {
    struct lease lease;
    struct lease_changes out;
};

static int setup(void **state)
{
    static struct fixture fixture;
    lease_init(&fixture.lease, 4);
    fixture.lease.granting = true;
    memset(&fixture.out, 0xee, sizeof fixture.out);
    *state = &fixture;
    return 0;
}

static void assert_change(const struct lease_changes *out, uint32_t slot, enum lease_state from, enum lease_state to)
{
    assert_int_equal(out->count, 1);
    assert_int_equal(out->items[0].slot, slot);
    assert_int_equal(out->items[0].from, from);
    assert_int_equal(out->items[0].to, to);
    assert_int_equal(out->items[0].before.state, from);
}

/* Slot 0 in each of the states, for attempt(1, 0, 1) at 1000 with token(1). */
static void bring_to(struct fixture *f, enum lease_state state)
{
    attempt_id a = attempt(1, 0, 1);
    if (state == LEASE_WITHHELD) {
        assert_int_equal(lease_withhold(&f->lease, 1000, 0, 0, &f->out), 0);
        return;
    }
    if (state >= LEASE_RESERVED) {
        assert_int_equal(lease_reserve(&f->lease, 1000, 0, &a, false, &f->out), 0);
    }
    if (state >= LEASE_LEASED) {
        assert_int_equal(lease_confirm(&f->lease, 1000, 0, &a, 3, token(1), &f->out), 0);
    }
    if (state >= LEASE_RELEASING) {
        lease_release(&f->lease, &a, 0, &f->out);
    }
    assert_int_equal(f->lease.slots[0].state, state);
}

static void test_life_of_a_lease(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    assert_int_equal(lease_next_ms(&f->lease), UINT64_MAX);

    assert_int_equal(lease_reserve(&f->lease, 1000, 2, &a, false, &f->out), 0);
    assert_change(&f->out, 2, LEASE_FREE, LEASE_RESERVED);
    assert_int_equal(lease_next_ms(&f->lease), 1000 + LEASE_RESERVE_MS);
    assert_int_equal(lease_find_token(&f->lease, (lease_token){{0}}), -1);

    assert_int_equal(lease_confirm(&f->lease, 2000, 2, &a, 3, token(1), &f->out), 0);
    assert_change(&f->out, 2, LEASE_RESERVED, LEASE_LEASED);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 2);
    assert_int_equal(f->lease.slots[2].rank, 3);
    assert_int_equal(lease_next_ms(&f->lease), 2000 + LEASE_MS);

    assert_int_equal(lease_renew(&f->lease, 10000, &a), 0);
    assert_int_equal(lease_next_ms(&f->lease), 10000 + LEASE_MS);

    lease_release(&f->lease, &a, 0, &f->out);
    assert_change(&f->out, 2, LEASE_LEASED, LEASE_RELEASING);
    assert_true(lease_token_equal(f->out.items[0].before.token, token(1)));
    assert_true(attempt_id_equal(&f->lease.slots[2].attempt, &a));
    assert_true(lease_token_is_none(f->lease.slots[2].token));
    assert_int_equal(lease_find_token(&f->lease, token(1)), -1);
    assert_int_equal(lease_next_ms(&f->lease), UINT64_MAX);

    lease_gone(&f->lease, 2, &f->out);
    assert_change(&f->out, 2, LEASE_RELEASING, LEASE_FREE);
    assert_int_equal(f->lease.slots[2].attempt.number, 0);
}

/* One that has its slot, and one slot more that is wanted for the same attempt. */
static void test_who_gives_up_joining_leaves_the_others_of_its_attempt_alone(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    bring_to(f, LEASE_LEASED); /* as rank 3 */
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &a, false, &f->out), 0);
    lease_release(&f->lease, &a, 4, &f->out);
    assert_change(&f->out, 1, LEASE_RESERVED, LEASE_FREE);
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &a, false, &f->out), 0);
    assert_int_equal(lease_confirm(&f->lease, 1000, 1, &a, 4, token(2), &f->out), 0);
    lease_release(&f->lease, &a, 4, &f->out);
    assert_change(&f->out, 1, LEASE_LEASED, LEASE_RELEASING);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
}

static void test_the_end_of_one_slot_leaves_the_others_of_its_attempt_alone(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    bring_to(f, LEASE_LEASED);
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &a, false, &f->out), 0);
    lease_end(&f->lease, 1, &f->out);
    assert_change(&f->out, 1, LEASE_RESERVED, LEASE_FREE);
    lease_end(&f->lease, 1, &f->out);
    assert_int_equal(f->out.count, 0);
    lease_end(&f->lease, LEASE_SLOTS_MAX, &f->out);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
    lease_end(&f->lease, 0, &f->out);
    assert_change(&f->out, 0, LEASE_LEASED, LEASE_RELEASING);
}

static void test_time_ends_reservations_and_leases(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1), b = attempt(1, 1, 1);
    assert_int_equal(lease_reserve(&f->lease, 1000, 0, &a, false, &f->out), 0);
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &b, false, &f->out), 0);
    assert_int_equal(lease_confirm(&f->lease, 1000, 1, &b, 0, token(1), &f->out), 0);

    lease_tick(&f->lease, 1000 + LEASE_RESERVE_MS - 1, &f->out);
    assert_int_equal(f->out.count, 0);
    lease_tick(&f->lease, 1000 + LEASE_RESERVE_MS, &f->out);
    assert_change(&f->out, 0, LEASE_RESERVED, LEASE_FREE);
    lease_tick(&f->lease, 1000 + LEASE_MS - 1, &f->out);
    assert_int_equal(f->out.count, 0);
    lease_tick(&f->lease, 1000 + LEASE_MS, &f->out);
    assert_change(&f->out, 1, LEASE_LEASED, LEASE_RELEASING);
    assert_int_equal(lease_find_token(&f->lease, token(1)), -1);
    lease_tick(&f->lease, UINT64_MAX - 1, &f->out);
    assert_int_equal(f->out.count, 0); /* RELEASING never ends by time */
}

static void test_over_is_over_before_the_tick(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1), younger = attempt(9, 0, 1);
    bring_to(f, LEASE_RESERVED);
    assert_int_equal(lease_confirm(&f->lease, 1000 + LEASE_RESERVE_MS, 0, &a, 3, token(1), &f->out), ERR_STALE);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_reserve(&f->lease, 1000 + LEASE_RESERVE_MS, 0, &younger, false, &f->out), 0);
    assert_change(&f->out, 0, LEASE_RESERVED, LEASE_RESERVED);
    assert_true(attempt_id_equal(&f->out.items[0].before.attempt, &a));

    (void)setup(state);
    bring_to(f, LEASE_LEASED);
    assert_int_equal(lease_renew(&f->lease, 1000 + LEASE_MS, &a), ERR_NOT_FOUND);
    assert_int_equal(lease_confirm(&f->lease, 1000 + LEASE_MS, 0, &a, 3, token(2), &f->out), ERR_STALE);
}

static void test_shift_moves_all_ends(void **state)
{
    struct fixture *f = *state;
    attempt_id b = attempt(2, 0, 1);
    bring_to(f, LEASE_LEASED);
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &b, false, &f->out), 0);
    lease_shift(&f->lease, 60000);
    assert_int_equal(lease_next_ms(&f->lease), 61000 + LEASE_RESERVE_MS);
    assert_int_equal(f->lease.slots[0].until_ms, 61000 + LEASE_MS);
    assert_int_equal(f->lease.slots[2].until_ms, 0);
}

/* What each call answers in each state, for the same attempt and for another one (younger). Rows are states. */
static void test_table_of_moves(void **state)
{
    struct fixture *f = *state;
    attempt_id same = attempt(1, 0, 1), other = attempt(2, 0, 1);
    static const struct {
        int reserve, reserve_other, confirm, confirm_other, renew;
        enum lease_state after_release, after_gone, after_withhold, after_withhold_gone, after_return, after_busy;
    } rows[] = {
        [LEASE_FREE] = {0, 0, ERR_STALE, ERR_STALE, ERR_NOT_FOUND, LEASE_FREE, LEASE_FREE, LEASE_WITHHELD,
                        LEASE_WITHHELD, LEASE_FREE, LEASE_WITHHELD},
        [LEASE_RESERVED] = {0, ERR_AGAIN, 0, ERR_STALE, ERR_NOT_FOUND, LEASE_FREE, LEASE_RESERVED, LEASE_WITHHELD,
                            LEASE_WITHHELD, LEASE_RESERVED, LEASE_WITHHELD},
        [LEASE_LEASED] = {ERR_AGAIN, ERR_AGAIN, 0, ERR_STALE, 0, LEASE_RELEASING, LEASE_FREE, LEASE_LEASED,
                          LEASE_WITHHELD, LEASE_LEASED, LEASE_LEASED},
        [LEASE_RELEASING] = {ERR_AGAIN, ERR_AGAIN, ERR_STALE, ERR_STALE, ERR_NOT_FOUND, LEASE_RELEASING, LEASE_FREE,
                             LEASE_RELEASING, LEASE_WITHHELD, LEASE_RELEASING, LEASE_RELEASING},
        [LEASE_WITHHELD] = {ERR_AGAIN, ERR_AGAIN, ERR_STALE, ERR_STALE, ERR_NOT_FOUND, LEASE_WITHHELD, LEASE_WITHHELD,
                            LEASE_WITHHELD, LEASE_WITHHELD, LEASE_FREE, LEASE_WITHHELD},
    };
    for (enum lease_state s = LEASE_FREE; s <= LEASE_WITHHELD; s++) {
        struct lease start;
        (void)setup(state);
        bring_to(f, s);
        start = f->lease;
#define CASE(call, expected)                                      \
    do {                                                          \
        f->lease = start;                                         \
        f->out.count = 99;                                        \
        assert_int_equal(call, expected);                         \
        if ((expected) != 0) {                                    \
            assert_int_equal(f->out.count, 0);                    \
            assert_memory_equal(&f->lease, &start, sizeof start); \
        }                                                         \
    } while (0)
        CASE(lease_reserve(&f->lease, 1001, 0, &same, false, &f->out), rows[s].reserve);
        CASE(lease_reserve(&f->lease, 1001, 0, &other, false, &f->out), rows[s].reserve_other);
        CASE(lease_confirm(&f->lease, 1001, 0, &same, 3, token(2), &f->out), rows[s].confirm);
        CASE(lease_confirm(&f->lease, 1001, 0, &other, 3, token(2), &f->out), rows[s].confirm_other);
        CASE(lease_withhold(&f->lease, 1001, 0, 0, &f->out), 0);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_withhold);
        assert_int_equal(f->out.count, s != rows[s].after_withhold);
        lease_gone(&f->lease, 0, &f->out);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_withhold_gone);
        CASE(lease_return(&f->lease, 0, &f->out), 0);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_return);
        CASE(lease_busy(&f->lease, 0, true, &f->out), 0);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_busy);
#undef CASE
        f->lease = start;
        assert_int_equal(lease_renew(&f->lease, 1001, &same), rows[s].renew);
        assert_int_equal(lease_renew(&f->lease, 1001, &other), ERR_NOT_FOUND);
        f->lease = start;
        lease_release(&f->lease, &other, 0, &f->out);
        assert_int_equal(f->out.count, 0);
        assert_memory_equal(&f->lease, &start, sizeof start);
        lease_release(&f->lease, &same, 0, &f->out);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_release);
        assert_int_equal(f->out.count, s != rows[s].after_release);
        f->lease = start;
        lease_gone(&f->lease, 0, &f->out);
        assert_int_equal(f->lease.slots[0].state, rows[s].after_gone);
        assert_int_equal(f->out.count, s != rows[s].after_gone);
    }
}

static void test_no_such_slot(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    struct lease start = f->lease;
    assert_int_equal(lease_reserve(&f->lease, 1, 4, &a, false, &f->out), ERR_NOT_FOUND);
    assert_int_equal(lease_confirm(&f->lease, 1, 4, &a, 1, token(1), &f->out), ERR_NOT_FOUND);
    assert_int_equal(lease_withhold(&f->lease, 1, UINT32_MAX, 0, &f->out), ERR_NOT_FOUND);
    assert_int_equal(lease_return(&f->lease, 4, &f->out), ERR_NOT_FOUND);
    assert_int_equal(lease_busy(&f->lease, 4, true, &f->out), ERR_NOT_FOUND);
    lease_gone(&f->lease, 4, &f->out);
    assert_int_equal(f->out.count, 0);
    assert_false(lease_restore(&f->lease, 1, 4, &a, 1, token(1), true));
    assert_memory_equal(&f->lease, &start, sizeof start);
}

static void test_withheld_for_a_time(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lease_withhold(&f->lease, 1000, 1, 5000, &f->out), 0);
    assert_int_equal(lease_next_ms(&f->lease), 6000);
    assert_int_equal(lease_withhold(&f->lease, 2000, 1, 5000, &f->out), 0); /* again: anew */
    lease_shift(&f->lease, 100);
    assert_int_equal(lease_next_ms(&f->lease), 7100);
    lease_tick(&f->lease, 7099, &f->out);
    assert_int_equal(f->out.count, 0);
    lease_tick(&f->lease, 7100, &f->out);
    assert_change(&f->out, 1, LEASE_WITHHELD, LEASE_FREE);
    assert_int_equal(lease_next_ms(&f->lease), UINT64_MAX);

    /* Under a worker: the time runs from the owner's word on, and what is over does not come back when the worker goes. */
    attempt_id a = attempt(1, 0, 1);
    assert_int_equal(lease_reserve(&f->lease, 8000, 0, &a, false, &f->out), 0);
    assert_int_equal(lease_confirm(&f->lease, 8000, 0, &a, 0, token(1), &f->out), 0);
    assert_int_equal(lease_withhold(&f->lease, 8000, 0, 1000, &f->out), 0);
    lease_tick(&f->lease, 9000, &f->out);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
    lease_gone(&f->lease, 0, &f->out);
    assert_change(&f->out, 0, LEASE_LEASED, LEASE_FREE);
}

static void test_busy_and_withheld_are_two_holds(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(lease_busy(&f->lease, 0, true, &f->out), 0);
    assert_change(&f->out, 0, LEASE_FREE, LEASE_WITHHELD);
    assert_int_equal(lease_withhold(&f->lease, 1000, 0, 0, &f->out), 0);
    assert_int_equal(lease_busy(&f->lease, 0, false, &f->out), 0);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_busy(&f->lease, 0, true, &f->out), 0);
    assert_int_equal(lease_return(&f->lease, 0, &f->out), 0);
    assert_int_equal(f->lease.slots[0].state, LEASE_WITHHELD);
    assert_int_equal(lease_busy(&f->lease, 0, false, &f->out), 0);
    assert_change(&f->out, 0, LEASE_WITHHELD, LEASE_FREE);
}

static void test_not_granting(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    struct lease fresh;
    lease_init(&fresh, 1);
    assert_false(fresh.granting);

    f->lease.granting = false;
    assert_int_equal(lease_reserve(&f->lease, 1, 0, &a, false, &f->out), ERR_REFUSED);
    f->lease.granting = true;
    assert_int_equal(lease_reserve(&f->lease, 1, 0, &a, false, &f->out), 0);
    f->lease.granting = false;
    assert_int_equal(lease_confirm(&f->lease, 1, 0, &a, 0, token(1), &f->out), ERR_REFUSED);
    f->lease.granting = true;
    assert_int_equal(lease_confirm(&f->lease, 1, 0, &a, 0, token(1), &f->out), 0);
    f->lease.granting = false; /* what is granted stays so */
    assert_int_equal(lease_confirm(&f->lease, 1, 0, &a, 0, token(2), &f->out), 0);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_renew(&f->lease, 2, &a), 0);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
}

static void test_asking_again_renews_the_reservation(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    bring_to(f, LEASE_RESERVED);
    assert_int_equal(lease_reserve(&f->lease, 4000, 0, &a, false, &f->out), 0);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_next_ms(&f->lease), 4000 + LEASE_RESERVE_MS);
}

static void test_repeated_confirmation_changes_nothing(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1);
    bring_to(f, LEASE_LEASED);
    struct lease start = f->lease;
    assert_int_equal(lease_confirm(&f->lease, 5000, 0, &a, 3, token(2), &f->out), 0);
    assert_int_equal(f->out.count, 0);
    assert_int_equal(lease_confirm(&f->lease, 5000, 0, &a, 4, token(2), &f->out), ERR_STALE);
    assert_memory_equal(&f->lease, &start, sizeof start);
    assert_int_equal(lease_find_token(&f->lease, token(2)), -1);
}

static void test_a_token_is_valid_for_one_slot(void **state)
{
    struct fixture *f = *state;
    attempt_id b = attempt(2, 0, 1);
    bring_to(f, LEASE_LEASED);
    assert_int_equal(lease_reserve(&f->lease, 1000, 1, &b, false, &f->out), 0);
    assert_int_equal(lease_confirm(&f->lease, 1000, 1, &b, 0, token(1), &f->out), ERR_EXISTS);
    assert_int_equal(f->lease.slots[1].state, LEASE_RESERVED);
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
    lease_token near = token(1);
    near.bytes[15] ^= 1;
    assert_int_equal(lease_find_token(&f->lease, near), -1);
}

/* Of two that ask for one slot the one that the caller's order has first gets it in the end, whichever asks first. */
static void test_the_first_of_the_callers_order_takes_over(void **state)
{
    struct fixture *f = *state;
    static const struct {
        uint8_t experiment;
        uint32_t trial, number;
    } order[] = {{5, 5, 1}, {3, 9, 1}, {4, 1, 2}, {4, 1, 1}, {4, 2, 9}};
    int count = sizeof order / sizeof order[0];
    for (int first = 0; first < count; first++) {
        for (int second = 0; second < count; second++) {
            if (first == second) {
                continue;
            }
            (void)setup(state);
            attempt_id a = attempt(order[first].experiment, order[first].trial, order[first].number);
            attempt_id b = attempt(order[second].experiment, order[second].trial, order[second].number);
            assert_int_equal(lease_reserve(&f->lease, 1, 0, &a, false, &f->out), 0);
            int error = lease_reserve(&f->lease, 2, 0, &b, second < first, &f->out);
            if (second < first) {
                assert_int_equal(error, 0);
                assert_change(&f->out, 0, LEASE_RESERVED, LEASE_RESERVED);
                assert_true(attempt_id_equal(&f->out.items[0].before.attempt, &a));
                assert_int_equal(lease_confirm(&f->lease, 3, 0, &a, 0, token(1), &f->out), ERR_STALE);
                assert_int_equal(lease_confirm(&f->lease, 3, 0, &b, 0, token(1), &f->out), 0);
            } else {
                assert_int_equal(error, ERR_AGAIN);
                assert_true(attempt_id_equal(&f->lease.slots[0].attempt, &a));
            }
        }
    }
}

static void test_release_ends_all_slots_of_the_attempt(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1), newer = attempt(1, 0, 2);
    assert_int_equal(lease_reserve(&f->lease, 1, 1, &a, false, &f->out), 0);
    assert_int_equal(lease_reserve(&f->lease, 1, 2, &newer, false, &f->out), 0);
    assert_int_equal(lease_reserve(&f->lease, 1, 3, &a, false, &f->out), 0);
    assert_int_equal(lease_confirm(&f->lease, 1, 3, &a, 0, token(1), &f->out), 0);
    lease_release(&f->lease, &a, 0, &f->out);
    assert_int_equal(f->out.count, 2);
    assert_int_equal(f->out.items[0].slot, 1);
    assert_int_equal(f->out.items[0].to, LEASE_FREE);
    assert_int_equal(f->out.items[1].slot, 3);
    assert_int_equal(f->out.items[1].to, LEASE_RELEASING);
    assert_int_equal(f->lease.slots[2].state, LEASE_RESERVED);
}

static void test_restore(void **state)
{
    struct fixture *f = *state;
    attempt_id a = attempt(1, 0, 1), b = attempt(2, 0, 1);
    assert_true(lease_restore(&f->lease, 500, 0, &a, 1, token(1), true));
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
    assert_int_equal(lease_next_ms(&f->lease), 500 + LEASE_MS);
    assert_true(lease_restore(&f->lease, 500, 1, &b, 0, token(2), false));
    assert_int_equal(f->lease.slots[1].state, LEASE_RELEASING);
    assert_int_equal(lease_find_token(&f->lease, token(2)), -1);
    assert_true(attempt_id_equal(&f->lease.slots[1].attempt, &b));

    /* A copied or broken disk: a token twice, no token, a slot twice. */
    assert_true(lease_restore(&f->lease, 500, 2, &b, 0, token(1), true));
    assert_int_equal(f->lease.slots[2].state, LEASE_RELEASING);
    assert_true(lease_restore(&f->lease, 500, 3, &b, 0, (lease_token){{0}}, true));
    assert_int_equal(f->lease.slots[3].state, LEASE_RELEASING);
    assert_false(lease_restore(&f->lease, 500, 0, &b, 0, token(9), true));
    assert_int_equal(lease_find_token(&f->lease, token(1)), 0);
    assert_int_equal(lease_find_token(&f->lease, token(9)), -1);
}

/* Random calls, seldom sensible ones. The model knows only which tokens were handed out for which slot, and which slots
 * may hold a worker. */
struct model {
    int valid_slot[256]; /* of token n: -1 never or no more */
    bool ended[256];
    bool worker[LEASE_SLOTS_MAX]; /* granted, and not gone */
    uint64_t reserved_at_ms[LEASE_SLOTS_MAX];
    unsigned granted, expired, taken_over, refused;
};

static void model_apply(struct model *m, const struct lease *lease, const struct lease_changes *out, uint64_t now_ms)
{
    for (uint32_t i = 0; i < out->count; i++) {
        const struct lease_change *c = &out->items[i];
        assert_true(i == 0 || out->items[i - 1].slot < c->slot);
        assert_int_equal(lease->slots[c->slot].state, c->to);
        if (c->from == LEASE_LEASED) {
            uint8_t n = c->before.token.bytes[0];
            assert_int_equal(m->valid_slot[n], c->slot);
            m->valid_slot[n] = -1;
            m->ended[n] = true;
        }
        if (c->to == LEASE_LEASED) {
            assert_int_equal(c->from, LEASE_RESERVED);
            assert_false(m->worker[c->slot]);
            uint8_t n = lease->slots[c->slot].token.bytes[0];
            assert_false(m->ended[n]);
            m->valid_slot[n] = (int)c->slot;
            m->worker[c->slot] = true;
            m->granted++;
        }
        if (c->to == LEASE_RESERVED) {
            m->reserved_at_ms[c->slot] = now_ms;
            m->taken_over += c->from == LEASE_RESERVED;
        }
    }
}

static void model_check(const struct model *m, const struct lease *lease)
{
    for (unsigned n = 1; n < 256; n++) {
        assert_int_equal(lease_find_token(lease, token((uint8_t)n)), m->valid_slot[n]);
    }
    for (uint32_t i = 0; i < lease->count; i++) {
        const struct lease_slot *at = &lease->slots[i];
        bool busy = at->state == LEASE_LEASED || at->state == LEASE_RELEASING;
        assert_int_equal(busy, m->worker[i]);
        assert_int_equal(at->state == LEASE_LEASED, !lease_token_is_none(at->token));
        assert_int_equal(at->state == LEASE_FREE || at->state == LEASE_WITHHELD, at->attempt.number == 0);
    }
}

static void test_random_calls_keep_the_invariants(void **state)
{
    struct fixture *f = *state;
    struct model total = {.granted = 0};
    for (uint64_t seed = 1; seed <= 60; seed++) {
        (void)setup(state);
        struct model m = {.granted = 0};
        memset(m.valid_slot, -1, sizeof m.valid_slot);
        struct random random;
        random_init(&random, seed);
        uint64_t now_ms = 1000;
        uint8_t next_token = 1;
        for (int step = 0; step < 400; step++) {
            now_ms += random_below(&random, random_below(&random, 20) == 0 ? 40000 : 1500);
            uint32_t slot = (uint32_t)random_below(&random, 5);
            attempt_id a = attempt((uint8_t)(1 + random_below(&random, 2)), (uint32_t)random_below(&random, 2),
                                   (uint32_t)(1 + random_below(&random, 2)));
            int error = 0;
            f->out.count = 0;
            switch (random_below(&random, 9)) {
            case 0:
            case 1:
                error = lease_reserve(&f->lease, now_ms, slot, &a, random_below(&random, 2) == 0, &f->out);
                if (error == 0) {
                    m.reserved_at_ms[slot] = now_ms;
                }
                break;
            case 2:
            case 3: {
                bool likely = slot < 4 && random_below(&random, 4) != 0;
                a = likely ? f->lease.slots[slot].attempt : a;
                bool reuse = random_below(&random, 10) == 0 && next_token > 1;
                uint8_t n = reuse ? (uint8_t)(1 + random_below(&random, next_token - 1u)) : next_token;
                if (m.ended[n]) {
                    n = next_token; /* the caller draws tokens at random: an ended one does not come again */
                }
                error = lease_confirm(&f->lease, now_ms, slot, &a, 0, token(n), &f->out);
                if (f->out.count > 0 && n == next_token) {
                    assert_int_not_equal(++next_token, 0);
                }
                break;
            }
            case 4:
                (void)lease_renew(&f->lease, now_ms, &a);
                break;
            case 5:
                lease_release(&f->lease, &a, 0, &f->out);
                break;
            case 6:
                lease_gone(&f->lease, slot, &f->out);
                if (slot < 4) {
                    m.worker[slot] = false;
                }
                break;
            case 7:
                error = random_below(&random, 2) == 0
                            ? lease_return(&f->lease, slot, &f->out)
                            : lease_withhold(&f->lease, now_ms, slot, random_below(&random, 2) * 3000u, &f->out);
                break;
            default:
                f->lease.granting = random_below(&random, 5) != 0;
                break;
            }
            m.refused += error != 0;
            assert_true(error == 0 || f->out.count == 0);
            model_apply(&m, &f->lease, &f->out, now_ms);
            model_check(&m, &f->lease);
            if (random_below(&random, 2) == 0) {
                lease_tick(&f->lease, now_ms, &f->out);
                m.expired += f->out.count;
                model_apply(&m, &f->lease, &f->out, now_ms);
                model_check(&m, &f->lease);
                assert_true(lease_next_ms(&f->lease) > now_ms);
                for (uint32_t i = 0; i < 4; i++) {
                    assert_true(f->lease.slots[i].state != LEASE_RESERVED ||
                                now_ms < m.reserved_at_ms[i] + LEASE_RESERVE_MS);
                }
            }
        }
        total.granted += m.granted;
        total.expired += m.expired;
        total.taken_over += m.taken_over;
        total.refused += m.refused;
    }
    /* The walk met what it is about. */
    assert_true(total.granted > 150);
    assert_true(total.expired > 500);
    assert_true(total.taken_over > 100);
    assert_true(total.refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_life_of_a_lease, setup),
        cmocka_unit_test_setup(test_who_gives_up_joining_leaves_the_others_of_its_attempt_alone, setup),
        cmocka_unit_test_setup(test_the_end_of_one_slot_leaves_the_others_of_its_attempt_alone, setup),
        cmocka_unit_test_setup(test_time_ends_reservations_and_leases, setup),
        cmocka_unit_test_setup(test_over_is_over_before_the_tick, setup),
        cmocka_unit_test_setup(test_shift_moves_all_ends, setup),
        cmocka_unit_test_setup(test_table_of_moves, setup),
        cmocka_unit_test_setup(test_no_such_slot, setup),
        cmocka_unit_test_setup(test_withheld_for_a_time, setup),
        cmocka_unit_test_setup(test_busy_and_withheld_are_two_holds, setup),
        cmocka_unit_test_setup(test_not_granting, setup),
        cmocka_unit_test_setup(test_asking_again_renews_the_reservation, setup),
        cmocka_unit_test_setup(test_repeated_confirmation_changes_nothing, setup),
        cmocka_unit_test_setup(test_a_token_is_valid_for_one_slot, setup),
        cmocka_unit_test_setup(test_the_first_of_the_callers_order_takes_over, setup),
        cmocka_unit_test_setup(test_release_ends_all_slots_of_the_attempt, setup),
        cmocka_unit_test_setup(test_restore, setup),
        cmocka_unit_test_setup(test_random_calls_keep_the_invariants, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

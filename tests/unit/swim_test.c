/* Membership: the roster, messages of any kind, gaps, leaving, and what is told to whom how often. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"
#include "tests/unit/swim_fixture.h"

static void members_are_sorted_counted_and_idempotent(void **state)
{
    (void)state;
    struct fixture *f = start(0);
    const unsigned numbers[] = {9, 3, 500, 1, 7, 2, 30, 44, 8, 6, 5, 21};
    size_t count = sizeof numbers / sizeof numbers[0];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(numbers[i])), 0);
        assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(numbers[i])), 0);
    }
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(0)), 0); /* ourselves: not a member */
    assert_false(swim_is_member(&f->swim, id(0)));
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, (node_id){{0}}), ERR_USAGE);
    assert_int_equal(swim_member_count(&f->swim), count);
    assert_int_equal(swim_state_count(&f->swim, SWIM_UNKNOWN), count);
    for (size_t i = 1; i < count; i++) {
        assert_true(node_id_compare(swim_member_at(&f->swim, i - 1), swim_member_at(&f->swim, i)) < 0);
    }
    assert_int_equal(swim_member_remove(&f->swim, id(7)), 0);
    assert_int_equal(swim_member_remove(&f->swim, id(7)), ERR_NOT_FOUND);
    assert_false(swim_is_member(&f->swim, id(7)));
    assert_true(swim_is_member(&f->swim, id(500)));
    assert_int_equal(hear(f, 7, NULL), ERR_NOT_FOUND);
    assert_int_equal(swim_state_of(&f->swim, id(0)), SWIM_ALIVE);
    finish(f);
}

static void members_are_bounded_and_a_full_arena_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = start(SWIM_MEMBERS_MAX);
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(SWIM_MEMBERS_MAX + 1)), ERR_FULL);
    assert_int_equal(swim_member_remove(&f->swim, id(5)), 0);
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(SWIM_MEMBERS_MAX + 1)), 0);
    finish(f);

    struct fixture *g = start(0);
    arena_init(&g->arena, g->memory, 4096);
    struct swim_options options = {.self = id(0), .now_ms = START_MS};
    assert_int_equal(swim_init(&g->swim, &options, &g->arena), 0);
    unsigned count = 0;
    int rc = 0;
    while ((rc = swim_member_add(&g->swim, START_MS, id(count + 1))) == 0) {
        count++;
    }
    assert_int_equal(rc, ERR_MEMORY);
    assert_int_equal(swim_member_count(&g->swim), count);
    for (unsigned i = 1; i <= count; i++) {
        assert_true(swim_is_member(&g->swim, id(i)));
    }
    arena_init(&g->arena, g->memory, 64);
    assert_int_equal(swim_init(&g->swim, &options, &g->arena), ERR_MEMORY);
    finish(g);
}

static void removing_a_member_forgets_all_traces_of_it(void **state)
{
    (void)state;
    struct fixture *f = start_alive(6);
    assert_int_equal(rumour(f, 2, 1, SWIM_SUSPECT, 1), 0);
    struct swim_message request = {.kind = SWIM_PING_REQ, .target = id(3), .sequence = 5, .incarnation = 1};
    assert_int_equal(receive(f, 2, &request), 0);
    for (unsigned i = 1; i <= 6; i++) {
        assert_int_equal(swim_member_remove(&f->swim, id(i)), 0);
        for (int j = 0; j < 20; j++) {
            tick_next(f);
            for (size_t k = 0; k < f->out.count; k++) {
                assert_true(swim_is_member(&f->swim, f->out.items[k].node));
                for (size_t r = 0; r < f->out.items[k].message.rumour_count; r++) {
                    assert_true(swim_is_member(&f->swim, f->out.items[k].message.rumours[r].node));
                }
            }
        }
    }
    assert_int_equal(swim_member_count(&f->swim), 0);
    finish(f);
}

static void after_a_gap_nobody_is_accused(void **state)
{
    (void)state;
    for (int told = 0; told < 2; told++) {
        struct fixture *f = start_alive(4);
        run(f, 4, 0, START_MS + 3000);
        uint32_t sequence = 0;
        unsigned target = next_probe(f, 4, &sequence);
        assert_int_equal(rumour(f, target, target % 4 + 1, SWIM_SUSPECT, 1), 0);
        uint64_t heard_ms[5] = {0};
        for (unsigned n = 1; n <= 4; n++) {
            heard_ms[n] = swim_heard_ms(&f->swim, id(n));
        }
        f->now_ms += 3600000;
        if (told == 1) {
            uint64_t next_ms = swim_next_ms(&f->swim);
            swim_shift(&f->swim, 3600000);
            /* What was due already stays due, and reads as one millisecond after the last tick. */
            assert_in_range(swim_next_ms(&f->swim), next_ms + 3600000 - 1, next_ms + 3600000);
        }
        swim_tick(&f->swim, f->now_ms, &f->out);
        for (unsigned n = 1; n <= 4; n++) {
            assert_int_not_equal(view(f, n), SWIM_DEAD);
            assert_in_range(swim_heard_ms(&f->swim, id(n)), heard_ms[n] + 3600000 - 500, f->now_ms);
        }
        assert_int_equal(view(f, target), SWIM_ALIVE);
        /* And then everything goes on: a second silence is noticed as the first would have been. */
        uint64_t from_ms = f->now_ms;
        while (view(f, target) != SWIM_DEAD) {
            tick_next(f);
        }
        assert_in_range(f->now_ms - from_ms, 2000, 8000);
        finish(f);
    }
}

static void leaving_tells_everybody_and_stays_left(void **state)
{
    (void)state;
    struct fixture *f = start_alive(70);
    bool told[71] = {false};
    swim_leave(&f->swim, f->now_ms, &f->out);
    assert_int_equal(f->out.count, SWIM_LEAVE_MAX);
    for (int i = 0; i < 10; i++) {
        for (unsigned n = 1; n <= 70; n++) {
            const struct swim_effect *ping = sent(f, n, SWIM_PING);
            if (ping != NULL) {
                assert_non_null(about(&ping->message, 0));
                assert_int_equal(about(&ping->message, 0)->state, SWIM_LEFT);
                told[n] = true;
            }
        }
        if (swim_next_ms(&f->swim) == UINT64_MAX) {
            break;
        }
        tick_next(f);
    }
    for (unsigned n = 1; n <= 70; n++) {
        assert_true(told[n]);
    }
    assert_int_equal(swim_next_ms(&f->swim), UINT64_MAX);
    assert_int_equal(swim_state_of(&f->swim, id(0)), SWIM_LEFT);
    assert_int_equal(rumour(f, 1, 0, SWIM_DEAD, 100), 0); /* no refutation any more */
    assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 100);
    swim_leave(&f->swim, f->now_ms, &f->out);
    assert_int_equal(f->out.count, 0);
    finish(f);
}

static void a_rumour_is_told_often_enough_and_then_no_more(void **state)
{
    (void)state;
    struct fixture *f = start_alive(7);
    run(f, 7, 0, f->now_ms + 30000);
    assert_int_equal(rumour(f, 1, 2, SWIM_ALIVE, 5), 0);
    unsigned told = 0;
    uint64_t end_ms = f->now_ms + 60000;
    while (swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        for (size_t i = 0; i < f->out.count; i++) {
            told += about(&f->out.items[i].message, 2) != NULL ? 1 : 0;
        }
        answer_pings(f, 7, 0, 1);
    }
    assert_int_equal(told, 3 * 4 + 4); /* 3 log2(8 nodes, rounded up) + 4 */
    finish(f);
}

static void an_idle_mesh_sends_two_pings_per_second_and_no_rumours(void **state)
{
    (void)state;
    struct fixture *f = start_alive(4);
    run(f, 4, 0, f->now_ms + 30000);
    unsigned sends = 0;
    uint64_t end_ms = f->now_ms + 60000;
    while (swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        for (size_t i = 0; i < f->out.count; i++) {
            sends++;
            assert_int_equal(f->out.items[i].message.rumour_count, 0);
        }
        answer_pings(f, 4, 0, 1);
    }
    assert_in_range(sends, 119, 121);
    finish(f);
}

static void malformed_messages_change_nothing(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    const struct swim_rumour good = {.node = id(2), .incarnation = 9, .state = SWIM_DEAD};
    struct swim_message cases[16];
    size_t count = 0;
    struct swim_message base = {
        .kind = SWIM_PING, .sequence = 1, .incarnation = 50, .rumour_count = 1, .rumours = {good}};
#define CASE(change)                  \
    do {                              \
        struct swim_message m = base; \
        change;                       \
        cases[count++] = m;           \
    } while (0)
    CASE(m.kind = (enum swim_kind)0);
    CASE(m.kind = (enum swim_kind)5);
    CASE(m.rumour_count = SWIM_RUMOURS_MAX + 1);
    CASE(m.incarnation = SWIM_INCARNATION_MAX);
    CASE(m.target = id(2));
    CASE(m.rumours[0].node = (node_id){{0}});
    CASE(m.rumours[0].state = SWIM_UNKNOWN);
    CASE(m.rumours[0].state = (enum swim_state)9);
    CASE(m.rumours[0].incarnation = SWIM_INCARNATION_MAX);
    CASE((m.kind = SWIM_ACK, m.sequence = 0));
    CASE((m.kind = SWIM_ACK, m.target = id(1)));
    CASE(m.kind = SWIM_PING_REQ);
    CASE((m.kind = SWIM_PING_REQ, m.target = id(0)));
    CASE((m.kind = SWIM_PING_REQ, m.target = id(1)));
    CASE((m.kind = SWIM_PING_REQ, m.target = id(2), m.sequence = 0));
    CASE(m.kind = SWIM_NACK);
#undef CASE
    assert_int_equal(count, 16);
    struct swim before = f->swim;
    uint8_t *memory = malloc(ARENA_BYTES);
    memcpy(memory, f->memory, ARENA_BYTES);
    f->now_ms += 50;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(receive(f, 1, &cases[i]), ERR_MALFORMED);
        assert_int_equal(f->out.count, 0);
    }
    assert_int_equal(receive(f, 0, &base), ERR_NOT_FOUND); /* ourselves */
    assert_int_equal(receive(f, 9, &base), ERR_NOT_FOUND);
    struct swim_message request = {.kind = SWIM_PING_REQ, .target = id(9), .sequence = 1};
    assert_int_equal(receive(f, 1, &request), ERR_NOT_FOUND);
    assert_memory_equal(&before, &f->swim, sizeof before);
    assert_memory_equal(memory, f->memory, ARENA_BYTES);
    assert_int_equal(receive(f, 1, &base), 0); /* the one that they were made from is fine */
    free(memory);
    finish(f);
}

static void what_we_believe_of_the_absent_is_told_for_ever(void **state)
{
    (void)state;
    struct fixture *f = start_alive(5);
    assert_int_equal(rumour(f, 4, 4, SWIM_LEFT, 1), 0);
    assert_int_equal(rumour(f, 1, 5, SWIM_DEAD, 1), 0);
    run(f, 3, 0, f->now_ms + 60000);
    unsigned told[6] = {0};
    uint64_t end_ms = f->now_ms + 10000;
    while (swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        for (unsigned n = 1; n <= 3; n++) {
            const struct swim_effect *ping = sent(f, n, SWIM_PING);
            for (unsigned m = 4; m <= 5 && ping != NULL; m++) {
                told[m] += about(&ping->message, m) != NULL ? 1 : 0;
            }
        }
        answer_pings(f, 3, 0, 1);
    }
    assert_in_range(told[4], 5, 20);
    assert_in_range(told[5], 5, 20);
    finish(f);
}

static void any_message_is_survived(void **state)
{
    (void)state;
    struct fixture *f = start(12);
    struct random random;
    random_init(&random, 11);
    unsigned accepted = 0;
    for (int i = 0; i < 60000; i++) {
        struct swim_message message = {.kind = (enum swim_kind)random_below(&random, 6),
                                       .sequence = (uint32_t)random_below(&random, 4),
                                       .incarnation = random_below(&random, 40),
                                       .rumour_count = (uint8_t)random_below(&random, SWIM_RUMOURS_MAX + 2)};
        if (random_below(&random, 3) == 0) {
            message.target = id((unsigned)random_below(&random, 15));
        }
        for (size_t j = 0; j < SWIM_RUMOURS_MAX; j++) {
            message.rumours[j].node = id((unsigned)random_below(&random, 15));
            message.rumours[j].from = id((unsigned)random_below(&random, 15));
            message.rumours[j].incarnation = random_below(&random, 60);
            message.rumours[j].state = (enum swim_state)(1 + random_below(&random, 4));
        }
        f->now_ms += random_below(&random, 40);
        accepted += receive(f, (unsigned)random_below(&random, 14), &message) == 0 ? 1 : 0;
        if (random_below(&random, 4) == 0) {
            swim_tick(&f->swim, f->now_ms, &f->out);
            assert_true(swim_next_ms(&f->swim) > f->now_ms);
        }
        if (random_below(&random, 50) == 0) {
            unsigned node = 1 + (unsigned)random_below(&random, 12);
            if (swim_member_remove(&f->swim, id(node)) == 0) {
                assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(node)), 0);
            }
        }
        size_t total = 0;
        for (int s = 0; s < SWIM_STATE_COUNT; s++) {
            total += swim_state_count(&f->swim, (enum swim_state)s);
        }
        assert_int_equal(total, 12);
    }
    assert_true(accepted > 10000);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_counted_and_idempotent),
        cmocka_unit_test(members_are_bounded_and_a_full_arena_changes_nothing),
        cmocka_unit_test(removing_a_member_forgets_all_traces_of_it),
        cmocka_unit_test(after_a_gap_nobody_is_accused),
        cmocka_unit_test(leaving_tells_everybody_and_stays_left),
        cmocka_unit_test(a_rumour_is_told_often_enough_and_then_no_more),
        cmocka_unit_test(an_idle_mesh_sends_two_pings_per_second_and_no_rumours),
        cmocka_unit_test(malformed_messages_change_nothing),
        cmocka_unit_test(what_we_believe_of_the_absent_is_told_for_ever),
        cmocka_unit_test(any_message_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

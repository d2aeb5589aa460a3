/* Who is pinged when, and what follows from the answers (gossip/swim_probe.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "tests/unit/swim_fixture.h"

static void unknown_members_are_pinged_at_once_and_again_for_ever(void **state)
{
    (void)state;
    struct fixture *f = start(3);
    swim_tick(&f->swim, f->now_ms, &f->out);
    for (unsigned i = 1; i <= 3; i++) {
        assert_non_null(sent(f, i, SWIM_PING));
    }
    unsigned pings[4] = {0};
    while (f->now_ms < START_MS + 60000) {
        tick_next(f);
        for (unsigned i = 1; i <= 3; i++) {
            pings[i] += sent(f, i, SWIM_PING) != NULL ? 1 : 0;
        }
    }
    for (unsigned i = 1; i <= 3; i++) {
        assert_in_range(pings[i], 15, 25); /* one per second among three */
        assert_int_equal(view(f, i), SWIM_UNKNOWN);
    }
    finish(f);
}

static void every_period_one_member_is_probed_and_each_has_its_turn(void **state)
{
    (void)state;
    struct fixture *f = start_alive(10);
    run(f, 10, 0, START_MS + 2000);
    unsigned probes[11] = {0};
    uint64_t from_ms = f->now_ms;
    while (swim_next_ms(&f->swim) <= from_ms + 50000) {
        tick_next(f);
        for (unsigned i = 1; i <= 10; i++) {
            const struct swim_effect *effect = sent(f, i, SWIM_PING);
            probes[i] += effect != NULL && effect->message.sequence != 0 ? 1 : 0;
        }
        answer_pings(f, 10, 0, 1);
    }
    for (unsigned i = 1; i <= 10; i++) {
        assert_in_range(probes[i], 9, 11); /* 100 probes in ten rounds */
        assert_int_equal(view(f, i), SWIM_ALIVE);
    }
    finish(f);
}

static void an_unanswered_probe_goes_to_helpers_then_makes_a_suspect(void **state)
{
    (void)state;
    struct fixture *f = start_alive(6);
    run(f, 6, 0, START_MS + 3000);
    uint32_t sequence = 0;
    unsigned target = next_probe(f, 6, &sequence);
    uint64_t start_ms = f->now_ms;
    do {
        tick_next(f);
    } while (f->now_ms < start_ms + 200);
    assert_int_equal(f->now_ms, start_ms + 200);
    unsigned asked = 0;
    for (unsigned n = 1; n <= 6; n++) {
        const struct swim_effect *effect = sent(f, n, SWIM_PING_REQ);
        if (effect != NULL) {
            asked++;
            assert_int_not_equal(n, target);
            assert_int_equal(effect->message.sequence, sequence);
            assert_true(node_id_equal(effect->message.target, id(target)));
        }
    }
    assert_int_equal(asked, SWIM_HELPERS_MAX);
    assert_int_equal(view(f, target), SWIM_ALIVE);
    do {
        tick_next(f);
    } while (f->now_ms < start_ms + 500);
    assert_int_equal(f->now_ms, start_ms + 500);
    assert_int_equal(view(f, target), SWIM_SUSPECT);
    assert_int_equal(f->out.items[0].kind, SWIM_CHANGED);
    assert_int_equal(f->out.items[0].old_state, SWIM_ALIVE);
    assert_int_equal(f->out.items[0].new_state, SWIM_SUSPECT);
    assert_int_equal(swim_state_count(&f->swim, SWIM_SUSPECT), 1);
    finish(f);
}

static void only_the_right_answer_ends_a_probe(void **state)
{
    (void)state;
    enum { DIRECT, BY_HELPER, WRONG_SEQUENCE, OTHER_SENDER, CASES };
    for (int which = 0; which < CASES; which++) {
        struct fixture *f = start_alive(4);
        run(f, 4, 0, START_MS + 3000);
        uint32_t sequence = 0;
        unsigned target = next_probe(f, 4, &sequence);
        uint64_t start_ms = f->now_ms;
        unsigned other = target % 4 + 1;
        struct swim_message ack = {.kind = SWIM_ACK, .sequence = sequence, .incarnation = 1};
        unsigned from = target;
        if (which == BY_HELPER) {
            from = other;
            ack.target = id(target);
        } else if (which == WRONG_SEQUENCE) {
            ack.sequence = sequence + 1;
        } else if (which == OTHER_SENDER) {
            from = other;
        }
        assert_int_equal(receive(f, from, &ack), 0);
        while (f->now_ms < start_ms + 500) {
            tick_next(f);
        }
        assert_int_equal(view(f, target), which == DIRECT || which == BY_HELPER ? SWIM_ALIVE : SWIM_SUSPECT);
        finish(f);
    }
}

static void a_helper_relays_the_answer_or_says_that_there_is_none(void **state)
{
    (void)state;
    for (int answers = 0; answers < 2; answers++) {
        struct fixture *f = start_alive(3);
        swim_tick(&f->swim, f->now_ms, &f->out);
        struct swim_message request = {.kind = SWIM_PING_REQ, .target = id(2), .sequence = 4711, .incarnation = 1};
        assert_int_equal(receive(f, 1, &request), 0);
        const struct swim_effect *ping = sent(f, 2, SWIM_PING);
        assert_non_null(ping);
        uint64_t asked_ms = f->now_ms;
        if (answers == 1) {
            struct swim_message ack = {.kind = SWIM_ACK, .sequence = ping->message.sequence, .incarnation = 1};
            assert_int_equal(receive(f, 2, &ack), 0);
            const struct swim_effect *passed = sent(f, 1, SWIM_ACK);
            assert_non_null(passed);
            assert_int_equal(passed->message.sequence, 4711);
            assert_true(node_id_equal(passed->message.target, id(2)));
            assert_int_equal(receive(f, 2, &ack), 0); /* doubled: passed on once */
            assert_null(sent(f, 1, SWIM_ACK));
        }
        bool nacked = false;
        while (swim_next_ms(&f->swim) <= asked_ms + 400) {
            tick_next(f);
            const struct swim_effect *nack = sent(f, 1, SWIM_NACK);
            if (nack != NULL) {
                nacked = true;
                assert_int_equal(nack->message.sequence, 4711);
                assert_int_equal(f->now_ms, asked_ms + 200);
            }
        }
        assert_int_equal(nacked, answers == 0);
        finish(f);
    }
}

static void relays_are_bounded(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    for (uint32_t i = 1; i <= SWIM_RELAYS_MAX + 5; i++) {
        struct swim_message request = {.kind = SWIM_PING_REQ, .target = id(2), .sequence = i, .incarnation = 1};
        assert_int_equal(receive(f, 1, &request), 0);
        assert_int_equal(sent(f, 2, SWIM_PING) != NULL, i <= SWIM_RELAYS_MAX);
    }
    finish(f);
}

static void the_dead_have_their_turn_whoever_else_comes_and_goes(void **state)
{
    (void)state;
    struct fixture *f = start_alive(4);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, 1), 0);
    struct random random;
    random_init(&random, 5);
    uint64_t visited_ms = f->now_ms, longest_ms = 0;
    for (uint64_t round = 2; round < 1000; round++) {
        for (unsigned n = 3; n <= 4; n++) {
            enum swim_state told = random_below(&random, 2) == 0 ? SWIM_ALIVE : SWIM_DEAD;
            assert_int_equal(rumour(f, 1, n, told, round), 0);
        }
        uint64_t round_ms = f->now_ms;
        while (f->now_ms < round_ms + 1000) { /* two periods: one visit */
            tick_next(f);
            if (sent(f, 2, SWIM_PING) != NULL) {
                uint64_t waited_ms = f->now_ms - visited_ms;
                longest_ms = waited_ms > longest_ms ? waited_ms : longest_ms;
                visited_ms = f->now_ms;
            }
            answer_pings(f, 1, 0, 1);
        }
    }
    assert_int_equal(view(f, 2), SWIM_DEAD);
    assert_in_range(longest_ms, 1000, 3500); /* three that may be absent */
    finish(f);
}

/* A node that starts anew hears no news of a member which lives on quietly, beyond a link that does not work. */
static void an_unknown_member_that_does_not_answer_is_asked_for_through_another(void **state)
{
    (void)state;
    struct fixture *f = start(2);
    assert_int_equal(hear(f, 1, NULL), 0);
    const struct swim_effect *asked = NULL;
    uint64_t end_ms = f->now_ms + 5000;
    while (asked == NULL && swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        asked = sent(f, 1, SWIM_PING_REQ);
        if (asked == NULL) {
            answer_pings(f, 1, 0, 1);
        }
    }
    assert_non_null(asked);
    assert_true(node_id_equal(asked->message.target, id(2)));
    struct swim_message answer = {.kind = SWIM_ACK, .target = id(2), .sequence = asked->message.sequence, .incarnation = 1, .rumour_count = 1};
    answer.rumours[0] = (struct swim_rumour){.node = id(2), .incarnation = 7, .state = SWIM_ALIVE}; /* as every relayed answer has it */
    assert_int_equal(receive(f, 1, &answer), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

static void who_left_is_visited_less_often_than_the_dead(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    assert_int_equal(rumour(f, 2, 2, SWIM_LEFT, 1), 0);
    assert_int_equal(rumour(f, 1, 3, SWIM_DEAD, 1), 0);
    unsigned visits[4] = {0};
    uint64_t end_ms = f->now_ms + 80000;
    while (swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        for (unsigned n = 2; n <= 3; n++) {
            visits[n] += sent(f, n, SWIM_PING) != NULL ? 1 : 0;
        }
        answer_pings(f, 1, 0, 1);
    }
    assert_in_range(visits[2], 9, 11);
    assert_in_range(visits[3], 68, 72);
    finish(f);
}

static void other_traffic_of_the_absent_gets_them_pinged_but_not_alive(void **state)
{
    (void)state;
    const enum swim_state states[] = {SWIM_UNKNOWN, SWIM_DEAD};
    for (int i = 0; i < 2; i++) {
        struct fixture *f = start(3);
        if (states[i] == SWIM_DEAD) {
            assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, 1), 0);
        }
        run(f, 3, 2, f->now_ms + 10000);
        swim_heard(&f->swim, f->now_ms, id(2));
        swim_heard(&f->swim, f->now_ms, id(77)); /* no member */
        assert_int_equal(swim_heard_ms(&f->swim, id(2)), f->now_ms);
        assert_true(swim_next_ms(&f->swim) <= f->now_ms + 1);
        uint64_t heard_ms = f->now_ms;
        bool pinged = false;
        while (swim_next_ms(&f->swim) <= heard_ms + 1) {
            tick_next(f);
            pinged = pinged || sent(f, 2, SWIM_PING) != NULL;
        }
        assert_true(pinged);
        assert_int_equal(view(f, 2), states[i]);
        finish(f);
    }
}

static void a_removal_in_the_middle_of_a_round_costs_nobody_its_turn(void **state)
{
    (void)state;
    for (unsigned removal = 1; removal < 20; removal++) {
        struct fixture *f = start_alive(20);
        run(f, 20, 0, START_MS + 3000);
        while (f->swim.probe_cursor != 20) { /* the end of a round */
            tick_next(f);
            answer_pings(f, 20, 0, 1);
        }
        bool had_turn[21] = {false};
        unsigned first = 0;
        for (unsigned turns = 0; turns < 20;) {
            tick_next(f);
            unsigned target = probed(f, 20);
            answer_pings(f, 20, 0, 1);
            if (target == 0) {
                continue;
            }
            turns++;
            first = turns == 1 ? target : first;
            assert_false(had_turn[target]);
            had_turn[target] = true;
            if (turns == removal) {
                assert_int_equal(swim_member_remove(&f->swim, id(first)), 0);
            }
        }
        finish(f);
    }
}

static void silent_helpers_make_us_patient_and_answers_make_us_quick_again(void **state)
{
    (void)state;
    for (int nacks = 0; nacks < 2; nacks++) {
        struct fixture *f = start_alive(4);
        run(f, 4, 0, START_MS + 3000);
        uint32_t sequence = 0;
        next_probe(f, 4, &sequence);
        uint64_t start_ms = f->now_ms;
        while (f->now_ms < start_ms + 500) {
            tick_next(f);
            for (unsigned n = 1; n <= 4 && nacks == 1; n++) {
                const struct swim_effect *request = sent(f, n, SWIM_PING_REQ);
                if (request != NULL) {
                    struct swim_message nack = {
                        .kind = SWIM_NACK, .sequence = sequence, .target = request->message.target, .incarnation = 1};
                    assert_int_equal(receive(f, n, &nack), 0);
                    break;
                }
            }
        }
        /* The next probe has started in the same tick; it waits longer for its answer unless a helper spoke. */
        assert_int_equal(f->now_ms, start_ms + 500);
        start_ms = f->now_ms;
        uint64_t asked_ms = 0;
        while (f->now_ms < start_ms + 450 && asked_ms == 0) {
            tick_next(f);
            for (unsigned n = 1; n <= 4; n++) {
                asked_ms = sent(f, n, SWIM_PING_REQ) != NULL ? f->now_ms - start_ms : asked_ms;
            }
        }
        assert_int_equal(asked_ms, nacks == 1 ? 200 : 400);
        run(f, 4, 0, f->now_ms + 6000);
        assert_int_equal(f->swim.health, 0);
        finish(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_members_are_pinged_at_once_and_again_for_ever),
        cmocka_unit_test(every_period_one_member_is_probed_and_each_has_its_turn),
        cmocka_unit_test(an_unanswered_probe_goes_to_helpers_then_makes_a_suspect),
        cmocka_unit_test(only_the_right_answer_ends_a_probe),
        cmocka_unit_test(a_helper_relays_the_answer_or_says_that_there_is_none),
        cmocka_unit_test(relays_are_bounded),
        cmocka_unit_test(the_dead_have_their_turn_whoever_else_comes_and_goes),
        cmocka_unit_test(an_unknown_member_that_does_not_answer_is_asked_for_through_another),
        cmocka_unit_test(who_left_is_visited_less_often_than_the_dead),
        cmocka_unit_test(other_traffic_of_the_absent_gets_them_pinged_but_not_alive),
        cmocka_unit_test(a_removal_in_the_middle_of_a_round_costs_nobody_its_turn),
        cmocka_unit_test(silent_helpers_make_us_patient_and_answers_make_us_quick_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

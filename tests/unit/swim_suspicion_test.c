/* What is believed of a member (gossip/swim_suspicion.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/swim_fixture.h"

static void run_until_state(struct fixture *f, unsigned count, unsigned silent, enum swim_state state)
{
    for (int i = 0; i < 10000 && view(f, silent) != state; i++) {
        tick_next(f);
        answer_pings(f, count, silent, 1);
    }
    assert_int_equal(view(f, silent), state);
}

static void the_higher_incarnation_wins_then_the_worse_state(void **state)
{
    (void)state;
    const enum swim_state states[] = {SWIM_ALIVE, SWIM_SUSPECT, SWIM_DEAD, SWIM_LEFT};
    for (int old = 0; old < 4; old++) {
        for (int new = 0; new < 4; new ++) {
            for (uint64_t incarnation = 9; incarnation <= 11; incarnation++) {
                struct fixture *f = start_alive(4);
                assert_int_equal(rumour(f, 1, 3, states[old], 10), 0);
                assert_int_equal(view(f, 3), states[old]);
                assert_int_equal(rumour(f, 2, 3, states[new], incarnation), 0);
                bool wins = incarnation > 10 || (incarnation == 10 && new > old);
                assert_int_equal(view(f, 3), wins ? states[new] : states[old]);
                assert_int_equal(swim_incarnation_of(&f->swim, id(3)), wins ? incarnation : 10);
                finish(f);
            }
        }
    }
}

static void an_older_rumour_is_answered_with_the_newer(void **state)
{
    (void)state;
    struct fixture *f = start_alive(4);
    assert_int_equal(rumour(f, 1, 3, SWIM_ALIVE, 10), 0);
    run(f, 4, 0, f->now_ms + 20000); /* all has been told */
    struct swim_message ping = {.kind = SWIM_PING, .sequence = 8, .incarnation = 1, .rumour_count = 1};
    ping.rumours[0] = (struct swim_rumour){.node = id(3), .incarnation = 9, .state = SWIM_DEAD};
    assert_int_equal(receive(f, 2, &ping), 0);
    const struct swim_effect *ack = sent(f, 2, SWIM_ACK);
    assert_non_null(ack);
    assert_non_null(about(&ack->message, 3));
    assert_int_equal(about(&ack->message, 3)->incarnation, 10);
    assert_int_equal(about(&ack->message, 3)->state, SWIM_ALIVE);
    finish(f);
}

static void an_accusation_of_ourselves_is_refuted(void **state)
{
    (void)state;
    const enum swim_state states[] = {SWIM_SUSPECT, SWIM_DEAD, SWIM_LEFT};
    for (int i = 0; i < 3; i++) {
        struct fixture *f = start_alive(6);
        run(f, 6, 0, f->now_ms + 20000);
        assert_int_equal(rumour(f, 1, 0, states[i], 99), 0); /* old news */
        assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 100);
        struct swim_message ping = {.kind = SWIM_PING, .sequence = 8, .incarnation = 1, .rumour_count = 1};
        ping.rumours[0] = (struct swim_rumour){.node = id(0), .incarnation = 100, .state = states[i], .from = id(2)};
        assert_int_equal(receive(f, 1, &ping), 0);
        assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 101);
        assert_int_equal(sent(f, 1, SWIM_ACK)->message.incarnation, 101);
        assert_int_equal(receive(f, 1, &ping), 0); /* said again: refuted already */
        assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 101);
        /* At once three others hear it, and the accuser. */
        tick_next(f);
        assert_in_range(f->out.count, SWIM_BURST_MAX, SWIM_BURST_MAX + 2);
        assert_non_null(sent(f, 2, SWIM_PING));
        for (size_t j = 0; j < f->out.count; j++) {
            assert_int_equal(f->out.items[j].message.incarnation, 101);
        }
        finish(f);
    }
}

static void a_rumour_of_an_earlier_life_is_outdone(void **state)
{
    (void)state;
    struct fixture *f = start_alive(2);
    assert_int_equal(rumour(f, 1, 0, SWIM_ALIVE, 500), 0);
    assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 501);
    assert_int_equal(rumour(f, 1, 0, SWIM_DEAD, SWIM_INCARNATION_MAX - 1), 0); /* nothing is higher */
    assert_int_equal(swim_incarnation_of(&f->swim, id(0)), 501);
    finish(f);
}

static void a_suspect_is_told_so_by_every_ping(void **state)
{
    (void)state;
    struct fixture *f = start_alive(5);
    run_until_state(f, 5, 4, SWIM_SUSPECT);
    uint64_t suspected_ms = f->now_ms;
    unsigned pings = 0;
    while (view(f, 4) == SWIM_SUSPECT) {
        const struct swim_effect *ping = sent(f, 4, SWIM_PING);
        if (ping != NULL) {
            pings++;
            const struct swim_rumour *told = about(&ping->message, 4);
            assert_non_null(told);
            assert_int_equal(told->state, SWIM_SUSPECT);
        }
        tick_next(f);
        answer_pings(f, 5, 4, 1);
    }
    assert_int_equal(view(f, 4), SWIM_DEAD);
    assert_in_range(f->now_ms - suspected_ms, 2000, 3200);
    assert_true(pings >= 10);
    finish(f);
}

static void the_answer_of_a_suspect_clears_it_only_with_a_higher_incarnation(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    run_until_state(f, 3, 2, SWIM_SUSPECT);
    assert_int_equal(hear(f, 2, NULL), 0);
    assert_int_equal(view(f, 2), SWIM_SUSPECT);
    struct swim_message message = {.kind = SWIM_PING, .incarnation = 2};
    assert_int_equal(receive(f, 2, &message), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

/* How long a suspicion of node 9 lasts when `confirmations` others accuse it too. Nobody answers us or itself. */
static uint64_t suspicion_ms(unsigned confirmations)
{
    struct fixture *f = start_alive(9);
    run_until_state(f, 9, 9, SWIM_SUSPECT);
    uint64_t suspected_ms = f->now_ms;
    for (unsigned i = 1; i <= confirmations; i++) {
        assert_int_equal(rumour(f, i, 9, SWIM_SUSPECT, 1), 0);
        assert_int_equal(rumour(f, i, 9, SWIM_SUSPECT, 1), 0); /* the same one again counts once */
    }
    run_until_state(f, 9, 9, SWIM_DEAD);
    uint64_t lasted_ms = f->now_ms - suspected_ms;
    finish(f);
    return lasted_ms;
}

static void confirmations_shorten_a_suspicion(void **state)
{
    (void)state;
    assert_int_equal(suspicion_ms(0), 3200);
    assert_int_equal(suspicion_ms(1), 2600);
    assert_in_range(suspicion_ms(2), 2240, 2260);
    assert_int_equal(suspicion_ms(3), 2000);
    assert_int_equal(suspicion_ms(6), 2000);
}

static void the_dead_are_told_and_come_back(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, 1), 0);
    run(f, 3, 2, f->now_ms + 10000);
    struct swim_message ping = {.kind = SWIM_PING, .sequence = 3, .incarnation = 1};
    assert_int_equal(receive(f, 2, &ping), 0);
    assert_int_equal(view(f, 2), SWIM_DEAD);
    const struct swim_effect *ack = sent(f, 2, SWIM_ACK);
    assert_non_null(ack);
    assert_non_null(about(&ack->message, 2));
    assert_int_equal(about(&ack->message, 2)->state, SWIM_DEAD);
    ping.incarnation = 2;
    assert_int_equal(receive(f, 2, &ping), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

static void one_that_left_comes_back_with_a_higher_incarnation_only(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    assert_int_equal(rumour(f, 2, 2, SWIM_LEFT, 1), 0);
    assert_int_equal(view(f, 2), SWIM_LEFT);
    assert_int_equal(hear(f, 2, NULL), 0);
    assert_int_equal(rumour(f, 1, 2, SWIM_SUSPECT, 1), 0);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, 1), 0);
    assert_int_equal(view(f, 2), SWIM_LEFT);
    assert_int_equal(rumour(f, 1, 2, SWIM_ALIVE, 2), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

static void rumours_of_strangers_and_absurd_jumps_are_skipped(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    assert_int_equal(rumour(f, 1, 99, SWIM_DEAD, 1), 0);
    assert_false(swim_is_member(&f->swim, id(99)));
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, (uint64_t)1 << 60), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

static void a_thousand_members_may_die_together(void **state)
{
    (void)state;
    struct fixture *f = start_alive(1000);
    size_t most = 0;
    /* Accused by all the messages that it takes, then silent. */
    for (unsigned i = 2; i + 5 <= 1000; i += 5) {
        struct swim_message message = {.kind = SWIM_PING, .incarnation = 1, .rumour_count = 5};
        for (unsigned j = 0; j < 5; j++) {
            message.rumours[j] =
                (struct swim_rumour){.node = id(i + j), .incarnation = 1, .state = SWIM_SUSPECT, .from = id(1)};
        }
        assert_int_equal(receive(f, 1, &message), 0);
    }
    assert_true(swim_state_count(&f->swim, SWIM_SUSPECT) > 990);
    uint64_t end_ms = f->now_ms + 20000;
    while (swim_next_ms(&f->swim) <= end_ms) {
        tick_next(f);
        most = f->out.count > most ? f->out.count : most;
    }
    assert_true(swim_state_count(&f->swim, SWIM_DEAD) > 990);
    assert_true(most > SWIM_EXPIRE_MAX && most <= SWIM_EFFECTS_MAX);
    finish(f);
}

/* A tick that is late by less than a period, with all at once that one tick can have to do. */
static void the_fullest_tick_has_room(void **state)
{
    (void)state;
    const unsigned count = 400, first_left = 330, first_young = 20;
    struct fixture *f = start_alive(count);
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(count + 1)), 0); /* it never says a word: a helper is asked, too */
    for (unsigned i = first_left; i <= count; i++) {
        assert_int_equal(rumour(f, i, i, SWIM_LEFT, 1), 0); /* so many that one is visited in each tick */
    }
    for (unsigned ms = 0; ms < 11500; ms += 500) {
        f->now_ms += 500;
        swim_tick(&f->swim, f->now_ms, &f->out);
        answer_pings(f, count, 0, 1);
        for (unsigned i = 1; ms == 6000 && i <= SWIM_EXPIRE_MAX; i++) {
            assert_int_equal(rumour(f, 300, i, SWIM_SUSPECT, 1), 0);
        }
        for (unsigned i = 0; ms == 9000 && i < SWIM_VERIFY_MAX; i++) {
            unsigned young = first_young + i;
            uint16_t index = 0;
            while (!node_id_equal(f->swim.members[index].id, id(young))) {
                index++;
            }
            for (uint64_t incarnation = 1; !f->swim.members[index].verifying; incarnation++) { /* some of those who hear it do */
                assert_int_equal(rumour(f, 300, young, SWIM_SUSPECT, incarnation), 0);
            }
        }
    }
    uint32_t sequence;
    f->now_ms += 1;
    do { /* the member whose probe goes on is alive, and says nothing */
        f->now_ms += 500;
        swim_tick(&f->swim, f->now_ms, &f->out);
        sequence = f->swim.probe_sequence;
        if (f->swim.members[f->swim.probe_target].state != SWIM_ALIVE) {
            answer_pings(f, count, 0, 1);
        }
    } while (f->swim.members[f->swim.probe_target].state != SWIM_ALIVE);
    for (unsigned i = 0; i < SWIM_RELAYS_MAX; i++) {
        struct swim_message help = {.kind = SWIM_PING_REQ, .sequence = 1, .incarnation = 1, .target = id(200 + i)};
        assert_int_equal(receive(f, 100 + i, &help), 0);
    }
    for (unsigned i = 0; i <= count; i++) { /* it is its turn to be visited, before those that die in this tick */
        bool is_unknown = f->swim.members[i].state == SWIM_UNKNOWN;
        f->swim.members[i].visited_ms = is_unknown ? 1 : f->now_ms;
    }
    f->swim.visits = 0;
    f->now_ms += 500;
    swim_tick(&f->swim, f->now_ms, &f->out);
    assert_true(sequence != f->swim.probe_sequence);
    assert_int_equal(f->out.count, SWIM_EFFECTS_MAX);
    finish(f);
}

/* Whatever is said to a living member of itself: it is not driven to where it could refute nothing any more. */
static void nobody_is_talked_up_to_the_highest_incarnation(void **state)
{
    (void)state;
    struct fixture *f = start_alive(2);
    assert_int_equal(rumour(f, 1, 0, SWIM_ALIVE, SWIM_INCARNATION_MAX - 2), 0);
    uint64_t own = swim_incarnation_of(&f->swim, id(0));
    assert_int_equal(rumour(f, 1, 0, SWIM_DEAD, own), 0);
    assert_int_equal(swim_incarnation_of(&f->swim, id(0)), own + 1);
    finish(f);
}

/* However often it is said to others, too: whoever is alive and answers what is said of it is believed in the end. */
static void no_rumours_kill_a_living_member_for_good(void **state)
{
    (void)state;
    struct fixture *f = start_alive(2), *victim = start_alive(2);
    for (uint64_t step = (uint64_t)1 << 24; step <= (uint64_t)1 << 48; step <<= 12) {
        for (unsigned i = 0; i < 20000; i++) {
            uint64_t most = SWIM_INCARNATION_MAX - 1, next = swim_incarnation_of(&f->swim, id(2)) + step;
            assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, next < most ? next : most), 0);
        }
    }
    for (unsigned i = 0; i < 4; i++) { /* it speaks, is told what is believed of it, and speaks again */
        struct swim_message ping = {.kind = SWIM_PING, .sequence = 1, .incarnation = swim_incarnation_of(&victim->swim, id(0))};
        assert_int_equal(receive(f, 2, &ping), 0);
        const struct swim_rumour *told = about(&sent(f, 2, SWIM_ACK)->message, 2);
        if (told != NULL) {
            assert_int_equal(rumour(victim, 1, 0, told->state, told->incarnation), 0);
        }
    }
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(victim);
    finish(f);
}

/* Who had not been heard here when it was lied about, and who had to raise its incarnation far in an earlier life. */
static void who_speaks_far_below_what_is_believed_of_it_is_believed(void **state)
{
    (void)state;
    struct fixture *f = start(2);
    assert_int_equal(hear(f, 1, NULL), 0);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, SWIM_INCARNATION_MAX - 1), 0);
    assert_int_equal(view(f, 2), SWIM_DEAD);
    struct swim_message ping = {.kind = SWIM_PING, .incarnation = (uint64_t)1 << 40};
    assert_int_equal(receive(f, 2, &ping), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, ping.incarnation), 0);
    ping.incarnation = 7;
    assert_int_equal(receive(f, 2, &ping), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    assert_int_equal(swim_incarnation_of(&f->swim, id(2)), 7);
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, (uint64_t)1 << 40), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    finish(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_higher_incarnation_wins_then_the_worse_state),
        cmocka_unit_test(an_older_rumour_is_answered_with_the_newer),
        cmocka_unit_test(an_accusation_of_ourselves_is_refuted),
        cmocka_unit_test(a_rumour_of_an_earlier_life_is_outdone),
        cmocka_unit_test(a_suspect_is_told_so_by_every_ping),
        cmocka_unit_test(the_answer_of_a_suspect_clears_it_only_with_a_higher_incarnation),
        cmocka_unit_test(confirmations_shorten_a_suspicion),
        cmocka_unit_test(the_dead_are_told_and_come_back),
        cmocka_unit_test(one_that_left_comes_back_with_a_higher_incarnation_only),
        cmocka_unit_test(rumours_of_strangers_and_absurd_jumps_are_skipped),
        cmocka_unit_test(a_thousand_members_may_die_together),
        cmocka_unit_test(the_fullest_tick_has_room),
        cmocka_unit_test(nobody_is_talked_up_to_the_highest_incarnation),
        cmocka_unit_test(no_rumours_kill_a_living_member_for_good),
        cmocka_unit_test(who_speaks_far_below_what_is_believed_of_it_is_believed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

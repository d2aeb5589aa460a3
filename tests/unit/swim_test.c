/* Each rule of gossip/swim by itself, with the messages of the others made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "gossip/swim.h"

#define START_MS 10000u
#define ARENA_BYTES (1u << 20)

struct fixture {
    struct swim swim;
    struct arena arena;
    struct swim_effects out;
    uint64_t now_ms;
    void *memory;
};

static node_id id(unsigned number)
{
    node_id node = {{0}};
    node.bytes[0] = 1;
    node.bytes[14] = (uint8_t)(number >> 8);
    node.bytes[15] = (uint8_t)number;
    return node;
}

/* We are node 0 with incarnation 100; the members are 1 ... count, not heard of yet. */
static struct fixture *start(unsigned count)
{
    struct fixture *f = calloc(1, sizeof *f);
    f->memory = aligned_alloc(16, ARENA_BYTES);
    arena_init(&f->arena, f->memory, ARENA_BYTES);
    f->now_ms = START_MS;
    struct swim_options options = {.self = id(0), .seed = 7, .now_ms = START_MS, .incarnation = 100};
    assert_int_equal(swim_init(&f->swim, &options, &f->arena), 0);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(i)), 0);
    }
    return f;
}

static void end(struct fixture *f)
{
    free(f->memory);
    free(f);
}

static int receive(struct fixture *f, unsigned from, const struct swim_message *message)
{
    return swim_receive(&f->swim, f->now_ms, id(from), message, &f->out);
}

/* A ping without sequence, with the sender's incarnation 1 and at most one rumour. */
static int hear(struct fixture *f, unsigned from, const struct swim_rumour *rumour)
{
    struct swim_message message = {.kind = SWIM_PING, .incarnation = 1};
    if (rumour != NULL) {
        message.rumours[message.rumour_count++] = *rumour;
    }
    return receive(f, from, &message);
}

static int rumour(struct fixture *f, unsigned by, unsigned about, enum swim_state state, uint64_t incarnation)
{
    struct swim_rumour said = {.node = id(about), .incarnation = incarnation, .state = state};
    if (state == SWIM_SUSPECT) {
        said.from = id(by);
    }
    return hear(f, by, &said);
}

static struct fixture *start_alive(unsigned count)
{
    struct fixture *f = start(count);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(hear(f, i, NULL), 0);
    }
    return f;
}

static enum swim_state view(const struct fixture *f, unsigned node)
{
    return swim_state_of(&f->swim, id(node));
}

static const struct swim_effect *sent(const struct fixture *f, unsigned to, enum swim_kind kind)
{
    for (size_t i = 0; i < f->out.count; i++) {
        const struct swim_effect *effect = &f->out.items[i];
        if (effect->kind == SWIM_SEND && node_id_equal(effect->node, id(to)) && effect->message.kind == kind) {
            return effect;
        }
    }
    return NULL;
}

static const struct swim_rumour *about(const struct swim_message *message, unsigned node)
{
    for (size_t i = 0; i < message->rumour_count; i++) {
        if (node_id_equal(message->rumours[i].node, id(node))) {
            return &message->rumours[i];
        }
    }
    return NULL;
}

static void tick_next(struct fixture *f)
{
    uint64_t next_ms = swim_next_ms(&f->swim);
    if (next_ms > f->now_ms) {
        f->now_ms = next_ms;
    }
    swim_tick(&f->swim, f->now_ms, &f->out);
    assert_true(swim_next_ms(&f->swim) > f->now_ms);
}

/* A member answers each ping that wants an answer, but `silent`, which answers none. */
static void answer_pings(struct fixture *f, unsigned count, unsigned silent, uint64_t incarnation)
{
    static struct swim_effects effects;
    effects = f->out;
    for (size_t i = 0; i < effects.count; i++) {
        const struct swim_effect *effect = &effects.items[i];
        for (unsigned n = 1; n <= count; n++) {
            if (n != silent && effect->kind == SWIM_SEND && effect->message.kind == SWIM_PING &&
                effect->message.sequence != 0 && node_id_equal(effect->node, id(n))) {
                struct swim_message ack = {
                    .kind = SWIM_ACK, .sequence = effect->message.sequence, .incarnation = incarnation};
                assert_int_equal(receive(f, n, &ack), 0);
            }
        }
    }
}

/* Time passes with everybody but `silent` (0: nobody) answering. */
static void run(struct fixture *f, unsigned count, unsigned silent, uint64_t until_ms)
{
    while (swim_next_ms(&f->swim) <= until_ms) {
        tick_next(f);
        answer_pings(f, count, silent, 1);
    }
}

static void run_until_state(struct fixture *f, unsigned count, unsigned silent, enum swim_state state)
{
    for (int i = 0; i < 10000 && view(f, silent) != state; i++) {
        tick_next(f);
        answer_pings(f, count, silent, 1);
    }
    assert_int_equal(view(f, silent), state);
}

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
    end(f);
}

static void members_are_bounded_and_a_full_arena_changes_nothing(void **state)
{
    (void)state;
    struct fixture *f = start(SWIM_MEMBERS_MAX);
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(SWIM_MEMBERS_MAX + 1)), ERR_FULL);
    assert_int_equal(swim_member_remove(&f->swim, id(5)), 0);
    assert_int_equal(swim_member_add(&f->swim, f->now_ms, id(SWIM_MEMBERS_MAX + 1)), 0);
    end(f);

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
    end(g);
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
    end(f);
}

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
    end(f);
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
    end(f);
}

/* Whom the probe that started in this tick is for; 0 if none did. Urgent pings are over in these tests. */
static unsigned probed(const struct fixture *f, unsigned count)
{
    for (unsigned n = 1; n <= count; n++) {
        const struct swim_effect *effect = sent(f, n, SWIM_PING);
        if (effect != NULL && effect->message.sequence != 0) {
            return n;
        }
    }
    return 0;
}

/* Runs until the next probe's ping to anybody goes out; returns whom it is for. */
static unsigned next_probe(struct fixture *f, unsigned count, uint32_t *sequence)
{
    for (int i = 0; i < 1000; i++) {
        tick_next(f);
        unsigned target = probed(f, count);
        if (target != 0) {
            *sequence = sent(f, target, SWIM_PING)->message.sequence;
            return target;
        }
    }
    fail();
    return 0;
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
    end(f);
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
        end(f);
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
        end(f);
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
    end(f);
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
                end(f);
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
    end(f);
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
        end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
        end(f);
    }
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
        end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
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
    end(f);
}

static void rumours_of_strangers_and_absurd_jumps_are_skipped(void **state)
{
    (void)state;
    struct fixture *f = start_alive(3);
    assert_int_equal(rumour(f, 1, 99, SWIM_DEAD, 1), 0);
    assert_false(swim_is_member(&f->swim, id(99)));
    assert_int_equal(rumour(f, 1, 2, SWIM_DEAD, (uint64_t)1 << 60), 0);
    assert_int_equal(view(f, 2), SWIM_ALIVE);
    end(f);
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
    end(f);
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
        end(f);
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
        end(f);
    }
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
    end(f);
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
    end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_sorted_counted_and_idempotent),
        cmocka_unit_test(members_are_bounded_and_a_full_arena_changes_nothing),
        cmocka_unit_test(removing_a_member_forgets_all_traces_of_it),
        cmocka_unit_test(unknown_members_are_pinged_at_once_and_again_for_ever),
        cmocka_unit_test(every_period_one_member_is_probed_and_each_has_its_turn),
        cmocka_unit_test(an_unanswered_probe_goes_to_helpers_then_makes_a_suspect),
        cmocka_unit_test(only_the_right_answer_ends_a_probe),
        cmocka_unit_test(a_helper_relays_the_answer_or_says_that_there_is_none),
        cmocka_unit_test(relays_are_bounded),
        cmocka_unit_test(the_higher_incarnation_wins_then_the_worse_state),
        cmocka_unit_test(an_older_rumour_is_answered_with_the_newer),
        cmocka_unit_test(an_accusation_of_ourselves_is_refuted),
        cmocka_unit_test(a_rumour_of_an_earlier_life_is_outdone),
        cmocka_unit_test(a_suspect_is_told_so_by_every_ping),
        cmocka_unit_test(the_answer_of_a_suspect_clears_it_only_with_a_higher_incarnation),
        cmocka_unit_test(confirmations_shorten_a_suspicion),
        cmocka_unit_test(the_dead_are_told_and_come_back),
        cmocka_unit_test(the_dead_have_their_turn_whoever_else_comes_and_goes),
        cmocka_unit_test(who_left_is_visited_less_often_than_the_dead),
        cmocka_unit_test(other_traffic_of_the_absent_gets_them_pinged_but_not_alive),
        cmocka_unit_test(after_a_gap_nobody_is_accused),
        cmocka_unit_test(leaving_tells_everybody_and_stays_left),
        cmocka_unit_test(one_that_left_comes_back_with_a_higher_incarnation_only),
        cmocka_unit_test(a_rumour_is_told_often_enough_and_then_no_more),
        cmocka_unit_test(an_idle_mesh_sends_two_pings_per_second_and_no_rumours),
        cmocka_unit_test(malformed_messages_change_nothing),
        cmocka_unit_test(rumours_of_strangers_and_absurd_jumps_are_skipped),
        cmocka_unit_test(a_thousand_members_may_die_together),
        cmocka_unit_test(a_removal_in_the_middle_of_a_round_costs_nobody_its_turn),
        cmocka_unit_test(silent_helpers_make_us_patient_and_answers_make_us_quick_again),
        cmocka_unit_test(what_we_believe_of_the_absent_is_told_for_ever),
        cmocka_unit_test(any_message_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

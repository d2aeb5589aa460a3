#include "tests/unit/swim_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

node_id id(unsigned number)
{
    node_id node = {{0}};
    node.bytes[0] = 1;
    node.bytes[14] = (uint8_t)(number >> 8);
    node.bytes[15] = (uint8_t)number;
    return node;
}

struct fixture *start(unsigned count)
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

void finish(struct fixture *f)
{
    free(f->memory);
    free(f);
}

int receive(struct fixture *f, unsigned from, const struct swim_message *message)
{
    return swim_receive(&f->swim, f->now_ms, id(from), message, &f->out);
}

int hear(struct fixture *f, unsigned from, const struct swim_rumour *rumour)
{
    struct swim_message message = {.kind = SWIM_PING, .incarnation = 1};
    if (rumour != NULL) {
        message.rumours[message.rumour_count++] = *rumour;
    }
    return receive(f, from, &message);
}

int rumour(struct fixture *f, unsigned by, unsigned about, enum swim_state state, uint64_t incarnation)
{
    struct swim_rumour said = {.node = id(about), .incarnation = incarnation, .state = state};
    if (state == SWIM_SUSPECT) {
        said.from = id(by);
    }
    return hear(f, by, &said);
}

struct fixture *start_alive(unsigned count)
{
    struct fixture *f = start(count);
    for (unsigned i = 1; i <= count; i++) {
        assert_int_equal(hear(f, i, NULL), 0);
    }
    return f;
}

enum swim_state view(const struct fixture *f, unsigned node)
{
    return swim_state_of(&f->swim, id(node));
}

const struct swim_effect *sent(const struct fixture *f, unsigned to, enum swim_kind kind)
{
    for (size_t i = 0; i < f->out.count; i++) {
        const struct swim_effect *effect = &f->out.items[i];
        if (effect->kind == SWIM_SEND && node_id_equal(effect->node, id(to)) && effect->message.kind == kind) {
            return effect;
        }
    }
    return NULL;
}

const struct swim_rumour *about(const struct swim_message *message, unsigned node)
{
    for (size_t i = 0; i < message->rumour_count; i++) {
        if (node_id_equal(message->rumours[i].node, id(node))) {
            return &message->rumours[i];
        }
    }
    return NULL;
}

void tick_next(struct fixture *f)
{
    uint64_t next_ms = swim_next_ms(&f->swim);
    if (next_ms > f->now_ms) {
        f->now_ms = next_ms;
    }
    swim_tick(&f->swim, f->now_ms, &f->out);
    assert_true(swim_next_ms(&f->swim) > f->now_ms);
}

void answer_pings(struct fixture *f, unsigned count, unsigned silent, uint64_t incarnation)
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

void run(struct fixture *f, unsigned count, unsigned silent, uint64_t until_ms)
{
    while (swim_next_ms(&f->swim) <= until_ms) {
        tick_next(f);
        answer_pings(f, count, silent, 1);
    }
}

unsigned probed(const struct fixture *f, unsigned count)
{
    for (unsigned n = 1; n <= count; n++) {
        const struct swim_effect *effect = sent(f, n, SWIM_PING);
        if (effect != NULL && effect->message.sequence != 0) {
            return n;
        }
    }
    return 0;
}

unsigned next_probe(struct fixture *f, unsigned count, uint32_t *sequence)
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

/* Connections, of which the shell has few: many members are gone at once and their hosts are to be looked at, or many are
 * out and are to be told so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gossip/control.h"
#include "node/core/members/members.h"
#include "tests/unit/facts_make.h"

#define MEMBERS 150
#define BYTES (16u << 20)

static struct node_effects effects;

static void step(struct node_core *core, struct node_event *event, uint64_t now_ms)
{
    event->now_ms = now_ms;
    effects.count = 0;
    effects.used_bytes = 0;
    node_core_step(core, event, &effects);
}

static void load(struct node_core *core, node_id writer, uint64_t seq, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, writer, 1, seq, kind, key, fact);
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .bytes = made.bytes, .byte_count = made.count};
    step(core, &event, 1000);
}

/* This node's disk knows where the others are. Person 0 has vouched for everybody. */
static struct node_core *load_many(uint32_t members, uint32_t own_number)
{
    struct person self = make_person(own_number), founder = make_person(0);
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1, .now_ms = 1000,
                                   .node = make_node(&self, 1), .memory = aligned_alloc(16, BYTES), .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    struct node_core *core = node_core_init(&options);
    for (uint32_t i = 0; i < members; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct fact_node node = make_node(&person, 1);
        load(core, founder.id, i + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
        load(core, person.id, 1, FACT_NODE, fact_key_empty(), &node);
    }
    return core;
}

/* This node is person 0, and none of the others has been heard in this boot. */
static struct node_core *core_of_many(void)
{
    struct node_core *core = load_many(MEMBERS, 0);
    struct node_event start = {.kind = NODE_EVENT_START};
    step(core, &start, 1000);
    assert_int_equal(core->members->peer_count, MEMBERS - 1);
    return core;
}

static void everybodys_host_is_looked_at_though_the_shell_takes_few(void **state)
{
    (void)state;
    struct node_core *core = core_of_many();
    struct {
        node_id peer;
        uint64_t until_ms;
    } checks[CONTROL_CHECKS_MAX] = {{.until_ms = 0}};
    for (uint64_t now_ms = 1100; now_ms < 21000; now_ms += 100) {
        struct node_event tick = {.kind = NODE_EVENT_TICK};
        step(core, &tick, now_ms);
        for (uint32_t i = 0; i < effects.count; i++) {
            if (effects.items[i].kind != NODE_EFFECT_CHECK_LINK) {
                continue;
            }
            for (uint32_t at = 0; at < CONTROL_CHECKS_MAX; at++) { /* when all are in use it is not looked at */
                if (checks[at].until_ms == 0) {
                    checks[at].peer = effects.items[i].u.peer.node;
                    checks[at].until_ms = now_ms + CONTROL_CHECK_MS;
                    break;
                }
            }
        }
        for (uint32_t at = 0; at < CONTROL_CHECKS_MAX; at++) {
            if (checks[at].until_ms != 0 && now_ms >= checks[at].until_ms) {
                struct node_event link = {.kind = NODE_EVENT_LINK};
                link.u.link.peer = checks[at].peer;
                link.u.link.refused = true;
                checks[at].until_ms = 0;
                step(core, &link, now_ms);
            }
        }
    }
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        assert_true(core_node_lost(core, core->members->peers[i]->id, UINT64_MAX));
    }
    free(core); /* it begins where its memory does */
}

#define OUT 120

static uint32_t number_of(node_id id)
{
    uint32_t number = 0;
    while (!node_id_equal(make_person(number).id, id)) {
        number++;
    }
    return number;
}

static void those_who_are_out_take_few_connections_in_turns(void **state)
{
    (void)state;
    struct node_core *core = core_of_many();
    uint64_t linked_ms[MEMBERS] = {0}; /* 0: no connection */
    bool was_told[MEMBERS] = {false};
    for (uint32_t i = 1; i < MEMBERS; i++) {
        linked_ms[i] = 1000;
    }
    struct person evictor = make_person(MEMBERS - 1);
    for (uint64_t now_ms = 1500; now_ms < 600000; now_ms += 500) {
        struct made made;
        struct message message = {.kind = MESSAGE_RECORDS, .boot = 1};
        struct node_event event = {.kind = NODE_EVENT_TICK};
        uint32_t number = (uint32_t)(now_ms / 500 - 2);
        if (number <= OUT) {
            struct fact_eviction eviction = {0};
            make_record(&made, evictor.id, 1, 1 + number, FACT_EVICTION, fact_key_node_id(make_person(number).id), &eviction);
            message.bytes = made.bytes;
            message.byte_count = made.count;
            event = (struct node_event){.kind = NODE_EVENT_MESSAGE};
            event.u.message.from = evictor.id;
            event.u.message.message = &message;
        }
        step(core, &event, now_ms);
        for (uint32_t i = 0; i < effects.count; i++) {
            const struct node_effect *effect = &effects.items[i];
            if (effect->kind == NODE_EFFECT_PEER) {
                linked_ms[number_of(effect->u.peer.node)] = effect->u.peer.gone ? 0 : now_ms;
            } else if (effect->kind == NODE_EFFECT_SEND && effect->u.send.message.kind == MESSAGE_RECORDS) {
                uint32_t to = number_of(effect->u.send.to);
                was_told[to] |= linked_ms[to] != 0 && now_ms >= linked_ms[to] + 1000; /* a new one takes a moment */
            }
        }
        uint32_t links = 0;
        for (uint32_t i = 1; i <= OUT && i <= number; i++) {
            links += linked_ms[i] != 0;
        }
        assert_in_range(links, 0, CORE_OUTCAST_LINKS_MAX);
    }
    for (uint32_t i = 1; i < MEMBERS; i++) {
        assert_true(i > OUT ? linked_ms[i] != 0 : was_told[i]);
    }
    free(core);
}

/* There is more to connect to, and to end then, than one step has room for. */
static void who_is_out_of_a_large_mesh_keeps_no_connection_to_it(void **state)
{
    (void)state;
    struct node_core *core = load_many(1000, 1);
    struct fact_eviction eviction = {0};
    load(core, make_person(0).id, 2000, FACT_EVICTION, fact_key_node_id(make_person(1).id), &eviction);
    uint32_t links = 0, made = 0;
    for (uint64_t now_ms = 1000; now_ms < 11000; now_ms += 100) {
        struct node_event event = {.kind = now_ms == 1000 ? NODE_EVENT_START : NODE_EVENT_TICK};
        step(core, &event, now_ms);
        for (uint32_t i = 0; i < effects.count; i++) {
            if (effects.items[i].kind == NODE_EFFECT_PEER) {
                bool is_made = !effects.items[i].u.peer.gone;
                made += is_made;
                links = is_made ? links + 1 : links - 1;
            }
        }
    }
    assert_true(core->is_out);
    assert_true(made > 500);
    assert_int_equal(links, 0);
    free(core);
}

int main(void)
{
    effects.items = calloc(NODE_EFFECTS_MAX, sizeof *effects.items);
    effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybodys_host_is_looked_at_though_the_shell_takes_few),
        cmocka_unit_test(those_who_are_out_take_few_connections_in_turns),
        cmocka_unit_test(who_is_out_of_a_large_mesh_keeps_no_connection_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

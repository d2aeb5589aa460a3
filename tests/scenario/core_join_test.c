/* Stories of those who join: invites, and who is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/scenario/core_story.h"

static const uint8_t invite_key[PUBLIC_KEY_BYTES] = {9, 9, 9};

static void invite(struct world *world, uint64_t expires_s)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_INVITE;
    event.u.request.client = 3;
    memcpy(event.u.request.public_key, invite_key, sizeof invite_key);
    event.u.request.expires_s = expires_s;
    world_step(world, 0, &event);
    world_run(world, 1000);
}

static void join(struct world *world, const uint8_t key[PUBLIC_KEY_BYTES], const struct person *person)
{
    struct node_event event = {.kind = NODE_EVENT_JOIN};
    event.u.join.client = 4;
    memcpy(event.u.join.invite_key, key, PUBLIC_KEY_BYTES);
    memcpy(event.u.join.public_key, person->public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(event.u.join.name, sizeof event.u.join.name, person->name);
    world_step(world, 0, &event);
    world_run(world, 1000);
}

static void who_holds_an_invite_is_vouched_for(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct person b = make_person(1);
    world_start_all(world);
    world->disk_ms = 30;
    invite(world, world->nodes[0].core->wall_s + 3600);
    assert_int_equal(world->reply.code, 0);
    size_t before = world->log_bytes;
    join(world, invite_key, &b);
    const char *story[] = {"a> persist member #", "a> admit", "a< persisted", "a> welcome"};
    assert_order(world, story, sizeof story / sizeof story[0]);
    assert_true(world_find(world, before, "a> welcome") > world_find(world, before, "a< persisted"));
    const struct view_member *member = view_find_member(&world->nodes[0].core->view, b.id);
    assert_true(member != NULL && member->admitted);
    assert_non_null(core_find_peer(world->nodes[0].core, b.id));

    join(world, invite_key, &b); /* the answer was lost: the same again, without another record */
    assert_int_equal(world_count(world, "a> welcome"), 2);
    assert_int_equal(world_count(world, "a> persist member"), 1);
    world_free(world);
}

static void others_are_refused(void **state)
{
    (void)state;
    static const uint8_t other_key[PUBLIC_KEY_BYTES] = {8};
    struct world *world = world_new(1, 1);
    struct person b = make_person(1);
    world_start_all(world);
    join(world, invite_key, &b);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    invite(world, world->nodes[0].core->wall_s + 5);
    join(world, other_key, &b);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_run(world, 10000); /* it has expired meanwhile */
    join(world, invite_key, &b);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_int_equal(world_count(world, "a> no welcome"), 3);
    assert_int_equal(world_count(world, "a> persist member"), 0);
    assert_null(core_find_peer(world->nodes[0].core, b.id));
    world_free(world);
}

/* Whoever is not on the roster is not listened to, whatever it says. */
static void strangers_are_counted_and_ignored(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    world_start_all(world);
    struct fact_control fact = {1, true, true};
    struct made made;
    make_record(&made, make_person(1).id, 1, 1, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
    uint32_t records = world->nodes[0].core->records.count;
    for (uint32_t kind = MESSAGE_SWIM; kind < MESSAGE_KINDS; kind++) {
        struct message message = {.kind = (enum message_kind)kind, .bytes = made.bytes, .byte_count = made.count};
        struct node_event event = {.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = make_person(1).id;
        event.u.message.message = &message;
        world_step(world, 0, &event);
    }
    assert_int_equal(world->nodes[0].core->counters.strangers, MESSAGE_KINDS - MESSAGE_SWIM);
    assert_int_equal(world->nodes[0].core->records.count, records);
    assert_int_equal(world_count(world, "a> send"), 0);
    world_free(world);
}

static void load(struct node_core *core, struct node_effects *effects, const struct made *made)
{
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made->bytes, .byte_count = made->count};
    node_core_step(core, &event, effects);
}

/* A thousand members and all slots of this node are more than one step may say. */
static void a_large_roster_is_admitted_in_several_steps(void **state)
{
    (void)state;
    enum { MEMBERS = 1000, BYTES = 64 << 20 };
    struct node_effects effects = {.items = calloc(NODE_EFFECTS_MAX, sizeof *effects.items),
                                   .bytes = malloc(NODE_EFFECT_BYTES_MAX)};
    void *memory = aligned_alloc(16, BYTES);
    struct person self = make_person(0);
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1,
                                   .now_ms = 1000, .node = make_node(&self, FACT_SLOTS_MAX), .memory = memory,
                                   .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    struct node_core *core = node_core_init(&options);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct fact_node node = make_node(&person, 1);
        struct made made;
        make_record(&made, self.id, 1, i + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
        load(core, &effects, &made);
        make_record(&made, person.id, 1, 1, FACT_NODE, fact_key_empty(), &node);
        load(core, &effects, &made);
    }
    uint32_t admitted = 0, connected = 0, steps = 0;
    struct node_event event = {.kind = NODE_EVENT_START, .now_ms = 1000};
    do {
        effects.count = effects.used_bytes = 0;
        node_core_step(core, &event, &effects);
        for (uint32_t i = 0; i < effects.count; i++) {
            admitted += effects.items[i].kind == NODE_EFFECT_ADMIT &&
                        !node_id_equal(effects.items[i].u.peer.node, self.id);
            connected += effects.items[i].kind == NODE_EFFECT_PEER;
        }
        event = (struct node_event){.kind = NODE_EVENT_TICK, .now_ms = node_core_next_ms(core)};
    } while (++steps < 10 && event.now_ms == 1000);
    assert_in_range(steps, 2, 5);
    assert_int_equal(admitted, MEMBERS - 1);
    assert_int_equal(connected, MEMBERS - 1);
    free(memory);
    free(effects.items);
    free(effects.bytes);
}

/* Seed 733108 of plan 4. */
static void who_is_heard_of_first_as_suspect_is_there_since_then(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    node_id gone = world->nodes[2].person.id;
    world_die(world, 2);
    while (core_find_peer(world->nodes[1].core, gone)->state != SWIM_SUSPECT) {
        world_run(world, 10);
    }
    world_crash(world, 0);
    world_restart(world, 0, false);
    const struct core_peer *peer = core_find_peer(world->nodes[0].core, gone);
    uint64_t began_ms = world->now_ms;
    while (peer->state == SWIM_UNKNOWN) {
        world_run(world, 10);
    }
    assert_int_equal(peer->state, SWIM_SUSPECT);
    assert_true(peer->up_since_ms >= began_ms);
    assert_false(peer->synced);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_holds_an_invite_is_vouched_for),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(strangers_are_counted_and_ignored),
        cmocka_unit_test(a_large_roster_is_admitted_in_several_steps),
        cmocka_unit_test(who_is_heard_of_first_as_suspect_is_there_since_then),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

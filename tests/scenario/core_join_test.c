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
#include "node/core/members/clocks.h"
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

static void ask_to_join(struct world *world, const uint8_t key[PUBLIC_KEY_BYTES], const struct person *person)
{
    struct node_event event = {.kind = NODE_EVENT_JOIN};
    event.u.join.client = 4;
    memcpy(event.u.join.invite_key, key, PUBLIC_KEY_BYTES);
    memcpy(event.u.join.public_key, person->public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(event.u.join.name, sizeof event.u.join.name, person->name);
    world_step(world, 0, &event);
}

static void join(struct world *world, const uint8_t key[PUBLIC_KEY_BYTES], const struct person *person)
{
    ask_to_join(world, key, person);
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

/* ---- clocks ---- */

#define YEAR_S (365ull * 86400)

static int64_t ahead_s(const struct world *world, uint32_t of, uint32_t node)
{
    int64_t ahead = INT64_MIN;
    (void)core_clock_ahead_s(world->nodes[of].core, world->nodes[node].person.id, &ahead);
    return ahead;
}

static int64_t mesh_s(const struct world *world, uint32_t node)
{
    return (int64_t)core_mesh_wall_s(world->nodes[node].core);
}

static void members_know_each_others_clocks_and_invites_go_by_most_of_them(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[2].wall_shift_s = YEAR_S;
    world_start_all(world);
    world_run(world, 5000);
    assert_int_equal(ahead_s(world, 0, 0), INT64_MIN); /* a node is no peer of its own */
    assert_in_range(ahead_s(world, 0, 1) + 1, 0, 2);
    assert_in_range(ahead_s(world, 0, 2), YEAR_S - 1, YEAR_S + 1);
    assert_in_range(-ahead_s(world, 2, 1), YEAR_S - 1, YEAR_S + 1);
    int64_t now_s = (int64_t)world->nodes[0].core->wall_s;
    for (uint32_t i = 0; i < 3; i++) {
        assert_in_range(mesh_s(world, i) - now_s + 2, 0, 4);
    }
    assert_int_equal(mesh_s(world, 0), now_s); /* a right clock is not moved by a second */

    world->wall_shift_s = 7200; /* all clocks are set, and told anew */
    world_run(world, 2000);
    assert_int_equal(mesh_s(world, 0), (int64_t)world->nodes[0].core->wall_s);
    assert_in_range(ahead_s(world, 0, 1) + 1, 0, 2);
    world_free(world);
}

static void of_two_clocks_the_earlier_counts_on_both(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->nodes[1].wall_shift_s = YEAR_S;
    world_start_all(world);
    world_run(world, 5000);
    int64_t now_s = (int64_t)world->nodes[0].core->wall_s;
    assert_int_equal(mesh_s(world, 0), now_s);
    assert_in_range(mesh_s(world, 1) - now_s + 2, 0, 4);
    struct message message = {.kind = MESSAGE_STORED, .boot = world->nodes[1].core->options.boot};
    message.u.stored.ident = MESSAGE_CLOCK_IDENT;
    message.u.stored.version.seq = UINT64_MAX; /* nonsense is as if nothing had come */
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[1].person.id;
    event.u.message.message = &message;
    world_step(world, 0, &event);
    assert_in_range(ahead_s(world, 0, 1), YEAR_S - 1, YEAR_S + 1);
    world_free(world);
}

/* Whoever is not on the roster is not listened to, whatever it says. */
static void strangers_are_counted_and_ignored(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    world_start_all(world);
    struct fact_control fact = {1, true, true, false};
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

/* A core without a world around it: of a roster larger than worlds are. */
struct alone {
    struct node_core *core;
    struct node_effects effects;
    struct person self;
    void *memory;
};

static void load(struct alone *alone, node_id writer, uint64_t seq, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, writer, 1, seq, kind, key, fact);
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made.bytes, .byte_count = made.count};
    node_core_step(alone->core, &event, &alone->effects);
}

static void vouch(struct alone *alone, const struct person *writer, uint64_t seq, const struct person *about)
{
    struct fact_member member = make_member(about);
    load(alone, writer->id, seq, FACT_MEMBER, fact_key_node_id(about->id), &member);
}

/* Person 0 is the founder. */
static struct alone alone_new(uint32_t self)
{
    enum { BYTES = 64 << 20 };
    struct alone alone = {.self = make_person(self), .memory = aligned_alloc(16, BYTES)};
    alone.effects.items = calloc(NODE_EFFECTS_MAX, sizeof *alone.effects.items);
    alone.effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    struct node_options options = {.self = alone.self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1,
                                   .now_ms = 1000, .node = make_node(&alone.self, FACT_SLOTS_MAX), .memory = alone.memory,
                                   .memory_bytes = BYTES};
    memcpy(options.public_key, alone.self.public_key, sizeof options.public_key);
    alone.core = node_core_init(&options);
    return alone;
}

static void alone_free(struct alone *alone)
{
    free(alone->memory);
    free(alone->effects.items);
    free(alone->effects.bytes);
}

/* The founder vouches for all of them, and each says where it is. */
static void load_members(struct alone *alone, uint32_t count)
{
    struct person founder = make_person(0);
    for (uint32_t i = 0; i < count; i++) {
        struct person person = make_person(i);
        struct fact_node node = make_node(&person, 1);
        vouch(alone, &founder, i + 1, &person);
        load(alone, person.id, 1, FACT_NODE, fact_key_empty(), &node);
    }
}

static void step(struct alone *alone, const struct node_event *event)
{
    alone->effects.count = alone->effects.used_bytes = 0;
    node_core_step(alone->core, event, &alone->effects);
}

/* Starts it; who is admitted and connected until it has no more to do at once. Returns the number of steps. */
static uint32_t start(struct alone *alone, uint32_t *admitted, uint32_t *connected)
{
    uint32_t steps = 0;
    struct node_event event = {.kind = NODE_EVENT_START, .now_ms = 1000};
    *admitted = *connected = 0;
    do {
        step(alone, &event);
        for (uint32_t i = 0; i < alone->effects.count; i++) {
            const struct node_effect *effect = &alone->effects.items[i];
            *admitted += effect->kind == NODE_EFFECT_ADMIT && !node_id_equal(effect->u.peer.node, alone->self.id);
            *connected += effect->kind == NODE_EFFECT_PEER;
        }
        event = (struct node_event){.kind = NODE_EVENT_TICK, .now_ms = node_core_next_ms(alone->core)};
    } while (++steps < 10 && event.now_ms == 1000);
    return steps;
}

/* A thousand members and all slots of this node are more than one step may say. */
static void a_large_roster_is_admitted_in_several_steps(void **state)
{
    (void)state;
    enum { MEMBERS = 1000 };
    uint32_t admitted, connected;
    struct alone alone = alone_new(0);
    load_members(&alone, MEMBERS);
    assert_in_range(start(&alone, &admitted, &connected), 2, 5);
    assert_int_equal(admitted, MEMBERS - 1);
    assert_int_equal(connected, MEMBERS - 1);
    alone_free(&alone);
}

static void a_roster_beyond_what_a_node_can_hold_is_cut(void **state)
{
    (void)state;
    uint32_t admitted, connected;
    struct alone alone = alone_new(0);
    load_members(&alone, NODE_MEMBERS_MAX + 80);
    (void)start(&alone, &admitted, &connected);
    assert_int_equal(admitted, NODE_MEMBERS_MAX);
    assert_int_equal(alone.core->members->peer_count, NODE_MEMBERS_MAX);
    struct node_event tick = {.kind = NODE_EVENT_TICK};
    for (uint32_t i = 0; i < 100; i++) {
        tick.now_ms = 2000 + 100 * i;
        step(&alone, &tick);
    }
    assert_int_equal(alone.core->members->peer_count, NODE_MEMBERS_MAX);
    for (uint32_t i = 0; i < NODE_MEMBERS_MAX; i++) {
        assert_non_null(view_find_member(&alone.core->view, alone.core->members->peers[i]->id));
    }
    alone_free(&alone);
}

/* Whether the records hold this voucher. */
static bool has_voucher(const struct node_effect *welcome, const struct person *writer, const struct person *about)
{
    struct fact_key key = fact_key_node_id(about->id);
    record_ident wanted = record_ident_of(writer->id, FACT_MEMBER, key.bytes, key.count);
    size_t length;
    for (size_t at = 0; at < welcome->byte_count; at += length) {
        struct record record;
        assert_int_equal(record_length(welcome->bytes + at, welcome->byte_count - at, &length), 0);
        assert_int_equal(record_decode(welcome->bytes + at, length, &record), 0);
        record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
        if (memcmp(&ident, &wanted, sizeof ident) == 0) {
            return true;
        }
    }
    return false;
}

/* Of a thousand members' records one answer holds a third. */
static void who_joins_a_large_mesh_is_sent_what_ties_it_to_the_founder(void **state)
{
    (void)state;
    enum { MEMBERS = 900 };
    uint32_t admitted, connected;
    for (uint32_t try = 0; try < 4; try++) {
        struct person founder = make_person(0), between = make_person(MEMBERS + 1 + try), joiner = make_person(2000 + try);
        struct alone alone = alone_new(1000 + try);
        load_members(&alone, MEMBERS);
        vouch(&alone, &founder, 5000, &between);
        vouch(&alone, &between, 1, &alone.self);
        vouch(&alone, &alone.self, 1, &joiner); /* as if the answer to its first try had been lost */
        struct fact_invite invite = {.expires_s = UINT32_MAX};
        load(&alone, alone.self.id, 2, FACT_INVITE, fact_key_public_key(invite_key), &invite);
        (void)start(&alone, &admitted, &connected);
        struct node_event event = {.kind = NODE_EVENT_JOIN, .now_ms = 1000};
        memcpy(event.u.join.invite_key, invite_key, PUBLIC_KEY_BYTES);
        memcpy(event.u.join.public_key, joiner.public_key, PUBLIC_KEY_BYTES);
        bytes_copy_text(event.u.join.name, sizeof event.u.join.name, joiner.name);
        step(&alone, &event);
        const struct node_effect *welcome = NULL;
        for (uint32_t i = 0; i < alone.effects.count; i++) {
            welcome = alone.effects.items[i].kind == NODE_EFFECT_WELCOME ? &alone.effects.items[i] : welcome;
        }
        assert_non_null(welcome);
        assert_int_equal(welcome->u.reply.code, 0);
        assert_true(has_voucher(welcome, &founder, &founder));
        assert_true(has_voucher(welcome, &founder, &between));
        assert_true(has_voucher(welcome, &between, &alone.self));
        assert_true(has_voucher(welcome, &alone.self, &joiner));
        assert_in_range(welcome->byte_count, 50000, EXCHANGE_MESSAGE_BYTES_MAX);
        alone_free(&alone);
    }
}

/* A message full of records, the first of this number. Returns the next one's. */
static uint32_t send_many(struct alone *alone, node_id from, uint64_t now_ms, uint32_t number)
{
    uint8_t bytes[EXCHANGE_MESSAGE_BYTES_MAX];
    uint32_t used = 0;
    for (struct made made; used < sizeof bytes - sizeof made.bytes; used += made.count) {
        struct fact_control control = {1, true, true, false};
        make_record(&made, from, 1, number, FACT_CONTROL, fact_key_experiment(make_experiment_id(number)), &control);
        memcpy(bytes + used, made.bytes, made.count);
        number++;
    }
    struct message message = {.kind = MESSAGE_RECORDS, .bytes = bytes, .byte_count = used};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE, .now_ms = now_ms};
    event.u.message.from = from;
    event.u.message.message = &message;
    step(alone, &event);
    return number;
}

/* A state of many megabytes takes longer than one gives a peer whose digest never agrees. */
static void who_begins_on_an_empty_disk_grants_nothing_while_records_pour_in(void **state)
{
    (void)state;
    uint32_t admitted, connected;
    struct alone alone = alone_new(1);
    load_members(&alone, 3);
    (void)start(&alone, &admitted, &connected);
    assert_int_equal(alone.core->members->peer_count, 2);
    alone.core->members->peers[0]->state = SWIM_ALIVE;
    node_id from = alone.core->members->peers[0]->id;
    uint64_t now_ms = 1000, last_ms = now_ms + 3 * CORE_SYNC_PATIENCE_MS;
    struct node_event tick = {.kind = NODE_EVENT_TICK};
    uint32_t number = 5000;
    for (; now_ms < last_ms; now_ms += 500) {
        number = send_many(&alone, from, now_ms, number);
        tick.now_ms = now_ms;
        step(&alone, &tick);
        assert_true(alone.core->members->syncing);
    }
    for (; now_ms < last_ms + CORE_SYNC_FILLING_MS + 2000; now_ms += 500) {
        (void)send_many(&alone, from, now_ms, 5000); /* what is known is often said again */
        tick.now_ms = now_ms;
        step(&alone, &tick);
    }
    assert_false(alone.core->members->syncing);
    alone_free(&alone);
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

/* A record of a kind that nobody knows yet; every other one is large, and those between fill what they leave of a message.
 * Returns its ident. */
static record_ident make_unknown(struct made *made, node_id writer, uint32_t number)
{
    uint8_t key[4], body[2048] = {0};
    bytes_put_u32(key, number);
    struct record record = {.kind = 1000, .writer = writer, .version = {1ull << 32, number + 1}, .key = key,
                            .key_bytes = sizeof key, .body = body,
                            .body_bytes = number % 2 == 0 ? sizeof body : 8};
    made->count = (uint32_t)record_encode(&record, made->bytes, sizeof made->bytes);
    return record_ident_of(writer, record.kind, key, sizeof key);
}

static bool has_record(const struct world *world, uint32_t node, record_ident ident)
{
    return records_find(&world->nodes[node].core->records, ident) != NULL;
}

/* It has written more than a message holds, and its voucher sorts behind that. Until the voucher is here nothing of it is
 * taken. */
static void a_newcomers_voucher_comes_though_much_of_its_own_sorts_before(void **state)
{
    (void)state;
    enum { RECORDS = 200 };
    struct world *world = world_new(2, 1);
    world->checks_writers = true;
    node_id founder = world->nodes[0].person.id;
    struct person joiner;
    record_ident voucher = {{0}};
    for (uint32_t number = WORLD_NODES_MAX; voucher.bytes[0] != 0xff; number++) {
        joiner = make_person(number);
        struct fact_key key = fact_key_node_id(joiner.id);
        voucher = record_ident_of(founder, FACT_MEMBER, key.bytes, key.count);
    }
    struct fact_member member = make_member(&joiner);
    struct made made;
    make_record(&made, founder, 1, 1000, FACT_MEMBER, fact_key_node_id(joiner.id), &member);
    world_store(world, 0, &made);
    record_ident last = {{0}};
    for (uint32_t i = 0, count = 0; count < RECORDS; i++) {
        record_ident ident = make_unknown(&made, joiner.id, i);
        if (record_ident_compare(ident, voucher) < 0) {
            world_store(world, 0, &made);
            last = record_ident_compare(ident, last) > 0 ? ident : last;
            count++;
        }
    }
    world_restart(world, 0, false);
    world_restart(world, 1, false);
    world_run(world, 20000);
    assert_true(has_record(world, 1, voucher));
    assert_true(has_record(world, 1, last));
    assert_true(records_hash_equal(world->nodes[0].core->records.hash, world->nodes[1].core->records.hash));
    world_free(world);
}

/* It asks again while its voucher is on its way to the disk: an answer without that would be of no use to it. */
static void who_asks_twice_is_welcomed_once_its_voucher_is_on_the_disk(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct person b = make_person(1);
    world_start_all(world);
    invite(world, world->nodes[0].core->wall_s + 3600);
    world->disk_ms = 500;
    size_t before = world->log_bytes;
    ask_to_join(world, invite_key, &b);
    world_run(world, 100);
    ask_to_join(world, invite_key, &b);
    world_run(world, 300);
    assert_true(world_find(world, before, "welcome") == SIZE_MAX);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "a> welcome"), 2);
    assert_int_equal(world_count(world, "a> persist member"), 1);
    world_free(world);
}

/* However often it asks, while the disk refuses the voucher. */
static void who_asks_without_end_takes_no_memory(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct person b = make_person(1);
    world_start_all(world);
    invite(world, world->nodes[0].core->wall_s + 3600);
    world->nodes[0].disk_refuses = true;
    ask_to_join(world, invite_key, &b);
    ask_to_join(world, invite_key, &b);
    size_t used = world->nodes[0].core->arena.used_bytes;
    for (uint32_t i = 0; i < 100; i++) {
        ask_to_join(world, invite_key, &b);
    }
    assert_int_equal(world->nodes[0].core->arena.used_bytes, used);
    world->nodes[0].disk_refuses = false;
    world_run(world, 5000);
    assert_int_equal(world_count(world, "a> welcome"), 2);
    world_free(world);
}

/* A peer's keys of two buckets, of which one is marked; nothing in them is news. */
static void send_keys(struct world *world, uint32_t to, uint32_t from, bool both_are_marked)
{
    const struct records *records = &world->nodes[to].core->records;
    uint8_t bytes[32 + 2 * EXCHANGE_KEY_BYTES] = {0};
    uint32_t used = 32;
    for (uint32_t i = 0; i < RECORDS_BUCKETS && used < sizeof bytes; i++) {
        const struct records_entry *entry = records->buckets[i];
        if (entry != NULL && records->published_counts[i] == 1 && entry->published) {
            bool is_marked = both_are_marked || used == 32;
            bytes[i / 8] = (uint8_t)(bytes[i / 8] | is_marked << i % 8);
            memcpy(bytes + used, entry->ident.bytes, sizeof entry->ident.bytes);
            bytes_put_u64(bytes + used + 16, entry->record.version.boot);
            bytes_put_u64(bytes + used + 24, entry->record.version.seq);
            used += EXCHANGE_KEY_BYTES;
        }
    }
    assert_int_equal(used, sizeof bytes);
    struct message message = {.kind = MESSAGE_KEYS, .bytes = bytes, .byte_count = sizeof bytes};
    message.boot = world->nodes[from].core->options.boot;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, to, &event);
}

/* The peer has more that differs than it could tell at once. */
static void who_has_compared_a_part_is_not_in_step(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct core_peer *peer = core_find_peer(world->nodes[0].core, world->nodes[1].person.id);
    peer->synced = false;
    send_keys(world, 0, 1, false);
    assert_false(peer->synced);
    send_keys(world, 0, 1, true);
    assert_true(peer->synced);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_holds_an_invite_is_vouched_for),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(members_know_each_others_clocks_and_invites_go_by_most_of_them),
        cmocka_unit_test(of_two_clocks_the_earlier_counts_on_both),
        cmocka_unit_test(strangers_are_counted_and_ignored),
        cmocka_unit_test(a_large_roster_is_admitted_in_several_steps),
        cmocka_unit_test(a_roster_beyond_what_a_node_can_hold_is_cut),
        cmocka_unit_test(who_joins_a_large_mesh_is_sent_what_ties_it_to_the_founder),
        cmocka_unit_test(who_begins_on_an_empty_disk_grants_nothing_while_records_pour_in),
        cmocka_unit_test(who_is_heard_of_first_as_suspect_is_there_since_then),
        cmocka_unit_test(a_newcomers_voucher_comes_though_much_of_its_own_sorts_before),
        cmocka_unit_test(who_asks_twice_is_welcomed_once_its_voucher_is_on_the_disk),
        cmocka_unit_test(who_has_compared_a_part_is_not_in_step),
        cmocka_unit_test(who_asks_without_end_takes_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

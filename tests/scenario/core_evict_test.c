/* Stories of those who are shut out: whose work goes on elsewhere, and who never comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/members/members.h"
#include "tests/scenario/core_story.h"

static bool is_evicted(const struct world *world, uint32_t node, uint32_t about)
{
    return member_at(world, node, about)->evicted;
}

static bool has_peer(const struct world *world, uint32_t node, uint32_t other)
{
    return core_find_peer(world->nodes[node].core, world->nodes[other].person.id) != NULL;
}

static void the_work_of_an_evicted_node_goes_on_elsewhere(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    uint32_t coordinator = story_begin(world, 3, 5);
    uint32_t evicted = 0;
    while (running(world, evicted) == 0 || evicted == coordinator) {
        evicted++;
    }
    uint32_t by = (evicted + 1) % 4;
    size_t before = world->log_bytes;
    world_evict(world, by, evicted, false);
    assert_true(world_run_until(world, 3000, before, "lost, a node was evicted"));
    assert_true(world_run_until(world, 5000, before, "> spawn "));
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_int_equal(world_spawns(world), 4);
    assert_int_equal(running(world, evicted), 0); /* it heard and ended its own */
    assert_true(world->nodes[evicted].core->is_out);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(is_evicted(world, i, evicted));
        assert_true(i == evicted || !has_peer(world, i, evicted));
        assert_int_equal(running(world, i), i == evicted ? 0 : 1);
    }
    assert_int_equal(world_count(world, "THIS NODE IS OUT OF THE MESH"), 1);
    assert_int_equal(world_count(world, "shut out"), 3);

    /* Asked again it is answered again; it may do nothing itself. */
    uint32_t records = world->nodes[by].core->records.count;
    world->reply.code = -1;
    world_evict(world, by, evicted, false);
    world_run(world, 1000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->nodes[by].core->records.count, records);
    world_evict(world, evicted, by, false);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_request(world, evicted, NODE_REQUEST_INVITE);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_free(world);
}

static void an_evicted_coordinator_has_a_successor(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = story_begin(world, 2, 5);
    size_t before = world->log_bytes;
    world_evict(world, (coordinator + 1) % 3, coordinator, false);
    assert_true(world_run_until(world, 8000, before, "coordinates exp with term 2"));
    world_run(world, 10000);
    int successor = world_coordinator(world);
    assert_true(successor >= 0 && (uint32_t)successor != coordinator);
    assert_int_equal(running(world, coordinator), 0);
    assert_int_equal(running(world, (coordinator + 1) % 3) + running(world, (coordinator + 2) % 3), 2);
    world_free(world);
}

static void a_restart_does_not_bring_the_evicted_back(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 3, 5);
    assert_int_equal(running(world, 2), 1);

    /* It was down and heard nothing; its worker lives on under its keep. */
    world_crash(world, 2);
    world_evict(world, 0, 2, false);
    world_run(world, 10000);
    size_t before = world->log_bytes;
    world_restart(world, 2, true);
    assert_true(world_run_until(world, 15000, before, "c: THIS NODE IS OUT OF THE MESH"));
    world_run(world, 5000);
    assert_int_equal(running(world, 2), 0);
    assert_false(has_peer(world, 0, 2) || has_peer(world, 1, 2));

    /* Now it knows from its own disk. */
    world_crash(world, 2);
    before = world->log_bytes;
    world_restart(world, 2, false);
    assert_true(world_find(world, before, "c: THIS NODE IS OUT OF THE MESH") != SIZE_MAX);
    world_run(world, 40000);
    assert_true(world->nodes[2].core->is_out);
    assert_true(world_find(world, before, "c> spawn") == SIZE_MAX);
    assert_true(world_find(world, before, "c> persist claim") == SIZE_MAX);

    /* And the others know after a restart. */
    world_crash(world, 0);
    before = world->log_bytes;
    world_restart(world, 0, false);
    world_run(world, 5000);
    assert_true(is_evicted(world, 0, 2) && !has_peer(world, 0, 2));
    world_free(world);
}

/* Two evict each other across a cut, and one of them has nobody on its side: its word is on its disk alone, and nobody takes
 * it from there any more. */
static void what_the_evicted_told_nobody_dies_with_it(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world_start_all(world);
    world->nodes[0].is_cut = true; /* a hears nobody */
    world_evict(world, 0, 1, false);
    world_evict(world, 1, 0, false);
    world_run(world, 6000);
    assert_false(is_evicted(world, 0, 0) || is_evicted(world, 1, 1));
    world->nodes[0].is_cut = false;
    world_run(world, 30000);
    for (uint32_t i = 2; i < 4; i++) {
        assert_true(is_evicted(world, i, 0)); /* b told them */
        assert_false(has_peer(world, i, 0));
    }
    assert_true(world->nodes[0].core->is_out);
    assert_false(is_evicted(world, 2, 1));
    world_free(world);
}

/* The same where both were heard before the other was known: c has a's word, d has b's. */
static void evictions_that_cross_both_hold(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world_start_all(world);
    struct fact_eviction fact = make_eviction((struct person[]){world->nodes[0].person, world->nodes[1].person,
                                                                world->nodes[2].person, world->nodes[3].person},
                                              4, 0xe);
    struct made of_b, of_a;
    make_record(&of_b, world->nodes[0].person.id, 9ull << 32, 1, FACT_EVICTION,
                fact_key_node_id(world->nodes[1].person.id), &fact);
    make_record(&of_a, world->nodes[1].person.id, 9ull << 32, 1, FACT_EVICTION,
                fact_key_node_id(world->nodes[0].person.id), &fact);
    world_deliver(world, 0, 2, &of_b);
    world_deliver(world, 1, 3, &of_a);
    world_run(world, 10000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(is_evicted(world, i, 0));
        assert_true(is_evicted(world, i, 1));
        assert_int_equal(world->nodes[i].core->is_out, i < 2);
    }
    assert_true(has_peer(world, 2, 3) && has_peer(world, 3, 2));
    world_free(world);
}

/* a vouches for b alone, b for c and d. */
static struct world *chained(void)
{
    struct world *world = world_new(4, 1);
    for (uint32_t node = 0; node < 4; node++) {
        world->nodes[node].record_count = 0;
        for (uint32_t i = 0; i < 4; i++) {
            struct fact_member member = make_member(&world->nodes[i].person);
            struct made made;
            make_record(&made, world->nodes[i < 2 ? 0 : 1].person.id, 1, i + 1, FACT_MEMBER,
                        fact_key_node_id(world->nodes[i].person.id), &member);
            world_store(world, node, &made);
        }
    }
    world_start_all(world);
    return world;
}

static void whom_the_evicted_vouched_for_stays_unless_asked_otherwise(void **state)
{
    (void)state;
    struct world *world = chained();
    world_evict(world, 2, 1, false);
    world_run(world, 3000);
    assert_int_equal(world->reply.code, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(is_evicted(world, i, 1));
        assert_int_equal(world->nodes[i].core->is_out, i == 1);
        assert_true(i == 1 || member_at(world, i, 3)->admitted);
    }
    world_free(world);

    world = chained();
    world_evict(world, 2, 1, true); /* it would put itself out */
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_evict(world, 0, 1, false);
    world_run(world, 1000);
    world_evict(world, 0, 1, true); /* more than before */
    world_run(world, 3000);
    assert_int_equal(world->reply.code, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(world->nodes[i].core->is_out, i != 0);
    }
    assert_false(member_at(world, 0, 2)->admitted || member_at(world, 0, 2)->evicted);
    world_evict(world, 0, 1, false); /* nobody returns through another one */
    world_run(world, 1000);
    assert_int_equal(world->reply.code, 0);
    assert_false(member_at(world, 0, 2)->admitted);
    world_free(world);
}

/* More than one record can list: for the rest the evicting node vouches itself. */
static void nobody_goes_for_want_of_room_in_the_list(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t first = 10, past = first + FACT_STANDING_MAX + 20;
    for (uint32_t i = first; i < past; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct made made;
        make_record(&made, world->nodes[0].person.id, 1, i, FACT_MEMBER, fact_key_node_id(person.id), &member);
        world_store(world, 1, &made);
    }
    world_restart(world, 1, false);
    world_run(world, CORE_SYNC_ALONE_MS + 1000);
    world_evict(world, 1, 0, false);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world_count(world, "b> persist member"), 21); /* a itself vouched for b and 520 others */
    assert_true(is_evicted(world, 1, 0));
    for (uint32_t i = first; i < past; i++) {
        assert_true(view_find_member(&world->nodes[1].core->view, make_person(i).id)->admitted);
    }
    assert_false(world->nodes[1].core->is_out);
    world_free(world);
}

static void an_eviction_may_come_before_its_victim_is_known(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct person stranger = make_person(3);
    struct fact_eviction fact = {0};
    struct fact_member member = make_member(&stranger);
    struct made made;
    make_record(&made, world->nodes[1].person.id, 9ull << 32, 1, FACT_EVICTION, fact_key_node_id(stranger.id), &fact);
    world_deliver(world, 1, 0, &made);
    make_record(&made, world->nodes[1].person.id, 9ull << 32, 2, FACT_MEMBER, fact_key_node_id(stranger.id), &member);
    world_deliver(world, 1, 0, &made);
    world_run(world, 3000);
    assert_null(core_find_peer(world->nodes[0].core, stranger.id));
    assert_true(view_find_member(&world->nodes[0].core->view, stranger.id)->evicted);
    world_free(world);
}

/* Signed with the key, but after it was shut out. */
static void nothing_new_is_taken_from_the_evicted(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world_evict(world, 0, 2, false);
    world_run(world, 2000);
    struct person stranger = make_person(4);
    struct fact_member member = make_member(&stranger);
    struct made made;
    make_record(&made, world->nodes[2].person.id, 9ull << 32, 1, FACT_MEMBER, fact_key_node_id(stranger.id), &member);
    uint32_t records = world->nodes[0].core->records.count;
    world_deliver(world, 2, 0, &made);
    assert_int_equal(world->nodes[0].core->records.count, records);
    world_deliver(world, 1, 0, &made); /* through one who took it before it knew: relayed as any, and says nothing */
    world_run(world, 3000);
    assert_int_equal(world->nodes[0].core->records.count, records + 1);
    assert_false(view_find_member(&world->nodes[0].core->view, stranger.id)->admitted);
    assert_null(core_find_peer(world->nodes[0].core, stranger.id));
    world_free(world);
}

static const uint8_t invite_key[PUBLIC_KEY_BYTES] = {9, 9, 9};

static void invite(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_INVITE;
    event.u.request.client = 3;
    memcpy(event.u.request.public_key, invite_key, sizeof invite_key);
    event.u.request.expires_s = world->nodes[node].core->wall_s + 3600;
    world_step(world, node, &event);
    world_run(world, 1000);
    assert_int_equal(world->reply.code, 0);
}

static void join(struct world *world, uint32_t node, const struct person *person)
{
    struct node_event event = {.kind = NODE_EVENT_JOIN};
    event.u.join.client = 4;
    memcpy(event.u.join.invite_key, invite_key, PUBLIC_KEY_BYTES);
    memcpy(event.u.join.public_key, person->public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(event.u.join.name, sizeof event.u.join.name, person->name);
    world_step(world, node, &event);
    world_run(world, 1000);
}

static void invites_of_the_evicted_are_void(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct person d = make_person(3), c = make_person(2);
    world_start_all(world);
    invite(world, 2);
    world_evict(world, 0, 2, false);
    world_run(world, 2000);
    assert_true(world_find(world, 0, "a> shut out") != SIZE_MAX);
    join(world, 1, &d);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    join(world, 2, &d); /* it lets nobody in itself */
    assert_int_equal(world->reply.code, ERR_REFUSED);
    invite(world, 0);
    join(world, 1, &c); /* a key never returns, whatever it holds */
    assert_int_equal(world->reply.code, ERR_REFUSED);
    join(world, 1, &d);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

static void a_revoked_invite_lets_nobody_in(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct person d = make_person(3);
    world_start_all(world);
    invite(world, 0);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_REVOKE; /* by another member than the one that wrote it */
    event.u.request.client = 3;
    memcpy(event.u.request.public_key, invite_key, sizeof invite_key);
    world_step(world, 1, &event);
    world_run(world, 2000);
    assert_int_equal(world->reply.code, 0);
    assert_true(world_find(world, 0, "a> shut out") != SIZE_MAX);
    join(world, 0, &d);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_free(world);
}

static void nobody_evicts_itself_or_a_stranger(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_evict(world, 0, 0, false);
    assert_int_equal(world->reply.code, ERR_USAGE);
    world->nodes[1].person = make_person(4);
    world_evict(world, 0, 1, false);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    assert_int_equal(world_count(world, "persist eviction"), 0);
    world_free(world);
}

/* Its disk is older than a member for whom the evicted node vouched, so it cannot list that one yet. */
static void who_still_catches_up_evicts_nobody(void **state)
{
    (void)state;
    struct world *world = chained();
    struct world_node *old = &world->nodes[2];
    world_crash(world, 2);
    for (uint32_t i = 0; i < old->record_count; i++) {
        struct record record;
        assert_int_equal(record_decode(old->records[i].bytes, old->records[i].count, &record), 0);
        if (record.kind == FACT_MEMBER && memcmp(record.key, world->nodes[3].person.id.bytes, NODE_ID_BYTES) == 0) {
            old->records[i] = old->records[--old->record_count];
        }
    }
    world_restart(world, 2, false);
    assert_false(member_at(world, 2, 3)->admitted);
    world_evict(world, 2, 1, false);
    assert_int_equal(world->reply.code, ERR_AGAIN);
    world_run(world, 5000);
    assert_false(is_evicted(world, 0, 1));
    world_evict(world, 2, 1, false);
    world_run(world, 3000);
    assert_int_equal(world->reply.code, 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(is_evicted(world, i, 1));
        assert_true(i == 1 || member_at(world, i, 3)->admitted);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_work_of_an_evicted_node_goes_on_elsewhere),
        cmocka_unit_test(an_evicted_coordinator_has_a_successor),
        cmocka_unit_test(a_restart_does_not_bring_the_evicted_back),
        cmocka_unit_test(what_the_evicted_told_nobody_dies_with_it),
        cmocka_unit_test(evictions_that_cross_both_hold),
        cmocka_unit_test(whom_the_evicted_vouched_for_stays_unless_asked_otherwise),
        cmocka_unit_test(nobody_goes_for_want_of_room_in_the_list),
        cmocka_unit_test(an_eviction_may_come_before_its_victim_is_known),
        cmocka_unit_test(nothing_new_is_taken_from_the_evicted),
        cmocka_unit_test(invites_of_the_evicted_are_void),
        cmocka_unit_test(a_revoked_invite_lets_nobody_in),
        cmocka_unit_test(nobody_evicts_itself_or_a_stranger),
        cmocka_unit_test(who_still_catches_up_evicts_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

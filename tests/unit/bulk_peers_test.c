/* Whom bulk is told of (node/daemon/peers/bulk_peers.c), with a bulk made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/members/members.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/start.h"
#include "tests/unit/facts_make.h"

#define PEOPLE 1200
#define OUT 600 /* they are evicted; the others and this node are the mesh */
#define BYTES (64u << 20)

static node_id people[PEOPLE];
static bool is_known[PEOPLE];
static uint32_t told;

int bulk_peer(struct bulk *bulk, node_id node, const uint8_t sign_public[32], const char *host, uint16_t port)
{
    (void)bulk;
    (void)sign_public;
    (void)host;
    told++;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        is_known[i] = node_id_equal(people[i], node) ? port != 0 : is_known[i];
    }
    return 0;
}

static struct node_effects effects;

static void load(struct daemon *daemon, node_id writer, uint64_t seq, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, writer, 1, seq, kind, key, fact);
    struct node_event event = {.kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made.bytes, .byte_count = made.count};
    effects.count = effects.used_bytes = 0;
    node_core_step(daemon->core, &event, &effects);
}

static void settle(struct daemon *daemon)
{
    for (uint64_t ms = 1100; daemon->core->members->peer_count < PEOPLE - OUT - 1; ms += 100) {
        struct node_event tick = {.kind = NODE_EVENT_TICK, .now_ms = ms};
        effects.count = effects.used_bytes = 0;
        node_core_step(daemon->core, &tick, &effects);
        assert_true(ms < 5000);
    }
}

static void any_number_of_those_who_are_out_takes_no_members_place(void **state)
{
    (void)state;
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->peers = calloc(1, sizeof *daemon->peers);
    struct person self = make_person(0);
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1, .now_ms = 1000,
                                   .node = make_node(&self, 1), .memory = aligned_alloc(16, BYTES), .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    daemon->keys.id = self.id;
    daemon->core = node_core_init(&options);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct fact_node node = make_node(&person, 1);
        struct fact_eviction eviction = {0};
        node.bulk_port = 7500;
        people[i] = person.id;
        load(daemon, self.id, 2 * i + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
        load(daemon, person.id, 1, FACT_NODE, fact_key_empty(), &node);
        if (i > 0 && i <= OUT) {
            load(daemon, self.id, 2 * i + 2, FACT_EVICTION, fact_key_node_id(person.id), &eviction);
        }
    }
    struct node_event start = {.kind = NODE_EVENT_START, .now_ms = 1000};
    effects.count = effects.used_bytes = 0;
    node_core_step(daemon->core, &start, &effects);
    settle(daemon);
    daemon_bulk_peers(daemon);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        assert_int_equal(is_known[i], i > OUT);
    }
    told = 0;
    daemon_bulk_peers(daemon);
    assert_int_equal(told, 0); /* nothing has changed */

    daemon_bulk_peers_gone(daemon, people[PEOPLE - 1]);
    assert_false(is_known[PEOPLE - 1]);
    daemon_bulk_peers(daemon); /* it is a peer still, or again */
    assert_true(is_known[PEOPLE - 1]);

    daemon->core->is_out = true;
    daemon_bulk_peers(daemon);
    for (uint32_t i = 0; i < PEOPLE; i++) {
        assert_false(is_known[i]);
    }
    free(daemon->core); /* it begins where its memory does */
    free(daemon->peers);
    free(daemon);
}

int main(void)
{
    effects.items = calloc(NODE_EFFECTS_MAX, sizeof *effects.items);
    effects.bytes = malloc(NODE_EFFECT_BYTES_MAX);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_number_of_those_who_are_out_takes_no_members_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Where a daemon tries absent members (node/daemon/peers/peer_hints.c), with the control sockets and the beacon made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/members/members.h"
#include "node/daemon/peers/peers.h"
#include "tests/unit/facts_make.h"

#define MEMBERS 100
#define BYTES (16u << 20)
#define REAL "10.0.0.5:7777"

/* ---- what peer_hints.c calls -------------------------------------------------------------------------------------------- */

static struct {
    bool is_forged, has_real;   /* what the wire brings: without end, or nothing */
    uint64_t datagrams;
    node_id absent;             /* whom all beacons tell of */
    char address[64];           /* its last hint */
    uint32_t hints;             /* for anybody */
    bool was_at[MEMBERS];       /* persons that were tried at the hint of --peer */
} world;

void daemon_event(struct daemon *daemon, struct node_event *event)
{
    (void)daemon;
    assert_int_equal(event->kind, NODE_EVENT_HINT);
    world.hints++;
    if (node_id_equal(event->u.hint.node, world.absent)) {
        bytes_copy_text(world.address, sizeof world.address, event->u.hint.address);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        world.was_at[i] |= strcmp(event->u.hint.address, "10.0.0.1:7410") == 0 && node_id_equal(make_person(i).id, event->u.hint.node);
    }
}

/* Every thousandth is real, and all others come from one host. */
int beacon_receive(struct beacon *beacon, node_id *node, char address[BEACON_ADDRESS_BYTES])
{
    (void)beacon;
    *node = world.absent;
    uint64_t number = world.datagrams++;
    assert_true(number < 1000000); /* whoever reads on while there is something to read never comes back */
    if (world.has_real && number % 1000 == 0) {
        bytes_copy_text(address, BEACON_ADDRESS_BYTES, REAL);
        return 0;
    }
    if (!world.is_forged) {
        return ERR_AGAIN;
    }
    (void)format_text(address, BEACON_ADDRESS_BYTES, "10.0.0.66:%u", (unsigned)(1 + number % 65535));
    return 0;
}

int daemon_meta_get(struct daemon *daemon, const char *key, void *out, size_t capacity, size_t *count)
{
    (void)daemon;
    (void)key;
    (void)out;
    (void)capacity;
    (void)count;
    return ERR_NOT_FOUND;
}

/* ---- a daemon ------------------------------------------------------------------------------------------------------ */

/* This node is person 0; all others are absent, and their records say where they were. */
static struct daemon *daemon_alone(uint32_t members)
{
    struct daemon *daemon = calloc(1, sizeof *daemon);
    daemon->peers = calloc(1, sizeof *daemon->peers);
    struct person self = make_person(0);
    struct node_effects effects = {.items = calloc(NODE_EFFECTS_MAX, sizeof *effects.items),
                                   .bytes = malloc(NODE_EFFECT_BYTES_MAX)};
    struct node_options options = {.self = self.id, .mesh = make_mesh(), .boot = (uint64_t)1 << 32, .seed = 1, .now_ms = 1000,
                                   .node = make_node(&self, 1), .memory = aligned_alloc(16, BYTES), .memory_bytes = BYTES};
    memcpy(options.public_key, self.public_key, sizeof options.public_key);
    daemon->core = node_core_init(&options);
    daemon->beacon = (struct beacon *)(void *)daemon; /* it has one */
    for (uint32_t i = 0; i < members; i++) {
        struct person person = make_person(i);
        struct fact_member member = make_member(&person);
        struct fact_node node = make_node(&person, 1);
        struct made made[2];
        make_record(&made[0], self.id, 1, i + 1, FACT_MEMBER, fact_key_node_id(person.id), &member);
        make_record(&made[1], person.id, 1, 1, FACT_NODE, fact_key_empty(), &node);
        for (uint32_t r = 0; r < 2; r++) {
            struct node_event event = {
                .kind = NODE_EVENT_LOAD_RECORD, .now_ms = 1000, .bytes = made[r].bytes, .byte_count = made[r].count};
            node_core_step(daemon->core, &event, &effects);
        }
    }
    struct node_event start = {.kind = NODE_EVENT_START, .now_ms = 1000};
    node_core_step(daemon->core, &start, &effects);
    assert_int_equal(daemon->core->members->peer_count, members - 1);
    free(effects.items);
    free(effects.bytes);
    memset(&world, 0, sizeof world);
    world.absent = make_person(7).id;
    return daemon;
}

static void daemon_free(struct daemon *daemon)
{
    free(daemon->core); /* it begins where its memory does */
    free(daemon->peers);
    free(daemon);
}

/* A second of a daemon that has time for so many turns of its loop. */
static void pass_second(struct daemon *daemon, uint32_t turns)
{
    for (uint32_t i = 0; i < turns; i++) {
        daemon_peer_hints_beacon(daemon);
    }
    daemon_peer_hints_tick(daemon);
}

/* ---- stories ------------------------------------------------------------------------------------------------------- */

static void a_flood_of_beacons_keeps_the_thread_from_nothing(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_alone(MEMBERS);
    world.is_forged = true;
    daemon_peer_hints_beacon(daemon); /* comes back, though the wire brings more and more */
    assert_int_equal(world.hints, 0);
    for (uint32_t second = 0; second < 60; second++) {
        world.hints = 0;
        pass_second(daemon, 100);
        assert_in_range(world.hints, 0, 8);
    }
    daemon_free(daemon);
}

/* True if the absent member is tried at the address within so many seconds. */
static bool is_tried_at(struct daemon *daemon, uint32_t seconds, const char *address)
{
    bool found = false;
    for (uint32_t second = 0; second < seconds && !found; second++) {
        for (uint32_t turn = 0; turn < 100; turn++) {
            daemon_peer_hints_beacon(daemon);
        }
        for (uint32_t i = 0; i < daemon->peers->heard_count && i < 8; i++) {
            found |= strcmp(daemon->peers->heard[i].address, address) == 0;
        }
        daemon_peer_hints_tick(daemon);
        found |= strcmp(world.address, address) == 0;
    }
    return found;
}

static void forged_beacons_crowd_out_no_real_ones(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_alone(MEMBERS);
    world.is_forged = world.has_real = true;
    assert_true(is_tried_at(daemon, 60, REAL));
    bytes_copy_text(daemon->options.peer_hints[0], CONTROL_ADDRESS_BYTES, "10.0.0.1:7410");
    daemon->options.peer_hint_count = 1;
    assert_true(is_tried_at(daemon, 60, "10.0.0.1:7410"));
    assert_true(is_tried_at(daemon, 60, REAL));
    daemon_free(daemon);
}

static void a_beacon_without_others_is_followed_at_once(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_alone(MEMBERS);
    world.has_real = true;
    pass_second(daemon, 1);
    assert_string_equal(world.address, REAL);
    daemon_free(daemon);
}

static void all_absent_members_are_tried_where_peer_says(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_alone(MEMBERS);
    bytes_copy_text(daemon->options.peer_hints[0], CONTROL_ADDRESS_BYTES, "10.0.0.1:7410");
    daemon->options.peer_hint_count = 1;
    for (uint32_t second = 0; second < 60; second++) {
        pass_second(daemon, 1);
    }
    for (uint32_t i = 1; i < MEMBERS; i++) {
        assert_true(world.was_at[i]);
    }
    daemon_free(daemon);
}

/* As many as fit at once, thrice, and three hints: no hint is always that of the same third. */
static void all_absent_members_are_tried_at_each_hint(void **state)
{
    (void)state;
    const uint32_t members = 1 + 3 * DAEMON_HINTED_MAX;
    struct daemon *daemon = daemon_alone(members);
    for (uint32_t i = 0; i < 3; i++) {
        (void)format_text(daemon->options.peer_hints[i], CONTROL_ADDRESS_BYTES, "10.0.0.%u:7410", (unsigned)i);
    }
    daemon->options.peer_hint_count = 3;
    for (uint32_t second = 0; second < 60; second++) {
        pass_second(daemon, 1);
    }
    for (uint32_t i = 1; i < members; i++) {
        assert_true(world.was_at[i]);
    }
    daemon_free(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_of_beacons_keeps_the_thread_from_nothing),
        cmocka_unit_test(forged_beacons_crowd_out_no_real_ones),
        cmocka_unit_test(a_beacon_without_others_is_followed_at_once),
        cmocka_unit_test(all_absent_members_are_tried_where_peer_says),
        cmocka_unit_test(all_absent_members_are_tried_at_each_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories of a mesh of 100 whole node cores: too many to tell each peer of every change. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "gossip/exchange.h"
#include "gossip/fanout.h"
#include "node/core/ground/state.h"
#include "tests/sim/scale_world.h"

#define NODES 100u
#define CHANGES 20u
#define ASKED 2u /* messages at most with which the one who was asked makes sure of a second disk */

static struct scale_world *start_mesh(uint32_t nodes, bool has_no_digests, uint64_t seed)
{
    struct scale_options options = {.nodes = nodes, .slots = 1, .has_no_digests = has_no_digests, .seed = seed};
    struct scale_world *world = scale_new(&options);
    assert_true(scale_run_until_alive(world, 30000));
    scale_run(world, CORE_SYNC_PATIENCE_MS + 1000); /* who still catches up relays nothing */
    return world;
}

static uint64_t most_records_sent(const struct scale_world *world)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        most = world->nodes[i].sent_records > most ? world->nodes[i].sent_records : most;
    }
    return most;
}

static uint64_t records_sent(const struct scale_world *world)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < world->options.nodes; i++) {
        all += world->nodes[i].sent_records;
    }
    return all;
}

/* No digest ever arrives, so that nothing but the relays can bring it. */
static void a_change_reaches_all_by_relays_alone(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(NODES, true, 1);
    for (uint32_t i = 0; i < CHANGES; i++) {
        assert_true(scale_change(world, i * 7 % NODES, 2000) <= 1000);
    }
    scale_free(world);
}

static void every_record_is_relayed_a_bounded_number_of_times(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(NODES, true, 2);
    uint32_t rounds = fanout_rounds(NODES);
    for (uint32_t i = 0; i < CHANGES; i++) {
        assert_true(scale_change(world, i, 2000) <= 1000);
        scale_run(world, 5000);
        assert_in_range(most_records_sent(world), rounds * FANOUT_PEERS, rounds * FANOUT_PEERS + ASKED);
        assert_in_range(records_sent(world), NODES * rounds * FANOUT_PEERS, NODES * rounds * FANOUT_PEERS + ASKED);
    }
    scale_free(world);
}

/* A record that is relayed is the one that its writer signed, byte for byte. */
static void relayed_records_are_the_same_bytes_everywhere(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(NODES, true, 3);
    assert_true(scale_change(world, 5, 2000) <= 1000);
    struct records_hash hash = world->nodes[0].core->records.hash;
    for (uint32_t i = 1; i < NODES; i++) {
        assert_true(records_hash_equal(world->nodes[i].core->records.hash, hash));
        assert_int_equal(world->nodes[i].core->counters.equivocations, 0);
        assert_int_equal(world->nodes[i].core->counters.malformed, 0);
    }
    scale_free(world);
}

static void up_to_64_nodes_a_change_goes_straight_to_every_peer(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(CORE_DIRECT_NODES, true, 4);
    assert_true(scale_change(world, 9, 2000) <= 2 * SCALE_DISK_MS + SCALE_DELAY_MS_MAX + 50);
    scale_run(world, 5000);
    assert_in_range(world->nodes[9].sent_records, CORE_DIRECT_NODES - 1, CORE_DIRECT_NODES - 1 + ASKED);
    assert_int_equal(records_sent(world), world->nodes[9].sent_records); /* nobody else passes it on */
    scale_free(world);
}

/* A node that is off when a change is made hears of it when it comes back. */
static void digests_bring_what_the_relays_missed(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(NODES, false, 5);
    uint64_t first_ms, all_ms;
    assert_true(scale_death(world, 50, 30000, &first_ms, &all_ms));
    uint32_t before = world->nodes[0].core->records.count;
    assert_true(scale_change(world, 0, 5000) != UINT64_MAX);
    scale_run(world, 5000); /* all relays are over */
    scale_revive(world, 50);
    assert_int_equal(world->nodes[50].core->records.count, before);
    assert_true(scale_run_until_alive(world, 30000));
    scale_run(world, 5000);
    assert_int_equal(world->nodes[50].core->records.count, before + 1);
    scale_free(world);
}

/* In the two seconds in which a change is on its way most nodes differ from most others. */
static void a_change_does_not_set_off_a_storm_of_digests(void **state)
{
    (void)state;
    struct scale_world *world = start_mesh(NODES, false, 6);
    scale_run(world, 60000);
    for (uint32_t i = 0; i < NODES; i++) {
        world->nodes[i].sent_messages = world->nodes[i].sent_bytes = 0;
    }
    world->counts_bytes = true;
    assert_true(scale_change(world, 1, 2000) <= 1000);
    scale_run(world, 2000);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        bytes += world->nodes[i].sent_bytes;
    }
    uint32_t relay = 0, digest = 0, ignored;
    scale_wire_bytes(300, &relay, &ignored);
    scale_wire_bytes(EXCHANGE_BUCKETS_BYTES, &digest, &ignored);
    uint64_t relays = (uint64_t)fanout_rounds(NODES) * FANOUT_PEERS * (relay + 52);
    assert_true(bytes / NODES < relays + digest + 2 * 1000); /* one digest each at most, and the idle traffic */
    scale_free(world);
}

/* Most packets get lost: living members are declared dead again and again, from the start on. */
static void members_taken_for_dead_before_they_are_observed_count_when_they_are_again(void **state)
{
    (void)state;
    struct scale_options options = {.nodes = 64, .slots = 1, .loss_permille = 650, .seed = 1};
    struct scale_world *world = scale_new(&options);
    scale_run(world, 40000);
    assert_true(world->false_deaths > 0);
    scale_observe(world);
    scale_run(world, 30000); /* shorter than what lies between two false deaths of one member */
    uint32_t members = 0;
    for (uint32_t i = 0; i < options.nodes; i++) {
        members += world->nodes[i].false_death_ms != 0;
    }
    assert_true(members > 0);
    assert_int_equal(world->false_deaths, members);
    scale_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_change_reaches_all_by_relays_alone),
        cmocka_unit_test(every_record_is_relayed_a_bounded_number_of_times),
        cmocka_unit_test(relayed_records_are_the_same_bytes_everywhere),
        cmocka_unit_test(up_to_64_nodes_a_change_goes_straight_to_every_peer),
        cmocka_unit_test(digests_bring_what_the_relays_missed),
        cmocka_unit_test(a_change_does_not_set_off_a_storm_of_digests),
        cmocka_unit_test(members_taken_for_dead_before_they_are_observed_count_when_they_are_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories of addresses: nodes that move, addresses that others have now, nodes that never reach each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/members/addresses.h"
#include "node/core/members/links.h"
#include "tests/scenario/core_story.h"
#include "tests/unit/facts_make.h"

#define SETTLES_MS 10000

static const char *used(const struct world *world, uint32_t node, uint32_t about)
{
    return core_find_peer(world->nodes[node].core, world->nodes[about].person.id)->address;
}

static void move_to(struct world *world, uint32_t node, const char *address)
{
    world_move(world, node, &address, 1);
}

/* All are alive for all, and are used where they are. */
static void assert_whole(const struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t j = 0; j < world->node_count; j++) {
            if (i != j) {
                assert_string_equal(used(world, i, j), world->nodes[j].address);
                assert_true(core_node_trusted(world->nodes[i].core, world->nodes[j].person.id));
            }
        }
    }
}

static void a_node_that_moves_stays_alive(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world_run(world, SETTLES_MS);
    move_to(world, 1, "10.0.0.22:7410");
    world_run(world, SETTLES_MS);
    assert_whole(world);
    assert_int_equal(world_count(world, "b is dead"), 0);
    assert_int_equal(world_count(world, "IN USE TWICE"), 0);
    world_free(world);
}

static void others_hear_of_a_new_certificate(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct node_event event = {.kind = NODE_EVENT_DOOR, .u.door = {.address = "10.0.0.2:7412", .certificate = {7}}};
    world_start_all(world);
    world_run(world, SETTLES_MS);
    world_step(world, 1, &event);
    world_run(world, SETTLES_MS);
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct fact_key key = fact_key_empty();
        struct fact_node fact;
        const struct records_entry *entry =
            records_find(node_core_records(world->nodes[i].core), record_ident_of(world->nodes[1].person.id, FACT_NODE, key.bytes, key.count));
        assert_non_null(entry);
        assert_int_equal(fact_node_read(&entry->record, &fact), 0);
        assert_string_equal(fact.door.address, "10.0.0.2:7412");
        assert_int_equal(fact.door.certificate[0], 7);
    }
    assert_whole(world); /* its addresses are those of before */
    world_free(world);
}

static void an_old_address_may_belong_to_another_member(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    char former[FACT_ADDRESS_BYTES];
    world_start_all(world);
    world_run(world, SETTLES_MS);
    bytes_copy_text(former, sizeof former, world->nodes[1].address);
    move_to(world, 1, "10.0.0.22:7410");
    move_to(world, 2, former);
    world_run(world, SETTLES_MS);
    assert_whole(world);
    world_free(world);
}

/* Both at once: neither hears where the other one is, but for a third node. */
static void two_nodes_that_move_at_once_find_each_other(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world_run(world, SETTLES_MS);
    move_to(world, 0, "10.0.0.11:7410");
    move_to(world, 1, "10.0.0.22:7410");
    world_run(world, 2 * SETTLES_MS);
    assert_whole(world);
    assert_int_equal(world_count(world, "IN USE TWICE"), 0);
    world_free(world);
}

/* A stranger has the old address and refuses connections: that tells nothing of the node, which is only cut off. */
static void a_refusal_at_a_former_address_proves_no_death(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_run(world, SETTLES_MS);
    bytes_copy_text(world->refusing, sizeof world->refusing, world->nodes[1].address);
    move_to(world, 1, "10.0.0.22:7410");
    world_run(world, 1000);
    world->nodes[1].is_cut = true;
    world_run(world, 60000);
    assert_false(core_node_lost(world->nodes[0].core, world->nodes[1].person.id, UINT64_MAX));
    world->nodes[1].is_cut = false;
    world_run(world, 2 * SETTLES_MS);
    assert_whole(world);
    world_free(world);
}

/* ... and one at the address where its key answered last does. */
static void a_refusal_where_the_key_answered_proves_a_death(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_run(world, SETTLES_MS);
    move_to(world, 1, "10.0.0.22:7410");
    world_run(world, SETTLES_MS);
    world_crash(world, 1);
    world_run(world, 20000);
    assert_true(core_node_lost(world->nodes[0].core, world->nodes[1].person.id, UINT64_MAX));
    world_free(world);
}

static void of_several_addresses_the_one_that_answers_is_used(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    static const char *const three[] = {"10.0.0.22:7410", "172.17.0.1:7410", "10.8.0.1:7410"};
    static const char *const turned[] = {"172.18.0.1:7410", "172.17.0.1:7410", "10.0.0.23:7410"};
    world_start_all(world);
    world_run(world, SETTLES_MS);
    world_move(world, 1, three, 3);
    world_run(world, SETTLES_MS);
    assert_whole(world);
    world_move(world, 1, turned, 3);
    bytes_copy_text(world->nodes[1].address, sizeof world->nodes[1].address, turned[2]);
    world_run(world, SETTLES_MS);
    assert_string_equal(used(world, 0, 1), turned[2]);
    assert_whole(world);
    world_free(world);
}

/* A record may name an address twice, or too often, or nonsense: the first good one is used. */
static void a_record_with_doubles_does_no_harm(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    static const char *const doubles[] = {"10.0.0.22:7410", "10.0.0.22:7410", "nonsense", "10.0.0.22:7410", "nonsense", ":", "[fe80::1]:7410"};
    world_start_all(world);
    world_run(world, SETTLES_MS);
    for (uint32_t count = 7; count > 0; count--) {
        world_move(world, 1, doubles, count);
        world_run(world, 1000);
    }
    world_run(world, SETTLES_MS);
    assert_whole(world);
    uint32_t count = 0;
    for (const struct core_address *a = core_find_peer(world->nodes[0].core, world->nodes[1].person.id)->addresses; a != NULL; a = a->next) {
        count++;
    }
    assert_int_equal(count, 1);
    world_free(world);
}

/* Also with several addresses, and after a move. */
static void a_twin_is_still_found(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    static const char *const two[] = {"10.0.0.22:7410", "10.8.0.1:7410"};
    world_start_all(world);
    world_run(world, SETTLES_MS);
    world_move(world, 1, two, 2);
    world_run(world, SETTLES_MS);
    uint32_t copy = world_copy(world, 1);
    world_restart(world, copy, false);
    assert_line(world, 30000, "copy> become another node");
    world_run(world, SETTLES_MS);
    assert_whole(world);
    world_free(world);
}

static void nodes_that_never_reach_each_other_are_in_no_group(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 3;
    world_start_all(world);
    world_run(world, SETTLES_MS);
    assert_true(links_joins(world->nodes[0].core, world->nodes[1].person.id, world->nodes[2].person.id, "4"));
    world->nodes[1].hidden = 1u << 2; /* each lives, as the third node tells */
    world_run(world, 3 * CORE_CHECK_SPARE_MS);
    assert_true(links_joins(world->nodes[0].core, world->nodes[0].person.id, world->nodes[1].person.id, "4"));
    assert_false(links_joins(world->nodes[0].core, world->nodes[1].person.id, world->nodes[2].person.id, "4"));
    world_submit(world, 0, &config);
    assert_line(world, 20000, "have no network in common on which both were reached");
    assert_int_equal(world_spawns(world), 0);
    world->nodes[1].hidden = 0;
    world->program = WORLD_RUNS_2S;
    assert_line(world, 120000, "completed");
    world_free(world);
}

/* However long the link was blocked: the two nodes try each other again before a waiting trial is late. */
static void a_link_that_heals_is_soon_used_for_a_group(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 3;
    world_start_all(world);
    world_run(world, SETTLES_MS);
    world->nodes[1].hidden = 1u << 2;
    world_run(world, 3 * CORE_CHECK_SPARE_MS);
    world_submit(world, 0, &config);
    world_run(world, 2 * CORE_CHECK_FAILED_MAX_MS);
    assert_int_equal(world_spawns(world), 0);
    world->nodes[1].hidden = 0;
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 3);
    world_free(world);
}

/* Spare addresses that never answer cost few checks: the peer is reached at another one. */
static void a_spare_address_that_never_answers_is_rarely_tried(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    static const char *const two[] = {"10.0.0.22:7410", "172.17.0.1:7410"};
    world_start_all(world);
    world_move(world, 1, two, 2);
    world_run(world, 2 * CORE_CHECK_FAILED_MAX_MS);
    const struct core_peer *peer = core_find_peer(world->nodes[0].core, world->nodes[1].person.id);
    assert_string_equal(peer->addresses->next->text, two[1]);
    uint32_t failures = peer->addresses->next->failures;
    world_run(world, 2 * CORE_CHECK_FAILED_MAX_MS);
    assert_in_range(peer->addresses->next->failures - failures, 1, 3);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_moves_stays_alive),
        cmocka_unit_test(others_hear_of_a_new_certificate),
        cmocka_unit_test(an_old_address_may_belong_to_another_member),
        cmocka_unit_test(two_nodes_that_move_at_once_find_each_other),
        cmocka_unit_test(a_refusal_at_a_former_address_proves_no_death),
        cmocka_unit_test(a_refusal_where_the_key_answered_proves_a_death),
        cmocka_unit_test(of_several_addresses_the_one_that_answers_is_used),
        cmocka_unit_test(a_record_with_doubles_does_no_harm),
        cmocka_unit_test(a_twin_is_still_found),
        cmocka_unit_test(nodes_that_never_reach_each_other_are_in_no_group),
        cmocka_unit_test(a_link_that_heals_is_soon_used_for_a_group),
        cmocka_unit_test(a_spare_address_that_never_answers_is_rarely_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

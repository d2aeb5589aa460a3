/* Who coordinates and under which term, and whom the owners of slots obey. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/core/members/members.h"
#include "node/core/owner/owner.h"
#include "tests/scenario/core_faults.h"

static void the_death_of_a_coordinator_starts_nothing_twice(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = story_begin(world, 3, 5);
    size_t before = world->log_bytes;
    world_crash(world, coordinator);
    assert_true(world_run_until(world, 12000, before, "coordinates exp with term 2"));
    int successor = world_coordinator(world);
    assert_true(successor >= 0 && (uint32_t)successor != coordinator);
    assert_true(world_run_until(world, 20000, before, "lost, a node died"));
    world_run(world, 60000); /* twice the life of a lease: the successor renews what it did not make */
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "the lease of slot"), 0);
    assert_int_equal(world_count(world, "persist verdict"), 1);

    /* The worker under the dead daemon is ended when it comes back: its attempt is over. Its trial then runs again. */
    world_restart(world, coordinator, true);
    assert_true(world_run_until(world, 5000, before, "> kill "));
    world_run(world, 10000);
    assert_int_equal(world_spawns(world), 4);
    assert_int_equal(world_coordinator(world), successor); /* the incumbent stays */
    world_free(world);
}

/* Three train, and their coordinator is back, under term 2, before anybody suspects it. */
static struct world *restarted_coordinator(uint32_t *coordinator)
{
    struct world *world = world_new(3, 1);
    *coordinator = story_begin(world, 3, 5);
    world_crash(world, *coordinator);
    world_run(world, 300);
    world_restart(world, *coordinator, true);
    assert_line(world, 10000, "coordinates exp with term 2");
    return world;
}

static void a_restarted_coordinator_goes_on_with_a_new_term(void **state)
{
    (void)state;
    uint32_t coordinator;
    struct world *world = restarted_coordinator(&coordinator);
    assert_int_equal(world_coordinator(world), coordinator);
    world_run(world, 40000);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> kill "), 0);
    world_free(world);
}

/* A coordinator runs on an old disk, and somebody comes who has kept what it said before under a larger boot. (Seed 19385 of
 * the simulator.) */
static void a_coordinator_whose_claim_is_replaced_by_an_earlier_one_claims_anew(void **state)
{
    (void)state;
    uint32_t coordinator;
    struct world *world = restarted_coordinator(&coordinator);
    struct fact_claim fact = {.term = 1};
    struct made made;
    make_record(&made, world->nodes[coordinator].person.id, 9ull << 32, 1, FACT_CLAIM,
                fact_key_experiment(world_experiment(world, coordinator)->id), &fact);
    size_t before = world->log_bytes;
    world_deliver(world, (coordinator + 1) % 3, coordinator, &made);
    assert_true(world_run_until(world, 5000, before, "coordinates exp with term 3"));
    assert_true(world_find(world, before, "> persist claim 3") < world_find(world, before, "coordinates exp with term 3"));
    world_run(world, 40000);
    assert_int_equal(world_coordinator(world), coordinator);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t highest = 0;
        for (const struct view_claim *claim = world_experiment(world, i)->claims; claim != NULL; claim = claim->next) {
            highest = claim->fact.term > highest ? claim->fact.term : highest;
        }
        assert_int_equal(highest, 3);
    }
    world_free(world);
}

static void claims(struct world *world, uint32_t who, uint32_t to, uint64_t term, uint64_t sequence)
{
    struct fact_claim fact = {.term = term};
    struct made made;
    make_record(&made, world->nodes[who].person.id, world->nodes[who].boots + 1, sequence, FACT_CLAIM,
                fact_key_experiment(world_experiment(world, who)->id), &fact);
    world_deliver(world, who, to, &made);
}

/* Three train; the coordinator is not the one that would come first. */
static struct world *second_coordinator(uint32_t *first, uint32_t *second, uint32_t *third)
{
    struct world *world = world_new(3, 1);
    *first = story_begin(world, 3, 5);
    world_crash(world, *first);
    assert_line(world, 12000, "coordinates exp with term 2");
    world_restart(world, *first, true);
    world_run(world, 10000);
    *second = (uint32_t)world_coordinator(world);
    *third = 3 - *first - *second;
    assert_true(*second != *first);
    return world;
}

/* It heard of another one, whose record is gone since; nobody else ever did, so nobody else looks for a successor. (Seed 209014
 * of the simulator.) */
static void whom_all_others_take_for_the_coordinator_does_not_wait_for_its_turn(void **state)
{
    (void)state;
    uint32_t first, second, third;
    struct world *world = second_coordinator(&first, &second, &third);
    claims(world, third, second, 3, 1000);
    assert_line(world, 1000, "another node coordinates exp now, with term 3");
    claims(world, third, second, 1, 1001);
    assert_line(world, CORE_UNCONFIRMED_MS + 1000, "no record confirms the claim to coordinate exp with term 3");
    assert_line(world, 1000, "coordinates exp with term 4");
    assert_int_equal(world_coordinator(world), second);
    world_free(world);
}

/* It is drained meanwhile: it claims all the same, and hands over. */
static void a_drained_node_that_is_taken_for_the_coordinator_hands_over_at_once(void **state)
{
    (void)state;
    uint32_t first, second, third;
    struct world *world = second_coordinator(&first, &second, &third);
    claims(world, third, second, 3, 1000);
    assert_line(world, 1000, "another node coordinates exp now, with term 3");
    claims(world, third, second, 1, 1001);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.node = world->nodes[second].person.id;
    event.u.request.kind = NODE_REQUEST_DRAIN;
    world_step(world, third, &event);
    assert_line(world, CORE_UNCONFIRMED_MS + 1000, "no record confirms the claim to coordinate exp with term 3");
    assert_line(world, 1000, "coordinates exp with term 4");
    assert_line(world, 5000, "coordinates exp with term 5");
    assert_true((uint32_t)world_coordinator(world) != second);
    assert_int_equal(world_count(world, "the lease of slot"), 0);
    world_free(world);
}

/* Both have heard of it. */
static void of_two_who_doubt_a_claim_one_coordinates(void **state)
{
    (void)state;
    uint32_t first, second, third;
    struct world *world = second_coordinator(&first, &second, &third);
    for (uint64_t i = 0; i < 2; i++) {
        claims(world, third, second, 3 - 2 * i, 1000 + i);
        claims(world, third, first, 3 - 2 * i, 1000 + i);
        world_run(world, 20);
    }
    world->records_ms = 300; /* an owner hears of a claim before its record comes */
    assert_line(world, CORE_UNCONFIRMED_MS + 1000, "coordinates exp with term 4");
    world_run(world, 30000);
    assert_int_equal(world_count(world, "coordinates exp with term 4"), 1);
    assert_int_equal(world_count(world, "coordinates exp with term 5"), 0);
    assert_int_equal(world_coordinator(world), second);
    world_free(world);
}

static void owners_refuse_lower_claims_and_remember_the_highest(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world->disk_ms = 50;
    bool b_is_higher = node_id_compare(world->nodes[1].person.id, world->nodes[2].person.id) > 0;
    uint32_t higher = b_is_higher ? 1 : 2, lower = b_is_higher ? 2 : 1;
    char high_answer[64], low_answer[64], low_stale[64], high_stale[64];
    snprintf(high_answer, sizeof high_answer, "a> send reserve_answer %s", world->nodes[higher].person.name);
    snprintf(low_answer, sizeof low_answer, "a> send reserve_answer %s", world->nodes[lower].person.name);
    snprintf(low_stale, sizeof low_stale, "a> send stale %s", world->nodes[lower].person.name);
    snprintf(high_stale, sizeof high_stale, "a> send stale %s", world->nodes[higher].person.name);

    reserve(world, 0, lower, 2);
    const char *obeyed[] = {"a> persist fence 2 #", "a< persisted", low_answer};
    assert_order(world, obeyed, 3);
    reserve(world, 0, higher, 1); /* a lower term, whoever says it */
    assert_int_equal(world_count(world, high_stale), 1);
    assert_int_equal(world_count(world, high_answer), 0);
    reserve(world, 0, higher, 2); /* an equal term of the higher id is higher */
    assert_int_equal(world_count(world, high_answer), 1);
    assert_int_equal(world_count(world, "a> persist fence 2 #"), 2);
    reserve(world, 0, lower, 2); /* ... and of the lower one it is lower now */
    assert_int_equal(world_count(world, low_stale), 1);
    assert_int_equal(world_count(world, low_answer), 1);
    reserve(world, 0, lower, 3 + LAMPORT_JUMP_MAX); /* absurd */
    assert_int_equal(world_count(world, low_answer), 1);
    assert_int_equal(world_count(world, low_stale), 1);
    assert_int_equal(world->nodes[0].core->counters.malformed, 1);

    world_crash(world, 0);
    world_restart(world, 0, false);
    world_run(world, 3000);
    reserve(world, 0, lower, 2);
    assert_int_equal(world_count(world, low_stale), 2);
    reserve(world, 0, lower, 3);
    assert_int_equal(world_count(world, low_answer), 2);
    world_free(world);
}

/* The coordinator that gives way sends its release under a claim that the owner refuses by then: it would stay reserved,
 * for nobody, until its time is over (sim --seed 6876, 8427). */
static void a_higher_claim_returns_what_a_lower_one_has_reserved(void **state)
{
    (void)state;
    struct world *world = world_new(3, 3);
    world_start_all(world);
    const struct lease_slot *slots = world->nodes[0].core->owner->lease.slots;
    reserve_slot(world, 0, 1, 1, 7, 0);
    reserve_slot(world, 0, 1, 1, 8, 1);
    assert_int_equal(slots[0].state, LEASE_RESERVED);
    reserve_slot(world, 0, 2, 2, 7, 2);
    assert_int_equal(slots[0].state, LEASE_FREE);
    assert_int_equal(slots[1].state, LEASE_RESERVED); /* of another experiment */
    assert_int_equal(slots[2].state, LEASE_RESERVED);
    reserve_slot(world, 0, 2, 2, 7, 0); /* more of the same claim returns nothing */
    assert_int_equal(slots[2].state, LEASE_RESERVED);
    world_free(world);
}

/* The daemon of one dies, then the coordinator falls silent, then the first, back meanwhile, falls silent as well: the third
 * may be cut off by now, and waits. (Seed 5886 of the simulator.) */
static void who_is_suspect_once_more_has_fallen_silent_too(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = story_begin(world, 3, 5);
    uint32_t left = coordinator == 0 ? 1 : 0, other = 3 - coordinator - left;
    const char *names[] = {world->nodes[0].person.name, world->nodes[1].person.name, world->nodes[2].person.name};
    char line[64];
    world->nodes[left].disk_refuses = true; /* so that it claims when all this has happened */
    size_t before = world->log_bytes;
    world_crash(world, other);
    snprintf(line, sizeof line, "%s: %s is dead", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));
    world->nodes[coordinator].is_cut = true;
    snprintf(line, sizeof line, "%s: %s is dead", names[left], names[coordinator]);
    assert_true(world_run_until(world, 20000, before, line));
    world_run(world, CORE_REFUTE_MS);
    before = world->log_bytes;
    world_restart(world, other, true);
    snprintf(line, sizeof line, "%s: %s is alive", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));
    world->nodes[other].is_cut = true;
    snprintf(line, sizeof line, "%s: %s is suspect", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));

    world->nodes[left].disk_refuses = false;
    before = world->log_bytes;
    snprintf(line, sizeof line, "%s: coordinates exp", names[left]);
    assert_true(world_run_until(world, 2000, before, line));
    assert_int_equal(swim_state_of(&world->nodes[left].core->members->swim, world->nodes[other].person.id), SWIM_SUSPECT);
    world_run(world, 60000);
    snprintf(line, sizeof line, "%s> persist verdict", names[left]);
    assert_int_equal(world_count(world, line), 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_death_of_a_coordinator_starts_nothing_twice),
        cmocka_unit_test(a_restarted_coordinator_goes_on_with_a_new_term),
        cmocka_unit_test(a_coordinator_whose_claim_is_replaced_by_an_earlier_one_claims_anew),
        cmocka_unit_test(whom_all_others_take_for_the_coordinator_does_not_wait_for_its_turn),
        cmocka_unit_test(a_drained_node_that_is_taken_for_the_coordinator_hands_over_at_once),
        cmocka_unit_test(of_two_who_doubt_a_claim_one_coordinates),
        cmocka_unit_test(owners_refuse_lower_claims_and_remember_the_highest),
        cmocka_unit_test(a_higher_claim_returns_what_a_lower_one_has_reserved),
        cmocka_unit_test(who_is_suspect_once_more_has_fallen_silent_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Groups that are cut into pieces, and words about a group that are not obeyed or not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/owner/owner.h"
#include "tests/scenario/core_elastic.h"

/* ---- partitions ----------------------------------------------------------------------------------------------------------- */

static void the_larger_side_of_a_group_goes_on_and_the_other_waits_until_the_heal(void **state)
{
    (void)state;
    struct world *world = group_of(5, 2);
    cut(world, 2);
    uint32_t generation = assert_group_after(world, 40000, 1, 3);
    assert_trains(world);
    world_run(world, 120000);
    assert_int_equal(in_generation(world, generation), 3);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(running(world, 0) + running(world, 1), 2); /* they wait, with what they have in memory */
    assert_one_attempt(world, 5, 0);
    heal(world);
    world_run(world, 40000);
    assert_int_equal(in_generation(world, 0), 5); /* their slots are used again */
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 7);
    assert_trains(world);
    world_free(world);
}

static void of_a_group_cut_in_halves_the_side_of_its_lowest_rank_goes_on(void **state)
{
    (void)state;
    struct world *world = group_of(4, 1);
    uint32_t first = worker_on(world, 0)->rank == 0 || worker_on(world, 1)->rank == 0 ? 0 : 2;
    cut(world, 2);
    world_run(world, 60000);
    assert_int_equal(in_generation(world, 0), 2);
    for (uint32_t i = 0; i < 4; i++) {
        bool is_ours = i / 2 == first / 2;
        assert_int_equal(worker_on(world, i)->runs, true);
        assert_int_equal(worker_on(world, i)->group_size, is_ours ? 2 : 0);
    }
    assert_one_attempt(world, 4, 0);
    assert_trains(world);
    heal(world);
    world_run(world, 40000);
    assert_int_equal(in_generation(world, 0), 4);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

static void a_group_of_which_no_piece_is_large_enough_waits_and_goes_on_after_the_heal(void **state)
{
    (void)state;
    struct world *world = group_of(5, 1);
    for (uint32_t i = 0; i < 5; i++) {
        world->nodes[i].side = i / 2;
    }
    world_run(world, 120000);
    assert_int_equal(in_generation(world, 0), 0);
    assert_one_attempt(world, 5, 0);
    heal(world);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 5);
    assert_one_attempt(world, 5, 0);
    assert_trains(world);
    world_free(world);
}

/* ---- who is not obeyed, and who is not believed --------------------------------------------------------------------------- */

static void a_group_key_under_a_lower_term_is_refused(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t old = (uint32_t)world_coordinator(world);
    world_crash(world, old);
    world_run(world, 25000);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    uint32_t owner = 3 - old - (uint32_t)coordinator;
    struct core_worker *worker = &world->nodes[owner].core->owner->workers[0];
    uint8_t key[MESSAGE_KEY_BYTES];
    memcpy(key, worker->group_key, sizeof key);
    uint32_t generation = worker->key_generation;
    const struct view_attempt *attempt = attempt_of(world, owner, 0);
    struct message message = {.kind = MESSAGE_GROUP, .boot = world->nodes[old].core->options.boot};
    message.u.lease.attempt = attempt->id;
    message.u.lease.claim = (struct election_claim){attempt->id.term, attempt->id.coordinator};
    message.u.lease.generation = 7;
    message.u.lease.group_key[0] = 0xee;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[old].person.id;
    event.u.message.message = &message;
    uint64_t refused = world->nodes[owner].core->counters.stale_refused;
    world_step(world, owner, &event);
    assert_int_equal(world->nodes[owner].core->counters.stale_refused, refused + 1);
    assert_memory_equal(worker->group_key, key, sizeof key);
    assert_int_equal(worker->key_generation, generation);
    world_free(world);
}

static void a_generation_that_its_coordinator_did_not_make_is_entered_by_nobody(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t stranger = follower(world, 0), coordinator = (uint32_t)world_coordinator(world);
    const struct view_attempt *attempt = attempt_of(world, coordinator, 0);
    struct fact_generation fact;
    memset(&fact, 0, sizeof fact);
    fact.generation = 2;
    fact.term = 1;
    fact.start_step = 5;
    fact.member_count = attempt->member_count;
    memcpy(fact.members, attempt->members, attempt->member_count * sizeof fact.members[0]);
    struct made made;
    make_record(&made, world->nodes[stranger].person.id, world->nodes[stranger].core->options.boot, 1u << 20,
                FACT_GENERATION, fact_key_verdict(&attempt->id), &fact);
    for (uint32_t i = 0; i < 3; i++) {
        if (i != stranger) {
            world_deliver(world, stranger, i, &made);
        }
    }
    (void)assert_group_after(world, 10000, 2, 3); /* the coordinator makes the next one, since nobody has the key of that */
    assert_int_equal(world_count(world, "> enter generation 2 "), 0);
    assert_int_equal(world_count(world, "rank 0 of 3 from step 5"), 0);
    assert_one_attempt(world, 3, 0);
    assert_trains(world);
    world_free(world);
}

/* The disk of a node says that its worker was in generation 9, which nobody else has heard of: all records of it are lost. */
static void a_group_whose_record_nobody_has_is_given_up(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    const struct world_worker *worker = worker_on(world, node);
    struct fact_key key = fact_key_worker(&worker->attempt, worker->number);
    world_die(world, node);
    uint32_t altered = 0;
    for (uint32_t i = 0; i < world->nodes[node].record_count; i++) {
        struct made *made = &world->nodes[node].records[i];
        struct record record;
        struct fact_worker fact;
        assert_int_equal(record_decode(made->bytes, made->count, &record), 0);
        if (record.kind == FACT_WORKER && node_id_equal(record.writer, world->nodes[node].person.id)) {
            assert_int_equal(fact_worker_read(&record, &fact), 0);
            fact.generation = 9;
            make_record(made, world->nodes[node].person.id, record.version.boot, record.version.seq + 1, FACT_WORKER, key, &fact);
            altered++;
        }
    }
    assert_int_equal(altered, 1);
    world->nodes[node].is_cut = false;
    world_restart(world, node, false);
    assert_line(world, 60000, "attempt 1: lost, the record of its last group is lost");
    assert_line(world, 30000, "> spawn trial 0 attempt 2");
    world_free(world);
}

static void a_worker_that_names_a_generation_to_come_is_taken_to_have_left_its_own(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    struct world_worker *worker = worker_on(world, node);
    worker->group_size = 0;
    world_listens(world, node, 0, 1000, true, worker->applied);
    assert_group(world, 10000, 2, 3);
    assert_one_attempt(world, 3, 0);
    assert_trains(world);
    world_free(world);
}

static void a_step_that_goes_back_is_taken_at_its_word(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t victim = follower(world, 0);
    for (uint32_t i = 0; i < 3; i++) {
        worker_on(world, i)->applied = 3;
    }
    world_end_worker(world, victim, 0, -9);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "of 2 from step 3 states 11"), 2);
    for (uint32_t i = 0; i < 3; i++) { /* what was made beyond is void, and nobody is told of it any more */
        const struct view_worker *first = view_attempt_worker(attempt_of(world, i, 0), 0);
        assert_true(first->step <= 13);
    }
    world_free(world);
}

/* Both that are left say so, and the checkpoint that the attempt began with is not that of the group's step. */
static void a_group_of_which_nobody_has_the_state_any_more_ends(void **state)
{
    (void)state;
    struct world *world = group_of(3, 1);
    world_end_worker(world, follower(world, 0), 0, -9);
    assert_group(world, 5000, 2, 2); /* begins at a step that is not the attempt's first */
    uint32_t lost = follower(world, 1), left = (uint32_t)world_coordinator(world);
    worker_on(world, left)->has_state = false; /* the other one was about to hand it over */
    world_end_worker(world, lost, 0, -9);
    assert_line(world, 10000, "persist verdict lost");
    assert_int_equal(world_count(world, "states 0\n"), 0);
    world_run(world, 10000);
    assert_true(world_count(world, "> spawn trial 0 attempt 2") > 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_larger_side_of_a_group_goes_on_and_the_other_waits_until_the_heal),
        cmocka_unit_test(of_a_group_cut_in_halves_the_side_of_its_lowest_rank_goes_on),
        cmocka_unit_test(a_group_of_which_no_piece_is_large_enough_waits_and_goes_on_after_the_heal),
        cmocka_unit_test(a_group_key_under_a_lower_term_is_refused),
        cmocka_unit_test(a_generation_that_its_coordinator_did_not_make_is_entered_by_nobody),
        cmocka_unit_test(a_group_whose_record_nobody_has_is_given_up),
        cmocka_unit_test(a_worker_that_names_a_generation_to_come_is_taken_to_have_left_its_own),
        cmocka_unit_test(a_step_that_goes_back_is_taken_at_its_word),
        cmocka_unit_test(a_group_of_which_nobody_has_the_state_any_more_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

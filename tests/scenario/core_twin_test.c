/* Stories of data directories that were copied: two daemons with one key, of which one becomes another node. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/twin.h"
#include "tests/scenario/core_story.h"

#define TWICE "THIS NODE'S KEY IS IN USE TWICE"

/* All who are up know all others, alive, where they are, and nobody is out. */
static void assert_whole(const struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        assert_true(world->nodes[i].is_up);
        assert_false(world->nodes[i].core->is_out);
        assert_int_equal(world->nodes[i].core->counters.equivocations, 0);
        for (uint32_t j = 0; j < world->node_count; j++) {
            const struct view_member *member = member_at(world, i, j);
            assert_non_null(member);
            assert_true(member->admitted);
            assert_string_equal(member->addresses[0], world->nodes[j].address);
            assert_true(core_node_trusted(world->nodes[i].core, member->id));
        }
    }
}

static void a_copy_becomes_another_node_beside_the_one_that_runs(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 3, 5);
    node_id original = world->nodes[1].person.id;
    uint32_t copy = world_copy(world, 1);
    world_restart(world, copy, false);
    assert_line(world, 20000, "copy: " TWICE);
    assert_line(world, 5000, "b: " TWICE);
    assert_line(world, 20000, "copy> become another node");
    world_run(world, 10000);
    assert_true(node_id_equal(world->nodes[1].person.id, original));
    assert_false(node_id_equal(world->nodes[copy].person.id, original));
    assert_whole(world);
    assert_int_equal(world_count(world, "become another node"), 1);
    assert_int_equal(running(world, copy), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(running(world, i), 1);
    }
    world_free(world);
}

/* The copy judged the attempt, too, and under a later boot; nobody else has heard the result (sim --plan 6 --seed 30666). */
static void a_result_outlives_what_a_copy_of_its_coordinator_says(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_crash(world, 1);
    world_run(world, 10000);
    story_submit(world, 0, 1, 0);
    world->program = WORLD_RUNS_2S;
    assert_line(world, 20000, "a: exp trial 0 attempt 1: completed");
    attempt_id id = view_find_trial(world_experiment(world, 0), 0)->attempts->id;
    struct fact_verdict lost = {.reason = FACT_LOST};
    struct made made;
    make_record(&made, world->nodes[0].person.id, 9ull << 32, 1, FACT_VERDICT, fact_key_verdict(&id), &lost);
    world_deliver(world, 1, 0, &made);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_run(world, 5000);
    world_crash(world, 0);
    world_restart(world, 0, true);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* It is deaf, since the other has its name, and does not wait to hear from others. */
static void a_copy_that_yields_leaves_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 3, 5);
    uint32_t copy = world_copy(world, 1);
    world_restart(world, copy, false);
    assert_line(world, 20000, "copy: " TWICE);
    size_t before = world->log_bytes;
    world_request(world, copy, NODE_REQUEST_LEAVE);
    assert_true(world_run_until(world, 3000, before, "copy> reply"));
    world_free(world);
}

static void the_one_that_runs_becomes_another_node_if_its_life_is_the_larger(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 3, 5);
    uint32_t copy = world_copy(world, 1);
    for (int i = 0; i < 3; i++) {
        world_crash(world, 1);
        world_restart(world, 1, true);
        world_run(world, 2000);
    }
    assert_int_equal(running(world, 1), 1);
    node_id original = world->nodes[1].person.id;
    size_t before = world->log_bytes;
    world_restart(world, copy, false);
    assert_true(world_run_until(world, 20000, before, "b: " TWICE));
    assert_true(world_run_until(world, 20000, before, "b> become another node"));
    world_run(world, 30000);
    assert_true(node_id_equal(world->nodes[copy].person.id, original));
    assert_false(node_id_equal(world->nodes[1].person.id, original));
    assert_whole(world);
    assert_int_equal(world_count(world, "become another node"), 1);
    uint32_t workers = 0;
    for (uint32_t i = 0; i < 4; i++) {
        workers += running(world, i);
    }
    assert_int_equal(workers, 3); /* what it ran goes on elsewhere */
    world_free(world);
}

static void a_copy_that_takes_over_from_a_dead_node_goes_on(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    uint32_t copy = world_copy(world, 1);
    world_crash(world, 1);
    world_run(world, 10000);
    world_restart(world, copy, false);
    world_run(world, 30000);
    assert_int_equal(world_count(world, TWICE), 0);
    assert_string_equal(member_at(world, 0, copy)->addresses[0], world->nodes[copy].address);
    assert_true(core_node_trusted(world->nodes[0].core, world->nodes[copy].person.id));
    world_restart(world, 1, false);
    world_run(world, 30000);
    assert_int_equal(world_count(world, "become another node"), 1);
    assert_whole(world);
    world_free(world);
}

static void say_twin(struct world *world, uint32_t to, node_id from, uint64_t life, const char *address)
{
    struct message message = {.kind = MESSAGE_TWIN, .boot = 77};
    message.u.twin.life = life;
    bytes_copy_text(message.u.twin.address, sizeof message.u.twin.address, address);
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = from;
    event.u.message.message = &message;
    world_step(world, to, &event);
}

static void the_word_of_a_member_proves_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    size_t before = world->log_bytes;
    say_twin(world, 1, world->nodes[0].person.id, 0, "nowhere:1");
    assert_true(world_find(world, before, "b> send twin") == SIZE_MAX); /* nobody is there */
    assert_true(world->nodes[1].core->twin->has_link);
    assert_true(world_run_until(world, 10000, before, "b> disconnect"));
    say_twin(world, 1, world->nodes[0].person.id, 0, world->nodes[1].address); /* its own */
    assert_false(world->nodes[1].core->twin->has_link);
    say_twin(world, 1, world->nodes[0].person.id, 0, world->nodes[2].address); /* somebody else's */
    world_run(world, 20000);
    assert_int_equal(world_count(world, TWICE), 0);
    assert_false(world->nodes[1].core->is_out);
    world_free(world);
}

static void ones_own_word_that_comes_back_is_no_twin(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    say_twin(world, 1, world->nodes[1].person.id, world->nodes[1].core->first_boot, "another.address.of.mine:1");
    world_run(world, 5000);
    assert_int_equal(world_count(world, TWICE), 0);
    assert_int_equal(world->nodes[1].core->twin->life, 0);
    world_free(world);
}

static void who_yields_goes_on_if_the_other_falls_silent_before(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 3, 5);
    say_twin(world, 1, world->nodes[1].person.id, 1, "nowhere:1");
    assert_true(world->nodes[1].core->is_out);
    world_request(world, 1, NODE_REQUEST_INVITE);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_non_null(strstr(world->reply.text, "becoming another node"));
    world_run(world, 1000);
    assert_int_equal(running(world, 1), 0);
    assert_line(world, 20000, "b: the other daemon with this key has been silent for 15 s: this one goes on as it was");
    world_run(world, 30000);
    assert_int_equal(world_count(world, "become another node"), 0);
    assert_false(world->nodes[1].core->is_out);
    assert_false(world->nodes[1].core->twin->has_link);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(running(world, i), 1); /* it gets work again */
    }
    world_free(world);
}

/* The new key of a node that then went on as it was: nobody runs with it, so somebody evicts it. Found by storms over real
 * daemons (seed 103). */
static void a_new_key_that_was_evicted_meanwhile_is_not_taken(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    say_twin(world, 1, world->nodes[1].person.id, 1, "nowhere:1");
    assert_line(world, 20000, "b: the other daemon with this key has been silent for 15 s: this one goes on as it was");
    world_run(world, 10000);
    node_id unused = node_id_of_key(make_person(WORLD_NODES_MAX + 1).public_key);
    assert_true(view_find_member(&world->nodes[0].core->view, unused)->admitted);
    struct node_event evict = {.kind = NODE_EVENT_REQUEST};
    evict.u.request.kind = NODE_REQUEST_EVICT;
    evict.u.request.client = 2;
    evict.u.request.node = unused;
    world_step(world, 0, &evict);
    world_run(world, 5000);
    uint32_t copy = world_copy(world, 1);
    for (int i = 0; i < 3; i++) {
        world_crash(world, 1);
        world_restart(world, 1, true);
        world_run(world, 2000);
    }
    size_t before = world->log_bytes;
    world_restart(world, copy, false);
    assert_true(world_run_until(world, 20000, before, "b> become another node"));
    world_run(world, 30000);
    assert_false(node_id_equal(world->nodes[1].person.id, unused));
    assert_int_equal(world_count(world, "b> new key"), 3);
    assert_whole(world);
    world_free(world);
}

static void a_restart_while_it_yields_finds_the_same_new_key(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    uint32_t copy = world_copy(world, 1);
    world_restart(world, copy, false);
    assert_line(world, 20000, "copy: " TWICE);
    world_run(world, 0);
    world_crash(world, copy);
    assert_int_equal(world_count(world, "copy> persist member"), 1);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "become another node"), 0);
    world_restart(world, copy, false);
    assert_line(world, 30000, "copy> become another node");
    world_run(world, 10000);
    assert_int_equal(world_count(world, "copy> persist member"), 1); /* vouched for once */
    assert_whole(world);
    world_free(world);
}

static void who_stays_is_not_moved_by_the_others_records(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    uint32_t copy = world_copy(world, 1);
    world->nodes[copy].boots += 10; /* it was started often, elsewhere */
    world->nodes[1].is_cut = true;
    world_run(world, 10000); /* dead to the others: the copy takes its place with newer records */
    world_restart(world, copy, false);
    world_run(world, 10000);
    assert_string_equal(member_at(world, 0, copy)->addresses[0], world->nodes[copy].address);
    world->nodes[1].is_cut = false;
    assert_line(world, 30000, "b: " TWICE);
    assert_line(world, 30000, "copy> become another node");
    world_run(world, 20000);
    assert_whole(world);
    assert_int_equal(world_count(world, "become another node"), 1);
    world_free(world);
}

/* sim --seed 30199 */
static void a_coordinator_whose_claim_an_earlier_life_replaces_takes_a_new_term(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t leader = story_begin(world, 3, 5);
    world_crash(world, leader);
    world_restart(world, leader, true);
    assert_line(world, 10000, "coordinates exp with term 2");
    struct made made;
    struct fact_claim claim = {.term = 1};
    make_record(&made, world->nodes[leader].person.id, 9ull << 32, 1, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)),
                &claim);
    world_deliver(world, (leader + 1) % 3, leader, &made);
    assert_line(world, 5000, "coordinates exp with term 3");
    world_run(world, 3000);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t term = 0;
        for (const struct view_claim *row = world_experiment(world, i)->claims; row != NULL; row = row->next) {
            term = row->fact.term > term ? row->fact.term : term;
        }
        assert_int_equal(term, 3);
        assert_int_equal(running(world, i), 1); /* it costs training nothing */
    }
    assert_int_equal(world_spawns(world), 3);
    world_free(world);
}

/* Both daemons with the coordinator's key make an attempt of one name, which begin at different steps: a worker for whom one is
 * prepared does not begin as the other one says. (sim --seed 251654) */
static void a_worker_begins_with_what_was_prepared_for_it_or_not_at_all(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->prepare_ms = 4000;
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> prepare trial 0 attempt 1 rank 1");
    const struct view_attempt *attempt = view_trial_highest(view_find_trial(world_experiment(world, 0), 0));
    struct fact_attempt fact = {.member_count = attempt->member_count, .start_step = 30, .checkpoint_bytes = 1000};
    fact.checkpoint.bytes[0] = 1;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        fact.members[rank].node = attempt->members[rank].node;
        fact.members[rank].slot = attempt->members[rank].slot;
    }
    struct made made;
    uint32_t owner = 0;
    while (!node_id_equal(world->nodes[owner].person.id, fact.members[1].node)) {
        owner++;
    }
    make_record(&made, attempt->id.coordinator, 9ull << 32, 1, FACT_ATTEMPT, fact_key_attempt(&attempt->id), &fact);
    world_deliver(world, (owner + 1) % 3, owner, &made);
    world_run(world, 5000);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 1 rank 1"), 0);
    assert_line(world, 10000, "trial 0 attempt 1: lost, ");
    assert_line(world, 30000, "> spawn trial 0 attempt 2 rank 1");
    world_free(world);
}

static void who_writes_two_records_of_one_version_gets_no_work(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    struct made made;
    struct fact_node node = make_node(&world->nodes[2].person, 1);
    uint64_t boot = 9ull << 32;
    make_record(&made, world->nodes[2].person.id, boot, 1, FACT_NODE, fact_key_empty(), &node);
    world_deliver(world, 1, 0, &made);
    world_deliver(world, 0, 1, &made);
    bytes_copy_text(node.version, sizeof node.version, "9.9.8");
    make_record(&made, world->nodes[2].person.id, boot, 1, FACT_NODE, fact_key_empty(), &node);
    world_deliver(world, 1, 0, &made);
    world_deliver(world, 0, 1, &made);
    assert_line(world, 0, "a: two records of one version by c differ");
    assert_true(core_quarantine_is_false(world->nodes[0].core, world->nodes[2].person.id));
    assert_false(core_quarantine_is_false(world->nodes[0].core, world->nodes[1].person.id));
    world_deliver(world, 1, 0, &made);
    assert_int_equal(world_count(world, "a: two records of one version"), 1);
    story_submit(world, 0, 2, 5);
    world_run(world, 10000);
    assert_int_equal(world_spawns(world), 2);
    assert_true(world_coordinator(world) == 0 || world_coordinator(world) == 1);
    assert_int_equal(running(world, 0), 1);
    assert_int_equal(running(world, 1), 1);
    assert_int_equal(running(world, 2), 0);
    world_free(world);
}

/* The one that should stay hears a late word of an earlier life of the other, smaller than its own, when the other has
 * begun to yield to it. */
static void of_two_that_yield_to_each_other_one_stays(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    uint32_t copy = world_copy(world, 1);
    node_id original = world->nodes[1].person.id;
    world_restart(world, copy, false);
    assert_line(world, 20000, "copy: " TWICE);
    say_twin(world, 1, original, 1, world->nodes[copy].address);
    assert_true(world->nodes[1].core->is_out && world->nodes[copy].core->is_out);
    assert_line(world, 60000, "copy> become another node");
    world_run(world, 10000);
    assert_int_equal(world_count(world, "become another node"), 1);
    assert_true(node_id_equal(world->nodes[1].person.id, original));
    assert_whole(world);
    world_free(world);
}

static void report_result(struct world *world, uint32_t node, const attempt_id *attempt)
{
    struct node_event event = {.kind = NODE_EVENT_WORKER_RESULT};
    event.u.worker.attempt = *attempt;
    event.u.worker.step = event.u.worker.length = 100;
    event.u.worker.metric = 0.5;
    world_step(world, node, &event);
}

/* The coordinator came back with an old disk, has drawn the trial anew, and uses the id of the attempt again. */
static void a_worker_ends_whose_attempt_has_other_values_by_now(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.searcher = SEARCH_TPE;
    config.max_time = 100;
    bytes_copy_text(config.time_metric, sizeof config.time_metric, "steps");
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 0");
    uint32_t owner = running(world, 0) > 0 ? 0 : 1;
    const struct view_attempt *attempt = view_trial_highest(view_find_trial(world_experiment(world, owner), 0));
    const attempt_id id = attempt->id;
    assert_int_equal(attempt->point_count, 1);
    struct fact_attempt fact = {.member_count = 1, .draw = {.count = 1, .parent = FACT_NO_TRIAL, .point = {0.0123}}};
    fact.members[0] = (struct fact_assignment){attempt->first[0].node, attempt->first[0].slot};
    struct made made;
    world_crash(world, owner);
    world_restart(world, owner, true); /* the worker lives on, and the daemon knows its values */
    world_run(world, 5000);
    assert_int_equal(running(world, owner), 1);
    size_t before = world->log_bytes;
    make_record(&made, id.coordinator, 9ull << 32, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
    world_deliver(world, 1 - owner, owner, &made);
    assert_true(world_find(world, before, "has other values by now") != SIZE_MAX);
    report_result(world, owner, &id);
    assert_null(view_find_attempt(&world->nodes[owner].core->view, &id)->results);
    assert_line(world, 30000, "> spawn trial 0 attempt 2 rank 0");
    attempt_id second = view_trial_highest(view_find_trial(world_experiment(world, owner), 0))->id;
    owner = running(world, 0) > 0 ? 0 : 1;
    report_result(world, owner, &second);
    attempt = view_find_attempt(&world->nodes[owner].core->view, &second);
    assert_non_null(attempt->results);
    assert_true(attempt->results->fact.draw != 0 && attempt->results->fact.draw == view_attempt_draw(attempt));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_becomes_another_node_beside_the_one_that_runs),
        cmocka_unit_test(a_copy_that_yields_leaves_at_once),
        cmocka_unit_test(a_result_outlives_what_a_copy_of_its_coordinator_says),
        cmocka_unit_test(the_one_that_runs_becomes_another_node_if_its_life_is_the_larger),
        cmocka_unit_test(a_copy_that_takes_over_from_a_dead_node_goes_on),
        cmocka_unit_test(the_word_of_a_member_proves_nothing),
        cmocka_unit_test(ones_own_word_that_comes_back_is_no_twin),
        cmocka_unit_test(who_yields_goes_on_if_the_other_falls_silent_before),
        cmocka_unit_test(a_new_key_that_was_evicted_meanwhile_is_not_taken),
        cmocka_unit_test(a_restart_while_it_yields_finds_the_same_new_key),
        cmocka_unit_test(who_stays_is_not_moved_by_the_others_records),
        cmocka_unit_test(a_coordinator_whose_claim_an_earlier_life_replaces_takes_a_new_term),
        cmocka_unit_test(a_worker_begins_with_what_was_prepared_for_it_or_not_at_all),
        cmocka_unit_test(a_worker_ends_whose_attempt_has_other_values_by_now),
        cmocka_unit_test(who_writes_two_records_of_one_version_gets_no_work),
        cmocka_unit_test(of_two_that_yield_to_each_other_one_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

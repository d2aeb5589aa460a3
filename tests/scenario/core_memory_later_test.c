/* What memory has no room for is said, copied or begun later: once, and as soon as there is some. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/pack.h"
#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"
#include "node/core/members/quarantine.h"
#include "node/core/owner/slots.h"
#include "tests/scenario/core_memory.h"

/* Two nodes with one slot each, and one worker, which runs on `owner`. */
static struct world *begin_one(uint32_t *owner)
{
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    *owner = running(world, 0) == 1 ? 0 : 1;
    return world;
}

/* Just before its end a worker reports so much that its record grows. */
static void report(struct world *world, uint32_t node, uint32_t slot)
{
    uint8_t metrics[512];
    struct pack_writer writer;
    pack_writer_init(&writer, metrics, sizeof metrics);
    char name[65] = {0};
    pack_map(&writer, 4);
    for (char i = 0; i < 4; i++) {
        memset(name, 'a' + i, 64);
        pack_text(&writer, name);
        pack_double(&writer, 1);
    }
    struct node_event event = {.kind = NODE_EVENT_WORKER_STATUS, .bytes = metrics, .byte_count = (uint32_t)writer.used_bytes};
    event.u.worker.slot = slot;
    event.u.worker.attempt = world->nodes[node].workers[slot].attempt;
    event.u.worker.step = 1000;
    world_step(world, node, &event);
}

/* It has saved step 777. */
static void hand_over(struct world *world, uint32_t owner)
{
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
    event.u.blob.step = 777;
    event.u.blob.blob = checkpoint();
    event.u.blob.bytes = 1000;
    world_step(world, owner, &event);
}

static void how_a_worker_ended_is_said_once_there_is_memory(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    struct taken *all = take_to_the_last(&core->arena);
    report(world, owner, 0);
    world_end_worker(world, owner, 0, 0);
    world_run(world, 20000);
    assert_int_equal(view_experiment_state(world_experiment(world, owner)), VIEW_RUNNING);
    assert_int_equal(world_spawns(world), 1);
    give_all(&core->arena, all);
    world_run(world, 5000);
    assert_int_equal(view_experiment_state(world_experiment(world, owner)), VIEW_COMPLETED);
    assert_int_equal(world_spawns(world), 1);
    assert_int_equal(core->owner->lease.slots[0].state, LEASE_FREE);
    assert_true(core_owner_idle(core));
    world_free(world);
}

/* And so does its verdict. */
static void how_a_worker_ended_takes_of_the_reserve(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    struct taken *all = take_all(&core->arena);
    report(world, owner, 0);
    world_end_worker(world, owner, 0, 0);
    world_run(world, 5000);
    assert_int_equal(view_experiment_state(world_experiment(world, owner)), VIEW_COMPLETED);
    assert_int_equal(world_spawns(world), 1);
    give_all(&core->arena, all);
    world_free(world);
}

static void a_worker_begins_once_there_is_memory_to_say_that_it_is_prepared(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct config config;
    make_config(&config, 1, 5);
    world->program = WORLD_RUNS_2S;
    world_start_all(world);
    world_submit(world, 0, &config);
    world->disk_ms = 50;
    struct node_core *core = world->nodes[0].core;
    while (core->owner->workers[0].phase != CORE_WORKER_CONFIRMED) {
        assert_int_equal(world_spawns(world), 0);
        world_run(world, 1);
    }
    struct taken *all = take_to_the_last(&core->arena);
    world_run(world, 10000);
    assert_int_equal(core->owner->workers[0].phase, CORE_WORKER_PREPARED);
    give_all(&core->arena, all);
    world_run(world, 10000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    assert_int_equal(world_spawns(world), 1);
    world_free(world);
}

/* Of it nobody asks any more. */
static void an_end_that_is_unsaid_goes_with_its_experiment(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    const size_t sizes[] = {128, 128, 256}; /* for the tombstone, and too small for the worker's record */
    void *left[3];
    for (uint32_t i = 0; i < 3; i++) {
        left[i] = arena_take(&core->arena, sizes[i]);
    }
    struct taken *all = take_to_the_last(&core->arena);
    report(world, owner, 0);
    world_end_worker(world, owner, 0, 0);
    world_run(world, 5000);
    assert_false(core_owner_idle(core));
    for (uint32_t i = 0; i < 3; i++) {
        arena_give(&core->arena, left[i], sizes[i]);
    }
    request(world, 1 - owner, NODE_REQUEST_DELETE, 0);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_true(core_owner_idle(core));
    assert_int_equal(core->owner->lease.slots[0].state, LEASE_FREE);
    give_all(&core->arena, all);
    world_free(world);
}

static void what_a_worker_has_saved_is_said_once_there_is_memory(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    world->push_ms = 100;
    hand_over(world, owner);
    struct taken *all = take_to_the_last(&core->arena);
    world_run(world, 5000); /* its copy is made */
    assert_null(view_find_trial(world_experiment(world, owner), 0)->manifests);
    give_all(&core->arena, all);
    world_run(world, 5000);
    const struct view_manifest *row = view_find_trial(world_experiment(world, 1 - owner), 0)->manifests;
    assert_true(row != NULL && row->step == 777 && row->durable);
    assert_line(world, 0, owner == 0 ? "a> durable trial 0 attempt 1 rank 0 slot 0" : "b> durable trial 0 attempt 1 rank 0 slot 0");
    assert_null(core->copies->pushes);
    world_free(world);
}

/* A record is smaller than what is to be remembered while copies are made. */
static void what_a_worker_has_saved_is_copied_once_there_is_memory(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    const size_t sizes[] = {128, 128, 256, 256};
    void *left[4];
    for (uint32_t i = 0; i < 4; i++) {
        left[i] = arena_take(&core->arena, sizes[i]);
    }
    struct taken *all = take_to_the_last(&core->arena);
    for (uint32_t i = 0; i < 4; i++) {
        arena_give(&core->arena, left[i], sizes[i]);
    }
    hand_over(world, owner);
    world_run(world, 5000);
    give_all(&core->arena, all);
    world_run(world, 10000);
    const struct view_manifest *row = view_find_trial(world_experiment(world, 1 - owner), 0)->manifests;
    assert_true(row != NULL && row->step == 777 && row->durable);
    world_free(world);
}

/* It was acknowledged, so it holds after a restart with little memory, also if nothing else of its trial is loaded. */
static void a_stop_is_loaded_though_memory_is_full(void **state)
{
    (void)state;
    enum { TRIAL = 1999 }; /* the last one on the disk */
    struct world *world = world_new(1, 1);
    store_more_than_is_loaded(world);
    struct fact_stop stop = {.lamport = 1, .stopped = true};
    struct fact_key key = fact_key_trial(make_experiment_id(1), TRIAL);
    struct made made;
    make_record(&made, make_person(4).id, 99, 5000, FACT_STOP, key, &stop);
    world_store(world, 0, &made);
    world_start_all(world);
    const struct node_core *core = world->nodes[0].core;
    attempt_id attempt = attempt_of(1, TRIAL);
    struct fact_key other = fact_key_verdict(&attempt);
    assert_null(records_find(&core->records, record_ident_of(attempt.coordinator, FACT_VERDICT, other.bytes, other.count)));
    assert_non_null(records_find(&core->records, record_ident_of(make_person(4).id, FACT_STOP, key.bytes, key.count)));
    world_free(world);
}

static void what_a_node_has_is_said_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(1, 2);
    store_more_than_is_loaded(world);
    world_start_all(world);
    assert_int_equal(member_at(world, 0, 0)->slot_count, 0);
    request(world, 0, NODE_REQUEST_DELETE, 1);
    world_run(world, 10000);
    assert_int_equal(member_at(world, 0, 0)->slot_count, 2);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_non_null(view_member_slot(member_at(world, 0, 0), slot));
        assert_int_equal(view_member_slot(member_at(world, 0, 0), slot)->state, LEASE_FREE);
    }
    assert_in_range(world_count(world, "a> persist slot 0 free"), 1, 2); /* again if its row was folded late */
    assert_in_range(world_count(world, "a> persist slot 1 free"), 1, 2); /* again if its row was folded late */
    world_free(world);
}

static void a_quarantine_is_said_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].fails_programs = true;
    world_start_all(world);
    struct config config;
    make_config(&config, 400, 5);
    world_submit(world, 0, &config);
    struct node_core *core = world->nodes[1].core;
    for (uint32_t i = 0; core->quarantine->young_failure_count < CORE_QUARANTINE_TRIALS; i++) {
        assert_in_range(i, 0, 60000);
        world_run(world, 1);
    }
    struct taken *all = take_all(&core->arena);
    world_run(world, 10000);
    assert_true(core->quarantine->own.is_active);
    assert_false(member_at(world, 0, 1)->quarantine.is_active);
    give_all(&core->arena, all);
    world_run(world, 5000);
    assert_true(member_at(world, 0, 1)->quarantine.is_active);
    world_run(world, 60000);
    assert_line(world, 0, "b: b is quarantined no more");
    world_free(world);
}

static void that_a_host_died_young_is_said_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world->now_ms += CORE_EARLY_END_MS; /* the machines have been up for longer than that */
    struct config config;
    make_config(&config, 1, 5);
    (void)story_begin_with(world, &config, 5000);
    uint32_t host = 0;
    while (running(world, host) == 0) {
        host++;
    }
    world_die(world, host);
    world_run(world, 9000); /* it is known to be dead, and not yet to have died alone */
    struct node_core *core = world->nodes[world_coordinator(world)].core;
    struct taken *all = take_all(&core->arena);
    world_run(world, 10000);
    assert_int_equal(world_count(world, "persist death"), 0);
    give_all(&core->arena, all);
    world_run(world, 2000);
    assert_int_equal(world_count(world, "persist death"), 1);
    assert_int_equal(world_count(world, " s after its start"), 1);
    world_free(world);
}

/* Words of an earlier life come back, one after the other. */
static void a_pause_that_is_said_again_without_memory_is_not_undone(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 5000);
    struct node_core *core = world->nodes[0].core;
    struct taken *all = take_to_the_last(&core->arena);
    for (uint64_t boot = 50; boot <= 100; boot += 50) {
        struct fact_control fact = {.lamport = boot};
        struct made made;
        make_record(&made, core->options.self, boot << 32, 1, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
        world_deliver(world, 1, 0, &made);
        world_run(world, 100);
    }
    give_all(&core->arena, all);
    world_run(world, 5000);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(view_experiment_paused(world_experiment(world, i)));
    }
    world_free(world);
}

static void a_verdict_is_told_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    (void)story_begin(world, 1, 5);
    struct node_core *core = world->nodes[0].core;
    struct taken *all = take_to_the_last(&core->arena);
    world_end_worker(world, 0, 0, 0);
    world_run(world, 5000);
    assert_int_equal(world_count(world, "a> persist worker ended completed"), 1);
    assert_int_equal(world_count(world, "every rank is done"), 0);
    give_all(&core->arena, all);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "every rank is done"), 1);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* The free slot tells as much. */
static void the_trial_of_a_worker_that_was_lost_goes_on_without_memory_to_say_so(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = story_begin(world, 2, 5), owner = 0;
    while (owner == coordinator || running(world, owner) == 0) {
        owner++;
    }
    struct node_core *core = world->nodes[owner].core;
    void *left[4];
    for (uint32_t i = 0; i < 4; i++) {
        left[i] = arena_take(&core->arena, sizeof(struct core_pending));
    }
    struct taken *all = take_to_the_last(&core->arena);
    report(world, owner, 0);
    for (uint32_t i = 0; i < 4; i++) {
        arena_give(&core->arena, left[i], sizeof(struct core_pending));
    }
    struct node_event event = {.kind = NODE_EVENT_WORKER_EXITED};
    event.u.worker.attempt = world->nodes[owner].workers[0].attempt;
    event.u.worker.killed = true;
    event.u.worker.code = -9;
    world->nodes[owner].workers[0].runs = false;
    world_step(world, owner, &event);
    world_run(world, 20000);
    assert_int_equal(world_spawns(world), 3);
    give_all(&core->arena, all);
    world_free(world);
}

static void who_leaves_does_not_wait_for_memory(void **state)
{
    (void)state;
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    world->push_ms = 100;
    hand_over(world, owner);
    struct taken *all = take_to_the_last(&core->arena);
    report(world, owner, 0);
    size_t before = world->log_bytes;
    world_request(world, owner, NODE_REQUEST_LEAVE);
    assert_true(world_run_until(world, 60000, before, "> reply"));
    give_all(&core->arena, all);
    world_free(world);
}

static void a_verdict_that_is_not_folded_is_said_once(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    (void)story_begin(world, 1, 5);
    struct node_core *core = world->nodes[0].core;
    const size_t sizes[] = {128, 256}; /* for the record, and nothing for its row */
    void *left[2];
    for (uint32_t i = 0; i < 2; i++) {
        left[i] = arena_take(&core->arena, sizes[i]);
    }
    struct taken *all = take_to_the_last(&core->arena);
    for (uint32_t i = 0; i < 2; i++) {
        arena_give(&core->arena, left[i], sizes[i]);
    }
    world_end_worker(world, 0, 0, 0);
    world_run(world, 5000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_RUNNING);
    give_all(&core->arena, all);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "every rank is done"), 1);
    assert_int_equal(world_count(world, "a> persist verdict"), 1);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* Whoever sees first that there is memory again. */
static void save_is_said_once(uint64_t full_ms, bool ends)
{
    uint32_t owner;
    struct world *world = begin_one(&owner);
    struct node_core *core = world->nodes[owner].core;
    world->push_ms = 100;
    hand_over(world, owner);
    struct taken *all = take_to_the_last(&core->arena);
    world_run(world, full_ms); /* its copy is made */
    give_all(&core->arena, all);
    if (ends) {
        world_end_worker(world, owner, 0, 0);
    }
    world_run(world, 5000);
    assert_int_equal(world_count(world, "persist manifest"), 1);
    world_free(world);
}

static void what_a_worker_has_saved_is_said_once(void **state)
{
    (void)state;
    save_is_said_once(5000, true);
    for (uint64_t full_ms = 5000; full_ms < 7000; full_ms += CORE_HOUSEKEEP_MS) {
        save_is_said_once(full_ms, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(how_a_worker_ended_is_said_once_there_is_memory),
        cmocka_unit_test(how_a_worker_ended_takes_of_the_reserve),
        cmocka_unit_test(a_worker_begins_once_there_is_memory_to_say_that_it_is_prepared),
        cmocka_unit_test(an_end_that_is_unsaid_goes_with_its_experiment),
        cmocka_unit_test(what_a_worker_has_saved_is_said_once_there_is_memory),
        cmocka_unit_test(what_a_worker_has_saved_is_copied_once_there_is_memory),
        cmocka_unit_test(a_stop_is_loaded_though_memory_is_full),
        cmocka_unit_test(what_a_node_has_is_said_once_there_is_memory),
        cmocka_unit_test(a_quarantine_is_said_once_there_is_memory),
        cmocka_unit_test(that_a_host_died_young_is_said_once_there_is_memory),
        cmocka_unit_test(a_pause_that_is_said_again_without_memory_is_not_undone),
        cmocka_unit_test(a_verdict_is_told_once_there_is_memory),
        cmocka_unit_test(the_trial_of_a_worker_that_was_lost_goes_on_without_memory_to_say_so),
        cmocka_unit_test(who_leaves_does_not_wait_for_memory),
        cmocka_unit_test(a_verdict_that_is_not_folded_is_said_once),
        cmocka_unit_test(what_a_worker_has_saved_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

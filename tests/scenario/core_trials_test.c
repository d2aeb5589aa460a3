/* Stories of trials on the node core: how they run, fail, stop and go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/owner/slots.h"
#include "node/daemon/render/experiment.h"
#include "tests/scenario/core_story.h"

static void a_single_node_runs_a_trial_of_two_slots(void **state)
{
    (void)state;
    struct world *world = world_new(1, 2);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_line(world, 20000, "a: exp trial 0 attempt 1: completed, every rank is done");
    const char *story[] = {
        "a> persist experiment", "a> reply", "a: coordinates exp with term 1", "a> persist fence 1",
        "a: exp trial 0 attempt 1 from step 0 on a/0 a/1", "a> persist attempt",
        "a> persist slot 0 leased", "a> persist slot 1 leased", "a> prepare trial 0 attempt 1 rank 0 slot 0",
        "a> spawn trial 0 attempt 1 rank ", "a> group trial 0 attempt 1 rank ", "a> persist worker ended completed",
        "a> persist verdict completed",
    };
    assert_order(world, story, sizeof story / sizeof story[0]);
    assert_int_equal(world_spawns(world), 2);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    world_run(world, 1000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    for (uint32_t slot = 0; slot < 2; slot++) {
        assert_int_equal(world->nodes[0].core->owner->lease.slots[slot].state, LEASE_FREE);
    }
    world_free(world);
}

/* Programs that do not wait for each other: the first one ends before the code of the second has come. */
static void a_rank_that_is_done_does_not_keep_the_others_from_beginning(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_start_all(world);
    world->prepare_ms = 5000;
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> persist worker ended completed");
    assert_int_equal(world_spawns(world), 1);
    assert_line(world, 20000, "exp trial 0 attempt 1: completed, every rank is done");
    assert_int_equal(world_spawns(world), 2);
    world_free(world);
}

/* It leaves its slot to others for most of the time (seed 489581994 of the simulator), and runs when its code is there. */
static void a_trial_whose_code_is_lost_is_tried_every_two_minutes(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->nodes[0].lacks_code = true;
    world_submit(world, 0, &config);
    world_run(world, 30 * 60000);
    assert_in_range(world_count(world, "> prepare trial 0"), 15, 25);
    assert_int_equal(world_spawns(world), 0);
    world->nodes[0].lacks_code = false;
    world_run(world, 125000);
    assert_int_equal(world_count(world, "completed, every rank is done"), 1);
    world_free(world);
}

/* A daemon that is killed and finds its worker again tells the other ranks where that listens (seed 11992 of the simulator). */
static void a_worker_starts_when_its_port_is_on_disk(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->disk_ms = 500;
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> persist worker prepared #");
    size_t at = world_find(world, 0, "> persist worker prepared #");
    char persisted[64];
    snprintf(persisted, sizeof persisted, "a< persisted %lu\n", strtoul(strchr(world->log + at, '#') + 1, NULL, 10));
    assert_line(world, 20000, "a> spawn ");
    size_t on_disk = world_find(world, at, persisted);
    assert_true(on_disk != SIZE_MAX && on_disk < world_find(world, 0, "a> spawn "));
    world_free(world);
}

/* With a slow disk: what relies on a record is sent when the record is there, not before. */
static void grants_and_spawns_wait_for_the_disk(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    struct config config;
    make_config(&config, 3, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_start_all(world);
    world->disk_ms = 70;
    world_submit(world, 1, &config);
    assert_true(world_run_until(world, 20000, 0, "> spawn trial 2"));
    world_run(world, 1000);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    uint32_t owners = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const char *name = world->nodes[i].person.name;
        char leased[64], answer[64], persisted[64], fence[64], spawn[64];
        snprintf(leased, sizeof leased, "%s> persist slot 0 leased #", name);
        size_t at = world_find(world, 0, leased);
        assert_true(at != SIZE_MAX);
        unsigned long ticket = strtoul(world->log + at + strlen(leased), NULL, 10);
        snprintf(persisted, sizeof persisted, "%s< persisted %lu\n", name, ticket);
        snprintf(spawn, sizeof spawn, "%s> spawn ", name);
        size_t on_disk = world_find(world, at, persisted);
        assert_true(on_disk != SIZE_MAX);
        assert_true(world_find(world, 0, spawn) > on_disk);
        if ((int)i == coordinator) {
            continue;
        }
        owners++;
        snprintf(answer, sizeof answer, "%s> send confirm_answer", name);
        assert_true(world_find(world, 0, answer) > on_disk);
        snprintf(fence, sizeof fence, "%s> persist fence 1 #", name);
        size_t fenced = world_find(world, 0, fence);
        assert_true(fenced < at);
        ticket = strtoul(world->log + fenced + strlen(fence), NULL, 10);
        snprintf(persisted, sizeof persisted, "%s< persisted %lu\n", name, ticket);
        snprintf(answer, sizeof answer, "%s> send reserve_answer", name);
        assert_true(world_find(world, 0, answer) > world_find(world, fenced, persisted));
    }
    assert_int_equal(owners, 2);
    world_free(world);
}

static void every_trial_runs_once_and_all_agree(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    struct config config;
    make_config(&config, 8, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_start_all(world);
    world_submit(world, 1, &config);
    assert_line(world, 1000, "b> reply");
    assert_int_equal(world->reply.stored_on, 2);
    for (uint32_t i = 0; i < 60 && view_experiment_state(world_experiment(world, 1)) != VIEW_COMPLETED; i++) {
        world_run(world, 1000);
    }
    world_run(world, 5000);
    assert_int_equal(world_spawns(world), 16);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t trial;
        double value;
        const struct view_experiment *experiment = world_experiment(world, i);
        assert_int_equal(view_experiment_state(experiment), VIEW_COMPLETED);
        assert_true(view_experiment_best(&world->nodes[i].core->view, experiment, &trial, &value));
        assert_int_equal(trial, 0);
        assert_true(records_hash_equal(world->nodes[i].core->records.hash, world->nodes[0].core->records.hash));
    }
    world_free(world);
}

static void a_failing_program_is_tried_max_restarts_and_one_times(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 2);
    world->program = WORLD_FAILS_AT_ONCE;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 90000);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict failed"), 3);
    const struct view_experiment *experiment = world_experiment(world, 1);
    assert_int_equal(view_experiment_state(experiment), VIEW_FAILED);
    static uint8_t bytes[1u << 16];
    struct pack_writer writer;
    uint32_t from = 0;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_false(render_show(world->nodes[1].core, experiment, experiment->config, &from, &writer));
    assert_non_null(memmem(bytes, writer.used_bytes, "no such file: data.idx", 22));
    assert_non_null(memmem(bytes, writer.used_bytes, "a worker failed: rank 0 ended with status 3", 43));
    world_free(world);
}

static void cancel_kills_and_starts_nothing_more(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    (void)story_begin(world, 20, 5);
    assert_int_equal(world_spawns(world), 4);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_int_equal(world_count(world, "> kill "), 4);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 4);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_CANCELLED);
        assert_false(view_experiment_live(world_experiment(world, i)));
        assert_true(core_owner_idle(world->nodes[i].core));
    }
    world_request(world, 0, NODE_REQUEST_CANCEL); /* again: nothing more to do, and no error */
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    world_request(world, 0, NODE_REQUEST_RESUME);
    world_run(world, 1000);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_free(world);
}

static void pause_stops_and_resume_goes_on_from_the_checkpoint(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    story_submit(world, 0, 1, 0); /* no restarts: a pause is not a failure */
    assert_line(world, 20000, "> spawn trial 0 attempt 1");
    world_run(world, 4500);
    world_request(world, 1, NODE_REQUEST_PAUSE);
    assert_line(world, 5000, "> stop trial 0 attempt 1");
    assert_line(world, 5000, "trial 0 attempt 1: stopped, asked to stop");
    world_run(world, 30000);
    assert_int_equal(world_spawns(world), 1);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_PAUSED);
    assert_int_equal(world_count(world, "persist manifest 40"), 2); /* when the worker had gone, and when its copy was there */
    assert_int_equal(world_count(world, "> durable "), 1);
    world->program = WORLD_RUNS_2S;
    world_request(world, 0, NODE_REQUEST_RESUME);
    assert_line(world, 10000, "trial 0 attempt 2 from step 40");
    assert_line(world, 10000, "trial 0 attempt 2: completed");
    world_run(world, 2000);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_COMPLETED);
    assert_int_equal(world_spawns(world), 2);
    world_free(world);
}

static struct world *run_with_a_crash(void)
{
    struct world *world = world_new(3, 2);
    struct config config;
    make_config(&config, 8, 5);
    world_start_all(world);
    world->disk_ms = 7;
    world_submit(world, 1, &config);
    world_run(world, 3000);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    world_crash(world, (uint32_t)coordinator);
    world_run(world, 40000);
    return world;
}

static void the_same_story_is_told_in_the_same_words(void **state)
{
    (void)state;
    struct world *first = run_with_a_crash(), *second = run_with_a_crash();
    assert_int_equal(first->log_bytes, second->log_bytes);
    assert_memory_equal(first->log, second->log, first->log_bytes);
    assert_int_equal(world_count(first, " trial 7 attempt 1: completed") +
                         world_count(first, " trial 7 attempt 2: completed"), 1);
    world_free(first);
    world_free(second);
}

/* Determined's `slots_per_trial` of more than there is: nothing happens until a node brings the slots. */
static void a_trial_waits_for_slots_and_takes_those_that_come(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world_restart(world, 0, false);
    world_run(world, 40000); /* alone, it waits before it trusts itself (DESIGN 5) */
    world_submit(world, 0, &config);
    world_run(world, 20000);
    assert_int_equal(world_spawns(world), 0);
    uint64_t came_ms = world->now_ms;
    world_restart(world, 1, false);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 1");
    assert_in_range(world->now_ms - came_ms, 0, 5000);
    world_free(world);
}

/* Where it failed it is not tried while other nodes could hold it; but those may be busy for weeks. */
static void a_trial_that_failed_waits_ten_minutes_for_a_busy_node(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_end_worker(world, 1, 0, 3);
    world_run(world, 590000);
    assert_int_equal(world_spawns(world), 2);
    world_run(world, 40000);
    assert_int_equal(world->nodes[1].spawn_count, 2);
    world_free(world);
}

/* Three slots would be best, and are waited for; but those that others have may be theirs for weeks. */
static void a_trial_waits_ten_minutes_for_more_slots_than_its_least(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    struct config config;
    make_config(&config, 2, 5);
    config.slots_per_trial = config.max_slots = 3;
    config.min_slots = 1;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 590000);
    assert_int_equal(world_spawns(world), 3);
    world_run(world, 40000);
    assert_int_equal(world_spawns(world), 4);
    world_free(world);
}

/* However long it has waited with less than its least. */
static void slots_that_come_free_one_by_one_are_waited_for(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    struct config config;
    make_config(&config, 2, 5);
    config.slots_per_trial = config.max_slots = 3;
    config.min_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 700000);
    assert_int_equal(world_spawns(world), 3);
    for (uint32_t node = 0; node < 2; node++) {
        for (uint32_t slot = 0; slot < 2; slot++) {
            if (world->nodes[node].workers[slot].runs) {
                world_end_worker(world, node, slot, 0);
                world_run(world, 3000);
            }
        }
    }
    world_run(world, 5000);
    assert_int_equal(world_spawns(world), 6);
    world_free(world);
}

/* A newer word of the same coordinator, which only a later version could read. */
static void a_result_outlives_a_verdict_that_cannot_be_read(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 1, 0);
    world->program = WORLD_RUNS_2S;
    assert_line(world, 20000, "exp trial 0 attempt 1: completed");
    world_run(world, 2000);
    attempt_id id = view_find_trial(world_experiment(world, 0), 0)->attempts->id;
    struct fact_verdict unknown = {.reason = FACT_REASONS};
    uint32_t writer = 0;
    while (!node_id_equal(world->nodes[writer].person.id, id.coordinator)) {
        writer++;
    }
    struct made made;
    make_record(&made, id.coordinator, 9ull << 32, 1, FACT_VERDICT, fact_key_verdict(&id), &unknown);
    world_deliver(world, writer, (writer + 1) % 3, &made);
    assert_int_equal(view_experiment_state(world_experiment(world, (writer + 1) % 3)), VIEW_COMPLETED);
    world_run(world, 5000);
    for (uint32_t i = 0; i < 3; i++) {
        world_crash(world, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        world_restart(world, i, true);
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_single_node_runs_a_trial_of_two_slots),
        cmocka_unit_test(a_rank_that_is_done_does_not_keep_the_others_from_beginning),
        cmocka_unit_test(a_trial_whose_code_is_lost_is_tried_every_two_minutes),
        cmocka_unit_test(a_worker_starts_when_its_port_is_on_disk),
        cmocka_unit_test(grants_and_spawns_wait_for_the_disk),
        cmocka_unit_test(every_trial_runs_once_and_all_agree),
        cmocka_unit_test(a_failing_program_is_tried_max_restarts_and_one_times),
        cmocka_unit_test(cancel_kills_and_starts_nothing_more),
        cmocka_unit_test(pause_stops_and_resume_goes_on_from_the_checkpoint),
        cmocka_unit_test(the_same_story_is_told_in_the_same_words),
        cmocka_unit_test(a_trial_waits_for_slots_and_takes_those_that_come),
        cmocka_unit_test(a_trial_that_failed_waits_ten_minutes_for_a_busy_node),
        cmocka_unit_test(a_trial_waits_ten_minutes_for_more_slots_than_its_least),
        cmocka_unit_test(slots_that_come_free_one_by_one_are_waited_for),
        cmocka_unit_test(a_result_outlives_a_verdict_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories of where trials are placed, and what they wait for (DESIGN 8). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/core/coordinator/coordination.h"
#include "tests/scenario/core_elastic.h"
#include "tests/scenario/core_faults.h"

static void fill_disk(struct world *world, uint32_t node, bool is_full)
{
    struct node_event event = {.kind = NODE_EVENT_DISK};
    event.u.disk.full = is_full;
    world_step(world, node, &event);
}

/* ---- nodes that refuse ---- */

/* They fit best, and there is always a slot of theirs that has not refused within the last second. */
static void a_trial_beside_full_disks_begins(uint32_t full_count)
{
    struct world *world = world_new(1 + full_count, 4);
    for (uint32_t i = 1; i <= full_count; i++) {
        world->nodes[i].slot_count = 3;
    }
    world_start_all(world);
    for (uint32_t i = 1; i <= full_count; i++) {
        fill_disk(world, i, true);
    }
    story_submit(world, 0, 1, 5);
    world_run(world, 20000);
    assert_int_equal(world_coordinator(world), 0);
    assert_int_equal(world_count(world, "a> send reserve "), full_count);
    assert_int_equal(running(world, 0), 1);
    world_free(world);
}

static void a_node_that_refuses_does_not_starve_a_trial(void **state)
{
    (void)state;
    a_trial_beside_full_disks_begins(1);
}

static void nodes_that_refuse_are_not_asked_in_turns_for_ever(void **state)
{
    (void)state;
    a_trial_beside_full_disks_begins(4);
}

/* Four slots would be best; but two of them are no slots as long as their node grants nothing. */
static void slots_of_a_full_disk_are_not_waited_for(uint32_t full)
{
    struct world *world = world_new(2, 2);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.max_slots = 4;
    config.min_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    fill_disk(world, full, true);
    world_submit(world, 1 - full, &config);
    world_run(world, 20000);
    assert_int_equal(world_coordinator(world), 0);
    assert_int_equal(running(world, 1 - full), 2);
    world_free(world);
}

static void slots_that_are_refused_are_not_waited_for(void **state)
{
    (void)state;
    slots_of_a_full_disk_are_not_waited_for(1);
    slots_of_a_full_disk_are_not_waited_for(0); /* the coordinator's own */
}

static void a_node_whose_disk_has_room_again_is_used_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    fill_disk(world, 1, true);
    story_submit(world, 0, 2, 5);
    world_run(world, 20000);
    assert_int_equal(world_coordinator(world), 0);
    assert_int_equal(running(world, 1), 0);
    fill_disk(world, 1, false);
    world_run(world, 3 * CORE_SLOT_BACKOFF_MS);
    assert_int_equal(running(world, 1), 1);
    world_free(world);
}

/* No record of the experiment comes with the slot. At any moment of the half second between two rounds of regular work. */
static void a_slot_that_becomes_free_is_used_at_once(void **state)
{
    (void)state;
    for (uint32_t phase_ms = 0; phase_ms < CORE_HOUSEKEEP_MS; phase_ms += CORE_HOUSEKEEP_MS / 5) {
        struct world *world = world_new(2, 1);
        world->program = WORLD_RUNS_FOREVER;
        world_start_all(world);
        withhold(world, 1, 0);
        story_submit(world, 0, 2, 5);
        world_run(world, 10000 + phase_ms);
        assert_int_equal(running(world, 0), 1);
        assert_int_equal(running(world, 1), 0);
        return_slots(world, 1);
        world_run(world, CORE_HOUSEKEEP_MS / 5);
        assert_int_equal(running(world, 1), 1);
        world_free(world);
    }
}

/* ---- what is waited for ---- */

/* The other slot is another coordinator's for a moment, which the records do not say. */
static void a_slot_that_refused_just_now_is_waited_for(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t failed = running(world, 0) > 0 ? 0 : 1, other = 1 - failed;
    know_paused(world, 7, 1);
    reserve(world, other, failed, 5);
    world_end_worker(world, failed, 0, 3);
    world_run(world, 2 * LEASE_RESERVE_MS);
    assert_true(world->nodes[failed].core->coordinator->backoffs[0].until_ms > 0);
    assert_int_equal(world->nodes[other].spawn_count, 1);
    assert_int_equal(world->nodes[failed].spawn_count, 1);
    world_free(world);
}

/* The trial has failed where alone there is room for another member. */
static void a_group_waits_ten_minutes_for_another_node_than_one_where_its_trial_failed(void **state)
{
    (void)state;
    struct world *world = elastic_world(2, 1);
    withhold(world, 1, 0);
    world_run(world, 1000);
    begins(world, 1, 1, 2);
    return_slots(world, 1);
    know_paused(world, 7, 1);
    reserve(world, 1, 0, 5); /* so that nobody joins before it fails */
    world_end_worker(world, 0, 0, 3);
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    assert_int_equal(running(world, 1), 1);
    world_run(world, CORE_BETTER_PLACE_MS - 20000);
    assert_int_equal(running(world, 0), 0);
    world_run(world, 60000);
    assert_int_equal(in_generation(world, 0), 2);
    world_free(world);
}

/* A trial has failed on node 0, where there is room now, and runs on node 2. Node 1 is busy. */
static struct world *failed_here_and_runs_there(void)
{
    struct world *world = world_new(4, 1);
    world_start_all(world);
    withhold(world, 2, 0);
    withhold(world, 3, 0);
    story_submit(world, 0, 2, 5);
    world_run(world, 10000);
    assert_int_equal(running(world, 0) + running(world, 1), 2);
    world_end_worker(world, 0, 0, 3);
    world_run(world, 1000);
    return_slots(world, 2);
    world_run(world, 10000);
    assert_int_equal(running(world, 2), 1);
    return world;
}

static void a_trial_beyond_a_cut_waits_ten_minutes_for_another_node_than_one_where_it_failed(void **state)
{
    (void)state;
    struct world *world = failed_here_and_runs_there();
    cut(world, 2);
    world_run(world, 2 * CORE_BETTER_PLACE_MS - 20000);
    assert_int_equal(running(world, 0), 0);
    world_run(world, 60000);
    assert_int_equal(running(world, 0), 1);
    world_free(world);
}

static void what_a_trial_waited_while_its_node_was_away_is_forgotten(void **state)
{
    (void)state;
    struct world *world = failed_here_and_runs_there();
    world_sleep(world, 2, CORE_PATIENCE_MS + 60000);
    world_sleep(world, 3, CORE_PATIENCE_MS + 60000);
    world_run(world, CORE_PATIENCE_MS + 60000 + CORE_BETTER_PLACE_MS);
    assert_int_equal(running(world, 2), 1);
    world_end_worker(world, 2, 0, 3);
    world_run(world, CORE_BETTER_PLACE_MS - 20000);
    assert_int_equal(running(world, 0) + running(world, 2), 0);
    world_run(world, 60000);
    assert_int_equal(running(world, 0) + running(world, 2), 1);
    world_free(world);
}

/* Whenever a node is away its side begins with another one of the trials that wait, each for more slots than its least. */
static void trials_wait_no_longer_than_ten_minutes_though_a_node_comes_and_goes(void **state)
{
    (void)state;
    struct world *world = world_new(3, 4);
    world->nodes[1].slot_count = 3;
    world->nodes[2].slot_count = 0;
    struct config config;
    make_config(&config, 12, 5);
    config.slots_per_trial = config.max_slots = 3;
    config.min_slots = 1;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    int coordinator = world_coordinator(world);
    assert_in_range(coordinator, 0, 1);
    const struct core_coordination *row = core_find_coordination(world->nodes[coordinator].core, make_experiment_id(0));
    uint32_t first = row->waiting_trial;
    bool is_another = false;
    for (uint32_t i = 0; i < 9; i++) {
        world_crash(world, 2);
        world_run(world, 30000);
        is_another |= row->waiting_trial != first;
        world_restart(world, 2, false);
        world_run(world, 30000);
    }
    assert_true(is_another);
    assert_int_equal(world_spawns(world), 6);
    world_run(world, 70000);
    assert_int_equal(world_spawns(world), 7);
    world_free(world);
}

/* Of the two slots that are free one is on a node that is suspected for a moment once a minute. */
static void a_trial_waits_no_longer_than_ten_minutes_though_a_node_is_suspected_now_and_then(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    world->nodes[2].slot_count = 1;
    struct config config;
    make_config(&config, 2, 5);
    config.slots_per_trial = config.max_slots = 3;
    config.min_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_not_equal(world_coordinator(world), 2);
    assert_int_equal(running(world, 2), 0);
    for (uint32_t i = 0; i < 9; i++) {
        world_sleep(world, 2, 2500);
        world_run(world, 60000);
    }
    assert_true(world_count(world, ": c is suspect") > 5);
    assert_int_equal(world_count(world, ": c is dead"), 0);
    assert_int_equal(world_spawns(world), 3);
    world_run(world, 70000);
    assert_int_equal(world_spawns(world), 5);
    world_free(world);
}

/* ---- gangs ---- */

/* Reservations live for five seconds. One after the other its slots would take eight, however few nodes they are on. */
static void a_gang_of_dozens_of_slots_begins_over_slow_links(void **state)
{
    (void)state;
    struct world *world = world_new(5, 12);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 60;
    world->program = WORLD_RUNS_FOREVER;
    world->send_ms = 80;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 30000);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(running(world, i), 12);
    }
    assert_int_equal(world_count(world, "> send reserve "), 4 * 12);
    world_free(world);
}

/* All of a node's at once; but of the next node only when these are there, so that no two gangs wait for each other. */
static void slots_are_reserved_in_the_order_of_their_nodes(void **state)
{
    (void)state;
    struct world *world = world_new(3, 4);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 12;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(world_coordinator(world), 0);
    bool is_b_first = node_id_compare(world->nodes[1].person.id, world->nodes[2].person.id) < 0;
    const char *first[] = {"a> send reserve b", "b> send reserve_answer a", "a> send reserve c", "c> send reserve_answer a"};
    const char *const story[] = {first[is_b_first ? 0 : 2], first[is_b_first ? 1 : 3], first[is_b_first ? 2 : 0],
                                 first[is_b_first ? 3 : 1]};
    size_t at = 0;
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t slot = 0; slot < 4; slot++) {
            at = world_find(world, at, story[i]);
            assert_true(at != SIZE_MAX);
            at++;
        }
    }
    assert_int_equal(world_count(world, "> send reserve "), 8);
    world_free(world);
}

/* The disk takes longer than reservations live: the first try to bring a member in is given up, and of the same attempt another
 * one is recorded when the record of the first has come to the disk. */
static void a_gang_is_confirmed_when_its_own_record_is_on_disk(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    world_die(world, 2);
    world_run(world, 15000);
    begins(world, 2, 1, 3);
    world_run(world, 2500);
    int coordinator = world_coordinator(world);
    assert_in_range(coordinator, 0, 1);
    world->nodes[coordinator].disk_ms = CORE_GANG_RESERVE_MS + 2000;
    world->nodes[2].is_cut = false;
    world_restart(world, 2, false);
    world_run(world, 40000);
    assert_true(world_count(world, "1 more on their way") > 1);
    assert_int_equal(world_count(world, "> send confirm c"), 0);
    assert_int_equal(running(world, 2), 0);
    world_free(world);
}

/* Of five slots a trial that wants three has two. Once a minute three of five nodes are away for a moment, and the others begin
 * nothing: it has not waited meanwhile, and as before that it has. */
static void a_trial_waits_no_longer_than_ten_minutes_though_its_side_is_the_smaller_now_and_then(void **state)
{
    (void)state;
    struct world *world = world_new(5, 0);
    world->nodes[0].slot_count = 3;
    world->nodes[1].slot_count = 2;
    struct config config;
    make_config(&config, 2, 5);
    config.slots_per_trial = config.max_slots = 3;
    config.min_slots = 2;
    config.on_partition = CONFIG_PARTITION_PAUSE_MINORITY;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 5000);
    assert_in_range(world_coordinator(world), 0, 1);
    for (uint32_t round = 0; round < 15; round++) {
        for (uint32_t i = 2; i < 5; i++) {
            world_crash(world, i);
        }
        world_run(world, 20000);
        for (uint32_t i = 2; i < 5; i++) {
            world_restart(world, i, false);
        }
        assert_true(round > 12 || world_spawns(world) == 3); /* it has not waited for ten minutes yet */
        world_run(world, 40000);
    }
    assert_true(world_count(world, ": c is dead") >= 2 * 15);
    assert_int_equal(world_spawns(world), 5);
    world_free(world);
}

static void busy(struct world *world, uint32_t node, uint32_t slot)
{
    struct node_event event = {.kind = NODE_EVENT_SLOT_BUSY};
    event.u.busy.slot = slot;
    event.u.busy.is_busy = true;
    world_step(world, node, &event);
}

/* Of two slots one is refused, and the next gang of the attempt asks for the other one, too. That this one was granted, when it
 * was asked for once more, is said only then, since the disk is slow; and its owner has taken it back meanwhile. */
static void what_was_granted_to_a_gang_that_was_given_up_is_not_granted_to_the_next(void **state)
{
    (void)state;
    struct world *world = world_new(2, 0);
    world->nodes[1].slot_count = 5;
    world->nodes[1].disk_ms = 1500;
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world->send_ms = 50;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_line(world, 20000, "a> send reserve b");
    busy(world, 1, 0);
    world_run(world, 1000);
    busy(world, 1, 3); /* what is asked for now is answered when that is on the disk */
    world_run(world, 450);
    busy(world, 1, 1);
    world_run(world, 20000);
    assert_true(world_count(world, "a> send release b") >= 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(running(world, 1), 2);
    world_free(world);
}

/* ---- MIG devices ---- */

/* Bit i: slot i of the node has a running worker. */
static uint64_t running_slots(const struct world *world, uint32_t node)
{
    uint64_t slots = 0;
    for (uint32_t slot = 0; slot < world->nodes[node].slot_count; slot++) {
        slots |= world->nodes[node].workers[slot].runs ? UINT64_C(1) << slot : 0;
    }
    return slots;
}

/* Submits a trial of `wanted` slots, and at least `least`, to a mesh of two nodes: node 0 has two GPUs and then three MIG devices,
 * node 1 a GPU. */
static struct world *gpus_and_parts(uint32_t wanted, uint32_t least)
{
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.max_slots = wanted;
    config.min_slots = least;
    world->program = WORLD_RUNS_FOREVER;
    world->nodes[0].slot_count = 5;
    world->nodes[0].parts = 0x1c;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 20000);
    return world;
}

static void a_gang_has_whole_gpus_or_mig_devices(void **state)
{
    (void)state;
    static const struct {
        uint32_t wanted, least;
        uint64_t here, there;
    } cases[] = {
        {1, 1, 0, 1},       /* the tightest fit, of whichever kind */
        {2, 2, 0x3, 0},     /* whole ones first */
        {3, 3, 0x3, 1},     /* of several nodes, if need be */
        {4, 4, 0, 0},       /* neither kind has four: waits */
        {5, 1, 0x3, 1},     /* of both as many: whole ones */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct world *world = gpus_and_parts(cases[i].wanted, cases[i].least);
        print_message("%u slots, at least %u\n", cases[i].wanted, cases[i].least);
        assert_int_equal(running_slots(world, 0), cases[i].here);
        assert_int_equal(running_slots(world, 1), cases[i].there);
        world_free(world);
    }
}

static void mig_devices_are_taken_where_whole_gpus_are_too_few(void **state)
{
    (void)state;
    struct world *world = world_new(1, 4);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.max_slots = config.min_slots = 3;
    world->program = WORLD_RUNS_FOREVER;
    world->nodes[0].parts = 0xe;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 20000);
    assert_int_equal(running_slots(world, 0), 0xe);
    world_free(world);
}

/* ---- which node has the program ---- */

/* The node has looked for "train", and has it or not. */
static void looked_for_program(struct world *world, uint32_t node, bool is_there)
{
    struct fact_programs list = {.count = 1, .items = {{.name = "train", .is_there = is_there}}};
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_programs_pack(&writer, &list);
    struct node_event event = {.kind = NODE_EVENT_PROGRAMS, .bytes = bytes, .byte_count = (uint32_t)writer.used_bytes};
    world_step(world, node, &event);
}

static struct world *world_that_trains(uint32_t nodes, uint32_t trials, struct config *config)
{
    struct world *world = world_new(nodes, 1);
    make_config(config, trials, 5);
    (void)bytes_copy_text(config->entrypoint, sizeof config->entrypoint, "train --fast");
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    return world;
}

static void a_trial_waits_for_a_busy_node_that_has_its_program(void **state)
{
    (void)state;
    struct config config;
    struct world *world = world_that_trains(3, 3, &config);
    looked_for_program(world, 0, false);
    looked_for_program(world, 1, true); /* the third has not looked */
    world_run(world, 1000);
    assert_int_equal(view_member_program(member_at(world, 2, 0), "train", &(struct fact_program){{0}, false, {0}, {0}}),
                     VIEW_PROGRAM_LACKING);
    world_submit(world, 0, &config);
    world_run(world, 20 * 60000);
    assert_int_equal(running(world, 0), 0);
    assert_int_equal(running(world, 1), 1);
    assert_int_equal(running(world, 2), 1);
    looked_for_program(world, 0, true); /* somebody has installed it */
    world_run(world, 5000);
    assert_int_equal(running(world, 0), 1);
    world_free(world);
}

static void a_program_that_no_node_has_is_tried_all_the_same(void **state)
{
    (void)state;
    struct config config;
    struct world *world = world_that_trains(2, 1, &config);
    looked_for_program(world, 0, false);
    looked_for_program(world, 1, false);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    assert_int_equal(running(world, 0) + running(world, 1), 1);
    world_free(world);
}

static void a_node_with_the_program_is_awaited_while_it_is_away(void **state)
{
    (void)state;
    struct config config;
    struct world *world = world_that_trains(2, 1, &config);
    looked_for_program(world, 0, false);
    looked_for_program(world, 1, true);
    world_run(world, 1000);
    world_die(world, 1);
    world_submit(world, 0, &config);
    world_run(world, 5 * 60000);
    assert_int_equal(running(world, 0), 0);
    world->nodes[1].is_cut = false;
    world_restart(world, 1, false);
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 1);
    world_free(world);
    world = world_that_trains(2, 1, &config);
    looked_for_program(world, 0, false);
    world_die(world, 1);
    world_submit(world, 0, &config);
    world_run(world, 12 * 60000); /* for ten minutes, not for ever */
    assert_int_equal(running(world, 0), 1);
    world_free(world);
}

static void programs_are_told_once_and_survive_a_restart(void **state)
{
    (void)state;
    struct config config;
    struct world *world = world_that_trains(2, 1, &config);
    for (int i = 0; i < 5; i++) {
        looked_for_program(world, 0, true);
        world_run(world, 1000);
    }
    assert_int_equal(world_count(world, "a> persist programs"), 1);
    world_crash(world, 0);
    world_restart(world, 0, false);
    looked_for_program(world, 0, true); /* it catches up: nothing yet */
    world_run(world, 30000);
    looked_for_program(world, 0, true);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "a> persist programs"), 1);
    looked_for_program(world, 0, false);
    world_run(world, 1000);
    assert_int_equal(world_count(world, "a> persist programs"), 2);
    world_free(world);
}

/* ---- nodes in quarantine, and nodes without a network in common ---- */

enum { NEUTRAL, LEFT, RIGHT, LARGE, IN_QUARANTINE };

static void store_quarantine(struct world *world, uint32_t node)
{
    struct fact_quarantine quarantine = {.is_active = true, .level = FACT_QUARANTINE_LEVEL_MAX, .minutes = 60, .why = "a test"};
    struct made made;
    make_record(&made, world->nodes[node].person.id, 1, 1, FACT_QUARANTINE, fact_key_empty(), &quarantine);
    world_store(world, node, &made);
}

/* Two trials of two slots wait. LEFT and RIGHT have a slot each and never reach each other. LARGE and IN_QUARANTINE have two
 * slots each and never reach each other either. NEUTRAL coordinates, and grants nothing. */
static struct world *a_world_of_pairs(void)
{
    struct world *world = world_new(5, 1);
    struct config config;
    make_config(&config, 2, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    world->program = WORLD_RUNS_FOREVER;
    world->nodes[LARGE].slot_count = world->nodes[IN_QUARANTINE].slot_count = 2;
    store_quarantine(world, IN_QUARANTINE);
    world_start_all(world);
    world->nodes[LEFT].hidden = 1u << RIGHT;
    world->nodes[LARGE].hidden = 1u << IN_QUARANTINE;
    world_run(world, 3 * CORE_CHECK_SPARE_MS);
    assert_true(member_at(world, NEUTRAL, IN_QUARANTINE)->quarantine.is_active);
    withhold(world, NEUTRAL, 0);
    world_submit(world, NEUTRAL, &config);
    return world;
}

/* LEFT and RIGHT have room for the second trial, but make no group. LARGE could hold the trial, and is busy. */
static void a_node_in_quarantine_gets_no_group_that_another_network_could_hold(void **state)
{
    (void)state;
    struct world *world = a_world_of_pairs();
    world_run(world, 40000);
    assert_int_equal(running(world, LARGE), 2);
    assert_int_equal(running(world, IN_QUARANTINE), 0);
    assert_int_equal(world_spawns(world), 2);
    world_end_worker(world, LARGE, 0, 0);
    world_end_worker(world, LARGE, 1, 0);
    world_run(world, 40000);
    assert_int_equal(world_spawns(world), 4); /* on LARGE, and maybe on LEFT or RIGHT, which both reach it */
    assert_int_equal(running(world, IN_QUARANTINE), 0);
    world_free(world);
}

/* LEFT and RIGHT have two slots, but no network in common. */
static void a_node_in_quarantine_gets_a_group_that_no_other_network_could_hold(void **state)
{
    (void)state;
    struct world *world = a_world_of_pairs();
    withhold(world, LARGE, 0);
    world_run(world, 40000);
    assert_int_equal(running(world, IN_QUARANTINE), 2);
    assert_int_equal(world_spawns(world), 2);
    world_free(world);
}

/* The first of two nodes that never reach each other is free and fits best, and the group is on the second one. */
static void a_member_is_sought_among_nodes_that_the_group_reaches(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    struct config config = elastic(1, 2, 1, 2);
    bool is_left_first = node_id_compare(world->nodes[LEFT].person.id, world->nodes[RIGHT].person.id) < 0;
    uint32_t first = is_left_first ? LEFT : RIGHT, second = is_left_first ? RIGHT : LEFT;
    world->program = WORLD_RUNS_FOREVER;
    world->is_elastic = true;
    world->nodes[LARGE].slot_count = 2;
    world_start_all(world);
    world->nodes[LEFT].hidden = 1u << RIGHT;
    world_run(world, 3 * CORE_CHECK_SPARE_MS);
    withhold(world, NEUTRAL, 0);
    withhold(world, LARGE, 0);
    withhold(world, first, 0);
    world_submit(world, NEUTRAL, &config);
    world_run(world, 40000);
    assert_int_equal(running(world, second), 1);
    return_slots(world, first);
    world_run(world, 20000);
    return_slots(world, LARGE);
    world_run(world, 40000);
    assert_int_equal(running(world, second), 1);
    assert_int_equal(running(world, LARGE), 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gang_has_whole_gpus_or_mig_devices),
        cmocka_unit_test(mig_devices_are_taken_where_whole_gpus_are_too_few),
        cmocka_unit_test(a_node_that_refuses_does_not_starve_a_trial),
        cmocka_unit_test(nodes_that_refuse_are_not_asked_in_turns_for_ever),
        cmocka_unit_test(slots_that_are_refused_are_not_waited_for),
        cmocka_unit_test(a_node_whose_disk_has_room_again_is_used_at_once),
        cmocka_unit_test(a_slot_that_becomes_free_is_used_at_once),
        cmocka_unit_test(a_slot_that_refused_just_now_is_waited_for),
        cmocka_unit_test(a_group_waits_ten_minutes_for_another_node_than_one_where_its_trial_failed),
        cmocka_unit_test(a_trial_beyond_a_cut_waits_ten_minutes_for_another_node_than_one_where_it_failed),
        cmocka_unit_test(what_a_trial_waited_while_its_node_was_away_is_forgotten),
        cmocka_unit_test(trials_wait_no_longer_than_ten_minutes_though_a_node_comes_and_goes),
        cmocka_unit_test(a_trial_waits_no_longer_than_ten_minutes_though_a_node_is_suspected_now_and_then),
        cmocka_unit_test(a_gang_of_dozens_of_slots_begins_over_slow_links),
        cmocka_unit_test(slots_are_reserved_in_the_order_of_their_nodes),
        cmocka_unit_test(a_gang_is_confirmed_when_its_own_record_is_on_disk),
        cmocka_unit_test(a_trial_waits_no_longer_than_ten_minutes_though_its_side_is_the_smaller_now_and_then),
        cmocka_unit_test(what_was_granted_to_a_gang_that_was_given_up_is_not_granted_to_the_next),
        cmocka_unit_test(a_trial_waits_for_a_busy_node_that_has_its_program),
        cmocka_unit_test(a_program_that_no_node_has_is_tried_all_the_same),
        cmocka_unit_test(a_node_with_the_program_is_awaited_while_it_is_away),
        cmocka_unit_test(programs_are_told_once_and_survive_a_restart),
        cmocka_unit_test(a_node_in_quarantine_gets_no_group_that_another_network_could_hold),
        cmocka_unit_test(a_node_in_quarantine_gets_a_group_that_no_other_network_could_hold),
        cmocka_unit_test(a_member_is_sought_among_nodes_that_the_group_reaches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

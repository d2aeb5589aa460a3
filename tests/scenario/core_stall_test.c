/* Stories of machines that are suspended: nobody is accused for it (DESIGN 5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/copies/copies.h"
#include "node/core/roof/roof.h"
#include "tests/scenario/core_story.h"

#define HOUR_MS 3600000u

static void submit(struct world *world, uint32_t trials, uint32_t slots_per_trial)
{
    struct config config;
    make_config(&config, trials, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = slots_per_trial;
    world_submit(world, 0, &config);
}

/* Node c of three, with room for all their trials, is cut off alone. It has slept for an hour since when it wakes up. */
static struct world *wake_up_cut_off(void)
{
    struct world *world = world_new(3, 4);
    (void)story_begin(world, 4, 5);
    assert_true(running(world, 2) < 4);
    cut(world, 2);
    world_run(world, 60000);
    world_sleep(world, 2, HOUR_MS);
    world_run(world, HOUR_MS);
    assert_line(world, 1000, "c: stalled for ");
    return world;
}

static void who_sleeps_in_a_partition_is_as_patient_when_it_wakes_up(void **state)
{
    (void)state;
    struct world *world = wake_up_cut_off();
    uint32_t before = running(world, 2);
    world_run(world, CORE_PATIENCE_MS - 60000 - 30000);
    assert_int_equal(world_count(world, "c> persist verdict"), 0);
    assert_int_equal(running(world, 2), before);
    world_run(world, 60000);
    assert_true(world_count(world, "c> persist verdict") > 0);
    assert_int_equal(running(world, 2), 4);
    world_free(world);
}

static void who_wakes_up_after_the_heal_has_judged_nobody(void **state)
{
    (void)state;
    struct world *world = wake_up_cut_off();
    heal(world);
    world_run(world, 60000);
    assert_int_equal(world_count(world, "c> persist verdict"), 0);
    assert_true(world_coordinator(world) >= 0);
    assert_int_equal(running(world, 0) + running(world, 1) + running(world, 2), 4);
    world_free(world);
}

/* Two machines are suspended together while their coordinator waits for the group of a trial that needs both. */
static void a_gang_lives_through_the_sleep_of_all(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world->disk_ms = 1500;
    submit(world, 1, 2);
    assert_line(world, 30000, "> persist attempt #");
    for (uint32_t sleeps = 0; sleeps < 2; sleeps++) { /* its attempt's record is on its way to the disk, then its slots' */
        world_run(world, sleeps == 0 ? 500 : 1500);
        assert_int_equal(world_count(world, "> prepare "), 0);
        world_sleep(world, 0, 10000);
        world_sleep(world, 1, 10000);
        world_run(world, 10000);
    }
    world_run(world, 20000);
    assert_int_equal(world_count(world, ": stalled for "), 4);
    assert_int_equal(world_count(world, "its group did not become complete"), 0);
    assert_int_equal(world_count(world, "> persist attempt #"), 1);
    assert_int_equal(running(world, 0) + running(world, 1), 2);
    world_free(world);
}

/* It has asked another node for the second copy of what its user submits when it is suspended. */
static void a_request_waits_for_its_second_disk_after_a_sleep(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->push_ms = 2000;
    submit(world, 1, 1);
    world_run(world, 1000);
    assert_int_equal(world->reply.count, 0);
    world_sleep(world, 0, 10000);
    world_sleep(world, 1, 10000);
    world_run(world, 10000 + 4000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    world_free(world);
}

/* A copy that was whole before the sleep may be gone since: who deletes its own asks again. */
static void a_confirmation_grows_old_in_a_sleep(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct node_core *core = world->nodes[0].core;
    struct core_confirmation row = {.held_ms = core->now_ms, .refused_ms = core->now_ms};
    core->copies->confirmations = &row;
    stall_shift(core, HOUR_MS);
    assert_int_equal(row.held_ms, core->now_ms);
    assert_int_equal(row.refused_ms, core->now_ms + HOUR_MS);
    core->copies->confirmations = NULL;
    world_free(world);
}

/* It was sending something, or somebody something to it, and in the sleep none of that was touched. */
static void who_wakes_up_collects_nothing_yet(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_run(world, CORE_COLLECT_MS + 60000);
    uint32_t before = world_count(world, "a> collect");
    assert_true(before > 0);
    world_sleep(world, 0, 2 * HOUR_MS);
    world_sleep(world, 1, 2 * HOUR_MS);
    world_run(world, 2 * HOUR_MS);
    assert_line(world, 1000, "a: stalled for ");
    world_run(world, CORE_COLLECT_MS - 60000);
    assert_int_equal(world_count(world, "a> collect"), before);
    world_run(world, 120000);
    assert_int_equal(world_count(world, "a> collect"), before + 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_sleeps_in_a_partition_is_as_patient_when_it_wakes_up),
        cmocka_unit_test(who_wakes_up_after_the_heal_has_judged_nobody),
        cmocka_unit_test(a_gang_lives_through_the_sleep_of_all),
        cmocka_unit_test(a_request_waits_for_its_second_disk_after_a_sleep),
        cmocka_unit_test(a_confirmation_grows_old_in_a_sleep),
        cmocka_unit_test(who_wakes_up_collects_nothing_yet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Stories of trials that are tried no more, and of nodes that trials avoid (DESIGN 7). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/members/quarantine.h"
#include "node/daemon/render/experiment.h"
#include "tests/scenario/core_story.h"

static void submit(struct world *world, uint32_t trials, uint32_t max_restarts)
{
    struct config config;
    make_config(&config, trials, max_restarts);
    world_start_all(world);
    world_submit(world, 0, &config);
}

static enum view_trial_state state_of(const struct world *world, uint32_t trial)
{
    return view_trial_state(world_experiment(world, 0), trial);
}

static enum view_quarantine quarantine_of(const struct world *world, uint32_t node, uint32_t trial)
{
    const struct view_trial *row = view_find_trial(world_experiment(world, node), trial);
    return row != NULL ? view_trial_quarantine(row, CONFIG_RETRY_ANY, NULL, NULL) : VIEW_NO_QUARANTINE;
}

/* The node on which a trial runs, or -1. */
static int host_of(const struct world *world, uint32_t trial)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
            const struct world_worker *worker = &world->nodes[i].workers[slot];
            if (world->nodes[i].is_up && worker->runs && worker->attempt.trial == trial) {
                return (int)i;
            }
        }
    }
    return -1;
}

static void run_until_hosted(struct world *world, uint32_t trial, uint64_t max_ms)
{
    for (uint64_t ms = 0; host_of(world, trial) < 0 && ms < max_ms; ms += 100) {
        world_run(world, 100);
    }
    assert_true(host_of(world, trial) >= 0);
}

/* The machine is silent from now on, and what ran there is gone. */
static void power_off(struct world *world, uint32_t node)
{
    world_crash(world, node);
    world->nodes[node].is_cut = true;
}

static void power_on(struct world *world, uint32_t node)
{
    world->nodes[node].is_cut = false;
    world_restart(world, node, false);
}

static void a_trial_that_fails_on_three_nodes_is_quarantined_and_the_rest_goes_on(void **state)
{
    (void)state;
    struct world *world = world_new(5, 1);
    world->failing_trials = 1u << 2;
    submit(world, 8, 100);
    world_run(world, 90000);
    assert_int_equal(world_count(world, "> spawn trial 2 "), 3);
    assert_int_equal(world_count(world, "exp trial 2 is quarantined: it failed on "), 1);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(quarantine_of(world, i, 2), VIEW_QUARANTINE_FAILURES);
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
        assert_false(world->nodes[i].core->quarantine->own.is_active);
    }
    for (uint32_t trial = 0; trial < 8; trial++) {
        assert_int_equal(state_of(world, trial), trial == 2 ? VIEW_TRIAL_FAILED : VIEW_TRIAL_COMPLETED);
    }
    static uint8_t bytes[1u << 16];
    struct pack_writer writer;
    uint32_t from = 0;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_false(render_show(world->nodes[1].core, world_experiment(world, 1), world_experiment(world, 1)->config, &from, &writer));
    assert_non_null(memmem(bytes, writer.used_bytes, "quarantined: it failed on ", 26));
    world_free(world);
}

static void a_failure_is_tried_elsewhere_first(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->failing_trials = 1;
    submit(world, 1, 1);
    world_run(world, 60000);
    assert_int_equal(world->nodes[0].spawn_count, 1);
    assert_int_equal(world->nodes[1].spawn_count, 1);
    assert_int_equal(quarantine_of(world, 0, 0), VIEW_NO_QUARANTINE);
    assert_int_equal(state_of(world, 0), VIEW_TRIAL_FAILED); /* its one restart is used up */
    world_free(world);
}

/* Kills the host of trial 0 twice, 5 s after each start; both come back. The calendar of each node is ahead of the one
 * before it by `apart_s`. Returns the world, 60 s later. */
static struct world *kill_hosts_of_trial_0(uint32_t trials, uint32_t slots, uint64_t apart_s)
{
    struct world *world = world_new(5, slots);
    world->program = WORLD_RUNS_FOREVER;
    world->now_ms += CORE_EARLY_END_MS; /* the machines have been up for longer than that */
    for (uint32_t i = 0; i < 5; i++) {
        world->nodes[i].wall_shift_s = i * apart_s;
    }
    submit(world, trials, 5);
    for (uint32_t i = 0; i < 2; i++) {
        run_until_hosted(world, 0, 60000);
        world_run(world, 5000);
        uint32_t host = (uint32_t)host_of(world, 0);
        power_off(world, host);
        world_run(world, 12000); /* found dead, and known to have died alone */
        power_on(world, host);
    }
    world_run(world, 60000);
    return world;
}

static void assert_quarantined_for_deaths(struct world *world)
{
    assert_int_equal(world_count(world, "persist death"), 2);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 2);
    assert_int_equal(world_count(world, "exp trial 0 is quarantined: its host died within 60 s of its start, on"), 1);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(quarantine_of(world, i, 0), VIEW_QUARANTINE_DEATHS);
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_FAILED);
    }
    world_free(world);
}

static void a_trial_whose_host_dies_young_twice_is_quarantined(void **state)
{
    (void)state;
    assert_quarantined_for_deaths(kill_hosts_of_trial_0(1, 1, 0));
}

static void calendars_that_are_hours_apart_hide_no_death(void **state)
{
    (void)state;
    assert_quarantined_for_deaths(kill_hosts_of_trial_0(1, 1, 3600));
}

/* The trial has run for 100 s on a machine whose calendar is as much ahead, when the others restart and see it for the first
 * time in their life. Then its host dies. */
static void calendars_that_are_apart_do_not_make_an_old_worker_young(void **state)
{
    (void)state;
    struct world *world = world_new(5, 1);
    world->program = WORLD_RUNS_FOREVER;
    for (uint32_t i = 0; i < 5; i++) {
        world->nodes[i].wall_shift_s = 105;
    }
    submit(world, 1, 5);
    run_until_hosted(world, 0, 60000);
    uint32_t host = (uint32_t)host_of(world, 0);
    world_run(world, 100000);
    for (uint32_t i = 0; i < 5; i++) {
        if (i != host) {
            world_crash(world, i);
        }
    }
    for (uint32_t i = 0; i < 5; i++) {
        if (i != host) {
            world->nodes[i].wall_shift_s = 0;
            world_restart(world, i, false);
        }
    }
    world_run(world, 10000);
    power_off(world, host);
    world_run(world, 60000);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 2);
    assert_int_equal(world_count(world, "persist death"), 0);
    world_free(world);
}

/* Two slots a node, so that others are on the hosts that trial 0 takes with it. */
static void those_that_were_beside_it_are_not_quarantined(void **state)
{
    (void)state;
    struct world *world = kill_hosts_of_trial_0(6, 2, 0);
    assert_int_equal(quarantine_of(world, 0, 0), VIEW_QUARANTINE_DEATHS);
    for (uint32_t trial = 1; trial < 6; trial++) {
        assert_int_equal(quarantine_of(world, 0, trial), VIEW_NO_QUARANTINE);
        assert_int_equal(state_of(world, trial), VIEW_TRIAL_RUNNING);
    }
    world_free(world);
}

static void one_death_of_a_host_quarantines_nobody(void **state)
{
    (void)state;
    struct world *world = world_new(4, 4);
    world->program = WORLD_RUNS_FOREVER;
    submit(world, 8, 5);
    run_until_hosted(world, 7, 30000);
    uint32_t host = (uint32_t)host_of(world, 0);
    power_off(world, host);
    world_run(world, 60000);
    assert_true(world_count(world, "persist death") > 1);
    for (uint32_t trial = 0; trial < 8; trial++) {
        assert_int_equal(state_of(world, trial), VIEW_TRIAL_RUNNING);
    }
    world_free(world);
}

/* Two of five lose their power together, come back, and lose it again: nobody's trial did that. */
static void a_rack_that_loses_its_power_twice_quarantines_nobody(void **state)
{
    (void)state;
    struct world *world = world_new(5, 2);
    world->program = WORLD_RUNS_FOREVER;
    submit(world, 10, 5);
    run_until_hosted(world, 9, 30000);
    for (uint32_t i = 0; i < 2; i++) {
        world_run(world, 5000);
        power_off(world, 3);
        world_run(world, 700);
        power_off(world, 4);
        world_run(world, 20000);
        power_on(world, 3);
        power_on(world, 4);
        world_run(world, 10000);
    }
    world_run(world, 60000);
    assert_int_equal(world_count(world, "persist death"), 0);
    for (uint32_t trial = 0; trial < 10; trial++) {
        assert_int_equal(state_of(world, trial), VIEW_TRIAL_RUNNING);
    }
    world_free(world);
}

/* A daemon that is killed leaves a machine that refuses connections: that is no host's death. */
static void a_killed_daemon_is_no_death_of_its_host(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world->program = WORLD_RUNS_FOREVER;
    submit(world, 1, 5);
    for (uint32_t i = 0; i < 3; i++) {
        run_until_hosted(world, 0, 60000);
        world_run(world, 3000);
        uint32_t host = (uint32_t)host_of(world, 0);
        world_crash(world, host);
        world_run(world, 20000);
        world_restart(world, host, false);
    }
    run_until_hosted(world, 0, 60000);
    assert_int_equal(world_count(world, "persist death"), 0);
    world_free(world);
}

/* Twice the host is cut off alone, and its worker lives on: when it is back its record says so, and the death is void.
 * There is no room elsewhere, and disks are slow, so that the next attempt begins when all hear its host again. */
static void a_host_that_was_cut_off_did_not_die(void **state)
{
    (void)state;
    struct world *world = world_new(5, 1);
    world->program = WORLD_RUNS_FOREVER;
    world->disk_ms = 1000;
    submit(world, 5, 5);
    run_until_hosted(world, 4, 60000);
    for (uint32_t i = 0; i < 2; i++) {
        run_until_hosted(world, 0, 60000);
        world_run(world, 3000);
        uint32_t host = (uint32_t)host_of(world, 0);
        world->nodes[host].is_cut = true;
        world_run(world, 17000);
        world->nodes[host].is_cut = false;
        world_run(world, 20000);
    }
    assert_int_equal(world_count(world, "persist death"), 2);
    assert_int_equal(quarantine_of(world, 0, 0), VIEW_NO_QUARANTINE);
    assert_int_equal(state_of(world, 0), VIEW_TRIAL_RUNNING);
    world_free(world);
}

/* ---- nodes ---- */

static bool is_apart(const struct world *world, uint32_t seen_by, uint32_t node)
{
    return member_at(world, seen_by, node)->quarantine.is_active;
}

static void a_node_on_which_others_trials_fail_is_avoided(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].fails_programs = true;
    world->disk_ms = 100; /* a try takes some time: programs fail at once */
    submit(world, 40, 5);
    assert_line(world, 60000, " trials failed on it within 60 s of their start, and on no other node");
    assert_line(world, 1000, "c: b is quarantined for 1 min: ");
    world_run(world, 1000);
    uint32_t spawned = world->nodes[1].spawn_count;
    assert_in_range(spawned, 3, 10); /* until a trial has ended well elsewhere, it may be the program's fault */
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_apart(world, i, 1));
        assert_false(is_apart(world, i, 0));
    }
    world_run(world, 30000);
    assert_int_equal(world->nodes[1].spawn_count, spawned);
    world_run(world, 120000);
    for (uint32_t trial = 0; trial < 40; trial++) {
        assert_int_equal(state_of(world, trial), VIEW_TRIAL_COMPLETED);
    }
    world_free(world);
}

static void a_quarantine_grows_until_a_trial_ends_well(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].fails_programs = true;
    submit(world, 400, 5);
    assert_line(world, 60000, "c: b is quarantined for 1 min");
    assert_line(world, 70000, "c: b is quarantined no more");
    assert_line(world, 60000, "c: b is quarantined for 2 min");
    world_crash(world, 1);
    world_run(world, 3000);
    world_restart(world, 1, false); /* it begins anew */
    world_run(world, 100000);
    assert_true(is_apart(world, 0, 1));
    world->nodes[1].fails_programs = false;
    world_run(world, 60000);
    assert_false(is_apart(world, 0, 1));
    assert_int_equal(world->nodes[1].core->quarantine->own.level, 0);
    world_free(world);
}

static void a_broken_experiment_quarantines_no_node(void **state)
{
    (void)state;
    struct world *world = world_new(4, 2);
    world->program = WORLD_FAILS_AT_ONCE;
    submit(world, 16, 5);
    world_run(world, 120000);
    assert_int_equal(world_count(world, "persist quarantine"), 0);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    assert_int_equal(world_spawns(world), 16 * 3);
    world_free(world);
}

/* Its trials are tried once only, so that none of them fails on two nodes. */
static void a_broken_experiment_without_restarts_quarantines_no_node(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->program = WORLD_FAILS_AT_ONCE;
    submit(world, 30, 0);
    world_run(world, 120000);
    assert_int_equal(world_count(world, "persist quarantine"), 0);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    assert_int_equal(world_spawns(world), 30);
    world_free(world);
}

static void a_quarantined_node_is_used_when_no_other_could_hold_the_work(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].fails_programs = true;
    submit(world, 40, 5);
    assert_line(world, 60000, "c: b is quarantined for 1 min");
    world->nodes[1].fails_programs = false;
    world_crash(world, 0);
    world_crash(world, 2);
    uint32_t spawned = world->nodes[1].spawn_count;
    world_run(world, 40000);
    assert_true(world->nodes[1].spawn_count > spawned);
    assert_false(is_apart(world, 1, 1)); /* and a success ends it */
    world_free(world);
}

/* ---- nodes that cannot even start what they are given ---- */

/* Two of three nodes do their work, and b starts none. */
static void assert_b_is_avoided(struct world *world)
{
    world->disk_ms = 100;
    submit(world, 40, 5);
    assert_line(world, 60000, "c: b is quarantined for 1 min: 3 trials could not be started or failed on it");
    world_run(world, 1000);
    uint32_t tries = world_count(world, "b> prepare");
    assert_in_range(tries, 3, 8);
    world_run(world, 30000);
    assert_int_equal(world_count(world, "b> prepare"), tries);
    world_run(world, 150000);
    for (uint32_t trial = 0; trial < 40; trial++) {
        assert_int_equal(state_of(world, trial), VIEW_TRIAL_COMPLETED);
    }
    assert_int_equal(world->nodes[1].spawn_count, 0);
    assert_false(is_apart(world, 0, 0));
    assert_false(is_apart(world, 0, 2));
    world_free(world);
}

static void a_node_that_can_prepare_nothing_is_avoided(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].prepares_nothing = true;
    assert_b_is_avoided(world);
}

static void a_node_that_can_start_nothing_is_avoided(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].starts_nothing = true;
    assert_b_is_avoided(world);
}

/* The others are busy for as long as anybody looks, and so b alone is free. */
static void a_node_that_can_start_nothing_and_alone_is_free_is_tried_rarely(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->program = WORLD_RUNS_FOREVER;
    world->nodes[1].starts_nothing = true;
    submit(world, 40, 5);
    world_run(world, 3600000);
    assert_in_range(world_count(world, "b> prepare"), 6, 60);
    world_free(world);
}

/* What it lacked comes: then it is used again, and the trial that could not be started there does not wait for the others. */
static void a_node_that_can_start_trials_again_is_used_again(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->program = WORLD_RUNS_FOREVER;
    world->nodes[1].prepares_nothing = true;
    submit(world, 2, 5);
    world_run(world, 20000);
    assert_int_equal(world_spawns(world), 1);
    world->nodes[1].prepares_nothing = false;
    world_run(world, 120000);
    assert_int_equal(world->nodes[1].spawn_count, 1);
    world_free(world);
}

/* It has run everywhere before: then nobody has it any more. */
static void code_that_is_lost_everywhere_quarantines_no_node(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    submit(world, 40, 5);
    world_run(world, 10000);
    assert_in_range(world_spawns(world), 4, 39);
    for (uint32_t i = 0; i < 4; i++) {
        world->nodes[i].lacks_code = true;
    }
    world_run(world, 600000);
    assert_int_equal(world_count(world, "persist quarantine"), 0);
    for (uint32_t i = 0; i < 4; i++) {
        world->nodes[i].lacks_code = false;
    }
    world_run(world, 300000);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

/* Returns the world when b has just been quarantined; `old_count` is how many records its disk held before that. */
static struct world *quarantine_b(uint32_t *old_count)
{
    struct world *world = world_new(3, 1);
    world->nodes[1].fails_programs = true;
    world_start_all(world);
    *old_count = world->nodes[1].record_count;
    struct config config;
    make_config(&config, 400, 5);
    world_submit(world, 0, &config);
    assert_line(world, 60000, "c: b is quarantined for 1 min");
    return world;
}

static void a_quarantine_that_a_disk_has_lost_ends_with_its_time(void **state)
{
    (void)state;
    uint32_t old_count;
    struct world *world = quarantine_b(&old_count);
    world_crash(world, 1);
    world->nodes[1].record_count = old_count;
    world->nodes[1].fails_programs = false;
    world_restart(world, 1, false);
    world_run(world, 20000);
    assert_true(is_apart(world, 0, 1));
    assert_true(world->nodes[1].core->quarantine->own.is_active);
    world_run(world, 60000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(is_apart(world, i, 1));
    }
    world_free(world);
}

/* It has long done well again, and comes back on a disk that knows of its quarantine only. */
static void a_quarantine_that_was_over_does_not_grow_on_an_old_disk(void **state)
{
    (void)state;
    uint32_t old_count;
    struct world *world = quarantine_b(&old_count);
    static struct made old[WORLD_DISK_MAX];
    world_run(world, 1000);
    old_count = world->nodes[1].record_count;
    memcpy(old, world->nodes[1].records, old_count * sizeof *old);
    world->nodes[1].fails_programs = false;
    world_run(world, 150000);
    assert_int_equal(member_at(world, 0, 1)->quarantine.level, 0);
    world_crash(world, 1);
    memcpy(world->nodes[1].records, old, old_count * sizeof *old);
    world->nodes[1].record_count = old_count;
    world->program = WORLD_RUNS_FOREVER; /* none ends well meanwhile */
    world_restart(world, 1, false);
    world_run(world, 20000);
    assert_false(world->nodes[1].core->quarantine->own.is_active);
    assert_int_equal(world->nodes[1].core->quarantine->own.level, 0);
    world_free(world);
}

/* What it said in an earlier life comes back to it when it has been quarantined in this one. */
static void a_word_of_an_earlier_life_ends_no_quarantine(void **state)
{
    (void)state;
    uint32_t old_count;
    struct world *world = quarantine_b(&old_count);
    world->program = WORLD_RUNS_FOREVER; /* so that it has no reason for another one */
    world->nodes[1].fails_programs = false;
    struct fact_quarantine fact = {.is_active = false};
    struct made made;
    make_record(&made, world->nodes[1].person.id, 99ull << 32, 1, FACT_QUARANTINE, fact_key_empty(), &fact);
    world_deliver(world, 0, 1, &made);
    world_run(world, 5000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_apart(world, i, 1));
    }
    world_run(world, 70000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(is_apart(world, i, 1));
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_that_fails_on_three_nodes_is_quarantined_and_the_rest_goes_on),
        cmocka_unit_test(a_failure_is_tried_elsewhere_first),
        cmocka_unit_test(a_trial_whose_host_dies_young_twice_is_quarantined),
        cmocka_unit_test(calendars_that_are_hours_apart_hide_no_death),
        cmocka_unit_test(calendars_that_are_apart_do_not_make_an_old_worker_young),
        cmocka_unit_test(those_that_were_beside_it_are_not_quarantined),
        cmocka_unit_test(one_death_of_a_host_quarantines_nobody),
        cmocka_unit_test(a_rack_that_loses_its_power_twice_quarantines_nobody),
        cmocka_unit_test(a_killed_daemon_is_no_death_of_its_host),
        cmocka_unit_test(a_host_that_was_cut_off_did_not_die),
        cmocka_unit_test(a_node_on_which_others_trials_fail_is_avoided),
        cmocka_unit_test(a_quarantine_grows_until_a_trial_ends_well),
        cmocka_unit_test(a_broken_experiment_quarantines_no_node),
        cmocka_unit_test(a_broken_experiment_without_restarts_quarantines_no_node),
        cmocka_unit_test(a_quarantined_node_is_used_when_no_other_could_hold_the_work),
        cmocka_unit_test(a_node_that_can_prepare_nothing_is_avoided),
        cmocka_unit_test(a_node_that_can_start_nothing_is_avoided),
        cmocka_unit_test(a_node_that_can_start_nothing_and_alone_is_free_is_tried_rarely),
        cmocka_unit_test(a_node_that_can_start_trials_again_is_used_again),
        cmocka_unit_test(code_that_is_lost_everywhere_quarantines_no_node),
        cmocka_unit_test(a_quarantine_that_a_disk_has_lost_ends_with_its_time),
        cmocka_unit_test(a_quarantine_that_was_over_does_not_grow_on_an_old_disk),
        cmocka_unit_test(a_word_of_an_earlier_life_ends_no_quarantine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

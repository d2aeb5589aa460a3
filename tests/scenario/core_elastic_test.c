/* Stories of groups that change: what a lost worker, a new slot or a cut costs an attempt whose program is elastic
 * (DESIGN 9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/scenario/core_story.h"

static struct config elastic(uint32_t trials, uint32_t slots, uint32_t min_slots, uint32_t max_slots)
{
    struct config config;
    make_config(&config, trials, 5);
    config.slots_per_trial = slots;
    config.min_slots = min_slots;
    config.max_slots = max_slots;
    return config;
}

static struct world *elastic_world(uint32_t nodes, uint32_t slots_each)
{
    struct world *world = world_new(nodes, slots_each);
    world->program = WORLD_RUNS_FOREVER;
    world->is_elastic = true;
    world_start_all(world);
    return world;
}

static const struct view_attempt *attempt_of(const struct world *world, uint32_t node, uint32_t trial)
{
    const struct view_trial *row = view_find_trial(world_experiment(world, node), trial);
    return row != NULL ? view_trial_highest(row) : NULL;
}

/* How many are in a group of this generation; 0: in any. */
static uint32_t in_generation(const struct world *world, uint32_t generation)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
            const struct world_worker *worker = &world->nodes[i].workers[slot];
            count += worker->runs && worker->group_size > 0 && (generation == 0 || worker->generation == generation);
        }
    }
    return count;
}

static uint32_t running(const struct world *world, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < world->nodes[node].slot_count; slot++) {
        count += world->nodes[node].workers[slot].runs;
    }
    return count;
}

/* Runs until so many are in a group of this generation, all of one size. */
static void assert_group(struct world *world, uint64_t max_ms, uint32_t generation, uint32_t size)
{
    uint64_t until_ms = world->now_ms + max_ms;
    while (in_generation(world, generation) != size && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    if (in_generation(world, generation) != size) {
        print_end(world);
        fail_msg("generation %u never had %u in it", generation, size);
    }
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
            const struct world_worker *worker = &world->nodes[i].workers[slot];
            if (worker->runs && worker->group_size > 0 && worker->generation == generation) {
                assert_int_equal(worker->group_size, size);
            }
        }
    }
}

/* The group makes steps. */
static void assert_trains(struct world *world)
{
    uint64_t before = 0, after = 0;
    for (int round = 0; round < 2; round++) {
        uint64_t *highest = round == 0 ? &before : &after;
        for (uint32_t i = 0; i < world->node_count; i++) {
            for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
                const struct world_worker *worker = &world->nodes[i].workers[slot];
                *highest = worker->group_size > 0 && worker->step > *highest ? worker->step : *highest;
            }
        }
        world_run(world, round == 0 ? 3000 : 0);
    }
    if (after <= before) {
        print_end(world);
        fail_msg("no step is made");
    }
}

/* The group of one trial that wants so many slots, in generation 1; `world` has just been started. */
static struct world *begins(struct world *world, uint32_t slots, uint32_t min_slots, uint32_t max_slots)
{
    struct config config = elastic(1, slots, min_slots, max_slots);
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, slots);
    return world;
}

/* One slot on each of `nodes` nodes, all in generation 1 and a few steps on. */
static struct world *group_of(uint32_t nodes, uint32_t min_slots)
{
    struct world *world = begins(elastic_world(nodes, 1), nodes, min_slots, nodes);
    world_run(world, 3500);
    world->prepare_ms = 4000; /* whoever takes the place of another comes later */
    return world;
}

static struct world_worker *worker_on(struct world *world, uint32_t node)
{
    return &world->nodes[node].workers[0];
}

/* A node that does not coordinate; the `skip`-th of them. */
static uint32_t follower(const struct world *world, uint32_t skip)
{
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    for (uint32_t i = 0; i < world->node_count; i++) {
        if ((int)i != coordinator && skip-- == 0) {
            return i;
        }
    }
    fail_msg("every node coordinates");
    return 0;
}

/* Nobody was started but those who began and `joined` more, and the attempt lives. */
static void assert_one_attempt(const struct world *world, uint32_t began, uint32_t joined)
{
    if (world_count(world, "persist verdict") != 0 || world_spawns(world) != began + joined) {
        print_end(world);
    }
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), began + joined);
    assert_int_equal(world_count(world, "> kill "), 0);
}

static void withhold(struct world *world, uint32_t node, uint64_t slots)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_WITHHOLD;
    event.u.request.slots = slots; /* bits; 0: all */
    world_step(world, node, &event);
}

static void return_slots(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_RETURN;
    world_step(world, node, &event);
}

static void drain_at_once(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_DRAIN;
    event.u.request.node = world->nodes[node].person.id;
    event.u.request.at_once = true;
    world_step(world, 0, &event);
}

/* ---- who is lost ---------------------------------------------------------------------------------------------------------- */

static void a_killed_worker_costs_no_other_process_and_the_rest_go_on_from_the_highest_step(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t victim = follower(world, 0), other = follower(world, 1);
    uint64_t step = worker_on(world, other)->applied;
    assert_true(step > 0);
    worker_on(world, other)->applied = step + 1; /* it got all of the step that the death cut short */
    uint32_t rank = worker_on(world, other)->rank;
    world_end_worker(world, victim, 0, -9);
    char line[128];
    uint32_t new_rank = rank - (worker_on(world, victim)->rank < rank);
    snprintf(line, sizeof line, "of 2 from step %llu states %s", (unsigned long long)step + 1, new_rank == 0 ? "10" : "01");
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, line), 2);
    assert_one_attempt(world, 3, 0);
    assert_trains(world);
    assert_group(world, 5000, 3, 3); /* the slot is free: somebody new takes it, and gets the state from both */
    assert_int_equal(world_count(world, "> enter generation 3 rank 2 of 3"), 1);
    assert_int_equal(world_count(world, "states 110"), 3);
    assert_one_attempt(world, 3, 1);
    assert_trains(world);
    world_free(world);
}

static void a_dead_node_costs_no_other_process(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    world_die(world, follower(world, 0));
    assert_group(world, 15000, 2, 2);
    assert_trains(world);
    assert_one_attempt(world, 3, 0);
    world_free(world);
}

static void a_dead_coordinator_costs_its_own_worker_only(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    world_die(world, (uint32_t)world_coordinator(world));
    assert_group(world, 30000, 2, 2);
    assert_trains(world);
    assert_one_attempt(world, 3, 0);
    world_free(world);
}

static void a_coordinator_that_dies_before_it_decides_is_followed_by_one_that_does(void **state)
{
    (void)state;
    struct world *world = group_of(4, 2);
    uint32_t coordinator = (uint32_t)world_coordinator(world), victim = follower(world, 0);
    world_end_worker(world, victim, 0, -9);
    world_die(world, coordinator);
    uint64_t until_ms = world->now_ms + 40000;
    while (in_generation(world, 0) < 3 && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    assert_trains(world);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 5); /* the victim's slot is used again */
    world_free(world);
}

static void a_generation_whose_key_died_with_its_coordinator_is_passed_over(void **state)
{
    (void)state;
    struct world *world = group_of(4, 2);
    uint32_t coordinator = (uint32_t)world_coordinator(world), victim = follower(world, 0), other = follower(world, 1);
    world->loses_keys = true;
    size_t before = world->log_bytes;
    world_die(world, victim);
    assert_true(world_run_until(world, 15000, before, ": generation 2 of "));
    world_run(world, 100);
    assert_int_equal(attempt_of(world, other, 0)->generation, 2);
    world_die(world, coordinator);
    world->loses_keys = false;
    assert_group(world, 40000, 3, 2);
    assert_int_equal(world_count(world, "> enter generation 2"), 1); /* its own worker */
    assert_trains(world);
    assert_one_attempt(world, 4, 0);
    world_free(world);
}

static void a_daemon_that_restarts_under_a_group_that_trains_costs_nothing(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    world_crash(world, node);
    world_run(world, 500);
    world_restart(world, node, true);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 1), 3);
    assert_int_equal(world_count(world, "> leave generation"), 0);
    assert_one_attempt(world, 3, 0);
    assert_trains(world);
    world_free(world);
}

/* It has come into the next group since it last waited, and does not hold the state any more that it had then: seed 52 of
 * plan 4, with groups that are brought to their size first. */
static void a_daemon_that_dies_as_its_worker_enters_a_group_does_not_take_it_to_wait(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t victim = follower(world, 0), node = follower(world, 1);
    world->disk_ms = 300;
    world_end_worker(world, victim, 0, -9);
    char line[64];
    snprintf(line, sizeof line, "%s> enter generation 2", world->nodes[node].person.name);
    assert_line(world, 15000, line);
    world_crash(world, node);
    world_restart(world, node, true);
    assert_int_equal(worker_on(world, node)->generation, 2);
    assert_false(world->nodes[node].core->workers[0].waits);
    assert_int_equal(world->nodes[node].core->workers[0].generation, 2);
    world_free(world);
}

static void a_daemon_that_restarts_while_its_worker_waits_finds_it_waiting(void **state)
{
    (void)state;
    struct world *world = group_of(4, 2);
    uint32_t victim = follower(world, 0), node = follower(world, 1);
    world_die(world, victim);
    char line[64];
    snprintf(line, sizeof line, "%s> leave generation 1 at once", world->nodes[node].person.name);
    assert_line(world, 15000, line);
    world_crash(world, node);
    world_run(world, 300);
    world_restart(world, node, true);
    uint64_t until_ms = world->now_ms + 30000;
    while (in_generation(world, 0) < 3 && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    assert_trains(world);
    assert_one_attempt(world, 4, 0);
    world_free(world);
}

static void two_daemons_that_restart_at_once_cost_nothing(void **state)
{
    (void)state;
    struct world *world = group_of(4, 2);
    for (uint32_t i = 0; i < 2; i++) {
        world_crash(world, follower(world, i));
    }
    world_run(world, 500);
    for (uint32_t i = 0; i < 4; i++) {
        if (!world->nodes[i].is_up) {
            world_restart(world, i, true);
        }
    }
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 1), 4);
    assert_one_attempt(world, 4, 0);
    assert_trains(world);
    world_free(world);
}

static void two_workers_that_did_not_survive_their_daemons_are_replaced(void **state)
{
    (void)state;
    struct world *world = group_of(5, 2);
    uint32_t gone[2] = {follower(world, 0), follower(world, 1)};
    for (uint32_t i = 0; i < 2; i++) {
        world_crash(world, gone[i]);
    }
    world_run(world, 500);
    for (uint32_t i = 0; i < 2; i++) {
        world_restart(world, gone[i], false);
    }
    uint64_t until_ms = world->now_ms + 30000;
    while (in_generation(world, 0) < 5 && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    world_run(world, 2000);
    assert_int_equal(in_generation(world, 0), 5);
    assert_one_attempt(world, 5, 2);
    assert_trains(world);
    world_free(world);
}

static void below_min_slots_the_attempt_is_lost_after_a_while_and_begins_again(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(2, 1), 2, 2, 3);
    uint32_t victim = follower(world, 0), other = (uint32_t)world_coordinator(world);
    world_die(world, victim);
    world_run(world, CORE_REGROUP_MS - 5000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(running(world, other), 1);
    assert_int_equal(in_generation(world, 2), 0);
    assert_line(world, 20000, "persist verdict lost");
    world->nodes[victim].is_cut = false;
    world_restart(world, victim, false);
    assert_line(world, 30000, "> spawn trial 0 attempt 2 rank 1");
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 2);
    assert_group(world, 5000, 1, 2);
    assert_trains(world);
    world_free(world);
}

/* Seeds 900359 and 902961 of plan 4: nobody will ever say how its worker ended. */
static void a_member_that_its_owner_has_forgotten_on_an_old_disk_is_not_waited_for(void **state)
{
    (void)state;
    struct world *world = elastic_world(2, 1);
    struct made *old[2];
    uint32_t old_count[2];
    for (uint32_t i = 0; i < 2; i++) {
        old_count[i] = world->nodes[i].record_count;
        old[i] = malloc(old_count[i] * sizeof *old[i]);
        memcpy(old[i], world->nodes[i].records, old_count[i] * sizeof *old[i]);
    }
    begins(world, 2, 2, 3);
    world_run(world, 2500);
    uint32_t victim = follower(world, 0);
    world_crash(world, victim);
    world->nodes[victim].record_count = old_count[victim];
    memcpy(world->nodes[victim].records, old[victim], old_count[victim] * sizeof *old[victim]);
    world_end_worker(world, 1 - victim, 0, -9);
    world_restart(world, victim, false);
    assert_line(world, 40000, "persist verdict lost");
    assert_line(world, 40000, "> spawn trial 0 attempt 2 rank 1");
    assert_group(world, 5000, 1, 2);
    assert_trains(world);
    free(old[0]);
    free(old[1]);
    world_free(world);
}

/* Seeds 913264 of plan 4 and 20769 of plan 5: the record is refused, and a newer version of it takes its place. */
static void a_generation_that_the_disk_refused_gets_its_key_all_the_same(void **state)
{
    (void)state;
    struct world *world = group_of(3, 1);
    uint32_t coordinator = (uint32_t)world_coordinator(world);
    world_end_worker(world, follower(world, 0), 0, -9);
    world->nodes[coordinator].disk_refuses = true;
    assert_line(world, 5000, ": generation 2 of 2");
    assert_line(world, 30000, "1 more on their way to generation 3"); /* who was on its way before got no lease */
    assert_int_equal(in_generation(world, 0), 0);
    world->nodes[coordinator].disk_refuses = false;
    world_run(world, 15000);
    assert_int_equal(in_generation(world, 0), 3);
    assert_trains(world);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

static void the_programs_own_failures_are_counted_across_generations(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    struct config config = elastic(1, 3, 1, 3);
    config.max_restarts = 2;
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 3);
    for (uint32_t failures = 1; failures <= 3; failures++) {
        world_run(world, 2500);
        assert_int_equal(view_attempt_failures(attempt_of(world, 0, 0)), failures - 1);
        world_end_worker(world, follower(world, 0), 0, 3);
        if (failures <= 2) {
            assert_group(world, 20000, 2 * failures + 1, 3);
            assert_trains(world);
            assert_int_equal(world_count(world, "persist verdict"), 0);
        }
    }
    assert_line(world, 20000, "persist verdict failed");
    world_run(world, 30000);
    assert_int_equal(view_trial_state(world_experiment(world, 0), 0), VIEW_TRIAL_FAILED);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 0);
    world_free(world);
}

/* Seed 736278 of plan 4. A member fails beyond a cut, and is given up for dead. */
static void a_failure_that_is_heard_late_ends_no_group_that_does_well(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    struct config config = elastic(1, 3, 1, 3);
    config.max_restarts = 0;
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 3);
    world_run(world, 3500);
    uint32_t victim = follower(world, 0);
    world->nodes[victim].side = 1;
    world_end_worker(world, victim, 0, 3);
    assert_group(world, 40000, 2, 2);
    world->nodes[victim].side = 0;
    assert_group(world, 60000, 3, 3); /* its slot is used again, for which the group is made anew */
    assert_int_equal(view_attempt_failures(attempt_of(world, 0, 0)), 1);
    assert_one_attempt(world, 3, 1);
    assert_trains(world);
    world_end_worker(world, follower(world, 0), 0, 3);
    assert_line(world, 20000, "persist verdict failed");
    world_free(world);
}

/* ---- who joins ------------------------------------------------------------------------------------------------------------ */

static struct world *world_without_a_third(uint32_t *third)
{
    struct world *world = elastic_world(3, 1);
    *third = 2;
    world_die(world, *third);
    world_run(world, 15000);
    return world;
}

/* Two nodes with a slot each train, a third one is not there yet. */
static struct world *group_of_two_before_a_third(uint32_t *third)
{
    struct world *world = world_without_a_third(third);
    begins(world, 2, 1, 3);
    world_run(world, 2500);
    world->nodes[*third].is_cut = false;
    return world;
}

static void a_group_grows_when_a_node_comes(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world_restart(world, third, false);
    assert_group(world, 60000, 2, 3);
    assert_int_equal(world_count(world, " of 3 from step "), 3);
    assert_int_equal(world_count(world, "states 110"), 3);
    assert_int_equal(world_count(world, "> leave generation 1\n"), 2); /* at the end of a step, nobody in the midst of one */
    assert_trains(world);
    assert_one_attempt(world, 2, 1);
    world_run(world, 30000);
    assert_int_equal(in_generation(world, 2), 3); /* and there it stays */
    world_free(world);
}

static void a_group_does_not_grow_while_a_trial_waits_for_slots(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = world_without_a_third(&third);
    struct config config = elastic(2, 2, 2, 3);
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 2);
    world->nodes[third].is_cut = false;
    world_restart(world, third, false);
    world_run(world, 60000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_one_attempt(world, 2, 0);
    world_free(world);
}

/* It is older than the trial that waits, and was given as many slots as that one asks for. */
static void a_lost_worker_is_replaced_before_a_trial_that_waits_begins(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    struct config config = elastic(2, 2, 1, 2);
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 2);
    world_run(world, 2500);
    uint32_t victim = follower(world, 0);
    victim = running(world, victim) > 0 ? victim : follower(world, 1);
    world_end_worker(world, victim, 0, -9);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 2);
    assert_int_equal(in_generation(world, 1), 0);
    assert_int_equal(world_count(world, "> spawn trial 1"), 0);
    assert_one_attempt(world, 2, 1);
    assert_trains(world);
    world_free(world);
}

static void a_joiner_that_never_listens_is_dropped_and_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->is_mute = true;
    world_restart(world, third, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    world->is_mute = false;
    world_run(world, CORE_JOIN_MS - 5000);
    assert_int_equal(running(world, third), 1);
    assert_int_equal(in_generation(world, 1), 2);
    assert_line(world, 20000, "> kill trial 0 attempt 1");
    assert_int_equal(in_generation(world, 1), 2);
    assert_group(world, 60000, 2, 3); /* the next one does better */
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

/* Seed 915447 of plan 4. */
static void a_joiner_that_comes_late_has_its_own_time_to_listen(void **state)
{
    (void)state;
    struct world *world = elastic_world(4, 1);
    struct config config = elastic(1, 2, 1, 4);
    world_die(world, 2);
    world_die(world, 3);
    world_run(world, 15000);
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 2);
    world->is_mute = true;
    world->nodes[2].is_cut = world->nodes[3].is_cut = false;
    world_restart(world, 2, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    world->is_mute = false;
    world->prepare_ms = 15000;
    world_run(world, CORE_JOIN_MS - 10000);
    world_restart(world, 3, false);
    assert_line(world, 30000, "> spawn trial 0 attempt 1 rank 3");
    assert_int_equal(world_count(world, "> kill "), 0);
    assert_group(world, 90000, 2, 3); /* the first is dropped, and the second comes in */
    assert_true(worker_on(world, 3)->runs);
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

static void a_joiner_whose_node_dies_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->is_mute = true;
    world_restart(world, third, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    world_die(world, third);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(attempt_of(world, 0, 0)->joiner_count, 0);
    assert_one_attempt(world, 2, 1);
    assert_trains(world);
    world_free(world);
}

static void joiners_that_fail_at_once_cost_the_group_nothing_and_come_ever_more_seldom(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->nodes[third].fails_programs = true;
    world_restart(world, third, false);
    world_run(world, 600000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_in_range(world_spawns(world), 2 + 5, 2 + 16);
    assert_trains(world);
    world_free(world);
}

/* A slot beside a member's, on the same node, is leased for the same attempt. */
static struct world *member_beside_a_free_slot(uint32_t *node)
{
    struct world *world = elastic_world(2, 2);
    withhold(world, 0, 2); /* nobody can join yet */
    withhold(world, 1, 3);
    world_run(world, 1000);
    begins(world, 1, 1, 2);
    world_run(world, 2500);
    *node = 0;
    assert_int_equal(running(world, 0), 1);
    return world;
}

/* Its slot is of use to others, who may wait for each other in the same way. */
static void a_joiner_waits_no_longer_than_others_are_on_their_way(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 2);
    struct config config = elastic(1, 5, 5, 6);
    withhold(world, 2, 2);
    world_run(world, 1000);
    world_submit(world, 0, &config);
    assert_group(world, 20000, 1, 5);
    world_run(world, 3500);
    world_die(world, world_coordinator(world) == 0 ? 1 : 0);
    assert_line(world, 15000, "> leave generation 1 at once");
    return_slots(world, 2);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 5");
    world_run(world, CORE_REGROUP_MS - 10000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_line(world, 20000, "persist verdict lost");
    world_run(world, 5000);
    assert_int_equal(running(world, 2), 0);
    world_free(world);
}

static void a_joiner_that_is_dropped_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    world->is_mute = true;
    return_slots(world, node);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 1");
    world->is_mute = false;
    world_run(world, CORE_JOIN_MS + 5000);
    assert_true(world->nodes[node].workers[0].runs);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_group(world, 60000, 2, 2);
    assert_trains(world);
    world_free(world);
}

static void a_joiner_that_cannot_be_prepared_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    world->nodes[0].lacks_code = world->nodes[1].lacks_code = true;
    return_slots(world, node);
    world_run(world, 20000);
    assert_true(world_count(world, "> prepare ") >= 2);
    assert_one_attempt(world, 1, 0);
    assert_int_equal(in_generation(world, 1), 1);
    assert_trains(world);
    world_free(world);
}

static void a_slot_that_is_refused_to_a_joiner_leaves_the_members_of_its_node_alone(void **state)
{
    (void)state;
    uint32_t node;
    struct world *world = member_beside_a_free_slot(&node);
    struct node_event event = {.kind = NODE_EVENT_DISK};
    event.u.disk.full = true; /* no grants */
    world_step(world, node, &event);
    return_slots(world, node);
    world_run(world, 20000);
    assert_int_equal(world_count(world, "> send reserve") + world_spawns(world), 1);
    assert_one_attempt(world, 1, 0);
    assert_int_equal(in_generation(world, 1), 1);
    assert_trains(world);
    world_free(world);
}

static void a_slot_taken_back_from_a_joiner_costs_the_group_nothing(void **state)
{
    (void)state;
    uint32_t third;
    struct world *world = group_of_two_before_a_third(&third);
    world->is_mute = true;
    world_restart(world, third, false);
    assert_line(world, 60000, "> spawn trial 0 attempt 1 rank 2");
    withhold(world, third, 0);
    world_run(world, 2000);
    assert_int_equal(running(world, third), 0);
    world_run(world, 90000);
    assert_int_equal(in_generation(world, 1), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 3);
    assert_trains(world);
    world_free(world);
}

/* ---- what owners want back ------------------------------------------------------------------------------------------------ */

static void assert_gone(struct world *world, uint64_t max_ms, uint32_t node)
{
    uint64_t until_ms = world->now_ms + max_ms;
    while (running(world, node) > 0 && world->now_ms < until_ms) {
        world_run(world, 50);
    }
    assert_int_equal(running(world, node), 0);
}

static void a_slot_taken_back_from_a_member_costs_the_others_no_step(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> leave generation 1\n"), 3); /* after one and the same step */
    assert_int_equal(world_count(world, "> leave generation 1 at once"), 0);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_trains(world);
    return_slots(world, node);
    assert_group(world, 20000, 3, 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 4);
    assert_trains(world);
    world_free(world);
}

static void the_coordinators_own_slot_is_given_back_like_any_other(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = (uint32_t)world_coordinator(world);
    withhold(world, node, 0);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void a_member_of_a_node_that_is_drained_at_once_is_replaced_elsewhere(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(4, 1), 3, 2, 3);
    world_run(world, 2500);
    uint32_t node = follower(world, 0);
    for (uint32_t skip = 1; running(world, node) == 0; skip++) {
        node = follower(world, skip);
    }
    drain_at_once(world, node);
    assert_gone(world, 5000, node);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_trains(world);
    world_free(world);
}

static void a_group_that_cannot_do_without_a_slot_taken_back_saves_and_stops_as_a_whole(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(3, 1), 3, 2, 3);
    world_run(world, 2500);
    withhold(world, follower(world, 0), 0);
    withhold(world, follower(world, 1), 0);
    assert_line(world, 5000, "persist verdict stopped");
    assert_int_equal(world_count(world, "> stop "), 3);
    assert_int_equal(in_generation(world, 0), 0);
    return_slots(world, follower(world, 0));
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    world_free(world);
}

/* Rank 0 and its node see the program's stop, and the others would hear of it in their next collective: the program of a
 * slot that is wanted back is ended without a word when its group has not let it go in time. */
static void a_slot_is_taken_from_a_group_that_does_not_let_it_go_in_time(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    world->nodes[node].computes = true;
    withhold(world, node, 0);
    world_run(world, 20000);
    assert_int_equal(running(world, node), 1);
    assert_gone(world, 45000, node); /* preemption_timeout */
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

static void a_node_that_leaves_costs_its_group_a_step(void **state)
{
    (void)state;
    struct world *world = group_of(3, 2);
    uint32_t node = follower(world, 0);
    world_request(world, node, NODE_REQUEST_LEAVE);
    assert_gone(world, 5000, node);
    assert_group(world, 5000, 2, 2);
    assert_int_equal(world_count(world, "> stop "), 0);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* ---- programs whose steps take long ---------------------------------------------------------------------------------------- */

/* Three whose steps take a minute; one dies in the midst of one, and the others hear of it when theirs is over. */
static void a_group_whose_steps_take_minutes_goes_on_after_a_loss(void **state)
{
    (void)state;
    struct world *world = elastic_world(3, 1);
    world->step_ms = 90000;
    begins(world, 3, 2, 3);
    world_run(world, 4 * 90000);
    uint32_t victim = follower(world, 0);
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].computes = true;
    }
    world_end_worker(world, victim, 0, -9);
    world_run(world, 85000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].computes = false;
        if (i != victim) {
            world_leave_group(world, i, 0);
        }
    }
    assert_group(world, 5000, 2, 3); /* somebody new waits for them */
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> kill "), 0);
    world_free(world);
}

static void who_never_leaves_a_broken_group_is_left_behind(void **state)
{
    (void)state;
    struct world *world = group_of(4, 2);
    uint32_t victim = follower(world, 0), hung = follower(world, 1);
    world_run(world, 10000);
    world->nodes[hung].computes = true;
    world_end_worker(world, victim, 0, -9);
    world_run(world, CORE_REGROUP_MS - 2000);
    assert_int_equal(running(world, hung), 1);
    assert_int_equal(in_generation(world, 2), 0);
    world->nodes[hung].computes = false;
    world_run(world, 15000);
    assert_int_equal(in_generation(world, 1), 0);
    assert_int_equal(in_generation(world, 0), 4);
    assert_int_equal(world_count(world, "> kill "), 1);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* The joiner is on its way for longer than a broken group waits for nobody. */
static void a_group_below_min_slots_waits_for_a_joiner_that_is_on_its_way(void **state)
{
    (void)state;
    struct world *world = begins(elastic_world(3, 1), 3, 2, 3);
    world_run(world, 2500);
    uint32_t first = follower(world, 0), second = follower(world, 1);
    world->is_mute = true;
    world_end_worker(world, first, 0, -9);
    world_end_worker(world, second, 0, -9);
    world_run(world, CORE_REGROUP_MS + 10000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world->is_mute = false;
    for (uint32_t i = 0; i < 3; i++) {
        if (running(world, i) > 0 && worker_on(world, i)->group_size == 0 && !worker_on(world, i)->has_state) {
            world_listens(world, i, 0, 0, false, 0);
        }
    }
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_trains(world);
    world_free(world);
}

/* ---- partitions ----------------------------------------------------------------------------------------------------------- */

static void cut(struct world *world, uint32_t first_of_other_side)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        world->nodes[i].side = i >= first_of_other_side;
    }
}

static void the_larger_side_of_a_group_goes_on_and_the_other_waits_until_the_heal(void **state)
{
    (void)state;
    struct world *world = group_of(5, 2);
    cut(world, 2);
    assert_group(world, 40000, 2, 3);
    assert_trains(world);
    world_run(world, 120000);
    assert_int_equal(in_generation(world, 2), 3);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(running(world, 0) + running(world, 1), 2); /* they wait, with what they have in memory */
    assert_one_attempt(world, 5, 0);
    cut(world, 5);
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
    cut(world, 4);
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
    cut(world, 5);
    world_run(world, 20000);
    assert_int_equal(in_generation(world, 0), 5);
    assert_one_attempt(world, 5, 0);
    assert_trains(world);
    world_free(world);
}

/* Seeds 600623 and 602723: who was to join holds its slot, and nothing else can be begun there. */
static void a_joiner_does_not_wait_for_ever_for_a_group_beyond_a_cut(void **state)
{
    (void)state;
    struct world *world = elastic_world(2, 1);
    struct config config = elastic(1, 1, 1, 2);
    world->is_mute = true;
    world->prepare_ms = 4000;
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 0");
    uint32_t first = running(world, 0) > 0 ? 0 : 1;
    world_listens(world, first, 0, 0, false, 0);
    assert_line(world, 20000, "> spawn trial 0 attempt 1 rank 1");
    world_listens(world, 1 - first, 0, 0, false, 0);
    cut(world, 1);
    world->is_mute = false;
    world_run(world, CORE_PATIENCE_MS - 30000);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_run(world, 90000);
    assert_int_equal(world_count(world, "persist verdict lost"), 1);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 1);
    assert_int_equal(running(world, first), 1);
    world_free(world);
}

/* ---- users and owners, while a generation is on its way ------------------------------------------------------------------- */

/* Somebody was lost, and the others have left their group. */
static struct world *between_generations(void)
{
    struct world *world = group_of(4, 2);
    world_end_worker(world, follower(world, 0), 0, -9);
    assert_line(world, 5000, "> leave generation 1 at once");
    return world;
}

static uint32_t running_all(const struct world *world)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        count += running(world, i);
    }
    return count;
}

static void a_pause_between_generations_stops_all_and_a_resume_begins_again(void **state)
{
    (void)state;
    struct world *world = between_generations();
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 30000);
    assert_int_equal(running_all(world), 0);
    assert_int_equal(world_count(world, "persist verdict"), 1);
    assert_int_equal(world_count(world, "persist verdict stopped"), 1);
    world_request(world, 0, NODE_REQUEST_RESUME);
    world_run(world, 10000);
    assert_int_equal(running_all(world), 4);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 2"), 4);
    assert_trains(world);
    world_free(world);
}

static void a_cancel_between_generations_ends_all(void **state)
{
    (void)state;
    struct world *world = between_generations();
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    assert_int_equal(running_all(world), 0);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_CANCELLED);
    assert_int_equal(world_count(world, "persist verdict stopped"), 1);
    assert_int_equal(in_generation(world, 0), 0);
    world_free(world);
}

static void a_deletion_between_generations_ends_all_and_leaves_nothing_behind(void **state)
{
    (void)state;
    struct world *world = between_generations();
    int coordinator = world_coordinator(world);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 60000);
    assert_int_equal(running_all(world), 0);
    for (uint32_t i = 0; i < 4; i++) {
        assert_null(world_experiment(world, i));
        assert_null(core_find_coordination(world->nodes[i].core, make_experiment_id(0)));
    }
    assert_true(coordinator >= 0);
    world_free(world);
}

static void a_slot_taken_back_between_generations_costs_the_others_nothing(void **state)
{
    (void)state;
    struct world *world = between_generations();
    uint32_t node = follower(world, 1);
    withhold(world, node, 0);
    world_run(world, 60000);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(in_generation(world, 0), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), 5); /* the first who was lost is replaced */
    assert_trains(world);
    world_free(world);
}

static void a_drain_between_generations_empties_the_node_and_the_others_go_on(void **state)
{
    (void)state;
    struct world *world = between_generations();
    uint32_t node = follower(world, 1);
    drain_at_once(world, node);
    world_run(world, 60000);
    assert_int_equal(running(world, node), 0);
    assert_int_equal(in_generation(world, 0), 3);
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
    struct core_worker *worker = &world->nodes[owner].core->workers[0];
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
    assert_group(world, 10000, 3, 3); /* the coordinator makes the next one, since nobody has the key of that */
    assert_int_equal(world_count(world, "> enter generation 2"), 0);
    assert_int_equal(world_count(world, "> enter generation 3 rank 0 of 3 from step 5"), 0);
    assert_one_attempt(world, 3, 0);
    assert_trains(world);
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
        cmocka_unit_test(a_killed_worker_costs_no_other_process_and_the_rest_go_on_from_the_highest_step),
        cmocka_unit_test(a_dead_node_costs_no_other_process),
        cmocka_unit_test(a_dead_coordinator_costs_its_own_worker_only),
        cmocka_unit_test(a_coordinator_that_dies_before_it_decides_is_followed_by_one_that_does),
        cmocka_unit_test(a_generation_whose_key_died_with_its_coordinator_is_passed_over),
        cmocka_unit_test(a_daemon_that_restarts_under_a_group_that_trains_costs_nothing),
        cmocka_unit_test(a_daemon_that_dies_as_its_worker_enters_a_group_does_not_take_it_to_wait),
        cmocka_unit_test(a_daemon_that_restarts_while_its_worker_waits_finds_it_waiting),
        cmocka_unit_test(two_daemons_that_restart_at_once_cost_nothing),
        cmocka_unit_test(two_workers_that_did_not_survive_their_daemons_are_replaced),
        cmocka_unit_test(below_min_slots_the_attempt_is_lost_after_a_while_and_begins_again),
        cmocka_unit_test(a_member_that_its_owner_has_forgotten_on_an_old_disk_is_not_waited_for),
        cmocka_unit_test(a_generation_that_the_disk_refused_gets_its_key_all_the_same),
        cmocka_unit_test(the_programs_own_failures_are_counted_across_generations),
        cmocka_unit_test(a_failure_that_is_heard_late_ends_no_group_that_does_well),
        cmocka_unit_test(a_group_grows_when_a_node_comes),
        cmocka_unit_test(a_group_does_not_grow_while_a_trial_waits_for_slots),
        cmocka_unit_test(a_lost_worker_is_replaced_before_a_trial_that_waits_begins),
        cmocka_unit_test(a_joiner_that_never_listens_is_dropped_and_costs_the_group_nothing),
        cmocka_unit_test(a_joiner_that_comes_late_has_its_own_time_to_listen),
        cmocka_unit_test(a_joiner_whose_node_dies_costs_the_group_nothing),
        cmocka_unit_test(joiners_that_fail_at_once_cost_the_group_nothing_and_come_ever_more_seldom),
        cmocka_unit_test(a_joiner_waits_no_longer_than_others_are_on_their_way),
        cmocka_unit_test(a_joiner_that_is_dropped_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_joiner_that_cannot_be_prepared_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_slot_that_is_refused_to_a_joiner_leaves_the_members_of_its_node_alone),
        cmocka_unit_test(a_slot_taken_back_from_a_joiner_costs_the_group_nothing),
        cmocka_unit_test(a_slot_taken_back_from_a_member_costs_the_others_no_step),
        cmocka_unit_test(the_coordinators_own_slot_is_given_back_like_any_other),
        cmocka_unit_test(a_member_of_a_node_that_is_drained_at_once_is_replaced_elsewhere),
        cmocka_unit_test(a_group_that_cannot_do_without_a_slot_taken_back_saves_and_stops_as_a_whole),
        cmocka_unit_test(a_slot_is_taken_from_a_group_that_does_not_let_it_go_in_time),
        cmocka_unit_test(a_node_that_leaves_costs_its_group_a_step),
        cmocka_unit_test(a_group_whose_steps_take_minutes_goes_on_after_a_loss),
        cmocka_unit_test(who_never_leaves_a_broken_group_is_left_behind),
        cmocka_unit_test(a_group_below_min_slots_waits_for_a_joiner_that_is_on_its_way),
        cmocka_unit_test(the_larger_side_of_a_group_goes_on_and_the_other_waits_until_the_heal),
        cmocka_unit_test(of_a_group_cut_in_halves_the_side_of_its_lowest_rank_goes_on),
        cmocka_unit_test(a_group_of_which_no_piece_is_large_enough_waits_and_goes_on_after_the_heal),
        cmocka_unit_test(a_joiner_does_not_wait_for_ever_for_a_group_beyond_a_cut),
        cmocka_unit_test(a_pause_between_generations_stops_all_and_a_resume_begins_again),
        cmocka_unit_test(a_cancel_between_generations_ends_all),
        cmocka_unit_test(a_deletion_between_generations_ends_all_and_leaves_nothing_behind),
        cmocka_unit_test(a_slot_taken_back_between_generations_costs_the_others_nothing),
        cmocka_unit_test(a_drain_between_generations_empties_the_node_and_the_others_go_on),
        cmocka_unit_test(a_group_key_under_a_lower_term_is_refused),
        cmocka_unit_test(a_generation_that_its_coordinator_did_not_make_is_entered_by_nobody),
        cmocka_unit_test(a_worker_that_names_a_generation_to_come_is_taken_to_have_left_its_own),
        cmocka_unit_test(a_step_that_goes_back_is_taken_at_its_word),
        cmocka_unit_test(a_group_of_which_nobody_has_the_state_any_more_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

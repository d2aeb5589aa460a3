#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/scenario/core_elastic.h"

struct config elastic(uint32_t trials, uint32_t slots, uint32_t min_slots, uint32_t max_slots)
{
    struct config config;
    make_config(&config, trials, 5);
    config.slots_per_trial = slots;
    config.min_slots = min_slots;
    config.max_slots = max_slots;
    return config;
}

struct world *elastic_world(uint32_t nodes, uint32_t slots_each)
{
    struct world *world = world_new(nodes, slots_each);
    world->program = WORLD_RUNS_FOREVER;
    world->is_elastic = true;
    world_start_all(world);
    return world;
}

struct world *begins_with(struct world *world, const struct config *config)
{
    world_submit(world, 0, config);
    assert_group(world, 20000, 1, config->slots_per_trial);
    return world;
}

struct world *begins(struct world *world, uint32_t slots, uint32_t min_slots, uint32_t max_slots)
{
    struct config config = elastic(1, slots, min_slots, max_slots);
    return begins_with(world, &config);
}

struct world *group_of(uint32_t nodes, uint32_t min_slots)
{
    struct world *world = begins(elastic_world(nodes, 1), nodes, min_slots, nodes);
    world_run(world, 3500);
    world->prepare_ms = 4000; /* whoever takes the place of another comes later */
    return world;
}

const struct view_attempt *attempt_of(const struct world *world, uint32_t node, uint32_t trial)
{
    const struct view_trial *row = view_find_trial(world_experiment(world, node), trial);
    return row != NULL ? view_trial_highest(row) : NULL;
}

uint32_t in_generation(const struct world *world, uint32_t generation)
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

struct world_worker *worker_on(struct world *world, uint32_t node)
{
    return &world->nodes[node].workers[0];
}

uint32_t node_of_rank(const struct world *world, uint32_t rank)
{
    const struct view_attempt *attempt = attempt_of(world, 0, 0);
    for (uint32_t i = 0; attempt != NULL && rank < attempt->member_count && i < world->node_count; i++) {
        if (node_id_equal(world->nodes[i].person.id, attempt->members[rank].node)) {
            return i;
        }
    }
    fail_msg("nobody has rank %u", rank);
    return 0;
}

uint32_t follower(const struct world *world, uint32_t skip)
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

void assert_group(struct world *world, uint64_t max_ms, uint32_t generation, uint32_t size)
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

static uint32_t newest_generation(const struct world *world)
{
    uint32_t newest = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        for (uint32_t slot = 0; slot < world->nodes[i].slot_count; slot++) {
            const struct world_worker *worker = &world->nodes[i].workers[slot];
            newest = worker->runs && worker->group_size > 0 && worker->generation > newest ? worker->generation : newest;
        }
    }
    return newest;
}

uint32_t assert_group_after(struct world *world, uint64_t max_ms, uint32_t before, uint32_t size)
{
    uint64_t until_ms = world->now_ms + max_ms;
    uint32_t newest = newest_generation(world);
    while ((newest <= before || in_generation(world, newest) != size) && world->now_ms < until_ms) {
        world_run(world, 50);
        newest = newest_generation(world);
    }
    if (newest <= before) {
        print_end(world);
        fail_msg("no generation came after %u", before);
    }
    assert_group(world, 0, newest, size);
    return newest;
}

void assert_trains(struct world *world)
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

void assert_one_attempt(const struct world *world, uint32_t began, uint32_t joined)
{
    if (world_count(world, "persist verdict") != 0 || world_spawns(world) != began + joined) {
        print_end(world);
    }
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_spawns(world), began + joined);
    assert_int_equal(world_count(world, "> kill "), 0);
}

void withhold(struct world *world, uint32_t node, uint64_t slots)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_WITHHOLD;
    event.u.request.slots = slots;
    world_step(world, node, &event);
}

void return_slots(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_RETURN;
    world_step(world, node, &event);
}

void drain_at_once(struct world *world, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_DRAIN;
    event.u.request.node = world->nodes[node].person.id;
    event.u.request.at_once = true;
    world_step(world, 0, &event);
}

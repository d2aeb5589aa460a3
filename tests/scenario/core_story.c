#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "node/core/ground/state.h"
#include "tests/scenario/core_story.h"

void story_submit(struct world *world, uint32_t node, uint32_t trials, uint32_t max_restarts)
{
    struct config config;
    make_config(&config, trials, max_restarts);
    world->program = WORLD_RUNS_FOREVER;
    world_submit(world, node, &config);
}

uint32_t story_begin_with(struct world *world, const struct config *config, uint64_t ms)
{
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, config);
    world_run(world, ms);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    uint32_t slots = 0;
    for (uint32_t i = 0; i < world->node_count; i++) {
        slots += world->nodes[i].slot_count;
    }
    uint32_t room = slots / config->slots_per_trial;
    uint32_t trials = config->max_trials < room ? config->max_trials : room;
    assert_int_equal(world_spawns(world), trials * config->slots_per_trial);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    return (uint32_t)coordinator;
}

uint32_t story_begin(struct world *world, uint32_t trials, uint32_t max_restarts)
{
    struct config config;
    make_config(&config, trials, max_restarts);
    return story_begin_with(world, &config, 10000);
}

const struct view_member *member_at(const struct world *world, uint32_t node, uint32_t about)
{
    return view_find_member(&world->nodes[node].core->view, world->nodes[about].person.id);
}

uint32_t running(const struct world *world, uint32_t node)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < world->nodes[node].slot_count; slot++) {
        count += world->nodes[node].workers[slot].runs;
    }
    return count;
}

void cut(struct world *world, uint32_t first_of_other_side)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        world->nodes[i].side = i >= first_of_other_side;
    }
}

void heal(struct world *world)
{
    cut(world, world->node_count);
}

void print_end(const struct world *world)
{
    size_t skip = world->log_bytes > 6000 ? world->log_bytes - 6000 : 0;
    fprintf(stderr, "... %s\n", world->log + skip);
}

void assert_line(struct world *world, uint64_t max_ms, const char *line)
{
    if (!world_run_until(world, max_ms, 0, line)) {
        print_end(world);
        fail_msg("never said: %s", line);
    }
}

size_t assert_order(const struct world *world, const char *const *parts, size_t count)
{
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        size_t found = world_find(world, at, parts[i]);
        if (found == SIZE_MAX) {
            print_end(world);
            fail_msg("\"%s\" does not follow", parts[i]);
        }
        at = found;
    }
    return at;
}

struct saved_disk save_disk(const struct world *world, uint32_t node)
{
    const struct world_node *from = &world->nodes[node];
    struct saved_disk saved = {.record_count = from->record_count, .boots = from->boots};
    saved.records = malloc(saved.record_count * sizeof *saved.records);
    assert_non_null(saved.records);
    memcpy(saved.records, from->records, saved.record_count * sizeof *saved.records);
    return saved;
}

void restart_with(struct world *world, uint32_t node, struct saved_disk *saved, bool adopt)
{
    struct world_node *to = &world->nodes[node];
    to->boots = saved->boots;
    to->record_count = saved->record_count;
    memcpy(to->records, saved->records, saved->record_count * sizeof *saved->records);
    to->fence_count = 0;
    free(saved->records);
    saved->records = NULL;
    world_restart(world, node, adopt);
}

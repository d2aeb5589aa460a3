/* Stories of trials that begin with a checkpoint of several parts of another experiment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/coordinator/waiting.h"
#include "tests/scenario/core_story.h"

#define PARTS 3
#define STEP 40

static attempt_id earlier_attempt(const struct world *world)
{
    return make_attempt_id(1, 0, 1, 1, world->nodes[0].person.id);
}

static struct fact_part_key part_key(uint32_t part)
{
    return (struct fact_part_key){.step = STEP, .save = 7, .count = PARTS, .part = part};
}

static hash256 part_blob(uint32_t part)
{
    return (hash256){{0xba, (uint8_t)part}};
}

/* All nodes have a record of node 0 about the part of the earlier experiment: `holder` has it. */
static void store_part(struct world *world, uint32_t part, uint32_t holder)
{
    attempt_id attempt = earlier_attempt(world);
    struct fact_part_key key = part_key(part);
    struct fact_manifest fact = {.blob = part_blob(part), .bytes = 100, .holder_count = 1, .holders = {world->nodes[holder].person.id}};
    struct made made;
    make_record(&made, world->nodes[0].person.id, 1, 500 + part, FACT_PART, fact_key_part(&attempt, &key), &fact);
    for (uint32_t i = 0; i < world->node_count; i++) {
        world_store(world, i, &made);
    }
}

static void submit(struct world *world, uint32_t node)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = packed};
    attempt_id attempt = earlier_attempt(world);
    struct fact_part_key key = part_key(0);
    make_config(&config, 1, 5);
    config.searcher = SEARCH_SINGLE;
    config.max_trials = 0;
    config.checkpoint_replicas = 2;
    char id[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(id, attempt.experiment.bytes, EXPERIMENT_ID_BYTES);
    (void)snprintf(config.begin_from, sizeof config.begin_from, "%s/0@%d", id, STEP);
    event.byte_count = make_packed_config(&config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.client = 1;
    event.u.request.experiment = make_experiment_id(0);
    event.u.request.code.bytes[0] = WORLD_CODE_BYTE;
    event.u.request.config_text.bytes[0] = 0xcf;
    event.u.request.checkpoint = fact_part_name(&attempt, &key);
    event.u.request.checkpoint_bytes = 100 * PARTS;
    event.u.request.checkpoint_parts = PARTS;
    world_step(world, node, &event);
}

static void the_trial_gets_every_part_as_its_own(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->program = WORLD_RUNS_FOREVER;
    for (uint32_t part = 0; part < PARTS; part++) {
        store_part(world, part, part % 2);
    }
    world_start_all(world);
    submit(world, 2); /* which has brought all parts onto its disk */
    world_run(world, 60000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world_spawns(world), 1);
    for (uint32_t node = 0; node < 3; node++) {
        const struct view_trial *trial = view_find_trial(world_experiment(world, node), 0);
        const struct view_attempt *highest = view_trial_highest(trial);
        assert_int_equal(highest->id.number, 2);
        assert_int_equal(highest->start_step, STEP);
        const struct view_set *set = view_find_set(trial, highest->checkpoint);
        assert_non_null(set);
        assert_true(set->whole->durable && set->key.count == PARTS && set->whole->bytes == 100 * PARTS);
        for (uint32_t part = 0; part < PARTS; part++) {
            const struct view_manifest *row = view_set_part(set, part);
            assert_true(row != NULL && hash256_equal(row->blob, part_blob(part)) && row->holder_count == 2);
            assert_true(node_id_equal(row->writer, world->nodes[2].person.id) && node_id_equal(row->holders[0], row->writer));
        }
    }
    world_free(world);
}

/* Its coordinator does not let it begin from nothing while the node with the parts is away. */
static void the_trial_waits_for_the_node_with_the_parts(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    char reason[256];
    world->program = WORLD_RUNS_FOREVER;
    for (uint32_t part = 0; part < PARTS; part++) {
        store_part(world, part, 2);
    }
    world_start_all(world);
    for (uint32_t node = 0; node < 3; node++) {
        struct node_event drain = {.kind = NODE_EVENT_REQUEST};
        drain.u.request.kind = NODE_REQUEST_DRAIN;
        drain.u.request.client = 7;
        drain.u.request.node = world->nodes[node].person.id;
        world_step(world, 0, &drain);
    }
    world_run(world, 5000);
    submit(world, 2);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    world_crash(world, 2);
    world_run(world, 20000); /* the others know */
    for (uint32_t node = 0; node < 2; node++) {
        struct node_event undrain = {.kind = NODE_EVENT_REQUEST};
        undrain.u.request.kind = NODE_REQUEST_UNDRAIN;
        undrain.u.request.client = 7;
        undrain.u.request.node = world->nodes[node].person.id;
        world_step(world, 0, &undrain);
    }
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 0);
    assert_true(waiting_reason(world->nodes[1].core, world_experiment(world, 1), 0, reason, sizeof reason));
    assert_non_null(strstr(reason, "no node that can be reached holds the checkpoint that it begins with"));
    world_restart(world, 2, false);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 1);
    assert_int_equal(view_trial_highest(view_find_trial(world_experiment(world, 1), 0))->start_step, STEP);
    world_free(world);
}

static void a_part_that_was_deleted_meanwhile_is_told(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    for (uint32_t part = 0; part < PARTS - 1; part++) {
        store_part(world, part, 1);
    }
    world_start_all(world);
    submit(world, 1);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    assert_string_equal(world->reply.text, "A part of the checkpoint that the experiment begins with was deleted meanwhile; submit it with a newer one.");
    assert_null(view_find_experiment(&world->nodes[1].core->view, make_experiment_id(0)));
    world_free(world);
}

static void an_older_version_forbids_to_begin_with_parts(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].lacks = FACT_READS_PARTS;
    for (uint32_t part = 0; part < PARTS; part++) {
        store_part(world, part, 0);
    }
    world_start_all(world);
    submit(world, 0);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know checkpoints of several parts, and the one to begin with has 3; "
                                           "update that node first.");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trial_gets_every_part_as_its_own),
        cmocka_unit_test(the_trial_waits_for_the_node_with_the_parts),
        cmocka_unit_test(a_part_that_was_deleted_meanwhile_is_told),
        cmocka_unit_test(an_older_version_forbids_to_begin_with_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

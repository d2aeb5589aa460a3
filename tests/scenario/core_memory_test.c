/* Memory that runs out: what is new is refused in time, what frees memory never is, and what was left out is made up for. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/ground/state.h"
#include "tests/scenario/core_memory.h"

/* What refuses a submit because of its number of trials reckons about right. */
static void a_trial_takes_as_much_memory_as_is_reckoned(void **state)
{
    (void)state;
    struct world *world = world_new(2, 4);
    struct config config;
    make_config(&config, 64, 5);
    world->program = WORLD_RUNS_2S;
    world_start_all(world);
    size_t before = world->nodes[1].core->arena.used_bytes;
    world_submit(world, 0, &config);
    world_run(world, 120000);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_COMPLETED);
    size_t each = (world->nodes[1].core->arena.used_bytes - before) / 64;
    assert_in_range(each, (CORE_TRIAL_BYTES + CORE_TRIAL_WORKER_BYTES) / 4, CORE_TRIAL_BYTES + CORE_TRIAL_WORKER_BYTES);
    world_free(world);
}

/* ---- a full mesh ------------------------------------------------------------------------------------------------------ */

/* A trial of this experiment has completed elsewhere, and both nodes hear of it. */
static void tell_verdict(struct world *world, uint32_t experiment, uint32_t trial, uint32_t metrics_bytes)
{
    static const uint8_t metrics[FACT_METRICS_BYTES_MAX];
    attempt_id attempt = attempt_of(experiment, trial);
    struct fact_verdict fact = {.reason = FACT_COMPLETED, .metrics = metrics, .metrics_bytes = metrics_bytes};
    struct made made;
    make_record(&made, attempt.coordinator, 99, trial + 1, FACT_VERDICT, fact_key_verdict(&attempt), &fact);
    world_deliver(world, 1, 0, &made);
    world_deliver(world, 0, 1, &made);
    world_run(world, 1); /* it is on their disks: what waits for that takes memory, too */
}

static void tell_experiment(struct world *world, uint32_t experiment, uint32_t trials)
{
    struct config config;
    make_config(&config, trials, 5);
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.submitted_s = 1, .config = packed, .config_bytes = make_packed_config(&config, packed)};
    struct made made;
    make_record(&made, make_person(4).id, 99, 1, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(experiment)), &fact);
    world_deliver(world, 1, 0, &made);
    world_deliver(world, 0, 1, &made);
}

/* Two experiments that are over, of which nearly all the memory is full. */
static void fill_memory(struct world *world)
{
    const struct node_core *core = world->nodes[0].core;
    uint32_t trials = 0;
    while (!core->memory.is_short) {
        assert_in_range(trials, 0, WORLD_DISK_MAX);
        tell_verdict(world, 1, trials++, FACT_METRICS_BYTES_MAX);
    }
    tell_experiment(world, 1, trials);
    tell_experiment(world, 2, 4);
    assert_int_equal(view_experiment_state(view_find_experiment(&core->view, make_experiment_id(1))), VIEW_COMPLETED);
}

/* Until no record goes in any more. */
static void fill_to_the_brim(struct world *world)
{
    const struct node_core *core = world->nodes[0].core;
    uint64_t refused = core->counters.full;
    for (uint32_t trial = 0; core->counters.full < refused + 8; trial++) {
        assert_in_range(trial, 0, WORLD_DISK_MAX);
        tell_verdict(world, 2, trial, 0);
    }
}

static void what_is_new_is_refused_while_memory_is_short(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world->core_bytes = SMALL_BYTES;
    (void)story_begin(world, 20, 5);
    assert_int_equal(world_spawns(world), 4);
    fill_memory(world);
    assert_line(world, 1000, "a: memory is nearly full: nothing new begins until experiments are deleted");
    for (uint32_t node = 0; node < 2; node++) {
        world_end_worker(world, node, 0, 0);
    }
    world_run(world, 30000);
    assert_int_equal(world_spawns(world), 4); /* slots are free, and nothing begins there */
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, 1, 5);
    event.bytes = packed;
    event.byte_count = make_packed_config(&config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.experiment = make_experiment_id(3);
    world_step(world, 0, &event);
    assert_int_equal(world->reply.code, ERR_MEMORY);
    assert_non_null(strstr(world->reply.text, "delete experiments that are over"));
    request(world, 1, NODE_REQUEST_DELETE, 1);
    world_run(world, 30000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world_spawns(world), 6);
    world_step(world, 0, &event);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    world_free(world);
}

static void a_delete_goes_through_when_nothing_else_does(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world->core_bytes = SMALL_BYTES;
    (void)story_begin(world, 20, 5);
    fill_memory(world);
    fill_to_the_brim(world);
    const struct node_core *core = world->nodes[0].core;
    request(world, 0, NODE_REQUEST_PAUSE, 0);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    request(world, 0, NODE_REQUEST_DELETE, 1);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_null(view_find_experiment(&core->view, make_experiment_id(1)));
    assert_false(core->memory.is_short);
    world_free(world);
}

static void what_memory_had_no_room_for_is_folded_later(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct node_core *core = world->nodes[0].core;
    tell_verdict(world, 1, 0, 0);
    void *entry = arena_take(&core->arena, 128), *bytes = arena_take(&core->arena, 256);
    struct taken *all = take_all(&core->arena);
    arena_give(&core->arena, entry, 128); /* for the record, and not for the row of its trial */
    arena_give(&core->arena, bytes, 256);
    tell_verdict(world, 1, 1, 0);
    attempt_id attempt = attempt_of(1, 1);
    struct fact_key key = fact_key_verdict(&attempt);
    record_ident ident = record_ident_of(attempt.coordinator, FACT_VERDICT, key.bytes, key.count);
    assert_non_null(records_find(&core->records, ident));
    assert_null(view_find_attempt(&core->view, &attempt));
    world_run(world, 5000);
    assert_int_equal(world_count(world, "a verdict record cannot be used"), 1); /* and not once more at every try */
    give_all(&core->arena, all);
    world_run(world, 1000);
    assert_non_null(view_find_attempt(&core->view, &attempt));
    assert_non_null(view_find_attempt(&core->view, &attempt)->verdicts);
    assert_false(core->memory.has_unfolded);
    world_free(world);
}

static void a_submit_of_more_trials_than_there_is_memory_for_is_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    world_start_all(world);
    make_config(&config, 20000, 5);
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_MEMORY);
    assert_non_null(strstr(world->reply.text, "The experiment has 20000 trials, and the daemon's memory has room for about 3"));
    make_config(&config, 3000, 5);
    world_submit(world, 0, &config);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);

    /* What those will take counts, too. */
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = packed};
    event.byte_count = make_packed_config(&config, packed);
    event.u.request.kind = NODE_REQUEST_SUBMIT;
    event.u.request.experiment = make_experiment_id(1);
    world_step(world, 0, &event);
    assert_int_equal(world->reply.code, ERR_MEMORY);
    world_free(world);
}

/* The reserve is for what frees memory: a key of which one writer can make up any number gets nothing of it. */
static void a_key_that_is_too_long_takes_nothing_of_the_reserve(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world->core_bytes = SMALL_BYTES;
    (void)story_begin(world, 20, 5);
    fill_memory(world);
    fill_to_the_brim(world);
    const struct records *records = &world->nodes[0].core->records;
    struct fact_key key = fact_key_experiment(make_experiment_id(1));
    key.count = RECORD_KEY_BYTES_MAX;
    struct fact_control control = {.lamport = 1, .paused = true};
    struct made made;
    for (uint32_t i = 0; i < 16; i++) {
        key.bytes[key.count - 1] = (uint8_t)i;
        uint32_t before = records->count;
        make_record(&made, make_person(4).id, 99, 5000 + i, i % 2 == 0 ? FACT_TOMBSTONE : FACT_CONTROL, key, &control);
        world_deliver(world, 1, 0, &made);
        assert_int_equal(records->count, before);
    }
    world_free(world);
}

/* A slot's state is written where the last one was; to wait for the disk takes memory. */
static void what_is_written_while_memory_is_full_is_told_when_there_is_some(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct node_core *core = world->nodes[0].core;
    struct taken *all = take_all(&core->arena);
    struct node_event busy = {.kind = NODE_EVENT_SLOT_BUSY};
    busy.u.busy.is_busy = true;
    world_step(world, 0, &busy);
    world_run(world, 10000);
    assert_int_equal(view_member_slot(member_at(world, 0, 0), 0)->state, LEASE_WITHHELD);
    assert_int_equal(view_member_slot(member_at(world, 1, 0), 0)->state, LEASE_FREE);
    assert_int_equal(world_count(world, "a> persist slot 0 withheld"), 1); /* and not once more at every try */
    give_all(&core->arena, all);
    world_run(world, 10000);
    assert_int_equal(view_member_slot(member_at(world, 1, 0), 0)->state, LEASE_WITHHELD);
    assert_int_equal(world_count(world, "a> persist slot 0 withheld"), 2);
    assert_true(core->records.hash.words[0] == world->nodes[1].core->records.hash.words[0]);
    world_free(world);
}

/* ---- what is collected ------------------------------------------------------------------------------------------------- */

/* Of a trial that nobody here knows yet. */
static void make_checkpoint(struct made *made, node_id holder)
{
    attempt_id attempt = attempt_of(5, 0);
    struct fact_manifest fact = {.blob = checkpoint(), .bytes = 1000, .holder_count = 1, .holders = {holder}};
    make_record(made, attempt.coordinator, 99, 1, FACT_MANIFEST, fact_key_manifest(&attempt, 10), &fact);
}

static bool is_named(const struct world_node *node)
{
    bool found = false;
    for (uint32_t i = 0; i < node->named_count; i++) {
        found |= hash256_equal(node->named[i], checkpoint());
    }
    return found;
}

/* Blocks of these sizes, one of each, are all the memory that node a has left when it hears of the checkpoint. */
static void is_not_collected_without_memory(const size_t *sizes, size_t count)
{
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct world_node *a = &world->nodes[0];
    void *left[4], *for_list = arena_take(&a->core->arena, 32);
    for (size_t i = 0; i < count; i++) {
        left[i] = arena_take(&a->core->arena, sizes[i]);
    }
    struct taken *all = take_all(&a->core->arena);
    for (size_t i = 0; i < count; i++) {
        arena_give(&a->core->arena, left[i], sizes[i]);
    }
    struct made made;
    make_checkpoint(&made, a->person.id);
    world_deliver(world, 1, 0, &made);
    world_deliver(world, 0, 1, &made);
    arena_give(&a->core->arena, for_list, 32); /* what is listed takes memory, too: of that there is enough */
    world_run(world, CORE_COLLECT_MS + 4 * CORE_RETENTION_MS);
    assert_int_equal(world_count(world, "b> collect"), 1);
    assert_true(is_named(&world->nodes[1]));
    assert_int_equal(world_count(world, "a> collect"), 0);
    give_all(&a->core->arena, all);
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_true(is_named(a));
    world_free(world);
}

static void nothing_is_collected_while_memory_lacks_what_may_name_it(void **state)
{
    (void)state;
    const size_t record[] = {128, 256}; /* and nothing for the row of its trial */
    is_not_collected_without_memory(record, 2);
    is_not_collected_without_memory(NULL, 0);
}

static void nothing_is_collected_of_what_could_not_be_loaded(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    store_more_than_is_loaded(world);
    struct made made;
    struct world_node *a = &world->nodes[0];
    make_checkpoint(&made, a->person.id);
    world_store(world, 0, &made);
    world_start_all(world);
    assert_null(view_find_experiment(&a->core->view, make_experiment_id(5)));
    request(world, 0, NODE_REQUEST_DELETE, 1);
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_int_equal(world->reply.code, 0);
    assert_false(a->core->memory.is_short);
    assert_int_equal(world_count(world, "a> collect"), 0);
    world_crash(world, 0);
    world_restart(world, 0, false);
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_true(is_named(a));
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trial_takes_as_much_memory_as_is_reckoned),
        cmocka_unit_test(what_is_new_is_refused_while_memory_is_short),
        cmocka_unit_test(a_delete_goes_through_when_nothing_else_does),
        cmocka_unit_test(what_memory_had_no_room_for_is_folded_later),
        cmocka_unit_test(a_submit_of_more_trials_than_there_is_memory_for_is_refused),
        cmocka_unit_test(a_key_that_is_too_long_takes_nothing_of_the_reserve),
        cmocka_unit_test(what_is_written_while_memory_is_full_is_told_when_there_is_some),
        cmocka_unit_test(nothing_is_collected_while_memory_lacks_what_may_name_it),
        cmocka_unit_test(nothing_is_collected_of_what_could_not_be_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

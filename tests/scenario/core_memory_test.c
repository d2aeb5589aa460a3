/* Memory that runs out: what is new is refused in time, what frees memory never is, and what was left out is made up for. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "tests/scenario/core_story.h"

#define SMALL_BYTES (2u << 20)

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

static attempt_id attempt_of(uint32_t experiment, uint32_t trial)
{
    return make_attempt_id(experiment, trial, 1, 1, make_person(4).id);
}

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
    while (!core->memory_is_short) {
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

static void request(struct world *world, uint32_t node, enum node_request_kind kind, uint32_t experiment)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.client = 3;
    event.u.request.experiment = make_experiment_id(experiment);
    world_step(world, node, &event);
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
    assert_false(core->memory_is_short);
    world_free(world);
}

/* Memory that somebody else has taken: all of it. */
struct taken {
    struct taken *next;
    size_t bytes;
};

/* In blocks of all the sizes that records and rows have, in turns. */
static struct taken *take_all(struct arena *arena)
{
    struct taken *all = NULL;
    for (bool has_taken = true; has_taken;) {
        has_taken = false;
        for (size_t bytes = 1024; bytes >= 32; bytes /= 2) {
            struct taken *block = arena_take(arena, bytes);
            if (block != NULL) {
                *block = (struct taken){all, bytes};
                all = block;
                has_taken = true;
            }
        }
    }
    return all;
}

static void give_all(struct arena *arena, struct taken *all)
{
    for (struct taken *block = all, *next; block != NULL; block = next) {
        next = block->next;
        arena_give(arena, block, block->bytes);
    }
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
    assert_int_equal(world_count(world, "a record of kind 10 is not understood"), 1); /* and not once more at every try */
    give_all(&core->arena, all);
    world_run(world, 1000);
    assert_non_null(view_find_attempt(&core->view, &attempt));
    assert_non_null(view_find_attempt(&core->view, &attempt)->verdicts);
    assert_false(core->has_unfolded);
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

static hash256 checkpoint(void)
{
    return (hash256){{7}};
}

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

/* There is less memory than when its records were written, and no other node that could offer again what is not loaded. */
static void store_more_than_is_loaded(struct world *world)
{
    enum { TRIALS = 2000 };
    struct config config;
    make_config(&config, TRIALS, 5);
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    static const uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct fact_experiment experiment = {.config = packed, .config_bytes = make_packed_config(&config, packed)};
    struct fact_verdict verdict = {.reason = FACT_COMPLETED, .metrics = metrics};
    struct made made;
    make_record(&made, make_person(4).id, 99, 1, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(1)), &experiment);
    world_store(world, 0, &made);
    for (uint32_t trial = 0; trial < TRIALS; trial++) {
        attempt_id attempt = attempt_of(1, trial);
        verdict.metrics_bytes = trial < TRIALS / 2 ? FACT_METRICS_BYTES_MAX : 0; /* the gaps between the large ones fill, too */
        make_record(&made, attempt.coordinator, 99, 2 + trial, FACT_VERDICT, fact_key_verdict(&attempt), &verdict);
        world_store(world, 0, &made);
    }
    world->core_bytes = SMALL_BYTES;
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
    assert_false(a->core->memory_is_short);
    assert_int_equal(world_count(world, "a> collect"), 0);
    world_crash(world, 0);
    world_restart(world, 0, false);
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_true(is_named(a));
    world_free(world);
}

/* ---- what memory has no room for is said later --------------------------------------------------------------------------- */

/* The reserve, too. */
static struct taken *take_to_the_last(struct arena *arena)
{
    bool takes_reserve = arena->takes_reserve;
    arena->takes_reserve = true;
    struct taken *all = take_all(arena);
    arena->takes_reserve = takes_reserve;
    return all;
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

static void how_a_worker_ended_is_said_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
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
    assert_int_equal(core->lease.slots[0].state, LEASE_FREE);
    assert_true(core_owner_idle(core));
    world_free(world);
}

/* And so does its verdict. */
static void how_a_worker_ended_takes_of_the_reserve(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
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
    while (core->workers[0].phase != CORE_WORKER_CONFIRMED) {
        assert_int_equal(world_spawns(world), 0);
        world_run(world, 1);
    }
    struct taken *all = take_to_the_last(&core->arena);
    world_run(world, 10000);
    assert_int_equal(core->workers[0].phase, CORE_WORKER_PREPARED);
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
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
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
    assert_int_equal(core->lease.slots[0].state, LEASE_FREE);
    give_all(&core->arena, all);
    world_free(world);
}

static void what_a_worker_has_saved_is_said_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    struct node_core *core = world->nodes[owner].core;
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
    event.u.blob.step = 777;
    event.u.blob.blob = checkpoint();
    event.u.blob.bytes = 1000;
    world->push_ms = 100;
    world_step(world, owner, &event);
    struct taken *all = take_to_the_last(&core->arena);
    world_run(world, 5000); /* its copy is made */
    assert_null(view_find_trial(world_experiment(world, owner), 0)->manifests);
    give_all(&core->arena, all);
    world_run(world, 5000);
    const struct view_manifest *row = view_find_trial(world_experiment(world, 1 - owner), 0)->manifests;
    assert_true(row != NULL && row->step == 777 && row->durable);
    assert_line(world, 0, owner == 0 ? "a> durable trial 0 attempt 1 rank 0 slot 0" : "b> durable trial 0 attempt 1 rank 0 slot 0");
    assert_null(core->pushes);
    world_free(world);
}

/* A record is smaller than what is to be remembered while copies are made. */
static void what_a_worker_has_saved_is_copied_once_there_is_memory(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
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
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
    event.u.blob.step = 777;
    event.u.blob.blob = checkpoint();
    event.u.blob.bytes = 1000;
    world_step(world, owner, &event);
    world_run(world, 5000);
    give_all(&core->arena, all);
    world_run(world, 10000);
    const struct view_manifest *row = view_find_trial(world_experiment(world, 1 - owner), 0)->manifests;
    assert_true(row != NULL && row->step == 777 && row->durable);
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
    assert_int_equal(world_count(world, "a> persist slot 0 free"), 1);
    assert_int_equal(world_count(world, "a> persist slot 1 free"), 1);
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
    for (uint32_t i = 0; core->young_failure_count < CORE_QUARANTINE_TRIALS; i++) {
        assert_in_range(i, 0, 60000);
        world_run(world, 1);
    }
    struct taken *all = take_all(&core->arena);
    world_run(world, 10000);
    assert_true(core->quarantine.is_active);
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
    world->now_ms += CORE_YOUNG_MS; /* the machines have been up for longer than that */
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
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    struct node_core *core = world->nodes[owner].core;
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
    event.u.blob.step = 777;
    event.u.blob.blob = checkpoint();
    event.u.blob.bytes = 1000;
    world->push_ms = 100;
    world_step(world, owner, &event);
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
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    struct node_core *core = world->nodes[owner].core;
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT};
    event.u.blob.attempt = world->nodes[owner].workers[0].attempt;
    event.u.blob.step = 777;
    event.u.blob.blob = checkpoint();
    event.u.blob.bytes = 1000;
    world->push_ms = 100;
    world_step(world, owner, &event);
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
        cmocka_unit_test(a_trial_takes_as_much_memory_as_is_reckoned),
        cmocka_unit_test(what_is_new_is_refused_while_memory_is_short),
        cmocka_unit_test(a_delete_goes_through_when_nothing_else_does),
        cmocka_unit_test(what_memory_had_no_room_for_is_folded_later),
        cmocka_unit_test(a_submit_of_more_trials_than_there_is_memory_for_is_refused),
        cmocka_unit_test(a_key_that_is_too_long_takes_nothing_of_the_reserve),
        cmocka_unit_test(what_is_written_while_memory_is_full_is_told_when_there_is_some),
        cmocka_unit_test(nothing_is_collected_while_memory_lacks_what_may_name_it),
        cmocka_unit_test(nothing_is_collected_of_what_could_not_be_loaded),
        cmocka_unit_test(how_a_worker_ended_is_said_once_there_is_memory),
        cmocka_unit_test(a_worker_begins_once_there_is_memory_to_say_that_it_is_prepared),
        cmocka_unit_test(an_end_that_is_unsaid_goes_with_its_experiment),
        cmocka_unit_test(how_a_worker_ended_takes_of_the_reserve),
        cmocka_unit_test(what_a_worker_has_saved_is_said_once_there_is_memory),
        cmocka_unit_test(a_quarantine_is_said_once_there_is_memory),
        cmocka_unit_test(that_a_host_died_young_is_said_once_there_is_memory),
        cmocka_unit_test(what_a_worker_has_saved_is_copied_once_there_is_memory),
        cmocka_unit_test(what_a_node_has_is_said_once_there_is_memory),
        cmocka_unit_test(a_pause_that_is_said_again_without_memory_is_not_undone),
        cmocka_unit_test(a_verdict_is_told_once_there_is_memory),
        cmocka_unit_test(the_trial_of_a_worker_that_was_lost_goes_on_without_memory_to_say_so),
        cmocka_unit_test(who_leaves_does_not_wait_for_memory),
        cmocka_unit_test(a_verdict_that_is_not_folded_is_said_once),
        cmocka_unit_test(what_a_worker_has_saved_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

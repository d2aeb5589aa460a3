/* Checkpoints of several parts: when they are there, when they are durable, and how their parts are copied and let go. The tests
 * build the room of copies alone. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/core/copies/checkpoints.h"
#include "node/core/copies/collection.h"
#include "node/core/view/retention.h"
#include "tests/unit/core_room.h"

#define SELF 2
#define PARTS 3

static int open_room(void **state)
{
    struct room *room = malloc(sizeof *room);
    *state = room;
    room_open(room, SELF);
    room->core.memory.refold_bucket = RECORDS_BUCKETS; /* all records are folded */
    for (uint32_t i = 0; i < ROOM_NODES; i++) {
        struct fact_node fact = make_node(&room->people[i], 1);
        fact.reads = FACT_READS_PARTS;
        room_hear(room, i, FACT_NODE, fact_key_empty(), &fact);
    }
    return 0;
}

static int close_room(void **state)
{
    room_close(*state);
    free(*state);
    return 0;
}

/* ---- what happens -------------------------------------------------------------------------------------------------- */

static void submit(struct room *room, uint32_t replicas)
{
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = replicas;
    config.save_trial_best = 0;
    config.save_experiment_best = 0;
    config.save_trial_latest = 1;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    room_hear(room, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
}

static attempt_id attempt_of(const struct room *room, uint32_t number)
{
    return make_attempt_id(0, 0, number, 1, room->people[0].id);
}

static void assign(struct room *room, uint32_t number, hash256 checkpoint)
{
    attempt_id id = attempt_of(room, number);
    struct fact_attempt fact = {.member_count = 1, .members = {{room->people[SELF].id, 0}}, .checkpoint = checkpoint};
    room_hear(room, 0, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
}

static hash256 blob_of(uint64_t step, uint64_t save, uint32_t part)
{
    return (hash256){{1, (uint8_t)step, (uint8_t)save, (uint8_t)part}};
}

static struct fact_part_key key_of(uint64_t step, uint64_t save, uint32_t part)
{
    return (struct fact_part_key){.step = step, .save = save, .count = PARTS, .part = part};
}

/* The writer tells that these `count` nodes hold the part. */
static void hear_part_of(struct room *room, uint32_t number, uint32_t writer, struct fact_part_key key, hash256 blob, uint32_t count,
                         const uint32_t holders[])
{
    attempt_id attempt = attempt_of(room, number);
    struct fact_manifest fact = {.blob = blob, .bytes = 100, .holder_count = count, .durable = count > 1};
    for (uint32_t i = 0; i < count; i++) {
        fact.holders[i] = room->people[holders[i]].id;
    }
    room_hear(room, writer, FACT_PART, fact_key_part(&attempt, &key), &fact);
}

static void hear_part(struct room *room, uint64_t step, uint64_t save, uint32_t part, uint32_t first, uint32_t second)
{
    hear_part_of(room, 1, first, key_of(step, save, part), blob_of(step, save, part), 2, (const uint32_t[]){first, second});
}

/* Every part, on two nodes each. */
static void hear_all(struct room *room, uint64_t step, uint64_t save)
{
    hear_part(room, step, save, 0, 0, 1);
    hear_part(room, step, save, 1, 1, 3);
    hear_part(room, step, save, 2, 3, 4);
}

static struct node_event event_of(const struct room *room, enum node_event_kind kind, struct fact_part_key key, hash256 blob)
{
    struct node_event event = {.kind = kind};
    event.u.blob.attempt = attempt_of(room, 1);
    event.u.blob.step = key.step;
    event.u.blob.part = key;
    event.u.blob.blob = blob;
    event.u.blob.bytes = 100;
    return event;
}

static void save_as(struct room *room, struct fact_part_key key, hash256 blob)
{
    struct node_event event = event_of(room, NODE_EVENT_CHECKPOINT, key, blob);
    core_checkpoints_saved(&room->core, &event);
}

static void save(struct room *room, uint64_t step, uint64_t number, uint32_t part)
{
    save_as(room, key_of(step, number, part), blob_of(step, number, part));
}

/* The nodes that were sent a blob since the last pass; returns how many. */
static uint32_t sent(const struct room *room, hash256 blob, uint32_t out[NODE_EFFECTS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        if (effect->kind == NODE_EFFECT_PUSH && hash256_equal(effect->u.push.blob, blob)) {
            out[count++] = room_number(room, effect->u.push.to);
        }
    }
    return count;
}

/* Everybody takes what was sent to them. */
static void take_all(struct room *room)
{
    struct node_event answers[16];
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        if (effect->kind == NODE_EFFECT_PUSH) {
            answers[count] = event_of(room, NODE_EVENT_PUSHED, key_of(effect->u.push.step, 0, 0), effect->u.push.blob);
            answers[count].u.blob.attempt = effect->u.push.attempt;
            answers[count].u.blob.node = effect->u.push.to;
            answers[count++].u.blob.ok = true;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        core_checkpoints_pushed(&room->core, &answers[i]);
    }
}

/* This node's records are on its disk. */
static void reach_disk(struct room *room)
{
    for (struct core_pending *pending = room->disk.pending_first; pending != NULL; pending = pending->next) {
        if (pending->action == CORE_ACTION_DURABLE) {
            pending->action = CORE_ACTION_NONE;
            core_checkpoints_durable(&room->core, &pending->attempt, pending->slot, pending->step, pending->set);
        }
    }
}

static void die(struct room *room, uint32_t node)
{
    room->peers[node].state = SWIM_DEAD;
    room->peers[node].died_ms = room->core.now_ms;
}

/* ---- what is seen -------------------------------------------------------------------------------------------------- */

static const struct view_trial *trial_of(const struct room *room)
{
    return view_find_trial(view_find_experiment(&room->core.view, make_experiment_id(0)), 0);
}

/* The step of the checkpoint with which an attempt would begin; 0: none. */
static uint64_t newest(const struct room *room)
{
    const struct view_manifest *row = core_checkpoints_newest(&room->core, trial_of(room));
    return row != NULL ? row->step : 0;
}

static const struct view_set *set_of(const struct room *room, uint64_t step, uint64_t number)
{
    attempt_id attempt = attempt_of(room, 1);
    struct fact_part_key key = key_of(step, number, 0);
    return view_find_set(trial_of(room), fact_part_name(&attempt, &key));
}

static uint32_t told(const struct room *room, uint64_t step)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        count += effect->kind == NODE_EFFECT_DURABLE && effect->u.worker.step == step;
    }
    return count;
}

static bool is_asked(const struct room *room, hash256 blob, uint32_t node)
{
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        if (effect->kind == NODE_EFFECT_CONFIRM && hash256_equal(effect->u.push.blob, blob) &&
            room_number(room, effect->u.push.to) == node) {
            return true;
        }
    }
    return false;
}

/* ---- when a checkpoint is there ------------------------------------------------------------------------------------ */

static void a_checkpoint_with_a_missing_part_is_never_offered(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_all(room, 10, 7);
    hear_part(room, 20, 8, 0, 0, 1);
    hear_part(room, 20, 8, 2, 3, 4);
    assert_int_equal(newest(room), 10);
    assert_false(set_of(room, 20, 8)->whole->durable);
    assert_int_equal(set_of(room, 20, 8)->whole->holder_count, 0);
    hear_part(room, 20, 8, 1, 1, 3);
    assert_int_equal(newest(room), 20);
    assert_true(set_of(room, 20, 8)->whole->durable);
    assert_int_equal(set_of(room, 20, 8)->whole->bytes, 300);
}

static void it_is_durable_once_every_part_is(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    hear_part_of(room, 1, 1, key_of(10, 7, 1), blob_of(10, 7, 1), 1, (const uint32_t[]){1});
    hear_part(room, 10, 7, 2, 3, 4);
    assert_int_equal(newest(room), 10); /* as a checkpoint with one copy is, too */
    assert_false(set_of(room, 10, 7)->whole->durable);
    hear_part(room, 10, 7, 1, 1, 3);
    assert_true(set_of(room, 10, 7)->whole->durable);
}

static void parts_of_two_saves_of_one_step_do_not_mix(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    hear_part(room, 10, 7, 1, 1, 3);
    hear_part(room, 10, 8, 2, 3, 4);
    struct fact_part_key other = {.step = 10, .save = 7, .count = PARTS + 1, .part = 2}; /* a group of another size */
    hear_part_of(room, 1, 3, other, blob_of(10, 7, 2), 1, (const uint32_t[]){3});
    hear_part_of(room, 2, 3, key_of(10, 7, 2), blob_of(10, 7, 2), 1, (const uint32_t[]){3}); /* another attempt */
    assert_int_equal(newest(room), 0);
}

static void a_part_of_which_two_blobs_are_told_is_no_part(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_all(room, 10, 7);
    hear_part_of(room, 1, 4, key_of(10, 7, 1), blob_of(99, 0, 0), 1, (const uint32_t[]){4});
    assert_int_equal(newest(room), 0);
    hear_part_of(room, 1, 4, key_of(10, 7, 1), blob_of(99, 0, 0), 0, NULL);
    assert_int_equal(newest(room), 10);
}

static void a_checkpoint_is_passed_over_while_a_part_is_out_of_reach(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_all(room, 10, 7);
    hear_all(room, 20, 8);
    hear_part_of(room, 1, 4, key_of(10, 7, 2), blob_of(10, 7, 2), 2, (const uint32_t[]){4, 5});
    die(room, 3);
    assert_int_equal(newest(room), 20); /* node 4 has the part, too */
    die(room, 4);
    assert_int_equal(newest(room), 10);
    assert_true(core_checkpoints_may_return(&room->core, trial_of(room)));
    room_pass(room, CORE_REFUTE_MS + 1);
    assert_false(core_checkpoints_may_return(&room->core, trial_of(room)));
}

/* ---- copies of parts ----------------------------------------------------------------------------------------------- */

static void a_worker_is_told_once_all_parts_are_durable(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    assign(room, 1, (hash256){{0}});
    hear_part(room, 10, 7, 0, 0, 1);
    save(room, 10, 7, 1);
    take_all(room);
    assert_true(view_set_part(set_of(room, 10, 7), 1)->durable);
    reach_disk(room);
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(told(room, 10), 0);
    hear_part(room, 10, 7, 2, 3, 4);
    room->core.rotate = 0;
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(told(room, 10), 1);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(told(room, 10), 1);
    assert_null(room->copies.awaited);
}

static void workers_wait_for_their_latest_saves_only(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    assign(room, 1, (hash256){{0}});
    for (uint64_t step = 1; step <= CORE_AWAITED_MAX + 3; step++) {
        room_pass(room, 1);
        save(room, step, 7, 0);
        take_all(room);
        reach_disk(room);
    }
    uint32_t count = 0;
    for (const struct core_awaited *row = room->copies.awaited; row != NULL; row = row->next) {
        count++;
        assert_true(row->step > 3);
    }
    assert_int_equal(count, CORE_AWAITED_MAX);
    core_checkpoints_forget(&room->core, make_experiment_id(0));
    assert_null(room->copies.awaited);
}

static void a_part_goes_to_nodes_that_know_parts(void **state)
{
    struct room *room = *state;
    uint32_t nodes[NODE_EFFECTS_MAX];
    submit(room, ROOM_NODES);
    struct fact_node older = make_node(&room->people[4], 1);
    room_hear(room, 4, FACT_NODE, fact_key_empty(), &older);
    save(room, 10, 7, 1);
    uint32_t count = sent(room, blob_of(10, 7, 1), nodes);
    assert_int_equal(count, ROOM_NODES - 2);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_not_equal(nodes[i], 4);
    }
    const struct view_experiment *experiment = view_find_experiment(&room->core.view, make_experiment_id(0));
    assert_true(core_node_reads(&room->core, room->people[4].id, experiment)); /* nothing is recorded yet */
    take_all(room);
    assert_false(core_node_reads(&room->core, room->people[4].id, experiment));
    assert_true(core_node_reads(&room->core, room->people[3].id, experiment));
}

static void equal_parts_of_two_ranks_of_one_node_are_two_parts(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hash256 same = blob_of(10, 7, 0);
    save_as(room, key_of(10, 7, 0), same);
    save_as(room, key_of(10, 7, 1), same);
    save_as(room, key_of(10, 7, 2), same);
    take_all(room);
    assert_int_equal(newest(room), 10);
    assert_true(set_of(room, 10, 7)->whole->durable);
}

static void a_part_whose_holder_is_gone_is_repaired(void **state)
{
    struct room *room = *state;
    uint32_t nodes[NODE_EFFECTS_MAX];
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    hear_part(room, 10, 7, 1, SELF, 3);
    hear_part(room, 10, 7, 2, 3, SELF);
    retention_mark(view_find_experiment(&room->core.view, make_experiment_id(0)));
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(sent(room, blob_of(10, 7, 1), nodes), 0);
    die(room, 3);
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(sent(room, blob_of(10, 7, 0), nodes), 0);
    assert_int_equal(sent(room, blob_of(10, 7, 1), nodes), 1);
    assert_int_equal(sent(room, blob_of(10, 7, 2), nodes), 1);
    take_all(room);
    for (uint32_t part = 1; part < PARTS; part++) {
        struct view_manifest united;
        (void)core_checkpoints_unite(&room->core, view_set_part(set_of(room, 10, 7), part), &united);
        uint32_t living = 0;
        for (uint32_t i = 0; i < united.holder_count; i++) {
            living += core_node_alive(&room->core, united.holders[i]);
        }
        assert_int_equal(living, 2);
    }
}

/* An incomplete checkpoint is repaired no more than one that is not kept. */
static void parts_of_an_incomplete_checkpoint_are_not_repaired(void **state)
{
    struct room *room = *state;
    uint32_t nodes[NODE_EFFECTS_MAX];
    submit(room, 2);
    hear_part(room, 10, 7, 1, SELF, 3);
    die(room, 3);
    retention_mark(view_find_experiment(&room->core.view, make_experiment_id(0)));
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(sent(room, blob_of(10, 7, 1), nodes), 0);
}

static void a_node_that_begins_again_is_sent_its_parts(void **state)
{
    struct room *room = *state;
    uint32_t nodes[NODE_EFFECTS_MAX];
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    hear_part(room, 10, 7, 1, SELF, 3);
    hear_part(room, 10, 7, 2, 3, SELF);
    room->peers[3].boot = 5;
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(sent(room, blob_of(10, 7, 0), nodes), 0);
    assert_int_equal(sent(room, blob_of(10, 7, 1), nodes), 1);
    assert_int_equal(nodes[0], 3);
    assert_int_equal(sent(room, blob_of(10, 7, 2), nodes), 1);
}

/* ---- parts that go ------------------------------------------------------------------------------------------------- */

static void confirm(struct room *room, hash256 blob, uint32_t node)
{
    struct node_event event = {.kind = NODE_EVENT_CONFIRMED};
    event.u.blob.blob = blob;
    event.u.blob.node = room->people[node].id;
    event.u.blob.ok = true;
    core_collection_confirmed(&room->core, &event);
}

static void look(struct room *room)
{
    room_pass(room, CORE_RETENTION_MS);
    core_collection_housekeep(&room->core);
}

static bool is_held(const struct room *room, uint64_t step, uint64_t number, uint32_t part)
{
    return view_set_part(set_of(room, step, number), part) != NULL;
}

/* Of step 10 this node has told of part 1; the newer checkpoint has two copies of each part. */
static void a_checkpoint_goes_once_each_part_of_a_newer_one_is_confirmed(void **state)
{
    struct room *room = *state;
    static const uint32_t holders[PARTS][2] = {{0, 1}, {1, 3}, {3, 4}};
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    save(room, 10, 7, 1);
    take_all(room);
    hear_part(room, 10, 7, 2, 3, 4);
    hear_all(room, 20, 8);
    look(room);
    for (uint32_t part = 0; part < PARTS; part++) {
        for (uint32_t i = 0; i < 2; i++) {
            assert_true(is_held(room, 10, 7, 1));
            assert_true(is_asked(room, blob_of(20, 8, part), holders[part][i]));
        }
    }
    for (uint32_t part = 0; part < PARTS; part++) {
        for (uint32_t i = 0; i < 2; i++) {
            core_collection_housekeep(&room->core);
            assert_true(is_held(room, 10, 7, 1));
            confirm(room, blob_of(20, 8, part), holders[part][i]);
        }
    }
    core_collection_housekeep(&room->core);
    assert_false(is_held(room, 10, 7, 1));
    assert_true(is_held(room, 10, 7, 0)); /* another node's record, which that node writes again */
    assert_int_equal(newest(room), 20);
}

static void the_newest_checkpoint_that_is_complete_stays_beside_newer_parts(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_part(room, 10, 7, 0, 0, 1);
    save(room, 10, 7, 1);
    take_all(room);
    hear_part(room, 10, 7, 2, 3, 4);
    for (uint64_t step = 20; step <= 40; step += 10) {
        hear_part(room, step, 8, 0, 0, 1);
        hear_part(room, step, 8, 1, 1, 3);
        confirm(room, blob_of(step, 8, 0), 0);
    }
    for (uint32_t i = 0; i < 5; i++) {
        look(room);
    }
    assert_true(is_held(room, 10, 7, 1));
    assert_int_equal(newest(room), 10);
}

static bool is_named(const struct room *room, hash256 blob)
{
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        for (uint32_t at = 0; effect->kind == NODE_EFFECT_COLLECT && at < effect->byte_count; at += HASH_BYTES) {
            if (memcmp(effect->bytes + at, blob.bytes, HASH_BYTES) == 0) {
                return true;
            }
        }
    }
    return false;
}

static void parts_that_a_running_attempt_began_with_are_not_collected(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_all(room, 10, 7);
    hash256 name = set_of(room, 10, 7)->name;
    assign(room, 2, name);
    for (uint32_t part = 0; part < PARTS; part++) { /* let go elsewhere, where the attempt was not known */
        hear_part_of(room, 1, part == 0 ? 0 : part == 1 ? 1 : 3, key_of(10, 7, part), blob_of(10, 7, part), 0, NULL);
    }
    hear_part(room, 20, 8, 0, 0, 1); /* incomplete, and may be completed */
    room_pass(room, CORE_COLLECT_MS + CORE_RETENTION_MS);
    core_collection_housekeep(&room->core);
    for (uint32_t part = 0; part < PARTS; part++) {
        assert_true(is_named(room, blob_of(10, 7, part)));
    }
    assert_true(is_named(room, blob_of(20, 8, 0)));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_room, close_room)
    const struct CMUnitTest tests[] = {
        TEST(a_checkpoint_with_a_missing_part_is_never_offered),
        TEST(it_is_durable_once_every_part_is),
        TEST(parts_of_two_saves_of_one_step_do_not_mix),
        TEST(a_part_of_which_two_blobs_are_told_is_no_part),
        TEST(a_checkpoint_is_passed_over_while_a_part_is_out_of_reach),
        TEST(a_worker_is_told_once_all_parts_are_durable),
        TEST(workers_wait_for_their_latest_saves_only),
        TEST(a_part_goes_to_nodes_that_know_parts),
        TEST(equal_parts_of_two_ranks_of_one_node_are_two_parts),
        TEST(a_part_whose_holder_is_gone_is_repaired),
        TEST(parts_of_an_incomplete_checkpoint_are_not_repaired),
        TEST(a_node_that_begins_again_is_sent_its_parts),
        TEST(a_checkpoint_goes_once_each_part_of_a_newer_one_is_confirmed),
        TEST(the_newest_checkpoint_that_is_complete_stays_beside_newer_parts),
        TEST(parts_that_a_running_attempt_began_with_are_not_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Copies of checkpoints on other nodes: saves, repairs and checks, and which copy to use. The tests build the room alone. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rendezvous.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/collection.h"
#include "tests/unit/core_room.h"

#define TRIALS 16

static int open_room(void **state)
{
    *state = malloc(sizeof(struct room));
    room_open(*state, 2);
    return 0;
}

static int close_room(void **state)
{
    room_close(*state);
    free(*state);
    return 0;
}

/* ---- what happens -------------------------------------------------------------------------------------------------- */

/* Experiment 0, of which `replicas` copies of each checkpoint are wanted. */
static void submit(struct room *room, uint32_t replicas)
{
    struct config config;
    make_config(&config, TRIALS, 5);
    config.checkpoint_replicas = replicas;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    room_hear(room, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
}

static attempt_id attempt_of(const struct room *room, uint32_t trial)
{
    return make_attempt_id(0, trial, 1, 1, room->people[0].id);
}

static hash256 blob_of(uint32_t trial, uint64_t step)
{
    return (hash256){{1, (uint8_t)trial, (uint8_t)step}};
}

static struct node_event event_of(const struct room *room, enum node_event_kind kind, uint32_t trial, uint64_t step)
{
    struct node_event event = {.kind = kind};
    event.u.blob.attempt = attempt_of(room, trial);
    event.u.blob.step = step;
    event.u.blob.blob = blob_of(trial, step);
    event.u.blob.bytes = 100;
    return event;
}

static void save_of(struct room *room, uint32_t trial, uint64_t step)
{
    struct node_event event = event_of(room, NODE_EVENT_CHECKPOINT, trial, step);
    core_checkpoints_saved(&room->core, &event);
}

static void save(struct room *room, uint64_t step)
{
    save_of(room, 0, step);
}

static void answer(struct room *room, uint64_t step, uint32_t node, bool ok)
{
    struct node_event event = event_of(room, NODE_EVENT_PUSHED, 0, step);
    event.u.blob.node = room->people[node].id;
    event.u.blob.ok = ok;
    core_checkpoints_pushed(&room->core, &event);
}

/* The next repair pass. */
static void look_again(struct room *room)
{
    room_pass(room, CORE_REPAIR_MS);
    core_checkpoints_housekeep(&room->core);
}

/* Another node's manifest names these holders. */
static void hear_manifest_of(struct room *room, uint32_t writer, uint32_t trial, uint64_t step, uint32_t count,
                             const uint32_t holders[])
{
    struct fact_manifest fact = {.blob = blob_of(trial, step), .bytes = 100, .holder_count = count, .durable = true};
    for (uint32_t i = 0; i < count; i++) {
        fact.holders[i] = room->people[holders[i]].id;
    }
    attempt_id attempt = attempt_of(room, trial);
    room_hear(room, writer, FACT_MANIFEST, fact_key_manifest(&attempt, step), &fact);
}

static void hear_manifest(struct room *room, uint32_t writer, uint64_t step, uint32_t first, uint32_t second)
{
    hear_manifest_of(room, writer, 0, step, 2, (const uint32_t[]){first, second});
}

static void die(struct room *room, uint32_t node)
{
    room->peers[node].state = SWIM_DEAD;
    room->peers[node].died_ms = room->core.now_ms;
}

static void drain(struct room *room, uint32_t node)
{
    struct fact_drain fact = {.drained = true, .lamport = 1};
    room_hear(room, 0, FACT_DRAIN, fact_key_node_id(room->people[node].id), &fact);
}

/* The node has answered that it has not all of the blob. */
static void lose_copy(struct room *room, uint64_t step, uint32_t node)
{
    struct core_confirmation *row = arena_take(&room->core.arena, sizeof *row);
    *row = (struct core_confirmation){.blob = blob_of(0, step), .node = room->people[node].id, .is_missing = true,
                                      .refused_ms = room->core.now_ms, .next = room->copies.confirmations};
    room->copies.confirmations = row;
}

/* ---- what is seen -------------------------------------------------------------------------------------------------- */

/* The nodes that were sent a checkpoint since the last pass, in that order. */
static uint32_t sent(const struct room *room, uint32_t out[NODE_EFFECTS_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < room->effects.count; i++) {
        const struct node_effect *effect = &room->effects.items[i];
        if (effect->kind == NODE_EFFECT_PUSH && !experiment_id_is_none(effect->u.push.attempt.experiment)) {
            out[count++] = room_number(room, effect->u.push.to);
        }
    }
    return count;
}

static uint32_t sent_count(const struct room *room)
{
    uint32_t nodes[NODE_EFFECTS_MAX];
    return sent(room, nodes);
}

static uint32_t sent_first(const struct room *room)
{
    uint32_t nodes[NODE_EFFECTS_MAX];
    assert_true(sent(room, nodes) > 0);
    return nodes[0];
}

/* All other nodes in rendezvous order of trial 0. */
static void rendezvous(const struct room *room, uint32_t out[ROOM_NODES - 1])
{
    node_id ids[ROOM_NODES - 1];
    for (uint32_t i = 0; i < ROOM_NODES - 1; i++) {
        ids[i] = room->peers_by_id[i]->id;
    }
    struct fact_key key = fact_key_trial(make_experiment_id(0), 0);
    rendezvous_sort(ids, ROOM_NODES - 1, key.bytes, key.count);
    for (uint32_t i = 0; i < ROOM_NODES - 1; i++) {
        out[i] = room_number(room, ids[i]);
    }
}

static const struct view_trial *trial_of(const struct room *room, uint32_t trial)
{
    return view_find_trial(view_find_experiment(&room->core.view, make_experiment_id(0)), trial);
}

/* This node's own manifest of the step, or NULL. */
static const struct view_manifest *own_manifest(const struct room *room, uint64_t step)
{
    const struct view_trial *trial = trial_of(room, 0);
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    while (row != NULL && (row->step != step || !node_id_equal(row->writer, room->core.options.self))) {
        row = row->next;
    }
    return row;
}

static void assert_holders(const struct room *room, const struct view_manifest *manifest, uint32_t count,
                           const uint32_t nodes[])
{
    assert_non_null(manifest);
    assert_int_equal(manifest->holder_count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(room_number(room, manifest->holders[i]), nodes[i]);
    }
}

/* ---- which nodes are asked ----------------------------------------------------------------------------------------- */

static void the_first_nodes_in_rendezvous_order_of_the_trial_are_sent_a_save(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1], nodes[NODE_EFFECTS_MAX];
    rendezvous(room, order);
    submit(room, 3);
    save(room, 10);
    assert_int_equal(sent(room, nodes), 2); /* the third copy is this node's */
    assert_int_equal(nodes[0], order[0]);
    assert_int_equal(nodes[1], order[1]);
}

static void dead_suspected_and_drained_nodes_are_passed_over(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    die(room, order[0]);
    room->peers[order[1]].state = SWIM_SUSPECT;
    drain(room, order[2]);
    save(room, 10);
    assert_int_equal(sent_count(room), 1);
    assert_int_equal(sent_first(room), order[3]);
}

static void the_next_node_is_sent_what_one_refuses(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    save(room, 10);
    room_pass(room, 10);
    answer(room, 10, order[0], false);
    assert_int_equal(sent_count(room), 1);
    assert_int_equal(sent_first(room), order[1]);
    assert_null(own_manifest(room, 10));
}

static void a_save_of_an_unknown_experiment_goes_to_all_nodes(void **state)
{
    struct room *room = *state;
    save(room, 10);
    assert_int_equal(sent_count(room), ROOM_NODES - 1);
}

static void a_save_of_a_deleted_experiment_goes_to_no_node(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    room_hear(room, 0, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    save(room, 10);
    assert_int_equal(sent_count(room), 0);
    assert_null(room->copies.pushes);
}

static void the_same_bytes_saved_again_are_sent_once(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    save(room, 10);
    room_pass(room, 10);
    save(room, 10);
    assert_int_equal(sent_count(room), 0);
    assert_null(room->copies.pushes->next);
}

/* ---- when a save is over, and when it is published ----------------------------------------------------------------- */

static void a_save_is_published_as_durable_once_as_many_copies_as_wanted_are_confirmed(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 3);
    save(room, 10);
    answer(room, 10, order[1], true);
    assert_null(own_manifest(room, 10));
    answer(room, 10, order[0], true);
    assert_null(room->copies.pushes);
    assert_holders(room, own_manifest(room, 10), 3, (const uint32_t[]){2, order[1], order[0]});
    assert_true(own_manifest(room, 10)->durable);
}

static void a_worker_is_to_hear_of_a_durable_save_once_the_manifest_is_on_disk(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    save(room, 10);
    answer(room, 10, order[0], true);
    assert_int_equal(room->disk.pending_last->action, CORE_ACTION_DURABLE);
    assert_int_equal(room->disk.pending_last->step, 10);
}

static void a_save_is_over_once_every_node_has_refused_and_is_published_as_not_durable(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    save(room, 10);
    for (uint32_t i = 0; i < ROOM_NODES - 1; i++) {
        assert_non_null(room->copies.pushes);
        answer(room, 10, order[i], false);
    }
    assert_null(room->copies.pushes);
    assert_holders(room, own_manifest(room, 10), 1, (const uint32_t[]){2});
    assert_false(own_manifest(room, 10)->durable);
    assert_int_equal(room->disk.pending_last->action, CORE_ACTION_NONE);
}

static void a_save_that_wants_one_copy_is_over_at_once(void **state)
{
    struct room *room = *state;
    submit(room, 1);
    save(room, 10);
    assert_int_equal(sent_count(room), 0);
    assert_null(room->copies.pushes);
    assert_true(own_manifest(room, 10)->durable);
}

static void a_second_answer_of_one_node_and_answers_about_other_steps_count_for_nothing(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 3);
    save(room, 10);
    answer(room, 10, order[0], true);
    answer(room, 10, order[0], true);
    answer(room, 20, order[1], true);
    answer(room, 10, order[4], true); /* it was not asked */
    assert_int_equal(room->copies.pushes->holder_count, 2);
    assert_null(own_manifest(room, 10));
}

static void a_slow_save_is_published_at_the_second_pass_with_the_holders_so_far(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 3);
    save(room, 10);
    answer(room, 10, order[0], true);
    look_again(room);
    assert_int_equal(room->copies.pushes->progress, CORE_PUSH_SLOW);
    assert_null(own_manifest(room, 10));
    look_again(room);
    assert_int_equal(room->copies.pushes->progress, CORE_PUSH_PUBLISHED);
    assert_holders(room, own_manifest(room, 10), 2, (const uint32_t[]){2, order[0]});
    assert_false(own_manifest(room, 10)->durable);
    answer(room, 10, order[1], true);
    assert_null(room->copies.pushes);
    assert_true(own_manifest(room, 10)->durable);
}

static void the_newest_save_of_a_worker_that_ends_is_published_at_once(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    save(room, 10);
    save(room, 20);
    save_of(room, 1, 30);
    attempt_id ended = attempt_of(room, 0);
    core_checkpoints_ended(&room->core, &ended);
    assert_null(own_manifest(room, 10));
    assert_holders(room, own_manifest(room, 20), 1, (const uint32_t[]){2});
    assert_null(trial_of(room, 1));
}

static void a_save_without_memory_for_its_manifest_stays_until_there_is_some(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    save(room, 10);
    room_take_memory(room);
    answer(room, 10, order[0], true);
    assert_non_null(room->copies.pushes);
    assert_null(own_manifest(room, 10));
    room_give_memory(room);
    look_again(room);
    assert_null(room->copies.pushes);
    assert_true(own_manifest(room, 10)->durable);
}

static void a_save_that_is_over_goes_on_when_the_same_bytes_are_saved_for_more_copies(void **state)
{
    struct room *room = *state;
    uint32_t order[ROOM_NODES - 1];
    rendezvous(room, order);
    submit(room, 2);
    save(room, 10);
    room_take_memory(room);
    answer(room, 10, order[0], true);
    room_give_memory(room);
    room_pass(room, 10);
    view_find_experiment(&room->core.view, make_experiment_id(0))->config->checkpoint_replicas = 3;
    save(room, 10);
    assert_int_equal(sent_count(room), 1);
    assert_int_equal(sent_first(room), order[1]);
    answer(room, 10, order[1], true);
    assert_holders(room, own_manifest(room, 10), 3, (const uint32_t[]){2, order[0], order[1]});
}

static void pushes_of_a_forgotten_experiment_are_dropped(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    save(room, 10);
    save(room, 20);
    core_checkpoints_forget(&room->core, make_experiment_id(0));
    assert_null(room->copies.pushes);
}

/* ---- repairs ------------------------------------------------------------------------------------------------------- */

static void a_checkpoint_of_a_dead_holder_is_copied_to_one_more_node(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    die(room, 4);
    look_again(room);
    assert_int_equal(sent_count(room), 1);
    assert_int_equal(room->copies.pushes->kind, CORE_PUSH_REPAIR);
    uint32_t taker = sent_first(room);
    answer(room, 10, taker, true);
    assert_null(room->copies.pushes);
    assert_holders(room, own_manifest(room, 10), 2, (const uint32_t[]){2, taker});
    assert_true(own_manifest(room, 10)->durable);
    assert_int_equal(room->disk.pending_last->action, CORE_ACTION_NONE); /* no worker waits for a repair */
}

static void the_living_holder_with_the_smallest_id_repairs(void **state)
{
    struct room *room = *state;
    submit(room, 3);
    hear_manifest_of(room, 4, 0, 10, 3, (const uint32_t[]){1, 2, 4});
    die(room, 4);
    look_again(room);
    assert_null(room->copies.pushes); /* node 1 does */
    die(room, 1);
    look_again(room);
    assert_non_null(room->copies.pushes);
}

static void a_node_that_holds_no_copy_repairs_nothing(void **state)
{
    struct room *room = *state;
    submit(room, 3);
    hear_manifest(room, 4, 10, 3, 4);
    die(room, 4);
    look_again(room);
    assert_null(room->copies.pushes);
}

static void a_repair_that_no_node_takes_publishes_nothing(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    die(room, 4);
    look_again(room);
    while (room->copies.pushes != NULL) {
        uint32_t asked = sent_first(room);
        room_pass(room, 10);
        answer(room, 10, asked, false);
    }
    assert_null(own_manifest(room, 10));
}

static void a_futile_repair_is_tried_again_only_once_other_nodes_can_take_copies(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    die(room, 4);
    look_again(room);
    while (room->copies.pushes != NULL) {
        uint32_t asked = sent_first(room);
        room_pass(room, 10);
        answer(room, 10, asked, false);
    }
    look_again(room);
    assert_null(room->copies.pushes);
    room->peers[4].state = SWIM_ALIVE;
    lose_copy(room, 10, 4);
    look_again(room);
    assert_non_null(room->copies.pushes);
}

static void a_repair_becomes_a_save_when_a_worker_saves_the_same_bytes(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    die(room, 4);
    look_again(room);
    uint32_t taker = sent_first(room);
    save(room, 10);
    assert_null(room->copies.pushes->next);
    assert_int_equal(room->copies.pushes->kind, CORE_PUSH_SAVE);
    answer(room, 10, taker, true);
    assert_int_equal(room->disk.pending_last->action, CORE_ACTION_DURABLE);
}

static void so_many_repairs_are_under_way_at_a_time_and_the_rest_follows(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    for (uint32_t trial = 0; trial < CORE_REPAIRS_MAX + 2; trial++) {
        hear_manifest_of(room, 4, trial, 10, 2, (const uint32_t[]){2, 4});
    }
    die(room, 4);
    look_again(room);
    assert_int_equal(sent_count(room), CORE_REPAIRS_MAX);
    assert_true(room->copies.repair_is_behind);
    answer(room, 10, sent_first(room), true); /* the next pass is due now */
    room_pass(room, 0);
    core_checkpoints_housekeep(&room->core);
    assert_int_equal(sent_count(room), 1);
}

static void a_node_that_has_taken_nothing_yet_gets_one_repair_at_a_time(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    for (uint32_t node = 0; node < ROOM_NODES; node++) {
        room->peers[node].takes_copies = false;
    }
    for (uint32_t trial = 0; trial < CORE_REPAIRS_MAX; trial++) {
        hear_manifest_of(room, 4, trial, 10, 2, (const uint32_t[]){2, 4});
    }
    die(room, 4);
    look_again(room);
    assert_int_equal(sent_count(room), ROOM_NODES - 2); /* all but this node and the dead one */
    assert_true(room->copies.repair_is_behind);
}

/* ---- checks -------------------------------------------------------------------------------------------------------- */

static void a_holder_that_began_anew_is_sent_its_checkpoint_again_and_nothing_is_published(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    room->peers[4].boot = 7;
    look_again(room);
    assert_int_equal(sent_count(room), 1);
    assert_int_equal(sent_first(room), 4);
    assert_int_equal(room->copies.pushes->kind, CORE_PUSH_CHECK);
    answer(room, 10, 4, true);
    assert_null(room->copies.pushes);
    assert_null(own_manifest(room, 10));
    look_again(room);
    assert_null(room->copies.pushes); /* once in each boot */
}

/* ---- which copy to use --------------------------------------------------------------------------------------------- */

static void the_newest_checkpoint_is_the_newest_that_a_living_node_holds(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    hear_manifest(room, 4, 20, 3, 4);
    hear_manifest(room, 4, 30, 4, 5);
    assert_int_equal(core_checkpoints_newest(&room->core, trial_of(room, 0))->step, 30);
    die(room, 4);
    die(room, 5);
    assert_int_equal(core_checkpoints_newest(&room->core, trial_of(room, 0))->step, 20);
    lose_copy(room, 20, 3);
    assert_int_equal(core_checkpoints_newest(&room->core, trial_of(room, 0))->step, 10);
    lose_copy(room, 10, 2);
    assert_null(core_checkpoints_newest(&room->core, trial_of(room, 0)));
}

static void a_newer_checkpoint_may_return_while_its_holder_can_still_refute_its_death(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    hear_manifest(room, 4, 20, 4, 5);
    assert_false(core_checkpoints_may_return(&room->core, trial_of(room, 0)));
    die(room, 4);
    die(room, 5);
    assert_true(core_checkpoints_may_return(&room->core, trial_of(room, 0)));
    room_pass(room, CORE_REFUTE_MS);
    assert_false(core_checkpoints_may_return(&room->core, trial_of(room, 0)));
}

static void a_united_checkpoint_names_living_holders_first_and_doubtful_ones_last(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 4, 1);
    hear_manifest(room, 5, 10, 3, 5);
    hear_manifest(room, 5, 20, 3, 5);
    die(room, 4);
    lose_copy(room, 10, 3);
    const struct view_manifest *row = trial_of(room, 0)->manifests->next; /* of step 10 */
    struct view_manifest united;
    assert_null(core_checkpoints_unite(&room->core, row, &united));
    assert_int_equal(united.holder_count, 4);
    assert_int_equal(room_number(room, united.holders[0]), 1);
    assert_int_equal(room_number(room, united.holders[1]), 5);
    assert_int_equal(room_number(room, united.holders[2]) + room_number(room, united.holders[3]), 3 + 4);
}

static void the_next_checkpoint_is_behind_all_rows_of_those_before_and_has_a_holder(void **state)
{
    struct room *room = *state;
    submit(room, 2);
    hear_manifest(room, 4, 10, 2, 4);
    hear_manifest_of(room, 4, 0, 20, 0, NULL); /* kept no longer */
    hear_manifest(room, 4, 30, 3, 4);
    hear_manifest(room, 5, 30, 3, 5);
    const struct view_manifest *row = trial_of(room, 0)->manifests;
    struct view_manifest checkpoint;
    assert_true(core_checkpoints_next(&room->core, &row, &checkpoint));
    assert_int_equal(checkpoint.step, 30);
    assert_int_equal(checkpoint.holder_count, 3);
    assert_true(core_checkpoints_next(&room->core, &row, &checkpoint));
    assert_int_equal(checkpoint.step, 10);
    assert_false(core_checkpoints_next(&room->core, &row, &checkpoint));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_room, close_room)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_first_nodes_in_rendezvous_order_of_the_trial_are_sent_a_save),
        TEST(dead_suspected_and_drained_nodes_are_passed_over),
        TEST(the_next_node_is_sent_what_one_refuses),
        TEST(a_save_of_an_unknown_experiment_goes_to_all_nodes),
        TEST(a_save_of_a_deleted_experiment_goes_to_no_node),
        TEST(the_same_bytes_saved_again_are_sent_once),
        TEST(a_save_is_published_as_durable_once_as_many_copies_as_wanted_are_confirmed),
        TEST(a_worker_is_to_hear_of_a_durable_save_once_the_manifest_is_on_disk),
        TEST(a_save_is_over_once_every_node_has_refused_and_is_published_as_not_durable),
        TEST(a_save_that_wants_one_copy_is_over_at_once),
        TEST(a_second_answer_of_one_node_and_answers_about_other_steps_count_for_nothing),
        TEST(a_slow_save_is_published_at_the_second_pass_with_the_holders_so_far),
        TEST(the_newest_save_of_a_worker_that_ends_is_published_at_once),
        TEST(a_save_without_memory_for_its_manifest_stays_until_there_is_some),
        TEST(a_save_that_is_over_goes_on_when_the_same_bytes_are_saved_for_more_copies),
        TEST(pushes_of_a_forgotten_experiment_are_dropped),
        TEST(a_checkpoint_of_a_dead_holder_is_copied_to_one_more_node),
        TEST(the_living_holder_with_the_smallest_id_repairs),
        TEST(a_node_that_holds_no_copy_repairs_nothing),
        TEST(a_repair_that_no_node_takes_publishes_nothing),
        TEST(a_futile_repair_is_tried_again_only_once_other_nodes_can_take_copies),
        TEST(a_repair_becomes_a_save_when_a_worker_saves_the_same_bytes),
        TEST(so_many_repairs_are_under_way_at_a_time_and_the_rest_follows),
        TEST(a_node_that_has_taken_nothing_yet_gets_one_repair_at_a_time),
        TEST(a_holder_that_began_anew_is_sent_its_checkpoint_again_and_nothing_is_published),
        TEST(the_newest_checkpoint_is_the_newest_that_a_living_node_holds),
        TEST(a_newer_checkpoint_may_return_while_its_holder_can_still_refute_its_death),
        TEST(a_united_checkpoint_names_living_holders_first_and_doubtful_ones_last),
        TEST(the_next_checkpoint_is_behind_all_rows_of_those_before_and_has_a_holder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

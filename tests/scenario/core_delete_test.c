/* Experiments that are deleted: they end, and nothing of them comes back. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"
#include "node/core/owner/slots.h"
#include "tests/scenario/core_story.h"

static bool count_buried(void *context, const struct records_entry *entry)
{
    experiment_id about;
    *(uint32_t *)context += fact_is_of_experiment(&entry->record, &about);
    return true;
}

/* Nothing of any experiment is left on this node: not in memory, not on its disk, and nothing runs. */
static void assert_buried(const struct world *world, uint32_t number)
{
    const struct world_node *node = &world->nodes[number];
    uint32_t left = 0;
    records_each(&node->core->records, count_buried, &left);
    for (uint32_t i = 0; i < node->record_count; i++) {
        struct records_entry entry = {.on_disk = true};
        assert_int_equal(record_decode(node->records[i].bytes, node->records[i].count, &entry.record), 0);
        (void)count_buried(&left, &entry);
    }
    assert_int_equal(left, 0);
    assert_int_equal(node->fence_count, 0);
    assert_null(node->core->disk->fences);
    assert_null(node->core->coordinator->coordinations);
    assert_null(node->core->copies->pushes);
    assert_null(node->core->copies->codes);
    assert_null(node->core->copies->acks);
    assert_null(world_experiment(world, number));
    assert_true(view_is_deleted(&node->core->view, make_experiment_id(0)));
    assert_true(core_owner_idle(node->core));
    for (uint32_t slot = 0; slot < node->slot_count; slot++) {
        assert_false(node->workers[slot].runs);
        assert_int_equal(node->core->owner->lease.slots[slot].state, LEASE_FREE);
    }
}

static void assert_all_buried_alike(const struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        assert_buried(world, i);
        assert_true(records_hash_equal(world->nodes[i].core->records.hash, world->nodes[0].core->records.hash));
    }
}

static void a_running_experiment_is_ended_and_forgotten(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    uint32_t coordinator = story_begin(world, 20, 5);
    assert_int_equal(world_spawns(world), 6);
    world_request(world, (coordinator + 1) % 3, NODE_REQUEST_DELETE); /* not where it is coordinated */
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_false(world->reply.already);
    assert_int_equal(world_count(world, "> kill "), 6);
    assert_all_buried_alike(world);
    size_t after = world->log_bytes;
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 6);
    assert_true(world_find(world, after, "> persist") == SIZE_MAX);
    assert_all_buried_alike(world);
    world_free(world);
}

static void an_experiment_that_is_over_can_be_deleted(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 2, 5);
    world->program = WORLD_RUNS_2S;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 20000);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_COMPLETED);
    world_request(world, 1, NODE_REQUEST_DELETE);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_all_buried_alike(world);
    world_free(world);
}

static void the_other_side_of_a_cut_hears_of_it_later(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 20, 5);
    world->nodes[2].is_cut = true;
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 60000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_buried(world, 0);
    assert_buried(world, 1);
    assert_non_null(world_experiment(world, 2)); /* it coordinates there now, and what it writes is news to the others */
    assert_true(world_find(world, 0, "c> persist claim") != SIZE_MAX);
    size_t healed = world->log_bytes;
    world->nodes[2].is_cut = false;
    assert_true(world_run_until(world, 60000, healed, "c> kill"));
    world_run(world, 10000);
    assert_all_buried_alike(world);
    world_free(world);
}

static void an_old_record_that_is_relayed_later_is_not_taken(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 5000);
    struct fact_control fact = {1, false, false, false};
    struct made made;
    make_record(&made, make_person(1).id, 99, 1, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
    uint32_t count = world->nodes[0].core->records.count;
    struct message message = {.kind = MESSAGE_RECORDS, .want_stored = true, .bytes = made.bytes,
                              .byte_count = made.count};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[1].person.id;
    event.u.message.message = &message;
    size_t before = world->log_bytes;
    world_step(world, 0, &event);
    world_run(world, 5000);
    assert_int_equal(world->nodes[0].core->records.count, count);
    assert_true(world_find(world, before, "a> send stored") == SIZE_MAX);
    assert_all_buried_alike(world);
    world_free(world);
}

/* Copies the tombstone from one disk to another. */
static void copy_tombstone(struct world *world, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < world->nodes[from].record_count; i++) {
        const struct made *made = &world->nodes[from].records[i];
        struct record record;
        assert_int_equal(record_decode(made->bytes, made->count, &record), 0);
        if (record.kind == FACT_TOMBSTONE) {
            world->nodes[to].records[world->nodes[to].record_count++] = *made;
        }
    }
}

/* The daemon died when a tombstone was on its disk and nothing else was gone from it. */
static void a_restart_on_the_same_disk_ends_what_it_finds(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    (void)story_begin(world, 20, 5);
    world_crash(world, 0);
    world_request(world, 1, NODE_REQUEST_DELETE);
    world_run(world, 6000);
    assert_true(world->nodes[0].workers[0].runs); /* their keeps have not heard of it */
    world->nodes[1].is_cut = true;
    copy_tombstone(world, 1, 0);
    world_restart(world, 0, true);
    assert_null(world_experiment(world, 0));
    world_run(world, 1000);
    assert_buried(world, 0);
    world->nodes[1].is_cut = false;
    world_run(world, 20000);
    assert_all_buried_alike(world);
    world_crash(world, 0);
    world_restart(world, 0, true);
    world_run(world, 20000);
    assert_all_buried_alike(world);
    world_free(world);
}

/* Records go once the tombstone is on the disk: a crash before that leaves the whole experiment. */
static void nothing_is_forgotten_before_the_tombstone_is_on_the_disk(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    (void)story_begin(world, 1, 5);
    uint32_t count = world->nodes[0].record_count;
    world->nodes[0].disk_refuses = true;
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, ERR_NO_SPACE);
    assert_null(world_experiment(world, 0));
    assert_int_equal(world->nodes[0].record_count, count);
    world_crash(world, 0);
    world->nodes[0].disk_refuses = false;
    world_restart(world, 0, false);
    world_run(world, 60000);
    assert_non_null(world_experiment(world, 0));
    assert_int_equal(world_spawns(world), 2);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 6000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    assert_buried(world, 0);
    world_free(world);
}

static void deleting_twice_is_answered_alike(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 2, 5);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 5000);
    uint32_t count = world->nodes[1].core->records.count;
    for (uint32_t node = 0; node < 3; node++) { /* whoever is asked answers for what is there */
        world->reply.code = ERR_AGAIN;
        world_request(world, node, NODE_REQUEST_DELETE);
        world_run(world, 6000);
        assert_int_equal(world->reply.code, 0);
        assert_int_equal(world->reply.stored_on, 2);
        assert_true(world->reply.already);
    }
    assert_int_equal(world->nodes[1].core->records.count, count);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    struct config config;
    make_config(&config, 1, 5);
    world_submit(world, 1, &config); /* a late retry of the client that once submitted it */
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_free(world);
}

static void what_is_not_known_is_not_deleted(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_request(world, 0, NODE_REQUEST_DELETE);
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    assert_false(view_is_deleted(&world->nodes[0].core->view, make_experiment_id(0)));
    world_free(world);
}

/* Both sides of a cut delete it: two tombstones, one meaning. */
static void both_sides_of_a_cut_may_delete_it(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world->nodes[1].is_cut = true;
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_request(world, 1, NODE_REQUEST_DELETE);
    world_run(world, 30000);
    world->nodes[1].is_cut = false;
    world_run(world, 60000);
    assert_all_buried_alike(world);
    assert_int_equal(world->nodes[0].core->view.tombstone_count, 1);
    world_free(world);
}

/* A request about it that waits for a second node when the tombstone comes is told so. */
static void a_waiting_request_is_told_of_the_deletion(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 2, 5);
    world->nodes[2].is_cut = true;
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 300);
    world_request(world, 2, NODE_REQUEST_PAUSE); /* it believes that the others live, and waits for one of them */
    world->nodes[2].is_cut = false;
    assert_line(world, 4000, "c> reply");
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    world_run(world, 10000);
    assert_all_buried_alike(world);
    world_free(world);
}

/* More records than one step forgets. */
static void a_large_experiment_is_forgotten_in_pieces(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    struct config config;
    make_config(&config, 2, 5);
    (void)story_begin_with(world, &config, 5000);
    for (uint32_t i = 0; i < 1500; i++) {
        attempt_id id = make_attempt_id(0, i % 2, 100 + i, 1, make_person(1).id);
        struct fact_verdict fact = {.reason = FACT_LOST};
        struct made made;
        make_record(&made, make_person(1).id, 1, 1, FACT_VERDICT, fact_key_verdict(&id), &fact);
        struct message message = {.kind = MESSAGE_RECORDS, .bytes = made.bytes, .byte_count = made.count};
        struct node_event event = {.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = world->nodes[1].person.id;
        event.u.message.message = &message;
        world_step(world, 0, &event);
    }
    world_run(world, 20000);
    assert_true(world->nodes[1].core->records.count > 1500); /* by exchange */
    world_request(world, 1, NODE_REQUEST_DELETE);
    world_run(world, 6000);
    assert_int_equal(world->reply.code, 0);
    assert_all_buried_alike(world);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_running_experiment_is_ended_and_forgotten),
        cmocka_unit_test(an_experiment_that_is_over_can_be_deleted),
        cmocka_unit_test(the_other_side_of_a_cut_hears_of_it_later),
        cmocka_unit_test(an_old_record_that_is_relayed_later_is_not_taken),
        cmocka_unit_test(a_restart_on_the_same_disk_ends_what_it_finds),
        cmocka_unit_test(nothing_is_forgotten_before_the_tombstone_is_on_the_disk),
        cmocka_unit_test(deleting_twice_is_answered_alike),
        cmocka_unit_test(what_is_not_known_is_not_deleted),
        cmocka_unit_test(both_sides_of_a_cut_may_delete_it),
        cmocka_unit_test(a_waiting_request_is_told_of_the_deletion),
        cmocka_unit_test(a_large_experiment_is_forgotten_in_pieces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

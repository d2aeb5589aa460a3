/* Disks that refuse, take their time, or are old. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/ground/disk.h"
#include "node/core/owner/owner.h"
#include "tests/scenario/core_faults.h"

/* A copy of its disk ran on a machine with more slots while it was away, under a boot between its last two, and died with a
 * worker. (Seed 9372 of the simulator.) */
static void what_another_life_says_of_a_slot_is_put_right(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    for (int i = 0; i < 2; i++) {
        world_crash(world, 0);
        world_run(world, 300);
        world_restart(world, 0, false);
        world_run(world, 5000);
    }
    uint64_t boot = world->nodes[0].core->options.boot;
    struct fact_slot fact = {.state = LEASE_LEASED};
    fact.attempt.experiment = make_experiment_id(0);
    fact.attempt.number = 1;
    struct made made;
    make_record(&made, world->nodes[0].person.id, boot - 1, 1000, FACT_SLOT, fact_key_slot(1), &fact);
    world_deliver(world, 1, 0, &made);
    world_run(world, 5000);
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        const struct view_member *member = member_at(world, viewer, 0);
        const struct view_slot *slot = view_member_slot(member, 1);
        assert_true(slot == NULL || slot->state != LEASE_LEASED);
    }
    assert_true(world->nodes[0].core->options.boot == boot);
    world_free(world);
}

/* Who has cancelled is put on a disk from before that, is alone, and pauses: the mesh is told so under a larger boot. (Seed
 * 476938804 of the simulator.) */
static void who_has_forgotten_its_cancel_does_not_take_it_back(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 2, 5);
    experiment_id id = world_experiment(world, coordinator)->id;
    world_request(world, 0, NODE_REQUEST_CANCEL);
    world_run(world, 5000);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_CANCELLED);
    struct fact_control fact = {.lamport = 1, .paused = true};
    struct made made;
    make_record(&made, world->nodes[0].person.id, 9ull << 32, 1, FACT_CONTROL, fact_key_experiment(id), &fact);
    world_deliver(world, 0, 1, &made);
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        assert_int_equal(view_experiment_state(world_experiment(world, viewer)), VIEW_CANCELLED);
        world_run(world, 5000);
    }
    world_free(world);
}

/* A record that is not on the disk has not been written: nobody hears of it, and nothing that relies on it happens. */
static void nothing_relies_on_a_record_that_the_disk_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[0].disk_refuses = true;
    story_submit(world, 0, 1, 5);
    world_run(world, 4000);
    assert_int_equal(world->reply.count, 0);
    assert_null(world_experiment(world, 1));
    world_run(world, 4000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, ERR_NO_SPACE);
    assert_null(world_experiment(world, 1));
    assert_int_equal(world_spawns(world), 0);

    world->nodes[0].disk_refuses = false;
    story_submit(world, 0, 1, 5); /* the client tries again, under the same id */
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_line(world, 20000, "> spawn trial 0 attempt 1");
    world_free(world);
}

static void a_lease_that_the_disk_refused_is_not_confirmed(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 3, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 3;
    config.max_trials = 1;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world->disk_ms = 20;
    world_submit(world, 0, &config);
    assert_true(world_run_until(world, 20000, 0, "> persist attempt"));
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    uint32_t owner = coordinator == 2 ? 1 : 2;
    char answer[64], spawn[64];
    snprintf(answer, sizeof answer, "%s> send confirm_answer", world->nodes[owner].person.name);
    snprintf(spawn, sizeof spawn, "%s> spawn", world->nodes[owner].person.name);
    world->nodes[owner].disk_refuses = true;
    world_run(world, 30000);
    assert_int_equal(world_count(world, answer), 0);
    assert_int_equal(world_count(world, spawn), 0);
    assert_true(world_count(world, "lost, its group did not become complete") >= 1); /* what the others hold is returned */
    world->nodes[owner].disk_refuses = false;
    assert_true(world_run_until(world, 60000, world->log_bytes, spawn));
    world_run(world, 10000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(world->nodes[i].workers[0].runs);
    }
    world_free(world);
}

/* A fence that did not reach the disk is as none: it is written again before anything is granted under it. */
static void nothing_is_granted_under_a_fence_that_the_disk_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[0].disk_refuses = true;
    reserve(world, 0, 1, 5);
    assert_int_equal(world_count(world, "a> send reserve_answer b"), 0);
    world->nodes[0].disk_refuses = false;
    world_run(world, 5000);
    reserve(world, 0, 1, 5); /* the coordinator asks again; the first question is answered late, too */
    assert_int_equal(world_count(world, "a> send reserve_answer b"), 2);
    world_crash(world, 0);
    world_restart(world, 0, false);
    world_run(world, 3000);
    size_t before = world->log_bytes;
    reserve(world, 0, 1, 4);
    assert_true(world_find(world, before, "a> send stale b") != SIZE_MAX);
    assert_true(world_find(world, before, "a> send reserve_answer b") == SIZE_MAX);
    world_free(world);
}

/* The disk refuses the fence and takes what is written after it: an answer that relies on the fence does not slip out
 * with the later record. */
static void a_later_write_does_not_stand_in_for_a_refused_one(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->disk_ms = 300; /* longer than the coordinator waits before it asks again */
    world->nodes[0].disk_refuses_next = 1;
    size_t before = world->log_bytes;
    reserve(world, 0, 1, 5);
    world_submit(world, 0, &config);
    reserve(world, 0, 1, 5);
    world_run(world, 10000);
    size_t refused = world_find(world, before, "a< refused");
    assert_true(refused != SIZE_MAX);
    size_t answered = world_find(world, before, "a> send reserve_answer b");
    assert_true(world_find(world, refused, "a> persist fence 5") < answered || answered == SIZE_MAX);
    world_free(world);
}

/* Hands version `seq` of a record of node b's to node a, who shall say when it has stored it. */
static void push_version(struct world *world, uint64_t seq)
{
    struct fact_control fact = {1, false, false, false};
    struct made made;
    make_record(&made, world->nodes[1].person.id, 99, seq, FACT_CONTROL, fact_key_experiment(make_experiment_id(7)), &fact);
    struct message message = {.kind = MESSAGE_RECORDS, .want_stored = true, .bytes = made.bytes, .byte_count = made.count};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[1].person.id;
    event.u.message.message = &message;
    world_step(world, 0, &event);
}

/* The disk refuses a version, and a newer one comes and is still on its way to the disk when the older would be tried again: until
 * then neither is stored (sim --plan 3 --seed 88684204). */
static void a_refused_version_is_not_stored_before_the_one_that_overtakes_it(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[0].disk_refuses_next = 1;
    size_t before = world->log_bytes;
    push_version(world, 1);
    assert_true(world_run_until(world, 1000, before, "a< refused"));
    world->disk_ms = 5000; /* longer than it waits before it tries again */
    size_t overtaken = world->log_bytes;
    push_version(world, 2);
    assert_true(world_run_until(world, 20000, overtaken, "a> send stored b"));
    assert_true(world_find(world, overtaken, "a< persisted") < world_find(world, overtaken, "a> send stored b"));
    world_run(world, 10000);
    assert_int_equal(world_count(world, "a> send stored b"), 2); /* each that was pushed is answered */
    world_free(world);
}

/* The coordinator is gone; its successor's claim is refused, too, and meanwhile its own claim of an earlier life comes back from
 * somebody who has kept it. */
static void claims_anew_beyond(uint64_t earlier_term)
{
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 2, 5), successor = 1 - coordinator;
    uint64_t term = core_find_coordination(world->nodes[successor].core, make_experiment_id(0))->election.highest.term;
    world_crash(world, coordinator);
    world->nodes[successor].disk_refuses = true;
    world_run(world, 60000);
    assert_true(core_find_coordination(world->nodes[successor].core, make_experiment_id(0))->claiming);
    struct fact_claim fact = {.term = term + earlier_term};
    struct made made;
    make_record(&made, world->nodes[successor].person.id, 9ull << 32, 1, FACT_CLAIM, fact_key_experiment(make_experiment_id(0)),
                &fact);
    world_deliver(world, coordinator, successor, &made);
    world_run(world, 5000);
    world->nodes[successor].disk_refuses = false;
    world_run(world, 20000);
    assert_int_equal(world_coordinator(world), successor);
    world_free(world);
}

static void a_refused_claim_that_an_earlier_one_has_replaced_is_not_waited_for(void **state)
{
    (void)state;
    claims_anew_beyond(1);
    claims_anew_beyond(3);
}

/* All pieces that are free, in a list through the first bytes of them; and there are no others any more. */
static void *take_free_pieces(struct arena *arena)
{
    void *taken = NULL;
    arena->capacity_bytes = arena->fresh_bytes;
    for (uint32_t class = ARENA_CLASSES; class-- > 0;) {
        for (void **piece; (piece = arena_take(arena, (size_t)32 << class)) != NULL; taken = piece) {
            piece[0] = taken;
            piece[1] = (void *)((uintptr_t)32 << class);
        }
    }
    return taken;
}

static void a_claim_for_which_there_was_no_memory_is_made_when_there_is(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 2, 5), successor = 1 - coordinator;
    struct node_core *core = world->nodes[successor].core;
    world_crash(world, coordinator);
    size_t capacity_bytes = core->arena.capacity_bytes;
    void **taken = take_free_pieces(&core->arena);
    uint64_t full = core->counters.full;
    world_run(world, 60000);
    assert_true(core->counters.full > full);
    assert_int_equal(world_coordinator(world), -1);
    core->arena.capacity_bytes = capacity_bytes;
    while (taken != NULL) {
        void **piece = taken;
        taken = piece[0];
        arena_give(&core->arena, piece, (size_t)(uintptr_t)piece[1]);
    }
    world_run(world, 5000);
    assert_int_equal(world_coordinator(world), successor);
    world_free(world);
}

/* Workers say how far they are every two seconds, and an experiment may have hundreds of them. */
static void what_a_worker_elsewhere_says_is_looked_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 2, 5), other = 1 - coordinator;
    const struct core_coordination *row = core_find_coordination(world->nodes[coordinator].core, make_experiment_id(0));
    struct fact_worker fact = {.state = FACT_WORKER_RUNNING, .step = 1000};
    struct made made;
    make_record(&made, world->nodes[other].person.id, world->nodes[other].core->options.boot, 1u << 20, FACT_WORKER,
                fact_key_worker(&world->nodes[other].workers[0].attempt, 0), &fact);
    world->disk_ms = 20;
    uint64_t pass = row->pass;
    world_deliver(world, other, coordinator, &made);
    assert_int_equal(row->pass, pass + 1);
    size_t before = world->log_bytes;
    assert_true(world_run_until(world, 50, before, "< persisted"));
    assert_int_equal(row->pass, pass + 1);
    world_free(world);
}

/* However much waits for a disk that refuses, it is answered in pieces that fit. */
static void much_that_waited_for_the_disk_is_said_in_pieces(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[0].disk_refuses = true;
    reserve(world, 0, 1, 5);
    struct message message = {.kind = MESSAGE_RESERVE, .boot = world->nodes[1].boots};
    message.u.lease.attempt = make_attempt_id(7, 0, 1, 5, world->nodes[1].person.id);
    message.u.lease.claim = (struct election_claim){5, world->nodes[1].person.id};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[1].person.id;
    event.u.message.message = &message;
    for (uint32_t i = 0; i < NODE_EFFECTS_MAX; i++) {
        message.u.lease.slot = i + 1; /* the same once more would be answered once */
        world_step(world, 0, &event);
    }
    assert_int_equal(world_count(world, "a> send reserve_answer b"), 0);
    world->nodes[0].disk_refuses = false;
    world_run(world, 5000);
    assert_int_equal(world_count(world, "a> send reserve_answer b"), NODE_EFFECTS_MAX + 1);
    world_free(world);
}

static uint32_t count_refused(const struct node_core *core)
{
    uint32_t count = 0;
    for (const struct core_pending *pending = core->disk->refused; pending != NULL; pending = pending->next) {
        count++;
    }
    return count;
}

/* Its worker says every two seconds how far it is, and each time the disk refuses that once more. */
static void what_a_disk_refuses_for_long_does_not_pile_up(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    const struct node_core *core = world->nodes[0].core;
    assert_int_equal(running(world, 0), 1);
    world->nodes[0].disk_refuses = true;
    world_run(world, 30000);
    uint32_t refused = count_refused(core);
    assert_true(refused > 0);
    world_run(world, 60000);
    assert_int_equal(running(world, 0), 1);
    assert_int_equal(count_refused(core), refused);
    assert_int_equal(core->disk->refused_count, refused);
    world->nodes[0].disk_refuses = false;
    world_run(world, 5000);
    assert_int_equal(core->disk->refused_count, 0);
    const struct view_attempt *attempt = view_find_attempt(&world->nodes[1].core->view, &core->owner->workers[0].attempt);
    assert_true(attempt->workers->step + 50 > core->owner->workers[0].step); /* the other knows how far it is */
    world_free(world);
}

/* Its slots are asked for again and again, since no answer comes. */
static void answers_of_who_cannot_write_do_not_pile_up(void **state)
{
    (void)state;
    struct world *world = world_new(2, 4);
    world_start_all(world);
    world->nodes[1].disk_refuses = true;
    story_submit(world, 0, 12, 5);
    world_run(world, 60000);
    size_t used = world->nodes[1].core->arena.used_bytes;
    assert_non_null(world->nodes[1].core->disk->pending_first);
    world_run(world, 120000);
    assert_true(world->nodes[1].core->arena.used_bytes <= used);
    assert_int_equal(running(world, 1), 0);
    world->nodes[1].disk_refuses = false;
    world_run(world, 30000);
    assert_int_equal(running(world, 1), 4);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_life_says_of_a_slot_is_put_right),
        cmocka_unit_test(who_has_forgotten_its_cancel_does_not_take_it_back),
        cmocka_unit_test(nothing_relies_on_a_record_that_the_disk_refused),
        cmocka_unit_test(a_lease_that_the_disk_refused_is_not_confirmed),
        cmocka_unit_test(nothing_is_granted_under_a_fence_that_the_disk_refused),
        cmocka_unit_test(a_later_write_does_not_stand_in_for_a_refused_one),
        cmocka_unit_test(a_refused_version_is_not_stored_before_the_one_that_overtakes_it),
        cmocka_unit_test(a_refused_claim_that_an_earlier_one_has_replaced_is_not_waited_for),
        cmocka_unit_test(a_claim_for_which_there_was_no_memory_is_made_when_there_is),
        cmocka_unit_test(what_a_worker_elsewhere_says_is_looked_at_once),
        cmocka_unit_test(much_that_waited_for_the_disk_is_said_in_pieces),
        cmocka_unit_test(what_a_disk_refuses_for_long_does_not_pile_up),
        cmocka_unit_test(answers_of_who_cannot_write_do_not_pile_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

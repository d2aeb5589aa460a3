/* Stories of daemons that die, come back, lose their disk, their network or their authority. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/rendezvous.h"
#include "tests/scenario/core_story.h"

/* `trials` trials of one slot that run for ever, each on a node of its own. Returns the coordinator. */
static uint32_t begin(struct world *world, uint32_t trials, uint32_t max_restarts)
{
    struct config config;
    make_config(&config, trials, max_restarts);
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world_submit(world, 0, &config);
    world_run(world, 10000);
    int coordinator = world_coordinator(world);
    assert_true(coordinator >= 0);
    assert_int_equal(world_spawns(world), trials);
    return (uint32_t)coordinator;
}

static void the_death_of_a_coordinator_starts_nothing_twice(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = begin(world, 3, 5);
    size_t before = world->log_bytes;
    world_crash(world, coordinator);
    assert_true(world_run_until(world, 12000, before, "coordinates exp with term 2"));
    int successor = world_coordinator(world);
    assert_true(successor >= 0 && (uint32_t)successor != coordinator);
    assert_true(world_run_until(world, 20000, before, "lost, a node died"));
    world_run(world, 60000); /* twice the life of a lease: the successor renews what it did not make */
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "the lease of slot"), 0);
    assert_int_equal(world_count(world, "persist verdict"), 1);

    /* The worker under the dead daemon is ended when it comes back: its attempt is over. Its trial then runs again. */
    world_restart(world, coordinator, true);
    assert_true(world_run_until(world, 5000, before, "> kill "));
    world_run(world, 10000);
    assert_int_equal(world_spawns(world), 4);
    assert_int_equal(world_coordinator(world), successor); /* the incumbent stays */
    world_free(world);
}

static void a_restarted_coordinator_goes_on_with_a_new_term(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = begin(world, 3, 5);
    world_crash(world, coordinator);
    world_run(world, 300); /* before anybody suspects it */
    world_restart(world, coordinator, true);
    assert_line(world, 10000, "coordinates exp with term 2");
    assert_int_equal(world_coordinator(world), coordinator);
    world_run(world, 40000);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    assert_int_equal(world_count(world, "> kill "), 0);
    world_free(world);
}

/* A coordinator runs on an old disk, and somebody comes who has kept what it said before under a larger boot. (Seed 19385 of
 * the simulator.) */
static void a_coordinator_whose_claim_is_replaced_by_an_earlier_one_claims_anew(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = begin(world, 3, 5);
    world_crash(world, coordinator);
    world_run(world, 300);
    world_restart(world, coordinator, true);
    assert_line(world, 10000, "coordinates exp with term 2");
    struct fact_claim fact = {.term = 1};
    struct made made;
    make_record(&made, world->nodes[coordinator].person.id, 9ull << 32, 1, FACT_CLAIM,
                fact_key_experiment(world_experiment(world, coordinator)->id), &fact);
    size_t before = world->log_bytes;
    world_deliver(world, (coordinator + 1) % 3, coordinator, &made);
    assert_true(world_run_until(world, 5000, before, "coordinates exp with term 3"));
    assert_true(world_find(world, before, "> persist claim 3") < world_find(world, before, "coordinates exp with term 3"));
    world_run(world, 40000);
    assert_int_equal(world_coordinator(world), coordinator);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t highest = 0;
        for (const struct view_claim *claim = world_experiment(world, i)->claims; claim != NULL; claim = claim->next) {
            highest = claim->fact.term > highest ? claim->fact.term : highest;
        }
        assert_int_equal(highest, 3);
    }
    world_free(world);
}

/* Who has cancelled is put on a disk from before that, is alone, and pauses: the mesh is told so under a larger boot. (Seed
 * 476938804 of the simulator.) */
static void who_has_forgotten_its_cancel_does_not_take_it_back(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = begin(world, 2, 5);
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
        const struct view_member *member = view_find_member(&world->nodes[viewer].core->view, world->nodes[0].person.id);
        const struct view_slot *slot = view_member_slot(member, 1);
        assert_true(slot == NULL || slot->state != LEASE_LEASED);
    }
    assert_true(world->nodes[0].core->options.boot == boot);
    world_free(world);
}

/* Seed 902347 of plan 4: its disk had not taken yet why it asked. */
static void who_was_asked_to_leave_before_a_restart_has_not_completed(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)begin(world, 1, 5);
    uint32_t node = world->nodes[0].workers[0].runs ? 0 : 1;
    world_crash(world, node);
    world_run(world, 300);
    world_restart(world, node, true);
    world_run(world, 1000);
    struct world_worker *worker = &world->nodes[node].workers[0];
    struct node_event event = {.kind = NODE_EVENT_WORKER_EXITED};
    event.u.worker.attempt = worker->attempt;
    event.u.worker.is_stopping = true;
    worker->runs = false;
    world_step(world, node, &event);
    assert_line(world, 20000, "persist verdict stopped");
    assert_line(world, 20000, "> spawn trial 0 attempt 2");
    assert_int_equal(world_count(world, "persist verdict"), 1);
    world_free(world);
}

static void adopted_workers_keep_their_lease_and_token(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)begin(world, 2, 5);
    for (uint32_t i = 0; i < 2; i++) {
        lease_token token = world->nodes[i].workers[0].token;
        uint64_t step = world->nodes[i].workers[0].step;
        world_crash(world, i);
        world_run(world, 1000);
        world_restart(world, i, true);
        const struct node_core *core = world->nodes[i].core;
        assert_int_equal(node_core_find_token(core, token), 0);
        assert_int_equal(core->lease.slots[0].state, LEASE_LEASED);
        assert_int_equal(core->workers[0].phase, CORE_WORKER_RUNNING);
        assert_true(core->workers[0].step + 2 * 10 >= step); /* progress is told every 2 s */
        world_run(world, 40000);
        assert_int_equal(node_core_find_token(core, token), 0);
        assert_true(world->nodes[i].workers[0].runs);
    }
    assert_int_equal(world_spawns(world), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

static void workers_that_did_not_survive_are_reported_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)begin(world, 2, 0); /* no restarts allowed: a lost node is not the program's failure */
    lease_token token = world->nodes[1].workers[0].token;
    world_crash(world, 1);
    world_run(world, 500);
    size_t before = world->log_bytes;
    world_restart(world, 1, false);
    assert_true(world_find(world, before, "b> persist worker ended lost") != SIZE_MAX);
    assert_true(world_find(world, before, "b> persist slot 0 free") > world_find(world, before, "b> persist worker ended lost"));
    assert_int_equal(node_core_find_token(world->nodes[1].core, token), -1);
    assert_true(world_run_until(world, 3000, before, "lost, a worker was lost"));
    assert_true(world_run_until(world, 12000, before, "> spawn trial "));
    assert_int_equal(node_core_find_token(world->nodes[1].core, token), -1);
    world_run(world, 20000);
    assert_int_equal(world_spawns(world), 3);
    world_free(world);
}

/* A record that is not on the disk has not been written: nobody hears of it, and nothing that relies on it happens. */
static void nothing_relies_on_a_record_that_the_disk_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    world->nodes[0].disk_refuses = true;
    world_submit(world, 0, &config);
    world_run(world, 4000);
    assert_int_equal(world->reply.count, 0);
    assert_null(world_experiment(world, 1));
    world_run(world, 4000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, ERR_NO_SPACE);
    assert_null(world_experiment(world, 1));
    assert_int_equal(world_spawns(world), 0);

    world->nodes[0].disk_refuses = false;
    world_submit(world, 0, &config); /* the client tries again, under the same id */
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

/* ---- authority ---- */

static void reserve_slot(struct world *world, uint32_t owner, uint32_t from, uint64_t term, uint8_t experiment, uint32_t slot)
{
    struct message message = {.kind = MESSAGE_RESERVE, .boot = world->nodes[from].boots};
    message.u.lease.attempt = make_attempt_id(experiment, 0, 1, term, world->nodes[from].person.id);
    message.u.lease.slot = slot;
    message.u.lease.claim = (struct election_claim){term, world->nodes[from].person.id};
    message.u.lease.priority = 42;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[from].person.id;
    event.u.message.message = &message;
    world_step(world, owner, &event);
    world_run(world, 100);
}

static void reserve(struct world *world, uint32_t owner, uint32_t from, uint64_t term)
{
    reserve_slot(world, owner, from, term, 7, 0);
}

static void owners_refuse_lower_claims_and_remember_the_highest(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world->disk_ms = 50;
    bool b_is_higher = node_id_compare(world->nodes[1].person.id, world->nodes[2].person.id) > 0;
    uint32_t higher = b_is_higher ? 1 : 2, lower = b_is_higher ? 2 : 1;
    char high_answer[64], low_answer[64], low_stale[64], high_stale[64];
    snprintf(high_answer, sizeof high_answer, "a> send reserve_answer %s", world->nodes[higher].person.name);
    snprintf(low_answer, sizeof low_answer, "a> send reserve_answer %s", world->nodes[lower].person.name);
    snprintf(low_stale, sizeof low_stale, "a> send stale %s", world->nodes[lower].person.name);
    snprintf(high_stale, sizeof high_stale, "a> send stale %s", world->nodes[higher].person.name);

    reserve(world, 0, lower, 2);
    const char *obeyed[] = {"a> persist fence 2 #", "a< persisted", low_answer};
    assert_order(world, obeyed, 3);
    reserve(world, 0, higher, 1); /* a lower term, whoever says it */
    assert_int_equal(world_count(world, high_stale), 1);
    assert_int_equal(world_count(world, high_answer), 0);
    reserve(world, 0, higher, 2); /* an equal term of the higher id is higher */
    assert_int_equal(world_count(world, high_answer), 1);
    assert_int_equal(world_count(world, "a> persist fence 2 #"), 2);
    reserve(world, 0, lower, 2); /* ... and of the lower one it is lower now */
    assert_int_equal(world_count(world, low_stale), 1);
    assert_int_equal(world_count(world, low_answer), 1);
    reserve(world, 0, lower, 3 + LAMPORT_JUMP_MAX); /* absurd */
    assert_int_equal(world_count(world, low_answer), 1);
    assert_int_equal(world_count(world, low_stale), 1);
    assert_int_equal(world->nodes[0].core->counters.malformed, 1);

    world_crash(world, 0);
    world_restart(world, 0, false);
    world_run(world, 3000);
    reserve(world, 0, lower, 2);
    assert_int_equal(world_count(world, low_stale), 2);
    reserve(world, 0, lower, 3);
    assert_int_equal(world_count(world, low_answer), 2);
    world_free(world);
}

/* The coordinator that gives way sends its release under a claim that the owner refuses by then: it would stay reserved,
 * for nobody, until its time is over (sim --seed 6876, 8427). */
static void a_higher_claim_returns_what_a_lower_one_has_reserved(void **state)
{
    (void)state;
    struct world *world = world_new(3, 3);
    world_start_all(world);
    const struct lease_slot *slots = world->nodes[0].core->lease.slots;
    reserve_slot(world, 0, 1, 1, 7, 0);
    reserve_slot(world, 0, 1, 1, 8, 1);
    assert_int_equal(slots[0].state, LEASE_RESERVED);
    reserve_slot(world, 0, 2, 2, 7, 2);
    assert_int_equal(slots[0].state, LEASE_FREE);
    assert_int_equal(slots[1].state, LEASE_RESERVED); /* of another experiment */
    assert_int_equal(slots[2].state, LEASE_RESERVED);
    reserve_slot(world, 0, 2, 2, 7, 0); /* more of the same claim returns nothing */
    assert_int_equal(slots[2].state, LEASE_RESERVED);
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

/* A busy machine answers a probe late: it is asked, once it is known to live, and the client is not told of one disk meanwhile. */
static void a_request_waits_for_a_second_node_that_is_suspect(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->nodes[1].is_cut = true;
    assert_true(world_run_until(world, 10000, world->log_bytes, "b is suspect"));
    world_submit(world, 0, &config);
    world_run(world, 500);
    assert_int_equal(world->reply.count, 0);
    world->nodes[1].is_cut = false;
    world_run(world, 4000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    world_free(world);
}

static void a_request_does_not_wait_for_a_second_node_that_dies(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->nodes[1].is_cut = true;
    assert_true(world_run_until(world, 10000, world->log_bytes, "b is suspect"));
    world_submit(world, 0, &config);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    world_free(world);
}

/* Hands version `seq` of a record of node b's to node a, who shall say when it has stored it. */
static void push_version(struct world *world, uint64_t seq)
{
    struct fact_control fact = {1, false, false};
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

static void who_leaves_hands_everything_over_first(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = begin(world, 1, 0);
    uint32_t owner = world->nodes[0].workers[0].runs ? 0 : 1;
    assert_true(world->nodes[owner].workers[0].runs);
    world->reply.count = 0;
    size_t before = world->log_bytes;
    world_request(world, owner, NODE_REQUEST_LEAVE);
    assert_true(world_run_until(world, 10000, before, "> reply"));
    char stop[32], reply[32];
    snprintf(stop, sizeof stop, "%s> stop ", world->nodes[owner].person.name);
    snprintf(reply, sizeof reply, "%s> reply", world->nodes[owner].person.name);
    const char *story[] = {stop, "persist manifest", "persist node", reply};
    size_t stopped = world_find(world, before, stop);
    assert_true(stopped != SIZE_MAX);
    assert_true(world_find(world, before, reply) > world_find(world, before, story[1]));
    assert_true(world_find(world, before, reply) > world_find(world, before, story[2]));
    assert_int_equal(world->reply.code, 0);
    world_crash(world, owner); /* the daemon ends */
    assert_true(world_run_until(world, 15000, before, "> spawn trial 0 attempt 2"));
    assert_true(world_find(world, before, "trial 0 attempt 2 from step ") != SIZE_MAX);
    assert_true(world_find(world, before, "trial 0 attempt 2 from step 0 ") == SIZE_MAX);
    assert_int_equal(world_coordinator(world), 1 - (int)owner);
    assert_true(coordinator < 2);
    world_free(world);
}

/* Who leaves before it knows that anybody lives waits until somebody has its word: the daemon ends with the answer. */
static void who_leaves_right_after_its_start_is_known_to_have_left(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world_crash(world, 2);
    world_run(world, 10000);
    world->reply.count = 0;
    world->nodes[2].is_cut = true; /* its connections are not open yet */
    world_restart(world, 2, false);
    size_t before = world->log_bytes;
    world_request(world, 2, NODE_REQUEST_LEAVE);
    assert_false(world_run_until(world, 1000, before, "c> reply"));
    world->nodes[2].is_cut = false;
    assert_true(world_run_until(world, 20000, before, "c> reply"));
    assert_int_equal(world->reply.code, 0);
    world_crash(world, 2); /* the daemon ends */
    world_run(world, 5000);
    for (uint32_t node = 0; node < 2; node++) {
        const struct node_core *core = world->nodes[node].core;
        assert_true(view_find_member(&core->view, world->nodes[2].person.id)->left);
    }
    world_free(world);
}

/* It waits for nobody who is not there. */
static void who_leaves_alone_is_answered_all_the_same(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[1].is_cut = true;
    world->reply.count = 0;
    world_request(world, 0, NODE_REQUEST_LEAVE);
    world_run(world, CORE_ACK_MS + 2000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

/* A silent partition: one of three is cut off, its trial runs again elsewhere, and when it heals one worker is left. */
static void a_silent_node_is_replaced_and_comes_back(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    (void)begin(world, 1, 5);
    uint32_t owner = 0;
    while (!world->nodes[owner].workers[0].runs && !world->nodes[owner].workers[1].runs) {
        owner++;
    }
    size_t before = world->log_bytes;
    world->nodes[owner].is_cut = true;
    assert_true(world_run_until(world, 20000, before, "> spawn trial 0 attempt 2"));
    assert_int_equal(world_count(world, "> spawn trial 0"), 2);
    world_run(world, 20000);
    assert_int_equal(world_count(world, "> spawn trial 0"), 2); /* the lone side does not start what may run */
    world->nodes[owner].is_cut = false;
    world_run(world, 30000);
    uint32_t running = 0;
    for (uint32_t i = 0; i < 3; i++) {
        running += world->nodes[i].workers[0].runs;
        running += world->nodes[i].workers[1].runs;
        assert_true(records_hash_equal(world->nodes[i].core->records.hash, world->nodes[0].core->records.hash));
    }
    assert_int_equal(running, 1);
    assert_true(world_coordinator(world) >= 0);
    world_free(world);
}

/* The daemon of one dies, then the coordinator falls silent, then the first, back meanwhile, falls silent as well: the third
 * may be cut off by now, and waits. (Seed 5886 of the simulator.) */
static void who_is_suspect_once_more_has_fallen_silent_too(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    uint32_t coordinator = begin(world, 3, 5);
    uint32_t left = coordinator == 0 ? 1 : 0, other = 3 - coordinator - left;
    const char *names[] = {world->nodes[0].person.name, world->nodes[1].person.name, world->nodes[2].person.name};
    char line[64];
    world->nodes[left].disk_refuses = true; /* so that it claims when all this has happened */
    size_t before = world->log_bytes;
    world_crash(world, other);
    snprintf(line, sizeof line, "%s: %s is dead", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));
    world->nodes[coordinator].is_cut = true;
    snprintf(line, sizeof line, "%s: %s is dead", names[left], names[coordinator]);
    assert_true(world_run_until(world, 20000, before, line));
    world_run(world, CORE_REFUTE_MS);
    before = world->log_bytes;
    world_restart(world, other, true);
    snprintf(line, sizeof line, "%s: %s is alive", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));
    world->nodes[other].is_cut = true;
    snprintf(line, sizeof line, "%s: %s is suspect", names[left], names[other]);
    assert_true(world_run_until(world, 20000, before, line));

    world->nodes[left].disk_refuses = false;
    before = world->log_bytes;
    snprintf(line, sizeof line, "%s: coordinates exp", names[left]);
    assert_true(world_run_until(world, 2000, before, line));
    assert_int_equal(swim_state_of(&world->nodes[left].core->swim, world->nodes[other].person.id), SWIM_SUSPECT);
    world_run(world, 60000);
    snprintf(line, sizeof line, "%s> persist verdict", names[left]);
    assert_int_equal(world_count(world, line), 0);
    world_free(world);
}

/* A node comes back with fewer slots than it had: what ran in the others is over, and its trial goes on elsewhere. */
static void a_slot_that_is_gone_ends_its_attempt(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    (void)begin(world, 4, 5);
    world_crash(world, 1);
    world_run(world, 300);
    size_t before = world->log_bytes;
    world->nodes[1].slot_count = 1;
    world_restart(world, 1, true);
    assert_true(world_run_until(world, 30000, before, " attempt 1: lost"));
    world_run(world, 40000);
    assert_int_equal(world_count(world, "persist verdict"), 1); /* the other three are not disturbed */
    world_free(world);
}

/* The daemon dies between the end of a worker and the removal of its directory, so the next one finds it once more. */
static void an_end_is_said_once(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_line(world, 20000, "> spawn trial 0 attempt 1");
    uint32_t owner = world->nodes[0].workers[0].runs ? 0 : 1;
    struct world_worker found = world->nodes[owner].workers[0];
    assert_line(world, 20000, "completed, every rank is done");
    world_run(world, 2000);
    world_crash(world, owner);
    world->nodes[owner].workers[0] = found;
    world_restart(world, owner, true);
    world_run(world, 10000);
    const struct view_attempt *attempt = view_find_attempt(&world->nodes[1 - owner].core->view, &found.attempt);
    assert_non_null(attempt);
    assert_int_equal(view_attempt_worker(attempt, 0)->state, FACT_WORKER_ENDED);
    assert_int_equal(view_attempt_worker(attempt, 0)->reason, FACT_COMPLETED);
    assert_int_equal(world->nodes[owner].core->lease.slots[0].state, LEASE_FREE);
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
        world_step(world, 0, &event);
    }
    assert_int_equal(world_count(world, "a> send reserve_answer b"), 0);
    world->nodes[0].disk_refuses = false;
    world_run(world, 5000);
    assert_int_equal(world_count(world, "a> send reserve_answer b"), NODE_EFFECTS_MAX + 1);
    world_free(world);
}

/* A request whose record is overtaken on its way to the disk is answered for by the newer version, on two nodes too. */
static void an_overtaken_request_waits_for_its_second_node(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)begin(world, 1, 5);
    world->disk_ms = 50;
    world->reply.count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = i == 0 ? NODE_REQUEST_PAUSE : NODE_REQUEST_RESUME;
        event.u.request.client = 100 + i;
        event.u.request.experiment = make_experiment_id(0);
        world_step(world, 0, &event);
        world_run(world, 10);
    }
    for (uint32_t i = 0; i < 1000 && world->reply.count == 0; i++) {
        world_run(world, 10);
    }
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    world_free(world);
}

/* More requests at a time than a daemon answers for: those above are refused, and no answer is lost. */
static void too_many_requests_at_a_time_are_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)begin(world, 1, 5);
    world->reply.count = 0;
    world->nodes[1].is_cut = true; /* so that they all wait for it, and for the same moment */
    for (uint32_t i = 0; i < NODE_EFFECTS_MAX + 10; i++) {
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = i % 2 == 0 ? NODE_REQUEST_PAUSE : NODE_REQUEST_RESUME;
        event.u.request.client = 100 + i;
        event.u.request.experiment = make_experiment_id(0);
        world_step(world, 0, &event);
    }
    world_run(world, 10000);
    assert_int_equal(world->reply.count, NODE_EFFECTS_MAX + 10);
    world->nodes[1].is_cut = false;
    world_request(world, 0, NODE_REQUEST_CANCEL); /* and it goes on */
    world_run(world, 6000);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

/* The code of an experiment that is not over is on two living nodes, whoever dies: else nobody could go on with it. */
static void code_is_copied_again_when_its_holder_dies(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    (void)begin(world, 1, 5);
    node_id order[4];
    for (uint32_t i = 0; i < 4; i++) {
        order[i] = world->nodes[i].person.id;
    }
    experiment_id id = world_experiment(world, 0)->id;
    rendezvous_sort(order, 4, id.bytes, sizeof id.bytes);
    uint32_t first[4] = {0};
    char lines[4][32];
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t n = 0; n < 4; n++) {
            first[i] = node_id_equal(order[i], world->nodes[n].person.id) ? n : first[i];
        }
        snprintf(lines[i], sizeof lines[i], "> push code %s", world->nodes[first[i]].person.name);
    }
    world_run(world, 5000);
    assert_int_not_equal(world_count(world, lines[0]), 0);
    assert_int_not_equal(world_count(world, lines[1]), 0);
    assert_int_equal(world_count(world, lines[2]), 0);
    assert_int_equal(world_count(world, lines[3]), 0);

    size_t before = world->log_bytes;
    world_run(world, 60000); /* nothing is asked twice while nothing changes */
    assert_true(world_find(world, before, "> push code") == SIZE_MAX);

    world_crash(world, first[0]);
    assert_true(world_run_until(world, 15000, before, lines[2]));
    assert_int_equal(world_count(world, lines[3]), 0);

    before = world->log_bytes;
    world_restart(world, first[0], true); /* perhaps with an empty disk */
    assert_true(world_run_until(world, 15000, before, lines[0]));

    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 10000);
    before = world->log_bytes;
    world_crash(world, first[1]);
    world_run(world, 30000);
    assert_true(world_find(world, before, "> push code") == SIZE_MAX); /* it is over */
    world_free(world);
}

/* A node that begins anew may have an old disk: whoever else holds a checkpoint sends it once more, and no more often. */
static void a_holder_that_begins_anew_is_sent_its_checkpoints_again(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)begin(world, 1, 5);
    world_request(world, 0, NODE_REQUEST_PAUSE); /* its worker saves and leaves */
    world_run(world, 10000);
    const struct view_trial *trial = world_experiment(world, 0)->trials[0];
    assert_non_null(trial->manifests);
    struct view_manifest united;
    (void)view_manifest_unite(trial->manifests, &united);
    assert_int_equal(united.holder_count, 2);
    uint32_t holder[2] = {3, 3};
    for (uint32_t n = 0; n < 3; n++) {
        for (uint32_t h = 0; h < 2; h++) {
            holder[h] = node_id_equal(united.holders[h], world->nodes[n].person.id) ? n : holder[h];
        }
    }
    uint32_t gone = holder[0], other = holder[1];
    char line[64];
    snprintf(line, sizeof line, "%s> push checkpoint %s", world->nodes[other].person.name, world->nodes[gone].person.name);
    size_t before = world->log_bytes;
    world_run(world, 30000); /* nothing is sent twice while nothing changes */
    assert_true(world_find(world, before, "> push checkpoint") == SIZE_MAX);

    world_crash(world, gone);
    world_run(world, 1000); /* so short that nobody makes another copy */
    world_restart(world, gone, true);
    assert_true(world_run_until(world, 20000, before, line));
    before = world->log_bytes;
    world_run(world, 30000);
    assert_true(world_find(world, before, line) == SIZE_MAX);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_death_of_a_coordinator_starts_nothing_twice),
        cmocka_unit_test(a_restarted_coordinator_goes_on_with_a_new_term),
        cmocka_unit_test(what_another_life_says_of_a_slot_is_put_right),
        cmocka_unit_test(a_coordinator_whose_claim_is_replaced_by_an_earlier_one_claims_anew),
        cmocka_unit_test(who_has_forgotten_its_cancel_does_not_take_it_back),
        cmocka_unit_test(who_was_asked_to_leave_before_a_restart_has_not_completed),
        cmocka_unit_test(adopted_workers_keep_their_lease_and_token),
        cmocka_unit_test(workers_that_did_not_survive_are_reported_at_once),
        cmocka_unit_test(nothing_relies_on_a_record_that_the_disk_refused),
        cmocka_unit_test(a_lease_that_the_disk_refused_is_not_confirmed),
        cmocka_unit_test(owners_refuse_lower_claims_and_remember_the_highest),
        cmocka_unit_test(a_higher_claim_returns_what_a_lower_one_has_reserved),
        cmocka_unit_test(nothing_is_granted_under_a_fence_that_the_disk_refused),
        cmocka_unit_test(a_later_write_does_not_stand_in_for_a_refused_one),
        cmocka_unit_test(a_refused_version_is_not_stored_before_the_one_that_overtakes_it),
        cmocka_unit_test(a_request_waits_for_a_second_node_that_is_suspect),
        cmocka_unit_test(a_request_does_not_wait_for_a_second_node_that_dies),
        cmocka_unit_test(who_leaves_hands_everything_over_first),
        cmocka_unit_test(who_leaves_right_after_its_start_is_known_to_have_left),
        cmocka_unit_test(who_leaves_alone_is_answered_all_the_same),
        cmocka_unit_test(a_silent_node_is_replaced_and_comes_back),
        cmocka_unit_test(who_is_suspect_once_more_has_fallen_silent_too),
        cmocka_unit_test(a_slot_that_is_gone_ends_its_attempt),
        cmocka_unit_test(an_end_is_said_once),
        cmocka_unit_test(much_that_waited_for_the_disk_is_said_in_pieces),
        cmocka_unit_test(an_overtaken_request_waits_for_its_second_node),
        cmocka_unit_test(too_many_requests_at_a_time_are_refused),
        cmocka_unit_test(code_is_copied_again_when_its_holder_dies),
        cmocka_unit_test(a_holder_that_begins_anew_is_sent_its_checkpoints_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

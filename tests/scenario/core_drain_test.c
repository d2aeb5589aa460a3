/* Stories of owners who take slots back, and of nodes that shall get no new work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/owner/owner.h"
#include "node/daemon/render/render.h"
#include "tests/scenario/core_story.h"

/* Trials that run for ever on this many slots each, on a mesh that has been up for a while. */
static void begin(struct world *world, uint32_t trials, uint32_t slots)
{
    struct config config;
    make_config(&config, trials, 0); /* no restarts allowed: nothing here is the program's failure */
    config.slots_per_trial = config.min_slots = config.max_slots = slots;
    (void)story_begin_with(world, &config, 10000);
    world->reply.count = 0;
}

static void ask(struct world *world, uint32_t node, enum node_request_kind kind, struct node_event event)
{
    event.kind = NODE_EVENT_REQUEST;
    event.u.request.kind = kind;
    event.u.request.client = 3;
    world_step(world, node, &event);
}

static void withhold(struct world *world, uint32_t node, uint64_t slots, uint64_t for_s)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.slots = slots;
    event.u.request.for_s = for_s;
    ask(world, node, NODE_REQUEST_WITHHOLD, event);
}

static void give_back(struct world *world, uint32_t node, uint64_t slots)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.slots = slots;
    ask(world, node, NODE_REQUEST_RETURN, event);
}

static void drain(struct world *world, uint32_t node, uint32_t whom, bool at_once)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.node = world->nodes[whom].person.id;
    event.u.request.at_once = at_once;
    ask(world, node, NODE_REQUEST_DRAIN, event);
}

static void undrain(struct world *world, uint32_t node, uint32_t whom)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.node = world->nodes[whom].person.id;
    ask(world, node, NODE_REQUEST_UNDRAIN, event);
}

static enum lease_state slot_state(const struct world *world, uint32_t node, uint32_t slot)
{
    return world->nodes[node].core->owner->lease.slots[slot].state;
}

static struct fact_drain drain_of(const struct world *world, uint32_t viewer, uint32_t node)
{
    return view_member_drain(member_at(world, viewer, node));
}

static void assert_reply(const struct world *world, int code, uint32_t stored_on)
{
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, code);
    assert_int_equal(world->reply.stored_on, stored_on);
}

/* ---- owners ---- */

static void a_free_slot_is_withheld_at_once_and_returned(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world_start_all(world);
    withhold(world, 0, 1u << 1, 0);
    assert_int_equal(slot_state(world, 0, 1), LEASE_WITHHELD);
    assert_int_equal(slot_state(world, 0, 0), LEASE_FREE);
    world_run(world, 1000);
    assert_reply(world, 0, 2);
    story_submit(world, 1, 4, 0);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 3); /* one trial waits */
    assert_int_equal(running(world, 0), 1);

    world->reply.count = 0;
    give_back(world, 0, 1u << 1);
    world_run(world, 10000);
    assert_reply(world, 0, 2);
    assert_int_equal(world_spawns(world), 4);
    world_free(world);
}

static void all_slots_are_answered_for_together(void **state)
{
    (void)state;
    struct world *world = world_new(2, 4);
    world_start_all(world);
    world->disk_ms = 50;
    withhold(world, 1, 0, 0);
    assert_int_equal(world->reply.count, 0); /* not before the last of them is on two disks */
    assert_line(world, 3000, "b> reply");
    assert_reply(world, 0, 2);
    for (uint32_t slot = 0; slot < 4; slot++) {
        assert_int_equal(slot_state(world, 1, slot), LEASE_WITHHELD);
    }
    world_run(world, 5000);
    assert_int_equal(world->reply.count, 1);
    world->reply.count = 0;
    withhold(world, 1, 1u << 4, 0);
    assert_reply(world, ERR_NOT_FOUND, 0);
    world->reply.count = 0;
    withhold(world, 1, 0, FACT_WITHHELD_S_MAX + 1);
    assert_reply(world, ERR_USAGE, 0);
    world_free(world);
}

static void a_request_of_several_records_waits_for_each_of_them(void **state)
{
    (void)state;
    struct world *world = world_new(2, 3);
    world_start_all(world);
    world->disk_ms = 10;
    world->nodes[0].disk_refuses_next = 1;
    withhold(world, 0, 0, 0);
    world_run(world, 500);
    assert_int_equal(world->reply.count, 0); /* it is tried again */
    world_run(world, 6000);
    assert_reply(world, 0, 2);
    world->reply.count = 0;
    world->nodes[0].disk_refuses = true;
    give_back(world, 0, 0);
    world_run(world, 8000);
    assert_reply(world, ERR_NO_SPACE, 0);
    world_free(world);
}

/* The worker saves and leaves, the trial goes on elsewhere from what it saved, and no failure is counted. */
static void a_slot_is_withheld_under_its_worker(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    begin(world, 1, 1);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    lease_token token = world->nodes[owner].workers[0].token;
    world->disk_ms = 50; /* so that there is a while between the request and the end */
    size_t before = world->log_bytes;
    withhold(world, owner, 1, 0);
    assert_int_equal(node_core_find_token(world->nodes[owner].core, token), 0); /* it may save */
    assert_true(world_run_until(world, 5000, before, "> spawn trial 0 attempt 2"));
    assert_int_equal(slot_state(world, owner, 0), LEASE_WITHHELD);
    assert_int_equal(running(world, 1 - owner), 1);
    assert_true(world_find(world, before, "> stop trial 0 attempt 1") != SIZE_MAX);
    assert_true(world_find(world, before, "> persist worker ended stopped") != SIZE_MAX);
    assert_true(world_find(world, before, "trial 0 attempt 1: stopped, asked to stop") != SIZE_MAX);
    assert_true(world_find(world, before, "trial 0 attempt 2 from step 0 ") == SIZE_MAX);
    assert_int_equal(world_count(world, "> kill "), 0);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 2);
    assert_int_equal(view_trial_failures(world_experiment(world, 0)->trials[0]), 0);
    world_free(world);
}

/* Copies take their time, the next attempt does not: it begins with what is on the old owner's disk. */
static void nothing_is_run_again_while_the_last_checkpoint_is_copied(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world, 1, 1);
    uint32_t owner = 0;
    while (running(world, owner) == 0) {
        owner++;
    }
    world->push_ms = 20000;
    uint64_t step = world->nodes[owner].workers[0].step;
    size_t before = world->log_bytes;
    withhold(world, owner, 1, 0);
    char begins[64];
    snprintf(begins, sizeof begins, "exp trial 0 attempt 2 from step %llu ", (unsigned long long)step);
    assert_true(step > 0);
    assert_true(world_run_until(world, 5000, before, begins));
    const struct view_manifest *row = world_experiment(world, owner)->trials[0]->manifests;
    assert_true(row->step == step && !row->durable); /* it is not called what it is not yet */
    world_run(world, 25000);
    row = world_experiment(world, owner)->trials[0]->manifests;
    while (row != NULL && row->step != step) {
        row = row->next;
    }
    assert_true(row != NULL && row->durable && row->holder_count == 2);
    world_free(world);
}

/* A program that does not leave keeps the slot for as long as the experiment's preemption_timeout, and it says so. */
static void a_slot_is_releasing_until_its_worker_is_gone(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    begin(world, 1, 1);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    struct world_worker *worker = &world->nodes[owner].workers[0];
    worker->runs = false; /* it does not hear */
    withhold(world, owner, 1, 0);
    world_run(world, 40000); /* longer than a lease lives without being renewed */
    assert_int_equal(slot_state(world, owner, 0), LEASE_LEASED);
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        static uint8_t bytes[RENDER_BYTES_MIN];
        struct pack_writer writer;
        struct pack_reader list, row, value;
        uint32_t from = 0;
        size_t length;
        pack_writer_init(&writer, bytes, sizeof bytes);
        pack_map(&writer, RENDER_SLOTS_PAIRS);
        assert_false(render_slots(world->nodes[viewer].core, &from, &writer));
        pack_reader_init(&row, bytes, writer.used_bytes);
        list = pack_find(&row, "slots");
        uint32_t count = pack_read_array(&list), releasing = 0;
        for (uint32_t i = 0; i < count; i++) {
            const uint8_t *map = pack_read_any(&list, &length);
            pack_reader_init(&row, map, length);
            value = pack_find(&row, "state");
            const char *text = pack_read_text(&value, &length);
            releasing += pack_text_is(text, length, "releasing");
        }
        assert_int_equal(releasing, 1);
    }
    struct node_event gone = {.kind = NODE_EVENT_WORKER_EXITED};
    gone.u.worker.attempt = worker->attempt;
    gone.u.worker.code = -9;
    gone.u.worker.killed = true;
    world_step(world, owner, &gone);
    assert_int_equal(slot_state(world, owner, 0), LEASE_WITHHELD);
    assert_line(world, 5000, "trial 0 attempt 1: stopped, asked to stop");
    world_free(world);
}

static void a_group_stops_as_a_whole_when_one_of_its_slots_is_withheld(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    begin(world, 1, 2);
    uint32_t rank_one = 0;
    while (!world->nodes[rank_one].workers[0].runs || world->nodes[rank_one].workers[0].rank != 1) {
        rank_one++;
    }
    size_t before = world->log_bytes;
    withhold(world, rank_one, 1, 0);
    assert_true(world_run_until(world, 5000, before, "trial 0 attempt 1: stopped, asked to stop"));
    assert_true(world_find(world, before, "> stop trial 0 attempt 1 rank 0") != SIZE_MAX);
    assert_true(world_find(world, before, "> stop trial 0 attempt 1 rank 1") != SIZE_MAX);
    assert_true(world_run_until(world, 5000, before, "> spawn trial 0 attempt 2 rank 1"));
    assert_true(world_find(world, before, "trial 0 attempt 2 from step 0 ") == SIZE_MAX); /* rank 0 had time to save */
    assert_int_equal(world_count(world, "> kill "), 0);
    assert_int_equal(running(world, rank_one), 0);
    world_run(world, 30000);
    assert_int_equal(world_spawns(world), 4);
    world_free(world);
}

/* The first rank to leave does not cut the others' time short: they have the experiment's preemption_timeout, too. */
static void a_rank_that_takes_its_time_to_save_is_waited_for(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    begin(world, 1, 2);
    uint32_t rank_zero = 0, rank_one = 0;
    while (!world->nodes[rank_zero].workers[0].runs || world->nodes[rank_zero].workers[0].rank != 0) {
        rank_zero++;
    }
    while (!world->nodes[rank_one].workers[0].runs || world->nodes[rank_one].workers[0].rank != 1) {
        rank_one++;
    }
    struct world_worker *slow = &world->nodes[rank_zero].workers[0];
    slow->runs = false;
    size_t before = world->log_bytes;
    withhold(world, rank_one, 1, 0);
    world_run(world, 50000); /* of 60 s */
    assert_true(world_find(world, before, "> stop trial 0 attempt 1 rank 0") != SIZE_MAX);
    assert_true(world_find(world, before, "> persist verdict") == SIZE_MAX);
    assert_int_equal(node_core_find_token(world->nodes[rank_zero].core, slow->token), 0);
    world_run(world, 40000); /* whoever does not leave at all is not waited for */
    assert_true(world_find(world, before, "trial 0 attempt 1: stopped, a worker was asked to stop") != SIZE_MAX);
    world_free(world);
}

static void what_is_withheld_stays_so_across_a_restart(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world_start_all(world);
    withhold(world, 0, 1, 0);
    withhold(world, 0, 2, 100);
    world_run(world, 60000);
    world_crash(world, 0);
    world_restart(world, 0, false);
    assert_int_equal(slot_state(world, 0, 0), LEASE_WITHHELD);
    assert_int_equal(slot_state(world, 0, 1), LEASE_WITHHELD);
    world_run(world, 99000); /* the time begins anew */
    assert_int_equal(slot_state(world, 0, 1), LEASE_WITHHELD);
    world_run(world, 2000);
    assert_int_equal(slot_state(world, 0, 1), LEASE_FREE);
    assert_int_equal(slot_state(world, 0, 0), LEASE_WITHHELD);
    world_crash(world, 0);
    world_restart(world, 0, false);
    assert_int_equal(slot_state(world, 0, 1), LEASE_FREE); /* what was over stays over */
    assert_int_equal(slot_state(world, 0, 0), LEASE_WITHHELD);
    world_free(world);
}

/* The daemon dies between the owner's word and the worker's end: the worker that it adopts is asked again. */
static void an_adopted_worker_in_a_withheld_slot_is_asked_to_leave(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    begin(world, 1, 1);
    uint32_t owner = running(world, 0) == 1 ? 0 : 1;
    struct world_worker *worker = &world->nodes[owner].workers[0];
    worker->runs = false;
    withhold(world, owner, 1, 0);
    world_run(world, 300);
    worker->runs = true;
    world_crash(world, owner);
    size_t before = world->log_bytes;
    world_restart(world, owner, true);
    assert_true(world_run_until(world, 12000, before, "> spawn trial 0 attempt 2"));
    assert_true(world_find(world, before, "> stop trial 0 attempt 1") != SIZE_MAX);
    assert_int_equal(slot_state(world, owner, 0), LEASE_WITHHELD);
    assert_int_equal(running(world, 1 - owner), 1);
    world_free(world);
}

static void a_device_that_others_use_does_not_count_as_free(void **state)
{
    (void)state;
    struct world *world = world_new(1, 2);
    world_start_all(world);
    struct node_event busy = {.kind = NODE_EVENT_SLOT_BUSY};
    busy.u.busy.slot = 0;
    busy.u.busy.is_busy = true;
    world_step(world, 0, &busy);
    story_submit(world, 0, 2, 0);
    world_run(world, 30000);
    assert_int_equal(world_spawns(world), 1);
    assert_false(world->nodes[0].workers[0].runs);
    busy.u.busy.slot = 1; /* its own worker uses it: nobody else's matter */
    world_step(world, 0, &busy);
    assert_int_equal(slot_state(world, 0, 1), LEASE_LEASED);
    busy.u.busy.slot = 0;
    busy.u.busy.is_busy = false;
    world_step(world, 0, &busy);
    world_run(world, 10000);
    assert_int_equal(world_spawns(world), 2);
    world_free(world);
}

/* ---- drains ---- */

static void a_drained_node_finishes_its_work_and_gets_no_new(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world, 3, 1);
    size_t before = world->log_bytes;
    drain(world, 0, 1, false);
    world_run(world, 20000);
    assert_reply(world, 0, 2);
    assert_int_equal(world_spawns(world), 3);
    assert_int_equal(running(world, 1), 1); /* it goes on */
    assert_true(drain_of(world, 2, 1).drained && !drain_of(world, 2, 1).is_idle);
    assert_int_not_equal(world_coordinator(world), 1);
    world->program = WORLD_RUNS_2S;
    assert_true(world_run_until(world, 20000, before, "b: drained: no worker runs here any more"));
    world_run(world, 10000);
    assert_true(drain_of(world, 2, 1).is_idle);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_COMPLETED);
    world_free(world);
}

static void a_drained_node_is_not_chosen_while_others_are_free(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    world_start_all(world);
    drain(world, 2, 0, false);
    world_run(world, 1000);
    story_submit(world, 0, 6, 0);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 4);
    assert_int_equal(running(world, 0), 0);
    assert_int_not_equal(world_coordinator(world), 0);
    assert_int_equal(world_count(world, "> push code a"), 0);
    assert_int_equal(world_count(world, "> send reserve a"), 0); /* nobody even asks */
    undrain(world, 1, 0);
    world_run(world, 10000);
    assert_int_equal(world_spawns(world), 6);
    assert_int_equal(running(world, 0), 2);
    world_free(world);
}

static void a_drained_node_is_not_chosen_when_it_is_the_only_one(void **state)
{
    (void)state;
    struct world *world = world_new(1, 2);
    struct config config;
    make_config(&config, 1, 0);
    world_start_all(world);
    drain(world, 0, 0, false);
    world_submit(world, 0, &config);
    world_run(world, 120000);
    assert_int_equal(world_spawns(world), 0);
    assert_true(drain_of(world, 0, 0).is_idle);
    undrain(world, 0, 0);
    assert_line(world, 20000, "a: exp trial 0 attempt 1: completed, every rank is done");
    world_free(world);
}

static void its_workers_move_when_a_node_is_drained_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world, 1, 2);
    uint32_t host = 0;
    while (running(world, host) == 0) {
        host++;
    }
    size_t before = world->log_bytes;
    drain(world, (host + 1) % 3, host, true);
    world_run(world, 5000);
    assert_true(world_find(world, before, "> stop trial 0 attempt 1 rank 0") != SIZE_MAX);
    assert_true(world_find(world, before, "> stop trial 0 attempt 1 rank 1") != SIZE_MAX);
    assert_int_equal(world_count(world, "> kill "), 0);
    assert_true(world_run_until(world, 10000, before, "> spawn trial 0 attempt 2 rank 1"));
    assert_true(world_find(world, before, "trial 0 attempt 2 from step 0 ") == SIZE_MAX);
    assert_int_equal(running(world, host), 0);
    assert_true(drain_of(world, (host + 2) % 3, host).is_idle);
    world_free(world);
}

static void a_drained_coordinator_hands_over(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world, 2, 1);
    uint32_t coordinator = (uint32_t)world_coordinator(world);
    size_t before = world->log_bytes;
    drain(world, coordinator, coordinator, false);
    world_run(world, 3000);
    int successor = world_coordinator(world);
    assert_true(successor >= 0 && (uint32_t)successor != coordinator);
    assert_true(world_find(world, before, "hands exp over: this node is drained") != SIZE_MAX);
    world_run(world, 90000);
    assert_int_equal(world_coordinator(world), successor);
    assert_int_equal(world_count(world, "hands exp over"), 1);
    assert_int_equal(world_spawns(world), 2);
    assert_int_equal(world_count(world, "> persist verdict"), 0);

    /* When nobody else is left it coordinates all the same: leases want to be renewed. */
    for (uint32_t i = 0; i < 3; i++) {
        if (i != coordinator) {
            world_crash(world, i);
        }
    }
    world_run(world, 60000);
    assert_int_equal(world_coordinator(world), coordinator);
    world_free(world);
}

/* Drained across a cut: the node goes on as it was until it hears of it. */
static void a_drain_reaches_a_node_that_was_cut_off(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world->nodes[2].is_cut = true;
    world_run(world, 10000);
    drain(world, 0, 2, false);
    world_run(world, 5000);
    assert_reply(world, 0, 2); /* the others know */
    assert_false(drain_of(world, 2, 2).drained);
    assert_false(drain_of(world, 0, 2).is_idle); /* it has not said so */
    struct config config;
    make_config(&config, 1, 0);
    world->program = WORLD_RUNS_2S;
    world_submit(world, 2, &config); /* its own side */
    world_run(world, 15000);
    assert_int_equal(world->nodes[2].spawn_count, 1);
    world->nodes[2].is_cut = false;
    world_run(world, 10000);
    assert_true(drain_of(world, 2, 2).drained);
    assert_true(drain_of(world, 0, 2).is_idle);
    world_free(world);
}

static void of_concurrent_drain_and_undrain_the_drain_wins(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world_start_all(world);
    drain(world, 0, 3, false);
    world_run(world, 2000);
    world->nodes[1].is_cut = true; /* on its own */
    world_run(world, 100);
    undrain(world, 0, 3);
    drain(world, 1, 3, false);
    world_run(world, 5000);
    assert_false(drain_of(world, 2, 3).drained);
    world->nodes[1].is_cut = false;
    world_run(world, 10000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(drain_of(world, i, 3).drained);
    }
    undrain(world, 1, 3); /* later than both */
    world_run(world, 5000);
    for (uint32_t i = 0; i < 4; i++) {
        assert_false(drain_of(world, i, 3).drained);
    }
    world_free(world);
}

/* Either of two that could take the second copy: without the drain the first of them in rendezvous order would. */
static void a_drained_node_gets_no_copies_of_checkpoints(void **state)
{
    (void)state;
    for (uint32_t turn = 1; turn <= 2; turn++) {
        struct world *world = world_new(3, 1);
        begin(world, 1, 1);
        uint32_t host = 0;
        while (running(world, host) == 0) {
            host++;
        }
        uint32_t drained = (host + turn) % 3, other = (host + 3 - turn) % 3;
        drain(world, host, drained, false);
        world_run(world, 2000);
        world_request(world, host, NODE_REQUEST_PAUSE); /* its worker saves */
        world_run(world, 5000);
        const struct view_trial *trial = world_experiment(world, other)->trials[0];
        assert_non_null(trial->manifests);
        bool is_there = false;
        for (const struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
            for (uint32_t i = 0; i < row->holder_count; i++) {
                assert_false(node_id_equal(row->holders[i], world->nodes[drained].person.id));
                is_there |= node_id_equal(row->holders[i], world->nodes[other].person.id);
            }
        }
        assert_true(is_there);
        world_free(world);
    }
}

/* Who has not heard of the drain yet may ask: the owner does not grant. */
static void a_drained_node_refuses_reservations(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    for (uint32_t turn = 0; turn < 2; turn++) {
        struct message message = {.kind = MESSAGE_RESERVE, .boot = world->nodes[1].boots};
        message.u.lease.attempt = make_attempt_id(7, 0, 1, 1 + turn, world->nodes[1].person.id);
        message.u.lease.claim = (struct election_claim){1 + turn, world->nodes[1].person.id};
        struct node_event event = {.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = world->nodes[1].person.id;
        event.u.message.message = &message;
        if (turn == 0) {
            drain(world, 0, 0, false);
        } else {
            undrain(world, 0, 0);
        }
        world_step(world, 0, &event);
        assert_int_equal(slot_state(world, 0, 0), turn == 0 ? LEASE_FREE : LEASE_RESERVED);
    }
    world_free(world);
}

static void drains_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.node = make_person(9).id;
    ask(world, 0, NODE_REQUEST_DRAIN, event);
    assert_reply(world, ERR_NOT_FOUND, 0);
    world_request(world, 1, NODE_REQUEST_LEAVE);
    world_run(world, 3000);
    world->reply.count = 0;
    drain(world, 0, 1, false);
    assert_reply(world, ERR_REFUSED, 0);
    world_free(world);
}

/* The owner's slot is away for nearly all of a wait after losses: the wait goes on meanwhile (sim --plan 3 --seed 654873019). */
static void a_wait_after_losses_does_not_begin_anew_while_no_slot_is_free(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->nodes[0].lacks_code = true;
    world_submit(world, 0, &config);
    uint32_t tries = 0;
    for (uint64_t quiet_ms = 0; quiet_ms < 60000; quiet_ms += 1000) { /* until it waits two minutes each time */
        uint32_t before = tries;
        world_run(world, 1000);
        tries = world_count(world, "> prepare trial 0");
        quiet_ms = tries > before ? 0 : quiet_ms;
    }
    withhold(world, 0, 1, 0);
    world_run(world, 40000);
    give_back(world, 0, 1);
    assert_int_equal(world_count(world, "> prepare trial 0"), tries);
    world_run(world, 40000);
    assert_int_equal(world_count(world, "> prepare trial 0"), tries + 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_slot_is_withheld_at_once_and_returned),
        cmocka_unit_test(all_slots_are_answered_for_together),
        cmocka_unit_test(a_request_of_several_records_waits_for_each_of_them),
        cmocka_unit_test(a_slot_is_withheld_under_its_worker),
        cmocka_unit_test(nothing_is_run_again_while_the_last_checkpoint_is_copied),
        cmocka_unit_test(a_slot_is_releasing_until_its_worker_is_gone),
        cmocka_unit_test(a_group_stops_as_a_whole_when_one_of_its_slots_is_withheld),
        cmocka_unit_test(a_rank_that_takes_its_time_to_save_is_waited_for),
        cmocka_unit_test(what_is_withheld_stays_so_across_a_restart),
        cmocka_unit_test(an_adopted_worker_in_a_withheld_slot_is_asked_to_leave),
        cmocka_unit_test(a_device_that_others_use_does_not_count_as_free),
        cmocka_unit_test(a_drained_node_finishes_its_work_and_gets_no_new),
        cmocka_unit_test(a_drained_node_is_not_chosen_while_others_are_free),
        cmocka_unit_test(a_drained_node_is_not_chosen_when_it_is_the_only_one),
        cmocka_unit_test(its_workers_move_when_a_node_is_drained_at_once),
        cmocka_unit_test(a_drained_coordinator_hands_over),
        cmocka_unit_test(a_drain_reaches_a_node_that_was_cut_off),
        cmocka_unit_test(of_concurrent_drain_and_undrain_the_drain_wins),
        cmocka_unit_test(a_drained_node_gets_no_copies_of_checkpoints),
        cmocka_unit_test(a_drained_node_refuses_reservations),
        cmocka_unit_test(drains_that_make_no_sense_are_refused),
        cmocka_unit_test(a_wait_after_losses_does_not_begin_anew_while_no_slot_is_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

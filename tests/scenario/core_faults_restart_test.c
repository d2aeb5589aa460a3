/* Daemons that die or fall silent and come back, and what becomes of their workers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/owner/owner.h"
#include "tests/scenario/core_story.h"

/* Seed 902347 of plan 4: its disk had not taken yet why it asked. */
static void who_was_asked_to_leave_before_a_restart_has_not_completed(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
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
    (void)story_begin(world, 2, 5);
    for (uint32_t i = 0; i < 2; i++) {
        lease_token token = world->nodes[i].workers[0].token;
        uint64_t step = world->nodes[i].workers[0].step;
        world_crash(world, i);
        world_run(world, 1000);
        world_restart(world, i, true);
        const struct node_core *core = world->nodes[i].core;
        assert_int_equal(node_core_find_token(core, token), 0);
        assert_int_equal(core->owner->lease.slots[0].state, LEASE_LEASED);
        assert_int_equal(core->owner->workers[0].phase, CORE_WORKER_RUNNING);
        assert_true(core->owner->workers[0].step + 2 * 10 >= step); /* progress is told every 2 s */
        world_run(world, 40000);
        assert_int_equal(node_core_find_token(core, token), 0);
        assert_true(world->nodes[i].workers[0].runs);
    }
    assert_int_equal(world_spawns(world), 2);
    assert_int_equal(world_count(world, "persist verdict"), 0);
    world_free(world);
}

/* The token that the disk kept is damaged: nothing that the worker says could be taken, so it must not hold its slot for ever. */
static void an_adopted_worker_without_a_good_token_is_ended(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_crash(world, 1);
    world_run(world, 500);
    memset(&world->nodes[1].workers[0].token, 0, sizeof world->nodes[1].workers[0].token);
    size_t before = world->log_bytes;
    world_restart(world, 1, true);
    assert_int_equal(world->nodes[1].core->owner->workers[0].phase, CORE_WORKER_ENDING);
    assert_true(world_find(world, before, "b> kill") != SIZE_MAX);
    assert_true(world_run_until(world, 20000, before, "b> persist slot 0 free"));
    world_free(world);
}

static void workers_that_did_not_survive_are_reported_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 0); /* no restarts allowed: a lost node is not the program's failure */
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

/* A silent partition: one of three is cut off, its trial runs again elsewhere, and when it heals one worker is left. */
static void a_silent_node_is_replaced_and_comes_back(void **state)
{
    (void)state;
    struct world *world = world_new(3, 2);
    (void)story_begin(world, 1, 5);
    uint32_t owner = 0;
    while (running(world, owner) == 0) {
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
    uint32_t workers = 0;
    for (uint32_t i = 0; i < 3; i++) {
        workers += running(world, i);
        assert_true(records_hash_equal(world->nodes[i].core->records.hash, world->nodes[0].core->records.hash));
    }
    assert_int_equal(workers, 1);
    assert_true(world_coordinator(world) >= 0);
    world_free(world);
}

/* A node comes back with fewer slots than it had: what ran in the others is over, and its trial goes on elsewhere. */
static void a_slot_that_is_gone_ends_its_attempt(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    (void)story_begin(world, 4, 5);
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
    assert_int_equal(world->nodes[owner].core->owner->lease.slots[0].state, LEASE_FREE);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_was_asked_to_leave_before_a_restart_has_not_completed),
        cmocka_unit_test(adopted_workers_keep_their_lease_and_token),
        cmocka_unit_test(an_adopted_worker_without_a_good_token_is_ended),
        cmocka_unit_test(workers_that_did_not_survive_are_reported_at_once),
        cmocka_unit_test(a_silent_node_is_replaced_and_comes_back),
        cmocka_unit_test(a_slot_that_is_gone_ends_its_attempt),
        cmocka_unit_test(an_end_is_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

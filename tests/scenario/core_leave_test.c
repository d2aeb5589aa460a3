/* Nodes that leave: everything is handed over, and somebody knows before the daemon ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "node/core/copies/copies.h"
#include "tests/scenario/core_story.h"

static void who_leaves_hands_everything_over_first(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    uint32_t coordinator = story_begin(world, 1, 0);
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
        assert_true(member_at(world, node, 2)->left);
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

static void who_is_evicted_while_it_leaves_is_answered_once(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world->nodes[2].is_cut = true;
    size_t before = world->log_bytes;
    world->reply.count = 0;
    world_request(world, 2, NODE_REQUEST_LEAVE); /* waits for one of the others */
    world_run(world, 500);
    struct fact_eviction fact = {0};
    struct made made;
    make_record(&made, world->nodes[0].person.id, 9ull << 32, 1, FACT_EVICTION, fact_key_node_id(world->nodes[2].person.id), &fact);
    world_deliver(world, 0, 2, &made);
    world_run(world, 500);
    assert_true(world_find(world, before, "THIS NODE IS OUT OF THE MESH") != SIZE_MAX);
    world_run(world, 2 * CORE_ACK_MS);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

static void who_leaves_waits_until_another_node_has_stored_that(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[1].disk_refuses = true;
    size_t before = world->log_bytes;
    world->reply.count = 0;
    world_request(world, 0, NODE_REQUEST_LEAVE);
    world_run(world, CORE_ACK_MS / 2);
    world_request(world, 0, NODE_REQUEST_LEAVE); /* somebody gets impatient, and is answered with the first */
    world_run(world, 500);
    assert_int_equal(world->reply.count, 0);
    world->nodes[1].disk_refuses = false;
    assert_true(world_run_until(world, CORE_ACK_MS, before, "a> reply"));
    assert_true(world_find(world, before, "b> send stored a") < world_find(world, before, "a> reply"));
    world_run(world, 2 * CORE_ACK_MS);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.stored_on, 2);
    world_free(world);
}

/* It can reach nobody, and need not try. */
static void who_is_out_leaves_at_once(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world_start_all(world);
    world_evict(world, 0, 2, false);
    assert_line(world, 20000, "c: THIS NODE IS OUT OF THE MESH");
    world_crash(world, 2);
    size_t before = world->log_bytes;
    world_restart(world, 2, false);
    world_request(world, 2, NODE_REQUEST_LEAVE);
    assert_true(world_run_until(world, 3000, before, "c> reply"));
    world_free(world);
}

/* Requests are refused when too many wait, whether the node leaves meanwhile or not: those that wait can all be answered at once. */
static void a_leave_makes_no_room_for_more_requests(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    world->nodes[1].is_cut = true;
    world_request(world, 0, NODE_REQUEST_LEAVE);
    world_run(world, 3000); /* its worker has gone, and it waits to be heard */
    assert_true(world->nodes[0].core->copies->leave_is_waited);
    for (uint32_t i = 0; i < CORE_ACKS_MAX + 10; i++) {
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = i % 2 == 0 ? NODE_REQUEST_PAUSE : NODE_REQUEST_RESUME;
        event.u.request.client = 100 + i;
        event.u.request.experiment = make_experiment_id(0);
        world->reply.count = 0;
        world_step(world, 0, &event);
        assert_int_equal(world->reply.count, i < CORE_ACKS_MAX ? 0 : 1);
    }
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_leaves_hands_everything_over_first),
        cmocka_unit_test(who_leaves_right_after_its_start_is_known_to_have_left),
        cmocka_unit_test(who_leaves_alone_is_answered_all_the_same),
        cmocka_unit_test(who_is_evicted_while_it_leaves_is_answered_once),
        cmocka_unit_test(who_leaves_waits_until_another_node_has_stored_that),
        cmocka_unit_test(who_is_out_leaves_at_once),
        cmocka_unit_test(a_leave_makes_no_room_for_more_requests),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Requests that wait for a second node, too many of them, and nodes that leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/scenario/core_story.h"

/* The second of two nodes is silent and suspect when the first is asked for an experiment. */
static struct world *submitted_beside_a_suspect(void)
{
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    world_start_all(world);
    world->nodes[1].is_cut = true;
    assert_true(world_run_until(world, 10000, world->log_bytes, "b is suspect"));
    world_submit(world, 0, &config);
    return world;
}

/* A busy machine answers a probe late: it is asked, once it is known to live, and the client is not told of one disk meanwhile. */
static void a_request_waits_for_a_second_node_that_is_suspect(void **state)
{
    (void)state;
    struct world *world = submitted_beside_a_suspect();
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
    struct world *world = submitted_beside_a_suspect();
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    world_free(world);
}

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

/* The i-th of clients who pause and resume in turn. */
static void ask(struct world *world, uint32_t i)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = i % 2 == 0 ? NODE_REQUEST_PAUSE : NODE_REQUEST_RESUME;
    event.u.request.client = 100 + i;
    event.u.request.experiment = make_experiment_id(0);
    world_step(world, 0, &event);
}

/* A request whose record is overtaken on its way to the disk is answered for by the newer version, on two nodes too. */
static void an_overtaken_request_waits_for_its_second_node(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    world->disk_ms = 50;
    world->reply.count = 0;
    for (uint32_t i = 0; i < 2; i++) {
        ask(world, i);
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
    (void)story_begin(world, 1, 5);
    world->reply.count = 0;
    world->nodes[1].is_cut = true; /* so that they all wait for it, and for the same moment */
    for (uint32_t i = 0; i < NODE_EFFECTS_MAX + 10; i++) {
        ask(world, i);
    }
    world_run(world, 10000);
    assert_int_equal(world->reply.count, NODE_EFFECTS_MAX + 10);
    world->nodes[1].is_cut = false;
    world_request(world, 0, NODE_REQUEST_CANCEL); /* and it goes on */
    world_run(world, 6000);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_a_second_node_that_is_suspect),
        cmocka_unit_test(a_request_does_not_wait_for_a_second_node_that_dies),
        cmocka_unit_test(who_leaves_hands_everything_over_first),
        cmocka_unit_test(who_leaves_right_after_its_start_is_known_to_have_left),
        cmocka_unit_test(who_leaves_alone_is_answered_all_the_same),
        cmocka_unit_test(who_is_evicted_while_it_leaves_is_answered_once),
        cmocka_unit_test(an_overtaken_request_waits_for_its_second_node),
        cmocka_unit_test(too_many_requests_at_a_time_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

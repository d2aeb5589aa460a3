/* Requests that wait for a second node, and too many of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/limits.h"
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

/* The only one that can store it takes longer than one is waited for before the next is asked. */
static void whoever_stores_a_request_counts_however_late(void **state)
{
    (void)state;
    for (uint32_t storing = 1; storing < 4; storing++) {
        struct world *world = world_new(4, 1);
        world_start_all(world);
        for (uint32_t i = 1; i < 4; i++) {
            world->nodes[i].disk_refuses = i != storing;
        }
        world_request(world, 0, NODE_REQUEST_INVITE);
        world->disk_ms = 2 * CORE_RETRY_MS + 500; /* of the others: its own write is under way */
        world_run(world, CORE_ACK_MS + 1000);
        assert_int_equal(world->reply.code, 0);
        assert_int_equal(world->reply.stored_on, 2);
        world_free(world);
    }
}

/* Nobody is known to live when the daemon has just begun. */
static void a_request_right_after_the_start_waits_for_a_second_node(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_crash(world, 0);
    world_restart(world, 0, false);
    world_request(world, 0, NODE_REQUEST_INVITE);
    world_run(world, 0);
    assert_int_equal(world->reply.count, 0);
    world_run(world, CORE_ACK_MS);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);

    world_crash(world, 0); /* and not for long, if there is none */
    world_die(world, 1);
    world_restart(world, 0, false);
    world_request(world, 0, NODE_REQUEST_INVITE);
    world_run(world, CORE_ACK_START_MS + 2 * CORE_HOUSEKEEP_MS);
    assert_int_equal(world->reply.count, 2);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_a_second_node_that_is_suspect),
        cmocka_unit_test(a_request_does_not_wait_for_a_second_node_that_dies),
        cmocka_unit_test(an_overtaken_request_waits_for_its_second_node),
        cmocka_unit_test(too_many_requests_at_a_time_are_refused),
        cmocka_unit_test(whoever_stores_a_request_counts_however_late),
        cmocka_unit_test(a_request_right_after_the_start_waits_for_a_second_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

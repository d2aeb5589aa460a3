/* Stories of webhooks: which node tells of an event, what its death changes, and that a message has one id whoever
 * sends it. The receiver is this file: it answers what the shell would have sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/requests/webhooks.h"
#include "tests/scenario/core_story.h"

#define NONE UINT32_MAX

/* The webhook with events `on`, as a configuration has it. */
static uint32_t pack_hook(uint8_t *bytes, size_t size, uint32_t on, bool in_list)
{
    struct pack_writer writer;
    uint32_t count = 0;
    for (uint32_t i = 0; config_webhook_words[i] != NULL; i++) {
        count += on >> i & 1;
    }
    pack_writer_init(&writer, bytes, size);
    if (in_list) {
        pack_array(&writer, 1);
    }
    pack_map(&writer, 2);
    pack_text(&writer, "url");
    pack_text(&writer, "http://receiver/");
    pack_text(&writer, "on");
    pack_array(&writer, count);
    for (uint32_t i = 0; config_webhook_words[i] != NULL; i++) {
        if ((on >> i & 1) != 0) {
            pack_text(&writer, config_webhook_words[i]);
        }
    }
    assert_false(writer.failed);
    return (uint32_t)writer.used_bytes;
}

/* Three nodes, and an experiment of one trial with a webhook, which runs. */
static struct world *begin(uint32_t on)
{
    static uint8_t hooks[256];
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 1, 0);
    config.webhooks = hooks;
    config.webhooks_bytes = pack_hook(hooks, sizeof hooks, on, true);
    (void)story_begin_with(world, &config, 10000);
    return world;
}

static void end_trial(struct world *world, int32_t code)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (running(world, i) > 0) {
            world_end_worker(world, i, 0, code);
        }
    }
    world_run(world, 6000);
}

/* The first living node with something to tell, as the shell asks once a second; NONE: no node has. */
static uint32_t teller(struct world *world, struct node_webhook_due *due)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (world->nodes[i].is_up && node_core_webhook_due(world->nodes[i].core, due)) {
            return i;
        }
    }
    return NONE;
}

static void answer(struct world *world, uint32_t node, const struct node_webhook_due *due, uint32_t status)
{
    struct node_event event = {.kind = NODE_EVENT_WEBHOOK_TRIED};
    event.u.webhook.due = due;
    event.u.webhook.ok = status >= 200 && status < 300;
    event.u.webhook.status = status;
    event.u.webhook.text = "the receiver refuses it";
    world_step(world, node, &event);
    world_run(world, 2000);
}

static void one_node_tells_and_all_know_that_it_is_told(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED | 1u << FACT_HOOK_FAILED);
    struct node_webhook_due due, other;
    assert_int_equal(teller(world, &due), NONE);
    end_trial(world, 0);
    uint32_t node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    assert_int_equal(due.fact.event, FACT_HOOK_COMPLETED);
    assert_string_equal(due.hook.url, "http://receiver/");
    assert_int_equal(teller(world, &other), NONE); /* it is on its way */
    answer(world, node, &due, 204);
    world_run(world, 60000);
    assert_int_equal(teller(world, &other), NONE);
    world_crash(world, node);
    world_run(world, 20000);
    assert_int_equal(teller(world, &other), NONE);
    world_free(world);
}

static void whoever_follows_a_dead_node_tells_the_same_message(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_FAILED);
    struct node_webhook_due due, again;
    end_trial(world, 1);
    uint32_t node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    assert_int_equal(due.fact.event, FACT_HOOK_FAILED);
    world_crash(world, node); /* between the event and the delivery */
    world_run(world, 20000);
    uint32_t successor = teller(world, &again);
    assert_true(successor != NONE && successor != node);
    assert_memory_equal(again.id, due.id, sizeof due.id);
    answer(world, successor, &again, 200);
    world_restart(world, node, false); /* the dead node comes back and knows nothing of it */
    world_run(world, 20000);
    assert_int_equal(teller(world, &again), NONE);
    world_free(world);
}

static void each_side_of_a_cut_tells_one_message_and_nobody_after_it(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED);
    struct node_webhook_due due[3];
    uint32_t tellers = 0;
    end_trial(world, 0);
    cut(world, 1);
    world_run(world, 20000);
    for (uint32_t i = 0; i < 3; i++) {
        if (node_core_webhook_due(world->nodes[i].core, &due[tellers])) {
            answer(world, i, &due[tellers++], 200);
        }
    }
    assert_int_equal(tellers, 2);
    assert_memory_equal(due[0].id, due[1].id, sizeof due[0].id);
    heal(world);
    world_run(world, 30000);
    assert_int_equal(teller(world, &due[0]), NONE);
    world_free(world);
}

static void what_fails_is_tried_again_after_growing_pauses_and_given_up_in_the_end(void **state)
{
    static const uint32_t pauses_s[] = {5, 30, 120, 600, 3600};
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED);
    struct node_webhook_due due, again;
    end_trial(world, 0);
    uint32_t node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    for (size_t i = 0; i < sizeof pauses_s / sizeof pauses_s[0]; i++) {
        answer(world, node, &due, 503); /* takes 2 s */
        world_run(world, 1000ull * pauses_s[i] - 3000);
        assert_int_equal(teller(world, &again), NONE);
        world_run(world, 2000);
        assert_int_equal(teller(world, &again), node);
        assert_memory_equal(again.id, due.id, sizeof due.id);
    }
    answer(world, node, &due, 0);
    world_run(world, 8000000);
    assert_int_equal(teller(world, &again), NONE);
    assert_int_equal(requests_webhook_pause_ms(0), 0);
    assert_true(requests_webhook_pause_ms(6) == UINT64_MAX);
    world_free(world);
}

static void a_receiver_that_is_gone_is_told_nothing_more(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED | 1u << FACT_HOOK_FAILED);
    struct node_webhook_due due, again;
    end_trial(world, 1);
    uint32_t node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    answer(world, node, &due, 410);
    world_retry(world, 0, 0);
    world_run(world, 15000);
    assert_int_equal(world->reply.code, 0);
    end_trial(world, 1);
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_FAILED);
    assert_int_equal(teller(world, &again), NONE);
    world_free(world);
}

static void an_experiment_that_ends_again_is_told_again(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED | 1u << FACT_HOOK_FAILED);
    struct node_webhook_due first, second;
    end_trial(world, 1);
    uint32_t node = teller(world, &first);
    assert_int_not_equal(node, NONE);
    answer(world, node, &first, 200);
    world_retry(world, 1, 0);
    world_run(world, 15000);
    assert_int_equal(teller(world, &second), NONE);
    end_trial(world, 1);
    node = teller(world, &second);
    assert_int_not_equal(node, NONE);
    assert_memory_not_equal(first.id, second.id, sizeof first.id);
    world_free(world);
}

static void add_to_mesh(struct world *world, uint32_t on)
{
    uint8_t hook[256];
    struct node_event event = {
        .kind = NODE_EVENT_REQUEST, .bytes = hook, .byte_count = pack_hook(hook, sizeof hook, on, false)};
    event.u.request.kind = NODE_REQUEST_WEBHOOK;
    event.u.request.client = 5;
    event.u.request.public_key[0] = 7;
    world->reply.code = -1;
    world_step(world, 0, &event);
    world_run(world, 3000);
    assert_int_equal(world->reply.code, 0);
}

static void a_webhook_of_the_mesh_hears_of_what_comes_after_it(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_FAILED);
    struct node_webhook_due due;
    end_trial(world, 0);
    world_run(world, 5000);
    add_to_mesh(world, 1u << FACT_HOOK_COMPLETED | 1u << FACT_HOOK_NODE_LOST);
    assert_int_equal(teller(world, &due), NONE); /* that end was before */
    world_crash(world, 2);
    world_run(world, 20000);
    uint32_t node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    assert_int_equal(due.fact.event, FACT_HOOK_NODE_LOST);
    assert_memory_equal(due.node.bytes, world->nodes[2].person.id.bytes, NODE_ID_BYTES);
    answer(world, node, &due, 200);
    assert_int_equal(teller(world, &due), NONE);
    world_restart(world, 2, false);
    world_run(world, 20000);
    assert_int_equal(teller(world, &due), NONE);
    world_crash(world, 2); /* lost again */
    world_run(world, 20000);
    node = teller(world, &due);
    assert_int_not_equal(node, NONE);
    assert_int_equal(due.fact.event, FACT_HOOK_NODE_LOST);
    world_free(world);
}

static void a_line_of_a_log_is_told_though_the_workers_node_dies(void **state)
{
    (void)state;
    struct world *world = begin(1u << FACT_HOOK_COMPLETED);
    struct node_log_match match = {.attempt = {.experiment = make_experiment_id(0), .number = 1}, .line = "Traceback"};
    struct node_event event = {.kind = NODE_EVENT_LOG_MATCHED, .u.match = &match};
    struct node_webhook_due due;
    struct config_webhook hook;
    assert_true(node_core_webhook(world->nodes[1].core, match.attempt.experiment, 0, match.hook, &hook));
    assert_false(node_core_webhook(world->nodes[1].core, match.attempt.experiment, 1, match.hook, &hook));
    world_step(world, 1, &event);
    world_step(world, 1, &event); /* found again after a restart of the daemon */
    world_run(world, 2000);
    world_crash(world, 1);
    world_run(world, 20000);
    uint32_t node = teller(world, &due);
    assert_true(node == 0 || node == 2);
    assert_int_equal(due.fact.event, FACT_HOOK_LOG_MATCH);
    assert_string_equal(due.fact.text, "Traceback");
    answer(world, node, &due, 200);
    assert_int_equal(teller(world, &due), NONE);
    world_step(world, 0, &event); /* ... and once more */
    world_run(world, 2000);
    assert_int_equal(teller(world, &due), NONE);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_node_tells_and_all_know_that_it_is_told),
        cmocka_unit_test(whoever_follows_a_dead_node_tells_the_same_message),
        cmocka_unit_test(each_side_of_a_cut_tells_one_message_and_nobody_after_it),
        cmocka_unit_test(what_fails_is_tried_again_after_growing_pauses_and_given_up_in_the_end),
        cmocka_unit_test(a_receiver_that_is_gone_is_told_nothing_more),
        cmocka_unit_test(an_experiment_that_ends_again_is_told_again),
        cmocka_unit_test(a_webhook_of_the_mesh_hears_of_what_comes_after_it),
        cmocka_unit_test(a_line_of_a_log_is_told_though_the_workers_node_dies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

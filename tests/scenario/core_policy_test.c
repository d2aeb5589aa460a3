/* The policy of a machine's owner, carried out: slots are withheld while a reason holds, and only by it returned afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/members/members.h"
#include "node/core/owner/owner.h"
#include "tests/scenario/core_story.h"

#define LOOK_MS 2000

static void set_policy(struct world *world, uint32_t node, const struct fact_policy *policy)
{
    uint8_t body[512];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_policy_pack(&writer, policy);
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = body, .byte_count = (uint32_t)writer.used_bytes};
    event.u.request.kind = NODE_REQUEST_POLICY;
    world->reply.count = 0;
    world_step(world, node, &event);
    world_run(world, 2 * CORE_ACK_MS);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
}

static void ask(struct world *world, uint32_t node, enum node_request_kind kind, uint64_t slots)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.slots = slots;
    world->reply.count = 0;
    world_step(world, node, &event);
    world_run(world, 2 * CORE_ACK_MS);
    assert_int_equal(world->reply.code, 0);
}

/* So many looks, one every 2 s, in which the other processes use as much. */
static void looks(struct world *world, uint32_t node, uint32_t permille, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct node_event event = {.kind = NODE_EVENT_LOOK};
        event.u.look = (struct policy_look){.now_ms = world->nodes[node].core->now_ms,
                                            .wall_s = world->nodes[node].core->wall_s,
                                            .has_load = true,
                                            .others_permille = permille};
        world_step(world, node, &event);
        world_run(world, LOOK_MS);
    }
}

static bool is_withheld(const struct world *world, uint32_t node, uint32_t slot)
{
    bool is_held = world->nodes[node].core->owner->lease.holds[slot].withheld;
    for (uint32_t viewer = 0; viewer < world->node_count; viewer++) {
        assert_true(view_member_slot(member_at(world, viewer, node), slot)->withheld == is_held);
    }
    return is_held;
}

/* As the other node knows it. */
static struct fact_policy known(const struct world *world, uint32_t viewer, uint32_t node)
{
    struct fact_policy policy;
    assert_true(view_member_policy(member_at(world, viewer, node), &policy));
    return policy;
}

static const struct fact_policy half = {.load_percent = 50, .back_after_s = 60};

static void a_reason_takes_the_slot_back_and_the_trial_goes_on_elsewhere(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 1, 5);
    uint32_t host = running(world, 0) == 1 ? 0 : 1, other = 1 - host;
    looks(world, host, 1000, 10);
    assert_false(is_withheld(world, host, 0)); /* nobody has said anything */
    set_policy(world, host, &half);
    looks(world, host, 400, 10);
    assert_false(is_withheld(world, host, 0));
    looks(world, host, 600, 6);
    world_run(world, 30000);
    assert_true(is_withheld(world, host, 0));
    assert_int_equal(running(world, host), 0);
    assert_int_equal(running(world, other), 1);
    struct fact_policy policy = known(world, other, host);
    assert_int_equal(policy.why, FACT_POLICY_LOAD);
    assert_int_equal(policy.slots, 1);
    assert_true(policy.since_s > 0 && policy.until_s == 0);
    looks(world, host, 0, 31);
    assert_false(is_withheld(world, host, 0));
    policy = known(world, other, host);
    assert_true(policy.why == FACT_POLICY_NONE && policy.slots == 0 && policy.since_s == 0 && policy.load_percent == 50);
    world_free(world);
}

static void what_a_person_wants_counts_before_the_policy(void **state)
{
    (void)state;
    struct world *world = world_new(2, 4);
    world_start_all(world);
    world_run(world, 5000);
    ask(world, 0, NODE_REQUEST_WITHHOLD, 1); /* before the policy does: it is not the policy's */
    set_policy(world, 0, &half);
    looks(world, 0, 1000, 6);
    assert_int_equal(known(world, 1, 0).slots, 14);
    ask(world, 0, NODE_REQUEST_RETURN, 2);
    ask(world, 0, NODE_REQUEST_WITHHOLD, 4);
    looks(world, 0, 1000, 3);
    assert_true(is_withheld(world, 0, 0) && !is_withheld(world, 0, 1) && is_withheld(world, 0, 2) && is_withheld(world, 0, 3));
    assert_int_equal(known(world, 1, 0).slots, 8);
    looks(world, 0, 0, 31);
    assert_true(is_withheld(world, 0, 0) && !is_withheld(world, 0, 1) && is_withheld(world, 0, 2) && !is_withheld(world, 0, 3));
    ask(world, 0, NODE_REQUEST_RETURN, 15);
    looks(world, 0, 1000, 6); /* a new reason takes all of them */
    assert_int_equal(known(world, 1, 0).slots, 15);
    world_free(world);
}

static void a_policy_that_is_taken_away_returns_its_slots(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_run(world, 5000);
    set_policy(world, 0, &half);
    looks(world, 0, 1000, 6);
    assert_true(is_withheld(world, 0, 0));
    const struct fact_policy none = {0};
    set_policy(world, 0, &none);
    looks(world, 0, 1000, 1);
    assert_false(is_withheld(world, 0, 0));
    world_free(world);
}

/* The slot is withheld again by its own record; the policy's record says that the policy had taken it. */
static void a_restarted_daemon_knows_which_slots_are_the_policys(void **state)
{
    (void)state;
    struct world *world = world_new(2, 2);
    world_start_all(world);
    world_run(world, 5000);
    ask(world, 0, NODE_REQUEST_WITHHOLD, 2);
    set_policy(world, 0, &half);
    looks(world, 0, 1000, 6);
    assert_true(is_withheld(world, 0, 0) && is_withheld(world, 0, 1));
    world_crash(world, 0);
    world_run(world, 1000);
    world_restart(world, 0, false);
    world_run(world, 20000);
    looks(world, 0, 0, 29);
    assert_true(is_withheld(world, 0, 0) && is_withheld(world, 0, 1));
    looks(world, 0, 0, 3);
    assert_true(!is_withheld(world, 0, 0) && is_withheld(world, 0, 1));
    world_free(world);
}

/* The disk is from before the policy, and nobody who knows better is there for long enough that the node goes on alone. */
static void a_node_on_an_old_disk_hears_of_its_policy(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world_run(world, 5000);
    struct saved_disk saved = save_disk(world, 0);
    set_policy(world, 0, &half);
    world_crash(world, 0);
    world->nodes[1].is_cut = true;
    restart_with(world, 0, &saved, false);
    world_run(world, 60000);
    assert_false(world->nodes[0].core->members->syncing);
    looks(world, 0, 1000, 6);
    assert_false(world->nodes[0].core->owner->lease.holds[0].withheld);
    world->nodes[1].is_cut = false;
    world_run(world, 60000);
    looks(world, 0, 1000, 6);
    assert_true(is_withheld(world, 0, 0));
    assert_int_equal(known(world, 1, 0).why, FACT_POLICY_LOAD);
    world_free(world);
}

static void what_is_malformed_is_refused(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    world_start_all(world);
    world_run(world, 40000);
    static const uint8_t body[] = {0x93, 1, 2, 3};
    struct node_event event = {.kind = NODE_EVENT_REQUEST, .bytes = body, .byte_count = sizeof body};
    event.u.request.kind = NODE_REQUEST_POLICY;
    world->reply.count = 0;
    world_step(world, 0, &event);
    assert_int_equal(world->reply.code, ERR_USAGE);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reason_takes_the_slot_back_and_the_trial_goes_on_elsewhere),
        cmocka_unit_test(what_a_person_wants_counts_before_the_policy),
        cmocka_unit_test(a_policy_that_is_taken_away_returns_its_slots),
        cmocka_unit_test(a_restarted_daemon_knows_which_slots_are_the_policys),
        cmocka_unit_test(a_node_on_an_old_disk_hears_of_its_policy),
        cmocka_unit_test(what_is_malformed_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

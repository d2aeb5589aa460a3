/* Stories of a member that means harm: d, whose daemon is not ours. It writes and says what it likes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/ground/state.h"
#include "tests/scenario/core_story.h"

#define HONEST 3
#define D 3
#define J ((uint64_t)LAMPORT_JUMP_MAX)

static uint64_t seq;

static struct world *begin(void)
{
    struct world *world = world_new(HONEST + 1, 1);
    world_start_all(world);
    world_crash(world, D);
    world_run(world, 20000);
    story_submit(world, 0, 2, 0);
    world_run(world, 10000);
    assert_true(world_coordinator(world) >= 0);
    world->reply.count = 0;
    return world;
}

static void d_writes(struct world *world, uint32_t to, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    make_record(&made, world->nodes[D].person.id, 9ull << 32, ++seq, kind, key, fact);
    world_deliver(world, D, to, &made);
    world_run(world, 3000); /* all know */
}

static void d_pauses(struct world *world, uint64_t lamport, bool paused)
{
    struct fact_control fact = {.lamport = lamport, .paused = paused};
    d_writes(world, (uint32_t)(seq % HONEST), FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
}

static void d_claims(struct world *world, uint64_t term)
{
    struct fact_claim fact = {.term = term};
    d_writes(world, (uint32_t)(seq % HONEST), FACT_CLAIM, fact_key_experiment(make_experiment_id(0)), &fact);
}

static void assert_paused(const struct world *world, bool paused)
{
    for (uint32_t i = 0; i < HONEST; i++) {
        assert_int_equal(view_experiment_paused(world_experiment(world, i)), paused);
    }
}

static const uint64_t clocks[] = {1ull << 62, UINT64_MAX, J + 1, J + 2, J, 2 * J + 3, 2 * J, UINT64_MAX - 1, 3 * J, 1};

/* Whoever of the others has a word to say says it once, and it is so. */
static void a_clock_near_its_end_keeps_nobody_from_pausing(void **state)
{
    (void)state;
    struct world *world = begin();
    d_pauses(world, UINT64_MAX, true);
    assert_paused(world, false);
    assert_int_equal(world->nodes[0].core->view.jump_count, 1);
    assert_true(world_count(world, "d has written a control record whose clock") >= HONEST);
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        bool pause = i % 2 == 0;
        d_pauses(world, clocks[i], !pause);
        for (uint32_t node = 0; node < HONEST; node++) {
            world_request(world, node, pause ? NODE_REQUEST_PAUSE : NODE_REQUEST_RESUME);
            world_run(world, 3000);
            assert_paused(world, pause);
            pause = !pause;
        }
    }
    world_free(world);
}

static void a_clock_near_its_end_keeps_nobody_from_draining(void **state)
{
    (void)state;
    struct world *world = begin();
    for (size_t i = 0; i < sizeof clocks / sizeof clocks[0]; i++) {
        bool drained = i % 2 == 0;
        struct fact_drain fact = {.lamport = clocks[i], .drained = !drained};
        d_writes(world, 1, FACT_DRAIN, fact_key_node_id(world->nodes[2].person.id), &fact);
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = drained ? NODE_REQUEST_DRAIN : NODE_REQUEST_UNDRAIN;
        event.u.request.node = world->nodes[2].person.id;
        world_step(world, (uint32_t)(i % HONEST), &event);
        world_run(world, 5000);
        for (uint32_t viewer = 0; viewer < HONEST; viewer++) {
            const struct view_member *c = member_at(world, viewer, 2);
            assert_int_equal(view_member_drain(c).drained, drained);
        }
    }
    world_free(world);
}

/* One of the three leads, and its word reaches the owners: the trials run. */
static void assert_led(struct world *world)
{
    for (uint32_t s = 0; s < 60 && world_coordinator(world) < 0; s++) {
        world_run(world, 1000);
    }
    if (world_coordinator(world) < 0) {
        print_end(world);
        fail_msg("nobody coordinates");
    }
    uint32_t runs = 0;
    for (uint32_t s = 0; s < 90 && runs < 2; s++) {
        world_run(world, 1000);
        runs = 0;
        for (uint32_t i = 0; i < HONEST; i++) {
            runs += world->nodes[i].is_up && world->nodes[i].workers[0].runs;
        }
    }
    if (runs < 2) {
        print_end(world);
    }
    assert_int_equal(runs, 2);
}

static void a_huge_term_leads_nobody_away(void **state)
{
    (void)state;
    struct world *world = begin();
    int leader = world_coordinator(world);
    d_claims(world, 1ull << 62);
    d_claims(world, UINT64_MAX);
    assert_int_equal(world_coordinator(world), leader);
    assert_int_equal(world_count(world, "another node coordinates"), 0);
    world_crash(world, (uint32_t)leader);
    world_run(world, 15000);
    assert_true(world_coordinator(world) >= 0 && world_coordinator(world) != leader);
    world_restart(world, (uint32_t)leader, false);
    assert_led(world);
    world_free(world);
}

/* It climbs behind every honest claim as far as it gets. Those who were not there see its last claim only. */
static void who_was_away_while_terms_climbed_agrees_with_the_others(void **state)
{
    (void)state;
    struct world *world = begin();
    uint64_t term = 0;
    for (int i = 0; i < 4; i++) {
        const struct view_experiment *experiment = world_experiment(world, 0);
        struct lamport_top top = view_claim_top(experiment, NULL);
        term = top.first + J;
        d_claims(world, term); /* it is dead to all: a successor claims above it */
        world_run(world, 15000);
        assert_led(world);
    }
    d_claims(world, 1ull << 62);
    for (uint32_t i = 0; i < HONEST; i++) {
        world_crash(world, i);
    }
    for (uint32_t i = 0; i < HONEST; i++) {
        world_restart(world, i, false);
    }
    assert_led(world);
    struct lamport_top top = view_claim_top(world_experiment(world, 0), NULL);
    assert_true(lamport_highest(&top) > term && lamport_highest(&top) < 6 * J);
    world_free(world);
}

/* An owner that lies about what it obeys lifts a coordinator's term, but not beyond what the others follow. */
static void an_owner_that_lies_about_its_fence_stops_nobody(void **state)
{
    (void)state;
    struct world *world = begin();
    uint32_t leader = (uint32_t)world_coordinator(world);
    for (uint64_t i = 1; i <= 6; i++) {
        struct message message = {.kind = MESSAGE_STALE};
        const struct view_experiment *experiment = world_experiment(world, leader);
        message.u.lease.attempt = experiment->trials[0]->attempts->id;
        message.u.lease.claim = (struct election_claim){i * (J / 2), world->nodes[D].person.id};
        struct node_event event = {.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = world->nodes[D].person.id;
        event.u.message.message = &message;
        world_step(world, leader, &event);
        world_run(world, 10000);
    }
    assert_led(world);
    world_crash(world, leader);
    world_restart(world, leader, false);
    assert_led(world);
    world_free(world);
}

/* It names one of the honest, who knows nothing of it: the leader gives way, and nobody leads until that is seen. */
static void an_owner_that_makes_up_a_coordinator_stops_nobody_for_long(void **state)
{
    (void)state;
    struct world *world = begin();
    uint32_t leader = (uint32_t)world_coordinator(world);
    struct message message = {.kind = MESSAGE_STALE};
    message.u.lease.attempt = world_experiment(world, leader)->trials[0]->attempts->id;
    message.u.lease.claim = (struct election_claim){9, world->nodes[(leader + 1) % HONEST].person.id};
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[D].person.id;
    event.u.message.message = &message;
    world_step(world, leader, &event);
    assert_int_equal(world_coordinator(world), -1);
    assert_led(world);
    world_free(world);
}

/* A coordinator comes back on a disk that does not hold its claim, nor does anybody else's: owners obey it, it does not know
 * that it leads (sim --plan 2 --seed 2107). */
static void a_claim_that_was_lost_with_its_disk_is_not_followed_for_ever(void **state)
{
    (void)state;
    struct world *world = begin();
    uint32_t leader = (uint32_t)world_coordinator(world);
    uint32_t lost = (leader + 1) % HONEST;
    for (uint32_t i = 0; i < HONEST; i++) {
        if (i == lost) {
            continue;
        }
        struct message message = {.kind = MESSAGE_RESERVE};
        message.u.lease.attempt = world_experiment(world, leader)->trials[0]->attempts->id;
        message.u.lease.attempt.term = 9;
        message.u.lease.attempt.coordinator = world->nodes[lost].person.id;
        message.u.lease.claim = (struct election_claim){9, world->nodes[lost].person.id};
        struct node_event event = {.kind = NODE_EVENT_MESSAGE};
        event.u.message.from = world->nodes[lost].person.id;
        event.u.message.message = &message;
        world_step(world, i, &event);
    }
    world_run(world, 2000);
    assert_int_equal(world_coordinator(world), -1);
    assert_led(world);
    world_free(world);
}

/* With a byte more than the key of a tombstone has: what it buries could never be swept, since its own tombstone is not found. */
static void a_tombstone_with_a_key_that_is_too_long_deletes_nothing(void **state)
{
    (void)state;
    struct world *world = begin();
    struct fact_key key = fact_key_experiment(make_experiment_id(0));
    key.count++;
    d_writes(world, 0, FACT_TOMBSTONE, key, NULL);
    assert_led(world);
    for (uint32_t i = 0; i < HONEST; i++) {
        assert_false(view_is_deleted(&world->nodes[i].core->view, make_experiment_id(0)));
    }
    world_request(world, 1, NODE_REQUEST_DELETE);
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    for (uint32_t i = 0; i < HONEST; i++) {
        assert_null(world_experiment(world, i));
    }
    world_free(world);
}

static attempt_id attempt_of_d(const struct world *world, uint64_t number)
{
    return make_attempt_id(0, 0, (uint32_t)number, 1, world->nodes[D].person.id);
}

static void d_begins(struct world *world, uint64_t number)
{
    attempt_id id = attempt_of_d(world, number);
    struct fact_attempt fact = {.member_count = 1, .members = {{world->nodes[D].person.id, 0}}};
    d_writes(world, (uint32_t)(seq % HONEST), FACT_ATTEMPT, fact_key_attempt(&id), &fact);
}

static void d_calls_lost(struct world *world, attempt_id id, uint64_t number)
{
    struct fact_verdict fact = {.reason = FACT_LOST};
    id.number = (uint32_t)number;
    d_writes(world, (uint32_t)(seq % HONEST), FACT_VERDICT, fact_key_verdict(&id), &fact);
}

/* It says that it has begun the last attempt that there can be, and that the others' last one has ended, and their next. */
static void an_attempt_with_the_last_number_keeps_no_trial_from_going_on(void **state)
{
    (void)state;
    struct world *world = begin();
    attempt_id ours = world_experiment(world, 0)->trials[0]->attempts->id;
    d_begins(world, UINT32_MAX);
    d_begins(world, 2 * J);
    d_calls_lost(world, ours, UINT32_MAX);
    world_run(world, 30000);
    assert_led(world);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 1);
    d_calls_lost(world, ours, 2);
    d_calls_lost(world, ours, 1);
    world_run(world, 30000);
    assert_led(world);
    assert_int_equal(world_count(world, "> spawn trial 0 "), 2);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 3 rank 0"), 1);
    world_free(world);
}

/* It counts, and is soon over, since nothing runs there. */
static void an_attempt_that_goes_as_far_as_it_may_is_followed_by_another(void **state)
{
    (void)state;
    struct world *world = begin();
    d_begins(world, J + 1);
    world_run(world, 30000);
    assert_led(world);
    assert_int_equal(world_count(world, "> spawn trial 0 attempt 1048578 rank 0"), 1);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_near_its_end_keeps_nobody_from_pausing),
        cmocka_unit_test(a_clock_near_its_end_keeps_nobody_from_draining),
        cmocka_unit_test(a_huge_term_leads_nobody_away),
        cmocka_unit_test(who_was_away_while_terms_climbed_agrees_with_the_others),
        cmocka_unit_test(an_owner_that_lies_about_its_fence_stops_nobody),
        cmocka_unit_test(an_owner_that_makes_up_a_coordinator_stops_nobody_for_long),
        cmocka_unit_test(a_claim_that_was_lost_with_its_disk_is_not_followed_for_ever),
        cmocka_unit_test(a_tombstone_with_a_key_that_is_too_long_deletes_nothing),
        cmocka_unit_test(an_attempt_with_the_last_number_keeps_no_trial_from_going_on),
        cmocka_unit_test(an_attempt_that_goes_as_far_as_it_may_is_followed_by_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

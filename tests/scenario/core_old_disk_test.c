/* Disks that are put back as they were some time ago: what was said since is known to the others only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/owner/owner.h"
#include "tests/scenario/core_story.h"

static void restart(struct world *world, uint32_t node)
{
    world_crash(world, node);
    world_run(world, 1000);
    world_restart(world, node, false);
    world_run(world, 5000);
}

/* Asks this of node 0, of its first slot or of itself, and waits until it is answered. */
static void ask(struct world *world, enum node_request_kind kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.experiment = make_experiment_id(0);
    event.u.request.slots = 1;
    world->reply.count = 0;
    world_step(world, 0, &event);
    world_run(world, 2 * CORE_ACK_MS);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
}

static void assert_withheld(const struct world *world, bool withheld)
{
    assert_true(world->nodes[0].core->owner->lease.holds[0].withheld == withheld);
    for (uint32_t viewer = 0; viewer < world->node_count; viewer++) {
        assert_true(view_member_slot(member_at(world, viewer, 0), 0)->withheld == withheld);
    }
}

/* ---- withheld slots ----------------------------------------------------------------------------------------------------- */

/* The disk is of the same life, or of one some lives before: then what the others know is of a larger boot than the new one. */
static void is_not_given_back(uint32_t lives)
{
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct saved_disk saved = save_disk(world, 0);
    for (uint32_t i = 0; i < lives; i++) {
        restart(world, 0);
    }
    ask(world, NODE_REQUEST_WITHHOLD);
    assert_withheld(world, true);
    world_crash(world, 0);
    story_submit(world, 1, 2, 5);
    world_run(world, 5000);
    restart_with(world, 0, &saved, false);
    world_run(world, 40000);
    assert_withheld(world, true);
    assert_int_equal(running(world, 0), 0);
    assert_int_equal(running(world, 1), 1);
    ask(world, NODE_REQUEST_RETURN);
    world_run(world, 20000);
    assert_withheld(world, false);
    assert_int_equal(running(world, 0), 1);
    world_free(world);
}

static void a_withheld_slot_is_not_given_back(void **state)
{
    (void)state;
    is_not_given_back(0);
    is_not_given_back(3);
}

static void what_is_leased_on_an_old_disk_and_was_withheld_since_is_not_given_back(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    assert_int_equal(running(world, 0), 1);
    struct saved_disk saved = save_disk(world, 0);
    ask(world, NODE_REQUEST_WITHHOLD);
    world_run(world, 60000);
    assert_int_equal(running(world, 0), 0);
    world_crash(world, 0);
    restart_with(world, 0, &saved, false);
    world_run(world, 40000);
    assert_withheld(world, true);
    assert_int_equal(running(world, 0), 0);
    world_free(world);
}

/* Its worker has lived through all that, and leaves as soon as its daemon knows. */
static void a_worker_that_is_found_in_a_slot_that_was_withheld_leaves_it(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    assert_int_equal(running(world, 0), 1);
    world_crash(world, 0);
    struct fact_slot fact = {.state = LEASE_LEASED, .attempt = world->nodes[0].workers[0].attempt, .withheld = true};
    struct made made;
    make_record(&made, world->nodes[0].person.id, world->nodes[0].core->options.boot, 1000, FACT_SLOT, fact_key_slot(0), &fact);
    world_deliver(world, 0, 1, &made);
    world_restart(world, 0, true);
    world_run(world, 40000);
    assert_withheld(world, true);
    assert_int_equal(running(world, 0), 0);
    world_free(world);
}

/* Whoever comes back with an older word of it comes too late. */
static void a_slot_that_is_returned_on_an_old_disk_stays_returned(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct saved_disk saved = save_disk(world, 0);
    for (uint32_t i = 0; i < 3; i++) {
        restart(world, 0);
    }
    ask(world, NODE_REQUEST_WITHHOLD);
    world_crash(world, 0);
    world->nodes[1].is_cut = true;
    restart_with(world, 0, &saved, false);
    world_run(world, 2000);
    ask(world, NODE_REQUEST_RETURN);
    world->nodes[1].is_cut = false;
    world_run(world, 40000);
    assert_withheld(world, false);
    world_free(world);
}

/* What the disk says of its slots is so no more; that is said as soon as it has caught up. */
static void who_has_caught_up_says_what_its_slots_hold(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_crash(world, 0);
    world_request(world, 1, NODE_REQUEST_PAUSE);
    world_run(world, 1000);
    world_restart(world, 0, false);
    assert_int_equal(view_member_slot(member_at(world, 0, 0), 0)->state, LEASE_LEASED);
    world_run(world, 10000);
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        assert_int_equal(view_member_slot(member_at(world, viewer, 0), 0)->state, LEASE_FREE);
    }
    world_free(world);
}

/* ---- pauses and drains --------------------------------------------------------------------------------------------------- */

/* Node 0 has said this and taken it back three lives later, which its disk does not know. */
static struct world *begin_taken_back(enum node_request_kind said, enum node_request_kind taken_back)
{
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    struct saved_disk saved = save_disk(world, 0);
    for (uint32_t i = 0; i < 3; i++) {
        restart(world, 0);
    }
    ask(world, said);
    ask(world, taken_back);
    world_crash(world, 0);
    restart_with(world, 0, &saved, false);
    return world;
}

/* Says it on the old disk, and waits for the answer. */
static void say(struct world *world, enum node_request_kind kind)
{
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = kind;
    event.u.request.experiment = make_experiment_id(0);
    size_t before = world->log_bytes;
    world->reply.count = 0;
    world_step(world, 0, &event);
    assert_true(world_run_until(world, 2 * CORE_ACK_MS, before, "a> reply"));
    assert_int_equal(world->reply.code, 0);
}

static void assert_paused(const struct world *world, bool paused)
{
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        assert_true(view_experiment_paused(world_experiment(world, viewer)) == paused);
    }
}

/* A resume that node 0 wrote under this boot comes back to it. */
static void bring_back_resume(struct world *world, uint64_t boot)
{
    struct fact_control fact = {.lamport = boot};
    struct made made;
    make_record(&made, world->nodes[0].person.id, boot << 32, 1, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &fact);
    world_deliver(world, 1, 0, &made);
}

static void bring_back_undrain(struct world *world, uint64_t boot)
{
    struct fact_drain fact = {.lamport = boot};
    struct made made;
    make_record(&made, world->nodes[0].person.id, boot << 32, 1, FACT_DRAIN, fact_key_node_id(world->nodes[0].person.id), &fact);
    world_deliver(world, 1, 0, &made);
}

/* Nor when a still later word of its own comes back after the first. */
static void a_pause_on_an_old_disk_is_not_undone(void **state)
{
    (void)state;
    struct world *world = begin_taken_back(NODE_REQUEST_PAUSE, NODE_REQUEST_RESUME);
    world->nodes[0].is_cut = true;
    say(world, NODE_REQUEST_PAUSE); /* before it sees anybody */
    assert_int_equal(world->reply.stored_on, 1);
    world->nodes[0].is_cut = false;
    world_run(world, 40000);
    assert_paused(world, true);
    bring_back_resume(world, 99);
    world_run(world, 5000);
    assert_paused(world, true);
    say(world, NODE_REQUEST_RESUME);
    world_run(world, 5000);
    assert_paused(world, false);
    world_free(world);
}

/* Node 1 says, perhaps late, that it has stored this version. */
static void say_stored_of(struct world *world, enum fact_kind kind, struct fact_key key, struct record_version version)
{
    struct message message = {.kind = MESSAGE_STORED, .boot = world->nodes[1].core->options.boot};
    message.u.stored.ident = record_ident_of(world->nodes[0].person.id, kind, key.bytes, key.count);
    message.u.stored.version = version;
    struct node_event event = {.kind = NODE_EVENT_MESSAGE};
    event.u.message.from = world->nodes[1].person.id;
    event.u.message.message = &message;
    world_step(world, 0, &event);
}

static void say_stored(struct world *world, struct record_version version)
{
    say_stored_of(world, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), version);
}

/* It is answered once both disks have what was said again, and not only what replaced it for a moment. */
static void an_answer_waits_for_what_was_said_again(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    const struct node_core *core = world->nodes[0].core;
    world->nodes[1].disk_refuses = true;
    world->reply.count = 0;
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world_run(world, 100);
    bring_back_resume(world, 50);
    world_run(world, 600);
    say_stored(world, (struct record_version){50ull << 32, 1});
    assert_int_equal(world->reply.count, 0);
    world->nodes[0].disk_refuses = true;
    bring_back_resume(world, 99);
    struct fact_key key = fact_key_experiment(make_experiment_id(0));
    const struct records_entry *said =
        records_find(&core->records, record_ident_of(core->options.self, FACT_CONTROL, key.bytes, key.count));
    say_stored(world, said->record.version);
    assert_int_equal(world->reply.count, 0);
    world->nodes[0].disk_refuses = world->nodes[1].disk_refuses = false;
    world_run(world, 3000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    assert_paused(world, true);
    world_free(world);
}

/* Its own word comes back only when it has long said that it is idle. */
static void a_drain_on_an_old_disk_is_not_undone(void **state)
{
    (void)state;
    for (uint32_t is_late = 0; is_late < 2; is_late++) {
        struct world *world = begin_taken_back(NODE_REQUEST_DRAIN, NODE_REQUEST_UNDRAIN);
        world->nodes[1].is_cut = is_late == 1;
        say(world, NODE_REQUEST_DRAIN);
        world_run(world, 60000);
        assert_int_equal(running(world, 0), 0);
        world->nodes[1].is_cut = false;
        world_run(world, 40000);
        for (uint32_t viewer = 0; viewer < 2; viewer++) {
            assert_true(view_member_drain(member_at(world, viewer, 0)).drained);
        }
        world_free(world);
    }
}

/* What came back says less than what others have said since. */
static void a_word_of_an_earlier_life_takes_back_nothing_that_others_said_since(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    say(world, NODE_REQUEST_PAUSE);
    say(world, NODE_REQUEST_DRAIN);
    world_run(world, 5000);
    world_request(world, 1, NODE_REQUEST_RESUME);
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_UNDRAIN;
    event.u.request.node = world->nodes[0].person.id;
    world_step(world, 1, &event);
    world_run(world, 5000);
    bring_back_resume(world, 99);
    bring_back_undrain(world, 99);
    world_run(world, 5000);
    assert_paused(world, false);
    for (uint32_t viewer = 0; viewer < 2; viewer++) {
        assert_false(view_member_drain(member_at(world, viewer, 0)).drained);
    }
    world_free(world);
}

/* The pause itself is on the disk, but what was said again is not, and what came back is above the pause. */
static void what_is_said_again_is_on_the_disk_before_the_answer(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world->disk_ms = 200;
    world->reply.count = 0;
    world_request(world, 0, NODE_REQUEST_PAUSE);
    world->nodes[0].disk_refuses = true;
    bring_back_resume(world, 50);
    world_run(world, CORE_ACK_MS + 2000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.code, ERR_NO_SPACE);
    world_free(world);
}

/* What another has stored says that the slot is not withheld. */
static void an_answer_for_a_slot_waits_for_what_was_said_again(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world_start_all(world);
    world->nodes[1].disk_refuses = true;
    struct node_event event = {.kind = NODE_EVENT_REQUEST};
    event.u.request.kind = NODE_REQUEST_WITHHOLD;
    event.u.request.slots = 1;
    world->reply.count = 0;
    world_step(world, 0, &event);
    world_run(world, 100);
    struct fact_slot fact = {.state = LEASE_FREE};
    struct made made;
    make_record(&made, world->nodes[0].person.id, 50ull << 32, 1, FACT_SLOT, fact_key_slot(0), &fact);
    world_deliver(world, 1, 0, &made);
    world_run(world, 600);
    say_stored_of(world, FACT_SLOT, fact_key_slot(0), (struct record_version){50ull << 32, 1});
    assert_int_equal(world->reply.count, 0);
    world->nodes[1].disk_refuses = false;
    world_run(world, 3000);
    assert_int_equal(world->reply.count, 1);
    assert_int_equal(world->reply.stored_on, 2);
    assert_withheld(world, true);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_withheld_slot_is_not_given_back),
        cmocka_unit_test(what_is_leased_on_an_old_disk_and_was_withheld_since_is_not_given_back),
        cmocka_unit_test(a_worker_that_is_found_in_a_slot_that_was_withheld_leaves_it),
        cmocka_unit_test(a_slot_that_is_returned_on_an_old_disk_stays_returned),
        cmocka_unit_test(who_has_caught_up_says_what_its_slots_hold),
        cmocka_unit_test(a_pause_on_an_old_disk_is_not_undone),
        cmocka_unit_test(an_answer_waits_for_what_was_said_again),
        cmocka_unit_test(a_drain_on_an_old_disk_is_not_undone),
        cmocka_unit_test(a_word_of_an_earlier_life_takes_back_nothing_that_others_said_since),
        cmocka_unit_test(what_is_said_again_is_on_the_disk_before_the_answer),
        cmocka_unit_test(an_answer_for_a_slot_waits_for_what_was_said_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

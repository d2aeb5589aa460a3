/* Stories of notes about experiments: they reach every node, and a pin forbids a deletion. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/coordinator/waiting.h"
#include "tests/scenario/core_story.h"

static void a_note_is_acknowledged_and_reaches_every_node(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 20, 5);
    world_annotate(world, 1, FACT_LABEL, true, "lr", "low");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 2);
    world_annotate(world, 2, FACT_LABEL, true, "lr", "high"); /* a later one, elsewhere */
    world_annotate(world, 2, FACT_DESCRIPTION, true, "", "warm restarts");
    world_run(world, 5000);
    for (uint32_t i = 0; i < 3; i++) {
        struct view_label_text labels[VIEW_LABELS_MAX];
        char text[FACT_NOTE_BYTES];
        assert_int_equal(view_experiment_labels(world_experiment(world, i), labels), 1);
        assert_string_equal(labels[0].value, "high");
        view_experiment_description(world_experiment(world, i), text);
        assert_string_equal(text, "warm restarts");
    }
    world_annotate(world, 0, FACT_LABEL, false, "lr", "");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_null(view_find_experiment(&world->nodes[2].core->view, make_experiment_id(1)));
    world_annotate(world, 0, FACT_LABEL, false, "lr", "");
    assert_int_equal(world->reply.code, ERR_NOT_FOUND);
    world_free(world);
}

static void a_pinned_experiment_is_not_deleted_until_it_is_unpinned(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 20, 5);
    world_annotate(world, 0, FACT_PINNED, true, "", "");
    world_run(world, 5000);
    world_request(world, 1, NODE_REQUEST_DELETE);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_non_null(world_experiment(world, 0));
    world_annotate(world, 1, FACT_PINNED, false, "", "");
    world_run(world, 5000);
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_null(world_experiment(world, 0));
    assert_null(world_experiment(world, 1));
    world_free(world);
}

static void only_an_experiment_that_is_over_is_archived(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 20, 5);
    world_annotate(world, 0, FACT_ARCHIVED, true, "", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 5000);
    world_annotate(world, 0, FACT_ARCHIVED, true, "", "");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_true(view_experiment_archived(world_experiment(world, 1)));
    world_free(world);
}

static void an_older_version_forbids_a_pin_but_no_label(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    world->nodes[1].is_older = true;
    (void)story_begin(world, 20, 5);
    world_annotate(world, 0, FACT_PINNED, true, "", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_annotate(world, 0, FACT_LABEL, true, "lr", "low");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

static void a_priority_is_obeyed_from_then_on(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 20, 5);
    assert_int_equal(view_experiment_priority(world_experiment(world, 1)), 42);
    world_annotate(world, 0, FACT_PRIORITY, true, "", "7");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(view_experiment_priority(world_experiment(world, 0)), 7);
    assert_int_equal(view_experiment_priority(world_experiment(world, 1)), 7);
    world_annotate(world, 1, FACT_PRIORITY, true, "", "700"); /* of a stranger: the configuration's counts */
    world_run(world, 5000);
    assert_int_equal(view_experiment_priority(world_experiment(world, 0)), 42);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 5000);
    world_annotate(world, 0, FACT_PRIORITY, true, "", "7");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_free(world);
}

static void there_are_no_more_labels_than_are_shown(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 20, 5);
    for (uint32_t i = 0; i < VIEW_LABELS_MAX; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "l%u", i);
        world_annotate(world, 0, FACT_LABEL, true, name, "");
        world_run(world, 1000);
        assert_int_equal(world->reply.code, 0);
    }
    world_annotate(world, 0, FACT_LABEL, true, "more", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_annotate(world, 0, FACT_LABEL, true, "l3", "another value");
    world_run(world, 1000);
    assert_int_equal(world->reply.code, 0);
    world_free(world);
}

static void there_are_no_more_notes_about_trials_than_a_table_looks_through(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    char text[FACT_NOTE_BYTES];
    (void)story_begin(world, 20, 5);
    for (uint32_t i = 0; i < VIEW_DESCRIBED_MAX; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "%u", i);
        world_annotate(world, 0, FACT_TRIAL_DESCRIPTION, true, name, "odd");
        world_run(world, 100);
        assert_int_equal(world->reply.code, 0);
    }
    world_annotate(world, 0, FACT_TRIAL_DESCRIPTION, true, "256", "odd");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    world_annotate(world, 1, FACT_TRIAL_DESCRIPTION, true, "255", "even");
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    assert_true(view_trial_description(world_experiment(world, 0), 255, text));
    assert_string_equal(text, "even");
    world_free(world);
}

/* Programs of the trials that run end with this status. */
static void end_all(struct world *world)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (running(world, i) > 0) {
            world_end_worker(world, i, 0, 0);
        }
    }
    world_run(world, 6000);
}

static void a_search_that_is_over_runs_again_with_further_trials(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 2, 5);
    end_all(world);
    assert_int_equal(view_experiment_state(world_experiment(world, 1)), VIEW_COMPLETED);
    world_annotate(world, 2, FACT_MAX_TRIALS, true, "2", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "exp has 2 trials already, and none is taken back; give a larger number of all trials together.");
    for (int i = 0; i < 2; i++) { /* the second time as if the first answer had been lost */
        world->reply.code = -1;
        world_annotate(world, 2, FACT_MAX_TRIALS, true, "4", "");
        world_run(world, 15000);
        assert_int_equal(world->reply.code, 0);
        assert_int_equal(world->reply.stored_on, 2);
    }
    assert_int_equal(view_experiment_state(world_experiment(world, 0)), VIEW_RUNNING);
    assert_int_equal(world_spawns(world), 4);
    end_all(world);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
        assert_int_equal(world_experiment(world, i)->trial_count, 4);
    }
    assert_int_equal(world_spawns(world), 4);
    world_free(world);
}

/* Beyond a cut the search is called over with the trials that are known there; with the note it lives again, and nothing runs twice. */
static void a_side_that_hears_late_of_further_trials_goes_on_with_them(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    (void)story_begin(world, 2, 5);
    uint32_t idle = running(world, 0) == 0 ? 0 : running(world, 1) == 0 ? 1 : 2, other = (idle + 1) % 3;
    world->nodes[idle].side = 1;
    world_annotate(world, idle, FACT_MAX_TRIALS, true, "4", "");
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    assert_int_equal(world->reply.stored_on, 1);
    end_all(world);
    assert_int_equal(view_experiment_state(world_experiment(world, other)), VIEW_COMPLETED);
    assert_int_equal(world_experiment(world, other)->trial_count, 2);
    world_run(world, 30000);
    assert_int_equal(running(world, idle), 1);
    heal(world);
    world_run(world, 30000);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_RUNNING);
        assert_int_equal(world_experiment(world, i)->trial_count, 4);
    }
    end_all(world);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(view_experiment_state(world_experiment(world, i)), VIEW_COMPLETED);
    }
    assert_int_equal(world_spawns(world), 4);
    world_free(world);
}

static void a_cancelled_search_gets_no_further_trials(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    (void)story_begin(world, 2, 5);
    world_request(world, 1, NODE_REQUEST_CANCEL);
    world_run(world, 20000);
    world_annotate(world, 0, FACT_MAX_TRIALS, true, "4", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "exp is cancelled, so none of its trials begins; shoal fork submits it again.");
    world_free(world);
}

static void an_older_version_forbids_further_trials_and_coordinates_none(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    world->nodes[1].is_older = true;
    (void)story_begin(world, 8, 5);
    world_annotate(world, 0, FACT_MAX_TRIALS, true, "9", "");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not heed further trials of a search; update that node first.");
    world_annotate(world, 0, FACT_MAX_SLOTS, true, "", "3");
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not heed a new max_slots; update that node first.");
    world_crash(world, 1);
    world_run(world, 20000);
    world_annotate(world, 0, FACT_MAX_TRIALS, true, "9", "");
    world_run(world, 10000);
    assert_int_equal(world->reply.code, 0);
    world_restart(world, 1, false); /* it was away meanwhile, and takes no part: it would know of eight trials only */
    world_run(world, 60000);
    assert_int_equal(running(world, 1), 0); /* trials wait, and its slot is free */
    assert_int_equal(running(world, 0) + running(world, 2), 2);
    world_free(world);
}

static struct config forked_config(void)
{
    struct config config;
    make_config(&config, 1, 5);
    config.searcher = SEARCH_SINGLE;
    config.max_trials = 0;
    (void)bytes_copy_text(config.begin_from, sizeof config.begin_from, "0102030405060708/3@40");
    return config;
}

/* Nothing begins on these nodes, or may begin again. */
static void drain_all(struct world *world, bool drained)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        struct node_event event = {.kind = NODE_EVENT_REQUEST};
        event.u.request.kind = drained ? NODE_REQUEST_DRAIN : NODE_REQUEST_UNDRAIN;
        event.u.request.client = 7;
        event.u.request.node = world->nodes[i].person.id;
        world_step(world, 2, &event);
    }
    world_run(world, 5000);
}

static void a_forked_trial_begins_with_the_checkpoint_and_never_from_nothing(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config = forked_config();
    char reason[256];
    config.checkpoint_replicas = 1;
    world->program = WORLD_RUNS_FOREVER;
    world_start_all(world);
    drain_all(world, true);
    world_submit(world, 0, &config);
    world_run(world, 5000);
    assert_int_equal(world->reply.code, 0);
    world_crash(world, 0); /* the only holder of the checkpoint */
    drain_all(world, false);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 0);
    assert_true(waiting_reason(world->nodes[1].core, world_experiment(world, 1), 0, reason, sizeof reason));
    assert_string_equal(reason, "no node that can be reached holds the checkpoint that it begins with (0102030405060708/3@40)");
    world_restart(world, 0, false);
    world_run(world, 60000);
    assert_int_equal(world_spawns(world), 1);
    const struct view_trial *trial = view_find_trial(world_experiment(world, 1), 0);
    const struct view_attempt *highest = view_trial_highest(trial);
    assert_int_equal(highest->id.number, 2);
    assert_int_equal(highest->start_step, 40);
    assert_int_equal(highest->checkpoint.bytes[0], WORLD_BEGIN_BYTE);
    assert_true(trial->manifests != NULL && trial->manifests->step == 40);
    world_free(world);
}

static void an_older_version_forbids_a_fork_from_a_checkpoint(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config = forked_config();
    world->nodes[1].is_older = true;
    world_start_all(world);
    world_submit(world, 0, &config);
    assert_int_equal(world->reply.code, ERR_REFUSED);
    assert_string_equal(world->reply.text, "b runs a version of Shoal that does not know checkpoint.begin_from; update that node first.");
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_note_is_acknowledged_and_reaches_every_node),
        cmocka_unit_test(a_pinned_experiment_is_not_deleted_until_it_is_unpinned),
        cmocka_unit_test(only_an_experiment_that_is_over_is_archived),
        cmocka_unit_test(an_older_version_forbids_a_pin_but_no_label),
        cmocka_unit_test(a_priority_is_obeyed_from_then_on),
        cmocka_unit_test(there_are_no_more_labels_than_are_shown),
        cmocka_unit_test(there_are_no_more_notes_about_trials_than_a_table_looks_through),
        cmocka_unit_test(a_forked_trial_begins_with_the_checkpoint_and_never_from_nothing),
        cmocka_unit_test(an_older_version_forbids_a_fork_from_a_checkpoint),
        cmocka_unit_test(a_search_that_is_over_runs_again_with_further_trials),
        cmocka_unit_test(a_side_that_hears_late_of_further_trials_goes_on_with_them),
        cmocka_unit_test(a_cancelled_search_gets_no_further_trials),
        cmocka_unit_test(an_older_version_forbids_further_trials_and_coordinates_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

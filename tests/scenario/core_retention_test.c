/* Checkpoints that are kept no longer: when they are let go, and when not. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/core/copies/checkpoints.h"
#include "node/core/members/members.h"
#include "tests/scenario/core_story.h"

#define RETENTION_MS (2 * CORE_RETENTION_MS)

static hash256 blob_of(uint64_t step)
{
    hash256 blob = {{0}};
    bytes_put_u64(blob.bytes, step);
    return blob;
}

/* The worker of this node saves; a metric below 0: none. */
static void save_on(struct world *world, uint32_t node, uint64_t step, double metric)
{
    uint8_t metrics[FACT_METRICS_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_CHECKPOINT, .bytes = metrics};
    event.byte_count = metric >= 0 ? make_metrics(metrics, metric) : 0;
    event.u.blob.attempt = world->nodes[node].workers[0].attempt;
    event.u.blob.step = step;
    event.u.blob.bytes = 1000;
    event.u.blob.blob = blob_of(step);
    world_step(world, node, &event);
    world_run(world, 100);
}

/* The one worker saves. */
static void save(struct world *world, uint64_t step, double metric)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        if (world->nodes[i].is_up && world->nodes[i].workers[0].runs) {
            save_on(world, i, step, metric);
            return;
        }
    }
    fail_msg("no worker runs");
}

/* One trial of one slot, each checkpoint of which shall be on so many nodes. */
static void start_training(struct world *world, uint32_t copies)
{
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = copies;
    (void)story_begin_with(world, &config, 5000);
}

/* The best is at 20. */
static void save_three(struct world *world)
{
    save(world, 10, 0.1);
    save(world, 20, 0.9);
    save(world, 30, 0.5);
}

static void begin(struct world *world)
{
    start_training(world, 2);
    save_three(world);
}

/* The steps of the checkpoints that this node would list of a trial, newest first. */
static void assert_trial_listed(const struct world *world, uint32_t node, uint32_t index, const char *expected)
{
    char text[128] = "";
    struct view_manifest found;
    const struct view_trial *trial = view_find_trial(world_experiment(world, node), index);
    for (const struct view_manifest *row = trial->manifests; core_checkpoints_next(world->nodes[node].core, &row, &found);) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "%s%llu", used > 0 ? " " : "", (unsigned long long)found.step);
    }
    assert_string_equal(text, expected);
}

static void assert_listed(const struct world *world, uint32_t node, const char *expected)
{
    assert_trial_listed(world, node, 0, expected);
}

static bool is_named(const struct world *world, uint32_t node, hash256 blob)
{
    for (uint32_t i = 0; i < world->nodes[node].named_count; i++) {
        if (hash256_equal(world->nodes[node].named[i], blob)) {
            return true;
        }
    }
    return false;
}

static void what_is_neither_newest_nor_best_is_let_go(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world);
    assert_listed(world, 1, "30 20 10");
    world_run(world, RETENTION_MS);
    assert_true(world_find(world, 0, "exp trial 0: the checkpoint of step 10 is kept no longer") != SIZE_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        assert_listed(world, i, "30 20");
    }
    uint32_t asked = world_count(world, "> confirm");
    assert_true(asked >= 4); /* two copies of each that is kept */
    world_run(world, 300000);
    assert_int_equal(world_count(world, "> confirm"), asked); /* nothing more to let go, nothing more to ask */
    save(world, 40, 0.2);
    world_run(world, RETENTION_MS);
    assert_listed(world, 2, "40 20");
    world_run(world, CORE_COLLECT_MS + RETENTION_MS);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(is_named(world, i, blob_of(40)) && is_named(world, i, blob_of(20)));
        assert_true(is_named(world, i, world_experiment(world, i)->code));
        assert_true(is_named(world, i, world_experiment(world, i)->config_text));
        assert_false(is_named(world, i, blob_of(10)) || is_named(world, i, blob_of(30)));
    }
    world_free(world);
}

/* Three trials on as many nodes, the best of them all one node's. What the others have is behind those, though none of their
 * own is. */
static void the_best_of_one_node_let_go_what_others_have(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    struct config config;
    make_config(&config, 3, 5);
    config.checkpoint_replicas = 2;
    config.save_trial_best = 0;
    config.save_trial_latest = 1;
    config.save_experiment_best = 2;
    (void)story_begin_with(world, &config, 10000);
    uint32_t trials[3];
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(world->nodes[i].workers[0].runs);
        trials[i] = world->nodes[i].workers[0].attempt.trial;
        double better = i == 0 ? 0.5 : 0;
        save_on(world, i, 100 * i + 10, 0.4 + better);
        save_on(world, i, 100 * i + 20, 0.3 + better);
        save_on(world, i, 100 * i + 30, 0.1);
    }
    assert_trial_listed(world, 0, trials[2], "230 220 210");
    world_run(world, 2 * RETENTION_MS);
    assert_trial_listed(world, 2, trials[0], "30 20 10");
    assert_trial_listed(world, 0, trials[1], "130");
    assert_trial_listed(world, 0, trials[2], "230");
    uint32_t asked = world_count(world, "> confirm");
    world_run(world, 2 * CORE_CONFIRM_FRESH_MS);
    assert_int_equal(world_count(world, "> confirm"), asked);
    world_free(world);
}

static void nothing_is_let_go_while_a_copy_of_what_is_kept_is_bad(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].has_bad_copies = true;
    }
    begin(world);
    world_run(world, 120000);
    assert_listed(world, 0, "30 20 10");
    for (uint32_t i = 0; i < 3; i++) {
        world->nodes[i].has_bad_copies = false;
    }
    world_run(world, 120000);
    assert_listed(world, 0, "30 20");
    world_free(world);
}

static void nothing_is_let_go_or_collected_while_a_member_is_away(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    start_training(world, 1);
    uint32_t idle = 0; /* neither the worker's nor the coordinator's */
    while (world->nodes[idle].workers[0].runs || (int)idle == world_coordinator(world)) {
        idle++;
    }
    world_crash(world, idle);
    world_run(world, 10000);
    save_three(world);
    uint32_t other = (idle + 1) % 3;
    world_run(world, CORE_COLLECT_MS + 60000);
    assert_listed(world, other, "30 20 10");
    assert_true(world_find(world, 0, "> collect") == SIZE_MAX);
    world_restart(world, idle, false);
    world_run(world, 60000);
    assert_listed(world, other, "30 20");
    assert_true(world_find(world, 0, "> collect") != SIZE_MAX);
    world_free(world);
}

static void a_full_disk_does_not_wait_for_who_is_away(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    start_training(world, 1);
    uint32_t idle = 0;
    while (world->nodes[idle].workers[0].runs) {
        idle++;
    }
    uint32_t busy = 0;
    while (!world->nodes[busy].workers[0].runs) {
        busy++;
    }
    world_crash(world, idle);
    world_run(world, 10000);
    save_three(world);
    struct node_event full = {.kind = NODE_EVENT_DISK};
    full.u.disk.full = true;
    world_step(world, busy, &full);
    world_run(world, CORE_COLLECT_FULL_MS + RETENTION_MS);
    assert_listed(world, busy, "30 20");
    assert_true(world->nodes[busy].named_count > 0);
    assert_false(is_named(world, busy, blob_of(10)));
    world_free(world);
}

/* Saving goes on faster than copies can be confirmed. */
static void a_trial_that_saves_all_the_time_lets_go_too(void **state)
{
    (void)state;
    struct world *world = world_new(3, 1);
    begin(world);
    for (uint64_t step = 40; step < 400; step += 10) {
        save(world, step, (double)step / 1000);
        world_run(world, 1500);
    }
    const struct view_trial *trial = view_find_trial(world_experiment(world, 1), 0);
    uint32_t count = 0;
    struct view_manifest found;
    bool has_best = false;
    for (const struct view_manifest *row = trial->manifests; core_checkpoints_next(world->nodes[1].core, &row, &found); count++) {
        has_best |= found.step == 20;
    }
    assert_in_range(count, 2, 12); /* of 39; what a look finds goes at the next one */
    assert_true(has_best);
    world_free(world);
}

static void pause_with_a_checkpoint(struct world *world)
{
    world_start_all(world);
    story_submit(world, 0, 1, 5);
    assert_line(world, 60000, "> spawn trial 0");
    world_run(world, 5000);
    world_request(world, 0, NODE_REQUEST_PAUSE);
    assert_line(world, 60000, "> persist manifest");
    world_run(world, 5000);
}

/* Its holders live, as the manifests say, and do not have it: the disk of one was lost, or a twin had it. (Seed 27923 of the
 * simulator.) */
static void a_trial_whose_checkpoints_are_not_there_begins_anew(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    pause_with_a_checkpoint(world);
    for (uint32_t i = 0; i < 2; i++) {
        world->nodes[i].has_bad_copies = true;
    }
    world->program = WORLD_RUNS_2S;
    size_t before = world->log_bytes;
    world_request(world, 1, NODE_REQUEST_RESUME);
    assert_true(world_run_until(world, 60000, before, "trial 0 attempt 2 from step "));
    assert_true(world_find(world, before, "trial 0 attempt 2 from step 0 ") == SIZE_MAX);
    assert_true(world_run_until(world, 120000, before, " from step 0 "));
    assert_true(world_run_until(world, 60000, before, "completed, every rank is done"));
    world_free(world);
}

/* What it lacked before it was known that the checkpoint is on no disk it lacks no more: it does not wait for two further
 * minutes then. (Seed 10981 of the simulator.) */
static void a_trial_that_was_lost_often_begins_anew_once_its_checkpoint_is_known_to_be_lost(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    pause_with_a_checkpoint(world);
    world->nodes[0].prepares_nothing = true;
    world->program = WORLD_RUNS_2S;
    world_request(world, 0, NODE_REQUEST_RESUME);
    assert_true(world_run_until(world, 30 * 60000, 0, "trial 0 attempt 12 from step "));
    assert_int_equal(world_count(world, " from step 0 "), 1);
    world->nodes[0].prepares_nothing = false;
    world->nodes[0].has_bad_copies = true;
    size_t before = world->log_bytes;
    assert_true(world_run_until(world, 10 * 60000, before, "confirm"));
    assert_true(world_run_until(world, 10000, before, " from step 0 "));
    assert_true(world_run_until(world, 60000, before, "completed, every rank is done"));
    world_free(world);
}

/* The same of files that the worker has left: the next attempt, which begins without them, does not wait. */
static void a_trial_that_was_lost_often_begins_anew_once_its_files_are_known_to_be_lost(void **state)
{
    (void)state;
    struct world *world = world_new(1, 1);
    world_start_all(world);
    story_submit(world, 0, 1, 5);
    assert_line(world, 60000, "> spawn trial 0");
    struct node_event event = {.kind = NODE_EVENT_OUTPUT};
    event.u.output.attempt = world->nodes[0].workers[0].attempt;
    event.u.output.blob = blob_of(7);
    event.u.output.bytes = 1000;
    event.u.output.files = 1;
    world_step(world, 0, &event);
    world->nodes[0].prepares_nothing = true;
    world->program = WORLD_RUNS_2S;
    world_end_worker(world, 0, 0, -9);
    assert_true(world_run_until(world, 30 * 60000, 0, "trial 0 attempt 12 from step "));
    world->nodes[0].prepares_nothing = false;
    world->nodes[0].has_bad_copies = true;
    size_t before = world->log_bytes;
    assert_true(world_run_until(world, 10 * 60000, before, "confirm"));
    assert_true(world_run_until(world, 10000, before, "> spawn trial 0"));
    assert_true(world_run_until(world, 60000, before, "completed, every rank is done"));
    world_free(world);
}

/* One rank runs already when the other rank's node finds no copy: the holders are asked all the same. */
static void copies_that_one_rank_does_not_find_are_asked_for(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.slots_per_trial = config.min_slots = config.max_slots = 2;
    config.checkpoint_replicas = 2;
    (void)story_begin_with(world, &config, 5000);
    save(world, 10, 0.5);
    uint32_t other = world->nodes[0].workers[0].rank == 0 ? 1 : 0;
    world->nodes[other].prepares_nothing = true;
    size_t before = world->log_bytes;
    world_end_worker(world, other, 0, 1);
    assert_true(world_run_until(world, 60000, before, "> spawn trial 0 attempt 2 rank 0"));
    assert_true(world_run_until(world, 60000, before, "> confirm"));
    world_free(world);
}

/* Whoever has the last copy makes no further ones of what nobody keeps, which it then would have to let go once more, for
 * ever. */
static void what_is_kept_no_longer_is_not_copied_again(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    world->program = WORLD_RUNS_FOREVER;
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = 2;
    config.save_trial_latest = config.save_trial_best = config.save_experiment_best = 0;
    (void)story_begin_with(world, &config, 5000);
    save(world, 10, -1);
    uint32_t saver = 0;
    while (!world->nodes[saver].workers[0].runs) {
        saver++;
    }
    world_end_worker(world, saver, 0, 0);
    world_run(world, 1000);
    world_request(world, saver, NODE_REQUEST_LEAVE);
    world_run(world, 2 * RETENTION_MS);
    uint32_t written = world_count(world, "persist manifest"), copies = world_count(world, "> push");
    assert_true(written > 0 && copies > 0);
    world_run(world, 300000);
    assert_int_equal(world_count(world, "persist manifest"), written);
    assert_int_equal(world_count(world, "> push"), copies);
    world_free(world);
}

/* The newest is kept, and was on one disk only, which is lost. The one before is what is left of the trial. */
static void the_newest_that_is_left_stands_for_what_is_kept_and_lost(void **state)
{
    (void)state;
    struct world *world = world_new(5, 1);
    struct config config;
    make_config(&config, 1, 5);
    config.checkpoint_replicas = 2;
    config.save_trial_latest = 1;
    config.save_trial_best = config.save_experiment_best = 0;
    (void)story_begin_with(world, &config, 5000);
    uint32_t saver = 0;
    while (!world->nodes[saver].workers[0].runs) {
        saver++;
    }
    uint32_t other = (saver + 1) % 5;
    save(world, 10, -1);
    for (uint32_t i = 0; i < 5; i++) {
        world->nodes[i].disk_is_full = i != saver;
    }
    save(world, 30, -1);
    world_end_worker(world, saver, 0, 0);
    world_run(world, 2000);
    world_die(world, saver);
    for (uint32_t i = 0; i < 5; i++) {
        world->nodes[i].disk_is_full = false;
    }
    world_run(world, 120000);
    struct view_manifest found;
    const struct view_trial *trial = view_find_trial(world_experiment(world, other), 0);
    const struct view_manifest *newest = core_checkpoints_newest(world->nodes[other].core, trial);
    assert_int_equal(newest->step, 10);
    (void)core_checkpoints_unite(world->nodes[other].core, newest, &found);
    uint32_t living = 0;
    for (uint32_t i = 0; i < found.holder_count; i++) {
        living += core_node_alive(world->nodes[other].core, found.holders[i]);
    }
    assert_int_equal(living, 2);
    uint32_t written = world_count(world, "persist manifest");
    world_run(world, 300000);
    assert_int_equal(world_count(world, "persist manifest"), written);
    world_free(world);
}

/* A deleted experiment's blobs are named no more; nor is a checkpoint of one that is completed and keeps none. */
static void what_is_deleted_is_not_named(void **state)
{
    (void)state;
    struct world *world = world_new(2, 1);
    begin(world);
    world_run(world, CORE_COLLECT_MS + RETENTION_MS);
    assert_true(is_named(world, 0, blob_of(30)) && is_named(world, 1, blob_of(30)));
    world_request(world, 0, NODE_REQUEST_DELETE);
    world_run(world, CORE_COLLECT_MS + RETENTION_MS);
    assert_int_equal(world->nodes[0].named_count, 0);
    assert_int_equal(world->nodes[1].named_count, 0);
    world_free(world);
}

/* More than there is room for in what one step can say otherwise. */
static void many_named_blobs_are_no_reason_not_to_collect(void **state)
{
    (void)state;
    enum { COUNT = 70000 };
    struct world *world = world_new(2, 1);
    world_start_all(world);
    struct node_core *core = world->nodes[0].core;
    struct core_push *pushes = calloc(COUNT, sizeof *pushes);
    assert_non_null(pushes);
    for (uint64_t i = 0; i < COUNT; i++) {
        pushes[i].blob = blob_of(1 + i);
        pushes[i].waiting_count = 1;
        pushes[i].progress = CORE_PUSH_PUBLISHED;
        pushes[i].next = i + 1 < COUNT ? &pushes[i + 1] : NULL;
    }
    core->copies->pushes = pushes;
    world_run(world, CORE_COLLECT_MS + RETENTION_MS);
    core->copies->pushes = NULL;
    assert_int_equal(world->nodes[0].named_count, COUNT);
    assert_true(is_named(world, 0, blob_of(1)) && is_named(world, 0, blob_of(COUNT)));
    assert_int_equal(world->nodes[1].named_count, 0);
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_int_equal(world->nodes[0].named_count, 0);
    assert_int_equal(core->counters.full, 0);
    free(pushes);
    world_free(world);
}

/* All but that node would keep the newest, the best and the one that the running attempt began with. */
static void assert_three_named(const struct world *world, uint32_t but_for)
{
    for (uint32_t i = 0; i < world->node_count; i++) {
        assert_true(i == but_for || (is_named(world, i, blob_of(40)) && is_named(world, i, blob_of(20)) &&
                                     is_named(world, i, blob_of(30)) && !is_named(world, i, blob_of(10))));
    }
}

/* Its rows are never written again: each of the others asks for what is kept until it has passed over them, and no longer. */
static void what_one_who_is_out_has_written_is_not_asked_about_for_ever(void **state)
{
    (void)state;
    struct world *world = world_new(4, 1);
    begin(world);
    uint32_t saver = 0;
    while (!world->nodes[saver].workers[0].runs) {
        saver++;
    }
    uint32_t other = (saver + 1) % 4;
    world_evict(world, other, saver, false);
    world_run(world, 60000);
    save(world, 40, 0.2);
    assert_listed(world, other, "40 30 20 10");
    world_run(world, 2 * CORE_COLLECT_MS);
    assert_three_named(world, saver);
    uint32_t asked = world_count(world, "> confirm"), collected = world_count(world, "> collect");
    world_run(world, 4 * CORE_COLLECT_MS);
    assert_int_equal(world_count(world, "> confirm"), asked);
    assert_int_equal(world_count(world, "> collect"), collected + 3 * 4);
    assert_three_named(world, saver);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_neither_newest_nor_best_is_let_go),
        cmocka_unit_test(the_best_of_one_node_let_go_what_others_have),
        cmocka_unit_test(nothing_is_let_go_while_a_copy_of_what_is_kept_is_bad),
        cmocka_unit_test(nothing_is_let_go_or_collected_while_a_member_is_away),
        cmocka_unit_test(a_full_disk_does_not_wait_for_who_is_away),
        cmocka_unit_test(a_trial_that_saves_all_the_time_lets_go_too),
        cmocka_unit_test(what_is_kept_no_longer_is_not_copied_again),
        cmocka_unit_test(the_newest_that_is_left_stands_for_what_is_kept_and_lost),
        cmocka_unit_test(what_is_deleted_is_not_named),
        cmocka_unit_test(many_named_blobs_are_no_reason_not_to_collect),
        cmocka_unit_test(a_trial_whose_checkpoints_are_not_there_begins_anew),
        cmocka_unit_test(a_trial_that_was_lost_often_begins_anew_once_its_checkpoint_is_known_to_be_lost),
        cmocka_unit_test(a_trial_that_was_lost_often_begins_anew_once_its_files_are_known_to_be_lost),
        cmocka_unit_test(copies_that_one_rank_does_not_find_are_asked_for),
        cmocka_unit_test(what_one_who_is_out_has_written_is_not_asked_about_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which checkpoints are kept, from tables of records. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/core/view/retention.h"
#include "tests/unit/facts_make.h"
#include "tests/unit/put_envelope.h"

#define MEMORY_BYTES (1u << 20)

struct fold {
    void *memory;
    struct arena arena;
    struct records records;
    struct view view;
    uint64_t seq;
    struct view_experiment *experiment;
};

static void say(struct fold *fold, uint32_t writer, enum fact_kind kind, struct fact_key key, const void *fact)
{
    struct made made;
    struct records_entry *entry;
    make_record(&made, make_person(writer).id, 1, ++fold->seq, kind, key, fact);
    assert_int_equal(put_envelope(&fold->records, made.bytes, made.count, true, &entry), 0);
    assert_int_equal(view_apply(&fold->view, entry), 0);
}

/* An experiment of three trials that run. */
static void begin(struct fold *fold, uint32_t experiment_best, uint32_t trial_best, uint32_t trial_latest, bool smaller)
{
    *fold = (struct fold){.memory = aligned_alloc(16, MEMORY_BYTES)};
    arena_init(&fold->arena, fold->memory, MEMORY_BYTES);
    assert_int_equal(records_init(&fold->records, &fold->arena), 0);
    view_init(&fold->view, &fold->arena, &fold->records, make_mesh());
    struct config config;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    make_config(&config, 3, 5);
    config.save_experiment_best = experiment_best;
    config.save_trial_best = trial_best;
    config.save_trial_latest = trial_latest;
    config.smaller_is_better = smaller;
    struct fact_experiment fact = {.config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(fold, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    fold->experiment = view_find_experiment(&fold->view, make_experiment_id(0));
}

static attempt_id attempt_of(uint32_t trial, uint32_t number)
{
    return make_attempt_id(0, trial, number, 1, make_person(1).id);
}

static hash256 blob_of(uint32_t trial, uint64_t step)
{
    hash256 blob = {{(uint8_t)(1 + trial), (uint8_t)(step / 256), (uint8_t)step}};
    return blob;
}

/* A metric below 0: none. */
static void save(struct fold *fold, uint32_t trial, uint64_t step, double metric, uint32_t holders, bool durable)
{
    attempt_id id = attempt_of(trial, 1);
    struct fact_manifest fact = {.blob = blob_of(trial, step),
                                 .bytes = 10,
                                 .holder_count = holders,
                                 .holders = {make_person(1).id, make_person(2).id},
                                 .durable = durable,
                                 .has_metric = metric >= 0,
                                 .metric = metric >= 0 ? metric : 0};
    say(fold, 1, FACT_MANIFEST, fact_key_manifest(&id, step), &fact);
}

static void assign(struct fold *fold, uint32_t trial, uint32_t number, hash256 checkpoint)
{
    attempt_id id = attempt_of(trial, number);
    struct fact_attempt fact = {.member_count = 1, .members = {{make_person(1).id, 0}}, .checkpoint = checkpoint};
    say(fold, 1, FACT_ATTEMPT, fact_key_attempt(&id), &fact);
}

static void end(struct fold *fold, uint32_t trial, uint32_t number, enum fact_reason reason)
{
    attempt_id id = attempt_of(trial, number);
    struct fact_verdict fact = {.reason = reason};
    say(fold, 1, FACT_VERDICT, fact_key_verdict(&id), &fact);
}

/* The steps that are kept of a trial, newest first, as "30 10". */
static void assert_kept(struct fold *fold, uint32_t trial, const char *expected)
{
    char text[128] = "";
    retention_mark(fold->experiment);
    for (const struct view_manifest *row = fold->experiment->trials[trial]->manifests; row != NULL; row = row->next) {
        if (row->is_kept) {
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%s%llu", used > 0 ? " " : "", (unsigned long long)row->step);
        }
    }
    assert_string_equal(text, expected);
}

static void finish(struct fold *fold)
{
    free(fold->memory);
}

static void newest_and_best_of_each_trial_are_kept(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 1, 1, false);
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.9, 2, true);
    save(&fold, 0, 30, 0.7, 2, true);
    save(&fold, 0, 40, 0.8, 2, true);
    save(&fold, 1, 10, 0.1, 2, true);
    assert_kept(&fold, 0, "40 20");
    assert_kept(&fold, 1, "10");
    fold.experiment->config->save_trial_best = 3;
    fold.experiment->config->save_trial_latest = 2;
    assert_kept(&fold, 0, "40 30 20");
    fold.experiment->config->save_trial_best = 100;
    assert_kept(&fold, 0, "40 30 20 10");
    finish(&fold);
}

static void best_follows_the_searcher(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 1, 0, true);
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.7, 2, true);
    save(&fold, 0, 30, -1, 2, true); /* without a metric it is never the best, */
    assert_kept(&fold, 0, "30 10");  /* ... but the trial goes on from it */
    finish(&fold);
}

static void a_trial_that_is_over_keeps_what_the_numbers_say(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 0, 0, false);
    assign(&fold, 0, 1, (hash256){{0}});
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.4, 2, true);
    assert_kept(&fold, 0, "20"); /* the newest of a live trial is never let go */
    end(&fold, 0, 1, FACT_LOST);
    assert_kept(&fold, 0, "20");
    end(&fold, 0, 1, FACT_COMPLETED);
    assert_kept(&fold, 0, "");
    finish(&fold);
}

static void a_live_trial_keeps_the_newest_durable_one_too(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 0, 1, false);
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.5, 2, true);
    save(&fold, 0, 30, 0.5, 1, false);
    assert_kept(&fold, 0, "30 20");
    save(&fold, 0, 30, 0.5, 2, true);
    assert_kept(&fold, 0, "30");
    save(&fold, 0, 30, 0.5, 0, false); /* let go: then it is none */
    assert_kept(&fold, 0, "20");
    finish(&fold);
}

static void what_an_attempt_begins_with_is_kept_until_its_end(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 0, 1, false);
    save(&fold, 0, 10, 0.5, 2, true);
    assign(&fold, 0, 2, blob_of(0, 10));
    save(&fold, 0, 20, 0.5, 2, true);
    assert_kept(&fold, 0, "20 10");
    end(&fold, 0, 2, FACT_LOST);
    assert_kept(&fold, 0, "20");
    finish(&fold);
}

static void the_best_of_the_experiment_may_be_of_any_trial(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 3, 0, 1, false);
    for (uint32_t trial = 0; trial < 3; trial++) {
        for (uint64_t step = 10; step <= 40; step += 10) {
            save(&fold, trial, step, (double)step / 100 + (trial == 1 ? 0.15 : 0), 2, true);
        }
    }
    assert_kept(&fold, 0, "40");       /* 0.40 */
    assert_kept(&fold, 1, "40 30");    /* 0.55, 0.45 */
    assert_kept(&fold, 2, "40");       /* newest only: of equals the lower trial is the best */
    fold.experiment->config->save_experiment_best = 5;
    assert_kept(&fold, 1, "40 30 20"); /* 0.35; the fourth is trial 2's 0.40 */
    finish(&fold);
}

static void a_pinned_experiment_keeps_all(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 0, 0, false);
    assign(&fold, 0, 1, (hash256){{0}});
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.4, 2, true);
    save(&fold, 0, 30, -1, 0, false); /* let go already */
    end(&fold, 0, 1, FACT_COMPLETED);
    assert_kept(&fold, 0, "");
    assert_false(retention_keeps_outputs(fold.experiment));
    struct fact_annotation pin = {.lamport = 1, .is_set = true};
    struct view_manifest *newest_but_one = fold.experiment->trials[0]->manifests->next;
    say(&fold, 2, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_PINNED, ""), &pin);
    assert_false(retention_may_go(fold.experiment, fold.experiment->trials[0], newest_but_one)); /* also before the next look */
    assert_kept(&fold, 0, "20 10");
    assert_true(retention_keeps_outputs(fold.experiment));
    pin = (struct fact_annotation){.lamport = 2};
    say(&fold, 2, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_PINNED, ""), &pin);
    assert_kept(&fold, 0, "");
    finish(&fold);
}

static void mark_as_safe(struct fold *fold, uint32_t trial, uint64_t step)
{
    for (struct view_manifest *row = fold->experiment->trials[trial]->manifests; row != NULL; row = row->next) {
        row->is_safe |= row->step == step;
    }
}

/* The steps that may be let go, newest first. */
static void assert_may_go(struct fold *fold, uint32_t trial, const char *expected)
{
    char text[128] = "";
    retention_mark(fold->experiment);
    retention_find_bar(fold->experiment);
    for (const struct view_manifest *row = fold->experiment->trials[trial]->manifests; row != NULL; row = row->next) {
        if (retention_may_go(fold->experiment, fold->experiment->trials[trial], row)) {
            size_t used = strlen(text);
            (void)snprintf(text + used, sizeof text - used, "%s%llu", used > 0 ? " " : "", (unsigned long long)row->step);
        }
    }
    assert_string_equal(text, expected);
}

/* The metric is as last reported when they were saved: 10 is what was measured, 20 and 30 were trained on since. */
static void of_checkpoints_with_one_metric_the_one_that_was_measured_is_the_best(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 1, 1, 0, false);
    save(&fold, 0, 10, 0.9, 2, true);
    save(&fold, 0, 20, 0.9, 2, true);
    save(&fold, 0, 30, 0.9, 2, true);
    save(&fold, 0, 40, 0.8, 2, true);
    save(&fold, 0, 50, 0.8, 2, true);
    assert_kept(&fold, 0, "50 10");
    for (uint64_t step = 10; step <= 50; step += 10) {
        mark_as_safe(&fold, 0, step);
    }
    assert_may_go(&fold, 0, "40 30 20");
    fold.experiment->config->save_trial_best = 4;
    assert_kept(&fold, 0, "50 40 30 20 10");
    fold.experiment->config->save_trial_best = 2;
    assert_kept(&fold, 0, "50 20 10");
    finish(&fold);
}

static void only_what_is_safe_lets_others_go(void **state)
{
    (void)state;
    struct fold fold;
    begin(&fold, 0, 1, 1, false);
    save(&fold, 0, 10, 0.5, 2, true);
    save(&fold, 0, 20, 0.9, 2, true);
    save(&fold, 0, 30, 0.6, 2, true);
    save(&fold, 0, 40, 0.7, 2, true);
    save(&fold, 0, 50, 0.8, 2, true);
    assert_may_go(&fold, 0, "");
    mark_as_safe(&fold, 0, 30); /* newer and better than 10 only */
    assert_may_go(&fold, 0, "10");
    mark_as_safe(&fold, 0, 20); /* better than all */
    assert_may_go(&fold, 0, "10");
    mark_as_safe(&fold, 0, 50);
    assert_may_go(&fold, 0, "40 30 10");
    fold.experiment->config->save_experiment_best = 2;
    assert_may_go(&fold, 0, "40 30 10");
    fold.experiment->config->save_experiment_best = 3; /* 0.9, 0.8, and 0.7, which is not safe: so 0.6 stays */
    assert_may_go(&fold, 0, "10");
    finish(&fold);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_and_best_of_each_trial_are_kept),
        cmocka_unit_test(best_follows_the_searcher),
        cmocka_unit_test(a_trial_that_is_over_keeps_what_the_numbers_say),
        cmocka_unit_test(a_live_trial_keeps_the_newest_durable_one_too),
        cmocka_unit_test(what_an_attempt_begins_with_is_kept_until_its_end),
        cmocka_unit_test(of_checkpoints_with_one_metric_the_one_that_was_measured_is_the_best),
        cmocka_unit_test(only_what_is_safe_lets_others_go),
        cmocka_unit_test(the_best_of_the_experiment_may_be_of_any_trial),
        cmocka_unit_test(a_pinned_experiment_keeps_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

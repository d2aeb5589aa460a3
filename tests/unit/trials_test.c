/* Trials as people compare them: which hyperparameters differ, how far and how fast each trial is, and a table that fits. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/document.h"
#include "base/pack.h"
#include "tools/shoal/curve.h"
#include "tools/shoal/trials.h"
#include "train/shoal/hparams.h"

static msgpack_zone *zone;
static char *text;

static int begin(void **state)
{
    (void)state;
    zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    return zone == NULL ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    msgpack_zone_free(zone);
    free(text);
    text = NULL;
    return 0;
}

static msgpack_object document_of(const char *json)
{
    static uint8_t bytes[HPARAMS_BYTES_MAX];
    struct pack_writer writer;
    msgpack_object document;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(hparams_from_json(json, &writer), 0);
    assert_int_equal(document_read(zone, bytes, writer.used_bytes, &document), 0);
    return document;
}

#define NOW_S 1000
#define ABOUT "\"metric\":\"loss\",\"smaller_is_better\":true,\"replicas\":2,\"best\":{\"trial\":2,\"metric\":\"loss\",\"value\":0.25}"
#define THREE                                                                                                                          \
    "{\"experiment\":{" ABOUT ",\"trials\":["                                                                                          \
    "{\"index\":0,\"state\":\"running\",\"attempt\":2,\"restarts\":1,\"step\":100,\"started_s\":900,\"ended_s\":null,\"before_s\":20," \
    "\"hyperparameters\":{\"batch\":32,\"optimizer\":{\"name\":\"adam\",\"lr\":0.5},\"max_steps\":300},"                                \
    "\"metrics\":{\"validation\":{\"loss\":0.75}},\"slots\":[{\"node_name\":\"elm\",\"index\":1}],"                                    \
    "\"checkpoint\":{\"step\":90,\"durable\":false,\"holders\":[\"elm\"]}},"                                                           \
    "{\"index\":1,\"state\":\"queued\",\"attempt\":null,\"restarts\":0,\"step\":null,\"before_s\":0,"                                  \
    "\"hyperparameters\":{\"batch\":32,\"optimizer\":{\"name\":\"adam\",\"lr\":0.25},\"max_steps\":300},\"metrics\":{}},"              \
    "{\"index\":2,\"state\":\"completed\",\"attempt\":1,\"restarts\":0,\"step\":300,\"started_s\":100,\"ended_s\":160,\"before_s\":0," \
    "\"hyperparameters\":{\"batch\":32,\"optimizer\":{\"name\":\"adam\",\"lr\":0.125},\"max_steps\":300},"                             \
    "\"metrics\":{\"validation\":{\"loss\":0.25},\"training\":{\"loss\":0.2}},"                                                        \
    "\"checkpoint\":{\"step\":300,\"durable\":true,\"holders\":[\"elm\",\"fir\"]}}]},"                                                 \
    "\"curves\":[{\"index\":0,\"best\":0.7,\"best_step\":80,\"rate\":4,\"steps\":[40,80,100],\"values\":[1.5,0.7,0.75]},"              \
    "{\"index\":2,\"best\":null,\"best_step\":0,\"rate\":null,\"steps\":[],\"values\":[]}]}"

static void what_is_known_of_a_trial_comes_from_its_row_its_curve_and_the_time(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of(THREE);
    assert_true(trials_read(&document, NOW_S, &trials));
    assert_int_equal(trials.count, 3);
    const struct trial_facts *runs = &trials.items[0], *waits = &trials.items[1], *done = &trials.items[2];
    assert_true(runs->has_elapsed && runs->elapsed_s == 120); /* the attempt before counts, too */
    assert_true(runs->has_rate && runs->rate > 3.9 && runs->rate < 4.1);
    assert_true(runs->has_left && runs->left_s == 50); /* 200 steps are left */
    assert_true(runs->has_best && runs->best > 0.69 && runs->best < 0.71 && runs->value > 0.74);
    assert_false(runs->is_best);
    assert_false(waits->has_elapsed || waits->has_left || waits->has_rate || waits->has_value || waits->has_best);
    assert_true(done->is_best && done->has_best && done->best < 0.26);
    assert_true(done->elapsed_s == 60 && !done->has_left);
    assert_true(done->has_rate && done->rate > 4.9 && done->rate < 5.1); /* on average */
    trials_free(&trials);
}

static void the_time_left_follows_from_progress_that_a_program_reports(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of("{\"experiment\":{\"trials\":[{\"index\":0,\"state\":\"running\",\"step\":0,\"started_s\":700,\"before_s\":0,"
                                          "\"metrics\":{\"run\":{\"progress\":0.75,\"samples_per_second\":512}}}]}}");
    assert_true(trials_read(&document, NOW_S, &trials));
    assert_true(trials.items[0].has_left && trials.items[0].left_s == 100);
    assert_true(trials.rates_are_samples && trials.items[0].has_rate && trials.items[0].rate > 511);
    trials_free(&trials);
}

static void a_hyperparameter_differs_if_any_trial_has_another_value_or_lacks_it(void **state)
{
    (void)state;
    static struct trials trials;
    char name[64];
    msgpack_object document = document_of("{\"experiment\":{\"trials\":["
                                          "{\"index\":0,\"hyperparameters\":{\"a\":1,\"b\":{\"c\":2,\"d\":[1]},\"e\":0}},"
                                          "{\"index\":1,\"hyperparameters\":null},"
                                          "{\"index\":2,\"hyperparameters\":{\"a\":1,\"b\":{\"c\":3,\"d\":[1]}}}]}}");
    assert_true(trials_read(&document, NOW_S, &trials));
    static const struct { const char *name; bool differs; } wanted[] = {{"a", false}, {"b.c", true}, {"b.d", false}, {"e", true}};
    assert_int_equal(trials.parameter_count, 4);
    for (size_t i = 0; i < 4; i++) {
        parameter_name(&trials.parameters[i], name, sizeof name);
        assert_string_equal(name, wanted[i].name);
        assert_true(trials.parameters[i].differs == wanted[i].differs);
    }
    trials_free(&trials);
}

/* The numbers of the trials in their order. */
static void assert_order(struct trials *trials, const char *key, const uint64_t order[3])
{
    assert_true(trials_sort(trials, key));
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(trials->items[i].index, order[i]);
    }
}

static void trials_are_sorted_by_columns_hyperparameters_and_metrics(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of(THREE);
    assert_true(trials_read(&document, NOW_S, &trials));
    static const struct { const char *key; uint64_t order[3]; } rows[] = {
        {"best", {2, 0, 1}},      {"-best", {0, 2, 1}}, {"trial", {0, 1, 2}},           {"-trial", {2, 1, 0}},
        {"step", {2, 0, 1}},      {"state", {0, 2, 1}}, {"optimizer.lr", {2, 1, 0}},    {"-optimizer.lr", {0, 1, 2}},
        {"hp.optimizer.lr", {2, 1, 0}},
        {"elapsed", {0, 2, 1}},   {"rate", {2, 0, 1}},  {"training/loss", {2, 0, 1}},   {"validation/loss", {2, 0, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_order(&trials, rows[i].key, rows[i].order);
    }
    assert_false(trials_sort(&trials, "accuracy"));
    assert_false(trials_sort(&trials, ""));
    assert_false(trials_sort(&trials, "hp.best") || trials_sort(&trials, "hp.training/loss") || trials_sort(&trials, "hp."));
    trials_free(&trials);
}

static const char *table_of(const struct trials *trials, const struct trials_style *style, const char *columns)
{
    struct trials_choice choice = {.count = 0};
    const char *wrong;
    size_t bytes;
    free(text);
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_true(columns == NULL || trials_choose(columns, &choice, &wrong));
    trials_write_constants(out, style, trials, SIZE_MAX);
    trials_write(out, style, trials, &choice, 0, trials->count, SIZE_MAX);
    (void)fclose(out);
    return text;
}

static void constants_stand_once_above_a_table_of_what_differs(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of(THREE);
    assert_true(trials_read(&document, NOW_S, &trials));
    const struct trials_style plain = {.utf8 = false};
    assert_string_equal(
        table_of(&trials, &plain, NULL),
        "in all trials: batch=32 optimizer.name=adam max_steps=300\n"
        "TRIAL  STATE      STEP    loss    BEST  CURVE  LEFT  optimizer.lr  ELAPSED  STEPS/S  train/loss  CHECKPOINT"
        "                       SLOTS  ATTEMPT  RESTARTS\n"
        "    0  running     100  0.7500  0.7000  ^^_     50s           0.5    2m00s     4.00           -  "
        "step 90, on 1 of 2 nodes so far  elm:1        2         1\n"
        "    1  queued        -       -       -            -          0.25        -        -           -  "
        "-                                -            -         0\n"
        "   *2  completed   300  0.2500  0.2500            -         0.125    1m00s     5.00      0.2000  "
        "step 300, on 2 nodes             -            1         0\n");
    trials_free(&trials);
}

static void a_narrow_terminal_drops_columns_from_the_right(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of(THREE);
    assert_true(trials_read(&document, NOW_S, &trials));
    static const struct { size_t width; const char *head; } rows[] = {
        {1, "TRIAL\n"},
        {20, "TRIAL  STATE\n"},
        {38, "TRIAL  STATE      STEP    loss    BEST\n"},
        {44, "TRIAL  STATE      STEP    loss    BEST\n"},
        {60, "TRIAL  STATE      STEP    loss    BEST  CURVE  LEFT\n"},
        {80, "TRIAL  STATE      STEP    loss    BEST  CURVE  LEFT  optimizer.lr  ELAPSED\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct trials_style style = {.width = rows[i].width};
        const char *table = strstr(table_of(&trials, &style, NULL), "TRIAL");
        assert_non_null(table);
        assert_int_equal(strncmp(table, rows[i].head, strlen(rows[i].head)), 0);
        for (const char *at = table; *at != '\0'; at += strcspn(at, "\n") + 1) {
            assert_true(rows[i].width == 1 || strcspn(at, "\n") <= rows[i].width);
        }
    }
    const struct trials_style style = {.utf8 = true};
    assert_non_null(strstr(table_of(&trials, &style, "best,curve,trial"), "  BEST  CURVE  TRIAL\n0.7000  ██▁        0\n"));
    struct trials_choice choice;
    const char *wrong;
    assert_false(trials_choose("trial,stat,best", &choice, &wrong));
    assert_string_equal(wrong, "stat,best");
    trials_free(&trials);
}

static void long_names_are_cut_with_an_ellipsis(void **state)
{
    (void)state;
    char cut[64];
    trials_cut("warmup_fraction_of_all", 10, true, cut, sizeof cut);
    assert_string_equal(cut, "warmup_fr…");
    trials_cut("warmup_fraction_of_all", 10, false, cut, sizeof cut);
    assert_string_equal(cut, "warmup_...");
    trials_cut("größe", 5, true, cut, sizeof cut);
    assert_string_equal(cut, "größe");
    trials_cut("größe", 4, true, cut, sizeof cut);
    assert_string_equal(cut, "grö…");
    static struct trials trials;
    msgpack_object document = document_of("{\"experiment\":{\"trials\":["
                                          "{\"index\":0,\"hyperparameters\":{\"a_very_long_hyperparameter\":\"and a value that goes on and on\"}},"
                                          "{\"index\":1,\"hyperparameters\":{\"a_very_long_hyperparameter\":1}}]}}");
    assert_true(trials_read(&document, NOW_S, &trials));
    const struct trials_style style = {.utf8 = true, .width = 80};
    assert_string_equal(table_of(&trials, &style, "params"), "  a_very_long_hyp…\nand a value that …\n                 1\n");
    trials_free(&trials);
}

static void many_constants_take_few_lines(void **state)
{
    (void)state;
    static struct trials trials;
    msgpack_object document = document_of("{\"experiment\":{\"trials\":[{\"index\":0,\"hyperparameters\":{\"aaaa\":1,\"bbbb\":2,\"cccc\":3,\"dddd\":4,"
                                          "\"eeee\":5}}]}}");
    assert_true(trials_read(&document, NOW_S, &trials));
    const struct trials_style style = {.width = 32};
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    trials_write_constants(out, &style, &trials, 2);
    (void)fclose(out);
    assert_string_equal(text, "hyperparameters: aaaa=1 bbbb=2\n   cccc=3 dddd=4 eeee=5\n");
    const struct trials_style narrow = {.width = 24};
    free(text);
    out = open_memstream(&text, &bytes);
    trials_write_constants(out, &narrow, &trials, 2);
    (void)fclose(out);
    assert_string_equal(text, "hyperparameters: aaaa=1\n   bbbb=2 cccc=3 dddd=4 and 1 more\n");
    trials_free(&trials);
}

static void a_checkpoint_is_told_in_words(void **state)
{
    (void)state;
    static const struct { const char *json, *said; } rows[] = {
        {"{\"step\":3440,\"durable\":false,\"holders\":[\"elm\"]}", "step 3440, on 1 of 2 nodes so far"},
        {"{\"step\":3440,\"durable\":true,\"holders\":[\"elm\"]}", "step 3440, on 1 node"},
        {"{\"step\":3440,\"durable\":true,\"holders\":[\"elm\",\"fir\"]}", "step 3440, on 2 nodes"},
        {"{\"step\":null,\"durable\":true,\"holders\":[\"elm\",\"fir\"]}", "on 2 nodes"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char said[96];
        msgpack_object checkpoint = document_of(rows[i].json);
        trials_checkpoint(&checkpoint, 2, said, sizeof said);
        assert_string_equal(said, rows[i].said);
    }
}

static void trials_that_are_left_out_are_counted_by_state(void **state)
{
    (void)state;
    static struct trials trials;
    char summary[TRIALS_SUMMARY_BYTES];
    msgpack_object document = document_of(THREE);
    assert_true(trials_read(&document, NOW_S, &trials));
    trials_summary(&trials, 1, summary);
    assert_string_equal(summary, "1 completed, 1 queued");
    trials_free(&trials);
}

/* ---- curves -------------------------------------------------------------------------------------------------------- */

static void a_curve_keeps_few_points_of_many(void **state)
{
    (void)state;
    static struct curve_points points;
    memset(&points, 0, sizeof points);
    for (uint64_t step = 1; step <= 100000; step++) {
        curve_points_add(&points, step, (double)step);
    }
    assert_true(points.count > CURVE_POINTS_KEPT / 2 && points.count <= CURVE_POINTS_KEPT);
    assert_int_equal(points.steps[points.count - 1], 100000); /* the newest is there */
    for (size_t i = 1; i < points.count; i++) {
        assert_true(points.steps[i] > points.steps[i - 1]);
        assert_true(points.steps[i] - points.steps[i - 1] <= 512);
    }
    curve_points_add(&points, 50000, 1); /* a later attempt went on from an older checkpoint */
    assert_int_equal(points.steps[points.count - 1], 50000);
    assert_true(points.steps[points.count - 2] < 50000);
}

static void a_curve_is_a_line_of_blocks_or_of_ascii(void **state)
{
    (void)state;
    static struct curve_points points;
    char line[CURVE_LINE_BYTES];
    memset(&points, 0, sizeof points);
    curve_line(&points, true, line);
    assert_string_equal(line, "");
    for (uint64_t step = 0; step < 8; step++) {
        curve_points_add(&points, 10 * step, (double)step);
    }
    curve_line(&points, true, line);
    assert_string_equal(line, "▁▂▃▄▅▆▇█");
    curve_line(&points, false, line);
    assert_string_equal(line, "_..--==^");
    for (uint64_t step = 8; step < 400; step++) {
        curve_points_add(&points, 10 * step, 7.0);
    }
    curve_line(&points, false, line);
    assert_string_equal(line, "_^^^^^^^^^^^"); /* by the steps, not by the number of points */
    memset(&points, 0, sizeof points);
    curve_points_add(&points, 1, 0.5);
    curve_points_add(&points, 2, 0.5);
    curve_points_add(&points, 3, (double)NAN);
    curve_line(&points, false, line);
    assert_string_equal(line, "--");
}

static void a_picture_has_its_range_and_its_steps(void **state)
{
    (void)state;
    static struct curve_points points;
    size_t bytes;
    memset(&points, 0, sizeof points);
    for (uint64_t step = 0; step <= 12; step++) {
        curve_points_add(&points, step, (double)step / 4);
    }
    FILE *out = open_memstream(&text, &bytes);
    curve_picture(out, &points, 24, 4, false);
    (void)fclose(out);
    assert_string_equal(text, "         3           ***\n"
                              "                 ****\n"
                              "             ****\n"
                              "         0 **\n"
                              "           step 0     12\n");
    free(text);
    out = open_memstream(&text, &bytes);
    curve_picture(out, &points, 24, 2, true);
    (void)fclose(out);
    assert_true(strncmp(text, "         3 ", 11) == 0);
    assert_non_null(strstr(text, "⡠"));
    free(text);
    out = open_memstream(&text, &bytes);
    curve_picture(out, &points, 23, 4, false);
    (void)fclose(out);
    assert_string_equal(text, ""); /* no room */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_known_of_a_trial_comes_from_its_row_its_curve_and_the_time, begin, end),
        cmocka_unit_test_setup_teardown(the_time_left_follows_from_progress_that_a_program_reports, begin, end),
        cmocka_unit_test_setup_teardown(a_hyperparameter_differs_if_any_trial_has_another_value_or_lacks_it, begin, end),
        cmocka_unit_test_setup_teardown(trials_are_sorted_by_columns_hyperparameters_and_metrics, begin, end),
        cmocka_unit_test_setup_teardown(constants_stand_once_above_a_table_of_what_differs, begin, end),
        cmocka_unit_test_setup_teardown(a_narrow_terminal_drops_columns_from_the_right, begin, end),
        cmocka_unit_test_setup_teardown(long_names_are_cut_with_an_ellipsis, begin, end),
        cmocka_unit_test_setup_teardown(many_constants_take_few_lines, begin, end),
        cmocka_unit_test_setup_teardown(a_checkpoint_is_told_in_words, begin, end),
        cmocka_unit_test_setup_teardown(trials_that_are_left_out_are_counted_by_state, begin, end),
        cmocka_unit_test_setup_teardown(a_curve_keeps_few_points_of_many, begin, end),
        cmocka_unit_test_setup_teardown(a_curve_is_a_line_of_blocks_or_of_ascii, begin, end),
        cmocka_unit_test_setup_teardown(a_picture_has_its_range_and_its_steps, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

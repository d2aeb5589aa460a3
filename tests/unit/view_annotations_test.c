/* What users note about an experiment: which of several writers' values counts, and how notes stand beside the configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/view_fixture.h"

static void note(struct mesh *mesh, uint32_t writer, enum fact_subject subject, const char *name, struct fact_annotation fact)
{
    say(mesh, writer, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), subject, name), &fact);
}

/* All labels as "a=1 b". */
static const char *labels_of(const struct view_experiment *experiment)
{
    static char text[VIEW_LABELS_MAX * 80];
    struct view_label_text labels[VIEW_LABELS_MAX];
    uint32_t count = view_experiment_labels(experiment, labels);
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s%s%s", i > 0 ? " " : "", labels[i].name,
                                 labels[i].value[0] != '\0' ? "=" : "", labels[i].value);
    }
    return text;
}

static void the_latest_value_of_each_label_counts(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    assert_string_equal(labels_of(experiment), "");
    note(mesh, 0, FACT_LABEL, "lr", (struct fact_annotation){1, true, "low"});
    note(mesh, 1, FACT_LABEL, "l", (struct fact_annotation){1, true, ""});
    assert_string_equal(labels_of(experiment), "l lr=low");
    note(mesh, 2, FACT_LABEL, "lr", (struct fact_annotation){2, true, "high"});
    note(mesh, 0, FACT_LABEL, "lr", (struct fact_annotation){1, true, "older"});
    assert_string_equal(labels_of(experiment), "l lr=high");
    note(mesh, 1, FACT_LABEL, "lr", (struct fact_annotation){3, false, ""});
    assert_string_equal(labels_of(experiment), "l");
    note(mesh, 2, FACT_LABEL, "lr", (struct fact_annotation){3, true, "both"}); /* concurrent: what is set wins */
    assert_string_equal(labels_of(experiment), "l lr=both");
}

static void of_concurrent_values_the_greatest_writers_counts(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    uint32_t greatest = 0;
    for (uint32_t i = 0; i < PEOPLE; i++) {
        char value[FACT_NOTE_BYTES] = {(char)('0' + i)};
        struct fact_annotation fact = {.lamport = 4, .is_set = true};
        memcpy(fact.value, value, sizeof value);
        note(mesh, i, FACT_DESCRIPTION, "", fact);
        greatest = node_id_compare(mesh->people[i].id, mesh->people[greatest].id) > 0 ? i : greatest;
    }
    char text[FACT_NOTE_BYTES];
    view_experiment_description(experiment, text);
    assert_int_equal(text[0], '0' + (int)greatest);
}

static void a_clock_that_jumps_changes_nothing_and_goes_with_the_experiment(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    note(mesh, 0, FACT_PINNED, "", (struct fact_annotation){1, true, ""});
    note(mesh, 1, FACT_PINNED, "", (struct fact_annotation){UINT64_MAX, false, ""});
    note(mesh, 1, FACT_LABEL, "x", (struct fact_annotation){UINT64_MAX, true, ""});
    assert_true(view_experiment_pinned(experiment));
    assert_string_equal(labels_of(experiment), "");
    assert_int_equal(mesh->core->view.jump_count, 2);
    say(mesh, 0, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    assert_int_equal(mesh->core->view.jump_count, 0);
}

static void labels_of_the_configuration_can_be_changed_and_taken_back(void **state)
{
    struct mesh *mesh = *state;
    static uint8_t packed[CONFIG_PACKED_BYTES_MAX], labels[64];
    struct config config;
    struct pack_writer writer;
    make_config(&config, 1, 1);
    pack_writer_init(&writer, labels, sizeof labels);
    pack_array(&writer, 3);
    pack_text(&writer, "fast");
    pack_text(&writer, "data=small");
    pack_text(&writer, "fast"); /* a name counts once */
    config.labels = labels;
    config.labels_bytes = (uint32_t)writer.used_bytes;
    struct fact_experiment fact = {.submitted_s = 1, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_string_equal(labels_of(experiment), "fast data=small");
    note(mesh, 1, FACT_LABEL, "data", (struct fact_annotation){1, true, "large"});
    note(mesh, 1, FACT_LABEL, "fast", (struct fact_annotation){1, false, ""});
    assert_string_equal(labels_of(experiment), "data=large");
}

static void a_subject_of_a_later_version_is_passed_over(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 1, 1, 1);
    note(mesh, 0, (enum fact_subject)200, "anything", (struct fact_annotation){1, true, ""});
    assert_null(experiment->annotations);
    assert_int_equal(mesh->core->view.malformed_count, 0);
    struct fact_key nameless = fact_key_annotation(make_experiment_id(0), FACT_LABEL, "");
    struct fact_annotation fact = {1, true, ""};
    say(mesh, 0, FACT_ANNOTATION, nameless, &fact);
    say(mesh, 0, FACT_ANNOTATION, fact_key_annotation(make_experiment_id(0), FACT_PINNED, "named"), &fact);
    assert_int_equal(mesh->core->view.malformed_count, 2);
}

static void each_trial_has_a_note_of_its_own(void **state)
{
    struct mesh *mesh = *state;
    const struct view_experiment *experiment = submit(mesh, 0, 30, 1, 1);
    char text[FACT_NOTE_BYTES] = "untouched";
    assert_false(view_trial_description(experiment, 0, text));
    assert_string_equal(text, "untouched");
    note(mesh, 0, FACT_TRIAL_DESCRIPTION, "2", (struct fact_annotation){1, true, "two"});
    note(mesh, 1, FACT_TRIAL_DESCRIPTION, "22", (struct fact_annotation){1, true, "both digits"});
    note(mesh, 1, FACT_TRIAL_DESCRIPTION, "0", (struct fact_annotation){1, true, "none"});
    note(mesh, 2, FACT_TRIAL_DESCRIPTION, "2", (struct fact_annotation){2, true, "two again"});
    note(mesh, 2, FACT_LABEL, "2", (struct fact_annotation){9, true, "a label"});
    assert_int_equal(view_described_trials(experiment), 3);
    assert_true(view_trial_description(experiment, 2, text));
    assert_string_equal(text, "two again");
    assert_true(view_trial_description(experiment, 22, text));
    assert_string_equal(text, "both digits");
    assert_true(view_trial_description(experiment, 0, text));
    assert_false(view_trial_description(experiment, 1, text));
    note(mesh, 0, FACT_TRIAL_DESCRIPTION, "2", (struct fact_annotation){3, false, ""});
    assert_false(view_trial_description(experiment, 2, text));
    view_experiment_description(experiment, text);
    assert_string_equal(text, "");
    assert_string_equal(labels_of(experiment), "2=a label");
    static const char *const bad[] = {"", "00", "02", "x", "2x", "100000", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mesh->core->view.malformed_count, i);
        note(mesh, 0, FACT_TRIAL_DESCRIPTION, bad[i], (struct fact_annotation){1, true, ""});
    }
}

static void the_greatest_number_of_trials_that_anybody_has_asked_for_counts(void **state)
{
    struct mesh *mesh = *state;
    note(mesh, 0, FACT_MAX_TRIALS, "70", (struct fact_annotation){1, true, ""}); /* known before the experiment is */
    const struct view_experiment *experiment = submit(mesh, 0, 4, 1, 1);
    assert_int_equal(experiment->configured_count, 4);
    assert_int_equal(experiment->trial_count, 70);
    assert_true(view_experiment_is_extended(experiment));
    note(mesh, 1, FACT_MAX_TRIALS, "3", (struct fact_annotation){9, true, ""});
    note(mesh, 1, FACT_MAX_TRIALS, "5", (struct fact_annotation){UINT64_MAX, true, ""});
    assert_int_equal(experiment->trial_count, 70);
    assert_int_equal(mesh->core->view.jump_count, 0);
    (void)assign(mesh, 79, 1); /* a stray until there are so many trials */
    assert_int_equal(experiment->stray_count, 1);
    note(mesh, 1, FACT_MAX_TRIALS, "80", (struct fact_annotation){1, false, ""}); /* nobody takes trials back */
    assert_int_equal(experiment->trial_count, 80);
    assert_int_equal(experiment->stray_count, 0);
    assert_int_equal(view_trial_state(experiment, 79), VIEW_TRIAL_RUNNING);
    static const char *const bad[] = {"", "0", "012", "x", "1x", "100001", "99999999999999999999", "-1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(mesh->core->view.malformed_count, i);
        note(mesh, 0, FACT_MAX_TRIALS, bad[i], (struct fact_annotation){1, true, ""});
    }
    assert_int_equal(experiment->trial_count, 80);
    note(mesh, 0, FACT_MAX_TRIALS, "100000", (struct fact_annotation){1, true, ""});
    assert_int_equal(experiment->trial_count, SEARCH_TRIALS_MAX);
}

static void an_experiment_that_draws_nothing_gets_no_further_trials(void **state)
{
    struct mesh *mesh = *state;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, 1, 1);
    config.searcher = SEARCH_SINGLE;
    config.max_trials = 0;
    struct fact_experiment fact = {.submitted_s = 1, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    note(mesh, 1, FACT_MAX_TRIALS, "9", (struct fact_annotation){1, true, ""});
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_int_equal(experiment->trial_count, 1);
    assert_false(view_experiment_is_extended(experiment));
}

static void max_slots_can_be_changed_within_its_bounds(void **state)
{
    struct mesh *mesh = *state;
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, 1, 1);
    config.slots_per_trial = 2;
    config.max_slots = 4;
    struct fact_experiment fact = {.submitted_s = 1, .config = packed};
    fact.config_bytes = make_packed_config(&config, packed);
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(0)), &fact);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    static const struct {
        const char *value;
        uint32_t wanted;
    } rows[] = {{"6", 6}, {"2", 2}, {"1", 4}, {"64", 64}, {"65", 4}, {"x", 4}, {"", 4}};
    assert_int_equal(view_experiment_max_slots(experiment), 4);
    for (uint32_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fact_annotation value = {.lamport = 1 + i, .is_set = true};
        (void)strcpy(value.value, rows[i].value);
        note(mesh, i % 2, FACT_MAX_SLOTS, "", value);
        assert_int_equal(view_experiment_max_slots(experiment), rows[i].wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_latest_value_of_each_label_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(of_concurrent_values_the_greatest_writers_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_clock_that_jumps_changes_nothing_and_goes_with_the_experiment, setup, teardown),
        cmocka_unit_test_setup_teardown(labels_of_the_configuration_can_be_changed_and_taken_back, setup, teardown),
        cmocka_unit_test_setup_teardown(the_greatest_number_of_trials_that_anybody_has_asked_for_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(an_experiment_that_draws_nothing_gets_no_further_trials, setup, teardown),
        cmocka_unit_test_setup_teardown(max_slots_can_be_changed_within_its_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(each_trial_has_a_note_of_its_own, setup, teardown),
        cmocka_unit_test_setup_teardown(a_subject_of_a_later_version_is_passed_over, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

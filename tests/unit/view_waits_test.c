/* What keeps an experiment from its first attempt: times as they are written, and other experiments as records tell of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "tests/unit/view_fixture.h"

#define NOW_S 1800000000u

/* ---- times --------------------------------------------------------------------------------------------------------------- */

static void a_time_reads_as_it_is_written(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t at_s;
        bool is_utc;
    } rows[] = {{"1970-01-01T00:00:00Z", 0, true},          {"2000-02-29T23:59:59Z", 951868799, true},
                {"2026-12-01 18:00", 1796148000, false},    {"2026-12-01", 1796083200, false},
                {"2100-03-01T00:00:00Z", 4107542400, true}, {"9999-12-31T23:59:59Z", 253402300799, true}};
    char written[CONFIG_START_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t at_s = 1, again_s = 1;
        bool is_utc = false;
        assert_true(config_start_read(rows[i].text, &at_s, &is_utc));
        assert_true(at_s == rows[i].at_s && is_utc == rows[i].is_utc);
        assert_true(config_start_write(written, at_s));
        assert_true(!is_utc || strcmp(written, rows[i].text) == 0);
        assert_true(config_start_read(written, &again_s, &is_utc) && again_s == at_s && is_utc);
    }
    assert_false(config_start_write(written, 253402300800));
    assert_false(config_start_write(written, UINT64_MAX));
}

/* In steps that are no whole days. */
static void every_time_up_to_the_year_9999_reads_back(void **state)
{
    (void)state;
    char written[CONFIG_START_BYTES];
    for (uint64_t at_s = 0; at_s < 253402300800; at_s += 777777) {
        uint64_t read_s = 0;
        bool is_utc = false;
        assert_true(config_start_write(written, at_s) && config_start_read(written, &read_s, &is_utc));
        assert_true(read_s == at_s && is_utc);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {"",           "2026",           "2026-12",          "2026-13-01",         "2026-02-29",  "2100-02-29",
                                      "2026-12-32", "2026-12-1",      "2026-12-01 24:00", "2026-12-01 18:60",   "2026-12-01 ", "2026-12-01T18",
                                      "1969-12-31", "2026-12-01 8:0", "2026-12-01 18:0Z", "2026-12-01T18:00ZZ", "tomorrow"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t at_s = 7;
        bool is_utc = false;
        assert_false(config_start_read(bad[i], &at_s, &is_utc));
        assert_int_equal(at_s, 7);
    }
}

static void a_record_with_another_text_never_begins(void **state)
{
    (void)state;
    struct config config;
    experiment_id ids[CONFIG_DEPENDS_MAX];
    make_config(&config, 1, 1);
    assert_false(config_needs_waits(&config));
    assert_int_equal(config_dependencies(&config, ids), 0);
    assert_true(config_start_after(&config) == 0);
    (void)bytes_copy_text(config.start_after, sizeof config.start_after, "2026-12-01T18:00:00");
    assert_true(config_needs_waits(&config) && config_start_after(&config) == CONFIG_NEVER);
    (void)bytes_copy_text(config.depends_on, sizeof config.depends_on, "a1b2c3d4e5f60718 xyz a1b2c3d4e5f6071");
    assert_int_equal(config_dependencies(&config, ids), 3);
    assert_true(ids[0].bytes[0] == 0xa1 && experiment_id_is_none(ids[1]) && experiment_id_is_none(ids[2]));
    memset(config.depends_on, 'a', sizeof config.depends_on - 1);
    assert_int_equal(config_dependencies(&config, ids), 1);
    memset(config.depends_on, ' ', sizeof config.depends_on - 1);
    assert_int_equal(config_dependencies(&config, ids), CONFIG_DEPENDS_MAX);
}

/* ---- constraints --------------------------------------------------------------------------------------------------------- */

static uint64_t slots_of(const char *constraints, const struct fact_node *node)
{
    struct config config;
    make_config(&config, 1, 1);
    (void)bytes_copy_text(config.constraints, sizeof config.constraints, constraints);
    assert_true(config_needs_waits(&config) == (constraints[0] != '\0'));
    return config_constraints_slots(&config, node) & ((UINT64_C(1) << node->slot_count) - 1);
}

static void constraints_choose_slots_by_model_memory_and_labels(void **state)
{
    (void)state;
    const struct person person = make_person(1);
    struct fact_node node = make_node(&person, 3);
    static const char *const models[] = {"NVIDIA GeForce RTX 4090", "NVIDIA A100-SXM4-40GB", "Tesla T4"};
    static const uint64_t mib[] = {24564, 40960, 15360};
    for (uint32_t i = 0; i < 3; i++) {
        (void)bytes_copy_text(node.slots[i].model, sizeof node.slots[i].model, models[i]);
        node.slots[i].memory_bytes = mib[i] << 20;
    }
    node.label_count = 2;
    (void)bytes_copy_text(node.labels[0], sizeof node.labels[0], "room=12");
    (void)bytes_copy_text(node.labels[1], sizeof node.labels[1], "fast");
    static const struct {
        const char *text;
        uint64_t slots;
    } rows[] = {{"", 7},
                {"model=rtx 4090", 1},
                {"model=RTX 4090\nmodel=a100", 3},
                {"model=H100", 0},
                {"memory=17179869184", 7},  /* 16 GiB, which a T4 has but for 6.25 % */
                {"memory=25769803776", 3},  /* 24 GiB */
                {"memory=42949672961", 2},
                {"memory=53687091200", 0},
                {"label=room=12", 7},
                {"label=room", 7},
                {"label=fast\nlabel=room=12\nmodel=A100", 2},
                {"label=room=1", 0},
                {"label=roo", 0},
                {"label=fast=1", 0},
                {"memory=1\nother=2", 0}, /* of a later version */
                {"memory=x", 0},
                {"memory=", 0},
                {"something", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (slots_of(rows[i].text, &node) != rows[i].slots) {
            fail_msg("'%s' gives %llx", rows[i].text, (unsigned long long)slots_of(rows[i].text, &node));
        }
    }
}

static void constraints_are_told_in_words(void **state)
{
    (void)state;
    struct config config;
    char text[128];
    make_config(&config, 1, 1);
    config_constraints_write(&config, text, sizeof text);
    assert_string_equal(text, "");
    (void)bytes_copy_text(config.constraints, sizeof config.constraints, "model=RTX 4090\nmemory=25769803776\nlabel=room=12");
    config_constraints_write(&config, text, sizeof text);
    assert_string_equal(text, "model RTX 4090, memory 24G, label room=12");
}

static void a_member_has_the_slots_that_its_record_tells(void **state)
{
    struct mesh *mesh = *state;
    struct config config;
    struct fact_node node = make_node(&mesh->people[1], 2);
    (void)bytes_copy_text(node.slots[1].model, sizeof node.slots[1].model, "NVIDIA A100");
    node.slots[1].kind = FACT_SLOT_CUDA;
    make_config(&config, 1, 1);
    say(mesh, 1, FACT_NODE, fact_key_empty(), &node);
    const struct view_member *member = view_find_member(&mesh->core->view, mesh->people[1].id);
    assert_int_equal(view_member_fitting(member, &config), 3);
    config.slot_kind = CONFIG_SLOT_CPU;
    assert_int_equal(view_member_fitting(member, &config), 1);
    (void)bytes_copy_text(config.constraints, sizeof config.constraints, "model=a100");
    assert_int_equal(view_member_fitting(member, &config), 0);
    config.slot_kind = CONFIG_SLOT_ANY;
    assert_int_equal(view_member_fitting(member, &config), 2);
    (void)bytes_copy_text(node.slots[0].model, sizeof node.slots[0].model, "NVIDIA A100");
    say(mesh, 1, FACT_NODE, fact_key_empty(), &node);
    assert_int_equal(view_member_fitting(member, &config), 3);
}

/* ---- other experiments --------------------------------------------------------------------------------------------------- */

static struct view_wait wait_of(struct mesh *mesh)
{
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    return view_experiment_wait(&mesh->core->view, experiment, NOW_S);
}

static void say_experiment(struct mesh *mesh, uint32_t number, const struct config *config)
{
    uint8_t packed[CONFIG_PACKED_BYTES_MAX];
    struct fact_experiment fact = {.config = packed, .config_bytes = make_packed_config(config, packed)};
    say(mesh, 0, FACT_EXPERIMENT, fact_key_experiment(make_experiment_id(number)), &fact);
}

/* Experiment 0 depends on 1 and 2. */
static void submit_waiting(struct mesh *mesh, const char *start_after)
{
    struct config config;
    char *at = config.depends_on;
    make_config(&config, 2, 1);
    for (uint32_t i = 1; i <= 2; i++) {
        const experiment_id id = make_experiment_id(i);
        bytes_to_hex(at, id.bytes, EXPERIMENT_ID_BYTES);
        at += 2 * EXPERIMENT_ID_BYTES;
        *at++ = i == 1 ? ' ' : '\0';
    }
    (void)bytes_copy_text(config.start_after, sizeof config.start_after, start_after);
    say_experiment(mesh, 0, &config);
}

/* One trial of the experiment ends so. */
static void end_experiment(struct mesh *mesh, uint32_t number, enum fact_reason reason)
{
    const attempt_id id = make_attempt_id(number, 0, 1, 1, mesh->people[1].id);
    const struct fact_attempt attempt = {.member_count = 1, .members = {{mesh->people[2].id, 0}}};
    struct config config;
    make_config(&config, 1, 0);
    say_experiment(mesh, number, &config);
    say(mesh, 1, FACT_ATTEMPT, fact_key_attempt(&id), &attempt);
    judge(mesh, 1, &id, reason, 0.5);
}

static bool is_about(const struct view_wait *wait, enum view_wait_cause cause, uint32_t number, uint32_t others)
{
    return wait->cause == cause && experiment_id_equal(wait->dependency, make_experiment_id(number)) && wait->others == others;
}

static void an_experiment_waits_until_all_others_are_completed(void **state)
{
    struct mesh *mesh = *state;
    struct config config;
    submit_waiting(mesh, "");
    struct view_wait wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_UNFINISHED, 1, 1)); /* no record is here yet */
    make_config(&config, 1, 0);
    say_experiment(mesh, 1, &config);
    say_experiment(mesh, 2, &config);
    wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_UNFINISHED, 1, 1));
    end_experiment(mesh, 1, FACT_COMPLETED);
    wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_UNFINISHED, 2, 0));
    end_experiment(mesh, 2, FACT_COMPLETED);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_NOT);
}

static void one_that_fails_or_is_deleted_is_told_before_one_that_runs(void **state)
{
    struct mesh *mesh = *state;
    submit_waiting(mesh, "");
    end_experiment(mesh, 2, FACT_FAILED);
    struct view_wait wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_ENDED, 2, 0));
    say(mesh, 3, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(1)), NULL);
    wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_ENDED, 1, 1));
}

static void a_user_who_resumes_it_waits_only_for_those_that_run(void **state)
{
    struct mesh *mesh = *state;
    struct config config;
    struct fact_control control = {.lamport = 1, .waived = true};
    submit_waiting(mesh, "");
    make_config(&config, 1, 0);
    say_experiment(mesh, 1, &config);
    end_experiment(mesh, 2, FACT_FAILED);
    say(mesh, 4, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &control);
    struct view_wait wait = wait_of(mesh);
    assert_true(is_about(&wait, VIEW_WAITS_UNFINISHED, 1, 0));
    const struct fact_control cancelled = {.cancelled = true};
    say(mesh, 4, FACT_CONTROL, fact_key_cancel(make_experiment_id(1)), &cancelled);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_NOT);
    control = (struct fact_control){.lamport = 2}; /* of a version that does not know of it, say */
    say(mesh, 3, FACT_CONTROL, fact_key_experiment(make_experiment_id(0)), &control);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_ENDED);
}

static void the_time_comes_last_and_nothing_counts_after_the_first_attempt(void **state)
{
    struct mesh *mesh = *state;
    submit_waiting(mesh, "2027-01-15T08:00:01Z");
    end_experiment(mesh, 1, FACT_COMPLETED);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_UNFINISHED);
    end_experiment(mesh, 2, FACT_COMPLETED);
    struct view_wait wait = wait_of(mesh);
    assert_true(wait.cause == VIEW_WAITS_TIME && wait.start_s == NOW_S + 1);
    const struct view_experiment *experiment = view_find_experiment(&mesh->core->view, make_experiment_id(0));
    assert_int_equal(view_experiment_wait(&mesh->core->view, experiment, NOW_S + 1).cause, VIEW_WAITS_NOT);
    (void)assign(mesh, 1, 1);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_NOT);
    say(mesh, 3, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(1)), NULL);
    assert_int_equal(wait_of(mesh).cause, VIEW_WAITS_NOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_reads_as_it_is_written),
        cmocka_unit_test(every_time_up_to_the_year_9999_reads_back),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(a_record_with_another_text_never_begins),
        cmocka_unit_test(constraints_choose_slots_by_model_memory_and_labels),
        cmocka_unit_test(constraints_are_told_in_words),
        cmocka_unit_test_setup_teardown(a_member_has_the_slots_that_its_record_tells, setup, teardown),
        cmocka_unit_test_setup_teardown(an_experiment_waits_until_all_others_are_completed, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_fails_or_is_deleted_is_told_before_one_that_runs, setup, teardown),
        cmocka_unit_test_setup_teardown(a_user_who_resumes_it_waits_only_for_those_that_run, setup, teardown),
        cmocka_unit_test_setup_teardown(the_time_comes_last_and_nothing_counts_after_the_first_attempt, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

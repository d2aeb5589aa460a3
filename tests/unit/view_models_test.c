/* The model registry: what two parts of the mesh have written while they could not hear each other is the same for all nodes afterwards,
 * in whatever order it arrives, and no version is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "node/core/view/retention.h"
#include "tests/unit/view_fixture.h"

static const uint8_t none[FACT_VERSION_BYTES] = {0};

/* What people write, to be folded in several orders. */
#define RECORDS_MAX 5
struct story {
    struct made made[RECORDS_MAX];
    uint32_t count;
};

static void tell(struct story *story, uint32_t writer, enum fact_model_subject subject, const uint8_t *version, const struct fact_model *fact)
{
    make_record(&story->made[story->count], make_person(writer).id, 1, story->count + 1, FACT_MODEL,
                fact_key_model(fact->name, subject, version, fact->field), fact);
    story->count++;
}

static void tell_version(struct story *story, uint32_t writer, uint8_t id, uint64_t number, bool removed)
{
    const uint8_t version[FACT_VERSION_BYTES] = {id, 0, 0, 0, 0, 0, 0, id};
    const struct fact_model fact = {
        .name = "net", .number = number, .removed = removed, .source = {.experiment = make_experiment_id(0), .trial = id, .blob = {{id}}}};
    tell(story, writer, FACT_MODEL_VERSION, version, &fact);
}

static void tell_alias(struct story *story, uint32_t writer, uint64_t lamport, uint8_t id, uint64_t number)
{
    const struct fact_model fact = {
        .lamport = lamport, .name = "net", .field = "champion", .number = number, .removed = id == 0, .target = {id, 0, 0, 0, 0, 0, 0, id}};
    tell(story, writer, FACT_MODEL_ALIAS, none, &fact);
}

static void tell_exists(struct story *story, uint32_t writer, uint64_t lamport, bool removed)
{
    const struct fact_model fact = {.lamport = lamport, .name = "net", .removed = removed};
    tell(story, writer, FACT_MODEL_EXISTS, none, &fact);
}

/* The registry as "1(7) 1423496(8) champion=1": versions with their ids, then aliases; "-" without the model. */
static void look(const struct view *view, char out[256])
{
    const struct view_model *model = view_model_find(view, "net");
    size_t used = 0;
    out[0] = '\0';
    for (const struct view_model *row = NULL; model != NULL && (row = view_model_version_next(model, row)) != NULL;) {
        used += (size_t)snprintf(out + used, 256 - used, "%s%llu(%u)", used > 0 ? " " : "",
                                 (unsigned long long)view_model_version_number(row), view_model_id(row)[0]);
    }
    for (const struct view_model *row = NULL; model != NULL && (row = view_model_value_next(model, row)) != NULL;) {
        struct fact_model fact;
        if (!view_model_value_is_held(model, row)) {
            continue;
        }
        assert_int_equal(fact_model_read(&row->entry->record, &fact), 0);
        const struct view_model *version = view_model_version_by_id(model, fact.target);
        used += (size_t)snprintf(out + used, 256 - used, " %s=%llu", fact.field, (unsigned long long)view_model_version_number(version));
    }
    if (model == NULL) {
        (void)snprintf(out, 256, "-");
    }
}

/* Folds the records in this order. */
static void fold(const struct story *story, const uint32_t order[RECORDS_MAX], char out[256])
{
    struct mesh mesh;
    mesh_open(&mesh);
    for (uint32_t i = 0; i < story->count; i++) {
        load(&mesh, &story->made[order[i]]);
    }
    look(&mesh.core->view, out);
    mesh_close(&mesh);
}

/* All orders of the records from `at` on give `expected`. */
static void permute(const struct story *story, uint32_t order[RECORDS_MAX], uint32_t at, const char *expected)
{
    if (at == story->count) {
        char text[256];
        fold(story, order, text);
        assert_string_equal(text, expected);
        return;
    }
    for (uint32_t i = at; i < story->count; i++) {
        uint32_t kept = order[at];
        order[at] = order[i];
        order[i] = kept;
        permute(story, order, at + 1, expected);
        order[i] = order[at];
        order[at] = kept;
    }
}

static void assert_story(const struct story *story, const char *expected)
{
    uint32_t order[RECORDS_MAX] = {0, 1, 2, 3, 4};
    permute(story, order, 0, expected);
}

static void two_parts_that_make_one_version_number_lose_neither(void **state)
{
    (void)state;
    struct story story = {.count = 0};
    tell_exists(&story, 0, 1, false);
    tell_version(&story, 1, 7, 1, false);
    tell_version(&story, 2, 8, 1, false);
    tell_version(&story, 3, 9, 2, false);
    assert_story(&story, "1(7) 1423496(8) 2(9)");
    /* The number keeps its meaning when the version that has it is removed. */
    tell_version(&story, 4, 7, 1, true);
    assert_story(&story, "1423496(8) 2(9)");
}

static void of_an_alias_moved_on_both_sides_the_later_move_counts(void **state)
{
    (void)state;
    struct story story = {.count = 0};
    tell_version(&story, 1, 7, 1, false);
    tell_version(&story, 2, 8, 2, false);
    tell_alias(&story, 1, 3, 7, 1);
    tell_alias(&story, 2, 2, 8, 2);
    assert_story(&story, "1(7) 2(8) champion=1");
    story.count = 2;
    tell_alias(&story, 1, 3, 7, 1);
    tell_alias(&story, 2, 3, 8, 2); /* at once: the greater number */
    assert_story(&story, "1(7) 2(8) champion=2");
    tell_alias(&story, 3, 3, 0, 0); /* and a value that is set before one taken back */
    assert_story(&story, "1(7) 2(8) champion=2");
}

static void an_alias_of_a_version_that_the_other_side_removed_is_gone(void **state)
{
    (void)state;
    struct story story = {.count = 0};
    tell_version(&story, 1, 7, 1, false);
    tell_version(&story, 1, 8, 2, false);
    tell_alias(&story, 1, 1, 7, 1);
    tell_alias(&story, 2, 2, 8, 2);
    tell_version(&story, 3, 8, 2, true);
    assert_story(&story, "1(7)"); /* not champion=1: nobody has moved it back */
}

static void a_version_made_while_the_model_was_removed_elsewhere_stays(void **state)
{
    (void)state;
    struct story story = {.count = 0};
    tell_exists(&story, 1, 1, false);
    tell_version(&story, 1, 7, 1, false);
    tell_exists(&story, 2, 2, true);
    tell_version(&story, 2, 7, 1, true);
    assert_story(&story, "-");
    tell_version(&story, 3, 8, 2, false);
    assert_story(&story, "2(8)");
}

static void numbers_and_clocks_go_on(void **state)
{
    struct mesh *mesh = *state;
    struct story story = {.count = 0};
    assert_int_equal(view_model_free_number(&mesh->core->view, "net"), 1);
    tell_version(&story, 1, 7, 4, true);
    tell_version(&story, 1, 8, 4, false);
    tell_alias(&story, 1, 6, 8, 4);
    for (uint32_t i = 0; i < story.count; i++) {
        load(mesh, &story.made[i]);
    }
    const struct view *view = &mesh->core->view;
    const struct view_model *model = view_model_find(view, "net");
    assert_int_equal(view_model_free_number(view, "net"), 5); /* a long number is none that is counted on from */
    assert_null(view_model_version(model, 4));
    assert_int_equal(view_model_id(view_model_version(model, 4423496))[0], 8);
    assert_true(view_model_clock(view, "net", FACT_MODEL_ALIAS, none, "champion", make_person(2).id) == 7);
    assert_true(view_model_clock(view, "net", FACT_MODEL_ALIAS, none, "other", make_person(2).id) == 1);
    assert_null(view_model_find(view, "ne"));
    assert_ptr_equal(view_model_next(view, NULL), model);
    assert_null(view_model_next(view, model));
}

static void a_checkpoint_stays_while_it_is_a_version(void **state)
{
    struct mesh *mesh = *state;
    struct story story = {.count = 0};
    tell_version(&story, 1, 7, 1, false);
    load(mesh, &story.made[0]); /* before the experiment is known */
    const struct view_experiment *experiment = submit(mesh, 0, 9, 1, 1);
    assert_true(view_pins_any(experiment) && retention_keeps_outputs(experiment));
    assert_true(view_pins_checkpoint(experiment, 7, (hash256){{7}}));
    assert_false(view_pins_checkpoint(experiment, 7, (hash256){{8}}));
    assert_false(view_pins_checkpoint(experiment, 6, (hash256){{7}}));
    tell_version(&story, 2, 7, 1, true);
    load(mesh, &story.made[1]);
    assert_false(view_pins_any(experiment));
    assert_false(view_pins_checkpoint(experiment, 7, (hash256){{7}}));
    say(mesh, 0, FACT_TOMBSTONE, fact_key_experiment(make_experiment_id(0)), NULL);
    tell_version(&story, 3, 8, 2, false); /* registered in another part of the mesh: it makes no row of a deleted experiment */
    load(mesh, &story.made[2]);
    assert_null(view_find_experiment(&mesh->core->view, make_experiment_id(0)));
}

static void names_that_addresses_cannot_hold_are_refused(void **state)
{
    (void)state;
    char longest[FACT_MODEL_NAME_BYTES + 1];
    static const char *const bad[] = {"", "a/b", "a:b", "a@b", "a\nb", "\x7f"}, *const good[] = {"a", "n\xc3\xa4me of it", "1"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(fact_model_name_is_good(bad[i]));
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(fact_model_name_is_good(good[i]));
    }
    memset(longest, 'a', sizeof longest);
    longest[FACT_MODEL_NAME_BYTES] = '\0';
    assert_false(fact_model_name_is_good(longest) || fact_model_alias_is_good(longest));
    longest[FACT_MODEL_NAME_BYTES - 1] = '\0';
    assert_true(fact_model_name_is_good(longest) && fact_model_alias_is_good(longest));
    static const char *const bad_aliases[] = {"", "1", "v1", "V22", "latest", "a b", "a.b", "\xc3\xa4"}, *const aliases[] = {"champion", "v", "v1a", "a-b_2"};
    for (size_t i = 0; i < sizeof bad_aliases / sizeof bad_aliases[0]; i++) {
        assert_false(fact_model_alias_is_good(bad_aliases[i]));
    }
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) {
        assert_true(fact_model_alias_is_good(aliases[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_parts_that_make_one_version_number_lose_neither),
        cmocka_unit_test(of_an_alias_moved_on_both_sides_the_later_move_counts),
        cmocka_unit_test(an_alias_of_a_version_that_the_other_side_removed_is_gone),
        cmocka_unit_test(a_version_made_while_the_model_was_removed_elsewhere_stays),
        cmocka_unit_test_setup_teardown(numbers_and_clocks_go_on, setup, teardown),
        cmocka_unit_test_setup_teardown(a_checkpoint_stays_while_it_is_a_version, setup, teardown),
        cmocka_unit_test(names_that_addresses_cannot_hold_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

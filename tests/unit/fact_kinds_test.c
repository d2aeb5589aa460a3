/* The table of kinds (FACT_KINDS): numbers and words stand in records and in users' event lines, and which records are deleted with
 * their experiment is agreed by all nodes. So they are written down here once more, and never change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "node/core/facts/facts.h"

static const struct {
    uint16_t number;
    const char *word;
    bool is_of_experiment;
} kinds[] = {
    {1, "member", false},    {2, "node", false},        {3, "invite", false},   {4, "slot", false},   {5, "experiment", true},
    {6, "control", true},    {7, "claim", true},        {8, "attempt", true},   {9, "worker", true},  {10, "verdict", true},
    {11, "manifest", true},  {12, "tombstone", false},  {13, "eviction", false}, {14, "drain", false}, {15, "death", true},
    {16, "quarantine", false}, {17, "generation", true}, {18, "addresses", false}, {19, "links", false},
    {20, "output", true},     {22, "programs", false}, {25, "experiment_large", true},
    {26, "attempt_large", true}, {27, "generation_large", true}, {28, "stop", true}, {29, "annotation", true}, {30, "result", true},
    {31, "search_log", true}, {32, "search_stop", true}, {35, "search_pause", true}, {37, "searcher", true},
    {39, "part", true},      {40, "token", false}, {41, "policy", false}, {43, "secret", false},
    {44, "webhook", false},  {45, "delivery", true}, {46, "model", false}, {47, "usage", false},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* A record of the kind whose key begins with an experiment's id. */
static struct record record_of(uint16_t kind)
{
    static const uint8_t key[EXPERIMENT_ID_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8};
    return (struct record){.kind = kind, .key = key, .key_bytes = sizeof key};
}

static void the_table_has_these_kinds_and_no_others(void **state)
{
    (void)state;
    static const uint16_t numbers[] = {
#define NUMBER(name, number, word, of_experiment, folds) FACT_##name,
        FACT_KINDS(NUMBER)
#undef NUMBER
    };
    assert_int_equal(sizeof numbers / sizeof numbers[0], KINDS);
    for (size_t i = 0; i < KINDS; i++) {
        assert_int_equal(numbers[i], kinds[i].number);
    }
}

static void every_kind_has_its_word(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        assert_string_equal(fact_kind_name(kinds[i].number), kinds[i].word);
    }
}

static void a_kind_of_another_version_is_called_unknown(void **state)
{
    (void)state;
    assert_string_equal(fact_kind_name(0), "unknown");
    assert_string_equal(fact_kind_name(UINT16_MAX - 1), "unknown");
    assert_string_equal(fact_kind_name(UINT16_MAX), "unknown");
}

static void records_go_with_their_experiment_by_kind(void **state)
{
    (void)state;
    for (size_t i = 0; i < KINDS; i++) {
        struct record record = record_of(kinds[i].number);
        experiment_id id;
        assert_int_equal(fact_is_of_experiment(&record, &id), kinds[i].is_of_experiment);
        if (kinds[i].is_of_experiment) {
            assert_memory_equal(id.bytes, record.key, sizeof id.bytes);
        }
    }
}

static void a_record_of_another_version_goes_with_no_experiment(void **state)
{
    (void)state;
    struct record record = record_of(1000);
    experiment_id id;
    assert_false(fact_is_of_experiment(&record, &id));
}

static void a_record_whose_key_names_no_experiment_goes_with_none(void **state)
{
    (void)state;
    static const uint8_t none[EXPERIMENT_ID_BYTES];
    for (size_t i = 0; i < KINDS; i++) {
        struct record record = record_of(kinds[i].number);
        experiment_id id;
        record.key_bytes = EXPERIMENT_ID_BYTES - 1;
        assert_false(fact_is_of_experiment(&record, &id));
        record.key = none;
        record.key_bytes = sizeof none;
        assert_false(fact_is_of_experiment(&record, &id));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_has_these_kinds_and_no_others),
        cmocka_unit_test(every_kind_has_its_word),
        cmocka_unit_test(a_kind_of_another_version_is_called_unknown),
        cmocka_unit_test(records_go_with_their_experiment_by_kind),
        cmocka_unit_test(a_record_of_another_version_goes_with_no_experiment),
        cmocka_unit_test(a_record_whose_key_names_no_experiment_goes_with_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

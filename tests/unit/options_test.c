/* The table of options: every row in YAML and in a record, at its bounds and beyond them. */
#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/core/facts/config.h"
#include "node/core/facts/options.h"
#include "tests/unit/facts_make.h"

static bool is_text(const struct config_option *option)
{
    return option->kind == OPTION_TEXT || option->kind == OPTION_NAME || option->kind == OPTION_LINES;
}

static uint64_t word_count(const struct config_option *option)
{
    uint64_t count = 0;
    while (option->words[count] != NULL) {
        count++;
    }
    return count;
}

/* ---- records ---- */

/* One change of a record: `value` replaces the value under `key`, or is added if the record has no such key. Without bytes of
 * a value the key is left out. */
struct change {
    const char *key;
    uint8_t value[16];
    size_t value_bytes;
};

static struct change change_number(const char *key, uint64_t number)
{
    struct change change = {.key = key};
    struct pack_writer writer;
    pack_writer_init(&writer, change.value, sizeof change.value);
    pack_u64(&writer, number);
    change.value_bytes = writer.used_bytes;
    return change;
}

static struct change change_below_zero(const char *key)
{
    struct change change = {.key = key};
    struct pack_writer writer;
    pack_writer_init(&writer, change.value, sizeof change.value);
    pack_i64(&writer, -1);
    change.value_bytes = writer.used_bytes;
    return change;
}

/* Packs `config` with one change, and unpacks the result. */
static int unpack_changed(const struct config *config, const struct change *change, struct config *out)
{
    static uint8_t whole[CONFIG_PACKED_BYTES_MAX], changed[CONFIG_PACKED_BYTES_MAX];
    uint32_t bytes = make_packed_config(config, whole);
    struct pack_reader map;
    pack_reader_init(&map, whole, bytes);
    bool is_there = !pack_find(&map, change->key).failed, is_kept = change->value_bytes > 0;
    struct pack_writer writer;
    pack_writer_init(&writer, changed, sizeof changed);
    uint32_t pairs = pack_read_map(&map);
    pack_map(&writer, pairs - is_there + is_kept);
    for (uint32_t i = 0; i < pairs; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(&map, &key_bytes);
        const uint8_t *value = pack_read_any(&map, &value_bytes);
        bool is_changed = pack_text_is(key, key_bytes, change->key);
        if (!is_changed || is_kept) {
            pack_text_n(&writer, key, key_bytes);
            pack_raw(&writer, is_changed ? change->value : value, is_changed ? change->value_bytes : value_bytes);
        }
    }
    if (is_kept && !is_there) {
        pack_text(&writer, change->key);
        pack_raw(&writer, change->value, change->value_bytes);
    }
    assert_true(pack_at_end(&map) && !writer.failed);
    struct pack_reader reader;
    pack_reader_init(&reader, changed, writer.used_bytes);
    int result = config_unpack(&reader, out);
    assert_int_equal(result != 0, reader.failed);
    return result;
}

/* A configuration in which `option` may have any value between its bounds. */
static struct config config_around(const struct config_option *option)
{
    static const uint8_t one_const[] = {0x91, 0x93, 0xa1, 'a', 0x00, 0x01}; /* tpe needs a hyperparameter, and grid one that is finite */
    struct config config;
    make_config(&config, 3, 5);
    config.hyperparameters = one_const;
    config.hyperparameters_bytes = sizeof one_const;
    config.searcher = SEARCH_SINGLE;
    config.num_rungs = 2; /* asha would be whole, too */
    config.max_time = 9;
    config.population_size = config.max_trials; /* ... and pbt */
    config.num_rounds = 1;
    (void)snprintf(config.searcher_entrypoint, sizeof config.searcher_entrypoint, "x"); /* ... and custom */
    config.max_slots = CONFIG_SLOTS_MAX;
    if (option->offset == offsetof(struct config, min_slots)) {
        config.slots_per_trial = CONFIG_SLOTS_MAX;
    }
    if (option->offset == offsetof(struct config, keep_ranks)) {
        config.max_slots = CONFIG_KEEP_ALL_SLOTS_MAX;
    }
    return config;
}

/* ---- YAML ---- */

static char parse_error[CONFIG_ERROR_BYTES];

/* A file in which the option means something. */
static const char *file_around(const struct config_option *option)
{
    bool is_asha = option->offset == offsetof(struct config, num_rungs);
    bool is_adaptive = option->offset == offsetof(struct config, max_rungs) || option->offset == offsetof(struct config, mode) ||
                       option->offset == offsetof(struct config, max_time);
    bool is_tpe = option->offset == offsetof(struct config, n_startup_trials);
    bool is_pbt = option->offset == offsetof(struct config, population_size) || option->offset == offsetof(struct config, num_rounds) ||
                  option->parts > 0;
    if (option->offset == offsetof(struct config, searcher_timeout_s)) {
        return "entrypoint: x\nhyperparameters: {a: 1}\n"
               "searcher: {name: custom, metric: loss, entrypoint: y, max_trials: 3, max_length: 9}\n";
    }
    return is_pbt        ? "entrypoint: x\nhyperparameters: {a: 1}\n"
                           "searcher: {name: pbt, metric: loss, population_size: 2, num_rounds: 1, length_per_round: 3}\n"
           : is_tpe        ? "entrypoint: x\nhyperparameters: {a: 1}\nsearcher: {name: tpe, metric: loss, max_trials: 3}\n"
           : is_asha     ? "entrypoint: x\nsearcher: {name: asha, metric: loss, max_trials: 3, max_time: 9, num_rungs: 2}\n"
           : is_adaptive ? "entrypoint: x\nsearcher: {name: adaptive_asha, metric: loss, max_trials: 3, max_time: 9}\n"
                         : "entrypoint: x\nsearcher: {name: random, max_trials: 3}\n";
}

static int parse(const struct config_option *option, const char *value, struct config *out)
{
    static uint8_t scratch[CONFIG_SCRATCH_BYTES];
    const char *text = file_around(option);
    char set[128];
    (void)snprintf(set, sizeof set, "%s=%s", option->key, value);
    const char *overrides[] = {set, "resources.slots_per_trial=256"};
    bool is_below = option->offset == offsetof(struct config, min_slots);
    int result = config_parse_yaml("exp.yaml", text, strlen(text), overrides, is_below ? 2 : 1, scratch, sizeof scratch,
                                   out, parse_error);
    if (result != 0) {
        char start[384];
        (void)snprintf(start, sizeof start, "--set %s: %s is '%s'; allowed are ", set, option->key, value);
        assert_memory_equal(parse_error, start, strlen(start));
    }
    return result;
}

static int parse_number(const struct config_option *option, uint64_t number, struct config *out)
{
    char value[32];
    (void)snprintf(value, sizeof value, "%" PRIu64, number);
    return parse(option, value, out);
}

/* ---- tests ---- */

static void rows_agree_with_each_other_and_with_the_struct(void **state)
{
    (void)state;
    uint32_t packed = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        packed += config_options[i].packing != PACKED_NOT;
    }
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *a = &config_options[i];
        assert_ptr_equal(config_option_find(a->key), a);
        assert_true(a->kind != OPTION_OTHER || a->packing == PACKED_NOT);
        assert_int_equal(a->type != NULL, a->allowed != NULL);
        assert_int_equal(a->packing != PACKED_NOT, a->packed_key != NULL);
        assert_true(a->packing == PACKED_NOT || a->place < packed);
        if (a->kind == OPTION_NUMBER) {
            assert_true(a->size == 8 || (a->size == 4 && a->max <= UINT32_MAX && a->standard <= UINT32_MAX));
            assert_true(a->min <= a->max && a->max < UINT64_MAX);
        } else if (a->kind == OPTION_REAL) {
            assert_true(a->size == sizeof(double) && config_option_real_is_good(a, config_option_real_of(a, a->standard)));
        } else if (a->kind == OPTION_TRUTH) {
            assert_true(a->size == sizeof(bool) && a->standard <= 1);
        } else if (a->kind == OPTION_WORD) {
            assert_true(a->size == 4 && a->standard < word_count(a));
        }
        for (size_t j = 0; j < i; j++) {
            const struct config_option *b = &config_options[j];
            assert_string_not_equal(a->key, b->key);
            if (a->packing != PACKED_NOT && b->packing != PACKED_NOT) {
                assert_string_not_equal(a->packed_key, b->packed_key);
                assert_int_not_equal(a->place, b->place);
            }
            if (a->kind != OPTION_OTHER && b->kind != OPTION_OTHER) {
                assert_true(a->offset + a->size <= b->offset || b->offset + b->size <= a->offset);
            }
        }
    }
}

static void a_record_has_the_keys_that_it_always_had(void **state)
{
    (void)state;
    static const char *const keys[] = {
        "name", "description", "entrypoint", "metric", "smaller_is_better", "searcher", "max_trials", "slots_per_trial",
        "min_slots", "max_slots", "priority", "slot_kind", "max_restarts", "seed", "preemption_timeout", "replicas",
        "save_experiment_best", "save_trial_best", "save_trial_latest", "on_partition", "environment", "labels",
        "hyperparameters"};
    static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct config config;
    make_config(&config, 3, 5);
    struct pack_reader map;
    pack_reader_init(&map, bytes, make_packed_config(&config, bytes));
    assert_int_equal(pack_read_map(&map), sizeof keys / sizeof keys[0]);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t key_bytes;
        const char *key = pack_read_text(&map, &key_bytes);
        if (!pack_text_is(key, key_bytes, keys[i])) {
            fail_msg("key %zu is %.*s, wanted %s", i, (int)key_bytes, key, keys[i]);
        }
        pack_skip(&map);
    }
    assert_true(pack_at_end(&map));
}

/* Records with these values may be in a mesh, so each of them is read for ever. */
static void a_record_may_have_the_numbers_that_it_always_might(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        uint64_t min, max;
    } rows[] = {
        {"searcher", 0, 7},
        {"max_trials", 0, 100000},
        {"slots_per_trial", 1, 256},
        {"min_slots", 1, 256},
        {"max_slots", 1, 256},
        {"priority", 1, 99},
        {"slot_kind", 0, 2},
        {"max_restarts", 0, 1000},
        {"seed", 0, INT64_MAX},
        {"preemption_timeout", 0, 86400},
        {"replicas", 1, 8},
        {"save_experiment_best", 0, 1000},
        {"save_trial_best", 0, 1000},
        {"save_trial_latest", 0, 1000},
        {"on_partition", 0, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct config_option *option = NULL;
        for (size_t j = 0; j < config_option_count; j++) {
            bool is_it = config_options[j].packed_key != NULL && strcmp(config_options[j].packed_key, rows[i].key) == 0;
            option = is_it ? &config_options[j] : option;
        }
        assert_non_null(option);
        struct config config = config_around(option), out;
        uint64_t tried[] = {rows[i].min, rows[i].max, rows[i].min - 1, rows[i].max + 1};
        for (size_t j = 0; j < 4; j++) {
            struct change change = change_number(rows[i].key, tried[j]);
            if (j == 2 && rows[i].min == 0) {
                change = change_below_zero(rows[i].key);
            }
            assert_int_equal(unpack_changed(&config, &change, &out), j < 2 ? 0 : ERR_MALFORMED);
            assert_true(j >= 2 || config_option_number(option, &out) == tried[j]);
        }
    }
}

static void every_number_of_a_file_is_within_its_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        struct config out;
        if (option->kind != OPTION_NUMBER || option->offset == offsetof(struct config, every)) { /* that one depends on max_time: searcher_test */
            continue;
        }
        assert_int_equal(parse_number(option, option->min, &out), 0);
        assert_true(config_option_number(option, &out) == option->min);
        assert_int_equal(parse_number(option, option->max, &out), 0);
        assert_true(config_option_number(option, &out) == option->max);
        assert_int_equal(parse_number(option, option->max + 1, &out), ERR_MALFORMED);
        if (option->min == 0) {
            assert_int_equal(parse(option, "-1", &out), ERR_MALFORMED);
        } else if (option->offset != offsetof(struct config, slots_per_trial)) { /* 0 is 1 there: determined_test */
            assert_int_equal(parse_number(option, option->min - 1, &out), ERR_MALFORMED);
        }
    }
}

static void every_time_and_size_of_a_file_may_have_units(void **state)
{
    (void)state;
    unsigned times = 0, sizes = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        struct config out;
        if (option->kind != OPTION_NUMBER) {
            continue;
        }
        times += option->unit == OPTION_SECONDS;
        sizes += option->unit == OPTION_BYTES;
        assert_int_equal(parse(option, "1h30m", &out), option->unit == OPTION_SECONDS ? 0 : ERR_MALFORMED);
        assert_true(option->unit != OPTION_SECONDS || config_option_number(option, &out) == 5400);
        assert_int_equal(parse(option, "16G", &out), option->unit == OPTION_BYTES ? 0 : ERR_MALFORMED);
        assert_true(option->unit != OPTION_BYTES || config_option_number(option, &out) == UINT64_C(16) << 30);
        assert_int_equal(parse(option, "999999999d", &out), ERR_MALFORMED);
        assert_int_equal(parse(option, "5 weeks", &out), ERR_MALFORMED);
        assert_true(option->unit != OPTION_SECONDS || strstr(parse_error, "with the units s, m, h and d") != NULL);
        assert_int_equal(parse(option, "16GB", &out), ERR_MALFORMED);
        assert_true(option->unit != OPTION_BYTES || strstr(parse_error, "with the units K, M, G and T") != NULL);
    }
    assert_true(times >= 4 && sizes >= 1);
}

static void every_number_of_a_record_is_within_its_bounds(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->kind != OPTION_NUMBER || option->packing == PACKED_NOT) {
            continue;
        }
        struct config config = config_around(option), out;
        uint64_t good[] = {option->min, option->max, option->standard};
        for (size_t j = 0; j < 3; j++) {
            struct change change = change_number(option->packed_key, good[j]);
            assert_int_equal(unpack_changed(&config, &change, &out), 0);
            assert_true(config_option_number(option, &out) == good[j]);
        }
        struct change above = change_number(option->packed_key, option->max + 1);
        struct change wrapped = change_number(option->packed_key, (UINT64_C(1) << 32) + option->min);
        struct change below = option->min == 0 ? change_below_zero(option->packed_key)
                                               : change_number(option->packed_key, option->min - 1);
        bool is_below_standard = option->min > 0 && option->standard == option->min - 1;
        assert_int_equal(unpack_changed(&config, &above, &out), ERR_MALFORMED);
        assert_int_equal(unpack_changed(&config, &wrapped, &out), option->max > UINT32_MAX ? 0 : ERR_MALFORMED);
        assert_int_equal(unpack_changed(&config, &below, &out), is_below_standard ? 0 : ERR_MALFORMED);
    }
}

static void every_number_with_a_fraction_is_within_its_bounds(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->kind != OPTION_REAL) {
            continue;
        }
        seen++;
        double low = config_option_real_of(option, option->min), high = config_option_real_of(option, option->max);
        const double good[] = {low + (high - low) / 4, high}, bad[] = {option->parts > 0 ? low - 0.01 : low, low - 1, high + 1, (double)NAN, (double)INFINITY};
        for (size_t j = 0; j < 7; j++) {
            struct config config = config_around(option), out;
            double number = j < 2 ? good[j] : bad[j - 2];
            struct change change = {.key = option->packed_key};
            struct pack_writer writer;
            pack_writer_init(&writer, change.value, sizeof change.value);
            pack_double(&writer, number);
            change.value_bytes = writer.used_bytes;
            assert_int_equal(unpack_changed(&config, &change, &out), j < 2 ? 0 : ERR_MALFORMED);
            if (j < 2) {
                double read = config_option_real(option, &out);
                assert_memory_equal(&read, &number, sizeof read);
            }
        }
    }
    assert_true(seen >= 1);
}

static void every_word_and_truth_value_is_read_in_files_and_records(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        struct config out;
        if (option->kind != OPTION_WORD && option->kind != OPTION_TRUTH) {
            continue;
        }
        for (uint64_t value = 0; value < (option->kind == OPTION_TRUTH ? 2 : word_count(option)); value++) {
            const char *word = option->kind == OPTION_TRUTH ? (value == 0 ? "off" : "on") : option->words[value];
            struct config config = config_around(option);
            struct change none = {.key = "no such key"};
            if (option->offset != offsetof(struct config, searcher)) { /* only random may have max_trials in a file */
                assert_int_equal(parse(option, word, &out), 0);
                assert_true(config_option_number(option, &out) == value);
            }
            config_option_set_number(option, value, &config);
            assert_int_equal(unpack_changed(&config, &none, &out), 0);
            assert_true(config_option_number(option, &out) == value);
        }
        assert_int_equal(parse(option, "nonsense", &out), ERR_MALFORMED);
        if (option->packing != PACKED_NOT) {
            struct config config = config_around(option);
            struct change bad = change_number(option->packed_key, option->kind == OPTION_TRUTH ? 1 : word_count(option));
            assert_int_equal(unpack_changed(&config, &bad, &out), ERR_MALFORMED);
        }
    }
}

static void a_text_of_a_record_fits_its_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (!is_text(option) || option->packing == PACKED_NOT) {
            continue;
        }
        struct config config = config_around(option), out;
        struct change none = {.key = "no such key"}, number = change_number(option->packed_key, 1);
        memset((char *)&config + option->offset, 'a', option->size - 1);
        assert_int_equal(unpack_changed(&config, &none, &out), 0);
        assert_string_equal((char *)&out + option->offset, (char *)&config + option->offset);
        assert_int_equal(unpack_changed(&config, &number, &out), ERR_MALFORMED);
    }
}

/* Such a record was written by a later version. */
static void a_record_with_an_unknown_key_is_read(void **state)
{
    (void)state;
    struct config config, out;
    make_config(&config, 3, 5);
    struct change change = change_number("of_a_later_version", 7);
    assert_int_equal(unpack_changed(&config, &change, &out), 0);
    assert_int_equal(out.max_trials, 3);
    assert_int_equal(out.seed, config.seed);
}

/* Such a record was written by an earlier version. A record of any version has 17 of the options. */
static void an_option_that_a_record_lacks_has_its_default(void **state)
{
    (void)state;
    unsigned later = 0, refused = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->packing == PACKED_NOT) {
            continue;
        }
        struct config config = config_around(option), out;
        struct change change = {.key = option->packed_key};
        if (option->packing == PACKED_ALWAYS) {
            assert_int_equal(unpack_changed(&config, &change, &out), ERR_MALFORMED);
            refused++;
            continue;
        }
        later++;
        if (is_text(option)) {
            memset((char *)&config + option->offset, 'a', option->size - 1);
        } else if (option->kind == OPTION_REAL) {
            config_option_set_real(option, config_option_real_of(option, option->max), &config);
        } else {
            config_option_set_number(option, option->standard == 0 ? 1 : 0, &config);
        }
        assert_int_equal(unpack_changed(&config, &change, &out), 0);
        if (is_text(option)) {
            assert_string_equal((char *)&out + option->offset, option->standard_text != NULL ? option->standard_text : "");
        } else if (option->kind == OPTION_REAL) {
            double number = config_option_real(option, &out), standard = config_option_real_of(option, option->standard);
            assert_memory_equal(&number, &standard, sizeof number);
        } else {
            assert_true(config_option_number(option, &out) == option->standard);
        }
    }
    assert_true(later >= 4);
    assert_int_equal(refused, 17);
}

static void a_sparse_option_is_written_where_it_differs(void **state)
{
    (void)state;
    unsigned seen = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->packing != PACKED_SPARSE || is_text(option) || option->kind == OPTION_REAL) {
            continue;
        }
        seen++;
        for (uint64_t value = 0; value <= 1; value++) {
            static uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
            struct config config = config_around(option);
            config_option_set_number(option, value, &config);
            struct pack_reader map;
            pack_reader_init(&map, bytes, make_packed_config(&config, bytes));
            assert_int_equal(pack_find(&map, option->packed_key).failed, value == option->standard);
        }
    }
    assert_true(seen >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_agree_with_each_other_and_with_the_struct),
        cmocka_unit_test(a_record_has_the_keys_that_it_always_had),
        cmocka_unit_test(a_record_may_have_the_numbers_that_it_always_might),
        cmocka_unit_test(every_number_of_a_file_is_within_its_bounds),
        cmocka_unit_test(every_time_and_size_of_a_file_may_have_units),
        cmocka_unit_test(every_number_of_a_record_is_within_its_bounds),
        cmocka_unit_test(every_number_with_a_fraction_is_within_its_bounds),
        cmocka_unit_test(every_word_and_truth_value_is_read_in_files_and_records),
        cmocka_unit_test(a_text_of_a_record_fits_its_field),
        cmocka_unit_test(a_record_with_an_unknown_key_is_read),
        cmocka_unit_test(an_option_that_a_record_lacks_has_its_default),
        cmocka_unit_test(a_sparse_option_is_written_where_it_differs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Searchers: the trials of a space, as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"
#include "base/random.h"
#include "train/search/search.h"

/* A space under construction. */
struct fixture {
    uint8_t bytes[SEARCH_SPACE_BYTES_MAX];
    struct pack_writer writer;
    uint8_t values[512];
    struct search_space space;
};

static void begin(struct fixture *f, enum search_kind kind, uint32_t max_trials, uint32_t parameters)
{
    memset(f, 0, sizeof *f);
    pack_writer_init(&f->writer, f->bytes, sizeof f->bytes);
    pack_array(&f->writer, parameters);
    f->space = (struct search_space){.kind = kind, .max_trials = max_trials, .bytes = f->bytes};
}

static void add(struct fixture *f, struct search_parameter parameter)
{
    search_parameter_pack(&f->writer, &parameter);
    assert_false(f->writer.failed);
    f->space.byte_count = (uint32_t)f->writer.used_bytes;
}

static void add_const(struct fixture *f, const char *name, uint64_t value)
{
    struct pack_writer writer;
    pack_writer_init(&writer, f->values, sizeof f->values);
    pack_u64(&writer, value);
    struct search_parameter parameter = {.kind = SEARCH_CONST, .values = f->values, .values_bytes = (uint32_t)writer.used_bytes};
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    add(f, parameter);
}

static void add_texts(struct fixture *f, const char *name, uint32_t count, const char *const *texts)
{
    struct pack_writer writer;
    pack_writer_init(&writer, f->values, sizeof f->values);
    pack_array(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(&writer, texts[i]);
    }
    struct search_parameter parameter = {
        .kind = SEARCH_CATEGORICAL, .values = f->values, .values_bytes = (uint32_t)writer.used_bytes};
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    add(f, parameter);
}

static void add_range(struct fixture *f, const char *name, enum search_parameter_kind kind, double low, double high, uint32_t count)
{
    struct search_parameter parameter = {.kind = kind, .minval = low, .maxval = high, .count = count, .base = 10};
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    add(f, parameter);
}

static const char *trial(const struct fixture *f, uint64_t seed, uint32_t index)
{
    static char json[8192];
    uint8_t bytes[SEARCH_VALUES_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(search_trial_values(&f->space, seed, index, &writer), 0);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, writer.used_bytes);
    assert_int_equal(json_from_pack(&reader, json, sizeof json), 0);
    assert_true(pack_at_end(&reader));
    return json;
}

static uint32_t count_of(const struct fixture *f)
{
    uint32_t count = 0;
    assert_int_equal(search_trial_count(&f->space, &count), 0);
    return count;
}

static const char *const colours[] = {"red", "green"};

static void grid_is_row_major_with_the_last_fastest(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_GRID, 0, 4);
    add_texts(&f, "colour", 2, colours);
    add_const(&f, "fixed", 7);
    add_range(&f, "n", SEARCH_INT, 1, 3, 0);
    add_range(&f, "lr", SEARCH_LOG, -3, -1, 2);
    assert_int_equal(count_of(&f), 12);
    assert_string_equal(trial(&f, 1, 0), "{\"colour\": \"red\", \"fixed\": 7, \"n\": 1, \"lr\": 0.001}");
    assert_string_equal(trial(&f, 1, 1), "{\"colour\": \"red\", \"fixed\": 7, \"n\": 1, \"lr\": 0.1}");
    assert_string_equal(trial(&f, 1, 2), "{\"colour\": \"red\", \"fixed\": 7, \"n\": 2, \"lr\": 0.001}");
    assert_string_equal(trial(&f, 1, 6), "{\"colour\": \"green\", \"fixed\": 7, \"n\": 1, \"lr\": 0.001}");
    assert_string_equal(trial(&f, 1, 11), "{\"colour\": \"green\", \"fixed\": 7, \"n\": 3, \"lr\": 0.1}");
    struct pack_writer writer;
    pack_writer_init(&writer, f.values, sizeof f.values);
    assert_int_equal(search_trial_values(&f.space, 1, 12, &writer), ERR_NOT_FOUND);
    assert_int_equal(writer.used_bytes, 0);
}

static void grid_points_are_spaced_evenly(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "n", SEARCH_INT, 0, 10, 4);
    assert_string_equal(trial(&f, 0, 1), "{\"n\": 3}");
    assert_string_equal(trial(&f, 0, 2), "{\"n\": 7}");
    assert_string_equal(trial(&f, 0, 3), "{\"n\": 10}");
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "n", SEARCH_INT, -2, 2, 99); /* more than there are integers */
    assert_int_equal(count_of(&f), 5);
    assert_string_equal(trial(&f, 0, 0), "{\"n\": -2}");
    assert_string_equal(trial(&f, 0, 4), "{\"n\": 2}");
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "n", SEARCH_INT, 1, 8, 1); /* one point: the middle, as Determined */
    assert_string_equal(trial(&f, 0, 0), "{\"n\": 5}");
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "n", SEARCH_INT, -9007199254740992.0, 9007199254740992.0, 3);
    assert_string_equal(trial(&f, 0, 0), "{\"n\": -9007199254740992}");
    assert_string_equal(trial(&f, 0, 1), "{\"n\": 0}");
    assert_string_equal(trial(&f, 0, 2), "{\"n\": 9007199254740992}");
    begin(&f, SEARCH_GRID, 0, 2);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 4);
    add_range(&f, "y", SEARCH_DOUBLE, 2, 3, 1);
    assert_string_equal(trial(&f, 0, 0), "{\"x\": 0.0, \"y\": 2.5}");
    assert_string_equal(trial(&f, 0, 1), "{\"x\": 0.333333333, \"y\": 2.5}");
    assert_string_equal(trial(&f, 0, 3), "{\"x\": 1.0, \"y\": 2.5}");
}

static void grid_needs_counts_and_has_a_limit(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t count = 77;
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 0);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_REFUSED);
    f.space.kind = SEARCH_SINGLE;
    assert_int_equal(count_of(&f), 1);
    begin(&f, SEARCH_GRID, 0, 2);
    add_range(&f, "a", SEARCH_INT, 1, 1000, 0);
    add_range(&f, "b", SEARCH_INT, 1, 101, 0);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL);
    assert_int_equal(count, 77);
    begin(&f, SEARCH_GRID, 0, 2);
    add_range(&f, "a", SEARCH_INT, 1, 1000, 0);
    add_range(&f, "b", SEARCH_INT, 1, 100, 0);
    assert_int_equal(count_of(&f), SEARCH_TRIALS_MAX);
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "a", SEARCH_INT, -9e15, 9e15, 0);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL);
}

static void random_trials_follow_from_seed_and_index_alone(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_RANDOM, 50, 4);
    add_range(&f, "n", SEARCH_INT, 3, 5, 0);
    add_range(&f, "x", SEARCH_DOUBLE, -1, 1, 0);
    add_range(&f, "lr", SEARCH_LOG, -4, -1, 0);
    add_texts(&f, "colour", 2, colours);
    assert_int_equal(count_of(&f), 50);
    char first[512];
    strcpy(first, trial(&f, 9, 7));
    (void)trial(&f, 9, 8);
    assert_string_equal(trial(&f, 9, 7), first);
    assert_string_not_equal(trial(&f, 10, 7), first);
    assert_string_not_equal(trial(&f, 9, 6), first);
    /* Recorded: another machine, compiler or version must give these very texts. */
    assert_string_equal(first, "{\"n\": 3, \"x\": -0.443449288, \"lr\": 0.000120686854, \"colour\": \"red\"}");
    struct fixture single = f;
    single.space.kind = SEARCH_SINGLE;
    single.space.bytes = single.bytes;
    char zero[512];
    strcpy(zero, trial(&f, 9, 0));
    assert_string_equal(trial(&single, 9, 0), zero);
}

static void random_draws_cover_their_ranges(void **state)
{
    (void)state;
    struct fixture f;
    enum { TRIALS = 9000 };
    begin(&f, SEARCH_RANDOM, TRIALS, 4);
    add_range(&f, "n", SEARCH_INT, -1, 1, 0);
    add_range(&f, "x", SEARCH_DOUBLE, 2, 6, 0);
    add_range(&f, "lr", SEARCH_LOG, -4, -1, 0);
    add_texts(&f, "colour", 2, colours);
    unsigned ints[3] = {0}, decades[3] = {0}, reds = 0;
    double sum = 0;
    for (uint32_t i = 0; i < TRIALS; i++) {
        uint8_t bytes[512];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        assert_int_equal(search_trial_values(&f.space, 4, i, &writer), 0);
        struct pack_reader reader;
        pack_reader_init(&reader, bytes, writer.used_bytes);
        struct pack_reader n = pack_find(&reader, "n"), x = pack_find(&reader, "x"), lr = pack_find(&reader, "lr"),
                           colour = pack_find(&reader, "colour");
        assert_int_not_equal(pack_peek(&n), PACK_DOUBLE);
        int64_t integer = pack_read_i64(&n);
        assert_true(integer >= -1 && integer <= 1);
        ints[integer + 1]++;
        double value = pack_read_double(&x), rate = pack_read_double(&lr);
        assert_true(value >= 2 && value <= 6 && rate >= 1e-4 && rate <= 0.1);
        sum += value;
        decades[rate < 1e-3 ? 0 : rate < 1e-2 ? 1 : 2]++;
        size_t length;
        const char *text = pack_read_text(&colour, &length);
        reds += pack_text_is(text, length, "red");
        assert_false(n.failed || x.failed || lr.failed || colour.failed);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(ints[i], 2800, 3200); /* 3000 +- 4.4 standard deviations of 45 */
        assert_in_range(decades[i], 2800, 3200);
    }
    assert_in_range(reds, 4290, 4710);
    assert_true(sum / TRIALS > 3.945 && sum / TRIALS < 4.055);
}

static void both_bounds_are_drawn_and_are_points_of_a_grid(void **state)
{
    (void)state;
    struct fixture f;
    char json[64];
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "n", SEARCH_INT, 1, 4, 0);
    assert_int_equal(count_of(&f), 4);
    for (uint32_t i = 0; i < 4; i++) {
        (void)snprintf(json, sizeof json, "{\"n\": %u}", i + 1);
        assert_string_equal(trial(&f, 1, i), json);
    }
    begin(&f, SEARCH_RANDOM, 400, 1);
    add_range(&f, "n", SEARCH_INT, 1, 4, 0);
    for (uint64_t seed = 0; seed < 20; seed++) {
        unsigned drawn[5] = {0};
        for (uint32_t i = 0; i < 400; i++) {
            int n = 0;
            assert_int_equal(sscanf(trial(&f, seed, i), "{\"n\": %d}", &n), 1);
            assert_in_range(n, 1, 4);
            drawn[n]++;
        }
        for (int n = 1; n <= 4; n++) {
            assert_true(drawn[n] >= 60);
        }
    }
    begin(&f, SEARCH_GRID, 0, 1);
    add_range(&f, "rate", SEARCH_LOG, -3, -1, 3);
    assert_int_equal(count_of(&f), 3);
    assert_string_equal(trial(&f, 1, 0), "{\"rate\": 0.001}");
    assert_string_equal(trial(&f, 1, 1), "{\"rate\": 0.01}");
    assert_string_equal(trial(&f, 1, 2), "{\"rate\": 0.1}");
    static const enum search_kind kinds[] = {SEARCH_RANDOM, SEARCH_GRID};
    for (size_t i = 0; i < 2; i++) {
        begin(&f, kinds[i], 1, 3);
        add_range(&f, "n", SEARCH_INT, 3, 3, 0);
        add_range(&f, "x", SEARCH_DOUBLE, 2, 2, 1);
        add_range(&f, "rate", SEARCH_LOG, -2, -2, 1);
        assert_int_equal(count_of(&f), 1);
        assert_string_equal(trial(&f, 1, 0), "{\"n\": 3, \"x\": 2.0, \"rate\": 0.01}");
    }
}

static void dotted_names_become_nested_maps(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_SINGLE, 0, 6);
    add_const(&f, "optimizer.rate.first", 1);
    add_const(&f, "hidden", 2);
    add_const(&f, "optimizer.momentum", 3);
    add_const(&f, "opt", 4);
    add_const(&f, "optimizer.rate.last", 5);
    add_const(&f, "optimizer2.rate", 6);
    assert_string_equal(trial(&f, 0, 0), "{\"optimizer\": {\"rate\": {\"first\": 1, \"last\": 5}, \"momentum\": 3}, \"hidden\": 2, "
                                         "\"opt\": 4, \"optimizer2\": {\"rate\": 6}}");
    begin(&f, SEARCH_SINGLE, 0, 0);
    f.space.byte_count = 1;
    assert_string_equal(trial(&f, 0, 0), "{}");
    begin(&f, SEARCH_GRID, 0, 0);
    f.space.byte_count = 1;
    assert_int_equal(count_of(&f), 1);
}

static void names_and_ranges_out_of_bounds_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"", ".", "a.", ".a", "a..b", "a.b.c.d.e.f.g.h.i"};
    struct fixture f;
    uint32_t count;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        begin(&f, SEARCH_SINGLE, 0, 1);
        add_const(&f, names[i], 1);
        assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    }
    static const char *const pairs[][2] = {{"a", "a"}, {"a", "a.b"}, {"a.b", "a"}, {"a.b.c", "a.b"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        begin(&f, SEARCH_SINGLE, 0, 2);
        add_const(&f, pairs[i][0], 1);
        add_const(&f, pairs[i][1], 1);
        assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    }
    static const struct {
        enum search_parameter_kind kind;
        double low, high;
    } ranges[] = {
        {SEARCH_INT, 2, 1},         {SEARCH_INT, 0.5, 1},      {SEARCH_INT, 0, 1e16}, {SEARCH_DOUBLE, 1, 0},
        {SEARCH_DOUBLE, 0, 1.1e300}, {SEARCH_LOG, 0, 301},      {SEARCH_LOG, -301, 0}, {SEARCH_DOUBLE, 0, (double)__builtin_nanf("")},
        {SEARCH_DOUBLE, (double)__builtin_nanf(""), 1},         {SEARCH_INT, -(double)__builtin_inff(), 1},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        begin(&f, SEARCH_SINGLE, 0, 1);
        add_range(&f, "x", ranges[i].kind, ranges[i].low, ranges[i].high, 0);
        assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    }
    begin(&f, SEARCH_SINGLE, 0, 1);
    add_texts(&f, "none", 0, NULL);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    begin(&f, SEARCH_RANDOM, 0, 1);
    add_const(&f, "a", 1);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    f.space.max_trials = SEARCH_TRIALS_MAX + 1;
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL);
}

/* Hyperparameters are handed on as JSON, so values that it cannot say are refused at the door. */
static void values_without_a_json_form_are_refused(void **state)
{
    (void)state;
    static const uint8_t number_key[] = {0x91, 0x93, 0xa1, 'a', 0x00, 0x81, 0x01, 0x02}, text_key[] = {0x91, 0x93, 0xa1, 'a', 0x00, 0x81, 0xa1, 'k', 0x02};
    struct search_space space = {SEARCH_SINGLE, 0, number_key, sizeof number_key};
    uint32_t count;
    assert_int_equal(search_trial_count(&space, &count), ERR_MALFORMED);
    space.bytes = text_key;
    space.byte_count = sizeof text_key;
    assert_int_equal(search_trial_count(&space, &count), 0);
    for (unsigned depth = 16; depth <= 17; depth++) {
        uint8_t deep[32] = {0x91, 0x93, 0xa1, 'a', 0x00};
        memset(deep + 5, 0x91, depth);
        deep[5 + depth] = 0xc0;
        space.bytes = deep;
        space.byte_count = 6 + depth;
        assert_int_equal(search_trial_count(&space, &count), depth == 16 ? 0 : ERR_MALFORMED);
    }
}

static void a_writer_that_is_too_small_is_an_error(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_GRID, 0, 1);
    add_texts(&f, "colour", 2, colours);
    uint8_t bytes[8];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    assert_int_equal(search_trial_values(&f.space, 0, 0, &writer), ERR_FULL);
}

static void changed_bytes_are_refused_or_give_whole_trials(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_RANDOM, 3, 5);
    add_range(&f, "opt.n", SEARCH_INT, 3, 5, 2);
    add_range(&f, "opt.x", SEARCH_DOUBLE, -1, 1, 3);
    add_range(&f, "lr", SEARCH_LOG, -4, -1, 2);
    add_texts(&f, "colour", 2, colours);
    add_const(&f, "fixed", 7);
    struct random random;
    random_init(&random, 8);
    unsigned good = 0, refused = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t bytes = f.space.byte_count - (uint32_t)(random_below(&random, 8) == 0 ? random_below(&random, f.space.byte_count) : 0);
        uint8_t *block = malloc(bytes); /* exactly as long, so that the address sanitizer sees a read past the end */
        memcpy(block, f.bytes, bytes);
        for (uint64_t changes = 1 + random_below(&random, 3); changes > 0; changes--) {
            block[random_below(&random, bytes)] = (uint8_t)random_u64(&random);
        }
        struct search_space space = {(enum search_kind)random_below(&random, 3), 3, block, bytes};
        uint32_t count;
        if (search_trial_count(&space, &count) == 0) {
            uint8_t values[SEARCH_VALUES_BYTES_MAX];
            struct pack_writer writer;
            pack_writer_init(&writer, values, sizeof values);
            assert_int_equal(search_trial_values(&space, 1, count - 1, &writer), 0);
            struct pack_reader reader;
            pack_reader_init(&reader, values, writer.used_bytes);
            assert_int_equal(pack_peek(&reader), PACK_MAP);
            pack_skip(&reader);
            assert_true(pack_at_end(&reader));
            good++;
        } else {
            refused++;
        }
        free(block);
    }
    assert_true(good > 1000 && refused > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grid_is_row_major_with_the_last_fastest),
        cmocka_unit_test(grid_points_are_spaced_evenly),
        cmocka_unit_test(grid_needs_counts_and_has_a_limit),
        cmocka_unit_test(random_trials_follow_from_seed_and_index_alone),
        cmocka_unit_test(random_draws_cover_their_ranges),
        cmocka_unit_test(both_bounds_are_drawn_and_are_points_of_a_grid),
        cmocka_unit_test(dotted_names_become_nested_maps),
        cmocka_unit_test(names_and_ranges_out_of_bounds_are_refused),
        cmocka_unit_test(values_without_a_json_form_are_refused),
        cmocka_unit_test(a_writer_that_is_too_small_is_an_error),
        cmocka_unit_test(changed_bytes_are_refused_or_give_whole_trials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

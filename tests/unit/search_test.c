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

static void begin_with(struct fixture *f, const struct search_head *head, enum search_kind kind, uint32_t max_trials, uint32_t parameters)
{
    memset(f, 0, sizeof *f);
    pack_writer_init(&f->writer, f->bytes, sizeof f->bytes);
    search_head_pack(&f->writer, head, parameters);
    f->space = (struct search_space){
        .kind = kind, .max_trials = max_trials, .bytes = f->bytes, .byte_count = (uint32_t)f->writer.used_bytes};
}

static void begin(struct fixture *f, enum search_kind kind, uint32_t max_trials, uint32_t parameters)
{
    static const struct search_head none = {.sampler = SEARCH_SAMPLER_RANDOM};
    begin_with(f, &none, kind, max_trials, parameters);
}

static const struct search_head sobol = {.sampler = SEARCH_SAMPLER_SOBOL};

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

static void add_named(struct fixture *f, const char *name, struct search_parameter parameter)
{
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    add(f, parameter);
}

static void add_log_int(struct fixture *f, const char *name, double low, double high, uint32_t count)
{
    add_named(f, name, (struct search_parameter){.kind = SEARCH_INT, .minval = low, .maxval = high, .count = count, .is_log = true});
}

static void add_steps(struct fixture *f, const char *name, enum search_parameter_kind kind, double low, double high, double step,
                      uint32_t count)
{
    add_named(f, name, (struct search_parameter){.kind = kind, .minval = low, .maxval = high, .step = step, .count = count});
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

/* The values of a grid with one parameter "n", with blanks between them. */
static const char *points_of(const struct fixture *f)
{
    static char out[512];
    out[0] = '\0';
    for (uint32_t i = 0; i < count_of(f); i++) {
        char json[64];
        strcpy(json, trial(f, 1, i));
        json[strlen(json) - 1] = '\0';
        (void)sprintf(out + strlen(out), i > 0 ? " %s" : "%s", json + strlen("{\"n\": "));
    }
    return out;
}

static void grid_points_of_a_logarithm_are_different_ints(void **state)
{
    (void)state;
    static const struct {
        double low, high;
        uint32_t count;
        const char *points;
    } rows[] = {
        {1, 1000, 4, "1 10 100 1000"},
        {16, 1024, 7, "16 32 64 128 256 512 1024"},
        {1, 8, 5, "1 2 3 5 8"},
        {1, 6, 5, "1 2 3 4 6"}, /* 1 1.6 2.4 3.8 6: 2 would be there twice */
        {3, 6, 0, "3 4 5 6"},
        {3, 6, 9, "3 4 5 6"},
        {16, 1024, 1, "128"},
        {7, 7, 0, "7"},
        {9007199254740990.0, 9007199254740992.0, 2, "9007199254740990 9007199254740992"},
    };
    struct fixture f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(&f, SEARCH_GRID, 0, 1);
        add_log_int(&f, "n", rows[i].low, rows[i].high, rows[i].count);
        assert_string_equal(points_of(&f), rows[i].points);
    }
    for (int high = 2; high < 60; high++) {
        for (uint32_t count = 2; count <= (uint32_t)high; count++) {
            begin(&f, SEARCH_GRID, 0, 1);
            add_log_int(&f, "n", 1, high, count);
            assert_int_equal(count_of(&f), count);
            int before = 0, n = 0;
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(sscanf(trial(&f, 1, i), "{\"n\": %d}", &n), 1);
                assert_true(i == 0 ? n == 1 : n > before);
                before = n;
            }
            assert_int_equal(n, high);
        }
    }
}

static void grids_go_by_steps(void **state)
{
    (void)state;
    static const struct {
        enum search_parameter_kind kind;
        double low, high, step;
        uint32_t count;
        const char *points;
    } rows[] = {
        {SEARCH_INT, 0, 100, 25, 0, "0 25 50 75 100"},
        {SEARCH_INT, -5, 4, 3, 0, "-5 -2 1 4"},
        {SEARCH_INT, 0, 100, 25, 3, "0 50 100"},
        {SEARCH_INT, 0, 100, 25, 9, "0 25 50 75 100"},
        {SEARCH_INT, 64, 64, 5, 0, "64"},
        {SEARCH_DOUBLE, 0.1, 0.5, 0.1, 0, "0.1 0.2 0.3 0.4 0.5"},
        {SEARCH_DOUBLE, 0, 0.9, 0.3, 2, "0.0 0.9"},
        {SEARCH_DOUBLE, 0.1, 0.9, 0.1, 5, "0.1 0.3 0.5 0.7 0.9"},
        {SEARCH_DOUBLE, -1, 1, 2, 0, "-1.0 1.0"},
    };
    struct fixture f;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin(&f, SEARCH_GRID, 0, 1);
        add_steps(&f, "n", rows[i].kind, rows[i].low, rows[i].high, rows[i].step, rows[i].count);
        assert_string_equal(points_of(&f), rows[i].points);
    }
}

static void random_draws_go_by_steps_and_by_logarithms(void **state)
{
    (void)state;
    struct fixture f;
    enum { TRIALS = 12000 };
    begin(&f, SEARCH_RANDOM, TRIALS, 3);
    add_log_int(&f, "width", 1, 4, 0);
    add_steps(&f, "batch", SEARCH_INT, 32, 128, 32, 0);
    add_steps(&f, "drop", SEARCH_DOUBLE, 0, 0.5, 0.25, 0);
    unsigned widths[5] = {0}, batches[5] = {0}, drops[3] = {0};
    for (uint32_t i = 0; i < TRIALS; i++) {
        int width = 0, batch = 0;
        double drop = 0;
        assert_int_equal(sscanf(trial(&f, 5, i), "{\"width\": %d, \"batch\": %d, \"drop\": %lf}", &width, &batch, &drop), 3);
        assert_in_range(width, 1, 4);
        assert_true(batch % 32 == 0 && batch >= 32 && batch <= 128);
        assert_true(drop == 0 || drop == 0.25 || drop == 0.5);
        widths[width]++;
        batches[batch / 32]++;
        drops[(int)(drop * 4)]++;
    }
    /* ln((n + 0.5) / (n - 0.5)) / ln 9 of 12,000: 6,000, 2,790, 1,838, 1,373; 4 standard deviations are at most 220. */
    static const int expected[] = {6000, 2790, 1838, 1373};
    for (int n = 1; n <= 4; n++) {
        assert_in_range(widths[n], expected[n - 1] - 220, expected[n - 1] + 220);
        assert_in_range(batches[n], 2800, 3200);
    }
    for (int n = 0; n < 3; n++) {
        assert_in_range(drops[n], 3780, 4220);
    }
    /* Recorded, as above. */
    assert_string_equal(trial(&f, 9, 7), "{\"width\": 1, \"batch\": 96, \"drop\": 0.5}");
}

static void a_parameter_more_changes_no_other_draw_by_name(void **state)
{
    (void)state;
    struct fixture f;
    char before[128];
    for (uint32_t i = 0; i < 20; i++) {
        begin(&f, SEARCH_RANDOM, 50, 2);
        add_log_int(&f, "a", 1, 1000000, 0);
        add_range(&f, "z", SEARCH_DOUBLE, 0, 1, 0);
        strcpy(before, trial(&f, 3, i));
        begin(&f, SEARCH_RANDOM, 50, 3);
        add_log_int(&f, "a", 1, 1000000, 0);
        add_range(&f, "m", SEARCH_INT, 1, 1, 0);
        add_range(&f, "z", SEARCH_DOUBLE, 0, 1, 0);
        char *z = strstr(before, "\"z\"");
        assert_non_null(z);
        const char *after = trial(&f, 3, i);
        assert_memory_equal(after, before, (size_t)(z - before));
        assert_string_equal(strstr(after, "\"z\""), z);
    }
}

static void steps_and_logarithms_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const struct search_parameter wrong[] = {
        {.kind = SEARCH_INT, .minval = 0, .maxval = 8, .is_log = true},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 9, .is_log = true, .step = 2},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 9, .step = 3},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 9, .step = 0.5},
        {.kind = SEARCH_INT, .minval = 1, .maxval = 9, .step = 16},
        {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .step = 0.3},
        {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1e300, .step = 1e-300},
        {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .is_log = true},
        {.kind = SEARCH_LOG, .minval = 0, .maxval = 1, .base = 10, .step = 0.5},
    };
    struct fixture f;
    uint32_t count;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        begin(&f, SEARCH_RANDOM, 1, 1);
        add_named(&f, "x", wrong[i]);
        assert_int_equal(search_trial_count(&f.space, &count), ERR_MALFORMED);
    }
}

/* Of the first 16 points of two dimensions each sixteenth of a range has one, and each square of four times four. */
static void a_sobol_sequence_fills_a_space_evenly(void **state)
{
    (void)state;
    struct fixture f;
    begin_with(&f, &sobol, SEARCH_RANDOM, 64, 5);
    add_const(&f, "fixed", 7);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 16, 0);
    add_range(&f, "n", SEARCH_INT, 0, 15, 0);
    add_texts(&f, "colour", 2, colours);
    add_range(&f, "lr", SEARCH_LOG, -4, -2, 0);
    for (uint64_t seed = 0; seed < 20; seed++) {
        unsigned xs[16] = {0}, ns[16] = {0}, squares[4][4] = {{0}}, reds = 0, small = 0;
        for (uint32_t i = 0; i < 16; i++) {
            const char *json = trial(&f, seed, i);
            double x = 0, lr = 0;
            int n = 0;
            char colour[8];
            assert_int_equal(sscanf(json, "{\"fixed\": 7, \"x\": %lf, \"n\": %d, \"colour\": \"%5[a-z]\", \"lr\": %lf}", &x, &n, colour, &lr), 4);
            xs[(int)x]++;
            ns[n]++;
            squares[(int)x / 4][n / 4]++;
            reds += strcmp(colour, "red") == 0;
            small += lr < 1e-3;
        }
        for (int i = 0; i < 16; i++) {
            assert_int_equal(xs[i], 1);
            assert_int_equal(ns[i], 1);
            assert_int_equal(squares[i / 4][i % 4], 1);
        }
        assert_int_equal(reds, 8);
        assert_int_equal(small, 8);
    }
    char first[128];
    strcpy(first, trial(&f, 1, 3));
    assert_string_not_equal(trial(&f, 2, 3), first);
    assert_string_equal(trial(&f, 1, 3), first);
    /* Recorded, as above. */
    assert_string_equal(first, "{\"fixed\": 7, \"x\": 6.16914091, \"n\": 15, \"colour\": \"green\", \"lr\": 0.000552439514}");
}

static void a_sobol_sequence_has_64_dimensions(void **state)
{
    (void)state;
    struct fixture f;
    uint32_t count;
    for (uint32_t searched = 64; searched <= 65; searched++) {
        begin_with(&f, &sobol, SEARCH_RANDOM, 8, searched + 1);
        add_const(&f, "fixed", 1);
        for (uint32_t i = 0; i < searched; i++) {
            char name[8];
            (void)snprintf(name, sizeof name, "p%u", i);
            add_range(&f, name, SEARCH_DOUBLE, 0, 1, 0);
        }
        assert_int_equal(search_trial_count(&f.space, &count), searched == 64 ? 0 : ERR_MALFORMED);
    }
}

/* The values of {x, n, colour} for trials 0 and 1. */
static const uint8_t own_values[] = {0x92, 0x93, 0x92, 0x00, 0xcb, 0x3f, 0xbf, 0x9a, 0xdd, 0x37, 0x46, 0xf6, 0x5e, 0x92, 0x01, 0x04, 0x92, 0x02, 0x01,
                                     0x91, 0x92, 0x01, 0x03};

static void begin_own(struct fixture *f, enum search_sampler sampler, uint32_t max_trials, const uint8_t *own, size_t bytes)
{
    struct search_head head = {.sampler = sampler, .initial = own, .initial_bytes = (uint32_t)bytes};
    begin_with(f, &head, SEARCH_RANDOM, max_trials, 4);
    add_range(f, "x", SEARCH_LOG, -4, 0, 0);
    add_range(f, "n", SEARCH_INT, 3, 5, 0);
    add_texts(f, "colour", 2, colours);
    add_const(f, "fixed", 7);
}

static void own_values_come_first_and_change_no_other_draw(void **state)
{
    (void)state;
    struct fixture with, without;
    for (int sampler = SEARCH_SAMPLER_RANDOM; sampler <= SEARCH_SAMPLER_SOBOL; sampler++) {
        begin_own(&with, (enum search_sampler)sampler, 9, own_values, sizeof own_values);
        begin_own(&without, (enum search_sampler)sampler, 9, NULL, 0);
        assert_false(search_space_is_plain(&with.space));
        /* The number has more digits than a drawn one has, and keeps them. */
        assert_string_equal(trial(&with, 4, 0), "{\"x\": 0.12345678901234566, \"n\": 4, \"colour\": \"green\", \"fixed\": 7}");
        char drawn[128];
        double x_with = 0, x_without = 1;
        int n_with = 0, n_without = 0;
        strcpy(drawn, trial(&without, 4, 1));
        assert_int_equal(sscanf(drawn, "{\"x\": %lf, \"n\": %d", &x_without, &n_without), 2);
        assert_int_equal(sscanf(trial(&with, 4, 1), "{\"x\": %lf, \"n\": %d", &x_with, &n_with), 2);
        assert_int_equal(n_with, 3);
        assert_true(x_with == x_without);
        for (uint32_t i = 2; i < 9; i++) {
            strcpy(drawn, trial(&without, 4, i));
            assert_string_equal(trial(&with, 4, i), drawn);
        }
    }
}

static void own_values_outside_of_the_space_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[20];
        uint8_t count;
        int error;
    } rows[] = {
        {{0x91, 0x90}, 2, 0},
        {{0x91, 0x91, 0x92, 0x00, 0x01}, 5, 0},                            /* 1: the upper bound */
        {{0x91, 0x91, 0x92, 0x00, 0x02}, 5, ERR_MALFORMED},
        {{0x91, 0x91, 0x92, 0x00, 0xcb, 0x7f, 0xf8}, 13, ERR_MALFORMED},   /* NaN */
        {{0x91, 0x91, 0x92, 0x01, 0x06}, 5, ERR_MALFORMED},
        {{0x91, 0x91, 0x92, 0x01, 0xca, 0x40, 0x80, 0, 0}, 9, ERR_MALFORMED}, /* 4.0 is no int */
        {{0x91, 0x91, 0x92, 0x02, 0x02}, 5, ERR_MALFORMED},
        {{0x91, 0x91, 0x92, 0x03, 0x07}, 5, ERR_MALFORMED},                /* of a const */
        {{0x91, 0x91, 0x92, 0x04, 0x00}, 5, ERR_MALFORMED},                /* there is no such parameter */
        {{0x91, 0x92, 0x92, 0x01, 0x04, 0x92, 0x01, 0x04}, 8, ERR_MALFORMED}, /* twice */
        {{0x91, 0x91, 0x93, 0x01, 0x04, 0x04}, 6, ERR_MALFORMED},
        {{0x94, 0x90, 0x90, 0x90, 0x90}, 5, ERR_MALFORMED},                /* four trials of three */
        {{0x01}, 1, ERR_MALFORMED},
    };
    struct fixture f;
    uint32_t count;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin_own(&f, SEARCH_SAMPLER_RANDOM, 3, rows[i].bytes, rows[i].count);
        assert_int_equal(search_trial_count(&f.space, &count), rows[i].error);
    }
    uint8_t many[3 + SEARCH_INITIAL_MAX + 1] = {0xdc, SEARCH_INITIAL_MAX >> 8, SEARCH_INITIAL_MAX & 0xff};
    memset(many + 3, 0x90, sizeof many - 3);
    for (uint8_t more = 0; more <= 1; more++) {
        many[2] = (uint8_t)(many[2] + more);
        begin_own(&f, SEARCH_SAMPLER_RANDOM, SEARCH_TRIALS_MAX, many, 3 + SEARCH_INITIAL_MAX + more);
        assert_int_equal(search_trial_count(&f.space, &count), more == 0 ? 0 : ERR_MALFORMED);
    }
    struct search_parameter steps = {.kind = SEARCH_DOUBLE, .minval = 0.1, .maxval = 0.9, .step = 0.2};
    assert_true(search_value_fits(&steps, 0.7) && search_value_fits(&steps, 0.1) && search_value_fits(&steps, 0.9));
    assert_false(search_value_fits(&steps, 0.6) || search_value_fits(&steps, 1.1) || search_value_fits(&steps, -0.1));
    struct search_parameter half = {.kind = SEARCH_LOG, .minval = -3, .maxval = 0, .base = 0.5}; /* 8 ... 1 */
    assert_true(search_value_fits(&half, 8) && search_value_fits(&half, 1) && !search_value_fits(&half, 0.9));
}

static void a_space_is_plain_if_the_first_versions_draw_the_same(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, SEARCH_RANDOM, 8, 2);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 0);
    add_const(&f, "fixed", 1);
    assert_true(search_space_is_plain(&f.space));
    assert_int_equal(f.bytes[0], 0x92);
    f.space.byte_count--;
    assert_false(search_space_is_plain(&f.space));
    begin(&f, SEARCH_RANDOM, 8, 2);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 0);
    add_steps(&f, "n", SEARCH_INT, 0, 4, 2, 0);
    assert_false(search_space_is_plain(&f.space));
    begin_with(&f, &sobol, SEARCH_RANDOM, 8, 1);
    add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 0);
    assert_false(search_space_is_plain(&f.space));
    assert_int_equal(f.bytes[1], 0x81); /* a map: the first versions take arrays only */
}

static void further_trials_are_those_of_a_larger_space(void **state)
{
    (void)state;
    static struct fixture few, many;
    const struct search_head random = {.sampler = SEARCH_SAMPLER_RANDOM}, *heads[] = {&random, &sobol};
    for (int i = 0; i < 2; i++) {
        begin_with(&few, heads[i], SEARCH_ASHA, 3, 2);
        begin_with(&many, heads[i], SEARCH_ASHA, 40, 2);
        struct fixture *both[] = {&few, &many};
        for (int k = 0; k < 2; k++) {
            add_range(both[k], "x", SEARCH_DOUBLE, 0, 1, 0);
            add_range(both[k], "n", SEARCH_INT, 1, 1000000, 0);
        }
        for (uint32_t index = 0; index < 40; index++) {
            char text[128];
            (void)snprintf(text, sizeof text, "%s", trial(&few, 7, index));
            assert_string_equal(text, trial(&many, 7, index));
        }
        struct pack_writer writer;
        pack_writer_init(&writer, few.values, sizeof few.values);
        assert_int_equal(search_trial_values(&few.space, 7, SEARCH_TRIALS_MAX, &writer), ERR_NOT_FOUND);
    }
}

static void heads_of_a_later_version_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[16];
        uint8_t count;
        int error;
    } spaces[] = {
        {{0x91, 0x80}, 2, 0},
        {{0x91, 0x81, 0xa7, 's', 'a', 'm', 'p', 'l', 'e', 'r', 0x01}, 11, 0},
        {{0x91, 0x81, 0xa7, 's', 'a', 'm', 'p', 'l', 'e', 'r', 0x02}, 11, 0},
        {{0x91, 0x81, 0xa7, 's', 'a', 'm', 'p', 'l', 'e', 'r', 0x03}, 11, ERR_MALFORMED},
        {{0x91, 0x81, 0xa7, 's', 'a', 'm', 'p', 'l', 'e', 's', 0x01}, 11, ERR_MALFORMED},
        {{0x92, 0x80, 0x80}, 3, ERR_MALFORMED},
        {{0x80}, 1, ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        struct search_space space = {SEARCH_RANDOM, 3, spaces[i].bytes, spaces[i].count};
        uint32_t count;
        assert_int_equal(search_trial_count(&space, &count), spaces[i].error);
    }
}

/* A node that does not know a property cannot draw by it, and must not draw without it. */
static void properties_of_a_later_version_are_refused(void **state)
{
    (void)state;
    static const uint8_t head[] = {0x91, 0x96, 0xa1, 'a', 0x02, 0x01, 0x04, 0x00};
    static const struct {
        uint8_t bytes[16];
        uint8_t count;
        int error;
    } tails[] = {
        {{0x81, 0xa3, 'l', 'o', 'g', 0xc3}, 6, 0},
        {{0x81, 0xa3, 'l', 'o', 'g', 0xc2}, 6, ERR_MALFORMED},
        {{0x81, 0xa3, 'l', 'a', 'g', 0xc3}, 6, ERR_MALFORMED},
        {{0x82, 0xa3, 'l', 'o', 'g', 0xc3, 0xa1, 'x', 0x01}, 9, ERR_MALFORMED},
        {{0x82, 0xa3, 'l', 'o', 'g', 0xc3, 0xa3, 'l', 'o', 'g', 0xc3}, 11, ERR_MALFORMED},
        {{0x80}, 1, ERR_MALFORMED},
        {{0xc0}, 1, ERR_MALFORMED},
    };
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        uint8_t bytes[sizeof head + sizeof tails[0].bytes];
        memcpy(bytes, head, sizeof head);
        memcpy(bytes + sizeof head, tails[i].bytes, tails[i].count);
        struct search_space space = {SEARCH_RANDOM, 3, bytes, (uint32_t)sizeof head + tails[i].count};
        uint32_t count;
        assert_int_equal(search_trial_count(&space, &count), tails[i].error);
    }
    /* The first versions take an int of exactly five elements. */
    struct fixture f;
    begin(&f, SEARCH_RANDOM, 1, 1);
    add_range(&f, "a", SEARCH_INT, 1, 4, 0);
    assert_int_equal(f.bytes[1], 0x95);
    begin(&f, SEARCH_RANDOM, 1, 1);
    add_log_int(&f, "a", 1, 4, 0);
    assert_int_equal(f.bytes[1], 0x96);
}

/* Conditions on up to two parameters: "the value of a is among ..."; -1 ends the values. */
static void add_when(struct fixture *f, const char *name, struct search_parameter parameter, const int conditions[][4], uint32_t count)
{
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t values = 0;
        while (values < 3 && conditions[i][1 + values] >= 0) {
            values++;
        }
        pack_array(&writer, 2);
        pack_i64(&writer, conditions[i][0]);
        pack_array(&writer, values);
        for (uint32_t v = 0; v < values; v++) {
            pack_i64(&writer, conditions[i][1 + v]);
        }
    }
    parameter.when = bytes;
    parameter.when_bytes = (uint32_t)writer.used_bytes;
    add_named(f, name, parameter);
}

static const struct search_parameter unit = {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1, .count = 2};
static const char *const optimizers[] = {"sgd", "adam", "lion"};

/* An optimizer with properties of its own, one of which depends on another, and a parameter that all have. */
static void add_optimizers(struct fixture *f)
{
    static const struct search_parameter layers = {.kind = SEARCH_INT, .minval = 1, .maxval = 3};
    static const int sgd[][4] = {{0, 0, -1}}, nested[][4] = {{0, 0, 2, -1}, {1, 2, 3, -1}};
    add_texts(f, "opt.name", 3, optimizers);
    add_when(f, "opt.sgd.warmup", layers, sgd, 1);
    add_when(f, "opt.sgd.decay", unit, nested, 2);
    add_range(f, "n", SEARCH_INT, 5, 6, 0);
}

static void a_grid_multiplies_active_combinations_only(void **state)
{
    (void)state;
    static const char *const expected[] = {
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 1}}, \"n\": 5}", "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 1}}, \"n\": 6}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 2, \"decay\": 0.0}}, \"n\": 5}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 2, \"decay\": 0.0}}, \"n\": 6}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 2, \"decay\": 1.0}}, \"n\": 5}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 2, \"decay\": 1.0}}, \"n\": 6}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 3, \"decay\": 0.0}}, \"n\": 5}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 3, \"decay\": 0.0}}, \"n\": 6}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 3, \"decay\": 1.0}}, \"n\": 5}",
        "{\"opt\": {\"name\": \"sgd\", \"sgd\": {\"warmup\": 3, \"decay\": 1.0}}, \"n\": 6}",
        "{\"opt\": {\"name\": \"adam\"}, \"n\": 5}", "{\"opt\": {\"name\": \"adam\"}, \"n\": 6}",
        /* decay needs warmup, which lion does not have */
        "{\"opt\": {\"name\": \"lion\"}, \"n\": 5}", "{\"opt\": {\"name\": \"lion\"}, \"n\": 6}",
    };
    struct fixture f;
    begin(&f, SEARCH_GRID, 0, 4);
    add_optimizers(&f);
    assert_int_equal(count_of(&f), sizeof expected / sizeof expected[0]);
    for (uint32_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        assert_string_equal(trial(&f, 1, i), expected[i]);
    }
    assert_false(search_space_is_plain(&f.space));
}

/* The size of a grid is counted by going through the values that conditions name, and that ends. */
static void large_conditional_grids_are_counted_and_refused(void **state)
{
    (void)state;
    static const int second[][4] = {{0, 1, -1}};
    static const struct search_parameter thousand = {.kind = SEARCH_INT, .minval = 1, .maxval = 1000},
                                         endless = {.kind = SEARCH_INT, .minval = 0, .maxval = 9e15};
    struct fixture f;
    uint32_t count = 77;
    begin(&f, SEARCH_GRID, 0, 3);
    add_range(&f, "a", SEARCH_INT, 1, 99, 0);
    add_when(&f, "b", thousand, second, 1); /* for a = 1 only */
    add_range(&f, "c", SEARCH_INT, 1, 91, 0);
    assert_int_equal(count_of(&f), 98 * 91 + 1000 * 91); /* 99,918 */
    assert_string_equal(trial(&f, 1, 90999), "{\"a\": 1, \"b\": 1000, \"c\": 91}");
    assert_string_equal(trial(&f, 1, 91000), "{\"a\": 2, \"c\": 1}");
    begin(&f, SEARCH_GRID, 0, 3);
    add_range(&f, "a", SEARCH_INT, 1, 101, 0);
    add_when(&f, "b", thousand, second, 1);
    add_range(&f, "c", SEARCH_INT, 1, 91, 0);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL); /* 100,100 */
    begin(&f, SEARCH_GRID, 0, 2);
    add_named(&f, "a", endless);
    add_when(&f, "b", endless, second, 1);
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL);
    begin(&f, SEARCH_GRID, 0, 120);
    for (int i = 0; i < 60; i++) { /* 2^60 combinations of the first of each pair */
        char name[8];
        const int condition[][4] = {{2 * i, 1, -1}};
        (void)snprintf(name, sizeof name, "a%d", i);
        add_texts(&f, name, 2, colours);
        name[0] = 'b';
        add_when(&f, name, unit, condition, 1);
    }
    assert_int_equal(search_trial_count(&f.space, &count), ERR_FULL);
    begin(&f, SEARCH_GRID, 0, 2);
    add_texts(&f, "a", 1, colours);
    struct search_parameter uncounted = {.kind = SEARCH_DOUBLE, .minval = 0, .maxval = 1};
    add_when(&f, "b", uncounted, (const int[][4]){{0, -1}}, 1); /* never active: its points do not matter, but their number is missing */
    assert_int_equal(search_trial_count(&f.space, &count), ERR_REFUSED);
    assert_int_equal(count, 77);
}

static void an_inactive_parameter_is_absent_and_a_condition_changes_no_draw(void **state)
{
    (void)state;
    struct fixture with, without, more;
    unsigned sgd = 0, decays = 0;
    begin(&with, SEARCH_RANDOM, 300, 4);
    add_optimizers(&with);
    begin(&without, SEARCH_RANDOM, 300, 4);
    add_texts(&without, "opt.name", 3, optimizers);
    add_steps(&without, "opt.sgd.warmup", SEARCH_INT, 1, 3, 1, 0); /* a step keeps the rule of the draws */
    add_range(&without, "opt.sgd.decay", SEARCH_DOUBLE, 0, 1, 0);
    add_range(&without, "n", SEARCH_INT, 5, 6, 0);
    for (uint32_t i = 0; i < 300; i++) {
        char all[160], name[8], seen[8];
        int warmup = 0, n = 0, seen_warmup = 0;
        double decay = 0, seen_decay = 0;
        strcpy(all, trial(&without, 6, i));
        assert_int_equal(sscanf(all, "{\"opt\": {\"name\": \"%4[a-z]\", \"sgd\": {\"warmup\": %d, \"decay\": %lf}}, \"n\": %d}", name, &warmup, &decay, &n), 4);
        const char *json = trial(&with, 6, i);
        assert_int_equal(sscanf(json, "{\"opt\": {\"name\": \"%4[a-z]\"", seen), 1);
        assert_string_equal(seen, name);
        bool is_sgd = strcmp(name, "sgd") == 0;
        assert_int_equal(strstr(json, "warmup") != NULL, is_sgd);
        assert_int_equal(strstr(json, "\"sgd\": {") != NULL, is_sgd); /* no empty map either */
        assert_int_equal(strstr(json, "decay") != NULL, is_sgd && warmup >= 2);
        if (is_sgd && warmup >= 2) {
            assert_int_equal(sscanf(strstr(json, "\"warmup"), "\"warmup\": %d, \"decay\": %lf", &seen_warmup, &seen_decay), 2);
            assert_int_equal(seen_warmup, warmup);
            assert_true(seen_decay == decay);
            decays++;
        }
        sgd += is_sgd;
    }
    assert_in_range(sgd, 70, 130); /* 100 of 300 +- 3.7 standard deviations of 8.2 */
    assert_true(decays > 30 && decays < sgd);
    begin(&more, SEARCH_RANDOM, 300, 1);
    add_when(&more, "b", unit, (const int[][4]){{0, 0, -1}}, 0);
    uint32_t count;
    assert_int_equal(search_trial_count(&more.space, &count), ERR_MALFORMED); /* an empty list of conditions */
    begin(&more, SEARCH_RANDOM, 300, 2);
    add_texts(&more, "a", 2, colours);
    add_when(&more, "b", unit, (const int[][4]){{0, -1}}, 1);
    assert_true(strstr(trial(&more, 6, 0), "\"b\"") == NULL);
}

static void conditions_that_cannot_be_met_in_order_are_refused(void **state)
{
    (void)state;
    static const int rows[][4] = {
        {3, 0, -1},  /* itself */
        {4, 0, -1},  /* a later one */
        {1, 0, -1},  /* a double */
        {0, 2, -1},  /* the third of two choices */
        {2, 4, -1},  /* not on the steps */
        {2, 9, -1},  /* out of bounds */
    };
    struct fixture f;
    uint32_t count;
    for (size_t i = 0; i <= sizeof rows / sizeof rows[0]; i++) {
        static const int good[][4] = {{0, 1, -1}, {2, 1, 3, 5}};
        begin(&f, SEARCH_RANDOM, 9, 5);
        add_texts(&f, "a", 2, colours);
        add_range(&f, "x", SEARCH_DOUBLE, 0, 1, 0);
        add_steps(&f, "n", SEARCH_INT, 1, 7, 2, 0);
        if (i < sizeof rows / sizeof rows[0]) {
            add_when(&f, "b", unit, &rows[i], 1);
        } else {
            add_when(&f, "b", unit, good, 2);
        }
        add_range(&f, "z", SEARCH_DOUBLE, 0, 1, 0);
        assert_int_equal(search_trial_count(&f.space, &count), i < sizeof rows / sizeof rows[0] ? ERR_MALFORMED : 0);
    }
}

static void own_values_that_a_trial_lacks_are_found(void **state)
{
    (void)state;
    /* Trial 0: adam with a warmup; trial 1: sgd with a warmup of 3; trial 2: a decay alone. */
    static const uint8_t own[] = {0x93, 0x92, 0x92, 0x00, 0x01, 0x92, 0x01, 0x02, 0x92, 0x92, 0x00, 0x00, 0x92, 0x01, 0x03, 0x91, 0x92, 0x02, 0x00};
    static const struct search_head head = {.initial = own, .initial_bytes = sizeof own};
    struct search_parameter parameter = {.count = 0};
    struct fixture f;
    begin_with(&f, &head, SEARCH_RANDOM, 3, 4);
    add_optimizers(&f);
    bool has_decay[2] = {false, false};
    for (uint64_t seed = 0; seed < 40; seed++) {
        assert_true(search_initial_is_inactive(&f.space, seed, 0, &parameter));
        assert_string_equal(parameter.name, "opt.sgd.warmup");
        assert_false(search_initial_is_inactive(&f.space, seed, 1, &parameter));
        bool lacks = search_initial_is_inactive(&f.space, seed, 2, &parameter); /* by the draws of the seed */
        assert_int_equal(lacks, strstr(trial(&f, seed, 2), "decay") == NULL);
        has_decay[!lacks] = true;
        assert_false(search_initial_is_inactive(&f.space, seed, 3, &parameter));
    }
    assert_true(has_decay[0] && has_decay[1]);
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
    static const uint8_t own[] = {0x92, 0x92, 0x92, 0x00, 0x04, 0x92, 0x01, 0x20, 0x90};
    static const struct search_head head = {.sampler = SEARCH_SAMPLER_SOBOL, .initial = own, .initial_bytes = sizeof own};
    static const int third[][4] = {{1, 64, 96, -1}};
    begin_with(&f, &head, SEARCH_RANDOM, 3, 9);
    add_log_int(&f, "width", 3, 50, 2);
    add_steps(&f, "batch", SEARCH_INT, 32, 128, 32, 0);
    add_when(&f, "opt.gain", unit, third, 1);
    add_steps(&f, "opt.drop", SEARCH_DOUBLE, 0, 0.5, 0.25, 0);
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
        cmocka_unit_test(grid_points_of_a_logarithm_are_different_ints),
        cmocka_unit_test(grids_go_by_steps),
        cmocka_unit_test(random_draws_go_by_steps_and_by_logarithms),
        cmocka_unit_test(a_parameter_more_changes_no_other_draw_by_name),
        cmocka_unit_test(steps_and_logarithms_that_make_no_sense_are_refused),
        cmocka_unit_test(a_sobol_sequence_fills_a_space_evenly),
        cmocka_unit_test(a_sobol_sequence_has_64_dimensions),
        cmocka_unit_test(a_grid_multiplies_active_combinations_only),
        cmocka_unit_test(large_conditional_grids_are_counted_and_refused),
        cmocka_unit_test(an_inactive_parameter_is_absent_and_a_condition_changes_no_draw),
        cmocka_unit_test(conditions_that_cannot_be_met_in_order_are_refused),
        cmocka_unit_test(own_values_that_a_trial_lacks_are_found),
        cmocka_unit_test(own_values_come_first_and_change_no_other_draw),
        cmocka_unit_test(own_values_outside_of_the_space_are_refused),
        cmocka_unit_test(a_space_is_plain_if_the_first_versions_draw_the_same),
        cmocka_unit_test(further_trials_are_those_of_a_larger_space),
        cmocka_unit_test(heads_of_a_later_version_are_refused),
        cmocka_unit_test(properties_of_a_later_version_are_refused),
        cmocka_unit_test(dotted_names_become_nested_maps),
        cmocka_unit_test(names_and_ranges_out_of_bounds_are_refused),
        cmocka_unit_test(values_without_a_json_form_are_refused),
        cmocka_unit_test(a_writer_that_is_too_small_is_an_error),
        cmocka_unit_test(changed_bytes_are_refused_or_give_whole_trials),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

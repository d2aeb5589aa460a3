/* Down-sampled metric points: sums agree with the points, whatever came when, and nothing void is in them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/daemon/wire/points.h"
#include "node/series/hooks.h"
#include "node/series/levels.h"

#define PREFIX "m-series"
#define PREFIX_BYTES (sizeof PREFIX - 1)
#define POINTS_MAX 70000

/* A point as it was appended. */
struct appended {
    uint64_t generation, step;
    double loss;
    bool is_there;
};

struct place {
    char dir[64];
    struct chunks *chunks;
    struct appended points[POINTS_MAX];
};

static int place_make(void **state)
{
    char error[512];
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    (void)snprintf(place->dir, sizeof place->dir, "/tmp/shoal-levels-test-XXXXXX");
    *state = place;
    return mkdtemp(place->dir) != NULL ? chunks_open(place->dir, &place->chunks, error, sizeof error) : -1;
}

static int place_remove(void **state)
{
    struct place *place = *state;
    char command[128];
    chunks_close(&place->chunks);
    (void)snprintf(command, sizeof command, "rm -rf %s", place->dir);
    free(place);
    return system(command);
}

static size_t pack_point(uint8_t *out, size_t size, uint64_t sequence, const struct appended *point)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, size);
    points_begin(&writer, (struct points_source){0, 0}, 0, 1, point->generation, POINTS_START_UNKNOWN, point->step, 1000 + sequence,
                 sequence % 10 == 9 ? "validation" : "training");
    pack_map(&writer, 2);
    pack_text(&writer, "loss");
    pack_double(&writer, point->loss);
    pack_text(&writer, "samples");
    pack_u64(&writer, 64 * point->step);
    assert_false(writer.failed);
    return writer.used_bytes;
}

/* Appends points `first` ... before `end`, in batches, as a daemon does. */
static void append(struct place *place, uint64_t first, uint64_t end, bool is_told)
{
    enum { BATCH = 100 };
    static uint8_t bytes[BATCH][256];
    while (first < end) {
        struct series_entry entries[BATCH];
        size_t count = 0;
        for (; count < BATCH && first < end; first++) {
            place->points[first].is_there = true;
            size_t length = pack_point(bytes[count], sizeof bytes[count], first, &place->points[first]);
            entries[count] = (struct series_entry){PREFIX, PREFIX_BYTES, first, bytes[count], length};
            count++;
        }
        assert_int_equal(series_append_batch(place->chunks, entries, count), 0);
        if (is_told) {
            series_hooks_stored(NULL, place->chunks, entries, count);
        }
    }
}

static void fill(struct place *place, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        place->points[i] = (struct appended){.generation = 1, .step = i, .loss = (double)((i * 7919) % 1000)};
    }
}

/* What a question brings: all buckets together, and each bucket checked against the points. */
struct brought {
    uint64_t points, buckets, void_points, answers, width;
};

static uint64_t number_of(const struct pack_reader *map, const char *key)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = pack_read_u64(&value);
    assert_false(value.failed);
    return number;
}

static bool is_valid(const struct levels_question *question, const struct appended *point, bool *is_void)
{
    for (uint32_t i = 0; i < question->start_count; i++) {
        if (question->starts[i].generation > point->generation && point->step > question->starts[i].step) {
            return false;
        }
    }
    *is_void = point->step > question->last_step;
    return point->is_there;
}

static void check_bucket(struct place *place, const struct levels_question *question, uint64_t first, const uint8_t *bytes,
                         size_t count, struct brought *brought)
{
    struct pack_reader map;
    pack_reader_init(&map, bytes, count);
    struct pack_reader group = pack_find(&map, "group"), metrics = pack_find(&map, "metrics"), flag = pack_find(&map, "void");
    char name[32];
    pack_read_text_copy(&group, name, sizeof name);
    bool shows_void = !flag.failed;
    struct pack_reader loss = pack_find(&metrics, "loss");
    assert_false(loss.failed);
    uint64_t width = number_of(&map, "width"), last_step = 0, found = 0, nans = 0;
    double min = INFINITY, max = -INFINITY, sum = 0, last = 0;
    for (uint64_t i = first; i < first - first % width + width && i < POINTS_MAX; i++) {
        const struct appended *point = &place->points[i];
        bool is_void = false, is_training = i % 10 != 9;
        if (!is_valid(question, point, &is_void) || is_void != shows_void || is_training != (strcmp(name, "training") == 0)) {
            continue;
        }
        found++;
        last_step = point->step;
        last = point->loss;
        if (isnan(point->loss)) {
            nans++;
            continue;
        }
        min = fmin(min, point->loss);
        max = fmax(max, point->loss);
        sum += point->loss;
    }
    struct pack_reader value = pack_find(&loss, "min");
    double got_min = pack_read_double(&value);
    value = pack_find(&loss, "max");
    double got_max = pack_read_double(&value);
    value = pack_find(&loss, "mean");
    double got_mean = pack_read_double(&value);
    value = pack_find(&loss, "last");
    double got_last = pack_read_double(&value);
    assert_int_equal(number_of(&map, "count"), found);
    assert_int_equal(number_of(&loss, "count"), found);
    assert_int_equal(number_of(&map, "step"), last_step);
    assert_true(found > 0);
    assert_true(got_last == last || (isnan(last) && isnan(got_last)));
    if (nans == found) {
        assert_true(isnan(got_min) && isnan(got_max) && isnan(got_mean));
    } else {
        assert_true(got_min == min && got_max == max);
        assert_true(fabs(got_mean - sum / (double)(found - nans)) < 1e-9 * (1 + fabs(got_mean)) || got_mean == sum);
    }
    brought->points += shows_void ? 0 : found;
    brought->void_points += shows_void ? found : 0;
    brought->buckets++;
    brought->width = width;
}

/* Asks until the series' end; the question goes through its bytes, as to another node. */
static struct brought ask(struct place *place, const struct levels_question *question, size_t bytes_max)
{
    static uint8_t out[BULK_WIRE_BODY_BYTES_MAX], packed[LEVELS_QUESTION_BYTES];
    struct brought brought = {0};
    struct levels_question asked = *question;
    bool more = true;
    while (more) {
        struct pack_writer writer;
        struct pack_reader reader;
        size_t packed_bytes, count;
        const uint8_t *bytes;
        uint64_t sequence = UINT64_MAX;
        assert_int_equal(levels_question_pack(&asked, packed, sizeof packed, &packed_bytes), 0);
        pack_writer_init(&writer, out, sizeof out);
        assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, asked.from, packed,
                                             packed_bytes, bytes_max, &writer, &more), 0);
        pack_reader_init(&reader, out, writer.used_bytes);
        while (bulk_wire_entry_read(&reader, &sequence, &bytes, &count)) {
            if (count > 0) {
                check_bucket(place, question, sequence, bytes, count, &brought);
            }
        }
        assert_true(pack_at_end(&reader));
        assert_true(!more || sequence > asked.from);
        asked.from = sequence;
        asked.width = brought.width;
        brought.answers++;
    }
    return brought;
}

static const struct levels_question plain = {.points = 50, .last_step = UINT64_MAX};

static void sums_agree_with_the_points(void **state)
{
    struct place *place = *state;
    fill(place, POINTS_MAX);
    static const uint64_t sizes[] = {0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, 5000, 66000};
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; i++) {
        append(place, sizes[i - 1], sizes[i], true);
        for (uint64_t points = 1; points <= 1000; points *= 10) {
            struct levels_question question = plain;
            question.points = points;
            struct brought brought = ask(place, &question, 1u << 20);
            assert_int_equal(brought.points, sizes[i]);
            assert_true(brought.buckets <= 2 * points); /* for each of the two groups */
        }
    }
}

static void an_answer_comes_in_pieces(void **state)
{
    struct place *place = *state;
    fill(place, 3000);
    append(place, 0, 3000, true);
    struct brought whole = ask(place, &plain, 1u << 20), pieces = ask(place, &plain, 1);
    assert_int_equal(whole.answers, 1);
    assert_true(pieces.answers >= 10);
    assert_int_equal(whole.buckets, pieces.buckets);
    assert_int_equal(pieces.points, 3000);
}

static void a_series_of_an_earlier_version_gets_its_rows_with_the_first_question(void **state)
{
    struct place *place = *state;
    uint64_t last;
    uint8_t rows[PREFIX_BYTES + 1] = "M-series\x01";
    fill(place, 20000);
    append(place, 0, 20000, false);
    assert_int_equal(series_last(place->chunks, rows, sizeof rows, &last), ERR_NOT_FOUND);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 20000);
    assert_int_equal(series_last(place->chunks, rows, sizeof rows, &last), 0);
    assert_int_equal(last >> 16, 20000 / 16 - 1);
}

/* Nothing walks through numbers that were never given: this would take years. */
static void a_peer_that_leaves_out_numbers_costs_no_time(void **state)
{
    static const uint64_t far[] = {20000, 1ull << 30, (1ull << 47) - 1, (1ull << 47) + 17};
    struct place *place = *state;
    fill(place, 100);
    append(place, 0, 100, true);
    for (size_t i = 0; i < sizeof far / sizeof far[0]; i++) {
        uint8_t bytes[256];
        struct appended point = {.generation = 1, .step = 100 + i, .loss = 0.5};
        size_t length = pack_point(bytes, sizeof bytes, far[i], &point);
        struct series_entry entry = {PREFIX, PREFIX_BYTES, far[i], bytes, length};
        assert_int_equal(series_append_batch(place->chunks, &entry, 1), 0);
        series_hooks_stored(NULL, place->chunks, &entry, 1);
        for (uint64_t width = 0; width < 100; width += 99) {
            static uint8_t out[BULK_WIRE_BODY_BYTES_MAX];
            struct levels_question question = plain;
            struct pack_writer writer;
            struct pack_reader reader;
            const uint8_t *map;
            size_t count;
            uint64_t sequence, points = 0;
            bool more;
            question.width = width;
            pack_writer_init(&writer, out, sizeof out);
            assert_int_equal(levels_answer(place->chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, &question, 1u << 20, &writer,
                                           &more), 0);
            assert_false(more);
            pack_reader_init(&reader, out, writer.used_bytes);
            while (bulk_wire_entry_read(&reader, &sequence, &map, &count)) {
                struct pack_reader bucket;
                pack_reader_init(&bucket, map, count);
                points += count > 0 ? number_of(&bucket, "count") : 0;
            }
            assert_int_equal(points, 100 + i + 1);
        }
    }
}

/* A copy gets entries late, and twice. */
static void a_late_entry_is_in_the_sums(void **state)
{
    struct place *place = *state;
    fill(place, 2000);
    append(place, 0, 300, true);
    append(place, 310, 2000, true);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 1990);
    append(place, 300, 310, true);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 2000);
    append(place, 0, 2000, true);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 2000);
}

static void steps_that_were_made_anew_are_in_no_sum(void **state)
{
    struct place *place = *state;
    fill(place, 10000);
    for (uint64_t i = 6000; i < 10000; i++) { /* generation 2 begins at step 5500 */
        place->points[i].generation = 2;
        place->points[i].step = i - 500;
    }
    append(place, 0, 10000, true);
    static const struct levels_start starts[] = {{2, 5500}};
    struct levels_question question = {.points = 50, .last_step = 7321, .starts = starts, .start_count = 1};
    struct brought brought = ask(place, &question, 1u << 20);
    assert_int_equal(brought.points, 5501 + (7321 - 5500 + 1));
    assert_int_equal(brought.void_points, 0);
    question.shows_void = true;
    brought = ask(place, &question, 1u << 20);
    assert_int_equal(brought.points, 5501 + (7321 - 5500 + 1));
    assert_int_equal(brought.void_points, 9499 - 7321);
}

static void what_is_no_number_counts_and_is_in_no_mean(void **state)
{
    struct place *place = *state;
    fill(place, 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        place->points[i].loss = i % 3 == 0 || i >= 900 ? (double)NAN : place->points[i].loss;
    }
    place->points[500].loss = (double)INFINITY;
    append(place, 0, 1000, true);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 1000);
}

static void rows_take_a_small_part_of_the_room(void **state)
{
    struct place *place = *state;
    struct chunks_space before, points, rows;
    fill(place, 60000);
    assert_int_equal(chunks_space(place->chunks, &before), 0);
    append(place, 0, 60000, false);
    assert_int_equal(chunks_space(place->chunks, &points), 0);
    assert_int_equal(ask(place, &plain, 1u << 20).points, 60000);
    assert_int_equal(chunks_space(place->chunks, &rows), 0);
    uint64_t of_points = points.file_bytes - points.reusable_bytes - (before.file_bytes - before.reusable_bytes);
    uint64_t of_rows = rows.file_bytes - rows.reusable_bytes - (points.file_bytes - points.reusable_bytes);
    print_message("%llu bytes of points, %llu of rows\n", (unsigned long long)of_points, (unsigned long long)of_rows);
    assert_true(of_rows < of_points / 4);
}

/* More names than fit into one entry, in one report. */
static void thousands_of_metrics_are_summed_up(void **state)
{
    struct place *place = *state;
    enum { NAMES = 6000, REPORTS = 40 };
    static uint8_t bytes[NAMES * 64], out[BULK_WIRE_BODY_BYTES_MAX], packed[LEVELS_QUESTION_BYTES];
    for (uint64_t i = 0; i < REPORTS; i++) {
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        points_begin(&writer, (struct points_source){0, 0}, 0, 1, 1, 0, i, 1, "training");
        pack_map(&writer, NAMES);
        for (int name = 0; name < NAMES; name++) {
            char text[48];
            (void)snprintf(text, sizeof text, "model.layers.%d.self_attention.norm", name);
            pack_text(&writer, text);
            pack_double(&writer, name);
        }
        assert_false(writer.failed);
        struct series_entry entry = {PREFIX, PREFIX_BYTES, i, bytes, writer.used_bytes};
        assert_int_equal(series_append_batch(place->chunks, &entry, 1), 0);
        series_hooks_stored(NULL, place->chunks, &entry, 1);
    }
    struct levels_question question = {.points = 1, .last_step = UINT64_MAX};
    struct pack_writer writer;
    struct pack_reader reader;
    size_t packed_bytes, count, seen = 0;
    const uint8_t *entry;
    uint64_t sequence;
    bool more;
    assert_int_equal(levels_question_pack(&question, packed, sizeof packed, &packed_bytes), 0);
    pack_writer_init(&writer, out, sizeof out);
    assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, 0, packed, packed_bytes, 1u << 18,
                                         &writer, &more), 0);
    pack_reader_init(&reader, out, writer.used_bytes);
    while (bulk_wire_entry_read(&reader, &sequence, &entry, &count)) {
        struct pack_reader map;
        pack_reader_init(&map, entry, count);
        struct pack_reader metrics = pack_find(&map, "metrics");
        assert_true(count <= SERIES_ENTRY_BYTES_MAX);
        seen += count > 0 ? pack_read_map(&metrics) : 0;
    }
    assert_int_equal(seen, NAMES);
}

static void nonsense_is_no_question(void **state)
{
    struct place *place = *state;
    static uint8_t out[BULK_WIRE_BODY_BYTES_MAX], packed[LEVELS_QUESTION_BYTES];
    struct levels_question question = plain;
    size_t count;
    bool more;
    struct pack_writer writer;
    fill(place, 100);
    append(place, 0, 100, true);
    assert_int_equal(levels_question_pack(&question, packed, sizeof packed, &count), 0);
    for (size_t cut = 0; cut < count; cut++) {
        pack_writer_init(&writer, out, sizeof out);
        assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, 0, packed, cut, 1000, &writer,
                                             &more), ERR_MALFORMED);
    }
    pack_writer_init(&writer, out, sizeof out);
    assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)"x-series", PREFIX_BYTES, 0, packed, count, 1000,
                                         &writer, &more), ERR_VERSION);
    question.points = LEVELS_POINTS_MAX + 1;
    assert_int_equal(levels_question_pack(&question, packed, sizeof packed, &count), 0);
    assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)PREFIX, PREFIX_BYTES, 0, packed, count, 1000, &writer,
                                         &more), ERR_MALFORMED);
    question.points = 10;
    assert_int_equal(levels_question_pack(&question, packed, sizeof packed, &count), 0);
    assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)"m-nothing", 9, 0, packed, count, 1000, &writer, &more), 0);
    assert_int_equal(writer.used_bytes, 0);
    assert_false(more);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(sums_agree_with_the_points),
        TEST(an_answer_comes_in_pieces),
        TEST(a_series_of_an_earlier_version_gets_its_rows_with_the_first_question),
        TEST(a_peer_that_leaves_out_numbers_costs_no_time),
        TEST(a_late_entry_is_in_the_sums),
        TEST(steps_that_were_made_anew_are_in_no_sum),
        TEST(what_is_no_number_counts_and_is_in_no_mean),
        TEST(rows_take_a_small_part_of_the_room),
        TEST(thousands_of_metrics_are_summed_up),
        TEST(nonsense_is_no_question),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

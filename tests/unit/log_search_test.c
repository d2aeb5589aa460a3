/* Lines of a log, chosen where the log is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/series/hooks.h"
#include "node/series/log_bounds.h"
#include "node/series/log_search.h"

#define LOG "l-worker"
#define TIMES "w-worker"
#define PREFIX_BYTES (sizeof LOG - 1)

struct place {
    char dir[64];
    struct chunks *chunks;
    uint64_t end; /* of the log */
};

static int place_make(void **state)
{
    char error[512];
    struct place *place = calloc(1, sizeof *place);
    if (place == NULL) {
        return -1;
    }
    (void)snprintf(place->dir, sizeof place->dir, "/tmp/shoal-log-search-test-XXXXXX");
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

/* Appends a piece of output, read at this time (0: by an earlier version). */
static void print_n(struct place *place, const char *text, size_t count, uint64_t wall_ms)
{
    uint8_t time[8];
    place->end += count;
    assert_int_equal(series_append(place->chunks, LOG, PREFIX_BYTES, place->end, text, count), 0);
    bytes_put_u64(time, wall_ms);
    if (wall_ms > 0) {
        assert_int_equal(series_append(place->chunks, TIMES, PREFIX_BYTES, place->end, time, sizeof time), 0);
    }
}

static void print(struct place *place, const char *text, uint64_t wall_ms)
{
    print_n(place, text, strlen(text), wall_ms);
}

static char found[8u << 20];

/* Asks until the log's end; the lines are in `found`. Returns where a further question would begin. */
static uint64_t search(struct place *place, struct log_question question, const char *pattern, size_t bytes_max)
{
    static uint8_t out[BULK_WIRE_BODY_BYTES_MAX], packed[LOG_QUESTION_BYTES];
    size_t used = 0;
    bool more = true;
    question.pattern_bytes = strlen(pattern);
    memcpy(question.pattern, pattern, question.pattern_bytes);
    while (more) {
        struct pack_writer writer;
        struct pack_reader reader;
        size_t packed_bytes, count;
        const uint8_t *bytes;
        uint64_t before = question.from;
        assert_int_equal(log_question_pack(&question, packed, sizeof packed, &packed_bytes), 0);
        pack_writer_init(&writer, out, sizeof out);
        assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)LOG, PREFIX_BYTES, question.from, packed,
                                             packed_bytes, bytes_max, &writer, &more), 0);
        pack_reader_init(&reader, out, writer.used_bytes);
        while (bulk_wire_entry_read(&reader, &question.from, &bytes, &count)) {
            assert_true(used + count < sizeof found);
            memcpy(found + used, bytes, count);
            used += count;
        }
        assert_true(pack_at_end(&reader));
        assert_true(!more || question.from > before);
    }
    found[used] = '\0';
    return question.from;
}

static const struct log_question all = {.is_last = true};

static void lines_with_the_pattern_are_found_wherever_pieces_end(void **state)
{
    struct place *place = *state;
    print(place, "epoch 1\nlo", 0);
    print(place, "ss 0.5\nepo", 0);
    print(place, "ch 2\n", 0);
    print(place, "loss 0.4", 0);
    (void)search(place, all, "loss", 1000);
    assert_string_equal(found, "loss 0.5\nloss 0.4\n");
    (void)search(place, all, "^epoch \\d$", 1);
    assert_string_equal(found, "epoch 1\nepoch 2\n");
    (void)search(place, all, "nothing", 1000);
    assert_string_equal(found, "");
    (void)search(place, all, "", 1000);
    assert_string_equal(found, "epoch 1\nloss 0.5\nepoch 2\nloss 0.4\n");
}

static void an_unfinished_line_waits_for_its_end(void **state)
{
    struct place *place = *state;
    struct log_question question = {.is_last = false};
    print(place, "loss 1\nloss", 0);
    question.from = search(place, question, "loss", 1000);
    assert_string_equal(found, "loss 1\n");
    question.from = search(place, question, "loss", 1000);
    assert_string_equal(found, "");
    print(place, " 2\nother\n", 0);
    question.from = search(place, question, "loss", 1000);
    assert_string_equal(found, "loss 2\n");
    assert_int_equal(question.from, place->end);
}

static void a_progress_bar_is_searched_as_it_was_drawn_last(void **state)
{
    struct place *place = *state;
    print(place, "\r10%|loss\r20%|done\n30%|loss\r\nloss\n", 0);
    (void)search(place, all, "loss", 1000);
    assert_string_equal(found, "30%|loss\nloss\n");
    (void)search(place, all, "^20%", 1000);
    assert_string_equal(found, "20%|done\n");
}

static void lines_that_ended_since_are_found(void **state)
{
    struct place *place = *state;
    struct log_question question = all;
    print(place, "one\ntwo is long", 1000);
    print(place, " and ends here\nthree\n", 2000);
    print(place, "four\n", 3000);
    question.since_ms = 2000;
    (void)search(place, question, "", 1000);
    assert_string_equal(found, "two is long and ends here\nthree\nfour\n");
    (void)search(place, question, "^t", 1000);
    assert_string_equal(found, "two is long and ends here\nthree\n");
    question.since_ms = 2001;
    (void)search(place, question, "", 1000);
    assert_string_equal(found, "four\n");
    question.since_ms = 500;
    (void)search(place, question, "", 1000);
    assert_int_equal(strncmp(found, "one\n", 4), 0);
    question.since_ms = 3001;
    question.from = search(place, question, "", 1000);
    assert_string_equal(found, "");
    print(place, "five\n", 4000);
    (void)search(place, question, "", 1000);
    assert_string_equal(found, "five\n");
}

static void a_log_without_times_is_shown_with_since(void **state)
{
    struct place *place = *state;
    struct log_question question = all;
    question.since_ms = 1000;
    print(place, "old\n", 0);
    (void)search(place, question, "", 1000);
    assert_string_equal(found, "old\n");
}

static void the_last_lines_are_found_from_the_end(void **state)
{
    struct place *place = *state;
    static char text[1u << 20], expected[1u << 20];
    enum { LINES = 20000 };
    size_t used = 0, at = 0;
    for (int i = 0; i < LINES; i++) {
        used += (size_t)sprintf(text + used, "line %d %s\n", i, i % 1000 == 0 ? "with something to say" : "");
    }
    while (at < used) {
        size_t some = used - at < 40000 ? used - at : 40000;
        print_n(place, text + at, some, 0);
        at += some;
    }
    static const uint64_t tails[] = {1, 2, 100, 15000, LINES, LINES + 1};
    for (size_t i = 0; i < sizeof tails / sizeof tails[0]; i++) {
        struct log_question question = all;
        question.tail = tails[i];
        (void)search(place, question, "", 100000);
        used = 0;
        for (int line = tails[i] < LINES ? LINES - (int)tails[i] : 0; line < LINES; line++) {
            used += (size_t)sprintf(expected + used, "line %d %s\n", line, line % 1000 == 0 ? "with something to say" : "");
        }
        assert_true(strcmp(found, expected) == 0);
    }
    (void)search(place, all, "something", 50);
    assert_int_equal(strncmp(found, "line 0 with something to say\nline 1000 ", 39), 0);
}

static void an_endless_line_is_cut_and_a_gap_ends_a_line(void **state)
{
    struct place *place = *state;
    static char text[300000];
    memset(text, 'x', sizeof text);
    print_n(place, text, sizeof text, 0);
    print(place, "needle\n", 0);
    (void)search(place, all, "needle", 1000);
    assert_true(strlen(found) <= 65537 && strstr(found, "needle") != NULL);
    place->end += 1000; /* dropped */
    print(place, "half", 0);
    place->end += 1000;
    print(place, "needle\n", 0);
    (void)search(place, all, "^half$", 1000);
    assert_string_equal(found, "half\n");
}

static void nonsense_is_no_question(void **state)
{
    struct place *place = *state;
    static uint8_t out[BULK_WIRE_BODY_BYTES_MAX], packed[LOG_QUESTION_BYTES];
    struct log_question question = all;
    struct pack_writer writer;
    size_t count;
    bool more;
    print(place, "a line\n", 0);
    assert_int_equal(log_question_pack(&question, packed, sizeof packed, &count), 0);
    for (size_t cut = 0; cut < count; cut++) {
        pack_writer_init(&writer, out, sizeof out);
        assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)LOG, PREFIX_BYTES, 0, packed, cut, 1000, &writer, &more),
                         ERR_MALFORMED);
    }
    memcpy(question.pattern, "(", 1);
    question.pattern_bytes = 1;
    assert_int_equal(log_question_pack(&question, packed, sizeof packed, &count), 0);
    pack_writer_init(&writer, out, sizeof out);
    assert_int_equal(series_hooks_answer(place->chunks, (const uint8_t *)LOG, PREFIX_BYTES, 0, packed, count, 1000, &writer, &more),
                     ERR_USAGE);
}

/* ---- how much of a log is kept ---- */

#define BOUNDED "lEXPERIM1-worker"
#define FREE "lEXPERIM2-worker"
#define TALK_BYTES 10000u
#define TALKS 600u

struct extent {
    uint64_t begin, end, bytes;
    bool has_any;
};

static int measure(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct extent *extent = context;
    (void)bytes;
    extent->begin = extent->has_any ? extent->begin : sequence - count;
    extent->has_any = true;
    extent->end = sequence;
    extent->bytes += count;
    return 0;
}

static struct extent extent_of(struct place *place, const char *prefix, char kind)
{
    char series[SERIES_PREFIX_BYTES_MAX];
    struct extent extent = {.has_any = false};
    (void)snprintf(series, sizeof series, "%c%s", kind, prefix + 1);
    assert_int_equal(series_read(place->chunks, series, strlen(series), 0, measure, &extent), 0);
    return extent;
}

static void talk(struct place *place, struct log_bounds *bounds, const char *prefix)
{
    static char text[TALK_BYTES];
    char times[SERIES_PREFIX_BYTES_MAX];
    (void)snprintf(times, sizeof times, "w%s", prefix + 1);
    for (uint64_t i = 0; i < TALKS; i++) {
        memset(text, '.', sizeof text);
        (void)snprintf(text, sizeof text, "piece %llu of a long log", (unsigned long long)i);
        text[sizeof text - 1] = '\n';
        struct series_entry entries[2] = {{.prefix = prefix, .bytes = text, .count = sizeof text}, {.prefix = times, .bytes = "12345678", .count = 8}};
        for (int kind = 1; kind >= 0; kind--) {
            entries[kind].prefix_bytes = strlen(prefix);
            entries[kind].sequence = (i + 1) * TALK_BYTES;
            assert_int_equal(series_append_batch(place->chunks, &entries[kind], 1), 0);
        }
        series_hooks_stored(bounds, place->chunks, entries, 1);
    }
}

static void the_oldest_lines_go_beyond_the_bound_of_the_experiment(void **state)
{
    struct place *place = *state;
    struct log_bounds bounds;
    struct log_bound *rows = calloc(2, sizeof *rows);
    assert_non_null(rows);
    _Static_assert(EXPERIMENT_ID_BYTES == 8, "the prefixes of this test begin with an experiment");
    memcpy(rows[0].experiment.bytes, "EXPERIM3", 8);
    memcpy(rows[1].experiment.bytes, "EXPERIM1", 8);
    rows[0].bytes_max = 1u << 30;
    rows[1].bytes_max = 2u << 20;
    log_bounds_init(&bounds);
    log_bounds_set(&bounds, rows, 2);
    assert_true(log_bounds_find(&bounds, (const uint8_t *)"lEXPERIM3...", 12) == 1u << 30);
    assert_true(log_bounds_find(&bounds, (const uint8_t *)"lEXPERIM2...", 12) == LOG_BYTES_STANDARD);
    assert_true(log_bounds_find(&bounds, (const uint8_t *)"lEXP", 4) == LOG_BYTES_STANDARD);
    assert_true(log_bounds_find(NULL, (const uint8_t *)"lEXPERIM3...", 12) == LOG_BYTES_STANDARD);
    talk(place, &bounds, BOUNDED);
    talk(place, NULL, FREE);

    struct extent all_of_it = extent_of(place, FREE, 'l'), kept = extent_of(place, BOUNDED, 'l'), times = extent_of(place, BOUNDED, 'w');
    assert_true(all_of_it.begin == 0 && all_of_it.bytes == TALKS * TALK_BYTES);
    assert_true(kept.end == TALKS * TALK_BYTES && kept.bytes == kept.end - kept.begin);
    assert_in_range(kept.bytes, (2u << 20) - 3 * SERIES_BLOCK_BYTES, 2u << 20);
    assert_true(times.end == kept.end && times.bytes < TALKS * 8);

    uint8_t out[4096];
    struct pack_writer writer;
    struct pack_reader reader;
    struct log_question question = {.is_last = true, .pattern_bytes = 9, .pattern = "piece 599"};
    const uint8_t *bytes;
    uint64_t number;
    size_t count;
    bool more;
    pack_writer_init(&writer, out, sizeof out);
    assert_int_equal(log_search(place->chunks, (const uint8_t *)BOUNDED, sizeof BOUNDED - 1, &question, 1000, &writer, &more), 0);
    pack_reader_init(&reader, out, writer.used_bytes);
    assert_true(bulk_wire_entry_read(&reader, &number, &bytes, &count));
    assert_true(number == kept.begin && count == 0);
    assert_true(bulk_wire_entry_read(&reader, &number, &bytes, &count));
    log_bounds_close(&bounds);
}

static void a_piece_with_a_huge_number_takes_no_older_lines_away(void **state)
{
    static const uint64_t numbers[] = {UINT64_C(1) << 40, (UINT64_C(1) << 63) - 1, UINT64_MAX};
    struct place *place = *state;
    talk(place, NULL, LOG);
    place->end = TALKS * TALK_BYTES;
    for (size_t i = 0; i < 3; i++) {
        struct series_entry entry = {.prefix = LOG, .prefix_bytes = PREFIX_BYTES, .sequence = numbers[i], .bytes = "false\n", .count = 6};
        assert_int_equal(series_append_batch(place->chunks, &entry, 1), 0);
        series_hooks_stored(NULL, place->chunks, &entry, 1);
    }
    struct extent extent = extent_of(place, LOG, 'l');
    assert_true(extent.begin == 0 && extent.bytes == place->end + 3 * 6);
    assert_true(extent_of(place, LOG, 'w').bytes == TALKS * 8);
    print(place, "an honest line\n", 0);
    struct series_entry next = {.prefix = LOG, .prefix_bytes = PREFIX_BYTES, .sequence = place->end, .count = SERIES_BLOCK_BYTES};
    series_hooks_stored(NULL, place->chunks, &next, 1); /* as if it had crossed the bounds of a block */
    assert_true(extent_of(place, LOG, 'l').bytes == place->end + 3 * 6);
    struct log_question last = {.is_last = true, .tail = 4};
    (void)search(place, last, "", 1000);
    assert_non_null(strstr(found, "an honest line\nfalse\nfalse\nfalse\n"));
    (void)search(place, all, "honest", 1000);
    assert_string_equal(found, "an honest line\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_make, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(lines_with_the_pattern_are_found_wherever_pieces_end),
        TEST(an_unfinished_line_waits_for_its_end),
        TEST(a_progress_bar_is_searched_as_it_was_drawn_last),
        TEST(lines_that_ended_since_are_found),
        TEST(a_log_without_times_is_shown_with_since),
        TEST(the_last_lines_are_found_from_the_end),
        TEST(an_endless_line_is_cut_and_a_gap_ends_a_line),
        TEST(nonsense_is_no_question),
        TEST(the_oldest_lines_go_beyond_the_bound_of_the_experiment),
        TEST(a_piece_with_a_huge_number_takes_no_older_lines_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

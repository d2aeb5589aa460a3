/* Traces: the clocks of nodes, the file, and the box in which a node keeps what its ranks have recorded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "node/bulk/wire.h"
#include "node/trace/box.h"
#include "node/trace/chrome.h"

/* ---- clocks ------------------------------------------------------------------------------------------------------ */

static void the_shortest_round_trip_tells_the_offset(void **state)
{
    (void)state;
    struct trace_clock clock = {.is_known = false};
    trace_clock_note(&clock, 1000, 900000, 3000);
    assert_true(clock.is_known && clock.offset_ns == 898000 && clock.error_ns == 1000);
    trace_clock_note(&clock, 5000, 905000, 9000); /* longer: tells less */
    assert_int_equal(clock.offset_ns, 898000);
    trace_clock_note(&clock, 20000, 918500, 20101);
    assert_true(clock.offset_ns == 898450 && clock.error_ns == 51);
    trace_clock_note(&clock, 9, 1, 8); /* no trip */
    assert_int_equal(clock.offset_ns, 898450);
    struct trace_clock behind = {.is_known = false};
    trace_clock_note(&behind, 1000000, 500, 1000010);
    assert_int_equal(behind.offset_ns, -999505);
    assert_int_equal(trace_clock_ours(&behind, 500), 1000005);
    assert_int_equal(trace_clock_theirs(&behind, 1000005), 500);
}

/* Whatever the trip's two ways take, the true offset lies within the error. */
static void the_error_covers_lopsided_trips(void **state)
{
    (void)state;
    const int64_t true_offset = -123456;
    for (uint64_t there = 0; there <= 1000; there += 7) {
        struct trace_clock clock = {.is_known = false};
        uint64_t asked = 10000000, back = 1000 - there;
        trace_clock_note(&clock, asked, asked + there - 123456, asked + there + back);
        int64_t away = clock.offset_ns - true_offset;
        assert_true((uint64_t)(away < 0 ? -away : away) <= clock.error_ns);
    }
}

static void the_error_covers_a_drift_between_two_measurements(void **state)
{
    (void)state;
    const struct trace_clock none = {.is_known = false}, before = {true, 1000, 10}, after = {true, 1101, 30};
    struct trace_clock clock = trace_clock_between(&before, &after);
    assert_true(clock.is_known && clock.offset_ns == 1050 && clock.error_ns == 30 + 51);
    assert_int_equal(trace_clock_between(&before, &none).offset_ns, 1000);
    assert_int_equal(trace_clock_between(&none, &after).offset_ns, 1101);
    assert_false(trace_clock_between(&none, &none).is_known);
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static size_t pack_spans(uint8_t *out, size_t capacity, const struct span *spans, uint32_t count)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity);
    pack_array(&writer, count);
    for (uint32_t i = 0; i < count; i++) {
        span_pack(&writer, &spans[i]);
    }
    assert_false(writer.failed);
    return writer.used_bytes;
}

static char *written(const struct chrome_rank *ranks, uint32_t count, uint64_t steps, struct chrome_counts *counts)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_true(chrome_write(out, ranks, count, steps, counts));
    assert_int_equal(fclose(out), 0);
    return text;
}

static void the_file_has_the_steps_that_all_ranks_have(void **state)
{
    (void)state;
    /* Rank 1 began a step later, and its clock is 1 ms ahead. */
    const struct span first[] = {{.kind = SPAN_STEP, .step = 6, .begin_ns = 5000, .end_ns = 7000},
                                 {.kind = SPAN_ALL_REDUCE, .step = 7, .begin_ns = 7500, .end_ns = 8999, .bytes = 64},
                                 {.kind = SPAN_STEP, .step = 7, .begin_ns = 7000, .end_ns = 9000},
                                 {.kind = SPAN_STEP, .step = 8, .begin_ns = 9000, .end_ns = 11000}};
    const struct span second[] = {
        {.kind = SPAN_STEP, .step = 7, .begin_ns = 1007100, .end_ns = 1009100},
        {.kind = SPAN_ALL_REDUCE, .lane = SPAN_LANE_THREAD, .step = 8, .begin_ns = 1009200, .end_ns = 1009300},
        {.kind = SPAN_STEP, .step = 8, .begin_ns = 1009100, .end_ns = 1011100}};
    uint8_t one[512], other[512];
    const struct chrome_rank ranks[] = {
        {.rank = 0,
         .node = "a\"b",
         .clock = {true, 0, 0},
         .packed = one,
         .packed_bytes = pack_spans(one, sizeof one, first, 4)},
        {.rank = 1,
         .node = "birch",
         .clock = {true, 1000000, 1500},
         .packed = other,
         .packed_bytes = pack_spans(other, sizeof other, second, 3)},
    };
    struct chrome_counts counts;
    char *text = written(ranks, 2, 1, &counts);
    assert_true(counts.steps == 1 && counts.spans == 3 && counts.error_ns == 1500 && !counts.is_apart && !counts.is_cut);
    assert_int_equal(strncmp(text, "[\n{", 3), 0);
    assert_string_equal(text + strlen(text) - 4, "}\n]\n");
    assert_non_null(strstr(text, "\"name\":\"rank 0 on a\\\"b\""));
    assert_non_null(strstr(text, "\"clock_error_us\":1.500"));
    assert_non_null(strstr(
        text, "{\"name\":\"all-reduce\",\"cat\":\"collective\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.500,\"dur\":1.499,"
              "\"args\":{\"step\":7,\"bytes\":64}}"));
    assert_non_null(strstr(text, "\"pid\":1,\"tid\":0,\"ts\":0.100,\"dur\":2.000,\"args\":{\"step\":7}}"));
    assert_null(strstr(text, "\"step\":6"));
    assert_null(strstr(text, "\"step\":8"));
    free(text);
    text = written(ranks, 2, 9, &counts);
    assert_true(counts.steps == 2 && counts.is_cut);
    assert_non_null(strstr(text, "\"pid\":1,\"tid\":1,"));
    free(text);
}

static void ranks_without_a_common_step_are_shown_whole(void **state)
{
    (void)state;
    const struct span first[] = {{.kind = SPAN_STEP, .step = 1, .begin_ns = 5, .end_ns = 6}};
    const struct span second[] = {{.kind = SPAN_STEP, .step = 2, .begin_ns = 7, .end_ns = 9}};
    uint8_t one[64], other[64];
    struct chrome_rank ranks[] = {
        {.rank = 0, .node = "a", .packed = one, .packed_bytes = pack_spans(one, sizeof one, first, 1)},
        {.rank = 1, .node = "b", .packed = other, .packed_bytes = pack_spans(other, sizeof other, second, 1)},
    };
    struct chrome_counts counts;
    char *text = written(ranks, 2, 1, &counts);
    assert_true(counts.is_apart && counts.spans == 2);
    free(text);
    ranks[1].packed_bytes--; /* cut: no span */
    text = written(ranks, 2, 1, &counts);
    assert_true(counts.is_apart && counts.spans == 1);
    free(text);
    text = written(ranks, 0, 1, &counts);
    assert_string_equal(text, "[\n\n]\n");
    free(text);
}

/* ---- the box ----------------------------------------------------------------------------------------------------- */

static uint8_t room[1 << 20];

static struct pack_writer ask(struct trace_box *box, enum trace_question kind, const struct trace_wish *wish, uint64_t from,
                              int expected, bool *more)
{
    uint8_t question[TRACE_QUESTION_BYTES];
    size_t bytes = trace_question_pack(kind, wish, question);
    struct pack_writer out;
    pack_writer_init(&out, room, sizeof room);
    assert_int_equal(trace_box_answer(box, from, question, bytes, 1000, 77, &out, more), expected);
    return out;
}

/* The entry's number and its state; `*at` moves behind it. False: there is none. */
static bool next_row(struct pack_reader *at, uint64_t *slot, uint64_t *rank, uint64_t *row_state, size_t *span_bytes)
{
    const uint8_t *bytes;
    size_t count;
    struct pack_reader reader;
    if (!bulk_wire_entry_read(at, slot, &bytes, &count)) {
        return false;
    }
    pack_reader_init(&reader, bytes, count);
    assert_int_equal(pack_read_array(&reader), 5);
    (void)pack_read_u64(&reader);
    *rank = pack_read_u64(&reader);
    *row_state = pack_read_u64(&reader);
    (void)pack_read_u64(&reader);
    (void)pack_read_any(&reader, span_bytes);
    assert_true(pack_at_end(&reader));
    return true;
}

static void a_box_gives_what_its_ranks_have_recorded(void **state)
{
    (void)state;
    static struct trace_box box;
    struct trace_wish wish = {.trace = 9, .trial = 3, .steps = 2, .from_ns = 5, .seconds = 10}, seen;
    struct trace_row rows[SLOTS_MAX];
    bool more;
    uint64_t slot, rank, row_state;
    size_t span_bytes;
    uint8_t spans[900];
    trace_box_init(&box);
    (void)ask(&box, TRACE_CLOCK, &wish, 0, 0, &more);
    assert_false(trace_box_get(&box, 0, 1000, &seen, rows));
    (void)ask(&box, TRACE_BEGIN, &wish, 0, 0, &more);
    (void)ask(&box, TRACE_BEGIN, &wish, 0, 0, &more); /* asked again it is the same */
    assert_true(trace_box_get(&box, 0, 1000, &seen, rows));
    assert_false(trace_box_get(&box, 1, 1000, &seen, rows));
    assert_true(seen.trial == 3 && seen.steps == 2 && seen.from_ns == 5);
    trace_box_put(&box, 9, 4, 1, 0, spans, 1); /* nobody asked that slot */
    trace_box_set(&box, 9, 4, 1, 1, TRACE_TOLD);
    trace_box_set(&box, 9, 6, 2, 2, TRACE_TOLD);
    trace_box_set(&box, 9, 7, 3, 3, TRACE_UNCONNECTED);
    memset(spans, 0xc0, sizeof spans);
    struct pack_writer packed;
    pack_writer_init(&packed, spans, sizeof spans);
    pack_array(&packed, 800);
    trace_box_put(&box, 9, 4, 5, 0, spans, 803); /* 800 times nil */
    trace_box_put(&box, 9, 6, 2, 0, spans, 803);
    struct pack_writer out = ask(&box, TRACE_TAKE, &wish, 0, 0, &more);
    struct pack_reader at;
    pack_reader_init(&at, room, out.used_bytes);
    assert_true(more && next_row(&at, &slot, &rank, &row_state, &span_bytes));
    assert_true(slot == 4 && rank == 5 && row_state == TRACE_DONE && span_bytes == 803);
    assert_false(next_row(&at, &slot, &rank, &row_state, &span_bytes));
    out = ask(&box, TRACE_TAKE, &wish, 5, 0, &more);
    pack_reader_init(&at, room, out.used_bytes);
    assert_true(!more && next_row(&at, &slot, &rank, &row_state, &span_bytes) && slot == 6);
    assert_true(next_row(&at, &slot, &rank, &row_state, &span_bytes) && slot == 7 && row_state == TRACE_UNCONNECTED);
    for (uint64_t trace = 10; trace < 13; trace++) {
        wish.trace = trace;
        (void)ask(&box, TRACE_BEGIN, &wish, 0, 0, &more);
    }
    wish.trace = 13;
    (void)ask(&box, TRACE_BEGIN, &wish, 0, ERR_FULL, &more);
    assert_false(trace_box_get(&box, 0, 11000, &seen, rows)); /* its time is over */
    (void)ask(&box, TRACE_BEGIN, &wish, 0, 0, &more);
    trace_box_close(&box);
}

static void other_questions_are_malformed(void **state)
{
    (void)state;
    static struct trace_box box;
    const struct trace_wish wish = {.trace = 9, .steps = 1, .seconds = 10}, none = {.trace = 0},
                            long_one = {.trace = 1, .steps = TRACE_STEPS_MAX + 1};
    uint8_t question[TRACE_QUESTION_BYTES];
    struct pack_writer out;
    bool more;
    trace_box_init(&box);
    size_t bytes = trace_question_pack(TRACE_BEGIN, &wish, question);
    for (size_t cut = 0; cut < bytes; cut++) {
        pack_writer_init(&out, room, sizeof room);
        assert_int_equal(trace_box_answer(&box, 0, question, cut, 1000, 77, &out, &more), ERR_MALFORMED);
    }
    (void)ask(&box, TRACE_TAKE, &none, 0, ERR_MALFORMED, &more);
    (void)ask(&box, TRACE_BEGIN, &long_one, 0, ERR_MALFORMED, &more);
    trace_box_close(&box);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_round_trip_tells_the_offset),
        cmocka_unit_test(the_error_covers_lopsided_trips),
        cmocka_unit_test(the_error_covers_a_drift_between_two_measurements),
        cmocka_unit_test(the_file_has_the_steps_that_all_ranks_have),
        cmocka_unit_test(ranks_without_a_common_step_are_shown_whole),
        cmocka_unit_test(a_box_gives_what_its_ranks_have_recorded),
        cmocka_unit_test(other_questions_are_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What members ask of the traces of a node (node/trace/box.h), and what programs and nodes send as spans: the first byte says which. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/trace/box.h"
#include "node/trace/chrome.h"
#include "tests/fuzz/fuzz.h"

#define ROOM_BYTES (256u << 10)

static void ask(const uint8_t *question, size_t count)
{
    static struct trace_box box;
    static uint8_t room[ROOM_BYTES];
    struct pack_writer out;
    bool more;
    trace_box_init(&box);
    pack_writer_init(&out, room, sizeof room);
    int code = trace_box_answer(&box, 0, question, count, 1000, 5, &out, &more);
    CHECK(code == 0 || code == ERR_MALFORMED);
    CHECK(!out.failed && (code == 0 || out.used_bytes == 0));
    struct trace_wish wish;
    struct trace_row rows[SLOTS_MAX];
    if (trace_box_get(&box, 0, 1, &wish, rows)) {
        CHECK(wish.trace != 0 && wish.steps <= TRACE_STEPS_MAX && wish.seconds <= TRACE_SECONDS_MAX);
        trace_box_set(&box, wish.trace, 3, 1, 1, TRACE_TOLD);
        trace_box_put(&box, wish.trace, 3, 1, 0, question, count);
    }
    trace_box_close(&box);
}

static void show(const uint8_t *spans, size_t count)
{
    struct chrome_rank ranks[2] = {{.rank = 0, .node = "a", .packed = spans, .packed_bytes = count},
                                   {.rank = 1, .node = "b", .clock = {true, -7, 3}, .packed = spans, .packed_bytes = count}};
    struct chrome_counts counts;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    CHECK(out != NULL && chrome_write(out, ranks, 2, 4, &counts) && fclose(out) == 0);
    CHECK(strncmp(text, "[\n", 2) == 0 && strcmp(text + bytes - 3, "\n]\n") == 0);
    CHECK(counts.spans <= 2 * SPANS_MAX && (counts.is_apart || counts.steps >= 1));
    free(text);
}

void fuzz_one(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] % 2 == 0) {
        ask(data + 1, size - 1);
    } else if (size > 0) {
        show(data + 1, size - 1);
    }
}

void fuzz_seeds(void)
{
    const struct trace_wish wish = {.trace = 77, .trial = 1, .steps = 3, .from_ns = 123456789, .seconds = 60};
    uint8_t bytes[1 + 8 * SPAN_PACKED_BYTES_MAX] = {0};
    for (int kind = TRACE_CLOCK; kind <= TRACE_TAKE; kind++) {
        size_t count = trace_question_pack((enum trace_question)kind, &wish, bytes + 1);
        fuzz_seed(bytes, count + 1);
    }
    struct pack_writer writer;
    bytes[0] = 1;
    pack_writer_init(&writer, bytes + 1, sizeof bytes - 1);
    pack_array(&writer, 4);
    for (uint64_t i = 0; i < 4; i++) {
        const struct span span = {.kind = i % 2 == 0 ? SPAN_STEP : SPAN_ALL_REDUCE,
                                  .lane = i == 3 ? SPAN_LANE_THREAD : SPAN_LANE_PROGRAM,
                                  .step = 6 + i / 2,
                                  .begin_ns = 1000000 + i,
                                  .end_ns = 1005000 + i,
                                  .bytes = i * 4096};
        span_pack(&writer, &span);
    }
    fuzz_seed(bytes, writer.used_bytes + 1);
}

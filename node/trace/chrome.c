#include "node/trace/chrome.h"

#include <stdlib.h>
#include <string.h>

struct spans {
    struct span *items;
    uint32_t count;
};

static bool read_spans(const struct chrome_rank *rank, struct spans *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, rank->packed, rank->packed_bytes);
    uint32_t count = pack_read_array(&reader);
    count = count < SPANS_MAX ? count : SPANS_MAX;
    out->count = 0;
    out->items = malloc((count + 1u) * sizeof *out->items);
    if (out->items == NULL) {
        return false;
    }
    while (out->count < count && span_read(&reader, &out->items[out->count])) {
        struct span *span = &out->items[out->count++];
        span->begin_ns = trace_clock_ours(&rank->clock, span->begin_ns);
        span->end_ns = trace_clock_ours(&rank->clock, span->end_ns);
    }
    return true;
}

/* The first step that all ranks have, and the last; false: there is none. */
static bool find_common(const struct spans *ranks, uint32_t count, uint64_t *first, uint64_t *last)
{
    *first = 0;
    *last = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t low = UINT64_MAX, high = 0;
        for (uint32_t k = 0; k < ranks[i].count; k++) {
            const struct span *span = &ranks[i].items[k];
            low = span->kind == SPAN_STEP && span->step < low ? span->step : low;
            high = span->kind == SPAN_STEP && span->step > high ? span->step : high;
        }
        *first = low > *first ? low : *first;
        *last = high < *last ? high : *last;
    }
    return count > 0 && *first <= *last;
}

/* As text of JSON; control characters are no part of a node's label. */
static void write_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)fputc('\\', out);
        }
        if ((unsigned char)*text >= 0x20) {
            (void)fputc(*text, out);
        }
    }
}

static void write_us(FILE *out, uint64_t ns)
{
    (void)fprintf(out, "%llu.%03llu", (unsigned long long)(ns / 1000), (unsigned long long)(ns % 1000));
}

static const char *category_of(const struct span *span)
{
    switch (span->kind) {
    case SPAN_STEP:
        return "step";
    case SPAN_DATA:
        return "data";
    case SPAN_FORWARD:
    case SPAN_BACKWARD:
        return "compute";
    case SPAN_SAVE:
        return "checkpoint";
    default:
        return "collective";
    }
}

/* The names of a rank's process and rows, and how exact its times are. */
static void write_head(FILE *out, const struct chrome_rank *rank)
{
    static const char *const lanes[SPAN_LANES] = {[SPAN_LANE_PROGRAM] = "program", [SPAN_LANE_THREAD] = "sums beside it"};
    (void)fprintf(out, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"name\":\"rank %u on ", rank->rank,
                  rank->rank);
    write_text(out, rank->node);
    (void)fprintf(out, "\"}},\n{\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"sort_index\":%u}},\n",
                  rank->rank, rank->rank);
    (void)fprintf(out, "{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%u,\"args\":{\"labels\":\"times within ",
                  rank->rank);
    write_us(out, rank->clock.error_ns);
    (void)fputs(" us\",\"clock_error_us\":", out);
    write_us(out, rank->clock.error_ns);
    (void)fprintf(out, ",\"lost_spans\":%llu}}", (unsigned long long)rank->lost);
    for (uint32_t lane = 0; lane < SPAN_LANES; lane++) {
        (void)fprintf(out, ",\n{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s\"}}",
                      rank->rank, lane, lanes[lane]);
    }
}

static void write_span(FILE *out, uint32_t rank, const struct span *span, uint64_t origin_ns)
{
    (void)fprintf(out, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":",
                  span_name((uint32_t)span->kind), category_of(span), rank, (unsigned)span->lane);
    write_us(out, span->begin_ns - origin_ns);
    (void)fputs(",\"dur\":", out);
    write_us(out, span->end_ns - span->begin_ns);
    (void)fprintf(out, ",\"args\":{\"step\":%llu", (unsigned long long)span->step);
    if (span->bytes > 0) {
        (void)fprintf(out, ",\"bytes\":%llu", (unsigned long long)span->bytes);
    }
    (void)fputs("}}", out);
}

/* Leaves the spans of the wanted steps, and gives the time of the first of all. */
static uint64_t choose(struct spans *ranks, uint32_t count, uint64_t first, uint64_t last)
{
    uint64_t origin_ns = UINT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t kept = 0;
        for (uint32_t k = 0; k < ranks[i].count; k++) {
            const struct span span = ranks[i].items[k];
            if (span.step >= first && span.step <= last) {
                ranks[i].items[kept++] = span;
                origin_ns = span.begin_ns < origin_ns ? span.begin_ns : origin_ns;
            }
        }
        ranks[i].count = kept;
    }
    return origin_ns;
}

static void write_all(FILE *out, const struct chrome_rank *ranks, struct spans *spans, uint32_t count, uint64_t steps,
                      struct chrome_counts *counts)
{
    uint64_t first, last;
    *counts = (struct chrome_counts){.is_apart = !find_common(spans, count, &first, &last)};
    if (counts->is_apart) {
        first = 0;
        last = UINT64_MAX;
    } else {
        counts->is_cut = last - first + 1 < steps;
        last = last - first >= steps ? first + steps - 1 : last;
        counts->steps = last - first + 1;
    }
    uint64_t origin_ns = choose(spans, count, first, last);
    (void)fputs("[\n", out);
    for (uint32_t i = 0; i < count; i++) {
        (void)fputs(i > 0 ? ",\n" : "", out);
        write_head(out, &ranks[i]);
        for (uint32_t k = 0; k < spans[i].count; k++) {
            write_span(out, ranks[i].rank, &spans[i].items[k], origin_ns);
        }
        counts->spans += spans[i].count;
        counts->error_ns = ranks[i].clock.error_ns > counts->error_ns ? ranks[i].clock.error_ns : counts->error_ns;
        counts->is_cut |= ranks[i].lost > 0;
    }
    (void)fputs("\n]\n", out);
}

bool chrome_write(FILE *out, const struct chrome_rank *ranks, uint32_t count, uint64_t steps, struct chrome_counts *counts)
{
    struct spans *spans = calloc(count + 1u, sizeof *spans);
    bool is_read = spans != NULL;
    for (uint32_t i = 0; i < count && is_read; i++) {
        is_read = read_spans(&ranks[i], &spans[i]);
    }
    if (is_read) {
        write_all(out, ranks, spans, count, steps, counts);
    }
    for (uint32_t i = 0; i < count && spans != NULL; i++) {
        free(spans[i].items);
    }
    free(spans);
    return is_read && fflush(out) == 0 && !ferror(out);
}

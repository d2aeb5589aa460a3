#include "base/spans.h"

#define ELEMENTS 6u

const char *span_name(uint32_t kind)
{
    static const char *const names[SPAN_KINDS] = {
        [SPAN_STEP] = "step",
        [SPAN_DATA] = "data wait",
        [SPAN_FORWARD] = "forward",
        [SPAN_BACKWARD] = "backward",
        [SPAN_ALL_REDUCE] = "all-reduce",
        [SPAN_REDUCE_SCATTER] = "reduce-scatter",
        [SPAN_ALL_GATHER] = "all-gather",
        [SPAN_BROADCAST] = "broadcast",
        [SPAN_BARRIER] = "barrier",
        [SPAN_COMMIT] = "commit",
        [SPAN_SUMS] = "wait for sums",
        [SPAN_SAVE] = "checkpoint save",
    };
    return kind < SPAN_KINDS && names[kind] != NULL ? names[kind] : "other";
}

void span_pack(struct pack_writer *writer, const struct span *span)
{
    pack_array(writer, ELEMENTS);
    pack_u64(writer, (uint64_t)span->kind);
    pack_u64(writer, (uint64_t)span->lane);
    pack_u64(writer, span->step);
    pack_u64(writer, span->begin_ns);
    pack_u64(writer, span->end_ns - span->begin_ns);
    pack_u64(writer, span->bytes);
}

bool span_read(struct pack_reader *reader, struct span *out)
{
    uint32_t elements = pack_read_array(reader);
    struct span span = {.kind = (enum span_kind)pack_read_u64_max(reader, UINT16_MAX)};
    span.lane = (enum span_lane)pack_read_u64_max(reader, SPAN_LANES - 1);
    span.step = pack_read_u64(reader);
    span.begin_ns = pack_read_u64(reader);
    uint64_t ns = pack_read_u64(reader);
    span.bytes = pack_read_u64(reader);
    for (uint32_t i = ELEMENTS; i < elements && !reader->failed; i++) {
        pack_skip(reader);
    }
    span.end_ns = span.begin_ns + ns;
    reader->failed = reader->failed || elements < ELEMENTS || span.end_ns < span.begin_ns;
    *out = reader->failed ? (struct span){0} : span;
    return !reader->failed;
}

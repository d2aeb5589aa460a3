#include "node/bulk/stream.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define RENEW_BYTES (STREAM_RING_BYTES / 4) /* so much new room is worth a segment of its own */

_Static_assert((STREAM_RING_BYTES & (STREAM_RING_BYTES - 1)) == 0, "places map to bytes of a ring");

static size_t least(uint64_t a, uint64_t b)
{
    return (size_t)(a < b ? a : b);
}

/* How many places from this one on lie in one piece. */
static uint64_t piece(uint64_t place)
{
    return STREAM_RING_BYTES - place % STREAM_RING_BYTES;
}

/* The places that the other end has to have: the bytes, and the end. */
static uint64_t out_places(const struct stream *stream)
{
    return stream->taken + stream->out_ended;
}

void stream_init(struct stream *stream, uint64_t now_ms, uint8_t *out, uint8_t *in)
{
    *stream = (struct stream){.out = out,
                              .in = in,
                              .peer_limit = STREAM_RING_BYTES,
                              .told_limit = STREAM_RING_BYTES,
                              .heard_ms = now_ms,
                              .told_ms = now_ms,
                              .progress_ms = now_ms};
}

/* ---- the program's side ---- */

size_t stream_room(const struct stream *stream, uint8_t **at)
{
    if (stream->out_ended) {
        return 0;
    }
    uint64_t used = stream->taken - least(stream->acknowledged, stream->taken);
    CHECK(used <= STREAM_RING_BYTES);
    *at = stream->out + stream->taken % STREAM_RING_BYTES;
    return least(STREAM_RING_BYTES - used, piece(stream->taken));
}

void stream_took(struct stream *stream, size_t count)
{
    uint8_t *at;
    CHECK(count <= stream_room(stream, &at));
    stream->taken += count;
}

void stream_end(struct stream *stream)
{
    stream->out_ended = true;
}

/* Bytes that have arrived, without the end. */
static uint64_t in_bytes(const struct stream *stream)
{
    return stream->received - stream->in_ended;
}

size_t stream_waiting(const struct stream *stream, const uint8_t **at)
{
    CHECK(stream->given <= in_bytes(stream));
    *at = stream->in + stream->given % STREAM_RING_BYTES;
    return least(in_bytes(stream) - stream->given, piece(stream->given));
}

void stream_gave(struct stream *stream, size_t count)
{
    const uint8_t *at;
    CHECK(count <= stream_waiting(stream, &at));
    stream->given += count;
    if (!stream->in_ended && stream->given + STREAM_RING_BYTES - stream->told_limit >= RENEW_BYTES) {
        stream->owes = true;
    }
}

bool stream_gave_all(const struct stream *stream)
{
    return stream->in_ended && stream->given == in_bytes(stream);
}

/* ---- the other end ---- */

bool stream_next(struct stream *stream, uint64_t now_ms, struct stream_segment *out)
{
    if (stream->sent > stream->acknowledged && now_ms - stream->progress_ms >= STREAM_RESEND_MS) {
        stream->sent = stream->acknowledged;
        stream->progress_ms = now_ms;
    }
    uint64_t until = stream->taken < stream->peer_limit ? stream->taken : stream->peer_limit;
    size_t count = stream->sent < until ? least(until - stream->sent, piece(stream->sent)) : 0;
    count = least(count, STREAM_SEGMENT_BYTES);
    bool ends = stream->out_ended && stream->sent + count == stream->taken;
    if (count == 0 && !ends && !stream->owes && now_ms - stream->told_ms < STREAM_TELL_MS) {
        return false;
    }
    *out = (struct stream_segment){.offset = stream->sent,
                                   .received = stream->received,
                                   .limit = stream->given + STREAM_RING_BYTES,
                                   .ends = ends,
                                   .bytes = stream->out + stream->sent % STREAM_RING_BYTES,
                                   .count = count};
    return true;
}

void stream_sent(struct stream *stream, uint64_t now_ms, const struct stream_segment *segment)
{
    CHECK(segment->offset == stream->sent);
    if (stream->sent == stream->acknowledged && (segment->count > 0 || segment->ends)) {
        stream->progress_ms = now_ms; /* the time of what is on its way begins */
    }
    stream->sent += segment->count + segment->ends;
    stream->told_ms = now_ms;
    stream->told_limit = segment->limit;
    stream->owes = false;
}

/* Writes the bytes of a segment behind those that are here, around the ring's end. */
static void put(struct stream *stream, const uint8_t *bytes, size_t count)
{
    size_t first = least(count, piece(stream->received));
    memcpy(stream->in + stream->received % STREAM_RING_BYTES, bytes, first);
    memcpy(stream->in, bytes + first, count - first);
    stream->received += count;
}

int stream_receive(struct stream *stream, uint64_t now_ms, const struct stream_segment *segment)
{
    /* What was taken back by stream_next may be acknowledged all the same: it was on its way. */
    bool is_sound = segment->received <= out_places(stream) && segment->count <= STREAM_SEGMENT_BYTES &&
                    segment->offset <= UINT64_MAX / 2 && segment->limit <= UINT64_MAX / 2 &&
                    segment->offset + segment->count <= stream->given + STREAM_RING_BYTES;
    if (!is_sound) {
        return ERR_MALFORMED;
    }
    stream->heard_ms = now_ms;
    if (segment->received > stream->acknowledged) {
        stream->acknowledged = segment->received;
        stream->progress_ms = now_ms;
        if (stream->sent < stream->acknowledged) {
            stream->sent = stream->acknowledged;
        }
    }
    if (segment->limit > stream->peer_limit) {
        stream->peer_limit = segment->limit;
    }
    if (segment->count > 0 || segment->ends) {
        stream->owes = true; /* of one that was here before, too: the answer was lost */
        if (segment->offset == stream->received && !stream->in_ended) {
            put(stream, segment->bytes, segment->count);
            stream->in_ended = segment->ends;
            stream->received += segment->ends;
        }
    }
    return 0;
}

bool stream_is_over(const struct stream *stream)
{
    return stream->out_ended && stream->acknowledged == out_places(stream) && stream_gave_all(stream);
}

bool stream_is_silent(const struct stream *stream, uint64_t now_ms)
{
    return now_ms - stream->heard_ms >= STREAM_SILENCE_MS;
}

uint64_t stream_next_ms(const struct stream *stream)
{
    uint64_t tell_ms = stream->told_ms + STREAM_TELL_MS, resend_ms = stream->progress_ms + STREAM_RESEND_MS;
    return stream->sent > stream->acknowledged && resend_ms < tell_ms ? resend_ms : tell_ms;
}

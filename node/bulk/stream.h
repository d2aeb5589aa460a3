#ifndef NODE_BULK_STREAM_H
#define NODE_BULK_STREAM_H
/* One end of a stream of bytes between two nodes: what is sent, acknowledged and sent again. A core.
 *
 * Segments carry bytes with their place in the stream, how much of the other direction has arrived, and up to which
 * place more is taken. The messages of the bulk sockets may be lost, all behind a place (a broken connection, a full
 * inbox), but they come in order: a segment that does not begin where the last one ended is dropped, and what is not
 * acknowledged within STREAM_RESEND_MS is sent again from there on. Each direction ends by itself; its end takes one
 * place behind the last byte.
 *
 * Bounds: each end holds STREAM_RING_BYTES of either direction, and the other end never sends beyond what fits. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_RING_BYTES (256u << 10)   /* a power of two: place i is byte i % STREAM_RING_BYTES of a ring */
#define STREAM_SEGMENT_BYTES (24u << 10) /* fits into the head of a message */
#define STREAM_RESEND_MS 3000            /* without progress: what is on its way was lost */
#define STREAM_TELL_MS 2000              /* an end that has nothing to send tells so often that it lives */
#define STREAM_SILENCE_MS 15000          /* an end that hears nothing for so long gives the stream up */

/* A segment, as on the wire (wire.h). */
struct stream_segment {
    uint64_t offset;   /* place of the first byte */
    uint64_t received; /* places of the other direction that have arrived in order, its end included */
    uint64_t limit;    /* bytes of the other direction are taken up to here */
    bool ends;         /* the direction ends behind these bytes */
    const uint8_t *bytes;
    size_t count; /* at most STREAM_SEGMENT_BYTES */
};

/* One end. */
struct stream {
    uint8_t *out, *in; /* rings, the caller's: bytes to the other end, and from there */
    /* To the other end: acknowledged <= sent; bytes taken from the program; `peer_limit` is the other end's. */
    uint64_t acknowledged, sent, taken, peer_limit;
    bool out_ended; /* the program has no more: place `taken` is the end */
    /* From there: bytes given to the program <= received. */
    uint64_t given, received;
    bool in_ended; /* the end has arrived: all bytes are here */
    uint64_t told_limit;
    bool owes; /* the other end is to be told what has arrived */
    uint64_t heard_ms, told_ms, progress_ms;
};

/* A fresh end. Both ends take STREAM_RING_BYTES before they have told any limit. */
void stream_init(struct stream *stream, uint64_t now_ms, uint8_t *out, uint8_t *in);

/* Room for bytes of the program: where, and how many in one piece; 0: none now. Then tell how many came, or that none
 * comes any more. */
size_t stream_room(const struct stream *stream, uint8_t **at);
void stream_took(struct stream *stream, size_t count);
void stream_end(struct stream *stream);

/* Bytes for the program: where, and how many in one piece; 0: none now. Then tell how many it took. */
size_t stream_waiting(const struct stream *stream, const uint8_t **at);
void stream_gave(struct stream *stream, size_t count);

/* True once the program has all bytes of the other end, and no more will come. */
bool stream_gave_all(const struct stream *stream);

/* The segment to send now; false: none is due. Its bytes stay valid until the next call of any function. stream_sent
 * says that it is on its way; without that the same comes again. */
bool stream_next(struct stream *stream, uint64_t now_ms, struct stream_segment *out);
void stream_sent(struct stream *stream, uint64_t now_ms, const struct stream_segment *segment);

/* Takes a segment of the other end. ERR_MALFORMED: no honest end sends that; nothing has changed. */
int stream_receive(struct stream *stream, uint64_t now_ms, const struct stream_segment *segment);

/* True once both directions have ended and both ends know. */
bool stream_is_over(const struct stream *stream);

/* True once nothing was heard for STREAM_SILENCE_MS. */
bool stream_is_silent(const struct stream *stream, uint64_t now_ms);

/* When stream_next may have something without a call of another function. */
uint64_t stream_next_ms(const struct stream *stream);

#endif

#ifndef BASE_SPANS_H
#define BASE_SPANS_H
/* Spans of a trace: what a rank did, from when until when, by the monotonic clock of its machine. libshoal records and packs
 * them, the daemon reads them. */

#include "base/pack.h"

#define SPANS_MAX 4096 /* of one rank in one trace */
#define SPAN_PACKED_BYTES_MAX 48

/* Numbers on the wire. */
enum span_kind {
    SPAN_STEP = 1,
    SPAN_DATA,
    SPAN_FORWARD,
    SPAN_BACKWARD,
    SPAN_ALL_REDUCE,
    SPAN_REDUCE_SCATTER,
    SPAN_ALL_GATHER,
    SPAN_BROADCAST,
    SPAN_BARRIER,
    SPAN_COMMIT,
    SPAN_SUMS,
    SPAN_SAVE,
    SPAN_KINDS /* one more than the last */
};

/* The program's own thread, in which spans nest, and libshoal's thread for sums that were begun. */
enum span_lane { SPAN_LANE_PROGRAM, SPAN_LANE_THREAD, SPAN_LANES };

struct span {
    enum span_kind kind;
    enum span_lane lane;
    uint64_t step; /* the step that it belongs to, from 1 */
    uint64_t begin_ns, end_ns;
    uint64_t bytes; /* of a collective's array; else 0 */
};

/* The name as it is shown; "other" for kinds of later versions. */
const char *span_name(uint32_t kind);

/* Writes one span, at most SPAN_PACKED_BYTES_MAX bytes: an array of kind, lane, step, begin_ns, end_ns - begin_ns, bytes. */
void span_pack(struct pack_writer *writer, const struct span *span);

/* Reads one span; its kind may be of a later version. False: these bytes are none; the reader has failed. */
bool span_read(struct pack_reader *reader, struct span *out);

#endif

#ifndef NODE_DAEMON_WIRE_EVENT_POINTS_H
#define NODE_DAEMON_WIRE_EVENT_POINTS_H
/* Metric points out of the event files that programs write (store/tfevents.h): records one by one, and the scalars of
 * an event. Bytes come from any program. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "node/daemon/wire/request.h"

#define EVENT_MESSAGE_BYTES_MAX (256u << 10) /* a longer record, an image say, has no scalars */
#define EVENT_GROUP "training"               /* of a tag without one */

enum event_take {
    EVENT_TAKEN, /* `message` is the record's */
    EVENT_WAITS, /* the record is cut short: the writer is not done with it */
    EVENT_LONG,  /* longer than EVENT_MESSAGE_BYTES_MAX: to be passed over once all of it is there */
    EVENT_BROKEN /* a checksum is wrong: nothing behind it can be told */
};

/* Looks at the record at the begin of `bytes`. `*whole_bytes`: of the record, of TAKEN, LONG, and of WAITS if its head
 * is there, else 0. */
enum event_take event_take(const uint8_t *bytes, size_t count, const uint8_t **message, size_t *message_bytes,
                           uint64_t *whole_bytes);

struct event_point {
    char group[REQUEST_GROUP_BYTES], name[REQUEST_METRIC_BYTES];
    uint64_t step, wall_ms; /* wall_ms 0: none that makes sense */
    double value;
    uint32_t
        file; /* the reader's: which file it is from, and up to where that is done with once this point is stored */
    uint64_t done_bytes;
};

/* Writes the scalars of an event, at most `room`, and returns their number. The tag's part before its first slash is
 * the group, if it has 1 to 31 bytes; else the whole tag is the name, in EVENT_GROUP. `*dropped` counts scalars without
 * room, with a negative step, or with a name that is empty, has a zero byte or more than 127 bytes. What is malformed
 * has none. */
uint32_t event_points(const uint8_t *message, size_t count, struct event_point *out, uint32_t room, uint32_t *dropped);

#endif

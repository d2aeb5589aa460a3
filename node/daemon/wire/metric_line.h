#ifndef NODE_DAEMON_WIRE_METRIC_LINE_H
#define NODE_DAEMON_WIRE_METRIC_LINE_H
/* Metrics in the output of a program, for those that do not speak to the daemon (docs/wire.md):
 *
 *     ::shoal metric GROUP NAME=VALUE [NAME=VALUE ...] [step=N]
 *
 * Words are separated by blanks. A carriage return ends a line, too, and text before the last "::shoal metric " of a line does
 * not count: a progress bar leaves its line unfinished. Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/daemon/wire/request.h"

#define METRIC_LINE_BYTES 2048 /* of the longest line that can be a metric */

#define METRIC_LINE_SHOWN_BYTES 128 /* of a malformed line */

/* The bytes of the line so far; all zero at its beginning, or when bytes of the output are missing. */
struct metric_lines {
    char line[METRIC_LINE_BYTES]; /* what follows "::shoal metric " */
    size_t used;
    size_t matched;   /* the last bytes are so many of "::shoal metric " */
    bool is_begun;    /* "::shoal metric " was there, and the rest may be a metric so far */
    bool is_malformed; /* a line was malformed: `malformed` is the beginning of the first one,
                          with control characters made visible (base/visible.h) */
    char malformed[METRIC_LINE_SHOWN_BYTES];
};

/* Forgets the unfinished line. */
void metric_lines_cut(struct metric_lines *lines);

/* Takes the next bytes from `*at` on until a line is complete that is a metric, and sets `*at` behind it. False: there is no
 * such line in the rest, of which an unfinished one is kept. `out->metrics` points into `packed`. A line without a step has
 * the step `step`. Malformed lines are passed over; the first of them is kept. */
bool metric_lines_next(struct metric_lines *lines, const uint8_t *bytes, size_t count, size_t *at, uint64_t step,
                       uint8_t packed[METRIC_LINE_BYTES], struct request_report *out);

#endif

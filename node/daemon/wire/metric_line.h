#ifndef NODE_DAEMON_WIRE_METRIC_LINE_H
#define NODE_DAEMON_WIRE_METRIC_LINE_H
/* Metrics in the output of a program, for those that do not speak to the daemon (docs/wire.md):
 *
 *     ::shoal metric GROUP NAME=VALUE [NAME=VALUE ...] [step=N]
 *
 * Words are separated by blanks; the line begins with "::". Pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/daemon/wire/request.h"

#define METRIC_LINE_BYTES 2048 /* of the longest line that can be a metric */

/* The bytes of the line so far; all zero at its beginning. */
struct metric_lines {
    char line[METRIC_LINE_BYTES];
    size_t used;
    bool is_skipped; /* the rest of the line is of no interest: it is too long, or its beginning was not seen */
};

/* Takes the next bytes from `*at` on until a line is complete that is a metric, and sets `*at` behind it. False: there is no
 * such line in the rest, of which an unfinished one is kept. `out->metrics` points into `packed`. A line without a step has
 * the step `step`. Malformed lines are passed over. */
bool metric_lines_next(struct metric_lines *lines, const uint8_t *bytes, size_t count, size_t *at, uint64_t step,
                       uint8_t packed[METRIC_LINE_BYTES], struct request_report *out);

#endif

#ifndef NODE_TRACE_CHROME_H
#define NODE_TRACE_CHROME_H
/* A trace as a file that Chrome's about:tracing and Perfetto show: an array of events in JSON, a process for each rank, a
 * row for each lane, times in microseconds from the first span on. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/spans.h"
#include "node/trace/clock.h"

/* The spans of one rank. */
struct chrome_rank {
    uint32_t rank;
    const char *node;         /* the label of its node */
    struct trace_clock clock; /* of that node, as seen from here */
    uint64_t lost;            /* spans that had no room */
    const uint8_t *packed;    /* an array of spans (base/spans.h) */
    size_t packed_bytes;
};

/* What was written. */
struct chrome_counts {
    uint64_t steps, spans; /* steps of the file, the same of all ranks */
    uint64_t error_ns;     /* the largest of the ranks' clocks */
    bool is_apart;         /* the ranks have no step in common, so all spans of each are there */
    bool is_cut;           /* spans are missing */
};

/* Writes the spans of the first `steps` steps that all ranks have; of ranks without one in common all spans. False: the
 * stream has failed, or no memory is left. Bytes that are no spans are passed over. */
bool chrome_write(FILE *out, const struct chrome_rank *ranks, uint32_t count, uint64_t steps, struct chrome_counts *counts);

#endif

#ifndef NODE_TRACE_CLOCK_H
#define NODE_TRACE_CLOCK_H
/* How far the monotonic clock of another node is from this node's, from round trips: the other node reads its clock some
 * time between the question and the answer, so at their midpoint, give or take half of the trip. A core. */

#include <stdbool.h>
#include <stdint.h>

/* What one or more round trips tell. All zero: nothing is known. */
struct trace_clock {
    bool is_known;
    int64_t offset_ns; /* theirs minus ours */
    uint64_t error_ns; /* the true offset is no further away than this */
};

/* Notes a round trip: asked and answered by our clock, `theirs` as they read it. The shortest trip counts. Ignored if the
 * answer came before the question. */
void trace_clock_note(struct trace_clock *clock, uint64_t asked_ns, uint64_t theirs_ns, uint64_t answered_ns);

/* The offset between two measurements, before and after what is traced: the one in the middle. The error covers both, and by
 * how much the clocks have drifted apart meanwhile. If one is not known, the other. */
struct trace_clock trace_clock_between(const struct trace_clock *before, const struct trace_clock *after);

/* A time by their clock, by ours. */
uint64_t trace_clock_ours(const struct trace_clock *clock, uint64_t theirs_ns);
uint64_t trace_clock_theirs(const struct trace_clock *clock, uint64_t ours_ns);

#endif

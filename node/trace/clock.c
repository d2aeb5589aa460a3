#include "node/trace/clock.h"

void trace_clock_note(struct trace_clock *clock, uint64_t asked_ns, uint64_t theirs_ns, uint64_t answered_ns)
{
    if (answered_ns < asked_ns) {
        return;
    }
    uint64_t half_ns = (answered_ns - asked_ns) / 2, error_ns = answered_ns - asked_ns - half_ns;
    if (!clock->is_known || error_ns < clock->error_ns) {
        *clock = (struct trace_clock){true, (int64_t)(theirs_ns - (asked_ns + half_ns)), error_ns};
    }
}

struct trace_clock trace_clock_between(const struct trace_clock *before, const struct trace_clock *after)
{
    if (!before->is_known || !after->is_known) {
        return before->is_known ? *before : *after;
    }
    int64_t drift_ns = after->offset_ns - before->offset_ns;
    uint64_t away_ns = (uint64_t)(drift_ns < 0 ? -drift_ns : drift_ns);
    uint64_t error_ns = before->error_ns > after->error_ns ? before->error_ns : after->error_ns;
    return (struct trace_clock){true, before->offset_ns + drift_ns / 2, error_ns + (away_ns + 1) / 2};
}

uint64_t trace_clock_ours(const struct trace_clock *clock, uint64_t theirs_ns)
{
    return theirs_ns - (uint64_t)clock->offset_ns;
}

uint64_t trace_clock_theirs(const struct trace_clock *clock, uint64_t ours_ns)
{
    return ours_ns + (uint64_t)clock->offset_ns;
}

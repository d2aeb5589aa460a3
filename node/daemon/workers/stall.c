#include "node/daemon/workers/stall.h"

#include "base/shift.h"

void worker_stall_heard(struct worker_stall *stall, uint64_t now_ms)
{
    stall->output_ms = now_ms;
}

void worker_stall_sample(struct worker_stall *stall, uint64_t now_ms, uint64_t cpu_ms, bool is_suspended)
{
    bool is_first = stall->sampled_ms == 0;
    uint64_t used_ms = cpu_ms > stall->cpu_ms ? cpu_ms - stall->cpu_ms : stall->cpu_ms - cpu_ms; /* an end is activity, too */
    if (is_first || used_ms * STALL_BUSY_SHARE >= now_ms - stall->sampled_ms) {
        stall->busy_ms = now_ms;
    }
    if (is_first && stall->output_ms == 0) {
        stall->output_ms = now_ms;
    }
    stall->suspended_ms = !is_suspended ? 0 : stall->suspended_ms == 0 ? now_ms : stall->suspended_ms;
    stall->sampled_ms = now_ms;
    stall->cpu_ms = cpu_ms;
}

struct worker_stall_state worker_stall_look(const struct worker_stall *stall, uint64_t now_ms, uint64_t timeout_ms, uint64_t barrier_ms)
{
    uint64_t shown_ms = timeout_ms != 0 && timeout_ms < STALL_SHOWN_MS ? timeout_ms : STALL_SHOWN_MS;
    shown_ms = barrier_ms != 0 && barrier_ms < shown_ms ? barrier_ms : shown_ms;
    uint64_t still_ms = stall->output_ms > stall->busy_ms ? stall->output_ms : stall->busy_ms;
    struct worker_stall_state out = {.stall = FACT_ACTIVE, .since_ms = now_ms};
    if (stall->sampled_ms == 0) {
        return out;
    }
    if (stall->suspended_ms != 0 && now_ms - stall->suspended_ms >= STALL_SUSPENDED_MS) {
        out = (struct worker_stall_state){.stall = FACT_SUSPENDED, .since_ms = stall->suspended_ms};
    } else if (now_ms - still_ms >= shown_ms) {
        out = (struct worker_stall_state){.stall = FACT_IDLE, .since_ms = still_ms};
    } else if (now_ms - stall->output_ms >= shown_ms) {
        out = (struct worker_stall_state){.stall = FACT_SILENT, .since_ms = stall->output_ms};
    }
    out.is_overdue = out.stall != FACT_ACTIVE && timeout_ms != 0 && now_ms - out.since_ms >= timeout_ms;
    out.is_past_barrier = out.stall != FACT_ACTIVE && barrier_ms != 0 && now_ms - stall->output_ms >= barrier_ms;
    return out;
}

void worker_stall_shift(struct worker_stall *stall, uint64_t gap_ms)
{
    time_shift(&stall->output_ms, gap_ms);
    time_shift(&stall->busy_ms, gap_ms);
    time_shift(&stall->suspended_ms, gap_ms);
    time_shift(&stall->sampled_ms, gap_ms);
}

#include "node/keep/core.h"

#include "base/check.h"

void keep_core_init(struct keep_core *core, uint64_t now_ms, uint64_t lease_ms)
{
    CHECK(lease_ms > 0);
    *core = (struct keep_core){
        .phase = KEEP_RUNNING,
        .reason = KEEP_EXITED,
        .now_ms = now_ms,
        .lease_ms = lease_ms,
        .lease_end_ms = now_ms + lease_ms,
    };
}

/* Updates the time. A stall does not count: a stopped process cannot hear a daemon. */
static void advance(struct keep_core *core, uint64_t now_ms)
{
    CHECK(now_ms >= core->now_ms);
    uint64_t gap_ms = now_ms - core->now_ms;
    core->now_ms = now_ms;
    if (gap_ms > KEEP_CORE_STALL_MS) {
        core->lease_end_ms += gap_ms;
    }
}

void keep_core_heard(struct keep_core *core, uint64_t now_ms)
{
    advance(core, now_ms);
    core->lease_end_ms = core->now_ms + core->lease_ms;
}

static void ask(struct keep_core *core, enum keep_reason reason, uint64_t grace_ms)
{
    CHECK(core->phase == KEEP_RUNNING);
    core->phase = KEEP_ASKED;
    core->reason = reason;
    core->signal_due = true;
    core->grace_end_ms = core->now_ms + grace_ms;
}

static void end_helpers(struct keep_core *core, uint64_t end_ms)
{
    core->phase = KEEP_HELPERS;
    core->signal_due = true;
    core->grace_end_ms = end_ms;
}

void keep_core_told(struct keep_core *core, uint64_t now_ms, uint64_t grace_ms)
{
    advance(core, now_ms);
    uint64_t grace = grace_ms < KEEP_CORE_GRACE_MS_MAX ? grace_ms : KEEP_CORE_GRACE_MS_MAX;
    if (core->phase == KEEP_RUNNING) {
        ask(core, KEEP_KILLED, grace);
    } else if ((core->phase == KEEP_ASKED || core->phase == KEEP_HELPERS) && core->now_ms + grace < core->grace_end_ms) {
        core->grace_end_ms = core->now_ms + grace;
    }
}

void keep_core_worker_gone(struct keep_core *core, uint64_t now_ms)
{
    advance(core, now_ms);
    uint64_t end_ms = core->now_ms + KEEP_CORE_GRACE_MS;
    if (core->phase == KEEP_RUNNING) {
        core->reason = KEEP_EXITED;
        end_helpers(core, end_ms);
    } else if (core->phase == KEEP_ASKED) {
        end_helpers(core, end_ms < core->grace_end_ms ? end_ms : core->grace_end_ms);
    }
}

void keep_core_none_left(struct keep_core *core)
{
    CHECK(core->phase != KEEP_RUNNING);
    core->phase = KEEP_GONE;
}

enum keep_action keep_core_tick(struct keep_core *core, uint64_t now_ms)
{
    advance(core, now_ms);
    if (core->phase == KEEP_GONE) {
        return KEEP_DO_FINISH;
    }
    if (core->phase == KEEP_RUNNING && now_ms >= core->lease_end_ms) {
        ask(core, KEEP_LEASE, KEEP_CORE_GRACE_MS);
    }
    if (core->phase == KEEP_ASKED && core->signal_due && now_ms < core->grace_end_ms) {
        core->signal_due = false;
        return KEEP_DO_ASK;
    }
    if (core->phase == KEEP_ASKED && !core->signal_due && now_ms >= core->grace_end_ms) {
        end_helpers(core, now_ms + KEEP_CORE_HELPERS_MS);
    }
    if (core->phase == KEEP_HELPERS && core->signal_due && now_ms < core->grace_end_ms) {
        core->signal_due = false;
        return KEEP_DO_TERM;
    }
    if ((core->phase == KEEP_ASKED || core->phase == KEEP_HELPERS) && now_ms >= core->grace_end_ms) {
        core->phase = KEEP_ENDING;
        core->kill_interval_ms = KEEP_CORE_KILL_MS_FIRST;
        core->kill_next_ms = now_ms;
    }
    if (core->phase == KEEP_ENDING && now_ms >= core->kill_next_ms) {
        core->kill_next_ms = now_ms + core->kill_interval_ms;
        core->kill_interval_ms =
            core->kill_interval_ms * 2 < KEEP_CORE_KILL_MS_LAST ? core->kill_interval_ms * 2 : KEEP_CORE_KILL_MS_LAST;
        return KEEP_DO_KILL;
    }
    return KEEP_DO_NOTHING;
}

uint64_t keep_core_next_ms(const struct keep_core *core)
{
    switch (core->phase) {
    case KEEP_RUNNING:
        return core->lease_end_ms;
    case KEEP_ASKED:
    case KEEP_HELPERS:
        return core->signal_due ? core->now_ms : core->grace_end_ms;
    case KEEP_ENDING:
        return core->kill_next_ms;
    case KEEP_GONE:
        break;
    }
    return core->now_ms;
}

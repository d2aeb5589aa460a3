/* Going through a plan: cursors, and which transfer must wait for which. */
#include "base/check.h"
#include "train/plan/plan.h"

static bool has_transfer(const struct plan_step *step, bool sends)
{
    return (sends ? step->to : step->from) != PLAN_NOBODY;
}

static void skip_idle(const struct plan *plan, bool sends, struct plan_cursor *cursor)
{
    while (cursor->step < plan->step_count && !has_transfer(&plan->steps[cursor->step], sends)) {
        cursor->step++;
    }
}

struct plan_cursor plan_begin(const struct plan *plan, bool sends)
{
    struct plan_cursor cursor = {0};
    skip_idle(plan, sends, &cursor);
    return cursor;
}

static bool transfer_at(const struct plan *plan, const struct plan_cursor *cursor, bool sends, struct plan_transfer *out)
{
    if (cursor->step >= plan->step_count) {
        return false;
    }
    const struct plan_step *step = &plan->steps[cursor->step];
    uint64_t count = sends ? step->send_count : step->receive_count;
    CHECK(cursor->done < count || (cursor->done == 0 && count == 0));
    uint64_t left = count - cursor->done;
    *out = (struct plan_transfer){
        .step = cursor->step,
        .peer = sends ? step->to : step->from,
        .offset = (sends ? step->send_offset : step->receive_offset) + cursor->done,
        .count = left < plan->piece_count ? left : plan->piece_count,
        .add = sends ? step->sent_is_added : step->add,
    };
    return true;
}

static void advance(const struct plan *plan, bool sends, struct plan_cursor *cursor)
{
    struct plan_transfer transfer;
    bool there = transfer_at(plan, cursor, sends, &transfer);
    CHECK(there);
    const struct plan_step *step = &plan->steps[cursor->step];
    cursor->done += transfer.count;
    if (cursor->done == (sends ? step->send_count : step->receive_count)) {
        cursor->done = 0;
        cursor->step++;
        skip_idle(plan, sends, cursor);
    }
}

bool plan_send(const struct plan *plan, const struct plan_cursor *sent, struct plan_transfer *out)
{
    return transfer_at(plan, sent, true, out);
}

bool plan_receive(const struct plan *plan, const struct plan_cursor *received, struct plan_transfer *out)
{
    return transfer_at(plan, received, false, out);
}

void plan_send_advance(const struct plan *plan, struct plan_cursor *sent)
{
    advance(plan, true, sent);
}

void plan_receive_advance(const struct plan *plan, struct plan_cursor *received)
{
    advance(plan, false, received);
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Whether the transfers of the direction at `cursor` no longer touch [start, end) in the steps before `before`. A direction
 * goes through its steps, and through the range of each step, in order. */
static bool done_with(const struct plan *plan, bool sends, const struct plan_cursor *cursor, uint32_t before,
                      uint64_t start, uint64_t end)
{
    for (uint32_t i = cursor->step; i < before; i++) {
        const struct plan_step *step = &plan->steps[i];
        uint64_t from = sends ? step->send_offset : step->receive_offset;
        uint64_t to = from + (sends ? step->send_count : step->receive_count);
        uint64_t done = i == cursor->step ? cursor->done : 0;
        if (has_transfer(step, sends) && from < end && start < to && from + done < lower(end, to)) {
            return false;
        }
    }
    return true;
}

bool plan_send_ready(const struct plan *plan, const struct plan_cursor *sent, const struct plan_cursor *received)
{
    struct plan_transfer t;
    bool there = transfer_at(plan, sent, true, &t);
    CHECK(there);
    if (t.count == 0) {
        return received->step >= t.step; /* so that a collective without elements is a barrier */
    }
    return done_with(plan, false, received, t.step, t.offset, t.offset + t.count);
}

bool plan_receive_ready(const struct plan *plan, const struct plan_cursor *received, const struct plan_cursor *sent)
{
    struct plan_transfer t;
    bool there = transfer_at(plan, received, false, &t);
    CHECK(there);
    return t.count == 0 || done_with(plan, true, sent, t.step + 1, t.offset, t.offset + t.count);
}

bool plan_sends_to(const struct plan *plan, const struct plan_cursor *sent, uint32_t peer)
{
    for (uint32_t i = sent->step; i < plan->step_count; i++) {
        if (plan->steps[i].to == peer) {
            return true;
        }
    }
    return false;
}

bool plan_receives_from(const struct plan *plan, const struct plan_cursor *received, uint32_t peer)
{
    for (uint32_t i = received->step; i < plan->step_count; i++) {
        if (plan->steps[i].from == peer) {
            return true;
        }
    }
    return false;
}

#include "train/ring_plan.h"

#include "base/check.h"
#include "base/format.h"

struct ring_plan ring_plan_all_reduce(uint32_t rank, uint32_t size, uint64_t count, uint64_t piece_count)
{
    CHECK(size >= 1 && size <= RING_RANKS_MAX);
    CHECK(rank < size);
    CHECK(piece_count > 0);
    CHECK(count <= UINT64_MAX / RING_RANKS_MAX);
    return (struct ring_plan){
        .kind = RING_ALL_REDUCE, .rank = rank, .size = size, .count = count, .piece_count = piece_count};
}

struct ring_plan ring_plan_broadcast(uint32_t rank, uint32_t size, uint32_t root, uint64_t count, uint64_t piece_count)
{
    CHECK(root < size);
    struct ring_plan plan = ring_plan_all_reduce(rank, size, count, piece_count);
    plan.kind = RING_BROADCAST;
    plan.root = root;
    return plan;
}

uint64_t ring_plan_slice_start(const struct ring_plan *plan, uint32_t slice)
{
    CHECK(slice <= plan->size);
    return plan->count * slice / plan->size;
}

/* Steps of one direction of this rank. In a broadcast the root receives nothing and the rank before it sends nothing. */
static uint32_t step_count(const struct ring_plan *plan, bool sends)
{
    if (plan->kind == RING_ALL_REDUCE) {
        return 2 * (plan->size - 1);
    }
    uint32_t distance = (plan->rank + plan->size - plan->root) % plan->size;
    return sends ? distance + 1 < plan->size : distance > 0;
}

static void range_of_step(const struct ring_plan *plan, uint32_t step, bool sends, uint64_t *start, uint64_t *count)
{
    if (plan->kind == RING_BROADCAST) {
        *start = 0;
        *count = plan->count;
        return;
    }
    uint32_t back = step + (sends ? 0 : 1); /* at most 2 * size - 2 */
    uint32_t slice = (plan->rank + 2 * plan->size - back) % plan->size;
    *start = ring_plan_slice_start(plan, slice);
    *count = ring_plan_slice_start(plan, slice + 1) - *start;
}

static bool transfer_at(const struct ring_plan *plan, const struct ring_cursor *cursor, bool sends,
                        struct ring_transfer *out)
{
    if (cursor->step >= step_count(plan, sends)) {
        return false;
    }
    uint64_t start, count;
    range_of_step(plan, cursor->step, sends, &start, &count);
    uint64_t skipped = cursor->piece * plan->piece_count;
    CHECK(skipped < count || (skipped == 0 && count == 0));
    uint64_t left = count - skipped;
    *out = (struct ring_transfer){
        .step = cursor->step,
        .offset = start + skipped,
        .count = left < plan->piece_count ? left : plan->piece_count,
        .add = plan->kind == RING_ALL_REDUCE && cursor->step + 1 < plan->size,
    };
    return true;
}

static void advance(const struct ring_plan *plan, struct ring_cursor *cursor, bool sends)
{
    uint64_t start, count;
    range_of_step(plan, cursor->step, sends, &start, &count);
    cursor->piece++;
    if (cursor->piece * plan->piece_count >= count) {
        cursor->piece = 0;
        cursor->step++;
    }
}

bool ring_plan_send(const struct ring_plan *plan, const struct ring_cursor *cursor, struct ring_transfer *out)
{
    return transfer_at(plan, cursor, true, out);
}

bool ring_plan_receive(const struct ring_plan *plan, const struct ring_cursor *cursor, struct ring_transfer *out)
{
    return transfer_at(plan, cursor, false, out);
}

void ring_plan_send_advance(const struct ring_plan *plan, struct ring_cursor *cursor)
{
    advance(plan, cursor, true);
}

void ring_plan_receive_advance(const struct ring_plan *plan, struct ring_cursor *cursor)
{
    advance(plan, cursor, false);
}

bool ring_plan_send_ready(const struct ring_plan *plan, const struct ring_cursor *send,
                          const struct ring_cursor *received)
{
    if (plan->kind == RING_BROADCAST) {
        return plan->rank == plan->root || received->step > 0 || received->piece > send->piece;
    }
    /* What is sent in step s > 0 is the slice that arrived in step s - 1, piece by piece. */
    return send->step == 0 || received->step >= send->step ||
           (received->step == send->step - 1 && received->piece > send->piece);
}

size_t ring_plan_line(const struct ring_plan *plan, const struct ring_transfer *transfer, char *out, size_t size)
{
    return format_text(out, size, "step %u rank %u sends [%llu, %llu) to %u", transfer->step, plan->rank,
                       (unsigned long long)transfer->offset, (unsigned long long)(transfer->offset + transfer->count),
                       (plan->rank + 1) % plan->size);
}

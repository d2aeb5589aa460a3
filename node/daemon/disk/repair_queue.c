#include "node/daemon/disk/repair_queue.h"

static uint32_t find(const struct mends_later *later, hash256 blob)
{
    uint32_t i = 0;
    while (i < later->count && !hash256_equal(later->rows[i].blob, blob)) {
        i++;
    }
    return i;
}

bool mends_later_may(const struct mends_later *later, uint64_t now_ms, hash256 blob, uint32_t living)
{
    uint32_t i = find(later, blob);
    return i == later->count || now_ms >= later->rows[i].from_ms || living > later->rows[i].living;
}

/* A row for one that has none yet. */
static uint32_t make(struct mends_later *later)
{
    if (later->count < MENDS_LATER_MAX) {
        return later->count++;
    }
    uint32_t first = 0;
    for (uint32_t i = 1; i < later->count; i++) {
        first = later->rows[i].from_ms < later->rows[first].from_ms ? i : first;
    }
    return first;
}

void mends_later_failed(struct mends_later *later, uint64_t now_ms, hash256 blob, uint32_t living)
{
    uint32_t i = find(later, blob);
    uint64_t wait_ms = i < later->count ? 2 * later->rows[i].wait_ms : MENDS_LATER_FIRST_MS;
    wait_ms = wait_ms < MENDS_LATER_LAST_MS ? wait_ms : MENDS_LATER_LAST_MS;
    i = i < later->count ? i : make(later);
    later->rows[i] = (struct mend_later){.blob = blob, .from_ms = now_ms + wait_ms, .wait_ms = wait_ms, .living = living};
}

void mends_later_forget(struct mends_later *later, hash256 blob)
{
    uint32_t i = find(later, blob);
    if (i < later->count) {
        later->rows[i] = later->rows[--later->count];
    }
}

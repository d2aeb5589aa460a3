/* What a suspend of this node does to the times of this room (roof/stall.c). */

#include "base/shift.h"
#include "node/core/owner/owner.h"

/* Of struct core_worker stay: published_ms, last done; started_ms, since what fails after a gap may have failed of it. */
static void shift_worker(struct core_worker *worker, uint64_t gap_ms)
{
    time_shift(&worker->wanted_ms, gap_ms);
    time_shift(&worker->confirmed_ms, gap_ms);
}

void core_owner_shift(struct node_core *core, uint64_t gap_ms)
{
    lease_shift(&core->owner->lease, gap_ms);
    for (uint32_t slot = 0; slot < LEASE_SLOTS_MAX; slot++) {
        shift_worker(&core->owner->workers[slot], gap_ms);
    }
}

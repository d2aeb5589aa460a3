/* The times of workers and slots after a suspend of this node (roof/stall.c). */

#include "base/shift.h"
#include "node/core/owner/owner.h"
#include "node/core/owner/usage_check.h"

/* Of struct core_worker three times stay as they are: published_ms, so that a record is due at once, started_ms, since a
 * worker that fails after a suspend may have failed because of the suspend, and error_ms, which is of the wall clock. */
static void shift_worker(struct core_worker *worker, uint64_t gap_ms)
{
    time_shift(&worker->wanted_ms, gap_ms);
    time_shift(&worker->confirmed_ms, gap_ms);
    time_shift(&worker->moved_ms, gap_ms);
    time_shift(&worker->ran_since_ms, gap_ms); /* a program that stands still does not run */
}

/* Of struct core_usage_check since_ms becomes 0, and looked_ms, seen_ms and said_ms begin anew with it.
 * Of struct core_usage_slot the time is not to count the suspend; unsaved_ms, and used_ms and lost_ms of the rows, are lengths of
 * time. Of struct core_usage tried_ms stays: what is noted is due after a suspend. */
static void shift_usage(struct core_usage_slot *slot, uint64_t gap_ms)
{
    time_shift(&slot->counted_ms, gap_ms);
}

/* Of struct core_slot_wait until_ms and look_ms move on, and so does until_ms of struct core_passed. */
static void shift_waits(struct core_owner *owner, uint64_t gap_ms)
{
    for (uint32_t slot = 0; slot < LEASE_SLOTS_MAX; slot++) {
        time_shift(&owner->waits[slot].until_ms, gap_ms);
        time_shift(&owner->waits[slot].look_ms, gap_ms);
    }
    for (uint32_t i = 0; i < CORE_PASSED_MAX; i++) {
        time_shift(&owner->passed[i].until_ms, gap_ms);
    }
}

void core_owner_shift(struct node_core *core, uint64_t gap_ms)
{
    struct policy_memory *memory = &core->owner->policy_memory;
    lease_shift(&core->owner->lease, gap_ms);
    time_shift(&memory->over_ms, gap_ms);
    time_shift(&memory->loaded_ms, gap_ms);
    time_shift(&memory->active_ms, gap_ms);
    usage_check_begin_anew(core);
    for (uint32_t slot = 0; slot < LEASE_SLOTS_MAX; slot++) {
        shift_usage(&core->owner->usage.slots[slot], gap_ms);
        shift_worker(&core->owner->workers[slot], gap_ms);
    }
    shift_waits(core->owner, gap_ms);
}

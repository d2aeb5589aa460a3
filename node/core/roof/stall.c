/* A suspend or a stall of this node: for a while we heard no node, and no node heard us (DESIGN 5). For every absolute time of
 * the core the stall.c of its room decides, beside the name of the struct, whether the time moves by the gap; tests/shape.py
 * sees to it that no time is left out.
 *
 * These times move: deadlines that other nodes have to meet; the beginnings of their silence, refusal or lag; back-offs after
 * their answers. So we conclude nothing from a silence that was our own.
 *
 * These times stay:
 *   - when something was last done, or is due again: a thing that is due may be done at once, since news is wanted now;
 *   - the age of a thing on another node, where time went on: a copy that was whole before the gap is no fresh confirmation,
 *     and a worker there has lived through the gap;
 *   - times that users were told in minutes. */

#include "base/shift.h"
#include "node/core/coordinator/coordination.h"
#include "node/core/copies/copies.h"
#include "node/core/members/twin.h"
#include "node/core/owner/owner.h"
#include "node/core/roof/roof.h"

/* Of struct node_core and struct core_memory: housekeep_ms stays, and retry_ms of struct core_disk, due again; now_ms and
 * woke_ms are set by the step. */
void stall_shift(struct node_core *core, uint64_t gap_ms)
{
    time_shift(&core->started_ms, gap_ms);
    time_shift(&core->memory.refused_ms, gap_ms);
    view_shift(&core->view, gap_ms);
    core_members_shift(core, gap_ms);
    core_twin_shift(core->twin, gap_ms);
    core_copies_shift(core, gap_ms);
    core_owner_shift(core, gap_ms);
    core_coordinator_shift(core, gap_ms);
}

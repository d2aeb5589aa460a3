/* A suspend or a stall of this node: for a while it heard nobody, and nobody heard it (DESIGN 5). Here it is decided of
 * every absolute time of the core whether it moves by the gap, room by room in their stall.c, beside the name of the struct;
 * tests/shape.py sees that none is left out.
 *
 * What moves: deadlines that others have to meet; since when others are silent, refuse or lag; back-offs after their
 * answers. So this node concludes nothing from a silence that was its own.
 *
 * What stays:
 *   - when something was last done, or is due again: it may be done at once, since news is wanted now;
 *   - how old something is out there, where time went on: a copy that was whole before the gap is no fresh confirmation,
 *     and a worker beyond it has lived through it;
 *   - what users were told in minutes. */

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

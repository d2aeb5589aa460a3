/* What a suspend of this node does to the times of this room (roof/stall.c). */

#include "base/shift.h"
#include "node/core/members/members.h"
#include "node/core/members/twin.h"

/* Stay: check_ms, digest_ms, twin_told_ms, last done; equivocated_ms, foreign_told_ms, told in minutes. */
static void shift_peer(struct core_peer *peer, uint64_t gap_ms)
{
    time_shift(&peer->up_since_ms, gap_ms);
    time_shift(&peer->died_ms, gap_ms); /* the same moment as died_ms of its workers, below */
    time_shift(&peer->refused_since_ms, gap_ms);
    time_shift(&peer->silent_until_ms, gap_ms);
    time_shift(&peer->unwilling_ms, gap_ms);
    time_shift(&peer->code_refused_ms, gap_ms);
    peer->synced = false; /* what it has written meanwhile is not here */
}

/* struct core_outcast stays: tell_ms, link_ms, due again. Of struct core_members stay digest_ms and the next round of `fanout`,
 * due again. struct core_quarantine stays: until_ms, told in minutes. */
void core_members_shift(struct node_core *core, uint64_t gap_ms)
{
    struct core_members *members = core->members;
    swim_shift(&members->swim, gap_ms);
    time_shift(&members->filling_ms, gap_ms);
    for (uint32_t i = 0; i < members->peer_count; i++) {
        shift_peer(members->peers[i], gap_ms);
    }
    for (uint32_t i = 0; i < members->election_member_count; i++) {
        time_shift(&members->election_members[i].up_since_ms, gap_ms);
    }
}

/* Stay: told_ms, key_ms, last done. */
void core_twin_shift(struct core_twin *twin, uint64_t gap_ms)
{
    time_shift(&twin->heard_ms, gap_ms);
    time_shift(&twin->ask_until_ms, gap_ms);
}

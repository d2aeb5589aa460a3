/* How a suspend of this node moves the times of this room (roof/stall.c). */

#include "base/shift.h"
#include "node/core/members/addresses.h"
#include "node/core/members/members.h"
#include "node/core/members/twin.h"

/* Of struct core_peer stay: digest_ms, twin_told_ms and clock_told_ms, when something was last done; clock_ms, since the peer's
 * clock goes on; equivocated_ms and foreign_told_ms, told to users in minutes. */
static void shift_peer(struct core_peer *peer, uint64_t gap_ms)
{
    time_shift(&peer->up_since_ms, gap_ms);
    time_shift(&peer->died_ms, gap_ms); /* equals died_ms of the peer's workers, which view_shift moves */
    time_shift(&peer->refused_since_ms, gap_ms);
    time_shift(&peer->silent_until_ms, gap_ms);
    time_shift(&peer->unwilling_ms, gap_ms);
    time_shift(&peer->code_refused_ms, gap_ms);
    addresses_shift(peer, gap_ms);
    peer->synced = false; /* records that the peer wrote in the meantime are not here */
}

/* Of struct core_address stay checked_ms, answered_ms and reached_ms: addresses_doubt makes all checks due at once.
 * Of struct core_links stays looked_ms, due again.
 * Of struct core_outcast stay tell_ms and link_ms, due again. Of struct core_members stay digest_ms and the next round of
 * `fanout`, due again. Of struct core_quarantine stays until_ms, told to users in minutes. */
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

/* Of struct core_twin stay told_ms and key_ms, when something was last done. */
void core_twin_shift(struct core_twin *twin, uint64_t gap_ms)
{
    time_shift(&twin->heard_ms, gap_ms);
    time_shift(&twin->ask_until_ms, gap_ms);
}

#ifndef NODE_CORE_MEMBERS_CLOCKS_H
#define NODE_CORE_MEMBERS_CLOCKS_H
/* The wall clocks of the members. Each node tells each peer its own: when the peer comes alive, every CORE_CLOCK_MS, and when
 * the clock has been set. No decision about work depends on a wall clock; users read them, and invites expire by them. */

#include "node/core/members/members.h"

/* Tells peers our clock where that is due. */
void core_clocks_housekeep(struct node_core *core);

/* MESSAGE_STORED of a peer: true if it is about MESSAGE_CLOCK_IDENT, and so tells the peer's clock. */
bool core_clocks_receive(struct node_core *core, node_id from, const struct message *message);

/* By how many seconds the peer's clock is ahead of ours (negative: behind). False: the peer has not told its clock. */
bool core_clock_ahead_s(const struct node_core *core, node_id node, int64_t *ahead_s);

/* The time by which invites expire: wall_s, unless that is CORE_CLOCK_APART_S or more from the median of the living members'
 * clocks, ours included (of an even number the earlier one of the middle two); then that median. */
uint64_t core_mesh_wall_s(const struct node_core *core);

#endif

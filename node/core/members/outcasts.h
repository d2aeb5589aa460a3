#ifndef NODE_CORE_MEMBERS_OUTCASTS_H
#define NODE_CORE_MEMBERS_OUTCASTS_H
/* Nodes that are out of the mesh. */

#include "node/core/members/members.h"

struct core_outcast *outcasts_find(const struct node_core *core, node_id id); /* NULL: the node is no outcast */

/* Makes a member that is out an outcast. If the member was a peer: drops the peer, and keeps the connection for the farewell
 * while there are fewer than CORE_OUTCAST_LINKS_MAX. The member's invites are void. False when memory is full: nothing has
 * changed, and the caller tries again. */
bool outcasts_shut_out(struct node_core *core, const struct view_member *member);

/* A node that is a member again is no outcast: another member has vouched for it anew. */
void outcasts_take_back(struct node_core *core, node_id id);

/* There may be more outcasts than farewell connections (CORE_OUTCAST_LINKS_MAX): picks which outcasts have one now. */
void outcasts_take_turns(struct node_core *core);

/* Tells an outcast why it is out, if the outcast is due and has a connection. */
void outcasts_bid_farewell(struct node_core *core, struct core_outcast *outcast);

#endif

#ifndef NODE_CORE_MEMBERS_MEMBERS_H
#define NODE_CORE_MEMBERS_MEMBERS_H
/* What members.c and outcasts.c need of each other. */

#include "node/core/ground/state.h"

/* ---- members.c ---- */

/* Where a peer is, for its shell; an address of its own word counts until it says another. */
void members_set_address(struct node_core *core, struct core_peer *peer, const uint8_t public_key[PUBLIC_KEY_BYTES],
                         const char *address);

/* Gives it back. */
void members_drop_peer(struct node_core *core, struct core_peer *peer);

/* ---- outcasts.c ---- */

struct core_outcast *outcasts_find(const struct node_core *core, node_id id);

/* The member is a peer no longer. False: no memory; it is tried again. */
bool outcasts_shut_out(struct node_core *core, const struct view_member *member);
void outcasts_take_back(struct node_core *core, node_id id);

/* Whom of many our few connections for that are to, now. */
void outcasts_take_turns(struct node_core *core);

/* Tells it why, while it may still listen. */
void outcasts_bid_farewell(struct node_core *core, struct core_outcast *outcast);

#endif

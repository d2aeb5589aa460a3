#ifndef NODE_CORE_REQUESTS_MEMBERS_H
#define NODE_CORE_REQUESTS_MEMBERS_H
/* Invites, evictions, nodes that join, and leaving. */

#include "node/core/requests/requests.h"

void core_requests_join(struct node_core *core, const struct node_event *event); /* NODE_EVENT_JOIN */

/* Everything up to the voucher is on disk: the joining client gets the records that it needs. */
void core_requests_welcome(struct node_core *core, uint64_t client, node_id joiner);

/* True if a member has published the invite, and it is not revoked and has not expired. */
bool core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES]);

void requests_invite(struct node_core *core, const struct node_event *event);
void requests_revoke(struct node_core *core, const struct node_event *event);
void requests_evict(struct node_core *core, const struct node_event *event);

/* A client asks this node to leave. A client that asks while another one waits is answered together with that one. */
void requests_leave_ask(struct node_core *core, uint64_t client);

/* Goes on with a leave that was asked for: when nothing runs here any more that is published, and then the client is answered. */
void requests_leave_advance(struct node_core *core);

#endif

#ifndef NODE_CORE_REQUESTS_MEMBERS_H
#define NODE_CORE_REQUESTS_MEMBERS_H
/* Invites, evictions, nodes that join, and this node's leave. */

#include "node/core/requests/requests.h"

/* NODE_EVENT_JOIN: refuses, or vouches for the joiner; the records go to the client once the voucher is on disk. */
void core_requests_join(struct node_core *core, const struct node_event *event);

/* The voucher is on disk: sends the client the records that the joiner needs. */
void core_requests_welcome(struct node_core *core, uint64_t client, node_id joiner);

/* True if a member has published the invite, and no member has revoked the invite, and the invite has not expired. */
bool core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES]);

/* NODE_REQUEST_INVITE, REVOKE and EVICT: write the record, and answer the client. */
void requests_invite(struct node_core *core, const struct node_event *event);
void requests_revoke(struct node_core *core, const struct node_event *event);
void requests_evict(struct node_core *core, const struct node_event *event);

/* NODE_REQUEST_LEAVE. A client that asks while another client waits is answered together with the first. */
void requests_leave_ask(struct node_core *core, uint64_t client);

/* Goes on with a leave, as far as the workers, the copies under way and the disk allow (enum core_leave_state). */
void requests_leave_advance(struct node_core *core);

#endif

#ifndef NODE_CORE_REQUESTS_REQUESTS_H
#define NODE_CORE_REQUESTS_REQUESTS_H
/* What the parts of requests share; others have node/core/ground/state.h.
 *
 *   requests.c          what users ask of experiments, slots and drains; every request arrives there
 *   requests_members.c  invites, evictions, leaving and those who join */

#include "node/core/ground/state.h"

/* ---- requests_members.c ---- */

void requests_invite(struct node_core *core, const struct node_event *event);
void requests_revoke(struct node_core *core, const struct node_event *event);
void requests_evict(struct node_core *core, const struct node_event *event);

/* A leave that was asked for goes on: when nothing runs here any more that is said, and then the client has its answer. */
void requests_leave_advance(struct node_core *core);

#endif

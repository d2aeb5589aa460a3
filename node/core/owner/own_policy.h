#ifndef NODE_CORE_OWNER_OWN_POLICY_H
#define NODE_CORE_OWNER_OWN_POLICY_H
/* The policy of this node's owner, carried out: slots are withheld while a reason holds, and returned afterwards. */

#include "node/core/owner/owner.h"

/* NODE_EVENT_LOOK: a look at the machine. */
void core_owner_look(struct node_core *core, const struct policy_look *look);

/* Sets what the owner has said (the body of a FACT_POLICY, of which the state is passed over); the next look decides. False: the
 * body is malformed. `*pending` is the disk write; NULL: there is no memory for the record, and nothing has changed. */
bool core_owner_set_policy(struct node_core *core, const uint8_t *body, uint32_t body_bytes, struct core_pending **pending);

/* A user withholds or returns these slots: they are the policy's no more. A returned slot stays free until the next reason. */
void core_owner_policy_leaves(struct node_core *core, uint64_t slots);

#endif

#ifndef NODE_CORE_OWNER_ASKERS_H
#define NODE_CORE_OWNER_ASKERS_H
/* Which of the attempts that ask for a free slot gets it (DESIGN 8). The owner ranks them by its own records (queue/order.h);
 * the numbers in a message are a coordinator's word and are not believed.
 *
 *   1  The owner knows no experiment that comes first, fits, and can ask: the slot is reserved at once.
 *   2  Else the slot waits for CORE_ASK_MS after the first asker, and the askers wait for their answers. It goes to the first in
 *      the order of those that have asked by then, or as soon as rule 1 is true of that one. The others are refused.
 *   3  An experiment for which a slot has waited in vain is passed over for CORE_ASK_PASSED_MS, or until it asks.
 *   4  A reservation is taken over by an asker that comes first, if both are the same user's. That order is the same on all
 *      owners, so no two gangs take slots from each other in a circle. Between users a reservation stands.
 *
 * The waits are volatile: after a restart coordinators ask again. */

#include "node/core/owner/owner.h"

/* A RESERVE that counts: answers it now or later. */
void askers_ask(struct node_core *core, node_id from, const struct message *message);

/* The attempt's coordinator wants no slot any more: no answer. */
void askers_forget(struct node_core *core, const attempt_id *attempt);

/* A higher claim is obeyed: the attempts of the experiment's earlier coordinators are forgotten. */
void askers_overruled(struct node_core *core, experiment_id experiment);

void askers_tick(struct node_core *core);
uint64_t askers_next_ms(const struct core_owner *owner); /* UINT64_MAX: no slot waits */

#endif

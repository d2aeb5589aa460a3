#ifndef NODE_CORE_COORDINATOR_PENDING_H
#define NODE_CORE_COORDINATOR_PENDING_H
/* Which trial begins next: the trials that may begin, in the order of order.h. */

#include "node/core/coordinator/coordination.h"
#include "node/core/coordinator/order.h"

/* Fills `sides` from what is known of the members. */
void pending_look_at_sides(const struct node_core *core, struct order_sides *sides);

/* The trial's place in the order. */
struct order_claim pending_claim(struct node_core *core, struct core_coordination *coordination,
                                 const struct order_sides *sides, uint32_t trial);

/* The next trial to be claimed: the first pending one, or the first behind `after` if `after` is not NULL. False: none. */
bool pending_next(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment,
                  const struct order_sides *sides, const struct order_claim *after, struct order_claim *out);

/* Whether any trial may begin now, if there are slots for it. */
bool pending_any(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment);

/* True if the trial is to begin with the checkpoint of another experiment, or with one of its parent (pbt), and no living
 * node is known to hold that or a later one. */
bool pending_lacks_beginning(const struct node_core *core, const struct view_experiment *experiment, uint32_t index);

/* How long the trial waits after its last loss, counted from the loss on; 0: it does not wait for that, or another node
 * coordinates. `*losses` gets the number of losses in a row. */
uint64_t pending_lost_wait_ms(const struct node_core *core, const struct core_coordination *coordination,
                              const struct view_experiment *experiment, const struct view_trial *trial, uint32_t *losses);

/* Frees the kept ranks; the next claim computes ranks again. */
void pending_forget_ranks(struct node_core *core, struct core_coordination *coordination);

#endif

#ifndef NODE_CORE_COORDINATOR_ORDER_H
#define NODE_CORE_COORDINATOR_ORDER_H
/* The order of claiming trials on the two sides of a partition. Pure; pending.c fills struct order_sides from the core.
 *
 * A whole mesh claims trials by index. During a partition each side claims trials by the rendezvous ranks of the nodes over the
 * full roster, so that the two sides first do different work. The rank of a trial on our side is how many nodes beyond the cut
 * stand before the first of our nodes. Trials of rank 0 are ours, and we claim first the trials with the highest rank beyond
 * the cut. So the two sides claim in opposite orders (equal ranks by index here, from the end there), and meet only when all is
 * done. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"

/* The roster, as we see it at the moment of the choice. */
struct order_sides {
    bool is_cut; /* some node is beyond the cut */
    uint32_t count; /* nodes in the arrays, at most NODE_MEMBERS_MAX */
    node_id nodes[NODE_MEMBERS_MAX]; /* by id */
    bool is_ours[NODE_MEMBERS_MAX];  /* on our side of the cut */
    bool has_left[NODE_MEMBERS_MAX]; /* counts on neither side */
    uint64_t digest; /* of all the above: equal digests give equal ranks */
};

/* A trial in the order. */
struct order_claim {
    int32_t rank; /* below 0: ours, and minus the rank beyond the cut; 0: the mesh is whole */
    uint32_t index;
};

/* An empty roster. */
void order_init(struct order_sides *sides);

/* Adds a node, in the order of ids. Beyond NODE_MEMBERS_MAX nodes only is_cut is kept up to date. */
void order_add(struct order_sides *sides, node_id node, bool is_ours, bool has_left);

/* The rank of a trial for struct order_claim. */
int32_t order_rank(const struct order_sides *sides, experiment_id experiment, uint32_t trial);

/* True if we claim `a` before `b`. */
bool order_is_before(struct order_claim a, struct order_claim b);

#endif

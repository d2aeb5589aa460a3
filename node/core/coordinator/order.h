#ifndef NODE_CORE_COORDINATOR_ORDER_H
#define NODE_CORE_COORDINATOR_ORDER_H
/* In which order the two sides of a partition claim trials. Pure; placing.c fills struct order_sides from the core.
 *
 * With the whole mesh in sight trials are claimed by index. During a partition each side claims them by the rendezvous rank of
 * its nodes over the full roster, so that the two sides first do different work. A side's rank of a trial is how many nodes of
 * the other side stand before the first node of its own. The trials of rank 0 are its own, and of these it claims first the
 * trials that the other side ranks highest. So one side claims in the opposite order of the other (equal ranks by index, on
 * the other side from the end), and the two sides meet only when all is done. */

#include <stdbool.h>
#include <stdint.h>

#include "node/core/core.h"

/* The roster as this node sees it at the moment of the choice. */
struct order_sides {
    bool is_cut; /* some node that has not left is on the other side */
    uint32_t count; /* nodes in the arrays, at most NODE_MEMBERS_MAX */
    node_id nodes[NODE_MEMBERS_MAX]; /* by id */
    bool is_ours[NODE_MEMBERS_MAX];  /* on this node's side */
    bool has_left[NODE_MEMBERS_MAX]; /* counts on neither side */
    uint64_t digest; /* of all the above: equal digests give equal ranks */
};

/* One trial in the order. */
struct order_claim {
    int32_t rank; /* below 0: this side's, and minus the rank that the other side gives it; 0: there is no other side */
    uint32_t index;
};

/* An empty roster. */
void order_init(struct order_sides *sides);

/* Adds a node, in the order of ids. Beyond NODE_MEMBERS_MAX nodes only is_cut is kept up to date. */
void order_add(struct order_sides *sides, node_id node, bool is_ours, bool has_left);

/* This side's rank of a trial, for struct order_claim. */
int32_t order_rank(const struct order_sides *sides, experiment_id experiment, uint32_t trial);

/* True if this side claims `a` before `b`. */
bool order_is_before(struct order_claim a, struct order_claim b);

#endif

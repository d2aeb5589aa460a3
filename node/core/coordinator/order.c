/* The order of claiming trials on the two sides of a partition. */

#include "node/core/coordinator/order.h"

#include "base/rendezvous.h"
#include "node/core/facts/facts.h"

void order_init(struct order_sides *sides)
{
    sides->is_cut = false;
    sides->count = 0;
    sides->digest = 0;
}

void order_add(struct order_sides *sides, node_id node, bool is_ours, bool has_left)
{
    sides->is_cut |= !is_ours && !has_left;
    if (sides->count == NODE_MEMBERS_MAX) {
        return;
    }
    uint8_t what[NODE_ID_BYTES + 2];
    memcpy(what, node.bytes, NODE_ID_BYTES);
    what[NODE_ID_BYTES] = is_ours;
    what[NODE_ID_BYTES + 1] = has_left;
    sides->digest = bytes_hash64(what, sizeof what, sides->digest);
    sides->nodes[sides->count] = node;
    sides->is_ours[sides->count] = is_ours;
    sides->has_left[sides->count] = has_left;
    sides->count++;
}

int32_t order_rank(const struct order_sides *sides, experiment_id experiment, uint32_t trial)
{
    struct fact_key key = fact_key_trial(experiment, trial);
    uint64_t weights[NODE_MEMBERS_MAX];
    uint64_t best[2] = {0, 0}; /* the highest weight beyond the cut, and on our side */
    for (uint32_t i = 0; i < sides->count; i++) {
        weights[i] = sides->has_left[i] ? 0 : rendezvous_weight(sides->nodes[i], key.bytes, key.count);
        bool is_ours = sides->is_ours[i];
        best[is_ours] = weights[i] > best[is_ours] ? weights[i] : best[is_ours];
    }
    int32_t rank = 0;
    for (uint32_t i = 0; i < sides->count; i++) {
        rank += !sides->is_ours[i] && weights[i] > best[1];
        rank -= sides->is_ours[i] && best[0] > 0 && weights[i] > best[0];
    }
    return rank;
}

bool order_is_before(struct order_claim a, struct order_claim b)
{
    if (a.rank != b.rank) {
        return a.rank < b.rank;
    }
    return a.rank <= 0 ? a.index < b.index : a.index > b.index;
}

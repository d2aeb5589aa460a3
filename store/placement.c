#include "store/placement.h"

#include "base/err.h"
#include "base/rendezvous.h"

/* The order of candidates; higher is better in each field, and the first field that differs decides. */
struct rank {
    int tier; /* 3: preferred, 2: room to spare, 1: just enough room, 0: never */
    uint64_t weight;
    node_id node;
};

static struct rank candidate_rank(const struct placement_options *options, const struct placement_candidate *candidate)
{
    struct rank rank = {.node = candidate->node};
    if (!candidate->alive || node_id_is_none(candidate->node) || candidate->free_bytes < options->blob_bytes) {
        return rank;
    }
    rank.weight = rendezvous_weight(candidate->node, options->key, options->key_bytes);
    if (node_id_equal(candidate->node, options->first)) {
        rank.tier = 3;
    } else {
        rank.tier = candidate->free_bytes - options->blob_bytes >= PLACEMENT_SPARE_BYTES ? 2 : 1;
    }
    return rank;
}

static bool rank_better(const struct rank *a, const struct rank *b)
{
    if (a->tier != b->tier) {
        return a->tier > b->tier;
    }
    if (a->weight != b->weight) {
        return a->weight > b->weight;
    }
    return node_id_compare(a->node, b->node) > 0;
}

static bool is_chosen(const node_id *chosen, uint32_t count, node_id node)
{
    for (uint32_t i = 0; i < count; i++) {
        if (node_id_equal(chosen[i], node)) {
            return true;
        }
    }
    return false;
}

int placement_choose(const struct placement_options *options, const struct placement_candidate *candidates,
                     size_t candidate_count, node_id *out, uint32_t *out_count)
{
    if (options->copies == 0 || options->copies > PLACEMENT_COPIES_MAX) {
        return ERR_USAGE;
    }
    uint32_t count = 0;
    while (count < options->copies) {
        struct rank best = {0};
        for (size_t i = 0; i < candidate_count; i++) {
            struct rank rank = candidate_rank(options, &candidates[i]);
            if (rank.tier > 0 && rank_better(&rank, &best) && !is_chosen(out, count, rank.node)) {
                best = rank;
            }
        }
        if (best.tier == 0) {
            break;
        }
        out[count++] = best.node;
    }
    if (count == 0) {
        return ERR_NOT_FOUND;
    }
    *out_count = count;
    return 0;
}

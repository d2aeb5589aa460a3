#include "train/plan/gpu_agree.h"

#include <string.h>

/* Sets the reason against NCCL between two ranks, if there is one, and returns whether there is. */
static bool objects(struct gpu_agreement *out, const struct gpu_offer *offers, const uint32_t *leader, uint32_t rank,
                    uint32_t other)
{
    const struct gpu_offer *own = &offers[rank], *theirs = &offers[other];
    out->rank = other;
    out->other = rank;
    if (own->nccl != theirs->nccl) {
        out->reason = GPU_REASON_VERSIONS;
    } else if (own->settings != theirs->settings) {
        out->reason = GPU_REASON_SETTINGS;
    } else if (leader[rank] == leader[other] && memcmp(own->bus, theirs->bus, sizeof own->bus) == 0) {
        out->reason = GPU_REASON_SHARED;
    } else if (leader[rank] != leader[other] && (own->allows_plain == 0 || theirs->allows_plain == 0)) {
        out->reason = GPU_REASON_HOSTS;
    }
    return out->reason != GPU_REASON_NONE;
}

static enum gpu_lack lack_of(const struct gpu_offer *offer)
{
    return offer->lack <= GPU_LACKS_WORKING_NCCL ? (enum gpu_lack)offer->lack : GPU_LACKS_WORKING_NCCL;
}

/* Whether leaving ranks out of the earlier communicator gives this group. NCCL keeps the order of the remaining ranks. */
static bool can_shrink(uint32_t size, const struct gpu_offer *offers)
{
    uint32_t before = offers[0].earlier_size;
    for (uint32_t rank = 0; rank < size; rank++) {
        const struct gpu_offer *offer = &offers[rank];
        if (offer->earlier == 0 || offer->earlier != offers[0].earlier || offer->earlier_size != before ||
            offer->earlier_rank >= before || (rank > 0 && offer->earlier_rank <= offers[rank - 1].earlier_rank)) {
            return false;
        }
    }
    return before > size && before <= PLAN_RANKS_MAX;
}

void gpu_agree(struct gpu_agreement *out, uint32_t size, const struct gpu_offer *offers, const uint32_t *leader)
{
    memset(out, 0, sizeof *out);
    for (uint32_t rank = 0; rank < size; rank++) {
        if (lack_of(&offers[rank]) != GPU_LACKS_NOTHING) {
            out->reason = GPU_REASON_LACK;
            out->rank = rank;
            out->lack = lack_of(&offers[rank]);
            return;
        }
    }
    for (uint32_t rank = 1; rank < size; rank++) {
        for (uint32_t other = 0; other < rank; other++) {
            if (objects(out, offers, leader, rank, other)) {
                return;
            }
        }
    }
    out->rank = out->other = 0;
    out->shrinks = can_shrink(size, offers);
    for (uint32_t rank = 0, earlier = 0; out->shrinks && earlier < offers[0].earlier_size; earlier++) {
        if (rank < size && offers[rank].earlier_rank == earlier) {
            rank++;
        } else {
            out->excluded[out->excluded_count++] = earlier;
        }
    }
}

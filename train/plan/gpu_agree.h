#ifndef TRAIN_PLAN_GPU_AGREE_H
#define TRAIN_PLAN_GPU_AGREE_H
/* How GPU memory travels in a group. Each rank says what it has; all compute the answer from the same offers, so all come to the same
 * one. A core.
 *
 * NCCL wants a GPU for each rank, and the same NCCL on all. Its links are neither encrypted nor authenticated, so it does not
 * leave a host unless all ranks allow that. Where it cannot be, GPU memory goes through host memory and the group's own
 * links, and a rank without a GPU can be of the group. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define GPU_BUS_BYTES 16

/* What a rank lacks. Numbers of the wire: they never change. */
enum gpu_lack { GPU_LACKS_NOTHING, GPU_LACKS_GPU, GPU_LACKS_NCCL, GPU_LACKS_NEW_NCCL, GPU_LACKS_WORKING_NCCL };

/* What a rank says. `earlier` names the communicator that it still has of an earlier generation, 0: none; it was rank earlier_rank of
 * earlier_size there. */
struct gpu_offer {
    uint8_t lack;
    uint8_t allows_plain; /* links between hosts */
    uint8_t zero[2];
    uint32_t nccl; /* the version: 10000 * major + 100 * minor + patch; 0: none */
    uint64_t settings;
    char bus[GPU_BUS_BYTES]; /* where in its host the GPU is */
    uint64_t earlier;
    uint32_t earlier_rank, earlier_size;
};

_Static_assert(sizeof(struct gpu_offer) == 48, "travels as it lies in memory, little-endian as elements do");

/* Why not by NCCL; the ranks in question go with it. */
enum gpu_reason {
    GPU_REASON_NONE,
    GPU_REASON_LACK,     /* `rank` lacks what `lack` says */
    GPU_REASON_VERSIONS, /* `rank` and `other` have different ones */
    GPU_REASON_SETTINGS,
    GPU_REASON_SHARED, /* they are on one GPU */
    GPU_REASON_HOSTS,  /* they are on different hosts, and `rank` or `other` does not allow plain links */
};

struct gpu_agreement {
    enum gpu_reason reason; /* GPU_REASON_NONE: by NCCL */
    uint32_t rank, other;
    enum gpu_lack lack;
    bool shrinks; /* all have the same communicator of an earlier generation, and it can be made smaller by these: */
    uint32_t excluded[PLAN_RANKS_MAX], excluded_count;
};

/* Words are what ranks sent: any bytes. leader[rank] is the lowest rank of the same host. */
void gpu_agree(struct gpu_agreement *out, uint32_t size, const struct gpu_offer *offers, const uint32_t *leader);

#endif

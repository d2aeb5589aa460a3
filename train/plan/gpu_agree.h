#ifndef TRAIN_PLAN_GPU_AGREE_H
#define TRAIN_PLAN_GPU_AGREE_H
/* How GPU memory travels in a group. Each rank offers its facts; all ranks compute the answer from the same offers and so reach
 * the same answer. A core.
 *
 * NCCL needs a GPU per rank and the same NCCL on all ranks. Its links are neither encrypted nor authenticated, so it does not
 * leave a host unless all ranks allow plain links. Without NCCL, GPU memory goes through host memory and the group's own links,
 * and ranks without a GPU can take part. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define GPU_BUS_BYTES 16

/* What a rank lacks for NCCL. Numbers on the wire: never changed. */
enum gpu_lack { GPU_LACKS_NOTHING, GPU_LACKS_GPU, GPU_LACKS_NCCL, GPU_LACKS_NEW_NCCL, GPU_LACKS_WORKING_NCCL };

/* A rank's offer. `earlier` identifies the communicator kept from an earlier generation, where this rank was earlier_rank of
 * earlier_size; 0: none. `settings` is a hash of NCCL's settings (train/group/gpu/nccl_library.h). */
struct gpu_offer {
    uint8_t lack;
    uint8_t allows_plain; /* links between hosts may be plain */
    uint8_t zero[2];
    uint32_t nccl; /* version: 10000 * major + 100 * minor + patch; 0: no NCCL */
    uint64_t settings;
    char bus[GPU_BUS_BYTES]; /* the GPU's address on its host's bus */
    uint64_t earlier;
    uint32_t earlier_rank, earlier_size;
};

_Static_assert(sizeof(struct gpu_offer) == 48, "travels as it lies in memory, little-endian as elements do");

/* Why a group does not use NCCL, with the ranks concerned. */
enum gpu_reason {
    GPU_REASON_NONE,
    GPU_REASON_LACK,     /* `rank` lacks `lack` */
    GPU_REASON_VERSIONS, /* `rank` and `other` have different versions */
    GPU_REASON_SETTINGS,
    GPU_REASON_SHARED, /* both are on the same GPU */
    GPU_REASON_HOSTS,  /* they are on different hosts, and `rank` or `other` refuses plain links */
};

/* The answer, the same on all ranks. */
struct gpu_agreement {
    enum gpu_reason reason; /* GPU_REASON_NONE: the group uses NCCL */
    uint32_t rank, other;
    enum gpu_lack lack;
    bool shrinks; /* all ranks kept the same earlier communicator; leaving out the ranks `excluded` of it gives this group */
    uint32_t excluded[PLAN_RANKS_MAX], excluded_count;
};

/* Computes the answer for `size` ranks from offers[size], in rank order. The offers come from other machines: any bytes are
 * accepted. leader[size] is the lowest rank on each rank's host. */
void gpu_agree(struct gpu_agreement *out, uint32_t size, const struct gpu_offer *offers, const uint32_t *leader);

#endif

#ifndef TRAIN_GROUP_GPU_GROUP_H
#define TRAIN_GROUP_GPU_GROUP_H
/* The collectives of a group on GPU memory: by NCCL where all ranks can (train/plan/gpu_agree.h), else through host memory and
 * the group's own links. A shell; train/group/group.c passes on the calls with GPU memory.
 *
 * With NCCL, before each collective the ranks tell each other over the group's links which collective they make, because NCCL
 * would treat ranks that disagree as slow. A late rank is waited for there as well, not on the GPUs. */

#include "train/group/gpu/gpu.h"
#include "train/group/group.h"

#define GPU_PATH_BYTES 512

/* The GPU transfers of a group; opaque, owned by its opener. */
struct gpu_group;

/* The arguments of gpu_group_open, borrowed for that call. */
struct gpu_group_options {
    uint32_t rank, size;
    const uint32_t *leader; /* [size]: the lowest rank of each rank's host */
    int stall_timeout_ms;
    struct gpu_watch watch;
};

/* Called by every rank: all ranks learn what each has and make a communicator if they can. 0 (also where NCCL cannot be used),
 * ERR_MEMORY, or the error of a collective of `group`, which then is broken. `group` and `gpu` outlive *out. */
int gpu_group_open(struct gpu_group **out, struct group *group, struct gpu *gpu, const struct gpu_group_options *options);

/* Whether the memory is GPU memory; false if `gpus` is NULL. */
bool gpu_group_takes(const struct gpu_group *gpus, const void *memory);

/* Collectives as in train/group/group.h, whose caller has checked type and root; count in elements. Errors other than ERR_USAGE
 * have broken `group`, or the caller must break it with gpu_group_error. */
int gpu_group_run(struct gpu_group *gpus, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                  uint32_t root);

/* Changes stall_timeout_ms. */
void gpu_group_set_timeout(struct gpu_group *gpus, int stall_timeout_ms);

/* The path of the memory, and if it is not NCCL the reason: one sentence. Valid until close. */
const char *gpu_group_path(const struct gpu_group *gpus);

/* The reason why the last collective failed if `group` does not have it: one sentence. */
const char *gpu_group_error(const struct gpu_group *gpus);

/* Hands the communicator to the gpu, or closes it, and clears the pointer. NULL is allowed. */
void gpu_group_close(struct gpu_group **gpus);

#endif

#ifndef TRAIN_GROUP_GPU_GROUP_H
#define TRAIN_GROUP_GPU_GROUP_H
/* The collectives of a group on GPU memory: by NCCL where all ranks can (train/plan/gpu_agree.h), else through host memory and the group's
 * own links. A shell; train/group/group.c hands it what is GPU memory.
 *
 * With NCCL, before each collective the ranks tell each other over the group's links which one they make: NCCL would take ranks
 * that disagree for slow ones. And a rank that comes late is waited for there, not by the GPUs. */

#include "train/group/gpu/gpu.h"
#include "train/group/group.h"

#define GPU_PATH_BYTES 512

struct gpu_group;

struct gpu_group_options {
    uint32_t rank, size;
    const uint32_t *leader; /* [size]: the lowest rank of each rank's host */
    int stall_timeout_ms;
    struct gpu_watch watch;
};

/* Every rank calls it: all learn who has what, and make a communicator if they can. 0, also where NCCL does not do; ERR_MEMORY, or what a
 * collective of `group` said, which then is broken. `group` and `gpu` outlive it. */
int gpu_group_open(struct gpu_group **out, struct group *group, struct gpu *gpu, const struct gpu_group_options *options);

/* Whether the memory goes here. */
bool gpu_group_takes(const struct gpu_group *gpus, const void *memory);

/* As the collectives of train/group/group.h, which checked the type and root. Errors that are not ERR_USAGE have broken `group`, or are to
 * break it, with gpu_group_error. */
int gpu_group_run(struct gpu_group *gpus, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                  uint32_t root);

void gpu_group_set_timeout(struct gpu_group *gpus, int stall_timeout_ms);

/* How the memory travels, and if not by NCCL, why: one sentence. Valid until close. */
const char *gpu_group_path(const struct gpu_group *gpus);

/* Why the last collective failed, where `group` does not know it. */
const char *gpu_group_error(const struct gpu_group *gpus);

/* Hands the communicator to the gpu, or closes it. NULL is allowed; the pointer is cleared. */
void gpu_group_close(struct gpu_group **gpus);

#endif

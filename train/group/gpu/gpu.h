#ifndef TRAIN_GROUP_GPU_GPU_H
#define TRAIN_GROUP_GPU_GPU_H
/* The GPU of this worker: what there is to use it, host memory for what goes through that, and the communicator that the last
 * group left. A shell.
 *
 * One thread at a time calls; but copies of different copiers may go on at once, and gpu_owns is for any thread. A function that uses the GPU makes it the calling thread's, and gives back the thread's own. */

#include <stdbool.h>
#include <stddef.h>

#include "train/group/gpu/cuda_library.h"
#include "train/group/gpu/nccl_group.h"
#include "train/plan/gpu_agree.h"

/* What one thread copies with; made when it is needed first. */
struct gpu_copier {
    cuda_stream stream;
    cuda_event event;
    uint8_t *staging; /* pinned host memory */
    size_t staging_bytes;
};

struct gpu {
    enum gpu_lack lack;
    char why[LIBRARY_ERROR_BYTES]; /* what is lacking, as a sentence; "" if nothing is */
    bool allows_plain;             /* NCCL's links between hosts */
    int nccl_open_ms;              /* for a communicator; then host memory has to do */
    struct cuda_library cuda;      /* unless GPU_LACKS_GPU */
    struct nccl_library nccl;      /* if GPU_LACKS_NOTHING, or it stopped working */
    int device;
    char bus[GPU_BUS_BYTES];
    struct gpu_copier collectives, program; /* of the thread that makes collectives, and of the program's when it looks at memory */
    /* Of an earlier group, for nccl_group_shrink; NULL: none. Its name, and who this worker was in it. */
    struct nccl_group *earlier;
    uint64_t earlier_name;
    uint32_t earlier_rank, earlier_size;
};

/* Takes what this machine has, and the device that is current in the calling thread; that something is lacking is no
 * error. Paths as in cuda_library_open and nccl_library_open. ERR_MEMORY. */
int gpu_open(struct gpu **out, const char *cuda_path, const char *nccl_path, bool allows_plain);

/* Whether the memory is a GPU's, or managed by CUDA; of which device goes to *device. */
bool gpu_owns(const struct gpu *gpu, const void *memory, int *device);

/* Makes the GPU current in this thread, and says which one was. CUDA's code. */
int gpu_enter(const struct gpu *gpu, int *before);
void gpu_leave(const struct gpu *gpu, int before);

/* Room for `bytes` in copier->staging. ERR_MEMORY. */
int gpu_stage(const struct gpu *gpu, struct gpu_copier *copier, size_t bytes);

/* Copies, between host and device in any direction, after what the program has queued (train/group/gpu/nccl_group.h). ERR_CLOSED (by `watch`),
 * ERR_IO; `error` then holds a sentence. */
int gpu_copy(const struct gpu *gpu, struct gpu_copier *copier, void *to, const void *from, size_t bytes, const struct gpu_watch *watch,
             char error[NCCL_GROUP_ERROR_BYTES]);

/* Waits for what the program has queued, or until the group is over, says `watch`. That it cannot be waited for is for the next
 * copy to say. */
void gpu_settle(const struct gpu *gpu, struct gpu_copier *copier, const struct gpu_watch *watch);

/* The communicator of a group that ends: kept if it can be made smaller, else closed. The pointer is cleared. */
void gpu_keep(struct gpu *gpu, struct nccl_group **group, uint64_t name, uint32_t rank, uint32_t size);

/* Closes the one that was kept. */
void gpu_forget(struct gpu *gpu);

/* NULL is allowed; the pointer is cleared. */
void gpu_close(struct gpu **gpu);

#endif

#ifndef TRAIN_GROUP_GPU_GPU_H
#define TRAIN_GROUP_GPU_GPU_H
/* The GPU of this worker: the libraries to use it, host memory for transfers through the host, and the communicator kept from
 * the last group. A shell.
 *
 * Calls come from one thread at a time, except that copies with different copiers may run at once and gpu_owns may be called by
 * any thread. A function that uses the GPU makes it current in the calling thread and restores the thread's own device. */

#include <stdbool.h>
#include <stddef.h>

#include "train/group/gpu/cuda_library.h"
#include "train/group/gpu/nccl_group.h"
#include "train/plan/gpu_agree.h"

/* The means of a thread to copy; made at the first use. */
struct gpu_copier {
    cuda_stream stream;
    cuda_event event;
    uint8_t *staging; /* pinned host memory */
    size_t staging_bytes;
};

/* Read by the group's GPU transfers; made by gpu_open and owned by its caller. */
struct gpu {
    enum gpu_lack lack;
    char why[LIBRARY_ERROR_BYTES]; /* the lack as a sentence; "" if nothing is lacking */
    bool allows_plain;             /* NCCL's plain links between hosts */
    int nccl_open_ms;              /* for opening a communicator; afterwards host memory has to do */
    struct cuda_library cuda;      /* unless GPU_LACKS_GPU */
    struct nccl_library nccl;      /* if GPU_LACKS_NOTHING, or if it stopped working */
    int device;
    char bus[GPU_BUS_BYTES];
    /* of the thread of the collectives, and of the program's thread when it examines memory */
    struct gpu_copier collectives, program;
    /* The communicator of an earlier group, for nccl_group_shrink; NULL: none. Its name, and this worker's place in it. */
    struct nccl_group *earlier;
    uint64_t earlier_name;
    uint32_t earlier_rank, earlier_size;
};

/* Finds this machine's libraries and takes the device current in the calling thread. A lack is no error. Paths as in
 * cuda_library_open and nccl_library_open. The caller closes *out with gpu_close. 0 or ERR_MEMORY. */
int gpu_open(struct gpu **out, const char *cuda_path, const char *nccl_path, bool allows_plain);

/* Whether the memory is GPU memory or managed by CUDA; *device is then the number of its device. */
bool gpu_owns(const struct gpu *gpu, const void *memory, int *device);

/* gpu_enter makes the GPU current in this thread and stores the former device in *before; it returns CUDA's code. gpu_leave
 * makes `before` current again. */
int gpu_enter(const struct gpu *gpu, int *before);
void gpu_leave(const struct gpu *gpu, int before);

/* Makes room for `bytes` in copier->staging; its contents are lost. 0 or ERR_MEMORY. */
int gpu_stage(const struct gpu *gpu, struct gpu_copier *copier, size_t bytes);

/* Copies between host and device in any direction, after the work that the program has queued (train/group/gpu/nccl_group.h),
 * and waits for the end. ERR_CLOSED (by `watch`) or ERR_IO; `error` then holds a sentence. */
int gpu_copy(const struct gpu *gpu, struct gpu_copier *copier, void *to, const void *from, size_t bytes,
             const struct gpu_watch *watch, char error[NCCL_GROUP_ERROR_BYTES]);

/* Waits for the work that the program has queued, or until `watch` finds the group over. An error is left for the next copy to
 * report. */
void gpu_settle(const struct gpu *gpu, struct gpu_copier *copier, const struct gpu_watch *watch);

/* Takes the communicator of a group that ends: keeps it if it can be made smaller, else closes it. The pointer is cleared. */
void gpu_keep(struct gpu *gpu, struct nccl_group **group, uint64_t name, uint32_t rank, uint32_t size);

/* Closes the communicator that was kept. */
void gpu_forget(struct gpu *gpu);

/* Closes everything but the libraries and clears the pointer. NULL is allowed. */
void gpu_close(struct gpu **gpu);

#endif

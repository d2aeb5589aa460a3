#include "train/gpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

static void lack(struct gpu *gpu, enum gpu_lack what)
{
    gpu->lack = what;
}

static int check(struct gpu *gpu, int code, const char *what)
{
    if (code != CUDA_OK) {
        (void)snprintf(gpu->why, sizeof gpu->why, "CUDA gives no %s: %s", what, gpu->cuda.error_text(code));
    }
    return code;
}

static int take_device(struct gpu *gpu)
{
    char bus[64] = "";
    int code = check(gpu, gpu->cuda.get_device(&gpu->device), "device");
    code = code != CUDA_OK ? code : check(gpu, gpu->cuda.bus_id(bus, (int)sizeof bus, gpu->device), "bus id");
    code = code != CUDA_OK ? code : check(gpu, gpu->cuda.stream_create(&gpu->stream, CUDA_STREAM_NON_BLOCKING), "stream");
    code = code != CUDA_OK ? code : check(gpu, gpu->cuda.event_create(&gpu->event, CUDA_EVENT_DISABLE_TIMING), "event");
    (void)bytes_copy_text(gpu->bus, sizeof gpu->bus, bus);
    return code;
}

int gpu_open(struct gpu **out, const char *cuda_path, const char *nccl_path, bool allows_plain)
{
    struct gpu *gpu = calloc(1, sizeof *gpu);
    if (gpu == NULL) {
        return ERR_MEMORY;
    }
    gpu->allows_plain = allows_plain;
    if (cuda_library_open(cuda_path, &gpu->cuda, gpu->why) != 0 || take_device(gpu) != CUDA_OK) {
        lack(gpu, GPU_LACKS_GPU);
    } else {
        int error = nccl_library_open(nccl_path, &gpu->nccl, gpu->why);
        lack(gpu, error == 0              ? GPU_LACKS_NOTHING
                  : error == ERR_VERSION ? GPU_LACKS_NEW_NCCL
                  : error == ERR_REFUSED ? GPU_LACKS_WORKING_NCCL
                                          : GPU_LACKS_NCCL);
    }
    if (gpu->lack == GPU_LACKS_NOTHING) {
        gpu->why[0] = 0;
    }
    *out = gpu;
    return 0;
}

bool gpu_owns(const struct gpu *gpu, const void *memory, int *device)
{
    if (gpu->lack == GPU_LACKS_GPU) {
        return false;
    }
    struct cuda_pointer pointer = {0};
    if (gpu->cuda.pointer_attributes(&pointer, memory) != CUDA_OK ||
        (pointer.type != CUDA_MEMORY_DEVICE && pointer.type != CUDA_MEMORY_MANAGED)) {
        return false;
    }
    *device = pointer.type == CUDA_MEMORY_MANAGED ? gpu->device : pointer.device;
    return true;
}

int gpu_enter(const struct gpu *gpu, int *before)
{
    int code = gpu->cuda.get_device(before);
    return code == CUDA_OK && *before != gpu->device ? gpu->cuda.set_device(gpu->device) : code;
}

void gpu_leave(const struct gpu *gpu, int before)
{
    if (before != gpu->device) {
        (void)gpu->cuda.set_device(before);
    }
}

int gpu_stage(struct gpu *gpu, size_t bytes)
{
    if (bytes <= gpu->staging_bytes) {
        return 0;
    }
    if (gpu->staging != NULL) {
        (void)gpu->cuda.host_free(gpu->staging);
    }
    gpu->staging = NULL;
    gpu->staging_bytes = 0;
    void *memory;
    if (gpu->cuda.host_alloc(&memory, bytes) != CUDA_OK) {
        return ERR_MEMORY;
    }
    gpu->staging = memory;
    gpu->staging_bytes = bytes;
    return 0;
}

/* ---- copies ---- */

static int is_copied(void *context)
{
    const struct gpu *gpu = context;
    int code = gpu->cuda.event_query(gpu->event);
    return code == CUDA_OK ? 1 : code == CUDA_NOT_READY ? 0 : ERR_IO;
}

int gpu_copy(struct gpu *gpu, void *to, const void *from, size_t bytes, const struct gpu_watch *watch,
             char error[NCCL_GROUP_ERROR_BYTES])
{
    int code = gpu->cuda.event_record(gpu->event, NULL);
    code = code != CUDA_OK ? code : gpu->cuda.stream_wait(gpu->stream, gpu->event, 0);
    code = code != CUDA_OK ? code : gpu->cuda.copy(to, from, bytes, CUDA_COPY_DEFAULT, gpu->stream);
    code = code != CUDA_OK ? code : gpu->cuda.event_record(gpu->event, gpu->stream);
    uint32_t gone;
    int result = code != CUDA_OK ? ERR_IO : gpu_wait(watch, is_copied, gpu, INT_MAX, INT_MAX, &gone);
    if (result == ERR_CLOSED) {
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "the group was over while GPU memory was copied");
    } else if (result != 0) {
        code = code != CUDA_OK ? code : gpu->cuda.event_query(gpu->event);
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "GPU memory cannot be copied: %s", gpu->cuda.error_text(code));
    }
    return result;
}

/* ---- communicators of earlier groups ---- */

static void end(struct gpu *gpu, struct nccl_group **group)
{
    if (!nccl_group_close(group)) {
        lack(gpu, GPU_LACKS_WORKING_NCCL);
        (void)snprintf(gpu->why, sizeof gpu->why, "NCCL did not come back from ending the communicator of an earlier group");
    }
}

void gpu_forget(struct gpu *gpu)
{
    end(gpu, &gpu->earlier);
}

void gpu_keep(struct gpu *gpu, struct nccl_group **group, uint64_t name, uint32_t rank, uint32_t size)
{
    gpu_forget(gpu);
    if (*group == NULL || !nccl_group_can_shrink(*group)) {
        end(gpu, group);
        return;
    }
    gpu->earlier = *group;
    gpu->earlier_name = name;
    gpu->earlier_rank = rank;
    gpu->earlier_size = size;
    *group = NULL;
}

void gpu_close(struct gpu **gpu)
{
    struct gpu *g = *gpu;
    if (g == NULL) {
        return;
    }
    gpu_forget(g);
    if (g->staging != NULL) {
        (void)g->cuda.host_free(g->staging);
    }
    if (g->event != NULL) {
        (void)g->cuda.event_destroy(g->event);
    }
    if (g->stream != NULL) {
        (void)g->cuda.stream_destroy(g->stream);
    }
    free(g);
    *gpu = NULL;
}

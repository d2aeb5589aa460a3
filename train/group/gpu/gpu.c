#include "train/group/gpu/gpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define NCCL_OPEN_MS 30000

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
    gpu->nccl_open_ms = NCCL_OPEN_MS;
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

/* ---- copies ---- */

int gpu_stage(const struct gpu *gpu, struct gpu_copier *copier, size_t bytes)
{
    if (bytes <= copier->staging_bytes) {
        return 0;
    }
    if (copier->staging != NULL) {
        (void)gpu->cuda.host_free(copier->staging);
    }
    copier->staging = NULL;
    copier->staging_bytes = 0;
    void *memory;
    if (gpu->cuda.host_alloc(&memory, bytes) != CUDA_OK) {
        return ERR_MEMORY;
    }
    copier->staging = memory;
    copier->staging_bytes = bytes;
    return 0;
}

static void copier_close(const struct gpu *gpu, struct gpu_copier *copier)
{
    if (copier->staging != NULL) {
        (void)gpu->cuda.host_free(copier->staging);
    }
    if (copier->event != NULL) {
        (void)gpu->cuda.event_destroy(copier->event);
    }
    if (copier->stream != NULL) {
        (void)gpu->cuda.stream_destroy(copier->stream);
    }
}

/* Records the event behind the work that the program has queued. Returns CUDA's code. */
static int mark_queued(const struct gpu *gpu, struct gpu_copier *copier)
{
    int code = copier->event != NULL ? CUDA_OK : gpu->cuda.event_create(&copier->event, CUDA_EVENT_DISABLE_TIMING);
    return code != CUDA_OK ? code : gpu->cuda.event_record(copier->event, NULL);
}

/* Queues the copy behind the program's work as well, and the event behind the copy. Returns CUDA's code. */
static int begin_copy(const struct gpu *gpu, struct gpu_copier *copier, void *to, const void *from, size_t bytes)
{
    int code = copier->stream != NULL ? CUDA_OK : gpu->cuda.stream_create(&copier->stream, CUDA_STREAM_NON_BLOCKING);
    code = code != CUDA_OK ? code : mark_queued(gpu, copier);
    code = code != CUDA_OK ? code : gpu->cuda.stream_wait(copier->stream, copier->event, 0);
    code = code != CUDA_OK ? code : gpu->cuda.copy(to, from, bytes, CUDA_COPY_DEFAULT, copier->stream);
    return code != CUDA_OK ? code : gpu->cuda.event_record(copier->event, copier->stream);
}

struct asked {
    const struct gpu *gpu;
    cuda_event event;
    int code;
};

static int is_copied(void *context)
{
    struct asked *asked = context;
    asked->code = asked->gpu->cuda.event_query(asked->event);
    return asked->code == CUDA_OK ? 1 : asked->code == CUDA_NOT_READY ? 0 : ERR_IO;
}

int gpu_copy(const struct gpu *gpu, struct gpu_copier *copier, void *to, const void *from, size_t bytes,
             const struct gpu_watch *watch, char error[NCCL_GROUP_ERROR_BYTES])
{
    int code = begin_copy(gpu, copier, to, from, bytes);
    struct asked asked = {gpu, copier->event, code};
    uint32_t gone;
    int result = code != CUDA_OK ? ERR_IO : gpu_wait(watch, is_copied, &asked, INT_MAX, INT_MAX, &gone);
    if (result == ERR_CLOSED) {
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "the group ended while GPU memory was copied");
    } else if (result != 0) {
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "GPU memory cannot be copied: %s", gpu->cuda.error_text(asked.code));
    }
    return result;
}

void gpu_settle(const struct gpu *gpu, struct gpu_copier *copier, const struct gpu_watch *watch)
{
    struct asked asked = {gpu, copier->event, mark_queued(gpu, copier)};
    uint32_t gone;
    if (asked.code == CUDA_OK) {
        asked.event = copier->event;
        (void)gpu_wait(watch, is_copied, &asked, INT_MAX, INT_MAX, &gone);
    }
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
    copier_close(g, &g->collectives);
    copier_close(g, &g->program);
    free(g);
    *gpu = NULL;
}

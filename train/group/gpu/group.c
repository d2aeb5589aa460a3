#include "train/group/gpu/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

struct gpu_group {
    struct group *group;
    struct gpu *gpu;
    uint32_t rank, size;
    int stall_timeout_ms;
    struct gpu_watch watch;
    struct nccl_group *nccl; /* NULL: through host memory */
    uint64_t name;           /* of the communicator */
    char path[GPU_PATH_BYTES], error[NCCL_GROUP_ERROR_BYTES];
};

/* ---- the path of the memory ---- */

static void say_lack(const struct gpu_group *g, uint32_t rank, enum gpu_lack lack, char *out, size_t size)
{
    static const char *const whats[] = {[GPU_LACKS_GPU] = "has no GPU that CUDA can use",
                                        [GPU_LACKS_NCCL] = "has no NCCL",
                                        [GPU_LACKS_NEW_NCCL] = "has an NCCL that is too old",
                                        [GPU_LACKS_WORKING_NCCL] = "cannot use its NCCL"};
    bool own = rank == g->rank && g->gpu->why[0] != 0;
    (void)snprintf(out, size, "rank %u %s%s%s", rank, whats[lack], own ? ": " : "", own ? g->gpu->why : "");
}

static void say_path(struct gpu_group *g, const struct gpu_agreement *a, const struct gpu_offer *offers)
{
    char why[GPU_PATH_BYTES - 64], own[NCCL_VERSION_TEXT_BYTES], other[NCCL_VERSION_TEXT_BYTES];
    nccl_version_text(offers[a->rank].nccl, own);
    nccl_version_text(offers[a->other].nccl, other);
    switch (a->reason) {
    case GPU_REASON_NONE:
        (void)snprintf(g->path, sizeof g->path, "GPU memory goes by NCCL %s", own);
        return;
    case GPU_REASON_LACK:
        say_lack(g, a->rank, a->lack, why, sizeof why);
        break;
    case GPU_REASON_VERSIONS:
        (void)snprintf(why, sizeof why, "rank %u has NCCL %s and rank %u %s", a->rank, own, a->other, other);
        break;
    case GPU_REASON_SETTINGS:
        (void)snprintf(why, sizeof why, "NCCL_ALGO and NCCL_PROTO of ranks %u and %u differ", a->rank, a->other);
        break;
    case GPU_REASON_SHARED:
        (void)snprintf(why, sizeof why, "ranks %u and %u share a GPU, which NCCL does not support", a->rank, a->other);
        break;
    case GPU_REASON_HOSTS:
        (void)snprintf(why, sizeof why,
                       "ranks %u and %u are on different hosts, and NCCL's links are neither encrypted nor authenticated",
                       a->rank, a->other);
        break;
    }
    (void)snprintf(g->path, sizeof g->path, "GPU memory goes through host memory: %s", why);
}

static int tell(struct gpu_group *g, struct gpu_offer offers[PLAN_RANKS_MAX])
{
    const struct gpu *gpu = g->gpu;
    struct gpu_offer *own = &offers[g->rank];
    *own = (struct gpu_offer){
        .lack = (uint8_t)gpu->lack,
        .allows_plain = gpu->allows_plain,
        .nccl = gpu->nccl.number,
        .settings = gpu->nccl.settings,
    };
    memcpy(own->bus, gpu->bus, sizeof own->bus);
    if (gpu->earlier != NULL) {
        own->earlier = gpu->earlier_name;
        own->earlier_rank = gpu->earlier_rank;
        own->earlier_size = gpu->earlier_size;
    }
    return group_all_gather(g->group, ELEMENT_BYTES, offers, sizeof offers[0] * g->size);
}

/* ---- communicators ---- */

/* Checks whether all ranks have a communicator now. If not, no rank keeps its own, and *without is the first rank without
 * one. */
static int settle(struct gpu_group *g, uint32_t *without)
{
    uint8_t has[PLAN_RANKS_MAX] = {0};
    has[g->rank] = g->nccl != NULL;
    int error = group_all_gather(g->group, ELEMENT_BYTES, has, g->size);
    *without = 0;
    while (error == 0 && *without < g->size && has[*without] != 0) {
        ++*without;
    }
    if (error != 0 || *without < g->size) {
        struct nccl_group *made = g->nccl;
        g->nccl = NULL;
        if (!nccl_group_close(&made)) {
            g->gpu->lack = GPU_LACKS_WORKING_NCCL;
        }
    }
    return error;
}

static void make_smaller(struct gpu_group *g, const struct nccl_options *options, const struct gpu_agreement *a)
{
    char error[NCCL_GROUP_ERROR_BYTES];
    (void)nccl_group_shrink(&g->nccl, g->gpu->earlier, options, a->excluded, a->excluded_count, error);
    g->name = bytes_hash64(a->excluded, a->excluded_count * sizeof a->excluded[0], g->gpu->earlier_name) | 1;
}

/* Makes a communicator from rank 0's id, sent over the group's links, whose ends are authenticated. */
static int make_new(struct gpu_group *g, const struct nccl_options *options)
{
    struct {
        uint64_t is_there;
        struct nccl_id id;
    } first = {0};
    if (g->rank == 0) {
        first.is_there = nccl_group_id(options->nccl, &first.id, g->error) == 0;
    }
    int error = group_broadcast(g->group, &first, sizeof first, 0);
    if (error == 0 && first.is_there != 0) {
        (void)nccl_group_open(&g->nccl, options, &first.id, g->error);
        g->name = bytes_hash64(&first.id, sizeof first.id, 0) | 1;
    }
    return error;
}

static int make(struct gpu_group *g, const struct gpu_agreement *a)
{
    struct nccl_options options = {
        .nccl = &g->gpu->nccl,
        .cuda = &g->gpu->cuda,
        .rank = g->rank,
        .size = g->size,
        .open_timeout_ms = g->gpu->nccl_open_ms,
        .stall_timeout_ms = g->stall_timeout_ms,
        .watch = g->watch,
    };
    int error = 0;
    uint32_t without = 0;
    if (a->shrinks) {
        make_smaller(g, &options, a);
        error = settle(g, &without);
    }
    gpu_forget(g->gpu);
    if (error == 0 && g->nccl == NULL) {
        error = make_new(g, &options);
        error = error != 0 ? error : settle(g, &without);
    }
    if (error == 0 && g->nccl == NULL) {
        (void)snprintf(g->path, sizeof g->path, "GPU memory goes through host memory: NCCL did not start on rank %u%s%s",
                       without, without == g->rank ? ": " : "", without == g->rank ? g->error : "");
    }
    return error;
}

int gpu_group_open(struct gpu_group **out, struct group *group, struct gpu *gpu, const struct gpu_group_options *options)
{
    struct gpu_group *g = calloc(1, sizeof *g);
    if (g == NULL) {
        return ERR_MEMORY;
    }
    g->group = group;
    g->gpu = gpu;
    g->rank = options->rank;
    g->size = options->size;
    g->stall_timeout_ms = options->stall_timeout_ms;
    g->watch = options->watch;
    struct gpu_offer offers[PLAN_RANKS_MAX] = {0};
    struct gpu_agreement agreement;
    int error = tell(g, offers), before = 0;
    if (error != 0) {
        goto err_free;
    }
    gpu_agree(&agreement, g->size, offers, options->leader);
    say_path(g, &agreement, offers);
    /* If CUDA can no longer use the GPU, NCCL reports it. */
    bool entered = gpu->lack != GPU_LACKS_GPU && gpu_enter(gpu, &before) == CUDA_OK;
    if (agreement.reason == GPU_REASON_NONE) {
        error = make(g, &agreement);
    } else {
        gpu_forget(gpu);
    }
    if (entered) {
        gpu_leave(gpu, before);
    }
    if (error != 0) {
        goto err_free;
    }
    *out = g;
    return 0;
err_free:
    free(g);
    return error;
}

void gpu_group_set_timeout(struct gpu_group *gpus, int stall_timeout_ms)
{
    if (gpus->nccl != NULL) {
        nccl_group_set_timeout(gpus->nccl, stall_timeout_ms);
    }
}

const char *gpu_group_path(const struct gpu_group *gpus)
{
    return gpus->path;
}

const char *gpu_group_error(const struct gpu_group *gpus)
{
    return gpus->error;
}

void gpu_group_close(struct gpu_group **gpus)
{
    struct gpu_group *g = *gpus;
    if (g == NULL) {
        return;
    }
    gpu_keep(g->gpu, &g->nccl, g->name, g->rank, g->size);
    free(g);
    *gpus = NULL;
}

/* ---- collectives ---- */

bool gpu_group_takes(const struct gpu_group *gpus, const void *memory)
{
    int device;
    return gpus != NULL && gpu_owns(gpus->gpu, memory, &device);
}

/* The collective that a rank is about to make by NCCL, as told to all ranks. */
struct call {
    uint8_t kind, type;
    uint8_t zero[2];
    uint32_t root;
    uint64_t count;
};

_Static_assert(sizeof(struct call) == 16, "travels as it lies in memory, little-endian as elements do");

static int tell_call(struct gpu_group *g, enum plan_kind kind, enum element_type type, uint64_t count, uint32_t root)
{
    struct call calls[PLAN_RANKS_MAX] = {0};
    calls[g->rank] = (struct call){.kind = (uint8_t)kind, .type = (uint8_t)type, .root = root, .count = count};
    int error = group_all_gather(g->group, ELEMENT_BYTES, calls, sizeof calls[0] * g->size);
    for (uint32_t rank = 1; rank < g->size && error == 0; rank++) {
        if (memcmp(&calls[rank], &calls[0], sizeof calls[0]) != 0) {
            (void)snprintf(g->error, sizeof g->error,
                           "rank %u makes another collective of GPU memory than rank 0, or of another count or type", rank);
            error = ERR_MALFORMED;
        }
    }
    return error;
}

static int run_nccl(struct gpu_group *g, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                    uint32_t root)
{
    int error = tell_call(g, kind, type, count, root);
    if (error != 0) {
        return error;
    }
    error = nccl_group_run(g->nccl, kind, type, values, count, root);
    if (error != 0) {
        bytes_copy_text(g->error, sizeof g->error, nccl_group_error(g->nccl));
    }
    return error;
}

static int run_group(struct gpu_group *g, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                     uint32_t root)
{
    switch (kind) {
    case PLAN_ALL_REDUCE:
        return group_all_reduce(g->group, type, values, count);
    case PLAN_REDUCE_SCATTER:
        return group_reduce_scatter(g->group, type, values, count);
    case PLAN_ALL_GATHER:
        return group_all_gather(g->group, type, values, count);
    default:
        return group_broadcast(g->group, values, count, root);
    }
}

static int run_staged(struct gpu_group *g, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                      uint32_t root)
{
    size_t bytes = count * element_type_bytes(type);
    if (bytes == 0) {
        return run_group(g, kind, type, values, 0, root);
    }
    struct gpu_copier *copier = &g->gpu->collectives;
    int error = gpu_stage(g->gpu, copier, bytes);
    if (error != 0) {
        (void)snprintf(g->error, sizeof g->error, "no host memory is left for %zu bytes of GPU memory on their way", bytes);
        return error;
    }
    error = gpu_copy(g->gpu, copier, copier->staging, values, bytes, &g->watch, g->error);
    error = error != 0 ? error : run_group(g, kind, type, copier->staging, count, root);
    return error != 0 ? error : gpu_copy(g->gpu, copier, values, copier->staging, bytes, &g->watch, g->error);
}

int gpu_group_run(struct gpu_group *gpus, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                  uint32_t root)
{
    int device, before;
    if (gpu_owns(gpus->gpu, values, &device) && device != gpus->gpu->device) {
        (void)snprintf(gpus->error, sizeof gpus->error,
                       "the memory is of CUDA device %d; this worker's collectives are of device %d", device,
                       gpus->gpu->device);
        return ERR_USAGE;
    }
    int code = gpu_enter(gpus->gpu, &before);
    if (code != CUDA_OK) {
        (void)snprintf(gpus->error, sizeof gpus->error, "CUDA device %d cannot be used: %s", gpus->gpu->device,
                       gpus->gpu->cuda.error_text(code));
        return ERR_IO;
    }
    int error = gpus->nccl != NULL ? run_nccl(gpus, kind, type, values, count, root)
                                   : run_staged(gpus, kind, type, values, count, root);
    gpu_leave(gpus->gpu, before);
    return error;
}

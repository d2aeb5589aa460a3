/* Collectives of GPU memory (train/group/gpu/group.h), as offered to programs. */

#include <poll.h>
#include <stdlib.h>

#include "base/err.h"
#include "train/plan/finite.h"
#include "train/shoal/link.h"

#define PART_BYTES (4u * 1024 * 1024) /* GPU memory examined at a time */

int shoal_use_gpu(struct shoal *s, unsigned flags)
{
    if (s->gpu != NULL || s->elastic.in_group || s->elastic.has_state || (flags & ~SHOAL_GPU_PLAIN) != 0) {
        return client_fail(s, ERR_USAGE,
                           "shoal_use_gpu is called once, before the first shoal_step_begin, with 0 or SHOAL_GPU_PLAIN");
    }
    if (client_background_is_busy(s)) {
        return client_fail(s, ERR_USAGE, "shoal_use_gpu is called after shoal_all_reduce_wait");
    }
    int error = gpu_open(&s->gpu, getenv("SHOAL_LIBCUDART"), getenv("SHOAL_LIBNCCL"), (flags & SHOAL_GPU_PLAIN) != 0);
    return error != 0 ? client_fail(s, error, "no memory is left for the GPU") : client_gpu_join(s);
}

int client_gpu_join(struct shoal *s)
{
    if (s->gpu == NULL || s->workers == NULL) {
        return 0;
    }
    int error = group_use_gpu(s->workers, s->gpu);
    return error == 0 ? 0 : client_fail(s, error, "%s", group_error(s->workers));
}

/* The watch for waits of the program's thread, beside which the other thread may run a collective. The links and the group's
 * own news belong to that collective, so only the daemon and the revocation are checked. */
static int look_for_end(void *context, uint32_t *gone)
{
    struct shoal *s = context;
    (void)gone;
    struct pollfd daemon = {.fd = s->fd, .events = POLLIN};
    if (poll(&daemon, 1, 0) > 0) {
        (void)client_link_pump(s); /* the next call reports a daemon that is gone for good */
    }
    return revoke_is_set(&s->revoke) || client_background_has_failed(s) ? ERR_CLOSED : 0;
}

void client_gpu_settle(struct shoal *s)
{
    const struct gpu_watch watch = {look_for_end, s};
    int before;
    if (s->gpu != NULL && s->gpu->lack != GPU_LACKS_GPU && gpu_enter(s->gpu, &before) == CUDA_OK) {
        gpu_settle(s->gpu, &s->gpu->program, &watch);
        gpu_leave(s->gpu, before);
    }
}

const char *shoal_gpu_path(const struct shoal *s)
{
    return s->workers != NULL ? group_gpu_path(s->workers) : "";
}

/* Copies GPU memory to the host in parts and passes each to `look`, until it returns true. */
static int show_gpu(struct shoal *s, const uint8_t *memory, size_t bytes, 
                    bool (*look)(void *context, const void *part, size_t bytes), void *context)
{
    struct gpu_copier *copier = &s->gpu->program;
    size_t most = bytes < PART_BYTES ? bytes : PART_BYTES;
    if (gpu_stage(s->gpu, copier, most) != 0) {
        return client_fail(s, ERR_MEMORY, "no host memory is left to look at GPU memory");
    }
    char text[NCCL_GROUP_ERROR_BYTES];
    bool enough = false;
    for (size_t done = 0; done < bytes && !enough;) {
        size_t part = bytes - done < most ? bytes - done : most;
        int error = gpu_copy(s->gpu, copier, copier->staging, memory + done, part, NULL, text);
        if (error != 0) {
            return client_fail(s, error, "%s", text);
        }
        enough = look(context, copier->staging, part);
        done += part;
    }
    return 0;
}

static int show(struct shoal *s, const void *memory, size_t bytes, bool (*look)(void *context, const void *part, size_t bytes),
                void *context)
{
    int device, before;
    if (s->gpu == NULL || !gpu_owns(s->gpu, memory, &device)) {
        (void)look(context, memory, bytes);
        return 0;
    }
    int code = gpu_enter(s->gpu, &before);
    if (code != CUDA_OK) {
        return client_fail(s, ERR_IO, "CUDA device %d cannot be used: %s", s->gpu->device, s->gpu->cuda.error_text(code));
    }
    int error = show_gpu(s, memory, bytes, look, context);
    gpu_leave(s->gpu, before);
    return error;
}

static bool add_to_hash(void *context, const void *part, size_t bytes)
{
    (void)crypto_generichash_update(context, part, bytes);
    return false;
}

int client_gpu_hash(struct shoal *s, crypto_generichash_state *state, const void *bytes, size_t count)
{
    return show(s, bytes, count, add_to_hash, state);
}

struct search {
    enum element_type type;
    size_t done; /* elements before the first bad one, as far as known */
    uint64_t bits;
};

static bool search_bad(void *context, const void *part, size_t bytes)
{
    struct search *search = context;
    size_t count = bytes / element_type_bytes(search->type), bad = finite_first_bad(search->type, part, count);
    search->done += bad;
    if (bad < count) {
        search->bits = finite_bits(search->type, part, bad);
    }
    return bad < count;
}

size_t client_gpu_first_bad(struct shoal *s, enum element_type type, const void *values, size_t count, uint64_t *bits)
{
    struct search search = {.type = type};
    if (show(s, values, count * element_type_bytes(type), search_bad, &search) != 0 || search.done >= count) {
        return count; /* memory that cannot be read cannot be summed either */
    }
    *bits = search.bits;
    return search.done;
}

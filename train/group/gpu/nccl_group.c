#include "train/group/gpu/nccl_group.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

struct nccl_group {
    const struct nccl_library *nccl;
    const struct cuda_library *cuda;
    uint32_t rank, size;
    int stall_timeout_ms, settle_ms, end_ms;
    struct gpu_watch watch;
    nccl_comm comm; /* NULL: aborted, or left behind */
    bool is_revoked, is_stuck;
    cuda_stream stream;
    cuda_event before, after; /* the end of the program's work, and of this group's */
    uint32_t gone;
    int broken; /* the error that ended the group, or 0 */
    char error[NCCL_GROUP_ERROR_BYTES];
};

/* ---- calls that may not return ---- */

struct call {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_done, is_left; /* the last user frees the struct */
    nccl_comm comm;
    int (*end)(nccl_comm comm); /* either `end` or `revoke` is set */
    int (*revoke)(nccl_comm comm, int flags);
    int code;
};

static void call_free(struct call *call)
{
    (void)pthread_mutex_destroy(&call->mutex);
    (void)pthread_cond_destroy(&call->changed);
    free(call);
}

static void *call_thread(void *argument)
{
    struct call *call = argument;
    int code = call->revoke != NULL ? call->revoke(call->comm, 0) : call->end(call->comm);
    (void)pthread_mutex_lock(&call->mutex);
    call->code = code;
    call->is_done = true;
    bool is_left = call->is_left;
    (void)pthread_cond_signal(&call->changed);
    (void)pthread_mutex_unlock(&call->mutex);
    if (is_left) {
        call_free(call);
    }
    return NULL;
}

/* Starts the call in a thread that takes no signals, because signals are the program's. */
static bool call_start(struct call *call)
{
    pthread_t thread;
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&thread, NULL, call_thread, call) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) {
        (void)pthread_detach(thread);
    }
    return started;
}

/* Ends the communicator by `end` or `revoke`; *code is NCCL's answer. Returns false if NCCL did not return in time. */
static bool call_nccl(struct nccl_group *group, int (*end)(nccl_comm), int (*revoke)(nccl_comm, int), int *code)
{
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        return false;
    }
    *call = (struct call){.comm = group->comm, .end = end, .revoke = revoke};
    (void)pthread_mutex_init(&call->mutex, NULL);
    (void)pthread_cond_init(&call->changed, NULL);
    if (!call_start(call)) {
        call_free(call);
        return false;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += group->end_ms / 1000;
    until.tv_nsec += group->end_ms % 1000 * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&call->mutex);
    int waited = 0;
    while (!call->is_done && waited == 0) {
        waited = pthread_cond_clockwait(&call->changed, &call->mutex, CLOCK_MONOTONIC, &until);
    }
    bool done = call->is_done;
    call->is_left = !done;
    *code = call->code;
    (void)pthread_mutex_unlock(&call->mutex);
    if (done) {
        call_free(call);
    }
    return done;
}

/* ---- answers of NCCL and CUDA ---- */

static int fail(struct nccl_group *group, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int fail(struct nccl_group *group, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(group->error, sizeof group->error, format, arguments);
    va_end(arguments);
    group->broken = error;
    return error;
}

static int check_nccl(struct nccl_group *group, int code, const char *what)
{
    if (code == NCCL_OK || code == NCCL_IN_PROGRESS) {
        return 0;
    }
    return fail(group, code == NCCL_REMOTE_ERROR ? ERR_CLOSED : ERR_IO, "NCCL on rank %u: %s: %s", group->rank, what,
                group->nccl->error_text(code)); /* the text tells how to make NCCL say more */
}

static int check_cuda(struct nccl_group *group, int code, const char *what)
{
    return code == CUDA_OK ? 0 : fail(group, ERR_IO, "CUDA on rank %u: %s: %s", group->rank, what,
                                      group->cuda->error_text(code));
}

/* For gpu_wait: whether the last call of a communicator is done. */
struct asked {
    struct nccl_group *group;
    nccl_comm comm;
    const char *what;
};

static int is_ready(void *context)
{
    const struct asked *asked = context;
    int state = NCCL_OK;
    int code = asked->group->nccl->comm_state(asked->comm, &state);
    code = code == NCCL_OK ? state : code;
    int error = check_nccl(asked->group, code, asked->what);
    return error != 0 ? error : code != NCCL_IN_PROGRESS;
}

static int is_through(void *context)
{
    const struct asked *asked = context;
    int code = asked->group->cuda->event_query(asked->group->after);
    if (code != CUDA_NOT_READY) {
        int error = check_cuda(asked->group, code, asked->what);
        return error != 0 ? error : 1;
    }
    int ready = is_ready(context); /* NCCL's own threads may have met an error */
    return ready < 0 ? ready : 0;
}

static int wait_for(struct nccl_group *group, nccl_comm comm, int (*done)(void *), int limit_ms, const char *what)
{
    struct asked asked = {group, comm, what};
    int error = gpu_wait(&group->watch, done, &asked, limit_ms, group->settle_ms, &group->gone);
    if (error == 0 || group->broken != 0) {
        return error;
    }
    if (error == ERR_TIMEOUT) {
        return fail(group, error, "NCCL stalled on rank %u: %s took longer than %d ms", group->rank, what, limit_ms);
    }
    return group->gone == GPU_NOBODY ? fail(group, error, "rank %u was told that its group is over", group->rank)
                                     : fail(group, error,
                                            "rank %u lost rank %u: it closed its links while NCCL had %s under way",
                                            group->rank, group->gone, what);
}

/* ---- the end of a communicator ---- */

static void add_remark(struct nccl_group *group, const char *remark)
{
    size_t used = strlen(group->error);
    bytes_copy_text(group->error + used, sizeof group->error - used, remark);
}

static void leave_behind(struct nccl_group *group)
{
    group->is_stuck = true;
    group->comm = NULL;
    add_remark(group, "; NCCL did not come back from ending its operations and is left behind");
}

static bool try_revoke(struct nccl_group *group)
{
    int code = NCCL_OK;
    if (group->nccl->comm_revoke == NULL || group->nccl->comm_shrink == NULL) {
        return false;
    }
    if (!call_nccl(group, NULL, group->nccl->comm_revoke, &code)) {
        leave_behind(group);
        return false;
    }
    char kept[NCCL_GROUP_ERROR_BYTES];
    int broken = group->broken;
    uint32_t gone;
    memcpy(kept, group->error, sizeof kept);
    struct asked asked = {group, group->comm, "ncclCommRevoke"};
    bool revoked = (code == NCCL_OK || code == NCCL_IN_PROGRESS) &&
                   gpu_wait(NULL, is_ready, &asked, group->end_ms, group->end_ms, &gone) == 0;
    memcpy(group->error, kept, sizeof kept);
    group->broken = broken;
    return revoked;
}

static void give_up(struct nccl_group *group)
{
    int code;
    if (group->comm == NULL) {
        return;
    }
    if (call_nccl(group, group->nccl->comm_abort, NULL, &code)) {
        group->comm = NULL;
    } else {
        leave_behind(group);
    }
}

/* Ends everything that runs on the GPU for this group, so that the memory belongs to the program again. */
static void stop(struct nccl_group *group)
{
    group->is_revoked = group->is_revoked || (group->comm != NULL && try_revoke(group));
    if (!group->is_revoked) {
        give_up(group);
    }
}

/* Finalizes the communicator with the other ranks, so that no rank's memory is read after it is gone. */
static void part(struct nccl_group *group)
{
    int code = NCCL_OK;
    uint32_t gone;
    struct asked asked = {group, group->comm, "ncclCommFinalize"};
    if (!group->is_revoked) {
        if (!call_nccl(group, group->nccl->comm_finalize, NULL, &code)) {
            leave_behind(group);
            return;
        }
        if ((code != NCCL_OK && code != NCCL_IN_PROGRESS) ||
            gpu_wait(NULL, is_ready, &asked, group->end_ms, group->end_ms, &gone) != 0) {
            code = NCCL_REMOTE_ERROR;
        }
    }
    bool well = code == NCCL_OK || code == NCCL_IN_PROGRESS;
    if (!call_nccl(group, well ? group->nccl->comm_destroy : group->nccl->comm_abort, NULL, &code)) {
        leave_behind(group);
    }
    group->comm = NULL;
}

static void close_stream(struct nccl_group *group)
{
    if (group->after != NULL) {
        (void)group->cuda->event_destroy(group->after);
    }
    if (group->before != NULL) {
        (void)group->cuda->event_destroy(group->before);
    }
    if (group->stream != NULL) {
        (void)group->cuda->stream_destroy(group->stream);
    }
}

bool nccl_group_close(struct nccl_group **group)
{
    struct nccl_group *g = *group;
    if (g == NULL) {
        return true;
    }
    *group = NULL;
    if (g->comm != NULL) {
        part(g);
    }
    bool came_back = !g->is_stuck;
    if (came_back) { /* otherwise the threads left behind may still use them */
        close_stream(g);
    }
    free(g);
    return came_back;
}

/* ---- open ---- */

int nccl_group_id(const struct nccl_library *nccl, struct nccl_id *out, char error[NCCL_GROUP_ERROR_BYTES])
{
    struct nccl_id id;
    int code = nccl->unique_id(&id);
    if (code != NCCL_OK) {
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "NCCL does not start: %s", nccl->error_text(code));
        return ERR_IO;
    }
    *out = id;
    return 0;
}

static struct nccl_group *group_new(const struct nccl_options *options, char error[NCCL_GROUP_ERROR_BYTES])
{
    struct nccl_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        (void)snprintf(error, NCCL_GROUP_ERROR_BYTES, "no memory is left for the group");
        return NULL;
    }
    group->nccl = options->nccl;
    group->cuda = options->cuda;
    group->rank = options->rank;
    group->size = options->size;
    group->stall_timeout_ms = options->stall_timeout_ms;
    group->settle_ms = options->settle_ms > 0 ? options->settle_ms : NCCL_SETTLE_MS;
    group->end_ms = options->end_ms > 0 ? options->end_ms : NCCL_END_MS;
    group->watch = options->watch;
    group->gone = GPU_NOBODY;
    return group;
}

static int make_stream(struct nccl_group *group)
{
    int error = check_cuda(group, group->cuda->stream_create(&group->stream, CUDA_STREAM_NON_BLOCKING), "a stream");
    if (error == 0) {
        error = check_cuda(group, group->cuda->event_create(&group->before, CUDA_EVENT_DISABLE_TIMING), "an event");
    }
    if (error == 0) {
        error = check_cuda(group, group->cuda->event_create(&group->after, CUDA_EVENT_DISABLE_TIMING), "an event");
    }
    return error;
}

/* Gives out a group whose communicator is made, or closes it. */
static int finish_open(struct nccl_group **out, struct nccl_group *group, int result, char error[NCCL_GROUP_ERROR_BYTES])
{
    if (result == 0) {
        error[0] = 0;
        *out = group;
        return 0;
    }
    give_up(group);
    bytes_copy_text(error, NCCL_GROUP_ERROR_BYTES, group->error);
    (void)nccl_group_close(&group);
    return result;
}

int nccl_group_open(struct nccl_group **out, const struct nccl_options *options, const struct nccl_id *id,
                    char error[NCCL_GROUP_ERROR_BYTES])
{
    struct nccl_group *group = group_new(options, error);
    if (group == NULL) {
        return ERR_MEMORY;
    }
    struct nccl_config config = {
        .size = sizeof config,
        .magic = NCCL_MAGIC,
        .version = NCCL_VERSION_MIN,
        .blocking = 0,
        .cga_cluster_size = NCCL_UNDEFINED,
        .ctas_min = NCCL_UNDEFINED,
        .ctas_max = NCCL_UNDEFINED,
        .split_share = NCCL_UNDEFINED,
    };
    int result = make_stream(group);
    if (result == 0) {
        int code = group->nccl->comm_init(&group->comm, (int)group->size, *id, (int)group->rank, &config);
        result = check_nccl(group, code, "a communicator");
    }
    if (result == 0) {
        result = wait_for(group, group->comm, is_ready, options->open_timeout_ms, "a communicator");
    }
    return finish_open(out, group, result, error);
}

bool nccl_group_can_shrink(const struct nccl_group *group)
{
    return group->comm != NULL && !group->is_stuck && group->nccl->comm_revoke != NULL && group->nccl->comm_shrink != NULL;
}

int nccl_group_shrink(struct nccl_group **out, struct nccl_group *old, const struct nccl_options *options,
                      const uint32_t *excluded, uint32_t excluded_count,
                      char error[NCCL_GROUP_ERROR_BYTES])
{
    CHECK(nccl_group_can_shrink(old) && excluded_count > 0 && excluded_count < PLAN_RANKS_MAX);
    struct nccl_group *group = group_new(options, error);
    if (group == NULL) {
        return ERR_MEMORY;
    }
    int without[PLAN_RANKS_MAX];
    for (uint32_t i = 0; i < excluded_count; i++) {
        without[i] = (int)excluded[i];
    }
    int result = make_stream(group);
    if (result == 0) {
        int code = group->nccl->comm_shrink(old->comm, without, (int)excluded_count, &group->comm, NULL, 0);
        result = check_nccl(group, code, "a smaller communicator");
    }
    /* NCCL gives the new communicator out when the old one is done with the call. */
    if (result == 0) {
        result = wait_for(group, old->comm, is_ready, options->open_timeout_ms, "a smaller communicator");
    }
    if (result == 0 && group->comm == NULL) {
        result = fail(group, ERR_IO, "NCCL on rank %u: a smaller communicator was not made", group->rank);
    }
    if (result == 0) {
        result = wait_for(group, group->comm, is_ready, options->open_timeout_ms, "a smaller communicator");
    }
    if (result != 0) {
        give_up(old); /* before the new one, because NCCL makes it in a thread of the old one */
        group->is_stuck = old->is_stuck;
    }
    return finish_open(out, group, result, error);
}

void nccl_group_set_timeout(struct nccl_group *group, int stall_timeout_ms)
{
    group->stall_timeout_ms = stall_timeout_ms;
}

const char *nccl_group_error(const struct nccl_group *group)
{
    return group->error;
}

/* ---- collectives ---- */

static int nccl_type(enum element_type type)
{
    static const int types[] = {
        [ELEMENT_F32] = NCCL_TYPE_F32, [ELEMENT_F16] = NCCL_TYPE_F16, [ELEMENT_BF16] = NCCL_TYPE_BF16,
        [ELEMENT_BYTES] = NCCL_TYPE_BYTES};
    return types[type];
}

/* Runs each slice by a call of its own, because slices may differ in length. */
static int run_slices(struct nccl_group *group, enum plan_kind kind, enum element_type type, uint8_t *values, uint64_t count)
{
    int first = NCCL_OK;
    for (uint32_t slice = 0; slice < group->size && first == NCCL_OK; slice++) {
        uint64_t start = plan_slice_start(count, group->size, slice);
        size_t length = (size_t)(plan_slice_start(count, group->size, slice + 1) - start);
        uint8_t *at = values + start * element_type_bytes(type);
        int code = length == 0 ? NCCL_OK
                   : kind == PLAN_ALL_GATHER
                       ? group->nccl->broadcast(at, at, length, nccl_type(type), (int)slice, group->comm, group->stream)
                       : group->nccl->reduce(at, at, length, nccl_type(type), NCCL_SUM, (int)slice, group->comm, group->stream);
        first = code == NCCL_IN_PROGRESS ? NCCL_OK : code;
    }
    return first;
}

static int start(struct nccl_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                 uint32_t root)
{
    switch (kind) {
    case PLAN_ALL_REDUCE:
        return group->nccl->all_reduce(values, values, count, nccl_type(type), NCCL_SUM, group->comm, group->stream);
    case PLAN_BROADCAST:
        return group->nccl->broadcast(values, values, count, nccl_type(type), (int)root, group->comm, group->stream);
    default: {
        int code = group->nccl->group_start();
        if (code != NCCL_OK) {
            return code;
        }
        int inside = run_slices(group, kind, type, values, count);
        code = group->nccl->group_end();
        return inside != NCCL_OK ? inside : code;
    }
    }
}

static int run_chunk(struct nccl_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                     uint32_t root)
{
    static const char *const whats[] = {[PLAN_ALL_REDUCE] = "an all-reduce",
                                        [PLAN_BROADCAST] = "a broadcast",
                                        [PLAN_REDUCE_SCATTER] = "a reduce-scatter",
                                        [PLAN_ALL_GATHER] = "an all-gather"};
    const char *what = whats[kind];
    int error = check_nccl(group, start(group, kind, type, values, count, root), what);
    if (error == 0) {
        error = wait_for(group, group->comm, is_ready, group->stall_timeout_ms, what);
    }
    if (error == 0) {
        error = check_cuda(group, group->cuda->event_record(group->after, group->stream), "an event");
    }
    return error != 0 ? error : wait_for(group, group->comm, is_through, group->stall_timeout_ms, what);
}

/* Makes the group's stream wait for the program's queued work. */
static int follow_program(struct nccl_group *group)
{
    int error = check_cuda(group, group->cuda->event_record(group->before, NULL), "work that the program has queued");
    return error != 0 ? error : check_cuda(group, group->cuda->stream_wait(group->stream, group->before, 0), "a stream");
}

int nccl_group_run(struct nccl_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                   uint32_t root)
{
    bool sums = kind == PLAN_ALL_REDUCE || kind == PLAN_REDUCE_SCATTER;
    size_t bytes = element_type_bytes(type);
    if (kind < PLAN_ALL_REDUCE || kind > PLAN_ALL_GATHER || bytes == 0 || (sums && !ELEMENT_ADDS(type)) ||
        root >= group->size) {
        return ERR_USAGE;
    }
    if (group->broken != 0 || count == 0) {
        return group->broken;
    }
    int error = follow_program(group);
    /* Slices are of the whole array, so collectives with slices run in one chunk. */
    bool is_whole = kind == PLAN_REDUCE_SCATTER || kind == PLAN_ALL_GATHER;
    uint64_t most = is_whole ? count : NCCL_CHUNK_BYTES / bytes;
    for (uint64_t done = 0; error == 0 && done < count;) {
        uint64_t part_count = count - done < most ? count - done : most;
        error = run_chunk(group, kind, type, (uint8_t *)values + done * bytes, part_count, root);
        done += part_count;
    }
    if (error != 0) {
        stop(group);
    }
    return error;
}

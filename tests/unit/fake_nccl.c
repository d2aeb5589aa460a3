/* A small libcudart and libnccl in one, for tests: a GPU is a part of this machine's memory, and processes that are in one
 * communicator meet in POSIX shared memory that is named after its id.
 *
 * Device memory cannot be touched from the host: the address that cudaMalloc gives is mapped without any access, and the fake
 * works on a second mapping of the same bytes. Streams are queues; what is in them is done when somebody asks about an event, so whoever
 * does not wait sees old values. A communicator is in progress for a few questions after each call, and what was called is
 * queued only then.
 *
 * The environment names what goes wrong: FAKE_CUDA=no_device; FAKE_CUDA_BUS is the GPU's bus id; FAKE_NCCL_VERSION; FAKE_NCCL=
 * id_fails, init_fails, end_hangs (no revoke and no abort comes back), shrink_fails; and of a collective that has begun, never
 * before: dies (this process is killed when all others have brought their part), stops (it brings nothing), signals (it raises
 * SIGALRM when it has brought its part). Built with FAKE_WITHOUT_SHRINK it is an older
 * NCCL, with FAKE_WITHOUT_BROADCAST it lacks a function. The declarations are written anew here, so that a mistake in train/group/gpu/nccl_abi.h
 * does not hide itself. */
#include "tests/unit/fake_nccl.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define RANKS_MAX 8
#define BLOCKS_MAX 64
#define PIECE_BYTES (256 * 1024)
#define POLLS 3 /* for which a communicator is in progress after a call */

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef struct {
    size_t size;
    unsigned int magic, version;
    int blocking, cgaClusterSize, minCTAs, maxCTAs;
    const char *netName;
    int splitShare;
} config;

typedef struct {
    int type, device;
    void *devicePointer, *hostPointer;
} pointer_attributes; /* of CUDA 11 and 12 */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int misuses, made[2], alive;

static bool asked_for(const char *fault)
{
    const char *value = getenv("FAKE_NCCL");
    return value != NULL && strcmp(value, fault) == 0;
}

/* ---- memory ---- */

static struct block {
    uint8_t *device, *alias;
    size_t bytes;
} blocks[BLOCKS_MAX];

static struct block *block_of(const void *memory)
{
    for (size_t i = 0; i < BLOCKS_MAX; i++) {
        const uint8_t *at = memory;
        if (blocks[i].device != NULL && at >= blocks[i].device && at < blocks[i].device + blocks[i].bytes) {
            return &blocks[i];
        }
    }
    return NULL;
}

static void *reach(const void *memory)
{
    struct block *block = block_of(memory);
    return block == NULL ? (void *)(uintptr_t)memory : block->alias + ((const uint8_t *)memory - block->device);
}

int cudaMalloc(void **out, size_t bytes);
int cudaFree(void *memory);
int cudaMallocHost(void **out, size_t bytes);
int cudaFreeHost(void *memory);
int cudaPointerGetAttributes(pointer_attributes *out, const void *memory);
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind);

int cudaMalloc(void **out, size_t bytes)
{
    int fd = memfd_create("fake device", MFD_CLOEXEC);
    struct block block = {.bytes = bytes > 0 ? bytes : 1};
    if (fd < 0 || ftruncate(fd, (off_t)block.bytes) != 0) {
        return 2;
    }
    block.device = mmap(NULL, block.bytes, PROT_NONE, MAP_SHARED, fd, 0);
    block.alias = mmap(NULL, block.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (block.device == MAP_FAILED || block.alias == MAP_FAILED) {
        return 2;
    }
    (void)pthread_mutex_lock(&mutex);
    size_t i = 0;
    while (i < BLOCKS_MAX && blocks[i].device != NULL) {
        i++;
    }
    if (i < BLOCKS_MAX) {
        blocks[i] = block;
    }
    (void)pthread_mutex_unlock(&mutex);
    *out = block.device;
    return i < BLOCKS_MAX ? 0 : 2;
}

int cudaFree(void *memory)
{
    (void)pthread_mutex_lock(&mutex);
    struct block *block = block_of(memory), freed = {0};
    if (block != NULL) {
        freed = *block;
        *block = (struct block){0};
    }
    (void)pthread_mutex_unlock(&mutex);
    if (freed.device == NULL) {
        return 1;
    }
    (void)munmap(freed.device, freed.bytes);
    (void)munmap(freed.alias, freed.bytes);
    return 0;
}

int cudaMallocHost(void **out, size_t bytes)
{
    *out = malloc(bytes);
    return *out != NULL ? 0 : 2;
}

int cudaFreeHost(void *memory)
{
    free(memory);
    return 0;
}

int cudaPointerGetAttributes(pointer_attributes *out, const void *memory)
{
    (void)pthread_mutex_lock(&mutex);
    *out = (pointer_attributes){.type = block_of(memory) != NULL ? 2 : 0};
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

/* ---- streams: queues of things to do ---- */

struct stream;
struct comm;

struct event {
    struct stream *stream;
    uint64_t at; /* what has to be done of it */
};

enum job_kind { WAIT, COPY, FILL, ALL_REDUCE, REDUCE, BROADCAST };

struct job {
    enum job_kind kind;
    struct event event; /* WAIT */
    void *to;
    const void *from;
    size_t bytes; /* COPY, FILL */
    float value;
    int polls;
    struct comm *comm; /* the rest: NULL when it was aborted */
    int type, root;
    size_t count, done; /* elements */
    bool is_posted;     /* of the piece that is under way */
    struct job *next;
};

struct stream {
    uint64_t queued, done;
    struct job *first, **last;
    struct stream *next;
};

static struct stream program = {.last = &program.first}; /* the default stream */
static struct stream *streams = &program;

static void push(struct stream *stream, const struct job *job)
{
    struct job *copy = malloc(sizeof *copy);
    if (copy == NULL) {
        abort();
    }
    *copy = *job;
    copy->next = NULL;
    *stream->last = copy;
    stream->last = &copy->next;
    stream->queued++;
}

static bool run_collective(struct job *job);

static bool run_job(struct job *job)
{
    switch (job->kind) {
    case WAIT:
        return job->event.stream->done >= job->event.at;
    case COPY:
        memcpy(reach(job->to), reach(job->from), job->bytes);
        return true;
    case FILL:
        if (job->polls-- > 0) {
            return false;
        }
        for (size_t i = 0; i < job->bytes / sizeof(float); i++) {
            ((float *)reach(job->to))[i] = job->value;
        }
        return true;
    default:
        return run_collective(job);
    }
}

static void run_streams(void)
{
    for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
        while (stream->first != NULL && run_job(stream->first)) {
            struct job *job = stream->first;
            stream->first = job->next;
            if (stream->first == NULL) {
                stream->last = &stream->first;
            }
            free(job);
            stream->done++;
        }
    }
}

int cudaStreamCreateWithFlags(struct stream **out, unsigned int flags);
int cudaStreamDestroy(struct stream *stream);
int cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned int flags);
int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, struct stream *stream);
int cudaEventCreateWithFlags(struct event **out, unsigned int flags);
int cudaEventDestroy(struct event *event);
int cudaEventRecord(struct event *event, struct stream *stream);
int cudaEventQuery(struct event *event);

int fake_fill(float *device, float value, size_t count, int polls)
{
    (void)pthread_mutex_lock(&mutex);
    push(&program, &(struct job){.kind = FILL, .to = device, .value = value, .bytes = count * sizeof value, .polls = polls});
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int cudaStreamCreateWithFlags(struct stream **out, unsigned int flags)
{
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || flags != 1) {
        free(stream);
        return 2;
    }
    (void)pthread_mutex_lock(&mutex);
    stream->last = &stream->first;
    stream->next = streams;
    streams = stream;
    (void)pthread_mutex_unlock(&mutex);
    *out = stream;
    return 0;
}

int cudaStreamDestroy(struct stream *stream)
{
    (void)pthread_mutex_lock(&mutex);
    run_streams(); /* what was aborted comes to its end */
    for (struct stream **at = &streams; *at != NULL; at = &(*at)->next) {
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    }
    misuses += stream->first != NULL;
    (void)pthread_mutex_unlock(&mutex);
    free(stream);
    return 0;
}

int cudaStreamWaitEvent(struct stream *stream, struct event *event, unsigned int flags)
{
    (void)flags;
    (void)pthread_mutex_lock(&mutex);
    push(stream, &(struct job){.kind = WAIT, .event = *event});
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, struct stream *stream)
{
    if (kind != 4) {
        return 1;
    }
    (void)pthread_mutex_lock(&mutex);
    push(stream, &(struct job){.kind = COPY, .to = to, .from = from, .bytes = bytes});
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int cudaEventCreateWithFlags(struct event **out, unsigned int flags)
{
    *out = flags == 2 ? calloc(1, sizeof **out) : NULL;
    return *out != NULL ? 0 : 2;
}

int cudaEventDestroy(struct event *event)
{
    free(event);
    return 0;
}

static bool is_behind_a_busy_communicator(const struct stream *stream);

int cudaEventRecord(struct event *event, struct stream *stream)
{
    (void)pthread_mutex_lock(&mutex);
    struct stream *of = stream != NULL ? stream : &program;
    misuses += is_behind_a_busy_communicator(of);
    *event = (struct event){of, of->queued};
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int cudaEventQuery(struct event *event)
{
    (void)pthread_mutex_lock(&mutex);
    run_streams();
    bool done = event->stream == NULL || event->stream->done >= event->at;
    (void)pthread_mutex_unlock(&mutex);
    return done ? 0 : 600;
}

/* What the program does on its own stream, at once and to the end. */
int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
    (void)kind;
    (void)pthread_mutex_lock(&mutex);
    while (program.first != NULL) {
        run_streams();
    }
    memcpy(reach(to), reach(from), bytes);
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

/* ---- devices ---- */

static _Thread_local int current_device;

int cudaRuntimeGetVersion(int *version);
int cudaGetDeviceCount(int *count);
int cudaGetDevice(int *device);
int cudaSetDevice(int device);
int cudaDeviceGetPCIBusId(char *text, int length, int device);
const char *cudaGetErrorString(int code);

int cudaRuntimeGetVersion(int *version)
{
    const char *value = getenv("FAKE_CUDA_VERSION");
    *version = value != NULL ? atoi(value) : 12040;
    return 0;
}

int cudaGetDeviceCount(int *count)
{
    const char *value = getenv("FAKE_CUDA");
    *count = 2;
    return value != NULL && strcmp(value, "no_device") == 0 ? 100 : 0;
}

int cudaGetDevice(int *device)
{
    *device = current_device;
    return 0;
}

int cudaSetDevice(int device)
{
    current_device = device;
    return device < 2 ? 0 : 101;
}

int cudaDeviceGetPCIBusId(char *text, int length, int device)
{
    const char *value = getenv("FAKE_CUDA_BUS");
    (void)snprintf(text, (size_t)length, "%s%d", value != NULL ? value : "0000:01:00.", device);
    return 0;
}

const char *cudaGetErrorString(int code)
{
    return code == 0 ? "no error" : code == 100 ? "no CUDA-capable device is detected" : "an error of CUDA";
}

/* ---- communicators ---- */

struct place { /* of a rank, in the memory that all map */
    _Atomic uint64_t posted, taken; /* pieces */
    uint8_t pieces[2][PIECE_BYTES];
};

struct shared {
    atomic_uint attached;
    struct place places[RANKS_MAX];
};

struct comm {
    struct shared *shared;
    char name[64];
    int rank, size;
    uint64_t piece; /* the last one that was begun */
    int polls;      /* more of being in progress */
    int state;      /* then */
    bool is_attached, is_finalized, is_revoked;
    struct job waiting[RANKS_MAX]; /* called, not queued yet */
    struct stream *waiting_for[RANKS_MAX];
    size_t waiting_count;
    struct comm *child, **child_out; /* that ncclCommShrink makes */
    struct comm *next;
};

static struct comm *comms;
static _Thread_local int group_depth;

static bool is_behind_a_busy_communicator(const struct stream *stream)
{
    for (struct comm *comm = comms; comm != NULL; comm = comm->next) {
        for (size_t i = 0; i < comm->waiting_count; i++) {
            if (comm->waiting_for[i] == stream) {
                return true;
            }
        }
    }
    return false;
}

static struct comm *attach(const char *name, int rank, int size)
{
    struct comm *comm = calloc(1, sizeof *comm);
    int fd = shm_open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (comm == NULL || fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0) {
        abort();
    }
    comm->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (comm->shared == MAP_FAILED) {
        abort();
    }
    (void)snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->rank = rank;
    comm->size = size;
    comm->next = comms;
    comms = comm;
    alive++;
    if (!asked_for("init_fails")) {
        atomic_fetch_add(&comm->shared->attached, 1);
    }
    return comm;
}

static void detach(struct comm *comm)
{
    for (struct comm **at = &comms; *at != NULL; at = &(*at)->next) {
        if (*at == comm) {
            *at = comm->next;
            break;
        }
    }
    (void)shm_unlink(comm->name);
    (void)munmap(comm->shared, sizeof *comm->shared);
    free(comm);
    alive--;
}

/* What is under way ends without a result. */
static void drop_jobs(const struct comm *comm)
{
    for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
        for (struct job *job = stream->first; job != NULL; job = job->next) {
            job->comm = job->comm == comm ? NULL : job->comm;
        }
    }
}

static size_t type_bytes(int type)
{
    return type == 7 ? 4 : type == 6 || type == 9 ? 2 : 1;
}

static float bf16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &wide, sizeof number);
    return number;
}

/* Exact for the numbers of the tests. */
static uint16_t bf16_of(float number)
{
    uint32_t wide;
    memcpy(&wide, &number, sizeof wide);
    return (uint16_t)(wide >> 16);
}

static void add(int type, void *to, const void *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (type == 7) {
            ((float *)to)[i] += ((const float *)from)[i];
        } else if (type == 9) {
            ((uint16_t *)to)[i] = bf16_of(bf16(((uint16_t *)to)[i]) + bf16(((const uint16_t *)from)[i]));
        } else {
            misuses++;
        }
    }
}

static void take(const struct job *job, size_t length, unsigned side)
{
    struct comm *comm = job->comm;
    size_t each = type_bytes(job->type);
    uint8_t *to = (uint8_t *)reach(job->to) + job->done * each;
    if (job->kind == BROADCAST) {
        memcpy(to, comm->shared->places[job->root].pieces[side], length * each);
    } else if (job->kind == ALL_REDUCE || comm->rank == job->root) {
        memcpy(to, comm->shared->places[0].pieces[side], length * each);
        for (int rank = 1; rank < comm->size; rank++) {
            add(job->type, to, comm->shared->places[rank].pieces[side], length);
        }
    }
}

static bool have_others_posted(const struct comm *comm, uint64_t piece)
{
    for (int rank = 0; rank < comm->size; rank++) {
        if (rank != comm->rank && atomic_load(&comm->shared->places[rank].posted) < piece) {
            return false;
        }
    }
    return true;
}

/* Whether the collective goes on. */
static bool meet_fault(const struct comm *comm, uint64_t piece)
{
    if (asked_for("dies") && have_others_posted(comm, piece)) {
        (void)raise(SIGKILL);
    }
    return !asked_for("dies") && !asked_for("stops");
}

/* Piece by piece; true when all is done. */
static bool run_collective(struct job *job)
{
    struct comm *comm = job->comm;
    size_t each = type_bytes(job->type), most = PIECE_BYTES / each;
    while (comm != NULL && job->done < job->count) {
        size_t length = job->count - job->done < most ? job->count - job->done : most;
        struct place *own = &comm->shared->places[comm->rank];
        uint64_t piece = job->is_posted ? comm->piece : comm->piece + 1;
        for (int rank = 0; rank < comm->size; rank++) {
            struct place *place = &comm->shared->places[rank];
            if (job->is_posted ? atomic_load(&place->posted) < piece : atomic_load(&place->taken) + 2 < piece) {
                return false;
            }
        }
        if (!job->is_posted) {
            if (!meet_fault(comm, piece)) {
                return false;
            }
            memcpy(own->pieces[piece % 2], (const uint8_t *)reach(job->from) + job->done * each, length * each);
            comm->piece = piece;
            atomic_store(&own->posted, piece);
            job->is_posted = true;
            if (asked_for("signals")) {
                (void)raise(SIGALRM);
            }
            continue;
        }
        take(job, length, piece % 2);
        atomic_store(&own->taken, piece);
        job->done += length;
        job->is_posted = false;
    }
    return true;
}

int ncclGetVersion(int *version);
const char *ncclGetErrorString(int code);
int ncclGetUniqueId(ncclUniqueId *out);
int ncclCommInitRankConfig(struct comm **out, int size, ncclUniqueId id, int rank, config *options);
int ncclCommGetAsyncError(struct comm *comm, int *state);
int ncclCommFinalize(struct comm *comm);
int ncclCommDestroy(struct comm *comm);
int ncclCommAbort(struct comm *comm);
int ncclGroupStart(void);
int ncclGroupEnd(void);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *comm, struct stream *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, struct comm *comm, struct stream *stream);
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm, struct stream *stream);
int ncclCommRevoke(struct comm *comm, int flags);
int ncclCommShrink(struct comm *comm, int *excluded, int excluded_count, struct comm **out, config *options, int flags);

int ncclGetVersion(int *version)
{
    const char *value = getenv("FAKE_NCCL_VERSION");
#ifdef FAKE_WITHOUT_SHRINK
    *version = 21805;
#else
    *version = 22809;
#endif
    *version = value != NULL ? atoi(value) : *version;
    return 0;
}

const char *ncclGetErrorString(int code)
{
    return code == 2 ? "unhandled system error" : code == 4 ? "invalid argument" : code == 5 ? "invalid usage" : "an error of NCCL";
}

int ncclGetUniqueId(ncclUniqueId *out)
{
    memset(out, 0, sizeof *out);
    if (asked_for("id_fails") || getrandom(out->internal, 16, 0) != 16) {
        return 2;
    }
    return 0;
}

int ncclCommInitRankConfig(struct comm **out, int size, ncclUniqueId id, int rank, config *options)
{
    if (options->size < offsetof(config, splitShare) || options->magic != 0xcafebeef || options->blocking != 0 ||
        options->minCTAs != INT_MIN || size > RANKS_MAX) {
        return 4;
    }
    char name[48] = "/shoal-fake-nccl-";
    for (size_t i = 0; i < 12; i++) {
        (void)snprintf(name + strlen(name), 3, "%02x", (unsigned)(uint8_t)id.internal[i]);
    }
    (void)pthread_mutex_lock(&mutex);
    *out = attach(name, rank, size);
    (*out)->state = asked_for("init_fails") ? 2 : 0;
    made[0]++;
    (void)pthread_mutex_unlock(&mutex);
    return 7;
}

static void finish_shrink(struct comm *comm)
{
    struct comm *child = comm->child;
    if (child != NULL && atomic_load(&child->shared->attached) >= (unsigned)child->size) {
        child->is_attached = true;
        (void)shm_unlink(child->name);
        *comm->child_out = child;
        comm->child = NULL;
    }
}

int ncclCommGetAsyncError(struct comm *comm, int *state)
{
    (void)pthread_mutex_lock(&mutex);
    *state = 7;
    if (comm->polls > 0) {
        comm->polls--;
    } else if (comm->state != 0) {
        *state = comm->state;
    } else if (!comm->is_attached && atomic_load(&comm->shared->attached) < (unsigned)comm->size) {
        /* the others are still to come */
    } else if (comm->child != NULL) {
        finish_shrink(comm);
    } else {
        if (!comm->is_attached) {
            comm->is_attached = true;
            (void)shm_unlink(comm->name);
        }
        for (size_t i = 0; i < comm->waiting_count; i++) {
            push(comm->waiting_for[i], &comm->waiting[i]);
        }
        comm->waiting_count = 0;
        *state = 0;
    }
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

/* Until the test program ends. */
static void hang(void)
{
    for (;;) {
        (void)pause();
    }
}

int ncclCommFinalize(struct comm *comm)
{
    (void)pthread_mutex_lock(&mutex);
    misuses += comm->is_revoked || comm->is_finalized || comm->polls > 0;
    comm->is_finalized = true;
    comm->polls = POLLS;
    (void)pthread_mutex_unlock(&mutex);
    return 7;
}

int ncclCommDestroy(struct comm *comm)
{
    (void)pthread_mutex_lock(&mutex);
    misuses += (!comm->is_finalized && !comm->is_revoked) || comm->polls > 0;
    detach(comm);
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int ncclCommAbort(struct comm *comm)
{
    if (asked_for("end_hangs")) {
        hang();
    }
    (void)pthread_mutex_lock(&mutex);
    drop_jobs(comm);
    if (comm->child != NULL) {
        detach(comm->child);
    }
    detach(comm);
    (void)pthread_mutex_unlock(&mutex);
    return 0;
}

int ncclGroupStart(void)
{
    group_depth++;
    return 0;
}

int ncclGroupEnd(void)
{
    group_depth--;
    return 7;
}

static int call(struct comm *comm, struct stream *stream, const struct job *job)
{
    int result = group_depth > 0 ? 0 : 7;
    (void)pthread_mutex_lock(&mutex);
    if (!comm->is_attached || comm->is_revoked || comm->is_finalized || comm->waiting_count == RANKS_MAX ||
        (group_depth == 0 && (comm->polls > 0 || comm->waiting_count > 0)) || block_of(job->to) == NULL) {
        misuses++;
        result = 5;
    } else {
        comm->waiting[comm->waiting_count] = *job;
        comm->waiting[comm->waiting_count].comm = comm;
        comm->waiting_for[comm->waiting_count++] = stream;
        comm->polls = POLLS;
    }
    (void)pthread_mutex_unlock(&mutex);
    return result;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, struct comm *comm, struct stream *stream)
{
    return op != 0 ? 4
                   : call(comm, stream, &(struct job){.kind = ALL_REDUCE, .from = from, .to = to, .count = count, .type = type});
}

int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, struct comm *comm, struct stream *stream)
{
    struct job job = {.kind = REDUCE, .from = from, .to = to, .count = count, .type = type, .root = root};
    return op != 0 ? 4 : call(comm, stream, &job);
}

#ifndef FAKE_WITHOUT_BROADCAST
int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, struct comm *comm, struct stream *stream)
{
    struct job job = {.kind = BROADCAST, .from = from, .to = to, .count = count, .type = type, .root = root};
    return call(comm, stream, &job);
}
#endif

#ifndef FAKE_WITHOUT_SHRINK
int ncclCommRevoke(struct comm *comm, int flags)
{
    if (asked_for("end_hangs")) {
        hang();
    }
    if (flags != 0 || comm->is_revoked || comm->is_finalized) {
        return 4;
    }
    (void)pthread_mutex_lock(&mutex);
    drop_jobs(comm);
    comm->waiting_count = 0;
    comm->is_revoked = true;
    comm->polls = POLLS;
    (void)pthread_mutex_unlock(&mutex);
    return 7;
}

int ncclCommShrink(struct comm *comm, int *excluded, int excluded_count, struct comm **out, config *options, int flags)
{
    (void)options;
    if (excluded_count < 1 || flags != 0 || asked_for("shrink_fails")) {
        return 4;
    }
    unsigned without = 0;
    int rank = comm->rank;
    for (int i = 0; i < excluded_count; i++) {
        without |= 1u << excluded[i];
        rank -= excluded[i] < comm->rank;
        misuses += excluded[i] == comm->rank;
    }
    (void)pthread_mutex_lock(&mutex);
    char name[sizeof comm->name + 12];
    (void)snprintf(name, sizeof name, "%.40s-%x", comm->name, without);
    misuses += comm->polls > 0;
    *out = NULL;
    comm->child = attach(name, rank, comm->size - excluded_count);
    comm->child_out = out;
    comm->polls = POLLS;
    made[1]++;
    (void)pthread_mutex_unlock(&mutex);
    return 7;
}
#endif

/* ---- for tests ---- */

int fake_alive(void)
{
    return alive;
}

int fake_made(int by_shrinking)
{
    return made[by_shrinking != 0];
}

int fake_misused(void)
{
    return misuses;
}

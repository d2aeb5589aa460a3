#include "train/shm_group.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "train/reduce_cpu.h"
#include "train/shm_meet.h"
#include "train/shm_memory.h"

/* A collective is a row of phases, numbered through the life of the group. In a phase each rank writes what it is doing
 * into its own line of its own area, the number of the phase last, and waits until all have that number. Nobody can be in
 * phase p + 2 before everybody has left phase p, so two lines, used in turn, are never written while they are read. All
 * that a peer writes is read once, into memory of our own, and checked there before it is used.
 *
 *     direct     phase | sum the own slice of all ranks' memory, store it to all of them | phase
 *     small      copy own elements to the area | phase | sum all areas' into own memory
 *     in pieces  direct, piece by piece, where memory that is not the group's is copied to the area before and back after,
 *                while the next piece is summed: three pieces are on their way, so one phase each is enough
 *
 * Cost for n ranks, in bytes that a rank moves: direct reads and writes one array, small reads n and writes two. Each
 * phase is a wait for all ranks, which is short while each has a processor and a change of processes for each when not. */

#define SMALL_BYTES (16u * 1024)   /* of one rank's elements at most, and */
#define SMALL_TOTAL (32u * 1024)   /* of all ranks' together: beyond, a second phase is cheaper than reading them all */
#define TINY_TOTAL 1024            /* copied, though it be the group's memory, to save the second phase, */
#define TINY_TOTAL_CROWDED 8192    /* which costs more when not all ranks run at once */
#define PIECE_BYTES (256u * 1024)  /* small enough that the pieces of some ranks stay in a cache */
#define PIECES 3
#define STREAM_BYTES (8u * 1024 * 1024) /* a copy of so much is not read again before it has left the caches */
#define LINE_WORDS 8
#define PROCESSORS_MAX 1024

#define SPINS 2000        /* while each rank has a processor: some 40 us */
#define YIELD_US 200      /* when it has not: how long to offer the processor before sleeping */
#define WATCH_MS 20       /* a sleeper looks for dead peers so often */

/* What a rank does: the words of a line. ARRIVED is the number of the phase, written last. OPERATION, COUNT and WHAT are
 * the same on all ranks, or somebody is wrong. */
enum word { ARRIVED, GENERATION, OPERATION, COUNT, WHAT, OFFSET, SEGMENT };

enum kind { ALL_REDUCE = 1, REDUCE_SCATTER, ALL_GATHER, BROADCAST, BARRIER };

#define REVOKED 1u    /* by the word of somebody outside */
#define GIVEN_UP 2u   /* plus a rank: that rank's group broke */

struct area {
    _Alignas(64) _Atomic uint64_t lines[2][LINE_WORDS];
    _Alignas(64) _Atomic uint32_t revoked; /* 0, REVOKED, or GIVEN_UP + rank */
    _Alignas(64) _Atomic uint32_t gate;    /* of rank 0's area: a futex that all sleep on, counted up to wake them */
    _Atomic uint32_t sleepers;
    _Alignas(64) uint64_t processors[PROCESSORS_MAX / 64]; /* that this rank may run on, when it opened */
    _Alignas(4096) uint8_t small[2][SMALL_BYTES];
    _Alignas(4096) uint8_t pieces[PIECES][PIECE_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is 32 bits");

/* On a rank's socket after the handshake. NEW carries a descriptor. */
enum { SEGMENT_NEW = 1, SEGMENT_GONE = 2 };

struct message {
    uint32_t kind, segment;
    uint64_t bytes;
};

struct segment {
    uint32_t id; /* 0: free */
    uint8_t *memory;
    size_t bytes;
    int fd;    /* own ones until the others are told, then -1 */
    bool told; /* own ones: the others have it */
};

struct peer {
    int socket;
    struct area *area;
    uint32_t messages; /* taken from its socket */
    struct segment segments[SHM_GROUP_ALLOCATIONS_MAX];
};

struct shm_group {
    uint32_t rank, size;
    uint64_t generation;
    uint64_t operation; /* of the collective that runs or ran last */
    uint64_t phase;
    int stall_timeout_ms;
    enum reduce_variant variant;
    bool crowded;            /* more ranks than processors */
    uint64_t words[LINE_WORDS]; /* what the own line says */
    uint32_t segment_last;   /* newest id */
    uint32_t segment_count;  /* own ones */
    uint32_t messages;       /* sent to each peer */
    uint32_t gone[SHM_GROUP_ALLOCATIONS_MAX]; /* freed segments that the others still have */
    size_t gone_count;
    uint8_t *bases[SHM_GROUP_RANKS_MAX]; /* of each rank's array in a large operation; NULL: it goes through its area */
    uint32_t refused;
    int broken; /* the error that ended the group, or 0 */
    char error[SHM_GROUP_ERROR_BYTES];
    struct peer peers[SHM_GROUP_RANKS_MAX]; /* the own rank too: its area and its segments */
};

static uint64_t clock_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void pause_briefly(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- waking and breaking ---- */

static void wake(struct shm_group *group)
{
    struct area *area = group->peers[0].area;
    if (atomic_load(&area->sleepers) != 0) {
        atomic_fetch_add(&area->gate, 1);
        (void)syscall(SYS_futex, &area->gate, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

static void revoke_all(struct shm_group *group, uint32_t why)
{
    for (uint32_t i = 0; i < group->size; i++) {
        uint32_t none = 0;
        (void)atomic_compare_exchange_strong(&group->peers[i].area->revoked, &none, why);
    }
    wake(group);
}

void shm_group_revoke(struct shm_group *group)
{
    revoke_all(group, REVOKED);
}

__attribute__((format(printf, 3, 4))) static int fail(struct shm_group *group, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(group->error, sizeof group->error, format, arguments);
    va_end(arguments);
    group->broken = error;
    revoke_all(group, GIVEN_UP + group->rank);
    return error;
}

/* 0, or the error that somebody else has ended the group with. */
static int check_revoked(struct shm_group *group)
{
    uint32_t why = atomic_load(&group->peers[group->rank].area->revoked);
    if (why == 0) {
        return 0;
    }
    if (why == REVOKED) {
        return fail(group, ERR_CLOSED, "the group of rank %u was revoked: it goes on in another generation, or not at all",
                    group->rank);
    }
    return fail(group, ERR_CLOSED, "rank %u has given up the group: its own error tells why", why - GIVEN_UP);
}

/* ---- phases ---- */

static _Atomic uint64_t *line_of(const struct shm_group *group, uint32_t rank)
{
    return group->peers[rank].area->lines[group->phase & 1];
}

static bool arrived(const struct shm_group *group, uint32_t rank)
{
    return atomic_load(&line_of(group, rank)[ARRIVED]) == group->phase;
}

/* The first rank that is not there, or `size`. */
static uint32_t first_missing(const struct shm_group *group)
{
    uint32_t i = 0;
    while (i < group->size && arrived(group, i)) {
        i++;
    }
    return i;
}

/* A socket that hung up belongs to a process that is gone or has closed the group; which is fine if it has done its part. */
static int check_alive(struct shm_group *group)
{
    struct pollfd fds[SHM_GROUP_RANKS_MAX];
    for (uint32_t i = 0; i < group->size; i++) {
        fds[i] = (struct pollfd){.fd = group->peers[i].socket};
    }
    if (poll(fds, group->size, 0) <= 0) {
        return 0;
    }
    for (uint32_t i = 0; i < group->size; i++) {
        if (fds[i].revents != 0 && !arrived(group, i)) {
            return fail(group, ERR_CLOSED, "rank %u lost rank %u: its process has ended or left the group", group->rank, i);
        }
    }
    return 0;
}

/* Sleeps until somebody opens the gate, WATCH_MS at most. Whoever arrives last sees that all are there and that there are
 * sleepers, or we see that all are there: these four accesses have one order. */
static void sleep_at_gate(struct shm_group *group)
{
    struct area *area = group->peers[0].area;
    atomic_fetch_add(&area->sleepers, 1);
    uint32_t gate = atomic_load(&area->gate);
    if (first_missing(group) < group->size && atomic_load(&group->peers[group->rank].area->revoked) == 0) {
        struct timespec limit = {.tv_nsec = WATCH_MS * 1000000};
        (void)syscall(SYS_futex, &area->gate, FUTEX_WAIT, gate, &limit, NULL, 0);
    }
    atomic_fetch_sub(&area->sleepers, 1);
}

static int wait_long(struct shm_group *group)
{
    uint64_t began_us = clock_us(), watched_us = began_us;
    uint32_t missing;
    while ((missing = first_missing(group)) < group->size) {
        int error = check_revoked(group);
        if (error != 0) {
            return error;
        }
        uint64_t now_us = clock_us();
        if (now_us - began_us >= (uint64_t)group->stall_timeout_ms * 1000) {
            return fail(group, ERR_TIMEOUT, "a collective stalled on rank %u: rank %u did not come within %d ms", group->rank,
                        missing, group->stall_timeout_ms);
        }
        if (now_us - watched_us >= WATCH_MS * 1000) {
            watched_us = now_us;
            error = check_alive(group);
            if (error != 0) {
                return error;
            }
        }
        if (group->crowded && now_us - began_us < YIELD_US) {
            (void)sched_yield();
        } else {
            sleep_at_gate(group);
        }
    }
    return 0;
}

static int wait_all(struct shm_group *group)
{
    if (first_missing(group) == group->size) {
        wake(group);
        return 0;
    }
    if (!group->crowded) {
        uint32_t spins = 0;
        for (uint32_t i = 0; i < group->size; i++) {
            while (!arrived(group, i) && spins < SPINS) {
                pause_briefly();
                spins++;
            }
        }
        if (spins < SPINS) {
            return 0;
        }
    }
    return wait_long(group);
}

static const char *kind_name(uint64_t what)
{
    static const char *const names[] = {"no collective", "all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                        "barrier"};
    uint64_t kind = what & 0xff;
    return kind <= BARRIER ? names[kind] : "no collective";
}

static const char *type_name(uint64_t what)
{
    static const char *const names[] = {"bytes", "float32", "float16", "bfloat16"};
    uint64_t type = what >> 8 & 0xff;
    return type <= REDUCE_BF16 ? names[type] : "elements of no type";
}

static int fail_differs(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS])
{
    const uint64_t *ours = group->words;
    return fail(group, ERR_MALFORMED,
                "rank %u is in operation %" PRIu64 " (%s of %" PRIu64 " %s, root %u), rank %u in %" PRIu64 " (%s of %" PRIu64
                " %s, root %u): every rank must call the same collectives with the same counts",
                rank, theirs[OPERATION], kind_name(theirs[WHAT]), theirs[COUNT], type_name(theirs[WHAT]),
                (unsigned)(theirs[WHAT] >> 16 & 0xffff), group->rank, ours[OPERATION], kind_name(ours[WHAT]), ours[COUNT],
                type_name(ours[WHAT]), (unsigned)(ours[WHAT] >> 16 & 0xffff));
}

static void read_line(const struct shm_group *group, uint32_t rank, uint64_t words[LINE_WORDS])
{
    _Atomic uint64_t *line = line_of(group, rank);
    for (size_t w = 0; w < LINE_WORDS; w++) {
        words[w] = atomic_load_explicit(&line[w], memory_order_relaxed);
    }
}

/* Waits until all ranks are in the next phase, and checks that they mean the same. */
static int phase(struct shm_group *group)
{
    group->phase++;
    _Atomic uint64_t *line = line_of(group, group->rank);
    for (size_t w = ARRIVED + 1; w < LINE_WORDS; w++) {
        atomic_store_explicit(&line[w], group->words[w], memory_order_relaxed);
    }
    atomic_store(&line[ARRIVED], group->phase);
    int error = wait_all(group);
    for (uint32_t i = 0; i < group->size && error == 0; i++) {
        uint64_t theirs[LINE_WORDS];
        read_line(group, i, theirs);
        if (theirs[GENERATION] != group->words[GENERATION] || theirs[OPERATION] != group->words[OPERATION] ||
            theirs[COUNT] != group->words[COUNT] || theirs[WHAT] != group->words[WHAT]) {
            error = fail_differs(group, i, theirs);
        }
    }
    group->words[WHAT] += UINT64_C(1) << 32; /* the next phase of the same operation */
    return error;
}

/* ---- segments ---- */

static struct segment *segment_of(struct peer *peer, uint32_t id)
{
    for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
        if (peer->segments[i].id == id) {
            return &peer->segments[i];
        }
    }
    return NULL;
}

static void segment_end(struct segment *segment)
{
    if (segment->id != 0) {
        (void)munmap(segment->memory, segment->bytes);
        if (segment->fd >= 0) {
            (void)close(segment->fd);
        }
    }
    *segment = (struct segment){.fd = -1};
}

int shm_group_alloc(struct shm_group *group, size_t bytes, void **out)
{
    struct segment *place = segment_of(&group->peers[group->rank], 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (bytes == 0) {
        return ERR_USAGE;
    }
    if (place == NULL || group->segment_last == UINT32_MAX) {
        return ERR_FULL;
    }
    if (bytes > PTRDIFF_MAX - page) {
        return ERR_MEMORY;
    }
    bytes = (bytes + page - 1) / page * page;
    void *memory;
    int fd, error = shm_memory_create(bytes, &fd, &memory);
    if (error != 0) {
        return error;
    }
    *place = (struct segment){.id = ++group->segment_last, .memory = memory, .bytes = bytes, .fd = fd};
    group->segment_count++;
    *out = memory;
    return 0;
}

void shm_group_free(struct shm_group *group, void *memory)
{
    if (memory == NULL) {
        return;
    }
    struct peer *own = &group->peers[group->rank];
    struct segment *found = NULL;
    for (size_t i = 0; i < SHM_GROUP_ALLOCATIONS_MAX; i++) {
        if (own->segments[i].id != 0 && own->segments[i].memory == memory) {
            found = &own->segments[i];
        }
    }
    CHECK(found != NULL);
    if (found->told) {
        CHECK(group->gone_count < SHM_GROUP_ALLOCATIONS_MAX);
        group->gone[group->gone_count++] = found->id;
    }
    segment_end(found);
    group->segment_count--;
}

/* The own segment that holds all of these bytes, or NULL. */
static struct segment *segment_around(struct shm_group *group, const void *memory, size_t bytes)
{
    struct peer *own = &group->peers[group->rank];
    uintptr_t at = (uintptr_t)memory;
    uint32_t seen = 0;
    for (size_t i = 0; seen < group->segment_count; i++) {
        struct segment *s = &own->segments[i];
        uintptr_t begin = (uintptr_t)s->memory;
        seen += s->id != 0;
        if (s->id != 0 && at >= begin && at - begin <= s->bytes && bytes <= s->bytes - (at - begin)) {
            return s;
        }
    }
    return NULL;
}

static int tell_all(struct shm_group *group, const struct message *message, int fd)
{
    for (uint32_t i = 0; i < group->size; i++) {
        int error = i == group->rank ? 0 : shm_message_send(group->peers[i].socket, message, sizeof *message, fd);
        if (error != 0) {
            return fail(group, error, "rank %u could not tell rank %u of its memory: %s", group->rank, i, err_text(error));
        }
    }
    group->messages++;
    return 0;
}

/* Tells the others of the segment that is used now (NULL: none), and of those that are freed. */
static int segments_tell(struct shm_group *group, struct segment *used)
{
    int error = 0;
    for (; group->gone_count > 0 && error == 0; group->gone_count--) {
        error = tell_all(group, &(struct message){SEGMENT_GONE, group->gone[group->gone_count - 1], 0}, -1);
    }
    if (error == 0 && used != NULL && !used->told) {
        error = tell_all(group, &(struct message){SEGMENT_NEW, used->id, used->bytes}, used->fd);
        (void)close(used->fd);
        used->fd = -1;
        used->told = true;
    }
    return error;
}

/* Takes one message from a peer. */
static int segment_hear(struct peer *peer)
{
    struct message message;
    int fd = -1, error = shm_message_receive(peer->socket, &message, sizeof message, &fd);
    if (error != 0) {
        return error;
    }
    struct segment *place = segment_of(peer, 0), *known = segment_of(peer, message.segment);
    error = ERR_MALFORMED;
    if (message.kind == SEGMENT_GONE && fd < 0 && message.segment != 0 && known != NULL) {
        segment_end(known);
        error = 0;
    } else if (message.kind == SEGMENT_NEW && fd >= 0 && message.segment != 0 && known == NULL && place != NULL &&
               message.bytes <= PTRDIFF_MAX) {
        void *memory;
        error = shm_memory_map(fd, message.bytes, &memory);
        if (error == 0) {
            *place = (struct segment){.id = message.segment, .memory = memory, .bytes = message.bytes, .fd = -1};
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    peer->messages++;
    return error;
}

/* Where the array of a rank lies, as its line says: *base NULL if it goes through its area. */
static int segment_find(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS], size_t bytes,
                        size_t element_bytes, uint8_t **base)
{
    struct peer *peer = &group->peers[rank];
    uint32_t id = (uint32_t)(theirs[SEGMENT] >> 32), messages = (uint32_t)theirs[SEGMENT];
    while (rank != group->rank && peer->messages != messages) {
        int error = segment_hear(peer);
        if (error != 0) {
            return fail(group, error == ERR_MEMORY || error == ERR_CLOSED ? error : ERR_MALFORMED,
                        "rank %u handed over memory that cannot be mapped: %s", rank,
                        error == ERR_MALFORMED ? "it is not a sealed memfd of the length that it says" : err_text(error));
        }
    }
    *base = NULL;
    if (id == 0) {
        return 0;
    }
    const struct segment *segment = segment_of(peer, id);
    if (segment == NULL || theirs[OFFSET] > segment->bytes || bytes > segment->bytes - theirs[OFFSET] ||
        theirs[OFFSET] % element_bytes != 0) {
        return fail(group, ERR_MALFORMED, "rank %u names memory that it has not handed over", rank);
    }
    *base = segment->memory + theirs[OFFSET];
    return 0;
}

/* ---- collectives ---- */

struct operation {
    enum kind kind;
    enum reduce_type type; /* 0: bytes */
    uint32_t root;
    uint64_t count;
    size_t element_bytes;
    uint8_t *values;
    bool small;          /* as a whole in side `side` of the area, where it goes through that */
    unsigned side;
    bool one_phase;      /* it does, on all ranks */
    uint64_t step_count; /* elements of a slice that one step does */
    uint64_t steps;
};

static bool reduces(const struct operation *o)
{
    return o->kind == ALL_REDUCE || o->kind == REDUCE_SCATTER;
}

/* Whose values are read. */
static bool is_source(const struct operation *o, uint32_t rank)
{
    return o->kind != BROADCAST || rank == o->root;
}

/* Slices of an all-reduce are whole cache lines, so that no two ranks write to one. */
static uint64_t slice_start(const struct shm_group *group, const struct operation *o, uint32_t slice)
{
    if (o->kind == BROADCAST) {
        return slice <= o->root ? 0 : o->count;
    }
    if (o->kind != ALL_REDUCE) {
        return o->count * slice / group->size;
    }
    uint64_t line = 64 / o->element_bytes, lines = (o->count + line - 1) / line;
    uint64_t start = (lines + group->size - 1) / group->size * line * slice;
    return start < o->count ? start : o->count;
}

static uint64_t longest_slice(const struct shm_group *group, const struct operation *o)
{
    if (o->kind == ALL_REDUCE || o->kind == BROADCAST) {
        return slice_start(group, o, o->root + 1) - slice_start(group, o, o->root);
    }
    return (o->count + group->size - 1) / group->size;
}

/* The part of a slice that step `step` does. */
static uint64_t part(const struct shm_group *group, const struct operation *o, uint32_t slice, uint64_t step,
                     uint64_t *start)
{
    uint64_t begin = slice_start(group, o, slice), end = slice_start(group, o, slice + 1);
    *start = begin;
    if (end - begin <= step * o->step_count) {
        return 0;
    }
    *start = begin + step * o->step_count;
    return end - *start < o->step_count ? end - *start : o->step_count;
}

/* That part in a rank's array. In the area of a rank the parts of all slices lie one after the other if all are read, and
 * else just the one; what is small lies there as a whole. */
static uint8_t *part_of(const struct shm_group *group, const struct operation *o, uint32_t rank, uint32_t slice,
                        uint64_t step, uint64_t start)
{
    if (group->bases[rank] != NULL) {
        return group->bases[rank] + start * o->element_bytes;
    }
    struct area *area = group->peers[rank].area;
    if (o->small) {
        return area->small[o->side] + start * o->element_bytes;
    }
    return area->pieces[step % PIECES] + (reduces(o) ? slice * o->step_count : 0) * o->element_bytes;
}

/* Own values to the area, for `step`. */
static void stage_in(struct shm_group *group, const struct operation *o, uint64_t step)
{
    for (uint32_t slice = 0; slice < group->size; slice++) {
        if (reduces(o) || slice == group->rank) {
            uint64_t start, count = part(group, o, slice, step, &start);
            if (count > 0) {
                memcpy(part_of(group, o, group->rank, slice, step, start), o->values + start * o->element_bytes,
                       count * o->element_bytes);
            }
        }
    }
}

static void stage_out(struct shm_group *group, const struct operation *o, uint64_t step)
{
    for (uint32_t slice = 0; slice < group->size; slice++) {
        uint64_t start, count = part(group, o, slice, step, &start);
        if (count > 0) {
            memcpy(o->values + start * o->element_bytes, part_of(group, o, group->rank, slice, step, start),
                   count * o->element_bytes);
        }
    }
}

static void reduce_step(struct shm_group *group, const struct operation *o, uint64_t step)
{
    uint64_t start, count = part(group, o, group->rank, step, &start);
    if (count == 0) {
        return;
    }
    const void *sources[SHM_GROUP_RANKS_MAX];
    void *destinations[SHM_GROUP_RANKS_MAX];
    for (uint32_t i = 0; i < group->size; i++) {
        destinations[i] = part_of(group, o, i, group->rank, step, start);
        sources[i] = destinations[i];
    }
    uint32_t destination_count = group->size;
    if (o->kind == REDUCE_SCATTER) {
        destinations[0] = o->values + start * o->element_bytes;
        destination_count = 1;
    }
    reduce_sum(group->variant, o->type, sources, group->size, destinations, destination_count, count);
}

static void copy_step(struct shm_group *group, const struct operation *o, uint64_t step)
{
    if (o->kind == BROADCAST && group->rank == o->root) {
        return;
    }
    bool streaming = o->count * o->element_bytes >= STREAM_BYTES;
    for (uint32_t i = 1; i < group->size; i++) {
        uint32_t from = (group->rank + i) % group->size; /* not all from the same rank at once */
        uint64_t start, count = part(group, o, from, step, &start);
        if (count > 0) {
            reduce_copy(group->variant, o->values + start * o->element_bytes, part_of(group, o, from, from, step, start),
                        count * o->element_bytes, streaming);
        }
    }
}

/* Finds all arrays, how many of the sources go through areas, and with that the steps. */
static int resolve(struct shm_group *group, struct operation *o)
{
    uint32_t sources = 0, staged = 0;
    for (uint32_t i = 0; i < group->size; i++) {
        uint64_t theirs[LINE_WORDS];
        read_line(group, i, theirs);
        int error = segment_find(group, i, theirs, o->count * o->element_bytes, o->element_bytes, &group->bases[i]);
        if (error != 0) {
            return error;
        }
        sources += is_source(o, i);
        staged += is_source(o, i) && group->bases[i] == NULL;
    }
    uint64_t longest = longest_slice(group, o);
    if (staged == 0) {
        o->step_count = longest;
    }
    o->steps = longest == 0 ? 0 : (longest + o->step_count - 1) / o->step_count;
    o->one_phase = o->small && staged == sources;
    return 0;
}

/* Small, and all of it lies in areas: nobody touches it before two more phases, so this rank is done when it has it. */
static void finish_small(struct shm_group *group, const struct operation *o)
{
    if (!reduces(o)) {
        copy_step(group, o, 0);
        return;
    }
    uint64_t begin = 0, end = o->count;
    if (o->kind == REDUCE_SCATTER) {
        begin = slice_start(group, o, group->rank);
        end = slice_start(group, o, group->rank + 1);
    }
    if (begin < end) {
        const void *sources[SHM_GROUP_RANKS_MAX];
        for (uint32_t i = 0; i < group->size; i++) {
            sources[i] = part_of(group, o, i, 0, 0, begin);
        }
        void *destination = o->values + begin * o->element_bytes;
        reduce_sum(group->variant, o->type, sources, group->size, &destination, 1, end - begin);
    }
}

/* In the first phase the ranks learn where all memory is; each further one ends a step. */
static int run_steps(struct shm_group *group, struct operation *o, bool staged)
{
    if (staged) {
        stage_in(group, o, 0);
    }
    int error = phase(group);
    if (error == 0) {
        error = resolve(group, o);
    }
    if (error == 0 && o->one_phase) {
        finish_small(group, o);
        return 0;
    }
    for (uint64_t step = 0; error == 0 && step < o->steps; step++) {
        if (reduces(o)) {
            reduce_step(group, o, step);
        } else {
            copy_step(group, o, step);
        }
        if (staged && step + 1 < o->steps) {
            stage_in(group, o, step + 1);
        }
        if (staged && o->kind == ALL_REDUCE && step > 0) {
            stage_out(group, o, step - 1);
        }
        error = phase(group);
    }
    if (error == 0 && staged && o->kind == ALL_REDUCE) {
        stage_out(group, o, o->steps - 1);
    }
    return error;
}

static int run(struct shm_group *group, struct operation *o)
{
    CHECK(o->count <= UINT64_MAX / SHM_GROUP_RANKS_MAX / 4);
    if (group->broken != 0) {
        return group->broken;
    }
    int error = check_revoked(group);
    if (error != 0 || group->size == 1) {
        return error;
    }
    size_t bytes = o->count * o->element_bytes;
    o->small = bytes <= SMALL_BYTES && bytes * group->size <= SMALL_TOTAL;
    o->side = (group->phase + 1) & 1;
    o->step_count = PIECE_BYTES / o->element_bytes;
    if (o->small) {
        o->step_count = longest_slice(group, o);
    } else if (reduces(o)) {
        o->step_count = o->step_count / group->size / 16 * 16;
    }
    bool copies = o->small && bytes * group->size <= (group->crowded ? TINY_TOTAL_CROWDED : TINY_TOTAL);
    struct segment *around = copies ? NULL : segment_around(group, o->values, bytes);
    error = segments_tell(group, around);
    if (error != 0) {
        return error;
    }
    memset(group->bases, 0, group->size * sizeof group->bases[0]);
    group->operation++;
    group->words[GENERATION] = group->generation;
    group->words[OPERATION] = group->operation;
    group->words[COUNT] = o->count;
    group->words[WHAT] = (uint64_t)o->kind | (uint64_t)o->type << 8 | (uint64_t)o->root << 16;
    group->words[SEGMENT] = (uint64_t)(around != NULL ? around->id : 0) << 32 | group->messages;
    group->words[OFFSET] = around != NULL ? (uint64_t)(o->values - around->memory) : 0;
    return run_steps(group, o, around == NULL && is_source(o, group->rank));
}

static int run_typed(struct shm_group *group, enum kind kind, void *values, uint64_t count, enum reduce_type type)
{
    size_t element_bytes = reduce_element_bytes(type);
    if (element_bytes == 0 || (uintptr_t)values % element_bytes != 0) {
        return ERR_USAGE;
    }
    struct operation o = {
        .kind = kind, .type = type, .count = count, .element_bytes = element_bytes, .values = values};
    return run(group, &o);
}

int shm_group_all_reduce(struct shm_group *group, void *values, uint64_t count, enum reduce_type type)
{
    return run_typed(group, ALL_REDUCE, values, count, type);
}

int shm_group_reduce_scatter(struct shm_group *group, void *values, uint64_t count, enum reduce_type type)
{
    return run_typed(group, REDUCE_SCATTER, values, count, type);
}

int shm_group_all_gather(struct shm_group *group, void *values, uint64_t count, enum reduce_type type)
{
    return run_typed(group, ALL_GATHER, values, count, type);
}

int shm_group_broadcast(struct shm_group *group, void *bytes, uint64_t count, uint32_t root)
{
    if (root >= group->size) {
        return ERR_USAGE;
    }
    struct operation o = {.kind = BROADCAST, .root = root, .count = count, .element_bytes = 1, .values = bytes};
    return run(group, &o);
}

int shm_group_barrier(struct shm_group *group)
{
    struct operation o = {.kind = BARRIER, .element_bytes = 1};
    return run(group, &o);
}

/* ---- open and close ---- */

/* The processors that this thread may run on. */
static void processors_fill(uint64_t out[PROCESSORS_MAX / 64])
{
    cpu_set_t set;
    CPU_ZERO(&set);
    (void)sched_getaffinity(0, sizeof set, &set);
    for (size_t i = 0; i < PROCESSORS_MAX && i < CPU_SETSIZE; i++) {
        out[i / 64] |= (uint64_t)(CPU_ISSET(i, &set) != 0) << (i % 64);
    }
}

static bool is_crowded(const struct shm_group *group)
{
    uint32_t processors = 0;
    for (size_t w = 0; w < PROCESSORS_MAX / 64; w++) {
        uint64_t any = 0;
        for (uint32_t i = 0; i < group->size; i++) {
            any |= group->peers[i].area->processors[w];
        }
        processors += (uint32_t)__builtin_popcountll(any);
    }
    return group->size > processors;
}

static int take_areas(struct shm_group *group, const int sockets[SHM_GROUP_RANKS_MAX],
                      const int areas[SHM_GROUP_RANKS_MAX], char error[SHM_GROUP_ERROR_BYTES])
{
    int result = 0;
    for (uint32_t i = 0; i < group->size; i++) {
        if (i == group->rank) {
            continue;
        }
        void *memory;
        int mapped = shm_memory_map(areas[i], sizeof(struct area), &memory);
        (void)close(areas[i]);
        group->peers[i].socket = sockets[i];
        if (mapped == 0) {
            group->peers[i].area = memory;
        } else if (result == 0) {
            result = mapped;
            (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "the area of rank %u cannot be mapped: %s", i,
                           mapped == ERR_MALFORMED ? "it is not a sealed memfd of the right length" : err_text(mapped));
        }
    }
    return result;
}

static struct shm_group *group_new(const struct shm_group_options *options)
{
    struct shm_group *group = calloc(1, sizeof *group);
    if (group == NULL) {
        return NULL;
    }
    group->rank = options->rank;
    group->size = options->size;
    group->generation = options->generation;
    group->stall_timeout_ms = options->stall_timeout_ms;
    group->variant = reduce_cpu_best();
    for (uint32_t i = 0; i < SHM_GROUP_RANKS_MAX; i++) {
        group->peers[i].socket = -1;
        for (size_t s = 0; s < SHM_GROUP_ALLOCATIONS_MAX; s++) {
            group->peers[i].segments[s].fd = -1;
        }
    }
    return group;
}

int shm_group_open(struct shm_group **out, int listen_fd, const struct shm_group_options *options,
                   char error[SHM_GROUP_ERROR_BYTES])
{
    int result = ERR_USAGE, own_area = -1;
    struct shm_group *group = NULL;
    if (options->size < 1 || options->size > SHM_GROUP_RANKS_MAX || options->rank >= options->size || sodium_init() < 0) {
        (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "a group has 1 to %d ranks; rank %u of %u is none", SHM_GROUP_RANKS_MAX,
                       options->rank, options->size);
        goto out_close_listener;
    }
    result = ERR_MEMORY;
    (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "no memory is left for the group's buffers");
    group = group_new(options);
    if (group == NULL) {
        goto out_close_listener;
    }
    void *memory;
    result = shm_memory_create(sizeof(struct area), &own_area, &memory);
    if (result != 0) {
        (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "shared memory for the group could not be made: %s", err_text(result));
        goto out_close_group;
    }
    struct area *area = memory;
    group->peers[group->rank].area = area;
    processors_fill(area->processors);
    if (group->size > 1) {
        int sockets[SHM_GROUP_RANKS_MAX], areas[SHM_GROUP_RANKS_MAX];
        result = shm_meet(options, listen_fd, own_area, sockets, areas, &group->refused, error);
        if (result == 0) {
            result = take_areas(group, sockets, areas, error);
        }
        if (result != 0) {
            goto out_close_group;
        }
        group->crowded = is_crowded(group);
    }
    error[0] = 0;
    *out = group;
    group = NULL;
out_close_group:
    shm_group_close(&group);
    if (own_area >= 0) {
        (void)close(own_area);
    }
out_close_listener:
    if (listen_fd >= 0) {
        (void)close(listen_fd);
    }
    return result;
}

void shm_group_set_timeout(struct shm_group *group, int stall_timeout_ms)
{
    group->stall_timeout_ms = stall_timeout_ms;
}

const char *shm_group_error(const struct shm_group *group)
{
    return group->error;
}

uint32_t shm_group_refused(const struct shm_group *group)
{
    return group->refused;
}

void shm_group_close(struct shm_group **group)
{
    if (*group == NULL) {
        return;
    }
    for (uint32_t i = 0; i < (*group)->size; i++) {
        struct peer *peer = &(*group)->peers[i];
        for (size_t s = 0; s < SHM_GROUP_ALLOCATIONS_MAX; s++) {
            segment_end(&peer->segments[s]);
        }
        if (peer->socket >= 0) {
            (void)close(peer->socket);
        }
        if (peer->area != NULL) {
            (void)munmap(peer->area, sizeof *peer->area);
        }
    }
    free(*group);
    *group = NULL;
}

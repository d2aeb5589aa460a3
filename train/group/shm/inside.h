#ifndef TRAIN_GROUP_SHM_INSIDE_H
#define TRAIN_GROUP_SHM_INSIDE_H
/* The shared inside of train/group/shm/group.h: the group (group.c: the collectives), waiting for each other (phase.c), and the
 * memory that ranks hand over (segments.c). A shell. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "train/group/shm/group.h"
#include "train/plan/plan.h"
#include "train/plan/reduce.h"

#define SMALL_BYTES (16u * 1024)  /* most bytes of a rank's elements in a small operation */
#define PIECE_BYTES (256u * 1024) /* small enough that the pieces of some ranks stay in a cache */
#define PIECES 3
#define LINE_WORDS 8
#define PROCESSORS_MAX 1024

/* The words of a line, in which a rank states its present operation. ARRIVED is the number of the phase, written last.
 * OPERATION, COUNT and WHAT are the same on all ranks, otherwise some rank is wrong. */
enum word { ARRIVED, GENERATION, OPERATION, COUNT, WHAT, OFFSET, SEGMENT };

/* A rank's area, mapped by all ranks of the host. Other ranks than its owner write given_up, gate, sleepers and pieces only. */
struct area {
    _Alignas(64) _Atomic uint64_t lines[2][LINE_WORDS];
    _Alignas(64) _Atomic uint32_t given_up; /* 0, or 1 + the rank whose group broke first */
    _Alignas(64) _Atomic uint32_t gate;    /* of rank 0's area: a futex for all sleepers, counted up to wake them */
    _Atomic uint32_t sleepers;
    _Alignas(64) uint64_t processors[PROCESSORS_MAX / 64]; /* processors that this rank may run on, as of opening */
    _Alignas(4096) uint8_t small[2][SMALL_BYTES];
    _Alignas(4096) uint8_t pieces[PIECES][PIECE_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is 32 bits");

/* Memory handed over by a rank, as mapped by this process. */
struct segment {
    uint32_t id; /* 0: free */
    uint8_t *memory;
    size_t bytes;
    int fd;         /* own segments, until the other ranks are told; then -1 */
    bool told;      /* own segments: the other ranks have it */
    bool is_placed; /* own segments: at an address given by the caller */
};

/* A rank as seen from this process. The group owns the descriptors and mappings. */
struct peer {
    int socket;
    int process; /* a pidfd; -1: none */
    struct area *area;
    uint32_t messages; /* messages taken from its socket */
    struct segment segments[SHM_GROUP_ALLOCATIONS_MAX];
};

/* The group, owned by its caller; used by one thread. */
struct shm_group {
    uint32_t rank, size;
    uint64_t generation;
    uint64_t operation; /* number of the collective that runs or ran last */
    uint64_t phase;
    uint64_t yield_from; /* the phase from which yielding the processor is tried again */
    int stall_timeout_ms;
    struct revoke *revoke;
    enum reduce_variant variant;
    bool crowded;                             /* more ranks than processors */
    uint64_t words[LINE_WORDS];               /* the contents of the own line */
    uint32_t segment_last;                    /* newest id */
    uint32_t segment_count;                   /* number of own segments */
    uint32_t messages;                        /* messages sent to each peer */
    uint32_t gone[SHM_GROUP_ALLOCATIONS_MAX]; /* freed segments that the other ranks still have */
    size_t gone_count;
    /* each rank's array in a large operation; NULL: the array goes through the rank's area */
    uint8_t *bases[SHM_GROUP_RANKS_MAX];
    uint32_t refused;
    int broken; /* the error that ended the group, or 0 */
    char error[SHM_GROUP_ERROR_BYTES];
    struct peer peers[SHM_GROUP_RANKS_MAX]; /* including the own rank, with its area and its segments */
};

/* ---- train/group/shm/phase.c ---- */

/* Waits until all ranks are in the next phase, and checks that their words agree with group->words. 0, or the error that broke
 * the group. */
int shm_phase(struct shm_group *group);

/* Reads a rank's line in the phase that all ranks are in. The peer may change the line at any time: read it only once. */
void shm_phase_line(const struct shm_group *group, uint32_t rank, uint64_t words[LINE_WORDS]);

/* Breaks the group: keeps the error and its sentence and tells the other ranks. Returns the error. */
__attribute__((format(printf, 3, 4))) int shm_phase_fail(struct shm_group *group, int error, const char *format, ...);

/* 0, or the error if the group was revoked or another rank has given up. */
int shm_phase_check_over(struct shm_group *group);

/* ---- train/group/shm/segments.c ---- */

/* The own segment that holds all of memory[bytes], or NULL. */
struct segment *shm_segment_around(struct shm_group *group, const void *memory, size_t bytes);

/* Tells the other ranks of the segment used now (NULL: none) and of the freed segments. 0, or the error that broke the
 * group. */
int shm_segments_tell(struct shm_group *group, struct segment *used);

/* Finds a rank's array from the rank's line `theirs`: *base is NULL if the array goes through the rank's area. 0, or the error
 * that broke the group. */
int shm_segment_find(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS], size_t bytes,
                     size_t element_bytes, uint8_t **base);

/* Unmaps the segment and closes its descriptor. */
void shm_segment_end(struct segment *segment);

#endif

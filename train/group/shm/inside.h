#ifndef TRAIN_GROUP_SHM_INSIDE_H
#define TRAIN_GROUP_SHM_INSIDE_H
/* What the parts of train/group/shm/group.h share: the group itself (train/group/shm/group.c: the collectives), waiting for each
 * other (train/group/shm/phase.c) and the memory that ranks hand over (train/group/shm/segments.c). A shell. */

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "train/group/shm/group.h"
#include "train/plan/plan.h"
#include "train/plan/reduce.h"

#define SMALL_BYTES (16u * 1024)  /* of one rank's elements at most, and */
#define PIECE_BYTES (256u * 1024) /* small enough that the pieces of some ranks stay in a cache */
#define PIECES 3
#define LINE_WORDS 8
#define PROCESSORS_MAX 1024

/* What a rank does: the words of a line. ARRIVED is the number of the phase, written last. OPERATION, COUNT and WHAT
 * are the same on all ranks, or somebody is wrong. */
enum word { ARRIVED, GENERATION, OPERATION, COUNT, WHAT, OFFSET, SEGMENT };

struct area {
    _Alignas(64) _Atomic uint64_t lines[2][LINE_WORDS];
    _Alignas(64) _Atomic uint32_t given_up; /* 0, or 1 + the rank whose group broke first */
    _Alignas(64) _Atomic uint32_t gate;    /* of rank 0's area: a futex that all sleep on, counted up to wake them */
    _Atomic uint32_t sleepers;
    _Alignas(64) uint64_t processors[PROCESSORS_MAX / 64]; /* that this rank may run on, when it opened */
    _Alignas(4096) uint8_t small[2][SMALL_BYTES];
    _Alignas(4096) uint8_t pieces[PIECES][PIECE_BYTES];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics work between processes");
_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is 32 bits");

struct segment {
    uint32_t id; /* 0: free */
    uint8_t *memory;
    size_t bytes;
    int fd;         /* own ones until the others are told, then -1 */
    bool told;      /* own ones: the others have it */
    bool is_placed; /* own ones: where the caller said */
};

struct peer {
    int socket;
    int process; /* a pidfd, -1: none */
    struct area *area;
    uint32_t messages; /* taken from its socket */
    struct segment segments[SHM_GROUP_ALLOCATIONS_MAX];
};

struct shm_group {
    uint32_t rank, size;
    uint64_t generation;
    uint64_t operation; /* of the collective that runs or ran last */
    uint64_t phase;
    uint64_t yield_from; /* the phase in which offering the processor is tried again */
    int stall_timeout_ms;
    struct revoke *revoke;
    enum reduce_variant variant;
    bool crowded;                             /* more ranks than processors */
    uint64_t words[LINE_WORDS];               /* what the own line says */
    uint32_t segment_last;                    /* newest id */
    uint32_t segment_count;                   /* own ones */
    uint32_t messages;                        /* sent to each peer */
    uint32_t gone[SHM_GROUP_ALLOCATIONS_MAX]; /* freed segments that the others still have */
    size_t gone_count;
    uint8_t *bases[SHM_GROUP_RANKS_MAX]; /* of each rank's array in a large operation; NULL: it goes through its area */
    uint32_t refused;
    int broken; /* the error that ended the group, or 0 */
    char error[SHM_GROUP_ERROR_BYTES];
    struct peer peers[SHM_GROUP_RANKS_MAX]; /* the own rank too: its area and its segments */
};

/* ---- train/group/shm/phase.c ---- */

/* Waits until all ranks are in the next phase, and checks that they mean the same: group->words. */
int shm_phase(struct shm_group *group);

/* What a rank's line says in the phase that all are in. The peer may change it at any time: read it once. */
void shm_phase_line(const struct shm_group *group, uint32_t rank, uint64_t words[LINE_WORDS]);

/* Breaks the group: keeps the error and its sentence, tells the others. Returns the error. */
__attribute__((format(printf, 3, 4))) int shm_phase_fail(struct shm_group *group, int error, const char *format, ...);

/* 0, or the error when it was revoked, or somebody else has given it up. */
int shm_phase_check_over(struct shm_group *group);

/* ---- train/group/shm/segments.c ---- */

/* The own segment that holds all of these bytes, or NULL. */
struct segment *shm_segment_around(struct shm_group *group, const void *memory, size_t bytes);

/* Tells the others of the segment that is used now (NULL: none), and of those that are freed. */
int shm_segments_tell(struct shm_group *group, struct segment *used);

/* Where the array of a rank lies, as its line says: *base NULL if it goes through its area. */
int shm_segment_find(struct shm_group *group, uint32_t rank, const uint64_t theirs[LINE_WORDS], size_t bytes,
                     size_t element_bytes, uint8_t **base);

/* Lets go of it. */
void shm_segment_end(struct segment *segment);

#endif

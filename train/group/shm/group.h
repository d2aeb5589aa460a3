#ifndef TRAIN_GROUP_SHM_GROUP_H
#define TRAIN_GROUP_SHM_GROUP_H
/* The transport of collectives within one host: memory that all ranks map. A shell.
 *
 * Each rank listens on an abstract Unix socket and is connected to every other. Both ends prove that they know the
 * group's key (train/group/handshake.h) before either hands over a descriptor: the connector's area comes with its confirm, the
 * acceptor's with its ready. The area is a memfd: the rank's descriptors of the operation that runs, and
 * bounded buffers through which memory that is not the group's goes in pieces. Memory from shm_group_alloc is a memfd
 * too, handed over when it is used first; an all-reduce of such memory copies nothing: each rank reads its slice from
 * all buffers, and stores the sums to all. A memfd that its owner could still shrink is refused, so no peer can make an
 * access fail.
 *
 * An abstract socket is seen in one network namespace: ranks are on the same host if shm_group_probe says so.
 *
 * All calls come from one thread. Waiting spins for some microseconds, gives the processor away when there are more ranks
 * than processors, then sleeps, and looks for peers that are gone and for the word of struct revoke every 20 ms. An area
 * takes about 0.8 MiB. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/group/revoke.h"
#include "train/plan/element.h"

#define SHM_GROUP_RANKS_MAX 64
#define SHM_GROUP_KEY_BYTES 32
#define SHM_GROUP_NAME_BYTES 80
#define SHM_GROUP_ERROR_BYTES 256
#define SHM_GROUP_ALLOCATIONS_MAX 64 /* of one rank at one time */

struct shm_group;

struct shm_group_member {
    char name[SHM_GROUP_NAME_BYTES]; /* what it listens on */
};

struct shm_group_options {
    uint32_t rank, size;
    uint64_t generation;
    uint8_t key[SHM_GROUP_KEY_BYTES];
    const char *group;                      /* names the attempt; part of the hash of the member list */
    const struct shm_group_member *members; /* [size] by rank */
    int open_timeout_ms;                    /* until all ranks are connected */
    int stall_timeout_ms;                   /* a wait for another rank that is longer fails */
    struct revoke *revoke; /* ends open and every collective soon; may be NULL; outlives the group */
};

/* Listens on the abstract socket `name`: 1 ... SHM_GROUP_NAME_BYTES - 1 bytes that no other rank of the group has, such
 * as "HOST:PORT" of its TCP listener. 0, ERR_USAGE (no such name), ERR_EXISTS (somebody listens there), ERR_IO. */
int shm_group_listen(const char *name, int *listen_fd);

/* Whether somebody listens on `name` in this network namespace. When every rank listens before the names are told, all
 * ranks find the same ones on their host. Who it is, opening finds out. */
bool shm_group_probe(const char *name);

/* Connects to all other ranks; takes `listen_fd` and closes it in every case (-1 with size 1). Strangers that connect
 * meanwhile are dropped: each has 2 s to prove itself, and at most 64 are heard at once. 0, ERR_USAGE, ERR_TIMEOUT,
 * ERR_CLOSED (revoked), ERR_MALFORMED (a member's area is unusable), ERR_IO, ERR_MEMORY; `error` then holds a sentence.
 */
int shm_group_open(struct shm_group **out, int listen_fd, const struct shm_group_options *options,
                   char error[SHM_GROUP_ERROR_BYTES]);

/* Zeroed memory that the other ranks may map, aligned to a page. Ranks need not allocate alike. The caller returns it
 * with shm_group_free; closing the group ends it too. ERR_FULL (SHM_GROUP_ALLOCATIONS_MAX), ERR_MEMORY, ERR_USAGE (0
 * bytes). */
int shm_group_alloc(struct shm_group *group, size_t bytes, void **out);

/* The same at a place of the caller's, whose pages it replaces: memory[bytes], whole pages that the caller has mapped. After
 * shm_group_free, or the end of the group, they are private memory again, zeroed. */
int shm_group_place(struct shm_group *group, void *memory, size_t bytes);

/* `memory` is what shm_group_alloc gave, or was placed, or NULL. Other ranks let go of it in their next collective. */
void shm_group_free(struct shm_group *group, void *memory);

/* The collectives. Every rank makes the same calls in the same order with the same type, count and root. Memory may be
 * the group's (any aligned place in it) or any other, on each rank as it likes; only the speed differs.
 *
 * On an error the elements are undefined and the group is broken: every later call returns that error, and the others
 * are told. ERR_CLOSED (a rank is gone or has given up, or revoked), ERR_TIMEOUT (a rank did not come),
 * ERR_MALFORMED (a rank is in another operation or count), ERR_MEMORY, ERR_IO; ERR_USAGE (a type that cannot be added, no such root, memory
 * that is not aligned to its elements) leaves the group as it is.
 *
 * all_reduce: values[count] becomes the sum over the ranks, with the same bits on every rank (train/plan/reduce.h).
 * reduce_scatter: the same, but each rank has the sums of its own slice only; the rest of values is left undefined.
 * all_gather: each rank's slice of values[count] reaches all ranks.
 * The slices are those of plan_slice_start.
 * broadcast: the root's bytes[count] reach every rank. barrier: returns when all ranks have called it. */
int shm_group_all_reduce(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_reduce_scatter(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_all_gather(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_broadcast(struct shm_group *group, void *bytes, uint64_t count, uint32_t root);
int shm_group_barrier(struct shm_group *group);

/* Changes stall_timeout_ms. */
void shm_group_set_timeout(struct shm_group *group, int stall_timeout_ms);

/* What broke the group: one sentence, "" if nothing did. Valid until close. */
const char *shm_group_error(const struct shm_group *group);

/* Strangers refused while opening. */
uint32_t shm_group_refused(const struct shm_group *group);

/* Frees all memory of the group. NULL is allowed; the pointer is cleared. */
void shm_group_close(struct shm_group **group);

#endif

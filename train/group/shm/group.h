#ifndef TRAIN_GROUP_SHM_GROUP_H
#define TRAIN_GROUP_SHM_GROUP_H
/* The transport of collectives within a host: memory mapped by all ranks. A shell.
 *
 * Each rank listens on an abstract Unix socket and is connected to every other rank. Both ends prove that they know the group's
 * key (train/group/handshake.h) before either hands over a descriptor: the connector's area comes with its confirm message, the
 * acceptor's with its ready message. The area is a memfd with the rank's descriptors of the running operation and with bounded
 * buffers, through which memory outside the group goes in pieces. Memory from shm_group_alloc is a memfd too, handed over at
 * its first use; an all-reduce of such memory copies nothing: each rank reads its slice from all buffers and stores the sums to
 * all buffers. A memfd that its owner could still shrink is refused, so no peer can make an access fail.
 *
 * An abstract socket is visible in a single network namespace: ranks are on the same host if shm_group_probe returns true.
 *
 * All calls come from one thread. A wait spins for some microseconds, yields the processor if there are more ranks than
 * processors, then sleeps; every 20 ms it checks for peers that are gone and for a revocation. An area takes about 0.8 MiB. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/group/revoke.h"
#include "train/plan/element.h"

/* Limits, and sizes of a key, of a socket's name and of an error sentence, both with their NUL. */
#define SHM_GROUP_RANKS_MAX 64
#define SHM_GROUP_KEY_BYTES 32
#define SHM_GROUP_NAME_BYTES 80
#define SHM_GROUP_ERROR_BYTES 256
#define SHM_GROUP_ALLOCATIONS_MAX 64 /* of a rank at a time */

/* A group; opaque, owned by its opener. */
struct shm_group;

/* Where a rank listens. */
struct shm_group_member {
    char name[SHM_GROUP_NAME_BYTES]; /* of the abstract socket */
};

/* The arguments of shm_group_open. Pointers are borrowed for that call, except `revoke`. */
struct shm_group_options {
    uint32_t rank, size;
    uint64_t generation;
    uint8_t key[SHM_GROUP_KEY_BYTES];
    const char *group;                      /* names the attempt; part of the hash of the member list */
    const struct shm_group_member *members; /* [size] by rank */
    int open_timeout_ms;                    /* until all ranks are connected */
    int stall_timeout_ms;                   /* a longer wait for another rank fails */
    struct revoke *revoke; /* ends open and every collective soon; may be NULL; outlives the group */
};

/* Listens on the abstract socket `name`: 1 ... SHM_GROUP_NAME_BYTES - 1 bytes, different for every rank of the group, such as
 * "HOST:PORT" of its TCP listener. The caller owns *listen_fd. Returns 0, ERR_USAGE (no valid name), ERR_EXISTS (the name is
 * taken) or ERR_IO. */
int shm_group_listen(const char *name, int *listen_fd);

/* Whether some process listens on `name` in this network namespace. If every rank listens before the names are told, all ranks
 * of a host find the same ranks. Only opening the group proves that the listener is the rank. */
bool shm_group_probe(const char *name);

/* Connects to all other ranks; takes `listen_fd` and closes it in every case (-1 with size 1). Strangers that connect meanwhile
 * are dropped: each has 2 s to authenticate, and at most 64 are pending at once. The caller owns *out and closes it with
 * shm_group_close. 0, ERR_USAGE, ERR_TIMEOUT, ERR_CLOSED (revoked), ERR_MALFORMED (a member's area is unusable), ERR_IO,
 * ERR_MEMORY; `error` then holds a sentence and *out is untouched. */
int shm_group_open(struct shm_group **out, int listen_fd, const struct shm_group_options *options,
                   char error[SHM_GROUP_ERROR_BYTES]);

/* Gives zeroed memory that the other ranks may map, aligned to a page. Each rank allocates as it likes. The caller returns the
 * memory with shm_group_free; closing the group ends it, too. ERR_FULL (SHM_GROUP_ALLOCATIONS_MAX), ERR_MEMORY, ERR_USAGE (0
 * bytes). */
int shm_group_alloc(struct shm_group *group, size_t bytes, void **out);

/* The same at an address of the caller: replaces the pages of memory[bytes], whole pages mapped by the caller. After
 * shm_group_free or the end of the group they are private memory again, zeroed. Errors as of shm_group_alloc. */
int shm_group_place(struct shm_group *group, void *memory, size_t bytes);

/* Ends memory from shm_group_alloc or shm_group_place; NULL is allowed. The other ranks unmap it in their next collective. */
void shm_group_free(struct shm_group *group, void *memory);

/* The collectives. Every rank makes the same calls in the same order with the same type, count and root. Counts are in elements
 * of the type, and in bytes for broadcast. Memory may be the group's (any aligned place in it) or any other, on each rank as it
 * likes; only the speed differs.
 *
 * On an error the elements are undefined and the group is broken: every later call returns the same error, and the other ranks
 * are told. ERR_CLOSED (a rank is gone or has given up, or the group is revoked), ERR_TIMEOUT (a rank did not come),
 * ERR_MALFORMED (a rank is in another operation or count), ERR_MEMORY, ERR_IO. ERR_USAGE (a type without sums, a root that does
 * not exist, memory not aligned to its elements) leaves the group as it is.
 *
 * all_reduce: values[count] becomes the sum over the ranks, with the same bits on every rank (train/plan/reduce.h).
 * reduce_scatter: slice r becomes the sum on rank r; the rest of values is undefined. all_gather: slice r of rank r reaches all
 * ranks. The slices are those of plan_slice_start. broadcast: the root's bytes[count] reach every rank. barrier: returns when
 * all ranks have called it. */
int shm_group_all_reduce(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_reduce_scatter(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_all_gather(struct shm_group *group, enum element_type type, void *values, uint64_t count);
int shm_group_broadcast(struct shm_group *group, void *bytes, uint64_t count, uint32_t root);
int shm_group_barrier(struct shm_group *group);

/* Changes stall_timeout_ms. */
void shm_group_set_timeout(struct shm_group *group, int stall_timeout_ms);

/* The reason why the group broke: one sentence, "" if it did not. Valid until close. */
const char *shm_group_error(const struct shm_group *group);

/* Strangers refused while opening. */
uint32_t shm_group_refused(const struct shm_group *group);

/* Frees all memory of the group and clears the pointer. NULL is allowed. */
void shm_group_close(struct shm_group **group);

#endif

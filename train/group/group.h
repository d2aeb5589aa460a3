#ifndef TRAIN_GROUP_GROUP_H
#define TRAIN_GROUP_GROUP_H
/* The collectives of a group of workers. Ranks on one host use shared memory (train/group/shm/group.h), hosts use TCP between
 * each other (train/group/tcp/group.h). A shell; its callers need not know which ranks share a host.
 *
 *     host A   rank 0 --.                       .-- rank 3   host B
 *              rank 1 --+-- rank 0 === rank 3 --+-- rank 4
 *              rank 2 --'    (TCP, encrypted)   '-- rank 5
 *
 * All-reduce: the ranks of each host sum in memory; the lowest rank of each host, its leader, sums with the other leaders and
 * hands the result to its host. The array goes in parts of at most GROUP_CHUNK_BYTES, so that no rank waits long without a sign
 * of progress. The order of the additions depends only on the count and on which ranks share a host. All ranks get the same
 * bits, because each sum is computed on one rank, or alike on all. Other collectives go over TCP unless all ranks share a host.
 *
 * How ranks find their host. All ranks connect by TCP. Over these links each rank then tells all ranks the name of its host and
 * the abstract Unix socket it listens on. The host's name is a hash of the kernel's boot id, the network namespace (abstract
 * sockets reach no further) and the address of the links. Containers with namespaces of their own have different names, and so
 * do clones of a virtual machine. Ranks with the same host name meet in shared memory, prove that they know the group's key,
 * and tell all ranks whether they succeeded; a host with a rank that failed uses TCP only. So a group forms wherever TCP works.
 * No file is made, and no memory or socket that outlives the processes.
 *
 * A rank that is gone, revoked or broken ends the waits of the other ranks: in memory within some 20 ms, over TCP by its closed
 * links, from host to host through the leaders. A leader waiting for another host learns of a loss on its own host when that
 * wait ends; every wait ends by its timeout.
 *
 * Calls come from one thread at a time; only struct revoke may be used from any thread. */

#include <stddef.h>
#include <stdint.h>

#include "train/group/tcp/group.h"
#include "train/plan/element.h"

/* GROUP_ERROR_BYTES: size of an error sentence with its NUL. GROUP_CHUNK_BYTES: the largest part of an all-reduce. */
#define GROUP_ERROR_BYTES 480
#define GROUP_CHUNK_BYTES (4u * 1024 * 1024)

/* A group; opaque, owned by its opener. */
struct group;

/* Opens the group: connects all ranks and finds the hosts. Takes `listen_fd` (tcp_group_listen) and closes it in every case.
 * `host` overrides the name of this rank's host, mainly for tests; NULL: the name as above. The caller owns *out and closes it
 * with group_close. Errors are those of tcp_group_open; `error` then holds a sentence and *out is untouched. */
int group_open(struct group **out, int listen_fd, const struct tcp_options *options, const char *host,
               char error[GROUP_ERROR_BYTES]);

/* Collectives, in place. Every rank makes the same calls in the same order with the same counts; counts are in elements of the
 * type, and in bytes for broadcast. On an error the values are undefined and the group is broken: every later call returns the
 * same error, and the collectives of the other ranks end too. ERR_CLOSED (a rank is gone, or the group is revoked),
 * ERR_TIMEOUT, ERR_MALFORMED (ranks disagree), ERR_AUTH, ERR_MEMORY, ERR_IO. ERR_USAGE breaks nothing: a type without sums, a
 * root that does not exist, elements not aligned to their type.
 *
 * all_reduce: values become the sum over the ranks. reduce_scatter: slice r (plan_slice_start) becomes the sum on rank r, the
 * rest is undefined. all_gather: slice r of rank r reaches all ranks. broadcast: the root's bytes reach all ranks. barrier:
 * returns when all ranks have called it. */
int group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count);
int group_reduce_scatter(struct group *group, enum element_type type, void *values, uint64_t count);
int group_all_gather(struct group *group, enum element_type type, void *values, uint64_t count);
int group_broadcast(struct group *group, void *bytes, uint64_t count, uint32_t root);
int group_barrier(struct group *group);

struct gpu;

/* group_use_gpu: from here on the arrays of the collectives may be in GPU memory (train/group/gpu/gpu.h) on ranks with a GPU.
 * Every rank calls it, once. Errors as of the collectives. GPU memory that has to go through host memory is no error.
 * group_gpu_path gives the path and the reason for it in one sentence, "" in a group of one or before group_use_gpu; valid
 * until close. `gpu` stays the caller's and outlives the group.
 *
 * With NCCL all ranks give GPU memory in a collective, or none does (ERR_MALFORMED). A call waits for the program's work queued
 * on the legacy default stream and on streams that synchronise with it, and when it returns the memory has the result.
 * train/group/gpu/nccl_group.h tells which sums have the same bits in two runs. ERR_USAGE also for memory of another GPU. */
int group_use_gpu(struct group *group, struct gpu *gpu);
const char *group_gpu_path(const struct group *group);

/* group_place replaces memory[bytes] (whole pages, mapped by the caller) by memory of the group: an all-reduce of it copies
 * nothing between ranks of a host. The contents become zero, then and also when group_displace or the end of the group, even by
 * an error, makes the pages private again. Each rank may place what it likes. Returns 0 (also where sharing has no use),
 * ERR_FULL (SHM_GROUP_ALLOCATIONS_MAX), ERR_MEMORY or ERR_IO. */
int group_place(struct group *group, void *memory, size_t bytes);
void group_displace(struct group *group, void *memory);

/* Changes stall_timeout_ms. While a leader waits for other hosts, its own host waits for it, at most twice as long. */
void group_set_timeout(struct group *group, int stall_timeout_ms);

/* The number of hosts, and of ranks on this host. Ranks that share no memory count as a host each. */
uint32_t group_hosts(const struct group *group);
uint32_t group_ranks_here(const struct group *group);

/* The reason why the group broke or GPU memory was refused: one sentence, "" if there is none. Valid until close. */
const char *group_error(const struct group *group);

/* Closes the links, ends placed memory and clears the pointer. NULL is allowed. */
void group_close(struct group **group);

#endif

#ifndef TRAIN_GROUP_GROUP_H
#define TRAIN_GROUP_GROUP_H
/* The collectives of a group of workers. Those on one host use memory that they share (train/group/shm/group.h), hosts speak TCP to
 * each other (train/group/tcp/group.h). A shell: who forms a group need not know which.
 *
 *     host A   rank 0 --.                       .-- rank 3   host B
 *              rank 1 --+-- rank 0 === rank 3 --+-- rank 4
 *              rank 2 --'    (TCP, encrypted)   '-- rank 5
 *
 * All-reduce: the ranks of each host sum in memory; the lowest rank of each host, its leader, sums with the other leaders, and
 * hands the result to its host. That goes part by part, of GROUP_CHUNK_BYTES at most, so that nobody waits for long without a
 * sign.
 * The order of the additions depends on the count and on who is with whom, and on nothing else; all ranks get the same bits,
 * for each sum is computed on one of them, or alike on all. What is not an all-reduce goes over TCP unless all are on one host.
 *
 * Who is with whom. All ranks connect by TCP as ever; then each tells all others, over these links, the name of its host and of
 * an abstract Unix socket on which it listens. The name of a host is a hash of what the kernel calls this boot and this network
 * namespace, as far as which abstract sockets reach, and of the address of the links. Containers with namespaces of their own
 * have other names, and so have clones of one virtual machine. Those of one name meet in shared memory, prove that they know
 * the group's key, and tell all whether they have: a host where one has not goes on by TCP alone. So a group forms wherever
 * TCP does. Nothing in a file system, and no memory or socket that outlives the processes, is ever made.
 *
 * A rank that is gone, revoked or broken ends the others' waits: in memory within some 20 ms, over TCP by its closed links,
 * from host to host through the leaders. A leader that waits for another host learns of a loss on its own when that wait ends;
 * every wait ends by its timeout.
 *
 * One thread at a time calls; the word of struct revoke may come from any. */

#include <stddef.h>
#include <stdint.h>

#include "train/group/tcp/group.h"
#include "train/plan/element.h"

#define GROUP_ERROR_BYTES 480
#define GROUP_CHUNK_BYTES (4u * 1024 * 1024)

struct group;

/* Takes `listen_fd` (tcp_group_listen) and closes it in every case. `host` is the name of this rank's host for those who know
 * better than the kernel, tests above all; NULL: as above. Errors are those of tcp_group_open; `error` then holds a sentence. */
int group_open(struct group **out, int listen_fd, const struct tcp_options *options, const char *host,
               char error[GROUP_ERROR_BYTES]);

/* Collectives, in place. Every rank makes the same calls in the same order with the same counts. On an error the values are
 * undefined and the group is broken: every later call returns that error, and the other ranks' collectives end, too.
 * ERR_CLOSED (a rank is gone, or revoked), ERR_TIMEOUT, ERR_MALFORMED (ranks disagree), ERR_AUTH, ERR_MEMORY, ERR_IO;
 * ERR_USAGE, which breaks nothing: a type that cannot be added, no such root, elements that are not aligned to their type.
 *
 * all_reduce: the sum over the ranks. reduce_scatter: rank r has the sum of slice r (plan_slice_start), the rest is undefined.
 * all_gather: rank r's slice r reaches all. broadcast: the root's bytes reach all. barrier: returns when all have called it. */
int group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count);
int group_reduce_scatter(struct group *group, enum element_type type, void *values, uint64_t count);
int group_all_gather(struct group *group, enum element_type type, void *values, uint64_t count);
int group_broadcast(struct group *group, void *bytes, uint64_t count, uint32_t root);
int group_barrier(struct group *group);

struct gpu;

/* From here on the memory of the collectives, but the barrier's, may be that of a GPU (train/group/gpu/gpu.h), on those ranks which have one. Every rank
 * calls it, once. Errors as of the collectives; that GPU memory has to go through host memory is none: group_gpu_path says
 * how it goes, and why, in one sentence, "" in a group of one or before this call. Valid until close. `gpu` outlives the
 * group.
 *
 * With NCCL all ranks give GPU memory in the same collectives, or none does (ERR_MALFORMED). What the program has queued on the
 * legacy default stream, and on streams that synchronise with it, is waited for; when the call returns the memory has the
 * result. Which sums have the same bits in two runs: train/group/gpu/nccl_group.h. ERR_USAGE, too: memory of another GPU. */
int group_use_gpu(struct group *group, struct gpu *gpu);
const char *group_gpu_path(const struct group *group);

/* Puts memory of the group in the place of memory[bytes], whole pages: what is summed there is not copied between ranks of one
 * host. Its contents are zeroed, now and when it is displaced or the group ends, also by an error. Ranks need not do alike.
 * 0, also where it has no use; ERR_FULL (SHM_GROUP_ALLOCATIONS_MAX), ERR_MEMORY, ERR_IO. */
int group_place(struct group *group, void *memory, size_t bytes);
void group_displace(struct group *group, void *memory);

/* Changes stall_timeout_ms. Where a leader waits for others its host waits for it, at most twice as long. */
void group_set_timeout(struct group *group, int stall_timeout_ms);

/* How many hosts there are, and ranks on this one; ranks that share no memory count as a host each. */
uint32_t group_hosts(const struct group *group);
uint32_t group_ranks_here(const struct group *group);

/* What broke the group, or was wrong with GPU memory: one sentence, "" if nothing was. Valid until close. */
const char *group_error(const struct group *group);

/* NULL is allowed; the pointer is cleared. */
void group_close(struct group **group);

#endif

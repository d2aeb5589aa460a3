#ifndef TRAIN_GROUP_H
#define TRAIN_GROUP_H
/* The collectives of a group of workers, by whatever carries them best. A shell: who forms a group need not know the
 * transports (train/tcp_group.h).
 *
 * One thread at a time calls; the word of struct revoke may come from any. */

#include <stddef.h>
#include <stdint.h>

#include "train/element.h"
#include "train/tcp_group.h"

#define GROUP_ERROR_BYTES TCP_ERROR_BYTES

struct group;

/* Takes `listen_fd` (tcp_group_listen) and closes it in every case. Errors are those of tcp_group_open; `error` then holds a
 * sentence. */
int group_open(struct group **out, int listen_fd, const struct tcp_options *options, char error[GROUP_ERROR_BYTES]);

/* Collectives, in place. Every rank makes the same calls in the same order with the same counts. Elements are aligned to their
 * type. On an error the values are undefined and the group is broken: every later call returns that error, and the other
 * ranks' collectives end, too. ERR_CLOSED (a rank is gone, or revoked), ERR_TIMEOUT, ERR_MALFORMED (ranks disagree), ERR_AUTH,
 * ERR_MEMORY, ERR_IO; ERR_USAGE, which breaks nothing: a type that cannot be added, no such root.
 *
 * all_reduce: the sum over the ranks, with the same bits on every rank, in an order that depends on the number of elements and
 * the places of the ranks only. reduce_scatter: rank r has the sum of slice r (plan_slice_start), the rest is
 * undefined. all_gather: rank r's slice r reaches all. broadcast: the root's bytes reach
 * all. barrier: returns when all have called it. */
int group_all_reduce(struct group *group, enum element_type type, void *values, uint64_t count);
int group_reduce_scatter(struct group *group, enum element_type type, void *values, uint64_t count);
int group_all_gather(struct group *group, enum element_type type, void *values, uint64_t count);
int group_broadcast(struct group *group, void *bytes, uint64_t count, uint32_t root);
int group_barrier(struct group *group);

/* Changes stall_timeout_ms. */
void group_set_timeout(struct group *group, int stall_timeout_ms);

/* What broke the group: one sentence, "" if nothing did. Valid until close. */
const char *group_error(const struct group *group);

/* NULL is allowed; the pointer is cleared. */
void group_close(struct group **group);

#endif

#ifndef TRAIN_GROUP_GPU_NCCL_GROUP_H
#define TRAIN_GROUP_GPU_NCCL_GROUP_H
/* Collectives between GPUs by NCCL: one communicator, of one generation of a group. A shell.
 *
 * The communicator does not block: what NCCL has under way is asked for, and beside it the group's links and its revocation
 * are watched (train/group/gpu/wait.h), for NCCL itself notices neither a rank that is gone nor one that does not come. Then the
 * communicator is ended: ncclCommRevoke where NCCL has it, so that the next generation can be made of it, else
 * ncclCommAbort. Both are known to hang in some versions when a rank is gone, so they run in a thread that is given
 * NCCL_END_MS, and is left behind if it does not come back.
 *
 * What is summed. All ranks end with the same bits: an element of a sum is computed on one rank and copied from there. Two
 * runs have the same bits if NCCL's version, its settings, the GPUs and their wiring, the ranks' order and the counts are
 * the same: with NCCL_ALGO=Ring and NCCL_PROTO=Simple (train/group/gpu/nccl_library.h) the order of additions follows from these alone. They are
 * not the bits of the other transports, and f16 and bf16 are rounded at each addition.
 *
 * NCCL takes one rank for each GPU; its links are neither encrypted nor authenticated.
 *
 * Calls come from one thread at a time. Memory is that of the device which was current at open. */

#include <stdbool.h>
#include <stdint.h>

#include "train/group/gpu/nccl_library.h"
#include "train/group/gpu/wait.h"
#include "train/plan/element.h"
#include "train/plan/plan.h"

#define NCCL_GROUP_ERROR_BYTES 320
#define NCCL_SETTLE_MS 2000 /* for what is under way when a rank is gone */
#define NCCL_END_MS 5000    /* for NCCL to end a communicator */
#define NCCL_CHUNK_BYTES (64u * 1024 * 1024) /* of one sum, so that a long one is no stall */

struct nccl_group;

struct nccl_options {
    const struct nccl_library *nccl; /* outlives the group, as does the next */
    const struct cuda_library *cuda;
    uint32_t rank, size;
    int open_timeout_ms;
    int stall_timeout_ms; /* for one chunk */
    struct gpu_watch watch;
    int settle_ms, end_ms; /* 0: as above */
};

/* One of these, of rank 0, goes to all. ERR_IO; `error` then holds a sentence. */
int nccl_group_id(const struct nccl_library *nccl, struct nccl_id *out, char error[NCCL_GROUP_ERROR_BYTES]);

/* All ranks at once. ERR_CLOSED (a rank is gone, or the group is over), ERR_TIMEOUT, ERR_IO (NCCL or CUDA says no), ERR_MEMORY; `error`
 * then holds a sentence. */
int nccl_group_open(struct nccl_group **out, const struct nccl_options *options, const struct nccl_id *id,
                    char error[NCCL_GROUP_ERROR_BYTES]);

/* The same, of a part of the ranks of `old`, which all call it with the same list of those that are not among them, one at least, and keep
 * their order. `old` may be broken. Errors as above; close `old` in every case. */
int nccl_group_shrink(struct nccl_group **out, struct nccl_group *old, const struct nccl_options *options, const uint32_t *excluded,
                      uint32_t excluded_count, char error[NCCL_GROUP_ERROR_BYTES]);

/* Whether nccl_group_shrink can be tried: NCCL has what it takes, and the communicator was not aborted. */
bool nccl_group_can_shrink(const struct nccl_group *group);

/* A collective of device memory, in place, as group_all_reduce and its like do (train/group/group.h). What the program has queued on the legacy
 * default stream and on the streams that wait for it comes before. Returns when the memory has the result. ERR_USAGE breaks nothing;
 * after ERR_CLOSED, ERR_TIMEOUT and ERR_IO the values are undefined and the group is broken: every later call returns that error. */
int nccl_group_run(struct nccl_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                   uint32_t root);

/* Changes stall_timeout_ms. */
void nccl_group_set_timeout(struct nccl_group *group, int stall_timeout_ms);

/* What broke the group: one sentence, "" if nothing did. Valid until close. */
const char *nccl_group_error(const struct nccl_group *group);

/* Takes at most about 3 * NCCL_END_MS. Returns false if NCCL did not come back: a thread of this process, and what the communicator
 * has, are left behind, and NCCL is better not used again. NULL is allowed; the pointer is cleared. */
bool nccl_group_close(struct nccl_group **group);

#endif

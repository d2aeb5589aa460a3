#ifndef TRAIN_GROUP_GPU_NCCL_GROUP_H
#define TRAIN_GROUP_GPU_NCCL_GROUP_H
/* Collectives between GPUs by NCCL: a communicator of one generation of a group. A shell.
 *
 * The communicator does not block: the code polls NCCL's operation and at the same time watches the group's links and its
 * revocation (train/group/gpu/wait.h), because NCCL notices neither a rank that is gone nor a rank that does not come. In these
 * cases the communicator is ended: by ncclCommRevoke where NCCL has it, so that the next generation can be made from the
 * communicator, else by ncclCommAbort. Both are known to hang in some versions when a rank is gone, so they run in a thread
 * that is given NCCL_END_MS and is left behind if it does not return.
 *
 * Sums. All ranks end with the same bits, because each element of a sum is computed on one rank and copied from there. Two runs
 * have the same bits if NCCL's version, its settings, the GPUs and their wiring, the ranks' order and the counts are the same:
 * with NCCL_ALGO=Ring and NCCL_PROTO=Simple (train/group/gpu/nccl_library.h) the order of additions follows from them alone.
 * The bits differ from the other transports', and f16 and bf16 are rounded at each addition.
 *
 * NCCL takes one rank per GPU; its links are neither encrypted nor authenticated.
 *
 * Calls come from one thread at a time. Memory must be on the device that was current at open. */

#include <stdbool.h>
#include <stdint.h>

#include "train/group/gpu/nccl_library.h"
#include "train/group/gpu/wait.h"
#include "train/plan/element.h"
#include "train/plan/plan.h"

#define NCCL_GROUP_ERROR_BYTES 320
#define NCCL_SETTLE_MS 2000 /* for operations under way when a rank is gone */
#define NCCL_END_MS 5000    /* for NCCL to end a communicator */
#define NCCL_CHUNK_BYTES (64u * 1024 * 1024) /* of one sum, so that a long sum does not count as a stall */

/* A communicator; opaque, owned by its opener. */
struct nccl_group;

/* The arguments of nccl_group_open. */
struct nccl_options {
    const struct nccl_library *nccl; /* both libraries outlive the group */
    const struct cuda_library *cuda;
    uint32_t rank, size;
    int open_timeout_ms;
    int stall_timeout_ms; /* for one chunk */
    struct gpu_watch watch;
    int settle_ms, end_ms; /* 0: NCCL_SETTLE_MS, NCCL_END_MS */
};

/* Makes the id of a new communicator: rank 0 makes it and sends it to all ranks. ERR_IO; `error` then holds a sentence. */
int nccl_group_id(const struct nccl_library *nccl, struct nccl_id *out, char error[NCCL_GROUP_ERROR_BYTES]);

/* Opens a communicator; all ranks call it at once. The caller closes *out with nccl_group_close. ERR_CLOSED (a rank is gone, or
 * the group is over), ERR_TIMEOUT, ERR_IO (NCCL or CUDA failed), ERR_MEMORY; `error` then holds a sentence. */
int nccl_group_open(struct nccl_group **out, const struct nccl_options *options, const struct nccl_id *id,
                    char error[NCCL_GROUP_ERROR_BYTES]);

/* Opens a communicator of some of the ranks of `old`. They all call it, keep their order, and give the same list of ranks of
 * `old` to leave out, at least one. `old` may be broken, and must be closed in every case. Errors as of nccl_group_open. */
int nccl_group_shrink(struct nccl_group **out, struct nccl_group *old, const struct nccl_options *options,
                      const uint32_t *excluded, uint32_t excluded_count,
                      char error[NCCL_GROUP_ERROR_BYTES]);

/* Whether nccl_group_shrink can be tried: NCCL has the function, and the communicator was not aborted. */
bool nccl_group_can_shrink(const struct nccl_group *group);

/* A collective of device memory, in place, as in train/group/group.h; count in elements. The program's work queued on the
 * legacy default stream and on the streams that wait for it comes first. Returns when the memory has the result. ERR_USAGE
 * breaks nothing; after ERR_CLOSED, ERR_TIMEOUT and ERR_IO the values are undefined and the group is broken: every later call
 * returns the same error. */
int nccl_group_run(struct nccl_group *group, enum plan_kind kind, enum element_type type, void *values, uint64_t count,
                   uint32_t root);

/* Changes stall_timeout_ms. */
void nccl_group_set_timeout(struct nccl_group *group, int stall_timeout_ms);

/* The reason why the group broke: one sentence, "" if it did not. Valid until close. */
const char *nccl_group_error(const struct nccl_group *group);

/* Closes the communicator within about 3 * NCCL_END_MS and clears the pointer. Returns false if NCCL did not return: a thread
 * of this process and the communicator's resources are left behind, and NCCL should not be used again. NULL is allowed. */
bool nccl_group_close(struct nccl_group **group);

#endif

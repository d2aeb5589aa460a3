#ifndef TRAIN_GROUP_GPU_NCCL_ABI_H
#define TRAIN_GROUP_GPU_NCCL_ABI_H
/* The published ABI of NCCL 2, as far as it is used here. Building needs nothing of NCCL; where its header is installed,
 * train/group/gpu/nccl_abi_check.c compares. */

#include <limits.h>
#include <stddef.h>

#include "train/group/gpu/cuda_abi.h"

#define NCCL_OK 0
#define NCCL_REMOTE_ERROR 6
#define NCCL_IN_PROGRESS 7

#define NCCL_TYPE_BYTES 1 /* ncclUint8 */
#define NCCL_TYPE_F16 6
#define NCCL_TYPE_F32 7
#define NCCL_TYPE_BF16 9
#define NCCL_SUM 0

#define NCCL_ID_BYTES 128
#define NCCL_UNDEFINED INT_MIN
#define NCCL_MAGIC 0xcafebeefu
#define NCCL_VERSION_MIN 21800 /* 10000 * major + 100 * minor + patch; the oldest with the configuration below */

typedef struct ncclComm *nccl_comm; /* opaque */

/* ncclUniqueId: opaque bytes. */
struct nccl_id {
    char bytes[NCCL_ID_BYTES];
};

/* As of NCCL_VERSION_MIN; newer versions see from size and version that the rest is missing. */
struct nccl_config {
    size_t size;
    unsigned int magic;
    unsigned int version;
    int blocking;
    int cga_cluster_size;
    int ctas_min;
    int ctas_max;
    const char *net_name;
    int split_share;
};

/* X(member of struct nccl_library, symbol, result, parameters); the caller of the macro gives the types. */
#define NCCL_FUNCTIONS(X, RESULT, ID, CONFIG, TYPE, OP)                                                              \
    X(version, ncclGetVersion, RESULT, (int *))                                                                      \
    X(error_text, ncclGetErrorString, const char *, (RESULT))                                                        \
    X(unique_id, ncclGetUniqueId, RESULT, (ID *))                                                                    \
    X(comm_init, ncclCommInitRankConfig, RESULT, (nccl_comm *, int, ID, int, CONFIG *))                              \
    X(comm_state, ncclCommGetAsyncError, RESULT, (nccl_comm, RESULT *))                                              \
    X(comm_finalize, ncclCommFinalize, RESULT, (nccl_comm))                                                          \
    X(comm_destroy, ncclCommDestroy, RESULT, (nccl_comm))                                                            \
    X(comm_abort, ncclCommAbort, RESULT, (nccl_comm))                                                                \
    X(group_start, ncclGroupStart, RESULT, (void))                                                                   \
    X(group_end, ncclGroupEnd, RESULT, (void))                                                                       \
    X(all_reduce, ncclAllReduce, RESULT, (const void *, void *, size_t, TYPE, OP, nccl_comm, cuda_stream))           \
    X(reduce, ncclReduce, RESULT, (const void *, void *, size_t, TYPE, OP, int, nccl_comm, cuda_stream))             \
    X(broadcast, ncclBroadcast, RESULT, (const void *, void *, size_t, TYPE, int, nccl_comm, cuda_stream))

/* Functions missing in older versions; their members are then NULL. */
#define NCCL_FUNCTIONS_NEW(X, RESULT, CONFIG)                                                                        \
    X(comm_revoke, ncclCommRevoke, RESULT, (nccl_comm, int))                                                         \
    X(comm_shrink, ncclCommShrink, RESULT, (nccl_comm, int *, int, nccl_comm *, CONFIG *, int))

#endif

#ifndef TRAIN_GROUP_GPU_NCCL_LIBRARY_H
#define TRAIN_GROUP_GPU_NCCL_LIBRARY_H
/* NCCL, found at run time: a machine without it works. A shell. */

#include <stdint.h>

#include "train/group/gpu/cuda_library.h"
#include "train/group/gpu/nccl_abi.h"

struct nccl_library {
    NCCL_FUNCTIONS(LIBRARY_MEMBER, int, struct nccl_id, struct nccl_config, int, int)
    NCCL_FUNCTIONS_NEW(LIBRARY_MEMBER, int, struct nccl_config)
    uint32_t number;   /* of the version: 10000 * major + 100 * minor + patch */
    uint64_t settings; /* a hash of those in the environment by which the order of additions changes: alike on all ranks */
};

/* Opens libnccl.so.2, or `path`; it is never closed again. Sets NCCL_ALGO=Ring and NCCL_PROTO=Simple in the environment where they are
 * not set: of what NCCL may choose from on its own some gives other bits at each call (NVLS), and its choice hangs on what
 * it takes to be fastest. ERR_NOT_FOUND: no library, or one that lacks a function; ERR_VERSION: older than NCCL_VERSION_MIN;
 * ERR_REFUSED: NCCL_COMM_BLOCKING in the environment would keep a call from ending when a rank is gone. `error` holds a
 * sentence. */
int nccl_library_open(const char *path, struct nccl_library *out, char error[LIBRARY_ERROR_BYTES]);

/* "2.28.9" */
#define NCCL_VERSION_TEXT_BYTES 24
void nccl_version_text(uint32_t number, char out[NCCL_VERSION_TEXT_BYTES]);

#endif

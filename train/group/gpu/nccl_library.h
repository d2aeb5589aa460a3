#ifndef TRAIN_GROUP_GPU_NCCL_LIBRARY_H
#define TRAIN_GROUP_GPU_NCCL_LIBRARY_H
/* NCCL, found at run time, so that machines without it work. A shell. */

#include <stdint.h>

#include "train/group/gpu/cuda_library.h"
#include "train/group/gpu/nccl_abi.h"

/* The functions of an open NCCL; each member is a function pointer (nccl_abi.h). */
struct nccl_library {
    NCCL_FUNCTIONS(LIBRARY_MEMBER, int, struct nccl_id, struct nccl_config, int, int)
    NCCL_FUNCTIONS_NEW(LIBRARY_MEMBER, int, struct nccl_config)
    uint32_t number;   /* version: 10000 * major + 100 * minor + patch */
    /* a hash of the settings in the environment that change the order of additions: must be the same on all ranks */
    uint64_t settings;
};

/* Opens libnccl.so.2, or `path`; it is never closed again. Sets NCCL_ALGO=Ring and NCCL_PROTO=Simple in the environment unless
 * they are set: some algorithms that NCCL may choose give other bits at each call (NVLS), and its choice depends on its
 * estimate of their speed. ERR_NOT_FOUND: no library, or a function is missing; ERR_VERSION: older than NCCL_VERSION_MIN;
 * ERR_REFUSED: NCCL_COMM_BLOCKING in the environment would keep a call from ending when a rank is gone; ERR_MEMORY. `error`
 * then holds a sentence, *out is untouched. */
int nccl_library_open(const char *path, struct nccl_library *out, char error[LIBRARY_ERROR_BYTES]);

/* Writes a version as text: "2.28.9". */
#define NCCL_VERSION_TEXT_BYTES 24
void nccl_version_text(uint32_t number, char out[NCCL_VERSION_TEXT_BYTES]);

#endif

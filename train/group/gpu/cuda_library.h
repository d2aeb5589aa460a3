#ifndef TRAIN_GROUP_GPU_CUDA_LIBRARY_H
#define TRAIN_GROUP_GPU_CUDA_LIBRARY_H
/* The CUDA runtime, found at run time: a machine without it works. A shell. */

#include "train/group/gpu/cuda_abi.h"

#define LIBRARY_ERROR_BYTES 320

#define LIBRARY_MEMBER(member, symbol, result, parameters) result(*member) parameters;

struct cuda_library {
    void *handle; /* of dlopen */
    CUDA_FUNCTIONS(LIBRARY_MEMBER, int, struct cuda_pointer, int, cuda_stream, cuda_event)
};

/* Opens libcudart: the one that the program has loaded already, else the newest with which this machine's driver works. `path`
 * not NULL: that one. It is never closed again: threads of its own may run in it. ERR_NOT_FOUND: no library, or one that
 * lacks a function; ERR_VERSION: too old; ERR_REFUSED: no GPU, or no driver that fits. `error` holds a sentence. */
int cuda_library_open(const char *path, struct cuda_library *out, char error[LIBRARY_ERROR_BYTES]);

#endif

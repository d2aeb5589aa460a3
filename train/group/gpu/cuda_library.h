#ifndef TRAIN_GROUP_GPU_CUDA_LIBRARY_H
#define TRAIN_GROUP_GPU_CUDA_LIBRARY_H
/* The CUDA runtime, found at run time, so that machines without it work. A shell. */

#include "train/group/gpu/cuda_abi.h"

#define LIBRARY_ERROR_BYTES 320

#define LIBRARY_MEMBER(member, symbol, result, parameters) result(*member) parameters;

/* The functions of an open CUDA runtime; each member is a function pointer (cuda_abi.h). */
struct cuda_library {
    void *handle; /* of dlopen */
    CUDA_FUNCTIONS(LIBRARY_MEMBER, int, struct cuda_pointer, int, cuda_stream, cuda_event)
};

/* Opens libcudart: the library already loaded by the program, else the newest that works with this machine's driver; or `path`
 * if not NULL. It is never closed again, because threads of its own may run in it. ERR_NOT_FOUND: no library, or a function is
 * missing; ERR_VERSION: too old; ERR_REFUSED: no GPU, or no driver that fits. `error` then holds a sentence, *out is
 * untouched. */
int cuda_library_open(const char *path, struct cuda_library *out, char error[LIBRARY_ERROR_BYTES]);

#endif

#ifndef TRAIN_GROUP_GPU_CUDA_ABI_H
#define TRAIN_GROUP_GPU_CUDA_ABI_H
/* The published ABI of the CUDA runtime (libcudart 11 to 13), as far as it is used here. Building needs nothing of CUDA; where
 * the CUDA headers are installed, train/group/gpu/cuda_abi_check.c compares. */

#include <stddef.h>

#define CUDA_OK 0
#define CUDA_NOT_READY 600
#define CUDA_VERSION_MIN 11000 /* as returned by cudaRuntimeGetVersion: 1000 * major + 10 * minor */

/* Kinds of memory. */
#define CUDA_MEMORY_DEVICE 2
#define CUDA_MEMORY_MANAGED 3

#define CUDA_COPY_DEFAULT 4 /* the runtime derives the direction from the addresses */
#define CUDA_STREAM_NON_BLOCKING 1u
#define CUDA_EVENT_DISABLE_TIMING 2u

typedef struct CUstream_st *cuda_stream; /* opaque; NULL: the legacy default stream */
typedef struct CUevent_st *cuda_event;   /* opaque */

struct cuda_pointer { /* cudaPointerAttributes; runtimes before 13 leave the last field alone */
    int type;
    int device;
    void *device_pointer;
    void *host_pointer;
    long reserved[8];
};

/* X(member of struct cuda_library, symbol, result, parameters); the caller of the macro gives the types. */
#define CUDA_FUNCTIONS(X, RESULT, POINTER, KIND, STREAM, EVENT)                                                      \
    X(runtime_version, cudaRuntimeGetVersion, RESULT, (int *))                                                       \
    X(device_count, cudaGetDeviceCount, RESULT, (int *))                                                             \
    X(get_device, cudaGetDevice, RESULT, (int *))                                                                    \
    X(set_device, cudaSetDevice, RESULT, (int))                                                                      \
    X(bus_id, cudaDeviceGetPCIBusId, RESULT, (char *, int, int))                                                     \
    X(pointer_attributes, cudaPointerGetAttributes, RESULT, (POINTER *, const void *))                               \
    X(host_alloc, cudaMallocHost, RESULT, (void **, size_t))                                                         \
    X(host_free, cudaFreeHost, RESULT, (void *))                                                                     \
    X(copy, cudaMemcpyAsync, RESULT, (void *, const void *, size_t, KIND, STREAM))                                   \
    X(stream_create, cudaStreamCreateWithFlags, RESULT, (STREAM *, unsigned int))                                    \
    X(stream_destroy, cudaStreamDestroy, RESULT, (STREAM))                                                           \
    X(stream_wait, cudaStreamWaitEvent, RESULT, (STREAM, EVENT, unsigned int))                                       \
    X(event_create, cudaEventCreateWithFlags, RESULT, (EVENT *, unsigned int))                                       \
    X(event_destroy, cudaEventDestroy, RESULT, (EVENT))                                                              \
    X(event_record, cudaEventRecord, RESULT, (EVENT, STREAM))                                                        \
    X(event_query, cudaEventQuery, RESULT, (EVENT))                                                                  \
    X(error_text, cudaGetErrorString, const char *, (RESULT))

#endif

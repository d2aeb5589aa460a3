/* Compares train/group/gpu/cuda_abi.h with the real headers of the CUDA runtime at compile time. Headers older than the oldest
 * runtime that libshoal accepts are not checked. */
#include <cuda_runtime_api.h>
#include <stddef.h>

#include "train/group/gpu/cuda_abi.h"

#if CUDART_VERSION >= CUDA_VERSION_MIN

_Static_assert(CUDA_OK == (int)cudaSuccess && CUDA_NOT_READY == (int)cudaErrorNotReady, "results");
_Static_assert(sizeof(cudaError_t) == sizeof(int) && sizeof(enum cudaMemcpyKind) == sizeof(int), "enums pass as int");
_Static_assert(CUDA_MEMORY_DEVICE == (int)cudaMemoryTypeDevice && CUDA_MEMORY_MANAGED == (int)cudaMemoryTypeManaged, "memory");
_Static_assert(CUDA_COPY_DEFAULT == (int)cudaMemcpyDefault, "copies");
_Static_assert(CUDA_STREAM_NON_BLOCKING == cudaStreamNonBlocking && CUDA_EVENT_DISABLE_TIMING == cudaEventDisableTiming,
               "flags");
_Static_assert(__builtin_types_compatible_p(cuda_stream, cudaStream_t), "streams");
_Static_assert(__builtin_types_compatible_p(cuda_event, cudaEvent_t), "events");

_Static_assert(sizeof(struct cuda_pointer) >= sizeof(struct cudaPointerAttributes), "what the runtime writes has room");
_Static_assert(offsetof(struct cuda_pointer, type) == offsetof(struct cudaPointerAttributes, type), "type");
_Static_assert(offsetof(struct cuda_pointer, device) == offsetof(struct cudaPointerAttributes, device), "device");

#define CHECK_FUNCTION(member, symbol, result, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), result (*) parameters), #symbol);
CUDA_FUNCTIONS(CHECK_FUNCTION, cudaError_t, struct cudaPointerAttributes, enum cudaMemcpyKind, cudaStream_t, cudaEvent_t)

#endif

/* Compares train/group/gpu/nccl_abi.h with the real header of NCCL at compile time. A header older than the oldest NCCL that
 * libshoal accepts is not checked. */
#include <nccl.h>
#include <stddef.h>

#include "train/group/gpu/nccl_abi.h"

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)

_Static_assert(NCCL_OK == (int)ncclSuccess && NCCL_REMOTE_ERROR == (int)ncclRemoteError &&
                   NCCL_IN_PROGRESS == (int)ncclInProgress,
               "results");
_Static_assert(NCCL_TYPE_BYTES == (int)ncclUint8 && NCCL_TYPE_F16 == (int)ncclFloat16 && NCCL_TYPE_F32 == (int)ncclFloat32 &&
                   NCCL_TYPE_BF16 == (int)ncclBfloat16 && NCCL_SUM == (int)ncclSum,
               "types and sums");
_Static_assert(sizeof(ncclResult_t) == sizeof(int) && sizeof(ncclDataType_t) == sizeof(int) &&
                   sizeof(ncclRedOp_t) == sizeof(int),
               "enums pass as int");
_Static_assert(__builtin_types_compatible_p(nccl_comm, ncclComm_t), "communicators");
_Static_assert(sizeof(struct nccl_id) == sizeof(ncclUniqueId) && _Alignof(struct nccl_id) == _Alignof(ncclUniqueId), "ids");
_Static_assert(NCCL_UNDEFINED == NCCL_CONFIG_UNDEF_INT && NCCL_VERSION_MIN == NCCL_VERSION(2, 18, 0), "configuration");

#define CHECK_FIELD(own, real)                                                          \
    _Static_assert(offsetof(struct nccl_config, own) == offsetof(ncclConfig_t, real) && \
                       sizeof(((struct nccl_config *)0)->own) == sizeof(((ncclConfig_t *)0)->real), #real)
CHECK_FIELD(size, size);
CHECK_FIELD(magic, magic);
CHECK_FIELD(version, version);
CHECK_FIELD(blocking, blocking);
CHECK_FIELD(cga_cluster_size, cgaClusterSize);
CHECK_FIELD(ctas_min, minCTAs);
CHECK_FIELD(ctas_max, maxCTAs);
CHECK_FIELD(net_name, netName);
CHECK_FIELD(split_share, splitShare);

#define CHECK_FUNCTION(member, symbol, result, parameters) \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), result (*) parameters), #symbol);
NCCL_FUNCTIONS(CHECK_FUNCTION, ncclResult_t, ncclUniqueId, ncclConfig_t, ncclDataType_t, ncclRedOp_t)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 9)
NCCL_FUNCTIONS_NEW(CHECK_FUNCTION, ncclResult_t, ncclConfig_t)
#endif

#endif

#ifndef NODE_SLOTS_SLOTS_H
#define NODE_SLOTS_SLOTS_H
/* Which slots this machine has. A shell: it reads /proc and may open NVIDIA's driver library. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS_MAX 64
#define SLOTS_ERROR_BYTES 512

enum slot_kind { SLOT_CPU = 1, SLOT_CUDA = 2 };

struct slot_info {
    char uuid[64];         /* "GPU-..." or "MIG-..." as NVML says; "cpu-<16 hex digits>-<index>" */
    enum slot_kind kind;
    char model[64];
    uint64_t memory_bytes; /* of the GPU or MIG device; for CPU slots the machine's memory divided by the slots */
    uint32_t index;        /* 0, 1, ... in the list */
    char visible[64];      /* the worker's CUDA_VISIBLE_DEVICES; "" for CPU slots, which hides all GPUs */
};

struct slots_options {
    const char *nvml_path; /* NULL: libnvidia-ml.so.1 where the loader finds it */
    const char *salt;      /* NULL, or a text that tells daemons of one machine apart in the uuids of CPU slots */
};

/* `text` is what --slots says:
 *     auto   each NVIDIA GPU, or each MIG device of GPUs that are split; without any, one CPU slot for each CPU that this
 *            process may run on (its affinity mask), at most SLOTS_MAX
 *     cpu:N  N CPU slots, 1 ... SLOTS_MAX
 *     none   none
 * The same machine gives the same list each time, uuids of CPU slots included (they come from /etc/machine-id, hashed,
 * or else the host name). 0, with `error` a remark worth logging ("no GPU was found: ...") or ""; ERR_USAGE with one
 * sentence. With GPUs it may take seconds: the driver wakes up. */
int slots_discover(const char *text, const struct slots_options *options, struct slot_info slots[SLOTS_MAX],
                   size_t *count, char error[SLOTS_ERROR_BYTES]);

/* Whether any process computes on the GPU or MIG device, ours included: ask when our own worker should be gone. Opens
 * the driver each time; a caller that asks often keeps a struct slots_nvml (node/slots/nvml.h). In a container with its
 * own process ids NVML may see nobody. 0, ERR_NOT_FOUND (no such device, or no driver), ERR_REFUSED (the driver would
 * not say), ERR_IO. */
int slots_gpu_busy(const struct slots_options *options, const char *uuid, bool *busy);

#endif

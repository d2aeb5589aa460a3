#ifndef NODE_SLOTS_SLOTS_H
#define NODE_SLOTS_SLOTS_H
/* Finds the slots of this machine. A shell: it reads /proc and may load NVIDIA's driver library. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOTS_MAX 64
#define SLOTS_ERROR_BYTES 512

/* What a slot consists of: a share of the CPU, or a GPU or MIG device. */
enum slot_kind { SLOT_CPU = 1, SLOT_CUDA = 2 };

/* One slot. */
struct slot_info {
    char uuid[64];         /* "GPU-..." or "MIG-..." as NVML names it, or "cpu-<16 hex digits>-<index>" */
    enum slot_kind kind;
    char model[64];
    uint64_t memory_bytes; /* memory of the GPU or MIG device; for a CPU slot the machine's memory divided by the number
                              of slots */
    uint32_t index;        /* place in the list, from 0 */
    char visible[64];      /* the slot's entry in CUDA_VISIBLE_DEVICES: the number of a whole GPU in the order of the PCI bus,
                              the uuid of a MIG device; "" for CPU slots, which hides all GPUs */
    bool is_part;          /* a MIG device: CUDA lets a process use one, and no whole GPU beside it */
};

/* Both fields are borrowed for the call. */
struct slots_options {
    const char *nvml_path; /* NULL: libnvidia-ml.so.1 from the loader's path */
    const char *salt;      /* NULL, or a text by which daemons of one machine get different uuids of CPU slots */
};

/* Lists the slots. `text` is the value of --slots:
 *     auto   each NVIDIA GPU, or each MIG device of split GPUs; without any, one CPU slot for each CPU that this process may
 *            run on (its affinity mask), at most SLOTS_MAX
 *     cpu:N  N CPU slots, 1 ... SLOTS_MAX
 *     none   none
 * The same machine gives the same list each time, with the same uuids of CPU slots (from a hash of /etc/machine-id, or
 * of the host name). 0, and `error` is then "" or a remark to log ("no GPU was found: ..."); ERR_USAGE: `error` is one
 * sentence. With GPUs this may take seconds, while the driver wakes up. */
int slots_discover(const char *text, const struct slots_options *options, struct slot_info slots[SLOTS_MAX],
                   size_t *count, char error[SLOTS_ERROR_BYTES]);

/* Finds out whether a process computes on the GPU or MIG device, our own included: call it when our worker should be
 * gone. Loads the driver library each time; a caller that asks often keeps a struct slots_nvml (node/slots/nvml.h). In
 * a container with its own process ids NVML may see no process. 0; ERR_NOT_FOUND: no such device, or no driver;
 * ERR_REFUSED: the driver gave no answer; ERR_IO. */
int slots_gpu_busy(const struct slots_options *options, const char *uuid, bool *busy);

#endif

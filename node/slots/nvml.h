#ifndef NODE_SLOTS_NVML_H
#define NODE_SLOTS_NVML_H
/* NVIDIA's management library (NVML), loaded at run time: it is not needed to build, and a machine without it works.
 * nvml.c declares the few types that are needed after the published ABI. A shell; one thread at a time per struct
 * slots_nvml. */

#include "node/slots/slots.h"

struct slots_nvml; /* the loaded library, initialised; opaque */

/* Loads the library; `path` NULL: libnvidia-ml.so.1. The caller owns `*out` until slots_nvml_close. ERR_NOT_FOUND: no
 * library, no driver, or a library that lacks a function; ERR_REFUSED: it did not start; ERR_MEMORY. `error` is then
 * one sentence. */
int slots_nvml_open(const char *path, struct slots_nvml **out, char error[SLOTS_ERROR_BYTES]);

/* Unloads the library and sets `*nvml` to NULL; NULL inside is allowed. */
void slots_nvml_close(struct slots_nvml **nvml);

/* Lists all GPUs and MIG devices that a worker could use, in NVML's order (by PCI bus). A GPU that does not answer is
 * left out and named in `remark`, and so are devices beyond SLOTS_MAX. 0 or ERR_REFUSED. */
int slots_nvml_list(struct slots_nvml *nvml, struct slot_info slots[SLOTS_MAX], size_t *count,
                    char remark[SLOTS_ERROR_BYTES]);

#define SLOTS_NVML_UNKNOWN UINT64_MAX

/* What a GPU is used: `percent` of the time in which a kernel ran lately (above 100: not known, as for MIG devices), and
 * memory. The others are SLOTS_NVML_UNKNOWN where the driver does not tell, as for MIG devices. */
struct slots_nvml_use {
    uint64_t percent, memory_bytes;
    uint64_t celsius, milliwatts;
    uint64_t millijoules; /* since the driver was loaded */
};

/* ERR_NOT_FOUND: no such device; ERR_REFUSED: the driver does not tell. */
int slots_nvml_use(struct slots_nvml *nvml, const char *uuid, struct slots_nvml_use *out);

#define SLOTS_NVML_UUID_BYTES 96

/* Begins to listen for the critical errors of all GPUs (XID). False: the driver cannot tell. Repeated calls change
 * nothing. */
bool slots_nvml_listen(struct slots_nvml *nvml);

/* Takes the next error since slots_nvml_listen, without waiting: the GPU's uuid, and the number of the error. False:
 * there is none. */
bool slots_nvml_next_error(struct slots_nvml *nvml, char uuid[SLOTS_NVML_UUID_BYTES], uint64_t *xid);

/* True if the process is to be passed over. */
typedef bool (*slots_nvml_owned)(void *context, uint32_t pid);

/* As slots_gpu_busy, but for processes that is_owned passes over; is_owned may be NULL: it passes over none. */
int slots_nvml_busy(struct slots_nvml *nvml, const char *uuid, slots_nvml_owned is_owned, void *context, bool *busy);

#endif

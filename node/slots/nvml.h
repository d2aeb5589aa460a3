#ifndef NODE_SLOTS_NVML_H
#define NODE_SLOTS_NVML_H
/* NVIDIA's management library, found at run time: nothing of it is needed to build, and a machine without it works.
 * The few types that are needed are declared in nvml.c after the published ABI. */

#include "node/slots/slots.h"

struct slots_nvml; /* the opened library, initialised */

/* `path` NULL: libnvidia-ml.so.1. The caller closes `*out` with slots_nvml_close. ERR_NOT_FOUND: no library, no driver,
 * or one that lacks a function; ERR_REFUSED: it would not start; ERR_MEMORY. `error` holds a sentence. */
int slots_nvml_open(const char *path, struct slots_nvml **out, char error[SLOTS_ERROR_BYTES]);

/* Clears the pointer; NULL inside is allowed. */
void slots_nvml_close(struct slots_nvml **nvml);

/* All GPUs and MIG devices that a worker could use, in NVML's order (that of the PCI bus). A GPU that does not answer is left
 * out and named in `remark`, as are those beyond SLOTS_MAX. 0 or ERR_REFUSED. */
int slots_nvml_list(struct slots_nvml *nvml, struct slot_info slots[SLOTS_MAX], size_t *count,
                    char remark[SLOTS_ERROR_BYTES]);

/* As slots_gpu_busy. */
int slots_nvml_busy(struct slots_nvml *nvml, const char *uuid, bool *busy);

#endif

#ifndef NODE_DAEMON_WORKERS_PLATFORM_H
#define NODE_DAEMON_WORKERS_PLATFORM_H
/* What an attempt runs on, noted by the node of its rank 0 when that worker begins: Shoal's version, the system, the slot's model, NVIDIA's
 * driver, and of a program in Python the interpreter with its packages. It is a series of one entry beside the log (prefix 'e'), a map
 * of texts: `shoal system model driver python executable packages`, where `packages` has lines "name==version" in order; what is not
 * known is left out.
 *
 * The packages are asked for in a process of the interpreter that the entrypoint names, once for all workers that would find the
 * same, and again when a directory of its packages has changed. All functions are for the protocol thread. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/workers/environment.h"

#define PLATFORM_BYTES_MAX (512u * 1024)
#define PLATFORM_PYTHON_BYTES 512

/* Finds the interpreter of an entrypoint: python, python3.11 or a path to one, that of a virtual environment that it activates, python3 for
 * torchrun and the like. `work`: the directory of relative paths. False: the entrypoint names none, or another program decides it (conda,
 * poetry, docker ...). */
bool platform_python(const char *entrypoint, const char *work, char out[PLATFORM_PYTHON_BYTES]);

/* Notes it for the worker that is about to start in the slot, now or when the process has answered. */
void platform_begin(struct daemon *daemon, uint32_t slot, const struct worker_start *start);

/* Once a second: takes what the process told, and starts the next. */
void daemon_platform_tick(struct daemon *daemon, uint64_t now_ms);

void daemon_platform_close(struct daemon *daemon);

#endif

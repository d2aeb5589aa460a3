#ifndef NODE_DAEMON_WORKERS_PACKAGES_H
#define NODE_DAEMON_WORKERS_PACKAGES_H
/* The packages of a worker (environment.requirements): a process of its own, packages.py on the interpreter of the
 * configuration, makes a virtual environment or finds it made, and links `packages` of the worker's directory to it. Its output
 * is the beginning of the worker's log. All functions are for the protocol thread. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "node/daemon/ground/daemon.h"

/* Starts the process for a worker whose directory is unpacked. Returns its id; 0: it cannot be started, and errno says why. */
pid_t packages_start(const struct daemon *daemon, const struct config *config, const char *directory);

enum packages_state { PACKAGES_BUSY, PACKAGES_READY, PACKAGES_FAILED };

/* Whether the process has ended. After another answer than PACKAGES_BUSY its id is void. */
enum packages_state packages_poll(pid_t pid);

/* Ends the process and all that it started. packages_poll tells when it is gone. */
void packages_kill(pid_t pid);

#endif

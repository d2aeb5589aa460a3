#ifndef NODE_DAEMON_WORKERS_ENVIRONMENT_H
#define NODE_DAEMON_WORKERS_ENVIRONMENT_H
/* The environment of a worker's program: some variables of the daemon, the variables of the experiment, Shoal's own and
 * torchrun's. */

#include "node/daemon/ground/daemon.h"

/* A list of `NAME=value` strings; all zero is empty. */
struct daemon_environment {
    char **items;
    size_t count, capacity;
};

/* Adds the variables of the worker that `effect` starts. The items and the array come from malloc and are the caller's.
 * Variables are left out when memory is full. */
void daemon_environment_build(struct daemon *daemon, const struct node_effect *effect, const struct config *config,
                              struct daemon_environment *environment);

#endif

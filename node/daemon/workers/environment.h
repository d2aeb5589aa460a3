#ifndef NODE_DAEMON_WORKERS_ENVIRONMENT_H
#define NODE_DAEMON_WORKERS_ENVIRONMENT_H
/* What a worker's program finds in its environment: some of the daemon's, what the experiment sets, Shoal's variables and those of
 * torchrun. */

#include "node/daemon/ground/daemon.h"

struct daemon_environment {
    char **items;
    size_t count, capacity;
};

/* Adds the variables of the worker that `effect` starts. Each item is from malloc and the caller's; what has no room or no
 * memory is left out. */
void daemon_environment_build(struct daemon *daemon, const struct node_effect *effect, const struct config *config,
                              struct daemon_environment *environment);

#endif

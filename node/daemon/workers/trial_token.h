#ifndef NODE_DAEMON_WORKERS_TRIAL_TOKEN_H
#define NODE_DAEMON_WORKERS_TRIAL_TOKEN_H
/* The token with which a worker's program writes to its own trial at this node's HTTP door (docs/mlflow.md). It follows
 * from the token of the worker's lease, so nothing of it is stored, it outlives a restart of the daemon as the worker
 * does, and it ends with the lease. The lease's token does not follow from it. */

#include <stdbool.h>

#include "base/id.h"

#define TRIAL_TOKEN_PREFIX "trial_"
#define TRIAL_TOKEN_BYTES (sizeof TRIAL_TOKEN_PREFIX + 64) /* as text, with the NUL */

/* Writes the token that goes with a lease. */
void trial_token_of(lease_token lease, char out[TRIAL_TOKEN_BYTES]);

/* Whether the text is the token that goes with a lease. The time that this takes does not depend on the texts. */
bool trial_token_is(lease_token lease, const char *text);

#endif

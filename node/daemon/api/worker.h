#ifndef NODE_DAEMON_API_WORKER_H
#define NODE_DAEMON_API_WORKER_H
/* What workers ask through libshoal, and what they are told: their identity, the workers' group, reports, checkpoints, notices.
 * A worker's connection is known by the token of its lease; what it says counts while that lease lasts. */

#include "node/daemon/local/local.h"

/* True if the operation is one of a worker's. */
bool api_worker_request(struct daemon *daemon, struct client_request *request, const char *op, size_t op_bytes);

/* True while what a worker reports could not be kept. */
bool api_worker_waits(struct daemon *daemon, const struct client *client, const char *op, size_t op_bytes);

/* The connection ends; its worker may open another. */
void api_worker_gone(struct daemon *daemon, struct client *client);

#endif

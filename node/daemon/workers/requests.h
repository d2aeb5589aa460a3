#ifndef NODE_DAEMON_WORKERS_REQUESTS_H
#define NODE_DAEMON_WORKERS_REQUESTS_H
/* What workers ask through libshoal, and what they are told: their identity, the workers' group, reports, checkpoints, notices.
 * A worker's connection is known by the token of its lease; what it says counts while that lease lasts. */

#include "node/daemon/local/local.h"

/* True if the operation is one of a worker's. */
bool local_worker_request(struct daemon *daemon, struct local_request *request, const char *op, size_t op_bytes);

/* True while what a worker reports could not be kept. */
bool local_worker_waits(struct daemon *daemon, const struct daemon_client *client, const char *op, size_t op_bytes);

/* The connection ends; its worker may open another. */
void local_worker_gone(struct daemon *daemon, struct daemon_client *client);

#endif

#ifndef NODE_DAEMON_QUERY_H
#define NODE_DAEMON_QUERY_H
/* Requests that read: documents out of the core's state, streams of them, series and checkpoints. */

#include "node/daemon/local.h"

/* True if the operation is one that reads. */
bool query_request(struct daemon *daemon, struct local_request *request, const char *op, size_t op_bytes);

/* Answers worker_load with the run's checkpoint; what of it is damaged or gone here is brought again first. */
void query_worker_load(struct daemon *daemon, struct local_request *request, const struct daemon_run *run);
void query_tick(struct daemon *daemon, uint64_t now_ms);

/* verify.c: answers once every holder of every checkpoint of the trial, which has one, was asked. */
void query_verify(struct daemon *daemon, struct local_request *request, const struct view_trial *trial);

#endif

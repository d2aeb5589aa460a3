#ifndef NODE_DAEMON_API_QUERY_H
#define NODE_DAEMON_API_QUERY_H
/* Requests that read: documents out of the core's state and streams of them (query.c), metric points and logs
 * (query_series.c), checkpoints (query_checkpoint.c, verify.c). What is not here is fetched from other nodes first. */

#include "node/daemon/local/local.h"

/* True if the operation is one that reads. */
bool query_request(struct daemon *daemon, struct client_request *request, const char *op, size_t op_bytes);
void query_tick(struct daemon *daemon, uint64_t now_ms);

/* An error of code 4: the experiment has no trial of this index. */
void query_reply_no_trial(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                          uint64_t index);

/* The arguments `experiment` and `trial`; false (and an error reply) if there is no such trial, or no checkpoint of it. */
bool query_argument_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                          const struct view_trial **trial);

/* query_series.c: `kind` is "m" for metric points, "l" for logs. */
void query_series_request(struct daemon *daemon, struct client_request *request, char kind);
void query_series_tick(struct daemon *daemon, uint64_t now_ms);
void query_series_close(struct daemon *daemon);

/* query_checkpoint.c. The second answers worker_load with the worker's checkpoint; what of it is damaged or gone here is brought
 * again first. */
void query_checkpoint_get(struct daemon *daemon, struct client_request *request);
void query_worker_load(struct daemon *daemon, struct client_request *request, const struct daemon_worker *worker);
void query_checkpoint_close(struct daemon *daemon);

/* verify.c: answers once every holder of every checkpoint of the trial, which has one, was asked. */
void query_verify(struct daemon *daemon, struct client_request *request, const struct view_trial *trial);
void query_verify_close(struct daemon *daemon);

#endif

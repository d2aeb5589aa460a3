#ifndef NODE_DAEMON_API_QUERY_H
#define NODE_DAEMON_API_QUERY_H
/* Requests that read: documents out of the core's state and streams of them (query.c), metric points and logs
 * (query_series.c), checkpoints (query_checkpoint.c, verify.c). What is not here is fetched from other nodes first. */

#include "node/daemon/api/client.h"

/* ---- query.c ---------------------------------------------------------------------------------------------------- */

enum query_list { QUERY_NODES, QUERY_INVITES, QUERY_SLOTS, QUERY_EXPERIMENTS };

/* Handlers of the table (table.h). Each answers at once, a document that is larger than a message in several; query_stream also
 * goes on in query_tick. `list` is an enum query_list, `kind` an enum stream_kind; `argument` is not used. */
void query_status(struct daemon *daemon, struct client_request *request, int argument);
void query_list(struct daemon *daemon, struct client_request *request, int list);
void query_show(struct daemon *daemon, struct client_request *request, int argument);
void query_checkpoints(struct daemon *daemon, struct client_request *request, int argument);
void query_stream(struct daemon *daemon, struct client_request *request, int kind);

/* Sends what streams have to say by now; sets daemon->api->watch_ms while any is open. */
void query_tick(struct daemon *daemon, uint64_t now_ms);

/* Forgets all requests that are under way. When no job runs any more and all clients are gone. */
void query_close(struct daemon *daemon);

/* An error of code EXIT_NOT_FOUND: the experiment has no trial of this index. */
void query_reply_no_trial(struct daemon *daemon, const struct client_request *request, const struct view_experiment *experiment,
                          uint64_t index);

/* The arguments `experiment` and `trial`; false (and an error reply) if there is no such trial, or no checkpoint of it. Both
 * results are the core's, until its next step. */
bool query_argument_trial(struct daemon *daemon, struct client_request *request, struct view_experiment **experiment,
                          const struct view_trial **trial);

/* ---- query_series.c --------------------------------------------------------------------------------------------- */

/* A handler of the table: `kind` is 'm' for metric points, 'l' for logs. Answered as the series come. */
void query_series_request(struct daemon *daemon, struct client_request *request, int kind);

/* An answer of bulk (BULK_SERIES); that to a request of another part of the daemon is ignored. */
void query_series_answered(struct daemon *daemon, struct bulk_event *event);

/* Asks for the next entries of each series, and ends a request when the client is gone. */
void query_series_tick(struct daemon *daemon, uint64_t now_ms);
void query_series_close(struct daemon *daemon);

/* ---- query_checkpoint.c ----------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answered with the checkpoint as a file, once it is here. */
void query_checkpoint_get(struct daemon *daemon, struct client_request *request, int argument);

/* Answers worker_load with the worker's checkpoint; what of it is damaged or gone here is brought again first. */
void query_worker_load(struct daemon *daemon, struct client_request *request, const struct daemon_worker *worker);

/* An answer of bulk (BULK_FETCHED); that to a request of another part of the daemon is ignored. */
void query_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);
void query_checkpoint_close(struct daemon *daemon);

/* ---- verify.c --------------------------------------------------------------------------------------------------- */

/* A handler of the table; `argument` is not used. Answered once every holder of every checkpoint of the trial was asked. */
void query_verify(struct daemon *daemon, struct client_request *request, int argument);

/* An answer of bulk (BULK_VERIFIED); that to a request of another part of the daemon is ignored. */
void query_verify_answered(struct daemon *daemon, uint64_t request, int code);
void query_verify_close(struct daemon *daemon);

#endif

#ifndef NODE_DAEMON_API_WORKER_H
#define NODE_DAEMON_API_WORKER_H
/* Requests of workers through libshoal, and notices to workers: identity, the workers' group, reports, checkpoints. The
 * token of a worker's lease makes a connection the worker's, and the requests count while the lease lasts. A connection
 * belongs to one worker at most: worker->client and client->slot name each other, or neither does. */

#include "node/daemon/api/client.h"

/* Makes the connection that of the worker with the token. A second connection with the same token replaces the first. A
 * handler of the table (table.h); `argument` is not used. */
void api_worker_open(struct daemon *daemon, struct client_request *request, int argument);

/* More handlers of the table; `argument` is not used, and request->worker comes from api_worker_admit. */
/* Answered by api_worker_group_effect. */
void api_worker_group(struct daemon *daemon, struct client_request *request, int argument);
/* Answered by api_worker_appended, or at once if the report is refused or is stored already. */
void api_worker_report(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_progress(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_blocked(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_profile(struct daemon *daemon, struct client_request *request, int argument);
/* worker_trace.c */
void api_worker_spans(struct daemon *daemon, struct client_request *request, int argument);
/* Answered once the bytes are stored on this disk. */
void api_worker_save(struct daemon *daemon, struct client_request *request, int is_part);
void api_worker_parts(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_load(struct daemon *daemon, struct client_request *request, int argument);

/* Sets request->worker. False, and an error of code EXIT_REFUSED: the connection is no worker's, or the lease has
 * ended. */
bool api_worker_admit(struct daemon *daemon, struct client_request *request);

/* True while there is no room for the worker's reports. False for a client that is no worker. */
bool api_worker_must_wait(struct daemon *daemon, const struct client *client);

/* Takes the ending connection from its worker, if it has one; the worker may open another connection. */
void api_worker_gone(struct daemon *daemon, struct client *client);

/* Tells workers of the traces that nodes have asked for (worker_trace.c). */
void api_worker_trace_tick(struct daemon *daemon, uint64_t now_ms);

/* Takes the event BULK_APPENDED: answers the reports that are on the disk now, or cannot be stored (`code`). */
void api_worker_appended(struct daemon *daemon, uint64_t id, int code);

/* An answer to a request with something of a worker's for the disk. api_answer_new: NULL, no memory is left; the caller appends
 * with the number that api_answer_id tells, and then hands the answer to api_answer_later, or frees it (free). */
struct api_answer *api_answer_new(struct daemon *daemon, const struct client_request *request, const struct daemon_worker *worker);
uint64_t api_answer_id(const struct api_answer *answer);
void api_answer_later(struct daemon *daemon, struct api_answer *answer);

/* Drops the answers that wait for the disk: libshoal asks the next daemon. */
void api_worker_close(struct daemon *daemon);

/* Performs NODE_EFFECT_GROUP: answers worker_group. Nothing happens while the worker has no connection. */
void api_worker_group_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_LEAVE_GROUP: sends a notice, at once or when the worker connects. */
void api_worker_leave_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_DURABLE: sends a notice. Nothing happens while the worker has no connection. */
void api_worker_durable_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_STOP_WORKER: tells the worker to save and leave. A worker without a connection is told when it
 * connects, or is ended (workers/workers.h). */
void api_worker_stop_effect(struct daemon *daemon, const struct node_effect *effect);

/* Takes the connection from a worker that has ended: later requests over the connection belong to no worker. The worker
 * must have a connection. */
void api_worker_forget(struct daemon_worker *worker);

#endif

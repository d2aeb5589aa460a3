#ifndef NODE_DAEMON_API_WORKER_H
#define NODE_DAEMON_API_WORKER_H
/* What workers ask through libshoal, and what they are told: their identity, the workers' group, reports, checkpoints, notices.
 * A worker's connection is known by the token of its lease; what it says counts while that lease lasts. One connection is one
 * worker's: worker->client and client->slot name each other, or neither does. */

#include "node/daemon/api/client.h"

/* Handlers of the table (table.h); `argument` is not used. The first makes the connection that of the worker with the token; of
 * two connections with one token the later counts. The others have request->worker from api_worker_admit. */
void api_worker_open(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_group(struct daemon *daemon, struct client_request *request, int argument); /* answered by the group's effect */
void api_worker_report(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_progress(struct daemon *daemon, struct client_request *request, int argument);
void api_worker_save(struct daemon *daemon, struct client_request *request, int argument); /* answered once it is stored here */
void api_worker_load(struct daemon *daemon, struct client_request *request, int argument);

/* Sets request->worker. False, and an error of code EXIT_REFUSED: the connection is no worker's, or its lease has ended. */
bool api_worker_admit(struct daemon *daemon, struct client_request *request);

/* True while what this worker reports could not be kept. False for a client that is no worker. */
bool api_worker_must_wait(struct daemon *daemon, const struct client *client);

/* The connection ends; its worker may open another. */
void api_worker_gone(struct daemon *daemon, struct client *client);

/* Perform NODE_EFFECT_GROUP (the answer to worker_group), NODE_EFFECT_LEAVE_GROUP and NODE_EFFECT_DURABLE (notices). Without a
 * connection of the worker the first and the last do nothing; the second is told when the worker connects. */
void api_worker_group_effect(struct daemon *daemon, const struct node_effect *effect);
void api_worker_leave_effect(struct daemon *daemon, const struct node_effect *effect);
void api_worker_durable_effect(struct daemon *daemon, const struct node_effect *effect);

/* Performs NODE_EFFECT_STOP_WORKER: a worker that has a connection is told to save and leave; one that has none is told when it
 * connects, or ended (workers.h). */
void api_worker_stop_effect(struct daemon *daemon, const struct node_effect *effect);

/* The worker has ended and has a connection: requests that still come over that connection belong to no worker. */
void api_worker_forget(struct daemon_worker *worker);

#endif

#ifndef NODE_DAEMON_WORKERS_END_H
#define NODE_DAEMON_WORKERS_END_H
/* The end of a worker: it is stopped or killed, or ends by itself; shoal-keep reports the end; the core gets it with its cause
 * and the last lines of output. All functions are for the protocol thread. */

#include "node/daemon/workers/workers.h"

/* Performs NODE_EFFECT_STOP_WORKER as far as no connection is needed. True: the worker has a connection, and the caller
 * sends the notice (after daemon_workers_stopping). */
bool daemon_workers_stop(struct daemon *daemon, const struct node_effect *effect);

/* Call before the worker is told to save and leave: tells shoal-keep first, and starts the grace. */
void daemon_workers_stopping(struct daemon_worker *worker);

/* Performs NODE_EFFECT_KILL: SIGTERM, and SIGKILL after the grace. `is_hung`: the worker writes its stacks first. A worker that is
 * spawned now gets the order as soon as shoal-keep runs. Ignored unless the slot's worker is of this attempt. */
void daemon_workers_kill(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, uint32_t grace_ms, bool is_hung);

/* Sends the order to kill (kill_hung, kill_grace_ms) to shoal-keep; kill_wanted tells whether it has yet to be sent again. */
void worker_send_kill(struct daemon_worker *worker);

/* Once a second for a running worker: orders to kill that are due, and orders that shoal-keep has not taken. */
void worker_repeat_orders(struct daemon_worker *worker, uint64_t now_ms);

/* Takes the events of shoal-keep about this slot's worker. */
void daemon_workers_poll(struct daemon *daemon, uint32_t slot);

/* True: the worker and all its processes have ended, but its end is not taken yet. The caller first handles the
 * requests that still wait in the worker's connection, then calls daemon_workers_take_last. */
bool daemon_workers_is_ending(struct daemon *daemon, uint32_t slot);

/* Takes the rest of the worker's output, and how it ended. False: more output is to be read, call again later. After
 * true, the core gets the end as soon as the worker's metrics and checkpoints are on the disk. */
bool daemon_workers_take_last(struct daemon *daemon, uint32_t slot);

/* Takes an answer of bulk (BULK_SERIES): the metrics of an ended worker are on the disk, and the core gets the end.
 * Ignored unless this room made the request. */
void daemon_workers_settled(struct daemon *daemon, uint64_t request);

/* Gives the core the end of a worker without a started program. `text` says why. */
void daemon_workers_not_started(struct daemon *daemon, uint32_t slot, const char *text);

/* Removes the directory of each ended worker whose end is on the disk as a record. Called in each turn of the loop. */
void daemon_workers_persisted(struct daemon *daemon);

/* Frees the list of ended workers. The next daemon finds their directories. */
void daemon_workers_forget_ended(struct daemon *daemon);

#endif

#ifndef NODE_DAEMON_WORKERS_LAUNCH_H
#define NODE_DAEMON_WORKERS_LAUNCH_H
/* The start of a worker: its parts are fetched and unpacked into its directory, then shoal-keep spawns its program. The states
 * are those of state.h up to WORKER_RUNNING. All functions are for the protocol thread. */

#include "node/daemon/workers/workers.h"

/* Performs NODE_EFFECT_PREPARE: fetches and unpacks the worker's parts and takes a port. The core gets NODE_EVENT_PREPARED, later
 * or at once. */
void daemon_workers_prepare(struct daemon *daemon, const struct node_effect *effect);

/* Takes an answer of bulk (BULK_FETCHED). Ignored unless a worker's start needs the blob. `text` tells the cause when
 * `code` is not 0. */
void daemon_workers_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);

/* Once a second while the worker waits for a port (port_until_ms): tries again to take one. Ends the waiting when the time is
 * over or the attempt is no more. */
void daemon_workers_seek_port(struct daemon *daemon, uint32_t slot, uint64_t now_ms);

/* Once a second while a worker's parts are fetched: gives the slot back if the attempt is no more. What arrives later stays for
 * the next attempt. */
void daemon_workers_leave_fetch(struct daemon *daemon, uint32_t slot);

/* Once a second in WORKER_INSTALLING: takes the end of the process that makes the packages ready, and ends it if the attempt is no
 * more. */
void daemon_workers_follow_packages(struct daemon *daemon, uint32_t slot);

/* Removes the directory of a worker in WORKER_READY that will not start, and clears the worker. Ignored in other states. */
void daemon_workers_forget_prepared(struct daemon *daemon, struct daemon_worker *worker);

/* Performs NODE_EFFECT_SPAWN: a job starts the program through shoal-keep. A failure is the worker's end
 * (NODE_EVENT_WORKER_EXITED, is_unstarted). */
void daemon_workers_spawn(struct daemon *daemon, const struct node_effect *effect);

/* The program of a worker in WORKER_SPAWNING runs, under the shoal-keep of its link. */
void daemon_workers_spawned(struct daemon *daemon, uint32_t slot);

/* A warm process has not begun the program of a worker in WORKER_SPAWNING: a job starts it cold. */
void daemon_workers_spawn_again(struct daemon *daemon, uint32_t slot);

/* Frees what the start of a worker that waits for a warm process is made of. */
void daemon_workers_forget_spawn(struct daemon_worker *worker);

#endif

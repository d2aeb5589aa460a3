#ifndef NODE_DAEMON_WORKERS_WARM_H
#define NODE_DAEMON_WORKERS_WARM_H
/* The warm processes of this node (environment.warm). A warm process is Python with warm.py: it has imported what the program of an
 * experiment imports, and forks the process of each trial of that experiment from itself, together with the trial's shoal-keep, so that
 * all promises of node/keep/keep.h hold. It is a child of this daemon and ends with it; the trials go on.
 *
 * One warm process serves all slots whose workers begin with the same: experiment, code, interpreter, script, and all variables but
 * those that differ between trials (warm_differs). It ends when no trial has begun for WARM_IDLE_MS, when its experiment is over, or
 * when the machine's memory is short. All functions are for the protocol thread. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/render/render.h"
#include "node/daemon/workers/environment.h"
#include "node/daemon/workers/warm_command.h"

#define WARM_MAX 64 /* of this node; with no room left the one that was used least recently goes */

/* Starting anew costs a second or two: after a minute without a trial that is 3 % of the time, and the memory (hundreds of MB with
 * PyTorch) has been of no use. */
#define WARM_IDLE_MS 60000
#define WARM_IMPORT_MS 120000 /* imports that take longer are not waited for */

/* What keep_spawn_warm needs. All zero: nothing. */
struct warm_start {
    int fd; /* a copy of the warm process's socket */
    char *arguments;
    size_t argument_bytes;
};

#define WARM_PATIENCE 8 /* so many trials begin cold before imports that have failed are tried again; then twice as many */

/* Finds or starts the warm process for a worker of this slot that is about to begin; it may still be importing, and takes the worker
 * when it is done. If it does not, daemon_worker.warm_why tells why. `start` and `directory`: what the worker begins with. 0, and the caller closes `out`; ERR_USAGE: the worker has to
 * begin cold, and `why` is the end of a sentence. */
int daemon_warm_take(struct daemon *daemon, uint32_t slot, const attempt_id *attempt, hash256 code, const struct worker_start *start,
                     const char *directory, struct warm_start *out, char why[WARM_WHY_BYTES]);

void warm_start_close(struct warm_start *start);

/* A worker of this slot that waits for a warm process's imports is to end: the process is ended, since the worker is in its hands. Others that
 * wait for it take another one. */
void daemon_warm_give_up(struct daemon *daemon, uint32_t slot);

/* The sockets to poll, at most WARM_MAX; returns their number. */
uint32_t daemon_warm_fds(const struct daemon *daemon, int fds[WARM_MAX]);

/* In each turn of the loop: takes what the processes say. */
void daemon_warm_poll(struct daemon *daemon);

/* Once a second: ends processes whose time is over. */
void daemon_warm_tick(struct daemon *daemon, uint64_t now_ms);

/* After a suspend: moves the deadlines. */
void daemon_warm_awake(struct daemon *daemon, uint64_t gap_ms);

/* The processes that live, for `slots`; returns their number. */
uint32_t daemon_warm_list(const struct daemon *daemon, struct render_warm out[WARM_MAX]);

/* Ends all. */
void daemon_warm_close(struct daemon *daemon);

#endif

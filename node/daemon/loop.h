#ifndef NODE_DAEMON_LOOP_H
#define NODE_DAEMON_LOOP_H
/* The protocol thread: one step of the core with its effects, and the loop around it. */

#include "node/daemon/ground/daemon.h"

/* The hook of ground/events.h: steps the core with the event and performs the effects in order. */
void daemon_step(struct daemon *daemon, struct node_event *event);

/* Polls and handles input until a signal or a user's `leave` sets daemon->stopping. Also returns when polling fails;
 * the reason is then a line. `signal_fd`: a non-blocking signalfd, the caller's. */
void daemon_loop(struct daemon *daemon, int signal_fd);

#endif

#ifndef NODE_DAEMON_LOOP_H
#define NODE_DAEMON_LOOP_H
/* The protocol thread: one step of the core with its effects, and the loop around it. */

#include "node/daemon/ground/daemon.h"

/* The hook of ground/events.h: steps the core and performs its effects in order. */
void daemon_step(struct daemon *daemon, struct node_event *event);

/* Polls, and takes what has come, until a signal or a user's `leave` sets daemon->stopping. */
void daemon_loop(struct daemon *daemon, int signal_fd);

#endif

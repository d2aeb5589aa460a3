#ifndef NODE_DAEMON_START_H
#define NODE_DAEMON_START_H
/* shoald as a function. */

#include "node/daemon/ground/daemon.h"

/* Runs until SIGTERM, SIGINT or a user's `leave`. 0, or an error with one sentence; ERR_USAGE: an option is to blame. */
int daemon_serve(const struct daemon_options *options, char error[256]);

#endif

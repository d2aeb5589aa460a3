#ifndef NODE_DAEMON_START_H
#define NODE_DAEMON_START_H
/* shoald as a function. */

#include "node/daemon/ground/daemon.h"

/* Runs the daemon until SIGTERM, SIGINT or a user's `leave`, and starts again within the call when the node gets a new
 * key. `options` and its strings must stay valid during the call. Blocks the signals and ignores SIGPIPE in the
 * process. 0, or an error with one sentence in `error`; ERR_USAGE: an option is wrong. */
int daemon_serve(const struct daemon_options *options, char error[256]);

#endif

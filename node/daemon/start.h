#ifndef NODE_DAEMON_START_H
#define NODE_DAEMON_START_H
/* shoald as a function, and the parts of it that name each other. */

#include "node/daemon/ground/daemon.h"

/* Runs until SIGTERM, SIGINT or a user's `leave`. 0, or an error with one sentence; ERR_USAGE: an option is to blame. */
int daemon_serve(const struct daemon_options *options, char error[256]);

/* "1.2.3.4:5" -> "1.2.3.4", "[::1]:5" -> "::1". */
void host_of_address(const char *address, char host[FACT_ADDRESS_BYTES]);

#endif

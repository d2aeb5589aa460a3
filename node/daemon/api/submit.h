#ifndef NODE_DAEMON_API_SUBMIT_H
#define NODE_DAEMON_API_SUBMIT_H
/* The request submit: a job checks the configuration and stores it and the code as blobs, then the core is asked. */

#include "node/daemon/local/local.h"

void submit_request(struct daemon *daemon, struct client_request *request);

#endif

#ifndef NODE_DAEMON_API_SUBMIT_H
#define NODE_DAEMON_API_SUBMIT_H
/* The request submit: a job checks the configuration and stores it and the code as blobs; then the core gets the
 * request. */

#include "node/daemon/api/client.h"

/* A handler of the table (table.h); `argument` is not used. The file of the request is the archive of the code. A
 * missing argument is answered with an error at once; a wrong configuration, or a blob that cannot be stored, after the
 * job; the rest by change_reply_effect. */
void submit_request(struct daemon *daemon, struct client_request *request, int argument);

#endif

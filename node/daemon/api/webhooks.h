#ifndef NODE_DAEMON_API_WEBHOOKS_H
#define NODE_DAEMON_API_WEBHOOKS_H
/* Webhooks (DESIGN 16): added, listed, tested and removed by requests, and told by a process for each try
 * (node/webhooks/main.c). The core decides what is told when. */

#include "node/daemon/api/client.h"

/* Handlers of the table. */
void webhooks_add(struct daemon *daemon, struct client_request *request, int kind); /* an enum node_request_kind */
void webhooks_allow(struct daemon *daemon, struct client_request *request, int kind);
void webhooks_change(struct daemon *daemon, struct client_request *request, int kind); /* removes or tests one */
void webhooks_list(struct daemon *daemon, struct client_request *request, int argument);

/* Whether this node has the program that tells webhooks, which a build without libcurl lacks. */
bool webhooks_are_told(const struct daemon *daemon);

/* Once a second: takes what came of tries, and begins due ones. */
void webhooks_tick(struct daemon *daemon, uint64_t now_ms);

/* Ends the processes; what they were to tell is told again by the next node or daemon. */
void webhooks_close(struct daemon *daemon);

#endif

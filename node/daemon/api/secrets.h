#ifndef NODE_DAEMON_API_SECRETS_H
#define NODE_DAEMON_API_SECRETS_H
/* Secrets of the mesh (DESIGN 11): set, listed and removed. No request reads a value. */

#include "node/daemon/api/client.h"

/* Handlers of the table. */
void secrets_set(struct daemon *daemon, struct client_request *request, int kind); /* an enum node_request_kind */
void secrets_remove(struct daemon *daemon, struct client_request *request, int kind);
void secrets_list(struct daemon *daemon, struct client_request *request, int argument);

/* Once a second: gives copies to members that have come later. */
void secrets_tick(struct daemon *daemon, uint64_t now_ms);

#endif

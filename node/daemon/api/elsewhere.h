#ifndef NODE_DAEMON_API_ELSEWHERE_H
#define NODE_DAEMON_API_ELSEWHERE_H
/* Requests that this daemon passes on to the node that they concern, which carries them out (relay/relay.h) and
 * replies. */

#include "node/daemon/api/client.h"

struct bulk_event;

/* Lets the node carry out `op`, with these arguments of the request, NULL behind the last, and answers once it has; an
 * error if it is not alive, of an older version or silent. */
void elsewhere_ask(struct daemon *daemon, const struct client_request *request, node_id node, const char *op,
                   const char *const *arguments);

/* Takes an answer of bulk (BULK_SERIES). Ignored unless elsewhere_ask made the request. */
void elsewhere_answered(struct daemon *daemon, const struct bulk_event *event);

/* Asks again where there is no reply yet, and gives up after a while. */
void elsewhere_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all such requests, without answers. */
void elsewhere_close(struct daemon *daemon);

#endif

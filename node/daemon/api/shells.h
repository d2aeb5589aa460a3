#ifndef NODE_DAEMON_API_SHELLS_H
#define NODE_DAEMON_API_SHELLS_H
/* Commands beside workers and connections to their ports: streams of bytes between a client's socket and the node of a
 * worker (docs/design.md, section 8). Both sides of a stream are here, that of the client's daemon and that of the
 * worker's. */

#include "node/daemon/api/client.h"

/* Handlers of the table, `is_forward` 0: exec, 1: forward. The client's end of the stream comes with the request. The
 * first answer comes once the stream is open, the last one at its end. */
void shells_request(struct daemon *daemon, struct client_request *request, int is_forward);

/* Takes BULK_STREAM_ASKED, BULK_STREAM_OPENED or BULK_STREAM_ENDED. */
void shells_take(struct daemon *daemon, const struct bulk_event *event);

/* Ends streams whose client, worker or node is gone. */
void shells_tick(struct daemon *daemon);

/* Frees all. Call after bulk has stopped. */
void shells_close(struct daemon *daemon);

#endif

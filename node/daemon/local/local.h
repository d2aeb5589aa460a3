#ifndef NODE_DAEMON_LOCAL_LOCAL_H
#define NODE_DAEMON_LOCAL_LOCAL_H
/* The local socket, DIR/shoald.sock: one of the doors to the table of requests (api/table.h). Each frame from a client
 * (base/frame.h) is a request as in docs/wire.md, perhaps with a descriptor; answers go out as frames. Only programs of
 * the same user can connect. All functions are for the protocol thread. */

#include "node/daemon/api/client.h"

/* Opens the socket. A socket file in the way is replaced: the lock of the directory proves that its daemon is gone. 0,
 * or ERR_IO with a sentence in `error`. */
int local_open(struct daemon *daemon, char error[256]);

/* Removes the socket file, sends queued frames as far as that needs no waiting, and removes all clients of this door. */
void local_close(struct daemon *daemon);

/* Sets what to poll: the listening socket first, then the clients; returns how many items were set, at most `capacity`
 * >= 1. */
uint32_t local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity);

/* Handles input, by the items of local_poll: takes requests, removes broken clients, accepts new clients. */
void local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count);

/* Tries again to handle held requests (api_must_wait). */
void local_tick(struct daemon *daemon);

/* Handles what the client has sent so far, even if it has closed its end. False: a request of this client is held. True
 * at once for a client of another door. */
bool local_drain(struct daemon *daemon, struct client *client);

/* How many clients this door serves at a time: a quarter of the descriptors that the process may have, 16 to
 * DAEMON_CLIENTS_MAX. A client beyond that number is told so and turned away. */
uint32_t local_clients_max(void);

#endif

#ifndef NODE_DAEMON_LOCAL_LOCAL_H
#define NODE_DAEMON_LOCAL_LOCAL_H
/* The local socket, DIR/shoald.sock: one of the doors to the table of requests (api/table.h). Frames come in (base/frame.h), each
 * a request as docs/wire.md has it, perhaps with a descriptor; answers go out as frames. Only this user's programs can connect. */

#include "node/daemon/api/client.h"

/* 0, or ERR_IO with a sentence. An earlier daemon's socket file is replaced: the lock of the directory says that there is none. */
int local_open(struct daemon *daemon, char error[256]);

/* Removes the socket, sends what can go without waiting, and removes all clients of this door. */
void local_close(struct daemon *daemon);

/* What to poll: the listening socket first, then clients; returns how many items were set, at most `capacity` >= 1. */
uint32_t local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity);

/* Takes what has come, by the items of local_poll: requests are handled, clients that are broken removed, new ones accepted. */
void local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count);

/* Tries requests again that had to wait (api_must_wait). */
void local_tick(struct daemon *daemon);

/* Handles what the client has sent so far, though it may have closed its end. False: a request of its has to wait. True at
 * once for a client of another door. */
bool local_drain(struct daemon *daemon, struct client *client);

#endif

#ifndef NODE_DAEMON_API_SESSIONS_H
#define NODE_DAEMON_API_SESSIONS_H
/* Sessions of browsers at this node's HTTP door: "session_" and 64 hexadecimal digits, of which the node keeps a hash, with
 * its end and rights, in memory and in the data directory. When a session more is wanted than there are places, the oldest
 * one ends. */

#include "node/daemon/api/client.h"

#define SESSIONS_PREFIX "session_"
#define SESSIONS_TEXT_BYTES 80 /* of a secret, with the NUL */
#define SESSIONS_LIFE_S (7u * 86400)

/* Reads what the data directory has. Called once, when the node's key is known. */
void sessions_load(struct daemon *daemon);

/* Begins a session. `secret` is for the browser, and is nowhere else. */
void sessions_begin(struct daemon *daemon, bool read_only, char secret[SESSIONS_TEXT_BYTES]);

/* The session of a secret; NULL: there is none, or it has ended. Valid until the next call for this daemon. */
const struct api_session *sessions_find(const struct daemon *daemon, const char *secret);

/* Handlers of the table. */
void sessions_list(struct daemon *daemon, struct client_request *request, int argument);
void sessions_revoke(struct daemon *daemon, struct client_request *request, int argument); /* one, or all */
void sessions_end(struct daemon *daemon, struct client_request *request, int argument);    /* the caller's own */

#endif

#ifndef NODE_DAEMON_API_TOKENS_H
#define NODE_DAEMON_API_TOKENS_H
/* What requests by the HTTP door may do (docs/http.md). Such a request carries one of three secrets as `auth`:
 *
 * a token, "shoal_" and 64 hexadecimal digits, made by `shoal token create` on any node. All nodes know its hash by a
 * record (FACT_TOKEN). a session, "session_" and digits, which this node gives a browser for the one-time code of
 * `shoal open` (sessions.h).
 *
 * Both act as the node's owner, or, read-only, may change nothing.
 *
 * a trial's token, "trial_" and digits, which a worker's program finds in its environment (workers/trial_token.h). It may
 * read, and write to its own trial. */

#include "node/daemon/api/client.h"
#include "node/daemon/api/table.h"

#define TOKENS_LOGIN_MS 60000

/* True if the guest may make the request, and sets request->worker for one of kind API_TRIAL; false after an error reply: EXIT_NO_TOKEN or EXIT_NO_RIGHTS. */
bool tokens_admit(struct daemon *daemon, struct client_request *request, const struct api_row *row);

/* Writes the name of the token that the guest's request carries. False: it carries a session, which acts as this node's owner. */
bool tokens_name(const struct daemon *daemon, const struct client_request *request, char out[FACT_NAME_BYTES]);

/* Tells of refused tokens that no event line has told of. Called in each turn of the loop. */
void tokens_tick(struct daemon *daemon, uint64_t now_ms);

/* Handlers of the table. */
void tokens_login_code(struct daemon *daemon, struct client_request *request, int argument); /* makes a code */
void tokens_node_login_code(struct daemon *daemon, struct client_request *request, int argument); /* for another machine's browser */
void tokens_login(struct daemon *daemon, struct client_request *request, int argument);   /* takes one, for a session */
void tokens_session(struct daemon *daemon, struct client_request *request, int argument); /* what the caller may do */
void tokens_list(struct daemon *daemon, struct client_request *request, int argument);
void tokens_create(struct daemon *daemon, struct client_request *request, int kind); /* an enum node_request_kind */
void tokens_revoke(struct daemon *daemon, struct client_request *request, int kind);

/* Writes where this node's door listens, HOST:PORT. False: it has none now. */
bool tokens_door_address(const struct daemon *daemon, char out[CONTROL_ADDRESS_BYTES]);

#endif

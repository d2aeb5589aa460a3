#ifndef NODE_DAEMON_API_TRIAL_H
#define NODE_DAEMON_API_TRIAL_H
/* What a worker's program writes to its trial by the HTTP door, with the token of its trial (tokens.h): metrics and
 * texts. The trial goes on as if the program had not written: nothing here ends it. */

#include "node/daemon/api/client.h"

/* Handlers of the table; `argument` is not used, and request->worker is the token's. Answered by api_worker_appended,
 * once the disk has what came. Each names the trial that it is meant for; EXIT_NO_RIGHTS: the token is another trial's.
 */
void api_trial_report(struct daemon *daemon, struct client_request *request, int argument);
void api_trial_texts(struct daemon *daemon, struct client_request *request, int argument);

/* False, after an error reply: the request is about another trial than the token's. */
bool api_trial_is_own(struct daemon *daemon, const struct client_request *request);

/* True while there is no room for more. */
bool api_trial_must_wait(struct daemon *daemon);

#endif

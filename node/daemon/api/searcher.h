#ifndef NODE_DAEMON_API_SEARCHER_H
#define NODE_DAEMON_API_SEARCHER_H
/* The requests of programs that decide in searches (workers/searcher.h). Each request has the answer to the last event, and is answered
 * with the next one. */

#include "node/daemon/api/client.h"

/* A handler of the table (table.h); `argument` is not used. */
void api_searcher_turn(struct daemon *daemon, struct client_request *request, int argument);

/* Performs NODE_EFFECT_SEARCHER_TELL: answers searcher_turn. Nothing happens while no request waits. */
void api_searcher_tell_effect(struct daemon *daemon, const struct node_effect *effect);

#endif

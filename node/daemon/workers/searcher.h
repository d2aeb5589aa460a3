#ifndef NODE_DAEMON_WORKERS_SEARCHER_H
#define NODE_DAEMON_WORKERS_SEARCHER_H
/* The programs that decide in searches (searcher.name custom), on this node while it coordinates: in a copy of the code, under a
 * shoal-keep of their own, without a slot. A program asks for its events through the local socket (api/searcher.h). Its output goes into
 * DIR/searchers/EXPERIMENT.log. It ends with this daemon, at the latest when its lease is over. All functions are for the protocol
 * thread. */

#include "node/daemon/ground/daemon.h"

/* A program that runs here. */
struct daemon_searcher;

/* Performs NODE_EFFECT_SEARCHER_START and NODE_EFFECT_SEARCHER_STOP. */
void daemon_searcher_effect(struct daemon *daemon, const struct node_effect *effect);

/* Takes an answer of bulk (BULK_FETCHED). Ignored unless a program waits for the blob. */
void daemon_searcher_fetched(struct daemon *daemon, uint64_t request, int code, const char *text);

/* In each turn of the loop: takes what shoal-keep says of the programs. */
void daemon_searcher_poll(struct daemon *daemon);

/* Once a second: renews leases, follows what is on its way. */
void daemon_searcher_tick(struct daemon *daemon, uint64_t now_ms);

/* The program with this token; NULL: none runs here. */
struct daemon_searcher *daemon_searcher_find(struct daemon *daemon, lease_token token);

/* Its request `id` waits for an event. The core is told of the answer in the request, if there is one (`actions` NULL: none). */
void daemon_searcher_turn(struct daemon *daemon, struct daemon_searcher *searcher, uint64_t serial, uint64_t id, uint64_t event,
                          const uint8_t *actions, size_t action_bytes, bool has_more);

/* The request that waits for the event of NODE_EFFECT_SEARCHER_TELL, which it then is not any more. False: none. */
bool daemon_searcher_take_request(struct daemon *daemon, const struct node_effect *effect, uint64_t *serial, uint64_t *id);

/* Ends all. */
void daemon_searcher_close(struct daemon *daemon);

#endif

#ifndef NODE_DAEMON_WORKERS_LOG_MATCH_H
#define NODE_DAEMON_WORKERS_LOG_MATCH_H
/* Lines of a worker's log that match the patterns of webhooks: of each webhook the first. The log's job looks, in its
 * own thread. */

#include "node/daemon/ground/daemon.h"

struct log_match;

/* The worker's matcher, made if there are such webhooks that it does not know; the caller owns it until log_match_give.
 * NULL: no pattern is left to be looked for. */
struct log_match *log_match_take(struct daemon *daemon, struct daemon_worker *worker);

/* Looks at bytes of the log that end at `end`; those before the last end are passed over. `is_last`: no more come. */
void log_match_feed(struct log_match *match, uint64_t end, const uint8_t *bytes, size_t count, bool is_last);

/* Tells the core of what was found, and gives the matcher back to the worker (NULL, or one that has another by now:
 * frees it). */
void log_match_give(struct daemon *daemon, struct daemon_worker *worker, const attempt_id *attempt, uint32_t rank,
                    struct log_match *match);

/* Frees the worker's. */
void log_match_close(struct daemon_worker *worker);

#endif

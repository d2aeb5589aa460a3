#ifndef NODE_DAEMON_API_WATCHED_H
#define NODE_DAEMON_API_WATCHED_H
/* What has changed in the experiments that clients watch: looked for once for all who watch one, over some turns of the
 * loop where it has many trials. Each row of a trial and the head of the document is rendered and compared with its
 * last hash. */

#include "node/daemon/api/documents.h"

/* A watched experiment. */
struct watched;

/* The experiment's, which is then looked at from time to time, as long as it is asked for; a small one at once for the
 * first time. NULL: no memory is left. Valid until the next tick. */
struct watched *watched_get(struct daemon *daemon, const struct view_experiment *experiment);

/* Rises with each change that was found; 0: it was not looked at yet. */
uint64_t watched_version(const struct watched *watched);

/* A document of one part, rendered once for all who watch the same of a version. */
struct watched_document {
    uint64_t version;
    uint64_t since; /* deltas: the version before; else 0 */
    struct render_wish wish;
    uint8_t *bytes; /* NULL: it has more parts */
    size_t count;
    uint64_t hash; /* of the bytes */
};

/* A place for the document of this version, `since` and wish: the one that is there, or an empty one of version 0, for
 * which another one has given way. */
struct watched_document *watched_place(struct watched *watched, uint64_t since, const struct render_wish *wish);

/* A page of the trials that have changed since a version; the caller sets what it lacks. */
struct document watched_delta(const struct watched *watched, const struct view_experiment *experiment,
                              uint64_t version);

/* Looks at what is due until daemon_now_us() is `until_us`, and forgets what nobody watches. True: there is more to do
 * now. */
bool watched_tick(struct daemon *daemon, uint64_t now_ms, uint64_t until_us);

/* Frees all. */
void watched_close(struct daemon *daemon);

#endif

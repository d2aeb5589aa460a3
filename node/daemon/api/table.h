#ifndef NODE_DAEMON_API_TABLE_H
#define NODE_DAEMON_API_TABLE_H
/* The table of all requests that the daemon answers, one row each, and the way in for doors (client.h). docs/wire.md says what
 * each takes and answers. */

#include "node/daemon/api/client.h"
#include "node/daemon/wire/request.h"

enum api_kind {
    API_READS,   /* changes nothing */
    API_CHANGES, /* becomes an event of the core, and is answered when the core has answered */
    API_WORKER,  /* of the worker that the connection belongs to, while its lease lasts */
    API_OPENS    /* makes a connection a worker's, by the token of its lease */
};

struct api_row {
    const char *op;
    enum api_kind kind;

    /* Answers the request, now or later; `argument` is the row's. */
    void (*take)(struct daemon *daemon, struct client_request *request, int argument);
    int argument;
};

/* The rows in no particular order, valid for ever; `*count` of them, each with an `op` of its own. */
const struct api_row *api_rows(size_t *count);

/* The row of an operation; NULL if there is none of this name. */
const struct api_row *api_find(const char *op, size_t op_bytes);

/* Handles a request that request_read has read with the result `error`: the client is answered, now or later. `decoded` and
 * what it points to are borrowed for the call. */
void api_take(struct daemon *daemon, struct client *client, const struct request *decoded, int error);

/* True while what the request brings could not be kept: the door holds the request back and asks again later. */
bool api_must_wait(struct daemon *daemon, const struct client *client, const struct request *request);

/* Streams go on. Called in each turn of the loop. */
void api_tick(struct daemon *daemon, uint64_t now_ms);

/* Forgets all requests that are not answered yet. When all clients are gone and no job runs any more. */
void api_close(struct daemon *daemon);

#endif

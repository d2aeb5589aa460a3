#ifndef NODE_DAEMON_API_TABLE_H
#define NODE_DAEMON_API_TABLE_H
/* The table of all requests that the daemon answers, one row each, and the way in for doors (client.h). docs/wire.md
 * lists the arguments and answers of each request. */

#include "node/daemon/api/client.h"
#include "node/daemon/wire/request.h"

/* The kind of a request decides from which connections it is taken, and when the answer comes. */
enum api_kind {
    API_READS,   /* changes nothing */
    API_OWN,     /* changes nothing but the caller's own session, so one that may read only may do it, too */
    API_CHANGES, /* becomes an event of the core; the answer comes after the core's answer */
    API_WORKER,  /* from a worker's connection, while the worker's lease lasts */
    API_LOCAL,   /* by the local socket only */
    API_OPEN,    /* by the HTTP door without a token, too */
    API_TRIAL,   /* by the HTTP door with a trial's token; request->worker is the trial's */
    API_OPENS    /* makes the connection a worker's, by the token of the worker's lease */
};

/* A row of the table. */
struct api_row {
    const char *op;
    enum api_kind kind;

    /* Answers the request, at once or later; `argument` is the row's. */
    void (*take)(struct daemon *daemon, struct client_request *request, int argument);
    int argument;
};

/* Returns the rows, in no particular order, valid for ever, and sets `*count`. Each row has an `op` of its own. */
const struct api_row *api_rows(size_t *count);

/* Returns the row of an operation; NULL: there is no such operation. */
const struct api_row *api_find(const char *op, size_t op_bytes);

/* Handles a decoded request; `error` is the result of request_read. The client is answered, at once or later. `decoded`
 * and the bytes that it points to are borrowed for the call. */
void api_take(struct daemon *daemon, struct client *client, const struct request *decoded, int error);

/* True while there is no room for the data in the request: the door holds the request and asks again later. */
bool api_must_wait(struct daemon *daemon, const struct client *client, const struct request *request);

/* Continues open streams. Called in each turn of the loop. */
void api_tick(struct daemon *daemon, uint64_t now_ms);

/* Frees all unanswered requests, without answers. Call after the clients are removed and the jobs have ended. */
void api_close(struct daemon *daemon);

#endif

#ifndef NODE_HTTP_ANSWER_H
#define NODE_HTTP_ANSWER_H
/* Answers to HTTP requests: documents as JSON, streams of events, files, problems. Each function returns a response of
 * libmicrohttpd that the caller queues and destroys, with `*status`; NULL: no memory is left. */

#include <microhttpd.h>
#include <msgpack.h>
#include <stdbool.h>
#include <stdio.h>

#include "node/http/channel.h"
#include "node/http/routes.h"

/* A problem (RFC 9457): `code` is that of docs/wire.md, 0 if the daemon has not been asked. */
struct MHD_Response *answer_problem(int http_status, int code, const char *detail, int *status);

/* A text that the response copies. */
struct MHD_Response *answer_text(int http_status, const char *type, const char *text, int *status);

/* One reply of the daemon as JSON, its refusal or `code` of channel_next as a problem. */
struct MHD_Response *answer_reply(int code, const msgpack_object *reply, int *status);

/* The request is sent: reads the replies to it, and answers as the route says. `client_fd`: the socket of a client that
 * takes text/event-stream, which stays open as long as the response does, or -1. `wants_text`: the client takes
 * text/plain, and so gets a log as it is. The channel is the response's from then on if it returns a stream, and closed
 * before it returns otherwise. */
struct MHD_Response *answer_route(const struct route *route, struct channel *channel, int client_fd, bool wants_text,
                                  int *status);

/* Adds the fields that every response has; `policy`: its Content-Security-Policy. */
#define ANSWER_POLICY_PAGES                                                                               \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " \
    "frame-ancestors 'none'; "                                                                            \
    "base-uri 'none'; form-action 'self'"
#define ANSWER_POLICY_DATA "default-src 'none'; frame-ancestors 'none'; sandbox"
void answer_add_fields(struct MHD_Response *response, const char *policy, const char *cache);

#endif

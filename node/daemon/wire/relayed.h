#ifndef NODE_DAEMON_WIRE_RELAYED_H
#define NODE_DAEMON_WIRE_RELAYED_H
/* Requests that a daemon passes on to the node that they concern, as questions of bulk (docs/wire.md). No I/O, no
 * allocation. */

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define RELAYED_PREFIX "request" /* the series that a node is asked for (node/bulk) */
#define RELAYED_TOKEN_BYTES 16
#define RELAYED_REQUEST_BYTES 4096 /* most bytes of a request, and of the reply to it */
#define RELAYED_QUESTION_BYTES (RELAYED_REQUEST_BYTES + 64)

/* The same question is asked again until there is an answer; by its random token the asked node knows it, and carries
 * it out once. */
struct relayed {
    uint8_t token[RELAYED_TOKEN_BYTES];
    const uint8_t *request; /* a frame of the local socket; borrowed from the question */
    size_t request_bytes;
};

/* An array of the token and the request; returns its bytes, 0 if it does not fit RELAYED_QUESTION_BYTES. */
size_t relayed_pack(const struct relayed *relayed, uint8_t out[RELAYED_QUESTION_BYTES]);

/* ERR_MALFORMED. Later versions may add elements. */
int relayed_read(const uint8_t *bytes, size_t count, struct relayed *out);

/* What a node has replied: a map whose values are whole. */
struct relayed_reply {
    bool ok;
    uint64_t code;
    const char *error; /* not NUL-terminated, at most RELAYED_REQUEST_BYTES; without `ok` */
    size_t error_bytes;
    uint32_t pairs; /* beside id, ok and end */
};

/* ERR_MALFORMED: it is no last reply of the local socket. */
int relayed_reply_read(const uint8_t *bytes, size_t count, struct relayed_reply *out);

/* Copies the pairs beside id, ok and end of a reply that was read. */
void relayed_reply_copy(const uint8_t *bytes, size_t count, struct pack_writer *writer);

#endif

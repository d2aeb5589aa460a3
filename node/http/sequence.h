#ifndef NODE_HTTP_SEQUENCE_H
#define NODE_HTTP_SEQUENCE_H
/* The requests of one connection, one behind the other: how many of the bytes that have come may go to the server. Each
 * head passes the gate before the server sees any of it. Behind a body nothing more passes, whatever the server makes of
 * the body, so no byte of a body is ever taken for a head. A core. */

#include <stddef.h>
#include <stdint.h>

enum sequence_state {
    SEQUENCE_HEAD, /* a head begins, or has begun */
    SEQUENCE_BODY, /* of a length that the head told; it is the last request */
    SEQUENCE_RAW,  /* all that comes: a body in chunks, or a first head that is bad, which accept.c refuses */
    SEQUENCE_DONE, /* what comes now counts for nothing */
    SEQUENCE_BROKEN /* a later head is bad: the connection ends once the answers before are out */
};

struct sequence {
    enum sequence_state state;
    uint64_t body_left;
    unsigned heads;
    size_t looked; /* bytes of the head that have been looked at */
};

/* Returns how many of the first bytes may go to the server; 0: more are needed, or none ever will. `bytes` are those that
 * have not passed yet. All zero is the beginning of a connection. */
size_t sequence_pass(struct sequence *sequence, const char *bytes, size_t count);

#endif

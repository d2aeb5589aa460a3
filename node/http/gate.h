#ifndef NODE_HTTP_GATE_H
#define NODE_HTTP_GATE_H
/* Looks at the head of a request before libmicrohttpd reads it, and refuses every head that two programs could read in
 * two ways (RFC 9112, sections 2.2, 5.1, 6.1 and 11.2): libmicrohttpd 0.9.75 takes lines that end in a bare LF, a
 * Content-Length beside a Transfer-Encoding, and two Content-Lengths. A core: bytes from anywhere. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GATE_HEAD_BYTES_MAX (32u << 10)
#define GATE_LINE_BYTES_MAX (8u << 10) /* of the request line */
#define GATE_FIELDS_MAX 100

enum gate_verdict {
    GATE_MORE, /* the head is not whole yet, and may become a good one */
    GATE_GOOD,
    GATE_BAD
};

/* Judges the first bytes of a connection. After GATE_BAD `*status` is the answer's status (400, 414, 431, 501 or 505)
 * and `*why` a sentence; both are untouched otherwise. */
enum gate_verdict gate_judge(const char *bytes, size_t count, int *status, const char **why);

/* What a good head says of itself and of what follows. */
struct gate_head {
    size_t bytes;        /* with the empty line at its end */
    bool is_old;         /* HTTP/1.0 */
    bool has_length;     /* a Content-Length, perhaps 0 */
    bool is_chunked;     /* a body in chunks follows */
    uint64_t body_bytes; /* the Content-Length; 0 without one */
};

/* As gate_judge; after GATE_GOOD `*out` is filled in. */
enum gate_verdict gate_read(const char *bytes, size_t count, int *status, const char **why, struct gate_head *out);

#endif

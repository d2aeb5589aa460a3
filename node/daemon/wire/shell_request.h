#ifndef NODE_DAEMON_WIRE_SHELL_REQUEST_H
#define NODE_DAEMON_WIRE_SHELL_REQUEST_H
/* What a node asks of another one with a stream of bytes (docs/wire.md, "Streams"): a command beside a worker, or a
 * connection to a port of the worker's machine. Arithmetic only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define SHELL_REQUEST_BYTES 256

struct shell_request {
    bool is_forward; /* else a command */
    attempt_id attempt;
    uint32_t worker; /* its number in the attempt */
    uint16_t port;   /* is_forward; not 0 */
};

/* Returns the number of bytes. */
size_t shell_request_write(const struct shell_request *request, uint8_t out[SHELL_REQUEST_BYTES]);

/* ERR_MALFORMED: `*out` is unchanged. */
int shell_request_read(const uint8_t *bytes, size_t count, struct shell_request *out);

#endif

#ifndef NODE_HTTP_CHANNEL_H
#define NODE_HTTP_CHANNEL_H
/* Connections to the daemon (docs/wire.md, "Local socket", and node/daemon/local/http.h). Each thread that serves a
 * request opens one of its own and waits on it. */

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

#define CHANNEL_ANSWER_MS 60000

/* Takes the descriptor that leads to the daemon. Call it once, before all other functions here. */
void channel_init(int control_fd);

/* Tells the daemon a line for `shoal events`, and the port that the door listens on. */
void channel_tell_line(const char *text);
void channel_tell_port(uint16_t port);

/* A connection; its memory grows with the replies that are kept. */
struct channel {
    int fd;
    uint8_t *buffer;
    struct frame_reader reader;
    msgpack_zone *zone;
    size_t document_bytes; /* of the frames in the zone */
};

/* 0, ERR_IO or ERR_MEMORY; the caller closes the channel after 0. */
int channel_open(struct channel *out);
void channel_close(struct channel *channel);

/* Sends a request. `passed_fd` goes with it (-1: none) and stays the caller's. 0, ERR_CLOSED, ERR_IO. */
int channel_send(struct channel *channel, const uint8_t *bytes, size_t count, int passed_fd);

/* Waits for the next reply; its parts are joined (docs/wire.md, "more"), and the document lives in the channel's zone
 * until channel_forget. `*passed_fd`, if not NULL, is the descriptor that came with it, the caller's, or -1. 0;
 * ERR_TIMEOUT; ERR_CLOSED, ERR_IO; ERR_FULL: the document is larger than 256 MiB; ERR_MALFORMED; ERR_MEMORY. */
int channel_next(struct channel *channel, int timeout_ms, msgpack_object *out, int *passed_fd);

/* Frees the documents so far. */
void channel_forget(struct channel *channel);

#endif

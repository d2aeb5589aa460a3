#ifndef TOOLS_SHOAL_CLIENT_H
#define TOOLS_SHOAL_CLIENT_H
/* The client's end of the local socket (docs/wire.md, "Local socket"): one request at a time, replies as
 * documents. Functions return an exit code of cli.h, and on failure have written their sentence already. */

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/pack.h"
#include "tools/shoal/cli.h"

#define CLIENT_ANSWER_MS 60000 /* a daemon that is alive answers anything but a stream long before */
#define CLIENT_EXPERIMENT_TEXT_BYTES 17
#define CLIENT_NODE_TEXT_BYTES 33
#define CLIENT_RETURN_MS 10000 /* a daemon that is restarted is back before */
#define CLIENT_START_MS 10000  /* a daemon that starts answers before */

struct client {
    struct cli *cli;
    int fd;
    uint64_t id; /* of the last request */
    bool patient;       /* the caller's wish: a connection that ends is `lost`, and no sentence is written yet */
    bool lost;          /* client_return is what to call next */
    uint32_t attempts;  /* to connect again since the last reply */
    struct frame_reader reader;
    struct pack_writer request;
    uint8_t *request_bytes;
    msgpack_zone *zone;    /* of the reply's document */
    msgpack_object *parts; /* of it, that have come so far */
    size_t part_count;
    size_t document_bytes; /* of all that is in the zone, as it came */
};

/* Connects to DIR/shoald.sock; a daemon that is just starting is waited for, CLIENT_START_MS at most. CLI_NO_DAEMON. */
int client_open(struct cli *cli, struct client *out);
void client_close(struct client *client);

/* A request: begin, pack `argument_count` pairs into client->request, send. `passed_fd` is -1 or rides along. */
void client_begin(struct client *client, const char *op, uint32_t argument_count);
int client_send(struct client *client, int passed_fd);

struct reply {
    msgpack_object document; /* a map; valid until the next call */
    bool end;
    int fd; /* what rode along if wanted, else -1; the caller closes it */
};

/* The next whole reply, parts joined; waits at most `timeout_ms`, -1: for ever. A refusal of the daemon is written as
 * an error, and its code returned. */
int client_next(struct client *client, int timeout_ms, bool wants_fd, struct reply *out);

/* After a send or next failed and client->lost is set: waits for the daemon to come back, CLIENT_RETURN_MS at most since the
 * last reply. The request must then be begun and sent again. CLI_NO_DAEMON: it did not. */
int client_return(struct client *client);

/* A request whose arguments are packed and that has one reply. */
int client_ask(struct client *client, int timeout_ms, struct reply *out);

/* The experiment that the user means: a whole id, else a unique name or a unique beginning of an id of at least 4 digits, and
 * not what is the one of this and the other of that. `out` is the whole id. CLI_NO_SUCH_THING; CLI_REFUSED when it could be
 * several, or the node is catching up and does not know it yet. */
int client_find_experiment(struct client *client, const char *text, char out[CLIENT_EXPERIMENT_TEXT_BYTES]);

/* The same for the nodes of the mesh. Of several of one name those that were evicted do not count. */
int client_find_node(struct client *client, const char *text, char out[CLIENT_NODE_TEXT_BYTES]);

#endif

#ifndef TOOLS_SHOAL_CLIENT_H
#define TOOLS_SHOAL_CLIENT_H
/* The client's end of the local socket (docs/wire.md, "Local socket"): one request at a time, replies as documents.
 * Each function that returns an `int` returns an exit code of cli.h; on failure it has written its sentence already. */

#include <msgpack.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/frame.h"
#include "base/pack.h"
#include "tools/shoal/cli.h"

#define CLIENT_ANSWER_MS 60000 /* a living daemon answers sooner, except a stream */
#define CLIENT_EXPERIMENT_TEXT_BYTES 17
#define CLIENT_NODE_TEXT_BYTES 33
#define CLIENT_LOOK_MS 50
#define CLIENT_RETURN_MS 10000 /* a daemon that is restarted is back sooner */
#define CLIENT_START_MS 10000  /* a starting daemon answers sooner */

/* A connection to the daemon with its last request and reply. */
struct client {
    struct cli *cli;
    int fd;
    uint64_t id; /* of the last request */
    bool patient;       /* set by the caller: when the connection ends, set `lost` instead of writing an error */
    bool quiet;         /* set by the caller: CLI_USAGE, of a daemon that is older than the request, is returned without a sentence */
    bool may_lack;      /* set by the caller: CLI_NO_SUCH_THING is returned without a sentence */
    bool lost;          /* the connection has ended: call client_return */
    uint32_t attempts;  /* tries to connect again since the last reply */
    /* NULL, or set by the caller: asked before each wait for a reply without a time limit, and every CLIENT_LOOK_MS during it.
     * False: client_next returns CLI_REFUSED without a sentence. */
    bool (*goes_on)(void *context);
    void *context;
    struct frame_reader reader;
    struct pack_writer request;
    uint8_t *request_bytes;
    msgpack_zone *zone;    /* holds the reply's document */
    msgpack_object *parts; /* the frames of the reply received so far, in the zone */
    size_t part_count;
    size_t document_bytes; /* encoded bytes of all frames in the zone */
};

/* Connects to DIR/shoald.sock; waits for a daemon that is starting, CLIENT_START_MS at most. The caller closes `*out` after
 * CLI_DONE; on a failure nothing stays open. CLI_NO_DAEMON: no daemon answers. */
int client_open(struct cli *cli, struct client *out);

/* Closes the connection and frees the memory; a second close is harmless. */
void client_close(struct client *client);

/* Begins a request. The caller packs `argument_count` pairs into client->request and calls client_send. */
void client_begin(struct client *client, const char *op, uint32_t argument_count);

/* Sends the begun request. `passed_fd` goes with it (-1: none) and stays the caller's. */
int client_send(struct client *client, int passed_fd);

/* A whole reply. */
struct reply {
    msgpack_object document; /* a map; valid until the next call */
    bool end;
    int fd; /* the descriptor sent with the reply if wanted, else -1; the caller closes it */
};

/* Receives the next whole reply, its parts joined; waits at most `timeout_ms`, -1: for ever. A refusal of the daemon is
 * written as an error, and its code is returned. */
int client_next(struct client *client, int timeout_ms, bool wants_fd, struct reply *out);

/* Keeps the last reply's document valid beyond the next call, until the caller frees the memory that this returns with
 * msgpack_zone_free. NULL: no memory is left, and nothing has changed. */
msgpack_zone *client_keep(struct client *client);

/* Waits for the daemon to come back after client->lost was set, CLIENT_RETURN_MS at most since the last reply. Begin
 * and send the request again afterwards. CLI_NO_DAEMON: the daemon did not come back. */
int client_return(struct client *client);

/* Sends a packed request and receives its only reply. */
int client_ask(struct client *client, int timeout_ms, struct reply *out);

/* Finds the experiment that the user means by a whole id, a unique name, or a unique beginning of an id (at least 4
 * digits); a text that is the name of one experiment and the beginning of another's id is refused. `out` is the whole
 * id. CLI_NO_SUCH_THING; CLI_REFUSED: several experiments fit, or none does while the node is syncing. */
int client_find_experiment(struct client *client, const char *text, char out[CLIENT_EXPERIMENT_TEXT_BYTES]);

/* Finds a node in the same way. A node that is out counts by its name only if no member has the name. */
int client_find_node(struct client *client, const char *text, char out[CLIENT_NODE_TEXT_BYTES]);

#endif

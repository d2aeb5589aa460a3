#ifndef NODE_DAEMON_API_CLIENT_H
#define NODE_DAEMON_API_CLIENT_H
/* Clients of the daemon: programs that ask, through whatever door they came. A door (local/local.h: the Unix socket) reads
 * requests and hands each to api_take (table.h); the handlers answer through the functions below, which go back to the door.
 *
 * A door keeps a `struct client` as the first member of a struct of its own, adds it with client_add and takes it out with
 * client_remove. What is still to be done for a client that is gone finds out by its serial: client_find.
 *
 * Messages to clients are maps in MessagePack, as docs/wire.md ("Local socket") has them: answers with `id`, `ok` and `end`, of
 * which a stream has several, and notices without an id. One message holds FRAME_BYTES_MAX bytes at most. */

#include "node/daemon/ground/daemon.h"

/* ---- what a door supplies -------------------------------------------------------------------------------------- */

struct client_door {
    /* One message for the client, behind those that wait already; `bytes` are borrowed for the call. When the client does not
     * read, or there is no memory, the door sets client->broken: all later messages are dropped, and the door soon removes it. */
    void (*reply)(struct client *client, const uint8_t *bytes, size_t count);

    /* As reply, with a file: the bytes of `fd` from offset 0, as many as the message says. `fd` is the door's from then on, and
     * is closed even when the message is dropped. */
    void (*send_file)(struct client *client, const uint8_t *bytes, size_t count, int fd);

    /* The file that came with the request that the client is being served for: a descriptor that is the caller's from then on,
     * or -1 if the request came without one. How many bytes of it count is in the request. */
    int (*take_file)(struct client *client);

    /* False while so much waits to be read by the client that streams should pause. */
    bool (*may_stream)(const struct client *client);
};

/* A stream that a client has open beside its other requests (query.c). */
enum stream_kind { STREAM_NONE, STREAM_WAIT, STREAM_WATCH, STREAM_EVENTS };

struct client_stream {
    enum stream_kind kind;
    uint64_t id;
    experiment_id experiment;
    uint64_t until_ms; /* WAIT: 0 for ever */
    uint64_t next_ms;
    uint64_t seq; /* EVENTS: next line wanted */
    bool follow;
    uint64_t last_hash; /* of the document last sent: only changes are */
};

#define CLIENT_STREAMS_MAX 8

struct client {
    const struct client_door *door;
    struct client *next; /* of daemon->api->clients */
    uint64_t serial;     /* from 1 on, never used again */
    bool broken;         /* it gets nothing any more, and its door is about to remove it */
    int slot;            /* of the worker that opened with its token; -1: none */
    struct client_stream streams[CLIENT_STREAMS_MAX];
};

struct change_waiting;
struct query_series;
struct query_blob;
struct query_verify_run;

struct daemon_api {
    struct client *clients; /* of all doors */
    uint32_t client_count;
    struct change_waiting *waiting; /* requests that the core has not answered yet */
    struct query_series *series;
    struct query_blob *blob_requests;
    struct query_verify_run *verifies;
    uint64_t watch_ms; /* when streams were last looked at; 0: none is open */
};

/* `client` is all zero and the door's; it is in daemon->api->clients until client_remove, which forgets its streams and its
 * worker. */
void client_add(struct daemon *daemon, struct client *client, const struct client_door *door);
void client_remove(struct daemon *daemon, struct client *client);

/* NULL if the client is gone or about to go. */
struct client *client_find(struct daemon *daemon, uint64_t serial);

/* True if streams to it may go on now. */
bool client_may_stream(const struct client *client);

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* A request at its handler. Borrowed for the call: what takes longer keeps client->serial and id. */
struct client_request {
    struct client *client;
    uint64_t id; /* 0: no answer is wanted */
    const char *op; /* not NUL-terminated */
    size_t op_bytes;
    struct pack_reader map;       /* the whole request; arguments are found in it by name */
    struct daemon_worker *worker; /* requests of a worker: its own; else NULL */
};

/* The file that came with the request; the caller owns and closes it. -1: none came. */
int client_take_file(const struct client_request *request);

/* The argument `key`: false if it is missing or not a number that fits, `*out` is then untouched. Nothing is replied. */
bool client_argument_u64(const struct client_request *request, const char *key, uint64_t *out);

/* The argument `experiment`; false if it is missing or of another form, and the request is then answered with an error of code
 * EXIT_USAGE. The first gives any id; the second only that of an experiment that is known here, else the answer is
 * client_reply_unknown_experiment. `*out` is the core's, until its next step. */
bool client_argument_any_experiment(struct daemon *daemon, const struct client_request *request, experiment_id *out);
bool client_argument_experiment(struct daemon *daemon, struct client_request *request, struct view_experiment **out);

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* Codes of errors: what the command line exits with. */
#define EXIT_REFUSED 1
#define EXIT_USAGE 2
#define EXIT_NOT_FOUND 4
#define EXIT_TIMEOUT 5

/* A message without an id, such as a notice to a worker: `bytes` are the whole map. */
void client_send(struct client *client, const uint8_t *bytes, size_t count);

/* An answer in the making: a map with `id`, `ok` (true) and `end`, to which the caller packs `extra_pairs` more. False: there is
 * no memory, nothing is sent and nothing is to be freed. Every answer that was begun is sent, which frees it; `file` goes with it
 * and is taken (-1: none). One that is too large breaks the client, with a line. */
struct client_reply {
    struct pack_writer writer;
    uint8_t *bytes;
};
bool client_reply_begin(struct client_reply *reply, uint64_t id, bool end, uint32_t extra_pairs);
void client_reply_send(struct daemon *daemon, struct client *client, struct client_reply *reply, int file);

/* An answer without anything but `id`, `ok` and `end`; nothing if the id is 0. */
void client_reply_empty(struct daemon *daemon, struct client *client, uint64_t id);

/* The last answer to a request that was refused: a code of those above and a sentence, cut at 1,023 bytes. A line instead if
 * the id is 0. */
void client_reply_error(struct daemon *daemon, struct client *client, uint64_t id, int exit_code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* What the request is about is not here: an error of code EXIT_NOT_FOUND that says which `what`, and that `shoal LIST` lists
 * them; of EXIT_REFUSED while this node is catching up. An experiment whose deletion is on record has EXIT_NOT_FOUND even then. */
void client_reply_unknown(struct daemon *daemon, const struct client_request *request, const char *what, const char *id,
                          const char *list);
void client_reply_unknown_experiment(struct daemon *daemon, const struct client_request *request, experiment_id id);

/* An error of code EXIT_USAGE: no such operation, or not with such arguments. */
void client_reply_no_request(struct daemon *daemon, const struct client_request *request);

#endif

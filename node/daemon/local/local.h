#ifndef NODE_DAEMON_LOCAL_LOCAL_H
#define NODE_DAEMON_LOCAL_LOCAL_H
/* The inside of the local socket: connections, requests as they come, replies. What is asked is taken by local_change.h and
 * local_submit.h (requests that change), query.h (requests that read) and local_worker.h. */

#include "node/daemon/start.h"

#define CLIENT_QUEUE_MAX (8u << 20)  /* bytes waiting to be read by a client; more: it is cut off */
#define CLIENT_QUEUE_FULL (1u << 20) /* streams pause above this */

/* A frame on its way to a client. */
struct client_frame {
    struct client_frame *next;
    int fd; /* rides along; -1: none */
    size_t sent, count; /* what is sent counts the frame's head, too */
    uint8_t bytes[];
};

enum stream_kind { STREAM_NONE, STREAM_WAIT, STREAM_WATCH, STREAM_EVENTS };

#define CLIENT_STREAMS_MAX 8
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

struct client {
    struct client *next;
    uint64_t serial; /* jobs and requests name a client by this: it may be gone when they are done */
    int fd;
    bool broken;
    int slot; /* of the worker that opened with its token; -1: none */
    struct frame_reader reader;
    const uint8_t *held; /* a report for which there is no room yet, in the buffer: nothing behind it is read. NULL: none is */
    size_t held_bytes;
    uint8_t *buffer;
    struct client_frame *first, *last;
    size_t queued_bytes;
    struct client_stream streams[CLIENT_STREAMS_MAX];
};

/* A request as it came: a map in `reader`'s bytes. */
struct client_request {
    struct client *client;
    uint64_t id;
    struct pack_reader map;
    int fd; /* the handler takes it by setting -1 */
};

/* NULL if it is gone or about to go. */
struct client *client_find(struct daemon *daemon, uint64_t serial);

/* Codes of replies: what the command line exits with. */
#define EXIT_REFUSED 1
#define EXIT_USAGE 2
#define EXIT_NOT_FOUND 4

/* One frame for the client, behind those that wait already; `fd` (-1: none) is taken. A client that does not read is marked
 * broken, and closed by the next local_process. */
void local_queue(struct client *client, const uint8_t *bytes, size_t count, int fd);

/* Replies. `extra` pairs follow that the caller packs between begin and end. Frames hold FRAME_BYTES_MAX. */
struct client_reply {
    struct pack_writer writer;
    uint8_t *bytes;
};
bool client_reply_begin(struct client_reply *reply, uint64_t id, bool end, uint32_t extra_pairs);
void client_reply_send(struct daemon *daemon, struct client *client, struct client_reply *reply, int fd);
void client_reply_empty(struct daemon *daemon, struct client *client, uint64_t id); /* nothing if the id is 0 */
void client_reply_error(struct daemon *daemon, struct client *client, uint64_t id, int exit_code, const char *format,
                       ...) __attribute__((format(printf, 5, 6)));

/* What the request is about is not here: an error of code 4 that says which, and that `shoal LIST` lists `what`s; of code 1 while
 * this node is catching up. An experiment whose deletion is on record has code 4 even then. */
void client_reply_unknown(struct daemon *daemon, const struct client_request *request, const char *what, const char *id,
                         const char *list);
void client_reply_unknown_experiment(struct daemon *daemon, const struct client_request *request, experiment_id id);

/* Arguments: false (and an error reply of code 2) if missing or of another form. */
bool client_argument_experiment(struct daemon *daemon, struct client_request *request, struct view_experiment **out);
bool client_argument_any_experiment(struct daemon *daemon, const struct client_request *request, experiment_id *out);
bool client_argument_u64(const struct client_request *request, const char *key, uint64_t *out);

#endif

#ifndef NODE_DAEMON_API_CLIENT_H
#define NODE_DAEMON_API_CLIENT_H
/* Clients of the daemon: programs that send requests, through any door. A door (local/local.h: the Unix socket) reads
 * requests and hands each to api_take (table.h). The handlers answer with the functions below, and these call the door.
 *
 * A door keeps a `struct client` as the first member of a struct of its own, adds the client with client_add and
 * removes it with client_remove. Unfinished work keeps the client's serial, not a pointer, and asks client_find whether
 * the client is still there.
 *
 * Messages to clients are maps in MessagePack, as in docs/wire.md ("Local socket"): answers with `id`, `ok` and `end`
 * (a stream is several answers), and notices without an id. One message has at most FRAME_BYTES_MAX bytes. */

#include "node/daemon/ground/daemon.h"
#include "node/daemon/render/choice.h"
#include "node/daemon/wire/event.h"

/* ---- what a door supplies -------------------------------------------------------------------------------------- */

/* The functions of a door; a constant of the door. */
struct client_door {
    /* Queues one message for the client; `bytes` are borrowed for the call. When the client does not read, or memory is
     * full, the door sets client->broken: all later messages are dropped, and the door soon removes the client. */
    void (*reply)(struct client *client, const uint8_t *bytes, size_t count);

    /* As reply, with a file: the bytes of `fd` from offset 0, as many as the message says. The door owns `fd` from then
     * on, and closes it even when the message is dropped. */
    void (*send_file)(struct client *client, const uint8_t *bytes, size_t count, int fd);

    /* Returns the file that came with the present request; the caller owns the descriptor from then on. -1: the request
     * came without a file. The request says how many bytes of the file count. */
    int (*take_file)(struct client *client);

    /* False while so many bytes wait for the client that streams should pause. */
    bool (*may_stream)(const struct client *client);
};

/* The kinds of streams that a client may have open beside its other requests (query.c). */
enum stream_kind { STREAM_NONE, STREAM_WAIT, STREAM_WATCH, STREAM_EVENTS };

/* An open stream; kind STREAM_NONE: the place is free. */
struct client_stream {
    enum stream_kind kind;
    uint64_t id;
    experiment_id experiment;
    uint64_t until_ms; /* WAIT: deadline; 0: none */
    /* When the stream is looked at next. */
    uint64_t next_ms;
    uint64_t seq; /* EVENTS: the next one to send */
    struct event_choice events; /* EVENTS: which */
    bool reads_journal;         /* EVENTS: lines before the ring's are wanted, from `place` on */
    struct journal_place place;
    uint64_t journal_seq; /* the highest number of a line that the journal gave */
    bool is_reset;        /* EVENTS: the next reply says that events which the client asked for are not here */
    bool was_answered;    /* EVENTS: a reply was sent */
    bool follow;
    struct render_wish wish; /* WATCH: which trials */
    bool has_curves;    /* WATCH: documents have the curves, too */
    bool takes_deltas;  /* WATCH: the documents behind the first have changed trials only */
    uint64_t version;   /* WATCH: of the experiment, as the client has it (watched.h); 0: it has none */
    uint64_t last_hash; /* hash of the last document or page sent: an unchanged one is not sent again */
};

#define CLIENT_STREAMS_MAX 8
#define CLIENT_NO_ACCOUNT UINT32_MAX

/* A client, in a struct of its door. */
struct client {
    const struct client_door *door;
    struct client *next; /* in daemon->api->clients */
    uint64_t serial;     /* from 1 on, never reused */
    bool broken;         /* messages are dropped, and the door is about to remove the client */
    int slot;            /* slot of the worker that opened the connection with its token; -1: none */
    int process;         /* id of the process that connected; 0: not known */
    uint32_t account;    /* user id of that process; CLIENT_NO_ACCOUNT: not known */
    bool is_guest;       /* comes by the HTTP door: each request has the rights of the token that it carries (tokens.h) */
    struct client_stream streams[CLIENT_STREAMS_MAX];
};

struct api_answer;
struct api_shell;
struct change_waiting;
struct query_series;
struct query_blob;
struct query_verify_run;
struct query_usage_run;
struct query_events_run;
struct elsewhere;
struct files_read;
struct api_webhooks;
struct query_trace_run;
struct document_run;
struct watched;
struct curves;

/* A code that opens one session (tokens.c); expires_ms 0: a free place. */
struct api_login {
    uint8_t code[16];
    uint64_t expires_ms;
    bool read_only;
};
#define API_LOGINS_MAX 16

/* A browser's session (sessions.c); expires_s 0, or past: a free place. */
struct api_session {
    uint8_t hash[HASH_BYTES];
    uint64_t created_s, expires_s; /* since 1970 */
    bool read_only;
};
#define API_SESSIONS_MAX 25

/* The state of the room, as daemon->api. */
struct daemon_api {
    struct client *clients; /* of all doors */
    uint32_t client_count;
    struct change_waiting *waiting; /* requests that the core has not answered yet */
    /* Requests under way: for metrics and logs, for checkpoints, to verify checkpoints, for what slots use, and for traces. */
    struct query_series *series;
    struct query_blob *blob_requests;
    struct query_verify_run *verifies;
    struct query_usage_run *usages;
    struct query_events_run *events; /* of other nodes */
    struct elsewhere *elsewhere;     /* passed on to other nodes (elsewhere.h) */
    struct api_shell *shells; /* shells.c */
    struct files_read *files; /* of trials, one by one */
    struct query_trace_run *traces;
    struct document_run *documents;  /* on their way (documents.h), those first whose turn comes next */
    struct watched *watched;         /* experiments that are watched (watched.h) */
    uint32_t first_served; /* of the items of the local socket, whose turn comes first */
    uint64_t spent_us;     /* by documents since the last api_tick */
    bool has_more;         /* the last turn had no time for all documents and streams */
    struct curves *curves; /* render/curves.h; NULL: not made yet, or no memory is left */
    uint64_t curves_ms;    /* when the trials are looked at next */
    uint64_t watch_ms; /* when streams were last looked at; 0: no stream is open */
    struct api_answer *answers, **answers_end; /* to reports on their way to the disk (worker.c); the end counts while there
                                                  are any */
    uint64_t append_id;                        /* of the last such report */
    struct api_login logins[API_LOGINS_MAX];
    struct api_session sessions[API_SESSIONS_MAX];
    uint64_t tokens_refused; /* requests by the HTTP door without a valid token */
    struct api_webhooks *webhooks; /* webhooks.c; NULL: not made yet */
    uint64_t secret_due_ms;  /* since when a member has lacked copies of secrets (secrets.c); 0: none lacks one */
    uint64_t tokens_untold;  /* those with a wrong one that no event line has told of yet */
    uint64_t tokens_told_ms; /* the next line may come then */
    uint16_t http_port;      /* where the HTTP door listens; 0: nowhere */
};

/* Adds a client to daemon->api->clients, with a new serial. `client` is the door's and all zero before. */
void client_add(struct daemon *daemon, struct client *client, const struct client_door *door);

/* Takes the client off the list and forgets its streams and the connection of its worker. The memory stays the door's. */
void client_remove(struct daemon *daemon, struct client *client);

/* Returns the client with the serial; NULL if the client is gone or broken. */
struct client *client_find(struct daemon *daemon, uint64_t serial);

/* True if streams to the client may go on now. */
bool client_may_stream(const struct client *client);

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* A request for its handler. Borrowed for the call: a handler that needs more time keeps client->serial and `id`. */
struct client_request {
    struct client *client;
    uint64_t id; /* 0: the client wants no answer */
    const char *op; /* not NUL-terminated */
    size_t op_bytes;
    struct pack_reader map;       /* the whole request; the functions below find arguments by name */
    struct daemon_worker *worker; /* of the connection, in requests of kind API_WORKER, or of the token, in those of kind
                                     API_TRIAL; else NULL */
};

/* Returns the file that came with the request; the caller owns and closes the descriptor. -1: no file came. */
int client_take_file(const struct client_request *request);

/* Reads the argument `key`. False: missing, or not a number that fits; `*out` is then unchanged, and nothing is
 * answered. */
bool client_argument_u64(const struct client_request *request, const char *key, uint64_t *out);

/* Reads the argument `experiment`. False: missing or of another form; the request is then answered with an error of
 * code EXIT_USAGE. */
bool client_argument_any_experiment(struct daemon *daemon, const struct client_request *request, experiment_id *out);

/* As client_argument_any_experiment, for experiments known here. False, too, for an unknown experiment; the answer is
 * then client_reply_unknown_experiment. `*out` is the core's, valid until its next step. */
bool client_argument_experiment(struct daemon *daemon, struct client_request *request, struct view_experiment **out);

/* Reads the argument `node`; without it, it is this node. False: it is no id, or no node's; the request is then answered. */
bool client_argument_node(struct daemon *daemon, const struct client_request *request, node_id *out);

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* Codes of errors: the exit status of the command line. */
#define EXIT_REFUSED 1
#define EXIT_USAGE 2
#define EXIT_NOT_FOUND 4
#define EXIT_TIMEOUT 5
/* Of requests by the HTTP door only. */
#define EXIT_NO_TOKEN 6  /* the request carries no token that is valid */
#define EXIT_NO_RIGHTS 7 /* the token does not allow the request */

/* Sends a message without an id, such as a notice to a worker: `bytes` are the whole map, borrowed for the call. */
void client_send(struct client *client, const uint8_t *bytes, size_t count);

/* An answer in the making: a map with `id`, `ok` (true) and `end`, to which the caller packs `extra_pairs` more. begin
 * returns false when memory is full: then nothing is sent, and nothing is to be freed. Each begun answer must be sent;
 * send frees the answer and takes `file` (-1: none). An answer that is too large breaks the client, with a line. */
struct client_reply {
    struct pack_writer writer;
    uint8_t *bytes;
};
bool client_reply_begin(struct client_reply *reply, uint64_t id, bool end, uint32_t extra_pairs);
void client_reply_send(struct daemon *daemon, struct client *client, struct client_reply *reply, int file);

/* Sends an answer with only `id`, `ok` and `end`; nothing if the id is 0. */
void client_reply_empty(struct daemon *daemon, struct client *client, uint64_t id);

/* Sends the last answer to a refused request: a code from above and a sentence, cut at 1,023 bytes. If the id is 0, the
 * sentence becomes a line instead. */
void client_reply_error(struct daemon *daemon, struct client *client, uint64_t id, int exit_code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Sends an error for a subject that is not known here: EXIT_NOT_FOUND with a sentence that names the `what` with `id`
 * and the command `shoal LIST`; EXIT_REFUSED while this node is syncing, since peers may know the subject. */
void client_reply_unknown(struct daemon *daemon, const struct client_request *request, const char *what, const char *id,
                          const char *list);

/* As client_reply_unknown, for an experiment. An experiment whose deletion is on record gives EXIT_NOT_FOUND even while
 * syncing. */
void client_reply_unknown_experiment(struct daemon *daemon, const struct client_request *request, experiment_id id);

/* Sends an error of code EXIT_USAGE: no such operation, or not with such arguments. */
void client_reply_no_request(struct daemon *daemon, const struct client_request *request);

#endif

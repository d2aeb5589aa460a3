#ifndef NODE_BULK_STATE_H
#define NODE_BULK_STATE_H
/* What the parts of the bulk shell share; private to node/bulk/. Everything below belongs to the bulk's thread, except
 * the fields that the mutex guards.
 *
 *   bulk.c         API, commands and events, the thread's loop
 *   link.c         sockets, peers, and our open questions
 *   serve.c        answers to the questions of peers
 *   check.c        reads a blob again, chunk by chunk
 *   streams.c      streams of bytes between sockets of programs on two nodes; stream.c: their core
 *   jobs.c         fetches, pushes, series fetches and checks; replication of series */

#include <pthread.h>
#include <stdatomic.h>
#include <zmq.h>

#include "base/pack.h"
#include "gossip/inflow.h"
#include "gossip/quota.h"
#include "node/bulk/bulk.h"
#include "node/bulk/wire.h"
#include "store/blob.h"

#define BULK_ENDPOINT_BYTES 80
#define BULK_QUESTIONS_MAX 384
#define BULK_RETRY_MS 1000   /* pause after BUSY, and between attempts to replicate */
#define BULK_RETRY_FULL_MS 10000 /* pause between attempts to replicate to a full disk */
#define BULK_NOTICES_MAX 64  /* CORRUPT and STORE_FAILED events that wait to be taken; further ones are dropped */

/* ---- memory being sent ---- */

/* One chunk in libzmq's hands. libzmq reports that it is done from a thread of its own, perhaps after bulk_stop: hence
 * the reference count. Buffers are mapped, not allocated, so that an idle daemon returns their memory to the system. */
struct bulk_slot {
    atomic_bool busy;
    uint64_t owner; /* the receiver: a hash of the node id or routing id */
    struct bulk_pool *pool;
};

/* The chunks in libzmq's hands. */
struct bulk_pool {
    atomic_uint references;
    int wake_fd; /* wakes the thread */
    struct bulk_slot slots[BULK_BUFFERS];
};

/* ---- peers and questions ---- */

/* A peer and our connection to it. */
struct bulk_peer_state {
    node_id node;
    uint8_t curve_public[32];
    char endpoint[BULK_ENDPOINT_BYTES];
    void *socket;         /* NULL: not open */
    bool connected;       /* a message was sent since the socket was opened */
    bool want_out;        /* poll the socket for writing */
    uint64_t used_ms;     /* last use, for closing an idle socket */
    uint64_t progress_ms; /* last progress with our questions to the peer */
    enum bulk_way way;
    uint32_t breaks; /* connections that broke in a row while the peer owed an answer with data */
};

/* A question of ours to a peer, until the answer or the failure. */
struct bulk_question {
    bool used, sent;
    uint8_t kind; /* enum bulk_wire_kind */
    uint32_t tag;
    node_id node;
    struct bulk_job *job; /* NULL: an APPEND, or the job is over */
    uint32_t index;       /* chosen by the job; APPEND: index of the cursor */
    hash256 hash;
    uint64_t not_before_ms;
};

/* ---- checks ---- */

/* The check of a blob on this disk. Start with zeroes and the hash. */
struct bulk_check {
    hash256 hash; /* the manifest's hash */
    bool begun;   /* the manifest was read; `manifest` owns its array */
    struct blob_manifest manifest;
    uint32_t next; /* index of the next chunk */
    int result;    /* result of the chunks so far: 0, ERR_CORRUPT or ERR_NOT_FOUND */
};

/* ---- requests ---- */

/* One kind for each call of the API that changes something. */
enum bulk_command_kind { BULK_DO_PEER, BULK_DO_FETCH, BULK_DO_PUSH, BULK_DO_APPEND, BULK_DO_READ, BULK_DO_VERIFY,
                         BULK_DO_DISCARD, BULK_DO_STREAM, BULK_DO_STREAM_ANSWER, BULK_DO_STREAM_CLOSE };

/* A call of the API, on its way to the thread. */
struct bulk_command {
    struct bulk_command *next;
    enum bulk_command_kind kind;
    uint64_t id;
    hash256 hash;
    node_id nodes[BLOB_HOLDERS_MAX];
    uint32_t node_count;
    uint8_t curve_public[32];
    char endpoint[BULK_ENDPOINT_BYTES]; /* PEER; empty: the peer is gone */
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes;
    uint64_t sequence;
    /* Allocated in advance, so that the thread cannot run out of memory: */
    struct bulk_job *job;          /* FETCH, PUSH, READ, VERIFY */
    struct bulk_event_node *event; /* APPEND with an id; STREAM: of its end */
    int fd;   /* STREAM, STREAM_ANSWER: owned, -1: none */
    int code; /* STREAM_ANSWER, STREAM_CLOSE */
    size_t byte_count; /* STREAM: the request; STREAM_ANSWER, STREAM_CLOSE: the sentence; APPEND: the entry; READ: the question, 0: all entries are wanted; FETCH: ranges, 0: all of the blob */
    _Alignas(struct blob_range) uint8_t bytes[];
};

enum bulk_job_state { BULK_JOB_START, BULK_JOB_MANIFEST, BULK_JOB_CHUNKS, BULK_JOB_LAST };

/* A request at work or waiting. */
struct bulk_job {
    struct bulk_job *next;
    struct bulk_command *command;  /* owned */
    struct bulk_event_node *event; /* owned until it is queued for the caller */
    enum bulk_job_state state;
    bool finished;
    uint32_t outstanding; /* number of open questions */
    uint64_t bytes;       /* bytes of chunks moved */
    uint8_t *encoded;     /* the encoded manifest */
    size_t encoded_bytes;
    struct blob_manifest manifest; /* its array is owned */
    struct blob_fetch_slot *slots; /* FETCH */
    struct blob_fetch fetch;
    uint32_t holder_next;   /* FETCH, MANIFEST: index of the holder to ask next */
    uint32_t batch_from;    /* PUSH: the peer is asked about batch_count chunks from this one on */
    uint32_t batch_count;   /* 0: no batch yet */
    uint32_t batch_next;    /* the next chunk of the batch to look at */
    bool batch_known;       /* the peer's answer about the batch has come */
    uint8_t held[BULK_WIRE_HAS_MAX / 8];
    bool batch_sent;        /* PUSH: a chunk of the batch was sent */
    bool has_sent;          /* PUSH: any chunk was sent since the last pass over all chunks began */
    uint32_t passes;        /* PUSH: how often the peer lacked chunks although all had been sent */
    uint64_t sent_count;    /* PUSH: chunks sent; those that the peer did not keep count several times */
    uint64_t look_ms;       /* PUSH, FETCH: when the chunks that are there were last asked for, to keep them */
    struct bulk_check check; /* VERIFY on this node */
};

/* Replication of one series to one peer, which has the entries before `next` and not all of the entries behind. */
struct bulk_cursor {
    bool used, asked;
    uint64_t waits; /* 0: the peer is known. Else nothing can be asked yet; the smaller, the longer the cursor waits */
    node_id node;
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes;
    uint64_t next;
    uint64_t sent_last; /* the last entry in the open question */
    bool rewound;       /* an entry at or before sent_last was stored since the question, at rewound_to */
    uint64_t rewound_to;
    uint64_t not_before_ms;
};

/* What a peer has of a series for which there is no cursor: the entries before `next`. Empty: `next` is 0. */
struct bulk_sent {
    uint64_t series; /* hash of the peer and of the series' name */
    uint64_t next;
};

/* An event on its way to the caller. */
struct bulk_event_node {
    struct bulk_event_node *next;
    uint32_t *counter; /* counts the event until it is taken: requests or notices of struct bulk; NULL: BULK_APPENDED */
    struct bulk_event event;
    uint8_t *body; /* the memory that the items point into */
    struct bulk_item items[];
};

/* ---- serving ---- */

#define BULK_ROUTING_ID_BYTES 32 /* ids made by libzmq have 5 bytes; our peers set no others */

/* A question that was taken from libzmq and waits for its turn. */
struct bulk_letter {
    struct bulk_letter *next;
    zmq_msg_t parts[3]; /* routing id, head, body */
    int frames;         /* more than 3: not a message of ours */
    struct zap_identity from;
    size_t bytes;
};

/* A peer's question for a chunk, waiting for a buffer or the bandwidth. */
struct bulk_serve {
    bool used;
    uint8_t routing_id[BULK_ROUTING_ID_BYTES];
    size_t routing_id_bytes;
    uint64_t owner;
    node_id from;
    uint32_t tag;
    hash256 hash;
    uint64_t told_ms;
};

/* A peer's question for a check of a blob. */
struct bulk_serve_check {
    uint8_t routing_id[BULK_ROUTING_ID_BYTES];
    size_t routing_id_bytes;
    uint64_t owner;
    uint32_t tag;
    struct bulk_check check;
    uint64_t told_ms;
};

/* ---- streams ---- */

enum bulk_stream_state {
    BULK_STREAM_ASKS,  /* the other side has not answered yet: this side's program, or this side for a peer */
    BULK_STREAM_RUNS,
    BULK_STREAM_LINGERS /* it has ended: only late messages of the other side are answered */
};

/* One side of a stream (streams.c). */
struct bulk_stream {
    struct bulk_stream *next;
    enum bulk_stream_state state;
    uint64_t id;      /* the program's */
    uint64_t key;     /* on the wire; together with the peer and the side it names the stream */
    node_id node;     /* the other side's */
    bool is_of_peer;  /* the peer has opened it */
    uint32_t tag;     /* of an own one */
    uint8_t routing_id[BULK_ROUTING_ID_BYTES]; /* of a peer's: where it was last heard */
    size_t routing_id_bytes;
    int fd; /* -1: none */
    bool is_read_shut, is_write_shut; /* directions of `fd` that have ended */
    bool has_stuck; /* the last segment could not be sent */
    uint64_t asked_ms, looked_ms, ended_ms;
    int code;                           /* LINGERS: of its end */
    char text[BULK_WIRE_RESET_BYTES_MAX + 1];
    struct stream ends;
    uint8_t *rings; /* mapped: 2 * STREAM_RING_BYTES; NULL: it lingers */
    struct bulk_event_node *event; /* of its end; NULL: put already */
    size_t request_bytes;
    uint8_t request[];
};

/* The bulk service. */
struct bulk {
    void *context;
    struct zap *zap;
    struct chunks *chunks;
    struct bulk_series_hooks series;
    node_id self;
    uint8_t curve_public[32], curve_secret[32];
    uint64_t io_threads;
    uint64_t idle_ms;
    uint16_t port;
    struct bulk_pool *pool;
    int event_fd;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the fields down to `notices` */
    bool stopping;
    struct bulk_command *commands, **commands_end;
    size_t command_bytes;
    uint32_t requests; /* requests whose event was not taken */
    struct bulk_event_node *events, **events_end;
    struct bulk_event_node *taken;
    struct bulk_statistics statistics;
    struct bulk_traffic traffic[BULK_PEERS_MAX]; /* in the order in which the peers came; one beyond them is in none */
    uint32_t traffic_count;
    uint32_t notices;

    uint64_t now_ms; /* CLOCK_MONOTONIC, read once per turn */
    void *router, *monitor;
    struct inflow inflow; /* watches the router's connections */
    uint64_t rate;      /* bytes per second; 0: no limit */
    int64_t budget;     /* bytes that may be sent now; negative after a large message */
    uint64_t budget_ms; /* when `budget` was last increased */
    struct bulk_peer_state *peers;
    uint32_t peer_count;
    struct bulk_question questions[BULK_QUESTIONS_MAX];
    uint32_t question_count;
    uint32_t last_tag;
    uint32_t window; /* number of GETs sent and not answered */
    struct bulk_letter *inbox, **inbox_end;
    struct quota quota; /* bounds of the inbox, by zap_identity.slot */
    struct bulk_serve serves[BULK_SERVE_MAX];
    uint32_t serve_first, serve_count; /* a ring in order of arrival, with gaps */
    struct bulk_serve_check checks[BULK_VERIFY_MAX]; /* in order of arrival; the first is being read */
    uint32_t check_count;
    struct bulk_job *waiting, **waiting_end, *active;
    uint32_t active_count;
    struct bulk_cursor cursors[BULK_CURSORS_MAX];
    uint32_t cursor_count; /* without those that wait for their peer */
    uint64_t last_wait;    /* the largest `waits` so far */
    struct bulk_sent sent[BULK_SENT_SETS][BULK_SENT_WAYS]; /* a set is chosen by the hash; its newest comes first */
    struct bulk_stream *streams;
    uint32_t stream_count;    /* without those that linger */
    uint32_t linger_count;
    uint64_t stream_id;       /* of the last stream that a peer has opened */
    uint64_t store_failed_ms; /* when STORE_FAILED was last reported; 0: never */
    bool trim;                /* memory was used since the last trim */
    bool again;               /* this turn left work that need not wait for anything */
};

/* bulk.c: puts an event into the caller's queue, which takes it over; reports a damaged chunk of a node. */
void bulk_event_put(struct bulk *bulk, struct bulk_event_node *node);
void bulk_notice_corrupt(struct bulk *bulk, hash256 hash, node_id where);

/* Tells the daemon about the way to a peer. False: too many notices wait; a later one will tell. */
bool bulk_notice_way(struct bulk *bulk, node_id node, enum bulk_way way);

/* Reports a full or broken disk to the daemon, if `code` of a store's function means that. Returns `code`. */
int bulk_store_result(struct bulk *bulk, int code);

/* chunks_get into a new buffer of BLOB_CHUNK_BYTES_MAX mapped bytes; a damaged chunk is deleted and reported
 * (ERR_CORRUPT). Free the buffer with bulk_unmap. */
int bulk_chunk_read(struct bulk *bulk, hash256 hash, uint8_t **buffer, size_t *count);

/* BLOB_CHUNK_BYTES_MAX mapped bytes, or NULL; bulk_unmap gives them back (NULL is allowed). */
uint8_t *bulk_map(void);
void bulk_unmap(uint8_t *buffer);

/* Packs entries from `from` on into `out` of BLOB_CHUNK_BYTES_MAX bytes: about `bytes_max`, and at least one entry if
 * there is one. `*more`: there are further entries. */
int bulk_series_pack(struct bulk *bulk, const uint8_t *prefix, size_t prefix_bytes, uint64_t from, size_t bytes_max,
                     uint8_t *out, size_t *out_bytes, uint64_t *last, uint32_t *count, bool *more);

/* Packs the answer to a question about a series likewise. ERR_VERSION: no question is understood here. */
int bulk_series_answer(struct bulk *bulk, const uint8_t *prefix, size_t prefix_bytes, uint64_t from, const uint8_t *question,
                       size_t question_bytes, uint8_t *out, size_t *out_bytes, bool *more);

/* Stores entries and tells the program of them. Errors as series_append_batch. */
int bulk_series_store(struct bulk *bulk, const struct series_entry *entries, size_t count);

/* Adds to a counter of the statistics, under the mutex. */
void bulk_count(struct bulk *bulk, uint64_t *counter, uint64_t by);

/* Counts bytes of chunks or entries, of all peers together and of this one. */
void bulk_count_sent(struct bulk *bulk, node_id to, uint64_t bytes);
void bulk_count_received(struct bulk *bulk, node_id from, uint64_t bytes);

/* link.c: opens the ROUTER and its monitor; closes all sockets and ends all questions. */
int bulk_link_open(struct bulk *bulk, const char *listen, char error[256]);
void bulk_link_close(struct bulk *bulk);
struct bulk_peer_state *bulk_link_peer(struct bulk *bulk, node_id node); /* NULL: unknown */

/* Performs a PEER command: adds a peer, moves it, or removes it and ends its questions. */
void bulk_link_peer_set(struct bulk *bulk, const struct bulk_command *command);

/* Opens a question to a peer, for `job` (NULL: replication); `index` comes back with the answer. False: no room; try
 * again when answers have come. */
bool bulk_link_ask(struct bulk *bulk, struct bulk_job *job, uint8_t kind, node_id node, hash256 hash, uint32_t index);

/* Drops the open questions of a job that is over. */
void bulk_link_forget(struct bulk *bulk, const struct bulk_job *job);

/* Takes all waiting answers of a peer. */
void bulk_link_receive(struct bulk *bulk, struct bulk_peer_state *peer);

/* Sends questions as far as the bounds allow, and ends those that are too old. */
void bulk_link_pump(struct bulk *bulk);

/* True if the bandwidth allows a message now; bulk_link_spend then counts its bytes. */
bool bulk_link_may_send(struct bulk *bulk);
void bulk_link_spend(struct bulk *bulk, size_t bytes);

/* Returns a free slot for `owner`, for one bulk_pool_send; NULL: wait until one is free. */
struct bulk_slot *bulk_pool_slot(struct bulk *bulk, uint64_t owner);

/* Sends a head and a mapped body; takes over the buffer in any case. */
bool bulk_pool_send(struct bulk *bulk, void *socket, node_id to, struct bulk_slot *slot, const struct bulk_message *head,
                    uint8_t *buffer, size_t count);

/* Sends a message without a mapped body. False: the socket takes no more now. */
bool bulk_link_send(void *socket, const struct bulk_message *message);

/* Drops one reference; the last one frees the pool. */
void bulk_pool_release(struct bulk_pool *pool);

/* Sends a message of a stream to a peer. False: not now, or the peer is unknown. */
bool bulk_link_stream_send(struct bulk *bulk, node_id node, const struct bulk_message *message);

/* serve.c: answers the questions of peers. */
bool bulk_serve_stream_send(struct bulk *bulk, const uint8_t *routing_id, size_t routing_id_bytes, const struct bulk_message *message);
void bulk_serve_open(struct bulk *bulk); /* call before the thread starts */
void bulk_serve_receive(struct bulk *bulk);
void bulk_serve_pump(struct bulk *bulk);
void bulk_serve_close(struct bulk *bulk);

/* streams.c */
#define BULK_STREAM_IDS ((uint64_t)1 << 63) /* ids of streams of peers are above */

/* Performs a command about a stream, and frees it. */
void bulk_streams_command(struct bulk *bulk, struct bulk_command *command);

/* Takes a message about a stream. `routing_id` NULL: it came over our connection to the node, else over the node's. */
void bulk_streams_take(struct bulk *bulk, node_id node, const uint8_t *routing_id, size_t routing_id_bytes,
                       const struct bulk_message *message);

/* The peer has gone for good: its streams end. */
void bulk_streams_peer_gone(struct bulk *bulk, node_id node);

/* True while our connection to the node carries a stream. */
bool bulk_streams_use(const struct bulk *bulk, node_id node);

/* The sockets to poll, with what is wanted of each; returns how many, at most BULK_STREAMS_MAX. */
int bulk_streams_poll(const struct bulk *bulk, zmq_pollitem_t *items);

/* Moves bytes between the sockets and the peers. bulk_streams_next_ms: when to do so at the latest; UINT64_MAX: no stream is there. */
void bulk_streams_pump(struct bulk *bulk);
uint64_t bulk_streams_next_ms(const struct bulk *bulk);
void bulk_streams_close(struct bulk *bulk);

/* check.c */
/* Checks one chunk more; damaged chunks are deleted and reported. ERR_AGAIN: there are more chunks. Otherwise the
 * result of the whole blob: 0, ERR_CORRUPT, ERR_NOT_FOUND, or why the blob could not be read: ERR_IO, ERR_MEMORY,
 * ERR_VERSION. */
int bulk_check_step(struct bulk *bulk, struct bulk_check *check);
void bulk_check_close(struct bulk_check *check); /* harmless if repeated */

/* jobs.c */
void bulk_job_free(struct bulk_job *job); /* frees its command and event, too */
void bulk_jobs_command(struct bulk *bulk, struct bulk_command *command); /* takes over a FETCH, PUSH, READ or VERIFY */
void bulk_jobs_append(struct bulk *bulk, struct bulk_command *first);    /* a list of APPENDs, which stays the caller's
                                                                           but for its events */

/* A question ended. `message` is the answer, or NULL, and `code` then tells why there is none. */
void bulk_jobs_answer(struct bulk *bulk, const struct bulk_question *question, const struct bulk_message *message, int code);

/* A peer was added: what waits to be replicated to it can be sent. */
void bulk_jobs_peer_known(struct bulk *bulk, node_id node);

/* A peer was removed, or will never be known: ends the requests and the replication that depend on it. */
void bulk_jobs_peer_gone(struct bulk *bulk, node_id node);

/* Starts waiting requests as the bounds allow, and moves the active ones on; bulk_jobs_close frees all. */
void bulk_jobs_pump(struct bulk *bulk);
void bulk_jobs_close(struct bulk *bulk);

#endif

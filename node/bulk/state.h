#ifndef NODE_BULK_STATE_H
#define NODE_BULK_STATE_H
/* What the parts of the bulk shell share; private to node/bulk/. Everything below belongs to the bulk's thread, but for
 * what the mutex guards.
 *
 *   bulk.c         API, commands and events, the thread's loop
 *   link.c         sockets, peers, and the questions that are out
 *   serve.c        answers the peers' questions
 *   check.c        reads a blob again, chunk by chunk
 *   jobs.c         fetches, pushes, series fetches and checks; replication of series
 */

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
#define BULK_RETRY_MS 1000   /* after BUSY, and between tries to replicate */
#define BULK_RETRY_FULL_MS 10000 /* ... to a full disk */
#define BULK_NOTICES_MAX 64  /* CORRUPT and STORE_FAILED that wait to be taken; more are dropped */

/* ---- memory on its way out ---- */

/* libzmq says when it is done with a chunk, from a thread of its own and perhaps after bulk_stop: hence the count of
 * references. Buffers are mapped, not allocated, so that an idle daemon gives all of it back. */
struct bulk_slot {
    atomic_bool busy;
    uint64_t owner; /* whom it goes to: a hash of node id or routing id */
    struct bulk_pool *pool;
};

struct bulk_pool {
    atomic_uint references;
    int wake_fd; /* wakes the thread */
    struct bulk_slot slots[BULK_BUFFERS];
};

/* ---- peers and questions ---- */

struct bulk_peer_state {
    node_id node;
    uint8_t curve_public[32];
    char endpoint[BULK_ENDPOINT_BYTES];
    void *socket;         /* NULL: not open */
    bool connected;       /* something was sent since it was opened */
    bool want_out;        /* poll it for writing */
    uint64_t used_ms;     /* for closing it when idle */
    uint64_t progress_ms; /* of what it is asked */
};

struct bulk_question {
    bool used, sent;
    uint8_t kind; /* enum bulk_wire_kind */
    uint32_t tag;
    node_id node;
    struct bulk_job *job; /* NULL: whoever asked is done, or APPEND */
    uint32_t index;       /* the job's; APPEND: of the cursor */
    hash256 hash;
    uint64_t not_before_ms;
};

/* ---- checks ---- */

/* A blob of this disk that is being read again. Start with zeroes and the hash. */
struct bulk_check {
    hash256 hash; /* of the manifest */
    bool begun;   /* the manifest was read; its array is owned */
    struct blob_manifest manifest;
    uint32_t next; /* chunk */
    int result;    /* of the chunks so far: 0, ERR_CORRUPT or ERR_NOT_FOUND */
};

/* ---- requests ---- */

enum bulk_command_kind { BULK_DO_PEER, BULK_DO_FETCH, BULK_DO_PUSH, BULK_DO_APPEND, BULK_DO_READ, BULK_DO_VERIFY,
                         BULK_DO_DISCARD };

struct bulk_command {
    struct bulk_command *next;
    enum bulk_command_kind kind;
    uint64_t id;
    hash256 hash;
    node_id nodes[BLOB_HOLDERS_MAX];
    uint32_t node_count;
    uint8_t curve_public[32];
    char endpoint[BULK_ENDPOINT_BYTES]; /* PEER; empty: gone */
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes;
    uint64_t sequence;
    struct bulk_job *job; /* FETCH, PUSH, READ, VERIFY: made beforehand, so that the thread need not run out of memory */
    size_t byte_count;
    uint8_t bytes[];
};

enum bulk_job_state { BULK_JOB_START, BULK_JOB_MANIFEST, BULK_JOB_CHUNKS, BULK_JOB_LAST };

struct bulk_job {
    struct bulk_job *next;
    struct bulk_command *command;  /* owned */
    struct bulk_event_node *event; /* owned until it is put */
    enum bulk_job_state state;
    bool finished;
    uint32_t outstanding; /* questions */
    uint64_t bytes;       /* of chunks moved */
    uint8_t *encoded;     /* the manifest */
    size_t encoded_bytes;
    struct blob_manifest manifest; /* its array is owned */
    struct blob_fetch_slot *slots; /* FETCH */
    struct blob_fetch fetch;
    uint32_t holder_next;   /* FETCH, MANIFEST: whom to ask next */
    uint32_t batch_from;    /* PUSH: the peer is asked about batch_count chunks from this one on; */
    uint32_t batch_count;   /* 0: not yet */
    uint32_t batch_next;    /* which of these is looked at next */
    bool batch_known;       /* the answer came */
    uint8_t held[BULK_WIRE_HAS_MAX / 8];
    bool batch_sent;        /* PUSH: a chunk of the batch was sent; */
    bool has_sent;          /* ... one of any, since the last pass over all began */
    uint32_t passes;        /* PUSH: how often it was found to lack something though all was sent */
    uint64_t sent_count;    /* PUSH: chunks, some of them more than once if the peer did not keep them */
    uint64_t look_ms;       /* PUSH, FETCH: when the chunks that are there were last asked about */
    struct bulk_check check; /* VERIFY of this node */
};

/* A peer that has a series up to `next`, and not all of what is behind it. */
struct bulk_cursor {
    bool used, asked;
    node_id node;
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes;
    uint64_t next;
    uint64_t sent_last; /* while asked: the last entry in the question, */
    bool rewound;       /* ... and an entry at or before it came since: */
    uint64_t rewound_to;
    uint64_t not_before_ms;
};

struct bulk_event_node {
    struct bulk_event_node *next;
    bool of_request;
    struct bulk_event event;
    uint8_t *body; /* what the items point into */
    struct bulk_item items[];
};

/* ---- serving ---- */

#define BULK_ROUTING_ID_BYTES 32 /* libzmq's own have 5; nobody here sets others */

/* A question that was taken from libzmq and waits for its turn. */
struct bulk_letter {
    struct bulk_letter *next;
    zmq_msg_t parts[3]; /* routing id, head, body */
    int frames;         /* may be more than 3: no message of ours */
    struct zap_identity from;
    size_t bytes;
};

struct bulk_serve {
    bool used;
    uint8_t routing_id[BULK_ROUTING_ID_BYTES];
    size_t routing_id_bytes;
    uint64_t owner;
    uint32_t tag;
    hash256 hash;
    uint64_t told_ms;
};

struct bulk_serve_check {
    uint8_t routing_id[BULK_ROUTING_ID_BYTES];
    size_t routing_id_bytes;
    uint64_t owner;
    uint32_t tag;
    struct bulk_check check;
    uint64_t told_ms;
};

struct bulk {
    void *context;
    struct zap *zap;
    struct chunks *chunks;
    node_id self;
    uint8_t curve_public[32], curve_secret[32];
    uint64_t io_threads;
    uint64_t idle_ms;
    uint16_t port;
    struct bulk_pool *pool;
    int event_fd;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards down to `notices` */
    bool stopping;
    struct bulk_command *commands, **commands_end;
    size_t command_bytes;
    uint32_t requests; /* whose event was not taken */
    struct bulk_event_node *events, **events_end;
    struct bulk_event_node *taken;
    struct bulk_statistics statistics;
    uint32_t notices;

    uint64_t now_ms; /* CLOCK_MONOTONIC, read once per turn */
    void *router, *monitor;
    struct inflow inflow; /* of the router */
    uint64_t rate;      /* bytes per second, 0: none */
    int64_t budget;     /* bytes that may be sent now; below 0 after a large one */
    uint64_t budget_ms; /* when it was filled up last */
    struct bulk_peer_state *peers;
    uint32_t peer_count;
    struct bulk_question questions[BULK_QUESTIONS_MAX];
    uint32_t question_count;
    uint32_t last_tag;
    uint32_t window; /* GETs that are out */
    struct bulk_letter *inbox, **inbox_end;
    struct quota quota; /* of the inbox, by zap_identity.slot */
    struct bulk_serve serves[BULK_SERVE_MAX];
    uint32_t serve_first, serve_count; /* a ring, in order of arrival, with holes */
    struct bulk_serve_check checks[BULK_VERIFY_MAX]; /* in order of arrival; the first is at work */
    uint32_t check_count;
    struct bulk_job *waiting, **waiting_end, *active;
    uint32_t active_count;
    struct bulk_cursor cursors[BULK_CURSORS_MAX];
    uint32_t cursor_count;
    uint64_t store_failed_ms; /* of the last STORE_FAILED, 0: none */
    bool trim;                /* memory was used since the last trim */
    bool again;               /* this turn left work that needs no waiting */
};

/* bulk.c */
void bulk_event_put(struct bulk *bulk, struct bulk_event_node *node);
void bulk_notice_corrupt(struct bulk *bulk, hash256 hash, node_id where);
/* Looks at what a call of the store returned, and tells the daemon of its disk. Returns `code`. */
int bulk_store_result(struct bulk *bulk, int code);
/* chunks_get into a fresh buffer of BLOB_CHUNK_BYTES_MAX mapped bytes; a damaged chunk is deleted and told of
 * (ERR_CORRUPT). Give back with bulk_unmap. */
int bulk_chunk_read(struct bulk *bulk, hash256 hash, uint8_t **buffer, size_t *count);
uint8_t *bulk_map(void);
void bulk_unmap(uint8_t *buffer);
/* Packs entries from `from` on into `out` of BLOB_CHUNK_BYTES_MAX bytes: about `bytes_max`, but one if there is one. */
int bulk_series_pack(struct bulk *bulk, const uint8_t *prefix, size_t prefix_bytes, uint64_t from, size_t bytes_max,
                     uint8_t *out, size_t *out_bytes, uint64_t *last, uint32_t *count, bool *more);
void bulk_count(struct bulk *bulk, uint64_t *counter, uint64_t by);

/* link.c */
int bulk_link_open(struct bulk *bulk, const char *listen, char error[256]);
void bulk_link_close(struct bulk *bulk);
struct bulk_peer_state *bulk_link_peer(struct bulk *bulk, node_id node); /* NULL: unknown */
void bulk_link_peer_set(struct bulk *bulk, const struct bulk_command *command);
/* False: no room; try again when answers came. */
bool bulk_link_ask(struct bulk *bulk, struct bulk_job *job, uint8_t kind, node_id node, hash256 hash, uint32_t index);
void bulk_link_forget(struct bulk *bulk, const struct bulk_job *job);
void bulk_link_receive(struct bulk *bulk, struct bulk_peer_state *peer);
void bulk_link_pump(struct bulk *bulk);
bool bulk_link_may_send(struct bulk *bulk);
void bulk_link_spend(struct bulk *bulk, size_t bytes);
/* A free slot for `owner`, whose memory is `buffer` from now on; NULL: wait until one is free. */
struct bulk_slot *bulk_pool_slot(struct bulk *bulk, uint64_t owner);
/* Sends head and mapped body; takes the buffer in any case. */
bool bulk_pool_send(struct bulk *bulk, void *socket, struct bulk_slot *slot, const struct bulk_message *head, uint8_t *buffer,
                    size_t count);
bool bulk_link_send(void *socket, const struct bulk_message *message);
void bulk_pool_release(struct bulk_pool *pool);

/* serve.c */
void bulk_serve_open(struct bulk *bulk); /* before the thread starts */
void bulk_serve_receive(struct bulk *bulk);
void bulk_serve_pump(struct bulk *bulk);
void bulk_serve_close(struct bulk *bulk);

/* check.c */
/* Looks at one chunk more; damaged ones are deleted and told of. ERR_AGAIN: there are others. Else the blob's state: 0,
 * ERR_CORRUPT, ERR_NOT_FOUND, or why it could not be read: ERR_IO, ERR_MEMORY, ERR_VERSION. */
int bulk_check_step(struct bulk *bulk, struct bulk_check *check);
void bulk_check_close(struct bulk_check *check); /* a second time is harmless */

/* jobs.c */
void bulk_job_free(struct bulk_job *job); /* with its command and event */
void bulk_jobs_command(struct bulk *bulk, struct bulk_command *command); /* takes FETCH, PUSH, READ, VERIFY */
void bulk_jobs_append(struct bulk *bulk, struct bulk_command *first);    /* a list of APPENDs, still the caller's */
/* `message` is the answer, or NULL with the code of why there is none. */
void bulk_jobs_answer(struct bulk *bulk, const struct bulk_question *question, const struct bulk_message *message, int code);
void bulk_jobs_peer_gone(struct bulk *bulk, node_id node);
void bulk_jobs_pump(struct bulk *bulk);
void bulk_jobs_close(struct bulk *bulk);

#endif

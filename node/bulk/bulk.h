#ifndef NODE_BULK_BULK_H
#define NODE_BULK_BULK_H
/* Bulk transfer: chunks, blobs and series between the nodes, on sockets and in a thread of their own, so that no
 * checkpoint delays a probe (DESIGN 6). A shell around the fetch plan of store/blob.h.
 *
 * A ROUTER answers the questions of peers from the chunk store. A DEALER per peer, opened when there is something to
 * ask and closed after BULK_IDLE_MS, asks our questions. Both are CURVE, for members only. An idle mesh sends nothing.
 * Format: docs/wire.md.
 *
 * Requests go in and events come out, each in the order of its queue; requests run in parallel. All functions except
 * bulk_start and bulk_stop may be called by any thread, bulk_next by one thread at a time. No call waits for a disk or
 * a peer.
 *
 * Bounds: BULK_WINDOW chunks asked for at a time, BULK_BUFFERS chunks being sent, BULK_ACTIVE_MAX requests at work (a
 * request holds its manifest: 77 bytes per chunk). A peer that does not answer delays the requests that need it by at
 * most BULK_STALL_MS, and no other request, unless BULK_WINDOW / BULK_WINDOW_PEER holders or BULK_ACTIVE_MAX /
 * BULK_ACTIVE_PEER receivers fall silent at the same time: later requests then wait as long.
 *
 * Arriving messages are taken from libzmq at once, whose queues have no limit (docs/dependencies.md), and wait in an
 * inbox with limits: BULK_INBOX_.... Connections that deliver bytes and no message are shut (gossip/inflow.h), and so
 * is a connection to a peer that sends more answers than it was asked for.
 *
 * A stream holds 512 KiB, and bytes of it wait behind at most a chunk for the disk of either node. What streams send counts for
 * `bytes_per_s_max`, and waits for that like all else.
 *
 * Known weaknesses: a member that answers "wait" again and again holds a request up for ever, until bulk_peer sets its port
 * to 0. While the thread waits for the disk, libzmq receives as fast as the network delivers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"
#include "gossip/keys.h"
#include "gossip/zap.h"
#include "store/chunks_lmdb.h"

#define BULK_PEERS_MAX 1024
#define BULK_REQUESTS_MAX 512       /* fetches, pushes, series fetches and checks whose event was not taken yet */
#define BULK_ACTIVE_MAX 24          /* requests at work at a time; further requests wait in order */
#define BULK_ACTIVE_PEER 6          /* pushes, series fetches and checks at work with one peer */
#define BULK_VERIFY_ACTIVE 8        /* checks at work, which take long, each with another node */
#define BULK_WINDOW 12              /* chunks asked for at a time, of all peers together */
#define BULK_WINDOW_PEER 4          /* chunks asked of one peer, and chunks sent to one peer and not answered yet */
#define BULK_BUFFERS 8              /* chunks that libzmq is still sending */
#define BULK_BUFFERS_PEER 2         /* chunks that libzmq is still sending to one peer */
#define BULK_INBOX_PEER 128         /* waiting messages of one member in the inbox */
#define BULK_INBOX_PEER_BYTES (24u << 20) /* waiting bytes of one member, more than BULK_WINDOW_PEER chunks */
#define BULK_INBOX_BYTES (256u << 20)     /* waiting bytes of all members, beyond one message of each. A member that
                                             exceeds a bound is told to ask again */
#define BULK_SERVE_MAX 256          /* questions for chunks that wait for a buffer or the bandwidth */
#define BULK_SERVE_PEER 16          /* such questions of one connection */
#define BULK_VERIFY_MAX 32          /* questions for checks that wait: one blob is read at a time */
#define BULK_VERIFY_PEER 4          /* such questions of one connection */
#define BULK_COMMAND_BYTES_MAX (8u << 20) /* series entries on their way to the disk */
#define BULK_CURSORS_MAX 512        /* pairs of a series and a peer that has not received all of it. When all are in use,
                                       one of a peer without an address gives way to one of a peer with an address */
#define BULK_SENT_SETS 128          /* times BULK_SENT_WAYS pairs of a series and a peer are remembered with what the peer has; */
#define BULK_SENT_WAYS 8            /* a series that was displaced is sent once more from its first entry */
#define BULK_SERIES_BYTES (256u << 10) /* size of a batch of entries, but one larger entry is sent alone */
#define BULK_STREAMS_MAX 128        /* streams of bytes, of this node's programs and of peers together */
#define BULK_STREAMS_PEER 64        /* streams that one peer has opened here */
#define BULK_STREAM_REQUEST_BYTES_MAX 1024
#define BULK_STALL_MS 10000         /* a peer that does not answer for this long has failed */
#define BULK_CONNECT_MS 5000        /* a peer that cannot be connected for this long has failed */
#define BULK_IDLE_MS 30000
#define BULK_TEXT_BYTES 224

/* The bulk service of one node; opaque. */
struct bulk;

/* What the program makes of series beyond keeping and sending them. Both functions are called in the bulk's thread, and delay
 * everything else there. `stored` gets entries that are on this disk now, its own and those of peers; NULL: none. `answer`
 * answers a question of bulk_series_ask, also of a peer: it writes entries (bulk_wire_entry_write) of about `bytes_max` bytes to
 * `out`, which has room for BULK_WIRE_BODY_BYTES_MAX. NULL: no questions are understood. `context` is for both, and outlives the bulk. */
struct bulk_series_hooks {
    void *context;
    void (*stored)(void *context, struct chunks *chunks, const struct series_entry *entries, size_t count);
    int (*answer)(void *context, struct chunks *chunks, const uint8_t *prefix, size_t prefix_bytes, uint64_t from_sequence,
                  const uint8_t *question, size_t question_bytes, size_t bytes_max, struct pack_writer *out, bool *more);
};

/* All pointers are borrowed for bulk_start only, except context, zap and chunks, which must outlive the bulk. The
 * context needs a ZMQ_MAX_SOCKETS with room for BULK_PEERS_MAX more in the worst case; another part of the program must
 * serve `zap` (zap_process). */
struct bulk_options {
    void *context; /* the libzmq context */
    struct zap *zap;
    const struct keys *keys;
    const char *listen; /* numeric HOST:PORT; HOST may be "*", PORT 0 (any free one) */
    struct chunks *chunks;
    uint64_t bytes_per_s_max; /* limit of sending by this node; 0: none */
    uint64_t io_threads;      /* ZMQ_AFFINITY: bit i for the context's I/O thread i; 0: any */
    uint64_t idle_ms;         /* time without questions after which a connection is closed; 0: BULK_IDLE_MS */
    struct bulk_series_hooks series; /* all NULL: none */
};

/* Binds the ROUTER and starts the thread. ERR_USAGE (the address), ERR_EXISTS (the port is taken), ERR_MEMORY, ERR_IO:
 * `error` is then one sentence. The caller owns `*out` until bulk_stop. */
int bulk_start(const struct bulk_options *options, struct bulk **out, char error[256]);

/* Stops the thread after the chunk at work, frees everything and sets `*bulk` to NULL; NULL inside is allowed. Requests
 * without an event get none. */
void bulk_stop(struct bulk **bulk);

/* The TCP port of the ROUTER. */
uint16_t bulk_port(const struct bulk *bulk);

/* A descriptor to poll: readable while events wait. It stays the bulk's. */
int bulk_fd(const struct bulk *bulk);

/* Sets the address of a peer's bulk socket; a new address replaces the old one, and questions to the peer go on there.
 * Port 0: the peer is gone; its questions fail, and entries to be sent to it wait for the next one. `host` is numeric, IPv6
 * without brackets. ERR_USAGE (host, key), ERR_MEMORY. A peer beyond BULK_PEERS_MAX is treated as unknown. */
int bulk_peer(struct bulk *bulk, node_id node, const uint8_t sign_public[32], const char *host, uint16_t port);

/* Makes a blob complete here: fetches its manifest, then the missing chunks from all holders in parallel, and stores
 * the manifest last. Unknown holders and this node are skipped. Chunks that arrived stay if the fetch fails, and are
 * not fetched again next time. The answer is the event BULK_FETCHED with `id`. ERR_FULL (BULK_REQUESTS_MAX), ERR_USAGE
 * (over BLOB_HOLDERS_MAX), ERR_MEMORY: there is no event then. */
int bulk_fetch(struct bulk *bulk, uint64_t id, hash256 manifest, const node_id *holders, uint32_t holder_count);

#define BULK_RANGES_MAX 1024

/* As bulk_fetch, for the chunks with bytes of these ranges only. The manifest is not stored, unless the blob is complete now; the
 * event has it, encoded, as its item. Also ERR_USAGE: no ranges, or over BULK_RANGES_MAX. */
int bulk_fetch_ranges(struct bulk *bulk, uint64_t id, hash256 manifest, const node_id *holders, uint32_t holder_count,
                      const struct blob_range *ranges, uint32_t range_count);

/* Makes a blob that is complete here complete at a peer: sends the chunks that the peer lacks, and the manifest last.
 * The answer is the event BULK_PUSHED with `id`. ERR_FULL, ERR_MEMORY: there is no event then. */
int bulk_push(struct bulk *bulk, uint64_t id, hash256 manifest, node_id to);

/* Appends an entry to a series here and sends it to the nodes `to`, with all earlier entries that a node has not been
 * sent: those that came while it was gone or was no copy. No memory is held for a slow peer: the stored
 * entries are sent several at a time, until the peer has them or is gone. For a node whose address
 * is not known yet they wait until bulk_peer sets it. An entry that cannot be stored here (BULK_STORE_FAILED) is not
 * sent. With an `id`, larger than those of the calls before, an event BULK_APPENDED follows; 0: no event. ERR_FULL
 * (BULK_COMMAND_BYTES_MAX), ERR_USAGE (sizes, over BLOB_HOLDERS_MAX nodes), ERR_MEMORY: nothing is appended then, and
 * there is no event. */
int bulk_series_append(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t sequence,
                       const void *bytes, size_t count, const node_id *to, uint32_t to_count);

/* False if bulk_series_append would return ERR_FULL now for an entry of `count` bytes. */
bool bulk_series_has_room(struct bulk *bulk, size_t count);

/* Reads entries from `from_sequence` on from a node. Reading from this node starts at once, behind no other request,
 * and sees all entries appended before that could be stored. The answer is the event BULK_SERIES with `id`, with about
 * BULK_SERIES_BYTES at most. ERR_FULL, ERR_USAGE, ERR_MEMORY: there is no event then. */
int bulk_series_fetch(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                      node_id node);

/* Asks a node, perhaps this one, for entries that it makes from a series as the question says (bulk_series_hooks). `question` has
 * at most BULK_WIRE_QUESTION_BYTES_MAX bytes. As bulk_series_fetch otherwise; also ERR_VERSION: the node does not understand the
 * question. */
int bulk_series_ask(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                    const void *question, size_t question_bytes, node_id node);

/* Lets a node, perhaps this one, read all chunks of a blob again and compare their hashes; damaged chunks are deleted
 * there (BULK_CORRUPT, on that node). The answer is the event BULK_VERIFIED with `id` and code 0, ERR_CORRUPT (the
 * manifest or a chunk was damaged) or ERR_NOT_FOUND (a chunk is missing, and none was damaged); or, if the state of
 * that copy is unknown, ERR_TIMEOUT, ERR_CLOSED (also: no such peer), ERR_VERSION (the peer is too old for the
 * question), ERR_IO, ERR_MEMORY. Returns 0, or ERR_FULL, ERR_MEMORY: there is no event then. */
int bulk_verify(struct bulk *bulk, uint64_t id, hash256 manifest, node_id node);

/* Reads a chunk again after a reader found it damaged, and deletes a damaged one (BULK_CORRUPT). bulk_fetch then brings
 * a good copy. ERR_FULL, ERR_MEMORY. */
int bulk_discard(struct bulk *bulk, hash256 hash);

/* Opens a stream of bytes to a node, perhaps this one (stream.h): what is written into the other end of the socket `fd`, a
 * stream socket, comes out of the socket that the program of that node gives for `request` (BULK_STREAM_ASKED), and the other
 * way round. Closing one direction (shutdown) closes it there. The bulk owns `fd` from now on, also after an error. The answer
 * is BULK_STREAM_OPENED with `id`, unless the stream ends before; the last event is BULK_STREAM_ENDED, behind which the bulk
 * does not use `fd`. ERR_FULL, ERR_USAGE (over BULK_STREAM_REQUEST_BYTES_MAX), ERR_MEMORY: there is no event then. */
int bulk_stream_open(struct bulk *bulk, uint64_t id, node_id node, const void *request, size_t request_bytes, int fd);

/* Answers BULK_STREAM_ASKED: accepts the stream with the socket `fd`, which is the bulk's from now on; or with `fd` -1
 * refuses it with an error and one sentence, after which no BULK_STREAM_ENDED comes. Nothing happens if the stream has ended.
 * ERR_FULL, ERR_MEMORY: the asker will hear of nothing until it gives up. */
int bulk_stream_answer(struct bulk *bulk, uint64_t id, int fd, int code, const char *text);

/* Ends a stream of either side now, with an error and one sentence for the other side. Bytes under way may be lost. */
int bulk_stream_close(struct bulk *bulk, uint64_t id, int code, const char *text);

/* What is known of the way to a peer's bulk socket. */
enum bulk_way {
    BULK_WAY_GOOD,
    BULK_WAY_CLOSED, /* no connection in BULK_CONNECT_MS: the peer is gone, or its port is blocked */
    BULK_WAY_STALLS  /* a connection is made and carries no data: perhaps large packets are lost */
};

/* Behind each kind: the fields in use. */
enum bulk_event_kind {
    BULK_FETCHED,     /* id, code, text, hash (the manifest's), bytes (received); of bulk_fetch_ranges with code 0 one item */
    BULK_PUSHED,      /* id, code, text, hash, node, bytes (sent) */
    BULK_SERIES,      /* id, code, text, node, items, more */
    BULK_APPENDED,    /* id, code, text: of all entries with ids above the last such event's, up to this one. Code 0: they
                         are on this disk; else some of them may not be */
    BULK_VERIFIED,    /* id, code, text, hash, node */
    BULK_STREAM_ASKED, /* id (made by the bulk, above all others), node, one item: the request. Call bulk_stream_answer */
    BULK_STREAM_OPENED, /* id */
    BULK_STREAM_ENDED,  /* id, code, text: 0 if both sides have closed their directions */
    BULK_CORRUPT,     /* hash, node (the node with the damaged chunk; this node has deleted its chunk) */
    BULK_WAY,     /* node, way: questions to the peer have failed for this reason, or are answered again (BULK_WAY_GOOD) */
    BULK_STORE_FAILED /* code (ERR_NO_SPACE, ERR_IO) and text, about this node's disk; at most one every 5 s */
};

/* One entry of a series. */
struct bulk_item {
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
};

/* Codes: 0; ERR_NOT_FOUND (no asked node has it; no such peer), ERR_NO_SPACE (of this disk or the peer's: the text
 * tells which), ERR_TIMEOUT, ERR_CLOSED (the peer is gone), ERR_CORRUPT, ERR_MALFORMED, ERR_VERSION, ERR_IO,
 * ERR_MEMORY. */
struct bulk_event {
    enum bulk_event_kind kind;
    int code;
    uint64_t id;
    hash256 hash;
    node_id node;
    uint64_t bytes;
    char text[BULK_TEXT_BYTES]; /* one sentence if code is not 0 */
    const struct bulk_item *items;
    uint32_t item_count;
    bool more; /* there are further entries behind the last item */
    enum bulk_way way;
};

/* Takes the next event; `out->items` is valid until the next call. ERR_AGAIN: there is none. */
int bulk_next(struct bulk *bulk, struct bulk_event *out);

/* Counters since bulk_start. */
struct bulk_statistics {
    uint64_t sent_bytes, received_bytes; /* bytes of chunks and entries */
    uint64_t questions;                  /* questions of peers that were answered */
    uint64_t malformed;                  /* messages that could not be decoded */
    uint64_t failed;                     /* failed handshakes */
    uint64_t refused;                    /* messages of keys that were evicted */
    uint64_t cut;                        /* connections shut because they delivered bytes and no message */
    uint64_t deferred;                   /* questions answered with "ask again", because too much of the peer waits */
    uint64_t forgotten;                  /* how often entries of a series were put off until the next one: no cursor was left
                                            for the peer (BULK_CURSORS_MAX), or the peer is gone */
    uint32_t connections;                /* open DEALERs */
};

/* What was sent to one peer and received from it since bulk_start, in bytes of chunks and entries; zero of a peer without
 * any. */
struct bulk_traffic {
    node_id node;
    uint64_t sent_bytes, received_bytes;
};
struct bulk_traffic bulk_traffic(struct bulk *bulk, node_id node);

/* Copies the counters. */
void bulk_statistics(struct bulk *bulk, struct bulk_statistics *out);

#endif

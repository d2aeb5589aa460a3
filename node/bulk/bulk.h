#ifndef NODE_BULK_BULK_H
#define NODE_BULK_BULK_H
/* Bulk transfer: chunks, blobs and series between the nodes, on sockets and in a thread of their own, so that no
 * checkpoint stands in the way of a probe (DESIGN 6). A shell around store/blob.h's fetch plan.
 *
 * A ROUTER answers the peers' questions out of the chunk store; a DEALER per peer, opened when there is something to ask and
 * closed after BULK_IDLE_MS, asks ours. Both are CURVE, members only. An idle mesh sends nothing. Format: docs/wire.md.
 *
 * Requests go in, events come out, each in the order of its queue; requests run side by side. All functions but bulk_start
 * and bulk_stop may be called by any thread, bulk_next by one at a time, and none waits for a disk or a peer.
 *
 * Bounds: BULK_WINDOW chunks asked for at a time, BULK_BUFFERS chunks on their way out, BULK_ACTIVE_MAX requests at work
 * (a request holds its manifest: 77 bytes per chunk). A peer that does not answer costs the requests that need it at most
 * BULK_STALL_MS and the others nothing, unless BULK_WINDOW / BULK_WINDOW_PEER holders or BULK_ACTIVE_MAX / BULK_ACTIVE_PEER
 * receivers fall silent at once: then what comes next waits as long.
 *
 * What arrives is taken from libzmq at once, whose queues have no limit (docs/dependencies.md), and waits in an inbox that
 * has: BULK_INBOX_.... Connections that bring bytes and no message are shut (gossip/inflow.h), and so is one to a peer that
 * answers more than it was asked.
 *
 * Known weaknesses: a member that means harm can hold a request up for ever by answering "wait"; bulk_peer with port 0 ends
 * that. While the thread waits for the disk, libzmq receives as fast as the network brings it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/keys.h"
#include "gossip/zap.h"
#include "store/chunks_lmdb.h"

#define BULK_PEERS_MAX 1024
#define BULK_REQUESTS_MAX 512       /* fetches, pushes, series fetches and checks whose event was not taken yet */
#define BULK_ACTIVE_MAX 24          /* of these at work at a time, the others wait in order; */
#define BULK_ACTIVE_PEER 6          /* ... pushes, series fetches and checks with one peer */
#define BULK_VERIFY_ACTIVE 8        /* checks at work, which take long, each with another node */
#define BULK_WINDOW 12              /* chunks asked of all peers, */
#define BULK_WINDOW_PEER 4          /* ... and of one; chunks sent to one that it has not answered yet */
#define BULK_BUFFERS 8              /* chunks that libzmq still has to send, */
#define BULK_BUFFERS_PEER 2         /* ... to one peer */
#define BULK_INBOX_PEER 128         /* questions of a member that were taken from libzmq and wait; */
#define BULK_INBOX_PEER_BYTES (24u << 20) /* ... their bytes, more than BULK_WINDOW_PEER chunks; */
#define BULK_INBOX_BYTES (256u << 20)     /* ... of all members, beyond one message of each. Who asks more is told to ask again */
#define BULK_SERVE_MAX 256          /* questions for chunks that wait for a buffer or the bandwidth, */
#define BULK_SERVE_PEER 16          /* ... of one connection */
#define BULK_VERIFY_MAX 32          /* questions for checks that wait: one blob is read at a time, */
#define BULK_VERIFY_PEER 4          /* ... of one connection */
#define BULK_COMMAND_BYTES_MAX (8u << 20) /* series entries on their way to the disk */
#define BULK_CURSORS_MAX 512        /* series that some peer has not got to the end of */
#define BULK_SERIES_BYTES (256u << 10) /* of one batch of entries, or one entry if that is larger */
#define BULK_STALL_MS 10000         /* without an answer */
#define BULK_CONNECT_MS 5000        /* without a connection */
#define BULK_IDLE_MS 30000
#define BULK_TEXT_BYTES 224

struct bulk;

/* Everything is borrowed for bulk_start only, but context, zap and chunks, which must outlive the bulk. The context needs
 * ZMQ_MAX_SOCKETS for BULK_PEERS_MAX more at worst; `zap` must be served by somebody (zap_process). */
struct bulk_options {
    void *context; /* of libzmq */
    struct zap *zap;
    const struct keys *keys;
    const char *listen; /* numeric HOST:PORT; HOST may be "*", PORT 0 (any free one) */
    struct chunks *chunks;
    uint64_t bytes_per_s_max; /* that this node sends; 0: as fast as it goes */
    uint64_t io_threads;      /* ZMQ_AFFINITY: bit i for the context's I/O thread i; 0: any */
    uint64_t idle_ms;         /* after which a connection is closed; 0: BULK_IDLE_MS */
};

/* Binds and starts the thread. ERR_USAGE (the address), ERR_EXISTS (the port is taken), ERR_MEMORY, ERR_IO; `error` is one
 * sentence. */
int bulk_start(const struct bulk_options *options, struct bulk **out, char error[256]);

/* Stops after the chunk it is at; requests without an event get none. Clears; NULL inside is allowed. */
void bulk_stop(struct bulk **bulk);

uint16_t bulk_port(const struct bulk *bulk);

/* Readable while events wait. */
int bulk_fd(const struct bulk *bulk);

/* Where a peer's bulk socket is; again: it moved (what it was asked goes on). Port 0: it is gone; what it was asked fails, and
 * what it should have been sent is forgotten. `host` is numeric, IPv6 without brackets. ERR_USAGE (host, key), ERR_MEMORY.
 * A peer beyond BULK_PEERS_MAX is as unknown. */
int bulk_peer(struct bulk *bulk, node_id node, const uint8_t sign_public[32], const char *host, uint16_t port);

/* Makes a blob complete here: its manifest, then what is missing of its chunks, from all holders side by side, the manifest
 * being stored last. Holders that are unknown, or this node, are passed over. What came stays when it fails, and is not asked
 * again the next time. Answer: BULK_FETCHED. ERR_FULL (BULK_REQUESTS_MAX), ERR_USAGE (over BLOB_HOLDERS_MAX), ERR_MEMORY. */
int bulk_fetch(struct bulk *bulk, uint64_t id, hash256 manifest, const node_id *holders, uint32_t holder_count);

/* Makes a blob that is here complete at a peer: sends what it lacks, the manifest last. Answer: BULK_PUSHED. */
int bulk_push(struct bulk *bulk, uint64_t id, hash256 manifest, node_id to);

/* Appends to a series here and lets the nodes `to` have it. Nothing is kept in memory for a slow peer: it is sent what is
 * stored here from that entry on, again and again until it has it or is gone, several entries at a time. An entry that
 * cannot be stored here (BULK_STORE_FAILED) is not sent either. ERR_FULL (BULK_COMMAND_BYTES_MAX), ERR_USAGE (sizes, over
 * BLOB_HOLDERS_MAX nodes), ERR_MEMORY. */
int bulk_series_append(struct bulk *bulk, const void *prefix, size_t prefix_bytes, uint64_t sequence, const void *bytes,
                       size_t count, const node_id *to, uint32_t to_count);

/* False: an entry of so many bytes is ERR_FULL now. */
bool bulk_series_has_room(struct bulk *bulk, size_t count);

/* Reads entries from `from_sequence` on from a node, which may be this one: then at once, waiting for nobody, and what was
 * appended before, if it could be stored, is on the disk by the answer. Answer: BULK_SERIES with about BULK_SERIES_BYTES at most. ERR_FULL, ERR_USAGE, ERR_MEMORY. */
int bulk_series_fetch(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                      node_id node);

/* Lets a node, which may be this one, read every chunk of a blob again and compare its hash. All of them are looked at;
 * what is damaged is deleted there (BULK_CORRUPT, on that node). Answer: BULK_VERIFIED with 0, ERR_CORRUPT (the manifest or
 * a chunk was damaged), ERR_NOT_FOUND (one is missing, and none was damaged), or, if nothing is known of that copy:
 * ERR_TIMEOUT, ERR_CLOSED (also: no such peer), ERR_VERSION (the peer is too old to know the question), ERR_IO, ERR_MEMORY.
 * ERR_FULL, ERR_MEMORY. */
int bulk_verify(struct bulk *bulk, uint64_t id, hash256 manifest, node_id node);

/* Some reader found a chunk damaged: it is read again, and if it is, deleted (BULK_CORRUPT). bulk_fetch brings a good
 * copy. ERR_FULL, ERR_MEMORY. */
int bulk_discard(struct bulk *bulk, hash256 hash);

enum bulk_event_kind {
    BULK_FETCHED,     /* id, code, text, hash (the manifest's), bytes (received) */
    BULK_PUSHED,      /* id, code, text, hash, node, bytes (sent) */
    BULK_SERIES,      /* id, code, text, node, items, more */
    BULK_VERIFIED,    /* id, code, text, hash, node */
    BULK_CORRUPT,     /* hash; node: where; if it is this node, the chunk was deleted */
    BULK_STORE_FAILED /* code (ERR_NO_SPACE, ERR_IO), text: this node's disk; at most one each 5 s */
};

struct bulk_item {
    uint64_t sequence;
    const uint8_t *bytes;
    size_t count;
};

/* Codes: 0; ERR_NOT_FOUND (nobody asked has it; no such peer), ERR_NO_SPACE (of this disk, or the peer's: the text says
 * which), ERR_TIMEOUT, ERR_CLOSED (the peer is gone), ERR_CORRUPT, ERR_MALFORMED, ERR_VERSION, ERR_IO, ERR_MEMORY. */
struct bulk_event {
    enum bulk_event_kind kind;
    int code;
    uint64_t id;
    hash256 hash;
    node_id node;
    uint64_t bytes;
    char text[BULK_TEXT_BYTES]; /* one sentence, if code is not 0 */
    const struct bulk_item *items;
    uint32_t item_count;
    bool more; /* there are entries behind the last item */
};

/* The next event; its items are valid until the next call. ERR_AGAIN when there is none. */
int bulk_next(struct bulk *bulk, struct bulk_event *out);

struct bulk_statistics {
    uint64_t sent_bytes, received_bytes; /* of chunks and entries */
    uint64_t questions;                  /* answered, of peers */
    uint64_t malformed;                  /* messages that were none */
    uint64_t failed;                     /* handshakes that broke */
    uint64_t refused;                    /* messages of keys that are admitted no longer */
    uint64_t cut;                        /* connections that brought bytes and no message */
    uint64_t deferred;                   /* questions whose asker was told to ask again, because too much of it waits */
    uint64_t forgotten;                  /* entries not replicated, for lack of BULK_CURSORS_MAX */
    uint32_t connections;                /* DEALERs open now */
};

void bulk_statistics(struct bulk *bulk, struct bulk_statistics *out);

#endif

#ifndef NODE_CORE_COPIES_ACKS_H
#define NODE_CORE_COPIES_ACKS_H
/* Requests that are answered once they are on disk here and on one more living node, or after CORE_ACK_MS (DESIGN 12). */

#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"

#define CORE_ACK_ASKED_MAX 3
_Static_assert(CORE_ACK_MS / (2 * CORE_RETRY_MS) < CORE_ACK_ASKED_MAX, "each node gets two tries, and no answer is forgotten");

/* A node that is to hold the second copy, and what of it is there. */
struct core_asked {
    node_id node; /* none: the row is free */
    bool pushed, pushed_too, record_stored;
};

struct core_ack {
    struct core_ack *next;
    uint64_t client;
    record_ident ident;
    struct record_version version;
    hash256 blob, blob_too; /* to be pushed before the record; none: nothing */
    struct core_asked asked[CORE_ACK_ASKED_MAX]; /* newest first: an answer of an earlier one still counts */
    bool on_disk;     /* on this node's */
    bool is_alone;    /* no other node lives */
    bool rest_alone;  /* the other records of the same request are on this disk only, */
    bool rest_failed; /* or on none */
    bool already;     /* for the answer: it was so before */
    bool is_leave;    /* there is no client: the leaving goes on */
    uint32_t tries;
    uint64_t resend_ms;
    uint64_t until_ms;
};

void core_ack_on_disk(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);
void core_ack_stored(struct node_core *core, node_id from, const struct message *message); /* MESSAGE_STORED */
void core_ack_pushed(struct node_core *core, const struct node_event *event);               /* NODE_EVENT_PUSHED */
uint32_t core_ack_count(const struct node_core *core); /* clients that wait, up to CORE_ACKS_MAX; a leave is not counted */

/* NULL when memory is full; the client has not been told. */
struct core_ack *core_ack_new(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);

/* Answers the client once what was put is on disk here and on one more living node, which is sent the blobs first (none:
 * nothing). NULL: the client has its answer, a refusal. */
struct core_ack *core_ack_append(struct node_core *core, uint64_t client, record_ident ident,
                                 struct record_version version, hash256 blob, hash256 blob_too);

/* The same for what core_put has just returned, NULL included. False: the client has its answer, a refusal. */
bool core_ack_begin(struct node_core *core, uint64_t client, struct core_pending *pending, hash256 blob,
                    hash256 blob_too);

/* The record was put again: the clients wait for its new version. */
void core_acks_renew(struct node_core *core, record_ident ident);
void core_acks_refuse(struct node_core *core); /* refuses every client that waits */
void core_ack_housekeep(struct node_core *core);

#endif

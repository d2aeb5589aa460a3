#ifndef NODE_CORE_COPIES_ACKS_H
#define NODE_CORE_COPIES_ACKS_H
/* Requests of users that wait for a second disk: answered once the request's records are on disk here and on one more living
 * node, or after CORE_ACK_MS (DESIGN 12). */

#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"

#define CORE_ACK_ASKED_MAX 3
_Static_assert(CORE_ACK_MS / (2 * CORE_RETRY_MS) < CORE_ACK_ASKED_MAX, "each node gets two tries, and no answer is forgotten");

/* A node that is to hold the second copy of the record and of the blobs, and the parts that have arrived. */
struct core_asked {
    node_id node; /* none: the row is free */
    bool pushed, pushed_too, record_stored;
};

/* One record of a request. In the arena, in core_copies' list. */
struct core_ack {
    struct core_ack *next;
    uint64_t client;
    record_ident ident;
    struct record_version version;
    hash256 blob, blob_too; /* code and configuration, pushed before the record; none: nothing */
    struct core_asked asked[CORE_ACK_ASKED_MAX]; /* the last first; answers of earlier nodes still count */
    bool on_disk;     /* on this node's disk */
    bool is_alone;    /* no other node lives */
    bool rest_alone;  /* another record of the same request is on this disk only */
    bool rest_failed; /* another record of the same request is on no disk */
    bool already;     /* for the answer: the request changed nothing */
    bool is_leave;    /* of this node's own leave: no client is answered */
    uint32_t tries;
    uint64_t resend_ms; /* when the record is sent again */
    uint64_t until_ms;  /* when the client is answered in any case */
};

/* This version of the client's record is on this node's disk: sends the record to a second node. */
void core_ack_on_disk(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);

/* MESSAGE_STORED: a node has stored a record. */
void core_ack_stored(struct node_core *core, node_id from, const struct message *message);

/* NODE_EVENT_PUSHED: a node has, or has refused, a blob. */
void core_ack_pushed(struct node_core *core, const struct node_event *event);

/* Records that wait, up to CORE_ACKS_MAX; those of a leave are not counted. */
uint32_t core_ack_count(const struct node_core *core);

/* A new row for a record that was put. NULL when memory is full: then the caller answers the client. */
struct core_ack *core_ack_new(struct node_core *core, uint64_t client, record_ident ident, struct record_version version);

/* Answers the client once the record is on disk here and on one more living node, after the blobs (none: nothing to send).
 * NULL: too many requests wait or memory is full, and the client has been answered with a refusal. */
struct core_ack *core_ack_append(struct node_core *core, uint64_t client, record_ident ident,
                                 struct record_version version, hash256 blob, hash256 blob_too);

/* As core_ack_append, for the result of core_put, NULL included. False: the client has been answered with a refusal. */
bool core_ack_begin(struct node_core *core, uint64_t client, struct core_pending *pending, hash256 blob,
                    hash256 blob_too);

/* The record was put again: its clients wait for the new version. */
void core_acks_renew(struct node_core *core, record_ident ident);

/* Refuses every client that waits: this node is out of the mesh, or yields to its twin. */
void core_acks_refuse(struct node_core *core);

/* Sends records again that wait for a second node, and answers clients whose time is over. */
void core_ack_housekeep(struct node_core *core);

#endif

#ifndef GOSSIP_MESSAGE_H
#define GOSSIP_MESSAGE_H
/* The messages between nodes on the control sockets, decoded. gossip/message_wire.c turns them into bytes and back
 * (docs/wire.md). A message does not contain the sender's node id: the transport authenticates the sender. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/election.h"
#include "gossip/records.h"
#include "gossip/swim.h"
#include "gossip/version.h"

#define MESSAGE_BYTES_MAX (64u * 1024)
#define MESSAGE_KEY_BYTES 32

/* Behind each kind: the fields in use, and the direction. */
enum message_kind {
    MESSAGE_SWIM = 1,
    MESSAGE_BUCKETS,          /* bytes: see exchange.h */
    MESSAGE_KEYS,             /* bytes */
    MESSAGE_PULL,             /* bytes */
    MESSAGE_RECORDS,          /* bytes: envelopes end to end; want_stored */
    MESSAGE_STORED,           /* u.stored: the record is on the sender's disk; or the sender's clock (MESSAGE_CLOCK_IDENT) */
    MESSAGE_INCUMBENT_ASK,    /* u.incumbent: do you hear the node `about`? */
    MESSAGE_INCUMBENT_ANSWER, /* u.incumbent: `hears`, the answer */
    MESSAGE_RESERVE,          /* u.lease: coordinator to owner */
    MESSAGE_RESERVE_ANSWER,   /* u.lease with code; owner to coordinator */
    MESSAGE_CONFIRM,          /* u.lease with rank and group_key; coordinator to owner */
    MESSAGE_CONFIRM_ANSWER,   /* u.lease with code */
    MESSAGE_RENEW,            /* u.lease; coordinator to owner */
    MESSAGE_RELEASE,          /* u.lease: free reservations, and release leases of ranks >= rank; coordinator to owner */
    MESSAGE_STALE,            /* u.lease: the owner obeys a higher claim (u.lease.claim) for that experiment; owner to
                                 coordinator */
    MESSAGE_TWIN,             /* u.twin: to a daemon with the same key as the sender, or about one */
    MESSAGE_GROUP,            /* u.lease with generation and group_key: the key of a group; coordinator to owner */
    MESSAGE_KINDS
};

/* In place of a record's ident in MESSAGE_STORED: version.seq is the sender's wall clock, in seconds since 1970. Nodes of older
 * versions have stored no such record, and skip the message. */
#define MESSAGE_CLOCK_IDENT \
    ((record_ident){{'w', 'a', 'l', 'l', ' ', 'c', 'l', 'o', 'c', 'k', ',', ' ', 'i', 'n', ' ', 's'}})

/* One message of any kind; fields not used by the kind are zero. */
struct message {
    enum message_kind kind;
    uint64_t boot; /* the sender's boot */
    /* MESSAGE_SWIM only: the sender's set hash, and its address, which is empty unless the sender introduces itself. */
    struct records_hash hash;
    char address[64];
    bool want_stored; /* MESSAGE_RECORDS: answer each record with STORED once it is on disk */
    union {
        struct swim_message swim;
        struct {
            record_ident ident;
            struct record_version version;
        } stored;
        struct {
            node_id about;
            bool hears;
        } incumbent;
        struct {
            attempt_id attempt; /* its term and coordinator are the claim under which the coordinator acts */
            uint32_t slot;
            uint32_t rank;      /* not in RESERVE and its answer, which have `asking` in its place on the wire */
            uint16_t asking;    /* RESERVE: the coordinator's number of the gang that the slot is for; the answer repeats it */
            uint32_t priority;
            uint64_t age;        /* not in GROUP, which has `generation` in its place on the wire */
            uint32_t generation; /* GROUP */
            int32_t code; /* 0 or an error of base/err.h */
            struct election_claim claim;
            uint8_t group_key[MESSAGE_KEY_BYTES];
        } lease;
        struct {
            uint64_t life;    /* the boot in which the sender's node began; 0: the sender is another member, and heard a
                                 node with your key at `address` */
            bool is_yielding; /* the sender is about to become another node, with a new key */
            char address[64]; /* where the sender, or the other node with your key, can be reached */
        } twin;
    } u;
    const uint8_t *bytes; /* borrowed; BUCKETS, KEYS, PULL and RECORDS only */
    uint32_t byte_count;
};

/* Encode and decode (gossip/message_wire.c, on the shell's side). message_encode returns the length, or 0 if the
 * message does not fit `capacity`. message_decode fills `*out`, and `out->bytes` points into the input, valid for as
 * long as the input. ERR_MALFORMED; ERR_VERSION: a version that this program does not speak (message_version), or a
 * kind that it does not know. `*out` is unchanged after an error. */
size_t message_encode(const struct message *message, uint8_t *out, size_t capacity);
int message_decode(const uint8_t *bytes, size_t count, struct message *out);

/* Decodes as a program with other versions does; so far all versions have the same format. For the simulator. */
int message_decode_as(struct version_range speaks, const uint8_t *bytes, size_t count, struct message *out);

/* The version of a message, which may be of any version; 0: not a message. */
uint32_t message_version(const uint8_t *bytes, size_t count);

#endif

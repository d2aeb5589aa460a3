#ifndef GOSSIP_MESSAGE_H
#define GOSSIP_MESSAGE_H
/* What nodes say to each other over the control sockets, decoded. gossip/message_wire.c turns these into bytes and back
 * (docs/wire.md). The sender's node id is not in a message: the transport authenticates it. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "gossip/election.h"
#include "gossip/records.h"
#include "gossip/swim.h"
#include "gossip/version.h"

#define MESSAGE_BYTES_MAX (64u * 1024)
#define MESSAGE_KEY_BYTES 32

enum message_kind {
    MESSAGE_SWIM = 1,
    MESSAGE_BUCKETS,          /* bytes: exchange.h */
    MESSAGE_KEYS,             /* bytes */
    MESSAGE_PULL,             /* bytes */
    MESSAGE_RECORDS,          /* bytes: envelopes end to end; want_stored */
    MESSAGE_STORED,           /* u.stored: the record is on my disk */
    MESSAGE_INCUMBENT_ASK,    /* u.incumbent: do you hear `about`? */
    MESSAGE_INCUMBENT_ANSWER, /* u.incumbent */
    MESSAGE_RESERVE,          /* u.lease: coordinator to owner */
    MESSAGE_RESERVE_ANSWER,   /* u.lease with code; owner to coordinator */
    MESSAGE_CONFIRM,          /* u.lease with rank and group_key; coordinator to owner */
    MESSAGE_CONFIRM_ANSWER,   /* u.lease with code */
    MESSAGE_RENEW,            /* u.lease */
    MESSAGE_RELEASE,          /* u.lease: give back reservations, and leases from this rank on */
    MESSAGE_STALE,            /* u.lease: the owner obeys a higher claim (u.lease.claim) of that experiment */
    MESSAGE_TWIN,             /* u.twin: from one daemon to another that has the same key, or about one */
    MESSAGE_GROUP,            /* u.lease with generation and group_key: the key of a group; coordinator to owner */
    MESSAGE_KINDS
};

struct message {
    enum message_kind kind;
    uint64_t boot; /* the sender's */
    /* MESSAGE_SWIM only: the sender's set hash; and where it can be reached, empty unless it is introducing itself. */
    struct records_hash hash;
    char address[64];
    bool want_stored; /* MESSAGE_RECORDS: answer each with STORED once it is on disk */
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
            attempt_id attempt; /* its term and coordinator are the claim that the coordinator acts under */
            uint32_t slot;
            uint32_t rank;      /* but of RESERVE and RESERVE_ANSWER, which have in its place on the wire: */
            uint16_t asking;    /* which gang of its coordinator the reservation is for; the answer repeats it */
            uint32_t priority;
            uint64_t age;        /* but of GROUP: */
            uint32_t generation; /* GROUP */
            int32_t code; /* 0 or an error of base/err.h */
            struct election_claim claim;
            uint8_t group_key[MESSAGE_KEY_BYTES];
        } lease;
        struct {
            uint64_t life;    /* the boot with which the sender's life began; 0: from another member, who heard your key
                                 speak from `address` */
            bool is_yielding; /* the sender is becoming another node */
            char address[64]; /* where the sender, or your twin, can be reached */
        } twin;
    } u;
    const uint8_t *bytes; /* borrowed */
    uint32_t byte_count;
};

/* gossip/message_wire.c (shell side). Encode returns the length, 0 if it does not fit. Decode borrows from `bytes`;
 * ERR_MALFORMED; ERR_VERSION: of a version that this program does not speak (message_version), or of a kind that it does not
 * know. */
size_t message_encode(const struct message *message, uint8_t *out, size_t capacity);
int message_decode(const uint8_t *bytes, size_t count, struct message *out);

/* As a program decodes that speaks other versions, of which none has another format so far. For the simulator. */
int message_decode_as(struct version_range speaks, const uint8_t *bytes, size_t count, struct message *out);

/* The version of a message that may be of any; 0: it is none. */
uint32_t message_version(const uint8_t *bytes, size_t count);

#endif

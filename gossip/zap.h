#ifndef GOSSIP_ZAP_H
#define GOSSIP_ZAP_H
/* Who may connect: the ZAP handler (ZeroMQ RFC 27) of a context and the table that it answers from. One for all CURVE
 * sockets of the context. A shell.
 *
 * A key that is not admitted is refused with status 300, after which libzmq's client tries again: a new member may dial
 * a node that has not heard of it yet, and with status 400 that link would stay dead for ever.
 *
 * zap_process belongs to one thread; it must be called within the handshake time (2 s) for anyone to get in. All other
 * functions may be called by any thread. Nothing here blocks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "base/id.h"

#define ZAP_DOMAIN_CONTROL "shoal-control" /* members and holders of an invite */
#define ZAP_DOMAIN_BULK "shoal-bulk"       /* members only */
#define ZAP_KEYS_MAX 2048
#define ZAP_INVITES_MAX 512 /* of them: the rest is the members' */

struct zap;

enum zap_kind { ZAP_MEMBER, ZAP_INVITE };

/* Who is on the other end, from the User-Id of a message. */
struct zap_identity {
    enum zap_kind kind;
    node_id node;           /* MEMBER; else none */
    uint8_t invite_key[32]; /* INVITE; else zero */
    uint16_t slot;          /* below ZAP_KEYS_MAX; no other admitted key has it */
    uint64_t admission;     /* another each time that a key is admitted */
};

struct zap_statistics {
    uint64_t admitted;  /* handshakes */
    uint64_t refused;   /* handshakes with a key that is not in the table or not allowed in the domain */
    uint64_t malformed; /* requests that are not RFC 27's */
    uint64_t cut;       /* connections shut because their key had gone */
};

/* Binds inproc://zeromq.zap.01 in the libzmq context `context`, which must outlive it; do this before any socket with a
 * ZAP domain is bound. ERR_EXISTS if the context has a handler, ERR_MEMORY, ERR_IO. */
int zap_open(void *context, struct zap **out, char error[256]);
void zap_close(struct zap **zap);

/* The libzmq socket to poll for reading. */
void *zap_socket(struct zap *zap);

/* Answers all requests that wait. */
void zap_process(struct zap *zap);

/* Admits a CURVE public key as a member or as an invite; again: no change. A key may be both, since anybody can write an
 * invite for any key: it is a member then. With more than ZAP_INVITES_MAX invites the one admitted first goes. ERR_FULL. */
int zap_admit_member(struct zap *zap, const uint8_t curve_public[32], node_id node);
int zap_admit_invite(struct zap *zap, const uint8_t curve_public[32]);

/* Admits it as this no longer and shuts the connections over which it was last heard as such. ERR_NOT_FOUND. */
int zap_evict(struct zap *zap, const uint8_t curve_public[32], enum zap_kind kind);

/* For every message from a socket with a ZAP domain that listens on `port`, as soon as it was received: who sent it?
 * ERR_AUTH if that key is admitted no longer; its connection is shut then. */
int zap_identify(struct zap *zap, zmq_msg_t *message, uint16_t port, struct zap_identity *out);

/* For a message that waited after zap_identify: is its sender admitted still, without a break? */
bool zap_admits(struct zap *zap, const struct zap_identity *identity);

void zap_statistics(struct zap *zap, struct zap_statistics *out);

#endif

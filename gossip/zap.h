#ifndef GOSSIP_ZAP_H
#define GOSSIP_ZAP_H
/* Decides which keys may connect: the ZAP handler (ZeroMQ RFC 27) of a libzmq context, and the table of admitted keys.
 * One handler for all CURVE sockets of the context. A shell.
 *
 * A key that is not admitted is refused with status 300, after which libzmq's client tries again. After status 400 a
 * new member that connects to a node without its record would never get through.
 *
 * zap_process belongs to one thread and must be called within the handshake time (2 s), or no peer gets in. All other
 * functions may be called by any thread. No call blocks. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "base/id.h"

#define ZAP_DOMAIN_CONTROL "shoal-control" /* members and holders of an invite */
#define ZAP_DOMAIN_BULK "shoal-bulk"       /* members only */
#define ZAP_KEYS_MAX 2048
#define ZAP_INVITES_MAX 512 /* the invites among ZAP_KEYS_MAX; the rest is reserved for members */

/* The handler and its table; opaque. */
struct zap;

enum zap_kind { ZAP_MEMBER, ZAP_INVITE };

/* The peer on the other end of a connection, from the User-Id of a message. */
struct zap_identity {
    enum zap_kind kind;
    node_id node;           /* the node id of a MEMBER; else none */
    uint8_t invite_key[32]; /* the CURVE public key of an INVITE; else zero */
    uint16_t slot;          /* below ZAP_KEYS_MAX; no other admitted key has the same slot */
    uint64_t admission;     /* a new number each time that a key is admitted */
};

/* Counters since zap_open. */
struct zap_statistics {
    uint64_t admitted;  /* accepted handshakes */
    uint64_t refused;   /* handshakes with a key that is not in the table, or not allowed in the domain */
    uint64_t malformed; /* requests that do not follow RFC 27 */
    uint64_t cut;       /* connections shut because their key was evicted */
};

/* Binds inproc://zeromq.zap.01 in the libzmq `context`, which must outlive the handler; call it before any socket with
 * a ZAP domain is bound. ERR_EXISTS (the context has a handler already), ERR_MEMORY, ERR_IO: `error` is then one
 * sentence. The caller owns `*out` until zap_close. */
int zap_open(void *context, struct zap **out, char error[256]);

/* Closes the socket, frees the table and sets `*zap` to NULL; NULL is allowed. No other thread may still use it. */
void zap_close(struct zap **zap);

/* The libzmq socket to poll for reading; it stays the handler's. */
void *zap_socket(struct zap *zap);

/* Answers the requests that wait, at most 256 per call. */
void zap_process(struct zap *zap);

/* Admit a CURVE public key as a member or as an invite; a repeated call changes nothing. A key may be both, since
 * anybody can write an invite for any key: it then counts as a member. When ZAP_INVITES_MAX invites are admitted, a
 * further one evicts the invite admitted first. 0, or ERR_FULL. */
int zap_admit_member(struct zap *zap, const uint8_t curve_public[32], node_id node);
int zap_admit_invite(struct zap *zap, const uint8_t curve_public[32]);

/* Ends the admission of a key as `kind`, and shuts the connections over which it was last heard as such. ERR_NOT_FOUND:
 * the key was not admitted as `kind`. */
int zap_evict(struct zap *zap, const uint8_t curve_public[32], enum zap_kind kind);

/* Finds the sender of a message from a socket that has a ZAP domain and listens on `port`. Call it for every message
 * right after receiving. ERR_AUTH: the sender's key is no longer admitted; the connection is then shut. */
int zap_identify(struct zap *zap, zmq_msg_t *message, uint16_t port, struct zap_identity *out);

/* True if the sender of a message, as zap_identify gave it, is still admitted, without a break in between. For messages
 * that waited. */
bool zap_admits(struct zap *zap, const struct zap_identity *identity);

/* Copies the counters. */
void zap_statistics(struct zap *zap, struct zap_statistics *out);

#endif

#ifndef GOSSIP_CONTROL_H
#define GOSSIP_CONTROL_H
/* The control sockets of a node: a ROUTER that peers connect to, and for each peer a DEALER that connects to the peer,
 * all CURVE. A node sends on its DEALERs and receives on its ROUTER. A shell over libzmq without a thread: only the
 * protocol thread calls these functions, and every call returns at once.
 *
 * Messages get lost when a connection breaks, when a queue is full (64 messages) and when the peer is not connected.
 * They are never delivered late, because a queue dies with its connection. The messages of one sender arrive in order.
 * Arrived messages wait for control_receive in an inbox with a bound per admitted key (1,024 messages, 4 MiB). 64 KiB
 * of these are reserved for the key, however much other keys send; the rest comes from 64 MiB shared by all keys.
 * Messages beyond the bounds are dropped. With all 2,048 keys the inbox takes about 192 MiB at most.
 *
 * A peer without an admitted key costs a socket for at most 2 s (the handshake).
 *
 * Known weakness: the inbox bounds only messages already taken by control_process. libzmq keeps receiving meanwhile,
 * into a queue without a limit (docs/dependencies.md says why), so memory grows as fast as the network delivers while
 * the calling thread is busy, or when members send more than CONTROL_TAKE_MAX messages per call. libzmq also hands over
 * a message of many frames only when complete, and hands over nothing from a connection with a routing id in use
 * already: gossip/inflow.h shuts such connections. Only the holder of an admitted key (an invite's included) can cause
 * such growth.
 *
 * Times are CLOCK_BOOTTIME in ms. Addresses are numeric (control_address.h). control_join.h is the side of a new node. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "base/id.h"
#include "gossip/control_address.h"
#include "gossip/keys.h"
#include "gossip/zap.h"

#define CONTROL_PEERS_MAX 1088 /* a mesh of 1,024, and some evicted nodes that must still be told */
#define CONTROL_QUEUE 64
#define CONTROL_TAKE_MAX 4096   /* messages taken from libzmq by one control_process */
#define CONTROL_CLIENTS_MAX 64  /* joiners waiting for an answer; when full, the oldest is forgotten */
#define CONTROL_CLIENT_MS 60000 /* how long a joiner is remembered */
#define CONTROL_CHECKS_MAX 64   /* link checks that may run at a time */
#define CONTROL_PROOF_MS 800    /* the time limit of a link check for the handshake */
#define CONTROL_CHECK_MS 800    /* the time limit for the TCP connection after a handshake that failed */
#define CONTROL_POLL_MAX (3 + CONTROL_CHECKS_MAX)

/* All state of the control sockets; opaque. */
struct control;

/* All pointers are borrowed for the call of control_open only, except `context` and `zap`, which must outlive the
 * control. The context needs a ZMQ_MAX_SOCKETS above the number of peers. */
struct control_options {
    void *context; /* the libzmq context */
    struct zap *zap;
    const struct keys *keys;
    const char *listen; /* HOST:PORT; HOST may be "*" (all interfaces), PORT 0 (any free one) */
};

/* Opens and binds the sockets. 0, or ERR_USAGE (a wrong address), ERR_EXISTS (the port is taken), ERR_MEMORY, ERR_IO;
 * `error` is then one sentence and `*out` is unchanged. The caller owns `*out` until control_close. */
int control_open(const struct control_options *options, struct control **out, char error[256]);

/* Closes all sockets, drops what waits, frees the control and sets `*control` to NULL; NULL is allowed. */
void control_close(struct control **control);

/* The TCP port that the ROUTER listens on. */
uint16_t control_port(const struct control *control);

/* Fills in what the protocol thread shall poll for, and returns the count. The items are valid for one poll: call this
 * again before each poll. */
size_t control_poll_items(struct control *control, zmq_pollitem_t items[CONTROL_POLL_MAX]);

/* When control_process must be called at the latest; 0: at once, something waits to be taken; UINT64_MAX: no deadline. */
uint64_t control_next_ms(const struct control *control);

/* Answers handshakes (through zap_process, too), takes arrived messages from libzmq, at most CONTROL_TAKE_MAX of them,
 * counts failures, and advances the link checks. Call it after each poll, whatever was ready. */
void control_process(struct control *control);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* One received message. */
struct control_incoming {
    struct zap_identity from;
    uint64_t client;                  /* from an INVITE: the handle for control_reply; from a MEMBER: 0 */
    char host[CONTROL_ADDRESS_BYTES]; /* numeric address of the peer's end of the connection; empty if unknown */
    const uint8_t *bytes;             /* valid until the next call of control_receive */
    size_t count;                     /* at most MESSAGE_BYTES_MAX */
};

/* Gives the oldest message taken by control_process. Messages of keys evicted meanwhile are dropped. ERR_AGAIN: no
 * message waits. */
int control_receive(struct control *control, struct control_incoming *out);

/* Queues one message for a peer; `bytes` is copied. 0 does not mean that the message arrives. ERR_AGAIN: dropped and
 * counted, since the peer is not connected or its queue is full; ERR_NOT_FOUND: `to` is not a peer; ERR_USAGE: longer
 * than MESSAGE_BYTES_MAX. */
int control_send(struct control *control, node_id to, const uint8_t *bytes, size_t count);

/* Queues the answer to a joiner, the `client` of its control_incoming; `bytes` is copied. ERR_NOT_FOUND: the joiner is
 * forgotten; ERR_AGAIN: dropped and counted, since the joiner is gone or its queue is full; ERR_USAGE: longer than
 * MESSAGE_BYTES_MAX. */
int control_reply(struct control *control, uint64_t client, const uint8_t *bytes, size_t count);

/* ---- peers and keys ---------------------------------------------------------------------------------------------- */

/* Announces the number of peers to come. The keepalive interval of connections made from now on follows from it (see
 * control_keepalive_s), and so does the traffic of idle connections. */
void control_expect(struct control *control, uint32_t peers);

/* Makes `node` a peer: keeps a connection to it, at this address from now on. Another address or key replaces the
 * connection; the same ones change nothing. ERR_USAGE (the address is not numeric, or the key is not a curve point),
 * ERR_FULL, ERR_IO (no socket is left): the peers are then as before. */
int control_peer(struct control *control, node_id node, const uint8_t sign_public[32], const char *address);

/* Closes the connection to a peer and drops the messages queued for it. Unknown nodes are ignored. */
void control_peer_remove(struct control *control, node_id node);

/* Admits a public key to the ROUTER; with `gone`, ends its admission and shuts its open connections. A member's key is
 * its Ed25519 public key, an invite's its CURVE public key. 0 also if the key is admitted already. ERR_MALFORMED (not a
 * curve point), ERR_FULL (ZAP_KEYS_MAX), ERR_NOT_FOUND (`gone`, but the key was not admitted): nothing has changed
 * then. */
int control_admit(struct control *control, const uint8_t public_key[32], bool invite, bool gone);

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* The result of a link check: the host refused the connection; accepted it, but the key did not answer (another program, or a
 * daemon that stands still or does not know us yet); the key answered; or the host gave no answer in time. */
enum control_link { CONTROL_LINK_REFUSED, CONTROL_LINK_OPEN, CONTROL_LINK_REACHED, CONTROL_LINK_SILENT };

struct control_checked {
    node_id node;
    char address[CONTROL_ADDRESS_BYTES];
    enum control_link link;
    uint32_t round_trip_us; /* REACHED: how long connection and handshake took */
};

/* Finds out whether the node with this key answers at `address`: with a DEALER of its own, which is connected only once the
 * key is proven, and if it is not, with a TCP connection, because libzmq does not report refused connections. (In this order,
 * since a TCP connection alone counts as a failed handshake at the other end.) The peers' connections are not touched. The
 * result comes within CONTROL_CHECK_MS + CONTROL_PROOF_MS through control_check_next; `node` is used for nothing else. ERR_USAGE (address or key), ERR_FULL (CONTROL_CHECKS_MAX), ERR_IO: no check was
 * started. */
int control_check_link(struct control *control, node_id node, const uint8_t sign_public[32], const char *address);

/* Takes the result of a finished check; ERR_AGAIN: there is none. */
int control_check_next(struct control *control, struct control_checked *out);

/* Makes the connections to all peers anew: an address of this machine is gone, and connections from it would only end after
 * seconds of silence. Messages in their queues are lost. */
void control_renew(struct control *control);

/* ---- counts ------------------------------------------------------------------------------------------------------ */

/* Counters since control_open; a process with several control sockets in one context shares `refused` and part of
 * `cut`. */
struct control_statistics {
    uint64_t received, received_bytes;
    uint64_t sent, sent_bytes;
    uint64_t dropped;   /* messages that control_send or control_reply could not queue */
    uint64_t oversized; /* received messages longer than MESSAGE_BYTES_MAX */
    uint64_t malformed; /* received messages of more than one frame */
    uint64_t overrun;   /* received messages dropped because too much of their sender waited already */
    uint64_t refused;   /* refused handshakes: the key was not admitted (all sockets of the context) */
    uint64_t failed;    /* failed handshakes: no ZMTP, no CURVE, a frame too large, too slow, connection lost */
    uint64_t cut;       /* connections shut because of an evicted key, or for delivering bytes but no message */
};

/* Copies the counters. */
void control_statistics(struct control *control, struct control_statistics *out);

#endif

#ifndef GOSSIP_CONTROL_H
#define GOSSIP_CONTROL_H
/* The control sockets of a node: one ROUTER that peers connect to and one DEALER per peer that this node connects with,
 * all CURVE. A node sends on its DEALERs and receives on its ROUTER. A shell over libzmq, not a thread: the one
 * protocol thread uses it, and every call returns at once.
 *
 * Messages get lost when a connection breaks, when a queue is full (64 messages) and when the peer is not connected;
 * they are never delivered late, because a queue dies with its connection. Of one sender they arrive in order. What has
 * arrived waits for control_receive in an inbox with a bound per admitted key (1,024 messages, 4 MiB). Of that, 64 KiB
 * are the key's own, whatever others send; the rest is taken from 64 MiB that all share. What is beyond is dropped. With
 * all 2,048 keys that is about 192 MiB at most.
 *
 * A peer without a key costs a socket for at most 2 s (the handshake).
 *
 * Known weakness: the inbox bounds only what control_process has taken. libzmq goes on receiving meanwhile and its queue
 * has no limit (docs/dependencies.md says why), so while the thread that calls is busy, or when members send more than
 * CONTROL_TAKE_MAX messages per call, memory grows as fast as the network brings them. libzmq also hands a message of
 * many frames over only when it is whole, and nothing from a connection whose routing id another one has: gossip/inflow.h
 * shuts those. Only who has an admitted key, be it an invite, can do any of this.
 *
 * Times are CLOCK_BOOTTIME in ms. Addresses are numeric (control_address.h); how a new node is let in is in control_join.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "base/id.h"
#include "gossip/control_address.h"
#include "gossip/keys.h"
#include "gossip/zap.h"

#define CONTROL_PEERS_MAX 1088 /* a mesh of 1,024, and some who are told that they are out of it */
#define CONTROL_QUEUE 64
#define CONTROL_TAKE_MAX 4096   /* messages that one control_process takes from libzmq */
#define CONTROL_CLIENTS_MAX 64  /* joiners that wait for an answer; the oldest is forgotten */
#define CONTROL_CLIENT_MS 60000 /* ... or after this */
#define CONTROL_CHECKS_MAX 64   /* link checks under way */
#define CONTROL_CHECK_MS 800
#define CONTROL_POLL_MAX (3 + CONTROL_CHECKS_MAX)

struct control;

/* Everything is borrowed for control_open only, but context and zap, which must outlive the control. The context needs
 * ZMQ_MAX_SOCKETS above the number of peers. */
struct control_options {
    void *context; /* of libzmq */
    struct zap *zap;
    const struct keys *keys;
    const char *listen; /* HOST:PORT; HOST may be "*" (all interfaces), PORT 0 (any free one) */
};

/* Binds. ERR_USAGE (the address), ERR_EXISTS (the port is taken), ERR_MEMORY, ERR_IO; `error` is one sentence. */
int control_open(const struct control_options *options, struct control **out, char error[256]);
void control_close(struct control **control);

/* The port that it listens on. */
uint16_t control_port(const struct control *control);

/* Fills what the protocol thread shall poll for; returns the count. Call again before each poll. */
size_t control_poll_items(struct control *control, zmq_pollitem_t items[CONTROL_POLL_MAX]);

/* When control_process wants to be called at the latest; UINT64_MAX: no wish. */
uint64_t control_next_ms(const struct control *control);

/* Answers handshakes (zap_process too), takes what has arrived, but at most CONTROL_TAKE_MAX messages, counts failures,
 * moves link checks on. Call after each poll, whatever was ready. */
void control_process(struct control *control);

/* ---- messages ---------------------------------------------------------------------------------------------------- */

struct control_incoming {
    struct zap_identity from;
    uint64_t client;                  /* INVITE: for control_reply; MEMBER: 0 */
    char host[CONTROL_ADDRESS_BYTES]; /* numeric, of the other end of the connection; empty if unknown */
    const uint8_t *bytes;             /* valid until the next call of control_receive */
    size_t count;                     /* at most MESSAGE_BYTES_MAX */
};

/* The next message of those that control_process took; ERR_AGAIN when none waits. */
int control_receive(struct control *control, struct control_incoming *out);

/* ERR_AGAIN: dropped and counted (not connected, or its queue is full); ERR_NOT_FOUND: not a peer; ERR_USAGE: longer
 * than MESSAGE_BYTES_MAX. */
int control_send(struct control *control, node_id to, const uint8_t *bytes, size_t count);

/* Answers a joiner. ERR_NOT_FOUND: forgotten; ERR_AGAIN: gone or full. */
int control_reply(struct control *control, uint64_t client, const uint8_t *bytes, size_t count);

/* ---- peers and keys ---------------------------------------------------------------------------------------------- */

/* So many peers there will be: what connections that are made from now on cost while they are idle follows from that. */
void control_expect(struct control *control, uint32_t peers);

/* Keeps a connection to this peer, at this address from now on. ERR_USAGE (the address is not numeric, the key no
 * point), ERR_FULL, ERR_IO (no socket left). */
int control_peer(struct control *control, node_id node, const uint8_t sign_public[32], const char *address);

/* Ends it; what was queued is dropped. Unknown nodes are ignored. */
void control_peer_remove(struct control *control, node_id node);

/* Admits a key at the door, or with `gone` no longer, which also shuts its open connections. A member's is its Ed25519
 * public key, an invite's its CURVE public key. ERR_MALFORMED (no point), ERR_FULL, ERR_NOT_FOUND (gone, but was not
 * there). */
int control_admit(struct control *control, const uint8_t public_key[32], bool invite, bool gone);

/* ---- links ------------------------------------------------------------------------------------------------------- */

enum control_link { CONTROL_LINK_REFUSED, CONTROL_LINK_OPEN, CONTROL_LINK_SILENT };

/* libzmq does not report a refused connection, so this tries one of its own: does the peer's host answer, and does
 * anybody listen? The answer comes within CONTROL_CHECK_MS, through control_check_next. `node` only comes back with it.
 * ERR_USAGE (address), ERR_FULL, ERR_IO. */
int control_check_link(struct control *control, node_id node, const char *address);

/* An answer; ERR_AGAIN when there is none. */
int control_check_next(struct control *control, node_id *node, enum control_link *link);

/* ---- counts ------------------------------------------------------------------------------------------------------ */

struct control_statistics {
    uint64_t received, received_bytes;
    uint64_t sent, sent_bytes;
    uint64_t dropped;   /* by control_send and control_reply */
    uint64_t oversized; /* received, longer than MESSAGE_BYTES_MAX */
    uint64_t malformed; /* received, with more than one frame */
    uint64_t overrun;   /* received, but too much of this sender waits already */
    uint64_t refused;   /* handshakes refused: key not admitted (all sockets of the context) */
    uint64_t failed;    /* handshakes that broke: no ZMTP, no CURVE, frame too large, too slow, gone */
    uint64_t cut;       /* connections shut because their key had gone, or that brought bytes and no message */
};

void control_statistics(struct control *control, struct control_statistics *out);

#endif

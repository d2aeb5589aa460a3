#include "gossip/control.h"

#include <errno.h>
#include <sodium/crypto_generichash.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/control_socket.h"
#include "gossip/inflow.h"
#include "gossip/message.h"
#include "gossip/quota.h"
#include "gossip/socket.h"

/* What a connection may receive without a whole message: many times the largest message. */
#define SILENT_BYTES_MAX (4u << 20)
/* After a protocol error (another program on the peer's port, a frame too large) libzmq gives a connection up for ever
 * without a report. A peer gets a new socket when no send has succeeded for this long. */
#define RENEW_MS 5000
#define SENDER_MESSAGES 1024
#define LETTER_BYTES 256 /* memory of a letter beside the message */
/* Room reserved for each admitted key: a message of any size. More comes from the shared room. */
#define OWN_BYTES ((size_t)MESSAGE_BYTES_MAX + LETTER_BYTES)
#define SENDER_BYTES (CONTROL_QUEUE * OWN_BYTES)
#define SHARED_BYTES (16 * SENDER_BYTES)
#define ROUTING_ID_BYTES 256
#define PEER_SLOTS (2 * CONTROL_PEERS_MAX) /* size of the hash table: at most half full */
_Static_assert(ZAP_KEYS_MAX <= QUOTA_SENDERS_MAX, "each key has its quota");

struct peer {
    void *socket; /* NULL: free slot */
    node_id node;
    uint8_t curve_public[32];
    char address[CONTROL_ADDRESS_BYTES];
    uint64_t failing_since_ms; /* 0: the last send succeeded */
};

/* A message that was taken from libzmq and not yet by the daemon. */
struct letter {
    struct letter *next;
    zmq_msg_t routing_id, message;
    unsigned frames; /* 2 in a well-formed message */
    struct zap_identity from;
};

struct client {
    uint64_t handle; /* 0: free */
    uint64_t until_ms;
    uint8_t routing_id[ROUTING_ID_BYTES];
    size_t routing_id_bytes;
};

/* A check proves the key (`socket`); if that fails it connects with TCP (`fd`), and is then done. */
struct check {
    int fd;       /* -1: not connecting */
    void *socket; /* NULL: not proving */
    bool done;
    uint64_t begun_us, until_ms;
    struct control_checked result;
};

struct control {
    void *context;
    struct zap *zap;
    void *router;
    void *monitor; /* reports connections and failed handshakes of the router */
    struct inflow inflow;
    uint8_t curve_public[32], curve_secret[32];
    uint16_t port;
    struct letter *inbox, **inbox_end;
    struct letter *reading; /* the letter that control_receive gave out last */
    uint64_t silenced; /* number of connections shut because they delivered bytes and no message */
    bool unread; /* libzmq had more messages than inbox_fill took */
    struct quota quota; /* bounds of the inbox, by zap_identity.slot */
    uint64_t last_client;
    struct client clients[CONTROL_CLIENTS_MAX];
    struct check checks[CONTROL_CHECKS_MAX];
    uint32_t peer_count, peers_expected;
    struct peer peers[PEER_SLOTS];
    struct control_statistics statistics;
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t clock_us(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- inbox ------------------------------------------------------------------------------------------------------- */

static void letter_free(struct letter **letter)
{
    if (*letter != NULL) {
        (void)zmq_msg_close(&(*letter)->routing_id);
        (void)zmq_msg_close(&(*letter)->message);
        free(*letter);
        *letter = NULL;
    }
}

/* Reads a whole message: the routing id added by the ROUTER, and a frame. False: no message is there. */
static bool letter_read(void *router, struct letter *letter)
{
    (void)zmq_msg_init(&letter->routing_id);
    (void)zmq_msg_init(&letter->message);
    if (zmq_msg_recv(&letter->routing_id, router, ZMQ_DONTWAIT) < 0) {
        return false;
    }
    letter->frames = 1;
    bool more = zmq_msg_more(&letter->routing_id) != 0;
    while (more) {
        zmq_msg_t frame;
        (void)zmq_msg_init(&frame);
        if (zmq_msg_recv(letter->frames == 1 ? &letter->message : &frame, router, ZMQ_DONTWAIT) < 0) {
            letter->frames = 0;
            break;
        }
        more = zmq_msg_more(letter->frames == 1 ? &letter->message : &frame) != 0;
        (void)zmq_msg_close(&frame);
        letter->frames++;
    }
    return true;
}

/* True if the letter is a well-formed message of an admitted sender; notes the sender. Call it while the letter is
 * fresh: later another connection may have the same descriptor. */
static bool letter_accept(struct control *control, struct letter *letter)
{
    if (letter->frames != 2) {
        control->statistics.malformed++;
        return false;
    }
    if (zmq_msg_size(&letter->message) > MESSAGE_BYTES_MAX) {
        control->statistics.oversized++;
        return false;
    }
    return zap_identify(control->zap, &letter->message, control->port, &letter->from) == 0;
}

static size_t letter_bytes(const struct letter *letter)
{
    return zmq_msg_size(&letter->message) + LETTER_BYTES;
}

/* Drops the letter if too much of its sender waits already. */
static void inbox_put(struct control *control, struct letter *letter)
{
    if (!letter_accept(control, letter)) {
        letter_free(&letter);
        return;
    }
    if (!quota_take(&control->quota, letter->from.slot, letter_bytes(letter))) {
        control->statistics.overrun++;
        letter_free(&letter);
        return;
    }
    letter->next = NULL;
    *control->inbox_end = letter;
    control->inbox_end = &letter->next;
}

/* Takes received messages from libzmq, which would pile up there; at most CONTROL_TAKE_MAX, to not hold up the caller. */
static void inbox_fill(struct control *control)
{
    int count = 0;
    for (; count < CONTROL_TAKE_MAX; count++) {
        struct letter *letter = malloc(sizeof *letter);
        if (letter == NULL || !letter_read(control->router, letter)) {
            letter_free(&letter);
            break;
        }
        inflow_brought(&control->inflow, zmq_msg_get(&letter->message, ZMQ_SRCFD));
        inbox_put(control, letter);
    }
    control->unread = count == CONTROL_TAKE_MAX;
}

/* Removes and returns the oldest letter, for letter_free; NULL: the inbox is empty. */
static struct letter *inbox_take(struct control *control)
{
    struct letter *letter = control->inbox;
    if (letter != NULL) {
        control->inbox = letter->next;
        control->inbox_end = control->inbox == NULL ? &control->inbox : control->inbox_end;
        quota_give(&control->quota, letter->from.slot, letter_bytes(letter));
    }
    return letter;
}

/* ---- open and close ----------------------------------------------------------------------------------------------- */

static int control_start(struct control *control, const struct control_options *options)
{
    control->router = zmq_socket(options->context, ZMQ_ROUTER);
    if (control->router == NULL || !control_socket_set_router(control->router, options->keys)) {
        return ERR_IO;
    }
    control->monitor = socket_monitor(options->context, control->router);
    if (control->monitor == NULL) {
        return ERR_IO;
    }
    int result = socket_bind(control->router, options->listen, &control->port);
    control->inflow = (struct inflow){.port = control->port, .bytes_max = SILENT_BYTES_MAX};
    return result;
}

int control_open(const struct control_options *options, struct control **out, char error[256])
{
    struct control *control = calloc(1, sizeof *control);
    if (control == NULL) {
        (void)snprintf(error, 256, "No memory is left for the control sockets.");
        return ERR_MEMORY;
    }
    control->context = options->context;
    control->zap = options->zap;
    memcpy(control->curve_public, options->keys->curve_public, 32);
    memcpy(control->curve_secret, options->keys->curve_secret, 32);
    control->inbox_end = &control->inbox;
    quota_init(&control->quota, &(struct quota_options){.messages_max = SENDER_MESSAGES,
                                                        .bytes_max = SENDER_BYTES,
                                                        .own_bytes = OWN_BYTES,
                                                        .shared_bytes_max = SHARED_BYTES});
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        control->checks[i].fd = -1;
    }
    int result = control_start(control, options);
    if (result == 0) {
        *out = control;
        return 0;
    }
    if (result == ERR_USAGE) {
        (void)snprintf(
            error, 256,
            "Cannot listen on \"%.80s\": it is not a numeric HOST:PORT, such as 10.0.0.5:7410, [::]:7410 or *:7410.",
            options->listen);
    } else if (result == ERR_EXISTS) {
        (void)snprintf(
            error, 256,
            "Cannot listen on %.80s: another program has that port; stop it or choose another with --listen.",
            options->listen);
    } else {
        (void)snprintf(error, 256, "Cannot listen on %.80s: %.100s.", options->listen, zmq_strerror(zmq_errno()));
    }
    control_close(&control);
    return result;
}

void control_close(struct control **control)
{
    struct control *self = *control;
    if (self == NULL) {
        return;
    }
    for (int i = 0; i < PEER_SLOTS; i++) {
        if (self->peers[i].socket != NULL) {
            (void)zmq_close(self->peers[i].socket);
        }
    }
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (self->checks[i].fd >= 0) {
            (void)close(self->checks[i].fd);
        }
        if (self->checks[i].socket != NULL) {
            (void)zmq_close(self->checks[i].socket);
        }
    }
    letter_free(&self->reading);
    for (struct letter *letter = inbox_take(self); letter != NULL; letter = inbox_take(self)) {
        letter_free(&letter);
    }
    if (self->router != NULL) {
        (void)zmq_socket_monitor(self->router, NULL, 0);
        (void)zmq_close(self->router);
    }
    if (self->monitor != NULL) {
        (void)zmq_close(self->monitor);
    }
    inflow_close(&self->inflow);
    explicit_bzero(self, sizeof *self);
    free(self);
    *control = NULL;
}

uint16_t control_port(const struct control *control)
{
    return control->port;
}

size_t control_poll_items(struct control *control, zmq_pollitem_t items[CONTROL_POLL_MAX])
{
    size_t count = 0;
    items[count++] = (zmq_pollitem_t){.socket = control->router, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = zap_socket(control->zap), .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = control->monitor, .events = ZMQ_POLLIN};
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        const struct check *check = &control->checks[i];
        if (check->fd >= 0 || check->socket != NULL) {
            items[count++] = (zmq_pollitem_t){.socket = check->socket, .fd = check->fd, .events = ZMQ_POLLOUT};
        }
    }
    return count;
}

uint64_t control_next_ms(const struct control *control)
{
    uint64_t next = control->inbox != NULL || control->unread ? 0 : UINT64_MAX;
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].done) {
            return 0; /* a result waits for control_check_next */
        }
        bool is_open = control->checks[i].fd >= 0 || control->checks[i].socket != NULL;
        if (is_open && control->checks[i].until_ms < next) {
            next = control->checks[i].until_ms;
        }
    }
    return next;
}

static void check_finish(struct check *check, enum control_link link)
{
    if (check->fd >= 0) {
        (void)close(check->fd);
    }
    if (check->socket != NULL) {
        (void)zmq_close(check->socket);
    }
    check->fd = -1;
    check->socket = NULL;
    check->done = true;
    check->result.link = link;
}

/* "No such host" and "no route" count as silence: only a refusal by the host itself proves the daemon gone. */
static enum control_link link_of(int connect_errno)
{
    return connect_errno == 0              ? CONTROL_LINK_OPEN
           : connect_errno == ECONNREFUSED ? CONTROL_LINK_REFUSED
                                           : CONTROL_LINK_SILENT;
}

/* The key is not proven: finds out whether the host answers at all. */
static void check_connect(struct check *check)
{
    struct sockaddr_storage to;
    socklen_t to_bytes;
    (void)zmq_close(check->socket);
    check->socket = NULL;
    check->until_ms = clock_ms() + CONTROL_CHECK_MS;
    check->fd = control_address_parse(check->result.address, &to, &to_bytes) == 0
                    ? socket(to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)
                    : -1;
    int failed = check->fd < 0 ? ENOTCONN : connect(check->fd, (struct sockaddr *)&to, to_bytes) == 0 ? 0 : errno;
    if (failed != EINPROGRESS) {
        check_finish(check, link_of(failed));
    }
}

static void check_move(struct check *check, uint64_t now_ms)
{
    bool is_proving = check->socket != NULL;
    zmq_pollitem_t item = {.socket = check->socket, .fd = check->fd, .events = ZMQ_POLLOUT};
    bool is_ready = zmq_poll(&item, 1, 0) > 0;
    if (is_ready && is_proving) {
        check->result.round_trip_us = (uint32_t)(clock_us() - check->begun_us);
        check_finish(check, CONTROL_LINK_REACHED);
    } else if (is_ready) {
        int outcome = 0;
        socklen_t bytes = sizeof outcome;
        (void)getsockopt(check->fd, SOL_SOCKET, SO_ERROR, &outcome, &bytes);
        check_finish(check, link_of(outcome));
    } else if (now_ms >= check->until_ms && is_proving) {
        check_connect(check);
    } else if (now_ms >= check->until_ms) {
        check_finish(check, CONTROL_LINK_SILENT);
    }
}

void control_process(struct control *control)
{
    zap_process(control->zap);
    control->statistics.failed += socket_monitor_drain(control->monitor, &control->inflow);
    inbox_fill(control);
    uint64_t now_ms = clock_ms();
    control->silenced += control->unread ? 0 : inflow_look(&control->inflow, now_ms);
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].fd >= 0 || control->checks[i].socket != NULL) {
            check_move(&control->checks[i], now_ms);
        }
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

static uint64_t client_remember(struct control *control, zmq_msg_t *routing_id)
{
    struct client *slot = &control->clients[0];
    for (int i = 1; i < CONTROL_CLIENTS_MAX && slot->handle != 0; i++) {
        if (control->clients[i].handle < slot->handle) {
            slot = &control->clients[i]; /* a free slot, else the oldest client */
        }
    }
    size_t bytes = zmq_msg_size(routing_id);
    if (bytes > ROUTING_ID_BYTES) {
        return 0; /* never the case: libzmq allows 255 bytes */
    }
    slot->handle = ++control->last_client;
    slot->until_ms = clock_ms() + CONTROL_CLIENT_MS;
    slot->routing_id_bytes = bytes;
    memcpy(slot->routing_id, zmq_msg_data(routing_id), bytes);
    return slot->handle;
}

int control_receive(struct control *control, struct control_incoming *out)
{
    letter_free(&control->reading);
    struct letter *letter;
    while ((letter = inbox_take(control)) != NULL && !zap_admits(control->zap, &letter->from)) {
        letter_free(&letter);
    }
    if (letter == NULL) {
        return ERR_AGAIN;
    }
    control->reading = letter;
    *out = (struct control_incoming){.from = letter->from,
                                     .bytes = zmq_msg_data(&letter->message),
                                     .count = zmq_msg_size(&letter->message)};
    const char *host = zmq_msg_gets(&letter->message, "Peer-Address");
    bool is_mapped = host != NULL && strncmp(host, "::ffff:", 7) == 0 && strchr(host + 7, '.') != NULL; /* IPv4 over IPv6 */
    (void)bytes_copy_text(out->host, sizeof out->host, host == NULL ? "" : is_mapped ? host + 7 : host);
    if (out->from.kind == ZAP_INVITE) {
        out->client = client_remember(control, &letter->routing_id);
    }
    control->statistics.received++;
    control->statistics.received_bytes += out->count;
    return 0;
}

/* The slot of `node`, or the free slot where it would be. */
static struct peer *peer_slot(struct control *control, node_id node)
{
    size_t at = (size_t)bytes_hash64(node.bytes, NODE_ID_BYTES, 0) % PEER_SLOTS;
    while (control->peers[at].socket != NULL && !node_id_equal(control->peers[at].node, node)) {
        at = (at + 1) % PEER_SLOTS;
    }
    return &control->peers[at];
}

static void *peer_open(struct control *control, const char *address, const uint8_t curve_public[32])
{
    uint32_t peers = control->peer_count > control->peers_expected ? control->peer_count : control->peers_expected;
    return control_socket_dealer(control->context, control->curve_public, control->curve_secret, address, curve_public,
                                 control_keepalive_s(peers));
}

static void peer_renew(struct control *control, struct peer *peer)
{
    void *socket = peer_open(control, peer->address, peer->curve_public);
    if (socket != NULL) {
        (void)zmq_close(peer->socket);
        peer->socket = socket;
    }
}

static void peer_failed(struct control *control, struct peer *peer)
{
    uint64_t now_ms = clock_ms();
    if (peer->failing_since_ms == 0) {
        peer->failing_since_ms = now_ms;
    } else if (now_ms - peer->failing_since_ms >= RENEW_MS) {
        peer_renew(control, peer);
        peer->failing_since_ms = now_ms;
    }
}

int control_send(struct control *control, node_id to, const uint8_t *bytes, size_t count)
{
    if (count > MESSAGE_BYTES_MAX) {
        return ERR_USAGE;
    }
    struct peer *peer = peer_slot(control, to);
    if (peer->socket == NULL) {
        return ERR_NOT_FOUND;
    }
    if (zmq_send(peer->socket, bytes, count, ZMQ_DONTWAIT) < 0) {
        control->statistics.dropped++;
        peer_failed(control, peer);
        return ERR_AGAIN;
    }
    peer->failing_since_ms = 0;
    control->statistics.sent++;
    control->statistics.sent_bytes += count;
    return 0;
}

int control_reply(struct control *control, uint64_t client, const uint8_t *bytes, size_t count)
{
    struct client *found = NULL;
    for (int i = 0; client != 0 && i < CONTROL_CLIENTS_MAX; i++) {
        if (control->clients[i].handle == client && clock_ms() < control->clients[i].until_ms) {
            found = &control->clients[i];
        }
    }
    if (found == NULL) {
        return ERR_NOT_FOUND;
    }
    if (count > MESSAGE_BYTES_MAX) {
        return ERR_USAGE;
    }
    /* A ROUTER decides at the first frame: with ZMQ_ROUTER_MANDATORY the send fails if the client is gone or its queue
     * is full. */
    if (zmq_send(control->router, found->routing_id, found->routing_id_bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0 ||
        zmq_send(control->router, bytes, count, ZMQ_DONTWAIT) < 0) {
        control->statistics.dropped++;
        return ERR_AGAIN;
    }
    control->statistics.sent++;
    control->statistics.sent_bytes += count;
    return 0;
}

/* ---- peers and keys ---------------------------------------------------------------------------------------------- */

void control_expect(struct control *control, uint32_t peers)
{
    control->peers_expected = peers;
}

int control_peer(struct control *control, node_id node, const uint8_t sign_public[32], const char *address)
{
    uint8_t curve_public[32];
    if (control_address_check(address) != 0 || keys_curve_of(sign_public, curve_public) != 0) {
        return ERR_USAGE;
    }
    struct peer *peer = peer_slot(control, node);
    if (peer->socket != NULL && strcmp(peer->address, address) == 0 &&
        memcmp(peer->curve_public, curve_public, 32) == 0) {
        return 0;
    }
    if (peer->socket == NULL && control->peer_count == CONTROL_PEERS_MAX) {
        return ERR_FULL;
    }
    void *socket = peer_open(control, address, curve_public);
    if (socket == NULL) {
        return ERR_IO;
    }
    if (peer->socket != NULL) {
        (void)zmq_close(peer->socket);
    } else {
        control->peer_count++;
    }
    *peer = (struct peer){.socket = socket, .node = node};
    memcpy(peer->curve_public, curve_public, 32);
    (void)bytes_copy_text(peer->address, sizeof peer->address, address);
    return 0;
}

void control_peer_remove(struct control *control, node_id node)
{
    struct peer *peer = peer_slot(control, node);
    if (peer->socket == NULL) {
        return;
    }
    (void)zmq_close(peer->socket);
    peer->socket = NULL;
    control->peer_count--;
    /* Linear probing: entries behind the gap move up if the entry's probe begins before the gap. */
    for (size_t at = (size_t)(peer - control->peers + 1) % PEER_SLOTS; control->peers[at].socket != NULL;
         at = (at + 1) % PEER_SLOTS) {
        struct peer moved = control->peers[at];
        control->peers[at].socket = NULL;
        *peer_slot(control, moved.node) = moved;
    }
}

int control_admit(struct control *control, const uint8_t public_key[32], bool invite, bool gone)
{
    uint8_t curve_public[32];
    memcpy(curve_public, public_key, 32);
    if (!invite && keys_curve_of(public_key, curve_public) != 0) {
        return ERR_MALFORMED;
    }
    if (gone) {
        return zap_evict(control->zap, curve_public, invite ? ZAP_INVITE : ZAP_MEMBER);
    }
    if (invite) {
        return zap_admit_invite(control->zap, curve_public);
    }
    node_id node;
    (void)crypto_generichash(node.bytes, NODE_ID_BYTES, public_key, 32, NULL, 0);
    return zap_admit_member(control->zap, curve_public, node);
}

/* ---- links ------------------------------------------------------------------------------------------------------- */

int control_check_link(struct control *control, node_id node, const uint8_t sign_public[32], const char *address)
{
    uint8_t curve_public[32];
    if (control_address_check(address) != 0 || keys_curve_of(sign_public, curve_public) != 0) {
        return ERR_USAGE;
    }
    struct check *check = NULL;
    for (int i = 0; i < CONTROL_CHECKS_MAX && check == NULL; i++) {
        bool is_free = control->checks[i].fd < 0 && control->checks[i].socket == NULL && !control->checks[i].done;
        check = is_free ? &control->checks[i] : NULL;
    }
    if (check == NULL) {
        return ERR_FULL;
    }
    void *socket = control_socket_dealer(control->context, control->curve_public, control->curve_secret, address, curve_public,
                                         CONTROL_KEEPALIVE_S);
    if (socket == NULL) {
        return ERR_IO;
    }
    *check = (struct check){.fd = -1,
                            .socket = socket,
                            .begun_us = clock_us(),
                            .until_ms = clock_ms() + CONTROL_PROOF_MS,
                            .result.node = node};
    (void)bytes_copy_text(check->result.address, sizeof check->result.address, address);
    return 0;
}

int control_check_next(struct control *control, struct control_checked *out)
{
    for (int i = 0; i < CONTROL_CHECKS_MAX; i++) {
        if (control->checks[i].done) {
            control->checks[i].done = false;
            *out = control->checks[i].result;
            return 0;
        }
    }
    return ERR_AGAIN;
}

void control_renew(struct control *control)
{
    for (int i = 0; i < PEER_SLOTS; i++) {
        if (control->peers[i].socket != NULL) {
            peer_renew(control, &control->peers[i]);
        }
    }
}

void control_statistics(struct control *control, struct control_statistics *out)
{
    struct zap_statistics zap;
    zap_statistics(control->zap, &zap);
    *out = control->statistics;
    out->refused = zap.refused;
    out->cut = zap.cut + control->silenced;
}

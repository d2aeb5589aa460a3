/* How the ranks of a group meet: each listens, the lower rank of a pair connects to the higher, and both prove the key. */
#include "train/group/tcp/group.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/group/tcp/inside.h"

#define PENDING_MAX 32

_Static_assert(TCP_KEY_BYTES == HANDSHAKE_KEY_BYTES, "a key of the group");

static uint64_t clock_ms(void)
{
    return tcp_now_ns() / 1000000;
}

static struct addrinfo *resolve(const char *host, uint16_t port)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    return getaddrinfo(host, service, &hints, &list) == 0 ? list : NULL;
}

int tcp_group_listen(const char *host, int *listen_fd, uint16_t *port)
{
    struct addrinfo *address = resolve(host, 0);
    if (address == NULL) {
        return ERR_USAGE;
    }
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool bound = fd >= 0 && bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 128) == 0;
    freeaddrinfo(address);
    struct sockaddr_storage own;
    socklen_t own_bytes = sizeof own;
    char service[8];
    if (!bound || getsockname(fd, (struct sockaddr *)&own, &own_bytes) != 0 ||
        getnameinfo((struct sockaddr *)&own, own_bytes, NULL, 0, service, sizeof service, NI_NUMERICSERV) != 0) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return ERR_IO;
    }
    *listen_fd = fd;
    *port = (uint16_t)strtoul(service, NULL, 10);
    return 0;
}

/* Connections that were closed wait for a minute in TIME_WAIT; SO_REUSEADDR takes their port, and never one with a listener. */
int tcp_group_listen_at(const char *host, uint16_t port, int *listen_fd)
{
    struct addrinfo *address = resolve(host, port);
    if (address == NULL) {
        return ERR_USAGE;
    }
    int on = 1, fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool listens = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                   bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, 128) == 0;
    int error = errno;
    freeaddrinfo(address);
    if (listens) {
        *listen_fd = fd;
        return 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    errno = error;
    return error == EADDRINUSE ? ERR_EXISTS : ERR_IO;
}

int tcp_group_listen_in(const char *host, struct ports range, uint16_t from, int *listen_fd, uint16_t *port, int *lock_fd)
{
    for (uint32_t tries = 0; tries <= (uint32_t)(range.high - range.low); tries++) {
        uint16_t candidate;
        int lock, code = ports_lock(range, from, &candidate, &lock);
        if (code != 0) {
            return code;
        }
        code = tcp_group_listen_at(host, candidate, listen_fd);
        if (code == 0) {
            *port = candidate;
            *lock_fd = lock;
            return 0;
        }
        int error = errno;
        (void)close(lock);
        errno = error;
        if (code != ERR_EXISTS) {
            return code;
        }
        from = (uint16_t)(candidate + 1);
    }
    return ERR_FULL;
}

/* ---- keys ---- */

static void handshake_begin(struct handshake *handshake, const struct tcp_options *options)
{
    handshake_init(handshake, TCP_MAGIC, options->rank, options->generation, options->key, options->group);
    for (uint32_t i = 0; i < options->size; i++) {
        uint8_t port[2];
        bytes_put_u16(port, options->members[i].port);
        handshake_add(handshake, options->members[i].host, strlen(options->members[i].host) + 1);
        handshake_add(handshake, port, sizeof port);
    }
    handshake_added(handshake);
}

static int cipher_start(const struct tcp_group *group, EVP_CIPHER_CTX *cipher, const char *label,
                        const struct handshake_transcript *transcript, bool seals)
{
    uint8_t key[HANDSHAKE_KEY_BYTES];
    handshake_derive(&group->handshake, label, transcript, key);
    int done = EVP_CipherInit_ex(cipher, EVP_aes_256_gcm(), NULL, key, NULL, seals);
    sodium_memzero(key, sizeof key);
    return done == 1 ? 0 : ERR_IO;
}

/* Makes `fd`, connected to `peer`, the link. Takes `fd`. */
static int link_start(struct tcp_group *group, uint32_t peer, int fd, const struct handshake_transcript *transcript)
{
    struct tcp_link *link = &group->links[peer];
    bool connector = group->rank < peer;
    if (link->fd >= 0) {
        (void)close(link->fd); /* the same peer has connected again: the newer connection counts */
    }
    link->fd = fd;
    link->sealed = link->opened = 0;
    int error = cipher_start(group, link->seal, connector ? "data key up" : "data key down", transcript, true);
    return error != 0 ? error
                      : cipher_start(group, link->open, connector ? "data key down" : "data key up", transcript, false);
}

/* ---- handshake, connecting side ---- */

enum stage { IDLE, CONNECTING, WAIT_REPLY, WAIT_READY, DONE };

struct connector {
    uint32_t peer;
    enum stage stage;
    int fd;
    uint64_t when_ms; /* IDLE: time of the next try; otherwise the deadline of this try */
    bool was_connected, is_told; /* over all tries */
    struct handshake_transcript transcript;
    uint8_t input[HANDSHAKE_REPLY_BYTES];
    size_t used;
};

static void set_no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Handshake messages are small and the first of their connection, so they fit the empty socket buffer or the connection is
 * broken. */
static bool send_small(int fd, const uint8_t *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count;
}

/* Reads towards `want` bytes. 1: complete, 0: not yet, -1: broken. */
static int read_towards(int fd, uint8_t *buffer, size_t *used, size_t want)
{
    ssize_t n = recv(fd, buffer + *used, want - *used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return -1;
    }
    *used += (size_t)n;
    return *used == want;
}

static void connector_retry(struct connector *c, uint64_t now_ms)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    *c = (struct connector){.peer = c->peer,
                            .stage = IDLE,
                            .fd = -1,
                            .when_ms = now_ms + 100,
                            .was_connected = c->was_connected,
                            .is_told = c->is_told};
}

static void connector_begin(struct connector *c, const struct tcp_member *member, uint64_t now_ms)
{
    struct addrinfo *address = resolve(member->host, member->port);
    if (address == NULL) {
        connector_retry(c, now_ms);
        return;
    }
    c->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    bool begun = c->fd >= 0 && (connect(c->fd, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(address);
    if (!begun) {
        connector_retry(c, now_ms);
        return;
    }
    set_no_delay(c->fd);
    c->stage = CONNECTING;
    c->used = 0;
    c->when_ms = now_ms + 2 * HANDSHAKE_MS; /* longer than the acceptor waits, so that the acceptor gives up first */
}

static bool connector_hello(const struct tcp_group *group, struct connector *c)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0 || error != 0) {
        return false;
    }
    c->was_connected = true;
    uint8_t hello[HANDSHAKE_HELLO_BYTES];
    handshake_hello(&group->handshake, c->peer, &c->transcript, hello);
    c->stage = WAIT_REPLY;
    return send_small(c->fd, hello, sizeof hello);
}

static bool connector_reply(const struct tcp_group *group, struct connector *c)
{
    if (!handshake_hear_reply(&group->handshake, &c->transcript, c->input)) {
        return false;
    }
    uint8_t confirm[HANDSHAKE_MAC_BYTES];
    handshake_confirm(&group->handshake, &c->transcript, confirm);
    c->stage = WAIT_READY;
    c->used = 0;
    return send_small(c->fd, confirm, sizeof confirm);
}

static void connector_step(struct tcp_group *group, struct connector *c, short events, uint64_t now_ms)
{
    bool good = now_ms < c->when_ms;
    if (good && c->stage == CONNECTING && events != 0) {
        good = connector_hello(group, c);
    } else if (good && c->stage == WAIT_REPLY && events != 0) {
        int n = read_towards(c->fd, c->input, &c->used, HANDSHAKE_REPLY_BYTES);
        good = n == 0 || (n == 1 && connector_reply(group, c));
    } else if (good && c->stage == WAIT_READY && events != 0) {
        int n = read_towards(c->fd, c->input, &c->used, HANDSHAKE_MAC_BYTES);
        good = n >= 0;
        if (n == 1) {
            good = handshake_hear_ready(&group->handshake, &c->transcript, c->input);
            if (good) {
                int fd = c->fd;
                c->fd = -1;
                c->stage = DONE;
                good = link_start(group, c->peer, fd, &c->transcript) == 0;
            }
        }
    }
    if (!good) {
        connector_retry(c, now_ms);
    }
}

/* ---- handshake, accepting side ---- */

struct pending {
    int fd; /* -1: free */
    bool answered;
    uint32_t sender; /* answered: the claimed rank */
    uint64_t deadline_ms;
    struct handshake_transcript transcript;
    uint8_t input[HANDSHAKE_HELLO_BYTES];
    size_t used;
};

static void pending_drop(struct tcp_group *group, struct pending *p)
{
    (void)close(p->fd);
    p->fd = -1;
    group->refused++;
}

static bool pending_hello(const struct tcp_group *group, struct pending *p)
{
    if (!handshake_hear_hello(&group->handshake, &p->transcript, p->input, &p->sender) || p->sender >= group->rank ||
        !plan_linked(group->size, p->sender, group->rank)) {
        return false;
    }
    uint8_t reply[HANDSHAKE_REPLY_BYTES];
    handshake_reply(&group->handshake, &p->transcript, reply);
    p->answered = true;
    p->used = 0;
    return send_small(p->fd, reply, sizeof reply);
}

/* Moves a pending connection on. Once the peer has authenticated, its descriptor belongs to its link. */
static void pending_step(struct tcp_group *group, struct pending *p)
{
    int n = read_towards(p->fd, p->input, &p->used, p->answered ? HANDSHAKE_MAC_BYTES : HANDSHAKE_HELLO_BYTES);
    if (n == 0 || (n == 1 && !p->answered && pending_hello(group, p))) {
        return;
    }
    uint8_t ready[HANDSHAKE_MAC_BYTES];
    handshake_ready(&group->handshake, &p->transcript, ready);
    if (n < 0 || !p->answered || p->used != HANDSHAKE_MAC_BYTES ||
        !handshake_hear_confirm(&group->handshake, &p->transcript, p->input) || !send_small(p->fd, ready, sizeof ready)) {
        pending_drop(group, p);
        return;
    }
    int fd = p->fd;
    p->fd = -1;
    (void)link_start(group, p->sender, fd, &p->transcript);
}

static void pending_accept(struct tcp_group *group, struct pending *all, int listen_fd, uint64_t now_ms)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    set_no_delay(fd);
    struct pending *place = &all[0]; /* a free place, else the place of the oldest connection */
    for (size_t i = 0; i < PENDING_MAX && place->fd >= 0; i++) {
        if (all[i].fd < 0 || all[i].deadline_ms < place->deadline_ms) {
            place = &all[i];
        }
    }
    if (place->fd >= 0) {
        pending_drop(group, place);
    }
    *place = (struct pending){.fd = fd, .deadline_ms = now_ms + HANDSHAKE_MS};
}

/* ---- meeting ---- */

struct meeting {
    struct connector connectors[PLAN_RANKS_MAX];
    uint32_t connector_count;
    struct pending pending[PENDING_MAX];
};

/* The first rank without a link, or PLAN_NOBODY. */
static uint32_t missing(const struct tcp_group *group)
{
    for (uint32_t peer = 0; peer < group->size; peer++) {
        if (plan_linked(group->size, group->rank, peer) && group->links[peer].fd < 0) {
            return peer;
        }
    }
    return PLAN_NOBODY;
}

static void meet_step(struct tcp_group *group, struct meeting *m, int listen_fd, const struct tcp_options *options)
{
    uint64_t now_ms = clock_ms();
    struct pollfd fds[PLAN_RANKS_MAX + PENDING_MAX + 1 + REVOKE_FDS];
    for (uint32_t i = 0; i < m->connector_count; i++) {
        struct connector *c = &m->connectors[i];
        if (c->stage == IDLE && now_ms >= c->when_ms) {
            connector_begin(c, &options->members[c->peer], now_ms);
        }
        fds[i] = (struct pollfd){.fd = c->fd, .events = c->stage == CONNECTING ? POLLOUT : POLLIN};
    }
    struct pollfd *pending_fds = fds + m->connector_count, *listen_poll = pending_fds + PENDING_MAX;
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending_fds[i] = (struct pollfd){.fd = m->pending[i].fd, .events = POLLIN};
    }
    listen_poll[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    revoke_poll(group->revoke, listen_poll + 1);
    (void)poll(fds, m->connector_count + PENDING_MAX + 1 + REVOKE_FDS, 50);
    (void)revoke_check(group->revoke, listen_poll + 1);
    now_ms = clock_ms();
    for (size_t i = 0; i < PENDING_MAX; i++) {
        struct pending *p = &m->pending[i];
        if (p->fd >= 0 && pending_fds[i].revents != 0) {
            pending_step(group, p);
        }
        if (p->fd >= 0 && now_ms >= p->deadline_ms) {
            pending_drop(group, p);
        }
    }
    if (listen_poll[0].revents != 0) {
        pending_accept(group, m->pending, listen_fd, now_ms);
    }
    for (uint32_t i = 0; i < m->connector_count; i++) {
        struct connector *c = &m->connectors[i];
        if (c->stage != IDLE && c->stage != DONE) {
            connector_step(group, c, fds[i].revents, now_ms);
        }
    }
}

static void tell_slow(struct meeting *m, const struct tcp_options *options)
{
    for (uint32_t i = 0; i < m->connector_count && options->slow != NULL; i++) {
        struct connector *c = &m->connectors[i];
        if (!c->was_connected && !c->is_told) {
            c->is_told = true;
            options->slow(options->slow_context, &options->members[c->peer]);
        }
    }
}

int tcp_meet(struct tcp_group *group, int listen_fd, const struct tcp_options *options)
{
    struct meeting m = {0};
    for (size_t i = 0; i < PENDING_MAX; i++) {
        m.pending[i].fd = -1;
    }
    for (uint32_t peer = group->rank + 1; peer < group->size; peer++) {
        if (plan_linked(group->size, group->rank, peer)) {
            m.connectors[m.connector_count++] = (struct connector){.peer = peer, .stage = IDLE, .fd = -1};
        }
    }
    handshake_begin(&group->handshake, options);
    memcpy(group->members_hash, group->handshake.members_hash, sizeof group->members_hash);
    uint64_t slow_ms = clock_ms() + TCP_SLOW_MS, deadline_ms = clock_ms() + (uint64_t)options->open_timeout_ms;
    int result = 0;
    uint32_t peer;
    while (result == 0 && (peer = missing(group)) != PLAN_NOBODY) {
        if (group->revoke != NULL && revoke_is_set(group->revoke)) {
            result = tcp_fail(group, ERR_CLOSED, "rank %u was told that its group is over while it formed", group->rank);
        } else if (clock_ms() >= deadline_ms) {
            /* The lower rank of a pair connects, so the port of the higher rank may be blocked. */
            const struct tcp_member *listener = &options->members[peer > group->rank ? peer : group->rank];
            result = tcp_fail(group, ERR_TIMEOUT,
                              "rank %u of %u could not %s rank %u (%s) within %d s: check that port %u/tcp of %s can be "
                              "reached from %s",
                              group->rank, group->size, peer > group->rank ? "connect to" : "hear from", peer,
                              options->members[peer].host, options->open_timeout_ms / 1000, (unsigned)listener->port,
                              listener->host, options->members[peer > group->rank ? group->rank : peer].host);
        } else {
            meet_step(group, &m, listen_fd, options);
            if (clock_ms() >= slow_ms) {
                tell_slow(&m, options);
            }
        }
    }
    handshake_end(&group->handshake);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (m.pending[i].fd >= 0) {
            pending_drop(group, &m.pending[i]);
        }
    }
    for (uint32_t i = 0; i < m.connector_count; i++) {
        if (m.connectors[i].fd >= 0) {
            (void)close(m.connectors[i].fd);
        }
    }
    return result;
}

#include "train/group/shm/meet.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "train/group/handshake.h"
#include "train/group/shm/memory.h"

#define RETRY_MS 50
#define PENDING_MAX 64

_Static_assert(SHM_GROUP_KEY_BYTES == HANDSHAKE_KEY_BYTES, "a key of the group");

static const char magic[] = "SHOALSM1";
static const char prefix[] = "shoal-group/";

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the abstract socket ---- */

_Static_assert(1 + sizeof prefix - 1 + SHM_GROUP_NAME_BYTES - 1 <= sizeof((struct sockaddr_un *)0)->sun_path,
               "every name fits an address");

/* Returns false if the name is not valid. */
static bool address_fill(const char *name, struct sockaddr_un *address, socklen_t *bytes)
{
    size_t length = strnlen(name, SHM_GROUP_NAME_BYTES);
    if (length == 0 || length == SHM_GROUP_NAME_BYTES) {
        return false;
    }
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, prefix, sizeof prefix - 1); /* the NUL before it makes the name abstract */
    memcpy(address->sun_path + sizeof prefix, name, length);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof prefix + length);
    return true;
}

int shm_group_listen(const char *name, int *listen_fd)
{
    struct sockaddr_un address;
    socklen_t bytes;
    if (!address_fill(name, &address, &bytes)) {
        return ERR_USAGE;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return ERR_IO;
    }
    if (bind(fd, (struct sockaddr *)&address, bytes) != 0 || listen(fd, 2 * SHM_GROUP_RANKS_MAX) != 0) {
        int error = errno == EADDRINUSE ? ERR_EXISTS : ERR_IO;
        (void)close(fd);
        return error;
    }
    *listen_fd = fd;
    return 0;
}

/* Connects without waiting. Returns a descriptor, or -1 with errno. */
static int connect_to(const char *name)
{
    struct sockaddr_un address;
    socklen_t bytes;
    if (!address_fill(name, &address, &bytes)) {
        errno = EINVAL;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, bytes) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

bool shm_group_probe(const char *name)
{
    int fd = connect_to(name);
    if (fd < 0) {
        return errno == EAGAIN; /* a listener whose queue is full */
    }
    (void)close(fd);
    return true;
}

/* ---- the handshake ---- */

struct meeting {
    const struct shm_group_options *options;
    int own_area;
    struct handshake handshake;
    struct shm_met *met; /* by rank; -1 until that rank has authenticated */
    uint32_t met_count;
    uint32_t *refused;
};

static void handshake_begin(struct handshake *handshake, const struct shm_group_options *options)
{
    handshake_init(handshake, magic, options->rank, options->generation, options->key, options->group);
    for (uint32_t i = 0; i < options->size; i++) {
        handshake_add(handshake, options->members[i].name, strnlen(options->members[i].name, SHM_GROUP_NAME_BYTES));
        handshake_add(handshake, "", 1);
    }
    handshake_added(handshake);
}

static void met_end(struct shm_met *met)
{
    if (met->socket >= 0) {
        (void)close(met->socket);
        (void)close(met->area);
    }
    if (met->process >= 0) {
        (void)close(met->process);
    }
    *met = (struct shm_met){-1, -1, -1};
}

/* Keeps the descriptors of a rank that has authenticated. If the rank connects again, it did not see the success: the newer
 * connection counts. The process is watched besides the socket, because its forked children keep the socket open. */
static void peer_met(struct meeting *m, uint32_t rank, int fd, int area, int process)
{
    m->met_count += m->met[rank].socket < 0;
    met_end(&m->met[rank]);
    m->met[rank] = (struct shm_met){.socket = fd, .area = area, .process = -1};
    if (process > 0) {
        m->met[rank].process = (int)syscall(SYS_pidfd_open, process, 0);
    }
}

/* ---- connecting side: to every lower rank ---- */

enum stage { IDLE, WAIT_REPLY, WAIT_READY, DONE };

struct connector {
    enum stage stage;
    int fd;
    uint64_t when_ms; /* IDLE: time of the next try; otherwise the deadline of this try */
    struct handshake_transcript transcript;
};

static void connector_retry(struct connector *c, uint64_t now_ms)
{
    if (c->fd >= 0) {
        (void)close(c->fd);
    }
    *c = (struct connector){.stage = IDLE, .fd = -1, .when_ms = now_ms + RETRY_MS};
}

static void connector_begin(const struct meeting *m, struct connector *c, uint32_t rank, uint64_t now_ms)
{
    c->fd = connect_to(m->options->members[rank].name);
    uint8_t hello[HANDSHAKE_HELLO_BYTES];
    handshake_hello(&m->handshake, rank, &c->transcript, hello);
    if (c->fd < 0 || shm_message_want_sender(c->fd) != 0 || shm_message_send(c->fd, hello, sizeof hello, -1) != 0) {
        connector_retry(c, now_ms);
        return;
    }
    c->stage = WAIT_REPLY;
    c->when_ms = now_ms + 2 * HANDSHAKE_MS; /* longer than the acceptor waits, so that the acceptor gives up first */
}

static int connector_reply(const struct meeting *m, struct connector *c)
{
    uint8_t reply[HANDSHAKE_REPLY_BYTES];
    int result = shm_message_receive(c->fd, reply, sizeof reply, NULL, NULL);
    if (result != 0) {
        return result;
    }
    if (!handshake_hear_reply(&m->handshake, &c->transcript, reply)) {
        return ERR_AUTH;
    }
    uint8_t confirm[HANDSHAKE_MAC_BYTES];
    handshake_confirm(&m->handshake, &c->transcript, confirm);
    c->stage = WAIT_READY;
    return shm_message_send(c->fd, confirm, sizeof confirm, m->own_area);
}

static int connector_ready(struct meeting *m, struct connector *c, uint32_t rank)
{
    uint8_t ready[HANDSHAKE_MAC_BYTES];
    int area, process, result = shm_message_receive(c->fd, ready, sizeof ready, &area, &process);
    if (result != 0) {
        return result;
    }
    if (area < 0) {
        return ERR_MALFORMED;
    }
    if (!handshake_hear_ready(&m->handshake, &c->transcript, ready)) {
        (void)close(area);
        return ERR_AUTH;
    }
    peer_met(m, rank, c->fd, area, process);
    c->stage = DONE;
    c->fd = -1;
    return 0;
}

static void connector_step(struct meeting *m, struct connector *c, uint32_t rank, bool readable, uint64_t now_ms)
{
    if (c->stage == IDLE) {
        if (now_ms >= c->when_ms) {
            connector_begin(m, c, rank, now_ms);
        }
        return;
    }
    int result = ERR_AGAIN;
    if (readable) {
        result = c->stage == WAIT_REPLY ? connector_reply(m, c) : connector_ready(m, c, rank);
    }
    bool waits = result == ERR_AGAIN && now_ms < c->when_ms;
    if (result != 0 && !waits) {
        connector_retry(c, now_ms);
    }
}

/* ---- accepting side: from every higher rank, and from strangers ---- */

struct pending {
    int fd; /* -1: free */
    bool answered;
    uint32_t sender; /* the claimed rank */
    uint64_t deadline_ms;
    struct handshake_transcript transcript;
};

static void pending_drop(struct meeting *m, struct pending *p)
{
    (void)close(p->fd);
    p->fd = -1;
    (*m->refused)++;
}

static int pending_hello(const struct meeting *m, struct pending *p)
{
    uint8_t hello[HANDSHAKE_HELLO_BYTES];
    int result = shm_message_receive(p->fd, hello, sizeof hello, NULL, NULL);
    if (result != 0) {
        return result;
    }
    if (!handshake_hear_hello(&m->handshake, &p->transcript, hello, &p->sender) || p->sender <= m->options->rank ||
        p->sender >= m->options->size) {
        return ERR_AUTH;
    }
    uint8_t reply[HANDSHAKE_REPLY_BYTES];
    handshake_reply(&m->handshake, &p->transcript, reply);
    p->answered = true;
    return shm_message_send(p->fd, reply, sizeof reply, -1);
}

static int pending_confirm(struct meeting *m, struct pending *p)
{
    uint8_t mac[HANDSHAKE_MAC_BYTES];
    int area, process, result = shm_message_receive(p->fd, mac, sizeof mac, &area, &process);
    if (result != 0) {
        return result;
    }
    if (area < 0) {
        return ERR_MALFORMED;
    }
    result = ERR_AUTH;
    if (handshake_hear_confirm(&m->handshake, &p->transcript, mac)) {
        handshake_ready(&m->handshake, &p->transcript, mac);
        result = shm_message_send(p->fd, mac, sizeof mac, m->own_area);
    }
    if (result != 0) {
        (void)close(area);
        return result;
    }
    peer_met(m, p->sender, p->fd, area, process);
    p->fd = -1;
    return 0;
}

static void pending_step(struct meeting *m, struct pending *p, bool readable, uint64_t now_ms)
{
    int result = ERR_AGAIN;
    if (readable) {
        result = p->answered ? pending_confirm(m, p) : pending_hello(m, p);
    }
    bool waits = (result == ERR_AGAIN || (result == 0 && p->fd >= 0)) && now_ms < p->deadline_ms;
    if (p->fd >= 0 && !waits) {
        pending_drop(m, p);
    }
}

static void pending_accept(struct meeting *m, struct pending *all, int listen_fd, uint64_t now_ms)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    (void)shm_message_want_sender(fd);
    struct pending *place = &all[0]; /* a free place, else the place of the oldest connection */
    for (size_t i = 0; i < PENDING_MAX && place->fd >= 0; i++) {
        if (all[i].fd < 0 || all[i].deadline_ms < place->deadline_ms) {
            place = &all[i];
        }
    }
    if (place->fd >= 0) {
        pending_drop(m, place);
    }
    *place = (struct pending){.fd = fd, .deadline_ms = now_ms + HANDSHAKE_MS};
}

/* ---- both sides together ---- */

static void meet_round(struct meeting *m, struct connector *connectors, struct pending *pending, int listen_fd)
{
    uint32_t own = m->options->rank;
    struct pollfd fds[SHM_GROUP_RANKS_MAX + PENDING_MAX + 1 + REVOKE_FDS], *listen_poll = fds + own + PENDING_MAX;
    for (uint32_t i = 0; i < own; i++) {
        fds[i] = (struct pollfd){.fd = connectors[i].fd, .events = POLLIN};
    }
    for (size_t i = 0; i < PENDING_MAX; i++) {
        fds[own + i] = (struct pollfd){.fd = pending[i].fd, .events = POLLIN};
    }
    listen_poll[0] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
    revoke_poll(m->options->revoke, listen_poll + 1);
    (void)poll(fds, own + PENDING_MAX + 1 + REVOKE_FDS, RETRY_MS);
    (void)revoke_check(m->options->revoke, listen_poll + 1);
    uint64_t now_ms = clock_ms();
    for (uint32_t i = 0; i < own; i++) {
        if (connectors[i].stage != DONE) {
            connector_step(m, &connectors[i], i, connectors[i].fd >= 0 && fds[i].revents != 0, now_ms);
        }
    }
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].fd >= 0) {
            pending_step(m, &pending[i], fds[own + i].revents != 0, now_ms);
        }
    }
    if (listen_poll[0].revents != 0) {
        pending_accept(m, pending, listen_fd, now_ms);
    }
}

static bool is_revoked(const struct shm_group_options *options)
{
    return options->revoke != NULL && revoke_is_set(options->revoke);
}

int shm_meet(const struct shm_group_options *options, int listen_fd, int own_area,
             struct shm_met met[SHM_GROUP_RANKS_MAX], uint32_t *refused, char error[SHM_GROUP_ERROR_BYTES])
{
    struct meeting m = {.options = options, .own_area = own_area, .met = met, .met_count = 1, .refused = refused};
    handshake_begin(&m.handshake, options);
    struct connector connectors[SHM_GROUP_RANKS_MAX];
    struct pending pending[PENDING_MAX];
    for (uint32_t i = 0; i < SHM_GROUP_RANKS_MAX; i++) {
        connectors[i] = (struct connector){.stage = IDLE, .fd = -1};
        met[i] = (struct shm_met){-1, -1, -1};
    }
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i] = (struct pending){.fd = -1};
    }
    uint64_t deadline_ms = clock_ms() + (uint64_t)options->open_timeout_ms;
    for (uint32_t i = 0; i < options->rank; i++) {
        connector_begin(&m, &connectors[i], i, clock_ms());
    }
    while (m.met_count < options->size && clock_ms() < deadline_ms && !is_revoked(options)) {
        meet_round(&m, connectors, pending, listen_fd);
    }
    handshake_end(&m.handshake);
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].fd >= 0) {
            pending_drop(&m, &pending[i]);
        }
    }
    for (uint32_t i = 0; i < SHM_GROUP_RANKS_MAX; i++) {
        if (connectors[i].fd >= 0) {
            (void)close(connectors[i].fd);
        }
    }
    if (m.met_count == options->size) {
        return 0;
    }
    uint32_t missing = SHM_GROUP_RANKS_MAX;
    for (uint32_t i = 0; i < options->size; i++) {
        if (i != options->rank && met[i].socket < 0 && missing == SHM_GROUP_RANKS_MAX) {
            missing = i;
        }
        met_end(&met[i]);
    }
    if (is_revoked(options)) {
        (void)snprintf(error, SHM_GROUP_ERROR_BYTES, "rank %u was told that its group is over while it formed",
                       options->rank);
        return ERR_CLOSED;
    }
    (void)snprintf(
        error, SHM_GROUP_ERROR_BYTES,
        "rank %u of %u did not meet rank %u within %d ms: check that it runs on this host, in the same network "
        "namespace, with the same key and member list",
        options->rank, options->size, missing, options->open_timeout_ms);
    return ERR_TIMEOUT;
}

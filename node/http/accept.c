#include "node/http/accept.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "node/http/gate.h"
#include "node/http/server.h"
#include "node/http/tls.h"

#define PENDING_MAX 1024
#define PENDING_MIN 32
#define PENDING_TLS_MAX 512 /* each may cost what GnuTLS holds for a handshake */
#define PENDING_OF_ONE 64   /* of one address that is not this machine's own */
#define SERVED_DESCRIPTORS \
    (3 * SERVER_CONNECTIONS_MAX + 256) /* of requests, each with a connection to the daemon and a file */
#define SERVED_TLS_DESCRIPTORS (2 * (TLS_CONNECTIONS_MAX - PENDING_TLS_MAX)) /* beside those: the stranger's, our end */
#define PENDING_TLS_DESCRIPTORS 3
#define HEAD_MS 10000
#define REFUSED_MS 2000
#define TURN_MS 500

/* A connection without a whole head; fd -1: a free place. */
struct pending {
    int fd;
    bool is_refused; /* it has got its answer: what else it sends is thrown away, so that it reads the answer */
    uint64_t until_ms;
    struct sockaddr_storage address;
    socklen_t address_bytes;
};

static struct pending pending[PENDING_MAX];
static size_t pending_max = PENDING_MIN;
static bool speaks_tls;
static char head[GATE_HEAD_BYTES_MAX];

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int accept_listen(const char *host, unsigned short port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, host, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, host, &v6.sin6_addr) != 1) {
        errno = EINVAL;
        return -1;
    }
    int one = 1, fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const struct sockaddr *address = is_v4 ? (const struct sockaddr *)&v4 : (const struct sockaddr *)&v6;
    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, address, is_v4 ? sizeof v4 : sizeof v6) != 0 || listen(fd, 256) != 0) {
        int error = errno;
        (void)close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static void drop(struct pending *one)
{
    (void)close(one->fd); /* leaves the epoll set, too */
    one->fd = -1;
}

/* Reads what a connection that has got its answer sends: unread bytes would make the kernel throw the answer away. */
static void drain(struct pending *one)
{
    ssize_t count = 1;
    for (int i = 0; i < 16 && count > 0; i++) { /* others wait, too */
        count = recv(one->fd, head, sizeof head, MSG_DONTWAIT);
    }
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        drop(one);
    }
}

/* The answer to a head that is refused: as much as goes without waiting. */
static void refuse(struct pending *one, int status, const char *why)
{
    char text[512];
    int bytes =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %d Refused\r\nContent-Type: application/problem+json\r\nConnection: "
                 "close\r\nContent-Length: %zu\r\n\r\n"
                 "{\"type\":\"about:blank\",\"title\":\"Refused\",\"status\":%d,\"code\":0,\"detail\":\"%s\"}\n",
                 status, strlen(why) + 75, status, why);
    (void)send(one->fd, text, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(one->fd, SHUT_WR);
    one->is_refused = true;
    one->until_ms = now_ms() + REFUSED_MS;
    drain(one);
}

/* Gives a connection to the server, which takes a socket pair for what it is. */
static void hand_over(struct pending *one)
{
    const struct sockaddr_un pair = {.sun_family = AF_UNIX};
    if (speaks_tls) {
        server_add(one->fd, &pair, sizeof pair.sun_family);
    } else {
        server_add(one->fd, &one->address, one->address_bytes);
    }
    one->fd = -1;
}

/* Looks at what has come, without taking it. */
static void look(int epoll, struct pending *one)
{
    int status;
    const char *why;
    if (one->is_refused) {
        drain(one);
        return;
    }
    ssize_t count = recv(one->fd, head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (count <= 0) {
        drop(one);
        return;
    }
    switch (gate_judge(head, (size_t)count, &status, &why)) {
    case GATE_MORE:
        return;
    case GATE_BAD:
        refuse(one, status, why);
        return;
    case GATE_GOOD:
        if (!server_make_room()) {
            refuse(one, 503, "The door serves as many connections as it can; try again in some seconds.");
            return;
        }
        (void)epoll_ctl(epoll, EPOLL_CTL_DEL, one->fd, NULL);
        hand_over(one);
        return;
    }
}

/* Whether two strangers share an address; of IPv6 the network of 64 bits counts, which is one household's. */
static bool is_same_stranger(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if (a->ss_family != b->ss_family) {
        return false;
    }
    if (a->ss_family == AF_INET) {
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    }
    const struct in6_addr *x = &((const struct sockaddr_in6 *)a)->sin6_addr,
                          *y = &((const struct sockaddr_in6 *)b)->sin6_addr;
    return memcmp(x, y, IN6_IS_ADDR_V4MAPPED(x) ? 16 : 8) == 0;
}

static bool is_this_machine(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET
               ? ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
               : IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

/* Whether one address holds so many places that its next connection has to wait for one of them. */
static bool is_crowd(const struct sockaddr_storage *address)
{
    unsigned count = 0;
    for (size_t i = 0; i < pending_max && !is_this_machine(address); i++) {
        count += pending[i].fd >= 0 && is_same_stranger(&pending[i].address, address);
    }
    return count >= PENDING_OF_ONE;
}

/* A place for a new connection: a free one, else that of the oldest, which gives way. */
static struct pending *place(void)
{
    struct pending *oldest = &pending[0];
    for (size_t i = 0; i < pending_max; i++) {
        if (pending[i].fd < 0) {
            return &pending[i];
        }
        oldest = pending[i].until_ms < oldest->until_ms ? &pending[i] : oldest;
    }
    drop(oldest);
    return oldest;
}

/* As many as the limit of open files leaves beside the requests that are served. */
static void set_pending_max(void)
{
    struct rlimit limit;
    rlim_t served = SERVED_DESCRIPTORS + (speaks_tls ? SERVED_TLS_DESCRIPTORS : 0);
    rlim_t each = speaks_tls ? PENDING_TLS_DESCRIPTORS : 1, most = speaks_tls ? PENDING_TLS_MAX : PENDING_MAX;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur > served + each * PENDING_MIN) {
        rlim_t room = (limit.rlim_cur - served) / each;
        pending_max = (size_t)(room < most ? room : most);
    }
}

static void accept_all(int epoll, int listen_fd)
{
    for (int i = 0; i < 64; i++) {
        struct sockaddr_storage address;
        socklen_t bytes = sizeof address;
        int fd = accept4(listen_fd, (struct sockaddr *)&address, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
            (void)poll(NULL, 0, TURN_MS / 10); /* the connection stays in the queue, and wakes us at once again */
        }
        if (fd < 0) {
            return;
        }
        if (is_crowd(&address)) {
            (void)close(fd);
            continue;
        }
        if (speaks_tls && (fd = tls_take(fd)) < 0) {
            continue;
        }
        struct pending *one = place();
        *one = (struct pending){.fd = fd, .until_ms = now_ms() + HEAD_MS, .address = address, .address_bytes = bytes};
        struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.ptr = one};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
            drop(one);
        } else {
            look(epoll, one);
        }
    }
}

void accept_loop(int listen_fd, int control_fd, bool is_tls)
{
    speaks_tls = is_tls;
    set_pending_max();
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event listening = {.events = EPOLLIN, .data.ptr = NULL},
                       control = {.events = EPOLLIN, .data.ptr = &control};
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i].fd = -1;
    }
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listen_fd, &listening) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, control_fd, &control) != 0) {
        return;
    }
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, TURN_MS);
        for (int i = 0; i < count; i++) {
            struct pending *one = events[i].data.ptr;
            if (events[i].data.ptr == &control) {
                return; /* the daemon sends nothing on it, so it has ended */
            }
            if (one == NULL) {
                accept_all(epoll, listen_fd);
            } else if (one->fd >= 0) {
                look(epoll, one);
            }
        }
        uint64_t now = now_ms();
        for (size_t i = 0; i < PENDING_MAX; i++) {
            if (pending[i].fd >= 0 && now >= pending[i].until_ms) {
                drop(&pending[i]);
            }
        }
    }
}

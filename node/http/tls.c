#include "node/http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "node/http/sequence.h"

#define RECORD_BYTES 16384   /* the most that one TLS record holds */
#define RECORDS_A_TURN 4     /* in one direction; then it is another connection's turn */
#define HANDSHAKE_MS 10000   /* from the acceptance on */
#define HANDSHAKE_BYTES 8192 /* most bytes of one message of a handshake */
#define HANDSHAKES_A_S 200   /* each costs some 0.5 ms of a processor; further ones wait for the next second */
#define HEAD_MS 10000        /* for a later head on a connection, from its first byte on */
#define UNREAD_MS 60000      /* for a stranger to take a record */
#define LINGER_MS 2000
#define TURN_MS 250
#define HANDSHAKE_BYTE 0x16 /* the first one of every TLS connection */
#define STACK_BYTES (256u << 10)

enum state { WAITING, SHAKING, OPEN, LINGERING };

/* A descriptor of a connection in the epoll set; `events` 0: it is not in the set. */
struct end {
    struct connection *connection;
    int fd;
    uint32_t events;
};

struct connection {
    enum state state;
    struct end outer, inner;  /* the stranger's; the pair's */
    gnutls_session_t session; /* NULL: WAITING */
    uint64_t until_ms;        /* 0: for ever, since the server has time limits of its own */
    bool in_over, out_over;   /* no more comes from the stranger; from the server */
    bool out_waits;           /* GnuTLS holds a record that the stranger has not taken */
    bool is_put_off;          /* its handshake waits for the next second */
    struct sequence sequence; /* of requests */
    char *kept;               /* what the server has not taken yet */
    size_t kept_count;
    size_t passing;        /* the first bytes of `kept` are allowed to it */
    uint64_t head_until_ms; /* a later head has begun and has to be there by then; 0: none has */
};

static gnutls_certificate_credentials_t credentials;
static gnutls_priority_t priority;
static gnutls_datum_t ticket_key;
static int arrivals[2] = {-1, -1}; /* a pipe of pairs of descriptors */
static int epoll = -1;
static struct connection *connections[TLS_CONNECTIONS_MAX]; /* of the thread, without gaps */
static size_t connection_count;
static atomic_uint taken; /* connections and arrivals */
static unsigned handshakes_left;
static uint8_t record[RECORD_BYTES];

static uint64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the epoll set --------------------------------------------------------------------------------------------- */

/* An end that waits for nothing leaves the set, since the set tells hang-ups unasked, again and again. */
static void want(struct end *end, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = end};
    if (events != end->events) {
        int op = events == 0 ? EPOLL_CTL_DEL : end->events == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
        (void)epoll_ctl(epoll, op, end->fd, &event);
        end->events = events;
    }
}

static void want_what_it_waits_for(struct connection *one)
{
    bool has_kept = one->passing > 0;
    switch (one->state) {
    case WAITING:
        want(&one->outer, one->is_put_off ? 0 : EPOLLIN);
        want(&one->inner, EPOLLRDHUP);
        break;
    case SHAKING:
        want(&one->outer, gnutls_record_get_direction(one->session) == 0 ? EPOLLIN : EPOLLOUT);
        want(&one->inner, EPOLLRDHUP);
        break;
    case OPEN:
        want(&one->outer,
             (one->in_over || has_kept ? 0 : (uint32_t)EPOLLIN) | (one->out_waits ? (uint32_t)EPOLLOUT : 0));
        want(&one->inner,
             (one->out_over || one->out_waits ? 0 : (uint32_t)EPOLLIN) | (has_kept ? (uint32_t)EPOLLOUT : 0));
        break;
    case LINGERING:
        want(&one->outer, EPOLLIN);
        want(&one->inner, 0);
        break;
    }
}

/* ---- both directions ------------------------------------------------------------------------------------------- */

static void forget_kept(struct connection *one)
{
    free(one->kept);
    one->kept = NULL;
    one->kept_count = one->passing = 0;
}

/* Gives the server what it may have. False: it takes nothing more, or may not have more. */
static bool give_kept(struct connection *one)
{
    while (one->kept_count > 0) {
        if (one->passing == 0) {
            one->passing = sequence_pass(&one->sequence, one->kept, one->kept_count);
        }
        if (one->passing == 0) {
            if (one->sequence.state == SEQUENCE_DONE) {
                forget_kept(one);
            }
            return one->sequence.state != SEQUENCE_BROKEN;
        }
        ssize_t sent = send(one->inner.fd, one->kept, one->passing, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN || errno == EINTR;
        }
        one->passing -= (size_t)sent;
        one->kept_count -= (size_t)sent;
        if (one->kept_count == 0) {
            forget_kept(one);
        } else {
            memmove(one->kept, one->kept + sent, one->kept_count);
        }
    }
    return true;
}

/* Nothing more is taken from the stranger; the answer may still be on its way. */
static void end_in(struct connection *one)
{
    one->in_over = true;
    forget_kept(one);
    (void)shutdown(one->inner.fd, SHUT_WR);
}

static bool keep(struct connection *one, size_t count)
{
    char *grown = realloc(one->kept, one->kept_count + count);
    if (grown == NULL) {
        return false;
    }
    memcpy(grown + one->kept_count, record, count);
    one->kept = grown;
    one->kept_count += count;
    return true;
}

/* A head that is not whole has its time, but for the first one, for which accept.c waits. */
static void time_head(struct connection *one)
{
    bool is_begun = one->kept_count > 0 && one->passing == 0 && one->sequence.heads > 0;
    one->head_until_ms = !is_begun ? 0 : one->head_until_ms == 0 ? now_ms() + HEAD_MS : one->head_until_ms;
}

/* From the stranger to the server. False: the connection is broken. */
static bool carry_in(struct connection *one)
{
    for (int i = 0; !one->in_over; i++) {
        if (!give_kept(one)) {
            end_in(one);
            break;
        }
        /* What GnuTLS has decrypted already wakes nobody, so it is taken in this turn. */
        if (one->passing > 0 || (i >= RECORDS_A_TURN && gnutls_record_check_pending(one->session) == 0)) {
            break;
        }
        ssize_t count = gnutls_record_recv(one->session, record, sizeof record);
        if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED) {
            break;
        }
        if (count == 0 || count == GNUTLS_E_PREMATURE_TERMINATION) {
            end_in(one);
        } else if (count < 0 || !keep(one, (size_t)count)) {
            return false; /* a second handshake among them */
        }
    }
    time_head(one);
    return true;
}

/* From the server to the stranger. False: the connection is broken. */
static bool carry_out(struct connection *one)
{
    size_t room = gnutls_record_get_max_size(one->session);
    room = room < sizeof record ? room : sizeof record; /* so that all goes into one record */
    for (int i = 0; i < RECORDS_A_TURN; i++) {
        ssize_t count = 0;
        if (!one->out_waits) {
            count = one->out_over ? 0 : recv(one->inner.fd, record, room, MSG_DONTWAIT);
            if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
                return true;
            }
            if (count <= 0) {
                one->out_over = true;
                return true;
            }
        }
        ssize_t sent = gnutls_record_send(one->session, one->out_waits ? NULL : record, (size_t)count);
        bool waits = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED;
        one->until_ms = !waits ? 0 : one->out_waits ? one->until_ms : now_ms() + UNREAD_MS;
        one->out_waits = waits;
        if (waits) {
            return true;
        }
        if (sent < 0) {
            return false;
        }
    }
    return true;
}

/* Says goodbye, and waits until the stranger does: closing with unread bytes would throw the answer away. */
static void linger(struct connection *one)
{
    (void)gnutls_bye(one->session, GNUTLS_SHUT_WR);
    (void)shutdown(one->outer.fd, SHUT_WR);
    one->state = LINGERING;
    one->until_ms = now_ms() + LINGER_MS;
}

static bool carry(struct connection *one)
{
    if (!carry_in(one) || !carry_out(one)) {
        return false;
    }
    if (one->out_over && !one->out_waits) {
        linger(one);
    }
    return true;
}

/* ---- the beginning --------------------------------------------------------------------------------------------- */

/* Somebody speaks HTTP in clear: tells so, in clear. */
static void refuse_plain(int fd)
{
    static const char text[] = "This door speaks HTTPS only: begin the address by https://\n";
    char answer[256];
    int bytes = snprintf(answer, sizeof answer,
                         "HTTP/1.1 400 Refused\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n"
                         "Content-Length: %zu\r\n\r\n%s",
                         sizeof text - 1, text);
    (void)send(fd, answer, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)shutdown(fd, SHUT_WR);
    (void)recv(fd, record, sizeof record, MSG_DONTWAIT); /* closing with unread bytes would throw the text away */
}

/* The first bytes are there. False: it is no TLS, or no memory is left. */
static bool begin(struct connection *one)
{
    uint8_t first;
    ssize_t count = recv(one->outer.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (count == 1 && first != HANDSHAKE_BYTE) {
        refuse_plain(one->outer.fd);
    }
    if (count != 1 || first != HANDSHAKE_BYTE) {
        return false;
    }
    if (handshakes_left == 0) {
        one->is_put_off = true;
        return true;
    }
    handshakes_left--;
    if (gnutls_init(&one->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) != 0) {
        one->session = NULL;
        return false;
    }
    gnutls_transport_set_int(one->session, one->outer.fd);
    gnutls_handshake_set_max_packet_length(one->session, HANDSHAKE_BYTES);
    one->state = SHAKING;
    return gnutls_priority_set(one->session, priority) == 0 &&
           gnutls_credentials_set(one->session, GNUTLS_CRD_CERTIFICATE, credentials) == 0 &&
           gnutls_session_ticket_enable_server(one->session, &ticket_key) == 0;
}

static bool shake(struct connection *one)
{
    int code = gnutls_handshake(one->session);
    if (code == 0) {
        one->state = OPEN;
        one->until_ms = 0;
    }
    return code == 0 || gnutls_error_is_fatal(code) == 0;
}

/* Does what can be done without waiting. False: the connection is over. */
static bool advance(struct connection *one)
{
    bool goes_on = one->state != WAITING || begin(one);
    goes_on = goes_on && (one->state != SHAKING || shake(one));
    goes_on = goes_on && (one->state != OPEN || carry(one));
    if (goes_on && one->state == LINGERING) {
        ssize_t count = recv(one->outer.fd, record, sizeof record, MSG_DONTWAIT);
        goes_on = count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR));
    }
    return goes_on;
}

/* ---- the thread ------------------------------------------------------------------------------------------------ */

static void drop(size_t place)
{
    struct connection *one = connections[place];
    if (one->session != NULL) {
        gnutls_deinit(one->session);
    }
    (void)close(one->outer.fd); /* leaves the set, too */
    (void)close(one->inner.fd);
    free(one->kept);
    free(one);
    connections[place] = connections[--connection_count];
    (void)atomic_fetch_sub(&taken, 1);
}

static void drop_one(const struct connection *one)
{
    for (size_t i = 0; i < connection_count; i++) {
        if (connections[i] == one) {
            drop(i);
            return;
        }
    }
}

static void serve(struct connection *one)
{
    if (advance(one)) {
        want_what_it_waits_for(one);
    } else {
        drop_one(one);
    }
}

static void arrive(void)
{
    int pair[2];
    while (read(arrivals[0], pair, sizeof pair) == (ssize_t)sizeof pair) {
        struct connection *one = connection_count < TLS_CONNECTIONS_MAX ? calloc(1, sizeof *one) : NULL;
        if (one == NULL) {
            (void)close(pair[0]);
            (void)close(pair[1]);
            (void)atomic_fetch_sub(&taken, 1);
            continue;
        }
        one->outer = (struct end){.connection = one, .fd = pair[0]};
        one->inner = (struct end){.connection = one, .fd = pair[1]};
        one->until_ms = now_ms() + HANDSHAKE_MS;
        connections[connection_count++] = one;
        want_what_it_waits_for(one);
    }
}

/* Takes up what was put off, and ends what has had its time. */
static void look_at_clock(uint64_t now, bool is_new_second)
{
    for (size_t i = connection_count; i-- > 0;) { /* from the end: drop() fills a gap with the last one */
        struct connection *one = connections[i];
        bool is_late = (one->until_ms != 0 && now >= one->until_ms) ||
                       (one->head_until_ms != 0 && now >= one->head_until_ms);
        if (is_late) {
            drop(i);
        } else if (is_new_second && one->is_put_off) {
            one->is_put_off = false;
            want_what_it_waits_for(one);
        }
    }
}

/* The server has closed its end before the stranger was let in: nobody waits for the stranger any more. */
static bool is_left(const struct end *end, uint32_t events)
{
    const struct connection *one = end->connection;
    bool is_broken = end == &one->outer && (events & (EPOLLERR | EPOLLHUP)) != 0;
    return is_broken || (end == &one->inner && (one->state == WAITING || one->state == SHAKING));
}

static void *run(void *context)
{
    uint64_t second = 0;
    for (;;) {
        struct epoll_event events[64];
        int count = epoll_wait(epoll, events, 64, TURN_MS);
        bool has_arrivals = false;
        for (int i = 0; i < count; i++) {
            struct end *end = events[i].data.ptr;
            if (end == NULL) {
                has_arrivals = true;
                continue;
            }
            struct connection *one = end->connection;
            for (int k = i + 1; k < count; k++) { /* its other end in the same turn: `one` may be gone by then */
                struct end *other = events[k].data.ptr;
                if (other != NULL && other->connection == one) {
                    events[k] = events[--count];
                    k--;
                }
            }
            if (is_left(end, events[i].events)) {
                drop_one(one);
            } else {
                serve(one);
            }
        }
        if (has_arrivals) {
            arrive();
        }
        uint64_t now = now_ms();
        bool is_new_second = now / 1000 != second;
        if (is_new_second) {
            second = now / 1000;
            handshakes_left = HANDSHAKES_A_S;
        }
        look_at_clock(now, is_new_second);
    }
    return context;
}

/* ---- what others call ------------------------------------------------------------------------------------------ */

static bool start_thread(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    struct epoll_event arrival = {.events = EPOLLIN, .data.ptr = NULL};
    epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0 || pipe2(arrivals, O_CLOEXEC | O_NONBLOCK) != 0 ||
        epoll_ctl(epoll, EPOLL_CTL_ADD, arrivals[0], &arrival) != 0 || pthread_attr_init(&attributes) != 0) {
        return false;
    }
    bool is_started = pthread_attr_setstacksize(&attributes, STACK_BYTES) == 0 &&
                      pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0 &&
                      pthread_create(&thread, &attributes, run, NULL) == 0;
    (void)pthread_attr_destroy(&attributes);
    return is_started;
}

const char *tls_start(const char *pem, size_t count)
{
    gnutls_datum_t text = {(unsigned char *)(uintptr_t)pem, (unsigned)count};
    int code = gnutls_certificate_allocate_credentials(&credentials);
    code = code == 0 ? gnutls_certificate_set_x509_key_mem(credentials, &text, &text, GNUTLS_X509_FMT_PEM) : code;
    code = code == 0 ? gnutls_priority_init(&priority, TLS_PRIORITY, NULL) : code;
    code = code == 0 ? gnutls_session_ticket_key_generate(&ticket_key) : code;
    if (code != 0) {
        return gnutls_strerror(code);
    }
    return start_thread() ? NULL : strerror(errno);
}

int tls_take(int fd)
{
    int ends[2];
    if (atomic_fetch_add(&taken, 1) >= TLS_CONNECTIONS_MAX ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        (void)atomic_fetch_sub(&taken, 1);
        (void)close(fd);
        return -1;
    }
    int pair[2] = {fd, ends[0]};
    if (write(arrivals[1], pair, sizeof pair) != (ssize_t)sizeof pair) { /* whole or not at all: pipe(7) */
        (void)atomic_fetch_sub(&taken, 1);
        (void)close(fd);
        (void)close(ends[0]);
        (void)close(ends[1]);
        return -1;
    }
    return ends[1];
}

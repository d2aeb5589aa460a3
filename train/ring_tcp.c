#include "train/ring_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <openssl/evp.h>
#include <poll.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements travel as they lie in memory");

#define NONCE_BYTES 32
#define MAC_BYTES 32
#define MEMBERS_HASH_BYTES 32
#define HELLO_SIGNED_BYTES (8 + 4 + 4 + 8 + MEMBERS_HASH_BYTES + NONCE_BYTES)
#define HELLO_BYTES (HELLO_SIGNED_BYTES + MAC_BYTES)
#define REPLY_BYTES (NONCE_BYTES + MAC_BYTES)
#define TRANSCRIPT_BYTES (HELLO_SIGNED_BYTES + NONCE_BYTES)
#define HANDSHAKE_MS 2000
#define PENDING_MAX 32
#define RECORD_BYTES (RING_HEADER_BYTES + RING_PIECE_BYTES + RING_TAG_BYTES)
#define BUFFER_BYTES (4 * RECORD_BYTES)

static const char magic[8] = {'S', 'H', 'O', 'A', 'L', 'R', 'G', '1'};

/* One direction of one connection after the handshake. */
struct link {
    int fd;
    EVP_CIPHER_CTX *cipher;
    uint64_t sequence; /* of the next record */
    uint8_t *buffer;   /* BUFFER_BYTES; bytes [taken, used) are not sent or not read yet */
    size_t taken, used;
};

struct ring_tcp {
    uint32_t rank, size;
    uint64_t generation;
    uint64_t operation; /* of the collective that runs or ran last */
    uint8_t key[RING_KEY_BYTES];
    uint8_t members_hash[MEMBERS_HASH_BYTES];
    int stall_timeout_ms;
    struct link next, previous;
    _Alignas(16) uint8_t piece[RING_PIECE_BYTES]; /* what arrived, before it is added */
    uint32_t refused;
    int broken; /* the error that ended the ring, or 0 */
    char error[RING_ERROR_BYTES];
};

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static struct addrinfo *resolve(const char *host, uint16_t port)
{
    char service[8];
    (void)snprintf(service, sizeof service, "%u", port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    return getaddrinfo(host, service, &hints, &list) == 0 ? list : NULL;
}

int ring_tcp_listen(const char *host, int *listen_fd, uint16_t *port)
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

/* ---- keys ---- */

static void keyed_hash(const struct ring_tcp *ring, const char *label, const uint8_t *bytes, size_t count,
                       uint8_t out[32])
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, ring->key, sizeof ring->key, 32);
    (void)crypto_generichash_update(&state, (const uint8_t *)label, strlen(label) + 1);
    (void)crypto_generichash_update(&state, bytes, count);
    (void)crypto_generichash_final(&state, out, 32);
}

static bool mac_holds(const struct ring_tcp *ring, const char *label, const uint8_t *bytes, size_t count,
                      const uint8_t mac[MAC_BYTES])
{
    uint8_t expected[MAC_BYTES];
    keyed_hash(ring, label, bytes, count, expected);
    return sodium_memcmp(expected, mac, sizeof expected) == 0;
}

static void hash_members(struct ring_tcp *ring, const struct ring_tcp_options *options)
{
    crypto_generichash_state state;
    (void)crypto_generichash_init(&state, NULL, 0, MEMBERS_HASH_BYTES);
    (void)crypto_generichash_update(&state, (const uint8_t *)options->group, strlen(options->group) + 1);
    for (uint32_t i = 0; i < options->size; i++) {
        uint8_t port[2];
        bytes_put_u16(port, options->members[i].port);
        (void)crypto_generichash_update(&state, (const uint8_t *)options->members[i].host,
                                        strlen(options->members[i].host) + 1);
        (void)crypto_generichash_update(&state, port, sizeof port);
    }
    (void)crypto_generichash_final(&state, ring->members_hash, MEMBERS_HASH_BYTES);
}

/* Takes `fd` and readies one direction of it: `seals` on the sending side. */
static int link_start(const struct ring_tcp *ring, struct link *link, int fd, const uint8_t transcript[TRANSCRIPT_BYTES],
                      bool seals)
{
    uint8_t key[32];
    keyed_hash(ring, "data key", transcript, TRANSCRIPT_BYTES, key);
    int done = EVP_CipherInit_ex(link->cipher, EVP_aes_256_gcm(), NULL, key, NULL, seals);
    sodium_memzero(key, sizeof key);
    if (link->fd >= 0) {
        (void)close(link->fd); /* the same peer has connected again: the newer connection counts */
    }
    link->fd = fd;
    link->sequence = 0;
    link->taken = link->used = 0;
    return done == 1 ? 0 : ERR_IO;
}

/* ---- handshake, connecting side ---- */

enum stage { IDLE, CONNECTING, WAIT_REPLY, WAIT_READY, DONE };

struct connector {
    enum stage stage;
    int fd;
    uint64_t when_ms; /* IDLE: of the next try; else the deadline of this one */
    uint8_t transcript[TRANSCRIPT_BYTES];
    uint8_t input[REPLY_BYTES];
    size_t used;
};

static void set_no_delay(int fd)
{
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* Handshake messages are small and the first of their connection: they fit the empty socket buffer or it is broken. */
static bool send_small(int fd, const uint8_t *bytes, size_t count)
{
    return send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count;
}

/* Reads towards `want` bytes. 1 complete, 0 not yet, -1 broken. */
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
    *c = (struct connector){.stage = IDLE, .fd = -1, .when_ms = now_ms + 100};
}

static void connector_begin(struct connector *c, const struct ring_tcp_member *member, uint64_t now_ms)
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
    c->when_ms = now_ms + 2 * HANDSHAKE_MS; /* longer than the acceptor's patience, so that it gives up first */
}

static bool connector_hello(const struct ring_tcp *ring, struct connector *c)
{
    int error = 0;
    socklen_t error_bytes = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes) != 0 || error != 0) {
        return false;
    }
    uint8_t hello[HELLO_BYTES];
    memcpy(hello, magic, 8);
    bytes_put_u32(hello + 8, ring->rank);
    bytes_put_u32(hello + 12, (ring->rank + 1) % ring->size);
    bytes_put_u64(hello + 16, ring->generation);
    memcpy(hello + 24, ring->members_hash, MEMBERS_HASH_BYTES);
    randombytes_buf(hello + 24 + MEMBERS_HASH_BYTES, NONCE_BYTES);
    keyed_hash(ring, "hello", hello, HELLO_SIGNED_BYTES, hello + HELLO_SIGNED_BYTES);
    memcpy(c->transcript, hello, HELLO_SIGNED_BYTES);
    c->stage = WAIT_REPLY;
    return send_small(c->fd, hello, sizeof hello);
}

static bool connector_reply(const struct ring_tcp *ring, struct connector *c)
{
    memcpy(c->transcript + HELLO_SIGNED_BYTES, c->input, NONCE_BYTES);
    if (!mac_holds(ring, "reply", c->transcript, TRANSCRIPT_BYTES, c->input + NONCE_BYTES)) {
        return false;
    }
    uint8_t confirm[MAC_BYTES];
    keyed_hash(ring, "confirm", c->transcript, TRANSCRIPT_BYTES, confirm);
    c->stage = WAIT_READY;
    c->used = 0;
    return send_small(c->fd, confirm, sizeof confirm);
}

static void connector_step(struct ring_tcp *ring, struct connector *c, short events, uint64_t now_ms)
{
    bool good = now_ms < c->when_ms;
    if (good && c->stage == CONNECTING && events != 0) {
        good = connector_hello(ring, c);
    } else if (good && c->stage == WAIT_REPLY && events != 0) {
        int n = read_towards(c->fd, c->input, &c->used, REPLY_BYTES);
        good = n == 0 || (n == 1 && connector_reply(ring, c));
    } else if (good && c->stage == WAIT_READY && events != 0) {
        int n = read_towards(c->fd, c->input, &c->used, MAC_BYTES);
        good = n >= 0;
        if (n == 1) {
            good = mac_holds(ring, "ready", c->transcript, TRANSCRIPT_BYTES, c->input);
            if (good && link_start(ring, &ring->next, c->fd, c->transcript, true) == 0) {
                c->stage = DONE;
                c->fd = -1;
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
    uint64_t deadline_ms;
    uint8_t transcript[TRANSCRIPT_BYTES];
    uint8_t input[HELLO_BYTES];
    size_t used;
};

static void pending_drop(struct ring_tcp *ring, struct pending *p)
{
    (void)close(p->fd);
    p->fd = -1;
    ring->refused++;
}

static bool pending_hello(const struct ring_tcp *ring, struct pending *p)
{
    const uint8_t *hello = p->input;
    uint32_t sender = (ring->rank + ring->size - 1) % ring->size;
    if (memcmp(hello, magic, 8) != 0 || bytes_get_u32(hello + 8) != sender || bytes_get_u32(hello + 12) != ring->rank ||
        bytes_get_u64(hello + 16) != ring->generation || memcmp(hello + 24, ring->members_hash, MEMBERS_HASH_BYTES) != 0 ||
        !mac_holds(ring, "hello", hello, HELLO_SIGNED_BYTES, hello + HELLO_SIGNED_BYTES)) {
        return false;
    }
    uint8_t reply[REPLY_BYTES];
    randombytes_buf(reply, NONCE_BYTES);
    memcpy(p->transcript, hello, HELLO_SIGNED_BYTES);
    memcpy(p->transcript + HELLO_SIGNED_BYTES, reply, NONCE_BYTES);
    keyed_hash(ring, "reply", p->transcript, TRANSCRIPT_BYTES, reply + NONCE_BYTES);
    p->answered = true;
    p->used = 0;
    return send_small(p->fd, reply, sizeof reply);
}

/* True when the real peer has proved itself; its descriptor then belongs to ring->previous. */
static bool pending_step(struct ring_tcp *ring, struct pending *p)
{
    int n = read_towards(p->fd, p->input, &p->used, p->answered ? MAC_BYTES : HELLO_BYTES);
    if (n == 0) {
        return false;
    }
    if (n == 1 && !p->answered && pending_hello(ring, p)) {
        return false;
    }
    uint8_t ready[MAC_BYTES];
    keyed_hash(ring, "ready", p->transcript, TRANSCRIPT_BYTES, ready);
    if (n < 0 || !p->answered || p->used != MAC_BYTES ||
        !mac_holds(ring, "confirm", p->transcript, TRANSCRIPT_BYTES, p->input) ||
        !send_small(p->fd, ready, sizeof ready)) {
        pending_drop(ring, p);
        return false;
    }
    int fd = p->fd;
    p->fd = -1;
    return link_start(ring, &ring->previous, fd, p->transcript, false) == 0;
}

static void pending_accept(struct ring_tcp *ring, struct pending *all, int listen_fd, uint64_t now_ms)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    set_no_delay(fd);
    struct pending *place = &all[0]; /* a free one, else the one that has taken longest */
    for (size_t i = 0; i < PENDING_MAX && place->fd >= 0; i++) {
        if (all[i].fd < 0 || all[i].deadline_ms < place->deadline_ms) {
            place = &all[i];
        }
    }
    if (place->fd >= 0) {
        pending_drop(ring, place);
    }
    *place = (struct pending){.fd = fd, .deadline_ms = now_ms + HANDSHAKE_MS};
}

/* ---- open and close ---- */

static int meet_neighbours(struct ring_tcp *ring, int listen_fd, const struct ring_tcp_options *options)
{
    const struct ring_tcp_member *next = &options->members[(ring->rank + 1) % ring->size];
    struct connector connector = {.stage = IDLE, .fd = -1};
    struct pending pending[PENDING_MAX];
    for (size_t i = 0; i < PENDING_MAX; i++) {
        pending[i] = (struct pending){.fd = -1};
    }
    uint64_t deadline_ms = clock_ms() + (uint64_t)options->open_timeout_ms;
    int result = 0;
    while (connector.stage != DONE || ring->previous.fd < 0) {
        uint64_t now_ms = clock_ms();
        if (now_ms >= deadline_ms) {
            result = ERR_TIMEOUT;
            break;
        }
        if (connector.stage == IDLE && now_ms >= connector.when_ms) {
            connector_begin(&connector, next, now_ms);
        }
        struct pollfd fds[PENDING_MAX + 2];
        for (size_t i = 0; i < PENDING_MAX; i++) {
            fds[i] = (struct pollfd){.fd = pending[i].fd, .events = POLLIN};
        }
        fds[PENDING_MAX] = (struct pollfd){.fd = listen_fd, .events = POLLIN};
        fds[PENDING_MAX + 1] =
            (struct pollfd){.fd = connector.fd, .events = connector.stage == CONNECTING ? POLLOUT : POLLIN};
        (void)poll(fds, PENDING_MAX + 2, 50);
        now_ms = clock_ms();
        for (size_t i = 0; i < PENDING_MAX; i++) {
            if (pending[i].fd >= 0 && fds[i].revents != 0) {
                (void)pending_step(ring, &pending[i]);
            }
            if (pending[i].fd >= 0 && now_ms >= pending[i].deadline_ms) {
                pending_drop(ring, &pending[i]);
            }
        }
        if (fds[PENDING_MAX].revents != 0) {
            pending_accept(ring, pending, listen_fd, now_ms);
        }
        if (connector.stage != IDLE && connector.stage != DONE) {
            connector_step(ring, &connector, fds[PENDING_MAX + 1].revents, now_ms);
        }
    }
    for (size_t i = 0; i < PENDING_MAX; i++) {
        if (pending[i].fd >= 0) {
            pending_drop(ring, &pending[i]);
        }
    }
    if (connector.fd >= 0) {
        (void)close(connector.fd);
    }
    if (result != 0) {
        (void)snprintf(ring->error, sizeof ring->error,
                       "rank %u of %u could not %s within %d s: check that the workers' hosts reach each other by TCP",
                       ring->rank, ring->size,
                       connector.stage != DONE ? "connect to the next rank" : "hear from the rank before it",
                       options->open_timeout_ms / 1000);
    }
    return result;
}

int ring_tcp_open(struct ring_tcp **out, int listen_fd, const struct ring_tcp_options *options,
                  char error[RING_ERROR_BYTES])
{
    int result = ERR_USAGE;
    struct ring_tcp *ring = NULL;
    if (options->size < 1 || options->size > RING_RANKS_MAX || options->rank >= options->size || sodium_init() < 0) {
        (void)snprintf(error, RING_ERROR_BYTES, "a group has 1 to %d ranks; rank %u of %u is none", RING_RANKS_MAX,
                       options->rank, options->size);
        goto out_close_listener;
    }
    result = ERR_MEMORY;
    (void)snprintf(error, RING_ERROR_BYTES, "no memory is left for the ring's buffers");
    ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        goto out_close_listener;
    }
    ring->rank = options->rank;
    ring->size = options->size;
    ring->generation = options->generation;
    ring->stall_timeout_ms = options->stall_timeout_ms;
    ring->next.fd = ring->previous.fd = -1;
    if (ring->size > 1) {
        memcpy(ring->key, options->key, sizeof ring->key);
        hash_members(ring, options);
        ring->next.buffer = malloc(BUFFER_BYTES);
        ring->previous.buffer = malloc(BUFFER_BYTES);
        ring->next.cipher = EVP_CIPHER_CTX_new();
        ring->previous.cipher = EVP_CIPHER_CTX_new();
        if (ring->next.buffer == NULL || ring->previous.buffer == NULL || ring->next.cipher == NULL ||
            ring->previous.cipher == NULL) {
            goto out_close_ring;
        }
        result = meet_neighbours(ring, listen_fd, options);
        sodium_memzero(ring->key, sizeof ring->key);
        if (result != 0) {
            bytes_copy_text(error, RING_ERROR_BYTES, ring->error);
            goto out_close_ring;
        }
    }
    error[0] = 0;
    *out = ring;
    ring = NULL;
    result = 0;
out_close_ring:
    ring_tcp_close(&ring);
out_close_listener:
    if (listen_fd >= 0) {
        (void)close(listen_fd);
    }
    return result;
}

static void link_close(struct link *link)
{
    if (link->fd >= 0) {
        (void)close(link->fd);
    }
    EVP_CIPHER_CTX_free(link->cipher);
    free(link->buffer);
}

void ring_tcp_close(struct ring_tcp **ring)
{
    if (*ring != NULL) {
        link_close(&(*ring)->next);
        link_close(&(*ring)->previous);
        sodium_memzero(*ring, sizeof **ring);
        free(*ring);
        *ring = NULL;
    }
}

void ring_tcp_set_timeout(struct ring_tcp *ring, int stall_timeout_ms)
{
    ring->stall_timeout_ms = stall_timeout_ms;
}

const char *ring_tcp_error(const struct ring_tcp *ring)
{
    return ring->error;
}

uint32_t ring_tcp_refused(const struct ring_tcp *ring)
{
    return ring->refused;
}

/* ---- records ---- */

/* Ends the ring. Closing both directions lets the neighbours fail too, and theirs, round the ring. */
__attribute__((format(printf, 3, 4))) static int fail(struct ring_tcp *ring, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(ring->error, sizeof ring->error, format, arguments);
    va_end(arguments);
    ring->broken = error;
    (void)shutdown(ring->next.fd, SHUT_RDWR);
    (void)shutdown(ring->previous.fd, SHUT_RDWR);
    return error;
}

static void header_fill(const struct ring_tcp *ring, const struct ring_plan *plan, const struct ring_transfer *transfer,
                        uint64_t sequence, uint32_t length, uint8_t out[RING_HEADER_BYTES])
{
    bytes_put_u32(out, length);
    bytes_put_u16(out + 4, (uint16_t)plan->kind);
    bytes_put_u16(out + 6, (uint16_t)transfer->step);
    bytes_put_u64(out + 8, sequence);
    bytes_put_u64(out + 16, ring->generation);
    bytes_put_u64(out + 24, ring->operation);
    bytes_put_u64(out + 32, plan->count);
    bytes_put_u64(out + 40, transfer->offset);
    memcpy(out + 48, ring->members_hash, 16);
}

static void nonce_fill(uint64_t sequence, uint8_t out[12])
{
    memset(out, 0, 4);
    bytes_put_u64(out + 4, sequence);
}

static int seal_record(struct ring_tcp *ring, const struct ring_plan *plan, const struct ring_transfer *transfer,
                       const uint8_t *bytes, uint32_t length)
{
    struct link *link = &ring->next;
    uint8_t *record = link->buffer + link->used;
    header_fill(ring, plan, transfer, link->sequence, length, record);
    uint8_t nonce[12];
    nonce_fill(link->sequence, nonce);
    uint8_t *body = record + RING_HEADER_BYTES;
    int n;
    bool done = EVP_EncryptInit_ex(link->cipher, NULL, NULL, NULL, nonce) == 1 &&
                EVP_EncryptUpdate(link->cipher, NULL, &n, record, RING_HEADER_BYTES) == 1 &&
                (length == 0 || EVP_EncryptUpdate(link->cipher, body, &n, bytes, (int)length) == 1) &&
                EVP_EncryptFinal_ex(link->cipher, body + length, &n) == 1 &&
                EVP_CIPHER_CTX_ctrl(link->cipher, EVP_CTRL_GCM_GET_TAG, RING_TAG_BYTES, body + length) == 1;
    if (!done) {
        return fail(ring, ERR_IO, "rank %u could not encrypt", ring->rank);
    }
    link->sequence++;
    link->used += RING_HEADER_BYTES + length + RING_TAG_BYTES;
    return 0;
}

/* Decrypts `length` bytes after the header at `record` into `out`. */
static bool open_record(struct link *link, const uint8_t *record, uint32_t length, uint8_t *out)
{
    uint8_t nonce[12];
    nonce_fill(link->sequence, nonce);
    uint8_t tag[RING_TAG_BYTES];
    memcpy(tag, record + RING_HEADER_BYTES + length, sizeof tag);
    int n;
    return EVP_DecryptInit_ex(link->cipher, NULL, NULL, NULL, nonce) == 1 &&
           EVP_DecryptUpdate(link->cipher, NULL, &n, record, RING_HEADER_BYTES) == 1 &&
           (length == 0 || EVP_DecryptUpdate(link->cipher, out, &n, record + RING_HEADER_BYTES, (int)length) == 1) &&
           EVP_CIPHER_CTX_ctrl(link->cipher, EVP_CTRL_GCM_SET_TAG, RING_TAG_BYTES, tag) == 1 &&
           EVP_DecryptFinal_ex(link->cipher, tag, &n) == 1;
}

static void add_floats(float *to, const float *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += from[i];
    }
}

/* Takes one record from what has arrived: 1 taken, 0 not all there yet, or an error. */
static int take_record(struct ring_tcp *ring, const struct ring_plan *plan, const struct ring_transfer *transfer,
                       uint8_t *data, size_t element_bytes)
{
    struct link *link = &ring->previous;
    const uint8_t *record = link->buffer + link->taken;
    size_t left = link->used - link->taken;
    uint32_t from = (ring->rank + ring->size - 1) % ring->size;
    if (left < RING_HEADER_BYTES) {
        return 0;
    }
    uint32_t length = bytes_get_u32(record);
    if (length > RING_PIECE_BYTES) {
        return fail(ring, ERR_MALFORMED, "rank %u sent bytes that are no record", from);
    }
    if (left < RING_HEADER_BYTES + (size_t)length + RING_TAG_BYTES) {
        return 0;
    }
    /* Into a place of our own first: until the tag holds and the header says what we expect, nothing reaches `data`. */
    if (!open_record(link, record, length, ring->piece)) {
        return fail(ring, ERR_AUTH, "a record from rank %u is forged or damaged", from);
    }
    uint8_t expected[RING_HEADER_BYTES];
    header_fill(ring, plan, transfer, link->sequence, (uint32_t)(transfer->count * element_bytes), expected);
    if (memcmp(record, expected, sizeof expected) != 0) {
        return fail(ring, ERR_MALFORMED,
                    "rank %u is in operation %llu (kind %u, %llu elements), rank %u in %llu (kind %u, %llu elements): every "
                    "rank must call the same collectives with the same lengths",
                    from, (unsigned long long)bytes_get_u64(record + 24), bytes_get_u16(record + 4),
                    (unsigned long long)bytes_get_u64(record + 32), ring->rank, (unsigned long long)ring->operation,
                    (unsigned)plan->kind, (unsigned long long)plan->count);
    }
    uint8_t *place = data + transfer->offset * element_bytes;
    if (transfer->add) {
        add_floats((float *)(void *)place, (const float *)(const void *)ring->piece, transfer->count);
    } else if (length > 0) {
        memcpy(place, ring->piece, length);
    }
    link->sequence++;
    link->taken += RING_HEADER_BYTES + (size_t)length + RING_TAG_BYTES;
    if (link->taken == link->used) {
        link->taken = link->used = 0;
    }
    return 1;
}

/* 1 bytes moved, 0 none for now, or an error. */
static int read_more(struct ring_tcp *ring)
{
    struct link *link = &ring->previous;
    if (link->taken > 0) {
        memmove(link->buffer, link->buffer + link->taken, link->used - link->taken);
        link->used -= link->taken;
        link->taken = 0;
    }
    ssize_t n = recv(link->fd, link->buffer + link->used, BUFFER_BYTES - link->used, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n <= 0) {
        return fail(ring, ERR_CLOSED, "rank %u lost rank %u: its connection closed", ring->rank,
                    (ring->rank + ring->size - 1) % ring->size);
    }
    link->used += (size_t)n;
    return 1;
}

static int write_more(struct ring_tcp *ring)
{
    struct link *link = &ring->next;
    if (link->taken == link->used) {
        return 0;
    }
    ssize_t n = send(link->fd, link->buffer + link->taken, link->used - link->taken, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n < 0) {
        return fail(ring, ERR_CLOSED, "rank %u lost rank %u: its connection closed", ring->rank,
                    (ring->rank + 1) % ring->size);
    }
    link->taken += (size_t)n;
    if (link->taken == link->used) {
        link->taken = link->used = 0;
    }
    return n > 0;
}

/* Waits until something can move. The next rank never says anything after the handshake, so what is readable there
 * while we still have to send means that it is gone; once all is sent it may leave before us, which is fine. */
static int wait_for_movement(struct ring_tcp *ring, bool sends, bool receives, uint64_t stalled_since_ms)
{
    uint64_t waited_ms = clock_ms() - stalled_since_ms;
    if (waited_ms >= (uint64_t)ring->stall_timeout_ms) {
        return fail(ring, ERR_TIMEOUT, "a collective stalled on rank %u: nothing moved for %d ms (waiting for rank %u)",
                    ring->rank, ring->stall_timeout_ms,
                    receives ? (ring->rank + ring->size - 1) % ring->size : (ring->rank + 1) % ring->size);
    }
    bool unsent = ring->next.used > ring->next.taken;
    struct pollfd fds[2] = {
        {.fd = sends ? ring->next.fd : -1, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))},
        {.fd = receives ? ring->previous.fd : -1, .events = POLLIN},
    };
    int ready = poll(fds, 2, ring->stall_timeout_ms - (int)waited_ms);
    if (ready > 0 && (fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
        return fail(ring, ERR_CLOSED, "rank %u lost rank %u: its connection closed", ring->rank,
                    (ring->rank + 1) % ring->size);
    }
    return 0;
}

static int run(struct ring_tcp *ring, const struct ring_plan *plan, uint8_t *data, size_t element_bytes)
{
    struct ring_cursor sent = {0}, received = {0};
    struct ring_transfer transfer;
    uint64_t stalled_since_ms = 0;
    for (;;) {
        int moved = 0;
        bool to_send;
        while ((to_send = ring_plan_send(plan, &sent, &transfer)) && ring_plan_send_ready(plan, &sent, &received) &&
               BUFFER_BYTES - ring->next.used >= RECORD_BYTES) {
            int error = seal_record(ring, plan, &transfer, data + transfer.offset * element_bytes,
                                    (uint32_t)(transfer.count * element_bytes));
            if (error != 0) {
                return error;
            }
            ring_plan_send_advance(plan, &sent);
            moved = 1;
        }
        int wrote = write_more(ring);
        if (wrote < 0) {
            return wrote;
        }
        bool to_receive = ring_plan_receive(plan, &received, &transfer);
        if (to_receive) {
            int took = take_record(ring, plan, &transfer, data, element_bytes);
            if (took == 1) {
                ring_plan_receive_advance(plan, &received);
            } else if (took == 0) {
                took = read_more(ring);
            }
            if (took < 0) {
                return took;
            }
            moved |= took;
        }
        bool unsent = ring->next.used > ring->next.taken;
        if (!to_send && !to_receive && !unsent) {
            return 0;
        }
        if (moved > 0 || wrote > 0) {
            stalled_since_ms = 0;
            continue;
        }
        if (stalled_since_ms == 0) {
            stalled_since_ms = clock_ms();
        }
        int error = wait_for_movement(ring, to_send || unsent, to_receive, stalled_since_ms);
        if (error != 0) {
            return error;
        }
    }
}

int ring_tcp_all_reduce(struct ring_tcp *ring, float *values, uint64_t count)
{
    if (ring->broken != 0 || ring->size == 1) {
        return ring->broken;
    }
    CHECK(count <= UINT64_MAX / RING_RANKS_MAX / sizeof(float));
    ring->operation++;
    struct ring_plan plan = ring_plan_all_reduce(ring->rank, ring->size, count, RING_PIECE_BYTES / sizeof(float));
    return run(ring, &plan, (uint8_t *)values, sizeof(float));
}

int ring_tcp_broadcast(struct ring_tcp *ring, void *bytes, uint64_t count, uint32_t root)
{
    if (root >= ring->size) {
        return ERR_USAGE;
    }
    if (ring->broken != 0 || ring->size == 1) {
        return ring->broken;
    }
    CHECK(count <= UINT64_MAX / RING_RANKS_MAX);
    ring->operation++;
    struct ring_plan plan = ring_plan_broadcast(ring->rank, ring->size, root, count, RING_PIECE_BYTES);
    return run(ring, &plan, bytes, 1);
}

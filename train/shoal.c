/* libshoal. Two halves that do not wait for each other: the ring to the other workers (train/ring_tcp.h), and the
 * connection to the daemon, which may go away and come back.
 *
 * The daemon's half is a queue of requests in the order of the program's calls. Reports and saves carry an id and stay in
 * the queue until they are answered; when the connection breaks, whatever is left is sent again after worker_open. The
 * daemon may so see a report twice (the answer was lost); it is the same point of the same series. `pump` moves what can
 * be moved without waiting; the calls of the program drive it. */

#include "train/shoal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/pack.h"
#include "train/hparams.h"
#include "train/ring_tcp.h"

#define PROTOCOL_VERSION 1
#define TOKEN_DIGITS 32
#define REQUEST_BYTES_MAX 16384 /* packed, without the frame's head */
#define QUEUE_SLOTS (SHOAL_QUEUE_MAX + 8) /* reports, and always room for the two saves, progress and one call */
#define RETRY_MS 200
#define OPEN_REPLY_MS 10000
#define AWAY_MS 60000     /* without a daemon for so long: it is lost */
#define REFUSED_MS 10000  /* a daemon just back may not know its workers yet */
#define GROUP_MS 300000   /* the coordinator gives up an incomplete group long before */
#define ANSWER_MS 50000   /* less than a collective's patience: the others wait for us meanwhile */
#define PROGRESS_MS 200

enum state { ALONE, AWAY, OPENING, OPEN, LOST, REFUSED };

struct request {
    uint64_t id; /* 0: no answer comes */
    int fd;      /* rides along; not ours to close here */
    bool wanted; /* somebody waits for the answer */
    size_t bytes, sent; /* what is sent counts the frame's head, too */
    uint8_t frame[];
};

struct save_buffer {
    int fd;
    uint8_t *map;
    size_t capacity_bytes;
    size_t count;
    uint64_t request_id; /* 0: free */
};

struct shoal {
    enum state state;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    char token[TOKEN_DIGITS + 1];
    int fd;
    struct frame_reader reader;
    uint64_t away_since_ms, next_try_ms, open_until_ms;
    bool was_open;
    struct request *opening; /* the worker_open of this connection, until it is answered */
    struct request *queue[QUEUE_SLOTS];
    size_t queue_count, sent_count; /* the first sent_count wait for answers only */
    uint64_t last_id;
    uint64_t progress_at_ms;

    uint8_t *answer; /* of the request that somebody waits for */
    size_t answer_bytes;
    int answer_fd;

    struct save_buffer saves[2];
    int filling; /* the buffer between begin and commit, or -1 */
    void *scratch; /* outside Shoal */

    struct ring_tcp *ring;
    char experiment[64];
    uint32_t trial, attempt, rank, size;
    uint64_t generation, seed, start_step, durable_step;
    char host[RING_HOST_BYTES];
    uint8_t *hparams;
    size_t hparams_bytes;
    bool stop;
    int refused; /* ERR_REFUSED when the daemon refused a report or save that nobody has heard of yet */
    char error[SHOAL_ERROR_BYTES];
};

static uint64_t clock_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

__attribute__((format(printf, 3, 4))) static int fail(struct shoal *s, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->error, sizeof s->error, format, arguments);
    va_end(arguments);
    return error;
}

/* ---- requests ---- */

/* Starts {"v", "id", "op", ...}: `arguments` more pairs follow. */
static void request_begin(struct pack_writer *writer, uint8_t bytes[REQUEST_BYTES_MAX], uint64_t id, const char *op,
                          uint32_t arguments)
{
    pack_writer_init(writer, bytes, REQUEST_BYTES_MAX);
    pack_map(writer, 3 + arguments);
    pack_text(writer, "v");
    pack_u64(writer, PROTOCOL_VERSION);
    pack_text(writer, "id");
    pack_u64(writer, id);
    pack_text(writer, "op");
    pack_text(writer, op);
}

/* ERR_USAGE when it was too large, ERR_MEMORY. */
static int request_new(struct request **out, const struct pack_writer *writer, uint64_t id, int fd)
{
    if (writer->failed) {
        return ERR_USAGE;
    }
    struct request *request = malloc(sizeof *request + writer->used_bytes);
    if (request == NULL) {
        return ERR_MEMORY;
    }
    *request = (struct request){.id = id, .fd = fd, .bytes = writer->used_bytes};
    memcpy(request->frame, writer->bytes, writer->used_bytes);
    *out = request;
    return 0;
}

static void queue_remove(struct shoal *s, size_t index)
{
    free(s->queue[index]);
    s->queue_count--;
    memmove(&s->queue[index], &s->queue[index + 1], (s->queue_count - index) * sizeof s->queue[0]);
    if (index < s->sent_count) {
        s->sent_count--;
    }
}

static int queue_push(struct shoal *s, const struct pack_writer *writer, uint64_t id, int fd, size_t limit)
{
    if (s->queue_count >= limit) {
        return fail(s, ERR_FULL, "%zu requests wait for the daemon already", s->queue_count);
    }
    int error = request_new(&s->queue[s->queue_count], writer, id, fd);
    if (error != 0) {
        return fail(s, error, "a request to the daemon is too large, or no memory is left");
    }
    s->queue_count++;
    return 0;
}

/* ---- the connection ---- */

static void disconnect(struct shoal *s, uint64_t retry_ms)
{
    if (s->fd >= 0) {
        (void)close(s->fd);
        s->fd = -1;
    }
    frame_reader_close(&s->reader);
    frame_reader_init(&s->reader, s->reader.buffer, s->reader.capacity_bytes);
    free(s->opening);
    s->opening = NULL;
    uint64_t now_ms = clock_ms();
    if (s->state == OPEN) {
        s->away_since_ms = now_ms;
    }
    s->state = AWAY;
    s->next_try_ms = now_ms + retry_ms;
    for (size_t i = s->queue_count; i-- > 0;) {
        s->queue[i]->sent = 0;
        if (s->queue[i]->id == 0) {
            queue_remove(s, i);
        }
    }
    s->sent_count = 0;
}

static void connect_daemon(struct shoal *s)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    bytes_copy_text(address.sun_path, sizeof address.sun_path, s->socket_path);
    s->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0 || connect(s->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        disconnect(s, RETRY_MS);
        return;
    }
    uint8_t bytes[REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    request_begin(&writer, bytes, id, "worker_open", 2);
    pack_text(&writer, "token");
    pack_text(&writer, s->token);
    pack_text(&writer, "pid");
    pack_u64(&writer, (uint64_t)getpid());
    if (request_new(&s->opening, &writer, id, -1) != 0) {
        disconnect(s, RETRY_MS);
        return;
    }
    s->state = OPENING;
    s->open_until_ms = clock_ms() + OPEN_REPLY_MS;
}

/* 1 all sent, 0 the socket is full, ERR_CLOSED. */
static int request_send(int socket_fd, struct request *request)
{
    int error = frame_send_some(socket_fd, request->frame, request->bytes, request->fd, &request->sent);
    return error == 0 ? 1 : error == ERR_AGAIN ? 0 : ERR_CLOSED;
}

static int send_waiting(struct shoal *s)
{
    if (s->state == OPENING) {
        return request_send(s->fd, s->opening);
    }
    while (s->sent_count < s->queue_count) {
        struct request *request = s->queue[s->sent_count];
        int sent = request_send(s->fd, request);
        if (sent <= 0) {
            return sent;
        }
        if (request->id == 0) {
            queue_remove(s, s->sent_count);
        } else {
            s->sent_count++;
        }
    }
    return 1;
}

static void copy_reply_error(struct shoal *s, const struct pack_reader *reply)
{
    struct pack_reader text = pack_find(reply, "error");
    size_t bytes;
    const char *sentence = pack_read_text(&text, &bytes);
    if (text.failed || bytes == 0) {
        (void)fail(s, ERR_REFUSED, "the daemon refused without saying why");
    } else {
        (void)fail(s, ERR_REFUSED, "%.*s", (int)(bytes < 400 ? bytes : 400), sentence);
    }
}

static bool reply_is_ok(const struct pack_reader *reply)
{
    struct pack_reader ok = pack_find(reply, "ok");
    return pack_read_bool(&ok) && !ok.failed;
}

static uint64_t find_u64(const struct pack_reader *map, const char *key, uint64_t max, bool *failed)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = pack_read_u64_max(&value, max);
    *failed = *failed || value.failed;
    return number;
}

/* What worker_open says about us. It is read once: after a daemon's restart it says the same. */
static int read_identity(struct shoal *s, const struct pack_reader *reply)
{
    bool failed = false;
    struct pack_reader experiment = pack_find(reply, "experiment"), host = pack_find(reply, "host");
    pack_read_text_copy(&experiment, s->experiment, sizeof s->experiment);
    pack_read_text_copy(&host, s->host, sizeof s->host);
    s->trial = (uint32_t)find_u64(reply, "trial", UINT32_MAX, &failed);
    s->attempt = (uint32_t)find_u64(reply, "attempt", UINT32_MAX, &failed);
    s->generation = find_u64(reply, "generation", UINT64_MAX, &failed);
    s->size = (uint32_t)find_u64(reply, "size", RING_RANKS_MAX, &failed);
    s->rank = (uint32_t)find_u64(reply, "rank", RING_RANKS_MAX - 1, &failed);
    s->seed = find_u64(reply, "seed", UINT64_MAX, &failed);
    s->start_step = find_u64(reply, "step", UINT64_MAX, &failed);
    struct pack_reader map = pack_find(reply, "hyperparameters");
    if (failed || experiment.failed || host.failed || map.failed || pack_peek(&map) != PACK_MAP || s->size < 1 ||
        s->rank >= s->size || map.count > HPARAMS_BYTES_MAX) {
        return fail(s, ERR_MALFORMED, "the daemon's answer to worker_open does not follow the protocol");
    }
    s->hparams = malloc(map.count);
    if (s->hparams == NULL) {
        return fail(s, ERR_MEMORY, "no memory is left for the hyperparameters");
    }
    memcpy(s->hparams, map.bytes, map.count);
    s->hparams_bytes = map.count;
    return 0;
}

static void take_open_reply(struct shoal *s, const struct pack_reader *reply)
{
    bool ok = reply_is_ok(reply);
    if (ok && (s->was_open || read_identity(s, reply) == 0)) {
        free(s->opening);
        s->opening = NULL;
        s->state = OPEN;
        s->was_open = true;
        return;
    }
    if (!ok) {
        copy_reply_error(s, reply);
    }
    bool final = !s->was_open || clock_ms() - s->away_since_ms >= REFUSED_MS;
    disconnect(s, RETRY_MS);
    if (final) {
        s->state = REFUSED;
    }
}

/* Only answers to worker_load carry a descriptor, so that its owner is clear from the frame's content. */
static void take_answer(struct shoal *s, const struct pack_reader *reply, bool wanted)
{
    struct pack_reader found = pack_find(reply, "found");
    int fd = pack_read_bool(&found) && !found.failed ? frame_reader_take_fd(&s->reader) : -1;
    uint8_t *copy = wanted ? malloc(reply->count) : NULL; /* out of memory: the caller's wait ends with ERR_TIMEOUT */
    if (copy == NULL) {
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    memcpy(copy, reply->bytes, reply->count);
    s->answer = copy;
    s->answer_bytes = reply->count;
    s->answer_fd = fd;
}

static void take_reply(struct shoal *s, uint64_t id, const struct pack_reader *reply)
{
    if (s->state == OPENING) {
        if (s->opening->id == id) {
            take_open_reply(s, reply);
        }
        return;
    }
    struct pack_reader end = pack_find(reply, "end");
    if (!end.failed && !pack_read_bool(&end)) {
        return; /* part of a stream: its last part is the answer */
    }
    for (size_t i = 0; i < s->sent_count; i++) {
        struct request *request = s->queue[i];
        if (request->id != id) {
            continue;
        }
        for (size_t b = 0; b < 2; b++) {
            if (s->saves[b].request_id == id) {
                s->saves[b].request_id = 0;
            }
        }
        take_answer(s, reply, request->wanted);
        if (!request->wanted && !reply_is_ok(reply)) {
            copy_reply_error(s, reply);
            s->refused = ERR_REFUSED;
        }
        queue_remove(s, i);
        return;
    }
}

static void take_notice(struct shoal *s, const struct pack_reader *frame, struct pack_reader *notice)
{
    size_t bytes;
    const char *text = pack_read_text(notice, &bytes);
    if (notice->failed) {
        return;
    }
    if (pack_text_is(text, bytes, "stop")) {
        s->stop = true;
    } else if (pack_text_is(text, bytes, "durable")) {
        bool failed = false;
        uint64_t step = find_u64(frame, "step", UINT64_MAX, &failed);
        if (!failed && step > s->durable_step) {
            s->durable_step = step;
        }
    }
}

/* Takes all frames that are there. The connection may be gone afterwards. */
static void take_frames(struct shoal *s)
{
    while (s->fd >= 0) {
        const uint8_t *bytes;
        size_t count;
        int no_fd;
        int error = frame_reader_next(&s->reader, &bytes, &count, 0, &no_fd);
        if (error == ERR_AGAIN) {
            error = frame_reader_fill(&s->reader, s->fd);
            if (error == ERR_AGAIN) {
                return;
            }
            if (error == 0) {
                continue;
            }
        }
        if (error != 0) {
            disconnect(s, 0);
            return;
        }
        struct pack_reader frame;
        pack_reader_init(&frame, bytes, count);
        struct pack_reader notice = pack_find(&frame, "notice"), id = pack_find(&frame, "id");
        if (!notice.failed) {
            take_notice(s, &frame, &notice);
        } else if (!id.failed) {
            uint64_t number = pack_read_u64(&id);
            if (!id.failed) {
                take_reply(s, number, &frame);
            }
        }
    }
}

/* Moves what can be moved without waiting. 0, or ERR_CLOSED / ERR_REFUSED when the daemon is lost for good. */
static int pump(struct shoal *s)
{
    if (s->state == AWAY) {
        uint64_t now_ms = clock_ms();
        if (now_ms - s->away_since_ms >= AWAY_MS) {
            s->state = LOST;
        } else if (now_ms >= s->next_try_ms) {
            connect_daemon(s);
        }
    }
    if (s->state == OPENING && clock_ms() >= s->open_until_ms) {
        disconnect(s, RETRY_MS);
    }
    if (s->fd >= 0 && send_waiting(s) < 0) {
        disconnect(s, 0);
    }
    enum state before = s->state;
    take_frames(s);
    if (before == OPENING && s->state == OPEN && send_waiting(s) < 0) {
        disconnect(s, 0);
    }
    if (s->state == LOST) {
        return fail(s, ERR_CLOSED, "the daemon at %s has not answered for %d s", s->socket_path, AWAY_MS / 1000);
    }
    return s->state == REFUSED ? ERR_REFUSED : 0;
}

/* Waits until pump may have something to do, at most until `until_ms`. */
static void wait_for_daemon(struct shoal *s, uint64_t until_ms)
{
    uint64_t now_ms = clock_ms();
    uint64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    if (wait_ms > RETRY_MS) {
        wait_ms = RETRY_MS;
    }
    bool unsent = s->state == OPENING ? s->opening->sent < FRAME_HEAD_BYTES + s->opening->bytes : s->sent_count < s->queue_count;
    struct pollfd item = {.fd = s->fd, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
    (void)poll(&item, 1, (int)wait_ms);
}

static void drop_answer(struct shoal *s)
{
    free(s->answer);
    s->answer = NULL;
    if (s->answer_fd >= 0) {
        (void)close(s->answer_fd);
        s->answer_fd = -1;
    }
}

/* Sends a request and waits for its answer, across restarts of the daemon. On success s->answer holds it. */
static int call(struct shoal *s, const struct pack_writer *writer, uint64_t id, int timeout_ms)
{
    drop_answer(s);
    int error = queue_push(s, writer, id, -1, QUEUE_SLOTS);
    if (error != 0) {
        return error;
    }
    s->queue[s->queue_count - 1]->wanted = true;
    uint64_t until_ms = clock_ms() + (uint64_t)timeout_ms;
    for (;;) {
        error = pump(s);
        if (s->answer != NULL) {
            break;
        }
        if (error == 0 && clock_ms() >= until_ms) {
            error = fail(s, ERR_TIMEOUT, "the daemon has not answered within %d s", timeout_ms / 1000);
        }
        if (error != 0) {
            for (size_t i = 0; i < s->queue_count; i++) {
                s->queue[i]->wanted = false; /* the answer, if it comes, is nobody's */
            }
            return error;
        }
        wait_for_daemon(s, until_ms);
    }
    struct pack_reader reply;
    pack_reader_init(&reply, s->answer, s->answer_bytes);
    if (!reply_is_ok(&reply)) {
        copy_reply_error(s, &reply);
        return ERR_REFUSED;
    }
    return 0;
}

/* ---- open and close ---- */

static int open_alone(struct shoal *s)
{
    s->state = ALONE;
    s->size = 1;
    bytes_copy_text(s->experiment, sizeof s->experiment, "-");
    const char *seed = getenv("SHOAL_SEED");
    if (seed != NULL) {
        char *end;
        errno = 0;
        s->seed = strtoull(seed, &end, 10);
        if (*seed < '0' || *seed > '9' || *end != 0 || errno != 0) {
            return fail(s, ERR_USAGE, "SHOAL_SEED is '%.40s'; it must be a whole number from 0", seed);
        }
    }
    const char *json = getenv("SHOAL_HPARAMS");
    s->hparams = malloc(HPARAMS_BYTES_MAX);
    if (s->hparams == NULL) {
        return fail(s, ERR_MEMORY, "no memory is left for the hyperparameters");
    }
    struct pack_writer writer;
    pack_writer_init(&writer, s->hparams, HPARAMS_BYTES_MAX);
    if (hparams_from_json(json != NULL ? json : "{}", &writer) != 0) {
        return fail(s, ERR_USAGE, "SHOAL_HPARAMS is not a JSON object of at most %u bytes", HPARAMS_BYTES_MAX);
    }
    s->hparams_bytes = writer.used_bytes;
    return 0;
}

static int read_group(struct shoal *s, struct ring_tcp_options *options, struct ring_tcp_member *members)
{
    struct pack_reader reply;
    pack_reader_init(&reply, s->answer, s->answer_bytes);
    bool failed = false;
    options->generation = find_u64(&reply, "generation", UINT64_MAX, &failed);
    struct pack_reader key = pack_find(&reply, "key"), list = pack_find(&reply, "members");
    pack_read_bin_exact(&key, options->key, sizeof options->key);
    failed = failed || pack_read_array(&list) != s->size;
    for (uint32_t i = 0; i < s->size && !failed; i++) {
        failed = pack_read_array(&list) < 3 || pack_read_u64_max(&list, RING_RANKS_MAX) != i;
        pack_read_text_copy(&list, members[i].host, sizeof members[i].host);
        members[i].port = (uint16_t)pack_read_u64_max(&list, UINT16_MAX);
    }
    if (failed || key.failed || list.failed) {
        return fail(s, ERR_MALFORMED, "the daemon's answer to worker_group does not follow the protocol");
    }
    return 0;
}

static int form_group(struct shoal *s)
{
    int listen_fd;
    uint16_t port;
    int error = ring_tcp_listen(s->host, &listen_fd, &port);
    if (error != 0) {
        return fail(s, error, "cannot listen on %s, where the daemon wants this worker's data link: %s", s->host,
                    error == ERR_USAGE ? "it is not a numeric address" : strerror(errno));
    }
    uint8_t bytes[REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    request_begin(&writer, bytes, id, "worker_group", 1);
    pack_text(&writer, "port");
    pack_u64(&writer, port);
    error = call(s, &writer, id, GROUP_MS);
    char group[128];
    (void)snprintf(group, sizeof group, "%s/%u/%u", s->experiment, s->trial, s->attempt);
    struct ring_tcp_member members[RING_RANKS_MAX];
    struct ring_tcp_options options = {
        .rank = s->rank,
        .size = s->size,
        .group = group,
        .members = members,
        .open_timeout_ms = SHOAL_TIMEOUT_DEFAULT_MS,
        .stall_timeout_ms = SHOAL_TIMEOUT_DEFAULT_MS,
    };
    if (error == 0) {
        error = read_group(s, &options, members);
    }
    drop_answer(s);
    if (error != 0) {
        (void)close(listen_fd);
        return error;
    }
    s->generation = options.generation;
    char text[RING_ERROR_BYTES];
    error = ring_tcp_open(&s->ring, listen_fd, &options, text);
    explicit_bzero(options.key, sizeof options.key);
    return error == 0 ? 0 : fail(s, error, "%s", text);
}

static int open_with_daemon(struct shoal *s, const char *socket_path)
{
    const char *token = getenv("SHOAL_TOKEN");
    uint8_t token_bytes[TOKEN_DIGITS / 2];
    if (token == NULL || bytes_from_hex(token_bytes, sizeof token_bytes, token) != 0) {
        return fail(s, ERR_USAGE, "SHOAL_SOCKET is set, but SHOAL_TOKEN is not %d hex digits", TOKEN_DIGITS);
    }
    bytes_copy_text(s->token, sizeof s->token, token);
    if (!bytes_copy_text(s->socket_path, sizeof s->socket_path, socket_path)) {
        return fail(s, ERR_USAGE, "SHOAL_SOCKET is longer than %zu bytes", sizeof s->socket_path - 1);
    }
    uint8_t *buffer = malloc(FRAME_BYTES_MAX + 4);
    if (buffer == NULL) {
        return fail(s, ERR_MEMORY, "no memory is left for the daemon's answers");
    }
    frame_reader_init(&s->reader, buffer, FRAME_BYTES_MAX + 4);
    s->state = AWAY;
    s->away_since_ms = clock_ms();
    while (s->state != OPEN) {
        int error = pump(s);
        if (error != 0) {
            return error;
        }
        if (s->state != OPEN) {
            wait_for_daemon(s, clock_ms() + RETRY_MS);
        }
    }
    return form_group(s);
}

static void free_save(struct save_buffer *save)
{
    if (save->map != NULL) {
        (void)munmap(save->map, save->capacity_bytes);
    }
    if (save->fd >= 0) {
        (void)close(save->fd);
    }
    *save = (struct save_buffer){.fd = -1};
}

static void destroy(struct shoal *s)
{
    ring_tcp_close(&s->ring);
    drop_answer(s);
    if (s->fd >= 0) {
        (void)close(s->fd);
    }
    if (s->reader.buffer != NULL) {
        frame_reader_close(&s->reader);
        free(s->reader.buffer);
    }
    free(s->opening);
    while (s->queue_count > 0) {
        queue_remove(s, s->queue_count - 1);
    }
    free_save(&s->saves[0]);
    free_save(&s->saves[1]);
    free(s->scratch);
    free(s->hparams);
    explicit_bzero(s->token, sizeof s->token);
    free(s);
}

int shoal_open(struct shoal **out, char error[SHOAL_ERROR_BYTES])
{
    *out = NULL;
    struct shoal *s = calloc(1, sizeof *s);
    if (s == NULL) {
        bytes_copy_text(error, SHOAL_ERROR_BYTES, "no memory is left");
        return ERR_MEMORY;
    }
    s->fd = s->answer_fd = s->filling = -1;
    s->saves[0].fd = s->saves[1].fd = -1;
    const char *socket_path = getenv("SHOAL_SOCKET");
    int result = socket_path == NULL ? open_alone(s) : open_with_daemon(s, socket_path);
    if (result != 0) {
        bytes_copy_text(error, SHOAL_ERROR_BYTES, s->error);
        destroy(s);
        return result;
    }
    s->error[0] = 0;
    *out = s;
    return 0;
}

void shoal_close(struct shoal **shoal)
{
    if (*shoal != NULL) {
        (void)shoal_flush(*shoal, 5000);
        destroy(*shoal);
        *shoal = NULL;
    }
}

/* ---- who am I ---- */

const char *shoal_error(const struct shoal *s)
{
    return s->error;
}

uint32_t shoal_rank(const struct shoal *s)
{
    return s->rank;
}

uint32_t shoal_size(const struct shoal *s)
{
    return s->size;
}

uint64_t shoal_generation(const struct shoal *s)
{
    return s->generation;
}

const char *shoal_experiment(const struct shoal *s)
{
    return s->experiment;
}

uint32_t shoal_trial(const struct shoal *s)
{
    return s->trial;
}

uint32_t shoal_attempt(const struct shoal *s)
{
    return s->attempt;
}

uint64_t shoal_seed(const struct shoal *s)
{
    return s->seed;
}

uint64_t shoal_start_step(const struct shoal *s)
{
    return s->start_step;
}

/* ---- hyperparameters ---- */

const uint8_t *shoal_hparams(const struct shoal *s, size_t *bytes)
{
    *bytes = s->hparams_bytes;
    return s->hparams;
}

static int wrong_type(struct shoal *s, const char *path, const char *wanted)
{
    return fail(s, ERR_MALFORMED, "hyperparameter '%s' must be %s", path, wanted);
}

int shoal_hparam_double(struct shoal *s, const char *path, double fallback, double *out)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        *out = fallback;
        return 0;
    }
    double number = error == 0 ? pack_read_double(&value) : 0;
    if (error != 0 || value.failed) {
        return wrong_type(s, path, "a number");
    }
    *out = number;
    return 0;
}

int shoal_hparam_int(struct shoal *s, const char *path, int64_t fallback, int64_t *out)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        *out = fallback;
        return 0;
    }
    if (error != 0 || hparams_read_int(&value, out) != 0) {
        return wrong_type(s, path, "a whole number");
    }
    return 0;
}

int shoal_hparam_text(struct shoal *s, const char *path, const char *fallback, char *out, size_t size)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    size_t bytes = 0;
    const char *text = fallback;
    if (error == ERR_NOT_FOUND) {
        if (fallback == NULL) {
            return ERR_NOT_FOUND;
        }
        bytes = strlen(fallback);
    } else {
        text = error == 0 ? pack_read_text(&value, &bytes) : NULL;
        if (error != 0 || value.failed || memchr(text, 0, bytes) != NULL) {
            return wrong_type(s, path, "a text");
        }
    }
    if (bytes >= size) {
        return fail(s, ERR_FULL, "hyperparameter '%s' is longer than %zu bytes", path, size - 1);
    }
    bytes_copy_text_n(out, size, text, bytes);
    return 0;
}

int shoal_hparam_int_list(struct shoal *s, const char *path, const int64_t *fallback, size_t fallback_count, int64_t *out,
                          size_t capacity, size_t *count)
{
    struct pack_reader value;
    int error = hparams_find(s->hparams, s->hparams_bytes, path, &value);
    if (error == ERR_NOT_FOUND) {
        if (fallback_count > capacity) {
            return ERR_FULL;
        }
        memcpy(out, fallback, fallback_count * sizeof *out);
        *count = fallback_count;
        return 0;
    }
    uint32_t length = error != 0 ? 0 : pack_peek(&value) == PACK_ARRAY ? pack_read_array(&value) : 1;
    if (length > capacity) {
        return fail(s, ERR_FULL, "hyperparameter '%s' has more than %zu entries", path, capacity);
    }
    for (uint32_t i = 0; i < length && error == 0; i++) {
        error = hparams_read_int(&value, &out[i]);
    }
    if (error != 0 || value.failed) {
        return wrong_type(s, path, "a whole number or a list of whole numbers");
    }
    *count = length;
    return 0;
}

/* ---- collectives ---- */

static int collective_result(struct shoal *s, int error)
{
    return error == 0 ? 0 : fail(s, error, "%s", ring_tcp_error(s->ring));
}

int shoal_all_reduce_f32(struct shoal *s, float *values, size_t count)
{
    return s->ring == NULL ? 0 : collective_result(s, ring_tcp_all_reduce(s->ring, values, count));
}

int shoal_broadcast(struct shoal *s, void *bytes, size_t count, uint32_t root)
{
    if (root >= s->size) {
        return fail(s, ERR_USAGE, "there is no rank %u in a group of %u", root, s->size);
    }
    return s->ring == NULL ? 0 : collective_result(s, ring_tcp_broadcast(s->ring, bytes, count, root));
}

int shoal_barrier(struct shoal *s)
{
    float nothing = 0;
    return shoal_all_reduce_f32(s, &nothing, 0);
}

void shoal_set_timeout(struct shoal *s, int timeout_ms)
{
    if (s->ring != NULL && timeout_ms > 0) {
        ring_tcp_set_timeout(s->ring, timeout_ms);
    }
}

/* ---- reports ---- */

int shoal_report(struct shoal *s, const char *group, uint64_t step, const char *const *names, const double *values,
                 size_t count)
{
    if (s->state == ALONE) {
        return 0;
    }
    uint8_t bytes[REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    request_begin(&writer, bytes, id, "worker_report", 3);
    pack_text(&writer, "group");
    pack_text(&writer, group);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "metrics");
    pack_map(&writer, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        pack_text(&writer, names[i]);
        pack_double(&writer, values[i]);
    }
    int error = pump(s);
    if (error != 0) {
        return error;
    }
    error = queue_push(s, &writer, id, -1, SHOAL_QUEUE_MAX);
    return error != 0 ? error : pump(s);
}

int shoal_progress(struct shoal *s, uint64_t step)
{
    if (s->state == ALONE) {
        return 0;
    }
    uint64_t now_ms = clock_ms();
    if (s->state == OPEN && now_ms - s->progress_at_ms >= PROGRESS_MS && s->sent_count == s->queue_count) {
        uint8_t bytes[REQUEST_BYTES_MAX];
        struct pack_writer writer;
        request_begin(&writer, bytes, 0, "worker_progress", 1);
        pack_text(&writer, "step");
        pack_u64(&writer, step);
        if (queue_push(s, &writer, 0, -1, QUEUE_SLOTS - 4) == 0) {
            s->progress_at_ms = now_ms;
        }
    }
    return pump(s);
}

int shoal_flush(struct shoal *s, int timeout_ms)
{
    if (s->state == ALONE) {
        return 0;
    }
    uint64_t until_ms = clock_ms() + (uint64_t)timeout_ms;
    for (;;) {
        int error = pump(s);
        if (error != 0) {
            return error;
        }
        if (s->queue_count == 0) {
            break;
        }
        if (clock_ms() >= until_ms) {
            return fail(s, ERR_TIMEOUT, "the daemon has not answered %zu requests within %d ms", s->queue_count, timeout_ms);
        }
        wait_for_daemon(s, until_ms);
    }
    int refused = s->refused;
    s->refused = 0;
    return refused;
}

/* ---- checkpoints ---- */

/* Makes room for `count` bytes. The memory is taken now: a full machine is an error here, not a signal later. */
static int reserve_save(struct save_buffer *save, size_t count)
{
    if (save->fd >= 0 && save->capacity_bytes >= count) {
        return 0;
    }
    if (save->map != NULL) {
        (void)munmap(save->map, save->capacity_bytes);
        save->map = NULL;
        save->capacity_bytes = 0;
    }
    if (save->fd < 0) {
        save->fd = memfd_create("shoal-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    /* Sealed against shrinking only, so that the daemon's reader cannot be cut short: a seal against writing would cost a
     * new file, and 3 to 18 copies of the memory, for each checkpoint (tried). */
    if (save->fd < 0 || fallocate(save->fd, 0, 0, (off_t)count) != 0 ||
        fcntl(save->fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        return ERR_MEMORY;
    }
    void *map = mmap(NULL, count, PROT_READ | PROT_WRITE, MAP_SHARED, save->fd, 0);
    if (map == MAP_FAILED) {
        return ERR_MEMORY;
    }
    save->map = map;
    save->capacity_bytes = count;
    return 0;
}

/* The daemon is away and both buffers wait for it. The newer of the two is given up for the one that comes: it would be
 * superseded anyway. Its file is not reused, because a daemon that is just ending may still read it. */
static int replace_waiting_save(struct shoal *s)
{
    int newer = s->saves[1].request_id > s->saves[0].request_id;
    for (size_t i = 0; i < s->queue_count; i++) {
        if (s->queue[i]->id == s->saves[newer].request_id) {
            queue_remove(s, i);
            break;
        }
    }
    free_save(&s->saves[newer]);
    return newer;
}

static int choose_save(struct shoal *s, int *out)
{
    uint64_t until_ms = clock_ms() + ANSWER_MS;
    for (;;) {
        int error = pump(s);
        if (error != 0) {
            return error;
        }
        for (int i = 0; i < 2; i++) {
            if (s->saves[i].request_id == 0) {
                *out = i;
                return 0;
            }
        }
        if (s->state != OPEN) {
            *out = replace_waiting_save(s);
            return 0;
        }
        if (clock_ms() >= until_ms) {
            return fail(s, ERR_TIMEOUT, "the daemon still reads the last two checkpoints after %d s", ANSWER_MS / 1000);
        }
        wait_for_daemon(s, until_ms);
    }
}

int shoal_checkpoint_begin(struct shoal *s, size_t count, void **bytes)
{
    if (count == 0) {
        return fail(s, ERR_USAGE, "an empty checkpoint cannot be saved");
    }
    if (s->state == ALONE) {
        free(s->scratch);
        s->scratch = malloc(count);
        if (s->scratch == NULL) {
            return fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %zu bytes", count);
        }
        *bytes = s->scratch;
        return 0;
    }
    if (s->refused != 0) {
        s->refused = 0;
        return ERR_REFUSED;
    }
    int index = 0;
    int error = choose_save(s, &index);
    if (error != 0) {
        return error;
    }
    struct save_buffer *save = &s->saves[index];
    if (reserve_save(save, count) != 0) {
        free_save(save);
        return fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %zu bytes", count);
    }
    save->count = count;
    s->filling = index;
    *bytes = save->map;
    return 0;
}

int shoal_checkpoint_commit(struct shoal *s, uint64_t step)
{
    if (s->state == ALONE) {
        return 0;
    }
    CHECK(s->filling >= 0); /* begin was called and has succeeded */
    struct save_buffer *save = &s->saves[s->filling];
    s->filling = -1;
    uint8_t bytes[REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    request_begin(&writer, bytes, id, "worker_save", 2);
    pack_text(&writer, "step");
    pack_u64(&writer, step);
    pack_text(&writer, "bytes");
    pack_u64(&writer, save->count);
    int error = queue_push(s, &writer, id, save->fd, QUEUE_SLOTS - 1);
    if (error != 0) {
        return error;
    }
    save->request_id = id;
    return pump(s);
}

int shoal_checkpoint_save(struct shoal *s, uint64_t step, const void *bytes, size_t count)
{
    void *room;
    int error = shoal_checkpoint_begin(s, count, &room);
    if (error != 0) {
        return error;
    }
    memcpy(room, bytes, count);
    return shoal_checkpoint_commit(s, step);
}

/* Reads into memory of our own: a mapping would end the program with a signal if the file were cut short. */
static int read_checkpoint(struct shoal *s, uint64_t count, void **out)
{
    struct stat status;
    if (s->answer_fd < 0 || fstat(s->answer_fd, &status) != 0 || status.st_size < 0 || (uint64_t)status.st_size < count) {
        return fail(s, ERR_CORRUPT, "the daemon announced a checkpoint of %llu bytes and gave less",
                    (unsigned long long)count);
    }
    uint8_t *bytes = malloc(count > 0 ? count : 1);
    if (bytes == NULL) {
        return fail(s, ERR_MEMORY, "no memory is left for a checkpoint of %llu bytes", (unsigned long long)count);
    }
    for (uint64_t done = 0; done < count;) {
        ssize_t n = pread(s->answer_fd, bytes + done, count - done, (off_t)done);
        if (n <= 0 && !(n < 0 && errno == EINTR)) {
            free(bytes);
            return fail(s, ERR_IO, "cannot read the checkpoint from the daemon: %s",
                        n < 0 ? strerror(errno) : "it ends early");
        }
        done += n > 0 ? (uint64_t)n : 0;
    }
    *out = bytes;
    return 0;
}

int shoal_checkpoint_load(struct shoal *s, void **bytes, size_t *count, uint64_t *step)
{
    if (s->state == ALONE) {
        return ERR_NOT_FOUND;
    }
    uint8_t request[REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    request_begin(&writer, request, id, "worker_load", 0);
    int error = call(s, &writer, id, ANSWER_MS);
    if (error == 0) {
        struct pack_reader reply;
        pack_reader_init(&reply, s->answer, s->answer_bytes);
        struct pack_reader found = pack_find(&reply, "found");
        bool is_there = pack_read_bool(&found), failed = found.failed;
        uint64_t of_step = 0, length = 0;
        if (is_there) {
            of_step = find_u64(&reply, "step", UINT64_MAX, &failed);
            length = find_u64(&reply, "bytes", SIZE_MAX / 2, &failed);
        }
        if (failed) {
            error = fail(s, ERR_MALFORMED, "the daemon's answer to worker_load does not follow the protocol");
        } else if (!is_there) {
            error = ERR_NOT_FOUND;
        } else {
            error = read_checkpoint(s, length, bytes);
        }
        if (error == 0) {
            *count = length;
            *step = of_step;
        }
    }
    drop_answer(s);
    return error;
}

bool shoal_should_stop(struct shoal *s)
{
    if (s->state != ALONE) {
        (void)pump(s);
    }
    return s->stop;
}

uint64_t shoal_durable_step(const struct shoal *s)
{
    return s->durable_step;
}

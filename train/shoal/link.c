/* The daemon's half of libshoal: a queue of requests in the order of the program's calls. Reports and saves carry an id and
 * stay in the queue until their answers come; after a broken connection the rest is sent again behind worker_open. So the
 * daemon may receive a report twice (if the answer was lost); by the session and the request's id it knows that it has the
 * point already. client_link_pump sends and receives without waiting; the program's calls drive it. */

#include "train/shoal/link.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/err.h"
#include "train/shoal/hparams.h"

#define PROTOCOL_VERSION 1
#define OPEN_REPLY_MS 10000
#define AWAY_MS 60000    /* without a daemon for this long: lost */
#define REFUSED_MS 10000 /* a restarted daemon may not know its workers at first */

uint64_t client_link_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t client_link_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int client_fail(struct shoal *s, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(s->error, sizeof s->error, format, arguments);
    va_end(arguments);
    return error;
}

/* ---- requests ---- */

void client_link_begin(struct pack_writer *writer, uint8_t bytes[CLIENT_REQUEST_BYTES_MAX], uint64_t id, const char *op,
                       uint32_t arguments)
{
    client_link_begin_in(writer, bytes, CLIENT_REQUEST_BYTES_MAX, id, op, arguments);
}

void client_link_begin_in(struct pack_writer *writer, uint8_t *bytes, size_t capacity, uint64_t id, const char *op,
                          uint32_t arguments)
{
    pack_writer_init(writer, bytes, capacity);
    pack_map(writer, 3 + arguments);
    pack_text(writer, "v");
    pack_u64(writer, PROTOCOL_VERSION);
    pack_text(writer, "id");
    pack_u64(writer, id);
    pack_text(writer, "op");
    pack_text(writer, op);
}

/* Makes a request. ERR_USAGE (too large), ERR_MEMORY. */
static int request_new(struct client_request **out, const struct pack_writer *writer, uint64_t id, int fd)
{
    if (writer->failed) {
        return ERR_USAGE;
    }
    struct client_request *request = malloc(sizeof *request + writer->used_bytes);
    if (request == NULL) {
        return ERR_MEMORY;
    }
    *request = (struct client_request){.id = id, .fd = fd, .bytes = writer->used_bytes};
    memcpy(request->frame, writer->bytes, writer->used_bytes);
    *out = request;
    return 0;
}

void client_link_remove(struct shoal *s, size_t index)
{
    s->queue_bytes -= s->queue[index]->bytes;
    free(s->queue[index]);
    s->queue_count--;
    memmove(&s->queue[index], &s->queue[index + 1], (s->queue_count - index) * sizeof s->queue[0]);
    if (index < s->sent_count) {
        s->sent_count--;
    }
}

void client_link_withdraw(struct shoal *s, uint64_t id)
{
    size_t i = 0;
    while (i < s->queue_count && s->queue[i]->id != id) {
        i++;
    }
    if (i < s->queue_count && (i < s->sent_count || s->queue[i]->sent == 0)) {
        client_link_remove(s, i);
    }
}

int client_link_push(struct shoal *s, const struct pack_writer *writer, uint64_t id, int fd, size_t limit)
{
    bool is_heavy = limit == SHOAL_QUEUE_MAX && s->queue_bytes > CLIENT_QUEUE_BYTES_MAX;
    if (s->queue_count >= limit || is_heavy) {
        return client_fail(s, ERR_FULL, "%zu requests of %zu bytes wait for the daemon already", s->queue_count, s->queue_bytes);
    }
    int error = request_new(&s->queue[s->queue_count], writer, id, fd);
    if (error != 0) {
        return client_fail(s, error, "a request to the daemon is too large, or no memory is left");
    }
    s->queue_bytes += writer->used_bytes;
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
    uint64_t now_ms = client_link_now_ms();
    if (s->state == CLIENT_OPEN) {
        s->away_since_ms = now_ms;
    }
    s->state = CLIENT_AWAY;
    s->next_try_ms = now_ms + retry_ms;
    for (size_t i = s->queue_count; i-- > 0;) {
        s->queue[i]->sent = 0;
        if (s->queue[i]->id == 0) {
            client_link_remove(s, i);
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
        disconnect(s, CLIENT_RETRY_MS);
        return;
    }
    uint8_t bytes[CLIENT_REQUEST_BYTES_MAX];
    struct pack_writer writer;
    uint64_t id = ++s->last_id;
    client_link_begin(&writer, bytes, id, "worker_open", 3);
    pack_text(&writer, "token");
    pack_text(&writer, s->token);
    pack_text(&writer, "pid");
    pack_u64(&writer, (uint64_t)getpid());
    pack_text(&writer, "session");
    pack_u64(&writer, s->session);
    if (request_new(&s->opening, &writer, id, -1) != 0) {
        disconnect(s, CLIENT_RETRY_MS);
        return;
    }
    s->state = CLIENT_OPENING;
    s->open_until_ms = client_link_now_ms() + OPEN_REPLY_MS;
}

/* 1: all sent, 0: the socket is full, ERR_CLOSED. */
static int request_send(int socket_fd, struct client_request *request)
{
    int error = frame_send_some(socket_fd, request->frame, request->bytes, request->fd, &request->sent);
    return error == 0 ? 1 : error == ERR_AGAIN ? 0 : ERR_CLOSED;
}

static int send_waiting(struct shoal *s)
{
    if (s->state == CLIENT_OPENING) {
        return request_send(s->fd, s->opening);
    }
    while (s->sent_count < s->queue_count) {
        struct client_request *request = s->queue[s->sent_count];
        int sent = request_send(s->fd, request);
        if (sent <= 0) {
            return sent;
        }
        if (request->id == 0) {
            client_link_remove(s, s->sent_count);
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
        (void)client_fail(s, ERR_REFUSED, "the daemon refused without saying why");
    } else {
        (void)client_fail(s, ERR_REFUSED, "%.*s", (int)(bytes < 400 ? bytes : 400), sentence);
    }
}

static bool reply_is_ok(const struct pack_reader *reply)
{
    struct pack_reader ok = pack_find(reply, "ok");
    return pack_read_bool(&ok) && !ok.failed;
}

uint64_t client_link_find_u64(const struct pack_reader *map, const char *key, uint64_t max, bool *failed)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = pack_read_u64_max(&value, max);
    *failed = *failed || value.failed;
    return number;
}

/* Reads this worker's identity from the answer to worker_open, once: a restarted daemon gives the same. */
static int read_identity(struct shoal *s, const struct pack_reader *reply)
{
    bool failed = false;
    struct pack_reader experiment = pack_find(reply, "experiment"), host = pack_find(reply, "host");
    pack_read_text_copy(&experiment, s->experiment, sizeof s->experiment);
    pack_read_text_copy(&host, s->host, sizeof s->host);
    s->trial = (uint32_t)client_link_find_u64(reply, "trial", UINT32_MAX, &failed);
    s->attempt = (uint32_t)client_link_find_u64(reply, "attempt", UINT32_MAX, &failed);
    s->generation = client_link_find_u64(reply, "generation", UINT64_MAX, &failed);
    s->size = (uint32_t)client_link_find_u64(reply, "size", PLAN_RANKS_MAX, &failed);
    s->rank = (uint32_t)client_link_find_u64(reply, "rank", PLAN_RANKS_MAX - 1, &failed);
    s->seed = client_link_find_u64(reply, "seed", UINT64_MAX, &failed);
    s->start_step = client_link_find_u64(reply, "step", UINT64_MAX, &failed);
    struct pack_reader map = pack_find(reply, "hyperparameters"), balance = pack_find(reply, "balance");
    s->balance.is_wanted = !balance.failed && pack_read_bool(&balance) && !balance.failed; /* missing from older daemons */
    if (failed || experiment.failed || host.failed || map.failed || pack_peek(&map) != PACK_MAP || s->size < 1 ||
        s->rank >= s->size || map.count > HPARAMS_BYTES_MAX) {
        return client_fail(s, ERR_MALFORMED, "the daemon's answer to worker_open does not follow the protocol");
    }
    s->hparams = malloc(map.count);
    if (s->hparams == NULL) {
        return client_fail(s, ERR_MEMORY, "no memory is left for the hyperparameters");
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
        s->state = CLIENT_OPEN;
        s->was_open = true;
        return;
    }
    if (!ok) {
        copy_reply_error(s, reply);
    }
    bool final = !s->was_open || client_link_now_ms() - s->away_since_ms >= REFUSED_MS;
    disconnect(s, CLIENT_RETRY_MS);
    if (final) {
        s->state = CLIENT_REFUSED;
    }
}

/* Keeps an answer. Only answers to worker_load carry a descriptor, so the frame's content tells whether one came. */
static void take_answer(struct shoal *s, const struct pack_reader *reply, bool wanted)
{
    struct pack_reader found = pack_find(reply, "found");
    int fd = pack_read_bool(&found) && !found.failed ? frame_reader_take_fd(&s->reader) : -1;
    uint8_t *copy = wanted ? malloc(reply->count) : NULL;
    if (copy == NULL) {
        s->answer_lost = wanted;
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
    if (s->state == CLIENT_OPENING) {
        if (s->opening->id == id) {
            take_open_reply(s, reply);
        }
        return;
    }
    struct pack_reader end = pack_find(reply, "end");
    if (!end.failed && !pack_read_bool(&end)) {
        return; /* part of a stream: the last part is the answer */
    }
    for (size_t i = 0; i < s->sent_count; i++) {
        struct client_request *request = s->queue[i];
        if (request->id != id) {
            continue;
        }
        bool is_save = false;
        for (size_t b = 0; b < 2; b++) {
            if (s->saves[b].request_id == id) {
                s->saves[b].request_id = 0;
                is_save = true;
            }
        }
        take_answer(s, reply, request->wanted);
        if (!request->wanted && !reply_is_ok(reply)) {
            copy_reply_error(s, reply);
            *(is_save ? &s->refused_save : &s->refused) = ERR_REFUSED;
        }
        client_link_remove(s, i);
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
        struct pack_reader reason = pack_find(frame, "reason");
        s->stop = true;
        pack_read_text_copy(&reason, s->stop_reason, sizeof s->stop_reason);
    } else if (pack_text_is(text, bytes, "regroup")) {
        bool failed = false;
        uint64_t generation = client_link_find_u64(frame, "generation", UINT64_MAX, &failed);
        struct pack_reader at_once = pack_find(frame, "at_once");
        bool is_at_once = pack_read_bool(&at_once);
        if (!failed && !at_once.failed) {
            client_elastic_notice(s, generation, is_at_once);
        }
    } else if (pack_text_is(text, bytes, "trace")) {
        bool failed = false;
        uint64_t trace = client_link_find_u64(frame, "trace", UINT64_MAX, &failed);
        uint64_t steps = client_link_find_u64(frame, "steps", SPANS_MAX, &failed);
        uint64_t from_ns = client_link_find_u64(frame, "from_ns", UINT64_MAX, &failed);
        if (!failed) {
            client_profile_trace(s, trace, steps, from_ns);
        }
    } else if (pack_text_is(text, bytes, "durable")) {
        bool failed = false;
        uint64_t step = client_link_find_u64(frame, "step", UINT64_MAX, &failed);
        if (!failed && step > s->durable_step) {
            s->durable_step = step;
        }
    }
}

/* Takes all frames received so far. The connection may be gone afterwards. */
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
            s->answer_lost |= error == ERR_IO; /* perhaps an answer with a descriptor that this process had no room for */
            disconnect(s, error == ERR_IO ? CLIENT_RETRY_MS : 0);
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

int client_link_pump(struct shoal *s)
{
    if (s->state == CLIENT_AWAY) {
        uint64_t now_ms = client_link_now_ms();
        if (now_ms - s->away_since_ms >= AWAY_MS) {
            s->state = CLIENT_LOST;
        } else if (now_ms >= s->next_try_ms) {
            connect_daemon(s);
        }
    }
    if (s->state == CLIENT_OPENING && client_link_now_ms() >= s->open_until_ms) {
        disconnect(s, CLIENT_RETRY_MS);
    }
    if (s->fd >= 0 && send_waiting(s) < 0) {
        disconnect(s, 0);
    }
    enum client_state before = s->state;
    take_frames(s);
    if (before == CLIENT_OPENING && s->state == CLIENT_OPEN && send_waiting(s) < 0) {
        disconnect(s, 0);
    }
    if (s->state == CLIENT_LOST) {
        return client_fail(s, ERR_CLOSED, "the daemon at %s has not answered for %d s", s->socket_path, AWAY_MS / 1000);
    }
    return s->state == CLIENT_REFUSED ? ERR_REFUSED : 0;
}

void client_link_send(struct shoal *s)
{
    if (s->fd >= 0) {
        (void)send_waiting(s); /* a connection that is gone is noticed by the next pump */
    }
}

void client_link_wait(struct shoal *s, uint64_t until_ms)
{
    uint64_t now_ms = client_link_now_ms();
    uint64_t wait_ms = until_ms > now_ms ? until_ms - now_ms : 0;
    if (wait_ms > CLIENT_RETRY_MS) {
        wait_ms = CLIENT_RETRY_MS;
    }
    bool unsent = s->state == CLIENT_OPENING ? s->opening->sent < FRAME_HEAD_BYTES + s->opening->bytes
                                              : s->sent_count < s->queue_count;
    struct pollfd item = {.fd = s->fd, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
    (void)poll(&item, 1, (int)wait_ms);
}

void client_link_drop_answer(struct shoal *s)
{
    free(s->answer);
    s->answer = NULL;
    if (s->answer_fd >= 0) {
        (void)close(s->answer_fd);
        s->answer_fd = -1;
    }
}

int client_link_begin_call(struct shoal *s, const struct pack_writer *writer, uint64_t id)
{
    client_link_drop_answer(s);
    s->answer_lost = false;
    int error = client_link_push(s, writer, id, -1, CLIENT_QUEUE_SLOTS);
    if (error == 0) {
        s->queue[s->queue_count - 1]->wanted = true;
    }
    return error;
}

int client_link_pump_call(struct shoal *s)
{
    int error = client_link_pump(s);
    if (error != 0 || !s->answer_lost) {
        return error;
    }
    return client_fail(s, ERR_MEMORY, "no memory or no descriptor is left for the daemon's answer");
}

int client_link_end_call(struct shoal *s, int error)
{
    for (size_t i = 0; i < s->queue_count && error != 0; i++) {
        s->queue[i]->wanted = false; /* if the answer still comes, no call wants it */
    }
    if (error != 0) {
        return error;
    }
    struct pack_reader reply;
    pack_reader_init(&reply, s->answer, s->answer_bytes);
    if (!reply_is_ok(&reply)) {
        copy_reply_error(s, &reply);
        return ERR_REFUSED;
    }
    return 0;
}

int client_link_call(struct shoal *s, const struct pack_writer *writer, uint64_t id, int timeout_ms)
{
    int error = client_link_begin_call(s, writer, id);
    uint64_t until_ms = client_link_now_ms() + (uint64_t)timeout_ms;
    while (error == 0) {
        error = client_link_pump_call(s);
        if (s->answer != NULL) {
            error = 0;
            break;
        }
        if (error == 0 && client_link_now_ms() >= until_ms) {
            error = client_fail(s, ERR_TIMEOUT, "the daemon has not answered within %d s", timeout_ms / 1000);
        }
        if (error == 0) {
            client_link_wait(s, until_ms);
        }
    }
    if (s->answer_lost) {
        client_link_withdraw(s, id); /* otherwise the answer comes again, as long as there is no memory for it */
    }
    return client_link_end_call(s, error);
}

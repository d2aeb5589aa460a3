#include "node/daemon/local/local.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/format.h"
#include "node/daemon/api/change.h"
#include "node/daemon/api/query.h"
#include "node/daemon/api/submit.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/api/worker.h"

/* ---- frames out ------------------------------------------------------------------------------------------------ */

struct client *client_find(struct daemon *daemon, uint64_t serial)
{
    for (struct client *client = daemon->clients; client != NULL; client = client->next) {
        if (client->serial == serial && !client->broken) {
            return client;
        }
    }
    return NULL;
}

static void frame_free(struct client_frame *frame)
{
    if (frame->fd >= 0) {
        (void)close(frame->fd);
    }
    free(frame);
}

static void flush(struct client *client)
{
    while (client->first != NULL && !client->broken) {
        struct client_frame *frame = client->first;
        size_t before = frame->sent;
        int error = frame_send_some(client->fd, frame->bytes, frame->count, frame->fd, &frame->sent);
        client->queued_bytes -= frame->sent - before;
        if (error != 0) {
            client->broken = error != ERR_AGAIN;
            return;
        }
        client->first = frame->next;
        client->last = client->first == NULL ? NULL : client->last;
        frame_free(frame);
    }
}

void local_queue(struct client *client, const uint8_t *bytes, size_t count, int fd)
{
    struct client_frame *frame = malloc(sizeof *frame + count);
    if (frame == NULL || client->queued_bytes + count > CLIENT_QUEUE_MAX) {
        client->broken = true; /* it does not read, or there is no memory for it */
        free(frame);
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    *frame = (struct client_frame){.fd = fd, .count = count};
    memcpy(frame->bytes, bytes, count);
    if (client->last != NULL) {
        client->last->next = frame;
    } else {
        client->first = frame;
    }
    client->last = frame;
    client->queued_bytes += FRAME_HEAD_BYTES + count;
    flush(client);
}

bool client_reply_begin(struct client_reply *reply, uint64_t id, bool end, uint32_t extra_pairs)
{
    reply->bytes = malloc(FRAME_BYTES_MAX);
    if (reply->bytes == NULL) {
        return false;
    }
    pack_writer_init(&reply->writer, reply->bytes, FRAME_BYTES_MAX);
    pack_map(&reply->writer, 3 + extra_pairs);
    pack_text(&reply->writer, "id");
    pack_u64(&reply->writer, id);
    pack_text(&reply->writer, "ok");
    pack_bool(&reply->writer, true);
    pack_text(&reply->writer, "end");
    pack_bool(&reply->writer, end);
    return true;
}

void client_reply_send(struct daemon *daemon, struct client *client, struct client_reply *reply, int fd)
{
    (void)daemon;
    if (reply->writer.failed) {
        daemon_line(daemon, "an answer on the local socket was too large and was dropped");
        client->broken = true;
    } else {
        local_queue(client, reply->bytes, reply->writer.used_bytes, fd);
    }
    free(reply->bytes);
    reply->bytes = NULL;
}

void client_reply_error(struct daemon *daemon, struct client *client, uint64_t id, int exit_code, const char *format,
                       ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (id == 0) {
        daemon_line(daemon, "a message on the local socket was refused: %.200s", text);
        return;
    }
    uint8_t bytes[1280];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "id");
    pack_u64(&writer, id);
    pack_text(&writer, "ok");
    pack_bool(&writer, false);
    pack_text(&writer, "end");
    pack_bool(&writer, true);
    pack_text(&writer, "code");
    pack_u64(&writer, (uint64_t)exit_code);
    pack_text(&writer, "error");
    pack_text(&writer, text);
    local_queue(client, bytes, writer.used_bytes, -1);
}

void client_reply_empty(struct daemon *daemon, struct client *client, uint64_t id)
{
    struct client_reply reply;
    if (id != 0 && client_reply_begin(&reply, id, true, 0)) {
        client_reply_send(daemon, client, &reply, -1);
    }
}

/* ---- arguments ------------------------------------------------------------------------------------------------- */

bool client_argument_u64(const struct client_request *request, const char *key, uint64_t *out)
{
    return request_u64(&request->map, key, out);
}

bool client_argument_any_experiment(struct daemon *daemon, const struct client_request *request, experiment_id *out)
{
    if (!request_experiment_id(&request->map, out)) {
        client_reply_error(daemon, request->client, request->id, EXIT_USAGE,
                          "The request names no experiment; give its id of 16 hexadecimal digits.");
        return false;
    }
    return true;
}

void client_reply_unknown(struct daemon *daemon, const struct client_request *request, const char *what, const char *id,
                         const char *list)
{
    if (node_core_is_syncing(daemon->core)) {
        client_reply_error(daemon, request->client, request->id, EXIT_REFUSED,
                          "This node knows no %s with the id %s, but is still catching up with the others; try again in "
                          "some seconds.",
                          what, id);
        return;
    }
    client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND, "There is no %s with the id %s; `shoal %s` lists them.",
                      what, id, list);
}

void client_reply_unknown_experiment(struct daemon *daemon, const struct client_request *request, experiment_id id)
{
    char hex[2 * EXPERIMENT_ID_BYTES + 1];
    bytes_to_hex(hex, id.bytes, EXPERIMENT_ID_BYTES);
    if (view_find_tombstone(node_core_view(daemon->core), id) != NULL) { /* whatever else may be heard */
        client_reply_error(daemon, request->client, request->id, EXIT_NOT_FOUND,
                          "The experiment with the id %s was deleted; `shoal ls` lists those that are left.", hex);
        return;
    }
    client_reply_unknown(daemon, request, "experiment", hex, "ls");
}

bool client_argument_experiment(struct daemon *daemon, struct client_request *request, struct view_experiment **out)
{
    experiment_id id;
    if (!client_argument_any_experiment(daemon, request, &id)) {
        return false;
    }
    struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), id);
    if (experiment == NULL || !experiment->known) {
        client_reply_unknown_experiment(daemon, request, id);
        return false;
    }
    *out = experiment;
    return true;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

static void handle(struct daemon *daemon, struct client *client, const struct request *decoded, int error, int fd)
{
    struct client_request request = {.client = client, .id = decoded->id, .map = decoded->map, .fd = fd};
    const char *op = decoded->op;
    size_t op_bytes = decoded->op_bytes;
    if (error == ERR_VERSION) {
        client_reply_error(daemon, client, request.id, EXIT_USAGE,
                          "This daemon speaks version %d of the local protocol and not %llu; use a client of its version.",
                          REQUEST_PROTOCOL_VERSION, (unsigned long long)decoded->version);
    } else if (error != 0) {
        client_reply_error(daemon, client, request.id != 0 ? request.id : 1, EXIT_USAGE,
                          "The request is not a map with `v`, `id` and `op`; see docs/wire.md.");
    } else if (pack_text_is(op, op_bytes, "submit")) {
        submit_request(daemon, &request);
    } else if (!change_request(daemon, &request, op, op_bytes) && !api_worker_request(daemon, &request, op, op_bytes) &&
               !query_request(daemon, &request, op, op_bytes)) {
        client_reply_error(daemon, client, request.id, EXIT_USAGE, "There is no request `%.*s`, or its arguments are wrong.",
                          (int)(op_bytes < 40 ? op_bytes : 40), op);
    }
    if (request.fd >= 0) {
        (void)close(request.fd);
    }
}

/* Takes whole frames that have been read, up to one that has to wait. A frame may carry a descriptor; it is the one received with
 * it, since clients wait for the answer to such a request before they send another. */
static void take_frames(struct daemon *daemon, struct client *client)
{
    while (!client->broken) {
        int fd, error = 0;
        if (client->held == NULL) {
            error = frame_reader_next(&client->reader, &client->held, &client->held_bytes, 0, &fd);
        }
        if (error == ERR_AGAIN) {
            return;
        }
        if (error != 0) {
            client->broken = true;
            return;
        }
        struct request request;
        error = request_read(client->held, client->held_bytes, &request);
        if (error == 0 && api_worker_waits(daemon, client, request.op, request.op_bytes)) {
            return;
        }
        client->held = NULL;
        handle(daemon, client, &request, error, request.wants_fd ? frame_reader_take_fd(&client->reader) : -1);
    }
}

/* Also of one that has closed its end. */
static void take_what_is_read(struct daemon *daemon, struct client *client)
{
    bool was_broken = client->broken;
    client->broken = false;
    take_frames(daemon, client);
    client->broken |= was_broken;
}

static void read_client(struct daemon *daemon, struct client *client)
{
    if (client->held != NULL) {
        take_what_is_read(daemon, client);
    }
    for (int i = 0; i < 16 && !client->broken && client->held == NULL; i++) {
        int error = frame_reader_fill(&client->reader, client->fd);
        if (error == ERR_AGAIN) {
            return;
        }
        client->broken |= error != 0;
        if (error == 0 || error == ERR_CLOSED) {
            take_what_is_read(daemon, client);
        }
    }
}

bool local_drain(struct daemon *daemon, struct client *client)
{
    read_client(daemon, client);
    return client->held == NULL;
}

static void close_client(struct daemon *daemon, struct client *client)
{
    api_worker_gone(daemon, client);
    frame_reader_close(&client->reader);
    (void)close(client->fd);
    while (client->first != NULL) {
        struct client_frame *frame = client->first;
        client->first = frame->next;
        frame_free(frame);
    }
    free(client->buffer);
    free(client);
    daemon->client_count--;
}

static void accept_clients(struct daemon *daemon)
{
    int fd;
    while ((fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
        struct client *client = daemon->client_count < DAEMON_CLIENTS_MAX ? calloc(1, sizeof *client) : NULL;
        uint8_t *buffer = client != NULL ? malloc(FRAME_BYTES_MAX + 4) : NULL;
        if (buffer == NULL) {
            free(client);
            (void)close(fd);
            daemon_line(daemon, "too many clients on the local socket: one was turned away");
            continue;
        }
        client->fd = fd;
        client->slot = -1;
        client->serial = ++daemon->request_id;
        client->buffer = buffer;
        frame_reader_init(&client->reader, buffer, FRAME_BYTES_MAX + 4);
        client->next = daemon->clients;
        daemon->clients = client;
        daemon->client_count++;
    }
}

int local_open(struct daemon *daemon, char error[256])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* it fits: data_dir_open has refused longer paths */
    (void)format_text(address.sun_path, sizeof address.sun_path, "%s/shoald.sock", daemon->dir);
    daemon->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(address.sun_path); /* of an earlier daemon: the lock says that there is no other */
    mode_t mask = umask(0177);
    int failed = daemon->listen_fd < 0 || bind(daemon->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                 listen(daemon->listen_fd, 64) != 0;
    (void)umask(mask);
    if (failed) {
        (void)snprintf(error, 256, "The local socket %s cannot be made: %s.", address.sun_path, strerror(errno));
    }
    return failed ? ERR_IO : 0;
}

void local_close(struct daemon *daemon)
{
    if (daemon->listen_fd >= 0) { /* first, so that whose connection ends finds nobody there */
        char path[KEEP_PATH_BYTES + 16];
        (void)snprintf(path, sizeof path, "%s/shoald.sock", daemon->dir);
        (void)unlink(path);
        (void)close(daemon->listen_fd);
    }
    while (daemon->clients != NULL) {
        struct client *client = daemon->clients;
        daemon->clients = client->next;
        flush(client);
        close_client(daemon, client);
    }
    change_close(daemon);
}

uint32_t local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity)
{
    uint32_t count = 0;
    items[count++] = (zmq_pollitem_t){.fd = daemon->listen_fd, .events = ZMQ_POLLIN};
    for (struct client *client = daemon->clients; client != NULL && count < capacity; client = client->next) {
        short events = client->held == NULL ? ZMQ_POLLIN : 0;
        events |= client->first != NULL ? ZMQ_POLLOUT : 0;
        if (events != 0 && !client->broken) {
            items[count++] = (zmq_pollitem_t){.fd = client->fd, .events = events};
        }
    }
    return count;
}

void local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        struct client *client = daemon->clients;
        while (client != NULL && client->fd != items[i].fd) {
            client = client->next;
        }
        if (client != NULL && (items[i].revents & ZMQ_POLLOUT) != 0) {
            flush(client);
        }
        if (client != NULL && (items[i].revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0) {
            read_client(daemon, client);
        }
    }
    struct client **link = &daemon->clients;
    while (*link != NULL) {
        struct client *client = *link;
        if (client->broken && client->held == NULL) {
            *link = client->next;
            close_client(daemon, client);
        } else {
            link = &client->next;
        }
    }
    if (count > 0 && items[0].revents != 0) {
        accept_clients(daemon);
    }
}

void local_tick(struct daemon *daemon, uint64_t now_ms)
{
    for (struct client *client = daemon->clients; client != NULL; client = client->next) {
        if (client->held != NULL) {
            read_client(daemon, client);
        }
    }
    query_tick(daemon, now_ms);
}

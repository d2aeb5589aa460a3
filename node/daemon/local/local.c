#include "node/daemon/local/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/format.h"
#include "base/frame.h"
#include "node/daemon/api/table.h"
#include "node/daemon/local/http.h"
#include "node/daemon/wire/request.h"

#define QUEUE_BYTES_MAX (8u << 20)    /* most bytes queued for a client; a client with more to read is cut off */
#define CLIENTS_MIN 16
#define TURN_US 2000 /* of each turn of the loop for requests, and one client more: the thread answers probes, too */
#define ACCEPTED_MAX 64 /* connections in a turn */
#define STREAM_BYTES_MAX (1u << 20) /* streams to a client pause while more is queued */

/* A frame on its way to a client. */
struct local_frame {
    struct local_frame *next;
    int fd; /* goes with the frame; -1: none */
    size_t sent, count; /* `sent` includes the frame's head, `count` does not */
    uint8_t bytes[];
};

/* A client of this door. */
struct local_client {
    struct client client; /* first: a pointer to the client is a pointer to the struct */
    int fd;
    int file; /* descriptor of the present request; -1: none, or taken */
    struct frame_reader reader;
    uint8_t *buffer;
    const uint8_t *held; /* in `buffer`: a request that has to wait; later requests wait unread. NULL: none */
    size_t held_bytes;
    struct local_frame *first, *last;
    size_t queued_bytes;
};

/* ---- frames out ------------------------------------------------------------------------------------------------ */

static void frame_free(struct local_frame *frame)
{
    if (frame->fd >= 0) {
        (void)close(frame->fd);
    }
    free(frame);
}

static void flush(struct local_client *local)
{
    while (local->first != NULL && !local->client.broken) {
        struct local_frame *frame = local->first;
        size_t before = frame->sent;
        int error = frame_send_some(local->fd, frame->bytes, frame->count, frame->fd, &frame->sent);
        local->queued_bytes -= frame->sent - before;
        if (error != 0) {
            local->client.broken = error != ERR_AGAIN;
            return;
        }
        local->first = frame->next;
        local->last = local->first == NULL ? NULL : local->last;
        frame_free(frame);
    }
}

static void send_file(struct client *client, const uint8_t *bytes, size_t count, int fd)
{
    struct local_client *local = (struct local_client *)client;
    struct local_frame *frame = malloc(sizeof *frame + count);
    if (frame == NULL || local->queued_bytes + count > QUEUE_BYTES_MAX) {
        client->broken = true; /* the client does not read, or memory is full */
        free(frame);
        if (fd >= 0) {
            (void)close(fd);
        }
        return;
    }
    *frame = (struct local_frame){.fd = fd, .count = count};
    memcpy(frame->bytes, bytes, count);
    if (local->last != NULL) {
        local->last->next = frame;
    } else {
        local->first = frame;
    }
    local->last = frame;
    local->queued_bytes += FRAME_HEAD_BYTES + count;
    flush(local);
}

static void reply(struct client *client, const uint8_t *bytes, size_t count)
{
    send_file(client, bytes, count, -1);
}

static int take_file(struct client *client)
{
    struct local_client *local = (struct local_client *)client;
    int file = local->file;
    local->file = -1;
    return file;
}

static bool may_stream(const struct client *client)
{
    return ((const struct local_client *)client)->queued_bytes <= STREAM_BYTES_MAX;
}

static const struct client_door local_door = {
    .reply = reply, .send_file = send_file, .take_file = take_file, .may_stream = may_stream};

/* ---- requests in ----------------------------------------------------------------------------------------------- */

/* Handles the whole frames in the buffer, up to a request that has to wait. A request's descriptor is the last received
 * descriptor: clients wait for the answer to such a request before they send another. */
static void take_frames(struct daemon *daemon, struct local_client *local)
{
    while (!local->client.broken) {
        int fd, error = 0;
        if (local->held == NULL) {
            error = frame_reader_next(&local->reader, &local->held, &local->held_bytes, 0, &fd);
        }
        if (error == ERR_AGAIN) {
            return;
        }
        if (error != 0) {
            local->client.broken = true;
            return;
        }
        struct request request;
        error = request_read(local->held, local->held_bytes, &request);
        if (error == 0 && api_must_wait(daemon, &local->client, &request)) {
            return;
        }
        local->held = NULL;
        local->file = request.wants_fd ? frame_reader_take_fd(&local->reader) : -1;
        api_take(daemon, &local->client, &request, error);
        if (local->file >= 0) {
            (void)close(local->file);
            local->file = -1;
        }
    }
}

/* Handles what has been read, even if the client has closed its end. */
static void take_what_is_read(struct daemon *daemon, struct local_client *local)
{
    bool was_broken = local->client.broken;
    local->client.broken = false;
    take_frames(daemon, local);
    local->client.broken |= was_broken;
}

static void read_client(struct daemon *daemon, struct local_client *local)
{
    if (local->held != NULL) {
        take_what_is_read(daemon, local);
    }
    for (int i = 0; i < 16 && !local->client.broken && local->held == NULL; i++) {
        int error = frame_reader_fill(&local->reader, local->fd);
        if (error == ERR_AGAIN) {
            return;
        }
        local->client.broken |= error != 0;
        if (error == 0 || error == ERR_CLOSED) {
            take_what_is_read(daemon, local);
        }
    }
}

bool local_drain(struct daemon *daemon, struct client *client)
{
    struct local_client *local = client->door == &local_door ? (struct local_client *)client : NULL;
    if (local != NULL) {
        read_client(daemon, local);
    }
    return local == NULL || local->held == NULL;
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

/* The first client of this door in the list from `client` on, or NULL. */
static struct local_client *local_from(struct client *client)
{
    while (client != NULL && client->door != &local_door) {
        client = client->next;
    }
    return (struct local_client *)client;
}

static struct local_client *local_next(const struct local_client *local)
{
    return local_from(local->client.next);
}

static void close_client(struct daemon *daemon, struct local_client *local)
{
    client_remove(daemon, &local->client);
    frame_reader_close(&local->reader);
    (void)close(local->fd);
    while (local->first != NULL) {
        struct local_frame *frame = local->first;
        local->first = frame->next;
        frame_free(frame);
    }
    free(local->buffer);
    free(local);
}

uint32_t local_clients_max(void)
{
    struct rlimit limit;
    uint64_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 4 : CLIENTS_MIN;
    return most < CLIENTS_MIN ? CLIENTS_MIN : most > DAEMON_CLIENTS_MAX ? DAEMON_CLIENTS_MAX : (uint32_t)most;
}

/* Tells a client why it is turned away, if the socket takes that at once. The number 0 belongs to no request. */
static void turn_away(struct daemon *daemon, int fd)
{
    uint8_t bytes[512];
    char text[256];
    struct pack_writer writer;
    size_t sent = 0;
    (void)snprintf(text, sizeof text,
                   "the daemon serves %u clients already, as many as its limit of open files allows; try again, or start it "
                   "with a higher limit (ulimit -n)",
                   daemon->api->client_count);
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_map(&writer, 5);
    pack_text(&writer, "id");
    pack_u64(&writer, 0);
    pack_text(&writer, "ok");
    pack_bool(&writer, false);
    pack_text(&writer, "end");
    pack_bool(&writer, true);
    pack_text(&writer, "code");
    pack_u64(&writer, EXIT_REFUSED);
    pack_text(&writer, "error");
    pack_text(&writer, text);
    (void)frame_send_some(fd, bytes, writer.used_bytes, -1, &sent);
    (void)close(fd);
    daemon_line_of(daemon, event_of_kind(EVENT_NODE_DOOR), "too many clients on the local socket: one was turned away");
}

/* Notes which process has connected, and its account, where the system says so. */
static void look_behind(struct local_client *local)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (getsockopt(local->fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        local->client.process = (int)peer.pid;
        local->client.account = (uint32_t)peer.uid;
    }
}

/* Makes a client of a connection, or turns it away. */
static struct local_client *add(struct daemon *daemon, int fd)
{
    struct local_client *local = daemon->api->client_count < local_clients_max() ? calloc(1, sizeof *local) : NULL;
    uint8_t *buffer = local != NULL ? malloc(FRAME_BYTES_MAX + 4) : NULL;
    if (buffer == NULL) {
        free(local);
        turn_away(daemon, fd);
        return NULL;
    }
    local->fd = fd;
    local->file = -1;
    local->buffer = buffer;
    frame_reader_init(&local->reader, buffer, FRAME_BYTES_MAX + 4);
    local->reader.never_waits = true; /* also on a socket whose other flags a guest has changed */
    client_add(daemon, &local->client, &local_door);
    return local;
}

static void accept_clients(struct daemon *daemon)
{
    int fd;
    for (int i = 0; i < ACCEPTED_MAX && (fd = accept4(daemon->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0; i++) {
        struct local_client *local = add(daemon, fd);
        if (local != NULL) {
            look_behind(local);
        }
    }
}

/* A connection of the HTTP door. Guests leave half of the places to workers and the command line. */
static void add_guest(struct daemon *daemon, int fd)
{
    uint32_t guests = 0;
    for (struct local_client *local = local_from(daemon->api->clients); local != NULL; local = local_next(local)) {
        guests += local->client.is_guest;
    }
    if (guests >= local_clients_max() / 2) {
        (void)close(fd); /* the door answers that it is busy */
        return;
    }
    struct local_client *local = add(daemon, fd);
    if (local != NULL) {
        local->client.is_guest = true;
    }
}

int local_open(struct daemon *daemon, char error[256])
{
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* the path fits: data_dir_open has refused longer paths */
    (void)format_text(address.sun_path, sizeof address.sun_path, "%s/shoald.sock", daemon->dir);
    daemon->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    (void)unlink(address.sun_path); /* left by an earlier daemon: we hold the lock of the directory */
    mode_t mask = umask(0177);
    int failed = daemon->listen_fd < 0 || bind(daemon->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
                 listen(daemon->listen_fd, 64) != 0;
    (void)umask(mask);
    if (!failed) {
        http_open(daemon);
    }
    if (failed) {
        (void)snprintf(error, 256, "The local socket %s cannot be made: %s.", address.sun_path, strerror(errno));
    }
    return failed ? ERR_IO : 0;
}

void local_close(struct daemon *daemon)
{
    if (daemon->listen_fd >= 0) { /* first, so that a client that loses its connection does not come back to this daemon */
        char path[KEEP_PATH_BYTES + 16];
        (void)snprintf(path, sizeof path, "%s/shoald.sock", daemon->dir);
        (void)unlink(path);
        (void)close(daemon->listen_fd);
    }
    for (struct local_client *local = local_from(daemon->api->clients), *next; local != NULL; local = next) {
        next = local_next(local);
        flush(local);
        close_client(daemon, local);
    }
    http_close(daemon); /* last, so that it can pass on what was said to its clients */
}

/* ---- the loop's calls ------------------------------------------------------------------------------------------ */

uint32_t local_poll(struct daemon *daemon, zmq_pollitem_t *items, uint32_t capacity)
{
    uint32_t count = 0;
    items[count++] = (zmq_pollitem_t){.fd = daemon->listen_fd, .events = ZMQ_POLLIN};
    if (http_fd(daemon) >= 0 && count < capacity) {
        items[count++] = (zmq_pollitem_t){.fd = http_fd(daemon), .events = ZMQ_POLLIN};
    }
    struct local_client *local = local_from(daemon->api->clients);
    for (; local != NULL && count < capacity; local = local_next(local)) {
        short events = local->held == NULL ? ZMQ_POLLIN : 0;
        events |= local->first != NULL ? ZMQ_POLLOUT : 0;
        if (events != 0 && !local->client.broken) {
            items[count++] = (zmq_pollitem_t){.fd = local->fd, .events = events};
        }
    }
    return count;
}

/* Finds whose the items are: they are in the order of the clients, and no client has come or gone since. */
static void find_clients(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count, struct local_client **out)
{
    struct local_client *next = local_from(daemon->api->clients);
    for (uint32_t i = 1; i < count; i++) {
        struct local_client *local = next;
        while (local != NULL && local->fd != items[i].fd) {
            local = local_next(local);
        }
        out[i] = local; /* NULL: the item of the HTTP door */
        next = local != NULL ? local_next(local) : next;
    }
}

/* Those that have no turn now come first in the next one. */
static void serve_clients(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count)
{
    struct local_client *clients[DAEMON_CLIENTS_MAX + 2];
    uint32_t served = count < DAEMON_CLIENTS_MAX + 2 ? count : DAEMON_CLIENTS_MAX + 2;
    uint64_t until_us = daemon_now_us() + TURN_US;
    uint32_t first = served > 0 ? daemon->api->first_served % served : 0;
    find_clients(daemon, items, served, clients);
    for (uint32_t k = 0; k < served; k++) {
        uint32_t i = (first + k) % served;
        struct local_client *local = i > 0 ? clients[i] : NULL;
        if (local == NULL || items[i].revents == 0) {
            continue;
        }
        if (daemon_now_us() >= until_us) {
            daemon->api->first_served = i;
            return;
        }
        if ((items[i].revents & ZMQ_POLLOUT) != 0) {
            flush(local);
        }
        if ((items[i].revents & (ZMQ_POLLIN | ZMQ_POLLERR)) != 0) {
            read_client(daemon, local);
        }
    }
}

void local_process(struct daemon *daemon, const zmq_pollitem_t *items, uint32_t count)
{
    serve_clients(daemon, items, count);
    for (struct local_client *local = local_from(daemon->api->clients), *next; local != NULL; local = next) {
        next = local_next(local);
        if (local->client.broken && local->held == NULL) {
            close_client(daemon, local);
        }
    }
    if (count > 0 && items[0].revents != 0) {
        accept_clients(daemon);
    }
    if (count > 1 && items[1].fd == http_fd(daemon) && items[1].revents != 0) {
        http_process(daemon, add_guest);
    }
}

void local_tick(struct daemon *daemon)
{
    http_tick(daemon, daemon_now_ms());
    for (struct local_client *local = local_from(daemon->api->clients); local != NULL; local = local_next(local)) {
        if (local->held != NULL) {
            read_client(daemon, local);
        }
    }
}

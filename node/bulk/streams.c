/* Streams of bytes between sockets of programs on two nodes. The asker's side sends over our connection to the peer,
 * the other side over the peer's to us; a stream of two programs of this node has both sides here, and no message. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/bulk/state.h"

#define ASK_AGAIN_MS 2000 /* an opening that is not answered is sent again */
#define ANSWER_MS 30000   /* the program that was asked takes no longer */
#define LINGER_MS 20000   /* longer than the other side gives a stream up, so that no opening comes twice */
#define LOOK_MS 1000      /* between looks for the end of a program that does not read */
#define STUCK_MS 50       /* until a message that could not be sent is tried again */
#define SEGMENTS_PER_TURN 8
#define LINGERING_MAX 1024 /* ended streams that are still known */

_Static_assert(LINGER_MS > STREAM_SILENCE_MS, "a stream that has ended is known for as long as the other side asks");
_Static_assert(BULK_STREAM_REQUEST_BYTES_MAX <= BULK_WIRE_QUESTION_BYTES_MAX, "a request fits into a message");
_Static_assert(BULK_WIRE_RESET_BYTES_MAX < BULK_TEXT_BYTES, "a sentence of a peer fits into an event");

/* ---- the list ---- */

static struct bulk_stream *find_id(struct bulk *bulk, uint64_t id)
{
    struct bulk_stream *stream = bulk->streams;
    while (stream != NULL && (stream->id != id || stream->state == BULK_STREAM_LINGERS)) {
        stream = stream->next;
    }
    return stream;
}

static struct bulk_stream *find_key(struct bulk *bulk, node_id node, uint64_t key, bool is_of_peer)
{
    struct bulk_stream *stream = bulk->streams;
    while (stream != NULL &&
           (stream->key != key || stream->is_of_peer != is_of_peer || !node_id_equal(stream->node, node))) {
        stream = stream->next;
    }
    return stream;
}

/* A new stream, in the list; NULL: no memory. Takes over `event`. */
static struct bulk_stream *stream_new(struct bulk *bulk, node_id node, uint64_t key, bool is_of_peer,
                                      const uint8_t *request, size_t request_bytes, struct bulk_event_node *event)
{
    struct bulk_stream *stream = calloc(1, sizeof *stream + request_bytes);
    uint8_t *rings = mmap(NULL, 2 * STREAM_RING_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stream == NULL || rings == MAP_FAILED || event == NULL) {
        free(stream);
        free(event);
        if (rings != MAP_FAILED) {
            (void)munmap(rings, 2 * STREAM_RING_BYTES);
        }
        return NULL;
    }
    stream->node = node;
    stream->key = key;
    stream->is_of_peer = is_of_peer;
    stream->fd = -1;
    stream->asked_ms = stream->looked_ms = bulk->now_ms;
    stream->rings = rings;
    stream->event = event;
    stream->request_bytes = request_bytes;
    memcpy(stream->request, request, request_bytes);
    stream_init(&stream->ends, bulk->now_ms, rings, rings + STREAM_RING_BYTES);
    stream->next = bulk->streams;
    bulk->streams = stream;
    bulk->stream_count++;
    return stream;
}

static void stream_free(struct bulk *bulk, struct bulk_stream *stream)
{
    struct bulk_stream **link = &bulk->streams;
    while (*link != stream) {
        link = &(*link)->next;
    }
    *link = stream->next;
    *(stream->state == BULK_STREAM_LINGERS ? &bulk->linger_count : &bulk->stream_count) -= 1;
    if (stream->fd >= 0) {
        (void)close(stream->fd);
    }
    if (stream->rings != NULL) {
        (void)munmap(stream->rings, 2 * STREAM_RING_BYTES);
    }
    free(stream->event);
    free(stream);
}

/* ---- messages ---- */

/* The other side of a stream within this node hears it at once. */
static bool send_message(struct bulk *bulk, struct bulk_stream *stream, struct bulk_message *message)
{
    message->tag = stream->tag;
    message->stream = stream->key;
    if (node_id_equal(stream->node, bulk->self)) {
        static const uint8_t here[1];
        bulk_streams_take(bulk, bulk->self, stream->is_of_peer ? NULL : here, 0, message);
        return true;
    }
    bool is_sent = stream->is_of_peer
                       ? bulk_serve_stream_send(bulk, stream->routing_id, stream->routing_id_bytes, message)
                       : bulk_link_stream_send(bulk, stream->node, message);
    if (is_sent) {
        bulk_link_spend(bulk, message->byte_count);
        bulk_count(bulk, &bulk->statistics.sent_bytes, message->byte_count);
    }
    return is_sent;
}

static void send_reset(struct bulk *bulk, struct bulk_stream *stream)
{
    struct bulk_message reset = {.kind = BULK_RESET,
                                 .code = (uint8_t)-stream->code,
                                 .bytes = (const uint8_t *)stream->text,
                                 .byte_count = strlen(stream->text)};
    (void)send_message(bulk, stream, &reset); /* lost: the peer's next message gets another one */
}

/* Answers a message about a stream that is not known here. */
static void refuse(struct bulk *bulk, node_id node, const uint8_t *routing_id, size_t routing_id_bytes,
                   const struct bulk_message *message, int code, const char *text)
{
    struct bulk_stream unknown = {
        .key = message->stream, .node = node, .is_of_peer = routing_id != NULL, .tag = message->tag, .code = code};
    if (routing_id_bytes > sizeof unknown.routing_id) {
        return;
    }
    if (routing_id_bytes > 0) {
        memcpy(unknown.routing_id, routing_id, routing_id_bytes);
        unknown.routing_id_bytes = routing_id_bytes;
    }
    (void)bytes_copy_text(unknown.text, sizeof unknown.text, text);
    send_reset(bulk, &unknown);
}

/* ---- the end ---- */

static void fd_close(struct bulk_stream *stream)
{
    if (stream->fd >= 0) {
        (void)close(stream->fd);
    }
    stream->fd = -1;
}

/* From now on only late messages are answered. */
static void linger(struct bulk *bulk, struct bulk_stream *stream, int code, const char *text)
{
    CHECK(stream->state != BULK_STREAM_LINGERS);
    stream->state = BULK_STREAM_LINGERS;
    stream->ended_ms = bulk->now_ms;
    stream->code = code;
    (void)bytes_copy_text(stream->text, sizeof stream->text, text);
    fd_close(stream);
    (void)munmap(stream->rings, 2 * STREAM_RING_BYTES);
    stream->rings = NULL;
    bulk->stream_count--;
    bulk->linger_count++;
    bulk->again = true;
}

/* Ends a stream: its socket is closed, and the program hears of it. */
static void finish(struct bulk *bulk, struct bulk_stream *stream, int code, const char *text)
{
    struct bulk_event_node *event = stream->event;
    linger(bulk, stream, code, text);
    stream->event = NULL;
    event->event.kind = BULK_STREAM_ENDED;
    event->event.id = stream->id;
    event->event.node = stream->node;
    event->event.code = code;
    if (code != 0) {
        (void)bytes_copy_text(event->event.text, sizeof event->event.text, text);
    }
    bulk_event_put(bulk, event);
}

/* The same, and the other side is told. */
static void break_off(struct bulk *bulk, struct bulk_stream *stream, int code, const char *text)
{
    finish(bulk, stream, code, text);
    send_reset(bulk, stream);
}

/* ---- opening ---- */

static void send_opening(struct bulk *bulk, struct bulk_stream *stream)
{
    struct bulk_message opening = {
        .kind = BULK_OPEN, .question = stream->request, .question_bytes = stream->request_bytes};
    stream->has_stuck = !send_message(bulk, stream, &opening);
    stream->looked_ms = bulk->now_ms;
}

static void do_open(struct bulk *bulk, struct bulk_command *command)
{
    uint64_t key;
    const char *why = NULL;
    int code = ERR_MEMORY;
    struct bulk_event_node *event = command->event;
    command->event = NULL;
    bool is_here = node_id_equal(command->nodes[0], bulk->self);
    if (!is_here && bulk_link_peer(bulk, command->nodes[0]) == NULL) {
        code = ERR_NOT_FOUND;
        why = "The address of the node is not known here.";
    } else if (bulk->stream_count >= BULK_STREAMS_MAX) {
        code = ERR_FULL;
        why = "This node carries as many streams as it can; end one first.";
    } else if (getrandom(&key, sizeof key, 0) != (ssize_t)sizeof key) {
        why = "The system gives no random bytes.";
    }
    struct bulk_stream *stream = NULL;
    if (why == NULL) {
        stream = stream_new(bulk, command->nodes[0], key, false, command->bytes, command->byte_count, event);
    }
    if (stream == NULL && why == NULL) {
        return; /* no memory for an event either: the caller sees its socket closed */
    }
    if (stream == NULL) {
        event->event.kind = BULK_STREAM_ENDED;
        event->event.id = command->id;
        event->event.node = command->nodes[0];
        event->event.code = code;
        (void)bytes_copy_text(event->event.text, sizeof event->event.text, why);
        bulk_event_put(bulk, event);
        return;
    }
    stream->id = command->id;
    stream->tag = ++bulk->last_tag;
    stream->fd = command->fd;
    command->fd = -1;
    send_opening(bulk, stream);
}

static void do_answer(struct bulk *bulk, struct bulk_stream *stream, struct bulk_command *command)
{
    char text[BULK_WIRE_RESET_BYTES_MAX + 1];
    if (!stream->is_of_peer || stream->state != BULK_STREAM_ASKS) {
        return;
    }
    if (command->fd >= 0) {
        stream->state = BULK_STREAM_RUNS;
        stream->fd = command->fd;
        command->fd = -1;
        stream_init(&stream->ends, bulk->now_ms, stream->rings, stream->rings + STREAM_RING_BYTES);
        stream->ends.owes = true; /* this tells the asker */
        return;
    }
    bytes_copy_text_n(text, sizeof text, (const char *)command->bytes, command->byte_count);
    linger(bulk, stream, command->code, text);
    send_reset(bulk, stream);
}

void bulk_streams_command(struct bulk *bulk, struct bulk_command *command)
{
    char text[BULK_WIRE_RESET_BYTES_MAX + 1];
    struct bulk_stream *stream = command->kind == BULK_DO_STREAM ? NULL : find_id(bulk, command->id);
    if (command->kind == BULK_DO_STREAM) {
        do_open(bulk, command);
    } else if (stream != NULL && command->kind == BULK_DO_STREAM_ANSWER) {
        do_answer(bulk, stream, command);
    } else if (stream != NULL) {
        bytes_copy_text_n(text, sizeof text, (const char *)command->bytes, command->byte_count);
        break_off(bulk, stream, command->code, text);
    }
    if (command->kind != BULK_DO_STREAM_CLOSE && command->fd >= 0) {
        (void)close(command->fd);
    }
    free(command->event);
    free(command);
}

/* ---- what the other side says ---- */

/* A peer, or this node itself, opens a stream. */
static void take_opening(struct bulk *bulk, node_id node, const uint8_t *routing_id, size_t routing_id_bytes,
                         const struct bulk_message *message)
{
    uint32_t of_peer = 0;
    for (const struct bulk_stream *each = bulk->streams; each != NULL; each = each->next) {
        of_peer += each->is_of_peer && node_id_equal(each->node, node) && each->state != BULK_STREAM_LINGERS;
    }
    if (message->question_bytes > BULK_STREAM_REQUEST_BYTES_MAX) {
        refuse(bulk, node, routing_id, routing_id_bytes, message, ERR_MALFORMED, "The request is too long.");
        return;
    }
    if (of_peer >= BULK_STREAMS_PEER || bulk->stream_count >= BULK_STREAMS_MAX) {
        refuse(bulk, node, routing_id, routing_id_bytes, message, ERR_FULL,
               "The node carries as many streams as it can; end one first.");
        return;
    }
    struct bulk_event_node *asked = calloc(1, sizeof *asked + sizeof asked->items[0]), *end = calloc(1, sizeof *end);
    uint8_t *request = malloc(message->question_bytes + 1);
    struct bulk_stream *stream = NULL;
    if (asked != NULL && request != NULL) {
        stream = stream_new(bulk, node, message->stream, true, message->question, message->question_bytes, end);
        end = NULL;
    }
    if (stream == NULL) {
        free(asked);
        free(request);
        free(end);
        refuse(bulk, node, routing_id, routing_id_bytes, message, ERR_MEMORY,
               "The node has no memory left for a stream.");
        return;
    }
    stream->id = BULK_STREAM_IDS | ++bulk->stream_id;
    stream->tag = message->tag;
    memcpy(request, message->question, message->question_bytes);
    asked->event = (struct bulk_event){
        .kind = BULK_STREAM_ASKED, .id = stream->id, .node = node, .items = asked->items, .item_count = 1};
    asked->items[0] = (struct bulk_item){.bytes = request, .count = message->question_bytes};
    asked->body = request;
    bulk_event_put(bulk, asked);
}

static void take_segment(struct bulk *bulk, struct bulk_stream *stream, const struct bulk_message *message)
{
    struct stream_segment segment = {.offset = message->offset,
                                     .received = message->received,
                                     .limit = message->limit,
                                     .ends = message->ends,
                                     .bytes = message->bytes,
                                     .count = message->byte_count};
    if (!stream->is_of_peer && stream->state == BULK_STREAM_ASKS) {
        struct bulk_event_node *event = calloc(1, sizeof *event);
        if (event == NULL) {
            break_off(bulk, stream, ERR_MEMORY, "No memory is left for a stream.");
            return;
        }
        event->event = (struct bulk_event){.kind = BULK_STREAM_OPENED, .id = stream->id, .node = stream->node};
        bulk_event_put(bulk, event);
        stream->state = BULK_STREAM_RUNS;
        stream_init(&stream->ends, bulk->now_ms, stream->rings, stream->rings + STREAM_RING_BYTES);
    }
    if (stream->state == BULK_STREAM_RUNS && stream_receive(&stream->ends, bulk->now_ms, &segment) != 0) {
        bulk_count(bulk, &bulk->statistics.malformed, 1);
        break_off(bulk, stream, ERR_MALFORMED, "The other node has broken the rules of the stream.");
    }
    bulk_count(bulk, &bulk->statistics.received_bytes, message->byte_count);
    bulk->again = true;
}

/* After its end a side answers as it ended; where all went well, that all has arrived. */
static void answer_late(struct bulk *bulk, struct bulk_stream *stream, const struct bulk_message *message)
{
    if (message->kind == BULK_RESET) {
        return;
    }
    if (stream->code != 0) {
        send_reset(bulk, stream);
    } else if (message->kind == BULK_SEGMENT && (message->byte_count > 0 || message->ends)) {
        struct bulk_message answer = {.kind = BULK_SEGMENT,
                                      .offset = stream->ends.sent,
                                      .received = stream->ends.received,
                                      .limit = stream->ends.given + STREAM_RING_BYTES};
        (void)send_message(bulk, stream, &answer);
    }
}

/* A node that does not know the question has a version from before streams. */
static void take_status(struct bulk *bulk, node_id node, const struct bulk_message *message)
{
    for (struct bulk_stream *stream = bulk->streams; stream != NULL; stream = stream->next) {
        if (!stream->is_of_peer && stream->state == BULK_STREAM_ASKS && stream->tag == message->tag &&
            node_id_equal(stream->node, node) && message->status == BULK_UNKNOWN) {
            finish(bulk, stream, ERR_VERSION, "The node runs a version of Shoal that knows no shells; update it.");
            return;
        }
    }
}

void bulk_streams_take(struct bulk *bulk, node_id node, const uint8_t *routing_id, size_t routing_id_bytes,
                       const struct bulk_message *message)
{
    if (message->kind == BULK_STATUS) {
        take_status(bulk, node, message);
        return;
    }
    bool is_of_peer = routing_id != NULL;
    struct bulk_stream *stream = find_key(bulk, node, message->stream, is_of_peer);
    bool is_opening = message->kind == BULK_OPEN && is_of_peer;
    if (stream == NULL && is_opening) {
        take_opening(bulk, node, routing_id, routing_id_bytes, message);
        stream = find_key(bulk, node, message->stream, is_of_peer);
    } else if (stream == NULL && message->kind == BULK_SEGMENT) {
        refuse(bulk, node, routing_id, routing_id_bytes, message, ERR_CLOSED,
               "The daemon of the node was restarted meanwhile.");
    }
    if (stream == NULL) {
        return;
    }
    if (is_of_peer && routing_id_bytes > 0 && routing_id_bytes <= sizeof stream->routing_id) {
        memcpy(stream->routing_id, routing_id, routing_id_bytes); /* a new one after each connection */
        stream->routing_id_bytes = routing_id_bytes;
    }
    if (stream->state == BULK_STREAM_LINGERS) {
        answer_late(bulk, stream, message);
    } else if (message->kind == BULK_SEGMENT) {
        take_segment(bulk, stream, message);
    } else if (message->kind == BULK_RESET) {
        char text[BULK_WIRE_RESET_BYTES_MAX + 1];
        bytes_copy_text_n(text, sizeof text, (const char *)message->bytes, message->byte_count);
        finish(bulk, stream, message->code != 0 ? -(int)message->code : ERR_CLOSED,
               text[0] != '\0' ? text : "The other node has ended the stream.");
    } else if (is_opening && stream->state == BULK_STREAM_RUNS) {
        stream->ends.owes = true; /* the answer was lost */
        bulk->again = true;
    }
}

void bulk_streams_peer_gone(struct bulk *bulk, node_id node)
{
    for (struct bulk_stream *stream = bulk->streams; stream != NULL; stream = stream->next) {
        if (node_id_equal(stream->node, node) && stream->state != BULK_STREAM_LINGERS) {
            finish(bulk, stream, ERR_CLOSED, "The node has left the mesh.");
        }
    }
}

bool bulk_streams_use(const struct bulk *bulk, node_id node)
{
    for (const struct bulk_stream *stream = bulk->streams; stream != NULL; stream = stream->next) {
        if (!stream->is_of_peer && stream->state != BULK_STREAM_LINGERS && node_id_equal(stream->node, node)) {
            return true;
        }
    }
    return false;
}

/* ---- the sockets ---- */

/* Takes bytes of the program. */
static void read_fd(struct bulk_stream *stream)
{
    uint8_t *at;
    size_t room;
    while (stream->fd >= 0 && !stream->is_read_shut && (room = stream_room(&stream->ends, &at)) > 0) {
        ssize_t n = recv(stream->fd, at, room, MSG_DONTWAIT);
        if (n > 0) {
            stream_took(&stream->ends, (size_t)n);
        } else if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        } else { /* after an error, too, the other program gets what this one has written before */
            stream->is_read_shut = true;
            stream_end(&stream->ends);
        }
    }
}

/* True once the other side has all that the program has written. */
static bool has_all(const struct stream *ends)
{
    return ends->out_ended && ends->acknowledged > ends->taken;
}

/* Gives bytes to the program. What a program that is gone does not take is dropped, until the other side has its last
 * bytes. */
static void write_fd(struct bulk *bulk, struct bulk_stream *stream)
{
    const uint8_t *at;
    size_t count;
    while (stream->fd >= 0 && (count = stream_waiting(&stream->ends, &at)) > 0) {
        ssize_t n = send(stream->fd, at, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n >= 0) {
            stream_gave(&stream->ends, (size_t)n);
        } else if (errno == EAGAIN || errno == EINTR) {
            return;
        } else if (has_all(&stream->ends)) {
            break_off(bulk, stream, ERR_CLOSED, "The program has closed the connection.");
        } else {
            stream_gave(&stream->ends, count);
        }
    }
    if (stream->fd >= 0 && !stream->is_write_shut && stream_gave_all(&stream->ends)) {
        stream->is_write_shut = true;
        (void)shutdown(stream->fd, SHUT_WR);
    }
}

/* A program that is gone with its ring full is seen by neither: nothing is read or written. */
static void look_at_fd(struct bulk *bulk, struct bulk_stream *stream)
{
    struct pollfd item = {.fd = stream->fd};
    if (bulk->now_ms - stream->looked_ms < LOOK_MS) {
        return;
    }
    stream->looked_ms = bulk->now_ms;
    if (poll(&item, 1, 0) > 0 && (item.revents & (POLLERR | POLLHUP)) != 0 && !stream->is_read_shut) {
        uint8_t *at;
        if (stream_room(&stream->ends, &at) == 0) {
            break_off(bulk, stream, ERR_CLOSED, "The program has closed the connection.");
        }
    }
}

static void send_segments(struct bulk *bulk, struct bulk_stream *stream)
{
    struct stream_segment segment;
    stream->has_stuck = false;
    for (int i = 0; i < SEGMENTS_PER_TURN && stream->state == BULK_STREAM_RUNS; i++) {
        if (!bulk_link_may_send(bulk)) {
            stream->has_stuck = true;
            return;
        }
        if (!stream_next(&stream->ends, bulk->now_ms, &segment)) {
            return;
        }
        struct bulk_message message = {.kind = BULK_SEGMENT,
                                       .offset = segment.offset,
                                       .received = segment.received,
                                       .limit = segment.limit,
                                       .ends = segment.ends,
                                       .bytes = segment.bytes,
                                       .byte_count = segment.count};
        stream_sent(&stream->ends, bulk->now_ms, &segment); /* before a sibling's answer */
        if (!send_message(bulk, stream, &message)) {
            stream->ends.sent = segment.offset;
            stream->ends.owes = true;
            stream->has_stuck = true;
            return;
        }
    }
    bulk->again = true;
}

static void pump(struct bulk *bulk, struct bulk_stream *stream)
{
    if (stream->state == BULK_STREAM_ASKS) {
        bool is_due = bulk->now_ms - stream->looked_ms >= (stream->has_stuck ? STUCK_MS : ASK_AGAIN_MS);
        if (bulk->now_ms - stream->asked_ms >= ANSWER_MS) {
            break_off(bulk, stream, ERR_TIMEOUT, "The node does not answer.");
        } else if (!stream->is_of_peer && is_due) {
            send_opening(bulk, stream);
        }
        return;
    }
    if (stream_is_silent(&stream->ends, bulk->now_ms)) {
        break_off(bulk, stream, ERR_TIMEOUT, "The other node does not answer any more.");
        return;
    }
    read_fd(stream);
    write_fd(bulk, stream);
    if (stream->state == BULK_STREAM_RUNS) {
        look_at_fd(bulk, stream);
    }
    if (stream->state == BULK_STREAM_RUNS) {
        send_segments(bulk, stream);
    }
    if (stream->state == BULK_STREAM_RUNS && stream_is_over(&stream->ends) && !stream->ends.owes) {
        finish(bulk, stream, 0, "");
    }
}

void bulk_streams_pump(struct bulk *bulk)
{
    for (struct bulk_stream *stream = bulk->streams, *next; stream != NULL; stream = next) {
        next = stream->next;
        if (stream->state != BULK_STREAM_LINGERS) {
            pump(bulk, stream);
        } else if (bulk->now_ms - stream->ended_ms >= LINGER_MS ||
                   (next == NULL && bulk->linger_count > LINGERING_MAX)) {
            stream_free(bulk, stream);
        }
    }
}

static uint64_t next_ms(const struct bulk_stream *stream)
{
    if (stream->state == BULK_STREAM_LINGERS) {
        return stream->ended_ms + LINGER_MS;
    }
    if (stream->state == BULK_STREAM_ASKS) {
        uint64_t until_ms = stream->asked_ms + ANSWER_MS;
        uint64_t again_ms = stream->looked_ms + (stream->has_stuck ? STUCK_MS : ASK_AGAIN_MS);
        return !stream->is_of_peer && again_ms < until_ms ? again_ms : until_ms;
    }
    uint64_t due_ms = stream_next_ms(&stream->ends), look_ms = stream->looked_ms + LOOK_MS;
    return stream->has_stuck ? 0 : due_ms < look_ms ? due_ms : look_ms;
}

uint64_t bulk_streams_next_ms(const struct bulk *bulk)
{
    uint64_t least_ms = UINT64_MAX;
    for (const struct bulk_stream *stream = bulk->streams; stream != NULL; stream = stream->next) {
        uint64_t due_ms = next_ms(stream);
        due_ms = due_ms == 0 ? bulk->now_ms + STUCK_MS : due_ms;
        least_ms = due_ms < least_ms ? due_ms : least_ms;
    }
    return least_ms;
}

int bulk_streams_poll(const struct bulk *bulk, zmq_pollitem_t *items)
{
    int count = 0;
    for (const struct bulk_stream *stream = bulk->streams; stream != NULL && count < BULK_STREAMS_MAX;
         stream = stream->next) {
        uint8_t *room;
        const uint8_t *bytes;
        bool is_open = stream->state == BULK_STREAM_RUNS && stream->fd >= 0;
        short events = is_open && !stream->is_read_shut && stream_room(&stream->ends, &room) > 0 ? ZMQ_POLLIN : 0;
        events |= is_open && stream_waiting(&stream->ends, &bytes) > 0 ? ZMQ_POLLOUT : 0;
        if (events != 0) {
            items[count++] = (zmq_pollitem_t){.fd = stream->fd, .events = events};
        }
    }
    return count;
}

void bulk_streams_close(struct bulk *bulk)
{
    while (bulk->streams != NULL) {
        stream_free(bulk, bulk->streams);
    }
}

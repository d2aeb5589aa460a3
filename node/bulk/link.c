/* Sockets, peers, and our open questions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/socket.h"
#include "node/bulk/state.h"

#define RETRANSMIT_MS 10000
#define KEEPALIVE_S 60
#define KEEPALIVE_PROBE_S 10
/* Larger than the number of questions that a peer is ever asked and libzmq has not sent yet (window 4, buffers 2, one
 * per active request, appends 2), even if libzmq counts half of the queue as unsent by mistake: so a full queue means
 * that there is no connection. */
#define DEALER_QUEUE 64
#define ROUTER_SEND_QUEUE 64 /* for small answers; data are bounded by BULK_BUFFERS_PEER */
/* What a connection may receive without a whole message: several times the largest message. */
#define SILENT_BYTES_MAX (4 * ((uint64_t)BLOB_CHUNK_BYTES_MAX + SOCKET_EXTRA_BYTES))
/* Per turn: more than the answers to all questions that a peer is ever asked, with the WAITs before. */
#define ANSWERS_MAX 1024
#define ANSWERS_BYTES_MAX (64u << 20)
#define BREAKS_MAX 2         /* connections that break in a row without data are no accident */
#define LARGE_BYTES 4096     /* more than fits in a packet of most networks */

/* ---- sockets ---- */

/* No ZMTP heartbeats: a chunk that takes longer than the heartbeat's timeout on a slow link would look like a dead
 * peer. TCP notices a vanished host, after RETRANSMIT_MS while bytes are on their way, else by its keepalive.
 *
 * libzmq ends the process if it has read a ping behind a full queue and the connection broke (docs/dependencies.md). So
 * no queue that we read is ever full for libzmq: serve.c and bulk_link_receive take all messages in each turn, and
 * bound them themselves. */
static struct socket_options options_of(const struct bulk *bulk, int send_queue)
{
    return (struct socket_options){.curve_public = bulk->curve_public,
                                   .curve_secret = bulk->curve_secret,
                                   .io_threads = bulk->io_threads,
                                   .bytes_max = BLOB_CHUNK_BYTES_MAX,
                                   .send_queue = send_queue,
                                   .receive_queue = 0,
                                   .unacknowledged_ms = RETRANSMIT_MS,
                                   .keepalive_s = KEEPALIVE_S,
                                   .keepalive_probe_s = KEEPALIVE_PROBE_S};
}

static int sockets_open(struct bulk *bulk, const char *listen)
{
    bulk->router = zmq_socket(bulk->context, ZMQ_ROUTER);
    struct socket_options options = options_of(bulk, ROUTER_SEND_QUEUE);
    if (bulk->router == NULL || !socket_set_router(bulk->router, &options, ZAP_DOMAIN_BULK)) {
        return ERR_IO;
    }
    bulk->monitor = socket_monitor(bulk->context, bulk->router);
    if (bulk->monitor == NULL) {
        return ERR_IO;
    }
    int result = socket_bind(bulk->router, listen, &bulk->port);
    bulk->inflow = (struct inflow){.port = bulk->port, .bytes_max = SILENT_BYTES_MAX};
    return result;
}

int bulk_link_open(struct bulk *bulk, const char *listen, char error[256])
{
    int result = sockets_open(bulk, listen);
    if (result == ERR_USAGE) {
        (void)snprintf(error, 256, "Cannot listen for bulk data on \"%.80s\": it is not a numeric HOST:PORT, such as "
                                   "10.0.0.5:7413, [::]:7413 or *:7413.", listen);
    } else if (result == ERR_EXISTS) {
        (void)snprintf(error, 256, "Cannot listen for bulk data on %.80s: another program has that port; stop it or choose "
                                   "another.", listen);
    } else if (result != 0) {
        (void)snprintf(error, 256, "Cannot listen for bulk data on %.80s: %.100s.", listen, zmq_strerror(zmq_errno()));
    }
    return result;
}

void bulk_link_close(struct bulk *bulk)
{
    for (uint32_t i = 0; i < bulk->peer_count; i++) {
        if (bulk->peers[i].socket != NULL) {
            (void)zmq_close(bulk->peers[i].socket);
        }
    }
    if (bulk->router != NULL) {
        (void)zmq_socket_monitor(bulk->router, NULL, 0);
        (void)zmq_close(bulk->router);
    }
    if (bulk->monitor != NULL) {
        (void)zmq_close(bulk->monitor);
    }
    inflow_close(&bulk->inflow);
    free(bulk->peers);
    bulk->peers = NULL;
    bulk->peer_count = 0;
}

/* ---- memory being sent ---- */

void bulk_pool_release(struct bulk_pool *pool)
{
    if (atomic_fetch_sub(&pool->references, 1) == 1) {
        (void)close(pool->wake_fd);
        free(pool);
    }
}

struct bulk_slot *bulk_pool_slot(struct bulk *bulk, uint64_t owner)
{
    struct bulk_slot *found = NULL;
    unsigned owned = 0;
    for (int i = 0; i < BULK_BUFFERS; i++) {
        struct bulk_slot *slot = &bulk->pool->slots[i];
        if (!atomic_load(&slot->busy)) {
            found = slot;
        } else if (slot->owner == owner) {
            owned++;
        }
    }
    if (found == NULL || owned >= BULK_BUFFERS_PEER) {
        return NULL;
    }
    found->owner = owner;
    return found;
}

/* Runs in a thread of libzmq. */
static void slot_free(void *data, void *hint)
{
    struct bulk_slot *slot = hint;
    struct bulk_pool *pool = slot->pool;
    bulk_unmap(data);
    atomic_store(&slot->busy, false);
    (void)eventfd_write(pool->wake_fd, 1);
    bulk_pool_release(pool);
}

static bool send_head(void *socket, const struct bulk_message *message, int flags)
{
    uint8_t head[BULK_WIRE_HEAD_BYTES_MAX];
    size_t count = 0;
    CHECK(bulk_wire_encode(message, head, sizeof head, &count) == 0);
    return zmq_send(socket, head, count, flags | ZMQ_DONTWAIT) >= 0;
}

bool bulk_pool_send(struct bulk *bulk, void *socket, node_id to, struct bulk_slot *slot, const struct bulk_message *head,
                    uint8_t *buffer, size_t count)
{
    zmq_msg_t message;
    atomic_store(&slot->busy, true);
    (void)atomic_fetch_add(&bulk->pool->references, 1);
    if (zmq_msg_init_data(&message, buffer, count, slot_free, slot) != 0) {
        slot_free(buffer, slot);
        return false;
    }
    if (!send_head(socket, head, ZMQ_SNDMORE) || zmq_msg_send(&message, socket, ZMQ_DONTWAIT) < 0) {
        (void)zmq_msg_close(&message);
        return false;
    }
    bulk_link_spend(bulk, count);
    bulk_count_sent(bulk, to, count);
    return true;
}

bool bulk_link_send(void *socket, const struct bulk_message *message)
{
    return send_head(socket, message, message->body != NULL ? ZMQ_SNDMORE : 0) &&
           (message->body == NULL || zmq_send(socket, message->body, message->body_bytes, ZMQ_DONTWAIT) >= 0);
}

/* ---- bandwidth ---- */

/* True if the bandwidth allows a message now. The budget may be overdrawn by one message, and then nothing is sent
 * until it is positive again. At most a quarter of a second is saved up. */
bool bulk_link_may_send(struct bulk *bulk)
{
    if (bulk->rate == 0) {
        return true;
    }
    uint64_t passed_ms = bulk->now_ms - bulk->budget_ms;
    if (passed_ms > 3600000) {
        passed_ms = 3600000;
    }
    int64_t most = (int64_t)(bulk->rate / 4 + 1);
    int64_t gained = (int64_t)(bulk->rate * passed_ms / 1000);
    if (gained > 0) { /* otherwise each look would lose the fraction */
        bulk->budget = gained > most - bulk->budget ? most : bulk->budget + gained;
        bulk->budget_ms = bulk->now_ms;
    }
    return bulk->budget > 0;
}

void bulk_link_spend(struct bulk *bulk, size_t bytes)
{
    if (bulk->rate != 0) {
        bulk->budget -= (int64_t)bytes;
    }
}

/* ---- peers ---- */

struct bulk_peer_state *bulk_link_peer(struct bulk *bulk, node_id node)
{
    for (uint32_t i = 0; i < bulk->peer_count; i++) {
        if (node_id_equal(bulk->peers[i].node, node)) {
            return &bulk->peers[i];
        }
    }
    return NULL;
}

/* A failure is told each time, since the daemon forgets it when the peer seems to be gone. */
static void peer_way(struct bulk *bulk, struct bulk_peer_state *peer, enum bulk_way way)
{
    bool is_new = way != BULK_WAY_GOOD || peer->way != BULK_WAY_GOOD;
    if (is_new && bulk_notice_way(bulk, peer->node, way)) {
        peer->way = way;
    }
}

/* An answer has come. That small messages pass proves nothing where large packets are lost. */
static void peer_answered(struct bulk *bulk, struct bulk_peer_state *peer, const struct bulk_question *question,
                          const struct bulk_message *message)
{
    bool is_large = message->body_bytes >= LARGE_BYTES ||
                    (question->kind == BULK_PUT && message->kind == BULK_STATUS && message->status == BULK_STORED);
    if (is_large) {
        peer->breaks = 0;
    }
    if (is_large || peer->way == BULK_WAY_CLOSED) {
        peer_way(bulk, peer, BULK_WAY_GOOD);
    }
}

static void peer_shut(struct bulk *bulk, struct bulk_peer_state *peer)
{
    if (peer->socket != NULL) {
        (void)zmq_close(peer->socket);
        peer->socket = NULL;
        (void)pthread_mutex_lock(&bulk->mutex);
        bulk->statistics.connections--;
        (void)pthread_mutex_unlock(&bulk->mutex);
    }
    peer->connected = false;
    peer->want_out = false;
}

static bool peer_open(struct bulk *bulk, struct bulk_peer_state *peer)
{
    if (peer->socket != NULL) {
        return true;
    }
    struct socket_options options = options_of(bulk, DEALER_QUEUE);
    void *socket = socket_dealer(bulk->context, &options, peer->endpoint, peer->curve_public);
    if (socket == NULL) {
        return false;
    }
    peer->socket = socket;
    peer->used_ms = bulk->now_ms;
    (void)pthread_mutex_lock(&bulk->mutex);
    bulk->statistics.connections++;
    (void)pthread_mutex_unlock(&bulk->mutex);
    return true;
}

/* ---- questions ---- */

static void question_end(struct bulk *bulk, struct bulk_question *question, const struct bulk_message *message, int code)
{
    struct bulk_question copy = *question;
    if (copy.kind == BULK_GET && copy.sent) {
        CHECK(bulk->window > 0);
        bulk->window--;
    }
    *question = (struct bulk_question){0};
    bulk->question_count--;
    if (copy.job != NULL) {
        CHECK(copy.job->outstanding > 0);
        copy.job->outstanding--;
    }
    if (copy.job != NULL || copy.kind == BULK_APPEND) {
        bulk_jobs_answer(bulk, &copy, message, code);
    }
    bulk->again = true;
}

static void peer_fail(struct bulk *bulk, node_id node, int code)
{
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        if (bulk->questions[i].used && node_id_equal(bulk->questions[i].node, node)) {
            question_end(bulk, &bulk->questions[i], NULL, code);
        }
    }
}

/* The connection is gone: questions that were sent and not answered are sent again over the next one. */
static void peer_ask_again(struct bulk *bulk, struct bulk_peer_state *peer)
{
    peer->connected = false;
    peer->progress_ms = bulk->now_ms;
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        struct bulk_question *question = &bulk->questions[i];
        if (!question->used || !question->sent || !node_id_equal(question->node, peer->node)) {
            continue;
        }
        if (question->job == NULL && question->kind != BULK_APPEND) {
            question_end(bulk, question, NULL, ERR_CLOSED); /* no job waits for the answer */
            continue;
        }
        question->sent = false;
        bulk->window -= question->kind == BULK_GET;
    }
}

void bulk_link_peer_set(struct bulk *bulk, const struct bulk_command *command)
{
    node_id node = command->nodes[0];
    if (node_id_equal(node, bulk->self)) {
        return;
    }
    struct bulk_peer_state *peer = bulk_link_peer(bulk, node);
    if (command->endpoint[0] == '\0') {
        if (peer != NULL) {
            peer_shut(bulk, peer);
            *peer = bulk->peers[--bulk->peer_count];
            peer_fail(bulk, node, ERR_CLOSED);
        }
        bulk_jobs_peer_gone(bulk, node);
        bulk_streams_peer_gone(bulk, node);
        return;
    }
    if (peer == NULL) {
        if (bulk->peer_count == BULK_PEERS_MAX) {
            return;
        }
        peer = &bulk->peers[bulk->peer_count++];
        *peer = (struct bulk_peer_state){.node = node};
        bulk_jobs_peer_known(bulk, node);
    } else if (strcmp(peer->endpoint, command->endpoint) != 0 ||
               memcmp(peer->curve_public, command->curve_public, 32) != 0) {
        peer_shut(bulk, peer);
        peer_ask_again(bulk, peer);
        peer_way(bulk, peer, BULK_WAY_GOOD); /* nothing is known of the new address */
        peer->breaks = 0;
    }
    memcpy(peer->curve_public, command->curve_public, 32);
    (void)bytes_copy_text(peer->endpoint, sizeof peer->endpoint, command->endpoint);
}

bool bulk_link_ask(struct bulk *bulk, struct bulk_job *job, uint8_t kind, node_id node, hash256 hash, uint32_t index)
{
    struct bulk_peer_state *peer = bulk_link_peer(bulk, node);
    CHECK(peer != NULL);
    if (bulk->question_count == BULK_QUESTIONS_MAX) {
        return false;
    }
    struct bulk_question *free_one = NULL;
    bool first = true;
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        if (!bulk->questions[i].used) {
            free_one = &bulk->questions[i];
        } else if (node_id_equal(bulk->questions[i].node, node)) {
            first = false;
        }
    }
    CHECK(free_one != NULL);
    if (first) {
        peer->progress_ms = bulk->now_ms;
    }
    *free_one = (struct bulk_question){
        .used = true, .kind = kind, .tag = ++bulk->last_tag, .node = node, .job = job, .index = index, .hash = hash};
    bulk->question_count++;
    if (job != NULL) {
        job->outstanding++;
    }
    return true;
}

/* The job is over: questions not sent yet are dropped; answers to the rest still count for the window. */
void bulk_link_forget(struct bulk *bulk, const struct bulk_job *job)
{
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        struct bulk_question *question = &bulk->questions[i];
        if (!question->used || question->job != job) {
            continue;
        }
        question->job = NULL;
        if (!question->sent) {
            *question = (struct bulk_question){0};
            bulk->question_count--;
        }
    }
}

enum sending { SENDING_DONE, SENDING_BLOCKED, SENDING_PAUSED, SENDING_FAILED };

static enum sending sent_or_blocked(bool sent)
{
    return sent ? SENDING_DONE : SENDING_BLOCKED;
}

static enum sending send_put(struct bulk *bulk, struct bulk_peer_state *peer, const struct bulk_question *question, int *code)
{
    uint64_t owner = bytes_hash64(peer->node.bytes, NODE_ID_BYTES, 1);
    struct bulk_slot *slot = bulk_pool_slot(bulk, owner);
    if (slot == NULL || !bulk_link_may_send(bulk)) {
        return SENDING_PAUSED;
    }
    uint8_t *buffer;
    size_t count;
    *code = bulk_chunk_read(bulk, question->hash, &buffer, &count);
    if (*code != 0) {
        return SENDING_FAILED;
    }
    question->job->bytes += count;
    struct bulk_message head = {.kind = BULK_PUT, .tag = question->tag, .hash = question->hash};
    return sent_or_blocked(bulk_pool_send(bulk, peer->socket, peer->node, slot, &head, buffer, count));
}

static enum sending send_append(struct bulk *bulk, struct bulk_peer_state *peer, const struct bulk_question *question,
                                int *code)
{
    if (!bulk_link_may_send(bulk)) {
        return SENDING_PAUSED;
    }
    struct bulk_cursor *cursor = &bulk->cursors[question->index];
    uint8_t *buffer = bulk_map();
    if (buffer == NULL) {
        *code = ERR_MEMORY;
        return SENDING_FAILED;
    }
    struct bulk_message message = {.kind = BULK_APPEND, .tag = question->tag, .prefix = cursor->prefix,
                                   .prefix_bytes = cursor->prefix_bytes, .body = buffer};
    uint32_t count;
    bool more;
    uint64_t last = 0;
    *code = bulk_series_pack(bulk, cursor->prefix, cursor->prefix_bytes, cursor->next, BULK_SERIES_BYTES, buffer,
                             &message.body_bytes, &last, &count, &more);
    if (*code == 0 && count == 0) {
        *code = ERR_NOT_FOUND; /* the entries were deleted meanwhile */
    }
    enum sending sending = SENDING_FAILED;
    if (*code == 0) {
        cursor->sent_last = last;
        cursor->rewound = false;
        sending = sent_or_blocked(bulk_link_send(peer->socket, &message));
        if (sending == SENDING_DONE) {
            bulk_link_spend(bulk, message.body_bytes);
            bulk_count_sent(bulk, peer->node, message.body_bytes);
        }
    }
    bulk_unmap(buffer);
    return sending;
}

static enum sending send_has(struct bulk_peer_state *peer, const struct bulk_question *question)
{
    uint8_t hashes[BULK_WIRE_HAS_MAX * HASH_BYTES];
    const struct bulk_job *job = question->job;
    for (uint32_t i = 0; i < job->batch_count; i++) {
        memcpy(hashes + (size_t)i * HASH_BYTES, job->manifest.chunks[job->batch_from + i].hash.bytes, HASH_BYTES);
    }
    struct bulk_message message = {.kind = BULK_HAS, .tag = question->tag, .hashes = hashes, .hash_count = job->batch_count};
    return sent_or_blocked(bulk_link_send(peer->socket, &message));
}

static enum sending send_small(struct bulk *bulk, struct bulk_peer_state *peer, const struct bulk_question *question)
{
    struct bulk_message message = {.kind = question->kind, .tag = question->tag, .hash = question->hash};
    if (question->kind == BULK_READ || question->kind == BULK_ASK) {
        const struct bulk_command *command = question->job->command;
        message.prefix = command->prefix;
        message.prefix_bytes = command->prefix_bytes;
        message.from_sequence = command->sequence;
        message.bytes_max = BULK_SERIES_BYTES;
        message.question = command->bytes;
        message.question_bytes = command->byte_count;
    }
    bool sent = bulk_link_send(peer->socket, &message);
    bulk->window += sent && question->kind == BULK_GET;
    return sent_or_blocked(sent);
}

static bool takes_more(void *socket)
{
    uint32_t events = 0;
    size_t bytes = sizeof events;
    return zmq_getsockopt(socket, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLOUT) != 0;
}

struct peer_load {
    uint32_t gets, puts, sent, waiting;
};

static struct peer_load peer_load(const struct bulk *bulk, node_id node)
{
    struct peer_load load = {0};
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        const struct bulk_question *question = &bulk->questions[i];
        if (question->used && node_id_equal(question->node, node)) {
            load.gets += question->sent && question->kind == BULK_GET;
            load.puts += question->sent && question->kind == BULK_PUT;
            load.sent += question->sent;
            load.waiting += !question->sent;
        }
    }
    return load;
}

static enum sending question_send(struct bulk *bulk, struct bulk_peer_state *peer, struct bulk_question *question,
                                  const struct peer_load *load, int *code)
{
    if (!peer_open(bulk, peer)) {
        *code = ERR_IO;
        return SENDING_FAILED;
    }
    if (!takes_more(peer->socket)) {
        return SENDING_BLOCKED;
    }
    switch (question->kind) {
    case BULK_GET:
        return bulk->window >= BULK_WINDOW || load->gets >= BULK_WINDOW_PEER ? SENDING_PAUSED
                                                                             : send_small(bulk, peer, question);
    case BULK_PUT:
        return load->puts >= BULK_WINDOW_PEER ? SENDING_PAUSED : send_put(bulk, peer, question, code);
    case BULK_HAS:
        return send_has(peer, question);
    case BULK_APPEND:
        return send_append(bulk, peer, question, code);
    default:
        return send_small(bulk, peer, question);
    }
}

static int question_order(const void *a, const void *b)
{
    uint32_t age_a = (*(struct bulk_question *const *)a)->tag, age_b = (*(struct bulk_question *const *)b)->tag;
    return age_a == age_b ? 0 : (int32_t)(age_a - age_b) < 0 ? -1 : 1; /* right also when tags wrap around */
}

static void questions_send(struct bulk *bulk)
{
    struct bulk_question *order[BULK_QUESTIONS_MAX];
    size_t count = 0;
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        if (bulk->questions[i].used && !bulk->questions[i].sent && bulk->questions[i].not_before_ms <= bulk->now_ms) {
            order[count++] = &bulk->questions[i];
        }
    }
    qsort(order, count, sizeof order[0], question_order);
    for (size_t i = 0; i < count; i++) {
        struct bulk_question *question = order[i];
        struct bulk_peer_state *peer = question->used && !question->sent ? bulk_link_peer(bulk, question->node) : NULL;
        if (peer == NULL || peer->want_out) {
            continue; /* the end of a job has ended the question, or the peer takes no more now */
        }
        int code = 0;
        struct peer_load load = peer_load(bulk, peer->node);
        switch (question_send(bulk, peer, question, &load, &code)) {
        case SENDING_DONE:
            question->sent = true;
            peer->connected = true;
            peer->used_ms = bulk->now_ms;
            break;
        case SENDING_BLOCKED:
            peer->want_out = true;
            break;
        case SENDING_PAUSED: /* our own bounds, not the peer, delay the question */
            if (load.sent == 0) {
                peer->progress_ms = bulk->now_ms;
            }
            break;
        case SENDING_FAILED:
            question_end(bulk, question, NULL, code);
            break;
        }
    }
}

bool bulk_link_stream_send(struct bulk *bulk, node_id node, const struct bulk_message *message)
{
    struct bulk_peer_state *peer = bulk_link_peer(bulk, node);
    if (peer == NULL || !peer_open(bulk, peer)) {
        return false;
    }
    if (!takes_more(peer->socket) || !bulk_link_send(peer->socket, message)) {
        peer->want_out = true;
        return false;
    }
    peer->connected = true;
    peer->used_ms = bulk->now_ms;
    return true;
}

/* ---- answers ---- */

static void answer_take(struct bulk *bulk, struct bulk_peer_state *peer, const struct bulk_message *message)
{
    node_id node = peer->node;
    for (int i = 0; i < BULK_QUESTIONS_MAX; i++) {
        struct bulk_question *question = &bulk->questions[i];
        if (!question->used || !question->sent || question->tag != message->tag ||
            !node_id_equal(question->node, node)) {
            continue;
        }
        peer_answered(bulk, peer, question, message);
        if (message->kind == BULK_STATUS && message->status == BULK_WAIT) {
            return;
        }
        if (message->kind == BULK_STATUS && message->status == BULK_BUSY) {
            question->sent = false;
            question->not_before_ms = bulk->now_ms + BULK_RETRY_MS;
            bulk->window -= question->kind == BULK_GET;
            if (question->job == NULL && question->kind != BULK_APPEND) {
                question_end(bulk, question, NULL, ERR_CLOSED);
            }
            return;
        }
        question_end(bulk, question, message, 0);
        return;
    }
}

/* Reads one message of one or two frames. False: no message waits. `*frames` may be larger than 2; further frames are
 * dropped. */
static bool receive_message(void *socket, zmq_msg_t parts[2], int *frames)
{
    *frames = 0;
    for (;;) {
        zmq_msg_t extra, *into = *frames < 2 ? &parts[*frames] : &extra;
        (void)zmq_msg_init(into);
        if (zmq_msg_recv(into, socket, ZMQ_DONTWAIT) < 0) {
            (void)zmq_msg_close(into);
            return *frames > 0;
        }
        bool more = zmq_msg_more(into) != 0;
        if (into == &extra) {
            (void)zmq_msg_close(into);
        }
        (*frames)++;
        if (!more) {
            return true;
        }
    }
}

void bulk_link_receive(struct bulk *bulk, struct bulk_peer_state *peer)
{
    zmq_msg_t parts[2];
    node_id node = peer->node;
    int frames;
    uint32_t count = 0;
    size_t bytes = 0;
    while (receive_message(peer->socket, parts, &frames)) {
        struct bulk_message message;
        peer->progress_ms = bulk->now_ms;
        peer->used_ms = bulk->now_ms;
        bulk->trim = true;
        if (frames <= 2 && bulk_wire_decode(zmq_msg_data(&parts[0]), zmq_msg_size(&parts[0]),
                                            frames == 2 ? zmq_msg_data(&parts[1]) : NULL,
                                            frames == 2 ? zmq_msg_size(&parts[1]) : 0, &message) == 0) {
            bool is_of_stream = message.kind == BULK_SEGMENT || message.kind == BULK_RESET || message.kind == BULK_STATUS;
            if (is_of_stream) {
                bulk_streams_take(bulk, node, NULL, 0, &message);
            }
            if (message.kind != BULK_SEGMENT && message.kind != BULK_RESET) {
                answer_take(bulk, peer, &message);
            }
        } else {
            bulk_count(bulk, &bulk->statistics.malformed, 1);
        }
        for (int f = 0; f < frames && f < 2; f++) {
            bytes += zmq_msg_size(&parts[f]);
            (void)zmq_msg_close(&parts[f]);
        }
        peer = bulk_link_peer(bulk, node);
        CHECK(peer != NULL && peer->socket != NULL); /* taking an answer closes no socket */
        if (++count > ANSWERS_MAX || bytes > ANSWERS_BYTES_MAX) {
            bulk_count(bulk, &bulk->statistics.malformed, 1);
            peer_shut(bulk, peer);
            peer_fail(bulk, node, ERR_MALFORMED);
            return;
        }
    }
}

/* ---- time ---- */

/* libzmq gives a connection up for ever after a protocol error, and reports it to nobody: after a failure the next
 * question gets a new socket. */
static void peer_watch(struct bulk *bulk, struct bulk_peer_state *peer)
{
    struct peer_load load = peer_load(bulk, peer->node);
    if (load.sent + load.waiting == 0) {
        if (bulk->now_ms - peer->used_ms >= bulk->idle_ms && !bulk_streams_use(bulk, peer->node)) {
            peer_shut(bulk, peer);
        }
        return;
    }
    if (peer->connected && load.sent > 0 && !takes_more(peer->socket)) {
        if ((load.gets > 0 || load.puts > 0) && ++peer->breaks >= BREAKS_MAX) {
            peer_way(bulk, peer, BULK_WAY_STALLS);
        }
        peer_ask_again(bulk, peer);
        peer->want_out = true;
    }
    if (bulk->now_ms - peer->progress_ms >= (peer->connected ? BULK_STALL_MS : BULK_CONNECT_MS)) {
        peer_way(bulk, peer, peer->connected ? BULK_WAY_STALLS : BULK_WAY_CLOSED);
        peer_shut(bulk, peer);
        peer_fail(bulk, peer->node, ERR_TIMEOUT);
    }
}

void bulk_link_pump(struct bulk *bulk)
{
    questions_send(bulk);
    for (uint32_t i = 0; i < bulk->peer_count; i++) {
        if (bulk->peers[i].socket != NULL) {
            peer_watch(bulk, &bulk->peers[i]);
        }
    }
}

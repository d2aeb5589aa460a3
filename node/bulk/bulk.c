/* The API, commands and events, and the thread's loop. */
#include "node/bulk/bulk.h"

#include <errno.h>
#include <malloc.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "gossip/socket.h"
#include "node/bulk/state.h"

#define TICK_MS 100        /* between looks at deadlines and retries, while anything is under way */
#define QUIET_MS 5000      /* between looks while only idle connections are open */
#define STORE_FAILED_MS 5000

_Static_assert(BULK_WIRE_PREFIX_BYTES_MAX == SERIES_PREFIX_BYTES_MAX, "a prefix of the wire is one of the store");
_Static_assert(BULK_WIRE_ENTRY_BYTES_MAX == SERIES_ENTRY_BYTES_MAX, "an entry of the wire is one of the store");
_Static_assert(BULK_WIRE_BODY_BYTES_MAX == BLOB_CHUNK_BYTES_MAX, "a chunk fits into a message");

static uint64_t clock_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* stands still during a suspend, so that no peer is accused for it */
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- shared by the parts ---- */

void bulk_count(struct bulk *bulk, uint64_t *counter, uint64_t by)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    *counter += by;
    (void)pthread_mutex_unlock(&bulk->mutex);
}

/* The peer's row, or NULL. The caller has the mutex. */
static struct bulk_traffic *traffic_of(struct bulk *bulk, node_id node)
{
    uint32_t i = 0;
    while (i < bulk->traffic_count && !node_id_equal(bulk->traffic[i].node, node)) {
        i++;
    }
    return i < bulk->traffic_count ? &bulk->traffic[i] : NULL;
}

static void count_traffic(struct bulk *bulk, node_id node, uint64_t sent_bytes, uint64_t received_bytes)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    struct bulk_traffic *row = traffic_of(bulk, node);
    if (row == NULL && bulk->traffic_count < BULK_PEERS_MAX) {
        row = &bulk->traffic[bulk->traffic_count++];
        *row = (struct bulk_traffic){.node = node};
    }
    if (row != NULL) {
        row->sent_bytes += sent_bytes;
        row->received_bytes += received_bytes;
    }
    bulk->statistics.sent_bytes += sent_bytes;
    bulk->statistics.received_bytes += received_bytes;
    (void)pthread_mutex_unlock(&bulk->mutex);
}

void bulk_count_sent(struct bulk *bulk, node_id to, uint64_t bytes)
{
    count_traffic(bulk, to, bytes, 0);
}

void bulk_count_received(struct bulk *bulk, node_id from, uint64_t bytes)
{
    count_traffic(bulk, from, 0, bytes);
}

struct bulk_traffic bulk_traffic(struct bulk *bulk, node_id node)
{
    struct bulk_traffic out = {.node = node};
    (void)pthread_mutex_lock(&bulk->mutex);
    const struct bulk_traffic *row = traffic_of(bulk, node);
    out = row != NULL ? *row : out;
    (void)pthread_mutex_unlock(&bulk->mutex);
    return out;
}

uint8_t *bulk_map(void)
{
    void *buffer = mmap(NULL, BLOB_CHUNK_BYTES_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return buffer == MAP_FAILED ? NULL : buffer;
}

void bulk_unmap(uint8_t *buffer)
{
    (void)munmap(buffer, BLOB_CHUNK_BYTES_MAX);
}

void bulk_event_put(struct bulk *bulk, struct bulk_event_node *node)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    node->next = NULL;
    *bulk->events_end = node;
    bulk->events_end = &node->next;
    (void)eventfd_write(bulk->event_fd, 1); /* under the mutex, or a reader could clear it afterwards */
    (void)pthread_mutex_unlock(&bulk->mutex);
}

/* A new notice; NULL: too many wait, or no memory; a later notice will report the condition. */
static struct bulk_event_node *notice_new(struct bulk *bulk, enum bulk_event_kind kind)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    struct bulk_event_node *node = bulk->notices < BULK_NOTICES_MAX ? calloc(1, sizeof *node) : NULL;
    if (node != NULL) {
        node->event.kind = kind;
        node->counter = &bulk->notices;
        bulk->notices++;
    }
    (void)pthread_mutex_unlock(&bulk->mutex);
    return node;
}

void bulk_notice_corrupt(struct bulk *bulk, hash256 hash, node_id where)
{
    struct bulk_event_node *node = notice_new(bulk, BULK_CORRUPT);
    if (node != NULL) {
        node->event.code = ERR_CORRUPT;
        node->event.hash = hash;
        node->event.node = where;
        char name[13];
        bytes_to_hex(name, hash.bytes, 6);
        (void)snprintf(node->event.text, sizeof node->event.text, "Chunk %s %s.", name,
                       node_id_equal(where, bulk->self) ? "is damaged on this disk and was deleted" : "arrived damaged from another node");
        bulk_event_put(bulk, node);
    }
}

bool bulk_notice_way(struct bulk *bulk, node_id node, enum bulk_way way)
{
    struct bulk_event_node *notice = notice_new(bulk, BULK_WAY);
    if (notice == NULL) {
        return false;
    }
    notice->event.node = node;
    notice->event.way = way;
    bulk_event_put(bulk, notice);
    return true;
}

int bulk_store_result(struct bulk *bulk, int code)
{
    if ((code != ERR_NO_SPACE && code != ERR_IO) ||
        (bulk->store_failed_ms != 0 && bulk->now_ms - bulk->store_failed_ms < STORE_FAILED_MS)) {
        return code;
    }
    struct bulk_event_node *node = notice_new(bulk, BULK_STORE_FAILED);
    if (node != NULL) {
        bulk->store_failed_ms = bulk->now_ms;
        node->event.code = code;
        node->event.node = bulk->self;
        (void)snprintf(node->event.text, sizeof node->event.text,
                       code == ERR_NO_SPACE ? "The disk of this node is full: no chunk can be stored until there is room."
                                            : "The disk of this node reported an error when a chunk was stored.");
        bulk_event_put(bulk, node);
    }
    return code;
}

static void chunk_discard(struct bulk *bulk, hash256 hash)
{
    (void)bulk_store_result(bulk, chunks_delete(bulk->chunks, hash));
    bulk_notice_corrupt(bulk, hash, bulk->self);
}

int bulk_chunk_read(struct bulk *bulk, hash256 hash, uint8_t **buffer, size_t *count)
{
    uint8_t *mapped = bulk_map();
    if (mapped == NULL) {
        return ERR_MEMORY;
    }
    int code = chunks_get(bulk->chunks, hash, mapped, BLOB_CHUNK_BYTES_MAX, count);
    if (code == ERR_CORRUPT || code == ERR_FULL) { /* FULL: longer than any chunk, so damaged */
        chunk_discard(bulk, hash);
        code = ERR_CORRUPT;
    }
    if (code != 0) {
        bulk_unmap(mapped);
        return code;
    }
    *buffer = mapped;
    return 0;
}

struct packing {
    struct pack_writer writer;
    size_t bytes_max;
    uint64_t last;
    uint32_t count;
    bool more;
};

#define PACKING_FULL 1

static int packing_add(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct packing *packing = context;
    if (packing->count > 0 && packing->writer.used_bytes + count > packing->bytes_max) {
        packing->more = true;
        return PACKING_FULL;
    }
    bulk_wire_entry_write(&packing->writer, sequence, bytes, count);
    packing->last = sequence;
    packing->count++;
    return 0;
}

int bulk_series_pack(struct bulk *bulk, const uint8_t *prefix, size_t prefix_bytes, uint64_t from, size_t bytes_max,
                     uint8_t *out, size_t *out_bytes, uint64_t *last, uint32_t *count, bool *more)
{
    struct packing packing = {.bytes_max = bytes_max};
    pack_writer_init(&packing.writer, out, BLOB_CHUNK_BYTES_MAX);
    int code = series_read(bulk->chunks, prefix, prefix_bytes, from, packing_add, &packing);
    if (code != 0 && code != PACKING_FULL && code != ERR_NOT_FOUND) {
        return code;
    }
    CHECK(!packing.writer.failed); /* one entry and 256 KiB are less than 4 MiB */
    *out_bytes = packing.writer.used_bytes;
    *last = packing.last;
    *count = packing.count;
    *more = packing.more;
    return 0;
}

int bulk_series_answer(struct bulk *bulk, const uint8_t *prefix, size_t prefix_bytes, uint64_t from, const uint8_t *question,
                       size_t question_bytes, uint8_t *out, size_t *out_bytes, bool *more)
{
    struct pack_writer writer;
    if (bulk->series.answer == NULL) {
        return ERR_VERSION;
    }
    pack_writer_init(&writer, out, BLOB_CHUNK_BYTES_MAX);
    int code = bulk->series.answer(bulk->series.context, bulk->chunks, prefix, prefix_bytes, from, question, question_bytes,
                                   BULK_SERIES_BYTES, &writer, more);
    *out_bytes = writer.used_bytes;
    return code != 0 ? code : writer.failed ? ERR_FULL : 0;
}

int bulk_series_store(struct bulk *bulk, const struct series_entry *entries, size_t count)
{
    int code = bulk_store_result(bulk, series_append_batch(bulk->chunks, entries, count));
    if (code == 0 && bulk->series.stored != NULL) {
        bulk->series.stored(bulk->series.context, bulk->chunks, entries, count);
    }
    return code;
}

/* ---- the thread ---- */

static struct bulk_command *commands_take(struct bulk *bulk, bool *stopping)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    struct bulk_command *first = bulk->commands;
    bulk->commands = NULL;
    bulk->commands_end = &bulk->commands;
    bulk->command_bytes = 0;
    *stopping = bulk->stopping;
    (void)pthread_mutex_unlock(&bulk->mutex);
    return first;
}

static void command_free(struct bulk_command *command)
{
    if (command->job != NULL) {
        bulk_job_free(command->job); /* frees the command, too */
        return;
    }
    if (command->kind == BULK_DO_STREAM || command->kind == BULK_DO_STREAM_ANSWER) {
        if (command->fd >= 0) {
            (void)close(command->fd);
        }
    }
    free(command->event);
    free(command);
}

static void commands_free(struct bulk_command *first)
{
    while (first != NULL) {
        struct bulk_command *next = first->next;
        command_free(first);
        first = next;
    }
}

static void command_do(struct bulk *bulk, struct bulk_command *command)
{
    uint8_t *buffer;
    size_t count;
    switch (command->kind) {
    case BULK_DO_PEER:
        bulk_link_peer_set(bulk, command);
        free(command);
        break;
    case BULK_DO_DISCARD:
        if (bulk_chunk_read(bulk, command->hash, &buffer, &count) == 0) {
            bulk_unmap(buffer);
        }
        free(command);
        break;
    case BULK_DO_STREAM:
    case BULK_DO_STREAM_ANSWER:
    case BULK_DO_STREAM_CLOSE:
        bulk_streams_command(bulk, command);
        break;
    default:
        bulk_jobs_command(bulk, command);
        break;
    }
}

/* Performs commands in order; neighbouring appends share transactions. */
static void commands_do(struct bulk *bulk, struct bulk_command *first)
{
    while (first != NULL) {
        struct bulk_command *next;
        if (first->kind == BULK_DO_APPEND) {
            struct bulk_command *last = first;
            while (last->next != NULL && last->next->kind == BULK_DO_APPEND) {
                last = last->next;
            }
            next = last->next;
            last->next = NULL;
            bulk_jobs_append(bulk, first);
            commands_free(first);
        } else {
            next = first->next;
            first->next = NULL;
            command_do(bulk, first);
        }
        first = next;
    }
}

static long work_wait_ms(struct bulk *bulk)
{
    if (bulk->again) {
        return 0;
    }
    if (bulk->question_count > 0 || bulk->serve_count > 0 || bulk->active_count > 0 || bulk->cursor_count > 0) {
        if (bulk->rate != 0 && bulk->budget <= 0) {
            uint64_t owed_ms = (uint64_t)(1 - bulk->budget) * 1000 / bulk->rate + 1;
            return owed_ms < TICK_MS ? (long)owed_ms : TICK_MS;
        }
        return TICK_MS;
    }
    for (uint32_t i = 0; i < bulk->peer_count; i++) {
        if (bulk->peers[i].socket != NULL) {
            return bulk->idle_ms < QUIET_MS ? (long)bulk->idle_ms : QUIET_MS;
        }
    }
    return bulk->trim ? QUIET_MS : -1;
}

static long wait_ms(struct bulk *bulk)
{
    long wait = work_wait_ms(bulk);
    uint64_t stream_ms = bulk_streams_next_ms(bulk);
    if (stream_ms != UINT64_MAX) {
        uint64_t left_ms = stream_ms > bulk->now_ms ? stream_ms - bulk->now_ms : 0;
        wait = wait < 0 || left_ms < (uint64_t)wait ? (long)left_ms : wait;
    }
    bool is_watching = inflow_next_ms(&bulk->inflow) != UINT64_MAX;
    return is_watching && (wait < 0 || wait > INFLOW_LOOK_MS) ? INFLOW_LOOK_MS : wait;
}

#define ITEMS_FIXED 3

/* Waits for work. False: the context has ended. */
static bool turn_wait(struct bulk *bulk, zmq_pollitem_t *items, node_id *nodes)
{
    int count = 0;
    items[count++] = (zmq_pollitem_t){.fd = bulk->pool->wake_fd, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = bulk->router, .events = ZMQ_POLLIN};
    items[count++] = (zmq_pollitem_t){.socket = bulk->monitor, .events = ZMQ_POLLIN};
    for (uint32_t i = 0; i < bulk->peer_count; i++) {
        const struct bulk_peer_state *peer = &bulk->peers[i];
        if (peer->socket != NULL) {
            nodes[count] = peer->node;
            items[count++] = (zmq_pollitem_t){.socket = peer->socket,
                                              .events = (short)(ZMQ_POLLIN | (peer->want_out ? ZMQ_POLLOUT : 0))};
        }
    }
    long timeout_ms = wait_ms(bulk);
    int peer_items = count;
    count += bulk_streams_poll(bulk, items + count);
    int ready = zmq_poll(items, count, timeout_ms);
    if (ready < 0) {
        return zmq_errno() != ETERM && zmq_errno() != ENOTSOCK;
    }
    bulk->now_ms = clock_ms();
    bulk->again = false;
    if (ready == 0 && timeout_ms > TICK_MS && bulk->trim) {
        (void)malloc_trim(0); /* memory that libzmq used for chunks */
        bulk->trim = false;
    }
    if ((items[0].revents & ZMQ_POLLIN) != 0) {
        eventfd_t ignored;
        (void)eventfd_read(bulk->pool->wake_fd, &ignored);
    }
    for (int i = ITEMS_FIXED; i < peer_items; i++) {
        struct bulk_peer_state *peer = items[i].revents != 0 ? bulk_link_peer(bulk, nodes[i]) : NULL;
        if (peer != NULL && (items[i].revents & ZMQ_POLLOUT) != 0) {
            peer->want_out = false;
        }
        if (peer != NULL && (items[i].revents & ZMQ_POLLIN) != 0) {
            bulk_link_receive(bulk, peer);
        }
    }
    return true;
}

static void *run(void *context)
{
    struct bulk *bulk = context;
    zmq_pollitem_t *items = calloc(ITEMS_FIXED + BULK_PEERS_MAX + BULK_STREAMS_MAX, sizeof *items);
    node_id *nodes = calloc(ITEMS_FIXED + BULK_PEERS_MAX, sizeof *nodes);
    bool stopping = false;
    bulk->now_ms = bulk->budget_ms = clock_ms();
    while (items != NULL && nodes != NULL && !stopping && turn_wait(bulk, items, nodes)) {
        struct bulk_command *commands = commands_take(bulk, &stopping);
        commands_do(bulk, commands);
        unsigned failed = socket_monitor_drain(bulk->monitor, &bulk->inflow);
        bulk_count(bulk, &bulk->statistics.failed, failed);
        bulk_serve_receive(bulk);
        unsigned cut = inflow_look(&bulk->inflow, bulk->now_ms);
        bulk_count(bulk, &bulk->statistics.cut, cut);
        bulk_jobs_pump(bulk);
        bulk_link_pump(bulk);
        bulk_streams_pump(bulk);
        bulk_serve_pump(bulk);
    }
    free(items);
    free(nodes);
    return NULL;
}

/* ---- start and stop ---- */

static struct bulk_pool *pool_new(void)
{
    struct bulk_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        return NULL;
    }
    pool->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pool->wake_fd < 0) {
        free(pool);
        return NULL;
    }
    atomic_init(&pool->references, 1);
    for (int i = 0; i < BULK_BUFFERS; i++) {
        pool->slots[i].pool = pool;
    }
    return pool;
}

static void bulk_free(struct bulk *bulk)
{
    bulk_streams_close(bulk);
    bulk_link_close(bulk);
    bulk_jobs_close(bulk);
    bulk_serve_close(bulk);
    commands_free(bulk->commands);
    if (bulk->taken != NULL) {
        free(bulk->taken->body);
        free(bulk->taken);
    }
    while (bulk->events != NULL) {
        struct bulk_event_node *next = bulk->events->next;
        free(bulk->events->body);
        free(bulk->events);
        bulk->events = next;
    }
    if (bulk->event_fd >= 0) {
        (void)close(bulk->event_fd);
    }
    if (bulk->pool != NULL) {
        bulk_pool_release(bulk->pool);
    }
    (void)pthread_mutex_destroy(&bulk->mutex);
    explicit_bzero(bulk->curve_secret, sizeof bulk->curve_secret);
    free(bulk);
}

int bulk_start(const struct bulk_options *options, struct bulk **out, char error[256])
{
    struct bulk *bulk = calloc(1, sizeof *bulk);
    if (bulk == NULL) {
        (void)snprintf(error, 256, "No memory is left for the bulk sockets.");
        return ERR_MEMORY;
    }
    bulk->context = options->context;
    bulk->zap = options->zap;
    bulk->chunks = options->chunks;
    bulk->series = options->series;
    bulk->self = options->keys->id;
    memcpy(bulk->curve_public, options->keys->curve_public, 32);
    memcpy(bulk->curve_secret, options->keys->curve_secret, 32);
    bulk->rate = options->bytes_per_s_max;
    bulk->budget = 1;
    bulk->io_threads = options->io_threads;
    bulk->idle_ms = options->idle_ms != 0 ? options->idle_ms : BULK_IDLE_MS;
    bulk->commands_end = &bulk->commands;
    bulk->events_end = &bulk->events;
    bulk->waiting_end = &bulk->waiting;
    bulk_serve_open(bulk);
    (void)pthread_mutex_init(&bulk->mutex, NULL);
    bulk->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    bulk->pool = pool_new();
    bulk->peers = calloc(BULK_PEERS_MAX, sizeof *bulk->peers);
    int result = ERR_MEMORY;
    (void)snprintf(error, 256, "No memory, file descriptor or thread is left for the bulk sockets.");
    if (bulk->event_fd >= 0 && bulk->pool != NULL && bulk->peers != NULL) {
        result = bulk_link_open(bulk, options->listen, error);
        if (result == 0 && pthread_create(&bulk->thread, NULL, run, bulk) != 0) {
            result = ERR_MEMORY;
        }
    }
    if (result != 0) {
        bulk_free(bulk);
        return result;
    }
    error[0] = '\0';
    *out = bulk;
    return 0;
}

void bulk_stop(struct bulk **bulk)
{
    struct bulk *self = *bulk;
    if (self == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&self->mutex);
    self->stopping = true;
    (void)pthread_mutex_unlock(&self->mutex);
    (void)eventfd_write(self->pool->wake_fd, 1);
    (void)pthread_join(self->thread, NULL);
    bulk_free(self);
    *bulk = NULL;
}

uint16_t bulk_port(const struct bulk *bulk)
{
    return bulk->port;
}

int bulk_fd(const struct bulk *bulk)
{
    return bulk->event_fd;
}

/* ---- commands ---- */

static struct bulk_command *command_new(enum bulk_command_kind kind, size_t byte_count)
{
    struct bulk_command *command = calloc(1, sizeof *command + byte_count);
    if (command != NULL) {
        command->kind = kind;
        command->byte_count = byte_count;
    }
    return command;
}

/* What a command with so many bytes of an entry takes of BULK_COMMAND_BYTES_MAX. */
static size_t command_bytes(size_t byte_count)
{
    return sizeof(struct bulk_command) + sizeof(struct bulk_event_node) + byte_count;
}

/* Queues a command, or frees it on an error. */
static int command_put(struct bulk *bulk, struct bulk_command *command)
{
    if (command == NULL) {
        return ERR_MEMORY;
    }
    size_t bytes = command_bytes(command->byte_count);
    (void)pthread_mutex_lock(&bulk->mutex);
    /* Changes of peers are never refused: they are small, and a lost one would be lost for ever. */
    bool full = (command->kind != BULK_DO_PEER && bulk->command_bytes + bytes > BULK_COMMAND_BYTES_MAX) ||
                (command->job != NULL && bulk->requests == BULK_REQUESTS_MAX);
    if (!full) {
        bulk->requests += command->job != NULL;
        bulk->command_bytes += bytes;
        *bulk->commands_end = command;
        bulk->commands_end = &command->next;
    }
    (void)pthread_mutex_unlock(&bulk->mutex);
    if (full) {
        command_free(command);
        return ERR_FULL;
    }
    (void)eventfd_write(bulk->pool->wake_fd, 1);
    return 0;
}

static struct bulk_command *request_new(enum bulk_command_kind kind, uint64_t id, const node_id *nodes, uint32_t count,
                                        size_t byte_count)
{
    struct bulk_command *command = command_new(kind, byte_count);
    struct bulk_job *job = calloc(1, sizeof *job);
    struct bulk_event_node *event = calloc(1, sizeof *event);
    if (command == NULL || job == NULL || event == NULL) {
        free(command);
        free(job);
        free(event);
        return NULL;
    }
    command->id = id;
    if (count > 0) {
        memcpy(command->nodes, nodes, count * sizeof *nodes);
    }
    command->node_count = count;
    command->job = job;
    job->command = command;
    job->event = event;
    return command;
}

static int endpoint_of(const char *host, uint16_t port, char out[BULK_ENDPOINT_BYTES])
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
    if (strcmp(host, "*") == 0 || getaddrinfo(host, NULL, &hints, &found) != 0) {
        return ERR_USAGE;
    }
    bool wide = found->ai_family == AF_INET6;
    freeaddrinfo(found);
    int length = snprintf(out, BULK_ENDPOINT_BYTES, "tcp://%s%s%s:%u", wide ? "[" : "", host, wide ? "]" : "", port);
    return length < BULK_ENDPOINT_BYTES ? 0 : ERR_USAGE;
}

int bulk_peer(struct bulk *bulk, node_id node, const uint8_t sign_public[32], const char *host, uint16_t port)
{
    struct bulk_command *command = command_new(BULK_DO_PEER, 0);
    if (command == NULL) {
        return ERR_MEMORY;
    }
    command->nodes[0] = node;
    if (port != 0 && (keys_curve_of(sign_public, command->curve_public) != 0 ||
                      endpoint_of(host, port, command->endpoint) != 0)) {
        free(command);
        return ERR_USAGE;
    }
    return command_put(bulk, command);
}

/* Asks for something to be done with a blob. */
static int blob_request(struct bulk *bulk, enum bulk_command_kind kind, uint64_t id, hash256 manifest, const node_id *nodes,
                        uint32_t count)
{
    struct bulk_command *command = request_new(kind, id, nodes, count, 0);
    if (command != NULL) {
        command->hash = manifest;
    }
    return command_put(bulk, command);
}

int bulk_fetch(struct bulk *bulk, uint64_t id, hash256 manifest, const node_id *holders, uint32_t holder_count)
{
    return holder_count <= BLOB_HOLDERS_MAX ? blob_request(bulk, BULK_DO_FETCH, id, manifest, holders, holder_count) : ERR_USAGE;
}

int bulk_fetch_ranges(struct bulk *bulk, uint64_t id, hash256 manifest, const node_id *holders, uint32_t holder_count,
                      const struct blob_range *ranges, uint32_t range_count)
{
    if (holder_count > BLOB_HOLDERS_MAX || range_count == 0 || range_count > BULK_RANGES_MAX) {
        return ERR_USAGE;
    }
    struct bulk_command *command = request_new(BULK_DO_FETCH, id, holders, holder_count, range_count * sizeof *ranges);
    if (command != NULL) {
        command->hash = manifest;
        memcpy(command->bytes, ranges, range_count * sizeof *ranges);
    }
    return command_put(bulk, command);
}

int bulk_push(struct bulk *bulk, uint64_t id, hash256 manifest, node_id to)
{
    return blob_request(bulk, BULK_DO_PUSH, id, manifest, &to, 1);
}

int bulk_series_append(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t sequence,
                       const void *bytes, size_t count, const node_id *to, uint32_t to_count)
{
    if (prefix_bytes < 1 || prefix_bytes > SERIES_PREFIX_BYTES_MAX || count > SERIES_ENTRY_BYTES_MAX ||
        to_count > BLOB_HOLDERS_MAX) {
        return ERR_USAGE;
    }
    struct bulk_command *command = command_new(BULK_DO_APPEND, count);
    if (command == NULL) {
        return ERR_MEMORY;
    }
    command->id = id;
    command->event = id != 0 ? calloc(1, sizeof *command->event) : NULL;
    if (id != 0 && command->event == NULL) {
        free(command);
        return ERR_MEMORY;
    }
    memcpy(command->prefix, prefix, prefix_bytes);
    command->prefix_bytes = prefix_bytes;
    command->sequence = sequence;
    if (count > 0) {
        memcpy(command->bytes, bytes, count);
    }
    if (to_count > 0) {
        memcpy(command->nodes, to, to_count * sizeof *to);
    }
    command->node_count = to_count;
    return command_put(bulk, command);
}

bool bulk_series_has_room(struct bulk *bulk, size_t count)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    bool has_room = bulk->command_bytes + command_bytes(count) <= BULK_COMMAND_BYTES_MAX;
    (void)pthread_mutex_unlock(&bulk->mutex);
    return has_room;
}

int bulk_series_fetch(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                      node_id node)
{
    return bulk_series_ask(bulk, id, prefix, prefix_bytes, from_sequence, "", 0, node);
}

int bulk_series_ask(struct bulk *bulk, uint64_t id, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                    const void *question, size_t question_bytes, node_id node)
{
    if (prefix_bytes < 1 || prefix_bytes > SERIES_PREFIX_BYTES_MAX || question_bytes > BULK_WIRE_QUESTION_BYTES_MAX) {
        return ERR_USAGE;
    }
    struct bulk_command *command = request_new(BULK_DO_READ, id, &node, 1, question_bytes);
    if (command != NULL) {
        memcpy(command->prefix, prefix, prefix_bytes);
        command->prefix_bytes = prefix_bytes;
        command->sequence = from_sequence;
        memcpy(command->bytes, question, question_bytes);
    }
    return command_put(bulk, command);
}

int bulk_verify(struct bulk *bulk, uint64_t id, hash256 manifest, node_id node)
{
    return blob_request(bulk, BULK_DO_VERIFY, id, manifest, &node, 1);
}

int bulk_discard(struct bulk *bulk, hash256 hash)
{
    struct bulk_command *command = command_new(BULK_DO_DISCARD, 0);
    if (command != NULL) {
        command->hash = hash;
    }
    return command_put(bulk, command);
}

/* A command about a stream; takes `fd` over. */
static int stream_command(struct bulk *bulk, enum bulk_command_kind kind, uint64_t id, const void *bytes, size_t count, int fd, int code,
                          node_id node)
{
    struct bulk_command *command = command_new(kind, count);
    struct bulk_event_node *event = kind == BULK_DO_STREAM ? calloc(1, sizeof *event) : NULL;
    if (command == NULL || (kind == BULK_DO_STREAM && event == NULL)) {
        free(command);
        free(event);
        if (fd >= 0) {
            (void)close(fd);
        }
        return ERR_MEMORY;
    }
    command->id = id;
    command->nodes[0] = node;
    command->event = event;
    command->fd = fd;
    command->code = code;
    if (count > 0) {
        memcpy(command->bytes, bytes, count);
    }
    return command_put(bulk, command);
}

int bulk_stream_open(struct bulk *bulk, uint64_t id, node_id node, const void *request, size_t request_bytes, int fd)
{
    if (request_bytes > BULK_STREAM_REQUEST_BYTES_MAX) {
        (void)close(fd);
        return ERR_USAGE;
    }
    return stream_command(bulk, BULK_DO_STREAM, id, request, request_bytes, fd, 0, node);
}

int bulk_stream_answer(struct bulk *bulk, uint64_t id, int fd, int code, const char *text)
{
    return stream_command(bulk, BULK_DO_STREAM_ANSWER, id, text, strlen(text), fd, code, (node_id){{0}});
}

int bulk_stream_close(struct bulk *bulk, uint64_t id, int code, const char *text)
{
    return stream_command(bulk, BULK_DO_STREAM_CLOSE, id, text, strlen(text), -1, code, (node_id){{0}});
}

/* ---- events ---- */

int bulk_next(struct bulk *bulk, struct bulk_event *out)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    struct bulk_event_node *done = bulk->taken, *next = bulk->events;
    bulk->taken = next;
    if (next != NULL) {
        bulk->events = next->next;
        if (next->counter != NULL) {
            (*next->counter)--;
        }
        *out = next->event;
    }
    if (bulk->events == NULL) {
        eventfd_t ignored;
        bulk->events_end = &bulk->events;
        (void)eventfd_read(bulk->event_fd, &ignored);
    }
    (void)pthread_mutex_unlock(&bulk->mutex);
    if (done != NULL) {
        free(done->body);
        free(done);
    }
    return next != NULL ? 0 : ERR_AGAIN;
}

void bulk_statistics(struct bulk *bulk, struct bulk_statistics *out)
{
    (void)pthread_mutex_lock(&bulk->mutex);
    *out = bulk->statistics;
    (void)pthread_mutex_unlock(&bulk->mutex);
}

#include "node/signer.h"

#include <errno.h>
#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/facts/facts.h"

/* Up to 64 nodes every record comes from every peer, and exchange repeats some: the hashes of the last good ones save a
 * signature each (0.1 ms against 0.01). Direct-mapped: a newer one pushes out who sat there. */
#define CACHE_SLOTS 4096
#define WRITER_SLOTS (2 * EDGE_WRITERS_MAX)

struct writer {
    bool used;
    node_id node;
    uint8_t key[PUBLIC_KEY_BYTES];
};

struct cache_slot {
    uint8_t hash[16];
};

struct job {
    struct job *next;
    struct edge_result result; /* its pointers point into bytes[] */
    uint32_t byte_count;
    uint8_t bytes[];
};

struct queue {
    struct job *first, *last;
};

struct edge {
    struct keys keys;
    mesh_id mesh;
    int fd;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the queues and their sums */
    pthread_cond_t wanted;
    bool stopping;
    struct queue jobs, results;
    uint32_t outstanding; /* jobs, the one at work and results */
    uint32_t joins;       /* of these */
    size_t outstanding_bytes;
    struct job *taken; /* the result that the caller looks at */

    pthread_mutex_t table_mutex; /* guards all below; taken inside no other and holding no other */
    uint32_t writer_count;
    struct writer writers[WRITER_SLOTS];
    struct cache_slot cache[CACHE_SLOTS];
    struct edge_statistics statistics;
};

/* ---- what is known ----------------------------------------------------------------------------------------------- */

static struct writer *writer_slot(struct edge *edge, node_id node)
{
    size_t at = (size_t)bytes_hash64(node.bytes, NODE_ID_BYTES, 0) % WRITER_SLOTS;
    while (edge->writers[at].used && !node_id_equal(edge->writers[at].node, node)) {
        at = (at + 1) % WRITER_SLOTS;
    }
    return &edge->writers[at];
}

static bool writer_find(struct edge *edge, node_id node, uint8_t key[PUBLIC_KEY_BYTES])
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    const struct writer *writer = writer_slot(edge, node);
    bool found = writer->used;
    if (found) {
        memcpy(key, writer->key, PUBLIC_KEY_BYTES);
    }
    (void)pthread_mutex_unlock(&edge->table_mutex);
    return found;
}

static void writer_learn(struct edge *edge, node_id node, const uint8_t key[PUBLIC_KEY_BYTES])
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    struct writer *writer = writer_slot(edge, node);
    if (!writer->used && edge->writer_count < EDGE_WRITERS_MAX) {
        *writer = (struct writer){.used = true, .node = node};
        memcpy(writer->key, key, PUBLIC_KEY_BYTES);
        edge->writer_count++;
    }
    (void)pthread_mutex_unlock(&edge->table_mutex);
}

static struct cache_slot *cache_slot(struct edge *edge, const uint8_t hash[16])
{
    return &edge->cache[bytes_get_u32(hash) % CACHE_SLOTS];
}

static bool cache_has(struct edge *edge, const uint8_t hash[16])
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    bool has = memcmp(cache_slot(edge, hash)->hash, hash, 16) == 0;
    edge->statistics.cached += has;
    (void)pthread_mutex_unlock(&edge->table_mutex);
    return has;
}

static void cache_add(struct edge *edge, const uint8_t hash[16])
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    memcpy(cache_slot(edge, hash)->hash, hash, 16);
    edge->statistics.verified++;
    (void)pthread_mutex_unlock(&edge->table_mutex);
}

static void count_up(struct edge *edge, uint64_t *counter, uint64_t by)
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    *counter += by;
    (void)pthread_mutex_unlock(&edge->table_mutex);
}

/* ---- verifying --------------------------------------------------------------------------------------------------- */

enum verdict { UNDECIDED, GOOD, BAD };

/* One record of a list. */
struct item {
    const uint8_t *envelope;
    uint32_t count;
    enum verdict verdict;
    bool names_key; /* a well-formed member record whose key is the named node's */
    node_id named;
    struct record record;
    struct fact_member member;
};

static bool signature_good(struct edge *edge, const struct item *item, const uint8_t key[PUBLIC_KEY_BYTES])
{
    uint8_t hash[16];
    (void)crypto_generichash(hash, sizeof hash, item->envelope, item->count, NULL, 0);
    if (cache_has(edge, hash)) {
        return true;
    }
    if (keys_verify_record(key, edge->mesh, item->envelope, item->count) != 0) {
        return false;
    }
    cache_add(edge, hash);
    return true;
}

static bool is_founder(const struct edge *edge, const struct item *item)
{
    return item->names_key && node_id_equal(item->named, item->record.writer) &&
           mesh_id_equal(mesh_id_of_founder(item->member.public_key, item->member.nonce), edge->mesh);
}

/* Decides if the writer's key is known. */
static void item_decide(struct edge *edge, struct item *item)
{
    uint8_t key[PUBLIC_KEY_BYTES];
    if (!writer_find(edge, item->record.writer, key)) {
        if (!is_founder(edge, item)) {
            return;
        }
        memcpy(key, item->member.public_key, sizeof key);
    }
    bool good = signature_good(edge, item, key) && (item->record.kind != FACT_MEMBER || item->names_key);
    item->verdict = good ? GOOD : BAD;
    if (good && item->names_key) {
        writer_learn(edge, item->named, item->member.public_key);
    }
    count_up(edge, &edge->statistics.forged, !good);
}

static void item_read(struct item *item)
{
    if (item->record.kind != FACT_MEMBER || fact_member_read(&item->record, &item->member) != 0 ||
        item->record.key_bytes != NODE_ID_BYTES) {
        return;
    }
    memcpy(item->named.bytes, item->record.key, NODE_ID_BYTES);
    item->names_key = node_id_equal(node_id_of_key(item->member.public_key), item->named);
}

/* Cuts the list into records; stops at the first that is none. */
static size_t items_read(struct edge *edge, const uint8_t *bytes, size_t count, struct item *items)
{
    size_t found = 0;
    for (size_t at = 0; at < count;) {
        size_t length;
        struct item *item = &items[found];
        memset(item, 0, sizeof *item);
        if (record_length(bytes + at, count - at, &length) != 0 ||
            record_decode(bytes + at, length, &item->record) != 0) {
            count_up(edge, &edge->statistics.malformed, 1);
            break;
        }
        item->envelope = bytes + at;
        item->count = (uint32_t)length;
        item_read(item);
        at += length;
        found++;
    }
    return found;
}

/* Member records may name the writers of others, in any order: rounds go on while one of them brought a key. */
static void items_decide(struct edge *edge, struct item *items, size_t count)
{
    bool learned = true;
    while (learned) {
        learned = false;
        for (size_t i = 0; i < count; i++) {
            if (items[i].verdict == UNDECIDED) {
                item_decide(edge, &items[i]);
                learned |= items[i].verdict == GOOD && items[i].names_key;
            }
        }
    }
}

size_t edge_filter(struct edge *edge, const uint8_t *bytes, size_t count, uint8_t *out)
{
    size_t most = count / (RECORD_HEAD_BYTES + 2 + RECORD_SIGNATURE_BYTES) + 1;
    struct item *items = malloc(most * sizeof *items);
    if (items == NULL) {
        return 0;
    }
    size_t found = items_read(edge, bytes, count, items), used = 0, unknown = 0;
    items_decide(edge, items, found);
    for (size_t i = 0; i < found; i++) {
        if (items[i].verdict == GOOD) {
            memmove(out + used, items[i].envelope, items[i].count);
            used += items[i].count;
        }
        unknown += items[i].verdict == UNDECIDED;
    }
    count_up(edge, &edge->statistics.unknown, unknown);
    free(items);
    return used;
}

/* ---- the thread -------------------------------------------------------------------------------------------------- */

static void queue_push(struct queue *queue, struct job *job)
{
    job->next = NULL;
    if (queue->last != NULL) {
        queue->last->next = job;
    } else {
        queue->first = job;
    }
    queue->last = job;
}

static struct job *queue_pop(struct queue *queue)
{
    struct job *job = queue->first;
    if (job != NULL) {
        queue->first = job->next;
        if (queue->first == NULL) {
            queue->last = NULL;
        }
    }
    return job;
}

static void queue_clear(struct queue *queue)
{
    for (struct job *job = queue_pop(queue); job != NULL; job = queue_pop(queue)) {
        free(job);
    }
}

/* Whoever we vouch for ourselves is known from then on. */
static void learn_own(struct edge *edge, const uint8_t *envelope, size_t count)
{
    struct record record;
    struct fact_member member;
    if (record_decode(envelope, count, &record) == 0 && record.kind == FACT_MEMBER &&
        fact_member_read(&record, &member) == 0) {
        writer_learn(edge, node_id_of_key(member.public_key), member.public_key);
    }
}

/* False: there is nothing to tell. */
static bool job_do(struct edge *edge, struct job *job)
{
    struct edge_result *result = &job->result;
    switch (result->kind) {
    case EDGE_VERIFIED:
        result->message.bytes = job->bytes;
        result->message.byte_count = (uint32_t)edge_filter(edge, job->bytes, job->byte_count, job->bytes);
        return result->message.byte_count > 0;
    case EDGE_SIGNED:
        keys_sign_record(&edge->keys, edge->mesh, job->bytes, job->byte_count);
        learn_own(edge, job->bytes, job->byte_count);
        result->bytes = job->bytes;
        result->byte_count = job->byte_count;
        count_up(edge, &edge->statistics.signed_records, 1);
        return true;
    case EDGE_JOIN:
        result->code =
            join_request_decode(job->bytes, job->byte_count, edge->mesh, result->invite_key, &result->request);
        return true;
    }
    return false;
}

/* Under the mutex. */
static void job_forget(struct edge *edge, struct job *job)
{
    edge->outstanding--;
    edge->joins -= job->result.kind == EDGE_JOIN;
    edge->outstanding_bytes -= sizeof *job + job->byte_count;
    free(job);
}

static void *edge_run(void *context)
{
    struct edge *edge = context;
    (void)pthread_mutex_lock(&edge->mutex);
    while (!edge->stopping) {
        struct job *job = queue_pop(&edge->jobs);
        if (job == NULL) {
            (void)pthread_cond_wait(&edge->wanted, &edge->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&edge->mutex);
        bool told = job_do(edge, job);
        (void)pthread_mutex_lock(&edge->mutex);
        if (told) {
            uint64_t one = 1;
            queue_push(&edge->results, job);
            (void)!write(edge->fd, &one, sizeof one);
        } else {
            job_forget(edge, job);
        }
    }
    (void)pthread_mutex_unlock(&edge->mutex);
    return NULL;
}

int edge_open(const struct keys *keys, mesh_id mesh, struct edge **out)
{
    struct edge *edge = calloc(1, sizeof *edge);
    if (edge == NULL) {
        return ERR_MEMORY;
    }
    edge->keys = *keys;
    edge->mesh = mesh;
    (void)pthread_mutex_init(&edge->mutex, NULL);
    (void)pthread_mutex_init(&edge->table_mutex, NULL);
    (void)pthread_cond_init(&edge->wanted, NULL);
    writer_learn(edge, keys->id, keys->sign_public);
    edge->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (edge->fd < 0 || pthread_create(&edge->thread, NULL, edge_run, edge) != 0) {
        if (edge->fd >= 0) {
            (void)close(edge->fd);
        }
        sodium_memzero(edge, sizeof *edge);
        free(edge);
        return ERR_IO;
    }
    *out = edge;
    return 0;
}

void edge_close(struct edge **edge)
{
    struct edge *self = *edge;
    if (self == NULL) {
        return;
    }
    (void)pthread_mutex_lock(&self->mutex);
    self->stopping = true;
    (void)pthread_cond_signal(&self->wanted);
    (void)pthread_mutex_unlock(&self->mutex);
    (void)pthread_join(self->thread, NULL);
    queue_clear(&self->jobs);
    queue_clear(&self->results);
    free(self->taken);
    (void)close(self->fd);
    (void)pthread_mutex_destroy(&self->mutex);
    (void)pthread_mutex_destroy(&self->table_mutex);
    (void)pthread_cond_destroy(&self->wanted);
    sodium_memzero(self, sizeof *self);
    free(self);
    *edge = NULL;
}

int edge_fd(const struct edge *edge)
{
    return edge->fd;
}

/* A full queue of others' messages must not keep us from signing our own, and one of joins neither from that nor from hearing
 * members. */
static bool fits(const struct edge *edge, const struct job *job)
{
    if (job->result.kind == EDGE_JOIN && edge->joins == EDGE_JOINS_MAX) {
        return false;
    }
    uint32_t most = job->result.kind == EDGE_VERIFIED ? EDGE_JOBS_MAX - EDGE_SIGN_RESERVE : EDGE_JOBS_MAX;
    size_t most_bytes = EDGE_JOB_BYTES_MAX + (job->result.kind == EDGE_VERIFIED ? 0 : EDGE_JOB_BYTES_MAX / 2);
    return edge->outstanding < most && edge->outstanding_bytes + sizeof *job + job->byte_count <= most_bytes;
}

static int submit(struct edge *edge, const struct edge_result *result, const uint8_t *bytes, size_t count)
{
    struct job *job = malloc(sizeof *job + count);
    if (job != NULL) {
        job->result = *result;
        job->byte_count = (uint32_t)count;
        if (count > 0) {
            memcpy(job->bytes, bytes, count);
        }
        (void)pthread_mutex_lock(&edge->mutex);
        bool fit = fits(edge, job);
        if (fit) {
            edge->outstanding++;
            edge->joins += result->kind == EDGE_JOIN;
            edge->outstanding_bytes += sizeof *job + count;
            queue_push(&edge->jobs, job);
            (void)pthread_cond_signal(&edge->wanted);
        }
        (void)pthread_mutex_unlock(&edge->mutex);
        if (fit) {
            return 0;
        }
        free(job);
    }
    count_up(edge, &edge->statistics.overflow, 1);
    return ERR_FULL;
}

int edge_verify(struct edge *edge, node_id from, const struct message *message)
{
    CHECK(message->kind == MESSAGE_RECORDS);
    struct edge_result result = {.kind = EDGE_VERIFIED, .from = from, .message = *message};
    return submit(edge, &result, message->bytes, message->byte_count);
}

int edge_sign(struct edge *edge, uint64_t ticket, const uint8_t *envelope, size_t count)
{
    struct record record;
    if (record_decode(envelope, count, &record) != 0) {
        return ERR_MALFORMED;
    }
    struct edge_result result = {.kind = EDGE_SIGNED, .ticket = ticket};
    return submit(edge, &result, envelope, count);
}

int edge_join(struct edge *edge, uint64_t client, const uint8_t invite_key[32], const uint8_t *bytes, size_t count)
{
    if (count > JOIN_REQUEST_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    struct edge_result result = {.kind = EDGE_JOIN, .client = client};
    memcpy(result.invite_key, invite_key, sizeof result.invite_key);
    return submit(edge, &result, bytes, count);
}

int edge_next(struct edge *edge, struct edge_result *out)
{
    (void)pthread_mutex_lock(&edge->mutex);
    if (edge->taken != NULL) {
        job_forget(edge, edge->taken);
    }
    edge->taken = queue_pop(&edge->results);
    if (edge->taken != NULL) {
        *out = edge->taken->result;
    }
    if (edge->results.first == NULL) {
        uint64_t count;
        (void)!read(edge->fd, &count, sizeof count); /* makes it unreadable */
    }
    int result = edge->taken != NULL ? 0 : ERR_AGAIN;
    (void)pthread_mutex_unlock(&edge->mutex);
    return result;
}

void edge_statistics(struct edge *edge, struct edge_statistics *out)
{
    (void)pthread_mutex_lock(&edge->table_mutex);
    *out = edge->statistics;
    (void)pthread_mutex_unlock(&edge->table_mutex);
}

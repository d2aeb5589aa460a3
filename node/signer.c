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

/* In a mesh of up to 64 nodes every record comes from every peer, and the record exchange repeats some. Remembering the
 * hashes of the last good records saves their signatures (0.01 ms instead of 0.1). Direct-mapped: a newer hash replaces
 * the hash in its slot. */
#define CACHE_SLOTS 4096
#define WRITER_SLOTS (2 * SIGNER_WRITERS_MAX)

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
    struct signer_result result; /* its pointers point into bytes[] */
    uint32_t byte_count;
    uint8_t bytes[];
};

struct queue {
    struct job *first, *last;
};

struct signer {
    struct keys keys;
    mesh_id mesh;
    int fd;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards the queues and the sums below */
    pthread_cond_t wanted;
    bool stopping;
    struct queue jobs, results;
    uint32_t outstanding; /* jobs: waiting, at work, or with a result not yet taken */
    uint32_t joins;       /* SIGNER_JOIN among the outstanding jobs */
    size_t outstanding_bytes;
    struct job *taken; /* the caller's present result, freed at the next signer_next */

    pthread_mutex_t table_mutex; /* guards the fields below; no thread ever holds both mutexes */
    uint32_t writer_count;
    struct writer writers[WRITER_SLOTS];
    struct cache_slot cache[CACHE_SLOTS];
    struct signer_statistics statistics;
};

/* ---- known keys and verified records ---------------------------------------------------------------------------- */

static struct writer *writer_slot(struct signer *signer, node_id node)
{
    size_t at = (size_t)bytes_hash64(node.bytes, NODE_ID_BYTES, 0) % WRITER_SLOTS;
    while (signer->writers[at].used && !node_id_equal(signer->writers[at].node, node)) {
        at = (at + 1) % WRITER_SLOTS;
    }
    return &signer->writers[at];
}

static bool writer_find(struct signer *signer, node_id node, uint8_t key[PUBLIC_KEY_BYTES])
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    const struct writer *writer = writer_slot(signer, node);
    bool found = writer->used;
    if (found) {
        memcpy(key, writer->key, PUBLIC_KEY_BYTES);
    }
    (void)pthread_mutex_unlock(&signer->table_mutex);
    return found;
}

static void writer_learn(struct signer *signer, node_id node, const uint8_t key[PUBLIC_KEY_BYTES])
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    struct writer *writer = writer_slot(signer, node);
    if (!writer->used && signer->writer_count < SIGNER_WRITERS_MAX) {
        *writer = (struct writer){.used = true, .node = node};
        memcpy(writer->key, key, PUBLIC_KEY_BYTES);
        signer->writer_count++;
    }
    (void)pthread_mutex_unlock(&signer->table_mutex);
}

static struct cache_slot *cache_slot(struct signer *signer, const uint8_t hash[16])
{
    return &signer->cache[bytes_get_u32(hash) % CACHE_SLOTS];
}

static bool cache_has(struct signer *signer, const uint8_t hash[16])
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    bool has = memcmp(cache_slot(signer, hash)->hash, hash, 16) == 0;
    signer->statistics.cached += has;
    (void)pthread_mutex_unlock(&signer->table_mutex);
    return has;
}

static void cache_add(struct signer *signer, const uint8_t hash[16])
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    memcpy(cache_slot(signer, hash)->hash, hash, 16);
    signer->statistics.verified++;
    (void)pthread_mutex_unlock(&signer->table_mutex);
}

static void count_up(struct signer *signer, uint64_t *counter, uint64_t by)
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    *counter += by;
    (void)pthread_mutex_unlock(&signer->table_mutex);
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

static bool signature_good(struct signer *signer, const struct item *item, const uint8_t key[PUBLIC_KEY_BYTES])
{
    uint8_t hash[16];
    (void)crypto_generichash(hash, sizeof hash, item->envelope, item->count, NULL, 0);
    if (cache_has(signer, hash)) {
        return true;
    }
    if (keys_verify_record(key, signer->mesh, item->envelope, item->count) != 0) {
        return false;
    }
    cache_add(signer, hash);
    return true;
}

static bool is_founder(const struct signer *signer, const struct item *item)
{
    return item->names_key && node_id_equal(item->named, item->record.writer) &&
           mesh_id_equal(mesh_id_of_founder(item->member.public_key, item->member.nonce), signer->mesh);
}

/* Sets the verdict if the writer's key is known, or if the record is the founder's own; a good member record makes its
 * key known. */
static void item_decide(struct signer *signer, struct item *item)
{
    uint8_t key[PUBLIC_KEY_BYTES];
    if (!writer_find(signer, item->record.writer, key)) {
        if (!is_founder(signer, item)) {
            return;
        }
        memcpy(key, item->member.public_key, sizeof key);
    }
    bool good = signature_good(signer, item, key) && (item->record.kind != FACT_MEMBER || item->names_key);
    item->verdict = good ? GOOD : BAD;
    if (good && item->names_key) {
        writer_learn(signer, item->named, item->member.public_key);
    }
    count_up(signer, &signer->statistics.forged, !good);
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

/* Cuts the list into records; stops at the first bytes that are no record. */
static size_t items_read(struct signer *signer, const uint8_t *bytes, size_t count, struct item *items)
{
    size_t found = 0;
    for (size_t at = 0; at < count;) {
        size_t length;
        struct item *item = &items[found];
        memset(item, 0, sizeof *item);
        if (record_length(bytes + at, count - at, &length) != 0 ||
            record_decode(bytes + at, length, &item->record) != 0) {
            count_up(signer, &signer->statistics.malformed, 1);
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

/* Decides records in rounds, as long as a round makes a key known: a member record may stand behind the records of its
 * member. */
static void items_decide(struct signer *signer, struct item *items, size_t count)
{
    bool learned = true;
    while (learned) {
        learned = false;
        for (size_t i = 0; i < count; i++) {
            if (items[i].verdict == UNDECIDED) {
                item_decide(signer, &items[i]);
                learned |= items[i].verdict == GOOD && items[i].names_key;
            }
        }
    }
}

size_t signer_filter(struct signer *signer, const uint8_t *bytes, size_t count, uint8_t *out)
{
    size_t most = count / (RECORD_HEAD_BYTES + 2 + RECORD_SIGNATURE_BYTES) + 1;
    struct item *items = malloc(most * sizeof *items);
    if (items == NULL) {
        return 0;
    }
    size_t found = items_read(signer, bytes, count, items), used = 0, unknown = 0;
    items_decide(signer, items, found);
    for (size_t i = 0; i < found; i++) {
        if (items[i].verdict == GOOD) {
            memmove(out + used, items[i].envelope, items[i].count);
            used += items[i].count;
        }
        unknown += items[i].verdict == UNDECIDED;
    }
    count_up(signer, &signer->statistics.unknown, unknown);
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

/* The key of a member that this node vouches for is known at once. */
static void learn_own(struct signer *signer, const uint8_t *envelope, size_t count)
{
    struct record record;
    struct fact_member member;
    if (record_decode(envelope, count, &record) == 0 && record.kind == FACT_MEMBER &&
        fact_member_read(&record, &member) == 0) {
        writer_learn(signer, node_id_of_key(member.public_key), member.public_key);
    }
}

/* Does the job in the thread. False: the job has no result. */
static bool job_do(struct signer *signer, struct job *job)
{
    struct signer_result *result = &job->result;
    switch (result->kind) {
    case SIGNER_VERIFIED:
        result->message.bytes = job->bytes;
        result->message.byte_count = (uint32_t)signer_filter(signer, job->bytes, job->byte_count, job->bytes);
        return result->message.byte_count > 0;
    case SIGNER_SIGNED:
        keys_sign_record(&signer->keys, signer->mesh, job->bytes, job->byte_count);
        learn_own(signer, job->bytes, job->byte_count);
        result->bytes = job->bytes;
        result->byte_count = job->byte_count;
        count_up(signer, &signer->statistics.signed_records, 1);
        return true;
    case SIGNER_JOIN:
        result->code =
            join_request_decode(job->bytes, job->byte_count, signer->mesh, result->invite_key, &result->request);
        return true;
    }
    return false;
}

/* Frees a job and takes it out of the sums. The caller holds the mutex. */
static void job_forget(struct signer *signer, struct job *job)
{
    signer->outstanding--;
    signer->joins -= job->result.kind == SIGNER_JOIN;
    signer->outstanding_bytes -= sizeof *job + job->byte_count;
    free(job);
}

static void *signer_run(void *context)
{
    struct signer *signer = context;
    (void)pthread_mutex_lock(&signer->mutex);
    while (!signer->stopping) {
        struct job *job = queue_pop(&signer->jobs);
        if (job == NULL) {
            (void)pthread_cond_wait(&signer->wanted, &signer->mutex);
            continue;
        }
        (void)pthread_mutex_unlock(&signer->mutex);
        bool told = job_do(signer, job);
        (void)pthread_mutex_lock(&signer->mutex);
        if (told) {
            uint64_t one = 1;
            queue_push(&signer->results, job);
            (void)!write(signer->fd, &one, sizeof one);
        } else {
            job_forget(signer, job);
        }
    }
    (void)pthread_mutex_unlock(&signer->mutex);
    return NULL;
}

int signer_open(const struct keys *keys, mesh_id mesh, struct signer **out)
{
    struct signer *signer = calloc(1, sizeof *signer);
    if (signer == NULL) {
        return ERR_MEMORY;
    }
    signer->keys = *keys;
    signer->mesh = mesh;
    (void)pthread_mutex_init(&signer->mutex, NULL);
    (void)pthread_mutex_init(&signer->table_mutex, NULL);
    (void)pthread_cond_init(&signer->wanted, NULL);
    writer_learn(signer, keys->id, keys->sign_public);
    signer->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (signer->fd < 0 || pthread_create(&signer->thread, NULL, signer_run, signer) != 0) {
        if (signer->fd >= 0) {
            (void)close(signer->fd);
        }
        sodium_memzero(signer, sizeof *signer);
        free(signer);
        return ERR_IO;
    }
    *out = signer;
    return 0;
}

void signer_close(struct signer **signer)
{
    struct signer *self = *signer;
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
    *signer = NULL;
}

int signer_fd(const struct signer *signer)
{
    return signer->fd;
}

/* Peers' messages must not fill the queue so far that our own records cannot be signed, and joins must leave room for
 * both. */
static bool fits(const struct signer *signer, const struct job *job)
{
    if (job->result.kind == SIGNER_JOIN && signer->joins == SIGNER_JOINS_MAX) {
        return false;
    }
    uint32_t most = job->result.kind == SIGNER_VERIFIED ? SIGNER_JOBS_MAX - SIGNER_SIGN_RESERVE : SIGNER_JOBS_MAX;
    size_t most_bytes = SIGNER_JOB_BYTES_MAX + (job->result.kind == SIGNER_VERIFIED ? 0 : SIGNER_JOB_BYTES_MAX / 2);
    return signer->outstanding < most && signer->outstanding_bytes + sizeof *job + job->byte_count <= most_bytes;
}

static int submit(struct signer *signer, const struct signer_result *result, const uint8_t *bytes, size_t count)
{
    struct job *job = malloc(sizeof *job + count);
    if (job != NULL) {
        job->result = *result;
        job->byte_count = (uint32_t)count;
        if (count > 0) {
            memcpy(job->bytes, bytes, count);
        }
        (void)pthread_mutex_lock(&signer->mutex);
        bool fit = fits(signer, job);
        if (fit) {
            signer->outstanding++;
            signer->joins += result->kind == SIGNER_JOIN;
            signer->outstanding_bytes += sizeof *job + count;
            queue_push(&signer->jobs, job);
            (void)pthread_cond_signal(&signer->wanted);
        }
        (void)pthread_mutex_unlock(&signer->mutex);
        if (fit) {
            return 0;
        }
        free(job);
    }
    count_up(signer, &signer->statistics.overflow, 1);
    return ERR_FULL;
}

int signer_verify(struct signer *signer, node_id from, const struct message *message)
{
    CHECK(message->kind == MESSAGE_RECORDS);
    struct signer_result result = {.kind = SIGNER_VERIFIED, .from = from, .message = *message};
    return submit(signer, &result, message->bytes, message->byte_count);
}

int signer_sign(struct signer *signer, uint64_t ticket, const uint8_t *envelope, size_t count)
{
    struct record record;
    if (record_decode(envelope, count, &record) != 0) {
        return ERR_MALFORMED;
    }
    struct signer_result result = {.kind = SIGNER_SIGNED, .ticket = ticket};
    return submit(signer, &result, envelope, count);
}

int signer_join(struct signer *signer, uint64_t client, const uint8_t invite_key[32], const uint8_t *bytes, size_t count)
{
    if (count > JOIN_REQUEST_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    struct signer_result result = {.kind = SIGNER_JOIN, .client = client};
    memcpy(result.invite_key, invite_key, sizeof result.invite_key);
    return submit(signer, &result, bytes, count);
}

int signer_next(struct signer *signer, struct signer_result *out)
{
    (void)pthread_mutex_lock(&signer->mutex);
    if (signer->taken != NULL) {
        job_forget(signer, signer->taken);
    }
    signer->taken = queue_pop(&signer->results);
    if (signer->taken != NULL) {
        *out = signer->taken->result;
    }
    if (signer->results.first == NULL) {
        uint64_t count;
        (void)!read(signer->fd, &count, sizeof count); /* the descriptor is readable no more */
    }
    int result = signer->taken != NULL ? 0 : ERR_AGAIN;
    (void)pthread_mutex_unlock(&signer->mutex);
    return result;
}

void signer_statistics(struct signer *signer, struct signer_statistics *out)
{
    (void)pthread_mutex_lock(&signer->table_mutex);
    *out = signer->statistics;
    (void)pthread_mutex_unlock(&signer->table_mutex);
}

/* Records and fences on their way to the disk. The core wants PERSISTED in the order of tickets, the signing thread
 * signs our own records first, and a commit costs a sync. So records and fences queue here, and the finished head of
 * the queue goes into one transaction while more gather behind it. On a full disk only fences, deletions and urgent
 * records (tombstones, control values, evictions) of a batch are written; the rest of the batch fails. */

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/daemon/disk/disk.h"

#define BATCH_MAX 256

struct daemon_persist_item {
    struct daemon_persist_item *next;
    uint64_t ticket;
    bool is_own, is_ready, is_fence, is_forget, is_urgent;
    uint8_t key[RECORD_KEY_BYTES_MAX];
    uint32_t key_bytes;
    uint32_t byte_count;
    uint8_t bytes[];
};

struct batch {
    struct job job;
    struct state *state;
    uint32_t count;
    int codes[BATCH_MAX];
    struct daemon_persist_item *items[BATCH_MAX];
};

static void write_batch(struct job *job)
{
    struct batch *batch = (struct batch *)job;
    struct state_op ops[BATCH_MAX];
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct daemon_persist_item *item = batch->items[i];
        ops[i] = (struct state_op){.table = item->is_fence ? STATE_FENCES : STATE_RECORDS,
                                   .key = item->key,
                                   .key_bytes = item->key_bytes,
                                   .value = item->bytes,
                                   .value_bytes = item->byte_count,
                                   .is_delete = item->is_forget,
                                   .is_urgent = item->is_urgent};
    }
    state_put_each(batch->state, ops, batch->count, batch->codes);
}

static void batch_done(void *context, struct job *job)
{
    struct daemon *daemon = context;
    struct batch *batch = (struct batch *)job;
    daemon->disk->persist_busy = false;
    for (uint32_t i = 0, told = 0; i < batch->count; i++) {
        struct daemon_persist_item *item = batch->items[i];
        if (batch->codes[i] != 0 && told++ == 0) {
            daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_FAILED),
                           "the state could not be written: %s", err_text(batch->codes[i]));
        }
        if (item->ticket != 0) {
            struct node_event event = {.kind = NODE_EVENT_PERSISTED};
            event.u.persisted.ticket = item->ticket;
            event.u.persisted.ok = batch->codes[i] == 0;
            if (item->is_own) {
                memcpy(event.u.persisted.signature, item->bytes + item->byte_count - RECORD_SIGNATURE_BYTES,
                       RECORD_SIGNATURE_BYTES);
            }
            daemon_event(daemon, &event);
        }
        free(item);
    }
    free(batch);
    daemon_persist_flush(daemon);
}

void daemon_persist_flush(struct daemon *daemon)
{
    const struct daemon_persist_item *first = daemon->disk->persist_first;
    if (daemon->closed || daemon->disk->persist_busy || first == NULL || !first->is_ready) {
        return;
    }
    struct batch *batch = calloc(1, sizeof *batch);
    if (batch == NULL) {
        return; /* the next effect, or the next second, tries again */
    }
    while (daemon->disk->persist_first != NULL && daemon->disk->persist_first->is_ready && batch->count < BATCH_MAX) {
        batch->items[batch->count++] = daemon->disk->persist_first;
        daemon->disk->persist_first = daemon->disk->persist_first->next;
        if (daemon->disk->persist_first == NULL) {
            daemon->disk->persist_last = NULL;
        }
    }
    batch->job = (struct job){.work = write_batch, .done = batch_done};
    batch->state = daemon->state;
    daemon->disk->persist_busy = true;
    jobs_run(daemon->persist_jobs, &batch->job);
}

static bool is_urgent_record(const struct node_effect *effect)
{
    struct record record;
    return record_decode(effect->bytes, effect->byte_count, &record) == 0 &&
           (record.kind == FACT_TOMBSTONE || record.kind == FACT_CONTROL || record.kind == FACT_EVICTION);
}

void daemon_persist_effect(struct daemon *daemon, const struct node_effect *effect)
{
    struct daemon_persist_item *item = calloc(1, sizeof *item + effect->byte_count);
    CHECK(item != NULL); /* a dropped fence would break a promise: better to end */
    item->ticket = effect->u.persist.ticket;
    item->is_fence = effect->kind == NODE_EFFECT_PERSIST_FENCE || effect->kind == NODE_EFFECT_FORGET_FENCE;
    item->is_forget = effect->kind == NODE_EFFECT_FORGET_RECORD || effect->kind == NODE_EFFECT_FORGET_FENCE;
    item->is_own = !item->is_fence && effect->u.persist.own;
    item->is_ready = !item->is_own;
    item->is_urgent = !item->is_fence && !item->is_forget && is_urgent_record(effect);
    item->key_bytes = effect->u.persist.key_bytes;
    memcpy(item->key, effect->u.persist.key, item->key_bytes);
    item->byte_count = effect->byte_count;
    if (effect->byte_count > 0) {
        memcpy(item->bytes, effect->bytes, effect->byte_count);
    }
    if (daemon->disk->persist_last != NULL) {
        daemon->disk->persist_last->next = item;
    } else {
        daemon->disk->persist_first = item;
    }
    daemon->disk->persist_last = item;
    if (item->is_own && signer_sign(daemon->signer, item->ticket, item->bytes, item->byte_count) != 0) {
        keys_sign_record(&daemon->keys, daemon->mesh, item->bytes, item->byte_count); /* the signer's queue is full */
        uint8_t unused[RECORD_ENVELOPE_BYTES_MAX];
        /* A member record vouches for a key: here the signer learns the key. */
        (void)signer_filter(daemon->signer, item->bytes, item->byte_count, unused);
        item->is_ready = true;
    }
}

void daemon_persist_signed(struct daemon *daemon, uint64_t ticket, const uint8_t *envelope, uint32_t count)
{
    for (struct daemon_persist_item *item = daemon->disk->persist_first; item != NULL; item = item->next) {
        if (item->ticket == ticket && item->is_own && item->byte_count == count) {
            memcpy(item->bytes, envelope, count);
            item->is_ready = true;
            break;
        }
    }
    daemon_persist_flush(daemon);
}

void daemon_persist_close(struct daemon *daemon)
{
    while (daemon->disk->persist_first != NULL) {
        struct daemon_persist_item *item = daemon->disk->persist_first;
        daemon->disk->persist_first = item->next;
        free(item);
    }
    daemon->disk->persist_last = NULL;
}

/* ---- start ----------------------------------------------------------------------------------------------------- */

struct loading {
    uint8_t *bytes;
    size_t used, capacity;
};

static int load_one(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes)
{
    (void)key;
    (void)key_bytes;
    struct loading *loading = context;
    if (loading->capacity - loading->used < value_bytes) {
        size_t wanted = (loading->capacity + value_bytes) * 2;
        uint8_t *bigger = realloc(loading->bytes, wanted);
        if (bigger == NULL) {
            return ERR_MEMORY;
        }
        loading->bytes = bigger;
        loading->capacity = wanted;
    }
    memcpy(loading->bytes + loading->used, value, value_bytes);
    loading->used += value_bytes;
    return 0;
}

static int load_fence(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value, size_t value_bytes)
{
    (void)key;
    (void)key_bytes;
    struct node_event event = {.kind = NODE_EVENT_LOAD_FENCE, .bytes = value, .byte_count = (uint32_t)value_bytes};
    daemon_event(context, &event);
    return 0;
}

int daemon_persist_load(struct daemon *daemon, char error[256])
{
    struct loading loading = {0};
    int code = state_each(daemon->state, STATE_RECORDS, load_one, &loading);
    if (code != 0) {
        (void)format_text(error, 256, "The stored records in %s/state cannot be read: %s.", daemon->dir, err_text(code));
        free(loading.bytes);
        return code;
    }
    uint8_t *good = malloc(loading.used + 1);
    if (good == NULL) {
        free(loading.bytes);
        return ERR_MEMORY;
    }
    /* Signatures are checked again: the disk is the world, too. */
    size_t count = signer_filter(daemon->signer, loading.bytes, loading.used, good);
    if (count < loading.used) {
        daemon_line_of(daemon, event_of_kind(EVENT_NODE_DISK_DAMAGED),
                       "%zu bytes of stored records have no valid signature and are left out", loading.used - count);
    }
    for (size_t offset = 0, length; offset < count; offset += length) {
        if (record_length(good + offset, count - offset, &length) != 0) {
            break;
        }
        struct node_event event = {
            .kind = NODE_EVENT_LOAD_RECORD, .bytes = good + offset, .byte_count = (uint32_t)length};
        daemon_event(daemon, &event);
    }
    free(good);
    free(loading.bytes);
    return state_each(daemon->state, STATE_FENCES, load_fence, daemon);
}

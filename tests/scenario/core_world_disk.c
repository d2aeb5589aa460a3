#include "tests/scenario/core_world_inside.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

static const char *describe(const struct record *record, char *out, size_t size)
{
    static const char *const slot_states[] = {"free", "reserved", "leased", "releasing", "withheld"};
    static const char *const worker_states[] = {"prepared", "running", "ended"};
    union {
        struct fact_slot slot;
        struct fact_worker worker;
        struct fact_verdict verdict;
        struct fact_claim claim;
    } fact;
    uint32_t number;
    uint64_t step;
    if (record->kind == FACT_SLOT && fact_slot_read(record, &fact.slot) == 0 && fact_key_read_slot(record, &number) == 0) {
        snprintf(out, size, "slot %u %s", number, slot_states[fact.slot.state]);
    } else if (record->kind == FACT_WORKER && fact_worker_read(record, &fact.worker) == 0) {
        snprintf(out, size, "worker %s%s%s", worker_states[fact.worker.state],
                 fact.worker.state == FACT_WORKER_ENDED ? " " : "",
                 fact.worker.state == FACT_WORKER_ENDED ? fact_reason_name(fact.worker.reason) : "");
    } else if (record->kind == FACT_VERDICT && fact_verdict_read(record, &fact.verdict) == 0) {
        snprintf(out, size, "verdict %s", fact_reason_name(fact.verdict.reason));
    } else if (record->kind == FACT_CLAIM && fact_claim_read(record, &fact.claim) == 0) {
        snprintf(out, size, "claim %llu%s", (unsigned long long)fact.claim.term, fact.claim.released ? " released" : "");
    } else if (record->kind == FACT_MANIFEST && fact_key_read_step(record, &step) == 0) {
        snprintf(out, size, "manifest %llu", (unsigned long long)step);
    } else {
        snprintf(out, size, "%s", fact_kind_name(record->kind));
    }
    return out;
}

static void store_record(struct world_node *node, const uint8_t *bytes, uint32_t count)
{
    struct record record, held;
    CHECK(record_decode(bytes, count, &record) == 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    uint32_t at = 0;
    for (; at < node->record_count; at++) {
        CHECK(record_decode(node->records[at].bytes, node->records[at].count, &held) == 0);
        if (record_ident_equal(ident, record_ident_of(held.writer, held.kind, held.key, held.key_bytes))) {
            break;
        }
    }
    CHECK(at < WORLD_DISK_MAX);
    node->record_count += at == node->record_count;
    memcpy(node->records[at].bytes, bytes, count);
    node->records[at].count = count;
}

void world_store(struct world *world, uint32_t node, const struct made *made)
{
    store_record(&world->nodes[node], made->bytes, made->count);
}

static void store_fence(struct world_node *node, const struct node_effect *effect)
{
    uint32_t at = 0;
    while (at < node->fence_count && memcmp(node->fences[at].key, effect->u.persist.key, 8) != 0) {
        at++;
    }
    CHECK(at < 16 && effect->byte_count <= sizeof node->fences[at].bytes);
    node->fence_count += at == node->fence_count;
    memcpy(node->fences[at].key, effect->u.persist.key, 8);
    memcpy(node->fences[at].bytes, effect->bytes, effect->byte_count);
    node->fences[at].count = effect->byte_count;
}

void world_forget(struct world_node *node, const struct node_effect *effect)
{
    for (uint32_t at = 0; effect->kind == NODE_EFFECT_FORGET_FENCE && at < node->fence_count; at++) {
        if (memcmp(node->fences[at].key, effect->u.persist.key, 8) == 0) {
            node->fences[at] = node->fences[--node->fence_count];
        }
    }
    for (uint32_t at = 0; effect->kind == NODE_EFFECT_FORGET_RECORD && at < node->record_count; at++) {
        struct record held;
        CHECK(record_decode(node->records[at].bytes, node->records[at].count, &held) == 0);
        record_ident ident = record_ident_of(held.writer, held.kind, held.key, held.key_bytes);
        if (memcmp(ident.bytes, effect->u.persist.key, sizeof ident.bytes) == 0) {
            node->records[at] = node->records[--node->record_count];
            return;
        }
    }
}

void world_persist(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    char what[64], line[128];
    bool is_fence = effect->kind == NODE_EFFECT_PERSIST_FENCE;
    if (is_fence) {
        struct pack_reader reader;
        size_t ignored;
        pack_reader_init(&reader, effect->bytes, effect->byte_count);
        (void)pack_read_array(&reader);
        (void)pack_read_bin(&reader, &ignored);
        snprintf(what, sizeof what, "fence %llu", (unsigned long long)pack_read_u64(&reader));
    } else {
        struct record record;
        CHECK(record_decode(effect->bytes, effect->byte_count, &record) == 0);
        describe(&record, what, sizeof what);
    }
    if (is_fence || effect->u.persist.own) {
        snprintf(line, sizeof line, "persist %s #%llu", what, (unsigned long long)effect->u.persist.ticket);
        world_say(world, number, '>', line);
    }
    bool is_refused = node->disk_refuses || node->disk_refuses_next > 0;
    node->disk_refuses_next -= node->disk_refuses_next > 0;
    if (!is_refused && is_fence) {
        store_fence(node, effect);
    } else if (!is_refused) {
        store_record(node, effect->bytes, effect->byte_count);
    }
    if (effect->u.persist.ticket != 0) {
        struct node_event event = {.kind = NODE_EVENT_PERSISTED};
        event.u.persisted.ticket = effect->u.persist.ticket;
        event.u.persisted.ok = !is_refused;
        world_post(world, world->now_ms + world->disk_ms + node->disk_ms, number, node->boots, &event);
    }
}

void world_collect(struct world *world, uint32_t number, const struct node_effect *effect)
{
    struct world_node *node = &world->nodes[number];
    node->named_count = effect->byte_count / HASH_BYTES;
    CHECK(effect->byte_count % HASH_BYTES == 0 && effect->u.collect.idle_s >= 600);
    free(node->named);
    node->named = malloc(effect->byte_count + 1);
    CHECK(node->named != NULL);
    memcpy(node->named, effect->bytes, effect->byte_count);
    world_say(world, number, '>', "collect");
}

#include "tests/sim/disk.h"

#include <string.h>

#include "base/check.h"
#include "tests/sim/checkers.h"
#include "tests/sim/faults.h"
#include "tests/sim/world.h"

static uint32_t place_of(record_ident ident, uint32_t capacity)
{
    return (uint32_t)bytes_get_u64(ident.bytes) & (capacity - 1);
}

static struct disk_entry *find_place(struct disk_entry *entries, uint32_t capacity, record_ident ident)
{
    uint32_t i = place_of(ident, capacity);
    while (entries[i].is_used && !record_ident_equal(entries[i].ident, ident)) {
        i = (i + 1) & (capacity - 1);
    }
    return &entries[i];
}

struct disk_entry *disk_find(const struct disk *disk, record_ident ident)
{
    if (disk->capacity == 0) {
        return NULL;
    }
    struct disk_entry *entry = find_place(disk->entries, disk->capacity, ident);
    return entry->is_used ? entry : NULL;
}

static struct disk_entry *take_entry(struct sim *sim, struct disk *disk, record_ident ident)
{
    if (disk->count * 2 >= disk->capacity) {
        uint32_t capacity = disk->capacity == 0 ? 256 : disk->capacity * 2;
        struct disk_entry *entries = arena_take(&sim->arena, capacity * sizeof *entries);
        CHECK(entries != NULL);
        for (uint32_t i = 0; i < disk->capacity; i++) {
            if (disk->entries[i].is_used) {
                *find_place(entries, capacity, disk->entries[i].ident) = disk->entries[i];
            }
        }
        arena_give(&sim->arena, disk->entries, disk->capacity * sizeof *entries);
        disk->entries = entries;
        disk->capacity = capacity;
    }
    struct disk_entry *entry = find_place(disk->entries, disk->capacity, ident);
    if (!entry->is_used) {
        entry->is_used = true;
        entry->ident = ident;
        disk->count++;
    }
    return entry;
}

static void store(struct sim *sim, struct disk *disk, bool is_fence, record_ident ident, const uint8_t *bytes,
                  uint32_t count)
{
    struct disk_entry *entry = take_entry(sim, disk, ident);
    struct record record = {0};
    if (!is_fence) {
        CHECK(record_decode(bytes, count, &record) == 0);
        if (entry->is_stored && record_version_compare(record.version, entry->version) < 0) {
            return; /* the store keeps the newest, as the real one does */
        }
    }
    if (entry->bytes != NULL) {
        arena_give(&sim->arena, entry->bytes, entry->byte_count);
    }
    entry->bytes = arena_take(&sim->arena, count);
    CHECK(entry->bytes != NULL);
    memcpy(entry->bytes, bytes, count);
    entry->byte_count = count;
    entry->is_fence = is_fence;
    entry->is_stored = true;
    entry->version = record.version;
    entry->kind = record.kind;
}

static void forget(struct sim *sim, struct disk *disk, record_ident ident)
{
    struct disk_entry *entry = disk_find(disk, ident);
    if (entry != NULL && entry->is_stored) {
        arena_give(&sim->arena, entry->bytes, entry->byte_count);
        entry->bytes = NULL;
        entry->is_stored = false;
        entry->version = (struct record_version){0};
    }
}

/* Only whoever writes a record signs it here, so a hash that anybody could make will do. */
void disk_sign(const uint8_t *envelope, size_t count, uint8_t out[RECORD_SIGNATURE_BYTES])
{
    memset(out, 0, RECORD_SIGNATURE_BYTES);
    bytes_put_u64(out, bytes_hash64(envelope, count - RECORD_SIGNATURE_BYTES, 1));
}

bool disk_signature_holds(const uint8_t *envelope, size_t count)
{
    uint8_t signature[RECORD_SIGNATURE_BYTES];
    disk_sign(envelope, count, signature);
    return memcmp(signature, envelope + count - RECORD_SIGNATURE_BYTES, sizeof signature) == 0;
}

void disk_preload(struct sim *sim, int node, const uint8_t *envelope, uint32_t count)
{
    struct record record;
    CHECK(record_decode(envelope, count, &record) == 0);
    record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
    store(sim, &sim->nodes[node].disk, false, ident, envelope, count);
}

static void commit_start(struct sim *sim, int node)
{
    struct disk *disk = &sim->nodes[node].disk;
    if (disk->committing != NULL || disk->waiting_first == NULL) {
        return;
    }
    disk->committing = disk->waiting_first;
    disk->waiting_first = disk->waiting_last = NULL;
    bool is_slow = !sim->healed || !sim->plan.has[FAULT_DISK_SLOW];
    uint64_t mean_ms = is_slow ? sim->plan.disk_ms : 5;
    uint64_t delay_ms = 1 + sim_wait(&sim->random[STREAM_DISK], mean_ms);
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_DISK, node);
    event->serial = sim->nodes[node].life;
}

void disk_write(struct sim *sim, int node, const struct node_effect *effect)
{
    struct disk *disk = &sim->nodes[node].disk;
    record_ident ident = {{0}};
    CHECK(effect->u.persist.key_bytes <= sizeof ident.bytes);
    memcpy(ident.bytes, effect->u.persist.key, effect->u.persist.key_bytes);
    struct disk_write *write = arena_take(&sim->arena, sizeof *write + effect->byte_count);
    CHECK(write != NULL);
    write->ticket = effect->u.persist.ticket;
    write->is_fence = effect->kind == NODE_EFFECT_PERSIST_FENCE || effect->kind == NODE_EFFECT_FORGET_FENCE;
    write->is_forget = effect->kind == NODE_EFFECT_FORGET_RECORD || effect->kind == NODE_EFFECT_FORGET_FENCE;
    write->ident = ident;
    write->byte_count = effect->byte_count;
    if (effect->byte_count > 0) {
        memcpy(write->bytes, effect->bytes, effect->byte_count);
    }
    if (effect->u.persist.own && !write->is_forget) {
        disk_sign(write->bytes, write->byte_count, write->bytes + write->byte_count - RECORD_SIGNATURE_BYTES);
    }
    if (disk->waiting_last != NULL) {
        disk->waiting_last->next = write;
    } else {
        disk->waiting_first = write;
    }
    disk->waiting_last = write;
    if (write->is_forget) {
        take_entry(sim, disk, ident)->seen = (struct record_version){0};
    } else if (!write->is_fence) {
        struct record record;
        CHECK(record_decode(effect->bytes, effect->byte_count, &record) == 0);
        struct disk_entry *entry = take_entry(sim, disk, ident);
        checkers_on_record(sim, node, &record, entry->seen, effect->u.persist.own);
        entry->seen = record.version;
        entry->kind = record.kind;
    }
    commit_start(sim, node);
}

static void drop_writes(struct sim *sim, struct disk_write *write)
{
    while (write != NULL) {
        struct disk_write *next = write->next;
        arena_give(&sim->arena, write, sizeof *write + write->byte_count);
        write = next;
    }
}

/* What one commit wrote is on disk. */
static void store_all(struct sim *sim, int node, const struct disk_write *write)
{
    struct disk *disk = &sim->nodes[node].disk;
    disk->is_boot_synced = true;
    for (; write != NULL; write = write->next) {
        if (write->is_forget) {
            forget(sim, disk, write->ident);
        } else if (write->is_fence || !disk->is_full) {
            store(sim, disk, write->is_fence, write->ident, write->bytes, write->byte_count);
        }
    }
}

void disk_commit_done(struct sim *sim, struct sim_event *event)
{
    int node = event->node;
    struct disk *disk = &sim->nodes[node].disk;
    if (!sim_daemon_up(sim, node) || sim->nodes[node].life != event->serial) {
        return;
    }
    if (sim_paused(sim, node)) {
        sim_again(sim, event, sim->nodes[node].paused_until_ms);
        return;
    }
    if (sim->nodes[node].dies_at_commit && disk->waiting_first != NULL) {
        faults_crash_at_commit(sim, node);
        return;
    }
    struct disk_write *writes = disk->committing;
    disk->committing = NULL;
    bool is_full = disk->is_full;
    store_all(sim, node, writes);
    for (const struct disk_write *write = writes; write != NULL && !sim->failed; write = write->next) {
        if (write->ticket == 0) {
            continue;
        }
        struct node_event core_event = {.kind = NODE_EVENT_PERSISTED};
        core_event.u.persisted.ticket = write->ticket;
        core_event.u.persisted.ok = write->is_fence || !is_full;
        if (!write->is_fence) {
            memcpy(core_event.u.persisted.signature, write->bytes + write->byte_count - RECORD_SIGNATURE_BYTES,
                   RECORD_SIGNATURE_BYTES);
        }
        sim_step(sim, node, &core_event);
    }
    drop_writes(sim, writes);
    commit_start(sim, node);
}

void disk_crash(struct sim *sim, int node)
{
    struct disk *disk = &sim->nodes[node].disk;
    bool is_at_commit = sim->nodes[node].dies_at_commit;
    sim->nodes[node].dies_at_commit = false;
    if (disk->committing != NULL && (is_at_commit || sim_chance(&sim->random[STREAM_DISK], 500))) {
        store_all(sim, node, disk->committing); /* synced, but nobody was told */
    }
    disk->boots -= !disk->is_boot_synced;
    drop_writes(sim, disk->committing);
    drop_writes(sim, disk->waiting_first);
    disk->committing = disk->waiting_first = disk->waiting_last = NULL;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        struct disk_entry *entry = &disk->entries[i];
        entry->seen = entry->is_stored && !entry->is_fence ? entry->version : (struct record_version){0};
    }
}

static void disk_drop(struct sim *sim, struct disk *disk)
{
    for (uint32_t i = 0; i < disk->capacity; i++) {
        arena_give(&sim->arena, disk->entries[i].bytes, disk->entries[i].byte_count);
    }
    arena_give(&sim->arena, disk->entries, disk->capacity * sizeof *disk->entries);
    disk->entries = NULL;
    disk->capacity = disk->count = 0;
}

static void disk_copy(struct sim *sim, struct disk *to, const struct disk *from)
{
    disk_drop(sim, to);
    to->boots = from->boots;
    for (uint32_t i = 0; i < from->capacity; i++) {
        const struct disk_entry *entry = &from->entries[i];
        if (!entry->is_used || !entry->is_stored) {
            continue;
        }
        struct disk_entry *copy = take_entry(sim, to, entry->ident);
        *copy = *entry;
        copy->seen = entry->is_fence ? (struct record_version){0} : entry->version;
        copy->bytes = arena_take(&sim->arena, entry->byte_count);
        CHECK(copy->bytes != NULL);
        memcpy(copy->bytes, entry->bytes, entry->byte_count);
    }
}

void disk_remember(struct sim *sim, int node)
{
    disk_copy(sim, &sim->nodes[node].backup, &sim->nodes[node].disk);
}

void disk_clone(struct sim *sim, int to, int from)
{
    disk_copy(sim, &sim->nodes[to].disk, &sim->nodes[from].disk);
}

void disk_put_back(struct sim *sim, int node)
{
    CHECK(!sim_daemon_up(sim, node));
    disk_copy(sim, &sim->nodes[node].disk, &sim->nodes[node].backup);
}

void disk_wipe(struct sim *sim, int node)
{
    CHECK(!sim_daemon_up(sim, node));
    disk_drop(sim, &sim->nodes[node].disk);
    sim->nodes[node].disk.boots = 0;
}

void disk_set_full(struct sim *sim, int node, bool full)
{
    struct disk *disk = &sim->nodes[node].disk;
    if (disk->is_full == full) {
        return;
    }
    disk->is_full = full;
    disk->full_since_ms = sim->now_ms;
    if (sim_runs(sim, node)) { /* else it sees when it starts, or runs on */
        struct node_event event = {.kind = NODE_EVENT_DISK};
        event.u.disk.full = full;
        sim_step(sim, node, &event);
    }
}

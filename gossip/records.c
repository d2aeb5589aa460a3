#include "gossip/records.h"

#include <sodium/crypto_generichash.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"

/* Linear probing over a table of pointers that is at most three quarters full. Forgetting an entry closes the gap
 * (Knuth, The Art of Computer Programming 6.4, algorithm R), so a probe ends at the first empty slot. Idents are hashes
 * already: their last bytes choose the slot, their first byte the bucket. */

#define SLOTS_MIN 64u
#define BLOCK_BYTES_MIN 32u

_Static_assert(RECORD_ENVELOPE_BYTES_MAX <= 1u << 14, "the block of the largest envelope is counted in 16 bits");
_Static_assert(sizeof(struct records_entry) <= 128, "or the arena hands out 256 bytes for each");

int records_init(struct records *records, struct arena *arena)
{
    struct records_entry **slots = arena_take(arena, SLOTS_MIN * sizeof *slots);
    if (slots == NULL) {
        return ERR_MEMORY;
    }
    *records = (struct records){.arena = arena, .slots = slots, .slot_count = SLOTS_MIN};
    return 0;
}

static uint32_t home_of(record_ident ident, uint32_t slot_count)
{
    return bytes_get_u32(ident.bytes + 12) & (slot_count - 1);
}

static struct records_entry **slot_of(struct records_entry **slots, uint32_t slot_count, record_ident ident)
{
    uint32_t mask = slot_count - 1;
    uint32_t i = home_of(ident, slot_count);
    while (slots[i] != NULL && !record_ident_equal(slots[i]->ident, ident)) {
        i = (i + 1) & mask;
    }
    return &slots[i];
}

static int slots_reserve_one(struct records *records)
{
    if ((records->count + 1) * 4ull <= records->slot_count * 3ull) {
        return 0;
    }
    if (records->slot_count > UINT32_MAX / 2) {
        return ERR_FULL;
    }
    uint32_t bigger = records->slot_count * 2;
    struct records_entry **slots = arena_take(records->arena, bigger * sizeof *slots);
    if (slots == NULL) {
        return ERR_FULL;
    }
    for (uint32_t i = 0; i < records->slot_count; i++) {
        if (records->slots[i] != NULL) {
            *slot_of(slots, bigger, records->slots[i]->ident) = records->slots[i];
        }
    }
    arena_give(records->arena, records->slots, records->slot_count * sizeof *slots);
    records->slots = slots;
    records->slot_count = bigger;
    return 0;
}

/* The size of a block is a power of two, as in the arena: a record keeps its place when its length changes a little. */
static uint16_t block_bytes_for(size_t count)
{
    uint32_t bytes = BLOCK_BYTES_MIN;
    while (bytes < count) {
        bytes *= 2;
    }
    return (uint16_t)bytes;
}

static int entry_add(struct records *records, record_ident ident, size_t count, struct records_entry **out)
{
    if (slots_reserve_one(records) != 0) {
        return ERR_FULL;
    }
    struct records_entry *entry = arena_take(records->arena, sizeof *entry);
    if (entry == NULL) {
        return ERR_FULL;
    }
    uint16_t block_bytes = block_bytes_for(count);
    uint8_t *block = arena_take(records->arena, block_bytes);
    if (block == NULL) {
        arena_give(records->arena, entry, sizeof *entry);
        return ERR_FULL;
    }
    *entry = (struct records_entry){.ident = ident, .block_bytes = block_bytes, .envelope = block};
    *slot_of(records->slots, records->slot_count, ident) = entry;
    records->count++;

    struct records_entry **link = &records->buckets[ident.bytes[0]];
    while (*link != NULL && record_ident_compare((*link)->ident, ident) < 0) {
        link = &(*link)->next_in_bucket;
    }
    entry->next_in_bucket = *link;
    *link = entry;
    *out = entry;
    return 0;
}

/* Gives the entry a block for `count` bytes; the old bytes may be lost. */
static int entry_resize(struct records *records, struct records_entry *entry, size_t count)
{
    uint16_t block_bytes = block_bytes_for(count);
    if (block_bytes == entry->block_bytes) {
        return 0;
    }
    uint8_t *block = arena_take(records->arena, block_bytes);
    if (block == NULL) {
        return block_bytes < entry->block_bytes ? 0 : ERR_FULL; /* a block that is larger than needed serves as well */
    }
    arena_give(records->arena, entry->envelope, entry->block_bytes);
    entry->envelope = block;
    entry->block_bytes = block_bytes;
    return 0;
}

static struct records_hash version_hash(record_ident ident, struct record_version version)
{
    uint8_t bytes[sizeof ident.bytes + 16];
    memcpy(bytes, ident.bytes, sizeof ident.bytes);
    bytes_put_u64(bytes + sizeof ident.bytes, version.boot);
    bytes_put_u64(bytes + sizeof ident.bytes + 8, version.seq);
    uint8_t hash[16];
    (void)crypto_generichash(hash, sizeof hash, bytes, sizeof bytes, NULL, 0);
    return (struct records_hash){{bytes_get_u64(hash), bytes_get_u64(hash + 8)}};
}

static void digests_add(struct records *records, struct records_entry *entry)
{
    CHECK(!entry->published);
    uint8_t bucket = entry->ident.bytes[0];
    entry->hash = version_hash(entry->ident, entry->record.version);
    for (int i = 0; i < 2; i++) {
        records->hash.words[i] += entry->hash.words[i];
        records->bucket_hashes[bucket].words[i] += entry->hash.words[i];
    }
    records->published_counts[bucket]++;
    entry->published = true;
}

static void digests_remove(struct records *records, struct records_entry *entry)
{
    CHECK(entry->published);
    uint8_t bucket = entry->ident.bytes[0];
    for (int i = 0; i < 2; i++) {
        records->hash.words[i] -= entry->hash.words[i];
        records->bucket_hashes[bucket].words[i] -= entry->hash.words[i];
    }
    CHECK(records->published_counts[bucket] > 0);
    records->published_counts[bucket]--;
    entry->published = false;
}

static bool signed_bytes_equal(const struct records_entry *entry, const uint8_t *envelope, size_t count)
{
    return count == entry->envelope_bytes && memcmp(entry->envelope, envelope, count - RECORD_SIGNATURE_BYTES) == 0;
}

int records_put(struct records *records, const struct record *record, const uint8_t *envelope, size_t count, bool published,
                struct records_entry **out)
{
    CHECK(record->key >= envelope && record->key < envelope + count && record->body >= record->key);
    record_ident ident = record_ident_of(record->writer, record->kind, record->key, record->key_bytes);
    struct records_entry *entry = records_find(records, ident);
    int error;
    if (entry == NULL) {
        error = entry_add(records, ident, count, &entry);
    } else {
        int order = record_version_compare(record->version, entry->record.version);
        if (order < 0 && !BUG(older_taken, "an older version never replaces a newer one")) {
            return ERR_STALE;
        }
        if (order == 0) {
            MARK(same_version_again);
            return signed_bytes_equal(entry, envelope, count) ? ERR_STALE : ERR_CORRUPT;
        }
        error = entry_resize(records, entry, count);
    }
    if (error != 0) {
        return error;
    }
    if (entry->published && !BUG(digest_keeps, "a version that is replaced leaves the digest")) {
        digests_remove(records, entry); /* removes the hash of the older version, which the entry still has */
    }
    memcpy(entry->envelope, envelope, count);
    entry->envelope_bytes = (uint32_t)count;
    entry->on_disk = false;
    entry->is_unfolded = false;
    entry->is_unawaited = false;
    entry->is_asked = false;
    entry->record = *record;
    entry->record.key = entry->envelope + (record->key - envelope);
    entry->record.body = entry->envelope + (record->body - envelope);
    if (published) {
        digests_add(records, entry);
    }
    if (out != NULL) {
        *out = entry;
    }
    return 0;
}

int records_publish(struct records *records, record_ident ident, struct record_version version,
                    const uint8_t signature[RECORD_SIGNATURE_BYTES], struct records_entry **out)
{
    struct records_entry *entry = records_find(records, ident);
    if (entry == NULL || record_version_compare(entry->record.version, version) != 0) {
        return ERR_NOT_FOUND;
    }
    if (!entry->published) {
        memcpy(entry->envelope + entry->envelope_bytes - RECORD_SIGNATURE_BYTES, signature, RECORD_SIGNATURE_BYTES);
        digests_add(records, entry);
    }
    if (out != NULL) {
        *out = entry;
    }
    return 0;
}

int records_forget(struct records *records, record_ident ident)
{
    struct records_entry **slot = slot_of(records->slots, records->slot_count, ident);
    struct records_entry *entry = *slot;
    if (entry == NULL) {
        return ERR_NOT_FOUND;
    }
    if (entry->published) {
        digests_remove(records, entry);
    }
    struct records_entry **link = &records->buckets[ident.bytes[0]];
    while (*link != entry) {
        link = &(*link)->next_in_bucket;
    }
    *link = entry->next_in_bucket;

    /* Entries behind the gap move into it, unless the entry's probe begins behind the gap. */
    uint32_t mask = records->slot_count - 1;
    uint32_t gap = (uint32_t)(slot - records->slots);
    for (uint32_t i = (gap + 1) & mask; records->slots[i] != NULL; i = (i + 1) & mask) {
        uint32_t home = home_of(records->slots[i]->ident, records->slot_count);
        if (((i - home) & mask) >= ((i - gap) & mask)) {
            records->slots[gap] = records->slots[i];
            gap = i;
        }
    }
    records->slots[gap] = NULL;
    records->count--;
    arena_give(records->arena, entry->envelope, entry->block_bytes);
    arena_give(records->arena, entry, sizeof *entry);
    return 0;
}

struct records_entry *records_find(const struct records *records, record_ident ident)
{
    return *slot_of(records->slots, records->slot_count, ident);
}

void records_each(const struct records *records, bool (*visit)(void *context, const struct records_entry *entry),
                  void *context)
{
    for (int bucket = 0; bucket < RECORDS_BUCKETS; bucket++) {
        for (const struct records_entry *e = records->buckets[bucket]; e != NULL; e = e->next_in_bucket) {
            if (!visit(context, e)) {
                return;
            }
        }
    }
}

bool records_hash_equal(struct records_hash a, struct records_hash b)
{
    return a.words[0] == b.words[0] && a.words[1] == b.words[1];
}

/* A key is one byte with the length of the prefix, the prefix, and the sequence number in big-endian order. The length
 * in front keeps the entries of each series side by side, whatever the prefixes are.
 *
 * Packed entries are in blocks (series_block.h) in a table of their own, under the number of their last entry. Readers see
 * no difference. No unpacked entry has a number between those of the first and the last entry of a block of its series. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/chunks_env.h"
#include "store/series_block.h"

#define KEY_BYTES_MAX (1 + SERIES_PREFIX_BYTES_MAX + 8)
#define ENTRY_OVERHEAD_BYTES 8 /* of an entry in a block, for its numbers */
#define WORTH_BYTES 1024       /* a single smaller entry is not packed */
#define LARGE_BYTES 4096       /* a larger entry is packed at once, alone, if that halves it */

struct series_key {
    uint8_t bytes[KEY_BYTES_MAX + 1];
    size_t count;
};

static int key_make(const void *prefix, size_t prefix_bytes, uint64_t sequence, struct series_key *out)
{
    if (prefix_bytes == 0 || prefix_bytes > SERIES_PREFIX_BYTES_MAX) {
        return ERR_USAGE;
    }
    out->bytes[0] = (uint8_t)prefix_bytes;
    memcpy(out->bytes + 1, prefix, prefix_bytes);
    bytes_put_u64(out->bytes + 1 + prefix_bytes, sequence);
    out->count = 1 + prefix_bytes + 8;
    return 0;
}

/* True if the stored key belongs to the series; gives its sequence number. */
static bool key_is_of(const struct series_key *series, const MDB_val *stored, uint64_t *sequence)
{
    size_t head_bytes = series->count - 8;
    if (stored->mv_size != series->count || memcmp(stored->mv_data, series->bytes, head_bytes) != 0) {
        return false;
    }
    *sequence = bytes_get_u64((const uint8_t *)stored->mv_data + head_bytes);
    return true;
}

static MDB_val key_value(const struct series_key *key)
{
    return (MDB_val){.mv_size = key->count, .mv_data = (void *)(uintptr_t)key->bytes};
}

static MDB_val key_at(struct series_key *key, uint64_t sequence)
{
    bytes_put_u64(key->bytes + key->count - 8, sequence);
    return key_value(key);
}

/* Puts the entries of a block back as single entries, and deletes the block, on which the cursor stands. */
static int block_unpack(struct chunks *chunks, MDB_txn *txn, MDB_cursor *cursor, const struct series_key *series,
                        struct series_block *block)
{
    struct series_key made = *series;
    struct series_block_entry entry;
    int rc = mdb_cursor_del(cursor, 0);
    while (rc == 0 && series_block_next(block, &entry)) {
        MDB_val key = key_at(&made, entry.sequence);
        MDB_val value = {.mv_size = entry.count, .mv_data = (void *)(uintptr_t)entry.bytes};
        rc = mdb_put(txn, chunks->series_table, &key, &value, MDB_NOOVERWRITE);
        rc = rc == MDB_KEYEXIST ? 0 : rc;
    }
    return lmdb_error(chunks->env, rc);
}

/* Makes room for an entry between those of a block. `*has`: the block has an entry of this number. */
static int block_open_for(struct chunks *chunks, MDB_txn *txn, const struct series_key *at, bool *has)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, chunks->blocks_table, &cursor);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_val key = key_value(at), value;
    uint64_t last, first, wanted = bytes_get_u64(at->bytes + at->count - 8);
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    int code = rc == MDB_NOTFOUND ? 0 : lmdb_error(chunks->env, rc);
    *has = false;
    if (rc == 0 && key_is_of(at, &key, &last)) {
        struct series_block block = {.plain = NULL};
        code = series_block_first(value.mv_data, value.mv_size, &first);
        bool is_inside = code == 0 && first <= wanted;
        code = is_inside ? series_block_open(value.mv_data, value.mv_size, &block) : code;
        struct series_block seen = block;
        struct series_block_entry entry;
        while (code == 0 && is_inside && !*has && series_block_next(&seen, &entry)) {
            *has = entry.sequence == wanted;
        }
        if (code == 0 && is_inside && !*has) {
            code = block_unpack(chunks, txn, cursor, at, &block);
        }
        series_block_close(&block);
    }
    mdb_cursor_close(cursor);
    return code;
}

/* Stores a large entry as a block of its own. ERR_EXISTS: it is there, as a single entry; ERR_FULL: that would save too little. */
static int large_put(struct chunks *chunks, MDB_txn *txn, const struct series_key *at, const struct series_entry *entry)
{
    MDB_val key = key_value(at), value;
    int rc = mdb_get(txn, chunks->series_table, &key, &value);
    if (rc != MDB_NOTFOUND) {
        return rc == 0 ? ERR_EXISTS : lmdb_error(chunks->env, rc);
    }
    struct series_block_entry one = {.sequence = entry->sequence, .bytes = entry->bytes, .count = entry->count};
    uint8_t *block;
    size_t block_bytes;
    rc = series_block_make(&one, 1, &block, &block_bytes);
    if (rc != 0) {
        return rc;
    }
    value = (MDB_val){.mv_size = block_bytes, .mv_data = block};
    rc = block_bytes <= entry->count / 2 ? lmdb_error(chunks->env, mdb_put(txn, chunks->blocks_table, &key, &value, MDB_NOOVERWRITE))
                                         : ERR_FULL;
    free(block);
    return rc;
}

static int entry_put(struct chunks *chunks, MDB_txn *txn, const struct series_entry *entry)
{
    struct series_key made;
    int rc = key_make(entry->prefix, entry->prefix_bytes, entry->sequence, &made);
    if (rc != 0 || entry->count > SERIES_ENTRY_BYTES_MAX) {
        return ERR_USAGE;
    }
    bool has;
    rc = block_open_for(chunks, txn, &made, &has);
    if (rc != 0 || has) {
        return rc;
    }
    rc = entry->count >= LARGE_BYTES ? large_put(chunks, txn, &made, entry) : ERR_FULL;
    if (rc != ERR_FULL) {
        return rc == ERR_EXISTS ? 0 : rc;
    }
    MDB_val key = {.mv_size = made.count, .mv_data = made.bytes};
    MDB_val value = {.mv_size = entry->count, .mv_data = (void *)(uintptr_t)entry->bytes};
    rc = mdb_put(txn, chunks->series_table, &key, &value, MDB_NOOVERWRITE);
    return rc == MDB_KEYEXIST ? 0 : lmdb_error(chunks->env, rc);
}

int series_append_batch(struct chunks *chunks, const struct series_entry *entries, size_t entry_count)
{
    size_t next = 0;
    while (next < entry_count) {
        MDB_txn *txn;
        int rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
        if (rc != 0) {
            return lmdb_error(chunks->env, rc);
        }
        size_t bytes = 0;
        do {
            rc = entry_put(chunks, txn, &entries[next]);
            bytes += KEY_BYTES_MAX + entries[next].count;
            next++;
        } while (rc == 0 && next < entry_count &&
                 bytes + KEY_BYTES_MAX + SERIES_ENTRY_BYTES_MAX <= CHUNKS_TRANSACTION_BYTES);
        if (rc != 0) {
            mdb_txn_abort(txn);
            return rc;
        }
        rc = mdb_txn_commit(txn);
        if (rc != 0) {
            return lmdb_error(chunks->env, rc);
        }
    }
    return 0;
}

int series_append(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t sequence, const void *bytes,
                  size_t count)
{
    struct series_entry entry = {
        .prefix = prefix, .prefix_bytes = prefix_bytes, .sequence = sequence, .bytes = bytes, .count = count};
    return series_append_batch(chunks, &entry, 1);
}

/* A read transaction with a cursor on each table. */
struct reading {
    MDB_txn *txn;
    MDB_cursor *cursor, *blocks;
};

/* Returns LMDB's codes. */
static int reading_open(struct chunks *chunks, struct reading *reading)
{
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &reading->txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_cursor_open(reading->txn, chunks->series_table, &reading->cursor);
    if (rc == 0) {
        rc = mdb_cursor_open(reading->txn, chunks->blocks_table, &reading->blocks);
        if (rc != 0) {
            mdb_cursor_close(reading->cursor);
        }
    }
    if (rc != 0) {
        mdb_txn_abort(reading->txn);
    }
    return rc;
}

static void reading_close(struct reading *reading)
{
    mdb_cursor_close(reading->cursor);
    mdb_cursor_close(reading->blocks);
    mdb_txn_abort(reading->txn);
}

/* Both tables, read as one series. */
struct merge {
    struct chunks *chunks;
    struct reading reading;
    struct series_key series;
    uint64_t from;
    struct series_block block; /* the open block */
    bool has_entry, has_packed; /* the next entry of each table is known */
    struct series_block_entry entry, packed;
};

/* Takes LMDB's code of a move of the cursor on single entries. */
static int merge_entry(struct merge *merge, int rc, const MDB_val *key, const MDB_val *value)
{
    uint64_t sequence;
    merge->has_entry = rc == 0 && key_is_of(&merge->series, key, &sequence);
    if (merge->has_entry) {
        merge->entry = (struct series_block_entry){.sequence = sequence, .bytes = value->mv_data, .count = value->mv_size};
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(merge->chunks->env, rc);
}

/* The next packed entry, of the open block or of the next one, on which the cursor moves. */
static int merge_packed(struct merge *merge, MDB_cursor_op move)
{
    for (;;) {
        while ((merge->has_packed = series_block_next(&merge->block, &merge->packed))) {
            if (merge->packed.sequence >= merge->from) {
                return 0;
            }
        }
        series_block_close(&merge->block);
        MDB_val key = key_value(&merge->series), value;
        uint64_t last;
        int rc = mdb_cursor_get(merge->reading.blocks, &key, &value, move);
        if (rc != 0 || !key_is_of(&merge->series, &key, &last)) {
            return rc == MDB_NOTFOUND ? 0 : lmdb_error(merge->chunks->env, rc);
        }
        rc = series_block_open(value.mv_data, value.mv_size, &merge->block);
        if (rc != 0) {
            return rc;
        }
        move = MDB_NEXT;
    }
}

int series_read(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                series_read_fn *callback, void *context)
{
    struct merge merge = {.chunks = chunks, .from = from_sequence};
    int rc = key_make(prefix, prefix_bytes, from_sequence, &merge.series);
    if (rc != 0) {
        return rc;
    }
    rc = reading_open(chunks, &merge.reading);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_val key = key_value(&merge.series), value;
    rc = mdb_cursor_get(merge.reading.cursor, &key, &value, MDB_SET_RANGE);
    rc = merge_entry(&merge, rc, &key, &value);
    rc = rc == 0 ? merge_packed(&merge, MDB_SET_RANGE) : rc;
    int stopped = 0;
    while (rc == 0 && stopped == 0 && (merge.has_entry || merge.has_packed)) {
        bool is_packed = merge.has_packed && (!merge.has_entry || merge.packed.sequence < merge.entry.sequence);
        const struct series_block_entry *next = is_packed ? &merge.packed : &merge.entry;
        stopped = callback(context, next->sequence, next->bytes, next->count);
        if (stopped == 0 && is_packed) {
            rc = merge_packed(&merge, MDB_NEXT);
        } else if (stopped == 0) {
            rc = mdb_cursor_get(merge.reading.cursor, &key, &value, MDB_NEXT);
            rc = merge_entry(&merge, rc, &key, &value);
        }
    }
    series_block_close(&merge.block);
    reading_close(&merge.reading);
    return stopped != 0 ? stopped : rc;
}

/* Finds the newest entry, or block, with a number up to that of `at`. Returns LMDB's codes. */
static int cursor_up_to(MDB_cursor *cursor, const struct series_key *at, uint64_t *sequence, MDB_val *value)
{
    MDB_val key = key_value(at);
    int rc = mdb_cursor_get(cursor, &key, value, MDB_SET_RANGE);
    if (rc == 0 && key.mv_size == at->count && memcmp(key.mv_data, at->bytes, at->count) == 0) {
        *sequence = bytes_get_u64(at->bytes + at->count - 8);
        return 0;
    }
    if (rc != 0 && rc != MDB_NOTFOUND) {
        return rc;
    }
    rc = mdb_cursor_get(cursor, &key, value, rc == 0 ? MDB_PREV : MDB_LAST);
    if (rc != 0) {
        return rc;
    }
    return key_is_of(at, &key, sequence) ? 0 : MDB_NOTFOUND;
}

int series_last(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t *sequence)
{
    struct series_key above;
    int rc = key_make(prefix, prefix_bytes, UINT64_MAX, &above);
    if (rc != 0) {
        return rc;
    }
    struct reading reading;
    rc = reading_open(chunks, &reading);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    uint64_t single = 0, packed = 0;
    MDB_val value;
    int single_rc = cursor_up_to(reading.cursor, &above, &single, &value);
    int packed_rc = cursor_up_to(reading.blocks, &above, &packed, &value);
    reading_close(&reading);
    if (single_rc != 0 && packed_rc != 0) {
        return lmdb_error(chunks->env, single_rc != MDB_NOTFOUND ? single_rc : packed_rc);
    }
    bool is_packed = single_rc != 0 || (packed_rc == 0 && packed > single);
    *sequence = is_packed ? packed : single;
    return 0;
}

int series_older(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t bytes, uint64_t *sequence)
{
    struct series_key at;
    struct reading reading;
    int rc = key_make(prefix, prefix_bytes, UINT64_MAX, &at);
    if (rc != 0) {
        return rc;
    }
    rc = reading_open(chunks, &reading);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    for (uint64_t sum = 0;;) {
        uint64_t single = 0, last = 0;
        MDB_val entry, block;
        int single_rc = cursor_up_to(reading.cursor, &at, &single, &entry), block_rc = cursor_up_to(reading.blocks, &at, &last, &block);
        if (single_rc != 0 && (single_rc != MDB_NOTFOUND || block_rc != 0)) {
            rc = single_rc != MDB_NOTFOUND ? single_rc : block_rc;
            break;
        }
        bool is_block = single_rc != 0 || (block_rc == 0 && last > single);
        *sequence = is_block ? last : single;
        if (sum >= bytes) {
            break;
        }
        sum += is_block ? series_block_bytes(block.mv_data, block.mv_size) : entry.mv_size;
        if (*sequence == 0) {
            rc = MDB_NOTFOUND;
            break;
        }
        (void)key_at(&at, *sequence - 1);
    }
    reading_close(&reading);
    return lmdb_error(chunks->env, rc);
}

/* Deletes the first entries of the series, or blocks, with numbers up to `last`, until there are no more (`*more` becomes false) or
 * one transaction is full. Returns LMDB's codes. */
static int delete_some(MDB_txn *txn, MDB_dbi table, const struct series_key *series, uint64_t last, bool *more)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, table, &cursor);
    if (rc != 0) {
        return rc;
    }
    MDB_val key = key_value(series), value;
    uint64_t sequence;
    size_t bytes = 0;
    *more = false;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE)) == 0 && key_is_of(series, &key, &sequence) && sequence <= last) {
        if (bytes >= CHUNKS_TRANSACTION_BYTES) {
            *more = true;
            break;
        }
        bytes += KEY_BYTES_MAX + value.mv_size;
        rc = mdb_cursor_del(cursor, 0);
        if (rc != 0) {
            break;
        }
        key = key_value(series);
    }
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* True if the table has an entry of the series, or a block, with a number up to `last`. */
static bool table_has(struct chunks *chunks, MDB_dbi table, const struct series_key *series, uint64_t last)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    bool has = false;
    if (mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &txn) != 0) {
        return true; /* the deletion tells why */
    }
    if (mdb_cursor_open(txn, table, &cursor) == 0) {
        MDB_val key = key_value(series), value;
        uint64_t sequence;
        has = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE) == 0 && key_is_of(series, &key, &sequence) && sequence <= last;
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return has;
}

int series_trim(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t last)
{
    const MDB_dbi tables[] = {chunks->series_table, chunks->blocks_table};
    struct series_key series;
    int rc = key_make(prefix, prefix_bytes, 0, &series);
    for (size_t i = 0; rc == 0 && i < 2; i++) {
        for (bool more = table_has(chunks, tables[i], &series, last); more && rc == 0;) {
            MDB_txn *txn;
            rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
            if (rc != 0) {
                return lmdb_error(chunks->env, rc);
            }
            rc = delete_some(txn, tables[i], &series, last, &more);
            if (rc != 0) {
                mdb_txn_abort(txn);
                return lmdb_error(chunks->env, rc);
            }
            rc = lmdb_error(chunks->env, mdb_txn_commit(txn));
        }
    }
    return rc;
}

int series_delete(struct chunks *chunks, const void *prefix, size_t prefix_bytes)
{
    return series_trim(chunks, prefix, prefix_bytes, UINT64_MAX);
}

/* ---- packing ---- */

/* Entries for one block; the bytes are copies. */
struct gathering {
    struct series_block_entry *entries;
    size_t count, capacity, bytes;
};

static void gathering_free(struct gathering *gathering)
{
    for (size_t i = 0; i < gathering->count; i++) {
        free((void *)(uintptr_t)gathering->entries[i].bytes);
    }
    free(gathering->entries);
    *gathering = (struct gathering){.entries = NULL};
}

static int gather(struct gathering *gathering, uint64_t sequence, const MDB_val *value)
{
    if (gathering->count == gathering->capacity) {
        size_t more = gathering->capacity * 2 + 64;
        struct series_block_entry *bigger = realloc(gathering->entries, more * sizeof *bigger);
        if (bigger == NULL) {
            return ENOMEM;
        }
        gathering->entries = bigger;
        gathering->capacity = more;
    }
    uint8_t *copy = malloc(value->mv_size + 1);
    if (copy == NULL) {
        return ENOMEM;
    }
    if (value->mv_size > 0) {
        memcpy(copy, value->mv_data, value->mv_size);
    }
    gathering->entries[gathering->count++] = (struct series_block_entry){.sequence = sequence, .bytes = copy, .count = value->mv_size};
    gathering->bytes += ENTRY_OVERHEAD_BYTES + value->mv_size;
    return 0;
}

/* Takes single entries from `from` on, until there are enough for a block or a block lies between. `*closed`: a block lies behind
 * them, so no more will come to them. */
static int gather_some(struct reading *reading, const struct series_key *series, uint64_t from, struct gathering *out, bool *closed)
{
    struct series_key at = *series;
    MDB_val key = key_at(&at, from), value;
    uint64_t sequence = 0, bound = UINT64_MAX;
    int rc = mdb_cursor_get(reading->cursor, &key, &value, MDB_SET_RANGE);
    *closed = false;
    while (rc == 0 && out->bytes < SERIES_BLOCK_BYTES && key_is_of(series, &key, &sequence) && !(*closed && sequence > bound)) {
        if (out->count == 0) {
            MDB_val block_key = key_at(&at, sequence), block;
            *closed = mdb_cursor_get(reading->blocks, &block_key, &block, MDB_SET_RANGE) == 0 && key_is_of(series, &block_key, &bound);
        }
        rc = gather(out, sequence, &value);
        rc = rc == 0 ? mdb_cursor_get(reading->cursor, &key, &value, MDB_NEXT) : rc;
    }
    return rc == MDB_NOTFOUND ? 0 : rc;
}

/* Gathers the first entries that are worth a block; none: `out` is empty. A single small entry between blocks stays as it is. */
static int gather_next(struct reading *reading, const struct series_key *series, bool all, struct gathering *out)
{
    uint64_t from = 0;
    for (;;) {
        bool closed;
        int rc = gather_some(reading, series, from, out, &closed);
        bool is_whole = all || closed || out->bytes >= SERIES_BLOCK_BYTES;
        if (rc != 0 || (is_whole && (out->count > 1 || out->bytes >= WORTH_BYTES))) {
            return rc;
        }
        bool goes_on = out->count == 1 && closed;
        from = goes_on ? out->entries[0].sequence + 1 : 0;
        gathering_free(out);
        if (!goes_on) {
            return 0;
        }
    }
}

/* Puts the block in the place of its entries. Returns LMDB's codes. */
static int block_put(struct chunks *chunks, MDB_txn *txn, const struct series_key *series, const struct gathering *gathered,
                     const uint8_t *block, size_t block_bytes)
{
    struct series_key made = *series;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < gathered->count; i++) {
        MDB_val key = key_at(&made, gathered->entries[i].sequence);
        rc = mdb_del(txn, chunks->series_table, &key, NULL);
    }
    MDB_val key = key_at(&made, gathered->entries[gathered->count - 1].sequence);
    MDB_val value = {.mv_size = block_bytes, .mv_data = (void *)(uintptr_t)block};
    return rc == 0 ? mdb_put(txn, chunks->blocks_table, &key, &value, MDB_NOOVERWRITE) : rc;
}

/* Packs one block inside a write transaction, so that no other writer comes between. `*more`: there may be another one. */
static int pack_one(struct chunks *chunks, const struct series_key *series, bool all, bool *more)
{
    struct gathering gathered = {.entries = NULL};
    struct reading reading = {.txn = NULL};
    uint8_t *block = NULL;
    size_t block_bytes;
    *more = false;
    int rc = mdb_txn_begin(chunks->env, NULL, 0, &reading.txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    rc = mdb_cursor_open(reading.txn, chunks->series_table, &reading.cursor);
    rc = rc == 0 ? mdb_cursor_open(reading.txn, chunks->blocks_table, &reading.blocks) : rc;
    rc = rc == 0 ? gather_next(&reading, series, all, &gathered) : rc;
    if (reading.cursor != NULL) {
        mdb_cursor_close(reading.cursor);
    }
    if (reading.blocks != NULL) {
        mdb_cursor_close(reading.blocks);
    }
    bool is_wanted = rc == 0 && gathered.count > 0;
    int code = lmdb_error(chunks->env, rc);
    if (is_wanted) {
        code = series_block_make(gathered.entries, gathered.count, &block, &block_bytes);
        code = code == 0 ? lmdb_error(chunks->env, block_put(chunks, reading.txn, series, &gathered, block, block_bytes)) : code;
    }
    if (code == 0 && is_wanted) {
        code = lmdb_error(chunks->env, mdb_txn_commit(reading.txn));
        *more = code == 0;
    } else {
        mdb_txn_abort(reading.txn);
    }
    free(block);
    gathering_free(&gathered);
    return code;
}

int series_pack(struct chunks *chunks, const void *prefix, size_t prefix_bytes, bool all)
{
    struct series_key series;
    int rc = key_make(prefix, prefix_bytes, 0, &series);
    for (bool more = rc == 0 && table_has(chunks, chunks->series_table, &series, UINT64_MAX); more && rc == 0;) {
        rc = pack_one(chunks, &series, all, &more);
    }
    return rc;
}

/* ---- all series ---- */

/* Keeps the key at the cursor if it comes before the one that was found so far. */
static int find_first(MDB_cursor *cursor, const struct series_key *from, struct series_key *found)
{
    MDB_val key = key_value(from), value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc != 0) {
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    if (key.mv_size < 2 + 8 || key.mv_size > KEY_BYTES_MAX) {
        return MDB_CORRUPTED;
    }
    size_t common = key.mv_size < found->count ? key.mv_size : found->count;
    int order = memcmp(key.mv_data, found->bytes, common);
    if (found->count == 0 || order < 0 || (order == 0 && key.mv_size < found->count)) {
        memcpy(found->bytes, key.mv_data, key.mv_size);
        found->count = key.mv_size;
    }
    return 0;
}

/* The prefix of the first series at or behind `from`; MDB_NOTFOUND: there is none. */
static int find_series(struct chunks *chunks, const struct series_key *from, struct series_key *out)
{
    struct reading reading;
    int rc = reading_open(chunks, &reading);
    if (rc != 0) {
        return rc;
    }
    out->count = 0;
    rc = find_first(reading.cursor, from, out);
    rc = rc == 0 ? find_first(reading.blocks, from, out) : rc;
    reading_close(&reading);
    return rc == 0 && out->count == 0 ? MDB_NOTFOUND : rc;
}

int series_each(struct chunks *chunks, series_each_fn *callback, void *context)
{
    struct series_key from = {.bytes = {0}, .count = 1}, found;
    int rc;
    while ((rc = find_series(chunks, &from, &found)) == 0) {
        int stopped = callback(context, found.bytes + 1, found.count - 1 - 8);
        if (stopped != 0) {
            return stopped;
        }
        from = found;
        memset(from.bytes + from.count - 8, 0xff, 8);
        from.bytes[from.count++] = 0; /* behind the highest possible number of this series */
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(chunks->env, rc);
}

/* A key is one byte with the length of the prefix, the prefix, and the sequence number in big-endian order. The length
 * in front keeps the entries of each series side by side, whatever the prefixes are. */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "store/chunks_env.h"

#define KEY_BYTES_MAX (1 + SERIES_PREFIX_BYTES_MAX + 8)

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

static int entry_put(struct chunks *chunks, MDB_txn *txn, const struct series_entry *entry)
{
    struct series_key made;
    int rc = key_make(entry->prefix, entry->prefix_bytes, entry->sequence, &made);
    if (rc != 0 || entry->count > SERIES_ENTRY_BYTES_MAX) {
        return ERR_USAGE;
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

/* A read transaction with a cursor on the table; its functions return LMDB's codes. */
struct reading {
    MDB_txn *txn;
    MDB_cursor *cursor;
};

static int reading_open(struct chunks *chunks, struct reading *reading)
{
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &reading->txn);
    if (rc != 0) {
        return rc;
    }
    rc = mdb_cursor_open(reading->txn, chunks->series_table, &reading->cursor);
    if (rc != 0) {
        mdb_txn_abort(reading->txn);
    }
    return rc;
}

static void reading_close(struct reading *reading)
{
    mdb_cursor_close(reading->cursor);
    mdb_txn_abort(reading->txn);
}

int series_read(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t from_sequence,
                series_read_fn *callback, void *context)
{
    struct series_key series;
    int rc = key_make(prefix, prefix_bytes, from_sequence, &series);
    if (rc != 0) {
        return rc;
    }
    struct reading reading;
    rc = reading_open(chunks, &reading);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_val key = {.mv_size = series.count, .mv_data = series.bytes};
    MDB_val value;
    uint64_t sequence;
    int stopped = 0;
    rc = mdb_cursor_get(reading.cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0 && stopped == 0 && key_is_of(&series, &key, &sequence)) {
        stopped = callback(context, sequence, value.mv_data, value.mv_size);
        rc = mdb_cursor_get(reading.cursor, &key, &value, MDB_NEXT);
    }
    reading_close(&reading);
    if (stopped != 0) {
        return stopped;
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(chunks->env, rc);
}

/* Finds the last entry of the series: the one before the first key above all keys of the series. */
static int cursor_last(MDB_cursor *cursor, const struct series_key *above, uint64_t *sequence)
{
    MDB_val key = {.mv_size = above->count, .mv_data = (void *)(uintptr_t)above->bytes};
    MDB_val value;
    int rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    if (rc == 0 && key_is_of(above, &key, sequence)) {
        return 0; /* the highest possible number */
    }
    if (rc != 0 && rc != MDB_NOTFOUND) {
        return rc;
    }
    rc = mdb_cursor_get(cursor, &key, &value, rc == 0 ? MDB_PREV : MDB_LAST);
    if (rc != 0) {
        return rc;
    }
    return key_is_of(above, &key, sequence) ? 0 : MDB_NOTFOUND;
}

int series_last(struct chunks *chunks, const void *prefix, size_t prefix_bytes, uint64_t *sequence)
{
    struct series_key above;
    int rc = key_make(prefix, prefix_bytes, UINT64_MAX, &above);
    if (rc != 0) {
        return rc;
    }
    struct reading reading;
    uint64_t found = 0;
    rc = reading_open(chunks, &reading);
    if (rc == 0) {
        rc = cursor_last(reading.cursor, &above, &found);
        reading_close(&reading);
    }
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    *sequence = found;
    return 0;
}

/* Deletes entries of the series until it is empty (`*more` becomes false) or one transaction is full. */
static int delete_some(struct chunks *chunks, MDB_txn *txn, const struct series_key *series, bool *more)
{
    MDB_cursor *cursor;
    int rc = mdb_cursor_open(txn, chunks->series_table, &cursor);
    if (rc != 0) {
        return rc;
    }
    MDB_val key = {.mv_size = series->count, .mv_data = (void *)(uintptr_t)series->bytes};
    MDB_val value;
    uint64_t sequence;
    size_t bytes = 0;
    rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
    while (rc == 0 && key_is_of(series, &key, &sequence) && bytes < CHUNKS_TRANSACTION_BYTES) {
        bytes += KEY_BYTES_MAX + value.mv_size;
        rc = mdb_cursor_del(cursor, 0);
        if (rc == 0) {
            key = (MDB_val){.mv_size = series->count, .mv_data = (void *)(uintptr_t)series->bytes};
            rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        }
    }
    *more = rc == 0 && key_is_of(series, &key, &sequence);
    mdb_cursor_close(cursor);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int series_delete(struct chunks *chunks, const void *prefix, size_t prefix_bytes)
{
    struct series_key series;
    int rc = key_make(prefix, prefix_bytes, 0, &series);
    if (rc != 0) {
        return rc;
    }
    for (bool more = true; more;) {
        MDB_txn *txn;
        rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
        if (rc != 0) {
            return lmdb_error(chunks->env, rc);
        }
        rc = delete_some(chunks, txn, &series, &more);
        if (rc != 0) {
            mdb_txn_abort(txn);
            return lmdb_error(chunks->env, rc);
        }
        rc = mdb_txn_commit(txn);
        if (rc != 0) {
            return lmdb_error(chunks->env, rc);
        }
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
    MDB_val key = {.mv_size = from->count, .mv_data = (void *)(uintptr_t)from->bytes};
    MDB_val value;
    rc = mdb_cursor_get(reading.cursor, &key, &value, MDB_SET_RANGE);
    if (rc == 0 && (key.mv_size < 2 + 8 || key.mv_size > KEY_BYTES_MAX)) {
        rc = MDB_CORRUPTED;
    }
    if (rc == 0) {
        memcpy(out->bytes, key.mv_data, key.mv_size);
        out->count = key.mv_size;
    }
    reading_close(&reading);
    return rc;
}

int series_collect(struct chunks *chunks, series_is_dead_fn *is_dead, void *context)
{
    struct series_key from = {.bytes = {0}, .count = 1}, found;
    int rc;
    while ((rc = find_series(chunks, &from, &found)) == 0) {
        size_t prefix_bytes = found.count - 1 - 8;
        if (is_dead(context, found.bytes + 1, prefix_bytes)) {
            rc = series_delete(chunks, found.bytes + 1, prefix_bytes);
            if (rc != 0) {
                return rc;
            }
        }
        from = found;
        memset(from.bytes + from.count - 8, 0xff, 8);
        from.bytes[from.count++] = 0; /* behind the highest possible number of this series */
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(chunks->env, rc);
}

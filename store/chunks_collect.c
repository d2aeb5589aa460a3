/* Garbage collection of the chunk store: mark, by reading the manifests of the kept blobs, and sweep.
 *
 * A blob that is arriving is not in the list of kept blobs yet, and may share chunks with a blob that goes. Therefore a
 * chunk is touched before it is stored, and before chunks_has answers, and a chunk touched lately stays. A deletion
 * first takes the writer's lock and then looks at the touch: an earlier writer has touched the chunk before, and a
 * later writer finds the chunk gone and stores it again. A mutex keeps chunks_has out for that moment. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/chunks_env.h"

#define BATCH_CHUNKS 64u

struct hashes {
    hash256 *items;
    size_t count, capacity;
};

static int hashes_add(struct hashes *hashes, hash256 hash)
{
    if (hashes->count == hashes->capacity) {
        size_t wanted = hashes->capacity == 0 ? 1024 : hashes->capacity * 2;
        hash256 *bigger = realloc(hashes->items, wanted * sizeof *bigger);
        if (bigger == NULL) {
            return ERR_MEMORY;
        }
        hashes->items = bigger;
        hashes->capacity = wanted;
    }
    hashes->items[hashes->count++] = hash;
    return 0;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, HASH_BYTES);
}

static void hashes_sort(struct hashes *hashes)
{
    if (hashes->count > 0) {
        qsort(hashes->items, hashes->count, sizeof hashes->items[0], compare);
    }
}

static int mark_blob(struct chunks *chunks, hash256 blob, struct hashes *needed, struct chunks_collected *out)
{
    struct blob_manifest manifest;
    int rc = hashes_add(needed, blob);
    if (rc != 0) {
        return rc;
    }
    rc = chunks_manifest_get(chunks, blob, &manifest);
    if (rc == ERR_NOT_FOUND || rc == ERR_MALFORMED) {
        return 0; /* the blob is perhaps arriving, or the list names a chunk of data */
    }
    if (rc == ERR_CORRUPT) {
        if (out->damaged_count < CHUNKS_DAMAGED_MAX) {
            out->damaged[out->damaged_count++] = blob;
        }
        return 0;
    }
    if (rc != 0) {
        return rc;
    }
    for (uint32_t c = 0; c < manifest.chunk_count && rc == 0; c++) {
        rc = hashes_add(needed, manifest.chunks[c].hash);
    }
    chunks_manifest_free(&manifest);
    return rc;
}

static int mark(struct chunks *chunks, const hash256 *kept, size_t kept_count, struct hashes *needed,
                struct chunks_collected *out)
{
    struct hashes blobs = {0};
    int rc = 0;
    for (size_t i = 0; i < kept_count && rc == 0; i++) {
        rc = hashes_add(&blobs, kept[i]);
    }
    hashes_sort(&blobs);
    for (size_t i = 0; i < blobs.count && rc == 0; i++) {
        if (i == 0 || !hash256_equal(blobs.items[i], blobs.items[i - 1])) {
            rc = mark_blob(chunks, blobs.items[i], needed, out);
        }
    }
    free(blobs.items);
    hashes_sort(needed);
    return rc == 0 && out->damaged_count > 0 ? ERR_CORRUPT : rc;
}

struct sweep {
    struct chunks *chunks;
    const struct hashes *needed;
    struct hashes garbage;
    uint32_t idle_s;
};

static int look(void *context, hash256 hash, size_t count)
{
    (void)count;
    struct sweep *sweep = context;
    bool is_needed = sweep->needed->count > 0 && bsearch(&hash, sweep->needed->items, sweep->needed->count,
                                                         sizeof hash, compare) != NULL;
    return is_needed || chunks_idle_s(sweep->chunks, hash) < sweep->idle_s ? 0 : hashes_add(&sweep->garbage, hash);
}

/* Deletes a batch of idle chunks in one transaction; the caller holds the mutex. */
static int delete_batch(struct chunks *chunks, const hash256 *hashes, size_t count, uint32_t idle_s,
                        struct chunks_collected *out)
{
    struct chunks_collected deleted = {0};
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        MDB_val key = {.mv_size = HASH_BYTES, .mv_data = (void *)(uintptr_t)hashes[i].bytes};
        MDB_val value;
        if (chunks_idle_s(chunks, hashes[i]) < idle_s || mdb_get(txn, chunks->chunk_table, &key, &value) != 0) {
            continue;
        }
        deleted.chunks++;
        deleted.bytes += value.mv_size;
        rc = mdb_del(txn, chunks->chunk_table, &key, NULL);
    }
    if (rc != 0) {
        mdb_txn_abort(txn);
        return lmdb_error(chunks->env, rc);
    }
    rc = mdb_txn_commit(txn);
    if (rc == 0) {
        out->chunks += deleted.chunks;
        out->bytes += deleted.bytes;
    }
    return lmdb_error(chunks->env, rc);
}

int chunks_collect(struct chunks *chunks, const hash256 *kept, size_t kept_count, uint32_t idle_s,
                   struct chunks_collected *out)
{
    *out = (struct chunks_collected){0};
    struct hashes needed = {0};
    struct sweep sweep = {.chunks = chunks, .needed = &needed, .idle_s = idle_s};
    int rc = mark(chunks, kept, kept_count, &needed, out);
    rc = rc == 0 ? chunks_each(chunks, look, &sweep) : rc;
    for (size_t at = 0; at < sweep.garbage.count && rc == 0; at += BATCH_CHUNKS) {
        size_t left = sweep.garbage.count - at;
        (void)pthread_mutex_lock(&chunks->answer_mutex);
        rc = delete_batch(chunks, sweep.garbage.items + at, left < BATCH_CHUNKS ? left : BATCH_CHUNKS, idle_s, out);
        (void)pthread_mutex_unlock(&chunks->answer_mutex);
    }
    free(needed.items);
    free(sweep.garbage.items);
    return rc;
}

int chunks_next(struct chunks *chunks, hash256 after, hash256 *next, size_t *count)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    rc = mdb_cursor_open(txn, chunks->chunk_table, &cursor);
    if (rc == 0) {
        MDB_val key = {.mv_size = HASH_BYTES, .mv_data = after.bytes};
        MDB_val value;
        rc = mdb_cursor_get(cursor, &key, &value, MDB_SET_RANGE);
        if (rc == 0 && key.mv_size == HASH_BYTES && memcmp(key.mv_data, after.bytes, HASH_BYTES) == 0) {
            rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT);
        }
        if (rc == 0) {
            memcpy(next->bytes, key.mv_data, HASH_BYTES);
            *count = value.mv_size;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return lmdb_error(chunks->env, rc);
}

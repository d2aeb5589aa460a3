#include "store/chunks_lmdb.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <sodium.h>

#include "base/err.h"
#include "store/chunks_env.h"
#include "store/hash.h"

static uint32_t now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* a clock that stands still in a suspend, when no chunk can be touched */
    return (uint32_t)now.tv_sec;
}

static uint32_t cell_of(hash256 hash)
{
    return (uint32_t)hash.bytes[0] << 8 | hash.bytes[1];
}

void chunks_touch(struct chunks *chunks, hash256 hash)
{
    atomic_store(&chunks->touched_s[cell_of(hash)], now_s() - chunks->opened_s);
}

uint32_t chunks_idle_s(const struct chunks *chunks, hash256 hash)
{
    return now_s() - chunks->opened_s - atomic_load(&chunks->touched_s[cell_of(hash)]);
}

int chunks_open(const char *dir, struct chunks **out, char *error, size_t error_size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/chunks", dir) >= (int)sizeof path) {
        snprintf(error, error_size, "the path of the data directory %.40s... is too long: use a shorter one", dir);
        return ERR_USAGE;
    }
    struct chunks *chunks = calloc(1, sizeof *chunks);
    if (chunks == NULL || sodium_init() < 0) {
        snprintf(error, error_size, "no memory to open the store %s", path);
        free(chunks);
        return ERR_MEMORY;
    }
    /* A limit of the address space (ulimit -v, a sanitizer) makes a map that is too large fail with ENOMEM. */
    int rc = ERR_MEMORY;
    for (uint64_t map = CHUNKS_MAP_BYTES; rc == ERR_MEMORY && map >= CHUNKS_MAP_BYTES_MIN; map /= 2) {
        chunks->map_bytes = map;
        rc = lmdb_env_open(path, (size_t)map, 3, &chunks->env, error, error_size);
    }
    if (rc != 0) {
        goto err_free;
    }
    rc = lmdb_table_open(chunks->env, "chunks", &chunks->chunk_table);
    if (rc == 0) {
        rc = lmdb_table_open(chunks->env, "series", &chunks->series_table);
    }
    if (rc == 0) {
        rc = lmdb_table_open(chunks->env, "blocks", &chunks->blocks_table);
    }
    if (rc != 0) {
        snprintf(error, error_size, "cannot open the tables of the store %s: %s", path, err_text(rc));
        goto err_close;
    }
    pthread_mutex_init(&chunks->answer_mutex, NULL);
    chunks->opened_s = now_s();
    *out = chunks;
    return 0;

err_close:
    mdb_env_close(chunks->env);
err_free:
    free(chunks);
    return rc;
}

void chunks_close(struct chunks **chunks)
{
    if (*chunks != NULL) {
        mdb_env_close((*chunks)->env);
        pthread_mutex_destroy(&(*chunks)->answer_mutex);
        free(*chunks);
        *chunks = NULL;
    }
}

int chunks_put_items(struct chunks *chunks, const struct chunks_item *items, size_t item_count)
{
    for (size_t i = 0; i < item_count; i++) {
        chunks_touch(chunks, items[i].hash); /* before the transaction: see chunks_collect.c */
    }
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    for (size_t i = 0; i < item_count; i++) {
        MDB_val key = {.mv_size = HASH_BYTES, .mv_data = (void *)(uintptr_t)items[i].hash.bytes};
        MDB_val value = {.mv_size = items[i].count, .mv_data = (void *)(uintptr_t)items[i].bytes};
        rc = mdb_put(txn, chunks->chunk_table, &key, &value, MDB_NOOVERWRITE);
        if (rc != 0 && rc != MDB_KEYEXIST) {
            mdb_txn_abort(txn);
            return lmdb_error(chunks->env, rc);
        }
    }
    return lmdb_error(chunks->env, mdb_txn_commit(txn));
}

int chunks_put(struct chunks *chunks, hash256 hash, const void *bytes, size_t count)
{
    if (count == 0 || count > BLOB_CHUNK_BYTES_MAX) {
        return ERR_USAGE;
    }
    if (!hash256_equal(hash_bytes(bytes, count), hash)) {
        return ERR_CORRUPT;
    }
    if (chunks_has(chunks, hash)) {
        return 0;
    }
    return chunks_put_items(chunks, &(struct chunks_item){.hash = hash, .bytes = bytes, .count = count}, 1);
}

/* Gives the chunk's size, and its bytes if `buffer` is not NULL, unchecked. */
static int chunk_copy(struct chunks *chunks, hash256 hash, void *buffer, size_t capacity_bytes, size_t *count)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_val key = {.mv_size = HASH_BYTES, .mv_data = hash.bytes};
    MDB_val value;
    rc = lmdb_error(chunks->env, mdb_get(txn, chunks->chunk_table, &key, &value));
    if (rc == 0 && buffer != NULL) {
        if (value.mv_size > capacity_bytes) {
            rc = ERR_FULL;
        } else if (value.mv_size > 0) {
            memcpy(buffer, value.mv_data, value.mv_size);
        }
    }
    if (rc == 0) {
        *count = value.mv_size;
    }
    mdb_txn_abort(txn);
    return rc;
}

int chunks_get(struct chunks *chunks, hash256 hash, void *buffer, size_t capacity_bytes, size_t *count)
{
    size_t copied;
    int rc = chunk_copy(chunks, hash, buffer, capacity_bytes, &copied);
    if (rc != 0) {
        return rc;
    }
    if (!hash256_equal(hash_bytes(buffer, copied), hash)) {
        return ERR_CORRUPT;
    }
    *count = copied;
    return 0;
}

bool chunks_look(struct chunks *chunks, hash256 hash)
{
    size_t count;
    return chunk_copy(chunks, hash, NULL, 0, &count) == 0;
}

bool chunks_has(struct chunks *chunks, hash256 hash)
{
    (void)pthread_mutex_lock(&chunks->answer_mutex);
    chunks_touch(chunks, hash);
    bool has = chunks_look(chunks, hash);
    (void)pthread_mutex_unlock(&chunks->answer_mutex);
    return has;
}

int chunks_delete(struct chunks *chunks, hash256 hash)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, 0, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_val key = {.mv_size = HASH_BYTES, .mv_data = hash.bytes};
    rc = mdb_del(txn, chunks->chunk_table, &key, NULL);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return lmdb_error(chunks->env, rc);
    }
    return lmdb_error(chunks->env, mdb_txn_commit(txn));
}

int chunks_each(struct chunks *chunks, chunks_each_fn *callback, void *context)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    MDB_cursor *cursor;
    int stopped = 0;
    rc = mdb_cursor_open(txn, chunks->chunk_table, &cursor);
    if (rc == 0) {
        MDB_val key;
        MDB_val value;
        while (stopped == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
            hash256 hash;
            memcpy(hash.bytes, key.mv_data, HASH_BYTES);
            stopped = callback(context, hash, value.mv_size);
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    if (stopped != 0) {
        return stopped;
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(chunks->env, rc);
}

/* Counts the pages that LMDB can use again. LMDB keeps them in its own table number 0: per transaction a list of pages,
 * with its length in front (as mdb_stat -f reads it). The file never shrinks, so without this count a full disk would
 * look full for ever. */
static int reusable_pages(struct chunks *chunks, uint64_t *pages)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(chunks->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return rc;
    }
    MDB_cursor *cursor;
    uint64_t sum = 0;
    rc = mdb_cursor_open(txn, 0, &cursor);
    if (rc == 0) {
        MDB_val key;
        MDB_val value;
        while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
            size_t length;
            memcpy(&length, value.mv_data, sizeof length);
            sum += length;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    if (rc != MDB_NOTFOUND) {
        return rc;
    }
    *pages = sum;
    return 0;
}

int chunks_space(struct chunks *chunks, struct chunks_space *out)
{
    MDB_envinfo info;
    MDB_stat stat;
    struct statvfs disk;
    int fd;
    uint64_t pages = 0;
    int rc = mdb_env_info(chunks->env, &info);
    rc = rc == 0 ? mdb_env_stat(chunks->env, &stat) : rc;
    rc = rc == 0 ? mdb_env_get_fd(chunks->env, &fd) : rc;
    rc = rc == 0 ? reusable_pages(chunks, &pages) : rc;
    if (rc != 0) {
        return lmdb_error(chunks->env, rc);
    }
    if (fstatvfs(fd, &disk) != 0) {
        return ERR_IO;
    }
    struct chunks_space space = {
        .disk_bytes = (uint64_t)disk.f_bavail * disk.f_frsize,
        .reusable_bytes = pages * stat.ms_psize,
        .file_bytes = ((uint64_t)info.me_last_pgno + 1) * stat.ms_psize,
    };
    uint64_t map_left = chunks->map_bytes > space.file_bytes ? chunks->map_bytes - space.file_bytes : 0;
    space.free_bytes = space.reusable_bytes + (space.disk_bytes < map_left ? space.disk_bytes : map_left);
    *out = space;
    return 0;
}

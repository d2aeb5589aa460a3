#ifndef STORE_CHUNKS_ENV_H
#define STORE_CHUNKS_ENV_H
/* The inside of struct chunks, for chunks_lmdb.c, chunks_blob.c, chunks_collect.c, series_lmdb.c and
 * snapshot.c only. */

#include <pthread.h>
#include <stdatomic.h>

#include "store/chunks_lmdb.h"
#include "store/lmdb_common.h"

#define CHUNKS_TOUCH_CELLS (1u << 16)

/* An open store. */
struct chunks {
    MDB_env *env;
    MDB_dbi chunk_table;
    MDB_dbi series_table;
    MDB_dbi blocks_table; /* packed entries of series */
    uint64_t map_bytes;
    pthread_mutex_t answer_mutex; /* held while chunks_has answers, and while a batch is collected */
    uint32_t opened_s; /* CLOCK_MONOTONIC */
    /* When a chunk was last stored or asked for, in s since the store was opened, indexed by the first two bytes of its
     * hash. Chunks that share a cell keep each other for longer than necessary. 0: not since the store was opened. */
    _Atomic uint32_t touched_s[CHUNKS_TOUCH_CELLS];
};

/* Notes that the chunk was stored or asked for now. */
void chunks_touch(struct chunks *chunks, hash256 hash);

/* For how many seconds the chunk, or one that shares its cell, has not been touched. */
uint32_t chunks_idle_s(const struct chunks *chunks, hash256 hash);

/* As chunks_has without the touch, so the chunk may be collected at any time. */
bool chunks_look(struct chunks *chunks, hash256 hash);

/* One chunk to store; `bytes` is borrowed. */
struct chunks_item {
    hash256 hash;
    const uint8_t *bytes;
    size_t count;
};

/* Stores the items that are not stored yet, in one transaction of at most CHUNKS_TRANSACTION_BYTES. The caller has
 * checked the hashes. Errors as chunks_put; nothing is stored then. */
int chunks_put_items(struct chunks *chunks, const struct chunks_item *items, size_t item_count);

#endif

#ifndef STORE_CHUNKS_ENV_H
#define STORE_CHUNKS_ENV_H
/* The inside of struct chunks, for chunks_lmdb.c, chunks_blob.c and series_lmdb.c only. */

#include <pthread.h>
#include <stdatomic.h>

#include "store/chunks_lmdb.h"
#include "store/lmdb_common.h"

#define CHUNKS_TOUCH_CELLS (1u << 16)

struct chunks {
    MDB_env *env;
    MDB_dbi chunk_table;
    MDB_dbi series_table;
    uint64_t map_bytes;
    pthread_mutex_t answer_mutex; /* held while somebody is told that a chunk is here, and while one is collected */
    uint32_t opened_s; /* CLOCK_MONOTONIC */
    /* When a chunk was last stored or asked for, in s since the store was opened, by the first two bytes of its hash: several
     * share a cell, so some stay for longer than they had to. 0: not since then, and what was before is not known. */
    _Atomic uint32_t touched_s[CHUNKS_TOUCH_CELLS];
};

void chunks_touch(struct chunks *chunks, hash256 hash);

/* For how long the chunk, or one that shares its cell, was not touched. */
uint32_t chunks_idle_s(const struct chunks *chunks, hash256 hash);

/* As chunks_has, but touches nothing: whoever is told so cannot rely on it. */
bool chunks_look(struct chunks *chunks, hash256 hash);

struct chunks_item {
    hash256 hash;
    const uint8_t *bytes;
    size_t count;
};

/* Stores what is not there yet in one transaction, without hashing: the caller has. At most CHUNKS_TRANSACTION_BYTES.
 */
int chunks_put_items(struct chunks *chunks, const struct chunks_item *items, size_t item_count);

#endif

#ifndef STORE_CHUNKS_ENV_H
#define STORE_CHUNKS_ENV_H
/* The inside of struct chunks, for chunks_lmdb.c, chunks_blob.c and series_lmdb.c only. */

#include "store/chunks_lmdb.h"
#include "store/lmdb_common.h"

struct chunks {
    MDB_env *env;
    MDB_dbi chunk_table;
    MDB_dbi series_table;
    uint64_t map_bytes;
};

struct chunks_item {
    hash256 hash;
    const uint8_t *bytes;
    size_t count;
};

/* Stores what is not there yet in one transaction, without hashing: the caller has. At most CHUNKS_TRANSACTION_BYTES.
 */
int chunks_put_items(struct chunks *chunks, const struct chunks_item *items, size_t item_count);

#endif

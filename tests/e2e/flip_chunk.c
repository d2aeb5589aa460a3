/* flip_chunk DIR BYTES: as a failing disk would, flips one bit in the middle of every chunk of DIR/chunks that is longer than
 * BYTES. Prints the hash of each, a line each. The daemon of DIR must not run. Raw LMDB: the store would refuse to. */

#include <lmdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES_MAX (4u << 20)

static int flip(MDB_cursor *cursor, size_t longer_than)
{
    static uint8_t name[64], bytes[CHUNK_BYTES_MAX]; /* copies: writing moves what is on the page */
    MDB_val key, value;
    int rc, flipped = 0;
    while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
        if (value.mv_size <= longer_than || value.mv_size > sizeof bytes || key.mv_size > sizeof name) {
            continue;
        }
        memcpy(name, key.mv_data, key.mv_size);
        key.mv_data = name;
        memcpy(bytes, value.mv_data, value.mv_size);
        bytes[value.mv_size / 2] ^= 0x10;
        value.mv_data = bytes;
        for (size_t i = 0; i < key.mv_size; i++) {
            printf("%02x", name[i]);
        }
        printf("\n");
        rc = mdb_cursor_put(cursor, &key, &value, MDB_CURRENT);
        if (rc != 0) {
            break;
        }
        flipped++;
    }
    if (rc != MDB_NOTFOUND) {
        fprintf(stderr, "flip_chunk: %s\n", mdb_strerror(rc));
        return 1;
    }
    return flipped > 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: flip_chunk DIR BYTES\n");
        return 2;
    }
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/chunks", argv[1]);
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi table;
    MDB_cursor *cursor;
    int rc = mdb_env_create(&env);
    if (rc == 0 && (rc = mdb_env_set_maxdbs(env, 8)) == 0 && (rc = mdb_env_set_mapsize(env, (size_t)1 << 32)) == 0 &&
        (rc = mdb_env_open(env, path, 0, 0600)) == 0 && (rc = mdb_txn_begin(env, NULL, 0, &txn)) == 0 &&
        (rc = mdb_dbi_open(txn, "chunks", 0, &table)) == 0) {
        rc = mdb_cursor_open(txn, table, &cursor);
    }
    if (rc != 0) {
        fprintf(stderr, "flip_chunk: %s: %s\n", path, mdb_strerror(rc));
        return 1;
    }
    int status = flip(cursor, (size_t)strtoull(argv[2], NULL, 10));
    mdb_cursor_close(cursor);
    rc = mdb_txn_commit(txn);
    mdb_env_close(env);
    return rc == 0 ? status : 1;
}

/* dump_state DIR: prints every record on the disk of the daemon of DIR, which may run meanwhile: the envelope (docs/wire.md), one a
 * line, in hexadecimal. */

#include <lmdb.h>
#include <stdio.h>

static int print_all(MDB_env *env)
{
    MDB_txn *txn;
    MDB_dbi records;
    MDB_cursor *cursor;
    MDB_val key, value;
    int rc;
    if ((rc = mdb_txn_begin(env, NULL, MDB_RDONLY, &txn)) != 0) {
        return rc;
    }
    if ((rc = mdb_dbi_open(txn, "records", 0, &records)) == 0 && (rc = mdb_cursor_open(txn, records, &cursor)) == 0) {
        while ((rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
            const unsigned char *bytes = value.mv_data;
            for (size_t i = 0; i < value.mv_size; i++) {
                (void)printf("%02x", bytes[i]);
            }
            (void)putchar('\n');
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return rc == MDB_NOTFOUND ? 0 : rc;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: dump_state DIR\n");
        return 2;
    }
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/state", argv[1]);
    MDB_env *env;
    int rc = mdb_env_create(&env);
    if (rc == 0 && (rc = mdb_env_set_mapsize(env, (size_t)1 << 32)) == 0 && (rc = mdb_env_set_maxdbs(env, 8)) == 0 &&
        (rc = mdb_env_open(env, path, MDB_RDONLY, 0600)) == 0) {
        rc = print_all(env);
    }
    if (rc != 0) {
        fprintf(stderr, "dump_state: %s\n", mdb_strerror(rc));
        return 1;
    }
    return fflush(stdout) == 0 ? 0 : 1;
}

/* hold_state DIR [chunks]: as a disk that hangs would, keeps the daemon of DIR from writing its state, or its chunks and
 * series, until this process is killed. Prints a line once it does. */

#include <lmdb.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 3) {
        fprintf(stderr, "usage: hold_state DIR [chunks]\n");
        return 2;
    }
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", argv[1], argc == 3 ? argv[2] : "state");
    MDB_env *env;
    MDB_txn *txn;
    int rc = mdb_env_create(&env);
    if (rc == 0 && (rc = mdb_env_set_mapsize(env, (size_t)1 << 32)) == 0 && /* not the daemon's, too much for ThreadSanitizer */
        (rc = mdb_env_open(env, path, 0, 0600)) == 0) {
        rc = mdb_txn_begin(env, NULL, 0, &txn); /* there is one writer at a time */
    }
    if (rc != 0) {
        fprintf(stderr, "hold_state: %s\n", mdb_strerror(rc));
        return 1;
    }
    (void)printf("held\n");
    (void)fflush(stdout);
    for (;;) {
        (void)pause();
    }
}

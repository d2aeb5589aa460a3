/* Preloaded into shoald: the daemon stands still (SIGSTOP) at the commit of its own record of a given kind, so that it can be killed
 * there. $HOLD_FILE names a file of two words, "KIND before" or "KIND after", and a third, the writer's id in hexadecimal; where there
 * is no such file nothing is held. The daemon writes $HOLD_FILE.held and stands still, before the record is on its disk or after it, and
 * in either case before anything that follows from it leaves the process. */

#include <dlfcn.h>
#include <lmdb.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ID_BYTES 16

/* Of the thread that writes the state. */
static _Thread_local bool is_wanted;
static _Thread_local char when[8];

static void look(const unsigned char *envelope, size_t count)
{
    const char *path = getenv("HOLD_FILE");
    FILE *file = path != NULL && count > 3 + ID_BYTES && envelope[0] == 1 ? fopen(path, "r") : NULL;
    unsigned kind;
    char moment[8], writer[2 * ID_BYTES + 1], own[2 * ID_BYTES + 1];
    if (file == NULL) {
        return;
    }
    for (int i = 0; i < ID_BYTES; i++) {
        (void)snprintf(own + 2 * i, 3, "%02x", envelope[3 + i]);
    }
    if (fscanf(file, "%u %7s %32s", &kind, moment, writer) == 3 && kind == (unsigned)(envelope[1] << 8 | envelope[2]) &&
        strcmp(own, writer) == 0) {
        is_wanted = true;
        (void)snprintf(when, sizeof when, "%s", moment);
    }
    (void)fclose(file);
}

static void stand_still(void)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s.held", getenv("HOLD_FILE"));
    FILE *file = fopen(path, "w");
    if (file != NULL) {
        (void)fclose(file);
    }
    (void)raise(SIGSTOP); /* this thread does not go on */
}

int mdb_put(MDB_txn *txn, MDB_dbi table, MDB_val *key, MDB_val *value, unsigned flags)
{
    static int (*put)(MDB_txn *, MDB_dbi, MDB_val *, MDB_val *, unsigned);
    if (put == NULL) {
        *(void **)&put = dlsym(RTLD_NEXT, "mdb_put");
    }
    look(value->mv_data, value->mv_size);
    return put(txn, table, key, value, flags);
}

int mdb_txn_commit(MDB_txn *txn)
{
    static int (*commit)(MDB_txn *);
    if (commit == NULL) {
        *(void **)&commit = dlsym(RTLD_NEXT, "mdb_txn_commit");
    }
    if (is_wanted && strcmp(when, "before") == 0) {
        stand_still();
    }
    int rc = commit(txn);
    if (is_wanted && strcmp(when, "after") == 0) {
        stand_still();
    }
    is_wanted = false;
    return rc;
}

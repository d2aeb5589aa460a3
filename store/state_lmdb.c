#include "store/state_lmdb.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"
#include "store/lmdb_common.h"

struct state {
    MDB_env *env;
    MDB_dbi tables[STATE_TABLES];
};

static const char *const table_names[STATE_TABLES] = {"records", "fences", "meta"};

/* LMDB writes its first pages itself, and takes a file of zeros for a damaged one: so the file is filled up behind
 * them, after it was opened. Doing it at every start finishes what a crash may have left undone. */
static int file_reserve(MDB_env *env)
{
    int fd;
    int rc = mdb_env_get_fd(env, &fd);
    if (rc != 0) {
        return rc;
    }
    rc = posix_fallocate(fd, 0, STATE_FILE_BYTES);
    if (rc != 0) {
        return rc;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

/* The names of new files are on disk once their directory is. */
static int directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    int rc = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return rc;
}

int state_open(const char *dir, struct state **out, char *error, size_t error_size)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/state", dir) >= (int)sizeof path) {
        snprintf(error, error_size, "the path of the data directory %.40s... is too long: use a shorter one", dir);
        return ERR_USAGE;
    }
    struct state *state = calloc(1, sizeof *state);
    if (state == NULL) {
        snprintf(error, error_size, "no memory to open the store %s", path);
        return ERR_MEMORY;
    }
    int rc = lmdb_env_open(path, STATE_FILE_BYTES, STATE_TABLES, &state->env, error, error_size);
    if (rc == ERR_NO_SPACE) {
        goto err_no_space;
    }
    if (rc != 0) {
        goto err_free;
    }
    int reserved = file_reserve(state->env);
    if (reserved == 0) {
        reserved = directory_sync(path);
    }
    if (reserved == 0) {
        reserved = directory_sync(dir);
    }
    if (reserved != 0) {
        rc = lmdb_error(state->env, reserved);
        mdb_env_close(state->env);
        if (rc == ERR_NO_SPACE) {
            goto err_no_space;
        }
        snprintf(error, error_size, "cannot reserve the file of the store %s: %s", path, strerror(reserved));
        goto err_free;
    }
    for (int table = 0; table < STATE_TABLES; table++) {
        rc = lmdb_table_open(state->env, table_names[table], &state->tables[table]);
        if (rc != 0) {
            snprintf(error, error_size, "cannot open the table %s of the store %s: %s", table_names[table], path,
                     err_text(rc));
            mdb_env_close(state->env);
            goto err_free;
        }
    }
    *out = state;
    return 0;

err_no_space:
    snprintf(error, error_size, "the disk of %s is full: the store needs %u MiB there; free some space", dir,
             STATE_FILE_BYTES >> 20);
err_free:
    free(state);
    return rc;
}

void state_close(struct state **state)
{
    if (*state != NULL) {
        mdb_env_close((*state)->env);
        free(*state);
        *state = NULL;
    }
}

static int op_apply(struct state *state, MDB_txn *txn, const struct state_op *op)
{
    if (op->key_bytes == 0 || op->key_bytes > STATE_KEY_BYTES_MAX || op->table >= STATE_TABLES ||
        (!op->is_delete && op->value_bytes > STATE_VALUE_BYTES_MAX)) {
        return EINVAL;
    }
    MDB_val key = {.mv_size = op->key_bytes, .mv_data = (void *)(uintptr_t)op->key};
    if (op->is_delete) {
        int rc = mdb_del(txn, state->tables[op->table], &key, NULL);
        return rc == MDB_NOTFOUND ? 0 : rc;
    }
    MDB_val value = {.mv_size = op->value_bytes, .mv_data = (void *)(uintptr_t)op->value};
    return mdb_put(txn, state->tables[op->table], &key, &value, 0);
}

int state_put_batch(struct state *state, const struct state_op *ops, size_t op_count)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(state->env, NULL, 0, &txn);
    if (rc != 0) {
        return lmdb_error(state->env, rc);
    }
    for (size_t i = 0; i < op_count; i++) {
        rc = op_apply(state, txn, &ops[i]);
        if (rc != 0) {
            mdb_txn_abort(txn);
            return lmdb_error(state->env, rc);
        }
    }
    return lmdb_error(state->env, mdb_txn_commit(txn));
}

int state_get(struct state *state, enum state_table table, const void *key, size_t key_bytes, void *value,
              size_t capacity_bytes, size_t *value_bytes)
{
    if (key_bytes == 0 || key_bytes > STATE_KEY_BYTES_MAX || table >= STATE_TABLES) {
        return ERR_USAGE;
    }
    MDB_txn *txn;
    int rc = mdb_txn_begin(state->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(state->env, rc);
    }
    MDB_val mdb_key = {.mv_size = key_bytes, .mv_data = (void *)(uintptr_t)key};
    MDB_val found;
    rc = lmdb_error(state->env, mdb_get(txn, state->tables[table], &mdb_key, &found));
    if (rc == 0) {
        *value_bytes = found.mv_size;
        if (found.mv_size > capacity_bytes) {
            rc = ERR_FULL;
        } else if (found.mv_size > 0) {
            memcpy(value, found.mv_data, found.mv_size);
        }
    }
    mdb_txn_abort(txn);
    return rc;
}

int state_each(struct state *state, enum state_table table, state_each_fn *callback, void *context)
{
    if (table >= STATE_TABLES) {
        return ERR_USAGE;
    }
    MDB_txn *txn;
    int rc = mdb_txn_begin(state->env, NULL, MDB_RDONLY, &txn);
    if (rc != 0) {
        return lmdb_error(state->env, rc);
    }
    MDB_cursor *cursor;
    int stopped = 0;
    rc = mdb_cursor_open(txn, state->tables[table], &cursor);
    if (rc == 0) {
        MDB_val key;
        MDB_val value;
        while (stopped == 0 && (rc = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)) == 0) {
            stopped = callback(context, key.mv_data, key.mv_size, value.mv_data, value.mv_size);
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    if (stopped != 0) {
        return stopped;
    }
    return rc == MDB_NOTFOUND ? 0 : lmdb_error(state->env, rc);
}

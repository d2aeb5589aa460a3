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

#define AHEAD_BYTES (32u << 20)      /* when less than this is allocated ahead of use, another step of the file is allocated */
#define DISK_SPARE_BYTES (32u << 20) /* what allocating a further step must leave of the disk for other programs */

_Static_assert(STATE_RESERVE_BYTES < AHEAD_BYTES, "a disk that fills up finds the reserve allocated");

struct state {
    MDB_env *env;
    MDB_dbi tables[STATE_TABLES];
    uint64_t reserved_bytes; /* how much of the file is allocated on disk; changed under the lock of LMDB's writers */
};

static const char *const table_names[STATE_TABLES] = {"records", "fences", "meta"};

/* Allocates a part of the file. LMDB writes its first pages itself, and takes a file of zeros for a damaged one; so the
 * rest of the file is filled after it was opened, at every start, which finishes what a crash may have interrupted. */
static int file_reserve(MDB_env *env, uint64_t from, uint64_t to)
{
    int fd;
    int rc = mdb_env_get_fd(env, &fd);
    if (rc != 0) {
        return rc;
    }
    rc = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    if (rc != 0) {
        return rc;
    }
    return fsync(fd) == 0 ? 0 : errno;
}

/* The size to allocate at opening: the present size of the file, and at least one step. */
static uint64_t file_wanted_bytes(MDB_env *env)
{
    int fd;
    struct stat info;
    bool is_known = mdb_env_get_fd(env, &fd) == 0 && fstat(fd, &info) == 0 && info.st_size > 0;
    return is_known && (uint64_t)info.st_size > STATE_FILE_BYTES ? (uint64_t)info.st_size : STATE_FILE_BYTES;
}

/* The names of new files are on disk after their directory is synced. */
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
    uint64_t wanted_bytes = STATE_FILE_BYTES;
    int rc = lmdb_env_open(path, STATE_MAP_BYTES, STATE_TABLES, &state->env, error, error_size);
    if (rc == ERR_NO_SPACE) {
        goto err_no_space;
    }
    if (rc != 0) {
        goto err_free;
    }
    wanted_bytes = file_wanted_bytes(state->env);
    int reserved = file_reserve(state->env, 0, wanted_bytes);
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
    state->reserved_bytes = wanted_bytes;
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
             (unsigned)(wanted_bytes >> 20));
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

/* ---- room ---------------------------------------------------------------------------------------------------------- */

/* The room of the disk for this file: free space above DISK_SPARE_BYTES. */
static uint64_t disk_room_bytes(const struct state *state)
{
    int fd;
    struct statvfs space;
    if (mdb_env_get_fd(state->env, &fd) != 0 || fstatvfs(fd, &space) != 0) {
        return 0;
    }
    uint64_t free_bytes = (uint64_t)space.f_bavail * space.f_frsize;
    return free_bytes > DISK_SPARE_BYTES ? free_bytes - DISK_SPARE_BYTES : 0;
}

struct extent {
    uint64_t used_bytes; /* the part of the file that was ever written */
    uint64_t map_bytes, page_bytes;
};

static struct extent extent_of(const struct state *state)
{
    MDB_envinfo info;
    MDB_stat stat;
    (void)mdb_env_info(state->env, &info); /* fails only without an environment */
    (void)mdb_env_stat(state->env, &stat);
    return (struct extent){((uint64_t)info.me_last_pgno + 1) * stat.ms_psize, info.me_mapsize, stat.ms_psize};
}

/* Allocates another step of the file, if the part allocated ahead runs short and the disk has room. The caller is a
 * writer. */
static void reserve_ahead(struct state *state)
{
    struct extent extent = extent_of(state);
    if (extent.used_bytes + AHEAD_BYTES <= state->reserved_bytes || state->reserved_bytes >= extent.map_bytes) {
        return;
    }
    uint64_t at_least = extent.used_bytes > state->reserved_bytes ? extent.used_bytes : state->reserved_bytes;
    uint64_t wanted = (at_least / STATE_FILE_BYTES + 1) * STATE_FILE_BYTES;
    if (disk_room_bytes(state) >= wanted - state->reserved_bytes &&
        file_reserve(state->env, state->reserved_bytes, wanted) == 0) {
        state->reserved_bytes = wanted;
    }
}

/* Counts pages that are free again: LMDB lists them in a table of its own, with a count before each list. */
static uint64_t freed_pages(struct state *state)
{
    MDB_txn *txn;
    MDB_cursor *cursor;
    uint64_t pages = 0;
    if (mdb_txn_begin(state->env, NULL, MDB_RDONLY, &txn) != 0) {
        return 0;
    }
    if (mdb_cursor_open(txn, 0, &cursor) == 0) {
        MDB_val key, list;
        while (mdb_cursor_get(cursor, &key, &list, MDB_NEXT) == 0) {
            size_t count;
            memcpy(&count, list.mv_data, sizeof count);
            pages += count;
        }
        mdb_cursor_close(cursor);
    }
    mdb_txn_abort(txn);
    return pages;
}

/* True if only the reserve is left: of the map, or of the allocated part together with the room of a nearly full disk. */
static bool only_reserve_is_left(struct state *state)
{
    struct extent extent = extent_of(state);
    uint64_t end = extent.used_bytes > state->reserved_bytes ? extent.used_bytes : state->reserved_bytes;
    if (end < extent.used_bytes + STATE_RESERVE_BYTES) {
        end += disk_room_bytes(state);
    }
    end = end < extent.map_bytes ? end : extent.map_bytes;
    return end < extent.used_bytes + STATE_RESERVE_BYTES &&
           end - extent.used_bytes + freed_pages(state) * extent.page_bytes < STATE_RESERVE_BYTES;
}

static bool may_take_reserve(const struct state_op *op)
{
    return op->is_delete || op->is_urgent || op->table != STATE_RECORDS;
}

/* ---- operations ---------------------------------------------------------------------------------------------------- */

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
    reserve_ahead(state);
    bool has_room = true;
    for (size_t i = 0; i < op_count && has_room; i++) {
        has_room = may_take_reserve(&ops[i]);
    }
    has_room = has_room || !only_reserve_is_left(state);
    for (size_t i = 0; i < op_count; i++) {
        rc = has_room ? op_apply(state, txn, &ops[i]) : MDB_MAP_FULL;
        if (rc != 0) {
            mdb_txn_abort(txn);
            return lmdb_error(state->env, rc);
        }
    }
    return lmdb_error(state->env, mdb_txn_commit(txn));
}

void state_put_each(struct state *state, const struct state_op *ops, size_t op_count, int *codes)
{
    int code = state_put_batch(state, ops, op_count);
    for (size_t i = 0; i < op_count; i++) {
        codes[i] = code;
    }
    if (code != ERR_NO_SPACE) {
        return;
    }
    for (size_t first = 0, end; first < op_count; first = end) {
        for (end = first + 1; end < op_count && may_take_reserve(&ops[end]) == may_take_reserve(&ops[first]); end++) {
        }
        code = end - first < op_count ? state_put_batch(state, ops + first, end - first) : code;
        for (size_t i = first; i < end; i++) {
            codes[i] = code;
        }
    }
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

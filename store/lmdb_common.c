#include "store/lmdb_common.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/err.h"

/* LMDB keeps a larger lock file as it is; for its default of 126 readers it makes a file of 8 KiB. */
#define LOCK_FILE_BYTES 16384

/* After a short write less than one transaction is free, and a transaction has at most 16 MiB of data. */
#define FULL_DISK_BYTES (32u << 20)

static int lock_file_reserve(const char *dir)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/lock.mdb", dir) >= (int)sizeof path) {
        return ENAMETOOLONG;
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return errno;
    }
    int rc = posix_fallocate(fd, 0, LOCK_FILE_BYTES);
    close(fd);
    return rc;
}

int lmdb_env_open(const char *dir, size_t map_bytes, unsigned tables, MDB_env **out, char *error, size_t error_size)
{
    MDB_env *env = NULL;
    int rc = 0;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        rc = errno;
    }
    if (rc == 0) {
        rc = lock_file_reserve(dir);
    }
    if (rc == 0) {
        rc = mdb_env_create(&env);
    }
    if (rc == 0) {
        rc = mdb_env_set_maxdbs(env, tables);
    }
    if (rc == 0) {
        rc = mdb_env_set_mapsize(env, map_bytes);
    }
    if (rc == 0) {
        rc = mdb_env_open(env, dir, MDB_NOTLS, 0600);
    }
    if (rc != 0) {
        if (env != NULL) {
            mdb_env_close(env);
        }
        snprintf(error, error_size, "cannot open the store %s: %s", dir, mdb_strerror(rc));
        return lmdb_error(NULL, rc);
    }
    *out = env;
    return 0;
}

int lmdb_table_open(MDB_env *env, const char *name, MDB_dbi *out)
{
    MDB_txn *txn;
    int rc = mdb_txn_begin(env, NULL, 0, &txn);
    if (rc != 0) {
        return lmdb_error(env, rc);
    }
    MDB_dbi table;
    rc = mdb_dbi_open(txn, name, MDB_CREATE, &table);
    if (rc != 0) {
        mdb_txn_abort(txn);
        return lmdb_error(env, rc);
    }
    rc = mdb_txn_commit(txn);
    if (rc != 0) {
        return lmdb_error(env, rc);
    }
    *out = table;
    return 0;
}

static bool disk_is_full(MDB_env *env)
{
    int fd;
    struct statvfs space;
    return env != NULL && mdb_env_get_fd(env, &fd) == 0 && fstatvfs(fd, &space) == 0 &&
           (uint64_t)space.f_bavail * space.f_frsize < FULL_DISK_BYTES;
}

int lmdb_error(MDB_env *env, int mdb_rc)
{
    switch (mdb_rc) {
    case 0:
        return 0;
    case MDB_NOTFOUND:
        return ERR_NOT_FOUND;
    case MDB_KEYEXIST:
        return ERR_EXISTS;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
        return ERR_NO_SPACE;
    case EIO:
        return disk_is_full(env) ? ERR_NO_SPACE : ERR_IO;
    case ENOMEM:
        return ERR_MEMORY;
    case MDB_BAD_VALSIZE:
    case EINVAL:
        return ERR_USAGE;
    case MDB_READERS_FULL:
        return ERR_AGAIN;
    case MDB_VERSION_MISMATCH:
        return ERR_VERSION;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
        return ERR_CORRUPT;
    default:
        return ERR_IO;
    }
}

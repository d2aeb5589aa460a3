#ifndef STORE_LMDB_COMMON_H
#define STORE_LMDB_COMMON_H
/* What the environments `state` and `chunks` share. Private to store/, since it exposes LMDB's types. */

#include <stddef.h>

#include <lmdb.h>

/* Opens the environment in `dir` (created with mode 0700 if absent) with this map size and `tables` named tables,
 * without MDB_WRITEMAP, and with read transactions that are not tied to threads. The space of the lock file is
 * allocated before LMDB maps the file: on a full disk a write to a mapped hole would be a SIGBUS. 0, or an error with a
 * sentence in `error`. ERR_MEMORY: perhaps the map does not fit into the address space. */
int lmdb_env_open(const char *dir, size_t map_bytes, unsigned tables, MDB_env **out, char *error, size_t error_size);

/* Opens or creates the table `name`. 0, or an error of base/err.h. */
int lmdb_table_open(MDB_env *env, const char *name, MDB_dbi *out);

/* Translates a code of LMDB or errno to an error of base/err.h. `env` (may be NULL) serves to tell a full disk, for
 * which LMDB reports short writes as EIO, from a broken disk. */
int lmdb_error(MDB_env *env, int mdb_rc);

#endif

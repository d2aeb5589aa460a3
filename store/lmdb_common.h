#ifndef STORE_LMDB_COMMON_H
#define STORE_LMDB_COMMON_H
/* What the two LMDB environments share. Private to store/: it shows LMDB's types. */

#include <stddef.h>

#include <lmdb.h>

/* Opens the environment in `dir` (created with mode 0700 if absent) with the given map size and `tables` named tables,
 * without MDB_WRITEMAP, read transactions not tied to threads. Space for the lock file is taken before LMDB maps it:
 * writing to a mapped hole on a full disk would be a SIGBUS. 0; otherwise the error with a sentence in `error`.
 * ERR_MEMORY: among others, the map does not fit into the address space. */
int lmdb_env_open(const char *dir, size_t map_bytes, unsigned tables, MDB_env **out, char *error, size_t error_size);

/* Opens or creates the named table. */
int lmdb_table_open(MDB_env *env, const char *name, MDB_dbi *out);

/* LMDB's or errno's code as one of base/err.h. `env` tells an EIO of a full disk (LMDB reports short writes so) from
 * one of a broken disk; may be NULL. */
int lmdb_error(MDB_env *env, int mdb_rc);

#endif

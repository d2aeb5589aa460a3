#ifndef STORE_STATE_LMDB_H
#define STORE_STATE_LMDB_H
/* The `state` environment in DIR/state: records, fences and the like. Small, and synced at every write. A shell over
 * LMDB.
 *
 * Its file is allocated (64 MiB) at creation, and later in further steps of 64 MiB ahead of use while the disk has
 * room; it never shrinks. So the state can be written when the disk is full. On a copy-on-write file system (btrfs,
 * zfs) this promise is the file system's to keep, and it may not.
 *
 * The last 16 MiB, of the map or of what a full disk leaves, are reserved for fences, for the table STATE_META, for
 * deletions and for urgent records: work that frees room must never wait for room.
 *
 * All functions may be called from any thread; a writer waits for other writers, a reader waits for nobody. A callback
 * must not write to the same state. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The step of the file, the size of the map, and the reserve. */
#define STATE_FILE_BYTES (64u << 20)
#define STATE_MAP_BYTES (1u << 30)
#define STATE_RESERVE_BYTES (16u << 20)
#define STATE_KEY_BYTES_MAX 511 /* LMDB's limit; at least 1 */
#define STATE_VALUE_BYTES_MAX (1u << 20)

/* An open environment; opaque. */
struct state;

enum state_table { STATE_RECORDS, STATE_FENCES, STATE_META, STATE_TABLES };

/* Opens or creates DIR/state; DIR must exist. On failure `error` is one sentence. ERR_NO_SPACE: the disk has no room
 * for the file. ERR_IO, ERR_CORRUPT, ERR_VERSION, ERR_MEMORY. The caller owns `*out` until state_close. */
int state_open(const char *dir, struct state **out, char *error, size_t error_size);

/* Closes the environment and sets `*state` to NULL; no other call may be in progress. NULL inside is allowed. */
void state_close(struct state **state);

/* One write or deletion. */
struct state_op {
    enum state_table table;
    const void *key; /* `key` and `value` are borrowed */
    size_t key_bytes;
    const void *value;
    size_t value_bytes;
    bool is_delete; /* the value is ignored; an absent entry may be deleted */
    bool is_urgent; /* this record may use the reserve */
};

/* Does all operations in order, or none, in one transaction that is on disk when this returns 0. ERR_NO_SPACE: the map
 * or the disk is full, or only the reserve is left and a record is not urgent. ERR_USAGE: a key or value size. ERR_IO. */
int state_put_batch(struct state *state, const struct state_op *ops, size_t op_count);

/* As state_put_batch, but if the room is not enough for all operations, those that may use the reserve are done without
 * the others: still in order, with one transaction for each run of operations of one sort. `codes` has op_count
 * elements, which become the result of each operation. */
void state_put_each(struct state *state, const struct state_op *ops, size_t op_count, int *codes);

/* Copies a value. ERR_NOT_FOUND; ERR_FULL: `capacity_bytes` is too small, and `*value_bytes` is the needed size;
 * ERR_USAGE (the key size), ERR_IO. */
int state_get(struct state *state, enum state_table table, const void *key, size_t key_bytes, void *value,
              size_t capacity_bytes, size_t *value_bytes);

/* Calls `callback` for every entry of a table in the byte order of the keys, on one snapshot; the pointers are valid
 * during the callback. A result other than 0 ends the walk and is returned. */
typedef int state_each_fn(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                          size_t value_bytes);
int state_each(struct state *state, enum state_table table, state_each_fn *callback, void *context);

#endif

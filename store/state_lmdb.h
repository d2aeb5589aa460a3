#ifndef STORE_STATE_LMDB_H
#define STORE_STATE_LMDB_H
/* The `state` environment: records, fences and the like, in DIR/state. Small and synced at every write.
 *
 * Its file is allocated (64 MiB) when it is made, and then in steps of as much ahead of what is used, while the disk has
 * room; it never shrinks. So it can be written when the disk is full. Where the file system copies on write (btrfs, zfs)
 * that promise is the file system's to keep, and it may not.
 *
 * The last 16 MiB, of the map or of what a full disk leaves, are for fences, for the table STATE_META, for deletions and
 * for records that are urgent: what frees room again must never wait for room.
 *
 * All functions may be called from any thread; writers wait for each other, readers for nobody. A callback must not
 * write to the same state. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_FILE_BYTES (64u << 20)
#define STATE_MAP_BYTES (1u << 30)
#define STATE_RESERVE_BYTES (16u << 20)
#define STATE_KEY_BYTES_MAX 511 /* LMDB's limit; at least 1 */
#define STATE_VALUE_BYTES_MAX (1u << 20)

struct state;

enum state_table { STATE_RECORDS, STATE_FENCES, STATE_META, STATE_TABLES };

/* Opens or creates DIR/state; DIR exists. On failure `error` holds one sentence. ERR_NO_SPACE: the disk has no room for
 * the file. ERR_IO, ERR_CORRUPT, ERR_VERSION, ERR_MEMORY. The caller owns `*out` and closes it with state_close. */
int state_open(const char *dir, struct state **out, char *error, size_t error_size);

/* Closes and clears; no other call may be going on. NULL inside is allowed. */
void state_close(struct state **state);

struct state_op {
    enum state_table table;
    const void *key; /* borrowed, like the value */
    size_t key_bytes;
    const void *value;
    size_t value_bytes;
    bool is_delete; /* the value is not looked at; what is absent may be deleted */
    bool is_urgent; /* a record that may take of the reserve */
};

/* Does all operations in their order, or none, in one transaction that is on disk when this returns 0.
 * ERR_NO_SPACE: the map or the disk is full, but for the reserve if a record is not urgent. ERR_USAGE: a key or value
 * size. ERR_IO. */
int state_put_batch(struct state *state, const struct state_op *ops, size_t op_count);

/* The same, but where there is no room for all of them what may take of the reserve goes on without the rest: still in
 * their order, in a transaction for each run of the one kind or the other. `codes` [op_count]: what state_put_batch says of
 * each. */
void state_put_each(struct state *state, const struct state_op *ops, size_t op_count, int *codes);

/* Copies the value. ERR_NOT_FOUND; ERR_FULL: `capacity_bytes` is too small, `*value_bytes` then says what is needed. */
int state_get(struct state *state, enum state_table table, const void *key, size_t key_bytes, void *value,
              size_t capacity_bytes, size_t *value_bytes);

/* Calls back for every entry in the order of the keys' bytes, on one snapshot; the pointers are valid during the
 * callback only. What the callback returns other than 0 ends the walk and is returned. */
typedef int state_each_fn(void *context, const uint8_t *key, size_t key_bytes, const uint8_t *value,
                          size_t value_bytes);
int state_each(struct state *state, enum state_table table, state_each_fn *callback, void *context);

#endif

#ifndef NODE_DAEMON_GROUND_META_H
#define NODE_DAEMON_GROUND_META_H
/* The table STATE_META of the data directory: small values by name. Read and written at once, in the calling thread. */

#include <stddef.h>

struct daemon;

/* Copies the value of `key` to `out` and sets `*count` to its bytes. ERR_NOT_FOUND; ERR_FULL: `capacity` is too small,
 * `*count` is the room needed; ERR_IO. */
int daemon_meta_get(struct daemon *daemon, const char *key, void *out, size_t capacity, size_t *count);

/* Stores a value. 0: on disk. An error is as of state_put_batch, and the old value stays. */
int daemon_meta_put(struct daemon *daemon, const char *key, const void *value, size_t count);

#endif

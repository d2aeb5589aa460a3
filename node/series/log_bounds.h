#ifndef NODE_SERIES_LOG_BOUNDS_H
#define NODE_SERIES_LOG_BOUNDS_H
/* How many bytes of a worker's log are kept, by experiment (logs.max_bytes). The daemon's thread sets them, the bulk's thread asks. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "node/core/facts/facts.h"
#include "store/chunks_lmdb.h"

#define LOG_BYTES_STANDARD (UINT64_C(64) << 20)

/* An experiment whose bound is another than LOG_BYTES_STANDARD. */
struct log_bound {
    experiment_id experiment;
    uint64_t bytes_max;
};

struct log_bounds {
    pthread_mutex_t mutex;
    struct log_bound *bounds; /* sorted by experiment */
    size_t count;
};

void log_bounds_init(struct log_bounds *bounds);
void log_bounds_close(struct log_bounds *bounds);

/* Replaces all bounds. `rows` becomes the callee's, which sorts and frees it (malloc). */
void log_bounds_set(struct log_bounds *bounds, struct log_bound *rows, size_t count);

/* The bound for the series of an experiment; `bounds` NULL: LOG_BYTES_STANDARD. */
uint64_t log_bounds_find(struct log_bounds *bounds, const uint8_t *prefix, size_t prefix_bytes);

/* Keeps a log small: entries of a log (prefix 'l') that are on disk now are packed, with their times, once SERIES_BLOCK_BYTES have
 * come together, and the oldest go while the log has more than its bound. Other series are left alone. Errors are those of the
 * store; the next entries try again. */
int log_bounds_stored(struct log_bounds *bounds, struct chunks *chunks, const struct series_entry *entries, size_t count);

#endif

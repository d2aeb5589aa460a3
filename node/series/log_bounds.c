#include "node/series/log_bounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void log_bounds_init(struct log_bounds *bounds)
{
    *bounds = (struct log_bounds){.count = 0};
    (void)pthread_mutex_init(&bounds->mutex, NULL);
}

void log_bounds_close(struct log_bounds *bounds)
{
    free(bounds->bounds);
    (void)pthread_mutex_destroy(&bounds->mutex);
    *bounds = (struct log_bounds){.count = 0};
}

static int compare_bounds(const void *a, const void *b)
{
    return memcmp(((const struct log_bound *)a)->experiment.bytes, ((const struct log_bound *)b)->experiment.bytes,
                  EXPERIMENT_ID_BYTES);
}

void log_bounds_set(struct log_bounds *bounds, struct log_bound *rows, size_t count)
{
    if (count > 0) {
        qsort(rows, count, sizeof rows[0], compare_bounds);
    }
    (void)pthread_mutex_lock(&bounds->mutex);
    struct log_bound *before = bounds->bounds;
    bounds->bounds = rows;
    bounds->count = count;
    (void)pthread_mutex_unlock(&bounds->mutex);
    free(before);
}

uint64_t log_bounds_find(struct log_bounds *bounds, const uint8_t *prefix, size_t prefix_bytes)
{
    uint64_t bytes_max = LOG_BYTES_STANDARD;
    if (bounds == NULL || prefix_bytes < 1 + EXPERIMENT_ID_BYTES) {
        return bytes_max;
    }
    struct log_bound wanted = {.bytes_max = 0};
    memcpy(wanted.experiment.bytes, prefix + 1, EXPERIMENT_ID_BYTES);
    (void)pthread_mutex_lock(&bounds->mutex);
    const struct log_bound *found =
        bounds->count > 0 ? bsearch(&wanted, bounds->bounds, bounds->count, sizeof wanted, compare_bounds) : NULL;
    bytes_max = found != NULL ? found->bytes_max : bytes_max;
    (void)pthread_mutex_unlock(&bounds->mutex);
    return bytes_max;
}

/* The log has grown by `last` past a multiple of the block size. What counts against the bound are the bytes that are here: a number
 * says nothing about them, since output may have been dropped before it, and a peer may name any. Blocks go as wholes: so much is
 * trimmed that with the block which stays for its last bytes, and one that comes before the next trimming, the log is still within its
 * bound. */
static int keep_small(struct log_bounds *bounds, struct chunks *chunks, const struct series_entry *last)
{
    uint8_t times[SERIES_PREFIX_BYTES_MAX];
    uint64_t bytes_max = log_bounds_find(bounds, last->prefix, last->prefix_bytes), older;
    memcpy(times, last->prefix, last->prefix_bytes);
    times[0] = 'w';
    int code = series_pack(chunks, last->prefix, last->prefix_bytes, false);
    code = code == 0 ? series_pack(chunks, times, last->prefix_bytes, true) : code;
    uint64_t kept = bytes_max > 3 * SERIES_BLOCK_BYTES ? bytes_max - 2 * SERIES_BLOCK_BYTES : SERIES_BLOCK_BYTES;
    code = code == 0 ? series_older(chunks, last->prefix, last->prefix_bytes, kept, &older) : code;
    if (code == 0) {
        code = series_trim(chunks, last->prefix, last->prefix_bytes, older);
        code = code == 0 ? series_trim(chunks, times, last->prefix_bytes, older) : code;
    }
    return code == ERR_NOT_FOUND ? 0 : code;
}

int log_bounds_stored(struct log_bounds *bounds, struct chunks *chunks, const struct series_entry *entries, size_t count)
{
    int code = 0;
    for (size_t i = 0; i < count; i++) {
        const struct series_entry *entry = &entries[i];
        bool is_log = entry->prefix_bytes > 1 && ((const uint8_t *)entry->prefix)[0] == 'l' && entry->count <= entry->sequence;
        if (is_log && entry->sequence / SERIES_BLOCK_BYTES != (entry->sequence - entry->count) / SERIES_BLOCK_BYTES) {
            int result = keep_small(bounds, chunks, entry);
            code = code == 0 ? result : code;
        }
    }
    return code;
}

#ifndef NODE_SERIES_SUMS_H
#define NODE_SERIES_SUMS_H
/* Sums over metric points (node/daemon/wire/points.h): count, minimum, maximum, mean and last value of each metric in each
 * group. In memory only; nothing of the system but memory. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define SUMS_GROUP_BYTES 32
#define SUMS_NAME_BYTES 128
#define SUMS_BYTES_MAX (3u << 20) /* of all metrics, packed; what is beyond is left out, and `is_cut` says so */
#define SUMS_PART_BYTES (96u << 10) /* a packed group is cut into parts of about so many bytes */
#define SUMS_UNKNOWN UINT64_MAX /* the generation of a point that names none: never void */

/* One metric. NaN counts in `count` and `nans`, and can be `last`; it is in none of the others. */
struct sums_metric {
    uint32_t group, name_at, name_bytes; /* of the name in sums.names */
    uint64_t count, nans;
    double min, max, sum, last;
};

/* What the points of a group have in common; times are 0 if no point has one. */
struct sums_group {
    char name[SUMS_GROUP_BYTES];
    uint64_t count; /* of points */
    uint64_t first_step, last_step, min_step, max_step;
    uint64_t first_ms, last_ms;
    uint64_t min_generation, max_generation;
};

/* All zero: no point. sums_free frees what the pointers point to. */
struct sums {
    struct sums_group *groups;
    uint32_t group_count, group_capacity;
    struct sums_metric *metrics; /* in the order of their first points */
    uint32_t metric_count, metric_capacity;
    char *names;
    size_t names_bytes, names_capacity;
    uint32_t *cells; /* a hash table of indices of metrics, plus 1 */
    uint32_t cell_count;
    size_t packed_bytes;
    bool is_cut; /* something had no room */
    bool no_memory;
};

/* Forgets all points, and keeps the memory for the next ones. */
void sums_clear(struct sums *sums);
void sums_free(struct sums *sums);

/* Adds a stored point. Bytes that are no point are ignored. */
void sums_add_point(struct sums *sums, const uint8_t *bytes, size_t count);

/* What must be known of a stored point before it is added. False: the bytes are no point. */
bool sums_look(const uint8_t *bytes, size_t count, uint64_t *generation, uint64_t *step);

/* Adds later points, as sums_pack has written them: one part. False: the bytes are no such part. */
bool sums_add_part(struct sums *sums, const uint8_t *bytes, size_t count);

/* Reads the ranges of generations and steps of a part, without the metrics. False: the bytes are no such part. */
bool sums_look_part(const uint8_t *bytes, size_t count, struct sums_group *out);

/* Writes the sums in parts, each at most SERIES_ENTRY_BYTES_MAX bytes, to `put`; a result of it other than 0 ends the writing and
 * is returned. sums_pack: for sums_add_part. sums_show: maps for users (docs/wire.md, `metrics` with `points`), with `width`, and
 * `void` (true) if `is_void`. ERR_MEMORY. */
typedef int sums_put_fn(void *context, const uint8_t *bytes, size_t count);
int sums_pack(const struct sums *sums, sums_put_fn *put, void *context);
int sums_show(const struct sums *sums, uint64_t width, bool is_void, sums_put_fn *put, void *context);

#endif

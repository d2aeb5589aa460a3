#ifndef NODE_DAEMON_WIRE_POINTS_H
#define NODE_DAEMON_WIRE_POINTS_H
/* Metric points as series hold them: maps `trial attempt generation step wall_ms group metrics`; earlier versions wrote no
 * `wall_ms`, when the daemon beside the worker got the point. In a generation after the first, `start` comes before these: the step at which the generation began. An older generation's points of the same
 * attempt beyond `start` are void: the group discarded those steps and makes them anew (docs/design.md 9). Behind
 * `start` stands `source` (the array [session, request]) in a point that a program has reported through a connection:
 * after a crash of the daemon the program repeats requests that were not answered, and some of them are stored already.
 * A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"

#define POINTS_STARTS_MAX 1024

/* The step at which a generation of an attempt began. */
struct points_start {
    attempt_id attempt;
    uint64_t generation, step;
};

/* Where generations began, as far as known. All zero: nothing is known. When full, the older half is forgotten: then
 * void points may be shown, but no valid point is hidden. */
struct points_starts {
    uint32_t count;
    struct points_start items[POINTS_STARTS_MAX];
};

/* Adds a start, unless the attempt's generation is known already. */
void points_add(struct points_starts *starts, const attempt_id *attempt, uint64_t generation, uint64_t step);

/* Learns the start from one stored point, if it has one. Ignores bytes that are no point. */
void points_note(struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count);

/* Whether a stored point is void by the known starts. False for bytes that are no point. */
bool points_is_void(const struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count);

/* The `start` of points_begin when the step is not known. */
#define POINTS_START_UNKNOWN UINT64_MAX

/* The request that a point came with. All zero: none. */
struct points_source {
    uint64_t session; /* of the program's `worker_open`; 0: no source, or a program of an older version */
    uint64_t request; /* ids rise in a session */
};

/* Of a point from an event file (workers/event_files.h) the session is a hash of the file's path, and the request this bit
 * with the offset up to which the file is done with. */
#define POINTS_OF_FILE (UINT64_C(1) << 63)

/* Writes a point up to the map of metrics, which the caller writes next. `start` is left out for the first generation
 * and for POINTS_START_UNKNOWN, `source` for session 0. */
void points_begin(struct pack_writer *writer, struct points_source source, uint32_t trial, uint32_t attempt,
                  uint64_t generation, uint64_t start, uint64_t step, uint64_t wall_ms, const char *group);

/* The source of a stored point; all zero if it has none, and for bytes that are no point. */
struct points_source points_source_of(const uint8_t *bytes, size_t count);

/* Whether a stored point is of a step after `last`. False for bytes that are no point. */
bool points_is_after(uint64_t last, const uint8_t *bytes, size_t count);

/* Whether a stored point came before a time of day. False if that is not known, and for bytes that are no point. */
bool points_is_before(uint64_t since_ms, const uint8_t *bytes, size_t count);

/* Writes a stored point as clients get it: without `start` and `source`, and with `void` (true) if a later attempt made
 * its step anew; nil for bytes that are no point. */
void points_show(struct pack_writer *writer, const uint8_t *bytes, size_t count, bool is_made_anew);

/* Writes sums over points of an attempt (node/series/sums.h) as clients get them, with `trial` and `attempt`; nil for bytes that
 * are no map. `*width` becomes the number of entries in their bucket, if they tell it. */
void points_show_sums(struct pack_writer *writer, const attempt_id *attempt, const uint8_t *bytes, size_t count, uint64_t *width);

#endif

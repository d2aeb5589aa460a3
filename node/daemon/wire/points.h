#ifndef NODE_DAEMON_WIRE_POINTS_H
#define NODE_DAEMON_WIRE_POINTS_H
/* Metric points as series hold them: maps `trial attempt generation step group metrics`. In a generation after the
 * first, `start` comes before these: the step at which the generation began. An older generation's points of the same
 * attempt beyond `start` are void: the group discarded those steps and makes them anew (docs/design.md 9). A core. */

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

/* Writes a point up to the map of metrics, which the caller writes next. `start` is left out for the first generation
 * and for POINTS_START_UNKNOWN. */
void points_begin(struct pack_writer *writer, uint32_t trial, uint32_t attempt, uint64_t generation, uint64_t start,
                  uint64_t step, const char *group);

/* Whether a stored point is of a step after `last`. False for bytes that are no point. */
bool points_is_after(uint64_t last, const uint8_t *bytes, size_t count);

/* Writes a stored point as clients get it, without `start` and, if a later attempt made its step anew, with `void` (true); nil
 * for bytes that are no point. */
void points_show(struct pack_writer *writer, const uint8_t *bytes, size_t count, bool is_made_anew);

#endif

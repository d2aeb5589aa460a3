#ifndef NODE_DAEMON_WIRE_POINTS_H
#define NODE_DAEMON_WIRE_POINTS_H
/* Metric points as series hold them: maps `trial attempt generation step group metrics`, and of a generation behind the first,
 * before these, `start`: the step at which it began. What an older generation of the attempt reported beyond that step is void: the group
 * took that step back, and makes it anew (DESIGN 9). A core. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "base/pack.h"

#define POINTS_STARTS_MAX 1024

struct points_start {
    attempt_id attempt;
    uint64_t generation, step;
};

/* Where generations began, as far as it is known. All zero: of none. When it is full the first half is forgotten: then too
 * much is shown rather than too little. */
struct points_starts {
    uint32_t count;
    struct points_start items[POINTS_STARTS_MAX];
};

void points_add(struct points_starts *starts, const attempt_id *attempt, uint64_t generation, uint64_t step);

/* Learns from one point. Bytes that are none teach nothing. */
void points_note(struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count);

bool points_is_void(const struct points_starts *starts, const attempt_id *attempt, const uint8_t *bytes, size_t count);

#define POINTS_START_UNKNOWN UINT64_MAX

/* A point to be stored; the pairs of `metrics` follow. The first generation's `start` is not told. */
void points_begin(struct pack_writer *writer, uint32_t trial, uint32_t attempt, uint64_t generation, uint64_t start,
                  uint64_t step, const char *group);

/* A stored point as it is shown, without `start`; nil for bytes that are none. */
void points_show(struct pack_writer *writer, const uint8_t *bytes, size_t count);

#endif

#ifndef NODE_DAEMON_WORKERS_PROFILE_H
#define NODE_DAEMON_WORKERS_PROFILE_H
/* The profile of a worker: what it uses (group `system`), as the daemon sees it every 2 s, and where the time of its steps
 * goes (group `time`), as libshoal tells it. A series of its own beside the metric points (prefix 's'), with points of the
 * same form: the means since the point before. So that a trial of weeks keeps a short one, points become rarer: every 2 s at
 * first, in the end one a minute. A core. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define PROFILE_INTERVAL_MS 2000u      /* between two points of a group at first, */
#define PROFILE_INTERVAL_MS_MAX 60000u /* and in the end */
#define PROFILE_ENTRIES 1024u         /* of a series before the interval doubles, and half as many before it doubles again */
#define PROFILE_POINT_BYTES_MAX 1024u /* of a point with all of its metrics */

/* What a worker uses. */
enum profile_metric {
    PROFILE_CPU,     /* percent of a processor: 100 is one that is never idle */
    PROFILE_MEMORY,  /* resident bytes */
    PROFILE_READ,    /* bytes a second from disks */
    PROFILE_WRITTEN, /* and to disks */
    PROFILE_SENT,    /* bytes a second by TCP */
    PROFILE_RECEIVED,
    PROFILE_GPU, /* percent of time */
    PROFILE_GPU_MEMORY,
    PROFILE_GPU_POWER, /* watts */
    PROFILE_GPU_HEAT,  /* degrees Celsius */
    PROFILE_METRICS
};

struct profile_sample {
    bool has[PROFILE_METRICS]; /* the value is known */
    double values[PROFILE_METRICS];
};

/* Steps that have ended, and where their time went. */
struct profile_split {
    uint64_t steps, step_ns, collective_ns, data_ns;
};

/* The state of one worker's profile. All zero at first. */
struct profile {
    uint64_t entries;             /* of the series so far */
    uint64_t system_ms, split_ms; /* when the last point of the group was made; 0: none was */
    uint32_t counts[PROFILE_METRICS];
    double sums[PROFILE_METRICS];
    struct profile_split split;
};

/* The time between two points of a group after so many entries of the series. */
uint64_t profile_interval_ms(uint64_t entries);

/* Adds a sample, or steps. True: a point is due, and profile_take_system or profile_take_split gives it. */
bool profile_add(struct profile *profile, const struct profile_sample *sample, uint64_t now_ms);
bool profile_add_split(struct profile *profile, const struct profile_split *split, uint64_t now_ms);

/* Writes the metrics of the point that is due, a map of "rankN/name" to means, and begins to add anew. */
void profile_take_system(struct profile *profile, uint32_t rank, uint64_t now_ms, struct pack_writer *out);
void profile_take_split(struct profile *profile, uint32_t rank, uint64_t now_ms, struct pack_writer *out);

/* The counters of a worker's processes at one look. */
struct profile_counters {
    uint64_t at_ms, cpu_ms, memory_bytes;
    bool has_io, has_network;
    uint64_t read_bytes, written_bytes;
    uint64_t sent_bytes, received_bytes;
};

/* What a worker used between two looks, `before` all zero: there was none. Of processes that have ended since the counters
 * are gone, so where a sum has become smaller, it counts as unchanged. */
struct profile_sample profile_between(const struct profile_counters *before, const struct profile_counters *now);

#endif

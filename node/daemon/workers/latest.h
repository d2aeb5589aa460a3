#ifndef NODE_DAEMON_WORKERS_LATEST_H
#define NODE_DAEMON_WORKERS_LATEST_H
/* The latest value of each metric that a worker has reported, for the worker's progress record. The record has room for
 * some metrics only; the metric by which the searcher compares trials comes first. The series has all metrics. A core. */

#include <stdint.h>

#include "node/core/facts/facts.h"
#include "node/daemon/wire/request.h"

#define LATEST_METRICS_MAX 48

/* A metric and its latest value. */
struct latest_metric {
    char group[REQUEST_GROUP_BYTES];
    char name[REQUEST_METRIC_BYTES];
    uint64_t step;
    double value;
    bool is_read; /* the value comes from latest_read */
};

/* All zero: nothing is known. */
struct latest {
    uint32_t count;
    struct latest_metric rows[LATEST_METRICS_MAX]; /* in the order of their first reports */
    uint64_t generation; /* of the last point that was noted */
    uint64_t read_generation, read_step; /* the worker's progress at the metrics given to latest_read */
};

/* Sets the value of a metric. `searched`: the name of the searcher's metric, in group validation; "": not known. When
 * the table is full, only the searcher's metric gets a place, in exchange for the last one. */
void latest_set(struct latest *latest, const char *searched, const char *group, const char *name, uint64_t step, double value);

/* Forgets values reported beyond this step: the worker's group has discarded those steps. */
void latest_take_back(struct latest *latest, uint64_t step);

/* Writes a map group -> map name -> number of as many metrics as fit; returns its length, 0: nothing is known. */
uint32_t latest_pack(const struct latest *latest, const char *searched, uint8_t out[FACT_METRICS_BYTES_MAX]);

/* After a restart of the daemon: takes the output of the last latest_pack, written when the worker was at this step of
 * this generation. Malformed bytes are ignored from the first error on. */
void latest_read(struct latest *latest, const char *searched, uint64_t generation, uint64_t step, const uint8_t *bytes,
                 size_t count);

/* After latest_read: takes the last points of the series (wire/points.h), in their order. The points may be older than the
 * output of latest_pack, since series and records are stored apart; an older point does not replace a value of
 * latest_read. Bytes that are no point are ignored. */
void latest_note(struct latest *latest, const char *searched, const uint8_t *bytes, size_t count);

#endif

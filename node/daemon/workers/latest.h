#ifndef NODE_DAEMON_WORKERS_LATEST_H
#define NODE_DAEMON_WORKERS_LATEST_H
/* The latest value of each metric that a worker has reported, for its progress record. That has room for some of them only; the
 * one that the searcher compares trials by comes before all others. The series has them all. A core. */

#include <stdint.h>

#include "node/core/facts/facts.h"
#include "node/daemon/wire/request.h"

#define LATEST_METRICS_MAX 48

struct latest_metric {
    char group[REQUEST_GROUP_BYTES];
    char name[REQUEST_METRIC_BYTES];
    uint64_t step;
    double value;
    bool is_read; /* from latest_read */
};

/* All zero: nothing is known. */
struct latest {
    uint32_t count;
    struct latest_metric rows[LATEST_METRICS_MAX]; /* in the order in which they were first reported */
    uint64_t generation; /* of the last point that was noted */
    uint64_t read_generation, read_step; /* how far the worker was when it said what latest_read has read */
};

/* `searched`: the name of the searcher's metric, in group validation; "": not known. */
void latest_set(struct latest *latest, const char *searched, const char *group, const char *name, uint64_t step, double value);

/* The worker's group has taken back what it made beyond this step. */
void latest_take_back(struct latest *latest, uint64_t step);

/* A map group -> map name -> number of as many as fit; returns its length, 0: nothing is known. */
uint32_t latest_pack(const struct latest *latest, const char *searched, uint8_t out[FACT_METRICS_BYTES_MAX]);

/* After a restart: what latest_pack said last, when the worker was at this step of this generation, and then the points of the
 * series' end (points.h), in their order. That may be behind: series and records have disks of their own. Bytes that are
 * neither teach nothing, or a part. */
void latest_read(struct latest *latest, const char *searched, uint64_t generation, uint64_t step, const uint8_t *bytes,
                 size_t count);
void latest_note(struct latest *latest, const char *searched, const uint8_t *bytes, size_t count);

#endif

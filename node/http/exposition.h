#ifndef NODE_HTTP_EXPOSITION_H
#define NODE_HTTP_EXPOSITION_H
/* The text of /metrics: Prometheus' format 0.0.4 or OpenMetrics 1.0. Both have a metric's HELP, TYPE and samples
 * together; they differ in how a counter is named in its head, in the unit, and in the end. A core, but for the FILE
 * that it writes to. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define EXPOSITION_LABELS_BYTES 1024
#define EXPOSITION_SERIES_MAX 2000 /* of a page; what comes behind them is dropped and counted */

struct exposition {
    FILE *out;
    bool is_open; /* OpenMetrics */
    uint32_t series;
    uint64_t dropped;
};

/* Labels of a sample, for exposition_label; "" without any. */
struct exposition_labels {
    char text[EXPOSITION_LABELS_BYTES];
    size_t used;
};

/* Begins a metric. `type`: gauge, counter or histogram; `unit`: the last word of its name, or "". The samples of a
 * counter have `name` with _total behind it. */
void exposition_begin(const struct exposition *page, const char *name, const char *type, const char *unit,
                      const char *help);

/* Appends NAME="VALUE". Control characters and bytes that are not UTF-8 are written as visible ones; a value without
 * room is cut. */
void exposition_label(struct exposition_labels *labels, const char *name, const char *value);

/* Writes one sample; `labels` may be NULL. */
void exposition_sample(struct exposition *page, const char *name, const struct exposition_labels *labels, double value);

/* Writes the samples of a histogram without labels: `counts` has count + 1 numbers, none of which includes another. */
void exposition_histogram(struct exposition *page, const char *name, uint32_t count, const double *bounds,
                          const double *counts, double sum);

/* Ends the page: how many series were dropped by pages so far, this one included, and what the format ends with. */
void exposition_end(struct exposition *page, uint64_t dropped_before);

#endif

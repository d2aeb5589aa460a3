#include "node/daemon/workers/latest.h"

#include <string.h>

#include "base/bytes.h"

static bool is_searched(const char *searched, const char *group, const char *name)
{
    return strcmp(group, "validation") == 0 && strcmp(name, searched) == 0;
}

/* The row of a metric; latest->count: there is none. */
static uint32_t find(const struct latest *latest, const char *group, const char *name)
{
    uint32_t i = 0;
    while (i < latest->count && (strcmp(latest->rows[i].name, name) != 0 || strcmp(latest->rows[i].group, group) != 0)) {
        i++;
    }
    return i;
}

void latest_set(struct latest *latest, const char *searched, const char *group, const char *name, uint64_t step, double value)
{
    uint32_t i = find(latest, group, name);
    if (i == LATEST_METRICS_MAX && !is_searched(searched, group, name)) {
        return;
    }
    i = i < LATEST_METRICS_MAX ? i : LATEST_METRICS_MAX - 1; /* gives up the last row: the searcher's metric has none yet */
    latest->count = i < latest->count ? latest->count : i + 1;
    struct latest_metric *row = &latest->rows[i];
    *row = (struct latest_metric){.step = step, .value = value};
    bytes_copy_text(row->group, sizeof row->group, group);
    bytes_copy_text(row->name, sizeof row->name, name);
}

void latest_take_back(struct latest *latest, uint64_t step)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < latest->count; i++) {
        if (latest->rows[i].step <= step) {
            latest->rows[kept++] = latest->rows[i];
        }
    }
    latest->count = kept;
}

static bool begins_group(const struct latest *latest, const bool *takes, uint32_t row)
{
    bool begins = takes[row];
    for (uint32_t i = 0; i < row; i++) {
        begins &= !takes[i] || strcmp(latest->rows[i].group, latest->rows[row].group) != 0;
    }
    return begins;
}

static void pack_group(const struct latest *latest, const bool *takes, uint32_t first, struct pack_writer *writer)
{
    const char *group = latest->rows[first].group;
    uint32_t count = 0;
    for (uint32_t i = first; i < latest->count; i++) {
        count += takes[i] && strcmp(latest->rows[i].group, group) == 0;
    }
    pack_text(writer, group);
    pack_map(writer, count);
    for (uint32_t i = first; i < latest->count; i++) {
        if (takes[i] && strcmp(latest->rows[i].group, group) == 0) {
            pack_text(writer, latest->rows[i].name);
            pack_double(writer, latest->rows[i].value);
        }
    }
}

/* Packs the rows marked in `takes`; returns the length, 0: no room. */
static uint32_t pack_taken(const struct latest *latest, const bool *takes, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, FACT_METRICS_BYTES_MAX);
    uint32_t groups = 0;
    for (uint32_t i = 0; i < latest->count; i++) {
        groups += begins_group(latest, takes, i);
    }
    pack_map(&writer, groups);
    for (uint32_t i = 0; i < latest->count; i++) {
        if (begins_group(latest, takes, i)) {
            pack_group(latest, takes, i, &writer);
        }
    }
    return writer.failed ? 0 : (uint32_t)writer.used_bytes;
}

uint32_t latest_pack(const struct latest *latest, const char *searched, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    bool takes[LATEST_METRICS_MAX];
    memset(takes, true, sizeof takes);
    uint32_t bytes = latest->count > 0 ? pack_taken(latest, takes, out) : 0;
    if (bytes > 0 || latest->count == 0) {
        return bytes;
    }
    memset(takes, false, sizeof takes);
    for (int turn = 0; turn < 2; turn++) { /* first the searcher's metric, then the rest */
        for (uint32_t i = 0; i < latest->count; i++) {
            if (is_searched(searched, latest->rows[i].group, latest->rows[i].name) == (turn == 0)) {
                takes[i] = true;
                takes[i] = pack_taken(latest, takes, out) > 0;
            }
        }
    }
    return pack_taken(latest, takes, out);
}

/* Takes a map of names to numbers, reported at this step of this generation. is_read: called by latest_read. A point
 * from before the progress given to latest_read does not replace a value that was read then. */
static void read_group(struct latest *latest, const char *searched, const char *group, uint64_t generation, uint64_t step,
                       bool is_read, struct pack_reader *metrics)
{
    bool is_older = !is_read && (generation < latest->read_generation ||
                                 (generation == latest->read_generation && step <= latest->read_step));
    uint32_t count = pack_read_map(metrics);
    for (uint32_t i = 0; i < count; i++) {
        char name[REQUEST_METRIC_BYTES];
        pack_read_text_copy(metrics, name, sizeof name);
        double value = pack_read_double(metrics);
        if (metrics->failed) {
            return;
        }
        uint32_t at = find(latest, group, name);
        bool was_read = is_older && at < latest->count && latest->rows[at].is_read;
        if (was_read && latest->rows[at].value != value) {
            continue;
        }
        latest_set(latest, searched, group, name, is_read ? 0 : step, value);
        at = find(latest, group, name);
        if (at < latest->count) {
            latest->rows[at].is_read = is_read || was_read;
        }
    }
}

void latest_read(struct latest *latest, const char *searched, uint64_t generation, uint64_t step, const uint8_t *bytes,
                 size_t count)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t groups = pack_read_map(&reader);
    latest->read_generation = generation;
    latest->read_step = step;
    for (uint32_t i = 0; i < groups && !reader.failed; i++) {
        char group[REQUEST_GROUP_BYTES];
        pack_read_text_copy(&reader, group, sizeof group);
        read_group(latest, searched, group, generation, step, true, &reader);
    }
}

void latest_note(struct latest *latest, const char *searched, const uint8_t *bytes, size_t count)
{
    struct pack_reader point;
    pack_reader_init(&point, bytes, count);
    uint64_t generation = 0, start = 0, step = 0;
    struct request_report report;
    if (pack_peek(&point) != PACK_MAP || request_report_read(&point, &report) != 0) {
        return;
    }
    step = report.step;
    if (request_u64(&point, "generation", &generation) && generation > latest->generation) {
        latest->generation = generation;
        if (request_u64(&point, "start", &start)) {
            latest_take_back(latest, start);
        }
    }
    read_group(latest, searched, report.group, generation, step, false, &report.metrics);
}

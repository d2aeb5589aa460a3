/* The series of an attempt, metric points and logs: where they live, and what workers report into them. */

#include <string.h>

#include "node/daemon/daemon.h"
#include "node/daemon/points.h"

#define SERIES_REPLICAS 2

size_t daemon_series_prefix(char kind, const attempt_id *attempt, uint32_t number, uint8_t out[SERIES_PREFIX_BYTES_MAX])
{
    struct fact_key key = fact_key_verdict(attempt);
    out[0] = (uint8_t)kind;
    memcpy(out + 1, key.bytes, key.count);
    bytes_put_u16(out + 1 + key.count, (uint16_t)number);
    return 3u + key.count;
}

int daemon_series_append(struct daemon *daemon, const attempt_id *attempt, char kind, uint32_t rank,
                          uint64_t seq, const uint8_t *bytes, size_t count)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes = daemon_series_prefix(kind, attempt, rank, prefix);
    node_id holders[SERIES_REPLICAS + 1];
    uint32_t found = daemon_holders(daemon, attempt, holders, SERIES_REPLICAS + 1);
    node_id others[SERIES_REPLICAS];
    uint32_t other_count = 0;
    for (uint32_t i = 0; i < found && other_count < SERIES_REPLICAS - 1; i++) {
        if (!node_id_equal(holders[i], daemon->keys.id)) {
            others[other_count++] = holders[i];
        }
    }
    return bulk_series_append(daemon->bulk, prefix, prefix_bytes, seq, bytes, count, others, other_count);
}

/* ---- what workers report --------------------------------------------------------------------------------------- */

static struct run_group *group_row(struct daemon_run *run, const char *name)
{
    for (uint32_t i = 0; i < run->group_count; i++) {
        if (strcmp(run->groups[i].name, name) == 0) {
            return &run->groups[i];
        }
    }
    if (run->group_count == RUN_GROUPS_MAX) {
        return NULL;
    }
    struct run_group *group = &run->groups[run->group_count++];
    memset(group, 0, sizeof *group);
    bytes_copy_text(group->name, sizeof group->name, name);
    return group;
}

static void group_set(struct run_group *group, const char *name, double value)
{
    uint32_t i = 0;
    while (i < group->count && strcmp(group->names[i], name) != 0) {
        i++;
    }
    if (i == RUN_METRICS_MAX) {
        return; /* the progress record shows a dozen; the series has them all */
    }
    if (i == group->count) {
        bytes_copy_text(group->names[group->count++], sizeof group->names[0], name);
    }
    group->values[i] = value;
}

uint32_t daemon_series_metrics(const struct daemon_run *run, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, FACT_METRICS_BYTES_MAX);
    pack_map(&writer, run->group_count);
    for (uint32_t g = 0; g < run->group_count; g++) {
        pack_text(&writer, run->groups[g].name);
        pack_map(&writer, run->groups[g].count);
        for (uint32_t i = 0; i < run->groups[g].count; i++) {
            pack_text(&writer, run->groups[g].names[i]);
            pack_double(&writer, run->groups[g].values[i]);
        }
    }
    return writer.failed || run->group_count == 0 ? 0 : (uint32_t)writer.used_bytes;
}

static void status_event(struct daemon *daemon, struct daemon_run *run, uint64_t step)
{
    uint8_t bytes[FACT_METRICS_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_WORKER_STATUS};
    event.u.worker.slot = run->prepare.u.worker.slot;
    event.u.worker.attempt = run->prepare.u.worker.attempt;
    event.u.worker.step = step;
    event.bytes = bytes;
    event.byte_count = daemon_series_metrics(run, bytes);
    daemon_event(daemon, &event);
}

void daemon_series_progress(struct daemon *daemon, struct daemon_run *run, uint64_t step)
{
    status_event(daemon, run, step);
}

void daemon_series_report(struct daemon *daemon, struct daemon_run *run, const char *group, uint64_t step,
                          struct pack_reader metrics)
{
    struct run_group *row = group_row(run, group);
    struct pack_reader walk = metrics;
    uint32_t pairs = pack_read_map(&walk);
    uint8_t bytes[8192];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    const attempt_id *attempt = &run->prepare.u.worker.attempt;
    const struct view_attempt *seen = view_find_attempt(&daemon->core->view, attempt);
    uint64_t generation = daemon->core->workers[run->prepare.u.worker.slot].generation;
    bool is_known = seen != NULL && seen->generation == generation; /* else it is about to leave its group */
    points_begin(&writer, attempt->trial, attempt->number, generation, is_known ? seen->group_step : POINTS_START_UNKNOWN,
                 step, group);
    run->reported_step = step > run->reported_step ? step : run->reported_step;
    pack_map(&writer, pairs);
    for (uint32_t i = 0; i < pairs && !walk.failed; i++) {
        char name[128];
        pack_read_text_copy(&walk, name, sizeof name);
        double value = pack_read_double(&walk);
        pack_text(&writer, name);
        pack_double(&writer, value);
        if (row != NULL) {
            group_set(row, name, value);
        }
    }
    if (walk.failed || writer.failed) {
        daemon_line(daemon, "a metric report of trial %u is malformed or too large and was dropped",
                    run->prepare.u.worker.attempt.trial);
        return;
    }
    (void)daemon_series_append(daemon, &run->prepare.u.worker.attempt, 'm', run->prepare.u.worker.number, run->series_seq++, bytes,
                         writer.used_bytes);
    status_event(daemon, run, step);
}

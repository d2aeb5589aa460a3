/* The series of an attempt, metric points and logs: their places, and the reports of workers that go into them. */

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "node/daemon/peers/peers.h"
#include "node/daemon/wire/request.h"
#include "node/daemon/workers/workers.h"

#define SERIES_REPLICAS 2
#define METRIC_LINES_SECOND 200u /* lines of one worker's output that are metrics, in a second */
#define POINT_HEAD_BYTES 256 /* of a point: all but its metrics */
#define ADOPTED_POINTS 1000 /* points of the last daemon to read: more than a worker could report between two progress
                               records */

size_t daemon_series_prefix(char kind, const attempt_id *attempt, uint32_t number, uint8_t out[SERIES_PREFIX_BYTES_MAX])
{
    struct fact_key key = fact_key_verdict(attempt);
    out[0] = (uint8_t)kind;
    memcpy(out + 1, key.bytes, key.count);
    bytes_put_u16(out + 1 + key.count, (uint16_t)number);
    return 3u + key.count;
}

int daemon_series_append(struct daemon *daemon, uint64_t id, const attempt_id *attempt, char kind, uint32_t rank,
                         uint64_t seq, const uint8_t *bytes, size_t count)
{
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t prefix_bytes = daemon_series_prefix(kind, attempt, rank, prefix);
    node_id holders[SERIES_REPLICAS + 1];
    uint32_t found = daemon_holders_series(daemon, attempt, holders, SERIES_REPLICAS + 1);
    node_id others[SERIES_REPLICAS];
    uint32_t other_count = 0;
    for (uint32_t i = 0; i < found && other_count < SERIES_REPLICAS - 1; i++) {
        if (!node_id_equal(holders[i], daemon->keys.id)) {
            others[other_count++] = holders[i];
        }
    }
    return bulk_series_append(daemon->bulk, id, prefix, prefix_bytes, seq, bytes, count, others, other_count);
}

/* ---- what workers report --------------------------------------------------------------------------------------- */

/* The metric by which the trials of the worker's experiment are compared; "" while the experiment is not known. */
static const char *searched_by(const struct daemon *daemon, const struct daemon_worker *worker)
{
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment);
    return experiment != NULL && experiment->known ? experiment->config->metric : "";
}

uint32_t daemon_series_metrics(const struct daemon *daemon, const struct daemon_worker *worker,
                               uint8_t out[FACT_METRICS_BYTES_MAX])
{
    return latest_pack(&worker->latest, searched_by(daemon, worker), out);
}

struct noting {
    struct daemon_worker *worker;
    const char *searched;
};

static int note(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    (void)sequence;
    const struct noting *noting = context;
    struct points_source source = points_source_of(bytes, count);
    bool is_of_program = source.session != 0 && (source.request & POINTS_OF_FILE) == 0;
    noting->worker->reported = is_of_program ? source : noting->worker->reported;
    latest_note(&noting->worker->latest, noting->searched, bytes, count);
    return 0;
}

void daemon_series_adopt(struct daemon *daemon, struct daemon_worker *worker)
{
    struct noting noting = {worker, searched_by(daemon, worker)};
    struct node_progress own = node_core_progress(daemon->core, worker->prepare.u.worker.slot);
    latest_read(&worker->latest, noting.searched, own.generation, own.step, own.metrics, own.metrics_bytes);
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    size_t bytes = daemon_series_prefix('m', &worker->prepare.u.worker.attempt, worker->prepare.u.worker.number, prefix);
    uint64_t from = worker->series_seq > ADOPTED_POINTS ? worker->series_seq - ADOPTED_POINTS : 0;
    (void)series_read(daemon->chunks, prefix, bytes, from, note, &noting);
}

static void status_event(struct daemon *daemon, struct daemon_worker *worker, uint64_t step)
{
    uint8_t bytes[FACT_METRICS_BYTES_MAX];
    struct node_event event = {.kind = NODE_EVENT_WORKER_STATUS};
    event.u.worker.slot = worker->prepare.u.worker.slot;
    event.u.worker.attempt = worker->prepare.u.worker.attempt;
    event.u.worker.step = step;
    worker_stall_heard(&worker->stall, daemon_now_ms());
    daemon_count_step(daemon, worker, step);
    event.bytes = bytes;
    event.byte_count = daemon_series_metrics(daemon, worker, bytes);
    daemon_event(daemon, &event);
}

void daemon_series_progress(struct daemon *daemon, struct daemon_worker *worker, uint64_t step)
{
    status_event(daemon, worker, step);
}

/* The value of a metric in a packed map of names to numbers. False: it is not there. */
static bool find_metric(struct pack_reader metrics, const char *name, double *out)
{
    uint32_t pairs = pack_read_map(&metrics);
    for (uint32_t i = 0; i < pairs && !metrics.failed; i++) {
        char at[REQUEST_METRIC_BYTES];
        pack_read_text_copy(&metrics, at, sizeof at);
        double value = pack_read_double(&metrics);
        if (!metrics.failed && strcmp(at, name) == 0) {
            *out = value;
            return true;
        }
    }
    return false;
}

/* How far the trial is by this report, in the unit of searcher.max_time, cut to a whole number. False: the report does not tell. */
static bool find_length(const struct config *config, uint64_t step, struct pack_reader metrics, uint64_t *out)
{
    double length = 0;
    switch (config_search_time(config)) {
    case CONFIG_TIME_STEPS:
        *out = step;
        return true;
    case CONFIG_TIME_SECONDS: /* the core knows */
        *out = 0;
        return true;
    case CONFIG_TIME_METRIC:
        break;
    }
    bool is_told = find_metric(metrics, config->time_metric, &length) && length >= 0 && length <= (double)SEARCH_TIME_MAX;
    *out = is_told ? (uint64_t)length : 0;
    return is_told;
}

/* A search decides by what a trial reports of its validation. */
static void result_event(struct daemon *daemon, const struct daemon_worker *worker, uint64_t step, struct pack_reader metrics)
{
    const attempt_id *attempt = &worker->prepare.u.worker.attempt;
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), attempt->experiment);
    struct node_event event = {.kind = NODE_EVENT_WORKER_RESULT};
    if (experiment == NULL || !experiment->known || !search_judges(experiment->config->searcher) ||
        !find_metric(metrics, experiment->config->metric, &event.u.worker.metric) ||
        !find_length(experiment->config, step, metrics, &event.u.worker.length)) {
        return;
    }
    event.u.worker.slot = worker->prepare.u.worker.slot;
    event.u.worker.attempt = *attempt;
    event.u.worker.step = step;
    daemon_event(daemon, &event);
}

/* wall_ms: 0: now. */
static int take_report(struct daemon *daemon, struct daemon_worker *worker, uint64_t id, struct points_source source, uint64_t wall_ms,
                       const char *group, uint64_t step, struct pack_reader metrics)
{
    const char *searched = searched_by(daemon, worker);
    bool is_further = texts_is_further(group); /* says nothing of the trial's own run */
    struct pack_reader walk = metrics;
    uint32_t pairs = pack_read_map(&walk);
    size_t most = metrics.count - metrics.offset + 9u * pairs + POINT_HEAD_BYTES; /* a number grows to 9 bytes at most */
    uint8_t *bytes = malloc(most);
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, bytes != NULL ? most : 0);
    const attempt_id *attempt = &worker->prepare.u.worker.attempt;
    const struct view_attempt *seen = view_find_attempt(node_core_view(daemon->core), attempt);
    uint64_t generation = node_core_progress(daemon->core, worker->prepare.u.worker.slot).generation;
    bool is_known = seen != NULL && seen->generation == generation; /* else the worker is about to leave its group */
    points_begin(&writer, source, attempt->trial, attempt->number, generation,
                 is_known ? seen->group_step : POINTS_START_UNKNOWN, step, wall_ms != 0 ? wall_ms : daemon_wall_ms(), group);
    pack_map(&writer, pairs);
    for (uint32_t i = 0; i < pairs && !walk.failed; i++) {
        char name[REQUEST_METRIC_BYTES];
        pack_read_text_copy(&walk, name, sizeof name);
        double value = pack_read_double(&walk);
        pack_text(&writer, name);
        pack_double(&writer, value);
        if (!walk.failed && !is_further) {
            latest_set(&worker->latest, searched, group, name, step, value);
        }
    }
    if (walk.failed || writer.failed) {
        daemon_line_of(daemon, event_of_attempt(EVENT_METRICS_LOST, &worker->prepare.u.worker.attempt),
                       "a metric report of trial %u is malformed or too large and was dropped",
                       worker->prepare.u.worker.attempt.trial);
        free(bytes);
        return ERR_MALFORMED;
    }
    int error = daemon_series_append(daemon, id, &worker->prepare.u.worker.attempt, 'm', worker->prepare.u.worker.number,
                                     worker->series_seq++, bytes, writer.used_bytes);
    free(bytes);
    if (error != 0) { /* api_must_wait has made sure of room */
        daemon_line_of(daemon, event_of_attempt(EVENT_METRICS_LOST, &worker->prepare.u.worker.attempt),
                       "a metric report of trial %u is lost: %s", worker->prepare.u.worker.attempt.trial, err_text(error));
    } else if (source.session != 0 && (source.request & POINTS_OF_FILE) == 0) {
        worker->reported = source;
    }
    if (is_further) {
        worker_stall_heard(&worker->stall, daemon_now_ms());
    } else {
        status_event(daemon, worker, step);
    }
    if (strcmp(group, "validation") == 0) {
        result_event(daemon, worker, step, metrics);
    }
    return error;
}

int daemon_series_report(struct daemon *daemon, struct daemon_worker *worker, uint64_t id, uint64_t request,
                         const char *group, uint64_t step, uint64_t wall_ms, struct pack_reader metrics)
{
    struct points_source source = {request != 0 ? worker->session : 0, request};
    return take_report(daemon, worker, id, source, wall_ms, group, step, metrics);
}

int daemon_series_report_at(struct daemon *daemon, struct daemon_worker *worker, struct points_source source,
                            uint64_t wall_ms, const char *group, uint64_t step, struct pack_reader metrics)
{
    return take_report(daemon, worker, 0, source, wall_ms, group, step, metrics);
}

/* ---- the profile ------------------------------------------------------------------------------------------------- */

enum profile_group { PROFILE_SYSTEM, PROFILE_TIME };

/* Appends the point that is due. Its generation is the first, since what was used counts also for steps that were made anew. */
static void append_profile(struct daemon *daemon, struct daemon_worker *worker, enum profile_group group, uint64_t step, uint64_t now_ms)
{
    uint8_t bytes[PROFILE_POINT_BYTES_MAX];
    struct pack_writer writer;
    const attempt_id *attempt = &worker->prepare.u.worker.attempt;
    uint32_t number = worker->prepare.u.worker.number;
    uint64_t sequence = worker->profile.entries;
    if (!bulk_series_has_room(daemon->bulk, DAEMON_POINT_BYTES_MAX)) {
        return; /* what is added up goes into a later point */
    }
    pack_writer_init(&writer, bytes, sizeof bytes);
    points_begin(&writer, (struct points_source){0}, attempt->trial, attempt->number, 1, POINTS_START_UNKNOWN, step, daemon_wall_ms(),
                 group == PROFILE_SYSTEM ? "system" : "time");
    if (group == PROFILE_SYSTEM) {
        profile_take_system(&worker->profile, number, now_ms, &writer);
    } else {
        profile_take_split(&worker->profile, number, now_ms, &writer);
    }
    int error = writer.failed ? ERR_FULL : daemon_series_append(daemon, 0, attempt, 's', number, sequence, bytes, writer.used_bytes);
    if (error != 0) {
        daemon_line(daemon, "a point of the profile of trial %u is lost: %s", attempt->trial, err_text(error));
    }
}

/* A GPU's use, as far as it is known. */
static void add_gpu(struct profile_sample *sample, const struct slots_nvml_use *use)
{
    const struct {
        enum profile_metric metric;
        bool has;
        double value;
    } rows[] = {{PROFILE_GPU, use->percent <= 100, (double)use->percent},
                {PROFILE_GPU_MEMORY, true, (double)use->memory_bytes},
                {PROFILE_GPU_POWER, use->milliwatts != UINT64_MAX, (double)use->milliwatts / 1000},
                {PROFILE_GPU_HEAT, use->celsius != UINT64_MAX, (double)use->celsius}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sample->has[rows[i].metric] = rows[i].has;
        sample->values[rows[i].metric] = rows[i].value;
    }
}

void daemon_series_sample(struct daemon *daemon, struct daemon_worker *worker, uint32_t slot, const struct profile_sample *sample)
{
    struct profile_sample all = *sample;
    uint64_t now_ms = daemon_now_ms();
    if (daemon->workers->gpus[slot].is_known) {
        add_gpu(&all, &daemon->workers->gpus[slot].use);
    }
    if (profile_add(&worker->profile, &all, now_ms)) {
        append_profile(daemon, worker, PROFILE_SYSTEM, node_core_progress(daemon->core, slot).step, now_ms);
    }
}

void daemon_series_split(struct daemon *daemon, struct daemon_worker *worker, uint64_t step, const struct profile_split *split)
{
    uint64_t now_ms = daemon_now_ms();
    if (profile_add_split(&worker->profile, split, now_ms)) {
        append_profile(daemon, worker, PROFILE_TIME, step, now_ms);
    }
}

/* ---- what programs write by MLflow --------------------------------------------------------------------------------------- */

/* An entry of the series: the program's map under `texts`, with what it is of. */
static int texts_stored(void *context, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    struct daemon_worker *worker = context;
    struct texts_clash clash;
    struct pack_reader reader;
    size_t texts_bytes;
    pack_reader_init(&reader, bytes, count);
    reader = pack_find(&reader, "texts");
    const uint8_t *texts = reader.failed ? NULL : pack_read_any(&reader, &texts_bytes);
    worker->texts_seq = sequence + 1;
    if (texts != NULL && texts_are_good(texts, texts_bytes)) {
        (void)texts_params_take(&worker->params, texts, texts_bytes, &clash);
    }
    return 0;
}

int daemon_series_texts(struct daemon *daemon, struct daemon_worker *worker, uint64_t id, const uint8_t *bytes, size_t count,
                       struct texts_clash *clash)
{
    const attempt_id *attempt = &worker->prepare.u.worker.attempt;
    uint8_t prefix[SERIES_PREFIX_BYTES_MAX];
    if (!texts_are_good(bytes, count)) {
        return ERR_MALFORMED;
    }
    if (!worker->knows_texts) { /* an adopted worker has written some to the last daemon */
        size_t prefix_bytes = daemon_series_prefix('n', attempt, worker->prepare.u.worker.number, prefix);
        (void)series_read(daemon->chunks, prefix, prefix_bytes, 0, texts_stored, worker);
        worker->knows_texts = true;
    }
    uint8_t *packed = malloc(count + POINT_HEAD_BYTES);
    if (packed == NULL) {
        return ERR_MEMORY;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, packed, count + POINT_HEAD_BYTES);
    pack_map(&writer, 4);
    pack_text(&writer, "trial");
    pack_u64(&writer, attempt->trial);
    pack_text(&writer, "attempt");
    pack_u64(&writer, attempt->number);
    pack_text(&writer, "wall_ms");
    pack_u64(&writer, daemon_wall_ms());
    pack_text(&writer, "texts");
    pack_raw(&writer, bytes, count);
    size_t before = worker->params.count;
    int code = texts_params_take(&worker->params, bytes, count, clash);
    if (code == 0) {
        code = daemon_series_append(daemon, id, attempt, 'n', worker->prepare.u.worker.number, worker->texts_seq, packed,
                                    writer.used_bytes);
        if (code == 0) {
            worker->texts_seq++;
        } else {
            texts_params_cut(&worker->params, before);
        }
    }
    free(packed);
    return code;
}

/* ---- metrics from the output ------------------------------------------------------------------------------------- */

void daemon_series_output(struct daemon *daemon, struct daemon_worker *worker, const uint8_t *bytes, size_t count)
{
    const struct view_experiment *experiment =
        view_find_experiment(node_core_view(daemon->core), worker->prepare.u.worker.attempt.experiment);
    bool is_wanted = experiment != NULL && experiment->known && experiment->config->metrics_from_output &&
                     worker->prepare.u.worker.number == 0;
    uint8_t packed[METRIC_LINE_BYTES];
    struct request_report report;
    size_t at = 0;
    while (is_wanted && metric_lines_next(&worker->metric_lines, bytes, count, &at, worker->metric_step, packed, &report)) {
        uint64_t now_ms = daemon_now_ms();
        if (now_ms - worker->metric_second_ms >= 1000) {
            if (worker->metric_dropped > 0) {
                daemon_line_of(daemon, event_of_attempt(EVENT_METRICS_LOST, &worker->prepare.u.worker.attempt),
                               "trial %u: %u metric lines of its output were dropped, since more than %u came in a second",
                               worker->prepare.u.worker.attempt.trial, worker->metric_dropped, METRIC_LINES_SECOND);
            }
            worker->metric_second_ms = now_ms;
            worker->metric_count = worker->metric_dropped = 0;
        }
        if (worker->metric_count == METRIC_LINES_SECOND || !bulk_series_has_room(daemon->bulk, DAEMON_POINT_BYTES_MAX)) {
            worker->metric_dropped++;
            continue;
        }
        worker->metric_count++;
        worker->metric_step = report.step;
        (void)daemon_series_report(daemon, worker, 0, 0, report.group, report.step, 0, report.metrics);
    }
    if (worker->metric_lines.is_malformed && !worker->is_malformed_told) {
        worker->is_malformed_told = true;
        daemon_line_of(daemon, event_of_attempt(EVENT_METRICS_LOST, &worker->prepare.u.worker.attempt),
                       "trial %u: a metric line of its output is malformed, not as in '::shoal metric validation loss=0.5 step=10': "
                       "'%s'; "
                       "later ones are not told",
                       worker->prepare.u.worker.attempt.trial, worker->metric_lines.malformed);
    }
}

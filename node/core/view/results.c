/* The results of a trial: checkpoints, each united from the rows of all writers, and metrics. */

#include "node/core/view/view.h"

void view_manifest_add_holder(struct view_manifest *manifest, node_id holder)
{
    bool is_known = false;
    for (uint32_t i = 0; i < manifest->holder_count; i++) {
        is_known |= node_id_equal(manifest->holders[i], holder);
    }
    if (!is_known && manifest->holder_count < FACT_HOLDERS_MAX) {
        manifest->holders[manifest->holder_count++] = holder;
    }
}

void view_manifest_clear_holders(struct view_manifest *manifest)
{
    memset(manifest->holders, 0, sizeof manifest->holders);
    manifest->holder_count = 0;
}

const struct view_manifest *view_manifest_unite(const struct view_manifest *first, struct view_manifest *out)
{
    *out = *first;
    view_manifest_clear_holders(out);
    const struct view_manifest *row = first;
    for (; row != NULL && row->step == first->step && row->part == first->part && attempt_id_equal(&row->attempt, &first->attempt) &&
           hash256_equal(row->blob, first->blob);
         row = row->next) {
        out->durable |= row->durable;
        if (row->has_metric && !out->has_metric) {
            out->has_metric = true;
            out->metric = row->metric;
        }
        for (uint32_t i = 0; i < row->holder_count; i++) {
            view_manifest_add_holder(out, row->holders[i]);
        }
    }
    out->next = NULL;
    return row;
}

const struct view_set *view_find_set(const struct view_trial *trial, hash256 name)
{
    const struct view_set *set = trial->sets;
    while (set != NULL && !hash256_equal(set->name, name)) {
        set = set->next;
    }
    return set;
}

const struct view_manifest *view_set_part(const struct view_set *set, uint32_t part)
{
    const struct view_manifest *first = NULL;
    for (const struct view_manifest *row = set->rows; row != NULL && row->part <= part; row = row->next) {
        if (row->part != part || row->holder_count == 0) {
            continue;
        }
        if (first != NULL && !hash256_equal(row->blob, first->blob)) {
            return NULL;
        }
        first = first == NULL ? row : first;
    }
    return first;
}

bool view_metric(const uint8_t *metrics, uint32_t bytes, const char *group, const char *name, double *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, metrics, bytes);
    if (pack_peek(&reader) != PACK_MAP) {
        return false;
    }
    struct pack_reader in_group = pack_find(&reader, group);
    struct pack_reader value = pack_find(&in_group, name);
    double number = pack_read_double(&value);
    if (in_group.failed || value.failed) {
        return false;
    }
    *out = number;
    return true;
}

static uint32_t metrics_copy(const uint8_t *metrics, uint32_t bytes, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    if (bytes > 0) {
        memcpy(out, metrics, bytes);
    }
    return bytes;
}

/* The attempt's own metrics: after completion from the verdict, else the latest from rank 0. `*step`: the step of the
 * metrics. */
static uint32_t own_metrics(const struct view *view, const struct view_attempt *attempt, uint64_t *step,
                            uint8_t out[FACT_METRICS_BYTES_MAX])
{
    const struct view_verdict *verdict = view_attempt_verdict(attempt);
    const struct view_worker *first = view_attempt_worker(attempt, 0);
    const struct records_entry *judged = verdict != NULL ? records_find(view->records, verdict->ident) : NULL;
    const struct records_entry *reported = first != NULL ? records_find(view->records, first->ident) : NULL;
    struct fact_verdict fact;
    struct fact_worker worker;
    bool is_judged = judged != NULL && fact_verdict_read(&judged->record, &fact) == 0;
    if ((!is_judged || fact.reason != FACT_COMPLETED) && reported != NULL &&
        fact_worker_read(&reported->record, &worker) == 0) {
        *step = worker.step;
        return metrics_copy(worker.metrics, worker.metrics_bytes, out);
    }
    *step = is_judged ? fact.step : 0;
    return is_judged ? metrics_copy(fact.metrics, fact.metrics_bytes, out) : 0;
}

/* The attempt that saved the checkpoint from which `attempt` began; NULL if there is none lower in attempt order. */
static const struct view_attempt *attempt_before(const struct view *view, const struct view_trial *trial,
                                                 const struct view_attempt *attempt, const struct view_manifest **saved)
{
    for (const struct view_manifest *row = trial->manifests; row != NULL && attempt->start_step > 0; row = row->next) {
        if (row->step == attempt->start_step && hash256_equal(row->blob, attempt->checkpoint) &&
            attempt_id_compare_order(&row->attempt, &attempt->id) < 0) {
            *saved = row;
            return view_find_attempt(view, &row->attempt);
        }
    }
    return NULL;
}

/* Packs {"validation": {METRIC: value}} into `out` and returns its length. */
static uint32_t metric_alone(const char *name, double value, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, FACT_METRICS_BYTES_MAX);
    pack_map(&writer, 1);
    pack_text(&writer, "validation");
    pack_map(&writer, 1);
    pack_text(&writer, name);
    pack_double(&writer, value);
    return writer.failed ? 0 : (uint32_t)writer.used_bytes;
}

uint32_t view_attempt_metrics(const struct view *view, const struct view_experiment *experiment,
                              const struct view_attempt *attempt, uint8_t out[FACT_METRICS_BYTES_MAX])
{
    const struct view_trial *trial = view_find_trial(experiment, attempt->id.trial);
    const struct view_manifest *saved = NULL;
    uint64_t start_step = attempt->start_step, step;
    uint32_t bytes = own_metrics(view, attempt, &step, out);
    while (bytes == 0 && step == start_step && trial != NULL &&
           (attempt = attempt_before(view, trial, attempt, &saved)) != NULL) {
        bytes = own_metrics(view, attempt, &step, out);
        if (bytes > 0 && step == start_step) {
            return bytes;
        }
        /* The host may have died between the save and its next report: the manifest has the metric. */
        if (saved->has_metric && experiment->known) {
            return metric_alone(experiment->config->metric, saved->metric, out);
        }
        if (bytes > 0 || attempt->start_step != start_step) {
            return 0; /* the reported metrics are of another step */
        }
    }
    return bytes;
}

bool view_experiment_best(const struct view *view, const struct view_experiment *experiment, uint32_t *trial,
                          double *value)
{
    bool found = false;
    for (uint32_t i = 0; experiment->known && i < experiment->trial_count && i < experiment->trial_slots; i++) {
        const struct view_trial *row = experiment->trials[i];
        const struct view_attempt *attempt = row != NULL ? view_trial_completed(row) : NULL;
        bool is_paused = row != NULL && view_search_paused(experiment, i) != NULL;
        if (attempt == NULL && row != NULL && (is_paused || view_trial_state(experiment, i) == VIEW_TRIAL_STOPPED)) {
            attempt = view_trial_highest(row);
        }
        uint8_t metrics[FACT_METRICS_BYTES_MAX];
        uint32_t bytes = attempt != NULL ? view_attempt_metrics(view, experiment, attempt, metrics) : 0;
        double candidate;
        if (!view_metric(metrics, bytes, "validation", experiment->config->metric, &candidate) ||
            candidate - candidate != 0) {
            continue; /* neither completed nor stopped, without the metric, or diverged: infinite or not a number */
        }
        bool better = !found || (experiment->config->smaller_is_better ? candidate < *value : candidate > *value);
        if (better) {
            found = true;
            *trial = i;
            *value = candidate;
        }
    }
    return found;
}

/* The fold of records about experiments: submission, pause and cancel, stops of trials, claims, annotations. */

#include "node/core/view/fold.h"

#include "base/err.h"
#include "train/search/search.h"

/* The number of trials by the configuration; of a large experiment whose grid is in the blob, by the record. */
static int count_trials(const struct config *config, const struct fact_experiment *fact, bool is_large, uint32_t *out)
{
    struct search_space space = config_search_space(config);
    struct search_head head;
    struct pack_reader reader;
    uint32_t parameters = 0;
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    bool is_elsewhere = is_large && config->searcher == SEARCH_GRID && search_head_read(&reader, &head, &parameters) == 0 &&
                        parameters == 0;
    if (is_elsewhere) {
        *out = fact->trial_count;
        return 0;
    }
    int error = search_trial_count(&space, out);
    return error != 0 || (is_large && *out != fact->trial_count) ? ERR_MALFORMED : 0;
}

/* True if the row's record counts, and not the given one: two nodes have submitted one id, and the smaller writer counts. Of one
 * writer the record that every version can read counts. */
static bool is_behind(const struct view_experiment *experiment, const struct record *record, bool is_large)
{
    int order = experiment->known ? node_id_compare(experiment->submitter, record->writer) : 1;
    return order < 0 || (order == 0 && is_large && !experiment->is_large);
}

static int fold(struct view *view, const struct record *record, const struct fact_experiment *fact, bool is_large)
{
    experiment_id id;
    struct config config;
    if (fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    if (is_behind(experiment, record, is_large)) {
        return 0;
    }
    uint8_t *bytes = arena_take(view->arena, fact->config_bytes);
    struct config *kept = experiment->config != NULL ? experiment->config : arena_take(view->arena, sizeof *kept);
    if (bytes == NULL || kept == NULL) {
        arena_give(view->arena, bytes, fact->config_bytes);
        arena_give(view->arena, kept != experiment->config ? kept : NULL, sizeof *kept);
        return ERR_FULL;
    }
    experiment->config = kept; /* the row owns it, even if the bytes are refused below; read only if `known` */
    memcpy(bytes, fact->config, fact->config_bytes);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, fact->config_bytes);
    uint32_t trial_count = 0;
    if (config_unpack_form(&reader, is_large ? CONFIG_LEAN : CONFIG_PLAIN, &config) != 0 ||
        count_trials(&config, fact, is_large, &trial_count) != 0) {
        arena_give(view->arena, bytes, fact->config_bytes);
        return ERR_MALFORMED;
    }
    uint32_t extended = view_extended_count(experiment, &config, trial_count);
    if (!view_strays_settle(view, experiment, extended)) {
        arena_give(view->arena, bytes, fact->config_bytes);
        return ERR_FULL;
    }
    arena_give(view->arena, experiment->config_bytes, experiment->config_byte_count);
    *kept = config;
    experiment->config = kept;
    experiment->config_bytes = bytes;
    experiment->config_byte_count = fact->config_bytes;
    experiment->configured_count = trial_count;
    experiment->trial_count = extended;
    experiment->known = true;
    experiment->submitter = record->writer;
    experiment->submitted_s = fact->submitted_s;
    experiment->code = fact->code;
    experiment->code_bytes = fact->code_bytes;
    experiment->config_text = fact->config_text;
    experiment->is_large = is_large;
    experiment->needs_search = config_needs_search(&config);
    experiment->is_drawn = config_is_drawn(&config);
    experiment->needs_promotion = config_needs_promotion(&config);
    experiment->is_custom = config_is_custom(&config);
    experiment->search.is_stale = experiment->search.is_reconfigured = true;
    view_trials_wake(experiment);
    experiment->changed = true;
    return 0;
}

int fold_experiment(struct view *view, const struct records_entry *entry)
{
    struct fact_experiment fact;
    int error = fact_experiment_read(&entry->record, &fact);
    return error != 0 ? error : fold(view, &entry->record, &fact, false);
}

int fold_experiment_large(struct view *view, const struct records_entry *entry)
{
    struct fact_experiment fact;
    int error = fact_experiment_large_read(&entry->record, &fact);
    return error != 0 ? error : fold(view, &entry->record, &fact, true);
}

static int control_order(const void *row, const void *wanted)
{
    const struct view_control *a = row, *b = wanted;
    int order = node_id_compare(a->writer, b->writer);
    return order != 0 ? order : (int)a->is_cancel - (int)b->is_cancel;
}

int fold_control(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_control fact;
    experiment_id id;
    if (fact_control_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_control_top(experiment, NULL);
    const struct view_control wanted = {.writer = record->writer, .is_cancel = record->key_bytes > sizeof id.bytes};
    struct view_control *control = view_row(view, &experiment->controls, &wanted, sizeof wanted, control_order);
    if (control == NULL) {
        return ERR_FULL;
    }
    control->fact = fact;
    view_count_jumps(view, before, view_control_top(experiment, NULL));
    experiment->changed = true;
    return 0;
}

static int stop_order(const void *row, const void *wanted)
{
    const struct view_stop *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_stop(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_stop fact;
    experiment_id id;
    uint32_t index;
    if (fact_stop_read(record, &fact) != 0 || fact_key_read_trial(record, &id, &index) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    struct view_trial *trial = experiment != NULL ? view_trial_row(view, experiment, index) : NULL;
    if (trial == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_stop_top(trial, NULL);
    const struct view_stop wanted = {.writer = record->writer};
    struct view_stop *stop = view_row(view, &trial->stops, &wanted, sizeof wanted, stop_order);
    if (stop == NULL) {
        return ERR_FULL;
    }
    stop->fact = fact;
    view_count_jumps(view, before, view_stop_top(trial, NULL));
    experiment->changed = true;
    return 0;
}

static int search_stop_order(const void *row, const void *wanted)
{
    const struct view_search_stop *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_search_stop(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_search_stop fact;
    experiment_id id;
    uint32_t index;
    if (fact_search_stop_read(record, &fact) != 0 || fact_key_read_trial(record, &id, &index) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    struct view_trial *trial = experiment != NULL ? view_trial_row(view, experiment, index) : NULL;
    if (trial == NULL) {
        return ERR_FULL;
    }
    const struct view_search_stop wanted = {.writer = record->writer};
    struct view_search_stop *stop = view_row(view, &trial->search_stops, &wanted, sizeof wanted, search_stop_order);
    if (stop == NULL) {
        return ERR_FULL;
    }
    stop->fact = fact;
    experiment->changed = true;
    return 0;
}

static int annotation_order(const void *row, const void *wanted)
{
    const struct view_annotation *a = row, *b = wanted;
    int order = view_annotation_compare(a, b);
    return order != 0 ? order : node_id_compare(a->writer, b->writer);
}

/* The experiment has perhaps more trials now. False: the arena is full. */
static bool settle_trials(struct view *view, struct view_experiment *experiment)
{
    uint32_t count = view_extended_count(experiment, experiment->config, experiment->configured_count);
    if (count == experiment->trial_count) {
        return true;
    }
    if (!view_strays_settle(view, experiment, count)) {
        return false;
    }
    experiment->trial_count = count;
    experiment->search.is_stale = true;
    return true;
}

int fold_annotation(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_annotation fact;
    struct view_annotation wanted = {.writer = record->writer, .entry = entry};
    experiment_id id;
    if (fact_key_read_annotation(record, &id, &wanted.subject) != 0) {
        return ERR_MALFORMED;
    }
    if (wanted.subject >= FACT_SUBJECTS) {
        return 0; /* of a later version, which may note something else */
    }
    if (fact_annotation_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_annotation_top(experiment, &wanted, NULL);
    struct view_annotation *row = view_row(view, &experiment->annotations, &wanted, sizeof wanted, annotation_order);
    if (row == NULL) {
        return ERR_FULL;
    }
    row->entry = entry;
    row->lamport = wanted.subject == FACT_MAX_TRIALS ? 1 : fact.lamport; /* the number counts, whatever the clock */
    row->is_set = fact.is_set;
    view_count_jumps(view, before, view_annotation_top(experiment, &wanted, NULL));
    experiment->changed = true;
    bool counts = wanted.subject == FACT_MAX_TRIALS && experiment->known;
    return counts && !settle_trials(view, experiment) ? ERR_FULL : 0;
}

static int claim_order(const void *row, const void *wanted)
{
    const struct view_claim *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_claim(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_claim fact;
    experiment_id id;
    if (fact_claim_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_claim_top(experiment, NULL);
    const struct view_claim wanted = {.writer = record->writer};
    struct view_claim *claim = view_row(view, &experiment->claims, &wanted, sizeof wanted, claim_order);
    if (claim == NULL) {
        return ERR_FULL;
    }
    claim->fact = fact;
    claim->boot = record->version.boot;
    view_count_jumps(view, before, view_claim_top(experiment, NULL));
    experiment->search.is_stale = true;
    experiment->changed = true;
    return 0;
}

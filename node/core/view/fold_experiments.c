/* The fold of records about experiments: submission, pause and cancel, claims. */

#include "node/core/view/fold.h"

#include "base/err.h"
#include "train/search/search.h"

int fold_experiment(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_experiment fact;
    experiment_id id;
    struct config config;
    if (fact_experiment_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_experiment *experiment = view_experiment_row(view, id);
    if (experiment == NULL) {
        return ERR_FULL;
    }
    if (experiment->known && node_id_compare(experiment->submitter, record->writer) < 0) {
        return 0; /* two nodes have submitted one id: the smaller writer counts */
    }
    uint8_t *bytes = arena_take(view->arena, fact.config_bytes);
    struct config *kept = experiment->config != NULL ? experiment->config : arena_take(view->arena, sizeof *kept);
    if (bytes == NULL || kept == NULL) {
        arena_give(view->arena, bytes, fact.config_bytes);
        arena_give(view->arena, kept != experiment->config ? kept : NULL, sizeof *kept);
        return ERR_FULL;
    }
    experiment->config = kept; /* the row owns it, even if the bytes are refused below; read only if `known` */
    memcpy(bytes, fact.config, fact.config_bytes);
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, fact.config_bytes);
    uint32_t trial_count = 0;
    struct search_space space;
    if (config_unpack(&reader, &config) != 0 || (space = config_search_space(&config), false) ||
        search_trial_count(&space, &trial_count) != 0) {
        arena_give(view->arena, bytes, fact.config_bytes);
        return ERR_MALFORMED;
    }
    if (!view_strays_settle(view, experiment, trial_count)) {
        arena_give(view->arena, bytes, fact.config_bytes);
        return ERR_FULL;
    }
    arena_give(view->arena, experiment->config_bytes, experiment->config_byte_count);
    *kept = config;
    experiment->config = kept;
    experiment->config_bytes = bytes;
    experiment->config_byte_count = fact.config_bytes;
    experiment->trial_count = trial_count;
    experiment->known = true;
    experiment->submitter = record->writer;
    experiment->submitted_s = fact.submitted_s;
    experiment->code = fact.code;
    experiment->code_bytes = fact.code_bytes;
    experiment->config_text = fact.config_text;
    experiment->changed = true;
    return 0;
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
    experiment->changed = true;
    return 0;
}

/* Deleted experiments: a tombstone takes all rows of its experiment away. */

#include "base/bisect.h"
#include "base/err.h"
#include "node/core/view/fold.h"
#include "node/core/view/promotion.h"

static uint32_t tombstone_position(const struct view *view, experiment_id id)
{
    struct bisection search = bisect_all(view->tombstone_count);
    while (bisect_next(&search)) {
        bisect_answer(&search, experiment_id_compare(view->tombstones[search.middle].experiment, id) < 0);
    }
    return search.low;
}

bool view_is_deleted(const struct view *view, experiment_id id)
{
    return view_find_tombstone(view, id) != NULL;
}

const struct view_tombstone *view_find_tombstone(const struct view *view, experiment_id id)
{
    uint32_t at = tombstone_position(view, id);
    return at < view->tombstone_count && experiment_id_equal(view->tombstones[at].experiment, id)
               ? &view->tombstones[at]
               : NULL;
}

static void attempt_free(struct arena *arena, struct view_attempt *attempt)
{
    for (struct view_worker *worker = attempt->workers, *next; worker != NULL; worker = next) {
        next = worker->next;
        arena_give(arena, worker, sizeof *worker);
    }
    for (struct view_verdict *verdict = attempt->verdicts, *next; verdict != NULL; verdict = next) {
        next = verdict->next;
        arena_give(arena, verdict, sizeof *verdict);
    }
    for (struct view_death *death = attempt->deaths, *next; death != NULL; death = next) {
        next = death->next;
        arena_give(arena, death, sizeof *death);
    }
    for (struct view_group *group = attempt->groups, *next; group != NULL; group = next) {
        next = group->next;
        view_group_free(arena, group);
    }
    for (struct view_result *result = attempt->results, *next; result != NULL; result = next) {
        next = result->next;
        arena_give(arena, result, sizeof *result);
    }
    arena_give(arena, attempt->first, attempt->first_count * sizeof *attempt->first);
    arena_give(arena, attempt->point, attempt->point_count * sizeof *attempt->point);
    arena_give(arena, attempt->beginnings, attempt->beginning_count * sizeof *attempt->beginnings);
    arena_give(arena, attempt, sizeof *attempt);
}

static void manifests_free(struct arena *arena, struct view_manifest *first)
{
    for (struct view_manifest *manifest = first, *next; manifest != NULL; manifest = next) {
        next = manifest->next;
        arena_give(arena, manifest, sizeof *manifest);
    }
}

static void trial_free(struct view *view, struct view_trial *trial)
{
    struct arena *arena = view->arena;
    view_count_jumps(view, view_stop_top(trial, NULL), (struct lamport_top){0});
    for (struct view_stop *stop = trial->stops, *next; stop != NULL; stop = next) {
        next = stop->next;
        arena_give(arena, stop, sizeof *stop);
    }
    for (struct view_search_stop *stop = trial->search_stops, *next; stop != NULL; stop = next) {
        next = stop->next;
        arena_give(arena, stop, sizeof *stop);
    }
    for (struct view_search_pause *pause = trial->search_pauses, *next; pause != NULL; pause = next) {
        next = pause->next;
        arena_give(arena, pause, sizeof *pause);
    }
    for (struct view_attempt *attempt = trial->attempts, *next; attempt != NULL; attempt = next) {
        next = attempt->next;
        attempt_free(arena, attempt);
    }
    manifests_free(arena, trial->manifests);
    for (struct view_set *set = trial->sets, *next; set != NULL; set = next) {
        next = set->next;
        manifests_free(arena, set->rows);
        arena_give(arena, set, sizeof *set);
    }
    for (struct view_output *output = trial->outputs, *next; output != NULL; output = next) {
        next = output->next;
        arena_give(arena, output, sizeof *output);
    }
    arena_give(arena, trial, sizeof *trial);
}

static void annotations_free(struct view *view, struct view_experiment *experiment)
{
    const struct view_annotation *before = NULL;
    for (const struct view_annotation *row = experiment->annotations; row != NULL; before = row, row = row->next) {
        if (before == NULL || !view_annotation_same(before, row)) {
            view_count_jumps(view, view_annotation_top(experiment, row, NULL), (struct lamport_top){0});
        }
    }
    for (struct view_annotation *row = experiment->annotations, *next; row != NULL; row = next) {
        next = row->next;
        arena_give(view->arena, row, sizeof *row);
    }
}

static void experiment_free(struct view *view, struct view_experiment *experiment)
{
    struct arena *arena = view->arena;
    view_count_jumps(view, view_control_top(experiment, NULL), (struct lamport_top){0});
    view_count_jumps(view, view_claim_top(experiment, NULL), (struct lamport_top){0});
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        if (experiment->trials[i] != NULL) {
            trial_free(view, experiment->trials[i]);
        }
    }
    for (uint32_t i = 0; i < experiment->stray_count; i++) {
        trial_free(view, experiment->strays[i]);
    }
    arena_give(arena, experiment->trials, experiment->trial_slots * sizeof(void *));
    arena_give(arena, experiment->at_rest, (experiment->trial_slots + 63) / 64 * sizeof(uint64_t));
    arena_give(arena, experiment->strays, experiment->stray_slots * sizeof(void *));
    for (struct view_control *control = experiment->controls, *next; control != NULL; control = next) {
        next = control->next;
        arena_give(arena, control, sizeof *control);
    }
    for (struct view_claim *claim = experiment->claims, *next; claim != NULL; claim = next) {
        next = claim->next;
        arena_give(arena, claim, sizeof *claim);
    }
    for (struct view_log *log = experiment->search.logs, *next; log != NULL; log = next) {
        next = log->next;
        arena_give(arena, log->records, log->slots * sizeof *log->records);
        arena_give(arena, log, sizeof *log);
    }
    view_search_forget_created(arena, &experiment->search);
    arena_give(arena, experiment->search.created, experiment->search.created_slots * sizeof *experiment->search.created);
    arena_give(arena, experiment->search.segments, experiment->search.segment_slots * sizeof *experiment->search.segments);
    arena_give(arena, experiment->search.judged, experiment->search.judged_slots * sizeof *experiment->search.judged);
    arena_give(arena, experiment->search.trials, experiment->search.trial_count * sizeof *experiment->search.trials);
    arena_give(arena, experiment->search.events, experiment->search.event_slots * sizeof *experiment->search.events);
    for (struct view_searcher *row = experiment->searchers, *next; row != NULL; row = next) {
        next = row->next;
        arena_give(arena, row, sizeof *row);
    }
    view_promotion_free(view, &experiment->search);
    annotations_free(view, experiment);
    for (struct view_pin *pin = experiment->pins, *next; pin != NULL; pin = next) {
        next = pin->next;
        arena_give(arena, pin, sizeof *pin);
    }
    arena_give(arena, experiment->config, sizeof *experiment->config);
    arena_give(arena, experiment->config_bytes, experiment->config_byte_count);
    arena_give(arena, experiment, sizeof *experiment);
}

int fold_tombstone(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    experiment_id id;
    if (fact_tombstone_read(record) != 0 || fact_key_read_experiment(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    uint32_t at = tombstone_position(view, id);
    if (view_find_tombstone(view, id) != NULL) {
        struct view_tombstone *known = &view->tombstones[at];
        known->writer = node_id_compare(record->writer, known->writer) < 0 ? record->writer : known->writer;
        return 0;
    }
    if (view->tombstone_count == view->tombstone_slots) {
        uint32_t wanted = view->tombstone_slots == 0 ? 8 : view->tombstone_slots * 2;
        void *bigger = arena_grow(view->arena, view->tombstones, view->tombstone_slots * sizeof *view->tombstones,
                                  wanted * sizeof *view->tombstones);
        if (bigger == NULL) {
            return ERR_FULL;
        }
        view->tombstones = bigger;
        view->tombstone_slots = wanted;
    }
    view_deliveries_forget(view, id);
    struct view_experiment *experiment = view_experiment_take_out(view, id);
    if (experiment != NULL) {
        experiment_free(view, experiment);
    }
    memmove(view->tombstones + at + 1, view->tombstones + at, (view->tombstone_count - at) * sizeof *view->tombstones);
    view->tombstones[at] = (struct view_tombstone){id, record->writer};
    view->tombstone_count++;
    return 0;
}

/* A client that follows the metrics of a trial, or of all trials of an experiment: the series are read again and again,
 * each from where it was left; attempts that begin later are added, and those that are over are read for a last time
 * and left out. */

#include <stdlib.h>

#include "node/daemon/api/series.h"

#define FOLLOW_MS 500

/* Room for the numbers of all trials' attempts. False: no memory is left. */
static bool grow(struct query_series *series, uint32_t trials)
{
    uint32_t *bigger = trials > series->done_count ? realloc(series->done, trials * sizeof *bigger) : series->done;
    if (bigger == NULL && trials > 0) {
        return false;
    }
    for (; series->done_count < trials; series->done_count++) {
        bigger[series->done_count] = 0;
    }
    series->done = bigger;
    return true;
}

/* Adds the attempts that are not done, and notes those of them that are over, and so are read for the last time now. */
static void add_trial(struct query_series *series, const struct view_trial *trial, uint32_t *done)
{
    const struct view_attempt *highest = view_trial_highest(trial);
    if (highest == NULL || highest->id.number <= *done) {
        return;
    }
    uint32_t over = view_attempt_verdict(highest) != NULL ? highest->id.number : highest->id.number - 1;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        uint32_t from = series->source_count;
        if (a->id.number <= *done) {
            continue;
        }
        series_add_workers(series, trial, a, UINT32_MAX);
        for (; from < series->source_count; from++) {
            series->sources[from].is_last = a->id.number <= over;
        }
        if (a->generation > 1) {
            points_add(&series->starts, &a->id, a->generation, a->group_step);
        }
    }
    *done = over > *done ? over : *done;
}

/* Each source goes on where it was left. Both lists are in the same order. */
static void carry_over(struct query_series *series, const struct series_source *before, uint32_t count)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < series->source_count; i++) {
        struct series_source *source = &series->sources[i];
        uint32_t at = next;
        while (at < count && !(attempt_id_equal(&before[at].attempt, &source->attempt) &&
                               before[at].number == source->number && node_id_equal(before[at].owner, source->owner))) {
            at++;
        }
        if (at < count) {
            source->from_seq = before[at].from_seq;
            next = at + 1;
        }
    }
}

bool series_begin_pass(const struct daemon *daemon, struct query_series *series, uint64_t now_ms)
{
    const struct view_experiment *experiment = view_find_experiment(node_core_view(daemon->core), series->experiment);
    if (series->ends || experiment == NULL || !experiment->known || !grow(series, experiment->trial_slots)) {
        return false;
    }
    struct series_source *before = series->sources;
    uint32_t before_count = series->source_count;
    series->ends = view_experiment_over(experiment) || node_core_is_halted(daemon->core, experiment) ||
                   (!series->all_trials && view_trial_over(view_trial_state(experiment, series->trial)));
    series->sources = NULL;
    series->source_count = series->source_at = series->candidate_count = 0;
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        if (trial != NULL && (series->all_trials || trial->index == series->trial)) {
            add_trial(series, trial, &series->done[i]);
        }
    }
    carry_over(series, before, before_count);
    free(before);
    series->next_ms = before_count > 0 || series->is_begun ? now_ms + FOLLOW_MS : 0;
    series->is_begun = true;
    return true;
}

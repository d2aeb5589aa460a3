#include "node/core/view/retention.h"

#include "base/check.h"
#include "base/probe.h"

/* A checkpoint with a metric, and its place among all: by metric, then trial, then position in the trial's list, the newest
 * first. */
struct candidate {
    struct view_manifest *row; /* the checkpoint's first row; NULL: there is no candidate */
    double metric;
    uint32_t trial;
    uint32_t position;
};

static bool is_before(const struct view_experiment *experiment, const struct candidate *a, const struct candidate *b)
{
    if (a->metric != b->metric) {
        return experiment->config->smaller_is_better ? a->metric < b->metric : a->metric > b->metric;
    }
    return a->trial != b->trial ? a->trial < b->trial : a->position > b->position;
}

/* view_manifest_unite for rows that the caller changes: the next row is not const. */
static struct view_manifest *unite(struct view_manifest *first, struct view_manifest *out)
{
    const struct view_manifest *end = view_manifest_unite(first, out);
    struct view_manifest *row = first;
    while (row != end) {
        row = row->next;
    }
    return row;
}

static void keep(struct view_manifest *first, bool is_best)
{
    struct view_manifest united;
    struct view_manifest *end = unite(first, &united);
    for (struct view_manifest *row = first; row != end; row = row->next) {
        row->is_kept = true;
        row->is_best |= is_best;
    }
}

/* Replaces `*best` if the trial has a checkpoint that is behind `last` (a `last` without row: any checkpoint) and before
 * `*best`. */
static void find_best(const struct view_experiment *experiment, struct view_trial *trial, const struct candidate *last,
                      bool only_safe, struct candidate *best)
{
    uint32_t position = 0;
    for (struct view_manifest *row = trial->manifests, *next; row != NULL; row = next, position++) {
        struct view_manifest united;
        next = unite(row, &united);
        struct candidate candidate = {row, united.metric, trial->index, position};
        if (united.holder_count > 0 && united.has_metric && (row->is_safe || !only_safe) &&
            view_trial_continues(trial, &united.attempt) &&
            (last->row == NULL || is_before(experiment, last, &candidate)) &&
            (best->row == NULL || is_before(experiment, &candidate, best))) {
            *best = candidate;
        }
    }
}

/* The best checkpoint behind `last`, of the trial or of all trials (NULL). */
static struct candidate find_next_best(const struct view_experiment *experiment, struct view_trial *trial,
                                       const struct candidate *last, bool only_safe)
{
    struct candidate best = {NULL, 0, 0, 0};
    for (uint32_t t = 0; t < experiment->trial_slots; t++) {
        struct view_trial *looked_at = trial != NULL ? trial : experiment->trials[t];
        if (looked_at != NULL) {
            find_best(experiment, looked_at, last, only_safe, &best);
        }
        if (trial != NULL) {
            break;
        }
    }
    return best;
}

/* Marks the best `count` checkpoints of the trial, or of all trials (NULL), as kept. */
static void keep_best(struct view_experiment *experiment, struct view_trial *trial, uint32_t count)
{
    struct candidate last = {NULL, 0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        last = find_next_best(experiment, trial, &last, false);
        if (last.row == NULL) {
            return;
        }
        keep(last.row, trial == NULL);
    }
}

bool retention_trial_lives(const struct view_experiment *experiment, const struct view_trial *trial, bool is_over)
{
    if (is_over || view_population_is_parent(experiment, trial->index)) {
        return !is_over;
    }
    enum view_trial_state state = view_trial_state(experiment, trial->index);
    return state == VIEW_TRIAL_QUEUED || state == VIEW_TRIAL_RUNNING;
}

static bool is_a_beginning(const struct view_trial *trial, hash256 blob)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL && hash256_equal(a->checkpoint, blob)) {
            return !BUG(beginning_collected, "what a running attempt began with is not collected");
        }
    }
    return false;
}

static void mark_trial(struct view_experiment *experiment, struct view_trial *trial, bool is_over)
{
    for (struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        row->is_kept = false;
        row->is_best = false;
    }
    bool lives = retention_trial_lives(experiment, trial, is_over), has_newest = false, has_durable = false;
    bool is_pinned = view_experiment_pinned(experiment);
    uint32_t count = 0;
    for (struct view_manifest *row = trial->manifests, *next; row != NULL; row = next) {
        struct view_manifest united;
        next = unite(row, &united);
        if (united.holder_count == 0) {
            continue;
        }
        if (!view_trial_continues(trial, &united.attempt)) {
            /* Of other values than the trial has now: no attempt begins with it. */
            if (is_pinned || view_pins_checkpoint(experiment, trial->index, united.blob) || is_a_beginning(trial, united.blob)) {
                keep(row, false);
            }
            continue;
        }
        bool is_needed = lives && (!has_newest || (!has_durable && united.durable));
        if (is_needed && has_newest) {
            MARK(newest_durable_kept_beside_newest);
        }
        if (is_needed || is_pinned || count < experiment->config->save_trial_latest ||
            view_pins_checkpoint(experiment, trial->index, united.blob) || is_a_beginning(trial, united.blob)) {
            keep(row, false);
        }
        has_newest = true;
        has_durable |= united.durable;
        count++;
    }
    keep_best(experiment, trial, experiment->config->save_trial_best);
}

void retention_mark(struct view_experiment *experiment)
{
    CHECK(experiment->known);
    bool is_over = view_experiment_over(experiment);
    for (uint32_t t = 0; t < experiment->trial_slots; t++) {
        if (experiment->trials[t] != NULL) {
            mark_trial(experiment, experiment->trials[t], is_over);
        }
    }
    keep_best(experiment, NULL, experiment->config->save_experiment_best);
}

void retention_find_bar(struct view_experiment *experiment)
{
    CHECK(experiment->known);
    struct candidate last = {NULL, 0, 0, 0};
    uint32_t count = 0;
    while (count < experiment->config->save_experiment_best) {
        last = find_next_best(experiment, NULL, &last, true);
        if (last.row == NULL) {
            break;
        }
        count++;
    }
    experiment->bar = (struct view_bar){.is_there = last.row != NULL,
                                        .metric = last.metric,
                                        .trial = last.trial,
                                        .position = last.position};
}

/* Adds up how many safe checkpoints of the trial are newer than the candidate, and how many are better. */
static void count_safe(const struct view_experiment *experiment, const struct view_trial *trial,
                       const struct candidate *candidate, uint32_t *newer, uint32_t *better)
{
    uint32_t position = 0;
    for (const struct view_manifest *row = trial->manifests; row != NULL; position++) {
        struct view_manifest united;
        bool is_safe = row->is_safe;
        row = view_manifest_unite(row, &united);
        if (!is_safe || united.holder_count == 0 || !view_trial_continues(trial, &united.attempt)) {
            continue;
        }
        struct candidate safe = {NULL, united.metric, trial->index, position};
        *newer += position < candidate->position;
        *better += united.has_metric && is_before(experiment, &safe, candidate);
    }
}

static struct candidate candidate_of(const struct view_trial *trial, const struct view_manifest *wanted,
                                     struct view_manifest *united)
{
    struct candidate candidate = {NULL, 0, trial->index, 0};
    for (const struct view_manifest *row = trial->manifests; row != NULL; candidate.position++) {
        row = view_manifest_unite(row, united);
        if (united->step == wanted->step && attempt_id_equal(&united->attempt, &wanted->attempt) &&
            hash256_equal(united->blob, wanted->blob)) {
            break;
        }
    }
    candidate.metric = united->metric;
    return candidate;
}

/* Whether the attempt's record is here, and with it the values. */
static bool is_known(const struct view_trial *trial, const attempt_id *attempt)
{
    const struct view_attempt *row = trial->attempts;
    while (row != NULL && !attempt_id_equal(&row->id, attempt)) {
        row = row->next;
    }
    return row != NULL && row->assigned;
}

bool retention_may_go(const struct view_experiment *experiment, const struct view_trial *trial,
                      const struct view_manifest *row)
{
    CHECK(experiment->known);
    struct view_manifest united;
    const struct candidate candidate = candidate_of(trial, row, &united);
    if (row->is_kept || view_experiment_pinned(experiment) ||
        view_pins_checkpoint(experiment, trial->index, united.blob)) { /* these may be newer than the mark */
        return false;
    }
    if (!view_trial_continues(trial, &row->attempt)) {
        return is_known(trial, &row->attempt);
    }
    if (BUG(let_go_unconfirmed, "a checkpoint goes once as many newer ones as are kept are confirmed")) {
        return true;
    }
    uint32_t newer = 0, better = 0;
    count_safe(experiment, trial, &candidate, &newer, &better);
    const struct candidate bar = {NULL, experiment->bar.metric, experiment->bar.trial, experiment->bar.position};
    bool is_behind_bar = experiment->config->save_experiment_best == 0 ||
                         (experiment->bar.is_there && is_before(experiment, &bar, &candidate));
    uint32_t latest = experiment->config->save_trial_latest;
    latest = latest == 0 && retention_trial_lives(experiment, trial, view_experiment_over(experiment)) ? 1 : latest;
    return newer >= latest &&
           (!united.has_metric || (better >= experiment->config->save_trial_best && is_behind_bar));
}

/* ---- outputs ------------------------------------------------------------------------------------------------------------- */

#define DURABLE_ATTEMPTS 2 /* whose outputs are kept */

bool retention_keeps_outputs(const struct view_experiment *experiment)
{
    const struct config *config = experiment->config;
    return view_experiment_pinned(experiment) || view_pins_any(experiment) || config->save_experiment_best > 0 || config->save_trial_best > 0 || config->save_trial_latest > 0;
}

bool retention_keeps_output(const struct view_trial *trial, const struct view_output *output)
{
    uint32_t newer = 0;
    const struct view_output *counted = NULL;
    for (const struct view_output *row = trial->outputs; row != NULL && !attempt_id_equal(&row->attempt, &output->attempt);
         row = row->next) {
        if (row->fact.durable && view_trial_continues(trial, &row->attempt) && (counted == NULL || !attempt_id_equal(&counted->attempt, &row->attempt))) {
            counted = row;
            newer++;
        }
    }
    return newer < DURABLE_ATTEMPTS;
}

#include "node/core/retention.h"

/* A checkpoint with a metric, and where it stands among all: by value, trial, then as the trial's list has it. */
struct candidate {
    struct view_manifest *row; /* the first of its rows; NULL: none */
    double metric;
    uint32_t trial;
    uint32_t position;
};

static bool is_before(const struct view_experiment *experiment, const struct candidate *a, const struct candidate *b)
{
    if (a->metric != b->metric) {
        return experiment->config->smaller_is_better ? a->metric < b->metric : a->metric > b->metric;
    }
    return a->trial != b->trial ? a->trial < b->trial : a->position < b->position;
}

/* As view_manifest_unite, for rows that may be changed. */
static struct view_manifest *unite(struct view_manifest *first, struct view_manifest *out)
{
    const struct view_manifest *end = view_manifest_unite(first, out);
    struct view_manifest *row = first;
    while (row != end) {
        row = row->next;
    }
    return row;
}

static void keep(struct view_manifest *first)
{
    struct view_manifest united;
    struct view_manifest *end = unite(first, &united);
    for (struct view_manifest *row = first; row != end; row = row->next) {
        row->is_kept = true;
    }
}

/* The best of the trial behind `last` (NULL: of all), if it is before `best`. */
static void find_best(const struct view_experiment *experiment, struct view_trial *trial, const struct candidate *last,
                      struct candidate *best)
{
    uint32_t position = 0;
    for (struct view_manifest *row = trial->manifests, *next; row != NULL; row = next, position++) {
        struct view_manifest united;
        next = unite(row, &united);
        struct candidate candidate = {row, united.metric, trial->index, position};
        if (united.holder_count > 0 && united.has_metric &&
            (last == NULL || is_before(experiment, last, &candidate)) &&
            (best->row == NULL || is_before(experiment, &candidate, best))) {
            *best = candidate;
        }
    }
}

/* Keeps the best `count` of the trial, or of all trials (NULL). */
static void keep_best(struct view_experiment *experiment, struct view_trial *trial, uint32_t count)
{
    struct candidate last = {NULL, 0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        struct candidate best = {NULL, 0, 0, 0};
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            struct view_trial *looked_at = trial != NULL ? trial : experiment->trials[t];
            if (looked_at != NULL) {
                find_best(experiment, looked_at, last.row != NULL ? &last : NULL, &best);
            }
            if (trial != NULL) {
                break;
            }
        }
        if (best.row == NULL) {
            return;
        }
        keep(best.row);
        last = best;
    }
}

static bool trial_lives(const struct view_experiment *experiment, const struct view_trial *trial)
{
    enum view_trial_state state = view_trial_state(experiment, trial->index);
    return state == VIEW_TRIAL_QUEUED || state == VIEW_TRIAL_RUNNING;
}

static bool is_a_beginning(const struct view_trial *trial, hash256 blob)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL && hash256_equal(a->checkpoint, blob)) {
            return true;
        }
    }
    return false;
}

static void mark_trial(struct view_experiment *experiment, struct view_trial *trial, bool is_over)
{
    for (struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        row->is_kept = false;
    }
    bool lives = !is_over && trial_lives(experiment, trial), has_newest = false, has_durable = false;
    uint32_t count = 0;
    for (struct view_manifest *row = trial->manifests, *next; row != NULL; row = next) {
        struct view_manifest united;
        next = unite(row, &united);
        if (united.holder_count == 0) {
            continue;
        }
        bool is_needed = lives && (!has_newest || (!has_durable && united.durable));
        if (is_needed || count < experiment->config->save_trial_latest || is_a_beginning(trial, united.blob)) {
            keep(row);
        }
        has_newest = true;
        has_durable |= united.durable;
        count++;
    }
    keep_best(experiment, trial, experiment->config->save_trial_best);
}

void retention_mark(struct view_experiment *experiment)
{
    bool is_over = view_experiment_over(experiment);
    for (uint32_t t = 0; t < experiment->trial_slots; t++) {
        if (experiment->trials[t] != NULL) {
            mark_trial(experiment, experiment->trials[t], is_over);
        }
    }
    keep_best(experiment, NULL, experiment->config->save_experiment_best);
}

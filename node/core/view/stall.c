/* The effect of a suspend of this node on times in the fold: see roof/stall.c. */

#include "base/shift.h"
#include "node/core/view/view.h"

/* running_ms stays, since the worker went on while this node stood still; lived_ms is a duration. */
static void shift_view_worker(struct view_worker *worker, uint64_t gap_ms)
{
    time_shift(&worker->observed.died_ms, gap_ms);
}

static void shift_view_trial(const struct view_trial *trial, uint64_t gap_ms)
{
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        for (struct view_worker *worker = a->workers; worker != NULL; worker = worker->next) {
            shift_view_worker(worker, gap_ms);
        }
    }
}

void view_shift(struct view *view, uint64_t gap_ms)
{
    for (uint32_t e = 0; e < view->experiment_count; e++) {
        const struct view_experiment *experiment = view->experiments[e];
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            shift_view_trial(experiment->trials[i], gap_ms);
        }
        for (uint32_t i = 0; i < experiment->stray_count; i++) {
            shift_view_trial(experiment->strays[i], gap_ms);
        }
    }
}

#include "node/core/queue/queue.h"

/* The search, or the program of a search, does not let the trial begin. */
static bool is_held(const struct view_experiment *experiment, uint32_t trial)
{
    enum view_course course = view_search_course(experiment, trial);
    if (course == VIEW_ENDS || course == VIEW_IS_PAUSED) {
        return true;
    }
    return experiment->is_custom ? !view_custom_is_created(experiment, trial)
                                 : experiment->config->searcher == SEARCH_PBT && !view_population_has_parent(experiment, trial);
}

uint32_t queue_next_trial(const struct view_experiment *experiment)
{
    if (!experiment->known || view_experiment_cancelled(experiment) || view_experiment_paused(experiment)) {
        return FACT_NO_TRIAL;
    }
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_count; i = view_next_unsettled(experiment, i + 1)) {
        if (view_trial_state(experiment, i) == VIEW_TRIAL_QUEUED && !is_held(experiment, i)) {
            return i;
        }
    }
    return FACT_NO_TRIAL;
}

struct queue_entry queue_entry_of(experiment_id id, const struct view_experiment *experiment)
{
    if (experiment == NULL || !experiment->known) {
        return (struct queue_entry){.share = 1, .priority = UINT32_MAX, .age = UINT64_MAX, .experiment = id};
    }
    return (struct queue_entry){.share = 1,
                                .priority = view_experiment_priority(experiment),
                                .age = experiment->submitted_s,
                                .experiment = id};
}

/* Puts the last entry of a heap of `count` in its place; the last one in the order is at 0. */
static void sift_up(struct queue_entry *heap, uint32_t count)
{
    for (uint32_t i = count - 1; i > 0 && queue_compare(&heap[i], &heap[(i - 1) / 2]) > 0; i = (i - 1) / 2) {
        struct queue_entry moved = heap[i];
        heap[i] = heap[(i - 1) / 2];
        heap[(i - 1) / 2] = moved;
    }
}

static void sift_down(struct queue_entry *heap, uint32_t count)
{
    for (uint32_t i = 0, child; (child = 2 * i + 1) < count; i = child) {
        child += child + 1 < count && queue_compare(&heap[child + 1], &heap[child]) > 0;
        if (queue_compare(&heap[child], &heap[i]) <= 0) {
            return;
        }
        struct queue_entry moved = heap[i];
        heap[i] = heap[child];
        heap[child] = moved;
    }
}

uint32_t queue_list(const struct view *view, struct queue_entry *out, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < view->experiment_count && count < max; i++) {
        if (queue_next_trial(view->experiments[i]) != FACT_NO_TRIAL) {
            out[count++] = queue_entry_of(view->experiments[i]->id, view->experiments[i]);
            sift_up(out, count);
        }
    }
    for (uint32_t left = count; left > 1; left--) {
        struct queue_entry last = out[0];
        out[0] = out[left - 1];
        out[left - 1] = last;
        sift_down(out, left - 1);
    }
    return count;
}

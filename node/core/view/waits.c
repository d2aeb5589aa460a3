/* What keeps an experiment from its first attempt: other experiments, and the time (depends_on and start_after, DESIGN 7). */

#include "node/core/view/view.h"

/* Some attempt has been assigned. Records of attempts go only with the experiment. */
static bool has_begun(const struct view_experiment *experiment)
{
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (a->assigned) {
                return true;
            }
        }
    }
    return false;
}

static enum view_wait_cause cause_of(const struct view *view, experiment_id id)
{
    const struct view_experiment *experiment = view_find_experiment(view, id);
    if (view_is_deleted(view, id)) {
        return VIEW_WAITS_ENDED;
    }
    if (experiment == NULL || !experiment->known) {
        return VIEW_WAITS_UNFINISHED;
    }
    enum view_experiment_state state = view_experiment_state(experiment);
    return state == VIEW_COMPLETED                             ? VIEW_WAITS_NOT
           : state == VIEW_CANCELLED || state == VIEW_FAILED ? VIEW_WAITS_ENDED
                                                               : VIEW_WAITS_UNFINISHED;
}

struct view_wait view_experiment_wait(const struct view *view, const struct view_experiment *experiment, uint64_t wall_s)
{
    struct view_wait wait = {.cause = VIEW_WAITS_NOT};
    experiment_id ids[CONFIG_DEPENDS_MAX];
    if (!experiment->known || !config_needs_waits(experiment->config) || has_begun(experiment)) {
        return wait;
    }
    uint32_t count = config_dependencies(experiment->config, ids);
    bool is_waived = view_experiment_waived(experiment);
    for (uint32_t i = 0; i < count; i++) {
        enum view_wait_cause cause = cause_of(view, ids[i]);
        if (cause == VIEW_WAITS_NOT || (cause == VIEW_WAITS_ENDED && is_waived)) {
            continue;
        }
        wait.others += cause == wait.cause;
        if (wait.cause == VIEW_WAITS_NOT || cause < wait.cause) {
            wait = (struct view_wait){.cause = cause, .dependency = ids[i]};
        }
    }
    uint64_t start_s = config_start_after(experiment->config);
    if (wait.cause == VIEW_WAITS_NOT && wall_s < start_s) {
        wait = (struct view_wait){.cause = VIEW_WAITS_TIME, .start_s = start_s};
    }
    return wait;
}

/* The states of attempts, trials and experiments, as they follow from the rows. */

#include "node/core/view/view.h"

#include "base/check.h"
#include "base/probe.h"

const struct view_verdict *view_attempt_verdict(const struct view_attempt *attempt)
{
    const struct view_verdict *lowest = NULL;
    for (const struct view_verdict *verdict = attempt->verdicts; verdict != NULL; verdict = verdict->next) {
        if (lowest == NULL || verdict->reason < lowest->reason) {
            lowest = verdict;
        }
    }
    return lowest;
}

struct view_attempt *view_trial_completed(const struct view_trial *trial)
{
    for (struct view_attempt *attempt = trial->attempts; attempt != NULL; attempt = attempt->next) {
        const struct view_verdict *verdict = view_attempt_verdict(attempt);
        if (verdict != NULL && verdict->reason == FACT_COMPLETED) {
            return attempt;
        }
    }
    return NULL;
}

/* The two highest attempt numbers of different coordinators. Only attempts recorded by their own coordinator count, since
 * records of other nodes can name any attempt. */
static struct lamport_top attempt_top(const struct view_trial *trial)
{
    struct lamport_top top = {0};
    const struct view_attempt *last = NULL;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned) {
            bool is_anothers = last != NULL && !node_id_equal(last->id.coordinator, a->id.coordinator);
            top = (struct lamport_top){a->id.number, is_anothers ? last->id.number : top.second};
            last = a;
        }
    }
    return top;
}

struct view_attempt *view_trial_highest(const struct view_trial *trial)
{
    struct lamport_top top = attempt_top(trial);
    struct view_attempt *highest = NULL;
    for (struct view_attempt *attempt = trial->attempts; attempt != NULL; attempt = attempt->next) {
        if (attempt->assigned && lamport_counts(&top, attempt->id.number)) {
            highest = attempt;
        }
    }
    return highest;
}

uint32_t view_trial_next_number(const struct view_trial *trial)
{
    const struct view_attempt *highest = view_trial_highest(trial);
    uint64_t number = highest != NULL ? (uint64_t)highest->id.number + 1 : 1;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        number += a->id.number == number;
    }
    return number <= UINT32_MAX ? (uint32_t)number : 0;
}

enum view_trial_state view_trial_state(const struct view_experiment *experiment, uint32_t index)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
    if (trial != NULL && view_trial_completed(trial) != NULL) {
        return VIEW_TRIAL_COMPLETED;
    }
    bool is_running = highest != NULL && view_attempt_verdict(highest) == NULL;
    bool is_forgotten = BUG(stop_forgotten, "a trial that is stopped does not begin again") ||
                        (BUG(searched_goes_on, "a trial that its search has stopped begins no more") && view_trial_search_stop(trial) != NULL);
    if (view_trial_stopped(trial) && !is_forgotten) {
        return is_running ? VIEW_TRIAL_RUNNING : VIEW_TRIAL_STOPPED;
    }
    const struct config *config = experiment->config;
    if (trial != NULL && experiment->known &&
        (view_trial_failures(trial) > config_restarts(config) ||
         view_trial_quarantine(trial, config->retry, NULL, NULL) != VIEW_NO_QUARANTINE)) {
        return VIEW_TRIAL_FAILED;
    }
    return is_running ? VIEW_TRIAL_RUNNING : VIEW_TRIAL_QUEUED;
}

bool view_trial_over(enum view_trial_state state)
{
    return state == VIEW_TRIAL_COMPLETED || state == VIEW_TRIAL_FAILED || state == VIEW_TRIAL_STOPPED;
}

static bool is_at_rest(const struct view_experiment *experiment, const struct view_trial *trial, enum view_trial_state state)
{
    bool is_at_rest = view_trial_over(state) && trial->attempts != NULL && !view_search_awaits(experiment, trial);
    for (const struct view_attempt *a = trial->attempts; a != NULL && is_at_rest; a = a->next) {
        is_at_rest = a->verdicts != NULL;
        for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
            is_at_rest &= w->observed.died_ms == 0 || w->observed.is_judged;
        }
    }
    return is_at_rest;
}

void view_trials_settle(struct view_experiment *experiment)
{
    if (!experiment->known) {
        return;
    }
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots && i < experiment->trial_count;
         i = view_next_unsettled(experiment, i + 1)) {
        struct view_trial *trial = experiment->trials[i];
        enum view_trial_state state = trial != NULL ? view_trial_state(experiment, i) : VIEW_TRIAL_QUEUED;
        if (trial != NULL && is_at_rest(experiment, trial, state)) {
            trial->rest_state = (uint8_t)state;
            experiment->rest_counts[state]++;
            experiment->at_rest[i / 64] |= UINT64_C(1) << i % 64;
        }
    }
}

uint32_t view_next_unsettled(const struct view_experiment *experiment, uint32_t from)
{
    while (from < experiment->trial_slots) {
        uint64_t unsettled = ~experiment->at_rest[from / 64] >> from % 64;
        if (unsettled != 0) {
            return from + (uint32_t)__builtin_ctzll(unsettled);
        }
        from = (from / 64 + 1) * 64;
    }
    return from;
}

enum view_experiment_state view_experiment_state(const struct view_experiment *experiment)
{
    uint32_t completed = experiment->rest_counts[VIEW_TRIAL_COMPLETED], stopped = experiment->rest_counts[VIEW_TRIAL_STOPPED],
             failed = experiment->rest_counts[VIEW_TRIAL_FAILED], running = 0, begun = completed + stopped + failed;
    for (uint32_t i = view_next_unsettled(experiment, 0);
         experiment->known && i < experiment->trial_count && i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        if (experiment->trials[i] == NULL) {
            continue;
        }
        enum view_trial_state state = view_trial_state(experiment, i);
        completed += state == VIEW_TRIAL_COMPLETED;
        stopped += state == VIEW_TRIAL_STOPPED;
        failed += state == VIEW_TRIAL_FAILED;
        running += state == VIEW_TRIAL_RUNNING;
        begun += experiment->trials[i]->attempts != NULL;
    }
    if (experiment->known && completed == experiment->trial_count) {
        return VIEW_COMPLETED;
    }
    if (view_experiment_cancelled(experiment)) {
        return VIEW_CANCELLED;
    }
    if (experiment->known && completed + stopped + failed == experiment->trial_count) {
        return failed == experiment->trial_count ? VIEW_FAILED : VIEW_COMPLETED;
    }
    if (view_experiment_paused(experiment)) {
        return VIEW_PAUSED;
    }
    return running > 0 || begun > 0 ? VIEW_RUNNING : VIEW_QUEUED;
}

bool view_experiment_over(const struct view_experiment *experiment)
{
    enum view_experiment_state state = view_experiment_state(experiment);
    return state == VIEW_COMPLETED || state == VIEW_CANCELLED || state == VIEW_FAILED;
}

/* A program that decides in the search is told of each end, also of the last one, which ends the experiment. */
static bool has_untold_end(const struct view_experiment *experiment)
{
    const struct view_searcher *row = experiment->is_custom ? view_custom_searcher(experiment) : NULL;
    if (!experiment->is_custom || (row != NULL && row->fact.is_given_up) || view_experiment_cancelled(experiment) ||
        view_experiment_paused(experiment)) {
        return false;
    }
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots;
         i = view_next_unsettled(experiment, i + 1)) {
        if (view_custom_end_is_due(experiment, i)) {
            return true;
        }
    }
    return false;
}

bool view_experiment_live(const struct view_experiment *experiment)
{
    if (!experiment->known) {
        return false;
    }
    if (!view_experiment_over(experiment)) {
        return true;
    }
    /* A running attempt needs a verdict, whatever became of the experiment. */
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_slots; i = view_next_unsettled(experiment, i + 1)) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (a->assigned && a->verdicts == NULL) {
                return true;
            }
        }
    }
    return has_untold_end(experiment);
}

const char *view_trial_state_name(enum view_trial_state state)
{
    static const char *const names[] = {"queued", "running", "completed", "failed", "stopped"};
    CHECK(state < sizeof names / sizeof names[0]);
    return names[state];
}

const char *view_experiment_state_name(enum view_experiment_state state)
{
    static const char *const names[] = {"queued", "running", "paused", "completed", "cancelled", "failed"};
    CHECK(state < sizeof names / sizeof names[0]);
    return names[state];
}

/* Searches that promote paused trials (17, 18). What a log says next is computed anew from what stands before it, by code that shares
 * nothing with train/search. */

#include <math.h>
#include <string.h>

#include "tests/sim/checkers_inside.h"

static uint32_t bracket_of(const struct plan_experiment *plan, uint32_t trial)
{
    return plan->brackets.of[trial % plan->trials];
}

static uint32_t rungs_of(const struct plan_experiment *plan, uint32_t trial)
{
    return plan->brackets.rungs[bracket_of(plan, trial)];
}

static bool is_result(const struct fact_judged *entry)
{
    return entry->decision <= FACT_PAUSES;
}

/* A trial, by a story. */
struct climb {
    uint32_t results;
    enum { GOING, PAUSED, OVER, OVER_UNLESS_RETRIED } now;
};

static struct climb climb_of(const struct checkers_story *story, const struct plan_experiment *plan, uint32_t trial)
{
    struct climb climb = {0, GOING};
    for (uint32_t i = 0; i < story->count; i++) {
        const struct fact_judged *entry = &story->entries[i];
        if (entry->attempt.trial != trial) {
            continue;
        }
        climb.results += is_result(entry);
        climb.now = entry->decision == FACT_PAUSES                               ? PAUSED
                    : entry->decision == FACT_ENDS                               ? OVER_UNLESS_RETRIED
                    : entry->decision == FACT_GOES_ON || entry->decision == FACT_PROMOTES ? GOING
                                                                                  : OVER;
        climb.now = is_result(entry) && climb.results == rungs_of(plan, trial) ? OVER : climb.now;
    }
    return climb;
}

bool checkers_promotion_follows(const struct checkers_story *story, const struct plan_experiment *plan, const struct fact_judged *entry)
{
    if (entry->attempt.trial >= plan->trials_then) {
        return false;
    }
    struct climb climb = climb_of(story, plan, entry->attempt.trial);
    if (is_result(entry)) {
        return climb.now != OVER && entry->rung == climb.results && entry->rung < rungs_of(plan, entry->attempt.trial);
    }
    if (entry->decision == FACT_ENDS) {
        return (climb.now == GOING && entry->rung == climb.results) || (climb.now == PAUSED && entry->rung + 1 == climb.results);
    }
    return climb.now == PAUSED && entry->rung + 1 == climb.results;
}

static bool reports_at(const struct checkers_story *story, uint32_t trial, uint32_t rung)
{
    bool found = false;
    for (uint32_t i = 0; i < story->count; i++) {
        found |= is_result(&story->entries[i]) && story->entries[i].attempt.trial == trial && story->entries[i].rung == rung;
    }
    return found;
}

/* True if the trial's result is among the best n / divisor of the n entries of its bracket at the rung. `upto`: the place of the result in the story. */
static bool is_among_best(const struct checkers_story *story, const struct plan_experiment *plan, const struct fact_judged *result,
                          uint32_t upto)
{
    double n = 1, before = 0;
    for (uint32_t i = 0; i < story->count; i++) {
        const struct fact_judged *other = &story->entries[i];
        if (other->rung != result->rung || other->attempt.trial == result->attempt.trial ||
            bracket_of(plan, other->attempt.trial) != bracket_of(plan, result->attempt.trial)) {
            continue;
        }
        if (other->decision == FACT_ENDS) {
            n += !reports_at(story, other->attempt.trial, other->rung);
        } else if (is_result(other)) {
            bool is_better = plan->smaller_is_better ? other->metric < result->metric : other->metric > result->metric;
            n += 1;
            before += is_better || (other->metric == result->metric && i < upto);
        }
    }
    return before < floor(n / plan->divisor);
}

/* The pause of a trial that is to go on by the story; NULL: none. */
static const struct fact_judged *find_due(const struct checkers_story *story, const struct plan_experiment *plan)
{
    for (uint32_t i = 0; i < story->count; i++) {
        const struct fact_judged *entry = &story->entries[i];
        struct climb climb = climb_of(story, plan, entry->attempt.trial);
        if (entry->decision == FACT_PAUSES && climb.now == PAUSED && climb.results == entry->rung + 1 &&
            is_among_best(story, plan, entry, i)) {
            return entry;
        }
    }
    return NULL;
}

static enum fact_decision of_result(const struct checkers_story *story, const struct plan_experiment *plan, const struct fact_judged *entry)
{
    return isnan(entry->metric)                            ? FACT_STOPS
           : entry->rung + 1 == rungs_of(plan, entry->attempt.trial) ? FACT_TOPS_OUT
           : is_among_best(story, plan, entry, UINT32_MAX) ? FACT_GOES_ON
                                                           : FACT_PAUSES;
}

/* None of the bracket's first trials can report at the rung any more: when further ones came, a log does not say. */
static bool is_final(const struct checkers_story *story, const struct plan_experiment *plan, uint32_t bracket, uint32_t rung)
{
    bool is_final = true;
    for (uint32_t t = 0; t < plan->trials; t++) {
        struct climb climb = climb_of(story, plan, t);
        is_final &= bracket_of(plan, t) != bracket || climb.now == OVER || climb.now == OVER_UNLESS_RETRIED || climb.results > rung;
    }
    return is_final;
}

void checkers_promotion(struct sim *sim, int node, uint32_t e, const struct checkers_story *story, const struct fact_judged *entry)
{
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    uint32_t trial = entry->attempt.trial, at = 0;
    const struct fact_judged *due = entry->decision == FACT_ENDS ? NULL : find_due(story, plan);
    if (is_result(entry) && due != NULL) {
        sim_fail(sim, 17, "n%d: the log judges trial %u of experiment %u at rung %u, and does not promote trial %u at rung %u first", node,
                 trial, e, entry->rung, due->attempt.trial, due->rung);
    }
    if (is_result(entry) && entry->decision != of_result(story, plan, entry)) {
        sim_fail(sim, 17, "n%d: the log decides %d of trial %u of experiment %u at rung %u (%g), and what stands before it %d", node,
                 (int)entry->decision, trial, e, entry->rung, entry->metric, (int)of_result(story, plan, entry));
    }
    for (uint32_t i = 0; i < story->count; i++) {
        at = story->entries[i].decision == FACT_PAUSES && story->entries[i].attempt.trial == trial ? i : at;
    }
    if (entry->decision == FACT_PROMOTES) {
        checkers_met(sim, PREMISE_17_PROMOTED);
        if (!is_among_best(story, plan, &story->entries[at], at)) {
            sim_fail(sim, 17, "n%d: the log promotes trial %u of experiment %u at rung %u, where others are better", node, trial, e, entry->rung);
        }
    }
    if (entry->decision == FACT_CLOSES) {
        checkers_met(sim, PREMISE_17_CLOSED);
        if (due != NULL || !is_final(story, plan, bracket_of(plan, trial), entry->rung)) {
            sim_fail(sim, 17, "n%d: the log closes trial %u of experiment %u at rung %u, where others may still report", node, trial, e,
                     entry->rung);
        }
    }
}

/* True if the attempt is the one that the pause names, or stands before it. */
static bool is_named(const struct fact_search_pause *pause, const attempt_id *attempt)
{
    int order = memcmp(attempt->coordinator.bytes, pause->coordinator.bytes, sizeof pause->coordinator.bytes);
    return attempt->number != pause->number ? attempt->number < pause->number
           : attempt->term != pause->term   ? attempt->term < pause->term
                                            : order <= 0;
}

void checkers_on_asked(struct sim *sim, int node, const attempt_id *attempt, const char *reason)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, attempt->experiment);
    const struct view_trial *trial = seen != NULL ? view_find_trial(seen, attempt->trial) : NULL;
    if (strcmp(reason, "pause") != 0 || seen == NULL || view_experiment_paused(seen)) {
        return;
    }
    for (const struct view_search_pause *pause = trial != NULL ? trial->search_pauses : NULL; pause != NULL; pause = pause->next) {
        if (is_named(&pause->fact, attempt)) {
            return;
        }
    }
    sim_fail(sim, 18, "n%d asks attempt %u of trial %u to leave, and no pause names it", node, attempt->number, attempt->trial);
}

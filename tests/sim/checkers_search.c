/* Searches that stop trials early (16 to 19; plans from version 15 on). What the coordinators have decided is computed anew from the logs
 * alone, by code that shares nothing with train/search. */

#include <math.h>

#include "base/err.h"
#include "tests/sim/checkers_inside.h"

#define ENTRIES_MAX (PLAN_TRIALS_MAX * PLAN_RUNGS_MAX)
#define LOGS_MAX 512

/* The decisions of a log, with what it has adopted, in its order. */
struct story {
    uint32_t count;
    struct fact_judged entries[ENTRIES_MAX];
    uint32_t taken_count; /* how far each log is in it */
    struct {
        node_id writer;
        struct fact_log_name name;
        uint32_t until;
    } taken[LOGS_MAX];
};

static const struct records_entry *find_record(const struct sim *sim, int node, experiment_id experiment, node_id writer,
                                               struct fact_log_name name, uint32_t number)
{
    struct fact_key key = fact_key_search_log(experiment, name, number);
    return records_find(&sim->nodes[node].core->records, record_ident_of(writer, FACT_SEARCH_LOG, key.bytes, key.count));
}

static uint32_t rungs_told(const struct story *story, uint32_t trial)
{
    uint32_t rungs = 0;
    for (uint32_t i = 0; i < story->count; i++) {
        rungs += story->entries[i].attempt.trial == trial;
    }
    return rungs;
}

static uint32_t *taken_until(struct sim *sim, struct story *story, node_id writer, struct fact_log_name name)
{
    uint32_t i = 0;
    while (i < story->taken_count && (!node_id_equal(story->taken[i].writer, writer) ||
                                      memcmp(story->taken[i].name.bytes, name.bytes, sizeof name.bytes) != 0)) {
        i++;
    }
    if (i == story->taken_count) {
        if (story->taken_count == LOGS_MAX) {
            sim_fail(sim, 15, "an experiment has more than %d logs", LOGS_MAX);
            return &story->taken[0].until;
        }
        story->taken[i].writer = writer;
        story->taken[i].name = name;
        story->taken[i].until = 0;
        story->taken_count++;
    }
    return &story->taken[i].until;
}

/* Further trials take the brackets of the first ones in the same turn. */
static uint32_t bracket_of(const struct plan_experiment *plan, uint32_t trial)
{
    return plan->brackets.of[trial % plan->trials];
}

/* What the rule says of an entry behind those that stand before it: of n of its bracket at the rung the best n / divisor go on, and at
 * least one. */
static enum fact_decision expected(const struct plan_experiment *plan, const struct story *story, const struct fact_judged *judged)
{
    double n = 1, better = 0;
    const uint32_t bracket = bracket_of(plan, judged->attempt.trial);
    for (uint32_t i = 0; i < story->count; i++) {
        const struct fact_judged *other = &story->entries[i];
        if (other->rung == judged->rung && bracket_of(plan, other->attempt.trial) == bracket) {
            n += 1;
            better += plan->smaller_is_better ? other->metric < judged->metric : other->metric > judged->metric;
        }
    }
    double best = floor(n / plan->divisor) > 1 ? floor(n / plan->divisor) : 1;
    return isnan(judged->metric)                               ? FACT_STOPS
           : judged->rung + 1 == plan->brackets.rungs[bracket] ? FACT_TOPS_OUT
           : better < best                                     ? FACT_GOES_ON
                                                               : FACT_STOPS;
}

/* Tells the story of one log as far as the node has it, and compares the log's own decisions with the rule. */
static void check_log(struct sim *sim, int node, uint32_t e, const struct view_log *log)
{
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    static struct story story;
    static struct fact_search_log fact, other;
    story.count = story.taken_count = 0;
    for (uint32_t number = 0;; number++) {
        const struct records_entry *entry = find_record(sim, node, plan->id, log->writer, log->name, number);
        if (entry == NULL || fact_search_log_read(&entry->record, &fact) != 0) {
            return;
        }
        for (uint32_t i = 0; i < fact.adopted_count; i++) {
            uint32_t *until = taken_until(sim, &story, fact.adopted[i].writer, fact.adopted[i].log);
            for (; *until < fact.adopted[i].until; ++*until) {
                entry = find_record(sim, node, plan->id, fact.adopted[i].writer, fact.adopted[i].log, *until);
                if (entry == NULL || fact_search_log_read(&entry->record, &other) != 0) {
                    return; /* the rest of the story is not known here */
                }
                for (uint32_t k = 0; k < other.judged_count; k++) {
                    if (other.judged[k].rung == rungs_told(&story, other.judged[k].attempt.trial)) {
                        story.entries[story.count++] = other.judged[k];
                    }
                }
            }
        }
        for (uint32_t i = 0; i < fact.judged_count; i++) {
            const struct fact_judged *judged = &fact.judged[i];
            if (judged->attempt.trial >= plan->trials_then ||
                judged->rung >= plan->brackets.rungs[bracket_of(plan, judged->attempt.trial)] ||
                judged->rung != rungs_told(&story, judged->attempt.trial)) {
                sim_fail(sim, 16, "n%d: trial %u of experiment %u is judged at rung %u, and rung %u is its next in that log", node,
                         judged->attempt.trial, e, judged->rung, rungs_told(&story, judged->attempt.trial));
                return;
            }
            checkers_met(sim, PREMISE_17_JUDGED);
            if (judged->attempt.trial >= plan->trials) {
                checkers_met(sim, PREMISE_17_ADDED);
            }
            if (story.taken_count > 0) {
                checkers_met(sim, PREMISE_17_ADOPTED);
            }
            if (judged->decision != expected(plan, &story, judged)) {
                sim_fail(sim, 17, "n%d: the log decides %d of trial %u of experiment %u at rung %u (%g), and what stands before it %d",
                         node, (int)judged->decision, judged->attempt.trial, e, judged->rung, judged->metric,
                         (int)expected(plan, &story, judged));
            }
            story.entries[story.count++] = *judged;
        }
    }
}

/* A stop says which decision it follows from. */
static void check_stop(struct sim *sim, int node, uint32_t e, uint32_t trial, const struct fact_search_stop *stop)
{
    static struct fact_search_log fact;
    experiment_id id = sim->plan.experiments[e].id;
    const struct records_entry *entry = find_record(sim, node, id, stop->writer, stop->log, stop->record);
    if (entry == NULL || fact_search_log_read(&entry->record, &fact) != 0) {
        return;
    }
    bool found = false;
    for (uint32_t i = 0; i < fact.judged_count; i++) {
        found |= fact.judged[i].attempt.trial == trial && fact.judged[i].rung == stop->rung &&
                 fact.judged[i].decision == (stop->is_top ? FACT_TOPS_OUT : FACT_STOPS);
    }
    checkers_met(sim, PREMISE_18_STOPPED_BY_SEARCH);
    if (!found) {
        sim_fail(sim, 18, "n%d takes trial %u of experiment %u for stopped by its search, whose log does not say so", node, trial, e);
    }
}

static bool is_retried(const struct plan_experiment *plan)
{
    uint64_t retries_ms = 0;
    for (uint32_t t = 0; t < plan->trials; t++) {
        retries_ms |= plan->retry_ms[t];
    }
    return retries_ms != 0;
}

/* A trial begins only while its bracket has a place. What has begun goes on whatever is full: so not where trials are retried or more are added, nor beside
 * trials that ran where nobody saw it. */
void checkers_on_place(struct sim *sim, int node, const attempt_id *attempt)
{
    int e = checkers_experiment(sim, attempt->experiment);
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, attempt->experiment);
    if (plan->rungs == 0 || plan->extend_ms != 0 || attempt->number > 1 || !plan_is_quiet(&sim->plan) || is_retried(plan)) {
        return;
    }
    uint32_t bracket = plan->brackets.of[attempt->trial], training = 0;
    for (uint32_t t = 0; t < plan->trials; t++) {
        const struct view_trial *trial = view_find_trial(seen, t);
        const struct view_attempt *highest = trial != NULL ? view_trial_highest(trial) : NULL;
        bool is_other = t != attempt->trial && plan->brackets.of[t] == bracket;
        training += is_other && highest != NULL && view_attempt_verdict(highest) == NULL;
    }
    if (training + 1 == plan->brackets.places[bracket]) {
        checkers_met(sim, PREMISE_19_BRACKET_FULL);
    }
    if (training >= plan->brackets.places[bracket]) {
        sim_fail(sim, 19, "n%d begins trial %u of experiment %d beside %u others of its bracket, which has %u places", node, attempt->trial, e,
                 training, plan->brackets.places[bracket]);
    }
}

void checkers_search(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct view_experiment *seen =
            view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
        for (const struct view_log *log = seen != NULL ? seen->search.logs : NULL; log != NULL; log = log->next) {
            check_log(sim, node, e, log);
        }
        for (uint32_t t = 0; seen != NULL && t < sim->plan.experiments[e].trials_then; t++) {
            const struct view_search_stop *stop = view_trial_search_stop(view_find_trial(seen, t));
            if (stop != NULL) {
                check_stop(sim, node, e, t, &stop->fact);
            }
        }
    }
}

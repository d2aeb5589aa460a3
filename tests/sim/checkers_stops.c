/* Single trials that people stop and retry (3, 8, 10; plans of versions 13 and 14): such a trial never begins where its stop is known,
 * what runs of it is asked to leave, and no value of its register is forgotten or made up. */

#include <string.h>

#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

/* A record of the trial's register with this clock or a higher one. */
static bool disk_holds(struct sim *sim, int node, uint32_t experiment, uint32_t trial, uint64_t lamport)
{
    struct fact_key key = fact_key_trial(sim->plan.experiments[experiment].id, trial);
    for (uint32_t i = 0; i < 2 * sim->machines; i++) {
        const struct sim_node *writer = &sim->nodes[i / 2];
        record_ident ident = record_ident_of(i % 2 == 0 ? writer->id : writer->was, FACT_STOP, key.bytes, key.count);
        const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, ident);
        struct record record;
        struct fact_stop fact;
        if (entry != NULL && entry->is_stored && record_decode(entry->bytes, entry->byte_count, &record) == 0 &&
            fact_stop_read(&record, &fact) == 0 && fact.lamport >= lamport) {
            return true;
        }
    }
    return false;
}

static bool is_deleted(const struct sim *sim, int node, uint32_t experiment)
{
    return view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
}

static struct fact_stop known_at(const struct sim *sim, int node, uint32_t experiment, uint32_t trial)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return view_trial_stop(seen != NULL ? view_find_trial(seen, trial) : NULL);
}

/* A node on another disk, or beside a daemon with its key, may replace its own record with one of a lower clock: it does not know
 * what it wrote before. That is its user's latest word all the same. */
static bool clocks_may_fall(const struct sim *sim)
{
    bool may = sim->plan.has[FAULT_CLONE];
    for (int node = 0; node < (int)sim->machines; node++) {
        may |= sim->checkers->forgot_ms[node] != 0;
    }
    return may;
}

/* The search of its experiment has stopped the trial (checkers_search.c). */
static bool is_searched(const struct sim *sim, int node, uint32_t experiment, uint32_t trial)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL && view_trial_search_stop(view_find_trial(seen, trial)) != NULL;
}

/* ---- 3 ----------------------------------------------------------------------------------------------------------- */

void checkers_on_stop(struct sim *sim, int node, uint32_t experiment, uint32_t trial, struct users_stop *stop)
{
    struct users_promise *promise = &stop->promise;
    if (checkers_disks_with(sim, experiment, FACT_TOMBSTONE) != 0 || is_deleted(sim, node, experiment)) {
        promise->is_acknowledged = false; /* the tombstone speaks for it */
        return;
    }
    stop->lamport = clocks_may_fall(sim) ? 1 : stop->lamport;
    for (int other = 0; other < (int)sim->machines; other++) {
        promise->disks |= disk_holds(sim, other, experiment, trial, stop->lamport) ? 1u << other : 0;
    }
    if (promise->stored_on >= 2) {
        checkers_met(sim, stop->stops ? PREMISE_3_STOP_ON_TWO : PREMISE_3_RETRY_ON_TWO);
    }
    uint32_t disks = (uint32_t)__builtin_popcount(promise->disks);
    if (promise->stored_on < 1 || disks + checkers_disks_lost_since(sim, promise) < promise->stored_on) {
        sim_fail(sim, 3, "n%d says that the %s of trial %u of experiment %u is stored on %u nodes; it is on %u disks", node,
                 stop->stops ? "stop" : "retry", trial, experiment, promise->stored_on, disks);
    }
}

void checkers_stops_lost(struct sim *sim, int node, uint32_t experiment)
{
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        struct users_stop *stop = &sim->users->experiments[experiment].stopped[t];
        stop->promise.disks &= disk_holds(sim, node, experiment, t, stop->lamport) ? UINT32_MAX : ~(1u << node);
    }
}

void checkers_stops_kept(struct sim *sim, int node, uint32_t experiment)
{
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        const struct users_stop *stop = &sim->users->experiments[experiment].stopped[t];
        const struct users_promise *promise = &stop->promise;
        bool is_due = promise->is_acknowledged && (promise->disks & sim->plan.core) != 0 && !is_deleted(sim, node, experiment);
        const struct fact_stop known = known_at(sim, node, experiment, t);
        bool is_older = known.lamport < stop->lamport && !clocks_may_fall(sim);
        bool is_undone = stop->stops && !known.stopped && (known.lamport == 0 || known.lamport == stop->lamport) && !clocks_may_fall(sim);
        bool is_forgotten = known.lamport == 0 || (stop->stops && !known.stopped && sim->plan.experiments[experiment].retry_ms[t] == 0);
        if (is_due && (is_older || is_undone || is_forgotten)) {
            sim_fail(sim, 3, "n%d does not know of the %s of trial %u of experiment %u, acknowledged as stored on %u nodes", node,
                     stop->stops ? "stop" : "retry", t, experiment, promise->stored_on);
        }
    }
}

/* ---- 8 ----------------------------------------------------------------------------------------------------------- */

/* What has failed since the retry is for the policy to say (checkers_policy.c); here something has. */
static void check_failed_since(struct sim *sim, int node, uint32_t e, uint32_t t)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
    const struct view_trial *trial = seen != NULL && seen->known ? view_find_trial(seen, t) : NULL;
    uint64_t retried = view_trial_retried(trial);
    if (retried == 0 || view_trial_state(seen, t) != VIEW_TRIAL_FAILED) {
        return;
    }
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->retried >= retried && a->verdicts != NULL) {
            return;
        }
    }
    sim_fail(sim, 8, "n%d shows trial %u of experiment %u as failed, and no attempt of it has ended since its retry", node, t, e);
}

/* ---- 10 ---------------------------------------------------------------------------------------------------------- */

static bool is_asked(const struct sim *sim, uint64_t at_ms)
{
    return at_ms != 0 && sim->now_ms >= at_ms;
}

static void watch_trial(struct sim *sim, int node, uint32_t e, uint32_t t)
{
    struct fact_stop *before = &sim->checkers->watch.stops[node][e][t];
    const struct fact_stop now = known_at(sim, node, e, t);
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    bool is_retried = now.lamport != 0 && !now.stopped;
    if ((now.stopped && !is_asked(sim, plan->stop_ms[t])) || (is_retried && !is_asked(sim, plan->retry_ms[t]))) {
        sim_fail(sim, 10, "n%d takes trial %u of experiment %u for %s, and nobody has asked for that", node, t, e,
                 is_retried ? "retried" : "stopped");
    }
    if (before->stopped) {
        checkers_met(sim, PREMISE_10_STOP_KNOWN);
    }
    if (before->stopped && is_retried && now.lamport > before->lamport) {
        checkers_met(sim, PREMISE_10_STOP_UNDONE);
    }
    bool is_older = now.lamport < before->lamport || (now.lamport == before->lamport && before->stopped && !now.stopped);
    if (is_older && !clocks_may_fall(sim)) {
        sim_fail(sim, 10, "n%d has forgotten that trial %u of experiment %u was %s", node, t, e, before->stopped ? "stopped" : "retried");
    }
    bool *was_searched = &sim->checkers->watch.searched[node][e][t];
    if (*was_searched && !is_searched(sim, node, e, t) && now.lamport == 0) { /* else a user's word has come in its place */
        sim_fail(sim, 10, "n%d has forgotten that the search of experiment %u has stopped trial %u", node, e, t);
    }
    *was_searched = is_searched(sim, node, e, t);
    if (before->stopped && !now.stopped && plan->retry_ms[t] == 0) {
        sim_fail(sim, 10, "n%d has forgotten that trial %u of experiment %u was stopped", node, t, e);
    }
    *before = now;
    check_failed_since(sim, node, e, t);
}

void checkers_stops(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        for (uint32_t t = 0; t < PLAN_TRIALS_MAX && !is_deleted(sim, node, e); t++) {
            watch_trial(sim, node, e, t);
        }
    }
}

void checkers_begins_stopped(struct sim *sim, int node, const attempt_id *attempt, const char *what)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, attempt->experiment);
    if (seen != NULL && view_trial_stopped(view_find_trial(seen, attempt->trial))) {
        sim_fail(sim, 10, "n%d %s attempt %u of trial %u though it knows that the trial is stopped", node, what, attempt->number,
                 attempt->trial);
    }
}

/* ---- 11 ---------------------------------------------------------------------------------------------------------- */

bool checkers_is_before_retry(const struct view_trial *trial, const struct view_manifest *row)
{
    uint64_t retried = view_trial_retried(trial);
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (attempt_id_equal(&a->id, &row->attempt)) {
            return a->retried < retried;
        }
    }
    return retried != 0;
}

/* Invariants 4 and 8: results stay and spread, and experiments are finished. */

#include "node/core/members/quarantine.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

void checkers_learn_result(struct sim *sim, int node, const struct record *record)
{
    struct fact_verdict fact;
    attempt_id attempt;
    if (fact_verdict_read(record, &fact) != 0 || fact_key_read_attempt(record, &attempt) != 0 ||
        fact.reason != FACT_COMPLETED) {
        return;
    }
    int experiment = checkers_experiment(sim, attempt.experiment);
    if (experiment >= 0 && attempt.trial < PLAN_TRIALS_MAX) {
        sim->checkers->results[node][experiment] |= 1u << attempt.trial;
    }
}

static void trace_group(struct sim *sim, int node, const struct view_attempt *attempt)
{
    for (uint32_t rank = 0; attempt->verdicts == NULL && rank < attempt->member_count + attempt->joiner_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        static const char *const states[] = {"prepared", "runs", "has ended"};
        SIM_TRACE(sim, node, "    generation %u%s, %s %u on n%d/%u: %s%s, in generation %u", attempt->generation,
                  attempt->is_leaving ? " (to be left)" : "", rank < attempt->member_count ? "rank" : "joiner", rank,
                  sim_find_node(sim, attempt->members[rank].node), attempt->members[rank].slot,
                  worker != NULL ? states[worker->state] : "unheard of", worker != NULL && worker->waits ? ", waits" : "",
                  worker != NULL ? worker->generation : 0);
    }
}

/* For whoever reads the trace: what the node believes of the experiment's trials and of all slots. */
static void trace_beliefs(struct sim *sim, int node, const struct view_experiment *experiment)
{
    const struct view *view = &sim->nodes[node].core->view;
    for (uint32_t i = 0; i < experiment->trial_count; i++) {
        const struct view_trial *trial = view_find_trial(experiment, i);
        SIM_TRACE(sim, node, "trial %u is %s", i, view_trial_state_name(view_trial_state(experiment, i)));
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            const struct view_verdict *verdict = view_attempt_verdict(a);
            SIM_TRACE(sim, node, "  attempt %u term %llu of n%d, %sassigned: %s", a->id.number,
                      (unsigned long long)a->id.term, sim_find_node(sim, a->id.coordinator), a->assigned ? "" : "not ",
                      verdict != NULL ? fact_reason_name(verdict->reason) : "no verdict");
            trace_group(sim, node, a);
        }
    }
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        for (uint32_t slot = 0; member->slots != NULL && slot < member->slot_count; slot++) {
            const struct view_slot *held = &member->slots[slot];
            SIM_TRACE(sim, node, "%s slot %u: state %u, experiment %d trial %u attempt %u", member->name, slot,
                      held->state, checkers_experiment(sim, held->attempt.experiment), held->attempt.trial,
                      held->attempt.number);
        }
    }
}

void checkers_results_hold(struct sim *sim, int node, const uint32_t wanted[PLAN_EXPERIMENTS_MAX], const char *why)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        if (wanted[e] == 0 || view_is_deleted(&core->view, sim->plan.experiments[e].id)) {
            continue;
        }
        const struct view_experiment *experiment = view_find_experiment(&core->view, sim->plan.experiments[e].id);
        for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
            if ((wanted[e] >> t & 1) == 0) {
                continue;
            }
            checkers_met(sim, PREMISE_4_RESULT_KEPT);
            if (experiment == NULL || view_trial_state(experiment, t) != VIEW_TRIAL_COMPLETED) {
                if (experiment != NULL) {
                    trace_beliefs(sim, node, experiment);
                }
                sim_fail(sim, 4, "n%d does not show trial %u of experiment %u as completed: %s", node, t, e, why);
            }
        }
    }
}

/* How a worker ended is said once: whoever has heard it has acted on it. */
void checkers_on_worker(struct sim *sim, int node, const struct record *record)
{
    const struct disk_entry *entry = disk_find(
        &sim->nodes[node].disk, record_ident_of(record->writer, record->kind, record->key, record->key_bytes));
    struct record before;
    struct fact_worker fact;
    if (entry != NULL && entry->is_stored && record_version_compare(entry->version, entry->seen) == 0 &&
        record_decode(entry->bytes, entry->byte_count, &before) == 0 && fact_worker_read(&before, &fact) == 0 &&
        fact.state == FACT_WORKER_ENDED) {
        if (!sim->nodes[node].is_twin) { /* its twin may have said it, of another worker */
            sim_fail(sim, 4, "n%d says again what became of a worker, though its end is on its disk", node);
        }
    }
}

void checkers_on_heal(struct sim *sim)
{
    int random = (int)random_below(&sim->random[STREAM_CHECKS], sim->plan.node_count);
    if (sim->nodes[random].core != NULL) {
        checkers_fold(sim, random);
    }
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        uint32_t any = 0, all = UINT32_MAX;
        sim->checkers->was_live[e] = true;
        for (int node = 0; node < (int)sim->plan.node_count; node++) {
            if (!checkers_in_core(sim, node) || sim->nodes[node].core == NULL) {
                continue;
            }
            any |= sim->checkers->results[node][e];
            all &= sim->checkers->results[node][e];
            const struct view_experiment *seen =
                view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[e].id);
            if (seen != NULL && seen->known && !view_experiment_live(seen)) {
                sim->checkers->was_live[e] = false;
            }
        }
        if ((any & ~all) != 0) {
            checkers_met(sim, PREMISE_4_RESULT_SPREAD);
        }
    }
}

/* An experiment that asked for it starts nothing on a side with less than half of the roster, at half on the side
 * without the lowest id; also when the others are not cut off but gone for ever. */
static bool waits_for_majority(const struct sim *sim, const struct plan_experiment *experiment)
{
    bool has_more = twins_machine(sim) >= 0; /* one more is on the roster, perhaps */
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        has_more |= !node_id_is_none(sim->nodes[node].was); /* its old key too, where who evicted it is on an old disk */
    }
    int lowest = 0;
    for (int node = 1; node < (int)sim->plan.node_count; node++) {
        lowest = node_id_compare(sim->nodes[node].id, sim->nodes[lowest].id) < 0 ? node : lowest;
    }
    uint32_t alive = (uint32_t)__builtin_popcount(sim->plan.core);
    return experiment->pauses_minority &&
           (has_more || alive * 2 < sim->plan.node_count || (alive * 2 == sim->plan.node_count && !checkers_in_core(sim, lowest)));
}

/* It is not over, and has failed, or its host died, on a node that lives. */
static bool is_choosy(const struct sim *sim, const struct view_trial *trial)
{
    bool avoids = false;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        avoids |= trial != NULL && checkers_in_core(sim, node) && core_quarantine_avoids(trial, sim->nodes[node].id);
    }
    return avoids && view_trial_completed(trial) == NULL;
}

bool checkers_has_choosy_trials(const struct sim *sim)
{
    bool has_one = false;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct node_core *core = checkers_in_core(sim, node) ? sim->nodes[node].core : NULL;
        for (uint32_t e = 0; e < sim->plan.experiment_count && core != NULL; e++) {
            const struct view_experiment *seen = view_find_experiment(&core->view, sim->plan.experiments[e].id);
            bool is_left = seen != NULL && seen->known && view_experiment_live(seen);
            for (uint32_t t = 0; is_left && t < seen->trial_slots; t++) {
                has_one |= is_choosy(sim, seen->trials[t]);
            }
        }
    }
    return has_one;
}

void checkers_finished(struct sim *sim, int node, uint32_t e)
{
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, plan->id);
    const struct sim_blob *code = blobs_find(sim, plan->code);
    if (!sim->users->experiments[e].submitted.is_acknowledged) {
        sim_fail(sim, 8, "nobody ever took experiment %u", e);
        return;
    }
    bool is_runnable = code != NULL && (code->holders & sim->plan.core) != 0 && seen != NULL && seen->known;
    if (!is_runnable || waits_for_majority(sim, plan) || !plan_fits(&sim->plan, plan)) {
        return; /* lost with those who alone had it: 3 says how many there had to be */
    }
    if (sim->checkers->was_live[e]) {
        checkers_met(sim, PREMISE_8_FINISHED);
        if (__builtin_popcount(sim->plan.core) == 1) {
            checkers_met(sim, PREMISE_8_ALONE);
        }
    }
    enum view_experiment_state state = view_experiment_state(seen);
    if (view_experiment_live(seen)) {
        SIM_TRACE(sim, node, "code of experiment %u is on %x", e, code->holders);
        trace_beliefs(sim, node, seen);
        sim_fail(sim, 8, "on n%d experiment %u is still %s, %llu s after the heal", node, e,
                 view_experiment_state_name(state), (unsigned long long)((sim->now_ms - sim->healed_ms) / 1000));
        return;
    }
    /* With a program that ends because another rank did, and a network that hides why, the coordinator can only guess.
     */
    bool had_reason = plan->fails_fast && plan_hides_ends(&sim->plan);
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        const struct trial *trial = &sim->checkers->trials[e][t];
        had_reason |=
            trial->failure_count > plan->max_restarts || __builtin_popcount(trial->failed_on) >= VIEW_QUARANTINE_NODES;
        const struct view_trial *known = view_find_trial(seen, t);
        had_reason |= known != NULL && view_trial_quarantine(known, CONFIG_RETRY_ANY, NULL, NULL) == VIEW_QUARANTINE_DEATHS &&
                      plan_isolates(&sim->plan); /* machines died, or nobody could tell that they had not */
    }
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX && sim->plan.version > 11; t++) {
        const struct view_trial *known = view_find_trial(seen, t);
        had_reason |= known != NULL && view_trial_quarantine(known, seen->config->retry, NULL, NULL) == VIEW_QUARANTINE_SAME;
    }
    if (state == VIEW_FAILED && !had_reason) {
        sim_fail(sim, 8,
                 "on n%d experiment %u failed, though no trial's program failed more than %u times or on three nodes, "
                 "and no machine died under one",
                 node, e, plan->max_restarts);
    }
}

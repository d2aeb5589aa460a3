/* What people asked for is what is done (4, 10, 13): a trial is completed when its program has made all its steps; nothing is
 * cancelled, paused or deleted that nobody asked for; a slot that its owner withholds is empty soon, and a drained node gives
 * none. */

#include <string.h>

#include "node/core/members/members.h"
#include "node/core/owner/owner.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/owners.h"

#define GRACE_S 60          /* of an experiment that the node does not know of; none has more */
#define EMPTY_LATE_MS 10000 /* after all graces: timers, clocks that drift */

/* ---- 4 ----------------------------------------------------------------------------------------------------------- */

static struct trial *find_trial(struct sim *sim, const attempt_id *attempt, uint32_t *index)
{
    int experiment = checkers_experiment(sim, attempt->experiment);
    if (experiment < 0 || attempt->trial >= PLAN_TRIALS_MAX) {
        return NULL;
    }
    struct trial *trial = &sim->checkers->trials[experiment][attempt->trial];
    for (*index = 0; *index < trial->attempt_count; (*index)++) {
        if (attempt_id_equal(&trial->attempts[*index], attempt)) {
            break;
        }
    }
    return trial;
}

void checkers_on_program_done(struct sim *sim, const attempt_id *attempt)
{
    uint32_t i;
    struct trial *trial = find_trial(sim, attempt, &i);
    if (trial != NULL && i < trial->attempt_count) {
        trial->is_done[i] = true;
    }
}

bool checkers_program_is_done(struct sim *sim, const attempt_id *attempt)
{
    uint32_t i;
    const struct trial *trial = find_trial(sim, attempt, &i);
    return trial != NULL && (i == ATTEMPTS_MAX || (i < trial->attempt_count && trial->is_done[i])); /* or nobody has counted */
}

void checkers_completed(struct sim *sim, int node, const attempt_id *attempt)
{
    uint32_t i;
    const struct trial *trial = find_trial(sim, attempt, &i);
    if (trial == NULL || trial->attempt_count == ATTEMPTS_MAX) {
        return;
    }
    checkers_met(sim, PREMISE_4_COMPLETED);
    if (i == trial->attempt_count || !trial->is_done[i]) {
        sim_fail(sim, 4, "n%d calls attempt %u of trial %u completed, whose program has not made all its steps", node,
                 attempt->number, attempt->trial);
    }
}

/* ---- 10 ---------------------------------------------------------------------------------------------------------- */

static bool is_asked(const struct sim *sim, uint64_t at_ms)
{
    return at_ms != 0 && sim->now_ms >= at_ms;
}

void checkers_unasked(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct plan_experiment *plan = &sim->plan.experiments[e];
        const struct view_experiment *seen = view_find_experiment(&core->view, plan->id);
        bool is_deleted = view_is_deleted(&core->view, plan->id);
        bool is_ended = seen != NULL && view_experiment_cancelled(seen);
        bool is_paused = seen != NULL && view_experiment_paused(seen);
        bool may_be_gone = is_asked(sim, plan->delete_ms), may_end = may_be_gone || is_asked(sim, plan->cancel_ms);
        bool may_pause = is_asked(sim, plan->pause_ms);
        if (seen != NULL && !may_end && !may_pause) {
            checkers_met(sim, PREMISE_10_UNASKED);
        }
        if ((is_deleted && !may_be_gone) || (is_ended && !may_end) || (is_paused && !may_pause)) {
            sim_fail(sim, 10, "n%d takes experiment %u for %s, and nobody has asked for that", node, e,
                     is_deleted && !may_be_gone ? "deleted"
                     : is_ended && !may_end     ? "cancelled"
                                                : "paused");
        }
    }
}

/* ---- 13: owners -------------------------------------------------------------------------------------------------- */

void checkers_on_owner_asks(struct sim *sim, const struct owners_request *request)
{
    struct wishes *wishes = &sim->checkers->wishes;
    bool is_of_slots = request->kind == NODE_REQUEST_WITHHOLD || request->kind == NODE_REQUEST_RETURN;
    for (uint32_t slot = 0; is_of_slots && slot < PLAN_SLOTS_MAX; slot++) {
        if (request->slots == 0 || (request->slots >> slot & 1) != 0) {
            wishes->held_ms[request->node][slot] = 0; /* until it is answered either may be so */
            wishes->asked_last[request->node][slot] = request->serial;
        }
    }
    if (!is_of_slots && request->whom >= 0) {
        wishes->words[request->whom]++;
    }
}

void checkers_on_owner_heard(struct sim *sim, const struct owners_request *request)
{
    struct wishes *wishes = &sim->checkers->wishes;
    uint64_t half_ms = request->for_s == 0 ? UINT64_MAX / 2 : request->for_s * 500; /* clocks run fast, too */
    for (uint32_t slot = 0; request->kind == NODE_REQUEST_WITHHOLD && slot < sim->plan.slots[request->node]; slot++) {
        bool is_of_it = request->slots == 0 || (request->slots >> slot & 1) != 0;
        if (is_of_it && wishes->asked_last[request->node][slot] == request->serial) {
            wishes->held_ms[request->node][slot] = sim->now_ms;
            wishes->until_ms[request->node][slot] = sim->now_ms + half_ms;
            wishes->is_timed[request->node][slot] = request->for_s != 0;
        }
    }
    bool is_drain = request->kind == NODE_REQUEST_DRAIN;
    bool is_first = (is_drain || request->kind == NODE_REQUEST_UNDRAIN) && request->whom >= 0 && wishes->words[request->whom] == 1;
    if (is_first && core_node_drained(sim->nodes[request->node].core, request->who) != is_drain) {
        sim_fail(sim, 13, "n%d says that n%d is %s, and nobody has said anything else; it takes it for %s", request->node,
                 request->whom, is_drain ? "drained" : "not drained", is_drain ? "not drained" : "drained");
    }
}

void checkers_wishes_began(struct sim *sim, int node)
{
    struct wishes *wishes = &sim->checkers->wishes;
    wishes->is_drained[node] = false; /* until its slots have been looked at */
    for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
        /* What is left of a time is counted by the calendar, which jumps. */
        wishes->held_ms[node][slot] = wishes->is_timed[node][slot] ? 0 : wishes->held_ms[node][slot];
    }
}

void checkers_wishes_forgot(struct sim *sim, int node)
{
    memset(sim->checkers->wishes.held_ms[node], 0, sizeof sim->checkers->wishes.held_ms[node]);
}

static bool is_given(const struct lease_slot *slot)
{
    return slot->state == LEASE_RESERVED || slot->state == LEASE_LEASED;
}

void checkers_drained(struct sim *sim, int node)
{
    struct wishes *wishes = &sim->checkers->wishes;
    const struct node_core *core = sim->nodes[node].core;
    if (!core->started || !core_node_drained(core, sim->nodes[node].id)) { /* until it has begun it takes back what runs */
        wishes->is_drained[node] = false;
        return;
    }
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct lease_slot *held = &core->owner->lease.slots[slot];
        attempt_id *before = &wishes->given[node][slot];
        if (!wishes->is_drained[node] || !is_given(held)) {
            *before = is_given(held) ? held->attempt : (attempt_id){0};
        } else if (!attempt_id_equal(before, &held->attempt)) {
            sim_fail(sim, 13, "n%d gives slot %u to trial %u, and knows that it is drained", node, slot, held->attempt.trial);
        }
    }
    wishes->is_drained[node] = true;
}

static void watch_slot(struct sim *sim, int node, uint32_t slot)
{
    struct wishes *wishes = &sim->checkers->wishes;
    const struct sim_node *self = &sim->nodes[node];
    const struct worker_process *process = &self->processes[slot];
    const struct view_member *member = view_find_member(&self->core->view, self->id);
    bool is_held = wishes->held_ms[node][slot] != 0 && sim->now_ms < wishes->until_ms[node][slot];
    bool is_emptied = member != NULL && view_member_drain(member).at_once;
    bool is_same = wishes->serial[node][slot] == process->serial;
    uint64_t *since_ms = &wishes->unwanted_ms[node][slot];
    wishes->serial[node][slot] = process->serial;
    if ((!is_held && !is_emptied) || !process->is_alive || process->is_killed || !is_same || sim->now_ms < self->calm_from_ms) {
        *since_ms = 0;
        return;
    }
    *since_ms = *since_ms == 0 ? sim->now_ms : *since_ms;
    const struct view_experiment *experiment = view_find_experiment(&self->core->view, process->attempt.experiment);
    bool is_known = experiment != NULL && experiment->known;
    uint64_t grace_ms = UINT64_C(1000) * (is_known ? experiment->config->preemption_timeout_s : GRACE_S);
    if (is_held) {
        checkers_met(sim, PREMISE_13_WITHHELD);
    }
    if (is_emptied) {
        checkers_met(sim, PREMISE_13_EMPTIED);
    }
    /* A group may take as long to do without it, and it itself to save. */
    if (sim->now_ms - *since_ms > 2 * grace_ms + CORE_KILL_GRACE_MS + EMPTY_LATE_MS) {
        sim_fail(sim, 13, "n%d still runs trial %u in slot %u, %llu ms after %s", node, process->attempt.trial, slot,
                 (unsigned long long)(sim->now_ms - *since_ms),
                 is_held ? "its owner has heard that it is withheld" : "it knew that it is to be empty");
    }
}

void checkers_wishes(struct sim *sim)
{
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (sim_runs(sim, node) && sim->checkers->wishes.is_drained[node]) {
            checkers_met(sim, PREMISE_13_DRAINED);
        }
        for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
            if (sim_runs(sim, node) && checkers_is_itself(sim, node)) {
                watch_slot(sim, node, slot);
            } else {
                sim->checkers->wishes.unwanted_ms[node][slot] = 0;
            }
        }
    }
}

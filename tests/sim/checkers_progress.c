/* Invariant 11, of what a restart costs: what a worker saved is soon on other disks and named, a further attempt begins
 * there, and a worker that is no more is soon missed. So what is lost is what was made since the last save, at most one
 * interval, and until the loss was found. */

#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"

#define SAVED_MS 10000    /* a copy takes up to 1.5 s here, the record one commit; who refuses is replaced by another */
#define SIDE_SEEN_MS 1000 /* sides are looked at so often */
#define COMMITS 20        /* ... the one under way and its own, each up to ten times the mean */
#define MISSED_MS \
    30000 /* dead in 8 s, a failure is looked at for 6 s more, what cannot be fetched is given up in 10 s */
#define ALONE_MS 120000 /* who falls silent with nobody else for so long fell silent alone */

/* ---- what is saved ------------------------------------------------------------------------------------------------
 */

void checkers_on_saved(struct sim *sim, int node, const attempt_id *attempt, uint64_t step, hash256 blob)
{
    struct progress *progress = &sim->checkers->progress;
    uint32_t asked = 0;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        asked |= other != node && core_node_accepts(sim->nodes[node].core, sim->nodes[other].id) ? 1u << other : 0;
    }
    progress->saves[progress->save_count++ % SAVES_MAX] = (struct save){
        .attempt = *attempt, .step = step, .blob = blob, .node = node, .asked = asked, .at_ms = sim->now_ms,
        .is_part = blobs_find(sim, blob)->parts > 0};
}

/* Of those that the node could ask for a copy: how many can take one; UINT32_MAX: one of them may not answer. */
static uint32_t count_able(const struct sim *sim, const struct save *save)
{
    const struct checkers_watch *watch = &sim->checkers->watch;
    uint32_t able = 1;
    if (watch->side[save->node] == 0 || watch->side_ms[save->node] + SIDE_SEEN_MS > save->at_ms) {
        return UINT32_MAX; /* it may have asked somebody whom it does not believe in any more */
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        if ((save->asked >> other & 1) == 0) {
            continue;
        }
        uint64_t since_ms = checkers_together_ms(sim, save->node, other);
        if (since_ms == UINT64_MAX || since_ms + CALM_MS > save->at_ms || !checkers_is_itself(sim, other)) {
            return UINT32_MAX;
        }
        able++;
    }
    return able;
}

/* DESIGN 10: the store pushes to R-1 further nodes, and the record says when R copies are confirmed, or honestly that
 * there are fewer. So where nobody was disturbed, it soon names as many as were asked for, or all. */
static void check_saved(struct sim *sim, struct save *save)
{
    int experiment = checkers_experiment(sim, save->attempt.experiment);
    const struct node_core *core = sim->nodes[save->node].core;
    uint64_t since_ms = checkers_together_ms(sim, save->node, save->node);
    if (experiment < 0 || since_ms == UINT64_MAX || since_ms + CALM_MS > save->at_ms ||
        !checkers_is_itself(sim, save->node) || view_is_deleted(&core->view, save->attempt.experiment)) {
        return;
    }
    if ((blobs_find(sim, save->blob)->struck >> save->node & 1) != 0) {
        return; /* it has rotted, perhaps before a copy was made */
    }
    uint32_t able = count_able(sim, save), wanted = sim->plan.experiments[experiment].replicas;
    const struct view_experiment *seen = view_find_experiment(&core->view, save->attempt.experiment);
    const struct view_trial *trial = seen != NULL ? view_find_trial(seen, save->attempt.trial) : NULL;
    if (able == UINT32_MAX || seen == NULL || !seen->known) {
        return;
    }
    uint32_t holders = 0; /* bits */
    bool is_named = false, is_let_go = false;
    const struct view_set *set =
        trial != NULL && save->is_part ? view_find_set(trial, blobs_find(sim, save->blob)->set) : NULL;
    const struct view_manifest *rows = set != NULL ? set->rows : trial != NULL && !save->is_part ? trial->manifests : NULL;
    for (const struct view_manifest *row = rows; row != NULL; row = row->next) {
        bool is_it = row->step == save->step && attempt_id_equal(&row->attempt, &save->attempt) &&
                     (save->is_part ? hash256_equal(row->blob, save->blob) : row->set == NULL);
        is_named |= is_it;
        is_let_go |= is_it && row->holder_count == 0;
        for (uint32_t i = 0; is_it && i < row->holder_count; i++) {
            int holder = sim_find_node(sim, row->holders[i]);
            holders |= holder >= 0 ? 1u << holder : 0;
        }
    }
    checkers_met(sim, PREMISE_11_SAVED);
    wanted = wanted < able ? wanted : able;
    if (!is_named || (!is_let_go && (uint32_t)__builtin_popcount(holders) < wanted)) {
        sim_fail(sim, 11,
                 "n%d has had step %llu of trial %u attempt %u for %llu ms, undisturbed, and it is said to be on %d "
                 "disks, not on %u",
                 save->node, (unsigned long long)save->step, save->attempt.trial, save->attempt.number,
                 (unsigned long long)(sim->now_ms - save->at_ms), __builtin_popcount(holders), wanted);
    }
    save->is_complete = !is_let_go;
}

void checkers_saves(struct sim *sim)
{
    struct progress *progress = &sim->checkers->progress;
    for (; progress->looked_at < progress->save_count; progress->looked_at++) {
        struct save *save = &progress->saves[progress->looked_at % SAVES_MAX];
        if (sim->now_ms < save->at_ms + SAVED_MS + COMMITS * sim->plan.disk_ms) {
            break;
        }
        check_saved(sim, save);
    }
}

/* By the word of who saved it, since enough newer ones were safe then. */
static bool was_let_go(const struct sim *sim, const struct save *save)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[save->node].core->view, save->attempt.experiment);
    const struct view_trial *trial = seen != NULL ? view_find_trial(seen, save->attempt.trial) : NULL;
    for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL; row != NULL; row = row->next) {
        if (row->step == save->step && attempt_id_equal(&row->attempt, &save->attempt) && row->holder_count == 0) {
            return true;
        }
    }
    return false;
}

/* Whoever begins a further attempt knows of what was saved on its side: of what it can reach and is kept, nothing newer is
 * left behind, whether or not its records say so. */
void checkers_on_restart(struct sim *sim, int node, const attempt_id *attempt, uint64_t start_step)
{
    const struct progress *progress = &sim->checkers->progress;
    uint32_t kept = progress->save_count < SAVES_MAX ? progress->save_count : SAVES_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        const struct save *save = &progress->saves[i];
        /* A part alone is nothing to go on from; check_start_step looks at whole checkpoints. */
        if (!save->is_complete || save->is_part || save->attempt.trial != attempt->trial ||
            !experiment_id_equal(save->attempt.experiment, attempt->experiment)) {
            continue;
        }
        const struct sim_blob *blob = blobs_find(sim, save->blob);
        bool was_struck =
            blob == NULL || blob->struck != 0; /* who looks for a copy in vain doubts the others for a while */
        uint64_t since_ms = checkers_together_ms(sim, node, save->node);
        bool is_there = !was_struck && since_ms < sim->now_ms && sim->now_ms - since_ms >= CALM_MS &&
                        (blob->holders >> save->node & 1) != 0 && checkers_is_itself(sim, save->node) &&
                        checkers_is_itself(sim, node) && !was_let_go(sim, save);
        if (is_there) {
            checkers_met(sim, PREMISE_11_IN_REACH);
        }
        if (is_there && save->step > start_step) {
            sim_fail(sim, 11,
                     "n%d begins attempt %u of trial %u at step %llu; n%d saved step %llu %llu ms ago, has it and can "
                     "be reached",
                     node, attempt->number, attempt->trial, (unsigned long long)start_step, save->node,
                     (unsigned long long)save->step, (unsigned long long)(sim->now_ms - save->at_ms));
        }
    }
}

/* ---- what is missed -----------------------------------------------------------------------------------------------
 */

/* Nobody but this one has been away, or disturbed, for so long that all know that it fell silent alone. */
static bool is_alone_away(const struct sim *sim, int node, int away)
{
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        uint64_t since_ms = other != away ? checkers_together_ms(sim, node, other) : 0;
        if (since_ms == UINT64_MAX || since_ms + ALONE_MS > sim->nodes[away].down_since_ms ||
            !checkers_is_itself(sim, other)) {
            return false;
        }
    }
    return sim->plan.node_count > 3;
}

enum fate { FATE_UNKNOWN, FATE_WELL, FATE_NO_MORE };

/* What became of a member, as far as nothing keeps its coordinator from knowing it. */
static enum fate fate_of(const struct sim *sim, int node, const struct view_attempt *attempt, uint32_t rank)
{
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    int host = sim_find_node(sim, attempt->members[rank].node);
    if (worker != NULL && worker->state == FACT_WORKER_ENDED &&
        (worker->reason == FACT_COMPLETED || worker->reason == FACT_STOPPED)) {
        return FATE_WELL; /* as it was asked to; the others have as long as a preemption may take */
    }
    if (host < 0 || !checkers_is_itself(sim, host) || attempt->members[rank].slot >= PLAN_SLOTS_MAX) {
        return FATE_UNKNOWN;
    }
    if (sim->nodes[host].core == NULL) {
        return is_alone_away(sim, node, host) ? FATE_NO_MORE : FATE_UNKNOWN;
    }
    const struct worker_process *process = &sim->nodes[host].processes[attempt->members[rank].slot];
    uint64_t since_ms = checkers_together_ms(sim, node, host);
    if (since_ms >= sim->now_ms || sim->now_ms - since_ms < CALM_MS) {
        return FATE_UNKNOWN;
    }
    return process->is_alive && attempt_id_equal(&process->attempt, &attempt->id) ? FATE_WELL : FATE_NO_MORE;
}

/* DESIGN 6: a trial is reassigned at once when the owner itself says that the lease ended, and soon when its host fell
 * silent alone. Groups that change have their own ways to go on (checkers_groups.c). */
void checkers_missed(struct sim *sim, int node, uint32_t e, const struct view_experiment *experiment)
{
    uint64_t self_ms = checkers_together_ms(sim, node, node);
    bool is_watched = self_ms < sim->now_ms && sim->now_ms - self_ms >= CALM_MS &&
                      !sim->plan.experiments[e].is_elastic && !view_experiment_cancelled(experiment) &&
                      !view_experiment_paused(experiment);
    for (uint32_t t = 0; t < experiment->trial_slots && t < PLAN_TRIALS_MAX; t++) {
        const struct view_trial *trial = experiment->trials[t];
        const struct view_attempt *attempt = trial != NULL ? view_trial_highest(trial) : NULL;
        struct missed *missed = &sim->checkers->progress.missed[node][e][t];
        bool is_lost = false;
        if (is_watched && !view_trial_stopped(trial) && attempt != NULL && !view_attempt_is_paused(trial, &attempt->id) && attempt->assigned && attempt->verdicts == NULL) {
            bool is_known = true; /* who may run on beyond a cut is waited for, first of all */
            for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
                enum fate fate = fate_of(sim, node, attempt, rank);
                is_lost |= fate == FATE_NO_MORE;
                is_known &= fate != FATE_UNKNOWN;
            }
            is_lost &= is_known;
        }
        if (!is_lost || missed->since_ms == 0 || !attempt_id_equal(&missed->attempt, &attempt->id)) {
            missed->since_ms = is_lost ? sim->now_ms : 0;
            missed->attempt = is_lost ? attempt->id : (attempt_id){0};
            continue;
        }
        checkers_met(sim, PREMISE_11_MISSED);
        /* A worker that has not begun waits for records of its attempt, its lease, and that it is prepared. */
        if (sim->now_ms - missed->since_ms > MISSED_MS + 3 * COMMITS * sim->plan.disk_ms) {
            sim_fail(sim, 11, "n%d has not missed a worker of attempt %u of trial %u for %llu ms", node,
                     attempt->id.number, t, (unsigned long long)(sim->now_ms - missed->since_ms));
        }
    }
}

/* ---- what is held -------------------------------------------------------------------------------------------------
 */

/* DESIGN 10: the newest complete checkpoint of a live trial is never deleted. So it is on every side that had it:
 * whoever is named for it, as it knows itself, has it, but for what a fault took. */
static void check_newest(struct sim *sim, int node, const struct view_trial *trial)
{
    const struct view_manifest *newest = trial->manifests;
    while (newest != NULL && (newest->holder_count == 0 || !checkers_has_values(trial, &newest->attempt))) {
        newest = newest->next;
    }
    if (newest != NULL && checkers_is_before_retry(trial, newest)) {
        return;
    }
    bool is_named = false;
    for (const struct view_manifest *row = newest; row != NULL && row->step == newest->step; row = row->next) {
        for (uint32_t i = 0; hash256_equal(row->blob, newest->blob) && i < row->holder_count; i++) {
            is_named |= node_id_equal(row->holders[i], sim->nodes[node].id);
        }
    }
    for (const struct view_manifest *row = newest != NULL && newest->set != NULL ? newest->set->rows : NULL; row != NULL; row = row->next) {
        bool is_its = false;
        for (uint32_t i = 0; i < row->holder_count; i++) {
            is_its |= node_id_equal(row->holders[i], sim->nodes[node].id);
        }
        const struct sim_blob *part = is_its ? blobs_find(sim, row->blob) : NULL;
        if (part != NULL && (part->struck >> node & 1) == 0 && (part->holders >> node & 1) == 0) {
            sim_fail(sim, 11, "n%d does not have part %u of step %llu of trial %u, the newest of a live trial, which it is said to hold",
                     node, row->part, (unsigned long long)newest->step, newest->attempt.trial);
        }
    }
    const struct sim_blob *blob = is_named ? blobs_find(sim, newest->blob) : NULL;
    if (blob == NULL || (blob->struck >> node & 1) != 0) {
        return;
    }
    checkers_met(sim, PREMISE_11_NEWEST);
    if ((blob->holders >> node & 1) == 0) {
        sim_fail(sim, 11,
                 "n%d does not have step %llu of trial %u, the newest of a live trial, which it is said to hold", node,
                 (unsigned long long)newest->step, newest->attempt.trial);
    }
}

void checkers_newest(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t e = 0;
         !sim->plan.has[FAULT_CLONE] && checkers_is_itself(sim, node) && e < core->view.experiment_count; e++) {
        const struct view_experiment *experiment = core->view.experiments[e];
        for (uint32_t t = 0; experiment->known && !view_experiment_over(experiment) && t < experiment->trial_slots;
             t++) {
            enum view_trial_state state = view_trial_state(experiment, t);
            if (experiment->trials[t] != NULL && (state == VIEW_TRIAL_QUEUED || state == VIEW_TRIAL_RUNNING)) {
                check_newest(sim, node, experiment->trials[t]);
            }
        }
    }
}

/* Invariants 9 and 11: why an attempt is made, how it is said to have ended, and at which checkpoint the next one
 * begins. */

#include <string.h>

#include "node/core/coordinator/coordination.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/outputs.h"

#define SIDE_MS (CORE_GANG_RESERVE_MS + 1000) /* a gang that was begun before has come together, or has been given up */
#define MINORITY_MS 6000 /* what was begun before may still be recorded */

/* This node reaches the holder, which has the blob and never lost it. */
static bool is_held(struct sim *sim, int node, const struct view_manifest *row, node_id holder)
{
    const struct node_core *core = sim->nodes[node].core;
    bool is_reachable = node_id_equal(holder, sim->nodes[node].id) || swim_state_of(&core->members->swim, holder) == SWIM_ALIVE;
    const struct sim_blob *blob = blobs_find(sim, row->blob);
    int machine = sim_find_node(sim, holder);
    /* Disks are lost, too; and of two machines with one key one answers, perhaps the one that does not have it. */
    bool is_there = blob != NULL && machine >= 0 && !sim->nodes[machine].is_twin && (blob->holders >> machine & 1) != 0;
    return is_reachable && is_there && (blob->struck >> machine & 1) == 0; /* not everybody hears that it is whole again */
}

/* Each part is held so. */
static bool is_held_in_parts(struct sim *sim, int node, const struct view_set *set)
{
    uint32_t held = 0;
    for (uint32_t part = 0; part < set->key.count; part++) {
        bool is_part_held = false;
        for (const struct view_manifest *row = view_set_part(set, part); row != NULL && row->part == part; row = row->next) {
            for (uint32_t i = 0; i < row->holder_count; i++) {
                is_part_held |= is_held(sim, node, row, row->holders[i]);
            }
        }
        held += is_part_held;
    }
    return held == set->key.count;
}

/* An attempt begins with parts of one save of its own trial, and with all of them. */
static void check_parts(struct sim *sim, int node, const struct fact_attempt *fact, const attempt_id *attempt)
{
    const struct sim_blob *some = NULL;
    for (uint32_t part = 0; part < FACT_PARTS_MAX && some == NULL && !hash256_is_none(fact->checkpoint) &&
                            blobs_find(sim, fact->checkpoint) == NULL && part < PLAN_NODES_MAX * PLAN_SLOTS_MAX; part++) {
        some = blobs_part(sim, fact->checkpoint, part);
    }
    if (some == NULL) {
        return;
    }
    checkers_met(sim, PREMISE_11_PARTS_BEGUN);
    for (uint32_t part = 0; part < some->parts; part++) {
        const struct sim_blob *blob = blobs_part(sim, fact->checkpoint, part);
        if (blob == NULL) {
            sim_fail(sim, 11, "n%d begins attempt %u of trial %u with step %llu, of which part %u of %u was never saved", node,
                     attempt->number, attempt->trial, (unsigned long long)fact->start_step, part, some->parts);
        } else if (blob->step != fact->start_step || blob->attempt.trial != attempt->trial ||
                   !attempt_id_equal(&blob->attempt, &some->attempt)) {
            sim_fail(sim, 11, "n%d begins attempt %u of trial %u with parts of different saves", node, attempt->number, attempt->trial);
        }
    }
}

/* A worker is told of a step once each part of its checkpoint was on as many disks as asked for. */
void checkers_on_durable(struct sim *sim, int node, const struct node_effect *effect)
{
    uint32_t parts = 0, good = 0;
    int experiment = checkers_experiment(sim, effect->u.worker.attempt.experiment);
    bool is_looked_at = experiment >= 0 && sim->plan.experiments[experiment].saves_parts;
    for (uint32_t i = 0; i < BLOBS_MAX && is_looked_at; i++) {
        const struct sim_blob *blob = &sim->blobs.all[i];
        if (blob->step != effect->u.worker.step || blob->is_code || blob->is_output ||
            !attempt_id_equal(&blob->attempt, &effect->u.worker.attempt)) {
            continue;
        }
        if (blob->parts == 0 || sim->plan.has[FAULT_CLONE]) {
            return; /* perhaps it is this one that the worker hears of; its record was looked at */
        }
        uint32_t whole = 0;
        if (blob->part > 0) {
            continue; /* of each checkpoint one part is looked at, and the others then */
        }
        for (uint32_t part = 0; part < blob->parts; part++) {
            const struct sim_blob *other = blobs_part(sim, blob->set, part);
            uint32_t disks = other != NULL ? other->holders | other->struck : 0;
            whole += other != NULL && (uint32_t)__builtin_popcount(disks) >= sim->plan.experiments[experiment].replicas;
        }
        parts = blob->parts;
        good = whole == blob->parts ? parts : good;
    }
    if (parts > 0) {
        checkers_met(sim, PREMISE_11_PARTS_TOLD);
    }
    if (good < parts) {
        sim_fail(sim, 11, "n%d tells a worker of trial %u that step %llu is durable, and a part of it is not", node,
                 effect->u.worker.attempt.trial, (unsigned long long)effect->u.worker.step);
    }
}

/* Lost progress is at most one checkpoint: of those that somebody who lives holds, the newest is taken. */
static void check_start_step(struct sim *sim, int node, const struct record *record, const attempt_id *attempt)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, attempt->trial) : NULL;
    struct fact_attempt fact;
    if (fact_attempt_read(record, &fact) != 0) {
        sim_fail(sim, 11, "n%d writes an attempt that does not decode", node);
        return;
    }
    for (const struct view_manifest *saved = trial != NULL ? trial->manifests : NULL; saved != NULL;
         saved = saved->next) {
        if (saved->step <= fact.start_step || !checkers_has_values(trial, &saved->attempt)) {
            continue; /* what was made with other values is not gone on from */
        }
        if (saved->set != NULL && saved->holder_count > 0 && is_held_in_parts(sim, node, saved->set)) {
            sim_fail(sim, 11, "n%d starts attempt %u of trial %u at step %llu, though all parts of step %llu are held", node,
                     attempt->number, attempt->trial, (unsigned long long)fact.start_step, (unsigned long long)saved->step);
        }
        for (uint32_t i = 0; i < saved->holder_count; i++) {
            if (is_held(sim, node, saved, saved->holders[i])) {
                sim_fail(sim, 11, "n%d starts attempt %u of trial %u at step %llu, though n%d lives and has step %llu",
                         node, attempt->number, attempt->trial, (unsigned long long)fact.start_step,
                         sim_find_node(sim, saved->holders[i]), (unsigned long long)saved->step);
            }
        }
    }
    check_parts(sim, node, &fact, attempt);
    if (fact.retried != view_trial_retried(trial)) {
        sim_fail(sim, 9, "n%d makes attempt %u of trial %u and records retry %llu, though it knows of %llu", node, attempt->number,
                 attempt->trial, (unsigned long long)fact.retried, (unsigned long long)view_trial_retried(trial));
    }
    checkers_on_restart(sim, node, attempt, fact.start_step);
    if (fact.start_step > 0) {
        checkers_met(sim, PREMISE_11_RESUMED);
    }
}

/* ---- two sides of a cut ------------------------------------------------------------------------------------------- */

static uint32_t side_of(const struct sim *sim, int node)
{
    uint32_t side = 0;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        side |= core_node_trusted(sim->nodes[node].core, sim->nodes[other].id) ? 1u << other : 0;
    }
    return side;
}

void checkers_watch_side(struct sim *sim, int node)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    uint32_t side = side_of(sim, node);
    watch->side_ms[node] = side == watch->side[node] ? watch->side_ms[node] : sim->now_ms;
    watch->side[node] = side;
}

void checkers_see_side(struct sim *sim, int node)
{
    struct checkers_watch *watch = &sim->checkers->watch;
    watch->side_ms[node] = side_of(sim, node) == watch->side[node] ? watch->side_ms[node] : sim->now_ms;
}

/* DESIGN 7: those that may be running on unreachable nodes come last: of those behind the last one that was begun over there as
 * many as fit there. */
static uint32_t unseen(const struct sim *sim, int node, const struct view_experiment *experiment)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t from = 0, bits = 0, slots = 0;
    for (uint32_t i = 0; i < experiment->trial_slots; i++) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            from = core_node_trusted(core, a->id.coordinator) ? from : i + 1;
        }
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        slots += core_node_trusted(core, sim->nodes[other].id) ? 0 : sim->plan.slots[other];
    }
    for (uint32_t i = from; from > 0 && i < from + slots && i < PLAN_TRIALS_MAX; i++) {
        bits |= 1u << i;
    }
    return bits;
}

static struct choice_made choice_of(const struct sim *sim, int node, uint32_t index, const attempt_id *attempt)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct checkers_watch *watch = &sim->checkers->watch;
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    const struct core_coordination *coordination = core_find_coordination(core, attempt->experiment);
    const struct view_trial *trial = view_find_trial(experiment, attempt->trial);
    struct choice_made choice = {.made_ms = sim->now_ms,
                                 .is_first = true,
                                 .side = side_of(sim, node),
                                 .unseen = unseen(sim, node, experiment)};
    choice.is_settled = watch->side[node] == choice.side && sim->now_ms - watch->side_ms[node] >= SIDE_MS &&
                        core->members->election_member_count == sim->plan.node_count;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        choice.is_first &= attempt_id_equal(&a->id, attempt);
    }
    const struct checkers_gang *gangs = watch->gangs[node][index], *own = &gangs[attempt->trial];
    uint64_t chosen_ms = own->step == watch->steps[node] ? own->since_ms : sim->now_ms;
    for (const struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL; gang != NULL; gang = gang->next) {
        choice.promised |= 1u << gang->attempt.trial;
    }
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        choice.promised |= gangs[t].step > 0 && gangs[t].seen_ms >= chosen_ms ? 1u << t : 0;
        bool is_stopped = view_trial_stopped(view_find_trial(experiment, t)) || view_search_course(experiment, t) == VIEW_ENDS ||
                          view_search_course(experiment, t) == VIEW_IS_PAUSED;
        choice.stopped |= is_stopped ? 1u << t : 0;
    }
    return choice;
}

static bool is_beyond_cut(const struct sim *sim, const struct choice_made *ours, const struct choice_made *theirs)
{
    return (theirs->side & ours->side) == 0 && (theirs->side | ours->side) == (1u << sim->plan.node_count) - 1 &&
           ours->is_settled && theirs->is_settled && ours->is_first && theirs->is_first;
}

/* Not all know of the same nodes: somebody has left, was thrown out, or runs twice. */
static bool has_other_members(const struct sim *sim)
{
    bool has_one = false;
    for (int node = 0; node < (int)sim->machines; node++) {
        const struct sim_node *self = &sim->nodes[node];
        has_one |= self->is_twin || self->is_evicted || self->leaves || !node_id_is_none(self->was);
    }
    return has_one;
}

/* DESIGN 7: both sides of a cut claim trials in the order of their ranks, so that they first do different work: none begins
 * what the other has begun while something is left that nobody has. */
static void check_sides(struct sim *sim, int node, uint32_t experiment, uint32_t index)
{
    const struct trial *trials = sim->checkers->trials[experiment];
    const struct choice_made *ours = &trials[index].choices[trials[index].attempt_count - 1];
    uint32_t begun = 0, not_free = ours->promised | ours->unseen | ours->stopped;
    bool is_twice = false;
    for (uint32_t t = 0; t < sim->plan.experiments[experiment].trials; t++) {
        begun |= trials[t].attempt_count > 0 ? 1u << t : 0;
        for (uint32_t i = 0; i < trials[t].attempt_count; i++) {
            const struct choice_made *theirs = &trials[t].choices[i];
            if (t == index && is_beyond_cut(sim, ours, theirs)) {
                is_twice = true;
                not_free |= theirs->promised | theirs->unseen | theirs->stopped;
            }
        }
    }
    if (ours->is_settled && ours->is_first && ours->side != (1u << sim->plan.node_count) - 1) {
        checkers_met(sim, PREMISE_9_SIDE);
    }
    uint32_t left = ~(begun | not_free) & ((1u << sim->plan.experiments[experiment].trials) - 1);
    bool is_created = sim->plan.experiments[experiment].program.is_there; /* what there is follows from what each side heard */
    if (is_twice && left != 0 && !is_created && !has_other_members(sim)) {
        sim_fail(sim, 9, "n%d begins trial %u, which the other side of a cut has begun, and nobody has begun trial %d", node,
                 index, __builtin_ctz(left));
    }
}

bool checkers_name_is_ambiguous(const struct sim *sim, const attempt_id *attempt)
{
    int maker = sim_find_node(sim, attempt->coordinator), experiment = checkers_experiment(sim, attempt->experiment);
    if (maker < 0 || experiment < 0 || attempt->trial >= PLAN_TRIALS_MAX) {
        return false;
    }
    const struct trial *trial = &sim->checkers->trials[experiment][attempt->trial];
    for (uint32_t i = 0; i < trial->attempt_count; i++) {
        if (attempt_id_equal(&trial->attempts[i], attempt)) {
            return sim->nodes[maker].is_twin || trial->choices[i].made_ms <= sim->checkers->forgot_ms[maker];
        }
    }
    return false;
}

void checkers_on_attempt(struct sim *sim, int node, const struct record *record)
{
    attempt_id attempt;
    int experiment;
    if (fact_key_read_attempt(record, &attempt) != 0 ||
        (experiment = checkers_experiment(sim, attempt.experiment)) < 0 || attempt.trial >= PLAN_TRIALS_MAX) {
        sim_fail(sim, 9, "n%d assigns something that is no trial", node);
        return;
    }
    struct trial *trial = &sim->checkers->trials[experiment][attempt.trial];
    for (uint32_t i = 0; i < trial->attempt_count; i++) {
        if (attempt_id_equal(&trial->attempts[i], &attempt)) {
            return; /* written once more */
        }
    }
    checkers_met(sim, trial->attempt_count == 0 ? PREMISE_9_ONCE : PREMISE_9_REPEATED);
    for (uint32_t i = 0; i < trial->attempt_count; i++) {
        const struct view_attempt *other = view_find_attempt(&sim->nodes[node].core->view, &trial->attempts[i]);
        const struct view_verdict *verdict = other != NULL ? view_attempt_verdict(other) : NULL;
        if (trial->has_run[i] && verdict == NULL && !plan_isolates(&sim->plan)) {
            sim_fail(sim, 9, "n%d makes attempt %u of trial %u though attempt %u has not ended", node, attempt.number,
                     attempt.trial, trial->attempts[i].number);
        }
        if (verdict != NULL && verdict->reason == FACT_COMPLETED) {
            sim_fail(sim, 9, "n%d makes attempt %u of trial %u, which it knows to be completed", node, attempt.number,
                     attempt.trial);
        }
    }
    if (trial->attempt_count < ATTEMPTS_MAX) {
        trial->choices[trial->attempt_count] = choice_of(sim, node, (uint32_t)experiment, &attempt);
        trial->attempts[trial->attempt_count++] = attempt;
        check_sides(sim, node, (uint32_t)experiment, attempt.trial);
    }
    uint64_t minority_ms = sim->checkers->watch.minority_ms[node];
    if (sim->plan.experiments[experiment].pauses_minority && minority_ms != 0) {
        checkers_met(sim, PREMISE_9_MINORITY);
        if (sim->now_ms - minority_ms > MINORITY_MS && checkers_in_minority(sim, node)) {
            sim_fail(sim, 9, "n%d makes attempt %u of trial %u, though its side has been the smaller one for %llu ms",
                     node, attempt.number, attempt.trial, (unsigned long long)(sim->now_ms - minority_ms));
        }
    }
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, attempt.experiment);
    const struct view_trial *row = view_find_trial(seen, attempt.trial);
    for (const struct view_attempt *a = row != NULL ? row->attempts : NULL; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL && !attempt_id_equal(&a->id, &attempt)) {
            sim_fail(sim, 9, "n%d makes attempt %u of trial %u beside attempt %u, which it believes to run", node,
                     attempt.number, attempt.trial, a->id.number);
        }
    }
    if (view_experiment_cancelled(seen) || view_experiment_paused(seen)) {
        sim_fail(sim, 10, "n%d makes attempt %u of trial %u though it knows that the experiment is cancelled or paused",
                 node, attempt.number, attempt.trial);
    }
    checkers_begins_stopped(sim, node, &attempt, "makes");
    checkers_on_place(sim, node, &attempt);
    checkers_on_begun(sim, node, &attempt);
    checkers_program_begins(sim, node, &attempt);
    checkers_on_begun_where(sim, node, &attempt);
    check_start_step(sim, node, record, &attempt);
    outputs_check_beginning(sim, node, record, &attempt);
}

/* What is silent for `node` and may run on: a machine that it cannot reach and that does not refuse. */
static bool is_silent(const struct sim *sim, int node, int other)
{
    return other >= 0 && !network_talks(sim, node, other); /* below 0: nobody has this key any more, or yet */
}

/* At least half of the mesh fell silent together: then it may be us who are cut off, and what runs there is waited for.
 */
static bool must_be_patient(const struct sim *sim, int node, const struct core_peer *lost)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t silent = 0, others = 1;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        int other = sim_find_node(sim, peer->id);
        /* Whom it only heard to be dead, from others who live, says nothing of who is cut off. */
        bool is_absent = (peer->state == SWIM_DEAD && peer->fell_silent) || peer->state == SWIM_SUSPECT;
        bool is_old = peer->state == SWIM_DEAD && (peer->died_ms + CORE_SILENT_TOGETHER_MS / 2 < lost->died_ms ||
                                                   lost->died_ms + CORE_SILENT_TOGETHER_MS / 2 < peer->died_ms);
        if (is_absent && !is_old && peer->refused_since_ms == 0 && is_silent(sim, node, other)) {
            silent++;
        } else if (peer->state != SWIM_LEFT && peer->state != SWIM_UNKNOWN) {
            others++;
        }
    }
    return silent > others && core->now_ms - lost->died_ms < CORE_PATIENCE_MS && lost->refused_since_ms == 0;
}

/* Every repetition has a cause that the writer of the verdict can name. */
static void check_loss(struct sim *sim, int node, const attempt_id *id, const char *why)
{
    if (strstr(why, "a node died") == NULL && strstr(why, "a worker was lost") == NULL) {
        return; /* its gang never became complete, or its slots say that they are not leased to it */
    }
    const struct node_core *core = sim->nodes[node].core;
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    const struct view_experiment *experiment = view_find_experiment(&core->view, id->experiment);
    const struct view_trial *trial = view_find_trial(experiment, id->trial);
    bool has_cause = attempt == NULL || !attempt->assigned || view_trial_highest(trial) != attempt;
    bool must_wait = false;
    for (uint32_t rank = 0; !has_cause && rank < attempt->member_count; rank++) {
        const struct fact_place *member = &attempt->members[rank];
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        const struct view_member *owner = view_find_member(&core->view, member->node);
        const struct view_slot *slot = owner != NULL ? view_member_slot(owner, member->slot) : NULL;
        bool is_self = node_id_equal(member->node, sim->nodes[node].id);
        enum swim_state state = is_self ? SWIM_ALIVE : swim_state_of(&core->members->swim, member->node);
        has_cause |= worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_LOST;
        has_cause |= slot == NULL || slot->state != LEASE_LEASED || !attempt_id_equal(&slot->attempt, id);
        bool is_away = state != SWIM_ALIVE && state != SWIM_SUSPECT;
        const struct core_peer *peer = is_self ? NULL : core_find_peer(core, member->node);
        if (is_away && peer != NULL && state == SWIM_DEAD && must_be_patient(sim, node, peer)) {
            must_wait = true;
        } else {
            has_cause |= is_away;
        }
    }
    if (!has_cause && must_wait) {
        sim_fail(sim, 9,
                 "n%d calls attempt %u of trial %u lost, though most nodes fell silent together and it may run on",
                 node, id->number, id->trial);
    } else if (!has_cause) {
        sim_fail(sim, 9, "n%d calls attempt %u of trial %u lost, and no record nor silence says why", node, id->number,
                 id->trial);
    }
}

void checkers_on_verdict(struct sim *sim, int node, const struct record *record)
{
    struct fact_verdict fact;
    attempt_id attempt;
    int experiment;
    if (fact_verdict_read(record, &fact) != 0 || fact_key_read_attempt(record, &attempt) != 0 ||
        (experiment = checkers_experiment(sim, attempt.experiment)) < 0) {
        return;
    }
    if (fact.reason == FACT_COMPLETED) {
        checkers_completed(sim, node, &attempt);
    }
    const struct plan_experiment *plan = &sim->plan.experiments[experiment];
    bool has_run = false; /* a gang that never started anything is nobody's fault */
    const struct trial *trial = &sim->checkers->trials[experiment][attempt.trial % PLAN_TRIALS_MAX];
    for (uint32_t i = 0; i < trial->attempt_count; i++) {
        has_run |= trial->has_run[i] && attempt_id_equal(&trial->attempts[i], &attempt);
    }
    if (has_run && fact.reason == FACT_LOST) {
        checkers_met(sim, PREMISE_9_LOST);
        check_loss(sim, node, &attempt, fact.why);
        checkers_on_group_lost(sim, node, &attempt, fact.why);
    }
    bool may_fail = plan->fails_at_once || plan->fails_fast || sim->plan.has[FAULT_WORKER_CRASH] ||
                    sim->plan.has[FAULT_BAD_MACHINE] || fact.is_hung;
    bool is_barrier = strstr(fact.why, "exit_barrier") != NULL;
    if (fact.is_hung) {
        checkers_met(sim, is_barrier ? PREMISE_8_LEFT_BEHIND : PREMISE_8_HUNG);
        if (!sim->plan.has[is_barrier ? FAULT_QUIET_END : FAULT_ENDLESS_HANG] && !sim->plan.has[FAULT_ZOMBIE]) {
            sim_fail(sim, 9, "n%d says that trial %u hangs though no program did: %s", node, attempt.trial, fact.why);
        }
    }
    /* A more urgent trial may take a reserved slot just before it is confirmed, when another rank has begun already. */
    bool is_gang = strstr(fact.why, "not confirmed") != NULL;
    if (plan_is_quiet(&sim->plan) && !is_gang && (has_run ? fact.reason == FACT_LOST : fact.reason == FACT_FAILED)) {
        sim_fail(sim, 9, "without any fault n%d calls attempt %u of trial %u %s: %s", node, attempt.number,
                 attempt.trial, fact_reason_name(fact.reason), fact.why);
    } else if (fact.reason == FACT_FAILED && !may_fail) {
        sim_fail(sim, 9, "n%d says that trial %u failed though no program did: %s", node, attempt.trial, fact.why);
    }
}

void checkers_on_manifest(struct sim *sim, int node, const struct record *record)
{
    struct fact_manifest fact;
    if (fact_manifest_read(record, &fact) == 0 && fact.holder_count == 0) {
        checkers_on_let_go(sim, node, record);
    }
    if (fact_manifest_read(record, &fact) != 0 || !fact.durable) {
        return;
    }
    checkers_met(sim, PREMISE_11_DURABLE);
    attempt_id attempt;
    int experiment = fact_key_read_attempt(record, &attempt) == 0 ? checkers_experiment(sim, attempt.experiment) : -1;
    if (experiment < 0 || fact.holder_count < sim->plan.experiments[experiment].replicas) {
        sim_fail(sim, 11, "n%d calls a checkpoint durable that is on %u disks; more are asked for", node,
                 fact.holder_count);
    }
    const struct sim_blob *blob = blobs_find(sim, fact.blob);
    for (uint32_t i = 0; i < fact.holder_count; i++) {
        int holder = sim_find_node(sim, fact.holders[i]);
        bool is_ambiguous = holder >= 0 && sim->nodes[holder].is_twin; /* of two with one key, one has it */
        /* It was thrown out, and came back with an empty disk and another key, while this node slept on its answer. */
        is_ambiguous |= holder >= 0 && node_id_equal(sim->nodes[holder].was, fact.holders[i]);
        is_ambiguous |= holder >= 0 && blob != NULL && (blob->struck >> holder & 1) != 0; /* rotten since it said so */
        if (!is_ambiguous && (blob == NULL || holder < 0 || (blob->holders >> holder & 1) == 0)) {
            sim_fail(sim, 11, "n%d calls a checkpoint durable on n%d, which does not have it", node, holder);
        }
    }
}

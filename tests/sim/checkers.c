#include "tests/sim/checkers.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/rendezvous.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

#define TOKENS_TRIED 24  /* of them are tried again every time */
#define SETTLE_MS 5500   /* "within 5 s", and one commit */
#define MEET_MS 30000
#define CLAIMS_FROM_MS 15000
#define CLAIMS_MAX 2 /* of one experiment without faults, from then on */
#define MINORITY_MS 6000 /* what was begun before may still be recorded */
#define CALM_MS 20000    /* after the last fault: all have found each other again */
#define STEADY_MS 4000
#define ASKED_MS 10000   /* who has asked claims soon or asks again */
#define ELECT_MS 45000   /* a node on an old disk that hears nobody waits 30 s before it coordinates */

const char *const checkers_premise_names[PREMISE_COUNT] = {
    [PREMISE_1_WORKER_ACCEPTED] = "1: a live worker's token is accepted",
    [PREMISE_1_ADOPTED] = "1: a daemon came back and found a worker",
    [PREMISE_1_ZOMBIE] = "1: a slot was taken back while its process still lived",
    [PREMISE_2_REVOKED] = "2: a revoked token was tried",
    [PREMISE_2_NOT_FOUND] = "2: a daemon came back and did not find a worker",
    [PREMISE_2_OUT] = "2: a node knew that it is out of the mesh",
    [PREMISE_2_SHUT_OUT] = "2: a node knew that another is out of the mesh",
    [PREMISE_2_RETURNED] = "2: its machine came back with a new key",
    [PREMISE_2_TWINS] = "2: two daemons with one key ran",
    [PREMISE_2_BECAME] = "2: ... and one became another node",
    [PREMISE_3_SUBMIT_ON_TWO] = "3: a submit was acknowledged as stored on two or more",
    [PREMISE_3_CANCEL_ON_TWO] = "3: a cancel was acknowledged as stored on two or more",
    [PREMISE_3_OTHER_DISK] = "3: a node came back with an old disk or with none",
    [PREMISE_3_LOST_ONE] = "3: a holder of an acknowledged submit was lost for ever",
    [PREMISE_4_RESULT_SPREAD] = "4: at the heal a result was on some nodes only",
    [PREMISE_4_RESULT_KEPT] = "4: a node was asked for a result that it knew",
    [PREMISE_5_SAME_STATE] = "5: heal and quiet on two or more nodes",
    [PREMISE_6_REFOLDED] = "6: a node's records were folded in another order",
    [PREMISE_6_UNKNOWN_KIND] = "6: a node got a record of a kind that it does not know",
    [PREMISE_7_RESTART] = "7: a disk was read back",
    [PREMISE_7_STORED] = "7: a node said that it stored a record",
    [PREMISE_8_FINISHED] = "8: an experiment was live at the heal",
    [PREMISE_8_ALONE] = "8: ... and one node was left",
    [PREMISE_9_ONCE] = "9: an attempt of a trial without other attempts",
    [PREMISE_9_REPEATED] = "9: a further attempt, the earlier one's end on record",
    [PREMISE_9_LOST] = "9: an attempt that ran is called lost",
    [PREMISE_9_ENDED] = "9: a worker was ended after its attempt's verdict",
    [PREMISE_9_MINORITY] = "9: a minority that is to pause",
    [PREMISE_10_CANCELLED] = "10: a node that knew of a cancel was looked at",
    [PREMISE_10_STOPPED] = "10: a worker was ended because of a cancel",
    [PREMISE_10_DELETED] = "10: at the end a node knew that an experiment is deleted",
    [PREMISE_10_RAN] = "10: ... and had run some of it",
    [PREMISE_11_DURABLE] = "11: a checkpoint was called durable",
    [PREMISE_11_RESUMED] = "11: an attempt began at a checkpoint",
    [PREMISE_12_LED] = "12: a coordinator asked an owner",
    [PREMISE_12_OBEYED] = "12: an owner obeyed a second coordinator",
    [PREMISE_12_FENCE] = "12: a fence was read back after a restart",
    [PREMISE_12_ONE_COORDINATOR] = "12: stable long enough, with a live experiment",
    [PREMISE_13_RESERVED] = "13: a slot was reserved",
    [PREMISE_13_LEASED] = "13: a lease was looked at",
    [PREMISE_14_CALM] = "14: a node that can be reached was looked at by another",
    [PREMISE_14_DEAD] = "14: a node was dead for long enough to be known dead",
    [PREMISE_15_MESSAGES] = "15: messages of a node in one second were counted",
};

const char *checkers_invariant_text(int number)
{
    static const char *const texts[] = {
        [1] = "at most one live worker per slot holds a valid token, zombies counted",
        [2] = "no revoked token is accepted anywhere; no token is valid twice, across crash and restart; who is out of the mesh is "
              "shut out and runs nothing",
        [3] = "a submit, cancel or delete acknowledged as stored on k nodes survives the loss of any k-1",
        [4] = "a completed result stored on any node that is not lost for ever finally reaches all, and never regresses",
        [5] = "after a heal and quiet, all nodes have byte-identical state within 5 s",
        [6] = "the fold is commutative, associative and idempotent, unknown kinds included",
        [7] = "a node's state only grows; after a restart it is no less than what it acknowledged",
        [8] = "any healed core of one or more nodes with enough slots finishes every live experiment in bounded time",
        [9] = "without faults no trial runs twice; with them each duplicate has a recorded cause",
        [10] = "cancel and delete start nothing once known, stop all within a bounded time, and never un-happen",
        [11] = "a checkpoint called durable is on as many disks as asked, a trial goes on from its own newest one, "
               "and it restores the step that it says",
        [12] = "owners never obey a lower (term, id); a stable component soon has exactly one coordinator per experiment; "
               "hand-overs without faults are bounded",
        [13] = "no reservation and no lease outlives its time",
        [14] = "a reachable, unpaused node is not declared dead; a dead one is known dead everywhere in 8 s",
        [15] = "the same seed gives the same trace; messages per node and second stay under a cap",
    };
    return number >= 0 && number < (int)(sizeof texts / sizeof texts[0]) && texts[number] != NULL ? texts[number] : "?";
}

struct checkers *checkers_new(void)
{
    return calloc(1, sizeof(struct checkers));
}

void checkers_destroy(struct checkers **checkers)
{
    free(*checkers);
    *checkers = NULL;
}

void checkers_reset(struct checkers *checkers)
{
    memset(checkers, 0, sizeof *checkers);
}

const uint64_t *checkers_premises(const struct checkers *checkers)
{
    return checkers->premises;
}

/* ---- 1 and 2: tokens ------------------------------------------------------------------------------------------------ */

void checkers_on_spawn(struct sim *sim, int node, const struct node_effect *effect)
{
    struct checkers *checkers = sim->checkers;
    uint32_t slot = effect->u.worker.slot;
    if (sim->nodes[node].processes[slot].is_alive) {
        sim_fail(sim, 1, "n%d starts trial %u in slot %u, where the process of trial %u still lives", node,
                 effect->u.worker.attempt.trial, slot, sim->nodes[node].processes[slot].attempt.trial);
        return;
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, effect->u.worker.attempt.experiment);
    if (seen != NULL && view_experiment_cancelled(seen)) {
        sim_fail(sim, 10, "n%d starts trial %u though it knows that the experiment is cancelled", node,
                 effect->u.worker.attempt.trial);
        return;
    }
    lease_token token = effect->u.worker.token;
    if (lease_token_is_none(token)) {
        sim_fail(sim, 2, "n%d starts a worker in slot %u without a token", node, slot);
        return;
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        uint32_t count = checkers->token_count[other] < TOKENS_MAX ? checkers->token_count[other] : TOKENS_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (lease_token_equal(checkers->tokens[other][i].token, token)) {
                sim_fail(sim, 2, "n%d gives out a token that n%d has given out before", node, other);
                return;
            }
        }
    }
    int experiment = checkers_experiment(sim, effect->u.worker.attempt.experiment);
    checkers->ran[node] |= 1u << experiment;
    if (core_is_deleted(sim->nodes[node].core, effect->u.worker.attempt.experiment)) {
        sim_fail(sim, 10, "n%d starts a worker of experiment %d, which it knows to be deleted", node, experiment);
        return;
    }
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        struct trial *trial = &checkers->trials[experiment][t];
        for (uint32_t i = 0; i < trial->attempt_count; i++) {
            trial->has_run[i] |= attempt_id_equal(&trial->attempts[i], &effect->u.worker.attempt);
        }
    }
    checkers->tokens[node][checkers->token_count[node]++ % TOKENS_MAX] =
        (struct token){.token = token, .slot = slot, .attempt = effect->u.worker.attempt};
}

void checkers_on_revoked(struct sim *sim, int node, uint32_t slot, const attempt_id *attempt)
{
    struct checkers *checkers = sim->checkers;
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        if (token->slot == slot && attempt_id_equal(&token->attempt, attempt) && !token->is_revoked) {
            token->is_revoked = true;
            if (sim->nodes[node].processes[slot].is_alive) {
                checkers_met(sim, PREMISE_1_ZOMBIE);
            }
        }
    }
}

void checkers_tokens(struct sim *sim, int node)
{
    struct checkers *checkers = sim->checkers;
    const struct node_core *core = sim->nodes[node].core;
    if (core == NULL) {
        return;
    }
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &sim->nodes[node].processes[slot];
        int found = process->is_alive ? node_core_find_token(core, process->token) : -1;
        if (found >= 0 && found != (int)slot) {
            sim_fail(sim, 1, "n%d takes the worker of slot %u for that of slot %d", node, slot, found);
        }
        if (found >= 0) {
            checkers_met(sim, PREMISE_1_WORKER_ACCEPTED);
        }
    }
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        const struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        const struct worker_process *process = &sim->nodes[node].processes[token->slot];
        bool is_running = process->is_alive && lease_token_equal(process->token, token->token);
        if (!token->is_revoked && is_running && node_core_find_token(core, token->token) < 0) {
            sim_fail(sim, 2, "n%d refuses the token of the worker in slot %u, though nothing ended its lease", node,
                     token->slot);
        }
        if (!token->is_revoked) {
            continue;
        }
        checkers_met(sim, PREMISE_2_REVOKED);
        if (node_core_find_token(core, token->token) >= 0) {
            sim_fail(sim, 2, "n%d accepts the token of trial %u attempt %u in slot %u, which was revoked", node,
                     token->attempt.trial, token->attempt.number, token->slot);
        }
    }
}

static const struct disk_entry *slot_on_disk(struct sim *sim, int node, uint32_t slot)
{
    struct fact_key key = fact_key_slot(slot);
    return disk_find(&sim->nodes[node].disk, record_ident_of(sim->nodes[node].id, FACT_SLOT, key.bytes, key.count));
}

/* A daemon is back. Tokens of workers that it found are valid again, if its disk did not say already that the lease was
 * over; all others never. */
void checkers_on_adopted(struct sim *sim, int node)
{
    struct checkers *checkers = sim->checkers;
    for (uint32_t i = 0; i < TOKENS_TRIED && i < checkers->token_count[node]; i++) {
        struct token *token = &checkers->tokens[node][(checkers->token_count[node] - 1 - i) % TOKENS_MAX];
        const struct worker_process *process = &sim->nodes[node].processes[token->slot];
        const struct worker_report *note = &sim->nodes[node].reports[token->slot];
        bool is_same = lease_token_equal(process->token, token->token);
        if (is_same && (process->is_alive || note->is_waiting)) {
            struct record record;
            struct fact_slot fact;
            const struct disk_entry *entry = slot_on_disk(sim, node, token->slot);
            bool is_leased = entry != NULL && entry->is_stored &&
                             record_decode(entry->bytes, entry->byte_count, &record) == 0 &&
                             fact_slot_read(&record, &fact) == 0 && fact.state == LEASE_LEASED &&
                             attempt_id_equal(&fact.attempt, &token->attempt);
            checkers_met(sim, PREMISE_1_ADOPTED);
            token->is_revoked = token->is_revoked && !is_leased;
        } else if (!token->is_revoked) {
            checkers_met(sim, PREMISE_2_NOT_FOUND);
            token->is_revoked = true;
        }
    }
}

/* ---- 4: results ----------------------------------------------------------------------------------------------------- */

static void learn_result(struct sim *sim, int node, const struct record *record)
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
        }
    }
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        for (uint32_t slot = 0; member->slots != NULL && slot < member->slot_count; slot++) {
            const struct view_slot *held = &member->slots[slot];
            SIM_TRACE(sim, node, "%s slot %u: state %u, experiment %d trial %u attempt %u", member->name, slot, held->state,
                      checkers_experiment(sim, held->attempt.experiment), held->attempt.trial, held->attempt.number);
        }
    }
}

static void check_results(struct sim *sim, int node, const uint32_t wanted[PLAN_EXPERIMENTS_MAX], const char *why)
{
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        if (wanted[e] == 0 || core_is_deleted(core, sim->plan.experiments[e].id)) {
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

/* ---- 9 and 11, 12: what records say --------------------------------------------------------------------------------- */

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
    for (const struct view_manifest *saved = trial != NULL ? trial->manifests : NULL; saved != NULL; saved = saved->next) {
        for (uint32_t i = 0; i < saved->holder_count; i++) {
            bool is_reachable = node_id_equal(saved->holders[i], sim->nodes[node].id) ||
                                swim_state_of(&core->swim, saved->holders[i]) == SWIM_ALIVE;
            if (is_reachable && saved->step > fact.start_step) {
                sim_fail(sim, 11, "n%d starts attempt %u of trial %u at step %llu, though n%d lives and has step %llu", node,
                         attempt->number, attempt->trial, (unsigned long long)fact.start_step,
                         sim_find_node(sim, saved->holders[i]), (unsigned long long)saved->step);
            }
        }
    }
    if (fact.start_step > 0) {
        checkers_met(sim, PREMISE_11_RESUMED);
    }
}

static void on_attempt(struct sim *sim, int node, const struct record *record)
{
    attempt_id attempt;
    int experiment;
    if (fact_key_read_attempt(record, &attempt) != 0 || (experiment = checkers_experiment(sim, attempt.experiment)) < 0 ||
        attempt.trial >= PLAN_TRIALS_MAX) {
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
        trial->attempts[trial->attempt_count++] = attempt;
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
        sim_fail(sim, 10, "n%d makes attempt %u of trial %u though it knows that the experiment is cancelled or paused", node,
                 attempt.number, attempt.trial);
    }
    check_start_step(sim, node, record, &attempt);
}

/* What is silent for `node` and may run on: a machine that it cannot reach and that does not refuse. */
static bool is_silent(const struct sim *sim, int node, int other)
{
    return !network_both_ways(sim, node, other);
}

/* At least half of the mesh fell silent together: then it may be us who are cut off, and what runs there is waited for. */
static bool must_be_patient(const struct sim *sim, int node, const struct core_peer *lost)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t silent = 0, others = 1;
    for (uint32_t i = 0; i < core->peer_count; i++) {
        const struct core_peer *peer = core->peers[i];
        int other = sim_find_node(sim, peer->id);
        /* Whom it only heard to be dead, from others who live, says nothing of who is cut off. */
        bool is_absent = (peer->state == SWIM_DEAD && peer->fell_silent) || peer->state == SWIM_SUSPECT;
        bool is_old = peer->state == SWIM_DEAD && (peer->died_ms + CORE_TOGETHER_MS / 2 < lost->died_ms ||
                                                   lost->died_ms + CORE_TOGETHER_MS / 2 < peer->died_ms);
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
        const struct fact_assignment *member = &attempt->members[rank];
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        const struct view_member *owner = view_find_member(&core->view, member->node);
        const struct view_slot *slot = owner != NULL ? view_member_slot(owner, member->slot) : NULL;
        bool is_self = node_id_equal(member->node, sim->nodes[node].id);
        enum swim_state state = is_self ? SWIM_ALIVE : swim_state_of(&core->swim, member->node);
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
        sim_fail(sim, 9, "n%d calls attempt %u of trial %u lost, though most nodes fell silent together and it may run on",
                 node, id->number, id->trial);
    } else if (!has_cause) {
        sim_fail(sim, 9, "n%d calls attempt %u of trial %u lost, and no record nor silence says why", node, id->number,
                 id->trial);
    }
}

static void on_verdict(struct sim *sim, int node, const struct record *record)
{
    struct fact_verdict fact;
    attempt_id attempt;
    int experiment;
    if (fact_verdict_read(record, &fact) != 0 || fact_key_read_attempt(record, &attempt) != 0 ||
        (experiment = checkers_experiment(sim, attempt.experiment)) < 0) {
        return;
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
    }
    bool may_fail = plan->fails_at_once || plan->fails_fast || sim->plan.has[FAULT_WORKER_CRASH];
    /* A more urgent trial may take a reserved slot just before it is confirmed, when another rank has begun already. */
    bool is_gang = strstr(fact.why, "not confirmed") != NULL;
    if (sim->plan.fault_count == 0 && !is_gang &&
        (has_run ? fact.reason == FACT_LOST : fact.reason == FACT_FAILED)) {
        sim_fail(sim, 9, "without any fault n%d calls attempt %u of trial %u %s: %s", node, attempt.number, attempt.trial,
                 fact_reason_name(fact.reason), fact.why);
    } else if (fact.reason == FACT_FAILED && !may_fail) {
        sim_fail(sim, 9, "n%d says that trial %u failed though no program did: %s", node, attempt.trial, fact.why);
    }
}

static void on_manifest(struct sim *sim, int node, const struct record *record)
{
    struct fact_manifest fact;
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
    const struct worker_blob *blob = workers_blob(sim, fact.blob);
    for (uint32_t i = 0; i < fact.holder_count; i++) {
        int holder = sim_find_node(sim, fact.holders[i]);
        bool is_ambiguous = holder >= 0 && sim->nodes[holder].is_twin; /* of two with one key, one has it */
        if (!is_ambiguous && (blob == NULL || holder < 0 || (blob->holders >> holder & 1) == 0)) {
            sim_fail(sim, 11, "n%d calls a checkpoint durable on n%d, which does not have it", node, holder);
        }
    }
}

static void obey(struct sim *sim, int node, const attempt_id *attempt,
                 struct election_claim highest[PLAN_EXPERIMENTS_MAX])
{
    int experiment = checkers_experiment(sim, attempt->experiment);
    if (experiment < 0) {
        return;
    }
    struct election_claim claim = {attempt->term, attempt->coordinator};
    struct election_claim *held = &highest[experiment];
    if (!node_id_is_none(held->node) && !node_id_equal(held->node, claim.node)) {
        checkers_met(sim, PREMISE_12_OBEYED);
    }
    if (!node_id_is_none(held->node) && election_claim_compare(claim, *held) < 0) {
        sim_fail(sim, 12, "n%d obeys term %llu of n%d for experiment %d after term %llu of n%d", node,
                 (unsigned long long)claim.term, sim_find_node(sim, claim.node), experiment,
                 (unsigned long long)held->term, sim_find_node(sim, held->node));
        return;
    }
    *held = claim;
}

static void on_slot(struct sim *sim, int node, const struct record *record)
{
    struct fact_slot fact;
    uint32_t slot;
    if (fact_slot_read(record, &fact) != 0 || fact_key_read_slot(record, &slot) != 0 || slot >= PLAN_SLOTS_MAX) {
        return;
    }
    attempt_id *last = &sim->checkers->slot_attempt[node][slot];
    if (fact.state == LEASE_LEASED && !attempt_id_equal(last, &fact.attempt)) {
        obey(sim, node, &fact.attempt, sim->checkers->leased[node]);
    }
    *last = fact.attempt;
}

/* Who claims while the incumbent lives has not looked, or not asked. */
static void check_claim(struct sim *sim, int node, uint32_t index)
{
    node_id held_by = sim->checkers->watch.incumbent[node][index];
    int incumbent = node_id_is_none(held_by) ? -1 : sim_find_node(sim, held_by);
    bool is_new = sim->now_ms < sim->checkers->watch.incumbent_ms[node][index] + STEADY_MS;
    if (incumbent < 0 || incumbent == node || is_new || sim->plan.has[FAULT_LEAVE] || sim->nodes[incumbent].is_evicted ||
        sim->nodes[node].is_evicted || sim->nodes[incumbent].is_twin || sim->nodes[node].is_twin) {
        return; /* nobody to miss; or it led itself in an earlier life */
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[index].id);
    for (const struct view_claim *claim = seen != NULL ? seen->claims : NULL; claim != NULL; claim = claim->next) {
        if (node_id_equal(claim->writer, held_by) && claim->fact.released) {
            return; /* drained, it has handed over */
        }
    }
    bool is_calm = sim->now_ms >= sim->shaken_until_ms + CALM_MS;
    bool had_peer = false;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct core_peer *peer = core_find_peer(sim->nodes[node].core, sim->nodes[other].id);
        had_peer |= other != incumbent && other != node && sim->checkers->watch.knew_alive[node][other] && peer != NULL &&
                    peer->state == SWIM_ALIVE && peer->up_since_ms + STEADY_MS < sim->nodes[node].core->now_ms;
    }
    uint64_t asked_ms = sim->checkers->watch.asked_ms[node][incumbent];
    bool is_long_ago = sim->now_ms > asked_ms + ASKED_MS && sim->now_ms > sim->nodes[node].calm_from_ms + ASKED_MS;
    if (had_peer && !sim->plan.blurs_time && (asked_ms == 0 || is_long_ago)) {
        sim_fail(sim, 12, "n%d claims experiment %u and has not asked who still hears n%d", node, index, incumbent);
    }
    if (!sim_runs(sim, incumbent) || sim->plan.blurs_time) {
        return;
    }
    const struct node_core *core = sim->nodes[incumbent].core;
    const struct core_coordination *held = core_find_coordination(core, sim->plan.experiments[index].id);
    if (is_calm && held != NULL && held->election.state == ELECTION_LEADING) {
        sim_fail(sim, 12, "n%d claims experiment %u though n%d coordinates it and can be reached by all", node, index,
                 incumbent);
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        bool is_witness = other != node && other != incumbent && sim_runs(sim, other) && !sim->plan.has[FAULT_LOSS] &&
                          network_is_steady(sim, node, other, STEADY_MS) && network_is_steady(sim, incumbent, other, STEADY_MS) &&
                          sim->nodes[node].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          sim->nodes[other].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          sim->nodes[incumbent].calm_from_ms + STEADY_MS <= sim->now_ms &&
                          swim_state_of(&sim->nodes[other].core->swim, sim->nodes[incumbent].id) == SWIM_ALIVE &&
                          swim_state_of(&sim->nodes[node].core->swim, sim->nodes[other].id) == SWIM_ALIVE;
        if (is_witness && held != NULL && held->election.state == ELECTION_LEADING) {
            sim_fail(sim, 12, "n%d claims experiment %u though n%d, which it can ask, hears the coordinator n%d", node, index,
                     other, incumbent);
        }
    }
}

static void on_claim(struct sim *sim, int node, const struct record *record)
{
    struct fact_claim fact;
    experiment_id id;
    int experiment;
    if (fact_claim_read(record, &fact) != 0 || fact_key_read_experiment(record, &id) != 0 ||
        (experiment = checkers_experiment(sim, id)) < 0) {
        return;
    }
    if (fact.released) { /* a drained node hands over: for as long as a fault's, the time without a coordinator is right */
        sim->unstable_until_ms = sim->now_ms > sim->unstable_until_ms ? sim->now_ms : sim->unstable_until_ms;
        return;
    }
    check_claim(sim, node, (uint32_t)experiment);
    if (sim->now_ms < CLAIMS_FROM_MS) {
        return; /* while the mesh comes up, nodes disagree for a moment about who has been up for long enough */
    }
    if (++sim->checkers->claims[experiment] > CLAIMS_MAX && sim->plan.fault_count == 0) {
        sim_fail(sim, 12, "without any fault n%d makes claim %u of experiment %d", node,
                 sim->checkers->claims[experiment], experiment);
    }
}

/* How a worker ended is said once: whoever has heard it has acted on it. */
static void on_worker(struct sim *sim, int node, const struct record *record)
{
    const struct disk_entry *entry =
        disk_find(&sim->nodes[node].disk, record_ident_of(record->writer, record->kind, record->key, record->key_bytes));
    struct record before;
    struct fact_worker fact;
    if (entry != NULL && entry->is_stored && record_version_compare(entry->version, entry->seen) == 0 &&
        record_decode(entry->bytes, entry->byte_count, &before) == 0 && fact_worker_read(&before, &fact) == 0 && fact.state == FACT_WORKER_ENDED) {
        if (!sim->nodes[node].is_twin) { /* its twin may have said it, of another worker */
            sim_fail(sim, 4, "n%d says again what became of a worker, though its end is on its disk", node);
        }
    }
}

static void learn_cancel(struct sim *sim, int node, const struct record *record)
{
    struct fact_control fact;
    experiment_id id;
    int experiment;
    if (fact_control_read(record, &fact) == 0 && fact.cancelled && fact_key_read_experiment(record, &id) == 0 &&
        (experiment = checkers_experiment(sim, id)) >= 0) {
        sim->checkers->watch.cancelled[node][experiment] = true;
    }
}

void checkers_on_record(struct sim *sim, int node, const struct record *record, struct record_version seen, bool own)
{
    if (record_version_compare(record->version, seen) < 0) {
        sim_fail(sim, 7, "n%d takes an older version of a record of kind %u than it had", node, (unsigned)record->kind);
    }
    if (record->kind == FACT_VERDICT) {
        learn_result(sim, node, record);
    } else if (record->kind == FACT_CONTROL) {
        learn_cancel(sim, node, record);
    }
    if (!own) {
        return;
    }
    sim->checkers->last_own_ms = sim->now_ms;
    if (record_version_compare(record->version, seen) == 0) {
        return; /* refused by the disk and written once more: what it says was decided before */
    }
    switch (record->kind) {
    case FACT_ATTEMPT:
        on_attempt(sim, node, record);
        break;
    case FACT_VERDICT:
        on_verdict(sim, node, record);
        break;
    case FACT_MANIFEST:
        on_manifest(sim, node, record);
        break;
    case FACT_SLOT:
        on_slot(sim, node, record);
        break;
    case FACT_CLAIM:
        on_claim(sim, node, record);
        break;
    case FACT_WORKER:
        on_worker(sim, node, record);
        break;
    default:
        break;
    }
}

/* ---- 7: what is said to others is on the disk first ----------------------------------------------------------------- */

static bool is_on_disk(struct sim *sim, int node, record_ident ident, struct record_version version)
{
    const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, ident);
    return entry != NULL && entry->is_stored && record_version_compare(entry->version, version) >= 0;
}

static void check_sent_records(struct sim *sim, int node, const struct message *message)
{
    struct checkers *checkers = sim->checkers;
    if (checkers->sent_bytes == message->bytes && checkers->sent_step == sim->steps) {
        return; /* the same bytes to the next peer */
    }
    checkers->sent_bytes = message->bytes;
    checkers->sent_step = sim->steps;
    for (size_t offset = 0, length; offset < message->byte_count; offset += length) {
        struct record record;
        if (record_length(message->bytes + offset, message->byte_count - offset, &length) != 0 ||
            record_decode(message->bytes + offset, length, &record) != 0) {
            sim_fail(sim, 7, "n%d sends records that do not decode", node);
            return;
        }
        if (!disk_signature_holds(message->bytes + offset, length)) {
            sim_fail(sim, 6, "n%d sends a record of kind %u that is not what its writer signed", node, (unsigned)record.kind);
            return;
        }
        bool is_own = node_id_equal(record.writer, sim->nodes[node].id) && /* of this life: others are relayed */
                      record.version.boot == sim->nodes[node].core->options.boot;
        if (is_own &&
            !is_on_disk(sim, node, record_ident_of(record.writer, record.kind, record.key, record.key_bytes),
                        record.version)) {
            sim_fail(sim, 7, "n%d sends its own record of kind %u before it is on its disk", node, (unsigned)record.kind);
        }
    }
}

/* A coordinator asks for slots under a claim that is on its disk. */
static void check_reserve(struct sim *sim, int node, const attempt_id *attempt)
{
    checkers_met(sim, PREMISE_12_LED);
    struct fact_key key = fact_key_experiment(attempt->experiment);
    const struct disk_entry *entry =
        disk_find(&sim->nodes[node].disk, record_ident_of(sim->nodes[node].id, FACT_CLAIM, key.bytes, key.count));
    struct record record;
    struct fact_claim claim;
    bool is_there = entry != NULL && entry->is_stored && record_decode(entry->bytes, entry->byte_count, &record) == 0 &&
                    fact_claim_read(&record, &claim) == 0;
    if (!is_there || claim.term < attempt->term) {
        sim_fail(sim, 12, "n%d asks for a slot with term %llu, and no such claim is on its disk", node,
                 (unsigned long long)attempt->term);
    }
}

/* At up to 5 % loss nobody says of a node that runs and can be reached that it is dead. */
static void check_rumours(struct sim *sim, int node, const struct swim_message *message)
{
    if (sim->plan.blurs_time || sim->now_ms < sim->shaken_until_ms + CALM_MS) {
        return;
    }
    for (uint32_t i = 0; i < message->rumour_count; i++) {
        const struct swim_rumour *rumour = &message->rumours[i];
        int about = rumour->state == SWIM_DEAD ? sim_find_node(sim, rumour->node) : -1;
        if (about >= 0 && sim_runs(sim, about) && !sim->nodes[about].is_evicted && !sim->nodes[node].is_evicted &&
            !sim->nodes[about].is_twin && !sim->nodes[node].is_twin &&
            rumour->incarnation >= swim_incarnation_of(&sim->nodes[about].core->swim, rumour->node)) {
            sim_fail(sim, 14, "n%d says that n%d is dead, which runs and can be reached", node, about);
        }
    }
}

void checkers_on_send(struct sim *sim, int node, const struct node_effect *effect)
{
    const struct message *message = &effect->u.send.message;
    sim->checkers->watch.sent[node]++;
    switch (message->kind) {
    case MESSAGE_SWIM:
        check_rumours(sim, node, &message->u.swim);
        break;
    case MESSAGE_INCUMBENT_ASK: {
        int about = sim_find_node(sim, message->u.incumbent.about);
        if (about >= 0) {
            sim->checkers->watch.asked_ms[node][about] = sim->now_ms;
        }
        break;
    }
    case MESSAGE_RESERVE:
        check_reserve(sim, node, &message->u.lease.attempt);
        break;
    case MESSAGE_STORED:
        checkers_met(sim, PREMISE_7_STORED);
        if (!is_on_disk(sim, node, message->u.stored.ident, message->u.stored.version)) {
            sim_fail(sim, 7, "n%d says that it stored a record that is not on its disk", node);
        }
        break;
    case MESSAGE_RECORDS:
        check_sent_records(sim, node, message);
        break;
    case MESSAGE_RESERVE_ANSWER:
    case MESSAGE_CONFIRM_ANSWER:
        if (message->u.lease.code == 0 && message->kind == MESSAGE_RESERVE_ANSWER && sim->nodes[node].core->syncing) {
            sim_fail(sim, 12, "n%d grants a slot before it has pulled from the others", node);
        }
        if (message->u.lease.code == 0) {
            obey(sim, node, &message->u.lease.attempt, sim->checkers->answered[node]);
        }
        break;
    default:
        break;
    }
}

static void check_state(struct sim *sim, int node, bool from_disk)
{
    const struct disk *disk = &sim->nodes[node].disk;
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        const struct disk_entry *entry = &disk->entries[i];
        if (!entry->is_used || entry->is_fence || entry->seen.boot == 0) {
            continue;
        }
        struct record_version least = from_disk ? entry->version : entry->seen;
        const struct records_entry *held = records_find(&core->records, entry->ident);
        if (held == NULL || record_version_compare(held->record.version, least) < 0) {
            sim_fail(sim, 7, "n%d %s a record of kind %u that it had", node, held == NULL ? "forgot" : "went back in",
                     (unsigned)entry->kind);
            return;
        }
        if (from_disk && entry->kind == FACT_VERDICT) {
            learn_result(sim, node, &held->record);
        } else if (from_disk && entry->kind == FACT_CONTROL) {
            learn_cancel(sim, node, &held->record);
        }
    }
}

/* ---- the daemon comes and goes -------------------------------------------------------------------------------------- */

void checkers_on_gone(struct sim *sim, int node, const struct worker_process *process, int32_t code, bool is_killed)
{
    int experiment = checkers_experiment(sim, process->attempt.experiment);
    bool is_own_failure = !is_killed && code != 0 && code != WORKERS_ECHO_STATUS;
    if (experiment < 0 || !is_own_failure) {
        return;
    }
    struct trial *trial = &sim->checkers->trials[experiment][process->attempt.trial];
    trial->failed_on |= 1u << node;
    if (!attempt_id_equal(&trial->failed_last, &process->attempt)) {
        trial->failed_last = process->attempt;
        trial->failure_count++;
    }
}

void checkers_on_down(struct sim *sim, int node)
{
    memset(sim->checkers->results[node], 0, sizeof sim->checkers->results[node]);
    memset(sim->checkers->leased[node], 0, sizeof sim->checkers->leased[node]);
    memset(sim->checkers->watch.incumbent[node], 0, sizeof sim->checkers->watch.incumbent[node]);
    memset(sim->checkers->watch.asked_ms[node], 0, sizeof sim->checkers->watch.asked_ms[node]);
    memset(sim->checkers->watch.cancelled[node], 0, sizeof sim->checkers->watch.cancelled[node]);
}

/* A fence is [experiment, term, node]; none was forgotten. */
static void check_fences(struct sim *sim, int node)
{
    const struct disk *disk = &sim->nodes[node].disk;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        const struct disk_entry *entry = &disk->entries[i];
        if (!entry->is_used || !entry->is_stored || !entry->is_fence) {
            continue;
        }
        struct pack_reader reader;
        experiment_id experiment;
        struct election_claim claim;
        pack_reader_init(&reader, entry->bytes, entry->byte_count);
        (void)pack_read_array(&reader);
        pack_read_bin_exact(&reader, experiment.bytes, sizeof experiment.bytes);
        claim.term = pack_read_u64(&reader);
        pack_read_bin_exact(&reader, claim.node.bytes, sizeof claim.node.bytes);
        if (core_is_deleted(sim->nodes[node].core, experiment)) {
            continue; /* a crash came before it was taken off the disk */
        }
        checkers_met(sim, PREMISE_12_FENCE);
        if (reader.failed || election_claim_compare(core_fence_get(sim->nodes[node].core, experiment), claim) < 0) {
            sim_fail(sim, 12, "n%d has forgotten in a restart that it obeyed term %llu", node,
                     (unsigned long long)claim.term);
        }
    }
}

void checkers_on_boot(struct sim *sim, int node)
{
    if (sim->nodes[node].life > 1) {
        checkers_met(sim, PREMISE_7_RESTART);
    }
    check_state(sim, node, true);
    check_fences(sim, node);
    checkers_tokens(sim, node);
}

/* ---- 3: promises ---------------------------------------------------------------------------------------------------- */

static bool disk_holds(struct sim *sim, int node, uint32_t experiment, enum fact_kind kind)
{
    struct fact_key key = fact_key_experiment(sim->plan.experiments[experiment].id);
    for (uint32_t i = 0; i < 2 * sim->machines; i++) {
        const struct sim_node *writer = &sim->nodes[i / 2];
        node_id id = i % 2 == 0 ? writer->id : writer->was;
        const struct disk_entry *entry =
            disk_find(&sim->nodes[node].disk, record_ident_of(id, (uint16_t)kind, key.bytes, key.count));
        struct record record;
        struct fact_control control;
        if (entry == NULL || !entry->is_stored || record_decode(entry->bytes, entry->byte_count, &record) != 0) {
            continue;
        }
        if (kind != FACT_CONTROL || (fact_control_read(&record, &control) == 0 && control.cancelled)) {
            return true;
        }
    }
    return false;
}

uint32_t checkers_disks_with(struct sim *sim, uint32_t experiment, enum fact_kind kind)
{
    uint32_t disks = 0;
    for (uint32_t node = 0; node < sim->machines; node++) {
        disks |= disk_holds(sim, (int)node, experiment, kind) ? 1u << node : 0;
    }
    return disks;
}

static const char *promise_name(enum fact_kind kind)
{
    return kind == FACT_EXPERIMENT ? "submit" : kind == FACT_CONTROL ? "cancel" : "delete";
}

void checkers_on_promise(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                         enum fact_kind kind)
{
    if (kind != FACT_TOMBSTONE && checkers_disks_with(sim, experiment, FACT_TOMBSTONE) != 0) {
        return; /* deleted meanwhile: the tombstone speaks for it */
    }
    if (promise->stored_on >= 2 && kind != FACT_TOMBSTONE) {
        checkers_met(sim, kind == FACT_CONTROL ? PREMISE_3_CANCEL_ON_TWO : PREMISE_3_SUBMIT_ON_TWO);
    }
    uint32_t disks = (uint32_t)__builtin_popcount(promise->disks);
    uint64_t other_disk_ms = sim->checkers->other_disk_ms;
    if (other_disk_ms != 0 && sim->now_ms < other_disk_ms + 2 * CORE_ACK_MS) {
        return; /* who has said that it is stored there has lost its disk meanwhile */
    }
    if (promise->stored_on < 1 || disks < promise->stored_on) {
        sim_fail(sim, 3, "n%d says that the %s of experiment %u is stored on %u nodes; it is on %u disks", node,
                 promise_name(kind), experiment, promise->stored_on, disks);
    }
}

void checkers_on_other_disk(struct sim *sim, int node)
{
    checkers_met(sim, PREMISE_3_OTHER_DISK);
    sim->checkers->other_disk_ms = sim->now_ms;
    memset(sim->checkers->answered[node], 0, sizeof sim->checkers->answered[node]);
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        struct users_experiment *promised = &sim->users->experiments[e];
        promised->submitted.disks &= disk_holds(sim, node, e, FACT_EXPERIMENT) ? UINT32_MAX : ~(1u << node);
        promised->cancelled.disks &= disk_holds(sim, node, e, FACT_CONTROL) ? UINT32_MAX : ~(1u << node);
        promised->deleted.disks &= disk_holds(sim, node, e, FACT_TOMBSTONE) ? UINT32_MAX : ~(1u << node);
    }
}

static void check_promise(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                          enum fact_kind kind)
{
    if (!promise->is_acknowledged || (promise->disks & sim->plan.core) == 0) {
        return;
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    if ((promise->disks & ~sim->plan.core) != 0) {
        checkers_met(sim, PREMISE_3_LOST_ONE);
    }
    bool is_kept = core_is_deleted(sim->nodes[node].core, sim->plan.experiments[experiment].id) ||
                   (kind == FACT_EXPERIMENT && seen != NULL && seen->known) ||
                   (kind == FACT_CONTROL && seen != NULL && view_experiment_cancelled(seen));
    if (!is_kept) {
        sim_fail(sim, 3, "n%d does not know of the %s of experiment %u, acknowledged as stored on %u nodes", node,
                 promise_name(kind), experiment, promise->stored_on);
    }
}

/* ---- 10: deletion ---------------------------------------------------------------------------------------------------- */

struct remains {
    experiment_id experiment;
    uint32_t count;
};

static bool count_remains(void *context, const struct records_entry *entry)
{
    struct remains *remains = context;
    experiment_id about;
    remains->count +=
        fact_is_of_experiment(&entry->record, &about) && experiment_id_equal(about, remains->experiment);
    return true;
}

/* Nothing of what it knows to be deleted runs, or is held in memory or on the disk. */
static void check_deleted(struct sim *sim, int node, uint32_t experiment)
{
    const struct sim_node *self = &sim->nodes[node];
    struct remains remains = {sim->plan.experiments[experiment].id, 0};
    if (!core_is_deleted(self->core, remains.experiment)) {
        return;
    }
    checkers_met(sim, PREMISE_10_DELETED);
    if ((sim->checkers->ran[node] >> experiment & 1) != 0) {
        checkers_met(sim, PREMISE_10_RAN);
    }
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &self->processes[slot];
        if (process->is_alive && experiment_id_equal(process->attempt.experiment, remains.experiment)) {
            sim_fail(sim, 10, "n%d still runs trial %u of experiment %u, which is deleted", node, process->attempt.trial,
                     experiment);
            return;
        }
    }
    records_each(&self->core->records, count_remains, &remains);
    for (uint32_t i = 0; i < self->disk.capacity; i++) {
        struct record record;
        const struct disk_entry *entry = &self->disk.entries[i];
        if (entry->is_stored && !entry->is_fence && record_decode(entry->bytes, entry->byte_count, &record) == 0) {
            (void)count_remains(&remains, &(struct records_entry){.record = record});
        }
    }
    if (remains.count > 0 || view_find_experiment(&self->core->view, remains.experiment) != NULL) {
        sim_fail(sim, 10, "n%d still has %u records of experiment %u, which is deleted", node, remains.count, experiment);
    }
}

/* ---- the heal and after --------------------------------------------------------------------------------------------- */

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

/* Who was long away is found again by the probes that the dead get now and then: the more are dead for ever, the later. */
static bool have_met(const struct sim *sim)
{
    for (int a = 0; a < (int)sim->plan.node_count; a++) {
        for (int b = 0; checkers_in_core(sim, a) && b < (int)sim->plan.node_count; b++) {
            const struct node_core *core = sim->nodes[a].core;
            if (a != b && checkers_in_core(sim, b) &&
                (core == NULL || swim_state_of(&core->swim, sim->nodes[b].id) != SWIM_ALIVE)) {
                return false;
            }
        }
    }
    return true;
}

static void check_same_state(struct sim *sim)
{
    if (!sim->healed || __builtin_popcount(sim->plan.core) < 2) {
        return;
    }
    if (!have_met(sim)) {
        sim->checkers->apart_ms = sim->now_ms;
        if (sim->now_ms >= sim->unstable_until_ms + MEET_MS) {
            sim_fail(sim, 5, "%llu ms after the heal the nodes of the core have not found each other",
                     (unsigned long long)(sim->now_ms - sim->unstable_until_ms));
        }
        return;
    }
    uint64_t since_ms = sim->unstable_until_ms;
    since_ms = since_ms > sim->checkers->last_own_ms ? since_ms : sim->checkers->last_own_ms;
    since_ms = since_ms > sim->checkers->apart_ms ? since_ms : sim->checkers->apart_ms;
    if (sim->now_ms < since_ms + SETTLE_MS) {
        return;
    }
    int first = -1;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (!checkers_in_core(sim, node)) {
            continue;
        }
        CHECK(sim->nodes[node].core != NULL);
        if (first < 0) {
            first = node;
        } else if (!records_hash_equal(sim->nodes[first].core->records.hash, sim->nodes[node].core->records.hash)) {
            sim_fail(sim, 5, "n%d holds %u records, n%d %u, and they differ; nothing was written for %llu ms", first,
                     sim->nodes[first].core->records.count, node, sim->nodes[node].core->records.count,
                     (unsigned long long)(sim->now_ms - since_ms));
        }
    }
    checkers_met(sim, PREMISE_5_SAME_STATE);
}

static void describe_elections(const struct sim *sim, uint32_t experiment, char *out, size_t size)
{
    static const char *const states[] = {"follows", "asks", "waits", "leads"};
    size_t used = 0;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        const struct node_core *core = sim->nodes[node].core;
        const struct core_coordination *coordination =
            core != NULL ? core_find_coordination(core, sim->plan.experiments[experiment].id) : NULL;
        if (coordination != NULL) {
            const struct election *election = &coordination->election;
            used += format_text(out + used, size - used, " n%d %s (term %llu of n%d);", node, states[election->state],
                                (unsigned long long)election->highest.term, sim_find_node(sim, election->highest.node));
        }
    }
}

static void check_one_coordinator(struct sim *sim)
{
    if (sim->now_ms < sim->unstable_until_ms + ELECT_MS) {
        return;
    }
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct users_promise *promise = &sim->users->experiments[e].submitted;
        if (!promise->is_acknowledged || sim->now_ms < promise->at_ms + ELECT_MS) {
            continue;
        }
        uint32_t leaders = 0, live = 0, up = 0;
        for (int node = 0; node < (int)sim->machines; node++) {
            const struct node_core *core = sim->nodes[node].core;
            if (core == NULL || sim->nodes[node].is_evicted) {
                continue;
            }
            const struct core_coordination *coordination =
                core_find_coordination(core, sim->plan.experiments[e].id);
            const struct view_experiment *seen = view_find_experiment(&core->view, sim->plan.experiments[e].id);
            up++;
            live += seen != NULL && seen->known && view_experiment_live(seen);
            leaders += coordination != NULL && coordination->election.state == ELECTION_LEADING;
        }
        if (live < up || up == 0) {
            continue; /* over for some already */
        }
        checkers_met(sim, PREMISE_12_ONE_COORDINATOR);
        if (leaders != 1) {
            char who[SIM_TEXT_BYTES / 2];
            describe_elections(sim, e, who, sizeof who);
            sim_fail(sim, 12, "experiment %u has %u coordinators %llu ms after the last fault:%s", e, leaders,
                     (unsigned long long)(sim->now_ms - sim->unstable_until_ms), who);
        }
    }
}

void checkers_second(struct sim *sim)
{
    bool is_tenth = (sim->now_ms / 1000) % 10 == 0;
    for (int node = 0; node < (int)sim->plan.node_count && !sim->failed; node++) {
        if (sim->nodes[node].core == NULL) {
            continue;
        }
        checkers_tokens(sim, node);
        if (is_tenth) {
            check_state(sim, node, false);
            check_results(sim, node, sim->checkers->results[node], "it knew it before");
        }
    }
    checkers_watch(sim);
    twins_watch(sim);
    check_same_state(sim);
    check_one_coordinator(sim);
}

/* ---- 8 and the rest of 3 and 4: the end ----------------------------------------------------------------------------- */

/* An experiment that asked for it starts nothing on a side with less than half of the roster, at half on the side without
 * the lowest id; also when the others are not cut off but gone for ever. */
static bool waits_for_majority(const struct sim *sim, const struct plan_experiment *experiment)
{
    int lowest = 0;
    for (int node = 1; node < (int)sim->plan.node_count; node++) {
        lowest = node_id_compare(sim->nodes[node].id, sim->nodes[lowest].id) < 0 ? node : lowest;
    }
    uint32_t alive = (uint32_t)__builtin_popcount(sim->plan.core);
    bool has_more = twins_machine(sim) >= 0; /* one more is on the roster, perhaps */
    return experiment->pauses_minority && (has_more || alive * 2 < sim->plan.node_count ||
                                           (alive * 2 == sim->plan.node_count && !checkers_in_core(sim, lowest)));
}

static void check_finished(struct sim *sim, int node, uint32_t e)
{
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, plan->id);
    const struct worker_blob *code = workers_blob(sim, plan->code);
    if (!sim->users->experiments[e].submitted.is_acknowledged) {
        sim_fail(sim, 8, "nobody ever took experiment %u", e);
        return;
    }
    bool is_runnable = code != NULL && (code->holders & sim->plan.core) != 0 && seen != NULL && seen->known;
    if (!is_runnable || waits_for_majority(sim, plan)) {
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
    /* With a program that ends because another rank did, and a network that hides why, the coordinator can only guess. */
    bool had_reason = plan->fails_fast && plan_hides_ends(&sim->plan);
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX; t++) {
        const struct trial *trial = &sim->checkers->trials[e][t];
        had_reason |= trial->failure_count > plan->max_restarts ||
                      __builtin_popcount(trial->failed_on) >= VIEW_QUARANTINE_NODES;
        const struct view_trial *known = view_find_trial(seen, t);
        had_reason |= known != NULL && view_trial_quarantine(known, NULL, NULL) == VIEW_QUARANTINE_DEATHS &&
                      plan_isolates(&sim->plan); /* machines died, or nobody could tell that they had not */
    }
    if (state == VIEW_FAILED && !had_reason) {
        sim_fail(sim, 8, "on n%d experiment %u failed, though no trial's program failed more than %u times or on three nodes, "
                 "and no machine died under one", node, e, plan->max_restarts);
    }
}

void checkers_end(struct sim *sim)
{
    uint32_t results[PLAN_EXPERIMENTS_MAX] = {0};
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        for (uint32_t e = 0; checkers_in_core(sim, node) && e < sim->plan.experiment_count; e++) {
            results[e] |= sim->checkers->results[node][e];
        }
    }
    for (int node = 0; node < (int)sim->plan.node_count && !sim->failed; node++) {
        if (!checkers_in_core(sim, node)) {
            continue;
        }
        CHECK(sim->nodes[node].core != NULL);
        check_state(sim, node, false);
        if (node == (int)(sim->seed % sim->plan.node_count) || (sim->plan.core & (sim->plan.core - 1)) == 0) {
            checkers_fold(sim, node);
        }
        check_results(sim, node, results, "another node has its result");
        for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
            check_promise(sim, node, e, &sim->users->experiments[e].submitted, FACT_EXPERIMENT);
            check_promise(sim, node, e, &sim->users->experiments[e].cancelled, FACT_CONTROL);
            check_promise(sim, node, e, &sim->users->experiments[e].deleted, FACT_TOMBSTONE);
            check_deleted(sim, node, e);
            check_finished(sim, node, e);
        }
    }
}

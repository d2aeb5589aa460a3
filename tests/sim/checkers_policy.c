/* Invariants 9 and 13, of what policies bound: how often a trial runs at once, who starts nothing on the smaller side
 * of a cut, which nodes and trials are in quarantine, and that what fits is begun. */

#include <string.h>

#include "node/core/coordinator/coordination.h"
#include "node/core/members/links.h"
#include "node/core/members/quarantine.h"
#include "node/core/owner/owner.h"
#include "tests/sim/checkers_inside.h"

#define SIDE_SETTLES_MS \
    30000 /* who was dead is found again within that time, and a side has a coordinator that judges */
#define FITS_MS 60000
#define FITS_AFTER_LOSSES_MS (CORE_NEVER_RAN_WAIT_MAX_MS + FITS_MS)
#define QUARANTINE_LATE_MS 3000
#define QUARANTINE_KNOWN_MS (CORE_GANG_RESERVE_MS + CORE_SLOT_BACKOFF_MS) /* gangs that were begun before are over */

/* ---- sides of a cut ---------------------------------------------------------------------------------------------- */

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t undisturbed_ms(const struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    return later(later(self->slow_until_ms, self->paused_until_ms), sim->checkers->policy.hindered_ms[node]);
}

/* Since when the two have reached each other both ways, undisturbed: they are on one side of whatever cuts the mesh.
 * Later than now: they are not. */
uint64_t checkers_together_ms(const struct sim *sim, int a, int b)
{
    const struct network_link *there = &sim->network.links[a][b], *back = &sim->network.links[b][a];
    uint64_t links_ms =
        later(later(there->cut_until_ms, back->cut_until_ms), later(there->queued_until_ms, back->queued_until_ms));
    links_ms = later(links_ms, sim->healed_ms);
    bool is_blurred = !sim->healed && (sim->plan.blurs_time || sim->plan.has[FAULT_LOSS]);
    bool is_one = sim_runs(sim, a) && sim_runs(sim, b) && !is_blurred && versions_agree(sim, a, b, 0);
    return is_one ? later(later(undisturbed_ms(sim, a), undisturbed_ms(sim, b)), a != b ? links_ms : 0) : UINT64_MAX;
}

/* Of two machines with one key the mesh believes one; who is out or goes is on no side. */
bool checkers_is_itself(const struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    return node < (int)sim->plan.node_count && !self->is_twin && !self->is_evicted && !self->leaves &&
           node_id_is_none(self->was);
}

static void watch_hindered(struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    if (self->core == NULL || self->core->members->syncing || self->disk.is_full) {
        sim->checkers->policy.hindered_ms[node] = sim->now_ms;
    }
}

/* ---- 9: how often a trial runs at once ----------------------------------------------------------------------------
 */

struct living {
    const struct worker_process *process;
    int node;
    uint32_t slot;
};

/* Of two coordinators with one key neither knows what the other one has begun. */
static bool is_of_twin(const struct sim *sim, const attempt_id *attempt)
{
    int maker = sim_find_node(sim, attempt->coordinator);
    return maker >= 0 && sim->nodes[maker].is_twin;
}

/* DESIGN 7: each connected part of the mesh has one coordinator for an experiment, and may run what runs in another
 * part, too; DESIGN 5: of a trial's attempts the highest counts. So parts that are connected again soon have one
 * attempt of it left: no more attempts of a trial live at once than there are sides now, or were until so short a time
 * ago that they have not settled, and what is being killed. Whoever lives on, beyond a cut, is a duplicate that the
 * policy allows; and so is who has not heard yet what the other side had judged. */
static bool are_twice_on_one_side(struct sim *sim, const struct living *a, const struct living *b)
{
    const attempt_id *one = &a->process->attempt, *two = &b->process->attempt;
    if (!experiment_id_equal(one->experiment, two->experiment) || one->trial != two->trial ||
        !checkers_is_itself(sim, a->node) || !checkers_is_itself(sim, b->node)) {
        return false;
    }
    if (attempt_id_equal(one, two)) {
        if (a->process->number == b->process->number && !checkers_name_is_ambiguous(sim, one) &&
            !a->process->is_elastic) { /* else two sides may count their joiners alike */
            sim_fail(sim, 9, "worker %u of trial %u attempt %u lives on n%d and on n%d", a->process->number, one->trial,
                     one->number, a->node, b->node);
        }
        return false;
    }
    if (is_of_twin(sim, one) || is_of_twin(sim, two)) {
        return false;
    }
    checkers_met(sim, PREMISE_9_TWICE);
    bool are_together = checkers_together_ms(sim, a->node, b->node) < sim->now_ms;
    if (are_together) {
        checkers_met(sim, PREMISE_9_TWICE_TOGETHER);
    }
    return are_together;
}

/* Another attempt of its trial lives on its side. */
static void watch_twice(struct sim *sim, const struct living *worker, bool is_twice)
{
    uint64_t *since_ms = &sim->checkers->policy.twice_ms[worker->node][worker->slot];
    *since_ms = !is_twice ? 0 : *since_ms == 0 ? sim->now_ms : *since_ms;
    if (is_twice && sim->now_ms - *since_ms > SIDE_SETTLES_MS) {
        sim_fail(sim, 9, "attempt %u of trial %u runs on n%d, and so has another one on its side for %llu ms",
                 worker->process->attempt.number, worker->process->attempt.trial, worker->node,
                 (unsigned long long)(sim->now_ms - *since_ms));
    }
}

static void watch_duplicates(struct sim *sim)
{
    struct living living[PLAN_NODES_MAX * PLAN_SLOTS_MAX];
    bool is_twice[PLAN_NODES_MAX * PLAN_SLOTS_MAX] = {false};
    uint32_t count = 0;
    for (int node = 0; node < (int)sim->machines; node++) {
        for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
            const struct worker_process *process = &sim->nodes[node].processes[slot];
            if (process->is_alive && !process->is_killed && !process->is_stopping && !process->is_lost) {
                living[count++] = (struct living){process, node, slot};
            } else {
                sim->checkers->policy.twice_ms[node][slot] = 0;
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            bool are_two = are_twice_on_one_side(sim, &living[j], &living[i]);
            is_twice[i] |= are_two;
            is_twice[j] |= are_two;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        watch_twice(sim, &living[i], is_twice[i]);
    }
}

/* ---- 9: nodes and trials in quarantine -----------------------------------------------------------------------------
 */

/* DESIGN 7: a trial is quarantined "if it fails on 3 distinct nodes from the same step, or if its host dies within 60 s
 * of its start twice", and max_restarts counts the program's own failures. Failures between which it has got on count
 * anew, deaths for which another trial may be to blame only when there are three (node/core/view/failures.c). After a retry,
 * `retried`, only what was made with knowledge of it counts. */
static bool is_given_up(const struct view_experiment *experiment, const struct view_trial *trial, uint64_t retried)
{
    node_id nodes[3];
    uint32_t count = 0, deaths = 0, alone = 0, failures = 0;
    uint64_t step = 0;
    hash256 files = {{0}}; /* with which the last failure began */
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_death *death = a->retried >= retried ? view_attempt_death(a) : NULL;
        alone += deaths > 0 && death != NULL && death->fact.suspects == 0;
        deaths += death != NULL;
        const struct view_verdict *verdict = a->retried >= retried ? view_attempt_verdict(a) : NULL;
        if (verdict == NULL || verdict->reason != FACT_FAILED) {
            continue;
        }
        failures++;
        node_id host = view_attempt_node(a);
        bool is_known = node_id_is_none(host);
        hash256 begun = {{0}};
        begun = a->beginning_count > 0 ? a->beginnings[0].blob : begun;
        count = (a->start_step == step && hash256_equal(begun, files)) || is_known ? count : 0;
        step = is_known ? step : a->start_step;
        files = is_known ? files : begun;
        for (uint32_t i = 0; i < count; i++) {
            is_known |= node_id_equal(nodes[i], host);
        }
        if (!is_known) {
            nodes[count++] = host;
        }
        if (count == 3) {
            return true;
        }
    }
    return deaths >= 3 || alone > 0 || failures > experiment->config->max_restarts;
}

/* A trial that is given up is never begun again: no coordinator that knows has a gang for it, once those are over that
 * it began before it knew. */
static void watch_given_up(struct sim *sim, int node, uint32_t e, const struct core_coordination *row,
                           const struct view_experiment *experiment)
{
    for (uint32_t t = 0; t < PLAN_TRIALS_MAX && t < experiment->trial_slots; t++) {
        const struct view_trial *trial = experiment->trials[t];
        uint64_t *since_ms = &sim->checkers->policy.given_up_ms[node][e][t];
        if (trial == NULL || view_trial_completed(trial) != NULL || !is_given_up(experiment, trial, view_trial_retried(trial))) {
            *since_ms = 0;
            continue;
        }
        checkers_met(sim, PREMISE_9_GIVEN_UP);
        *since_ms = *since_ms == 0 ? sim->now_ms : *since_ms;
        for (const struct core_gang *gang = row->gangs; gang != NULL; gang = gang->next) {
            if (gang->attempt.trial == t && !gang->is_joining && gang->state == CORE_GANG_RESERVING &&
                *since_ms < sim->now_ms) { /* a second ago already */
                sim_fail(sim, 9, "n%d asks for slots for trial %u, which it has known to be given up for %llu ms", node,
                         t, (unsigned long long)(sim->now_ms - *since_ms));
            }
        }
    }
}

void checkers_on_begun(struct sim *sim, int node, const attempt_id *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(&sim->nodes[node].core->view, attempt->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, attempt->trial) : NULL;
    uint64_t retried = view_trial_retried(trial);
    if (retried != 0) {
        checkers_met(sim, PREMISE_9_RETRIED);
    }
    if (retried != 0 && is_given_up(experiment, trial, 0)) {
        checkers_met(sim, PREMISE_9_RETRIED_FAILED);
    }
    if (trial != NULL && experiment->known && is_given_up(experiment, trial, retried)) {
        sim_fail(sim, 9,
                 "n%d makes attempt %u of trial %u, which failed too often, or on three nodes, or took its hosts down",
                 node, attempt->number, attempt->trial);
    }
}

/* DESIGN 7: a failure counts only if the trial's experiment works on another node, and a worker that could not be started only
 * if another node has started one. So an experiment of which a worker failed on this node has had a worker on another node that
 * started and did not fail, or one of which a worker could not be started here has had one that started there. */
static bool knows_a_difference(const struct node_core *core, node_id self)
{
    for (uint32_t e = 0; e < core->view.experiment_count; e++) {
        const struct view_experiment *experiment = core->view.experiments[e];
        bool fails_here = false, is_unstarted_here = false, works_elsewhere = false, starts_elsewhere = false;
        for (uint32_t i = 0; i < experiment->trial_slots; i++) {
            const struct view_trial *trial = experiment->trials[i];
            for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
                for (const struct view_worker *w = a->workers; w != NULL; w = w->next) {
                    bool is_here = node_id_equal(w->writer, self), has_ended = w->state == FACT_WORKER_ENDED;
                    fails_here |= is_here && has_ended && w->reason != FACT_COMPLETED;
                    is_unstarted_here |= is_here && has_ended && !w->has_started;
                    starts_elsewhere |= !is_here && w->has_started;
                    works_elsewhere |= !is_here && w->has_started && !(has_ended && w->reason == FACT_FAILED);
                }
            }
        }
        if ((fails_here && works_elsewhere) || (is_unstarted_here && starts_elsewhere)) {
            return true;
        }
    }
    return false;
}

/* DESIGN 7: a node is in quarantine "for a growing while if 3 different trials fail there within 60 s of their
 * start". Its own word says so; where two had one key, either's. */
void checkers_on_quarantine(struct sim *sim, int node, const struct record *record)
{
    struct policy *policy = &sim->checkers->policy;
    struct fact_quarantine fact;
    if (fact_quarantine_read(record, &fact) != 0) {
        sim_fail(sim, 9, "n%d writes a quarantine that does not decode", node);
        return;
    }
    uint32_t next =
        policy->level[node] < FACT_QUARANTINE_LEVEL_MAX ? policy->level[node] + 1 : FACT_QUARANTINE_LEVEL_MAX;
    uint32_t minutes = next < FACT_QUARANTINE_LEVEL_MAX ? 1u << (next - 1) : 60;
    bool is_ambiguous = sim->nodes[node].is_twin;
    if (fact.is_active) {
        checkers_met(sim, PREMISE_9_QUARANTINED);
        policy->quarantine_ms[node] = sim->now_ms;
        if (!is_ambiguous && !knows_a_difference(sim->nodes[node].core, sim->nodes[node].id)) {
            sim_fail(sim, 9, "n%d is in quarantine, and no experiment that fails there works on another node", node);
        }
        if ((fact.level != next || fact.minutes != minutes) && !is_ambiguous) {
            sim_fail(sim, 9, "n%d is in quarantine for %u min, the %u-th time in a row; it should be %u min", node,
                     fact.minutes, next, minutes);
        }
    } else if (fact.level != policy->level[node] && fact.level != 0 && !is_ambiguous) {
        sim_fail(sim, 9, "n%d ends its quarantine and says that it was the %u-th in a row, not the %u-th", node,
                 fact.level, policy->level[node]);
    }
    policy->level[node] = fact.level;
}

/* What it said in a life that its disk does not know of holds still, for as long as it said. */
void checkers_learn_quarantine(struct sim *sim, int node, const struct record *record)
{
    struct fact_quarantine fact;
    if (node_id_equal(record->writer, sim->nodes[node].id) && fact_quarantine_read(record, &fact) == 0) {
        sim->checkers->policy.level[node] = fact.level;
        sim->checkers->policy.quarantine_ms[node] = sim->now_ms;
    }
}

static bool is_withheld(const struct view_slot *slot)
{
    return slot->state == LEASE_WITHHELD || slot->withheld;
}

static void watch_withheld(struct sim *sim, int node, const struct view_member *member)
{
    int other = sim_find_node(sim, member->id);
    for (uint32_t slot = 0; other >= 0 && member->slots != NULL && slot < member->slot_count && slot < PLAN_SLOTS_MAX; slot++) {
        if (is_withheld(&member->slots[slot])) {
            sim->checkers->policy.withheld_ms[node][other][slot] = sim->now_ms;
        }
    }
}

static void watch_joined(struct sim *sim, int node, bool any_in_quarantine)
{
    for (int a = 0; a < (int)sim->plan.node_count; a++) {
        for (int b = 0; b < a; b++) {
            const node_id pair[2] = {sim->nodes[a].id, sim->nodes[b].id};
            char network[FACT_NETWORK_BYTES];
            node_id apart[2];
            bool is_joined = any_in_quarantine &&
                             links_common(sim->nodes[node].core, pair, 2, network, &apart[0], &apart[1]);
            uint64_t *since_ms = &sim->checkers->policy.joined_ms[node][a][b];
            *since_ms = !is_joined ? 0 : *since_ms == 0 ? sim->now_ms : *since_ms;
        }
    }
}

static void watch_quarantine(struct sim *sim, int node)
{
    struct policy *policy = &sim->checkers->policy;
    const struct node_core *core = sim->nodes[node].core;
    const struct view_member *self = view_find_member(&core->view, sim->nodes[node].id);
    struct fact_quarantine said = self != NULL ? self->quarantine : (struct fact_quarantine){0};
    uint64_t lasts_ms = said.minutes * 61000ull + QUARANTINE_LATE_MS; /* clocks drift */
    if (said.is_active && sim->nodes[node].calm_from_ms <= policy->quarantine_ms[node] &&
        sim->now_ms > policy->quarantine_ms[node] + lasts_ms) {
        sim_fail(sim, 9, "n%d has been in quarantine for %llu ms, and it was to last for %u min", node,
                 (unsigned long long)(sim->now_ms - policy->quarantine_ms[node]), said.minutes);
    }
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        uint64_t *since_ms = &policy->taking_ms[node][other];
        *since_ms = !core_node_accepts(core, sim->nodes[other].id) ? 0 : *since_ms == 0 ? sim->now_ms : *since_ms;
    }
    bool any_in_quarantine = false;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        watch_withheld(sim, node, core->view.members[i]);
        any_in_quarantine |= core->view.members[i]->quarantine.is_active;
        int other = core->view.members[i]->quarantine.is_active ? sim_find_node(sim, core->view.members[i]->id) : -1;
        if (other >= 0 && policy->known_ms[node][other] == 0) {
            policy->known_ms[node][other] = sim->now_ms;
        }
        other = core->view.members[i]->quarantine.level > 0 && other < 0 ? sim_find_node(sim, core->view.members[i]->id)
                                                                         : -1;
        if (other >= 0) {
            policy->known_ms[node][other] = 0;
        }
    }
    watch_joined(sim, node, any_in_quarantine);
}

/* A slot that could be asked for, now or once it is free, and so it was when the gang was begun: one that refused then may have
 * been another coordinator's, and one that was withheld then its owner's. */
static bool is_usable(const struct sim *sim, int node, const struct view_member *member, uint32_t slot)
{
    const struct node_core *core = sim->nodes[node].core;
    int host = sim_find_node(sim, member->id);
    uint64_t withheld_ms = host >= 0 && slot < PLAN_SLOTS_MAX ? sim->checkers->policy.withheld_ms[node][host][slot] : 0;
    bool was_withheld = withheld_ms != 0 && sim->now_ms - withheld_ms <= QUARANTINE_KNOWN_MS;
    const struct core_peer *peer = core_find_peer(core, member->id);
    bool is_refusing = peer != NULL ? peer->unwilling_ms != 0 : !core->owner->lease.granting; /* all of its slots */
    for (uint32_t i = 0; i < CORE_BACKOFFS_MAX; i++) {
        const struct core_backoff *backoff = &core->coordinator->backoffs[i];
        is_refusing |= backoff->slot == slot && node_id_equal(backoff->node, member->id) &&
                       backoff->until_ms + QUARANTINE_KNOWN_MS > core->now_ms;
    }
    return !is_withheld(&member->slots[slot]) && !was_withheld && !is_refusing;
}

/* Another node is preferred for this trial, if only for a while. */
static bool is_left_out(const struct view_trial *trial, node_id node)
{
    return core_quarantine_avoids(trial, node) || core_quarantine_unstarted_count(trial, &node) > 0;
}

/* The most slots on nodes of which the coordinator knew, when the gang was begun, that every two reach each other: no group is
 * made of others. (All nodes have one address, so every two have the same network in common.) */
static uint32_t most_joined(const struct sim *sim, int node, const uint32_t slots[PLAN_NODES_MAX])
{
    uint32_t most = 0;
    for (uint32_t set = 1; set < 1u << sim->plan.node_count; set++) {
        uint32_t sum = 0;
        bool is_joined = true;
        for (uint32_t a = 0; a < sim->plan.node_count; a++) {
            sum += set >> a & 1 ? slots[a] : 0;
            for (uint32_t b = 0; b < a; b++) {
                uint64_t joined_ms = sim->checkers->policy.joined_ms[node][a][b];
                bool is_pair = (set >> a & 1) != 0 && (set >> b & 1) != 0;
                is_joined &= !is_pair || (joined_ms != 0 && sim->now_ms - joined_ms > QUARANTINE_KNOWN_MS);
            }
        }
        most = is_joined && sum > most ? sum : most;
    }
    return most;
}

/* A node in quarantine gets no new attempt while the others could hold its gang, be they busy now: it would always be
 * the one that is free. The nodes on which the trial itself has failed, or which could not start it, are left out first. */
void checkers_on_begun_where(struct sim *sim, int node, const attempt_id *id)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct view_experiment *experiment = view_find_experiment(&core->view, id->experiment);
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    const struct view_trial *trial =
        experiment != NULL && experiment->known ? view_find_trial(experiment, id->trial) : NULL;
    int in_quarantine = -1;
    for (uint32_t rank = 0; attempt != NULL && trial != NULL && rank < attempt->member_count; rank++) {
        int host = sim_find_node(sim, attempt->members[rank].node);
        const struct view_member *member = view_find_member(&core->view, attempt->members[rank].node);
        bool are_themselves = host >= 0 && checkers_is_itself(sim, host) && checkers_is_itself(sim, node);
        uint64_t known_ms = are_themselves ? sim->checkers->policy.known_ms[node][host] : 0;
        in_quarantine = known_ms != 0 && member->quarantine.is_active && sim->now_ms - known_ms > QUARANTINE_KNOWN_MS
                            ? host
                            : in_quarantine;
    }
    bool any = false;
    uint32_t slots[PLAN_NODES_MAX] = {0};
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        any |= member->quarantine.is_active;
        int host = member->quarantine.is_active ? -1 : sim_find_node(sim, member->id);
        uint64_t since_ms = host >= 0 ? checkers_together_ms(sim, node, host) : UINT64_MAX;
        uint64_t taking_ms = host >= 0 ? sim->checkers->policy.taking_ms[node][host] : 0;
        const struct core_peer *peer = core_find_peer(core, member->id);
        bool was_up = peer == NULL || core->now_ms - peer->up_since_ms > QUARANTINE_KNOWN_MS; /* when the gang was begun */
        bool was_taking = was_up && taking_ms != 0 && sim->now_ms - taking_ms > QUARANTINE_KNOWN_MS;
        bool is_other = host >= 0 && checkers_is_itself(sim, host) && since_ms < sim->now_ms &&
                        sim->now_ms - since_ms >= CALM_MS && member->has_node && was_taking && member->slots != NULL &&
                        core_node_accepts(core, member->id) && !core_quarantine_is_false(core, member->id);
        for (uint32_t slot = 0; is_other && trial != NULL && slot < member->slot_count; slot++) {
            slots[host] += !is_left_out(trial, member->id) && is_usable(sim, node, member, slot);
        }
    }
    if (any) {
        checkers_met(sim, PREMISE_9_BESIDE_QUARANTINE);
    }
    uint32_t others = in_quarantine >= 0 ? most_joined(sim, node, slots) : 0;
    if (in_quarantine >= 0 && others >= experiment->config->slots_per_trial) {
        sim_fail(
            sim, 9,
            "n%d begins attempt %u of trial %u on n%d, which is in quarantine, though %u slots elsewhere could hold it",
            node, id->number, id->trial, in_quarantine, others);
    }
}

/* ---- 13: what fits is begun ----------------------------------------------------------------------------------------
 */

/* Free slots that this trial may have, on nodes that have been on the coordinator's side for a while; those that it has
 * reserved, too. */
static uint32_t count_free(const struct sim *sim, int node, const struct view_trial *trial, const attempt_id *about)
{
    const struct node_core *core = sim->nodes[node].core;
    uint32_t count = 0;
    for (int other = 0; other < (int)sim->plan.node_count; other++) {
        const struct node_core *owner = sim->nodes[other].core;
        uint64_t since_ms = checkers_together_ms(sim, node, other);
        if (since_ms >= sim->now_ms || sim->now_ms - since_ms < CALM_MS || !checkers_is_itself(sim, other)) {
            continue;
        }
        const struct view_member *member = view_find_member(&core->view, sim->nodes[other].id);
        if (member == NULL || !core_node_accepts(core, member->id) || member->quarantine.is_active ||
            core_quarantine_is_false(core, member->id) ||
            (trial != NULL && is_left_out(trial, member->id))) {
            continue;
        }
        for (uint32_t slot = 0; slot < owner->owner->lease.count; slot++) {
            const struct lease_slot *held = &owner->owner->lease.slots[slot];
            bool is_own = held->state == LEASE_RESERVED && held->attempt.trial == about->trial &&
                          experiment_id_equal(held->attempt.experiment, about->experiment);
            count += held->state == LEASE_FREE || is_own;
        }
    }
    return count;
}

/* DESIGN 7: one that is lost again and again waits longer each time. */
static bool waits_after_losses(const struct view_trial *trial)
{
    uint32_t losses = 0;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_verdict(a);
        losses = verdict == NULL ? losses : verdict->reason != FACT_LOST ? 0 : losses + 1;
    }
    return losses > 1;
}

static bool is_pending(const struct view_experiment *experiment, uint32_t index)
{
    const struct view_trial *trial = view_find_trial(experiment, index);
    bool is_free = view_trial_state(experiment, index) == VIEW_TRIAL_QUEUED && view_search_course(experiment, index) != VIEW_ENDS &&
                   view_search_course(experiment, index) != VIEW_IS_PAUSED;
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        is_free &= !a->assigned || a->verdicts != NULL;
    }
    return is_free;
}

/* The generation before a trial of pbt is over, as the node sees it. */
static bool has_parents(const struct plan_experiment *plan, const struct view_experiment *experiment, uint32_t index)
{
    if (plan->population == 0 || index < plan->population) {
        return true;
    }
    bool are_over = true;
    for (uint32_t t = index - index % plan->population - plan->population, m = 0; m < plan->population; m++) {
        are_over &= view_trial_over(view_trial_state(experiment, t + m));
    }
    return are_over;
}

/* A program decides in the search, and has not created the trial: it does not wait for slots. */
static bool is_uncreated(const struct plan_experiment *plan, const struct view_experiment *experiment, uint32_t index)
{
    return plan->program.is_there && !view_custom_is_created(experiment, index);
}

/* Whoever coordinates begins what waits while so many slots are free on its side: a gang that fits runs at last. */
static void watch_waiting(struct sim *sim, int node, uint32_t e, const struct view_experiment *experiment)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct plan_experiment *plan = &sim->plan.experiments[e];
    bool is_stopped = view_experiment_cancelled(experiment) || view_experiment_paused(experiment) ||
                      core_node_drained(core, core->options.self) || plan->pauses_minority || plan->is_crowded;
    /* A gang has 5 s to be recorded: a disk that takes longer for two commits, each up to ten times the mean, ends it. */
    is_stopped |= !sim->healed && 20 * sim->plan.disk_ms > CORE_GANG_RESERVE_MS;
    uint64_t since_ms = checkers_together_ms(sim, node, node);
    is_stopped |= since_ms >= sim->now_ms || sim->now_ms - since_ms < CALM_MS;
    for (uint32_t t = 0; t < experiment->trial_count && t < PLAN_TRIALS_MAX; t++) {
        attempt_id about = {.experiment = plan->id, .trial = t};
        uint64_t *waits_ms = &sim->checkers->policy.waits_ms[node][e][t];
        const struct view_trial *trial = view_find_trial(experiment, t);
        /* Two of the free nodes may never reach each other: then no group is made of them. */
        bool is_apart = !sim->healed && sim->plan.has[FAULT_PAIR] && plan->slots > 1;
        if (is_stopped || is_apart || !is_pending(experiment, t) || !has_parents(plan, experiment, t) ||
            is_uncreated(plan, experiment, t) || count_free(sim, node, trial, &about) < plan->slots) {
            *waits_ms = 0;
            continue;
        }
        checkers_met(sim, PREMISE_13_FITS);
        *waits_ms = *waits_ms == 0 ? sim->now_ms : *waits_ms;
        if (sim->now_ms - *waits_ms > (waits_after_losses(trial) ? FITS_AFTER_LOSSES_MS : FITS_MS)) {
            sim_fail(
                sim, 13,
                "n%d has not begun trial %u of experiment %u for %llu ms, though %u slots are free, and it wants %u",
                node, t, e, (unsigned long long)(sim->now_ms - *waits_ms), count_free(sim, node, trial, &about),
                plan->slots);
        }
    }
}

/* ---- once a virtual second ------------------------------------------------------------------------------------------
 */

void checkers_policy_began(struct sim *sim, int node)
{
    struct policy *policy = &sim->checkers->policy;
    policy->hindered_ms[node] = sim->now_ms;
    policy->level[node] = sim->nodes[node].core->quarantine->own.level;
    policy->quarantine_ms[node] = sim->now_ms;
    memset(policy->known_ms[node], 0, sizeof policy->known_ms[node]);
    memset(policy->taking_ms[node], 0, sizeof policy->taking_ms[node]);
    memset(policy->joined_ms[node], 0, sizeof policy->joined_ms[node]);
    memset(policy->withheld_ms[node], 0, sizeof policy->withheld_ms[node]);
    memset(policy->waits_ms[node], 0, sizeof policy->waits_ms[node]);
    memset(policy->given_up_ms[node], 0, sizeof policy->given_up_ms[node]);
    memset(sim->checkers->progress.missed[node], 0, sizeof sim->checkers->progress.missed[node]);
}

void checkers_policy(struct sim *sim)
{
    watch_duplicates(sim);
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        watch_hindered(sim, node);
        if (!sim_runs(sim, node) || !checkers_is_itself(sim, node)) {
            continue;
        }
        watch_quarantine(sim, node);
        for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
            const struct node_core *core = sim->nodes[node].core;
            const struct core_coordination *row = core_find_coordination(core, sim->plan.experiments[e].id);
            const struct view_experiment *experiment = row != NULL && row->election.state == ELECTION_LEADING
                                                           ? view_find_experiment(&core->view, row->experiment)
                                                           : NULL;
            if (experiment != NULL && experiment->known && view_experiment_live(experiment)) {
                watch_given_up(sim, node, e, row, experiment);
                watch_waiting(sim, node, e, experiment);
                checkers_missed(sim, node, e, experiment);
            } else {
                memset(sim->checkers->policy.waits_ms[node][e], 0, sizeof sim->checkers->policy.waits_ms[node][e]);
                memset(sim->checkers->progress.missed[node][e], 0, sizeof sim->checkers->progress.missed[node][e]);
            }
        }
    }
}

/* 9, 11, 12, 13: groups that change (tests/sim/groups.h). */

#include "node/core/coordinator/coordination.h"
#include "node/core/members/members.h"
#include "node/core/owner/owner.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/groups.h"

/* One of its members has a key that was in use twice, or whoever named it last, as its members know. */
static bool has_twin(const struct sim *sim, const struct elastic_group *group)
{
    bool has_one = false;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct sim_node *host = group->ranks[rank].is_in ? &sim->nodes[group->ranks[rank].node] : NULL;
        const struct view_attempt *attempt =
            host != NULL && host->core != NULL ? view_find_attempt(&host->core->view, &group->attempt) : NULL;
        int namer = attempt != NULL ? sim_find_node(sim, attempt->group_claim.node) : -1;
        has_one |= (host != NULL && host->is_twin) || (namer >= 0 && sim->nodes[namer].is_twin);
    }
    return has_one;
}

/* One of those who bring the state to this group was in that one, too. */
static bool has_member_of(const struct elastic_group *group, const struct elastic_group *other)
{
    for (uint32_t i = 0; i < group->size; i++) {
        for (uint32_t j = 0; group->ranks[i].has_state && j < other->size; j++) {
            if (other->ranks[j].is_in && group->ranks[i].node == other->ranks[j].node &&
                group->ranks[i].slot == other->ranks[j].slot && group->ranks[i].serial == other->ranks[j].serial) {
                return true;
            }
        }
    }
    return false;
}

/* Somebody lives who has in memory what that group has made. */
static bool is_left(const struct sim *sim, const struct elastic_group *group)
{
    for (int node = 0; node < (int)sim->machines; node++) {
        for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
            const struct worker_process *process = &sim->nodes[node].processes[slot];
            if (process->is_alive && !process->is_killed && process->has_state &&
                attempt_id_equal(&process->attempt, &group->attempt) && process->applied + 1 >= group->step) {
                return true;
            }
        }
    }
    return false;
}

/* What may be said of a group when it begins, by what its members have in memory and what others of its attempt did. */
void checkers_on_group(struct sim *sim, const struct elastic_group *group)
{
    const struct plan_experiment *plan = &sim->plan.experiments[group->experiment];
    uint64_t highest = 0;
    bool has_state = false, has_one_twin = has_twin(sim, group);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *process = groups_member(sim, group, rank);
        bool is_of_twin = sim->nodes[group->ranks[rank].node].is_twin; /* which may have had a worker of this number each */
        has_state |= group->ranks[rank].has_state;
        if (process->has_state && process->applied != group->start_step) {
            checkers_met(sim, PREMISE_11_HANDED_ON);
        }
        highest = process->has_state && !is_of_twin && process->applied > highest ? process->applied : highest;
        if (group->ranks[rank].has_state && !is_of_twin && (!process->has_state || process->applied != group->start_step)) {
            sim_fail(sim, 11, "generation %u of trial %u begins at step %llu from rank %u, which has applied %llu",
                     group->generation, group->attempt.trial, (unsigned long long)group->start_step, rank,
                     (unsigned long long)process->applied);
        }
    }
    const struct worker_process *first = groups_member(sim, group, 0);
    if (highest > group->start_step) {
        sim_fail(sim, 11, "generation %u of trial %u begins at step %llu though a member has applied %llu",
                 group->generation, group->attempt.trial, (unsigned long long)group->start_step,
                 (unsigned long long)highest);
    } else if (!has_state && group->start_step > 0 && !has_one_twin && first->spawn_step != group->start_step) {
        sim_fail(sim, 11, "generation %u of trial %u begins at step %llu, and nobody in it has that state",
                 group->generation, group->attempt.trial, (unsigned long long)group->start_step);
    }
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        struct elastic_group *other = &sim->groups.all[i];
        if (other == group || !other->is_used || !attempt_id_equal(&other->attempt, &group->attempt)) {
            continue;
        }
        /* DESIGN 5: of two daemons with one key one becomes another node. So the one calls the other's workers ended. */
        bool is_ambiguous = has_one_twin || has_twin(sim, other) || checkers_name_is_ambiguous(sim, &group->attempt);
        if (other->is_formed && !other->is_done && !is_ambiguous && groups_is_whole(sim, other)) {
            sim_fail(sim, 9, "generations %u and %u of trial %u train at the same time", other->generation,
                     group->generation, group->attempt.trial);
        }
        /* Two sides of a cut may each have had a group. What one of them made may die with its last member. */
        if (other->is_formed && has_state && other->generation < group->generation &&
            other->step > group->start_step + 1 && !is_ambiguous && (has_member_of(group, other) || is_left(sim, other))) {
            sim_fail(sim, 11, "generation %u of trial %u begins at step %llu though generation %u had made %llu",
                     group->generation, group->attempt.trial, (unsigned long long)group->start_step, other->generation,
                     (unsigned long long)other->step);
        }
    }
    /* Who has ended needs nobody any more, in whichever group: perhaps in one of which only an older disk knew. */
    bool is_after_end = checkers_program_is_done(sim, &group->attempt);
    if ((group->size < plan->min_slots && !is_after_end) || group->size > plan->max_slots) {
        sim_fail(sim, 13, "generation %u of trial %u has %u members; %u to %u are allowed", group->generation,
                 group->attempt.trial, group->size, plan->min_slots, plan->max_slots);
    }
    if (group->generation > 1) {
        checkers_met(sim, PREMISE_9_REGROUPED);
    }
}

/* DESIGN 2: a generation is a count that rises whenever the group's membership changes. So within an attempt one number has
 * one list of members, whoever coordinates; two coordinators of one term, beyond a cut, only seldom meet in one number. */
void checkers_on_generation(struct sim *sim, int node, const struct record *record)
{
    struct checkers *checkers = sim->checkers;
    struct fact_generation fact;
    attempt_id attempt;
    if (fact_generation_read(record, &fact) != 0 || fact_key_read_attempt(record, &attempt) != 0) {
        return;
    }
    uint64_t members = fact.member_count;
    for (uint32_t i = 0; i < fact.member_count; i++) {
        const struct fact_place *place = &fact.members[i];
        members = random_mix(members ^ bytes_get_u64(place->node.bytes));
        members = random_mix(members ^ ((uint64_t)place->slot << 32 | place->number));
    }
    uint32_t kept = checkers->generation_count < GENERATIONS_MAX ? checkers->generation_count : GENERATIONS_MAX;
    for (uint32_t i = 0; i < kept; i++) {
        const struct generation *other = &checkers->generations[i];
        if (other->number != fact.generation || !attempt_id_equal(&other->attempt, &attempt) || other->term == fact.term) {
            continue;
        }
        checkers_met(sim, PREMISE_9_RENUMBERED);
        /* What one of two with one key has named hides what the other one has: nobody can count on from there. */
        if (other->members != members && !other->is_by_twin && !checkers_name_is_ambiguous(sim, &attempt)) {
            sim_fail(sim, 9, "n%d calls another group of trial %u generation %u, with term %llu, than was called so with %llu",
                     node, attempt.trial, fact.generation, (unsigned long long)fact.term, (unsigned long long)other->term);
        }
    }
    checkers->generations[checkers->generation_count++ % GENERATIONS_MAX] =
        (struct generation){attempt, fact.generation, fact.term, members, sim->nodes[node].is_twin};
}

void checkers_on_group_step(struct sim *sim, const struct elastic_group *group)
{
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        const struct elastic_group *other = &sim->groups.all[i];
        if (other->is_used && other->is_formed && other->generation > group->generation && other->step > other->start_step &&
            attempt_id_equal(&other->attempt, &group->attempt) && !has_twin(sim, other) && !has_twin(sim, group) &&
            !checkers_name_is_ambiguous(sim, &group->attempt)) {
            sim_fail(sim, 12, "generation %u of trial %u makes step %llu after generation %u has made %llu",
                     group->generation, group->attempt.trial, (unsigned long long)group->step, other->generation,
                     (unsigned long long)other->step);
        }
    }
}

/* ---- attempts that end though their group could go on ------------------------------------------------------------- */

/* No fault of moments has concerned it for a while, and none of every message makes it seem away. It can say what becomes of
 * its workers and groups: that is stored first. */
static bool is_calm(const struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    bool was_full = self->disk.full_since_ms != 0 && self->disk.full_since_ms + CALM_MS > sim->now_ms;
    return sim_runs(sim, node) && self->calm_from_ms + CALM_MS <= sim->now_ms && !self->is_evicted && !self->leaves &&
           !self->is_twin && !self->disk.is_full && !was_full;
}

static bool is_out(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && view_member_is_out(member); /* whose record has not come yet is not out */
}

/* The member trains on, or waits for the next group, as far as anybody can see. */
static const struct worker_process *survivor(const struct sim *sim, int node, const struct fact_place *place,
                                             const attempt_id *id)
{
    int host = sim_find_node(sim, place->node);
    if (host < 0 || place->slot >= PLAN_SLOTS_MAX || !is_calm(sim, host)) {
        return NULL;
    }
    const struct worker_process *process = &sim->nodes[host].processes[place->slot];
    const struct node_core *core = sim->nodes[host].core;
    bool is_it = process->is_alive && process->number == place->number && attempt_id_equal(&process->attempt, id);
    bool is_well = !process->is_stopping && !process->is_killed && !process->is_lost && process->hung_until_ms == 0;
    bool is_wanted_back = core->owner->lease.holds[place->slot].withheld || core_node_drained(core, core->options.self) ||
                          is_out(sim->nodes[node].core, place->node);
    return is_it && is_well && !is_wanted_back && (host == node || network_talks(sim, node, host)) ? process : NULL;
}

/* Who is not there may have come into a later group than it has said, or be in one of which the others have not heard: then
 * nobody goes on before it is heard (node/core/coordinator/elastic.c). */
static bool may_be_elsewhere(const struct view_attempt *attempt)
{
    for (const struct view_group *group = attempt->groups; group != NULL; group = group->next) {
        if (group->generation > attempt->generation) {
            return true;
        }
    }
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        if (worker == NULL || !worker->is_elastic || worker->generation != attempt->generation) {
            return true;
        }
    }
    return false;
}

/* Its program has failed more often than max_restarts allows, and somebody has died beside that: so it ends, and is lost. */
static bool is_lost_beside_failures(const struct node_core *core, const struct view_experiment *experiment,
                                    const struct view_trial *trial, const struct view_attempt *attempt)
{
    bool has_failed = false, has_died = false;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        enum swim_state state = swim_state_of(&core->members->swim, attempt->members[rank].node);
        bool has_ended = worker != NULL && worker->state == FACT_WORKER_ENDED;
        has_failed |= has_ended && worker->reason == FACT_FAILED;
        has_died |= !has_ended && (state == SWIM_DEAD || state == SWIM_LEFT ||
                                   is_out(core, attempt->members[rank].node));
    }
    return has_failed && has_died && view_trial_failures(trial) + view_attempt_failures(attempt) > experiment->config->max_restarts;
}

/* DESIGN 1.3: the death of one worker of an elastic group costs the step that it was in. DESIGN 9: the side with more than
 * half of the generation keeps the attempt, down to min_slots. So an attempt is not lost while so many of its last group
 * live, reach its coordinator and have the state. */
void checkers_on_group_lost(struct sim *sim, int node, const attempt_id *id, const char *why)
{
    int experiment = checkers_experiment(sim, id->experiment);
    const struct plan_experiment *plan = &sim->plan.experiments[experiment];
    const struct node_core *core = sim->nodes[node].core;
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    const struct view_experiment *seen = view_find_experiment(&core->view, id->experiment);
    const struct core_coordination *row = core_find_coordination(core, id->experiment);
    if (!plan->is_elastic || plan->min_slots == plan->max_slots || attempt == NULL || !attempt->assigned || row == NULL) {
        return;
    }
    const struct view_trial *trial = view_find_trial(seen, id->trial);
    bool is_unwanted = view_trial_highest(trial) != attempt || view_trial_completed(trial) != NULL ||
                       view_experiment_cancelled(seen) || view_experiment_paused(seen) || view_trial_stopped(trial) || view_attempt_is_paused(trial, id) || plan->fails_at_once ||
                       is_lost_beside_failures(core, seen, trial, attempt);
    bool is_overruled = election_claim_compare(attempt->group_claim, row->election.highest) > 0;
    bool is_blurred = (!sim->healed && (sim->plan.blurs_time || sim->plan.has[FAULT_LOSS])) ||
                      sim->checkers->other_disk_ms != 0 || sim->plan.has[FAULT_CLONE];
    if (is_unwanted || is_overruled || is_blurred || !is_calm(sim, node) || may_be_elsewhere(attempt)) {
        return;
    }
    checkers_met(sim, PREMISE_9_GROUP_LOST);
    uint32_t all = 0, well = 0;
    bool has_state = false;
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        const struct worker_process *process = survivor(sim, node, &attempt->members[rank], id);
        all += worker->state != FACT_WORKER_ENDED;
        well += process != NULL;
        has_state |= process != NULL && process->has_state;
    }
    if (well * 2 > all && well >= plan->min_slots && has_state) {
        sim_fail(sim, 9, "n%d calls attempt %u of trial %u lost (%s), though %u of the %u in generation %u are well and can go on",
                 node, id->number, id->trial, why, well, all, attempt->generation);
    }
}

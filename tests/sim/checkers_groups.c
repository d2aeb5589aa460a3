/* 9, 11, 12, 13: groups that change (tests/sim/groups.h). */

#include "tests/sim/checkers_inside.h"
#include "tests/sim/groups.h"

static bool has_twin(const struct sim *sim, const struct elastic_group *group)
{
    bool has_one = false;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        has_one |= group->ranks[rank].is_in && sim->nodes[group->ranks[rank].node].is_twin;
    }
    return has_one;
}

/* What may be said of a group when it begins, by what its members have in memory and what others of its attempt did. */
void checkers_on_group(struct sim *sim, const struct elastic_group *group)
{
    const struct plan_experiment *plan = &sim->plan.experiments[group->experiment];
    uint64_t highest = 0;
    bool has_state = false, is_after_end = false;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct worker_process *process = groups_member(sim, group, rank);
        has_state |= group->ranks[rank].has_state;
        if (process->has_state && process->applied != group->start_step) {
            checkers_met(sim, PREMISE_11_HANDED_ON);
        }
        highest = process->has_state && process->applied > highest ? process->applied : highest;
        if (group->ranks[rank].has_state && (!process->has_state || process->applied != group->start_step)) {
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
    } else if (!has_state && group->start_step > 0 && first->spawn_step != group->start_step) {
        sim_fail(sim, 11, "generation %u of trial %u begins at step %llu, and nobody in it has that state",
                 group->generation, group->attempt.trial, (unsigned long long)group->start_step);
    }
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        struct elastic_group *other = &sim->groups.all[i];
        if (other == group || !other->is_used || !attempt_id_equal(&other->attempt, &group->attempt)) {
            continue;
        }
        is_after_end |= other->is_done;
        /* DESIGN 5: a clone counts as one lost and one new. So the one calls the other's workers ended. */
        bool is_ambiguous = has_twin(sim, other) || has_twin(sim, group);
        if (other->is_formed && !other->is_done && !is_ambiguous && groups_is_whole(sim, other)) {
            sim_fail(sim, 9, "generations %u and %u of trial %u train at the same time", other->generation,
                     group->generation, group->attempt.trial);
        }
        if (other->is_formed && has_state && other->generation < group->generation &&
            other->step > group->start_step + 1 && !is_ambiguous) {
            sim_fail(sim, 11, "generation %u of trial %u begins at step %llu though generation %u had made %llu",
                     group->generation, group->attempt.trial, (unsigned long long)group->start_step, other->generation,
                     (unsigned long long)other->step);
        }
    }
    if ((group->size < plan->min_slots && !is_after_end) || group->size > plan->max_slots) {
        sim_fail(sim, 13, "generation %u of trial %u has %u members; %u to %u are allowed", group->generation,
                 group->attempt.trial, group->size, plan->min_slots, plan->max_slots);
    }
    if (group->generation > 1) {
        checkers_met(sim, PREMISE_9_REGROUPED);
    }
}

void checkers_on_group_step(struct sim *sim, const struct elastic_group *group)
{
    for (uint32_t i = 0; i < GROUPS_MAX; i++) {
        const struct elastic_group *other = &sim->groups.all[i];
        if (other->is_used && other->is_formed && other->generation > group->generation && other->step > other->start_step &&
            attempt_id_equal(&other->attempt, &group->attempt) && !has_twin(sim, other) && !has_twin(sim, group)) {
            sim_fail(sim, 12, "generation %u of trial %u makes step %llu after generation %u has made %llu",
                     group->generation, group->attempt.trial, (unsigned long long)group->step, other->generation,
                     (unsigned long long)other->step);
        }
    }
}

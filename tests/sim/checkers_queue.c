/* 21: which attempt gets a slot. The owner's own records decide, and so they do here, whatever a message claims: in plans from version
 * 21 on a node says of all that it asks for that it comes first. */

#include "node/core/owner/owner.h"
#include "tests/sim/checkers_inside.h"

/* By the records of the view `a` comes before `b`. False also if that is not known. */
static bool comes_first(const struct view *view, const attempt_id *a, const attempt_id *b)
{
    const struct view_experiment *one = view_find_experiment(view, a->experiment), *other = view_find_experiment(view, b->experiment);
    if (one == NULL || !one->known || view_is_deleted(view, a->experiment) || view_trial_stopped(view_find_trial(one, a->trial))) {
        return false;
    }
    if (other == NULL || !other->known) {
        return true;
    }
    if (one->config->priority != other->config->priority) {
        return one->config->priority < other->config->priority;
    }
    return one->submitted_s != other->submitted_s ? one->submitted_s < other->submitted_s
                                                  : memcmp(&one->id, &other->id, sizeof one->id) < 0;
}

void checkers_queue_before(struct sim *sim, int node)
{
    const struct core_owner *owner = sim->nodes[node].core->owner;
    for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
        struct checkers_asked *asked = &sim->checkers->asked[slot];
        asked->was = owner->lease.slots[slot];
        asked->count = owner->waits[slot].count;
        for (uint32_t i = 0; i < asked->count; i++) {
            asked->attempts[i] = owner->waits[slot].askers[i].attempt;
        }
    }
}

/* Two trials of one experiment are in the order of its coordinator; what a coordinator on the owner's node does not want any more is not
 * seen here. */
static bool is_passed_over(const struct sim *sim, int node, const attempt_id *asker, const attempt_id *got)
{
    const struct node_core *core = sim->nodes[node].core;
    return !experiment_id_equal(asker->experiment, got->experiment) && !node_id_equal(asker->coordinator, core->options.self) &&
           comes_first(&core->view, asker, got);
}

static void check_slot(struct sim *sim, int node, uint32_t slot, const struct message *message)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct checkers_asked *asked = &sim->checkers->asked[slot];
    const struct lease_slot *is = &core->owner->lease.slots[slot];
    bool is_given = is->state == LEASE_RESERVED &&
                    !(asked->was.state == LEASE_RESERVED && attempt_id_equal(&asked->was.attempt, &is->attempt));
    if (!is_given || (message != NULL && message->kind == MESSAGE_RELEASE)) {
        return;
    }
    bool is_taken_over = message != NULL && message->kind == MESSAGE_RESERVE && asked->was.state == LEASE_RESERVED &&
                         asked->was.until_ms > core->now_ms && attempt_id_equal(&message->u.lease.attempt, &is->attempt);
    if (is_taken_over) {
        checkers_met(sim, PREMISE_21_TAKEN_OVER);
    }
    if (is_taken_over && is_passed_over(sim, node, &asked->was.attempt, &is->attempt)) {
        sim_fail(sim, 21, "n%d takes slot %u from trial %u, which comes first, for trial %u", node, slot,
                 asked->was.attempt.trial, is->attempt.trial);
    }
    for (uint32_t i = 0; i < asked->count; i++) {
        bool is_overruled = message != NULL && experiment_id_equal(message->u.lease.attempt.experiment, asked->attempts[i].experiment);
        checkers_met(sim, PREMISE_21_WAITED);
        if (!is_overruled && is_passed_over(sim, node, &asked->attempts[i], &is->attempt)) {
            sim_fail(sim, 21, "n%d gives slot %u to trial %u, and trial %u, which comes first, has asked", node, slot, is->attempt.trial,
                     asked->attempts[i].trial);
        }
    }
}

void checkers_queue_after(struct sim *sim, int node, const struct node_event *event)
{
    const struct message *message = event->kind == NODE_EVENT_MESSAGE ? event->u.message.message : NULL;
    bool is_of_leases = message != NULL && (message->kind == MESSAGE_RESERVE || message->kind == MESSAGE_RELEASE);
    for (uint32_t slot = 0; slot < PLAN_SLOTS_MAX; slot++) {
        check_slot(sim, node, slot, is_of_leases ? message : NULL);
    }
}

/* The present values of the registers that several nodes write (gossip/lamport.h): drain, pause, cancel, stops and claims.
 * Annotations are in annotations.c. */

#include "node/core/view/rows.h"

#include "base/check.h"
#include "base/probe.h"

static bool is_writer(node_id writer, const node_id *but)
{
    return but != NULL && node_id_equal(writer, *but);
}

struct lamport_top view_drain_top(const struct view_member *member, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_drain *drain = member->drains; drain != NULL; drain = drain->next) {
        lamport_see(&top, is_writer(drain->writer, but) ? 0 : drain->fact.lamport);
    }
    return top;
}

struct lamport_top view_control_top(const struct view_experiment *experiment, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        lamport_see(&top, is_writer(control->writer, but) ? 0 : control->fact.lamport);
    }
    return top;
}

struct lamport_top view_stop_top(const struct view_trial *trial, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_stop *stop = trial->stops; stop != NULL; stop = stop->next) {
        lamport_see(&top, is_writer(stop->writer, but) ? 0 : stop->fact.lamport);
    }
    return top;
}

struct lamport_top view_claim_top(const struct view_experiment *experiment, const node_id *but)
{
    struct lamport_top top = {0};
    for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
        lamport_see(&top, is_writer(claim->writer, but) ? 0 : claim->fact.term);
    }
    return top;
}

struct election_claim view_claim_highest(const struct view_experiment *experiment, bool *released)
{
    struct election_claim highest = {0};
    struct lamport_top top = view_claim_top(experiment, NULL);
    *released = false;
    for (const struct view_claim *row = experiment->claims; row != NULL; row = row->next) {
        struct election_claim claim = {row->fact.term, row->writer};
        if (lamport_counts(&top, claim.term) && election_claim_compare(claim, highest) > 0) {
            highest = claim;
            *released = row->fact.released;
        }
    }
    return highest;
}

/* At most one clock of a register is refused as a jump: the highest. */
void view_count_jumps(struct view *view, struct lamport_top before, struct lamport_top after)
{
    CHECK(view->jump_count >= lamport_jumps(&before)); /* counted when these clocks came */
    view->jump_count += lamport_jumps(&after);
    view->jump_count -= lamport_jumps(&before);
}

struct fact_drain view_member_drain(const struct view_member *member)
{
    struct lamport_top top = view_drain_top(member, NULL);
    struct fact_drain now = {0};
    for (const struct view_drain *drain = member->drains; drain != NULL; drain = drain->next) {
        if (drain->fact.lamport < now.lamport || !lamport_counts(&top, drain->fact.lamport)) {
            continue;
        }
        if (drain->fact.lamport > now.lamport) {
            now = (struct fact_drain){.lamport = drain->fact.lamport};
        }
        /* of concurrent values (equal lamport) a drain wins */
        now.drained |= drain->fact.drained;
        now.at_once |= drain->fact.drained && drain->fact.at_once;
        now.is_idle |= drain->fact.drained && drain->fact.is_idle && node_id_equal(drain->writer, member->id);
    }
    return now;
}

bool view_experiment_cancelled(const struct view_experiment *experiment)
{
    bool is_cancelled = false, is_paused_once = false;
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        is_cancelled |= control->fact.cancelled;
        is_paused_once |= control->fact.lamport != 0;
    }
    return is_cancelled && !(is_paused_once && BUG(pause_undoes_cancel, "a cancel absorbs pause and resume"));
}

/* The present value of the register of pause and resume. */
static struct fact_control pause_now(const struct view_experiment *experiment)
{
    struct lamport_top top = view_control_top(experiment, NULL);
    struct fact_control now = {0};
    for (const struct view_control *control = experiment->controls; control != NULL; control = control->next) {
        if (control->fact.lamport < now.lamport || !lamport_counts(&top, control->fact.lamport)) {
            continue;
        }
        if (control->fact.lamport > now.lamport) {
            now = (struct fact_control){.lamport = control->fact.lamport};
        }
        /* of concurrent values (equal lamport) a pause wins */
        now.paused |= control->fact.paused;
        now.waived |= control->fact.waived;
    }
    return now;
}

bool view_experiment_paused(const struct view_experiment *experiment)
{
    return pause_now(experiment).paused;
}

bool view_experiment_waived(const struct view_experiment *experiment)
{
    return pause_now(experiment).waived;
}

struct fact_stop view_trial_stop(const struct view_trial *trial)
{
    struct fact_stop now = {0};
    if (trial == NULL || trial->stops == NULL) {
        return now;
    }
    struct lamport_top top = view_stop_top(trial, NULL);
    for (const struct view_stop *stop = trial->stops; stop != NULL; stop = stop->next) {
        if (stop->fact.lamport < now.lamport || !lamport_counts(&top, stop->fact.lamport)) {
            continue;
        }
        if (stop->fact.lamport > now.lamport) {
            now = (struct fact_stop){.lamport = stop->fact.lamport};
        }
        /* of concurrent values (equal lamport) a stop wins */
        now.stopped |= stop->fact.stopped;
        now.overran |= stop->fact.stopped && stop->fact.overran;
        now.since = stop->fact.since > now.since ? stop->fact.since : now.since;
    }
    return now;
}

uint32_t view_trial_retried_from(const struct view_trial *trial)
{
    const struct fact_stop stop = view_trial_stop(trial);
    return stop.stopped ? 0 : stop.since;
}

const struct view_search_stop *view_trial_search_stop(const struct view_trial *trial)
{
    if (trial == NULL || trial->search_stops == NULL) {
        return NULL;
    }
    uint32_t since = view_trial_stop(trial).since;
    const struct view_search_stop *stop = trial->search_stops;
    while (stop != NULL && stop->fact.number <= since) {
        stop = stop->next;
    }
    return stop;
}

bool view_trial_stopped(const struct view_trial *trial)
{
    return view_trial_stop(trial).stopped || view_trial_search_stop(trial) != NULL;
}

uint64_t view_trial_retried(const struct view_trial *trial)
{
    const struct fact_stop stop = view_trial_stop(trial);
    return stop.stopped ? 0 : stop.lamport;
}

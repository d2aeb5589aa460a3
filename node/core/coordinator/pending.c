#include "node/core/coordinator/pending.h"

#include "base/probe.h"
#include "node/core/coordinator/attempts.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/search.h"
#include "node/core/coordinator/watch.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/outputs.h"
#include "node/core/members/quarantine.h"

/* ---- the order ----------------------------------------------------------------------------------------------------- */

void pending_look_at_sides(const struct node_core *core, struct order_sides *sides)
{
    order_init(sides);
    for (uint32_t i = 0; i < core->members->election_member_count; i++) {
        node_id node = core->members->election_members[i].node;
        order_add(sides, node, core_node_trusted(core, node), coordinator_has_left(core, node));
    }
}

#define RANK_UNKNOWN INT32_MIN

void pending_forget_ranks(struct node_core *core, struct core_coordination *coordination)
{
    arena_give(&core->arena, coordination->ranks, coordination->rank_slots * sizeof *coordination->ranks);
    coordination->ranks = NULL;
    coordination->rank_slots = 0;
}

/* The kept rank of a trial, or NULL without memory. A node may be away for days, and pending trials are looked at many times
 * a second: so ranks are kept as long as the sides stay the same. */
static int32_t *kept_rank(struct node_core *core, struct core_coordination *coordination, const struct order_sides *sides,
                          uint32_t trial)
{
    bool is_kept = coordination->ranks_of == sides->digest;
    if (trial >= coordination->rank_slots) {
        const struct view_experiment *experiment = view_find_experiment(&core->view, coordination->experiment);
        uint32_t slots = trial < experiment->trial_count ? experiment->trial_count : trial + 1;
        pending_forget_ranks(core, coordination);
        coordination->ranks = arena_take(&core->arena, slots * sizeof *coordination->ranks);
        coordination->rank_slots = coordination->ranks != NULL ? slots : 0;
        is_kept = false;
    }
    for (uint32_t i = 0; i < coordination->rank_slots && !is_kept; i++) {
        coordination->ranks[i] = RANK_UNKNOWN;
    }
    coordination->ranks_of = sides->digest;
    return coordination->ranks != NULL ? &coordination->ranks[trial] : NULL;
}

struct order_claim pending_claim(struct node_core *core, struct core_coordination *coordination,
                                 const struct order_sides *sides, uint32_t trial)
{
    int32_t *kept = kept_rank(core, coordination, sides, trial);
    int32_t rank = kept != NULL && *kept != RANK_UNKNOWN ? *kept : order_rank(sides, coordination->experiment, trial);
    if (kept != NULL) {
        *kept = rank;
    }
    return (struct order_claim){rank, trial};
}

/* ---- trials that may not begin yet --------------------------------------------------------------------------------- */

/* The next attempt begins from another checkpoint than the last attempt, or with other files: by now no disk is known to
 * hold the former ones, and maybe the last attempt was lost for lack of them. */
static bool begins_elsewhere(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_trial *trial, const struct view_attempt *last)
{
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    uint32_t count = core_outputs_choose(core, experiment, trial, outputs);
    bool is_same = count == last->beginning_count;
    for (uint32_t i = 0; i < count && is_same; i++) {
        is_same = hash256_equal(outputs[i]->fact.blob, last->beginnings[i].blob);
    }
    const struct view_manifest *newest = core_checkpoints_newest(core, trial);
    return !is_same ||
           (newest != NULL ? !hash256_equal(newest->blob, last->checkpoint) : !hash256_is_none(last->checkpoint));
}

/* A trial that is lost again and again (its code cannot be fetched, its node reboots) waits longer each time, so that the
 * mesh does not spin on it: from the second loss in a row on 0.5 s, 1 s, 2 s and so on, up to CORE_LOST_WAIT_MAX_MS. The
 * bound is CORE_NEVER_RAN_WAIT_MAX_MS if the program never runs and no node with the missing part can have come since: a
 * trial without code leaves the slots to other trials. Such losses are counted over all trials of the experiment, so that
 * not every trial has to fail as often. */
static uint64_t wait_after_losses_ms(const struct node_core *core, const struct core_coordination *coordination,
                                     const struct view_attempt *last, uint32_t losses, uint64_t ended_ms)
{
    bool has_news = !attempts_never_ran(last);
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        has_news |= core->members->peers[i]->state == SWIM_ALIVE && core->members->peers[i]->up_since_ms > ended_ms;
    }
    bool is_often = losses >= CORE_LOST_OFTEN || (coordination->unstarted_losses >= CORE_LOST_OFTEN && !has_news);
    uint64_t wait_ms = has_news ? CORE_LOST_WAIT_MAX_MS : CORE_NEVER_RAN_WAIT_MAX_MS;
    return is_often ? wait_ms : (uint64_t)CORE_LOST_WAIT_FIRST_MS << (losses - 2);
}

/* How often in a row the trial was lost, since its last retry; `*last` is its last attempt with a verdict since, or NULL. */
static uint32_t count_losses(const struct view_trial *trial, const struct view_attempt **last)
{
    const struct fact_stop stop = view_trial_stop(trial);
    uint32_t losses = 0;
    *last = NULL;
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        const struct view_verdict *verdict = view_attempt_counts(&stop, a) ? view_attempt_verdict(a) : NULL;
        if (verdict != NULL) {
            losses = verdict->reason == FACT_LOST ? losses + 1 : 0;
            *last = a;
        }
    }
    return losses;
}

static bool waits_after_losses(struct node_core *core, struct core_coordination *coordination,
                               const struct view_experiment *experiment, const struct view_trial *trial)
{
    const struct view_attempt *last;
    uint32_t losses = count_losses(trial, &last);
    if (losses < 2) {
        return false;
    }
    struct core_watch *watch = watch_row(core, coordination, &last->id);
    if (watch == NULL) {
        return false;
    }
    watch->seen_pass = coordination->pass;
    MARK(waits_after_losses);
    watch_since(&watch->ended_ms, true, core->now_ms);
    if (attempts_never_ran(last) && begins_elsewhere(core, experiment, trial, last)) {
        MARK(lost_checkpoint_passed_over);
        return false;
    }
    return core->now_ms - watch->ended_ms < wait_after_losses_ms(core, coordination, last, losses, watch->ended_ms);
}

uint64_t pending_lost_wait_ms(const struct node_core *core, const struct core_coordination *coordination,
                              const struct view_experiment *experiment, const struct view_trial *trial, uint32_t *losses)
{
    const struct view_attempt *last;
    *losses = count_losses(trial, &last);
    const struct core_watch *watch = *losses >= 2 ? watch_find(coordination, &last->id) : NULL;
    if (watch == NULL || watch->ended_ms == 0 ||
        (attempts_never_ran(last) && begins_elsewhere(core, experiment, trial, last))) {
        return 0;
    }
    uint64_t wait_ms = wait_after_losses_ms(core, coordination, last, *losses, watch->ended_ms);
    return core->now_ms - watch->ended_ms < wait_ms ? wait_ms : 0;
}

/* With the checkpoint of another experiment or of a parent to begin from, a trial never begins from nothing. */
bool pending_lacks_beginning(const struct node_core *core, const struct view_experiment *experiment, uint32_t index)
{
    bool is_awaited;
    if (core_checkpoints_beginning(core, experiment, index, &is_awaited) != NULL) {
        return false;
    }
    return is_awaited || experiment->config->begin_from[0] != '\0';
}

static bool trial_is_pending(struct node_core *core, struct core_coordination *coordination,
                             const struct view_experiment *experiment, uint32_t index)
{
    if (view_trial_state(experiment, index) != VIEW_TRIAL_QUEUED || !search_lets_begin(coordination, experiment, index)) {
        return false;
    }
    const struct view_trial *trial = view_find_trial(experiment, index);
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL) {
            return false; /* a lower attempt still lives, and is judged first */
        }
    }
    if (trial != NULL && (view_trial_next_number(trial) == 0 || waits_after_losses(core, coordination, experiment, trial) ||
                          core_quarantine_waits(core, trial) || core_checkpoints_may_return(core, trial))) {
        return false;
    }
    char secret[FACT_NAME_BYTES];
    if (pending_lacks_beginning(core, experiment, index) || view_secrets_lack(&core->view, experiment->config, NULL, secret)) {
        return false;
    }
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        if (gang->attempt.trial == index) {
            return false;
        }
    }
    return true;
}

/* ---- the next one -------------------------------------------------------------------------------------------------- */

/* Trials that a coordinator beyond a cut may have started. Until it noticed the cut, it went on by index behind its last
 * trial known here, up to as many trials as there are slots beyond the cut. */
struct unseen {
    uint32_t from, count;
};

static struct unseen unseen_starts(const struct node_core *core, const struct view_experiment *experiment)
{
    struct unseen unseen = {0, 0};
    node_id looked_up = core->options.self;
    bool is_trusted = core_node_trusted(core, looked_up);
    for (uint32_t i = experiment->trial_slots; i-- > 0 && unseen.from == 0;) {
        const struct view_trial *trial = experiment->trials[i];
        for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
            if (!node_id_equal(a->id.coordinator, looked_up)) { /* most attempts are of the same coordinator */
                looked_up = a->id.coordinator;
                is_trusted = core_node_trusted(core, looked_up);
            }
            unseen.from = is_trusted ? unseen.from : i + 1;
        }
    }
    for (uint32_t i = 0; i < core->view.member_count && unseen.from > 0; i++) {
        const struct view_member *member = core->view.members[i];
        unseen.count += core_node_trusted(core, member->id) || member->left ? 0 : member->slot_count;
    }
    return unseen;
}

bool pending_next(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment,
                  const struct order_sides *sides, const struct order_claim *after, struct order_claim *out)
{
    bool by_index = !sides->is_cut || BUG(index_order, "two sides of a cut claim trials in opposite orders"), found = false;
    struct order_claim best = {0, 0};
    struct unseen unseen = by_index ? (struct unseen){0, 0} : unseen_starts(core, experiment);
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_count && !(found && by_index);
         i = view_next_unsettled(experiment, i + 1)) {
        if (!trial_is_pending(core, coordination, experiment, i)) {
            continue;
        }
        struct order_claim order = by_index ? (struct order_claim){0, i} : pending_claim(core, coordination, sides, i);
        if (i >= unseen.from && i - unseen.from < unseen.count) {
            MARK(perhaps_begun_beyond_a_cut);
        }
        if (order.rank != 0) {
            MARK(claimed_by_rank);
        }
        order.rank += i >= unseen.from && i - unseen.from < unseen.count ? 2 * NODE_MEMBERS_MAX : 0;
        if ((after == NULL || order_is_before(*after, order)) && (!found || order_is_before(order, best))) {
            found = true;
            best = order;
        }
    }
    *out = best;
    return found;
}

bool pending_any(struct node_core *core, struct core_coordination *coordination, const struct view_experiment *experiment)
{
    for (uint32_t i = view_next_unsettled(experiment, 0); i < experiment->trial_count;
         i = view_next_unsettled(experiment, i + 1)) {
        if (trial_is_pending(core, coordination, experiment, i)) {
            return true;
        }
    }
    return false;
}

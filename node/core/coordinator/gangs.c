/* Gangs: slots on the way to an attempt, reserved node after node, recorded, confirmed (DESIGN 8). */

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/draw.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/coordinator/placing.h"
#include "node/core/coordinator/watch.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/outputs.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"

static const bool moves[CORE_GANG_STATES][CORE_GANG_STATES] = {
    [CORE_GANG_RESERVING] = {[CORE_GANG_RECORDING] = true, [CORE_GANG_OVER] = true},
    [CORE_GANG_RECORDING] = {[CORE_GANG_CONFIRMING] = true, [CORE_GANG_OVER] = true},
    [CORE_GANG_CONFIRMING] = {[CORE_GANG_OVER] = true},
};

static void gang_move(struct core_gang *gang, enum core_gang_state to)
{
    CHECK(gang->state < CORE_GANG_STATES && to < CORE_GANG_STATES && moves[gang->state][to]);
    CHECK(to == CORE_GANG_OVER || gang->reserved_count == gang->member_count);
    gang->state = to;
}

static void lease_message(const struct core_gang *gang, uint32_t rank, enum message_kind kind, struct message *out)
{
    memset(out, 0, sizeof *out);
    out->kind = kind;
    out->u.lease.attempt = gang->attempt;
    out->u.lease.slot = gang->members[rank].slot;
    out->u.lease.rank = gang->first_number + rank;
    out->u.lease.claim = gang->claim;
}

bool gangs_has(const struct core_coordination *coordination, const attempt_id *attempt)
{
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        if (attempt_id_equal(&gang->attempt, attempt)) {
            return true;
        }
    }
    return false;
}

bool gangs_begins(const struct core_coordination *coordination, const attempt_id *attempt)
{
    for (const struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        if (attempt_id_equal(&gang->attempt, attempt) && !gang->is_joining) {
            return true;
        }
    }
    return false;
}

static struct core_gang *find_gang(struct core_coordination *coordination, const attempt_id *attempt)
{
    struct core_gang *gang = coordination != NULL ? coordination->gangs : NULL;
    while (gang != NULL && !attempt_id_equal(&gang->attempt, attempt)) {
        gang = gang->next;
    }
    return gang;
}

static void gang_release(struct node_core *core, const struct core_gang *gang)
{
    if (BUG(gang_keeps, "a gang that gives up returns what it has reserved")) {
        return;
    }
    struct message message;
    for (uint32_t rank = 0; rank < gang->member_count; rank++) {
        bool asked = rank > 0 && node_id_equal(gang->members[rank].node, gang->members[rank - 1].node);
        if (!asked) {
            lease_message(gang, rank, MESSAGE_RELEASE, &message);
            coordinator_ask_owner(core, gang->members[rank].node, &message);
        }
    }
}

/* Takes the gang off the list, as OVER. The caller gives the memory back. */
static void gang_unlink(struct core_coordination *coordination, struct core_gang *gang)
{
    struct core_gang **link = &coordination->gangs;
    while (*link != gang) {
        link = &(*link)->next;
    }
    *link = gang->next;
    gang_move(gang, CORE_GANG_OVER);
}

/* Ends the gang without a message to its owners. */
static void gang_end(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang)
{
    gang_unlink(coordination, gang);
    arena_give(&core->arena, gang, sizeof *gang);
}

void gangs_forget(struct node_core *core, struct core_coordination *coordination)
{
    while (coordination->gangs != NULL) {
        gang_end(core, coordination, coordination->gangs);
    }
}

struct core_gang *gangs_make(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt,
                             const struct fact_assignment *members, uint32_t member_count)
{
    CHECK(member_count > 0 && member_count <= FACT_MEMBERS_MAX);
    struct core_gang *gang = arena_take(&core->arena, sizeof *gang);
    if (gang == NULL) {
        core->counters.full++;
        return NULL;
    }
    gang->state = CORE_GANG_RESERVING;
    gang->attempt = *attempt;
    gang->claim = coordination->election.highest;
    gang->asking = ++coordination->askings;
    gang->member_count = member_count;
    memcpy(gang->members, members, member_count * sizeof members[0]);
    gang->asked_ms = core->now_ms;
    gang->until_ms = core->now_ms + CORE_GANG_RESERVE_MS;
    gang->next = coordination->gangs;
    coordination->gangs = gang;
    return gang;
}

#define ROOM_TO_END 384 /* effects: a message to each owner, and the most that this node's own slots can cause in a step */

/* Gives the gang up: reserved slots are returned, and a recorded attempt gets a verdict. The gang leaves the list first: we may
 * be an owner, and our refusal can make us yield, which drops all gangs. If the step has no room for all messages, the
 * reservations run out by themselves, and the next coordinator sees slots that are not leased to the attempt. */
static void gang_abort(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                       const char *why)
{
    MARK(gang_gives_up);
    gang_unlink(coordination, gang);
    const struct view_attempt *attempt = view_find_attempt(&core->view, &gang->attempt);
    bool has_room = core_has_room(core, ROOM_TO_END, 1u << 18);
    if (has_room && attempt != NULL && attempt->assigned && view_attempt_verdict(attempt) == NULL && !gang->is_joining) {
        attempts_put_verdict(core, attempt, FACT_LOST, why);
    }
    if (has_room) {
        gang_release(core, gang);
    }
    arena_give(&core->arena, gang, sizeof *gang);
}

void gangs_drop(struct node_core *core, struct core_coordination *coordination)
{
    while (coordination->gangs != NULL) {
        gang_abort(core, coordination, coordination->gangs, "its coordinator gave way before the group was complete");
    }
}

/* The older experiment goes first: by the time of submission, then by id (the lease compares ids). */
static uint64_t age_of(const struct view_experiment *experiment)
{
    return experiment->submitted_s;
}

/* True for the slots to be asked for now: all open slots of the first node with an open slot. Slot by slot, a large gang would
 * take longer than a reservation lasts. */
static bool is_asked_for(const struct core_gang *gang, uint32_t rank)
{
    uint32_t next = 0;
    while (next < gang->member_count && gang->reserved[next]) {
        next++;
    }
    return rank >= next && !gang->reserved[rank] && node_id_equal(gang->members[rank].node, gang->members[next].node);
}

/* If we are an owner, the answer is taken before coordinator_ask_owner returns, and can end the gang: hence the copy, and the
 * look whether the gang is still there. */
void gangs_reserve_next(struct node_core *core, const struct view_experiment *experiment, struct core_gang *gang)
{
    struct core_coordination *coordination = core_find_coordination(core, gang->attempt.experiment);
    gang->resend_ms = core->now_ms + CORE_RESEND_MS;
    const struct core_gang asked = *gang;
    struct message message;
    for (uint32_t rank = 0; rank < asked.member_count && find_gang(coordination, &asked.attempt) != NULL; rank++) {
        if (is_asked_for(&asked, rank)) {
            lease_message(&asked, rank, MESSAGE_RESERVE, &message);
            message.u.lease.rank = 0;
            message.u.lease.asking = asked.asking;
            message.u.lease.priority = view_experiment_priority(experiment);
            message.u.lease.age = age_of(experiment);
            coordinator_ask_owner(core, asked.members[rank].node, &message);
        }
    }
}

/* Every slot is reserved for a moment: records the attempt, or the joiners, before the confirmation. Ranks are in the order of
 * the slots. */
static void gang_record(struct node_core *core, struct core_coordination *coordination,
                        const struct view_experiment *experiment, struct core_gang *gang)
{
    gang_move(gang, CORE_GANG_RECORDING);
    gang->until_ms = core->now_ms + CORE_GANG_RESERVE_MS;
    if (gang->is_joining) {
        if (!elastic_record_joiners(core, coordination, gang)) {
            gang->until_ms = core->now_ms;
        }
        return;
    }
    struct fact_attempt fact = {.member_count = gang->member_count};
    const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
    if (experiment->config->begin_from[0] != '\0' && (trial == NULL || core_checkpoints_newest(core, trial) == NULL)) {
        gang->until_ms = core->now_ms; /* its copy is denied since the gang was formed, and it never begins from nothing */
        return;
    }
    if (experiment->is_drawn && !draw_attempt(core, coordination, &gang->attempt, &fact.draw)) {
        MARK(values_not_drawn_now);
        gang->until_ms = core->now_ms; /* given up before anything is recorded of it */
        return;
    }
    memcpy(fact.members, gang->members, gang->member_count * sizeof fact.members[0]);
    bytes_copy_text(fact.network, sizeof fact.network, gang->network);
    trial = view_find_trial(experiment, gang->attempt.trial); /* there now, if its values were just drawn */
    bool is_awaited;
    const struct view_manifest *newest = core_checkpoints_beginning(core, experiment, gang->attempt.trial, &is_awaited);
    if (is_awaited) {
        MARK(checkpoint_of_parent_awaited);
        gang->until_ms = core->now_ms;
        return;
    }
    if (newest == NULL && gang->attempt.trial > 0 && view_find_trial(experiment, 0) != NULL &&
        BUG(lineages_mixed, "a trial starts from its own checkpoints")) {
        newest = core_checkpoints_newest(core, view_find_trial(experiment, 0));
    }
    if (newest != NULL) {
        MARK(resumed_from_checkpoint);
        fact.start_step = newest->step;
        fact.checkpoint = newest->blob;
        fact.checkpoint_bytes = newest->bytes;
    }
    const struct view_manifest *oldest = newest;
    while (oldest != NULL && oldest->next != NULL &&
           BUG(stale_start_step, "a further attempt starts from the newest checkpoint that can be reached")) {
        oldest = oldest->next;
        fact.start_step = oldest->step;
        fact.checkpoint = oldest->blob;
    }
    if (newest != NULL && BUG(start_step_invented, "an attempt starts at the step of its checkpoint")) {
        fact.start_step++;
    }
    const struct view_output *outputs[FACT_OUTPUTS_MAX];
    fact.beginning_count = core_outputs_choose(core, experiment, trial, outputs);
    const struct view_trial *parent = view_population_parent(experiment, gang->attempt.trial);
    if (fact.beginning_count == 0 && parent != NULL && (trial == NULL || trial->manifests == NULL)) {
        fact.beginning_count = core_outputs_choose(core, experiment, parent, outputs);
    }
    for (uint32_t i = 0; i < fact.beginning_count; i++) {
        fact.beginnings[i] = (struct fact_beginning){outputs[i]->number, outputs[i]->fact.blob, outputs[i]->fact.bytes};
    }
    fact.retried = BUG(retry_unrecorded, "an attempt records the retry of its trial") ? 0 : view_trial_retried(trial);
    uint8_t bytes[RECORD_BODY_BYTES_MAX]; /* outputs of more than one rank go with FACT_OUTPUTS_MAX ranks at most */
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    bool is_large = experiment->config->max_slots > FACT_MEMBERS_PLAIN; /* whatever the gang's size: groups may grow */
    if (is_large) {
        fact_attempt_large_pack(&writer, &fact);
    } else {
        fact_attempt_pack(&writer, &fact);
    }
    struct core_pending *pending = core_put(core, is_large ? FACT_ATTEMPT_LARGE : FACT_ATTEMPT, fact_key_attempt(&gang->attempt), &writer);
    if (pending != NULL) {
        pending->action = CORE_ACTION_ASSIGNED;
        pending->attempt = gang->attempt;
        gang->recorded = pending->version;
    }
    char where[160] = "";
    for (uint32_t i = 0; i < gang->member_count; i++) {
        size_t used = strlen(where);
        format_text(where + used, sizeof where - used, " %s/%u", view_label(&core->view, gang->members[i].node).text,
                    gang->members[i].slot);
    }
    TRACE_EVENT(&core->options.trace, event_of_attempt(EVENT_TRIAL_STARTED, &gang->attempt),
                "%s trial %u attempt %u from step %llu on%s", coordinator_name(experiment),
                gang->attempt.trial, gang->attempt.number, (unsigned long long)fact.start_step, where);
}

/* If we are an owner, the answer is taken before coordinator_ask_owner returns, and can end the gang: hence the copy, and the
 * look whether the gang is still there. */
static void gang_confirm(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang)
{
    gang->resend_ms = core->now_ms + CORE_RESEND_MS;
    const struct core_gang asked = *gang;
    struct message message;
    for (uint32_t rank = 0; rank < asked.member_count && find_gang(coordination, &asked.attempt) != NULL; rank++) {
        if (!asked.confirmed[rank]) {
            lease_message(&asked, rank, MESSAGE_CONFIRM, &message);
            memcpy(message.u.lease.group_key, asked.group_key, sizeof message.u.lease.group_key);
            coordinator_ask_owner(core, asked.members[rank].node, &message);
        }
    }
}

void core_coordinator_assigned(struct node_core *core, const attempt_id *attempt, struct record_version version)
{
    struct core_coordination *coordination = core_find_coordination(core, attempt->experiment);
    struct core_gang *gang = find_gang(coordination, attempt);
    if (gang != NULL && gang->state == CORE_GANG_RECORDING && record_version_compare(gang->recorded, version) == 0) {
        gang_move(gang, CORE_GANG_CONFIRMING);
        gang->asked_ms = core->now_ms;
        gang->until_ms = core->now_ms + CORE_GANG_CONFIRM_MS;
        gang_confirm(core, coordination, gang);
    }
}

/* False once the gang serves no purpose: meanwhile a user's request or the work of another coordinator has become known. */
static bool gang_is_wanted(const struct node_core *core, const struct view_experiment *experiment,
                           const struct core_gang *gang)
{
    const struct view_trial *trial = view_find_trial(experiment, gang->attempt.trial);
    if (BUG(gang_never_unwanted, "a gang gives up when its trial is done or its experiment cancelled")) {
        return true;
    }
    if (view_experiment_cancelled(experiment) || view_experiment_paused(experiment) ||
        (gang->state == CORE_GANG_RESERVING && coordinator_minority_pauses(core, experiment)) ||
        (trial != NULL && view_trial_completed(trial) != NULL) || view_trial_stopped(trial) ||
        view_search_course(experiment, gang->attempt.trial) == VIEW_ENDS ||
        view_search_course(experiment, gang->attempt.trial) == VIEW_IS_PAUSED) {
        return false;
    }
    if (gang->state == CORE_GANG_RESERVING && !gang->is_joining && trial != NULL &&
        core_checkpoints_may_return(core, trial)) {
        return false;
    }
    if (view_trial_state(experiment, gang->attempt.trial) == VIEW_TRIAL_FAILED &&
        !BUG(gang_of_the_failed, "a trial that is given up is not begun again")) {
        MARK(gang_of_a_failed_trial);
        return false; /* another coordinator's record of the trial's last failure has come meanwhile */
    }
    for (const struct view_attempt *a = trial != NULL ? trial->attempts : NULL; a != NULL; a = a->next) {
        bool is_own = attempt_id_equal(&a->id, &gang->attempt);
        if (is_own && gang->is_joining && a->verdicts == NULL) {
            continue;
        }
        if ((is_own && a->verdicts != NULL) || (!is_own && a->assigned && a->verdicts == NULL)) {
            return false;
        }
    }
    return true;
}

/* A slot may be reserved for another gang for a moment; ERR_REFUSED means that the node grants no slot at all, for example
 * because its disk is full. */
static void note_refusal(struct node_core *core, node_id owner, uint32_t slot, int code)
{
    struct core_peer *peer = core_find_peer(core, owner);
    placing_back_off(core, owner, slot, CORE_SLOT_BACKOFF_MS);
    if (peer != NULL && code == ERR_REFUSED) {
        MARK(owner_is_unwilling);
        peer->unwilling_ms = core->now_ms;
    }
}

static void on_reserve_answer(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                              node_id from, const struct message *message)
{
    uint32_t rank = 0;
    while (rank < gang->member_count &&
           (!node_id_equal(gang->members[rank].node, from) || gang->members[rank].slot != message->u.lease.slot)) {
        rank++;
    }
    if (gang->state != CORE_GANG_RESERVING || rank == gang->member_count || !is_asked_for(gang, rank) ||
        message->u.lease.asking != gang->asking) {
        return;
    }
    if (message->u.lease.code != 0) {
        note_refusal(core, from, message->u.lease.slot, message->u.lease.code);
        gang_abort(core, coordination, gang, "a slot was refused");
        return;
    }
    struct core_peer *peer = core_find_peer(core, from);
    if (peer != NULL) {
        peer->unwilling_ms = 0;
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, coordination->experiment);
    if (!gang_is_wanted(core, experiment, gang)) {
        MARK(gang_not_wanted_any_more);
        gang_abort(core, coordination, gang, "it is not wanted any more");
        return;
    }
    gang->reserved[rank] = true;
    gang->reserved_count++;
    bool is_last = true; /* of the node's slots */
    for (uint32_t i = 0; i < gang->member_count; i++) {
        is_last &= gang->reserved[i] || !node_id_equal(gang->members[i].node, from);
    }
    if (gang->reserved_count == gang->member_count) {
        gang_record(core, coordination, experiment, gang);
    } else if (is_last) {
        gang->asked_ms = core->now_ms;
        gangs_reserve_next(core, experiment, gang);
    }
}

static void on_confirm_answer(struct node_core *core, struct core_coordination *coordination, struct core_gang *gang,
                              node_id from, const struct message *message)
{
    uint32_t rank = message->u.lease.rank - gang->first_number;
    if (gang->state != CORE_GANG_CONFIRMING || rank >= gang->member_count ||
        !node_id_equal(gang->members[rank].node, from) || gang->members[rank].slot != message->u.lease.slot) {
        return;
    }
    if (message->u.lease.code != 0) {
        note_refusal(core, from, message->u.lease.slot, message->u.lease.code);
        gang_abort(core, coordination, gang, "a slot was not confirmed");
        return;
    }
    gang->confirmed[rank] = true;
    for (uint32_t i = 0; i < gang->member_count; i++) {
        if (!gang->confirmed[i]) {
            return;
        }
    }
    struct core_watch *watch = gang->is_joining ? watch_row(core, coordination, &gang->attempt) : NULL;
    if (watch != NULL) {
        watch->joined_ms = core->now_ms; /* in a large mesh the owner's record comes after its answer */
    }
    gang_end(core, coordination, gang); /* complete: from now on the records tell the rest */
}

void gangs_receive(struct node_core *core, struct core_coordination *coordination, node_id from,
                   const struct message *message)
{
    struct core_gang *gang = find_gang(coordination, &message->u.lease.attempt);
    if (gang != NULL && message->kind == MESSAGE_RESERVE_ANSWER) {
        on_reserve_answer(core, coordination, gang, from, message);
    } else if (gang != NULL && message->kind == MESSAGE_CONFIRM_ANSWER) {
        on_confirm_answer(core, coordination, gang, from, message);
    }
}

/* An owner that counts as alive does not answer: it hears other nodes and not us, or we do not hear it. Such an owner is not
 * asked for a while. Otherwise gangs would be placed there again and again, whatever is free elsewhere, and would hold slots
 * that other gangs could use. */
static void note_silent(struct node_core *core, const struct core_gang *gang)
{
    for (uint32_t rank = 0; rank < gang->member_count && core->now_ms - gang->asked_ms >= CORE_OWNER_SILENT_MS; rank++) {
        bool is_asked = gang->state == CORE_GANG_RESERVING ? is_asked_for(gang, rank)
                                                           : gang->state == CORE_GANG_CONFIRMING && !gang->confirmed[rank];
        struct core_peer *peer = is_asked ? core_find_peer(core, gang->members[rank].node) : NULL;
        if (peer != NULL && !BUG(silent_asked_again, "an owner that does not answer is not asked for a while")) {
            MARK(silent_owner_avoided);
            peer->silent_until_ms = core->now_ms + CORE_OWNER_SKIPPED_MS;
        }
    }
}

/* Does the next due action for a gang. True: something was done, and gangs may be over because of the action, so the caller
 * starts over. Every gang gets a turn once a tick, since the action moves the gang's next time. */
static bool gangs_step(struct node_core *core, struct core_coordination *coordination,
                       const struct view_experiment *experiment)
{
    for (struct core_gang *gang = coordination->gangs; gang != NULL; gang = gang->next) {
        bool unreachable = false;
        for (uint32_t i = 0; i < gang->member_count; i++) {
            unreachable |= !core_node_alive(core, gang->members[i].node);
        }
        if (unreachable && gang->state == CORE_GANG_CONFIRMING) {
            MARK(gang_loses_sight);
            /* Workers may have begun beyond the cut: no verdict now; attempts_judge gives it in time. */
            gang_end(core, coordination, gang);
            return true;
        }
        if (core->now_ms >= gang->until_ms && !unreachable) {
            note_silent(core, gang);
        }
        if (core->now_ms >= gang->until_ms || unreachable || !gang_is_wanted(core, experiment, gang)) {
            gang_abort(core, coordination, gang, "its group did not become complete");
            return true;
        }
        if (core->now_ms >= gang->resend_ms && gang->state == CORE_GANG_RESERVING) {
            gangs_reserve_next(core, experiment, gang);
            return true;
        }
        if (core->now_ms >= gang->resend_ms && gang->state == CORE_GANG_CONFIRMING) {
            gang_confirm(core, coordination, gang);
            return true;
        }
    }
    return false;
}

void gangs_tick(struct node_core *core, struct core_coordination *coordination,
                const struct view_experiment *experiment)
{
    while (core_has_room(core, ROOM_TO_END, 1u << 18) && gangs_step(core, coordination, experiment)) {
    }
}

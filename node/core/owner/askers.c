#include "node/core/owner/askers.h"

#include "base/err.h"
#include "base/probe.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/members/clocks.h"
#include "node/core/members/members.h"
#include "node/core/owner/slots.h"
#include "node/core/queue/queue.h"

/* ---- the order ----------------------------------------------------------------------------------------------------- */

static struct queue_entry rank_of(const struct node_core *core, const struct core_asker *asker)
{
    experiment_id id = asker->attempt.experiment;
    struct queue_entry entry = queue_entry_of(id, view_find_experiment(&core->view, id));
    if (BUG(message_believed, "an owner ranks askers by its own records, not by numbers in a message") && asker->priority != UINT32_MAX) {
        entry.priority = asker->priority;
    }
    return entry;
}

static bool is_same_user(const struct node_core *core, const struct core_asker *a, const struct core_asker *b)
{
    const struct queue_entry rank_a = rank_of(core, a), rank_b = rank_of(core, b);
    return queue_is_same_user(&rank_a, &rank_b);
}

/* A total order of askers: of one experiment the trial with the smaller index, and of one trial the newer attempt. */
static bool is_first(const struct node_core *core, const struct core_asker *a, const struct core_asker *b)
{
    const struct queue_entry rank_a = rank_of(core, a), rank_b = rank_of(core, b);
    int order = queue_compare(&rank_a, &rank_b);
    if (order != 0) {
        return order < 0;
    }
    if (a->attempt.trial != b->attempt.trial) {
        return a->attempt.trial < b->attempt.trial;
    }
    return attempt_id_compare_order(&a->attempt, &b->attempt) > 0;
}

/* ---- experiments that have not asked -------------------------------------------------------------------------------- */

static bool is_passed(const struct node_core *core, experiment_id experiment)
{
    for (uint32_t i = 0; i < CORE_PASSED_MAX; i++) {
        const struct core_passed *passed = &core->owner->passed[i];
        if (passed->until_ms > core->now_ms && experiment_id_equal(passed->experiment, experiment)) {
            return true;
        }
    }
    return false;
}

/* Takes the place of one that is over, else of the one that ends first. */
static void pass(struct node_core *core, experiment_id experiment)
{
    struct core_passed *place = &core->owner->passed[0];
    for (uint32_t i = 1; i < CORE_PASSED_MAX; i++) {
        struct core_passed *other = &core->owner->passed[i];
        place = other->until_ms < place->until_ms ? other : place;
    }
    MARK(slot_waited_in_vain);
    *place = (struct core_passed){experiment, core->now_ms + CORE_ASK_PASSED_MS};
}

static void has_asked(struct node_core *core, experiment_id experiment)
{
    for (uint32_t i = 0; i < CORE_PASSED_MAX; i++) {
        if (experiment_id_equal(core->owner->passed[i].experiment, experiment)) {
            core->owner->passed[i] = (struct core_passed){.until_ms = 0};
        }
    }
}

/* Slots that the configuration allows and that are free on nodes that may give them, as far as records tell; of this node those that
 * are free now. */
static uint32_t count_free(const struct node_core *core, const struct config *config)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        bool is_self = node_id_equal(member->id, core->options.self);
        if (member->left || !core_node_trusted(core, member->id) || core_node_drained(core, member->id)) {
            continue;
        }
        uint64_t fitting = view_member_fitting(member, config);
        for (uint32_t slot = 0; slot < member->slot_count && slot < LEASE_SLOTS_MAX; slot++) {
            const struct view_slot *row = view_member_slot(member, slot);
            bool is_free = is_self ? core->owner->lease.slots[slot].state == LEASE_FREE
                                   : row != NULL && row->state == LEASE_FREE && !row->withheld;
            count += is_free && (fitting >> slot & 1) != 0;
        }
    }
    return count;
}

/* A node that is heard decides for the experiment, and nothing that the experiment names keeps it from beginning. */
static bool can_ask(const struct node_core *core, const struct view_experiment *experiment)
{
    bool is_released;
    struct election_claim claim = view_claim_highest(experiment, &is_released);
    bool is_led = claim.term > 0 && !is_released && core_node_trusted(core, claim.node);
    return is_led && (!config_needs_waits(experiment->config) ||
                      view_experiment_wait(&core->view, experiment, core_mesh_wall_s(core)).cause == VIEW_WAITS_NOT);
}

/* Looks for an experiment that comes before `rank`, of which a trial waits that this slot and others that are free would let begin. If
 * `passes`, all such are passed over from now on, and none is found. */
static bool find_better(struct node_core *core, uint32_t slot, const struct queue_entry *rank, bool passes)
{
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    for (uint32_t i = 0; i < core->view.experiment_count && self != NULL && slot < self->slot_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (!experiment->known || experiment_id_equal(experiment->id, rank->experiment)) {
            continue;
        }
        const struct queue_entry other = queue_entry_of(experiment->id, experiment);
        if (queue_compare(&other, rank) < 0 && (view_member_fitting(self, experiment->config) >> slot & 1) != 0 &&
            !is_passed(core, experiment->id) && queue_next_trial(experiment) != FACT_NO_TRIAL && can_ask(core, experiment) &&
            count_free(core, experiment->config) >= experiment->config->min_slots) {
            if (!passes) {
                return true;
            }
            pass(core, experiment->id);
        }
    }
    return false;
}

/* ---- slots that wait ------------------------------------------------------------------------------------------------ */

static void answer(struct node_core *core, uint32_t slot, const struct core_asker *asker, int code)
{
    struct message asked = {.kind = MESSAGE_RESERVE};
    asked.u.lease.attempt = asker->attempt;
    asked.u.lease.slot = slot;
    asked.u.lease.asking = asker->asking;
    owner_answer(core, asker->from, MESSAGE_RESERVE_ANSWER, &asked, code, core_fence_get(core, asker->attempt.experiment));
}

static bool is_free(const struct node_core *core, uint32_t slot)
{
    const struct lease *lease = &core->owner->lease;
    return slot < lease->count && lease->granting && lease->slots[slot].state == LEASE_FREE;
}

/* Asks the slots' core, and answers. */
static void reserve(struct node_core *core, uint32_t slot, const struct core_asker *asker, bool takes_over)
{
    struct lease_changes changes = {0};
    int code = ERR_AGAIN; /* of a stopped trial: the coordinator does not know of the stop yet, or does not obey it */
    if (view_is_deleted(&core->view, asker->attempt.experiment)) {
        code = ERR_NOT_FOUND; /* since it asked */
    } else if (!owner_trial_is_stopped(core, &asker->attempt)) {
        code = lease_reserve(&core->owner->lease, core->now_ms, slot, &asker->attempt, takes_over, &changes);
    }
    answer(core, slot, asker, code);
}

static void remove_asker(struct core_slot_wait *wait, uint32_t at)
{
    wait->askers[at] = wait->askers[--wait->count];
    if (wait->count == 0) {
        *wait = (struct core_slot_wait){.count = 0};
    }
}

/* The place of the first asker in the order or, if `last`, of the last one. */
static uint32_t find_asker(const struct node_core *core, const struct core_slot_wait *wait, bool last)
{
    uint32_t found = 0;
    for (uint32_t i = 1; i < wait->count; i++) {
        found = is_first(core, &wait->askers[i], &wait->askers[found]) != last ? i : found;
    }
    return found;
}

/* Gives the slot to the first asker if it need not wait any more. If this node is a coordinator itself, an answer reaches it before
 * owner_answer returns, and it may ask for the same slot then: so the wait is over before the first answer. */
static void settle(struct node_core *core, uint32_t slot)
{
    struct core_slot_wait *wait = &core->owner->waits[slot];
    if (wait->count == 0) {
        return;
    }
    uint32_t first = find_asker(core, wait, false);
    const struct queue_entry rank = rank_of(core, &wait->askers[first]);
    if (is_free(core, slot) && find_better(core, slot, &rank, core->now_ms >= wait->until_ms)) {
        wait->look_ms = core->now_ms + CORE_ASK_LOOK_MS;
        return;
    }
    const struct core_slot_wait ended = *wait;
    *wait = (struct core_slot_wait){.count = 0};
    reserve(core, slot, &ended.askers[first], false);
    for (uint32_t i = 0; i < ended.count; i++) {
        if (i != first) {
            MARK(asker_behind_another);
            answer(core, slot, &ended.askers[i], ERR_AGAIN);
        }
    }
}

static void note(struct node_core *core, uint32_t slot, const struct core_asker *asker)
{
    struct core_slot_wait *wait = &core->owner->waits[slot];
    uint32_t at = 0;
    while (at < wait->count && !attempt_id_equal(&wait->askers[at].attempt, &asker->attempt)) {
        at++;
    }
    if (at == CORE_ASKERS_MAX) {
        at = find_asker(core, wait, true);
        if (!is_first(core, asker, &wait->askers[at])) {
            answer(core, slot, asker, ERR_AGAIN);
            return;
        }
        const struct core_asker refused = wait->askers[at];
        wait->askers[at] = *asker;
        answer(core, slot, &refused, ERR_AGAIN);
        return;
    }
    if (wait->count == 0) {
        wait->until_ms = core->now_ms + CORE_ASK_MS;
    }
    wait->count += at == wait->count;
    wait->askers[at] = *asker;
}

void askers_ask(struct node_core *core, node_id from, const struct message *message)
{
    uint32_t slot = message->u.lease.slot;
    const struct core_asker asker = {.attempt = message->u.lease.attempt,
                                     .from = from,
                                     .asking = message->u.lease.asking,
                                     .priority = message->u.lease.priority};
    has_asked(core, asker.attempt.experiment);
    if (is_free(core, slot)) {
        note(core, slot, &asker);
        settle(core, slot);
        return;
    }
    const struct lease *lease = &core->owner->lease;
    bool is_reserved = slot < lease->count && lease->slots[slot].state == LEASE_RESERVED;
    const struct core_asker holder = {.attempt = is_reserved ? lease->slots[slot].attempt : asker.attempt, .priority = UINT32_MAX};
    reserve(core, slot, &asker, is_reserved && is_same_user(core, &asker, &holder) && is_first(core, &asker, &holder));
}

/* ---- the rest ------------------------------------------------------------------------------------------------------ */

void askers_forget(struct node_core *core, const attempt_id *attempt)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        struct core_slot_wait *wait = &core->owner->waits[slot];
        for (uint32_t i = wait->count; i-- > 0;) {
            if (attempt_id_equal(&wait->askers[i].attempt, attempt)) {
                remove_asker(wait, i);
            }
        }
    }
}

void askers_overruled(struct node_core *core, experiment_id experiment)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        struct core_slot_wait *wait = &core->owner->waits[slot];
        for (uint32_t i = wait->count; i-- > 0;) {
            if (experiment_id_equal(wait->askers[i].attempt.experiment, experiment)) {
                remove_asker(wait, i);
            }
        }
    }
}

#define ROOM_TO_ANSWER 512 /* effects: an answer to this node itself may begin or end a gang */

void askers_tick(struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_slot_wait *wait = &core->owner->waits[slot];
        bool is_due = wait->count > 0 && (core->now_ms >= wait->look_ms || core->now_ms >= wait->until_ms || !is_free(core, slot));
        if (is_due && core_has_room(core, ROOM_TO_ANSWER, 1u << 18)) {
            settle(core, slot);
        }
    }
}

uint64_t askers_next_ms(const struct core_owner *owner)
{
    uint64_t next_ms = UINT64_MAX;
    for (uint32_t slot = 0; slot < owner->lease.count; slot++) {
        const struct core_slot_wait *wait = &owner->waits[slot];
        uint64_t due_ms = wait->look_ms < wait->until_ms ? wait->look_ms : wait->until_ms;
        next_ms = wait->count > 0 && due_ms < next_ms ? due_ms : next_ms;
    }
    return next_ms;
}

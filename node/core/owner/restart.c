/* A new boot and the workers and slots of the last boot: workers that are alive and are adopted, slots that were leased or
 * withheld, slots that the machine has lost. And all records again when peers hold newer records of this node than its disk.
 * Later events are the business of slots.c and workers.c. */

#include "base/probe.h"
#include "node/core/copies/acks.h"
#include "node/core/members/twin.h"
#include "node/core/owner/groups.h"
#include "node/core/owner/restart.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/usage.h"
#include "node/core/owner/workers.h"

static const struct view_slot *own_slot(const struct node_core *core, uint32_t slot)
{
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    return self != NULL ? view_member_slot(self, slot) : NULL;
}

/* True if the slot has a worker, by the slot's record. */
static bool is_taken(const struct view_slot *slot)
{
    return slot != NULL && (slot->state == LEASE_LEASED || slot->state == LEASE_RELEASING);
}

void core_owner_adopt(struct node_core *core, const struct node_event *event)
{
    uint32_t slot = event->u.adopt.slot;
    if (slot >= core->owner->lease.count || core->owner->workers[slot].phase != CORE_WORKER_NONE) {
        return;
    }
    const struct view_slot *before = own_slot(core, slot);
    bool is_leased = before != NULL && before->state == LEASE_LEASED &&
                     attempt_id_equal(&before->attempt, &event->u.adopt.attempt);
    struct core_worker *worker = &core->owner->workers[slot];
    worker->attempt = event->u.adopt.attempt;
    worker->number = event->u.adopt.number;
    worker->end_reason = FACT_LOST;
    worker->data_port = event->u.adopt.data_port;
    worker->draw = event->u.adopt.draw;
    worker->key_generation = 1;
    worker->key_claim = (struct election_claim){worker->attempt.term, worker->attempt.coordinator};
    memcpy(worker->group_key, event->u.adopt.group_key, sizeof worker->group_key);
    is_leased &= lease_restore(&core->owner->lease, core->now_ms, slot, &worker->attempt, worker->number, event->u.adopt.token,
                               is_leased) &&
                 core->owner->lease.slots[slot].state == LEASE_LEASED; /* a damaged token restores no lease */
    owner_worker_move(worker, is_leased ? CORE_WORKER_RUNNING : CORE_WORKER_ENDING);
    if (is_leased) {
        MARK(worker_adopted);
    } else {
        MARK(worker_found_without_lease);
    }

    /* The worker goes on with the step, the metrics and the ports of its last record. */
    struct fact_key key = fact_key_worker(&worker->attempt, worker->number);
    const struct records_entry *entry = records_find(
        &core->records, record_ident_of(core->options.self, FACT_WORKER, key.bytes, key.count));
    struct fact_worker fact;
    if (entry != NULL && fact_worker_read(&entry->record, &fact) == 0) {
        worker->step = fact.step;
        worker->started_s = fact.started_s;
        worker->master_port = fact.master_port;
        worker->data_port = worker->data_port != 0 ? worker->data_port : fact.data_port;
        worker->generation = fact.generation;
        worker->is_elastic = fact.is_elastic;
        owner_group_adopt(worker, fact.waits);
        worker->has_state = fact.has_state;
        worker->applied_step = fact.applied_step;
        worker->metrics_step = fact.step; /* the metrics are of this step or an earlier step */
        worker->metrics_bytes = fact.metrics_bytes;
        memcpy(worker->metrics, fact.metrics, fact.metrics_bytes);
    }
}

/* Publishes the end of the worker that a record of an earlier boot names in the slot; the slot's present worker stays. */
static void put_lost(struct node_core *core, uint32_t slot, const struct view_slot *before)
{
    struct core_worker *worker = &core->owner->workers[slot];
    const struct core_worker kept = *worker;
    *worker = (struct core_worker){.attempt = before->attempt, .number = (uint16_t)before->rank};
    owner_put_worker(core, slot, FACT_WORKER_ENDED, FACT_LOST, 0, NULL);
    *worker = kept;
}

/* A slot of an earlier boot that the machine no longer has: the worker there is lost, and the slot's record must not stay
 * leased for ever. */
static void slot_is_gone(struct node_core *core, uint32_t slot)
{
    const struct view_slot *before = own_slot(core, slot);
    if (!is_taken(before)) {
        return;
    }
    TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_SLOT_LOST, &before->attempt, slot),
                "slot %u is gone, and the worker of trial %u with it", slot, before->attempt.trial);
    put_lost(core, slot, before);
    (void)owner_put_slot(core, slot); /* free: no coordinator asks for a slot beyond the node's count */
}

/* A slot that its owner withheld in an earlier boot stays withheld, unless the owner has withheld or returned the slot in this
 * boot. A slot withheld at a twin is left alone. Deadlines are not stored, so the time begins anew. */
static void restore_hold(struct node_core *core, uint32_t slot)
{
    const struct view_slot *before = own_slot(core, slot);
    bool is_asked = (core->owner->asked_slots >> slot & 1) != 0;
    struct lease_changes changes;
    if (before != NULL && before->withheld && !core->owner->lease.holds[slot].withheld && !is_asked && core->twin->life == 0) {
        (void)lease_withhold(&core->owner->lease, core->now_ms, slot, before->withheld_s * 1000, &changes);
        core->owner->anew_slots |= before->withheld_s != 0 ? UINT64_C(1) << slot : 0;
    }
}

void core_owner_start(struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        restore_hold(core, slot);
        struct core_worker *worker = &core->owner->workers[slot];
        const struct view_slot *before = own_slot(core, slot);
        if (worker->phase == CORE_WORKER_RUNNING) {
            TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_WORKER_ADOPTED, &worker->attempt, slot),
                        "adopted the worker of trial %u in slot %u", worker->attempt.trial, slot);
            owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL); /* under this boot */
            (void)owner_put_slot(core, slot);
        } else if (worker->phase == CORE_WORKER_ENDING) {
            (void)owner_put_slot(core, slot);
            owner_worker_effect(core, NODE_EFFECT_KILL, slot, CORE_KILL_GRACE_MS);
        } else if (is_taken(before)) {
            TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_WORKER_ENDED, &before->attempt, slot),
                        "the worker of trial %u in slot %u did not survive", before->attempt.trial, slot);
            worker->attempt = before->attempt;
            worker->number = (uint16_t)before->rank;
#ifdef SHOAL_BUGS
            struct fact_key key = fact_key_slot(slot);
            const struct records_entry *entry =
                records_find(&core->records, record_ident_of(core->options.self, FACT_SLOT, key.bytes, key.count));
            struct fact_slot fact;
            if (entry != NULL && fact_slot_read(&entry->record, &fact) == 0) {
                memcpy(core->owner->bug_token_hashes[slot], fact.token_hash, sizeof fact.token_hash);
            }
#endif
            owner_worker_gone(core, slot, FACT_LOST, 0, NULL);
        } else {
            (void)owner_put_slot(core, slot);
        }
    }
    for (uint32_t slot = core->owner->lease.count; slot < FACT_SLOTS_MAX; slot++) {
        slot_is_gone(core, slot);
    }
}

void core_owner_restate(struct node_core *core)
{
    usage_restate(core);
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        restore_hold(core, slot);
        const struct view_slot *published = own_slot(core, slot);
        struct core_worker *worker = &core->owner->workers[slot];
        if (is_taken(published) &&
            (worker->phase == CORE_WORKER_NONE || !attempt_id_equal(&worker->attempt, &published->attempt))) {
            put_lost(core, slot, published);
        }
        if (worker->phase == CORE_WORKER_RUNNING || worker->phase == CORE_WORKER_PREPARED) {
            bool runs = worker->phase == CORE_WORKER_RUNNING;
            owner_put_worker(core, slot, runs ? FACT_WORKER_RUNNING : FACT_WORKER_PREPARED, FACT_COMPLETED, 0, NULL);
        }
        if (core->owner->lease.slots[slot].state == LEASE_RESERVED) { /* the coordinator asks again */
            owner_reservation_return(core, slot);
        }
        struct core_pending *pending = owner_put_slot(core, slot);
        if (pending != NULL) {
            core_acks_renew(core, pending->ident); /* a user's request to withhold waits for the new record */
        }
    }
    for (uint32_t slot = core->owner->lease.count; slot < FACT_SLOTS_MAX; slot++) {
        slot_is_gone(core, slot);
    }
}

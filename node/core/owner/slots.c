/* The slots of this node (DESIGN 7, 8): records of slots and workers, the requests of coordinators, and slots that the owner
 * takes back. The life of a worker from its lease to its end is in workers.c, the start of a new boot in restart.c. */

#include <sodium/crypto_generichash.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/copies/copies.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/links.h"
#include "node/core/members/members.h"
#include "node/core/owner/askers.h"
#include "node/core/owner/groups.h"
#include "node/core/owner/runtime.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/usage.h"
#include "node/core/owner/usage_check.h"
#include "node/core/owner/workers.h"

/* ---- records of slots and workers ---------------------------------------------------------------------------------- */

static void token_hash(lease_token token, uint8_t out[16])
{
    memset(out, 0, 16);
    if (!lease_token_is_none(token)) {
        (void)crypto_generichash(out, 16, token.bytes, sizeof token.bytes, NULL, 0);
    }
}

/* Since when the slot is as the record will say. 0 of a free one: a node that restarts says the same of it as before. */
static uint64_t slot_since(const struct node_core *core, uint32_t slot, const struct fact_slot *fact)
{
    if (fact->state == LEASE_FREE && !fact->withheld) {
        return 0;
    }
    struct fact_key key = fact_key_slot(slot);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_SLOT, key.bytes, key.count));
    struct fact_slot before;
    bool is_anew = (core->owner->anew_slots >> slot & 1) != 0;
    bool is_same = !is_anew && entry != NULL && fact_slot_read(&entry->record, &before) == 0 && before.state == fact->state &&
                   before.withheld == fact->withheld && attempt_id_equal(&before.attempt, &fact->attempt);
    return is_same && before.since_s != 0 ? before.since_s : core->wall_s;
}

struct core_pending *owner_put_slot(struct node_core *core, uint32_t slot)
{
    bool is_asked = (core->owner->asked_slots >> slot & 1) != 0;
    if (core->members->syncing && !core->owner->lease.granting && !is_asked) {
        return NULL;
    }
    const struct lease_slot *lease = &core->owner->lease.slots[slot];
    const struct lease_hold *hold = &core->owner->lease.holds[slot];
    struct fact_slot fact = {.state = lease->state,
                             .attempt = lease->attempt,
                             .rank = lease->rank,
                             .withheld = hold->withheld,
                             .withheld_s = hold->for_ms / 1000};
    if (lease->state == LEASE_RESERVED) {
        fact.state = LEASE_FREE; /* reservations are volatile */
    }
    if (fact.state == LEASE_FREE || fact.state == LEASE_WITHHELD) {
        memset(&fact.attempt, 0, sizeof fact.attempt);
        fact.rank = 0;
    }
    token_hash(lease->token, fact.token_hash);
    fact.since_s = slot_since(core, slot, &fact);
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_slot_pack(&writer, &fact);
    bool is_published;
    struct core_pending *pending = core_try_put(core, FACT_SLOT, fact_key_slot(slot), &writer, &is_published);
    struct core_owner *owner = core->owner;
    owner->anew_slots &= ~((uint64_t)is_published << slot);
    owner->unpublished_slots = (owner->unpublished_slots & ~(UINT64_C(1) << slot)) | (uint64_t)!is_published << slot;
    return pending;
}

/* The worker's rank in the present group; its number while the worker is in no group. */
static uint32_t own_rank(const struct node_core *core, uint32_t slot)
{
    const struct core_worker *worker = &core->owner->workers[slot];
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    uint32_t rank = attempt != NULL ? view_attempt_rank(attempt, core->options.self, slot, worker->number) : UINT32_MAX;
    return rank != UINT32_MAX ? rank : worker->number;
}

void owner_host(const struct node_core *core, const attempt_id *attempt, char *out, size_t size)
{
    char network[FACT_NETWORK_BYTES];
    links_of_attempt(core, attempt, network);
    links_own_host(core, network, out, size);
}

bool owner_put_worker(struct node_core *core, uint32_t slot, enum fact_worker_state state, enum fact_reason reason,
                       int32_t exit_code, const char *tail)
{
    struct core_worker *worker = &core->owner->workers[slot];
    struct fact_key key = fact_key_worker(&worker->attempt, worker->number);
    const struct records_entry *before =
        records_find(&core->records, record_ident_of(core->options.self, FACT_WORKER, key.bytes, key.count));
    struct fact_worker published;
    bool was_published = before != NULL && fact_worker_read(&before->record, &published) == 0;
    if (was_published && published.state == FACT_WORKER_ENDED && !BUG(end_said_twice, "how a worker ended is said once")) {
        MARK(end_said_before);
        return true; /* a daemon that died right after the record may find the worker's remains again */
    }
    /* The other members may go on after the worker's end only if the record has the last group that the worker was in. A
     * worker that did not survive its daemon has the group only in its older record. */
    bool was_later = was_published && state == FACT_WORKER_ENDED && published.generation > worker->generation;
    struct fact_worker fact = {.state = state,
                               .master_port = worker->master_port,
                               .data_port = worker->data_port,
                               .generation = was_later ? published.generation : worker->generation,
                               .is_elastic = worker->is_elastic || (was_published && published.is_elastic),
                               .waits = owner_group_waits(worker),
                               .has_state = worker->has_state,
                               .applied_step = worker->applied_step,
                               .step = worker->step,
                               .reason = reason,
                               .exit_code = exit_code,
                               .started_s = worker->started_s,
                               .stall = state == FACT_WORKER_RUNNING ? worker->stall : FACT_ACTIVE,
                               .stall_s = worker->stall_s,
                               .is_overdue = state == FACT_WORKER_RUNNING && worker->is_overdue,
                               .is_past_barrier = state == FACT_WORKER_RUNNING && worker->is_past_barrier,
                               .ended_s = worker->ended_s,
                               .cause = worker->cause,
                               .failure = reason == FACT_FAILED ? worker->failure : 0,
                               .error_ms = reason == FACT_FAILED ? worker->error_ms : 0,
                               .ran_s = worker->ran_s,
                               .metrics = worker->metrics,
                               .metrics_bytes = own_rank(core, slot) == 0 ? worker->metrics_bytes : 0};
    /* The host stays as long as others may connect there: a plain program keeps it to its end. */
    bool keeps_host = was_published && published.host[0] != '\0' && published.data_port == worker->data_port;
    if (keeps_host) {
        bytes_copy_text(fact.host, sizeof fact.host, published.host);
    } else {
        owner_host(core, &worker->attempt, fact.host, sizeof fact.host);
    }
    if (tail != NULL) {
        size_t length = strlen(tail); /* the end of a log tells most */
        size_t skip = length >= sizeof fact.tail ? length - sizeof fact.tail + 1 : 0;
        bytes_copy_text(fact.tail, sizeof fact.tail, tail + skip);
    }
    uint8_t bytes[FACT_METRICS_BYTES_MAX + FACT_TAIL_BYTES + 512];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_worker_pack(&writer, &fact);
    bool is_published;
    (void)core_try_put(core, FACT_WORKER, key, &writer, &is_published);
    worker->published_ms = core->now_ms;
    worker->dirty = !is_published;
    return is_published;
}

void owner_worker_effect(struct node_core *core, enum node_effect_kind kind, uint32_t slot, uint32_t grace_ms)
{
    const struct core_worker *worker = &core->owner->workers[slot];
    struct node_effect *effect = core_effect(core, kind);
    effect->u.worker.slot = slot;
    effect->u.worker.attempt = worker->attempt;
    effect->u.worker.number = worker->number;
    effect->u.worker.rank = own_rank(core, slot);
    effect->u.worker.grace_ms = grace_ms;
}

/* ---- requests of coordinators -------------------------------------------------------------------------------------- */

void owner_answer(struct node_core *core, node_id to, enum message_kind kind, const struct message *asked, int code,
                   struct election_claim claim)
{
    struct message message = {.kind = kind};
    message.u.lease = asked->u.lease;
    memset(message.u.lease.group_key, 0, sizeof message.u.lease.group_key);
    message.u.lease.code = code;
    message.u.lease.claim = claim;
    core_send_after_disk(core, to, &message);
}

/* A coordinator's message may arrive before the experiment's record. The number of fences is bounded, so that made-up names of
 * experiments cannot fill the memory. */
static bool fence_is_affordable(const struct node_core *core, experiment_id experiment)
{
    uint32_t count = 0;
    for (const struct core_fence *fence = core->disk->fences; fence != NULL; fence = fence->next) {
        count++;
    }
    if (view_find_experiment(&core->view, experiment) == NULL) {
        MARK(fence_ahead_of_experiment);
    }
    return view_find_experiment(&core->view, experiment) != NULL ||
           count < core->view.experiment_count + CORE_FENCES_AHEAD_MAX;
}

/* True if the claim's term is no jump above the claims of all other nodes, the fence and `heard` among them (gossip/lamport.h):
 * a claim may arrive before its record. */
static bool claim_follows(const struct node_core *core, experiment_id id, struct election_claim claim,
                          struct election_claim fence, struct election_claim heard)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, id);
    struct lamport_top others = {0};
    if (experiment != NULL) {
        others = view_claim_top(experiment, &claim.node);
    }
    if (!node_id_equal(heard.node, claim.node)) {
        lamport_see(&others, heard.term);
    }
    lamport_see(&others, node_id_equal(fence.node, claim.node) ? 0 : fence.term);
    return lamport_follows(others.first, claim.term);
}

/* Nothing is published: reservations are volatile. */
void owner_reservation_return(struct node_core *core, uint32_t slot)
{
    struct lease_changes changes = {0};
    lease_end(&core->owner->lease, slot, &changes);
    owner_perform_changes(core, &changes);
}

/* Frees slots that an overruled coordinator has reserved: a confirmation or a release from that coordinator is refused as
 * stale from now on. */
static void return_overruled(struct node_core *core, experiment_id experiment)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct lease_slot *lease = &core->owner->lease.slots[slot];
        if (lease->state == LEASE_RESERVED && experiment_id_equal(lease->attempt.experiment, experiment)) {
            MARK(reservation_overruled);
            owner_reservation_return(core, slot);
        }
    }
    askers_overruled(core, experiment);
}

/* True if the message counts. An owner keeps the highest (term, id) ever obeyed on disk, and refuses lower claims
 * (DESIGN 7). */
static bool obey(struct node_core *core, node_id from, const struct message *message, struct election_claim heard)
{
    const attempt_id *attempt = &message->u.lease.attempt;
    struct election_claim claim = message->u.lease.claim;
    struct election_claim fence = core_fence_get(core, attempt->experiment);
    int order = election_claim_compare(claim, fence);
    if (claim.term == fence.term && BUG(equal_term, "an owner refuses an equal term of a lower id")) {
        return true;
    }
    bool is_maker = attempt->term == claim.term && node_id_equal(attempt->coordinator, from);
    /* A successor may renew the leases of the attempts of its predecessor, and change their groups. */
    struct election_claim maker = {attempt->term, attempt->coordinator};
    bool is_entitled = is_maker || message->kind == MESSAGE_RENEW || election_claim_compare(claim, maker) > 0;
    if (!node_id_equal(claim.node, from) || !is_entitled || claim.term == 0 ||
        (order > 0 && !claim_follows(core, attempt->experiment, claim, fence, heard))) {
        core->counters.malformed++;
        return false;
    }
    if (order < 0 && BUG(lower_term, "an owner refuses a term below the highest that it obeyed")) {
        return true;
    }
    if (order < 0) {
        MARK(stale_term_refused);
        core->counters.stale_refused++;
        owner_answer(core, from, MESSAGE_STALE, message, ERR_STALE, fence);
        return false;
    }
    if (order == 0) {
        return true;
    }
    if (!fence_is_affordable(core, attempt->experiment) || core_fence_put(core, attempt->experiment, claim) != 0) {
        return false;
    }
    return_overruled(core, attempt->experiment);
    return true;
}

static void confirm(struct node_core *core, node_id from, const struct message *message)
{
    uint32_t slot = message->u.lease.slot;
    const attempt_id *attempt = &message->u.lease.attempt;
    struct lease_changes changes = {0};
    lease_token token;
    core_secret(core, token.bytes, sizeof token.bytes);
    int code =
        lease_confirm(&core->owner->lease, core->now_ms, slot, attempt, (uint16_t)message->u.lease.rank, token, &changes);
    struct election_claim fence = core_fence_get(core, attempt->experiment);
    if (code != 0) {
        owner_answer(core, from, MESSAGE_CONFIRM_ANSWER, message, code, fence);
        return;
    }
    struct core_worker *worker = &core->owner->workers[slot];
    if (changes.count > 0) {
        CHECK(worker->phase == CORE_WORKER_NONE || BUG(free_too_soon, "a slot is free once its worker is surely gone"));
        owner_worker_clear(worker);
        owner_worker_move(worker, CORE_WORKER_CONFIRMED);
        worker->attempt = *attempt;
        worker->confirmed_ms = core->now_ms;
        worker->number = (uint16_t)message->u.lease.rank;
        worker->end_reason = FACT_LOST;
        worker->key_generation = 1;
        worker->key_claim = message->u.lease.claim;
        memcpy(worker->group_key, message->u.lease.group_key, sizeof worker->group_key);
        (void)owner_put_slot(core, slot);
        owner_answer(core, from, MESSAGE_CONFIRM_ANSWER, message, 0, fence); /* once the lease is on disk */
    } else if (worker->phase != CORE_WORKER_CONFIRMED) {
        owner_answer(core, from, MESSAGE_CONFIRM_ANSWER, message, 0, fence);
    }
}

/* The coordinator does not know the tombstone yet. The workers of the experiment are being ended already. */
static void refuse_deleted(struct node_core *core, node_id from, const struct message *message)
{
    if (message->kind == MESSAGE_RESERVE || message->kind == MESSAGE_CONFIRM) {
        enum message_kind kind =
            message->kind == MESSAGE_RESERVE ? MESSAGE_RESERVE_ANSWER : MESSAGE_CONFIRM_ANSWER;
        owner_answer(core, from, kind, message, ERR_NOT_FOUND, (struct election_claim){0});
    }
}

bool owner_trial_is_stopped(const struct node_core *core, const attempt_id *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    return experiment != NULL && view_trial_stopped(view_find_trial(experiment, attempt->trial));
}

void core_owner_receive(struct node_core *core, node_id from, const struct message *message, struct election_claim heard)
{
    const attempt_id *attempt = &message->u.lease.attempt;
    if (view_is_deleted(&core->view, attempt->experiment)) {
        refuse_deleted(core, from, message);
        return;
    }
    if (!obey(core, from, message, heard)) {
        return;
    }
    struct lease_changes changes = {0};
    switch (message->kind) {
    case MESSAGE_RESERVE:
        askers_ask(core, from, message);
        break;
    case MESSAGE_CONFIRM:
        confirm(core, from, message);
        break;
    case MESSAGE_RENEW:
        (void)lease_renew(&core->owner->lease, core->now_ms, attempt);
        break;
    case MESSAGE_GROUP:
        owner_group_take_key(core, message);
        break;
    default: /* MESSAGE_RELEASE */
        askers_forget(core, attempt);
        lease_release(&core->owner->lease, attempt, message->u.lease.rank, &changes);
        owner_perform_changes(core, &changes);
        break;
    }
}

void core_owner_lease_on_disk(struct node_core *core, const attempt_id *attempt, uint32_t slot)
{
    struct core_worker *worker = slot < core->owner->lease.count ? &core->owner->workers[slot] : NULL;
    if (worker != NULL && worker->phase != CORE_WORKER_NONE && attempt_id_equal(&worker->attempt, attempt)) {
        if (worker->phase == CORE_WORKER_CONFIRMED) {
            owner_worker_move(worker, CORE_WORKER_LEASED);
        }
        struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
        if (experiment != NULL) {
            experiment->changed = true;
        }
    }
}

/* ---- time ---------------------------------------------------------------------------------------------------------- */

void core_owner_tick(struct node_core *core)
{
    askers_tick(core);
    if (core->now_ms < lease_next_ms(&core->owner->lease)) {
        return;
    }
    bool was_withheld[LEASE_SLOTS_MAX];
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        was_withheld[slot] = core->owner->lease.holds[slot].withheld;
    }
    struct lease_changes changes = {0};
    lease_tick(&core->owner->lease, core->now_ms, &changes);
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        if (was_withheld[slot] && !core->owner->lease.holds[slot].withheld) {
            TRACE_EVENT(&core->options.trace, event_of_slot(EVENT_SLOT_RETURNED, slot),
                        "slot %u is returned: its time is over", slot);
            (void)owner_put_slot(core, slot);
        }
    }
    for (uint32_t i = 0; i < changes.count; i++) {
        if (changes.items[i].to == LEASE_RELEASING) {
            TRACE_EVENT(&core->options.trace, event_of_slot(EVENT_SLOT_EXPIRED, changes.items[i].slot),
                        "the lease of slot %u ended: no coordinator renewed it", changes.items[i].slot);
        }
    }
    owner_perform_changes(core, &changes);
}

/* A drained node publishes that no worker is left and that all saved checkpoints have been copied. */
static void publish_idle(struct node_core *core)
{
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    struct fact_drain drain = self != NULL ? view_member_drain(self) : (struct fact_drain){0};
    if (!drain.drained || drain.is_idle || core->members->syncing || core->copies->pushes != NULL || !core_owner_idle(core) ||
        !core_has_room(core, 256, 1u << 16)) {
        return;
    }
    drain.is_idle = true;
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_drain_pack(&writer, &drain);
    struct fact_key key = fact_key_node_id(core->options.self);
    record_ident ident = record_ident_of(core->options.self, FACT_DRAIN, key.bytes, key.count);
    struct records_entry *entry = records_find(&core->records, ident);
    struct fact_drain published;
    bool is_asked = entry != NULL && entry->is_asked && fact_drain_read(&entry->record, &published) == 0 &&
                    published.lamport == drain.lamport;
    if (core_put(core, FACT_DRAIN, key, &writer) != NULL) {
        records_find(&core->records, ident)->is_asked = is_asked; /* still the user's request */
    }
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EMPTIED, core->options.self),
                "drained: no worker runs here any more");
}

static void look_again(struct node_core *core, uint32_t slot)
{
    struct view_experiment *experiment = view_find_experiment(&core->view, core->owner->workers[slot].attempt.experiment);
    if (core->owner->workers[slot].phase != CORE_WORKER_NONE && experiment != NULL) {
        experiment->changed = true;
    }
}

void core_owner_housekeep(struct node_core *core)
{
    usage_housekeep(core);
    usage_check_housekeep(core);
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        struct core_worker *worker = &core->owner->workers[slot];
        bool is_due = core->rotate % (CORE_STATUS_MS / CORE_HOUSEKEEP_MS) == 0;
        if (worker->group == CORE_GROUP_UNHEARD) {
            look_again(core, slot);
        }
        if (is_due && (core->owner->unpublished_slots >> slot & 1) != 0 && core_has_room(core, 256, 1u << 16)) {
            (void)owner_put_slot(core, slot);
        }
        owner_runtime_follow(core, slot);
        if (!worker->dirty || core->now_ms - worker->published_ms < CORE_STATUS_MS || !core_has_room(core, 256, 1u << 16)) {
            continue;
        }
        if (worker->phase == CORE_WORKER_GONE) {
            owner_worker_gone(core, slot, worker->end_reason, worker->exit_code, worker->tail);
        } else if (worker->phase == CORE_WORKER_RUNNING || worker->phase == CORE_WORKER_PREPARED) {
            bool runs = worker->phase == CORE_WORKER_RUNNING;
            owner_put_worker(core, slot, runs ? FACT_WORKER_RUNNING : FACT_WORKER_PREPARED, FACT_COMPLETED, 0, NULL);
        }
    }
    publish_idle(core);
}

struct core_pending *core_owner_withhold(struct node_core *core, uint32_t slot, uint64_t for_s)
{
    struct lease_changes changes;
    if (BUG(withhold_ignored, "a slot is withheld when its owner hears that it is")) {
        return owner_put_slot(core, slot);
    }
    (void)lease_withhold(&core->owner->lease, core->now_ms, slot, for_s * 1000, &changes);
    TRACE_EVENT(&core->options.trace, event_of_slot(EVENT_SLOT_WITHHELD, slot),
                "slot %u is withheld by its owner", slot);
    look_again(core, slot);
    core->owner->anew_slots |= UINT64_C(1) << slot;
    core->owner->asked_slots |= UINT64_C(1) << slot;
    return owner_put_slot(core, slot);
}

struct core_pending *core_owner_return(struct node_core *core, uint32_t slot)
{
    struct lease_changes changes;
    (void)lease_return(&core->owner->lease, slot, &changes);
    core->owner->asked_slots |= UINT64_C(1) << slot;
    TRACE_EVENT(&core->options.trace, event_of_slot(EVENT_SLOT_RETURNED, slot),
                "slot %u is returned by its owner", slot);
    return owner_put_slot(core, slot);
}

void core_owner_busy(struct node_core *core, uint32_t slot, bool is_busy)
{
    struct lease_changes changes;
    if (lease_busy(&core->owner->lease, slot, is_busy, &changes) == 0 && changes.count > 0) {
        TRACE_EVENT(&core->options.trace, event_of_slot(is_busy ? EVENT_SLOT_BUSY : EVENT_SLOT_FREE, slot),
                    is_busy ? "slot %u is in use by a program outside Shoal" : "slot %u is free again",
                    slot);
        (void)owner_put_slot(core, slot);
    }
}

bool core_owner_idle(const struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        if (core->owner->workers[slot].phase != CORE_WORKER_NONE) {
            return false;
        }
    }
    return true;
}

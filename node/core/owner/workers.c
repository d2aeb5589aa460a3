/* The workers of this node: how a worker is prepared, spawned, asked to stop and ended (DESIGN 8). Leases and records are in
 * slots.c, groups in groups.c, the start of a new boot in restart.c. */

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/ground/effects.h"
#include "node/core/members/links.h"
#include "node/core/members/quarantine.h"
#include "node/core/owner/groups.h"
#include "node/core/owner/results.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/usage.h"
#include "node/core/owner/workers.h"

/* ---- phases -------------------------------------------------------------------------------------------------------- */

#define PHASES (CORE_WORKER_GONE + 1)

/* The allowed moves: see enum core_worker_phase. */
static const bool move_allowed[PHASES][PHASES] = {
    [CORE_WORKER_NONE] = {[CORE_WORKER_NONE] = true,
                          [CORE_WORKER_CONFIRMED] = true,
                          [CORE_WORKER_RUNNING] = true, /* adopted */
                          [CORE_WORKER_ENDING] = true}, /* adopted without its lease */
    [CORE_WORKER_CONFIRMED] = {[CORE_WORKER_LEASED] = true, [CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_LEASED] = {[CORE_WORKER_PREPARING] = true, [CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_PREPARING] = {[CORE_WORKER_PREPARED] = true, [CORE_WORKER_DROPPED] = true},
    [CORE_WORKER_DROPPED] = {[CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_PREPARED] = {[CORE_WORKER_RUNNING] = true, [CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_RUNNING] = {[CORE_WORKER_ENDING] = true, [CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_ENDING] = {[CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
    [CORE_WORKER_GONE] = {[CORE_WORKER_GONE] = true, [CORE_WORKER_NONE] = true},
};

void owner_worker_move(struct core_worker *worker, enum core_worker_phase to)
{
    CHECK(move_allowed[worker->phase][to]);
    worker->phase = to;
}

void owner_worker_clear(struct core_worker *worker)
{
    owner_worker_move(worker, CORE_WORKER_NONE);
    memset(worker, 0, sizeof *worker);
}

/* True while the lease of the worker's slot has not ended. */
static bool has_lease(const struct core_worker *worker)
{
    switch (worker->phase) {
    case CORE_WORKER_CONFIRMED:
    case CORE_WORKER_LEASED:
    case CORE_WORKER_PREPARING:
    case CORE_WORKER_PREPARED:
    case CORE_WORKER_RUNNING:
        return true;
    default: /* NONE, DROPPED, ENDING, GONE */
        return false;
    }
}

/* ---- ends ---------------------------------------------------------------------------------------------------------- */

void owner_worker_gone(struct node_core *core, uint32_t slot, enum fact_reason reason, int32_t exit_code,
                       const char *tail)
{
    struct core_worker *worker = &core->owner->workers[slot];
    core_checkpoints_ended(core, &worker->attempt); /* first: the next attempt may begin right after the end */
    bool is_published = owner_put_worker(core, slot, FACT_WORKER_ENDED, reason, exit_code, tail);
    bool may_wait = reason != FACT_LOST && !core->is_out && !core->leaving; /* the free slot tells enough of a lost worker */
    if (!is_published && may_wait) {
        owner_worker_move(worker, CORE_WORKER_GONE);
        worker->end_reason = reason;
        worker->exit_code = exit_code;
        if (tail != worker->tail) {
            bytes_copy_text(worker->tail, sizeof worker->tail, tail != NULL ? tail : "");
        }
        return; /* the slot stays taken: only the worker's record tells that the worker is done */
    }
    usage_ended(core, slot, reason);
    owner_worker_clear(worker);
    struct lease_changes changes = {0};
    lease_gone(&core->owner->lease, slot, &changes);
    (void)owner_put_slot(core, slot);
}

/* The lease of the slot is over (RELEASING): ends the slot's worker. */
static void lease_ended(struct node_core *core, uint32_t slot)
{
    struct core_worker *worker = &core->owner->workers[slot];
    switch (worker->phase) {
    case CORE_WORKER_NONE:
    case CORE_WORKER_DROPPED:
    case CORE_WORKER_ENDING:
    case CORE_WORKER_GONE:
        break;
    case CORE_WORKER_CONFIRMED:
    case CORE_WORKER_LEASED:
    case CORE_WORKER_PREPARED:
        owner_worker_gone(core, slot, worker->end_reason, 0, NULL);
        break;
    case CORE_WORKER_PREPARING:
        MARK(dropped_while_preparing);
        owner_worker_move(worker, CORE_WORKER_DROPPED);
        (void)owner_put_slot(core, slot);
        break;
    case CORE_WORKER_RUNNING:
        owner_worker_move(worker, CORE_WORKER_ENDING);
        (void)owner_put_slot(core, slot);
        owner_worker_effect(core, NODE_EFFECT_KILL, slot, CORE_KILL_GRACE_MS);
        core->out->items[core->out->count - 1].u.worker.stacks = worker->is_hung;
        break;
    }
}

void owner_perform_changes(struct node_core *core, const struct lease_changes *changes)
{
    for (uint32_t i = 0; i < changes->count; i++) {
        const struct lease_change *change = &changes->items[i];
        if (change->to == LEASE_RELEASING) {
            lease_ended(core, change->slot);
        }
    }
}

/* Ends the lease of one slot, and so the worker. Other workers of the attempt on this node keep their leases. */
static void worker_end(struct node_core *core, uint32_t slot, enum fact_reason reason)
{
    core->owner->workers[slot].end_reason = reason;
    struct lease_changes changes = {0};
    lease_end(&core->owner->lease, slot, &changes);
    owner_perform_changes(core, &changes);
}

/* ---- workers ------------------------------------------------------------------------------------------------------- */

static void prepare(struct node_core *core, uint32_t slot, const struct view_experiment *experiment,
                    const struct view_attempt *attempt, uint32_t rank)
{
    owner_worker_move(&core->owner->workers[slot], CORE_WORKER_PREPARING);
    owner_worker_effect(core, NODE_EFFECT_PREPARE, slot, 0);
    struct node_effect *effect = &core->out->items[core->out->count - 1];
    effect->u.worker.size = attempt->member_count;
    effect->u.worker.code = experiment->code;
    effect->u.worker.config = experiment->is_large ? experiment->config_text : (hash256){{0}};
    if (!owner_group_joins(attempt, rank)) {
        core->owner->workers[slot].step = attempt->start_step;
        core->owner->workers[slot].checkpoint = attempt->checkpoint;
        effect->u.worker.checkpoint = attempt->checkpoint;
        effect->u.worker.step = attempt->start_step;
        effect->byte_count = attempt->beginning_count * (uint32_t)sizeof attempt->beginnings[0];
        effect->bytes = effect->byte_count > 0 ? core_effect_bytes(core, attempt->beginnings, effect->byte_count) : NULL;
    }
}

/* True if the directory does not fit the attempt's record: two nodes with one key have made attempts of one name. */
static bool begins_elsewhere(const struct core_worker *worker, const struct view_attempt *attempt, uint32_t rank)
{
    return !owner_group_joins(attempt, rank) &&
           (worker->step != attempt->start_step || !hash256_equal(worker->checkpoint, attempt->checkpoint));
}

/* The record of the worker where the ranks meet (torchrun's rendezvous; `rank` is 0 but for a joiner). False until the worker
 * is prepared and the record is on the disk of its node, so that the port survives a restart. A rank may have completed
 * already if the code of another rank took long to come. */
static bool master_of(const struct node_core *core, const struct view_attempt *attempt, uint32_t rank,
                      struct fact_worker *out)
{
    const struct view_worker *first = view_attempt_worker(attempt, rank);
    const struct records_entry *entry = first != NULL ? records_find(&core->records, first->ident) : NULL;
    bool is_lasting =
        entry != NULL && (entry->on_disk || !node_id_equal(entry->record.writer, core->options.self));
    return is_lasting && (first->state != FACT_WORKER_ENDED || first->reason == FACT_COMPLETED) &&
           first->master_port != 0 && fact_worker_read(&entry->record, out) == 0;
}

/* Fills in where rank `rank` of the first `size` members stands, as torchrun counts it (LOCAL_RANK, GROUP_RANK). */
static void place_rank(const struct node_core *core, const struct view_attempt *attempt, uint32_t rank,
                       struct node_effect *effect)
{
    for (uint32_t i = 0; i < effect->u.worker.size; i++) {
        node_id node = attempt->members[i].node;
        bool is_new_node = true;
        for (uint32_t before = 0; before < i && is_new_node; before++) {
            is_new_node = !node_id_equal(attempt->members[before].node, node);
        }
        if (is_new_node && node_id_equal(node, core->options.self)) {
            effect->u.worker.node_rank = effect->u.worker.node_count;
        }
        effect->u.worker.node_count += is_new_node;
        if (node_id_equal(node, core->options.self) && effect->u.worker.local_size < FACT_SLOTS_MAX) {
            effect->u.worker.local_slots[effect->u.worker.local_size++] = (uint8_t)attempt->members[i].slot;
            effect->u.worker.local_rank += i < rank;
        }
    }
}

bool owner_has_draw(const struct core_worker *worker, const struct view_attempt *attempt)
{
    return worker->draw == 0 || worker->draw == view_attempt_draw(attempt);
}

bool core_owner_may_save(const struct node_core *core, uint32_t slot, const attempt_id *id)
{
    const struct core_worker *worker = slot < core->owner->lease.count ? &core->owner->workers[slot] : NULL;
    const struct view_attempt *attempt = view_find_attempt(&core->view, id);
    return worker == NULL || attempt == NULL || !attempt_id_equal(&worker->attempt, id) || owner_has_draw(worker, attempt);
}

static void spawn(struct node_core *core, uint32_t slot, const struct view_experiment *experiment,
                  const struct view_attempt *attempt, uint32_t rank, const struct fact_worker *master)
{
    struct core_worker *worker = &core->owner->workers[slot];
    CHECK(core->owner->lease.slots[slot].state == LEASE_LEASED);
    owner_worker_effect(core, NODE_EFFECT_SPAWN, slot, 0);
    struct node_effect *effect = &core->out->items[core->out->count - 1];
    effect->u.worker.size = rank < attempt->member_count ? attempt->member_count : rank + 1;
    effect->u.worker.generation = attempt->generation;
    effect->u.worker.token = core->owner->lease.slots[slot].token;
    effect->u.worker.draw = worker->draw = view_attempt_draw(attempt);
    effect->u.worker.master_port = master->master_port;
    bytes_copy_text(effect->u.worker.master_host, sizeof effect->u.worker.master_host, master->host);
    owner_host(core, &worker->attempt, effect->u.worker.host, sizeof effect->u.worker.host);
    place_rank(core, attempt, rank, effect);
    effect->u.worker.step = owner_group_joins(attempt, rank) ? 0 : attempt->start_step;
    effect->u.worker.seed = random_mix(experiment->config->seed ^ random_mix(attempt->id.trial + experiment->config->seed_of_trial + 1u));
    memcpy(effect->u.worker.group_key, worker->group_key, sizeof effect->u.worker.group_key);
    owner_worker_move(worker, CORE_WORKER_RUNNING);
    worker->started_s = core->wall_s;
    worker->started_ms = core->now_ms;
    owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL);
}

static void ask_to_stop(struct node_core *core, uint32_t slot, uint32_t grace_ms, const char *reason)
{
    struct core_worker *worker = &core->owner->workers[slot];
    if (worker->phase != CORE_WORKER_RUNNING) {
        worker_end(core, slot, FACT_STOPPED);
        return;
    }
    if (!worker->stop_sent) {
        MARK(worker_asked_to_stop);
        worker->stop_sent = true;
        bool is_done = BUG(stopped_is_done, "a worker that was asked to stop is not done when it ends");
        worker->end_reason = is_done ? FACT_COMPLETED : FACT_STOPPED;
        owner_worker_effect(core, NODE_EFFECT_STOP_WORKER, slot, grace_ms);
        struct node_effect *effect = &core->out->items[core->out->count - 1];
        bytes_copy_text(effect->u.worker.text, sizeof effect->u.worker.text, reason);
    }
}

/* True while the owner withholds the slot, or the node is drained at once. */
static bool is_taken_back(const struct node_core *core, uint32_t slot)
{
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    return core->owner->lease.holds[slot].withheld || (self != NULL && view_member_drain(self).at_once);
}

/* True if the slot was wanted back for so long that the worker ends now. Until then the coordinator has preemption_timeout_s
 * to record a group without the worker. A worker in a group is not asked to stop: a stop would reach all ranks, and all would
 * leave. */
static bool slot_is_given_back(struct node_core *core, uint32_t slot, const struct view_experiment *experiment)
{
    struct core_worker *worker = &core->owner->workers[slot];
    uint64_t grace_ms = (uint64_t)experiment->config->preemption_timeout_s * 1000;
    if (!is_taken_back(core, slot)) {
        worker->wanted_ms = 0;
        return false;
    }
    worker->wanted_ms = worker->wanted_ms == 0 ? core->now_ms : worker->wanted_ms;
    if (core->now_ms - worker->wanted_ms < grace_ms) {
        return false;
    }
    MARK(slot_taken_from_its_group);
    if (owner_group_waits(worker)) {
        ask_to_stop(core, slot, CORE_KILL_GRACE_MS, "preempt");
    } else {
        worker_end(core, slot, FACT_LOST);
    }
    return true;
}

/* True if this node has been without the address where the worker listens for CORE_MOVED_MS, and the elastic group has members on
 * other nodes: they cannot connect to the worker any more. The group goes on without it, and a new worker listens at an address
 * that this node has. */
static bool address_is_gone(struct node_core *core, uint32_t slot, const struct view_attempt *attempt)
{
    struct core_worker *worker = &core->owner->workers[slot];
    struct fact_key key = fact_key_worker(&worker->attempt, worker->number);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_WORKER, key.bytes, key.count));
    struct fact_worker published;
    if (!worker->is_elastic || !node_id_is_none(view_attempt_node(attempt)) || entry == NULL ||
        fact_worker_read(&entry->record, &published) != 0 || links_announces(core, core->options.self, published.host)) {
        worker->moved_ms = 0;
        return false;
    }
    worker->moved_ms = worker->moved_ms == 0 ? core->now_ms : worker->moved_ms;
    return core->now_ms - worker->moved_ms >= CORE_MOVED_MS;
}

/* Whether the group of an attempt is to stop: the answer for the attempt that was asked about last. Many workers of a node may be
 * in one group. */
struct stop_answer {
    const struct view_attempt *attempt; /* NULL: none was asked about */
    bool is_stopping;
};

static bool is_stopping(const struct node_core *core, const struct view_experiment *experiment,
                        const struct view_attempt *attempt, struct stop_answer *last)
{
    if (last->attempt != attempt) {
        *last = (struct stop_answer){attempt, owner_group_is_stopping(core, experiment, attempt)};
    }
    return last->is_stopping;
}

static void slot_follow(struct node_core *core, const struct view_experiment *experiment, uint32_t slot, struct stop_answer *last)
{
    struct core_worker *worker = &core->owner->workers[slot];
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    const struct view_verdict *verdict = attempt != NULL ? view_attempt_verdict(attempt) : NULL;
    if (verdict != NULL && !BUG(kept_after_verdict, "a worker whose attempt has its verdict is ended")) {
        worker->is_hung = verdict->is_hung;
        worker_end(core, slot, verdict->reason == FACT_STOPPED ? FACT_STOPPED : FACT_LOST);
        return;
    }
    if (view_experiment_cancelled(experiment)) {
        worker_end(core, slot, FACT_STOPPED);
        return;
    }
    if (experiment->known && view_trial_stopped(view_find_trial(experiment, worker->attempt.trial)) &&
        !BUG(stop_unheeded, "the worker of a stopped trial is asked to save and leave")) {
        ask_to_stop(core, slot, experiment->config->preemption_timeout_s * 1000, "stop");
        return;
    }
    if (experiment->known && view_attempt_is_paused(view_find_trial(experiment, worker->attempt.trial), &worker->attempt) &&
        !BUG(search_pause_unheeded, "the worker of a paused trial is asked to save and leave")) {
        ask_to_stop(core, slot, experiment->config->preemption_timeout_s * 1000, "pause");
        return;
    }
    if (attempt == NULL || !attempt->assigned || !experiment->known) {
        return; /* the attempt's record is on its way */
    }
    uint32_t rank = view_attempt_rank(attempt, core->options.self, slot, worker->number);
    bool is_new = worker->phase == CORE_WORKER_CONFIRMED || worker->phase == CORE_WORKER_LEASED;
    bool is_young = is_new && core->now_ms - worker->confirmed_ms < CORE_JOIN_LEASE_MS;
    if (rank == UINT32_MAX && is_young) {
        MARK(joiner_ahead_of_its_record);
        return; /* in a large mesh the record may take longer than the coordinator's message */
    }
    if (worker->phase == CORE_WORKER_RUNNING && !owner_has_draw(worker, attempt)) {
        TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_WORKER_ENDED, &attempt->id, slot),
                    "%s trial %u: rank %u ends, since attempt %u has other values by now: its coordinator came back with an "
                    "old disk",
                    experiment->config->name, attempt->id.trial, worker->number, attempt->id.number);
        worker_end(core, slot, FACT_LOST);
        return;
    }
    if (rank == UINT32_MAX) { /* the worker never was in the group, or no longer is */
        worker_end(core, slot, is_taken_back(core, slot) ? FACT_STOPPED : FACT_LOST);
        return;
    }
    if (view_experiment_paused(experiment)) {
        ask_to_stop(core, slot, experiment->config->preemption_timeout_s * 1000, "pause");
        return;
    }
    if (rank >= attempt->member_count && is_taken_back(core, slot)) {
        MARK(joiner_sent_away);
        worker_end(core, slot, FACT_STOPPED); /* a joiner has nothing to save yet, and the group goes on */
        return;
    }
    if (is_stopping(core, experiment, attempt, last)) {
        ask_to_stop(core, slot, experiment->config->preemption_timeout_s * 1000, "preempt");
        return;
    }
    if (slot_is_given_back(core, slot, experiment)) {
        return;
    }
    if (worker->phase == CORE_WORKER_RUNNING && address_is_gone(core, slot, attempt)) {
        MARK(member_lost_its_address);
        TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_WORKER_ENDED, &attempt->id, slot),
                    "%s trial %u: rank %u ends, since this node has lost the address that its group uses",
                    experiment->config->name, attempt->id.trial, rank);
        worker_end(core, slot, FACT_LOST);
        return;
    }
    struct fact_worker master;
    uint32_t meeting_rank = owner_group_joins(attempt, rank) ? rank : 0;
    if (worker->phase == CORE_WORKER_LEASED) {
        prepare(core, slot, experiment, attempt, rank);
    } else if (worker->phase == CORE_WORKER_PREPARED && begins_elsewhere(worker, attempt, rank)) {
        worker_end(core, slot, FACT_LOST);
    } else if (worker->phase == CORE_WORKER_PREPARED && master_of(core, attempt, meeting_rank, &master)) {
        spawn(core, slot, experiment, attempt, rank, &master);
    } else if (worker->phase == CORE_WORKER_RUNNING) {
        owner_group_follow(core, slot, attempt, rank);
    }
}

void core_owner_experiment(struct node_core *core, const struct view_experiment *experiment)
{
    struct stop_answer last = {.attempt = NULL};
    uint64_t records = core->seq;
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_worker *worker = &core->owner->workers[slot];
        if (has_lease(worker) && experiment_id_equal(worker->attempt.experiment, experiment->id)) {
            last.attempt = core->seq == records ? last.attempt : NULL; /* an own record may change the answer */
            records = core->seq;
            slot_follow(core, experiment, slot, &last);
        }
    }
}

static const char *experiment_name(const struct node_core *core, const struct core_worker *worker)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, worker->attempt.experiment);
    return experiment != NULL && experiment->known ? experiment->config->name : "?";
}

/* A line for users when a rank has ended with status 0 and others of its attempt have not. */
static void tell_of_the_rest(const struct node_core *core, const struct core_worker *worker)
{
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    uint32_t others = 0;
    for (uint32_t rank = 0; attempt != NULL && attempt->assigned && rank < attempt->member_count; rank++) {
        const struct view_worker *other = view_attempt_worker(attempt, rank);
        others += attempt->members[rank].number != worker->number &&
                  (other == NULL || other->state != FACT_WORKER_ENDED);
    }
    if (others > 0) {
        TRACE_EVENT(&core->options.trace, event_of_attempt(EVENT_WORKER_ENDED, &worker->attempt),
                    "%s trial %u: rank %u ended with status 0, %u other%s of its attempt %s on",
                    experiment_name(core, worker), worker->attempt.trial, worker->number, others, others == 1 ? "" : "s",
                    others == 1 ? "runs" : "run");
    }
}

static void exited(struct node_core *core, const struct node_event *event)
{
    uint32_t slot = event->u.worker.slot;
    struct core_worker *worker = &core->owner->workers[slot];
    int32_t code = event->u.worker.code;
    enum fact_reason reason;
    if (worker->phase == CORE_WORKER_ENDING || worker->stop_sent) {
        reason = worker->end_reason;
    } else if (event->u.worker.is_stopping) {
        reason = FACT_STOPPED; /* asked by an earlier boot: the worker has saved, and is not done */
    } else if (event->u.worker.is_unstarted) {
        reason = FACT_LOST;
        core_quarantine_unstarted(core, &worker->attempt, false);
        worker->started_s = 0;
    } else if (event->u.worker.killed) {
        MARK(keep_ended_it);
        /* The keep ended the worker, since no daemon came back within the lease's time. */
        reason = BUG(killed_is_done, "a worker that its keep ended is not done") ? FACT_COMPLETED : FACT_LOST;
    } else {
        reason = code == 0 ? FACT_COMPLETED : FACT_FAILED;
    }
    if (!event->u.worker.lacks_packages) {
        core_quarantine_exited(core, &worker->attempt, worker->started_ms, reason);
    }
    bool is_quick = worker->started_ms != 0 && core->now_ms - worker->started_ms <= CORE_QUICK_MS && worker->step == 0;
    worker->ended_s = core->wall_s;
    worker->cause = event->u.worker.cause;
    worker->failure = reason == FACT_FAILED && is_quick ? event->u.worker.failure : 0;
    worker->error_ms = event->u.worker.error_ms;
    if (reason == FACT_COMPLETED) {
        tell_of_the_rest(core, worker);
    }
    bool has_tail = reason == FACT_FAILED || event->u.worker.is_unstarted;
    owner_worker_gone(core, slot, reason, code, has_tail ? event->u.worker.text : NULL);
}

static void prepared(struct node_core *core, const struct node_event *event)
{
    uint32_t slot = event->u.worker.slot;
    struct core_worker *worker = &core->owner->workers[slot];
    if (worker->phase != CORE_WORKER_PREPARING && worker->phase != CORE_WORKER_DROPPED) {
        return;
    }
    if (worker->phase == CORE_WORKER_DROPPED) {
        owner_worker_gone(core, slot, worker->end_reason, 0, NULL);
    } else if (event->u.worker.code != 0) {
        TRACE_EVENT(&core->options.trace, event_of_worker(EVENT_WORKER_FAILED, &worker->attempt, slot),
                    "trial %u cannot start here: %s", worker->attempt.trial,
                    event->u.worker.text != NULL ? event->u.worker.text : err_text(event->u.worker.code));
        core_quarantine_unstarted(core, &worker->attempt, true);
        worker_end(core, slot, FACT_LOST);
        if (worker->phase == CORE_WORKER_DROPPED) {
            owner_worker_gone(core, slot, FACT_LOST, event->u.worker.code, event->u.worker.text);
        }
    } else {
        owner_worker_move(worker, CORE_WORKER_PREPARED);
        worker->master_port = event->u.worker.port;
        core_checkpoints_fetched(core, worker->attempt.experiment);
        owner_put_worker(core, slot, FACT_WORKER_PREPARED, FACT_COMPLETED, 0, NULL);
    }
}

static void stalled(struct node_core *core, const struct node_event *event)
{
    static const char *const texts[] = {"is active again", "uses processor time again",
                                        "has written and reported nothing and used no processor time for a while",
                                        "is stopped (SIGSTOP)"};
    struct core_worker *worker = &core->owner->workers[event->u.worker.slot];
    bool is_still = event->u.worker.stall == FACT_IDLE || event->u.worker.stall == FACT_SUSPENDED;
    bool was_still = worker->stall == FACT_IDLE || worker->stall == FACT_SUSPENDED;
    if (worker->stall != event->u.worker.stall && (is_still || was_still)) { /* silence alone is no event */
        TRACE_EVENT(&core->options.trace, event_of_worker(is_still ? EVENT_WORKER_IDLE : EVENT_WORKER_ACTIVE, &worker->attempt,
                                                         event->u.worker.slot),
                    "%s trial %u: rank %u %s", experiment_name(core, worker), worker->attempt.trial,
                    worker->number, texts[event->u.worker.stall]);
    }
    worker->stall = event->u.worker.stall;
    worker->stall_s = event->u.worker.stall_s;
    worker->is_overdue = event->u.worker.is_overdue;
    worker->is_past_barrier = event->u.worker.is_past_barrier;
    worker->dirty = true;
}

static void status(struct node_core *core, const struct node_event *event)
{
    struct core_worker *worker = &core->owner->workers[event->u.worker.slot];
    if (event->u.worker.step > worker->step) {
        worker->step = event->u.worker.step;
        worker->dirty = true;
    }
    if (event->byte_count > 0 && event->byte_count <= sizeof worker->metrics) {
        bool is_new = event->byte_count != worker->metrics_bytes ||
                      memcmp(worker->metrics, event->bytes, event->byte_count) != 0;
        worker->metrics_step = is_new ? event->u.worker.step : worker->metrics_step;
        memcpy(worker->metrics, event->bytes, event->byte_count);
        worker->metrics_bytes = event->byte_count;
        worker->dirty = true;
    }
}

void core_owner_worker_event(struct node_core *core, const struct node_event *event)
{
    uint32_t slot = event->u.worker.slot;
    if (slot >= core->owner->lease.count || core->owner->workers[slot].phase == CORE_WORKER_NONE ||
        !attempt_id_equal(&core->owner->workers[slot].attempt, &event->u.worker.attempt)) {
        return; /* about an earlier worker of the slot */
    }
    struct core_worker *worker = &core->owner->workers[slot];
    bool has_process = worker->phase == CORE_WORKER_RUNNING || worker->phase == CORE_WORKER_ENDING;
    if (event->kind == NODE_EVENT_PREPARED) {
        prepared(core, event);
    } else if (!has_process) {
        return;
    } else if (event->kind == NODE_EVENT_WORKER_EXITED) {
        exited(core, event);
    } else if (event->kind == NODE_EVENT_WORKER_STATUS) {
        status(core, event);
    } else if (event->kind == NODE_EVENT_WORKER_RESULT) {
        owner_result(core, event);
    } else if (event->kind == NODE_EVENT_WORKER_STALL) {
        stalled(core, event);
    } else { /* NODE_EVENT_WORKER_LISTENS */
        owner_group_listens(core, event);
    }
}

/* ---- many at once -------------------------------------------------------------------------------------------------- */

void core_owner_leave(struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_worker *worker = &core->owner->workers[slot];
        if (has_lease(worker) || worker->phase == CORE_WORKER_DROPPED) {
            const struct view_experiment *experiment = view_find_experiment(&core->view, worker->attempt.experiment);
            const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
            uint32_t grace_s = experiment != NULL && experiment->known ? experiment->config->preemption_timeout_s : 0;
            bool can_go = experiment != NULL && attempt != NULL && !owner_group_waits(worker) &&
                          view_attempt_can_shrink(&core->view, experiment, attempt, &core->options.self);
            if (can_go) {
                MARK(leaves_its_group);
                worker_end(core, slot, FACT_LOST); /* the group goes on; a request to stop would reach and stop all ranks */
            } else {
                ask_to_stop(core, slot, grace_s * 1000, "leave");
            }
        }
    }
}

void core_owner_out(struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_worker *worker = &core->owner->workers[slot];
        if (has_lease(worker)) {
            worker_end(core, slot, FACT_LOST);
        }
    }
}

void core_owner_end_deleted(struct node_core *core)
{
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        const struct core_worker *worker = &core->owner->workers[slot];
        const struct lease_slot *lease = &core->owner->lease.slots[slot];
        if (has_lease(worker) && view_is_deleted(&core->view, worker->attempt.experiment)) {
            worker_end(core, slot, FACT_STOPPED);
        } else if (lease->state == LEASE_RESERVED && view_is_deleted(&core->view, lease->attempt.experiment)) {
            owner_reservation_return(core, slot);
        }
    }
}

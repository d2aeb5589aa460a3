/* The workers of this node and the groups of their attempts (DESIGN 9): when a worker enters a group, when the worker is to
 * leave, and when the whole group stops. The coordinator decides the members of a group (coordinator/elastic.c); the code
 * here follows. */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/ground/effects.h"
#include "node/core/members/members.h"
#include "node/core/owner/groups.h"
#include "node/core/owner/slots.h"

#define GROUPS (CORE_GROUP_IN + 1)

/* The allowed moves: see enum core_worker_group. A report that the worker listens may come at any time. */
static const bool move_allowed[GROUPS][GROUPS] = {
    [CORE_GROUP_NONE] = {[CORE_GROUP_UNHEARD] = true, [CORE_GROUP_WAITS] = true, [CORE_GROUP_IN] = true},
    [CORE_GROUP_UNHEARD] = {[CORE_GROUP_WAITS] = true, [CORE_GROUP_IN] = true},
    [CORE_GROUP_WAITS] = {[CORE_GROUP_WAITS] = true, [CORE_GROUP_ENTERING] = true},
    [CORE_GROUP_ENTERING] = {[CORE_GROUP_WAITS] = true, [CORE_GROUP_ENTERING] = true, [CORE_GROUP_IN] = true},
    [CORE_GROUP_IN] = {[CORE_GROUP_WAITS] = true},
};

static void group_move(struct core_worker *worker, enum core_worker_group to)
{
    CHECK(move_allowed[worker->group][to]);
    worker->group = to;
}

bool owner_group_waits(const struct core_worker *worker)
{
    return worker->group == CORE_GROUP_WAITS || worker->group == CORE_GROUP_UNHEARD;
}

void owner_group_adopt(struct core_worker *worker, bool waits)
{
    if (waits) {
        group_move(worker, CORE_GROUP_UNHEARD);
    } else if (worker->generation > 0) {
        group_move(worker, CORE_GROUP_IN);
    }
}

/* The members of the group come in the coordinator's record; only the key is secret. */
void owner_group_take_key(struct node_core *core, const struct message *message)
{
    struct view_experiment *experiment = view_find_experiment(&core->view, message->u.lease.attempt.experiment);
    for (uint32_t slot = 0; slot < core->owner->lease.count; slot++) {
        struct core_worker *worker = &core->owner->workers[slot];
        if (worker->phase != CORE_WORKER_NONE && attempt_id_equal(&worker->attempt, &message->u.lease.attempt)) {
            worker->key_generation = message->u.lease.generation;
            worker->key_claim = message->u.lease.claim;
            memcpy(worker->group_key, message->u.lease.group_key, sizeof worker->group_key);
        }
    }
    if (experiment != NULL) {
        experiment->changed = true;
    }
}

bool owner_group_joins(const struct view_attempt *attempt, uint32_t rank)
{
    return attempt->generation > 1 || rank >= attempt->member_count;
}

static bool is_on_disk(const struct node_core *core, const struct core_worker *worker)
{
    struct fact_key key = fact_key_worker(&worker->attempt, worker->number);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(core->options.self, FACT_WORKER, key.bytes, key.count));
    return entry != NULL && entry->on_disk;
}

/* Steps of an older generation beyond the first step of the new generation are void (DESIGN 9). */
static void go_back(struct core_worker *worker, uint64_t start_step)
{
    if (worker->step > start_step) {
        worker->step = start_step;
        worker->metrics_bytes = worker->metrics_step > start_step ? 0 : worker->metrics_bytes;
    }
}

/* Tells the worker its group once every rank listens. An elastic worker is told only once the worker's record is on disk:
 * without the record the next boot would believe that the worker still waits, with the steps applied before the group. */
static void tell_group(struct node_core *core, uint32_t slot, const struct view_attempt *attempt)
{
    struct core_worker *worker = &core->owner->workers[slot];
    uint8_t bytes[FACT_MEMBERS_MAX * (FACT_ADDRESS_BYTES + 16)];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, attempt->member_count);
    for (uint32_t i = 0; i < attempt->member_count; i++) {
        const struct view_worker *other = view_attempt_worker(attempt, i);
        const struct records_entry *entry = other != NULL ? records_find(&core->records, other->ident) : NULL;
        struct fact_worker fact;
        if (entry == NULL || other->data_port == 0 || other->state != FACT_WORKER_RUNNING ||
            fact_worker_read(&entry->record, &fact) != 0) {
            return;
        }
        pack_array(&writer, 4);
        pack_u64(&writer, i);
        pack_text(&writer, fact.host);
        pack_u64(&writer, fact.data_port);
        pack_bool(&writer, attempt->members[i].has_state);
    }
    CHECK(!writer.failed);
    if (owner_group_waits(worker) || worker->generation < attempt->generation) {
        group_move(worker, CORE_GROUP_ENTERING);
        worker->generation = attempt->generation;
        go_back(worker, attempt->group_step);
        owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL);
    }
    if (worker->is_elastic && !is_on_disk(core, worker)) {
        return;
    }
    group_move(worker, CORE_GROUP_IN);
    owner_worker_effect(core, NODE_EFFECT_GROUP, slot, 0);
    struct node_effect *effect = &core->out->items[core->out->count - 1];
    effect->u.worker.size = attempt->member_count;
    effect->u.worker.generation = attempt->generation;
    effect->u.worker.step = attempt->group_step;
    memcpy(effect->u.worker.group_key, worker->group_key, sizeof effect->u.worker.group_key);
    effect->bytes = core_effect_bytes(core, bytes, (uint32_t)writer.used_bytes);
    effect->byte_count = (uint32_t)writer.used_bytes;
}

/* A member has ended, has left the group, or is dead or out of the mesh: no collective of the group will ever end. */
static bool group_is_broken(const struct node_core *core, const struct view_attempt *attempt, uint32_t generation)
{
    for (uint32_t i = 0; i < attempt->member_count; i++) {
        node_id node = attempt->members[i].node;
        const struct view_worker *other = view_attempt_worker(attempt, i);
        bool is_self = node_id_equal(node, core->options.self);
        enum swim_state state = is_self ? SWIM_ALIVE : swim_state_of(&core->members->swim, node);
        const struct view_member *member = view_find_member(&core->view, node);
        bool is_out = member != NULL && (member->left || view_member_is_out(member));
        bool is_over = other != NULL && other->state == FACT_WORKER_ENDED && other->reason != FACT_COMPLETED;
        bool has_left = other != NULL && other->waits && other->generation == generation;
        if (is_over || has_left || is_out || state == SWIM_DEAD || state == SWIM_LEFT) {
            return true;
        }
    }
    return false;
}

/* A worker that waits reports to a new boot as soon as possible. No report although the disk's record has the worker waiting:
 * the disk may be old, and the worker may have applied more steps in a group that the disk does not know. So this node neither
 * names a group to the worker nor publishes its state until the worker must be in the newest group. */
static bool is_taken_to_be_in(struct node_core *core, uint32_t slot, const struct view_attempt *attempt, uint32_t rank)
{
    struct core_worker *worker = &core->owner->workers[slot];
    if (rank >= attempt->member_count || core->members->syncing || core->now_ms - core->started_ms < CORE_ADOPTED_REPORT_MS) {
        return false;
    }
    MARK(unheard_is_in_its_group);
    group_move(worker, CORE_GROUP_IN);
    worker->generation = attempt->generation;
    owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL);
    return true;
}

void owner_group_follow(struct node_core *core, uint32_t slot, const struct view_attempt *attempt, uint32_t rank)
{
    struct core_worker *worker = &core->owner->workers[slot];
    if (worker->group == CORE_GROUP_UNHEARD && !is_taken_to_be_in(core, slot, attempt, rank)) {
        return;
    }
    bool waits = owner_group_waits(worker);
    if (waits || worker->group == CORE_GROUP_ENTERING) {
        bool has_key = (worker->key_generation == attempt->generation &&
                        (attempt->generation == 1 ||
                         election_claim_compare(worker->key_claim, attempt->group_claim) == 0)) ||
                       BUG(key_of_another, "a worker enters a group under the key of that very generation");
        bool is_due = rank < attempt->member_count && (worker->generation < attempt->generation || !waits);
        /* The worker has applied more steps than the group's first step: in a group named by another coordinator, which the
         * group's coordinator did not know. The steps are still in memory, because the worker has entered no group since. */
        bool is_ahead = worker->has_state && worker->applied_step > attempt->group_step;
        bool is_over =
            worker->is_elastic && (is_ahead || attempt->is_leaving || group_is_broken(core, attempt, attempt->generation));
        if (is_due && is_over) {
            MARK(group_passed_over);
            worker->generation = attempt->generation; /* as if the worker had been in the group: the next group is due */
            group_move(worker, CORE_GROUP_WAITS);
            owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL);
        } else if (is_due && has_key) {
            tell_group(core, slot, attempt);
        }
        return;
    }
    if (!worker->is_elastic || worker->generation == 0) {
        return;
    }
    bool at_once = worker->generation < attempt->generation || group_is_broken(core, attempt, worker->generation);
    bool is_asked = worker->leaving == worker->generation && (worker->is_leaving_at_once || !at_once);
    if (is_asked || (!at_once && !attempt->is_leaving)) {
        return;
    }
    MARK(worker_asked_to_leave_its_group);
    worker->leaving = worker->generation;
    worker->is_leaving_at_once = at_once;
    owner_worker_effect(core, NODE_EFFECT_LEAVE_GROUP, slot, 0);
    struct node_effect *effect = &core->out->items[core->out->count - 1];
    effect->u.worker.generation = worker->generation;
    effect->u.worker.at_once = at_once;
}

/* Four reasons to stop a whole group: a user or the search has stopped the trial; the search has paused the attempt; a rank was asked to stop in the middle of the group and has
 * ended already, since a stop reaches all ranks together (train/shoal/shoal.h); or slots are wanted back, and the members without
 * those slots are too few, or not every program can leave a group. */
bool owner_group_is_stopping(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_attempt *attempt)
{
    bool is_elastic = view_attempt_is_elastic(attempt), is_wanted_back = false;
    const struct view_trial *trial = view_find_trial(experiment, attempt->id.trial);
    if (view_trial_stopped(trial) && !BUG(stop_unheeded, "the worker of a stopped trial is asked to save and leave")) {
        return true;
    }
    if (view_attempt_is_paused(trial, &attempt->id) && !BUG(search_pause_unheeded, "the worker of a paused trial is asked to save and leave")) {
        return true;
    }
    for (uint32_t rank = 0; rank < attempt->member_count; rank++) {
        const struct view_worker *worker = view_attempt_worker(attempt, rank);
        bool is_stopped = worker != NULL && worker->state == FACT_WORKER_ENDED && worker->reason == FACT_STOPPED;
        if (is_stopped && !(is_elastic && worker->waits)) {
            return true;
        }
        is_wanted_back |= view_attempt_is_wanted_back(&core->view, attempt, rank);
    }
    return is_wanted_back && !view_attempt_can_shrink(&core->view, experiment, attempt, NULL);
}

void owner_group_listens(struct node_core *core, const struct node_event *event)
{
    uint32_t slot = event->u.worker.slot;
    struct core_worker *worker = &core->owner->workers[slot];
    /* A worker cannot have been in a group newer than any that this node knows. */
    const struct view_attempt *attempt = view_find_attempt(&core->view, &worker->attempt);
    uint32_t known = attempt != NULL ? attempt->generation : 0;
    uint32_t newest = known > worker->generation ? known : worker->generation;
    uint32_t was_in = event->u.worker.generation < newest ? event->u.worker.generation : newest;
    bool is_news = worker->data_port != event->u.worker.port || !owner_group_waits(worker) ||
                   worker->generation != was_in || worker->applied_step != event->u.worker.step ||
                   worker->has_state != event->u.worker.has_state;
    group_move(worker, CORE_GROUP_WAITS);
    worker->leaving = 0;
    worker->data_port = event->u.worker.port;
    worker->is_elastic = event->u.worker.is_elastic;
    worker->has_state = event->u.worker.has_state;
    worker->applied_step = event->u.worker.has_state ? event->u.worker.step : 0;
    worker->generation = was_in;
    if (is_news && worker->phase == CORE_WORKER_RUNNING) {
        owner_put_worker(core, slot, FACT_WORKER_RUNNING, FACT_COMPLETED, 0, NULL);
    }
    struct view_experiment *experiment = view_find_experiment(&core->view, worker->attempt.experiment);
    if (experiment != NULL) {
        experiment->changed = true;
    }
}

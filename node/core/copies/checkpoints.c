/* Copies of checkpoints on other nodes (DESIGN 10): which nodes are asked, when a checkpoint is durable, and repairs.
 *
 *   save     a worker has saved a checkpoint, which is on this node's disk. The first nodes in rendezvous order of the trial
 *            are sent a copy, and the next nodes in place of nodes that refuse. The manifest is published last, and the worker
 *            is told that the step is durable once a manifest with enough holders is on disk.
 *   repair   every CORE_REPAIR_MS the living holder with the smallest id copies a checkpoint with too few good copies to more
 *            nodes, and publishes a manifest of its own.
 *   check    a node that begins a new boot is sent the checkpoints again that it should hold.
 *
 * A part of a checkpoint (struct view_set) is copied, repaired and checked as a checkpoint is, by itself. The checkpoint is there while
 * each of its parts has a holder. No node decides that it is complete: that follows from the records of its parts.
 *
 * A holder is good while it is alive and has not failed to confirm its copy (collection.h). */

#include "base/check.h"
#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/code.h"
#include "node/core/copies/collection.h"
#include "node/core/copies/outputs.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/view/retention.h"

_Static_assert(CONFIG_REPLICAS_MAX <= FACT_HOLDERS_MAX, "a manifest can name as many holders as may be asked for");

/* ---- the progress of a push ---------------------------------------------------------------------------------------- */

#define PROGRESSES (CORE_PUSH_PUBLISHED + 1)

/* The allowed moves: see enum core_push_progress. */
static const bool move_allowed[PROGRESSES][PROGRESSES] = {
    [CORE_PUSH_NEW] = {[CORE_PUSH_SLOW] = true, [CORE_PUSH_PUBLISHED] = true},
    [CORE_PUSH_SLOW] = {[CORE_PUSH_PUBLISHED] = true},
};

static void push_move(struct core_push *push, enum core_push_progress to)
{
    CHECK(push->kind == CORE_PUSH_SAVE);
    CHECK(move_allowed[push->progress][to]);
    push->progress = to;
}

/* The push waits for no node: only the final manifest is left to publish. */
static bool is_over(const struct core_push *push)
{
    return push->waiting_count == 0;
}

/* ---- which copy to use --------------------------------------------------------------------------------------------- */

static bool is_good_holder(const struct node_core *core, hash256 blob, node_id holder)
{
    return core_node_alive(core, holder) && !core_copy_is_doubtful(core, blob, holder);
}

static bool row_is_there(const struct node_core *core, const struct view_manifest *row)
{
    for (uint32_t i = 0; i < row->holder_count; i++) {
        if (core_node_alive(core, row->holders[i]) && !core_copy_is_missing(core, row->blob, row->holders[i])) {
            return true;
        }
    }
    return false;
}

static bool row_may_return(const struct node_core *core, const struct view_manifest *row)
{
    for (uint32_t i = 0; i < row->holder_count; i++) {
        const struct core_peer *peer = core_find_peer(core, row->holders[i]);
        if (peer != NULL && peer->state == SWIM_DEAD && core->now_ms - peer->died_ms < CORE_REFUTE_MS &&
            !core_copy_is_missing(core, row->blob, row->holders[i])) {
            return true;
        }
    }
    return false;
}

static bool row_is_good(const struct node_core *core, const struct view_manifest *row)
{
    bool is_any = false;
    for (uint32_t i = 0; i < row->holder_count; i++) {
        is_any |= is_good_holder(core, row->blob, row->holders[i]);
    }
    return is_any;
}

/* What is asked of the records of a part: whether one names a holder that lives, that may come back, or that is good. */
enum part_question { PART_IS_THERE, PART_MAY_RETURN, PART_IS_GOOD };

static bool has_part(const struct node_core *core, const struct view_set *set, uint32_t part, enum part_question question)
{
    bool is_so = false;
    for (const struct view_manifest *row = view_set_part(set, part); row != NULL && row->part == part && !is_so; row = row->next) {
        is_so = question == PART_IS_THERE     ? row_is_there(core, row)
                : question == PART_MAY_RETURN ? row_may_return(core, row)
                                              : row_is_good(core, row);
    }
    return is_so;
}

bool core_checkpoint_is_there(const struct node_core *core, const struct view_manifest *checkpoint)
{
    if (checkpoint->set == NULL) {
        return row_is_there(core, checkpoint);
    }
    bool is_there = checkpoint->holder_count > 0;
    for (uint32_t part = 0; part < checkpoint->set->key.count && is_there; part++) {
        is_there = has_part(core, checkpoint->set, part, PART_IS_THERE);
    }
    return is_there;
}

/* Of the attempts up to `number`. */
static const struct view_manifest *newest_of_parent(const struct node_core *core, const struct view_trial *parent, uint32_t number)
{
    for (const struct view_manifest *manifest = parent->manifests; manifest != NULL; manifest = manifest->next) {
        if (manifest->attempt.number <= number && view_trial_continues(parent, &manifest->attempt) &&
            core_checkpoint_is_there(core, manifest)) {
            return manifest;
        }
    }
    return NULL;
}

const struct view_manifest *core_checkpoints_newest(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_manifest *manifest = trial->manifests; manifest != NULL; manifest = manifest->next) {
        if (view_trial_continues(trial, &manifest->attempt) && core_checkpoint_is_there(core, manifest)) {
            return manifest;
        }
    }
    return NULL;
}

/* Of a checkpoint of several parts: each part is there or may return. (The caller knows that not all are there.) */
static bool checkpoint_may_return(const struct node_core *core, const struct view_manifest *checkpoint)
{
    if (checkpoint->set == NULL) {
        return row_may_return(core, checkpoint);
    }
    bool may = checkpoint->holder_count > 0;
    for (uint32_t part = 0; part < checkpoint->set->key.count && may; part++) {
        may = has_part(core, checkpoint->set, part, PART_IS_THERE) || has_part(core, checkpoint->set, part, PART_MAY_RETURN);
    }
    return may;
}

bool core_checkpoints_may_return(const struct node_core *core, const struct view_trial *trial)
{
    const struct view_manifest *newest = core_checkpoints_newest(core, trial);
    for (const struct view_manifest *row = trial->manifests; row != newest; row = row->next) {
        if (view_trial_continues(trial, &row->attempt) && checkpoint_may_return(core, row)) {
            MARK(holder_just_called_dead);
            return true;
        }
    }
    return core_outputs_may_return(core, trial);
}

const struct view_manifest *core_checkpoints_beginning(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                                                       bool *is_awaited)
{
    const struct view_trial *own = view_find_trial(experiment, trial), *parent = view_population_parent(experiment, trial);
    const struct view_manifest *newest = own != NULL ? core_checkpoints_newest(core, own) : NULL;
    *is_awaited = false;
    if (newest != NULL || parent == NULL) {
        return newest;
    }
    /* What a user's retry of the parent has made since is not of this lineage. */
    uint32_t until = view_search_last(experiment, parent->index)->fact.attempt.number;
    newest = newest_of_parent(core, parent, until);
    *is_awaited = newest == NULL && core_checkpoints_may_return(core, parent);
    return newest;
}

static void add_holders(const struct node_core *core, const struct view_manifest *first, const struct view_manifest *end,
                        bool only_good, struct view_manifest *out)
{
    for (const struct view_manifest *row = first; row != end; row = row->next) {
        for (uint32_t i = 0; i < row->holder_count; i++) {
            if (!only_good || is_good_holder(core, row->blob, row->holders[i])) {
                view_manifest_add_holder(out, row->holders[i]);
            }
        }
    }
}

const struct view_manifest *core_checkpoints_unite(const struct node_core *core, const struct view_manifest *first,
                                                struct view_manifest *out)
{
    const struct view_manifest *end = view_manifest_unite(first, out);
    view_manifest_clear_holders(out);
    add_holders(core, first, end, true, out);
    add_holders(core, first, end, false, out);
    return end;
}

bool core_checkpoints_next(const struct node_core *core, const struct view_manifest **row, struct view_manifest *out)
{
    while (*row != NULL) {
        *row = core_checkpoints_unite(core, *row, out);
        if (out->holder_count > 0) {
            return true;
        }
    }
    return false;
}

bool copies_list_has(const node_id *list, uint32_t count, node_id node)
{
    for (uint32_t i = 0; i < count; i++) {
        if (node_id_equal(list[i], node)) {
            return true;
        }
    }
    return false;
}

/* ---- how many copies are under way --------------------------------------------------------------------------------- */

/* A daemon has a bounded number of transfers under way (node/bulk). Repairs, checks and code leave most of the transfers to
 * fetches and to the checkpoints of running workers. */
static uint32_t pushes_to(const struct node_core *core, node_id to)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < CORE_CODE_PUSHES_MAX; i++) {
        count += core->copies->code_pushes[i].used && node_id_equal(core->copies->code_pushes[i].to, to);
    }
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        for (uint32_t i = 0; push->kind != CORE_PUSH_SAVE && i < push->asked_count; i++) {
            count += push->is_waited[i] && node_id_equal(push->asked[i], to);
        }
    }
    return count;
}

bool copies_may_push_to(const struct node_core *core, node_id to)
{
    const struct core_peer *peer = core_find_peer(core, to);
    return peer != NULL && pushes_to(core, to) < (peer->takes_copies ? CORE_PUSHES_PEER_MAX : 1);
}

static bool may_repair(const struct node_core *core)
{
    uint32_t count = 0;
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        count += push->kind != CORE_PUSH_SAVE;
    }
    return count < CORE_REPAIRS_MAX;
}

void copies_put_off(struct node_core *core, experiment_id experiment)
{
    if (!core->copies->repair_is_behind) {
        core->copies->repair_is_behind = true;
        core->copies->repair_from = experiment;
    }
}

/* ---- checkpoints --------------------------------------------------------------------------------------------------- */

/* This node's manifest of the same step, or NULL. */
static const struct view_manifest *own_row(const struct node_core *core, const struct core_push *push)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, push->attempt.experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, push->attempt.trial) : NULL;
    const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
    if (push->part.count > 0) {
        const struct view_set *set = trial != NULL ? view_find_set(trial, fact_part_name(&push->attempt, &push->part)) : NULL;
        row = set != NULL ? set->rows : NULL;
    }
    while (row != NULL && !(row->step == push->step && row->part == push->part.part && attempt_id_equal(&row->attempt, &push->attempt) &&
                            node_id_equal(row->writer, core->options.self))) {
        row = row->next;
    }
    return row;
}

static bool has_refused(const struct core_push *push, node_id node)
{
    for (uint32_t i = 0; i < push->asked_count; i++) {
        if (node_id_equal(push->asked[i], node)) {
            return !push->is_waited[i];
        }
    }
    return false;
}

/* Adds the good holders that this node's manifest of the same bytes names already, since the next manifest replaces it. Returns
 * the new count. */
static uint32_t add_named(const struct node_core *core, const struct core_push *push, node_id *holders, uint32_t count)
{
    const struct view_manifest *row = own_row(core, push);
    for (uint32_t i = 0; row != NULL && hash256_equal(row->blob, push->blob) && i < row->holder_count; i++) {
        if (count < FACT_HOLDERS_MAX && is_good_holder(core, row->blob, row->holders[i]) &&
            !copies_list_has(holders, count, row->holders[i]) && !has_refused(push, row->holders[i])) {
            holders[count++] = row->holders[i];
        }
    }
    return count;
}

/* True if this node's manifest names other bytes of the same step, and those bytes are on more disks. */
static bool is_outdone(const struct node_core *core, const struct core_push *push)
{
    const struct view_manifest *row = own_row(core, push);
    uint32_t good = 0;
    for (uint32_t i = 0; row != NULL && !hash256_equal(row->blob, push->blob) && i < row->holder_count; i++) {
        good += is_good_holder(core, row->blob, row->holders[i]);
    }
    return good > push->holder_count;
}

/* Publishes the manifest with the holders so far; durable if enough. False: there is no memory for the record. A node that
 * leaves, or is out of the mesh, does not wait for memory. */
static bool finish(struct node_core *core, const struct core_push *push)
{
    CHECK(push->kind != CORE_PUSH_CHECK);
    struct fact_manifest fact = {
        .blob = push->blob, .bytes = push->bytes, .has_metric = push->has_metric, .metric = push->metric};
    memcpy(fact.holders, push->holders, sizeof fact.holders);
    fact.holder_count = add_named(core, push, fact.holders, push->holder_count);
    fact.durable = fact.holder_count >= push->wanted ||
                   BUG(durable_on_fewer, "a checkpoint is durable on as many disks as asked");
    uint8_t bytes[FACT_HOLDERS_MAX * 32 + 128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_manifest_pack(&writer, &fact);
    if (push->kind == CORE_PUSH_SAVE && BUG(saved_unsaid, "a record says what was saved, and where")) {
        return true;
    }
    if (!fact.durable && is_outdone(core, push)) {
        return true;
    }
    bool is_published;
    bool is_part = push->part.count > 0;
    struct fact_key key = is_part ? fact_key_part(&push->attempt, &push->part) : fact_key_manifest(&push->attempt, push->step);
    struct core_pending *pending = core_try_put(core, is_part ? FACT_PART : FACT_MANIFEST, key, &writer, &is_published);
    if (pending != NULL && fact.durable && push->kind == CORE_PUSH_SAVE) {
        pending->action = CORE_ACTION_DURABLE; /* no node finds copies that no stored record names */
        pending->attempt = push->attempt;
        pending->slot = push->slot;
        pending->step = push->step;
        pending->set = is_part ? fact_part_name(&push->attempt, &push->part) : (hash256){{0}};
    }
    return is_published || core->is_out || core->leaving;
}

static void tell_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_DURABLE);
    effect->u.worker.slot = slot;
    effect->u.worker.attempt = *attempt;
    effect->u.worker.step = step;
}

/* The row of the whole checkpoint, or NULL. */
static const struct view_manifest *find_whole(const struct node_core *core, const struct core_awaited *awaited)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, awaited->attempt.experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, awaited->attempt.trial) : NULL;
    const struct view_set *set = trial != NULL ? view_find_set(trial, awaited->set) : NULL;
    return set != NULL ? set->whole : NULL;
}

/* Tells workers whose checkpoint is durable now, in all of its parts. What is older than that is waited for no more, nor what an
 * attempt with a verdict has saved. */
static void tell_awaited(struct node_core *core)
{
    for (struct core_awaited **link = &core->copies->awaited; *link != NULL;) {
        struct core_awaited *row = *link;
        const struct view_manifest *whole = find_whole(core, row);
        const struct view_attempt *attempt = view_find_attempt(&core->view, &row->attempt);
        bool is_durable = whole != NULL && whole->holder_count > 0 && whole->durable;
        if (is_durable && !core_has_room(core, 8, 1u << 12)) {
            return;
        }
        if (is_durable) {
            MARK(all_parts_durable);
            tell_durable(core, &row->attempt, row->slot, row->step);
        }
        if (is_durable || whole == NULL || attempt == NULL || attempt->verdicts != NULL) {
            *link = row->next;
            arena_give(&core->arena, row, sizeof *row);
        } else {
            link = &row->next;
        }
    }
}

/* Forgets the oldest save of the worker, if there are too many. */
static void thin_awaited(struct node_core *core, const struct core_awaited *newest)
{
    uint32_t count = 0;
    for (struct core_awaited **link = &core->copies->awaited; *link != NULL; link = &(*link)->next) {
        struct core_awaited *row = *link;
        count += row->slot == newest->slot && attempt_id_equal(&row->attempt, &newest->attempt);
        if (count > CORE_AWAITED_MAX) {
            *link = row->next;
            arena_give(&core->arena, row, sizeof *row);
            return;
        }
    }
}

void core_checkpoints_durable(struct node_core *core, const attempt_id *attempt, uint32_t slot, uint64_t step, hash256 set)
{
    if (hash256_is_none(set) || BUG(part_called_whole, "a checkpoint is durable once all of its parts are")) {
        tell_durable(core, attempt, slot, step);
        return;
    }
    struct core_awaited *row = arena_take(&core->arena, sizeof *row);
    if (row == NULL) {
        core->counters.full++;
        return;
    }
    *row = (struct core_awaited){.next = core->copies->awaited, .attempt = *attempt, .slot = slot, .step = step, .set = set};
    core->copies->awaited = row;
    thin_awaited(core, row);
    tell_awaited(core);
}

enum advanced copies_push_advance(struct node_core *core, struct core_push *push)
{
    bool is_put_off = false;
    node_id candidates[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        if (core_node_accepts(core, core->members->peers[i]->id)) {
            candidates[count++] = core->members->peers[i]->id;
        }
    }
    struct fact_key key = fact_key_trial(push->attempt.experiment, push->attempt.trial);
    rendezvous_sort(candidates, count, key.bytes, key.count);
    for (uint32_t i = 0; i < count && push->holder_count + push->waiting_count < push->wanted; i++) {
        bool asked = false;
        for (uint32_t j = 0; j < push->asked_count; j++) {
            asked |= node_id_equal(push->asked[j], candidates[i]);
        }
        /* Where no record of a part is read, its chunks would be garbage. */
        bool is_older = push->part.count > 0 && !core_node_knows(core, candidates[i], FACT_READS_PARTS);
        if (asked || is_older || push->asked_count == FACT_HOLDERS_MAX * 2 || !core_has_room(core, 8, 1u << 14)) {
            continue;
        }
        if (push->kind == CORE_PUSH_REPAIR && !copies_may_push_to(core, candidates[i])) {
            is_put_off = true;
            continue;
        }
        push->is_waited[push->asked_count] = true;
        push->asked[push->asked_count++] = candidates[i];
        push->waiting_count++;
        struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
        effect->u.push.blob = push->blob;
        effect->u.push.to = candidates[i];
        effect->u.push.attempt = push->attempt;
        effect->u.push.step = push->step;
    }
    return !is_over(push) ? ADVANCED_WAITS : is_put_off ? ADVANCED_PUT_OFF : ADVANCED_OVER;
}

static void push_drop(struct node_core *core, struct core_push *push)
{
    struct core_push **link = &core->copies->pushes;
    while (*link != push) {
        link = &(*link)->next;
    }
    *link = push->next;
    arena_give(&core->arena, push, sizeof *push);
}

/* Publishes the final manifest of a push that is over, and drops the push. Without memory for the manifest the push stays. */
static void push_end(struct node_core *core, struct core_push *push)
{
    if (finish(core, push)) {
        push_drop(core, push);
    }
}

/* The pushes that are over and had no memory for the final manifest. */
static void publish_ended(struct node_core *core)
{
    for (struct core_push *push = core->copies->pushes, *next; push != NULL; push = next) {
        next = push->next;
        if (is_over(push) && core_has_room(core, 8, 1u << 14)) {
            push_end(core, push);
        }
    }
}

void core_checkpoints_forget(struct node_core *core, experiment_id experiment)
{
    for (struct core_push *push = core->copies->pushes, *next; push != NULL; push = next) {
        next = push->next;
        if (experiment_id_equal(push->attempt.experiment, experiment)) {
            push_drop(core, push); /* answers still to come are ignored */
        }
    }
    for (struct core_awaited **link = &core->copies->awaited; *link != NULL;) {
        struct core_awaited *row = *link;
        if (experiment_id_equal(row->attempt.experiment, experiment)) {
            *link = row->next;
            arena_give(&core->arena, row, sizeof *row);
        } else {
            link = &row->next;
        }
    }
    core_outputs_forget(core, experiment);
    core_code_forget(core, experiment);
}

/* Ranks of one node may save equal parts. */
static bool is_same_part(const struct fact_part_key *a, const struct fact_part_key *b)
{
    return a->save == b->save && a->count == b->count && a->part == b->part;
}

/* True if the push carries the bytes of the save already. */
static bool is_same(const struct core_push *push, const struct core_push *save)
{
    return push->kind != CORE_PUSH_CHECK && push->step == save->step && hash256_equal(push->blob, save->blob) &&
           is_same_part(&push->part, &save->part) && attempt_id_equal(&push->attempt, &save->attempt);
}

/* The same bytes may be under way already, as a repair or an earlier save: the worker then waits for that push. */
static bool join_earlier(struct node_core *core, const struct core_push *save)
{
    struct core_push *push = core->copies->pushes;
    while (push != NULL && !is_same(push, save)) {
        push = push->next;
    }
    if (push == NULL) {
        return false;
    }
    push->kind = CORE_PUSH_SAVE;
    push->slot = save->slot;
    push->wanted = save->wanted;
    if (save->has_metric) {
        push->has_metric = true;
        push->metric = save->metric;
    }
    (void)copies_push_advance(core, push); /* a repair may have passed over busy nodes */
    return true;
}

void core_checkpoints_saved(struct node_core *core, const struct node_event *event)
{
    if (view_is_deleted(&core->view, event->u.blob.attempt.experiment)) {
        return; /* the worker is being ended */
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.blob.attempt.experiment);
    struct core_push save = {.attempt = event->u.blob.attempt,
                             .slot = event->u.blob.slot,
                             .step = event->u.blob.step,
                             .part = event->u.blob.part,
                             .blob = event->u.blob.blob,
                             .bytes = event->u.blob.bytes};
    save.wanted = experiment != NULL && experiment->known ? experiment->config->checkpoint_replicas
                                                              : FACT_HOLDERS_MAX; /* the configuration has not come yet */
    if ((experiment == NULL || !experiment->known) && BUG(copies_guessed, "copies of the unknown are not called enough")) {
        save.wanted = 2;
    }
    save.has_metric = experiment != NULL && experiment->known && event->byte_count > 0 &&
                      view_metric(event->bytes, event->byte_count, "validation", experiment->config->metric,
                                  &save.metric) &&
                      save.metric - save.metric == 0;
    save.metric = save.has_metric ? save.metric : 0;
    if (join_earlier(core, &save)) {
        return;
    }
    save.holders[0] = core->options.self;
    save.holder_count = add_named(core, &save, save.holders, 1);
    memcpy(save.asked, save.holders, save.holder_count * sizeof save.asked[0]);
    save.asked_count = save.holder_count;
    struct core_push *push = arena_take(&core->arena, sizeof *push);
    if (push == NULL) {
        core->counters.full++;
        (void)finish(core, &save); /* a repair makes the copies, once there is memory */
        return;
    }
    *push = save;
    push->next = core->copies->pushes;
    core->copies->pushes = push;
    bool ends = copies_push_advance(core, push) != ADVANCED_WAITS;
    if (!ends && BUG(durable_too_soon, "a manifest is durable once its copies are confirmed")) {
        memcpy(push->holders, push->asked, push->asked_count * sizeof push->asked[0]);
        push->holder_count = push->asked_count;
        ends = true;
    }
    if (ends) {
        push_end(core, push);
    }
}

void core_checkpoints_ended(struct node_core *core, const attempt_id *attempt)
{
    struct core_push *newest = NULL;
    core_outputs_ended(core, attempt);
    for (struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        bool is_its = push->kind == CORE_PUSH_SAVE && attempt_id_equal(&push->attempt, attempt);
        newest = is_its && (newest == NULL || push->step > newest->step) ? push : newest;
    }
    if (newest != NULL && is_over(newest)) {
        push_end(core, newest);
    } else if (newest != NULL && newest->progress != CORE_PUSH_PUBLISHED && finish(core, newest)) {
        push_move(newest, CORE_PUSH_PUBLISHED);
    }
}

/* ---- repairs of late ----------------------------------------------------------------------------------------------- */

static bool is_repair_of(const struct core_repair *repair, const struct core_push *push)
{
    return repair->step == push->step && repair->part == push->part.part && hash256_equal(repair->blob, push->blob) &&
           attempt_id_equal(&repair->attempt, &push->attempt);
}

/* Forgets the repair of one checkpoint, or (NULL) all repairs older than CORE_REPAIR_AGAIN_MS. */
static void repair_drop(struct node_core *core, const struct core_push *push)
{
    for (struct core_repair **link = &core->copies->repairs; *link != NULL;) {
        struct core_repair *repair = *link;
        if (push != NULL ? is_repair_of(repair, push) : core->now_ms >= repair->until_ms) {
            *link = repair->next;
            arena_give(&core->arena, repair, sizeof *repair);
        } else {
            link = &repair->next;
        }
    }
}

/* True if the repair was tried lately, the same nodes live, and the checkpoint has no more copies than then. */
static bool repair_is_futile(struct node_core *core, const struct core_push *push)
{
    for (const struct core_repair *repair = core->copies->repairs; repair != NULL; repair = repair->next) {
        if (is_repair_of(repair, push)) {
            if (push->holder_count <= repair->living_copies && core->copies->repair_nodes == repair->nodes) {
                return true;
            }
            repair_drop(core, push);
            return false;
        }
    }
    return false;
}

static bool repair_note(struct node_core *core, const struct core_push *push)
{
    struct core_repair *repair = arena_take(&core->arena, sizeof *repair);
    if (repair == NULL) {
        core->counters.full++;
        return false;
    }
    repair->attempt = push->attempt;
    repair->step = push->step;
    repair->part = push->part.part;
    repair->blob = push->blob;
    repair->living_copies = push->holder_count;
    repair->nodes = core->copies->repair_nodes;
    repair->until_ms = core->now_ms + CORE_REPAIR_AGAIN_MS;
    repair->next = core->copies->repairs;
    core->copies->repairs = repair;
    return true;
}

/* A digest of the nodes that may take copies, and of their boots. */
static uint64_t digest_nodes(const struct node_core *core)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        uint64_t state = core_node_accepts(core, peer->id) ? 2 : core_node_alive(core, peer->id);
        digest = (digest ^ bytes_get_u64(peer->id.bytes) ^ peer->boot ^ state << 60) * 0x9e3779b97f4a7c15u;
    }
    return digest;
}

/* ---- copies made --------------------------------------------------------------------------------------------------- */

bool copies_push_answers(struct core_push *push, const struct node_event *event)
{
    if (!hash256_equal(push->blob, event->u.blob.blob) || push->step != event->u.blob.step ||
        !attempt_id_equal(&push->attempt, &event->u.blob.attempt)) {
        return false;
    }
    for (uint32_t i = 0; i < push->asked_count; i++) {
        if (push->is_waited[i] && node_id_equal(push->asked[i], event->u.blob.node)) {
            push->is_waited[i] = false;
            push->waiting_count--;
            return true;
        }
    }
    return false;
}

void core_checkpoints_pushed(struct node_core *core, const struct node_event *event)
{
    struct core_peer *peer = core_find_peer(core, event->u.blob.node);
    if (peer != NULL && !event->u.blob.is_missing) {
        peer->takes_copies = event->u.blob.ok;
    }
    if (core->copies->repair_is_behind) {
        core->copies->repair_ms = core->now_ms; /* a place may have become free */
    }
    if (experiment_id_is_none(event->u.blob.attempt.experiment)) {
        core_code_pushed(core, event);
        return;
    }
    if (core_outputs_pushed(core, event)) {
        return;
    }
    for (struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        if (!copies_push_answers(push, event)) {
            continue;
        }
        if (push->kind == CORE_PUSH_CHECK) {
            push_drop(core, push);
            return;
        }
        bool is_kept = event->u.blob.ok && push->holder_count < FACT_HOLDERS_MAX;
        if (!event->u.blob.ok) {
            MARK(copy_refused);
        }
        if (is_kept) {
            push->holders[push->holder_count++] = event->u.blob.node;
            push->has_copied = true;
            core->counters.copies_repaired += push->kind == CORE_PUSH_REPAIR;
        }
        enum advanced advanced = copies_push_advance(core, push);
        if (advanced == ADVANCED_PUT_OFF) {
            repair_drop(core, push);
            copies_put_off(core, push->attempt.experiment);
        }
        if (advanced != ADVANCED_WAITS && push->kind == CORE_PUSH_REPAIR && !push->has_copied) {
            push_drop(core, push);
        } else if (advanced != ADVANCED_WAITS) {
            push_end(core, push);
        }
        return;
    }
}

/* ---- repair -------------------------------------------------------------------------------------------------------- */

struct fact_part_key copies_part_of(const struct view_manifest *row)
{
    struct fact_part_key part = {.step = row->step};
    if (row->set != NULL) {
        part = row->set->key;
        part.part = row->part;
    }
    return part;
}

/* A checkpoint, or a part of one, with fewer good copies than wanted: the good holder with the smallest id copies the checkpoint to more nodes.
 * The repairing node publishes a manifest of its own, since each record has one writer; readers unite the manifests of a
 * checkpoint. */
static void repair_blob(struct node_core *core, const struct view_experiment *experiment, const struct view_manifest *first)
{
    struct view_manifest united;
    (void)core_checkpoints_unite(core, first, &united);
    struct core_push repair = {.kind = CORE_PUSH_REPAIR,
                               .attempt = united.attempt,
                               .step = united.step,
                               .part = copies_part_of(&united),
                               .blob = united.blob,
                               .bytes = united.bytes,
                               .has_metric = united.has_metric,
                               .metric = united.metric};
    for (uint32_t i = 0; i < united.holder_count; i++) {
        if (is_good_holder(core, united.blob, united.holders[i])) {
            repair.holders[repair.holder_count++] = united.holders[i];
            repair.asked[repair.asked_count++] = united.holders[i];
        }
    }
    repair.wanted = experiment->config->checkpoint_replicas;
    bool is_mine = copies_list_has(repair.holders, repair.holder_count, core->options.self);
    for (uint32_t i = 0; i < repair.holder_count; i++) {
        is_mine &= node_id_compare(core->options.self, repair.holders[i]) <= 0;
    }
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        is_mine &= !hash256_equal(push->blob, united.blob);
    }
    if (repair_is_futile(core, &repair) || !is_mine || repair.holder_count >= repair.wanted) {
        return;
    }
    if (!may_repair(core)) {
        copies_put_off(core, experiment->id);
        return;
    }
    struct core_push *push = repair_note(core, &repair) ? arena_take(&core->arena, sizeof *push) : NULL;
    if (push == NULL) {
        repair_drop(core, &repair);
        return;
    }
    *push = repair;
    MARK(checkpoint_repaired);
    push->next = core->copies->pushes;
    core->copies->pushes = push;
    enum advanced advanced = copies_push_advance(core, push);
    if (advanced == ADVANCED_PUT_OFF) {
        copies_put_off(core, experiment->id);
    }
    if (advanced != ADVANCED_WAITS) {
        repair_drop(core, push);
        push_drop(core, push);
    }
}

static void repair_checkpoint(struct node_core *core, const struct view_experiment *experiment,
                              const struct view_manifest *checkpoint)
{
    if (checkpoint->set == NULL) {
        repair_blob(core, experiment, checkpoint);
        return;
    }
    for (uint32_t part = 0; part < checkpoint->set->key.count && core_has_room(core, 64, 1u << 16); part++) {
        const struct view_manifest *first = view_set_part(checkpoint->set, part);
        if (first != NULL) {
            repair_blob(core, experiment, first);
        }
    }
}

/* True if the checkpoint, or each of its parts, has a good holder. */
static bool is_good(const struct node_core *core, const struct view_manifest *row)
{
    bool is_whole = row->set != NULL || row_is_good(core, row);
    for (uint32_t part = 0; row->set != NULL && part < row->set->key.count && is_whole; part++) {
        is_whole = has_part(core, row->set, part, PART_IS_GOOD);
    }
    return is_whole;
}

/* True if the trial has checkpoints to keep, and none has a good holder: then the newest checkpoint of all stands in. */
static bool has_lost_kept(const struct node_core *core, const struct view_trial *trial)
{
    bool has_any = false;
    for (const struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        if (row->is_kept && row->holder_count > 0 && is_good(core, row)) {
            return false;
        }
        has_any |= row->is_kept && row->holder_count > 0;
    }
    return has_any;
}

/* Repairs the checkpoints that are kept, and the newest one with a living holder: a live trial goes on from there, and the
 * newest stands in for kept checkpoints that are lost. A checkpoint that may be let go is not copied again. */
static void repair_trial(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                         bool is_over)
{
    bool lives = retention_trial_lives(experiment, trial, is_over);
    const struct view_manifest *newest = lives || has_lost_kept(core, trial) ? core_checkpoints_newest(core, trial) : NULL;
    if (newest != NULL && (lives || !retention_may_go(experiment, trial, newest))) {
        repair_checkpoint(core, experiment, newest);
    }
    for (const struct view_manifest *row = trial->manifests, *next; row != NULL; row = next) {
        struct view_manifest united;
        next = core_checkpoints_unite(core, row, &united);
        if (united.is_kept && row != newest && core_has_room(core, 64, 1u << 16)) {
            repair_checkpoint(core, experiment, row);
        }
    }
}

/* A node that begins a new boot may have an old or an empty disk. If the node should hold the trial's newest checkpoint, the
 * other living holder with the smallest id sends the checkpoint again; a node with the copy answers immediately. */
static void check_blob(struct node_core *core, const struct core_peer *peer, const struct view_manifest *first)
{
    struct view_manifest united;
    (void)core_checkpoints_unite(core, first, &united);
    bool is_mine = copies_list_has(united.holders, united.holder_count, core->options.self) &&
                   copies_list_has(united.holders, united.holder_count, peer->id);
    for (uint32_t i = 0; i < united.holder_count; i++) {
        bool is_other = node_id_equal(united.holders[i], peer->id) || !core_node_alive(core, united.holders[i]);
        is_mine &= is_other || node_id_compare(core->options.self, united.holders[i]) <= 0;
    }
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        is_mine &= !hash256_equal(push->blob, first->blob);
    }
    struct core_push *push = is_mine ? arena_take(&core->arena, sizeof *push) : NULL;
    if (push == NULL) {
        return;
    }
    push->kind = CORE_PUSH_CHECK;
    push->attempt = first->attempt;
    push->step = first->step;
    push->part = copies_part_of(first);
    push->blob = first->blob;
    push->bytes = first->bytes;
    push->waiting_count = 1;
    push->asked_count = 1;
    push->asked[0] = peer->id;
    push->is_waited[0] = true;
    push->next = core->copies->pushes;
    core->copies->pushes = push;
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
    effect->u.push.blob = push->blob;
    effect->u.push.to = peer->id;
    effect->u.push.attempt = push->attempt;
    effect->u.push.step = push->step;
}

static void check_copy(struct node_core *core, const struct core_peer *peer, const struct view_trial *trial)
{
    const struct view_manifest *newest = core_checkpoints_newest(core, trial);
    if (newest != NULL && newest->set == NULL) {
        check_blob(core, peer, newest);
    }
    for (uint32_t part = 0; newest != NULL && newest->set != NULL && part < newest->set->key.count; part++) {
        const struct view_manifest *first = view_set_part(newest->set, part);
        if (first != NULL && core_has_room(core, 64, 1u << 16)) {
            check_blob(core, peer, first);
        }
    }
}

/* Checks the node's copies once in each of its boots, some trials a pass if many pushes are under way. */
static void check_copies(struct node_core *core, struct core_peer *peer)
{
    if (!core_node_trusted(core, peer->id) || peer->boot == 0 || (peer->copies_done && peer->copies_boot == peer->boot)) {
        return;
    }
    if (peer->copies_boot != peer->boot) {
        peer->copies_boot = peer->boot;
        memset(&peer->copies_experiment, 0, sizeof peer->copies_experiment);
        peer->copies_trial = 0;
    }
    peer->copies_done = false;
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        int order = experiment_id_compare(experiment->id, peer->copies_experiment);
        if (order < 0) {
            continue; /* looked at in an earlier pass */
        }
        for (uint32_t t = order > 0 ? 0 : peer->copies_trial; t < experiment->trial_slots; t++) {
            if (!may_repair(core) || !copies_may_push_to(core, peer->id) || !core_has_room(core, 64, 1u << 16)) {
                peer->copies_experiment = experiment->id;
                peer->copies_trial = t;
                copies_put_off(core, core->copies->repair_from);
                return;
            }
            if (experiment->trials[t] != NULL) {
                check_copy(core, peer, experiment->trials[t]);
            }
        }
    }
    peer->copies_done = true;
}

/* Publishes saves whose copies take long with the holders so far: only this boot knows of the checkpoint, and any node can make
 * the copies once a manifest is published. */
static void publish_slow(struct node_core *core)
{
    for (struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        if (push->progress == CORE_PUSH_SLOW && !is_over(push) && core_has_room(core, 8, 1u << 14) && finish(core, push)) {
            push_move(push, CORE_PUSH_PUBLISHED);
        }
        if (push->kind == CORE_PUSH_SAVE && push->progress == CORE_PUSH_NEW) {
            push_move(push, CORE_PUSH_SLOW);
        }
    }
}

void core_checkpoints_housekeep(struct node_core *core)
{
    if (core->rotate % (CORE_REPAIR_MS / CORE_HOUSEKEEP_MS) == 0) {
        publish_ended(core);
        core_outputs_housekeep(core);
        tell_awaited(core);
    }
    if (core->now_ms < core->copies->repair_ms || core->members->syncing || core->leaving) {
        return;
    }
    publish_slow(core);
    core->copies->repair_ms = core->now_ms + CORE_REPAIR_MS;
    core->copies->repair_pass++;
    core->copies->repair_is_behind = false;
    core->copies->repair_nodes = digest_nodes(core);
    repair_drop(core, NULL);
    uint32_t count = core->view.experiment_count, first = 0;
    while (first < count && experiment_id_compare(core->view.experiments[first]->id, core->copies->repair_from) < 0) {
        first++;
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct view_experiment *experiment = core->view.experiments[(first + i) % count];
        if (!experiment->known) {
            continue;
        }
        bool is_over = view_experiment_over(experiment);
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            if (experiment->trials[t] != NULL && core_has_room(core, 64, 1u << 16)) {
                repair_trial(core, experiment, experiment->trials[t], is_over);
                core_outputs_repair(core, experiment, experiment->trials[t], is_over);
            }
        }
        if (!is_over) {
            core_code_look(core, experiment);
        }
    }
    core_code_drop(core);
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        check_copies(core, core->members->peers[i]);
    }
}

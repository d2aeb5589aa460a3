/* Deletion of checkpoints that need not be kept (DESIGN 10). The fold alone decides which checkpoints to keep
 * (view/retention.h). Here a node decides when the rest may go, for its own disk and its own records only:
 *
 *   1. Every member is reachable, or has been away for a day, or the disk is full: a member that is away may know more. And
 *      there is memory for all records.
 *   2. The writer of a manifest asks holders to read their copies: of the checkpoints to keep of the trial, and of the best of
 *      the experiment. A checkpoint is safe once as many copies as wanted are whole. A checkpoint that would not be kept even
 *      if only safe checkpoints existed is let go: the writer publishes its manifest again, without holders.
 *   3. Now and then the shell gets a list of every blob that is still named; chunks of other blobs may be deleted. All garbage
 *      goes this way: checkpoints let go, deleted experiments, uploads that broke off.
 *
 * A writer that is gone for good never publishes its manifest again. The other nodes ask the holders in its place, until each
 * node has decided to pass over the manifest in its own list. */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/copies/acks.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/collection.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/view/retention.h"

static struct core_confirmation *find_confirmation(const struct node_core *core, hash256 blob, node_id node)
{
    struct core_confirmation *row = core->copies->confirmations;
    while (row != NULL && !(hash256_equal(row->blob, blob) && node_id_equal(row->node, node))) {
        row = row->next;
    }
    return row;
}

static bool is_within(const struct node_core *core, uint64_t since_ms, uint64_t span_ms)
{
    return since_ms != 0 && core->now_ms - since_ms < span_ms;
}

bool core_copy_is_doubtful(const struct node_core *core, hash256 blob, node_id node)
{
    const struct core_confirmation *row = find_confirmation(core, blob, node);
    return row != NULL && is_within(core, row->refused_ms, CORE_CONFIRM_RETRY_MS);
}

bool core_copy_is_missing(const struct node_core *core, hash256 blob, node_id node)
{
    const struct core_confirmation *row = find_confirmation(core, blob, node);
    return row != NULL && row->is_missing && is_within(core, row->refused_ms, CORE_CONFIRM_FRESH_MS);
}

static bool may_ask(const struct node_core *core)
{
    uint32_t asked = 0;
    for (const struct core_confirmation *row = core->copies->confirmations; row != NULL; row = row->next) {
        asked += row->is_asked;
    }
    return asked < CORE_CONFIRMS_MAX && core_has_room(core, 64, 1u << 14);
}

static void ask_now(struct node_core *core, struct core_confirmation *row)
{
    row->is_due = false;
    row->is_asked = true;
    struct node_effect *effect = core_effect(core, NODE_EFFECT_CONFIRM);
    effect->u.push.blob = row->blob;
    effect->u.push.to = row->node;
}

/* Asks what is due, the first that became due first, until CORE_CONFIRMS_MAX are asked. */
static void ask_due(struct node_core *core)
{
    for (struct core_confirmation *row = core->copies->confirmations; row != NULL; row = row->next) {
        if (row->is_due && !may_ask(core)) {
            return;
        }
        if (row->is_due) {
            ask_now(core, row);
        }
    }
}

void core_collection_confirmed(struct node_core *core, const struct node_event *event)
{
    struct core_confirmation *row = find_confirmation(core, event->u.blob.blob, event->u.blob.node);
    if (row == NULL || !row->is_asked) {
        return;
    }
    row->is_asked = false;
    row->held_ms = event->u.blob.ok ? core->now_ms : 0;
    row->refused_ms = event->u.blob.ok ? 0 : core->now_ms;
    row->is_missing = !event->u.blob.ok && event->u.blob.is_missing;
    if (row->is_missing) {
        MARK(copy_is_missing);
    }
    if (event->u.blob.ok) {
        MARK(copy_confirmed);
        core->copies->retention_ms = core->now_ms; /* perhaps no other answer is missing */
    }
    ask_due(core);
}

static void drop_old(struct node_core *core)
{
    for (struct core_confirmation **link = &core->copies->confirmations; *link != NULL;) {
        struct core_confirmation *row = *link;
        bool is_of_use = row->is_asked || row->is_due || is_within(core, row->held_ms, CORE_CONFIRM_FRESH_MS) ||
                         is_within(core, row->refused_ms,
                                    row->is_missing ? CORE_CONFIRM_FRESH_MS : CORE_CONFIRM_RETRY_MS);
        if (is_of_use) {
            link = &row->next;
        } else {
            *link = row->next;
            arena_give(&core->arena, row, sizeof *row);
        }
    }
}

/* Asks a node to confirm its copy, if that may be asked now. `is_due`: else as soon as it may be. */
static void ask(struct node_core *core, hash256 blob, node_id node, bool is_due)
{
    struct core_confirmation **link = &core->copies->confirmations;
    while (*link != NULL && !(hash256_equal((*link)->blob, blob) && node_id_equal((*link)->node, node))) {
        link = &(*link)->next;
    }
    bool is_now = may_ask(core);
    if ((!is_now && !is_due) || (*link != NULL && (*link)->is_asked)) {
        return;
    }
    if (*link == NULL) {
        *link = arena_take(&core->arena, sizeof **link);
        if (*link == NULL) {
            core->counters.full++;
            return;
        }
        (*link)->blob = blob;
        (*link)->node = node;
    }
    if (is_now) {
        ask_now(core, *link);
    } else {
        (*link)->is_due = true;
    }
}

static void forgive(struct node_core *core, hash256 blob, const node_id *holders, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct core_confirmation *row = find_confirmation(core, blob, holders[i]);
        if (row != NULL) {
            row->is_missing = false;
        }
    }
}

void core_collection_told(struct node_core *core, const struct record *record)
{
    struct fact_manifest fact;
    struct fact_output output;
    if (core->copies->confirmations == NULL) {
        return;
    }
    if ((record->kind == FACT_MANIFEST || record->kind == FACT_PART) && fact_manifest_read(record, &fact) == 0) {
        forgive(core, fact.blob, fact.holders, fact.holder_count);
    } else if (record->kind == FACT_OUTPUT && fact_output_read(record, &output) == 0) {
        forgive(core, output.blob, output.holders, output.holder_count);
    }
}

/* Asks the living holders of a blob that a failed attempt needed (`is_begun`), or that the next attempt may need. A copy that
 * was whole a while ago is not read again before an attempt needs it. */
static void doubt_copies(struct node_core *core, hash256 blob, const node_id *holders, uint32_t count, bool is_begun)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct core_confirmation *row = find_confirmation(core, blob, holders[i]);
        bool is_known = row != NULL && !is_begun && is_within(core, row->held_ms, CORE_CONFIRM_FRESH_MS);
        if (core_node_alive(core, holders[i]) && !core_copy_is_missing(core, blob, holders[i]) && !is_known) {
            ask(core, blob, holders[i], is_begun);
        }
    }
}

static bool begins_with_output(const struct view_attempt *attempt, hash256 blob)
{
    for (uint32_t i = 0; i < attempt->beginning_count; i++) {
        if (hash256_equal(attempt->beginnings[i].blob, blob)) {
            return true;
        }
    }
    return false;
}

static void doubt(struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt, bool is_begun)
{
    for (const struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        if (row->step > attempt->start_step || hash256_equal(row->blob, attempt->checkpoint) != is_begun) {
            continue;
        }
        if (row->set == NULL) {
            doubt_copies(core, row->blob, row->holders, row->holder_count, is_begun);
        }
        for (const struct view_manifest *part = row->set != NULL ? row->set->rows : NULL; part != NULL; part = part->next) {
            doubt_copies(core, part->blob, part->holders, part->holder_count, is_begun);
        }
    }
    for (const struct view_output *row = trial->outputs; row != NULL && attempt->beginning_count > 0; row = row->next) {
        if (begins_with_output(attempt, row->fact.blob) == is_begun) {
            doubt_copies(core, row->fact.blob, row->fact.holders, row->fact.holder_count, is_begun);
        }
    }
}

void core_collection_doubt(struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->id.experiment);
    const struct view_trial *parent = experiment != NULL && attempt->point_count > 0 ? view_find_trial(experiment, attempt->parent) : NULL;
    doubt(core, trial, attempt, true);
    if (parent != NULL && parent != trial) {
        doubt(core, parent, attempt, true); /* a trial of pbt begins with a checkpoint of its parent */
    }
    doubt(core, trial, attempt, false);
}

/* True if the node has left, is out of the mesh, or has been away for CORE_COLLECT_AWAY_MS. */
static bool is_gone(const struct node_core *core, node_id node)
{
    if (node_id_equal(node, core->options.self)) {
        return false;
    }
    const struct view_member *member = view_find_member(&core->view, node);
    const struct core_peer *peer = core_find_peer(core, node);
    if (member == NULL || peer == NULL || member->left || view_member_is_out(member)) {
        return true;
    }
    uint64_t since_ms = peer->died_ms != 0 ? peer->died_ms : core->started_ms;
    return peer->state != SWIM_ALIVE && peer->state != SWIM_SUSPECT && core->now_ms - since_ms >= CORE_COLLECT_AWAY_MS;
}

/* True if some record is not in the table or not in the fold for lack of memory: the record may name a checkpoint. Peers offer
 * refused records again all the time, so a refusal counts for CORE_COLLECT_MS. */
static bool lacks_records(const struct node_core *core)
{
    return core->memory.has_unloaded || core->memory.has_unfolded || core->memory.refold_bucket < RECORDS_BUCKETS ||
           is_within(core, core->memory.refused_ms, CORE_COLLECT_MS);
}

static bool may_collect(const struct node_core *core)
{
    if (lacks_records(core)) {
        return false;
    }
    for (uint32_t i = 0; i < core->members->peer_count && !core->disk_full; i++) {
        if (BUG(collects_beside_the_away, "while a member is away nothing is collected")) {
            break;
        }
        if (core->members->peers[i]->state != SWIM_ALIVE && !is_gone(core, core->members->peers[i]->id)) {
            MARK(nothing_collected_beside_the_away);
            return false;
        }
    }
    return true;
}

/* Copies that a checkpoint should have: as configured, but no more than there are nodes. */
static uint32_t copies_wanted(const struct node_core *core, const struct view_experiment *experiment)
{
    uint32_t nodes = 1;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        nodes += !is_gone(core, core->members->peers[i]->id);
    }
    uint32_t wanted = experiment->config->checkpoint_replicas;
    return wanted < nodes ? wanted : nodes;
}

/* On how many nodes the united checkpoint or part has just been confirmed. `is_asked`: the other holders are asked. */
static uint32_t count_confirmed(struct node_core *core, const struct view_manifest *united, bool is_asked)
{
    uint32_t confirmed = 0;
    for (uint32_t i = 0; i < united->holder_count; i++) {
        const struct core_confirmation *last = find_confirmation(core, united->blob, united->holders[i]);
        if (last != NULL && is_within(core, last->held_ms, CORE_CONFIRM_FRESH_MS)) {
            confirmed++;
        } else if (is_asked && core_node_alive(core, united->holders[i]) &&
                   !core_copy_is_doubtful(core, united->blob, united->holders[i])) {
            ask(core, united->blob, united->holders[i], false);
        }
    }
    return confirmed;
}

/* The same for the part of the set that is confirmed on the fewest nodes. */
static uint32_t count_confirmed_parts(struct node_core *core, const struct view_set *set, bool is_asked)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t part = 0; part < set->key.count; part++) {
        struct view_manifest united = {0};
        const struct view_manifest *first = view_set_part(set, part);
        if (first != NULL) {
            (void)core_checkpoints_unite(core, first, &united);
        }
        uint32_t confirmed = count_confirmed(core, &united, is_asked);
        least = confirmed < least ? confirmed : least;
    }
    return least;
}

/* Marks the checkpoints of the trial with enough confirmed copies as safe, and asks the holders of checkpoints to keep if they
 * have not confirmed lately. `only_best`: asks only about the best of the experiment. */
static void mark_safe(struct node_core *core, const struct view_experiment *experiment, struct view_trial *trial,
                      bool only_best)
{
    uint32_t wanted = copies_wanted(core, experiment);
    for (struct view_manifest *row = trial->manifests; row != NULL;) {
        struct view_manifest checkpoint;
        const struct view_manifest *end = core_checkpoints_unite(core, row, &checkpoint);
        bool is_asked = only_best ? checkpoint.is_best : checkpoint.is_kept;
        uint32_t confirmed = checkpoint.set == NULL ? count_confirmed(core, &checkpoint, is_asked)
                                                    : count_confirmed_parts(core, checkpoint.set, is_asked);
        for (; row != end; row = row->next) {
            row->is_safe = confirmed >= wanted;
        }
    }
}

/* Publishes this node's manifest again, without holders. */
static void let_go(struct node_core *core, const struct view_manifest *row)
{
    struct fact_manifest fact = {
        .blob = row->blob, .bytes = row->bytes, .has_metric = row->has_metric, .metric = row->metric};
    uint8_t bytes[128];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_manifest_pack(&writer, &fact);
    struct fact_part_key part = copies_part_of(row);
    if (part.count > 0) {
        (void)core_put(core, FACT_PART, fact_key_part(&row->attempt, &part), &writer);
    } else {
        (void)core_put(core, FACT_MANIFEST, fact_key_manifest(&row->attempt, row->step), &writer);
    }
}

/* True while copies of the blob are under way. */
static bool is_pushed(const struct node_core *core, hash256 blob)
{
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        if (hash256_equal(push->blob, blob)) {
            return true;
        }
    }
    return false;
}

/* The row of the checkpoint that the row is of, or of a part of. */
static const struct view_manifest *whole_of(const struct view_manifest *row)
{
    return row->set != NULL ? row->set->whole : row;
}

/* True if this node has to decide about the manifest, which is not kept: its own, or the manifest of a writer that is gone. */
static bool has_work(const struct node_core *core, const struct view_manifest *row)
{
    return row->holder_count > 0 && !whole_of(row)->is_kept && !is_pushed(core, row->blob) &&
           (node_id_equal(row->writer, core->options.self) || (!row->is_passed_over && is_gone(core, row->writer)));
}

static bool trial_has_work(const struct node_core *core, const struct view_trial *trial)
{
    for (const struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        if (row->set == NULL && has_work(core, row)) {
            return true;
        }
    }
    for (const struct view_set *set = trial->sets; set != NULL; set = set->next) {
        for (const struct view_manifest *row = set->rows; row != NULL; row = row->next) {
            if (has_work(core, row)) {
                return true;
            }
        }
    }
    return false;
}

/* Forgets which checkpoints of the trial were safe in an earlier decision. True if the trial has one of the best of the
 * experiment. */
static bool forget_safe(struct view_trial *trial)
{
    bool has_best = false;
    for (struct view_manifest *row = trial->manifests; row != NULL; row = row->next) {
        row->is_safe = false;
        has_best |= row->is_best;
    }
    return has_best;
}

/* Lets go of the rows of a list: of checkpoints, or of the parts of one, which go together. An incomplete one goes as if it
 * were complete: once newer ones are safe, it would. */
static void let_go_of_rows(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                           struct view_manifest *rows, bool are_parts)
{
    for (struct view_manifest *row = rows; row != NULL; row = row->next) {
        bool is_other = !are_parts && row->set != NULL;
        if (is_other || !has_work(core, row) || !retention_may_go(experiment, trial, whole_of(row))) {
            continue;
        }
        if (!node_id_equal(row->writer, core->options.self)) {
            MARK(row_of_the_gone_passed_over);
            row->is_passed_over = true;
        } else if (core_has_room(core, 256, 1u << 18)) {
            if (row->part == 0) { /* of several parts one tells */
                TRACE_EVENT(&core->options.trace, event_of_trial(EVENT_CHECKPOINT_DELETED, experiment->id, trial->index),
                            "%s trial %u: the checkpoint of step %llu is kept no longer",
                            experiment->config->name, trial->index, (unsigned long long)row->step);
            }
            MARK(checkpoint_let_go);
            let_go(core, row);
        }
    }
}

static void let_go_of_trial(struct node_core *core, const struct view_experiment *experiment, struct view_trial *trial)
{
    let_go_of_rows(core, experiment, trial, trial->manifests, false);
    for (struct view_set *set = trial->sets; set != NULL; set = set->next) {
        let_go_of_rows(core, experiment, trial, set->rows, true);
    }
}

/* A decision about this node's own trials depends on the best checkpoints of the experiment, so holders of the best are asked
 * whichever trial has them. */
static void let_go_of_experiment(struct node_core *core, struct view_experiment *experiment)
{
    bool any = false;
    for (uint32_t t = 0; t < experiment->trial_slots; t++) {
        any |= experiment->trials[t] != NULL && trial_has_work(core, experiment->trials[t]);
    }
    for (uint32_t t = 0; any && t < experiment->trial_slots; t++) {
        struct view_trial *trial = experiment->trials[t];
        bool is_waiting = trial != NULL && trial_has_work(core, trial);
        bool has_best = trial != NULL && forget_safe(trial);
        if (is_waiting || has_best) {
            mark_safe(core, experiment, trial, !is_waiting);
        }
    }
    if (any) {
        retention_find_bar(experiment);
    }
    for (uint32_t t = 0; any && t < experiment->trial_slots; t++) {
        if (experiment->trials[t] != NULL) {
            let_go_of_trial(core, experiment, experiment->trials[t]);
        }
    }
}

/* ---- blobs that are named ------------------------------------------------------------------------------------------ */

/* The list is made twice: first with `out` NULL, to count. */
struct named {
    uint8_t *out;
    uint32_t count;
    hash256 last;
};

/* Manifests of one checkpoint are neighbours in the list: the blob is named once. */
static void name_blob(struct named *named, hash256 blob)
{
    if (hash256_is_none(blob) || hash256_equal(blob, named->last)) {
        return;
    }
    named->last = blob;
    if (named->out != NULL) {
        memcpy(named->out + (size_t)named->count * HASH_BYTES, blob.bytes, HASH_BYTES);
    }
    named->count++;
}

/* True if a running attempt began with the checkpoint. */
static bool is_beginning(const struct view_trial *trial, const struct view_set *set)
{
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        if (a->assigned && a->verdicts == NULL && hash256_equal(a->checkpoint, set->name)) {
            return !BUG(beginning_collected, "what a running attempt began with is not collected");
        }
    }
    return false;
}

/* Names the blobs of the rows that have not been let go; all of them if a running attempt began with them. */
static void name_rows(const struct node_core *core, const struct view_manifest *rows, bool has_begun, struct named *named)
{
    for (const struct view_manifest *row = rows; row != NULL; row = row->next) {
        bool is_kept = whole_of(row)->is_kept;
        bool is_let_go = !is_kept && row->is_passed_over && is_gone(core, row->writer);
        bool is_missed = !is_kept && BUG(collected_too_early, "a copy is collected once its checkpoint was let go");
        if (has_begun || (row->holder_count > 0 && !is_let_go && !is_missed)) {
            name_blob(named, row->blob); /* the name of a checkpoint of several parts is that of no blob */
        }
    }
}

/* Names the parts of the checkpoint of its parent with which a running attempt began (pbt). */
static void name_parts_of_parent(const struct node_core *core, const struct view_experiment *experiment, const struct view_attempt *attempt,
                                 struct named *named)
{
    const struct view_trial *parent = attempt->point_count > 0 ? view_find_trial(experiment, attempt->parent) : NULL;
    const struct view_set *set = parent != NULL && !hash256_is_none(attempt->checkpoint) ? view_find_set(parent, attempt->checkpoint) : NULL;
    if (set != NULL) {
        name_rows(core, set->rows, true, named);
    }
}

/* The checkpoints with which running attempts began, and all checkpoints that have not been let go. */
static void name_trial(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                       bool keeps_outputs, struct named *named)
{
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        if (keeps_outputs && retention_keeps_output(trial, row)) {
            name_blob(named, row->fact.blob);
        }
    }
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        for (uint32_t i = 0; i < a->beginning_count && a->verdicts == NULL; i++) {
            if (!BUG(begun_output_collected, "the files that a running attempt began with are not collected")) {
                name_blob(named, a->beginnings[i].blob);
            }
        }
        if (a->assigned && a->verdicts == NULL &&
            !BUG(beginning_collected, "what a running attempt began with is not collected")) {
            name_blob(named, a->checkpoint);
            name_parts_of_parent(core, experiment, a, named);
        }
    }
    name_rows(core, trial->manifests, false, named);
    for (const struct view_set *set = trial->sets; set != NULL; set = set->next) {
        name_rows(core, set->rows, is_beginning(trial, set), named);
    }
}

/* The code and configuration of every experiment, all checkpoints, and all blobs on their way. */
static void name_all(const struct node_core *core, struct named *named)
{
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        const struct view_experiment *experiment = core->view.experiments[i];
        if (experiment->known) {
            name_blob(named, experiment->code);
            name_blob(named, experiment->config_text);
        }
        bool is_over = experiment->known && view_experiment_over(experiment);
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            if (experiment->trials[t] != NULL) {
                bool keeps_outputs = !experiment->known || retention_keeps_outputs(experiment) ||
                                     retention_trial_lives(experiment, experiment->trials[t], is_over);
                name_trial(core, experiment, experiment->trials[t], keeps_outputs, named);
            }
        }
        for (uint32_t s = 0; s < experiment->stray_count; s++) {
            name_trial(core, experiment, experiment->strays[s], true, named);
        }
    }
    for (const struct core_push *push = core->copies->pushes; push != NULL; push = push->next) {
        name_blob(named, push->blob);
    }
    for (const struct core_output *output = core->copies->outputs; output != NULL; output = output->next) {
        name_blob(named, output->push.blob);
    }
    for (const struct core_ack *ack = core->copies->acks; ack != NULL; ack = ack->next) {
        name_blob(named, ack->blob);
        name_blob(named, ack->blob_too);
    }
}

static void forget_named(struct node_core *core)
{
    arena_give(&core->arena, core->copies->named, core->copies->named_bytes);
    core->copies->named = NULL;
    core->copies->named_bytes = 0;
}

/* Sends the list to the shell. The list may be longer than the effects' byte store, so it lies in the arena until the next
 * housekeeping. */
static void collect(struct node_core *core)
{
    struct named named = {0};
    name_all(core, &named);
    uint32_t counted = named.count;
    CHECK(core->copies->named == NULL);
    core->copies->named = arena_take(&core->arena, (size_t)counted * HASH_BYTES);
    if (core->copies->named == NULL || !core_has_room(core, 64, 1u << 18)) {
        TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_MEMORY_FULL),
                    "no chunk is deleted: there is no memory to list the %u blobs that records name", counted);
        arena_give(&core->arena, core->copies->named, (size_t)counted * HASH_BYTES);
        core->copies->named = NULL;
        core->counters.full++;
        return;
    }
    core->copies->named_bytes = counted * HASH_BYTES;
    named = (struct named){.out = core->copies->named};
    name_all(core, &named);
    CHECK(named.count == counted);
    if (core->disk_full) {
        MARK(collects_on_full_disk);
    }
    MARK(collects);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_COLLECT);
    effect->u.collect.idle_s = core->disk_full ? CORE_COLLECT_FULL_IDLE_S : CORE_COLLECT_IDLE_S;
    effect->bytes = core->copies->named;
    effect->byte_count = core->copies->named_bytes;
}

void core_collection_housekeep(struct node_core *core)
{
    forget_named(core);
    ask_due(core);
    if (core->now_ms < core->copies->retention_ms || core->members->syncing || core->leaving) {
        return;
    }
    core->copies->retention_ms = core->now_ms + CORE_RETENTION_MS;
    drop_old(core);
    bool may = may_collect(core);
    for (uint32_t i = 0; i < core->view.experiment_count; i++) {
        struct view_experiment *experiment = core->view.experiments[i];
        if (!experiment->known) {
            continue;
        }
        retention_mark(experiment);
        if (may) {
            let_go_of_experiment(core, experiment);
        }
    }
    uint64_t every_ms = core->disk_full ? CORE_COLLECT_FULL_MS : CORE_COLLECT_MS;
    if (may && core->now_ms - core->started_ms >= every_ms && core->now_ms >= core->copies->collect_ms) {
        core->copies->collect_ms = core->now_ms + every_ms;
        collect(core);
    }
}

/* Copies of the files that workers leave (DESIGN 10).
 *
 * An output is the blob of all kept files of one worker. Copies are made as for checkpoints (checkpoints.c): the first nodes in
 * rendezvous order of the trial, others in place of nodes that refuse, and the record once the copies are there. Two rules are
 * the outputs' own:
 *
 *   places   A worker's records alternate between two keys. A new output goes to the key without the newest durable one, so
 *            that the death of one node never takes the only output. The output after the end of the worker has a key of its
 *            own.
 *   united   With keep_ranks: all, an attempt begins with the files of all workers of an earlier attempt. Files of rank 0 may
 *            name files of other ranks (the metadata of a sharded checkpoint), which were written before. So each other
 *            worker's record says `after`: the newest sequence of rank 0 that its node knew before it looked at its files.
 *            Rank 0's output s is used together with outputs of `after` >= s: these hold everything that happened before. */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/collection.h"
#include "node/core/copies/outputs.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/members.h"
#include "node/core/view/retention.h"

#define PLACE_FINAL 2

/* ---- which outputs are there --------------------------------------------------------------------------------------- */

static const struct view_trial *trial_of(const struct node_core *core, const attempt_id *attempt)
{
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    return experiment != NULL ? view_find_trial(experiment, attempt->trial) : NULL;
}

static bool is_usable(const struct node_core *core, const struct view_output *row)
{
    for (uint32_t i = 0; i < row->fact.holder_count; i++) {
        if (core_node_alive(core, row->fact.holders[i]) && !core_copy_is_missing(core, row->fact.blob, row->fact.holders[i])) {
            return true;
        }
    }
    return false;
}

static bool is_newer(const struct view_output *a, const struct view_output *b)
{
    return b == NULL || a->fact.generation > b->fact.generation ||
           (a->fact.generation == b->fact.generation && a->fact.sequence > b->fact.sequence);
}

bool core_outputs_may_return(const struct node_core *core, const struct view_trial *trial)
{
    const struct view_output *usable = NULL;
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        bool is_of_newest = usable == NULL || attempt_id_equal(&usable->attempt, &row->attempt);
        bool is_good = is_of_newest && is_usable(core, row) && view_trial_continues(trial, &row->attempt);
        usable = is_good && is_newer(row, usable) ? row : usable;
    }
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        bool is_later = usable == NULL || (attempt_id_equal(&usable->attempt, &row->attempt)
                                               ? is_newer(row, usable)
                                               : attempt_id_compare_order(&row->attempt, &usable->attempt) > 0);
        is_later = is_later && view_trial_continues(trial, &row->attempt);
        for (uint32_t i = 0; is_later && i < row->fact.holder_count; i++) {
            const struct core_peer *peer = core_find_peer(core, row->fact.holders[i]);
            if (peer != NULL && peer->state == SWIM_DEAD && core->now_ms - peer->died_ms < CORE_REFUTE_MS &&
                !core_copy_is_missing(core, row->fact.blob, row->fact.holders[i])) {
                return true;
            }
        }
    }
    return false;
}

/* The number of the worker that is rank 0 of the attempt now. */
static uint32_t first_number(const struct view_attempt *attempt)
{
    return attempt->member_count > 0 ? attempt->members[0].number : 0;
}

/* The newest usable output of the attempt's worker with `after` at least `after`; any worker with is_any. `older_than`: not so
 * new as this output; NULL: no bound. */
static const struct view_output *newest_of(const struct node_core *core, const struct view_trial *trial,
                                           const attempt_id *attempt, bool is_any, uint32_t number, uint64_t after,
                                           const struct view_output *older_than)
{
    const struct view_output *newest = NULL;
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        bool is_asked = attempt_id_equal(&row->attempt, attempt) && (is_any || row->number == number) &&
                        row->fact.after >= after;
        if (is_asked && is_usable(core, row) && is_newer(row, newest) && (older_than == NULL || is_newer(older_than, row))) {
            newest = row;
        }
    }
    return newest;
}

/* With keep_ranks: all. Returns 0 if the attempt has no outputs that belong together. */
static uint32_t choose_united(const struct node_core *core, const struct view_trial *trial, const struct view_attempt *attempt,
                              const struct view_output *out[FACT_OUTPUTS_MAX])
{
    const struct view_output *first = NULL;
    do {
        first = newest_of(core, trial, &attempt->id, false, first_number(attempt), 0, first);
        uint32_t count = 0;
        for (uint32_t rank = 0; first != NULL && rank < attempt->member_count && rank < FACT_OUTPUTS_MAX; rank++) {
            bool is_torn = BUG(outputs_torn, "the outputs of an attempt's workers belong together");
            uint64_t after = is_torn ? 0 : first->fact.sequence;
            const struct view_output *row =
                rank == 0 ? first : newest_of(core, trial, &attempt->id, false, attempt->members[rank].number, after, NULL);
            if (row == NULL) {
                break;
            }
            out[count++] = row;
        }
        if (first != NULL && count == attempt->member_count) {
            return count;
        }
    } while (first != NULL);
    return 0;
}

uint32_t core_outputs_choose(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_trial *trial, const struct view_output *out[FACT_OUTPUTS_MAX])
{
    const attempt_id *last = NULL;
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        if (last != NULL && attempt_id_equal(last, &row->attempt)) {
            continue; /* the attempt was looked at */
        }
        last = &row->attempt;
        if (!view_trial_continues(trial, last)) {
            continue;
        }
        const struct view_attempt *attempt = view_find_attempt(&core->view, last);
        bool is_united = experiment->config->keep_ranks == CONFIG_KEEP_ALL && attempt != NULL && attempt->member_count > 1;
        uint32_t count = 0;
        if (is_united) {
            count = choose_united(core, trial, attempt, out);
        } else {
            out[0] = newest_of(core, trial, last, true, 0, 0, NULL);
            count = out[0] != NULL;
        }
        if (count > 0) {
            return count;
        }
    }
    return 0;
}

uint32_t core_outputs_holders(const struct node_core *core, const struct view_trial *trial, const struct view_output *output,
                              node_id out[FACT_HOLDERS_MAX])
{
    uint32_t count = 0;
    for (int turn = 0; turn < 2; turn++) {
        for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
            for (uint32_t i = 0; hash256_equal(row->fact.blob, output->fact.blob) && i < row->fact.holder_count; i++) {
                bool is_good = core_node_alive(core, row->fact.holders[i]) &&
                               !core_copy_is_doubtful(core, row->fact.blob, row->fact.holders[i]);
                if (is_good == (turn == 0) && count < FACT_HOLDERS_MAX && !copies_list_has(out, count, row->fact.holders[i])) {
                    out[count++] = row->fact.holders[i];
                }
            }
        }
    }
    return count;
}

uint64_t core_outputs_sequence(const struct node_core *core, const attempt_id *attempt)
{
    const struct view_trial *trial = trial_of(core, attempt);
    const struct view_attempt *row_of = view_find_attempt(&core->view, attempt);
    uint64_t sequence = 0;
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        bool is_first = row_of != NULL && row->number == first_number(row_of) && attempt_id_equal(&row->attempt, attempt);
        sequence = is_first && row->fact.sequence > sequence ? row->fact.sequence : sequence;
    }
    return sequence;
}

static bool has_ended(const struct view_attempt *attempt, uint32_t rank)
{
    const struct view_worker *worker = view_attempt_worker(attempt, rank);
    return worker != NULL && worker->state == FACT_WORKER_ENDED;
}

bool core_outputs_are_united(const struct node_core *core, const attempt_id *attempt, uint64_t sequence)
{
    const struct view_trial *trial = trial_of(core, attempt);
    const struct view_attempt *of = view_find_attempt(&core->view, attempt);
    for (uint32_t rank = 1; of != NULL && trial != NULL && rank < of->member_count; rank++) {
        bool is_after = has_ended(of, rank);
        for (const struct view_output *row = trial->outputs; row != NULL && !is_after; row = row->next) {
            is_after = row->number == of->members[rank].number && row->fact.after >= sequence &&
                       attempt_id_equal(&row->attempt, attempt);
        }
        if (!is_after) {
            return false;
        }
    }
    return true;
}

/* ---- pushes -------------------------------------------------------------------------------------------------------- */

static struct core_output *find_push(const struct node_core *core, hash256 blob)
{
    struct core_output *output = core->copies->outputs;
    while (output != NULL && !hash256_equal(output->push.blob, blob)) {
        output = output->next;
    }
    return output;
}

static void drop(struct node_core *core, struct core_output *output)
{
    struct core_output **link = &core->copies->outputs;
    while (*link != output) {
        link = &(*link)->next;
    }
    *link = output->next;
    arena_give(&core->arena, output, sizeof *output);
}

static void tell_done(struct node_core *core, const struct core_output *output)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_OUTPUT_DONE);
    effect->u.worker.slot = output->push.slot;
    effect->u.worker.attempt = output->push.attempt;
    effect->u.worker.number = output->number;
    effect->u.worker.step = output->fact.sequence;
}

/* False: there is no memory for the record. */
static bool publish(struct node_core *core, struct core_output *output)
{
    struct fact_output fact = output->fact;
    fact.holder_count = output->push.holder_count;
    memcpy(fact.holders, output->push.holders, sizeof fact.holders);
    fact.durable = fact.holder_count >= output->push.wanted;
    uint8_t bytes[FACT_HOLDERS_MAX * 32 + 192 + FACT_SAVED_NAME_BYTES + 32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_output_pack(&writer, &fact);
    bool is_published;
    (void)core_try_put(core, FACT_OUTPUT, fact_key_output(&output->push.attempt, output->number, output->place), &writer,
                       &is_published);
    return is_published || core->is_out || core->leaving;
}

/* Publishes a push that is over, and drops it. Without memory it stays. */
static void end(struct node_core *core, struct core_output *output)
{
    bool is_repair = output->push.kind == CORE_PUSH_REPAIR;
    if (is_repair && !output->push.has_copied) {
        drop(core, output);
    } else if (publish(core, output)) {
        if (!is_repair) {
            tell_done(core, output);
        }
        drop(core, output);
    }
}

/* The place of this node's next output of the worker: not that of its newest durable one. */
static uint32_t next_place(const struct node_core *core, const struct view_trial *trial, const attempt_id *attempt,
                           uint32_t number)
{
    const struct view_output *best = NULL;
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        bool is_own = row->number == number && row->place != PLACE_FINAL && attempt_id_equal(&row->attempt, attempt) &&
                      node_id_equal(row->writer, core->options.self);
        bool is_better = best == NULL || (row->fact.durable != best->fact.durable ? row->fact.durable
                                                                                  : row->fact.sequence > best->fact.sequence);
        best = is_own && is_better ? row : best;
    }
    if (BUG(durable_output_replaced, "an output without copies does not replace the last durable one")) {
        return 0;
    }
    return best != NULL ? 1 - best->place : 0;
}

/* 1 more than the highest sequence of the attempt that is known. */
static uint64_t next_sequence(const struct node_core *core, const struct view_trial *trial, const attempt_id *attempt)
{
    uint64_t highest = 0;
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        if (attempt_id_equal(&row->attempt, attempt) && row->fact.sequence > highest) {
            highest = row->fact.sequence;
        }
    }
    for (const struct core_output *output = core->copies->outputs; output != NULL; output = output->next) {
        if (attempt_id_equal(&output->push.attempt, attempt) && output->fact.sequence > highest) {
            highest = output->fact.sequence;
        }
    }
    return highest + 1;
}

/* Answers name the push by attempt, blob and step: workers of one attempt may leave equal blobs. */
static uint64_t push_step(uint32_t number, uint64_t sequence)
{
    return (uint64_t)number << 48 ^ sequence;
}

void core_outputs_left(struct node_core *core, const struct node_event *event)
{
    const attempt_id *attempt = &event->u.output.attempt;
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    const struct view_trial *trial = trial_of(core, attempt);
    const struct view_attempt *of = view_find_attempt(&core->view, attempt);
    struct core_output left = {.number = event->u.output.number,
                               .fact = {.saved = event->u.output.saved,
                                        .blob = event->u.output.blob,
                                        .bytes = event->u.output.bytes,
                                        .files = event->u.output.files,
                                        .generation = of != NULL ? of->generation : 1,
                                        .sequence = next_sequence(core, trial, attempt),
                                        .after = event->u.output.after,
                                        .is_final = event->u.output.is_final}};
    left.place = left.fact.is_final ? PLACE_FINAL : next_place(core, trial, attempt, left.number);
    left.push.kind = CORE_PUSH_SAVE;
    left.push.attempt = *attempt;
    left.push.slot = event->u.output.slot;
    left.push.step = push_step(left.number, left.fact.sequence);
    left.push.blob = left.fact.blob;
    left.push.bytes = left.fact.bytes;
    left.push.wanted = experiment != NULL && experiment->known ? experiment->config->checkpoint_replicas : 2;
    left.push.holders[0] = core->options.self;
    left.push.holder_count = 1;
    left.push.asked[0] = core->options.self;
    left.push.asked_count = 1;
    if (view_is_deleted(&core->view, attempt->experiment)) {
        tell_done(core, &left);
        return;
    }
    struct core_output *output = arena_take(&core->arena, sizeof *output);
    if (output == NULL) {
        core->counters.full++;
        (void)publish(core, &left); /* a repair makes the copies, once there is memory */
        tell_done(core, &left);
        return;
    }
    *output = left;
    output->next = core->copies->outputs;
    core->copies->outputs = output;
    if (copies_push_advance(core, &output->push) != ADVANCED_WAITS) {
        end(core, output);
    }
}

bool core_outputs_pushed(struct node_core *core, const struct node_event *event)
{
    for (struct core_output *output = core->copies->outputs; output != NULL; output = output->next) {
        if (!copies_push_answers(&output->push, event)) {
            continue;
        }
        if (event->u.blob.ok && output->push.holder_count < FACT_HOLDERS_MAX) {
            output->push.holders[output->push.holder_count++] = event->u.blob.node;
            output->push.has_copied = true;
        }
        if (copies_push_advance(core, &output->push) != ADVANCED_WAITS) {
            end(core, output);
        }
        return true;
    }
    return false;
}

void core_outputs_ended(struct node_core *core, const attempt_id *attempt)
{
    for (struct core_output *output = core->copies->outputs; output != NULL; output = output->next) {
        if (output->push.kind == CORE_PUSH_SAVE && attempt_id_equal(&output->push.attempt, attempt)) {
            (void)publish(core, output);
        }
    }
}

void core_outputs_housekeep(struct node_core *core)
{
    for (struct core_output *output = core->copies->outputs, *next; output != NULL; output = next) {
        next = output->next;
        if (output->push.waiting_count == 0 && core_has_room(core, 8, 1u << 14)) {
            end(core, output);
        }
    }
}

void core_outputs_forget(struct node_core *core, experiment_id experiment)
{
    for (struct core_output *output = core->copies->outputs, *next; output != NULL; output = next) {
        next = output->next;
        if (experiment_id_equal(output->push.attempt.experiment, experiment)) {
            drop(core, output); /* answers still to come are ignored */
        }
    }
}

/* ---- repair -------------------------------------------------------------------------------------------------------- */

/* The good holder with the smallest id copies an output with too few good copies to more nodes, and publishes a record of its
 * own. */
static void repair(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                   const struct view_output *row)
{
    struct core_output repair = {.number = row->number, .place = row->place, .fact = row->fact};
    struct core_push *push = &repair.push;
    push->kind = CORE_PUSH_REPAIR;
    push->attempt = row->attempt;
    push->step = push_step(row->number, row->fact.sequence);
    push->blob = row->fact.blob;
    push->bytes = row->fact.bytes;
    push->wanted = experiment->config->checkpoint_replicas;
    node_id holders[FACT_HOLDERS_MAX];
    uint32_t count = core_outputs_holders(core, trial, row, holders);
    bool is_mine = true;
    for (uint32_t i = 0; i < count; i++) {
        if (core_node_alive(core, holders[i]) && !core_copy_is_doubtful(core, push->blob, holders[i])) {
            push->holders[push->holder_count++] = holders[i];
            push->asked[push->asked_count++] = holders[i];
            is_mine &= node_id_compare(core->options.self, holders[i]) <= 0;
        }
    }
    is_mine &= copies_list_has(push->holders, push->holder_count, core->options.self);
    if (!is_mine || push->holder_count >= push->wanted || find_push(core, push->blob) != NULL) {
        return;
    }
    struct core_output *output = arena_take(&core->arena, sizeof *output);
    if (output == NULL) {
        core->counters.full++;
        return;
    }
    *output = repair;
    output->next = core->copies->outputs;
    core->copies->outputs = output;
    if (copies_push_advance(core, &output->push) != ADVANCED_WAITS) {
        end(core, output);
    }
}

void core_outputs_repair(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                         bool is_over)
{
    const struct view_output *chosen[FACT_OUTPUTS_MAX];
    bool is_wanted = retention_trial_lives(experiment, trial, is_over) || retention_keeps_outputs(experiment);
    uint32_t count = is_wanted ? core_outputs_choose(core, experiment, trial, chosen) : 0;
    for (uint32_t i = 0; i < count && core_has_room(core, 64, 1u << 16); i++) {
        repair(core, experiment, trial, chosen[i]);
    }
}

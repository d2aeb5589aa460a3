#include "tests/sim/outputs.h"

#include <string.h>

#include "base/check.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"

#define TAKEN_PERMILLE 250 /* of the steps */
#define KNOW_MS 1000       /* how often a node is asked what it knows */
#define BLOBS_SHARE 4      /* outputs are a part of all blobs at most */

static hash256 blob_of(const attempt_id *attempt, uint32_t number, uint64_t step, uint64_t serial)
{
    hash256 hash;
    for (uint64_t i = 0; i < 4; i++) {
        uint64_t word = bytes_hash64(attempt->experiment.bytes, sizeof attempt->experiment.bytes, step * 8 + i);
        word = random_mix(word ^ ((uint64_t)attempt->trial << 32 | attempt->number) ^ random_mix(attempt->term + serial));
        word ^= bytes_hash64(attempt->coordinator.bytes, sizeof attempt->coordinator.bytes, i + number * 16 + 77);
        bytes_put_u64(hash.bytes + 8 * i, word);
    }
    return hash;
}

static bool keeps_all(const struct sim *sim, const attempt_id *attempt)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        if (experiment_id_equal(sim->plan.experiments[i].id, attempt->experiment)) {
            return sim->plan.experiments[i].keeps_all;
        }
    }
    return false;
}

void outputs_take(struct sim *sim, int node, uint32_t slot, uint64_t step, bool is_final)
{
    struct worker_process *process = &sim->nodes[node].processes[slot];
    if (sim->plan.version < 11 || process->is_elastic || !sim_daemon_up(sim, node) || sim_paused(sim, node) ||
        sim->nodes[node].disk.is_full || sim->blobs.count > BLOBS_MAX / 2 / BLOBS_SHARE) {
        return;
    }
    struct node_core *core = sim->nodes[node].core;
    bool is_united = keeps_all(sim, &process->attempt), is_known = node_core_find_token(core, process->token) == (int)slot;
    if (!is_known || (!is_united && process->rank != 0)) {
        return;
    }
    bool waits = process->output_waits || (is_united && process->rank == 0 && process->output_sequence != 0 &&
                                           !node_core_output_is_united(core, &process->attempt, process->output_sequence));
    if (!is_final && (waits || !sim_chance(&sim->random[STREAM_COPIES], TAKEN_PERMILLE))) {
        return;
    }
    hash256 blob = blob_of(&process->attempt, process->number, step, ++sim->output_serial);
    blobs_put(sim, blob, node, false, step);
    blobs_find(sim, blob)->attempt = process->attempt;
    blobs_find(sim, blob)->is_output = true;
    process->output_waits = true;
    SIM_TRACE(sim, node, "slot %u: the files of trial %u rank %u at step %llu%s", slot, process->attempt.trial, process->rank,
              (unsigned long long)step, is_final ? ", its last" : "");
    struct node_event event = {.kind = NODE_EVENT_OUTPUT};
    event.u.output.slot = slot;
    event.u.output.attempt = process->attempt;
    event.u.output.number = process->number;
    event.u.output.blob = blob;
    event.u.output.bytes = 1000;
    event.u.output.files = 1;
    event.u.output.after = is_final ? UINT64_MAX : process->rank == 0 ? 0 : node_core_output_sequence(core, &process->attempt);
    event.u.output.is_final = is_final;
    sim_step(sim, node, &event);
}

static uint32_t holders_of(const struct sim *sim, const struct view_output *row)
{
    uint32_t holders = 0;
    for (uint32_t i = 0; i < row->fact.holder_count; i++) {
        int holder = sim_find_node(sim, row->fact.holders[i]);
        holders |= holder >= 0 ? 1u << holder : 0;
    }
    return holders;
}

void outputs_done(struct sim *sim, int node, const struct node_effect *effect)
{
    struct worker_process *process = &sim->nodes[node].processes[effect->u.worker.slot];
    if (attempt_id_equal(&process->attempt, &effect->u.worker.attempt)) {
        process->output_waits = false;
        process->output_sequence = effect->u.worker.step;
    }
    struct node_core *core = sim->nodes[node].core;
    const struct view_experiment *experiment = view_find_experiment(&core->view, effect->u.worker.attempt.experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, effect->u.worker.attempt.trial) : NULL;
    for (const struct view_output *row = trial != NULL ? trial->outputs : NULL; row != NULL; row = row->next) {
        if (row->fact.durable && row->fact.sequence == effect->u.worker.step && row->number == effect->u.worker.number &&
            attempt_id_equal(&row->attempt, &effect->u.worker.attempt) && sim->left_count < SIM_LEFT_MAX) {
            sim->left[sim->left_count++] = (struct sim_left){.attempt = row->attempt,
                                                             .blob = row->fact.blob,
                                                             .sequence = row->fact.sequence,
                                                             .holders = holders_of(sim, row)};
            return;
        }
    }
}

/* True if the output `a` is older than what an attempt begins with. */
static bool is_older(const attempt_id *attempt, uint64_t sequence, const struct view_output *begun)
{
    int order = attempt_id_compare_order(attempt, &begun->attempt);
    return order < 0 || (order == 0 && sequence <= begun->fact.sequence);
}

static const struct view_output *find_row(const struct view_trial *trial, hash256 blob)
{
    const struct view_output *row = trial != NULL ? trial->outputs : NULL;
    while (row != NULL && !hash256_equal(row->fact.blob, blob)) {
        row = row->next;
    }
    return row;
}

/* A copy there that was never struck, of a machine that this node takes for alive. */
static bool is_within_reach(struct sim *sim, int node, const struct view_output *row)
{
    const struct sim_blob *blob = blobs_find(sim, row->fact.blob);
    for (uint32_t i = 0; blob != NULL && i < row->fact.holder_count; i++) {
        int holder = sim_find_node(sim, row->fact.holders[i]);
        bool is_reachable = node_id_equal(row->fact.holders[i], sim->nodes[node].id) ||
                            swim_state_of(&sim->nodes[node].core->members->swim, row->fact.holders[i]) == SWIM_ALIVE;
        if (is_reachable && holder >= 0 && !sim->nodes[holder].is_twin && ((blob->holders & ~blob->struck) >> holder & 1) != 0) {
            return true;
        }
    }
    return false;
}

/* With keep_ranks first: of all outputs that this node knows, the newest one within reach. */
static void check_newest(struct sim *sim, int node, const struct view_trial *trial, const attempt_id *attempt,
                         const struct fact_attempt *fact)
{
    const struct view_output *begun = fact->beginning_count > 0 ? find_row(trial, fact->beginnings[0].blob) : NULL;
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        if (is_within_reach(sim, node, row) && checkers_has_values(trial, &row->attempt) && (begun == NULL || !is_older(&row->attempt, row->fact.sequence, begun))) {
            sim_fail(sim, 11, "n%d starts attempt %u of trial %u without the files of attempt %u, sequence %llu, which are there",
                     node, attempt->number, attempt->trial, row->attempt.number, (unsigned long long)row->fact.sequence);
        }
    }
}

/* True if the node knows later files of the trial that have been durable, too: their record may stand in the place of the
 * earlier one's, wherever the copies are. */
static bool is_superseded(const struct view_trial *trial, const struct sim_left *left)
{
    for (const struct view_output *row = trial->outputs; row != NULL; row = row->next) {
        int order = attempt_id_compare_order(&row->attempt, &left->attempt);
        if (row->fact.durable && (order > 0 || (order == 0 && row->fact.sequence > left->sequence))) {
            return true;
        }
    }
    return false;
}

/* What a node has acknowledged as durable is not lost with one of its holders: a node that knew of it for a while begins with it,
 * or with later files. A holder counts where the node's own records name it. */
static void check_durable(struct sim *sim, int node, const struct view_trial *trial, const attempt_id *attempt,
                          const struct fact_attempt *fact)
{
    const struct view_output *begun = fact->beginning_count > 0 ? find_row(trial, fact->beginnings[0].blob) : NULL;
    for (uint32_t i = 0; i < sim->left_count; i++) {
        const struct sim_left *left = &sim->left[i];
        const struct sim_blob *blob = blobs_find(sim, left->blob);
        const struct view_output *row = find_row(trial, left->blob);
        bool is_of_trial = experiment_id_equal(left->attempt.experiment, attempt->experiment) && left->attempt.trial == attempt->trial;
        if (!is_of_trial || left->known[node] == 0 || left->known[node] != sim->nodes[node].life || blob->struck != 0 ||
            (trial != NULL && !checkers_has_values(trial, &left->attempt))) {
            continue;
        }
        bool is_lost = row == NULL ? !is_superseded(trial, left) : is_within_reach(sim, node, row);
        if (is_lost && (begun == NULL || !is_older(&left->attempt, left->sequence, begun))) {
            sim_fail(sim, 3, "n%d starts attempt %u of trial %u, but durable files of attempt %u, sequence %llu, are lost to it", node,
                     attempt->number, attempt->trial, left->attempt.number, (unsigned long long)left->sequence);
            return;
        }
    }
}

/* Rank 0's files name those of all ranks up to its step. */
static void check_united(struct sim *sim, int node, const attempt_id *attempt, const struct fact_attempt *fact)
{
    const struct sim_blob *first = blobs_find(sim, fact->beginnings[0].blob);
    for (uint32_t i = 1; i < fact->beginning_count; i++) {
        const struct sim_blob *blob = blobs_find(sim, fact->beginnings[i].blob);
        if (blob->step < first->step) {
            sim_fail(sim, 11, "n%d starts attempt %u of trial %u with files of rank 0 at step %llu, and of rank %u at step %llu", node,
                     attempt->number, attempt->trial, (unsigned long long)first->step, i, (unsigned long long)blob->step);
        }
    }
}

void outputs_know(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    if (core == NULL || sim->left_count == 0 || node >= (int)sim->plan.node_count || sim->now_ms < sim->left_seen_ms[node] + KNOW_MS) {
        return;
    }
    sim->left_seen_ms[node] = sim->now_ms;
    for (uint32_t i = 0; i < sim->left_count; i++) {
        struct sim_left *left = &sim->left[i];
        const struct view_experiment *experiment = view_find_experiment(&core->view, left->attempt.experiment);
        const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, left->attempt.trial) : NULL;
        const struct view_output *row = trial != NULL ? find_row(trial, left->blob) : NULL;
        if (row != NULL && row->fact.durable) {
            left->known[node] = sim->nodes[node].life;
        }
    }
}

void outputs_check_beginning(struct sim *sim, int node, const struct record *record, const attempt_id *attempt)
{
    const struct node_core *core = sim->nodes[node].core;
    const struct view_experiment *experiment = view_find_experiment(&core->view, attempt->experiment);
    const struct view_trial *trial = experiment != NULL ? view_find_trial(experiment, attempt->trial) : NULL;
    static struct fact_attempt fact;
    if (sim->plan.version < 11 || trial == NULL || sim->plan.has[FAULT_CLONE] || fact_attempt_read(record, &fact) != 0) {
        return;
    }
    if (keeps_all(sim, attempt)) {
        if (fact.beginning_count > 0) {
            check_united(sim, node, attempt, &fact);
        }
    } else {
        check_newest(sim, node, trial, attempt, &fact);
        check_durable(sim, node, trial, attempt, &fact);
    }
    if (fact.beginning_count > 0) {
        checkers_met(sim, fact.beginning_count > 1 ? PREMISE_11_UNITED : PREMISE_11_FILES);
    }
}

/* Invariant 3 of pauses and resumes. They are registers: the latest lamport counts, of concurrent ones a pause (DESIGN 5). So
 * an acknowledged one is the last word only until another that its writer knew of, or did not know of, has as high a
 * lamport. */

#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

#define SPREAD_MS 5500 /* "within 5 s", and one commit */

static bool disk_holds(struct sim *sim, int node, const struct users_control *control)
{
    return checkers_is_on_disk(sim, node, control->ident, control->version);
}

void checkers_on_control(struct sim *sim, int node, uint32_t experiment, struct users_control *control)
{
    struct fact_key key = fact_key_experiment(sim->plan.experiments[experiment].id);
    control->writer = sim->nodes[node].id;
    control->ident = record_ident_of(control->writer, FACT_CONTROL, key.bytes, key.count);
    const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, control->ident);
    struct record record;
    struct fact_control fact;
    if (view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id) ||
        checkers_disks_with(sim, experiment, FACT_TOMBSTONE) != 0) {
        control->promise.is_acknowledged = false; /* the tombstone speaks for it */
        return;
    }
    if (entry == NULL || !entry->is_stored || record_decode(entry->bytes, entry->byte_count, &record) != 0 ||
        fact_control_read(&record, &fact) != 0) {
        sim_fail(sim, 3, "n%d says that its %s of experiment %u is stored; it is not on its own disk", node,
                 control->pauses ? "pause" : "resume", experiment);
        return;
    }
    /* If it wrote another one meanwhile, that has a number of its own. */
    control->version = record.version;
    control->lamport = fact.lamport;
    control->pauses = fact.paused;
    for (int other = 0; other < (int)sim->machines; other++) {
        control->promise.disks |= disk_holds(sim, other, control) ? 1u << other : 0;
    }
    uint32_t disks = (uint32_t)__builtin_popcount(control->promise.disks);
    if (disks + checkers_disks_lost_since(sim, &control->promise) < control->promise.stored_on &&
        control->number == sim->users->experiments[experiment].controls) {
        sim_fail(sim, 3, "n%d says that the %s of experiment %u is stored on %u nodes; it is on %u disks", node,
                 control->pauses ? "pause" : "resume", experiment, control->promise.stored_on, disks);
    }
}

void checkers_control_lost(struct sim *sim, int node, uint32_t experiment)
{
    struct users_control *control = &sim->users->experiments[experiment].control;
    control->promise.disks &= disk_holds(sim, node, control) ? UINT32_MAX : ~(1u << node);
}

/* Nothing that this node knows of comes after it, or stands beside it and wins. */
static bool is_last_word(const struct view_experiment *seen, const struct users_control *control)
{
    for (const struct view_control *row = seen->controls; row != NULL; row = row->next) {
        bool is_other = !row->is_cancel && !node_id_equal(row->writer, control->writer);
        bool wins = row->fact.lamport == control->lamport && row->fact.paused && !control->pauses;
        if (is_other && (row->fact.lamport > control->lamport || wins)) {
            return false;
        }
    }
    return true;
}

void checkers_control_kept(struct sim *sim, int node, uint32_t e, bool must_know)
{
    const struct users_experiment *oracle = &sim->users->experiments[e];
    const struct users_control *control = &oracle->control;
    const struct node_core *core = sim->nodes[node].core;
    if (!control->promise.is_acknowledged || view_is_deleted(&core->view, sim->plan.experiments[e].id)) {
        return;
    }
    const struct view_experiment *seen = view_find_experiment(&core->view, sim->plan.experiments[e].id);
    const struct records_entry *held = records_find(&core->records, control->ident);
    if (must_know) {
        checkers_met(sim, control->pauses ? PREMISE_3_PAUSE_SPREAD : PREMISE_3_RESUME_SPREAD);
    }
    if (held == NULL || record_version_compare(held->record.version, control->version) < 0 || seen == NULL) {
        if (must_know) {
            sim_fail(sim, 3, "n%d does not know of the %s of experiment %u, acknowledged by n%d %llu ms ago", node,
                     control->pauses ? "pause" : "resume", e, sim_find_node(sim, control->writer),
                     (unsigned long long)(sim->now_ms - control->promise.at_ms));
        }
        return;
    }
    /* Its writer knew of all that were ever written, and none was written since: then no other is as high. Else what the node
     * has says which counts, unless the writer itself has said something else since. */
    bool is_last = control->number == oracle->controls && control->lamport == control->number;
    bool is_same = record_version_compare(held->record.version, control->version) == 0;
    if (!is_last && (!is_same || !is_last_word(seen, control))) {
        return;
    }
    checkers_met(sim, control->pauses ? PREMISE_3_PAUSED : PREMISE_3_RESUMED);
    if (view_experiment_paused(seen) != control->pauses ||
        (view_experiment_state(seen) == VIEW_PAUSED && !control->pauses)) {
        sim_fail(sim, 3, "n%d shows experiment %u as %s, though the last word about it is a %s", node, e,
                 view_experiment_state_name(view_experiment_state(seen)), control->pauses ? "pause" : "resume");
    }
}

static bool is_itself(const struct sim *sim, int node)
{
    const struct sim_node *self = &sim->nodes[node];
    return sim_runs(sim, node) && !self->is_twin && !self->is_evicted && !self->leaves;
}

/* All who run see each other, and have been left alone for a while. */
static bool are_together(const struct sim *sim)
{
    if (sim->plan.blurs_time || sim->now_ms < sim->shaken_until_ms + CALM_MS) {
        return false;
    }
    for (int a = 0; a < (int)sim->plan.node_count; a++) {
        for (int b = 0; is_itself(sim, a) && b < (int)sim->plan.node_count; b++) {
            if (a != b && is_itself(sim, b) &&
                swim_state_of(&sim->nodes[a].core->members->swim, sim->nodes[b].id) != SWIM_ALIVE) {
                return false;
            }
        }
    }
    return true;
}

void checkers_controls(struct sim *sim)
{
    bool has_any = false;
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        has_any |= sim->users->experiments[e].control.promise.is_acknowledged;
    }
    if (!has_any) {
        return;
    }
    bool is_calm = are_together(sim);
    uint32_t there = 0; /* bits: nodes */
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        there |= is_itself(sim, node) ? 1u << node : 0;
    }
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        for (uint32_t e = 0; sim_runs(sim, node) && e < sim->plan.experiment_count; e++) {
            const struct users_promise *promise = &sim->users->experiments[e].control.promise;
            bool is_due = is_calm && (promise->disks & there) != 0 && (there >> node & 1) != 0 &&
                          sim->now_ms >= promise->at_ms + SPREAD_MS;
            checkers_control_kept(sim, node, e, is_due);
        }
    }
}

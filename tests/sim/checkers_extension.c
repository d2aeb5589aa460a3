/* Further trials that people ask for (3, 7, 10; plans of version 15): once known they are never forgotten, nobody makes them up, and what is
 * called stored is known to all at the end. */

#include "base/format.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

static bool disk_holds(const struct sim *sim, int node, uint32_t experiment)
{
    char number[16];
    format_text(number, sizeof number, "%u", sim->plan.experiments[experiment].trials_then);
    struct fact_key key = fact_key_annotation(sim->plan.experiments[experiment].id, FACT_MAX_TRIALS, number);
    for (uint32_t i = 0; i < 2 * sim->machines; i++) {
        const struct sim_node *writer = &sim->nodes[i / 2];
        record_ident ident = record_ident_of(i % 2 == 0 ? writer->id : writer->was, FACT_ANNOTATION, key.bytes, key.count);
        const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, ident);
        if (entry != NULL && entry->is_stored) {
            return true;
        }
    }
    return false;
}

static bool is_deleted(const struct sim *sim, int node, uint32_t experiment)
{
    return view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
}

/* How many trials the node knows of; 0: it does not know the experiment. */
static uint32_t known_at(const struct sim *sim, int node, uint32_t experiment)
{
    const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    return seen != NULL && seen->known ? seen->trial_count : 0;
}

void checkers_on_extension(struct sim *sim, int node, uint32_t experiment, struct users_promise *promise)
{
    if (checkers_disks_with(sim, experiment, FACT_TOMBSTONE) != 0 || is_deleted(sim, node, experiment)) {
        promise->is_acknowledged = false; /* the tombstone speaks for it */
        return;
    }
    for (int other = 0; other < (int)sim->machines; other++) {
        promise->disks |= disk_holds(sim, other, experiment) ? 1u << other : 0;
    }
    if (promise->stored_on >= 2) {
        checkers_met(sim, PREMISE_3_EXTENDED_ON_TWO);
    }
    uint32_t disks = (uint32_t)__builtin_popcount(promise->disks);
    if (promise->stored_on < 1 || disks + checkers_disks_lost_since(sim, promise) < promise->stored_on) {
        sim_fail(sim, 3, "n%d says that further trials of experiment %u are stored on %u nodes; they are on %u disks", node, experiment,
                 promise->stored_on, disks);
    }
}

void checkers_extension_lost(struct sim *sim, int node, uint32_t experiment)
{
    struct users_promise *promise = &sim->users->experiments[experiment].extended;
    promise->disks &= promise->is_acknowledged && disk_holds(sim, node, experiment) ? UINT32_MAX : ~(1u << node);
}

void checkers_extension_kept(struct sim *sim, int node, uint32_t experiment)
{
    const struct users_promise *promise = &sim->users->experiments[experiment].extended;
    bool is_due = promise->is_acknowledged && (promise->disks & sim->plan.core) != 0 && !is_deleted(sim, node, experiment);
    uint32_t known = known_at(sim, node, experiment);
    if (is_due && known != sim->plan.experiments[experiment].trials_then) {
        sim_fail(sim, 3, "n%d knows of %u trials of experiment %u; %u were acknowledged as stored on %u nodes", node, known, experiment,
                 sim->plan.experiments[experiment].trials_then, promise->stored_on);
    }
}

void checkers_extensions(struct sim *sim, int node)
{
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        const struct plan_experiment *plan = &sim->plan.experiments[e];
        uint32_t known = known_at(sim, node, e), *before = &sim->checkers->watch.trials[node][e];
        bool is_asked = plan->extend_ms != 0 && sim->now_ms >= plan->extend_ms;
        if (known != 0 && known != plan->trials && !(is_asked && known == plan->trials_then)) {
            sim_fail(sim, 10, "n%d knows of %u trials of experiment %u, and nobody has asked for so many", node, known, e);
        }
        if (known < *before && !is_deleted(sim, node, e)) {
            sim_fail(sim, 7, "n%d has forgotten trials of experiment %u: it knew of %u, and knows of %u", node, e, *before, known);
        }
        *before = is_deleted(sim, node, e) ? 0 : known;
        const struct view_experiment *seen = view_find_experiment(&sim->nodes[node].core->view, plan->id);
        for (uint32_t t = plan->trials; t < known; t++) {
            if (view_find_trial(seen, t) != NULL && view_find_trial(seen, t)->attempts != NULL) {
                checkers_met(sim, PREMISE_9_ADDED);
            }
        }
    }
}

#include "tests/sim/copies.h"

#include <string.h>

#include "base/check.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers.h"
#include "tests/sim/world.h"

#define MEND_SOON_MS 2000
#define MEND_AGAIN_MS 600000

uint32_t copies_good(const struct sim_blob *blob)
{
    return blob->holders & ~blob->rotten;
}

int copies_experiment(const struct sim *sim, const struct sim_blob *blob)
{
    for (uint32_t i = 0; i < sim->plan.experiment_count; i++) {
        const struct plan_experiment *experiment = &sim->plan.experiments[i];
        if (blob->is_code ? hash256_equal(experiment->code, blob->hash)
                          : experiment_id_equal(experiment->id, blob->attempt.experiment)) {
            return (int)i;
        }
    }
    return -1;
}

void copies_lost(struct sim *sim, struct sim_blob *blob, int node)
{
    blob->holders &= ~(1u << node);
    blob->rotten &= ~(1u << node);
    blob->struck |= 1u << node;
    blob->struck_ms[node] = sim->now_ms;
}

void copies_unknown(struct sim *sim, int node)
{
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        struct sim_blob *blob = &sim->blobs.all[i];
        blob->struck |= (blob->holders >> node & 1) == 0 ? 1u << node : 0;
    }
}

/* ---- garbage ---------------------------------------------------------------------------------------------------------- */

void copies_collect(struct sim *sim, int node, const struct node_effect *effect)
{
    if (sim->plan.version < 7) {
        return; /* disks are large enough there */
    }
    uint64_t delay_ms = sim_log_between(&sim->random[STREAM_COPIES], 5, 20000);
    uint32_t named_count = effect->byte_count / HASH_BYTES;
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, SIM_COLLECTS, node);
    struct copies_collection *collection =
        sim_payload(sim, event, (uint32_t)(sizeof *collection + named_count * sizeof collection->named[0]));
    uint64_t idle_s = (uint64_t)effect->u.collect.idle_s * sim->plan.idle_permille / 1000;
    collection->idle_s = (uint32_t)(idle_s > PLAN_IDLE_MIN_S ? idle_s : PLAN_IDLE_MIN_S);
    collection->life = sim->nodes[node].life;
    collection->is_full = sim->nodes[node].core->disk_full;
    collection->named_count = named_count;
    memcpy(collection->named, effect->bytes, effect->byte_count);
    checkers_on_listed(sim, node, collection->named, named_count);
}

static bool is_garbage(const struct sim *sim, int node, const struct sim_blob *blob,
                       const struct copies_collection *collection)
{
    uint64_t touched_ms = blob->touched_ms[node], opened_ms = sim->blobs.opened_ms[node];
    touched_ms = touched_ms > opened_ms ? touched_ms : opened_ms;
    if ((blob->holders >> node & 1) == 0 || sim->now_ms - touched_ms < collection->idle_s * 1000ull) {
        return false;
    }
    for (uint32_t i = 0; i < collection->named_count; i++) {
        if (hash256_equal(collection->named[i], blob->hash)) {
            return false;
        }
    }
    return true;
}

static void collects(struct sim *sim, int node, const struct copies_collection *collection)
{
    static struct sim_blob *garbage[BLOBS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        if (is_garbage(sim, node, &sim->blobs.all[i], collection)) {
            garbage[count++] = &sim->blobs.all[i];
        }
    }
    if (count == 0) {
        return;
    }
    SIM_TRACE(sim, node, "COLLECTS %u blobs%s", count, collection->is_full ? ", its disk is full" : "");
    checkers_on_collected(sim, node, garbage, count, collection->is_full);
    for (uint32_t i = 0; i < count; i++) {
        garbage[i]->holders &= ~(1u << node);
        garbage[i]->rotten &= ~(1u << node);
    }
}

/* ---- rot -------------------------------------------------------------------------------------------------------------- */

/* Of the code one good copy stays on a machine that is not lost: else nobody could go on, and nobody is to blame. */
static bool may_rot(const struct sim *sim, int node, const struct sim_blob *blob)
{
    return (copies_good(blob) >> node & 1) != 0 &&
           (!blob->is_code || (copies_good(blob) & sim->plan.core & ~(1u << node)) != 0);
}

static void push_rotten(struct sim *sim, int node, uint64_t delay_ms, enum sim_event_kind kind, hash256 hash)
{
    struct sim_event *event = sim_push(sim, sim->now_ms + delay_ms, kind, node);
    struct copies_rotten *rotten = sim_payload(sim, event, sizeof *rotten);
    rotten->hash = hash;
}

void copies_rot(struct sim *sim, int node, struct random *random)
{
    uint64_t found_ms = sim_log_between(random, 5000, 900000), pick = random_u64(random);
    uint32_t count = 0;
    for (uint32_t i = 0; i < BLOBS_MAX; i++) {
        count += may_rot(sim, node, &sim->blobs.all[i]);
    }
    if (count == 0) {
        return;
    }
    uint32_t left = (uint32_t)(pick % count), at = 0;
    while (!may_rot(sim, node, &sim->blobs.all[at]) || left-- > 0) {
        at++;
    }
    struct sim_blob *blob = &sim->blobs.all[at];
    SIM_TRACE(sim, node, "ROT: its copy of %s, step %llu", blob->is_code ? "some code" : "a checkpoint",
              (unsigned long long)blob->step);
    blob->rotten |= 1u << node;
    blob->struck |= 1u << node;
    blob->struck_ms[node] = sim->now_ms;
    push_rotten(sim, node, found_ms, SIM_SCRUB, blob->hash);
}

void copies_found_rotten(struct sim *sim, hash256 hash, int node)
{
    struct sim_blob *blob = blobs_find(sim, hash);
    CHECK(blob != NULL && (blob->rotten >> node & 1) != 0);
    SIM_TRACE(sim, node, "finds its copy of step %llu rotten", (unsigned long long)blob->step);
    copies_lost(sim, blob, node);
    checkers_on_rotten(sim);
    push_rotten(sim, node, MEND_SOON_MS, SIM_MEND, hash);
}

/* Machines that should have the checkpoint as this node believes, and it is one of them; or of the code, all others. */
static uint32_t sources(const struct sim *sim, int node, const struct sim_blob *blob)
{
    const struct node_core *core = sim->nodes[node].core;
    int index = copies_experiment(sim, blob);
    const struct view_experiment *experiment =
        index >= 0 ? view_find_experiment(&core->view, sim->plan.experiments[index].id) : NULL;
    if (experiment == NULL || !experiment->known) {
        return 0;
    }
    const struct view_trial *trial = blob->is_code ? NULL : view_find_trial(experiment, blob->attempt.trial);
    struct view_manifest checkpoint;
    uint32_t machines = 0;
    bool is_ours = blob->is_code;
    for (const struct view_manifest *row = trial != NULL ? trial->manifests : NULL;
         core_checkpoints_next(core, &row, &checkpoint);) {
        for (uint32_t i = 0; hash256_equal(checkpoint.blob, blob->hash) && i < checkpoint.holder_count; i++) {
            int holder = sim_find_node(sim, checkpoint.holders[i]);
            machines |= holder >= 0 ? 1u << holder : 0;
            is_ours |= node_id_equal(checkpoint.holders[i], sim->nodes[node].id);
        }
    }
    const struct view_set *set = trial != NULL && blob->parts > 0 ? view_find_set(trial, blob->set) : NULL;
    bool is_part = set != NULL && node_core_part(core, set, blob->part, &checkpoint);
    for (uint32_t i = 0; is_part && i < checkpoint.holder_count; i++) {
        int holder = sim_find_node(sim, checkpoint.holders[i]);
        machines |= holder >= 0 ? 1u << holder : 0;
        is_ours |= node_id_equal(checkpoint.holders[i], sim->nodes[node].id);
    }
    return blob->is_code ? UINT32_MAX : is_ours ? machines : 0;
}

static void mend(struct sim *sim, struct sim_event *event)
{
    const struct copies_rotten *rotten = event->payload;
    int node = event->node;
    if (sim->nodes[node].is_gone) {
        return;
    }
    if (!sim_runs(sim, node) || sim->nodes[node].core->members->syncing) {
        sim_again(sim, event, sim->now_ms + 30000); /* the scrub after the start comes upon it */
        return;
    }
    const struct sim_blob *blob = blobs_find(sim, rotten->hash);
    uint32_t from = sources(sim, node, blob);
    if (from == 0 || (blob->holders >> node & 1) != 0) {
        return;
    }
    if (sim->nodes[node].disk.is_full || !blobs_fetch(sim, rotten->hash, node, from & ~(1u << node))) {
        sim_again(sim, event, sim->now_ms + MEND_AGAIN_MS);
        return;
    }
    SIM_TRACE(sim, node, "MENDS its copy of step %llu", (unsigned long long)blob->step);
}

static void scrub(struct sim *sim, struct sim_event *event)
{
    const struct copies_rotten *rotten = event->payload;
    if (sim->nodes[event->node].is_gone) {
        return;
    }
    if (!sim_runs(sim, event->node)) {
        sim_again(sim, event, sim->now_ms + 30000);
        return;
    }
    if ((blobs_find(sim, rotten->hash)->rotten >> event->node & 1) != 0) {
        copies_found_rotten(sim, rotten->hash, event->node);
    }
}

void copies_event(struct sim *sim, struct sim_event *event)
{
    const struct copies_collection *collection = event->payload;
    int node = event->node;
    switch ((enum sim_event_kind)event->kind) {
    case SIM_SCRUB:
        scrub(sim, event);
        break;
    case SIM_MEND:
        mend(sim, event);
        break;
    default:
        CHECK(event->kind == SIM_COLLECTS);
        if (!sim_daemon_up(sim, node) || sim->nodes[node].life != collection->life) {
            break;
        }
        if (sim_paused(sim, node)) {
            sim_again(sim, event, sim->nodes[node].paused_until_ms);
            break;
        }
        collects(sim, node, collection);
        break;
    }
}

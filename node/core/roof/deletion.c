/* Experiments that are deleted (DESIGN 5, 10). A tombstone is an ordinary record, and kept for ever. As soon as a tombstone is
 * known, nothing of the experiment begins any more, and its workers are ended. Once the tombstone is on disk, and not before,
 * all other records of the experiment go: from the table, so from the digests too, and from the disk. Otherwise a crash in
 * between could leave half an experiment, and no tombstone to explain the gap.
 *
 * If one node has swept and another has not heard of the tombstone, the two differ in the tombstone itself. So their exchange
 * goes on until both have the tombstone. Then the second node sweeps too, and both hold the same records again. Until then the
 * first node takes no record of the experiment from the second. */

#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/owner/workers.h"
#include "node/core/roof/roof.h"

void deletion_known(struct node_core *core, experiment_id experiment)
{
    MARK(deletion_known);
    core_coordinator_forget(core, experiment);
    core_owner_end_deleted(core);
    core_checkpoints_forget(core, experiment);
}

void deletion_stored(struct node_core *core)
{
    if (core->view.tombstone_count == 0) {
        return;
    }
    core->intake->sweep_bucket = 0;
}

/* True once the tombstone of the smallest writer is on disk: another writer's tombstone, on disk before, sweeps nothing yet. */
static bool is_buried(const struct node_core *core, experiment_id experiment)
{
    const struct view_tombstone *tombstone = view_find_tombstone(&core->view, experiment);
    if (tombstone == NULL) {
        return false;
    }
    struct fact_key key = fact_key_experiment(experiment);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(tombstone->writer, FACT_TOMBSTONE, key.bytes, key.count));
    return entry != NULL && entry->on_disk;
}

static void forget_record(struct node_core *core, record_ident ident)
{
    MARK(buried_record_swept);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_FORGET_RECORD);
    effect->u.persist.key_bytes = sizeof ident.bytes;
    memcpy(effect->u.persist.key, ident.bytes, sizeof ident.bytes);
    (void)records_forget(&core->records, ident);
}

/* False when the step had no room for all effects. */
static bool sweep_bucket(struct node_core *core, uint32_t bucket)
{
    for (struct records_entry *entry = core->records.buckets[bucket], *next; entry != NULL; entry = next) {
        next = entry->next_in_bucket;
        experiment_id about;
        bool is_buried_here = fact_is_of_experiment(&entry->record, &about) && is_buried(core, about);
        if (!is_buried_here &&
            !(entry->record.kind == FACT_TOMBSTONE && BUG(tombstone_dropped, "a tombstone is kept for ever"))) {
            continue;
        }
        if (!core_has_room(core, 1024, 1u << 20)) {
            return false;
        }
        forget_record(core, entry->ident);
    }
    return true;
}

static bool sweep_fences(struct node_core *core)
{
    for (struct core_fence *fence = core->disk->fences, *next; fence != NULL; fence = next) {
        next = fence->next;
        if (!is_buried(core, fence->experiment)) {
            continue;
        }
        if (!core_has_room(core, 1024, 1u << 20)) {
            return false;
        }
        MARK(buried_fence_swept);
        core_fence_forget(core, fence->experiment);
    }
    return true;
}

void deletion_sweep(struct node_core *core)
{
    if (core->intake->sweep_bucket == 0 && !sweep_fences(core)) {
        return;
    }
    for (uint32_t i = 0; i < CORE_SWEEP_BUCKETS && core->intake->sweep_bucket < RECORDS_BUCKETS; i++) {
        if (!sweep_bucket(core, core->intake->sweep_bucket)) {
            return;
        }
        core->intake->sweep_bucket++;
    }
}

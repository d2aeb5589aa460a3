/* Invariants 3, 5, 7 and 10: what is on disks is said, kept, the same everywhere, or deleted for good. */

#include <string.h>

#include "base/check.h"
#include "node/core/members/members.h"
#include "tests/sim/checkers_inside.h"
#include "tests/sim/users.h"

#define SETTLE_MS 5500 /* "within 5 s", and one commit */
#define MEET_MS 30000

/* ---- 7: what is said to others is on the disk first -------------------------------------------------------------- */

bool checkers_is_on_disk(struct sim *sim, int node, record_ident ident, struct record_version version)
{
    const struct disk_entry *entry = disk_find(&sim->nodes[node].disk, ident);
    return entry != NULL && entry->is_stored && record_version_compare(entry->version, version) >= 0;
}

void checkers_sent_records(struct sim *sim, int node, const struct message *message)
{
    struct checkers *checkers = sim->checkers;
    if (checkers->sent_bytes == message->bytes && checkers->sent_step == sim->steps) {
        return; /* the same bytes to the next peer */
    }
    checkers->sent_bytes = message->bytes;
    checkers->sent_step = sim->steps;
    for (size_t offset = 0, length; offset < message->byte_count; offset += length) {
        struct record record;
        if (record_length(message->bytes + offset, message->byte_count - offset, &length) != 0 ||
            record_decode(message->bytes + offset, length, &record) != 0) {
            sim_fail(sim, 7, "n%d sends records that do not decode", node);
            return;
        }
        if (!disk_signature_holds(message->bytes + offset, length)) {
            sim_fail(sim, 6, "n%d sends a record of kind %u that is not what its writer signed", node,
                     (unsigned)record.kind);
            return;
        }
        bool is_own = node_id_equal(record.writer, sim->nodes[node].id) && /* of this life: others are relayed */
                      record.version.boot == sim->nodes[node].core->options.boot;
        if (is_own &&
            !checkers_is_on_disk(sim, node, record_ident_of(record.writer, record.kind, record.key, record.key_bytes),
                                 record.version)) {
            sim_fail(sim, 7, "n%d sends its own record of kind %u before it is on its disk", node,
                     (unsigned)record.kind);
        }
    }
}

void checkers_state(struct sim *sim, int node, bool from_disk)
{
    const struct disk *disk = &sim->nodes[node].disk;
    const struct node_core *core = sim->nodes[node].core;
    for (uint32_t i = 0; i < disk->capacity; i++) {
        const struct disk_entry *entry = &disk->entries[i];
        if (!entry->is_used || entry->is_fence || entry->seen.boot == 0) {
            continue;
        }
        struct record_version least = from_disk ? entry->version : entry->seen;
        const struct records_entry *held = records_find(&core->records, entry->ident);
        if (held == NULL || record_version_compare(held->record.version, least) < 0) {
            sim_fail(sim, 7, "n%d %s a record of kind %u that it had", node, held == NULL ? "forgot" : "went back in",
                     (unsigned)entry->kind);
            return;
        }
        if (from_disk && entry->kind == FACT_VERDICT) {
            checkers_learn_result(sim, node, &held->record);
        } else if (from_disk && entry->kind == FACT_CONTROL) {
            checkers_learn_cancel(sim, node, &held->record);
        }
    }
}

/* ---- 3: promises ------------------------------------------------------------------------------------------------- */

static bool disk_holds(struct sim *sim, int node, uint32_t experiment, enum fact_kind kind)
{
    experiment_id about = sim->plan.experiments[experiment].id;
    struct fact_key key = kind == FACT_CONTROL ? fact_key_cancel(about) : fact_key_experiment(about);
    for (uint32_t i = 0; i < 2 * sim->machines; i++) {
        const struct sim_node *writer = &sim->nodes[i / 2];
        node_id id = i % 2 == 0 ? writer->id : writer->was;
        const struct disk_entry *entry =
            disk_find(&sim->nodes[node].disk, record_ident_of(id, (uint16_t)kind, key.bytes, key.count));
        struct record record;
        if (entry == NULL || !entry->is_stored || record_decode(entry->bytes, entry->byte_count, &record) != 0) {
            continue;
        }
        return true;
    }
    return false;
}

uint32_t checkers_disks_with(struct sim *sim, uint32_t experiment, enum fact_kind kind)
{
    uint32_t disks = 0;
    for (uint32_t node = 0; node < sim->machines; node++) {
        disks |= disk_holds(sim, (int)node, experiment, kind) ? 1u << node : 0;
    }
    return disks;
}

static const char *promise_name(enum fact_kind kind)
{
    return kind == FACT_EXPERIMENT ? "submit" : kind == FACT_CONTROL ? "cancel" : "delete";
}

uint32_t checkers_disks_lost_since(const struct sim *sim, const struct users_promise *promise)
{
    uint32_t lost = 0;
    for (uint32_t node = 0; node < sim->machines; node++) {
        uint64_t lost_ms = sim->checkers->forgot_ms[node];
        lost += lost_ms != 0 && (sim->now_ms < lost_ms + 2 * CORE_ACK_MS || promise->asked_ms <= lost_ms);
    }
    return lost;
}

void checkers_on_promise(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                         enum fact_kind kind)
{
    if (kind != FACT_TOMBSTONE && checkers_disks_with(sim, experiment, FACT_TOMBSTONE) != 0) {
        return; /* deleted meanwhile: the tombstone speaks for it */
    }
    if (promise->stored_on >= 2 && kind != FACT_TOMBSTONE) {
        checkers_met(sim, kind == FACT_CONTROL ? PREMISE_3_CANCEL_ON_TWO : PREMISE_3_SUBMIT_ON_TWO);
    }
    uint32_t disks = (uint32_t)__builtin_popcount(promise->disks);
    if (promise->stored_on < 1 || disks + checkers_disks_lost_since(sim, promise) < promise->stored_on) {
        sim_fail(sim, 3, "n%d says that the %s of experiment %u is stored on %u nodes; it is on %u disks", node,
                 promise_name(kind), experiment, promise->stored_on, disks);
    }
}

void checkers_on_other_disk(struct sim *sim, int node)
{
    checkers_met(sim, PREMISE_3_OTHER_DISK);
    sim->checkers->other_disk_ms = sim->checkers->forgot_ms[node] = sim->now_ms;
    sim->checkers->boots_heard[node] = 0;
    checkers_wishes_forgot(sim, node);
    sim->checkers->generation_count = 0; /* names of attempts may be given again (13.7), */
    sim->checkers->progress.save_count = sim->checkers->progress.looked_at = 0; /* ... and of checkpoints */
    memset(sim->checkers->answered[node], 0, sizeof sim->checkers->answered[node]);
    for (uint32_t e = 0; e < sim->plan.experiment_count; e++) {
        struct users_experiment *promised = &sim->users->experiments[e];
        promised->submitted.disks &= disk_holds(sim, node, e, FACT_EXPERIMENT) ? UINT32_MAX : ~(1u << node);
        promised->cancelled.disks &= disk_holds(sim, node, e, FACT_CONTROL) ? UINT32_MAX : ~(1u << node);
        promised->deleted.disks &= disk_holds(sim, node, e, FACT_TOMBSTONE) ? UINT32_MAX : ~(1u << node);
        checkers_control_lost(sim, node, e);
        checkers_stops_lost(sim, node, e);
        checkers_extension_lost(sim, node, e);
    }
}

void checkers_promise_kept(struct sim *sim, int node, uint32_t experiment, const struct users_promise *promise,
                           enum fact_kind kind)
{
    if (!promise->is_acknowledged || (promise->disks & sim->plan.core) == 0) {
        return;
    }
    const struct view_experiment *seen =
        view_find_experiment(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id);
    if ((promise->disks & ~sim->plan.core) != 0) {
        checkers_met(sim, PREMISE_3_LOST_ONE);
    }
    bool is_kept = view_is_deleted(&sim->nodes[node].core->view, sim->plan.experiments[experiment].id) ||
                   (kind == FACT_EXPERIMENT && seen != NULL && seen->known) ||
                   (kind == FACT_CONTROL && seen != NULL && view_experiment_cancelled(seen));
    if (!is_kept) {
        sim_fail(sim, 3, "n%d does not know of the %s of experiment %u, acknowledged as stored on %u nodes", node,
                 promise_name(kind), experiment, promise->stored_on);
    }
}

/* ---- 10: deletion ------------------------------------------------------------------------------------------------ */

void checkers_learn_cancel(struct sim *sim, int node, const struct record *record)
{
    struct fact_control fact;
    experiment_id id;
    int experiment;
    if (fact_control_read(record, &fact) == 0 && fact.cancelled && fact_key_read_experiment(record, &id) == 0 &&
        (experiment = checkers_experiment(sim, id)) >= 0) {
        sim->checkers->watch.cancelled[node][experiment] = true;
    }
}

struct remains {
    experiment_id experiment;
    uint32_t count;
};

static bool count_remains(void *context, const struct records_entry *entry)
{
    struct remains *remains = context;
    experiment_id about;
    remains->count += fact_is_of_experiment(&entry->record, &about) && experiment_id_equal(about, remains->experiment);
    return true;
}

/* Nothing of what it knows to be deleted runs, or is held in memory or on the disk. */
void checkers_deleted(struct sim *sim, int node, uint32_t experiment)
{
    const struct sim_node *self = &sim->nodes[node];
    struct remains remains = {sim->plan.experiments[experiment].id, 0};
    if (!view_is_deleted(&self->core->view, remains.experiment)) {
        return;
    }
    checkers_met(sim, PREMISE_10_DELETED);
    if ((sim->checkers->ran[node] >> experiment & 1) != 0) {
        checkers_met(sim, PREMISE_10_RAN);
    }
    for (uint32_t slot = 0; slot < sim->plan.slots[node]; slot++) {
        const struct worker_process *process = &self->processes[slot];
        if (process->is_alive && experiment_id_equal(process->attempt.experiment, remains.experiment)) {
            sim_fail(sim, 10, "n%d still runs trial %u of experiment %u, which is deleted", node,
                     process->attempt.trial, experiment);
            return;
        }
    }
    records_each(&self->core->records, count_remains, &remains);
    for (uint32_t i = 0; i < self->disk.capacity; i++) {
        struct record record;
        const struct disk_entry *entry = &self->disk.entries[i];
        if (entry->is_stored && !entry->is_fence && record_decode(entry->bytes, entry->byte_count, &record) == 0) {
            (void)count_remains(&remains, &(struct records_entry){.record = record});
        }
    }
    if (remains.count > 0 || view_find_experiment(&self->core->view, remains.experiment) != NULL) {
        sim_fail(sim, 10, "n%d still has %u records of experiment %u, which is deleted", node, remains.count,
                 experiment);
    }
}

/* ---- 5: after the heal and quiet --------------------------------------------------------------------------------- */

/* Who was long away is found again by the probes that the dead get now and then: the more are dead for ever, the later.
 */
static bool have_met(const struct sim *sim)
{
    for (int a = 0; a < (int)sim->plan.node_count; a++) {
        for (int b = 0; checkers_in_core(sim, a) && b < (int)sim->plan.node_count; b++) {
            const struct node_core *core = sim->nodes[a].core;
            if (a != b && checkers_in_core(sim, b) &&
                (core == NULL || swim_state_of(&core->members->swim, sim->nodes[b].id) != SWIM_ALIVE)) {
                return false;
            }
        }
    }
    return true;
}

void checkers_same_state(struct sim *sim)
{
    if (!sim->healed || __builtin_popcount(sim->plan.core) < 2) {
        return;
    }
    if (!have_met(sim)) {
        sim->checkers->apart_ms = sim->now_ms;
        if (sim->now_ms >= sim->unstable_until_ms + MEET_MS) {
            sim_fail(sim, 5, "%llu ms after the heal the nodes of the core have not found each other",
                     (unsigned long long)(sim->now_ms - sim->unstable_until_ms));
        }
        return;
    }
    uint64_t since_ms = sim->unstable_until_ms;
    since_ms = since_ms > sim->checkers->last_own_ms ? since_ms : sim->checkers->last_own_ms;
    since_ms = since_ms > sim->checkers->apart_ms ? since_ms : sim->checkers->apart_ms;
    if (sim->now_ms < since_ms + SETTLE_MS) {
        return;
    }
    int first = -1;
    for (int node = 0; node < (int)sim->plan.node_count; node++) {
        if (!checkers_in_core(sim, node)) {
            continue;
        }
        CHECK(sim->nodes[node].core != NULL);
        if (first < 0) {
            first = node;
        } else if (!records_hash_equal(sim->nodes[first].core->records.hash, sim->nodes[node].core->records.hash)) {
            sim_fail(sim, 5, "n%d holds %u records, n%d %u, and they differ; nothing was written for %llu ms", first,
                     sim->nodes[first].core->records.count, node, sim->nodes[node].core->records.count,
                     (unsigned long long)(sim->now_ms - since_ms));
        }
    }
    checkers_met(sim, PREMISE_5_SAME_STATE);
}

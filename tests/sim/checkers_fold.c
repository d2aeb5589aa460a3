/* Invariant 6: what a node believes follows from the set of its records, not from their order, nor how often they
 * came. */

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "node/core/ground/state.h"
#include "tests/sim/checkers_inside.h"
#include "tests/unit/put_envelope.h"

#define ENTRIES_MAX 8192

struct gathered {
    uint32_t count;
    const struct records_entry *entries[ENTRIES_MAX];
};

static bool gather(void *context, const struct records_entry *entry)
{
    struct gathered *gathered = context;
    CHECK(gathered->count < ENTRIES_MAX);
    gathered->entries[gathered->count++] = entry;
    return true;
}

static void mix(uint64_t *hash, const void *bytes, size_t count)
{
    *hash = random_mix(*hash ^ bytes_hash64(bytes, count, 7));
}

static void mix_word(uint64_t *hash, uint64_t word)
{
    *hash = random_mix(*hash ^ random_mix(word));
}

static void mix_attempt(uint64_t *hash, const attempt_id *id)
{
    mix(hash, id->experiment.bytes, sizeof id->experiment.bytes);
    mix(hash, id->coordinator.bytes, sizeof id->coordinator.bytes);
    mix_word(hash, (uint64_t)id->trial << 32 | id->number);
    mix_word(hash, id->term);
}

static uint64_t hash_members(const struct view *view)
{
    uint64_t hash = view->member_count;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        mix(&hash, member->id.bytes, sizeof member->id.bytes);
        mix(&hash, member->voucher.bytes, sizeof member->voucher.bytes);
        mix_word(&hash, (uint64_t)member->protocol.oldest << 32 | member->protocol.newest);
        mix_word(&hash,
                 (uint64_t)(member->vouched | member->admitted << 1 | member->has_node << 2 | member->left << 3));
        for (uint32_t slot = 0; member->slots != NULL && slot < member->slot_count; slot++) {
            mix_word(&hash, member->slots[slot].state);
            mix_attempt(&hash, &member->slots[slot].attempt);
        }
    }
    return hash;
}

static uint64_t hash_trial(const struct view_experiment *experiment, const struct view_trial *trial)
{
    uint64_t hash = view_trial_state(experiment, trial->index);
    const struct fact_stop stop = view_trial_stop(trial);
    mix_word(&hash, stop.lamport << 33 | (uint64_t)stop.stopped << 32 | stop.since);
    mix_word(&hash, view_trial_failures(trial));
    for (const struct view_attempt *a = trial->attempts; a != NULL; a = a->next) {
        mix_attempt(&hash, &a->id);
        mix_word(&hash, a->assigned ? a->member_count : UINT32_MAX);
        mix_word(&hash, a->start_step);
        mix_word(&hash, (uint64_t)a->generation << 32 | a->joiner_count << 1 | a->is_leaving);
        for (uint32_t i = 0; a->assigned && i < a->member_count; i++) {
            mix_word(&hash, a->members[i].number);
        }
        for (const struct view_worker *worker = a->workers; worker != NULL; worker = worker->next) {
            mix(&hash, worker->writer.bytes, sizeof worker->writer.bytes);
            mix_word(&hash, (uint64_t)worker->number << 32 | (uint64_t)worker->state << 8 | (uint64_t)worker->reason);
            mix_word(&hash, worker->step);
        }
        for (const struct view_verdict *verdict = a->verdicts; verdict != NULL; verdict = verdict->next) {
            mix(&hash, verdict->writer.bytes, sizeof verdict->writer.bytes);
            mix_word(&hash, verdict->reason);
        }
    }
    for (const struct view_manifest *manifest = trial->manifests; manifest != NULL; manifest = manifest->next) {
        mix(&hash, manifest->blob.bytes, sizeof manifest->blob.bytes);
        mix_word(&hash, manifest->step << 8 | manifest->holder_count);
    }
    for (const struct view_set *set = trial->sets; set != NULL; set = set->next) {
        for (const struct view_manifest *row = set->rows; row != NULL; row = row->next) {
            mix(&hash, row->blob.bytes, sizeof row->blob.bytes);
            mix_word(&hash, (uint64_t)row->part << 8 | row->holder_count);
        }
    }
    return hash;
}

static uint64_t hash_annotations(const struct view_experiment *experiment)
{
    uint64_t hash = 0;
    for (const struct view_annotation *row = view_annotation_first(experiment); row != NULL; row = view_annotation_next(row)) {
        mix(&hash, row->entry->record.key, row->entry->record.key_bytes);
        mix(&hash, row->writer.bytes, sizeof row->writer.bytes);
        mix_word(&hash, row->lamport << 1 | row->is_set);
    }
    return hash;
}

static uint64_t hash_experiments(const struct view *view)
{
    uint64_t hash = view->jump_count;
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        mix(&hash, experiment->id.bytes, sizeof experiment->id.bytes);
        mix(&hash, experiment->submitter.bytes, sizeof experiment->submitter.bytes);
        mix_word(&hash, view_experiment_state(experiment));
        mix_word(&hash, experiment->known ? experiment->trial_count : 0);
        for (const struct view_claim *claim = experiment->claims; claim != NULL; claim = claim->next) {
            mix(&hash, claim->writer.bytes, sizeof claim->writer.bytes);
            mix_word(&hash, claim->fact.term << 1 | claim->fact.released);
        }
        hash = random_mix(hash ^ hash_annotations(experiment));
        for (uint32_t t = 0; t < experiment->trial_slots; t++) {
            mix_word(&hash, experiment->trials[t] != NULL ? hash_trial(experiment, experiment->trials[t]) : 0);
        }
    }
    return hash;
}

#define NOTES 12

struct note {
    uint8_t bytes[RECORD_ENVELOPE_BYTES_MAX];
    size_t count;
};

/* A note of one of the nodes about one of three experiments, some far ahead. No two have the same record's key and version. */
static void make_note(const struct sim *sim, struct random *random, uint32_t number, struct note *out)
{
    static const char *const labels[] = {"a", "ab", "b"}, *const numbers[] = {"1", "12", "3"};
    enum fact_subject subject = (enum fact_subject)random_below(random, FACT_SUBJECTS);
    struct fact_annotation fact = {.lamport = 1 + random_below(random, 3), .is_set = random_below(random, 3) > 0};
    fact.lamport += random_below(random, 8) == 0 ? UINT64_C(1) << 40 : 0;
    fact.value[0] = (char)('a' + number);
    experiment_id id = {{1 + (uint8_t)random_below(random, 3)}};
    bool has_number = subject == FACT_MAX_TRIALS || subject == FACT_TRIAL_DESCRIPTION;
    const char *const *names = subject == FACT_LABEL ? labels : has_number ? numbers : NULL;
    struct fact_key key = fact_key_annotation(id, subject, names != NULL ? names[random_below(random, 3)] : "");
    uint8_t body[FACT_NOTE_BYTES + 32];
    struct pack_writer writer;
    pack_writer_init(&writer, body, sizeof body);
    fact_annotation_pack(&writer, &fact);
    struct record record = {.kind = FACT_ANNOTATION,
                            .writer = sim->nodes[random_below(random, sim->plan.node_count)].id,
                            .version = {1, 1 + number},
                            .key = key.bytes,
                            .key_bytes = key.count,
                            .body = body,
                            .body_bytes = (uint16_t)writer.used_bytes};
    out->count = record_encode(&record, out->bytes, sizeof out->bytes);
    CHECK(out->count > 0);
}

/* People make no notes in these worlds. So some are made up, and folded in two orders: they give the same. */
static void check_notes(struct sim *sim, int node, struct arena *arena)
{
    static struct note notes[NOTES];
    struct random random;
    uint64_t hashes[2];
    random_init_stream(&random, sim->now_ms, (uint64_t)node);
    for (uint32_t i = 0; i < NOTES; i++) {
        make_note(sim, &random, i, &notes[i]);
    }
    for (uint32_t order = 0; order < 2; order++) {
        struct records records;
        struct view view;
        CHECK(records_init(&records, arena) == 0);
        view_init(&view, arena, &records, sim->mesh);
        for (uint32_t i = 0; i < NOTES; i++) {
            const struct note *note = &notes[order == 0 ? i : NOTES - 1 - i];
            struct records_entry *entry;
            if (put_envelope(&records, note->bytes, note->count, true, &entry) == 0) {
                CHECK(view_apply(&view, entry) == 0);
            }
        }
        hashes[order] = view.jump_count;
        for (uint32_t i = 0; i < view.experiment_count; i++) {
            mix_word(&hashes[order], hash_annotations(view.experiments[i]));
        }
    }
    if (hashes[0] != hashes[1]) {
        sim_fail(sim, 6, "n%d: notes about experiments in another order give others", node);
    }
}

void checkers_fold(struct sim *sim, int node)
{
    const struct node_core *core = sim->nodes[node].core;
    static struct gathered gathered;
    gathered.count = 0;
    records_each(&core->records, gather, &gathered);
    for (uint32_t i = gathered.count; i > 1; i--) {
        uint32_t at = (uint32_t)random_below(&sim->random[STREAM_CHECKS], i);
        const struct records_entry *moved = gathered.entries[at];
        gathered.entries[at] = gathered.entries[i - 1];
        gathered.entries[i - 1] = moved;
    }
    struct arena arena;
    struct records records;
    struct view view;
    arena_init(&arena, sim->scratch, SIM_SCRATCH_BYTES);
    CHECK(records_init(&records, &arena) == 0);
    view_init(&view, &arena, &records, sim->mesh);
    for (uint32_t i = 0; i < gathered.count; i++) {
        struct records_entry *entry;
        CHECK(put_envelope(&records, gathered.entries[i]->envelope, gathered.entries[i]->envelope_bytes, true, &entry) ==
              0);
        (void)view_apply(&view, entry);
        if (i % 3 == 0) {
            (void)view_apply(&view, entry);
        }
    }
    for (uint32_t i = 0; i < gathered.count; i++) {
        if (gathered.entries[i]->record.kind == SIM_UNKNOWN_KIND &&
            !node_id_equal(gathered.entries[i]->record.writer, sim->nodes[node].id)) {
            checkers_met(sim, PREMISE_6_UNKNOWN_KIND);
        }
    }
    checkers_met(sim, PREMISE_6_REFOLDED);
    if (hash_members(&view) != hash_members(&core->view)) {
        sim_fail(sim, 6, "n%d: its %u records in another order give another roster or other slots", node,
                 gathered.count);
    } else if (hash_experiments(&view) != hash_experiments(&core->view)) {
        sim_fail(sim, 6, "n%d: its %u records in another order give other experiments", node, gathered.count);
    }
    check_notes(sim, node, &arena);
}

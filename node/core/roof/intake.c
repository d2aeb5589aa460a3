/* Records on their way in, from our disk and from peers: refused, or put into the table, stored, folded, and passed to the
 * rooms that follow such records. */

#include "base/err.h"
#include "base/probe.h"
#include "node/core/copies/collection.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/clocks.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/twin.h"
#include "node/core/requests/requests.h"
#include "node/core/roof/roof.h"

void intake_record_put(struct node_core *core, struct records_entry *entry)
{
    if (entry->record.kind == FACT_CONTROL && !core->started &&
        BUG(cancel_forgotten, "a cancel that is on the disk is still known after a restart")) {
        return;
    }
    const struct view_member *writer = view_find_member(&core->view, entry->record.writer);
    struct fact_quarantine before = {0};
    if (writer != NULL && entry->record.kind == FACT_QUARANTINE) {
        before = writer->quarantine;
    }
    uint64_t jumps = core->view.jump_count;
    int error = view_apply(&core->view, entry);
    if (core->view.jump_count > jumps) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_FALSE, entry->record.writer),
                    "%s has written a %s record whose clock is more than %u ahead of all others: not counted",
                    view_label(&core->view, entry->record.writer).text, fact_kind_name(entry->record.kind),
                    LAMPORT_JUMP_MAX);
    }
    entry->is_unfolded = error == ERR_FULL;
    if (entry->is_unfolded) {
        core->memory.has_unfolded = true;
        core->memory.refold_bytes = core->arena.used_bytes - core->arena.used_bytes / CORE_MEMORY_REFOLD;
    }
    if (error != 0) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_OTHER, entry->record.writer),
                    "a %s record cannot be used: %s", fact_kind_name(entry->record.kind), err_text(error));
    }
    if (entry->record.kind == FACT_WORKER) {
        core_quarantine_worker(core, &entry->record);
    } else if (entry->record.kind == FACT_QUARANTINE) {
        core_quarantine_record(core, entry->record.writer, &before);
    } else if (entry->record.kind == FACT_MANIFEST || entry->record.kind == FACT_OUTPUT) {
        core_collection_told(core, &entry->record);
    }
    experiment_id deleted;
    if (error == 0 && entry->record.kind == FACT_TOMBSTONE &&
        fact_key_read_experiment(&entry->record, &deleted) == 0) {
        deletion_known(core, deleted);
    }
    if (entry->record.kind == FACT_INVITE) {
        struct fact_invite fact;
        if (fact_invite_read(&entry->record, &fact) == 0) {
            struct node_effect *effect = core_effect(core, NODE_EFFECT_ADMIT);
            effect->u.peer.invite = true;
            effect->u.peer.gone = fact.revoked || fact.expires_s <= core_mesh_wall_s(core) ||
                                  (writer != NULL && view_member_is_out(writer));
            memcpy(effect->u.peer.public_key, entry->record.key, PUBLIC_KEY_BYTES);
        }
    }
}

void intake_refold(struct node_core *core)
{
    struct core_memory *memory = &core->memory;
    for (uint32_t i = 0; i < CORE_SWEEP_BUCKETS && memory->refold_bucket < RECORDS_BUCKETS; i++) {
        for (struct records_entry *entry = core->records.buckets[memory->refold_bucket], *next; entry != NULL; entry = next) {
            next = entry->next_in_bucket;
            if (!entry->is_unfolded) {
                continue;
            }
            if (!core_has_room(core, 1024, 1u << 20)) {
                return;
            }
            intake_record_put(core, entry); /* may find no memory again; smaller records behind it may find some */
            if (!entry->is_unfolded && entry->record.kind == FACT_TOMBSTONE) {
                deletion_stored(core); /* perhaps on disk already */
            }
        }
        memory->refold_bucket++;
    }
}

void intake_housekeep(struct node_core *core)
{
    struct core_memory *memory = &core->memory;
    if (memory->has_unfolded && memory->refold_bucket == RECORDS_BUCKETS && core->arena.used_bytes <= memory->refold_bytes) {
        memory->has_unfolded = false;
        memory->refold_bucket = 0;
    }
}

/* ---- one record ------------------------------------------------------------------------------------------------------ */

static void send_stored(struct node_core *core, node_id to, record_ident ident, struct record_version version)
{
    struct message message = {.kind = MESSAGE_STORED};
    message.u.stored.ident = ident;
    message.u.stored.version = version;
    core_send_after_disk(core, to, &message);
}

bool intake_raise_boot(struct node_core *core)
{
    const struct core_intake *intake = core->intake;
    bool is_newest = intake->seen_boot < core->options.boot;
    is_newest |= BUG(older_boot_kept, "a node never writes under an older boot than seen");
    if (is_newest || core_twin_yields(core->twin)) {
        return false;
    }
    MARK(boot_raised);
    core->options.boot = ((intake->seen_boot >> 32) + 1) << 32 | (random_u64(&core->random) & UINT32_MAX);
    core->seq = 0;
    return true;
}

static bool is_of_deleted(const struct node_core *core, const struct record *given)
{
    experiment_id about;
    return fact_is_of_experiment(given, &about) && view_is_deleted(&core->view, about);
}

static const struct records_entry *find_held(const struct node_core *core, const struct record *given)
{
    return records_find(&core->records, record_ident_of(given->writer, given->kind, given->key, given->key_bytes));
}

/* A completed result that a record is about to replace with another verdict. A coordinator on an old disk may judge an attempt
 * a second time, and the new verdict then replaces the old one in the table. The result stays all the same: we write the old
 * verdict again as our own, and the fold takes the best of all verdicts. */
struct kept_result {
    bool is_kept;
    struct fact_key key;
    struct pack_writer body;
    uint8_t bytes[FACT_METRICS_BYTES_MAX + 256];
};

static void keep_result(const struct node_core *core, const struct record *given, struct kept_result *kept)
{
    struct fact_verdict fact;
    kept->is_kept = false;
    if (!core->started || given->kind != FACT_VERDICT ||
        (fact_verdict_read(given, &fact) == 0 && fact.reason == FACT_COMPLETED)) {
        return;
    }
    const struct records_entry *held = find_held(core, given);
    if (held == NULL || fact_verdict_read(&held->record, &fact) != 0 || fact.reason != FACT_COMPLETED) {
        return;
    }
    kept->key.count = given->key_bytes;
    memcpy(kept->key.bytes, given->key, given->key_bytes);
    pack_writer_init(&kept->body, kept->bytes, sizeof kept->bytes);
    fact_verdict_pack(&kept->body, &fact);
    kept->is_kept = !kept->body.failed && !BUG(result_undone, "a result that is known never un-happens");
}

/* The table did not take the record: counts the cause. If the sender waits until the record is stored, and an equal or newer
 * version is on our disk, the sender is answered; otherwise the sender will ask again. */
static void refused_by_table(struct node_core *core, const struct record *given, int error, bool from_disk,
                             const node_id *stored_to)
{
    core->counters.equivocations += error == ERR_CORRUPT;
    core->counters.full += error == ERR_FULL;
    core->memory.has_unloaded |= error == ERR_FULL && from_disk;
    core->memory.refused_ms = error == ERR_FULL ? core->now_ms : core->memory.refused_ms;
    if (error == ERR_CORRUPT) {
        core_quarantine_equivocated(core, given->writer);
    }
    const struct records_entry *held = error == ERR_STALE && stored_to != NULL ? find_held(core, given) : NULL;
    if (held != NULL && held->on_disk) {
        send_stored(core, *stored_to, held->ident, held->record.version);
    }
}

/* The record is in the table: sends it to the disk, and where records spread by fan-out to peers. While syncing we relay
 * nothing, since records that we lack are no news to the mesh. */
static void store_and_relay(struct node_core *core, struct records_entry *entry, const node_id *stored_to)
{
    (void)core_persist(core, entry);
    if (core_members_fans_out(core) && !core->members->syncing) {
        core_members_relay(core, entry);
    }
    if (stored_to != NULL) {
        send_stored(core, *stored_to, entry->ident, entry->record.version);
    }
}

static int take(struct node_core *core, const struct record *given, const uint8_t *envelope, uint32_t count, bool from_disk,
                const node_id *stored_to)
{
    struct core_intake *intake = core->intake;
    bool is_refused = !from_disk && is_of_deleted(core, given);
    is_refused |= !from_disk && given->kind > FACT_GENERATION &&
                  BUG(unknown_kind_dropped, "records of kinds that a node does not know are taken, kept and relayed");
    if (is_refused) {
        return ERR_REFUSED;
    }
    struct kept_result result;
    keep_result(core, given, &result);
    const struct core_register word = core_requests_register(core, given);
    struct records_entry *entry;
    int error = records_put(&core->records, given, envelope, count, true, &entry);
    if (error != 0) {
        refused_by_table(core, given, error, from_disk, stored_to);
        return error;
    }
    entry->on_disk = from_disk;
    if (node_id_equal(entry->record.writer, core->options.self)) {
        uint64_t boot = entry->record.version.boot;
        intake->seen_boot = boot > intake->seen_boot ? boot : intake->seen_boot;
        intake->is_misquoted |= core->started;
    }
    if (!from_disk) {
        store_and_relay(core, entry, stored_to);
    }
    intake_record_put(core, entry);
    if (result.is_kept) {
        MARK(result_said_again);
        (void)intake_raise_boot(core); /* the replaced verdict may be our own, of another boot or of a twin */
        (void)core_put(core, FACT_VERDICT, result.key, &result.body);
    }
    if (word.kind != 0) {
        (void)intake_raise_boot(core);
        core_requests_restore(core, &word);
    }
    return 0;
}

int intake_take(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk, const node_id *stored_to)
{
    uint8_t altered[RECORD_ENVELOPE_BYTES_MAX];
    if (BUG(relay_alters, "records are relayed byte for byte") && count > 0 && count < sizeof altered) {
        memcpy(altered, envelope, count);
        altered[count - 1] ^= 1;
        envelope = altered;
    }
    struct record given;
    if (record_decode(envelope, count, &given) != 0) {
        core->counters.malformed++;
        return ERR_MALFORMED;
    }
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= core_may_take_reserve(core, &given, from_disk);
    int error = take(core, &given, envelope, count, from_disk, stored_to);
    core->arena.takes_reserve = takes_reserve;
    return error;
}

int intake_take_message(struct node_core *core, node_id from, const struct message *message)
{
    uint32_t had = core->records.count;
    size_t offset = 0, length;
    int error = 0;
    while (offset < message->byte_count &&
           (error = record_length(message->bytes + offset, message->byte_count - offset, &length)) == 0 &&
           core_has_room(core, 600, (uint32_t)length + (1u << 20))) { /* the exchange brings the rest */
        (void)intake_take(core, message->bytes + offset, (uint32_t)length, false, message->want_stored ? &from : NULL);
        offset += length;
    }
    if (core->records.count >= had + CORE_SYNC_FILLING_RECORDS) {
        core->members->filling_ms = core->now_ms;
    }
    core->counters.malformed += error != 0;
    return error;
}

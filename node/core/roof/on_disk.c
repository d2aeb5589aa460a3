/* Actions after a disk write, and the next try after a refused write. */

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/elastic.h"
#include "node/core/coordinator/gangs.h"
#include "node/core/copies/acks.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/ground/effects.h"
#include "node/core/owner/slots.h"
#include "node/core/requests/members.h"
#include "node/core/roof/roof.h"

void on_disk_run(struct node_core *core, const struct core_pending *pending)
{
    switch (pending->action) {
    case CORE_ACTION_NONE:
        break;
    case CORE_ACTION_SEND: {
        if (pending->message.kind == MESSAGE_CONFIRM_ANSWER && pending->message.u.lease.code == 0) {
            core_owner_lease_on_disk(core, &pending->message.u.lease.attempt, pending->message.u.lease.slot);
        }
        if (pending->message.kind == MESSAGE_STORED &&
            records_find(&core->records, pending->message.u.stored.ident) == NULL) {
            break; /* deleted meanwhile */
        }
        if (node_id_equal(pending->node, core->options.self) && pending->message.kind != MESSAGE_STORED) {
            core_coordinator_receive(core, core->options.self, &pending->message);
        } else {
            core_send(core, pending->node, &pending->message);
        }
        break;
    }
    case CORE_ACTION_ACK:
        core_ack_on_disk(core, pending->client, pending->ident, pending->version);
        break;
    case CORE_ACTION_WELCOME:
        core_requests_welcome(core, pending->client, pending->node);
        break;
    case CORE_ACTION_LED:
        core_coordinator_led(core, pending->attempt.experiment, pending->term);
        break;
    case CORE_ACTION_ASSIGNED:
        core_coordinator_assigned(core, &pending->attempt, pending->version);
        break;
    case CORE_ACTION_GROUPED:
        core_coordinator_grouped(core, &pending->attempt, pending->version);
        break;
    case CORE_ACTION_DURABLE:
        core_checkpoints_durable(core, &pending->attempt, pending->slot, pending->step, pending->set);
        break;
    }
}

/* ---- publishing ----------------------------------------------------------------------------------------------------- */

void on_disk_flush(struct node_core *core)
{
    struct core_disk *disk = core->disk;
    if (disk->outbox_bytes == 0) {
        return;
    }
    const uint8_t *bytes = NULL;
    for (uint32_t i = 0; i < core->members->peer_count && !core->is_out; i++) {
        const struct core_peer *peer = core->members->peers[i];
        if (peer->state != SWIM_ALIVE && peer->state != SWIM_SUSPECT) {
            continue;
        }
        if (!core_has_room(core, 1, bytes == NULL ? disk->outbox_bytes : 0)) {
            break; /* the digests will differ, so the exchange brings the records */
        }
        if (bytes == NULL) {
            bytes = core_effect_bytes(core, disk->outbox, disk->outbox_bytes);
        }
        struct message message = {.kind = MESSAGE_RECORDS};
        message.bytes = bytes;
        message.byte_count = disk->outbox_bytes;
        core_send(core, peer->id, &message);
    }
    disk->outbox_bytes = 0;
}

static void outbox_add(struct node_core *core, const struct records_entry *entry)
{
    struct core_disk *disk = core->disk;
    if (entry->envelope_bytes > CORE_OUTBOX_BYTES - disk->outbox_bytes) {
        on_disk_flush(core);
    }
    CHECK(entry->envelope_bytes <= CORE_OUTBOX_BYTES - disk->outbox_bytes);
    memcpy(disk->outbox + disk->outbox_bytes, entry->envelope, entry->envelope_bytes);
    disk->outbox_bytes += entry->envelope_bytes;
}

static void record_on_disk(struct node_core *core, const struct core_pending *pending,
                           const uint8_t signature[RECORD_SIGNATURE_BYTES])
{
    struct records_entry *entry = records_find(&core->records, pending->ident);
    if (entry == NULL || record_version_compare(entry->record.version, pending->version) != 0) {
        MARK(older_version_on_disk);
        return; /* the newer version has a ticket too */
    }
    entry->on_disk = true;
    experiment_id about;
    if (entry->record.kind == FACT_TOMBSTONE) {
        deletion_stored(core);
    } else if (entry->record.kind == FACT_WORKER && node_id_equal(entry->record.writer, core->options.self) &&
               fact_is_of_experiment(&entry->record, &about)) {
        struct view_experiment *experiment = view_find_experiment(&core->view, about);
        if (experiment != NULL) {
            experiment->changed = true; /* a worker may have waited for the record */
        }
    }
    if (!entry->published &&
        records_publish(&core->records, pending->ident, pending->version, signature, &entry) == 0) {
        if (core_members_fans_out(core)) {
            core_members_relay(core, entry);
        } else {
            outbox_add(core, entry);
        }
    }
}

/* Performs WAITING actions, in order, up to ticket_done. None while a refused write is outstanding, so that a later write never
 * stands in for an earlier one. */
static void run_waiting(struct node_core *core)
{
    struct core_disk *disk = core->disk;
    disk->waiting_left = disk->refused_count == 0;
    while (disk->waiting_left && core_has_room(core, 700, 1u << 20)) {
        struct core_pending *pending = core_disk_take(core, disk->ticket_done, false);
        if (pending == NULL) {
            disk->waiting_left = false;
            break;
        }
        on_disk_run(core, pending);
        arena_give(&core->arena, pending, sizeof *pending);
    }
}

void on_disk_persisted(struct node_core *core, const struct node_event *event)
{
    struct core_disk *disk = core->disk;
    uint64_t ticket = event->u.persisted.ticket;
    if (ticket > disk->ticket || ticket <= disk->ticket_done) {
        return;
    }
    disk->ticket_done = ticket;
    struct core_pending *pending = core_disk_take(core, ticket, true);
    if (pending != NULL && !event->u.persisted.ok) {
        core_disk_refuse(core, pending);
    } else if (pending != NULL) {
        if (pending->state == CORE_PENDING_RETRYING) {
            MARK(retried_after_refusal);
            CHECK(disk->refused_count > 0);
            disk->refused_count--;
        }
        if (pending->write == CORE_WRITE_RECORD) {
            record_on_disk(core, pending, event->u.persisted.signature);
        }
        run_waiting(core); /* actions with earlier tickets come first */
        on_disk_run(core, pending);
        arena_give(&core->arena, pending, sizeof *pending);
    }
    run_waiting(core);
}

void on_disk_tick(struct node_core *core)
{
    if (core->disk->waiting_left) {
        run_waiting(core);
    }
}

void on_disk_housekeep(struct node_core *core)
{
    struct core_disk *disk = core->disk;
    if (disk->has_unawaited && disk->unawaited_bucket == RECORDS_BUCKETS) {
        disk->has_unawaited = false;
        disk->unawaited_bucket = 0;
    }
    core_disk_persist_unawaited(core);
    if (disk->refused != NULL && core->now_ms >= disk->retry_ms) {
        core_disk_retry(core);
        run_waiting(core);
    }
}

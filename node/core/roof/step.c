/* The step (node/core/core.h): one event in, then everything that follows from it. tick() and settle() are the whole control
 * flow of a node. */

#include <sodium/crypto_generichash.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/coordinator/custom.h"
#include "node/core/copies/acks.h"
#include "node/core/copies/checkpoints.h"
#include "node/core/copies/outputs.h"
#include "node/core/copies/collection.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/addresses.h"
#include "node/core/members/clocks.h"
#include "node/core/members/links.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/twin.h"
#include "node/core/members/programs.h"
#include "node/core/members/versions.h"
#include "node/core/owner/askers.h"
#include "node/core/owner/restart.h"
#include "node/core/owner/own_policy.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/workers.h"
#include "node/core/requests/members.h"
#include "node/core/requests/secrets.h"
#include "node/core/requests/webhooks.h"
#include "node/core/roof/roof.h"

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

static void look_at_memory(struct node_core *core)
{
    size_t free_bytes = core->arena.capacity_bytes - core->arena.used_bytes;
    bool is_short = free_bytes < core->arena.capacity_bytes / (core->memory.is_short ? CORE_MEMORY_ENOUGH : CORE_MEMORY_SHORT);
    if (is_short != core->memory.is_short) {
        core->memory.is_short = is_short;
        TRACE_EVENT(&core->options.trace, event_of_kind(is_short ? EVENT_NODE_MEMORY_FULL : EVENT_NODE_MEMORY_FREE),
                    is_short ? "memory is nearly full: nothing new begins until experiments are deleted"
                    : "memory has room again");
    }
}

/* ---- the machine --------------------------------------------------------------------------------------------------------- */

/* The core and the struct of every room, in one block of the arena. */
struct house {
    struct node_core core;
    struct core_disk disk;
    struct core_members members;
    struct core_quarantine quarantine;
    struct core_twin twin;
    struct core_copies copies;
    struct core_owner owner;
    struct core_coordinator coordinator;
    struct core_requests requests;
    struct core_intake intake;
};

static void furnish(struct house *house)
{
    struct node_core *core = &house->core;
    core->disk = &house->disk;
    core->members = &house->members;
    core->quarantine = &house->quarantine;
    core->twin = &house->twin;
    core->copies = &house->copies;
    core->owner = &house->owner;
    core->coordinator = &house->coordinator;
    core->requests = &house->requests;
    core->intake = &house->intake;
}

struct node_core *node_core_init(const struct node_options *options)
{
    struct arena arena;
    arena_init(&arena, options->memory, options->memory_bytes);
    struct house *house = arena_take(&arena, sizeof *house);
    if (house == NULL) {
        return NULL;
    }
    furnish(house);
    struct node_core *core = &house->core;
    core->options = *options;
    for (uint32_t i = 0; i < options->node.address_count && options->addresses.announced.count == 0; i++) {
        struct fact_address *address = &core->options.addresses.announced.items[i];
        bytes_copy_text(address->text, sizeof address->text, options->node.addresses[i]);
        address->speed = 1000;
    }
    if (core->options.addresses.announced.count == 0) {
        core->options.addresses.announced.count = options->node.address_count;
    }
    core->hooks = (struct core_hooks){.record_put = intake_record_put, .on_disk = on_disk_run};
    core->arena = arena;
    core->arena.reserve_bytes = arena.capacity_bytes / CORE_MEMORY_RESERVE;
    core->now_ms = options->now_ms;
    core->started_ms = options->now_ms;
    core->wall_s = options->wall_s;
    core->housekeep_ms = options->now_ms;
    random_init(&core->random, options->seed);
    core->disk->outbox = arena_take(&core->arena, CORE_OUTBOX_BYTES);
    struct swim_options swim = {
        .self = options->self,
        .seed = random_u64(&core->random),
        .now_ms = options->now_ms,
        .incarnation = (options->boot >> 32) << 16, /* above those of all earlier boots: each has room for 65,536 refutations */
    };
    if (core->disk->outbox == NULL || records_init(&core->records, &core->arena) != 0 ||
        swim_init(&core->members->swim, &swim, &core->arena) != 0) {
        return NULL;
    }
    core->intake->sweep_bucket = RECORDS_BUCKETS;
    core->memory.refold_bucket = RECORDS_BUCKETS;
    core->disk->unawaited_bucket = RECORDS_BUCKETS;
    fanout_init(&core->members->fanout);
    view_init(&core->view, &core->arena, &core->records, options->mesh);
    lease_init(&core->owner->lease, options->node.slot_count);
    return core;
}

static void put_node(struct node_core *core)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_node_pack(&writer, &core->options.node);
    bool is_published;
    (void)core_try_put(core, FACT_NODE, fact_key_empty(), &writer, &is_published);
    core->intake->is_node_unpublished = !is_published;
}

static void put_addresses(struct node_core *core)
{
    uint8_t bytes[FACT_ANNOUNCED_MAX * (FACT_ADDRESS_BYTES + 16) + 16];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_addresses_pack(&writer, &core->options.addresses.announced);
    bool is_published;
    (void)core_try_put(core, FACT_ADDRESSES, fact_key_empty(), &writer, &is_published);
    core->intake->are_addresses_unpublished = !is_published;
}

/* The ADDRESSES record goes last: a reader goes by the newer one of both. */
static void put_own(struct node_core *core)
{
    put_node(core);
    put_addresses(core);
}

static void restate(struct node_core *core)
{
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_RESTATED, core->options.self),
                "other nodes hold newer records of this node than its disk: publishes its node, slots and quarantine again");
    put_own(core);
    links_restate(core);
    core_owner_restate(core);
    core_quarantine_restate(core);
}

static void start(struct node_core *core)
{
    (void)intake_raise_boot(core);
    core->started = true;
    twin_start(core);
    core->started_ms = core->now_ms;
    core->housekeep_ms = core->now_ms;
    core->copies->retention_ms = core->now_ms + CORE_RETENTION_MS; /* much else is to be done before copies are read */
    core_members_start(core);
    put_own(core);
    core_owner_start(core);
    core_quarantine_start(core);
    core_owner_end_deleted(core);
    deletion_stored(core); /* a crash may have interrupted a sweep */
}

static void receive(struct node_core *core, node_id from, const struct message *message, const char *host)
{
    if (node_id_equal(from, core->options.self)) {
        twin_receive(core, message);
        return;
    }
    struct core_peer *peer = core_find_peer(core, from);
    if (peer == NULL || (core->is_out && message->kind != MESSAGE_RECORDS)) {
        core->counters.strangers++;
        return;
    }
    peer->silent_until_ms = peer->boot == message->boot ? peer->silent_until_ms : 0;
    peer->unwilling_ms = peer->boot == message->boot ? peer->unwilling_ms : 0;
    peer->boot = message->boot;
    peer->foreign_version = 0;
    core_members_heard_from(core, peer, host);
    switch (message->kind) {
    case MESSAGE_SWIM:
        twin_overhear(core, peer, message);
        core_members_receive_swim(core, from, message);
        return;
    case MESSAGE_BUCKETS:
    case MESSAGE_KEYS:
    case MESSAGE_PULL:
        core_members_receive_exchange(core, from, message);
        break;
    case MESSAGE_RECORDS:
        (void)intake_take_message(core, from, message);
        break;
    case MESSAGE_STORED:
        if (!core_clocks_receive(core, from, message)) {
            core_ack_stored(core, from, message);
        }
        break;
    case MESSAGE_RESERVE:
    case MESSAGE_CONFIRM:
    case MESSAGE_RENEW:
    case MESSAGE_RELEASE:
    case MESSAGE_GROUP:
        core_owner_receive(core, from, message, core_coordinator_highest(core, message->u.lease.attempt.experiment));
        break;
    case MESSAGE_INCUMBENT_ASK:
    case MESSAGE_INCUMBENT_ANSWER:
    case MESSAGE_RESERVE_ANSWER:
    case MESSAGE_CONFIRM_ANSWER:
    case MESSAGE_STALE:
        core_coordinator_receive(core, from, message);
        break;
    case MESSAGE_TWIN:
        twin_told(core, message);
        break;
    case MESSAGE_KINDS:
        break;
    }
    swim_heard(&core->members->swim, core->now_ms, from);
}

/* In a mesh of a thousand nodes a suspicion begins or ends all the time: so the candidates are made anew only while there is an
 * experiment to coordinate. */
static void refresh_elections(struct node_core *core)
{
    if (core->members->elections_are_stale && core->view.experiment_count > 0) {
        core->members->elections_are_stale = false;
        core_members_update_elections(core);
    }
}

/* Everything that follows from the changes of an event, until nothing changes any more: our own records change the view, too.
 * No room calls the coordinator: a change that concerns an experiment sets `changed`, which is read here. The bound of 16
 * rounds only guards against two rules that undo each other. */
static void settle(struct node_core *core)
{
    for (int round = 0; round < 16; round++) {
        bool busy = false;
        if ((core->view.roster_changed || core->view.nodes_changed) && core_has_room(core, CORE_ROSTER_ROOM + 8, 0)) {
            core->view.roster_changed = false;
            core->view.nodes_changed = false;
            core_members_update_roster(core);
            busy = true;
        }
        standing_update(core);
        if (core->members->changed) {
            core->members->changed = false;
            core->members->elections_are_stale = true;
            refresh_elections(core);
            for (uint32_t i = 0; i < core->view.experiment_count; i++) {
                core->view.experiments[i]->changed = true;
            }
            busy = true;
        }
        if (core->view.slots_changed) {
            core->view.slots_changed = false;
            core_coordinator_slot_freed(core);
        }
        for (uint32_t i = 0; i < core->view.experiment_count && core_has_room(core, 512, 1u << 20); i++) {
            struct view_experiment *experiment = core->view.experiments[i];
            if (experiment->changed) {
                experiment->changed = false;
                (void)view_search_refresh(&core->view, experiment); /* for readers: no record may come for long */
                core_owner_experiment(core, experiment);
                core_coordinator_experiment(core, experiment);
                busy = true;
            }
        }
        if (!busy) {
            return;
        }
    }
}

static void tick(struct node_core *core)
{
    on_disk_tick(core);
    deletion_sweep(core);
    intake_refold(core);
    core_members_tick(core);
    core_owner_tick(core);
    if (core->now_ms < core->housekeep_ms) {
        return;
    }
    core->housekeep_ms = core->now_ms + CORE_HOUSEKEEP_MS;
    core->rotate++;
    bool is_retry = core->rotate % (CORE_STATUS_MS / CORE_HOUSEKEEP_MS) == 0;
    if (core->intake->is_node_unpublished && is_retry) {
        put_node(core);
    }
    if (core->intake->are_addresses_unpublished && is_retry) {
        put_addresses(core);
    }
    if (core_members_catch_up(core)) {
        core_owner_restate(core); /* all records of our slots are known now */
    }
    core_members_housekeep(core);
    core_clocks_housekeep(core);
    core_owner_housekeep(core);
    core_quarantine_housekeep(core);
    core_coordinator_housekeep(core);
    core_checkpoints_housekeep(core);
    core_collection_housekeep(core);
    core_requests_housekeep(core);
    twin_housekeep(core);
    on_disk_housekeep(core);
    intake_housekeep(core);
}

static void step(struct node_core *core, const struct node_event *event)
{
    switch (event->kind) {
    case NODE_EVENT_LOAD_RECORD:
        (void)intake_take(core, event->bytes, event->byte_count, true, NULL);
        break;
    case NODE_EVENT_LOAD_FENCE:
        core_fence_load(core, event->bytes, event->byte_count);
        break;
    case NODE_EVENT_ADOPT:
        core_owner_adopt(core, event);
        break;
    case NODE_EVENT_START:
        start(core);
        break;
    case NODE_EVENT_TICK:
        break;
    case NODE_EVENT_MESSAGE:
        receive(core, event->u.message.from, event->u.message.message, event->u.message.host);
        break;
    case NODE_EVENT_FOREIGN:
        core_versions_foreign(core, event->u.foreign.from, event->u.foreign.version);
        break;
    case NODE_EVENT_MALFORMED:
        core->counters.malformed++;
        break;
    case NODE_EVENT_JOIN:
        core_requests_join(core, event);
        break;
    case NODE_EVENT_PERSISTED:
        on_disk_persisted(core, event);
        break;
    case NODE_EVENT_LINK:
        core_members_link(core, event);
        break;
    case NODE_EVENT_HINT:
        core_members_hint(core, event);
        break;
    case NODE_EVENT_ADDRESSES:
        addresses_own_changed(core, &event->u.addresses);
        if (core->started && !core->is_out) {
            put_own(core);
        }
        break;
    case NODE_EVENT_DOOR:
        core->options.node.door = event->u.door;
        if (core->started && !core->is_out) {
            put_own(core);
        }
        break;
    case NODE_EVENT_REQUEST:
        core_requests_receive(core, event);
        break;
    case NODE_EVENT_PREPARED:
    case NODE_EVENT_WORKER_LISTENS:
    case NODE_EVENT_WORKER_STATUS:
    case NODE_EVENT_WORKER_RESULT:
    case NODE_EVENT_WORKER_STALL:
    case NODE_EVENT_WORKER_EXITED:
        core_owner_worker_event(core, event);
        break;
    case NODE_EVENT_SEARCHER_STARTED:
    case NODE_EVENT_SEARCHER_READY:
    case NODE_EVENT_SEARCHER_ANSWER:
    case NODE_EVENT_SEARCHER_ENDED:
        custom_receive(core, event);
        break;
    case NODE_EVENT_CHECKPOINT:
        if (core_owner_may_save(core, event->u.blob.slot, &event->u.blob.attempt)) {
            core_checkpoints_saved(core, event);
        }
        break;
    case NODE_EVENT_OUTPUT:
        core_outputs_left(core, event);
        break;
    case NODE_EVENT_PUSHED:
        core_checkpoints_pushed(core, event);
        core_ack_pushed(core, event);
        break;
    case NODE_EVENT_CONFIRMED:
        core_collection_confirmed(core, event);
        break;
    case NODE_EVENT_DISK:
        if (core->disk_full != event->u.disk.full) {
            core->disk_full = event->u.disk.full;
            TRACE_EVENT(&core->options.trace, event_of_kind(core->disk_full ? EVENT_NODE_DISK_FULL : EVENT_NODE_DISK_FREE),
                        core->disk_full
                        ? "the disk is full: nothing new is granted, checkpoints wait for room"
                        : "the disk has room again");
        }
        break;
    case NODE_EVENT_SECRET_COPIES:
        requests_secret_copies(core, event);
        break;
    case NODE_EVENT_WEBHOOK_TRIED:
        requests_webhook_tried(core, event);
        break;
    case NODE_EVENT_LOG_MATCHED:
        requests_log_matched(core, event);
        break;
    case NODE_EVENT_KEY:
        twin_key(core, event);
        break;
    case NODE_EVENT_SLOT_BUSY:
        core_owner_busy(core, event->u.busy.slot, event->u.busy.is_busy);
        break;
    case NODE_EVENT_LOOK:
        core_owner_look(core, &event->u.look);
        break;
    case NODE_EVENT_PROGRAMS:
        core_programs_found(core, event->bytes, event->byte_count);
        break;
    }
}

/* Whether this node leases its slots to new attempts in this step. */
static void decide_granting(struct node_core *core)
{
    struct lease *lease = &core->owner->lease;
    lease->granting = !core->leaving && !core->is_out;
    lease->granting &= !core_node_drained(core, core->options.self) ||
                       BUG(grants_while_drained, "a drained node gives no slot");
    lease->granting &= !core->members->syncing ||
                       BUG(grants_unsynced, "a node grants nothing before it has pulled from all who live");
    lease->granting &= !core->disk_full || BUG(grants_on_full_disk, "a node whose disk is full grants nothing");
    lease->granting &= !core->memory.is_short;
}

void node_core_step(struct node_core *core, const struct node_event *event, struct node_effects *out)
{
    CHECK(out->count == 0);
    core->out = out;
    if (event->now_ms > core->now_ms) {
        uint64_t gap_ms = event->now_ms - core->now_ms;
        core->now_ms = event->now_ms;
        if (core->started && gap_ms > CORE_STALL_MS) {
            TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_STALLED, core->options.self),
                        "stalled for %llu ms: nobody is accused for it", (unsigned long long)gap_ms);
            core->woke_ms = core->now_ms;
            stall_shift(core, gap_ms);
            MARK(stalled);
        }
    }
    if (event->wall_s > 0) {
        core->wall_s = event->wall_s;
    }
    step(core, event);
    if (core->started) {
        look_at_memory(core);
        decide_granting(core);
        refresh_elections(core); /* the first experiment may just have come */
        bool is_raised = intake_raise_boot(core);
        if (is_raised || (core->intake->is_misquoted && !core_twin_yields(core->twin))) {
            restate(core);
        }
        core->intake->is_misquoted = false;
        tick(core);
        settle(core);
        on_disk_flush(core);
    }
    core->out = NULL;
}

uint64_t node_core_next_ms(const struct node_core *core)
{
    bool is_busy = core->disk->waiting_left || core->members->roster_is_cut_short ||
                   core->intake->sweep_bucket < RECORDS_BUCKETS || core->memory.refold_bucket < RECORDS_BUCKETS;
    uint64_t next_ms = is_busy ? core->now_ms : core->housekeep_ms;
    uint64_t others[] = {swim_next_ms(&core->members->swim), lease_next_ms(&core->owner->lease),
                         askers_next_ms(core->owner),
                         fanout_next_ms(&core->members->fanout)};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        next_ms = others[i] < next_ms ? others[i] : next_ms;
    }
    return next_ms;
}

int node_core_find_token(const struct node_core *core, lease_token token)
{
#ifdef SHOAL_BUGS
    uint8_t hash[16];
    (void)crypto_generichash(hash, sizeof hash, token.bytes, sizeof token.bytes, NULL, 0);
    bool is_valid_later = BUG(token_after_restart, "a token whose worker was not found after a restart is never valid again");
    for (int i = 0; i < LEASE_SLOTS_MAX && is_valid_later; i++) {
        if (memcmp(core->owner->bug_token_hashes[i], hash, sizeof hash) == 0) {
            return i;
        }
    }
    bool is_valid_elsewhere = BUG(token_of_another, "a token is good at the owner that gave it out, and nowhere else");
    for (uint32_t i = 0; i < core->view.member_count && is_valid_elsewhere; i++) {
        for (uint32_t slot = 0; slot < core->view.members[i]->slot_count; slot++) {
            struct fact_key key = fact_key_slot(slot);
            const struct records_entry *entry =
                records_find(&core->records, record_ident_of(core->view.members[i]->id, FACT_SLOT, key.bytes, key.count));
            struct fact_slot fact;
            if (entry != NULL && fact_slot_read(&entry->record, &fact) == 0 &&
                memcmp(fact.token_hash, hash, sizeof hash) == 0) {
                return (int)slot;
            }
        }
    }
#endif
    return lease_find_token(&core->owner->lease, token);
}

#include <sodium/crypto_generichash.h>

#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/ground/state.h"

/* ---- effects -------------------------------------------------------------------------------------------------------- */

bool core_has_room(const struct node_core *core, uint32_t effects, uint32_t bytes)
{
    return core->out->count + effects <= NODE_EFFECTS_MAX && core->out->used_bytes + bytes <= NODE_EFFECT_BYTES_MAX;
}

struct node_effect *core_effect(struct node_core *core, enum node_effect_kind kind)
{
    CHECK(core->out->count < NODE_EFFECTS_MAX);
    struct node_effect *effect = &core->out->items[core->out->count++];
    memset(effect, 0, sizeof *effect);
    effect->kind = kind;
    return effect;
}

const uint8_t *core_effect_bytes(struct node_core *core, const void *bytes, uint32_t count)
{
    CHECK(count <= NODE_EFFECT_BYTES_MAX - core->out->used_bytes);
    uint8_t *at = core->out->bytes + core->out->used_bytes;
    memcpy(at, bytes, count);
    core->out->used_bytes += count;
    return at;
}

void core_send(struct node_core *core, node_id to, const struct message *message)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_SEND);
    effect->u.send.to = to;
    effect->u.send.message = *message;
    effect->u.send.message.boot = core->options.boot;
}

void core_reply(struct node_core *core, uint64_t client, int code, uint32_t stored_on, const char *text)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_REPLY);
    effect->u.reply.client = client;
    effect->u.reply.code = code;
    effect->u.reply.stored_on = stored_on;
    bytes_copy_text(effect->u.reply.text, sizeof effect->u.reply.text, text);
}

void core_secret(struct node_core *core, uint8_t *out, uint32_t count)
{
    uint8_t input[17];
    bytes_put_u64(input, core->options.boot);
    bytes_put_u64(input + 8, ++core->secrets);
    input[16] = (uint8_t)count;
    (void)crypto_generichash(out, count, input, sizeof input, core->options.secret, sizeof core->options.secret);
}

/* ---- memory ------------------------------------------------------------------------------------------------------------- */

static void look_at_memory(struct node_core *core)
{
    size_t free_bytes = core->arena.capacity_bytes - core->arena.used_bytes;
    bool is_short = free_bytes < core->arena.capacity_bytes / (core->memory_is_short ? CORE_MEMORY_ENOUGH : CORE_MEMORY_SHORT);
    if (is_short != core->memory_is_short) {
        core->memory_is_short = is_short;
        TRACE(&core->options.trace, is_short ? "memory is nearly full: nothing new begins until experiments are deleted"
                                             : "memory has room again");
    }
}

/* What frees memory or ends something, if that is held here and each writer can say it once: so nobody can use the reserve
 * up with what he made up. Of the own disk a tombstone may be read before what it buries. */
static bool may_take_reserve(const struct node_core *core, const struct record *record, bool from_disk)
{
    experiment_id experiment;
    attempt_id attempt;
    struct fact_control control;
    struct fact_worker worker;
    bool is_sound;
    switch (record->kind) {
    case FACT_TOMBSTONE:
    case FACT_CONTROL:
        is_sound = (record->kind == FACT_TOMBSTONE ? fact_tombstone_read(record) : fact_control_read(record, &control)) == 0;
        return from_disk || (is_sound && fact_key_read_experiment(record, &experiment) == 0 &&
                             view_find_experiment(&core->view, experiment) != NULL);
    case FACT_WORKER: /* others can say any number */
        is_sound = node_id_equal(record->writer, core->options.self) && fact_worker_read(record, &worker) == 0 &&
                   worker.state == FACT_WORKER_ENDED;
        return is_sound && fact_key_read_attempt(record, &attempt) == 0 && view_find_attempt(&core->view, &attempt) != NULL;
    case FACT_VERDICT:
        return fact_key_read_attempt(record, &attempt) == 0 && view_find_attempt(&core->view, &attempt) != NULL;
    default:
        return false;
    }
}

/* ---- records ------------------------------------------------------------------------------------------------------------ */

static void after_put(struct node_core *core, struct records_entry *entry)
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
        TRACE(&core->options.trace, "%s writes a record of kind %u with a clock more than %u ahead of all others: it does not count",
              writer != NULL && writer->name[0] != '\0' ? writer->name : "a node", (unsigned)entry->record.kind, LAMPORT_JUMP_MAX);
    }
    entry->is_unfolded = error == ERR_FULL;
    if (entry->is_unfolded) {
        core->has_unfolded = true;
        core->refold_bytes = core->arena.used_bytes - core->arena.used_bytes / CORE_MEMORY_REFOLD;
    }
    if (error != 0) {
        TRACE(&core->options.trace, "a record of kind %u is not understood: %s", (unsigned)entry->record.kind,
              err_name(error));
    }
    if (entry->record.kind == FACT_WORKER) {
        core_quarantine_worker(core, &entry->record);
    } else if (entry->record.kind == FACT_QUARANTINE) {
        core_quarantine_record(core, entry->record.writer, &before);
    } else if (entry->record.kind == FACT_MANIFEST) {
        core_collection_told(core, &entry->record);
    }
    experiment_id deleted;
    if (error == 0 && entry->record.kind == FACT_TOMBSTONE &&
        fact_key_read_experiment(&entry->record, &deleted) == 0) {
        core_deletion_known(core, deleted);
    }
    if (entry->record.kind == FACT_INVITE) {
        struct fact_invite fact;
        if (fact_invite_read(&entry->record, &fact) == 0) {
            struct node_effect *effect = core_effect(core, NODE_EFFECT_ADMIT);
            effect->u.peer.invite = true;
            effect->u.peer.gone = fact.revoked || fact.expires_s <= core->wall_s ||
                                  (writer != NULL && view_member_is_out(writer));
            memcpy(effect->u.peer.public_key, entry->record.key, PUBLIC_KEY_BYTES);
        }
    }
}

void core_fold_again(struct node_core *core, struct records_entry *entry)
{
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= may_take_reserve(core, &entry->record, false);
    entry->is_unfolded = view_apply(&core->view, entry) == ERR_FULL;
    core->arena.takes_reserve = takes_reserve;
}

/* Those that there was no memory to fold, now that some has become free. */
static void refold(struct node_core *core)
{
    for (uint32_t i = 0; i < CORE_SWEEP_BUCKETS && core->refold_bucket < RECORDS_BUCKETS; i++) {
        for (struct records_entry *entry = core->records.buckets[core->refold_bucket], *next; entry != NULL; entry = next) {
            next = entry->next_in_bucket;
            if (!entry->is_unfolded) {
                continue;
            }
            if (!core_has_room(core, 1024, 1u << 20)) {
                return;
            }
            after_put(core, entry); /* where there is no room still, smaller ones behind it may find some */
            if (!entry->is_unfolded && entry->record.kind == FACT_TOMBSTONE) {
                core_deletion_stored(core); /* it may have come to the disk meanwhile */
            }
        }
        core->refold_bucket++;
    }
}

static void refold_housekeep(struct node_core *core)
{
    if (core->has_unfolded && core->refold_bucket == RECORDS_BUCKETS && core->arena.used_bytes <= core->refold_bytes) {
        core->has_unfolded = false;
        core->refold_bucket = 0;
    }
}

static struct core_pending *put_record(struct node_core *core, struct record *record, bool *is_said)
{
    record->version = (struct record_version){core->options.boot, ++core->seq};
    uint8_t envelope[RECORD_ENVELOPE_BYTES_MAX];
    size_t count = record_encode(record, envelope, sizeof envelope);
    CHECK(count > 0);
    struct records_entry *entry;
    int error = records_put(&core->records, envelope, count, false, &entry);
    if (error != 0) {
        core->counters.full++;
        TRACE(&core->options.trace, "a record of kind %u is not kept: %s", (unsigned)record->kind, err_text(error));
        *is_said = false;
        return NULL;
    }
    struct core_pending *pending = core_persist(core, entry);
    after_put(core, entry);
    return pending;
}

struct core_pending *core_try_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                                  const struct pack_writer *body, bool *is_said)
{
    CHECK(!body->failed);
    *is_said = true;
    struct record record = {
        .kind = (uint16_t)kind,
        .writer = core->options.self,
        .key = key.bytes,
        .key_bytes = key.count,
        .body = body->bytes,
        .body_bytes = (uint16_t)body->used_bytes,
    };
    experiment_id about;
    if (fact_is_of_experiment(&record, &about) && core_is_deleted(core, about)) {
        return NULL;
    }
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |= may_take_reserve(core, &record, false);
    struct core_pending *pending = put_record(core, &record, is_said);
    core->arena.takes_reserve = takes_reserve;
    return pending;
}

struct core_pending *core_put(struct node_core *core, enum fact_kind kind, struct fact_key key,
                              const struct pack_writer *body)
{
    bool is_said;
    return core_try_put(core, kind, key, body, &is_said);
}

static void send_stored(struct node_core *core, node_id to, record_ident ident, struct record_version version)
{
    struct message message = {.kind = MESSAGE_STORED};
    message.u.stored.ident = ident;
    message.u.stored.version = version;
    core_send_after_disk(core, to, &message);
}

/* An old disk or none: the mesh holds records of a later boot of this node than its disk knew of. What they say is
 * adopted; what this node says from now on is under a boot above them, or nobody would ever take it. */
static bool raise_boot(struct node_core *core)
{
    if (core->seen_boot < core->options.boot || core->twin.is_yielding || BUG(older_boot_kept, "a node never writes under an older boot than seen")) {
        return false;
    }
    MARK(boot_raised);
    core->options.boot = ((core->seen_boot >> 32) + 1) << 32 | (random_u64(&core->random) & UINT32_MAX);
    core->seq = 0;
    return true;
}

/* A coordinator that comes back with an old disk may judge again what it has judged, and its new word replaces its old one, also
 * where that cannot be read. A completed result must not un-happen by that: whoever holds it says it too, and of all verdicts
 * the best counts. */
static bool undoes_result(const struct node_core *core, const uint8_t *envelope, uint32_t count, struct fact_key *key,
                          struct pack_writer *kept)
{
    struct record record;
    struct fact_verdict fact;
    if (!core->started || record_decode(envelope, count, &record) != 0 || record.kind != FACT_VERDICT ||
        (fact_verdict_read(&record, &fact) == 0 && fact.reason == FACT_COMPLETED)) {
        return false;
    }
    const struct records_entry *held = records_find(
        &core->records, record_ident_of(record.writer, record.kind, record.key, record.key_bytes));
    if (held == NULL || fact_verdict_read(&held->record, &fact) != 0 || fact.reason != FACT_COMPLETED) {
        return false;
    }
    key->count = record.key_bytes;
    memcpy(key->bytes, record.key, record.key_bytes);
    fact_verdict_pack(kept, &fact);
    return !kept->failed;
}

static int take_record(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk,
                       const node_id *stored_to)
{
    struct record given;
    experiment_id about;
    if (!from_disk && record_decode(envelope, count, &given) == 0 && fact_is_of_experiment(&given, &about) &&
        core_is_deleted(core, about)) {
        return ERR_REFUSED;
    }
    struct records_entry *entry;
    struct fact_key key;
    struct pack_writer kept;
    uint8_t kept_bytes[FACT_METRICS_BYTES_MAX + 256];
    pack_writer_init(&kept, kept_bytes, sizeof kept_bytes);
    if (BUG(unknown_kind_dropped, "records of kinds that a node does not know are taken, kept and relayed") && !from_disk &&
        record_decode(envelope, count, &given) == 0 && given.kind > FACT_GENERATION) {
        return ERR_REFUSED;
    }
    bool is_undone = undoes_result(core, envelope, count, &key, &kept) &&
                     !BUG(result_undone, "a result that is known never un-happens");
    const struct core_word word = core_requests_word(core, envelope, count);
    uint8_t altered[RECORD_ENVELOPE_BYTES_MAX];
    if (BUG(relay_alters, "records are relayed byte for byte") && count < sizeof altered) {
        memcpy(altered, envelope, count);
        altered[count - 1] ^= 1;
        envelope = altered;
    }
    int error = records_put(&core->records, envelope, count, true, &entry);
    if (error == ERR_STALE && stored_to != NULL) {
        /* Held already. If it is not on the disk yet nothing is said: whoever waits asks again. */
        struct record record;
        if (record_decode(envelope, count, &record) == 0) {
            record_ident ident = record_ident_of(record.writer, record.kind, record.key, record.key_bytes);
            const struct records_entry *held = records_find(&core->records, ident);
            if (held != NULL && held->on_disk) {
                send_stored(core, *stored_to, ident, held->record.version);
            }
        }
    }
    if (error != 0) {
        core->counters.equivocations += error == ERR_CORRUPT;
        core->counters.malformed += error == ERR_MALFORMED;
        core->counters.full += error == ERR_FULL;
        core->has_unloaded |= error == ERR_FULL && from_disk;
        core->lacked_ms = error == ERR_FULL ? core->now_ms : core->lacked_ms;
        if (error == ERR_CORRUPT && record_decode(envelope, count, &given) == 0) {
            core_quarantine_equivocated(core, given.writer);
        }
        return error;
    }
    entry->on_disk = from_disk;
    if (node_id_equal(entry->record.writer, core->options.self)) {
        core->seen_boot = entry->record.version.boot > core->seen_boot ? entry->record.version.boot : core->seen_boot;
        core->is_misquoted |= core->started;
    }
    if (!from_disk) {
        (void)core_persist(core, entry);
        if (core_members_fans_out(core) && !core->syncing) { /* what a newcomer has to catch up with is news to it alone */
            core_members_relay(core, entry);
        }
        if (stored_to != NULL) {
            send_stored(core, *stored_to, entry->ident, entry->record.version);
        }
    }
    after_put(core, entry);
    if (is_undone) {
        MARK(result_said_again);
        (void)raise_boot(core); /* it may be this node's own word that another life of its, or a copy, has replaced */
        (void)core_put(core, FACT_VERDICT, key, &kept);
    }
    if (word.kind != 0) {
        (void)raise_boot(core);
        core_requests_say_again(core, &word);
    }
    return 0;
}

int core_take_record(struct node_core *core, const uint8_t *envelope, uint32_t count, bool from_disk,
                     const node_id *stored_to)
{
    struct record record;
    bool takes_reserve = core->arena.takes_reserve;
    core->arena.takes_reserve |=
        record_decode(envelope, count, &record) == 0 && may_take_reserve(core, &record, from_disk);
    int error = take_record(core, envelope, count, from_disk, stored_to);
    core->arena.takes_reserve = takes_reserve;
    return error;
}

/* ---- the machine ---------------------------------------------------------------------------------------------------------- */

struct node_core *node_core_init(const struct node_options *options)
{
    struct arena arena;
    arena_init(&arena, options->memory, options->memory_bytes);
    struct node_core *core = arena_take(&arena, sizeof *core);
    if (core == NULL) {
        return NULL;
    }
    core->options = *options;
    core->arena = arena;
    core->arena.reserve_bytes = arena.capacity_bytes / CORE_MEMORY_RESERVE;
    core->now_ms = options->now_ms;
    core->started_ms = options->now_ms;
    core->wall_s = options->wall_s;
    core->housekeep_ms = options->now_ms;
    core->sweep_bucket = RECORDS_BUCKETS;
    core->refold_bucket = RECORDS_BUCKETS;
    core->unawaited_bucket = RECORDS_BUCKETS;
    random_init(&core->random, options->seed);
    core->outbox = arena_take(&core->arena, CORE_OUTBOX_BYTES);
    fanout_init(&core->fanout);
    struct swim_options swim = {
        .self = options->self,
        .seed = random_u64(&core->random),
        .now_ms = options->now_ms,
        .incarnation = (options->boot >> 32) << 16, /* above all of earlier boots, for 65,536 refutations each */
    };
    if (core->outbox == NULL || records_init(&core->records, &core->arena) != 0 ||
        swim_init(&core->swim, &swim, &core->arena) != 0) {
        return NULL;
    }
    view_init(&core->view, &core->arena, &core->records, options->mesh);
    lease_init(&core->lease, options->node.slot_count);
    return core;
}

static void put_node(struct node_core *core)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_node_pack(&writer, &core->options.node);
    bool is_said;
    (void)core_try_put(core, FACT_NODE, fact_key_empty(), &writer, &is_said);
    core->is_node_unsaid = !is_said;
}

static void restate(struct node_core *core)
{
    TRACE(&core->options.trace, "others have newer words of this node than its disk: says anew what is so");
    put_node(core);
    core_owner_restate(core);
    core_quarantine_restate(core);
}

static void start(struct node_core *core)
{
    (void)raise_boot(core);
    core->started = true;
    core_clone_start(core);
    core->started_ms = core->now_ms;
    core->housekeep_ms = core->now_ms;
    core->retention_ms = core->now_ms + CORE_RETENTION_MS; /* copies are not read while there is so much else to do */
    core_members_start(core);
    put_node(core);
    core_owner_start(core);
    core_quarantine_start(core);
    core_owner_end_deleted(core);
    core_deletion_stored(core); /* a crash may have come between a tombstone and the end of what it buries */
}

static void receive(struct node_core *core, node_id from, const struct message *message)
{
    if (node_id_equal(from, core->options.self)) {
        core_clone_receive(core, message);
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
    switch (message->kind) {
    case MESSAGE_SWIM:
        core_clone_overhear(core, peer, message);
        core_members_receive_swim(core, from, message);
        return;
    case MESSAGE_BUCKETS:
    case MESSAGE_KEYS:
    case MESSAGE_PULL:
    case MESSAGE_RECORDS:
        core_members_receive_exchange(core, from, message);
        break;
    case MESSAGE_STORED:
        core_ack_stored(core, from, message);
        break;
    case MESSAGE_RESERVE:
    case MESSAGE_CONFIRM:
    case MESSAGE_RENEW:
    case MESSAGE_RELEASE:
    case MESSAGE_GROUP:
        core_owner_receive(core, from, message);
        break;
    case MESSAGE_INCUMBENT_ASK:
    case MESSAGE_INCUMBENT_ANSWER:
    case MESSAGE_RESERVE_ANSWER:
    case MESSAGE_CONFIRM_ANSWER:
    case MESSAGE_STALE:
        core_coordinator_receive(core, from, message);
        break;
    case MESSAGE_TWIN:
        core_clone_told(core, message);
        break;
    case MESSAGE_KINDS:
        break;
    }
    swim_heard(&core->swim, core->now_ms, from);
}

/* In a mesh of a thousand somebody is suspected or refutes all the time: who may be elected is looked up only while there
 * is something to coordinate. */
static void refresh_elections(struct node_core *core)
{
    if (core->elections_are_stale && core->view.experiment_count > 0) {
        core->elections_are_stale = false;
        core_members_update_elections(core);
    }
}

/* Everything that follows from what an event changed, until nothing does any more. Own records change the view too; the
 * bound only guards against a rule that undoes another. */
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
        core_outcasts_heed(core);
        if (core->members_changed) {
            core->members_changed = false;
            core->elections_are_stale = true;
            refresh_elections(core);
            for (uint32_t i = 0; i < core->view.experiment_count; i++) {
                core->view.experiments[i]->changed = true;
            }
            busy = true;
        }
        for (uint32_t i = 0; i < core->view.experiment_count && core_has_room(core, 512, 1u << 20); i++) {
            struct view_experiment *experiment = core->view.experiments[i];
            if (experiment->changed) {
                experiment->changed = false;
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
    core_disk_tick(core);
    core_deletion_sweep(core);
    refold(core);
    core_members_tick(core);
    core_owner_tick(core);
    if (core->now_ms < core->housekeep_ms) {
        return;
    }
    core->housekeep_ms = core->now_ms + CORE_HOUSEKEEP_MS;
    core->rotate++;
    if (core->is_node_unsaid && core->rotate % (CORE_STATUS_MS / CORE_HOUSEKEEP_MS) == 0) {
        put_node(core);
    }
    core_members_housekeep(core);
    core_owner_housekeep(core);
    core_quarantine_housekeep(core);
    core_coordinator_housekeep(core);
    core_replicas_housekeep(core);
    core_collection_housekeep(core);
    core_requests_housekeep(core);
    core_clone_housekeep(core);
    core_disk_housekeep(core);
    refold_housekeep(core);
}

static void step(struct node_core *core, const struct node_event *event)
{
    switch (event->kind) {
    case NODE_EVENT_LOAD_RECORD:
        (void)core_take_record(core, event->bytes, event->byte_count, true, NULL);
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
        receive(core, event->u.message.from, event->u.message.message);
        break;
    case NODE_EVENT_FOREIGN:
        core_versions_foreign(core, event->u.foreign.from, event->u.foreign.version);
        break;
    case NODE_EVENT_JOIN:
        core_requests_join(core, event);
        break;
    case NODE_EVENT_PERSISTED:
        core_disk_persisted(core, event);
        break;
    case NODE_EVENT_LINK:
        core_members_link(core, event->u.link.peer, event->u.link.refused, event->u.link.open);
        break;
    case NODE_EVENT_REQUEST:
        core_requests_receive(core, event);
        break;
    case NODE_EVENT_PREPARED:
    case NODE_EVENT_WORKER_LISTENS:
    case NODE_EVENT_WORKER_STATUS:
    case NODE_EVENT_WORKER_EXITED:
        core_owner_worker_event(core, event);
        break;
    case NODE_EVENT_CHECKPOINT:
        core_replicas_checkpoint(core, event);
        break;
    case NODE_EVENT_PUSHED:
        core_replicas_pushed(core, event);
        core_ack_pushed(core, event);
        break;
    case NODE_EVENT_CONFIRMED:
        core_collection_confirmed(core, event);
        break;
    case NODE_EVENT_DISK:
        if (core->disk_full != event->u.disk.full) {
            core->disk_full = event->u.disk.full;
            TRACE(&core->options.trace, core->disk_full
                                            ? "the disk is full: nothing new is granted, checkpoints wait for room"
                                            : "the disk has room again");
        }
        break;
    case NODE_EVENT_KEY:
        core_clone_key(core, event);
        break;
    case NODE_EVENT_SLOT_BUSY:
        core_owner_busy(core, event->u.busy.slot, event->u.busy.is_busy);
        break;
    }
}

void node_core_step(struct node_core *core, const struct node_event *event, struct node_effects *out)
{
    CHECK(out->count == 0);
    core->out = out;
    if (event->now_ms > core->now_ms) {
        uint64_t gap_ms = event->now_ms - core->now_ms;
        core->now_ms = event->now_ms;
        if (core->started && gap_ms > CORE_STALL_MS) {
            TRACE(&core->options.trace, "stalled for %llu ms: nobody is accused for it", (unsigned long long)gap_ms);
            core->woke_ms = core->now_ms;
            core_stall_shift(core, gap_ms);
            MARK(stalled);
        }
    }
    if (event->wall_s > 0) {
        core->wall_s = event->wall_s;
    }
    step(core, event);
    if (core->started) {
        look_at_memory(core);
        core->lease.granting = !core->leaving && !core->is_out;
        core->lease.granting &= !core_node_drained(core, core->options.self) || BUG(grants_while_drained, "a drained node gives no slot");
        core->lease.granting &=
            !core->syncing || BUG(grants_unsynced, "a node grants nothing before it has pulled from all who live");
        core->lease.granting &= !core->disk_full || BUG(grants_on_full_disk, "a node whose disk is full grants nothing");
        core->lease.granting &= !core->memory_is_short;
        refresh_elections(core); /* the first experiment may just have come */
        bool is_raised = raise_boot(core);
        if (is_raised || (core->is_misquoted && !core->twin.is_yielding)) {
            restate(core);
        }
        core->is_misquoted = false;
        tick(core);
        settle(core);
        core_outbox_flush(core);
    }
    core->out = NULL;
}

uint64_t node_core_next_ms(const struct node_core *core)
{
    bool is_busy = core->waiting_left || core->roster_is_cut_short || core->sweep_bucket < RECORDS_BUCKETS ||
                   core->refold_bucket < RECORDS_BUCKETS;
    uint64_t next_ms = is_busy ? core->now_ms : core->housekeep_ms;
    uint64_t others[] = {swim_next_ms(&core->swim), lease_next_ms(&core->lease), fanout_next_ms(&core->fanout)};
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
    for (int i = 0; i < LEASE_SLOTS_MAX && BUG(token_after_restart, "a token whose worker was not found after a restart is never valid again");
         i++) {
        if (memcmp(core->bug_token_hashes[i], hash, sizeof hash) == 0) {
            return i;
        }
    }
    for (uint32_t i = 0; i < core->view.member_count && BUG(token_of_another, "a token is good at the owner that gave it out, and nowhere else");
         i++) {
        for (uint32_t slot = 0; slot < core->view.members[i]->slot_count; slot++) {
            struct fact_key key = fact_key_slot(slot);
            const struct records_entry *entry =
                records_find(&core->records, record_ident_of(core->view.members[i]->id, FACT_SLOT, key.bytes, key.count));
            struct fact_slot fact;
            if (entry != NULL && fact_slot_read(&entry->record, &fact) == 0 && memcmp(fact.token_hash, hash, sizeof hash) == 0) {
                return (int)slot;
            }
        }
    }
#endif
    return lease_find_token(&core->lease, token);
}

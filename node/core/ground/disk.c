#include "base/check.h"
#include "base/err.h"
#include "base/probe.h"
#include "node/core/ground/disk.h"
#include "node/core/ground/effects.h"

/* ---- what waits for the disk ------------------------------------------------------------------------------------- */

static const bool MAY_MOVE[CORE_PENDING_STATES][CORE_PENDING_STATES] = {
    [CORE_PENDING_WAITING] = {[CORE_PENDING_WRITING] = true},
    [CORE_PENDING_WRITING] = {[CORE_PENDING_REFUSED] = true},
    [CORE_PENDING_REFUSED] = {[CORE_PENDING_RETRYING] = true},
    [CORE_PENDING_RETRYING] = {[CORE_PENDING_REFUSED] = true},
};

static void pending_move(struct core_pending *pending, enum core_pending_state to)
{
    CHECK(MAY_MOVE[pending->state][to]);
    pending->state = to;
}

static void pending_link(struct node_core *core, struct core_pending *pending)
{
    struct core_disk *disk = core->disk;
    CHECK(disk->pending_last == NULL || disk->pending_last->ticket <= pending->ticket);
    if (disk->pending_last != NULL) {
        disk->pending_last->next = pending;
    } else {
        disk->pending_first = pending;
    }
    disk->pending_last = pending;
}

static struct core_pending *pending_append(struct node_core *core, uint64_t ticket, enum core_action action)
{
    struct core_pending *pending = arena_take(&core->arena, sizeof *pending);
    if (pending == NULL) {
        core->counters.full++;
        TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_MEMORY_FULL),
                    "memory is full: what waits for the disk is forgotten");
        return NULL;
    }
    pending->ticket = ticket;
    pending->action = action;
    pending_link(core, pending);
    return pending;
}

struct core_pending *core_after_disk(struct node_core *core, enum core_action action)
{
    return pending_append(core, core->disk->ticket, action);
}

struct core_pending *core_find_welcome(const struct node_core *core, node_id joiner)
{
    struct core_pending *pending = core->disk->pending_first;
    while (pending != NULL && (pending->action != CORE_ACTION_WELCOME || pending->state != CORE_PENDING_WAITING ||
                               !node_id_equal(pending->node, joiner))) {
        pending = pending->next;
    }
    return pending;
}

static bool says_the_same(const struct message *a, const struct message *b)
{
    if (a->kind != b->kind) {
        return false;
    }
    if (a->kind == MESSAGE_STORED) {
        return record_ident_equal(a->u.stored.ident, b->u.stored.ident) &&
               record_version_compare(a->u.stored.version, b->u.stored.version) == 0;
    }
    bool is_same_asking = a->u.lease.asking == b->u.lease.asking || a->kind == MESSAGE_RESERVE_ANSWER;
    return is_same_asking && attempt_id_equal(&a->u.lease.attempt, &b->u.lease.attempt) && a->u.lease.slot == b->u.lease.slot &&
           a->u.lease.rank == b->u.lease.rank && a->u.lease.code == b->u.lease.code &&
           election_claim_compare(a->u.lease.claim, b->u.lease.claim) == 0;
}

/* The equal message that waits already. While the disk refuses, we answer nothing, so each peer asks again without end: keeping
 * every answer would fill the memory. */
static struct core_pending *find_answer(const struct node_core *core, node_id to, const struct message *message)
{
    struct core_pending *pending = core->disk->refused_count > 0 ? core->disk->pending_first : NULL;
    while (pending != NULL && (pending->action != CORE_ACTION_SEND || !node_id_equal(pending->node, to) ||
                               !says_the_same(&pending->message, message))) {
        pending = pending->next;
    }
    return pending;
}

void core_send_after_disk(struct node_core *core, node_id to, const struct message *message)
{
    struct core_disk *disk = core->disk;
    struct core_pending pending = {.action = CORE_ACTION_SEND, .node = to, .message = *message};
    if ((disk->ticket_done == disk->ticket && disk->refused_count == 0) ||
        BUG(answer_before_disk, "what an answer relies on is on the disk before it is sent")) {
        core->hooks.on_disk(core, &pending);
        return;
    }
    MARK(answer_waits_for_disk);
    struct core_pending *before = find_answer(core, to, message);
    if (before != NULL) {
        before->message = *message; /* a RESERVE_ANSWER may differ in its asking: only the last asking for a slot counts */
        return;
    }
    struct core_pending *kept = pending_append(core, disk->ticket, CORE_ACTION_SEND);
    if (kept != NULL) {
        kept->node = to;
        kept->message = *message;
    }
}

/* ---- fences ------------------------------------------------------------------------------------------------------ */

static struct core_fence *fence_row(struct node_core *core, experiment_id experiment)
{
    struct core_fence **link = &core->disk->fences;
    while (*link != NULL && experiment_id_compare((*link)->experiment, experiment) < 0) {
        link = &(*link)->next;
    }
    if (*link != NULL && experiment_id_equal((*link)->experiment, experiment)) {
        return *link;
    }
    struct core_fence *fence = arena_take(&core->arena, sizeof *fence);
    if (fence != NULL) {
        fence->experiment = experiment;
        fence->next = *link;
        *link = fence;
    }
    return fence;
}

struct election_claim core_fence_get(const struct node_core *core, experiment_id experiment)
{
    for (const struct core_fence *fence = core->disk->fences; fence != NULL; fence = fence->next) {
        if (experiment_id_equal(fence->experiment, experiment)) {
            return fence->claim;
        }
    }
    return (struct election_claim){0};
}

static void fence_effect(struct node_core *core, uint64_t ticket, experiment_id experiment)
{
    struct election_claim claim = core_fence_get(core, experiment);
    uint8_t bytes[64];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    pack_array(&writer, 3);
    pack_bin(&writer, experiment.bytes, sizeof experiment.bytes);
    pack_u64(&writer, claim.term);
    pack_bin(&writer, claim.node.bytes, sizeof claim.node.bytes);
    CHECK(!writer.failed);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PERSIST_FENCE);
    effect->u.persist.ticket = ticket;
    effect->u.persist.key_bytes = sizeof experiment.bytes;
    memcpy(effect->u.persist.key, experiment.bytes, sizeof experiment.bytes);
    effect->bytes = core_effect_bytes(core, bytes, (uint32_t)writer.used_bytes);
    effect->byte_count = (uint32_t)writer.used_bytes;
}

int core_fence_put(struct node_core *core, experiment_id experiment, struct election_claim claim)
{
    struct core_disk *disk = core->disk;
    struct core_fence *fence = fence_row(core, experiment);
    struct core_pending *pending = fence != NULL ? pending_append(core, disk->ticket + 1, CORE_ACTION_NONE) : NULL;
    if (pending == NULL) {
        core->counters.full++;
        return ERR_FULL;
    }
    fence->claim = claim;
    disk->ticket++;
    pending_move(pending, CORE_PENDING_WRITING);
    pending->write = CORE_WRITE_FENCE;
    pending->fenced = experiment;
    fence_effect(core, disk->ticket, experiment);
    return 0;
}

void core_fence_forget(struct node_core *core, experiment_id experiment)
{
    for (struct core_fence **link = &core->disk->fences; *link != NULL; link = &(*link)->next) {
        struct core_fence *fence = *link;
        if (experiment_id_equal(fence->experiment, experiment)) {
            *link = fence->next;
            arena_give(&core->arena, fence, sizeof *fence);
            struct node_effect *effect = core_effect(core, NODE_EFFECT_FORGET_FENCE);
            effect->u.persist.key_bytes = sizeof experiment.bytes;
            memcpy(effect->u.persist.key, experiment.bytes, sizeof experiment.bytes);
            return;
        }
    }
}

void core_fence_load(struct node_core *core, const uint8_t *bytes, uint32_t count)
{
    struct pack_reader reader;
    experiment_id experiment;
    struct election_claim claim;
    pack_reader_init(&reader, bytes, count);
    uint32_t fields = pack_read_array(&reader);
    pack_read_bin_exact(&reader, experiment.bytes, sizeof experiment.bytes);
    claim.term = pack_read_u64(&reader);
    pack_read_bin_exact(&reader, claim.node.bytes, sizeof claim.node.bytes);
    struct core_fence *fence = fields == 3 && pack_at_end(&reader) ? fence_row(core, experiment) : NULL;
    if (fence == NULL) {
        core->counters.malformed++;
        return;
    }
    if (BUG(fence_forgotten, "an owner that restarts still knows the highest term that it obeyed")) {
        return;
    }
    fence->claim = claim;
}

/* ---- records on their way ---------------------------------------------------------------------------------------- */

static void persist_effect(struct node_core *core, const struct records_entry *entry, uint64_t ticket)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PERSIST_RECORD);
    effect->u.persist.ticket = ticket;
    effect->u.persist.own = !entry->published;
    effect->u.persist.key_bytes = sizeof entry->ident.bytes;
    memcpy(effect->u.persist.key, entry->ident.bytes, sizeof entry->ident.bytes);
    effect->bytes = core_effect_bytes(core, entry->envelope, entry->envelope_bytes);
    effect->byte_count = entry->envelope_bytes;
}

struct core_pending *core_persist(struct node_core *core, struct records_entry *entry)
{
    struct core_disk *disk = core->disk;
    uint64_t ticket = ++disk->ticket;
    struct core_pending *pending = pending_append(core, ticket, CORE_ACTION_NONE);
    if (pending != NULL) {
        pending_move(pending, CORE_PENDING_WRITING);
        pending->write = CORE_WRITE_RECORD;
        pending->ident = entry->ident;
        pending->version = entry->record.version;
    }
    entry->is_unawaited = pending == NULL;
    disk->has_unawaited |= entry->is_unawaited;
    persist_effect(core, entry, ticket);
    return pending;
}

/* True if there is memory for a pending write. */
static bool has_memory_to_wait(struct node_core *core)
{
    struct core_pending *pending = arena_take(&core->arena, sizeof *pending);
    arena_give(&core->arena, pending, sizeof *pending);
    return pending != NULL;
}

/* Our own record is published at the end of a write that was waited for. So a record that was written without memory to wait is
 * written again, now that there is memory. */
void core_disk_persist_unawaited(struct node_core *core)
{
    struct core_disk *disk = core->disk;
    for (uint32_t i = 0; i < CORE_SWEEP_BUCKETS && disk->unawaited_bucket < RECORDS_BUCKETS; i++) {
        struct records_entry *entry = core->records.buckets[disk->unawaited_bucket];
        for (; entry != NULL; entry = entry->next_in_bucket) {
            if (!entry->is_unawaited) {
                continue;
            }
            if (!core_has_room(core, 600, 1u << 20) || !has_memory_to_wait(core)) {
                return;
            }
            (void)core_persist(core, entry);
        }
        disk->unawaited_bucket++;
    }
}

static bool has_claim(const struct core_pending *pending, experiment_id experiment)
{
    bool is_found = false;
    for (; pending != NULL && !is_found; pending = pending->next) {
        is_found = pending->action == CORE_ACTION_LED && experiment_id_equal(pending->attempt.experiment, experiment);
    }
    return is_found;
}

bool core_claim_is_awaited(const struct node_core *core, experiment_id experiment)
{
    return has_claim(core->disk->pending_first, experiment) || has_claim(core->disk->refused, experiment);
}

/* ---- refusals ---------------------------------------------------------------------------------------------------- */

static bool is_of_same(const struct core_pending *a, const struct core_pending *b)
{
    return a->write == b->write && (a->write == CORE_WRITE_FENCE ? experiment_id_equal(a->fenced, b->fenced)
                                                                 : record_ident_equal(a->ident, b->ident));
}

/* Of two refused writes of one record or fence: true if `a` is kept, with a newer version, or with an action for the same
 * version. */
static bool stands_for(const struct core_pending *a, const struct core_pending *b)
{
    int order = a->write == CORE_WRITE_FENCE ? 0 : record_version_compare(a->version, b->version);
    return order > 0 || (order == 0 && a->action != CORE_ACTION_NONE);
}

void core_disk_refuse(struct node_core *core, struct core_pending *pending)
{
    struct core_disk *disk = core->disk;
    TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_DISK_FAILED),
                "the disk refused a %s", pending->write == CORE_WRITE_FENCE ? "fence" : "record");
    MARK(disk_refused);
    disk->refused_count += pending->state == CORE_PENDING_WRITING;
    pending_move(pending, CORE_PENDING_REFUSED);
    struct core_pending **link = &disk->refused;
    while (*link != NULL && !is_of_same(*link, pending)) {
        link = &(*link)->next;
    }
    struct core_pending *other = *link;
    if (other != NULL) {
        CHECK(disk->refused_count > 1);
        disk->refused_count--;
        *link = other->next;
        bool is_newer = stands_for(pending, other);
        arena_give(&core->arena, is_newer ? other : pending, sizeof *pending);
        pending = is_newer ? pending : other;
    }
    pending->next = disk->refused;
    disk->refused = pending;
    disk->retry_ms = core->now_ms + CORE_RETRY_MS;
}

struct core_pending *core_disk_take(struct node_core *core, uint64_t ticket, bool is_own_ticket)
{
    struct core_disk *disk = core->disk;
    struct core_pending *before = NULL;
    for (struct core_pending *pending = disk->pending_first; pending != NULL; pending = pending->next) {
        bool has_ticket = pending->write != CORE_WRITE_NONE;
        if (is_own_ticket ? has_ticket && pending->ticket == ticket : !has_ticket && pending->ticket <= ticket) {
            *(before != NULL ? &before->next : &disk->pending_first) = pending->next;
            disk->pending_last = disk->pending_last == pending ? before : disk->pending_last;
            pending->next = NULL;
            return pending;
        }
        before = pending;
    }
    return NULL;
}

/* A retry counts in refused_count until the disk has it. So WAITING actions, which may rely on a refused version, stay until
 * the version or a newer one is on disk, and not just on the way there. */
void core_disk_retry(struct node_core *core)
{
    struct core_disk *disk = core->disk;
    while (disk->refused != NULL && core_has_room(core, 600, 1u << 20)) {
        struct core_pending *pending = disk->refused;
        disk->refused = pending->next;
        bool is_record = pending->write == CORE_WRITE_RECORD;
        const struct records_entry *entry = is_record ? records_find(&core->records, pending->ident) : NULL;
        bool is_overtaken = entry != NULL && record_version_compare(entry->record.version, pending->version) != 0;
        bool is_over = is_record ? entry == NULL || (is_overtaken && entry->on_disk)
                                 : node_id_is_none(core_fence_get(core, pending->fenced).node);
        if (is_over) {
            MARK(refused_version_overtaken);
            CHECK(disk->refused_count > 0);
            disk->refused_count--;
            arena_give(&core->arena, pending, sizeof *pending);
            continue;
        }
        if (is_overtaken) {
            pending->version = entry->record.version;
            pending->action = CORE_ACTION_NONE; /* the action was about the older version */
        }
        pending->next = NULL;
        pending_move(pending, CORE_PENDING_RETRYING);
        pending->ticket = ++disk->ticket;
        pending_link(core, pending);
        if (is_record) {
            persist_effect(core, entry, pending->ticket);
        } else {
            fence_effect(core, pending->ticket, pending->fenced);
        }
    }
    CHECK(core_disk_is_sound(disk));
}

bool core_disk_is_sound(const struct core_disk *disk)
{
    bool is_sound = true;
    uint32_t refused_count = 0;
    const struct core_pending *before = NULL;
    for (const struct core_pending *pending = disk->pending_first; pending != NULL; pending = pending->next) {
        bool has_write = pending->write != CORE_WRITE_NONE;
        uint64_t least = before == NULL ? 0 : before->ticket + has_write; /* each write has a ticket for itself */
        is_sound &= pending->ticket >= least && pending->ticket <= disk->ticket;
        is_sound &= has_write == (pending->state != CORE_PENDING_WAITING) && pending->state != CORE_PENDING_REFUSED;
        refused_count += pending->state == CORE_PENDING_RETRYING;
        before = pending;
    }
    for (const struct core_pending *pending = disk->refused; pending != NULL; pending = pending->next) {
        is_sound &= pending->state == CORE_PENDING_REFUSED && pending->write != CORE_WRITE_NONE;
        refused_count++;
    }
    return is_sound && before == disk->pending_last && refused_count == disk->refused_count;
}

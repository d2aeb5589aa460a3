/* Requests that wait for a second disk (DESIGN 12). The user is answered once the records are on the disks of this node and of
 * one more living node, once no other node lives, or once the time is over; the answer has the number of nodes. The records
 * come from node/core/requests. */

#include "base/err.h"
#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/effects.h"
#include "node/core/members/twin.h"
#include "node/core/members/versions.h"

/* A request with several records has one ack for each record, and is answered with the last. */
static struct core_ack *find_ack(const struct node_core *core, uint64_t client)
{
    struct core_ack *ack = core->copies->acks;
    while (ack != NULL && ack->client != client) {
        ack = ack->next;
    }
    return ack;
}

static void ack_drop(struct node_core *core, struct core_ack *ack)
{
    struct core_ack **link = &core->copies->acks;
    while (*link != ack) {
        link = &(*link)->next;
    }
    *link = ack->next;
    arena_give(&core->arena, ack, sizeof *ack);
}

static void push_blob(struct node_core *core, hash256 blob, node_id to)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PUSH);
    effect->u.push.blob = blob;
    effect->u.push.to = to;
}

static struct core_asked *find_asked(struct core_ack *ack, node_id node)
{
    for (uint32_t i = 0; i < CORE_ACK_ASKED_MAX; i++) {
        if (node_id_equal(ack->asked[i].node, node)) {
            return &ack->asked[i];
        }
    }
    return NULL;
}

/* Puts the node first in the list; a node that was asked before keeps the parts that it has. */
static struct core_asked *asked_first(struct core_ack *ack, node_id node)
{
    const struct core_asked *before = find_asked(ack, node);
    struct core_asked asked = {.node = node};
    asked.pushed = hash256_is_none(ack->blob);
    asked.pushed_too = hash256_is_none(ack->blob_too);
    if (before != NULL) {
        asked = *before;
    }
    uint32_t moved = before != NULL ? (uint32_t)(before - ack->asked) : CORE_ACK_ASKED_MAX - 1;
    memmove(ack->asked + 1, ack->asked, moved * sizeof asked);
    ack->asked[0] = asked;
    return &ack->asked[0];
}

/* Chooses a living node for the second copy, the next node after every two tries, and sends the blobs and the record. */
static void ack_ask(struct node_core *core, struct core_ack *ack)
{
    node_id candidates[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    bool has_blobs = !hash256_is_none(ack->blob); /* drained nodes take records, but no blobs */
    bool is_young = core->now_ms - core->started_ms < CORE_ACK_START_MS;
    bool has_unsure = false; /* some node is soon known to be alive or dead */
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        node_id peer = core->members->peers[i]->id;
        if (has_blobs ? core_node_accepts(core, peer) : core_node_trusted(core, peer) && core_node_speaks(core, peer)) {
            candidates[count++] = peer;
        }
        enum swim_state state = core->members->peers[i]->state;
        has_unsure |= state == SWIM_SUSPECT || (state == SWIM_UNKNOWN && is_young);
    }
    const struct records_entry *entry = records_find(&core->records, ack->ident);
    ack->resend_ms = core->now_ms + CORE_RETRY_MS;
    ack->is_alone = (count == 0 && !has_unsure) || entry == NULL;
    if (count == 0 || entry == NULL) {
        return;
    }
    if (!entry->published || !core_has_room(core, 64, entry->envelope_bytes)) {
        return; /* a newer version is on its way to the disk, and will be sent */
    }
    rendezvous_sort(candidates, count, entry->record.key, entry->record.key_bytes); /* the order of repair_code (code.c) */
    node_id peer = candidates[(ack->tries++ / 2) % count];
    if (!node_id_is_none(ack->asked[0].node) && !node_id_equal(ack->asked[0].node, peer)) {
        MARK(another_second_node_asked);
    }
    const struct core_asked *asked = asked_first(ack, peer);
    if (!asked->pushed) {
        push_blob(core, ack->blob, peer);
    }
    if (!asked->pushed_too) {
        push_blob(core, ack->blob_too, peer);
    }
    if (!asked->record_stored) {
        struct message message = {.kind = MESSAGE_RECORDS, .want_stored = true};
        message.bytes = core_effect_bytes(core, entry->envelope, entry->envelope_bytes);
        message.byte_count = entry->envelope_bytes;
        core_send(core, peer, &message);
    }
}

static bool ack_settle(struct node_core *core, struct core_ack *ack)
{
    if (records_find(&core->records, ack->ident) == NULL) {
        core_reply(core, ack->client, ERR_NOT_FOUND, 0, "The experiment has been deleted meanwhile.");
        ack_drop(core, ack);
        return true;
    }
    bool second = false;
    for (uint32_t i = 0; i < CORE_ACK_ASKED_MAX; i++) {
        second |= ack->asked[i].pushed && ack->asked[i].pushed_too && ack->asked[i].record_stored;
    }
    second |= !node_id_is_none(ack->asked[0].node) &&
              BUG(second_not_awaited, "'on 2 nodes' is said when the second has said so");
    if (!ack->on_disk && core->now_ms < ack->until_ms) {
        return false;
    }
    if (ack->on_disk && !second && !ack->is_alone && core->now_ms < ack->until_ms) {
        return false;
    }
    uint64_t client = ack->client;
    bool has_failed = !ack->on_disk || ack->rest_failed;
    bool is_alone = !second || ack->rest_alone;
    bool already = ack->already, is_leave = ack->is_leave;
    ack_drop(core, ack);
    if (is_leave) {
        core->copies->leave_is_waited = false; /* requests_leave_advance goes on */
        core->copies->leave_stored_on = has_failed || is_alone ? 1 : 2;
        return true;
    }
    struct core_ack *rest = find_ack(core, client);
    if (rest != NULL) {
        rest->rest_failed |= has_failed;
        rest->rest_alone |= is_alone;
    } else if (has_failed) {
        core_reply(core, client, ERR_NO_SPACE, 0,
                   "It could not be written to this node's disk in time and may still begin later: make room in the "
                   "data directory, and look at `shoal ls` before you try again.");
    } else {
        if (is_alone) {
            MARK(acknowledged_on_one);
        }
        core_reply(core, client, 0, is_alone ? 1 : 2, "");
        core->out->items[core->out->count - 1].u.reply.already = already;
    }
    return true;
}

void core_ack_on_disk(struct node_core *core, uint64_t client, record_ident ident, struct record_version version)
{
    struct core_ack *ack = core->copies->acks;
    while (ack != NULL && (ack->client != client || !record_ident_equal(ack->ident, ident))) {
        ack = ack->next;
    }
    if (ack != NULL && record_version_compare(version, ack->version) >= 0) { /* else the record was put again since */
        ack->on_disk = true;
        ack_ask(core, ack);
        (void)ack_settle(core, ack);
    }
}

/* True if the message is about the ack's record. A version above this node's own belongs to another record, which this node's
 * disk has lost. */
static bool is_stored(const struct node_core *core, const struct core_ack *ack, const struct message *message)
{
    if (!record_ident_equal(ack->ident, message->u.stored.ident) ||
        record_version_compare(message->u.stored.version, ack->version) < 0) {
        return false;
    }
    const struct records_entry *entry = records_find(&core->records, ack->ident);
    return entry != NULL && record_version_compare(message->u.stored.version, entry->record.version) <= 0;
}

void core_ack_stored(struct node_core *core, node_id from, const struct message *message)
{
    for (struct core_ack *ack = core->copies->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        struct core_asked *asked = find_asked(ack, from);
        if (asked != NULL && is_stored(core, ack, message)) {
            MARK(second_node_has_stored);
            asked->record_stored = true;
            (void)ack_settle(core, ack);
        }
    }
}

void core_ack_pushed(struct node_core *core, const struct node_event *event)
{
    for (struct core_ack *ack = core->copies->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        struct core_asked *asked = find_asked(ack, event->u.blob.node);
        if (!event->u.blob.ok || asked == NULL) {
            continue;
        }
        asked->pushed |= hash256_equal(ack->blob, event->u.blob.blob);
        asked->pushed_too |= hash256_equal(ack->blob_too, event->u.blob.blob);
        (void)ack_settle(core, ack);
    }
}

uint32_t core_ack_count(const struct node_core *core)
{
    uint32_t count = 0;
    for (const struct core_ack *ack = core->copies->acks; ack != NULL; ack = ack->next) {
        count += !ack->is_leave;
    }
    return count;
}

struct core_ack *core_ack_new(struct node_core *core, uint64_t client, record_ident ident, struct record_version version)
{
    struct core_ack *ack = arena_take(&core->arena, sizeof *ack);
    if (ack == NULL) {
        return NULL;
    }
    ack->client = client;
    ack->ident = ident;
    ack->version = version;
    ack->until_ms = core->now_ms + CORE_ACK_MS;
    ack->on_disk = BUG(acknowledged_before_disk, "what is acknowledged is on the disk of the node that says so");
    ack->next = core->copies->acks;
    core->copies->acks = ack;
    return ack;
}

struct core_ack *core_ack_append(struct node_core *core, uint64_t client, record_ident ident,
                                 struct record_version version, hash256 blob, hash256 blob_too)
{
    if (core_ack_count(core) >= CORE_ACKS_MAX) {
        core_reply(core, client, ERR_AGAIN, 0,
                   "Too many requests wait for a second node; look at what they did, and try again in some seconds.");
        return NULL;
    }
    struct core_ack *ack = core_ack_new(core, client, ident, version);
    if (ack == NULL) {
        core_reply(core, client, ERR_MEMORY, 0,
                   "The daemon has no memory left for new state; delete experiments that are over, and try again.");
        return NULL;
    }
    ack->blob = blob;
    ack->blob_too = blob_too;
    return ack;
}

bool core_ack_begin(struct node_core *core, uint64_t client, struct core_pending *pending, hash256 blob,
                    hash256 blob_too)
{
    if (pending == NULL) {
        core_reply(core, client, ERR_MEMORY, 0,
                   "The daemon has no memory left for new state; delete experiments that are over, and try again.");
        return false;
    }
    if (core_ack_append(core, client, pending->ident, pending->version, blob, blob_too) == NULL) {
        return false;
    }
    pending->action = CORE_ACTION_ACK;
    pending->client = client;
    records_find(&core->records, pending->ident)->is_asked = true;
    return true;
}

void core_acks_renew(struct node_core *core, record_ident ident)
{
    struct records_entry *entry = records_find(&core->records, ident);
    entry->is_asked = true;
    for (struct core_ack *ack = core->copies->acks; ack != NULL; ack = ack->next) {
        if (record_ident_equal(ack->ident, ident)) {
            ack->version = entry->record.version;
            ack->on_disk = false;
        }
    }
}

void core_acks_refuse(struct node_core *core)
{
    while (core->copies->acks != NULL) {
        struct core_ack *ack = core->copies->acks;
        if (ack->is_leave) {
            core->copies->leave_is_waited = false; /* the node leaves all the same: no peer will take the record */
        } else {
            core_reply(core, ack->client, ERR_REFUSED, 0,
                       core_twin_yields(core->twin)
                           ? "This node found another with its key while this was on its way to a second node; ask again there."
                           : "This node was evicted from the mesh while this was on its way to a second node.");
        }
        ack_drop(core, ack);
    }
}

void core_ack_housekeep(struct node_core *core)
{
    for (struct core_ack *ack = core->copies->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        const struct records_entry *entry = records_find(&core->records, ack->ident);
        ack->on_disk |= entry != NULL && entry->on_disk;
        if (!ack_settle(core, ack) && ack->on_disk && core->now_ms >= ack->resend_ms) {
            ack_ask(core, ack);
            (void)ack_settle(core, ack);
        }
    }
}

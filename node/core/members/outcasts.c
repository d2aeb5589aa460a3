/* Nodes that are out of the mesh: no member listens to an outcast, and each outcast is told why. */

#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/ground/effects.h"
#include "node/core/members/outcasts.h"

struct core_outcast *outcasts_find(const struct node_core *core, node_id id)
{
    struct core_outcast *outcast = core->members->outcasts;
    while (outcast != NULL && !node_id_equal(outcast->id, id)) {
        outcast = outcast->next;
    }
    return outcast;
}

struct farewell {
    node_id about;
    bool about_it; /* evictions of the outcast itself come first, then the rest: a node that vouched for it may be out, too */
    uint32_t count;
    uint8_t bytes[EXCHANGE_MESSAGE_BYTES_MAX];
};

static bool farewell_entry(void *context, const struct records_entry *entry)
{
    struct farewell *farewell = context;
    bool about_it = entry->record.kind == FACT_EVICTION && entry->record.key_bytes == NODE_ID_BYTES &&
                    memcmp(entry->record.key, farewell->about.bytes, NODE_ID_BYTES) == 0;
    bool wanted = entry->record.kind == FACT_EVICTION && entry->published && about_it == farewell->about_it;
    if (wanted && entry->envelope_bytes <= sizeof farewell->bytes - farewell->count) {
        memcpy(farewell->bytes + farewell->count, entry->envelope, entry->envelope_bytes);
        farewell->count += entry->envelope_bytes;
    }
    return true;
}

static void link_begin(struct node_core *core, struct core_outcast *outcast)
{
    const struct view_member *member = view_find_member(&core->view, outcast->id);
    outcast->has_link = true;
    outcast->link_ms = core->now_ms;
    if (member != NULL && member->has_node && member->address_count > 0) {
        struct core_peer unknown = {.id = outcast->id};
        members_set_address(core, &unknown, member->public_key, member->addresses[0]);
    }
}

static void link_end(struct node_core *core, struct core_outcast *outcast)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PEER);
    effect->u.peer.node = outcast->id;
    effect->u.peer.gone = true;
    outcast->has_link = false;
}

static uint32_t link_count(const struct node_core *core)
{
    uint32_t count = 0;
    for (const struct core_outcast *outcast = core->members->outcasts; outcast != NULL; outcast = outcast->next) {
        count += outcast->has_link;
    }
    return count;
}

/* Any number of nodes may be out, and connections are for members first. So outcasts take turns: the one without a connection
 * for longest is next, in place of the one with the oldest connection. */
void outcasts_take_turns(struct node_core *core)
{
    struct core_outcast *oldest = NULL, *next = NULL;
    for (struct core_outcast *outcast = core->members->outcasts; outcast != NULL; outcast = outcast->next) {
        struct core_outcast **first = outcast->has_link ? &oldest : &next;
        if (*first == NULL || outcast->link_ms < (*first)->link_ms) {
            *first = outcast;
        }
    }
    if (next == NULL || core->is_out || !core_has_room(core, 64, 0)) {
        return;
    }
    if (link_count(core) >= CORE_OUTCAST_LINKS_MAX) {
        if (core->now_ms - oldest->link_ms < CORE_OUTCAST_LINK_MS) {
            return;
        }
        link_end(core, oldest);
    }
    link_begin(core, next);
    next->tell_ms = core->now_ms + CORE_FAREWELL_MS; /* the connection takes a while */
}

/* An outcast cannot answer, since no member lets it in. So a few members repeat the farewell, seldom and for ever: the machine
 * may come back in a year. */
void outcasts_bid_farewell(struct node_core *core, struct core_outcast *outcast)
{
    if (!outcast->has_link || core->now_ms < outcast->tell_ms || core->is_out ||
        !core_has_room(core, 64, EXCHANGE_MESSAGE_BYTES_MAX)) {
        return;
    }
    uint64_t own = rendezvous_weight(core->options.self, outcast->id.bytes, NODE_ID_BYTES);
    uint32_t before = 0;
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        before += peer->state == SWIM_ALIVE && rendezvous_weight(peer->id, outcast->id.bytes, NODE_ID_BYTES) > own;
    }
    outcast->tell_ms = core->now_ms + (outcast->told_count < CORE_FAREWELLS ? CORE_FAREWELL_MS : CORE_FAREWELL_LATE_MS);
    if (before >= CORE_FAREWELL_TELLERS && outcast->told_count > 0) {
        return; /* every member sends the first farewell, a few send the rest */
    }
    struct farewell farewell = {.about = outcast->id, .about_it = true};
    records_each(&core->records, farewell_entry, &farewell);
    farewell.about_it = false;
    records_each(&core->records, farewell_entry, &farewell);
    if (farewell.count == 0) {
        outcast->tell_ms = core->now_ms; /* our own eviction is on its way to the disk */
        return;
    }
    outcast->told_count++;
    struct message message = {.kind = MESSAGE_RECORDS};
    message.bytes = core_effect_bytes(core, farewell.bytes, farewell.count);
    message.byte_count = farewell.count;
    core_send(core, outcast->id, &message);
}

struct void_invites {
    struct node_core *core;
    node_id writer;
};

static bool void_invite(void *context, const struct records_entry *entry)
{
    const struct void_invites *invites = context;
    if (entry->record.kind == FACT_INVITE && entry->record.key_bytes == PUBLIC_KEY_BYTES &&
        node_id_equal(entry->record.writer, invites->writer) && core_has_room(invites->core, 64, 0)) {
        struct node_effect *effect = core_effect(invites->core, NODE_EFFECT_ADMIT);
        effect->u.peer.invite = true;
        effect->u.peer.gone = true;
        memcpy(effect->u.peer.public_key, entry->record.key, PUBLIC_KEY_BYTES);
    }
    return true;
}

/* From now on nothing of the node comes in, and its work counts as lost. */
bool outcasts_shut_out(struct node_core *core, const struct view_member *member)
{
    struct core_outcast *outcast = arena_take(&core->arena, sizeof *outcast);
    if (outcast == NULL) {
        core->counters.full++;
        return false;
    }
    outcast->id = member->id;
    outcast->tell_ms = core->now_ms;
    bool may_link = link_count(core) < CORE_OUTCAST_LINKS_MAX;
    struct core_outcast **link = &core->members->outcasts;
    while (*link != NULL && node_id_compare((*link)->id, outcast->id) < 0) {
        link = &(*link)->next;
    }
    outcast->next = *link;
    *link = outcast;
    struct core_peer *peer = core_find_peer(core, member->id);
    struct void_invites invites = {core, member->id};
    records_each(&core->records, void_invite, &invites);
    if (peer == NULL) { /* out since before this boot */
        if (may_link) {
            link_begin(core, outcast);
        }
        return true;
    }
    if (may_link) {
        outcast->has_link = true;
        outcast->link_ms = core->now_ms;
    } else {
        link_end(core, outcast);
    }
    struct node_effect *effect = core_effect(core, NODE_EFFECT_ADMIT);
    effect->u.peer.node = member->id;
    effect->u.peer.gone = true;
    memcpy(effect->u.peer.public_key, member->public_key, PUBLIC_KEY_BYTES);
    (void)swim_member_remove(&core->members->swim, member->id);
    members_drop_peer(core, peer);
    const struct view_member *evictor = member->evicted ? view_find_member(&core->view, member->evictor) : NULL;
    if (evictor != NULL) {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EVICTED, member->id),
                    "%s is evicted by %s", view_label(&core->view, member->id).text,
                    view_label(&core->view, evictor->id).text);
    } else {
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EVICTED, member->id),
                    "nobody's word for %s stands any more: it is out",
                    view_label(&core->view, member->id).text);
    }
    return true;
}

void outcasts_take_back(struct node_core *core, node_id id)
{
    for (struct core_outcast **link = &core->members->outcasts; *link != NULL; link = &(*link)->next) {
        if (node_id_equal((*link)->id, id)) {
            struct core_outcast *outcast = *link;
            *link = outcast->next;
            arena_give(&core->arena, outcast, sizeof *outcast);
            return;
        }
    }
}

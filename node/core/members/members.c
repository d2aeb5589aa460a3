#include "base/check.h"
#include "base/probe.h"
#include "node/core/ground/effects.h"
#include "node/core/members/addresses.h"
#include "node/core/members/links.h"
#include "node/core/members/outcasts.h"
#include "node/core/members/quarantine.h"
#include "node/core/members/versions.h"

/* ---- peers -------------------------------------------------------------------------------------------------------------- */

static uint32_t peer_position(const struct node_core *core, node_id id)
{
    const struct core_members *members = core->members;
    uint32_t low = 0, high = members->peer_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (node_id_compare(members->peers[middle]->id, id) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct core_peer *core_find_peer(const struct node_core *core, node_id id)
{
    const struct core_members *members = core->members;
    uint32_t at = peer_position(core, id);
    return at < members->peer_count && node_id_equal(members->peers[at]->id, id) ? members->peers[at] : NULL;
}

static struct core_peer *peer_add(struct node_core *core, node_id id)
{
    struct core_members *members = core->members;
    if (members->peer_count >= NODE_MEMBERS_MAX) {
        return NULL;
    }
    if (members->peer_count == members->peer_slots) {
        uint32_t wanted = members->peer_slots == 0 ? 16 : members->peer_slots * 2;
        void *bigger = arena_grow(&core->arena, members->peers, members->peer_slots * sizeof(void *), wanted * sizeof(void *));
        if (bigger == NULL) {
            return NULL;
        }
        members->peers = bigger;
        members->peer_slots = wanted;
    }
    struct core_peer *peer = arena_take(&core->arena, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    peer->id = id;
    uint32_t at = peer_position(core, id);
    memmove(members->peers + at + 1, members->peers + at, (members->peer_count - at) * sizeof *members->peers);
    members->peers[at] = peer;
    members->peer_count++;
    return peer;
}

void members_drop_peer(struct node_core *core, struct core_peer *peer)
{
    struct core_members *members = core->members;
    uint32_t at = peer_position(core, peer->id);
    CHECK(at < members->peer_count && members->peers[at] == peer);
    memmove(members->peers + at, members->peers + at + 1, (members->peer_count - at - 1) * sizeof *members->peers);
    members->peer_count--;
    addresses_drop_all(core, peer);
    arena_give(&core->arena, peer, sizeof *peer);
}

void members_set_address(struct node_core *core, struct core_peer *peer, const uint8_t public_key[PUBLIC_KEY_BYTES],
                         const char *address)
{
    if (address[0] == '\0' || strcmp(peer->address, address) == 0) {
        return;
    }
    bytes_copy_text(peer->address, sizeof peer->address, address);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PEER);
    effect->u.peer.node = peer->id;
    memcpy(effect->u.peer.public_key, public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(effect->u.peer.address, sizeof effect->u.peer.address, address);
}

/* ---- the roster ---------------------------------------------------------------------------------------------------------- */

void core_members_update_roster(struct node_core *core)
{
    struct core_members *members = core->members;
    members->roster_is_cut_short = false;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        const struct view_member *member = core->view.members[i];
        if (node_id_equal(member->id, core->options.self)) {
            continue;
        }
        bool is_out = view_member_is_out(member) && !BUG(evicted_is_admitted, "who is evicted is shut out");
        if (is_out && outcasts_find(core, member->id) == NULL) {
            if (!core_has_room(core, 128, 0) || !outcasts_shut_out(core, member)) {
                core->view.roster_changed = true;
                return;
            }
            members->changed = true;
        }
        if (!member->admitted) {
            continue;
        }
        outcasts_take_back(core, member->id);
        struct core_peer *peer = core_find_peer(core, member->id);
        if (peer == NULL) {
            peer = peer_add(core, member->id);
            if (peer != NULL && swim_member_add(&members->swim, core->now_ms, member->id) != 0) {
                members_drop_peer(core, peer);
                peer = NULL;
            }
            if (peer == NULL) {
                core->counters.full++;
                continue;
            }
            TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_JOINED, member->id),
                        "%s is on the roster", view_label(&core->view, member->id).text);
            members->changed = true;
        }
        if (!core_has_room(core, CORE_ROSTER_ROOM, 0)) {
            core->view.roster_changed = true;
            members->roster_is_cut_short = true;
            return;
        }
        if (!peer->admitted) {
            peer->admitted = true;
            struct node_effect *effect = core_effect(core, NODE_EFFECT_ADMIT);
            effect->u.peer.node = member->id;
            memcpy(effect->u.peer.public_key, member->public_key, PUBLIC_KEY_BYTES);
        }
        if (!core->is_out) {
            addresses_announced(core, peer, member);
        }
    }
    members->changed = true;
}

void core_members_update_elections(struct node_core *core)
{
    struct core_members *members = core->members;
    uint32_t wanted = members->peer_count + 1;
    if (wanted > members->election_member_slots) {
        uint32_t slots = wanted * 2;
        void *bigger = arena_grow(&core->arena, members->election_members,
                                  members->election_member_slots * sizeof *members->election_members,
                                  slots * sizeof *members->election_members);
        if (bigger == NULL) {
            core->counters.full++;
            return;
        }
        members->election_members = bigger;
        members->election_member_slots = slots;
    }
    uint32_t count = 0, row = 0;
    bool self_done = false;
    for (uint32_t i = 0; i <= members->peer_count; i++) {
        bool self_is_next = !self_done && (i == members->peer_count ||
                                           node_id_compare(core->options.self, members->peers[i]->id) < 0);
        if (self_is_next) {
            members->election_members[count++] = (struct election_member){
                .node = core->options.self,
                .alive = !core->leaving && !core->is_out,
                .drained = core_node_drained(core, core->options.self),
                .up_since_ms = core->started_ms};
            self_done = true;
        }
        if (i < members->peer_count) {
            const struct core_peer *peer = members->peers[i];
            while (row < core->view.member_count && node_id_compare(core->view.members[row]->id, peer->id) < 0) {
                row++; /* both are sorted by id */
            }
            const struct view_member *member =
                row < core->view.member_count && node_id_equal(core->view.members[row]->id, peer->id)
                    ? core->view.members[row]
                    : NULL;
            bool left = member != NULL && member->left;
            members->election_members[count++] = (struct election_member){
                .node = peer->id,
                .alive = !left && (peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT),
                .drained = member != NULL && view_member_drain(member).drained,
                .up_since_ms = peer->up_since_ms};
        }
    }
    members->election_member_count = count;
}

bool core_node_alive(const struct node_core *core, node_id node)
{
    if (node_id_equal(node, core->options.self)) {
        return true;
    }
    const struct core_peer *peer = core_find_peer(core, node);
    return peer != NULL && (peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT);
}

bool core_node_trusted(const struct node_core *core, node_id node)
{
    if (node_id_equal(node, core->options.self)) {
        return !core->leaving && !core->is_out;
    }
    const struct core_peer *peer = core_find_peer(core, node);
    const struct view_member *member = view_find_member(&core->view, node);
    return peer != NULL && peer->state == SWIM_ALIVE && member != NULL && !member->left;
}

bool core_node_drained(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member != NULL && view_member_drain(member).drained;
}

bool core_node_accepts(const struct node_core *core, node_id node)
{
    return core_node_trusted(core, node) && core_node_speaks(core, node) && !core_node_drained(core, node);
}

bool core_node_knows(const struct node_core *core, node_id node, uint64_t reads)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return node_id_equal(node, core->options.self) || (member != NULL && (member->reads & reads) == reads);
}

bool core_node_reads(const struct node_core *core, node_id node, const struct view_experiment *experiment)
{
    bool is_plain = !experiment->is_large && experiment->config->max_slots <= FACT_MEMBERS_PLAIN;
    uint64_t wanted = (is_plain ? 0 : FACT_READS_LARGE) | (experiment->needs_search ? FACT_READS_SEARCH : 0) |
                      (view_experiment_is_extended(experiment) || experiment->config->begin_from[0] != '\0' ? FACT_READS_EXTENSION : 0) |
                      (experiment->is_drawn ? FACT_READS_DRAWN : 0) | (experiment->needs_promotion ? FACT_READS_PROMOTION : 0) |
                      (experiment->config->searcher == SEARCH_PBT ? FACT_READS_POPULATION : 0) |
                      (experiment->is_drawn && experiment->needs_promotion ? FACT_READS_DRAWN_PROMOTION : 0) |
                      (config_needs_secrets(experiment->config) ? FACT_READS_SECRETS : 0) |
                      (config_needs_waits(experiment->config) ? FACT_READS_WAITS : 0) |
                      (experiment->has_sets ? FACT_READS_PARTS : 0) | (experiment->is_custom ? FACT_READS_CUSTOM : 0);
    return core_node_knows(core, node, wanted);
}

/* Records of a node in step come here as they are written, and no earlier record of the node is still to come. So a record's
 * arrival tells when the thing happened, by our own clock. (The wall clocks of two machines may be hours apart, and tell
 * nothing: DESIGN 5.) Records loaded from our disk before the start are no news. */
bool core_node_in_step(const struct node_core *core, node_id node)
{
    const struct core_peer *peer = core_find_peer(core, node);
    if (peer == NULL || (peer->state != SWIM_ALIVE && peer->state != SWIM_SUSPECT)) {
        return false;
    }
    uint64_t since_ms = peer->up_since_ms > core->woke_ms ? peer->up_since_ms : core->woke_ms;
    return peer->synced || core->now_ms - since_ms >= CORE_SYNC_PATIENCE_MS;
}

static bool peer_refuses(const struct node_core *core, const struct core_peer *peer)
{
    return peer->refused_since_ms != 0 && core->now_ms - peer->refused_since_ms >= CORE_REFUSED_MS;
}

bool core_node_lost(const struct node_core *core, node_id node, uint64_t patience_ms)
{
    if (node_id_equal(node, core->options.self)) {
        return false;
    }
    const struct core_peer *peer = core_find_peer(core, node);
    if (peer == NULL || peer->state == SWIM_LEFT) {
        return true; /* not on the roster, or the node has announced its leave */
    }
    if (peer->state == SWIM_UNKNOWN) {
        /* Not seen since we started: counts as silent since then. */
        return peer_refuses(core, peer) || core->now_ms - core->started_ms >= patience_ms;
    }
    if (peer->state != SWIM_DEAD) {
        return false;
    }
    if (peer_refuses(core, peer)) {
        return true;
    }
    if (peer->refused_since_ms != 0) {
        MARK(host_there_daemon_gone);
        return false; /* the host is there, so there is no partition: wait for CORE_REFUSED_MS */
    }
    if (core->now_ms - peer->died_ms < CORE_REFUTE_MS) {
        return false; /* when a partition heals, either side first hears rumours that its own nodes are dead */
    }
    uint32_t before = 1, together = 0; /* we were alive */
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *other = core->members->peers[i];
        bool is_dead = other->state == SWIM_DEAD;
        /* Nodes that are back count too: when a partition heals, nodes come back one by one. */
        bool was_dead = is_dead || (other->died_ms != 0 && other->up_since_ms >= peer->died_ms);
        bool died_near = was_dead && other->died_ms + CORE_SILENT_TOGETHER_MS >= peer->died_ms &&
                         other->died_ms <= peer->died_ms + CORE_SILENT_TOGETHER_MS;
        /* A node that is cut off loses the mesh one node at a time: when the first is declared dead, the rest are suspect
         * already, or suspect again. */
        bool is_suspect = other->state == SWIM_SUSPECT;
        bool alive_then = other->state == SWIM_ALIVE || is_suspect || died_near ||
                          (is_dead && other->died_ms > peer->died_ms);
        before += alive_then;
        together += (died_near && other->fell_silent) || (is_suspect && other->refused_since_ms == 0);
    }
    if (together * 2 < before || BUG(no_patience, "what may run beyond a cut is waited for")) {
        return true;
    }
    if (core->now_ms - peer->died_ms >= patience_ms) {
        MARK(patience_over);
    }
    return core->now_ms - peer->died_ms >= patience_ms;
}

/* ---- membership --------------------------------------------------------------------------------------------------------- */

static void check_addresses(struct node_core *core, struct core_peer *peer)
{
    uint32_t left = CORE_CHECK_LINKS_MAX;
    addresses_doubt(peer);
    addresses_check(core, peer, &left);
}

static enum event_kind state_kind(enum swim_state state)
{
    static const enum event_kind kinds[SWIM_STATE_COUNT] = {[SWIM_ALIVE] = EVENT_NODE_ALIVE,
                                                            [SWIM_SUSPECT] = EVENT_NODE_SUSPECT,
                                                            [SWIM_DEAD] = EVENT_NODE_DEAD,
                                                            [SWIM_LEFT] = EVENT_NODE_LEFT};
    return kinds[state];
}

static void perform_swim(struct node_core *core)
{
    struct core_members *members = core->members;
    for (size_t i = 0; i < members->swim_effects.count; i++) {
        const struct swim_effect *effect = &members->swim_effects.items[i];
        struct core_peer *peer = core_find_peer(core, effect->node);
        if (peer == NULL) {
            continue;
        }
        if (effect->kind == SWIM_SEND) {
            if (!core_has_room(core, 64, 0) || core->is_out) {
                continue; /* as if lost */
            }
            struct message message = {.kind = MESSAGE_SWIM};
            message.hash = core->records.hash;
            message.u.swim = effect->message;
            if (peer->state != SWIM_ALIVE) {
                bytes_copy_text(message.address, sizeof message.address, addresses_introduction(core));
            }
            core_send(core, peer->id, &message);
            continue;
        }
        TRACE_EVENT(&core->options.trace, event_of_node(state_kind(effect->new_state), peer->id),
                    "%s is %s", view_label(&core->view, peer->id).text, swim_state_name(effect->new_state));
        peer->state = effect->new_state;
        members->changed = true;
        bool was_there = effect->old_state == SWIM_ALIVE || effect->old_state == SWIM_SUSPECT;
        if (!was_there && (effect->new_state == SWIM_ALIVE || effect->new_state == SWIM_SUSPECT)) {
            peer->up_since_ms = core->now_ms;
            peer->synced = false;
        }
        switch (effect->new_state) {
        case SWIM_ALIVE:
            peer->refused_since_ms = 0;
            check_addresses(core, peer);
            if (effect->old_state == SWIM_DEAD && core->now_ms - peer->died_ms < CORE_REFUTE_MS) {
                peer->died_ms = 0; /* a rumour: the peer never was dead */
                peer->fell_silent = false;
            }
            break;
        case SWIM_SUSPECT:
            check_addresses(core, peer);
            break;
        case SWIM_DEAD:
            peer->died_ms = core->now_ms;
            peer->fell_silent = peer->refused_since_ms == 0;
            core_quarantine_died(core, peer->id);
            check_addresses(core, peer);
            break;
        case SWIM_LEFT:
        case SWIM_UNKNOWN:
            break;
        }
    }
    members->swim_effects.count = 0;
}

/* Up to CORE_DIRECT_NODES, and while syncing, we send a digest to every peer whose digest differs. In a larger mesh a change
 * under way makes most nodes differ from most peers for a moment. There one digest in CORE_SYNC_PEER_MS has to do, and a node
 * with fresh news waits once for as long, since the peers are about to hear the news too. */
static bool digest_may_go(const struct node_core *core)
{
    const struct core_members *members = core->members;
    return members->syncing || !core_members_fans_out(core) || members->digest_ms == 0 ||
           core->now_ms - members->digest_ms >= CORE_SYNC_PEER_MS;
}

void core_members_receive_swim(struct node_core *core, node_id from, const struct message *message)
{
    struct core_members *members = core->members;
    struct core_peer *peer = core_find_peer(core, from);
    if (peer->state != SWIM_ALIVE && core_has_room(core, 64, 0)) {
        addresses_hear(core, peer, message->address, CORE_ADDRESS_HEARD);
    }
    if (swim_receive(&members->swim, core->now_ms, from, &message->u.swim, &members->swim_effects) != 0) {
        core->counters.malformed++;
        return;
    }
    perform_swim(core);
    bool same = records_hash_equal(core->records.hash, message->hash);
    peer->synced |= same;
    if (BUG(gap_never_pulled, "a digest that differs is followed by an exchange")) {
        peer->synced = true;
        return;
    }
    members->digest_is_put_off &= !same;
    if (!same && (peer->digest_ms == 0 || core->now_ms - peer->digest_ms >= CORE_SYNC_PEER_MS) &&
        digest_may_go(core) && core_has_room(core, 64, EXCHANGE_BUCKETS_BYTES)) {
        peer->digest_ms = core->now_ms;
        members->digest_ms = core->now_ms;
        members->digest_is_put_off = false;
        uint8_t buckets[EXCHANGE_BUCKETS_BYTES];
        exchange_buckets(&core->records, buckets);
        struct message digest = {.kind = MESSAGE_BUCKETS};
        digest.bytes = core_effect_bytes(core, buckets, sizeof buckets);
        digest.byte_count = sizeof buckets;
        core_send(core, from, &digest);
    }
}

/* ---- fan-out ------------------------------------------------------------------------------------------------------------- */

/* Nodes that live, ourselves included. */
static size_t count_living(const struct node_core *core)
{
    const struct swim *swim = &core->members->swim;
    return swim_state_count(swim, SWIM_ALIVE) + swim_state_count(swim, SWIM_SUSPECT) + 1;
}

bool core_members_fans_out(const struct node_core *core)
{
    return count_living(core) > CORE_DIRECT_NODES;
}

void core_members_relay(struct node_core *core, const struct records_entry *entry)
{
    struct core_members *members = core->members;
    fanout_add(&members->fanout, entry->ident, fanout_rounds((uint32_t)count_living(core)));
    if (!members->digest_is_put_off && core->now_ms - members->digest_ms >= CORE_SYNC_PEER_MS) {
        members->digest_is_put_off = true;
        members->digest_ms = core->now_ms;
    }
}

/* Draws different living peers at random: up to FANOUT_PEERS, fewer if few live. */
static uint32_t pick_peers(struct node_core *core, const struct core_peer *picked[FANOUT_PEERS])
{
    const struct core_members *members = core->members;
    uint32_t count = 0;
    for (uint32_t tries = 0; tries < 16 * FANOUT_PEERS && count < FANOUT_PEERS && members->peer_count > 0; tries++) {
        const struct core_peer *peer = members->peers[random_below(&core->random, members->peer_count)];
        bool fits = peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT;
        for (uint32_t i = 0; i < count; i++) {
            fits &= peer != picked[i];
        }
        if (fits) {
            picked[count++] = peer;
        }
    }
    return count;
}

static void relay_round(struct node_core *core)
{
    struct core_members *members = core->members;
    if (core->now_ms < fanout_next_ms(&members->fanout) || !core_has_room(core, 64, FANOUT_BYTES_MAX)) {
        return;
    }
    uint8_t out[FANOUT_BYTES_MAX];
    uint32_t count = fanout_round(&members->fanout, core->now_ms, &core->records, out, sizeof out);
    if (count == 0) {
        return;
    }
    const struct core_peer *picked[FANOUT_PEERS];
    uint32_t picked_count = pick_peers(core, picked);
    struct message message = {.kind = MESSAGE_RECORDS};
    message.bytes = core_effect_bytes(core, out, count);
    message.byte_count = count;
    for (uint32_t i = 0; i < picked_count; i++) {
        core_send(core, picked[i]->id, &message);
    }
}

/* ---- time ---------------------------------------------------------------------------------------------------------------- */

void core_members_tick(struct node_core *core)
{
    relay_round(core);
    if (core->members->links_changed) {
        core->members->links_changed = false;
        links_housekeep(core);
    }
    if (core->now_ms < swim_next_ms(&core->members->swim)) {
        return;
    }
    swim_tick(&core->members->swim, core->now_ms, &core->members->swim_effects);
    perform_swim(core);
}

void core_members_link(struct node_core *core, const struct node_event *event)
{
    struct core_peer *peer = core_find_peer(core, event->u.link.peer);
    if (peer != NULL && core_has_room(core, 64, 0)) {
        addresses_link(core, peer, event);
        core->members->links_changed = true;
    }
}

void core_members_hint(struct node_core *core, const struct node_event *event)
{
    struct core_peer *peer = core_find_peer(core, event->u.hint.node);
    if (peer != NULL && core_has_room(core, 64, 0)) {
        addresses_hear(core, peer, event->u.hint.address, CORE_ADDRESS_HINT);
    }
}

void core_members_heard_from(struct node_core *core, struct core_peer *peer, const char *host)
{
    if (host != NULL && host[0] != '\0' && core_has_room(core, 64, 0)) {
        addresses_heard_from(core, peer, host);
    }
}

static void sync_progress(struct node_core *core)
{
    struct core_members *members = core->members;
    uint64_t up_ms = core->now_ms - core->started_ms;
    uint32_t alive = 0, synced = 0;
    for (uint32_t i = 0; i < members->peer_count; i++) {
        const struct core_peer *peer = members->peers[i];
        bool is_alive = peer->state == SWIM_ALIVE || peer->state == SWIM_SUSPECT;
        if (is_alive && core_node_speaks(core, peer->id)) { /* we can pull nothing from a node of another version */
            alive++;
            synced += peer->synced;
        }
    }
    bool is_filling = members->filling_ms != 0 && core->now_ms - members->filling_ms < CORE_SYNC_FILLING_MS &&
                      up_ms < CORE_SYNC_FILLING_MAX_MS;
    bool is_late = (alive > 0 && up_ms >= CORE_SYNC_PATIENCE_MS) || up_ms >= CORE_SYNC_ALONE_MS;
    bool done = members->peer_count == 0 || (alive > 0 && synced == alive) || (is_late && !is_filling);
    if (done && alive == 0 && members->peer_count > 0) {
        MARK(started_alone);
    }
    if (done && alive > 0 && synced < alive) {
        MARK(started_out_of_step);
    }
    if (done) {
        members->syncing = false;
        members->changed = true;
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_IN_STEP, core->options.self),
                    "in step with %u of %u other nodes: may grant and coordinate", alive,
                    members->peer_count);
    }
}

/* Checks the addresses that are due. If many are due at once the peers take turns. */
static void check_links(struct node_core *core)
{
    struct core_members *members = core->members;
    uint32_t left = CORE_CHECK_LINKS_MAX, from = members->check_from;
    for (uint32_t i = 0; i < members->peer_count && left > 0; i++) {
        uint32_t before = left;
        addresses_check(core, members->peers[(from + i) % members->peer_count], &left);
        if (left < before) {
            members->check_from = (from + i + 1) % members->peer_count;
        }
    }
}

bool core_members_catch_up(struct node_core *core)
{
    if (!core->members->syncing) {
        return false;
    }
    sync_progress(core);
    return !core->members->syncing;
}

void core_members_housekeep(struct node_core *core)
{
    struct core_members *members = core->members;
    outcasts_take_turns(core);
    for (struct core_outcast *outcast = members->outcasts; outcast != NULL; outcast = outcast->next) {
        outcasts_bid_farewell(core, outcast);
    }
    check_links(core);
    links_housekeep(core);
    members->changed |= swim_state_count(&members->swim, SWIM_DEAD) > 0; /* time alone makes a dead node count as lost */
    /* Elections prefer nodes that have been up for a while: time alone changes the order, too. */
    members->changed |= core->now_ms - core->started_ms < 2 * ELECTION_UP_MS;
}

void core_members_start(struct node_core *core)
{
    core->members->syncing = true;
    core_members_update_roster(core);
    core->view.roster_changed = core->members->roster_is_cut_short;
    sync_progress(core);
}

void core_members_leave(struct node_core *core)
{
    swim_leave(&core->members->swim, core->now_ms, &core->members->swim_effects);
    perform_swim(core);
}

/* ---- exchange ------------------------------------------------------------------------------------------------------------ */

static void send_bytes(struct node_core *core, node_id to, enum message_kind kind, const uint8_t *bytes, size_t count)
{
    if (count == 0 || !core_has_room(core, 64, (uint32_t)count)) {
        return; /* the digests still differ, so another exchange follows */
    }
    struct message message = {.kind = kind};
    message.bytes = core_effect_bytes(core, bytes, (uint32_t)count);
    message.byte_count = (uint32_t)count;
    core_send(core, to, &message);
}

void core_members_receive_exchange(struct node_core *core, node_id from, const struct message *message)
{
    uint8_t out[EXCHANGE_MESSAGE_BYTES_MAX];
    uint8_t pull[EXCHANGE_PULL_BYTES_MAX];
    size_t out_bytes = 0, pull_bytes = 0;
    struct core_peer *peer = core_find_peer(core, from);
    int error = 0;
    switch (message->kind) {
    case MESSAGE_BUCKETS:
        error = exchange_on_buckets(&core->records, message->bytes, message->byte_count, core->rotate, out, sizeof out,
                                    &out_bytes);
        if (error == 0) {
            send_bytes(core, from, MESSAGE_KEYS, out, out_bytes);
        }
        break;
    case MESSAGE_KEYS:
        error = exchange_on_keys(&core->records, message->bytes, message->byte_count, &peer->send_from, pull, sizeof pull,
                                 &pull_bytes, out, sizeof out, &out_bytes);
        if (error == 0) {
            send_bytes(core, from, MESSAGE_PULL, pull, pull_bytes);
            send_bytes(core, from, MESSAGE_RECORDS, out, out_bytes);
            peer->synced |= pull_bytes == 0 && exchange_keys_are_all(message->bytes, message->byte_count);
        }
        break;
    default: /* MESSAGE_PULL */
        error = exchange_on_pull(&core->records, message->bytes, message->byte_count, &peer->send_from, out, sizeof out,
                                 &out_bytes);
        if (error == 0) {
            send_bytes(core, from, MESSAGE_RECORDS, out, out_bytes);
        }
        break;
    }
    core->counters.malformed += error != 0;
}

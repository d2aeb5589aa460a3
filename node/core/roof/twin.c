/* Two daemons with one key: a data directory or a machine's image was copied, and both copies run (DESIGN 5). Each of the two
 * is the other's twin. members/twin.h has the states and moves.
 *
 * How the two find each other. Peers connect to one of the two only, at the address in the newest node record. That daemon
 * hears and answers. The other one is deaf: like any node with silent peers, it tells every peer its address. A member that
 * hears such an address of a node, and knows the node alive at another address, tells the node (MESSAGE_TWIN, `life` 0). This
 * proves nothing yet: a message from before a restart may come late.
 *
 * Proof. The node then connects to that address with its own key. A message that comes in under our own key, and not from our
 * own boot, proves that both daemons live now: the sender had to find our socket, which is as old as our boot. No message of an
 * earlier boot can do so, since the data directory is locked until the earlier daemon has ended. Both tell each other their
 * first boot (`life`). Boots are raised (intake_raise_boot), first boots are not, so both compare the same two numbers.
 *
 * Giving way. The daemon with the larger first boot does so, unless the twin announces the same already. (A late message of the
 * twin's earlier boot, or a third copy, may make both give way: then the smaller goes on.) To give way is to grant and
 * coordinate nothing any more, end all workers, have a new key made, and vouch for the new key: the last record under the old
 * key. Once the twin has the voucher on disk, and no worker is left, the daemon becomes the node of the new key. Until then
 * the boot is not raised, so no record written meanwhile replaces a record of the twin. The two never write one version, since
 * the boots of two daemons differ. If the twin falls silent before the voucher is stored, the daemon goes on as before.
 *
 * The daemon that stays raises its boot above the twin's, and tells its address to every peer that does not answer.
 *
 * Known weakness: until the two find each other, seconds after they can, both may coordinate one experiment under one (term,
 * node id). A twin that no member can connect to is never found: it hears no peer, and grants slots to itself only. Nor is a twin
 * that knows the address of no member which it can reach, as on a copy of a disk that was made before the mesh was known. If all
 * nodes that were told of the new key are lost before the rest of the mesh has heard, no member lets the new node in; as after
 * any join whose sponsor is lost at once, the node has to be invited again, with an empty directory. */

#include "base/check.h"
#include "base/probe.h"
#include "node/core/coordinator/coordinator.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/addresses.h"
#include "node/core/members/twin.h"
#include "node/core/owner/slots.h"
#include "node/core/owner/workers.h"
#include "node/core/roof/roof.h"

static const char *own_address(const struct node_core *core)
{
    return core->options.node.address_count > 0 ? core->options.node.addresses[0] : "";
}

static const bool MAY_MOVE[CORE_TWIN_STATES][CORE_TWIN_STATES] = {
    [CORE_TWIN_NONE] = {[CORE_TWIN_ASKED] = true, [CORE_TWIN_STAYS] = true, [CORE_TWIN_KEY_ASKED] = true},
    [CORE_TWIN_ASKED] = {[CORE_TWIN_NONE] = true,
                         [CORE_TWIN_ASKED] = true,
                         [CORE_TWIN_STAYS] = true,
                         [CORE_TWIN_KEY_ASKED] = true},
    [CORE_TWIN_STAYS] = {[CORE_TWIN_NONE] = true, [CORE_TWIN_STAYS] = true, [CORE_TWIN_KEY_ASKED] = true},
    [CORE_TWIN_KEY_ASKED] = {[CORE_TWIN_STAYS] = true, [CORE_TWIN_KEY_ASKED] = true, [CORE_TWIN_VOUCHED] = true},
    [CORE_TWIN_VOUCHED] = {[CORE_TWIN_STAYS] = true, [CORE_TWIN_KEY_ASKED] = true, [CORE_TWIN_STORED] = true},
    [CORE_TWIN_STORED] = {[CORE_TWIN_KEY_ASKED] = true, [CORE_TWIN_BECOMES] = true},
};

static void twin_move(struct core_twin *twin, enum core_twin_state to)
{
    CHECK(MAY_MOVE[twin->state][to]);
    twin->state = to;
}

/* ---- how the two find each other ---------------------------------------------------------------------------------------- */

void twin_start(struct node_core *core)
{
    core->first_boot = core->options.boot;
    struct node_effect *effect = core_effect(core, NODE_EFFECT_ADMIT);
    effect->u.peer.node = core->options.self;
    memcpy(effect->u.peer.public_key, core->options.public_key, PUBLIC_KEY_BYTES);
}

void twin_overhear(struct node_core *core, struct core_peer *peer, const struct message *message)
{
    /* A node has several addresses: those in the record of the boot that speaks are its own. */
    const struct view_member *member = view_find_member(&core->view, peer->id);
    bool is_its_own = member != NULL && member->announced_boot == message->boot &&
                      addresses_is_announced(peer, message->address) && addresses_is_announced(peer, peer->address);
    bool is_elsewhere = message->address[0] != '\0' && peer->address[0] != '\0' && peer->state == SWIM_ALIVE &&
                        strcmp(message->address, peer->address) != 0 && !is_its_own;
    bool is_told = peer->twin_told_ms != 0 && core->now_ms - peer->twin_told_ms < CORE_TWIN_TELL_MS;
    if (!is_elsewhere || is_told || !core_has_room(core, 64, 0)) {
        return;
    }
    peer->twin_told_ms = core->now_ms;
    struct message told = {.kind = MESSAGE_TWIN};
    bytes_copy_text(told.u.twin.address, sizeof told.u.twin.address, message->address);
    core_send(core, peer->id, &told);
}

static void connect_twin(struct node_core *core, const char *address)
{
    struct core_twin *twin = core->twin;
    if (address[0] == '\0' || (twin->has_link && strcmp(twin->address, address) == 0)) {
        return;
    }
    twin->has_link = true;
    bytes_copy_text(twin->address, sizeof twin->address, address);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_PEER);
    effect->u.peer.node = core->options.self;
    memcpy(effect->u.peer.public_key, core->options.public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(effect->u.peer.address, sizeof effect->u.peer.address, address);
}

static void say(struct node_core *core)
{
    core->twin->told_ms = core->now_ms;
    struct message message = {.kind = MESSAGE_TWIN};
    message.u.twin.life = core->first_boot;
    message.u.twin.is_yielding = core_twin_yields(core->twin);
    bytes_copy_text(message.u.twin.address, sizeof message.u.twin.address, own_address(core));
    core_send(core, core->options.self, &message);
}

void twin_told(struct node_core *core, const struct message *message)
{
    struct core_twin *twin = core->twin;
    bool is_asking = core->now_ms < twin->ask_until_ms;
    if (addresses_is_own(core, message->u.twin.address) || is_asking || twin->life != 0 || core->leaving ||
        !core_has_room(core, 64, 0)) {
        return;
    }
    MARK(twin_overheard);
    twin_move(twin, CORE_TWIN_ASKED);
    twin->ask_until_ms = core->now_ms + CORE_TWIN_ASK_MS;
    connect_twin(core, message->u.twin.address);
    say(core);
}

/* ---- giving way --------------------------------------------------------------------------------------------------------- */

static void ask_for_key(struct node_core *core)
{
    core->twin->key_ms = core->now_ms;
    core_effect(core, NODE_EFFECT_NEW_KEY)->u.new_key.afresh = core->twin->is_key_used;
}

/* A new key may have lain on the disk for long: we gave way once, then went on as before, and a user evicted the node of the
 * new key, which never ran; or another copy of the disk has become that node. */
static bool is_used(const struct node_core *core, const uint8_t public_key[PUBLIC_KEY_BYTES])
{
    const struct view_member *member = view_find_member(&core->view, node_id_of_key(public_key));
    return member != NULL && (member->evicted || member->has_node);
}

static void take_another_key(struct node_core *core)
{
    MARK(new_key_was_used);
    twin_move(core->twin, CORE_TWIN_KEY_ASKED);
    core->twin->is_key_used = true;
    ask_for_key(core);
}

static void yield(struct node_core *core)
{
    MARK(twin_yields);
    twin_move(core->twin, CORE_TWIN_KEY_ASKED);
    core->is_out = true;
    core->members->changed = true;
    core->owner->lease.granting = false;
    TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                "THIS NODE'S KEY IS IN USE TWICE: a daemon on a copy of this data directory runs at %s; this one gives way",
                core->twin->address);
    TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                "its workers end; then it gets a new key, which the old one vouches for, and goes on as another node");
    core_coordinator_out(core);
    core_owner_out(core);
    core_acks_refuse(core);
    ask_for_key(core);
}

static void stay(struct node_core *core, uint64_t boot)
{
    struct core_intake *intake = core->intake;
    twin_move(core->twin, CORE_TWIN_STAYS);
    TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                "THIS NODE'S KEY IS IN USE TWICE: a daemon on a copy of this data directory runs at %s; that one gives way "
                "and becomes another node",
                core->twin->address);
    intake->seen_boot = boot > intake->seen_boot ? boot : intake->seen_boot; /* intake_raise_boot goes above it */
}

static void go_on(struct node_core *core)
{
    twin_move(core->twin, CORE_TWIN_STAYS);
    core->is_out = false; /* standing_update sets it again if we are out for another reason */
    core->members->changed = true;
    core->view.roster_changed = true;
}

static void hear_twin(struct node_core *core, const struct message *message)
{
    struct core_twin *twin = core->twin;
    uint64_t life = message->u.twin.life;
    if (life == 0 || life == core->first_boot || core->leaving || (core->is_out && !core_twin_yields(twin))) {
        return; /* our own message, come back through an address of ours; or we are on our way out */
    }
    bool is_new = twin->life != life;
    twin->life = life;
    twin->heard_ms = core->now_ms;
    twin->ask_until_ms = core->now_ms + CORE_TWIN_ASK_MS; /* a twin that gives way repeats that twice a second until the end */
    connect_twin(core, message->u.twin.address);
    bool yields = life < core->first_boot && !message->u.twin.is_yielding;
    yields &= !BUG(clone_goes_on, "of two daemons with one key the larger yields");
    bool both_yield = BUG(both_yield, "of two daemons with one key one stays");
    yields |= both_yield;
    bool may_go_on = twin->state == CORE_TWIN_KEY_ASKED || twin->state == CORE_TWIN_VOUCHED;
    if (may_go_on && message->u.twin.is_yielding && life > core->first_boot && !both_yield) {
        TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                    "the other daemon with this key gives way as well: this one goes on as it was");
        go_on(core);
        stay(core, message->boot);
    } else if (!core_twin_yields(twin) && yields) {
        yield(core);
    } else if (!core_twin_yields(twin) && is_new) {
        stay(core, message->boot);
    }
    CHECK(twin->state >= CORE_TWIN_STAYS); /* `life` is set now; if not new, it was set before */
    if (is_new || core->now_ms - twin->told_ms >= CORE_TWIN_ANSWER_MS) {
        say(core);
    }
}

void twin_receive(struct node_core *core, const struct message *message)
{
    struct core_twin *twin = core->twin;
    if (!core_has_room(core, 128, 0)) {
        return; /* the sender repeats it */
    }
    if (message->kind == MESSAGE_TWIN) {
        hear_twin(core, message);
    } else if (message->kind == MESSAGE_RECORDS && twin->state == CORE_TWIN_STAYS) {
        (void)intake_take_message(core, core->options.self, message);
    } else if (message->kind == MESSAGE_STORED && twin->state >= CORE_TWIN_VOUCHED) {
        struct fact_key key = fact_key_node_id(node_id_of_key(twin->public_key));
        record_ident ident = record_ident_of(core->options.self, FACT_MEMBER, key.bytes, key.count);
        if (twin->state == CORE_TWIN_VOUCHED && record_ident_equal(ident, message->u.stored.ident)) {
            twin_move(twin, CORE_TWIN_STORED);
        }
    } else {
        core->counters.strangers++;
    }
}

/* ---- the other node ----------------------------------------------------------------------------------------------------- */

static const struct records_entry *own_entry(const struct node_core *core, enum fact_kind kind, struct fact_key key)
{
    return records_find(&core->records, record_ident_of(core->options.self, (uint16_t)kind, key.bytes, key.count));
}

/* Vouches for the new key, unless a voucher of an earlier boot is here. */
void twin_key(struct node_core *core, const struct node_event *event)
{
    struct core_twin *twin = core->twin;
    if (twin->state != CORE_TWIN_KEY_ASKED || !event->u.key.ok) {
        return;
    }
    if (is_used(core, event->u.key.public_key)) {
        take_another_key(core);
        return;
    }
    struct fact_key key = fact_key_node_id(node_id_of_key(event->u.key.public_key));
    if (own_entry(core, FACT_MEMBER, key) == NULL) {
        struct fact_member fact = {{0}, {0}, {0}};
        memcpy(fact.public_key, event->u.key.public_key, PUBLIC_KEY_BYTES);
        bytes_copy_text(fact.name, sizeof fact.name, core->options.node.name);
        uint8_t bytes[256];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        fact_member_pack(&writer, &fact);
        if (core_put(core, FACT_MEMBER, key, &writer) == NULL) {
            return;
        }
    }
    twin_move(twin, CORE_TWIN_VOUCHED);
    memcpy(twin->public_key, event->u.key.public_key, PUBLIC_KEY_BYTES);
}

static void send_record(struct node_core *core, node_id to, const struct records_entry *entry, const uint8_t *bytes,
                        bool want_stored)
{
    struct message message = {.kind = MESSAGE_RECORDS, .want_stored = want_stored};
    message.bytes = bytes;
    message.byte_count = entry->envelope_bytes;
    core_send(core, to, &message);
}

/* Sends a record to every peer, or only to peers that are not alive. */
static void tell_peers(struct node_core *core, const struct records_entry *entry, bool absent_only)
{
    if (!core_has_room(core, core->members->peer_count + 64, entry->envelope_bytes)) {
        return;
    }
    const uint8_t *bytes = core_effect_bytes(core, entry->envelope, entry->envelope_bytes);
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        if (!absent_only || core->members->peers[i]->state != SWIM_ALIVE) {
            send_record(core, core->members->peers[i]->id, entry, bytes, false);
        }
    }
}

static void housekeep_yielding(struct node_core *core)
{
    struct core_twin *twin = core->twin;
    bool has_key = twin->state == CORE_TWIN_VOUCHED || twin->state == CORE_TWIN_STORED;
    if (has_key && is_used(core, twin->public_key)) {
        take_another_key(core);
    } else if (twin->state == CORE_TWIN_KEY_ASKED && core->now_ms - twin->key_ms >= CORE_RETRY_MS) {
        ask_for_key(core);
    }
    struct fact_key key = fact_key_node_id(node_id_of_key(twin->public_key));
    const struct records_entry *voucher = twin->state >= CORE_TWIN_VOUCHED ? own_entry(core, FACT_MEMBER, key) : NULL;
    if (voucher != NULL && voucher->published && core_has_room(core, 64, voucher->envelope_bytes)) {
        tell_peers(core, voucher, false);
        const uint8_t *bytes = core_effect_bytes(core, voucher->envelope, voucher->envelope_bytes);
        send_record(core, core->options.self, voucher, bytes, true);
    }
    bool is_idle = core_owner_idle(core) || BUG(becomes_too_soon, "who becomes another node has ended its workers");
    if (twin->state >= CORE_TWIN_STORED && voucher != NULL && voucher->on_disk && is_idle && core->disk->refused_count == 0) {
        if (twin->state == CORE_TWIN_STORED) {
            TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                        "the other daemon has stored this one's voucher: becomes another node");
            twin_move(twin, CORE_TWIN_BECOMES);
        }
        struct node_effect *effect = core_effect(core, NODE_EFFECT_BECOME);
        effect->u.become.node = node_id_of_key(twin->public_key);
        bytes_copy_text(effect->u.become.address, sizeof effect->u.become.address, twin->address);
    }
}

void twin_housekeep(struct node_core *core)
{
    struct core_twin *twin = core->twin;
    if (!twin->has_link || !core_has_room(core, 256, 0)) {
        return;
    }
    bool may_go_on = twin->state == CORE_TWIN_KEY_ASKED || twin->state == CORE_TWIN_VOUCHED;
    if (may_go_on && core->now_ms - twin->heard_ms >= CORE_TWIN_SILENT_MS) {
        MARK(twin_gone);
        TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_TWIN),
                    "the other daemon with this key has been silent for %u s: this one goes on as it was",
                    CORE_TWIN_SILENT_MS / 1000);
        go_on(core);
    }
    if (core_twin_yields(twin)) {
        say(core);
        housekeep_yielding(core);
    } else if (core->now_ms >= twin->ask_until_ms) {
        twin_move(twin, CORE_TWIN_NONE);
        *twin = (struct core_twin){.state = CORE_TWIN_NONE};
        struct node_effect *effect = core_effect(core, NODE_EFFECT_PEER);
        effect->u.peer.node = core->options.self;
        effect->u.peer.gone = true;
    } else if (twin->state == CORE_TWIN_ASKED) {
        say(core);
    } else {
        const struct records_entry *node = own_entry(core, FACT_NODE, fact_key_empty());
        if (node != NULL && node->published) {
            tell_peers(core, node, true);
        }
    }
}

/* Requests about members of the mesh: invites, evictions, nodes that join, this node's leave (DESIGN 11). The effect of these
 * records on every node is in node/core/view/ and node/core/members/. */

#include "base/check.h"
#include "base/err.h"
#include "node/core/copies/acks.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/clocks.h"
#include "node/core/members/members.h"
#include "node/core/owner/slots.h"
#include "node/core/requests/members.h"

#define WELCOME_FIRST_MAX 256

static const hash256 no_blob = {{0}};

/* ---- invites ------------------------------------------------------------------------------------------------------- */

void requests_invite(struct node_core *core, const struct node_event *event)
{
    struct fact_invite fact = {.expires_s = event->u.request.expires_s};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_invite_pack(&writer, &fact);
    (void)core_ack_begin(core, event->u.request.client,
                         core_put(core, FACT_INVITE, fact_key_public_key(event->u.request.public_key), &writer), no_blob,
                         no_blob);
}

bool core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES])
{
    struct fact_key key = fact_key_public_key(invite_key);
    uint64_t wall_s = core_mesh_wall_s(core);
    bool valid = false;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        record_ident ident = record_ident_of(core->view.members[i]->id, FACT_INVITE, key.bytes, key.count);
        const struct records_entry *entry = records_find(&core->records, ident);
        struct fact_invite fact;
        if (entry == NULL || fact_invite_read(&entry->record, &fact) != 0) {
            continue;
        }
        if (fact.revoked || fact.expires_s <= wall_s) {
            return false;
        }
        valid |= core->view.members[i]->admitted;
    }
    return valid;
}

void requests_revoke(struct node_core *core, const struct node_event *event)
{
    struct fact_key key = fact_key_public_key(event->u.request.public_key);
    const struct records_entry *own =
        records_find(&core->records, record_ident_of(core->options.self, FACT_INVITE, key.bytes, key.count));
    struct fact_invite fact = {0}; /* without a time, if the invite is another node's */
    if (own != NULL) {
        (void)fact_invite_read(&own->record, &fact);
    }
    fact.revoked = true;
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_invite_pack(&writer, &fact);
    (void)core_ack_begin(core, event->u.request.client, core_put(core, FACT_INVITE, key, &writer), no_blob, no_blob);
}

/* ---- evicting ------------------------------------------------------------------------------------------------------------ */

/* The eviction's list is full: vouch for the remaining members ourselves, so that they are not evicted along with their
 * sponsor. */
static void vouch_again(struct node_core *core, const struct view_statement *voucher)
{
    struct fact_member fact;
    if (fact_member_read(&voucher->entry->record, &fact) != 0 || !core_has_room(core, 600, 1u << 20)) {
        return;
    }
    memset(fact.nonce, 0, sizeof fact.nonce);
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_member_pack(&writer, &fact);
    (void)core_put(core, FACT_MEMBER, fact_key_node_id(voucher->about), &writer);
}

/* Lists the members for which `evicted` vouched. If we are among them there always is room for us, since
 * an eviction that puts out its own author helps no node. */
static void list_vouched(struct node_core *core, node_id evicted, struct fact_eviction *fact)
{
    const struct view_statements *vouchers = &core->view.vouchers;
    uint32_t room = FACT_STANDING_MAX - 1;
    struct view_statement beyond[NODE_MEMBERS_MAX];
    uint32_t beyond_count = 0;
    for (uint32_t i = 0; i < vouchers->count; i++) {
        const struct view_statement *voucher = &vouchers->items[i];
        if (!voucher->is_readable || !node_id_equal(voucher->writer, evicted) || node_id_equal(voucher->about, evicted)) {
            continue;
        }
        if (node_id_equal(voucher->about, core->options.self)) {
            fact->standing[fact->standing_count++] = voucher->about; /* ascending, as the vouchers are */
        } else if (room > 0) {
            room--;
            fact->standing[fact->standing_count++] = voucher->about;
        } else if (beyond_count < NODE_MEMBERS_MAX) {
            beyond[beyond_count++] = *voucher;
        }
    }
    for (uint32_t i = 0; i < beyond_count; i++) {
        vouch_again(core, &beyond[i]);
    }
}

void requests_evict(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    node_id node = event->u.request.node;
    const struct view_member *member = view_find_member(&core->view, node);
    if (node_id_equal(node, core->options.self)) {
        core_reply(core, client, ERR_USAGE, 0, "A node cannot evict itself; `shoal leave` takes it out of the mesh.");
        return;
    }
    if (core->members->syncing) { /* after an old disk some vouchers of the node may be unknown here: too many would go */
        core_reply(core, client, ERR_AGAIN, 0,
                   "This node is still catching up with the others and may not know yet which nodes that node vouched for; "
                   "try again in some seconds.");
        return;
    }
    if (member == NULL || !member->believed) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such node on the roster; `shoal nodes` lists them.");
        return;
    }
    if (event->u.request.with_vouched && !view_member_would_stay(&core->view, node, core->options.self)) {
        core_reply(core, client, ERR_REFUSED, 0,
                   "That node vouched for this one, so --with-vouched would put this node out too; evict it from a node "
                   "that others vouched for, or without --with-vouched.");
        return;
    }
    struct fact_key key = fact_key_node_id(node);
    record_ident own = record_ident_of(core->options.self, FACT_EVICTION, key.bytes, key.count);
    const struct records_entry *said = records_find(&core->records, own);
    if (said == NULL && member->evicted && !event->u.request.with_vouched) {
        said = records_find(&core->records, record_ident_of(member->evictor, FACT_EVICTION, key.bytes, key.count));
    }
    struct fact_eviction before = {0}, fact = {0};
    bool has_before = said != NULL && fact_eviction_read(&said->record, &before) == 0;
    /* Evictions only grow: a second eviction never keeps a member that the first one put out. */
    if (has_before && (!event->u.request.with_vouched ||
                       (before.standing_count == 0 && record_ident_equal(said->ident, own)))) {
        struct core_ack *ack = core_ack_append(core, client, said->ident, said->record.version, no_blob, no_blob);
        if (ack != NULL && said->on_disk) {
            core_ack_on_disk(core, client, said->ident, said->record.version); /* a retry, or another member was quicker */
        }
        return;
    }
    if (!event->u.request.with_vouched) {
        list_vouched(core, node, &fact);
    }
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_eviction_pack(&writer, &fact);
    TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_EVICTED, node),
                "%s is to be evicted, %u whom it vouched for stay", view_label(&core->view, node).text,
                fact.standing_count);
    (void)core_ack_begin(core, client, core_put(core, FACT_EVICTION, key, &writer), no_blob, no_blob);
}

/* ---- leaving ------------------------------------------------------------------------------------------------------------- */

static const bool MAY_MOVE[CORE_LEAVE_STATES][CORE_LEAVE_STATES] = {
    [CORE_LEAVE_STAYS] = {[CORE_LEAVE_ASKED] = true},
    [CORE_LEAVE_ASKED] = {[CORE_LEAVE_TOLD] = true},
    [CORE_LEAVE_TOLD] = {[CORE_LEAVE_ANSWERED] = true},
    [CORE_LEAVE_ANSWERED] = {[CORE_LEAVE_TOLD] = true},
};

static void leave_move(struct core_requests *requests, enum core_leave_state to)
{
    CHECK(MAY_MOVE[requests->leave][to]);
    requests->leave = to;
}

void requests_leave_ask(struct node_core *core, uint64_t client)
{
    struct core_requests *requests = core->requests;
    if (requests->leave == CORE_LEAVE_STAYS || requests->leave == CORE_LEAVE_ANSWERED) {
        leave_move(requests, requests->leave == CORE_LEAVE_STAYS ? CORE_LEAVE_ASKED : CORE_LEAVE_TOLD);
        requests->leave_client = client;
    }
}

/* Publishes that we leave, in our node record, and waits until another node has stored the record: the daemon ends with the
 * answer to the client. */
static void leave_tell(struct node_core *core)
{
    struct core_requests *requests = core->requests;
    leave_move(requests, CORE_LEAVE_TOLD);
    core->copies->leave_stored_on = 1;
    core->options.node.left = true;
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_node_pack(&writer, &core->options.node);
    struct core_pending *pending = core_put(core, FACT_NODE, fact_key_empty(), &writer);
    requests->leave_ticket = core->disk->ticket;
    bool is_heard = pending != NULL && !core->is_out;
    struct core_ack *ack = is_heard ? core_ack_new(core, requests->leave_client, pending->ident, pending->version) : NULL;
    if (ack != NULL) {
        ack->is_leave = true;
        core->copies->leave_is_waited = true;
        pending->action = CORE_ACTION_ACK;
        pending->client = requests->leave_client;
    }
}

void requests_leave_advance(struct node_core *core)
{
    struct core_requests *requests = core->requests;
    bool is_busy = !core_owner_idle(core) || core->copies->pushes != NULL;
    bool is_deaf = core->members->syncing && !core->is_out; /* while syncing we may know no node that could hear of the leave */
    bool is_stored = core->disk->ticket_done >= requests->leave_ticket && !core->copies->leave_is_waited;
    if (is_busy || is_deaf) {
        return;
    }
    if (requests->leave == CORE_LEAVE_ASKED) {
        leave_tell(core);
    } else if (requests->leave == CORE_LEAVE_TOLD && is_stored) {
        leave_move(requests, CORE_LEAVE_ANSWERED);
        core_members_leave(core);
        core_reply(core, requests->leave_client, 0, core->copies->leave_stored_on, "");
    }
}

/* ---- nodes that join ----------------------------------------------------------------------------------------------------- */

static void refuse_join(struct node_core *core, uint64_t client, const char *why)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_WELCOME);
    effect->u.reply.client = client;
    effect->u.reply.code = ERR_REFUSED;
    bytes_copy_text(effect->u.reply.text, sizeof effect->u.reply.text, why);
    TRACE_EVENT(&core->options.trace, event_of_kind(EVENT_NODE_REFUSED), "a join was refused: %s", why);
}

/* Welcomes the joiner once `pending` is on disk. */
static void welcome_later(struct node_core *core, uint64_t client, node_id joiner, struct core_pending *pending)
{
    if (pending == NULL) {
        refuse_join(core, client, "the member has no memory left");
        return;
    }
    pending->action = CORE_ACTION_WELCOME;
    pending->client = client;
    pending->node = joiner;
}

void core_requests_join(struct node_core *core, const struct node_event *event)
{
    node_id id = node_id_of_key(event->u.join.public_key);
    const struct view_member *member = view_find_member(&core->view, id);
    if (core->is_out) {
        refuse_join(core, event->u.join.client, "the member that you asked is out of the mesh itself; ask another");
        return;
    }
    if (member != NULL && member->evicted) {
        refuse_join(core, event->u.join.client,
                    "this key was evicted from the mesh and cannot return; join with a new data directory");
        return;
    }
    if (!core_invite_is_valid(core, event->u.join.invite_key)) {
        refuse_join(core, event->u.join.client, "the invite is unknown, revoked or expired; ask a member for a new one");
        return;
    }
    struct fact_key key = fact_key_node_id(id);
    const struct records_entry *own =
        records_find(&core->records, record_ident_of(core->options.self, FACT_MEMBER, key.bytes, key.count));
    if (own != NULL && !own->published) { /* an earlier try; the voucher is still on its way to the disk */
        struct core_pending *asked = core_find_welcome(core, id); /* only the joiner's last try is answered */
        welcome_later(core, event->u.join.client, id, asked != NULL ? asked : core_after_disk(core, CORE_ACTION_WELCOME));
        return;
    }
    if (member != NULL && member->admitted) {
        core_requests_welcome(core, event->u.join.client, id); /* the answer to an earlier try was lost */
        return;
    }
    if (member == NULL && core->members->peer_count >= NODE_MEMBERS_MAX - 1) {
        refuse_join(core, event->u.join.client,
                    "the mesh has as many members as it can have; evict one that will not come back, then join again");
        return;
    }
    struct fact_member fact = {{0}, {0}, {0}};
    memcpy(fact.public_key, event->u.join.public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(fact.name, sizeof fact.name, event->u.join.name);
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_member_pack(&writer, &fact);
    welcome_later(core, event->u.join.client, id, core_put(core, FACT_MEMBER, key, &writer));
}

struct welcome {
    uint16_t kind;
    uint8_t bytes[EXCHANGE_MESSAGE_BYTES_MAX];
    uint32_t count;
    const struct records_entry *first[WELCOME_FIRST_MAX]; /* what is in it already */
    uint32_t first_count;
};

static bool welcome_put(struct welcome *welcome, const struct records_entry *entry)
{
    bool fits = entry->envelope_bytes <= sizeof welcome->bytes - welcome->count;
    if (fits) {
        memcpy(welcome->bytes + welcome->count, entry->envelope, entry->envelope_bytes);
        welcome->count += entry->envelope_bytes;
    }
    return fits;
}

static void welcome_first(struct node_core *core, struct welcome *welcome, record_ident ident)
{
    const struct records_entry *entry = records_find(&core->records, ident);
    if (entry != NULL && entry->published && welcome->first_count < WELCOME_FIRST_MAX && welcome_put(welcome, entry)) {
        welcome->first[welcome->first_count++] = entry;
    }
}

static bool welcome_entry(void *context, const struct records_entry *entry)
{
    struct welcome *welcome = context;
    bool wanted = entry->published && entry->record.kind == welcome->kind;
    for (uint32_t i = 0; wanted && i < welcome->first_count; i++) {
        wanted = entry != welcome->first[i];
    }
    if (wanted) {
        (void)welcome_put(welcome, entry);
    }
    return true;
}

/* The joiner believes members that a chain of vouchers ties to the founder. So the joiner's own chain comes first, then our
 * address, then as many other vouchers and addresses as fit. The exchange brings the rest. */
void core_requests_welcome(struct node_core *core, uint64_t client, node_id joiner)
{
    struct welcome welcome = {.kind = FACT_MEMBER};
    for (const struct view_member *member = view_find_member(&core->view, joiner); member != NULL && member->rooted;) {
        struct fact_key key = fact_key_node_id(member->id);
        welcome_first(core, &welcome, record_ident_of(member->sponsor, FACT_MEMBER, key.bytes, key.count));
        member = node_id_equal(member->sponsor, member->id) ? NULL : view_find_member(&core->view, member->sponsor);
    }
    struct fact_key none = fact_key_empty();
    welcome_first(core, &welcome, record_ident_of(core->options.self, FACT_NODE, none.bytes, none.count));
    records_each(&core->records, welcome_entry, &welcome);
    welcome.kind = FACT_NODE;
    records_each(&core->records, welcome_entry, &welcome);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_WELCOME);
    effect->u.reply.client = client;
    effect->bytes = core_effect_bytes(core, welcome.bytes, welcome.count);
    effect->byte_count = welcome.count;
}

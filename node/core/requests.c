/* What users ask of this node, and who asks it to join: whether that can be, and the record that makes it so (DESIGN 12). On how
 * many disks that is before they hear of it is in acks.c. */

#include "base/err.h"
#include "base/probe.h"
#include "node/core/state.h"

/* ---- users ---------------------------------------------------------------------------------------------------------------- */

static const hash256 no_blob = {{0}};

static const struct records_entry *find_tombstone(const struct node_core *core, experiment_id id)
{
    const struct view_tombstone *tombstone = view_find_tombstone(&core->view, id);
    if (tombstone == NULL) {
        return NULL;
    }
    struct fact_key key = fact_key_experiment(id);
    return records_find(&core->records, record_ident_of(tombstone->writer, FACT_TOMBSTONE, key.bytes, key.count));
}

static void submit(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    experiment_id id = event->u.request.experiment;
    if (core_is_deleted(core, id)) {
        core_reply(core, client, ERR_REFUSED, 0, "The experiment with this id has been deleted; submit it with a new one.");
        return;
    }
    struct fact_key key = fact_key_experiment(id);
    const struct view_experiment *known = view_find_experiment(&core->view, id);
    node_id submitter = known != NULL && known->known ? known->submitter : core->options.self;
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(submitter, FACT_EXPERIMENT, key.bytes, key.count));
    if (entry != NULL) {
        MARK(submit_repeated);
        /* A retry, here or at another node than before: what was put is answered for again, not written again. */
        struct core_ack *ack = core_ack_append(core, client, entry->ident, entry->record.version, event->u.request.code,
                                               event->u.request.config_text);
        if (ack != NULL && entry->on_disk) {
            core_requests_on_disk(core, client, entry->ident);
        }
        return;
    }
    if (core->disk_full) {
        core_reply(core, client, ERR_NO_SPACE, 0,
                   "The disk of this node is full; make room in its data directory and submit again.");
        return;
    }
    struct fact_experiment fact = {.submitted_s = core->wall_s,
                                   .code = event->u.request.code,
                                   .code_bytes = event->u.request.code_bytes,
                                   .config_text = event->u.request.config_text,
                                   .config = event->bytes,
                                   .config_bytes = event->byte_count};
    struct config config;
    struct pack_reader reader;
    pack_reader_init(&reader, event->bytes, event->byte_count);
    if (config_unpack(&reader, &config) != 0 || experiment_id_is_none(id)) {
        core_reply(core, client, ERR_MALFORMED, 0, "The submitted configuration is not in the packed form.");
        return;
    }
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_experiment_pack(&writer, &fact);
    if (writer.failed) {
        core_reply(core, client, ERR_FULL, 0, "The configuration is larger than a record may be; shorten it.");
        return;
    }
    TRACE(&core->options.trace, "%s is submitted", config.name);
    (void)core_ack_begin(core, client, core_put(core, FACT_EXPERIMENT, key, &writer), fact.code, fact.config_text);
}

static void control(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    const struct view_experiment *experiment = view_find_experiment(&core->view, event->u.request.experiment);
    if (experiment == NULL || !experiment->known) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return;
    }
    struct fact_control fact = {0};
    for (const struct view_control *row = experiment->controls; row != NULL; row = row->next) {
        if (node_id_equal(row->writer, core->options.self) && !row->is_cancel) {
            fact = row->fact;
        }
    }
    enum view_experiment_state state = view_experiment_state(experiment);
    if (view_experiment_over(experiment) && !(event->u.request.kind == NODE_REQUEST_CANCEL && state == VIEW_CANCELLED)) {
        char text[NODE_REPLY_BYTES];
        format_text(text, sizeof text, "The experiment is %s already, so there is nothing to %s.",
                    view_experiment_state_name(state),
                    event->u.request.kind == NODE_REQUEST_CANCEL  ? "cancel"
                    : event->u.request.kind == NODE_REQUEST_PAUSE ? "pause"
                                                                  : "resume");
        core_reply(core, client, ERR_REFUSED, 0, text);
        return;
    }
    struct fact_key key = fact_key_experiment(experiment->id);
    if (event->u.request.kind == NODE_REQUEST_CANCEL) {
        key = fact_key_cancel(experiment->id);
        fact = (struct fact_control){.cancelled = true};
    } else {
        struct lamport_top others = view_control_top(experiment, &core->options.self);
        fact.lamport = lamport_next(&others, fact.lamport);
        fact.paused = event->u.request.kind == NODE_REQUEST_PAUSE;
    }
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_control_pack(&writer, &fact);
    (void)core_ack_begin(core, client, core_put(core, FACT_CONTROL, key, &writer), no_blob, no_blob);
}

static void delete(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    experiment_id id = event->u.request.experiment;
    const struct records_entry *tombstone = find_tombstone(core, id);
    if (tombstone != NULL) {
        /* A retry, or somebody else was first: that is answered for. */
        struct core_ack *ack =
            core_ack_append(core, client, tombstone->ident, tombstone->record.version, no_blob, no_blob);
        if (ack != NULL) {
            ack->already = true;
        }
        if (ack != NULL && tombstone->on_disk) {
            core_requests_on_disk(core, client, tombstone->ident);
        }
        return;
    }
    const struct view_experiment *experiment = view_find_experiment(&core->view, id);
    if (experiment == NULL || !experiment->known) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such experiment; `shoal ls` lists them.");
        return;
    }
    TRACE(&core->options.trace, "%s is deleted", experiment->config->name);
    uint8_t bytes[8];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_tombstone_pack(&writer);
    (void)core_ack_begin(core, client, core_put(core, FACT_TOMBSTONE, fact_key_experiment(id), &writer), no_blob, no_blob);
}

static void invite(struct node_core *core, const struct node_event *event)
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

/* ---- owners ------------------------------------------------------------------------------------------------------------------- */

/* Takes back or returns slots of this node, and answers once all their records are on two disks. */
static void hold_slots(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    uint32_t count = core->lease.count;
    uint64_t all = count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    uint64_t wanted = event->u.request.slots != 0 ? event->u.request.slots : all;
    char text[NODE_REPLY_BYTES];
    if (count == 0) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "This node has no slots; the owner of a slot is the node it is in.");
        return;
    }
    if ((wanted & ~all) != 0) {
        format_text(text, sizeof text, "This node has no such slot: its slots are 0 to %u; `shoal slots` lists them.",
                    (unsigned)(count - 1));
        core_reply(core, client, ERR_NOT_FOUND, 0, text);
        return;
    }
    if (event->u.request.for_s > FACT_WITHHELD_S_MAX) {
        core_reply(core, client, ERR_USAGE, 0,
                   "Slots can be withheld for at most 366 days; without --for until they are returned.");
        return;
    }
    if (CORE_ACKS_MAX - core_ack_count(core) < count) {
        core_reply(core, client, ERR_AGAIN, 0,
                   "Too many requests wait for a second node; look at what they did, and try again in some seconds.");
        return;
    }
    for (uint32_t slot = 0; slot < count; slot++) {
        if ((wanted >> slot & 1) == 0) {
            continue;
        }
        struct core_pending *pending = event->u.request.kind == NODE_REQUEST_WITHHOLD
                                           ? core_owner_withhold(core, slot, event->u.request.for_s)
                                           : core_owner_return(core, slot);
        if (!core_ack_begin(core, client, pending, no_blob, no_blob)) {
            return; /* the client has been told that memory is full; what it hears after that is nobody's */
        }
    }
}

/* ---- drains ------------------------------------------------------------------------------------------------------------------- */

static uint64_t own_drain_lamport(const struct node_core *core, const struct view_member *member)
{
    uint64_t lamport = 0;
    for (const struct view_drain *row = member->drains; row != NULL; row = row->next) {
        lamport = node_id_equal(row->writer, core->options.self) ? row->fact.lamport : lamport;
    }
    return lamport;
}

static void drain(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    node_id node = node_id_is_none(event->u.request.node) ? core->options.self : event->u.request.node;
    const struct view_member *member = view_find_member(&core->view, node);
    if (member == NULL || !member->admitted) {
        core_reply(core, client, ERR_NOT_FOUND, 0, "There is no such node in this mesh; `shoal nodes` lists them.");
        return;
    }
    if (member->left) {
        core_reply(core, client, ERR_REFUSED, 0, "That node has left the mesh, so nothing runs there.");
        return;
    }
    bool is_drain = event->u.request.kind == NODE_REQUEST_DRAIN;
    struct lamport_top others = view_drain_top(member, &core->options.self);
    struct fact_drain fact = {.lamport = lamport_next(&others, own_drain_lamport(core, member)),
                              .drained = is_drain,
                              .at_once = is_drain && event->u.request.at_once};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_drain_pack(&writer, &fact);
    TRACE(&core->options.trace, "%s is %s", member->name, is_drain ? "drained" : "undrained");
    (void)core_ack_begin(core, client, core_put(core, FACT_DRAIN, fact_key_node_id(node), &writer), no_blob, no_blob);
}

bool core_invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES])
{
    struct fact_key key = fact_key_public_key(invite_key);
    bool valid = false;
    for (uint32_t i = 0; i < core->view.member_count; i++) {
        record_ident ident = record_ident_of(core->view.members[i]->id, FACT_INVITE, key.bytes, key.count);
        const struct records_entry *entry = records_find(&core->records, ident);
        struct fact_invite fact;
        if (entry == NULL || fact_invite_read(&entry->record, &fact) != 0) {
            continue;
        }
        if (fact.revoked || fact.expires_s <= core->wall_s) {
            return false;
        }
        valid |= core->view.members[i]->admitted;
    }
    return valid;
}

static void revoke(struct node_core *core, const struct node_event *event)
{
    struct fact_key key = fact_key_public_key(event->u.request.public_key);
    const struct records_entry *own =
        records_find(&core->records, record_ident_of(core->options.self, FACT_INVITE, key.bytes, key.count));
    struct fact_invite fact = {0}; /* without a time: somebody else's invite */
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

/* For whom there is no room in the list this node vouches itself, so that nobody goes whom nobody wanted to go. */
static void vouch_again(struct node_core *core, const struct view_word *voucher)
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

/* Whom `evicted` vouched for; this node always has room, since an eviction by one who is out itself helps nobody. */
static void list_vouched(struct node_core *core, node_id evicted, struct fact_eviction *fact)
{
    const struct view_words *vouchers = &core->view.vouchers;
    uint32_t room = FACT_STANDING_MAX - 1;
    struct view_word beyond[NODE_MEMBERS_MAX];
    uint32_t beyond_count = 0;
    for (uint32_t i = 0; i < vouchers->count; i++) {
        const struct view_word *voucher = &vouchers->items[i];
        if (!voucher->good || !node_id_equal(voucher->writer, evicted) || node_id_equal(voucher->about, evicted)) {
            continue;
        }
        if (node_id_equal(voucher->about, core->options.self)) {
            fact->standing[fact->standing_count++] = voucher->about; /* ascending, as the words are */
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

static void evict(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    node_id node = event->u.request.node;
    const struct view_member *member = view_find_member(&core->view, node);
    if (node_id_equal(node, core->options.self)) {
        core_reply(core, client, ERR_USAGE, 0, "A node cannot evict itself; `shoal leave` takes it out of the mesh.");
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
    /* Evictions only grow: a second word never lets anybody stand whom the first did not. */
    if (has_before && (!event->u.request.with_vouched ||
                       (before.standing_count == 0 && record_ident_equal(said->ident, own)))) {
        struct core_ack *ack = core_ack_append(core, client, said->ident, said->record.version, no_blob, no_blob);
        if (ack != NULL && said->on_disk) {
            core_requests_on_disk(core, client, said->ident); /* a retry, or somebody was quicker */
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
    TRACE(&core->options.trace, "%s is to be evicted, %u whom it vouched for stay", member->name, fact.standing_count);
    (void)core_ack_begin(core, client, core_put(core, FACT_EVICTION, key, &writer), no_blob, no_blob);
}

static bool refused_when_out(struct node_core *core, const struct node_event *event)
{
    if (!core->is_out || event->u.request.kind == NODE_REQUEST_LEAVE) {
        return false;
    }
    core_reply(core, event->u.request.client, ERR_REFUSED, 0,
               core->twin.is_yielding
                   ? "Another daemon runs with this node's key, so this one is becoming another node; ask again in a minute."
                   : "This node was evicted from the mesh; end its daemon, ask a member for an invite, and join with a new "
                     "data directory.");
    return true;
}

void core_requests_receive(struct node_core *core, const struct node_event *event)
{
    if (refused_when_out(core, event)) {
        return;
    }
    switch (event->u.request.kind) {
    case NODE_REQUEST_SUBMIT:
        submit(core, event);
        break;
    case NODE_REQUEST_CANCEL:
    case NODE_REQUEST_PAUSE:
    case NODE_REQUEST_RESUME:
        control(core, event);
        break;
    case NODE_REQUEST_DELETE:
        delete(core, event);
        break;
    case NODE_REQUEST_INVITE:
        invite(core, event);
        break;
    case NODE_REQUEST_REVOKE:
        revoke(core, event);
        break;
    case NODE_REQUEST_EVICT:
        evict(core, event);
        break;
    case NODE_REQUEST_WITHHOLD:
    case NODE_REQUEST_RETURN:
        hold_slots(core, event);
        break;
    case NODE_REQUEST_DRAIN:
    case NODE_REQUEST_UNDRAIN:
        drain(core, event);
        break;
    case NODE_REQUEST_LEAVE:
        core->leaving = true;
        core->leave_asked = true;
        core->leave_client = event->u.request.client;
        core->members_changed = true;
        core_coordinator_leave(core);
        core_owner_leave(core);
        break;
    }
}

/* ---- leaving ---------------------------------------------------------------------------------------------------------------- */

/* Says in its node record that it leaves, and sees to it that somebody hears that: the daemon ends with the answer. */
static void leave_tell(struct node_core *core)
{
    core->leave_told = true;
    core->options.node.left = true;
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_node_pack(&writer, &core->options.node);
    struct core_pending *pending = core_put(core, FACT_NODE, fact_key_empty(), &writer);
    struct core_ack *ack =
        pending != NULL && !core->is_out ? core_ack_new(core, core->leave_client, pending->ident, pending->version) : NULL;
    if (ack != NULL) {
        ack->is_leave = true;
        core->leave_is_waited = true;
        pending->action = CORE_ACTION_ACK;
        pending->client = core->leave_client;
    }
}

static void leave_advance(struct node_core *core)
{
    bool is_busy = !core_owner_idle(core) || core->pushes != NULL;
    if (!core->leave_asked || is_busy || core->syncing) { /* until it is in step it may know nobody who could hear it */
        return;
    }
    if (!core->leave_told) {
        leave_tell(core);
    } else if (core->ticket_done == core->ticket && !core->leave_is_waited) {
        core->leave_asked = false;
        core_members_leave(core);
        core_reply(core, core->leave_client, 0, 1, "");
    }
}

void core_requests_housekeep(struct node_core *core)
{
    leave_advance(core);
    core_ack_housekeep(core);
}

/* ---- those who join ----------------------------------------------------------------------------------------------------------- */

static void refuse_join(struct node_core *core, uint64_t client, const char *why)
{
    struct node_effect *effect = core_effect(core, NODE_EFFECT_WELCOME);
    effect->u.reply.client = client;
    effect->u.reply.code = ERR_REFUSED;
    bytes_copy_text(effect->u.reply.text, sizeof effect->u.reply.text, why);
    TRACE(&core->options.trace, "a join was refused: %s", why);
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
    if (member != NULL && member->admitted) {
        core_requests_welcome(core, event->u.join.client); /* the answer to an earlier try was lost */
        return;
    }
    struct fact_member fact = {{0}, {0}, {0}};
    memcpy(fact.public_key, event->u.join.public_key, PUBLIC_KEY_BYTES);
    bytes_copy_text(fact.name, sizeof fact.name, event->u.join.name);
    uint8_t bytes[256];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_member_pack(&writer, &fact);
    struct core_pending *pending = core_put(core, FACT_MEMBER, fact_key_node_id(id), &writer);
    if (pending == NULL) {
        refuse_join(core, event->u.join.client, "the member has no memory left");
        return;
    }
    pending->action = CORE_ACTION_WELCOME;
    pending->client = event->u.join.client;
}

struct welcome {
    uint16_t kind;
    uint8_t bytes[EXCHANGE_MESSAGE_BYTES_MAX];
    uint32_t count;
};

static bool welcome_entry(void *context, const struct records_entry *entry)
{
    struct welcome *welcome = context;
    bool wanted = entry->published && entry->record.kind == welcome->kind;
    if (wanted && entry->envelope_bytes <= sizeof welcome->bytes - welcome->count) {
        memcpy(welcome->bytes + welcome->count, entry->envelope, entry->envelope_bytes);
        welcome->count += entry->envelope_bytes;
    }
    return true;
}

void core_requests_welcome(struct node_core *core, uint64_t client)
{
    struct welcome welcome = {.kind = FACT_MEMBER}; /* the chain of vouchers first, then where they are, if it fits */
    records_each(&core->records, welcome_entry, &welcome);
    welcome.kind = FACT_NODE;
    records_each(&core->records, welcome_entry, &welcome);
    struct node_effect *effect = core_effect(core, NODE_EFFECT_WELCOME);
    effect->u.reply.client = client;
    effect->bytes = core_effect_bytes(core, welcome.bytes, welcome.count);
    effect->byte_count = welcome.count;
}

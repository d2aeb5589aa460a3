#include "base/err.h"
#include "base/probe.h"
#include "base/rendezvous.h"
#include "node/core/state.h"

/* ---- requests that wait for a second disk (DESIGN 12) ---------------------------------------------------------------- */

static struct core_ack *find_ack(const struct node_core *core, uint64_t client)
{
    struct core_ack *ack = core->acks;
    while (ack != NULL && ack->client != client) {
        ack = ack->next;
    }
    return ack;
}

static void ack_drop(struct node_core *core, struct core_ack *ack)
{
    struct core_ack **link = &core->acks;
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

/* Chooses the living node that shall hold the second copy, another one at each try, and sends it everything. */
static void ack_ask(struct node_core *core, struct core_ack *ack)
{
    node_id candidates[NODE_MEMBERS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < core->peer_count; i++) {
        if (core_node_trusted(core, core->peers[i]->id)) {
            candidates[count++] = core->peers[i]->id;
        }
    }
    const struct records_entry *entry = records_find(&core->records, ack->ident);
    ack->resend_ms = core->now_ms + CORE_RETRY_MS;
    ack->is_alone = count == 0 || entry == NULL;
    if (ack->is_alone) {
        ack->peer = (node_id){{0}};
        return;
    }
    if (!entry->published || !core_has_room(core, 64, entry->envelope_bytes)) {
        return; /* a newer version is on its way to the disk: then that is sent */
    }
    rendezvous_sort(candidates, count, entry->record.key, entry->record.key_bytes); /* as core_replicas does for its code */
    node_id peer = candidates[(ack->tries++ / 2) % count];
    if (!node_id_equal(peer, ack->peer)) {
        if (!node_id_is_none(ack->peer)) {
            MARK(another_second_node_asked);
        }
        ack->peer = peer;
        ack->pushed = hash256_is_none(ack->blob);
        ack->pushed_too = hash256_is_none(ack->blob_too);
        ack->record_stored = false;
    }
    if (!ack->pushed) {
        push_blob(core, ack->blob, peer);
    }
    if (!ack->pushed_too) {
        push_blob(core, ack->blob_too, peer);
    }
    if (!ack->record_stored) {
        struct message message = {.kind = MESSAGE_RECORDS, .want_stored = true};
        message.bytes = core_effect_bytes(core, entry->envelope, entry->envelope_bytes);
        message.byte_count = entry->envelope_bytes;
        core_send(core, peer, &message);
    }
}

static bool ack_settle(struct node_core *core, struct core_ack *ack)
{
    bool second = !node_id_is_none(ack->peer) && ack->pushed && ack->pushed_too && ack->record_stored;
    second |= !node_id_is_none(ack->peer) && BUG(second_not_awaited, "'on 2 nodes' is said when the second has said so");
    if (!ack->on_disk && core->now_ms < ack->until_ms) {
        return false;
    }
    if (!ack->on_disk) {
        core_reply(core, ack->client, ERR_NO_SPACE, 0,
                   "It could not be written to this node's disk in time and may still begin later: make room in the "
                   "data directory, and look at `shoal ls` before you try again.");
    } else if (second || ack->is_alone || core->now_ms >= ack->until_ms) {
        if (!second && !ack->is_alone) {
            MARK(acknowledged_on_one);
        }
        core_reply(core, ack->client, 0, second ? 2 : 1, "");
    } else {
        return false;
    }
    ack_drop(core, ack);
    return true;
}

void core_requests_on_disk(struct node_core *core, uint64_t client)
{
    struct core_ack *ack = find_ack(core, client);
    if (ack != NULL) {
        ack->on_disk = true;
        ack_ask(core, ack);
        (void)ack_settle(core, ack);
    }
}

void core_requests_stored(struct node_core *core, node_id from, const struct message *message)
{
    for (struct core_ack *ack = core->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        if (node_id_equal(ack->peer, from) && record_ident_equal(ack->ident, message->u.stored.ident) &&
            record_version_compare(message->u.stored.version, ack->version) >= 0) {
            MARK(second_node_has_stored);
            ack->record_stored = true;
            (void)ack_settle(core, ack);
        }
    }
}

void core_requests_pushed(struct node_core *core, const struct node_event *event)
{
    for (struct core_ack *ack = core->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        if (!event->u.blob.ok || !node_id_equal(ack->peer, event->u.blob.node)) {
            continue;
        }
        ack->pushed |= hash256_equal(ack->blob, event->u.blob.blob);
        ack->pushed_too |= hash256_equal(ack->blob_too, event->u.blob.blob);
        (void)ack_settle(core, ack);
    }
}

/* Answers the client once what was just put is on disk here and on one more living node. */
static struct core_ack *ack_append(struct node_core *core, uint64_t client, record_ident ident,
                                   struct record_version version, hash256 blob, hash256 blob_too)
{
    uint32_t count = 0;
    for (const struct core_ack *other = core->acks; other != NULL; other = other->next) {
        count++;
    }
    struct core_ack *ack = count < CORE_ACKS_MAX ? arena_take(&core->arena, sizeof *ack) : NULL;
    if (ack == NULL && count == CORE_ACKS_MAX) {
        core_reply(core, client, ERR_AGAIN, 0,
                   "Too many requests wait for a second node; look at what they did, and try again in some seconds.");
        return NULL;
    }
    if (ack == NULL) {
        core_reply(core, client, ERR_MEMORY, 0,
                   "The daemon has no memory left for new state; delete old experiments or raise its limit.");
        return NULL;
    }
    ack->client = client;
    ack->ident = ident;
    ack->version = version;
    ack->blob = blob;
    ack->blob_too = blob_too;
    ack->until_ms = core->now_ms + CORE_ACK_MS;
    ack->on_disk = BUG(acknowledged_before_disk, "what is acknowledged is on the disk of the node that says so");
    ack->next = core->acks;
    core->acks = ack;
    return ack;
}

static void ack_begin(struct node_core *core, uint64_t client, struct core_pending *pending, hash256 blob,
                      hash256 blob_too)
{
    if (pending == NULL) {
        core_reply(core, client, ERR_MEMORY, 0,
                   "The daemon has no memory left for new state; delete old experiments or raise its limit.");
    } else if (ack_append(core, client, pending->ident, pending->version, blob, blob_too) != NULL) {
        pending->action = CORE_ACTION_ACK;
        pending->client = client;
    }
}

/* ---- users ---------------------------------------------------------------------------------------------------------------- */

static const hash256 no_blob = {{0}};

static void submit(struct node_core *core, const struct node_event *event)
{
    uint64_t client = event->u.request.client;
    experiment_id id = event->u.request.experiment;
    struct fact_key key = fact_key_experiment(id);
    const struct view_experiment *known = view_find_experiment(&core->view, id);
    node_id submitter = known != NULL && known->known ? known->submitter : core->options.self;
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(submitter, FACT_EXPERIMENT, key.bytes, key.count));
    if (entry != NULL) {
        MARK(submit_repeated);
        /* A retry, here or at another node than before: what was put is answered for again, not written again. */
        struct core_ack *ack = ack_append(core, client, entry->ident, entry->record.version, event->u.request.code,
                                          event->u.request.config_text);
        if (ack != NULL && entry->on_disk) {
            core_requests_on_disk(core, client);
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
    ack_begin(core, client, core_put(core, FACT_EXPERIMENT, key, &writer), fact.code, fact.config_text);
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
        if (node_id_equal(row->writer, core->options.self)) {
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
    if (event->u.request.kind == NODE_REQUEST_CANCEL) {
        fact.cancelled = true;
    } else {
        fact.lamport = core->view.lamport_max + 1;
        fact.paused = event->u.request.kind == NODE_REQUEST_PAUSE;
    }
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_control_pack(&writer, &fact);
    ack_begin(core, client, core_put(core, FACT_CONTROL, fact_key_experiment(experiment->id), &writer), no_blob,
              no_blob);
}

static void invite(struct node_core *core, const struct node_event *event)
{
    struct fact_invite fact = {.expires_s = event->u.request.expires_s};
    uint8_t bytes[32];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_invite_pack(&writer, &fact);
    ack_begin(core, event->u.request.client,
              core_put(core, FACT_INVITE, fact_key_public_key(event->u.request.public_key), &writer), no_blob, no_blob);
}

void core_requests_receive(struct node_core *core, const struct node_event *event)
{
    switch (event->u.request.kind) {
    case NODE_REQUEST_SUBMIT:
        submit(core, event);
        break;
    case NODE_REQUEST_CANCEL:
    case NODE_REQUEST_PAUSE:
    case NODE_REQUEST_RESUME:
        control(core, event);
        break;
    case NODE_REQUEST_INVITE:
        invite(core, event);
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

static void leave_advance(struct node_core *core)
{
    if (!core->leave_asked || !core_owner_idle(core) || core->pushes != NULL) {
        return;
    }
    if (!core->leave_told) {
        core->leave_told = true;
        core->options.node.left = true;
        uint8_t bytes[RECORD_BODY_BYTES_MAX];
        struct pack_writer writer;
        pack_writer_init(&writer, bytes, sizeof bytes);
        fact_node_pack(&writer, &core->options.node);
        (void)core_put(core, FACT_NODE, fact_key_empty(), &writer);
        return; /* at the next round it is on disk and sent */
    }
    if (core->ticket_done == core->ticket) {
        core->leave_asked = false;
        core_members_leave(core);
        core_reply(core, core->leave_client, 0, 1, "");
    }
}

void core_requests_housekeep(struct node_core *core)
{
    leave_advance(core);
    for (struct core_ack *ack = core->acks, *next; ack != NULL; ack = next) {
        next = ack->next;
        const struct records_entry *entry = records_find(&core->records, ack->ident);
        ack->on_disk |= entry != NULL && entry->on_disk;
        if (!ack_settle(core, ack) && ack->on_disk && core->now_ms >= ack->resend_ms) {
            ack_ask(core, ack);
            (void)ack_settle(core, ack);
        }
    }
}

/* ---- those who join ----------------------------------------------------------------------------------------------------------- */

static bool invite_is_valid(const struct node_core *core, const uint8_t invite_key[PUBLIC_KEY_BYTES])
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
    if (!invite_is_valid(core, event->u.join.invite_key)) {
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

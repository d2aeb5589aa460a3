#include "node/daemon/render/render.h"

#include "node/daemon/render/put.h"

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static bool is_self(const struct node_core *core, node_id node)
{
    return node_id_equal(node, node_core_self(core));
}

static bool is_shown(const struct node_core *core, const struct view_member *member)
{
    return member->admitted || is_self(core, member->id);
}

/* Those who were members are listed, but count nowhere. */
static bool is_listed(const struct node_core *core, const struct view_member *member)
{
    return is_shown(core, member) || view_member_is_out(member);
}

const char *render_node_name(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(node_core_view(core), node);
    if (member != NULL && member->name[0] != '\0') {
        return member->name;
    }
    return is_self(core, node) ? node_core_own_fact(core)->name : "?";
}

const char *render_node_state(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(node_core_view(core), node);
    if (member != NULL && view_member_is_out(member)) {
        return member->evicted ? "evicted" : "void";
    }
    if (is_self(core, node)) {
        return node_core_own_fact(core)->left ? "left" : "alive";
    }
    struct node_peer peer;
    bool is_peer = node_core_find_peer(core, node, &peer);
    if ((is_peer && peer.state == SWIM_LEFT) || (member != NULL && member->left)) {
        return "left";
    }
    bool is_known = is_peer && peer.state != SWIM_UNKNOWN;
    return swim_state_name(is_known ? peer.state : SWIM_DEAD);
}

bool render_node_lives(const struct node_core *core, const struct view_member *member)
{
    if (is_self(core, member->id)) {
        return !node_core_own_fact(core)->left && !node_core_is_out(core);
    }
    return !member->left && node_core_is_alive(core, member->id);
}

uint32_t render_nodes_alive(const struct node_core *core)
{
    const struct view *view = node_core_view(core);
    uint32_t alive = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        alive += is_shown(core, member) && render_node_lives(core, member);
    }
    return alive;
}

uint32_t render_nodes_drained(const struct node_core *core)
{
    const struct view *view = node_core_view(core);
    uint32_t drained = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        drained += is_shown(core, member) && render_node_lives(core, member) && view_member_drain(member).drained;
    }
    return drained;
}

/* What a node says of itself; false if its record is not here. */
static bool node_fact(const struct node_core *core, node_id node, struct fact_node *out)
{
    if (is_self(core, node)) {
        *out = *node_core_own_fact(core);
        return true;
    }
    struct fact_key key = fact_key_empty();
    const struct records_entry *entry =
        records_find(node_core_records(core), record_ident_of(node, FACT_NODE, key.bytes, key.count));
    return entry != NULL && fact_node_read(&entry->record, out) == 0;
}

static const char *node_address(const struct node_core *core, const struct view_member *member)
{
    struct node_peer peer;
    if (node_core_find_peer(core, member->id, &peer) && peer.address[0] != '\0') {
        return peer.address;
    }
    if (is_self(core, member->id)) {
        return node_core_own_fact(core)->address_count > 0 ? node_core_own_fact(core)->addresses[0] : "";
    }
    return member->address_count > 0 ? member->addresses[0] : "";
}

static void put_versions(const struct node_core *core, node_id node, struct pack_writer *writer)
{
    struct version_range theirs = node_core_versions(core, node);
    pack_text(writer, "protocol");
    if (theirs.newest == 0) {
        pack_nil(writer);
        return;
    }
    pack_map(writer, 3);
    render_put_u64(writer, "min", theirs.oldest);
    render_put_u64(writer, "max", theirs.newest);
    uint32_t common = version_common(node_core_versions(core, node_core_self(core)), theirs);
    if (node_core_speaks(core, node)) {
        render_put_u64(writer, "common", common);
    } else {
        pack_text(writer, "common");
        pack_nil(writer);
    }
}

static void put_node(const struct node_core *core, const struct view_member *member, struct pack_writer *writer)
{
    struct fact_node fact;
    bool has_fact = node_fact(core, member->id, &fact);
    struct fact_drain drain = view_member_drain(member);
    pack_map(writer, 11 + (member->evicted ? 1 : 0));
    pack_text(writer, "id");
    render_put_node_id(writer, member->id);
    render_put_text(writer, "name", render_node_name(core, member->id));
    pack_text(writer, "address");
    render_put_text_or_nil(writer, node_address(core, member));
    render_put_text(writer, "state", render_node_state(core, member->id));
    render_put_u64(writer, "slots", has_fact ? fact.slot_count : 0);
    pack_text(writer, "version");
    render_put_text_or_nil(writer, has_fact ? fact.version : "");
    put_versions(core, member->id, writer);
    pack_text(writer, "drained");
    pack_bool(writer, drain.drained);
    pack_text(writer, "emptied");
    pack_bool(writer, drain.is_idle);
    pack_text(writer, "quarantined");
    if (member->quarantine.is_active) {
        pack_map(writer, 2);
        render_put_u64(writer, "minutes", member->quarantine.minutes);
        render_put_text(writer, "reason", member->quarantine.why);
    } else {
        pack_nil(writer);
    }
    pack_text(writer, "voucher");
    render_put_node_id(writer, member->voucher);
    if (member->evicted) {
        pack_text(writer, "evictor");
        render_put_node_id(writer, member->evictor);
    }
}

static void put_names(const struct node_core *core, const char *key, const node_id *nodes, uint32_t count,
                      struct pack_writer *writer)
{
    pack_text(writer, key);
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_map(writer, 2);
        pack_text(writer, "id");
        render_put_node_id(writer, nodes[i]);
        render_put_text(writer, "name", render_node_name(core, nodes[i]));
    }
}

void render_eviction(const struct node_core *core, node_id node, struct pack_writer *writer)
{
    const struct view *view = node_core_view(core);
    node_id standing[NODE_MEMBERS_MAX], out[NODE_MEMBERS_MAX];
    uint32_t standing_count = 0, out_count = 0;
    for (uint32_t i = 0; i < view->vouchers.count && standing_count < NODE_MEMBERS_MAX; i++) {
        const struct view_word *voucher = &view->vouchers.items[i];
        if (node_id_equal(voucher->writer, node) && !node_id_equal(voucher->about, node) && voucher->member->admitted) {
            standing[standing_count++] = voucher->about;
        }
    }
    for (uint32_t i = 0; i < view->member_count && out_count < NODE_MEMBERS_MAX; i++) {
        const struct view_member *member = view->members[i];
        if (view_member_is_out(member) && !member->evicted) {
            out[out_count++] = member->id;
        }
    }
    pack_text(writer, "node");
    render_put_node_id(writer, node);
    render_put_text(writer, "name", render_node_name(core, node));
    put_names(core, "standing", standing, standing_count, writer);
    put_names(core, "void", out, out_count, writer);
}

/* ---- invites --------------------------------------------------------------------------------------------------- */

struct invites {
    const struct node_core *core;
    struct render_list list;
    uint32_t from, at;
    bool more;
};

static const char *invite_state(const struct node_core *core, const struct record *record, const struct fact_invite *fact)
{
    const struct view_member *writer = view_find_member(node_core_view(core), record->writer);
    if (node_core_invite_is_valid(core, record->key)) {
        return "good";
    }
    if (writer != NULL && view_member_is_out(writer)) {
        return "void";
    }
    return !fact->revoked && fact->expires_s <= node_core_wall_s(core) ? "expired" : "revoked";
}

static bool put_invite(void *context, const struct records_entry *entry)
{
    struct invites *invites = context;
    const struct node_core *core = invites->core;
    struct pack_writer *writer = invites->list.writer;
    struct fact_invite fact;
    uint32_t at = invites->at++;
    if (at < invites->from || entry->record.kind != FACT_INVITE || fact_invite_read(&entry->record, &fact) != 0 ||
        fact.expires_s == 0) {
        return true; /* without a time: another member's word that it is revoked */
    }
    pack_map(writer, 5);
    pack_text(writer, "id");
    render_put_hex(writer, entry->record.key, RENDER_INVITE_ID_BYTES);
    pack_text(writer, "writer");
    render_put_node_id(writer, entry->record.writer);
    render_put_text(writer, "writer_name", render_node_name(core, entry->record.writer));
    render_put_u64(writer, "expires_s", fact.expires_s);
    render_put_text(writer, "state", invite_state(core, &entry->record, &fact));
    invites->more = !render_list_took_row(&invites->list);
    if (invites->more) {
        invites->at = at;
    }
    return !invites->more;
}

bool render_invites(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    pack_text(writer, "invites");
    struct invites invites = {.core = core, .list = render_list_open(writer), .from = *from};
    records_each(node_core_records(core), put_invite, &invites);
    render_list_close(&invites.list);
    *from = invites.at;
    return invites.more;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

bool render_nodes(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    const struct view *view = node_core_view(core);
    pack_text(writer, "nodes");
    struct render_list list = render_list_open(writer);
    uint32_t i = *from;
    for (; i < view->member_count; i++) {
        if (is_listed(core, view->members[i])) {
            put_node(core, view->members[i], writer);
            if (!render_list_took_row(&list)) {
                break;
            }
        }
    }
    render_list_close(&list);
    *from = i;
    return i < view->member_count;
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */

/* Of its own slots the owner knows more than its records say: reservations. */
static struct view_slot slot_now(const struct node_core *core, const struct view_member *member, uint32_t slot)
{
    if (is_self(core, member->id) && slot < node_core_lease(core)->count) {
        const struct lease_slot *own = &node_core_lease(core)->slots[slot];
        return (struct view_slot){.state = (uint32_t)own->state,
                                  .attempt = own->attempt,
                                  .rank = own->rank,
                                  .withheld = node_core_lease(core)->holds[slot].withheld};
    }
    struct view_slot unknown;
    memset(&unknown, 0, sizeof unknown);
    const struct view_slot *known = view_member_slot(member, slot);
    return known != NULL ? *known : unknown;
}

/* A slot that its owner takes back under a worker is on its way out, though the lease lives until the worker has saved. */
static const char *slot_state_name(const struct view_slot *slot)
{
    static const char *const names[] = {"free", "reserved", "leased", "releasing", "withheld"};
    uint32_t state = slot->state == LEASE_LEASED && slot->withheld ? LEASE_RELEASING : slot->state;
    return state < sizeof names / sizeof names[0] ? names[state] : "withheld";
}

static void put_slot(const struct node_core *core, const struct view_member *member, const struct fact_slot_info *info,
                     uint32_t index, struct pack_writer *writer)
{
    struct view_slot slot = slot_now(core, member, index);
    bool is_held = slot.state != LEASE_FREE && slot.state != LEASE_WITHHELD;
    pack_map(writer, 12);
    pack_text(writer, "node");
    render_put_node_id(writer, member->id);
    render_put_text(writer, "node_name", render_node_name(core, member->id));
    render_put_text(writer, "node_state", render_node_state(core, member->id));
    render_put_u64(writer, "index", index);
    render_put_text(writer, "uuid", info->uuid);
    render_put_text(writer, "kind", info->kind == FACT_SLOT_CUDA ? "cuda" : "cpu");
    render_put_text(writer, "model", info->model);
    render_put_u64(writer, "memory_bytes", info->memory_bytes);
    render_put_text(writer, "state", slot_state_name(&slot));
    pack_text(writer, "experiment");
    if (is_held) {
        render_put_experiment_id(writer, slot.attempt.experiment);
        render_put_u64(writer, "trial", slot.attempt.trial);
        render_put_u64(writer, "attempt", slot.attempt.number);
    } else {
        pack_nil(writer);
        pack_text(writer, "trial");
        pack_nil(writer);
        pack_text(writer, "attempt");
        pack_nil(writer);
    }
}

/* The rows of one node from slot *from on; true if all fitted. */
static bool put_node_slots(const struct node_core *core, const struct view_member *member, uint32_t *from,
                           struct render_list *list)
{
    struct fact_node fact;
    bool has_left = is_self(core, member->id) ? node_core_own_fact(core)->left : member->left;
    if (!is_shown(core, member) || view_member_is_out(member) || has_left || !node_fact(core, member->id, &fact)) {
        return true;
    }
    for (; *from < fact.slot_count; ++*from) {
        put_slot(core, member, &fact.slots[*from], *from, list->writer);
        if (!render_list_took_row(list)) {
            return false;
        }
    }
    return true;
}

bool render_slots(const struct node_core *core, uint32_t *from, struct pack_writer *writer)
{
    const struct view *view = node_core_view(core);
    pack_text(writer, "slots");
    struct render_list list = render_list_open(writer);
    uint32_t i = *from / FACT_SLOTS_MAX, slot = *from % FACT_SLOTS_MAX;
    for (; i < view->member_count && put_node_slots(core, view->members[i], &slot, &list); i++) {
        slot = 0;
    }
    render_list_close(&list);
    *from = i * FACT_SLOTS_MAX + slot;
    return i < view->member_count;
}

/* ---- status ---------------------------------------------------------------------------------------------------- */

static void put_refused(const struct node_core *core, const struct render_status_extra *extra,
                        struct pack_writer *writer)
{
    struct node_counters counters;
    node_core_counters(core, &counters);
    const struct {
        const char *name;
        uint64_t count;
    } rows[] = {
        {"handshakes", extra->handshakes},
        {"strangers", extra->strangers + counters.strangers},
        {"oversized", extra->oversized},
        {"overrun", extra->overrun},
        {"malformed", extra->malformed + counters.malformed},
        {"forged", extra->forged},
        {"equivocations", counters.equivocations},
        {"stale_claims", counters.stale_claims},
        {"jumps", counters.jumps},
        {"for_lack_of_memory", counters.full},
    };
    pack_map(writer, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        render_put_u64(writer, rows[i].name, rows[i].count);
    }
}

static void put_totals(const struct node_core *core, struct pack_writer *writer)
{
    const struct view *view = node_core_view(core);
    uint32_t nodes = 0, slots = 0, slots_free = 0, experiments = 0, live = 0;
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        nodes += is_shown(core, member);
        bool counts = is_shown(core, member) && render_node_lives(core, member);
        for (uint32_t slot = 0; counts && slot < member->slot_count; slot++) {
            slots++;
            slots_free += slot_now(core, member, slot).state == LEASE_FREE;
        }
    }
    for (uint32_t i = 0; i < view->experiment_count; i++) {
        const struct view_experiment *experiment = view->experiments[i];
        experiments += experiment->known;
        live += experiment->known && view_experiment_live(experiment);
    }
    render_put_u64(writer, "nodes", nodes);
    render_put_u64(writer, "nodes_alive", render_nodes_alive(core));
    render_put_u64(writer, "nodes_drained", render_nodes_drained(core));
    render_put_u64(writer, "slots", slots);
    render_put_u64(writer, "slots_free", slots_free);
    render_put_u64(writer, "experiments", experiments);
    render_put_u64(writer, "experiments_live", live);
}

static void put_twin(const struct node_core *core, struct pack_writer *writer)
{
    pack_text(writer, "twin");
    struct node_twin twin;
    if (!node_core_twin(core, &twin)) {
        pack_nil(writer);
        return;
    }
    pack_map(writer, 2);
    render_put_text(writer, "address", twin.address);
    pack_text(writer, "yields");
    pack_bool(writer, !twin.is_yielding);
}

void render_status(const struct node_core *core, const struct render_status_extra *extra, struct pack_writer *writer)
{
    mesh_id mesh = node_core_mesh(core);
    pack_text(writer, "mesh");
    pack_map(writer, 2);
    pack_text(writer, "id");
    render_put_hex(writer, mesh.bytes, sizeof mesh.bytes);
    pack_text(writer, "name");
    render_put_text_or_nil(writer, extra->mesh_name);
    pack_text(writer, "node");
    pack_map(writer, 4);
    pack_text(writer, "id");
    render_put_node_id(writer, node_core_self(core));
    render_put_text(writer, "name", render_node_name(core, node_core_self(core)));
    render_put_text(writer, "state", render_node_state(core, node_core_self(core)));
    pack_text(writer, "drained");
    pack_bool(writer, node_core_is_drained(core, node_core_self(core)));
    render_put_text(writer, "version", extra->version);
    pack_text(writer, "address");
    render_put_text_or_nil(writer, extra->address);
    render_put_u64(writer, "uptime_s", extra->uptime_s);
    put_totals(core, writer);
    render_put_u64(writer, "records", node_core_records(core)->count);
    render_put_u64(writer, "memory_bytes", extra->memory_bytes);
    pack_text(writer, "syncing");
    pack_bool(writer, node_core_is_syncing(core));
    pack_text(writer, "disk_full");
    pack_bool(writer, node_core_is_disk_full(core));
    pack_text(writer, "memory_full");
    pack_bool(writer, node_core_is_memory_short(core));
    pack_text(writer, "refused");
    put_refused(core, extra, writer);
    pack_text(writer, "scrub");
    pack_map(writer, 4);
    render_put_u64(writer, "checked_bytes", extra->scrub_bytes);
    render_put_u64(writer, "passes", extra->scrub_passes);
    render_put_u64(writer, "damaged", extra->scrub_damaged);
    render_put_u64(writer, "restored", extra->scrub_restored);
    put_twin(core, writer);
    pack_text(writer, "was");
    if (node_id_is_none(extra->was)) {
        pack_nil(writer);
    } else {
        pack_map(writer, 2);
        pack_text(writer, "id");
        render_put_node_id(writer, extra->was);
        render_put_text(writer, "address", extra->was_address);
    }
}

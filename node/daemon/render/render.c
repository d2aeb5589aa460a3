#include "node/daemon/render/render.h"

#include "base/format.h"
#include "node/daemon/render/put.h"
#include "node/daemon/render/rows.h"

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static bool is_self(const struct node_core *core, node_id node)
{
    return node_id_equal(node, node_core_self(core));
}

static bool is_shown(const struct node_core *core, const struct view_member *member)
{
    return member->admitted || is_self(core, member->id);
}

/* Former members are listed, but counted nowhere. */
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

struct view_label render_node_label(const struct node_core *core, node_id node)
{
    struct view_label label = view_label(node_core_view(core), node);
    if (label.text[0] == '?' && is_self(core, node)) {
        bytes_copy_text(label.text, sizeof label.text, node_core_own_fact(core)->name);
    }
    return label;
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
    uint32_t alive = 0;
    for (uint32_t i = 0; i < node_core_view(core)->member_count; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        alive += is_shown(core, member) && render_node_lives(core, member);
    }
    return alive;
}

uint32_t render_nodes_drained(const struct node_core *core)
{
    uint32_t drained = 0;
    for (uint32_t i = 0; i < node_core_view(core)->member_count; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        drained += is_shown(core, member) && render_node_lives(core, member) && view_member_drain(member).drained;
    }
    return drained;
}

/* Reads the node's own record; false: the record is not here. */
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

static void put_versions(const struct node_core *core, node_id node, msgpack_packer *packer)
{
    struct version_range theirs = node_core_versions(core, node);
    render_put_string(packer, "protocol");
    if (theirs.newest == 0) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 3);
    render_put_u64(packer, "min", theirs.oldest);
    render_put_u64(packer, "max", theirs.newest);
    uint32_t common = version_common(node_core_versions(core, node_core_self(core)), theirs);
    if (node_core_speaks(core, node)) {
        render_put_u64(packer, "common", common);
    } else {
        render_put_string(packer, "common");
        (void)msgpack_pack_nil(packer);
    }
}

/* The door for other machines; NULL, or without an address: there is none. */
static void put_door(const struct fact_door *door, msgpack_packer *packer)
{
    render_put_string(packer, "https");
    if (door == NULL || door->address[0] == '\0') {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 2);
    render_put_text(packer, "address", door->address);
    render_put_string(packer, "certificate");
    render_put_hex(packer, door->certificate, sizeof door->certificate);
}

/* The nodes that this one found alive and did not reach, by its own record. */
static void put_links(const struct node_core *core, const struct view_member *member, msgpack_packer *packer)
{
    const struct view_links *links = view_member_links(member);
    const struct view *view = node_core_view(core);
    render_put_string(packer, "links");
    if (links == NULL) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 2);
    render_put_u64(packer, "networks", links->network_count);
    render_put_string(packer, "unreached");
    (void)msgpack_pack_array(packer, links->unreached_count);
    for (uint32_t i = 0; i < links->unreached_count; i++) {
        const struct fact_unreached *other = &links->unreached[i];
        char prefix[2 * sizeof other->node + 1];
        uint32_t at = 0, networks = 0;
        while (at < view->member_count && memcmp(view->members[at]->id.bytes, other->node, sizeof other->node) != 0) {
            at++;
        }
        for (uint32_t bits = other->networks; bits != 0; bits &= bits - 1) {
            networks++;
        }
        bytes_to_hex(prefix, other->node, sizeof other->node);
        (void)msgpack_pack_map(packer, 2);
        render_put_string(packer, "node");
        if (at < view->member_count) {
            render_put_node_id(packer, view->members[at]->id);
        } else {
            render_put_string(packer, prefix);
        }
        render_put_u64(packer, "networks", networks);
    }
}

static void put_node(const struct node_core *core, const struct view_member *member, msgpack_packer *packer)
{
    struct fact_node fact;
    bool has_fact = node_fact(core, member->id, &fact);
    struct fact_drain drain = view_member_drain(member);
    (void)msgpack_pack_map(packer, 17 + (member->evicted ? 1 : 0));
    render_put_string(packer, "id");
    render_put_node_id(packer, member->id);
    render_put_text(packer, "label", render_node_label(core, member->id).text);
    render_put_text(packer, "name", render_node_name(core, member->id));
    render_put_string(packer, "address");
    render_put_text_or_nil(packer, node_address(core, member));
    render_put_text(packer, "state", render_node_state(core, member->id));
    render_put_u64(packer, "slots", has_fact ? fact.slot_count : 0);
    render_put_string(packer, "version");
    render_put_text_or_nil(packer, has_fact ? fact.version : "");
    put_versions(core, member->id, packer);
    render_put_bool(packer, "drained", drain.drained);
    render_put_bool(packer, "emptied", drain.is_idle);
    render_put_string(packer, "policy");
    render_put_policy(member, packer);
    render_put_string(packer, "quarantined");
    if (member->quarantine.is_active) {
        (void)msgpack_pack_map(packer, 2);
        render_put_u64(packer, "minutes", member->quarantine.minutes);
        render_put_text(packer, "reason", member->quarantine.why);
    } else {
        (void)msgpack_pack_nil(packer);
    }
    put_door(has_fact ? &fact.door : NULL, packer);
    render_put_string(packer, "labels");
    (void)msgpack_pack_array(packer, has_fact ? fact.label_count : 0);
    for (uint32_t i = 0; has_fact && i < fact.label_count; i++) {
        render_put_string(packer, fact.labels[i]);
    }
    render_put_string(packer, "voucher");
    render_put_node_id(packer, member->voucher);
    if (member->evicted) {
        render_put_string(packer, "evictor");
        render_put_node_id(packer, member->evictor);
    }
    put_links(core, member, packer);
    int64_t ahead_s;
    render_put_string(packer, "clock_ahead_s");
    if (render_node_lives(core, member) && node_core_clock_ahead_s(core, member->id, &ahead_s)) {
        (void)msgpack_pack_int64(packer, ahead_s);
    } else {
        (void)msgpack_pack_nil(packer);
    }
}

static void put_names(const struct node_core *core, const char *key, const node_id *nodes, uint32_t count,
                      msgpack_packer *packer)
{
    render_put_string(packer, key);
    (void)msgpack_pack_array(packer, count);
    for (uint32_t i = 0; i < count; i++) {
        (void)msgpack_pack_map(packer, 3);
        render_put_string(packer, "id");
        render_put_node_id(packer, nodes[i]);
        render_put_text(packer, "label", render_node_label(core, nodes[i]).text);
        render_put_text(packer, "name", render_node_name(core, nodes[i]));
    }
}

void render_eviction(const struct node_core *core, node_id node, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    node_id standing[NODE_MEMBERS_MAX], out[NODE_MEMBERS_MAX];
    uint32_t standing_count = 0, out_count = 0;
    for (uint32_t i = 0; i < node_core_view(core)->vouchers.count && standing_count < NODE_MEMBERS_MAX; i++) {
        const struct view_statement *voucher = &node_core_view(core)->vouchers.items[i];
        if (node_id_equal(voucher->writer, node) && !node_id_equal(voucher->about, node) && voucher->member->admitted) {
            standing[standing_count++] = voucher->about;
        }
    }
    for (uint32_t i = 0; i < node_core_view(core)->member_count && out_count < NODE_MEMBERS_MAX; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        if (view_member_is_out(member) && !member->evicted) {
            out[out_count++] = member->id;
        }
    }
    render_put_string(&packer, "node");
    render_put_node_id(&packer, node);
    render_put_text(&packer, "label", render_node_label(core, node).text);
    render_put_text(&packer, "name", render_node_name(core, node));
    put_names(core, "standing", standing, standing_count, &packer);
    put_names(core, "void", out, out_count, &packer);
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
    return !fact->revoked && fact->expires_s <= node_core_mesh_wall_s(core) ? "expired" : "revoked";
}

static bool put_invite(void *context, const struct records_entry *entry)
{
    struct invites *invites = context;
    const struct node_core *core = invites->core;
    msgpack_packer *packer = invites->list.packer;
    struct fact_invite fact;
    uint32_t at = invites->at++;
    if (at < invites->from || entry->record.kind != FACT_INVITE || fact_invite_read(&entry->record, &fact) != 0 ||
        fact.expires_s == 0) {
        return true; /* a revocation by another member, without the time of the invite */
    }
    (void)msgpack_pack_map(packer, 6);
    render_put_string(packer, "id");
    render_put_hex(packer, entry->record.key, RENDER_INVITE_ID_BYTES);
    render_put_string(packer, "writer");
    render_put_node_id(packer, entry->record.writer);
    render_put_text(packer, "writer_label", render_node_label(core, entry->record.writer).text);
    render_put_text(packer, "writer_name", render_node_name(core, entry->record.writer));
    render_put_u64(packer, "expires_s", fact.expires_s);
    render_put_text(packer, "state", invite_state(core, &entry->record, &fact));
    invites->more = !render_list_took_row(&invites->list);
    if (invites->more) {
        invites->at = at;
    }
    return !invites->more;
}

bool render_invites(const struct node_core *core, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "invites");
    struct invites invites = {.core = core, .list = render_list_open(&packer), .from = *from};
    records_each(node_core_records(core), put_invite, &invites);
    render_list_close(&invites.list);
    *from = invites.at;
    return invites.more;
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

bool render_nodes(const struct node_core *core, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "nodes");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from;
    for (; i < node_core_view(core)->member_count; i++) {
        if (is_listed(core, node_core_view(core)->members[i])) {
            put_node(core, node_core_view(core)->members[i], &packer);
            if (!render_list_took_row(&list)) {
                break;
            }
        }
    }
    render_list_close(&list);
    *from = i;
    return i < node_core_view(core)->member_count;
}

/* ---- slots ----------------------------------------------------------------------------------------------------- */

struct view_slot render_slot_now(const struct node_core *core, const struct view_member *member, uint32_t slot)
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

const char *render_slot_state(const struct view_slot *slot)
{
    static const char *const names[] = {"free", "reserved", "leased", "releasing", "withheld"};
    uint32_t state = slot->state == LEASE_LEASED && slot->withheld ? LEASE_RELEASING : slot->state;
    return state < sizeof names / sizeof names[0] ? names[state] : "withheld";
}

static void put_slot(const struct node_core *core, const struct view_member *member, const struct fact_slot_info *info,
                     uint32_t index, msgpack_packer *packer)
{
    struct view_slot slot = render_slot_now(core, member, index);
    bool is_held = slot.state != LEASE_FREE && slot.state != LEASE_WITHHELD;
    (void)msgpack_pack_map(packer, 14);
    render_put_string(packer, "node");
    render_put_node_id(packer, member->id);
    render_put_text(packer, "node_label", render_node_label(core, member->id).text);
    render_put_text(packer, "node_name", render_node_name(core, member->id));
    render_put_text(packer, "node_state", render_node_state(core, member->id));
    render_put_u64(packer, "index", index);
    render_put_text(packer, "uuid", info->uuid);
    render_put_text(packer, "kind", info->kind == FACT_SLOT_CUDA ? "cuda" : "cpu");
    render_put_text(packer, "model", info->model);
    render_put_u64(packer, "memory_bytes", info->memory_bytes);
    render_put_text(packer, "state", render_slot_state(&slot));
    render_put_string(packer, "why");
    render_put_text_or_nil(packer, render_slot_why(member, index));
    render_put_string(packer, "experiment");
    if (is_held) {
        render_put_experiment_id(packer, slot.attempt.experiment);
        render_put_u64(packer, "trial", slot.attempt.trial);
        render_put_u64(packer, "attempt", slot.attempt.number);
    } else {
        (void)msgpack_pack_nil(packer);
        render_put_string(packer, "trial");
        (void)msgpack_pack_nil(packer);
        render_put_string(packer, "attempt");
        (void)msgpack_pack_nil(packer);
    }
}

/* Writes the rows of one node from slot `*from` on; true if all rows fitted. */
static bool put_node_slots(const struct node_core *core, const struct view_member *member, uint32_t *from,
                           struct render_list *list)
{
    struct fact_node fact;
    bool has_left = is_self(core, member->id) ? node_core_own_fact(core)->left : member->left;
    if (!is_shown(core, member) || view_member_is_out(member) || has_left || !node_fact(core, member->id, &fact)) {
        return true;
    }
    for (; *from < fact.slot_count; ++*from) {
        put_slot(core, member, &fact.slots[*from], *from, list->packer);
        if (!render_list_took_row(list)) {
            return false;
        }
    }
    return true;
}

bool render_slots(const struct node_core *core, uint32_t *from, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "slots");
    struct render_list list = render_list_open(&packer);
    uint32_t i = *from / FACT_SLOTS_MAX, slot = *from % FACT_SLOTS_MAX;
    for (; i < node_core_view(core)->member_count &&
           put_node_slots(core, node_core_view(core)->members[i], &slot, &list);
         i++) {
        slot = 0;
    }
    render_list_close(&list);
    *from = i * FACT_SLOTS_MAX + slot;
    return i < node_core_view(core)->member_count;
}

/* ---- counts ---------------------------------------------------------------------------------------------------- */

#define STATES_MAX 8

/* How many of something are in each state. States are constants, and few. */
struct state_counts {
    uint32_t count;
    const char *names[STATES_MAX];
    uint64_t of[STATES_MAX];
};

static void count_state(struct state_counts *counts, const char *state)
{
    uint32_t i = 0;
    while (i < counts->count && strcmp(counts->names[i], state) != 0) {
        i++;
    }
    if (i == counts->count && i < STATES_MAX) {
        counts->names[counts->count++] = state;
    }
    if (i < STATES_MAX) {
        counts->of[i]++;
    }
}

static void put_slot_counts(const struct state_counts *counts, const char *kind, struct render_list *list)
{
    for (uint32_t i = 0; i < counts->count; i++) {
        (void)msgpack_pack_map(list->packer, 3);
        render_put_text(list->packer, "kind", kind);
        render_put_text(list->packer, "state", counts->names[i]);
        render_put_u64(list->packer, "count", counts->of[i]);
        (void)render_list_took_row(list);
    }
}

void render_mesh_counts(const struct node_core *core, struct pack_writer *frame)
{
    struct state_counts nodes = {0}, cpu = {0}, cuda = {0};
    msgpack_packer packer = render_packer(frame);
    for (uint32_t i = 0; i < node_core_view(core)->member_count; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        if (is_listed(core, member)) {
            count_state(&nodes, render_node_state(core, member->id));
        }
        bool has_left = is_self(core, member->id) ? node_core_own_fact(core)->left : member->left;
        bool has_slots = is_shown(core, member) && !view_member_is_out(member) && !has_left;
        for (uint32_t slot = 0; has_slots && slot < member->slot_count; slot++) {
            struct view_slot now = render_slot_now(core, member, slot);
            count_state(member->slot_kinds[slot] == FACT_SLOT_CUDA ? &cuda : &cpu, render_slot_state(&now));
        }
    }
    render_put_string(&packer, "nodes");
    (void)msgpack_pack_map(&packer, nodes.count);
    for (uint32_t i = 0; i < nodes.count; i++) {
        render_put_u64(&packer, nodes.names[i], nodes.of[i]);
    }
    render_put_string(&packer, "slots");
    struct render_list list = render_list_open(&packer);
    put_slot_counts(&cpu, "cpu", &list);
    put_slot_counts(&cuda, "cuda", &list);
    render_list_close(&list);
}

/* ---- blocked ports --------------------------------------------------------------------------------------------- */

void render_blocked_text(const struct node_core *core, const struct render_blocked *blocked, char *out, size_t size)
{
    struct view_label name = render_node_label(core, blocked->node), self = render_node_label(core, node_core_self(core));
    if (blocked->stalls) {
        (void)format_text(out, size,
                          "data between %s and port %u/tcp of %s (%s) stands still, though connections are made: large packets "
                          "may be lost on the way (MTU)",
                          self.text, (unsigned)blocked->port, name.text, blocked->host);
    } else {
        (void)format_text(out, size,
                          "port %u/tcp of %s (%s) cannot be reached from %s: open the ports of Shoal in the firewall "
                          "(man shoald, PORTS)",
                          (unsigned)blocked->port, name.text, blocked->host, self.text);
    }
}

void render_blocked(const struct node_core *core, const struct render_blocked *blocked, uint32_t count,
                    struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "blocked");
    (void)msgpack_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        char text[512];
        render_blocked_text(core, &blocked[i], text, sizeof text);
        (void)msgpack_pack_map(&packer, 8);
        render_put_string(&packer, "node");
        render_put_node_id(&packer, blocked[i].node);
        render_put_text(&packer, "label", render_node_label(core, blocked[i].node).text);
        render_put_text(&packer, "name", render_node_name(core, blocked[i].node));
        render_put_text(&packer, "host", blocked[i].host);
        render_put_u64(&packer, "port", blocked[i].port);
        render_put_bool(&packer, "stalls", blocked[i].stalls);
        render_put_u64(&packer, "since_s", blocked[i].since_s);
        render_put_text(&packer, "text", text);
    }
}

void render_warm(const struct node_core *core, const struct render_warm *warm, uint32_t count, struct pack_writer *frame)
{
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "warm");
    (void)msgpack_pack_array(&packer, count);
    for (uint32_t i = 0; i < count; i++) {
        (void)msgpack_pack_map(&packer, 9);
        render_put_string(&packer, "node");
        render_put_node_id(&packer, node_core_self(core));
        render_put_text(&packer, "label", render_node_label(core, node_core_self(core)).text);
        render_put_string(&packer, "slots");
        (void)msgpack_pack_array(&packer, (size_t)__builtin_popcountll(warm[i].slots));
        for (uint32_t slot = 0; slot < FACT_SLOTS_MAX; slot++) {
            if ((warm[i].slots >> slot & 1) != 0) {
                (void)msgpack_pack_uint64(&packer, slot);
            }
        }
        render_put_string(&packer, "experiment");
        render_put_experiment_id(&packer, warm[i].experiment);
        render_put_u64(&packer, "pid", warm[i].pid);
        render_put_text(&packer, "state", warm[i].is_ready ? "ready" : "importing");
        render_put_u64(&packer, "trials", warm[i].trials);
        render_put_u64(&packer, "memory_bytes", warm[i].memory_bytes);
        render_put_u64(&packer, "idle_s", warm[i].idle_s);
    }
}

/* ---- status ---------------------------------------------------------------------------------------------------- */

static void put_refused(const struct node_core *core, const struct render_status_extra *extra,
                        msgpack_packer *packer)
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
        {"tokens", extra->tokens},
        {"equivocations", counters.equivocations},
        {"stale_claims", counters.stale_claims},
        {"jumps", counters.jumps},
        {"for_lack_of_memory", counters.full},
    };
    (void)msgpack_pack_map(packer, sizeof rows / sizeof rows[0]);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        render_put_u64(packer, rows[i].name, rows[i].count);
    }
}

static void put_totals(const struct node_core *core, msgpack_packer *packer)
{
    uint32_t nodes = 0, slots = 0, slots_free = 0, experiments = 0, live = 0;
    for (uint32_t i = 0; i < node_core_view(core)->member_count; i++) {
        const struct view_member *member = node_core_view(core)->members[i];
        nodes += is_shown(core, member);
        bool counts = is_shown(core, member) && render_node_lives(core, member);
        for (uint32_t slot = 0; counts && slot < member->slot_count; slot++) {
            slots++;
            slots_free += render_slot_now(core, member, slot).state == LEASE_FREE;
        }
    }
    for (uint32_t i = 0; i < node_core_view(core)->experiment_count; i++) {
        const struct view_experiment *experiment = node_core_view(core)->experiments[i];
        experiments += experiment->known;
        live += experiment->known && view_experiment_live(experiment);
    }
    render_put_u64(packer, "nodes", nodes);
    render_put_u64(packer, "nodes_alive", render_nodes_alive(core));
    render_put_u64(packer, "nodes_drained", render_nodes_drained(core));
    render_put_u64(packer, "slots", slots);
    render_put_u64(packer, "slots_free", slots_free);
    render_put_u64(packer, "experiments", experiments);
    render_put_u64(packer, "experiments_live", live);
}

static void put_twin(const struct node_core *core, msgpack_packer *packer)
{
    render_put_string(packer, "twin");
    struct node_twin twin;
    if (!node_core_twin(core, &twin)) {
        (void)msgpack_pack_nil(packer);
        return;
    }
    (void)msgpack_pack_map(packer, 2);
    render_put_text(packer, "address", twin.address);
    render_put_bool(packer, "yields", !twin.is_yielding);
}

void render_status(const struct node_core *core, const struct render_status_extra *extra, struct pack_writer *frame)
{
    mesh_id mesh = node_core_mesh(core);
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "mesh");
    (void)msgpack_pack_map(&packer, 2);
    render_put_string(&packer, "id");
    render_put_hex(&packer, mesh.bytes, sizeof mesh.bytes);
    render_put_string(&packer, "name");
    render_put_text_or_nil(&packer, extra->mesh_name);
    render_put_string(&packer, "node");
    (void)msgpack_pack_map(&packer, 5);
    render_put_string(&packer, "id");
    render_put_node_id(&packer, node_core_self(core));
    render_put_text(&packer, "label", render_node_label(core, node_core_self(core)).text);
    render_put_text(&packer, "name", render_node_name(core, node_core_self(core)));
    render_put_text(&packer, "state", render_node_state(core, node_core_self(core)));
    render_put_bool(&packer, "drained", node_core_is_drained(core, node_core_self(core)));
    render_put_text(&packer, "version", extra->version);
    render_put_string(&packer, "address");
    render_put_text_or_nil(&packer, extra->address);
    const struct fact_addresses *own = node_core_own_addresses(core);
    render_put_string(&packer, "addresses");
    (void)msgpack_pack_array(&packer, own->count);
    for (uint32_t i = 0; i < own->count; i++) {
        render_put_string(&packer, own->items[i].text);
    }
    render_put_u64(&packer, "uptime_s", extra->uptime_s);
    put_totals(core, &packer);
    render_put_u64(&packer, "records", node_core_records(core)->count);
    render_put_u64(&packer, "memory_bytes", extra->memory_bytes);
    render_put_bool(&packer, "polite", extra->is_polite);
    render_put_bool(&packer, "tells_webhooks", extra->tells_webhooks);
    render_put_bool(&packer, "syncing", node_core_is_syncing(core));
    render_put_bool(&packer, "disk_full", node_core_is_disk_full(core));
    render_put_bool(&packer, "memory_full", node_core_is_memory_short(core));
    render_put_string(&packer, "refused");
    put_refused(core, extra, &packer);
    render_put_string(&packer, "scrub");
    (void)msgpack_pack_map(&packer, 4);
    render_put_u64(&packer, "checked_bytes", extra->scrub_bytes);
    render_put_u64(&packer, "passes", extra->scrub_passes);
    render_put_u64(&packer, "damaged", extra->scrub_damaged);
    render_put_u64(&packer, "restored", extra->scrub_restored);
    put_twin(core, &packer);
    render_put_string(&packer, "was");
    if (node_id_is_none(extra->was)) {
        (void)msgpack_pack_nil(&packer);
    } else {
        (void)msgpack_pack_map(&packer, 2);
        render_put_string(&packer, "id");
        render_put_node_id(&packer, extra->was);
        render_put_text(&packer, "address", extra->was_address);
    }
    render_put_string(&packer, "clock_ahead_s");
    (void)msgpack_pack_int64(&packer, (int64_t)node_core_wall_s(core) - (int64_t)node_core_mesh_wall_s(core));
}

/* The fold of records about nodes: their addresses, slots, drains, quarantines and programs. */

#include "node/core/view/fold.h"

#include "base/err.h"
#include "gossip/lease.h"

static int drain_order(const void *row, const void *wanted)
{
    const struct view_drain *a = row, *b = wanted;
    return node_id_compare(a->writer, b->writer);
}

int fold_drain(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_drain fact;
    node_id id;
    if (fact_drain_read(record, &fact) != 0 || fact_key_read_node(record, &id) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, id);
    if (member == NULL) {
        return ERR_FULL;
    }
    struct lamport_top before = view_drain_top(member, NULL);
    const struct view_drain wanted = {.writer = record->writer};
    struct view_drain *drain = view_row(view, &member->drains, &wanted, sizeof wanted, drain_order);
    if (drain == NULL) {
        return ERR_FULL;
    }
    drain->fact = fact;
    view_count_jumps(view, before, view_drain_top(member, NULL));
    view->nodes_changed = true;
    return 0;
}

/* Makes room for at least `wanted` slots. False: the arena is full. */
static bool member_slots(struct view *view, struct view_member *member, uint32_t wanted)
{
    uint32_t room = member->slot_room == 0 ? 1 : member->slot_room;
    while (room < wanted) {
        room *= 2;
    }
    if (room == member->slot_room) {
        return true;
    }
    void *bigger = arena_grow(view->arena, member->slots, member->slot_room * sizeof *member->slots,
                              room * sizeof *member->slots);
    if (bigger != NULL) {
        member->slots = bigger;
        member->slot_room = room;
    }
    return bigger != NULL;
}

const struct view_slot *view_member_slot(const struct view_member *member, uint32_t slot)
{
    return slot < member->slot_room ? &member->slots[slot] : NULL;
}

int fold_node(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_node fact;
    if (fact_node_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL || !member_slots(view, member, fact.slot_count)) {
        return ERR_FULL;
    }
    member->has_node = true;
    member->node = entry;
    member->node_boot = record->version.boot;
    member->left = fact.left;
    member->protocol = (struct version_range){fact.protocol_min, fact.protocol_max};
    bytes_copy_text(member->name, sizeof member->name, fact.name);
    member->address_count = fact.address_count;
    memcpy(member->addresses, fact.addresses, sizeof member->addresses);
    member->bulk_port = fact.bulk_port;
    member->reads = fact.reads;
    member->slot_count = fact.slot_count;
    member->slot_parts = 0;
    for (uint32_t i = 0; i < fact.slot_count; i++) {
        member->slot_kinds[i] = fact.slots[i].kind;
        member->slot_parts |= strncmp(fact.slots[i].uuid, "MIG-", 4) == 0 ? UINT64_C(1) << i : 0;
    }
    view->nodes_changed = true;
    view->slots_changed = true;
    return 0;
}

int fold_slot(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_slot fact;
    uint32_t index;
    if (fact_slot_read(record, &fact) != 0 || fact_key_read_slot(record, &index) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL || !member_slots(view, member, index + 1)) {
        return ERR_FULL;
    }
    member->slots[index] = (struct view_slot){fact.state, fact.attempt, fact.rank, fact.withheld, fact.withheld_s, fact.since_s};
    view->slots_changed |= fact.state == LEASE_FREE && !fact.withheld;
    return 0;
}

int fold_quarantine(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_quarantine fact;
    if (fact_quarantine_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL) {
        return ERR_FULL;
    }
    member->quarantine = fact;
    view->slots_changed = true;
    return 0;
}

static size_t links_bytes(uint32_t unreached_count)
{
    return sizeof(struct view_links) + unreached_count * sizeof(struct fact_unreached);
}

uint64_t view_network(const char *name)
{
    return bytes_hash64(name, strlen(name), 0);
}

uint32_t view_announced(const struct view_member *member)
{
    return member->announced_boot >= member->node_boot ? member->announced_count : 0;
}

const struct view_links *view_member_links(const struct view_member *member)
{
    return member->links_boot >= member->node_boot || view_announced(member) > 0 ? member->links : NULL;
}

int fold_links(struct view *view, const struct records_entry *entry)
{
    struct fact_links fact;
    if (fact_links_read(&entry->record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, entry->record.writer);
    struct view_links *links = member != NULL ? arena_take(view->arena, links_bytes(fact.unreached_count)) : NULL;
    if (links == NULL) {
        return ERR_FULL;
    }
    links->network_count = fact.network_count;
    for (uint32_t i = 0; i < fact.network_count; i++) {
        links->networks[i] = view_network(fact.networks[i]);
    }
    links->unreached_count = fact.unreached_count;
    memcpy(links->unreached, fact.unreached, fact.unreached_count * sizeof fact.unreached[0]);
    if (member->links != NULL) {
        arena_give(view->arena, member->links, links_bytes(member->links->unreached_count));
    }
    member->links = links;
    member->links_boot = entry->record.version.boot;
    view->slots_changed = true; /* a group may have a network now */
    return 0;
}

int fold_addresses(struct view *view, const struct records_entry *entry)
{
    const struct record *record = &entry->record;
    struct fact_addresses fact;
    if (fact_addresses_read(record, &fact) != 0) {
        return ERR_MALFORMED;
    }
    struct view_member *member = view_member_row(view, record->writer);
    if (member == NULL) {
        return ERR_FULL;
    }
    struct fact_address *announced = NULL;
    if (fact.count > 0) {
        announced = arena_take(view->arena, fact.count * sizeof *announced);
        if (announced == NULL) {
            return ERR_FULL;
        }
        memcpy(announced, fact.items, fact.count * sizeof *announced);
    }
    if (member->announced != NULL) {
        arena_give(view->arena, member->announced, member->announced_count * sizeof *announced);
    }
    member->announced = announced;
    member->announced_count = fact.count;
    member->announced_boot = record->version.boot;
    view->nodes_changed = true;
    return 0;
}

int fold_policy(struct view *view, const struct records_entry *entry)
{
    struct fact_policy fact;
    struct view_member *member = view_member_row(view, entry->record.writer);
    if (member == NULL) {
        return ERR_FULL;
    }
    int rc = fact_policy_read(&entry->record, &fact);
    member->policy = rc == 0 ? entry : NULL;
    return rc;
}

bool view_member_policy(const struct view_member *member, struct fact_policy *out)
{
    return member->policy != NULL && fact_policy_read(&member->policy->record, out) == 0;
}

int fold_programs(struct view *view, const struct records_entry *entry)
{
    struct fact_programs fact;
    struct view_member *member = view_member_row(view, entry->record.writer);
    if (member == NULL) {
        return ERR_FULL;
    }
    int rc = fact_programs_read(&entry->record, &fact);
    member->programs = rc == 0 ? entry : NULL;
    view->slots_changed = true;
    return rc;
}

enum view_program view_member_program(const struct view_member *member, const char *name, struct fact_program *out)
{
    if (member->programs == NULL || !fact_programs_find(&member->programs->record, name, out)) {
        return VIEW_PROGRAM_UNKNOWN;
    }
    return out->is_there ? VIEW_PROGRAM_THERE : VIEW_PROGRAM_LACKING;
}

uint64_t view_member_fitting(const struct view_member *member, const struct config *config)
{
    uint64_t fitting = 0;
    struct fact_node fact;
    for (uint32_t slot = 0; slot < member->slot_count; slot++) {
        bool is_cuda = member->slot_kinds[slot] == FACT_SLOT_CUDA;
        bool fits = config->slot_kind == CONFIG_SLOT_ANY || is_cuda == (config->slot_kind == CONFIG_SLOT_CUDA);
        fitting |= fits ? UINT64_C(1) << slot : 0;
    }
    if (fitting == 0 || config->constraints[0] == '\0') {
        return fitting;
    }
    bool is_known = member->node != NULL && fact_node_read(&member->node->record, &fact) == 0;
    return is_known ? fitting & config_constraints_slots(config, &fact) : 0;
}

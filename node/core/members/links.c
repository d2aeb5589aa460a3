#include "node/core/members/links.h"

#include "base/address.h"
#include "node/core/ground/effects.h"
#include "node/core/ground/publish.h"
#include "node/core/members/addresses.h"

/* ---- networks --------------------------------------------------------------------------------------------------------------- */

/* A host that is a name, which only tests have, counts as IPv4. */
static const char *family_of(const char *host)
{
    return strchr(host, ':') != NULL ? "6" : "4";
}

/* The network of an address by its prefix; empty for link-local IPv6 and for networks of one address. */
static void prefix_of(const char *text, uint32_t prefix, char out[FACT_NETWORK_BYTES])
{
    char host[FACT_ADDRESS_BYTES];
    address_host(text, host, sizeof host);
    bool is_wide = strchr(host, ':') != NULL;
    bool is_one = prefix >= (is_wide ? 128u : 32u);
    out[0] = '\0';
    if (!is_one && !(is_wide && address_is_link_local(host))) {
        address_network(host, prefix, out, FACT_NETWORK_BYTES);
    }
}

/* The addresses of a node by its records; of this node as they are now. */
static uint32_t announced_of(const struct node_core *core, node_id node, const struct fact_address **out,
                             struct fact_address older[FACT_ADDRESSES_MAX])
{
    if (node_id_equal(node, core->options.self)) {
        *out = core->options.addresses.announced.items;
        return core->options.addresses.announced.count;
    }
    const struct view_member *member = view_find_member(&core->view, node);
    uint32_t announced = member != NULL ? view_announced(member) : 0;
    if (member == NULL || announced > 0) {
        *out = member != NULL ? member->announced : NULL;
        return announced;
    }
    for (uint32_t i = 0; i < member->address_count; i++) {
        bytes_copy_text(older[i].text, sizeof older[i].text, member->addresses[i]);
        older[i].prefix = 0;
        older[i].speed = 1;
    }
    *out = older;
    return member->address_count;
}

/* The node's address in a network: the first one. NULL: it has none. */
static const struct fact_address *address_in(const struct fact_address *items, uint32_t count, const char *network)
{
    bool is_family = network[1] == '\0';
    for (uint32_t i = 0; i < count; i++) {
        char host[FACT_ADDRESS_BYTES], name[FACT_NETWORK_BYTES];
        address_host(items[i].text, host, sizeof host);
        prefix_of(items[i].text, items[i].prefix, name);
        bool fits = is_family ? !address_is_link_local(host) && family_of(host)[0] == network[0] : strcmp(name, network) == 0;
        if (fits) {
            return &items[i];
        }
    }
    return NULL;
}

static uint32_t networks_of(const struct fact_address *items, uint32_t count, char out[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES])
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < count && found < FACT_NETWORKS_MAX - 2; i++) {
        char name[FACT_NETWORK_BYTES];
        prefix_of(items[i].text, items[i].prefix, name);
        bool is_new = name[0] != '\0';
        for (uint32_t j = 0; j < found; j++) {
            is_new &= strcmp(out[j], name) != 0;
        }
        if (is_new) {
            bytes_copy_text(out[found++], FACT_NETWORK_BYTES, name);
        }
    }
    static const char *const families[] = {"4", "6"};
    for (size_t i = 0; i < 2; i++) {
        if (address_in(items, count, families[i]) != NULL) {
            bytes_copy_text(out[found++], FACT_NETWORK_BYTES, families[i]);
        }
    }
    return found;
}

uint32_t links_networks(const struct node_core *core, node_id node, char out[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES])
{
    struct fact_address older[FACT_ADDRESSES_MAX];
    const struct fact_address *items;
    uint32_t count = announced_of(core, node, &items, older);
    return networks_of(items, count, out);
}

void links_own_host(const struct node_core *core, const char *network, char *out, size_t size)
{
    const struct fact_addresses *own = &core->options.addresses.announced;
    const struct fact_address *address = network[0] != '\0' ? address_in(own->items, own->count, network) : NULL;
    if (address == NULL && own->count > 0) {
        address = &own->items[0];
    }
    address_host(address != NULL ? address->text : "", out, size);
}

void links_of_attempt(const struct node_core *core, const attempt_id *attempt, char out[FACT_NETWORK_BYTES])
{
    struct fact_key key = fact_key_attempt(attempt);
    const struct records_entry *entry =
        records_find(&core->records, record_ident_of(attempt->coordinator, FACT_ATTEMPT, key.bytes, key.count));
    const struct records_entry *large =
        records_find(&core->records, record_ident_of(attempt->coordinator, FACT_ATTEMPT_LARGE, key.bytes, key.count));
    struct fact_attempt fact;
    bool is_here = entry != NULL   ? fact_attempt_read(&entry->record, &fact) == 0
                   : large != NULL ? fact_attempt_large_read(&large->record, &fact) == 0
                                   : false;
    bytes_copy_text(out, FACT_NETWORK_BYTES, is_here ? fact.network : "");
}

bool links_announces(const struct node_core *core, node_id node, const char *host)
{
    struct fact_address older[FACT_ADDRESSES_MAX];
    const struct fact_address *items;
    uint32_t count = announced_of(core, node, &items, older);
    for (uint32_t i = 0; i < count; i++) {
        char announced[FACT_ADDRESS_BYTES];
        address_host(items[i].text, announced, sizeof announced);
        if (strcmp(announced, host) == 0) {
            return true;
        }
    }
    return count == 0 || host[0] == '\0';
}

/* ---- what this node found ---------------------------------------------------------------------------------------------------- */

static const struct core_address *checked(const struct core_peer *peer, const char *text)
{
    const struct core_address *address = peer->addresses;
    while (address != NULL && strcmp(address->text, text) != 0) {
        address = address->next;
    }
    return address != NULL && address->answered_ms != 0 ? address : NULL;
}

static uint32_t bit_before(const struct core_links *links, node_id node, const char *network)
{
    for (uint32_t n = 0; n < links->own.network_count; n++) {
        if (strcmp(links->own.networks[n], network) != 0) {
            continue;
        }
        for (uint32_t i = 0; i < links->own.unreached_count; i++) {
            if (memcmp(links->own.unreached[i].node, node.bytes, sizeof links->own.unreached[i].node) == 0) {
                return links->own.unreached[i].networks >> n & 1;
            }
        }
    }
    return 0;
}

/* 1: a living peer was not reached on the network, or was not tried there yet. A peer that is not alive stays as it was. */
static uint32_t look_at(const struct node_core *core, const struct core_links *links, const struct core_peer *peer,
                        const char *network)
{
    struct fact_address older[FACT_ADDRESSES_MAX];
    const struct fact_address *items;
    if (peer->state != SWIM_ALIVE) {
        return bit_before(links, peer->id, network);
    }
    uint32_t count = announced_of(core, peer->id, &items, older);
    const struct fact_address *address = address_in(items, count, network);
    if (address == NULL) {
        return 0;
    }
    const struct core_address *seen = checked(peer, address->text);
    bool is_lost_once = seen != NULL && seen->reached_ms != 0 && seen->failures < 2; /* one check may get lost */
    return seen == NULL || (!seen->is_reached && !is_lost_once);
}

/* A living peer has an address that was not tried yet. */
static bool any_untried(const struct node_core *core)
{
    for (uint32_t i = 0; i < core->members->peer_count; i++) {
        const struct core_peer *peer = core->members->peers[i];
        for (const struct core_address *a = peer->state == SWIM_ALIVE ? peer->addresses : NULL; a != NULL; a = a->next) {
            if (a->answered_ms == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Drops the network with the most exceptions. */
static void drop_worst(struct fact_links *links)
{
    uint32_t most = 0, worst = 0, kept = 0;
    for (uint32_t n = 0; n < links->network_count; n++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < links->unreached_count; i++) {
            count += links->unreached[i].networks >> n & 1;
        }
        worst = count > most ? n : worst;
        most = count > most ? count : most;
    }
    links->network_count--;
    memmove(links->networks[worst], links->networks[worst + 1], (links->network_count - worst) * sizeof links->networks[0]);
    memset(links->networks[links->network_count], 0, sizeof links->networks[0]);
    for (uint32_t i = 0; i < links->unreached_count; i++) {
        uint32_t bits = links->unreached[i].networks, below = (1u << worst) - 1;
        bits = (bits & below) | (bits >> 1 & ~below);
        if (bits != 0) {
            memcpy(links->unreached[kept].node, links->unreached[i].node, sizeof links->unreached[i].node);
            links->unreached[kept++].networks = bits;
        }
    }
    memset(links->unreached + kept, 0, (links->unreached_count - kept) * sizeof links->unreached[0]);
    links->unreached_count = kept;
}

/* A network with too many exceptions is not listed: then no group uses it together with this node. */
static void look(const struct node_core *core, const struct core_links *links, struct fact_links *out)
{
    memset(out, 0, sizeof *out);
    out->network_count = links_networks(core, core->options.self, out->networks);
    for (uint32_t i = 0; i < core->members->peer_count; i++) { /* peers are sorted by id */
        const struct core_peer *peer = core->members->peers[i];
        uint32_t bits = 0;
        for (uint32_t n = 0; n < out->network_count; n++) {
            bits |= look_at(core, links, peer, out->networks[n]) << n;
        }
        if (bits != 0 && out->unreached_count == FACT_UNREACHED_MAX) {
            drop_worst(out);
            i = UINT32_MAX; /* from the first peer again, without that network */
            out->unreached_count = 0;
            memset(out->unreached, 0, sizeof out->unreached);
        } else if (bits != 0) {
            memcpy(out->unreached[out->unreached_count].node, peer->id.bytes, sizeof out->unreached[0].node);
            out->unreached[out->unreached_count++].networks = bits;
        }
    }
}

static bool is_same(const struct fact_links *a, const struct fact_links *b)
{
    return a->network_count == b->network_count && a->unreached_count == b->unreached_count &&
           memcmp(a->networks, b->networks, sizeof a->networks) == 0 &&
           memcmp(a->unreached, b->unreached, sizeof a->unreached) == 0;
}

static void publish(struct node_core *core, struct core_links *links)
{
    uint8_t bytes[RECORD_BODY_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    fact_links_pack(&writer, &links->own);
    bool is_published;
    (void)core_try_put(core, FACT_LINKS, fact_key_empty(), &writer, &is_published);
    links->has_own = is_published;
    links->count++;
}

void links_housekeep(struct node_core *core)
{
    struct core_members *members = core->members;
    if (members->links == NULL) {
        members->links = arena_take(&core->arena, sizeof *members->links);
    }
    struct core_links *links = members->links;
    /* Before it has caught up a node is in no group, and others that catch up would not pass the record on. */
    if (links == NULL || core->is_out || core->leaving || members->syncing || !core_has_room(core, 64, RECORD_BODY_BYTES_MAX)) {
        return;
    }
    bool is_large = core_members_fans_out(core);
    uint64_t pause_ms = is_large ? CORE_LINKS_LARGE_MS : CORE_LINKS_MS;
    if (is_large && links->looked_ms != 0 && core->now_ms - links->looked_ms < CORE_LINKS_MS) {
        return; /* a look takes milliseconds among a thousand nodes */
    }
    links->looked_ms = core->now_ms;
    if (is_large && !links->has_own && any_untried(core) && core->now_ms - core->started_ms < CORE_SYNC_ALONE_MS) {
        return; /* in a large mesh that starts each node is to publish once, and not for each node that it finds */
    }
    uint64_t earned = (core->now_ms - core->started_ms) / pause_ms;
    uint32_t at_once = is_large ? 1 : CORE_LINKS_AT_ONCE;
    uint32_t allowed = at_once + (uint32_t)(earned < UINT32_MAX / 2 ? earned : UINT32_MAX / 2);
    if (links->count >= allowed) {
        return;
    }
    links->count = allowed - links->count > at_once ? allowed - at_once : links->count;
    struct fact_links now;
    look(core, links, &now);
    if (!links->has_own || !is_same(&now, &links->own)) {
        links->own = now;
        publish(core, links);
    }
}

void links_restate(struct node_core *core)
{
    struct core_links *links = core->members->links;
    if (links != NULL && links->has_own) {
        publish(core, links);
    }
}

/* ---- what groups go by ------------------------------------------------------------------------------------------------------- */

bool links_is_older(const struct node_core *core, node_id node)
{
    const struct view_member *member = view_find_member(&core->view, node);
    return member == NULL || (view_announced(member) == 0 && view_member_links(member) == NULL);
}

/* What the record of `from` tells about `to`: 1: reached on the network, 0: not, -1: there is no record. */
static int found_by(const struct node_core *core, node_id from, node_id to, uint64_t network)
{
    const struct view_member *member = view_find_member(&core->view, from);
    const struct view_links *links = member != NULL ? view_member_links(member) : NULL;
    if (links == NULL) {
        return links_is_older(core, from) ? -1 : 0;
    }
    for (uint32_t n = 0; n < links->network_count; n++) {
        if (links->networks[n] != network) {
            continue;
        }
        for (uint32_t i = 0; i < links->unreached_count; i++) {
            if (memcmp(links->unreached[i].node, to.bytes, sizeof links->unreached[i].node) == 0) {
                return (links->unreached[i].networks >> n & 1) == 0;
            }
        }
        return 1;
    }
    return 0;
}

bool links_joins(const struct node_core *core, node_id a, node_id b, const char *network)
{
    uint64_t name = view_network(network);
    int there = found_by(core, a, b, name), back = found_by(core, b, a, name);
    return there != 0 && back != 0 && (there > 0 || back > 0);
}

/* The speed of the slowest member in the network; 0: a member is not in it. */
static uint32_t speed_in(const struct node_core *core, const node_id *nodes, uint32_t count, const char *network)
{
    uint32_t slowest = UINT32_MAX;
    for (uint32_t i = 0; i < count; i++) {
        struct fact_address older[FACT_ADDRESSES_MAX];
        const struct fact_address *items;
        uint32_t items_count = announced_of(core, nodes[i], &items, older);
        const struct fact_address *address = address_in(items, items_count, network);
        if (address == NULL) {
            return 0;
        }
        slowest = address->speed < slowest ? address->speed : slowest;
    }
    return slowest;
}

bool links_common(const struct node_core *core, const node_id *nodes, uint32_t count, char out[FACT_NETWORK_BYTES], node_id *a,
                  node_id *b)
{
    char networks[FACT_NETWORKS_MAX][FACT_NETWORK_BYTES];
    uint32_t network_count = links_networks(core, nodes[0], networks), best = 0;
    bool best_is_family = false, is_told = false;
    out[0] = '\0';
    *a = nodes[0];
    *b = nodes[count > 1];
    for (uint32_t n = 0; n < network_count; n++) {
        bool is_family = networks[n][1] == '\0';
        uint32_t speed = speed_in(core, nodes, count, networks[n]);
        bool joins = speed > 0;
        for (uint32_t i = 0; i < count && joins; i++) {
            for (uint32_t j = i + 1; j < count && joins; j++) {
                joins = links_joins(core, nodes[i], nodes[j], networks[n]);
                if (!joins && !is_told && is_family) {
                    *a = nodes[i];
                    *b = nodes[j];
                    is_told = true;
                }
            }
        }
        if (joins && (best == 0 || (best_is_family && !is_family) || (best_is_family == is_family && speed > best))) {
            best = speed;
            best_is_family = is_family;
            bytes_copy_text(out, FACT_NETWORK_BYTES, networks[n]);
        }
    }
    return best > 0;
}

#include "node/core/members/addresses.h"

#include "base/address.h"
#include "base/probe.h"
#include "base/shift.h"
#include "node/core/ground/effects.h"

/* ---- the list ------------------------------------------------------------------------------------------------------------- */

static struct core_address *find(const struct core_peer *peer, const char *text)
{
    struct core_address *address = peer->addresses;
    while (address != NULL && strcmp(address->text, text) != 0) {
        address = address->next;
    }
    return address;
}

static bool is_used(const struct core_peer *peer, const struct core_address *address)
{
    return strcmp(peer->address, address->text) == 0;
}

static void drop(struct node_core *core, struct core_peer *peer, struct core_address *address)
{
    struct core_address **link = &peer->addresses;
    while (*link != address) {
        link = &(*link)->next;
    }
    *link = address->next;
    arena_give(&core->arena, address, sizeof *address);
}

void addresses_drop_all(struct node_core *core, struct core_peer *peer)
{
    while (peer->addresses != NULL) {
        drop(core, peer, peer->addresses);
    }
}

/* Adds an address at `*link`. NULL when memory is full: the next record or message brings the address again. */
static struct core_address *add(struct node_core *core, struct core_address **link, const char *text)
{
    struct core_address *address = arena_take(&core->arena, sizeof *address);
    if (address == NULL) {
        core->counters.full++;
        return NULL;
    }
    bytes_copy_text(address->text, sizeof address->text, text);
    address->speed = 1;
    address->next = *link;
    *link = address;
    return address;
}

bool addresses_is_announced(const struct core_peer *peer, const char *text)
{
    const struct core_address *address = find(peer, text);
    return address != NULL && address->source == CORE_ADDRESS_ANNOUNCED;
}

void addresses_doubt(struct core_peer *peer)
{
    for (struct core_address *address = peer->addresses; address != NULL; address = address->next) {
        address->checked_ms = 0;
        address->failures = address->failures > 1 ? 1 : address->failures;
    }
}

/* ---- the choice ------------------------------------------------------------------------------------------------------------ */

/* The speed of the way to an address: the smaller one of both ends. Our end is the interface in the same network, else our
 * fastest one. */
static uint32_t way_speed(const struct node_core *core, const struct core_address *address)
{
    char host[FACT_ADDRESS_BYTES], own_host[FACT_ADDRESS_BYTES], network[FACT_NETWORK_BYTES], own_network[FACT_NETWORK_BYTES];
    const struct fact_addresses *own = &core->options.addresses.announced;
    uint32_t shared = 0, fastest = 0;
    address_host(address->text, host, sizeof host);
    address_network(host, address->prefix, network, sizeof network);
    for (uint32_t i = 0; i < own->count; i++) {
        address_host(own->items[i].text, own_host, sizeof own_host);
        address_network(own_host, own->items[i].prefix, own_network, sizeof own_network);
        bool is_shared = network[0] != '\0' && strcmp(network, own_network) == 0;
        shared = is_shared && own->items[i].speed > shared ? own->items[i].speed : shared;
        fastest = own->items[i].speed > fastest ? own->items[i].speed : fastest;
    }
    uint32_t ours = shared != 0 ? shared : fastest;
    return ours != 0 && ours < address->speed ? ours : address->speed;
}

static bool is_link_local(const struct core_address *address)
{
    char host[FACT_ADDRESS_BYTES];
    address_host(address->text, host, sizeof host);
    return address_is_link_local(host);
}

/* Better beyond what two measurements of one way can differ by. */
static bool is_clearly_better(const struct node_core *core, const struct core_address *a, const struct core_address *b)
{
    if (is_link_local(a) != is_link_local(b)) {
        return is_link_local(b);
    }
    uint64_t speed_a = way_speed(core, a), speed_b = way_speed(core, b);
    if (speed_a >= 2 * speed_b || speed_b >= 2 * speed_a) {
        return speed_a > speed_b;
    }
    return (uint64_t)a->round_trip_us * 13 / 10 + 2000 < b->round_trip_us;
}

/* The best address where the key answers; announced ones first. NULL: there is none. */
static struct core_address *best_reached(const struct node_core *core, const struct core_peer *peer)
{
    struct core_address *best = NULL;
    for (struct core_address *address = peer->addresses; address != NULL; address = address->next) {
        if (!address->is_reached) {
            continue;
        }
        bool is_announced = address->source == CORE_ADDRESS_ANNOUNCED;
        bool best_is = best != NULL && best->source == CORE_ADDRESS_ANNOUNCED;
        if (best == NULL || (is_announced != best_is ? is_announced : is_clearly_better(core, address, best))) {
            best = address;
        }
    }
    return best;
}

static bool is_living(const struct core_peer *peer)
{
    return peer->state == SWIM_ALIVE;
}

/* True if the connection should move as soon as the key answers elsewhere. */
static bool is_failing(const struct core_peer *peer, const struct core_address *used)
{
    return used->source == CORE_ADDRESS_FORMER || (!used->is_reached && used->failures >= (is_living(peer) ? 2 : 1));
}

static void use(struct node_core *core, struct core_peer *peer, const char *text)
{
    const struct view_member *member = view_find_member(&core->view, peer->id);
    if (member == NULL || core->is_out) {
        return;
    }
    struct core_address *former = find(peer, peer->address);
    if (former != NULL && strcmp(peer->address, text) != 0) {
        MARK(address_changed_over);
        TRACE_EVENT(&core->options.trace, event_of_node(EVENT_NODE_ADDRESS, peer->id),
                    "%s is used at %s, not at %s any more", view_label(&core->view, peer->id).text, text,
                    peer->address);
    }
    members_set_address(core, peer, member->public_key, text);
    if (former != NULL && former->source == CORE_ADDRESS_FORMER && !is_used(peer, former)) {
        drop(core, peer, former);
    }
}

/* Moves the connection to another address if that is better. */
static void choose(struct node_core *core, struct core_peer *peer)
{
    if (peer->addresses == NULL || core->is_out || !core_has_room(core, 8, 0)) {
        return;
    }
    struct core_address *used = find(peer, peer->address), *best = best_reached(core, peer);
    if (used == NULL) {
        use(core, peer, best != NULL ? best->text : peer->addresses->text);
        return;
    }
    if (best == NULL) {
        if (used->source == CORE_ADDRESS_FORMER && peer->addresses != used && used->reached_ms == 0) {
            use(core, peer, peer->addresses->text); /* the key never answered at the former one: nothing is lost */
        }
        return;
    }
    bool is_waiting = used->answered_ms == 0 && used->is_pending && is_living(peer);
    if (best != used && (is_failing(peer, used) || (!used->is_reached && !is_waiting && !is_living(peer)))) {
        use(core, peer, best->text);
    } else if (best != used && best->source == CORE_ADDRESS_ANNOUNCED && best->faster >= CORE_FASTER_CHECKS) {
        best->faster = 0;
        use(core, peer, best->text);
    }
}

/* ---- checks ---------------------------------------------------------------------------------------------------------------- */

static bool is_reached_anywhere(const struct core_peer *peer)
{
    const struct core_address *address = peer->addresses;
    while (address != NULL && !address->is_reached) {
        address = address->next;
    }
    return address != NULL;
}

/* The longest wait between two checks of a failed address of a living peer. Most failed addresses are spare: a bridge of
 * containers, a network of the peer alone. They would cost most of all checks (64 nodes with four of them each: 6 checks a second
 * of each node instead of 1), and are not missed. A peer that is reached nowhere is behind a cut or a wall between the two of us.
 * No trial is begun on both nodes until each has reached the other, so such a peer has the shorter wait: a node that reaches
 * half of 63 peers nowhere, at two addresses each, makes 1.6 checks a second. */
static uint64_t longest_wait_ms(const struct core_peer *peer, uint64_t scale)
{
    uint64_t wait_ms = is_reached_anywhere(peer) ? CORE_CHECK_FAILED_MAX_MS : scale * CORE_CHECK_CUT_MAX_MS;
    return wait_ms < CORE_CHECK_FAILED_MAX_MS ? wait_ms : CORE_CHECK_FAILED_MAX_MS;
}

static bool is_due(const struct node_core *core, const struct core_peer *peer, const struct core_address *address)
{
    uint64_t since_ms = core->now_ms - address->checked_ms;
    if (address->is_pending && address->checked_ms != 0) {
        return since_ms >= CORE_CHECK_ANSWER_MS;
    }
    if (address->checked_ms == 0) {
        return true;
    }
    if (!is_living(peer)) {
        uint64_t absent_ms = core->now_ms - (peer->died_ms > 0 ? peer->died_ms : core->started_ms);
        uint64_t every_ms = absent_ms < CORE_SILENT_TOGETHER_MS ? CORE_CHECK_LINK_MS : 10 * CORE_CHECK_LINK_MS;
        bool is_known = address->source == CORE_ADDRESS_ANNOUNCED || is_used(peer, address);
        return since_ms >= (is_known || every_ms > CORE_CHECK_HINT_MS ? every_ms : CORE_CHECK_HINT_MS);
    }
    uint64_t scale = 1 + core->members->peer_count / CORE_DIRECT_NODES;
    if (address->is_reached) {
        bool is_soon = is_used(peer, address) && peer->addresses->next != NULL; /* there is something to change over to */
        return since_ms >= scale * (is_soon ? CORE_CHECK_USED_MS : CORE_CHECK_SPARE_MS);
    }
    if (is_used(peer, address) && address->failures == 1) {
        return true; /* one check may get lost; a second one tells */
    }
    uint32_t doublings = address->failures > 6 ? 6 : address->failures - (address->failures > 0);
    uint64_t wait_ms = scale * ((uint64_t)CORE_CHECK_FAILED_MS << doublings), longest_ms = longest_wait_ms(peer, scale);
    return since_ms >= (wait_ms < longest_ms ? wait_ms : longest_ms);
}

void addresses_check(struct node_core *core, struct core_peer *peer, uint32_t *left)
{
    if (core->is_out || peer->state == SWIM_LEFT) {
        return;
    }
    for (struct core_address *address = peer->addresses; address != NULL && *left > 0 && core_has_room(core, 4, 0);
         address = address->next) {
        const struct view_member *member = is_due(core, peer, address) ? view_find_member(&core->view, peer->id) : NULL;
        if (member == NULL) {
            continue;
        }
        (*left)--;
        address->checked_ms = core->now_ms;
        address->is_pending = true;
        struct node_effect *effect = core_effect(core, NODE_EFFECT_CHECK_LINK);
        effect->u.peer.node = peer->id;
        memcpy(effect->u.peer.public_key, member->public_key, PUBLIC_KEY_BYTES);
        bytes_copy_text(effect->u.peer.address, sizeof effect->u.peer.address, address->text);
    }
}

/* At a former address of the peer a stranger may live now. So a refusal tells of the peer only at the address where its key
 * answered last. A peer that was not heard since our start counts by the record of the networks from our last boot. */
bool addresses_refusal_counts(const struct node_core *core, const struct core_peer *peer, const struct core_address *address)
{
    const struct view_member *member = view_find_member(&core->view, peer->id);
    if (!is_used(peer, address) || address->source != CORE_ADDRESS_ANNOUNCED || member == NULL) {
        return false;
    }
    for (const struct core_address *other = peer->addresses; other != NULL; other = other->next) {
        if (other->reached_ms > address->reached_ms) {
            return false;
        }
    }
    const struct view_member *self = view_find_member(&core->view, core->options.self);
    bool was_reached = member->announced_count == 0 || (self != NULL && self->links != NULL && self->links->network_count > 0);
    return address->reached_ms != 0 || (peer->boot == 0 && was_reached);
}

/* Notes in which checks in a row an address is clearly faster than the one in use. */
static void compare(const struct node_core *core, const struct core_peer *peer, struct core_address *address)
{
    const struct core_address *used = find(peer, peer->address);
    bool is_faster = used != NULL && used != address && used->is_reached && address->is_reached &&
                     is_clearly_better(core, address, used);
    address->faster = is_faster ? address->faster + 1 : 0;
}

static void note_refusal(struct node_core *core, struct core_peer *peer, const struct core_address *address, bool refused)
{
    if (!is_used(peer, address)) {
        return;
    }
    if (!refused || !addresses_refusal_counts(core, peer, address)) {
        peer->refused_since_ms = 0;
    } else if (peer->refused_since_ms == 0) {
        peer->refused_since_ms = core->now_ms;
    }
    if (peer->state == SWIM_DEAD && peer->refused_since_ms != 0) {
        peer->fell_silent = false;
    }
}

/* A handshake may wait for a busy daemon: the shortest times tell of the way. */
static uint32_t smooth(uint32_t before_us, uint32_t now_us)
{
    return before_us == 0 || now_us < before_us ? now_us : before_us - before_us / 4 + now_us / 4;
}

void addresses_link(struct node_core *core, struct core_peer *peer, const struct node_event *event)
{
    struct core_address *address =
        find(peer, event->u.link.address[0] != '\0' ? event->u.link.address : peer->address);
    if (address == NULL) {
        return;
    }
    address->is_pending = false;
    address->answered_ms = core->now_ms;
    address->is_reached = event->u.link.reached;
    if (address->is_reached) {
        address->reached_ms = core->now_ms;
        address->failures = 0;
        address->round_trip_us = smooth(address->round_trip_us, event->u.link.round_trip_us);
        if (!is_used(peer, address) && address->source == CORE_ADDRESS_HEARD) {
            struct core_address *used = find(peer, peer->address); /* does the peer come from there because it moved? */
            if (used != NULL && core->now_ms - used->answered_ms >= CORE_CHECK_LINK_MS) {
                used->checked_ms = 0;
            }
        }
    } else {
        address->failures++;
    }
    compare(core, peer, address);
    note_refusal(core, peer, address, event->u.link.refused);
    bool is_unannounced = address->source == CORE_ADDRESS_HEARD || address->source == CORE_ADDRESS_HINT;
    if (is_unannounced && !is_used(peer, address) && address->failures >= CORE_HINT_FAILURES) {
        drop(core, peer, address);
    }
    choose(core, peer);
    uint32_t left = 4;
    addresses_check(core, peer, &left);
}

/* ---- where addresses come from --------------------------------------------------------------------------------------------- */

/* The place for an announced address: `*link`. The address is moved there if it is known. NULL: memory is full, or the record
 * names the address twice. */
static struct core_address *announce(struct node_core *core, struct core_peer *peer, struct core_address **link, const char *text)
{
    struct core_address **from = &peer->addresses;
    for (; from != link; from = &(*from)->next) {
        if (strcmp((*from)->text, text) == 0) {
            return NULL;
        }
    }
    while (*from != NULL && strcmp((*from)->text, text) != 0) {
        from = &(*from)->next;
    }
    struct core_address *address = *from;
    if (address == NULL) {
        return add(core, link, text);
    }
    *from = address->next;
    address->next = *link;
    *link = address;
    return address;
}

/* One announced address: a link-local IPv6 address is one for each zone of ours. Returns the place behind. */
static struct core_address **take(struct node_core *core, struct core_peer *peer, struct core_address **link,
                                  const struct fact_address *fact)
{
    char host[FACT_ADDRESS_BYTES], text[FACT_ADDRESS_BYTES];
    address_host(fact->text, host, sizeof host);
    bool needs_zone = fact->text[0] == '[' && address_is_link_local(host);
    uint32_t count = needs_zone ? core->options.addresses.zone_count : 1;
    for (uint32_t i = 0; i < count; i++) {
        bytes_copy_text(text, sizeof text, fact->text);
        if (needs_zone) {
            const char *end = strrchr(fact->text, ']');
            char *zone = strchr(host, '%');
            if (end == NULL || zone != NULL) {
                break; /* a zone of another machine */
            }
            format_text(text, sizeof text, "[%s%%%s%s", host, core->options.addresses.zones[i], end);
        }
        struct core_address *address = announce(core, peer, link, text);
        if (address == NULL) {
            continue;
        }
        address->source = CORE_ADDRESS_ANNOUNCED;
        address->prefix = fact->prefix;
        address->speed = fact->speed;
        link = &address->next;
    }
    return link;
}

void addresses_announced(struct node_core *core, struct core_peer *peer, const struct view_member *member)
{
    struct core_address **link = &peer->addresses;
    uint32_t announced = view_announced(member);
    bool is_newer = announced > 0;
    uint32_t count = is_newer ? announced : member->has_node ? member->address_count : 0;
    for (uint32_t i = 0; i < count; i++) {
        struct fact_address fact = {.prefix = 0, .speed = 1000};
        if (is_newer) {
            fact = member->announced[i];
        } else {
            bytes_copy_text(fact.text, sizeof fact.text, member->addresses[i]);
        }
        if (fact.text[0] != '\0') {
            link = take(core, peer, link, &fact);
        }
    }
    if (count == 0) {
        choose(core, peer);
        return; /* the records say nothing */
    }
    for (struct core_address *address = *link, *next; address != NULL; address = next) {
        next = address->next;
        if (address->source == CORE_ADDRESS_ANNOUNCED) {
            address->source = CORE_ADDRESS_FORMER;
            address->checked_ms = 0;
        }
        if (address->source == CORE_ADDRESS_FORMER && !is_used(peer, address)) {
            drop(core, peer, address);
        }
    }
    choose(core, peer);
    uint32_t left = 4;
    if (is_living(peer)) {
        addresses_check(core, peer, &left); /* all others have their turn soon */
    }
}

/* This node announces the address now. */
static bool is_present(const struct node_core *core, const char *text)
{
    const struct fact_addresses *own = &core->options.addresses.announced;
    for (uint32_t i = 0; i < own->count; i++) {
        if (strcmp(own->items[i].text, text) == 0) {
            return true;
        }
    }
    return false;
}

/* An address that was this node's own may be the peer's now: DHCP gives it to the next machine that asks. */
void addresses_hear(struct node_core *core, struct core_peer *peer, const char *text, enum core_address_source source)
{
    struct core_address **link = &peer->addresses, **oldest = NULL;
    uint32_t unannounced = 0;
    if (text[0] == '\0' || find(peer, text) != NULL || is_present(core, text)) {
        return;
    }
    for (; *link != NULL; link = &(*link)->next) {
        if ((*link)->source == CORE_ADDRESS_HEARD || (*link)->source == CORE_ADDRESS_HINT) {
            unannounced++;
            bool is_spare = !is_used(peer, *link) && !(*link)->is_pending && !(*link)->is_reached &&
                            ((*link)->source == CORE_ADDRESS_HINT || source == CORE_ADDRESS_HEARD);
            oldest = is_spare && oldest == NULL ? link : oldest;
        }
    }
    if (unannounced >= CORE_HEARD_MAX) {
        if (oldest == NULL) {
            return;
        }
        bool is_last = &(*oldest)->next == link;
        drop(core, peer, *oldest);
        link = is_last ? oldest : link;
    }
    struct core_address *address = add(core, link, text);
    if (address != NULL) {
        address->source = source;
        choose(core, peer);
        uint32_t left = 4;
        addresses_check(core, peer, &left);
    }
}

void addresses_heard_from(struct node_core *core, struct core_peer *peer, const char *host)
{
    char known[FACT_ADDRESS_BYTES], text[FACT_ADDRESS_BYTES];
    const char *port = NULL;
    for (const struct core_address *address = peer->addresses; address != NULL; address = address->next) {
        address_host(address->text, known, sizeof known);
        port = port == NULL ? strrchr(address->text, ':') : port;
        if (strcmp(known, host) == 0) {
            return;
        }
    }
    uint8_t bytes[16];
    bool is_wide;
    if (port == NULL || !address_parse(host, bytes, &is_wide) || strlen(host) + strlen(port) + 3 > sizeof text) {
        return;
    }
    format_text(text, sizeof text, is_wide ? "[%s]%s" : "%s%s", host, port);
    addresses_hear(core, peer, text, CORE_ADDRESS_HEARD);
}

/* ---- our own addresses ------------------------------------------------------------------------------------------------------ */

bool addresses_is_own(const struct node_core *core, const char *text)
{
    if (is_present(core, text)) {
        return true;
    }
    for (uint32_t i = 0; i < core->members->former_count && i < CORE_FORMER_MAX; i++) {
        if (strcmp(core->members->former[i], text) == 0) {
            return true;
        }
    }
    return false;
}

const char *addresses_introduction(const struct node_core *core)
{
    const struct fact_addresses *own = &core->options.addresses.announced;
    if (own->count == 0) {
        return "";
    }
    const char *text = own->items[core->now_ms / CORE_INTRODUCED_MS % own->count].text;
    return strncmp(text, "[fe80", 5) == 0 ? own->items[0].text : text;
}

void addresses_own_changed(struct node_core *core, const struct node_addresses *own)
{
    struct core_members *members = core->members;
    const struct fact_addresses before = core->options.addresses.announced;
    core->options.addresses = *own;
    for (uint32_t i = 0; i < before.count; i++) {
        if (!addresses_is_own(core, before.items[i].text)) {
            bytes_copy_text(members->former[members->former_count++ % CORE_FORMER_MAX], FACT_ADDRESS_BYTES, before.items[i].text);
        }
    }
    core->options.node.address_count = own->announced.count < FACT_ADDRESSES_MAX ? own->announced.count : FACT_ADDRESSES_MAX;
    for (uint32_t i = 0; i < core->options.node.address_count; i++) {
        bytes_copy_text(core->options.node.addresses[i], FACT_ADDRESS_BYTES, own->announced.items[i].text);
    }
    for (uint32_t i = 0; i < members->peer_count; i++) {
        addresses_doubt(members->peers[i]);
    }
    core->view.roster_changed = true; /* our zones may have changed */
}

/* ---- stalls ------------------------------------------------------------------------------------------------------------------ */

/* checked_ms and answered_ms stay: the next check is due the sooner. */
void addresses_shift(struct core_peer *peer, uint64_t gap_ms)
{
    (void)gap_ms;
    addresses_doubt(peer);
}

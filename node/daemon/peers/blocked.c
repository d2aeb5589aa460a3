/* The ports of living peers that cannot be used from here: a firewall may let the control port of a node through and no
 * other. The bulk thread tells which peers do not answer, and workers tell which other workers they cannot reach. To name
 * a blocked port before work depends on it, the daemon asks each peer once for a series that no node has: an answer needs
 * the port, the keys and the bulk thread behind the port. */

#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "node/daemon/peers/peers.h"

#define TRY_AGAIN_MS 10000
#define TOLD_MS 120000 /* longer than a group takes to form, so that the next attempt tells again */

/* `port`: as in struct daemon_blocked. */
static struct daemon_blocked *find(struct daemon *daemon, node_id node, uint16_t port)
{
    struct daemon_peers *peers = daemon->peers;
    for (uint32_t i = 0; i < peers->blocked_count; i++) {
        if (node_id_equal(peers->blocked[i].node, node) && peers->blocked[i].port == port) {
            return &peers->blocked[i];
        }
    }
    return NULL;
}

/* Keeps the order. */
static void forget(struct daemon *daemon, struct daemon_blocked *blocked)
{
    struct daemon_peers *peers = daemon->peers;
    size_t behind = (size_t)(peers->blocked + peers->blocked_count - (blocked + 1));
    memmove(blocked, blocked + 1, behind * sizeof *blocked);
    peers->blocked_count--;
}

/* A suspect is probably gone, which proves nothing about its ports. */
static bool is_alive(const struct daemon *daemon, node_id node)
{
    struct node_peer peer;
    return node_core_find_peer(daemon->core, node, &peer) && peer.state == SWIM_ALIVE;
}

/* False: the address of its bulk socket is not known. */
static bool describe(const struct daemon *daemon, const struct daemon_blocked *blocked, struct render_blocked *out)
{
    const struct view_member *member = view_find_member(node_core_view(daemon->core), blocked->node);
    if (member == NULL || member->address_count == 0) {
        return false;
    }
    *out = (struct render_blocked){.node = blocked->node,
                                   .port = blocked->port != 0 ? blocked->port : (uint16_t)member->bulk_port,
                                   .stalls = blocked->stalls,
                                   .since_s = (daemon_now_ms() - blocked->since_ms) / 1000};
    if (blocked->port != 0) {
        bytes_copy_text(out->host, sizeof out->host, blocked->host);
        return true;
    }
    for (uint32_t i = 0; i < node_core_peer_count(daemon->core); i++) {
        const struct daemon_bulk_known *known = &daemon->peers->bulk_known[i];
        if (node_id_equal(known->node, blocked->node) && known->where[0] != '\0') {
            address_host(known->where, out->host, sizeof out->host);
            return true;
        }
    }
    address_host(member->addresses[0], out->host, sizeof out->host);
    return true;
}

/* A new entry, and its line; nothing if there is no room. */
static void note(struct daemon *daemon, struct daemon_blocked entry)
{
    struct daemon_peers *peers = daemon->peers;
    struct render_blocked blocked;
    if (peers->blocked_count < DAEMON_BLOCKED_MAX) {
        entry.since_ms = entry.tried_ms = daemon_now_ms();
        peers->blocked[peers->blocked_count++] = entry;
        if (describe(daemon, &entry, &blocked)) {
            char text[DAEMON_EVENT_BYTES];
            render_blocked_text(daemon->core, &blocked, text, sizeof text);
            daemon_line_of(daemon, event_of_node(EVENT_NODE_UNREACHABLE, entry.node), "%s", text);
        }
    }
}

void daemon_blocked_way(struct daemon *daemon, const struct bulk_event *event)
{
    struct daemon_blocked *known = find(daemon, event->node, 0);
    if (event->way == BULK_WAY_GOOD) {
        if (known != NULL) {
            daemon_line_of(daemon, event_of_node(EVENT_NODE_REACHABLE, event->node),
                           "data passes between here and %s again", render_node_label(daemon->core, event->node).text);
            forget(daemon, known);
        }
        return;
    }
    bool stalls = event->way == BULK_WAY_STALLS;
    if (is_alive(daemon, event->node) && (known == NULL || known->stalls != stalls)) {
        if (known != NULL) {
            forget(daemon, known);
        }
        note(daemon, (struct daemon_blocked){.node = event->node, .stalls = stalls});
    }
}

static bool is_host_of(const char *host, const char *address)
{
    char theirs[FACT_ADDRESS_BYTES];
    address_host(address, theirs, sizeof theirs);
    return theirs[0] != '\0' && strcmp(theirs, host) == 0;
}

/* The peer that has an address at the host; none: no peer has. */
static node_id node_at(const struct daemon *daemon, const char *host)
{
    for (uint32_t i = 0; i < node_core_peer_count(daemon->core); i++) {
        struct node_peer peer = node_core_peer(daemon->core, i);
        const struct view_member *member = view_find_member(node_core_view(daemon->core), peer.id);
        bool is_here = is_host_of(host, peer.address);
        for (uint32_t a = 0; member != NULL && a < view_announced(member) && !is_here; a++) {
            is_here = is_host_of(host, member->announced[a].text);
        }
        for (uint32_t a = 0; member != NULL && a < member->address_count && !is_here; a++) {
            is_here = is_host_of(host, member->addresses[a]);
        }
        if (is_here) {
            return peer.id;
        }
    }
    return (node_id){{0}};
}

void daemon_blocked_told(struct daemon *daemon, const char *host, uint16_t port)
{
    node_id node = node_at(daemon, host);
    struct daemon_blocked *known = find(daemon, node, port);
    if (known != NULL) {
        known->until_ms = daemon_now_ms() + TOLD_MS;
    } else if (!node_id_is_none(node) && is_alive(daemon, node)) {
        struct daemon_blocked entry = {.node = node, .port = port, .until_ms = daemon_now_ms() + TOLD_MS};
        bytes_copy_text(entry.host, sizeof entry.host, host);
        note(daemon, entry);
    }
}

void daemon_blocked_answered(struct daemon *daemon, uint64_t request)
{
    if (daemon->peers->reach_id == request) {
        daemon->peers->reach_id = 0;
    }
}

static void try_peer(struct daemon *daemon, node_id node)
{
    static const char prefix[] = "reach";
    daemon->peers->reach_id = ++daemon->request_id;
    if (bulk_series_fetch(daemon->bulk, daemon->peers->reach_id, prefix, sizeof prefix - 1, 0, node) != 0) {
        daemon->peers->reach_id = 0;
    }
}

void daemon_blocked_tick(struct daemon *daemon, uint64_t now_ms)
{
    struct daemon_peers *peers = daemon->peers;
    for (uint32_t i = peers->blocked_count; i > 0; i--) {
        struct daemon_blocked *blocked = &peers->blocked[i - 1];
        if (!is_alive(daemon, blocked->node) || (blocked->port != 0 && now_ms >= blocked->until_ms)) {
            forget(daemon, blocked);
        }
    }
    uint32_t count = node_core_peer_count(daemon->core);
    for (uint32_t i = 0; i < count && count <= DAEMON_REACH_PEERS && peers->reach_id == 0; i++) {
        struct daemon_bulk_known *known = &peers->bulk_known[i];
        if (known->where[0] != '\0' && !known->is_tried && is_alive(daemon, known->node)) {
            known->is_tried = true;
            try_peer(daemon, known->node);
        }
    }
    for (uint32_t i = 0; i < peers->blocked_count && peers->reach_id == 0; i++) {
        if (peers->blocked[i].port == 0 && now_ms - peers->blocked[i].tried_ms >= TRY_AGAIN_MS) {
            peers->blocked[i].tried_ms = now_ms;
            try_peer(daemon, peers->blocked[i].node);
        }
    }
}

uint32_t daemon_blocked_list(const struct daemon *daemon, struct render_blocked out[DAEMON_BLOCKED_MAX])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < daemon->peers->blocked_count; i++) {
        count += describe(daemon, &daemon->peers->blocked[i], &out[count]);
    }
    return count;
}

void daemon_blocked_append(const struct daemon *daemon, char *text, size_t size)
{
    struct render_blocked blocked;
    size_t used = strlen(text);
    if (daemon->peers->blocked_count > 0 && used + 3 < size && describe(daemon, &daemon->peers->blocked[0], &blocked)) {
        memcpy(text + used, "; ", 3);
        render_blocked_text(daemon->core, &blocked, text + used + 2, size - used - 2);
    }
}

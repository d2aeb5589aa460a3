/* Which peers' bulk sockets cannot be used from here, though the peers live: a firewall between two nodes lets the control
 * port through, say. bulk tells what fails with which peer. So that a user learns of it before work depends on it, each
 * peer is asked once for a series that nobody has: an answer needs the port, the keys and the thread behind them. */

#include <stdio.h>
#include <string.h>

#include "base/address.h"
#include "node/daemon/peers/peers.h"

#define TRY_AGAIN_MS 10000

static struct daemon_blocked *find(struct daemon *daemon, node_id node)
{
    struct daemon_peers *peers = daemon->peers;
    for (uint32_t i = 0; i < peers->blocked_count; i++) {
        if (node_id_equal(peers->blocked[i].node, node)) {
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

/* A suspect is no proof of a blocked port: it is probably gone. */
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
                                   .port = (uint16_t)member->bulk_port,
                                   .stalls = blocked->stalls,
                                   .since_s = (daemon_now_ms() - blocked->since_ms) / 1000};
    for (uint32_t i = 0; i < node_core_peer_count(daemon->core); i++) {
        const struct daemon_bulk_known *known = &daemon->peers->bulk_known[i];
        if (node_id_equal(known->node, blocked->node) && known->where[0] != '\0') {
            const char *colon = strrchr(known->where, ':');
            bytes_copy_text_n(out->host, sizeof out->host, known->where, (size_t)(colon - known->where));
            return true;
        }
    }
    address_host(member->addresses[0], out->host, sizeof out->host);
    return true;
}

void daemon_blocked_way(struct daemon *daemon, const struct bulk_event *event)
{
    struct daemon_peers *peers = daemon->peers;
    struct daemon_blocked *known = find(daemon, event->node);
    if (event->way == BULK_WAY_GOOD) {
        if (known != NULL) {
            daemon_line(daemon, "data passes between here and %s again", render_node_name(daemon->core, event->node));
            forget(daemon, known);
        }
        return;
    }
    bool stalls = event->way == BULK_WAY_STALLS;
    if (!is_alive(daemon, event->node) || (known != NULL && known->stalls == stalls) ||
        (known == NULL && peers->blocked_count == DAEMON_BLOCKED_MAX)) {
        return;
    }
    if (known == NULL) {
        known = &peers->blocked[peers->blocked_count++];
        *known = (struct daemon_blocked){.node = event->node, .since_ms = daemon_now_ms(), .tried_ms = daemon_now_ms()};
    }
    known->stalls = stalls;
    struct render_blocked blocked;
    if (describe(daemon, known, &blocked)) {
        char text[DAEMON_EVENT_BYTES];
        render_blocked_text(daemon->core, &blocked, text, sizeof text);
        daemon_line(daemon, "%s", text);
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
        if (!is_alive(daemon, peers->blocked[i - 1].node)) {
            forget(daemon, &peers->blocked[i - 1]);
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
        if (now_ms - peers->blocked[i].tried_ms >= TRY_AGAIN_MS) {
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

/* Hints: addresses where absent members may be, besides the addresses in their records. Hints are the addresses stored
 * by `shoal join`, --peer, and beacons. Any machine can send beacons, as many as the wire takes. So a beacon's hint
 * waits in a list with few places for each host, and few hints a second go to the core. A sender with many addresses
 * can fill the list, but --peer still has its turns. */

#include <string.h>

#include "node/daemon/peers/peers.h"

#define HINT_S 3 /* seconds between two turns of --peer */
#define HEARD_A_SECOND 8
#define HEARD_AT_ONCE 16
#define HEARD_HOST_MAX 4

static bool is_wanted(const struct daemon *daemon, node_id node)
{
    const struct view_member *member = view_find_member(node_core_view(daemon->core), node);
    struct node_peer peer;
    return member != NULL && node_core_find_peer(daemon->core, node, &peer) && member->admitted &&
           !node_core_is_out(daemon->core) && !node_core_is_alive(daemon->core, node);
}

/* A wrong address does no harm: the core has it checked, and uses it once the node there has proven the member's key. */
static void hint(struct daemon *daemon, node_id node, const char *address)
{
    struct node_event event = {.kind = NODE_EVENT_HINT};
    event.u.hint.node = node;
    bytes_copy_text(event.u.hint.address, sizeof event.u.hint.address, address);
    daemon_event(daemon, &event);
}

static void heard_put(struct daemon *daemon, node_id node, const char *address)
{
    size_t host_bytes = (size_t)(strrchr(address, ':') - address) + 1;
    uint32_t of_host = 0;
    for (uint32_t i = 0; i < daemon->peers->heard_count; i++) {
        const struct daemon_heard *heard = &daemon->peers->heard[i];
        if (node_id_equal(heard->node, node) && strcmp(heard->address, address) == 0) {
            return;
        }
        of_host += strncmp(heard->address, address, host_bytes) == 0;
    }
    if (daemon->peers->heard_count < DAEMON_HEARD_MAX && of_host < HEARD_HOST_MAX) {
        struct daemon_heard *heard = &daemon->peers->heard[daemon->peers->heard_count++];
        heard->node = node;
        bytes_copy_text(heard->address, sizeof heard->address, address);
    }
}

void daemon_peer_hints_beacon(struct daemon *daemon)
{
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
    for (int i = 0; i < HEARD_AT_ONCE && daemon->beacon != NULL && beacon_receive(daemon->beacon, &node, address) == 0; i++) {
        if (is_wanted(daemon, node)) {
            heard_put(daemon, node, address);
        }
    }
}

/* Tries the hints stored by `shoal join`: the members in the token and their addresses. */
void daemon_peer_hints_remembered(struct daemon *daemon)
{
    uint8_t bytes[4096];
    size_t count;
    if (daemon_meta_get(daemon, "peers", bytes, sizeof bytes, &count) != 0) {
        return;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t members = pack_read_array(&reader);
    for (uint32_t i = 0; i < members && !reader.failed; i++) {
        uint32_t fields = pack_read_array(&reader);
        uint8_t key[PUBLIC_KEY_BYTES];
        char address[CONTROL_ADDRESS_BYTES];
        pack_read_bin_exact(&reader, key, sizeof key);
        for (uint32_t f = 1; f < fields && !reader.failed; f++) {
            pack_read_text_copy(&reader, address, sizeof address);
            struct node_peer peer;
            bool is_peer = !reader.failed && node_core_find_peer(daemon->core, node_id_of_key(key), &peer);
            if (is_peer && is_wanted(daemon, peer.id)) {
                hint(daemon, peer.id, address);
            }
        }
    }
}

/* --peer gives addresses without node ids: each absent member is tried at each address. The next address has its turn
 * only when all members have been tried at this address; otherwise some addresses would see only some of the members. */
static void try_peer_hint(struct daemon *daemon)
{
    const char *address = daemon->options.peer_hints[daemon->peers->peer_hint_turn % daemon->options.peer_hint_count];
    uint32_t count = node_core_peer_count(daemon->core), tried = 0, i = daemon->peers->hint_from;
    for (; i < count && tried < DAEMON_HINTED_MAX; i++) {
        struct node_peer peer = node_core_peer(daemon->core, i);
        if (peer.state != SWIM_LEFT && is_wanted(daemon, peer.id)) {
            hint(daemon, peer.id, address);
            tried++;
        }
    }
    daemon->peers->hint_from = i < count ? i : 0;
    daemon->peers->peer_hint_turn += i >= count;
}

static void try_heard(struct daemon *daemon)
{
    uint32_t count = daemon->peers->heard_count < HEARD_A_SECOND ? daemon->peers->heard_count : HEARD_A_SECOND;
    for (uint32_t i = 0; i < count; i++) {
        struct daemon_heard heard = daemon->peers->heard[i];
        if (is_wanted(daemon, heard.node)) {
            hint(daemon, heard.node, heard.address);
        }
    }
    daemon->peers->heard_count -= count;
    memmove(daemon->peers->heard, daemon->peers->heard + count, daemon->peers->heard_count * sizeof daemon->peers->heard[0]);
}

void daemon_peer_hints_tick(struct daemon *daemon)
{
    try_heard(daemon);
    if (daemon->peers->hint_turn++ % HINT_S == 0 && daemon->options.peer_hint_count > 0) {
        try_peer_hint(daemon);
    }
}

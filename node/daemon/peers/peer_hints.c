/* Hints: addresses where absent members may be, besides the addresses in their records. Hints are the addresses stored
 * by `shoal join`, --peer, and beacons. Any machine can send beacons, as many as the wire takes. So a beacon's hint
 * waits in a list with few places for each host, and hints are tried one by one, in turns with --peer and with the
 * addresses of the records. A sender with many addresses can fill the list, but --peer and records still get their
 * turns. */

#include <string.h>

#include "node/daemon/peers/peers.h"

#define HINT_S 3 /* seconds for a try: an absent member is pinged about once a second */
#define HEARD_AT_ONCE 16
#define HEARD_HOST_MAX 4

static bool is_hinted(const struct daemon *daemon, node_id node)
{
    uint32_t i = 0;
    while (i < daemon->peers->hinted_count && !node_id_equal(daemon->peers->hinted[i], node)) {
        i++;
    }
    return i < daemon->peers->hinted_count;
}

static bool is_wanted(const struct daemon *daemon, node_id node)
{
    const struct view_member *member = view_find_member(node_core_view(daemon->core), node);
    struct node_peer peer;
    return member != NULL && node_core_find_peer(daemon->core, node, &peer) && member->admitted &&
           !node_core_is_out(daemon->core) && !node_core_is_alive(daemon->core, node);
}

/* Connects to a member at the address of a hint, in place of the address in its record; end_hints goes back. A wrong
 * address does no harm, since the node there must prove the member's key. False: too many members are tried now. */
static bool try_address(struct daemon *daemon, node_id node, const char *address)
{
    if (!is_hinted(daemon, node)) {
        if (daemon->peers->hinted_count == DAEMON_HINTED_MAX) {
            return false;
        }
        daemon->peers->hinted[daemon->peers->hinted_count++] = node;
    }
    (void)control_peer(daemon->control, node, view_find_member(node_core_view(daemon->core), node)->public_key, address);
    return true;
}

/* Ends tries: hints may be wrong or forged, so the control socket goes back to the address in the record. Ends the try
 * of each member that is alive again, and with `absent_too` of every member. */
static void end_hints(struct daemon *daemon, bool absent_too)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < daemon->peers->hinted_count; i++) {
        node_id node = daemon->peers->hinted[i];
        const struct view_member *member = view_find_member(node_core_view(daemon->core), node);
        struct node_peer peer;
        bool is_peer = node_core_find_peer(daemon->core, node, &peer);
        if (!absent_too && !node_core_is_alive(daemon->core, node)) {
            daemon->peers->hinted[kept++] = node;
        } else if (member != NULL && is_peer && !node_core_is_out(daemon->core)) {
            (void)control_peer(daemon->control, node, member->public_key, peer.address);
        }
    }
    daemon->peers->hinted_count = kept;
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

/* Tries the hints stored by `shoal join`: the members in the token and their addresses. A member whose own record is
 * here already is not tried. */
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
            if (is_peer && peer.address[0] == '\0' && is_wanted(daemon, peer.id)) {
                (void)try_address(daemon, peer.id, address);
            }
        }
    }
}

/* --peer gives addresses without node ids: each absent member is tried at each address. The next address has its turn
 * only when all members have been tried at this address; otherwise some addresses would see only some of the members. */
static void try_peer_hint(struct daemon *daemon, bool is_pause)
{
    const char *hint = daemon->options.peer_hints[daemon->peers->peer_hint_turn % daemon->options.peer_hint_count];
    uint32_t count = node_core_peer_count(daemon->core), tried = 0, i = daemon->peers->hint_from;
    for (; i < count && tried < DAEMON_HINTED_MAX; i++) {
        struct node_peer peer = node_core_peer(daemon->core, i);
        if (peer.state == SWIM_LEFT || !is_wanted(daemon, peer.id)) {
            continue;
        }
        bool waits = is_pause && peer.address[0] != '\0';
        if (!waits && !try_address(daemon, peer.id, hint)) {
            break;
        }
        tried++;
    }
    if (!is_pause) {
        daemon->peers->hint_from = i < count ? i : 0;
        daemon->peers->peer_hint_turn += i >= count;
    }
}

static void try_heard(struct daemon *daemon, bool is_pause)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < daemon->peers->heard_count; i++) {
        struct daemon_heard heard = daemon->peers->heard[i];
        if (!is_wanted(daemon, heard.node)) {
            continue;
        }
        struct node_peer peer;
        bool waits = is_hinted(daemon, heard.node) || (is_pause && node_core_find_peer(daemon->core, heard.node, &peer) &&
                                                       peer.address[0] != '\0');
        if (waits || !try_address(daemon, heard.node, heard.address)) {
            daemon->peers->heard[kept++] = heard;
        }
    }
    daemon->peers->heard_count = kept;
}

/* A try lasts HINT_S. Between two tries comes a pause of HINT_S, in which members are sought at the address in their
 * record; a member without an address in its record is tried at hints in the pause, too. */
void daemon_peer_hints_tick(struct daemon *daemon)
{
    uint32_t turn = daemon->peers->hint_turn++, phase = turn / HINT_S;
    bool is_pause = phase % 2 == 0, begins = turn % HINT_S == 0;
    end_hints(daemon, begins && is_pause);
    if (!begins) {
        return;
    }
    bool is_peers_turn = daemon->options.peer_hint_count > 0 && (daemon->peers->heard_count == 0 || phase / 2 % 2 == 0);
    if (is_peers_turn) {
        try_peer_hint(daemon, is_pause);
    } else {
        try_heard(daemon, is_pause);
    }
}

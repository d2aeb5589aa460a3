/* Where absent members may be, beside what their records say: what `shoal join` left, --peer, and the beacon. */

#include <string.h>

#include "node/daemon/daemon.h"

#define HINT_S 3 /* an absent member is pinged about once a second */

/* Remembers that a member's connection is not where its record says. False: too many are. */
static bool note_hinted(struct daemon *daemon, node_id node)
{
    for (uint32_t i = 0; i < daemon->hinted_count; i++) {
        if (node_id_equal(daemon->hinted[i], node)) {
            return true;
        }
    }
    if (daemon->hinted_count == DAEMON_HINTED_MAX) {
        return false;
    }
    daemon->hinted[daemon->hinted_count++] = node;
    return true;
}

/* A hint says where a member may be. It must prove its key there, so trying does no harm, but it costs the connection to
 * where it was: end_hints goes back. */
static void try_address(struct daemon *daemon, node_id node, const char *address)
{
    const struct view_member *member = view_find_member(&daemon->core->view, node);
    const struct core_peer *peer = core_find_peer(daemon->core, node);
    bool is_wanted = member != NULL && peer != NULL && member->admitted && !daemon->core->is_out && !core_node_alive(daemon->core, node);
    if (is_wanted && (peer->address[0] == '\0' || strcmp(peer->address, address) == 0 || note_hinted(daemon, node))) {
        (void)control_peer(daemon->control, node, member->public_key, address);
    }
}

/* Hints may be wrong, or forged: who has come to life is talked to where its record says, and so are the absent while no
 * hints are tried. */
static void end_hints(struct daemon *daemon, bool absent_too)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < daemon->hinted_count; i++) {
        node_id node = daemon->hinted[i];
        const struct view_member *member = view_find_member(&daemon->core->view, node);
        const struct core_peer *peer = core_find_peer(daemon->core, node);
        if (!absent_too && !core_node_alive(daemon->core, node)) {
            daemon->hinted[kept++] = node;
        } else if (member != NULL && peer != NULL && !daemon->core->is_out) {
            (void)control_peer(daemon->control, node, member->public_key, peer->address);
        }
    }
    daemon->hinted_count = kept;
}

void daemon_hints_beacon(struct daemon *daemon)
{
    node_id node;
    char address[BEACON_ADDRESS_BYTES];
    while (daemon->beacon != NULL && beacon_receive(daemon->beacon, &node, address) == 0) {
        try_address(daemon, node, address);
    }
}

/* What `shoal join` left: members of the token and where they were. Once their own records are here those count. */
void daemon_hints_remembered(struct daemon *daemon)
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
            const struct core_peer *peer = reader.failed ? NULL : core_find_peer(daemon->core, node_id_of_key(key));
            if (peer != NULL && peer->address[0] == '\0') {
                try_address(daemon, peer->id, address);
            }
        }
    }
}

/* --peer gives addresses without saying whose: every absent member is tried at each in turn, for HINT_S, and between two
 * hints for as long where its record says. Called once a second. */
void daemon_hints_tick(struct daemon *daemon)
{
    uint32_t turn = daemon->hint_turn++;
    bool is_pause = turn / HINT_S % 2 == 0;
    end_hints(daemon, is_pause && turn % HINT_S == 0);
    if (daemon->options.peer_hint_count == 0 || turn % HINT_S != 0) {
        return;
    }
    const char *hint = daemon->options.peer_hints[turn / HINT_S / 2 % daemon->options.peer_hint_count];
    for (uint32_t i = 0; i < daemon->core->peer_count; i++) {
        const struct core_peer *peer = daemon->core->peers[i];
        if ((peer->state == SWIM_UNKNOWN || peer->state == SWIM_DEAD) && (!is_pause || peer->address[0] == '\0')) {
            try_address(daemon, peer->id, hint);
        }
    }
}

/* Where bulk finds the peers. A node that is out is no peer of the core, so any number of such nodes takes no member's
 * place. */

#include <string.h>

#include "base/address.h"
#include "base/err.h"
#include "node/daemon/peers/peers.h"

void daemon_bulk_peers_gone(struct daemon *daemon, node_id node)
{
    static const uint8_t no_key[PUBLIC_KEY_BYTES] = {0};
    (void)bulk_peer(daemon->bulk, node, no_key, "127.0.0.1", 0);
    for (uint32_t i = 0; i < NODE_MEMBERS_MAX; i++) {
        if (node_id_equal(daemon->peers->bulk_known[i].node, node)) {
            daemon->peers->bulk_known[i] = (struct daemon_bulk_known){.where = ""};
        }
    }
}

void daemon_bulk_peers(struct daemon *daemon)
{
    for (uint32_t i = 0; i < node_core_peer_count(daemon->core); i++) {
        node_id node = node_core_peer(daemon->core, i).id;
        struct daemon_bulk_known *known = &daemon->peers->bulk_known[i];
        const struct view_member *member = view_find_member(node_core_view(daemon->core), node);
        if (node_core_is_out(daemon->core)) {
            if (known->where[0] != '\0') {
                daemon_bulk_peers_gone(daemon, known->node);
            }
            continue;
        }
        const char *address = node_core_peer(daemon->core, i).address; /* the one in use */
        if (member == NULL || !member->admitted || !member->has_node || address[0] == '\0') {
            continue;
        }
        char host[FACT_ADDRESS_BYTES];
        struct daemon_bulk_known now = {.node = node};
        address_host(address, host, sizeof host);
        (void)format_text(now.where, sizeof now.where, "%s:%u", host, member->bulk_port);
        bool is_known = node_id_equal(known->node, node) && strcmp(known->where, now.where) == 0;
        if (!is_known &&
            bulk_peer(daemon->bulk, node, member->public_key, host, (uint16_t)member->bulk_port) != ERR_MEMORY) {
            *known = now;
        }
    }
}

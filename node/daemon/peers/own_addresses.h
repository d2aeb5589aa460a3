#ifndef NODE_DAEMON_PEERS_OWN_ADDRESSES_H
#define NODE_DAEMON_PEERS_OWN_ADDRESSES_H
/* The addresses that this node announces: the host of --listen, those of --advertise, or (where --listen is for all interfaces)
 * those of the interfaces, followed as they change. */

#include "node/addresses/addresses.h"
#include "node/daemon/ground/daemon.h"

struct own_addresses {
    int fd;             /* netlink; -1: none */
    uint64_t read_ms;   /* when the addresses are read again; 0: not followed */
    bool is_due_soon;   /* a change was seen: read_ms is near */
    struct node_addresses announced;
};

/* After the control socket is bound: finds the addresses, and opens the descriptor. */
void daemon_own_addresses_open(struct daemon *daemon);
void daemon_own_addresses_close(struct daemon *daemon);

/* The descriptor to poll; -1: none. */
int daemon_own_addresses_fd(const struct daemon *daemon);

/* Call it after each poll: reads the addresses if they may have changed, and tells the core. */
void daemon_own_addresses_tick(struct daemon *daemon, uint64_t now_ms);
uint64_t daemon_own_addresses_next_ms(const struct daemon *daemon);

#endif

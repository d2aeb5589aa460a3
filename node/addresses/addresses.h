#ifndef NODE_ADDRESSES_ADDRESSES_H
#define NODE_ADDRESSES_ADDRESSES_H
/* The addresses of this machine that can make sense to other machines, and word of their changes. A shell without a thread.
 *
 * Left out: the loopback; interfaces that are down or have no carrier; bridges of containers and virtual machines (docker0,
 * virbr0, cni0 and the like) without a physical interface below, since each machine has the same addresses there; IPv6
 * addresses that are not usable yet (tentative) or clash, and temporary ones beside a stable one. A bridge that carries a
 * physical interface or the default route has the machine's real address, and counts.
 *
 * Order: link-local addresses last, deprecated ones before them, else the fastest interface first, IPv4 before IPv6. */

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define ADDRESSES_MAX 64
#define ADDRESSES_HOST_BYTES 64

struct address_of_ours {
    char host[ADDRESSES_HOST_BYTES]; /* numeric, without a zone */
    char interface[IF_NAMESIZE];
    uint32_t prefix;
    uint32_t speed; /* Mbit/s; a guess where the interface tells none: wireless 300, tunnels 100, others 1000 */
    bool is_wide;   /* IPv6 */
    bool is_link_local;
    bool is_last; /* deprecated, or temporary */
};

struct addresses_of_ours {
    uint32_t count;
    struct address_of_ours items[ADDRESSES_MAX];
};

/* Reads the present addresses, best first. 0, or ERR_IO: the system tells none, and `out` is empty. */
int addresses_read(struct addresses_of_ours *out);

/* Finds the interface of one address of this machine, the loopback and left out ones included. False: no interface has it. */
bool addresses_find(const char *host, struct address_of_ours *out);

/* True if the interface is a bridge of containers or one of its ends, by its name and by its directory under `sysfs`
 * ("/sys/class/net"). `has_route`: the default route goes over it. */
bool addresses_is_container(const char *sysfs, const char *interface, bool has_route);

/* The speed of an interface in Mbit/s; see struct address_of_ours. */
uint32_t addresses_speed(const char *sysfs, const char *interface, bool is_tunnel);

/* Opens a descriptor that becomes readable when an interface or an address changes; the caller closes it. -1: there is none. */
int addresses_watch(void);

/* Empties that descriptor. True: something has changed, or news were lost; read the addresses anew. */
bool addresses_changed(int fd);

#endif

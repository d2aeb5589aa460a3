#ifndef BASE_INTERFACE_H
#define BASE_INTERFACE_H
/* The network interfaces of this machine. A shell: it asks the kernel. */

#include <stdbool.h>
#include <stddef.h>

/* Finds the interface that carries an address: the name under which getifaddrs lists it, an alias label included ("eth0:1"),
 * since programs that are told a name compare it with that list. `host` is a numeric address of IPv4 or IPv6 without brackets,
 * with or without a zone ("fe80::1%eth0"); all of 127.0.0.0/8 and "localhost" belong to the loopback interface. False: no
 * interface has the address now, or `host` is a name; `name` is then untouched. `size` includes the NUL. */
bool interface_of_address(const char *host, char *name, size_t size);

#endif

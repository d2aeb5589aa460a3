#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H
/* Addresses as texts: HOST:PORT, where a HOST of IPv6 stands in brackets. */

#include <stddef.h>

/* The host part, without brackets: "1.2.3.4:5" -> "1.2.3.4", "[::1]:5" -> "::1", "name" -> "name". The address is split at its
 * last colon and is not checked further. `host` always ends in NUL; it is cut at `size` > 0. */
void address_host(const char *address, char *host, size_t size);

#endif

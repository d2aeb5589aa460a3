#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H
/* Addresses as texts: HOST:PORT, where a HOST of IPv6 stands in brackets. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The host part, without brackets: "1.2.3.4:5" -> "1.2.3.4", "[::1]:5" -> "::1", "name" -> "name". The address is split at its
 * last colon and is not checked further. `host` always ends in NUL; it is cut at `size` > 0. */
void address_host(const char *address, char *host, size_t size);

/* Reads a numeric host: IPv4 ("10.0.0.5") or IPv6 ("fd00::5", "::ffff:10.0.0.5"); a zone ("%eth0") is skipped. IPv4 fills
 * the first 4 bytes. False: the host is a name or no address; the outputs are then of no use. */
bool address_parse(const char *host, uint8_t bytes[16], bool *is_wide);

/* True for numeric hosts in 169.254.0.0/16 and fe80::/10. */
bool address_is_link_local(const char *host);

/* Writes the network of a numeric host: "10.9.0.0/24", "fd00:0:0:1::/64". Empty: the host is no address, or `prefix` is 0
 * or too long. */
void address_network(const char *host, uint32_t prefix, char *out, size_t size);

#endif

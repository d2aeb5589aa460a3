#ifndef GOSSIP_BEACON_H
#define GOSSIP_BEACON_H
/* The beacon: a node says on every LAN interface where its control socket is, and hears others say so. What is heard is
 * a hint of an address to try for a member that is known already, no more: anybody can send anything here, and who
 * answers at that address has to prove its key. Broadcast and multicast are often blocked, so nothing depends on any of
 * this, and what fails here fails silently.
 *
 * IPv4: multicast to 239.255.74.11 (TTL 1), the broadcast address of every interface, and the loopback network, so that
 * daemons of one machine hear each other. A shell for the protocol thread: nothing blocks. Times are ms of any epoch.
 *
 * Traffic: 67 bytes at IP level, twice per interface, every BEACON_FAST_MS for the first BEACON_FAST_FOR_MS, then every
 * BEACON_SLOW_MS: with two interfaces 27 bytes a second. */

#include <stddef.h>
#include <stdint.h>

#include "base/id.h"

#define BEACON_PORT 7411
#define BEACON_FAST_MS 2000
#define BEACON_FAST_FOR_MS 60000
#define BEACON_SLOW_MS 10000
#define BEACON_INTERFACES_MAX 16
#define BEACON_BYTES 39
#define BEACON_ADDRESS_BYTES 64

struct beacon;

/* Listens on `port` and starts sending at once, so the first tick is due. An error (ERR_IO, ERR_MEMORY; `error` is one
 * sentence) is no reason for a daemon to stop. */
int beacon_open(uint16_t port, mesh_id mesh, node_id self, uint16_t control_port, struct beacon **out, char error[256]);
void beacon_close(struct beacon **beacon);

/* To poll for reading. */
int beacon_fd(const struct beacon *beacon);

/* Sends if it is time to. */
void beacon_tick(struct beacon *beacon, uint64_t now_ms);
uint64_t beacon_next_ms(const struct beacon *beacon);

/* The next hint of another node of this mesh: `address` is the numeric HOST:PORT of its control socket. ERR_AGAIN when
 * none waits, or after 64 others (strangers' bytes, other meshes, our own): poll again. */
int beacon_receive(struct beacon *beacon, node_id *node, char address[BEACON_ADDRESS_BYTES]);

/* The format (docs/wire.md, "Beacon"), apart for tests. ERR_MALFORMED, ERR_VERSION, ERR_NOT_FOUND (another mesh). */
void beacon_encode(mesh_id mesh, node_id self, uint16_t control_port, uint8_t out[BEACON_BYTES]);
int beacon_decode(const uint8_t *bytes, size_t count, mesh_id mesh, node_id *node, uint16_t *control_port);

#endif

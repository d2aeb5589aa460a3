#ifndef GOSSIP_BEACON_H
#define GOSSIP_BEACON_H
/* The beacon: a node announces on every LAN interface where its control socket is, and listens for the beacons of its
 * peers. A received beacon is only a hint: an address to try for a known member. Anybody can send beacons, so the node
 * at the address must still prove its key. Broadcast and multicast are often blocked, so nothing depends on beacons,
 * and failures are silent.
 *
 * IPv4: multicast to 239.255.74.11 (TTL 1), the broadcast address of every interface, and the loopback network, so
 * daemons of the same machine find each other. IPv6: multicast to ff02::4a0b on every interface. A shell for the protocol
 * thread: no call blocks. Times are ms of any epoch.
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

/* A beacon's socket and times; opaque. */
struct beacon;

/* Listens on UDP `port`; the first tick is due at once. The beacons announce `control_port`. 0; ERR_IO (the port cannot
 * be used), ERR_MEMORY: `error` is then one sentence, `*out` is unchanged, and the daemon goes on without a beacon. The
 * caller owns `*out` until beacon_close. */
int beacon_open(uint16_t port, mesh_id mesh, node_id self, uint16_t control_port, struct beacon **out, char error[256]);

/* Closes the sockets, frees the beacon and sets `*beacon` to NULL; NULL is allowed. */
void beacon_close(struct beacon **beacon);

/* The descriptor to poll for reading; it stays the beacon's. */
int beacon_fd(const struct beacon *beacon);

/* The descriptor of IPv6 to poll as well; -1: this machine has no IPv6. */
int beacon_wide_fd(const struct beacon *beacon);

/* Sends the beacons if beacon_next_ms has come. Errors of sending are ignored. */
void beacon_tick(struct beacon *beacon, uint64_t now_ms);

/* When beacon_tick has work to do next; 0 before the first tick. */
uint64_t beacon_next_ms(const struct beacon *beacon);

/* Takes the next hint of another node of this mesh: `address` becomes the numeric HOST:PORT of its control socket,
 * link-local IPv6 with the zone of this machine.
 * ERR_AGAIN: no hint waits, or 64 datagrams in a row were no hints (foreign bytes, other meshes, our own beacons): poll
 * again. */
int beacon_receive(struct beacon *beacon, node_id *node, char address[BEACON_ADDRESS_BYTES]);

/* Write and read a datagram (docs/wire.md, "Beacon"); public for tests. beacon_decode returns 0, ERR_MALFORMED,
 * ERR_VERSION (a version that we do not speak) or ERR_NOT_FOUND (a beacon of another mesh), and sets its out-parameters
 * only on 0. */
void beacon_encode(mesh_id mesh, node_id self, uint16_t control_port, uint8_t out[BEACON_BYTES]);
int beacon_decode(const uint8_t *bytes, size_t count, mesh_id mesh, node_id *node, uint16_t *control_port);

#endif

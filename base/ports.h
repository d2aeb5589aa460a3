#ifndef BASE_PORTS_H
#define BASE_PORTS_H
/* A range of TCP ports that the programs of Shoal on one machine share, and the taking of one.
 *
 * A taken port has a lock: an abstract Unix socket named "shoal-port-PORT". Like TCP ports, abstract names belong to the
 * network namespace, whichever users, containers and directories are behind the namespace; a second bind of a name fails;
 * and a name is free again once the last copy of the descriptor is closed, however the processes ended. So a lock is never
 * stale, needs no room on a disk, and no user can remove a lock or put a link in its place. (/proc/net/unix lists the locks.)
 *
 * A shell. Descriptors are close-on-exec and belong to the caller; the port is free once all copies are closed. */

#include <stdbool.h>
#include <stdint.h>

#define PORTS_TEXT_BYTES 12 /* "65535-65535" with its NUL */

/* The ports from `low` to `high`, both included; 1 <= low <= high. */
struct ports {
    uint16_t low, high;
};

/* Reads "LOW-HIGH". ERR_USAGE: not two decimal numbers from 1 to 65535 in this order. */
int ports_read(const char *text, struct ports *out);

/* Writes "LOW-HIGH". */
void ports_write(struct ports range, char out[PORTS_TEXT_BYTES]);

/* Whether a port is in both ranges. */
bool ports_overlap(struct ports a, struct ports b);

/* The range from which the kernel takes a port for a connection that begins on this machine (ip_local_port_range of the
 * network namespace). A port of that range can be in use at any time. ERR_IO: the kernel does not tell. */
int ports_ephemeral(struct ports *out);

/* Takes the first port that no other program of Shoal has: `from`, the ports behind it, then those before it. `from`
 * outside the range means `low`. The caller binds the port; where a stranger has the port, the caller closes `*lock_fd`
 * and goes on with the port behind. ERR_FULL: all ports are taken; ERR_IO, with errno: no socket can be made. */
int ports_lock(struct ports range, uint16_t from, uint16_t *port, int *lock_fd);

/* The same for a port that is given to another program, to be bound later. Never binds the port, not even for a test,
 * since the bind of a stranger could fail meanwhile: the kernel's tables (/proc/net/tcp and tcp6) tell which ports of this
 * namespace have a listener or a connection, and these are passed over. A port with nothing but closed connections in
 * TIME_WAIT, which a program without SO_REUSEADDR cannot bind, is taken only if no other port is left. Errors as above. */
int ports_take(struct ports range, uint16_t from, uint16_t *port, int *lock_fd);

/* What the kernel's tables say of each port of the range: fills range.high - range.low + 1 bytes of `uses`, for ports_take_seen. It
 * takes 10 ms and more on a large machine, however few connections there are, since the kernel walks its whole table. */
void ports_look(struct ports range, uint8_t *uses);

/* As ports_take, by an earlier look at the same range instead of a new one. `uses` NULL: nothing is known of strangers, and any port
 * will do. */
int ports_take_seen(struct ports range, uint16_t from, const uint8_t *uses, uint16_t *port, int *lock_fd);

/* Whether a program that is none of Shoal's listens at the port: the port's lock is free, and the kernel's tables have a
 * listener. */
bool ports_has_stranger(uint16_t port);

#endif

#ifndef GOSSIP_INFLOW_H
#define GOSSIP_INFLOW_H
/* Shuts connections that deliver bytes without ever completing a message. A shell.
 *
 * libzmq bounds each frame, but keeps the frames of a message until the last has arrived; and from a connection with a
 * routing id in use already, libzmq reads on without handing anything over. Where the queues have no limit
 * (docs/dependencies.md says why), the holder of a key could fill the memory in either way. The kernel counts the bytes
 * received by each connection (TCP_INFO), and a message names its connection (ZMQ_SRCFD): a connection that has
 * received more than `bytes_max` since its last message is shut. Between two looks more may arrive, as fast as the
 * network delivers.
 *
 * One per listening socket; belongs to the thread that reads the socket and its monitor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFLOW_LOOK_MS 250

/* One accepted connection; opaque. */
struct inflow_link;

/* Set the first two fields, and the others to zero. */
struct inflow {
    uint16_t port;      /* the port that the socket listens on */
    uint64_t bytes_max; /* that a connection may receive without a message */
    uint64_t looked_ms;
    struct inflow_link *links; /* array of `room`, indexed by descriptor; `count` of them are open */
    size_t room, count;
};

/* Frees the table; connections stay open. */
void inflow_close(struct inflow *inflow);

/* Takes note of ZMQ_EVENT_ACCEPTED and ZMQ_EVENT_DISCONNECTED; other events are ignored. `event` and `value` are the
 * two parts of the first frame of a monitor's event, as libzmq packs them. Without memory, a connection is not watched. */
void inflow_event(struct inflow *inflow, uint16_t event, int32_t value);

/* A whole message arrived over the connection `fd` (ZMQ_SRCFD; any number is allowed). */
void inflow_brought(struct inflow *inflow, int fd);

/* Looks at all connections, at most every INFLOW_LOOK_MS, and returns how many were shut. Call it only when all waiting
 * messages have been read. */
unsigned inflow_look(struct inflow *inflow, uint64_t now_ms);

/* When the next look is due; UINT64_MAX: no connection is open. */
uint64_t inflow_next_ms(const struct inflow *inflow);

#endif

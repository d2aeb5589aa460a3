#ifndef GOSSIP_INFLOW_H
#define GOSSIP_INFLOW_H
/* Shuts connections that pour in without ever bringing a message. A shell.
 *
 * libzmq bounds each frame, but it keeps the frames of a message until the last one is there, and of a connection whose
 * routing id another one has it reads on and hands nothing over. Where its queues have no limit (docs/dependencies.md says
 * why), who has a key could fill the memory with either. The kernel counts what each connection has received (TCP_INFO),
 * and messages tell their connection (ZMQ_SRCFD): one that received more than the largest message is long, since its last
 * message came out, is shut. Between two looks more may arrive, as fast as the network brings it.
 *
 * One per listening socket; belongs to the thread that reads that socket and its monitor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFLOW_LOOK_MS 250

struct inflow_link;

/* Zeroes, then the first two. */
struct inflow {
    uint16_t port;      /* where the socket listens */
    uint64_t bytes_max; /* without a message */
    uint64_t looked_ms;
    struct inflow_link *links; /* by descriptor */
    size_t room, count;
};

void inflow_close(struct inflow *inflow);

/* A frame of the monitor's first kind: the number of the event and its value, as libzmq packs them. ZMQ_EVENT_ACCEPTED and
 * ZMQ_EVENT_DISCONNECTED are taken note of, others are not. */
void inflow_event(struct inflow *inflow, uint16_t event, int32_t value);

/* A whole message came out of this connection (ZMQ_SRCFD; any number). */
void inflow_brought(struct inflow *inflow, int fd);

/* Looks at all connections, at most each INFLOW_LOOK_MS, and says how many were shut. Call it when all messages that
 * wait have been read. */
unsigned inflow_look(struct inflow *inflow, uint64_t now_ms);

/* When the next look is due; UINT64_MAX: nobody is connected. */
uint64_t inflow_next_ms(const struct inflow *inflow);

#endif

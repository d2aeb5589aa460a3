#ifndef TESTS_SIM_NETWORK_H
#define TESTS_SIM_NETWORK_H
/* Links between machines, one per direction: delay, loss, duplicates, reordering, cuts, clogging, narrowness. In some
 * seeds messages are datagrams, in others the links are streams: in order, loss only costs the time to send again, and
 * what was under way is lost when a connection breaks. A message
 * needs a connection of its sender's, and a receiver that admits the sender. One seed in ten sends bytes instead of
 * structs, through the real codec. */

#include "gossip/message.h"
#include "node/core/facts/facts.h"
#include "tests/sim/plan.h"

#define NETWORK_STRANGER 255   /* the target of a probe: no machine of this world */
#define NETWORK_BREAKS_MS 3000 /* a stream that is silent for this long is given up */
#define NETWORK_QUEUE_MS 5000  /* a narrow link drops what would wait longer */
#define NETWORK_HEADER_BYTES 200
#define NETWORK_HELD_MAX 64 /* per link, while the receiver stands still: the high-water mark of the sockets */

struct sim;
struct sim_event;

struct network_link {
    uint64_t cut_until_ms;
    uint32_t base_ms;
    uint32_t loss_permille, delay_ms; /* in the storm, if the seed has them */
    uint64_t clogged_until_ms;
    uint64_t queued_until_ms; /* where order is kept: what came into a longer clog before this one keeps back what comes later */
    uint64_t busy_until_ms; /* narrow links: what was sent before is still on its way into it */
    uint64_t last_at_ms; /* keeps order, unless the seed reorders */
    uint32_t held;
};

struct network {
    struct network_link links[PLAN_NODES_MAX][PLAN_NODES_MAX]; /* [from][to] */
    bool is_calm; /* healed: no loss, no extra delay, no duplicates */
};

struct network_packet {
    uint8_t from;
    node_id from_id, to_id;
    bool is_encoded, is_held;
    uint32_t version;       /* that it is said in; of bytes: the first one */
    struct message message; /* bytes point behind this struct */
    uint32_t life; /* of the receiver, on streams: what was under way to an earlier one is lost */
    uint32_t byte_count;
    uint8_t bytes[];
};

struct network_probe {
    uint8_t target;
    node_id id;
    uint32_t life;
    char address[FACT_ADDRESS_BYTES];
};

void network_init(struct sim *sim);
bool network_is_cut(const struct sim *sim, int from, int to); /* either machine off counts as cut */
bool network_both_ways(const struct sim *sim, int a, int b);
bool network_talks(const struct sim *sim, int a, int b); /* ... and their daemons understand each other */
bool network_is_steady(const struct sim *sim, int a, int b, uint64_t for_ms); /* they do, for that long already */
void network_send(struct sim *sim, int from, int to, node_id to_id, const struct message *message);
void network_hurry(struct sim *sim, struct sim_event *event); /* a message on its way when the faults end */
void network_deliver(struct sim *sim, struct sim_event *event);
void network_probe(struct sim *sim, int node, int target, node_id id, const char *address);
void network_probed(struct sim *sim, struct sim_event *event);

#endif

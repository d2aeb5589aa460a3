#ifndef TESTS_SIM_NETWORK_H
#define TESTS_SIM_NETWORK_H
/* Links between machines, one per direction: delay, loss, duplicates, reordering, cuts. Messages are datagrams. A message
 * needs a connection of its sender's, and a receiver that admits the sender. One seed in ten sends bytes instead of
 * structs, through the real codec. */

#include "gossip/message.h"
#include "tests/sim/plan.h"

#define NETWORK_HELD_MAX 64 /* per link, while the receiver stands still: the high-water mark of the sockets */

struct sim;
struct sim_event;

struct network_link {
    uint64_t cut_until_ms;
    uint32_t base_ms;
    uint64_t last_at_ms; /* keeps order, unless the seed reorders */
    uint32_t held;
};

struct network {
    struct network_link links[PLAN_NODES_MAX][PLAN_NODES_MAX]; /* [from][to] */
    bool is_calm; /* healed: no loss, no extra delay, no duplicates */
    uint64_t sent, lost, delivered;
};

struct network_packet {
    uint8_t from;
    bool is_encoded, is_held;
    struct message message; /* bytes point behind this struct */
    uint32_t byte_count;
    uint8_t bytes[];
};

struct network_probe {
    uint8_t target;
    uint32_t life;
};

void network_init(struct sim *sim);
bool network_is_cut(const struct sim *sim, int from, int to); /* either machine off counts as cut */
bool network_both_ways(const struct sim *sim, int a, int b);
void network_send(struct sim *sim, int from, int to, const struct message *message);
void network_deliver(struct sim *sim, struct sim_event *event);
void network_probe(struct sim *sim, int node, int target);
void network_probed(struct sim *sim, struct sim_event *event);

#endif

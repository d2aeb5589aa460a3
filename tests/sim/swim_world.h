#ifndef TESTS_SIM_SWIM_WORLD_H
#define TESTS_SIM_SWIM_WORLD_H
/* A simulated world of swim cores alone: one clock, a network that delays, reorders, loses, doubles and cuts, nodes
 * that crash, restart, pause and leave. One thread, everything from the seed. After every step it checks what must
 * always hold, and stops with a text in `failure` where it does not. */

#include <stdbool.h>
#include <stdint.h>

#include "gossip/swim.h"

#define WORLD_NODES_MAX 32

struct world_packet {
    uint64_t at_ms, order;
    int from, to;
    struct swim_message message;
};

struct world_node {
    node_id id;
    bool running;
    bool left;
    uint64_t boot;
    uint64_t paused_until_ms; /* in the future: nothing happens in it, packets wait */
    uint64_t paused_since_ms;
    uint64_t seen_incarnation[WORLD_NODES_MAX]; /* in this life */
    struct swim swim;
    struct arena arena;
    void *memory;
};

struct world;
typedef void world_changed(struct world *world, int node, int about, enum swim_state old_state,
                           enum swim_state new_state);

struct world {
    uint64_t seed, now_ms, order, digest, packets_sent, steps;
    struct random random;
    int count;
    struct world_node nodes[WORLD_NODES_MAX];
    bool cut[WORLD_NODES_MAX][WORLD_NODES_MAX]; /* [from][to] */
    uint32_t loss_permille, double_permille;
    uint64_t delay_min_ms, delay_max_ms;
    struct world_packet **heap;
    size_t heap_count, heap_capacity;
    bool verbose;
    world_changed *changed; /* may be NULL */
    void *context;
    char failure[200];
};

/* All nodes know the whole roster; none runs yet. The clock starts at 1,000 ms. */
void world_init(struct world *world, uint64_t seed, int count);
void world_free(struct world *world);

void world_start(struct world *world, int node); /* a new life with a higher incarnation */
void world_crash(struct world *world, int node);
void world_pause(struct world *world, int node, uint64_t ms);
void world_leave(struct world *world, int node);
void world_heal(struct world *world); /* removes all cuts */

/* Until that time, or the first failure. */
void world_run(struct world *world, uint64_t until_ms);

enum swim_state world_view(const struct world *world, int node, int about);

/* True if all running nodes hold all running nodes alive with the right incarnation, and no other one. */
bool world_agrees(const struct world *world);

#endif

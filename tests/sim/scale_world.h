#ifndef TESTS_SIM_SCALE_WORLD_H
#define TESTS_SIM_SCALE_WORLD_H
/* A simulated mesh of up to 1,000 whole node cores (struct node_core: membership, records, exchange, fan-out, elections)
 * that do what an idle lab does, to measure what the protocols cost and how fast they are. One thread, everything from the
 * seed. Less is simulated than in tests/sim/sim: nobody submits, disks take DISK_MS and never fail, hosts that die are
 * silent.
 *
 * Two networks. DATAGRAM: every message for itself; lost, doubled (1 in 100) and reordered (1 in 100 up to 50 ms late).
 * STREAM: one TCP connection for each direction of each pair, as the control sockets have. A lost segment is sent again
 * after 200 ms, then 400, 800 and 1,600, and what is behind it waits; three seconds without an acknowledgement break the
 * connection (TCP_USER_TIMEOUT), everything that it still held is lost, and so is what is said until it stands again. That
 * is harsher than Linux, whose tail loss probe repairs most losses on a LAN within milliseconds. */

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "node/core/ground/state.h"
#include "tests/unit/facts_make.h"

#define SCALE_NODES_MAX 1000u
#define SCALE_DISK_MS 5
#define SCALE_DELAY_MS_MAX 5 /* one way, uniform from 1 */

enum scale_model { SCALE_DATAGRAM, SCALE_STREAM };

struct scale_options {
    uint32_t nodes;
    uint32_t slots; /* of each node */
    uint32_t loss_permille;
    enum scale_model model;
    bool has_no_digests; /* BUCKETS never arrive */
    uint64_t seed;
};

struct scale_node {
    struct person person;
    struct node_core *core;
    void *memory;
    uint64_t boots;
    uint64_t wake_ms; /* of the tick that is due; UINT64_MAX: none */
    uint64_t up_since_ms;
    uint64_t false_death_ms; /* last taken for dead while it lived and was observed; 0: never */
    bool is_up;
    bool has_change; /* the change under way has come here */
    bool knows_death;
    uint64_t sent_messages, sent_bytes, sent_records; /* while the counters run; sent_records: RECORDS messages */
};

struct scale_event;
struct scale_wheel {
    struct scale_event *first, *last;
};
struct scale_link {
    uint32_t last_ms; /* STREAM: nothing arrives before what was sent before */
    uint32_t down_ms; /* until then: broken */
};
struct scale_envelope {
    uint8_t *bytes;
    uint32_t count, owner;
};

struct scale_world {
    struct scale_options options;
    uint64_t now_ms;
    struct random random;
    struct scale_node *nodes;
    uint32_t up_count;
    uint16_t *index; /* hash table of node ids */
    struct scale_link *links; /* [from][to] */
    struct scale_wheel *wheel;
    struct arena arena; /* of events and payloads */
    void *arena_memory;
    size_t core_bytes;
    struct scale_envelope *envelopes; /* what every node has on its disk at the start */
    uint32_t envelope_count, envelope_room;
    struct node_effects effects;
    uint32_t stepping;
    uint64_t steps;

    bool counts_bytes; /* each message is encoded as it would be, and its bytes at IP level are counted */

    bool has_change_under_way;
    uint32_t change_records; /* in every table once the change is there */
    uint32_t change_count;   /* nodes that have it */
    uint64_t change_ms;      /* when the last of them got it */

    int victim; /* -1: nobody */
    uint32_t death_count;
    uint64_t death_first_ms, death_last_ms;

    uint64_t suspicions;      /* one observer, one member each */
    uint64_t false_deaths;    /* members that lived and that somebody declared dead; again only after a minute without */
    uint64_t false_observers; /* declarations of that kind */
};

/* All nodes know the whole roster, have their connections, and start within the first second. */
struct scale_world *scale_new(const struct scale_options *options);
void scale_free(struct scale_world *world);

void scale_run(struct scale_world *world, uint64_t ms);

/* From now on suspicions and false deaths are counted; who is taken for dead already counts when he is the next time. */
void scale_observe(struct scale_world *world);

/* Until everybody who is up holds everybody who is up alive; false if that takes longer than max_ms. */
bool scale_run_until_alive(struct scale_world *world, uint64_t max_ms);

/* A user asks `node` for an invite: one new record. Returns the ms until all have it, or UINT64_MAX if some never did. */
uint64_t scale_change(struct scale_world *world, uint32_t node, uint64_t max_ms);

/* The host of `node` falls silent. Fills the ms until the first and the last of the others hold it dead. */
bool scale_death(struct scale_world *world, uint32_t node, uint64_t max_ms, uint64_t *first_ms, uint64_t *all_ms);
void scale_revive(struct scale_world *world, uint32_t node);

/* What a message costs at IP level: the sender's bytes, and the receiver's acknowledgement. */
void scale_wire_bytes(uint32_t encoded_bytes, uint32_t *sent, uint32_t *acknowledged);

#endif

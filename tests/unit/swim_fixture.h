#ifndef TESTS_UNIT_SWIM_FIXTURE_H
#define TESTS_UNIT_SWIM_FIXTURE_H
/* One node of the mesh, gossip/swim alone, with the messages of the others made by hand. Nodes have small numbers here. */

#include <stdint.h>

#include "gossip/swim.h"

#define START_MS 10000u
#define ARENA_BYTES (1u << 20)

struct fixture {
    struct swim swim;
    struct arena arena;
    struct swim_effects out;
    uint64_t now_ms;
    void *memory;
};

node_id id(unsigned number);

/* We are node 0 with incarnation 100; the members are 1 ... count, not heard of yet. */
struct fixture *start(unsigned count);
void finish(struct fixture *f);
struct fixture *start_alive(unsigned count); /* all have been heard of */

int receive(struct fixture *f, unsigned from, const struct swim_message *message);

/* A ping without sequence, with the sender's incarnation 1 and at most one rumour. */
int hear(struct fixture *f, unsigned from, const struct swim_rumour *rumour);

/* As hear, with a rumour about a node: accused by `by` itself, if suspect. */
int rumour(struct fixture *f, unsigned by, unsigned about, enum swim_state state, uint64_t incarnation);

enum swim_state view(const struct fixture *f, unsigned node);

/* What the last call sent; what a message says of a node; or NULL. */
const struct swim_effect *sent(const struct fixture *f, unsigned to, enum swim_kind kind);
const struct swim_rumour *about(const struct swim_message *message, unsigned node);

void tick_next(struct fixture *f); /* when it is due */

/* A member answers each ping that wants an answer, but `silent`, which answers none. */
void answer_pings(struct fixture *f, unsigned count, unsigned silent, uint64_t incarnation);

/* Time passes with everybody but `silent` (0: nobody) answering. */
void run(struct fixture *f, unsigned count, unsigned silent, uint64_t until_ms);

/* Whom the probe that started in this tick is for; 0 if none did. Urgent pings are over in these tests. */
unsigned probed(const struct fixture *f, unsigned count);

/* Runs until the next probe's ping to anybody goes out; returns whom it is for. */
unsigned next_probe(struct fixture *f, unsigned count, uint32_t *sequence);

#endif

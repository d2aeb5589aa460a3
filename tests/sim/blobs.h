#ifndef TESTS_SIM_BLOBS_H
#define TESTS_SIM_BLOBS_H
/* Code and checkpoints on the disks of the machines: who has a copy of what, and how copies come to others. What disks lose
 * of them is in copies.h. */

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "tests/sim/plan.h"

#define BLOBS_MAX 8192

struct sim;
struct sim_event;
struct node_effect;

struct sim_blob {
    hash256 hash;
    uint32_t holders; /* bits: machines with it on disk */
    uint32_t rotten;  /* ... of which these cannot read it any more, and do not know yet */
    uint32_t struck;  /* machines whose copy was lost by a fault, ever */
    uint64_t touched_ms[PLAN_NODES_MAX]; /* stored there, or said to be there */
    uint64_t struck_ms[PLAN_NODES_MAX];
    bool is_code;
    bool is_output; /* files that a worker has left */
    uint64_t step;
    attempt_id attempt; /* of a checkpoint: who saved it */
    hash256 set;        /* of a part of one: fact_part_name; else none */
    uint32_t part, parts;
};

struct sim_blobs {
    struct sim_blob *all; /* open hash table */
    uint32_t count;
    uint64_t opened_ms[PLAN_NODES_MAX]; /* the disk of blobs, by the daemon that is up */
};

struct blobs_push {
    bool is_question; /* NODE_EFFECT_CONFIRM */
    attempt_id attempt;
    hash256 blob;
    uint64_t step;
    uint8_t to;
    node_id to_id;
    bool is_failed;
    uint32_t life;
};

/* NULL: nobody ever made it. */
struct sim_blob *blobs_find(struct sim *sim, hash256 hash);

/* The part of the checkpoint with this name (fact_part_name), or NULL: nobody ever saved it. */
struct sim_blob *blobs_part(struct sim *sim, hash256 set, uint32_t part);

void blobs_put(struct sim *sim, hash256 hash, int node, bool is_code, uint64_t step);

/* Reads the copy there, if there is one: what cannot be read is no copy from then on. */
bool blobs_hold(struct sim *sim, hash256 hash, int node);

/* Here already, or copied from any machine of `from` (bits; all: UINT32_MAX) that can be reached and has it. */
bool blobs_fetch(struct sim *sim, hash256 hash, int node, uint32_t from);

/* NODE_EFFECT_PUSH and NODE_EFFECT_CONFIRM. */
void blobs_push(struct sim *sim, int node, const struct node_effect *effect);

/* SIM_PUSHED. */
void blobs_event(struct sim *sim, struct sim_event *event);

/* Nothing is left on its disk. */
void blobs_wipe(struct sim *sim, int node);

#endif

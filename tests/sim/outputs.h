#ifndef TESTS_SIM_OUTPUTS_H
#define TESTS_SIM_OUTPUTS_H
/* Files that simulated programs leave (from version 11 of plans on): now and then a worker's daemon has stored what is there by
 * now. What is in an output is known by the step at which it was taken: rank 0's files of a step name those of all ranks up
 * to that step. Only programs that keep their group leave any. */

#include "tests/sim/plan.h"

struct sim;
struct node_effect;
struct record;

/* A worker has made a step, or has ended: its node may take its files. */
void outputs_take(struct sim *sim, int node, uint32_t slot, uint64_t step, bool is_final);

/* NODE_EFFECT_OUTPUT_DONE. */
void outputs_done(struct sim *sim, int node, const struct node_effect *effect);

/* The node has made a step: notes which durable outputs it knows. */
void outputs_know(struct sim *sim, int node);

/* The node writes the record of an attempt: it begins with the newest files that somebody who lives holds, and those of several
 * ranks belong together (invariants 3 and 11). */
void outputs_check_beginning(struct sim *sim, int node, const struct record *record, const attempt_id *attempt);

#endif

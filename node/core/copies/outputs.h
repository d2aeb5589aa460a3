#ifndef NODE_CORE_COPIES_OUTPUTS_H
#define NODE_CORE_COPIES_OUTPUTS_H
/* The files that workers leave (struct fact_output): their copies on other nodes, and which files an attempt begins with. */

#include "node/core/copies/copies.h"

/* NODE_EVENT_OUTPUT: sends the output to as many nodes as copies are wanted besides this node's own. */
void core_outputs_left(struct node_core *core, const struct node_event *event);

/* NODE_EVENT_PUSHED. True: it was the answer to a push of an output. */
bool core_outputs_pushed(struct node_core *core, const struct node_event *event);

/* A worker of the attempt is about to end, and the next attempt may begin right after: outputs on their way are published with
 * the holders so far, and again once their copies have arrived. */
void core_outputs_ended(struct node_core *core, const attempt_id *attempt);

/* In each repair pass: copies the outputs with which an attempt of the trial would begin, if holders are gone. */
void core_outputs_repair(struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                         bool is_over);

/* Publishes what found no memory before. Called every CORE_REPAIR_MS. */
void core_outputs_housekeep(struct node_core *core);

/* Drops the pushes of a deleted experiment. */
void core_outputs_forget(struct node_core *core, experiment_id experiment);

/* As node_core_outputs (node/core/core.h). */
uint32_t core_outputs_choose(const struct node_core *core, const struct view_experiment *experiment,
                             const struct view_trial *trial, const struct view_output *out[FACT_OUTPUTS_MAX]);

/* As node_core_output_holders. */
uint32_t core_outputs_holders(const struct node_core *core, const struct view_trial *trial, const struct view_output *output,
                              node_id out[FACT_HOLDERS_MAX]);

/* True if a holder of a newer output than those of core_outputs_choose was declared dead less than CORE_REFUTE_MS ago. */
bool core_outputs_may_return(const struct node_core *core, const struct view_trial *trial);

/* As node_core_output_sequence and node_core_output_is_united. */
uint64_t core_outputs_sequence(const struct node_core *core, const attempt_id *attempt);
bool core_outputs_are_united(const struct node_core *core, const attempt_id *attempt, uint64_t sequence);

#endif

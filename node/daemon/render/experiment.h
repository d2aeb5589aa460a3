#ifndef NODE_DAEMON_RENDER_EXPERIMENT_H
#define NODE_DAEMON_RENDER_EXPERIMENT_H
/* Documents for users about experiments, trials and checkpoints; pairs and parts as in render.h. */

#include "node/daemon/render/choice.h"
#include "node/daemon/render/render.h"

/* Finds the coordinator of the experiment and its term: the highest claim, if the claim is not given up and the node
 * lives. False: there is no coordinator; `*term` is then the highest term so far, 0 for none. */
bool render_coordinator(const struct node_core *core, const struct view_experiment *experiment, node_id *node,
                        uint64_t *term);

/* Writes `experiments`, sorted by id. An experiment is left out until its records are complete. */
#define RENDER_LS_PAIRS 1
bool render_ls(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* Writes `waiting`: an array of maps `experiment name trials reason`: of at most RENDER_WAITING_EXPERIMENTS experiments with queued
 * trials how many there are, and why the first of them has not begun. */
#define RENDER_WAITING_PAIRS 1
#define RENDER_WAITING_EXPERIMENTS 8
void render_waiting(const struct node_core *core, struct pack_writer *frame);

/* Writes `lacks`: a map `slots kind present` if no trial can begin, because a trial needs more slots of this kind (any,
 * cpu, cuda) than all nodes have together. `present` counts all slots, even of dead and drained nodes and withheld
 * ones. Nil if the slots suffice, or if the experiment is over. */
#define RENDER_LACKS_PAIRS 1
void render_lacks(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame);

/* Writes `program`: which nodes have the program that the entrypoint names, a map `name nodes`. `nodes` is an array of maps `node
 * label name has version torch`: the living nodes that may get work and have slots of the wanted kind, at most RENDER_PROGRAM_NODES, those
 * that lack the program first. `has` is nil if nothing is known. Nil if the entrypoint names none (node/core/facts/program.h), or if
 * the experiment is over. */
#define RENDER_PROGRAM_PAIRS 1
#define RENDER_PROGRAM_NODES 64
void render_program(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame);

/* Writes `experiment`, a map; its list is the trials. The experiment must be `known`. `config`: the configuration with the search
 * space; NULL: it is not here, and the hyperparameters are nil. */
#define RENDER_SHOW_PAIRS 1
bool render_show(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                 uint32_t *from, struct pack_writer *frame);

/* As render_show, with the chosen trials only, and how many match (`matching`). NULL: all trials. */
bool render_show_choice(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                        const struct render_choice *choice, uint32_t *from, struct pack_writer *frame);

/* What render_show writes before the trials, a map that is not whole, and a trial's row, a map: to find out whether they have
 * changed. */
void render_show_head(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame);
void render_trial_row(const struct node_core *core, const struct view_experiment *experiment, const struct config *config,
                      uint32_t index, struct pack_writer *frame);

/* Writes `experiment trial why attempts checkpoints`: one trial, its row as in render_show, why it is in its state (why.h), its
 * newest attempts, and its newest checkpoints, as many as there is room for. `config` as in render_show. */
#define RENDER_TRIAL_PAIRS 5
#define RENDER_TRIAL_BYTES (512u * 1024)
void render_trial(const struct node_core *core, const struct view_experiment *experiment, const struct config *config, uint32_t index,
                  struct pack_writer *frame);

/* The worker whose last lines are shown of a trial: of the newest attempt that failed, which `*attempt` becomes, the one
 * whose failure caused the others' failures. NULL: none, or the trial is completed. */
const struct view_worker *render_tail_worker(const struct node_core *core, const struct view_trial *trial, const struct view_attempt **attempt);

/* Writes why the attempt ended, with what is known of the rank that failed or could not begin, as one sentence without its dot.
 * False, and `out` unchanged: it has not ended. */
#define RENDER_REASON_BYTES (FACT_TAIL_BYTES + 256)
bool render_attempt_reason(const struct node_core *core, const struct view_attempt *attempt, char out[RENDER_REASON_BYTES]);

/* Writes `state trials best trouble halted`, for wait. The experiment must be `known`. */
#define RENDER_STATE_PAIRS 5
void render_experiment_state(const struct node_core *core, const struct view_experiment *experiment,
                             struct pack_writer *frame);

/* The attempt by which users know the trial: the one with the result, else the newest. NULL: none has begun. */
const struct view_attempt *render_shown_attempt(const struct view_trial *trial);

/* When the last worker of the experiment's trials ended, in s since 1970; 0: none began, or that is not known. */
uint64_t render_experiment_ended_s(const struct node_core *core, const struct view_experiment *experiment);

/* Writes `checkpoints`, sorted by trial, the newest first; behind them, with a `path`, those that programs without libshoal have
 * left in $SHOAL_CHECKPOINT_DIR. `trial` limits the list to one trial; RENDER_ALL_TRIALS does
 * not. */
#define RENDER_CHECKPOINTS_PAIRS 1
#define RENDER_ALL_TRIALS UINT32_MAX
bool render_checkpoints(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                        uint32_t *from, struct pack_writer *frame);

/* Writes one row of checkpoints as one value, a map. `states` (one text per holder, or NULL) is the result of a
 * verification, of one of the checkpoint's parts if it has several. `parts`: how many; 0: the checkpoint is one blob. */
void render_checkpoint(const struct node_core *core, uint32_t trial, const struct view_manifest *manifest, uint32_t parts,
                       const char *const *states, struct pack_writer *frame);

/* Writes `outputs`: the files of these workers of the trial, as they would begin the next attempt. */
#define RENDER_OUTPUTS_PAIRS 1
void render_outputs(const struct node_core *core, const struct view_experiment *experiment, const struct view_trial *trial,
                    const struct view_output *const *outputs, uint32_t count, struct pack_writer *frame);

#endif

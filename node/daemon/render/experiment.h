#ifndef NODE_DAEMON_RENDER_EXPERIMENT_H
#define NODE_DAEMON_RENDER_EXPERIMENT_H
/* What users see of experiments, trials and checkpoints; pairs, parts and room as render.h says. */

#include "node/daemon/render/render.h"

/* The node that coordinates the experiment now, and its term: the highest claim, if it was not given up and its node
 * lives. False if there is none; `*term` is then the highest term so far, 0 for none. */
bool render_coordinator(const struct node_core *core, const struct view_experiment *experiment, node_id *node,
                        uint64_t *term);

/* `experiments`: by id. Those of which only parts have come so far are not there yet. */
#define RENDER_LS_PAIRS 1
bool render_ls(const struct node_core *core, uint32_t *from, struct pack_writer *frame);

/* `lacks`: nil, or a map `slots kind present` if no trial of it can begin, since a trial needs more slots of this kind (any,
 * cpu, cuda) than all nodes have together, whatever becomes of them: those of dead and drained nodes and those that are
 * withheld are `present` too. Nil for one that is over. */
#define RENDER_LACKS_PAIRS 1
void render_lacks(const struct node_core *core, const struct view_experiment *experiment, struct pack_writer *frame);

/* `experiment`, a map; its list is that of its trials. The caller has found it: it exists and is `known`. */
#define RENDER_SHOW_PAIRS 1
bool render_show(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from,
                 struct pack_writer *frame);

/* `state trials best`, for wait. The experiment is known. */
#define RENDER_STATE_PAIRS 3
void render_experiment_state(const struct node_core *core, const struct view_experiment *experiment,
                             struct pack_writer *frame);

/* `checkpoints`: by (trial, newest first). `trial` limits it to one trial; RENDER_ALL_TRIALS does not. */
#define RENDER_CHECKPOINTS_PAIRS 1
#define RENDER_ALL_TRIALS UINT32_MAX
bool render_checkpoints(const struct node_core *core, const struct view_experiment *experiment, uint32_t trial,
                        uint32_t *from, struct pack_writer *frame);

/* One row of checkpoints as one value, a map; `states` (one text per holder, or NULL) is what a verification found. */
void render_checkpoint(const struct node_core *core, uint32_t trial, const struct view_manifest *manifest,
                       const char *const *states, struct pack_writer *frame);

#endif

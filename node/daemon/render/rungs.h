#ifndef NODE_DAEMON_RENDER_RUNGS_H
#define NODE_DAEMON_RENDER_RUNGS_H
/* The document of a search that stops trials early (docs/wire.md, `rungs`). */

#include "node/daemon/render/render.h"

/* Writes `search`, a map `metric smaller_is_better divisor unit brackets judged`: `judged` has all decisions that stand, in the order
 * of the log. The experiment is `known`, and its searcher halves. */
#define RENDER_RUNGS_PAIRS 1
bool render_rungs(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from, struct pack_writer *frame);

/* Writes `search`, a map `population rounds metric smaller_is_better unit length_per_round members`: how the trials of each
 * round of pbt rank, and which trial goes on in the place of each. The experiment is `known`, and its searcher is pbt. */
bool render_generations(const struct node_core *core, const struct view_experiment *experiment, uint32_t *from,
                        struct pack_writer *frame);

#endif

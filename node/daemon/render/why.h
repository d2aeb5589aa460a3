#ifndef NODE_DAEMON_RENDER_WHY_H
#define NODE_DAEMON_RENDER_WHY_H
/* Why a trial is in its state, in sentences for users. */

#include <msgpack.h>

#include "node/daemon/render/render.h"

/* What a search that stops trials early has decided of a trial. */
struct why_decision {
    enum fact_decision decision;
    uint32_t rung;      /* where the trial was compared, from 0 on */
    uint64_t step;      /* of the report that was compared */
    double value;       /* of searcher.metric there */
    uint32_t place, of; /* the trial's place among the trials that had reported at the rung, 1 for the best */
    uint32_t go_on;     /* how many of these go on */
};

/* Writes "stopped at rung 1 (step 859): 0.81, 5th of 9, 2 go on", or what else the decision was. */
#define WHY_DECISION_BYTES 160
void why_decision_text(const struct why_decision *stop, char out[WHY_DECISION_BYTES]);

/* Writes "its result for the search: 0.81 (step 859), 5th of 9 by then", of a search that stops nothing. */
void why_result_text(const struct why_decision *result, char out[WHY_DECISION_BYTES]);

/* Writes an array of maps `text at_s`: a sentence without its dot, and the time that it is about, or nil. */
void render_put_why(const struct node_core *core, const struct view_experiment *experiment, uint32_t index, msgpack_packer *packer);

#endif

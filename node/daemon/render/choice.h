#ifndef NODE_DAEMON_RENDER_CHOICE_H
#define NODE_DAEMON_RENDER_CHOICE_H
/* Which trials of an experiment a document shows, and in which order: a page of a long table. Pure. */

#include "node/daemon/render/render.h"

enum render_sort { RENDER_BY_INDEX, RENDER_BY_STATE, RENDER_BY_STEP, RENDER_BY_METRIC, RENDER_BY_START };
#define RENDER_STATES_BYTES 96

/* What is wanted; all zero: every trial, by index. */
struct render_wish {
    enum render_sort sort;
    bool descending;
    char states[RENDER_STATES_BYTES]; /* names as in documents, with commas between them; "": all */
    uint32_t from, limit;             /* of those that match, in their order; limit 0: all from there on */
};

/* The sort of a name (index, state, step, metric, started_s). False: there is none such. */
bool render_sort_of(const char *name, enum render_sort *out);

/* The trials of one page. */
struct render_choice {
    const uint32_t *trials;
    uint32_t count;
    uint32_t matching; /* trials with a wanted state, on all pages */
};

/* Chooses, in `trials` with room for experiment->trial_count. Trials without the wanted number (no metric, not begun)
 * come last in either order; equal ones by index. */
struct render_choice render_choose(const struct node_core *core, const struct view_experiment *experiment,
                                   const struct render_wish *wish, uint32_t *trials, double *keys);

#endif

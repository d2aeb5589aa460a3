#ifndef NODE_DAEMON_RENDER_CHOICE_H
#define NODE_DAEMON_RENDER_CHOICE_H
/* Which trials of an experiment a document shows, and in which order: a page of a long table. It is chosen step by step, since an
 * experiment may have 100,000 trials and the thread that chooses answers probes, too. No clock, no I/O. */

#include "node/daemon/render/render.h"
#include "node/daemon/render/where.h"

enum render_sort { RENDER_BY_INDEX, RENDER_BY_STATE, RENDER_BY_STEP, RENDER_BY_METRIC, RENDER_BY_START, RENDER_BY_HYPERPARAMETER };
#define RENDER_STATES_BYTES 96
#define RENDER_SORT_BYTES (WHERE_NAME_BYTES + 8)

/* What is wanted; all zero: every trial, by index. */
struct render_wish {
    enum render_sort sort;
    bool descending;
    char hyperparameter[WHERE_NAME_BYTES]; /* RENDER_BY_HYPERPARAMETER: its name */
    char states[RENDER_STATES_BYTES];      /* names as in documents, with commas between them; "": all */
    char where[WHERE_BYTES];               /* conditions that where_read takes; "": none */
    uint32_t from, limit;                  /* of those that match, in their order; limit 0: all from there on */
};

/* Reads the sort of a name (index, state, step, metric, started_s, hp.NAME) into the wish. False: there is none such. */
bool render_sort_of(const char *name, struct render_wish *out);

/* The trials of one page. */
struct render_choice {
    const uint32_t *trials;
    uint32_t count;
    uint32_t matching; /* trials with a wanted state that meet all conditions, on all pages */
};

/* A choice that is being made. */
struct render_chooser;

/* Begins a choice of the trials that the experiment has now. NULL: no memory is left. */
struct render_chooser *render_chooser_new(const struct view_experiment *experiment, const struct render_wish *wish);
void render_chooser_free(struct render_chooser *chooser);

/* Goes on with some trials, or some comparisons: some 100 us of work. `config`: with the search space; NULL: not here. False: the
 * choice is made. */
bool render_chooser_step(struct render_chooser *chooser, const struct node_core *core, const struct view_experiment *experiment,
                         const struct config *config);

/* Of a choice that is made. Trials without the wanted number (no metric, not begun) come last in either order; equal ones by index.
 * Texts are sorted by their first six bytes, behind numbers. The chooser's. */
const struct render_choice *render_chooser_choice(const struct render_chooser *chooser);

/* Of a choice that is made: the first hyperparameter of the wish that no trial has, though some have others; NULL: none. */
const char *render_chooser_unknown(const struct render_chooser *chooser);

#endif

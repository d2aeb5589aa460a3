#ifndef NODE_CORE_VIEW_POPULATION_H
#define NODE_CORE_VIEW_POPULATION_H
/* The generations of pbt, as a part of the state of a search: for search.c. */

#include "node/core/view/view.h"

/* Notes that the trial is judged, for the first time. */
void view_population_note(struct view_experiment *experiment, uint32_t trial);

/* Chooses the parents of the generations whose trials' parents are all judged. False: no memory; to be called again. */
bool view_population_follow(struct view *view, struct view_experiment *experiment);

#endif

#ifndef NODE_CORE_VIEW_PROMOTION_H
#define NODE_CORE_VIEW_PROMOTION_H
/* The ladder of a search that promotes paused trials, as a part of its state: for search.c. Of other searches the ladder is empty. */

#include "node/core/view/view.h"

/* Makes the ladder for the table of trials. False: no memory. */
bool view_promotion_make(struct view *view, struct view_experiment *experiment);

/* Gives its memory back. */
void view_promotion_free(struct view *view, struct view_search *search);

/* Room for the steps of one more record. */
bool view_promotion_has_room(struct view *view, struct view_search *search);

/* Takes a decision of a log. False: it does not follow, and is passed over. */
bool view_promotion_take(struct view_search *search, const struct fact_judged *judged);

#endif

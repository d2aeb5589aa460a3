#ifndef NODE_CORE_VIEW_ROWS_H
#define NODE_CORE_VIEW_ROWS_H
/* The rows that the fold of view.c fills: sorted arrays and lists, all in the view's arena. Those that make a row give the one
 * that is there, or a new one, or NULL when the arena is full. */

#include "node/core/view.h"

struct view_experiment *view_experiment_row(struct view *view, experiment_id id);
struct view_trial *view_trial_row(struct view *view, struct view_experiment *experiment, uint32_t index);
struct view_attempt *view_attempt_row(struct view *view, struct view_trial *trial, const attempt_id *id);

uint32_t view_tombstone_position(const struct view *view, experiment_id id); /* where it is, or would be */

void view_group_free(struct arena *arena, struct view_group *group);
void view_experiment_drop(struct view *view, experiment_id id); /* with all that hangs on it; it may be missing */

/* A register changes: how many of the view's are refused by their clocks (view->jump_count) is counted anew. */
void view_count_jumps(struct view *view, struct lamport_top before, struct lamport_top after);

#endif

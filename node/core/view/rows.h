#ifndef NODE_CORE_VIEW_ROWS_H
#define NODE_CORE_VIEW_ROWS_H
/* The rows that the fold of view.c fills: sorted arrays and lists, all in the view's arena. Those that make a row give the one
 * that is there, or a new one, or NULL when the arena is full. */

#include "node/core/view/view.h"

/* The row of a list that compares equal to `wanted`, or a copy of `wanted` in its place, or NULL when the arena is full. `list` is
 * the address of the list's first pointer; every row begins with a pointer to the next; `bytes` is the size of a row. `order` is
 * below, at or above 0 as the row stands before, at or behind the place of `wanted`. */
void *view_row(struct view *view, void *list, const void *wanted, size_t bytes, int order(const void *row, const void *wanted));

struct view_experiment *view_experiment_row(struct view *view, experiment_id id);

/* Trials of which the configuration speaks have a table, the first VIEW_TRIALS_FEW in any case. Of others there are only those
 * that somebody's records name: they are strays, so that a made-up number costs no more memory than the record that it is
 * in. */
#define VIEW_TRIALS_FEW 64
struct view_trial *view_trial_row(struct view *view, struct view_experiment *experiment, uint32_t index);

/* The configuration has come, of so many trials: their strays go into the table. False when the arena is full: nothing has
 * changed then. */
bool view_strays_settle(struct view *view, struct view_experiment *experiment, uint32_t trial_count);

struct view_attempt *view_attempt_row(struct view *view, struct view_trial *trial, const attempt_id *id);

void view_group_free(struct arena *arena, struct view_group *group);

/* Takes the row out of view->experiments. It is the caller's from then on, with everything that it points to. NULL: there is no
 * such row. */
struct view_experiment *view_experiment_take_out(struct view *view, experiment_id id);

/* A register changes: how many of the view's are refused by their clocks (view->jump_count) is counted anew. */
void view_count_jumps(struct view *view, struct lamport_top before, struct lamport_top after);

#endif

#ifndef NODE_CORE_VIEW_ROWS_H
#define NODE_CORE_VIEW_ROWS_H
/* Making the rows that the fold fills: sorted arrays and lists in the view's arena. Each view_..._row returns the row with this
 * key, made if there was none, or NULL when the arena is full; the rows that were there are then unchanged. */

#include "node/core/view/view.h"

/* For any sorted list: the row that compares equal to `wanted`, or if there is none a copy of `wanted` put in its place.
 * `list` is the address of the list's first pointer; every row begins with the pointer to the next row; `bytes` is the size
 * of a row. `order` returns < 0, 0 or > 0 if the row belongs before, at or behind the place of `wanted`. */
void *view_row(struct view *view, void *list, const void *wanted, size_t bytes, int order(const void *row, const void *wanted));

struct view_experiment *view_experiment_row(struct view *view, experiment_id id);

/* Trials of the configuration are in a table by index, and so are the first VIEW_TRIALS_FEW in any case. All other trials named
 * by records are strays, in a sorted array: so a made-up index costs no more memory than the record with the index. */
#define VIEW_TRIALS_FEW 64
struct view_trial *view_trial_row(struct view *view, struct view_experiment *experiment, uint32_t index);

/* The trial is not at rest any more, or may not be: view_trials_settle looks at it again. view_trial_row does this, too. */
void view_trial_wake(struct view_experiment *experiment, uint32_t index);

/* The same for all trials of the experiment. */
void view_trials_wake(struct view_experiment *experiment);

/* The configuration is known now, and has `trial_count` trials: moves its strays into the table. False: the arena is full, and
 * nothing has changed. */
bool view_strays_settle(struct view *view, struct view_experiment *experiment, uint32_t trial_count);

struct view_attempt *view_attempt_row(struct view *view, struct view_trial *trial, const attempt_id *id);

/* Finds or makes the rows of the experiment, trial and attempt that the record's key names. 0, ERR_MALFORMED or ERR_FULL. */
int view_rows_of(struct view *view, const struct record *record, attempt_id *id, struct view_experiment **experiment,
                 struct view_trial **trial, struct view_attempt **attempt);

/* How many trials the experiment has if its configuration gives `configured` of them: of a search that draws its trials perhaps more, by
 * the greatest number that any user has asked for. */
uint32_t view_extended_count(const struct view_experiment *experiment, const struct config *config, uint32_t configured);

/* The order of registers: by subject, then by name. */
int view_annotation_compare(const struct view_annotation *a, const struct view_annotation *b);

/* Gives the memory of a group back, which is in no list any more. */
void view_group_free(struct arena *arena, struct view_group *group);

/* Takes the row out of view->experiments, or returns NULL if there is none. The row and everything that it points to belong
 * to the caller from then on. */
struct view_experiment *view_experiment_take_out(struct view *view, experiment_id id);

/* The clocks of one register have changed from `before` to `after`: corrects view->jump_count. */
void view_count_jumps(struct view *view, struct lamport_top before, struct lamport_top after);

#endif

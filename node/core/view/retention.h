#ifndef NODE_CORE_VIEW_RETENTION_H
#define NODE_CORE_VIEW_RETENTION_H
/* Which checkpoints are kept (DESIGN 10). A pure function of the fold, so that all who know the same decide alike:
 *
 *   of each trial        the newest save_trial_latest, and the best save_trial_best
 *   of all trials        the best save_experiment_best
 *   of one that lives    the newest, and the newest that is durable, whatever the numbers say
 *   of an attempt        the one that it begins with, until it has its verdict
 *
 * Best is by the searcher's metric that a checkpoint was saved with; one without a metric is never among them. Ties: the
 * lower trial, then the older: what is saved between two validations has the metric of the first, and is trained on since. What
 * nobody holds any more is no checkpoint. */

#include "node/core/view/view.h"

/* It has still something to do, and so goes on from its newest checkpoint. `is_over`: view_experiment_over, which looks at
 * all trials, and so is asked once for all of them. */
bool retention_trial_lives(const struct view_experiment *experiment, const struct view_trial *trial, bool is_over);

/* Sets is_kept and is_best in all manifest rows of a known experiment. */
void retention_mark(struct view_experiment *experiment);

/* Sets the experiment's bar by what is marked as safe now, once for all that retention_may_go is asked about: it would have
 * to look through all trials for each. */
void retention_find_bar(struct view_experiment *experiment);

/* True if a checkpoint (any of its rows) may be let go: it is not kept, nor would it be if only it and what is marked
 * as safe were there (of other trials: when the bar was set). A trial that saves faster than copies can be confirmed lets go
 * all the same. */
bool retention_may_go(const struct view_experiment *experiment, const struct view_trial *trial,
                      const struct view_manifest *row);

#endif

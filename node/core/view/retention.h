#ifndef NODE_CORE_VIEW_RETENTION_H
#define NODE_CORE_VIEW_RETENTION_H
/* Which checkpoints are kept (DESIGN 10). A pure function of the fold, so that all nodes with the same records decide alike:
 *
 *   of each trial        the newest save_trial_latest, and the best save_trial_best
 *   of all trials        the best save_experiment_best
 *   of a living trial    the newest, and the newest durable one, even where the numbers above are 0
 *   of an attempt        the checkpoint that the attempt began with, until the attempt has its verdict
 *
 * Best is by the searcher's metric at the time of the save; a checkpoint without a metric is never among the best. Of equal
 * metrics the lower trial counts, then the older checkpoint: one saved between two validations has the metric of the first
 * validation, but has been trained further since. A manifest without holders is no checkpoint. */

#include "node/core/view/view.h"

/* A living trial is queued or running, in an experiment that is not over: it goes on from its newest checkpoint. `is_over`
 * is the result of view_experiment_over, which the caller asks once for all trials, since it looks at all of them. */
bool retention_trial_lives(const struct view_experiment *experiment, const struct view_trial *trial, bool is_over);

/* Sets is_kept and is_best in all manifest rows of an experiment. experiment->known must be true. */
void retention_mark(struct view_experiment *experiment);

/* Sets experiment->bar from the checkpoints that are marked as safe now. Called once before any number of retention_may_go,
 * because it looks through all trials. */
void retention_find_bar(struct view_experiment *experiment);

/* True if a checkpoint may be let go; `row` is any of its rows. It is not kept, and would not be kept either if the only other
 * checkpoints were the safe ones (in other trials: those that were safe when the bar was set). So a trial that saves faster
 * than copies can be confirmed still lets go of old checkpoints. */
bool retention_may_go(const struct view_experiment *experiment, const struct view_trial *trial,
                      const struct view_manifest *row);

#endif

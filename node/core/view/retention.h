#ifndef NODE_CORE_VIEW_RETENTION_H
#define NODE_CORE_VIEW_RETENTION_H
/* Which checkpoints are kept (DESIGN 10). A pure function of the fold, so that all nodes with the same records decide alike:
 *
 *   of each trial        the newest save_trial_latest, and the best save_trial_best
 *   of all trials        the best save_experiment_best
 *   of a living trial    the newest, and the newest durable one, even where the numbers above are 0
 *   of an attempt        the checkpoint that the attempt began with, until the attempt has its verdict
 *   of a pinned one      all of an experiment's checkpoints
 *   of a model           the checkpoint that each version is
 *
 * Best is by the searcher's metric at the time of the save; a checkpoint without a metric is never among the best. Of equal
 * metrics the lower trial counts, then the older checkpoint: one saved between two validations has the metric of the first
 * validation, but has been trained further since. A manifest without holders is no checkpoint. */

#include "node/core/view/view.h"

/* A living trial is queued or running, in an experiment that is not over: the trial goes on from the newest checkpoint.
 * `is_over` is the result of view_experiment_over: the caller asks once for all trials, since the function looks at all
 * trials. */
bool retention_trial_lives(const struct view_experiment *experiment, const struct view_trial *trial, bool is_over);

/* Sets is_kept and is_best in all manifest rows of an experiment. experiment->known must be true. */
void retention_mark(struct view_experiment *experiment);

/* Sets experiment->bar from the checkpoints now marked as safe. Looks through all trials, and so is called once before any
 * number of retention_may_go. */
void retention_find_bar(struct view_experiment *experiment);

/* True if the checkpoint of `row` may be let go: retention does not keep the checkpoint, and would not keep it either among
 * the safe checkpoints alone (safe now in the same trial, and in other trials when the bar was set). So a trial that saves
 * faster than copies can be confirmed still lets go of old checkpoints. */
bool retention_may_go(const struct view_experiment *experiment, const struct view_trial *trial,
                      const struct view_manifest *row);

/* Whether the outputs of the experiment's trials that are over are kept (struct fact_output): they are one thing, whatever it
 * holds, so any of save_experiment_best, save_trial_best and save_trial_latest keeps them, and so do a pin and a version of a model. */
bool retention_keeps_outputs(const struct view_experiment *experiment);

/* Whether the output is kept, as long as those of its trial are: it is of one of the last two attempts that left a durable one,
 * or of a later attempt. */
bool retention_keeps_output(const struct view_trial *trial, const struct view_output *output);

#endif

#ifndef NODE_CORE_QUEUE_QUEUE_H
#define NODE_CORE_QUEUE_QUEUE_H
/* The queue as the records of this node have it: which experiments wait for slots, and in which order. The unit is an
 * experiment's next trial, so an experiment costs the same with one waiting trial and with ten thousand. */

#include "node/core/queue/order.h"
#include "node/core/view/view.h"

/* The first trial of the experiment that slots would let begin, as far as records tell: no user, search or program holds it
 * back. FACT_NO_TRIAL: there is none. */
uint32_t queue_next_trial(const struct view_experiment *experiment);

/* What the experiment is compared by. NULL, or not known yet: it comes behind all that are known. */
struct queue_entry queue_entry_of(experiment_id id, const struct view_experiment *experiment);

/* Writes the experiments with such a trial to `out`, the first one first, and returns their number; beyond `max` of them, those
 * with the smallest ids are written. */
uint32_t queue_list(const struct view *view, struct queue_entry *out, uint32_t max);

#endif

#ifndef NODE_CORE_COORDINATOR_SEARCH_H
#define NODE_CORE_COORDINATOR_SEARCH_H
/* The searcher of an experiment, while its coordinator is this node (DESIGN 14): which trials begin, and which stop early. */

#include "node/core/coordinator/coordination.h"

/* Judges what the trials have reached, writes the decisions into this node's log and stops the trials concerned, as far as the step
 * has room. Counts the trials under way, for search_lets_begin in this pass. */
void search_follow(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment);

/* Whether the searcher lets the trial begin now, or again: it has not stopped it, and fewer of its bracket are under way than may be
 * at a time. */
bool search_lets_begin(const struct core_coordination *coordination, const struct view_experiment *experiment, uint32_t trial);

/* The same at any node that follows the election, by the records: the trial may not begin now. */
bool search_is_full(const struct node_core *core, const struct core_coordination *coordination,
                    const struct view_experiment *experiment, uint32_t trial);

/* Makes the log of this lead ready for its next entry: open, with what earlier logs have decided taken over, and the state up to date.
 * False: not now. */
bool search_log_make_ready(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment);

/* Writes with which values an attempt is about to begin. The log is ready. False: it is not written, or not in the state yet. */
bool search_put_created(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                        const struct fact_created *created);

/* Of the searcher custom. The first result that waits, of all trials; false: none. What an attempt was begun with stands in the log before
 * its result does: search_create_judged; false: not now. search_put_answer writes an event with its answer. */
bool search_first_result(const struct node_core *core, const struct view_experiment *experiment, struct fact_judged *out);
bool search_create_judged(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                          const struct fact_judged *judged);
bool search_put_answer(struct node_core *core, struct core_coordination *coordination, struct view_experiment *experiment,
                       const struct fact_search_log *fact);

#endif

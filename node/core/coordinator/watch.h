#ifndef NODE_CORE_COORDINATOR_WATCH_H
#define NODE_CORE_COORDINATOR_WATCH_H
/* The watches of one experiment's attempts: one row for each attempt that is looked at (struct core_watch). */

#include "node/core/coordinator/coordination.h"

/* The watch of an attempt, made if it is missing; NULL when memory is full. Valid until watch_forget_unseen. */
struct core_watch *watch_row(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt);

/* The watch of an attempt, or NULL. */
struct core_watch *watch_find(const struct core_coordination *coordination, const attempt_id *attempt);

/* After a pass over the experiment: frees the watches that the pass did not look at (seen_pass). The watch of an attempt that
 * has ended stays for as long as its trial waits for a place because of it. */
void watch_forget_unseen(struct node_core *core, struct core_coordination *coordination);

/* This node begins to lead, perhaps for the second time: all times of an earlier leadership are dropped. The measured length
 * of a step and the record of lost joiners stay. */
void watch_begin_anew(const struct node_core *core, struct core_coordination *coordination);

/* All trials and groups of the experiment wait for a place from now on, not since before. */
void watch_forget_waits(struct core_coordination *coordination);

/* Takes `ms` off all waits for a place. */
void watch_hold_waits(struct core_coordination *coordination, uint64_t ms);

#endif

#ifndef NODE_CORE_COORDINATOR_WATCH_H
#define NODE_CORE_COORDINATOR_WATCH_H
/* The watches of an experiment's attempts: a row for each attempt (struct core_watch). */

#include "node/core/coordinator/coordination.h"

/* ---- one watch: the moves drawn in coordination.h  ---------------------------------------------------------------- */

/* Keeps a time since when something holds: now_ms from the first call with `holds` on, 0 as soon as `holds` is false. */
void watch_since(uint64_t *since_ms, bool holds, uint64_t now_ms);

/* WHOLE -> BROKEN; nothing changes if the group is broken already. */
void watch_broken_begin(struct core_watch *watch, uint64_t now_ms);

/* BROKEN -> BROKEN anew: the group's time to come together begins now. Not while the group is asked to stop. */
void watch_broken_anew(struct core_watch *watch, uint64_t now_ms);

/* -> WHOLE: drops all times of a broken group. */
void watch_broken_end(struct core_watch *watch);

/* The invariant: CHECKs the common rules of the times, and that no time lies in the future. */
void watch_check(const struct core_watch *watch, uint64_t now_ms);

/* ---- the watches of an experiment -------------------------------------------------------------------------------- */

/* watch_check for every watch of the experiment. */
void watch_check_all(const struct node_core *core, const struct core_coordination *coordination);

/* The watch of an attempt, made if missing; NULL when memory is full. Valid until watch_forget_unseen. */
struct core_watch *watch_row(struct node_core *core, struct core_coordination *coordination, const attempt_id *attempt);

/* The watch of an attempt, or NULL. */
struct core_watch *watch_find(const struct core_coordination *coordination, const attempt_id *attempt);

/* After a pass over the experiment: frees all watches that the pass left out (seen_pass). The watch of an ended attempt stays
 * while the trial waits for a place because of the attempt's end. */
void watch_forget_unseen(struct node_core *core, struct core_coordination *coordination);

/* The node begins to lead, perhaps for the second time: all times of an earlier leadership are dropped. The measured length
 * of a step and the record of lost joiners stay. */
void watch_begin_anew(const struct node_core *core, struct core_coordination *coordination);

/* All trials and groups of the experiment wait for a place from now on, not since before. */
void watch_forget_waits(struct core_coordination *coordination);

/* The last `ms` do not count as waiting: moves the beginning of every wait for a place forward by `ms`. */
void watch_hold_waits(struct core_coordination *coordination, uint64_t ms);

#endif

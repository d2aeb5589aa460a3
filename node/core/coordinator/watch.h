#ifndef NODE_CORE_COORDINATOR_WATCH_H
#define NODE_CORE_COORDINATOR_WATCH_H
/* The watches of one experiment's attempts: one row for each attempt that is looked at (struct core_watch). */

#include "node/core/coordinator/coordination.h"

/* ---- one watch: the moves that coordination.h draws ---------------------------------------------------------------- */

/* A time that says since when something holds: kept while it holds, 0 as soon as it does not. */
void watch_since(uint64_t *since_ms, bool holds, uint64_t now_ms);

/* WHOLE -> BROKEN; nothing changes if the group is broken already. */
void watch_broken_begin(struct core_watch *watch, uint64_t now_ms);

/* BROKEN -> BROKEN anew: the group's time to come together begins now. Not while the group is asked to stop. */
void watch_broken_anew(struct core_watch *watch, uint64_t now_ms);

/* -> WHOLE: drops every time that only a broken group has. */
void watch_broken_end(struct core_watch *watch);

/* The invariant: CHECKs that the times set together belong together, and that none lies in the future. */
void watch_check(const struct core_watch *watch, uint64_t now_ms);

/* ---- the watches of an experiment -------------------------------------------------------------------------------- */

/* watch_check for every watch of the experiment. */
void watch_check_all(const struct node_core *core, const struct core_coordination *coordination);

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

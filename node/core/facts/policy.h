#ifndef NODE_CORE_FACTS_POLICY_H
#define NODE_CORE_FACTS_POLICY_H
/* When a machine is its owner's, from what the owner has said and what the machine shows. Pure: it knows no node.
 *
 * Hours hold by the clock alone. Activity holds from the first look that shows it until `back_after_s` after the last one.
 * Load holds once the other processes have used as much in each look for POLICY_LOAD_MS, since a compiler that runs for a
 * moment is no reason to move a trial, and until `back_after_s` after the last look that shows as much. Of several reasons
 * the first counts: hours, activity, load. */

#include "node/core/facts/facts.h"

#define POLICY_LOAD_MS 10000

/* One look at the machine. */
struct policy_look {
    uint64_t now_ms, wall_s;
    uint32_t weekday; /* 0 Monday ... 6 Sunday */
    uint32_t minute;  /* of the day */
    bool has_load;
    uint32_t others_permille; /* has_load: of all processors, used by processes that are no workers, since the look before */
    bool is_active;           /* the keyboard, the mouse or a terminal was used since the look before */
};

/* What earlier looks have shown; all zero at first. */
struct policy_memory {
    uint64_t over_ms;   /* since when each look has shown as much load; 0: the last one has not */
    uint64_t loaded_ms; /* the last look in which load was a reason; 0: never */
    uint64_t active_ms; /* the last look that showed activity; 0: never */
};

/* The first reason that holds now, and for hours when it ends; else `*until_s` is 0. */
enum fact_policy_why policy_decide(const struct fact_policy *policy, const struct policy_look *look, struct policy_memory *memory,
                                   uint64_t *until_s);

/* After a restart of the daemon: a reason that held goes on from this look on. */
void policy_remember(enum fact_policy_why why, uint64_t now_ms, struct policy_memory *memory);

#endif

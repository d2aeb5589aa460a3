#ifndef TRAIN_PLAN_BALANCE_H
#define TRAIN_PLAN_BALANCE_H
/* Unequal parts of a step's items (samples, as a rule), so that ranks of different speed end their computation at the same
 * time. A core: every rank brings what it measured, all hear the same numbers, and from them each computes the same parts.
 * Integers only, so that all machines agree.
 *
 * A rank's speed is items per time of its own computation, without its waits for the others. Parts in proportion to the
 * speeds are those with which all take equally long, also where a step costs something that does not depend on its items: what
 * is measured next is then the speed with that part, and parts come to rest where the times are equal.
 *
 * Machines differ for good, and they have moments. What is measured is added up until one rank has computed for BALANCE_NS: a
 * processor that somebody else has for some ms does not look like a slow one. A measure that is off from a rank's speed by more
 * than a quarter is a change: it is followed, and so is the measure after it, by a factor of two in one agreement at most, so
 * that one moment does not cost a rank its part. What else is off is noise, of which an eighth counts. And parts are cut anew
 * only where that makes a step shorter by an eighth, or, after BALANCE_SETTLED agreements, when noise has been averaged away, by
 * a sixteenth: ranks that are alike stay with equal parts.
 *
 * The numbers come from other machines: any are allowed. No speed counts as more than BALANCE_RATIO_MAX times the median of
 * the group's, or less than its part of that, and every rank has at least one item where there are enough. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define BALANCE_NS 200000000
#define BALANCE_RATIO_MAX 64
#define BALANCE_SETTLED 8

/* Of one rank since the last exchange: items, and the ns of its own that they took. Nothing was measured where one is 0. */
struct balance_measure {
    uint64_t items, ns;
};

struct balance {
    uint32_t size;
    uint32_t agreements;
    struct balance_measure sums[PLAN_RANKS_MAX]; /* since the last agreement */
    uint64_t speeds[PLAN_RANKS_MAX];             /* items per 2^42 ns (73 minutes); 0: not known yet */
    bool is_changing[PLAN_RANKS_MAX];            /* the last measure was off by more than noise is */
    uint32_t weights[PLAN_RANKS_MAX];            /* by which parts are cut, > 0 */
};

/* A group of `size` ranks, 1 ... PLAN_RANKS_MAX, with equal parts, or in proportion to speeds[size] that its ranks bring
 * from an earlier group, each its own entry there; 0: it has none, and counts as the median. NULL: nobody brings one. */
void balance_init(struct balance *balance, uint32_t size, const uint64_t *speeds);

/* What all have measured, measures[size], in rank order. An agreement if that is enough. */
void balance_agree(struct balance *balance, const struct balance_measure *measures);

/* The part [*first, *first + *count) of `total` items that is a rank's: contiguous, in rank order, and together all of them.
 * Equal parts are those of ledger_share, as are all where there are fewer items than ranks. */
void balance_share(const struct balance *balance, uint32_t total, uint32_t rank, uint32_t *first, uint32_t *count);

/* Whether ranks exchange what they have measured after so many steps of a group (from 1): 4, 8, 16, 32, and every 32 from then
 * on. */
#define BALANCE_FIRST 4
#define BALANCE_EVERY 32
bool balance_is_due(uint64_t steps);

#endif

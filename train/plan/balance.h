#ifndef TRAIN_PLAN_BALANCE_H
#define TRAIN_PLAN_BALANCE_H
/* Unequal parts of a step's items (samples, as a rule), so that ranks of different speed finish computing at the same time. A
 * core: every rank contributes its measurements, every rank receives the same numbers and computes the same parts from them.
 * Integers only, so that all machines agree.
 *
 * A rank's speed is items per time of its own computation, without waiting for other ranks. With parts in proportion to the
 * speeds all ranks take equally long. The same rule holds for a step with a cost independent of its items: the next measurement
 * gives the speed at the new part, and the parts settle where the times are equal.
 *
 * Machines differ permanently, and they also have bad moments. Measurements are added up until some rank has computed for
 * BALANCE_NS, so that a processor lent to another program for some ms does not look slow. A measurement more than a quarter
 * away from the rank's speed is a change: the speed follows it, and follows the next measurement as well, by at most a factor
 * of two per agreement, so that a single bad moment does not cost a rank its part. A smaller deviation is noise, and an eighth
 * of it counts. Parts are cut anew only if the step becomes shorter by an eighth, or, after BALANCE_SETTLED agreements, when
 * the noise has been averaged away, by a sixteenth: ranks of equal speed keep equal parts.
 *
 * The numbers come from other machines, so any value is accepted. A speed counts as at most BALANCE_RATIO_MAX times the group's
 * median and as at least the median / BALANCE_RATIO_MAX. Every rank has at least one item if there are enough. */

#include <stdbool.h>
#include <stdint.h>

#include "train/plan/plan.h"

#define BALANCE_NS 200000000
#define BALANCE_RATIO_MAX 64
#define BALANCE_SETTLED 8

/* A rank's measurement since the last exchange: its items, and the ns of its own computation for them. 0 in either: nothing was
 * measured. */
struct balance_measure {
    uint64_t items, ns;
};

/* The state of a group's balance. Every rank holds the same; the caller owns the struct, and no function allocates. */
struct balance {
    uint32_t size;
    uint32_t agreements;
    struct balance_measure sums[PLAN_RANKS_MAX]; /* since the last agreement */
    uint64_t speeds[PLAN_RANKS_MAX];             /* items per 2^42 ns (73 minutes); 0: unknown */
    bool is_changing[PLAN_RANKS_MAX];            /* the last measurement deviated by more than noise */
    uint32_t weights[PLAN_RANKS_MAX];            /* parts are cut in this proportion; > 0 */
};

/* Starts a group of `size` ranks, 1 ... PLAN_RANKS_MAX. speeds[size], in rank order, are the ranks' speeds in the unit of
 * balance.speeds from earlier groups; 0 is a rank without one and counts as the median. NULL: no rank has a speed, and the
 * parts are equal. */
void balance_init(struct balance *balance, uint32_t size, const uint64_t *speeds);

/* Adds measures[size], one per rank in rank order, and cuts the parts anew once some rank has computed for BALANCE_NS. */
void balance_agree(struct balance *balance, const struct balance_measure *measures);

/* The part [*first, *first + *count) of `total` items for `rank` (< size). Parts are contiguous, in rank order, and cover all
 * items. They are those of ledger_share while the weights are equal or if there are fewer items than ranks. */
void balance_share(const struct balance *balance, uint32_t total, uint32_t rank, uint32_t *first, uint32_t *count);

/* Whether the ranks exchange measurements after `steps` steps of a group (from 1): after 4, 8, 16, 32 and then every 32. */
#define BALANCE_FIRST 4
#define BALANCE_EVERY 32
bool balance_is_due(uint64_t steps);

#endif

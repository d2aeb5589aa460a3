#ifndef TRAIN_SEARCH_PBT_H
#define TRAIN_SEARCH_PBT_H
/* Population-based training (Jaderberg et al., "Population based training of neural networks", arXiv 1711.09846, section 4) in the
 * rounds of Determined AI until 0.17: members of a population train side by side; after each round the worst ones are replaced by
 * copies of the best ones with other hyperparameters. A core: all here follows from its arguments alone, on any machine.
 *
 * Trial t of a search is member t mod population of generation t / population. Generation g trains up to length (g + 1) *
 * length_per_round, counted from the beginning of the first generation: a trial goes on from the checkpoint of its parent, a trial of
 * the generation before. Where this differs from Determined: docs/determined.md. */

#include "train/search/search.h"

#define PBT_POPULATION_MAX 10000
#define PBT_ROUNDS_MAX 1000
#define PBT_TRUNCATE_MAX 0.5 /* truncate_fraction: more would replace members of the best half */

/* What a member of a generation has reached. */
struct pbt_result {
    double metric;
    bool is_over; /* it ended without a result: it failed, or a user stopped it. `metric` means nothing */
};

/* How many members are replaced after each round: truncate_fraction * population, rounded down. */
uint32_t pbt_replaced(uint32_t population, double truncate_fraction);

/* Sets `order` to the members of a generation, the best first: by their metric, NaN behind all numbers, those that are over
 * behind these; of equals the lower member is the better one. `results` and `order` have `population` elements. */
void pbt_rank(const struct pbt_result *results, uint32_t population, bool smaller_is_better, uint32_t *order);

/* The bytes of room that pbt_choose works with. */
size_t pbt_room_bytes(uint32_t population);

/* Sets parents[m], for each member m of the next generation, to the member of this generation from which it goes on. Members
 * are ranked as by pbt_rank. The worst `replaced` members give way, and all that are over: the i-th worst goes on from the
 * i-th best of the first `replaced` (at least one), round and round if there are more. A member that is over is nobody's
 * parent, unless all are over: then each goes on from itself, as all other members do. `results` and `parents` have
 * `population` elements, at most PBT_POPULATION_MAX, `room` has pbt_room_bytes(population). */
void pbt_choose(const struct pbt_result *results, uint32_t population, uint32_t replaced, bool smaller_is_better, void *room,
                uint32_t *parents);

/* How the hyperparameters of a copy come from those of its parent. */
struct pbt_explore {
    double resample_probability; /* 0 ... 1: that a hyperparameter is drawn anew from its range */
    double perturb_factor;       /* 0 ... below 1: else it is multiplied by 1 - or 1 + this, with even odds */
};

/* Sets `point` to the values of trial `index`, a copy of a trial with the values `from`; both have one number for each
 * parameter of the space, as of search_trial_point. Each parameter has its own generator, of (seed, index, name), and
 * takes three numbers from it: whether it is drawn anew (below resample_probability), where in its range it then is, and
 * whether it goes down (below 0.5) or up. A value that is multiplied is kept within the bounds and rounded, an int away
 * from the old value, a value with steps to the nearest step away from it (what is within a billionth of a step is on
 * it); of a log the value is multiplied, not the exponent. A categorical or const value stays unless it is drawn anew. A
 * parameter that was inactive, and is active now, is drawn; one that is inactive now is NaN. 0, or ERR_MALFORMED: broken
 * bytes, or `from` does not fit the space. */
int pbt_explore(const struct search_space *space, const struct pbt_explore *explore, const double *from, uint64_t seed, uint32_t index,
                double *point);

#endif

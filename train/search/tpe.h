#ifndef TRAIN_SEARCH_TPE_H
#define TRAIN_SEARCH_TPE_H
/* The tree-structured Parzen estimator: a trial's values from the results of earlier ones (Bergstra et al., NIPS 2011), with the
 * choices that Optuna 5 makes by default. A pure function: a trial follows from (space, observations, seed, number) alone.
 *
 * - While fewer than `startup` trials are over (TPE_STARTUP, if nobody asks for another number), trials are drawn as by the
 *   searcher random, and so is each trial for which the user has given values.
 * - After that the trials that are over are ordered: completed ones by their metric, behind them stopped ones, the further ones
 *   first, then by their last metric. The best tenth, TPE_GOOD_MAX at most, are good; all others are bad, and those that
 *   still run, too, so that trials which begin together differ.
 * - Of many bad trials the newest count only (tpe_bad_max), so that the time of a draw is bounded. Optuna keeps all.
 * - TPE_CANDIDATES points are drawn from the density of the good ones; the one with the largest ratio of the good density to
 *   the bad one is taken.
 * - The parameters that every trial has are drawn together, by densities over all their dimensions. A conditional parameter is
 *   drawn alone, by the observations that have it, where the trial meets its conditions.
 * - Random numbers are those of the rule "by name" (search.h): of the parameter's name for one that is drawn alone, of the empty name
 *   for those drawn together. Each candidate takes one for its kernel, then one for each dimension. */

#include <stddef.h>

#include "train/search/search.h"

#define TPE_STARTUP 10
#define TPE_GOOD_MAX 25
#define TPE_CANDIDATES 24

enum tpe_state { TPE_COMPLETED, TPE_STOPPED, TPE_RUNNING };

/* What is known of a trial. */
struct tpe_observation {
    uint32_t trial;
    enum tpe_state state;
    double metric; /* of the completed trial, or the last one of the stopped trial; NaN is worse than all numbers */
    uint64_t step; /* of that metric; stopped trials only */
    bool has_metric; /* false: the trial was stopped before its first report */
    /* A number for each parameter of the space: its value, of a categorical the number of the choice; NaN where the trial does
     * not have it. Those of a const do not matter. Borrowed. */
    const double *point;
};

/* The memory that tpe_draw needs, in bytes. */
size_t tpe_room_bytes(uint32_t parameter_count, uint32_t observation_count);

/* The number of good ones among `count` trials that are over. */
uint32_t tpe_good_count(uint32_t count);

/* The number of bad trials that a density over so many dimensions is made of: together 2,560 numbers, but 50 ... 1,000 trials. */
uint32_t tpe_bad_max(uint32_t dimensions);

/* Takes out the observations with a number that the space does not have, or about trial `index`, sorts the others by their trials, and
 * keeps the first of each. Returns how many are left. Records of other nodes may say anything. */
uint32_t tpe_keep_good(const struct search_space *space, struct tpe_observation *observations, uint32_t count, uint32_t index);

/* Draws trial `index`: point[i] becomes the number of parameter i, as in an observation; of a const it becomes 0. The
 * observations are in the order of their trials, each trial once, and `index` is none of them. `room` is aligned for doubles. 0;
 * ERR_MALFORMED: broken bytes, observations that are not in order, or a number that its parameter cannot have; ERR_NOT_FOUND:
 * index out of range; ERR_FULL: the room is too small. */
int tpe_draw(const struct search_space *space, const struct tpe_observation *observations, uint32_t observation_count,
             bool smaller_is_better, uint32_t startup, uint64_t seed, uint32_t index, void *room, size_t room_bytes, double *point);

#endif

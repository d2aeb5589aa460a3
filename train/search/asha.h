#ifndef TRAIN_SEARCH_ASHA_H
#define TRAIN_SEARCH_ASHA_H
/* Asynchronous successive halving (ASHA: Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020), in the
 * form of Determined AI 0.38: trials are stopped. (train/search/promotion.h has the form with pauses and promotions, whose brackets and
 * rungs are the same.) A core: all here follows from the configuration alone, on any machine. What the trials of a search have
 * reported is the caller's to keep.
 *
 * A trial trains for at most `max_time` units (steps, say). A bracket has R rungs; rung i is a length of training,
 *
 *     max_time / divisor^(R-1-i) units, and the top rung is max_time itself.
 *
 * When a trial reports its metric at a rung, it goes on if the metric is among the best 1/divisor of what the trials of its
 * bracket have reported at this rung so far, and is stopped otherwise (search_goes_on). `asha` has one bracket. `adaptive_asha`
 * has several, with different numbers of rungs, each with about the same work: a bracket of few rungs stops late, for metrics
 * that tell little early on. Brackets are never compared with each other.
 *
 *     4 rungs, max_time 1000, divisor 4:    15      62     250    1000 units
 *     64 trials, if each rung were full:    64      16       4       1 reach it
 *
 * Where this differs from Determined: docs/determined.md. */

#include "train/search/search.h"

#define SEARCH_RUNGS_MAX 32
#define SEARCH_BRACKETS_MAX 32
#define SEARCH_TIME_MAX UINT64_C(1000000000000) /* max_time; times SEARCH_TRIALS_MAX still fits in 64 bits */
#define SEARCH_DIVISOR_MAX 1000000

/* Which numbers of rungs the brackets of adaptive_asha have, of M possible ones: (M-1)/2 + 1 ... M; M alone; 1 ... M. */
enum search_mode { SEARCH_STANDARD, SEARCH_AGGRESSIVE, SEARCH_CONSERVATIVE };

/* The configuration of such a search. */
struct search_halving {
    enum search_kind kind; /* SEARCH_ASHA or SEARCH_ADAPTIVE_ASHA */
    uint32_t rungs;        /* num_rungs of asha, max_rungs of adaptive_asha: 1 ... SEARCH_RUNGS_MAX */
    double divisor;        /* above 1, at most SEARCH_DIVISOR_MAX */
    uint64_t max_time;     /* units: 1 ... SEARCH_TIME_MAX */
    uint64_t every;        /* not 0: rung i is at `every` times i + 1, the last one at max_time (SEARCH_CUSTOM) */
    uint32_t max_trials;   /* 1 ... SEARCH_TRIALS_MAX */
    uint32_t max_concurrent_trials; /* 0: as many as the searcher itself can use (search_brackets_share) */
    enum search_mode mode;          /* of adaptive_asha */
    bool promotes; /* trials are paused and promoted (train/search/promotion.h), not stopped; rungs and brackets are the same */
    uint32_t bracket_count;         /* of adaptive_asha: numbers in bracket_rungs; 0: `mode` and `rungs` say them */
    uint8_t bracket_rungs[SEARCH_BRACKETS_MAX]; /* each 1 ... SEARCH_RUNGS_MAX, in any order */
};

/* True if all numbers are within the bounds above. All functions below want a halving of which this is true. */
bool search_halving_is_good(const struct search_halving *halving);

struct search_bracket {
    uint32_t rungs;
    uint32_t trials;     /* at least 1 */
    uint32_t added;      /* further ones, of a search that was extended */
    uint32_t concurrent; /* how many of them train at a time: 1 ... trials + added */
};

/* The brackets of a search, those with the most rungs first. Their trials are max_trials together, without those added. */
struct search_brackets {
    uint32_t count; /* 1 ... SEARCH_BRACKETS_MAX */
    struct search_bracket list[SEARCH_BRACKETS_MAX];
};

/* The brackets of a search. M of adaptive_asha is the smallest of `rungs` and the largest numbers for which divisor^(M-1) is at most
 * max_time and at most max_trials, so that the top rung of each bracket can have a trial. A bracket of r rungs gets the share
 * divisor^(r-1)/r of the trials, rounded down, and at least one; the first bracket gets what is left over. If the ones make too
 * many, the bracket with the most trials (the first of equals) gives one up; if none has more than one, the last bracket goes. */
void search_brackets_make(const struct search_halving *halving, struct search_brackets *out);

/* Shares max_concurrent_trials out: equally among the brackets, what is left over one each to the first ones, and at least one to
 * each. With 0 a bracket of asha gets divisor^(rungs-1) and each of adaptive_asha as many as the last bracket has trials, or
 * `divisor` if that is more. No bracket gets more than its trials. search_brackets_make does this itself. */
void search_brackets_share(const struct search_halving *halving, struct search_brackets *brackets);

/* A search is extended to `trials` trials, at least max_trials: says how many of those added each bracket has, and shares anew how
 * many train at a time. The brackets stay those of max_trials, and so does the bracket of each trial. */
void search_brackets_extend(const struct search_halving *halving, uint32_t trials, struct search_brackets *brackets);

/* The bracket of trial `trial`, an index into the list. Trials are numbered in the order in which they begin, so
 * the brackets take turns by their shares: after any number of trials each bracket has as many of them as a party with so many
 * votes would have seats by the method of Sainte-Lague. After max_trials trials the turns begin anew: trial n has the bracket of trial
 * n modulo max_trials, whenever and however often the search was extended. */
uint32_t search_trial_bracket(const struct search_brackets *brackets, uint32_t trial);

/* How many trials of each bracket have been given out. All zero before the first. */
struct search_turns {
    uint32_t given[SEARCH_BRACKETS_MAX];
};

/* The bracket of the next trial: called once for each trial from 0 on, it gives what search_trial_bracket does, in less time. */
uint32_t search_next_bracket(const struct search_brackets *brackets, struct search_turns *turns);

/* The length of rung `rung` (below `rungs`) of a bracket, in units, rounded down and at least 1. Never falls from rung to rung; low
 * rungs of a short max_time can be equal, and one report then counts at each of them. */
uint64_t search_rung_target(const struct search_halving *halving, uint32_t rungs, uint32_t rung);

/* True if `metric` is strictly better than `than`. -0 equals 0. False if one of them is NaN. */
bool search_is_better(double metric, double than, bool smaller_is_better);

/* Whether a trial that has reported `metric` at a rung goes on beyond it. `better` counts the trials of the bracket with a strictly
 * better metric among those that have reported at this rung before; `entries` counts all that have, and the trial itself: at
 * least 1. A trial that has ended without a metric is an entry too, and never a better one. A metric that equals an older one
 * wins; of fewer than 2 * divisor entries only the best goes on. A trial with the metric NaN never goes on. At the top rung there
 * is nothing to go on to: the caller asks about lower rungs only. */
bool search_goes_on(double divisor, double metric, uint32_t better, uint32_t entries);

/* How many trials of a bracket reach each rung, if all reported at the same time: of n trials at a rung n / divisor go on, and
 * at least one, unless the search promotes. reach[i] is for rung i, below bracket->rungs. Returns the units that all trials of the bracket train together.
 * In a real search more trials go on, since the first ones are compared with few others. */
uint64_t search_bracket_preview(const struct search_halving *halving, const struct search_bracket *bracket,
                                uint32_t reach[SEARCH_RUNGS_MAX]);

#endif

#ifndef TESTS_SIM_BRACKETS_H
#define TESTS_SIM_BRACKETS_H
/* The brackets of a search that stops trials early, computed anew from what docs/determined.md and train/search/asha.h promise, by
 * code that shares nothing with train/search. A core. */

#include <stdbool.h>
#include <stdint.h>

#define BRACKETS_TRIALS_MAX 8
#define BRACKETS_RUNGS_MAX 6
#define BRACKETS_MAX 6

enum brackets_mode { BRACKETS_STANDARD, BRACKETS_AGGRESSIVE, BRACKETS_CONSERVATIVE };

struct brackets {
    uint32_t count;
    uint32_t rungs[BRACKETS_MAX], trials[BRACKETS_MAX]; /* of each; those with the most rungs first */
    uint32_t places[BRACKETS_MAX];                      /* how many trials of each may train at a time */
    uint32_t of[BRACKETS_TRIALS_MAX];                   /* the bracket of each trial */
};

/* One bracket with all trials. */
void brackets_make_one(uint32_t rungs, uint32_t trials, struct brackets *out);

/* Those of adaptive_asha: by `mode` and the most rungs that a bracket may have (1 ... BRACKETS_RUNGS_MAX). `units` is the length of
 * a whole trial. */
void brackets_make_by_mode(enum brackets_mode mode, uint32_t most, double divisor, uint64_t units, uint32_t trials, struct brackets *out);

/* Shares the places of max_concurrent_trials out; with 0 a bracket of asha has divisor^(rungs-1), and each of adaptive_asha as many as the
 * last bracket has trials, or `divisor` if that is more. */
void brackets_share_places(uint32_t most, double divisor, bool is_adaptive, struct brackets *brackets);

/* Those of adaptive_asha with these numbers of rungs, in any order. */
void brackets_make_listed(const uint8_t *rungs, uint32_t count, double divisor, uint32_t trials, struct brackets *out);

#endif

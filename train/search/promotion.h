#ifndef TRAIN_SEARCH_PROMOTION_H
#define TRAIN_SEARCH_PROMOTION_H
/* Successive halving with promotion (Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020, algorithm 2), as
 * Determined AI had it before 0.38: a trial that is not among the best 1/divisor of its rung is paused, and may be promoted later. A
 * core: a decision follows from the configuration and from the steps of a log before it, and from nothing else.
 *
 *              goes on, promoted
 *        +--------------------------+
 *        v                          |            Of n entries at a rung the best trunc(n / divisor) go on, the older one first at
 *     CLIMBS --- report at a rung --+--> PAUSED  ties. So of fewer than `divisor` entries none does, and each further report can
 *        |                                |      promote one trial: the one that reports, or one that is paused.
 *        | top rung, NaN, ended           | closed, ended
 *        +--------------> DONE <----------+
 *
 * A paused trial is closed once no trial of its bracket can report at its rung any more. */

#include "train/search/asha.h"

/* What a step of the log says of a trial. */
enum search_word {
    SEARCH_GOES_ON,  /* a report: among the best, so the trial goes on without a break */
    SEARCH_STOPS,    /* a report: NaN */
    SEARCH_TOPS_OUT, /* a report: at the top rung */
    SEARCH_PAUSES,   /* a report: others are better so far */
    SEARCH_PROMOTES, /* the paused trial goes on from its rung */
    SEARCH_CLOSES,   /* the paused trial is promoted no more */
    SEARCH_ENDS      /* the trial is over, without a report at its next rung: it failed, was stopped by a user or ended by itself */
};

struct search_step {
    enum search_word word;
    uint32_t trial, rung; /* of ENDS the rung that the trial was on the way to or, if it was paused, where it was */
    double metric;        /* of a report */
};

enum search_place { SEARCH_CLIMBS, SEARCH_PAUSED, SEARCH_DONE };

/* A trial. It has reported at the rungs below `entries`. */
struct search_climber {
    uint32_t bracket, entries;
    enum search_place place;
    bool has_ended; /* DONE by SEARCH_ENDS: a user may retry the trial, and then it reports again */
};

/* All trials of a search and the steps taken so far. The memory is the caller's. */
struct search_ladder {
    double divisor;
    bool smaller_is_better;
    const struct search_brackets *brackets;
    struct search_climber *climbers; /* [climber_count], their brackets set */
    uint32_t climber_count;
    struct search_step *steps; /* [step_count], with room for one more before a step is taken */
    uint32_t step_count;
};

/* The ladder before the first step. */
void search_ladder_clear(struct search_ladder *ladder);

/* Takes the next step. False: it does not follow from the ones before (the trial has an entry at that rung, is not paused there, or is
 * done), and nothing changes. So logs of two coordinators can be read one after the other. */
bool search_ladder_take(struct search_ladder *ladder, const struct search_step *step);

/* What a report of the trial at its next rung means: GOES_ON, STOPS, TOPS_OUT or PAUSES. */
enum search_word search_ladder_judge(const struct search_ladder *ladder, uint32_t trial, double metric);

/* True if a paused trial is to be promoted: it is among the best 1/divisor of its rung. Higher rungs come first. */
bool search_ladder_promotes(const struct search_ladder *ladder, struct search_step *out);

/* The first paused trial from number `from` on that is to be closed: all trials of its bracket that are not done have reported at its
 * rung. False: none. Asked when none is to be promoted. */
bool search_ladder_closes(const struct search_ladder *ladder, uint32_t from, struct search_step *out);

/* Whether the trial may take a step ENDS; `*out` is that step. */
bool search_ladder_ends(const struct search_ladder *ladder, uint32_t trial, struct search_step *out);

/* How many of `entries` at a rung go on. */
uint32_t search_promoted_of(double divisor, uint32_t entries);

#endif

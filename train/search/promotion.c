#include "train/search/promotion.h"

#include <math.h> /* isnan and NAN only, no function is called */
#include <string.h>

#include "base/check.h"

uint32_t search_promoted_of(double divisor, uint32_t entries)
{
    return (uint32_t)(entries / divisor);
}

void search_ladder_clear(struct search_ladder *ladder)
{
    for (uint32_t t = 0; t < ladder->climber_count; t++) {
        ladder->climbers[t] = (struct search_climber){.bracket = ladder->climbers[t].bracket};
    }
    ladder->step_count = 0;
}

static uint32_t rungs_of(const struct search_ladder *ladder, const struct search_climber *climber)
{
    return ladder->brackets->list[climber->bracket].rungs;
}

static bool is_report(enum search_word word)
{
    return word <= SEARCH_PAUSES;
}

/* ---- steps ---- */

static bool take_report(struct search_ladder *ladder, struct search_climber *climber, const struct search_step *step)
{
    bool is_open = climber->place != SEARCH_DONE || climber->has_ended;
    if (!is_open || step->rung != climber->entries || step->rung >= rungs_of(ladder, climber)) {
        return false;
    }
    climber->entries++;
    climber->has_ended = false;
    bool is_top = climber->entries == rungs_of(ladder, climber);
    climber->place = is_top                          ? SEARCH_DONE
                     : step->word == SEARCH_GOES_ON ? SEARCH_CLIMBS
                     : step->word == SEARCH_PAUSES  ? SEARCH_PAUSED
                                                    : SEARCH_DONE;
    ladder->steps[ladder->step_count++] = *step;
    return true;
}

bool search_ladder_ends(const struct search_ladder *ladder, uint32_t trial, struct search_step *out)
{
    const struct search_climber *climber = &ladder->climbers[trial];
    CHECK(trial < ladder->climber_count);
    bool is_paused = climber->place == SEARCH_PAUSED;
    *out = (struct search_step){SEARCH_ENDS, trial, climber->entries - (is_paused ? 1 : 0), NAN};
    return climber->place != SEARCH_DONE;
}

bool search_ladder_take(struct search_ladder *ladder, const struct search_step *step)
{
    struct search_climber *climber = step->trial < ladder->climber_count ? &ladder->climbers[step->trial] : NULL;
    struct search_step ends;
    if (climber == NULL) {
        return false;
    }
    if (is_report(step->word)) {
        return take_report(ladder, climber, step);
    }
    if (step->word == SEARCH_ENDS) {
        if (!search_ladder_ends(ladder, step->trial, &ends) || ends.rung != step->rung) {
            return false;
        }
        climber->place = SEARCH_DONE;
        climber->has_ended = true;
        ladder->steps[ladder->step_count++] = ends;
        return true;
    }
    if (climber->place != SEARCH_PAUSED || climber->entries != step->rung + 1) {
        return false;
    }
    climber->place = step->word == SEARCH_PROMOTES ? SEARCH_CLIMBS : SEARCH_DONE;
    return true;
}

/* ---- decisions ---- */

/* The step is an entry of its rung: a report, or the end of a trial that has not reported there. The latter counts as the worst. */
static bool is_entry(const struct search_ladder *ladder, const struct search_step *step)
{
    return is_report(step->word) || (step->word == SEARCH_ENDS && ladder->climbers[step->trial].entries == step->rung);
}

/* The entry of a trial that is compared with the others of its rung. */
struct compared {
    uint32_t trial, bracket, rung;
    double metric;
    uint32_t place; /* in the list of steps; UINT32_MAX: it is to be the next one */
};

/* How many other entries the rung has, and how many of them stand before this one. */
static uint32_t count_others(const struct search_ladder *ladder, const struct compared *compared, uint32_t *before)
{
    uint32_t entries = 0;
    *before = 0;
    for (uint32_t i = 0; i < ladder->step_count; i++) {
        const struct search_step *step = &ladder->steps[i];
        if (step->trial == compared->trial || step->rung != compared->rung ||
            ladder->climbers[step->trial].bracket != compared->bracket || !is_entry(ladder, step)) {
            continue;
        }
        entries++;
        *before += search_is_better(step->metric, compared->metric, ladder->smaller_is_better) ||
                   (i < compared->place && step->metric == compared->metric);
    }
    return entries;
}

/* True if the entry is among the best 1/divisor of its rung. */
static bool is_among_best(const struct search_ladder *ladder, const struct compared *compared)
{
    uint32_t before, entries = count_others(ladder, compared, &before) + 1;
    return before < search_promoted_of(ladder->divisor, entries);
}

enum search_word search_ladder_judge(const struct search_ladder *ladder, uint32_t trial, double metric)
{
    CHECK(trial < ladder->climber_count);
    const struct search_climber *climber = &ladder->climbers[trial];
    const struct compared compared = {trial, climber->bracket, climber->entries, metric, UINT32_MAX};
    if (isnan(metric)) {
        return SEARCH_STOPS;
    }
    if (climber->entries + 1 >= rungs_of(ladder, climber)) {
        return SEARCH_TOPS_OUT;
    }
    return is_among_best(ladder, &compared) ? SEARCH_GOES_ON : SEARCH_PAUSES;
}

/* Of each rung of each bracket the best trial that is paused there. */
struct paused_best {
    uint32_t step[SEARCH_BRACKETS_MAX][SEARCH_RUNGS_MAX]; /* index plus 1; 0: none is paused */
};

static void find_paused(const struct search_ladder *ladder, struct paused_best *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < ladder->step_count; i++) {
        const struct search_step *step = &ladder->steps[i];
        const struct search_climber *climber = &ladder->climbers[step->trial];
        if (step->word != SEARCH_PAUSES || climber->place != SEARCH_PAUSED || climber->entries != step->rung + 1) {
            continue;
        }
        uint32_t *best = &out->step[climber->bracket][step->rung];
        if (*best == 0 || search_is_better(step->metric, ladder->steps[*best - 1].metric, ladder->smaller_is_better)) {
            *best = i + 1;
        }
    }
}

bool search_ladder_promotes(const struct search_ladder *ladder, struct search_step *out)
{
    struct paused_best best;
    find_paused(ladder, &best);
    for (uint32_t rung = SEARCH_RUNGS_MAX; rung-- > 0;) {
        for (uint32_t b = 0; b < ladder->brackets->count; b++) {
            uint32_t at = best.step[b][rung];
            const struct search_step *step = at > 0 ? &ladder->steps[at - 1] : NULL;
            if (step != NULL && is_among_best(ladder, &(struct compared){step->trial, b, rung, step->metric, at - 1})) {
                *out = (struct search_step){SEARCH_PROMOTES, step->trial, rung, step->metric};
                return true;
            }
        }
    }
    return false;
}

bool search_ladder_closes(const struct search_ladder *ladder, uint32_t from, struct search_step *out)
{
    uint32_t lowest[SEARCH_BRACKETS_MAX];
    memset(lowest, 0xff, sizeof lowest);
    for (uint32_t t = 0; t < ladder->climber_count; t++) {
        const struct search_climber *climber = &ladder->climbers[t];
        if (climber->place != SEARCH_DONE && climber->entries < lowest[climber->bracket]) {
            lowest[climber->bracket] = climber->entries;
        }
    }
    for (uint32_t t = from; t < ladder->climber_count; t++) {
        const struct search_climber *climber = &ladder->climbers[t];
        if (climber->place == SEARCH_PAUSED && climber->entries == lowest[climber->bracket]) {
            *out = (struct search_step){SEARCH_CLOSES, t, climber->entries - 1, NAN};
            return true;
        }
    }
    return false;
}

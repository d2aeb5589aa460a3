#include "train/search/asha.h"

#include <math.h> /* isnan only, no function is called */

#include "base/check.h"

/* Powers are products, not logarithms: the logarithm of 243 to base 3 falls just short of 5 in floating point, and products of a
 * whole divisor are exact as long as they matter. */
static double power(double base, uint32_t exponent)
{
    double product = 1;
    for (uint32_t i = 0; i < exponent; i++) {
        product *= base;
    }
    return product;
}

/* The largest number of rungs, at most `most`, whose lowest rung has a part 1/base^(rungs-1) of `whole` that is at least 1. */
static uint32_t rungs_within(double base, uint64_t whole, uint32_t most)
{
    double product = base;
    uint32_t rungs = 1;
    while (rungs < most && product <= (double)whole) {
        product *= base;
        rungs++;
    }
    return rungs;
}

static bool is_between(uint64_t value, uint64_t low, uint64_t high)
{
    return value >= low && value <= high;
}

bool search_halving_is_good(const struct search_halving *halving)
{
    bool is_good = search_halves(halving->kind) && is_between(halving->rungs, 1, SEARCH_RUNGS_MAX) && halving->divisor > 1 &&
                   halving->divisor <= SEARCH_DIVISOR_MAX && is_between(halving->max_time, 1, SEARCH_TIME_MAX) &&
                   is_between(halving->max_trials, 1, SEARCH_TRIALS_MAX) && halving->every <= halving->max_time &&
                   halving->mode <= SEARCH_CONSERVATIVE &&
                   halving->bracket_count <= SEARCH_BRACKETS_MAX;
    for (uint32_t i = 0; is_good && i < halving->bracket_count; i++) {
        is_good = is_between(halving->bracket_rungs[i], 1, SEARCH_RUNGS_MAX);
    }
    return is_good;
}

/* ---- brackets ---- */

static void choose_rungs(const struct search_halving *halving, struct search_brackets *out)
{
    uint32_t most = halving->rungs;
    out->count = 0;
    if (halving->kind == SEARCH_ASHA) {
        out->list[out->count++].rungs = most;
        return;
    }
    for (uint32_t rungs = SEARCH_RUNGS_MAX; rungs > 0 && halving->bracket_count > 0; rungs--) {
        for (uint32_t i = 0; i < halving->bracket_count; i++) {
            if (halving->bracket_rungs[i] == rungs) {
                out->list[out->count++].rungs = rungs;
            }
        }
    }
    if (halving->bracket_count > 0) {
        return;
    }
    most = rungs_within(halving->divisor, halving->max_time, most);
    most = rungs_within(halving->divisor, halving->max_trials, most);
    uint32_t least = halving->mode == SEARCH_AGGRESSIVE ? most : halving->mode == SEARCH_STANDARD ? (most - 1) / 2 + 1 : 1;
    for (uint32_t rungs = most; rungs >= least; rungs--) {
        out->list[out->count++].rungs = rungs;
    }
}

/* Takes one trial from the bracket that can best do without it. */
static void give_one_up(struct search_brackets *brackets)
{
    struct search_bracket *most = &brackets->list[0];
    for (uint32_t b = 1; b < brackets->count; b++) {
        if (brackets->list[b].trials > most->trials) {
            most = &brackets->list[b];
        }
    }
    if (most->trials > 1) {
        most->trials--;
    } else {
        brackets->count--;
    }
}

static void share_trials(const struct search_halving *halving, struct search_brackets *brackets)
{
    double weights[SEARCH_BRACKETS_MAX], all = 0;
    uint32_t given = 0;
    for (uint32_t b = 0; b < brackets->count; b++) {
        uint32_t rungs = brackets->list[b].rungs;
        weights[b] = power(halving->divisor, rungs - 1) / rungs;
        all += weights[b];
    }
    for (uint32_t b = 0; b < brackets->count; b++) {
        uint32_t trials = (uint32_t)(weights[b] / all * halving->max_trials);
        brackets->list[b].trials = trials > 0 ? trials : 1;
        given += brackets->list[b].trials;
    }
    for (; given < halving->max_trials; given++) {
        brackets->list[0].trials++;
    }
    for (; given > halving->max_trials; given--) {
        give_one_up(brackets);
    }
}

/* What the searcher can use in a bracket, if the user sets no bound. */
static uint32_t concurrent_by_itself(const struct search_halving *halving, const struct search_brackets *brackets)
{
    const struct search_bracket *last = &brackets->list[brackets->count - 1];
    double least = halving->kind == SEARCH_ASHA ? power(halving->divisor, last->rungs - 1) : halving->divisor;
    uint32_t all = halving->max_trials, trials = last->trials + last->added;
    for (uint32_t b = 0; b < brackets->count; b++) {
        all += brackets->list[b].added;
    }
    uint32_t wanted = least < all ? (uint32_t)least : all;
    return halving->kind == SEARCH_ADAPTIVE_ASHA && trials > wanted ? trials : wanted;
}

void search_brackets_share(const struct search_halving *halving, struct search_brackets *brackets)
{
    uint32_t count = brackets->count, all = halving->max_concurrent_trials;
    bool is_bound = all > 0;
    all = all > count ? all : count;
    uint32_t each = is_bound ? all / count : concurrent_by_itself(halving, brackets);
    for (uint32_t b = 0; b < count; b++) {
        struct search_bracket *bracket = &brackets->list[b];
        uint32_t wanted = each + (is_bound && b < all % count ? 1 : 0);
        uint32_t trials = bracket->trials + bracket->added;
        bracket->concurrent = wanted < trials ? wanted : trials;
    }
}

void search_brackets_extend(const struct search_halving *halving, uint32_t trials, struct search_brackets *brackets)
{
    struct search_turns turns = {{0}};
    for (uint32_t t = 0; t < trials; t++) {
        (void)search_next_bracket(brackets, &turns);
    }
    for (uint32_t b = 0; b < brackets->count; b++) {
        struct search_bracket *bracket = &brackets->list[b];
        bracket->added = turns.given[b] > bracket->trials ? turns.given[b] - bracket->trials : 0;
    }
    search_brackets_share(halving, brackets);
}

void search_brackets_make(const struct search_halving *halving, struct search_brackets *out)
{
    *out = (struct search_brackets){0};
    choose_rungs(halving, out);
    share_trials(halving, out);
    search_brackets_share(halving, out);
}

/* ---- trials ---- */

/* How many trials of other brackets, and of its own, begin before trial `j` of bracket `b`. By the method of Sainte-Lague trial j of
 * a bracket with n trials stands at (2j + 1) / n, and of equal ones the first bracket's comes first. */
static uint32_t trials_before(const struct search_brackets *brackets, uint32_t b, uint64_t j)
{
    uint64_t own = brackets->list[b].trials, before = j;
    for (uint32_t other = 0; other < brackets->count; other++) {
        uint64_t place = (2 * j + 1) * brackets->list[other].trials; /* (2i + 1) * own of its trial i is compared with this */
        place += other < b ? 1 : 0;
        if (other != b && place > own) {
            before += (place - own + 2 * own - 1) / (2 * own);
        }
    }
    return (uint32_t)before;
}

uint32_t search_trial_bracket(const struct search_brackets *brackets, uint32_t trial)
{
    uint32_t all = 0;
    for (uint32_t b = 0; b < brackets->count; b++) {
        all += brackets->list[b].trials;
    }
    trial %= all;
    for (uint32_t b = 0; b + 1 < brackets->count; b++) {
        uint32_t low = 0, high = brackets->list[b].trials;
        while (low < high) {
            uint32_t middle = low + (high - low) / 2;
            if (trials_before(brackets, b, middle) < trial) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        if (low < brackets->list[b].trials && trials_before(brackets, b, low) == trial) {
            return b;
        }
    }
    return brackets->count - 1;
}

uint32_t search_next_bracket(const struct search_brackets *brackets, struct search_turns *turns)
{
    uint32_t next = 0;
    for (uint32_t b = 1; b < brackets->count; b++) {
        /* The bracket with the least (2 given + 1) / trials, of equal ones the first. After all trials of a configuration each bracket
         * has been given exactly its trials, so every quotient has grown by 2, and the turns are the same again. */
        if ((2 * (uint64_t)turns->given[b] + 1) * brackets->list[next].trials <
            (2 * (uint64_t)turns->given[next] + 1) * brackets->list[b].trials) {
            next = b;
        }
    }
    turns->given[next]++;
    return next;
}

/* ---- rungs ---- */

uint64_t search_rung_target(const struct search_halving *halving, uint32_t rungs, uint32_t rung)
{
    CHECK(rung < rungs);
    if (halving->every > 0) {
        return rung + 1 < rungs ? halving->every * (rung + 1) : halving->max_time;
    }
    uint64_t target = (uint64_t)((double)halving->max_time / power(halving->divisor, rungs - 1 - rung));
    return target > 0 ? target : 1;
}

bool search_is_better(double metric, double than, bool smaller_is_better)
{
    return smaller_is_better ? metric < than : metric > than;
}

static uint32_t best_of(double divisor, uint32_t entries)
{
    uint32_t best = (uint32_t)(entries / divisor);
    return best > 0 ? best : 1;
}

bool search_goes_on(double divisor, double metric, uint32_t better, uint32_t entries)
{
    CHECK(better < entries);
    return !isnan(metric) && better < best_of(divisor, entries);
}

uint64_t search_bracket_preview(const struct search_halving *halving, const struct search_bracket *bracket,
                                uint32_t reach[SEARCH_RUNGS_MAX])
{
    uint64_t units = 0, before = 0;
    uint32_t trials = bracket->trials;
    for (uint32_t rung = 0; rung < bracket->rungs; rung++) {
        uint64_t target = search_rung_target(halving, bracket->rungs, rung);
        reach[rung] = trials;
        units += trials * (target - before);
        before = target;
        trials = halving->promotes ? (uint32_t)(trials / halving->divisor) : best_of(halving->divisor, trials);
    }
    return units;
}

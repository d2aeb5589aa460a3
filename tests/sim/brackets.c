#include "tests/sim/brackets.h"

#include <math.h>
#include <string.h>

#include "base/check.h"

/* As many seats as the bracket has trials, given one by one to the bracket with the highest quotient (Sainte-Lague: votes by
 * 1, 3, 5, ...), of equal ones to the first. */
static void seat_trials(uint32_t trials, struct brackets *out)
{
    uint32_t seats[BRACKETS_MAX] = {0};
    CHECK(trials <= BRACKETS_TRIALS_MAX);
    for (uint32_t t = 0; t < trials; t++) {
        double highest = 0;
        for (uint32_t b = 0; b < out->count; b++) {
            double quotient = seats[b] < out->trials[b] ? (double)out->trials[b] / (2 * seats[b] + 1) : 0;
            if (quotient > highest * (1 + 1e-12)) {
                highest = quotient;
                out->of[t] = b;
            }
        }
        seats[out->of[t]]++;
    }
}

/* divisor^(rungs-1) trials end at the first rung of a bracket where one reaches its last. */
static double trials_of_one(double divisor, uint32_t rungs)
{
    double trials = 1;
    while (--rungs > 0) {
        trials *= divisor;
    }
    return trials;
}

/* Each bracket is to have about the same work. */
static void share_trials(double divisor, uint32_t trials, struct brackets *out)
{
    double weight[BRACKETS_MAX], sum = 0;
    uint32_t all = 0;
    for (uint32_t b = 0; b < out->count; b++) {
        weight[b] = trials_of_one(divisor, out->rungs[b]) / out->rungs[b];
        sum += weight[b];
    }
    for (uint32_t b = 0; b < out->count; b++) {
        double share = floor(weight[b] / sum * trials);
        out->trials[b] = share < 1 ? 1 : (uint32_t)share;
        all += out->trials[b];
    }
    while (all > trials) {
        uint32_t largest = 0;
        for (uint32_t b = 1; b < out->count; b++) {
            largest = out->trials[b] > out->trials[largest] ? b : largest;
        }
        out->count -= out->trials[largest] == 1;
        out->trials[largest] -= out->trials[largest] > 1;
        all--;
    }
    out->trials[0] += trials - all;
    seat_trials(trials, out);
}

void brackets_share_places(uint32_t most, double divisor, bool is_adaptive, struct brackets *brackets)
{
    uint32_t last = brackets->count - 1;
    double by_itself = is_adaptive ? floor(divisor) : trials_of_one(divisor, brackets->rungs[last]);
    by_itself = is_adaptive && brackets->trials[last] > by_itself ? brackets->trials[last] : by_itself;
    for (uint32_t b = 0, left = most; b < brackets->count; b++) {
        uint32_t open = brackets->count - b, share = (left + open - 1) / open; /* the first ones have the odd ones */
        left -= share;
        double places = most == 0 ? floor(by_itself) : share > 0 ? share : 1;
        brackets->places[b] = places < brackets->trials[b] ? (uint32_t)places : brackets->trials[b];
    }
}

void brackets_make_one(uint32_t rungs, uint32_t trials, struct brackets *out)
{
    memset(out, 0, sizeof *out);
    out->count = 1;
    out->rungs[0] = rungs;
    out->trials[0] = trials;
    seat_trials(trials, out);
}

void brackets_make_by_mode(enum brackets_mode mode, uint32_t most, double divisor, uint64_t units, uint32_t trials, struct brackets *out)
{
    memset(out, 0, sizeof *out);
    /* A trial that reaches the last rung trains that many times as long as one that ends at the first. */
    while (most > 1 && (trials_of_one(divisor, most) > (double)units || trials_of_one(divisor, most) > trials)) {
        most--;
    }
    uint32_t least = mode == BRACKETS_AGGRESSIVE ? most : mode == BRACKETS_CONSERVATIVE ? 1 : (most - 1) / 2 + 1;
    for (uint32_t rungs = most; rungs >= least; rungs--) {
        out->rungs[out->count++] = rungs;
    }
    share_trials(divisor, trials, out);
}

void brackets_make_listed(const uint8_t *rungs, uint32_t count, double divisor, uint32_t trials, struct brackets *out)
{
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < count; i++) { /* each before the first one with fewer rungs */
        uint32_t at = out->count++;
        for (; at > 0 && out->rungs[at - 1] < rungs[i]; at--) {
            out->rungs[at] = out->rungs[at - 1];
        }
        out->rungs[at] = rungs[i];
    }
    share_trials(divisor, trials, out);
}

#include "train/search/pbt.h"

#include <math.h> /* isnan and NAN only, no function is called */
#include <string.h>

#include "base/err.h"
#include "base/number.h"
#include "train/search/space.h"

/* ---- who goes on from whom ---- */

uint32_t pbt_replaced(uint32_t population, double truncate_fraction)
{
    return (uint32_t)(truncate_fraction * population);
}

size_t pbt_room_bytes(uint32_t population)
{
    return population * sizeof(uint32_t);
}

/* Whether member `left` ranks before member `right`; no two are equal. */
static bool is_better(const struct pbt_result *results, bool smaller_is_better, uint32_t left, uint32_t right)
{
    const struct pbt_result *a = &results[left], *b = &results[right];
    uint32_t a_class = a->is_over ? 2u : isnan(a->metric) ? 1u : 0u, b_class = b->is_over ? 2u : isnan(b->metric) ? 1u : 0u;
    if (a_class != b_class) {
        return a_class < b_class;
    }
    if (a_class == 0 && (a->metric < b->metric || a->metric > b->metric)) {
        return smaller_is_better ? a->metric < b->metric : a->metric > b->metric;
    }
    return left < right;
}

/* Moves the member at `root` down until none below it ranks behind it. */
static void sift(const struct pbt_result *results, bool smaller_is_better, uint32_t *order, uint32_t root, uint32_t count)
{
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && is_better(results, smaller_is_better, order[child], order[child + 1]);
        if (!is_better(results, smaller_is_better, order[root], order[child])) {
            return;
        }
        uint32_t swapped = order[root];
        order[root] = order[child];
        order[child] = swapped;
    }
}

/* A heap sort, which needs no memory. */
void pbt_rank(const struct pbt_result *results, uint32_t population, bool smaller_is_better, uint32_t *order)
{
    for (uint32_t m = 0; m < population; m++) {
        order[m] = m;
    }
    for (uint32_t m = population / 2; m-- > 0;) {
        sift(results, smaller_is_better, order, m, population);
    }
    for (uint32_t last = population; last-- > 1;) {
        uint32_t swapped = order[0];
        order[0] = order[last];
        order[last] = swapped;
        sift(results, smaller_is_better, order, 0, last);
    }
}

void pbt_choose(const struct pbt_result *results, uint32_t population, uint32_t replaced, bool smaller_is_better, void *room,
                uint32_t *parents)
{
    uint32_t *order = room, over = 0;
    for (uint32_t m = 0; m < population; m++) {
        parents[m] = m;
        over += results[m].is_over;
    }
    pbt_rank(results, population, smaller_is_better, order);
    uint32_t left = population - over, best = replaced > 0 ? replaced : 1;
    uint32_t copies = over > replaced ? over : replaced;
    best = best < left ? best : left;
    for (uint32_t i = 0; i < copies && best > 0; i++) {
        parents[order[population - 1 - i]] = order[i % best];
    }
}

/* ---- the values of a copy ---- */

/* The value as space_is_active reads it. */
static void settle(const struct search_parameter *parameter, double value, struct drawn *drawn)
{
    drawn->choice = parameter->kind == SEARCH_CATEGORICAL ? (uint64_t)value : 0;
    drawn->integer = parameter->kind == SEARCH_INT ? (int64_t)value : 0;
    drawn->number = value;
}

static double within(double value, double low, double high)
{
    return value < low ? low : value > high ? high : value;
}

/* The next whole number up or down; what is within a billionth of one is that number, since 3 * 0.1 is not 0.3. `value` is 0 or more. */
static double whole(double value, bool up)
{
    return (double)(int64_t)(up ? value + 1 - 1e-9 : value + 1e-9);
}

static double multiplied(const struct search_parameter *parameter, double value, double factor)
{
    double low = parameter->minval, high = parameter->maxval, changed = value * factor;
    bool up = changed > value;
    if (parameter->kind == SEARCH_LOG) {
        double at_low = number_pow(parameter->base, low), at_high = number_pow(parameter->base, high);
        return space_rounded(parameter, within(changed, at_low < at_high ? at_low : at_high, at_low < at_high ? at_high : at_low));
    }
    changed = within(changed, low, high);
    if (!space_has_steps(parameter) && parameter->kind == SEARCH_DOUBLE) {
        return space_rounded(parameter, changed);
    }
    double step = parameter->step > 0 ? parameter->step : 1;
    double steps = within(whole((changed - low) / step, up), 0, (double)space_step_count(parameter));
    return parameter->kind == SEARCH_DOUBLE ? space_rounded(parameter, low + steps * step) : low + steps * step;
}

int pbt_explore(const struct search_space *space, const struct pbt_explore *explore, const double *from, uint64_t seed, uint32_t index,
                double *point)
{
    struct parameters parameters;
    struct drawn drawn[SEARCH_PARAMETERS_MAX];
    size_t values_max;
    if (space_read(space, &parameters, &values_max) != 0 || !search_point_fits(space, from, parameters.count)) {
        return ERR_MALFORMED;
    }
    memset(drawn, 0, sizeof drawn);
    for (uint32_t i = 0; i < parameters.count; i++) {
        const struct search_parameter *parameter = &parameters.list[i];
        struct random random;
        space_random_by_name(&random, seed, index, parameter->name);
        double chance = random_double(&random), at = random_double(&random), side = random_double(&random);
        bool is_number = parameter->kind != SEARCH_CONST && parameter->kind != SEARCH_CATEGORICAL;
        drawn[i].is_active = space_is_active(&parameters, i, drawn);
        if (!drawn[i].is_active) {
            point[i] = NAN;
            continue;
        }
        if (parameter->kind != SEARCH_CONST && (isnan(from[i]) || chance < explore->resample_probability)) {
            point[i] = space_value_at(parameter, at);
        } else if (is_number) {
            point[i] = multiplied(parameter, from[i], side < 0.5 ? 1 - explore->perturb_factor : 1 + explore->perturb_factor);
        } else {
            point[i] = isnan(from[i]) ? 0 : from[i];
        }
        settle(parameter, point[i], &drawn[i]);
    }
    return 0;
}

#include "train/search/parzen.h"


#include "base/number.h"
#include "train/search/normal.h"
#include "train/search/space.h"

#define EQUAL_WEIGHTS 25 /* so many of the newest observations weigh 1 */
#define NARROWEST 100    /* a width is no less than this part of the range */

struct parzen_dimension parzen_dimension_of(const struct search_parameter *parameter)
{
    struct parzen_dimension out = {.step = parameter->step, .is_log = parameter->is_log, .low = parameter->minval, .high = parameter->maxval};
    if (parameter->kind == SEARCH_CATEGORICAL) {
        return (struct parzen_dimension){.choices = space_choice_count(parameter)};
    }
    if (parameter->kind == SEARCH_LOG) {
        double at_min = number_pow(parameter->base, parameter->minval), at_max = number_pow(parameter->base, parameter->maxval);
        out.is_log = true;
        out.low = at_min < at_max ? at_min : at_max; /* of a base below 1 it is the other one */
        out.high = at_min < at_max ? at_max : at_min;
    }
    if (parameter->kind == SEARCH_INT && out.step == 0) {
        out.step = 1;
    }
    out.from = out.low - out.step / 2;
    out.to = out.high + out.step / 2;
    if (out.is_log) {
        out.from = number_log(out.from);
        out.to = number_log(out.to);
    }
    return out;
}

size_t parzen_room(uint32_t dimension_count, uint32_t observation_count)
{
    size_t kernels = (size_t)observation_count + 1;
    return kernels * (1 + 3 * (size_t)dimension_count);
}

static void set_weights(struct parzen *parzen)
{
    uint32_t count = parzen->kernel_count - 1, ramp = count > EQUAL_WEIGHTS ? count - EQUAL_WEIGHTS : 0;
    double sum = 0;
    for (uint32_t k = 0; k < parzen->kernel_count; k++) {
        double part = ramp > 1 ? (double)k / (double)(ramp - 1) : 0;
        parzen->weights[k] = k < ramp ? 1 / (double)count + part * (1 - 1 / (double)count) : 1;
        sum += parzen->weights[k];
    }
    for (uint32_t k = 0; k < parzen->kernel_count; k++) {
        parzen->weights[k] /= sum;
    }
}

static bool is_before(const double *centres, double a, double b)
{
    double left = centres[(uint32_t)a], right = centres[(uint32_t)b];
    return left < right || (left == right && a < b);
}

/* Moves the element at `root` down to where it belongs in the heap of `count` numbers of kernels. */
static void sift(const double *centres, double *order, uint32_t root, uint32_t count)
{
    for (uint32_t child; (child = 2 * root + 1) < count; root = child) {
        child += child + 1 < count && is_before(centres, order[child], order[child + 1]);
        if (!is_before(centres, order[root], order[child])) {
            return;
        }
        double swapped = order[root];
        order[root] = order[child];
        order[child] = swapped;
    }
}

/* Sorts the numbers of kernels in `order` by their centres: a heap sort, which needs no memory. */
static void sort_kernels(const double *centres, double *order, uint32_t count)
{
    for (uint32_t i = count / 2; i-- > 0;) {
        sift(centres, order, i, count);
    }
    for (uint32_t last = count; last-- > 1;) {
        double swapped = order[0];
        order[0] = order[last];
        order[last] = swapped;
        sift(centres, order, 0, last);
    }
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Sets the widths of a range's kernels. `order` is room for as many numbers. */
static void set_widths(const struct parzen_dimension *dimension, uint32_t kernels, const double *centres, double *widths, double *order)
{
    uint32_t count = kernels - 1;
    double range = dimension->to - dimension->from, least = range / (1 + kernels < NARROWEST ? 1 + kernels : NARROWEST);
    for (uint32_t k = 0; k < count; k++) {
        order[k] = k;
    }
    sort_kernels(centres, order, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = (uint32_t)order[i];
        double below = centres[k] - (i > 0 ? centres[(uint32_t)order[i - 1]] : dimension->from);
        double above = (i + 1 < count ? centres[(uint32_t)order[i + 1]] : dimension->to) - centres[k];
        double gap = count < 2 ? larger(below, above) : i == 0 ? above : i + 1 == count ? below : larger(below, above);
        widths[k] = gap < least ? least : gap > range ? range : gap;
    }
    widths[count] = range;
}

void parzen_make(struct parzen *out, const struct parzen_dimension *dimensions, const uint32_t *columns, uint32_t dimension_count,
                 const double *const *observations, uint32_t observation_count, double *room)
{
    uint32_t kernels = observation_count + 1;
    size_t plane = (size_t)kernels * dimension_count;
    *out = (struct parzen){.dimensions = dimensions,
                           .dimension_count = dimension_count,
                           .kernel_count = kernels,
                           .weights = room,
                           .centres = room + kernels,
                           .widths = room + kernels + plane,
                           .masses = room + kernels + 2 * plane};
    set_weights(out);
    for (uint32_t d = 0; d < dimension_count; d++) {
        const struct parzen_dimension *dimension = &dimensions[d];
        double *centres = out->centres + (size_t)d * kernels, *widths = out->widths + (size_t)d * kernels,
               *masses = out->masses + (size_t)d * kernels;
        for (uint32_t k = 0; k < observation_count; k++) {
            double value = observations[k][columns[d]];
            centres[k] = dimension->is_log ? number_log(value) : value;
        }
        if (dimension->choices > 0) {
            continue;
        }
        centres[observation_count] = dimension->from + (dimension->to - dimension->from) / 2;
        set_widths(dimension, kernels, centres, widths, masses);
        for (uint32_t k = 0; k < kernels; k++) {
            masses[k] = dimension->to > dimension->from
                            ? normal_log_mass((dimension->from - centres[k]) / widths[k], (dimension->to - centres[k]) / widths[k])
                            : 0;
            masses[k] += dimension->step == 0 && dimension->to > dimension->from ? number_log(widths[k]) : 0;
        }
    }
}

/* The probability of a choice by kernel `k`: each choice has a part of the prior, and the observed one the rest. */
static double choice_probability(const struct parzen *parzen, const struct parzen_dimension *dimension, uint32_t k, double centre,
                                 double choice)
{
    double prior = 1 / (double)parzen->kernel_count;
    if (k + 1 == parzen->kernel_count) {
        return 1 / (double)dimension->choices;
    }
    return (prior + (choice == centre ? 1 : 0)) / (dimension->choices * prior + 1);
}

static double log_kernel(const struct parzen *parzen, uint32_t d, uint32_t k, double value)
{
    const struct parzen_dimension *dimension = &parzen->dimensions[d];
    size_t at = (size_t)d * parzen->kernel_count + k;
    double centre = parzen->centres[at], width = parzen->widths[at];
    if (dimension->choices > 0) {
        return number_log(choice_probability(parzen, dimension, k, centre, value));
    }
    if (dimension->to <= dimension->from) {
        return 0; /* a range of one value */
    }
    if (dimension->step == 0) {
        double scaled = ((dimension->is_log ? number_log(value) : value) - centre) / width;
        return normal_log_density(scaled) - parzen->masses[at];
    }
    double left = value - dimension->step / 2, right = value + dimension->step / 2;
    left = dimension->is_log ? number_log(left) : left;
    right = dimension->is_log ? number_log(right) : right;
    return normal_log_mass((left - centre) / width, (right - centre) / width) - parzen->masses[at];
}

double parzen_log_density(const struct parzen *parzen, const double *point)
{
    double most = 0, sum = 0; /* the sum of exponentials, divided by that of the largest */
    for (uint32_t k = 0; k < parzen->kernel_count; k++) {
        double log = number_log(parzen->weights[k]);
        for (uint32_t d = 0; d < parzen->dimension_count; d++) {
            log += log_kernel(parzen, d, k, point[d]);
        }
        if (k == 0 || log > most) {
            sum = k == 0 ? 1 : sum * number_exp(most - log) + 1;
            most = log;
        } else {
            sum += number_exp(log - most);
        }
    }
    return most + number_log(sum);
}

static double draw_choice(const struct parzen *parzen, const struct parzen_dimension *dimension, uint32_t k, double centre, double at)
{
    double below = 0;
    uint32_t choice = 0;
    while (choice + 1 < dimension->choices && at >= (below += choice_probability(parzen, dimension, k, centre, choice))) {
        choice++;
    }
    return choice;
}

static double draw_range(const struct parzen_dimension *dimension, double centre, double width, double at)
{
    if (dimension->to <= dimension->from) {
        return dimension->low;
    }
    double low = (dimension->from - centre) / width, high = (dimension->to - centre) / width;
    double value = centre + width * normal_truncated(low, high, at);
    value = dimension->is_log ? number_exp(value) : value;
    if (dimension->step > 0) {
        double steps = (value - dimension->low) / dimension->step;
        value = dimension->low + (steps > 0 ? (double)(int64_t)(steps + 0.5) : 0) * dimension->step;
    }
    return value < dimension->low ? dimension->low : value > dimension->high ? dimension->high : value;
}

void parzen_draw(const struct parzen *parzen, struct random *random, double *point)
{
    double at = random_double(random), below = 0;
    uint32_t k = 0;
    while (k + 1 < parzen->kernel_count && at >= (below += parzen->weights[k])) {
        k++;
    }
    for (uint32_t d = 0; d < parzen->dimension_count; d++) {
        const struct parzen_dimension *dimension = &parzen->dimensions[d];
        size_t place = (size_t)d * parzen->kernel_count + k;
        double uniform = random_double(random);
        point[d] = dimension->choices > 0 ? draw_choice(parzen, dimension, k, parzen->centres[place], uniform)
                                          : draw_range(dimension, parzen->centres[place], parzen->widths[place], uniform);
    }
}

#ifndef TRAIN_SEARCH_PARZEN_H
#define TRAIN_SEARCH_PARZEN_H
/* A Parzen estimator: the density of a set of observed points, as a mixture of one kernel for each of them and one for the prior
 * (Bergstra et al., "Algorithms for hyper-parameter optimization", NIPS 2011; the bandwidths and weights are those of Optuna 5).
 * A kernel is a product over the dimensions: of normals truncated to the range, on the logarithm where the dimension is
 * logarithmic, and integrated over a step where the values have steps; or of the probabilities of choices.
 *
 * The newest 25 points weigh 1, older ones less, down to 1/n, the prior 1. A normal is as wide as the larger gap to its neighbours in
 * the order of values, but no narrower than the range divided by the number of kernels + 1 (or by 100), and no wider than the
 * range; the prior's is as wide as the range. */

#include <stddef.h>
#include <stdint.h>

#include "base/random.h"
#include "train/search/search.h"

/* One dimension: the values of a parameter that is searched. */
struct parzen_dimension {
    uint32_t choices;    /* of a categorical, whose values are 0 ... choices - 1; 0: a range */
    bool is_log;         /* kernels are on the natural logarithm */
    double step;         /* 0: continuous */
    double low, high;    /* of the values */
    double from, to;     /* of the kernels: low and high, half a step wider, on the logarithm */
};

/* The estimator, in memory of the caller. */
struct parzen {
    const struct parzen_dimension *dimensions;
    uint32_t dimension_count;
    uint32_t kernel_count; /* observations + 1; the prior's is the last */
    double *weights;       /* of the kernels; their sum is 1 */
    double *centres;       /* kernel k of dimension d: [d * kernel_count + k]; of a categorical the choice, of the prior's none */
    double *widths;        /* likewise; of a categorical nothing */
    double *masses;        /* likewise: log of the normal's probability in the range; without steps, of that times the width */
};

/* The dimension of a parameter that is no const. */
struct parzen_dimension parzen_dimension_of(const struct search_parameter *parameter);

/* The memory that an estimator needs, in doubles. */
size_t parzen_room(uint32_t dimension_count, uint32_t observation_count);

/* Makes an estimator of points, the oldest first: observations[i] points to the values of one, and columns[d] is the place of
 * dimension d in it. All of them are in the dimensions' ranges. `room` has parzen_room doubles, borrowed as long as the
 * estimator is used, as are the dimensions. */
void parzen_make(struct parzen *out, const struct parzen_dimension *dimensions, const uint32_t *columns, uint32_t dimension_count,
                 const double *const *observations, uint32_t observation_count, double *room);

/* log of the density at a point (in dimensions with steps and categoricals: of the probability of its value). */
double parzen_log_density(const struct parzen *parzen, const double *point);

/* Draws a point from the mixture. */
void parzen_draw(const struct parzen *parzen, struct random *random, double *point);

#endif

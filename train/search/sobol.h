#ifndef TRAIN_SEARCH_SOBOL_H
#define TRAIN_SEARCH_SOBOL_H
/* Sobol sequences: points that fill a cube more evenly than random points do. The direction numbers are those of Joe and Kuo
 * ("Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci. Comput. 30, 2008; the table
 * new-joe-kuo-6.21201), the order is that of the Gray code (Antonov and Saleev, 1979). Pure functions. */

#include "train/search/search.h"

#define SOBOL_DIMENSIONS_MAX SEARCH_SOBOL_MAX

/* The coordinate of point `index` in a dimension (0 ... SOBOL_DIMENSIONS_MAX - 1), in units of 2^-32. It follows from its
 * arguments alone. Point 0 is the origin, and belongs to the sequence: without it the first 2^k points are out of balance
 * (Owen, "On dropping the first Sobol' point", arXiv 2008.08051). */
uint32_t sobol_point(uint32_t dimension, uint32_t index);

/* The same after the digital shift of the seed: each bit of the dimension is flipped, or not, in all points alike. The points keep
 * their balance, and each of them alone is uniform over the seeds. */
uint32_t sobol_shifted_point(uint64_t seed, uint32_t dimension, uint32_t index);

#endif

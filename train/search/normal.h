#ifndef TRAIN_SEARCH_NORMAL_H
#define TRAIN_SEARCH_NORMAL_H
/* The standard normal distribution with the same bits on every machine (base/number.h), in logarithms, so that far tails do not
 * become 0. Pure functions. */

/* log of the distribution function: the probability of a value below x. */
double normal_log_below(double x);

/* log of the density at x. */
double normal_log_density(double x);

/* log of the probability of a value between low and high, low < high. */
double normal_log_mass(double low, double high);

/* The value between low and high below which the part `at` of their probability lies, 0 <= at < 1: a draw from the normal that is
 * truncated to [low, high], for a uniform `at`. */
double normal_truncated(double low, double high, double at);

#endif

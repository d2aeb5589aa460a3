#include "train/search/normal.h"

#include "base/number.h"

#define SQRT_HALF 0.70710678118654752440      /* 1 / sqrt(2) */
#define TWO_BY_SQRT_PI 1.12837916709551257390 /* 2 / sqrt(pi) */
#define LOG_SQRT_PI 0.57236494292470008707    /* ln sqrt(pi) */
#define LOG_SQRT_2PI 0.91893853320467274178   /* ln sqrt(2 pi) */
#define LOG_2 0.69314718055994530942
#define TAIL 2.5          /* from here on the fraction needs few terms, below it the series does */
#define FRACTION_TERMS 80 /* enough for the last bits from TAIL on */
#define TINY_WIDTH 1e-5
#define STEPS_MAX 64

/* erf(x) for 0 <= x < TAIL: 2/sqrt(pi) exp(-x^2) (x + 2/3 x^3 + 4/15 x^5 + ...), all terms of which are positive. */
static double erf_series(double x)
{
    double term = x, sum = x;
    for (int n = 1; term > sum * 1e-17; n++) {
        term *= 2 * x * x / (2 * n + 1);
        sum += term;
    }
    return TWO_BY_SQRT_PI * number_exp(-x * x) * sum;
}

/* log of erfc(x) for x >= TAIL, by the continued fraction 1 / (x + (1/2) / (x + (2/2) / (x + ...))). */
static double log_erfc_tail(double x)
{
    double below = x;
    for (int n = FRACTION_TERMS; n > 0; n--) {
        below = x + 0.5 * n / below;
    }
    return -x * x - LOG_SQRT_PI - number_log(below);
}

/* The probability of a value below x. */
static double probability_below(double x)
{
    double scaled = (x < 0 ? -x : x) * SQRT_HALF;
    double tail = scaled < TAIL ? 0.5 - 0.5 * erf_series(scaled) : 0.5 * number_exp(log_erfc_tail(scaled));
    return x < 0 ? tail : 1 - tail;
}

double normal_log_below(double x)
{
    double scaled = -x * SQRT_HALF;
    return scaled < TAIL ? number_log(probability_below(x)) : log_erfc_tail(scaled) - LOG_2;
}

double normal_log_density(double x)
{
    return -0.5 * x * x - LOG_SQRT_2PI;
}

double normal_log_mass(double low, double high)
{
    double middle = low + (high - low) / 2, size = middle < 0 ? -middle : middle;
    if ((high - low) * (1 + size) < TINY_WIDTH) { /* differences would lose their digits */
        return normal_log_density(middle) + number_log(high - low);
    }
    if (low > 0) { /* by symmetry, since the left tail is exact */
        return normal_log_mass(-high, -low);
    }
    if (high > 0) {
        return number_log(1 - probability_below(low) - probability_below(-high));
    }
    double most = normal_log_below(high);
    return most + number_log(1 - number_exp(normal_log_below(low) - most));
}

double normal_truncated(double low, double high, double at)
{
    double from = low, to = high, value = low + (high - low) / 2;
    if (at <= 0) {
        return low;
    }
    /* Newton's steps on the logarithm; halves of the interval where a step leads out of it. */
    double wanted = normal_log_mass(low, high) + number_log(at);
    for (int i = 0; i < STEPS_MAX && value > from && value < to; i++) {
        double mass = normal_log_mass(low, value), step = (wanted - mass) * number_exp(mass - normal_log_density(value));
        double next = value + step, size = step < 0 ? -step : step;
        if (size < 1e-14 * (high - low)) {
            break;
        }
        if (mass < wanted) {
            from = value;
        } else {
            to = value;
        }
        value = next > from && next < to ? next : from + (to - from) / 2;
    }
    return value;
}

#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
/* Arithmetic that gives the same bits on every machine: libc's exp, log and pow differ between processors in the last
 * bits. Only + - * / and conversions of IEEE 754 doubles are used. */

#include <stddef.h>

/* e^x, natural logarithm (x > 0), base^x (base > 0): relative error below 1e-13 over the range of doubles. */
double number_exp(double x);
double number_log(double x);
double number_pow(double base, double x);

/* Rounded to 9 significant decimal digits, ties away from zero; the value whose shortest text has at most 9 digits. */
double number_round9(double x);

/* Shortest text that reads back as the same double: at most 9 digits for values from number_round9, up to 17 for
 * others; exponent form below 0.0001 and from 1e15 on. JSON-compatible; not-a-number and the infinities are written as
 * null. `out` holds 32 chars. Returns the length. */
size_t number_format(char out[32], double x);

/* Reads a decimal JSON/YAML number ("1", "-1.5e-3", ".5", "+2.") from exactly `bytes` chars, to the nearest double, ties
 * to even. 0 or ERR_MALFORMED, also above the largest double. */
int number_parse(const char *text, size_t bytes, double *out);

#endif

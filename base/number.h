#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H
/* Arithmetic that gives the same bits on every machine. Only + - * / and conversions of IEEE 754 doubles are used,
 * because libc's exp, log and pow differ between processors in the last bits. */

#include <stddef.h>

/* e^x, the natural logarithm (x > 0) and base^x (base > 0), each with a relative error below 1e-13 over the range of
 * doubles. */
double number_exp(double x);
double number_log(double x);
double number_pow(double base, double x);

/* Rounds to 9 significant decimal digits, ties away from zero. The shortest text of the result has at most 9 digits. */
double number_round9(double x);

/* Writes the shortest text that reads back as the same double: at most 9 digits for values from number_round9, at most
 * 17 for all others; with an exponent below 0.0001 and from 1e15 on. Valid JSON: NaN and the infinities are written as
 * null. `out` holds 32 chars and ends in NUL. Returns the length. */
size_t number_format(char out[32], double x);

/* Reads a decimal JSON or YAML number ("1", "-1.5e-3", ".5", "+2.") from exactly `bytes` chars and rounds to the
 * nearest double, ties to even. 0, or ERR_MALFORMED: not a number, or above the largest double. */
int number_parse(const char *text, size_t bytes, double *out);

#endif

#include "base/number.h"

#include <math.h> /* for INFINITY, NAN and isnan; none of its functions is called */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

/* Two halves. The first is exp and log: the argument is reduced to a small interval, where a polynomial is summed;
 * where one double would lose digits, the sum is kept in two (Dekker, "A floating-point technique for extending the
 * available precision", 1971). The second half converts between binary and decimal exactly, with integers of any needed
 * length. That is slower than libc's methods (some microseconds), but short, and right for every double. */

/* ---- exp, log, pow ---- */

/* ln 2 in two parts. The high part ends in 21 zero bits, so that its product with any exponent is exact. */
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW 0x1.a39ef35793c76p-33
#define ONE_BY_LN2 0x1.71547652b82fep+0

struct pair {
    double high, low;
};

/* a + b without loss. */
static struct pair sum_exact(double a, double b)
{
    double sum = a + b;
    double part = sum - a;
    return (struct pair){sum, (a - (sum - part)) + (b - part)};
}

/* a * b without loss, for factors below 2^990. */
static struct pair product_exact(double a, double b)
{
    double wide_a = a * 134217729.0; /* 2^27 + 1 splits 53 bits in halves */
    double wide_b = b * 134217729.0;
    double a1 = wide_a - (wide_a - a), a2 = a - a1;
    double b1 = wide_b - (wide_b - b), b2 = b - b1;
    double product = a * b;
    return (struct pair){product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2};
}

/* 2^exponent for a normal result. */
static double power_of_two(int exponent)
{
    uint64_t bits = (uint64_t)(exponent + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* e^(x + small) */
static double exp_pair(double x, double small)
{
    if (isnan(x)) {
        return x;
    }
    if (x > 710.0) {
        return INFINITY;
    }
    if (x < -746.0) {
        return 0.0;
    }
    int k = (int)(x * ONE_BY_LN2 + (x < 0 ? -0.5 : 0.5));
    double r = (x - k * LN2_HIGH) - k * LN2_LOW + small;
    /* Taylor; |r| <= 0.35, so the first term left out is below 5e-18. */
    double sum = 1.0;
    for (int n = 13; n >= 1; n--) {
        sum = 1.0 + sum * r / n;
    }
    /* In two steps, because 2^k alone may be out of range where the result is in range. */
    int half = k / 2;
    return sum * power_of_two(half) * power_of_two(k - half);
}

static struct pair log_pair(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = -1023;
    if (bits < 0x0010000000000000u) { /* subnormal */
        x *= 0x1p54;
        memcpy(&bits, &x, sizeof bits);
        exponent -= 54;
    }
    exponent += (int)(bits >> 52);
    bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
    double m;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent++;
    }
    /* ln m = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1)/(m + 1), |s| <= 0.172; s is kept in two parts. */
    struct pair below = sum_exact(m, 1.0);
    double s = (m - 1.0) / below.high;
    struct pair back = product_exact(s, below.high);
    double s_low = (((m - 1.0) - back.high) - back.low - s * below.low) / below.high;
    double square = s * s;
    double tail = 0.0;
    for (int n = 23; n >= 3; n -= 2) {
        tail = tail * square + 1.0 / n;
    }
    struct pair sum = sum_exact(exponent * LN2_HIGH, 2.0 * s);
    return sum_exact(sum.high, sum.low + (2.0 * s_low + 2.0 * s * square * tail + exponent * LN2_LOW));
}

double number_exp(double x)
{
    return exp_pair(x, 0.0);
}

double number_log(double x)
{
    if (isnan(x) || x < 0) {
        return NAN;
    }
    if (x == 0.0) {
        return -INFINITY;
    }
    return isinf(x) ? x : log_pair(x).high;
}

double number_pow(double base, double x)
{
    if (isnan(base) || isnan(x) || base <= 0.0) {
        return NAN;
    }
    if (x == 0.0 || base == 1.0) {
        return 1.0;
    }
    if (isinf(base)) {
        return x > 0 ? INFINITY : 0.0;
    }
    struct pair log = log_pair(base);
    double rough = x * log.high;
    if (rough > 800.0) {
        return INFINITY;
    }
    if (rough < -800.0) {
        return 0.0;
    }
    /* The product is kept in two parts: the rounding error of one double, times 700, would be visible in the result. */
    struct pair product = product_exact(x, log.high);
    return exp_pair(product.high, product.low + x * log.low);
}

/* ---- long integers ---- */

/* The longest number: 780 digits scaled by 10^1110, with 64 bits to spare, is below 2^3800. */
#define LONG_WORDS 128

struct longint {
    uint32_t words[LONG_WORDS]; /* least significant first */
    unsigned count;             /* without leading zeros */
};

static void longint_set(struct longint *a, uint64_t value)
{
    a->words[0] = (uint32_t)value;
    a->words[1] = (uint32_t)(value >> 32);
    a->count = a->words[1] != 0 ? 2 : a->words[0] != 0;
}

static void longint_multiply_add(struct longint *a, uint32_t factor, uint32_t addend)
{
    uint64_t carry = addend;
    for (unsigned i = 0; i < a->count; i++) {
        carry += (uint64_t)a->words[i] * factor;
        a->words[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0) {
        a->words[a->count++] = (uint32_t)carry;
    }
}

static void longint_scale10(struct longint *a, int power)
{
    for (; power >= 9; power -= 9) {
        longint_multiply_add(a, 1000000000u, 0);
    }
    for (; power > 0; power--) {
        longint_multiply_add(a, 10, 0);
    }
}

static void longint_shift_left(struct longint *a, unsigned bits)
{
    unsigned words = bits / 32;
    unsigned rest = bits % 32;
    if (a->count == 0) {
        return;
    }
    if (words > 0) {
        memmove(a->words + words, a->words, a->count * sizeof a->words[0]);
        memset(a->words, 0, words * sizeof a->words[0]);
        a->count += words;
    }
    if (rest > 0) {
        uint32_t carry = 0;
        for (unsigned i = words; i < a->count; i++) {
            uint32_t word = a->words[i];
            a->words[i] = (word << rest) | carry;
            carry = word >> (32 - rest);
        }
        if (carry != 0) {
            a->words[a->count++] = carry;
        }
    }
}

static int longint_bits(const struct longint *a)
{
    return a->count == 0 ? 0 : (int)(a->count * 32) - __builtin_clz(a->words[a->count - 1]);
}

static int longint_compare(const struct longint *a, const struct longint *b)
{
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    for (unsigned i = a->count; i-- > 0;) {
        if (a->words[i] != b->words[i]) {
            return a->words[i] < b->words[i] ? -1 : 1;
        }
    }
    return 0;
}

/* a -= b, for a >= b */
static void longint_subtract(struct longint *a, const struct longint *b)
{
    uint64_t borrow = 0;
    for (unsigned i = 0; i < a->count; i++) {
        uint64_t minus = borrow + (i < b->count ? b->words[i] : 0);
        borrow = minus > a->words[i];
        a->words[i] = (uint32_t)(a->words[i] - minus);
    }
    while (a->count > 0 && a->words[a->count - 1] == 0) {
        a->count--;
    }
}

/* For a < 2b: returns the first `steps` bits of a / b, beginning with the ones bit. Leaves twice the remainder in `a`. */
static uint64_t longint_divide(struct longint *a, const struct longint *b, int steps)
{
    uint64_t quotient = 0;
    for (int i = 0; i < steps; i++) {
        quotient <<= 1;
        if (longint_compare(a, b) >= 0) {
            longint_subtract(a, b);
            quotient |= 1;
        }
        longint_shift_left(a, 1);
    }
    return quotient;
}

/* The double nearest to digits * 10^power (ties to even); `digits` is not 0. */
static double nearest_double(struct longint *digits, int power)
{
    struct longint below;
    longint_set(&below, 1);
    longint_scale10(digits, power);
    longint_scale10(&below, -power);
    int shift = longint_bits(&below) - longint_bits(digits);
    longint_shift_left(shift > 0 ? digits : &below, (unsigned)(shift > 0 ? shift : -shift));
    uint64_t mantissa = longint_divide(digits, &below, 64); /* value = mantissa * 2^(-63 - shift), above 2^62 */
    int exponent = -63 - shift;
    bool inexact = digits->count > 0;
    int bits = mantissa >> 63 != 0 ? 64 : 63;
    int drop = bits - 53;
    if (exponent + drop < -1074) {
        drop = -1074 - exponent; /* a subnormal keeps fewer bits */
    }
    if (drop > 64) {
        return 0.0;
    }
    uint64_t kept = drop == 64 ? 0 : mantissa >> drop;
    uint64_t lost = drop == 64 ? mantissa : mantissa & (((uint64_t)1 << drop) - 1);
    uint64_t half = (uint64_t)1 << (drop - 1);
    if (lost > half || (lost == half && (inexact || (kept & 1) != 0))) {
        kept++;
    }
    exponent += drop;
    if (kept == (uint64_t)1 << 53) {
        kept >>= 1;
        exponent++;
    }
    if (exponent > 971) {
        return INFINITY;
    }
    /* A carry out of the subnormals lands in the exponent field, which is the right place for it. */
    uint64_t out = kept < (uint64_t)1 << 52 ? kept : ((uint64_t)(exponent + 1075) << 52) | (kept & 0xfffffffffffffu);
    double value;
    memcpy(&value, &out, sizeof value);
    return value;
}

/* A decimal number digits * 10^power, digits < 2^63. */
struct decimal {
    uint64_t digits;
    int power;
};

static double decimal_to_double(struct decimal decimal)
{
    struct longint digits;
    longint_set(&digits, decimal.digits);
    return nearest_double(&digits, decimal.power);
}

/* x > 0, finite, rounded to `count` <= 17 significant digits, ties away from zero. */
static struct decimal decimal_from_double(double x, int count)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52);
    uint64_t mantissa = bits & 0xfffffffffffffu;
    if (exponent > 0) {
        mantissa |= (uint64_t)1 << 52;
        exponent--;
    }
    exponent -= 1074;
    uint64_t limit = 1;
    for (int i = 0; i < count; i++) {
        limit *= 10;
    }
    /* Estimates the power of ten of the first digit from the leading bits. The estimate may be one too low, never too
     * high: a low estimate gives one digit too many, and the second round is right. */
    int log2 = exponent + 63 - __builtin_clzll(mantissa);
    int first = (int)((log2 * 78913LL - (log2 < 0 ? 262143 : 0)) / 262144); /* floor(log2 * log10(2)) */
    for (;; first++) {
        int power = first - count + 1;
        struct longint above, below;
        longint_set(&above, mantissa);
        longint_set(&below, 1);
        longint_scale10(&above, -power);
        longint_scale10(&below, power);
        longint_shift_left(exponent > 0 ? &above : &below, (unsigned)(exponent > 0 ? exponent : -exponent));
        int shift = longint_bits(&above) - longint_bits(&below);
        longint_shift_left(&below, (unsigned)shift); /* shift >= 0: the quotient has digits before the point */
        uint64_t digits = longint_divide(&above, &below, shift + 1);
        digits += longint_compare(&above, &below) >= 0;
        if (digits < limit) {
            return (struct decimal){digits, power};
        }
        if (digits == limit) {
            return (struct decimal){digits / 10, power + 1};
        }
    }
}

double number_round9(double x)
{
    if (isnan(x) || isinf(x) || x == 0.0) {
        return x;
    }
    double rounded = decimal_to_double(decimal_from_double(x < 0 ? -x : x, 9));
    return x < 0 ? -rounded : rounded;
}

/* ---- text ---- */

static size_t put_unsigned(char *out, uint64_t value)
{
    char reversed[20];
    size_t count = 0;
    do {
        reversed[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    for (size_t i = 0; i < count; i++) {
        out[i] = reversed[count - 1 - i];
    }
    return count;
}

size_t number_format(char out[32], double x)
{
    if (isnan(x) || isinf(x)) {
        memcpy(out, "null", 5);
        return 4;
    }
    size_t used = 0;
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (bits >> 63 != 0) {
        out[used++] = '-';
        x = -x;
    }
    struct decimal decimal = {0, 0};
    if (x != 0.0) {
        decimal = decimal_from_double(x, 9);
        for (int count = 15; count <= 17 && decimal_to_double(decimal) != x; count++) {
            decimal = decimal_from_double(x, count); /* x did not come from number_round9 */
        }
        while (decimal.digits % 10 == 0) {
            decimal.digits /= 10;
            decimal.power++;
        }
    }
    char digits[20];
    size_t count = put_unsigned(digits, decimal.digits);
    int point = (int)count + decimal.power; /* digits before the decimal point */
    if (decimal.power >= 0 && point <= 15) {
        memcpy(out + used, digits, count);
        memset(out + used + count, '0', (size_t)decimal.power);
        used += (size_t)point;
    } else if (point > 0 && decimal.power < 0) {
        memcpy(out + used, digits, (size_t)point);
        out[used + (size_t)point] = '.';
        memcpy(out + used + point + 1, digits + point, count - (size_t)point);
        used += count + 1;
    } else if (point <= 0 && point > -4) {
        memcpy(out + used, "0.000", (size_t)(2 - point));
        memcpy(out + used + 2 - point, digits, count);
        used += (size_t)(2 - point) + count;
    } else {
        int exponent = point - 1;
        out[used++] = digits[0];
        if (count > 1) {
            out[used++] = '.';
            memcpy(out + used, digits + 1, count - 1);
            used += count - 1;
        }
        out[used++] = 'e';
        if (exponent < 0) {
            out[used++] = '-';
        }
        used += put_unsigned(out + used, (uint64_t)(exponent < 0 ? -exponent : exponent));
    }
    out[used] = '\0';
    return used;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The midpoint of two neighbouring doubles has at most 767 significant digits; digits beyond can only mean "a little
 * more". */
#define DIGITS_MAX 780

int number_parse(const char *text, size_t bytes, double *out)
{
    const char *p = text;
    const char *end = text + bytes;
    bool negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+')) {
        p++;
    }
    struct longint digits;
    longint_set(&digits, 0);
    int64_t power = 0;
    int digit_count = 0; /* number of significant digits */
    bool any = false, after_point = false, more = false;
    for (; p < end && (is_digit(*p) || (*p == '.' && !after_point)); p++) {
        if (*p == '.') {
            after_point = true;
            continue;
        }
        any = true;
        power -= after_point;
        if (digit_count == DIGITS_MAX) {
            more = more || *p != '0';
            power++;
        } else if (digit_count > 0 || *p != '0') {
            longint_multiply_add(&digits, 10, (uint32_t)(*p - '0'));
            digit_count++;
        }
    }
    if (!any) {
        return ERR_MALFORMED;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool minus = p < end && *p == '-';
        if (p < end && (*p == '-' || *p == '+')) {
            p++;
        }
        if (p == end) {
            return ERR_MALFORMED;
        }
        int64_t exponent = 0;
        for (; p < end && is_digit(*p); p++) {
            exponent = exponent < INT32_MAX ? exponent * 10 + (*p - '0') : exponent;
        }
        power += minus ? -exponent : exponent;
    }
    if (p != end) {
        return ERR_MALFORMED;
    }
    double value = 0.0;
    if (digit_count > 0) {
        if (more) {
            longint_multiply_add(&digits, 10, 1);
            power--;
            digit_count++;
        }
        if (power + digit_count > 310) {
            return ERR_MALFORMED; /* above the largest double */
        }
        if (power + digit_count > -330) {
            value = nearest_double(&digits, (int)power);
        }
        if (isinf(value)) {
            return ERR_MALFORMED;
        }
    }
    *out = negative ? -value : value;
    return 0;
}

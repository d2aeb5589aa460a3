#include "node/config/scalar.h"

#include <string.h>

#include "base/number.h"

static bool text_is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

/* Reads [+-] digits, 0x or 0o; false if the text is not an integer; *is_huge if it does not fit in 64 bits. */
static bool read_integer(const char *text, struct scalar *out, bool *is_huge)
{
    out->is_negative = text[0] == '-';
    const char *p = text + (text[0] == '-' || text[0] == '+');
    unsigned base = p[0] == '0' && p[1] == 'x' ? 16 : p[0] == '0' && p[1] == 'o' ? 8 : 10;
    p += base != 10 ? 2 : 0;
    *is_huge = false;
    out->magnitude = 0;
    if (*p == '\0') {
        return false;
    }
    for (; *p != '\0'; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                         : *p >= 'A' && *p <= 'F' ? (unsigned)(*p - 'A' + 10)
                                                  : 99;
        if (digit >= base) {
            return false;
        }
        *is_huge = *is_huge || out->magnitude > (UINT64_MAX - digit) / base;
        out->magnitude = out->magnitude * base + digit;
    }
    *is_huge = *is_huge || (out->is_negative && out->magnitude > (uint64_t)INT64_MAX + 1);
    out->number = out->is_negative ? -(double)out->magnitude : (double)out->magnitude;
    return true;
}

static bool looks_like_number(const char *text)
{
    return text[strspn(text, "+-.0123456789eE")] == '\0' && strpbrk(text, "0123456789") != NULL && text[0] != 'e' &&
           text[0] != 'E';
}

struct scalar scalar_read(const char *text, bool is_plain)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const truths[] = {"true", "True", "TRUE", NULL};
    static const char *const lies[] = {"false", "False", "FALSE", NULL};
    static const char *const endless[] = {".inf", ".Inf", ".INF", "+.inf", "-.inf", "-.Inf", "-.INF",
                                          ".nan", ".NaN", ".NAN", NULL};
    struct scalar scalar = {.type = SCALAR_TEXT};
    bool is_huge = false;
    if (!is_plain) {
        return scalar;
    }
    if (text_is_one_of(text, nulls)) {
        scalar.type = SCALAR_NULL;
    } else if (text_is_one_of(text, truths) || text_is_one_of(text, lies)) {
        scalar.type = SCALAR_TRUTH;
        scalar.truth = text_is_one_of(text, truths);
    } else if (text_is_one_of(text, endless)) {
        scalar.type = SCALAR_NOT_FINITE;
    } else if (read_integer(text, &scalar, &is_huge)) {
        scalar.type = is_huge ? SCALAR_HUGE : SCALAR_INTEGER;
    } else if (number_parse(text, strlen(text), &scalar.number) == 0) {
        scalar.type = SCALAR_NUMBER;
    } else if (looks_like_number(text) && (strchr(text, 'e') != NULL || strchr(text, 'E') != NULL) &&
               strpbrk(text, "eE")[1] != '\0') {
        scalar.type = SCALAR_NOT_FINITE; /* 1e999 */
    }
    return scalar;
}

bool scalar_is_clean(const char *text, bool lines)
{
    for (; *text != '\0'; text++) {
        bool is_control = (unsigned char)*text < 0x20 || *text == 0x7f;
        if (is_control && !(lines && (*text == '\n' || *text == '\t'))) {
            return false;
        }
    }
    return true;
}

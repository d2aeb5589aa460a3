/* What an experiment waits for before it begins, by its configuration: depends_on and start_after. */

#include <string.h>

#include "base/bytes.h"
#include "node/core/facts/config.h"

#define ID_DIGITS (2 * EXPERIMENT_ID_BYTES)
#define DAY_S 86400u
#define YEAR_MAX 9999

uint32_t config_dependencies(const struct config *config, experiment_id out[CONFIG_DEPENDS_MAX])
{
    const char *at = config->depends_on;
    uint32_t count = 0;
    while (*at != '\0' && count < CONFIG_DEPENDS_MAX) {
        char digits[ID_DIGITS + 1] = "";
        size_t length = 0;
        while (at[length] != '\0' && at[length] != ' ') {
            length++;
        }
        experiment_id id = {{0}};
        if (length == ID_DIGITS) {
            memcpy(digits, at, ID_DIGITS);
        }
        if (bytes_from_hex(id.bytes, EXPERIMENT_ID_BYTES, digits) != 0) {
            id = (experiment_id){{0}};
        }
        out[count++] = id;
        at += length + (at[length] == ' ');
    }
    return count;
}

bool config_needs_waits(const struct config *config)
{
    return config->depends_on[0] != '\0' || config->start_after[0] != '\0' || config->max_runtime_s > 0 ||
           config->constraints[0] != '\0';
}

/* ---- times --------------------------------------------------------------------------------------------------------------- */

static bool is_leap(uint32_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static uint32_t days_of_month(uint32_t year, uint32_t month)
{
    static const uint32_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 1970 to the first of January. */
static uint64_t days_to_year(uint32_t year)
{
    uint32_t before = year - 1;
    return 365ull * (year - 1970) + (before / 4 - 1969 / 4) - (before / 100 - 1969 / 100) + (before / 400 - 1969 / 400);
}

/* Reads so many digits at `*at`, and moves behind them. */
static bool read_digits(const char **at, uint32_t digits, uint32_t least, uint32_t most, uint32_t *out)
{
    *out = 0;
    for (; digits > 0 && **at >= '0' && **at <= '9'; digits--, ++*at) {
        *out = 10 * *out + (uint32_t)(**at - '0');
    }
    return digits == 0 && *out >= least && *out <= most;
}

static bool read_sign(const char **at, char sign)
{
    bool is_there = **at == sign;
    *at += is_there;
    return is_there;
}

bool config_start_read(const char *text, uint64_t *out, bool *is_utc)
{
    uint32_t year, month, day, hour = 0, minute = 0, second = 0;
    if (!read_digits(&text, 4, 1970, YEAR_MAX, &year) || !read_sign(&text, '-') || !read_digits(&text, 2, 1, 12, &month) ||
        !read_sign(&text, '-') || !read_digits(&text, 2, 1, days_of_month(year, month), &day)) {
        return false;
    }
    if ((read_sign(&text, ' ') || read_sign(&text, 'T')) &&
        (!read_digits(&text, 2, 0, 23, &hour) || !read_sign(&text, ':') || !read_digits(&text, 2, 0, 59, &minute) ||
         (read_sign(&text, ':') && !read_digits(&text, 2, 0, 59, &second)))) {
        return false;
    }
    bool has_zone = read_sign(&text, 'Z');
    uint64_t days = days_to_year(year) + day - 1;
    for (uint32_t i = 1; i < month; i++) {
        days += days_of_month(year, i);
    }
    if (*text != '\0') {
        return false;
    }
    *out = days * DAY_S + hour * 3600u + minute * 60u + second;
    *is_utc = has_zone;
    return true;
}

/* Writes so many digits behind `*used`, then a sign. */
static void write_digits(char *out, size_t *used, uint32_t digits, uint32_t number, char sign)
{
    for (uint32_t i = digits; i-- > 0; number /= 10) {
        out[*used + i] = (char)('0' + number % 10);
    }
    out[*used + digits] = sign;
    *used += digits + 1;
}

bool config_start_write(char out[CONFIG_START_BYTES], uint64_t at_s)
{
    uint64_t days = at_s / DAY_S;
    uint32_t second = (uint32_t)(at_s % DAY_S), month = 1;
    uint32_t year = days < 366ull * YEAR_MAX ? 1970 + (uint32_t)(days / 366) : YEAR_MAX + 1; /* or some years later */
    while (year <= YEAR_MAX && days_to_year(year + 1) <= days) {
        year++;
    }
    if (year > YEAR_MAX) {
        return false;
    }
    uint32_t day = (uint32_t)(days - days_to_year(year));
    for (; day >= days_of_month(year, month); month++) {
        day -= days_of_month(year, month);
    }
    size_t used = 0;
    write_digits(out, &used, 4, year, '-');
    write_digits(out, &used, 2, month, '-');
    write_digits(out, &used, 2, day + 1, 'T');
    write_digits(out, &used, 2, second / 3600, ':');
    write_digits(out, &used, 2, second / 60 % 60, ':');
    write_digits(out, &used, 2, second % 60, 'Z');
    out[used] = '\0';
    return true;
}

uint64_t config_start_after(const struct config *config)
{
    uint64_t at_s;
    bool is_utc;
    if (config->start_after[0] == '\0') {
        return 0;
    }
    return config_start_read(config->start_after, &at_s, &is_utc) && is_utc ? at_s : CONFIG_NEVER;
}

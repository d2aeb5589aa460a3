#include "node/config/hours.h"

#include <stdbool.h>
#include <string.h>

#include "base/err.h"
#include "base/format.h"

#define EVERY_DAY 127u
#define DAYS 7

static const char *const names[DAYS] = {"mon", "tue", "wed", "thu", "fri", "sat", "sun"};

static void skip_blanks(const char **at)
{
    *at += strspn(*at, " \t");
}

/* "9", "09:30"; 24 is allowed as an end. */
static bool read_minute(const char **at, bool is_end, uint32_t *out)
{
    uint32_t hour = 0, minute = 0, digits = 0;
    for (; **at >= '0' && **at <= '9' && digits < 2; ++*at, digits++) {
        hour = hour * 10 + (uint32_t)(**at - '0');
    }
    if (digits > 0 && **at == ':') {
        const char *of_minute = *at + 1;
        if (of_minute[0] < '0' || of_minute[0] > '5' || of_minute[1] < '0' || of_minute[1] > '9') {
            return false;
        }
        minute = (uint32_t)(of_minute[0] - '0') * 10 + (uint32_t)(of_minute[1] - '0');
        *at += 3;
    }
    *out = (hour * 60 + minute) % FACT_DAY_MINUTES;
    return digits > 0 && (hour < 24 || (is_end && hour == 24 && minute == 0));
}

static bool read_day(const char **at, uint32_t *out)
{
    for (uint32_t day = 0; day < DAYS; day++) {
        if (strncmp(*at, names[day], 3) == 0) {
            *at += 3;
            *out = day;
            return true;
        }
    }
    return false;
}

/* "mon-fri", "sat,sun", "fri-mon". */
static bool read_days(const char **at, uint32_t *days)
{
    do {
        uint32_t first, last;
        if (!read_day(at, &first)) {
            return false;
        }
        last = first;
        if (**at == '-') {
            ++*at;
            if (!read_day(at, &last)) {
                return false;
            }
        }
        for (uint32_t day = first;; day = (day + 1) % DAYS) {
            *days |= 1u << day;
            if (day == last) {
                break;
            }
        }
    } while (*(*at)++ == ',');
    --*at;
    return true;
}

int hours_read(const char *text, struct fact_hours out[FACT_HOURS_MAX], uint32_t *count)
{
    struct fact_hours read[FACT_HOURS_MAX];
    uint32_t n = 0;
    do {
        struct fact_hours *hours = &read[n];
        if (n++ == FACT_HOURS_MAX) {
            return ERR_MALFORMED;
        }
        *hours = (struct fact_hours){0};
        skip_blanks(&text);
        bool is_read = read_minute(&text, false, &hours->from) && *text++ == '-' && read_minute(&text, true, &hours->until);
        if (!is_read) {
            return ERR_MALFORMED;
        }
        skip_blanks(&text);
        if (*text == '\0' || *text == ';') {
            hours->days = EVERY_DAY;
        } else if (!read_days(&text, &hours->days)) {
            return ERR_MALFORMED;
        }
        skip_blanks(&text);
    } while (*text++ == ';');
    if (text[-1] != '\0') {
        return ERR_MALFORMED;
    }
    memcpy(out, read, n * sizeof read[0]);
    *count = n;
    return 0;
}

static size_t write_minute(char *out, size_t size, uint32_t minute)
{
    unsigned hour = (unsigned)(minute / 60), rest = (unsigned)(minute % 60);
    return rest == 0 ? format_text(out, size, "%u", hour) : format_text(out, size, rest < 10 ? "%u:0%u" : "%u:%u", hour, rest);
}

/* Days in a row as "mon-fri", others one by one. */
static size_t write_days(char *out, size_t size, uint32_t days)
{
    size_t used = 0;
    for (uint32_t day = 0; day < DAYS && days != EVERY_DAY; day++) {
        uint32_t last = day;
        if ((days >> day & 1) == 0) {
            continue;
        }
        while (last + 1 < DAYS && (days >> (last + 1) & 1) != 0) {
            last++;
        }
        used += format_text(out + used, size - used, "%s%s%s%s", used == 0 ? " " : ",", names[day], last > day ? "-" : "",
                            last > day ? names[last] : "");
        day = last;
    }
    return used;
}

void hours_write(char out[HOURS_BYTES], const struct fact_hours *hours, uint32_t count)
{
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; i < count; i++) {
        used += format_text(out + used, HOURS_BYTES - used, "%s", i > 0 ? "; " : "");
        used += write_minute(out + used, HOURS_BYTES - used, hours[i].from);
        out[used++] = '-';
        used += write_minute(out + used, HOURS_BYTES - used, hours[i].until == 0 ? FACT_DAY_MINUTES : hours[i].until);
        used += write_days(out + used, HOURS_BYTES - used, hours[i].days);
    }
}

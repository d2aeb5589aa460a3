#include "base/units.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

struct unit {
    char letter;
    uint64_t factor;
};

static const struct unit times[] = {{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}};
static const struct unit sizes[] = {
    {'T', UINT64_C(1) << 40}, {'G', UINT64_C(1) << 30}, {'M', UINT64_C(1) << 20}, {'K', UINT64_C(1) << 10}};

#define TIME_COUNT (sizeof times / sizeof times[0])
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

/* Reads digits at `*text` and steps behind them, and behind one blank. */
static int read_digits(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (value > (UINT64_MAX - digit) / 10) {
            return ERR_MALFORMED;
        }
        value = 10 * value + digit;
    }
    if (at == *text) {
        return ERR_MALFORMED;
    }
    *text = at + (at[0] == ' ' && at[1] != '\0');
    *out = value;
    return 0;
}

/* The place of the unit with this letter in a list, from `first` on; `count`: there is none. */
static size_t find(const struct unit *units, size_t first, size_t count, char letter)
{
    while (first < count && units[first].letter != letter) {
        first++;
    }
    return first;
}

int units_read_time(const char *text, uint64_t max_s, uint64_t *out)
{
    uint64_t sum = 0, value = 0;
    size_t next = 0; /* a smaller unit than the one before */
    do {
        if (read_digits(&text, &value) != 0) {
            return ERR_MALFORMED;
        }
        bool is_bare = *text == '\0' && next == 0;
        size_t unit = is_bare ? TIME_COUNT - 1 : find(times, next, TIME_COUNT, *text);
        if (unit == TIME_COUNT || value > (max_s - sum) / times[unit].factor) {
            return ERR_MALFORMED;
        }
        sum += value * times[unit].factor;
        next = unit + 1;
        text += !is_bare;
    } while (*text != '\0');
    *out = sum;
    return 0;
}

int units_read_size(const char *text, uint64_t max_bytes, uint64_t *out)
{
    static const char *const endings[] = {"", "i", "iB"};
    uint64_t value = 0, factor = 1;
    if (read_digits(&text, &value) != 0) {
        return ERR_MALFORMED;
    }
    size_t unit = find(sizes, 0, SIZE_COUNT, *text), ending = 0;
    if (unit < SIZE_COUNT) {
        factor = sizes[unit].factor;
        text++;
        while (ending < 3 && strcmp(text, endings[ending]) != 0) {
            ending++;
        }
    }
    bool is_good = unit < SIZE_COUNT ? ending < 3 : *text == '\0' || strcmp(text, "B") == 0;
    if (!is_good || value > max_bytes / factor) {
        return ERR_MALFORMED;
    }
    *out = value * factor;
    return 0;
}

void units_write_time(char out[UNITS_BYTES], uint64_t seconds)
{
    size_t used = 0;
    (void)snprintf(out, UNITS_BYTES, "%" PRIu64, seconds);
    for (size_t i = 0; i < TIME_COUNT && seconds > 0; i++) {
        if (seconds >= times[i].factor) {
            used += (size_t)snprintf(out + used, UNITS_BYTES - used, "%" PRIu64 "%c", seconds / times[i].factor, times[i].letter);
            seconds %= times[i].factor;
        }
    }
}

void units_write_size(char out[UNITS_BYTES], uint64_t bytes)
{
    size_t unit = 0;
    while (unit < SIZE_COUNT && (bytes == 0 || bytes % sizes[unit].factor != 0)) {
        unit++;
    }
    if (unit < SIZE_COUNT) {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64 "%c", bytes / sizes[unit].factor, sizes[unit].letter);
    } else {
        (void)snprintf(out, UNITS_BYTES, "%" PRIu64, bytes);
    }
}

/* Records of usage, and the days and months that they count by. */

#include "node/core/facts/inside.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"

#define KEY_USAGE_BYTES 2
#define YEAR_DAYS 365
#define MONTHS 12

/* ---- days and months ----------------------------------------------------------------------------------------------------- */

static bool is_leap(uint32_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* The days from January 1970 to that of the year. */
static uint32_t days_before(uint32_t year)
{
    uint32_t leaps = (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400, first = 1969 / 4 - 1969 / 100 + 1969 / 400;
    return (year - 1970) * YEAR_DAYS + leaps - first;
}

static uint32_t month_days(uint32_t year, uint32_t month)
{
    static const uint8_t days[MONTHS] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month] + (month == 1 && is_leap(year) ? 1u : 0u);
}

uint32_t fact_usage_month(uint32_t day)
{
    uint32_t year = 1970 + day / (YEAR_DAYS + 1), month = 0;
    while (days_before(year + 1) <= day) {
        year++;
    }
    uint32_t rest = day - days_before(year);
    while (rest >= month_days(year, month)) {
        rest -= month_days(year, month++);
    }
    return (year - 1970) * MONTHS + month;
}

uint32_t fact_usage_first_day(uint32_t month)
{
    uint32_t year = 1970 + month / MONTHS, day = days_before(year);
    for (uint32_t before = 0; before < month % MONTHS; before++) {
        day += month_days(year, before);
    }
    return day;
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------- */

static struct fact_usage_row *find_row(struct fact_usage *fact, const char *user, const char *label, const char *model)
{
    for (uint32_t i = 0; i < fact->row_count; i++) {
        struct fact_usage_row *row = &fact->rows[i];
        if (strcmp(row->user, user) == 0 && strcmp(row->label, label) == 0 && strcmp(row->model, model) == 0) {
            return row;
        }
    }
    return NULL;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    return a + b < FACT_USAGE_MS_MAX ? a + b : FACT_USAGE_MS_MAX;
}

void fact_usage_add(struct fact_usage *fact, const struct fact_usage_row *row)
{
    CHECK(row->used_ms <= FACT_USAGE_MS_MAX && row->lost_ms <= FACT_USAGE_MS_MAX);
    bool is_last = row->user[0] == '\0' && row->label[0] == '\0' && row->model[0] == '\0';
    struct fact_usage_row *into = find_row(fact, row->user, row->label, row->model);
    if (into == NULL && !is_last && fact->row_count + 1 >= FACT_USAGE_ROWS_MAX) {
        into = find_row(fact, row->user, "", row->model);
        into = into != NULL ? into : find_row(fact, "", "", "");
        is_last = into == NULL;
    }
    if (into == NULL) {
        CHECK(fact->row_count < FACT_USAGE_ROWS_MAX);
        into = &fact->rows[fact->row_count++];
        *into = *row;
        if (is_last) {
            memset(into, 0, sizeof *into);
        }
        into->used_ms = into->lost_ms = 0;
    }
    into->used_ms = sum(into->used_ms, row->used_ms);
    into->lost_ms = sum(into->lost_ms, row->lost_ms);
    into->lost_ms = into->lost_ms < into->used_ms ? into->lost_ms : into->used_ms;
}

/* ---- records ------------------------------------------------------------------------------------------------------------- */

static uint32_t place_of(enum fact_usage_span span, uint32_t number)
{
    return number % (span == FACT_USAGE_DAY ? FACT_USAGE_DAYS : FACT_USAGE_MONTHS);
}

struct fact_key fact_key_usage(enum fact_usage_span span, uint32_t number)
{
    return (struct fact_key){.bytes = {(uint8_t)span, (uint8_t)place_of(span, number)}, .count = KEY_USAGE_BYTES};
}

int fact_key_read_usage(const struct record *record, enum fact_usage_span *span, uint32_t *place)
{
    if (record->key_bytes != KEY_USAGE_BYTES || record->key[0] >= FACT_USAGE_SPANS) {
        return ERR_MALFORMED;
    }
    *span = (enum fact_usage_span)record->key[0];
    *place = record->key[1];
    return *place < (*span == FACT_USAGE_DAY ? FACT_USAGE_DAYS : FACT_USAGE_MONTHS) ? 0 : ERR_MALFORMED;
}

void fact_usage_pack(struct pack_writer *writer, const struct fact_usage *fact)
{
    pack_array(writer, 2);
    pack_u64(writer, fact->number);
    pack_array(writer, fact->row_count);
    for (uint32_t i = 0; i < fact->row_count; i++) {
        const struct fact_usage_row *row = &fact->rows[i];
        pack_array(writer, 5);
        pack_text(writer, row->user);
        pack_text(writer, row->label);
        pack_text(writer, row->model);
        pack_u64(writer, row->used_ms);
        pack_u64(writer, row->lost_ms);
    }
}

static void read_row(struct pack_reader *reader, struct fact_usage_row *row)
{
    memset(row, 0, sizeof *row);
    uint32_t extra = fact_element_open(reader, 5);
    pack_read_text_copy(reader, row->user, sizeof row->user);
    pack_read_text_copy(reader, row->label, sizeof row->label);
    pack_read_text_copy(reader, row->model, sizeof row->model);
    row->used_ms = pack_read_u64_max(reader, FACT_USAGE_MS_MAX);
    row->lost_ms = pack_read_u64_max(reader, row->used_ms);
    fact_element_close(reader, extra);
}

int fact_usage_read(const struct record *record, struct fact_usage *out)
{
    struct pack_reader reader;
    enum fact_usage_span span;
    uint32_t extra, place;
    fact_body_open(&reader, record, 2, &extra);
    out->number = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    out->row_count = pack_read_array(&reader);
    if (reader.failed || out->row_count > FACT_USAGE_ROWS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->row_count; i++) {
        read_row(&reader, &out->rows[i]);
    }
    bool is_sound = fact_body_close(&reader, extra) == 0 && fact_key_read_usage(record, &span, &place) == 0;
    return is_sound && place == place_of(span, out->number) ? 0 : ERR_MALFORMED;
}

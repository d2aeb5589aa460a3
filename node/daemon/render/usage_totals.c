#include "node/daemon/render/usage_totals.h"

#include <stdio.h>
#include <string.h>

#include "base/bisect.h"
#include "node/daemon/render/put.h"

#define DAY_S 86400u
#define DATE_BYTES 16
#define MONTHS 12

static const char *const words[USAGE_KEYS] = {"user", "label", "model", "node", "day", "month"};

/* ---- what is asked for --------------------------------------------------------------------------------------------------- */

static bool read_word(const char *text, size_t bytes, enum usage_key *out)
{
    for (uint32_t key = 0; key < USAGE_KEYS; key++) {
        if (pack_text_is(text, bytes, words[key])) {
            *out = (enum usage_key)key;
            return true;
        }
    }
    return false;
}

bool usage_wish_read(const char *text, struct usage_wish *out)
{
    bool is_given[USAGE_KEYS] = {false};
    out->by_count = 0;
    for (bool is_last = false; !is_last;) {
        size_t bytes = strcspn(text, ",");
        enum usage_key key;
        if (!read_word(text, bytes, &key) || is_given[key]) {
            return false;
        }
        is_given[key] = true;
        out->by[out->by_count++] = key;
        is_last = text[bytes] == '\0';
        text += bytes + !is_last;
    }
    return true;
}

void usage_wish_since(struct usage_wish *wish, uint64_t since_s, uint64_t now_s)
{
    uint32_t today = (uint32_t)(now_s / DAY_S), since = since_s / DAY_S < today ? (uint32_t)(since_s / DAY_S) : today;
    bool has_days = since_s > 0 && today - since < FACT_USAGE_DAYS;
    wish->span = has_days ? FACT_USAGE_DAY : FACT_USAGE_MONTH;
    wish->since = has_days ? since : since_s > 0 ? fact_usage_month(since) : 0;
}

uint64_t usage_wish_start_s(const struct usage_wish *wish)
{
    return (uint64_t)(wish->span == FACT_USAGE_DAY ? wish->since : fact_usage_first_day(wish->since)) * DAY_S;
}

static bool is_by(const struct usage_wish *wish, enum usage_key key)
{
    bool is_one = false;
    for (uint32_t i = 0; i < wish->by_count; i++) {
        is_one |= wish->by[i] == key;
    }
    return is_one;
}

/* ---- sums ---------------------------------------------------------------------------------------------------------------- */

struct summing {
    const struct usage_wish *wish;
    struct usage_total *totals; /* in order */
    uint32_t count;
};

static int total_order(const struct usage_total *a, const struct usage_total *b)
{
    int order = a->month != b->month ? (a->month < b->month ? -1 : 1) : a->day != b->day ? (a->day < b->day ? -1 : 1) : 0;
    order = order != 0 ? order : strcmp(a->user, b->user);
    order = order != 0 ? order : strcmp(a->label, b->label);
    order = order != 0 ? order : strcmp(a->model, b->model);
    return order != 0 ? order : node_id_compare(a->node, b->node);
}

/* False: there is no room. */
static bool add(struct summing *summing, const struct usage_total *part)
{
    struct bisection search = bisect_all(summing->count);
    while (bisect_next(&search)) {
        bisect_answer(&search, total_order(&summing->totals[search.middle], part) < 0);
    }
    struct usage_total *at = &summing->totals[search.low];
    if (search.low == summing->count || total_order(at, part) != 0) {
        if (summing->count == USAGE_TOTALS_MAX) {
            return false;
        }
        memmove(at + 1, at, (summing->count - search.low) * sizeof *at);
        summing->count++;
        *at = *part;
        return true;
    }
    at->used_ms += part->used_ms;
    at->lost_ms += part->lost_ms;
    return true;
}

static bool sum_record(void *context, const struct records_entry *entry)
{
    struct summing *summing = context;
    const struct usage_wish *wish = summing->wish;
    struct fact_usage fact;
    enum fact_usage_span span;
    uint32_t place;
    if (entry->record.kind != FACT_USAGE || fact_usage_read(&entry->record, &fact) != 0 ||
        fact_key_read_usage(&entry->record, &span, &place) != 0 || span != wish->span || fact.number < wish->since) {
        return true;
    }
    for (uint32_t i = 0; i < fact.row_count; i++) {
        const struct fact_usage_row *row = &fact.rows[i];
        struct usage_total part = {.used_ms = row->used_ms, .lost_ms = row->lost_ms};
        uint32_t month = span == FACT_USAGE_DAY ? fact_usage_month(fact.number) : fact.number;
        memcpy(part.user, row->user, is_by(wish, USAGE_USER) ? sizeof part.user : 0);
        memcpy(part.label, row->label, is_by(wish, USAGE_LABEL) ? sizeof part.label : 0);
        memcpy(part.model, row->model, is_by(wish, USAGE_MODEL) ? sizeof part.model : 0);
        part.node = is_by(wish, USAGE_NODE) ? entry->record.writer : part.node;
        part.day = is_by(wish, USAGE_DAY) ? fact.number : 0;
        part.month = is_by(wish, USAGE_MONTH) ? month : 0;
        if (!add(summing, &part)) {
            summing->count = USAGE_TOTALS_MAX + 1;
            return false;
        }
    }
    return true;
}

/* ---- the document -------------------------------------------------------------------------------------------------------- */

/* "2026-11-29", or "2026-11" of a month. */
static void date_of(uint32_t day, uint32_t month, bool is_month, char out[DATE_BYTES])
{
    uint32_t of = is_month ? month : fact_usage_month(day);
    int used = snprintf(out, DATE_BYTES, "%04u-%02u", (1970 + of / MONTHS) % 10000, of % MONTHS + 1);
    if (!is_month) {
        (void)snprintf(out + used, DATE_BYTES - (size_t)used, "-%02u", (day - fact_usage_first_day(of) + 1) % 100);
    }
}

static void put_key(const struct node_core *core, enum usage_key key, const struct usage_total *total, msgpack_packer *packer)
{
    char date[DATE_BYTES];
    switch (key) {
    case USAGE_USER:
        render_put_text(packer, words[key], total->user);
        break;
    case USAGE_LABEL:
        render_put_text(packer, words[key], total->label);
        break;
    case USAGE_MODEL:
        render_put_text(packer, words[key], total->model);
        break;
    case USAGE_NODE:
        render_put_string(packer, words[key]);
        render_put_node_id(packer, total->node);
        render_put_text(packer, "node_label", render_node_label(core, total->node).text);
        break;
    case USAGE_DAY:
    case USAGE_MONTH:
        date_of(total->day, total->month, key == USAGE_MONTH, date);
        render_put_text(packer, words[key], date);
        break;
    case USAGE_KEYS:
        break;
    }
}

static void put_seconds(const char *key, uint64_t ms, msgpack_packer *packer)
{
    render_put_string(packer, key);
    (void)msgpack_pack_double(packer, (double)ms / 1000);
}

/* Living nodes of versions that do not count: what their slots do is in no sum. */
static void put_uncounted(const struct node_core *core, msgpack_packer *packer)
{
    const struct view *view = node_core_view(core);
    struct render_list list = render_list_open(packer);
    for (uint32_t i = 0; i < view->member_count; i++) {
        const struct view_member *member = view->members[i];
        if ((member->reads & FACT_READS_USAGE) == 0 && node_core_is_alive(core, member->id)) {
            render_put_string(packer, render_node_label(core, member->id).text);
            (void)render_list_took_row(&list);
        }
    }
    render_list_close(&list);
}

bool render_usage_totals(const struct node_core *core, const struct usage_wish *wish, struct usage_total *totals,
                         struct pack_writer *frame)
{
    struct summing summing = {.wish = wish, .totals = totals};
    records_each(node_core_records(core), sum_record, &summing);
    if (summing.count > USAGE_TOTALS_MAX) {
        return false;
    }
    msgpack_packer packer = render_packer(frame);
    render_put_string(&packer, "by");
    (void)msgpack_pack_array(&packer, wish->by_count);
    for (uint32_t i = 0; i < wish->by_count; i++) {
        render_put_string(&packer, words[wish->by[i]]);
    }
    render_put_text(&packer, "span", wish->span == FACT_USAGE_DAY ? "day" : "month");
    render_put_u64(&packer, "since_s", usage_wish_start_s(wish));
    render_put_string(&packer, "usage");
    (void)msgpack_pack_array(&packer, summing.count);
    for (uint32_t i = 0; i < summing.count; i++) {
        (void)msgpack_pack_map(&packer, wish->by_count + 2 + is_by(wish, USAGE_NODE));
        for (uint32_t k = 0; k < wish->by_count; k++) {
            put_key(core, wish->by[k], &totals[i], &packer);
        }
        put_seconds("used_s", totals[i].used_ms, &packer);
        put_seconds("lost_s", totals[i].lost_ms, &packer);
    }
    render_put_string(&packer, "uncounted");
    put_uncounted(core, &packer);
    return true;
}

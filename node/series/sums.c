#include "node/series/sums.h"

#include <math.h> /* for isnan; none of its functions is called */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"

#define GROUPS_MAX 256
#define METRIC_BYTES 96 /* of a packed metric, without its name */
#define GROUP_HEAD_BYTES 512

void sums_clear(struct sums *sums)
{
    if (sums->cells != NULL) {
        memset(sums->cells, 0, sums->cell_count * sizeof *sums->cells);
    }
    sums->group_count = sums->metric_count = 0;
    sums->names_bytes = sums->packed_bytes = 0;
    sums->is_cut = sums->no_memory = false;
}

void sums_free(struct sums *sums)
{
    free(sums->groups);
    free(sums->metrics);
    free(sums->names);
    free(sums->cells);
    *sums = (struct sums){0};
}

/* Makes room for one more row. False: no memory is left, which is noted. */
static bool grow(struct sums *sums, void **rows, uint32_t count, uint32_t *capacity, size_t row_bytes)
{
    if (count < *capacity) {
        return true;
    }
    uint32_t bigger = *capacity == 0 ? 16 : 2 * *capacity;
    void *made = realloc(*rows, bigger * row_bytes);
    if (made == NULL) {
        sums->no_memory = true;
        return false;
    }
    *rows = made;
    *capacity = bigger;
    return true;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* The number of a group; UINT32_MAX: there is no room for another one, which is noted. */
static uint32_t find_group(struct sums *sums, const char *name)
{
    for (uint32_t i = 0; i < sums->group_count; i++) {
        if (strcmp(sums->groups[i].name, name) == 0) {
            return i;
        }
    }
    void *rows = sums->groups;
    if (sums->group_count == GROUPS_MAX) {
        sums->is_cut = true;
        return UINT32_MAX;
    }
    if (!grow(sums, &rows, sums->group_count, &sums->group_capacity, sizeof *sums->groups)) {
        return UINT32_MAX;
    }
    sums->groups = rows;
    struct sums_group *group = &sums->groups[sums->group_count];
    *group = (struct sums_group){.min_step = UINT64_MAX, .min_generation = UINT64_MAX};
    (void)bytes_copy_text(group->name, sizeof group->name, name);
    return sums->group_count++;
}

static uint32_t cell_of(const struct sums *sums, uint32_t group, const char *name, size_t bytes)
{
    return (uint32_t)bytes_hash64(name, bytes, group) & (sums->cell_count - 1);
}

static bool widen_table(struct sums *sums)
{
    uint32_t count = sums->cell_count == 0 ? 64 : 2 * sums->cell_count;
    uint32_t *cells = calloc(count, sizeof *cells);
    if (cells == NULL) {
        sums->no_memory = true;
        return false;
    }
    free(sums->cells);
    sums->cells = cells;
    sums->cell_count = count;
    for (uint32_t i = 0; i < sums->metric_count; i++) {
        const struct sums_metric *metric = &sums->metrics[i];
        uint32_t at = cell_of(sums, metric->group, sums->names + metric->name_at, metric->name_bytes);
        while (cells[at] != 0) {
            at = (at + 1) & (count - 1);
        }
        cells[at] = i + 1;
    }
    return true;
}

static bool keep_name(struct sums *sums, const char *name, size_t bytes)
{
    if (sums->names_bytes + bytes > sums->names_capacity) {
        size_t bigger = 2 * sums->names_capacity + SUMS_NAME_BYTES;
        char *names = realloc(sums->names, bigger);
        if (names == NULL) {
            sums->no_memory = true;
            return false;
        }
        sums->names = names;
        sums->names_capacity = bigger;
    }
    memcpy(sums->names + sums->names_bytes, name, bytes);
    sums->names_bytes += bytes;
    return true;
}

/* The metric with this name; NULL: there is no room for another one, which is noted. */
static struct sums_metric *find_metric(struct sums *sums, uint32_t group, const char *name, size_t bytes)
{
    if (2 * (sums->metric_count + 1) > sums->cell_count && !widen_table(sums)) {
        return NULL;
    }
    uint32_t at = cell_of(sums, group, name, bytes);
    for (; sums->cells[at] != 0; at = (at + 1) & (sums->cell_count - 1)) {
        struct sums_metric *metric = &sums->metrics[sums->cells[at] - 1];
        if (metric->group == group && metric->name_bytes == bytes &&
            memcmp(sums->names + metric->name_at, name, bytes) == 0) {
            return metric;
        }
    }
    if (sums->packed_bytes + bytes + METRIC_BYTES > SUMS_BYTES_MAX) {
        sums->is_cut = true;
        return NULL;
    }
    void *rows = sums->metrics;
    if (!grow(sums, &rows, sums->metric_count, &sums->metric_capacity, sizeof *sums->metrics)) {
        return NULL;
    }
    sums->metrics = rows;
    size_t name_at = sums->names_bytes;
    if (!keep_name(sums, name, bytes)) {
        return NULL;
    }
    sums->packed_bytes += bytes + METRIC_BYTES;
    struct sums_metric *metric = &sums->metrics[sums->metric_count++];
    *metric = (struct sums_metric){.group = group, .name_at = (uint32_t)name_at, .name_bytes = (uint32_t)bytes};
    sums->cells[at] = sums->metric_count;
    return metric;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_to_group(struct sums_group *group, const struct sums_group *later)
{
    if (later->count == 0) {
        return;
    }
    group->first_step = group->count == 0 ? later->first_step : group->first_step;
    group->last_step = later->last_step;
    group->min_step = least(group->min_step, later->min_step);
    group->max_step = most(group->max_step, later->max_step);
    group->first_ms = group->first_ms == 0 ? later->first_ms : group->first_ms;
    group->last_ms = later->last_ms != 0 ? later->last_ms : group->last_ms;
    group->min_generation = least(group->min_generation, later->min_generation);
    group->max_generation = most(group->max_generation, later->max_generation);
    group->count += later->count;
}

static void add_to_metric(struct sums_metric *metric, const struct sums_metric *later)
{
    uint64_t had = metric->count - metric->nans, has = later->count - later->nans;
    if (has > 0) {
        metric->min = had == 0 || later->min < metric->min ? later->min : metric->min;
        metric->max = had == 0 || later->max > metric->max ? later->max : metric->max;
        metric->sum = had == 0 ? later->sum : metric->sum + later->sum;
    }
    metric->last = later->last;
    metric->count += later->count;
    metric->nans += later->nans;
}

static uint64_t number_at(const struct pack_reader *map, const char *key, uint64_t otherwise)
{
    struct pack_reader value = pack_find(map, key);
    uint64_t number = pack_read_u64(&value);
    return value.failed ? otherwise : number;
}

bool sums_look(const uint8_t *bytes, size_t count, uint64_t *generation, uint64_t *step)
{
    struct pack_reader map;
    pack_reader_init(&map, bytes, count);
    if (pack_peek(&map) != PACK_MAP) {
        return false;
    }
    struct pack_reader value = pack_find(&map, "step");
    *step = pack_read_u64(&value);
    *generation = number_at(&map, "generation", SUMS_UNKNOWN);
    return !value.failed;
}

void sums_add_point(struct sums *sums, const uint8_t *bytes, size_t count)
{
    uint64_t generation, step;
    if (!sums_look(bytes, count, &generation, &step)) {
        return;
    }
    struct pack_reader map;
    pack_reader_init(&map, bytes, count);
    struct pack_reader text = pack_find(&map, "group"), metrics = pack_find(&map, "metrics");
    char name[SUMS_GROUP_BYTES];
    pack_read_text_copy(&text, name, sizeof name);
    uint32_t pairs = pack_read_map(&metrics);
    uint32_t group = text.failed || metrics.failed ? UINT32_MAX : find_group(sums, name);
    if (group == UINT32_MAX) {
        return;
    }
    uint64_t wall_ms = number_at(&map, "wall_ms", 0);
    struct sums_group point = {.count = 1, .first_step = step, .last_step = step, .min_step = step, .max_step = step,
                               .first_ms = wall_ms, .last_ms = wall_ms, .min_generation = generation,
                               .max_generation = generation};
    add_to_group(&sums->groups[group], &point);
    for (uint32_t i = 0; i < pairs; i++) {
        size_t length;
        const char *metric_name = pack_read_text(&metrics, &length);
        double value = pack_read_double(&metrics);
        if (metrics.failed) {
            return;
        }
        struct sums_metric *metric = length < SUMS_NAME_BYTES ? find_metric(sums, group, metric_name, length) : NULL;
        if (metric != NULL) {
            struct sums_metric one = {.count = 1, .nans = isnan(value) ? 1u : 0u, .min = value, .max = value, .sum = value,
                                      .last = value};
            add_to_metric(metric, &one);
        }
    }
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

#define PART_VALUES 11
#define METRIC_VALUES 6

static bool read_head(struct pack_reader *part, struct sums_group *out, bool *is_cut)
{
    bool is_part = pack_read_array(part) == PART_VALUES + 1;
    pack_read_text_copy(part, out->name, sizeof out->name);
    *is_cut = pack_read_bool(part);
    out->count = pack_read_u64(part);
    out->first_step = pack_read_u64(part);
    out->last_step = pack_read_u64(part);
    out->min_step = pack_read_u64(part);
    out->max_step = pack_read_u64(part);
    out->first_ms = pack_read_u64(part);
    out->last_ms = pack_read_u64(part);
    out->min_generation = pack_read_u64(part);
    out->max_generation = pack_read_u64(part);
    return is_part && !part->failed;
}

bool sums_look_part(const uint8_t *bytes, size_t count, struct sums_group *out)
{
    struct pack_reader part;
    bool is_cut;
    pack_reader_init(&part, bytes, count);
    return read_head(&part, out, &is_cut);
}

bool sums_add_part(struct sums *sums, const uint8_t *bytes, size_t count)
{
    struct pack_reader part;
    struct sums_group head;
    bool is_cut;
    pack_reader_init(&part, bytes, count);
    if (!read_head(&part, &head, &is_cut)) {
        return false;
    }
    uint32_t group = find_group(sums, head.name);
    if (group == UINT32_MAX) {
        return true;
    }
    sums->is_cut |= is_cut;
    add_to_group(&sums->groups[group], &head);
    uint32_t pairs = pack_read_map(&part);
    for (uint32_t i = 0; i < pairs && !part.failed; i++) {
        size_t length;
        const char *name = pack_read_text(&part, &length);
        struct sums_metric later = {0};
        bool is_metric = pack_read_array(&part) == METRIC_VALUES;
        later.count = pack_read_u64(&part);
        later.nans = pack_read_u64(&part);
        later.min = pack_read_double(&part);
        later.max = pack_read_double(&part);
        later.sum = pack_read_double(&part);
        later.last = pack_read_double(&part);
        if (!is_metric || part.failed || later.nans > later.count || length >= SUMS_NAME_BYTES) {
            return false;
        }
        struct sums_metric *metric = find_metric(sums, group, name, length);
        if (metric != NULL) {
            add_to_metric(metric, &later);
        }
    }
    return pack_at_end(&part);
}

static void pack_head(struct pack_writer *writer, const struct sums *sums, const struct sums_group *group, bool is_first)
{
    pack_array(writer, PART_VALUES + 1);
    pack_text(writer, group->name);
    pack_bool(writer, sums->is_cut);
    pack_u64(writer, is_first ? group->count : 0); /* a later part of the group adds metrics only */
    pack_u64(writer, group->first_step);
    pack_u64(writer, group->last_step);
    pack_u64(writer, group->min_step);
    pack_u64(writer, group->max_step);
    pack_u64(writer, group->first_ms);
    pack_u64(writer, group->last_ms);
    pack_u64(writer, group->min_generation);
    pack_u64(writer, group->max_generation);
}

static void pack_metric(struct pack_writer *writer, const struct sums *sums, const struct sums_metric *metric)
{
    pack_text_n(writer, sums->names + metric->name_at, metric->name_bytes);
    pack_array(writer, METRIC_VALUES);
    pack_u64(writer, metric->count);
    pack_u64(writer, metric->nans);
    pack_double(writer, metric->min);
    pack_double(writer, metric->max);
    pack_double(writer, metric->sum);
    pack_double(writer, metric->last);
}

static void show_double(struct pack_writer *writer, const char *key, double value)
{
    pack_text(writer, key);
    pack_double(writer, value);
}

static void show_metric(struct pack_writer *writer, const struct sums *sums, const struct sums_metric *metric)
{
    uint64_t numbers = metric->count - metric->nans;
    double none = (double)NAN;
    pack_text_n(writer, sums->names + metric->name_at, metric->name_bytes);
    pack_map(writer, 5 + (metric->nans > 0));
    pack_text(writer, "count");
    pack_u64(writer, metric->count);
    show_double(writer, "min", numbers > 0 ? metric->min : none);
    show_double(writer, "max", numbers > 0 ? metric->max : none);
    show_double(writer, "mean", numbers > 0 ? metric->sum / (double)numbers : none);
    show_double(writer, "last", metric->last);
    if (metric->nans > 0) {
        pack_text(writer, "nan");
        pack_u64(writer, metric->nans);
    }
}

static void show_number(struct pack_writer *writer, const char *key, uint64_t value)
{
    pack_text(writer, key);
    pack_u64(writer, value);
}

static void show_head(struct pack_writer *writer, const struct sums *sums, const struct sums_group *group, uint64_t width, bool is_void)
{
    bool has_generation = group->max_generation != SUMS_UNKNOWN, has_time = group->last_ms != 0;
    pack_map(writer, 6u + has_generation + (has_time ? 2u : 0u) + is_void + sums->is_cut);
    if (has_generation) {
        show_number(writer, "generation", group->max_generation);
    }
    show_number(writer, "step", group->last_step);
    show_number(writer, "first_step", group->first_step);
    if (has_time) {
        show_number(writer, "wall_ms", group->last_ms);
        show_number(writer, "first_wall_ms", group->first_ms);
    }
    show_number(writer, "width", width);
    show_number(writer, "count", group->count);
    if (is_void) {
        pack_text(writer, "void");
        pack_bool(writer, true);
    }
    if (sums->is_cut) {
        pack_text(writer, "cut");
        pack_bool(writer, true);
    }
    pack_text(writer, "group");
    pack_text(writer, group->name);
    pack_text(writer, "metrics");
}

/* How sums are written. */
struct form {
    bool is_shown, is_void;
    uint64_t width;
};

/* Writes the metrics of a group from `*from` on as far as one part goes, and sets `*from` behind them; returns their number. */
static uint32_t write_part(struct pack_writer *writer, const struct sums *sums, uint32_t group, uint32_t *from, bool is_first,
                           const struct form *form)
{
    size_t bytes = 0;
    uint32_t end = *from, pairs = 0;
    for (; end < sums->metric_count && bytes < SUMS_PART_BYTES; end++) {
        bool is_of = sums->metrics[end].group == group;
        pairs += is_of;
        bytes += is_of ? sums->metrics[end].name_bytes + METRIC_BYTES : 0;
    }
    if (form->is_shown) {
        show_head(writer, sums, &sums->groups[group], form->width, form->is_void);
    } else {
        pack_head(writer, sums, &sums->groups[group], is_first);
    }
    pack_map(writer, pairs);
    for (; *from < end; ++*from) {
        const struct sums_metric *metric = &sums->metrics[*from];
        if (metric->group == group) {
            (form->is_shown ? show_metric : pack_metric)(writer, sums, metric);
        }
    }
    return pairs;
}

static int write_parts(const struct sums *sums, const struct form *form, sums_put_fn *put, void *context)
{
    size_t capacity = SUMS_PART_BYTES + SUMS_NAME_BYTES + METRIC_BYTES + GROUP_HEAD_BYTES;
    uint8_t *bytes = malloc(capacity);
    int code = bytes == NULL || sums->no_memory ? ERR_MEMORY : 0;
    for (uint32_t group = 0; group < sums->group_count && code == 0; group++) {
        uint32_t from = 0;
        do {
            struct pack_writer writer;
            bool is_first = from == 0;
            pack_writer_init(&writer, bytes, capacity);
            uint32_t pairs = write_part(&writer, sums, group, &from, is_first, form);
            code = writer.failed ? ERR_FULL : pairs > 0 || is_first ? put(context, bytes, writer.used_bytes) : 0;
        } while (code == 0 && from < sums->metric_count);
    }
    free(bytes);
    return code;
}

int sums_pack(const struct sums *sums, sums_put_fn *put, void *context)
{
    struct form form = {.is_shown = false};
    return write_parts(sums, &form, put, context);
}

int sums_show(const struct sums *sums, uint64_t width, bool is_void, sums_put_fn *put, void *context)
{
    struct form form = {.is_shown = true, .is_void = is_void, .width = width};
    return write_parts(sums, &form, put, context);
}

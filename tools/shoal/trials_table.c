/* The table of trials, as wide as the terminal. */

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/visible.h"
#include "tools/shoal/print.h"
#include "tools/shoal/trials.h"

#define HEADS_MAX 48
#define HEAD_WIDTH_MAX 16
#define CELL_WIDTH_MAX 18
#define SLOTS_WIDTH_MAX 32
#define DESCRIPTION_WIDTH_MAX 48
#define NAME_BYTES 128 /* of a metric, with its NUL */
#define TEXT_BYTES 512

/* What stands in one column. */
struct head {
    enum trials_column column;
    const struct parameter *parameter;         /* TRIALS_PARAMETERS */
    char group[NAME_BYTES], metric[NAME_BYTES]; /* TRIALS_METRICS */
    char text[TEXT_BYTES];
};

struct heads {
    size_t count;
    struct head items[HEADS_MAX];
};

static const char *const column_names[] = {"trial",   "state",   "step", "value", "best",    "curve",      "left",   "params",
                                           "elapsed", "rate",    "metrics", "checkpoint", "slots",  "attempt",    "restarts",
                                           "description"};
_Static_assert(sizeof column_names / sizeof column_names[0] == TRIALS_COLUMNS, "each column has its name");

/* ---- texts --------------------------------------------------------------------------------------------------------- */

void trials_cut(const char *text, size_t width, bool utf8, char *out, size_t size)
{
    const char *ellipsis = utf8 ? "…" : "...";
    size_t ellipsis_width = utf8 ? 1 : 3;
    if (width == 0 || render_width(text) <= width) {
        (void)snprintf(out, size, "%s", text);
        return;
    }
    size_t kept = render_fit(text, width > ellipsis_width ? width - ellipsis_width : 0);
    (void)snprintf(out, size, "%.*s%s", (int)kept, text, ellipsis);
}

void trials_time(char out[RENDER_UNIT_BYTES], uint64_t seconds)
{
    unsigned long long s = seconds;
    if (s < 60) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llus", s);
    } else if (s < 3600) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llum%02llus", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%lluh%02llum", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llud%02lluh", s / 86400, s / 3600 % 24);
    }
}

void trials_checkpoint(const msgpack_object *checkpoint, uint64_t replicas, char *out, size_t size)
{
    unsigned long long copies = document_list(checkpoint, "holders").size, step = document_number(checkpoint, "step");
    bool lacks_copies = !document_true(checkpoint, "durable") && copies < replicas;
    int used = snprintf(out, size, document_has(checkpoint, "step") ? "step %llu, on " : "on ", step);
    if (used < 0 || (size_t)used >= size) {
        return;
    }
    if (lacks_copies) {
        (void)snprintf(out + used, size - (size_t)used, "%llu of %llu nodes so far", copies, (unsigned long long)replicas);
    } else {
        (void)snprintf(out + used, size - (size_t)used, "%llu node%s", copies, copies == 1 ? "" : "s");
    }
}

static void write_rate(double rate, char out[RENDER_UNIT_BYTES])
{
    (void)snprintf(out, RENDER_UNIT_BYTES, rate >= 100 ? "%.0f" : rate >= 10 ? "%.1f" : rate >= 1 ? "%.2f" : "%.2g", rate);
}

static void write_value(const msgpack_object *value, char *out, size_t size)
{
    if (value->type == MSGPACK_OBJECT_FLOAT32 || value->type == MSGPACK_OBJECT_FLOAT64) {
        (void)snprintf(out, size, "%.5g", value->via.f64);
    } else if (value->type == MSGPACK_OBJECT_NIL) {
        (void)snprintf(out, size, "-");
    } else {
        document_value(value, out, size);
    }
}

static void write_slots(const msgpack_object *row, char *out, size_t size)
{
    msgpack_object_array list = document_list(row, "slots");
    size_t used = 0;
    (void)snprintf(out, size, "-");
    for (uint32_t i = 0; i < list.size && used < size; i++) {
        char name[128];
        document_node(&list.ptr[i], "node_name", name, sizeof name);
        used += (size_t)snprintf(out + used, size - used, "%s%s:%llu", used > 0 ? " " : "", name,
                                 (unsigned long long)document_number(&list.ptr[i], "index"));
    }
}

/* Names and values are cut on a terminal only: other programs read the whole. */
static size_t limit_of(const struct trials_style *style, size_t width)
{
    return style->width > 0 ? width : 0;
}

/* ---- columns ------------------------------------------------------------------------------------------------------- */

bool trials_choose(const char *text, struct trials_choice *out, const char **wrong)
{
    out->count = 0;
    for (const char *at = text; *at != '\0';) {
        size_t bytes = strcspn(at, ","), c = 0;
        while (c < TRIALS_COLUMNS && (strlen(column_names[c]) != bytes || strncmp(column_names[c], at, bytes) != 0)) {
            c++;
        }
        if (c == TRIALS_COLUMNS || out->count == TRIALS_COLUMNS) {
            *wrong = at;
            return false;
        }
        out->columns[out->count++] = (enum trials_column)c;
        at += bytes + (at[bytes] == ',');
    }
    *wrong = text;
    return out->count > 0;
}

/* Screens are narrow. */
static const char *short_group(const char *group)
{
    return strcmp(group, "validation") == 0 ? "val" : strcmp(group, "training") == 0 ? "train" : group;
}

static void set_head(struct head *head, const char *text, const struct trials_style *style)
{
    trials_cut(text, limit_of(style, HEAD_WIDTH_MAX), style->utf8, head->text, sizeof head->text);
}

static void set_metric_head(struct head *head, const struct trials_style *style)
{
    char both[2 * NAME_BYTES], visible[4 * NAME_BYTES];
    (void)snprintf(both, sizeof both, "%s/%s", short_group(head->group), head->metric);
    (void)visible_text(visible, sizeof visible, both);
    set_head(head, visible, style);
}

static struct head *add_head(struct heads *heads, enum trials_column column, const char *text)
{
    if (heads->count == HEADS_MAX) {
        return NULL;
    }
    struct head *head = &heads->items[heads->count++];
    memset(head, 0, sizeof *head);
    head->column = column;
    (void)bytes_copy_text(head->text, sizeof head->text, text);
    return head;
}

static void add_parameters(struct heads *heads, const struct trials *trials, const struct trials_style *style)
{
    for (size_t i = 0; i < trials->parameter_count; i++) {
        char name[TEXT_BYTES / 2];
        struct head *head = trials->parameters[i].differs ? add_head(heads, TRIALS_PARAMETERS, "") : NULL;
        if (head != NULL) {
            head->parameter = &trials->parameters[i];
            parameter_name(head->parameter, name, sizeof name);
            set_head(head, name, style);
        }
    }
}

/* Copies a key as it is, for a look-up; cut at `size`. */
static void copy_key(const msgpack_object *key, char *out, size_t size)
{
    size_t bytes = key->type == MSGPACK_OBJECT_STR ? key->via.str.size : 0;
    bytes = bytes < size ? bytes : size - 1;
    memcpy(out, bytes > 0 ? key->via.str.ptr : "", bytes);
    out[bytes] = '\0';
}

static bool has_metric(const struct heads *heads, const char *group, const char *name)
{
    for (size_t i = 0; i < heads->count; i++) {
        const struct head *head = &heads->items[i];
        if (head->column == TRIALS_METRICS && strcmp(head->group, group) == 0 && strcmp(head->metric, name) == 0) {
            return true;
        }
    }
    return false;
}

static void add_metrics_of(struct heads *heads, const struct trials *trials, const msgpack_object *row, const struct trials_style *style)
{
    msgpack_object_map groups = document_pairs(document_find(row, "metrics"));
    for (uint32_t g = 0; g < groups.size; g++) {
        char group[NAME_BYTES], name[NAME_BYTES];
        copy_key(&groups.ptr[g].key, group, sizeof group);
        msgpack_object_map names = document_pairs(&groups.ptr[g].val);
        for (uint32_t n = 0; n < names.size; n++) {
            copy_key(&names.ptr[n].key, name, sizeof name);
            bool is_value = strcmp(group, "validation") == 0 && strcmp(name, trials->metric) == 0;
            struct head *head = is_value || has_metric(heads, group, name) ? NULL : add_head(heads, TRIALS_METRICS, "");
            if (head != NULL) {
                (void)bytes_copy_text(head->group, sizeof head->group, group);
                (void)bytes_copy_text(head->metric, sizeof head->metric, name);
                set_metric_head(head, style);
            }
        }
    }
}

static void add_column(struct heads *heads, const struct trials *trials, enum trials_column column, const struct trials_style *style)
{
    static const char *const texts[] = {[TRIALS_TRIAL] = "TRIAL",     [TRIALS_STATE] = "STATE",           [TRIALS_STEP] = "STEP",
                                        [TRIALS_BEST] = "BEST",       [TRIALS_CURVE] = "CURVE",           [TRIALS_ELAPSED] = "ELAPSED",
                                        [TRIALS_LEFT] = "LEFT",       [TRIALS_CHECKPOINT] = "CHECKPOINT", [TRIALS_SLOTS] = "SLOTS",
                                        [TRIALS_ATTEMPT] = "ATTEMPT", [TRIALS_RESTARTS] = "RESTARTS",     [TRIALS_DESCRIPTION] = "DESCRIPTION"};
    if (column == TRIALS_VALUE && trials->metric[0] != '\0') {
        struct head *head = add_head(heads, column, "");
        if (head != NULL) {
            (void)bytes_copy_text(head->group, sizeof head->group, "validation");
            (void)bytes_copy_text(head->metric, sizeof head->metric, trials->metric);
            char visible[4 * NAME_BYTES];
            (void)visible_text(visible, sizeof visible, trials->metric);
            set_head(head, visible, style); /* other columns have their group, too */
        }
    } else if (column == TRIALS_RATE) {
        (void)add_head(heads, column, trials->rates_are_samples ? "SAMPLES/S" : "STEPS/S");
    } else if (column == TRIALS_PARAMETERS) {
        add_parameters(heads, trials, style);
    } else if (column == TRIALS_METRICS) {
        for (size_t i = 0; i < trials->count; i++) {
            add_metrics_of(heads, trials, trials->items[i].row, style);
        }
    } else if (column != TRIALS_VALUE) {
        (void)add_head(heads, column, texts[column]);
    }
}

/* True for a column that nobody misses: no trial has anything to say there. */
static bool says_nothing(const struct trials *trials, enum trials_column column)
{
    bool says = column <= TRIALS_VALUE || column == TRIALS_PARAMETERS || column == TRIALS_METRICS;
    for (size_t i = 0; !says && i < trials->count; i++) {
        const struct trial_facts *facts = &trials->items[i];
        says = column == TRIALS_BEST         ? facts->has_best && facts->has_value && (facts->best < facts->value || facts->best > facts->value)
               : column == TRIALS_CURVE      ? facts->curve != NULL && document_list(facts->curve, "values").size > 1
               : column == TRIALS_ELAPSED    ? facts->has_elapsed
               : column == TRIALS_LEFT       ? facts->has_left
               : column == TRIALS_RATE       ? facts->has_rate
               : column == TRIALS_CHECKPOINT ? document_has(facts->row, "checkpoint")
               : column == TRIALS_SLOTS      ? document_list(facts->row, "slots").size > 0
               : column == TRIALS_ATTEMPT    ? document_number(facts->row, "attempt") > 1
               : column == TRIALS_RESTARTS   ? document_number(facts->row, "restarts") > 0
                                             : document_has(facts->row, "description");
    }
    return !says;
}

static void make_heads(const struct trials *trials, const struct trials_choice *choice, const struct trials_style *style, struct heads *heads)
{
    heads->count = 0;
    for (size_t i = 0; choice->count > 0 && i < choice->count; i++) {
        add_column(heads, trials, choice->columns[i], style);
    }
    for (int c = 0; choice->count == 0 && c < TRIALS_COLUMNS; c++) {
        if (!says_nothing(trials, (enum trials_column)c)) {
            add_column(heads, trials, (enum trials_column)c, style);
        }
    }
}

/* ---- cells --------------------------------------------------------------------------------------------------------- */

static void number_cell(struct table *table, enum render_colour colour, bool is_known, double value)
{
    char text[RENDER_UNIT_BYTES] = "-";
    if (is_known) {
        render_number(text, value);
    }
    table_cell(table, colour, "%s", text);
}

static void time_cell(struct table *table, bool is_known, uint64_t seconds)
{
    char text[RENDER_UNIT_BYTES] = "-";
    if (is_known) {
        trials_time(text, seconds);
    }
    table_cell(table, RENDER_PLAIN, "%s", text);
}

static void text_cell(struct table *table, const char *text, size_t width, const struct trials_style *style)
{
    char cut[TEXT_BYTES];
    trials_cut(text, limit_of(style, width), style->utf8, cut, sizeof cut);
    table_cell(table, RENDER_PLAIN, "%s", cut[0] == '\0' ? "-" : cut);
}

static void metric_cell(struct table *table, const struct head *head, const struct trial_facts *facts)
{
    const msgpack_object *names = document_find(document_find(facts->row, "metrics"), head->group);
    double value;
    bool is_known = document_double(document_find(names, head->metric), &value);
    number_cell(table, RENDER_PLAIN, is_known, is_known ? value : 0);
}

static void checkpoint_cell(struct table *table, const struct trials *trials, const struct trial_facts *facts)
{
    char text[96] = "-";
    const msgpack_object *checkpoint = document_find(facts->row, "checkpoint");
    if (document_has(checkpoint, "step")) {
        trials_checkpoint(checkpoint, trials->replicas, text, sizeof text);
    }
    table_cell(table, RENDER_PLAIN, "%s", text);
}

static void curve_cell(struct table *table, const struct trial_facts *facts, bool utf8)
{
    struct curve_points points;
    char line[CURVE_LINE_BYTES];
    trials_points(facts, &points);
    curve_line(&points, utf8, line);
    table_cell(table, RENDER_PLAIN, "%s", line);
}

static void add_cell(struct table *table, const struct trials *trials, const struct trial_facts *facts, const struct head *head, bool is_marked,
                     const struct trials_style *style)
{
    char text[TEXT_BYTES];
    switch (head->column) {
    case TRIALS_TRIAL:
        table_cell(table, facts->is_best ? RENDER_GREEN : RENDER_PLAIN, "%s%s%llu", is_marked ? ">" : "", facts->is_best ? "*" : "",
                   (unsigned long long)facts->index);
        break;
    case TRIALS_STATE:
        table_cell(table, render_state_colour(facts->state), "%s", facts->state);
        break;
    case TRIALS_STEP:
    case TRIALS_ATTEMPT:
    case TRIALS_RESTARTS:
        print_cell_text(table, facts->row, column_names[head->column]);
        break;
    case TRIALS_VALUE:
        number_cell(table, facts->is_best ? RENDER_GREEN : RENDER_PLAIN, facts->has_value, facts->value);
        break;
    case TRIALS_BEST:
        number_cell(table, RENDER_PLAIN, facts->has_best, facts->best);
        break;
    case TRIALS_CURVE:
        curve_cell(table, facts, style->utf8);
        break;
    case TRIALS_PARAMETERS:
        write_value(parameter_value(head->parameter, document_find(facts->row, "hyperparameters")), text, sizeof text);
        text_cell(table, text, CELL_WIDTH_MAX, style);
        break;
    case TRIALS_ELAPSED:
        time_cell(table, facts->has_elapsed, facts->elapsed_s);
        break;
    case TRIALS_LEFT:
        time_cell(table, facts->has_left, facts->left_s);
        break;
    case TRIALS_RATE:
        write_rate(facts->rate, text);
        table_cell(table, RENDER_PLAIN, "%s", facts->has_rate ? text : "-");
        break;
    case TRIALS_METRICS:
        metric_cell(table, head, facts);
        break;
    case TRIALS_CHECKPOINT:
        checkpoint_cell(table, trials, facts);
        break;
    case TRIALS_SLOTS:
        write_slots(facts->row, text, sizeof text);
        text_cell(table, text, SLOTS_WIDTH_MAX, style);
        break;
    case TRIALS_DESCRIPTION:
        document_text(facts->row, "description", text, sizeof text);
        text_cell(table, text, DESCRIPTION_WIDTH_MAX, style);
        break;
    case TRIALS_COLUMNS:
        break;
    }
}

static bool is_to_the_right(const struct head *head)
{
    enum trials_column column = head->column;
    return column != TRIALS_STATE && column != TRIALS_CURVE && column != TRIALS_CHECKPOINT && column != TRIALS_SLOTS &&
           column != TRIALS_DESCRIPTION;
}

void trials_write(FILE *out, const struct trials_style *style, const struct trials *trials, const struct trials_choice *choice,
                  size_t first, size_t rows, size_t marked)
{
    struct heads *heads = trials->count > 0 ? malloc(sizeof *heads) : NULL;
    if (heads == NULL) {
        return;
    }
    struct table table = {0};
    make_heads(trials, choice, style, heads);
    for (size_t c = 0; c < heads->count; c++) {
        table_column(&table, heads->items[c].text, is_to_the_right(&heads->items[c]));
    }
    for (size_t i = first; i < trials->count && i - first < rows; i++) {
        for (size_t c = 0; c < heads->count; c++) {
            add_cell(&table, trials, &trials->items[i], &heads->items[c], i == marked, style);
        }
    }
    if (style->width > 0) {
        table_narrow(&table, style->width);
    }
    table_write(&table, out, style->colours);
    free(heads);
}

void trials_pairs(const struct trials *trials, const struct trial_facts *facts, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < trials->parameter_count && used < size; i++) {
        const struct parameter *parameter = &trials->parameters[i];
        const msgpack_object *value = parameter_value(parameter, document_find(facts->row, "hyperparameters"));
        char name[TEXT_BYTES / 2], text[TEXT_BYTES];
        if (!parameter->differs || value->type == MSGPACK_OBJECT_NIL) {
            continue;
        }
        parameter_name(parameter, name, sizeof name);
        write_value(value, text, sizeof text);
        used += (size_t)snprintf(out + used, size - used, "%s%s=%s", used > 0 ? " " : "", name, text);
    }
}

void trials_write_constants(FILE *out, const struct trials_style *style, const struct trials *trials, size_t lines)
{
    const char *intro = trials->count > 1 ? "in all trials:" : "hyperparameters:";
    size_t used = 0, line = 1, left_out = 0;
    for (size_t i = 0; i < trials->parameter_count; i++) {
        const struct parameter *parameter = &trials->parameters[i];
        char name[TEXT_BYTES / 2], value[TEXT_BYTES], cut[TEXT_BYTES], pair[2 * TEXT_BYTES];
        if (parameter->differs) {
            continue;
        }
        parameter_name(parameter, name, sizeof name);
        write_value(parameter->value, value, sizeof value);
        trials_cut(value, limit_of(style, 3 * CELL_WIDTH_MAX), style->utf8, cut, sizeof cut);
        (void)snprintf(pair, sizeof pair, " %s=%s", name, cut);
        size_t width = render_width(pair);
        bool is_full = used > 0 && style->width > 0 && used + width > style->width;
        if (is_full && line == lines) {
            left_out++;
            continue;
        }
        if (used == 0 || is_full) {
            line += is_full;
            (void)fprintf(out, "%s%s", is_full ? "\n" : "", used == 0 ? intro : "  ");
            used = used == 0 ? strlen(intro) : 2;
        }
        (void)fputs(pair, out);
        used += width;
    }
    if (left_out > 0) {
        (void)fprintf(out, " and %zu more", left_out);
    }
    if (used > 0) {
        (void)fputc('\n', out);
    }
}

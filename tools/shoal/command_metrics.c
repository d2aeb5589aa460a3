/* metrics: the points that trials have reported, or of their profiles, as lines, JSON or CSV; each point, or sums over many. */

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/document.h"
#include "base/number.h"
#include "base/visible.h"
#include "tools/shoal/client.h"
#include "tools/shoal/target.h"

#define POINTS_MAX 10000
#define NAME_BYTES 144 /* of a metric or a column */
#define X_CURVES_MAX 64 /* groups of attempts whose last value of --x is remembered */
#define TIME_BYTES 40

/* What the user wants. */
struct metrics_wish {
    bool shows_void, is_csv, wants_profile, follow;
    uint64_t points; /* 0: each point */
    const char *x;   /* NULL: no x */
};

/* The last value of the metric that --x names, of one group in one attempt. */
struct curve {
    uint64_t trial, attempt;
    char group[64];
    double x;
};

/* The columns of metrics, in the order in which they were seen. */
struct columns {
    char (*names)[NAME_BYTES];
    uint32_t count, capacity;
    uint32_t next; /* where the next name probably is: points mostly have the names of the point before */
};

/* Points on their way to the user. */
struct metrics_writer {
    struct cli *cli;
    const struct metrics_wish *wish;
    struct curve curves[X_CURVES_MAX];
    uint32_t curve_count, curve_next;
    struct columns columns;
    FILE *rows; /* CSV: the rows so far, since the columns are known at the end only */
    bool has_any, has_x, is_cut;
};

/* ---- x ----------------------------------------------------------------------------------------------------------- */

static struct curve *curve_of(struct metrics_writer *writer, const msgpack_object *point)
{
    struct curve wanted = {.trial = document_number(point, "trial"), .attempt = document_number(point, "attempt"), .x = (double)NAN};
    document_text(point, "group", wanted.group, sizeof wanted.group);
    for (uint32_t i = 0; i < writer->curve_count; i++) {
        struct curve *curve = &writer->curves[i];
        if (curve->trial == wanted.trial && curve->attempt == wanted.attempt && strcmp(curve->group, wanted.group) == 0) {
            return curve;
        }
    }
    struct curve *made = &writer->curves[writer->curve_next];
    writer->curve_next = (writer->curve_next + 1) % X_CURVES_MAX;
    writer->curve_count += writer->curve_count < X_CURVES_MAX;
    *made = wanted;
    return made;
}

/* The value of a metric: of sums the last one. */
static bool value_of(const msgpack_object *metrics, const char *name, double *out)
{
    const msgpack_object *value = document_find(metrics, name);
    return document_double(value->type == MSGPACK_OBJECT_MAP ? document_find(value, "last") : value, out);
}

/* Finds the x of a point: the step, the time in s, or a metric of the point's group, else its last value there. False: it has
 * none. */
static bool find_x(struct metrics_writer *writer, const msgpack_object *point, double *out)
{
    const char *name = writer->wish->x;
    if (strcmp(name, "step") == 0) {
        *out = (double)document_number(point, "step");
        return document_has(point, "step");
    }
    if (strcmp(name, "time") == 0) {
        *out = (double)document_number(point, "wall_ms") / 1000;
        return document_has(point, "wall_ms");
    }
    struct curve *curve = curve_of(writer, point);
    (void)value_of(document_find(point, "metrics"), name, &curve->x);
    *out = curve->x;
    return !isnan(curve->x);
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* A number that a program reads back as the same number. */
static void exact_text(char out[32], double value)
{
    if (isnan(value) || isinf(value)) {
        (void)snprintf(out, 32, "%s", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    } else {
        (void)number_format(out, value);
    }
}

/* "2026-11-27T01:02:03.123Z"; "": not known. */
static void time_text(char out[TIME_BYTES], const msgpack_object *point)
{
    uint64_t wall_ms = document_number(point, "wall_ms");
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    out[0] = '\0';
    if (wall_ms != 0 && gmtime_r(&seconds, &parts) != NULL && strftime(out, TIME_BYTES, "%Y-%m-%dT%H:%M:%S", &parts) > 0) {
        size_t used = strlen(out);
        (void)snprintf(out + used, TIME_BYTES - used, ".%03uZ", (unsigned)(wall_ms % 1000));
    }
}

/* A name as it can be printed. */
static void visible_name(const msgpack_object *key, char *out, size_t size)
{
    char raw[NAME_BYTES] = "";
    if (key->type == MSGPACK_OBJECT_STR && key->via.str.size > 0) {
        (void)bytes_copy_text_n(raw, sizeof raw, key->via.str.ptr, key->via.str.size);
    }
    (void)visible_text(out, size, raw);
}

/* Gets the numbers of a point, each with its name: of sums the parts of each, as "loss.mean". */
typedef void number_fn(struct metrics_writer *writer, const char *name, double value);

static void each_number(struct metrics_writer *writer, const msgpack_object *point, number_fn *take)
{
    static const char *const parts[] = {"count", "min", "max", "mean", "last"};
    msgpack_object_map pairs = document_pairs(document_find(point, "metrics"));
    for (uint32_t i = 0; i < pairs.size; i++) {
        char name[NAME_BYTES - 8], long_name[NAME_BYTES];
        double value;
        visible_name(&pairs.ptr[i].key, name, sizeof name);
        if (document_double(&pairs.ptr[i].val, &value)) {
            take(writer, name, value);
            continue;
        }
        for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) {
            (void)snprintf(long_name, sizeof long_name, "%s.%s", name, parts[part]);
            if (document_double(document_find(&pairs.ptr[i].val, parts[part]), &value)) {
                take(writer, long_name, value);
            }
        }
    }
}

/* ---- lines and JSON ---------------------------------------------------------------------------------------------- */

static void write_pair(struct metrics_writer *writer, const char *name, double value)
{
    (void)fprintf(writer->cli->out, " %s=%.5g", name, value);
}

static void write_line(struct metrics_writer *writer, const msgpack_object *point, const double *x)
{
    FILE *out = writer->cli->out;
    char group[64], when[TIME_BYTES];
    document_text(point, "group", group, sizeof group);
    time_text(when, point);
    (void)fprintf(out, "trial=%llu attempt=%llu generation=%llu", (unsigned long long)document_number(point, "trial"),
                  (unsigned long long)document_number(point, "attempt"),
                  (unsigned long long)document_number(point, "generation"));
    if (document_has(point, "first_step")) {
        (void)fprintf(out, " step=%llu..%llu", (unsigned long long)document_number(point, "first_step"),
                      (unsigned long long)document_number(point, "step"));
    } else {
        (void)fprintf(out, " step=%llu", (unsigned long long)document_number(point, "step"));
    }
    (void)fprintf(out, " group=%s%s", group, document_true(point, "void") ? " void" : "");
    if (when[0] != '\0') {
        (void)fprintf(out, " time=%s", when);
    }
    if (x != NULL) {
        char text[32];
        exact_text(text, *x);
        (void)fprintf(out, " x=%s", text);
    }
    each_number(writer, point, write_pair);
    (void)fputc('\n', out);
}

static void write_json(struct cli *cli, const msgpack_object *point, const double *x)
{
    msgpack_object_map pairs = document_pairs(point);
    msgpack_object_kv *more = x != NULL ? malloc((pairs.size + 1u) * sizeof *more) : NULL;
    if (more == NULL) {
        (void)document_write_json(cli->out, point);
        return;
    }
    more[0].key = (msgpack_object){.type = MSGPACK_OBJECT_STR, .via.str = {.size = 1, .ptr = "x"}};
    more[0].val = (msgpack_object){.type = MSGPACK_OBJECT_FLOAT64, .via.f64 = *x};
    memcpy(more + 1, pairs.ptr, pairs.size * sizeof *more);
    msgpack_object with_x = {.type = MSGPACK_OBJECT_MAP, .via.map = {.size = pairs.size + 1, .ptr = more}};
    (void)document_write_json(cli->out, &with_x);
    free(more);
}

/* ---- CSV --------------------------------------------------------------------------------------------------------- */

/* The number of a column; UINT32_MAX: no memory is left. */
static uint32_t column_of(struct columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->count; i++) {
        uint32_t at = (columns->next + i) % columns->count;
        if (strcmp(columns->names[at], name) == 0) {
            columns->next = at + 1;
            return at;
        }
    }
    if (columns->count == columns->capacity) {
        uint32_t bigger = columns->capacity == 0 ? 64 : 2 * columns->capacity;
        char(*names)[NAME_BYTES] = realloc(columns->names, bigger * sizeof *names);
        if (names == NULL) {
            return UINT32_MAX;
        }
        columns->names = names;
        columns->capacity = bigger;
    }
    (void)snprintf(columns->names[columns->count], NAME_BYTES, "%s", name);
    columns->next = columns->count + 1;
    return columns->count++;
}

/* A text as a field: in quotes where it needs them. */
static void write_field(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        (void)fprintf(out, "%s%c", *text == '"' ? "\"" : "", *text);
    }
    (void)fputc('"', out);
}

static void keep_number(struct metrics_writer *writer, const char *name, double value)
{
    uint32_t column = column_of(&writer->columns, name);
    char text[32];
    exact_text(text, value);
    (void)fprintf(writer->rows, "\t%u=%s", (unsigned)column, text);
}

/* Keeps a row: its fixed fields, and behind tabs the numbers with their columns. */
static void keep_row(struct metrics_writer *writer, const msgpack_object *point, const double *x)
{
    FILE *rows = writer->rows;
    char group[64], when[TIME_BYTES], text[32];
    document_text(point, "group", group, sizeof group);
    time_text(when, point);
    (void)fprintf(rows, "%llu,%llu,%llu,", (unsigned long long)document_number(point, "trial"),
                  (unsigned long long)document_number(point, "attempt"),
                  (unsigned long long)document_number(point, "generation"));
    (void)fprintf(rows, "%llu,%s,", (unsigned long long)document_number(point, "step"), when);
    write_field(rows, group);
    if (writer->wish->shows_void) {
        (void)fputs(document_true(point, "void") ? ",1" : ",0", rows);
    }
    if (x != NULL) {
        exact_text(text, *x);
        (void)fprintf(rows, ",%s", text);
    }
    each_number(writer, point, keep_number);
    (void)fputc('\n', rows);
}

static const char *const fixed_columns[] = {"trial", "attempt", "generation", "step", "time", "group", "void", "x"};

static void write_head(struct metrics_writer *writer)
{
    FILE *out = writer->cli->out;
    (void)fprintf(out, "trial,attempt,generation,step,time,group%s%s", writer->wish->shows_void ? ",void" : "",
                  writer->wish->x != NULL ? ",x" : "");
    for (uint32_t i = 0; i < writer->columns.count; i++) {
        bool is_taken = false;
        for (size_t fixed = 0; fixed < sizeof fixed_columns / sizeof fixed_columns[0]; fixed++) {
            is_taken |= strcmp(writer->columns.names[i], fixed_columns[fixed]) == 0;
        }
        (void)fputs(is_taken ? ",metric." : ",", out);
        write_field(out, writer->columns.names[i]);
    }
    (void)fputc('\n', out);
}

/* Writes a kept row; `values` has a place for each column. */
static void write_row(struct metrics_writer *writer, char *row, const char **values)
{
    FILE *out = writer->cli->out;
    char *rest = row, *field = strsep(&rest, "\t");
    (void)fputs(field, out);
    memset(values, 0, writer->columns.count * sizeof *values);
    while ((field = strsep(&rest, "\t")) != NULL) {
        char *equals;
        unsigned long column = strtoul(field, &equals, 10);
        if (column < writer->columns.count && *equals == '=') {
            values[column] = equals + 1;
        }
    }
    for (uint32_t i = 0; i < writer->columns.count; i++) {
        (void)fprintf(out, ",%s", values[i] != NULL ? values[i] : "");
    }
    (void)fputc('\n', out);
}

static int write_csv(struct metrics_writer *writer)
{
    const char **values = calloc(writer->columns.count + 1u, sizeof *values);
    char *row = NULL;
    size_t size = 0;
    ssize_t bytes;
    bool is_kept = fflush(writer->rows) == 0 && !ferror(writer->rows);
    rewind(writer->rows);
    if (values == NULL || !is_kept) {
        free(values);
        return cli_fail(writer->cli, CLI_REFUSED, "the rows cannot be kept in a temporary file, or no memory is left");
    }
    write_head(writer);
    while ((bytes = getline(&row, &size, writer->rows)) > 0) {
        row[bytes - 1] = '\0';
        write_row(writer, row, values);
    }
    free(row);
    free(values);
    return CLI_DONE;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void write_point(struct metrics_writer *writer, const msgpack_object *point)
{
    const struct metrics_wish *wish = writer->wish;
    double x;
    writer->has_any = true;
    writer->is_cut |= document_true(point, "cut");
    if (document_true(point, "void") && !wish->shows_void) {
        return;
    }
    if (wish->x != NULL && !find_x(writer, point, &x)) {
        return;
    }
    writer->has_x = true;
    const double *shown = wish->x != NULL ? &x : NULL;
    if (wish->is_csv) {
        keep_row(writer, point, shown);
    } else if (writer->cli->json) {
        write_json(writer->cli, point, shown);
    } else {
        write_line(writer, point, shown);
    }
}

static int read_wish(struct cli *cli, const struct arguments *arguments, struct metrics_wish *out)
{
    const char *points = options_value(arguments, "points");
    *out = (struct metrics_wish){.shows_void = options_has(arguments, "all"),
                                 .is_csv = options_has(arguments, "csv"),
                                 .wants_profile = options_has(arguments, "profile"),
                                 .follow = options_has(arguments, "follow"),
                                 .x = options_value(arguments, "x")};
    if (points != NULL && (options_number(points, POINTS_MAX, &out->points) != 0 || out->points == 0)) {
        return cli_fail(cli, CLI_USAGE, "--points %.40s is no number of points; allowed are 1 to %d", points, POINTS_MAX);
    }
    if (out->follow && (out->is_csv || out->points > 0)) {
        return cli_fail(cli, CLI_USAGE, "--follow goes with neither --csv nor --points, which need all points first");
    }
    if (out->is_csv && cli->json) {
        return cli_fail(cli, CLI_USAGE, "--csv and --json exclude each other; give one of them");
    }
    return CLI_DONE;
}

/* Reads the stream of points. */
static int read_points(struct client *client, struct metrics_writer *writer)
{
    struct reply reply = {.end = false};
    int code = client_send(client, -1);
    while (code == CLI_DONE && !reply.end) {
        code = client_next(client, writer->wish->follow ? -1 : CLIENT_ANSWER_MS, false, &reply);
        msgpack_object_array list = code == CLI_DONE ? document_list(&reply.document, "points") : (msgpack_object_array){.size = 0};
        for (uint32_t i = 0; i < list.size && code == CLI_DONE; i++) {
            if (writer->wish->points > 0 && !document_has(&list.ptr[i], "width")) {
                code = cli_fail(client->cli, CLI_REFUSED, "the daemon is older than this shoal and does not know --points; restart it");
            } else {
                write_point(writer, &list.ptr[i]);
            }
        }
        if (writer->wish->follow) {
            (void)fflush(client->cli->out);
        }
    }
    if (code == CLI_DONE && writer->wish->is_csv) {
        code = write_csv(writer);
    }
    if (code == CLI_DONE) {
        target_warn_unreachable(client->cli, &reply.document);
    }
    return code;
}

int command_metrics(struct cli *cli, const struct arguments *arguments)
{
    struct target target;
    struct client client;
    struct metrics_wish wish;
    int code = read_wish(cli, arguments, &wish);
    if (code == CLI_DONE) {
        code = target_read(cli, arguments->operands[0], false, false, &target);
    }
    if (code == CLI_DONE) {
        code = target_begin(cli, "metrics", &target, (wish.points > 0 ? 2u : 0u) + wish.wants_profile + wish.follow, &client);
    }
    if (code != CLI_DONE) {
        return code;
    }
    if (wish.follow) {
        pack_text(&client.request, "follow");
        pack_bool(&client.request, true);
    }
    if (wish.points > 0) {
        pack_text(&client.request, "points");
        pack_u64(&client.request, wish.points);
        pack_text(&client.request, "void");
        pack_bool(&client.request, wish.shows_void);
    }
    if (wish.wants_profile) {
        pack_text(&client.request, "profile");
        pack_bool(&client.request, true);
    }
    struct metrics_writer *writer = calloc(1, sizeof *writer);
    FILE *rows = wish.is_csv ? tmpfile() : NULL;
    if (writer == NULL || (wish.is_csv && rows == NULL)) {
        code = cli_fail(cli, CLI_REFUSED, "a temporary file for the rows cannot be made, or no memory is left");
    } else {
        *writer = (struct metrics_writer){.cli = cli, .wish = &wish, .rows = rows};
        code = read_points(&client, writer);
    }
    if (code == CLI_DONE && writer->is_cut) {
        cli_warn(cli, "some sums lack metrics, since a bucket has too many different ones; without --points all are there");
    }
    if (code == CLI_DONE && !writer->has_any && !cli->json && !wish.is_csv) {
        cli_warn(cli, "%.80s has no metrics%s", arguments->operands[0], wish.wants_profile ? "" : " yet: its program has reported none");
    }
    if (code == CLI_DONE && wish.x != NULL && writer->has_any && !writer->has_x) {
        code = cli_fail(cli, CLI_NO_SUCH_THING, "no group has a metric '%.80s', which --x names; --x step and --x time always work", wish.x);
    }
    if (writer != NULL) {
        free(writer->columns.names);
    }
    free(writer);
    if (rows != NULL) {
        (void)fclose(rows);
    }
    client_close(&client);
    return code;
}

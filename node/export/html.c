/* The page: what the experiment is, its curves, its trials, its configuration. No script, and a policy that allows
 * none: it opens from a disk, in a mail, anywhere. */

#include <math.h>
#include <string.h>

#include "node/export/inside.h"

#define CHARTS_MAX 6
#define YAML_DEPTH_MAX 16
#define COLUMNS_MAX 24

static const char page_style[] =
    "body{margin:0;background:var(--page);color:var(--text);font:14px/1.5 system-ui,\"DejaVu Sans\",sans-serif;"
    "font-variant-numeric:tabular-nums}main{max-width:1200px;margin:0 "
    "auto;padding:24px}h1{font-size:26px;line-height:1.2;"
    "margin:0 0 8px;overflow-wrap:anywhere}h2{font-size:16px;margin:24px 0 8px}p{margin:0 0 "
    "8px}.quiet{color:var(--quiet)}"
    "section,pre,.scroll{background:var(--surface);border:1px solid var(--line);border-radius:8px}section{padding:12px;"
    "margin-bottom:12px}svg{display:block;width:100%;height:auto}.curves{overflow-x:auto}.curves "
    "svg{min-width:640px}.small{display:grid;gap:12px;"
    "grid-template-columns:repeat(auto-fit,minmax(min(360px,100%),1fr))}.scroll{overflow:auto;max-height:80vh}"
    "table{border-collapse:collapse;width:100%}th,td{padding:4px 12px;text-align:start;border-bottom:1px solid "
    "var(--line);"
    "font-weight:400;vertical-align:top}thead th{position:sticky;top:0;background:var(--surface);color:var(--quiet);"
    "white-space:nowrap}.n{text-align:end;white-space:nowrap}pre{padding:12px;overflow:auto;margin:0;font:13px/1.5 "
    "\"DejaVu Sans "
    "Mono\",monospace;white-space:pre-wrap;overflow-wrap:anywhere}dl{display:grid;grid-template-columns:max-content "
    "1fr;gap:2px 16px;margin:0}"
    "dt{color:var(--quiet)}dd{margin:0;overflow-wrap:anywhere}@media print{.scroll{max-height:none}}\n";

/* ---- the head -------------------------------------------------------------------------------------------------- */

static void put_fact(FILE *out, const char *title, const char *text)
{
    if (text[0] != '\0') {
        (void)fprintf(out, "<dt>%s</dt><dd><bdi>", title);
        export_put_text(out, text);
        (void)fputs("</bdi></dd>\n", out);
    }
}

static void counts_of(const msgpack_object *experiment, char out[EXPORT_TEXT_BYTES])
{
    static const char *const states[] = {"completed", "running", "queued", "paused", "stopped", "failed", "cancelled"};
    const msgpack_object *counts = document_find(experiment, "counts");
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        unsigned long long count = document_number(counts, states[i]);
        if (count > 0) {
            used += (size_t)snprintf(out + used, EXPORT_TEXT_BYTES - used, "%s%llu %s", used > 0 ? ", " : "", count,
                                     states[i]);
        }
    }
}

static void put_head(FILE *out, const msgpack_object *experiment, uint64_t now_s)
{
    char text[EXPORT_TEXT_BYTES], time[64], name[256];
    document_text(experiment, "name", name, sizeof name);
    (void)fputs("<h1><bdi>", out);
    export_put_text(out, name);
    (void)fputs("</bdi></h1>\n<section><dl>\n", out);
    document_text(experiment, "description", text, sizeof text);
    put_fact(out, "Description", text);
    document_text(experiment, "state", text, sizeof text);
    put_fact(out, "State", text);
    counts_of(experiment, text);
    put_fact(out, "Trials", text);
    const msgpack_object *best = document_find(experiment, "best");
    if (best->type == MSGPACK_OBJECT_MAP) {
        char metric[256], value[EXPORT_TEXT_BYTES];
        document_text(best, "metric", metric, sizeof metric);
        export_value(document_find(best, "value"), value);
        (void)snprintf(text, sizeof text, "%s %.200s (trial %llu)", metric, value,
                       (unsigned long long)document_number(best, "trial"));
        put_fact(out, "Best", text);
    }
    msgpack_object_map labels = document_pairs(document_find(experiment, "labels"));
    for (uint32_t i = 0; i < labels.size; i++) {
        char key[128], value[512];
        document_value_text(&labels.ptr[i].key, key, sizeof key);
        document_value_text(&labels.ptr[i].val, value, sizeof value);
        (void)snprintf(text, sizeof text, "%s%s%s", key, value[0] != '\0' ? "=" : "", value);
        put_fact(out, i == 0 ? "Labels" : "", text);
    }
    export_time(document_number(experiment, "submitted_s"), time);
    put_fact(out, "Submitted", time);
    document_text(experiment, "id", text, sizeof text);
    put_fact(out, "Id", text);
    export_time(now_s, time);
    put_fact(out, "This page is of", time);
    (void)fputs("</dl></section>\n", out);
}

/* ---- the trials ------------------------------------------------------------------------------------------------ */

static void put_cell(FILE *out, const char *text, bool is_number)
{
    (void)fputs(is_number ? "<td class=\"n\">" : "<td><bdi>", out);
    export_put_text(out, text);
    (void)fputs(is_number ? "</td>" : "</bdi></td>", out);
}

/* By the first trial that has a value. */
static bool is_numeric(const struct export_rows *rows, const char *name)
{
    for (size_t i = 0; i < rows->count; i++) {
        const msgpack_object *value = export_parameter(&rows->items[i], name);
        double number;
        if (value->type != MSGPACK_OBJECT_NIL) {
            return document_double(value, &number);
        }
    }
    return false;
}

static void put_row(FILE *out, const struct export_row *row, const struct export_rows *rows, uint64_t now_s)
{
    char text[EXPORT_TEXT_BYTES];
    double took_s = export_took_s(row, now_s);
    (void)fprintf(out, "<tr><th scope=\"row\">%llu</th>", (unsigned long long)document_number(row->trial, "index"));
    document_text(row->trial, "state", text, sizeof text);
    put_cell(out, text, false);
    (void)snprintf(text, sizeof text, "–");
    if (!isnan(row->value)) {
        export_number(row->value, 6, text);
    }
    put_cell(out, text, true);
    export_value(document_find(row->trial, "step"), text);
    put_cell(out, text, true);
    (void)snprintf(text, sizeof text, took_s >= 0 ? "%.0f s" : "–", took_s);
    put_cell(out, text, true);
    for (size_t i = 0; i < rows->parameters.count && i < COLUMNS_MAX; i++) {
        double number;
        const msgpack_object *value = export_parameter(row, rows->parameters.items[i]);
        export_value(value, text);
        put_cell(out, text, document_double(value, &number));
    }
    document_text(row->trial, "reason", text, sizeof text);
    put_cell(out, text, false);
    (void)fputs("</tr>\n", out);
}

static void put_table(FILE *out, const struct export_rows *rows, uint64_t now_s)
{
    size_t shown = rows->count < EXPORT_ROWS_MAX ? rows->count : EXPORT_ROWS_MAX;
    (void)fputs("<h2>Trials</h2>\n", out);
    if (shown < rows->count) {
        (void)fprintf(out, "<p class=\"quiet\">The best %zu of %zu trials.</p>\n", shown, rows->count);
    }
    (void)fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Trials\"><table><thead><tr><th "
                "scope=\"col\">Trial</th>"
                "<th scope=\"col\">State</th><th scope=\"col\" class=\"n\"><bdi>",
                out);
    export_put_text(out, rows->metric[0] != '\0' ? rows->metric : "metric");
    (void)fputs("</bdi></th><th scope=\"col\" class=\"n\">Step</th><th scope=\"col\" class=\"n\">Took</th>", out);
    for (size_t i = 0; i < rows->parameters.count && i < COLUMNS_MAX; i++) {
        (void)fputs(is_numeric(rows, rows->parameters.items[i]) ? "<th scope=\"col\" class=\"n\"><bdi>"
                                                                : "<th scope=\"col\"><bdi>",
                    out);
        export_put_text(out, rows->parameters.items[i]);
        (void)fputs("</bdi></th>", out);
    }
    (void)fputs("<th scope=\"col\">Why it ended</th></tr></thead><tbody>\n", out);
    for (size_t i = 0; i < shown; i++) {
        put_row(out, &rows->items[i], rows, now_s);
    }
    (void)fputs("</tbody></table></div>\n", out);
}

/* ---- the configuration ----------------------------------------------------------------------------------------- */

static void put_yaml(FILE *out, const msgpack_object *value, int depth);

static bool is_deep(const msgpack_object *value)
{
    return (value->type == MSGPACK_OBJECT_MAP && value->via.map.size > 0) ||
           (value->type == MSGPACK_OBJECT_ARRAY && value->via.array.size > 0);
}

static void put_entry(FILE *out, const char *head, const msgpack_object *value, int depth)
{
    (void)fprintf(out, "%*s", 2 * depth, "");
    export_put_text(out, head);
    (void)fputs(is_deep(value) ? "\n" : " ", out);
    put_yaml(out, value, depth + 1);
}

/* A text of several lines, as a block. */
static void put_block(FILE *out, const msgpack_object *value, int depth)
{
    const char *at = value->via.str.ptr, *end = at + value->via.str.size;
    (void)fputs("|\n", out);
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        char text[EXPORT_TEXT_BYTES];
        msgpack_object part = {.type = MSGPACK_OBJECT_STR,
                               .via.str = {(uint32_t)((line != NULL ? line : end) - at), at}};
        document_value_text(&part, text, sizeof text);
        (void)fprintf(out, "%*s", 2 * depth, "");
        export_put_text(out, text);
        (void)fputs("\n", out);
        at = line != NULL ? line + 1 : end;
    }
}

/* The file was checked when it was submitted; what is deeper than any file may be is left out. */
static void put_yaml(FILE *out, const msgpack_object *value, int depth)
{
    char text[EXPORT_TEXT_BYTES];
    if (value->type == MSGPACK_OBJECT_STR && memchr(value->via.str.ptr, '\n', value->via.str.size) != NULL) {
        put_block(out, value, depth);
        return;
    }
    if (!is_deep(value) || depth > YAML_DEPTH_MAX) {
        export_exact(value, text);
        export_put_text(out, value->type == MSGPACK_OBJECT_NIL ? "null" : text);
        (void)fputs("\n", out);
        return;
    }
    for (uint32_t i = 0; value->type == MSGPACK_OBJECT_ARRAY && i < value->via.array.size; i++) {
        put_entry(out, "-", &value->via.array.ptr[i], depth);
    }
    msgpack_object_map pairs = document_pairs(value);
    for (uint32_t i = 0; i < pairs.size; i++) {
        char key[256], head[260];
        document_value_text(&pairs.ptr[i].key, key, sizeof key);
        (void)snprintf(head, sizeof head, "%s:", key);
        put_entry(out, head, &pairs.ptr[i].val, depth);
    }
}

/* ---- the page -------------------------------------------------------------------------------------------------- */

static bool put_charts(FILE *out, const struct export_documents *documents, const struct export_rows *rows)
{
    (void)fputs("<h2>Curves of the best trials</h2>\n<section class=\"curves\" tabindex=\"0\" aria-label=\"Curves\">\n",
                out);
    int written = export_curves(out, documents, rows, CHARTS_MAX, false);
    (void)fputs(written == 0 ? "<p class=\"quiet\">No trial has reported a metric.</p></section>\n" : "</section>\n",
                out);
    (void)fputs("<div class=\"small\">\n", out);
    (void)export_scatters(out, rows);
    (void)fputs("</div>\n", out);
    return written >= 0;
}

bool export_html(FILE *out, const struct export_documents *documents)
{
    const msgpack_object *experiment = document_find(documents->show, "experiment");
    const msgpack_object *config = document_find(documents->config, "config");
    struct export_rows rows;
    char name[256];
    if (!export_rows_make(documents->show, &rows)) {
        return false;
    }
    export_rows_sort(&rows);
    document_text(experiment, "name", name, sizeof name);
    (void)fputs(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
        "<meta name=\"color-scheme\" content=\"light dark\">\n<title>",
        out);
    export_put_text(out, name);
    (void)fprintf(out, "</title><style>%s%s</style></head><body><main>\n", export_chart_style, page_style);
    put_head(out, experiment, documents->now_s);
    bool is_good = put_charts(out, documents, &rows);
    put_table(out, &rows, documents->now_s);
    if (config->type == MSGPACK_OBJECT_MAP) {
        (void)fputs("<h2>Configuration</h2>\n<pre tabindex=\"0\" role=\"region\" aria-label=\"Configuration\">", out);
        put_yaml(out, config, 0);
        (void)fputs("</pre>\n", out);
    }
    (void)fputs("</main></body></html>\n", out);
    export_rows_free(&rows);
    return is_good;
}

/* The trials as comma-separated values (RFC 4180). */

#include <string.h>

#include "node/export/inside.h"

static void put_cell(FILE *out, const char *text, const char *before)
{
    (void)fputs(before, out);
    if (text[strcspn(text, "\",\n\r")] == '\0') {
        (void)fputs(text, out);
        return;
    }
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        (void)fputs(*text == '"' ? "\"" : "", out);
        (void)fputc(*text, out);
    }
    (void)fputc('"', out);
}

static void put_row(FILE *out, const struct export_row *row, const struct export_rows *rows, uint64_t now_s)
{
    static const char *const keys[] = {"index", "state", "attempt", "step", "restarts"};
    char text[EXPORT_TEXT_BYTES], time[64];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        export_exact(document_find(row->trial, keys[i]), text);
        put_cell(out, text, i == 0 ? "" : ",");
    }
    static const char *const times[] = {"started_s", "ended_s"};
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        export_time(document_number(row->trial, times[i]), time);
        put_cell(out, document_has(row->trial, times[i]) ? time : "", ",");
    }
    double took_s = export_took_s(row, now_s);
    (void)snprintf(text, sizeof text, "%.0f", took_s);
    put_cell(out, took_s >= 0 ? text : "", ",");
    for (size_t i = 0; i < rows->metrics.count; i++) {
        export_exact(export_metric(row, rows->metrics.items[i]), text);
        put_cell(out, text, ",");
    }
    for (size_t i = 0; i < rows->parameters.count; i++) {
        export_exact(export_parameter(row, rows->parameters.items[i]), text);
        put_cell(out, text, ",");
    }
    export_exact(document_find(row->trial, "reason"), text);
    put_cell(out, text, ",");
    (void)fputs("\r\n", out);
}

bool export_csv(FILE *out, const struct export_documents *documents)
{
    struct export_rows rows;
    if (!export_rows_make(documents->show, &rows)) {
        return false;
    }
    (void)fputs("trial,state,attempt,step,restarts,started,ended,took_s", out);
    for (size_t i = 0; i < rows.metrics.count; i++) {
        put_cell(out, rows.metrics.items[i], ",");
    }
    for (size_t i = 0; i < rows.parameters.count; i++) {
        put_cell(out, rows.parameters.items[i], ",");
    }
    (void)fputs(",reason\r\n", out);
    for (size_t i = 0; i < rows.count; i++) {
        put_row(out, &rows.items[i], &rows, documents->now_s);
    }
    export_rows_free(&rows);
    return true;
}

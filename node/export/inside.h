#ifndef NODE_EXPORT_INSIDE_H
#define NODE_EXPORT_INSIDE_H
/* Parts of an export: trials as rows, texts with what stands for special characters, charts. */

#include "node/export/export.h"

#define EXPORT_TEXT_BYTES 1024

/* ---- rows.c ---------------------------------------------------------------------------------------------------- */

/* Names of columns, each once. */
struct export_names {
    char **items;
    size_t count, room;
};

struct export_row {
    const msgpack_object *trial; /* the map of `show` */
    double value;                /* the newest of the searcher's metric; NaN: none */
};

struct export_rows {
    struct export_row *items; /* as `show` has them */
    size_t count;
    struct export_names parameters; /* dotted names of all hyperparameters, in the order of their first appearance */
    struct export_names metrics;    /* "group/name" */
    char metric[256];               /* the searcher's */
    bool smaller;
};

/* The documents must live as long as `*out`. False: no memory is left, and nothing is to be freed. */
bool export_rows_make(const msgpack_object *show, struct export_rows *out);
void export_rows_free(struct export_rows *rows);

/* The best first, those without a value last, then by index. */
void export_rows_sort(struct export_rows *rows);

/* The value of a dotted name in the trial's hyperparameters, and of "group/name" in its metrics; nil: none. */
const msgpack_object *export_parameter(const struct export_row *row, const char *name);
const msgpack_object *export_metric(const struct export_row *row, const char *name);

/* False, and `names` unchanged: no memory is left. */
bool export_names_add(struct export_names *names, const char *name);
void export_names_free(struct export_names *names);

/* How long the trial ran, in seconds; a negative number: it has not begun. */
double export_took_s(const struct export_row *row, uint64_t now_s);

/* ---- text.c ---------------------------------------------------------------------------------------------------- */

/* Writes a text into HTML, SVG or an attribute in quotes. */
void export_put_text(FILE *out, const char *text);

/* A value as people read it: numbers with at most six digits, texts as they are, lists as JSON; "–" for nil. */
void export_value(const msgpack_object *value, char out[EXPORT_TEXT_BYTES]);

/* A value in full, for programs: a number that reads back as the same; empty for nil. */
void export_exact(const msgpack_object *value, char out[EXPORT_TEXT_BYTES]);

/* A number with so many significant digits, and a time as "2026-11-25 16:00:30 UTC". */
void export_number(double value, int digits, char out[64]);
void export_time(uint64_t second, char out[64]);

/* ---- charts.c -------------------------------------------------------------------------------------------------- */

/* Style rules for charts, in both themes. */
extern const char export_chart_style[];

/* Charts as SVG elements: of each metric that the curves have, the searcher's first, at most `most`; and of the metric
 * against each numeric hyperparameter that differs. `is_file`: the one SVG is a file of its own, with its style. Return
 * how many were written; a negative number: no memory is left. */
int export_curves(FILE *out, const struct export_documents *documents, const struct export_rows *rows, int most,
                  bool is_file);
int export_scatters(FILE *out, const struct export_rows *rows);

#endif

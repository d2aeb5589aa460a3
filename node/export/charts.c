/* Charts as SVG: lines with a band from the least to the greatest value of each sum, and points. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "node/export/inside.h"

#define LOG_RATIO 50 /* values that span more than this, all above 0, get a logarithmic axis */
#define TICKS_MAX 12
#define SCATTERS_MAX 6
#define SCATTER_POINTS_MAX 3000

const char export_chart_style[] =
    ":root{--page:#f6f7f8;--surface:#fff;--line:#dfe3e7;--text:#1b2126;--quiet:#56616b;--accent:#0b5f8a;--s0:#0b6aa8;--"
    "s1:#c2500a;"
    "--s2:#15803d;--s3:#a8327f;--s4:#6b4fc0;--s5:#8a6100;--s6:#0e7f86;--s7:#5b6166}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#101418;--surface:#171c21;--line:#2c343c;--text:#e4e8ec;--quiet:#"
    "9ba8b4;"
    "--accent:#6fb9e6;--s0:#5fb4ee;--s1:#ff9c54;--s2:#5ccb86;--s3:#f08fc9;--s4:#b4a1f7;--s5:#e0bb4c;--s6:#5ecfd6;--s7:#"
    "b3bcc4}}\n"
    "svg text{font:12px system-ui,\"DejaVu Sans\",sans-serif;fill:var(--quiet)}svg "
    ".title{font-size:14px;font-weight:600;"
    "fill:var(--text)}.grid{stroke:var(--line)}.curve{fill:none;stroke-width:1.6}.band{opacity:.15}.d1{stroke-"
    "dasharray:7 4}\n"
    ".s0{stroke:var(--s0)}.s1{stroke:var(--s1)}.s2{stroke:var(--s2)}.s3{stroke:var(--s3)}.s4{stroke:var(--s4)}.s5{"
    "stroke:var(--s5)}"
    ".s6{stroke:var(--s6)}.s7{stroke:var(--s7)}\n"
    ".f0{fill:var(--s0)}.f1{fill:var(--s1)}.f2{fill:var(--s2)}.f3{fill:var(--s3)}.f4{fill:var(--s4)}.f5{fill:var(--s5)}"
    ".f6{fill:var(--s6)}.f7{fill:var(--s7)}.point{fill:var(--s0);opacity:.7}\n";

/* ---- axes ------------------------------------------------------------------------------------------------------ */

struct axis {
    double low, high; /* of the values; of their logarithms if is_log */
    bool is_log;
    double from, to; /* pixels */
};

struct extent {
    double low, high;
    size_t count;
};

static void extend(struct extent *extent, double value)
{
    if (isfinite(value)) {
        extent->low = extent->count == 0 || value < extent->low ? value : extent->low;
        extent->high = extent->count == 0 || value > extent->high ? value : extent->high;
        extent->count++;
    }
}

static struct axis axis_of(const struct extent *extent, double from, double to)
{
    struct axis axis = {.low = extent->low, .high = extent->high, .from = from, .to = to};
    axis.is_log = extent->low > 0 && extent->high / extent->low >= LOG_RATIO;
    axis.low = axis.is_log ? log10(axis.low) : axis.low;
    axis.high = axis.is_log ? log10(axis.high) : axis.high;
    if (axis.high <= axis.low) {
        double room = axis.low != 0 ? fabs(axis.low) / 20 : 1;
        axis.low -= room;
        axis.high += room;
    }
    return axis;
}

static double axis_at(const struct axis *axis, double value)
{
    double x = axis->is_log ? log10(value) : value;
    return axis->from + (x - axis->low) / (axis->high - axis->low) * (axis->to - axis->from);
}

static int axis_ticks(const struct axis *axis, int wanted, double out[TICKS_MAX])
{
    int count = 0;
    double span = axis->high - axis->low, power = pow(10, floor(log10(span / wanted))), step = power;
    static const double steps[] = {1, 2, 5, 10};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        step = steps[i] * power;
        if (step >= span / wanted * 0.999) {
            break;
        }
    }
    step = axis->is_log && step < 1 ? 1 : step;
    for (double i = ceil(axis->low / step - 1e-9); i * step <= axis->high + step * 1e-9 && count < TICKS_MAX; i++) {
        double value = i * step + 0.0; /* no -0 */
        out[count++] = axis->is_log ? pow(10, value) : value;
    }
    return count;
}

static void put_axes(FILE *out, const struct axis *x, const struct axis *y, const char *x_title)
{
    double ticks[TICKS_MAX];
    char text[64];
    int count = axis_ticks(y, 5, ticks);
    for (int i = 0; i < count; i++) {
        double at = axis_at(y, ticks[i]);
        export_number(ticks[i], 4, text);
        (void)fprintf(
            out,
            "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
            x->from, at, x->to, x->from - 6, at + 4, text);
    }
    count = axis_ticks(x, x->to - x->from > 400 ? 8 : 4, ticks);
    for (int i = 0; i < count; i++) {
        export_number(ticks[i], 6, text);
        (void)fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n", axis_at(x, ticks[i]),
                      y->from + 16, text);
    }
    (void)fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                  x->from, y->from, x->to, x->to, y->from + 32);
    export_put_text(out, x_title);
    (void)fputs("</text>\n", out);
}

static void begin_svg(FILE *out, int width, int height, const char *title, const char *about, bool is_file)
{
    if (is_file) {
        (void)fprintf(
            out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
            "height=\"%d\" viewBox=\"0 0 %d %d\"><style>%s</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"var(--surface)\"/>",
            width, height, width, height, export_chart_style);
    } else {
        (void)fprintf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", width, height);
        export_put_text(out, about);
        (void)fputs("\">", out);
    }
    (void)fputs("<text class=\"title\" x=\"8\" y=\"20\">", out);
    export_put_text(out, title);
    (void)fputs("</text>\n", out);
}

/* ---- curves ---------------------------------------------------------------------------------------------------- */

struct sum {
    double step, min, max, last;
};

struct curve {
    struct sum *sums;
    size_t count, room;
    uint64_t trial, attempt;
};

/* Of a sum its least and greatest value; of a point that is none the value itself. */
static bool read_sum(const msgpack_object *value, struct sum *out)
{
    if (document_double(value, &out->last)) {
        out->min = out->max = out->last;
        return true;
    }
    if (!document_double(document_find(value, "last"), &out->last)) {
        return false;
    }
    out->min = out->max = out->last;
    (void)document_double(document_find(value, "min"), &out->min);
    (void)document_double(document_find(value, "max"), &out->max);
    return true;
}

/* Where a later attempt made steps anew, its points count. */
static bool add_point(struct curve *curve, const msgpack_object *point, const char *name)
{
    struct sum sum = {.step = (double)document_number(point, "step")};
    uint64_t attempt = document_number(point, "attempt");
    if (document_true(point, "void") || !read_sum(document_find(document_find(point, "metrics"), name), &sum)) {
        return true;
    }
    double first = document_has(point, "first_step") ? (double)document_number(point, "first_step") : sum.step;
    while (attempt != curve->attempt && curve->count > 0 && curve->sums[curve->count - 1].step >= first) {
        curve->count--;
    }
    curve->attempt = attempt;
    if (curve->count == curve->room) {
        size_t room = curve->room > 0 ? 2 * curve->room : 256;
        struct sum *grown = realloc(curve->sums, room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        curve->sums = grown;
        curve->room = room;
    }
    curve->sums[curve->count++] = sum;
    return true;
}

static bool curve_make(struct curve *curve, uint64_t trial, const msgpack_object *metrics, const char *group,
                       const char *name)
{
    msgpack_object_array points = document_list(metrics, "points");
    *curve = (struct curve){.trial = trial};
    for (uint32_t i = 0; i < points.size; i++) {
        char has[128];
        document_text(&points.ptr[i], "group", has, sizeof has);
        if (strcmp(has, group) == 0 && !add_point(curve, &points.ptr[i], name)) {
            free(curve->sums);
            curve->sums = NULL;
            return false;
        }
    }
    return true;
}

/* A line over the last values, broken where there is none, and behind it the band if there is any. */
static void put_curve(FILE *out, const struct curve *curve, const struct axis *x, const struct axis *y, size_t place)
{
    bool has_band = false, pen = false;
    for (size_t i = 0; i < curve->count; i++) {
        has_band |= curve->sums[i].min < curve->sums[i].max;
    }
    if (has_band) {
        (void)fprintf(out, "<path class=\"band f%zu\" d=\"", place % 8);
        for (size_t i = 0; i < 2 * curve->count; i++) {
            const struct sum *sum = &curve->sums[i < curve->count ? i : 2 * curve->count - 1 - i];
            double value = i < curve->count ? sum->max : sum->min;
            if (isfinite(value)) {
                (void)fprintf(out, "%s%.1f %.1f", pen ? "L" : "M", axis_at(x, sum->step), axis_at(y, value));
                pen = true;
            }
        }
        (void)fputs("Z\"/>\n", out);
        pen = false;
    }
    (void)fprintf(out, "<path class=\"curve s%zu%s\" d=\"", place % 8, place >= 8 ? " d1" : "");
    for (size_t i = 0; i < curve->count; i++) {
        if (isfinite(curve->sums[i].last)) {
            (void)fprintf(out, "%s%.1f %.1f", pen ? "L" : "M", axis_at(x, curve->sums[i].step),
                          axis_at(y, curve->sums[i].last));
        }
        pen = isfinite(curve->sums[i].last);
    }
    (void)fputs("\"/>\n", out);
}

static void put_legend(FILE *out, const struct curve *curves, size_t count, double left, double top)
{
    for (size_t i = 0; i < count; i++) {
        double y = top + 18 * (double)i;
        (void)fprintf(
            out, "<path class=\"curve s%zu%s\" d=\"M%.1f %.1fh18\"/><text x=\"%.1f\" y=\"%.1f\">trial %llu</text>\n",
            i % 8, i >= 8 ? " d1" : "", left, y, left + 24, y + 4, (unsigned long long)curves[i].trial);
    }
}

static bool put_chart(FILE *out, const struct curve *curves, size_t count, const char *title, bool is_file)
{
    enum { WIDTH = 960, HEIGHT = 320, LEFT = 72, RIGHT = 850, TOP = 36, BOTTOM = 276 };
    struct extent steps = {0}, values = {0};
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < curves[i].count; k++) {
            extend(&steps, curves[i].sums[k].step);
            extend(&values, curves[i].sums[k].min);
            extend(&values, curves[i].sums[k].max);
        }
    }
    if (values.count == 0) {
        return false;
    }
    struct axis x = axis_of(&steps, LEFT, RIGHT), y = axis_of(&values, BOTTOM, TOP);
    x = (struct axis){
        .low = steps.low, .high = steps.high > steps.low ? steps.high : steps.low + 1, .from = LEFT, .to = RIGHT};
    begin_svg(out, WIDTH, HEIGHT, title, title, is_file);
    put_axes(out, &x, &y, y.is_log ? "step (values on a logarithmic axis)" : "step");
    for (size_t i = count; i-- > 0;) { /* the best last, above the others */
        put_curve(out, &curves[i], &x, &y, i);
    }
    put_legend(out, curves, count, RIGHT + 14, TOP + 8);
    (void)fputs("</svg>\n", out);
    return true;
}

/* One chart of the metric "group/name". 1: it is written; 0: no curve has it; -1: no memory is left. */
static int chart_of(FILE *out, const struct export_documents *documents, const char *whole, bool is_file)
{
    struct curve curves[EXPORT_CURVES_MAX];
    const char *slash = strchr(whole, '/');
    char group[256];
    size_t count = 0;
    bool is_good = slash != NULL;
    (void)snprintf(group, sizeof group, "%.*s", slash != NULL ? (int)(slash - whole) : 0, whole);
    for (size_t i = 0; i < documents->curve_count && is_good; i++) {
        is_good =
            curve_make(&curves[count], documents->curves[i].trial, documents->curves[i].metrics, group, slash + 1);
        count += is_good;
    }
    bool is_put = is_good && put_chart(out, curves, count, whole, is_file);
    for (size_t i = 0; i < count; i++) {
        free(curves[i].sums);
    }
    return !is_good ? -1 : is_put;
}

int export_curves(FILE *out, const struct export_documents *documents, const struct export_rows *rows, int most,
                  bool is_file)
{
    char first[300];
    int written = 0;
    (void)snprintf(first, sizeof first, "validation/%s", rows->metric);
    for (size_t pass = 0; pass < 3;
         pass++) { /* the searcher's metric of the group validation, then of others, then the rest */
        for (size_t i = 0; i < rows->metrics.count && written < most; i++) {
            const char *name = rows->metrics.items[i], *slash = strchr(name, '/');
            size_t rank = strcmp(name, first) == 0 ? 0 : slash != NULL && strcmp(slash + 1, rows->metric) == 0 ? 1 : 2;
            int done = rank == pass ? chart_of(out, documents, name, is_file) : 0;
            if (done < 0) {
                return -1;
            }
            written += done;
        }
    }
    return written;
}

/* ---- points ---------------------------------------------------------------------------------------------------- */

static bool put_scatter(FILE *out, const struct export_rows *rows, const char *name)
{
    enum { WIDTH = 460, HEIGHT = 260, LEFT = 72, RIGHT = 446, TOP = 36, BOTTOM = 216 };
    struct extent across = {0}, values = {0};
    size_t every = rows->count / SCATTER_POINTS_MAX + 1;
    for (size_t i = 0; i < rows->count; i++) {
        double x;
        const msgpack_object *value = export_parameter(&rows->items[i], name);
        if (value->type != MSGPACK_OBJECT_NIL && !document_double(value, &x)) {
            return false;
        }
        if (value->type != MSGPACK_OBJECT_NIL && isfinite(rows->items[i].value)) {
            extend(&across, x);
            extend(&values, rows->items[i].value);
        }
    }
    if (values.count < 2 || across.high <= across.low) {
        return false;
    }
    struct axis x = axis_of(&across, LEFT, RIGHT), y = axis_of(&values, BOTTOM, TOP);
    char title[600];
    (void)snprintf(title, sizeof title, "%s against %s", rows->metric, name);
    begin_svg(out, WIDTH, HEIGHT, title, title, false);
    put_axes(out, &x, &y, name);
    for (size_t i = 0; i < rows->count; i += every) {
        double at;
        if (isfinite(rows->items[i].value) && document_double(export_parameter(&rows->items[i], name), &at)) {
            (void)fprintf(out,
                          "<circle class=\"point\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"><title>trial %llu</title></circle>",
                          axis_at(&x, at), axis_at(&y, rows->items[i].value),
                          (unsigned long long)document_number(rows->items[i].trial, "index"));
        }
    }
    (void)fputs("</svg>\n", out);
    return true;
}

int export_scatters(FILE *out, const struct export_rows *rows)
{
    int written = 0;
    for (size_t i = 0; i < rows->parameters.count && written < SCATTERS_MAX; i++) {
        written += put_scatter(out, rows, rows->parameters.items[i]);
    }
    return written;
}

bool export_svg(FILE *out, const struct export_documents *documents)
{
    struct export_rows rows;
    if (!export_rows_make(documents->show, &rows)) {
        return false;
    }
    int written = export_curves(out, documents, &rows, 1, true);
    if (written == 0) {
        begin_svg(out, 960, 60, "No trial has reported a metric.", "", true);
        (void)fputs("</svg>\n", out);
    }
    export_rows_free(&rows);
    return written >= 0;
}

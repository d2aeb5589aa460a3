#include "node/http/exposition.h"

#include <math.h>
#include <string.h>

#include "base/visible.h"

void exposition_begin(const struct exposition *page, const char *name, const char *type, const char *unit,
                      const char *help)
{
    const char *suffix = strcmp(type, "counter") == 0 && !page->is_open ? "_total" : "";
    (void)fprintf(page->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, suffix, help, name, suffix, type);
    if (page->is_open && unit[0] != '\0') {
        (void)fprintf(page->out, "# UNIT %s %s\n", name, unit);
    }
}

void exposition_label(struct exposition_labels *labels, const char *name, const char *value)
{
    char visible[256];
    (void)visible_text(visible, sizeof visible, value);
    size_t room = sizeof labels->text - labels->used, longest = strlen(name) + 2 * strlen(visible) + 5;
    if (longest > room) {
        return;
    }
    char *out = labels->text + labels->used;
    out += sprintf(out, "%s%s=\"", labels->used > 0 ? "," : "", name);
    for (const char *c = visible; *c != '\0'; c++) {
        if (*c == '\\' || *c == '"') {
            *out++ = '\\';
        }
        *out++ = *c;
    }
    *out++ = '"';
    *out = '\0';
    labels->used = (size_t)(out - labels->text);
}

static void put_number(FILE *out, double value)
{
    if (isnan(value)) {
        (void)fputs("NaN", out);
    } else if (isinf(value)) {
        (void)fputs(value > 0 ? "+Inf" : "-Inf", out);
    } else {
        (void)fprintf(out, "%.17g", value);
    }
}

static void put_sample(struct exposition *page, const char *name, const char *suffix, const char *labels, double value)
{
    if (page->series == EXPOSITION_SERIES_MAX) {
        page->dropped++;
        return;
    }
    page->series++;
    (void)fprintf(page->out, "%s%s%s%s%s ", name, suffix, labels[0] != '\0' ? "{" : "", labels,
                  labels[0] != '\0' ? "}" : "");
    put_number(page->out, value);
    (void)fputc('\n', page->out);
}

void exposition_sample(struct exposition *page, const char *name, const struct exposition_labels *labels, double value)
{
    put_sample(page, name, "", labels != NULL ? labels->text : "", value);
}

void exposition_histogram(struct exposition *page, const char *name, uint32_t count, const double *bounds,
                          const double *counts, double sum)
{
    double until = 0;
    if (page->series + count + 3 > EXPOSITION_SERIES_MAX) { /* a part of a histogram would be none */
        page->dropped += count + 3;
        return;
    }
    for (uint32_t i = 0; i <= count; i++) {
        char bound[48] = "le=\"+Inf\"";
        until += counts[i];
        if (i < count) {
            bool is_whole =
                page->is_open && bounds[i] == floor(bounds[i]) && bounds[i] < 1e15; /* OpenMetrics wants 5.0 for 5 */
            (void)snprintf(bound, sizeof bound, is_whole ? "le=\"%.1f\"" : "le=\"%.15g\"", bounds[i]);
        }
        put_sample(page, name, "_bucket", bound, until);
    }
    put_sample(page, name, "_count", "", until);
    put_sample(page, name, "_sum", "", sum);
}

void exposition_end(struct exposition *page, uint64_t dropped_before)
{
    exposition_begin(
        page, "shoal_metrics_dropped", "counter", "",
        "Series that this page had no room for, summed over its answers, and reports of trials that nobody counts.");
    (void)fprintf(page->out, "shoal_metrics_dropped_total %llu\n%s",
                  (unsigned long long)(dropped_before + page->dropped), page->is_open ? "# EOF\n" : "");
}

#include <math.h>
#include <string.h>
#include <time.h>

#include "node/export/inside.h"

void export_put_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        case '\'':
            (void)fputs("&#39;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

void export_number(double value, int digits, char out[64])
{
    (void)snprintf(out, 64, "%s", isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
    if (isfinite(value)) {
        (void)snprintf(out, 64, "%.*g", digits, value);
    }
}

void export_time(uint64_t second, char out[64])
{
    struct tm parts;
    time_t at = (time_t)second;
    if (gmtime_r(&at, &parts) == NULL || strftime(out, 64, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
        out[0] = '\0';
    }
}

static bool is_float(const msgpack_object *value)
{
    return value->type == MSGPACK_OBJECT_FLOAT32 || value->type == MSGPACK_OBJECT_FLOAT64;
}

void export_value(const msgpack_object *value, char out[EXPORT_TEXT_BYTES])
{
    if (value->type == MSGPACK_OBJECT_NIL) {
        (void)snprintf(out, EXPORT_TEXT_BYTES, "–");
    } else if (is_float(value)) {
        char number[64];
        export_number(value->via.f64, 6, number);
        (void)snprintf(out, EXPORT_TEXT_BYTES, "%s", number);
    } else {
        document_value(value, out, EXPORT_TEXT_BYTES);
    }
}

void export_exact(const msgpack_object *value, char out[EXPORT_TEXT_BYTES])
{
    if (value->type == MSGPACK_OBJECT_NIL) {
        out[0] = '\0';
        return;
    }
    if (!is_float(value)) {
        document_value(value, out, EXPORT_TEXT_BYTES);
        return;
    }
    char number[64];
    double back = (double)NAN;
    for (int digits = 6; digits <= 17; digits++) {
        export_number(value->via.f64, digits, number);
        if (!isfinite(value->via.f64) || (sscanf(number, "%lf", &back) == 1 && back == value->via.f64)) {
            break;
        }
    }
    (void)snprintf(out, EXPORT_TEXT_BYTES, "%s", number);
}

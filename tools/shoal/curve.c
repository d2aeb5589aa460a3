#include "tools/shoal/curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/shoal/render.h"

#define LABEL_COLUMNS 10
#define PICTURE_COLUMNS_MIN 24
#define PICTURE_COLUMNS_MAX 200
#define PICTURE_LINES_MAX 60

void curve_points_add(struct curve_points *points, uint64_t step, double value)
{
    if (!isfinite(value)) {
        return;
    }
    points->every = points->every == 0 ? 1 : points->every;
    while (points->count > 0 && points->steps[points->count - 1] >= step) {
        points->count--;
        points->since = points->every;
    }
    bool stays = points->count == 0 || points->since >= points->every;
    if (stays && points->count == CURVE_POINTS_KEPT) {
        for (size_t i = 0; 2 * i < CURVE_POINTS_KEPT; i++) {
            points->steps[i] = points->steps[2 * i];
            points->values[i] = points->values[2 * i];
        }
        points->count = CURVE_POINTS_KEPT / 2;
        points->every *= 2;
    }
    size_t at = stays ? points->count++ : points->count - 1;
    points->since = stays ? 1 : points->since + 1;
    points->steps[at] = step;
    points->values[at] = value;
}

/* The lowest and the highest value. */
static void find_range(const struct curve_points *points, double *low, double *high)
{
    *low = *high = points->values[0];
    for (size_t i = 1; i < points->count; i++) {
        *low = points->values[i] < *low ? points->values[i] : *low;
        *high = points->values[i] > *high ? points->values[i] : *high;
    }
}

/* Where the value lies between low and high, from 0 to levels - 1; in the middle where all values are the same. */
static size_t level_of(double value, double low, double high, size_t levels)
{
    double part = high > low ? value / (high - low) - low / (high - low) : 0.5;
    double level = floor(part * (double)(levels - 1) + 0.5);
    return !(level > 0) ? 0 : level > (double)(levels - 1) ? levels - 1 : (size_t)level;
}

void curve_line(const struct curve_points *points, bool utf8, char out[CURVE_LINE_BYTES])
{
    static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const signs[] = {"_", ".", "-", "=", "^"};
    const char *const *levels = utf8 ? blocks : signs;
    size_t level_count = utf8 ? sizeof blocks / sizeof blocks[0] : sizeof signs / sizeof signs[0];
    size_t used = 0, at = 0, columns = points->count < CURVE_LINE_COLUMNS ? points->count : CURVE_LINE_COLUMNS;
    double low, high;
    out[0] = '\0';
    if (points->count < 2) {
        return;
    }
    find_range(points, &low, &high);
    double first = (double)points->steps[0], span = (double)points->steps[points->count - 1] - first;
    for (size_t c = 0; c < columns; c++) {
        double until = first + span * (double)c / (double)(columns - 1);
        while (at + 1 < points->count && (double)points->steps[at + 1] <= until) {
            at++;
        }
        const char *sign = levels[level_of(points->values[at], low, high, level_count)];
        size_t bytes = strlen(sign);
        memcpy(out + used, sign, bytes);
        used += bytes;
    }
    out[used] = '\0';
}

/* Dots, by rows from the top. */
struct canvas {
    size_t width, height; /* in dots */
    uint8_t dots[2 * PICTURE_COLUMNS_MAX * 4 * PICTURE_LINES_MAX];
};

/* Between two points the curve is a straight line. */
static void draw(struct canvas *canvas, const struct curve_points *points, double low, double high)
{
    double first = (double)points->steps[0], span = (double)points->steps[points->count - 1] - first;
    size_t at = 0, before = SIZE_MAX;
    for (size_t x = 0; x < canvas->width; x++) {
        double step = first + span * (double)x / (double)(canvas->width - 1);
        while (at + 2 < points->count && (double)points->steps[at + 1] < step) {
            at++;
        }
        double from = (double)points->steps[at], length = (double)points->steps[at + 1] - from;
        double part = length > 0 ? (step - from) / length : 0;
        double value = points->values[at] * (1 - part) + points->values[at + 1] * part;
        size_t y = canvas->height - 1 - level_of(value, low, high, canvas->height);
        size_t top = before == SIZE_MAX || y < before ? y : before + (y > before), bottom = before == SIZE_MAX || y > before ? y : before - (y < before);
        for (size_t row = top; row <= bottom; row++) {
            canvas->dots[row * canvas->width + x] = 1;
        }
        before = y;
    }
}

/* The column behind the last dot of these rows of dots. */
static size_t end_of(const struct canvas *canvas, size_t first, size_t rows)
{
    size_t end = 0;
    for (size_t row = first; row < first + rows; row++) {
        for (size_t x = end; x < canvas->width; x++) {
            end = canvas->dots[row * canvas->width + x] != 0 ? x + 1 : end;
        }
    }
    return end;
}

static void write_braille(FILE *out, const struct canvas *canvas, size_t row)
{
    size_t end = end_of(canvas, 4 * row, 4);
    static const uint8_t bits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    for (size_t x = 0; x < end; x += 2) {
        unsigned set = 0;
        for (size_t dy = 0; dy < 4; dy++) {
            for (size_t dx = 0; dx < 2; dx++) {
                set |= canvas->dots[(4 * row + dy) * canvas->width + x + dx] != 0 ? bits[dy][dx] : 0u;
            }
        }
        if (set == 0) {
            (void)fputc(' ', out);
        } else { /* U+2800 and the bits */
            const char bytes[] = {(char)0xe2, (char)(0xa0 + (set >> 6)), (char)(0x80 + (set & 0x3f)), '\0'};
            (void)fputs(bytes, out);
        }
    }
}

static void write_ascii(FILE *out, const struct canvas *canvas, size_t row)
{
    size_t end = end_of(canvas, row, 1);
    for (size_t x = 0; x < end; x++) {
        (void)fputc(canvas->dots[row * canvas->width + x] != 0 ? '*' : ' ', out);
    }
}

void curve_picture(FILE *out, const struct curve_points *points, size_t width, size_t height, bool utf8)
{
    double low, high;
    width = width > PICTURE_COLUMNS_MAX ? PICTURE_COLUMNS_MAX : width;
    height = height > PICTURE_LINES_MAX ? PICTURE_LINES_MAX : height;
    struct canvas *canvas = width >= PICTURE_COLUMNS_MIN && height >= 2 && points->count >= 2 ? calloc(1, sizeof *canvas) : NULL;
    if (canvas == NULL) {
        return;
    }
    size_t columns = width - LABEL_COLUMNS - 1;
    canvas->width = utf8 ? 2 * columns : columns;
    canvas->height = utf8 ? 4 * height : height;
    find_range(points, &low, &high);
    draw(canvas, points, low, high);
    for (size_t row = 0; row < height; row++) {
        char label[RENDER_UNIT_BYTES] = "";
        if (row == 0 || row + 1 == height) {
            render_number(label, row == 0 ? high : low);
        }
        (void)fprintf(out, "%*s ", LABEL_COLUMNS, label);
        (utf8 ? write_braille : write_ascii)(out, canvas, row);
        (void)fputc('\n', out);
    }
    char from[32], to[32];
    (void)snprintf(from, sizeof from, "step %llu", (unsigned long long)points->steps[0]);
    (void)snprintf(to, sizeof to, "%llu", (unsigned long long)points->steps[points->count - 1]);
    size_t blanks = columns > strlen(from) + strlen(to) ? columns - strlen(from) - strlen(to) : 1;
    (void)fprintf(out, "%*s %s%*s%s\n", LABEL_COLUMNS, "", from, (int)blanks, "", to);
    free(canvas);
}

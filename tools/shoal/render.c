#include "tools/shoal/render.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>

static const char *const colour_codes[] = {"", "\033[1m", "\033[2m", "\033[31m", "\033[32m", "\033[33m", "\033[36m"};

enum render_colour render_state_colour(const char *state)
{
    static const struct {
        const char *state;
        enum render_colour colour;
    } rows[] = {
        {"alive", RENDER_GREEN},        {"completed", RENDER_GREEN}, {"ok", RENDER_GREEN},
        {"free", RENDER_PLAIN},         {"running", RENDER_CYAN},    {"leased", RENDER_CYAN},
        {"reserved", RENDER_CYAN},      {"suspect", RENDER_YELLOW},  {"paused", RENDER_YELLOW},
        {"releasing", RENDER_YELLOW},   {"withheld", RENDER_YELLOW}, {"cancelled", RENDER_YELLOW},
        {"unreachable", RENDER_YELLOW}, {"queued", RENDER_DIM},      {"left", RENDER_DIM},
        {"dead", RENDER_RED},           {"failed", RENDER_RED},      {"corrupt", RENDER_RED},
        {"missing", RENDER_RED},        {"good", RENDER_GREEN},      {"evicted", RENDER_RED},
        {"void", RENDER_RED},           {"revoked", RENDER_YELLOW},  {"expired", RENDER_DIM},
        {"stopping", RENDER_YELLOW},    {"stopped", RENDER_YELLOW},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strcmp(rows[i].state, state) == 0) {
            return rows[i].colour;
        }
    }
    return RENDER_PLAIN;
}

void render_text(FILE *out, bool colours, enum render_colour colour, const char *text)
{
    if (colours && colour != RENDER_PLAIN) {
        (void)fprintf(out, "%s%s\033[0m", colour_codes[colour], text);
    } else {
        (void)fputs(text, out);
    }
}

/* The bytes of the escape sequence (0 columns) or the character (1 column) at `text`. */
static size_t next_piece(const char *text, size_t *columns)
{
    *columns = 1;
    if (text[0] == '\033' && text[1] == '[') {
        size_t bytes = 2 + strspn(text + 2, "0123456789;");
        *columns = 0;
        return text[bytes] == '\0' ? bytes : bytes + 1;
    }
    size_t bytes = 1;
    while (((unsigned char)text[0] & 0x80) != 0 && ((unsigned char)text[bytes] & 0xc0) == 0x80) {
        bytes++;
    }
    return bytes;
}

size_t render_width(const char *text)
{
    size_t width = 0;
    while (*text != '\0') {
        size_t columns;
        text += next_piece(text, &columns);
        width += columns;
    }
    return width;
}

size_t render_fit(const char *text, size_t width)
{
    size_t used = 0, at = 0;
    while (text[at] != '\0') {
        size_t columns, bytes = next_piece(text + at, &columns);
        if (used + columns > width) {
            break;
        }
        used += columns;
        at += bytes;
    }
    return at;
}

void render_wrapped(FILE *out, bool colours, enum render_colour colour, const char *text, size_t width, size_t lines_max)
{
    for (size_t line = 1; *text != '\0'; line++) {
        size_t fits = width > 0 ? render_fit(text, width) : strlen(text), bytes = fits;
        if (text[fits] != '\0') {
            while (bytes > 0 && text[bytes] != ' ') {
                bytes--;
            }
            bytes = bytes > 0 ? bytes : fits > 0 ? fits : 1;
        }
        char part[2048];
        (void)snprintf(part, sizeof part, "%.*s", (int)bytes, text);
        render_text(out, colours, colour, part);
        (void)fputc('\n', out);
        text += line < lines_max ? bytes : strlen(text);
        text += strspn(text, " ");
    }
}

void render_bytes(char out[RENDER_UNIT_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llu B", (unsigned long long)bytes);
        return;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.95 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, RENDER_UNIT_BYTES, value < 99.95 ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void render_duration(char out[RENDER_UNIT_BYTES], uint64_t seconds)
{
    unsigned long long s = seconds;
    if (s < 60) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llu s", s);
    } else if (s < 3600) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llu min %llu s", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llu h %llu min", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%llu d %llu h", s / 86400, s / 3600 % 24);
    }
}

void render_number(char out[RENDER_UNIT_BYTES], double value)
{
    double size = fabs(value);
    if (size < 1e15 && floor(value) >= value) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%.0f", value);
    } else if (size >= 0.001 && size < 1e6) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%.4f", value);
    } else {
        (void)snprintf(out, RENDER_UNIT_BYTES, "%.3e", value);
    }
}

void render_time(char out[RENDER_UNIT_BYTES], uint64_t wall_ms)
{
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    if (localtime_r(&seconds, &parts) == NULL || strftime(out, RENDER_UNIT_BYTES, "%Y-%m-%d %H:%M:%S", &parts) == 0) {
        (void)snprintf(out, RENDER_UNIT_BYTES, "-");
    }
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

void table_column(struct table *table, const char *head, bool right)
{
    if (table->column_count == TABLE_COLUMNS_MAX) {
        table->failed = true;
        return;
    }
    table->heads[table->column_count] = head;
    table->right[table->column_count++] = right;
}

void table_cell(struct table *table, enum render_colour colour, const char *format, ...)
{
    if (table->cell_count == table->cell_capacity) {
        size_t capacity = table->cell_capacity == 0 ? 64 : 2 * table->cell_capacity;
        struct table_cell *cells = realloc(table->cells, capacity * sizeof *cells);
        if (cells == NULL) {
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->cell_capacity = capacity;
    }
    char *text;
    va_list values;
    va_start(values, format);
    int length = vasprintf(&text, format, values);
    va_end(values);
    if (length < 0) {
        table->failed = true;
        return;
    }
    table->cells[table->cell_count++] = (struct table_cell){text, colour};
}

void table_narrow(struct table *table, size_t width)
{
    size_t columns = table->column_count, kept = 0, used = 0, at = 0;
    for (; kept < columns; kept++) {
        size_t widest = render_width(table->heads[kept]);
        for (size_t i = kept; i < table->cell_count; i += columns) {
            size_t cell = render_width(table->cells[i].text);
            widest = cell > widest ? cell : widest;
        }
        used += widest + (kept > 0 ? 2 : 0);
        if (kept > 0 && used > width) {
            break;
        }
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        if (i % columns < kept) {
            table->cells[at++] = table->cells[i];
        } else {
            free(table->cells[i].text);
        }
    }
    table->cell_count = at;
    table->column_count = kept;
}

static void write_cell(const struct table *table, FILE *out, bool colours, size_t column, size_t width,
                       const char *text, enum render_colour colour)
{
    int blanks = (int)(width - render_width(text));
    bool last = column + 1 == table->column_count;
    if (table->right[column]) {
        (void)fprintf(out, "%*s", blanks, "");
    }
    render_text(out, colours, colour, text);
    if (!last) {
        (void)fprintf(out, "%*s", (table->right[column] ? 0 : blanks) + 2, "");
    }
}

static void find_widths(const struct table *table, size_t widths[TABLE_COLUMNS_MAX])
{
    size_t columns = table->column_count;
    for (size_t c = 0; c < columns; c++) {
        widths[c] = render_width(table->heads[c]);
        for (size_t i = c; i < table->cell_count; i += columns) {
            size_t width = render_width(table->cells[i].text);
            widths[c] = width > widths[c] ? width : widths[c];
        }
    }
}

#define CUT_LEAST 12 /* columns of a cell that was cut */

/* To which width a column can be cut. */
static size_t least_width(const struct table *table, size_t column, size_t width, uint32_t cuts)
{
    size_t head = render_width(table->heads[column]), least = head > CUT_LEAST ? head : CUT_LEAST;
    return (cuts >> column & 1) != 0 && width > least ? least : width;
}

size_t table_least_width(const struct table *table, uint32_t cuts)
{
    size_t widths[TABLE_COLUMNS_MAX], all = 0;
    find_widths(table, widths);
    for (size_t c = 0; c < table->column_count; c++) {
        all += least_width(table, c, widths[c], cuts) + (c > 0 ? 2 : 0);
    }
    return all;
}

size_t table_width(const struct table *table)
{
    return table_least_width(table, 0);
}

static void cut_cell(char *text, size_t width)
{
    if (render_width(text) > width) {
        memcpy(text + render_fit(text, width - 3), "...", 4); /* what is cut off is longer */
    }
}

void table_fit(struct table *table, size_t width, uint32_t cuts)
{
    size_t widths[TABLE_COLUMNS_MAX], all = 0, widest;
    find_widths(table, widths);
    for (size_t c = 0; c < table->column_count; c++) {
        all += widths[c] + (c > 0 ? 2 : 0);
    }
    for (; all > width; all--) {
        widest = SIZE_MAX;
        for (size_t c = 0; c < table->column_count; c++) {
            bool can_be_cut = least_width(table, c, widths[c], cuts) < widths[c];
            widest = can_be_cut && (widest == SIZE_MAX || widths[c] > widths[widest]) ? c : widest;
        }
        if (widest == SIZE_MAX) {
            break;
        }
        widths[widest]--;
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        cut_cell(table->cells[i].text, widths[i % table->column_count]);
    }
}

void table_free(struct table *table)
{
    for (size_t i = 0; i < table->cell_count; i++) {
        free(table->cells[i].text);
    }
    free(table->cells);
    memset(table, 0, sizeof *table);
}

void table_write(struct table *table, FILE *out, bool colours)
{
    size_t widths[TABLE_COLUMNS_MAX], columns = table->column_count;
    find_widths(table, widths);
    for (size_t c = 0; c < columns; c++) {
        write_cell(table, out, colours, c, widths[c], table->heads[c], RENDER_BOLD);
    }
    (void)fputc('\n', out);
    for (size_t i = 0; i < table->cell_count; i++) {
        write_cell(table, out, colours, i % columns, widths[i % columns], table->cells[i].text, table->cells[i].colour);
        if (i % columns == columns - 1) {
            (void)fputc('\n', out);
        }
    }
    if (table->failed) {
        (void)fputs("(rows are missing: no memory is left)\n", out);
    }
    table_free(table);
}

/* ---- terminals --------------------------------------------------------------------------------------------------- */

void render_terminal_size(FILE *file, size_t *columns, size_t *lines)
{
    struct winsize size = {0};
    bool known = fileno(file) >= 0 && ioctl(fileno(file), TIOCGWINSZ, &size) == 0;
    *columns = known && size.ws_col > 0 ? size.ws_col : 80;
    *lines = known && size.ws_row > 0 ? size.ws_row : 24;
}

void render_screen(FILE *out, const char *text, size_t columns, size_t lines, size_t *lines_before)
{
    if (*lines_before > 0) {
        (void)fprintf(out, "\033[%zuA", *lines_before);
    }
    size_t written = 0;
    while (*text != '\0' && written + 1 < lines) { /* the cursor needs the line below */
        size_t length = strcspn(text, "\n");
        char *line = strndup(text, length);
        if (line == NULL) {
            break;
        }
        (void)fprintf(out, "\r%.*s\033[0m\033[K\n", (int)render_fit(line, columns), line);
        free(line);
        written++;
        text += length + (text[length] == '\n');
    }
    (void)fputs("\033[J", out); /* clears the rest of the screen before */
    (void)fflush(out);
    *lines_before = written;
}

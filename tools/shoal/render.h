#ifndef TOOLS_SHOAL_RENDER_H
#define TOOLS_SHOAL_RENDER_H
/* Text for people: aligned tables, colours, units, cut to the size of a terminal. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum render_colour { RENDER_PLAIN, RENDER_BOLD, RENDER_DIM, RENDER_RED, RENDER_GREEN, RENDER_YELLOW, RENDER_CYAN };

/* The colour of a state's name ("alive", "failed", ...). */
enum render_colour render_state_colour(const char *state);

/* Writes text in a colour, or plain if !colours. */
void render_text(FILE *out, bool colours, enum render_colour colour, const char *text);

/* The text's width in columns of a terminal: a UTF-8 sequence counts one, an escape sequence of a colour none. */
size_t render_width(const char *text);

/* The number of bytes of the text that fit in `width` columns; never ends inside a sequence. */
size_t render_fit(const char *text, size_t width);

/* Writes text in a colour, as lines of at most `width` columns that are parted at blanks; 0: as one line. What does not fit
 * in `lines_max` lines is left out. */
void render_wrapped(FILE *out, bool colours, enum render_colour colour, const char *text, size_t width, size_t lines_max);

#define RENDER_UNIT_BYTES 48

/* "512 B", "1.5 GiB". */
void render_bytes(char out[RENDER_UNIT_BYTES], uint64_t bytes);

/* "45 s", "3 min 5 s", "2 h 10 min", "3 d 4 h". */
void render_duration(char out[RENDER_UNIT_BYTES], uint64_t seconds);

/* A whole number plainly, else 4 digits behind the point; very small and large values as 1.234e-05. */
void render_number(char out[RENDER_UNIT_BYTES], double value);

/* Local time, "2026-11-21 10:31:02", from milliseconds since 1970; "-" if out of range. */
void render_time(char out[RENDER_UNIT_BYTES], uint64_t wall_ms);

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define TABLE_COLUMNS_MAX 48

/* A table under construction: first all columns, then the cells row by row. All zero is an empty table. A lack of memory is
 * remembered, and written as a last line by table_write. */
struct table {
    size_t column_count, cell_count, cell_capacity;
    const char *heads[TABLE_COLUMNS_MAX]; /* borrowed */
    bool right[TABLE_COLUMNS_MAX];        /* aligned to the right */
    struct table_cell {
        char *text;
        enum render_colour colour;
    } * cells;
    bool failed; /* no memory */
};

/* Adds a column; `head` is borrowed until table_write. At most TABLE_COLUMNS_MAX columns. */
void table_column(struct table *table, const char *head, bool right);

/* Adds the next cell; the formatted text is copied. */
void table_cell(struct table *table, enum render_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* How narrow table_fit can make the table; bit i of `cuts` for column i. */
size_t table_least_width(const struct table *table, uint32_t cuts);

/* How wide the table is. */
size_t table_width(const struct table *table);

/* Shortens cells of the columns in `cuts`, the widest first, until the table has at most `width` columns of a terminal, or none of
 * them is wider than its head and 12. A cell that was cut ends in "...". */
void table_fit(struct table *table, size_t width, uint32_t cuts);

/* Frees the cells and leaves an empty table, unwritten. */
void table_free(struct table *table);

/* Leaves out the last columns, until a row takes at most `width` columns of a terminal, or one is left. */
void table_narrow(struct table *table, size_t width);

/* Writes head and rows, without blanks at the ends of lines; then frees the cells and leaves an empty table. */
void table_write(struct table *table, FILE *out, bool colours);

/* ---- terminals --------------------------------------------------------------------------------------------------- */

/* Size of the terminal behind `file`; 80 x 24 if unknown. */
void render_terminal_size(FILE *file, size_t *columns, size_t *lines);

/* Writes a screen over the previous screen of `*lines_before` lines (0 at first), and updates `*lines_before`. At most `lines`
 * lines are used, each cut to `columns`. */
void render_screen(FILE *out, const char *text, size_t columns, size_t lines, size_t *lines_before);

#endif

#ifndef TOOLS_SHOAL_RENDER_H
#define TOOLS_SHOAL_RENDER_H
/* Text for people: aligned tables, colours, units, and what of it fits a terminal. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum render_colour { RENDER_PLAIN, RENDER_BOLD, RENDER_DIM, RENDER_RED, RENDER_GREEN, RENDER_YELLOW, RENDER_CYAN };

/* The colour of a state's name ("alive", "failed", ...). */
enum render_colour render_state_colour(const char *state);

/* Writes text in a colour, or plainly when !colours. */
void render_text(FILE *out, bool colours, enum render_colour colour, const char *text);

/* Columns on a terminal that the text takes: UTF-8 sequences count one, escape sequences of colours none. */
size_t render_width(const char *text);

/* How many of the text's bytes fit in `width` columns; never within a sequence. */
size_t render_fit(const char *text, size_t width);

#define RENDER_UNIT_BYTES 48

/* "512 B", "1.5 GiB"; "45 s", "3 min 5 s", "2 h 10 min", "3 d 4 h"; up to 4 digits behind the point. */
void render_bytes(char out[RENDER_UNIT_BYTES], uint64_t bytes);
void render_duration(char out[RENDER_UNIT_BYTES], uint64_t seconds);
void render_number(char out[RENDER_UNIT_BYTES], double value);

/* Local time: "2026-11-21 10:31:02". */
void render_time(char out[RENDER_UNIT_BYTES], uint64_t wall_ms);

/* ---- tables ------------------------------------------------------------------------------------------------------ */

#define TABLE_COLUMNS_MAX 16

/* Cells are added row by row; columns with `right` are aligned to the right. All zero is an empty table. */
struct table {
    size_t column_count, cell_count, cell_capacity;
    const char *heads[TABLE_COLUMNS_MAX]; /* borrowed */
    bool right[TABLE_COLUMNS_MAX];
    struct table_cell {
        char *text;
        enum render_colour colour;
    } * cells;
    bool failed; /* no memory */
};

void table_column(struct table *table, const char *head, bool right);
void table_cell(struct table *table, enum render_colour colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes head and rows, without blanks at the ends of lines, and empties the table. */
void table_write(struct table *table, FILE *out, bool colours);

/* ---- terminals --------------------------------------------------------------------------------------------------- */

/* Size of the terminal behind `file`; 80 x 24 if it does not say. */
void render_terminal_size(FILE *file, size_t *columns, size_t *lines);

/* Writes a screen over the one that was written before (whose number of lines is `*lines_before`, 0 at first): every
 * line cut to `columns`, at most `lines` of them. */
void render_screen(FILE *out, const char *text, size_t columns, size_t lines, size_t *lines_before);

#endif

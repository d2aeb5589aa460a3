#ifndef TOOLS_SHOAL_LOG_LINES_H
#define TOOLS_SHOAL_LOG_LINES_H
/* What workers print, as lines: pieces of output come in, of any length and cut anywhere, and whole lines go out, so that
 * lines of several ranks do not mix. A core but for memory.
 *
 * A carriage return draws a line anew, as progress bars do. A line is what was drawn last. A reader who follows also gets
 * the states in between: one for each piece at most. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_BYTES_MAX (1u << 20) /* a longer line is cut, never inside a character of UTF-8 */

/* The worker that wrote a piece. */
struct log_source {
    uint64_t attempt, rank, local_rank;
    char host[64]; /* the label of its node */
};

/* One line on its way out. */
struct log_line {
    const struct log_source *source; /* valid during the call, as the text */
    const char *text; /* without its end, unless lines are raw */
    size_t bytes;
    bool is_state; /* a state of a line that is still being drawn */
    bool is_cut;   /* the line goes on: the rest is the next line of this rank */
};

typedef void log_line_fn(void *context, const struct log_line *line);

/* The unfinished lines, one for each rank. All zero but for `out`, `context`, `follows` and `is_raw` at the start. */
struct log_lines {
    log_line_fn *out;
    void *context;
    bool follows; /* states go out, too */
    bool is_raw;  /* bytes go out as they came, ends of lines and carriage returns too, but cut behind such an end only */
    struct log_rank *ranks; /* by rank */
    size_t count, slots;
};

/* Takes a piece of a rank's output. A rank's first piece of another attempt or host ends the line before. False: no memory. */
bool log_lines_take(struct log_lines *lines, const struct log_source *source, const char *bytes, size_t count);

/* Ends all unfinished lines, in order of the ranks. */
void log_lines_end(struct log_lines *lines);

/* Frees the lines. */
void log_lines_close(struct log_lines *lines);

#endif

#ifndef TESTS_SIM_COMMAND_LINE_H
#define TESTS_SIM_COMMAND_LINE_H
/* The command lines of the simulator's programs: a table of options, the help that follows from it, and one sentence for what
 * cannot be used. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* One option with the places that it sets, one of `number`, `real` and `text` if it has a value; they keep what they held
 * before where the option is not given. */
struct command_line_option {
    const char *name;     /* "--seeds" */
    const char *value;    /* what stands behind it in the help, "N"; NULL: it has no value */
    const char *help;     /* one line, or several */
    bool *given;          /* set to true; may be NULL */
    uint64_t *number;     /* decimal, or hexadecimal with 0x; min ... max */
    double *real;         /* min ... max */
    uint64_t min, max;    /* max 0: no limit */
    const char **text;    /* borrowed from argv */
    const char *const *words; /* if not NULL: `text` is one of these; ends with NULL */
};

struct command_line {
    const char *purpose; /* what the program does, for the help; lines end with \n */
    const struct command_line_option *options;
    size_t option_count;
};

/* What the program should do now: go on, or end with that exit status. */
enum { COMMAND_LINE_GO_ON = -1, COMMAND_LINE_HELPED = 0, COMMAND_LINE_REFUSED = 2 };

/* Reads argv[1] and on; the program is called what follows the last slash of argv[0]. --help prints the help to `out`, and
 * what cannot be used is named in one sentence in `err`. */
int command_line_read(const struct command_line *line, int argc, char *const *argv, FILE *out, FILE *err);

#endif

#ifndef TOOLS_SHOAL_OPTIONS_H
#define TOOLS_SHOAL_OPTIONS_H
/* The command line as data: the table of commands with their options, and the arguments that a user gave. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPERANDS_MAX 64 /* a node's slots */
#define OPTIONS_GIVEN_MAX 128
#define OPTIONS_ERROR_BYTES 512

struct option_rule {
    const char *name;  /* without "--"; NULL ends a list */
    const char *value; /* the value's name in help texts; NULL: the option takes no value */
    const char *help;
};

struct cli;
struct arguments;

struct command {
    const char *name;     /* one word, or two ("checkpoint ls"); NULL ends the table */
    const char *operands; /* for usage: "EXP [DIR]" */
    const char *summary;  /* one line */
    const char *details;  /* whole lines, or NULL */
    const struct option_rule *options;
    size_t operand_min, operand_max;
    int (*run)(struct cli *cli, const struct arguments *arguments); /* returns an exit code */
};

/* --dir, --json, --help, --version: options of every command. */
extern const struct option_rule options_common[];

struct arguments {
    const struct command *command; /* NULL: the user named no command */
    const char *operands[OPERANDS_MAX];
    size_t operand_count;
    struct {
        const struct option_rule *rule;
        const char *value;
    } given[OPTIONS_GIVEN_MAX];
    size_t given_count;
    const char *group; /* the first word of a two-word command without the second word, or NULL */
};

/* Reads argv[1...]: options may stand anywhere, as "--name value" or "--name=value"; "--" ends the options; "-h" is --help.
 * The fields of `out` point into `argv` and `commands`. ERR_USAGE: `error` is one sentence, with the nearest known word, and
 * `out` holds the arguments before the wrong one. With --help the number of operands is not checked. */
int options_parse(const struct command *commands, int argc, char *const *argv, struct arguments *out,
                  char error[OPTIONS_ERROR_BYTES]);

/* The last value given for the option `name`, or NULL. */
const char *options_value(const struct arguments *arguments, const char *name);
/* True if the option `name` was given. */
bool options_has(const struct arguments *arguments, const char *name);

/* All values of a repeatable option, in order, borrowed from argv; returns their number, at most `max`. */
size_t options_values(const struct arguments *arguments, const char *name, const char **out, size_t max);

/* Reads a whole number of digits only, 0 to `max`. 0 or ERR_MALFORMED. */
int options_number(const char *text, uint64_t max, uint64_t *out);

/* Reads a time as ms since 1970: a duration before `now_s` (base/units.h), or a local time such as "2026-11-25",
 * "2026-11-25 16:00" or "2026-11-25T16:00:30". 0 or ERR_MALFORMED. */
int options_since(const char *text, uint64_t now_s, uint64_t *out_ms);

#endif

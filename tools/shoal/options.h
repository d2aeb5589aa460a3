#ifndef TOOLS_SHOAL_OPTIONS_H
#define TOOLS_SHOAL_OPTIONS_H
/* The command line as data: which commands there are, what each takes, and what was given. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OPERANDS_MAX 64 /* a node's slots */
#define OPTIONS_GIVEN_MAX 128
#define OPTIONS_ERROR_BYTES 512

struct option_rule {
    const char *name;  /* without "--"; NULL ends a list */
    const char *value; /* what its value is called, NULL: it takes none */
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

/* --dir, --json, --help, --version: every command has them. */
extern const struct option_rule options_common[];

struct arguments {
    const struct command *command; /* NULL: none was named */
    const char *operands[OPERANDS_MAX];
    size_t operand_count;
    struct {
        const struct option_rule *rule;
        const char *value;
    } given[OPTIONS_GIVEN_MAX];
    size_t given_count;
    const char *group; /* the first word of a two-word command whose second is missing, or NULL */
};

/* Reads argv[1...]; options may stand anywhere, "--name value" or "--name=value", "--" ends them, "-h" is --help.
 * Everything points into `argv` and `commands`. ERR_USAGE: `error` is one sentence with the nearest known word; `out`
 * then has what was understood before. With --help operands are not counted. */
int options_parse(const struct command *commands, int argc, char *const *argv, struct arguments *out,
                  char error[OPTIONS_ERROR_BYTES]);

/* The last value given, or NULL. */
const char *options_value(const struct arguments *arguments, const char *name);
bool options_has(const struct arguments *arguments, const char *name);

/* Every value of an option that may be repeated; returns the count, at most `max`. */
size_t options_values(const struct arguments *arguments, const char *name, const char **out, size_t max);

/* A whole number up to `max`, digits only. A duration in seconds: "90", "90s", "15m", "24h", "7d". 0 or ERR_MALFORMED.
 */
int options_number(const char *text, uint64_t max, uint64_t *out);
int options_duration(const char *text, uint64_t max_s, uint64_t *out);

#endif

#include "tests/sim/command_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define HELP_COLUMN 20

static void print_words(const struct command_line_option *option, FILE *file)
{
    for (const char *const *word = option->words; *word != NULL; word++) {
        fprintf(file, "%s%s", word == option->words ? "" : ", ", *word);
    }
}

/* "1 ... 64", "whole numbers": what may stand behind the option. */
static void print_allowed(const struct command_line_option *option, FILE *file)
{
    const char *kind = option->number != NULL ? "whole numbers" : "numbers";
    if (option->text != NULL && option->words != NULL) {
        print_words(option, file);
    } else if (option->text != NULL) {
        fputs("texts", file);
    } else if (option->max != 0) {
        fprintf(file, "%s from %llu to %llu", kind, (unsigned long long)option->min, (unsigned long long)option->max);
    } else {
        fprintf(file, "%s from %llu on", kind, (unsigned long long)option->min);
    }
}

static void print_help(const struct command_line *line, const char *program, FILE *out)
{
    fprintf(out, "usage: %s [OPTION ...]\n\n%s\n", program, line->purpose);
    for (size_t i = 0; i < line->option_count; i++) {
        const struct command_line_option *option = &line->options[i];
        const char *value = option->value != NULL ? option->value : "";
        int used = fprintf(out, "  %s %s", option->name, value);
        fprintf(out, "%*s", used < HELP_COLUMN ? HELP_COLUMN - used : 1, "");
        for (const char *p = option->help; *p != '\0'; p++) {
            (void)fputc(*p, out);
            if (*p == '\n') {
                fprintf(out, "%*s", HELP_COLUMN, "");
            }
        }
        if (option->words != NULL) {
            fputs(": ", out);
            print_words(option, out);
        } else if (option->max != 0) {
            fprintf(out, " (%llu ... %llu)", (unsigned long long)option->min, (unsigned long long)option->max);
        }
        (void)fputc('\n', out);
    }
    fprintf(out, "  --help%*sthis text\n", HELP_COLUMN - 8, "");
}

/* False if it is no such value; nothing is set then. */
static bool take_value(const struct command_line_option *option, const char *value)
{
    bool is_number = value[0] >= '0' && value[0] <= '9';
    char *end = NULL;
    errno = 0;
    if (option->number != NULL) {
        bool is_hexadecimal = value[0] == '0' && (value[1] == 'x' || value[1] == 'X');
        uint64_t number = strtoull(value, &end, is_hexadecimal ? 16 : 10);
        if (!is_number || *end != '\0' || errno != 0 || number < option->min || (option->max != 0 && number > option->max)) {
            return false;
        }
        *option->number = number;
    } else if (option->real != NULL) {
        double real = strtod(value, &end);
        if (!is_number || *end != '\0' || errno != 0 || real < (double)option->min ||
            (option->max != 0 && real > (double)option->max)) {
            return false;
        }
        *option->real = real;
    } else {
        bool is_word = option->words == NULL;
        for (const char *const *word = option->words; !is_word && *word != NULL; word++) {
            is_word = strcmp(*word, value) == 0;
        }
        if (!is_word) {
            return false;
        }
        *option->text = value;
    }
    return true;
}

int command_line_read(const struct command_line *line, int argc, char *const *argv, FILE *out, FILE *err)
{
    const char *slash = strrchr(argv[0], '/');
    const char *program = slash != NULL ? slash + 1 : argv[0];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(line, program, out);
            return COMMAND_LINE_HELPED;
        }
        const struct command_line_option *option = NULL;
        for (size_t o = 0; o < line->option_count; o++) {
            option = strcmp(line->options[o].name, argv[i]) == 0 ? &line->options[o] : option;
        }
        if (option == NULL) {
            fprintf(err, "%s: there is no option '%.80s'; %s --help lists them.\n", program, argv[i], program);
            return COMMAND_LINE_REFUSED;
        }
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool is_wrong = option->value != NULL && (value == NULL || !take_value(option, value));
        if (is_wrong) {
            fprintf(err, "%s: %s ", program, option->name);
            if (value == NULL) {
                fputs("lacks its value", err);
            } else {
                fprintf(err, "is '%.80s'", value);
            }
            fputs("; allowed are ", err);
            print_allowed(option, err);
            fputs(".\n", err);
            return COMMAND_LINE_REFUSED;
        }
        i += option->value != NULL;
        if (option->given != NULL) {
            *option->given = true;
        }
    }
    return COMMAND_LINE_GO_ON;
}

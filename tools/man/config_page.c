/* Writes the manual page shoal-config(5): a template, with the table of options in the place of the line @KEYS@.
 * usage: write_config_page TEMPLATE PAGE */

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "node/config/config_yaml.h"

#define LINE_BYTES 1024

/* Writes a text so that troff shows it as it is. */
static void write_text(FILE *out, const char *text)
{
    static const char specials[] = "\\-'`^~";
    static const char *const escapes[] = {"\\e", "\\-", "\\(aq", "\\(ga", "\\(ha", "\\(ti"};
    for (; *text != '\0'; text++) {
        const char *special = strchr(specials, *text);
        if (special != NULL) {
            (void)fputs(escapes[special - specials], out);
        } else {
            (void)fputc(*text, out);
        }
    }
}

static void write_row(void *context, const struct config_option_text *text)
{
    FILE *out = context;
    (void)fputs(".TP\n\\fB", out);
    write_text(out, text->key);
    (void)fputs("\\fR (", out);
    write_text(out, text->type);
    (void)fputs("; default: ", out);
    write_text(out, text->standard);
    (void)fputs(")\n\\&", out);
    write_text(out, text->help);
    (void)fputs("\n.br\nAllowed: ", out);
    write_text(out, text->allowed);
    (void)fputs(".\n", out);
}

/* False with errno set. */
static bool write_page(FILE *template, FILE *out)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof line, template) != NULL) {
        if (strcmp(line, "@KEYS@\n") == 0) {
            config_describe(write_row, out);
        } else {
            (void)fputs(line, out);
        }
    }
    return !ferror(template) && !ferror(out);
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        (void)fputs("usage: write_config_page TEMPLATE PAGE\n", stderr);
        return 2;
    }
    FILE *template = fopen(argv[1], "re"), *out = fopen(argv[2], "we");
    bool is_good = template != NULL && out != NULL && write_page(template, out);
    if (template != NULL) {
        (void)fclose(template);
    }
    if (out != NULL) {
        is_good = fclose(out) == 0 && is_good;
    }
    if (!is_good) {
        (void)fprintf(stderr, "write_config_page: %s cannot be made from %s: %s\n", argv[2], argv[1], strerror(errno));
    }
    return is_good ? 0 : 1;
}

#include "tools/shoal/table_choice.h"

#include <string.h>

#define ALLOWED_BYTES 512

static int fail_unknown(struct cli *cli, const struct choice *choice, const char *word, size_t bytes)
{
    char allowed[ALLOWED_BYTES];
    size_t used = 0;
    allowed[0] = '\0';
    for (size_t i = 0; choice->name(i) != NULL && used < sizeof allowed; i++) {
        int written = snprintf(allowed + used, sizeof allowed - used, "%s%s", i > 0 ? ", " : "", choice->name(i));
        used += written > 0 ? (size_t)written : 0;
    }
    return cli_fail(cli, CLI_USAGE, "--%s: there is no %s '%.*s'; allowed are %s", choice->option, choice->thing,
                    bytes > 80 ? 80 : (int)bytes, word, allowed);
}

int choice_read(struct cli *cli, const struct choice *choice, const char *text, size_t max, size_t *at, bool *descends, size_t *count)
{
    *count = 0;
    for (const char *word = text;; word += strcspn(word, ",") + 1) {
        bool has_minus = choice->allows_minus && *word == '-';
        const char *name = word + has_minus;
        size_t bytes = strcspn(name, ","), i = 0;
        while (choice->name(i) != NULL && (strlen(choice->name(i)) != bytes || memcmp(choice->name(i), name, bytes) != 0)) {
            i++;
        }
        if (choice->name(i) == NULL) {
            return fail_unknown(cli, choice, name, bytes);
        }
        if (*count == max) {
            return cli_fail(cli, CLI_USAGE, "--%s: more than %zu %ss", choice->option, max, choice->thing);
        }
        if (descends != NULL) {
            descends[*count] = has_minus;
        }
        at[(*count)++] = i;
        if (name[bytes] == '\0') {
            return CLI_DONE;
        }
    }
}

void choice_write_csv(FILE *out, const char *text, bool is_last)
{
    bool is_quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (is_quoted) {
        (void)fputc('"', out);
    }
    for (; *text != '\0'; text++) {
        (void)fprintf(out, "%s%c", *text == '"' ? "\"" : "", *text);
    }
    (void)fprintf(out, "%s%c", is_quoted ? "\"" : "", is_last ? '\n' : ',');
}

#include "node/daemon/workers/warm_command.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define BLANKS " \t"
#define SPECIAL "$`&|;()<>*?[]{}#~!\n" /* what asks something of the shell outside quotes */

__attribute__((format(printf, 2, 3))) static int refuse(char why[WARM_WHY_BYTES], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(why, WARM_WHY_BYTES, format, arguments);
    va_end(arguments);
    return ERR_USAGE;
}

/* ---- words ------------------------------------------------------------------------------------------------------- */

/* Takes one word with its quotes removed to `out`, which has room for it and a NUL. Returns where the entrypoint goes on;
 * NULL: the word asks something of the shell, and `why` says what. */
static const char *word_take(const char *at, char **out, char why[WARM_WHY_BYTES])
{
    char *to = *out, quote = '\0';
    for (; *at != '\0' && (quote != '\0' || strchr(BLANKS, *at) == NULL); at++) {
        bool is_escaped = *at == '\\' && quote != '\'' && at[1] != '\0' && (quote == '\0' || strchr("$`\"\\", at[1]) != NULL);
        if (is_escaped && at[1] != '\n') {
            *to++ = *++at;
        } else if (*at == '\'' || *at == '"') {
            bool is_text = quote != '\0' && quote != *at;
            if (is_text) {
                *to++ = *at;
            } else {
                quote = quote == '\0' ? *at : '\0';
            }
        } else if ((quote == '\0' && (is_escaped || strchr(SPECIAL, *at) != NULL)) || (quote == '"' && (*at == '$' || *at == '`' || (*at == '\\' && at[1] == '\n')))) {
            (void)refuse(why, "its entrypoint needs a shell (for the %s%.1s)", *at == '\n' ? "end of a line" : "", *at == '\n' ? "" : at);
            return NULL;
        } else {
            *to++ = *at;
        }
    }
    if (quote != '\0') {
        (void)refuse(why, "a quote of its entrypoint is not closed");
        return NULL;
    }
    *to++ = '\0';
    *out = to;
    return at + strspn(at, BLANKS);
}

static bool is_python(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash != NULL ? slash + 1 : program;
    return strncmp(name, "python", 6) == 0 && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* ---- the line of shoal.search ------------------------------------------------------------------------------------ */

static bool skip(const char **at, const char *text)
{
    bool is_there = strncmp(*at, text, strlen(text)) == 0;
    *at += is_there ? strlen(text) : 0;
    return is_there;
}

/* A word that ends before a blank or a semicolon outside single quotes. */
static void skip_word(const char **at)
{
    for (bool is_quoted = false; **at != '\0' && (is_quoted || strchr(" ;", **at) == NULL); ++*at) {
        is_quoted ^= **at == '\'';
    }
}

/* Where the options and arguments begin in a line that chooses the interpreter; NULL: it is no such line. */
static const char *choice_end(const char *entrypoint)
{
    const char *at = entrypoint;
    bool is_choice = skip(&at, "p=");
    skip_word(&at);
    is_choice = is_choice && skip(&at, "; \"$p\" -c ");
    skip_word(&at);
    is_choice = is_choice && skip(&at, " 2>/dev/null || p=");
    skip_word(&at);
    return is_choice && skip(&at, "; exec \"$p\" ") ? at : NULL;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* True if the option takes its value from the next word. */
static bool takes_word(const char *option)
{
    return strcmp(option, "-X") == 0 || strcmp(option, "-W") == 0;
}

/* Finds the arguments behind the options. 0 or ERR_USAGE. */
static int find_arguments(struct warm_command *command, char why[WARM_WHY_BYTES])
{
    size_t at = command->options;
    while (at < command->bytes && command->text[at] == '-') {
        const char *option = command->text + at;
        if (strcmp(option, "-m") == 0) {
            break;
        }
        if (option[1] != 'X' && option[1] != 'W' && (option[1] == '\0' || strspn(option + 1, "bBdEIOPqsSuv") != strlen(option + 1))) {
            return refuse(why, "its entrypoint runs python with %.40s", option);
        }
        at += strlen(option) + 1;
        at += takes_word(option) && at < command->bytes ? strlen(command->text + at) + 1 : 0;
    }
    command->arguments = at;
    bool has_module = at < command->bytes && strcmp(command->text + at, "-m") == 0;
    if (at >= command->bytes || (has_module && at + sizeof "-m" >= command->bytes)) {
        return refuse(why, "its entrypoint runs python without a script");
    }
    return 0;
}

int warm_command_read(const char *entrypoint, struct warm_command *out, char why[WARM_WHY_BYTES])
{
    const char *begin = entrypoint + strspn(entrypoint, BLANKS "\n"), *rest = choice_end(begin);
    const char *at = rest != NULL ? rest : begin;
    size_t length = strlen(at);
    while (length > 0 && strchr(BLANKS "\n", at[length - 1]) != NULL) {
        length--;
    }
    char *line = strndup(at, length);
    *out = (struct warm_command){.text = malloc(2 * length + 2), /* a word takes a NUL more, and a blank parts it from the next */
                                 .choice = rest != NULL ? strndup(begin, (size_t)(rest - begin)) : NULL};
    char *to = out->text;
    int code = line == NULL || out->text == NULL || (rest != NULL && out->choice == NULL) ? ERR_MEMORY : 0;
    for (at = line; code == 0 && *at != '\0';) {
        at = word_take(at, &to, why);
        code = at == NULL ? ERR_USAGE : 0;
        if (code == 0 && rest == NULL && out->options == 0) {
            if (strcmp(out->text, "exec") == 0) {
                to = out->text;
                continue;
            }
            out->options = (size_t)(to - out->text);
            code = is_python(out->text) ? 0 : refuse(why, "its entrypoint runs %.60s, which is no python", out->text);
        }
    }
    out->bytes = code == 0 ? (size_t)(to - out->text) : 0;
    free(line);
    code = code == 0 && out->options == 0 && rest == NULL ? refuse(why, "its entrypoint is empty") : code;
    if (code == 0 && rest == NULL && out->text[0] != '/' && strchr(out->text, '/') != NULL) {
        code = refuse(why, "its interpreter %.60s is part of its code", out->text);
    }
    code = code == 0 ? find_arguments(out, why) : code;
    if (code != 0) {
        warm_command_close(out);
    }
    return code;
}

void warm_command_close(struct warm_command *command)
{
    free(command->text);
    free(command->choice);
    *command = (struct warm_command){0};
}

bool warm_differs(const char *variable)
{
    static const char *const names[] = {"MASTER_ADDR",        "MASTER_PORT",   "SHOAL_ATTEMPT",       "SHOAL_CHECKPOINT_DIR",
                                        "SHOAL_HPARAMS",      "SHOAL_HPARAMS_FILE", "SHOAL_OUTPUT_DIR", "SHOAL_RESTORE_DIR",
                                        "SHOAL_SEED",         "SHOAL_TENSORBOARD_DIR", "SHOAL_TOKEN", "SHOAL_TRIAL",     "TORCHELASTIC_ERROR_FILE",
                                        "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_RUN_ID"};
    size_t bytes = strcspn(variable, "=");
    bool differs = strncmp(variable, "SHOAL_HP_", sizeof "SHOAL_HP_" - 1) == 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        differs |= strlen(names[i]) == bytes && memcmp(variable, names[i], bytes) == 0;
    }
    return differs;
}

bool warm_memory_is_short(uint64_t available, uint64_t total)
{
    return available < total / WARM_MEMORY_SHARE;
}

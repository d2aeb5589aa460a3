#include "tools/shoal/options.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/edit_distance.h"
#include "base/err.h"
#include "base/units.h"

#define WORD_MAX EDIT_DISTANCE_LETTERS_MAX
#define GROUPS_MAX 8

const struct option_rule options_common[] = {
    {"dir", "DIR", "the data directory of the node to talk to"},
    {"json", NULL, "print JSON"},
    {"help", NULL, "explain the command"},
    {"version", NULL, "print the version"},
    {NULL, NULL, NULL},
};

struct nearest {
    const char *word;
    const char *name; /* NULL: nothing is near */
    size_t distance;
};

/* Offers `name` as a suggestion: up to a third of the letters may be wrong, and the typed word may be a beginning. */
static void nearest_offer(struct nearest *nearest, const char *name)
{
    size_t length = strlen(nearest->word), distance = edit_distance(nearest->word, name);
    if (length >= 2 && strncmp(nearest->word, name, length) == 0) {
        distance = 1;
    }
    if (distance <= (strlen(name) + 1) / 3 && distance < length && distance < nearest->distance) {
        nearest->distance = distance;
        nearest->name = name;
    }
}

static const struct option_rule *find_rule(const struct command *command, const char *name, size_t bytes,
                                           struct nearest *nearest)
{
    const struct option_rule *lists[2] = {command == NULL ? NULL : command->options, options_common};
    for (size_t i = 0; i < 2; i++) {
        for (const struct option_rule *rule = lists[i]; rule != NULL && rule->name != NULL; rule++) {
            if (strlen(rule->name) == bytes && memcmp(rule->name, name, bytes) == 0) {
                return rule;
            }
            nearest_offer(nearest, rule->name);
        }
    }
    return NULL;
}

/* The options with a short form, as names of long ones; NULL: the text is none of them. */
static const char *short_name(const char *text)
{
    static const struct {
        const char *text, *name;
    } forms[] = {{"-h", "help"}, {"-f", "follow"}, {"-t", "tty"}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strcmp(text, forms[i].text) == 0) {
            return forms[i].name;
        }
    }
    return NULL;
}

static int take_option(const struct command *command, int argc, char *const *argv, int *at, struct arguments *out,
                       char error[OPTIONS_ERROR_BYTES])
{
    const char *text = argv[*at];
    const char *from_short = short_name(text);
    const char *name = from_short != NULL ? from_short : text + 2;
    const char *equals = strchr(name, '=');
    size_t bytes = equals != NULL ? (size_t)(equals - name) : strlen(name);
    char word[WORD_MAX + 1];
    (void)snprintf(word, sizeof word, "%.*s", bytes > WORD_MAX ? WORD_MAX : (int)bytes, name);
    struct nearest nearest = {.word = word, .distance = SIZE_MAX};
    const struct option_rule *rule =
        text[1] == '-' || from_short != NULL ? find_rule(command, name, bytes, &nearest) : NULL;
    const char *of = command == NULL ? "" : " ", *command_name = command == NULL ? "" : command->name;
    const char *rest = command != NULL ? strstr(command->operands, "COMMAND...") : NULL;
    size_t before = rest != NULL && rest != command->operands ? 1 : 0; /* an operand that is not of the command */
    if (rule == NULL && rest != NULL && out->operand_count > before) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "there is no option %.80s here; put -- before the command: shoal %s %.80s%s-- %.80s", text,
                       command_name, before > 0 ? out->operands[0] : "", before > 0 ? " " : "", out->operands[before]);
        return ERR_USAGE;
    }
    if (rule == NULL) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "there is no option %.80s here%s%s; shoal%s%s --help lists them",
                       text, nearest.name != NULL ? ", did you mean --" : "", nearest.name != NULL ? nearest.name : "",
                       of, command_name);
        return ERR_USAGE;
    }
    if (rule->value == NULL && equals != NULL) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "the option --%s takes no value", rule->name);
        return ERR_USAGE;
    }
    const char *value = rule->value == NULL ? NULL : equals != NULL ? equals + 1 : *at + 1 < argc ? argv[++*at] : NULL;
    if (rule->value != NULL && value == NULL) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "the option --%s needs a value: --%s %s", rule->name, rule->name,
                       rule->value);
        return ERR_USAGE;
    }
    if (out->given_count == OPTIONS_GIVEN_MAX) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "more than %d options", OPTIONS_GIVEN_MAX);
        return ERR_USAGE;
    }
    out->given[out->given_count].rule = rule;
    out->given[out->given_count++].value = value;
    return 0;
}

/* How many words of argv an option before the command takes: 2 if the value is the next word. */
static int words_of_option(const char *text)
{
    return strcmp(text, "--dir") == 0 ? 2 : 1;
}

/* The positions in argv of the first and the second word that is no option; 0: no such word. */
static void find_words(int argc, char *const *argv, int words[2])
{
    words[0] = words[1] = 0;
    int found = 0;
    for (int i = 1; i < argc && found < 2;) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (found == 1) {
                return; /* "checkpoint --json ls": the second word must follow the first */
            }
            i += words_of_option(argv[i]);
        } else {
            words[found++] = i++;
        }
    }
}

static const struct command *find_command(const struct command *commands, int argc, char *const *argv, int words[2],
                                          struct arguments *out, char error[OPTIONS_ERROR_BYTES])
{
    find_words(argc, argv, words);
    if (words[0] == 0) {
        return NULL;
    }
    const char *first = argv[words[0]], *second = words[1] == 0 ? "" : argv[words[1]];
    size_t first_bytes = strlen(first);
    char groups[GROUPS_MAX][WORD_MAX + 1]; /* the first words of two-word commands, which `nearest` may point to */
    size_t group_count = 0;
    struct nearest nearest = {.word = first, .distance = SIZE_MAX},
                   second_nearest = {.word = second, .distance = SIZE_MAX};
    for (const struct command *command = commands; command->name != NULL; command++) {
        const char *space = strchr(command->name, ' ');
        if (space == NULL && strcmp(command->name, first) == 0) {
            words[1] = 0;
            return command;
        }
        if (space == NULL) {
            nearest_offer(&nearest, command->name);
        } else if ((size_t)(space - command->name) == first_bytes && memcmp(command->name, first, first_bytes) == 0) {
            out->group = first;
            if (strcmp(space + 1, second) == 0) {
                return command;
            }
            nearest_offer(&second_nearest, space + 1);
        } else {
            char *group = groups[group_count < GROUPS_MAX ? group_count : GROUPS_MAX - 1];
            (void)snprintf(group, sizeof groups[0], "%.*s", (int)(space - command->name), command->name);
            bool is_new = group_count == 0 || strcmp(groups[group_count - 1], group) != 0; /* a group's commands are neighbours */
            if (is_new && group_count < GROUPS_MAX) {
                group_count++;
                nearest_offer(&nearest, group);
            }
        }
    }
    if (out->group != NULL && *second != '\0') {
        (void)snprintf(
            error, OPTIONS_ERROR_BYTES, "there is no command %.40s %.80s%s%s%s%s; shoal %.40s --help lists them", first,
            second, second_nearest.name != NULL ? ", did you mean " : "", second_nearest.name != NULL ? first : "",
            second_nearest.name != NULL ? " " : "", second_nearest.name != NULL ? second_nearest.name : "", first);
    } else if (out->group == NULL) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "there is no command %.80s%s%s; shoal --help lists them", first,
                       nearest.name != NULL ? ", did you mean " : "", nearest.name != NULL ? nearest.name : "");
    }
    return NULL;
}

static int check_count(const struct command *command, const struct arguments *out, char error[OPTIONS_ERROR_BYTES])
{
    if (options_has(out, "help") || options_has(out, "version")) {
        return 0;
    }
    if (out->operand_count < command->operand_min) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "an argument is missing; usage: shoal %s %s", command->name,
                       command->operands);
        return ERR_USAGE;
    }
    if (out->operand_count > command->operand_max) {
        (void)snprintf(error, OPTIONS_ERROR_BYTES, "'%.80s' is one argument too many; usage: shoal %s%s%s",
                       out->operands[command->operand_max], command->name, *command->operands != '\0' ? " " : "",
                       command->operands);
        return ERR_USAGE;
    }
    return 0;
}

int options_parse(const struct command *commands, int argc, char *const *argv, struct arguments *out,
                  char error[OPTIONS_ERROR_BYTES])
{
    memset(out, 0, sizeof *out);
    error[0] = '\0';
    int words[2];
    out->command = find_command(commands, argc, argv, words, out, error);
    if (error[0] != '\0') {
        return ERR_USAGE;
    }
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        if (i == words[0] || (i == words[1] && out->command != NULL)) {
            continue;
        }
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (!only_operands && argv[i][0] == '-' && argv[i][1] != '\0') {
            int result = take_option(out->command, argc, argv, &i, out, error);
            if (result != 0) {
                return result;
            }
        } else if (out->operand_count == OPERANDS_MAX) {
            (void)snprintf(error, OPTIONS_ERROR_BYTES, "'%.80s' is one argument too many; at most %d can be given", argv[i],
                           OPERANDS_MAX);
            return ERR_USAGE;
        } else {
            out->operands[out->operand_count++] = argv[i];
        }
    }
    return out->command == NULL ? 0 : check_count(out->command, out, error);
}

const char *options_value(const struct arguments *arguments, const char *name)
{
    const char *value = NULL;
    for (size_t i = 0; i < arguments->given_count; i++) {
        if (strcmp(arguments->given[i].rule->name, name) == 0) {
            value = arguments->given[i].value;
        }
    }
    return value;
}

bool options_has(const struct arguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->given_count; i++) {
        if (strcmp(arguments->given[i].rule->name, name) == 0) {
            return true;
        }
    }
    return false;
}

size_t options_values(const struct arguments *arguments, const char *name, const char **out, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i < arguments->given_count && count < max; i++) {
        if (strcmp(arguments->given[i].rule->name, name) == 0) {
            out[count++] = arguments->given[i].value;
        }
    }
    return count;
}

static int read_digits(const char **text, uint64_t max, uint64_t *out)
{
    const char *p = *text;
    uint64_t value = 0;
    if (*p < '0' || *p > '9') {
        return ERR_MALFORMED;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t)(*p - '0');
        if (value > (max - digit) / 10 || digit > max) {
            return ERR_MALFORMED;
        }
        value = value * 10 + digit;
    }
    *text = p;
    *out = value;
    return 0;
}

int options_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value;
    if (read_digits(&text, max, &value) != 0 || *text != '\0') {
        return ERR_MALFORMED;
    }
    *out = value;
    return 0;
}

int options_since(const char *text, uint64_t now_s, uint64_t *out_ms)
{
    static const char *const formats[] = {"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"};
    uint64_t ago_s;
    if (units_read_time(text, now_s, &ago_s) == 0) {
        *out_ms = 1000 * (now_s - ago_s);
        return 0;
    }
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        struct tm tm = {.tm_isdst = -1};
        const char *end = strptime(text, formats[i], &tm);
        time_t time = end != NULL && *end == '\0' ? mktime(&tm) : (time_t)-1;
        if (time >= 0) {
            *out_ms = 1000 * (uint64_t)time;
            return 0;
        }
    }
    return ERR_MALFORMED;
}

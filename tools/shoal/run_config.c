#include "tools/shoal/run_config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/number.h"
#include "node/config/hparams.h"
#include "node/core/facts/config.h"
#include "tools/shoal/submission.h"

#define HYPERPARAMETERS_MAX 64
#define INITIAL_MAX 64 /* --initial */
#define NAME_BYTES 64
#define PBT_ROUNDS 4 /* unless --set gives a number */
#define WORD_SAFE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"

/* "NAME=VALUE" of --hp. The texts are cut out of the argument. */
struct hyperparameter {
    char name[NAME_BYTES];
    const char *value; /* a value, or "KIND:..." */
};

/* ---- texts ----------------------------------------------------------------------------------------------------------- */

/* A text in double quotes, as YAML and JSON have it. */
static void write_text(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            (void)fprintf(out, "\\x%02x", (unsigned)(unsigned char)*text);
        } else {
            (void)fprintf(out, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
        }
    }
    (void)fputc('"', out);
}

/* A value as a user of YAML would write it: numbers, truths and plain words as they are. */
static void write_value(FILE *out, const char *text)
{
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    digits += digits[0] == '.';
    bool is_plain = (isalpha((unsigned char)text[0]) != 0 || isdigit((unsigned char)digits[0]) != 0) &&
                    text[strspn(text, WORD_SAFE)] == '\0' && strpbrk(text, ":,@%=") == NULL;
    if (is_plain) {
        (void)fputs(text, out);
    } else {
        write_text(out, text);
    }
}

/* ---- the entrypoint -------------------------------------------------------------------------------------------------- */

/* How many bytes at `text` are a placeholder, with the $ or the backslash before it; 0: none is there. */
static size_t placeholder_bytes(const char *text)
{
    size_t before = text[0] == '$' || text[0] == '\\', bytes;
    return hparams_is_placeholder(text + before, &bytes) ? before + bytes : 0;
}

/* Writes one word of the command line for a shell. Placeholders stay outside of the quotes, since their value is a word itself. */
static void write_word(FILE *out, const char *text)
{
    if (*text == '\0') {
        (void)fputs("''", out);
    }
    while (*text != '\0') {
        size_t bytes = placeholder_bytes(text);
        if (bytes > 0) {
            bool is_text = text[0] == '\\'; /* the words {{hp.NAME}} themselves, in which blanks would part two words */
            for (size_t i = 0; i < bytes; i++) {
                if (!is_text || strchr(" \t", text[i]) == NULL) {
                    (void)fputc(text[i], out);
                }
            }
            text += bytes;
            continue;
        }
        size_t part = 0;
        bool is_safe = true;
        while (text[part] != '\0' && (part == 0 || placeholder_bytes(text + part) == 0)) {
            is_safe &= strchr(WORD_SAFE, text[part]) != NULL;
            part++;
        }
        if (!is_safe) {
            (void)fputc('\'', out);
        }
        for (size_t i = 0; i < part; i++) {
            (void)fputs(text[i] == '\'' ? "'\\''" : (char[]){text[i], '\0'}, out);
        }
        if (!is_safe) {
            (void)fputc('\'', out);
        }
        text += part;
    }
}

static bool has_placeholder(const struct arguments *arguments, const char *name)
{
    size_t name_bytes = strlen(name);
    for (size_t i = 0; i < arguments->operand_count; i++) {
        for (const char *at = arguments->operands[i]; *at != '\0'; at++) {
            size_t bytes = *at == '\\' ? 0 : placeholder_bytes(at);
            const char *dot = bytes > 0 ? strchr(at, '.') : NULL;
            if (dot != NULL && strncmp(dot + 1, name, name_bytes) == 0 && strchr(" \t}", dot[1 + name_bytes]) != NULL) {
                return true;
            }
            at += *at == '\\' && placeholder_bytes(at) > 0;
        }
    }
    return false;
}

/* The command as one text for a shell; from malloc, NULL: no memory. */
static char *entrypoint_of(const struct arguments *arguments, const struct hyperparameter *list, size_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < arguments->operand_count; i++) {
        (void)fputs(i > 0 ? " " : "", out);
        write_word(out, arguments->operands[i]);
    }
    for (size_t i = 0; i < count; i++) {
        if (!has_placeholder(arguments, list[i].name)) {
            (void)fprintf(out, " --%s {{hp.%s}}", list[i].name, list[i].name);
        }
    }
    return fclose(out) == 0 ? text : NULL;
}

/* The experiment's name, if none is given: that of the script, else of the program, without directories and ending. */
static void name_of(const struct arguments *arguments, char out[NAME_BYTES])
{
    const char *word = arguments->operands[0];
    for (size_t i = 1; i < arguments->operand_count && word == arguments->operands[0]; i++) {
        const char *dot = strrchr(arguments->operands[i], '.');
        bool is_script = dot != NULL && (strcmp(dot, ".py") == 0 || strcmp(dot, ".sh") == 0);
        word = is_script ? arguments->operands[i] : word;
    }
    const char *slash = strrchr(word, '/');
    word = slash != NULL && slash[1] != '\0' ? slash + 1 : word;
    size_t bytes = strcspn(word, "."), used = 0;
    for (size_t i = 0; i < bytes && used < NAME_BYTES - 1; i++) {
        out[used++] = isalnum((unsigned char)word[i]) != 0 || word[i] == '_' ? word[i] : '-';
    }
    out[used] = '\0';
    if (used == 0) {
        (void)snprintf(out, NAME_BYTES, "run");
    }
}

/* ---- hyperparameters ------------------------------------------------------------------------------------------------- */

static int split(struct cli *cli, const char *given, struct hyperparameter *out)
{
    const char *equals = strchr(given, '=');
    size_t bytes = equals != NULL ? (size_t)(equals - given) : 0;
    bool is_good = bytes > 0 && bytes < NAME_BYTES && (isalpha((unsigned char)given[0]) != 0 || given[0] == '_');
    for (size_t i = 0; i < bytes && is_good; i++) {
        is_good = isalnum((unsigned char)given[i]) != 0 || given[i] == '_' || given[i] == '-';
    }
    if (!is_good) {
        return cli_fail(cli, CLI_USAGE,
                        "--hp %.80s is no NAME=VALUE, where NAME is of letters, digits, _ and -; write --hp lr=0.1 or --hp "
                        "lr=log:1e-4:1e-1",
                        given);
    }
    (void)snprintf(out->name, sizeof out->name, "%.*s", (int)bytes, given);
    out->value = equals + 1;
    return CLI_DONE;
}

/* "LOW:HIGH" or "LOW:HIGH:MORE". */
struct bounds {
    double low, high;
    int low_bytes;         /* LOW is at the start */
    const char *high_text; /* HIGH */
    int high_bytes;
    const char *more; /* "" if there is none */
};

/* False if the text is something else. */
static bool read_bounds(const char *text, struct bounds *out)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        return false;
    }
    out->low_bytes = (int)(colon - text);
    out->high_text = colon + 1;
    out->high_bytes = (int)strcspn(out->high_text, ":");
    out->more = out->high_text + out->high_bytes;
    out->more += *out->more == ':';
    return number_parse(text, (size_t)out->low_bytes, &out->low) == 0 &&
           number_parse(out->high_text, (size_t)out->high_bytes, &out->high) == 0;
}

static bool begins(const char *text, const char *word, const char **rest)
{
    size_t bytes = strlen(word);
    *rest = text + bytes;
    return strncmp(text, word, bytes) == 0;
}

static int write_range(struct cli *cli, FILE *out, const struct hyperparameter *one, const char *kind, const char *bounds)
{
    struct bounds read = {0};
    bool is_log = strcmp(kind, "log") == 0, is_int = strcmp(kind, "int") == 0, is_read = read_bounds(bounds, &read);
    bool is_order = is_int ? read.low <= read.high : read.low < read.high;
    if (!is_read || !is_order || (is_log && read.low <= 0)) {
        return cli_fail(cli, CLI_USAGE, "--hp %s=%.80s needs two numbers%s, the lower one first; write --hp %s=%s:%s", one->name,
                        one->value, is_log ? " above 0" : "", one->name, kind, is_log ? "1e-4:1e-1" : "1:100");
    }
    const char *step = !is_log && strncmp(read.more, "step=", 5) == 0 ? read.more + 5 : NULL;
    double number;
    bool is_known = step != NULL ? number_parse(step, strlen(step), &number) == 0
                                 : read.more[0] == '\0' || (is_int && strcmp(read.more, "log") == 0);
    if (!is_known) {
        return cli_fail(cli, CLI_USAGE, "--hp %s=%.80s ends in '%.40s'; allowed behind %s:LOW:HIGH %s", one->name, one->value, read.more,
                        kind, is_log ? "is nothing" : is_int ? "are :log and :step=N" : "is :step=N");
    }
    if (is_log) { /* the configuration has exponents of the base 10 */
        char from[32], to[32];
        double ten = number_log(10);
        (void)number_format(from, number_round9(number_log(read.low) / ten));
        (void)number_format(to, number_round9(number_log(read.high) / ten));
        (void)fprintf(out, "{type: log, base: 10, minval: %s, maxval: %s}", from, to);
        return CLI_DONE;
    }
    (void)fprintf(out, "{type: %s, minval: %.*s, maxval: %.*s", kind, read.low_bytes, bounds, read.high_bytes, read.high_text);
    if (step != NULL) {
        (void)fprintf(out, ", step: %s", step);
    } else if (read.more[0] != '\0') {
        (void)fputs(", log: true", out);
    }
    (void)fputc('}', out);
    return CLI_DONE;
}

static int write_choices(struct cli *cli, FILE *out, const struct hyperparameter *one, const char *choices)
{
    char *copy = strdup(choices), *rest = NULL;
    if (copy == NULL || strtok_r(copy, ",", &rest) == NULL) {
        free(copy);
        return cli_fail(cli, CLI_USAGE, "--hp %s=%.80s names no values; write --hp %s=categorical:64,128", one->name, one->value, one->name);
    }
    (void)fputs("{type: categorical, vals: [", out);
    const char *before = "";
    for (const char *word = copy; word != NULL; word = strtok_r(NULL, ",", &rest)) {
        (void)fputs(before, out);
        write_value(out, word);
        before = ", ";
    }
    (void)fputs("]}", out);
    free(copy);
    return CLI_DONE;
}

/* Writes the hyperparameter's value; `*is_search` becomes true if it is to be searched. */
static int write_hyperparameter(struct cli *cli, FILE *out, const struct hyperparameter *one, bool *is_search)
{
    static const char *const ranges[] = {"int", "double", "log"};
    const char *rest, *colon = strchr(one->value, ':');
    struct bounds bounds;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        if (begins(one->value, ranges[i], &rest) && *rest == ':') {
            *is_search = true;
            return write_range(cli, out, one, ranges[i], rest + 1);
        }
    }
    if (begins(one->value, "categorical:", &rest)) {
        *is_search = true;
        return write_choices(cli, out, one, rest);
    }
    if (begins(one->value, "const:", &rest)) {
        write_value(out, rest);
        return CLI_DONE;
    }
    if (colon != NULL && read_bounds(colon + 1, &bounds)) {
        return cli_fail(cli, CLI_USAGE, "--hp %s=%.80s has no kind of search that is known; allowed are int, double, log and "
                        "categorical (const:%.80s is the text itself)", one->name, one->value, one->value);
    }
    write_value(out, one->value);
    return CLI_DONE;
}

/* Writes "NAME=VALUE,NAME=VALUE" of --initial as a map. */
static int write_initial(struct cli *cli, FILE *out, const char *given)
{
    char *copy = strdup(given), *rest = NULL;
    const char *before = "";
    int code = copy != NULL ? CLI_DONE : cli_fail(cli, CLI_REFUSED, "no memory is left");
    (void)fputs("    - {", out);
    for (char *word = copy != NULL ? strtok_r(copy, ",", &rest) : NULL; word != NULL && code == CLI_DONE; word = strtok_r(NULL, ",", &rest)) {
        char *equals = strchr(word, '=');
        if (equals == NULL || equals == word) {
            code = cli_fail(cli, CLI_USAGE, "--initial %.80s is no list of NAME=VALUE; write --initial lr=0.1,units=64", given);
            break;
        }
        *equals = '\0';
        (void)fputs(before, out);
        write_text(out, word);
        (void)fputs(": ", out);
        write_value(out, equals + 1);
        before = ", ";
    }
    (void)fputs("}\n", out);
    free(copy);
    return code;
}

/* Writes "N" or "UNIT=N" of --max-length as the value of `key`, which is one of `parts` equal parts; the configuration's
 * reader says which units and numbers there are. */
static int write_length(struct cli *cli, FILE *out, const char *given, const char *key, uint64_t parts)
{
    const char *equals = strchr(given, '='), *number = equals != NULL ? equals + 1 : given;
    uint64_t length;
    if (equals == given || options_number(number, UINT64_MAX, &length) != 0) {
        return cli_fail(cli, CLI_USAGE, "--max-length %.80s is no length; write --max-length 1000, in steps, or --max-length epochs=20", given);
    }
    if (parts > 1 && length < parts) {
        return cli_fail(
            cli, CLI_USAGE,
            "--max-length %.80s is shorter than %llu rounds of pbt; make it longer, or give --set searcher.num_rounds=N",
            given, (unsigned long long)parts);
    }
    (void)fprintf(out, "  %s: ", key);
    if (equals != NULL) {
        char unit[NAME_BYTES];
        (void)snprintf(unit, sizeof unit, "%.*s", (int)(equals - given), given);
        (void)fputc('{', out);
        write_value(out, unit);
        (void)fprintf(out, ": %llu}\n", (unsigned long long)(length / parts));
    } else {
        (void)fprintf(out, "%llu\n", (unsigned long long)(length / parts));
    }
    return CLI_DONE;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------- */

/* The value that --set gives this key, which then counts; NULL: none. */
static const char *set_value(const struct arguments *arguments, const char *key)
{
    const char *given[SUBMISSION_OVERRIDES_MAX + 1], *value = NULL;
    size_t count = options_values(arguments, "set", given, SUBMISSION_OVERRIDES_MAX + 1), bytes = strlen(key);
    for (size_t i = 0; i < count && i <= SUBMISSION_OVERRIDES_MAX; i++) {
        if (strncmp(given[i], key, bytes) == 0 && given[i][bytes] == '=') {
            value = given[i] + bytes + 1;
        }
    }
    return value;
}

static bool is_set(const struct arguments *arguments, const char *key)
{
    return set_value(arguments, key) != NULL;
}

/* What searchers that go by results need beside the number of trials. */
static const struct needs {
    const char *searcher;
    bool length;
    const char *key, *why; /* an option that --set gives; NULL: none */
} all_needs[] = {
    {"tpe", false, NULL, NULL},
    {"asha", true, "num_rungs", "how often trials are compared, 3 for example; adaptive_asha goes without"},
    {"async_halving", true, "num_rungs", "how often trials are compared, 3 for example; adaptive_asha goes without"},
    {"adaptive_asha", true, NULL, NULL},
    {"pbt", true, NULL, NULL},
    {"custom", true, "entrypoint", "the command of your program, 'python3 my_search.py' for example"},
};

static bool gives_length(const struct arguments *arguments, const char *searcher)
{
    return strcmp(searcher, "pbt") == 0 ? is_set(arguments, "searcher.length_per_round")
                                        : is_set(arguments, "searcher.max_length") || is_set(arguments, "searcher.max_time");
}

/* The options are called here as on the command line; what --set gives counts. */
static int check_searcher(struct cli *cli, const struct arguments *arguments, const char *searcher, const char *metric, const char *length)
{
    const struct needs *needs = NULL;
    char key[NAME_BYTES] = "";
    for (size_t i = 0; i < sizeof all_needs / sizeof all_needs[0]; i++) {
        needs = strcmp(searcher, all_needs[i].searcher) == 0 ? &all_needs[i] : needs;
    }
    if (needs == NULL || is_set(arguments, "searcher")) {
        return CLI_DONE;
    }
    if (needs->key != NULL) {
        (void)snprintf(key, sizeof key, "searcher.%s", needs->key);
    }
    if (metric == NULL && !is_set(arguments, "searcher.metric")) {
        return cli_fail(cli, CLI_USAGE, "--searcher %s needs --metric NAME, of a metric that the program reports in its validation", searcher);
    }
    if (needs->length && length == NULL && !gives_length(arguments, searcher)) {
        return cli_fail(cli, CLI_USAGE,
                        "--searcher %s needs --max-length: how long a trial that is never %s trains, for example 1000 "
                        "(steps) or epochs=20",
                        searcher, strcmp(searcher, "pbt") == 0 ? "replaced" : "stopped");
    }
    if (needs->key != NULL && !is_set(arguments, key)) {
        return cli_fail(cli, CLI_USAGE, "--searcher %s needs --set %s=%s: %s", searcher, key,
                        strcmp(needs->key, "entrypoint") == 0 ? "COMMAND" : "N", needs->why);
    }
    return CLI_DONE;
}

static int read_set_number(struct cli *cli, const struct arguments *arguments, const char *key, uint64_t *out)
{
    const char *value = set_value(arguments, key);
    if (value != NULL && (options_number(value, UINT32_MAX, out) != 0 || *out == 0)) {
        return cli_fail(cli, CLI_USAGE, "--set %s=%.40s is no number from 1 on", key, value);
    }
    return CLI_DONE;
}

/* Of pbt --trials counts the trials of all rounds, and --max-length what a member trains in all of them. */
static int write_population(struct cli *cli, FILE *out, const struct arguments *arguments, uint64_t trials,
                            const char *length)
{
    uint64_t rounds = 0, population = 0;
    int code = read_set_number(cli, arguments, "searcher.num_rounds", &rounds);
    code = code == CLI_DONE ? read_set_number(cli, arguments, "searcher.population_size", &population) : code;
    if (code != CLI_DONE) {
        return code;
    }
    bool has_rounds = rounds > 0, has_population = population > 0;
    rounds = has_rounds ? rounds : has_population && trials > population ? trials / population : PBT_ROUNDS;
    population = has_population ? population : trials / rounds;
    if (population < 2 || population * rounds != trials) {
        return cli_fail(cli, CLI_USAGE,
                        "--trials %llu cannot be shared by %llu rounds of pbt with %llu trials each; give --trials %llu, or "
                        "other rounds "
                        "by --set searcher.num_rounds=N",
                        (unsigned long long)trials, (unsigned long long)rounds,
                        (unsigned long long)(population < 2 ? 2 : population),
                        (unsigned long long)((population < 2 ? 2 : population) * rounds));
    }
    if (!has_population) {
        (void)fprintf(out, "  population_size: %llu\n", (unsigned long long)population);
    }
    if (!has_rounds) {
        (void)fprintf(out, "  num_rounds: %llu\n", (unsigned long long)rounds);
    }
    return length != NULL ? write_length(cli, out, length, "length_per_round", rounds) : CLI_DONE;
}

static int write_searcher(struct cli *cli, FILE *out, const struct arguments *arguments, bool is_search)
{
    const char *trials = options_value(arguments, "trials"), *metric = options_value(arguments, "metric"),
               *sampler = options_value(arguments, "sampler"), *searcher = options_value(arguments, "searcher"),
               *length = options_value(arguments, "max-length"), *initial[INITIAL_MAX + 1];
    bool maximizes = options_has(arguments, "maximize");
    uint64_t count = 0;
    if (maximizes && metric == NULL) {
        return cli_fail(cli, CLI_USAGE, "--maximize needs --metric NAME: without it the metric is accuracy, the higher the better");
    }
    if (trials != NULL && (options_number(trials, UINT32_MAX, &count) != 0 || count == 0)) {
        return cli_fail(cli, CLI_USAGE, "--trials %.40s is no number of trials; give a number from 1 on", trials);
    }
    if (is_search != (trials != NULL)) {
        return cli_fail(cli, CLI_USAGE,
                        is_search ? "a hyperparameter is to be searched; say with how many trials: --trials 16"
                                  : "--trials needs a hyperparameter that is searched, such as --hp lr=log:1e-4:1e-1");
    }
    size_t initial_count = options_values(arguments, "initial", initial, INITIAL_MAX + 1);
    if ((sampler != NULL || initial_count > 0) && !is_search) {
        return cli_fail(cli, CLI_USAGE, "--%s needs a hyperparameter that is searched, such as --hp lr=log:1e-4:1e-1",
                        sampler != NULL ? "sampler" : "initial");
    }
    if (initial_count > INITIAL_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --initial; write a configuration file (shoal run --print begins one)", INITIAL_MAX);
    }
    if ((searcher != NULL || length != NULL) && !is_search) {
        return cli_fail(cli, CLI_USAGE, "--%s needs a hyperparameter that is searched, such as --hp lr=log:1e-4:1e-1",
                        searcher != NULL ? "searcher" : "max-length");
    }
    int missing = searcher != NULL ? check_searcher(cli, arguments, searcher, metric, length) : CLI_DONE;
    if (missing != CLI_DONE) {
        return missing;
    }
    (void)fputs("searcher:\n  name: ", out);
    write_value(out, !is_search ? "single" : searcher != NULL ? searcher : "random");
    (void)fputc('\n', out);
    if (metric != NULL) {
        (void)fputs("  metric: ", out);
        write_text(out, metric);
        (void)fputs(maximizes ? "\n  smaller_is_better: false\n" : "\n", out);
    }
    bool is_pbt = searcher != NULL && strcmp(searcher, "pbt") == 0;
    if (is_search && !is_pbt) {
        (void)fprintf(out, "  max_trials: %s\n", trials);
    }
    if (sampler != NULL) { /* the configuration's reader knows which there are */
        (void)fputs("  sampler: ", out);
        write_value(out, sampler);
        (void)fputc('\n', out);
    }
    int code = is_pbt && !is_set(arguments, "searcher") ? write_population(cli, out, arguments, count, length)
               : length != NULL                         ? write_length(cli, out, length, "max_length", 1)
                                                        : CLI_DONE;
    (void)fputs(initial_count > 0 ? "  initial:\n" : "", out);
    for (size_t i = 0; i < initial_count && code == CLI_DONE; i++) {
        code = write_initial(cli, out, initial[i]);
    }
    return code;
}

/* What outlives the program beside $SHOAL_OUTPUT_DIR; the configuration's reader says what is wrong with a path. */
static void write_kept(FILE *out, const struct arguments *arguments)
{
    const char *given[CONFIG_KEEP_MAX + 1];
    size_t count = options_values(arguments, "keep", given, CONFIG_KEEP_MAX + 1);
    (void)fputs(count > 0 ? "keep:\n" : "", out);
    for (size_t i = 0; i < count; i++) {
        (void)fputs("  - ", out);
        write_text(out, given[i]);
        (void)fputc('\n', out);
    }
}

/* Without a seed every search would draw the same values. The drawn seed is short enough to be typed again. */
static int write_seed(struct cli *cli, FILE *out, const struct arguments *arguments, struct run_config *config)
{
    const char *given = options_value(arguments, "seed");
    uint32_t drawn;
    if (given != NULL && options_number(given, INT64_MAX, &config->seed) != 0) {
        return cli_fail(cli, CLI_USAGE, "--seed %.40s is no seed; give a whole number from 0 to %lld", given, (long long)INT64_MAX);
    }
    if (given == NULL && (!config->is_search || is_set(arguments, "seed"))) {
        return CLI_DONE;
    }
    if (given == NULL) {
        if (getentropy(&drawn, sizeof drawn) != 0) {
            return cli_fail(cli, CLI_REFUSED, "the system gives no random numbers for a seed; give one with --seed N");
        }
        config->has_drawn_seed = true;
        config->seed = drawn;
    }
    (void)fprintf(out, "seed: %llu\n", (unsigned long long)config->seed);
    return CLI_DONE;
}

static int write_all(struct cli *cli, FILE *out, const struct arguments *arguments, struct run_config *config)
{
    struct hyperparameter list[HYPERPARAMETERS_MAX];
    const char *given[HYPERPARAMETERS_MAX + 1], *slots = options_value(arguments, "slots"), *name = options_value(arguments, "name");
    char standard_name[NAME_BYTES];
    uint64_t slot_count = 1;
    size_t count = options_values(arguments, "hp", given, HYPERPARAMETERS_MAX + 1);
    int code = CLI_DONE;
    if (count > HYPERPARAMETERS_MAX) {
        return cli_fail(cli, CLI_USAGE, "there are more than %d --hp; write a configuration file (shoal run --print begins one)",
                        HYPERPARAMETERS_MAX);
    }
    if (slots != NULL && (options_number(slots, UINT32_MAX, &slot_count) != 0 || slot_count == 0)) {
        return cli_fail(cli, CLI_USAGE, "--slots %.40s is no number of slots; give a number from 1 on", slots);
    }
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        code = split(cli, given[i], &list[i]);
    }
    char *entrypoint = code == CLI_DONE ? entrypoint_of(arguments, list, count) : NULL;
    if (entrypoint == NULL) {
        return code != CLI_DONE ? code : cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    name_of(arguments, standard_name);
    (void)fputs("name: ", out);
    write_text(out, name != NULL ? name : standard_name);
    (void)fputs("\nentrypoint: ", out);
    write_text(out, entrypoint);
    free(entrypoint);
    (void)fputs(count > 0 ? "\nhyperparameters:\n" : "\n", out);
    for (size_t i = 0; code == CLI_DONE && i < count; i++) {
        (void)fprintf(out, "  \"%s\": ", list[i].name);
        code = write_hyperparameter(cli, out, &list[i], &config->is_search);
        (void)fputc('\n', out);
    }
    if (code == CLI_DONE) {
        code = write_searcher(cli, out, arguments, config->is_search);
    }
    if (code == CLI_DONE) {
        code = write_seed(cli, out, arguments, config);
    }
    /* A failure ends the run with the program's status; a lost node is no failure. */
    (void)fprintf(out, "resources:\n  slots_per_trial: %llu\nmax_restarts: 0\nmetrics_from_output: true\n", (unsigned long long)slot_count);
    write_kept(out, arguments);
    return code;
}

int run_config_write(struct cli *cli, const struct arguments *arguments, struct run_config *out)
{
    *out = (struct run_config){.text = NULL};
    FILE *file = open_memstream(&out->text, &out->bytes);
    if (file == NULL) {
        return cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    int code = write_all(cli, file, arguments, out);
    if (fclose(file) != 0 && code == CLI_DONE) {
        code = cli_fail(cli, CLI_REFUSED, "no memory is left");
    }
    if (code != CLI_DONE) {
        free(out->text);
        out->text = NULL;
    }
    return code;
}

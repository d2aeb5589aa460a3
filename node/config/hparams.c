#include "node/config/hparams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/edit_distance.h"
#include "base/err.h"
#include "base/json.h"

#define PREFIX "SHOAL_HP_"
#define BARE "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-"
#define SPACES " \t"

/* ---- texts that grow ---- */

struct text {
    char *bytes;
    size_t count, capacity;
    bool failed;
};

static void text_add(struct text *text, const char *bytes, size_t count)
{
    if (text->failed) {
        return;
    }
    if (text->count + count + 1 > text->capacity) {
        size_t capacity = 2 * (text->count + count + 64);
        char *grown = realloc(text->bytes, capacity);
        if (grown == NULL) {
            text->failed = true;
            return;
        }
        text->bytes = grown;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
}

/* The text, which is then the caller's; NULL: no memory. */
static char *text_take(struct text *text)
{
    text_add(text, "", 0);
    if (text->failed) {
        free(text->bytes);
        return NULL;
    }
    return text->bytes;
}

/* ---- values ---- */

char *hparams_text(struct pack_reader value)
{
    size_t bytes = 0;
    if (pack_peek(&value) == PACK_TEXT) {
        struct pack_reader again = value;
        const char *text = pack_read_text(&again, &bytes);
        if (!again.failed && memchr(text, '\0', bytes) == NULL) {
            return strndup(text, bytes);
        }
    }
    struct pack_reader whole = value;
    (void)pack_read_any(&whole, &bytes);
    size_t size = 8 * bytes + 64; /* a byte of a text takes 6 at most, a number of 9 bytes at most 25, and a truth value 6 */
    char *out = malloc(size);
    if (out != NULL && json_from_pack(&value, out, size) != 0) {
        out[0] = '\0';
    }
    return out;
}

static bool is_bare(const char *text)
{
    return text[0] != '\0' && text[strspn(text, BARE)] == '\0';
}

/* ---- variables ---- */

/* Appends a name to the variable's, which has `used` bytes. Returns the new length, 0: too long. `is_dotted`: dots separate
 * nested names, as in the name of a parameter. */
static size_t variable_append(char *variable, size_t used, const char *name, size_t bytes, bool is_dotted)
{
    bool is_first = used == sizeof PREFIX - 1;
    if (used + 2 * bytes + 3 > HPARAMS_VARIABLE_BYTES) {
        return 0;
    }
    if (!is_first) {
        variable[used++] = '_';
        variable[used++] = '_';
    }
    for (size_t i = 0; i < bytes; i++) {
        char c = name[i];
        bool is_capital = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (is_dotted && c == '.') {
            variable[used++] = '_';
        }
        variable[used++] = is_capital ? c : c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : '_';
    }
    variable[used] = '\0';
    return used;
}

/* Visits one value; the recursion is as deep as pack_read_any allows. */
static int value_visit(char *variable, size_t used, struct pack_reader value, hparams_visitor visitor, void *context)
{
    struct pack_reader map = value;
    uint32_t pairs = pack_peek(&value) == PACK_MAP ? pack_read_map(&map) : 0;
    if (pairs == 0) {
        if (used > sizeof PREFIX - 1) {
            visitor(context, variable, value);
        }
        return value.failed ? ERR_MALFORMED : 0;
    }
    int result = 0;
    for (uint32_t i = 0; i < pairs && !map.failed; i++) {
        size_t bytes, value_bytes;
        const char *name = pack_read_text(&map, &bytes);
        const uint8_t *child = pack_read_any(&map, &value_bytes);
        if (map.failed) {
            return ERR_MALFORMED;
        }
        struct pack_reader reader;
        pack_reader_init(&reader, child, value_bytes);
        size_t longer = variable_append(variable, used, name, bytes, false);
        int error = longer == 0 ? ERR_FULL : value_visit(variable, longer, reader, visitor, context);
        result = error != 0 ? error : result;
        variable[used] = '\0';
    }
    return map.failed ? ERR_MALFORMED : result;
}

int hparams_variables(struct pack_reader values, hparams_visitor visitor, void *context)
{
    char variable[HPARAMS_VARIABLE_BYTES] = PREFIX;
    struct pack_reader whole = values;
    pack_skip(&whole); /* no deeper than the recursion may go */
    return whole.failed ? ERR_MALFORMED : value_visit(variable, sizeof PREFIX - 1, values, visitor, context);
}

/* ---- placeholders ---- */

/* A placeholder, and where it stands. */
struct placeholder {
    const char *start, *end; /* of the whole, with a `$` before it */
    const char *name;
    size_t name_bytes;
    bool is_in_quotes; /* or where quotes cannot be told */
    bool is_spoiled;   /* several `$` before it: the shell would take its value for something else */
};

/* A look over a shell's text from its start, as far as quotes go. */
struct scan {
    const char *start, *at;
    char quote;
    bool is_unsure; /* from a here-document, a backquote and the like on, quotes are not followed */
    uint32_t dollars; /* unescaped, just before `at` */
};

/* Reads "{{ hp.NAME }}" at `at`. 1: it is one; 0: something else; ERR_MALFORMED: it begins like one. */
static int braces_read(const char *at, struct placeholder *out)
{
    if (strncmp(at, "{{", 2) != 0) {
        return 0;
    }
    const char *name = at + 2 + strspn(at + 2, SPACES);
    if (strncmp(name, "hp.", 3) != 0) {
        return 0;
    }
    name += 3;
    size_t bytes = strcspn(name, "{}$'\"`\\ \t\n");
    const char *end = name + bytes + strspn(name + bytes, SPACES);
    *out = (struct placeholder){.start = at, .name = name, .name_bytes = bytes};
    if (bytes == 0 || strncmp(end, "}}", 2) != 0) {
        return ERR_MALFORMED;
    }
    out->end = end + 2;
    return 1;
}

bool hparams_is_placeholder(const char *text, size_t *bytes)
{
    struct placeholder found;
    if (braces_read(text, &found) != 1) {
        return false;
    }
    *bytes = (size_t)(found.end - text);
    return true;
}

static bool begins_word(const struct scan *scan)
{
    return scan->at == scan->start || strchr(" \t\n;&|()", scan->at[-1]) != NULL;
}

/* A quote inside ${...} inside quotes. */
static bool has_inner_quotes(const char *at)
{
    size_t bytes = strcspn(at, "}\"");
    return at[bytes] == '"' && memchr(at, '\n', bytes) == NULL;
}

/* Moves over one piece of the text that is no placeholder. */
static void scan_step(struct scan *scan)
{
    const char *at = scan->at;
    size_t step = 1;
    uint32_t dollars = at[0] == '$' ? scan->dollars + 1 : 0;
    if (scan->quote == '\'') {
        scan->quote = *at == '\'' ? '\0' : scan->quote;
    } else if (*at == '\\' && at[1] != '\0') {
        step = 2;
    } else if (*at == '`' || (scan->quote == '"' && strncmp(at, "$(", 2) == 0) ||
               (scan->quote == '"' && strncmp(at, "${", 2) == 0 && has_inner_quotes(at)) ||
               (scan->quote == '\0' && (strncmp(at, "<<", 2) == 0 || strncmp(at, "$'", 2) == 0))) {
        scan->is_unsure = true;
    } else if (*at == '"') {
        scan->quote = scan->quote == '"' ? '\0' : '"';
    } else if (*at == '\'' && scan->quote == '\0') {
        scan->quote = '\'';
    } else if (*at == '#' && scan->quote == '\0' && !scan->is_unsure && begins_word(scan)) {
        step = strcspn(at, "\n"); /* a comment, whose apostrophes are no quotes and whose placeholders do not matter */
        step = step == 0 ? 1 : step;
    }
    scan->dollars = dollars;
    scan->at = at + step;
}

/* The next placeholder. 1: found; 0: none is left; ERR_MALFORMED: out->start begins one that is not closed. */
static int scan_next(struct scan *scan, struct placeholder *out)
{
    while (*scan->at != '\0') {
        int found = braces_read(scan->at, out);
        if (found == 0) {
            scan_step(scan);
            continue;
        }
        if (found > 0) {
            out->is_in_quotes = scan->quote != '\0' || scan->is_unsure;
            out->is_spoiled = scan->dollars > 1;
            out->start -= scan->dollars == 1;
            scan->at = out->end;
            scan->dollars = 0;
        }
        return found;
    }
    return 0;
}

static struct scan scan_begin(const char *text)
{
    return (struct scan){.start = text, .at = text};
}

/* Finds the value under a dotted path in nested maps; a key may itself have dots. */
static bool value_find(struct pack_reader map, const char *path, size_t bytes, struct pack_reader *out)
{
    uint32_t pairs = pack_peek(&map) == PACK_MAP ? pack_read_map(&map) : 0;
    for (uint32_t i = 0; i < pairs && !map.failed; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(&map, &key_bytes);
        const uint8_t *value = pack_read_any(&map, &value_bytes);
        if (map.failed || key_bytes > bytes || memcmp(key, path, key_bytes) != 0) {
            continue;
        }
        struct pack_reader reader;
        pack_reader_init(&reader, value, value_bytes);
        if (key_bytes == bytes) {
            *out = reader;
            return true;
        }
        if (path[key_bytes] == '.' && value_find(reader, path + key_bytes + 1, bytes - key_bytes - 1, out)) {
            return true;
        }
    }
    return false;
}

static void add_quoted(struct text *out, const char *value)
{
    text_add(out, "'", 1);
    for (size_t bytes; *value != '\0'; value += bytes) {
        bytes = strcspn(value, "'");
        text_add(out, value, bytes);
        if (value[bytes] == '\'') {
            text_add(out, "'\\''", 4);
            bytes++;
        }
    }
    text_add(out, "'", 1);
}

char *hparams_fill(const char *entrypoint, struct pack_reader values)
{
    struct text out = {0};
    struct scan scan = scan_begin(entrypoint);
    struct placeholder found;
    const char *done = entrypoint;
    while (scan_next(&scan, &found) > 0) {
        struct pack_reader value;
        bool is_known = !found.is_spoiled && value_find(values, found.name, found.name_bytes, &value);
        char *text = is_known ? hparams_text(value) : NULL;
        bool fits = text != NULL && (is_bare(text) || !found.is_in_quotes);
        if (fits) {
            text_add(&out, done, (size_t)(found.start - done));
            if (is_bare(text)) {
                text_add(&out, text, strlen(text));
            } else {
                add_quoted(&out, text);
            }
            done = found.end;
        }
        out.failed |= is_known && text == NULL;
        free(text);
    }
    text_add(&out, done, strlen(done));
    return text_take(&out);
}

/* ---- the check at submit ---- */

/* A variable, and the hyperparameter that gives it. */
struct named {
    char *variable;
    char name[SEARCH_NAME_BYTES];
    uint32_t parameter; /* its place in the space */
    uint32_t value;     /* which of the values that the parameter may have */
};

struct naming {
    struct named *items;
    size_t count, capacity;
    const struct search_parameter *parameter;
    uint32_t place, value;
    int error;
};

static void naming_add(void *context, const char *variable, struct pack_reader value)
{
    struct naming *naming = context;
    (void)value;
    if (naming->count == naming->capacity) {
        size_t capacity = 2 * naming->capacity + 64;
        struct named *grown = realloc(naming->items, capacity * sizeof *grown);
        if (grown == NULL) {
            naming->error = ERR_MEMORY;
            return;
        }
        naming->items = grown;
        naming->capacity = capacity;
    }
    struct named *named = &naming->items[naming->count];
    *named = (struct named){.variable = strdup(variable), .parameter = naming->place, .value = naming->value};
    (void)snprintf(named->name, sizeof named->name, "%s", naming->parameter->name);
    naming->error = named->variable == NULL ? ERR_MEMORY : naming->error;
    naming->count += named->variable != NULL;
}

/* Calls `visit` for each value that the parameter may have; with an empty reader if the values are numbers of a range. */
static void parameter_values(const struct search_parameter *parameter, void (*visit)(void *context, struct pack_reader value),
                             void *context)
{
    struct pack_reader values;
    pack_reader_init(&values, parameter->values, parameter->values_bytes);
    if (parameter->kind != SEARCH_CATEGORICAL) {
        visit(context, values);
        return;
    }
    for (uint32_t left = pack_read_array(&values); left > 0 && !values.failed; left--) {
        size_t bytes;
        const uint8_t *value = pack_read_any(&values, &bytes);
        struct pack_reader reader;
        pack_reader_init(&reader, value, bytes);
        visit(context, reader);
    }
}

static void naming_visit(void *context, struct pack_reader value)
{
    struct naming *naming = context;
    char variable[HPARAMS_VARIABLE_BYTES] = PREFIX;
    const char *name = naming->parameter->name;
    size_t used = variable_append(variable, sizeof PREFIX - 1, name, strlen(name), true);
    int error = ERR_FULL;
    if (used > 0 && value.count == 0) {
        naming_add(naming, variable, value);
        error = 0;
    } else if (used > 0) {
        error = value_visit(variable, used, value, naming_add, naming);
    }
    naming->error = naming->error == 0 ? error : naming->error;
    naming->value++;
}

static int named_compare(const void *left, const void *right)
{
    const struct named *a = left, *b = right;
    int order = strcmp(a->variable, b->variable);
    order = order != 0 ? order : (a->parameter > b->parameter) - (a->parameter < b->parameter);
    return order != 0 ? order : (a->value > b->value) - (a->value < b->value);
}

/* 0, or ERR_MALFORMED if two hyperparameters, or two keys in one value, give one variable. */
static int check_pair(const struct named *a, const struct named *b, char error[HPARAMS_ERROR_BYTES])
{
    if (strcmp(a->variable, b->variable) != 0) {
        return 0;
    }
    if (a->parameter != b->parameter) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the hyperparameters %s and %s both give the variable %.150s; rename one of them", a->name, b->name,
                       a->variable);
        return ERR_MALFORMED;
    }
    if (a->value == b->value) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "two keys in the value of hyperparameter %s give the variable %.150s; rename one of them", a->name,
                       a->variable);
        return ERR_MALFORMED;
    }
    return 0; /* the same key in another value */
}

int hparams_check_variables(const struct search_space *space, char error[HPARAMS_ERROR_BYTES])
{
    struct naming naming = {0};
    struct pack_reader reader;
    struct search_head head;
    uint32_t count = 0;
    error[0] = '\0';
    pack_reader_init(&reader, space->bytes, space->byte_count);
    int result = search_head_read(&reader, &head, &count);
    for (uint32_t i = 0; i < count && result == 0; i++) {
        struct search_parameter parameter;
        result = search_parameter_read(&reader, &parameter);
        naming.parameter = &parameter;
        naming.place = i;
        naming.value = 0;
        if (result == 0) {
            parameter_values(&parameter, naming_visit, &naming);
            result = naming.error;
        }
        if (result == ERR_FULL) {
            (void)snprintf(error, HPARAMS_ERROR_BYTES,
                           "the names in the value of hyperparameter %s are too long for a variable (%d bytes with the names "
                           "around it); shorten them",
                           parameter.name, HPARAMS_VARIABLE_BYTES - 1);
            result = ERR_MALFORMED;
        }
    }
    if (result == 0 && naming.count > 1) {
        qsort(naming.items, naming.count, sizeof *naming.items, named_compare);
    }
    for (size_t i = 1; i < naming.count && result == 0; i++) {
        result = check_pair(&naming.items[i - 1], &naming.items[i], error);
    }
    for (size_t i = 0; i < naming.count; i++) {
        free(naming.items[i].variable);
    }
    free(naming.items);
    return result;
}

/* What is known of a placeholder's value over all trials. */
struct prospect {
    const char *rest; /* the path inside the parameter's value; "" or NULL: the value itself */
    size_t rest_bytes;
    bool is_missing, needs_quotes; /* in at least one trial */
    bool is_conditional;           /* it is missing where conditions are not met */
};

static void prospect_visit(void *context, struct pack_reader value)
{
    struct prospect *prospect = context;
    if (value.count == 0) { /* a number of a range */
        prospect->is_missing |= prospect->rest_bytes > 0;
        return;
    }
    if (prospect->rest_bytes > 0 && !value_find(value, prospect->rest, prospect->rest_bytes, &value)) {
        prospect->is_missing = true;
        return;
    }
    char *text = hparams_text(value);
    prospect->needs_quotes |= text == NULL || !is_bare(text);
    free(text);
}

/* True if a parameter has this name, or the name of a map around parameters, or if it is inside of a parameter's value;
 * then `prospect` is filled. */
static bool look(const struct search_space *space, const char *name, size_t name_bytes, struct prospect *prospect)
{
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count = 0;
    pack_reader_init(&reader, space->bytes, space->byte_count);
    (void)search_head_read(&reader, &head, &count);
    bool is_known = false, is_map = false, has_certain = false;
    *prospect = (struct prospect){0};
    for (uint32_t i = 0; i < count && search_parameter_read(&reader, &parameter) == 0; i++) {
        size_t bytes = strlen(parameter.name);
        if (bytes <= name_bytes && memcmp(parameter.name, name, bytes) == 0 && (bytes == name_bytes || name[bytes] == '.')) {
            is_known = true;
            prospect->is_conditional |= parameter.when_bytes > 0;
            prospect->rest = name + bytes + (bytes < name_bytes);
            prospect->rest_bytes = (size_t)(name + name_bytes - prospect->rest);
            parameter_values(&parameter, prospect_visit, prospect);
        } else if (bytes > name_bytes && memcmp(parameter.name, name, name_bytes) == 0 && parameter.name[name_bytes] == '.') {
            is_known = is_map = prospect->needs_quotes = true; /* a map of parameters, as JSON */
            has_certain |= parameter.when_bytes == 0;
        }
    }
    prospect->is_conditional |= is_map && !has_certain;
    return is_known;
}

/* The hyperparameter that a name is probably meant to be; false: none. */
static bool find_meant(const struct search_space *space, const char *name, size_t bytes, char out[SEARCH_NAME_BYTES])
{
    char word[SEARCH_NAME_BYTES];
    struct pack_reader reader;
    struct search_head head;
    struct search_parameter parameter;
    uint32_t count = 0;
    size_t best = 3;
    (void)snprintf(word, sizeof word, "%.*s", (int)(bytes < sizeof word ? bytes : sizeof word - 1), name);
    pack_reader_init(&reader, space->bytes, space->byte_count);
    (void)search_head_read(&reader, &head, &count);
    for (; count > 0 && search_parameter_read(&reader, &parameter) == 0; count--) {
        size_t distance = edit_distance(word, parameter.name);
        if (distance < best && distance < strlen(parameter.name)) {
            best = distance;
            (void)snprintf(out, SEARCH_NAME_BYTES, "%s", parameter.name);
        }
    }
    return best < 3;
}

static int check_placeholder(const struct placeholder *found, const struct search_space *space,
                             char error[HPARAMS_ERROR_BYTES])
{
    int name_bytes = found->name_bytes < 80 ? (int)found->name_bytes : 80;
    struct prospect prospect;
    char meant[SEARCH_NAME_BYTES];
    if (!look(space, found->name, found->name_bytes, &prospect)) {
        bool has_meant = find_meant(space, found->name, found->name_bytes, meant);
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the entrypoint has {{hp.%.*s}}, and there is no such hyperparameter; %s%s%s", name_bytes, found->name,
                       has_meant ? "did you mean {{hp." : "", has_meant ? meant : "",
                       has_meant ? "}}?" : "hyperparameters of nested maps are written with dots, such as {{hp.optimizer.lr}}");
        return ERR_MALFORMED;
    }
    if (prospect.is_missing) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the entrypoint has {{hp.%.*s}}, and not every trial has it; hyperparameters of nested maps are written "
                       "with dots, such as {{hp.optimizer.lr}}",
                       name_bytes, found->name);
        return ERR_MALFORMED;
    }
    if (prospect.is_conditional) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the entrypoint has {{hp.%.*s}}, and trials that do not meet its conditions (when) lack it; let the program read the "
                       "variable of it",
                       name_bytes, found->name);
        return ERR_MALFORMED;
    }
    if (found->is_spoiled) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the entrypoint has several $ before {{hp.%.*s}}, which would change its value; leave at most one",
                       name_bytes, found->name);
        return ERR_MALFORMED;
    }
    if (found->is_in_quotes && prospect.needs_quotes) {
        (void)snprintf(error, HPARAMS_ERROR_BYTES,
                       "the entrypoint has {{hp.%.*s}} in quotes, in a here-document or behind a backquote, and its value "
                       "needs quotes of its own; put it outside of quotes, where it is one word, or use the variable of it",
                       name_bytes, found->name);
        return ERR_MALFORMED;
    }
    return 0;
}

int hparams_check_entrypoint(const char *entrypoint, const struct search_space *space, hparams_report report, void *context)
{
    struct scan scan = scan_begin(entrypoint);
    struct placeholder found;
    char error[HPARAMS_ERROR_BYTES];
    int next, result = 0;
    while ((next = scan_next(&scan, &found)) != 0) {
        int wrong = next > 0 ? check_placeholder(&found, space, error) : ERR_MALFORMED;
        if (next < 0) {
            (void)snprintf(error, sizeof error,
                           "the entrypoint has '%.40s', which begins a placeholder and is not closed; write {{hp.NAME}}",
                           found.start);
            scan_step(&scan);
        }
        if (wrong != 0) {
            report(context, error);
            result = ERR_MALFORMED;
        }
    }
    return result;
}

/* ---- near misses ---------------------------------------------------------------------------------------------------- */

/* What stands between braces that are no placeholder. */
struct braces {
    const char *word; /* without the blanks around it; no control characters */
    size_t word_bytes;
    bool is_single; /* {...} */
};

static bool read_other_braces(const char *at, struct braces *out)
{
    size_t open = strspn(at, "{");
    const char *word = at + open + strspn(at + open, SPACES);
    size_t bytes = strcspn(word, "{}\n"), close = strspn(word + bytes, "}");
    if (open < 1 || open > 2 || close < open) {
        return false;
    }
    *out = (struct braces){.word = word, .is_single = open == 1};
    while (bytes > 0 && strchr(SPACES, word[bytes - 1]) != NULL) {
        bytes--;
    }
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)word[i] < 0x20 || word[i] == 0x7f) {
            return false;
        }
    }
    out->word_bytes = bytes;
    return bytes > 0 && bytes < SEARCH_NAME_BYTES;
}

/* The bytes of a word for hyperparameters at the start, with the sign behind it; 0: there is none. */
static size_t family_bytes(const struct braces *braces)
{
    static const char *const families[] = {"hyperparameters", "hyperparameter", "hparams", "hparam", "hps", "hp"};
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        size_t bytes = strlen(families[i]);
        if (bytes < braces->word_bytes && strncasecmp(braces->word, families[i], bytes) == 0 &&
            strchr(braces->is_single ? "." : ".:-_[/ ", braces->word[bytes]) != NULL) { /* ${hp_x} is a shell's own */
            return bytes + 1;
        }
    }
    return 0;
}

/* True if the braces are probably meant to be the placeholder of `name`, which is "NAME" if no hyperparameter is like it. */
static bool is_near_miss(const struct search_space *space, const struct braces *braces, char name[SEARCH_NAME_BYTES])
{
    struct prospect prospect;
    size_t family = family_bytes(braces);
    const char *word = braces->word + family;
    size_t bytes = braces->word_bytes - family;
    while (family > 0 && bytes > 0 && strchr("'\"", word[0]) != NULL) { /* hparams['lr'] */
        word++;
        bytes--;
    }
    bytes = family > 0 && strcspn(word, "'\"]") < bytes ? strcspn(word, "'\"]") : bytes;
    (void)snprintf(name, SEARCH_NAME_BYTES, "%.*s", (int)bytes, word);
    if (bytes > 0 && look(space, word, bytes, &prospect) && !prospect.is_missing && !prospect.is_conditional) {
        return family > 0 || !braces->is_single;
    }
    if (bytes > 0 && family > 0 && find_meant(space, word, bytes, name)) {
        return true;
    }
    (void)snprintf(name, SEARCH_NAME_BYTES, "NAME");
    return family > 0 && !braces->is_single && braces->word[family - 1] == '.';
}

void hparams_near_misses(const char *entrypoint, const struct search_space *space, hparams_report report, void *context)
{
    struct scan scan = scan_begin(entrypoint);
    struct placeholder placeholder;
    struct braces braces;
    char sentence[HPARAMS_ERROR_BYTES], name[SEARCH_NAME_BYTES];
    while (*scan.at != '\0') {
        bool is_other = braces_read(scan.at, &placeholder) == 0 && read_other_braces(scan.at, &braces);
        if (is_other && is_near_miss(space, &braces, name)) {
            (void)snprintf(sentence, sizeof sentence,
                           "the entrypoint has %s%.*s%s, which is no placeholder and stays as it is; write {{hp.%s}} if it stands "
                           "for a hyperparameter",
                           braces.is_single ? "{" : "{{", (int)braces.word_bytes, braces.word, braces.is_single ? "}" : "}}", name);
            report(context, sentence);
        }
        scan_step(&scan);
        if (scan.at[-1] == '{') {
            scan.at += strspn(scan.at, "{"); /* several are one opening, also behind a backslash */
        }
    }
}

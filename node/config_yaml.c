#include "node/config_yaml.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/number.h"
#include "node/core/config.h"

/* Three steps: libyaml's events become a small tree; --set texts replace branches of it; one walk checks the tree
 * against the table of options below and fills the struct. Scalars follow the core schema of YAML 1.2: `true` and
 * `false` are the only truth values, `no` and `1_000` are texts. Anchors, aliases and tags are refused, so a small file
 * cannot unfold into a large one. An empty value or `null` means "not given". */

#define NODES_MAX 4096
#define DEPTH_MAX 16
#define KEY_BYTES_MAX 128
#define PATH_BYTES 256
#define QUOTED_BYTES 56 /* of what the user wrote, in an error */
#define WORD_LIST_BYTES 512
#define VARIABLES_MAX 64
#define LABELS_MAX 16
#define LABEL_BYTES_MAX 63

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAP };

struct node {
    enum node_kind kind;
    bool is_plain;        /* a scalar without quotes */
    unsigned line;        /* from 1; of the key, if there is one */
    const char *key;      /* in a map */
    const char *text;     /* of a scalar */
    const char *override; /* the --set text that it comes from, or NULL */
    struct node *first, *last, *next;
};

struct parse {
    const char *file_name;
    char *error; /* CONFIG_ERROR_BYTES; the first one stays */
    struct node *nodes;
    size_t node_count;
    char *texts;
    size_t texts_used, texts_size;
    struct config *config;
    struct pack_writer packed;   /* into the caller's scratch */
    const struct node **given;   /* per option: its node, or NULL */
};

/* ---- errors ---- */

/* Always ERR_MALFORMED. `at` may be NULL. What the user wrote is kept from breaking the line. */
__attribute__((format(printf, 3, 4))) static int fail(struct parse *parse, const struct node *at, const char *format, ...)
{
    if (parse->error[0] != '\0') {
        return ERR_MALFORMED;
    }
    int used;
    if (at != NULL && at->override != NULL) {
        used = snprintf(parse->error, CONFIG_ERROR_BYTES, "--set %.80s: ", at->override);
    } else if (at != NULL) {
        used = snprintf(parse->error, CONFIG_ERROR_BYTES, "%.120s:%u: ", parse->file_name, at->line);
    } else {
        used = snprintf(parse->error, CONFIG_ERROR_BYTES, "%.120s: ", parse->file_name);
    }
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(parse->error + used, (size_t)(CONFIG_ERROR_BYTES - used), format, arguments);
    va_end(arguments);
    for (char *p = parse->error; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?';
        }
    }
    return ERR_MALFORMED;
}

/* What stands there, for "KEY is ...". */
static const char *describe(const struct node *node, char out[QUOTED_BYTES + 8])
{
    if (node->kind != NODE_SCALAR) {
        return node->kind == NODE_LIST ? "a list" : "a map";
    }
    if (node->text[0] == '\0') {
        return "empty";
    }
    size_t bytes = strnlen(node->text, QUOTED_BYTES + 1);
    bool is_cut = bytes > QUOTED_BYTES;
    (void)snprintf(out, QUOTED_BYTES + 8, "'%.*s%s'", is_cut ? QUOTED_BYTES : (int)bytes, node->text, is_cut ? "..." : "");
    return out;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The number of letters to insert, delete, replace or swap with a neighbour to get from `a` to `b` (Damerau 1964,
 * without later edits of a swapped pair); 99 for long words. */
static size_t edit_distance(const char *a, const char *b)
{
    enum { MOST = 40 };
    size_t rows[3][MOST + 1];
    size_t m = strlen(a), n = strlen(b);
    if (m > MOST || n > MOST) {
        return 99;
    }
    for (size_t j = 0; j <= n; j++) {
        rows[0][j] = j;
    }
    for (size_t i = 1; i <= m; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = smaller(smaller(row[j - 1], above[j]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = smaller(row[j], two_above[j - 2] + 1);
            }
        }
    }
    return rows[m % 3][n];
}

/* "unknown key" with the nearest of `count` known words, if one is near, and all of them. */
static int fail_unknown(struct parse *parse, const struct node *node, const char *path, const char *const *known,
                        size_t count)
{
    char words[WORD_LIST_BYTES] = "";
    size_t used = 0, best = 0, best_distance = 3;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(node->key, known[i]);
        if (distance < best_distance && distance < strlen(known[i])) {
            best = i;
            best_distance = distance;
        }
        if (used < sizeof words) {
            used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > 0 ? ", " : "", known[i]);
        }
    }
    if (best_distance < 3) {
        return fail(parse, node, "unknown key '%.80s'; did you mean '%s'? (allowed are %s)", path, known[best], words);
    }
    return fail(parse, node, "unknown key '%.80s'; allowed are %s", path, words);
}

/* ---- from text to tree ---- */

static struct node *node_new(struct parse *parse, enum node_kind kind, unsigned line, const char *override)
{
    if (parse->node_count == NODES_MAX) {
        return NULL;
    }
    struct node *node = &parse->nodes[parse->node_count++];
    *node = (struct node){.kind = kind, .line = line, .text = "", .override = override};
    return node;
}

/* A copy that lives as long as the parse. The room was counted at the start; NULL if it was not enough. */
static const char *text_keep(struct parse *parse, const char *text, size_t bytes)
{
    if (bytes >= parse->texts_size - parse->texts_used) {
        return NULL;
    }
    char *copy = parse->texts + parse->texts_used;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    parse->texts_used += bytes + 1;
    return copy;
}

static void node_append(struct node *parent, struct node *child)
{
    if (parent->last != NULL) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
}

static struct node *node_find(const struct node *map, const char *key)
{
    for (struct node *child = map->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return child;
        }
    }
    return NULL;
}

/* The tree that is being built: the open lists and maps, and the key that waits for its value. */
struct builder {
    struct parse *parse;
    const char *override;
    struct node *open[DEPTH_MAX];
    unsigned depth;
    const char *key;
    unsigned key_line;
    struct node *root;
};

static int take_key(struct builder *builder, const yaml_event_t *event, const struct node *at)
{
    struct parse *parse = builder->parse;
    const char *text = (const char *)event->data.scalar.value;
    size_t bytes = event->data.scalar.length;
    if (bytes == 0 || bytes > KEY_BYTES_MAX || memchr(text, '\0', bytes) != NULL) {
        return fail(parse, at, "a key is empty or too long; allowed are 1 ... %d bytes", KEY_BYTES_MAX);
    }
    builder->key = text_keep(parse, text, bytes);
    if (builder->key == NULL) {
        return fail(parse, at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
    }
    builder->key_line = at->line;
    const struct node *before = node_find(builder->open[builder->depth - 1], builder->key);
    if (before != NULL) {
        return fail(parse, at, "the key '%.80s' is here a second time (first on line %u); remove one of them", builder->key,
                    before->line);
    }
    return 0;
}

/* Puts a new value where it belongs: at the root, at the end of the open list, or under the waiting key. */
static void place(struct builder *builder, struct node *node)
{
    if (builder->depth == 0) {
        builder->root = node;
        return;
    }
    if (builder->key != NULL) {
        node->key = builder->key;
        node->line = builder->key_line;
        builder->key = NULL;
    }
    node_append(builder->open[builder->depth - 1], node);
}

static int take_value(struct builder *builder, const yaml_event_t *event, const struct node *at)
{
    struct parse *parse = builder->parse;
    enum node_kind kind = event->type == YAML_SCALAR_EVENT           ? NODE_SCALAR
                          : event->type == YAML_SEQUENCE_START_EVENT ? NODE_LIST
                                                                     : NODE_MAP;
    bool is_key = builder->depth > 0 && builder->open[builder->depth - 1]->kind == NODE_MAP && builder->key == NULL;
    if (is_key && kind != NODE_SCALAR) {
        return fail(parse, at, "a list or a map is used as a key; allowed are texts");
    }
    if (is_key) {
        return take_key(builder, event, at);
    }
    struct node *node = node_new(parse, kind, at->line, builder->override);
    if (node == NULL) {
        return fail(parse, at, "there are too many values; allowed are %d", NODES_MAX);
    }
    if (kind == NODE_SCALAR) {
        const char *text = (const char *)event->data.scalar.value;
        node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (memchr(text, '\0', event->data.scalar.length) != NULL) {
            return fail(parse, at, "a text has a zero byte; remove it");
        }
        node->text = text_keep(parse, text, event->data.scalar.length);
        if (node->text == NULL) {
            return fail(parse, at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
        }
    }
    place(builder, node);
    if (kind != NODE_SCALAR) {
        if (builder->depth == DEPTH_MAX) {
            return fail(parse, at, "lists and maps are nested too deep; allowed are %d levels", DEPTH_MAX);
        }
        builder->open[builder->depth++] = node;
    }
    return 0;
}

static bool has_anchor_or_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return true;
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor != NULL || event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor != NULL || event->data.mapping_start.tag != NULL;
    default:
        return false;
    }
}

static int take_event(struct builder *builder, const yaml_event_t *event)
{
    struct node at = {.line = (unsigned)event->start_mark.line + 1, .override = builder->override};
    if (has_anchor_or_tag(event)) {
        return fail(builder->parse, &at, "anchors (&), aliases (*) and tags (!) are not allowed; write the value itself, "
                                         "in quotes if it begins with such a character");
    }
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (builder->root != NULL) {
            return fail(builder->parse, &at, "a second document begins here; allowed is one");
        }
        return 0;
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return take_value(builder, event, &at);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        builder->depth--;
        return 0;
    default:
        return 0;
    }
}

static int fail_syntax(struct parse *parse, const yaml_parser_t *yaml, const char *text, const char *override)
{
    struct node at = {.line = (unsigned)yaml->problem_mark.line + 1, .override = override};
    if (yaml->error == YAML_MEMORY_ERROR) {
        (void)fail(parse, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    if (yaml->error == YAML_READER_ERROR) { /* has an offset only */
        at.line = 1;
        for (size_t i = 0; i < yaml->problem_offset; i++) {
            at.line += text[i] == '\n';
        }
        return fail(parse, &at, "this is not UTF-8 text (%s); save the file as UTF-8 without control characters",
                    yaml->problem);
    }
    return fail(parse, &at, "this is not valid YAML: %s%s%s", yaml->problem != NULL ? yaml->problem : "unknown problem",
                yaml->context != NULL ? " " : "", yaml->context != NULL ? yaml->context : "");
}

/* Builds the tree of one document; an empty one gives NULL. `override` marks its nodes. */
static int build(struct parse *parse, const char *text, size_t bytes, const char *override, struct node **root)
{
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        bytes -= 3;
    }
    yaml_parser_t yaml;
    if (!yaml_parser_initialize(&yaml)) {
        (void)fail(parse, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    yaml_parser_set_encoding(&yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml, (const unsigned char *)text, bytes);
    struct builder builder = {.parse = parse, .override = override};
    int error = 0;
    for (bool is_done = false; !is_done && error == 0;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&yaml, &event)) {
            error = fail_syntax(parse, &yaml, text, override);
            break;
        }
        error = take_event(&builder, &event);
        is_done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&yaml);
    if (error == 0) {
        *root = builder.root;
    }
    return error;
}

/* ---- scalars ---- */

enum scalar_type { SCALAR_NULL, SCALAR_TRUTH, SCALAR_INTEGER, SCALAR_NUMBER, SCALAR_TEXT, SCALAR_NOT_FINITE, SCALAR_HUGE };

struct scalar {
    enum scalar_type type;
    bool truth;
    bool is_negative;
    uint64_t magnitude; /* of an integer */
    double number;      /* of an integer or a number */
};

static bool text_is_one_of(const char *text, const char *const *words)
{
    for (; *words != NULL; words++) {
        if (strcmp(text, *words) == 0) {
            return true;
        }
    }
    return false;
}

/* [+-] digits, 0x or 0o; false if it is no integer, *is_huge if it does not fit in 64 bits. */
static bool read_integer(const char *text, struct scalar *out, bool *is_huge)
{
    out->is_negative = text[0] == '-';
    const char *p = text + (text[0] == '-' || text[0] == '+');
    unsigned base = p[0] == '0' && p[1] == 'x' ? 16 : p[0] == '0' && p[1] == 'o' ? 8 : 10;
    p += base != 10 ? 2 : 0;
    *is_huge = false;
    out->magnitude = 0;
    if (*p == '\0') {
        return false;
    }
    for (; *p != '\0'; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                         : *p >= 'A' && *p <= 'F' ? (unsigned)(*p - 'A' + 10)
                                                  : 99;
        if (digit >= base) {
            return false;
        }
        *is_huge = *is_huge || out->magnitude > (UINT64_MAX - digit) / base;
        out->magnitude = out->magnitude * base + digit;
    }
    *is_huge = *is_huge || (out->is_negative && out->magnitude > (uint64_t)INT64_MAX + 1);
    out->number = out->is_negative ? -(double)out->magnitude : (double)out->magnitude;
    return true;
}

static bool looks_like_number(const char *text)
{
    return text[strspn(text, "+-.0123456789eE")] == '\0' && strpbrk(text, "0123456789") != NULL && text[0] != 'e' &&
           text[0] != 'E';
}

static struct scalar scalar_read(const struct node *node)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const truths[] = {"true", "True", "TRUE", NULL};
    static const char *const lies[] = {"false", "False", "FALSE", NULL};
    static const char *const endless[] = {".inf", ".Inf", ".INF", "+.inf", "-.inf", "-.Inf", "-.INF",
                                          ".nan", ".NaN", ".NAN", NULL};
    struct scalar scalar = {.type = SCALAR_TEXT};
    bool is_huge = false;
    if (!node->is_plain) {
        return scalar;
    }
    const char *text = node->text;
    if (text_is_one_of(text, nulls)) {
        scalar.type = SCALAR_NULL;
    } else if (text_is_one_of(text, truths) || text_is_one_of(text, lies)) {
        scalar.type = SCALAR_TRUTH;
        scalar.truth = text_is_one_of(text, truths);
    } else if (text_is_one_of(text, endless)) {
        scalar.type = SCALAR_NOT_FINITE;
    } else if (read_integer(text, &scalar, &is_huge)) {
        scalar.type = is_huge ? SCALAR_HUGE : SCALAR_INTEGER;
    } else if (number_parse(text, strlen(text), &scalar.number) == 0) {
        scalar.type = SCALAR_NUMBER;
    } else if (looks_like_number(text) && (strchr(text, 'e') != NULL || strchr(text, 'E') != NULL) &&
               strpbrk(text, "eE")[1] != '\0') {
        scalar.type = SCALAR_NOT_FINITE; /* 1e999 */
    }
    return scalar;
}

/* Empty values and null count as not given. */
static bool is_null(const struct node *node)
{
    return node->kind == NODE_SCALAR && scalar_read(node).type == SCALAR_NULL;
}

/* No control characters, which could do things to a terminal; `lines`: line ends and tabs are fine. */
static bool text_is_clean(const char *text, bool lines)
{
    for (; *text != '\0'; text++) {
        bool is_control = (unsigned char)*text < 0x20 || *text == 0x7f;
        if (is_control && !(lines && (*text == '\n' || *text == '\t'))) {
            return false;
        }
    }
    return true;
}

/* ---- hyperparameters ---- */

#define INTEGER_WORDS "whole numbers from -9007199254740992 to 9007199254740992"

/* Packs any value; recursion is bounded by DEPTH_MAX. */
static int pack_node(struct parse *parse, const struct node *node, const char *path, struct pack_writer *writer)
{
    uint32_t count = 0;
    for (const struct node *child = node->first; child != NULL; child = child->next) {
        count++;
    }
    if (node->kind != NODE_SCALAR) {
        if (node->kind == NODE_MAP) {
            pack_map(writer, count);
        } else {
            pack_array(writer, count);
        }
        int error = 0;
        for (const struct node *child = node->first; child != NULL && error == 0; child = child->next) {
            if (node->kind == NODE_MAP) {
                pack_text(writer, child->key);
            }
            error = pack_node(parse, child, path, writer);
        }
        return error;
    }
    char quoted[QUOTED_BYTES + 8];
    struct scalar scalar = scalar_read(node);
    switch (scalar.type) {
    case SCALAR_NULL:
        pack_nil(writer);
        break;
    case SCALAR_TRUTH:
        pack_bool(writer, scalar.truth);
        break;
    case SCALAR_INTEGER:
        if (scalar.is_negative) {
            pack_i64(writer, (int64_t)(0 - scalar.magnitude));
        } else {
            pack_u64(writer, scalar.magnitude);
        }
        break;
    case SCALAR_NUMBER:
        pack_double(writer, scalar.number);
        break;
    case SCALAR_TEXT:
        pack_text(writer, node->text);
        break;
    case SCALAR_NOT_FINITE:
    case SCALAR_HUGE:
        return fail(parse, node, "%s is %s; allowed are finite numbers, integers of up to 64 bits", path,
                    describe(node, quoted));
    }
    return 0;
}

struct parameter_type {
    const char *name;
    enum search_parameter_kind kind;
    const char *keys[5];
    size_t key_count;
};

static const struct parameter_type parameter_types[] = {
    {"const", SEARCH_CONST, {"type", "val"}, 2},
    {"categorical", SEARCH_CATEGORICAL, {"type", "vals"}, 2},
    {"int", SEARCH_INT, {"type", "minval", "maxval", "count"}, 4},
    {"double", SEARCH_DOUBLE, {"type", "minval", "maxval", "count"}, 4},
    {"log", SEARCH_LOG, {"type", "base", "minval", "maxval", "count"}, 5},
};

/* The number under `key`; `standard` if it is not given (missing is an error if that is not a number). */
static int parameter_number(struct parse *parse, const struct node *map, const char *path, const char *key, bool is_whole,
                            const double *standard, double *out)
{
    char quoted[QUOTED_BYTES + 8];
    const struct node *node = node_find(map, key);
    if (node == NULL || is_null(node)) {
        if (standard == NULL) {
            return fail(parse, map, "%s.%s is missing; it is required for this type", path, key);
        }
        *out = *standard;
        return 0;
    }
    struct scalar scalar = node->kind == NODE_SCALAR ? scalar_read(node) : (struct scalar){.type = SCALAR_TEXT};
    bool good = scalar.type == SCALAR_INTEGER || scalar.type == SCALAR_NUMBER;
    if (is_whole) {
        good = good && scalar.number >= -0x1p53 && scalar.number <= 0x1p53 && (double)(int64_t)scalar.number == scalar.number;
    } else {
        good = good && scalar.number >= -1e300 && scalar.number <= 1e300;
    }
    if (!good) {
        return fail(parse, node, "%s.%s is %s; allowed are %s", path, key, describe(node, quoted),
                    is_whole ? INTEGER_WORDS : "numbers");
    }
    *out = scalar.number;
    return 0;
}

static int parameter_range(struct parse *parse, const struct node *map, const char *path, struct search_parameter *out)
{
    static const double ten = 10, none = 0;
    double count = 0;
    bool is_int = out->kind == SEARCH_INT;
    if (parameter_number(parse, map, path, "minval", is_int, NULL, &out->minval) != 0 ||
        parameter_number(parse, map, path, "maxval", is_int, NULL, &out->maxval) != 0 ||
        parameter_number(parse, map, path, "count", true, &none, &count) != 0 ||
        (out->kind == SEARCH_LOG && parameter_number(parse, map, path, "base", false, &ten, &out->base) != 0)) {
        return ERR_MALFORMED;
    }
    const struct node *count_node = node_find(map, "count");
    bool has_count = count_node != NULL && !is_null(count_node);
    if (has_count && (count < 1 || count > SEARCH_TRIALS_MAX)) {
        return fail(parse, count_node, "%s.count is '%.40s'; allowed are 1 ... %d", path, count_node->text, SEARCH_TRIALS_MAX);
    }
    out->count = (uint32_t)count;
    if (out->minval > out->maxval) {
        return fail(parse, node_find(map, "minval"), "%s.minval is '%.40s' and maxval '%.40s'; minval must not be above maxval",
                    path, node_find(map, "minval")->text, node_find(map, "maxval")->text);
    }
    if (parse->config->searcher == SEARCH_GRID && !is_int && !has_count) {
        return fail(parse, map, "%s has no count; searcher.name grid needs it for the types double and log", path);
    }
    return 0;
}

static int parameter_values(struct parse *parse, const struct node *map, const char *path, const char *key,
                            struct pack_writer *values)
{
    char quoted[QUOTED_BYTES + 8];
    const struct node *node = node_find(map, key);
    if (node == NULL) {
        return fail(parse, map, "%s.%s is missing; it is required for this type", path, key);
    }
    if (strcmp(key, "vals") == 0 && (node->kind != NODE_LIST || node->first == NULL)) {
        return fail(parse, node, "%s.vals is %s; allowed is a list of one or more values", path,
                    node->kind == NODE_LIST ? "an empty list" : describe(node, quoted));
    }
    return pack_node(parse, node, path, values);
}

/* One {type: ...} map, or a bare value as a constant. */
static int read_parameter(struct parse *parse, const struct node *node, const char *path, const char *name,
                          struct pack_writer *writer)
{
    uint8_t value_bytes[SEARCH_SPACE_BYTES_MAX];
    struct pack_writer values;
    pack_writer_init(&values, value_bytes, sizeof value_bytes);
    struct search_parameter parameter = {.kind = SEARCH_CONST};
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    const struct node *type = node->kind == NODE_MAP ? node_find(node, "type") : NULL;
    int error;
    if (type == NULL) {
        error = pack_node(parse, node, path, &values);
    } else {
        const struct parameter_type *found = NULL;
        for (size_t i = 0; i < sizeof parameter_types / sizeof parameter_types[0]; i++) {
            if (strcmp(type->text, parameter_types[i].name) == 0) {
                found = &parameter_types[i];
            }
        }
        if (found == NULL) {
            char quoted[QUOTED_BYTES + 8];
            return fail(parse, type, "%s.type is %s; allowed are const, categorical, int, double, log", path,
                        describe(type, quoted));
        }
        for (const struct node *child = node->first; child != NULL; child = child->next) {
            bool is_known = false;
            for (size_t i = 0; i < found->key_count; i++) {
                is_known = is_known || strcmp(child->key, found->keys[i]) == 0;
            }
            if (!is_known) {
                char child_path[PATH_BYTES];
                (void)snprintf(child_path, sizeof child_path, "%.120s.%.120s", path, child->key);
                return fail_unknown(parse, child, child_path, found->keys, found->key_count);
            }
        }
        parameter.kind = found->kind;
        error = found->kind == SEARCH_CONST         ? parameter_values(parse, node, path, "val", &values)
                : found->kind == SEARCH_CATEGORICAL ? parameter_values(parse, node, path, "vals", &values)
                                                    : parameter_range(parse, node, path, &parameter);
    }
    if (error != 0) {
        return error;
    }
    parameter.values = value_bytes;
    parameter.values_bytes = (uint32_t)values.used_bytes;
    size_t start = writer->used_bytes;
    search_parameter_pack(writer, &parameter);
    if (values.failed || writer->failed) {
        return fail(parse, node, "the hyperparameters are too large at %s; allowed are %d bytes packed", path,
                    SEARCH_SPACE_BYTES_MAX);
    }
    /* The core decides what is in bounds; here only the extremes of log and over-long lists are left. */
    struct pack_reader reader;
    pack_reader_init(&reader, writer->bytes + start, writer->used_bytes - start);
    if (search_parameter_read(&reader, &parameter) != 0) {
        return fail(parse, node, "%s is out of range; allowed are a base of 1e-6 ... 1e6, values of base^minval and "
                                 "base^maxval between 1e-300 and 1e300, and lists of at most 1000 values", path);
    }
    return 0;
}

static int read_parameters(struct parse *parse, const struct node *map, const char *prefix, struct pack_writer *writer,
                           uint32_t *count)
{
    for (const struct node *child = map->first; child != NULL; child = child->next) {
        char name[PATH_BYTES + KEY_BYTES_MAX + 2], path[PATH_BYTES];
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        (void)snprintf(path, sizeof path, "hyperparameters.%.200s", name);
        unsigned parts = 1;
        for (const char *p = name; *p != '\0'; p++) {
            parts += *p == '.';
        }
        if (strchr(child->key, '.') != NULL || !text_is_clean(child->key, false)) {
            return fail(parse, child, "the key '%.80s' in hyperparameters has a '.' or a control character; write nested "
                                      "maps instead of dots", child->key);
        }
        if (strlen(name) >= SEARCH_NAME_BYTES || parts > 8) {
            return fail(parse, child, "the name %s is too long; allowed are %d bytes and 8 levels", path, SEARCH_NAME_BYTES - 1);
        }
        if (is_null(child)) {
            return fail(parse, child, "%s is empty; allowed are a value, {type: ...} or a map (write {type: const, val: null} "
                                      "for no value)", path);
        }
        const struct node *type = child->kind == NODE_MAP ? node_find(child, "type") : NULL;
        int error;
        if (child->kind == NODE_MAP && (type == NULL || type->kind != NODE_SCALAR)) {
            if (child->first == NULL) {
                return fail(parse, child, "%s is an empty map; allowed are a value, {type: ...} or a map of such", path);
            }
            error = read_parameters(parse, child, name, writer, count);
        } else {
            (*count)++;
            error = *count > SEARCH_PARAMETERS_MAX
                        ? fail(parse, child, "%s is one hyperparameter too many; allowed are %d", path, SEARCH_PARAMETERS_MAX)
                        : read_parameter(parse, child, path, name, writer);
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* The piece of the caller's scratch that was written since `start`. */
static int packed_since(struct parse *parse, const struct node *node, size_t start, const uint8_t **bytes, uint32_t *count)
{
    if (parse->packed.failed) {
        return fail(parse, node, "the configuration is too large; allowed are %d bytes packed", CONFIG_PACKED_BYTES_MAX);
    }
    *bytes = parse->packed.bytes + start;
    *count = (uint32_t)(parse->packed.used_bytes - start);
    return 0;
}

static int check_space(struct parse *parse, const struct node *at)
{
    struct search_space space = config_search_space(parse->config);
    uint32_t trials;
    int error = search_trial_count(&space, &trials);
    if (error == 0) {
        return 0;
    }
    space.kind = SEARCH_SINGLE;
    if (search_trial_count(&space, &trials) == 0) {
        return fail(parse, at, "the grid of hyperparameters has more than %d trials; use smaller counts", SEARCH_TRIALS_MAX);
    }
    return fail(parse, at, "the hyperparameters are too large; allowed are %d bytes packed", SEARCH_SPACE_BYTES_MAX);
}

static int fail_type(struct parse *parse, const struct node *node, const char *path, const char *allowed)
{
    char quoted[QUOTED_BYTES + 8];
    return fail(parse, node, "%s is %s; allowed is %s", path, describe(node, quoted), allowed);
}

/* Last of all options, as it needs the searcher. `node` may be NULL. */
static int read_hyperparameters(struct parse *parse, const struct node *node)
{
    uint8_t bytes[SEARCH_SPACE_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    uint32_t count = 0;
    if (node != NULL && node->kind != NODE_MAP) {
        return fail_type(parse, node, "hyperparameters", "a map of names to values");
    }
    int error = node != NULL ? read_parameters(parse, node, "", &writer, &count) : 0;
    if (error != 0) {
        return error;
    }
    size_t start = parse->packed.used_bytes;
    pack_array(&parse->packed, count);
    pack_raw(&parse->packed, bytes, writer.used_bytes);
    error = packed_since(parse, node, start, &parse->config->hyperparameters, &parse->config->hyperparameters_bytes);
    return error != 0 ? error : check_space(parse, node);
}

/* ---- options with a shape of their own ---- */

static bool is_shell_safe(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")] == '\0';
}

/* Appends `text` so that a POSIX shell reads it as one word. False if it does not fit. */
static bool append_quoted(char *out, size_t size, const char *text)
{
    size_t used = strlen(out);
    bool is_safe = is_shell_safe(text);
    size_t need = strlen(text) + 4; /* quotes, blank, NUL */
    for (const char *p = text; *p != '\0'; p++) {
        need += *p == '\'' ? 3 : 0;
    }
    if (need > size - used) {
        return false;
    }
    char *to = out + used;
    if (used > 0) {
        *to++ = ' ';
    }
    if (!is_safe) {
        *to++ = '\'';
    }
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else {
            *to++ = *p;
        }
    }
    if (!is_safe) {
        *to++ = '\'';
    }
    *to = '\0';
    return true;
}

#define ENTRYPOINT_WORDS "one command line, or a list of words, of at most 1023 bytes"

static int read_entrypoint(struct parse *parse, const struct node *node, const char *path)
{
    char *out = parse->config->entrypoint;
    bool good = node->kind != NODE_MAP;
    if (node->kind == NODE_SCALAR) {
        size_t bytes = strlen(node->text);
        while (bytes > 0 && strchr(" \t\n", node->text[bytes - 1]) != NULL) { /* the line end of a block scalar */
            bytes--;
        }
        good = bytes > 0 && bytes < CONFIG_ENTRYPOINT_BYTES && memchr(node->text, '\n', bytes) == NULL;
        (void)bytes_copy_text_n(out, CONFIG_ENTRYPOINT_BYTES, node->text, bytes);
    }
    for (const struct node *word = node->first; word != NULL && good; word = word->next) {
        good = word->kind == NODE_SCALAR && append_quoted(out, CONFIG_ENTRYPOINT_BYTES, word->text);
    }
    return good && out[0] != '\0' ? 0 : fail_type(parse, node, path, ENTRYPOINT_WORDS);
}

#define LABELS_WORDS "a list of at most 16 texts of 1 ... 63 bytes"

static int read_labels(struct parse *parse, const struct node *node, const char *path)
{
    uint32_t count = 0;
    for (const struct node *label = node->first; label != NULL; label = label->next) {
        count++;
    }
    if (node->kind != NODE_LIST || count > LABELS_MAX) {
        return fail_type(parse, node, path, LABELS_WORDS);
    }
    size_t start = parse->packed.used_bytes;
    pack_array(&parse->packed, count);
    for (const struct node *label = node->first; label != NULL; label = label->next) {
        if (label->kind != NODE_SCALAR || label->text[0] == '\0' || strlen(label->text) > LABEL_BYTES_MAX ||
            !text_is_clean(label->text, false)) {
            return fail_type(parse, label, path, LABELS_WORDS);
        }
        pack_text(&parse->packed, label->text);
    }
    return packed_since(parse, node, start, &parse->config->labels, &parse->config->labels_bytes);
}

/* Both ways to write variables end here. Names are checked; values are taken as written. */
struct variables {
    const char *names[VARIABLES_MAX];
    size_t name_bytes[VARIABLES_MAX];
    const char *values[VARIABLES_MAX];
    uint32_t count;
};

static int variable_add(struct parse *parse, struct variables *variables, const struct node *node, const char *name,
                        size_t bytes, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    int shown = bytes < 60 ? (int)bytes : 60;
    if (bytes == 0 || strspn(name, letters) < bytes || (name[0] >= '0' && name[0] <= '9')) {
        return fail(parse, node, "the environment variable '%.*s' has a bad name; allowed are letters, digits and _, no "
                                 "digit first", shown, name);
    }
    if (config_variable_is_reserved(name, bytes)) {
        return fail(parse, node, "the environment variable '%.*s' is set by the daemon; choose another name", shown, name);
    }
    for (uint32_t i = 0; i < variables->count; i++) {
        if (variables->name_bytes[i] == bytes && memcmp(variables->names[i], name, bytes) == 0) {
            return fail(parse, node, "the environment variable '%.*s' is given twice; remove one of them", shown, name);
        }
    }
    if (variables->count == VARIABLES_MAX) {
        return fail(parse, node, "there are too many environment variables; allowed are %d", VARIABLES_MAX);
    }
    variables->names[variables->count] = name;
    variables->name_bytes[variables->count] = bytes;
    variables->values[variables->count] = value;
    variables->count++;
    return 0;
}

#define VARIABLE_LIST_WORDS "a list of NAME=VALUE texts"
#define VARIABLE_MAP_WORDS "a map of names to single values"

/* `list` and `map` may be NULL. */
static int read_environment(struct parse *parse, const struct node *list, const struct node *map)
{
    struct variables variables = {.count = 0};
    int error = 0;
    if (list != NULL && list->kind != NODE_LIST) {
        return fail_type(parse, list, "environment.environment_variables", VARIABLE_LIST_WORDS);
    }
    for (const struct node *item = list != NULL ? list->first : NULL; item != NULL && error == 0; item = item->next) {
        const char *equals = item->kind == NODE_SCALAR ? strchr(item->text, '=') : NULL;
        if (equals == NULL) {
            return fail_type(parse, item, "environment.environment_variables", VARIABLE_LIST_WORDS);
        }
        error = variable_add(parse, &variables, item, item->text, (size_t)(equals - item->text), equals + 1);
    }
    if (map != NULL && map->kind != NODE_MAP) {
        return fail_type(parse, map, "environment.variables", VARIABLE_MAP_WORDS);
    }
    for (const struct node *item = map != NULL ? map->first : NULL; item != NULL && error == 0; item = item->next) {
        if (item->kind != NODE_SCALAR) {
            return fail_type(parse, item, "environment.variables", VARIABLE_MAP_WORDS);
        }
        error = variable_add(parse, &variables, item, item->key, strlen(item->key), is_null(item) ? "" : item->text);
    }
    if (error != 0) {
        return error;
    }
    size_t start = parse->packed.used_bytes;
    pack_map(&parse->packed, variables.count);
    for (uint32_t i = 0; i < variables.count; i++) {
        pack_text_n(&parse->packed, variables.names[i], variables.name_bytes[i]);
        pack_text(&parse->packed, variables.values[i]);
    }
    return packed_since(parse, list != NULL ? list : map, start, &parse->config->environment,
                        &parse->config->environment_bytes);
}

/* ---- the table of options ---- */

enum option_kind { OPTION_TEXT, OPTION_LINES, OPTION_NUMBER, OPTION_TRUTH, OPTION_WORD, OPTION_OTHER };

static const char *const searcher_words[] = {"single", "grid", "random", NULL};
static const char *const slot_words[] = {"any", "cpu", "cuda", NULL};
static const char *const partition_words[] = {"continue", "pause_minority", NULL};

struct option {
    const char *key;
    enum option_kind kind;
    size_t offset, size;     /* of the field; a text may have size - 1 bytes */
    uint64_t min, max;       /* of a number */
    const char *const *words;
    const char *type;    /* of OPTION_OTHER, as `allowed` */
    const char *allowed;
    const char *standard;
    const char *help;
};

#define FIELD(name) offsetof(struct config, name), sizeof((struct config *)0)->name
#define TEXT(key, name, standard, help) {key, OPTION_TEXT, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define LINES(key, name, standard, help) {key, OPTION_LINES, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define NUMBER(key, name, min, max, standard, help) {key, OPTION_NUMBER, FIELD(name), min, max, NULL, NULL, NULL, standard, help}
#define TRUTH(key, name, standard, help) {key, OPTION_TRUTH, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define WORD(key, name, words, standard, help) {key, OPTION_WORD, FIELD(name), 0, 0, words, NULL, NULL, standard, help}
#define OTHER(key, type, allowed, standard, help) {key, OPTION_OTHER, 0, 0, 0, 0, NULL, type, allowed, standard, help}

static const struct option options[] = {
    TEXT("name", name, "the file's name without its ending", "What the experiment is called in lists."),
    LINES("description", description, "none", "What it is for."),
    OTHER("labels", "list", LABELS_WORDS, "none", "Words to find it by."),
    OTHER("entrypoint", "text or list", ENTRYPOINT_WORDS, "required",
          "The command that runs a trial, in a copy of the context directory; words of a list are quoted for the shell."),
    OTHER("environment.environment_variables", "list", VARIABLE_LIST_WORDS, "none", "Variables for the program."),
    OTHER("environment.variables", "map", VARIABLE_MAP_WORDS, "none", "The same as a map."),
    OTHER("hyperparameters", "map", "a map of names to values, {type: const, val}, {type: categorical, vals}, {type: int or "
          "double, minval, maxval, count}, {type: log, base, minval, maxval, count}, or maps of such", "none",
          "The search space; minval and maxval of log are exponents, its base is 10 if not given."),
    WORD("searcher.name", searcher, searcher_words, "single", "How trials are chosen."),
    TEXT("searcher.metric", metric, "accuracy", "The metric of group validation that trials are compared by."),
    TRUTH("searcher.smaller_is_better", smaller_is_better, "true if searcher.metric is given, else false",
          "Whether the best trial has the lowest metric."),
    NUMBER("searcher.max_trials", max_trials, 1, SEARCH_TRIALS_MAX, "required for random", "The number of trials of random."),
    NUMBER("resources.slots_per_trial", slots_per_trial, 1, CONFIG_SLOTS_MAX, "1", "Workers that train one trial together."),
    NUMBER("resources.min_slots", min_slots, 1, CONFIG_SLOTS_MAX, "slots_per_trial",
           "The fewest that a trial may go on with; at most slots_per_trial."),
    NUMBER("resources.max_slots", max_slots, 1, CONFIG_SLOTS_MAX, "slots_per_trial",
           "The most that a trial may grow to; at least slots_per_trial."),
    NUMBER("resources.priority", priority, 1, 99, "42", "Lower goes first in the queue."),
    WORD("resources.slot_kind", slot_kind, slot_words, "any", "The kind of slot that a trial needs."),
    NUMBER("checkpoint.replicas", checkpoint_replicas, 1, CONFIG_REPLICAS_MAX, "2", "Copies of each checkpoint, on different nodes; 8 at most."),
    NUMBER("checkpoint.save_experiment_best", save_experiment_best, 0, CONFIG_SAVE_MAX, "0",
           "The best checkpoints of all trials together that are kept, by searcher.metric."),
    NUMBER("checkpoint.save_trial_best", save_trial_best, 0, CONFIG_SAVE_MAX, "1", "The best of each trial that are kept."),
    NUMBER("checkpoint.save_trial_latest", save_trial_latest, 0, CONFIG_SAVE_MAX, "1",
           "The newest of each trial that are kept; of a trial that is not over the newest always is."),
    NUMBER("max_restarts", max_restarts, 0, CONFIG_RESTARTS_MAX, "5",
           "How often a trial is started again after its own failures; lost nodes do not count."),
    NUMBER("seed", seed, 0, INT64_MAX, "0", "All random choices follow from it."),
    NUMBER("preemption_timeout", preemption_timeout_s, 0, CONFIG_PREEMPTION_TIMEOUT_S_MAX, "60",
           "Seconds that a trial has to save and leave when it must make room."),
    WORD("on_partition", on_partition, partition_words, "continue", "What a side of a split mesh does: work on, or start nothing where less than half is."),
};

#define OPTION_COUNT (sizeof options / sizeof options[0])

/* Keys that a file written for Determined, or for a later Shoal, may have: each gets its own sentence. */
static const struct {
    const char *key, *why;
} refusals[] = {
    {"data", "data sets are not supported yet; give paths as hyperparameters or put small files into the context directory"},
    {"sync", "local SGD is not supported yet; remove the key, and gradients are averaged at every step"},
    {"searcher.max_length", "it has no effect with the searchers single, grid and random: the program decides how long it "
                            "trains; remove the key and use a hyperparameter such as epochs"},
    {"searcher.max_concurrent_trials", "it is not supported yet; remove the key, and trials run as slots are free"},
    {"environment.image", "there are no containers; remove the key and install what the program needs on the nodes"},
    {"resources.resource_pool", "there are no resource pools; remove the key or use slot_kind"},
    {"checkpoint_storage", "checkpoints are kept by the mesh itself; remove the key; checkpoint has replicas, "
                           "save_experiment_best, save_trial_best and save_trial_latest"},
    {"reproducibility", "write seed at the top level instead of experiment_seed"},
};

/* `allowed` in words, also for help. */
static const char *option_allowed(const struct option *option, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_LINES:
        (void)snprintf(out, size, "a text of %d ... %zu bytes without control characters", option->kind == OPTION_TEXT,
                       option->size - 1);
        break;
    case OPTION_NUMBER:
        (void)snprintf(out, size, "%llu ... %llu", (unsigned long long)option->min, (unsigned long long)option->max);
        break;
    case OPTION_TRUTH:
        (void)snprintf(out, size, "true, false");
        break;
    case OPTION_WORD:
        for (size_t i = 0; option->words[i] != NULL && used < size; i++) {
            used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", option->words[i]);
        }
        break;
    case OPTION_OTHER:
        return option->allowed;
    }
    return out;
}

void config_describe(void (*row)(void *context, const struct config_option_text *text), void *context)
{
    static const char *const types[] = {"text", "text", "number", "true or false", "word"};
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char allowed[WORD_LIST_BYTES];
        struct config_option_text text = {
            .key = options[i].key,
            .type = options[i].kind == OPTION_OTHER ? options[i].type : types[options[i].kind],
            .allowed = option_allowed(&options[i], allowed, sizeof allowed),
            .standard = options[i].standard,
            .help = options[i].help,
        };
        row(context, &text);
    }
}

/* Writes one value of the common kinds into its field; false if it is not allowed. */
static bool option_store(const struct option *option, const struct node *node, struct config *config)
{
    char *field = (char *)config + option->offset;
    if (node->kind != NODE_SCALAR) {
        return false;
    }
    struct scalar scalar = scalar_read(node);
    uint32_t narrow = 0;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_LINES:
        return text_is_clean(node->text, option->kind == OPTION_LINES) && (node->text[0] != '\0' || option->kind == OPTION_LINES) &&
               bytes_copy_text(field, option->size, node->text);
    case OPTION_NUMBER:
        if (scalar.type != SCALAR_INTEGER || (scalar.is_negative && scalar.magnitude != 0) ||
            scalar.magnitude < option->min || scalar.magnitude > option->max) {
            return false;
        }
        narrow = (uint32_t)scalar.magnitude;
        memcpy(field, option->size == sizeof narrow ? (const void *)&narrow : &scalar.magnitude, option->size);
        return true;
    case OPTION_TRUTH:
        memcpy(field, &scalar.truth, sizeof scalar.truth);
        return scalar.type == SCALAR_TRUTH;
    case OPTION_WORD:
        for (; option->words[narrow] != NULL; narrow++) {
            if (strcmp(node->text, option->words[narrow]) == 0) {
                memcpy(field, &narrow, sizeof narrow);
                return true;
            }
        }
        return false;
    case OPTION_OTHER:
        break;
    }
    return false;
}

_Static_assert(sizeof(enum search_kind) == sizeof(uint32_t), "words are stored as 32 bits");

/* ---- the walk ---- */

static bool starts_with(const char *text, const char *prefix, size_t prefix_bytes)
{
    return strncmp(text, prefix, prefix_bytes) == 0;
}

static const struct node *given(const struct parse *parse, const char *key)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strcmp(options[i].key, key) == 0) {
            return parse->given[i];
        }
    }
    return NULL;
}

/* The last words of the options in a section ("" is the top), each once. */
static size_t section_keys(const char *section, char words[OPTION_COUNT][KEY_BYTES_MAX])
{
    size_t count = 0, prefix_bytes = strlen(section);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const char *rest = options[i].key + prefix_bytes;
        if (starts_with(options[i].key, section, prefix_bytes)) {
            char word[KEY_BYTES_MAX];
            (void)bytes_copy_text_n(word, sizeof word, rest, strcspn(rest, "."));
            if (count == 0 || strcmp(words[count - 1], word) != 0) { /* a section's rows stand together */
                memcpy(words[count++], word, sizeof word);
            }
        }
    }
    return count;
}

/* `section` is "" or ends in a dot. Sections are one level deep, which bounds the recursion. */
static int walk_section(struct parse *parse, const struct node *map, const char *section)
{
    for (const struct node *child = map->first; child != NULL; child = child->next) {
        char path[PATH_BYTES];
        size_t path_bytes = (size_t)snprintf(path, sizeof path - 2, "%s%s", section, child->key);
        bool is_done = is_null(child); /* not given; its key must be known all the same */
        bool is_known = false, is_section = false;
        for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
            if (strcmp(refusals[i].key, path) == 0 && !is_done) {
                return fail(parse, child, "%s cannot be used: %s", path, refusals[i].why);
            }
            is_known = is_known || strcmp(refusals[i].key, path) == 0;
        }
        for (size_t i = 0; i < OPTION_COUNT; i++) {
            is_section = is_section || (starts_with(options[i].key, path, path_bytes) && options[i].key[path_bytes] == '.');
            if (strcmp(options[i].key, path) != 0) {
                continue;
            }
            is_known = true;
            char words[WORD_LIST_BYTES], quoted[QUOTED_BYTES + 8];
            if (!is_done) {
                parse->given[i] = child;
            }
            if (!is_done && options[i].kind != OPTION_OTHER && !option_store(&options[i], child, parse->config)) {
                return fail(parse, child, "%s is %s; allowed are %s", path, describe(child, quoted),
                            option_allowed(&options[i], words, sizeof words));
            }
        }
        if (!is_known && !is_section) {
            char words[OPTION_COUNT][KEY_BYTES_MAX];
            const char *list[OPTION_COUNT];
            size_t count = section_keys(section, words);
            for (size_t i = 0; i < count; i++) {
                list[i] = words[i];
            }
            return fail_unknown(parse, child, path, list, count);
        }
        if (is_section && !is_done) {
            if (child->kind != NODE_MAP) {
                return fail_type(parse, child, path, "a map");
            }
            memcpy(path + path_bytes, ".", 2);
            int error = walk_section(parse, child, path);
            if (error != 0) {
                return error;
            }
        }
    }
    return 0;
}

/* "dir/exp.yaml" gives "exp". */
static void name_from_file(const char *file_name, char *out, size_t size)
{
    const char *slash = strrchr(file_name, '/');
    const char *base = slash != NULL ? slash + 1 : file_name;
    const char *dot = strrchr(base, '.');
    (void)bytes_copy_text_n(out, size, base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
    if (out[0] == '\0' || !text_is_clean(out, false)) {
        (void)bytes_copy_text(out, size, "experiment");
    }
}

/* What depends on several options at once, and what has no default. */
static int finish(struct parse *parse, const struct node *root)
{
    struct config *config = parse->config;
    const struct node *max_trials = given(parse, "searcher.max_trials");
    const struct node *searcher = node_find(root, "searcher");
    if (given(parse, "entrypoint") == NULL) {
        return fail(parse, root, "entrypoint is missing; it is the command that runs a trial, such as entrypoint: python3 train.py");
    }
    if (config->searcher == SEARCH_RANDOM && max_trials == NULL) {
        return fail(parse, searcher, "searcher.max_trials is missing; searcher.name random needs it, allowed are 1 ... %d",
                    SEARCH_TRIALS_MAX);
    }
    if (config->searcher != SEARCH_RANDOM && max_trials != NULL) {
        return fail(parse, max_trials, "searcher.max_trials has no effect with searcher.name %s; remove it or use random",
                    searcher_words[config->searcher]);
    }
    if (given(parse, "searcher.metric") != NULL && given(parse, "searcher.smaller_is_better") == NULL) {
        config->smaller_is_better = true; /* as Determined */
    }
    const struct node *min_slots = given(parse, "resources.min_slots"), *max_slots = given(parse, "resources.max_slots");
    if (min_slots == NULL) {
        config->min_slots = config->slots_per_trial;
    }
    if (max_slots == NULL) {
        config->max_slots = config->slots_per_trial;
    }
    if (config->min_slots > config->slots_per_trial) {
        return fail(parse, min_slots, "resources.min_slots is %u and slots_per_trial %u; allowed are 1 ... slots_per_trial",
                    config->min_slots, config->slots_per_trial);
    }
    if (config->max_slots < config->slots_per_trial) {
        return fail(parse, max_slots, "resources.max_slots is %u and slots_per_trial %u; allowed are slots_per_trial ... %d",
                    config->max_slots, config->slots_per_trial, CONFIG_SLOTS_MAX);
    }
    return 0;
}

/* ---- overrides ---- */

/* Applies one "key.path=value": walks down, making maps where there are none, and puts the value in place. */
static int apply_override(struct parse *parse, struct node *root, const char *override)
{
    struct node at = {.override = override};
    const char *equals = strchr(override, '=');
    if (equals == NULL || equals == override || strlen(override) > CONFIG_TEXT_BYTES_MAX) {
        return fail(parse, &at, "this is no assignment; allowed is key.path=value");
    }
    struct node *value = NULL;
    int error = build(parse, equals + 1, strlen(equals + 1), override, &value);
    if (error != 0) {
        return error;
    }
    if (value == NULL) {
        value = node_new(parse, NODE_SCALAR, 1, override);
        if (value == NULL) {
            return fail(parse, &at, "there are too many values; allowed are %d", NODES_MAX);
        }
        value->is_plain = true;
    }
    struct node *map = root;
    unsigned depth = 0;
    for (const char *p = override;;) {
        size_t bytes = strcspn(p, ".=");
        if (bytes == 0 || bytes > KEY_BYTES_MAX || ++depth > DEPTH_MAX) {
            return fail(parse, &at, "the key before '=' is empty, too long or too deep; allowed is key.path=value");
        }
        const char *key = text_keep(parse, p, bytes);
        bool is_last = p[bytes] == '=';
        if (key == NULL) {
            return fail(parse, &at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
        }
        struct node *child = node_find(map, key);
        if (child == NULL) {
            child = node_new(parse, NODE_MAP, 1, override);
            if (child == NULL) {
                return fail(parse, &at, "there are too many values; allowed are %d", NODES_MAX);
            }
            child->key = key;
            node_append(map, child);
        } else if (!is_last && is_null(child)) {
            child->kind = NODE_MAP;
        } else if (!is_last && child->kind != NODE_MAP) {
            return fail(parse, &at, "'%.*s' is not a map, so nothing can be set in it", (int)(p + bytes - override), override);
        }
        if (is_last) {
            struct node *next = child->next;
            *child = *value;
            child->key = key;
            child->next = next;
            return 0;
        }
        map = child;
        p += bytes + 1;
    }
}

/* ---- all of it ---- */

static int read_all(struct parse *parse, const char *text, size_t text_bytes, const char *const *overrides,
                    size_t override_count)
{
    struct node *root = NULL;
    int error = build(parse, text, text_bytes, NULL, &root);
    if (error != 0) {
        return error;
    }
    if (root == NULL || is_null(root)) {
        parse->node_count = 0;
        root = node_new(parse, NODE_MAP, 1, NULL);
    }
    if (root->kind != NODE_MAP) {
        return fail(parse, root, "the file is not a map of options; allowed are lines such as entrypoint: python3 train.py");
    }
    for (size_t i = 0; i < override_count; i++) {
        error = apply_override(parse, root, overrides[i]);
        if (error != 0) {
            return error;
        }
    }
    error = walk_section(parse, root, "");
    if (error != 0) {
        return error;
    }
    const struct node *entrypoint = given(parse, "entrypoint"), *labels = given(parse, "labels");
    struct node no_labels = {.kind = NODE_LIST, .line = 1};
    error = finish(parse, root);
    if (error == 0) {
        error = read_entrypoint(parse, entrypoint, "entrypoint");
    }
    if (error == 0) {
        error = read_labels(parse, labels != NULL ? labels : &no_labels, "labels");
    }
    if (error == 0) {
        error = read_environment(parse, given(parse, "environment.environment_variables"), given(parse, "environment.variables"));
    }
    if (error == 0) {
        error = read_hyperparameters(parse, given(parse, "hyperparameters"));
    }
    return error;
}

/* The last look: what is handed out can be packed, and is what config_unpack takes. */
static int check_packed(struct parse *parse)
{
    uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    config_pack(&writer, parse->config);
    struct pack_reader reader;
    struct config copy;
    pack_reader_init(&reader, bytes, writer.used_bytes);
    if (writer.failed || config_unpack(&reader, &copy) != 0) {
        return fail(parse, NULL, "the configuration is too large; allowed are %d bytes packed (shorten environment, "
                                 "description or hyperparameters)", CONFIG_PACKED_BYTES_MAX);
    }
    return 0;
}

int config_parse_yaml(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, uint8_t *scratch, size_t scratch_bytes, struct config *out,
                      char error[CONFIG_ERROR_BYTES])
{
    const struct node *given_nodes[OPTION_COUNT] = {NULL};
    struct config config;
    memset(&config, 0, sizeof config);
    name_from_file(file_name, config.name, sizeof config.name);
    (void)bytes_copy_text(config.metric, sizeof config.metric, "accuracy");
    config.slots_per_trial = 1;
    config.priority = 42;
    config.max_restarts = 5;
    config.preemption_timeout_s = 60;
    config.checkpoint_replicas = 2;
    config.save_trial_best = 1;
    config.save_trial_latest = 1;
    error[0] = '\0';
    struct parse parse = {.file_name = file_name, .error = error, .config = &config, .given = given_nodes};
    pack_writer_init(&parse.packed, scratch, scratch_bytes);
    if (text_bytes > CONFIG_TEXT_BYTES_MAX) {
        return fail(&parse, NULL, "the file has %zu bytes; allowed are %u", text_bytes, CONFIG_TEXT_BYTES_MAX);
    }
    /* An escape in quotes grows to at most 3/2 of what was written; each value has a NUL and, in overrides, keys. */
    parse.texts_size = 2 * text_bytes + 2 * NODES_MAX + 64;
    for (size_t i = 0; i < override_count; i++) {
        parse.texts_size += 3 * strnlen(overrides[i], CONFIG_TEXT_BYTES_MAX) + 64;
    }
    parse.nodes = calloc(NODES_MAX, sizeof parse.nodes[0]);
    parse.texts = malloc(parse.texts_size);
    int result = ERR_MEMORY;
    if (parse.nodes == NULL || parse.texts == NULL) {
        (void)fail(&parse, NULL, "no memory is left");
    } else {
        result = read_all(&parse, text, text_bytes, overrides, override_count);
        if (result == 0) {
            result = check_packed(&parse);
        }
    }
    free(parse.texts);
    free(parse.nodes);
    if (result == 0) {
        *out = config;
    }
    return result;
}

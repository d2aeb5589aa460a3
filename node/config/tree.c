#include "node/config/tree.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/edit_distance.h"
#include "base/err.h"
#include "node/config/scalar.h"

#define NODES_MAX 16384 /* with all that aliases and merge keys stand for: so a small file cannot unfold into a large tree */
#define ANCHORS_MAX 256
#define MERGE_KEY "<<"
#define SHOWN_BYTES (TREE_QUOTED_BYTES - 8) /* room for quoted input in an error sentence */

/* ---- room ---- */

int tree_open(struct tree *tree, const char *file_name, size_t text_bytes, const char *const *overrides,
              size_t override_count)
{
    *tree = (struct tree){.file_name = file_name};
    if (text_bytes > CONFIG_TEXT_BYTES_MAX) {
        return tree_fail(tree, NULL, "the file has %zu bytes; allowed are %u", text_bytes, CONFIG_TEXT_BYTES_MAX);
    }
    /* An escape in quotes grows to at most 3/2 of its written length; each value has a NUL, and in overrides keys as
     * well. */
    tree->texts_size = 2 * text_bytes + 2 * NODES_MAX + 64;
    for (size_t i = 0; i < override_count; i++) {
        tree->texts_size += 3 * strnlen(overrides[i], CONFIG_TEXT_BYTES_MAX) + 64;
    }
    tree->nodes = calloc(NODES_MAX, sizeof tree->nodes[0]);
    tree->texts = malloc(tree->texts_size);
    if (tree->nodes == NULL || tree->texts == NULL) {
        tree_close(tree);
        (void)tree_fail(tree, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    return 0;
}

void tree_close(struct tree *tree)
{
    free(tree->texts);
    free(tree->nodes);
    tree->texts = NULL;
    tree->nodes = NULL;
}

/* ---- from text to tree ---- */

static struct tree_node *node_new(struct tree *tree, enum tree_kind kind, unsigned line, const char *override)
{
    if (tree->node_count == NODES_MAX) {
        return NULL;
    }
    struct tree_node *node = &tree->nodes[tree->node_count++];
    *node = (struct tree_node){.kind = kind, .line = line, .text = "", .override = override};
    return node;
}

/* Copies a text into the tree's memory, whose size was computed at the start; NULL if it is not enough. */
static const char *text_keep(struct tree *tree, const char *text, size_t bytes)
{
    if (bytes >= tree->texts_size - tree->texts_used) {
        return NULL;
    }
    char *copy = tree->texts + tree->texts_used;
    memcpy(copy, text, bytes);
    copy[bytes] = '\0';
    tree->texts_used += bytes + 1;
    return copy;
}

static void node_append(struct tree_node *parent, struct tree_node *child)
{
    if (parent->last != NULL) {
        parent->last->next = child;
    } else {
        parent->first = child;
    }
    parent->last = child;
}

/* A value with a name, for aliases. */
struct anchor {
    const char *name;
    const struct tree_node *node;
};

/* A tree under construction: the open lists and maps, and the key that waits for its value. */
struct builder {
    struct tree *tree;
    const char *override;
    struct tree_node *open[TREE_DEPTH_MAX];
    unsigned depth;
    const char *key;
    unsigned key_line;
    bool merges; /* the waiting key is a merge key */
    struct tree_node *root;
    struct anchor anchors[ANCHORS_MAX];
    size_t anchor_count;
};

static int fail_too_many(struct tree *tree, const struct tree_node *at)
{
    return tree_fail(tree, at, "there are too many values; allowed are %d, with all that aliases stand for", NODES_MAX);
}

static int take_key(struct builder *builder, const yaml_event_t *event, const struct tree_node *at)
{
    struct tree *tree = builder->tree;
    const char *text = (const char *)event->data.scalar.value;
    size_t bytes = event->data.scalar.length;
    if (bytes == 0 || bytes > TREE_KEY_BYTES_MAX || memchr(text, '\0', bytes) != NULL) {
        return tree_fail(tree, at, "a key is empty or too long; allowed are 1 ... %d bytes", TREE_KEY_BYTES_MAX);
    }
    builder->key = text_keep(tree, text, bytes);
    if (builder->key == NULL) {
        return tree_fail(tree, at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
    }
    builder->key_line = at->line;
    builder->merges = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && strcmp(builder->key, MERGE_KEY) == 0;
    const struct tree_node *before = tree_find(builder->open[builder->depth - 1], builder->key);
    if (before != NULL) {
        (void)tree_fail(tree, at, "the key '%.80s' is here a second time (first on line %u); remove one of them",
                        builder->key, before->line);
    }
    return tree_is_full(tree) ? ERR_MALFORMED : 0;
}

/* Puts a new value in its place: at the root, at the end of the open list, or under the waiting key. */
static void place(struct builder *builder, struct tree_node *node)
{
    if (builder->depth == 0) {
        builder->root = node;
        return;
    }
    if (builder->key != NULL) {
        node->key = builder->key;
        node->line = builder->key_line;
        node->is_merge = builder->merges;
        builder->key = NULL;
    }
    node_append(builder->open[builder->depth - 1], node);
}

static int take_value(struct builder *builder, const yaml_event_t *event, const struct tree_node *at)
{
    struct tree *tree = builder->tree;
    enum tree_kind kind = event->type == YAML_SCALAR_EVENT           ? TREE_SCALAR
                          : event->type == YAML_SEQUENCE_START_EVENT ? TREE_LIST
                                                                     : TREE_MAP;
    bool is_key = builder->depth > 0 && builder->open[builder->depth - 1]->kind == TREE_MAP && builder->key == NULL;
    if (is_key && kind != TREE_SCALAR) {
        return tree_fail(tree, at, "a list or a map is used as a key; allowed are texts: quote a text that begins with { or [, such as "
                         "\"{{hp.lr}}\"");
    }
    if (is_key) {
        return take_key(builder, event, at);
    }
    struct tree_node *node = node_new(tree, kind, at->line, builder->override);
    if (node == NULL) {
        return fail_too_many(tree, at);
    }
    if (kind == TREE_SCALAR) {
        const char *text = (const char *)event->data.scalar.value;
        node->is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        if (memchr(text, '\0', event->data.scalar.length) != NULL) {
            return tree_fail(tree, at, "a text has a zero byte; remove it");
        }
        node->text = text_keep(tree, text, event->data.scalar.length);
        if (node->text == NULL) {
            return tree_fail(tree, at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
        }
    }
    place(builder, node);
    if (kind != TREE_SCALAR) {
        if (builder->depth == TREE_DEPTH_MAX) {
            return tree_fail(tree, at, "lists and maps are nested too deep; allowed are %d levels", TREE_DEPTH_MAX);
        }
        builder->open[builder->depth++] = node;
    }
    return 0;
}

/* ---- anchors, aliases, merge keys ---- */

/* Copies a value with all below it; the texts are shared. NULL: there are too many values. Nesting is bounded by the depth of
 * the builder at the alias and the depth of the tree. */
static struct tree_node *copy(struct tree *tree, const struct tree_node *from, unsigned depth)
{
    struct tree_node *node = depth > TREE_DEPTH_MAX ? NULL : node_new(tree, from->kind, from->line, from->override);
    if (node == NULL) {
        return NULL;
    }
    node->is_plain = from->is_plain;
    node->text = from->text;
    for (const struct tree_node *child = from->first; child != NULL; child = child->next) {
        struct tree_node *copied = copy(tree, child, depth + 1);
        if (copied == NULL) {
            return NULL;
        }
        copied->key = child->key;
        node_append(node, copied);
    }
    return node;
}

/* The name of the anchor of an event's value; NULL: it has none. */
static const char *anchor_of(const yaml_event_t *event)
{
    const yaml_char_t *name = event->type == YAML_SCALAR_EVENT           ? event->data.scalar.anchor
                              : event->type == YAML_SEQUENCE_START_EVENT ? event->data.sequence_start.anchor
                              : event->type == YAML_MAPPING_START_EVENT  ? event->data.mapping_start.anchor
                                                                         : NULL;
    return (const char *)name;
}

static bool has_tag(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag != NULL;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag != NULL;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag != NULL;
    default:
        return false;
    }
}

/* Notes the value that was placed last under its anchor. A later anchor of the same name takes its place. */
static int take_anchor(struct builder *builder, const char *name, const struct tree_node *node, const struct tree_node *at)
{
    struct tree *tree = builder->tree;
    size_t i = 0;
    while (i < builder->anchor_count && strcmp(builder->anchors[i].name, name) != 0) {
        i++;
    }
    if (i == ANCHORS_MAX) {
        return tree_fail(tree, at, "there are too many anchors; allowed are %d", ANCHORS_MAX);
    }
    if (i == builder->anchor_count) {
        const char *kept = text_keep(tree, name, strlen(name));
        if (kept == NULL) {
            return tree_fail(tree, at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
        }
        builder->anchors[builder->anchor_count++].name = kept;
    }
    builder->anchors[i].node = node;
    return 0;
}

static bool is_open(const struct builder *builder, const struct tree_node *node)
{
    for (unsigned i = 0; i < builder->depth; i++) {
        if (builder->open[i] == node) {
            return true;
        }
    }
    return false;
}

static int take_alias(struct builder *builder, const yaml_event_t *event, const struct tree_node *at)
{
    struct tree *tree = builder->tree;
    const char *name = (const char *)event->data.alias.anchor;
    const struct tree_node *found = NULL;
    for (size_t i = 0; i < builder->anchor_count; i++) {
        found = strcmp(builder->anchors[i].name, name) == 0 ? builder->anchors[i].node : found;
    }
    if (found == NULL) {
        return tree_fail(tree, at, "the alias *%.80s has no anchor before it; write &%.80s at a value above, or quotes around a "
                                   "text that begins with *", name, name);
    }
    if (is_open(builder, found)) {
        return tree_fail(tree, at, "the alias *%.80s stands inside the value that it names; a value cannot contain itself", name);
    }
    bool is_key = builder->depth > 0 && builder->open[builder->depth - 1]->kind == TREE_MAP && builder->key == NULL;
    if (is_key) {
        return tree_fail(tree, at, "an alias is used as a key; allowed are texts (<<: *%.80s merges a map)", name);
    }
    size_t before = tree->node_count;
    struct tree_node *node = copy(tree, found, builder->depth);
    if (node == NULL && tree->node_count == NODES_MAX) {
        return fail_too_many(tree, at);
    }
    if (node == NULL) {
        return tree_fail(tree, at, "lists and maps are nested too deep; allowed are %d levels", TREE_DEPTH_MAX);
    }
    for (size_t i = before; i < tree->node_count; i++) { /* errors name the place of the alias */
        tree->nodes[i].line = at->line;
        tree->nodes[i].override = builder->override;
    }
    place(builder, node);
    return 0;
}

/* Moves what a map lacks from another map, which is then of no use. */
static int merge(struct tree *tree, struct tree_node *map, struct tree_node *from)
{
    if (from->kind != TREE_MAP) {
        return tree_fail(tree, from, "the merge key << has a value that is no map; allowed are a map and a list of maps");
    }
    for (struct tree_node *child = from->first, *next; child != NULL; child = next) {
        next = child->next;
        if (tree_find(map, child->key) == NULL) {
            child->next = NULL;
            node_append(map, child);
        }
    }
    return 0;
}

/* The map is complete: takes its merge key out, and what the key brings in. Keys of the map itself count, then those of the
 * first map in a list. */
static int map_end(struct tree *tree, struct tree_node *map)
{
    struct tree_node *merged = NULL, *before = NULL;
    for (struct tree_node *child = map->first, *last = NULL; child != NULL; last = child, child = child->next) {
        if (child->is_merge) {
            merged = child;
            before = last;
        }
    }
    if (merged == NULL) {
        return 0;
    }
    if (before != NULL) {
        before->next = merged->next;
    } else {
        map->first = merged->next;
    }
    map->last = map->last == merged ? before : map->last;
    if (merged->kind != TREE_LIST) {
        return merge(tree, map, merged);
    }
    int error = 0;
    for (struct tree_node *from = merged->first, *next; from != NULL && error == 0; from = next) {
        next = from->next;
        error = merge(tree, map, from);
    }
    return error;
}

static int take_event(struct builder *builder, const yaml_event_t *event)
{
    struct tree_node at = {.line = (unsigned)event->start_mark.line + 1, .override = builder->override};
    struct tree *tree = builder->tree;
    if (has_tag(event)) {
        (void)tree_fail(tree, &at,
                        "tags (!) are not allowed; write the value itself, in quotes if it begins with such a character");
    }
    if (tree_is_full(tree)) {
        return ERR_MALFORMED;
    }
    size_t before = tree->node_count;
    int error = 0;
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (builder->root != NULL) {
            return tree_fail(tree, &at, "a second document begins here; allowed is one");
        }
        return 0;
    case YAML_ALIAS_EVENT:
        return take_alias(builder, event, &at);
    case YAML_SCALAR_EVENT:
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        error = take_value(builder, event, &at);
        if (error == 0 && anchor_of(event) != NULL && tree->node_count > before) {
            error = take_anchor(builder, anchor_of(event), &tree->nodes[before], &at);
        } else if (error == 0 && anchor_of(event) != NULL) {
            error = tree_fail(tree, &at, "a key has an anchor; allowed are anchors of values");
        }
        return error;
    case YAML_SEQUENCE_END_EVENT:
        builder->depth--;
        return 0;
    case YAML_MAPPING_END_EVENT:
        return map_end(tree, builder->open[--builder->depth]);
    default:
        return 0;
    }
}

static int fail_syntax(struct tree *tree, const yaml_parser_t *yaml, const char *text, const char *override)
{
    struct tree_node at = {.line = (unsigned)yaml->problem_mark.line + 1, .override = override};
    if (yaml->error == YAML_MEMORY_ERROR) {
        (void)tree_fail(tree, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    if (yaml->error == YAML_READER_ERROR) { /* such an error has only an offset */
        at.line = 1;
        for (size_t i = 0; i < yaml->problem_offset; i++) {
            at.line += text[i] == '\n';
        }
        return tree_fail(tree, &at, "this is not UTF-8 text (%s); save the file as UTF-8 without control characters",
                         yaml->problem);
    }
    return tree_fail(tree, &at, "this is not valid YAML: %s%s%s",
                     yaml->problem != NULL ? yaml->problem : "unknown problem", yaml->context != NULL ? " " : "",
                     yaml->context != NULL ? yaml->context : "");
}

/* Builds the tree of one document; an empty document gives NULL. `override` marks its nodes. */
static int build(struct tree *tree, const char *text, size_t bytes, const char *override, struct tree_node **root)
{
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        bytes -= 3;
    }
    yaml_parser_t yaml;
    if (!yaml_parser_initialize(&yaml)) {
        (void)tree_fail(tree, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    yaml_parser_set_encoding(&yaml, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&yaml, (const unsigned char *)text, bytes);
    struct builder builder = {.tree = tree, .override = override};
    int error = 0;
    for (bool is_done = false; !is_done && error == 0;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&yaml, &event)) {
            error = fail_syntax(tree, &yaml, text, override);
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

int tree_read(struct tree *tree, const char *text, size_t text_bytes, struct tree_node **root)
{
    struct tree_node *built = NULL;
    int error = build(tree, text, text_bytes, NULL, &built);
    if (error != 0) {
        return error;
    }
    if (built == NULL || tree_is_null(built)) {
        tree->node_count = 0;
        built = node_new(tree, TREE_MAP, 1, NULL);
    }
    *root = built;
    return 0;
}

/* ---- overrides ---- */

int tree_override(struct tree *tree, struct tree_node *root, const char *override)
{
    struct tree_node at = {.override = override};
    const char *equals = strchr(override, '=');
    if (equals == NULL || equals == override || strlen(override) > CONFIG_TEXT_BYTES_MAX) {
        return tree_fail(tree, &at, "this is no assignment; allowed is key.path=value");
    }
    struct tree_node *value = NULL;
    int error = build(tree, equals + 1, strlen(equals + 1), override, &value);
    if (error != 0) {
        return error;
    }
    if (value == NULL) {
        value = node_new(tree, TREE_SCALAR, 1, override);
        if (value == NULL) {
            return fail_too_many(tree, &at);
        }
        value->is_plain = true;
    }
    struct tree_node *map = root;
    unsigned depth = 0;
    for (const char *p = override;;) {
        size_t bytes = strcspn(p, ".=");
        if (bytes == 0 || bytes > TREE_KEY_BYTES_MAX || ++depth > TREE_DEPTH_MAX) {
            return tree_fail(tree, &at, "the key before '=' is empty, too long or too deep; allowed is key.path=value");
        }
        const char *key = text_keep(tree, p, bytes);
        bool is_last = p[bytes] == '=';
        if (key == NULL) {
            return tree_fail(tree, &at, "the configuration is too large; allowed are %u bytes", CONFIG_TEXT_BYTES_MAX);
        }
        struct tree_node *child = tree_find(map, key);
        if (child == NULL) {
            child = node_new(tree, TREE_MAP, 1, override);
            if (child == NULL) {
                return fail_too_many(tree, &at);
            }
            child->key = key;
            node_append(map, child);
        } else if (!is_last && tree_is_null(child)) {
            child->kind = TREE_MAP;
        } else if (!is_last && child->kind != TREE_MAP) {
            return tree_fail(tree, &at, "'%.*s' is not a map, so nothing can be set in it", (int)(p + bytes - override),
                             override);
        }
        if (is_last) {
            struct tree_node *next = child->next;
            *child = *value;
            child->key = key;
            child->next = next;
            return 0;
        }
        map = child;
        p += bytes + 1;
    }
}

/* ---- questions ---- */

struct tree_node *tree_find(const struct tree_node *map, const char *key)
{
    for (struct tree_node *child = map->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) == 0) {
            return child;
        }
    }
    return NULL;
}

bool tree_is_null(const struct tree_node *node)
{
    return node->kind == TREE_SCALAR && scalar_read(node->text, node->is_plain).type == SCALAR_NULL;
}

/* ---- errors ---- */

/* Writes "FILE:LINE: " or "--set KEY=VALUE: "; returns the bytes. */
static size_t write_place(const struct tree *tree, const struct tree_node *at, char *out, size_t size)
{
    int used;
    if (at != NULL && at->override != NULL) {
        used = snprintf(out, size, "--set %.80s: ", at->override);
    } else if (at != NULL) {
        used = snprintf(out, size, "%.120s:%u: ", tree->file_name, at->line);
    } else {
        used = snprintf(out, size, "%.120s: ", tree->file_name);
    }
    return (size_t)used;
}

/* Takes a problem into the list, behind those of its line and of the lines above. */
static void note(struct tree *tree, const struct tree_problem *problem)
{
    size_t place = tree->problem_count;
    for (size_t i = 0; i < tree->problem_count; i++) {
        if (strcmp(tree->problems[i].sentence, problem->sentence) == 0) {
            return;
        }
    }
    for (; place > 0 && tree->problems[place - 1].line > problem->line; place--) {
        tree->problems[place] = tree->problems[place - 1];
    }
    tree->problems[place] = *problem;
    tree->problem_count++;
}

int tree_fail(struct tree *tree, const struct tree_node *at, const char *format, ...)
{
    struct tree_problem problem = {.line = at == NULL ? 0 : at->override != NULL ? UINT_MAX : at->line};
    if (tree_is_full(tree)) {
        return ERR_MALFORMED;
    }
    size_t used = write_place(tree, at, problem.sentence, sizeof problem.sentence);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(problem.sentence + used, sizeof problem.sentence - used, format, arguments);
    va_end(arguments);
    for (char *p = problem.sentence; *p != '\0'; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            *p = '?';
        }
    }
    note(tree, &problem);
    return ERR_MALFORMED;
}

bool tree_is_full(const struct tree *tree)
{
    return tree->problem_count == CONFIG_PROBLEMS_MAX;
}

void tree_tell(const struct tree *tree, char error[CONFIG_ERROR_BYTES])
{
    size_t used = 0;
    error[0] = '\0';
    for (size_t i = 0; i < tree->problem_count; i++) {
        used += (size_t)snprintf(error + used, CONFIG_ERROR_BYTES - used, "%s%s", i > 0 ? "\n" : "", tree->problems[i].sentence);
    }
    if (tree_is_full(tree)) {
        (void)snprintf(error + used, CONFIG_ERROR_BYTES - used, "\n%.120s: there may be more problems than these %d",
                       tree->file_name, CONFIG_PROBLEMS_MAX);
    }
}

const char *tree_describe(const struct tree_node *node, char out[TREE_QUOTED_BYTES])
{
    if (node->kind != TREE_SCALAR) {
        return node->kind == TREE_LIST ? "a list" : "a map";
    }
    if (node->text[0] == '\0') {
        return "empty";
    }
    size_t bytes = strnlen(node->text, SHOWN_BYTES + 1);
    bool is_cut = bytes > SHOWN_BYTES;
    (void)snprintf(out, TREE_QUOTED_BYTES, "'%.*s%s'", is_cut ? SHOWN_BYTES : (int)bytes, node->text,
                   is_cut ? "..." : "");
    return out;
}

bool tree_lacks(const struct tree_node *map, const char *word)
{
    for (const struct tree_node *child = map != NULL ? map->first : NULL; child != NULL; child = child->next) {
        if (edit_distance(child->key, word) < 3 && !tree_is_null(child)) {
            return false;
        }
    }
    return true;
}

int tree_fail_unknown(struct tree *tree, const struct tree_node *node, const char *path, const char *const *known,
                      size_t count)
{
    char words[TREE_WORDS_BYTES] = "";
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
        return tree_fail(tree, node, "unknown key '%.80s'; did you mean '%s'? (allowed are %s)", path, known[best],
                         words);
    }
    return tree_fail(tree, node, "unknown key '%.80s'; allowed are %s", path, words);
}

int tree_fail_type(struct tree *tree, const struct tree_node *node, const char *path, const char *allowed)
{
    char quoted[TREE_QUOTED_BYTES];
    return tree_fail(tree, node, "%s is %s; allowed is %s", path, tree_describe(node, quoted), allowed);
}

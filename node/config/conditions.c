#include "node/config/conditions.h"

#include <stdio.h>

#include "base/err.h"

/* The conditions of one parameter, while they are read. */
struct reading {
    const struct space_names *names;
    const char *path;
    struct conditions_used *used;
    struct pack_writer body; /* the conditions, without their array's head */
    uint32_t count;
};

/* Packs one value of a condition; of a const one that it does not have is left out. */
static int pack_value(struct reading *reading, const struct search_parameter *other, const struct tree_node *node, uint32_t *count,
                      struct pack_writer *values)
{
    char words[TREE_WORDS_BYTES], quoted[TREE_QUOTED_BYTES];
    bool is_int = other->kind == SEARCH_INT;
    uint64_t choice = 0;
    double number = 0;
    bool is_found = is_int ? space_names_number(other, node, &number) : space_names_choice(reading->names, other, node, reading->path, &choice);
    if (!is_found && other->kind != SEARCH_CONST) {
        return tree_fail(reading->names->tree, node, "%s.when gives %s the value %s, which it never has; allowed are %s", reading->path,
                         other->name, tree_describe(node, quoted), space_names_describe(other, words));
    }
    if (is_found) {
        pack_i64(values, is_int ? (int64_t)number : (int64_t)choice);
        ++*count;
        reading->used->values++;
    }
    return 0;
}

static int pack_condition(struct reading *reading, const struct search_parameter *other, uint32_t index, const struct tree_node *node)
{
    struct tree *tree = reading->names->tree;
    uint8_t bytes[SEARCH_ALLOWED_MAX * 9];
    struct pack_writer values;
    uint32_t count = 0;
    if (other->kind == SEARCH_DOUBLE || other->kind == SEARCH_LOG) {
        return tree_fail(tree, node, "%s.when names %s, whose values are no whole numbers; allowed are hyperparameters of the types const, "
                         "categorical and int", reading->path, other->name);
    }
    if (node->kind == TREE_LIST && node->first == NULL) {
        return tree_fail(tree, node, "%s.when gives %s an empty list; allowed are a value or a list of values", reading->path, other->name);
    }
    pack_writer_init(&values, bytes, sizeof bytes);
    for (const struct tree_node *child = node->kind == TREE_LIST ? node->first : node; child != NULL; child = child->next) {
        if (pack_value(reading, other, child, &count, &values) != 0) {
            return ERR_MALFORMED;
        }
        if (node->kind != TREE_LIST) {
            break;
        }
    }
    if (++reading->used->conditions > SEARCH_CONDITIONS_MAX || reading->used->values > SEARCH_ALLOWED_MAX || values.failed) {
        return tree_fail(tree, node, "%s.when is one condition too many; allowed are %d in all hyperparameters together, with %d values",
                         reading->path, SEARCH_CONDITIONS_MAX, SEARCH_ALLOWED_MAX);
    }
    pack_array(&reading->body, 2);
    pack_u64(&reading->body, index);
    pack_array(&reading->body, count);
    pack_raw(&reading->body, bytes, values.used_bytes);
    reading->count++;
    return 0;
}

/* Nested maps are names with dots. Recursion is bounded by the tree's depth. */
static int read_names(struct reading *reading, const struct tree_node *map, const char *prefix)
{
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        char name[TREE_PATH_BYTES], meant[SEARCH_NAME_BYTES];
        struct search_parameter other;
        uint32_t index;
        bool is_prefix;
        (void)snprintf(name, sizeof name, "%.100s%s%.120s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        int error = 0;
        if (space_names_find(reading->names, name, &other, &index, &is_prefix)) {
            error = pack_condition(reading, &other, index, child);
        } else if (is_prefix && child->kind == TREE_MAP) {
            error = read_names(reading, child, name);
        } else {
            space_names_meant(reading->names, name, meant);
            error = tree_fail(reading->names->tree, child, "%s.when names %.80s, which is no hyperparameter that stands above it%s%s%s",
                              reading->path, name, meant[0] != '\0' ? "; did you mean '" : "; a condition is on earlier ones", meant,
                              meant[0] != '\0' ? "'?" : "");
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

int conditions_read(const struct space_names *names, const struct tree_node *when, const char *path, struct conditions_used *used,
                    struct pack_writer *writer)
{
    uint8_t bytes[CONDITIONS_BYTES_MAX];
    struct reading reading = {.names = names, .path = path, .used = used};
    if (when->kind != TREE_MAP || when->first == NULL) {
        char words[TREE_PATH_BYTES];
        (void)snprintf(words, sizeof words, "%.200s.when", path);
        return tree_fail_type(names->tree, when, words, "a map of names of hyperparameters to values, or to lists of values");
    }
    pack_writer_init(&reading.body, bytes, sizeof bytes);
    if (read_names(&reading, when, "") != 0) {
        return ERR_MALFORMED;
    }
    pack_array(writer, reading.count);
    pack_raw(writer, bytes, reading.body.used_bytes);
    return 0;
}

bool conditions_are_meant(const struct space_names *names, const struct tree_node *map)
{
    bool are_meant = map->kind == TREE_MAP && map->first != NULL;
    for (const struct tree_node *child = are_meant ? map->first : NULL; child != NULL && are_meant; child = child->next) {
        struct search_parameter other;
        uint32_t index;
        bool is_prefix;
        are_meant = space_names_find(names, child->key, &other, &index, &is_prefix) || is_prefix;
    }
    return are_meant;
}

#include "node/config/hyperparameters.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/config/packed.h"
#include "node/config/scalar.h"

#define INTEGER_WORDS "whole numbers from -9007199254740992 to 9007199254740992"

struct reading {
    struct tree *tree;
    const struct config *config;
};

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

/* Reads the number under `key`. If it is not given, the result is `standard`, or an error if `standard` is not a
 * number. */
static int parameter_number(struct reading *reading, const struct tree_node *map, const char *path, const char *key,
                            bool is_whole, const double *standard, double *out)
{
    char quoted[TREE_QUOTED_BYTES];
    const struct tree_node *node = tree_find(map, key);
    if (node == NULL || tree_is_null(node)) {
        if (standard == NULL) {
            return tree_fail(reading->tree, map, "%s.%s is missing; it is required for this type", path, key);
        }
        *out = *standard;
        return 0;
    }
    struct scalar scalar =
        node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain) : (struct scalar){.type = SCALAR_TEXT};
    bool good = scalar.type == SCALAR_INTEGER || scalar.type == SCALAR_NUMBER;
    if (is_whole) {
        good = good && scalar.number >= -0x1p53 && scalar.number <= 0x1p53 &&
               (double)(int64_t)scalar.number == scalar.number;
    } else {
        good = good && scalar.number >= -1e300 && scalar.number <= 1e300;
    }
    if (!good) {
        return tree_fail(reading->tree, node, "%s.%s is %s; allowed are %s", path, key, tree_describe(node, quoted),
                         is_whole ? INTEGER_WORDS : "numbers");
    }
    *out = scalar.number;
    return 0;
}

static int parameter_range(struct reading *reading, const struct tree_node *map, const char *path,
                           struct search_parameter *out)
{
    static const double ten = 10, none = 0;
    double count = 0;
    bool is_int = out->kind == SEARCH_INT;
    if (parameter_number(reading, map, path, "minval", is_int, NULL, &out->minval) != 0 ||
        parameter_number(reading, map, path, "maxval", is_int, NULL, &out->maxval) != 0 ||
        parameter_number(reading, map, path, "count", true, &none, &count) != 0 ||
        (out->kind == SEARCH_LOG && parameter_number(reading, map, path, "base", false, &ten, &out->base) != 0)) {
        return ERR_MALFORMED;
    }
    const struct tree_node *count_node = tree_find(map, "count");
    bool has_count = count_node != NULL && !tree_is_null(count_node);
    if (has_count && (count < 1 || count > SEARCH_TRIALS_MAX)) {
        return tree_fail(reading->tree, count_node, "%s.count is '%.40s'; allowed are 1 ... %d", path, count_node->text,
                         SEARCH_TRIALS_MAX);
    }
    out->count = (uint32_t)count;
    if (out->minval > out->maxval) {
        return tree_fail(reading->tree, tree_find(map, "minval"),
                         "%s.minval is '%.40s' and maxval '%.40s'; minval must not be above maxval", path,
                         tree_find(map, "minval")->text, tree_find(map, "maxval")->text);
    }
    if (reading->config->searcher == SEARCH_GRID && !is_int && !has_count) {
        return tree_fail(reading->tree, map,
                         "%s has no count; searcher.name grid needs it for the types double and log", path);
    }
    return 0;
}

static int parameter_values(struct reading *reading, const struct tree_node *map, const char *path, const char *key,
                            struct pack_writer *values)
{
    char quoted[TREE_QUOTED_BYTES];
    const struct tree_node *node = tree_find(map, key);
    if (node == NULL) {
        return tree_fail(reading->tree, map, "%s.%s is missing; it is required for this type", path, key);
    }
    if (strcmp(key, "vals") == 0 && (node->kind != TREE_LIST || node->first == NULL)) {
        return tree_fail(reading->tree, node, "%s.vals is %s; allowed is a list of one or more values", path,
                         node->kind == TREE_LIST ? "an empty list" : tree_describe(node, quoted));
    }
    return packed_value(reading->tree, node, path, values);
}

/* Reads one {type: ...} map, or a bare value as a constant. */
static int read_parameter(struct reading *reading, const struct tree_node *node, const char *path, const char *name,
                          struct pack_writer *writer)
{
    uint8_t value_bytes[SEARCH_SPACE_BYTES_MAX];
    struct pack_writer values;
    pack_writer_init(&values, value_bytes, sizeof value_bytes);
    struct search_parameter parameter = {.kind = SEARCH_CONST};
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    const struct tree_node *type = node->kind == TREE_MAP ? tree_find(node, "type") : NULL;
    int error;
    if (type == NULL) {
        error = packed_value(reading->tree, node, path, &values);
    } else {
        const struct parameter_type *found = NULL;
        for (size_t i = 0; i < sizeof parameter_types / sizeof parameter_types[0]; i++) {
            if (strcmp(type->text, parameter_types[i].name) == 0) {
                found = &parameter_types[i];
            }
        }
        if (found == NULL) {
            char quoted[TREE_QUOTED_BYTES];
            return tree_fail(reading->tree, type, "%s.type is %s; allowed are const, categorical, int, double, log",
                             path, tree_describe(type, quoted));
        }
        for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
            bool is_known = false;
            for (size_t i = 0; i < found->key_count; i++) {
                is_known = is_known || strcmp(child->key, found->keys[i]) == 0;
            }
            if (!is_known) {
                char child_path[TREE_PATH_BYTES];
                (void)snprintf(child_path, sizeof child_path, "%.120s.%.120s", path, child->key);
                return tree_fail_unknown(reading->tree, child, child_path, found->keys, found->key_count);
            }
        }
        parameter.kind = found->kind;
        error = found->kind == SEARCH_CONST         ? parameter_values(reading, node, path, "val", &values)
                : found->kind == SEARCH_CATEGORICAL ? parameter_values(reading, node, path, "vals", &values)
                                                    : parameter_range(reading, node, path, &parameter);
    }
    if (error != 0) {
        return error;
    }
    parameter.values = value_bytes;
    parameter.values_bytes = (uint32_t)values.used_bytes;
    size_t start = writer->used_bytes;
    search_parameter_pack(writer, &parameter);
    if (values.failed || writer->failed) {
        return tree_fail(reading->tree, node, "the hyperparameters are too large at %s; allowed are %d bytes packed",
                         path, SEARCH_SPACE_BYTES_MAX);
    }
    /* search_parameter_read checks the bounds. After the checks above only extreme numbers of log and lists that are too
     * long can fail here. */
    struct pack_reader reader;
    pack_reader_init(&reader, writer->bytes + start, writer->used_bytes - start);
    if (search_parameter_read(&reader, &parameter) != 0) {
        return tree_fail(reading->tree, node,
                         "%s is out of range; allowed are a base of 1e-6 ... 1e6, values of base^minval and "
                         "base^maxval between 1e-300 and 1e300, and lists of at most 1000 values",
                         path);
    }
    return 0;
}

static int read_parameters(struct reading *reading, const struct tree_node *map, const char *prefix,
                           struct pack_writer *writer, uint32_t *count)
{
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        char name[TREE_PATH_BYTES + TREE_KEY_BYTES_MAX + 2], path[TREE_PATH_BYTES];
        (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        (void)snprintf(path, sizeof path, "hyperparameters.%.200s", name);
        unsigned parts = 1;
        for (const char *p = name; *p != '\0'; p++) {
            parts += *p == '.';
        }
        if (strchr(child->key, '.') != NULL || !scalar_is_clean(child->key, false)) {
            return tree_fail(reading->tree, child,
                             "the key '%.80s' in hyperparameters has a '.' or a control character; write nested "
                             "maps instead of dots",
                             child->key);
        }
        if (strlen(name) >= SEARCH_NAME_BYTES || parts > 8) {
            return tree_fail(reading->tree, child, "the name %s is too long; allowed are %d bytes and 8 levels", path,
                             SEARCH_NAME_BYTES - 1);
        }
        if (tree_is_null(child)) {
            return tree_fail(reading->tree, child,
                             "%s is empty; allowed are a value, {type: ...} or a map (write {type: const, val: null} "
                             "for no value)",
                             path);
        }
        const struct tree_node *type = child->kind == TREE_MAP ? tree_find(child, "type") : NULL;
        int error;
        if (child->kind == TREE_MAP && (type == NULL || type->kind != TREE_SCALAR)) {
            if (child->first == NULL) {
                return tree_fail(reading->tree, child,
                                 "%s is an empty map; allowed are a value, {type: ...} or a map of such", path);
            }
            error = read_parameters(reading, child, name, writer, count);
        } else {
            (*count)++;
            error = *count > SEARCH_PARAMETERS_MAX
                        ? tree_fail(reading->tree, child, "%s is one hyperparameter too many; allowed are %d", path,
                                    SEARCH_PARAMETERS_MAX)
                        : read_parameter(reading, child, path, name, writer);
        }
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

static int check_space(struct reading *reading, const struct tree_node *at)
{
    struct search_space space = config_search_space(reading->config);
    uint32_t trials;
    int error = search_trial_count(&space, &trials);
    if (error == 0) {
        return 0;
    }
    space.kind = SEARCH_SINGLE;
    if (search_trial_count(&space, &trials) == 0) {
        return tree_fail(reading->tree, at, "the grid of hyperparameters has more than %d trials; use smaller counts",
                         SEARCH_TRIALS_MAX);
    }
    return tree_fail(reading->tree, at, "the hyperparameters are too large; allowed are %d bytes packed",
                     SEARCH_SPACE_BYTES_MAX);
}

int hyperparameters_read(struct tree *tree, const struct tree_node *node, struct pack_writer *packed,
                         struct config *config)
{
    struct reading reading = {.tree = tree, .config = config};
    uint8_t bytes[SEARCH_SPACE_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    uint32_t count = 0;
    if (node != NULL && node->kind != TREE_MAP) {
        return tree_fail_type(tree, node, "hyperparameters", "a map of names to values");
    }
    int error = node != NULL ? read_parameters(&reading, node, "", &writer, &count) : 0;
    if (error != 0) {
        return error;
    }
    size_t start = packed->used_bytes;
    pack_array(packed, count);
    pack_raw(packed, bytes, writer.used_bytes);
    error = packed_since(tree, node, packed, start, &config->hyperparameters, &config->hyperparameters_bytes);
    return error != 0 ? error : check_space(&reading, node);
}

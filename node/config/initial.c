#include "node/config/initial.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"

/* The nodes of a map of searcher.initial, by the number of their parameters. */
struct own_values {
    const struct tree_node *nodes[SEARCH_PARAMETERS_MAX];
    uint32_t count;
};

/* Reads names and values; nested maps are names with dots. Recursion is bounded by the tree's depth. */
static int read_names(const struct space_names *names, const struct tree_node *map, const char *path, const char *prefix, struct own_values *out)
{
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        char name[TREE_PATH_BYTES], meant[SEARCH_NAME_BYTES];
        struct search_parameter parameter;
        uint32_t index;
        bool is_prefix;
        (void)snprintf(name, sizeof name, "%.100s%s%.120s", prefix, prefix[0] != '\0' ? "." : "", child->key);
        if (space_names_find(names, name, &parameter, &index, &is_prefix)) {
            if (out->nodes[index] != NULL) {
                return tree_fail(names->tree, child, "%s names %s twice; leave one of them out", path, name);
            }
            out->nodes[index] = child;
            out->count += parameter.kind != SEARCH_CONST;
        } else if (is_prefix && child->kind == TREE_MAP) {
            if (read_names(names, child, path, name, out) != 0) {
                return ERR_MALFORMED;
            }
        } else {
            space_names_meant(names, name, meant);
            return tree_fail(names->tree, child, "%s names %.80s, which is no hyperparameter; %s%s%s", path, name,
                             meant[0] != '\0' ? "did you mean '" : "allowed are the names of hyperparameters, nested ones with dots", meant,
                             meant[0] != '\0' ? "'?" : "");
        }
    }
    return 0;
}

/* Packs [number, value]; of a const nothing, but its value has to be named. */
static int pack_own_value(const struct space_names *names, const struct search_parameter *parameter, uint32_t index, const struct tree_node *node,
                          const char *path, struct pack_writer *writer)
{
    char words[TREE_WORDS_BYTES], quoted[TREE_QUOTED_BYTES];
    bool has_choices = parameter->kind == SEARCH_CONST || parameter->kind == SEARCH_CATEGORICAL;
    uint64_t choice = 0;
    double number = 0;
    bool is_good = has_choices ? space_names_choice(names, parameter, node, path, &choice) : space_names_number(parameter, node, &number);
    if (!is_good) {
        return tree_fail(names->tree, node, "%s gives %s the value %s; allowed are %s, as in hyperparameters", path, parameter->name,
                         tree_describe(node, quoted), space_names_describe(parameter, words));
    }
    if (parameter->kind == SEARCH_CONST) {
        return 0;
    }
    pack_array(writer, 2);
    pack_u64(writer, index);
    if (has_choices) {
        pack_u64(writer, choice);
    } else if (parameter->kind == SEARCH_INT) {
        pack_i64(writer, (int64_t)number);
    } else {
        pack_double(writer, number);
    }
    return 0;
}

static int read_own_values(const struct space_names *names, const struct tree_node *map, const char *path, struct pack_writer *writer)
{
    struct own_values values = {.count = 0};
    struct search_parameter parameter;
    struct pack_reader reader;
    if (read_names(names, map, path, "", &values) != 0) {
        return ERR_MALFORMED;
    }
    int error = 0;
    pack_array(writer, values.count);
    pack_reader_init(&reader, names->parameters->bytes, names->parameters->used_bytes);
    for (uint32_t i = 0; error == 0 && !pack_at_end(&reader) && search_parameter_read(&reader, &parameter) == 0; i++) {
        if (values.nodes[i] != NULL) {
            error = pack_own_value(names, &parameter, i, values.nodes[i], path, writer);
        }
    }
    return error;
}

int initial_read(const struct space_names *names, const struct tree_node *list, uint32_t max_trials, struct pack_writer *writer)
{
    uint32_t count = 0, at = 0;
    if (list->kind != TREE_LIST) {
        return tree_fail_type(names->tree, list, "searcher.initial", "a list of maps of names to values");
    }
    for (const struct tree_node *child = list->first; child != NULL; child = child->next) {
        count++;
    }
    if (count > max_trials) {
        return tree_fail(names->tree, list, "searcher.initial has values for %u trials, and searcher.max_trials is %u; leave some of them out",
                         count, max_trials);
    }
    if (count > SEARCH_INITIAL_MAX) {
        return tree_fail(names->tree, list, "searcher.initial has values for %u trials; allowed are %d", count, SEARCH_INITIAL_MAX);
    }
    pack_array(writer, count);
    for (const struct tree_node *child = list->first; child != NULL; child = child->next) {
        char path[TREE_PATH_BYTES];
        (void)snprintf(path, sizeof path, "searcher.initial[%u]", at++);
        if (child->kind != TREE_MAP) {
            return tree_fail_type(names->tree, child, path, "a map of names to values");
        }
        if (read_own_values(names, child, path, writer) != 0) {
            return ERR_MALFORMED;
        }
    }
    if (writer->failed) {
        return tree_fail(names->tree, list, "searcher.initial is too large; allowed are %u bytes packed", SEARCH_SPACE_BYTES_MAX);
    }
    return 0;
}

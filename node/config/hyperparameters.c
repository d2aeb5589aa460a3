#include "node/config/hyperparameters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/edit_distance.h"
#include "base/err.h"
#include "base/number.h"
#include "node/config/conditions.h"
#include "node/config/initial.h"
#include "node/config/packed.h"
#include "node/config/scalar.h"

#define INTEGER_WORDS "whole numbers from -9007199254740992 to 9007199254740992"

struct reading {
    struct tree *tree;
    const struct config *config;
    uint32_t searched;    /* parameters that differ between trials */
    uint8_t *value_bytes; /* SEARCH_SPACE_BYTES_MAX: room for the values of one parameter */
    struct space_names names; /* the parameters that have been read */
    struct conditions_used used;
};

/* A type and its keys. Only the first `telling_count` keys tell that a map is a search: the others came later, and files from
 * before have maps of the program's own with such words, as in {type: int, step: 5}. */
struct parameter_type {
    const char *name;
    enum search_parameter_kind kind;
    const char *keys[7];
    size_t telling_count, key_count;
};

static const struct parameter_type parameter_types[] = {
    {"const", SEARCH_CONST, {"type", "val", "when"}, 2, 3},
    {"categorical", SEARCH_CATEGORICAL, {"type", "vals", "when"}, 2, 3},
    {"int", SEARCH_INT, {"type", "minval", "maxval", "count", "log", "step", "when"}, 4, 7},
    {"double", SEARCH_DOUBLE, {"type", "minval", "maxval", "count", "step", "when"}, 4, 6},
    {"log", SEARCH_LOG, {"type", "base", "minval", "maxval", "count", "when"}, 5, 6},
};

#define TYPE_WORDS "const, categorical, int, double, log"

static const struct parameter_type *type_find(const char *name)
{
    for (size_t i = 0; i < sizeof parameter_types / sizeof parameter_types[0]; i++) {
        if (strcmp(name, parameter_types[i].name) == 0) {
            return &parameter_types[i];
        }
    }
    return NULL;
}

/* ---- which maps describe a search, and which are values of the program's own ---- */

/* Words that other systems have for bounds and choices: beside `type` they speak for a search. */
static bool is_search_word(const char *key)
{
    static const char *const words[] = {"val",  "vals",  "minval", "maxval", "count",   "base",  "min",     "max",
                                        "low",  "high",  "lower",  "upper",  "minimum", "maximum", "choices", "values",
                                        "value", "options"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(key, words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* The word of the search language that `name` is probably meant to be; NULL: none. Short words allow one slip only, so that
 * names of classes stay what they are. */
static const struct parameter_type *type_meant(const char *name)
{
    for (size_t i = 0; i < sizeof parameter_types / sizeof parameter_types[0]; i++) {
        size_t slips = strlen(parameter_types[i].name) < 5 ? 1 : 2;
        if (edit_distance(name, parameter_types[i].name) <= slips) {
            return &parameter_types[i];
        }
    }
    return NULL;
}

static bool has_key(const struct parameter_type *type, const char *key)
{
    for (size_t i = 0; i < type->key_count; i++) {
        if (strcmp(key, type->keys[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* True if the key is probably meant to be one of those that tell of a search. */
static bool is_near_key(const struct parameter_type *type, const char *key)
{
    for (size_t i = 0; i < type->telling_count; i++) {
        if (edit_distance(key, type->keys[i]) <= (strlen(type->keys[i]) < 5 ? 1u : 2u)) {
            return true;
        }
    }
    return false;
}

#define WAY_OUT "a map of the program's own is written {type: const, val: {...}}"

/* Decides whether a map with `type` is a search (*out is its type) or a value of the program's own (*out is NULL): what
 * cannot be a search is a value. ERR_MALFORMED, with a sentence, for a map that looks like a slip. */
static int classify(struct reading *reading, const struct tree_node *map, const struct tree_node *type, const char *path,
                    const struct parameter_type **out)
{
    const struct parameter_type *found = type_find(type->text), *meant = found == NULL ? type_meant(type->text) : NULL;
    uint32_t others = 0, search_words = 0;
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        others += child != type;
        search_words += child != type && (is_search_word(child->key) || (found != NULL && is_near_key(found, child->key)));
    }
    if (found == NULL && meant != NULL) {
        return tree_fail(reading->tree, type, "%s.type is '%.40s'; did you mean '%s'? (allowed are " TYPE_WORDS "; " WAY_OUT ")",
                         path, type->text, meant->name);
    }
    if (found == NULL && search_words > 0) {
        return tree_fail(reading->tree, type, "%s.type is '%.40s'; allowed are " TYPE_WORDS " (" WAY_OUT ")", path, type->text);
    }
    *out = found != NULL && (others == 0 || search_words > 0) ? found : NULL;
    return 0;
}

/* Sets *out if there is a search anywhere in the value. Lists are values as they are. Recursion is bounded by the tree's
 * depth. */
static int look_for_search(struct reading *reading, const struct tree_node *node, const char *path, bool *out)
{
    const struct tree_node *type = node->kind == TREE_MAP ? tree_find(node, "type") : NULL;
    const struct parameter_type *found = NULL;
    int result = 0;
    if (type != NULL && type->kind == TREE_SCALAR) {
        int error = classify(reading, node, type, path, &found);
        if (error != 0 || found != NULL) {
            *out = true;
            return error;
        }
    }
    for (const struct tree_node *child = node->kind == TREE_MAP ? node->first : NULL; child != NULL; child = child->next) {
        char child_path[TREE_PATH_BYTES];
        (void)snprintf(child_path, sizeof child_path, "%.120s.%.120s", path, child->key);
        result = look_for_search(reading, child, child_path, out) != 0 ? ERR_MALFORMED : result;
    }
    return result;
}

/* ---- reading ---- */

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

/* Reads `log` of an int. The bounds are good. */
static int parameter_log(struct reading *reading, const struct tree_node *map, const char *path, struct search_parameter *out)
{
    char quoted[TREE_QUOTED_BYTES];
    const struct tree_node *node = tree_find(map, "log");
    if (node == NULL || tree_is_null(node)) {
        return 0;
    }
    struct scalar scalar = node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain) : (struct scalar){.type = SCALAR_TEXT};
    if (scalar.type != SCALAR_TRUTH) {
        return tree_fail(reading->tree, node, "%s.log is %s; allowed are true, false", path, tree_describe(node, quoted));
    }
    if (scalar.truth && out->minval < 1) {
        return tree_fail(reading->tree, tree_find(map, "minval"), "%s.minval is '%.40s'; with log: true it must be at least 1", path,
                         tree_find(map, "minval")->text);
    }
    out->is_log = scalar.truth;
    return 0;
}

/* Reads `step` of an int or a double. The bounds are good. */
static int parameter_step(struct reading *reading, const struct tree_node *map, const char *path, struct search_parameter *out)
{
    static const double none = 0;
    const struct tree_node *node = tree_find(map, "step"), *maxval = tree_find(map, "maxval");
    if (parameter_number(reading, map, path, "step", out->kind == SEARCH_INT, &none, &out->step) != 0) {
        return ERR_MALFORMED;
    }
    if (node == NULL || tree_is_null(node)) {
        return 0;
    }
    if (out->step <= 0) {
        return tree_fail(reading->tree, node, "%s.step is '%.40s'; allowed are %s", path, node->text,
                         out->kind == SEARCH_INT ? "whole numbers from 1" : "numbers above 0");
    }
    if (out->is_log) {
        return tree_fail(reading->tree, node, "%s has both log: true and step; remove one of them", path);
    }
    double steps = (out->maxval - out->minval) / out->step;
    if (steps > 0x1p53) {
        return tree_fail(reading->tree, node, "%s.step is '%.40s', too small for minval '%.40s' and maxval '%.40s'; allowed are at "
                         "most 2^53 steps", path, node->text, tree_find(map, "minval")->text, maxval->text);
    }
    if (!search_step_fits(out)) {
        char below[32];
        (void)number_format(below, number_round9(out->minval + (double)(int64_t)steps * out->step));
        return tree_fail(reading->tree, maxval, "%s.maxval is '%.40s', which no whole number of steps of '%.40s' above minval reaches; "
                         "the last one below it is %s", path, maxval->text, node->text, below);
    }
    return 0;
}

static int parameter_range(struct reading *reading, const struct tree_node *map, const char *path,
                           struct search_parameter *out)
{
    static const double ten = 10, none = 0;
    double count = 0;
    bool is_int = out->kind == SEARCH_INT;
    int minval = parameter_number(reading, map, path, "minval", is_int, NULL, &out->minval),
        maxval = parameter_number(reading, map, path, "maxval", is_int, NULL, &out->maxval),
        number = parameter_number(reading, map, path, "count", true, &none, &count),
        base = out->kind == SEARCH_LOG ? parameter_number(reading, map, path, "base", false, &ten, &out->base) : 0;
    if (minval != 0 || maxval != 0 || number != 0 || base != 0) {
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
    if ((is_int && parameter_log(reading, map, path, out) != 0) ||
        (out->kind != SEARCH_LOG && parameter_step(reading, map, path, out) != 0)) {
        return ERR_MALFORMED;
    }
    if (reading->config->searcher == SEARCH_GRID && !is_int && !has_count && out->step == 0) {
        return tree_fail(reading->tree, map,
                         "%s has no count; searcher.name grid needs it for the types double (or a step) and log", path);
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

/* All keys of a search that its type does not have. */
static int check_keys(struct reading *reading, const struct tree_node *node, const struct parameter_type *found, const char *path)
{
    int error = 0;
    for (const struct tree_node *child = node->first; child != NULL && !tree_is_full(reading->tree); child = child->next) {
        if (!has_key(found, child->key)) {
            char child_path[TREE_PATH_BYTES];
            (void)snprintf(child_path, sizeof child_path, "%.120s.%.120s", path, child->key);
            error = tree_fail_unknown(reading->tree, child, child_path, found->keys, found->key_count);
        }
    }
    return error;
}

/* Reads a search of the type `found`, or any value as a constant if `found` is NULL. */
static int read_parameter(struct reading *reading, const struct tree_node *node, const struct parameter_type *found,
                          const char *path, const char *name, struct pack_writer *writer)
{
    struct pack_writer values;
    pack_writer_init(&values, reading->value_bytes, SEARCH_SPACE_BYTES_MAX);
    struct search_parameter parameter = {.kind = SEARCH_CONST};
    uint8_t when_bytes[CONDITIONS_BYTES_MAX];
    struct pack_writer when;
    (void)bytes_copy_text(parameter.name, sizeof parameter.name, name);
    int error;
    if (found != NULL && check_keys(reading, node, found, path) != 0) {
        return ERR_MALFORMED;
    }
    if (found == NULL) {
        error = packed_value(reading->tree, node, path, &values);
    } else {
        parameter.kind = found->kind;
        error = found->kind == SEARCH_CONST         ? parameter_values(reading, node, path, "val", &values)
                : found->kind == SEARCH_CATEGORICAL ? parameter_values(reading, node, path, "vals", &values)
                                                    : parameter_range(reading, node, path, &parameter);
    }
    const struct tree_node *conditions = found != NULL ? tree_find(node, "when") : NULL;
    pack_writer_init(&when, when_bytes, sizeof when_bytes);
    if (error == 0 && conditions != NULL && !tree_is_null(conditions)) {
        error = conditions_read(&reading->names, conditions, path, &reading->used, &when);
    }
    if (error != 0) {
        return error;
    }
    parameter.when = when.bytes;
    parameter.when_bytes = (uint32_t)when.used_bytes;
    reading->searched += parameter.kind != SEARCH_CONST;
    parameter.values = reading->value_bytes;
    parameter.values_bytes = (uint32_t)values.used_bytes;
    size_t start = writer->used_bytes;
    search_parameter_pack(writer, &parameter);
    if (values.failed || writer->failed) {
        (void)tree_fail(reading->tree, node, "the hyperparameters are too large at %s; allowed are %u bytes packed",
                        path, SEARCH_SPACE_BYTES_MAX);
        return ERR_FULL;
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
                           struct pack_writer *writer, uint32_t *count);

/* Reads what stands under one key: a parameter, or a map of parameters. `prefix` is the name of the maps around it. */
static int read_child(struct reading *reading, const struct tree_node *child, const char *prefix, struct pack_writer *writer,
                      uint32_t *count)
{
    char name[TREE_PATH_BYTES + TREE_KEY_BYTES_MAX + 2], path[TREE_PATH_BYTES];
    (void)snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", child->key);
    (void)snprintf(path, sizeof path, "hyperparameters.%.200s", name);
    unsigned parts = 1;
    for (const char *p = name; *p != '\0'; p++) {
        parts += *p == '.';
    }
    bool has_search = false;
    if (look_for_search(reading, child, path, &has_search) != 0) {
        return ERR_MALFORMED;
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
    if (prefix[0] != '\0' && strcmp(child->key, "when") == 0 && conditions_are_meant(&reading->names, child)) {
        return tree_fail(reading->tree, child, "%s stands beside hyperparameters, where it would be one of them; write it inside of each "
                         "one that it is for, as in {type: ..., when: {...}}", path);
    }
    const struct parameter_type *found = NULL;
    const struct tree_node *type = has_search ? tree_find(child, "type") : NULL;
    int error = type != NULL && type->kind == TREE_SCALAR ? classify(reading, child, type, path, &found) : 0;
    if (error != 0) {
        return error;
    }
    if (has_search && found == NULL) {
        return read_parameters(reading, child, name, writer, count);
    }
    if (++*count > SEARCH_PARAMETERS_MAX) {
        (void)tree_fail(reading->tree, child, "%s is one hyperparameter too many; allowed are %d", path, SEARCH_PARAMETERS_MAX);
        return ERR_FULL;
    }
    return read_parameter(reading, child, found, path, name, writer);
}

/* 0, ERR_MALFORMED, or ERR_FULL: no more are read. */
static int read_parameters(struct reading *reading, const struct tree_node *map, const char *prefix,
                           struct pack_writer *writer, uint32_t *count)
{
    int error = 0;
    for (const struct tree_node *child = map->first; child != NULL && error != ERR_FULL && !tree_is_full(reading->tree);
         child = child->next) {
        int result = read_child(reading, child, prefix, writer, count);
        error = result != 0 ? result : error;
    }
    return error;
}

/* ---- the searcher's part ---- */

static int read_sampler(struct reading *reading, const struct tree_node *node, enum search_sampler *out)
{
    static const char *const words[] = {"random", "sobol", "tpe"};
    char quoted[TREE_QUOTED_BYTES];
    size_t i = 0;
    while (i < 3 && (node->kind != TREE_SCALAR || strcmp(node->text, words[i]) != 0)) {
        i++;
    }
    if (i == 3) {
        return tree_fail(reading->tree, node, "searcher.sampler is %s; allowed are random, sobol, tpe", tree_describe(node, quoted));
    }
    *out = (enum search_sampler)i;
    if (*out == SEARCH_SAMPLER_TPE && reading->config->searcher == SEARCH_RANDOM) { /* others have no sampler at all, as searcher.c says */
        return tree_fail(reading->tree, node, "searcher.sampler is tpe, which is for asha and adaptive_asha; use searcher.name tpe, or the "
                         "sampler random");
    }
    if (*out == SEARCH_SAMPLER_SOBOL && reading->searched > SEARCH_SOBOL_MAX) {
        return tree_fail(reading->tree, node, "searcher.sampler is sobol, and %u hyperparameters are searched; allowed are %d with it, or "
                         "the sampler random", reading->searched, SEARCH_SOBOL_MAX);
    }
    return 0;
}

static int read_initial(struct reading *reading, const struct tree_node *list, struct pack_writer *writer, struct search_head *out)
{
    if (initial_read(&reading->names, list, reading->config->max_trials, writer) != 0) {
        return ERR_MALFORMED;
    }
    out->initial = writer->bytes;
    out->initial_bytes = list->first != NULL ? (uint32_t)writer->used_bytes : 0;
    return 0;
}

static int check_space(struct reading *reading, const struct tree_node *at, uint32_t parameters)
{
    struct search_space space = config_search_space(reading->config);
    uint32_t trials = 0;
    if (config_is_drawn(reading->config) && parameters > CONFIG_DRAWN_PARAMETERS_MAX) {
        return tree_fail(reading->tree, at, "there are %u hyperparameters; allowed are %d with a searcher that draws from results", parameters,
                         CONFIG_DRAWN_PARAMETERS_MAX);
    }
    if (config_is_drawn(reading->config) && parameters == 0) {
        return tree_fail(reading->tree, at, "there are no hyperparameters, and the searcher draws nothing else; add some, or use the searcher "
                         "single");
    }
    int error = search_trial_count(&space, &trials);
    if (error == 0) {
        return 0;
    }
    space.kind = SEARCH_SINGLE;
    if (search_trial_count(&space, &trials) == 0) {
        return tree_fail(reading->tree, at, "the grid of hyperparameters has more than %d trials; use smaller counts",
                         SEARCH_TRIALS_MAX);
    }
    return tree_fail(reading->tree, at, "the hyperparameters are too large; allowed are %u bytes packed",
                     SEARCH_SPACE_BYTES_MAX);
}

/* Refuses own values that a trial does not have, since its other values leave their parameters inactive. */
static int check_initial(struct reading *reading, const struct tree_node *initial)
{
    struct search_space space = config_search_space(reading->config);
    struct search_parameter parameter;
    uint32_t index = 0;
    for (const struct tree_node *child = initial != NULL ? initial->first : NULL; child != NULL; child = child->next) {
        if (search_initial_is_inactive(&space, reading->config->seed, index, &parameter)) {
            return tree_fail(reading->tree, child, "searcher.initial[%u] gives %s a value, and that trial does not meet its conditions; leave "
                             "it out, or give the values that its `when` names", index, parameter.name);
        }
        index++;
    }
    return 0;
}

int hyperparameters_read(struct tree *tree, const struct tree_node *node, const struct tree_node *sampler,
                         const struct tree_node *initial, struct pack_writer *packed, struct config *config)
{
    uint8_t *room = malloc(4 * (size_t)SEARCH_SPACE_BYTES_MAX);
    struct pack_writer writer, own;
    struct reading reading = {.tree = tree, .config = config, .value_bytes = room};
    uint32_t count = 0;
    if (room == NULL) {
        (void)tree_fail(tree, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    if (node != NULL && node->kind != TREE_MAP) {
        free(room);
        return tree_fail_type(tree, node, "hyperparameters", "a map of names to values");
    }
    pack_writer_init(&writer, room + SEARCH_SPACE_BYTES_MAX, SEARCH_SPACE_BYTES_MAX);
    pack_writer_init(&own, room + 2 * (size_t)SEARCH_SPACE_BYTES_MAX, SEARCH_SPACE_BYTES_MAX);
    reading.names = (struct space_names){.tree = tree, .parameters = &writer, .room = room + 3 * (size_t)SEARCH_SPACE_BYTES_MAX};
    struct search_head head = {.sampler = SEARCH_SAMPLER_RANDOM};
    int error = node != NULL ? read_parameters(&reading, node, "", &writer, &count) : 0;
    bool draws = search_draws(config->searcher); /* else their keys are refused, and there is nothing to place */
    int sampler_error = draws && sampler != NULL ? read_sampler(&reading, sampler, &head.sampler) : 0;
    int initial_error = draws && initial != NULL && error == 0 ? read_initial(&reading, initial, &own, &head) : 0;
    error = error != 0 ? error : sampler_error != 0 ? sampler_error : initial_error;
    if (error == 0) {
        size_t start = packed->used_bytes;
        search_head_pack(packed, &head, count);
        pack_raw(packed, writer.bytes, writer.used_bytes);
        error = packed_since(tree, node, packed, start, &config->hyperparameters, &config->hyperparameters_bytes);
    }
    free(room);
    return error != 0 || check_space(&reading, node, count) != 0 ? ERR_MALFORMED : check_initial(&reading, initial);
}

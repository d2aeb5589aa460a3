#include "node/config/config_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/config/fields.h"
#include "node/config/hparams.h"
#include "node/config/hyperparameters.h"
#include "node/config/options.h"
#include "node/config/scalar.h"

/* Three steps: the text becomes a small tree (tree.h); --set texts replace branches of the tree; one walk checks the
 * tree against the table of options (options.h) and fills in the struct. */

struct parse {
    struct tree tree;
    struct config *config;
    struct pack_writer packed;                     /* writes into the caller's scratch memory */
    const struct tree_node *given[CONFIG_OPTIONS_MAX]; /* for each option its node, or NULL */
};

void config_describe(void (*row)(void *context, const struct config_option_text *text), void *context)
{
    static const char *const types[] = {"text", "text", "text", "number", "true or false", "word"};
    _Static_assert(sizeof types / sizeof types[0] == OPTION_OTHER, "one for each kind but the last");
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        char allowed[TREE_WORDS_BYTES], standard[TREE_WORDS_BYTES];
        struct config_option_text text = {
            .key = option->key,
            .type = option->type != NULL ? option->type : types[option->kind],
            .allowed = options_allowed(option, allowed, sizeof allowed),
            .standard = options_standard(option, standard, sizeof standard),
            .help = option->help,
        };
        row(context, &text);
    }
}

/* ---- the walk ---- */

static const struct tree_node *given(const struct parse *parse, const char *key)
{
    return parse->given[config_option_find(key) - config_options];
}

/* Reads the options of a section. `section` is "" or ends in a dot; sections are one level deep, which bounds the
 * recursion. */
static int walk_section(struct parse *parse, const struct tree_node *map, const char *section)
{
    struct tree *tree = &parse->tree;
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        char path[TREE_PATH_BYTES];
        size_t path_bytes = (size_t)snprintf(path, sizeof path - 2, "%s%s", section, child->key);
        if (section[0] == '\0' && strncmp(child->key, "x-", 2) == 0) {
            continue; /* a place for anchors */
        }
        bool is_done = tree_is_null(child); /* not given; its key must be known nevertheless */
        bool is_known = options_refusal(path) != NULL, is_section = false;
        const char *refusal = options_refusal(path);
        if (refusal != NULL && !is_done) {
            return tree_fail(tree, child, "%s cannot be used: %s", path, refusal);
        }
        for (size_t i = 0; i < config_option_count; i++) {
            const struct config_option *option = &config_options[i];
            is_section = is_section || (strncmp(option->key, path, path_bytes) == 0 && option->key[path_bytes] == '.');
            if (strcmp(option->key, path) != 0) {
                continue;
            }
            is_known = true;
            char words[TREE_WORDS_BYTES], quoted[TREE_QUOTED_BYTES];
            if (!is_done) {
                parse->given[i] = child;
            }
            if (!is_done && option->allowed == NULL && !options_store(option, child, parse->config)) {
                return tree_fail(tree, child, "%s is %s; allowed are %s", path, tree_describe(child, quoted),
                                 options_allowed(option, words, sizeof words));
            }
        }
        if (!is_known && !is_section && strcmp(path, "slots_per_trial") == 0) {
            return tree_fail(tree, child, "unknown key 'slots_per_trial'; did you mean 'resources.slots_per_trial'?");
        }
        if (!is_known && !is_section) {
            char words[CONFIG_OPTIONS_MAX][TREE_KEY_BYTES_MAX];
            const char *list[CONFIG_OPTIONS_MAX];
            size_t count = options_section_keys(section, words);
            for (size_t i = 0; i < count; i++) {
                list[i] = words[i];
            }
            return tree_fail_unknown(tree, child, path, list, count);
        }
        if (is_section && !is_done) {
            if (child->kind != TREE_MAP) {
                return tree_fail_type(tree, child, path, "a map");
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

/* Derives the name of an experiment from its file: "dir/exp.yaml" gives "exp". */
static void name_from_file(const char *file_name, char *out, size_t size)
{
    const char *slash = strrchr(file_name, '/');
    const char *base = slash != NULL ? slash + 1 : file_name;
    const char *dot = strrchr(base, '.');
    (void)bytes_copy_text_n(out, size, base, dot != NULL && dot != base ? (size_t)(dot - base) : strlen(base));
    if (out[0] == '\0' || !scalar_is_clean(out, false)) {
        (void)bytes_copy_text(out, size, "experiment");
    }
}

/* Checks options that depend on each other, and sets defaults that depend on another option. */
static int config_finish(struct parse *parse, const struct tree_node *root)
{
    struct tree *tree = &parse->tree;
    struct config *config = parse->config;
    const struct tree_node *max_trials = given(parse, "searcher.max_trials");
    const struct tree_node *searcher = tree_find(root, "searcher");
    if (given(parse, "entrypoint") == NULL) {
        return tree_fail(
            tree, root,
            "entrypoint is missing; it is the command that runs a trial, such as entrypoint: python3 train.py");
    }
    if (config->searcher == SEARCH_RANDOM && max_trials == NULL) {
        return tree_fail(tree, searcher,
                         "searcher.max_trials is missing; searcher.name random needs it, allowed are 1 ... %d",
                         SEARCH_TRIALS_MAX);
    }
    if (config->searcher != SEARCH_RANDOM && max_trials != NULL) {
        return tree_fail(tree, max_trials,
                         "searcher.max_trials has no effect with searcher.name %s; remove it or use random",
                         config_option_find("searcher.name")->words[config->searcher]);
    }
    if (given(parse, "searcher.metric") != NULL && given(parse, "searcher.smaller_is_better") == NULL) {
        config->smaller_is_better = true; /* like Determined */
    }
    const struct tree_node *min_slots = given(parse, "resources.min_slots"),
                           *max_slots = given(parse, "resources.max_slots");
    if (min_slots == NULL) {
        config->min_slots = config->slots_per_trial;
    }
    if (max_slots == NULL) {
        config->max_slots = config->slots_per_trial;
    }
    if (config->min_slots > config->slots_per_trial) {
        return tree_fail(tree, min_slots,
                         "resources.min_slots is %u and slots_per_trial %u; allowed are 1 ... slots_per_trial",
                         config->min_slots, config->slots_per_trial);
    }
    if (config->max_slots < config->slots_per_trial) {
        return tree_fail(tree, max_slots,
                         "resources.max_slots is %u and slots_per_trial %u; allowed are slots_per_trial ... %d",
                         config->max_slots, config->slots_per_trial, CONFIG_SLOTS_MAX);
    }
    if (config->keep_ranks == CONFIG_KEEP_ALL && config->max_slots > CONFIG_KEEP_ALL_SLOTS_MAX) {
        return tree_fail(tree, given(parse, "keep_ranks"),
                         "keep_ranks is all and a trial may have %u slots; allowed are %d with it, or keep_ranks: first",
                         config->max_slots, CONFIG_KEEP_ALL_SLOTS_MAX);
    }
    return 0;
}

/* Checks the variables and the placeholders of hyperparameters. */
static int check_hparams(struct parse *parse)
{
    const struct search_space space = config_search_space(parse->config);
    char error[HPARAMS_ERROR_BYTES];
    int result = hparams_check_variables(&space, error);
    if (result != 0) {
        return result == ERR_MEMORY ? result : tree_fail(&parse->tree, given(parse, "hyperparameters"), "%s", error);
    }
    result = hparams_check_entrypoint(config_entrypoint(parse->config), &space, error);
    if (result != 0) {
        return result == ERR_MEMORY ? result : tree_fail(&parse->tree, given(parse, "entrypoint"), "%s", error);
    }
    return 0;
}

/* ---- the whole ---- */

static int read_all(struct parse *parse, const char *text, size_t text_bytes, const char *const *overrides,
                    size_t override_count)
{
    struct tree *tree = &parse->tree;
    struct tree_node *root = NULL;
    int error = tree_read(tree, text, text_bytes, &root);
    if (error != 0) {
        return error;
    }
    if (root->kind != TREE_MAP) {
        return tree_fail(tree, root,
                         "the file is not a map of options; allowed are lines such as entrypoint: python3 train.py");
    }
    for (size_t i = 0; i < override_count; i++) {
        error = tree_override(tree, root, overrides[i]);
        if (error != 0) {
            return error;
        }
    }
    error = walk_section(parse, root, "");
    if (error != 0) {
        return error;
    }
    error = config_finish(parse, root);
    if (error == 0) {
        error = fields_read_entrypoint(tree, given(parse, "entrypoint"), &parse->packed, parse->config);
    }
    if (error == 0) {
        error = fields_read_labels(tree, given(parse, "labels"), &parse->packed, parse->config);
    }
    if (error == 0) {
        error = fields_read_keep(tree, given(parse, "keep"), &parse->packed, parse->config);
    }
    if (error == 0) {
        error = fields_read_environment(tree, given(parse, "environment.environment_variables"),
                                        given(parse, "environment.variables"), &parse->packed, parse->config);
    }
    if (error == 0) {
        error = hyperparameters_read(tree, given(parse, "hyperparameters"), &parse->packed, parse->config);
    }
    return error == 0 ? check_hparams(parse) : error;
}

/* A last check: the result can be packed, and readers accept it. */
static int check_packed(struct parse *parse)
{
    const struct config *config = parse->config;
    bool is_plain = config_is_plain(config);
    uint8_t *bytes = malloc(CONFIG_WHOLE_BYTES_MAX);
    struct config lean, copy;
    struct pack_writer writer;
    struct pack_reader reader;
    if (bytes == NULL) {
        (void)tree_fail(&parse->tree, NULL, "no memory is left");
        return ERR_MEMORY;
    }
    pack_writer_init(&writer, bytes, CONFIG_WHOLE_BYTES_MAX);
    config_pack(&writer, config);
    pack_reader_init(&reader, bytes, writer.used_bytes);
    bool is_good = !writer.failed && config_unpack_form(&reader, is_plain ? CONFIG_PLAIN : CONFIG_WHOLE, &copy) == 0;
    if (is_good && !is_plain) {
        config_make_lean(config, &lean);
        pack_writer_init(&writer, bytes, CONFIG_PACKED_BYTES_MAX);
        config_pack(&writer, &lean);
        pack_reader_init(&reader, bytes, writer.used_bytes);
        is_good = !writer.failed && config_unpack_form(&reader, CONFIG_LEAN, &copy) == 0;
    }
    free(bytes);
    return is_good ? 0
                   : tree_fail(&parse->tree, NULL,
                               "the configuration is too large; allowed are %u bytes packed (put data into files of the "
                               "context directory)",
                               CONFIG_WHOLE_BYTES_MAX);
}

int config_parse_yaml(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, uint8_t *scratch, size_t scratch_bytes, struct config *out,
                      char error[CONFIG_ERROR_BYTES])
{
    struct config config;
    config_options_set_standard(&config);
    name_from_file(file_name, config.name, sizeof config.name);
    struct parse parse = {.config = &config};
    pack_writer_init(&parse.packed, scratch, scratch_bytes);
    int result = tree_open(&parse.tree, file_name, text_bytes, overrides, override_count, error);
    if (result != 0) {
        return result;
    }
    result = read_all(&parse, text, text_bytes, overrides, override_count);
    if (result == 0) {
        result = check_packed(&parse);
    }
    tree_close(&parse.tree);
    if (result == 0) {
        *out = config;
    }
    return result;
}

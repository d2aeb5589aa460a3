#include "node/config/config_yaml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "node/config/determined.h"
#include "node/config/fields.h"
#include "node/config/hparams.h"
#include "node/config/hyperparameters.h"
#include "node/config/options.h"
#include "node/config/scalar.h"
#include "node/config/searcher.h"

/* Three steps: the text becomes a small tree (tree.h); --set texts replace branches of the tree; one walk checks the
 * tree against the table of options (options.h) and fills in the struct. */

struct parse {
    struct tree tree;
    struct config *config;
    struct pack_writer packed;                     /* writes into the caller's scratch memory */
    const struct tree_node *given[CONFIG_OPTIONS_MAX]; /* for each option its node, or NULL */
    bool is_bad[CONFIG_OPTIONS_MAX]; /* the option's value is refused: nothing follows from it */
};

void config_describe(void (*row)(void *context, const struct config_option_text *text), void *context)
{
    static const char *const types[] = {"text", "text", "text", "number", "true or false", "word", "number"};
    _Static_assert(sizeof types / sizeof types[0] == OPTION_OTHER, "one for each kind but the last");
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        if (option->is_of_submitter) {
            continue;
        }
        char allowed[TREE_WORDS_BYTES], standard[TREE_WORDS_BYTES];
        struct config_option_text text = {
            .key = option->key,
            .type = option->type != NULL            ? option->type
                    : option->unit == OPTION_SECONDS ? "time"
                    : option->unit == OPTION_BYTES   ? "size"
                                                     : types[option->kind],
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

/* True if the option may be compared with others. */
static bool is_sound(const struct parse *parse, const char *key)
{
    return !parse->is_bad[config_option_find(key) - config_options];
}

static void fail_unknown(struct parse *parse, const struct tree_node *child, const char *path, const char *section)
{
    char words[CONFIG_OPTIONS_MAX][TREE_KEY_BYTES_MAX];
    const char *list[CONFIG_OPTIONS_MAX];
    size_t count = options_section_keys(section, words);
    if (strcmp(path, "slots_per_trial") == 0) {
        (void)tree_fail(&parse->tree, child, "unknown key 'slots_per_trial'; did you mean 'resources.slots_per_trial'?");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = words[i];
    }
    (void)tree_fail_unknown(&parse->tree, child, path, list, count);
}

bool config_is_no_slot(const char *key, const struct tree_node *node)
{
    return strcmp(key, "resources.slots_per_trial") == 0 && node->kind == TREE_SCALAR && node->is_plain &&
           strcmp(node->text, "0") == 0;
}

/* Reads the options of a section. `section` is "" or ends in a dot; sections are one level deep, which bounds the
 * recursion. */
static void walk_section(struct parse *parse, const struct tree_node *map, const char *section)
{
    struct tree *tree = &parse->tree;
    for (const struct tree_node *child = map->first; child != NULL && !tree_is_full(tree); child = child->next) {
        char path[TREE_PATH_BYTES];
        size_t path_bytes = (size_t)snprintf(path, sizeof path - 2, "%s%s", section, child->key);
        if (section[0] == '\0' && strncmp(child->key, "x-", 2) == 0) {
            continue; /* a place for anchors */
        }
        if (determined_key(path) != NULL) {
            continue; /* advice_give_file tells of it */
        }
        if (strcmp(path, "resources.slots") == 0 && tree_find(map, "slots_per_trial") == NULL) {
            path_bytes = (size_t)snprintf(path, sizeof path - 2, "resources.slots_per_trial"); /* Determined's word for tasks */
        }
        bool is_done = tree_is_null(child); /* not given; its key must be known nevertheless */
        bool is_known = options_refusal(path) != NULL, is_section = false;
        const char *refusal = options_refusal(path);
        if (refusal != NULL && !is_done) {
            (void)tree_fail(tree, child, "%s cannot be used: %s", path, refusal);
            continue;
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
            if (config_is_no_slot(option->key, child)) {
                parse->config->slots_per_trial = 1;
                continue;
            }
            if (!is_done && option->allowed == NULL && !options_store(option, child, parse->config)) {
                parse->is_bad[i] = true;
                (void)tree_fail(tree, child, "%s is %s; allowed are %s", path, tree_describe(child, quoted),
                                options_allowed(option, words, sizeof words));
            }
        }
        if (!is_known && !is_section) {
            fail_unknown(parse, child, path, section);
        }
        if (is_section && !is_done && child->kind != TREE_MAP) {
            (void)tree_fail_type(tree, child, path, "a map");
        } else if (is_section && !is_done) {
            memcpy(path + path_bytes, ".", 2);
            walk_section(parse, child, path);
        }
    }
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

static void check_slots(struct parse *parse)
{
    struct tree *tree = &parse->tree;
    const struct config *config = parse->config;
    const struct tree_node *min_slots = given(parse, "resources.min_slots"),
                           *max_slots = given(parse, "resources.max_slots");
    if (!is_sound(parse, "resources.slots_per_trial") || !is_sound(parse, "resources.min_slots") ||
        !is_sound(parse, "resources.max_slots")) {
        return;
    }
    if (config->min_slots > config->slots_per_trial) {
        (void)tree_fail(tree, min_slots,
                        "resources.min_slots is %u and slots_per_trial %u; allowed are 1 ... slots_per_trial",
                        config->min_slots, config->slots_per_trial);
    }
    if (config->max_slots < config->slots_per_trial) {
        (void)tree_fail(tree, max_slots,
                        "resources.max_slots is %u and slots_per_trial %u; allowed are slots_per_trial ... %d",
                        config->max_slots, config->slots_per_trial, CONFIG_SLOTS_MAX);
    }
    if (config->even_hosts && config->max_slots > config->slots_per_trial) {
        (void)tree_fail(tree, max_slots,
                        "resources.max_slots has no effect with even_hosts: true, since such a group never changes; remove one of "
                        "them");
    }
    if (config->keep_ranks == CONFIG_KEEP_ALL && config->max_slots > CONFIG_KEEP_ALL_SLOTS_MAX) {
        (void)tree_fail(tree, given(parse, "keep_ranks"),
                        "keep_ranks is all and a trial may have %u slots; allowed are %d with it, or keep_ranks: first",
                        config->max_slots, CONFIG_KEEP_ALL_SLOTS_MAX);
    }
}

static void check_beginning(struct parse *parse)
{
    const struct config *config = parse->config;
    const struct tree_node *node = given(parse, "checkpoint.begin_from");
    struct config_begin begin;
    if (config->begin_from[0] == '\0') {
        return;
    }
    if (!config_begin(config, &begin)) {
        (void)tree_fail(&parse->tree, node,
                        "checkpoint.begin_from is '%.60s'; allowed is EXPERIMENT/TRIAL@STEP with the whole id, such as a1b2c3d4e5f60718/0@400",
                        config->begin_from);
    } else if (config->searcher != SEARCH_SINGLE) {
        (void)tree_fail(&parse->tree, node, "checkpoint.begin_from is for one trial; remove it, or use searcher.name single");
    }
}

static void check_packages(struct parse *parse)
{
    const struct config *config = parse->config;
    if (config->requirements[0] != '\0' && !config_keep_is_good(config->requirements, strlen(config->requirements))) {
        (void)tree_fail(&parse->tree, given(parse, "environment.requirements"),
                        "environment.requirements is '%.80s'; allowed is a path below the context directory, such as "
                        "requirements.txt, without '..'",
                        config->requirements);
    }
    if (!config_python_is_good(config->python)) {
        (void)tree_fail(&parse->tree, given(parse, "environment.python"),
                        "environment.python is '%.80s'; allowed is the name or path of a program, without '=' and not beginning with '-'",
                        config->python);
    }
    if (given(parse, "environment.python") != NULL && config->requirements[0] == '\0') {
        (void)tree_fail(&parse->tree, given(parse, "environment.python"),
                        "environment.python has no effect without environment.requirements; add it, or name the Python in the "
                        "entrypoint");
    }
}

/* Checks options that depend on each other, and sets defaults that depend on another option. */
static void config_finish(struct parse *parse, const struct tree_node *root)
{
    struct config *config = parse->config;
    if (given(parse, "entrypoint") == NULL && tree_lacks(root, "entrypoint")) {
        (void)tree_fail(
            &parse->tree, root,
            "entrypoint is missing; it is the command that runs a trial, such as entrypoint: python3 train.py");
    }
    if (given(parse, "searcher.metric") != NULL && given(parse, "searcher.smaller_is_better") == NULL) {
        config->smaller_is_better = true; /* like Determined */
    }
    if (given(parse, "resources.min_slots") == NULL) {
        config->min_slots = config->slots_per_trial;
    }
    if (given(parse, "resources.max_slots") == NULL) {
        config->max_slots = config->slots_per_trial;
    }
    if (is_sound(parse, "searcher.name")) {
        searcher_finish(&parse->tree, tree_find(root, "searcher"), parse->given, config);
    }
    check_slots(parse);
    check_packages(parse);
    check_beginning(parse);
    if (search_draws(config->searcher) && config->max_trials == 0) {
        config->max_trials = 1; /* refused above; hyperparameters are checked nevertheless */
    }
}

static void note_placeholder(void *context, const char *sentence)
{
    struct parse *parse = context;
    (void)tree_fail(&parse->tree, given(parse, "entrypoint"), "%s", sentence);
}

/* Checks the variables and the placeholders of hyperparameters. 0, ERR_MEMORY, or ERR_MALFORMED. */
static int check_hparams(struct parse *parse, bool has_entrypoint)
{
    const struct search_space space = config_search_space(parse->config);
    char error[HPARAMS_ERROR_BYTES];
    int result = hparams_check_variables(&space, error);
    if (result == ERR_MALFORMED) {
        (void)tree_fail(&parse->tree, given(parse, "hyperparameters"), "%s", error);
    }
    if (result != ERR_MEMORY && has_entrypoint) {
        result = hparams_check_entrypoint(config_entrypoint(parse->config), &space, note_placeholder, parse);
    }
    return result;
}

/* ---- the whole ---- */

/* Reads the options that have a reader of their own. 0, ERR_MEMORY, or ERR_MALFORMED. */
static int read_fields(struct parse *parse)
{
    struct tree *tree = &parse->tree;
    struct config *config = parse->config;
    const struct tree_node *entrypoint = given(parse, "entrypoint");
    int command = entrypoint != NULL ? fields_read_entrypoint(tree, entrypoint, &parse->packed, config) : ERR_MALFORMED;
    (void)fields_read_labels(tree, given(parse, "labels"), &parse->packed, config);
    (void)fields_read_keep(tree, given(parse, "keep"), &parse->packed, config);
    (void)fields_read_environment(tree, given(parse, "environment.environment_variables"),
                                  given(parse, "environment.variables"), &parse->packed, config);
    (void)fields_read_depends_on(tree, given(parse, "depends_on"), &parse->packed, config);
    (void)fields_read_constraints(tree, given(parse, "resources.constraints"), config);
    (void)fields_read_start_after(tree, given(parse, "start_after"), config);
    (void)fields_read_webhooks(tree, given(parse, "webhooks"), &parse->packed, config);
    (void)fields_read_secrets(tree, given(parse, "secrets"), &parse->packed, config);
    int hyperparameters = hyperparameters_read(tree, given(parse, "hyperparameters"), given(parse, "searcher.sampler"),
                                               given(parse, "searcher.initial"), &parse->packed, config);
    return hyperparameters == 0 ? check_hparams(parse, command == 0) : hyperparameters;
}

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
    for (size_t i = 0; i < override_count && error != ERR_MEMORY; i++) {
        error = tree_override(tree, root, overrides[i]);
    }
    if (error != ERR_MEMORY) {
        walk_section(parse, root, "");
        config_finish(parse, root);
        error = read_fields(parse);
    }
    return error == 0 && tree->problem_count > 0 ? ERR_MALFORMED : error;
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
    if (!is_good && config_is_drawn(config)) {
        return tree_fail(&parse->tree, NULL,
                         "the configuration is too large for its searcher, which every node has to know: allowed are %u bytes packed with "
                         "hyperparameters and searcher.initial; make them fewer, or use the searcher random",
                         CONFIG_PACKED_BYTES_MAX);
    }
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
    int result = tree_open(&parse.tree, file_name, text_bytes, overrides, override_count);
    if (result == 0) {
        result = read_all(&parse, text, text_bytes, overrides, override_count);
    }
    if (result == 0) {
        result = check_packed(&parse);
    }
    tree_tell(&parse.tree, error);
    tree_close(&parse.tree);
    if (result == 0) {
        *out = config;
    }
    return result;
}

#include "node/config/advice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "node/config/config_yaml.h"
#include "node/config/determined.h"
#include "node/config/hparams.h"
#include "node/config/searcher.h"
#include "node/config/tree.h"

/* Variables that a configuration may set (config_variable_is_reserved and config_variable_is_rank have those that it may not), and
 * what then happens. The first two are set by the daemon after the configuration's. */
static const struct {
    const char *name, *what;
} rows[] = {
    {"CUDA_VISIBLE_DEVICES",
     "has no effect on GPU slots, where each worker sees the GPUs of its trial (and on a machine with GPUs none on processor "
     "slots, where it sees no GPU); to keep a trial off the GPUs set resources.slot_kind: cpu"},
    {"CUDA_DEVICE_ORDER", "has no effect on GPU slots, where it is PCI_BUS_ID, the order of CUDA_VISIBLE_DEVICES"},
    {"TORCHELASTIC_USE_AGENT_STORE",
     "takes the place of False: with True all ranks wait for a store that no agent serves, since rank 0 serves it"},
    {"TORCHELASTIC_ERROR_FILE", "takes the place of the file in which shoal show finds the message of a failed program"},
    {"TORCHELASTIC_RUN_ID", "takes the place of EXPERIMENT-TRIAL, so all trials have the same one"},
    {"TORCHELASTIC_RESTART_COUNT", "takes the place of the number of attempts, so a program does not see that it is restarted"},
    {"TORCHELASTIC_MAX_RESTARTS", "takes the place of max_restarts for the program only; Shoal restarts by max_restarts"},
};

/* A variable of the environment: what Shoal does with its name, and with placeholders in its value. */
static void advise_variable(const char *name, size_t name_bytes, const char *value, size_t value_bytes, hparams_report report,
                            void *context)
{
    char sentence[HPARAMS_ERROR_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (pack_text_is(name, name_bytes, rows[i].name)) {
            (void)snprintf(sentence, sizeof sentence, "the environment variable '%s' %s", rows[i].name, rows[i].what);
            report(context, sentence);
        }
    }
    for (size_t at = 0; at < value_bytes; at++) {
        size_t bytes;
        if (value[at] == '{' && hparams_is_placeholder(value + at, &bytes)) {
            (void)snprintf(sentence, sizeof sentence,
                           "the environment variable '%.*s' has %.*s, which is filled in the entrypoint only; programs find "
                           "hyperparameters as SHOAL_HP_NAME, and an entrypoint may begin with %.*s=%.*s",
                           (int)(name_bytes < 60 ? name_bytes : 60), name, (int)(bytes < 80 ? bytes : 80), value + at,
                           (int)(name_bytes < 60 ? name_bytes : 60), name, (int)(bytes < 80 ? bytes : 80), value + at);
            report(context, sentence);
            return;
        }
    }
}

void advice_give(const struct config *config, void (*report)(void *context, const char *sentence), void *context)
{
    const struct search_space space = config_search_space(config);
    struct pack_reader map;
    hparams_near_misses(config_entrypoint(config), &space, report, context);
    pack_reader_init(&map, config->environment, config->environment_bytes);
    for (uint32_t left = pack_read_map(&map); left > 0 && !map.failed; left--) {
        size_t name_bytes, value_bytes;
        const char *name = pack_read_text(&map, &name_bytes), *packed = pack_read_text(&map, &value_bytes);
        char *value = map.failed ? NULL : strndup(packed, value_bytes); /* with a NUL at its end */
        if (value != NULL) {
            advise_variable(name, name_bytes, value, value_bytes, report, context);
        }
        free(value);
    }
}

/* ---- what is in the file only ---- */

struct file_advice {
    const char *file_name;
    hparams_report report;
    void *context;
};

/* Reports "FILE:LINE: SUBJECT WHAT", and "--set KEY=VALUE: " for what an override gives. */
static void tell(const struct file_advice *advice, const struct tree_node *node, const char *subject, size_t subject_bytes,
                 const char *what)
{
    char sentence[HPARAMS_ERROR_BYTES];
    int shown = (int)(subject_bytes < 80 ? subject_bytes : 80);
    if (node->override != NULL) {
        (void)snprintf(sentence, sizeof sentence, "--set %.80s: %.*s %s", node->override, shown, subject, what);
    } else {
        (void)snprintf(sentence, sizeof sentence, "%.120s:%u: %.*s %s", advice->file_name, node->line, shown, subject, what);
    }
    advice->report(advice->context, sentence);
}

/* A launcher stands within the first words, so what does not fit is not needed. */
static void advise_entrypoint(const struct file_advice *advice, const struct tree_node *node)
{
    char text[1024] = "";
    size_t used = (size_t)snprintf(text, sizeof text, "%s", node->text);
    for (const struct tree_node *word = node->first; word != NULL && used < sizeof text; word = word->next) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "", word->text);
    }
    struct determined_launcher launcher;
    if (determined_find_launcher(text, &launcher)) {
        tell(advice, node, launcher.name, launcher.name_bytes, launcher.advice);
    }
}

/* `section` is "" or ends in a dot. */
static void advise_section(const struct file_advice *advice, const struct tree_node *map, const char *section)
{
    for (const struct tree_node *child = map->first; child != NULL; child = child->next) {
        char path[TREE_PATH_BYTES], what[HPARAMS_ERROR_BYTES];
        size_t bytes = (size_t)snprintf(path, sizeof path - 2, "%s%s", section, child->key);
        const char *instead = determined_key(path);
        if (instead != NULL && !tree_is_null(child)) {
            (void)snprintf(what, sizeof what, "has no effect: %s", instead);
            tell(advice, child, path, bytes, what);
        } else if (config_is_no_slot(strcmp(path, "resources.slots") == 0 ? "resources.slots_per_trial" : path, child)) {
            tell(advice, child, path, bytes,
                 "is 0, and a trial gets one slot: without one nothing runs; to keep it off the GPUs set resources.slot_kind: cpu");
        } else if (strcmp(path, "entrypoint") == 0) {
            advise_entrypoint(advice, child);
        } else if (section[0] == '\0' && child->kind == TREE_MAP && strcmp(path, "hyperparameters") != 0) {
            (void)snprintf(path + bytes, sizeof path - bytes, ".");
            advise_section(advice, child, path);
        }
    }
}

/* True if the last part of the name ("accuracy" of "val_accuracy") is the word for something of which more is better. */
static bool is_better_larger(const char *metric)
{
    static const char *const words[] = {"acc",   "auc",    "f1",   "precision", "recall", "score",
                                        "reward", "bleu", "rouge", "map",       "iou",    "r2"};
    const char *part = metric;
    for (const char *at = metric; *at != '\0'; at++) {
        part = strchr("/._- ", *at) != NULL && at[1] != '\0' ? at + 1 : part;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strncasecmp(part, words[i], strlen(words[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* As in Determined, smaller counts as better of a metric about which the file does not say. */
static void advise_metric(const struct file_advice *advice, const struct tree_node *root)
{
    const struct tree_node *searcher = tree_find(root, "searcher");
    bool is_map = searcher != NULL && searcher->kind == TREE_MAP;
    const struct tree_node *metric = is_map ? tree_find(searcher, "metric") : NULL;
    const struct tree_node *smaller = is_map ? tree_find(searcher, "smaller_is_better") : NULL;
    if (metric == NULL || tree_is_null(metric) || (smaller != NULL && !tree_is_null(smaller)) || !is_better_larger(metric->text)) {
        return;
    }
    char sentence[HPARAMS_ERROR_BYTES];
    (void)snprintf(sentence, sizeof sentence,
                   "the smallest %.80s counts as the best, since searcher.smaller_is_better is not set; set it to false if larger is "
                   "better (--set searcher.smaller_is_better=false)",
                   metric->text);
    advice->report(advice->context, sentence);
}

/* Determined's old key for how long a trial trains. */
static void advise_length(const struct file_advice *advice, const struct tree_node *root)
{
    const struct tree_node *searcher = tree_find(root, "searcher");
    bool is_map = searcher != NULL && searcher->kind == TREE_MAP;
    const struct tree_node *name = is_map ? tree_find(searcher, "name") : NULL;
    const struct tree_node *length = is_map ? tree_find(searcher, "max_length") : NULL;
    static const char key[] = "searcher.max_length";
    if (length != NULL && !tree_is_null(length) && (name == NULL || !searcher_has_length(name->text))) {
        tell(advice, length, key, sizeof key - 1,
             "has no effect: the program decides how long it trains, and when it validates and saves; use a hyperparameter such as epochs");
    }
}

void advice_give_file(const char *file_name, const char *text, size_t text_bytes, const char *const *overrides,
                      size_t override_count, void (*report)(void *context, const char *sentence), void *context)
{
    const struct file_advice advice = {file_name, report, context};
    struct tree_node *root = NULL;
    struct tree *tree = calloc(1, sizeof *tree);
    if (tree == NULL) {
        return;
    }
    int error = tree_open(tree, file_name, text_bytes, overrides, override_count);
    error = error == 0 ? tree_read(tree, text, text_bytes, &root) : error;
    for (size_t i = 0; i < override_count && error == 0; i++) {
        error = tree_override(tree, root, overrides[i]);
    }
    if (error == 0 && root->kind == TREE_MAP) {
        advise_section(&advice, root, "");
        advise_metric(&advice, root);
        advise_length(&advice, root);
    }
    tree_close(tree);
    free(tree);
}

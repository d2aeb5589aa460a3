#include "node/config/options.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "node/config/fields.h"
#include "node/config/scalar.h"

static const char *const searcher_words[] = {"single", "grid", "random", NULL};
static const char *const slot_words[] = {"any", "cpu", "cuda", NULL};
static const char *const partition_words[] = {"continue", "pause_minority", NULL};

#define FIELD(name) offsetof(struct config, name), sizeof((struct config *)0)->name
#define TEXT(key, name, standard, help) {key, OPTION_TEXT, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define NAME(key, name, standard, help) {key, OPTION_NAME, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define LINES(key, name, standard, help) {key, OPTION_LINES, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define NUMBER(key, name, min, max, standard, help) {key, OPTION_NUMBER, FIELD(name), min, max, NULL, NULL, NULL, standard, help}
#define TRUTH(key, name, standard, help) {key, OPTION_TRUTH, FIELD(name), 0, 0, NULL, NULL, NULL, standard, help}
#define WORD(key, name, words, standard, help) {key, OPTION_WORD, FIELD(name), 0, 0, words, NULL, NULL, standard, help}
#define OTHER(key, type, allowed, standard, help) {key, OPTION_OTHER, 0, 0, 0, 0, NULL, type, allowed, standard, help}

const struct config_option config_options[CONFIG_OPTIONS] = {
    NAME("name", name, "the file's name without its ending", "What the experiment is called in lists."),
    LINES("description", description, "none", "What it is for."),
    OTHER("labels", "list", FIELDS_LABELS_WORDS, "none", "Words attached to the experiment."),
    OTHER("entrypoint", "text or list", FIELDS_ENTRYPOINT_WORDS, "required",
          "The command that runs a trial, in a copy of the context directory; words of a list are quoted for the shell."),
    OTHER("environment.environment_variables", "list", FIELDS_VARIABLE_LIST_WORDS, "none", "Variables for the program."),
    OTHER("environment.variables", "map", FIELDS_VARIABLE_MAP_WORDS, "none", "Variables for the program, written as a map."),
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
           "The fewest slots with which a trial may continue; at most slots_per_trial. If it is below max_slots, an elastic program's "
           "group continues without the workers that it loses."),
    NUMBER("resources.max_slots", max_slots, 1, CONFIG_SLOTS_MAX, "slots_per_trial",
           "The most slots to which a trial may grow while no other trial waits; at least slots_per_trial."),
    NUMBER("resources.priority", priority, 1, 99, "42", "A trial with a lower number goes first in the queue."),
    WORD("resources.slot_kind", slot_kind, slot_words, "any", "The kind of slot that a trial needs."),
    NUMBER("checkpoint.replicas", checkpoint_replicas, 1, CONFIG_REPLICAS_MAX, "2", "Copies of each checkpoint, on different nodes; 8 at most."),
    NUMBER("checkpoint.save_experiment_best", save_experiment_best, 0, CONFIG_SAVE_MAX, "0",
           "How many of the best checkpoints of all trials together are kept, by searcher.metric."),
    NUMBER("checkpoint.save_trial_best", save_trial_best, 0, CONFIG_SAVE_MAX, "1",
           "How many of the best checkpoints of each trial are kept, by the metric last reported before each save."),
    NUMBER("checkpoint.save_trial_latest", save_trial_latest, 0, CONFIG_SAVE_MAX, "1",
           "How many of the newest checkpoints of each trial are kept; a trial that is not over always keeps its newest."),
    NUMBER("max_restarts", max_restarts, 0, CONFIG_RESTARTS_MAX, "5",
           "How often a trial is started again after its own failures; lost nodes do not count."),
    NUMBER("seed", seed, 0, INT64_MAX, "0", "All random choices follow from it."),
    NUMBER("preemption_timeout", preemption_timeout_s, 0, CONFIG_PREEMPTION_TIMEOUT_S_MAX, "60",
           "Seconds that a trial has to save and leave when it must make room."),
    WORD("on_partition", on_partition, partition_words, "continue",
         "What each side of a split mesh does: continue, or start nothing on a side with less than half of the members."),
    TRUTH("balance", balance, "off",
          "Whether the parts of a step follow the measured speeds of its slots, in elastic programs that ask libshoal for their "
          "part, such as shoal-train. Then two runs do not end with the same bits."),
};

/* Known but unusable keys of files for Determined, or for a later Shoal: each gets its own sentence. */
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

const char *options_refusal(const char *key)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        if (strcmp(refusals[i].key, key) == 0) {
            return refusals[i].why;
        }
    }
    return NULL;
}

const char *options_allowed(const struct config_option *option, char *out, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        (void)snprintf(out, size, "a text of %d ... %zu bytes without %scontrol characters", option->kind != OPTION_LINES,
                       option->size - 1, option->kind == OPTION_NAME ? "'/' and " : "");
        break;
    case OPTION_NUMBER:
        (void)snprintf(out, size, "%llu ... %llu", (unsigned long long)option->min, (unsigned long long)option->max);
        break;
    case OPTION_TRUTH:
        (void)snprintf(out, size, "true, false, on, off");
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

/* `on` and `off` are texts in YAML 1.2, but truth values in YAML 1.1; accepted where only a truth value can stand. */
static bool store_truth(const struct tree_node *node, const struct scalar *scalar, void *field)
{
    bool is_on = node->is_plain && strcmp(node->text, "on") == 0, is_off = node->is_plain && strcmp(node->text, "off") == 0;
    bool truth = is_on || (!is_off && scalar->truth);
    memcpy(field, &truth, sizeof truth);
    return is_on || is_off || scalar->type == SCALAR_TRUTH;
}

bool options_store(const struct config_option *option, const struct tree_node *node, struct config *config)
{
    char *field = (char *)config + option->offset;
    if (node->kind != TREE_SCALAR) {
        return false;
    }
    struct scalar scalar = scalar_read(node->text, node->is_plain);
    uint32_t narrow = 0;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        return scalar_is_clean(node->text, option->kind == OPTION_LINES) &&
               (option->kind != OPTION_NAME || strchr(node->text, '/') == NULL) && /* NAME/TRIAL names a trial */
               (node->text[0] != '\0' || option->kind == OPTION_LINES) &&
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
        return store_truth(node, &scalar, field);
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

size_t options_section_keys(const char *section, char words[CONFIG_OPTIONS][TREE_KEY_BYTES_MAX])
{
    size_t count = 0, prefix_bytes = strlen(section);
    for (size_t i = 0; i < CONFIG_OPTIONS; i++) {
        const char *rest = config_options[i].key + prefix_bytes;
        if (strncmp(config_options[i].key, section, prefix_bytes) == 0) {
            char word[TREE_KEY_BYTES_MAX];
            (void)bytes_copy_text_n(word, sizeof word, rest, strcspn(rest, "."));
            if (count == 0 || strcmp(words[count - 1], word) != 0) { /* the rows of a section stand together */
                memcpy(words[count++], word, sizeof word);
            }
        }
    }
    return count;
}

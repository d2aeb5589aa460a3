#include "node/config/searcher.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "node/config/scalar.h"
#include "node/config/warm_start.h"

#define CONCURRENT_STANDARD 16 /* as in Determined */

#define GRID (1u << SEARCH_GRID)
#define RANDOM (1u << SEARCH_RANDOM)
#define ASHA (1u << SEARCH_ASHA)
#define ADAPTIVE (1u << SEARCH_ADAPTIVE_ASHA)
#define TPE (1u << SEARCH_TPE)
#define PBT (1u << SEARCH_PBT)
#define CUSTOM (1u << SEARCH_CUSTOM)

/* Which searchers an option means something to, and which of them do not work without it. */
static const struct rule {
    const char *word; /* the last of the key */
    unsigned meant_for, needed_by;
    const char *use; /* the searchers in words */
} rules[] = {
    {"metric", ~0u, ASHA | ADAPTIVE | TPE | PBT | CUSTOM, ""},
    {"max_trials", RANDOM | ASHA | ADAPTIVE | TPE | CUSTOM, RANDOM | ASHA | ADAPTIVE | TPE | CUSTOM,
     "random, asha, adaptive_asha, tpe or custom"},
    {"max_concurrent_trials", GRID | RANDOM | ASHA | ADAPTIVE | TPE | PBT | CUSTOM, 0, "grid, random, asha, adaptive_asha, tpe, pbt or custom"},
    {"n_startup_trials", ASHA | ADAPTIVE | TPE, 0, "tpe, or asha or adaptive_asha with sampler: tpe"},
    {"sampler", RANDOM | ASHA | ADAPTIVE, 0, "random, asha or adaptive_asha"},
    {"initial", RANDOM | ASHA | ADAPTIVE | TPE, 0, "random, asha, adaptive_asha or tpe"},
    {"warm_start", RANDOM | ASHA | ADAPTIVE | TPE, 0, "random, asha, adaptive_asha or tpe"},
    {"max_time", ASHA | ADAPTIVE | TPE | CUSTOM, ASHA | ADAPTIVE | CUSTOM, "asha, adaptive_asha, tpe or custom"},
    {"time_metric", ASHA | ADAPTIVE | TPE | PBT | CUSTOM, 0, "asha, adaptive_asha, tpe, pbt or custom"},
    {"entrypoint", CUSTOM, CUSTOM, "custom"},
    {"every", CUSTOM, 0, "custom"},
    {"timeout", CUSTOM, 0, "custom"},
    {"divisor", ASHA | ADAPTIVE, 0, "asha or adaptive_asha"},
    {"stop_once", ASHA | ADAPTIVE, 0, "asha or adaptive_asha"},
    {"num_rungs", ASHA, ASHA, "asha"},
    {"max_rungs", ADAPTIVE, 0, "adaptive_asha"},
    {"mode", ADAPTIVE, 0, "adaptive_asha"},
    {"bracket_rungs", ADAPTIVE, 0, "adaptive_asha"},
    {"population_size", PBT, PBT, "pbt"},
    {"num_rounds", PBT, PBT, "pbt"},
    {"length_per_round", PBT, 0, "pbt"},
    {"truncate_fraction", PBT, 0, "pbt"},
    {"resample_probability", PBT, 0, "pbt"},
    {"perturb_factor", PBT, 0, "pbt"},
};

struct reading {
    struct tree *tree;
    const struct tree_node *searcher;
    const struct tree_node *const *nodes; /* for each option of the table, or NULL */
    struct config *config;
};

static const struct config_option *option_of(const char *word)
{
    char key[TREE_KEY_BYTES_MAX];
    (void)snprintf(key, sizeof key, "searcher.%s", word);
    return config_option_find(key);
}

static const struct tree_node *given(const struct reading *reading, const char *word)
{
    return reading->nodes[option_of(word) - config_options];
}

static void check_rule(struct reading *reading, const struct rule *rule)
{
    const struct tree_node *node = given(reading, rule->word);
    const char *name = config_option_find("searcher.name")->words[reading->config->searcher];
    unsigned kind = 1u << reading->config->searcher;
    bool is_time = strcmp(rule->word, "max_time") == 0;
    if (node != NULL && (rule->meant_for & kind) == 0) {
        (void)tree_fail(reading->tree, node, "searcher.%s has no effect with searcher.name %s; remove it or use %s", rule->word, name,
                        rule->use);
    }
    bool is_missing = node == NULL && tree_lacks(reading->searcher, rule->word) &&
                      !(is_time && !tree_lacks(reading->searcher, "max_length"));
    if (!is_missing || (rule->needed_by & kind) == 0) {
        return;
    }
    const struct config_option *option = option_of(rule->word);
    if (option->kind == OPTION_NUMBER) {
        (void)tree_fail(reading->tree, reading->searcher, "searcher.%s is missing; searcher.name %s needs it, allowed are %llu ... %llu%s",
                        rule->word, name, (unsigned long long)option->min, (unsigned long long)option->max,
                        is_time ? ", in steps (searcher.time_metric may name another unit)" : "");
    } else if (strcmp(rule->word, "entrypoint") == 0) {
        (void)tree_fail(reading->tree, reading->searcher,
                        "searcher.entrypoint is missing; searcher.name custom needs the command of your program, such as python3 my_search.py");
    } else {
        (void)tree_fail(reading->tree, reading->searcher,
                        "searcher.%s is missing; searcher.name %s compares trials by it, so write a metric that the program reports in "
                        "its validation",
                        rule->word, name);
    }
}

static bool has_sampler_tpe(const struct reading *reading)
{
    const struct tree_node *sampler = given(reading, "sampler");
    return sampler != NULL && sampler->kind == TREE_SCALAR && strcmp(sampler->text, "tpe") == 0;
}

static void check_startup(struct reading *reading)
{
    const struct tree_node *node = given(reading, "n_startup_trials");
    if (node != NULL && search_halves(reading->config->searcher) && !has_sampler_tpe(reading)) {
        (void)tree_fail(reading->tree, node, "searcher.n_startup_trials has no effect without searcher.sampler tpe; remove it, or add that");
    }
}

/* ---- options of a shape of their own ---- */

static void fail(struct reading *reading, const struct tree_node *node, const char *word)
{
    (void)tree_fail_type(reading->tree, node, option_of(word)->key, option_of(word)->allowed);
}

/* False if the node is no whole number from 1 to `max`. */
static bool read_whole(const struct tree_node *node, uint64_t max, uint64_t *out)
{
    struct scalar scalar = node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain) : (struct scalar){.type = SCALAR_TEXT};
    *out = scalar.magnitude;
    return scalar.type == SCALAR_INTEGER && !scalar.is_negative && *out >= 1 && *out <= max;
}

static void read_bracket_rungs(struct reading *reading)
{
    const struct tree_node *node = given(reading, "bracket_rungs");
    struct config *config = reading->config;
    bool is_good = node == NULL || node->kind == TREE_LIST;
    for (const struct tree_node *item = node != NULL ? node->first : NULL; item != NULL && is_good; item = item->next) {
        uint64_t rungs;
        is_good = config->bracket_count < SEARCH_BRACKETS_MAX && read_whole(item, SEARCH_RUNGS_MAX, &rungs);
        if (is_good) {
            config->bracket_rungs[config->bracket_count++] = (uint8_t)rungs;
        }
    }
    if (!is_good) {
        fail(reading, node, "bracket_rungs");
    }
}

/* The names are resolved where the file is submitted (warm_start.h); here they only have to be names. */
static void read_warm_start(struct reading *reading)
{
    const struct tree_node *node = given(reading, "warm_start");
    bool is_good = node == NULL || node->kind == TREE_LIST;
    uint32_t count = 0;
    for (const struct tree_node *item = node != NULL ? node->first : NULL; item != NULL && is_good; item = item->next) {
        is_good = item->kind == TREE_SCALAR && item->text[0] != '\0' && !tree_is_null(item) && ++count <= WARM_START_MAX;
    }
    if (!is_good) {
        fail(reading, node, "warm_start");
    }
}

static void read_stop_once(struct reading *reading)
{
    const struct tree_node *node = given(reading, "stop_once");
    struct scalar scalar = {.type = SCALAR_TRUTH, .truth = true};
    if (node != NULL) {
        scalar = node->kind == TREE_SCALAR ? scalar_read(node->text, node->is_plain) : (struct scalar){.type = SCALAR_TEXT};
    }
    if (scalar.type != SCALAR_TRUTH) {
        fail(reading, node, "stop_once");
    } else {
        reading->config->promotes = !scalar.truth;
    }
}

/* The unit of a length that is a map becomes time_metric. */
static void read_length_unit(struct reading *reading, const char *word, const struct tree_node *length)
{
    const struct tree_node *time_metric = given(reading, "time_metric");
    bool is_epochs = strcmp(length->key, "epochs") == 0;
    if (time_metric == NULL) {
        (void)bytes_copy_text(reading->config->time_metric, sizeof reading->config->time_metric, length->key);
    } else if (!is_epochs && strcmp(time_metric->text, length->key) != 0) {
        (void)tree_fail(reading->tree, length, "searcher.%s counts %s and searcher.time_metric is '%.60s'; remove one of them", word,
                        length->key, time_metric->text);
    }
}

/* Reads max_length or length_per_round, `word`, into max_time. `unit_count`: of the first so many units. */
static void read_length(struct reading *reading, const char *word, size_t unit_count)
{
    static const char *const units[] = {"steps", "batches", "epochs", "seconds"};
    const struct tree_node *node = given(reading, word), *length = node;
    bool is_unit = node->kind == TREE_SCALAR;
    if (node->kind == TREE_MAP) {
        length = node->first;
        for (size_t i = 0; length != NULL && length->next == NULL && i < unit_count; i++) {
            is_unit = is_unit || strcmp(length->key, units[i]) == 0;
        }
    }
    if (!is_unit || !read_whole(length, SEARCH_TIME_MAX, &reading->config->max_time)) {
        fail(reading, node, word);
    } else if (node->kind == TREE_MAP) {
        read_length_unit(reading, word, length);
    }
}

static void read_max_length(struct reading *reading)
{
    const struct tree_node *node = given(reading, "max_length");
    if (node != NULL && given(reading, "max_time") != NULL) {
        (void)tree_fail(reading->tree, node, "searcher.max_length says the same as searcher.max_time; remove one of them");
    } else if (node != NULL) {
        read_length(reading, "max_length", 4);
    }
}

/* A checkpoint does not tell how many seconds are behind it, so rounds are not counted in them. */
static void read_population(struct reading *reading)
{
    struct config *config = reading->config;
    const struct tree_node *time_metric = given(reading, "time_metric");
    uint64_t trials = (uint64_t)config->population_size * config->num_rounds;
    if (time_metric != NULL && time_metric->kind == TREE_SCALAR && strcmp(time_metric->text, "seconds") == 0) {
        (void)tree_fail(reading->tree, time_metric, "searcher.time_metric is 'seconds', and rounds of pbt are not counted in seconds; count steps, or "
                        "a metric that the program reports");
    } else if (given(reading, "length_per_round") == NULL) {
        (void)tree_fail(reading->tree, reading->searcher, "searcher.length_per_round is missing; searcher.name pbt needs it, allowed is %s",
                        option_of("length_per_round")->allowed);
    } else if (trials > SEARCH_TRIALS_MAX) {
        (void)tree_fail(reading->tree, given(reading, "num_rounds"),
                        "searcher.population_size times searcher.num_rounds is %llu trials; allowed are %u", (unsigned long long)trials,
                        SEARCH_TRIALS_MAX);
    } else {
        read_length(reading, "length_per_round", 3);
        config->max_trials = (uint32_t)trials;
    }
}

/* The results of a trial are few: each has a record. */
static void check_every(struct reading *reading)
{
    const struct config *config = reading->config;
    const struct tree_node *node = given(reading, "every");
    if (node == NULL || config->every == 0 || config->max_time == 0) {
        return;
    }
    if (config->every > config->max_time) {
        (void)tree_fail(reading->tree, node, "searcher.every is %llu, longer than a whole trial (searcher.max_time %llu); make it shorter, or leave it out",
                        (unsigned long long)config->every, (unsigned long long)config->max_time);
    } else if (config_report_count(config) > SEARCH_RUNGS_MAX) {
        (void)tree_fail(reading->tree, node,
                        "searcher.every is %llu, so a trial would report %llu times until searcher.max_time; allowed are %d times: make it at "
                        "least %llu",
                        (unsigned long long)config->every, (unsigned long long)config_report_count(config), SEARCH_RUNGS_MAX,
                        (unsigned long long)((config->max_time - 1) / SEARCH_RUNGS_MAX + 1));
    }
}

void searcher_finish(struct tree *tree, const struct tree_node *searcher, const struct tree_node *const nodes[CONFIG_OPTIONS_MAX],
                     struct config *config)
{
    struct reading reading = {tree, searcher, nodes, config};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        check_rule(&reading, &rules[i]);
    }
    check_startup(&reading);
    if (search_halves(config->searcher)) {
        read_bracket_rungs(&reading);
        read_stop_once(&reading);
    }
    if (config->searcher == SEARCH_PBT) {
        read_population(&reading);
    } else if (search_judges(config->searcher)) {
        read_max_length(&reading);
    }
    if (config->searcher == SEARCH_CUSTOM) {
        check_every(&reading);
    } else if (search_draws(config->searcher)) {
        read_warm_start(&reading);
    }
    if (config->searcher != SEARCH_SINGLE && given(&reading, "max_concurrent_trials") == NULL) {
        config->max_concurrent_trials = CONCURRENT_STANDARD;
    }
}

bool searcher_has_length(const char *name)
{
    return strcmp(name, "asha") == 0 || strcmp(name, "async_halving") == 0 || strcmp(name, "adaptive_asha") == 0 ||
           strcmp(name, "tpe") == 0 || strcmp(name, "custom") == 0;
}

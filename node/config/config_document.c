#include "node/config/config_document.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "node/core/facts/options.h"

static bool is_key(const struct config_option *option, const char *key)
{
    return strcmp(option->key, key) == 0;
}

/* The bytes of an option that is packed beside the table; NULL: the option is another one, or has nothing. */
static const uint8_t *bytes_of(const struct config_option *option, const struct config *config, uint32_t *count)
{
    const struct {
        const char *key;
        const uint8_t *bytes;
        uint32_t count;
    } rows[] = {{"labels", config->labels, config->labels_bytes},
                {"keep", config->keep, config->keep_bytes},
                {"secrets", config->secrets, config->secrets_bytes},
                {"webhooks", config->webhooks, config->webhooks_bytes},
                {"environment.variables", config->environment, config->environment_bytes}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (is_key(option, rows[i].key) && rows[i].count > 1) { /* an empty map or list is one byte */
            *count = rows[i].count;
            return rows[i].bytes;
        }
    }
    return NULL;
}

/* Keys of other searchers mean nothing. */
static bool is_of_searcher(const struct config_option *option, const struct config *config)
{
    const struct {
        const char *key;
        bool asha, adaptive, tpe, pbt, custom;
    } rows[] = {{"searcher.num_rungs", .asha = true},
                {"searcher.max_rungs", .adaptive = true},
                {"searcher.divisor", .asha = true, .adaptive = true},
                {"searcher.max_time", .asha = true, .adaptive = true, .tpe = true, .custom = true},
                {"searcher.time_metric", true, true, true, true, true},
                {"searcher.mode", .adaptive = true},
                {"searcher.stop_once", .asha = true, .adaptive = true},
                {"searcher.bracket_rungs", .adaptive = true},
                {"searcher.population_size", .pbt = true},
                {"searcher.num_rounds", .pbt = true},
                {"searcher.length_per_round", .pbt = true},
                {"searcher.truncate_fraction", .pbt = true},
                {"searcher.resample_probability", .pbt = true},
                {"searcher.perturb_factor", .pbt = true},
                {"searcher.entrypoint", .custom = true},
                {"searcher.every", .custom = true},
                {"searcher.timeout", .custom = true},
                {"searcher.n_startup_trials", .asha = config_is_drawn(config), .adaptive = config_is_drawn(config), .tpe = true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (is_key(option, rows[i].key)) {
            return (rows[i].asha && config->searcher == SEARCH_ASHA) || (rows[i].adaptive && config->searcher == SEARCH_ADAPTIVE_ASHA) ||
                   (rows[i].tpe && config->searcher == SEARCH_TPE) || (rows[i].pbt && config->searcher == SEARCH_PBT) ||
                   (rows[i].custom && config->searcher == SEARCH_CUSTOM);
        }
    }
    if (is_key(option, "searcher.max_trials") && config->searcher == SEARCH_PBT) {
        return false; /* it follows from the population and the rounds */
    }
    return !is_key(option, "searcher.max_concurrent_trials") || config->searcher != SEARCH_SINGLE;
}

static bool has_value(const struct config_option *option, const struct config *config)
{
    uint32_t count;
    uint64_t number;
    if (option->is_of_submitter || !is_of_searcher(option, config)) {
        return false;
    }
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        return is_key(option, "entrypoint") || ((const char *)config + option->offset)[0] != '\0';
    case OPTION_NUMBER:
        number = config_option_number(option, config);
        return number >= option->min && number <= option->max;
    case OPTION_REAL:
        return config_option_real_is_good(option, config_option_real(option, config));
    case OPTION_OTHER:
        return bytes_of(option, config, &count) != NULL || (is_key(option, "searcher.stop_once") && config->promotes) ||
               (is_key(option, "searcher.bracket_rungs") && config->bracket_count > 0) || is_key(option, "searcher.length_per_round");
    default:
        return true;
    }
}

/* As a file has them. */
static void pack_dependencies(struct pack_writer *writer, const struct config *config)
{
    experiment_id ids[CONFIG_DEPENDS_MAX];
    uint32_t count = config_dependencies(config, ids);
    pack_array(writer, count);
    for (uint32_t i = 0; i < count; i++) {
        char hex[2 * EXPERIMENT_ID_BYTES + 1];
        bytes_to_hex(hex, ids[i].bytes, EXPERIMENT_ID_BYTES);
        pack_text(writer, hex);
    }
}

static void pack_constraint_list(struct pack_writer *writer, const struct config *config, bool are_models, uint32_t count)
{
    struct config_constraint constraint;
    pack_text(writer, are_models ? "model" : "labels");
    pack_array(writer, count);
    for (uint32_t i = 0; config_constraint(config, i, &constraint); i++) {
        if (are_models ? constraint.is_model : constraint.is_label) {
            pack_text(writer, constraint.text);
        }
    }
}

static void pack_constraints(struct pack_writer *writer, const struct config *config)
{
    struct config_constraint constraint;
    uint32_t models = 0, labels = 0;
    uint64_t memory = 0;
    for (uint32_t i = 0; config_constraint(config, i, &constraint); i++) {
        models += constraint.is_model;
        labels += constraint.is_label;
        memory = constraint.memory > 0 ? constraint.memory : memory;
    }
    pack_map(writer, (models > 0 ? 1u : 0) + (memory > 0 ? 1u : 0) + (labels > 0 ? 1u : 0));
    if (models > 0) {
        pack_constraint_list(writer, config, true, models);
    }
    if (memory > 0) {
        pack_text(writer, "memory");
        pack_u64(writer, memory);
    }
    if (labels > 0) {
        pack_constraint_list(writer, config, false, labels);
    }
}

static void pack_value(struct pack_writer *writer, const struct config_option *option, const struct config *config)
{
    uint32_t count = 0;
    const uint8_t *bytes;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        if (is_key(option, "resources.constraints")) {
            pack_constraints(writer, config);
            break;
        }
        if (is_key(option, "depends_on")) {
            pack_dependencies(writer, config);
            break;
        }
        pack_text(writer, is_key(option, "entrypoint") ? config_entrypoint(config) : (const char *)config + option->offset);
        break;
    case OPTION_NUMBER:
        pack_u64(writer, config_option_number(option, config));
        break;
    case OPTION_REAL:
        pack_double(writer, config_option_real(option, config));
        break;
    case OPTION_TRUTH:
        pack_bool(writer, config_option_number(option, config) != 0);
        break;
    case OPTION_WORD:
        pack_text(writer, option->words[config_option_number(option, config)]);
        break;
    case OPTION_OTHER:
        if (is_key(option, "searcher.bracket_rungs")) {
            pack_array(writer, config->bracket_count);
            for (uint32_t i = 0; i < config->bracket_count; i++) {
                pack_u64(writer, config->bracket_rungs[i]);
            }
            break;
        }
        if (is_key(option, "searcher.length_per_round")) {
            pack_u64(writer, config->max_time);
            break;
        }
        if (is_key(option, "searcher.stop_once")) {
            pack_bool(writer, !config->promotes);
            break;
        }
        bytes = bytes_of(option, config, &count);
        CHECK(bytes != NULL);
        pack_raw(writer, bytes, count);
        break;
    }
}

/* The bytes of the section's name in a key such as "resources.priority"; 0: the option is in no section. */
static size_t section_bytes(const char *key)
{
    const char *dot = strchr(key, '.');
    return dot != NULL ? (size_t)(dot - key) : 0;
}

static bool is_in_section(const struct config_option *option, const char *section, size_t bytes)
{
    return section_bytes(option->key) == bytes && memcmp(option->key, section, bytes) == 0;
}

/* How many options of the section have a value; 0 where an option before this one is in the section too. */
static uint32_t begins_section(size_t at, const struct config *config)
{
    const char *key = config_options[at].key;
    size_t bytes = section_bytes(key);
    uint32_t count = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        if (is_in_section(&config_options[i], key, bytes)) {
            if (i < at) {
                return 0;
            }
            count += has_value(&config_options[i], config);
        }
    }
    return count;
}

void config_document(struct pack_writer *writer, const struct config *config)
{
    uint32_t entries = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        bool is_section = section_bytes(config_options[i].key) > 0;
        entries += is_section ? begins_section(i, config) > 0 : has_value(&config_options[i], config);
    }
    pack_map(writer, entries);
    for (size_t i = 0; i < config_option_count; i++) {
        const struct config_option *option = &config_options[i];
        size_t bytes = section_bytes(option->key);
        uint32_t count = bytes > 0 ? begins_section(i, config) : 0;
        if (bytes == 0 && has_value(option, config)) {
            pack_text(writer, option->key);
            pack_value(writer, option, config);
        }
        if (count == 0) {
            continue;
        }
        pack_text_n(writer, option->key, bytes);
        pack_map(writer, count);
        for (size_t k = i; k < config_option_count; k++) {
            const struct config_option *member = &config_options[k];
            if (is_in_section(member, option->key, bytes) && has_value(member, config)) {
                pack_text(writer, member->key + bytes + 1);
                pack_value(writer, member, config);
            }
        }
    }
}

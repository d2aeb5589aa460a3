#include "node/core/facts/config.h"

#include <string.h>

#include "base/err.h"

/* Bounds that only a record from elsewhere could break; config_yaml.c checks the same ones with better words. */

struct search_space config_search_space(const struct config *config)
{
    return (struct search_space){.kind = config->searcher,
                                 .max_trials = config->max_trials,
                                 .bytes = config->hyperparameters,
                                 .byte_count = config->hyperparameters_bytes};
}

#define FIELDS 23

void config_pack(struct pack_writer *writer, const struct config *config)
{
    pack_map(writer, FIELDS + config->balance);
    pack_text(writer, "name");
    pack_text(writer, config->name);
    pack_text(writer, "description");
    pack_text(writer, config->description);
    pack_text(writer, "entrypoint");
    pack_text(writer, config->entrypoint);
    pack_text(writer, "metric");
    pack_text(writer, config->metric);
    pack_text(writer, "smaller_is_better");
    pack_bool(writer, config->smaller_is_better);
    pack_text(writer, "searcher");
    pack_u64(writer, config->searcher);
    pack_text(writer, "max_trials");
    pack_u64(writer, config->max_trials);
    pack_text(writer, "slots_per_trial");
    pack_u64(writer, config->slots_per_trial);
    pack_text(writer, "min_slots");
    pack_u64(writer, config->min_slots);
    pack_text(writer, "max_slots");
    pack_u64(writer, config->max_slots);
    pack_text(writer, "priority");
    pack_u64(writer, config->priority);
    pack_text(writer, "slot_kind");
    pack_u64(writer, config->slot_kind);
    pack_text(writer, "max_restarts");
    pack_u64(writer, config->max_restarts);
    pack_text(writer, "seed");
    pack_u64(writer, config->seed);
    pack_text(writer, "preemption_timeout");
    pack_u64(writer, config->preemption_timeout_s);
    pack_text(writer, "replicas");
    pack_u64(writer, config->checkpoint_replicas);
    pack_text(writer, "save_experiment_best");
    pack_u64(writer, config->save_experiment_best);
    pack_text(writer, "save_trial_best");
    pack_u64(writer, config->save_trial_best);
    pack_text(writer, "save_trial_latest");
    pack_u64(writer, config->save_trial_latest);
    pack_text(writer, "on_partition");
    pack_u64(writer, config->on_partition);
    if (config->balance) {
        pack_text(writer, "balance");
        pack_bool(writer, true);
    }
    pack_text(writer, "environment");
    pack_raw(writer, config->environment, config->environment_bytes);
    pack_text(writer, "labels");
    pack_raw(writer, config->labels, config->labels_bytes);
    pack_text(writer, "hyperparameters");
    pack_raw(writer, config->hyperparameters, config->hyperparameters_bytes);
}

/* All that may go wrong while fields are looked up ends in one flag. */
struct fields {
    const struct pack_reader *map;
    bool failed;
};

static void text_field(struct fields *fields, const char *key, char *out, size_t size)
{
    struct pack_reader value = pack_find(fields->map, key);
    pack_read_text_copy(&value, out, size);
    fields->failed |= value.failed;
}

static uint64_t number_field(struct fields *fields, const char *key, uint64_t min, uint64_t max)
{
    struct pack_reader value = pack_find(fields->map, key);
    uint64_t number = pack_read_u64_max(&value, max);
    fields->failed |= value.failed || number < min;
    return number;
}

static uint32_t save_field(struct fields *fields, const char *key, uint32_t standard)
{
    bool is_there = !pack_find(fields->map, key).failed;
    return is_there ? (uint32_t)number_field(fields, key, 0, CONFIG_SAVE_MAX) : standard;
}

static bool truth_field(struct fields *fields, const char *key, bool standard)
{
    struct pack_reader value = pack_find(fields->map, key);
    if (value.failed) {
        return standard;
    }
    bool truth = pack_read_bool(&value);
    fields->failed |= value.failed;
    return truth;
}

static struct pack_reader raw_field(struct fields *fields, const char *key)
{
    struct pack_reader value = pack_find(fields->map, key);
    fields->failed |= value.failed || value.count > CONFIG_PACKED_BYTES_MAX;
    return value;
}

static bool is_word_char(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (!first && c >= '0' && c <= '9');
}

bool config_variable_is_reserved(const char *name, size_t bytes)
{
    static const char *const reserved[] = {"SHOAL_SOCKET", "SHOAL_TOKEN", "SHOAL_EXPERIMENT", "SHOAL_TRIAL", "SHOAL_ATTEMPT",
                                           "SHOAL_RANK",   "SHOAL_SIZE",  "SHOAL_SEED",       "SHOAL_HPARAMS"};
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (pack_text_is(name, bytes, reserved[i])) {
            return true;
        }
    }
    return false;
}

static bool variable_name_is_good(const char *name, size_t bytes)
{
    bool good = bytes > 0 && !config_variable_is_reserved(name, bytes);
    for (size_t i = 0; good && i < bytes; i++) {
        good = is_word_char(name[i], i == 0);
    }
    return good;
}

static bool environment_is_good(struct pack_reader map)
{
    uint32_t pairs = pack_read_map(&map);
    for (uint32_t i = 0; i < pairs && !map.failed; i++) {
        size_t bytes;
        const char *name = pack_read_text(&map, &bytes);
        if (!variable_name_is_good(name, bytes)) {
            return false;
        }
        const char *value = pack_read_text(&map, &bytes);
        if (memchr(value, '\0', bytes) != NULL) {
            return false;
        }
    }
    return pack_at_end(&map);
}

static bool labels_are_good(struct pack_reader array)
{
    for (uint32_t left = pack_read_array(&array); left > 0 && !array.failed; left--) {
        size_t bytes;
        const char *label = pack_read_text(&array, &bytes);
        if (bytes == 0 || memchr(label, '\0', bytes) != NULL) {
            return false;
        }
    }
    return pack_at_end(&array);
}

static bool search_is_good(const struct config *config)
{
    struct search_space space = config_search_space(config);
    uint32_t trials;
    return search_trial_count(&space, &trials) == 0;
}

int config_unpack(struct pack_reader *reader, struct config *out)
{
    size_t bytes;
    const uint8_t *start = pack_read_any(reader, &bytes);
    struct pack_reader map;
    pack_reader_init(&map, start, bytes);
    struct fields fields = {&map, reader->failed || bytes > CONFIG_PACKED_BYTES_MAX};
    struct config config;
    memset(&config, 0, sizeof config);
    text_field(&fields, "name", config.name, sizeof config.name);
    text_field(&fields, "description", config.description, sizeof config.description);
    text_field(&fields, "entrypoint", config.entrypoint, sizeof config.entrypoint);
    text_field(&fields, "metric", config.metric, sizeof config.metric);
    struct pack_reader smaller = pack_find(&map, "smaller_is_better");
    config.smaller_is_better = pack_read_bool(&smaller);
    config.searcher = (enum search_kind)number_field(&fields, "searcher", 0, SEARCH_RANDOM);
    config.max_trials = (uint32_t)number_field(&fields, "max_trials", 0, SEARCH_TRIALS_MAX);
    config.slots_per_trial = (uint32_t)number_field(&fields, "slots_per_trial", 1, CONFIG_SLOTS_MAX);
    config.min_slots = (uint32_t)number_field(&fields, "min_slots", 1, config.slots_per_trial);
    config.max_slots = (uint32_t)number_field(&fields, "max_slots", config.slots_per_trial, CONFIG_SLOTS_MAX);
    config.priority = (uint32_t)number_field(&fields, "priority", 1, 99);
    config.slot_kind = (enum config_slot_kind)number_field(&fields, "slot_kind", 0, CONFIG_SLOT_CUDA);
    config.max_restarts = (uint32_t)number_field(&fields, "max_restarts", 0, CONFIG_RESTARTS_MAX);
    config.seed = number_field(&fields, "seed", 0, INT64_MAX);
    config.preemption_timeout_s =
        (uint32_t)number_field(&fields, "preemption_timeout", 0, CONFIG_PREEMPTION_TIMEOUT_S_MAX);
    config.checkpoint_replicas = (uint32_t)number_field(&fields, "replicas", 1, CONFIG_REPLICAS_MAX);
    config.save_experiment_best = save_field(&fields, "save_experiment_best", 0);
    config.save_trial_best = save_field(&fields, "save_trial_best", 1);
    config.save_trial_latest = save_field(&fields, "save_trial_latest", 1);
    config.on_partition =
        (enum config_on_partition)number_field(&fields, "on_partition", 0, CONFIG_PARTITION_PAUSE_MINORITY);
    config.balance = truth_field(&fields, "balance", false);
    struct pack_reader environment = raw_field(&fields, "environment");
    struct pack_reader labels = raw_field(&fields, "labels");
    struct pack_reader hyperparameters = raw_field(&fields, "hyperparameters");
    config.environment = environment.bytes;
    config.environment_bytes = (uint32_t)environment.count;
    config.labels = labels.bytes;
    config.labels_bytes = (uint32_t)labels.count;
    config.hyperparameters = hyperparameters.bytes;
    config.hyperparameters_bytes = (uint32_t)hyperparameters.count;
    if (fields.failed || smaller.failed || config.name[0] == '\0' || config.entrypoint[0] == '\0' ||
        config.metric[0] == '\0' || !environment_is_good(environment) || !labels_are_good(labels) ||
        !search_is_good(&config)) {
        reader->failed = true;
        return ERR_MALFORMED;
    }
    *out = config;
    return 0;
}

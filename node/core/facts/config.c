#include "node/core/facts/config.h"

#include <string.h>

#include "base/check.h"
#include "base/err.h"
#include "node/core/facts/facts.h"
#include "node/core/facts/options.h"
#include "node/core/facts/program.h"

struct search_space config_search_space(const struct config *config)
{
    return (struct search_space){.kind = config->searcher,
                                 .max_trials = config->max_trials,
                                 .bytes = config->hyperparameters,
                                 .byte_count = config->hyperparameters_bytes};
}

/* One bracket of one rung: the whole length, or the end of a trial; of pbt the end of a round. */
static struct search_halving one_rung(const struct config *config)
{
    uint32_t concurrent = config->max_concurrent_trials;
    return (struct search_halving){.kind = SEARCH_ASHA,
                                   .rungs = 1,
                                   .divisor = config->divisor,
                                   .max_time = config->max_time > 0 ? config->max_time : SEARCH_TIME_MAX,
                                   .max_trials = config->max_trials,
                                   .max_concurrent_trials = concurrent > 0 ? concurrent : SEARCH_TRIALS_MAX};
}

uint64_t config_report_count(const struct config *config)
{
    return config->every == 0 || config->max_time == 0 ? 1 : (config->max_time - 1) / config->every + 1;
}

/* One bracket. Its rungs are the lengths at which the program wants to be told of a trial. */
static struct search_halving custom_halving(const struct config *config)
{
    struct search_halving halving = one_rung(config);
    uint64_t count = config_report_count(config);
    halving.rungs = count <= SEARCH_RUNGS_MAX ? (uint32_t)count : 0; /* 0 is not good */
    halving.every = config->every > 0 ? config->every : config->max_time;
    return halving;
}

struct search_halving config_search_halving(const struct config *config)
{
    if (config->searcher == SEARCH_CUSTOM) {
        return custom_halving(config);
    }
    if (config->searcher == SEARCH_TPE || config->searcher == SEARCH_PBT) {
        return one_rung(config);
    }
    struct search_halving halving = {.kind = config->searcher,
                                     .rungs = config->searcher == SEARCH_ASHA ? config->num_rungs : config->max_rungs,
                                     .divisor = config->divisor,
                                     .max_time = config->max_time,
                                     .max_trials = config->max_trials,
                                     .max_concurrent_trials = config->max_concurrent_trials,
                                     .mode = config->mode,
                                     .promotes = config->promotes,
                                     .bracket_count = config->bracket_count};
    memcpy(halving.bracket_rungs, config->bracket_rungs, sizeof halving.bracket_rungs);
    return halving;
}

uint64_t config_rung_target(const struct config *config, uint32_t trial, uint32_t rungs, uint32_t rung)
{
    const struct search_halving halving = config_search_halving(config);
    uint64_t rounds = config->searcher == SEARCH_PBT ? trial / config->population_size + 1 : 1;
    return rounds * search_rung_target(&halving, rungs, rung);
}

bool config_is_drawn(const struct config *config)
{
    struct pack_reader reader;
    struct search_head head;
    uint32_t parameters;
    if (!search_halves(config->searcher)) {
        return config->searcher == SEARCH_TPE || config->searcher == SEARCH_PBT || config->searcher == SEARCH_CUSTOM;
    }
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    return search_head_read(&reader, &head, &parameters) == 0 && head.sampler == SEARCH_SAMPLER_TPE;
}

bool config_needs_search(const struct config *config)
{
    struct search_space space = config_search_space(config);
    return search_judges(config->searcher) || !search_space_is_plain(&space);
}

bool config_needs_promotion(const struct config *config)
{
    return search_halves(config->searcher) && config->promotes;
}

bool config_needs_secrets(const struct config *config)
{
    return config->secrets_bytes > 0 || config->webhooks_bytes > 0 || config->tensorboard == CONFIG_TENSORBOARD_READ;
}

bool config_is_custom(const struct config *config)
{
    return config->searcher == SEARCH_CUSTOM;
}

enum config_time config_search_time(const struct config *config)
{
    bool is_step = strcmp(config->time_metric, "steps") == 0 || strcmp(config->time_metric, "batches") == 0;
    return is_step ? CONFIG_TIME_STEPS : strcmp(config->time_metric, "seconds") == 0 ? CONFIG_TIME_SECONDS : CONFIG_TIME_METRIC;
}

/* ---- packing ---- */

/* The environment, the labels and the hyperparameters are MessagePack already and follow the options of the table; then comes
 * an entrypoint that does not fit into the option. */
#define BYTE_FIELDS 3 /* and `keep`, `secrets`, `webhooks` and `bracket_rungs`, where there are such */
#define COMMAND_KEY "command"
#define PROGRAM_KEY "program" /* behind all others */

static bool is_standard(const struct config_option *option, const struct config *config)
{
    const char *standard = option->standard_text != NULL ? option->standard_text : "";
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        return strcmp((const char *)config + option->offset, standard) == 0;
    case OPTION_REAL:
        return config_option_real(option, config) == config_option_real_of(option, option->standard);
    default:
        return config_option_number(option, config) == option->standard;
    }
}

static bool is_packed(const struct config_option *option, const struct config *config)
{
    return option->packing == PACKED_ALWAYS || option->packing == PACKED_LATER ||
           (option->packing == PACKED_SPARSE && !is_standard(option, config));
}

static void option_pack(struct pack_writer *writer, const struct config_option *option, const struct config *config)
{
    pack_text(writer, option->packed_key);
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        pack_text(writer, (const char *)config + option->offset);
        break;
    case OPTION_NUMBER:
    case OPTION_WORD:
        pack_u64(writer, config_option_number(option, config));
        break;
    case OPTION_TRUTH:
        pack_bool(writer, config_option_number(option, config) != 0);
        break;
    case OPTION_REAL:
        pack_double(writer, config_option_real(option, config));
        break;
    case OPTION_OTHER:
        CHECK(false);
        break;
    }
}

void config_pack(struct pack_writer *writer, const struct config *config)
{
    const struct config_option *by_place[CONFIG_OPTIONS_MAX] = {NULL};
    uint32_t count = 0;
    for (size_t i = 0; i < config_option_count; i++) {
        if (is_packed(&config_options[i], config)) {
            CHECK(config_options[i].place < CONFIG_OPTIONS_MAX);
            by_place[config_options[i].place] = &config_options[i];
            count++;
        }
    }
    count += config->keep_bytes > 0 ? 1 : 0;
    count += config->secrets_bytes > 0 ? 1 : 0;
    count += config->webhooks_bytes > 0 ? 1 : 0;
    count += config->bracket_count > 0 || config->promotes ? 1 : 0;
    count += config->command != NULL ? 1 : 0;
    count += config->program[0] != '\0' ? 1 : 0;
    pack_map(writer, count + BYTE_FIELDS);
    for (size_t place = 0; place < CONFIG_OPTIONS_MAX; place++) {
        if (by_place[place] != NULL) {
            option_pack(writer, by_place[place], config);
        }
    }
    pack_text(writer, "environment");
    pack_raw(writer, config->environment, config->environment_bytes);
    pack_text(writer, "labels");
    pack_raw(writer, config->labels, config->labels_bytes);
    pack_text(writer, "hyperparameters");
    pack_raw(writer, config->hyperparameters, config->hyperparameters_bytes);
    if (config->keep_bytes > 0) {
        pack_text(writer, "keep");
        pack_raw(writer, config->keep, config->keep_bytes);
    }
    if (config->secrets_bytes > 0) {
        pack_text(writer, "secrets");
        pack_raw(writer, config->secrets, config->secrets_bytes);
    }
    if (config->webhooks_bytes > 0) {
        pack_text(writer, "webhooks");
        pack_raw(writer, config->webhooks, config->webhooks_bytes);
    }
    if (config->bracket_count > 0 || config->promotes) {
        pack_text(writer, "bracket_rungs");
        pack_array(writer, config->bracket_count + (config->promotes ? 1 : 0));
        if (config->promotes) {
            pack_u64(writer, 0); /* no number of rungs, so versions that do not promote refuse the record */
        }
        for (uint32_t i = 0; i < config->bracket_count; i++) {
            pack_u64(writer, config->bracket_rungs[i]);
        }
    }
    if (config->command != NULL) { /* bytes with a NUL at the end, so that readers can borrow it */
        pack_text(writer, COMMAND_KEY);
        pack_bin(writer, (const uint8_t *)config->command, strlen(config->command) + 1);
    }
    if (config->program[0] != '\0') {
        pack_text(writer, PROGRAM_KEY);
        pack_text(writer, config->program);
    }
}

/* ---- unpacking ---- */

static uint64_t word_last(const struct config_option *option)
{
    uint64_t count = 0;
    while (option->words[count] != NULL) {
        count++;
    }
    return count - 1;
}

/* Reads an option whose field still has its default. False if the value has another type or is out of bounds, or if the
 * record lacks an option that every record has. */
static bool option_unpack(const struct pack_reader *map, const struct config_option *option, struct config *config)
{
    struct pack_reader value = pack_find(map, option->packed_key);
    uint64_t number = 0;
    double real = 0;
    if (value.failed) {
        return option->packing != PACKED_ALWAYS;
    }
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        pack_read_text_copy(&value, (char *)config + option->offset, option->size);
        return !value.failed;
    case OPTION_NUMBER:
        number = pack_read_u64(&value);
        value.failed |= (number < option->min || number > option->max) && number != option->standard;
        break;
    case OPTION_WORD:
        number = pack_read_u64_max(&value, word_last(option));
        break;
    case OPTION_TRUTH:
        number = pack_read_bool(&value);
        break;
    case OPTION_REAL:
        real = pack_read_double(&value);
        if (value.failed || !config_option_real_is_good(option, real)) {
            return false;
        }
        config_option_set_real(option, real, config);
        return true;
    case OPTION_OTHER:
        return false;
    }
    if (!value.failed) {
        config_option_set_number(option, number, config);
    }
    return !value.failed;
}

/* Finds the bytes of a map or an array; config_is_good looks into them. */
static bool bytes_unpack(const struct pack_reader *map, const char *key, const uint8_t **bytes, uint32_t *count)
{
    struct pack_reader value = pack_find(map, key);
    *bytes = value.bytes;
    *count = (uint32_t)value.count;
    return !value.failed && value.count <= CONFIG_WHOLE_BYTES_MAX;
}

/* False if the command is not one text that ends in NUL and is longer than an entrypoint may be. */
static bool command_unpack(const struct pack_reader *map, const char **out)
{
    struct pack_reader value = pack_find(map, COMMAND_KEY);
    size_t bytes = 0;
    if (value.failed) {
        *out = NULL;
        return true;
    }
    const uint8_t *command = pack_read_bin(&value, &bytes);
    *out = (const char *)command;
    return !value.failed && bytes > CONFIG_ENTRYPOINT_BYTES && memchr(command, '\0', bytes) == command + bytes - 1;
}

static bool is_word_char(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (!first && c >= '0' && c <= '9');
}

static bool is_listed(const char *const *names, const char *name, size_t bytes)
{
    while (*names != NULL && !pack_text_is(name, bytes, *names)) {
        names++;
    }
    return *names != NULL;
}

/* The names that every version has refused. A record with one of them is malformed, so no name is ever added. */
static bool is_first_reserved(const char *name, size_t bytes)
{
    static const char *const first[] = {"SHOAL_SOCKET", "SHOAL_TOKEN", "SHOAL_EXPERIMENT", "SHOAL_TRIAL",   "SHOAL_ATTEMPT",
                                        "SHOAL_RANK",   "SHOAL_SIZE",  "SHOAL_SEED",       "SHOAL_HPARAMS", NULL};
    return is_listed(first, name, bytes);
}

bool config_variable_is_reserved(const char *name, size_t bytes)
{
    static const char *const later[] = {"SHOAL_PORTS",          "SHOAL_HPARAMS_FILE", "SHOAL_OUTPUT_DIR",
                                        "SHOAL_CHECKPOINT_DIR", "SHOAL_RESTORE_DIR",  "SHOAL_COLLECTIVE_TIMEOUT",
                                        "SHOAL_RUNGS",          "SHOAL_RUNG_UNIT",    "SHOAL_TENSORBOARD_DIR", NULL};
    bool is_hparam = bytes > 9 && memcmp(name, "SHOAL_HP_", 9) == 0;
    return is_first_reserved(name, bytes) || is_listed(later, name, bytes) || is_hparam;
}

bool config_variable_is_rank(const char *name, size_t bytes)
{
    static const char *const names[] = {"RANK",       "WORLD_SIZE",       "LOCAL_RANK",  "LOCAL_WORLD_SIZE",
                                        "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",   "ROLE_WORLD_SIZE",
                                        "NODE_RANK",  "MASTER_ADDR",      "MASTER_PORT", NULL};
    return is_listed(names, name, bytes);
}

static bool variable_name_is_good(const char *name, size_t bytes)
{
    bool good = bytes > 0 && !is_first_reserved(name, bytes);
    for (size_t i = 0; good && i < bytes; i++) {
        good = is_word_char(name[i], i == 0);
    }
    return good;
}

static bool environment_is_good(const struct config *config)
{
    struct pack_reader map;
    pack_reader_init(&map, config->environment, config->environment_bytes);
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

static bool labels_are_good(const struct config *config)
{
    struct pack_reader array;
    pack_reader_init(&array, config->labels, config->labels_bytes);
    for (uint32_t left = pack_read_array(&array); left > 0 && !array.failed; left--) {
        size_t bytes;
        const char *label = pack_read_text(&array, &bytes);
        if (bytes == 0 || memchr(label, '\0', bytes) != NULL) {
            return false;
        }
    }
    return pack_at_end(&array);
}

bool config_keep_is_good(const char *path, size_t bytes)
{
    if (bytes == 0 || bytes >= CONFIG_KEEP_BYTES || memchr(path, '\0', bytes) != NULL) {
        return false;
    }
    for (size_t at = 0; at <= bytes;) {
        size_t end = at;
        while (end < bytes && path[end] != '/') {
            end++;
        }
        bool is_dots = (end - at == 1 && path[at] == '.') || (end - at == 2 && path[at] == '.' && path[at + 1] == '.');
        if (end == at || is_dots) {
            return false;
        }
        at = end + 1;
    }
    return true;
}

static bool keep_is_good(const struct config *config)
{
    struct pack_reader array;
    pack_reader_init(&array, config->keep, config->keep_bytes);
    uint32_t count = config->keep_bytes > 0 ? pack_read_array(&array) : 0;
    for (uint32_t i = 0; i < count && !array.failed; i++) {
        size_t bytes;
        const char *path = pack_read_text(&array, &bytes);
        if (!config_keep_is_good(path, bytes)) {
            return false;
        }
    }
    return count <= CONFIG_KEEP_MAX && pack_at_end(&array);
}

bool config_secret_name_is_sound(const char *name, size_t bytes)
{
    return bytes < CONFIG_SECRET_BYTES && variable_name_is_good(name, bytes);
}

bool config_secret_is_good(const char *name, size_t bytes)
{
    return config_secret_name_is_sound(name, bytes) && !config_variable_is_rank(name, bytes) &&
           !config_variable_is_reserved(name, bytes);
}

static bool secrets_are_good(const struct config *config)
{
    struct pack_reader array;
    pack_reader_init(&array, config->secrets, config->secrets_bytes);
    uint32_t count = config->secrets_bytes > 0 ? pack_read_array(&array) : 0;
    for (uint32_t i = 0; i < count && !array.failed; i++) {
        size_t bytes;
        const char *name = pack_read_text(&array, &bytes);
        if (!config_secret_name_is_sound(name, bytes)) {
            return false;
        }
    }
    return count <= CONFIG_SECRETS_MAX && pack_at_end(&array);
}

bool config_secret(const struct config *config, uint32_t index, char out[CONFIG_SECRET_BYTES])
{
    struct pack_reader array;
    pack_reader_init(&array, config->secrets, config->secrets_bytes);
    uint32_t count = config->secrets_bytes > 0 ? pack_read_array(&array) : 0;
    for (uint32_t i = 0; i < count && i <= index; i++) {
        pack_read_text_copy(&array, out, CONFIG_SECRET_BYTES);
    }
    return index < count && !array.failed;
}

const char *const config_webhook_words[] = {"completed", "failed", "best", "node_lost", "log_match", NULL};

bool config_url_is_good(const char *url)
{
    size_t scheme = strncmp(url, "https://", 8) == 0 ? 8 : strncmp(url, "http://", 7) == 0 ? 7 : 0;
    if (strncmp(url, "secret:", 7) == 0) {
        return config_secret_name_is_sound(url + 7, strlen(url + 7));
    }
    for (const char *at = url; *at != '\0'; at++) {
        if (*at <= ' ' || *at > '~' || *at == '@' || *at == '\\') { /* no password, which a record would show */
            return false;
        }
    }
    return scheme > 0 && url[scheme] != '\0' && url[scheme] != '/' && url[scheme] != ':' && strlen(url) < CONFIG_URL_BYTES;
}

/* An element of `on`. */
static bool webhook_on_read(struct pack_reader *reader, struct config_webhook *out)
{
    struct pack_reader map = *reader, word = *reader;
    size_t bytes;
    if (pack_read_map(&map) == 1 && !map.failed) {
        const char *key = pack_read_text(&map, &bytes);
        bool is_pattern = !map.failed && pack_text_is(key, bytes, "log_match");
        pack_read_text_copy(&map, out->pattern, sizeof out->pattern);
        out->on |= 1u << FACT_HOOK_LOG_MATCH;
        *reader = map;
        return is_pattern && !map.failed && out->pattern[0] != '\0';
    }
    const char *text = pack_read_text(&word, &bytes);
    for (uint32_t i = 0; !word.failed && i < FACT_HOOK_LOG_MATCH; i++) {
        if (pack_text_is(text, bytes, config_webhook_words[i])) {
            out->on |= 1u << i;
            *reader = word;
            return true;
        }
    }
    return false;
}

bool config_webhook_read(struct pack_reader *reader, struct config_webhook *out)
{
    size_t bytes, form_bytes = 0;
    const uint8_t *start = pack_read_any(reader, &bytes);
    struct pack_reader map;
    struct config_webhook hook = {.on = 0};
    if (reader->failed) {
        return false;
    }
    pack_reader_init(&map, start, bytes);
    struct pack_reader url = pack_find(&map, "url"), on = pack_find(&map, "on"), secret = pack_find(&map, "secret"),
                       form = pack_find(&map, "form");
    pack_read_text_copy(&url, hook.url, sizeof hook.url);
    bool is_good = !url.failed && config_url_is_good(hook.url);
    for (uint32_t left = pack_read_array(&on); left > 0 && is_good; left--) {
        is_good = webhook_on_read(&on, &hook);
    }
    if (!secret.failed) {
        pack_read_text_copy(&secret, hook.secret, sizeof hook.secret);
        is_good = is_good && !secret.failed && config_secret_name_is_sound(hook.secret, strlen(hook.secret));
    }
    if (!form.failed) {
        const char *word = pack_read_text(&form, &form_bytes);
        hook.is_slack = !form.failed && pack_text_is(word, form_bytes, "slack");
        is_good = is_good && hook.is_slack;
    }
    if (!is_good || on.failed || hook.on == 0) {
        return false;
    }
    *out = hook;
    return true;
}

bool config_webhook(const struct config *config, uint32_t index, struct config_webhook *out)
{
    struct pack_reader array;
    pack_reader_init(&array, config->webhooks, config->webhooks_bytes);
    uint32_t count = config->webhooks_bytes > 0 ? pack_read_array(&array) : 0;
    for (uint32_t i = 0; i < count && i <= index; i++) {
        if (!config_webhook_read(&array, out)) {
            return false;
        }
    }
    return index < count;
}

static bool webhooks_are_good(const struct config *config)
{
    struct pack_reader array;
    struct config_webhook hook;
    pack_reader_init(&array, config->webhooks, config->webhooks_bytes);
    uint32_t count = config->webhooks_bytes > 0 ? pack_read_array(&array) : 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!config_webhook_read(&array, &hook)) {
            return false;
        }
    }
    return count <= CONFIG_WEBHOOKS_MAX && pack_at_end(&array);
}

bool config_python_is_good(const char *python)
{
    return python[0] != '-' && strchr(python, '=') == NULL;
}

static bool packages_are_good(const struct config *config)
{
    bool is_path = config->requirements[0] == '\0' || config_keep_is_good(config->requirements, strlen(config->requirements));
    return is_path && config_python_is_good(config->python);
}

static bool halving_is_good(const struct config *config)
{
    const struct search_halving halving = config_search_halving(config);
    bool has_program = config->searcher != SEARCH_CUSTOM || (config->searcher_entrypoint[0] != '\0' && config->max_time > 0);
    return has_program && (!search_judges(config->searcher) || search_halving_is_good(&halving)) && (search_halves(config->searcher) || !config->promotes);
}

/* A record from another node may have any numbers within the bounds of the table. */
static bool population_is_good(const struct config *config)
{
    return config->searcher != SEARCH_PBT ||
           (config->population_size > 0 && config->max_trials == config->population_size * config->num_rounds && config->max_time > 0 &&
            config->max_time <= SEARCH_TIME_MAX && config_search_time(config) != CONFIG_TIME_SECONDS);
}

static bool search_is_good(const struct config *config)
{
    struct search_space space = config_search_space(config);
    uint32_t trials;
    return search_trial_count(&space, &trials) == 0;
}

/* A number in decimal digits at `*at`, which moves behind it; UINT64_MAX: there is none, or it is too large. */
static uint64_t read_digits(const char **at)
{
    uint64_t number = 0;
    const char *from = *at;
    for (; **at >= '0' && **at <= '9' && *at - from < 19; ++*at) {
        number = 10 * number + (uint64_t)(**at - '0');
    }
    return *at > from && (**at < '0' || **at > '9') ? number : UINT64_MAX;
}

bool config_begin(const struct config *config, struct config_begin *out)
{
    struct config_begin begin;
    char id[2 * EXPERIMENT_ID_BYTES + 1] = "";
    const char *at = config->begin_from;
    if (strlen(at) <= sizeof id || at[sizeof id - 1] != '/') {
        return false;
    }
    memcpy(id, at, sizeof id - 1);
    at += sizeof id;
    uint64_t trial = read_digits(&at);
    bool is_sound = bytes_from_hex(begin.experiment.bytes, EXPERIMENT_ID_BYTES, id) == 0 && trial < SEARCH_TRIALS_MAX && *at++ == '@';
    begin.step = is_sound ? read_digits(&at) : 0;
    if (!is_sound || *at != '\0' || begin.step == 0 || begin.step == UINT64_MAX) {
        return false;
    }
    begin.trial = (uint32_t)trial;
    *out = begin;
    return true;
}

/* Coordinators draw, so every form has the whole space. */
static bool drawn_is_good(const struct config *config)
{
    struct pack_reader reader;
    struct search_head head;
    uint32_t parameters;
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    return !config_is_drawn(config) || (search_is_good(config) && search_head_read(&reader, &head, &parameters) == 0 && parameters > 0 &&
                                        parameters <= CONFIG_DRAWN_PARAMETERS_MAX);
}

/* Checks what the table cannot say. node/config/config_yaml.c refuses the same configurations with a sentence for
 * the user; a record from another node may still contain them. */
static bool config_is_good(const struct config *config, enum config_form form)
{
    bool has_entrypoint = config->entrypoint[0] != '\0', has_command = config->command != NULL;
    bool is_whole = form == CONFIG_PLAIN ? has_entrypoint && !has_command : has_entrypoint != has_command;
    return config->name[0] != '\0' && (form == CONFIG_LEAN ? !has_entrypoint && !has_command : is_whole) &&
           config->metric[0] != '\0' && config->min_slots <= config->slots_per_trial &&
           config->max_slots >= config->slots_per_trial && environment_is_good(config) && labels_are_good(config) &&
           keep_is_good(config) && secrets_are_good(config) && webhooks_are_good(config) && packages_are_good(config) &&
           halving_is_good(config) && population_is_good(config) &&
           (config->keep_ranks != CONFIG_KEEP_ALL || config->max_slots <= CONFIG_KEEP_ALL_SLOTS_MAX) &&
           (form == CONFIG_LEAN || search_is_good(config)) && drawn_is_good(config);
}

/* Most records have no `keep`. */
static bool keep_unpack(const struct pack_reader *map, struct config *config)
{
    return pack_find(map, "keep").failed || bytes_unpack(map, "keep", &config->keep, &config->keep_bytes);
}

/* Nor `secrets`. */
static bool secrets_unpack(const struct pack_reader *map, struct config *config)
{
    return pack_find(map, "secrets").failed || bytes_unpack(map, "secrets", &config->secrets, &config->secrets_bytes);
}

/* Nor `webhooks`. */
static bool webhooks_unpack(const struct pack_reader *map, struct config *config)
{
    return pack_find(map, "webhooks").failed || bytes_unpack(map, "webhooks", &config->webhooks, &config->webhooks_bytes);
}

/* Few records have `bracket_rungs`. halving_is_good looks into them. A 0 before them: the search promotes. */
static bool bracket_rungs_unpack(const struct pack_reader *map, struct config *config)
{
    struct pack_reader value = pack_find(map, "bracket_rungs");
    if (value.failed) {
        return true;
    }
    uint32_t count = pack_read_array(&value);
    struct pack_reader first = value;
    if (count > 0 && pack_read_u64(&first) == 0 && !first.failed) {
        config->promotes = true;
        value = first;
        count--;
    }
    if (count > SEARCH_BRACKETS_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        config->bracket_rungs[i] = (uint8_t)pack_read_u64_max(&value, SEARCH_RUNGS_MAX);
    }
    config->bracket_count = count;
    return !value.failed;
}

/* The lean form only has it. False if it is no word of a program. */
static bool program_unpack(const struct pack_reader *map, enum config_form form, struct config *config)
{
    struct pack_reader value = pack_find(map, PROGRAM_KEY);
    if (form == CONFIG_LEAN && !value.failed) {
        pack_read_text_copy(&value, config->program, sizeof config->program);
        return !value.failed && program_name_is_good(config->program);
    }
    return true;
}

int config_unpack_form(struct pack_reader *reader, enum config_form form, struct config *out)
{
    size_t bytes;
    const uint8_t *start = pack_read_any(reader, &bytes);
    bool is_good = !reader->failed && bytes <= (form == CONFIG_WHOLE ? CONFIG_WHOLE_BYTES_MAX : CONFIG_PACKED_BYTES_MAX);
    struct pack_reader map;
    pack_reader_init(&map, start, bytes);
    struct config config;
    config_options_set_standard(&config);
    for (size_t i = 0; i < config_option_count && is_good; i++) {
        is_good = config_options[i].packing == PACKED_NOT || option_unpack(&map, &config_options[i], &config);
    }
    is_good = is_good && bytes_unpack(&map, "environment", &config.environment, &config.environment_bytes) &&
              bytes_unpack(&map, "labels", &config.labels, &config.labels_bytes) &&
              bytes_unpack(&map, "hyperparameters", &config.hyperparameters, &config.hyperparameters_bytes) &&
              keep_unpack(&map, &config) && secrets_unpack(&map, &config) && webhooks_unpack(&map, &config) &&
              bracket_rungs_unpack(&map, &config) && program_unpack(&map, form, &config) && command_unpack(&map, &config.command) &&
              config_is_good(&config, form);
    if (!is_good) {
        reader->failed = true;
        return ERR_MALFORMED;
    }
    *out = config;
    return 0;
}

int config_unpack(struct pack_reader *reader, struct config *out)
{
    return config_unpack_form(reader, CONFIG_PLAIN, out);
}

/* ---- forms ---- */

const char *config_entrypoint(const struct config *config)
{
    return config->command != NULL ? config->command : config->entrypoint;
}

/* The bounds of the first versions, which read records of experiments as they are now. Never changed. */
#define PLAIN_PARAMETERS 64
#define PLAIN_SEARCH_BYTES 4096 /* of the packed search space, and of the values of a trial */
#define PLAIN_NAME_BYTES 256    /* of a variable, with a NUL */
#define PLAIN_VALUE_BYTES 2048
#define PLAIN_SLOTS 64

static bool search_is_plain(const struct config *config)
{
    struct search_space space = config_search_space(config);
    struct search_head head;
    struct pack_reader reader;
    uint32_t parameters;
    pack_reader_init(&reader, config->hyperparameters, config->hyperparameters_bytes);
    return config->hyperparameters_bytes <= PLAIN_SEARCH_BYTES && search_head_read(&reader, &head, &parameters) == 0 &&
           parameters <= PLAIN_PARAMETERS &&
           search_values_bytes_max(&space) <= PLAIN_SEARCH_BYTES;
}

static bool environment_is_plain(const struct config *config)
{
    struct pack_reader map;
    size_t name_bytes = 0, value_bytes = 0;
    pack_reader_init(&map, config->environment, config->environment_bytes);
    for (uint32_t left = pack_read_map(&map); left > 0 && !map.failed; left--) {
        (void)pack_read_text(&map, &name_bytes);
        (void)pack_read_text(&map, &value_bytes);
        if (name_bytes >= PLAIN_NAME_BYTES || value_bytes >= PLAIN_VALUE_BYTES) {
            return false;
        }
    }
    return !map.failed;
}

/* The length when packed; above CONFIG_PACKED_BYTES_MAX: it does not fit into a record. */
static size_t packed_bytes(const struct config *config)
{
    uint8_t bytes[CONFIG_PACKED_BYTES_MAX];
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, sizeof bytes);
    config_pack(&writer, config);
    return writer.failed ? sizeof bytes + 1 : writer.used_bytes;
}

bool config_is_plain(const struct config *config)
{
    return config->command == NULL && config->max_slots <= PLAIN_SLOTS && (search_is_plain(config) || config_is_drawn(config)) &&
           environment_is_plain(config) && packed_bytes(config) <= CONFIG_PACKED_BYTES_MAX;
}

void config_make_lean(const struct config *config, struct config *lean)
{
    static const uint8_t no_pairs[] = {0x80}, no_elements[] = {0x90};
    static const uint8_t empty_head[] = {0x91, 0x80}; /* no parameters, in a form that the first versions refuse, as the whole */
    struct search_space space = config_search_space(config);
    *lean = *config;
    (void)program_of_config(config, lean->program);
    memset(lean->entrypoint, 0, sizeof lean->entrypoint);
    lean->command = NULL;
    lean->environment = no_pairs;
    lean->labels = no_elements;
    lean->environment_bytes = lean->labels_bytes = 1;
    /* Coordinators draw in the space, so it stays where they need it; what does not fit then is refused. */
    if (!config_is_drawn(config) && (!search_is_plain(config) || packed_bytes(lean) > CONFIG_PACKED_BYTES_MAX)) {
        bool is_read_by_all = search_space_is_plain(&space);
        lean->hyperparameters = is_read_by_all ? no_elements : empty_head;
        lean->hyperparameters_bytes = is_read_by_all ? sizeof no_elements : sizeof empty_head;
    }
}

void config_blob_pack(struct pack_writer *writer, const struct config *config, const char *text, size_t text_bytes)
{
    pack_array(writer, 2);
    config_pack(writer, config);
    pack_text_n(writer, text, text_bytes);
}

int config_blob_read(const uint8_t *bytes, size_t count, struct config *out)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    if (count > CONFIG_BLOB_BYTES_MAX || pack_read_array(&reader) < 2) {
        return ERR_MALFORMED;
    }
    return config_unpack_form(&reader, CONFIG_WHOLE, out);
}

#include "node/config/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/units.h"
#include "node/config/scalar.h"

/* Keys of a later Shoal: each gets its own sentence. */
static const struct {
    const char *key, *why;
} refusals[] = {
    {"user", "the node that takes the experiment writes down the account that submits it; remove the key"},
    {"sync", "local SGD is not supported yet; remove the key, and gradients are averaged at every step"},
};

/* Other words of Determined for the same. */
static const struct {
    const char *key, *word, *meant;
} synonyms[] = {
    {"searcher.name", "async_halving", "asha"},
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
    if (option->allowed != NULL) {
        return option->allowed;
    }
    out[0] = '\0';
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        (void)snprintf(out, size, "texts of %d ... %zu bytes without %scontrol characters", option->kind != OPTION_LINES,
                       option->size - 1, option->kind == OPTION_NAME ? "'/' and " : "");
        break;
    case OPTION_NUMBER:
        used = (size_t)snprintf(out, size, "%" PRIu64 " ... %" PRIu64, option->min, option->max);
        if (option->unit != OPTION_PLAIN && used < size) {
            (void)snprintf(out + used, size - used, " %s, and numbers with the units %s",
                           option->unit == OPTION_SECONDS ? "seconds" : "bytes",
                           option->unit == OPTION_SECONDS ? UNITS_TIME_WORDS : UNITS_SIZE_WORDS);
        }
        break;
    case OPTION_REAL:
        (void)snprintf(out, size, option->parts > 0 ? "numbers from %.10g to %.10g" : "numbers above %.10g, up to %.10g",
                       config_option_real_of(option, option->min), config_option_real_of(option, option->max));
        break;
    case OPTION_TRUTH:
        return "true, false, on, off";
    case OPTION_WORD:
        for (size_t i = 0; option->words[i] != NULL && used < size; i++) {
            used += (size_t)snprintf(out + used, size - used, "%s%s", i > 0 ? ", " : "", option->words[i]);
        }
        break;
    case OPTION_OTHER:
        break;
    }
    return out;
}

const char *options_standard(const struct config_option *option, char *out, size_t size)
{
    char unit_text[UNITS_BYTES];
    if (option->standard_words != NULL) {
        return option->standard_words;
    }
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        return option->standard_text != NULL ? option->standard_text : "none";
    case OPTION_NUMBER:
        if (option->unit == OPTION_SECONDS) {
            units_write_time(unit_text, option->standard);
        } else if (option->unit == OPTION_BYTES) {
            units_write_size(unit_text, option->standard);
        } else {
            (void)snprintf(unit_text, sizeof unit_text, "%" PRIu64, option->standard);
        }
        (void)snprintf(out, size, "%s", unit_text);
        return out;
    case OPTION_REAL:
        (void)snprintf(out, size, "%.10g", config_option_real_of(option, option->standard));
        return out;
    case OPTION_TRUTH:
        return option->standard != 0 ? "on" : "off";
    case OPTION_WORD:
        return option->words[option->standard];
    case OPTION_OTHER:
        break;
    }
    return "none";
}

/* `on` and `off` are texts in YAML 1.2, but truth values in YAML 1.1; accepted where only a truth value can stand. */
static bool read_truth(const struct tree_node *node, const struct scalar *scalar, uint64_t *out)
{
    bool is_on = node->is_plain && strcmp(node->text, "on") == 0, is_off = node->is_plain && strcmp(node->text, "off") == 0;
    *out = is_on || (!is_off && scalar->truth);
    return is_on || is_off || scalar->type == SCALAR_TRUTH;
}

static bool read_number(const struct config_option *option, const struct tree_node *node, const struct scalar *scalar,
                        uint64_t *out)
{
    if (scalar->type == SCALAR_TEXT && option->unit != OPTION_PLAIN) {
        int error = option->unit == OPTION_SECONDS ? units_read_time(node->text, option->max, out)
                                                   : units_read_size(node->text, option->max, out);
        return error == 0 && *out >= option->min;
    }
    *out = scalar->magnitude;
    return scalar->type == SCALAR_INTEGER && (!scalar->is_negative || scalar->magnitude == 0) &&
           scalar->magnitude >= option->min && scalar->magnitude <= option->max;
}

static bool read_word(const struct config_option *option, const struct tree_node *node, uint64_t *out)
{
    const char *text = node->text;
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++) {
        bool is_it = strcmp(option->key, synonyms[i].key) == 0 && strcmp(text, synonyms[i].word) == 0;
        text = is_it ? synonyms[i].meant : text;
    }
    for (*out = 0; option->words[*out] != NULL; (*out)++) {
        if (strcmp(text, option->words[*out]) == 0) {
            return true;
        }
    }
    return false;
}

bool options_store(const struct config_option *option, const struct tree_node *node, struct config *config)
{
    if (node->kind != TREE_SCALAR) {
        return false;
    }
    struct scalar scalar = scalar_read(node->text, node->is_plain);
    uint64_t number = 0;
    bool is_good = false;
    switch (option->kind) {
    case OPTION_TEXT:
    case OPTION_NAME:
    case OPTION_LINES:
        return scalar_is_clean(node->text, option->kind == OPTION_LINES) &&
               (option->kind != OPTION_NAME || strchr(node->text, '/') == NULL) && /* NAME/TRIAL names a trial */
               (node->text[0] != '\0' || option->kind == OPTION_LINES) &&
               bytes_copy_text((char *)config + option->offset, option->size, node->text);
    case OPTION_NUMBER:
        is_good = read_number(option, node, &scalar, &number);
        break;
    case OPTION_TRUTH:
        is_good = read_truth(node, &scalar, &number);
        break;
    case OPTION_WORD:
        is_good = read_word(option, node, &number);
        break;
    case OPTION_REAL:
        is_good = (scalar.type == SCALAR_INTEGER || scalar.type == SCALAR_NUMBER) && config_option_real_is_good(option, scalar.number);
        if (is_good) {
            config_option_set_real(option, scalar.number, config);
        }
        return is_good;
    case OPTION_OTHER:
        break;
    }
    if (is_good) {
        config_option_set_number(option, number, config);
    }
    return is_good;
}

size_t options_section_keys(const char *section, char words[CONFIG_OPTIONS_MAX][TREE_KEY_BYTES_MAX])
{
    size_t count = 0, prefix_bytes = strlen(section);
    for (size_t i = 0; i < config_option_count; i++) {
        const char *rest = config_options[i].key + prefix_bytes;
        if (strncmp(config_options[i].key, section, prefix_bytes) == 0 && !config_options[i].is_of_submitter) {
            char word[TREE_KEY_BYTES_MAX];
            (void)bytes_copy_text_n(word, sizeof word, rest, strcspn(rest, "."));
            if (count == 0 || strcmp(words[count - 1], word) != 0) { /* the rows of a section stand together */
                memcpy(words[count++], word, sizeof word);
            }
        }
    }
    return count;
}

#include "node/config/fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/pattern.h"
#include "base/units.h"
#include "node/config/determined.h"
#include "node/config/hparams.h"
#include "node/config/packed.h"
#include "node/config/scalar.h"
#include "node/core/facts/options.h"

#define VARIABLES_MAX 256
#define VARIABLE_BYTES_MAX (128u * 1024) /* Linux starts no program with a longer one (MAX_ARG_STRLEN), the NUL included */
#define LABELS_MAX 64
#define LABEL_BYTES_MAX 63
#define START_IN_S_MAX (366u * 86400) /* a later start is written as a time */

/* A placeholder of a hyperparameter stays outside of quotes: its value brings its own. */
static bool is_shell_safe(const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    const char *at = text;
    for (size_t bytes; *at != '\0'; at += bytes) {
        bytes = strspn(at, safe);
        if (bytes == 0 && !hparams_is_placeholder(at, &bytes)) {
            return false;
        }
    }
    return text[0] != '\0';
}

/* Fails with "KEY is (the value); allowed is ..." of the option with this key. */
static int fail_option(struct tree *tree, const struct tree_node *node, const char *key)
{
    return tree_fail_type(tree, node, key, config_option_find(key)->allowed);
}

/* Room for an entrypoint, at the end of the packed parts. */
struct text_writer {
    char *text;
    size_t used, size; /* with room for a NUL */
};

/* False if it does not fit. */
static bool append(struct text_writer *to, const char *text, size_t bytes)
{
    if (bytes >= to->size - to->used) {
        return false;
    }
    memcpy(to->text + to->used, text, bytes);
    to->used += bytes;
    to->text[to->used] = '\0';
    return true;
}

/* Appends `text` so that a POSIX shell reads it as one word. False if it does not fit. */
static bool append_quoted(struct text_writer *to, const char *text)
{
    bool fits = to->used == 0 || append(to, " ", 1);
    if (is_shell_safe(text)) {
        return fits && append(to, text, strlen(text));
    }
    fits = fits && append(to, "'", 1);
    for (size_t bytes; fits && *text != '\0'; text += bytes) {
        bytes = strcspn(text, "'");
        fits = append(to, text, bytes) && (text[bytes] == '\0' || append(to, "'\\''", 4));
        bytes += text[bytes] != '\0';
    }
    return fits && append(to, "'", 1);
}

int fields_read_entrypoint(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    struct text_writer text = {.text = (char *)packed->bytes + packed->used_bytes,
                               .size = packed->capacity_bytes - packed->used_bytes};
    bool good = node->kind != TREE_MAP && !packed->failed && text.size > 0;
    if (good && node->kind == TREE_SCALAR) {
        size_t bytes = strlen(node->text);
        while (bytes > 0 && strchr(" \t\n", node->text[bytes - 1]) != NULL) { /* cut the newline of a block scalar */
            bytes--;
        }
        good = append(&text, node->text, bytes);
    }
    for (const struct tree_node *word = node->first; word != NULL && good; word = word->next) {
        good = word->kind == TREE_SCALAR && append_quoted(&text, word->text);
    }
    if (!good || text.used == 0) {
        return fail_option(tree, node, "entrypoint");
    }
    struct determined_launcher launcher = {.bytes = 0};
    if (determined_find_launcher(text.text, &launcher) && !launcher.is_dropped) {
        return tree_fail(tree, node, "the launcher %.*s %s", (int)(launcher.name_bytes < 60 ? launcher.name_bytes : 60), launcher.name,
                         launcher.advice);
    }
    text.used -= launcher.bytes;
    memmove(text.text, text.text + launcher.bytes, text.used + 1);
    if (text.used < CONFIG_ENTRYPOINT_BYTES) {
        return bytes_copy_text(config->entrypoint, sizeof config->entrypoint, text.text) ? 0 : ERR_MALFORMED;
    }
    config->command = text.text;
    packed->used_bytes += text.used + 1;
    return 0;
}

int fields_read_labels(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    struct tree_node no_labels = {.kind = TREE_LIST, .line = 1};
    node = node != NULL ? node : &no_labels;
    uint32_t count = 0;
    for (const struct tree_node *label = node->first; label != NULL; label = label->next) {
        count++;
    }
    if (node->kind != TREE_LIST || count > LABELS_MAX) {
        return fail_option(tree, node, "labels");
    }
    size_t start = packed->used_bytes;
    int error = 0;
    pack_array(packed, count);
    for (const struct tree_node *label = node->first; label != NULL; label = label->next) {
        if (label->kind != TREE_SCALAR || label->text[0] == '\0' || strlen(label->text) > LABEL_BYTES_MAX ||
            !scalar_is_clean(label->text, false)) {
            error = fail_option(tree, label, "labels");
        }
        pack_text(packed, label->text);
    }
    return error != 0 ? error : packed_since(tree, node, packed, start, &config->labels, &config->labels_bytes);
}

int fields_read_keep(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    uint32_t count = 0;
    if (node == NULL) {
        return 0;
    }
    for (const struct tree_node *path = node->first; path != NULL; path = path->next) {
        count++;
    }
    if (node->kind != TREE_LIST || count > CONFIG_KEEP_MAX) {
        return fail_option(tree, node, "keep");
    }
    size_t start = packed->used_bytes;
    int error = 0;
    pack_array(packed, count);
    for (const struct tree_node *path = node->first; path != NULL; path = path->next) {
        size_t bytes = path->kind == TREE_SCALAR ? strlen(path->text) : 0;
        while (bytes > 1 && path->text[bytes - 1] == '/') {
            bytes--;
        }
        size_t dots = bytes > 2 && path->text[0] == '.' && path->text[1] == '/' ? 2 : 0; /* "./runs" is "runs" */
        if (bytes == 0 || !scalar_is_clean(path->text, false)) {
            error = fail_option(tree, path, "keep");
        } else if (!config_keep_is_good(path->text + dots, bytes - dots)) {
            error = tree_fail(tree, path,
                              "keep has '%.80s'; allowed are paths below the context directory, such as checkpoints/, without "
                              "'..' and not absolute (a program can write elsewhere into $SHOAL_OUTPUT_DIR)",
                              path->text);
        } else {
            pack_text_n(packed, path->text + dots, bytes - dots);
        }
    }
    return error != 0 ? error : count > 0 ? packed_since(tree, node, packed, start, &config->keep, &config->keep_bytes) : 0;
}

/* The variables of both notations. Names are checked; values are taken as written. */
struct variables {
    const char *names[VARIABLES_MAX];
    size_t name_bytes[VARIABLES_MAX];
    const char *values[VARIABLES_MAX];
    uint32_t count;
};

/* 0, ERR_MALFORMED, or ERR_FULL: no more are taken. */
static int variable_add(struct tree *tree, struct variables *variables, const struct tree_node *node, const char *name,
                        size_t bytes, const char *value)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    int shown = bytes < 60 ? (int)bytes : 60;
    if (bytes == 0 || strspn(name, letters) < bytes || (name[0] >= '0' && name[0] <= '9')) {
        return tree_fail(tree, node,
                         "the environment variable '%.*s' has a bad name; allowed are letters, digits and _, no "
                         "digit first",
                         shown, name);
    }
    if (config_variable_is_rank(name, bytes)) {
        return tree_fail(tree, node,
                         "the environment variable '%.*s' is set by the daemon for each rank; remove it, and set a variable of "
                         "another name in the entrypoint if a program needs it",
                         shown, name);
    }
    if (config_variable_is_reserved(name, bytes)) {
        return tree_fail(tree, node, "the environment variable '%.*s' is set by the daemon; choose another name", shown,
                         name);
    }
    if (bytes + strlen(value) + 2 > VARIABLE_BYTES_MAX) {
        return tree_fail(tree, node,
                         "the environment variable '%.*s' has %zu bytes with its name; the kernel takes at most %u", shown, name,
                         bytes + strlen(value) + 1, VARIABLE_BYTES_MAX - 1);
    }
    for (uint32_t i = 0; i < variables->count; i++) {
        if (variables->name_bytes[i] == bytes && memcmp(variables->names[i], name, bytes) == 0) {
            return tree_fail(tree, node, "the environment variable '%.*s' is given twice; remove one of them", shown,
                             name);
        }
    }
    if (variables->count == VARIABLES_MAX) {
        (void)tree_fail(tree, node, "there are too many environment variables; allowed are %d", VARIABLES_MAX);
        return ERR_FULL;
    }
    variables->names[variables->count] = name;
    variables->name_bytes[variables->count] = bytes;
    variables->values[variables->count] = value;
    variables->count++;
    return 0;
}

static int read_variable_list(struct tree *tree, const struct tree_node *list, struct variables *variables)
{
    int error = 0;
    if (list->kind != TREE_LIST) {
        return fail_option(tree, list, "environment.environment_variables");
    }
    for (const struct tree_node *item = list->first; item != NULL && error != ERR_FULL; item = item->next) {
        const char *equals = item->kind == TREE_SCALAR ? strchr(item->text, '=') : NULL;
        int result = equals == NULL
                         ? fail_option(tree, item, "environment.environment_variables")
                         : variable_add(tree, variables, item, item->text, (size_t)(equals - item->text), equals + 1);
        error = result != 0 ? result : error;
    }
    return error;
}

static int read_variable_map(struct tree *tree, const struct tree_node *map, struct variables *variables)
{
    int error = 0;
    if (map->kind != TREE_MAP) {
        return fail_option(tree, map, "environment.variables");
    }
    for (const struct tree_node *item = map->first; item != NULL && error != ERR_FULL; item = item->next) {
        int result = item->kind != TREE_SCALAR ? fail_option(tree, item, "environment.variables")
                                               : variable_add(tree, variables, item, item->key, strlen(item->key),
                                                              tree_is_null(item) ? "" : item->text);
        error = result != 0 ? result : error;
    }
    return error;
}

int fields_read_environment(struct tree *tree, const struct tree_node *list, const struct tree_node *map,
                            struct pack_writer *packed, struct config *config)
{
    struct variables variables = {.count = 0};
    int error = list != NULL ? read_variable_list(tree, list, &variables) : 0;
    if (map != NULL && error != ERR_FULL) {
        int result = read_variable_map(tree, map, &variables);
        error = result != 0 ? result : error;
    }
    if (error != 0) {
        return ERR_MALFORMED;
    }
    size_t start = packed->used_bytes;
    pack_map(packed, variables.count);
    for (uint32_t i = 0; i < variables.count; i++) {
        pack_text_n(packed, variables.names[i], variables.name_bytes[i]);
        pack_text(packed, variables.values[i]);
    }
    return packed_since(tree, list != NULL ? list : map, packed, start, &config->environment,
                        &config->environment_bytes);
}

/* ---- secrets ----------------------------------------------------------------------------------------------------- */

static bool has_variable(const struct config *config, const char *name)
{
    struct pack_reader reader;
    size_t bytes;
    bool is_there = false;
    pack_reader_init(&reader, config->environment, config->environment_bytes);
    for (uint32_t left = config->environment_bytes > 0 ? pack_read_map(&reader) : 0; left > 0 && !reader.failed; left--) {
        const char *variable = pack_read_text(&reader, &bytes);
        is_there |= !reader.failed && pack_text_is(variable, bytes, name);
        (void)pack_read_text(&reader, &bytes);
    }
    return is_there;
}

static int secret_check(struct tree *tree, const struct tree_node *list, const struct tree_node *item, const struct config *config)
{
    if (item->kind != TREE_SCALAR) {
        return fail_option(tree, item, "secrets");
    }
    if (!config_secret_is_good(item->text, strlen(item->text))) {
        return tree_fail(tree, item,
                         "secrets has '%.60s', which is no name for a secret; allowed are names of environment variables that the daemon "
                         "does not set: letters, digits and _, no digit first, at most %d bytes",
                         item->text, CONFIG_SECRET_BYTES - 1);
    }
    for (const struct tree_node *other = list->first; other != item; other = other->next) {
        if (other->kind == TREE_SCALAR && strcmp(other->text, item->text) == 0) {
            return tree_fail(tree, item, "secrets has %.60s twice; remove one of them", item->text);
        }
    }
    if (has_variable(config, item->text)) {
        return tree_fail(tree, item, "%.60s is a secret and a variable of environment; remove one of them", item->text);
    }
    return 0;
}

int fields_read_secrets(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    uint32_t count = 0;
    if (node == NULL) {
        return 0;
    }
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        count++;
    }
    if (node->kind != TREE_LIST || count > CONFIG_SECRETS_MAX) {
        return fail_option(tree, node, "secrets");
    }
    size_t start = packed->used_bytes;
    int error = 0;
    pack_array(packed, count);
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        int result = secret_check(tree, node, item, config);
        error = result != 0 ? result : error;
        pack_text(packed, item->text);
    }
    return error != 0 ? error : count > 0 ? packed_since(tree, node, packed, start, &config->secrets, &config->secrets_bytes) : 0;
}

/* ---- waits ------------------------------------------------------------------------------------------------------- */

int fields_read_depends_on(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    uint32_t count = 0;
    if (node == NULL) {
        return 0;
    }
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        count++;
    }
    if (node->kind != TREE_LIST || count > CONFIG_DEPENDS_MAX) {
        return fail_option(tree, node, "depends_on");
    }
    size_t start = packed->used_bytes;
    pack_array(packed, count);
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        if (item->kind != TREE_SCALAR || item->text[0] == '\0' || strlen(item->text) >= CONFIG_NAME_BYTES ||
            !scalar_is_clean(item->text, false)) {
            return fail_option(tree, item, "depends_on");
        }
        pack_text(packed, item->text);
    }
    return count > 0 ? packed_since(tree, node, packed, start, &config->dependencies, &config->dependencies_bytes) : 0;
}

/* The time of day that is so many seconds behind 1970 where this process runs, in seconds since 1970. */
static bool here(uint64_t day_s, uint64_t *out)
{
    time_t seconds = (time_t)day_s;
    struct tm parts;
    if (gmtime_r(&seconds, &parts) == NULL) {
        return false;
    }
    parts.tm_isdst = -1;
    seconds = mktime(&parts);
    *out = seconds > 0 ? (uint64_t)seconds : 0;
    return seconds > 0;
}

int fields_read_start_after(struct tree *tree, const struct tree_node *node, struct config *config)
{
    uint64_t at_s;
    bool is_utc;
    if (node == NULL) {
        return 0;
    }
    bool has_unit = node->kind == TREE_SCALAR && node->text[strcspn(node->text, "smhd")] != '\0';
    if (has_unit && units_read_time(node->text, START_IN_S_MAX, &config->start_in_s) == 0) {
        return 0;
    }
    bool is_time = node->kind == TREE_SCALAR && config_start_read(node->text, &at_s, &is_utc) && (is_utc || here(at_s, &at_s)) &&
                   config_start_write(config->start_after, at_s);
    return is_time ? 0 : fail_option(tree, node, "start_after");
}

/* ---- constraints ------------------------------------------------------------------------------------------------- */

#define CONSTRAINTS "resources.constraints"

/* Appends "KEY=VALUE" as a line. False: the value is none, or there is no room. */
static bool append_constraint(struct config *config, const char *key, const struct tree_node *value)
{
    size_t used = strlen(config->constraints), size = sizeof config->constraints - used;
    bool is_good = value->kind == TREE_SCALAR && value->text[0] != '\0' && strlen(value->text) < CONFIG_CONSTRAINT_BYTES &&
                   scalar_is_clean(value->text, false);
    int length = is_good ? snprintf(config->constraints + used, size, "%s%s=%s", used > 0 ? "\n" : "", key, value->text) : -1;
    return length > 0 && (size_t)length < size;
}

/* One or several values. */
static bool append_constraints(struct config *config, const char *key, const struct tree_node *value, bool may_be_one)
{
    if (value->kind != TREE_LIST) {
        return may_be_one && append_constraint(config, key, value);
    }
    bool is_good = true;
    for (const struct tree_node *item = value->first; item != NULL && is_good; item = item->next) {
        is_good = append_constraint(config, key, item);
    }
    return is_good;
}

int fields_read_constraints(struct tree *tree, const struct tree_node *node, struct config *config)
{
    static const char *const keys[] = {"model", "memory", "labels"};
    char digits[32];
    uint64_t bytes;
    if (node == NULL) {
        return 0;
    }
    if (node->kind != TREE_MAP) {
        return fail_option(tree, node, CONSTRAINTS);
    }
    for (const struct tree_node *child = node->first; child != NULL; child = child->next) {
        bool is_good = true;
        if (tree_is_null(child)) {
            continue;
        }
        if (strcmp(child->key, "memory") == 0) {
            is_good = child->kind == TREE_SCALAR && units_read_size(child->text, UINT64_C(1) << 50, &bytes) == 0 && bytes > 0;
            (void)snprintf(digits, sizeof digits, "%llu", is_good ? (unsigned long long)bytes : 0);
            struct tree_node memory = *child;
            memory.text = digits;
            is_good = is_good && append_constraint(config, "memory", &memory);
        } else if (strcmp(child->key, "model") == 0 || strcmp(child->key, "labels") == 0) {
            bool is_model = child->key[0] == 'm';
            is_good = append_constraints(config, is_model ? "model" : "label", child, is_model);
        } else {
            char path[TREE_PATH_BYTES];
            (void)snprintf(path, sizeof path, CONSTRAINTS ".%s", child->key);
            return tree_fail_unknown(tree, child, path, keys, sizeof keys / sizeof keys[0]);
        }
        if (!is_good) {
            return fail_option(tree, child, CONSTRAINTS);
        }
    }
    return 0;
}

/* ---- webhooks ---------------------------------------------------------------------------------------------------- */

static int webhook_check_pattern(struct tree *tree, const struct tree_node *node)
{
    struct pattern *pattern = malloc(sizeof *pattern);
    const char *wrong = pattern == NULL ? "no memory is left" : pattern_compile(pattern, node->text, strlen(node->text));
    free(pattern);
    return wrong == NULL ? 0 : tree_fail(tree, node, "the pattern '%.60s' of a webhook is not good: %s", node->text, wrong);
}

static int webhook_pack_on(struct tree *tree, const struct tree_node *on, struct pack_writer *packed)
{
    uint32_t count = 0;
    int error = 0;
    for (const struct tree_node *item = on != NULL && on->kind == TREE_LIST ? on->first : NULL; item != NULL; item = item->next) {
        count++;
    }
    pack_text(packed, "on");
    pack_array(packed, count);
    for (const struct tree_node *item = count > 0 ? on->first : NULL; item != NULL; item = item->next) {
        const struct tree_node *pattern = item->kind == TREE_MAP ? tree_find(item, "log_match") : NULL;
        if (pattern != NULL && pattern->kind == TREE_SCALAR && pattern->next == NULL && item->first == pattern) {
            error = webhook_check_pattern(tree, pattern) != 0 ? ERR_MALFORMED : error;
            pack_map(packed, 1);
            pack_text(packed, "log_match");
        }
        pack_text(packed, pattern != NULL ? pattern->text : item->text);
    }
    return error;
}

static int webhook_read(struct tree *tree, const struct tree_node *item, struct pack_writer *packed)
{
    static const char *const words[] = {"url", "secret", "form"};
    static const char *const known[] = {"url", "on", "secret", "form"};
    uint32_t count = 1;
    size_t start = packed->used_bytes;
    if (item->kind != TREE_MAP) {
        return fail_option(tree, item, "webhooks");
    }
    for (const struct tree_node *key = item->first; key != NULL; key = key->next) {
        bool is_known = false;
        for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
            is_known |= strcmp(key->key, known[i]) == 0;
        }
        if (!is_known) {
            return tree_fail_unknown(tree, key, "webhooks", known, sizeof known / sizeof known[0]);
        }
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        count += tree_find(item, words[i]) != NULL;
    }
    pack_map(packed, count);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const struct tree_node *value = tree_find(item, words[i]);
        if (value != NULL) {
            pack_text(packed, words[i]);
            pack_text(packed, value->text);
        }
    }
    const struct tree_node *url = tree_find(item, "url");
    if (webhook_pack_on(tree, tree_find(item, "on"), packed) != 0) {
        return ERR_MALFORMED;
    }
    if (url != NULL && url->kind == TREE_SCALAR && !config_url_is_good(url->text)) {
        return tree_fail(tree, url,
                         "the url '%.60s' of a webhook is not good; allowed are http://HOST..., https://HOST... of at most %d bytes without "
                         "blanks and without a password, and secret:NAME",
                         url->text, CONFIG_URL_BYTES - 1);
    }
    struct pack_reader reader;
    struct config_webhook hook;
    pack_reader_init(&reader, packed->bytes + start, packed->used_bytes - start);
    return !packed->failed && config_webhook_read(&reader, &hook) ? 0 : fail_option(tree, item, "webhooks");
}

int fields_read_webhooks(struct tree *tree, const struct tree_node *node, struct pack_writer *packed, struct config *config)
{
    uint32_t count = 0;
    if (node == NULL) {
        return 0;
    }
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        count++;
    }
    if (node->kind != TREE_LIST || count > CONFIG_WEBHOOKS_MAX) {
        return fail_option(tree, node, "webhooks");
    }
    size_t start = packed->used_bytes;
    int error = 0;
    pack_array(packed, count);
    for (const struct tree_node *item = node->first; item != NULL; item = item->next) {
        int result = webhook_read(tree, item, packed);
        error = result != 0 ? result : error;
    }
    return error != 0 ? error : count > 0 ? packed_since(tree, node, packed, start, &config->webhooks, &config->webhooks_bytes) : 0;
}

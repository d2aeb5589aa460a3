/* resources.constraints: which slots the trials may have. */

#include <string.h>

#include "base/format.h"
#include "node/core/facts/config.h"
#include "node/core/facts/facts.h"

/* One line of config.constraints: "model=TEXT", "memory=BYTES" or "label=TEXT". */
struct line {
    const char *key, *value;
    size_t key_bytes, value_bytes;
};

/* Reads a line at `*at`, and moves behind it. False: there are no more. A line without a '=' has an empty key. */
static bool next_line(const char **at, struct line *out)
{
    const char *start = *at;
    size_t bytes = 0, key_bytes = 0;
    if (*start == '\0') {
        return false;
    }
    while (start[bytes] != '\0' && start[bytes] != '\n') {
        bytes++;
    }
    while (key_bytes < bytes && start[key_bytes] != '=') {
        key_bytes++;
    }
    bool has_key = key_bytes < bytes;
    *out = (struct line){.key = start, .key_bytes = has_key ? key_bytes : 0};
    out->value = start + out->key_bytes + has_key;
    out->value_bytes = bytes - out->key_bytes - has_key;
    *at = start + bytes + (start[bytes] == '\n');
    return true;
}

static bool is_key(const struct line *line, const char *key)
{
    return line->key_bytes == strlen(key) && memcmp(line->key, key, line->key_bytes) == 0;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* "rtx 4090" is in "NVIDIA GeForce RTX 4090". */
static bool is_model(const char *model, const struct line *line)
{
    for (; *model != '\0'; model++) {
        size_t same = 0;
        while (same < line->value_bytes && model[same] != '\0' && lower(model[same]) == lower(line->value[same])) {
            same++;
        }
        if (same == line->value_bytes) {
            return true;
        }
    }
    return false;
}

/* UINT64_MAX: no number. */
static uint64_t bytes_of(const struct line *line)
{
    uint64_t number = 0;
    for (size_t i = 0; i < line->value_bytes; i++) {
        char c = line->value[i];
        if (c < '0' || c > '9' || number > UINT64_MAX / 100) {
            return UINT64_MAX;
        }
        number = 10 * number + (uint64_t)(c - '0');
    }
    return line->value_bytes > 0 ? number : UINT64_MAX;
}

/* "room" is had by a node with "room=12", "room=12" by no other. */
static bool has_label(const struct fact_node *node, const struct line *line)
{
    bool has_value = memchr(line->value, '=', line->value_bytes) != NULL;
    for (uint32_t i = 0; i < node->label_count; i++) {
        const char *label = node->labels[i];
        bool begins = strlen(label) >= line->value_bytes && memcmp(label, line->value, line->value_bytes) == 0;
        char next = begins ? label[line->value_bytes] : 'x';
        if (begins && (next == '\0' || (next == '=' && !has_value))) {
            return true;
        }
    }
    return false;
}

/* A GPU of 16 GB shows 15 GiB. */
static bool is_enough(uint64_t has, uint64_t wanted)
{
    return has >= wanted - wanted / 100 * CONFIG_MEMORY_LESS_PERCENT;
}

uint64_t config_constraints_slots(const struct config *config, const struct fact_node *node)
{
    uint64_t of_model = 0, fitting = UINT64_MAX;
    bool has_model = false;
    const char *at = config->constraints;
    for (struct line line; next_line(&at, &line);) {
        bool is_known = is_key(&line, "model") || is_key(&line, "memory") || is_key(&line, "label");
        uint64_t memory = is_key(&line, "memory") ? bytes_of(&line) : 0;
        has_model |= is_key(&line, "model");
        if (!is_known || memory == UINT64_MAX || (is_key(&line, "label") && !has_label(node, &line))) {
            return 0;
        }
        for (uint32_t slot = 0; slot < node->slot_count; slot++) {
            uint64_t bit = UINT64_C(1) << slot;
            of_model |= is_key(&line, "model") && is_model(node->slots[slot].model, &line) ? bit : 0;
            fitting &= is_enough(node->slots[slot].memory_bytes, memory) ? UINT64_MAX : ~bit;
        }
    }
    return fitting & (has_model ? of_model : UINT64_MAX);
}

bool config_constraint(const struct config *config, uint32_t index, struct config_constraint *out)
{
    const char *at = config->constraints;
    struct line line;
    do {
        if (!next_line(&at, &line)) {
            return false;
        }
    } while (index-- > 0);
    *out = (struct config_constraint){.is_model = is_key(&line, "model"), .is_label = is_key(&line, "label")};
    out->memory = is_key(&line, "memory") ? bytes_of(&line) : 0;
    size_t bytes = line.value_bytes < sizeof out->text ? line.value_bytes : sizeof out->text - 1;
    memcpy(out->text, line.value, bytes);
    return true;
}

void config_constraints_write(const struct config *config, char *out, size_t size)
{
    struct config_constraint constraint;
    size_t used = 0;
    out[0] = '\0';
    for (uint32_t i = 0; config_constraint(config, i, &constraint); i++) {
        const char *before = i > 0 ? ", " : "";
        bool is_gib = constraint.memory % (UINT64_C(1) << 30) == 0;
        if (constraint.memory > 0) {
            used += format_text(out + used, size - used, "%smemory %llu%s", before,
                                (unsigned long long)(constraint.memory >> (is_gib ? 30 : 20)), is_gib ? "G" : "M");
        } else {
            used += format_text(out + used, size - used, "%s%s %s", before, constraint.is_model ? "model" : "label", constraint.text);
        }
    }
}

#include "node/daemon/wire/texts.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* A section. */
struct section {
    const char *name;
    size_t value_bytes_max;
    bool takes_back; /* a nil may stand for a text */
};

static const struct section sections[] = {{"params", 24000, false},
                                          {"tags", 32000, true},
                                          {"names", 31, false},
                                          {"models", 256u << 10, true},
                                          {"runs", 4096, false}};

static const struct section *find_section(const char *name, size_t bytes)
{
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (pack_text_is(name, bytes, sections[i].name)) {
            return &sections[i];
        }
    }
    return NULL;
}

static bool is_text(const char *text, size_t bytes, size_t bytes_max)
{
    return bytes <= bytes_max && memchr(text, '\0', bytes) == NULL;
}

static bool section_is_good(struct pack_reader *reader, const struct section *section)
{
    uint32_t pairs = pack_read_map(reader);
    for (uint32_t i = 0; i < pairs && !reader->failed; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(reader, &key_bytes);
        if (reader->failed || key_bytes == 0 || !is_text(key, key_bytes, TEXTS_KEY_BYTES_MAX)) {
            return false;
        }
        if (section->takes_back && pack_peek(reader) == PACK_NIL) {
            pack_read_nil(reader);
            continue;
        }
        const char *value = pack_read_text(reader, &value_bytes);
        if (reader->failed || !is_text(value, value_bytes, section->value_bytes_max)) {
            return false;
        }
    }
    return !reader->failed;
}

bool texts_are_good(const uint8_t *bytes, size_t count)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t pairs = count <= TEXTS_BYTES_MAX ? pack_read_map(&reader) : 0;
    for (uint32_t i = 0; i < pairs && !reader.failed; i++) {
        size_t name_bytes;
        const char *name = pack_read_text(&reader, &name_bytes);
        const struct section *section = reader.failed ? NULL : find_section(name, name_bytes);
        if (section == NULL || !section_is_good(&reader, section)) {
            return false;
        }
    }
    return pairs > 0 && pack_at_end(&reader);
}

static const struct texts_param *find_param(const struct texts_params *params, const char *key, size_t bytes)
{
    for (size_t i = 0; i < params->count; i++) {
        if (pack_text_is(key, bytes, params->rows[i].key)) {
            return &params->rows[i];
        }
    }
    return NULL;
}

static int add_param(struct texts_params *params, const char *key, size_t key_bytes, const char *value,
                     size_t value_bytes)
{
    size_t bytes = key_bytes + value_bytes + 2;
    if (params->count == TEXTS_PARAMS_MAX || params->bytes + bytes > TEXTS_PARAMS_BYTES_MAX) {
        return ERR_FULL;
    }
    if (params->count == params->capacity) {
        size_t capacity = 2 * params->capacity + 32;
        struct texts_param *grown = realloc(params->rows, capacity * sizeof *grown);
        if (grown == NULL) {
            return ERR_MEMORY;
        }
        params->rows = grown;
        params->capacity = capacity;
    }
    char *copy = malloc(bytes);
    if (copy == NULL) {
        return ERR_MEMORY;
    }
    memcpy(copy, key, key_bytes);
    copy[key_bytes] = '\0';
    memcpy(copy + key_bytes + 1, value, value_bytes);
    copy[bytes - 1] = '\0';
    params->rows[params->count++] = (struct texts_param){copy, copy + key_bytes + 1};
    params->bytes += bytes;
    return 0;
}

void texts_params_cut(struct texts_params *params, size_t count)
{
    while (params->count > count) {
        struct texts_param *last = &params->rows[--params->count];
        params->bytes -= strlen(last->key) + strlen(last->value) + 2;
        free(last->key);
    }
}

static void copy_cut(char *out, size_t size, const char *text, size_t bytes)
{
    size_t count = bytes < size - 1 ? bytes : size - 1;
    memcpy(out, text, count);
    out[count] = '\0';
}

int texts_params_take(struct texts_params *params, const uint8_t *bytes, size_t count, struct texts_clash *clash)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    reader = pack_find(&reader, "params");
    uint32_t pairs = reader.failed ? 0 : pack_read_map(&reader);
    size_t before = params->count;
    int code = 0;
    for (uint32_t i = 0; i < pairs && code == 0; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(&reader, &key_bytes);
        const char *value = pack_read_text(&reader, &value_bytes);
        const struct texts_param *found = find_param(params, key, key_bytes);
        if (found == NULL) {
            code = add_param(params, key, key_bytes, value, value_bytes);
        } else if (!pack_text_is(value, value_bytes, found->value)) {
            copy_cut(clash->key, sizeof clash->key, key, key_bytes);
            copy_cut(clash->was, sizeof clash->was, found->value, strlen(found->value));
            copy_cut(clash->wanted, sizeof clash->wanted, value, value_bytes);
            code = ERR_EXISTS;
        }
    }
    if (code != 0) {
        texts_params_cut(params, before);
    }
    return code;
}

void texts_params_free(struct texts_params *params)
{
    texts_params_cut(params, 0);
    free(params->rows);
    *params = (struct texts_params){0};
}

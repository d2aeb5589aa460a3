#include "tools/shoal/document.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/json.h"

uint64_t document_number(const struct pack_reader *map, const char *key)
{
    struct pack_reader value = pack_find(map, key);
    return pack_peek(&value) == PACK_U64 ? pack_read_u64(&value) : 0;
}

bool document_true(const struct pack_reader *map, const char *key)
{
    struct pack_reader value = pack_find(map, key);
    return pack_peek(&value) == PACK_BOOL && pack_read_bool(&value);
}

bool document_has(const struct pack_reader *map, const char *key)
{
    struct pack_reader value = pack_find(map, key);
    enum pack_type type = pack_peek(&value);
    return type != PACK_BAD && type != PACK_NIL;
}

static void copy_clean(char *out, size_t size, const char *text, size_t bytes)
{
    size_t count = bytes < size - 1 ? bytes : size - 1;
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)text[i];
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && i + 1 < bytes && (unsigned char)text[i + 1] < 0xa0);
        out[i] = control ? '?' : text[i];
    }
    out[count] = '\0';
}

void document_text(const struct pack_reader *map, const char *key, char *out, size_t size)
{
    struct pack_reader value = pack_find(map, key);
    out[0] = '\0';
    if (pack_peek(&value) == PACK_TEXT) {
        size_t bytes;
        const char *text = pack_read_text(&value, &bytes);
        copy_clean(out, size, value.failed ? "" : text, value.failed ? 0 : bytes);
    }
}

void document_node(const struct pack_reader *map, const char *name_key, char *out, size_t size)
{
    document_text(map, name_key, out, size);
    if (out[0] == '\0') {
        document_text(map, "node", out, 9);
    }
}

bool document_each(struct pack_reader *array, struct pack_reader *item)
{
    *item = *array;
    pack_skip(array);
    return !array->failed;
}

void document_value(struct pack_reader value, char *out, size_t size)
{
    out[0] = '\0';
    if (pack_peek(&value) == PACK_TEXT) {
        size_t bytes;
        const char *text = pack_read_text(&value, &bytes);
        copy_clean(out, size, value.failed ? "" : text, value.failed ? 0 : bytes);
    } else if (pack_peek(&value) != PACK_BAD && json_from_pack(&value, out, size) != 0) {
        (void)bytes_copy_text(out, size, "...");
    }
}

/* ---- joining parts ----------------------------------------------------------------------------------------------- */

static void join_values(struct pack_writer *w, struct pack_reader *a, struct pack_reader *b, int depth);

static void copy_value(struct pack_writer *w, struct pack_reader *value)
{
    size_t bytes;
    const uint8_t *raw = pack_read_any(value, &bytes);
    if (!value->failed) {
        pack_raw(w, raw, bytes);
    }
}

static void join_arrays(struct pack_writer *w, struct pack_reader *a, struct pack_reader *b)
{
    uint32_t a_count = pack_read_array(a), b_count = pack_read_array(b);
    pack_array(w, a_count + b_count);
    for (uint32_t i = 0; i < a_count && !a->failed; i++) {
        copy_value(w, a);
    }
    for (uint32_t i = 0; i < b_count && !b->failed; i++) {
        copy_value(w, b);
    }
}

/* A reader on the value of a key that need not end in NUL; failed when it is not there. */
static struct pack_reader find_n(struct pack_reader map, const char *key, size_t key_bytes)
{
    uint32_t count = pack_read_map(&map);
    for (uint32_t i = 0; i < count && !map.failed; i++) {
        size_t bytes;
        const char *text = pack_read_text(&map, &bytes);
        if (!map.failed && bytes == key_bytes && memcmp(text, key, bytes) == 0) {
            return map;
        }
        pack_skip(&map);
    }
    map.failed = true;
    return map;
}

static void join_maps(struct pack_writer *w, struct pack_reader *a, struct pack_reader *b, int depth)
{
    struct pack_reader a_map = *a, b_map = *b;
    uint32_t a_count = pack_read_map(a), b_count = pack_read_map(b), only_b = 0;
    for (int pass = 0; pass < 2; pass++) { /* first count, then write: the head comes before the pairs */
        struct pack_reader pairs = *b;
        if (pass == 1) {
            pack_map(w, a_count + only_b);
            for (uint32_t i = 0; i < a_count && !a->failed; i++) {
                size_t bytes;
                const char *key = pack_read_text(a, &bytes);
                if (a->failed) {
                    return;
                }
                pack_text_n(w, key, bytes);
                struct pack_reader other = find_n(b_map, key, bytes);
                if (other.failed) {
                    copy_value(w, a);
                } else {
                    join_values(w, a, &other, depth + 1);
                    b->failed = b->failed || other.failed;
                }
            }
        }
        for (uint32_t i = 0; i < b_count && !pairs.failed; i++) {
            size_t bytes;
            const char *key = pack_read_text(&pairs, &bytes);
            if (pairs.failed || !find_n(a_map, key, bytes).failed) {
                pack_skip(&pairs);
            } else if (pass == 0) {
                only_b++;
                pack_skip(&pairs);
            } else {
                pack_text_n(w, key, bytes);
                copy_value(w, &pairs);
            }
        }
        b->failed = b->failed || pairs.failed;
    }
}

static void join_values(struct pack_writer *w, struct pack_reader *a, struct pack_reader *b, int depth)
{
    enum pack_type type = pack_peek(a);
    if (type != pack_peek(b) || (type != PACK_ARRAY && type != PACK_MAP) || depth > 32) {
        copy_value(w, a);
    } else if (type == PACK_ARRAY) {
        join_arrays(w, a, b);
    } else {
        join_maps(w, a, b, depth);
    }
}

int document_join(const struct pack_reader *a, const struct pack_reader *b, uint8_t **out, size_t *out_bytes)
{
    size_t capacity = (a == NULL ? 0 : a->count) + b->count + 64; /* joining never needs more than both */
    uint8_t *bytes = malloc(capacity);
    if (bytes == NULL) {
        return ERR_MEMORY;
    }
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, capacity);
    struct pack_reader left = a == NULL ? *b : *a, right = *b;
    if (a == NULL) {
        copy_value(&writer, &left);
    } else {
        join_values(&writer, &left, &right, 0);
    }
    if (left.failed || right.failed || writer.failed) {
        free(bytes);
        return ERR_MALFORMED;
    }
    *out = bytes;
    *out_bytes = writer.used_bytes;
    return 0;
}

/* ---- JSON -------------------------------------------------------------------------------------------------------- */

bool document_write_json(FILE *out, struct pack_reader value)
{
    struct pack_reader end = value;
    size_t bytes;
    (void)pack_read_any(&end, &bytes);
    if (end.failed) {
        return false;
    }
    /* One byte becomes at most six ("\u0000") and a comma; a double's nine become up to 25. */
    size_t capacity = bytes * 8 + 64;
    char *text = malloc(capacity);
    bool written = text != NULL && json_from_pack(&value, text, capacity) == 0;
    if (written) {
        (void)fprintf(out, "%s\n", text);
        (void)fflush(out);
    }
    free(text);
    return written;
}

static bool is_envelope(const char *key, size_t bytes)
{
    return pack_text_is(key, bytes, "id") || pack_text_is(key, bytes, "ok") || pack_text_is(key, bytes, "end") ||
           pack_text_is(key, bytes, "more");
}

bool document_write_reply_json(FILE *out, const struct pack_reader *reply)
{
    uint8_t *bytes = malloc(reply->count + 8);
    if (bytes == NULL) {
        return false;
    }
    bool written = false;
    struct pack_writer writer;
    pack_writer_init(&writer, bytes, reply->count + 8);
    uint32_t kept = 0;
    for (int pass = 0; pass < 2; pass++) {
        struct pack_reader map = *reply;
        uint32_t count = pack_read_map(&map);
        if (pass == 1) {
            pack_map(&writer, kept);
        }
        for (uint32_t i = 0; i < count && !map.failed; i++) {
            size_t key_bytes;
            const char *key = pack_read_text(&map, &key_bytes);
            if (map.failed || is_envelope(key, key_bytes)) {
                pack_skip(&map);
            } else if (pass == 0) {
                kept++;
                pack_skip(&map);
            } else {
                pack_text_n(&writer, key, key_bytes);
                copy_value(&writer, &map);
            }
        }
        if (map.failed) {
            free(bytes);
            return false;
        }
    }
    if (!writer.failed) {
        struct pack_reader value;
        pack_reader_init(&value, bytes, writer.used_bytes);
        written = document_write_json(out, value);
    }
    free(bytes);
    return written;
}

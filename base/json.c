#include "base/json.h"

#include <math.h> /* for isnan and isinf; none of its functions is called */
#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/format.h"
#include "base/number.h"

struct sink {
    char *out;
    size_t size;
    size_t used;
    bool full;
};

static void put(struct sink *sink, const char *text, size_t bytes)
{
    if (sink->full || bytes >= sink->size - sink->used) { /* ">=" keeps room for the NUL */
        sink->full = true;
        return;
    }
    memcpy(sink->out + sink->used, text, bytes);
    sink->used += bytes;
}

static void put_text(struct sink *sink, const char *text, size_t bytes)
{
    put(sink, "\"", 1);
    for (size_t i = 0; i < bytes;) {
        const uint8_t *p = (const uint8_t *)text + i;
        size_t count = bytes_utf8(p, bytes - i);
        char escape[8] = "\\ufffd";
        if (count == 0) {
            put(sink, escape, 6);
            count = 1;
        } else if (*p == '"' || *p == '\\') {
            escape[1] = (char)*p;
            put(sink, escape, 2);
        } else if (*p == '\n' || *p == '\t' || *p == '\r') {
            escape[1] = *p == '\n' ? 'n' : *p == '\t' ? 't' : 'r';
            put(sink, escape, 2);
        } else if (*p < 0x20 || *p == 0x7f) {
            escape[2] = escape[3] = '0';
            bytes_to_hex(escape + 4, p, 1);
            put(sink, escape, 6);
        } else {
            put(sink, text + i, count);
        }
        i += count;
    }
    put(sink, "\"", 1);
}

static void put_double(struct sink *sink, double value)
{
    char text[32];
    if (isnan(value) || isinf(value)) { /* JSON has no number for these */
        const char *word = isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
        put(sink, word, strlen(word));
        return;
    }
    size_t bytes = number_format(text, value);
    put(sink, text, bytes);
    bool is_integer = true;
    for (size_t i = 0; i < bytes; i++) {
        is_integer = is_integer && (text[i] == '-' || (text[i] >= '0' && text[i] <= '9'));
    }
    if (is_integer) {
        put(sink, ".0", 2);
    }
}

/* The recursion is bounded: the caller has checked that the value is at most 32 deep. */
static void put_value(struct sink *sink, struct pack_reader *reader)
{
    char text[32];
    size_t bytes;
    enum pack_type type = pack_peek(reader);
    switch (type) {
    case PACK_NIL:
        pack_read_nil(reader);
        put(sink, "null", 4);
        break;
    case PACK_BOOL:
        if (pack_read_bool(reader)) {
            put(sink, "true", 4);
        } else {
            put(sink, "false", 5);
        }
        break;
    case PACK_U64:
        put(sink, text, format_text(text, sizeof text, "%llu", (unsigned long long)pack_read_u64(reader)));
        break;
    case PACK_I64:
        put(sink, text, format_text(text, sizeof text, "%lld", (long long)pack_read_i64(reader)));
        break;
    case PACK_DOUBLE:
        put_double(sink, pack_read_double(reader));
        break;
    case PACK_TEXT: {
        const char *value = pack_read_text(reader, &bytes);
        put_text(sink, value, bytes);
        break;
    }
    case PACK_BIN: {
        const uint8_t *value = pack_read_bin(reader, &bytes);
        put(sink, "\"", 1);
        for (size_t i = 0; i < bytes; i++) {
            bytes_to_hex(text, value + i, 1);
            put(sink, text, 2);
        }
        put(sink, "\"", 1);
        break;
    }
    case PACK_ARRAY:
    case PACK_MAP: {
        uint32_t count = type == PACK_MAP ? pack_read_map(reader) : pack_read_array(reader);
        put(sink, type == PACK_MAP ? "{" : "[", 1);
        for (uint32_t i = 0; i < count && !reader->failed && !sink->full; i++) {
            if (i > 0) {
                put(sink, ", ", 2);
            }
            if (type == PACK_MAP) {
                const char *key = pack_read_text(reader, &bytes);
                put_text(sink, key, bytes);
                put(sink, ": ", 2);
            }
            put_value(sink, reader);
        }
        put(sink, type == PACK_MAP ? "}" : "]", 1);
        break;
    }
    case PACK_BAD:
        reader->failed = true;
        break;
    }
}

int json_from_pack(struct pack_reader *reader, char *out, size_t size)
{
    struct sink sink = {.out = out, .size = size, .full = size == 0};
    size_t bytes;
    const uint8_t *value = pack_read_any(reader, &bytes);
    struct pack_reader walk;
    pack_reader_init(&walk, value, bytes);
    walk.failed = reader->failed;
    if (!walk.failed) {
        put_value(&sink, &walk);
    }
    int error = walk.failed ? ERR_MALFORMED : sink.full ? ERR_FULL : 0;
    reader->failed = reader->failed || walk.failed;
    if (size > 0) {
        out[error == 0 ? sink.used : 0] = '\0';
    }
    return error;
}

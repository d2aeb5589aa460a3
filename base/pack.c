#include "base/pack.h"

#include <string.h>

#include "base/bytes.h"

#define DEPTH_MAX 32

void pack_writer_init(struct pack_writer *writer, uint8_t *bytes, size_t capacity_bytes)
{
    *writer = (struct pack_writer){.bytes = bytes, .capacity_bytes = capacity_bytes};
}

void pack_raw(struct pack_writer *writer, const uint8_t *bytes, size_t count)
{
    if (writer->failed || count > writer->capacity_bytes - writer->used_bytes) {
        writer->failed = true;
        return;
    }
    if (count > 0) {
        memcpy(writer->bytes + writer->used_bytes, bytes, count);
    }
    writer->used_bytes += count;
}

static void put_head(struct pack_writer *writer, uint8_t tag, uint64_t value, unsigned width)
{
    uint8_t head[9];
    uint8_t wide[8];
    bytes_put_u64(wide, value);
    head[0] = tag;
    memcpy(head + 1, wide + 8 - width, width);
    pack_raw(writer, head, 1 + (size_t)width);
}

void pack_nil(struct pack_writer *writer)
{
    put_head(writer, 0xc0, 0, 0);
}

void pack_bool(struct pack_writer *writer, bool value)
{
    put_head(writer, value ? 0xc3 : 0xc2, 0, 0);
}

void pack_u64(struct pack_writer *writer, uint64_t value)
{
    if (value < 0x80) {
        put_head(writer, (uint8_t)value, 0, 0);
    } else if (value <= 0xff) {
        put_head(writer, 0xcc, value, 1);
    } else if (value <= 0xffff) {
        put_head(writer, 0xcd, value, 2);
    } else if (value <= 0xffffffffu) {
        put_head(writer, 0xce, value, 4);
    } else {
        put_head(writer, 0xcf, value, 8);
    }
}

void pack_i64(struct pack_writer *writer, int64_t value)
{
    if (value >= 0) {
        pack_u64(writer, (uint64_t)value);
    } else if (value >= -32) {
        put_head(writer, (uint8_t)value, 0, 0);
    } else if (value >= INT8_MIN) {
        put_head(writer, 0xd0, (uint64_t)value, 1);
    } else if (value >= INT16_MIN) {
        put_head(writer, 0xd1, (uint64_t)value, 2);
    } else if (value >= INT32_MIN) {
        put_head(writer, 0xd2, (uint64_t)value, 4);
    } else {
        put_head(writer, 0xd3, (uint64_t)value, 8);
    }
}

void pack_double(struct pack_writer *writer, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_head(writer, 0xcb, bits, 8);
}

void pack_text_n(struct pack_writer *writer, const char *text, size_t bytes)
{
    if (bytes < 32) {
        put_head(writer, (uint8_t)(0xa0 | bytes), 0, 0);
    } else if (bytes <= 0xff) {
        put_head(writer, 0xd9, bytes, 1);
    } else if (bytes <= 0xffff) {
        put_head(writer, 0xda, bytes, 2);
    } else {
        put_head(writer, 0xdb, bytes, 4);
    }
    pack_raw(writer, (const uint8_t *)text, bytes);
}

void pack_text(struct pack_writer *writer, const char *text)
{
    pack_text_n(writer, text, strlen(text));
}

void pack_bin(struct pack_writer *writer, const void *bytes, size_t count)
{
    if (count <= 0xff) {
        put_head(writer, 0xc4, count, 1);
    } else if (count <= 0xffff) {
        put_head(writer, 0xc5, count, 2);
    } else {
        put_head(writer, 0xc6, count, 4);
    }
    pack_raw(writer, bytes, count);
}

void pack_array(struct pack_writer *writer, uint32_t count)
{
    if (count < 16) {
        put_head(writer, (uint8_t)(0x90 | count), 0, 0);
    } else if (count <= 0xffff) {
        put_head(writer, 0xdc, count, 2);
    } else {
        put_head(writer, 0xdd, count, 4);
    }
}

void pack_map(struct pack_writer *writer, uint32_t count)
{
    if (count < 16) {
        put_head(writer, (uint8_t)(0x80 | count), 0, 0);
    } else if (count <= 0xffff) {
        put_head(writer, 0xde, count, 2);
    } else {
        put_head(writer, 0xdf, count, 4);
    }
}

/* One decoded head: the type of the value, and the number that the head carries (a value, a length or a count). */
struct head {
    enum pack_type type;
    uint64_t value;
    size_t bytes; /* length of the head itself */
};

static struct head read_head(const struct pack_reader *reader)
{
    struct head bad = {PACK_BAD, 0, 0};
    if (reader->failed || reader->offset >= reader->count) {
        return bad;
    }
    const uint8_t *p = reader->bytes + reader->offset;
    size_t left = reader->count - reader->offset;
    uint8_t tag = p[0];
    if (tag < 0x80) {
        return (struct head){PACK_U64, tag, 1};
    }
    if (tag >= 0xe0) {
        return (struct head){PACK_I64, (uint64_t)(int64_t)(int8_t)tag, 1};
    }
    if (tag < 0x90) {
        return (struct head){PACK_MAP, tag & 15, 1};
    }
    if (tag < 0xa0) {
        return (struct head){PACK_ARRAY, tag & 15, 1};
    }
    if (tag < 0xc0) {
        return (struct head){PACK_TEXT, tag & 31, 1};
    }
    /* 0xc0 ... 0xdf: the type, and the width of the number after the tag. PACK_BAD: extension types and the unused tag,
     * which we do not read. */
    static const struct {
        uint8_t type, width;
    } table[32] = {
        {PACK_NIL, 0}, {PACK_BAD, 0}, {PACK_BOOL, 0}, {PACK_BOOL, 0}, {PACK_BIN, 1}, {PACK_BIN, 2}, {PACK_BIN, 4}, {PACK_BAD, 0},
        {PACK_BAD, 0}, {PACK_BAD, 0}, {PACK_DOUBLE, 4}, {PACK_DOUBLE, 8}, {PACK_U64, 1}, {PACK_U64, 2}, {PACK_U64, 4}, {PACK_U64, 8},
        {PACK_I64, 1}, {PACK_I64, 2}, {PACK_I64, 4}, {PACK_I64, 8}, {PACK_BAD, 0}, {PACK_BAD, 0}, {PACK_BAD, 0}, {PACK_BAD, 0},
        {PACK_BAD, 0}, {PACK_TEXT, 1}, {PACK_TEXT, 2}, {PACK_TEXT, 4}, {PACK_ARRAY, 2}, {PACK_ARRAY, 4}, {PACK_MAP, 2}, {PACK_MAP, 4},
    };
    enum pack_type type = (enum pack_type)table[tag - 0xc0].type;
    unsigned width = table[tag - 0xc0].width;
    if (type == PACK_BAD || left < 1 + (size_t)width) {
        return bad;
    }
    uint64_t value = 0;
    for (unsigned i = 0; i < width; i++) {
        value = (value << 8) | p[1 + i];
    }
    if (type == PACK_BOOL) {
        value = tag & 1;
    } else if (type == PACK_I64) {
        unsigned shift = 64 - 8 * width;
        int64_t extended = (int64_t)(value << shift) >> shift;
        value = (uint64_t)extended;
        type = extended >= 0 ? PACK_U64 : PACK_I64;
    } else if (type == PACK_DOUBLE && width == 4) {
        uint32_t bits = (uint32_t)value;
        float narrow;
        memcpy(&narrow, &bits, sizeof narrow);
        double wide = (double)narrow;
        memcpy(&value, &wide, sizeof value);
    }
    struct head head = {type, value, 1 + (size_t)width};
    if ((type == PACK_TEXT || type == PACK_BIN || type == PACK_ARRAY) && value > left - head.bytes) {
        return bad; /* each element takes at least one byte */
    }
    if (type == PACK_MAP && value > (left - head.bytes) / 2) {
        return bad;
    }
    return head;
}

void pack_reader_init(struct pack_reader *reader, const uint8_t *bytes, size_t count)
{
    *reader = (struct pack_reader){.bytes = bytes, .count = count};
}

enum pack_type pack_peek(const struct pack_reader *reader)
{
    return read_head(reader).type;
}

static uint64_t take(struct pack_reader *reader, enum pack_type type)
{
    struct head head = read_head(reader);
    bool has_payload = head.type == PACK_TEXT || head.type == PACK_BIN;
    if (head.type != type || (has_payload && head.value > reader->count - reader->offset - head.bytes)) {
        reader->failed = true;
        return 0;
    }
    if ((type == PACK_ARRAY || type == PACK_MAP) && head.value > reader->count - reader->offset - head.bytes) {
        reader->failed = true;
        return 0;
    }
    reader->offset += head.bytes;
    return head.value;
}

void pack_read_nil(struct pack_reader *reader)
{
    (void)take(reader, PACK_NIL);
}

bool pack_read_bool(struct pack_reader *reader)
{
    return take(reader, PACK_BOOL) != 0;
}

uint64_t pack_read_u64(struct pack_reader *reader)
{
    return take(reader, PACK_U64);
}

uint64_t pack_read_u64_max(struct pack_reader *reader, uint64_t max)
{
    uint64_t value = take(reader, PACK_U64);
    if (value > max) {
        reader->failed = true;
        return 0;
    }
    return value;
}

int64_t pack_read_i64(struct pack_reader *reader)
{
    if (pack_peek(reader) == PACK_U64) {
        return (int64_t)pack_read_u64_max(reader, INT64_MAX);
    }
    return (int64_t)take(reader, PACK_I64);
}

double pack_read_double(struct pack_reader *reader)
{
    enum pack_type type = pack_peek(reader);
    if (type == PACK_U64) {
        return (double)pack_read_u64(reader);
    }
    if (type == PACK_I64) {
        return (double)pack_read_i64(reader);
    }
    uint64_t bits = take(reader, PACK_DOUBLE);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static const uint8_t *take_payload(struct pack_reader *reader, enum pack_type type, size_t *count)
{
    size_t length = (size_t)take(reader, type);
    if (reader->failed) {
        *count = 0;
        return (const uint8_t *)"";
    }
    const uint8_t *payload = reader->bytes + reader->offset;
    reader->offset += length;
    *count = length;
    return payload;
}

const char *pack_read_text(struct pack_reader *reader, size_t *bytes)
{
    return (const char *)take_payload(reader, PACK_TEXT, bytes);
}

void pack_read_text_copy(struct pack_reader *reader, char *out, size_t size)
{
    size_t length;
    const char *text = pack_read_text(reader, &length);
    if (length >= size || memchr(text, 0, length) != NULL) {
        reader->failed = true;
        length = 0;
    }
    bytes_copy_text_n(out, size, text, length);
}

const uint8_t *pack_read_bin(struct pack_reader *reader, size_t *count)
{
    return take_payload(reader, PACK_BIN, count);
}

void pack_read_bin_exact(struct pack_reader *reader, void *out, size_t count)
{
    size_t length;
    const uint8_t *bytes = pack_read_bin(reader, &length);
    if (length != count) {
        reader->failed = true;
    }
    if (reader->failed) {
        memset(out, 0, count);
    } else {
        memcpy(out, bytes, count);
    }
}

uint32_t pack_read_array(struct pack_reader *reader)
{
    return (uint32_t)take(reader, PACK_ARRAY);
}

uint32_t pack_read_map(struct pack_reader *reader)
{
    return (uint32_t)take(reader, PACK_MAP);
}

const uint8_t *pack_read_any(struct pack_reader *reader, size_t *count)
{
    size_t start = reader->offset;
    uint64_t left[DEPTH_MAX]; /* number of values still to come at each depth */
    unsigned depth = 0;
    left[0] = 1;
    while (!reader->failed) {
        while (left[depth] == 0) {
            if (depth == 0) {
                *count = reader->offset - start;
                return reader->bytes + start;
            }
            depth--;
        }
        left[depth]--;
        struct head head = read_head(reader);
        size_t payload = head.type == PACK_TEXT || head.type == PACK_BIN ? (size_t)head.value : 0;
        if (head.type == PACK_BAD || payload > reader->count - reader->offset - head.bytes) {
            break;
        }
        reader->offset += head.bytes + payload;
        if (head.type == PACK_ARRAY || head.type == PACK_MAP) {
            if (++depth == DEPTH_MAX) {
                break;
            }
            left[depth] = head.type == PACK_MAP ? head.value * 2 : head.value;
        }
    }
    reader->failed = true;
    *count = 0;
    return (const uint8_t *)"";
}

void pack_skip(struct pack_reader *reader)
{
    size_t count;
    (void)pack_read_any(reader, &count);
}

bool pack_at_end(const struct pack_reader *reader)
{
    return !reader->failed && reader->offset == reader->count;
}

bool pack_text_is(const char *text, size_t bytes, const char *expected)
{
    return strlen(expected) == bytes && memcmp(text, expected, bytes) == 0;
}

struct pack_reader pack_find(const struct pack_reader *reader, const char *key)
{
    struct pack_reader walk = *reader;
    uint32_t pairs = pack_read_map(&walk);
    for (uint32_t i = 0; i < pairs && !walk.failed; i++) {
        size_t length;
        const char *name = pack_read_text(&walk, &length);
        if (!walk.failed && pack_text_is(name, length, key)) {
            struct pack_reader value = walk;
            size_t count;
            value.bytes = pack_read_any(&walk, &count);
            return (struct pack_reader){.bytes = value.bytes, .count = count, .failed = walk.failed};
        }
        pack_skip(&walk);
    }
    return (struct pack_reader){.bytes = reader->bytes, .failed = true};
}

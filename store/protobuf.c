#include "store/protobuf.h"

#include <string.h>

#define FIELD_MAX 0x1fffffffu /* the highest field number of the format */

/* ---- writer ------------------------------------------------------------------------------------------------------ */

void protobuf_writer_init(struct protobuf_writer *writer, uint8_t *bytes, size_t capacity_bytes)
{
    *writer = (struct protobuf_writer){.bytes = bytes, .capacity_bytes = capacity_bytes};
}

static uint8_t *room(struct protobuf_writer *writer, size_t count)
{
    if (writer->failed || writer->capacity_bytes - writer->used_bytes < count) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->bytes + writer->used_bytes;
    writer->used_bytes += count;
    return at;
}

static size_t varint_bytes(uint64_t value)
{
    size_t bytes = 1;
    for (; value >= 0x80; value >>= 7) {
        bytes++;
    }
    return bytes;
}

static void varint_write(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7) {
        *at++ = (uint8_t)(value | 0x80);
    }
    *at = (uint8_t)value;
}

static void put_varint(struct protobuf_writer *writer, uint64_t value)
{
    uint8_t *at = room(writer, varint_bytes(value));
    if (at != NULL) {
        varint_write(at, value);
    }
}

static void put_tag(struct protobuf_writer *writer, uint32_t field, enum protobuf_type type)
{
    put_varint(writer, (uint64_t)field << 3 | type);
}

/* Fixed numbers are little-endian. */
static void put_fixed(struct protobuf_writer *writer, uint64_t bits, size_t bytes)
{
    uint8_t *at = room(writer, bytes);
    for (size_t i = 0; at != NULL && i < bytes; i++) {
        at[i] = (uint8_t)(bits >> 8 * i);
    }
}

void protobuf_put_u64(struct protobuf_writer *writer, uint32_t field, uint64_t value)
{
    put_tag(writer, field, PROTOBUF_VARINT);
    put_varint(writer, value);
}

void protobuf_put_double(struct protobuf_writer *writer, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(writer, field, PROTOBUF_FIXED64);
    put_fixed(writer, bits, 8);
}

void protobuf_put_float(struct protobuf_writer *writer, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_tag(writer, field, PROTOBUF_FIXED32);
    put_fixed(writer, bits, 4);
}

void protobuf_put_bytes(struct protobuf_writer *writer, uint32_t field, const void *bytes, size_t count)
{
    put_tag(writer, field, PROTOBUF_BYTES);
    put_varint(writer, count);
    uint8_t *at = room(writer, count);
    if (at != NULL && count > 0) {
        memcpy(at, bytes, count);
    }
}

void protobuf_put_text(struct protobuf_writer *writer, uint32_t field, const char *text)
{
    protobuf_put_bytes(writer, field, text, strlen(text));
}

size_t protobuf_begin(struct protobuf_writer *writer, uint32_t field)
{
    put_tag(writer, field, PROTOBUF_BYTES);
    (void)room(writer, 1); /* for a length below 128; a longer message is moved by protobuf_end */
    return writer->used_bytes;
}

void protobuf_end(struct protobuf_writer *writer, size_t mark)
{
    if (writer->failed) {
        return;
    }
    size_t count = writer->used_bytes - mark, more = varint_bytes(count) - 1;
    if (room(writer, more) == NULL) {
        return;
    }
    memmove(writer->bytes + mark + more, writer->bytes + mark, count);
    varint_write(writer->bytes + mark - 1, count);
}

/* ---- reader ------------------------------------------------------------------------------------------------------ */

void protobuf_reader_init(struct protobuf_reader *reader, const uint8_t *bytes, size_t count)
{
    *reader = (struct protobuf_reader){.bytes = bytes, .count = count};
}

static uint64_t read_varint(struct protobuf_reader *reader)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && reader->offset < reader->count; shift += 7) {
        uint8_t byte = reader->bytes[reader->offset++];
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    reader->failed = true; /* cut short, or longer than ten bytes */
    return 0;
}

static uint64_t read_fixed(struct protobuf_reader *reader, size_t bytes)
{
    uint64_t bits = 0;
    if (reader->count - reader->offset < bytes) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < bytes; i++) {
        bits |= (uint64_t)reader->bytes[reader->offset++] << 8 * i;
    }
    return bits;
}

static void read_bytes(struct protobuf_reader *reader, struct protobuf_field *out)
{
    uint64_t count = read_varint(reader);
    if (reader->failed || count > reader->count - reader->offset) {
        reader->failed = true;
        return;
    }
    out->bytes = reader->bytes + reader->offset;
    out->count = (size_t)count;
    reader->offset += (size_t)count;
}

bool protobuf_next(struct protobuf_reader *reader, struct protobuf_field *out)
{
    if (reader->failed || reader->offset == reader->count) {
        return false;
    }
    uint64_t tag = read_varint(reader);
    *out = (struct protobuf_field){.number = (uint32_t)(tag >> 3 & FIELD_MAX), .type = (enum protobuf_type)(tag & 7)};
    if (tag >> 3 == 0 || tag >> 3 > FIELD_MAX) {
        reader->failed = true;
    } else if (out->type == PROTOBUF_VARINT) {
        out->value = read_varint(reader);
    } else if (out->type == PROTOBUF_FIXED64) {
        out->value = read_fixed(reader, 8);
    } else if (out->type == PROTOBUF_FIXED32) {
        out->value = read_fixed(reader, 4);
    } else if (out->type == PROTOBUF_BYTES) {
        read_bytes(reader, out);
    } else {
        reader->failed = true; /* groups, which version 3 does not have */
    }
    return !reader->failed;
}

bool protobuf_single_varint(const struct protobuf_field *field, uint64_t *out)
{
    struct protobuf_reader reader;
    protobuf_reader_init(&reader, field->bytes, field->count);
    *out = read_varint(&reader);
    return !reader.failed && reader.offset == reader.count;
}

double protobuf_number(const struct protobuf_field *field)
{
    double wide = 0;
    float narrow = 0;
    uint32_t bits = (uint32_t)field->value;
    if (field->type == PROTOBUF_FIXED64) {
        memcpy(&wide, &field->value, sizeof wide);
        return wide;
    }
    if (field->type == PROTOBUF_FIXED32) {
        memcpy(&narrow, &bits, sizeof narrow);
    }
    return (double)narrow;
}

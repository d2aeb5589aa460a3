#include "node/bulk/wire.h"

#include "base/err.h"

static bool has_body(uint8_t kind)
{
    return kind == BULK_PUT || kind == BULK_APPEND || kind == BULK_DATA || kind == BULK_ITEMS;
}

/* The number of elements that the head has behind version, kind and tag; -1: no such kind. */
static int argument_count(uint8_t kind)
{
    switch (kind) {
    case BULK_DATA:
        return 0;
    case BULK_GET:
    case BULK_PUT:
    case BULK_VERIFY:
    case BULK_HAS:
    case BULK_APPEND:
    case BULK_HELD:
    case BULK_ITEMS:
    case BULK_STATUS:
        return 1;
    case BULK_OPEN:
        return 2;
    case BULK_READ:
    case BULK_ASK:
    case BULK_RESET:
        return 3;
    case BULK_SEGMENT:
        return 6;
    default:
        return -1;
    }
}

int bulk_wire_encode(const struct bulk_message *message, uint8_t *out, size_t capacity, size_t *count)
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, capacity);
    pack_array(&writer, 3u + (uint32_t)argument_count(message->kind));
    pack_u64(&writer, BULK_WIRE_VERSION);
    pack_u64(&writer, message->kind);
    pack_u64(&writer, message->tag);
    switch (message->kind) {
    case BULK_GET:
    case BULK_PUT:
    case BULK_VERIFY:
        pack_bin(&writer, message->hash.bytes, HASH_BYTES);
        break;
    case BULK_HAS:
        pack_bin(&writer, message->hashes, (size_t)message->hash_count * HASH_BYTES);
        break;
    case BULK_APPEND:
        pack_bin(&writer, message->prefix, message->prefix_bytes);
        break;
    case BULK_READ:
        pack_bin(&writer, message->prefix, message->prefix_bytes);
        pack_u64(&writer, message->from_sequence);
        pack_u64(&writer, message->bytes_max);
        break;
    case BULK_ASK:
        pack_bin(&writer, message->prefix, message->prefix_bytes);
        pack_u64(&writer, message->from_sequence);
        pack_bin(&writer, message->question, message->question_bytes);
        break;
    case BULK_OPEN:
        pack_u64(&writer, message->stream);
        pack_bin(&writer, message->question, message->question_bytes);
        break;
    case BULK_SEGMENT:
        pack_u64(&writer, message->stream);
        pack_u64(&writer, message->offset);
        pack_u64(&writer, message->received);
        pack_u64(&writer, message->limit);
        pack_bool(&writer, message->ends);
        pack_bin(&writer, message->bytes, message->byte_count);
        break;
    case BULK_RESET:
        pack_u64(&writer, message->stream);
        pack_u64(&writer, message->code);
        pack_bin(&writer, message->bytes, message->byte_count);
        break;
    case BULK_HELD:
        pack_bin(&writer, message->bits, message->bits_bytes);
        break;
    case BULK_ITEMS:
        pack_bool(&writer, message->more);
        break;
    case BULK_STATUS:
        pack_u64(&writer, message->status);
        break;
    default:
        break;
    }
    if (writer.failed) {
        return ERR_FULL;
    }
    *count = writer.used_bytes;
    return 0;
}

void bulk_wire_entry_write(struct pack_writer *writer, uint64_t sequence, const uint8_t *bytes, size_t count)
{
    pack_u64(writer, sequence);
    pack_bin(writer, bytes, count);
}

bool bulk_wire_entry_read(struct pack_reader *reader, uint64_t *sequence, const uint8_t **bytes, size_t *count)
{
    if (reader->failed || reader->offset >= reader->count) {
        return false;
    }
    *sequence = pack_read_u64(reader);
    *bytes = pack_read_bin(reader, count);
    if (*count > BULK_WIRE_ENTRY_BYTES_MAX) {
        reader->failed = true;
    }
    return !reader->failed;
}

static bool entries_are_good(const uint8_t *bytes, size_t count)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint64_t sequence;
    const uint8_t *entry;
    size_t entry_bytes;
    while (bulk_wire_entry_read(&reader, &sequence, &entry, &entry_bytes)) {
    }
    return pack_at_end(&reader);
}

static void read_prefix(struct pack_reader *reader, struct bulk_message *message)
{
    message->prefix = pack_read_bin(reader, &message->prefix_bytes);
    if (message->prefix_bytes < 1 || message->prefix_bytes > BULK_WIRE_PREFIX_BYTES_MAX) {
        reader->failed = true;
    }
}

static void read_hashes(struct pack_reader *reader, struct bulk_message *message)
{
    size_t bytes;
    message->hashes = pack_read_bin(reader, &bytes);
    if (bytes == 0 || bytes % HASH_BYTES != 0 || bytes / HASH_BYTES > BULK_WIRE_HAS_MAX) {
        reader->failed = true;
    }
    message->hash_count = (uint32_t)(bytes / HASH_BYTES);
}

static void read_arguments(struct pack_reader *reader, struct bulk_message *message)
{
    switch (message->kind) {
    case BULK_GET:
    case BULK_PUT:
    case BULK_VERIFY:
        pack_read_bin_exact(reader, message->hash.bytes, HASH_BYTES);
        break;
    case BULK_HAS:
        read_hashes(reader, message);
        break;
    case BULK_APPEND:
        read_prefix(reader, message);
        break;
    case BULK_READ:
        read_prefix(reader, message);
        message->from_sequence = pack_read_u64(reader);
        message->bytes_max = (uint32_t)pack_read_u64_max(reader, UINT32_MAX);
        break;
    case BULK_ASK:
        read_prefix(reader, message);
        message->from_sequence = pack_read_u64(reader);
        message->question = pack_read_bin(reader, &message->question_bytes);
        reader->failed |= message->question_bytes > BULK_WIRE_QUESTION_BYTES_MAX;
        break;
    case BULK_OPEN:
        message->stream = pack_read_u64(reader);
        message->question = pack_read_bin(reader, &message->question_bytes);
        reader->failed |= message->question_bytes > BULK_WIRE_QUESTION_BYTES_MAX;
        break;
    case BULK_SEGMENT:
        message->stream = pack_read_u64(reader);
        message->offset = pack_read_u64(reader);
        message->received = pack_read_u64(reader);
        message->limit = pack_read_u64(reader);
        message->ends = pack_read_bool(reader);
        message->bytes = pack_read_bin(reader, &message->byte_count);
        reader->failed |= message->byte_count > STREAM_SEGMENT_BYTES;
        break;
    case BULK_RESET:
        message->stream = pack_read_u64(reader);
        message->code = (uint8_t)pack_read_u64_max(reader, UINT8_MAX);
        message->bytes = pack_read_bin(reader, &message->byte_count);
        reader->failed |= message->byte_count > BULK_WIRE_RESET_BYTES_MAX;
        break;
    case BULK_HELD:
        message->bits = pack_read_bin(reader, &message->bits_bytes);
        break;
    case BULK_ITEMS:
        message->more = pack_read_bool(reader);
        break;
    case BULK_STATUS:
        message->status = (uint8_t)pack_read_u64_max(reader, UINT8_MAX);
        break;
    default:
        break;
    }
}

int bulk_wire_decode(const uint8_t *head, size_t head_bytes, const uint8_t *body, size_t body_bytes,
                     struct bulk_message *out)
{
    if (head_bytes > BULK_WIRE_HEAD_BYTES_MAX || body_bytes > BULK_WIRE_BODY_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    struct pack_reader reader;
    pack_reader_init(&reader, head, head_bytes);
    uint32_t elements = pack_read_array(&reader);
    uint64_t version = pack_read_u64(&reader);
    struct bulk_message message = {0};
    message.kind = (uint8_t)pack_read_u64_max(&reader, UINT8_MAX);
    message.tag = (uint32_t)pack_read_u64_max(&reader, UINT32_MAX);
    if (reader.failed || elements < 3 || version == 0) {
        return ERR_MALFORMED;
    }
    int arguments = argument_count(message.kind);
    if (version != BULK_WIRE_VERSION || arguments < 0) {
        *out = message;
        return ERR_VERSION;
    }
    if (elements < 3u + (uint32_t)arguments || has_body(message.kind) != (body != NULL)) {
        return ERR_MALFORMED;
    }
    read_arguments(&reader, &message);
    for (uint32_t i = 3u + (uint32_t)arguments; i < elements && !reader.failed; i++) {
        pack_skip(&reader); /* elements that a later minor change may add */
    }
    if (!pack_at_end(&reader)) {
        return ERR_MALFORMED;
    }
    if ((message.kind == BULK_APPEND || message.kind == BULK_ITEMS) && !entries_are_good(body, body_bytes)) {
        return ERR_MALFORMED;
    }
    message.body = body;
    message.body_bytes = body_bytes;
    *out = message;
    return 0;
}

#include "gossip/record.h"

#include <sodium/crypto_generichash.h>

#include "base/err.h"

int record_length(const uint8_t *bytes, size_t count, size_t *out)
{
    if (count < RECORD_HEAD_BYTES || bytes[0] != 1) {
        return ERR_MALFORMED;
    }
    size_t key_bytes = bytes[RECORD_HEAD_BYTES - 1];
    size_t body_at = RECORD_HEAD_BYTES + key_bytes + 2;
    if (key_bytes > RECORD_KEY_BYTES_MAX || count < body_at) {
        return ERR_MALFORMED;
    }
    size_t body_bytes = bytes_get_u16(bytes + body_at - 2);
    size_t length = body_at + body_bytes + RECORD_SIGNATURE_BYTES;
    if (body_bytes > RECORD_BODY_BYTES_MAX || count < length) {
        return ERR_MALFORMED;
    }
    *out = length;
    return 0;
}

int record_decode(const uint8_t *envelope, size_t count, struct record *out)
{
    size_t length;
    int error = record_length(envelope, count, &length);
    if (error != 0 || length != count) {
        return ERR_MALFORMED;
    }
    struct record record = {.kind = bytes_get_u16(envelope + 1)};
    memcpy(record.writer.bytes, envelope + 3, NODE_ID_BYTES);
    record.version.boot = bytes_get_u64(envelope + 3 + NODE_ID_BYTES);
    record.version.seq = bytes_get_u64(envelope + 11 + NODE_ID_BYTES);
    record.key_bytes = envelope[RECORD_HEAD_BYTES - 1];
    record.key = envelope + RECORD_HEAD_BYTES;
    record.body_bytes = bytes_get_u16(record.key + record.key_bytes);
    record.body = record.key + record.key_bytes + 2;
    *out = record;
    return 0;
}

size_t record_encode(const struct record *record, uint8_t *out, size_t capacity)
{
    size_t length = RECORD_HEAD_BYTES + (size_t)record->key_bytes + 2 + record->body_bytes + RECORD_SIGNATURE_BYTES;
    if (record->key_bytes > RECORD_KEY_BYTES_MAX || record->body_bytes > RECORD_BODY_BYTES_MAX || length > capacity) {
        return 0;
    }
    uint8_t *p = out;
    *p++ = 1;
    bytes_put_u16(p, record->kind);
    p += 2;
    memcpy(p, record->writer.bytes, NODE_ID_BYTES);
    p += NODE_ID_BYTES;
    bytes_put_u64(p, record->version.boot);
    bytes_put_u64(p + 8, record->version.seq);
    p += 16;
    *p++ = record->key_bytes;
    if (record->key_bytes > 0) {
        memcpy(p, record->key, record->key_bytes);
    }
    p += record->key_bytes;
    bytes_put_u16(p, record->body_bytes);
    p += 2;
    if (record->body_bytes > 0) {
        memcpy(p, record->body, record->body_bytes);
    }
    p += record->body_bytes;
    memset(p, 0, RECORD_SIGNATURE_BYTES);
    return length;
}

record_ident record_ident_of(node_id writer, uint16_t kind, const uint8_t *key, uint8_t key_bytes)
{
    uint8_t bytes[NODE_ID_BYTES + 2 + 255];
    memcpy(bytes, writer.bytes, NODE_ID_BYTES);
    bytes_put_u16(bytes + NODE_ID_BYTES, kind);
    if (key_bytes > 0) {
        memcpy(bytes + NODE_ID_BYTES + 2, key, key_bytes);
    }
    record_ident ident;
    (void)crypto_generichash(ident.bytes, sizeof ident.bytes, bytes, NODE_ID_BYTES + 2u + key_bytes, NULL, 0);
    return ident;
}

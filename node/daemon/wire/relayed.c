#include "node/daemon/wire/relayed.h"

#include <string.h>

#include "base/err.h"

size_t relayed_pack(const struct relayed *relayed, uint8_t out[RELAYED_QUESTION_BYTES])
{
    struct pack_writer writer;
    pack_writer_init(&writer, out, RELAYED_QUESTION_BYTES);
    pack_array(&writer, 2);
    pack_bin(&writer, relayed->token, sizeof relayed->token);
    pack_bin(&writer, relayed->request, relayed->request_bytes);
    return writer.failed ? 0 : writer.used_bytes;
}

int relayed_read(const uint8_t *bytes, size_t count, struct relayed *out)
{
    struct pack_reader reader;
    struct relayed read;
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    pack_read_bin_exact(&reader, read.token, sizeof read.token);
    read.request = pack_read_bin(&reader, &read.request_bytes);
    if (reader.failed || elements < 2 || read.request_bytes == 0 || read.request_bytes > RELAYED_REQUEST_BYTES) {
        return ERR_MALFORMED;
    }
    *out = read;
    return 0;
}

static bool is_of_each_reply(const char *key, size_t bytes)
{
    return pack_text_is(key, bytes, "id") || pack_text_is(key, bytes, "ok") || pack_text_is(key, bytes, "end");
}

int relayed_reply_read(const uint8_t *bytes, size_t count, struct relayed_reply *out)
{
    struct pack_reader reader, ok, end, code, error;
    struct relayed_reply read = {.ok = false};
    pack_reader_init(&reader, bytes, count);
    const struct pack_reader map = reader;
    uint32_t pairs = pack_read_map(&reader);
    for (uint32_t i = 0; i < pairs && !reader.failed; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(&reader, &key_bytes);
        (void)pack_read_any(&reader, &value_bytes);
        read.pairs += !reader.failed && !is_of_each_reply(key, key_bytes);
    }
    ok = pack_find(&map, "ok");
    end = pack_find(&map, "end");
    read.ok = pack_read_bool(&ok);
    bool is_last = pack_read_bool(&end);
    if (reader.failed || !pack_at_end(&reader) || ok.failed || end.failed || !is_last) {
        return ERR_MALFORMED;
    }
    if (!read.ok) {
        code = pack_find(&map, "code");
        error = pack_find(&map, "error");
        read.code = pack_read_u64(&code);
        read.error = pack_read_text(&error, &read.error_bytes);
        if (code.failed || error.failed) {
            return ERR_MALFORMED;
        }
    }
    *out = read;
    return 0;
}

void relayed_reply_copy(const uint8_t *bytes, size_t count, struct pack_writer *writer)
{
    struct pack_reader reader;
    pack_reader_init(&reader, bytes, count);
    uint32_t pairs = pack_read_map(&reader);
    for (uint32_t i = 0; i < pairs && !reader.failed; i++) {
        size_t key_bytes, value_bytes;
        const char *key = pack_read_text(&reader, &key_bytes);
        const uint8_t *value = pack_read_any(&reader, &value_bytes);
        if (!reader.failed && !is_of_each_reply(key, key_bytes)) {
            pack_text_n(writer, key, key_bytes);
            pack_raw(writer, value, value_bytes);
        }
    }
}

#include "node/keep/shell_wire.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/pack.h"

#define VERSION 1

static void encode_run(struct pack_writer *writer, const struct shell_frame *frame)
{
    const char *word = frame->words;
    pack_array(writer, 6);
    pack_u64(writer, VERSION);
    pack_bool(writer, frame->has_terminal);
    pack_u64(writer, frame->window.rows);
    pack_u64(writer, frame->window.columns);
    pack_text(writer, frame->term);
    pack_array(writer, frame->word_count);
    for (uint32_t i = 0; i < frame->word_count; i++) {
        pack_text(writer, word);
        word += strlen(word) + 1;
    }
}

int shell_frame_encode(const struct shell_frame *frame, uint8_t *out, size_t capacity, size_t *count)
{
    struct pack_writer writer;
    size_t used = 1;
    if (capacity < 8 || frame->count > capacity - 1) {
        return ERR_FULL;
    }
    out[0] = frame->kind;
    switch (frame->kind) {
    case SHELL_RUN:
        pack_writer_init(&writer, out + 1, capacity - 1);
        encode_run(&writer, frame);
        if (writer.failed) {
            return ERR_FULL;
        }
        used += writer.used_bytes;
        break;
    case SHELL_WINDOW:
        bytes_put_u16(out + 1, frame->window.rows);
        bytes_put_u16(out + 3, frame->window.columns);
        used += 4;
        break;
    case SHELL_SIGNAL:
        out[1] = (uint8_t)frame->signal;
        used += 1;
        break;
    case SHELL_EXIT:
        bytes_put_u32(out + 1, (uint32_t)frame->code);
        used += 4;
        break;
    default:
        if (frame->count > 0) {
            memcpy(out + 1, frame->bytes, frame->count);
        }
        used += frame->count;
        break;
    }
    *count = used;
    return 0;
}

static int decode_run(const uint8_t *bytes, size_t count, struct shell_frame *out)
{
    struct pack_reader reader;
    size_t used = 0;
    pack_reader_init(&reader, bytes, count);
    uint32_t elements = pack_read_array(&reader);
    uint64_t version = pack_read_u64(&reader);
    out->has_terminal = pack_read_bool(&reader);
    out->window.rows = (uint16_t)pack_read_u64_max(&reader, UINT16_MAX);
    out->window.columns = (uint16_t)pack_read_u64_max(&reader, UINT16_MAX);
    pack_read_text_copy(&reader, out->term, sizeof out->term);
    out->word_count = pack_read_array(&reader);
    if (reader.failed || elements < 6 || version == 0 || out->word_count == 0 || out->word_count > SHELL_WORDS_MAX) {
        return ERR_MALFORMED;
    }
    for (uint32_t i = 0; i < out->word_count; i++) {
        size_t length;
        const char *word = pack_read_text(&reader, &length);
        if (reader.failed || memchr(word, '\0', length) != NULL || length >= sizeof out->words - used) {
            return ERR_MALFORMED;
        }
        memcpy(out->words + used, word, length);
        out->words[used + length] = '\0';
        used += length + 1;
    }
    for (uint32_t i = 6; i < elements; i++) {
        pack_skip(&reader); /* of a later version */
    }
    return pack_at_end(&reader) ? 0 : ERR_MALFORMED;
}

int shell_frame_decode(const uint8_t *bytes, size_t count, struct shell_frame *out)
{
    if (count == 0 || count > SHELL_FRAME_BYTES_MAX) {
        return ERR_MALFORMED;
    }
    memset(out, 0, offsetof(struct shell_frame, words));
    out->kind = bytes[0];
    const uint8_t *rest = bytes + 1;
    size_t rest_bytes = count - 1;
    switch (out->kind) {
    case SHELL_RUN:
        return decode_run(rest, rest_bytes, out);
    case SHELL_WINDOW:
        if (rest_bytes < 4) {
            return ERR_MALFORMED;
        }
        out->window = (struct shell_window){bytes_get_u16(rest), bytes_get_u16(rest + 2)};
        return 0;
    case SHELL_SIGNAL:
        out->signal = rest_bytes > 0 ? rest[0] : 0;
        return out->signal >= 1 && out->signal <= 31 ? 0 : ERR_MALFORMED;
    case SHELL_EXIT:
        if (rest_bytes < 4) {
            return ERR_MALFORMED;
        }
        out->code = (int32_t)bytes_get_u32(rest);
        return 0;
    default:
        out->bytes = rest;
        out->count = rest_bytes;
        return 0;
    }
}

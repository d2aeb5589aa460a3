#include "train/shoal/hparams.h"

#include <string.h>

#include "base/bytes.h"
#include "base/err.h"
#include "base/number.h"

#define DEPTH_MAX 16
#define TEXT_BYTES_MAX 4096

struct json {
    const char *at;
    struct pack_writer *writer;
    char text[TEXT_BYTES_MAX];
};

static void skip_space(struct json *j)
{
    while (*j->at == ' ' || *j->at == '\t' || *j->at == '\n' || *j->at == '\r') {
        j->at++;
    }
}

static int hex4(const char *digits, uint32_t *out)
{
    char four[5] = {0};
    uint8_t bytes[2];
    memcpy(four, digits, strnlen(digits, 4));
    if (bytes_from_hex(bytes, 2, four) != 0) {
        return ERR_MALFORMED;
    }
    *out = bytes_get_u16(bytes);
    return 0;
}

/* `\uXXXX` at j->at (after the backslash), with its second half if it is a surrogate pair. */
static int json_escape_unicode(struct json *j, char *out, size_t *bytes)
{
    uint32_t code;
    if (hex4(j->at + 1, &code) != 0) {
        return ERR_MALFORMED;
    }
    j->at += 5;
    if (code >= 0xd800 && code < 0xe000) {
        uint32_t low;
        if (code >= 0xdc00 || j->at[0] != '\\' || j->at[1] != 'u' || hex4(j->at + 2, &low) != 0 || low < 0xdc00 ||
            low >= 0xe000) {
            return ERR_MALFORMED;
        }
        j->at += 6;
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *bytes = bytes_put_utf8(out, code);
    return 0;
}

/* Reads a string into j->text. */
static int json_text(struct json *j, size_t *bytes)
{
    static const char escapes[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
    size_t used = 0;
    if (*j->at++ != '"') {
        return ERR_MALFORMED;
    }
    while (*j->at != '"') {
        if ((unsigned char)*j->at < 0x20 || used + 4 > sizeof j->text) {
            return ERR_MALFORMED; /* also at the end of the text (NUL) */
        }
        if (*j->at != '\\') {
            j->text[used++] = *j->at++;
            continue;
        }
        j->at++;
        if (*j->at == 'u') {
            size_t n;
            if (json_escape_unicode(j, j->text + used, &n) != 0) {
                return ERR_MALFORMED;
            }
            used += n;
            continue;
        }
        const char *found = *j->at != 0 ? strchr(escapes, *j->at) : NULL;
        if (found == NULL) {
            return ERR_MALFORMED;
        }
        j->text[used++] = meanings[found - escapes];
        j->at++;
    }
    j->at++;
    *bytes = used;
    return 0;
}

static int json_number(struct json *j)
{
    size_t length = strspn(j->at, "+-0123456789.eE");
    double value;
    if (length == 0 || number_parse(j->at, length, &value) != 0) {
        return ERR_MALFORMED;
    }
    bool whole = memchr(j->at, '.', length) == NULL && memchr(j->at, 'e', length) == NULL &&
                 memchr(j->at, 'E', length) == NULL && value >= -9007199254740992.0 && value <= 9007199254740992.0;
    if (whole) {
        pack_i64(j->writer, (int64_t)value);
    } else {
        pack_double(j->writer, value);
    }
    j->at += length;
    return 0;
}

static int json_value(struct json *j, unsigned depth);

/* An object or a list. Its count is known only at the end, so the head is written with room and filled in later. */
static int json_container(struct json *j, unsigned depth, char close_sign)
{
    uint8_t head[5] = {close_sign == '}' ? 0xdf : 0xdd, 0, 0, 0, 0};
    size_t head_at = j->writer->used_bytes;
    uint32_t count = 0;
    pack_raw(j->writer, head, sizeof head);
    j->at++;
    skip_space(j);
    while (*j->at != close_sign) {
        if (count > 0) {
            if (*j->at++ != ',') {
                return ERR_MALFORMED;
            }
            skip_space(j);
        }
        if (close_sign == '}') {
            size_t bytes;
            if (json_text(j, &bytes) != 0) {
                return ERR_MALFORMED;
            }
            pack_text_n(j->writer, j->text, bytes);
            skip_space(j);
            if (*j->at++ != ':') {
                return ERR_MALFORMED;
            }
        }
        int error = json_value(j, depth + 1);
        if (error != 0) {
            return error;
        }
        count++;
        skip_space(j);
    }
    j->at++;
    if (j->writer->failed) {
        return ERR_FULL;
    }
    bytes_put_u32(j->writer->bytes + head_at + 1, count);
    return 0;
}

static int json_word(struct json *j, const char *word)
{
    size_t length = strlen(word);
    if (strncmp(j->at, word, length) != 0) {
        return ERR_MALFORMED;
    }
    j->at += length;
    return 0;
}

static int json_value(struct json *j, unsigned depth)
{
    if (depth > DEPTH_MAX) {
        return ERR_MALFORMED;
    }
    skip_space(j);
    size_t bytes;
    switch (*j->at) {
    case '{':
        return json_container(j, depth, '}');
    case '[':
        return json_container(j, depth, ']');
    case '"':
        if (json_text(j, &bytes) != 0) {
            return ERR_MALFORMED;
        }
        pack_text_n(j->writer, j->text, bytes);
        return 0;
    case 't':
        pack_bool(j->writer, true);
        return json_word(j, "true");
    case 'f':
        pack_bool(j->writer, false);
        return json_word(j, "false");
    case 'n':
        pack_nil(j->writer);
        return json_word(j, "null");
    default:
        return json_number(j);
    }
}

int hparams_from_json(const char *text, struct pack_writer *writer)
{
    struct json j = {.at = text, .writer = writer};
    skip_space(&j);
    if (*j.at != '{') {
        return ERR_MALFORMED;
    }
    int error = json_value(&j, 0);
    if (error != 0) {
        return error;
    }
    skip_space(&j);
    if (*j.at != 0) {
        return ERR_MALFORMED;
    }
    return writer->failed ? ERR_FULL : 0;
}

int hparams_find(const uint8_t *bytes, size_t count, const char *path, struct pack_reader *out)
{
    struct pack_reader here;
    pack_reader_init(&here, bytes, count);
    for (;;) {
        char name[128];
        size_t length = strcspn(path, ".");
        if (pack_peek(&here) != PACK_MAP || length >= sizeof name) {
            return ERR_MALFORMED;
        }
        bytes_copy_text_n(name, sizeof name, path, length);
        here = pack_find(&here, name);
        if (here.failed || pack_peek(&here) == PACK_NIL) {
            return ERR_NOT_FOUND;
        }
        if (path[length] == 0) {
            *out = here;
            return 0;
        }
        path += length + 1;
    }
}

int hparams_read_int(struct pack_reader *value, int64_t *out)
{
    int64_t whole;
    if (pack_peek(value) == PACK_DOUBLE) {
        double real = pack_read_double(value);
        if (!(real >= -9007199254740992.0 && real <= 9007199254740992.0)) {
            return ERR_MALFORMED;
        }
        whole = (int64_t)real;
        if ((double)whole != real) {
            return ERR_MALFORMED;
        }
    } else {
        whole = pack_read_i64(value);
    }
    if (value->failed) {
        return ERR_MALFORMED;
    }
    *out = whole;
    return 0;
}

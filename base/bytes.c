#include "base/bytes.h"

#include <string.h>

#include "base/err.h"

void bytes_put_u16(uint8_t out[2], uint16_t value)
{
    out[0] = (uint8_t)(value >> 8);
    out[1] = (uint8_t)value;
}

void bytes_put_u32(uint8_t out[4], uint32_t value)
{
    bytes_put_u16(out, (uint16_t)(value >> 16));
    bytes_put_u16(out + 2, (uint16_t)value);
}

void bytes_put_u64(uint8_t out[8], uint64_t value)
{
    bytes_put_u32(out, (uint32_t)(value >> 32));
    bytes_put_u32(out + 4, (uint32_t)value);
}

uint16_t bytes_get_u16(const uint8_t in[2])
{
    return (uint16_t)((in[0] << 8) | in[1]);
}

uint32_t bytes_get_u32(const uint8_t in[4])
{
    return ((uint32_t)bytes_get_u16(in) << 16) | bytes_get_u16(in + 2);
}

uint64_t bytes_get_u64(const uint8_t in[8])
{
    return ((uint64_t)bytes_get_u32(in) << 32) | bytes_get_u32(in + 4);
}

void bytes_to_hex(char *out, const uint8_t *bytes, size_t count)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[2 * count] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

int bytes_from_hex(uint8_t *out, size_t count, const char *hex)
{
    for (size_t i = 0; i < count; i++) {
        int high = hex_digit(hex[2 * i]);
        int low = high < 0 ? -1 : hex_digit(hex[2 * i + 1]);
        if (low < 0) {
            return ERR_MALFORMED;
        }
        out[i] = (uint8_t)(high * 16 + low);
    }
    return hex[2 * count] == '\0' ? 0 : ERR_MALFORMED;
}

bool bytes_copy_text_n(char *out, size_t size, const char *text, size_t text_bytes)
{
    size_t length = strnlen(text, text_bytes);
    size_t kept = length < size ? length : size - 1;
    memcpy(out, text, kept);
    memset(out + kept, 0, size - kept);
    return kept == length;
}

bool bytes_copy_text(char *out, size_t size, const char *text)
{
    return bytes_copy_text_n(out, size, text, strlen(text));
}

uint64_t bytes_hash64(const void *bytes, size_t count, uint64_t seed)
{
    const uint8_t *p = bytes;
    uint64_t h = 0xcbf29ce484222325u ^ (seed * 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < count; i++) {
        h = (h ^ p[i]) * 0x100000001b3u;
    }
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

size_t bytes_whole_utf8(const char *text, size_t bytes)
{
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        uint8_t byte = (uint8_t)text[bytes - back];
        size_t wants = byte >= 0xf0 && byte < 0xf8 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
        if (byte >= 0xc0 && byte < 0xf8) {
            return wants > back ? bytes - back : bytes;
        }
        if (byte < 0x80) {
            return bytes;
        }
    }
    return bytes;
}

size_t bytes_utf8(const uint8_t *p, size_t left)
{
    if (p[0] < 0x80) {
        return 1;
    }
    size_t count = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : p[0] >= 0xe0 && p[0] <= 0xef ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
    if (count == 0 || count > left) {
        return 0;
    }
    for (size_t i = 1; i < count; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
               (p[0] == 0xf4 && p[1] > 0x8f);
    return bad ? 0 : count;
}

size_t bytes_put_utf8(char out[4], uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

#include "base/visible.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PIECE_BYTES 4 /* the longest piece: an escape, or a character of UTF-8 */
#define GAP " ... "

/* The bytes of one well-formed character of UTF-8 that is no control character; 0: there is none at `s`. */
static size_t character_bytes(const unsigned char *s)
{
    if (s[0] < 0x80) {
        return s[0] >= 0x20 && s[0] != 0x7f ? 1 : 0;
    }
    size_t bytes = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    uint32_t value = s[0] & (0x7fu >> bytes);
    if (s[0] < 0xc2 || s[0] > 0xf4) {
        return 0;
    }
    for (size_t i = 1; i < bytes; i++) {
        if ((s[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (s[i] & 0x3f);
    }
    bool is_short = (bytes == 3 && value < 0x800) || (bytes == 4 && (value < 0x10000 || value > 0x10ffff));
    bool is_control = value < 0xa0 || (value >= 0x2028 && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
    return is_short || is_control || (value >= 0xd800 && value <= 0xdfff) ? 0 : bytes;
}

/* The next piece of the output; returns the bytes of the input that it stands for. */
static size_t piece_of(const unsigned char *s, char piece[PIECE_BYTES], size_t *piece_bytes)
{
    static const char hex[] = "0123456789abcdef";
    size_t bytes = s[0] == '\\' ? 0 : character_bytes(s);
    if (bytes > 0) {
        memcpy(piece, s, bytes);
        *piece_bytes = bytes;
        return bytes;
    }
    char letter = s[0] == '\n' ? 'n' : s[0] == '\t' ? 't' : s[0] == '\r' ? 'r' : s[0] == '\\' ? '\\' : 'x';
    piece[0] = '\\';
    piece[1] = letter;
    *piece_bytes = 2;
    if (letter == 'x') {
        piece[2] = hex[s[0] >> 4];
        piece[3] = hex[s[0] & 15];
        *piece_bytes = 4;
    }
    return 1;
}

size_t visible_text(char *out, size_t size, const char *bytes)
{
    char piece[PIECE_BYTES];
    size_t piece_bytes, total = 0;
    const unsigned char *s = (const unsigned char *)bytes;
    for (const unsigned char *at = s; *at != '\0'; total += piece_bytes) {
        at += piece_of(at, piece, &piece_bytes);
    }
    bool is_cut = total >= size;
    size_t room = size - 1 - (is_cut ? sizeof GAP - 1 : 0), head = is_cut ? room / 2 : total, used = 0, seen = 0;
    size_t tail_from = is_cut ? total - (room - head) : 0; /* pieces that begin at or behind this place are written again */
    bool has_gap = false;
    for (const unsigned char *at = s; *at != '\0'; seen += piece_bytes) {
        at += piece_of(at, piece, &piece_bytes);
        bool is_head = seen + piece_bytes <= head;
        if (is_cut && !is_head && !has_gap) {
            memcpy(out + used, GAP, sizeof GAP - 1);
            used += sizeof GAP - 1;
            has_gap = true;
        }
        if (is_head || (is_cut && seen >= tail_from)) {
            memcpy(out + used, piece, piece_bytes);
            used += piece_bytes;
        }
    }
    out[used] = '\0';
    return used;
}

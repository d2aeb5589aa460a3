#ifndef BASE_BYTES_H
#define BASE_BYTES_H
/* Bytes: big-endian integers, hexadecimal text, bounded string copies. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Write and read unsigned integers in big-endian order. */
void bytes_put_u16(uint8_t out[2], uint16_t value);
void bytes_put_u32(uint8_t out[4], uint32_t value);
void bytes_put_u64(uint8_t out[8], uint64_t value);
uint16_t bytes_get_u16(const uint8_t in[2]);
uint32_t bytes_get_u32(const uint8_t in[4]);
uint64_t bytes_get_u64(const uint8_t in[8]);

/* Writes 2 * count lower-case digits and a NUL: `out` holds 2 * count + 1 chars. */
void bytes_to_hex(char *out, const uint8_t *bytes, size_t count);

/* Reads exactly 2 * count hexadecimal digits (either case) that end in NUL. 0, or ERR_MALFORMED: `out` is then
 * undefined. */
int bytes_from_hex(uint8_t *out, size_t count, const char *hex);

/* Copies at most size - 1 chars of `text`; `out` always ends in NUL, and the rest of it is zeroed, so that structs with
 * such fields can be compared by bytes and leave the process without stray memory. True if all of `text` fitted. */
bool bytes_copy_text(char *out, size_t size, const char *text);

/* As bytes_copy_text, for `text_bytes` chars that need no NUL at the end. Stops at an embedded NUL. */
bool bytes_copy_text_n(char *out, size_t size, const char *text, size_t text_bytes);

/* 64-bit FNV-1a with a final avalanche: for hash tables and seeds, never for security. */
uint64_t bytes_hash64(const void *bytes, size_t count, uint64_t seed);

/* The length of the text without a last character of UTF-8 that has only begun, for a text that is cut into pieces. Bytes that
 * are no UTF-8 stay. */
size_t bytes_whole_utf8(const char *text, size_t bytes);

/* The length of the UTF-8 sequence at `p`, of `left` bytes, at least one; 0: there is none. No stray or overlong bytes, surrogates, or
 * values above U+10FFFF (RFC 3629, section 4). */
size_t bytes_utf8(const uint8_t *p, size_t left);

/* Writes the character as UTF-8, without a NUL, and returns its length, 1 to 4. `code`: at most 0x10ffff. */
size_t bytes_put_utf8(char out[4], uint32_t code);

#endif

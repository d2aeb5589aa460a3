#ifndef BASE_PACK_H
#define BASE_PACK_H
/* MessagePack without allocation: a writer into a caller's buffer and a bounded reader over bytes from anywhere.
 *
 * Cores, record bodies, messages and libshoal use this, because msgpack-c's unpacker allocates from bytes of the
 * network; where documents are dynamic (node/render, tools/) msgpack-c is used. tests/unit compares the two.
 *
 * Both sides are sticky: after the first failure every further call does nothing (reads return 0, empty or nil), and
 * one look at `failed` at the end is enough. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack_writer {
    uint8_t *bytes;
    size_t capacity_bytes;
    size_t used_bytes;
    bool failed; /* the buffer was too small */
};

void pack_writer_init(struct pack_writer *writer, uint8_t *bytes, size_t capacity_bytes);
void pack_nil(struct pack_writer *writer);
void pack_bool(struct pack_writer *writer, bool value);
void pack_u64(struct pack_writer *writer, uint64_t value);
void pack_i64(struct pack_writer *writer, int64_t value);
void pack_double(struct pack_writer *writer, double value);
void pack_text(struct pack_writer *writer, const char *text); /* NUL-terminated */
void pack_text_n(struct pack_writer *writer, const char *text, size_t bytes);
void pack_bin(struct pack_writer *writer, const void *bytes, size_t count);
void pack_array(struct pack_writer *writer, uint32_t count); /* then `count` values */
void pack_map(struct pack_writer *writer, uint32_t count);   /* then `count` times text key, value */
void pack_raw(struct pack_writer *writer, const uint8_t *bytes, size_t count); /* bytes that are MessagePack already */

enum pack_type { PACK_NIL, PACK_BOOL, PACK_U64, PACK_I64, PACK_DOUBLE, PACK_TEXT, PACK_BIN, PACK_ARRAY, PACK_MAP, PACK_BAD };

struct pack_reader {
    const uint8_t *bytes; /* borrowed */
    size_t count;
    size_t offset;
    bool failed; /* malformed, cut short, of another type, or out of range */
};

void pack_reader_init(struct pack_reader *reader, const uint8_t *bytes, size_t count);

/* The type of the next value without taking it; PACK_BAD at the end or after a failure. Non-negative integers are
 * PACK_U64 however they were written. */
enum pack_type pack_peek(const struct pack_reader *reader);

void pack_read_nil(struct pack_reader *reader);
bool pack_read_bool(struct pack_reader *reader);
uint64_t pack_read_u64(struct pack_reader *reader);
uint64_t pack_read_u64_max(struct pack_reader *reader, uint64_t max); /* fails above `max` */
int64_t pack_read_i64(struct pack_reader *reader);
double pack_read_double(struct pack_reader *reader); /* integers are converted */

/* Points into the reader's bytes, not NUL-terminated; `*bytes` is the length. */
const char *pack_read_text(struct pack_reader *reader, size_t *bytes);

/* Copies with a NUL and zero padding; fails when it does not fit or holds a NUL. */
void pack_read_text_copy(struct pack_reader *reader, char *out, size_t size);

const uint8_t *pack_read_bin(struct pack_reader *reader, size_t *count);
void pack_read_bin_exact(struct pack_reader *reader, void *out, size_t count); /* fails on another length */

/* The number of elements (array) or pairs (map). Fails if more are announced than bytes remain. */
uint32_t pack_read_array(struct pack_reader *reader);
uint32_t pack_read_map(struct pack_reader *reader);

/* Takes one value of any type with all that is in it, to a depth of 32, and points at its bytes. */
const uint8_t *pack_read_any(struct pack_reader *reader, size_t *count);
void pack_skip(struct pack_reader *reader);

/* True if nothing failed and every byte was taken. */
bool pack_at_end(const struct pack_reader *reader);

/* In a map (the next value of `*reader`), finds `key` and returns a reader on its value; a failed one if absent. */
struct pack_reader pack_find(const struct pack_reader *reader, const char *key);

/* True when the text is the given one. */
bool pack_text_is(const char *text, size_t bytes, const char *expected);

#endif

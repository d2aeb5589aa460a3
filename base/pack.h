#ifndef BASE_PACK_H
#define BASE_PACK_H
/* MessagePack without allocation: a writer into a caller's buffer, and a bounded reader of bytes from any source.
 *
 * Cores, record bodies, messages, requests and libshoal use these functions, because msgpack-c's unpacker allocates from bytes
 * of the network; the daemon's documents are written (node/daemon/render) and read (tools/shoal) with msgpack-c. tests/unit
 * compares the two.
 *
 * Errors are sticky on both sides: after the first failure every further call does nothing (a read returns 0, an empty
 * value or nil), so one look at `failed` at the end is enough. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A writer over a buffer of the caller; the message is the first used_bytes of `bytes`. */
struct pack_writer {
    uint8_t *bytes;
    size_t capacity_bytes;
    size_t used_bytes;
    bool failed; /* the buffer was too small */
};

/* Starts an empty writer over a buffer of the caller, which is borrowed. */
void pack_writer_init(struct pack_writer *writer, uint8_t *bytes, size_t capacity_bytes);

/* Each pack_ function appends one value in its shortest form. If the buffer is too small, `failed` is set, and what was
 * written is not a message. */
void pack_nil(struct pack_writer *writer);
void pack_bool(struct pack_writer *writer, bool value);
void pack_u64(struct pack_writer *writer, uint64_t value);
void pack_i64(struct pack_writer *writer, int64_t value);
void pack_double(struct pack_writer *writer, double value);
void pack_text(struct pack_writer *writer, const char *text); /* `text` ends in NUL */
void pack_text_n(struct pack_writer *writer, const char *text, size_t bytes);
void pack_bin(struct pack_writer *writer, const void *bytes, size_t count);
void pack_array(struct pack_writer *writer, uint32_t count); /* the next `count` values are its elements */
void pack_map(struct pack_writer *writer, uint32_t count);   /* then `count` pairs of a text key and a value */
void pack_raw(struct pack_writer *writer, const uint8_t *bytes, size_t count); /* appends bytes that are MessagePack already */

enum pack_type { PACK_NIL, PACK_BOOL, PACK_U64, PACK_I64, PACK_DOUBLE, PACK_TEXT, PACK_BIN, PACK_ARRAY, PACK_MAP, PACK_BAD };

/* A reader; a plain value, so a copy of it reads the same values again. */
struct pack_reader {
    const uint8_t *bytes; /* borrowed: must outlive the reader and every pointer that it returned */
    size_t count;
    size_t offset;
    bool failed; /* the bytes were malformed, cut short, of another type or out of range */
};

/* Starts at the first of `count` bytes, which are borrowed. */
void pack_reader_init(struct pack_reader *reader, const uint8_t *bytes, size_t count);

/* The type of the next value, without taking the value; PACK_BAD at the end or after a failure. A non-negative integer
 * is PACK_U64 however it was written. */
enum pack_type pack_peek(const struct pack_reader *reader);

/* Each pack_read_ function takes the next value, or sets `failed` and returns 0 (false, an empty text or zeroes) if the
 * value has another type. */
void pack_read_nil(struct pack_reader *reader);
bool pack_read_bool(struct pack_reader *reader);
uint64_t pack_read_u64(struct pack_reader *reader);
uint64_t pack_read_u64_max(struct pack_reader *reader, uint64_t max); /* fails above `max` */
int64_t pack_read_i64(struct pack_reader *reader);
double pack_read_double(struct pack_reader *reader); /* integers are converted */

/* Points into the reader's bytes, without a NUL at the end; `*bytes` is the length. */
const char *pack_read_text(struct pack_reader *reader, size_t *bytes);

/* Copies a text to `out`, padded with zeroes and always with a NUL. Fails, with an empty `out`, when the text does not
 * fit or contains a NUL. */
void pack_read_text_copy(struct pack_reader *reader, char *out, size_t size);

/* Points into the reader's bytes; `*count` is the length. */
const uint8_t *pack_read_bin(struct pack_reader *reader, size_t *count);

/* Fails on any other length; `out` is then zeroed. */
void pack_read_bin_exact(struct pack_reader *reader, void *out, size_t count);

/* Takes the head of an array or a map and returns the number of its elements or pairs, which the caller reads next.
 * Fails if the head announces more elements than the remaining bytes can hold. */
uint32_t pack_read_array(struct pack_reader *reader);
uint32_t pack_read_map(struct pack_reader *reader);

/* Takes one value of any type with everything in it, to a depth of 32, and returns its bytes, inside the reader's
 * bytes. */
const uint8_t *pack_read_any(struct pack_reader *reader, size_t *count);

/* Takes one value of any type and drops it. */
void pack_skip(struct pack_reader *reader);

/* True if nothing failed and every byte was taken: the check at the end of a message. */
bool pack_at_end(const struct pack_reader *reader);

/* Finds `key` in the map that is the next value of `*reader`, which is not moved. Returns a reader on the key's value;
 * if the key is absent or the bytes are malformed, a reader that has failed. */
struct pack_reader pack_find(const struct pack_reader *reader, const char *key);

/* True if the `bytes` chars at `text` are the NUL-terminated `expected`. */
bool pack_text_is(const char *text, size_t bytes, const char *expected);

#endif
